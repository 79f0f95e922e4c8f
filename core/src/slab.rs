//! A table whose keys go stale instead of dangling.
//!
//! Invariant: a key resolves only to the value that it was given out for. A slot's generation grows with every
//! removal, and giving the memory back (`trim`) keeps the highest generation, so not even that revives a key.

use alloc::vec::Vec;

/// Where a value is, and which one it was
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Key {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// Declares an opaque, public, copyable key
macro_rules! key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub(crate) crate::slab::Key);
    };
}
pub(crate) use key;

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
    /// Next free slot, meaningful while `value` is none
    next: u32,
}

const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: u32,
    len: usize,
    /// Generation of a slot that is made anew
    floor: u32,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: NONE, len: 0, floor: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> Key {
        self.len += 1;
        if let Some(slot) = self.slots.get_mut(self.free as usize) {
            let key = Key { slot: self.free, generation: slot.generation };
            self.free = slot.next;
            slot.value = Some(value);
            return key;
        }
        if self.slots.len() == self.slots.capacity() {
            // Doubling from one: most slabs hold one channel, and a `Vec` would make room for four. The largest ones grow
            // by an eighth: that many sessions are not to pay for as many again.
            let len = self.slots.len();
            self.slots.reserve_exact(if len < 8_192 { len.max(1) } else { len / 8 });
        }
        let key = Key { slot: u32::try_from(self.slots.len()).unwrap_or(NONE), generation: self.floor };
        self.slots.push(Slot { generation: self.floor, value: Some(value), next: NONE });
        key
    }

    /// The key of what stands in a slot
    #[cfg(feature = "http")]
    pub(crate) fn at(&self, slot: u32) -> Option<Key> {
        let found = self.slots.get(slot as usize)?;
        found.value.as_ref()?;
        Some(Key { slot, generation: found.generation })
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        self.slots.get(key.slot as usize).filter(|s| s.generation == key.generation)?.value.as_ref()
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.slots.get_mut(key.slot as usize).filter(|s| s.generation == key.generation)?.value.as_mut()
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let free = self.free;
        let slot = self.slots.get_mut(key.slot as usize).filter(|s| s.generation == key.generation)?;
        let value = slot.value.take()?;
        self.len -= 1;
        // A slot whose generations are used up is retired: its place in the table stays empty.
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next;
            slot.next = free;
            self.free = key.slot;
        }
        Some(value)
    }

    /// True when `key` was given out once and its value has since been removed
    pub(crate) fn is_stale(&self, key: Key) -> bool {
        match self.slots.get(key.slot as usize) {
            Some(slot) => key.generation < slot.generation,
            None => key.generation < self.floor,
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter().enumerate().filter_map(|(i, s)| {
            let slot = u32::try_from(i).ok()?;
            Some((Key { slot, generation: s.generation }, s.value.as_ref()?))
        })
    }

    /// Values that there is memory for
    #[cfg(all(test, feature = "http"))]
    pub(crate) fn room(&self) -> usize {
        self.slots.capacity()
    }

    /// Gives the memory back when nothing is stored
    pub(crate) fn trim(&mut self) {
        if self.len == 0 && !self.slots.is_empty() {
            let top = self.slots.iter().map(|s| s.generation).max().unwrap_or(0);
            self.floor = self.floor.max(top);
            self.slots = Vec::new();
            self.free = NONE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_key_never_resolves_again() {
        let mut s = Slab::new();
        let a = s.insert('a');
        assert_eq!(s.remove(a), Some('a'));
        let b = s.insert('b');
        assert_eq!(a.slot, b.slot);
        assert_eq!((s.remove(a), s.get(a), s.get(b)), (None, None, Some(&'b')));
        assert!(s.is_stale(a) && !s.is_stale(b));
    }

    #[test]
    fn trimming_keeps_generations() {
        let mut s = Slab::new();
        let keys: Vec<_> = (0..4).map(|i| s.insert(i)).collect();
        for k in &keys {
            s.remove(*k);
        }
        s.trim();
        assert_eq!(s.slots.capacity(), 0);
        let fresh = s.insert(9);
        assert!(keys.iter().all(|k| *k != fresh && s.get(*k).is_none() && s.is_stale(*k)));
    }
}
