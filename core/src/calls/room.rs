//! Room in outboxes where the heap is bounded ([`Limits::memory_reserve`](crate::Limits::memory_reserve), DESIGN-76).
//!
//! A message is taken only if an error response to it has room. The engine's own messages are sent, or wait, or are
//! dropped. An error of a call that has no room is owed: the call keeps its place in the table until there is room.

use super::batch::send_owed_batch;
use super::endpoint::{Channel, Endpoint, Role};
use super::inbound::{BatchKey, ErrorForm, NO_MEMORY_FOR_ANSWER};
use crate::limits::Limits;
use crate::rpc::RpcError;
use crate::slab::Key;

impl<R> Channel<R> {
    /// Makes room for `bytes` bytes in the outbox, and leaves the reserve free. Returns whether there is room.
    pub(super) fn reserve(&mut self, limits: &Limits, bytes: usize) -> bool {
        self.outbox.has_room(bytes)
            || limits.hold_reserve().is_some_and(|_reserve| self.outbox.reserve(bytes))
    }
}

/// Makes room for an error response to whatever message is next. Returns whether there is room.
#[cold]
pub(super) fn make_room_for_answer<R: Role>(endpoint: &mut Endpoint<R>, channel: Key) -> bool {
    let has_room = reserve(endpoint, channel, endpoint.limits.error_room());
    // Nothing would end the wait of an empty outbox, which keeps that room from the beginning.
    (has_room && !endpoint.limits.is_out_of_memory(0))
        || endpoint.channels.get(channel).is_none_or(|c| c.outbox.is_empty())
}

/// Makes room for `bytes` bytes in the outbox of a channel, and leaves the reserve free. Returns whether there is room.
#[cold]
pub(super) fn reserve<R: Role>(endpoint: &mut Endpoint<R>, channel: Key, bytes: usize) -> bool {
    let limits = &*endpoint.limits;
    endpoint.channels.get_mut(channel).is_none_or(|c| c.closed || c.reserve(limits, bytes))
}

/// Makes room for an error response. Returns the form for which there is room.
#[inline]
pub(super) fn error_form<R: Role>(
    endpoint: &mut Endpoint<R>,
    channel: Key,
    batch: Option<BatchKey>,
    error: &RpcError,
) -> Option<ErrorForm> {
    // A batch has room for an error of each of its members.
    if endpoint.limits.memory_reserve == 0 || batch.is_some() {
        return Some(ErrorForm::Whole);
    }
    let room = endpoint.limits.error_room();
    if reserve(endpoint, channel, room.saturating_add(error.len())) {
        Some(ErrorForm::Whole)
    } else {
        reserve(endpoint, channel, room).then_some(ErrorForm::Short)
    }
}

/// Keeps the place of a call that has ended with an error until there is memory for one.
#[cold]
pub(super) fn owe_error<R: Role>(endpoint: &mut Endpoint<R>, key: Key) {
    let Some(call) = endpoint.inbound.calls.get_mut(key) else { return };
    // Owed once: a second failure of the same call adds no second answer.
    if !core::mem::replace(&mut call.is_owed, true) {
        // What was held back is dropped, because nothing follows the answer of a call.
        call.throttle = None;
        // No answer is sent now, so the end of the observation reports no bytes.
        if let Some(observing) = endpoint.observing.as_mut() {
            observing.record_sent(b"");
        }
        endpoint.owed += 1;
        // The key that the application knows becomes stale: for it, the call has ended.
        endpoint.rekey(key);
    }
}

/// Returns whether a call has ended with an error that waits for memory, so that nothing else knows of it.
pub(crate) fn is_owed<R: Role>(endpoint: &Endpoint<R>, key: Key) -> bool {
    endpoint.inbound.calls.get(key).is_some_and(|call| call.is_owed)
}

/// Sends one answer that there was no memory for before, if there is now. Returns its channel.
#[cold]
pub(super) fn send_next_owed<R: Role>(endpoint: &mut Endpoint<R>) -> Option<Key> {
    let Endpoint { inbound, channels, limits, .. } = endpoint;
    let mut has_room =
        |channel: Key| channels.get_mut(channel).is_none_or(|c| c.reserve(limits, limits.error_room()));
    let owed = inbound.calls.iter().find(|(_, call)| call.is_owed && has_room(call.channel));
    if let Some(key) = owed.map(|(key, _)| key) {
        let record = endpoint.end_call(key)?;
        let error = RpcError::internal(NO_MEMORY_FOR_ANSWER);
        // Never of a batch: `error_form` finds room for each of its members, so none is owed.
        endpoint.send_error(record.channel, None, Some(&record.id), &error);
        return Some(record.channel);
    }
    send_owed_batch(endpoint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built::Legacy;
    use crate::calls::endpoint::send_owed;
    use crate::calls::endpoint::tests::{endpoint, outbox, queue, sent, set_memory};
    use crate::calls::inbound::tests::call;
    use crate::rpc::RequestId;

    #[test]
    fn message_waits_for_memory_only_where_output_will_free_some() {
        for (is_queued, capacity, has_memory, may_take) in [
            (true, 0, true, true),
            (true, 0, false, false),
            // There is room for the answer, and none for the message.
            (true, 1 << 20, false, false),
            (false, 0, false, true),
        ] {
            let (mut endpoint, channel) = endpoint(Limits::default());
            if is_queued {
                queue(&mut endpoint, channel, 10);
            }
            outbox(&mut endpoint, channel).tail().reserve_exact(capacity);
            set_memory(&mut endpoint, has_memory);
            assert_eq!(make_room_for_answer(&mut endpoint, channel), may_take, "{is_queued} {capacity}");
        }
    }

    #[test]
    fn error_is_whole_in_a_batch_and_otherwise_as_long_as_there_is_room_for() {
        let (mut endpoint, channel) = endpoint(Limits::default());
        let error = RpcError::internal("x".repeat(100));
        assert_eq!(error_form(&mut endpoint, channel, None, &error), Some(ErrorForm::Whole));
        set_memory(&mut endpoint, false);
        assert_eq!(error_form(&mut endpoint, channel, None, &error), None);
        let batch = BatchKey::new(Legacy::get().expect("the feature"), channel);
        assert_eq!(error_form(&mut endpoint, channel, Some(batch), &error), Some(ErrorForm::Whole));
        let room = endpoint.limits.error_room();
        for (capacity, form) in [(room, ErrorForm::Short), (room + error.len(), ErrorForm::Whole)] {
            outbox(&mut endpoint, channel).tail().reserve_exact(capacity);
            assert_eq!(error_form(&mut endpoint, channel, None, &error), Some(form));
        }
    }

    #[test]
    fn call_whose_error_is_owed_has_another_key_and_is_answered_once() {
        let (mut endpoint, channel) = endpoint(Limits::default());
        let key = endpoint.begin_call(call(RequestId::int(1))).expect("a new id");
        assert!(!is_owed(&endpoint, key));
        owe_error(&mut endpoint, key);
        let [owed] = endpoint.live_calls(channel)[..] else { panic!("one call") };
        assert!(owed != key && is_owed(&endpoint, owed) && !is_owed(&endpoint, key));
        owe_error(&mut endpoint, owed);
        assert_eq!(endpoint.owed, 1);
        assert_eq!((send_owed(&mut endpoint), endpoint.owed), (Some(channel), 0));
        assert!(sent(&mut endpoint, channel).contains(NO_MEMORY_FOR_ANSWER));
        assert_eq!(send_owed(&mut endpoint), None);
    }
}
