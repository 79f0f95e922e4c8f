//! The `ping` command: measures round-trip times.

use core::time::Duration;
use std::time::Instant;

use clap::Args;
use serde::Serialize;

use crate::args::values::duration_or_zero;
use crate::args::{TargetArgs, usage};
use crate::failure::CommandFailure;
use crate::output::{count, print, print_value};
use crate::session::ClientSession;

/// Measures round-trip times to a server.
#[derive(Debug, Args)]
#[command(override_usage = usage!("mcp-probe ping [OPTIONS]"))]
pub(crate) struct PingArgs {
    /// Sets the number of round trips.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) count: u32,
    /// Sets the pause between two round trips.
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = duration_or_zero)]
    pub(crate) interval: Duration,
    /// Prints one JSON object instead.
    ///
    /// Its members: era, revision, sent, milliseconds (min, median, max).
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Output of `--json`.
#[derive(Serialize)]
struct PingReport {
    era: String,
    revision: String,
    sent: usize,
    milliseconds: RoundTripTimes,
}

#[derive(Clone, Copy, Serialize)]
struct RoundTripTimes {
    min: f64,
    median: f64,
    max: f64,
}

pub(crate) fn run(args: &PingArgs) -> Result<(), CommandFailure> {
    ClientSession::run(&args.target, |session| measure(session, args))
}

fn measure(session: &mut ClientSession, args: &PingArgs) -> Result<(), CommandFailure> {
    let (era, revision) =
        (session.client.peer().era().to_string(), session.client.peer().version.to_string());
    let mut times = Vec::new();
    for n in 0..args.count {
        if n > 0 {
            wait(session, args.interval)?;
        }
        let time = session.client.ping().map_err(|error| session.failure(&error))?;
        if !args.json {
            print(&format!("answered in {}\n", format_millis(time)))?;
        }
        times.push(time);
    }
    let spread = round_trip_times(&mut times);
    if args.json {
        return print_value(&PingReport { era, revision, sent: times.len(), milliseconds: spread });
    }
    let RoundTripTimes { min, median, max } = spread;
    print(&format!(
        "{}, {era} era, revision {revision}: min {min:.3} ms, median {median:.3} ms, max {max:.3} ms\n",
        count(times.len(), "round trip")
    ))
}

/// Waits for `time` while messages of the server are processed.
fn wait(session: &mut ClientSession, time: Duration) -> Result<(), CommandFailure> {
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        session.client.poll(left).map_err(|error| session.failure(&error))?;
    }
}

fn round_trip_times(times: &mut [Duration]) -> RoundTripTimes {
    times.sort_unstable();
    let time = |index: usize| times.get(index).copied().unwrap_or_default();
    let at = |index: usize| round_to_micros(time(index).as_secs_f64() * 1e3);
    RoundTripTimes { min: at(0), median: at(times.len() / 2), max: at(times.len().saturating_sub(1)) }
}

fn format_millis(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// Rounds to whole microseconds; further digits are noise.
fn round_to_micros(millis: f64) -> f64 {
    (millis * 1e3).round() / 1e3
}
