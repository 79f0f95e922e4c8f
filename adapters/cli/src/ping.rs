//! `ping`: round trips that do nothing else

use core::time::Duration;
use std::time::Instant;

use mcp_proto::RawJson;
use serde::Serialize;

use crate::args;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::session::Session;

/// What `--json` prints
#[derive(Serialize)]
struct Report {
    era: String,
    revision: String,
    sent: usize,
    milliseconds: Spread,
}

#[derive(Clone, Copy, Serialize)]
struct Spread {
    min: f64,
    median: f64,
    max: f64,
}

pub(crate) fn run(args: &args::Ping) -> Result<(), Failure> {
    let mut session = Session::open(&args.target, None)?;
    let outcome = measure(&mut session, args);
    session.close();
    outcome
}

fn measure(session: &mut Session, args: &args::Ping) -> Result<(), Failure> {
    let (era, revision) =
        (session.client.peer().era().to_string(), session.client.peer().version.to_string());
    let mut times = Vec::new();
    for n in 0..args.count {
        if n > 0 {
            pause(session, args.interval)?;
        }
        let time = session.client.ping().map_err(|error| session.failure(&error))?;
        if !args.json {
            print(&format!("answered in {}\n", millis(time)))?;
        }
        times.push(time);
    }
    let spread = spread(&mut times);
    if args.json {
        let report = Report { era, revision, sent: times.len(), milliseconds: spread };
        let report = RawJson::encode(&report).map_err(|error| Failure::failed(error.to_string()))?;
        return print_json(&report);
    }
    let Spread { min, median, max } = spread;
    print(&format!(
        "{} round trips, {era} era, revision {revision}: min {min:.3} ms, median {median:.3} ms, max {max:.3} ms\n",
        times.len()
    ))
}

/// Lets time pass, while the server's messages are read
fn pause(session: &mut Session, time: Duration) -> Result<(), Failure> {
    let until = Instant::now() + time;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        session.client.poll(left).map_err(|error| session.failure(&error))?;
    }
}

fn spread(times: &mut [Duration]) -> Spread {
    times.sort_unstable();
    let at = |index: usize| times.get(index).map_or(0.0, |time| round(time.as_secs_f64() * 1e3));
    Spread { min: at(0), median: at(times.len() / 2), max: at(times.len().saturating_sub(1)) }
}

fn millis(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

/// To whole microseconds: more is noise
fn round(millis: f64) -> f64 {
    (millis * 1e3).round() / 1e3
}
