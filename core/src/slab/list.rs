//! List: values of a slab in order of their arrival, whose links are in the values.
//!
//! Invariant: the list names exactly those values that were added and not removed.

use super::{Key, NO_SLOT, Slab};

/// Links of a value in a [`List`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListLinks {
    pub(crate) previous: u32,
    pub(crate) next: u32,
}

impl ListLinks {
    /// The links of a value that is in no list.
    pub(crate) const NONE: Self = Self { previous: NO_SLOT, next: NO_SLOT };

    /// Returns whether the value is the only one of its list, if it is in one.
    pub(crate) const fn is_alone(self) -> bool {
        self.previous == NO_SLOT && self.next == NO_SLOT
    }
}

/// A value that has links for a [`List`].
pub(crate) trait ListNode {
    fn list_links(&self) -> ListLinks;
    fn set_list_links(&mut self, links: ListLinks);
}

/// Values of a slab in order of their arrival; see the [module](self).
#[derive(Debug)]
pub(crate) struct List {
    first: u32,
    last: u32,
}

impl List {
    pub(crate) const fn new() -> Self {
        Self { first: NO_SLOT, last: NO_SLOT }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.first == NO_SLOT
    }

    /// Returns the oldest value.
    pub(crate) fn first<T>(&self, slab: &Slab<T>) -> Option<Key> {
        slab.key_at(self.first)
    }

    /// Returns the value after one of the list.
    pub(crate) fn next<T: ListNode>(slab: &Slab<T>, key: Key) -> Option<Key> {
        slab.key_at(slab.get(key)?.list_links().next)
    }

    /// Returns all values in their order.
    pub(crate) fn iter<'s, T: ListNode>(&self, slab: &'s Slab<T>) -> impl Iterator<Item = (Key, &'s T)> {
        let mut at = self.first;
        core::iter::from_fn(move || {
            let key = slab.key_at(at)?;
            let node = slab.get(key)?;
            at = node.list_links().next;
            Some((key, node))
        })
    }

    /// Adds a value at the end.
    pub(crate) fn push<T: ListNode>(&mut self, slab: &mut Slab<T>, key: Key) {
        let Some(node) = slab.at_mut(key.slot) else { return };
        node.set_list_links(ListLinks { previous: self.last, next: NO_SLOT });
        match slab.at_mut(self.last) {
            Some(last) => last.set_list_links(ListLinks { next: key.slot, ..last.list_links() }),
            None => self.first = key.slot,
        }
        self.last = key.slot;
    }

    /// Adds a value before all others.
    #[cfg(feature = "http")]
    pub(crate) fn push_front<T: ListNode>(&mut self, slab: &mut Slab<T>, key: Key) {
        let Some(node) = slab.at_mut(key.slot) else { return };
        node.set_list_links(ListLinks { previous: NO_SLOT, next: self.first });
        match slab.at_mut(self.first) {
            Some(first) => first.set_list_links(ListLinks { previous: key.slot, ..first.list_links() }),
            None => self.last = key.slot,
        }
        self.first = key.slot;
    }

    /// Removes a value, which must be in the list.
    pub(crate) fn remove<T: ListNode>(&mut self, slab: &mut Slab<T>, key: Key) {
        let Some(node) = slab.at_mut(key.slot) else { return };
        let links = node.list_links();
        node.set_list_links(ListLinks::NONE);
        self.unlink(slab, links);
    }

    /// Removes a value that was in the list and in the slab, by its links.
    pub(crate) fn unlink<T: ListNode>(&mut self, slab: &mut Slab<T>, links: ListLinks) {
        let ListLinks { previous, next } = links;
        match slab.at_mut(previous) {
            Some(node) => node.set_list_links(ListLinks { next, ..node.list_links() }),
            None => self.first = next,
        }
        match slab.at_mut(next) {
            Some(node) => node.set_list_links(ListLinks { previous, ..node.list_links() }),
            None => self.last = previous,
        }
    }
}

impl Default for List {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    struct Entry(ListLinks);

    impl ListNode for Entry {
        fn list_links(&self) -> ListLinks {
            self.0
        }

        fn set_list_links(&mut self, links: ListLinks) {
            self.0 = links;
        }
    }

    #[test]
    fn list_keeps_the_order_of_arrival_after_every_removal() {
        for remove in 0..720 {
            let (mut slab, mut list) = (Slab::new(), List::new());
            let mut expected: Vec<Key> = (0..5).map(|_| slab.insert(Entry(ListLinks::NONE))).collect();
            expected.iter().for_each(|key| list.push(&mut slab, *key));
            #[cfg(feature = "http")]
            {
                expected.insert(0, slab.insert(Entry(ListLinks::NONE)));
                list.push_front(&mut slab, expected[0]);
            }
            let mut order = remove;
            while !expected.is_empty() {
                assert!(list.iter(&slab).map(|(key, _)| key).eq(expected.iter().copied()));
                assert!(list.iter(&slab).all(|(_, entry)| entry.0.is_alone() == (expected.len() == 1)));
                let key = expected.remove(order % expected.len());
                order /= 2;
                if order % 2 == 0 {
                    list.remove(&mut slab, key);
                    slab.remove(key);
                } else if let Some(entry) = slab.remove(key) {
                    list.unlink(&mut slab, entry.0);
                }
            }
            assert!(list.iter(&slab).next().is_none());
        }
    }
}
