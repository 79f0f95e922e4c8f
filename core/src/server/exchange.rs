//! The interface for transports with separate exchanges: opens, feeds and drains streams.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;

use bytes::Bytes;

use super::channel::{LegacySession, is_exchange, session};
use super::engine::Engine;
use super::event::{CancelReason, Event};
use super::header_check::HeaderCheck;
use super::request_check::MessageSource;
use super::stream::StreamStatus;
use crate::calls::batch;
use crate::calls::inbound::CallId;
use crate::error::Fault;
use crate::outbox::Outbox;
use crate::rpc::RequestId;
use crate::rpc::envelope::{Envelope, Kind, RejectedMessage};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;
use crate::version::Version;

/// Buffers of a stream that has ended, for reuse.
#[derive(Debug, Default)]
pub(crate) struct StreamBuffers {
    outbox: Outbox,
}

impl StreamBuffers {
    pub(crate) fn capacity(&self) -> usize {
        self.outbox.capacity()
    }
}

/// The streams of an engine: what a transport with separate exchanges does with them.
#[derive(Debug)]
pub(crate) struct Streams<'e> {
    engine: &'e mut Engine,
}

impl Engine {
    /// Returns the streams, for a transport with separate exchanges.
    pub(crate) const fn streams(&mut self) -> Streams<'_> {
        Streams { engine: self }
    }

    /// Returns the progress of a stream.
    pub(crate) fn stream_status(&self, key: Key) -> StreamStatus {
        let channel = self.endpoint.channels.get(key);
        channel.map_or(StreamStatus::ENDED, |c| c.role.stream.status(c.closed, !c.role.listeners.is_empty()))
    }

    /// Returns the revision of the session of a channel, and whether its handshake has finished.
    pub(crate) fn session_version(&self, key: Key) -> Option<(Version, bool)> {
        session(&self.endpoint, key).map(|s| (s.version, s.initialized))
    }
}

impl Streams<'_> {
    /// Opens a stream of the session `root`, or one with request ids of its own.
    pub(crate) fn open(
        &mut self,
        now: Instant,
        root: Option<Key>,
        owner: Key,
        buffers: StreamBuffers,
    ) -> Key {
        let key = self.engine.open_channel(now).0;
        if let Some(c) = self.engine.endpoint.channels.get_mut(key) {
            c.outbox = buffers.outbox;
            // A malformed message is answered in its own exchange, so no id is needed (DEC-004).
            c.allows_idless_errors = true;
            c.role.stream.open(root, owner);
        }
        key
    }

    /// Sets the owner, which is queued when the channel has output.
    pub(crate) fn set_owner(&mut self, key: Key, owner: Option<Key>) {
        if let Some(c) = self.engine.endpoint.channels.get_mut(key) {
            c.role.stream.set_owner(owner);
        }
    }

    /// Returns the next owner of a stream that has output or has ended.
    pub(crate) fn next_ready(&mut self) -> Option<Key> {
        self.engine.endpoint.shared.pop()
    }

    /// Allows the owner to be queued again for new output.
    pub(crate) fn rearm(&mut self, key: Key) {
        if let Some(c) = self.engine.endpoint.channels.get_mut(key) {
            c.role.stream.rearm();
        }
    }

    /// Marks the channel as a session over HTTP, with the transport's key for it.
    pub(crate) fn mark_session(&mut self, channel: Key, session: Key) {
        if let Some(c) = self.engine.endpoint.channels.get_mut(channel) {
            c.role.stream.mark_http_session(session);
        }
    }

    /// Takes the message of a stream.
    pub(crate) fn handle_message(
        &mut self,
        now: Instant,
        key: Key,
        frame: &Bytes,
        envelope: Result<Envelope<'_>, RejectedMessage>,
        header_check: &dyn HeaderCheck,
    ) {
        self.engine.endpoint.tick(now);
        self.engine.endpoint.record_activity();
        self.engine.endpoint.record_received(key, frame);
        match envelope {
            Ok(envelope) => {
                let root = self.engine.endpoint.root_channel(key);
                let source = MessageSource {
                    channel: key,
                    root,
                    batch: None,
                    waited: false,
                    header_check: Some(header_check),
                };
                self.engine.receive_parsed(source, frame, envelope);
            }
            Err(rejected) => self.engine.reject(key, None, rejected),
        }
    }

    /// Takes the batch of a stream (2025-03-26).
    pub(crate) fn handle_batch(&mut self, now: Instant, key: Key, frame: &Bytes) {
        self.engine.endpoint.tick(now);
        self.engine.endpoint.record_activity();
        self.engine.endpoint.record_received(key, frame);
        self.engine.receive_batch(key, frame);
    }

    /// Starts a session without a handshake and without knowledge of the client (stateless server).
    pub(crate) fn begin_stateless_session(&mut self, key: Key, version: Version) {
        if let Some(c) = self.engine.endpoint.channels.get_mut(key) {
            let session =
                c.role.session.insert(alloc::boxed::Box::new(LegacySession::new(version, b"", b"{}")));
            (session.initialized, session.is_stateless) = (true, true);
        }
    }

    /// Drops a stream or a session immediately and cancels its calls. Returns its buffers.
    pub(crate) fn drop(&mut self, now: Instant, key: Key) -> StreamBuffers {
        self.engine.endpoint.tick(now);
        let root = self.engine.endpoint.root_channel(key);
        // A stream that owes no answer has no calls; the others of its session are not looked at then.
        let owes_answers =
            self.engine.endpoint.channels.get(key).is_some_and(|c| c.role.stream.owes_answers());
        let mut calls =
            if root == key || owes_answers { self.engine.endpoint.live_calls(root) } else { Vec::new() };
        calls.retain(|call| {
            root == key
                || self.engine.endpoint.inbound.calls.get(*call).is_some_and(|record| record.channel == key)
        });
        for call in calls {
            let parked = self.engine.unpark(call, "the call is over");
            if self.engine.endpoint.drop_call(call).is_some() && !parked {
                let reason = CancelReason::Disconnected;
                self.engine.events.push_back(Event::Cancelled { call: CallId(call), reason });
            }
        }
        let unsubscribed = self.engine.changes.end_all(&mut self.engine.endpoint, key);
        self.engine.events.extend(unsubscribed);
        if let (Some(backlog), Some(c)) = (&mut self.engine.backlog, self.engine.endpoint.channels.get(key)) {
            backlog.remove_all(c.role.waiting);
        }
        if root == key && session(&self.engine.endpoint, key).is_some() {
            for request in self.engine.endpoint.requests_of(key) {
                self.engine.finish_outbound(request, Err(crate::error::CallError::Closed(Fault::Eof)));
            }
            // `Closed` is reported once for a session, and never for a single exchange.
            let is_reported = is_exchange(&self.engine.endpoint, key)
                || self.engine.endpoint.channels.get(key).is_none_or(|c| c.closed);
            if !is_reported {
                self.engine.events.push_back(Event::Closed { channel: ChannelId(key), fault: Fault::Eof });
            }
        }
        let Some(c) = self.engine.endpoint.channels.remove(key) else { return StreamBuffers::default() };
        let mut outbox = c.outbox;
        outbox.clear_for_reuse();
        StreamBuffers { outbox }
    }

    /// Marks a stream as unreachable: its client cannot receive what is sent from now on.
    ///
    /// `nothing_sent`: nothing that was sent before has left either. The calls of the stream continue (HTTP-062), but
    /// cannot request input any more.
    pub(crate) fn mark_unreachable(&mut self, now: Instant, key: Key, nothing_sent: bool) {
        self.engine.endpoint.tick(now);
        let Some(c) = self.engine.endpoint.channels.get_mut(key) else { return };
        c.role.stream.mark_unreachable();
        // Input requests that wait for `notifications/initialized` have not been sent either.
        if nothing_sent || session(&self.engine.endpoint, key).is_some_and(|session| !session.initialized) {
            self.engine.fail_parked(key, "the client went away before it was asked");
        }
    }

    /// Inspects a batch before it is processed. Returns whether it has requests, and whether an id is not unique.
    ///
    /// An id must differ from those in flight on `root` and from the others in the batch. Text that is not a valid
    /// batch has no requests; it is reported when it is processed.
    pub(crate) fn inspect_batch(&mut self, root: Option<Key>, frame: &Bytes) -> (bool, bool) {
        let members = batch::split_batch(frame, &self.engine.endpoint.limits).unwrap_or_default();
        // A heap sorts with a tenth of the code of `sort_unstable`.
        let ids: BinaryHeap<RequestId> =
            members.iter().filter_map(|member| self.request_id(member)).collect();
        let ids = ids.into_sorted_vec();
        let has_duplicates = ids.windows(2).any(|pair| matches!(pair, [a, b] if a == b));
        let is_in_flight = |id| root.is_some_and(|root| self.engine.in_flight(root, id));
        (!ids.is_empty(), has_duplicates || ids.iter().any(is_in_flight))
    }

    fn request_id(&self, member: &Bytes) -> Option<RequestId> {
        self.engine.parse(member).ok().filter(|envelope| envelope.kind == Kind::Request)?.id
    }

    /// Returns the transport's key of the session whose channel this is.
    pub(crate) fn session_of(&self, channel: Key) -> Option<Key> {
        self.engine.endpoint.channels.get(channel)?.role.stream.http_session()
    }

    /// Returns whether the limit of unpolled events is reached.
    pub(crate) fn has_event_backlog(&self) -> bool {
        self.engine.events.len() >= self.engine.endpoint.limits.max_events
    }

    /// Returns whether new requests are refused.
    pub(crate) const fn is_shutting_down(&self) -> bool {
        self.engine.shutting_down
    }

    /// Returns the channel of the session that a stream belongs to.
    pub(crate) fn parent_of(&self, key: Key) -> Option<Key> {
        self.engine.endpoint.channels.get(key)?.role.stream.parent()
    }

    /// Returns the owner of the stream that a call is answered on.
    pub(crate) fn call_owner(&self, call: CallId) -> Option<Key> {
        let stream = self.engine.endpoint.inbound.calls.get(call.0)?.channel;
        self.engine.endpoint.channels.get(stream)?.role.stream.owner()
    }
}
