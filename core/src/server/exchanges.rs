//! Exchanges: the interface for bindings that carry each message of a client in an exchange of its own.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::channel::{self, LegacySession, is_exchange, mark_request_refused, session};
use super::engine::{Engine, SHUTTING_DOWN, charge_tables};
use super::event::{CancelReason, Event};
use super::http_request::HttpRequest;
use super::request_check::{HeaderCheck, MessageSource};
pub use super::stream::EarlyEnd;
use super::stream::StreamState;
use super::tasks::unlisten;
use crate::built::{Legacy, Part};
use crate::calls::endpoint::{FrameContent, IdlessErrors, classify_frame};
use crate::calls::inbound::CallId;
use crate::calls::observing::end_session;
use crate::calls::{batch, room};
use crate::error::{CallError, Fault};
use crate::methods;
use crate::outbox::Outbox;
use crate::rpc::envelope::{Envelope, Kind, RejectedMessage};
use crate::rpc::{RequestId, RpcError};
use crate::slab::Key;
use crate::sync::Arc;
use crate::tap::{ChannelId, Direction};
use crate::time::Instant;
use crate::version::Version;

/// A number by which a binding knows an exchange, or the stream for the own messages of a session.
///
/// The binding chooses it; the engine stores it and returns it from [`Exchanges::poll_ready`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ExchangeToken(pub u64);

impl ExchangeToken {
    /// Stored as a key, which has a smaller alignment.
    pub(super) const fn to_key(self) -> Key {
        Key { slot: self.0 as u32, generation: (self.0 >> 32) as u32 }
    }

    pub(super) const fn from_key(key: Key) -> Self {
        Self((key.generation as u64) << 32 | key.slot as u64)
    }
}

/// Progress of an exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ExchangeStatus {
    /// More output will follow: an answer is owed, or a subscription is open.
    pub is_open: bool,
    /// The engine adds no more output: the exchange or its session has ended. What the outbox holds can still be sent.
    pub is_closed: bool,
    /// Why the message ended before it was delivered, if it did.
    pub early_end: Option<EarlyEnd>,
    /// Code of the last answer, if it was an error. It is -1 for a code that exceeds 32 bits; `None` for a batch, unless
    /// a handshake in it was refused.
    pub error_code: Option<i64>,
}

impl ExchangeStatus {
    /// The status of an exchange that does not exist.
    const ENDED: Self = Self { is_open: false, is_closed: true, early_end: None, error_code: None };
}

/// Progress of a legacy session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SessionStatus {
    /// The negotiated revision.
    pub version: Version,
    /// The client has confirmed the handshake (`notifications/initialized`).
    pub is_initialized: bool,
}

/// Output of an exchange.
#[derive(Debug)]
pub struct ExchangeOutput<'e> {
    /// Progress of the exchange. If it is not open, the outbox holds its last messages.
    pub status: ExchangeStatus,
    /// Messages to send, to be taken with [`Outbox::pop_message`].
    pub outbox: &'e mut Outbox,
}

/// The exchanges of a server engine.
///
/// An exchange is a message of a client with all that is sent back for it: an HTTP request and its response, a request
/// topic of MQTT and its response topic, a numbered stream over WebSocket. A binding whose peers share one ordered
/// stream for all messages needs no exchanges: it uses [`Engine::open_channel`] and [`Engine::handle_message`].
///
/// A binding keeps a table of its exchanges, and a session for each client that may be a legacy one:
///
/// 1. A client appears: [`open_session`](Self::open_session).
/// 2. A message arrives: [`open`](Self::open). The engine finds its era. A modern message is independent of the
///    session. A legacy message belongs to it, and `initialize` begins it.
/// 3. After input, after commands and after [`Engine::handle_timeout`]: take the events, then
///    [`poll_ready`](Self::poll_ready) until it returns `None`, and send the [`output`](Self::output) of each. A token is
///    not returned again before its output is taken, so keep it while the client cannot be sent to.
/// 4. An exchange is not open and its output is sent: [`close`](Self::close) it, and end it at the client.
/// 5. The client ends an exchange before its answer: [`handle_disconnect`](Self::handle_disconnect).
/// 6. The client is gone: close its exchanges and its session.
/// 7. The engine ends a session, after keep-alive pings without an answer or at a shutdown ([`Event::Closed`],
///    [`ExchangeStatus::is_closed`] of the session): finish its exchanges, then close it. Further messages in it are
///    refused.
///
/// The binding bounds the number of its exchanges and sessions, and the size of a message
/// ([`Limits::max_frame`](crate::Limits::max_frame)). It pauses reading while [`Engine::is_stalled`] returns true for
/// the session. While [`Engine::is_full`] returns true, a further call is answered with an error immediately: requests
/// of exchanges do not wait.
///
/// ```
/// use std::sync::Arc;
/// use mcp_proto::server::{Config, Engine, Event, ExchangeToken};
/// use mcp_proto::{Capabilities, Instant};
///
/// let now = Instant::ZERO;
/// let mut engine = Engine::new(Arc::new(Config::new("demo", "1.0")));
/// let session = engine.exchanges().open_session(now, None);
///
/// let message = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
/// let exchange = engine.exchanges().open(now, Some(session), ExchangeToken(7), message.as_slice().into());
/// while let Some(event) = engine.poll_event(now) {
///     // … calls, as with any other binding
/// }
/// assert_eq!(engine.exchanges().poll_ready(), Some(ExchangeToken(7)));
/// let output = engine.exchanges().output(exchange).expect("the exchange is there");
/// assert!(!output.status.is_open);
/// assert_eq!(output.outbox.pop_message().unwrap(), br#"{"jsonrpc":"2.0","id":1,"result":{}}"#.as_slice());
/// engine.exchanges().close(now, exchange);
/// ```
#[derive(Debug)]
pub struct Exchanges<'e> {
    pub(super) engine: &'e mut Engine,
}

impl Engine {
    /// Returns the exchanges, for a binding that carries each message in an exchange of its own.
    pub const fn exchanges(&mut self) -> Exchanges<'_> {
        Exchanges { engine: self }
    }

    /// Returns the progress of an exchange.
    #[must_use]
    pub fn exchange_status(&self, exchange: ChannelId) -> ExchangeStatus {
        let Some(c) = self.endpoint.channels.get(exchange.0) else { return ExchangeStatus::ENDED };
        let has_ended = |session| self.endpoint.channels.get(session).is_none_or(|c| c.closed);
        let is_closed = c.closed || c.role.stream.parent().is_some_and(has_ended);
        status(&c.role.stream, is_closed, !c.role.listeners.is_empty())
    }

    /// Returns the progress of a legacy session; `None` before `initialize` was accepted.
    #[must_use]
    pub fn session_status(&self, session: ChannelId) -> Option<SessionStatus> {
        let session = channel::session(&self.endpoint, session.0)?;
        Some(SessionStatus { version: session.version, is_initialized: session.initialized })
    }
}

fn status(stream: &StreamState, is_closed: bool, has_listeners: bool) -> ExchangeStatus {
    ExchangeStatus {
        is_open: stream.owes_answers() || has_listeners,
        is_closed,
        early_end: stream.early_end(),
        error_code: stream.error_code(),
    }
}

impl Exchanges<'_> {
    /// Opens a session: the scope of a client.
    ///
    /// In a legacy revision `initialize` begins it, and request ids are unique in it. For a modern client it only holds
    /// the principal, which is set with [`Engine::set_authorization`]. A modern exchange keeps the principal that the session
    /// has when it is opened.
    ///
    /// The token names the stream for those messages of the session that belong to no exchange; see
    /// [`set_session_token`](Self::set_session_token).
    pub fn open_session(&mut self, now: Instant, token: Option<ExchangeToken>) -> ChannelId {
        let channel = self.engine.open_channel(now);
        self.mark_session(channel.0, channel.0);
        self.set_session_token(channel, token);
        channel
    }

    /// Sets the stream for the own messages of a session: notifications of changes, log messages, pings.
    ///
    /// `None` if there is no such stream at present. Log messages are dropped then, no pings are sent, and everything
    /// else waits in the outbox of the session. [`poll_ready`](Self::poll_ready) returns the token when there are
    /// messages, also those that waited, and when the session has ended. No effect on the channel of an exchange.
    pub fn set_session_token(&mut self, session: ChannelId, token: Option<ExchangeToken>) {
        let c = self.engine.endpoint.channels.get_mut(session.0);
        let Some(c) = c.filter(|c| c.role.stream.session().is_some()) else { return };
        c.role.stream.set_owner(token.map(ExchangeToken::to_key));
        // What waited for a stream, and an end without one, is found only if the new stream is queued.
        if !c.outbox.is_empty() || c.closed {
            c.role.stream.queue(&mut self.engine.endpoint.shared);
        }
    }

    /// Opens an exchange with its message, a batch included, and processes the message.
    ///
    /// A modern message shares only the principal of `session`. A legacy message belongs to the session; without one,
    /// only `initialize` and `ping` are answered, and other requests are refused. In a session that has ended, requests
    /// of both eras are refused, and all other messages are dropped.
    ///
    /// An exchange that is neither open nor has output needs no answer: its message was a notification, a response or
    /// blank, or it repeated the id of a request in flight
    /// ([`Diagnostic::DuplicateId`](crate::Diagnostic::DuplicateId), DESIGN-09). The exchange exists in any case, until
    /// [`close`](Self::close).
    pub fn open(
        &mut self,
        now: Instant,
        session: Option<ChannelId>,
        token: ExchangeToken,
        message: Bytes,
    ) -> ChannelId {
        let (content, message) = classify_frame(message);
        let envelope = match content {
            FrameContent::Message => Some(self.engine.parse(&message)),
            FrameContent::Array | FrameContent::Blank => None,
        };
        let is_modern =
            matches!(&envelope, Some(Ok(envelope)) if self.engine.config.is_modern_message(envelope));
        // A modern message shares no state with the session, even if it names one (DEC-029).
        let root = session.map(|session| session.0).filter(|_| !is_modern);
        let key = self.open_channel(now, root, token.to_key(), ExchangeBuffers::default());
        if let Some(session) = session.filter(|_| is_modern) {
            // A modern exchange has no parent to ask for its party, so it has a copy.
            let authorization = channel::authorization(&self.engine.endpoint, session.0).cloned();
            if let Some(c) = self.engine.endpoint.channels.get_mut(key) {
                c.role.authorization = authorization;
            }
        }
        self.record_message(now, key, &message);
        let has_ended = session.is_some_and(|session| !self.is_open_session(session.0));
        match (content, envelope) {
            (FrameContent::Array, _) if has_ended => self.refuse_in_ended_session(key, None),
            (_, Some(Ok(envelope))) if has_ended => {
                if envelope.kind == Kind::Request {
                    self.refuse_in_ended_session(key, envelope.id.as_ref());
                }
            }
            (FrameContent::Array, _) => self.engine.receive_batch(key, &message),
            (_, Some(envelope)) => self.receive(key, &message, envelope, None),
            (_, None) => {}
        }
        ChannelId(key)
    }

    fn refuse_in_ended_session(&mut self, key: Key, id: Option<&RequestId>) {
        let error = match self.engine.shutting_down {
            true => RpcError::internal(SHUTTING_DOWN),
            false => RpcError::invalid_request("the session has ended"),
        };
        mark_request_refused(&mut self.engine.endpoint, key);
        self.engine.endpoint.send_error(key, None, id, &error);
    }

    fn is_open_session(&self, channel: Key) -> bool {
        let c = self.engine.endpoint.channels.get(channel);
        c.is_some_and(|c| !c.closed && c.role.stream.session().is_some())
    }

    /// Returns the token of an exchange or session that has output or has ended since its [`output`](Self::output) was
    /// taken last.
    ///
    /// The exchange may have been closed by the binding meanwhile.
    pub fn poll_ready(&mut self) -> Option<ExchangeToken> {
        self.next_ready().map(ExchangeToken::from_key)
    }

    /// Handles that the client ended an exchange before its answer. Returns whether the exchange continues.
    ///
    /// In the modern era this cancels the call and closes the exchange (CANC-016). In a legacy session only a
    /// notification cancels (HTTP-062): the call continues, unless it has to ask for input. Take its output and drop it
    /// until the exchange has ended.
    pub fn handle_disconnect(&mut self, now: Instant, exchange: ChannelId) -> bool {
        let is_legacy = self.engine.endpoint.root_channel(exchange.0) != exchange.0;
        if is_legacy && self.engine.exchange_status(exchange).is_open {
            // A request for input is the last message of its call until it is answered.
            let is_unsent =
                self.engine.endpoint.channels.get(exchange.0).is_some_and(|c| !c.outbox.is_empty());
            self.set_unreachable(now, exchange.0, is_unsent);
            return true;
        }
        self.close(now, exchange);
        false
    }

    /// Closes an exchange or a session immediately: cancels its calls and drops its output.
    ///
    /// All calls of a session are cancelled with it ([`Event::Cancelled`]), and [`Event::Closed`] follows if it had
    /// begun. Its exchanges then have ended and are still to be closed. Modern exchanges do not end with it.
    pub fn close(&mut self, now: Instant, exchange: ChannelId) {
        self.remove(now, exchange.0);
    }
}

impl<'e> Exchanges<'e> {
    /// Returns the output of an exchange or of a session, whose token is returned again for further output.
    ///
    /// Returns `None` if it was closed. The session of a client has output of its own while it lasts, so for a session
    /// only [`is_closed`](ExchangeStatus::is_closed) has a meaning. The bytes of an outbox that is not emptied are bounded by
    /// [`Limits::outbox_high_water`](crate::Limits::outbox_high_water) and one message.
    pub fn output(self, exchange: ChannelId) -> Option<ExchangeOutput<'e>> {
        let status = self.engine.exchange_status(exchange);
        let c = self.engine.endpoint.channels.get_mut(exchange.0)?;
        c.role.stream.rearm();
        Some(ExchangeOutput { status, outbox: &mut c.outbox })
    }
}

/// Buffers of an exchange that has ended, for reuse.
#[derive(Debug, Default)]
pub(crate) struct ExchangeBuffers {
    outbox: Outbox,
}

#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "HTTP alone uses it"))]
impl ExchangeBuffers {
    pub(crate) fn capacity(&self) -> usize {
        self.outbox.capacity()
    }
}

/// The primitives, which bindings of this crate use with keys of their own tables.
impl Exchanges<'_> {
    /// Opens the channel of an exchange: of the session `root`, or with request ids of its own.
    pub(crate) fn open_channel(
        &mut self,
        now: Instant,
        root: Option<Key>,
        owner: Key,
        buffers: ExchangeBuffers,
    ) -> Key {
        let key = self.engine.open_channel(now).0;
        let room = self.engine.endpoint.limits.error_room();
        let endpoint = &mut self.engine.endpoint;
        if let Some(c) = endpoint.channels.get_mut(key) {
            // A new outbox has that room.
            if buffers.outbox.has_room(room) {
                c.outbox = buffers.outbox;
                c.outbox.charge_to(&endpoint.memory);
            }
            // A malformed message is answered in its own exchange, so no id is needed (DEC-004).
            c.idless_errors = IdlessErrors::Absent;
            c.role.stream.open(root, owner);
        }
        key
    }

    /// Marks the channel as a session, with the binding's key for it.
    pub(crate) fn mark_session(&mut self, channel: Key, session: Key) {
        if let Some(c) = self.engine.endpoint.channels.get_mut(channel) {
            c.role.stream.mark_session(session);
        }
    }

    /// Returns the next owner of an exchange that has output or has ended.
    pub(crate) fn next_ready(&mut self) -> Option<Key> {
        self.engine.endpoint.shared.pop()
    }

    /// Records that a message arrived in an exchange.
    pub(super) fn record_message(&mut self, now: Instant, key: Key, message: &[u8]) {
        self.engine.endpoint.tick(now);
        self.engine.endpoint.record_activity();
        self.engine.endpoint.record_received(key, message);
    }

    /// Processes the message of an exchange.
    pub(super) fn receive(
        &mut self,
        key: Key,
        message: &Bytes,
        envelope: Result<Envelope<'_>, RejectedMessage>,
        header_check: Option<&dyn HeaderCheck>,
    ) {
        match envelope {
            Ok(mut envelope) => {
                let root = self.engine.endpoint.root_channel(key);
                let source = MessageSource { channel: key, root, batch: None, waited: false, header_check };
                self.engine.receive_parsed(source, message, &mut envelope);
            }
            Err(rejected) => self.engine.reject(key, None, rejected),
        }
        charge_tables(self.engine);
    }

    /// Marks an exchange as unreachable: its client cannot receive what is sent from now on.
    ///
    /// `asks_unsent`: the requests for input that were sent before have not left either. The calls of the exchange
    /// continue (HTTP-062), but cannot request input any more.
    pub(crate) fn set_unreachable(&mut self, now: Instant, key: Key, asks_unsent: bool) {
        self.engine.endpoint.tick(now);
        let Some(c) = self.engine.endpoint.channels.get_mut(key) else { return };
        c.role.stream.mark_unreachable();
        self.engine.with_tasks(|tasks, cx| tasks.abandon_stream(cx, key));
        // Input requests that wait for `notifications/initialized` have not been sent either.
        if asks_unsent || session(&self.engine.endpoint, key).is_some_and(|session| !session.initialized) {
            self.engine.fail_parked(key, "the client went away before it was asked");
        }
    }

    /// Removes an exchange or a session and cancels its calls. Returns its buffers.
    pub(crate) fn remove(&mut self, now: Instant, key: Key) -> ExchangeBuffers {
        self.engine.endpoint.tick(now);
        let root = self.engine.endpoint.root_channel(key);
        // An exchange that owes no answer has no calls; the others of its session are not looked at then.
        let owes_answers =
            self.engine.endpoint.channels.get(key).is_some_and(|c| c.role.stream.owes_answers());
        let is_session = root == key && session(&self.engine.endpoint, key).is_some();
        if is_session {
            // Requests that wait for its tasks are answered.
            self.engine.end_session_tasks(key, Duration::ZERO);
        }
        let mut calls =
            if root == key || owes_answers { self.engine.endpoint.live_calls(root) } else { Vec::new() };
        calls.retain(|call| {
            root == key
                || self.engine.endpoint.inbound.calls.get(*call).is_some_and(|record| record.channel == key)
        });
        for call in calls {
            let is_owed = room::is_owed(&self.engine.endpoint, call);
            let parked = self.engine.unpark(call, "the call is over") || is_owed;
            if self.engine.endpoint.drop_call(call).is_some() && !parked {
                let reason = CancelReason::Disconnected;
                self.engine.events.push_back(Event::Cancelled { call: CallId(call), reason });
            }
        }
        // What the channel holds in other tables goes before the channel itself, by whose key they find it.
        let Some(c) = self.engine.endpoint.channels.get(key) else { return ExchangeBuffers::default() };
        if let Some(backlog) = self.engine.backlog.as_mut() {
            // They were never delivered, so the application hears nothing of them.
            backlog.remove_all(c.role.waiting);
        }
        if !c.role.listeners.is_empty() {
            let unsubscribed = self.engine.changes.end_all(&mut self.engine.endpoint, key);
            self.engine.events.extend(unsubscribed);
        }
        if self.engine.tasks.is_some() {
            unlisten(&mut self.engine.tasks, key, None);
        }
        if is_session {
            for request in self.engine.endpoint.requests_of(key) {
                self.engine.finish_outbound(request, Err(CallError::Closed(Fault::Eof)));
            }
            // `Closed` is reported once for a session, and never for a single exchange.
            let is_reported = is_exchange(&self.engine.endpoint, key)
                || self.engine.endpoint.channels.get(key).is_none_or(|c| c.closed);
            if !is_reported {
                end_session(&mut self.engine.endpoint, key, Direction::In, &Fault::Eof);
                self.engine.events.push_back(Event::Closed { channel: ChannelId(key), fault: Fault::Eof });
            }
        }
        let mut buffers = ExchangeBuffers::default();
        if let Some(c) = self.engine.endpoint.channels.get_mut(key) {
            core::mem::swap(&mut buffers.outbox, &mut c.outbox);
        }
        self.engine.endpoint.channels.discard(key);
        // Output of this exchange must not reach the next one with its buffer.
        buffers.outbox.clear_for_reuse();
        charge_tables(self.engine);
        buffers
    }
}

// Exchanges over HTTP: messages with header fields, batches that are inspected first, sessions without a handshake.

/// The contents of a batch that are checked before it is processed.
#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "HTTP alone uses it"))]
#[derive(Debug, Default)]
pub(crate) struct BatchContents {
    pub(crate) has_requests: bool,
    /// Whether an id is not unique.
    pub(crate) has_repeated_id: bool,
    /// Whether there is an `initialize` request.
    pub(crate) has_handshake: bool,
    /// Whether a member changes what is known of a session.
    pub(crate) changes_session: bool,
}

#[cfg_attr(not(feature = "http"), allow(dead_code, reason = "HTTP alone uses it"))]
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
        let endpoint = &mut self.engine.endpoint;
        if let (Some(c), Some(marker)) = (endpoint.channels.get_mut(key), Legacy::get()) {
            let mut session = LegacySession::new(version, b"", b"{}", &endpoint.memory);
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
            contents.changes_session |= methods::changes_session(&envelope.method);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::code;
    use crate::server::Config;

    // covers: BATCH-003, PING-001
    #[test]
    fn batch_before_a_session_is_refused_if_it_has_a_handshake() {
        let mut engine = Engine::new(Arc::new(Config::new("s", "1")));
        let owner = Key { slot: 7, generation: 0 };
        let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let handshake = r#"{"jsonrpc":"2.0","id":2,"method":"initialize","params":{}}"#;
        for (batch, early_end, error_code) in [
            (alloc::format!("[{ping}]"), None, None),
            (alloc::format!("[{ping},{handshake}]"), Some(EarlyEnd::Refused), Some(code::INVALID_REQUEST)),
        ] {
            let buffers = ExchangeBuffers::default();
            let key = engine.exchanges().open_channel(Instant::ZERO, None, owner, buffers);
            engine.receive_batch(key, &batch.into());
            let status = engine.exchange_status(ChannelId(key));
            assert_eq!((status.early_end, status.error_code), (early_end, error_code));
            assert!(engine.outbox(ChannelId(key)).is_some_and(|outbox| !outbox.is_empty()));
        }
    }
}
