//! Which of many templates a URI can match at all, by what they begin with.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Keys by a beginning; those for a URI are found in one pass over it, however many there are
///
/// Beginnings are kept as their length and a hash. Another beginning with the same hash costs a vain attempt and no more.
#[derive(Clone, Debug, Default)]
pub(in crate::router) struct Beginnings {
    by_hash: BTreeMap<(usize, u64), Vec<u64>>,
    /// How many keys there are of each length
    lengths: BTreeMap<usize, usize>,
}

impl Beginnings {
    pub(in crate::router) fn insert(&mut self, beginning: &str, key: u64) {
        let length = beginning.len();
        self.by_hash.entry((length, hash(START, beginning.bytes()))).or_default().push(key);
        *self.lengths.entry(length).or_default() += 1;
    }

    pub(in crate::router) fn remove(&mut self, beginning: &str, key: u64) {
        let place = (beginning.len(), hash(START, beginning.bytes()));
        if let Some(keys) = self.by_hash.get_mut(&place) {
            keys.retain(|k| *k != key);
            if keys.is_empty() {
                self.by_hash.remove(&place);
            }
        }
        if let Some(count) = self.lengths.get_mut(&place.0) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&place.0);
            }
        }
    }

    /// The keys whose beginning the text may have, the longest first
    pub(in crate::router) fn of(&self, text: &str) -> Vec<u64> {
        let mut found = Vec::new();
        let (mut state, mut done) = (START, 0);
        for length in self.lengths.keys().copied() {
            let Some(more) = text.as_bytes().get(done..length) else { break };
            state = hash(state, more.iter().copied());
            done = length;
            if let Some(keys) = self.by_hash.get(&(length, state)) {
                found.extend(keys.iter().rev());
            }
        }
        // Longest first; among equals in the order in which they came.
        found.reverse();
        found
    }
}

/// Where a hash begins
pub(in crate::router) const START: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, which can be carried on
pub(in crate::router) fn hash(start: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(start, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_comes_first() {
        let mut b = Beginnings::default();
        for (key, text) in ["a:", "a:b/", "", "a:b/", "x:"].into_iter().enumerate() {
            b.insert(text, key as u64);
        }
        assert_eq!(b.of("a:b/c"), [1, 3, 0, 2]);
        assert_eq!(b.of("a"), [2]);
        b.remove("a:b/", 1);
        b.remove("", 2);
        assert_eq!(b.of("a:b/c"), [3, 0]);
    }
}
