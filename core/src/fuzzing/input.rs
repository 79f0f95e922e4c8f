//! Choices drawn from the fuzz input, and the ways to cut input into pieces.

use alloc::vec::Vec;

use crate::testing::Rng;

/// Reader that draws choices from the front of the input; yields zeros at its end.
pub(super) struct FuzzInput<'a> {
    remaining: &'a [u8],
}

impl<'a> FuzzInput<'a> {
    pub(super) const fn new(data: &'a [u8]) -> Self {
        Self { remaining: data }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.remaining.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.remaining.split_first() else { return 0 };
        self.remaining = rest;
        *first
    }

    /// Returns a number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end.max(1)
    }

    pub(super) fn boolean(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// Returns the next `n` bytes, or all that are left.
    pub(super) fn take(&mut self, n: usize) -> &'a [u8] {
        let (part, rest) = self.remaining.split_at(n.min(self.remaining.len()));
        self.remaining = rest;
        part
    }

    pub(super) const fn rest(self) -> &'a [u8] {
        self.remaining
    }
}

/// Method of cutting input into pieces.
#[derive(Clone, Copy, Debug)]
pub(super) enum Chunking {
    Whole,
    Bytewise,
    Seeded(u64),
}

impl Chunking {
    pub(super) const fn all(seed: u8) -> [Self; 4] {
        [Self::Whole, Self::Bytewise, Self::Seeded(seed as u64), Self::Seeded(seed as u64 + 0x1_0000)]
    }

    pub(super) fn pieces(self, input: &[u8]) -> Vec<&[u8]> {
        match self {
            Self::Whole => [input].into(),
            _ if input.is_empty() => [input].into(),
            Self::Bytewise => input.chunks(1).collect(),
            Self::Seeded(seed) => {
                let mut random = Rng::new(seed);
                let (mut pieces, mut rest) = (Vec::new(), input);
                while !rest.is_empty() {
                    // The exponent is drawn first, so that small and large pieces are equally likely.
                    let limit = 1 << (random.next_high() % 10);
                    let n = 1 + random.next_high() as usize % limit;
                    let (piece, tail) = rest.split_at(n.min(rest.len()));
                    pieces.push(piece);
                    rest = tail;
                }
                pieces
            }
        }
    }
}
