//! A map that does not allocate for a single entry.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::borrow::BorrowMut;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// A map that keeps its newest entry inline, and older entries in a [`BTreeMap`].
///
/// A `BTreeMap` allocates and frees memory whenever it is filled and emptied. With one entry at a time, as for calls
/// made one after the other, it is never used.
#[derive(Debug)]
pub(crate) struct InlineMap<K, V> {
    newest: Option<(K, V)>,
    older: BTreeMap<K, V>,
}

impl<K: Ord, V> InlineMap<K, V> {
    /// Creates an empty map.
    #[must_use]
    pub(crate) const fn new() -> Self {
        Self { newest: None, older: BTreeMap::new() }
    }

    /// Returns the number of entries.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.older.len() + usize::from(self.newest.is_some())
    }

    /// Returns whether the map is empty.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_none() && self.older.is_empty()
    }

    /// Inserts an entry. The key must not be in the map.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if let Some((key, value)) = self.newest.replace((key, value)) {
            self.older.insert(key, value);
        }
    }

    /// Returns the value of `key`.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        match &self.newest {
            Some((newest, value)) if newest == key => Some(value),
            _ => self.older.get(key),
        }
    }

    /// Returns the value of `key` mutably.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match &mut self.newest {
            Some((newest, value)) if newest == key => Some(value),
            _ => self.older.get_mut(key),
        }
    }

    /// Removes the entry of `key` and returns its value.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        match self.newest.take_if(|(newest, _)| newest == key) {
            Some((_, value)) => Some(value),
            None => self.older.remove(key),
        }
    }

    /// Iterates over the entries in the order of their keys, except that the newest is last.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.older.iter().chain(self.newest.as_ref().map(|(key, value)| (key, value)))
    }

    /// Iterates over the values in the order of their keys, except that the newest is last.
    pub(crate) fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> {
        self.older.values_mut().chain(self.newest.as_mut().map(|(_, value)| value))
    }
}

impl<K: Ord, V> Default for InlineMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Ord, V> IntoIterator for InlineMap<K, V> {
    type Item = (K, V);
    type IntoIter =
        core::iter::Chain<alloc::collections::btree_map::IntoIter<K, V>, core::option::IntoIter<(K, V)>>;

    fn into_iter(self) -> Self::IntoIter {
        self.older.into_iter().chain(self.newest)
    }
}

// A box whose value is dropped through a vtable.

/// A boxed value that is accessed and dropped through a vtable.
///
/// Drop code is compiled into each codegen unit that may need it. For an engine with its connections that is ten
/// kilobytes, several times per program. Through a vtable it is compiled once, where the value is created. That place
/// should be a function without type parameters, and the value one that is accessed a few times per turn of the loop.
pub(crate) struct ErasedBox<T>(Box<dyn BorrowMut<T> + Send>);

impl<T: Send + 'static> ErasedBox<T> {
    /// Boxes a value.
    pub(crate) fn new(value: T) -> Self {
        Self(Box::new(value))
    }
}

impl<T> Deref for ErasedBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        (*self.0).borrow()
    }
}

impl<T> DerefMut for ErasedBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        (*self.0).borrow_mut()
    }
}

impl<T: fmt::Debug> fmt::Debug for ErasedBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Compares random operations with those of a `BTreeMap`.
    #[test]
    fn inline_map_behaves_like_a_btree_map() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let (mut map, mut plain) = (InlineMap::new(), BTreeMap::new());
        for key in 0..2_000_u64 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            map.insert(key, seed);
            plain.insert(key, seed);
            // Removes none, one or two of the last few keys, some of them already removed.
            for back in [seed % 4, seed / 4 % 7].iter().take((seed / 28 % 3) as usize) {
                let removed = key.saturating_sub(*back);
                assert_eq!(map.get(&removed), plain.get(&removed));
                assert_eq!(map.get_mut(&removed), plain.get_mut(&removed));
                assert_eq!(map.remove(&removed), plain.remove(&removed));
                assert_eq!(map.get(&removed), None);
            }
            assert_eq!((map.len(), map.is_empty()), (plain.len(), plain.is_empty()));
            if key % 100 == 0 {
                assert!(map.iter().eq(plain.iter()));
                assert!(map.values_mut().rev().eq(plain.values_mut().rev()));
            }
        }
        let (map, plain): (Vec<_>, Vec<_>) = (map.into_iter().collect(), plain.into_iter().collect());
        assert!(!map.is_empty());
        assert_eq!(map, plain);
    }
}
