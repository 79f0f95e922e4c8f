//! A server process and the lines to and from it.

use core::time::Duration;
use std::time::Instant;

use mcp_blocking::Error;
use mcp_std::process::{Child, ChildIo, ProcessStatus, Program, ShutdownReport, ShutdownTimeouts};

use super::line_stream::LineStream;
use super::received::{Received, WireTrace};
use super::report::clip;

/// A running server process.
pub(super) struct ProcessPeer {
    child: Child,
    lines: LineStream<ChildIo>,
}

impl ProcessPeer {
    pub(super) fn start(program: &Program, trace: WireTrace) -> Result<Self, Error> {
        let mut child = program.spawn()?;
        let lines = LineStream::new(child.take_io()?, trace);
        Ok(Self { child, lines })
    }

    /// Writes a line. Returns `false` if that fails or takes too long.
    pub(super) fn send(&mut self, line: &[u8], until: Instant) -> bool {
        self.lines.send(line, until)
    }

    /// Waits for a line.
    pub(super) fn next(&mut self, until: Instant) -> Received {
        self.lines.next(until)
    }

    /// Describes how the process ended, or that it closed its stdout.
    pub(super) fn describe_failure(&mut self) -> String {
        let mut fate = match self.child.wait_timeout(Duration::from_millis(300)) {
            ProcessStatus::Exited(Some(status)) => format!("it ended ({status})"),
            ProcessStatus::Exited(None) => "it ended".into(),
            ProcessStatus::Running => "it closed its stdout".into(),
        };
        if let Some(line) = self.child.stderr_tail().lines().next_back() {
            fate += &format!(", with {:?} on stderr,", clip(line, 160));
        }
        fate
    }

    /// Closes stdin and ends the process.
    pub(super) fn close(self, timeouts: ShutdownTimeouts) -> ShutdownReport {
        self.child.shutdown(Some(self.lines.into_inner()), timeouts)
    }
}
