//! The lines of a script, read on a thread of its own: the session goes on meanwhile.

use core::time::Duration;
use std::io::{self, BufRead as _};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use super::commands::{Flow, Shell};
use super::editor::receive;
use super::line::PendingLine;
use crate::failure::CommandFailure;

/// Runs the lines of stdin.
///
/// # Errors
///
/// That of the first line that fails, or with `keep_going` one with its exit code.
pub(super) fn run(shell: &mut Shell<'_>, keep_going: bool) -> Result<(), CommandFailure> {
    let script =
        Script::start().map_err(|error| CommandFailure::failed(format!("stdin cannot be read: {error}")))?;
    let (mut pending, mut failed, mut exit) = (PendingLine::default(), 0u64, None);
    // A failure is of the line in which its command begins.
    let (mut number, mut begin, mut is_broken) = (0u64, 0, false);
    loop {
        script.request();
        let Some(read) = shell.wait_for(|timeout| script.next(timeout)) else { break };
        number += 1;
        if !pending.is_open() {
            begin = number;
        }
        let outcome = match read {
            Ok(bytes) => {
                is_broken |= core::str::from_utf8(&bytes).is_err();
                match pending.push(&String::from_utf8_lossy(&bytes)) {
                    Some(_) if core::mem::take(&mut is_broken) => {
                        Err(CommandFailure::usage("the line is not UTF-8"))
                    }
                    Some(line) => shell.run_line(&line),
                    None => continue,
                }
            }
            Err(error) => return Err(CommandFailure::failed(format!("stdin cannot be read: {error}"))),
        };
        match outcome {
            Ok(Flow::Continue) => {}
            Ok(Flow::Quit) => break,
            Err(failure) => {
                let failure = failure.with_context(&format!("line {begin}"));
                if !keep_going {
                    return Err(failure);
                }
                shell.report(&failure);
                failed += 1;
                exit = exit.or(Some(failure.exit));
            }
        }
    }
    if pending.is_open() {
        return Err(CommandFailure::usage(format!("line {begin}: a quote is not closed")));
    }
    match exit {
        Some(exit) => Err(CommandFailure::new(exit, format!("{failed} of the lines failed"))),
        None => Ok(()),
    }
}

/// Stdin. A line is read for each [`request`](Self::request), so that what a dialogue asks is not taken for one.
struct Script {
    requests: Sender<()>,
    lines: Receiver<Option<io::Result<Vec<u8>>>>,
}

impl Script {
    /// Starts the thread that reads.
    fn start() -> io::Result<Self> {
        let (requests, requested) = mpsc::channel();
        let (sender, lines) = mpsc::channel();
        let read = move || {
            while requested.recv().is_ok() && sender.send(read_line().transpose()).is_ok() {}
        };
        thread::Builder::new().name("shell-script".into()).spawn(read)?;
        Ok(Self { requests, lines })
    }

    fn request(&self) {
        // Without its thread, the script has ended.
        let _ = self.requests.send(());
    }

    /// Waits for the requested line, which is `None` at the end, at most for `timeout`.
    fn next(&self, timeout: Option<Duration>) -> Option<Option<io::Result<Vec<u8>>>> {
        receive(&self.lines, timeout, None)
    }
}

/// Reads a line without its line break.
fn read_line() -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    if io::stdin().lock().read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    for end in [b'\n', b'\r'] {
        if line.last() == Some(&end) {
            line.pop();
        }
    }
    Ok(Some(line))
}
