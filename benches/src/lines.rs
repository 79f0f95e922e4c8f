//! Lines of a stream: one growing buffer, one search per byte. Used by the floor and by the drivers.

use core::ops::Range;
use std::io::{self, Read};

/// A buffer from which lines are read.
#[derive(Debug)]
pub struct LineBuffer {
    buf: Vec<u8>,
    /// Start of the incomplete line.
    start: usize,
    /// Position up to which there is no line end.
    scanned: usize,
    end: usize,
}

impl LineBuffer {
    /// Returns an empty buffer of `size` bytes, which grows for longer lines.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self { buf: vec![0; size], start: 0, scanned: 0, end: 0 }
    }

    /// Reads once; returns `false` at the end of the stream.
    ///
    /// # Errors
    ///
    /// Those of `input`.
    pub fn fill(&mut self, input: &mut impl Read) -> io::Result<bool> {
        if self.start == self.end {
            (self.start, self.scanned, self.end) = (0, 0, 0);
        } else if self.end == self.buf.len() {
            if self.start > 0 {
                self.buf.copy_within(self.start..self.end, 0);
                (self.scanned, self.end, self.start) = (self.scanned - self.start, self.end - self.start, 0);
            } else {
                self.buf.resize(self.end * 2, 0);
            }
        }
        loop {
            match input.read(&mut self.buf[self.end..]) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
                Ok(n) => {
                    self.end += n;
                    return Ok(n > 0);
                }
            }
        }
    }

    /// Returns the range of the next complete line, without its line end; valid until the next [`fill`](Self::fill).
    pub fn take(&mut self) -> Option<Range<usize>> {
        let Some(at) = memchr::memchr(b'\n', &self.buf[self.scanned..self.end]) else {
            self.scanned = self.end;
            return None;
        };
        let line = self.start..self.scanned + at;
        self.start = line.end + 1;
        self.scanned = self.start;
        Some(line)
    }

    /// Returns the bytes of a line.
    #[must_use]
    pub fn get(&self, line: Range<usize>) -> &[u8] {
        &self.buf[line]
    }
}
