//! The table of inbound calls.
//!
//! The calls of all channels share one slab. Each channel has an index ordered by id, because ids are unique within a
//! channel only. The index is a [`Tree`], so ids that a peer chooses cannot make a look-up slow.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::endpoint::{Endpoint, EndpointTimer, Role};
use super::{observing, room};
use crate::built::Legacy;
use crate::error::{CallError, UseError};
use crate::json::{EncodeError, Serializer, max_escaped_len, object_members, string, write_str};
use crate::limits::Limits;
use crate::methods;
use crate::observe::{OpenRequest, OpenRequests};
use crate::raw::RawJson;
use crate::rpc::{self, RequestId, RpcError};
use crate::slab::tree::{Tree, TreeLinks};
use crate::slab::{Key, Slab, links};
use crate::time::Instant;
use crate::version::Version;

crate::slab::key! {
    /// The key of an inbound call, which waits for an answer.
    ///
    /// It is stale once the call has been answered or cancelled. A stale key is refused and never reaches another call.
    CallId
}

/// A progress report (PROG-006).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// The amount that is done; must increase from one report to the next (PROG-007).
    pub progress: f64,
    /// The total amount, if it is known.
    pub total: Option<f64>,
    /// A message for the user (since 2025-03-26; PROG-009).
    pub message: Option<String>,
}

impl Progress {
    /// Creates a report of the amount that is done.
    #[must_use]
    pub const fn new(progress: f64) -> Self {
        Self { progress, total: None, message: None }
    }

    /// Sets the total amount.
    #[must_use]
    pub const fn with_total(mut self, total: f64) -> Self {
        self.total = Some(total);
        self
    }

    /// Sets the message for the user.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}

/// The outcome of sending a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SendStatus {
    /// The notification was added to the outbox.
    Queued,
    /// The notification is held back by the rate limit or because the peer is slow. A later one replaces it.
    Deferred,
    /// The notification was dropped: the peer did not ask for it, or it reports nothing new.
    Dropped,
}

#[derive(Debug)]
pub(crate) struct InboundCall {
    pub(crate) id: RequestId,
    pub(crate) channel: Key,
    pub(crate) version: Version,
    /// The result carries cache hints.
    pub(crate) cacheable: bool,
    pub(crate) progress_token: Option<RequestId>,
    pub(crate) throttle: Option<Box<NotificationThrottle>>,
    pub(crate) expires_at: Instant,
    pub(crate) batch: Option<BatchKey>,
    /// Least severe level of log messages that the call asked for, as a number (modern).
    pub(crate) log_threshold: u8,
    /// The call has ended with an error that waits for memory. Nothing else knows its key.
    pub(crate) is_owed: bool,
    /// The call stays open until the application answers it, as a subscription does.
    pub(crate) is_long_lived: bool,
    /// Links of the index of the channel.
    pub(crate) links: TreeLinks,
}

links! { InboundCall: tree links }

impl InboundCall {
    /// Creates a call that never expires, and asks for neither progress nor log messages.
    pub(crate) fn new(id: RequestId, channel: Key, version: Version) -> Self {
        Self {
            id,
            channel,
            version,
            cacheable: false,
            progress_token: None,
            throttle: None,
            expires_at: Instant::FAR_FUTURE,
            batch: None,
            log_threshold: u8::MAX,
            is_owed: false,
            is_long_lived: false,
            links: TreeLinks::default(),
        }
    }
}

/// The place at which a request is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestSource<'a> {
    pub(crate) channel: Key,
    pub(crate) batch: Option<BatchKey>,
    pub(crate) id: &'a RequestId,
}

/// The outcome of an input request.
pub(crate) type InputOutcome = Result<RawJson, CallError>;

/// Rate limiter for the progress and log notifications of a call.
#[derive(Debug)]
pub(crate) struct NotificationThrottle {
    pub(crate) last_progress: f64,
    pub(crate) bucket: TokenBucket,
    /// The latest progress that was held back, and its notification.
    pub(crate) deferred_progress: Option<(f64, Vec<u8>)>,
    /// The latest log message that was held back, encoded.
    pub(crate) deferred_log: Option<Vec<u8>>,
    /// Time at which held notifications are sent.
    pub(crate) due_at: Option<Instant>,
    /// Time at which those who watch the task that the call runs were told of its message last.
    pub(crate) message_told_at: Option<Instant>,
}

impl NotificationThrottle {
    pub(crate) fn new(now: Instant, limits: &Limits) -> Self {
        let bucket = TokenBucket::new(now, limits.progress_burst, limits.progress_rate);
        Self {
            last_progress: f64::NEG_INFINITY,
            bucket,
            deferred_progress: None,
            deferred_log: None,
            due_at: None,
            message_told_at: None,
        }
    }

    /// Returns the largest progress that was sent or is held back.
    ///
    /// A value that is held back counts as sent: a smaller one must not replace it (PROG-007, DESIGN-22).
    pub(crate) fn newest_progress(&self) -> f64 {
        self.deferred_progress.as_ref().map_or(self.last_progress, |(value, _)| *value)
    }

    /// Returns the length of the longest message that is held back.
    pub(super) fn deferred_len(&self) -> usize {
        let progress = self.deferred_progress.as_ref().map_or(0, |(_, message)| message.len());
        self.deferred_log.as_ref().map_or(0, |message| message.len()).max(progress)
    }
}

/// The calls of a channel, ordered by id.
pub(super) type InboundIndex = Tree;

#[derive(Debug)]
pub(crate) struct InboundCalls {
    pub(crate) calls: Slab<InboundCall>,
    /// Number of those that are long-lived.
    pub(crate) long_lived: usize,
    /// Those that are observed.
    pub(super) observed: OpenRequests,
}

impl InboundCalls {
    pub(crate) const fn new() -> Self {
        Self { calls: Slab::new(), long_lived: 0, observed: OpenRequests::new() }
    }

    /// Releases the memory if there are no calls.
    pub(super) fn trim(&mut self) {
        self.calls.trim();
        self.observed.trim(self.calls.is_empty());
    }

    /// Ends the observation of a call, if it is observed.
    #[inline]
    pub(crate) fn take_observed(&mut self, key: Key) -> Option<OpenRequest> {
        self.observed.take(key)
    }

    #[inline]
    pub(super) fn find(&mut self, index: &mut InboundIndex, id: &RequestId) -> Option<Key> {
        index.find(&mut self.calls, |_, call| call.id.cmp(id))
    }

    /// Returns all calls of an index.
    pub(super) fn keys(&mut self, index: &InboundIndex) -> Vec<Key> {
        index.keys(&mut self.calls)
    }

    /// Adds a call; returns `None` if its id is in flight.
    pub(super) fn insert(&mut self, index: &mut InboundIndex, call: InboundCall) -> Option<Key> {
        let place = index.place(&mut self.calls, |_, other| other.id.cmp(&call.id)).ok()?;
        self.long_lived += usize::from(call.is_long_lived);
        let key = self.calls.insert(call);
        index.insert(&mut self.calls, place, key);
        Some(key)
    }

    /// Gives a call a new key. The old one is stale.
    pub(super) fn rekey(&mut self, index: &mut InboundIndex, key: Key) -> Option<Key> {
        // The observation is kept by the old key, so it moves along.
        let observed = self.take_observed(key);
        let call = self.remove(index, key)?;
        let key = self.insert(index, call)?;
        if let Some(observed) = observed {
            self.observed.insert(key, observed);
        }
        Some(key)
    }

    pub(super) fn remove(&mut self, index: &mut InboundIndex, key: Key) -> Option<InboundCall> {
        // The id is compared with those of other calls only, so it can be taken out instead of cloned.
        let id = core::mem::replace(&mut self.calls.get_mut(key)?.id, RequestId::int(0));
        index.remove(&mut self.calls, key, |_, call| call.id.cmp(&id));
        let call = self.take(key)?;
        Some(InboundCall { id, ..call })
    }

    /// Removes a call whose index has gone.
    fn take(&mut self, key: Key) -> Option<InboundCall> {
        let call = self.calls.remove(key)?;
        self.long_lived -= usize::from(call.is_long_lived);
        Some(call)
    }
}

/// The key of a batch, which only legacy revisions have. Other modules do not see whether one can exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BatchKey {
    key: Key,
    _marker: Legacy,
}

impl BatchKey {
    pub(super) const fn new(marker: Legacy, key: Key) -> Self {
        Self { key, _marker: marker }
    }

    pub(super) const fn key(self) -> Key {
        self.key
    }
}

// Operations on inbound calls: begin, notify, end.

impl<R: Role> Endpoint<R> {
    /// Adds a call; returns `None` if its id is in flight.
    pub(crate) fn begin_call(&mut self, call: InboundCall) -> Option<Key> {
        let (expires, batch) = (call.expires_at, call.batch);
        // Ids are unique in a session, whereas the answer is owed on the stream on which the request came.
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
        // A session may be removed before its streams; the index has gone with it.
        let record = match self.channels.get_mut(root) {
            Some(c) => self.inbound.remove(&mut c.live_calls, key),
            None => self.inbound.take(key),
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
    /// Without memory for an error, it is sent later ([`send_owed`](super::endpoint::send_owed)). The key is stale in any case.
    pub(crate) fn fail(&mut self, key: Key, error: &RpcError) -> Option<Key> {
        let call = self.inbound.calls.get(key)?;
        let (channel, batch) = (call.channel, call.batch);
        // Before the call is owed below, which gives it a new key: its observation ends now.
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
            observing::observe_failure(self, open, error);
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
            if self.observing.is_some() {
                observing::observe_answer(self, key, channel, mark);
            }
            self.end_call(key);
            self.commit_message(channel, mark);
            return Ok(());
        };
        let length = self.channels.get_mut(channel).map_or(0, |c| c.outbox.tail().len().saturating_sub(mark));
        // Checked while the call is open, so that the application can answer it with less (DESIGN-76).
        if !self.make_room_in_batch(batch, length.saturating_add(self.limits.message_room())) {
            if let Some(c) = self.channels.get_mut(channel) {
                c.outbox.rollback(mark);
            }
            return Err(EncodeError::OutOfMemory);
        }
        if self.observing.is_some() {
            observing::observe_answer(self, key, channel, mark);
        }
        let Some(record) = self.end_call(key) else { return Ok(()) };
        let Some(c) = self.channels.get_mut(channel) else { return Ok(()) };
        // Taken out, because `add_to_batch` needs the whole endpoint while it copies from the tail.
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
        observing::observe_cancellation(self, key);
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
    /// `elsewhere`: the channel, if it is not that of the call, and the members of `_meta`.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the call has ended.
    pub(crate) fn report_progress(
        &mut self,
        key: Key,
        progress: Progress,
        elsewhere: Option<(Key, &[u8])>,
    ) -> Result<SendStatus, UseError> {
        let own = self.inbound.calls.get(key).ok_or(UseError::Stale)?.channel;
        let (channel, meta) = elsewhere.unwrap_or((own, b""));
        let extra =
            progress.message.as_ref().map_or(0, |message| max_escaped_len(message.len())) + meta.len();
        let full = self.check_outbox_room(channel, extra).is_err();
        let (now, limits) = (self.now, &*self.limits);
        let record = self.inbound.calls.get_mut(key).ok_or(UseError::Stale)?;
        let Some(token) = &record.progress_token else { return Ok(SendStatus::Dropped) };
        let throttle =
            record.throttle.get_or_insert_with(|| Box::new(NotificationThrottle::new(now, limits)));
        if !progress.progress.is_finite() || progress.progress <= throttle.newest_progress() {
            return Ok(SendStatus::Dropped);
        }
        // While something is held back, nothing new overtakes it, even if there is a token.
        if throttle.due_at.is_none() && !full && throttle.bucket.take(now) {
            throttle.last_progress = progress.progress;
            let Some(c) = self.channels.get_mut(channel) else { return Ok(SendStatus::Queued) };
            let mark = c.outbox.mark();
            write_progress(c.outbox.tail(), record.version, token, progress, meta);
            self.commit_message(channel, mark);
            return Ok(SendStatus::Queued);
        }
        // Written here, so that only a program that reports progress has the code that prints numbers.
        let (value, mut message) = (progress.progress, Vec::new());
        write_progress(&mut message, record.version, token, progress, meta);
        throttle.deferred_progress = Some((value, message));
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
        let full = self.check_outbox_room(channel, message.len()).is_err();
        let (now, limits) = (self.now, &*self.limits);
        let Some(record) = self.inbound.calls.get_mut(key) else { return SendStatus::Dropped };
        let throttle =
            record.throttle.get_or_insert_with(|| Box::new(NotificationThrottle::new(now, limits)));
        if throttle.due_at.is_none() && !full && throttle.bucket.take(now) {
            // Memory cannot be lacking: `check_outbox_room` has made this room above.
            self.send(channel, message.len(), |out| out.extend_from_slice(&message));
            return SendStatus::Queued;
        }
        throttle.deferred_log = Some(message);
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
        // Without a rate no token ever comes: what is held back ends with the call.
        let due = throttle.bucket.ready_at().unwrap_or(Instant::FAR_FUTURE).max(soonest);
        throttle.due_at = Some(due);
        self.deadlines.arm(due, EndpointTimer::Deferred(key));
    }

    /// Sends the deferred notifications of a call on its channel, or `elsewhere`, if that is possible now.
    pub(crate) fn send_deferred(&mut self, key: Key, elsewhere: Option<Key>) {
        let Some(call) = self.inbound.calls.get(key) else { return };
        let channel = elsewhere.unwrap_or(call.channel);
        let extra = call.throttle.as_ref().map_or(0, |throttle| throttle.deferred_len());
        let full = self.check_outbox_room(channel, extra).is_err();
        let now = self.now;
        let Some(call) = self.inbound.calls.get_mut(key) else { return };
        let Some(throttle) = call.throttle.as_mut() else { return };
        // Nothing may be held back any more; `defer` sets the time again if something is.
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
        let has_more = throttle.deferred_progress.is_some();
        if let Some(message) = message {
            self.send(channel, message.len(), |out| out.extend_from_slice(&message));
        }
        if has_more {
            self.defer(key);
        }
    }
}

/// Appends a progress notification.
fn write_progress(out: &mut Vec<u8>, version: Version, token: &RequestId, progress: Progress, meta: &[u8]) {
    rpc::notification_head(out, methods::PROGRESS);
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
    if !meta.is_empty() {
        out.extend_from_slice(b",\"_meta\":{");
        out.extend_from_slice(meta);
        out.push(b'}');
    }
    out.push(b'}');
    rpc::end(out);
}

// Responses: sent at once, or added to the batch of their request.

impl<R: Role> Endpoint<R> {
    /// Sends an error response, or adds it to the batch of its request.
    ///
    /// Without memory for it, a short one takes its place, and without memory for that nothing is sent. Both cannot be
    /// while a message is handled that was taken after [`can_answer`](super::endpoint::can_answer).
    pub(crate) fn send_error(
        &mut self,
        channel: Key,
        batch: Option<BatchKey>,
        id: Option<&RequestId>,
        error: &RpcError,
    ) {
        let short = RpcError::internal(NO_MEMORY_FOR_ANSWER);
        let sent = self.draft.error(error);
        let (error, released) = match room::error_form(self, channel, batch, &sent) {
            Some(ErrorForm::Whole) => (&*sent, error),
            Some(ErrorForm::Short) => (&short, &short),
            None => return,
        };
        // The status of an exchange follows from the released code, even where a code of a draft is sent (DEC-001). A
        // batch has no such status.
        if let (None, Some(c)) = (batch, self.channels.get_mut(channel)) {
            c.role.error_sent(released.code);
        }
        if let Some(observing) = self.observing.as_mut() {
            observing.record_error(error);
        }
        match batch {
            None => self.append(channel, |out| rpc::error(out, id, error)),
            Some(batch) => self.add_to_batch(batch, id, error.len(), |out| rpc::error(out, id, error)),
        }
    }

    /// Sends a response, or adds it to the batch of its request; `extra` is as for [`send`](Self::send).
    ///
    /// Without memory for it, an error takes its place.
    pub(crate) fn send_or_batch(
        &mut self,
        channel: Key,
        batch: Option<BatchKey>,
        id: &RequestId,
        extra: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        match batch {
            Some(batch) => self.add_to_batch(batch, Some(id), extra, write),
            None => {
                if !self.send(channel, extra, write) {
                    self.send_error(channel, None, Some(id), &RpcError::internal(NO_MEMORY_FOR_ANSWER));
                }
            }
        }
    }
}

impl RequestSource<'_> {
    /// Sends the result that `write` appends, as [`send_or_batch`](Endpoint::send_or_batch) sends a response.
    pub(crate) fn send_result<R: Role>(
        self,
        endpoint: &mut Endpoint<R>,
        extra: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        endpoint.send_or_batch(self.channel, self.batch, self.id, extra, |out| {
            rpc::result_head(out, self.id);
            write(out);
            rpc::end(out);
        });
    }
}

/// Ends a call, which is in no batch, with the result that `write` appends. Returns the channel of the call.
pub(crate) fn respond<R: Role>(
    endpoint: &mut Endpoint<R>,
    key: Key,
    extra: usize,
    write: impl FnOnce(&mut Vec<u8>),
) -> Option<Key> {
    let observed = endpoint.inbound.take_observed(key);
    let record = endpoint.end_call(key)?;
    let source = RequestSource { channel: record.channel, batch: None, id: &record.id };
    source.send_result(endpoint, extra, write);
    observing::observe_sent_result(endpoint, observed, 0, b"");
    Some(record.channel)
}

// The forms of an error response, of which memory decides.

/// Message of the error that takes the place of an answer without memory.
pub(crate) const NO_MEMORY_FOR_ANSWER: &str = "not enough memory for the answer";

/// The form of an error response for which there is room.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum ErrorForm {
    Whole,
    /// With a short message of the engine, and without data.
    Short,
}

// A token bucket on the caller's clock: a burst, then a steady rate per second.

#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    /// Remaining tokens, in millionths.
    level: u64,
    refilled_at: Instant,
    burst: u16,
    rate: u16,
}

const UNITS_PER_TOKEN: u64 = 1_000_000;

impl TokenBucket {
    pub(crate) fn new(now: Instant, burst: u16, rate: u16) -> Self {
        Self { level: u64::from(burst) * UNITS_PER_TOKEN, refilled_at: now, burst, rate }
    }

    /// Takes a token, if there is one.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        self.refill(now);
        match self.level.checked_sub(UNITS_PER_TOKEN) {
            Some(left) => {
                self.level = left;
                true
            }
            None => false,
        }
    }

    /// Returns when the next token is available; `None` if the rate is zero.
    pub(crate) fn ready_at(&self) -> Option<Instant> {
        let missing = UNITS_PER_TOKEN.saturating_sub(self.level);
        if missing == 0 {
            return Some(self.refilled_at);
        }
        // Rounded up: a timer that is a microsecond early finds no token, and is armed again.
        let micros =
            missing.checked_add(u64::from(self.rate).saturating_sub(1))?.checked_div(u64::from(self.rate))?;
        Some(self.refilled_at + Duration::from_micros(micros))
    }

    fn refill(&mut self, now: Instant) {
        // One microsecond at `rate` per second adds `rate` millionths of a token.
        let elapsed =
            u64::try_from(now.saturating_duration_since(self.refilled_at).as_micros()).unwrap_or(u64::MAX);
        let added = elapsed.saturating_mul(u64::from(self.rate));
        // A burst of zero counts as one here: otherwise no level would ever reach a token.
        self.level = self.level.saturating_add(added).min(u64::from(self.burst.max(1)) * UNITS_PER_TOKEN);
        self.refilled_at = self.refilled_at.max(now);
    }
}

#[cfg(test)]
mod token_bucket_tests {
    use super::*;

    // covers: PROG-013
    #[test]
    fn token_bucket_allows_a_burst_then_a_steady_rate() {
        let at = |ms: u64| Instant::from_micros(ms * 1000);
        let mut b = TokenBucket::new(at(0), 10, 20);
        assert_eq!((0..20).filter(|_| b.take(at(0))).count(), 10);
        assert_eq!(b.ready_at(), Some(at(50)));
        assert!(!b.take(at(49)) && b.take(at(50)) && !b.take(at(50)));
        let taken = (0..1_000).filter(|i| b.take(at(50 + i * 10))).count();
        assert!((199..=210).contains(&taken), "{taken} in ten seconds");
        let mut only_burst = TokenBucket::new(at(0), 1, 0);
        assert_eq!(only_burst.ready_at(), Some(at(0)));
        assert!(only_burst.take(at(0)) && only_burst.ready_at().is_none());
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::calls::endpoint::tests::{endpoint, outbox, queue, seconds, set_memory};

    pub(in crate::calls) fn call(id: RequestId) -> InboundCall {
        InboundCall::new(id, Key { slot: 0, generation: 0 }, Version::V2025_11_25)
    }

    #[test]
    fn calls_inserted_in_any_order_are_found_and_duplicate_ids_are_refused() {
        let (mut table, mut index) = (InboundCalls::new(), InboundIndex::new());
        let ids = [5, 1, 9, 3, 7, 2].map(RequestId::int);
        let keys: Vec<_> =
            ids.iter().map(|i| table.insert(&mut index, call(i.clone())).expect("new")).collect();
        assert!(table.insert(&mut index, call(RequestId::int(9))).is_none());
        for (id, key) in ids.iter().zip(&keys) {
            assert_eq!(table.find(&mut index, id), Some(*key));
        }
        assert_eq!(table.keys(&index), [1, 5, 3, 0, 4, 2].map(|at| keys[at]));
        assert!(table.remove(&mut index, keys[2]).is_some());
        assert!(table.find(&mut index, &ids[2]).is_none() && table.remove(&mut index, keys[2]).is_none());
        let renamed = table.rekey(&mut index, keys[3]).expect("live");
        assert!(renamed != keys[3] && table.find(&mut index, &ids[3]) == Some(renamed));
        assert_eq!(table.keys(&index).len(), 5);
    }

    #[test]
    fn inbound_call_and_its_key_fit_in_128_bytes() {
        assert!(size_of::<InboundCall>() + size_of::<Key>() <= 128, "{}", size_of::<InboundCall>());
    }

    #[test]
    fn call_without_a_deadline_arms_none() {
        for (expires_at, next) in [(Instant::FAR_FUTURE, None), (seconds(9), Some(seconds(9)))] {
            let (mut endpoint, _) = endpoint(Limits::default());
            endpoint.begin_call(InboundCall { expires_at, ..call(RequestId::int(1)) }).expect("a new id");
            assert_eq!(endpoint.poll_timeout(), next);
        }
    }

    #[test]
    fn cancellation_without_memory_for_its_reason_counts_all_the_same() {
        let (mut endpoint, _) = endpoint(Limits::default());
        let params = br#"{"reason":"late","requestId":1}"#;
        let id = RequestId::int(1);
        assert_eq!(endpoint.parse_cancellation(params), Some((id.clone(), Some("late".into()))));
        set_memory(&mut endpoint, false);
        assert_eq!(endpoint.parse_cancellation(params), Some((id, None)));
    }

    #[test]
    fn progress_without_memory_for_its_metadata_is_deferred() {
        for lacking in [0, 1] {
            let (mut endpoint, channel) = endpoint(Limits::default());
            let progress_token = Some(RequestId::int(1));
            let call = InboundCall { progress_token, ..call(RequestId::int(1)) };
            let key = endpoint.begin_call(call).expect("a new id");
            set_memory(&mut endpoint, false);
            let meta = br#""x":1"#;
            let room = endpoint.limits.message_room() + meta.len() - lacking;
            outbox(&mut endpoint, channel).tail().reserve_exact(room);
            let status = endpoint.report_progress(key, Progress::new(1.0), Some((channel, meta)));
            assert_eq!(status, Ok(if lacking == 0 { SendStatus::Queued } else { SendStatus::Deferred }));
        }
    }

    #[test]
    fn log_message_behind_one_that_is_held_back_replaces_it() {
        let (mut endpoint, channel) = endpoint(Limits { outbox_high_water: 10, ..Limits::default() });
        let key = endpoint.begin_call(call(RequestId::int(1))).expect("a new id");
        queue(&mut endpoint, channel, 10);
        assert_eq!(endpoint.send_log(key, b"first\n".to_vec()), SendStatus::Deferred);
        outbox(&mut endpoint, channel).consume(10);
        assert_eq!(
            endpoint.send_log(key, b"second\n".to_vec()),
            SendStatus::Deferred,
            "it overtakes nothing"
        );
        endpoint.tick(seconds(1));
        endpoint.send_deferred(key, None);
        assert_eq!(outbox(&mut endpoint, channel).transmit(), b"second\n");
    }
}
