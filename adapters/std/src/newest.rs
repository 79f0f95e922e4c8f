//! A map in which one who is alone costs no memory of its own

use alloc::collections::BTreeMap;

/// A map that keeps its newest entry at hand, and the others in a [`BTreeMap`]
///
/// That one takes and gives back memory whenever it is filled and emptied. Where there is one entry at a time, as with
/// calls made one after the other, it is never asked.
#[derive(Debug)]
pub struct Newest<K, V> {
    newest: Option<(K, V)>,
    older: BTreeMap<K, V>,
}

impl<K: Ord, V> Newest<K, V> {
    /// Nothing yet
    #[must_use]
    pub const fn new() -> Self {
        Self { newest: None, older: BTreeMap::new() }
    }

    /// How many there are
    #[must_use]
    pub fn len(&self) -> usize {
        self.older.len() + usize::from(self.newest.is_some())
    }

    /// Whether there are none
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.newest.is_none() && self.older.is_empty()
    }

    /// Adds an entry whose key is not there
    pub fn insert(&mut self, key: K, value: V) {
        if let Some((key, value)) = self.newest.replace((key, value)) {
            self.older.insert(key, value);
        }
    }

    /// The entry of this key
    pub fn get(&self, key: &K) -> Option<&V> {
        match &self.newest {
            Some((newest, value)) if newest == key => Some(value),
            _ => self.older.get(key),
        }
    }

    /// The entry of this key
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match &mut self.newest {
            Some((newest, value)) if newest == key => Some(value),
            _ => self.older.get_mut(key),
        }
    }

    /// Takes the entry of this key out
    pub fn remove(&mut self, key: &K) -> Option<V> {
        match self.newest.take_if(|(newest, _)| newest == key) {
            Some((_, value)) => Some(value),
            None => self.older.remove(key),
        }
    }

    /// All entries by their keys, the newest last
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.older.iter().chain(self.newest.as_ref().map(|(key, value)| (key, value)))
    }

    /// All values by their keys, the newest last
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.older.values_mut().chain(self.newest.as_mut().map(|(_, value)| value))
    }
}

impl<K: Ord, V> Default for Newest<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V> IntoIterator for Newest<K, V> {
    type Item = (K, V);
    type IntoIter =
        core::iter::Chain<alloc::collections::btree_map::IntoIter<K, V>, core::option::IntoIter<(K, V)>>;

    fn into_iter(self) -> Self::IntoIter {
        self.older.into_iter().chain(self.newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Whatever goes in and out, in whatever order, it holds what a plain map holds
    #[test]
    fn it_is_a_map() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let (mut ours, mut plain) = (Newest::new(), BTreeMap::new());
        for key in 0..2_000_u64 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            ours.insert(key, seed);
            plain.insert(key, seed);
            // None, one or two of the last few, those included that are gone already.
            for back in [seed % 4, seed / 4 % 7].iter().take((seed / 28 % 3) as usize) {
                let gone = key.saturating_sub(*back);
                assert_eq!(ours.get(&gone), plain.get(&gone));
                assert_eq!(ours.get_mut(&gone), plain.get_mut(&gone));
                assert_eq!(ours.remove(&gone), plain.remove(&gone));
                assert_eq!(ours.get(&gone), None);
            }
            assert_eq!((ours.len(), ours.is_empty()), (plain.len(), plain.is_empty()));
            if key % 100 == 0 {
                assert!(ours.iter().eq(plain.iter()));
                assert!(ours.values_mut().rev().eq(plain.values_mut().rev()));
            }
        }
        let (ours, plain): (Vec<_>, Vec<_>) = (ours.into_iter().collect(), plain.into_iter().collect());
        assert!(!ours.is_empty());
        assert_eq!(ours, plain);
    }
}
