//! Seeded random numbers for the tests of this workspace. Not a part of the API: no version promises anything here.

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

/// Returns a tenth of a random test's rounds, or all of them with the variable `MCP_TEST_FULL`, as `.ci/run` sets it.
#[cfg(test)]
pub(crate) fn rounds(all: u64) -> u64 {
    if std::env::var_os("MCP_TEST_FULL").is_some() { all } else { all.div_ceil(10) }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

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
