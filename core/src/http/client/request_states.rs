//! States of the requests of the engine in the binding: the exchange that serves each, and its retries.

use alloc::vec::Vec;

use super::exchange::RetryCounts;
use crate::calls::outbound::OutboundCalls;
use crate::rpc::RequestId;
use crate::slab::Key;

/// State of a request of the engine in the binding.
#[derive(Clone, Copy, Debug, Default)]
enum RequestState {
    #[default]
    Unknown,
    /// It ended before it was sent, so its cancellation is not sent.
    Unsent { generation: u32 },
    /// It repeats an earlier request, after these retries.
    Repeated { generation: u32, retries: RetryCounts },
    /// The exchange that serves it: its own, or the one that looks up its tool.
    Served(Key),
}

/// The states of the requests of the engine, by the slots of their calls.
///
/// A state is kept until another one replaces it, or the request is looked up. What it says of a call does not hold for
/// the next call in its slot (`request_of_ended_call_is_not_taken_for_the_next_one_in_its_slot`).
#[derive(Debug, Default)]
pub(super) struct RequestStates {
    slots: Vec<RequestState>,
}

impl RequestStates {
    /// Records that a request was not executed: it was never sent, or was refused.
    pub(super) fn record_unsent(&mut self, id: &RequestId) {
        if let Some(call) = OutboundCalls::key_of(id) {
            self.set(call, RequestState::Unsent { generation: call.generation });
        }
    }

    /// Returns whether a request was not executed, and forgets that.
    pub(super) fn take_unsent(&mut self, id: &RequestId) -> bool {
        let Some(call) = OutboundCalls::key_of(id) else { return false };
        let is_unsent = matches!(self.get(call), Some(RequestState::Unsent { generation }) if *generation == call.generation);
        if is_unsent {
            self.set(call, RequestState::Unknown);
        }
        is_unsent
    }

    /// Records the retries that a new request of the engine continues.
    pub(super) fn record_repeat(&mut self, id: &RequestId, retries: RetryCounts) {
        if let Some(call) = OutboundCalls::key_of(id) {
            self.set(call, RequestState::Repeated { generation: call.generation, retries });
        }
    }

    /// Returns the retries that a request continues, and forgets them.
    pub(super) fn take_repeat(&mut self, id: &RequestId) -> RetryCounts {
        let Some(call) = OutboundCalls::key_of(id) else { return RetryCounts::default() };
        match self.get(call) {
            Some(RequestState::Repeated { generation, retries }) if *generation == call.generation => {
                let retries = *retries;
                self.set(call, RequestState::Unknown);
                retries
            }
            _ => RetryCounts::default(),
        }
    }

    /// Records that an exchange serves a call: its own, or the one that looks up its tool.
    pub(super) fn record_service(&mut self, call: Key, exchange: Key) {
        self.set(call, RequestState::Served(exchange));
    }

    /// Records that an exchange serves a call no longer.
    pub(super) fn record_end(&mut self, call: Key, exchange: Key) {
        if self.exchange_of(call) == Some(exchange) {
            self.set(call, RequestState::Unknown);
        }
    }

    /// Returns the exchange that serves the call in this slot.
    pub(super) fn exchange_of(&self, call: Key) -> Option<Key> {
        match self.get(call) {
            Some(RequestState::Served(exchange)) => Some(*exchange),
            _ => None,
        }
    }

    fn get(&self, call: Key) -> Option<&RequestState> {
        self.slots.get(call.slot as usize)
    }

    fn set(&mut self, call: Key, state: RequestState) {
        let at = call.slot as usize;
        if at >= self.slots.len() {
            self.slots.resize(at + 1, RequestState::Unknown);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = state;
        }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(slot: u32, generation: u32) -> RequestId {
        RequestId::int(OutboundCalls::wire_id(Key { slot, generation }))
    }

    #[test]
    fn request_of_ended_call_is_not_taken_for_the_next_one_in_its_slot() {
        let mut states = RequestStates::default();
        let retries = RetryCounts { repeats: 3, ..RetryCounts::default() };
        states.record_unsent(&id(5, 0));
        assert!(
            !states.take_unsent(&id(5, 1)) && states.take_unsent(&id(5, 0)) && !states.take_unsent(&id(5, 0))
        );
        states.record_repeat(&id(5, 1), retries);
        assert_eq!(states.take_repeat(&id(5, 0)), RetryCounts::default());
        assert_eq!(
            (states.take_repeat(&id(5, 1)), states.take_repeat(&id(5, 1))),
            (retries, RetryCounts::default())
        );
    }

    #[test]
    fn end_of_an_earlier_exchange_leaves_the_current_one() {
        let mut states = RequestStates::default();
        let [call, old, current] = [1, 2, 3].map(|slot| Key { slot, generation: 0 });
        states.record_service(call, old);
        states.record_service(call, current);
        states.record_end(call, old);
        assert_eq!(states.exchange_of(call), Some(current));
        states.record_end(call, current);
        assert_eq!(states.exchange_of(call), None);
    }
}
