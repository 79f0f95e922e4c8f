//! Operations on inbound calls: begin, notify, end.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::endpoint::{Endpoint, EndpointTimer};
use super::inbound::{InboundCall, NotificationThrottle, Progress, SendStatus};
use super::observed_requests;
use super::role::Role;
use super::room;
use crate::error::UseError;
use crate::json::{EncodeError, Serializer, max_escaped_len, object_members, string, write_str};
use crate::methods;
use crate::rpc::{RequestId, RpcError, encode};
use crate::slab::Key;
use crate::time::Instant;
use crate::version::Version;

impl<R: Role> Endpoint<R> {
    /// Adds a call; returns `None` if its id is in flight.
    pub(crate) fn begin_call(&mut self, call: InboundCall) -> Option<Key> {
        let (expires, batch) = (call.expires_at, call.batch);
        let (stream, root) = (call.channel, self.root_channel(call.channel));
        let c = self.channels.get_mut(root)?;
        let key = self.inbound.insert(&mut c.live_calls, call)?;
        if let Some(c) = self.channels.get_mut(stream) {
            c.role.request_started();
        }
        if expires < Instant::FAR_FUTURE {
            self.deadlines.arm(expires, EndpointTimer::CallAge(key));
        }
        if let Some(batch) = batch {
            self.join_batch(batch);
        }
        Some(key)
    }

    /// Returns the call with this id that is in flight; `channel` is a root channel.
    #[inline]
    pub(crate) fn find_call(&mut self, channel: Key, id: &RequestId) -> Option<Key> {
        let c = self.channels.get_mut(channel)?;
        self.inbound.find(&mut c.live_calls, id)
    }

    /// Returns whether a call with this id is in flight; `channel` is a root channel.
    #[inline]
    pub(crate) fn is_live(&mut self, channel: Key, id: &RequestId) -> bool {
        self.find_call(channel, id).is_some()
    }

    /// Returns whether calls of a root channel are in flight.
    #[cfg(feature = "http")]
    pub(crate) fn has_live_calls(&self, channel: Key) -> bool {
        self.channels.get(channel).is_some_and(|c| !c.live_calls.is_empty())
    }

    /// Returns all calls in flight of a root channel, ordered by id.
    pub(crate) fn live_calls(&mut self, channel: Key) -> Vec<Key> {
        self.channels.get(channel).map(|c| self.inbound.keys(&c.live_calls)).unwrap_or_default()
    }

    /// Removes a call from the tables.
    pub(crate) fn end_call(&mut self, key: Key) -> Option<InboundCall> {
        let stream = self.inbound.calls.get(key)?.channel;
        let root = self.root_channel(stream);
        let record = match self.channels.get_mut(root) {
            Some(c) => self.inbound.remove(&mut c.live_calls, key),
            None => self.inbound.calls.remove(key),
        };
        if let Some(c) = self.channels.get_mut(stream) {
            c.role.request_finished(&mut self.shared);
        }
        if record.as_ref().is_some_and(|call| call.is_owed) {
            self.owed = self.owed.saturating_sub(1);
        }
        self.sweep();
        record
    }

    /// Gives a call a new key. The old one is stale.
    pub(crate) fn rekey(&mut self, key: Key) -> Option<Key> {
        let root = self.root_channel(self.inbound.calls.get(key)?.channel);
        let c = self.channels.get_mut(root)?;
        let key = self.inbound.rekey(&mut c.live_calls, key)?;
        // The deadline of deferred notifications was armed with the old key.
        let due = self.inbound.calls.get(key).and_then(|call| call.throttle.as_ref()?.due_at);
        if let Some(due) = due {
            self.deadlines.arm(due, EndpointTimer::Deferred(key));
        }
        Some(key)
    }

    /// Ends a call with an error. Returns the channel of the call.
    ///
    /// Without memory for an error, it is sent later ([`room::send_owed`]). The key is stale in any case.
    pub(crate) fn fail(&mut self, key: Key, error: &RpcError) -> Option<Key> {
        let call = self.inbound.calls.get(key)?;
        let (channel, batch) = (call.channel, call.batch);
        let observed = self.inbound.take_observed(key);
        let record = if room::error_form(self, channel, batch, error).is_none() {
            room::owe_error(self, key);
            None
        } else {
            let record = self.end_call(key)?;
            self.send_error(channel, batch, Some(&record.id), error);
            Some(record)
        };
        if let Some(open) = observed {
            observed_requests::observe_failure(self, open, error);
        }
        if let Some(record) = record {
            self.finish_batch_member(&record);
        }
        Some(channel)
    }

    /// Ends a call with the response that starts at `mark` in the outbox.
    ///
    /// # Errors
    ///
    /// [`EncodeError::OutOfMemory`] if the batch of the call has no memory for it. The response is removed.
    pub(crate) fn commit_answer(&mut self, key: Key, mark: usize) -> Result<(), EncodeError> {
        let Some(call) = self.inbound.calls.get(key) else { return Ok(()) };
        let (channel, batch) = (call.channel, call.batch);
        let Some(batch) = batch else {
            observed_requests::observe_answer(self, key, mark);
            self.end_call(key);
            self.commit_message(channel, mark);
            return Ok(());
        };
        let length = self.channels.get_mut(channel).map_or(0, |c| c.outbox.tail().len().saturating_sub(mark));
        if !self.make_room_in_batch(batch, length.saturating_add(self.limits.message_room())) {
            if let Some(c) = self.channels.get_mut(channel) {
                c.outbox.rollback(mark);
            }
            return Err(EncodeError::OutOfMemory);
        }
        observed_requests::observe_answer(self, key, mark);
        let Some(record) = self.end_call(key) else { return Ok(()) };
        let Some(c) = self.channels.get_mut(channel) else { return Ok(()) };
        let mut tail = core::mem::take(c.outbox.tail());
        self.add_to_batch(batch, Some(&record.id), length, |out| {
            out.extend_from_slice(tail.get(mark..).unwrap_or_default());
        });
        tail.truncate(mark);
        if let Some(c) = self.channels.get_mut(channel) {
            *c.outbox.tail() = tail;
        }
        self.finish_batch_member(&record);
        Ok(())
    }

    /// Ends a call without a response (CANC-020).
    pub(crate) fn drop_call(&mut self, key: Key) -> Option<InboundCall> {
        observed_requests::observe_cancellation(self, key);
        let record = self.end_call(key)?;
        self.finish_batch_member(&record);
        Some(record)
    }

    /// Parses the progress token of a request (PROG-003).
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(crate) fn parse_progress_token(&self, text: Option<&[u8]>) -> Result<Option<RequestId>, RpcError> {
        text.map(|text| {
            RequestId::from_json(text, self.limits.max_id).ok_or_else(|| {
                RpcError::invalid_params("`_meta.progressToken` is neither a string nor an integer")
            })
        })
        .transpose()
    }

    /// Parses the request id and the reason of `notifications/cancelled`.
    pub(crate) fn parse_cancellation(&self, params: &[u8]) -> Option<(RequestId, Option<String>)> {
        let (mut id, mut reason) = (None, None);
        object_members(params, |name, value| match name {
            b"requestId" => id = RequestId::from_json(value, self.limits.max_id),
            // Without memory for it, the cancellation counts all the same.
            b"reason" if !self.limits.is_out_of_memory(value.len()) => {
                reason = string(value).map(Cow::into_owned);
            }
            _ => {}
        });
        Some((id?, reason))
    }

    /// Sends progress of a call, or defers it.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the call has ended.
    pub(crate) fn report_progress(&mut self, key: Key, progress: Progress) -> Result<SendStatus, UseError> {
        let channel = self.inbound.calls.get(key).ok_or(UseError::Stale)?.channel;
        let extra = progress.message.as_ref().map_or(0, |message| max_escaped_len(message.len()));
        let full = !self.has_outbox_room(channel, extra);
        let (now, limits) = (self.now, &*self.limits);
        let record = self.inbound.calls.get_mut(key).ok_or(UseError::Stale)?;
        let Some(token) = &record.progress_token else { return Ok(SendStatus::Dropped) };
        let throttle =
            record.throttle.get_or_insert_with(|| Box::new(NotificationThrottle::new(now, limits)));
        let newest = throttle.deferred_progress.as_ref().map_or(throttle.last_progress, |(value, _)| *value);
        if !progress.progress.is_finite() || progress.progress <= newest {
            return Ok(SendStatus::Dropped);
        }
        if throttle.due_at.is_none() && !full && throttle.bucket.take(now) {
            throttle.last_progress = progress.progress;
            let Some(c) = self.channels.get_mut(channel) else { return Ok(SendStatus::Queued) };
            let mark = c.outbox.mark();
            write_progress(c.outbox.tail(), record.version, token, progress);
            self.commit_message(channel, mark);
            return Ok(SendStatus::Queued);
        }
        // Written here, so that only a program that reports progress has the code that prints numbers.
        let (value, mut message) = (progress.progress, Vec::new());
        write_progress(&mut message, record.version, token, progress);
        throttle.deferred_progress = Some((value, message.into()));
        if throttle.due_at.is_none() {
            self.defer(key);
        }
        Ok(SendStatus::Deferred)
    }

    /// Sends a log message of a call, or defers it.
    pub(crate) fn send_log(&mut self, key: Key, message: Vec<u8>) -> SendStatus {
        let Some(channel) = self.inbound.calls.get(key).map(|call| call.channel) else {
            return SendStatus::Dropped;
        };
        let full = !self.has_outbox_room(channel, message.len());
        let (now, limits) = (self.now, &*self.limits);
        let Some(record) = self.inbound.calls.get_mut(key) else { return SendStatus::Dropped };
        let throttle =
            record.throttle.get_or_insert_with(|| Box::new(NotificationThrottle::new(now, limits)));
        if throttle.due_at.is_none() && !full && throttle.bucket.take(now) {
            self.send(channel, message.len(), |out| out.extend_from_slice(&message));
            return SendStatus::Queued;
        }
        throttle.deferred_log = Some(message.into());
        if throttle.due_at.is_none() {
            self.defer(key);
        }
        SendStatus::Deferred
    }

    /// Arms the timer for the deferred notifications of a call.
    fn defer(&mut self, key: Key) {
        // The outbox of a slow peer is checked again after this time.
        let soonest = self.now + Duration::from_millis(50);
        let Some(throttle) = self.inbound.calls.get_mut(key).and_then(|c| c.throttle.as_mut()) else {
            return;
        };
        let due = throttle.bucket.ready_at().unwrap_or(Instant::FAR_FUTURE).max(soonest);
        throttle.due_at = Some(due);
        self.deadlines.arm(due, EndpointTimer::Deferred(key));
    }

    /// Sends the deferred notifications of a call, if that is possible now.
    pub(crate) fn send_deferred(&mut self, key: Key) {
        let Some(call) = self.inbound.calls.get(key) else { return };
        let extra = call.throttle.as_ref().map_or(0, |throttle| throttle.deferred_len());
        let full = !self.has_outbox_room(call.channel, extra);
        let now = self.now;
        let Some(call) = self.inbound.calls.get_mut(key) else { return };
        let Some(throttle) = call.throttle.as_mut() else { return };
        throttle.due_at = None;
        if full || !throttle.bucket.take(now) {
            return self.defer(key);
        }
        // Log messages go first: progress always describes a later state.
        let message = throttle.deferred_log.take().or_else(|| {
            let (progress, message) = throttle.deferred_progress.take()?;
            throttle.last_progress = progress;
            Some(message)
        });
        let (channel, has_more) = (call.channel, throttle.deferred_progress.is_some());
        if let Some(message) = message {
            self.send(channel, message.len(), |out| out.extend_from_slice(&message));
        }
        if has_more {
            self.defer(key);
        }
    }
}

/// Appends a progress notification.
fn write_progress(out: &mut Vec<u8>, version: Version, token: &RequestId, progress: Progress) {
    encode::notification_head(out, methods::PROGRESS);
    out.extend_from_slice(b",\"params\":{\"progressToken\":");
    token.write(out);
    out.extend_from_slice(b",\"progress\":");
    // A finite number can always be encoded.
    let _ = Serializer::any(out, &progress.progress);
    if let Some(total) = progress.total.filter(|t| t.is_finite()) {
        out.extend_from_slice(b",\"total\":");
        let _ = Serializer::any(out, &total);
    }
    // 2024-11-05 has no `message` (PROG-006).
    if let Some(message) = progress.message.filter(|_| version > Version::V2024_11_05) {
        out.extend_from_slice(b",\"message\":");
        write_str(out, &message);
    }
    out.push(b'}');
    encode::end(out);
}
