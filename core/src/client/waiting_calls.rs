//! Calls that are queued until the era is known, and the bytes that are charged for them.

use alloc::vec::Vec;

use crate::calls::outbound::CallSlab;
use crate::slab::Key;
use crate::slab::list::List;

/// Queued calls, oldest first.
///
/// Invariant: `bytes` is the sum of the costs of the calls that were not removed. Calls expire by their own deadlines,
/// which are in the shared heap with those of sent calls.
#[derive(Debug, Default)]
pub(super) struct CallQueue {
    calls: List,
    bytes: usize,
}

impl CallQueue {
    /// Returns the bytes that are charged for the calls.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a call that is in no list.
    pub(super) fn push(&mut self, calls: &mut CallSlab, call: Key, cost: usize) {
        calls.push_to(&mut self.calls, call);
        self.bytes = self.bytes.saturating_add(cost);
    }

    /// Removes a call that is queued.
    pub(super) fn remove(&mut self, calls: &mut CallSlab, call: Key, cost: usize) {
        calls.take_from(&mut self.calls, call);
        self.bytes = self.bytes.saturating_sub(cost);
    }

    /// Returns the calls from the oldest to the newest.
    pub(super) fn keys(&self, calls: &CallSlab) -> Vec<Key> {
        calls.keys_of(&self.calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::outbound::{CallOptions, CallPurpose, OutboundCall};
    use crate::limits::Limits;
    use crate::time::Instant;

    #[test]
    fn bytes_are_those_of_the_remaining_calls_in_order() {
        let (mut calls, mut queue) = (CallSlab::default(), CallQueue::default());
        let channel = Key { slot: 0, generation: 0 };
        let keys = [10, 11, 12, 13].map(|cost| {
            let options = CallOptions::new();
            let purpose = CallPurpose::Application;
            let call = OutboundCall::new(Instant::ZERO, channel, purpose, &options, &Limits::default());
            let key = calls.insert(call);
            queue.push(&mut calls, key, cost);
            key
        });
        queue.remove(&mut calls, keys[2], 12);
        assert_eq!(queue.bytes(), 10 + 11 + 13);
        assert_eq!(queue.keys(&calls), [keys[0], keys[1], keys[3]]);
    }
}
