//! Keys by number, for numbers that only grow.

use alloc::vec;
use alloc::vec::Vec;

use crate::slab::Key;

/// Most entries of a chunk. A removal moves those of one chunk, and a search looks at few chunks of many entries.
const CHUNK: usize = 64;

/// An index whose new numbers are larger than all others.
///
/// A sorted list in chunks: a tree would be the largest part of a small program. Invariants: the numbers grow within a
/// chunk and from one chunk to the next; no chunk is empty.
#[derive(Clone, Debug, Default)]
pub(super) struct NumberIndex(Vec<Vec<(u64, Key)>>);

impl NumberIndex {
    /// Adds a number, which must be larger than all others.
    pub(super) fn push(&mut self, number: u64, key: Key) {
        match self.0.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push((number, key)),
            _ => self.0.push(vec![(number, key)]),
        }
    }

    /// Returns the position of the first chunk that reaches a number.
    fn chunk_of(&self, number: u64) -> usize {
        self.0.partition_point(|chunk| chunk.last().is_some_and(|(last, _)| *last < number))
    }

    /// Returns the key of a number.
    pub(super) fn find(&self, number: u64) -> Option<Key> {
        let chunk = self.0.get(self.chunk_of(number))?;
        let at = chunk.binary_search_by_key(&number, |(n, _)| *n).ok()?;
        chunk.get(at).map(|(_, key)| *key)
    }

    /// Removes a number, if it is there.
    pub(super) fn remove(&mut self, number: u64) {
        let at = self.chunk_of(number);
        let Some(chunk) = self.0.get_mut(at) else { return };
        if let Ok(within) = chunk.binary_search_by_key(&number, |(n, _)| *n) {
            chunk.remove(within);
            if chunk.is_empty() {
                self.0.remove(at);
            }
        }
    }

    /// Returns the keys of all numbers above `number`, in order.
    pub(super) fn keys_after(&self, number: u64) -> impl Iterator<Item = Key> {
        let chunks = self.0.get(self.chunk_of(number)..).unwrap_or_default();
        let entries = chunks.iter().flatten().skip_while(move |(n, _)| *n <= number);
        entries.map(|(_, key)| *key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use alloc::collections::BTreeMap;

    #[test]
    fn index_equals_an_ordered_map_after_every_step() {
        let (mut index, mut model, mut rng) = (NumberIndex::default(), BTreeMap::new(), Rng::new(7));
        for number in 1..4_000_u64 {
            let key = Key::from(number);
            index.push(number, key);
            model.insert(number, key);
            for _ in 0..rng.below(3) {
                let removed = number.saturating_sub(rng.next_high() % 300);
                index.remove(removed);
                model.remove(&removed);
            }
            let at = number.saturating_sub(rng.next_high() % 400);
            assert_eq!(index.find(at), model.get(&at).copied());
            assert!(index.keys_after(at).eq(model.range(at + 1..).map(|(_, key)| *key)));
            assert!(index.0.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK));
        }
        assert!(index.0.len() > 1 && index.keys_after(0).count() == model.len());
        assert!(index.keys_after(u64::MAX).next().is_none() && index.find(0).is_none());
    }
}
