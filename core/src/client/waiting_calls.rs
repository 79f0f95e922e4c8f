//! Calls that are queued until the era is known, and the bytes that are charged for them.

use crate::key_queue::KeyQueue;
use crate::slab::Key;

/// Queued calls, oldest first.
///
/// Invariant: `bytes` is the sum of the costs of the calls that were not removed. Calls expire by their own deadlines,
/// which are in the shared heap with those of sent calls.
#[derive(Debug, Default)]
pub(super) struct CallQueue {
    calls: KeyQueue,
    bytes: usize,
}

impl CallQueue {
    /// Returns the bytes that are charged for the calls.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a call.
    pub(super) fn push(&mut self, call: Key, cost: usize) {
        self.calls.push(call);
        self.bytes = self.bytes.saturating_add(cost);
    }

    /// Records that a call is no longer queued.
    pub(super) fn record_removal(&mut self, cost: usize, is_queued: impl FnMut(Key) -> bool) {
        self.bytes = self.bytes.saturating_sub(cost);
        self.calls.record_removal(is_queued);
    }

    /// Returns the calls from the oldest to the newest; removed ones are among them.
    pub(super) fn iter(&self) -> impl Iterator<Item = Key> {
        self.calls.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn bytes_are_those_of_the_remaining_calls_in_order() {
        let mut queue = CallQueue::default();
        let key = |slot| Key { slot, generation: 0 };
        for slot in 0..4 {
            queue.push(key(slot), 10 + slot as usize);
        }
        queue.record_removal(12, |call| call != key(2));
        assert_eq!(queue.bytes(), 10 + 11 + 13);
        let left: Vec<Key> = queue.iter().filter(|call| *call != key(2)).collect();
        assert_eq!(left, [0, 1, 3].map(key));
    }
}
