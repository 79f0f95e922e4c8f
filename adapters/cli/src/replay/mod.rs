//! The commands `replay` and `shrink`: a trace is played again, and reduced while it fails.

use core::time::Duration;
use std::fs;
use std::io;
use std::panic;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mcp_proto_trace::engine::{replay, rust_test};
use mcp_proto_trace::io::{answer, play};
use mcp_proto_trace::{Difference, Playback, RecordedServer, Replayed, Side, Trace, shrink};
use mcp_std::io::Stdio;
use mcp_std::process::ShutdownTimeouts;
use serde::Serialize;

use crate::args::{ServerArgs, StderrChoice, duration, usage};
use crate::escape;
use crate::failure::{CommandFailure, Exit};
use crate::notes::{hint_at_terminal, print_note, print_stderr};
use crate::output::{count, create_private_file, print, print_value};
use crate::paint::Paint;
use crate::server::Server;
use crate::trace::read_file;

/// Plays a trace again: into this program, to a server, or to a client.
///
/// What one side said goes to the other one, and what that says is compared with what was recorded: first its bytes, then its
/// value. Ids, progress tokens and states that it allots itself are translated. An engine gets its input with the recorded times and
/// cuts. A program gets it as soon as it has said what it had said by then.
#[derive(Debug, Args)]
#[command(after_help = HELP, after_long_help = HELP)]
#[command(override_usage = usage!("mcp-probe replay <TRACE> [--engine SIDE]\n       mcp-probe replay <TRACE> --serve [--any-order]\n       mcp-probe replay <TRACE>"))]
pub(crate) struct ReplayArgs {
    /// Trace, as `mcp-probe tap` writes it, or - for stdin.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Selects the engine that is played. Without it both are, one after the other.
    #[arg(long, value_name = "SIDE", value_enum)]
    engine: Option<EngineChoice>,
    /// Plays the recorded server to a client on stdin and stdout. The report goes to stderr.
    #[arg(long, conflicts_with = "engine")]
    serve: bool,
    /// Answers each request of the client by its method and parameters, whatever the order.
    ///
    /// Requests that were not recorded get an error. Nothing is compared.
    #[arg(long, requires = "serve")]
    any_order: bool,
    /// Limits the time to wait for one message of a program: 2s, 500ms or 0.5.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    timeout: Duration,
    /// Prints one JSON array instead, with an object for each engine or program.
    ///
    /// Its members: side, identical, equal, reworded, unplayed (line, reason), differences (line, micros, recorded, replayed,
    /// reason).
    #[arg(long, conflicts_with = "serve")]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// An engine of this program.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum EngineChoice {
    /// The server engine: it hears what the client said.
    Server,
    /// The client engine: it hears what the server said.
    Client,
}

impl From<EngineChoice> for Side {
    fn from(choice: EngineChoice) -> Self {
        match choice {
            EngineChoice::Server => Self::Server,
            EngineChoice::Client => Self::Client,
        }
    }
}

const HELP: &str = "\
The exit code is 1 if a message differs. Messages that no command of an engine
sends, as a request of a legacy server outside of a call, are counted and not
compared. Errors are the same if their codes are. An engine answers by the
results of the trace: wrong ones differ at a server alone.

The replay of an engine ends at the first difference; that of a program has all.

Examples:
  mcp-probe replay bug.ndjson
  mcp-probe replay bug.ndjson --engine server
  mcp-probe replay bug.ndjson -- python my_server.py
  mcp-probe call echo text=hi -- mcp-probe replay t.ndjson --serve --any-order
  mcp-probe replay bug.ndjson --json | jq '.[].differences'
  mcp-probe shrink bug.ndjson --engine server > bug.rs";

/// Reduces a trace whose replay differs, and prints it as a Rust test.
///
/// Messages, cuts, members and texts are removed as long as the replay differs in the same way. The test needs the package
/// mcp-proto-trace.
#[derive(Debug, Args)]
#[command(after_help = SHRINK_HELP, after_long_help = SHRINK_HELP)]
pub(crate) struct ShrinkArgs {
    /// Trace, as `mcp-probe tap` writes it, or - for stdin.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Selects the engine that is played.
    #[arg(long, value_name = "SIDE", value_enum)]
    engine: EngineChoice,
    /// Writes the reduced trace to this file, too.
    #[arg(long, short = 'o', value_name = "FILE")]
    out: Option<PathBuf>,
    /// Limits the number of replays.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    attempts: usize,
}

const SHRINK_HELP: &str = "\
The side is the one that `replay` says differs. The test plays what is left
into the engine of this project, with the package mcp-proto-trace. To see
whether your own server is mended, play the trace to it: `mcp-probe replay
TRACE -- SERVER`.

Examples:
  mcp-probe shrink bug.ndjson --engine server > tests/bug.rs
  mcp-probe shrink bug.ndjson --engine client -o small.ndjson";

/// Largest trace that is read into memory.
const MAX_TRACE: u64 = 512 << 20;

/// Output of `--json` for one engine.
#[derive(Serialize)]
struct ReplayReport<'a> {
    side: String,
    identical: usize,
    equal: usize,
    reworded: usize,
    unplayed: Vec<Unplayed<'a>>,
    differences: Vec<DifferenceReport<'a>>,
}

#[derive(Serialize)]
struct Unplayed<'a> {
    line: usize,
    reason: &'a str,
}

#[derive(Serialize)]
struct DifferenceReport<'a> {
    line: Option<usize>,
    micros: u64,
    recorded: Option<&'a str>,
    replayed: Option<&'a str>,
    reason: &'a str,
}

impl<'a> DifferenceReport<'a> {
    fn new(difference: &'a Difference) -> Self {
        Self {
            line: difference.record.map(line_of),
            micros: difference.at,
            recorded: difference.recorded.as_deref(),
            replayed: difference.replayed.as_deref(),
            reason: &difference.reason,
        }
    }
}

/// Returns the line of a record in its file, from 1: the header is the first.
const fn line_of(record: usize) -> usize {
    record + 2
}

/// Replays a trace.
///
/// # Errors
///
/// Fails if the trace cannot be read, if the server cannot be reached, or if a message differs.
pub(crate) fn run(args: &ReplayArgs) -> Result<(), CommandFailure> {
    let has_server = args.server.place.is_given();
    if has_server && (args.serve || args.engine.is_some()) {
        return Err(CommandFailure::usage("--serve and --engine need no server: leave it out"));
    }
    let trace = read_file(&args.trace, MAX_TRACE)?;
    if args.serve {
        return serve(args, &trace);
    }
    let outcomes = if has_server {
        vec![(Side::Server, play_to_server(args, &trace)?)]
    } else {
        let sides =
            args.engine.map_or_else(|| vec![Side::Server, Side::Client], |engine| vec![engine.into()]);
        sides.into_iter().map(|side| (side, replay(&trace, side))).collect()
    };
    if args.json {
        print_value(&outcomes.iter().map(|(side, outcome)| report(*side, outcome)).collect::<Vec<_>>())?;
    } else {
        let paint = Paint::for_stdout();
        for (side, outcome) in &outcomes {
            print(&(describe(*side, outcome, paint) + "\n"))?;
        }
    }
    let differing: Vec<_> = outcomes
        .iter()
        .filter(|(_, outcome)| outcome.difference().is_some())
        .map(|(side, _)| side.to_string())
        .collect();
    if differing.is_empty() {
        return Ok(());
    }
    let failure = CommandFailure::failed(match has_server {
        true => "the server does not say what was recorded".to_owned(),
        false => format!(
            "the engine of the {} does not say what was recorded",
            differing.join(" and that of the ")
        ),
    })
    .after_result();
    Err(match has_server {
        true => failure,
        false => failure.with_hint(format!(
            "`mcp-probe shrink {} --engine {}` reduces the trace to a test",
            escape::shell_word(&args.trace.to_string_lossy()),
            differing.first().map_or("", |side| &**side)
        )),
    })
}

/// Plays the recorded client to a server.
fn play_to_server(args: &ReplayArgs, trace: &Trace) -> Result<Replayed, CommandFailure> {
    let playback = Playback::new(trace, Side::Client);
    let unreachable =
        |error: &dyn core::fmt::Display| CommandFailure::new(Exit::Connection, error.to_string());
    let broken = |error: io::Error| unreachable(&format!("the connection to the server broke: {error}"));
    match Server::from_args(&args.server)? {
        Server::Remote(_) => {
            Err(CommandFailure::usage("replay plays byte streams: give a command, a socket or a serial line"))
        }
        Server::Stream(address) => {
            let mut io = address.connect(args.timeout).map_err(|error| unreachable(&error))?;
            play(&mut io, playback, args.timeout).map_err(broken)
        }
        Server::Program(program) => {
            let program = program.program(StderrChoice::Show);
            let mut child = program.spawn().map_err(|error| CommandFailure::from_spawn_error(&error))?;
            let mut io = child.take_io().map_err(broken)?;
            let outcome = play(&mut io, playback, args.timeout).map_err(broken);
            child.shutdown(Some(io), ShutdownTimeouts::uniform(Duration::from_secs(2)));
            outcome
        }
    }
}

/// Plays the recorded server to the client on stdin and stdout.
fn serve(args: &ReplayArgs, trace: &Trace) -> Result<(), CommandFailure> {
    hint_at_terminal("replay --serve");
    let broken =
        |error: io::Error| CommandFailure::failed(format!("the connection to the client broke: {error}"));
    let mut io = Stdio::guarded().map_err(broken)?;
    if args.any_order {
        let count = answer(&mut io, RecordedServer::new(trace), args.timeout).map_err(broken)?;
        print_note(&format!("{} answered", crate::output::count(count, "request")));
        return Ok(());
    }
    let outcome = play(&mut io, Playback::new(trace, Side::Server), args.timeout).map_err(broken)?;
    print_stderr(&describe(Side::Client, &outcome, Paint::for_stderr()));
    match outcome.difference() {
        None => Ok(()),
        Some(_) => Err(CommandFailure::failed("the client does not say what was recorded")),
    }
}

fn report(side: Side, outcome: &Replayed) -> ReplayReport<'_> {
    ReplayReport {
        side: side.to_string(),
        identical: outcome.identical,
        equal: outcome.equal,
        reworded: outcome.reworded,
        unplayed: outcome
            .unplayed
            .iter()
            .map(|(record, reason)| Unplayed { line: line_of(*record), reason })
            .collect(),
        differences: outcome.differences.iter().map(DifferenceReport::new).collect(),
    }
}

fn describe(side: Side, outcome: &Replayed, paint: Paint) -> String {
    let mut text = format!(
        "{side}: {} as recorded ({} by the byte, {} by value, {} but for words)",
        count(outcome.compared(), "message"),
        outcome.identical,
        outcome.equal,
        outcome.reworded
    );
    let mut line = |words: String| {
        text.push_str("\n  ");
        text.push_str(&words);
    };
    for (record, reason) in &outcome.unplayed {
        line(
            paint.dim(format!("not played, line {}: {}", line_of(*record), escape::line(reason))).to_string(),
        );
    }
    for difference in &outcome.differences {
        line(paint.bad(escape::line(&difference.to_string())).to_string());
        for (name, message) in [("recorded", &difference.recorded), ("replayed", &difference.replayed)] {
            line(format!("{name}: {}", message.as_deref().map_or_else(|| "nothing".into(), escape::line)));
        }
    }
    text
}

/// Reduces a trace, and prints the test.
///
/// # Errors
///
/// Fails if the trace cannot be read or does not differ.
pub(crate) fn run_shrink(args: &ShrinkArgs) -> Result<(), CommandFailure> {
    let trace = read_file(&args.trace, MAX_TRACE)?;
    let side = args.engine.into();
    // Before the work, which would be lost.
    let out = match &args.out {
        None => None,
        Some(path) => Some(create_private_file(path).map_err(CommandFailure::unwritten(path))?),
    };
    let hook = panic::take_hook();
    // Replays that panic are expected to do so many times.
    panic::set_hook(Box::new(|_| {}));
    let shrunk = reduce(&trace, side, args.attempts);
    panic::set_hook(hook);
    let Some((shrunk, what)) = shrunk else {
        if let Some(path) = &args.out {
            // Nothing was written yet.
            let _ = fs::remove_file(path);
        }
        let why = format!("the engine of the {side} says what was recorded: nothing to shrink");
        return Err(
            CommandFailure::failed(why).with_hint("`mcp-probe replay TRACE` tells which side differs")
        );
    };
    if let (Some(file), Some(path)) = (out, &args.out) {
        shrunk.write(file).map_err(CommandFailure::unwritten(path))?;
    }
    print_note(&format!("{} of {} left; {what}", count(shrunk.records.len(), "record"), trace.records.len()));
    print(&format!("{}\n", rust_test(&shrunk, side).trim_end()))
}

/// What a replay of a failing trace does.
#[derive(Debug)]
enum Failure {
    Differs(Difference),
    Panics,
}

/// Returns how the replay of a trace fails, if it does.
fn failure(trace: &Trace, side: Side) -> Option<Failure> {
    match panic::catch_unwind(|| replay(trace, side)) {
        Ok(outcome) => outcome.difference().cloned().map(Failure::Differs),
        Err(_) => Some(Failure::Panics),
    }
}

/// Reduces a trace while it fails in the same way. Returns it with a description of how it does.
fn reduce(trace: &Trace, side: Side, attempts: usize) -> Option<(Trace, String)> {
    let original = failure(trace, side)?;
    let is_same = |trace: &Trace| match (&original, failure(trace, side)) {
        (Failure::Differs(first), Some(Failure::Differs(other))) => first.is_like(&other),
        (Failure::Panics, Some(Failure::Panics)) => true,
        _ => false,
    };
    let shrunk = shrink(trace, attempts, is_same);
    let what = match failure(&shrunk, side)? {
        Failure::Differs(difference) => escape::line(&difference.reason).into_owned(),
        Failure::Panics => "the engine panics".into(),
    };
    Some((shrunk, what))
}
