//! Choices drawn from the input, and the ways to cut it.

use alloc::vec::Vec;

/// Reads choices off the front of the input; zero once there is nothing left
pub(super) struct Dice<'a> {
    left: &'a [u8],
}

impl<'a> Dice<'a> {
    pub(super) const fn new(data: &'a [u8]) -> Self {
        Self { left: data }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.left.split_first() else { return 0 };
        self.left = rest;
        *first
    }

    /// A number below `end`
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end.max(1)
    }

    pub(super) fn flag(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    /// The next `n` bytes, or what there is
    pub(super) fn take(&mut self, n: usize) -> &'a [u8] {
        let (part, rest) = self.left.split_at(n.min(self.left.len()));
        self.left = rest;
        part
    }

    pub(super) const fn rest(self) -> &'a [u8] {
        self.left
    }
}

/// How input is cut into pieces
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    Whole,
    Bytewise,
    Seeded(u64),
}

impl Cut {
    pub(super) const fn all(seed: u8) -> [Self; 4] {
        [Self::Whole, Self::Bytewise, Self::Seeded(seed as u64), Self::Seeded(seed as u64 + 0x1_0000)]
    }

    pub(super) fn pieces(self, input: &[u8]) -> Vec<&[u8]> {
        match self {
            Self::Whole => [input].into(),
            _ if input.is_empty() => [input].into(),
            Self::Bytewise => input.chunks(1).collect(),
            Self::Seeded(seed) => {
                let mut random = Random::new(seed);
                let (mut pieces, mut rest) = (Vec::new(), input);
                while !rest.is_empty() {
                    // Small and large pieces alike: the exponent is drawn first.
                    let most = 1 << (random.next() % 10);
                    let n = 1 + random.next() as usize % most;
                    let (piece, tail) = rest.split_at(n.min(rest.len()));
                    pieces.push(piece);
                    rest = tail;
                }
                pieces
            }
        }
    }
}

/// A small generator (xorshift64*), for choices that are not the input's
pub(super) struct Random(u64);

impl Random {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }
}
