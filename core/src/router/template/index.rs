//! Which of many templates a URI can match at all, by what they begin with.

use alloc::vec::Vec;

/// Keys by a beginning; those for a URI are found in one pass over it, however many there are
///
/// Beginnings are kept as their length and a hash, in which capital and small letters are the same, as they are in hosts.
/// Another beginning with the same hash costs a vain attempt and no more.
#[derive(Clone, Debug, Default)]
pub(in crate::router) struct Beginnings(
    /// Length, hash, key; in order
    Vec<(usize, u64, u64)>,
);

impl Beginnings {
    pub(in crate::router) fn insert(&mut self, beginning: &str, key: u64) {
        let entry = (beginning.len(), hash(START, letters(beginning.as_bytes())), key);
        if let Err(at) = self.0.binary_search(&entry) {
            self.0.insert(at, entry);
        }
    }

    pub(in crate::router) fn remove(&mut self, beginning: &str, key: u64) {
        let entry = (beginning.len(), hash(START, letters(beginning.as_bytes())), key);
        if let Ok(at) = self.0.binary_search(&entry) {
            self.0.remove(at);
        }
    }

    /// The keys whose beginning the text may have, the longest first
    pub(in crate::router) fn of(&self, text: &str) -> Vec<u64> {
        let mut found = Vec::new();
        let (mut state, mut done) = (START, 0);
        let mut rest = &*self.0;
        while let Some((length, ..)) = rest.first() {
            let Some(more) = text.as_bytes().get(done..*length) else { break };
            state = hash(state, letters(more));
            done = *length;
            let (same, longer) = split(rest, |(length, ..)| *length <= done);
            let (_, equal) = split(same, |(_, hash, _)| *hash < state);
            let (equal, _) = split(equal, |(_, hash, _)| *hash <= state);
            found.extend(equal.iter().rev().map(|(.., key)| *key));
            rest = longer;
        }
        // Longest first; among equals in the order in which they came.
        found.reverse();
        found
    }
}

/// What a condition holds for, which is a beginning, and the rest
fn split<T>(all: &[T], holds: impl FnMut(&T) -> bool) -> (&[T], &[T]) {
    all.split_at_checked(all.partition_point(holds)).unwrap_or((all, &[]))
}

fn letters(text: &[u8]) -> impl Iterator<Item = u8> {
    text.iter().map(u8::to_ascii_lowercase)
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
