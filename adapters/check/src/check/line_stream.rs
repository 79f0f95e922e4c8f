//! Lines to and from a server on a byte stream.

use std::io::ErrorKind;
use std::time::Instant;

use mcp_proto::tap::Direction;
use mcp_std::io::{Duplex, Interest};

use super::received::{MAX_LINE, MAX_TOTAL, Received, WireTrace};

/// A byte stream, cut into lines.
pub(super) struct LineStream<D> {
    io: D,
    buffer: Vec<u8>,
    /// Start of the next line in `buffer`.
    line_start: usize,
    /// Length of the prefix of `buffer` that was searched for a line break.
    scanned: usize,
    total_bytes: usize,
    is_open: bool,
    trace: WireTrace,
}

impl<D: Duplex> LineStream<D> {
    pub(super) const fn new(io: D, trace: WireTrace) -> Self {
        Self { io, buffer: Vec::new(), line_start: 0, scanned: 0, total_bytes: 0, is_open: true, trace }
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

    /// Returns the stream.
    pub(super) fn into_inner(self) -> D {
        self.io
    }
}
