//! Lines out of a stream: one growing buffer, one search for each byte. Shared by the floor and the driver.

use core::ops::Range;
use std::io::{self, Read};

/// A buffer that lines are read into
#[derive(Debug)]
pub struct Lines {
    buf: Vec<u8>,
    /// Begin of the line that is not complete
    start: usize,
    /// Up to here there is no line end
    seen: usize,
    end: usize,
}

impl Lines {
    /// An empty buffer of `size` bytes; it grows when a line needs it
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self { buf: vec![0; size], start: 0, seen: 0, end: 0 }
    }

    /// Reads once; false at the end of the stream
    pub fn fill(&mut self, input: &mut impl Read) -> io::Result<bool> {
        if self.start == self.end {
            (self.start, self.seen, self.end) = (0, 0, 0);
        } else if self.end == self.buf.len() {
            if self.start > 0 {
                self.buf.copy_within(self.start..self.end, 0);
                (self.seen, self.end, self.start) = (self.seen - self.start, self.end - self.start, 0);
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

    /// Where the next complete line is, line end excluded; valid until the next [`fill`](Self::fill)
    pub fn take(&mut self) -> Option<Range<usize>> {
        let Some(at) = memchr::memchr(b'\n', &self.buf[self.seen..self.end]) else {
            self.seen = self.end;
            return None;
        };
        let line = self.start..self.seen + at;
        self.start = line.end + 1;
        self.seen = self.start;
        Some(line)
    }

    /// The bytes of a line
    #[must_use]
    pub fn get(&self, line: Range<usize>) -> &[u8] {
        &self.buf[line]
    }
}
