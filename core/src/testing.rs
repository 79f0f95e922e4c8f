//! Seeded random numbers and enumerations for the tests of this workspace. Not a part of the API: no version promises anything here.

use alloc::vec::Vec;

#[cfg(test)]
mod extent;
#[cfg(test)]
pub use extent::{exhaustive, rounds};

/// Seeded xorshift64 generator. Equal seeds give equal numbers.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Returns the generator of `seed`. Every seed is valid.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        // The generator starts slowly from small numbers and never leaves zero, so the seed is spread first.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x2545_F491_4F6C_DD1D | 1)
    }

    /// Returns a number of the whole range.
    pub const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a number of 31 bits: the upper bits of [`next`](Self::next), which are less correlated than the lower ones.
    pub const fn next_high(&mut self) -> u64 {
        self.next() >> 33
    }

    /// Returns a number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end.max(1)).unwrap_or(1)).unwrap_or(0)
    }

    /// Returns `true` in `percent` of 100 cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    /// Returns one of `choices`.
    ///
    /// # Panics
    ///
    /// If `choices` is empty.
    #[allow(clippy::indexing_slicing, reason = "the tests that call this have a choice")]
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}

/// Calls `check` with every sequence of at most `longest` of the numbers below `choices`, the shortest first, and returns how many
/// there were. The empty one is among them.
pub fn for_each_sequence(choices: usize, longest: usize, mut check: impl FnMut(&[usize])) -> u64 {
    let mut count = 0;
    for length in 0..=longest {
        if choices == 0 && length > 0 {
            break;
        }
        let mut sequence = alloc::vec![0; length];
        loop {
            check(&sequence);
            count += 1;
            // The next one, as a number whose last digit is the last item.
            let Some(digit) = sequence.iter().rposition(|digit| digit + 1 < choices) else { break };
            let (head, tail) = sequence.split_at_mut(digit + 1);
            head.iter_mut().skip(digit).for_each(|digit| *digit += 1);
            tail.fill(0);
        }
    }
    count
}

/// Calls `check` with every text of at most `longest` of the pieces, and returns how many there were.
pub fn for_each_text(pieces: &[&[u8]], longest: usize, mut check: impl FnMut(&[u8])) -> u64 {
    let mut text = Vec::new();
    for_each_sequence(pieces.len(), longest, |sequence| {
        text.clear();
        text.extend(sequence.iter().filter_map(|piece| pieces.get(*piece)).copied().flatten());
        check(&text);
    })
}

/// Calls `check` with every way to cut `length` bytes in pieces that are not empty, and returns how many there were: 2 to the power of
/// `length` - 1. The pieces are given by their ends, without the last one.
pub fn for_each_cut(length: usize, mut check: impl FnMut(&[usize])) -> u64 {
    let places = length.saturating_sub(1);
    let mut ends = Vec::new();
    for chosen in 0..1_u64 << places {
        ends.clear();
        ends.extend((0..places).filter(|place| chosen >> place & 1 == 1).map(|place| place + 1));
        check(&ends);
    }
    1 << places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_texts_and_cuts_are_complete() {
        let mut seen = Vec::new();
        assert_eq!(for_each_sequence(2, 2, |sequence| seen.push(sequence.to_vec())), 7);
        assert_eq!(seen, [&[][..], &[0], &[1], &[0, 0], &[0, 1], &[1, 0], &[1, 1]]);
        assert_eq!(for_each_sequence(3, 4, |_| {}), 1 + 3 + 9 + 27 + 81);
        assert_eq!(for_each_sequence(0, 4, |_| {}), 1);

        let mut texts = Vec::new();
        for_each_text(&[b"a", b"\r\n"], 2, |text| texts.push(text.to_vec()));
        assert_eq!(texts, [&b""[..], b"a", b"\r\n", b"aa", b"a\r\n", b"\r\na", b"\r\n\r\n"]);

        let mut cuts = Vec::new();
        assert_eq!(for_each_cut(3, |ends| cuts.push(ends.to_vec())), 4);
        assert_eq!(cuts, [&[][..], &[1], &[2], &[1, 2]]);
        assert_eq!(for_each_cut(0, |ends| assert!(ends.is_empty())), 1);
    }

    #[test]
    fn rng_of_equal_seeds_repeats_and_of_other_seeds_differs() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (0..8).map(|_| rng.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert!(draw(0).iter().any(|n| *n > 0));
    }
}
