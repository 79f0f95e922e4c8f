//! A server process and the lines to and from it.

use core::time::Duration;
use std::io::ErrorKind;
use std::time::Instant;

use mcp_blocking::Error;
use mcp_proto::tap::Direction;
use mcp_std::io::{Duplex, Interest};
use mcp_std::process::{Child, ChildIo, ProcessStatus, Program, ShutdownReport, ShutdownTimeouts};

use super::received::{MAX_LINE, MAX_TOTAL, Received, WireTrace};
use super::report::clip;

/// A running server process.
pub(super) struct ProcessPeer {
    child: Child,
    io: ChildIo,
    buffer: Vec<u8>,
    /// Start of the next line in `buffer`.
    line_start: usize,
    /// Length of the prefix of `buffer` that was searched for a line break.
    scanned: usize,
    total_bytes: usize,
    is_open: bool,
    trace: WireTrace,
}

impl ProcessPeer {
    pub(super) fn start(program: &Program, trace: WireTrace) -> Result<Self, Error> {
        let mut child = program.spawn()?;
        let io = child.take_io()?;
        Ok(Self {
            child,
            io,
            buffer: Vec::new(),
            line_start: 0,
            scanned: 0,
            total_bytes: 0,
            is_open: true,
            trace,
        })
    }

    /// Writes a line. Returns `false` if that fails or takes too long.
    pub(super) fn send(&mut self, line: &[u8], until: Instant) -> bool {
        self.trace.line(Direction::Out, line);
        let line = [line, b"\n"].concat();
        let mut left = line.as_slice();
        while !left.is_empty() {
            match self.io.write(left) {
                Ok(n) => left = &left[n..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let time = until.saturating_duration_since(Instant::now());
                    if time.is_zero() || self.io.wait(Interest::WRITE, Some(time)).is_err() {
                        return false;
                    }
                }
                Err(_) => return false,
            }
        }
        true
    }

    /// Waits for a line.
    pub(super) fn next(&mut self, until: Instant) -> Received {
        let mut chunk = [0; 64 * 1024];
        loop {
            if let Some(at) = self.buffer[self.scanned..].iter().position(|byte| *byte == b'\n') {
                let end = self.scanned + at;
                let line = self.buffer[self.line_start..end].to_vec();
                (self.line_start, self.scanned) = (end + 1, end + 1);
                self.trace.line(Direction::In, &line);
                return Received::Line(line);
            }
            self.buffer.drain(..self.line_start);
            (self.line_start, self.scanned) = (0, self.buffer.len());
            if self.buffer.len() > MAX_LINE || self.total_bytes > MAX_TOTAL {
                return Received::Flood;
            }
            if !self.is_open {
                return Received::Closed(core::mem::take(&mut self.buffer));
            }
            let time = until.saturating_duration_since(Instant::now());
            if time.is_zero() {
                return Received::TimedOut;
            }
            match self.io.wait(Interest::READ, Some(time)).and_then(|_| self.io.read(&mut chunk)) {
                Ok(n @ 1..) => {
                    self.buffer.extend_from_slice(&chunk[..n]);
                    self.total_bytes += n;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => self.is_open = false,
            }
        }
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
        self.child.shutdown(Some(self.io), timeouts)
    }
}
