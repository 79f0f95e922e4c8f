//! One run of this program as a process of its own, with a limit of its time and of its output.

use core::time::Duration;
use std::env;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::time::Instant;

use mcp_proto::{Progress, RpcError};
use mcp_proto_trace::Secrets;
use mcp_runtime::server::Cx;
use mcp_std::io::{Duplex, Interest};
use mcp_std::process::{Child, ChildIo, ProcessStatus, Program, ShutdownTimeouts, Stderr};

use crate::client::SHUTDOWN_TIMEOUTS;
use crate::handed_over;

/// Limits of one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) time: Duration,
    /// Bytes of stdout.
    pub(super) output: usize,
}

/// A command line of this program, with what it reads from stdin.
#[derive(Default)]
pub(super) struct CommandLine {
    pub(super) words: Vec<OsString>,
    pub(super) variables: Vec<(&'static str, String)>,
    pub(super) input: Vec<u8>,
    /// What the output must not show.
    pub(super) secrets: Secrets,
}

/// What a run has ended with.
#[derive(Debug)]
pub(super) enum Outcome {
    Exited {
        code: Option<i32>,
        stdout: Vec<u8>,
    },
    TimedOut,
    TooLong,
    /// The process cannot be started or read.
    Failed(String),
}

/// Runs a command line. The process is ended, with all that it has started, if the call is cancelled or a limit is reached; but not a
/// server that has left its process group (a daemon).
///
/// # Errors
///
/// Fails if the call has ended; the error is not sent.
pub(super) fn run(cx: &mut Cx<'_>, line: &CommandLine, bounds: Bounds) -> Result<Outcome, RpcError> {
    let (mut child, mut io) = match start(line) {
        Ok(begun) => begun,
        Err(error) => return Ok(Outcome::Failed(error.to_string())),
    };
    let outcome = match follow(cx, &mut io, &line.input, bounds) {
        Ok(Outcome::Exited { stdout, .. }) => match child.wait_timeout(END_TIMEOUT) {
            ProcessStatus::Exited(status) => {
                return Ok(Outcome::Exited { code: status.and_then(|status| status.code()), stdout });
            }
            _ => Ok(Outcome::Failed("it closed its output and did not end".into())),
        },
        outcome => outcome,
    };
    child.shutdown(Some(io), TIMEOUTS);
    outcome
}

fn start(line: &CommandLine) -> io::Result<(Child, ChildIo)> {
    // The file of this process, even if it has been replaced by another version.
    let this = if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { env::current_exe()? };
    // The environment is that of this process. Servers get none of it.
    let names = env::vars_os().map(|(name, _)| name);
    let names = names.filter(|name| name != handed_over::SERVER && name != handed_over::PATH);
    let mut program = Program::new(this).args(&line.words).inherit_env(names).stderr(Stderr::Capture);
    for (name, value) in &line.variables {
        program = program.env(*name, value);
    }
    let mut child = program.spawn().map_err(io::Error::other)?;
    let io = child.take_io()?;
    Ok((child, io))
}

/// Writes the input and reads the output to its end, at which no exit code is known yet.
fn follow(cx: &mut Cx<'_>, io: &mut ChildIo, mut input: &[u8], bounds: Bounds) -> Result<Outcome, RpcError> {
    let (begun, mut reported) = (Instant::now(), Duration::ZERO);
    let (mut stdout, mut chunk) = (Vec::new(), vec![0; 64 * 1024]);
    let mut is_written = false;
    loop {
        cx.checkpoint()?;
        let elapsed = begun.elapsed();
        if elapsed >= bounds.time {
            return Ok(Outcome::TimedOut);
        }
        if elapsed >= reported + PROGRESS_INTERVAL {
            reported = elapsed;
            cx.progress(Progress::new(elapsed.as_secs_f64().floor()).with_message("seconds"))?;
        }
        match step(io, &mut input, &mut is_written, &mut chunk) {
            Ok(Some(0)) => return Ok(Outcome::Exited { code: None, stdout }),
            Ok(Some(n)) => stdout.extend_from_slice(&chunk[..n]),
            Ok(None) => {}
            Err(error) => return Ok(Outcome::Failed(error.to_string())),
        }
        if stdout.len() > bounds.output {
            return Ok(Outcome::TooLong);
        }
    }
}

/// Waits a moment, and moves what can be moved. Returns the number of bytes that were read, 0 at the end.
fn step(
    io: &mut ChildIo,
    input: &mut &[u8],
    is_written: &mut bool,
    chunk: &mut [u8],
) -> io::Result<Option<usize>> {
    if input.is_empty() && !core::mem::replace(is_written, true) {
        io.shutdown_write()?;
    }
    io.wait(Interest { read: true, write: !*is_written }, Some(CHECK_INTERVAL))?;
    if !*is_written {
        match io.write(input) {
            Ok(n) => *input = &input[n..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // It has ended, or does not read: its output tells why.
            Err(_) => *input = &[],
        }
    }
    match io.read(chunk) {
        Ok(n) => Ok(Some(n)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Time from the end of the output to that of the process.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(2);
/// A process that is not wanted any more ends its own servers on `SIGTERM`, which takes half a second at most.
const TIMEOUTS: ShutdownTimeouts = ShutdownTimeouts { exit: Duration::ZERO, ..SHUTDOWN_TIMEOUTS };
/// Interval at which the end of the call and the limits are looked at.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Interval of reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
