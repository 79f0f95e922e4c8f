//! Exchanges over HTTP: messages with header fields, batches that are inspected first, sessions without a handshake.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;

use bytes::Bytes;

use super::channel::LegacySession;
use super::exchanges::{ExchangeBuffers, Exchanges};
use super::http_request::HttpRequest;
use super::request_check::HeaderCheck;
use crate::built::{Legacy, Part};
use crate::calls::batch;
use crate::calls::inbound::CallId;
use crate::methods;
use crate::rpc::RequestId;
use crate::rpc::envelope::{Envelope, Kind, RejectedMessage};
use crate::slab::Key;
use crate::sync::Arc;
use crate::time::Instant;
use crate::version::Version;

impl ExchangeBuffers {
    pub(crate) fn capacity(&self) -> usize {
        self.outbox.capacity()
    }
}

/// The contents of a batch that are checked before it is processed.
#[derive(Debug, Default)]
pub(crate) struct BatchContents {
    pub(crate) has_requests: bool,
    /// Whether an id is not unique.
    pub(crate) has_repeated_id: bool,
    /// Whether there is an `initialize` request.
    pub(crate) has_handshake: bool,
}

impl Exchanges<'_> {
    /// Sets the owner, which is queued when the channel has output.
    pub(crate) fn set_owner(&mut self, key: Key, owner: Option<Key>) {
        if let Some(c) = self.engine.endpoint.channels.get_mut(key) {
            c.role.stream.set_owner(owner);
        }
    }

    /// Sets the HTTP request whose calls arrive from now on.
    pub(crate) fn set_http_request(&mut self, key: Key, request: Option<Arc<HttpRequest>>) {
        if let Some(c) = self.engine.endpoint.channels.get_mut(key) {
            c.role.http = request;
        }
    }

    /// Allows the owner to be queued again for new output.
    pub(crate) fn rearm(&mut self, key: Key) {
        if let Some(c) = self.engine.endpoint.channels.get_mut(key) {
            c.role.stream.rearm();
        }
    }

    /// Records that the client of an exchange has left it and can resume it.
    pub(crate) fn mark_left(&mut self, key: Key) {
        if let Some(c) = self.engine.endpoint.channels.get_mut(key) {
            c.role.stream.mark_left();
        }
    }

    /// Takes the scopes for whose lack the request of an exchange was refused.
    pub(crate) fn take_required_scopes(&mut self, key: Key) -> Option<Box<str>> {
        self.engine.endpoint.channels.get_mut(key)?.role.stream.take_required_scopes()
    }

    /// Takes the message of an exchange with its header fields.
    pub(crate) fn handle_message(
        &mut self,
        now: Instant,
        key: Key,
        frame: &Bytes,
        envelope: Result<Envelope<'_>, RejectedMessage>,
        header_check: &dyn HeaderCheck,
    ) {
        self.record_message(now, key, frame);
        self.receive(key, frame, envelope, Some(header_check));
    }

    /// Takes the batch of an exchange (2025-03-26).
    pub(crate) fn handle_batch(&mut self, now: Instant, key: Key, frame: &Bytes) {
        self.record_message(now, key, frame);
        self.engine.receive_batch(key, frame);
    }

    /// Starts a session without a handshake and without knowledge of the client (stateless server).
    pub(crate) fn begin_stateless_session(&mut self, key: Key, version: Version) {
        if let (Some(c), Some(marker)) = (self.engine.endpoint.channels.get_mut(key), Legacy::get()) {
            let mut session = LegacySession::new(version, b"", b"{}");
            // There is no handshake that a client could confirm.
            (session.initialized, session.is_stateless) = (true, true);
            c.role.session = Part::new(marker, session);
        }
    }

    /// Inspects a batch before it is processed.
    ///
    /// An id must differ from those in flight on `root` and from the others in the batch. Text that is not a valid
    /// batch has no requests; it is reported when it is processed.
    pub(crate) fn inspect_batch(&mut self, root: Option<Key>, frame: &Bytes) -> BatchContents {
        let mut contents = BatchContents::default();
        if !Legacy::IS_BUILT {
            return contents;
        }
        let members = batch::split_batch(frame, &self.engine.endpoint.limits).unwrap_or_default();
        // A heap sorts with a tenth of the code of `sort_unstable`.
        let mut ids = BinaryHeap::new();
        for member in &members {
            let Ok(envelope) = self.engine.parse(member) else { continue };
            if envelope.kind == Kind::Request {
                contents.has_handshake |= envelope.method == methods::INITIALIZE;
                ids.extend(envelope.id);
            }
        }
        let ids = ids.into_sorted_vec();
        // Equal ids are neighbours, because the list is sorted.
        let has_duplicates = ids.windows(2).any(|pair| matches!(pair, [a, b] if a == b));
        let is_in_flight = |id: &RequestId| root.is_some_and(|root| self.engine.in_flight(root, id));
        contents.has_requests = !ids.is_empty();
        contents.has_repeated_id = has_duplicates || ids.iter().any(is_in_flight);
        contents
    }

    /// Returns the binding's key of the session whose channel this is.
    pub(crate) fn session_of(&self, channel: Key) -> Option<Key> {
        self.engine.endpoint.channels.get(channel)?.role.stream.session()
    }

    /// Returns whether calls of a session are in flight.
    pub(crate) fn has_live_calls(&self, channel: Key) -> bool {
        self.engine.endpoint.has_live_calls(channel)
    }

    /// Ends all subscriptions of a session, which gets no notifications of changes from now on.
    pub(crate) fn end_changes(&mut self, channel: Key) {
        let unsubscribed = self.engine.changes.end_all(&mut self.engine.endpoint, channel);
        self.engine.events.extend(unsubscribed);
    }

    /// Returns whether the limit of unpolled events is reached.
    pub(crate) fn has_event_backlog(&self) -> bool {
        self.engine.events.len() >= self.engine.endpoint.limits.max_events
    }

    /// Returns whether new requests are refused.
    pub(crate) const fn is_shutting_down(&self) -> bool {
        self.engine.shutting_down
    }

    /// Returns the channel of the session that an exchange belongs to.
    pub(crate) fn parent_of(&self, key: Key) -> Option<Key> {
        self.engine.endpoint.channels.get(key)?.role.stream.parent()
    }

    /// Returns the owner of the exchange that a call is answered in.
    pub(crate) fn call_owner(&self, call: CallId) -> Option<Key> {
        let exchange = self.engine.endpoint.inbound.calls.get(call.0)?.channel;
        self.engine.endpoint.channels.get(exchange)?.role.stream.owner()
    }
}
