//! The client: its state, its inputs and outputs, and its commands besides those of the engine.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use super::config::Config;
use super::credentials::Credentials;
use super::exchange::{Action, ExchangeFailure, ExchangeId, ExchangePhase, ExchangePurpose, NextStep};
use super::exchange_table::{ClientExchange, ExchangeTable, MAX_MESSAGES};
use super::negotiation::Attempts;
use super::session::{HttpClientSession, SendGate};
use super::tools::ToolHeaders;
use crate::client::{self, Engine, Event};
use crate::diagnostic::Diagnostic;
use crate::driving::{self, BoundEngine as _};
use crate::error::HttpError;
use crate::json::{ScanError, Scanner, string};
use crate::outbox::Outbox;
use crate::rpc::RequestId;
use crate::slab::Key;
use crate::sync::Arc;
use crate::tap::ChannelId;
use crate::time::{Instant, TimeoutReason};
use crate::{head, meta, methods};

/// A client over HTTP.
///
/// ```
/// use std::sync::Arc;
/// use mcp_proto::{Instant, client, head};
/// use mcp_proto::http::client::{Action, Client, Config};
///
/// let config = Config::new("http://localhost:3000/mcp").unwrap();
/// let engine = Arc::new(client::Config::new("demo", "1.0"));
/// let now = Instant::ZERO;
/// let mut client = Client::new(engine, Arc::new(config), now);
/// // The first request:
/// let Some(Action::Send(request)) = client.poll_exchange(now) else { panic!("a request") };
/// assert_eq!((request.method, request.url.target()), ("POST", "/mcp"));
/// assert!(request.fields.iter().any(|f| f == ("Mcp-Method", b"server/discover")));
/// // The response of the server:
/// let fields: [head::FieldLine<'_>; 1] = [("content-type", b"application/json")];
/// client.handle_head(now, request.exchange, &head::ResponseHead { status: 200, fields: &fields });
/// client.handle_body(now, request.exchange, br#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete",
///     "supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":0,"cacheScope":"private"}}"#);
/// client.handle_end(now, request.exchange);
/// assert!(matches!(client.poll_event(now), Some(client::Event::Ready(_))));
/// ```
#[derive(Debug)]
pub struct Client {
    pub(super) engine: Engine,
    pub(super) channel: ChannelId,
    pub(super) config: Arc<Config>,
    pub(super) exchanges: ExchangeTable,
    pub(super) now: Instant,
    pub(super) session: HttpClientSession,
    pub(super) tools: ToolHeaders,
    pub(super) credentials: Credentials,
    pub(super) attempts: Attempts,
    /// Requests that the last message has ended.
    pub(super) ended_requests: Vec<Key>,
    /// The engine is closed and the remaining exchanges are being ended.
    pub(super) is_closing: bool,
    /// The status by which the server refused to end the session.
    pub(super) refused_end: Option<u16>,
    /// Beginning of the body of the response that failed last, without secrets, until it is recorded.
    pub(super) failed_body: Option<String>,
}

impl Client {
    /// Creates a client whose first request is ready to be sent.
    #[must_use]
    pub fn new(client: Arc<client::Config>, config: Arc<Config>, now: Instant) -> Self {
        let tools = ToolHeaders::new(client.settings.draft);
        let mut engine = Engine::with_exchanges(client);
        let channel = engine.open_channel(now);
        Self {
            engine,
            channel,
            exchanges: ExchangeTable::default(),
            now,
            session: HttpClientSession::default(),
            tools,
            credentials: Credentials::new(&config),
            attempts: Attempts::default(),
            ended_requests: Vec::new(),
            is_closing: false,
            refused_end: None,
            failed_body: None,
            config,
        }
    }

    /// Returns the engine, for calls and other commands; call [`poll_exchange`](Self::poll_exchange) afterwards.
    pub const fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    // ---- output for the HTTP implementation ------------------------------------------------------------------

    /// Returns the next request to send, or the next exchange to abort.
    pub fn poll_exchange(&mut self, now: Instant) -> Option<Action> {
        self.tick(now);
        self.engine.driver_check().polled();
        self.finish_closing();
        // This comes before the actions, so that an expired request is not sent.
        self.abort_expired();
        loop {
            // Messages stay in the outbox, where limits hold, until the HTTP implementation asks for them.
            while !self.exchanges.has_action()
                && self.session.is_open()
                && self.exchanges.has_room_for_message()
            {
                let message = self.engine.outbox(self.channel).and_then(Outbox::pop_message)?;
                if !self.is_closing {
                    self.send(&message);
                }
            }
            match self.exchanges.poll_action()? {
                // The call may have ended after its request was queued, and then must not be executed.
                Action::Send(open)
                    if self.exchanges.get(open.exchange.0).is_some_and(|x| self.is_abandoned(x)) =>
                {
                    if let Some(x) = self.remove(open.exchange.0) {
                        self.exchanges.record_unsent(&x);
                    }
                }
                action => {
                    // What was queued, but is not sent, does not reach the tap.
                    if let Action::Send(request) = &action {
                        self.engine.exchanges().record_sent(&request.body);
                    }
                    return Some(action);
                }
            }
        }
    }

    /// Returns whether an exchange is open, so that its response is still needed.
    #[must_use]
    pub fn is_open(&self, exchange: ExchangeId) -> bool {
        self.exchanges.get(exchange.0).is_some()
    }

    /// Returns whether to read more of the body of this exchange.
    ///
    /// This is false while the application has not polled earlier events; the caller should then apply back-pressure.
    #[must_use]
    pub fn wants_body(&self, exchange: ExchangeId) -> bool {
        match self.exchanges.get(exchange.0).and_then(|x| x.events.as_ref()) {
            Some(events) => {
                events.decoder.buffered() <= max_frame(&self.engine).saturating_mul(2)
                    && !self.engine.is_stalled()
            }
            None => true,
        }
    }

    // ---- input from the HTTP implementation ------------------------------------------------------------------

    /// Processes the head of a response; interim responses (1xx) are ignored.
    pub fn handle_head(&mut self, now: Instant, exchange: ExchangeId, head: &head::ResponseHead<'_>) {
        self.tick(now);
        let open = self.exchanges.get(exchange.0);
        let is_waiting = open.is_some_and(|x| matches!(x.phase(), ExchangePhase::Sent));
        // A session that is gone has ended, and a server need not let clients end it (HTTP-075).
        let is_refusal = head.status >= 400 && !matches!(head.status, 404 | 405);
        if head.status >= 200 && open.is_some_and(|x| matches!(x.purpose(), ExchangePurpose::DeleteSession)) {
            self.refused_end = is_refusal.then_some(head.status);
        }
        // Also a refusal: the peer is there.
        self.engine.record_input(self.now, self.channel);
        if is_waiting && head.status >= 200 {
            self.receive_head(exchange.0, head);
            self.finish_closing();
        }
    }

    /// Processes a part of the body of a response, without its transfer coding.
    pub fn handle_body(&mut self, now: Instant, exchange: ExchangeId, part: &[u8]) {
        self.tick(now);
        self.engine.record_input(self.now, self.channel);
        self.receive_body(exchange.0, part);
        self.finish_closing();
    }

    /// Records the end of a response.
    pub fn handle_end(&mut self, now: Instant, exchange: ExchangeId) {
        self.tick(now);
        self.exchanges.cancel_abort(exchange.0);
        self.receive_end(exchange.0);
        self.finish_closing();
    }

    /// Records that an exchange failed before its response was complete.
    pub fn handle_failure(&mut self, now: Instant, exchange: ExchangeId, failure: ExchangeFailure) {
        self.tick(now);
        self.exchanges.cancel_abort(exchange.0);
        self.receive_failure(exchange.0, failure);
        self.finish_closing();
    }

    // ---- the application -------------------------------------------------------------------------------------

    /// Returns the next event; decodes one message at a time.
    pub fn poll_event(&mut self, now: Instant) -> Option<Event> {
        self.tick(now);
        self.engine.driver_check().polled();
        loop {
            self.finish_closing();
            self.end_subscriptions_without_stream();
            let event = self.engine.poll_event(self.now);
            // While the engine is stalled nothing is decoded. `wants_body` then stops the reading, too.
            if event.is_some() || self.engine.is_stalled() {
                return event;
            }
            let key = self.exchanges.pop_stream()?;
            self.decode_event(key);
        }
    }

    /// Closes the client: ends all calls and event streams, and ends the session at the server (HTTP-073).
    pub fn close(&mut self, now: Instant) {
        self.tick(now);
        self.engine.close(self.now);
        self.finish_closing();
    }

    /// Returns that the server refused to end the session, once. It is known after [`Event::Closed`], and has no effect.
    pub fn poll_closing_diagnostic(&mut self) -> Option<Diagnostic> {
        let status = self.refused_end.take()?;
        Some(Diagnostic::Http(alloc::format!("the server refused to end the session (HTTP status {status})")))
    }

    /// Returns whether the client is closed and has no exchange and no event left.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.is_closing && self.exchanges.is_empty() && self.engine.has_no_events()
    }

    // ---- time ------------------------------------------------------------------------------------------------

    /// Advances the time to `now`; an early or spurious call has no effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.tick(now);
        if cfg!(debug_assertions) {
            let next = next_deadline(self);
            let has_output = self.engine.has_events() || self.exchanges.has_action();
            let now = self.now;
            self.engine.driver_check().handle_timeout(now, next, has_output);
        }
        self.engine.process_timeouts(self.now);
        self.finish_closing();
        while let Some(key) = self.exchanges.pop_due(self.now) {
            self.handle_deadline(key);
        }
        // A server that never answers the GET, or `logging/setLevel`, must not hold the calls.
        if self.session.next_deadline().is_some_and(|at| at <= self.now) {
            self.open_gate();
        }
        // A call that was sent again may be overdue.
        self.engine.process_timeouts(self.now);
        if self.engine.is_idle() && self.engine.peek_outbox(self.channel).is_empty() {
            self.exchanges.trim();
        }
        self.finish_closing();
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) next.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let own = self.exchanges.next_deadline().into_iter().chain(self.session.next_deadline());
        own.chain(self.engine.poll_timeout()).min()
    }

    /// Returns the same as [`poll_timeout`](Self::poll_timeout), without the deadline for freeing idle buffers.
    pub fn poll_timeout_without_trim(&mut self) -> Option<Instant> {
        let own = self.exchanges.next_deadline().into_iter().chain(self.session.next_deadline());
        own.chain(self.engine.poll_timeout_without_trim()).min()
    }

    /// Returns the reason of the deadline of [`poll_timeout`](Self::poll_timeout).
    pub fn timeout_reason(&mut self) -> Option<TimeoutReason> {
        next_deadline(self).map(|(_, reason)| reason)
    }

    pub(super) fn tick(&mut self, now: Instant) {
        driving::check_time(self.now, now);
        self.now = self.now.max(now);
    }

    fn handle_deadline(&mut self, key: Key) {
        let Some(x) = self.exchanges.get(key) else { return };
        match *x.phase() {
            ExchangePhase::AwaitingGetStream => {}
            ExchangePhase::Draining { .. } => drop(self.abort(key)),
            ExchangePhase::CollectingBody(ref collected) if collected.response.asks_for_credential() => {
                if let Some(x) = self.abort(key) {
                    self.process_body(x);
                }
            }
            ExchangePhase::AwaitingCredential { .. } => {
                self.credentials.clear_challenge();
                self.authorization().refuse_held();
            }
            ExchangePhase::Scheduled(then) => {
                let Some(x) = self.remove(key) else { return };
                match then {
                    _ if self.is_abandoned(&x) => {}
                    NextStep::Reconnect => self.reconnect(x),
                    NextStep::RetryWithNewId => self.retry_with_new_id(&x),
                    NextStep::Resend => self.resend(x),
                }
            }
            ExchangePhase::Sent | ExchangePhase::EventStream | ExchangePhase::CollectingBody(_) => {
                if let Some(x) = self.abort(key) {
                    self.exchange_failed(x, HttpError::Lost { reason: "no answer in time".into() });
                }
            }
        }
    }

    // ---- the table of exchanges ------------------------------------------------------------------------------

    /// Removes an exchange from the table without aborting it.
    pub(super) fn remove(&mut self, key: Key) -> Option<ClientExchange> {
        let x = self.exchanges.remove(key)?;
        self.handle_removal(key, &x);
        Some(x)
    }

    /// Removes an exchange and aborts it if it is in flight.
    pub(super) fn abort(&mut self, key: Key) -> Option<ClientExchange> {
        let x = self.exchanges.abort(key)?;
        self.handle_removal(key, &x);
        Some(x)
    }

    fn handle_removal(&mut self, key: Key, x: &ClientExchange) {
        self.exchange_ended(x);
        if self.credentials.is_challenged(ExchangeId(key)) {
            self.credentials.clear_challenge();
            self.credentials.raise_challenge(&mut self.exchanges);
        }
    }

    /// Takes an exchange whose further output is not needed.
    ///
    /// A short rest of the response is read, so that its connection can be reused.
    pub(super) fn conclude(&mut self, key: Key) -> Option<ClientExchange> {
        let until = self.now + self.config.close_timeout;
        let x = self.exchanges.get(key)?;
        if x.is_draining() {
            return None;
        }
        if !x.is_in_flight() {
            return self.remove(key);
        }
        let taken = self.exchanges.drain(key, until)?;
        self.exchange_ended(&taken);
        Some(taken)
    }

    /// Returns whether the request of an exchange no longer waits for its answer.
    pub(super) fn is_abandoned(&self, x: &ClientExchange) -> bool {
        let is_awaited = |id| x.purpose().cancels_task() || self.engine.awaits_response(id);
        x.request_id().is_some_and(|id| !is_awaited(id))
    }

    /// Aborts the exchanges of requests that ended without a message about it.
    fn abort_expired(&mut self) {
        while let Some(id) = self.engine.exchanges().poll_expired() {
            if let Some(key) = self.exchanges.find(&id) {
                self.abort(key);
            }
        }
    }

    // ---- closing ---------------------------------------------------------------------------------------------

    /// Once the engine is closed, aborts all exchanges that are not needed for closing.
    pub(super) fn finish_closing(&mut self) {
        if self.is_closing || !self.engine.is_closed() {
            return;
        }
        // Queued messages are still sent, because the server may wait for responses; requests have ended.
        let renewing = self.session.gate() == SendGate::RenewingSession;
        for _ in 0..MAX_MESSAGES {
            let Some(message) = self.engine.outbox(self.channel).and_then(Outbox::pop_message) else { break };
            if self.engine.peer().is_some() && !renewing {
                self.send(&message);
            }
        }
        self.is_closing = true;
        // What waits for a session is not sent any more.
        drop(self.session.open_gate());
        self.exchanges.clear_streams();
        self.credentials.clear_challenge();
        // A notification in flight may cancel work at the server, and so does the cancellation of a task.
        let must_arrive = |purpose: &ExchangePurpose| {
            matches!(purpose, ExchangePurpose::Message { .. }) || purpose.cancels_task()
        };
        let must_finish =
            |x: &ClientExchange| (must_arrive(x.purpose()) && x.is_in_flight()) || x.is_draining();
        let keys = self.exchanges.keys_where(|x| !must_finish(x));
        for key in keys {
            self.abort(key);
        }
        self.end_session();
    }
}

pub(super) fn max_frame(engine: &Engine) -> usize {
    engine.config().effective_limits().effective_max_frame()
}

/// Returns the next deadline of a client and its reason.
fn next_deadline(client: &mut Client) -> Option<(Instant, TimeoutReason)> {
    TimeoutReason::earliest([
        client.exchanges.timeout_reason(),
        client.session.next_deadline().map(|at| (at, TimeoutReason::SessionStart)),
        client.engine.next_deadline(),
    ])
}

// The parts of an outgoing message that its header fields repeat.

/// The parts of an outgoing message that its header fields repeat.
#[derive(Debug, Default)]
pub(super) struct MessageParts<'a> {
    pub(super) id: Option<RequestId>,
    pub(super) method: Option<Cow<'a, str>>,
    /// The revision in its `_meta`.
    pub(super) version: Option<Cow<'a, str>>,
    /// The name or URI that it addresses (HTTP-033, XHDR-036).
    pub(super) name: Option<Cow<'a, str>>,
    pub(super) arguments: Option<&'a [u8]>,
    /// The request that it cancels.
    pub(super) cancelled_request: Option<RequestId>,
    /// It requests a page other than the first.
    pub(super) has_cursor: bool,
}

impl<'a> MessageParts<'a> {
    /// Parses a message of this client; a batch of responses has no parts.
    pub(super) fn parse(message: &'a [u8]) -> Self {
        let mut parts = Self::default();
        if message.first() != Some(&b'{') {
            return parts;
        }
        // The outcome is not looked at: the engine wrote this text, so it is valid JSON, and has the method before the parameters.
        let _ = Scanner::trusted(message).members(&mut |s, name| {
            match name.raw {
                b"params" => {
                    _ = s.members(&mut |s, name| parts.read_param(s, &name.unescaped(), message))?;
                }
                b"id" => {
                    let value = s.value()?.slice(message).unwrap_or_default();
                    parts.id = RequestId::from_json(value, value.len());
                }
                b"method" => parts.method = s.string()?.into_str(),
                _ => _ = s.value()?,
            }
            Ok(())
        });
        parts
    }

    /// Returns whether the message is a response, or a notification that the protocol defines.
    pub(super) fn are_of_protocol_message(&self) -> bool {
        let known = [methods::INITIALIZED, methods::CANCELLED, methods::PROGRESS, methods::ROOTS_CHANGED];
        self.method.as_deref().is_none_or(|method| known.contains(&method))
    }

    /// Reads one parameter.
    fn read_param(&mut self, s: &mut Scanner<'a>, name: &[u8], message: &'a [u8]) -> Result<(), ScanError> {
        if name == b"_meta" && s.peek() == b'{' {
            let members = s.members(&mut |s, name| {
                let value = s.value()?.slice(message).unwrap_or_default();
                if name.raw != meta::PROTOCOL_VERSION.as_bytes() {
                    return Ok(());
                }
                self.version = string(value);
                // The engine writes it first, and `_meta` last: there is nothing more to read.
                s.fail()
            });
            return members.map(|_| ());
        }
        let value = s.value()?.slice(message).unwrap_or_default();
        match name {
            b"arguments" => self.arguments = Some(value),
            b"requestId" => self.cancelled_request = RequestId::from_json(value, value.len()),
            b"cursor" => self.has_cursor = true,
            _ => {
                let subject = self.method.as_deref().and_then(methods::subject_member).unwrap_or_default();
                if name == subject.as_bytes() {
                    self.name = string(value);
                }
            }
        }
        Ok(())
    }
}

/// Returns whether a message is a notification that the protocol does not define.
pub(super) fn is_custom_notification(message: &[u8]) -> bool {
    let parts = MessageParts::parse(message);
    parts.id.is_none() && parts.method.is_some_and(|method| !methods::is_spec_notification(&method))
}
