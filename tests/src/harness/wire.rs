//! How bytes travel: cut in any way, delayed, and never more at once than a pipe holds.

use alloc::collections::VecDeque;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic;

use mcp_proto::Instant;

use super::rng::Rng;

/// How a run of bytes is cut
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunker {
    /// As much as there is
    Whole,
    /// One byte at a time
    Bytewise,
    /// Pieces of any size, mostly small, by chance from a seed
    Seeded(u64),
}

impl Chunker {
    /// The ways in which every byte-level test runs
    pub const EACH: [Self; 5] =
        [Self::Whole, Self::Bytewise, Self::Seeded(1), Self::Seeded(2), Self::Seeded(3)];
}

/// Runs `test` with every [`Chunker`]; what it returns has to be equal each time, and is returned
///
/// # Panics
///
/// When two ways differ; the one in which `test` itself failed is printed.
pub fn each_cut<T: PartialEq + core::fmt::Debug>(test: impl Fn(Chunker) -> T) -> T {
    let first = test(Chunker::Whole);
    for cut in &Chunker::EACH[1..] {
        let cut = *cut;
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| test(cut)));
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(failure) => {
                eprintln!("the input was cut {cut:?}");
                panic::resume_unwind(failure)
            }
        };
        assert_eq!(first, outcome, "{:?} and {cut:?} differ", Chunker::Whole);
    }
    first
}

/// A [`Chunker`] at work
#[derive(Clone, Debug)]
pub struct Cutter {
    how: Chunker,
    rng: Rng,
}

impl Cutter {
    /// Begins to cut
    #[must_use]
    pub const fn new(how: Chunker) -> Self {
        let seed = match how {
            Chunker::Seeded(seed) => seed,
            _ => 0,
        };
        Self { how, rng: Rng::new(seed) }
    }

    /// The size of the next piece of `available` bytes
    pub fn next(&mut self, available: usize) -> usize {
        match self.how {
            Chunker::Whole => available,
            Chunker::Bytewise => available.min(1),
            Chunker::Seeded(_) => {
                let small = if self.rng.chance(70) { 16 } else { 4_096 };
                available.min(1 + self.rng.below(small))
            }
        }
    }
}

/// One direction of a byte stream
#[derive(Debug)]
pub struct Wire {
    cutter: Cutter,
    latency: Duration,
    /// What is under way, with the time at which it can be read
    flying: VecDeque<(Instant, Vec<u8>)>,
    held: usize,
    room: usize,
    closed: bool,
}

impl Wire {
    /// A stream that holds `room` bytes at most
    #[must_use]
    pub const fn new(how: Chunker, latency: Duration, room: usize) -> Self {
        Self { cutter: Cutter::new(how), latency, flying: VecDeque::new(), held: 0, room, closed: false }
    }

    /// Writes some of `bytes`; how many
    pub fn write(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let room = self.room.saturating_sub(self.held);
        let n = self.cutter.next(bytes.len().min(room));
        if n > 0 && !self.closed {
            self.flying.push_back((now + self.latency, bytes[..n].to_vec()));
            self.held += n;
        }
        n
    }

    /// Writes all of `bytes`, whether or not they fit
    pub fn force(&mut self, now: Instant, bytes: &[u8]) {
        self.flying.push_back((now + self.latency, bytes.to_vec()));
        self.held += bytes.len();
    }

    /// Reads some of what has arrived
    pub fn read(&mut self, now: Instant) -> Option<Vec<u8>> {
        let (at, piece) = self.flying.front_mut()?;
        if *at > now {
            return None;
        }
        let n = self.cutter.next(piece.len());
        let rest = piece.split_off(n);
        let read = core::mem::replace(piece, rest);
        if piece.is_empty() {
            self.flying.pop_front();
        }
        self.held -= n;
        Some(read)
    }

    /// When the next bytes arrive
    #[must_use]
    pub fn next_arrival(&self) -> Option<Instant> {
        self.flying.front().map(|(at, _)| *at)
    }

    /// Says that nothing more will be written; what is under way still arrives
    pub const fn close(&mut self) {
        self.closed = true;
    }

    /// Drops what is under way and takes nothing more
    pub fn cut_off(&mut self) {
        self.closed = true;
        self.flying.clear();
        self.held = 0;
    }

    /// Whether it is closed and all of it has been read
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.closed && self.flying.is_empty()
    }

    /// Whether nothing more can be written
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed
    }
}

/// Puts lines together again
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
}

impl Lines {
    /// Whether nothing stands behind the last newline
    pub(super) fn is_whole(&self) -> bool {
        self.partial.is_empty()
    }

    /// Takes bytes; the lines that end in them, without their newlines
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        let mut parts = bytes.split(|b| *b == b'\n');
        self.partial.extend_from_slice(parts.next().unwrap_or_default());
        for part in parts {
            lines.push(core::mem::replace(&mut self.partial, part.to_vec()));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_in_order_however_they_are_cut() {
        for how in Chunker::EACH {
            let mut wire = Wire::new(how, Duration::from_millis(5), 64);
            let message: Vec<u8> = (0..=255).collect();
            let (mut written, mut read, mut now) = (0, Vec::new(), Instant::ZERO);
            while read.len() < message.len() {
                written += wire.write(now, &message[written..]);
                now = wire.next_arrival().expect("something is under way").max(now);
                while let Some(piece) = wire.read(now) {
                    read.extend(piece);
                }
            }
            assert_eq!(read, message, "{how:?}");
        }
    }
}
