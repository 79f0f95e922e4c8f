//! The `bench` command: measures latencies and throughput of a server.

mod args;
mod drive;
mod processes;
mod report;
mod tally;

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use mcp_proto::RawJson;

use crate::args::Runtime;
use crate::client::Client;
use crate::failure::{CommandFailure, Exit};
use crate::notes;
use crate::output::count;
use crate::session::ClientSession;
use crate::stop::StopSignal;
use crate::tool_arguments::{self, ToolSchemas};
pub(crate) use args::BenchArgs;
use drive::{Pace, Request, Shared};
use processes::ServerUsage;
use report::Report;
use tally::Tally;

/// Time between two looks at the connections and at signals.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long connections may go on after a signal.
const MAX_STUCK: Duration = Duration::from_millis(500);

/// Measures, and prints what was measured.
///
/// # Errors
///
/// Fails if a connection cannot be made, or if more calls have failed than are allowed.
pub(crate) fn run(args: &BenchArgs) -> Result<(), CommandFailure> {
    if args.target.runtime != Runtime::Blocking {
        return Err(CommandFailure::usage("bench measures on the blocking runtime: leave --runtime out"));
    }
    tool_arguments::check_unique(args.arguments.iter().map(|argument| &argument.name))?;
    let object = tool_arguments::read_object(&args.args, &args.target.authorization)?;
    let (tally, run) = measure(args, &object)?;
    let is_interrupted = run.is_interrupted;
    let report = Report::new(args, &tally, run);
    report.print(args.json)?;
    let made = tally.latencies.len() + tally.failed() + tally.unanswered;
    if !is_interrupted && tally.lost > 0 {
        let connections = count(tally.lost, "connection");
        let calls = match args.calls.map(|calls| calls.saturating_sub(made)).filter(|calls| *calls > 0) {
            Some(left) => format!("; calls that were not made: {left}"),
            None => String::new(),
        };
        let why = format!("{connections} ended early{calls}");
        return Err(CommandFailure::new(Exit::Connection, why).after_result());
    }
    if !is_interrupted && made == 0 {
        return Err(CommandFailure::failed("no call was measured").after_result());
    }
    let failed = tally.failed();
    if failed > args.allow_errors {
        let calls = count(failed, "call");
        let why = format!("{calls} failed, and --allow-errors allows {}", args.allow_errors);
        return Err(CommandFailure::failed(why).after_result());
    }
    Ok(())
}

/// The duration of a measurement, how it ended, and the usage of its servers.
struct Run {
    seconds: f64,
    is_interrupted: bool,
    server: Option<ServerUsage>,
}

/// The points at which the threads of a measurement wait for each other.
struct Stages {
    /// All connections are made, or have failed.
    connected: Barrier,
    has_failed: AtomicBool,
    /// Number of connections that still make calls.
    driving: AtomicUsize,
    /// The servers have been looked at, and may end.
    looked_at: Barrier,
}

/// Connects, makes the calls on a thread for each connection, and looks at the servers before they end.
fn measure(args: &BenchArgs, object: &RawJson) -> Result<(Tally, Run), CommandFailure> {
    let signal = StopSignal::new().map_err(|error| CommandFailure::failed(error.to_string()))?;
    let connections = usize::try_from(args.connections).unwrap_or(1);
    let stages = Stages {
        connected: Barrier::new(connections + 1),
        has_failed: AtomicBool::new(false),
        driving: AtomicUsize::new(connections),
        looked_at: Barrier::new(connections + 1),
    };
    let shared = Shared::new(args.calls);
    thread::scope(|scope| {
        let (shared, stages) = (&shared, &stages);
        let workers: Vec<_> = (0..args.connections)
            .map(|index| scope.spawn(move || connect_and_drive(args, object, index, shared, stages)))
            .collect();
        stages.connected.wait();
        let begun = Instant::now();
        signal.set_looping(true);
        let mut interrupted = None;
        let mut server = None;
        while stages.driving.load(Ordering::Acquire) > 0 {
            thread::sleep(LOOK_INTERVAL);
            if signal.is_requested() {
                interrupted.get_or_insert_with(Instant::now);
            }
            shared.is_interrupted.store(interrupted.is_some(), Ordering::Relaxed);
            let is_stuck = interrupted.is_some_and(|at| at.elapsed() > MAX_STUCK);
            if is_stuck && server.is_none() {
                // A server that does not read holds a call back: its end lets it go.
                server = Some(processes::usage());
                end_servers();
            }
        }
        let is_interrupted = interrupted.is_some();
        let until = Instant::now();
        let server = server.unwrap_or_else(processes::usage);
        stages.looked_at.wait();
        let mut all = Tally::new(args.method.is_none())?;
        for worker in workers {
            let tally = worker.join().map_err(|_| CommandFailure::failed("a connection broke off"))?;
            all.add(tally?)?;
        }
        let last = all.last.filter(|_| !is_interrupted).unwrap_or(until);
        // The calls of an open loop take the time in which they are due, however fast the last answer is.
        let since = |instant: Instant| instant.saturating_duration_since(begun + args.warm_up);
        let planned = args.rate.map_or(Duration::ZERO, |rate| planned(args, rate));
        let seconds = since(last).max(planned.min(since(until))).as_secs_f64();
        if is_interrupted {
            notes::print_note("the measurement was ended early by a signal");
        }
        Ok((all, Run { seconds, is_interrupted, server }))
    })
}

/// Returns the time in which the measured calls of an open loop are due.
fn planned(args: &BenchArgs, rate: f64) -> Duration {
    let Some(calls) = args.calls else { return args.time };
    Duration::try_from_secs_f64(calls as f64 / rate).unwrap_or(Duration::MAX)
}

#[cfg(unix)]
fn end_servers() {
    mcp_std::process::terminate_all(crate::stop::SERVER_END_TIMEOUT);
}

/// Without signals nothing is interrupted.
#[cfg(not(unix))]
const fn end_servers() {}

/// Makes one connection and its calls.
fn connect_and_drive(
    args: &BenchArgs,
    object: &RawJson,
    index: u32,
    shared: &Shared,
    stages: &Stages,
) -> Result<Tally, CommandFailure> {
    let connected = connect(args, object);
    if connected.is_err() {
        stages.has_failed.store(true, Ordering::Release);
    }
    stages.connected.wait();
    let mut tally = Tally::new(args.method.is_none());
    if let (Ok((session, request)), Ok(tally), false) =
        (&connected, &mut tally, stages.has_failed.load(Ordering::Acquire))
    {
        let begun = Instant::now();
        let measure_from = begun + args.warm_up;
        let end = args.calls.is_none().then(|| measure_from + args.time);
        let pace = match args.rate {
            None => Pace::Closed { in_flight: usize::try_from(args.in_flight).unwrap_or(1) },
            // The connections take turns.
            Some(rate) => Pace::Open {
                next: begun + Duration::from_secs_f64(f64::from(index) / rate),
                interval: Duration::from_secs_f64(f64::from(args.connections) / rate),
            },
        };
        #[cfg_attr(not(feature = "runtimes"), expect(irrefutable_let_patterns, reason = "no other"))]
        if let Client::Blocking(client) = &session.client {
            drive::drive(client, request, pace, (measure_from, end), shared, tally);
        }
    }
    stages.driving.fetch_sub(1, Ordering::AcqRel);
    stages.looked_at.wait();
    let (session, _) = connected?;
    session.close();
    tally
}

/// Connects, and reads the arguments of the tool as its schema says.
fn connect(args: &BenchArgs, object: &RawJson) -> Result<(ClientSession, Request), CommandFailure> {
    let mut session = ClientSession::open(&args.target, None)?;
    let request = match (&args.tool, args.method) {
        (Some(tool), None) => {
            let schemas = ToolSchemas::fetch(tool, &args.arguments, &mut session);
            let schemas = schemas.map_err(|error| session.failure(&error))?;
            let of = format!("tool `{tool}`");
            let arguments = tool_arguments::merge(&of, &args.arguments, object, schemas.input.as_ref())?;
            Request::Tool { name: tool.clone(), arguments }
        }
        (_, method) => Request::Method(method.map_or("ping", args::Method::as_str)),
    };
    Ok((session, request))
}
