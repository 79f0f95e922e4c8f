//! Soak test: many calls, 64 in flight, of random length, some of them cancelled. Each ends exactly once, and memory
//! stays flat.
//!
//! The client is one process, the server another process of the same program. Both use the chosen adapter.

extern crate alloc;

mod asynchronous;
mod blocking;
mod ledger;
mod memory;
mod plan;
mod tally;
mod threads;

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::Instant;

use mcp_blocking::Program;
use mcp_proto::RawJson;
use mcp_proto::client::{Config, KnownEra};
use mcp_proto::model::CallToolResult;
use mcp_smol::Smol;
use mcp_tokio::Tokio;

use ledger::{CallLedger, SoakOutcome};
use memory::MemoryTrend;
use plan::CallPlan;
use tally::WorkArguments;

const USAGE: &str = "\
usage: soak --runtime blocking|threads|smol|tokio --transport stdio|http [--era modern|legacy] [--calls N] [--seed S]

Makes N calls (200,000) from a seed (1) and prints one line. Fails if a call has no outcome or more than one, if the server
runs a call twice or never ends it, if either side reports a diagnostic, or if one of the processes grows by more than
3 MiB between a quarter of the calls and the end.
";

/// Number of calls in flight.
const MAX_CONCURRENT: usize = 64;

/// Connection limit of the server: one for each call in flight, and those of calls cancelled a moment ago.
const MAX_CONNECTIONS: usize = 1_024;

type BoxError = Box<dyn core::error::Error + Send + Sync>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SoakAdapter {
    Blocking,
    Threads,
    Smol,
    Tokio,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SoakTransport {
    Stdio,
    Http,
}

/// Command-line arguments.
#[derive(Clone, Copy, Debug)]
struct SoakArgs {
    runtime: SoakAdapter,
    transport: SoakTransport,
    is_legacy: bool,
    calls: usize,
    seed: u64,
}

impl SoakArgs {
    fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, BoxError> {
        let (mut runtime, mut transport) = (None, None);
        let (mut legacy, mut calls, mut seed) = (false, 200_000, 1);
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            match (&*word, &*value) {
                ("--runtime", "blocking") => runtime = Some(SoakAdapter::Blocking),
                ("--runtime", "threads") => runtime = Some(SoakAdapter::Threads),
                ("--runtime", "smol") => runtime = Some(SoakAdapter::Smol),
                ("--runtime", "tokio") => runtime = Some(SoakAdapter::Tokio),
                ("--transport", "stdio") => transport = Some(SoakTransport::Stdio),
                ("--transport", "http") => transport = Some(SoakTransport::Http),
                ("--era", "modern" | "legacy") => legacy = value == "legacy",
                ("--calls", _) => calls = value.parse()?,
                ("--seed", _) => seed = value.parse()?,
                _ => return Err(format!("unknown argument: {word} {value}\n{USAGE}").into()),
            }
        }
        let (runtime, transport) = (runtime.ok_or(USAGE)?, transport.ok_or(USAGE)?);
        Ok(Self { runtime, transport, is_legacy: legacy, calls, seed })
    }

    /// Returns the configuration of the client, under which the tap shows every message.
    fn config(&self) -> Config {
        let known_era = if self.is_legacy { KnownEra::Legacy } else { KnownEra::Modern };
        Config::new("soak", "1.0").known_era(known_era).limits(ledger::tap_limits())
    }

    /// Returns the arguments for the server.
    fn to_args(self) -> Vec<String> {
        let runtime = match self.runtime {
            SoakAdapter::Blocking => "blocking",
            SoakAdapter::Threads => "threads",
            SoakAdapter::Smol => "smol",
            SoakAdapter::Tokio => "tokio",
        };
        let transport = match self.transport {
            SoakTransport::Stdio => "stdio",
            SoakTransport::Http => "http",
        };
        let words = ["serve", "--runtime", runtime, "--transport", transport, "--calls"];
        words.into_iter().map(String::from).chain([self.calls.to_string()]).collect()
    }
}

/// Location of the server.
enum SoakTarget {
    /// A program to start on pipes.
    Program(Program),
    /// A running server.
    Url(String),
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    let serves = words.next_if(|word| word == "serve").is_some();
    let outcome = SoakArgs::parse(words).and_then(|args| if serves { serve(&args) } else { soak(&args) });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The exit status reports the failure even if stderr is closed.
            let _ = writeln!(io::stderr(), "soak: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(args: &SoakArgs) -> Result<(), BoxError> {
    match (args.runtime, args.transport) {
        (SoakAdapter::Blocking, SoakTransport::Stdio) => blocking::serve_stdio(args.calls),
        (SoakAdapter::Blocking, SoakTransport::Http) => blocking::serve_http(args.calls),
        (SoakAdapter::Threads, SoakTransport::Stdio) => threads::serve_stdio(args.calls),
        (SoakAdapter::Threads, SoakTransport::Http) => threads::serve_http(args.calls),
        (SoakAdapter::Smol, SoakTransport::Stdio) => asynchronous::serve_stdio::<Smol>(args.calls),
        (SoakAdapter::Smol, SoakTransport::Http) => asynchronous::serve_http::<Smol>(args.calls),
        (SoakAdapter::Tokio, SoakTransport::Stdio) => asynchronous::serve_stdio::<Tokio>(args.calls),
        (SoakAdapter::Tokio, SoakTransport::Http) => asynchronous::serve_http::<Tokio>(args.calls),
    }
}

fn soak(args: &SoakArgs) -> Result<(), BoxError> {
    let program = std::env::current_exe()?;
    let mut hosted = None;
    let target = match args.transport {
        SoakTransport::Stdio => SoakTarget::Program(Program::new(program).args(args.to_args())),
        SoakTransport::Http => {
            let (server, url) = HostedServer::start(Command::new(program).args(args.to_args()))?;
            hosted = Some(server);
            SoakTarget::Url(url)
        }
    };
    let (plan, ledger, mut memory) =
        (CallPlan::new(args.seed), CallLedger::new(args.calls), MemoryTrend::new(args.calls));
    let begun = Instant::now();
    match args.runtime {
        SoakAdapter::Blocking => blocking::run(args, target, &plan, &ledger, &mut memory)?,
        SoakAdapter::Threads => threads::run(args, target, &plan, &ledger, &mut memory)?,
        SoakAdapter::Smol => asynchronous::run::<Smol>(args, target, &plan, &ledger, &mut memory)?,
        SoakAdapter::Tokio => asynchronous::run::<Tokio>(args, target, &plan, &ledger, &mut memory)?,
    }
    let took = begun.elapsed();
    if let Some(server) = hosted {
        server.end()?;
    }
    let counts = ledger.check()?;
    memory.check()?;
    let SoakArgs { runtime, transport, calls, seed, .. } = args;
    println!(
        "{runtime:?} {transport:?} {}: {calls} calls with seed {seed} in {:.1} s: {counts}; {memory}",
        if args.is_legacy { "legacy" } else { "modern" },
        took.as_secs_f64(),
    );
    Ok(())
}

/// An HTTP server in a child process, which stops at the end of its stdin.
struct HostedServer {
    child: Child,
    input: ChildStdin,
}

impl HostedServer {
    /// Starts the server; returns it and its URL.
    fn start(command: &mut Command) -> Result<(Self, String), BoxError> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".into());
        };
        let mut url = String::new();
        BufReader::new(output).read_line(&mut url)?;
        if url.is_empty() {
            return Err(format!("the server exited with {}", child.wait()?).into());
        }
        Ok((Self { child, input }, url.trim_end().to_owned()))
    }

    fn end(mut self) -> Result<(), BoxError> {
        drop(self.input);
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the server exited with {status}").into()) }
    }
}

/// Waits for the end of stdin, which stops an HTTP server.
fn wait_for_stdin_eof() {
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
}

/// Checks that `result` is the result of call `number`.
fn check_answer(number: usize, result: &RawJson) -> Result<SoakOutcome, BoxError> {
    let result: CallToolResult<'_> = result.parse()?;
    let work: WorkArguments = result.parse_structured()?;
    if work.number == number {
        Ok(SoakOutcome::Answered)
    } else {
        Err(format!("call {number} was answered {work:?}").into())
    }
}
