//! A server process and the lines to and from it.

use core::time::Duration;
use std::time::Instant;

use mcp_std::process::{Child, ChildIo, ProcessStatus, Program, ShutdownReport, ShutdownTimeouts};

use super::CheckError;
use super::line_stream::LineStream;
use super::received::{Received, WireTrace};
use super::report::clip;

/// A running server process.
pub(super) struct ProcessPeer {
    child: Child,
    lines: LineStream<ChildIo>,
}

impl ProcessPeer {
    pub(super) fn start(program: &Program, trace: WireTrace) -> Result<Self, CheckError> {
        let mut child = program.spawn()?;
        let lines = LineStream::new(child.take_io().map_err(CheckError::Stream)?, trace);
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
        let (fate, status) = match self.child.wait_timeout(Duration::from_millis(300)) {
            ProcessStatus::Exited(status) => ("it ended", status.map(|status| status.to_string())),
            ProcessStatus::Running => ("it closed its stdout", None),
        };
        let last_line = self.child.stderr_tail().lines().next_back().map(|line| clip(line, 160));
        let last_line = last_line.map(|line| format!("stderr: {line:?}"));
        let details: Vec<String> = status.into_iter().chain(last_line).collect();
        if details.is_empty() { fate.to_owned() } else { format!("{fate} ({})", details.join("; ")) }
    }

    /// Closes stdin and ends the process.
    pub(super) fn close(self, timeouts: ShutdownTimeouts) -> ShutdownReport {
        self.child.shutdown(Some(self.lines.into_inner()), timeouts)
    }
}
