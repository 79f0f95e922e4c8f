//! Calls of the peer: begun, reported on, ended.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::inbound::{InCall, Progress, Reporting, Sent};
use super::link::{Link, Timer};
use super::side::Side;
use crate::error::UseError;
use crate::json::{Serializer, object_members, string, write_str};
use crate::rpc::{RequestId, RpcError, encode};
use crate::slab::Key;
use crate::time::Instant;
use crate::version::Version;
use crate::vocab;

impl<X: Side> Link<X> {
    /// Enters a call; none when one with its id is in flight
    pub(crate) fn begin(&mut self, call: InCall) -> Option<Key> {
        let (expires, batch) = (call.expires, call.batch);
        let (stream, home) = (call.channel, self.home(call.channel));
        let c = self.channels.get_mut(home)?;
        let key = self.inbound.insert(&mut c.live, call)?;
        if let Some(c) = self.channels.get_mut(stream) {
            c.extra.begun();
        }
        self.deadlines.arm(expires, Timer::Age(key));
        if let Some(batch) = batch {
            self.join_batch(batch);
        }
        Some(key)
    }

    /// Whether a call with this id is being worked on; `channel` is the home of its stream
    pub(crate) fn is_live(&self, channel: Key, id: &RequestId) -> bool {
        self.channels.get(channel).is_some_and(|c| self.inbound.find(&c.live, id).is_some())
    }

    /// Takes a call out of the tables
    pub(crate) fn end_call(&mut self, key: Key) -> Option<InCall> {
        let stream = self.inbound.calls.get(key)?.channel;
        let home = self.home(stream);
        let record = match self.channels.get_mut(home) {
            Some(c) => self.inbound.remove(&mut c.live, key),
            None => self.inbound.calls.remove(key),
        };
        if let Some(c) = self.channels.get_mut(stream) {
            c.extra.ended(&mut self.shared);
        }
        self.sweep();
        record
    }

    /// Gives a call another key: the one that it had is stale from now on
    pub(crate) fn rekey(&mut self, key: Key) -> Option<Key> {
        let home = self.home(self.inbound.calls.get(key)?.channel);
        let c = self.channels.get_mut(home)?;
        let key = self.inbound.rekey(&mut c.live, key)?;
        // What is held back waits for a deadline, and that knew the old key.
        let due = self.inbound.calls.get(key).and_then(|call| call.progress.as_ref()?.due);
        if let Some(due) = due {
            self.deadlines.arm(due, Timer::Held(key));
        }
        Some(key)
    }

    /// Ends a call with an error
    pub(crate) fn fail(&mut self, key: Key, error: &RpcError) -> Option<InCall> {
        let record = self.end_call(key)?;
        self.send_error(record.channel, record.batch, Some(&record.id), error);
        self.leave_batch(&record);
        Some(record)
    }

    /// Ends a call with the message that stands in the outbox behind `mark`
    pub(crate) fn answered(&mut self, key: Key, mark: usize) {
        let Some(record) = self.end_call(key) else { return };
        match record.batch {
            None => self.sent(record.channel, mark),
            Some(batch) => {
                let Some(c) = self.channels.get_mut(record.channel) else { return };
                let message = c.outbox.tail().split_off(mark);
                self.add_to_batch(batch, Some(&record.id), &message);
                self.leave_batch(&record);
            }
        }
    }

    /// Ends a call without an answer (CANC-020)
    pub(crate) fn drop_call(&mut self, key: Key) -> Option<InCall> {
        let record = self.end_call(key)?;
        self.leave_batch(&record);
        Some(record)
    }

    /// The progress token of a request; the error is the answer to give (PROG-003)
    pub(crate) fn token(&self, text: Option<&[u8]>) -> Result<Option<RequestId>, RpcError> {
        text.map(|text| {
            RequestId::from_json(text, self.limits.max_id).ok_or_else(|| {
                RpcError::invalid_params("`_meta.progressToken` is neither a string nor an integer")
            })
        })
        .transpose()
    }

    /// What a `notifications/cancelled` names, and why
    pub(crate) fn cancellation(&self, params: &[u8]) -> Option<(RequestId, Option<String>)> {
        let (mut id, mut reason) = (None, None);
        object_members(params, |name, value| match name {
            b"requestId" => id = RequestId::from_json(value, self.limits.max_id),
            b"reason" => reason = string(value).map(Cow::into_owned),
            _ => {}
        });
        Some((id?, reason))
    }

    /// Reports how far a call has come, now or later
    pub(crate) fn report(&mut self, key: Key, progress: Progress) -> Result<Sent, UseError> {
        let (now, limits) = (self.now, &*self.limits);
        let record = self.inbound.calls.get_mut(key).ok_or(UseError::Stale)?;
        if record.token.is_none() {
            return Ok(Sent::Dropped);
        }
        let full = self.channels.get(record.channel).is_none_or(|c| c.outbox.len() >= limits.outbox_mark);
        let reporting = record.progress.get_or_insert_with(|| Box::new(Reporting::new(now, limits)));
        let newest = reporting.held.as_ref().map_or(reporting.last, |h| h.progress);
        if !progress.progress.is_finite() || progress.progress <= newest {
            return Ok(Sent::Dropped);
        }
        if reporting.due.is_none() && !full && reporting.bucket.take(now) {
            self.send_progress(key, &progress);
            return Ok(Sent::Queued);
        }
        reporting.held = Some(progress);
        if reporting.due.is_none() {
            self.hold(key);
        }
        Ok(Sent::Held)
    }

    /// Sends a log message about a call, now or later
    pub(crate) fn say(&mut self, key: Key, message: Vec<u8>) -> Sent {
        let (now, limits) = (self.now, &*self.limits);
        let Some(record) = self.inbound.calls.get_mut(key) else { return Sent::Dropped };
        let channel = record.channel;
        let full = self.channels.get(channel).is_none_or(|c| c.outbox.len() >= limits.outbox_mark);
        let reporting = record.progress.get_or_insert_with(|| Box::new(Reporting::new(now, limits)));
        if reporting.due.is_none() && !full && reporting.bucket.take(now) {
            self.send(channel, |out| out.extend_from_slice(&message));
            return Sent::Queued;
        }
        reporting.log = Some(message.into());
        if reporting.due.is_none() {
            self.hold(key);
        }
        Sent::Held
    }

    /// Arms the timer that sends what is held of a call
    fn hold(&mut self, key: Key) {
        // A peer that does not read gets another look a little later.
        let soonest = self.now + Duration::from_millis(50);
        let Some(reporting) = self.inbound.calls.get_mut(key).and_then(|c| c.progress.as_mut()) else {
            return;
        };
        let due = reporting.bucket.ready_at().unwrap_or(Instant::FAR).max(soonest);
        reporting.due = Some(due);
        self.deadlines.arm(due, Timer::Held(key));
    }

    /// Sends what is held of a call if that is possible by now
    pub(crate) fn release_held(&mut self, key: Key) {
        let (now, mark) = (self.now, self.limits.outbox_mark);
        let Some(call) = self.inbound.calls.get_mut(key) else { return };
        let full = self.channels.get(call.channel).is_none_or(|c| c.outbox.len() >= mark);
        let Some(reporting) = call.progress.as_mut() else { return };
        reporting.due = None;
        if full || !reporting.bucket.take(now) {
            return self.hold(key);
        }
        // What was logged first stands before how far that has come.
        let (log, rest) = (reporting.log.take(), reporting.held.is_some());
        match log {
            Some(message) => {
                let channel = call.channel;
                self.send(channel, |out| out.extend_from_slice(&message));
                if rest {
                    self.hold(key);
                }
            }
            None => {
                if let Some(progress) = reporting.held.take() {
                    self.send_progress(key, &progress);
                }
            }
        }
    }

    fn send_progress(&mut self, key: Key, progress: &Progress) {
        let Some(call) = self.inbound.calls.get_mut(key) else { return };
        let (Some(token), Some(reporting)) = (call.token.as_ref(), call.progress.as_mut()) else { return };
        reporting.last = progress.progress;
        let Some(c) = self.channels.get_mut(call.channel) else { return };
        let mark = c.outbox.mark();
        let out = c.outbox.tail();
        encode::notification_head(out, vocab::PROGRESS);
        out.extend_from_slice(b",\"params\":{\"progressToken\":");
        token.write(out);
        out.extend_from_slice(b",\"progress\":");
        // A finite number can always be written.
        let _ = Serializer::any(out, &progress.progress);
        if let Some(total) = progress.total.filter(|t| t.is_finite()) {
            out.extend_from_slice(b",\"total\":");
            let _ = Serializer::any(out, &total);
        }
        // The first revision has no message (PROG-006).
        if let Some(message) = progress.message.as_ref().filter(|_| call.version > Version::V2024_11_05) {
            out.extend_from_slice(b",\"message\":");
            write_str(out, message);
        }
        out.push(b'}');
        encode::end(out);
        let channel = call.channel;
        self.sent(channel, mark);
    }
}
