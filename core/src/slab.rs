//! Slab: a table with reusable slots whose keys become stale instead of dangling.
//!
//! Invariant: a key resolves only to the value that it was issued for. Each removal increments the slot's
//! `generation`. `trim` keeps the highest generation in `base_generation`, so a released slab revives no key either.

pub(crate) mod list;
pub(crate) mod tree;

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Slot of a value and the generation that the value belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Key {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl Key {
    /// A key that no table ever returns.
    #[cfg(all(feature = "http", feature = "server"))]
    pub(crate) const NONE: Self = Self { slot: NO_SLOT, generation: 0 };

    /// Returns the number of its slot, which is below the largest number of values that the table has had at a time.
    #[cfg(all(feature = "http", feature = "server"))]
    pub(crate) const fn slot(self) -> usize {
        self.slot as usize
    }
}

/// Declares an opaque, public, copyable key.
macro_rules! key {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub(crate) crate::slab::Key);
    };
}
pub(crate) use key;

/// Names the fields in which the values of a slab have their links for a [`List`](list::List) and a [`Tree`](tree::Tree).
macro_rules! links {
    ($value:ident: $($kind:ident $field:ident),+) => {
        $(crate::slab::links!(@$kind $value $field);)+
    };
    (@list $value:ident $field:ident) => {
        impl crate::slab::list::ListNode for $value {
            fn list_links(&self) -> crate::slab::list::ListLinks {
                self.$field
            }

            fn set_list_links(&mut self, links: crate::slab::list::ListLinks) {
                self.$field = links;
            }
        }
    };
    (@tree $value:ident $field:ident) => {
        impl crate::slab::tree::TreeNode for $value {
            fn tree_links(&mut self) -> &mut crate::slab::tree::TreeLinks {
                &mut self.$field
            }
        }
    };
}
pub(crate) use links;

#[derive(Clone, Debug)]
struct SlabSlot<T> {
    generation: u32,
    value: Option<T>,
    /// Next free slot; meaningful only while `value` is `None`.
    next_free: u32,
}

const NO_SLOT: u32 = u32::MAX;

/// A table with reusable slots; see the [module](self).
///
/// On targets with short addresses its functions are not inlined: a call is a third of their size.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    slots: Vec<SlabSlot<T>>,
    first_free: u32,
    len: usize,
    /// First generation of a newly created slot.
    base_generation: u32,
}

impl<T> Slab<T> {
    /// Creates an empty slab, without memory.
    #[must_use]
    pub const fn new() -> Self {
        Self { slots: Vec::new(), first_free: NO_SLOT, len: 0, base_generation: 0 }
    }

    /// Returns the number of values.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no values.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stores a value and returns its key.
    #[cfg_attr(target_pointer_width = "64", inline)]
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub fn insert(&mut self, value: T) -> Key {
        self.len += 1;
        if let Some(slot) = self.slots.get_mut(self.first_free as usize) {
            let key = Key { slot: self.first_free, generation: slot.generation };
            self.first_free = slot.next_free;
            slot.value = Some(value);
            return key;
        }
        if self.slots.len() == self.slots.capacity() {
            // Doubling starts at one: most slabs hold one channel, and a `Vec` would reserve four. Large slabs grow by
            // an eighth, so that many sessions do not reserve memory for as many again.
            let len = self.slots.len();
            self.slots.reserve_exact(if len < 8_192 { len.max(1) } else { len / 8 });
        }
        let key = Key {
            slot: u32::try_from(self.slots.len()).unwrap_or(NO_SLOT),
            generation: self.base_generation,
        };
        self.slots.push(SlabSlot {
            generation: self.base_generation,
            value: Some(value),
            next_free: NO_SLOT,
        });
        key
    }

    /// Returns the value in a slot.
    pub(crate) fn at(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)?.value.as_ref()
    }

    /// Returns the value in a slot for modification.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    fn at_mut(&mut self, slot: u32) -> Option<&mut T> {
        self.slots.get_mut(slot as usize)?.value.as_mut()
    }

    /// Returns the key of the value in a slot.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub(crate) fn key_at(&self, slot: u32) -> Option<Key> {
        let found = self.slots.get(slot as usize)?;
        found.value.as_ref()?;
        Some(Key { slot, generation: found.generation })
    }

    /// Returns the value of a key, or `None` if the key is stale.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    #[must_use]
    pub fn get(&self, key: Key) -> Option<&T> {
        self.slots.get(key.slot as usize).filter(|s| s.generation == key.generation)?.value.as_ref()
    }

    /// Returns the value of a key for modification, or `None` if the key is stale.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.slots.get_mut(key.slot as usize).filter(|s| s.generation == key.generation)?.value.as_mut()
    }

    /// Removes and returns a value. Its key is stale afterwards.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        self.vacate(key)?.take()
    }

    /// Removes a value and drops it where it is: a large one is not moved for that.
    pub(crate) fn discard(&mut self, key: Key) {
        if let Some(value) = self.vacate(key) {
            *value = None;
        }
    }

    /// Frees the slot of a key. Returns its value, which the caller takes out.
    fn vacate(&mut self, key: Key) -> Option<&mut Option<T>> {
        let (free, base) = (self.first_free, self.base_generation);
        let slot = self.slots.get_mut(key.slot as usize);
        let slot = slot.filter(|s| s.generation == key.generation && s.value.is_some())?;
        self.len -= 1;
        // A slot whose generations are used up is retired and stays empty.
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next.max(base);
            slot.next_free = free;
            self.first_free = key.slot;
        }
        Some(&mut slot.value)
    }

    /// Returns whether `key` was issued once and its value has been removed since.
    pub(crate) fn is_stale(&self, key: Key) -> bool {
        match self.slots.get(key.slot as usize) {
            Some(slot) => key.generation < slot.generation,
            None => key.generation < self.base_generation,
        }
    }

    /// Returns all values with their keys, for modification.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        self.slots
            .iter_mut()
            .zip(0..)
            .filter_map(|(s, slot)| Some((Key { slot, generation: s.generation }, s.value.as_mut()?)))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter().enumerate().filter_map(|(i, s)| {
            let slot = u32::try_from(i).ok()?;
            Some((Key { slot, generation: s.generation }, s.value.as_ref()?))
        })
    }

    /// Returns the number of values that fit without another allocation.
    #[cfg(all(test, any(feature = "http", feature = "server")))]
    pub(crate) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Makes the generations of all further keys this one or later ones: another table has issued earlier ones.
    #[cfg(all(feature = "http", feature = "server"))]
    pub(crate) fn begin_at(&mut self, generation: u32) {
        if generation > self.base_generation {
            self.base_generation = generation;
            let free = self.slots.iter_mut().filter(|slot| slot.value.is_none());
            // One whose generations are used up stays retired: it is in no list of free slots.
            free.for_each(|slot| slot.generation = slot.generation.max(generation));
        }
    }

    /// Releases the memory if nothing is stored and no slot has reached its last generation.
    pub(crate) fn trim(&mut self) {
        if self.len == 0 && !self.slots.is_empty() {
            // Keys of the slots that go must stay stale, so later slots begin with a later generation.
            let top = self.slots.iter().map(|s| s.generation).max().unwrap_or(0);
            // There is none after the last one: a slot that may be retired must stay, or its last key would be issued again.
            if top == u32::MAX {
                return;
            }
            self.base_generation = self.base_generation.max(top);
            self.slots = Vec::new();
            self.first_free = NO_SLOT;
        }
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The key as one number, for tables that hold tokens: never below 2³² unless 2³² values had its slot.
impl From<Key> for u64 {
    fn from(key: Key) -> Self {
        Self::from(key.generation.wrapping_add(1)) << 32 | Self::from(key.slot)
    }
}

/// The key that a number was made from.
impl From<u64> for Key {
    fn from(token: u64) -> Self {
        let half = |n: u64| u32::try_from(n & u64::from(u32::MAX)).unwrap_or_default();
        Self { slot: half(token), generation: half(token >> 32).wrapping_sub(1) }
    }
}

// A map by the keys of a slab, with a tenth of the code of a `BTreeMap`.

/// Values by the keys of a slab, which bounds their number.
///
/// Invariant: `len` is the number of values. A key finds its own value only, and none of an earlier one in its slot.
#[derive(Debug)]
pub(crate) struct SecondaryMap<T> {
    slots: Vec<Option<Box<(Key, T)>>>,
    len: usize,
}

impl<T> Default for SecondaryMap<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), len: 0 }
    }
}

#[cfg_attr(not(feature = "client"), allow(dead_code, reason = "a server needs less of it"))]
impl<T> SecondaryMap<T> {
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let entry = self.slots.get(key.slot as usize)?.as_deref()?;
        (entry.0 == key).then_some(&entry.1)
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let entry = self.slots.get_mut(key.slot as usize)?.as_deref_mut()?;
        (entry.0 == key).then_some(&mut entry.1)
    }

    /// Sets the value of a key. It replaces one of an earlier key in the slot.
    pub(crate) fn insert(&mut self, key: Key, value: T) {
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
    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let entry = self.slots.get_mut(key.slot as usize)?;
        let removed = entry.take_if(|entry| entry.0 == key)?;
        self.len -= 1;
        Some(removed.1)
    }
}

#[cfg(all(test, feature = "http", feature = "server"))]
#[path = "exhaustive/tables/slab.rs"]
mod exhaustive_tables;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_key_never_resolves_again() {
        let mut s = Slab::new();
        let a = s.insert('a');
        assert_eq!(s.remove(a), Some('a'));
        let b = s.insert('b');
        assert_eq!(a.slot, b.slot);
        assert_eq!((s.remove(a), s.get(a), s.get(b)), (None, None, Some(&'b')));
        assert!(s.is_stale(a) && !s.is_stale(b));
    }

    #[test]
    fn trim_keeps_generations() {
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

    #[test]
    fn token_round_trips_and_is_above_u32() {
        let mut s = Slab::new();
        let old = s.insert('a');
        s.remove(old);
        let key = s.insert('b');
        let token = u64::from(key);
        assert!(token > u64::from(u32::MAX) && token != u64::from(old));
        assert_eq!((Key::from(token), s.get_mut(Key::from(u64::from(old)))), (key, None));
        assert_eq!(s.get(Key::from(0)), None);
        assert_eq!(s.iter_mut().map(|(key, value)| (key, *value)).collect::<Vec<_>>(), [(key, 'b')]);
    }

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

    #[test]
    fn memory_doubles_from_one_value_on_and_grows_by_an_eighth_when_it_is_large() {
        let mut s = Slab::new();
        let mut capacities = Vec::new();
        for value in 0..9_217_u32 {
            let key = s.insert(value);
            #[cfg(all(feature = "http", feature = "server"))]
            assert_eq!(key.slot(), value as usize);
            assert_eq!(s.get(key), Some(&value));
            if capacities.last() != Some(&s.slots.capacity()) {
                capacities.push(s.slots.capacity());
            }
        }
        let doubled = (0..=13).map(|power| 1 << power);
        assert_eq!(capacities, doubled.chain([8_192 + 1_024, 9_216 + 1_152]).collect::<Vec<_>>());
    }
}
