//! A set of places in a URI, as bits.

use alloc::vec;
use alloc::vec::Vec;

#[derive(Clone, Debug)]
pub(super) struct Places {
    words: Vec<u64>,
    len: usize,
}

impl Places {
    /// None of the places `0..len`
    pub(super) fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], len }
    }

    pub(super) fn insert(&mut self, at: usize) {
        if let Some(word) = self.words.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.words.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 != 0)
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(i, word)| {
            core::iter::successors(Some(*word), |w| Some(w & w.wrapping_sub(1)))
                .take_while(|w| *w != 0)
                .map(move |w| i * 64 + w.trailing_zeros() as usize)
        })
    }

    /// For each place the last one in the set that does not lie behind it, one up; 0 where there is none
    pub(super) fn latest(&self) -> Vec<u32> {
        let mut last = 0;
        let mut latest = Vec::with_capacity(self.len);
        for at in 0..self.len {
            if self.has(at) {
                last = at as u32 + 1;
            }
            latest.push(last);
        }
        latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_kept_and_found() {
        let mut p = Places::new(130);
        assert!(p.is_empty());
        for at in [0, 63, 64, 129] {
            p.insert(at);
        }
        assert_eq!(p.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert!(p.has(64) && !p.has(65) && !p.has(1_000));
        let latest = p.latest();
        assert_eq!((latest[62], latest[63], latest[100], latest[129]), (1, 64, 65, 130));
    }
}
