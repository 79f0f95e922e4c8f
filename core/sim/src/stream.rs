//! Byte streams in memory: cut into pieces, delayed, bounded in capacity, and between two sides of a pipe.

use alloc::collections::VecDeque;
use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::pipe::Pipe;

use crate::decisions::Rng;

/// Method of cutting a run of bytes into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Chunker {
    /// All available bytes at once.
    Whole,
    /// One byte at a time.
    Bytewise,
    /// Pieces of random sizes, mostly small, from a seed.
    Seeded(u64),
}

impl Chunker {
    /// The ways of cutting that every byte-level test runs with.
    pub const EACH: [Self; 5] =
        [Self::Whole, Self::Bytewise, Self::Seeded(1), Self::Seeded(2), Self::Seeded(3)];
}

/// Sequence of piece sizes of a [`Chunker`].
#[derive(Clone, Debug)]
pub struct ChunkSizes {
    chunker: Chunker,
    rng: Rng,
}

impl ChunkSizes {
    /// Returns the sequence from its start.
    #[must_use]
    pub const fn new(chunker: Chunker) -> Self {
        let seed = match chunker {
            Chunker::Seeded(seed) => seed,
            _ => 0,
        };
        Self { chunker, rng: Rng::new(seed) }
    }

    /// Returns the size of the next piece of `available` bytes.
    pub fn next(&mut self, available: usize) -> usize {
        match self.chunker {
            Chunker::Whole => available,
            Chunker::Bytewise => available.min(1),
            Chunker::Seeded(_) => {
                let small = if self.rng.percent(70) { 16 } else { 4_096 };
                available.min(1 + self.rng.below(small))
            }
        }
    }
}

/// One direction of a byte stream.
#[derive(Debug)]
pub struct ByteStream {
    chunk_sizes: ChunkSizes,
    latency: Duration,
    /// Pieces under way, each with the time from which it can be read.
    in_flight: VecDeque<(Instant, Vec<u8>)>,
    buffered: usize,
    capacity: usize,
    closed: bool,
}

impl ByteStream {
    /// Returns a stream that holds at most `capacity` bytes.
    #[must_use]
    pub const fn new(chunker: Chunker, latency: Duration, capacity: usize) -> Self {
        Self {
            chunk_sizes: ChunkSizes::new(chunker),
            latency,
            in_flight: VecDeque::new(),
            buffered: 0,
            capacity,
            closed: false,
        }
    }

    /// Writes a prefix of `bytes` and returns its length.
    pub fn write(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let room = self.capacity.saturating_sub(self.buffered);
        let n = self.chunk_sizes.next(bytes.len().min(room));
        if n > 0 && !self.closed {
            self.in_flight.push_back((now + self.latency, bytes[..n].to_vec()));
            self.buffered += n;
        }
        n
    }

    /// Writes all of `bytes`, also beyond the capacity.
    pub fn force(&mut self, now: Instant, bytes: &[u8]) {
        self.in_flight.push_back((now + self.latency, bytes.to_vec()));
        self.buffered += bytes.len();
    }

    /// Reads a part of the bytes that have arrived.
    pub fn read(&mut self, now: Instant) -> Option<Vec<u8>> {
        let (at, piece) = self.in_flight.front_mut()?;
        if *at > now {
            return None;
        }
        let n = self.chunk_sizes.next(piece.len());
        let rest = piece.split_off(n);
        let read = core::mem::replace(piece, rest);
        if piece.is_empty() {
            self.in_flight.pop_front();
        }
        self.buffered -= n;
        Some(read)
    }

    /// Returns the time at which the next bytes arrive.
    #[must_use]
    pub fn next_arrival(&self) -> Option<Instant> {
        self.in_flight.front().map(|(at, _)| *at)
    }

    /// Closes the stream for writing. Bytes under way still arrive.
    pub const fn close(&mut self) {
        self.closed = true;
    }

    /// Closes the stream and drops the bytes under way.
    pub fn discard(&mut self) {
        self.closed = true;
        self.in_flight.clear();
        self.buffered = 0;
    }

    /// Returns whether the stream is closed and completely read.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.closed && self.in_flight.is_empty()
    }

    /// Returns whether the stream is closed for writing.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed
    }
}

/// Joins pieces into lines.
#[derive(Debug, Default)]
pub struct LineAssembler {
    partial: Vec<u8>,
}

impl LineAssembler {
    /// Returns whether no partial line is pending.
    #[must_use]
    pub fn is_at_line_start(&self) -> bool {
        self.partial.is_empty()
    }

    /// Adds bytes and returns the lines that end in them, without newlines.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        let mut parts = bytes.split(|b| *b == b'\n');
        self.partial.extend_from_slice(parts.next().unwrap_or_default());
        for part in parts {
            lines.push(core::mem::replace(&mut self.partial, part.to_vec()));
        }
        lines
    }
}

/// One direction of a connection between two [`Pipe`]s.
#[derive(Debug)]
pub struct OneWayLink {
    /// Bytes under way.
    pub stream: ByteStream,
    /// The line that is being written.
    pub lines: LineAssembler,
    lines_delivered: usize,
    eof_delivered: bool,
}

impl OneWayLink {
    /// Returns a link without bytes.
    #[must_use]
    pub fn new(chunker: Chunker, latency: Duration, capacity: usize) -> Self {
        let stream = ByteStream::new(chunker, latency, capacity);
        Self { stream, lines: LineAssembler::default(), lines_delivered: 0, eof_delivered: false }
    }

    /// Moves at most `limit` bytes of the output of a side into the stream, and calls `on_line` with each line that is complete
    /// then. Returns whether something moved.
    pub fn pull_from<P: Pipe>(
        &mut self,
        now: Instant,
        from: &mut P,
        limit: usize,
        mut on_line: impl FnMut(&[u8]),
    ) -> bool {
        let mut remaining = limit;
        loop {
            let bytes = from.transmit();
            if bytes.is_empty() {
                if from.is_drained() && !self.stream.is_closed() {
                    self.stream.close();
                    return true;
                }
                return remaining < limit;
            }
            let n = self.stream.write(now, &bytes[..bytes.len().min(remaining)]);
            if n == 0 {
                return remaining < limit;
            }
            let lines = self.lines.push(&bytes[..n]);
            from.consume(n);
            remaining -= n;
            lines.iter().for_each(|line| on_line(line));
        }
    }

    /// Returns the number of lines that were delivered to their end.
    #[must_use]
    pub const fn lines_delivered(&self) -> usize {
        self.lines_delivered
    }

    /// Delivers arrived bytes, or the end, to a side; returns whether something moved.
    pub fn deliver_to<P: Pipe>(&mut self, now: Instant, to: &mut P) -> bool {
        if !to.wants_input() {
            return false;
        }
        if let Some(piece) = self.stream.read(now) {
            self.lines_delivered += piece.iter().filter(|byte| **byte == b'\n').count();
            to.handle_input(now, &piece);
            return true;
        }
        if self.stream.is_finished() && !core::mem::replace(&mut self.eof_delivered, true) {
            to.handle_eof(now);
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_of_any_chunker_keeps_order() {
        for chunker in Chunker::EACH {
            let mut stream = ByteStream::new(chunker, Duration::from_millis(5), 64);
            let message: Vec<u8> = (0..=255).collect();
            let (mut written, mut read, mut now) = (0, Vec::new(), Instant::ZERO);
            while read.len() < message.len() {
                written += stream.write(now, &message[written..]);
                now = stream.next_arrival().expect("bytes under way").max(now);
                while let Some(piece) = stream.read(now) {
                    read.extend(piece);
                }
            }
            assert_eq!(read, message, "{chunker:?}");
        }
    }
}
