//! Lines to and from a server on a byte stream.

use std::time::Instant;

use mcp_proto::tap::Direction;
use mcp_std::io::Duplex;

use super::received::{MAX_LINE, MAX_TOTAL, Received, WireTrace};
use crate::stream::{self, Came};

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
        stream::write_all(&mut self.io, &[line, b"\n"].concat(), until).is_ok()
    }

    /// Waits for a line.
    pub(super) fn next(&mut self, until: Instant) -> Received {
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
            let before = self.buffer.len();
            match stream::read_more(&mut self.io, &mut self.buffer, until) {
                Came::Bytes => self.total_bytes += self.buffer.len() - before,
                Came::End => self.is_open = false,
                Came::TimedOut => return Received::TimedOut,
            }
        }
    }

    /// Returns the stream.
    pub(super) fn into_inner(self) -> D {
        self.io
    }
}
