//! A map by the keys of a slab, with a tenth of the code of a `BTreeMap`.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::slab::Key;

/// Values by the keys of a slab, which bounds their number.
///
/// Invariant: `len` is the number of values. A key finds its own value only, and none of an earlier one in its slot.
#[derive(Debug)]
pub(super) struct SecondaryMap<T> {
    slots: Vec<Option<Box<(Key, T)>>>,
    len: usize,
}

impl<T> Default for SecondaryMap<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), len: 0 }
    }
}

impl<T> SecondaryMap<T> {
    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn get(&self, key: Key) -> Option<&T> {
        let entry = self.slots.get(key.slot as usize)?.as_deref()?;
        (entry.0 == key).then_some(&entry.1)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.slots.get_mut(key.slot as usize)?.as_deref_mut()?;
        (entry.0 == key).then_some(&mut entry.1)
    }

    /// Sets the value of a key. It replaces one of an earlier key in the slot.
    pub(super) fn insert(&mut self, key: Key, value: T) {
        let slot = key.slot as usize;
        if slot >= self.slots.len() {
            self.slots.resize_with(slot + 1, || None);
        }
        if let Some(entry) = self.slots.get_mut(slot) {
            self.len += usize::from(entry.is_none());
            *entry = Some(Box::new((key, value)));
        }
    }

    /// Removes the value of a key.
    pub(super) fn remove(&mut self, key: Key) -> Option<T> {
        let entry = self.slots.get_mut(key.slot as usize)?;
        let removed = entry.take_if(|entry| entry.0 == key)?;
        self.len -= 1;
        Some(removed.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(slot: u32, generation: u32) -> Key {
        Key { slot, generation }
    }

    #[test]
    fn value_is_found_by_its_key_until_it_is_removed() {
        let mut values = SecondaryMap::default();
        assert_eq!(values.remove(key(4, 0)), None);
        values.insert(key(4, 0), "a");
        values.insert(key(1, 7), "b");
        assert_eq!((values.get(key(4, 0)), values.get(key(1, 7))), (Some(&"a"), Some(&"b")));
        for other in [key(4, 1), key(0, 0), key(9, 0)] {
            assert!(values.get(other).is_none() && values.get_mut(other).is_none());
            assert_eq!(values.remove(other), None);
        }
        assert_eq!(values.remove(key(4, 0)), Some("a"));
        values.insert(key(1, 8), "c");
        assert_eq!(values.get(key(1, 7)), None);
        assert_eq!(values.get_mut(key(1, 8)), Some(&mut "c"));
        assert!(!values.is_empty() && values.remove(key(1, 8)).is_some() && values.is_empty());
    }
}
