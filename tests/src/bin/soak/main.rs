//! Many calls, 64 in flight, of random length, some of them cancelled: each ends exactly once, and memory is flat
//!
//! One process is the client, the other one, the same program, the server, both on the runtime that is asked for.

extern crate alloc;

mod blocking;
mod ledger;
mod memory;
mod plan;
mod smol;
mod tally;
mod threads;

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::time::Instant;

use mcp_blocking::Program;
use mcp_proto::RawJson;
use mcp_proto::client::{Config, Verdict};
use mcp_proto::model::CallToolResult;

use ledger::{Ledger, Outcome};
use memory::Memory;
use plan::Plan;
use tally::Work;

const USAGE: &str = "\
usage: soak --runtime blocking|threads|smol --transport stdio|http [--era modern|legacy] [--calls N] [--seed S]

Makes N calls (200,000), as the seed (1) says, and prints one line. Fails when a call has no outcome or more than one, when
the server runs one twice or goes on with one for ever, when either side finds something odd in what the other one says,
or when one of the processes is larger at the end than it was after a quarter of the calls, by more than 3 MiB.
";

/// Calls in flight
const AT_ONCE: usize = 64;

/// Connections that the server takes: one for each call in flight, and those of calls that were just cancelled
const CONNECTIONS: usize = 1_024;

type Failed = Box<dyn core::error::Error + Send + Sync>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Runtime {
    Blocking,
    Threads,
    Smol,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transport {
    Stdio,
    Http,
}

/// What was said on the command line
#[derive(Clone, Copy, Debug)]
struct Given {
    runtime: Runtime,
    transport: Transport,
    legacy: bool,
    calls: usize,
    seed: u64,
}

impl Given {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, Failed> {
        let (mut runtime, mut transport) = (None, None);
        let (mut legacy, mut calls, mut seed) = (false, 200_000, 1);
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
            match (&*word, &*value) {
                ("--runtime", "blocking") => runtime = Some(Runtime::Blocking),
                ("--runtime", "threads") => runtime = Some(Runtime::Threads),
                ("--runtime", "smol") => runtime = Some(Runtime::Smol),
                ("--transport", "stdio") => transport = Some(Transport::Stdio),
                ("--transport", "http") => transport = Some(Transport::Http),
                ("--era", "modern" | "legacy") => legacy = value == "legacy",
                ("--calls", _) => calls = value.parse()?,
                ("--seed", _) => seed = value.parse()?,
                _ => return Err(format!("what is {word} {value}?\n{USAGE}").into()),
            }
        }
        let (runtime, transport) = (runtime.ok_or(USAGE)?, transport.ok_or(USAGE)?);
        Ok(Self { runtime, transport, legacy, calls, seed })
    }

    /// What the client says of itself; everything that passes is shown
    fn config(&self) -> Config {
        let verdict = if self.legacy { Verdict::Legacy } else { Verdict::Modern };
        Config::new("soak", "1.0").verdict(verdict).limits(ledger::watched())
    }

    /// The same words, for the server
    fn words(&self) -> Vec<String> {
        let runtime = match self.runtime {
            Runtime::Blocking => "blocking",
            Runtime::Threads => "threads",
            Runtime::Smol => "smol",
        };
        let transport = match self.transport {
            Transport::Stdio => "stdio",
            Transport::Http => "http",
        };
        let words = ["serve", "--runtime", runtime, "--transport", transport, "--calls"];
        words.into_iter().map(String::from).chain([self.calls.to_string()]).collect()
    }
}

/// Where the server is
enum Target {
    /// To be started on pipes
    Program(Program),
    /// There already
    Url(String),
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    let serves = words.next_if(|word| word == "serve").is_some();
    let outcome = Given::read(words).and_then(|given| if serves { serve(&given) } else { soak(&given) });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // Nobody is left to be told when this fails.
            let _ = writeln!(io::stderr(), "soak: {why}");
            ExitCode::FAILURE
        }
    }
}

fn serve(given: &Given) -> Result<(), Failed> {
    match (given.runtime, given.transport) {
        (Runtime::Blocking, Transport::Stdio) => blocking::serve_stdio(given.calls),
        (Runtime::Blocking, Transport::Http) => blocking::serve_http(given.calls),
        (Runtime::Threads, Transport::Stdio) => threads::serve_stdio(given.calls),
        (Runtime::Threads, Transport::Http) => threads::serve_http(given.calls),
        (Runtime::Smol, Transport::Stdio) => smol::serve_stdio(given.calls),
        (Runtime::Smol, Transport::Http) => smol::serve_http(given.calls),
    }
}

fn soak(given: &Given) -> Result<(), Failed> {
    let program = std::env::current_exe()?;
    let mut hosted = None;
    let target = match given.transport {
        Transport::Stdio => Target::Program(Program::new(program).args(given.words())),
        Transport::Http => {
            let (server, url) = Hosted::start(Command::new(program).args(given.words()))?;
            hosted = Some(server);
            Target::Url(url)
        }
    };
    let (plan, ledger, mut memory) =
        (Plan::new(given.seed), Ledger::new(given.calls), Memory::new(given.calls));
    let begun = Instant::now();
    match given.runtime {
        Runtime::Blocking => blocking::run(given, target, &plan, &ledger, &mut memory)?,
        Runtime::Threads => threads::run(given, target, &plan, &ledger, &mut memory)?,
        Runtime::Smol => smol::run(given, target, &plan, &ledger, &mut memory)?,
    }
    let took = begun.elapsed();
    if let Some(server) = hosted {
        server.end()?;
    }
    let counts = ledger.check()?;
    memory.check()?;
    let Given { runtime, transport, calls, seed, .. } = given;
    println!(
        "{runtime:?} {transport:?} {}: {calls} calls with seed {seed} in {:.1} s: {counts}; {memory}",
        if given.legacy { "legacy" } else { "modern" },
        took.as_secs_f64(),
    );
    Ok(())
}

/// A server over HTTP, which ends with its stdin
struct Hosted {
    child: Child,
    input: ChildStdin,
}

impl Hosted {
    /// Starts it; where it is
    fn start(command: &mut Command) -> Result<(Self, String), Failed> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".into());
        };
        let mut url = String::new();
        BufReader::new(output).read_line(&mut url)?;
        if url.is_empty() {
            return Err(format!("the server ended with {}", child.wait()?).into());
        }
        Ok((Self { child, input }, url.trim_end().to_owned()))
    }

    fn end(mut self) -> Result<(), Failed> {
        drop(self.input);
        let status = self.child.wait()?;
        if status.success() { Ok(()) } else { Err(format!("the server ended with {status}").into()) }
    }
}

/// A server over HTTP waits for this
fn end_of_stdin() {
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
}

/// The result of call `number`, if that is what it is
fn answered(number: usize, result: &RawJson) -> Result<Outcome, Failed> {
    let result: CallToolResult<'_> = result.parse()?;
    let work: Work = result.parse_structured()?;
    if work.number == number {
        Ok(Outcome::Answered)
    } else {
        Err(format!("call {number} was answered {work:?}").into())
    }
}
