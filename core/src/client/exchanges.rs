//! Exchanges: the interface for bindings that carry each message to the server in an exchange of its own.

#[cfg(feature = "http")]
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::config::Config;
use super::engine::Engine;
use crate::calls::endpoint::EndpointTimer;
use crate::calls::outbound::{CallPurpose, OutboundCalls, ResponseMatch};
#[cfg(feature = "http")]
use crate::deprecation::DeprecatedFeature;
#[cfg(feature = "http")]
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault};
#[cfg(feature = "http")]
use crate::frame::line::Oversize;
use crate::json::{member, object_members, string};
use crate::methods;
use crate::rpc::RequestId;
use crate::slab::Key;
use crate::sync::Arc;
use crate::tap::{ChannelId, Direction};
use crate::time::Instant;

/// A message to send, with what decides on its exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct OutgoingMessage {
    /// The message, without a newline.
    pub text: Bytes,
    /// Id of the request, if the message is one: its exchange ends with the answer.
    pub request: Option<RequestId>,
    /// Id of the request that the message cancels.
    ///
    /// Towards a modern server the message is not sent: the client ends the exchange of that request instead (CANC-016).
    /// Towards a legacy server it is sent like any notification.
    pub cancels: Option<RequestId>,
}

impl OutgoingMessage {
    fn parse(text: Bytes) -> Self {
        let (mut has_method, mut id, mut is_cancellation, mut params) = (false, None, false, None);
        // Otherwise it is a batch of responses.
        if text.first() == Some(&b'{') {
            object_members(&text, |name, value| match name {
                // The id is one of ours, so its length needs no limit.
                b"id" => id = RequestId::from_json(value, value.len()),
                b"method" => {
                    has_method = true;
                    is_cancellation = string(value).as_deref() == Some(methods::CANCELLED);
                }
                b"params" => params = Some(value),
                _ => {}
            });
        }
        let cancels = params.filter(|_| is_cancellation).and_then(|params| member(params, "requestId"));
        let cancels = cancels.and_then(|id| RequestId::from_json(id, id.len()));
        Self { request: id.filter(|_| has_method), cancels, text }
    }
}

/// The exchanges of a client engine, which was created by [`Engine::with_exchanges`].
///
/// An exchange is a message to the server with all that comes back for it: an HTTP request and its response, a request
/// topic of MQTT and its response topic, a numbered stream over WebSocket. A binding whose server answers on one ordered
/// stream needs no exchanges: it uses [`Engine::handle_message`] and [`Engine::outbox`].
///
/// A binding keeps a table of its exchanges with the id of the request in each:
///
/// 1. After input, after commands and after [`Engine::handle_timeout`]: take the events, then
///    [`poll_message`](Self::poll_message) until it returns `None`, and open an exchange for each message.
/// 2. A message arrives: [`handle_message`](Self::handle_message), with the request of its exchange. One that arrives
///    apart from any exchange, a change notification of a legacy server for example, has no request.
/// 3. An exchange ends: if [`Engine::awaits_response`] still returns true for its request, there was no answer.
///    [`resend_request`](Self::resend_request) may repeat it if [`Engine::is_idempotent`] returns true; otherwise
///    [`fail_request`](Self::fail_request) reports the failure. Silence fails nothing before the timeouts: say what the
///    transport knows. The binding bounds the number and the rate of repetitions.
/// 4. The server is gone, or has lost the session: [`close`](Self::close). The next connection has a new engine.
///
/// The binding pauses reading while [`Engine::is_stalled`] returns true, and bounds the size of a message
/// ([`Limits::max_frame`](crate::Limits::max_frame)). A legacy server need not end the exchange of a request that was
/// cancelled or timed out ([`OutgoingMessage::cancels`]): the binding forgets it.
///
/// ```
/// use std::sync::Arc;
/// use mcp_proto::client::{Config, Engine, KnownEra};
/// use mcp_proto::{CallError, Instant};
///
/// let now = Instant::ZERO;
/// let config = Config::new("demo", "1.0").known_era(KnownEra::Modern);
/// let mut engine = Engine::with_exchanges(Arc::new(config));
/// engine.open_channel(now);
///
/// let message = engine.exchanges().poll_message().expect("the request for `server/discover`");
/// let request = message.request.expect("it is a request");
/// // … send `message.text` in a new exchange; it ended without an answer:
/// assert!(engine.awaits_response(&request));
/// engine.exchanges().fail_request(now, &request, CallError::Transport { reason: "no answer".into() });
/// ```
#[derive(Debug)]
pub struct Exchanges<'e> {
    engine: &'e mut Engine,
}

impl Engine {
    /// Creates an engine for a binding that carries each message in an exchange of its own.
    ///
    /// It waits longer for the answer to the first request than on a byte stream: the transport tells of a server that
    /// does not answer (VER-021). It also retains calls that may be repeated ([`CallOptions::idempotent`]).
    ///
    /// [`CallOptions::idempotent`]: crate::CallOptions::idempotent
    #[must_use]
    pub fn with_exchanges(config: Arc<Config>) -> Self {
        let mut engine = Self::new(config);
        engine.common.uses_exchanges = true;
        if let Some(tap) = engine.common.endpoint.tap.as_mut() {
            tap.has_exchanges = true;
        }
        engine
    }

    /// Returns the exchanges, for a binding that carries each message in an exchange of its own.
    pub const fn exchanges(&mut self) -> Exchanges<'_> {
        Exchanges { engine: self }
    }

    fn pending_call(&self, id: &RequestId) -> Option<Key> {
        match self.common.endpoint.match_response(self.common.main_channel?, id) {
            ResponseMatch::Live(key) => Some(key),
            _ => None,
        }
    }

    /// Returns whether a request waits for its answer.
    #[must_use]
    pub fn awaits_response(&self, id: &RequestId) -> bool {
        self.pending_call(id).is_some()
    }

    /// Returns whether a request may be executed twice ([`CallOptions::idempotent`](crate::CallOptions::idempotent)).
    #[must_use]
    pub fn is_idempotent(&self, id: &RequestId) -> bool {
        let call = self.pending_call(id).map(|key| self.common.original_call(key));
        call.and_then(|key| self.common.endpoint.outbound.calls.get(key)).is_some_and(|c| c.idempotent)
    }
}
impl Exchanges<'_> {
    /// Returns the next message to send.
    ///
    /// Requests that were cancelled or timed out in the outbox are skipped with their cancellations: a server must not
    /// execute them (CANC-003).
    pub fn poll_message(&mut self) -> Option<OutgoingMessage> {
        let main = self.engine.common.main_channel?;
        loop {
            let outbox = &mut self.engine.common.endpoint.channels.get_mut(main)?.outbox;
            let Some(text) = outbox.pop_message() else {
                // A cancellation follows its request in the outbox, so none of these can come any more.
                self.engine.common.unsent_requests.clear();
                return None;
            };
            let message = OutgoingMessage::parse(text);
            match (&message.request, &message.cancels) {
                (Some(id), _) if !self.engine.awaits_response(id) => {
                    // The call has ended before it was sent, so no exchange begins for it.
                    self.engine.common.unsent_requests.insert(id.clone());
                }
                // The server never saw the request, so there is nothing to cancel.
                (_, Some(id)) if self.engine.common.unsent_requests.remove(id) => {}
                _ => {
                    // CANC-016: the end of an exchange stands for its cancellation.
                    if message.cancels.is_none() || !self.engine.common.is_modern() {
                        self.record_sent(&message.text);
                    }
                    return Some(message);
                }
            }
        }
    }

    /// Copies a message to the tap whose exchange begins.
    pub(crate) fn record_sent(&mut self, message: &[u8]) {
        let (main, endpoint) = (self.engine.common.main_channel, &mut self.engine.common.endpoint);
        if let (Some(main), Some(tap), false) = (main, endpoint.tap.as_mut(), message.is_empty()) {
            tap.record(endpoint.now, Direction::Out, ChannelId(main), message);
        }
    }

    /// Returns the next request whose exchange is not needed any more, although neither an answer nor a cancellation says
    /// so: its call was to become a task of 2025-11-25, ended before, and the answer has not come in time.
    ///
    /// Take them after [`Engine::handle_timeout`] and after commands.
    pub fn poll_expired(&mut self) -> Option<RequestId> {
        self.engine.common.expired_requests.pop_front()
    }

    /// Takes one message of the server.
    ///
    /// `request` is the request whose exchange the message arrived in. A response to any other request is skipped then
    /// ([`Diagnostic::UnknownResponse`](crate::Diagnostic::UnknownResponse), or
    /// [`Diagnostic::Malformed`](crate::Diagnostic::Malformed)). With `None` it may be that of any request.
    pub fn handle_message(&mut self, now: Instant, message: Bytes, request: Option<&RequestId>) {
        let Some(main) = self.record_message(now, &message) else { return };
        self.engine.receive(main, message, request);
    }

    /// Records that a message arrived. Returns the channel, if it is open.
    fn record_message(&mut self, now: Instant, message: &[u8]) -> Option<Key> {
        let common = &mut self.engine.common;
        let main = common.main_channel?;
        common.endpoint.tick(now);
        common.endpoint.record_activity();
        common.endpoint.record_received(main, message);
        common.endpoint.channels.get(main).filter(|c| !c.closed).map(|_| main)
    }

    /// Returns whether the exchange of a request stays open ([`CallOptions::long_lived`](crate::CallOptions::long_lived)), so
    /// that it must not take a place from other requests.
    #[must_use]
    pub fn is_long_lived(&self, id: &RequestId) -> bool {
        let engine = &*self.engine;
        let call = engine.pending_call(id).and_then(|key| engine.common.endpoint.outbound.calls.get(key));
        call.is_some_and(|call| call.is_long_lived)
    }

    /// Returns the number of sessions that the server has lost so far (HTTP-072): after each one a new session is opened, perhaps with
    /// another process, of which nothing is known but its revision.
    #[must_use]
    pub const fn lost_sessions(&self) -> u32 {
        self.engine.common.lost_sessions
    }

    /// Fails a request whose exchange gave no answer. The failure of a request that waits for none has no effect.
    ///
    /// If an answer to some other request was skipped in the exchange, the request ends with that instead of `error`.
    ///
    /// A failed request of the negotiation is taken for the answer of a server that does not know it: after
    /// `server/discover` the client tries `initialize`. If no server was reached, [`close`](Self::close) instead.
    pub fn fail_request(&mut self, now: Instant, id: &RequestId, error: CallError) {
        self.engine.common.endpoint.tick(now);
        if let Some(key) = self.engine.pending_call(id) {
            let skipped = self.engine.common.skipped_answer.take_if(|(of, _)| *of == key);
            self.engine.finish_outbound(key, Err(skipped.map_or(error, |(_, skipped)| skipped)));
        }
    }

    /// Sends a request again: it follows from [`poll_message`](Self::poll_message). Returns its new id.
    ///
    /// Returns `None` if it cannot be repeated. Only calls that are
    /// [idempotent](crate::CallOptions::idempotent), calls of the modern era that may ask for input, and subscriptions
    /// are retained for this.
    pub fn resend_request(&mut self, now: Instant, id: &RequestId) -> Option<RequestId> {
        let engine = &mut *self.engine;
        engine.common.endpoint.tick(now);
        let key = engine.pending_call(id)?;
        let retry = match engine.common.endpoint.outbound.calls.get(key)?.purpose {
            CallPurpose::Application | CallPurpose::Retry(_) => {
                engine.calls.resend_lost(&mut engine.common, key)
            }
            CallPurpose::Listen(_) => engine.subscriptions.renew_listen(&mut engine.common, key),
            _ => None,
        };
        retry.map(|key| RequestId::int(OutboundCalls::wire_id(key)))
    }

    /// Suspends the timeouts of a request while its exchange is held, for a user who logs in for example.
    ///
    /// It may be held for [`Limits::input_timeout`](crate::Limits::input_timeout).
    pub fn pause_request(&mut self, now: Instant, id: &RequestId) {
        self.engine.common.endpoint.tick(now);
        let Some(key) = self.engine.pending_call(id) else { return };
        let common = &mut self.engine.common;
        let Some(call) = common.endpoint.outbound.calls.get_mut(key) else { return };
        if matches!(call.purpose, CallPurpose::Probe | CallPurpose::Handshake) {
            return common.arm_negotiation_timeout(common.endpoint.limits.input_timeout);
        }
        let time = common.endpoint.limits.input_timeout;
        if !call.is_kept_open() {
            call.idle_deadline = common.endpoint.now + time;
        }
        self.shift_total_deadline(key, |total_at| total_at + time);
    }

    /// Resumes the timeouts of a request whose exchange was held for this time. Call it once for each
    /// [`pause_request`](Self::pause_request).
    pub fn resume_request(&mut self, now: Instant, id: &RequestId, held_for: Duration) {
        self.engine.common.endpoint.tick(now);
        let Some(key) = self.engine.pending_call(id) else { return };
        let common = &mut self.engine.common;
        let Some(call) = common.endpoint.outbound.calls.get_mut(key) else { return };
        if matches!(call.purpose, CallPurpose::Probe | CallPurpose::Handshake) {
            let wait = common.endpoint.limits.init_timeout;
            return common.arm_negotiation_timeout(wait);
        }
        // A call that stays open has no time to start again: its stream may be silent for as long as the server likes.
        if !call.is_kept_open() {
            call.idle_deadline = common.endpoint.now + call.timeout;
        }
        // `pause_request` has added the whole `input_timeout`; only the time that the exchange was held counts.
        let time = common.endpoint.limits.input_timeout;
        self.shift_total_deadline(key, |total_at| total_at - time + held_for);
    }

    /// Moves the total deadline of a request and of its original call, unless it was set by the application.
    fn shift_total_deadline(&mut self, key: Key, shift: impl Fn(Instant) -> Instant) {
        let common = &mut self.engine.common;
        let call = common.original_call(key);
        // A retry is an entry of its own, and both entries have a total deadline.
        let keys = [Some(key), Some(call).filter(|call| *call != key)];
        for key in keys.into_iter().flatten() {
            let Some(call) = common.endpoint.outbound.calls.get_mut(key) else { continue };
            if !call.has_explicit_total {
                call.total_deadline = shift(call.total_deadline);
            }
            let deadline = call.deadline();
            common.endpoint.deadlines.arm(deadline, EndpointTimer::Outbound(key));
        }
    }

    /// Closes the connection with a fault of the transport. Every open call ends with [`CallError::Closed`].
    pub fn close(&mut self, now: Instant, fault: Fault) {
        self.engine.common.endpoint.tick(now);
        self.engine.close_with(fault);
    }
}

/// Returns whether a message is a request or a notification.
#[cfg(feature = "http")]
fn has_method(message: &[u8]) -> bool {
    let mut has_method = false;
    if message.first() == Some(&b'{') {
        object_members(message, |name, _| has_method |= name == b"method");
    }
    has_method
}

/// The primitives of the HTTP binding.
#[cfg(feature = "http")]
impl Exchanges<'_> {
    /// Takes one message, like [`handle_message`](Self::handle_message).
    ///
    /// `ended` then holds the calls whose requests ended.
    pub(crate) fn handle_recorded_message(
        &mut self,
        now: Instant,
        message: Bytes,
        request: Option<&RequestId>,
        ended: &mut Vec<Key>,
    ) {
        let main = self.record_message(now, &message);
        self.begin_record(ended);
        if let Some(main) = main {
            self.engine.receive(main, message, request);
        }
        *ended = self.engine.common.endpoint.outbound.calls.record_ended(None).unwrap_or_default();
    }

    /// Returns whether an answer was skipped in the exchange of a request, and no later one in that of another.
    pub(crate) fn has_skipped_answer(&self, id: &RequestId) -> bool {
        let skipped = self.engine.common.skipped_answer.as_ref();
        skipped.is_some_and(|(key, _)| self.engine.pending_call(id) == Some(*key))
    }

    /// Handles a message that exceeded the frame limit; `ended` then holds the calls whose requests ended.
    pub(crate) fn handle_oversize(&mut self, now: Instant, oversize: Oversize, ended: &mut Vec<Key>) {
        let Some(main) = self.engine.common.main_channel else { return };
        self.begin_record(ended);
        self.engine.handle_oversize(now, ChannelId(main), oversize);
        *ended = self.engine.common.endpoint.outbound.calls.record_ended(None).unwrap_or_default();
    }

    fn begin_record(&mut self, ended: &mut Vec<Key>) {
        // The vector of the caller is filled again, so that a message needs no allocation.
        let mut record = core::mem::take(ended);
        record.clear();
        self.engine.common.endpoint.outbound.calls.record_ended(Some(record));
    }

    /// Handles the end of the session at the server: its requests need no answers any more.
    ///
    /// The calls of this client stay open.
    pub(crate) fn handle_session_lost(&mut self, now: Instant) {
        let engine = &mut *self.engine;
        engine.common.endpoint.tick(now);
        engine.common.lost_sessions = engine.common.lost_sessions.wrapping_add(1);
        let Some(main) = engine.common.main_channel else { return };
        for key in engine.common.endpoint.live_calls(main) {
            if engine.common.endpoint.drop_call(key).is_some() {
                engine.calls.end_server_request(&mut engine.common, key);
            }
        }
        engine.calls.clear_hosted(&mut engine.common);
        let Some(c) = engine.common.endpoint.channels.get_mut(main) else { return };
        // Unsent answers are removed as well, because their ids may be reused in the next session.
        let messages: Vec<Bytes> = core::iter::from_fn(|| c.outbox.pop_message()).collect();
        for message in messages.iter().filter(|message| has_method(message)) {
            c.outbox.push_bytes(message);
            c.outbox.push_bytes(&Bytes::from_static(b"\n"));
        }
    }

    /// Returns whether a request must not be sent again in the next session ([`CallOptions::same_session`](crate::CallOptions)).
    pub(crate) fn ends_with_session(&self, id: &RequestId) -> bool {
        let engine = &*self.engine;
        let call = engine.pending_call(id).and_then(|key| engine.common.endpoint.outbound.calls.get(key));
        call.is_some_and(|call| call.same_session)
    }

    /// Restores subscriptions and log level in a new session.
    #[expect(deprecated, reason = "supported until its removal")]
    pub(crate) fn handle_session_renewed(&mut self, now: Instant) {
        let common = &mut self.engine.common;
        common.endpoint.tick(now);
        if let Some(main) = common.main_channel {
            self.engine.subscriptions.renew_resources(common, main);
            if let Some(level) = common.log.as_ref().map(|log| log.level().cloned()) {
                // It was accepted before, so it can fail only because the outbox is full.
                let _ = self.engine.set_log_level(now, level);
            }
        }
    }

    /// Ends the subscriptions: the stream with the change notifications of a legacy session is not available.
    pub(crate) fn handle_change_stream_lost(&mut self, now: Instant, error: &CallError) {
        self.engine.common.endpoint.tick(now);
        self.engine.subscriptions.end_all(&mut self.engine.common, error);
    }
}

#[cfg(feature = "http")]
impl Engine {
    /// Returns whether a request is repeated by the engine in the next session anyway.
    pub(crate) fn is_internal_request(&self, id: &RequestId) -> bool {
        let call = self.pending_call(id).and_then(|key| self.common.endpoint.outbound.calls.get(key));
        call.is_some_and(|call| {
            matches!(
                call.purpose,
                CallPurpose::Internal
                    | CallPurpose::Subscribe(_)
                    | CallPurpose::KeepAlive
                    | CallPurpose::Task(_)
            )
        })
    }

    /// Returns whether there are subscriptions.
    pub(crate) fn has_subscriptions(&self) -> bool {
        !self.subscriptions.is_empty()
    }

    /// Returns whether all events were polled.
    pub(crate) fn has_no_events(&self) -> bool {
        self.common.events.is_empty()
    }

    /// Reports that the server uses a deprecated feature, unless it was reported or the connection is closed.
    pub(crate) fn report_deprecated(&mut self, feature: DeprecatedFeature) {
        // Nothing is reported after `Event::Closed`.
        if !self.is_closed() {
            self.common.report_deprecated(feature);
        }
    }

    /// Reports a diagnostic of the transport, unless the connection is closed.
    pub(crate) fn report_diagnostic(&mut self, diagnostic: Diagnostic) {
        if !self.is_closed() {
            self.common.diagnose(diagnostic);
        }
    }
}
