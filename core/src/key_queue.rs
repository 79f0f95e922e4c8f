//! Slab keys in order of insertion, any of which can be removed without a search.
//!
//! A removed key stays in the queue until it reaches the front. The owner knows which keys are live, and passes that as a
//! closure. Invariant: at most as many keys as are live are dead, and 32 more, so a removal costs constant time on average.

use alloc::collections::VecDeque;

use crate::slab::Key;

/// A queue of keys; see the [module](self).
#[derive(Debug, Default)]
pub(crate) struct KeyQueue {
    keys: VecDeque<Key>,
    /// Number of keys that were not removed.
    live: usize,
}

impl KeyQueue {
    /// Returns the number of keys that were not removed.
    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.live
    }

    /// Appends a key, which must be live.
    pub(crate) fn push(&mut self, key: Key) {
        self.keys.push_back(key);
        self.live += 1;
    }

    /// Prepends a key, which must be live.
    pub(crate) fn push_front(&mut self, key: Key) {
        self.keys.push_front(key);
        self.live += 1;
    }

    /// Records that a key of the queue is no longer live.
    pub(crate) fn record_removal(&mut self, mut is_live: impl FnMut(Key) -> bool) {
        self.live = self.live.saturating_sub(1);
        if self.live == 0 {
            self.keys.clear();
        } else if self.keys.len() > self.live.saturating_mul(2).saturating_add(32) {
            self.keys.retain(|key| is_live(*key));
        }
    }

    /// Returns the oldest live key, and drops dead ones before it.
    pub(crate) fn first(&mut self, mut is_live: impl FnMut(Key) -> bool) -> Option<Key> {
        while let Some(key) = self.keys.front().copied() {
            if is_live(key) {
                return Some(key);
            }
            self.keys.pop_front();
        }
        None
    }

    /// Returns the keys from the oldest to the newest; dead ones are among them.
    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Key> {
        self.keys.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;
    use alloc::vec::Vec;

    #[test]
    fn live_keys_stay_in_order_and_dead_ones_are_bounded() {
        let (mut slab, mut queue, mut expected) = (Slab::new(), KeyQueue::default(), Vec::new());
        for step in 0..2_000_usize {
            if step % 5 < 3 || expected.is_empty() {
                let key = slab.insert(step);
                queue.push(key);
                expected.push(key);
            } else {
                let key = expected.remove(step * 31 % expected.len());
                slab.remove(key);
                queue.record_removal(|key| slab.get(key).is_some());
            }
            let is_live = |key: &Key| slab.get(*key).is_some();
            assert_eq!(queue.iter().filter(is_live).collect::<Vec<_>>(), expected);
            assert_eq!(queue.len(), expected.len());
            assert!(queue.keys.len() <= 2 * queue.len() + 32, "{} of {}", queue.keys.len(), queue.len());
        }
    }

    #[test]
    fn repeated_insertion_and_removal_beside_others_does_not_grow_the_queue() {
        let (mut slab, mut queue) = (Slab::new(), KeyQueue::default());
        queue.push(slab.insert(()));
        for _ in 0..10_000 {
            let key = slab.insert(());
            queue.push(key);
            slab.remove(key);
            queue.record_removal(|key| slab.get(key).is_some());
        }
        assert!(queue.len() == 1 && queue.keys.len() <= 34);
    }

    #[test]
    fn first_skips_dead_keys() {
        let (mut slab, mut queue) = (Slab::new(), KeyQueue::default());
        let keys = [0, 1, 2].map(|n| slab.insert(n));
        keys.iter().for_each(|key| queue.push(*key));
        slab.remove(keys[0]);
        queue.record_removal(|key| slab.get(key).is_some());
        assert_eq!(queue.first(|key| slab.get(key).is_some()), Some(keys[1]));
        assert_eq!((queue.first(|key| slab.get(key) == Some(&2)), queue.len()), (Some(keys[2]), 2));
    }
}
