//! Bit set of positions in a URI.

use alloc::vec;
use alloc::vec::Vec;

#[derive(Clone, Debug)]
pub(super) struct PositionSet {
    words: Vec<u64>,
    len: usize,
}

impl PositionSet {
    /// Creates an empty set for the positions `0..len`.
    pub(super) fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], len }
    }

    pub(super) fn insert(&mut self, at: usize) {
        if let Some(word) = self.words.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }

    pub(super) fn contains(&self, at: usize) -> bool {
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

    /// Returns for each position the largest member at or before it, plus one; 0 where there is none.
    pub(super) fn predecessors(&self) -> Vec<u32> {
        let mut last = 0;
        let mut predecessors = Vec::with_capacity(self.len);
        for at in 0..self.len {
            if self.contains(at) {
                last = at as u32 + 1;
            }
            predecessors.push(last);
        }
        predecessors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_set_returns_inserted_positions() {
        let mut p = PositionSet::new(130);
        assert!(p.is_empty());
        for at in [0, 63, 64, 129] {
            p.insert(at);
        }
        assert_eq!(p.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert!(p.contains(64) && !p.contains(65) && !p.contains(1_000));
        let predecessors = p.predecessors();
        assert_eq!(
            (predecessors[62], predecessors[63], predecessors[100], predecessors[129]),
            (1, 64, 65, 130)
        );
    }
}
