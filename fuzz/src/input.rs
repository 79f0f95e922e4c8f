//! Choices drawn from the fuzz input, and the ways to cut input into pieces.

use mcp_proto::testing::Rng;

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

    /// Draws at most `max` header fields: a name of `names` or a free one, and any value that a field may have.
    pub(super) fn fields(&mut self, max: usize, names: &[&str]) -> Vec<(String, Vec<u8>)> {
        let fits = |b: &u8| matches!(b, b'\t' | b' '..=b'~' | 0x80..);
        (0..self.below(max + 1))
            .map(|_| {
                let (which, length) = (self.below(names.len() + 1), self.below(8));
                let name = match names.get(which) {
                    Some(name) => String::from(*name),
                    None => self.take(length).iter().map(|b| char::from(b'a' + b % 26)).collect(),
                };
                let length = self.below(80);
                let value: Vec<u8> = self.take(length).iter().copied().filter(fits).collect();
                // A reader of HTTP removes white space around the value.
                (name, value.trim_ascii().to_vec())
            })
            .filter(|(name, _)| !name.is_empty())
            .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunking_preserves_input() {
        let text = "abcdefghij".repeat(100);
        for cut in Chunking::all(7) {
            assert_eq!(cut.pieces(text.as_bytes()).concat(), text.as_bytes());
        }
    }
}
