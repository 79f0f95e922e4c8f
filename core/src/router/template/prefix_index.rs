//! Index of templates by their literal prefix.

use alloc::vec::Vec;

/// Keys by prefix; the candidates for a URI are found in one pass over the URI, regardless of the number of keys.
///
/// A prefix is stored as its length and a hash. The hash ignores case, because hosts do. Two prefixes with the same
/// hash cost one failed match and have no other effect.
#[derive(Clone, Debug, Default)]
pub(in crate::router) struct PrefixIndex(
    /// Sorted entries: length, hash, key.
    Vec<(usize, u64, u64)>,
);

impl PrefixIndex {
    pub(in crate::router) fn insert(&mut self, prefix: &str, key: u64) {
        let entry = (prefix.len(), extend_hash(HASH_SEED, lowercase(prefix.as_bytes())), key);
        if let Err(at) = self.0.binary_search(&entry) {
            self.0.insert(at, entry);
        }
    }

    pub(in crate::router) fn remove(&mut self, prefix: &str, key: u64) {
        let entry = (prefix.len(), extend_hash(HASH_SEED, lowercase(prefix.as_bytes())), key);
        if let Ok(at) = self.0.binary_search(&entry) {
            self.0.remove(at);
        }
    }

    /// Returns the keys whose prefix may match the text, the longest prefix first.
    pub(in crate::router) fn find(&self, text: &str) -> Vec<u64> {
        let mut found = Vec::new();
        let (mut state, mut done) = (HASH_SEED, 0);
        let mut rest = &*self.0;
        while let Some((length, ..)) = rest.first() {
            let Some(more) = text.as_bytes().get(done..*length) else { break };
            state = extend_hash(state, lowercase(more));
            done = *length;
            let (same, longer) = split_where(rest, |(length, ..)| *length <= done);
            let (_, equal) = split_where(same, |(_, hash, _)| *hash < state);
            let (equal, _) = split_where(equal, |(_, hash, _)| *hash <= state);
            found.extend(equal.iter().rev().map(|(.., key)| *key));
            rest = longer;
        }
        // Longest prefix first, and the order of insertion among equals.
        found.reverse();
        found
    }
}

/// Splits a sorted slice into the entries for which the condition holds, and the others.
fn split_where<T>(all: &[T], holds: impl FnMut(&T) -> bool) -> (&[T], &[T]) {
    all.split_at_checked(all.partition_point(holds)).unwrap_or((all, &[]))
}

fn lowercase(text: &[u8]) -> impl Iterator<Item = u8> {
    text.iter().map(u8::to_ascii_lowercase)
}

/// Initial state of the hash.
pub(in crate::router) const HASH_SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues an FNV-1a hash.
pub(in crate::router) fn extend_hash(start: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(start, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_prefix_comes_first() {
        let mut b = PrefixIndex::default();
        for (key, text) in ["a:", "a:b/", "", "a:b/", "x:"].into_iter().enumerate() {
            b.insert(text, key as u64);
        }
        assert_eq!(b.find("a:b/c"), [1, 3, 0, 2]);
        assert_eq!(b.find("a"), [2]);
        b.remove("a:b/", 1);
        b.remove("", 2);
        assert_eq!(b.find("a:b/c"), [3, 0]);
    }
}
