//! The client engine: channel, events, deadlines, and the commands of the application.

use core::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::calls::{Calls, ToolCallParams};
use super::common::CommonState;
use super::config::Config;
use super::event::{Event, Peer};
use super::negotiate::{Negotiation, NegotiationStep};
use super::subscriptions::Subscriptions;
use super::task_calls::TaskUse;
use crate::calls::endpoint::{self, EndpointTimer, IdlessErrors, check_timeout, next_deadline};
use crate::calls::observing::{begin_session, end_session};
use crate::calls::outbound::{CallKey, CallOptions, CallPurpose};
use crate::calls::outbound_requests::{self, WriteForm};
use crate::calls::pings::PeerHealth;
use crate::driving::{BoundEngine, DriverCheck};
use crate::error::{CallError, Fault, UseError};
use crate::json::Serializer;
use crate::limits::Limit;
use crate::methods::{self, EntryKind};
use crate::outbox::Outbox;
use crate::rpc::RpcError;
use crate::slab::Key;
use crate::sync::Arc;
use crate::tap::{ChannelId, Direction, TapRecord};
use crate::time::{Instant, TimeoutReason};
use crate::version::{Era, KnownEra};

/// The client engine: takes messages, produces messages and events.
///
/// Open the channel and make calls, which are queued until the era of the server is known. Pass received messages to
/// [`handle_message`](Self::handle_message), take events with [`poll_event`](Self::poll_event), and send the content
/// of the [`outbox`](Self::outbox). For a byte stream, [`pipe::Client`](crate::pipe::Client) does this.
#[derive(Debug)]
pub struct Engine {
    /// State that all parts share: the endpoint with the channel, the events, the server.
    pub(super) common: CommonState,
    pub(super) negotiation: Negotiation,
    /// Queued calls, rounds of calls, and input requests.
    pub(super) calls: Calls,
    /// Subscriptions of the application.
    pub(super) subscriptions: Subscriptions,
}

impl Engine {
    /// Creates an engine without a channel.
    #[must_use]
    pub fn new(config: Arc<Config>) -> Self {
        Self {
            common: CommonState::new(config),
            negotiation: Negotiation::new(),
            calls: Calls::default(),
            subscriptions: Subscriptions::default(),
        }
    }

    /// Opens the channel and starts the negotiation.
    ///
    /// An engine has one channel at a time. While it is open, this returns the same id. It is closed at once, with
    /// [`Fault::OutOfMemory`](crate::Fault::OutOfMemory), if there is no memory for its first message, and no other one can follow.
    pub fn open_channel(&mut self, now: Instant) -> ChannelId {
        self.common.endpoint.tick(now);
        if let Some(main) = self.common.main_channel {
            return ChannelId(main);
        }
        let main = self.common.endpoint.open_channel(IdlessErrors::Unsent, ());
        self.common.main_channel = Some(main);
        let step = self.negotiation.begin(&mut self.common);
        self.apply(step);
        ChannelId(main)
    }

    /// Takes one message from the server.
    pub fn handle_message(&mut self, now: Instant, channel: ChannelId, message: Bytes) {
        self.common.endpoint.tick(now);
        self.common.endpoint.record_activity();
        self.common.endpoint.record_received(channel.0, &message);
        if self.common.endpoint.channels.get(channel.0).is_some_and(|c| !c.closed) {
            self.receive(channel.0, message, None);
        }
    }

    /// Records the end of the input. Every open call ends (STDIO-028).
    pub fn handle_eof(&mut self, now: Instant, channel: ChannelId) {
        if Some(channel.0) == self.common.main_channel {
            self.end_input(now, 0);
        }
    }

    /// Records the end of the input, after `partial` bytes of a message.
    pub(crate) fn end_input(&mut self, now: Instant, partial: usize) {
        self.common.endpoint.tick(now);
        // An end during the negotiation has a fault that tells more than an incomplete message (VER-021).
        let fault = match (self.negotiation.eof_fault(&self.common.config), partial) {
            (Fault::Eof, 1..) => Fault::Truncated { bytes: partial },
            (fault, _) => fault,
        };
        self.close_with(fault);
    }

    /// Closes the connection. Every open call ends with [`CallError::Closed`]; the outbox can still be written.
    pub fn close(&mut self, now: Instant) {
        self.common.endpoint.tick(now);
        self.close_with(Fault::Closed);
    }

    /// Processes the deadlines that have passed. Early or spurious calls have no effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_timeout_with(now, false);
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        self.common.endpoint.poll_timeout()
    }

    /// Like [`poll_timeout`](Self::poll_timeout), without the deadline at which idle buffers are freed.
    pub fn poll_timeout_without_trim(&mut self) -> Option<Instant> {
        self.common.endpoint.poll_timeout_without_trim()
    }

    /// Returns the reason of the deadline of [`poll_timeout`](Self::poll_timeout).
    pub fn timeout_reason(&mut self) -> Option<TimeoutReason> {
        self.next_deadline().map(|(_, reason)| reason)
    }

    /// Returns the next event.
    pub fn poll_event(&mut self, now: Instant) -> Option<Event> {
        has_event(self, now);
        take_event(self)
    }

    /// Returns whether a message can be taken: an answer to it has memory, or the server is still to read earlier ones.
    ///
    /// Requests alone never pause reading, because their answers free memory (DESIGN-12).
    #[inline]
    pub(crate) fn can_answer(&mut self, channel: ChannelId) -> bool {
        endpoint::can_answer(&mut self.common.endpoint, channel.0) || self.common.unread_answer_bytes() == 0
    }

    /// Returns whether decoding should pause.
    ///
    /// The connection is closed, the server does not read the answers that it requested, or too many events wait.
    /// Reading may continue within the bounds of the input buffer. Otherwise two peers with full buffers could wait for
    /// each other (DESIGN-12).
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.common.is_closed()
            || self.common.unread_answer_bytes() >= self.common.endpoint.limits.outbox_high_water
            || self.common.events.len() >= self.common.endpoint.limits.max_events
    }

    /// Panics if a sum that the engine keeps differs from what it sums.
    #[cfg(any(debug_assertions, test))]
    pub(crate) fn check_sums(&self) {
        if let Some(tasks) = self.calls.input_tasks.as_ref() {
            tasks.check_sums(&self.common);
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.common.is_closed()
    }

    /// Returns whether the outbox is so full that calls are refused.
    #[must_use]
    pub fn is_congested(&self) -> bool {
        self.common.is_congested()
    }

    /// Returns whether the connection is closed, its events are taken and its output is written.
    pub(crate) fn is_drained(&self) -> bool {
        let main = self.common.main_channel.and_then(|m| self.common.endpoint.channels.get(m));
        self.common.events.is_empty() && main.is_none_or(|c| c.closed && c.outbox.is_empty())
    }

    /// Returns the outbox of the channel: messages to send, each ended by a newline.
    ///
    /// A byte stream takes [`Outbox::transmit`]; a transport of whole messages takes [`Outbox::pop_message`].
    pub fn outbox(&mut self, channel: ChannelId) -> Option<&mut Outbox> {
        self.common.endpoint.channels.get_mut(channel.0).map(|c| &mut c.outbox)
    }

    pub(crate) fn peek_outbox(&self, channel: ChannelId) -> &[u8] {
        self.common.endpoint.channels.get(channel.0).map_or(&[], |c| c.outbox.transmit())
    }

    /// Returns the server, once the connection is ready.
    #[must_use]
    pub fn peer(&self) -> Option<&Peer> {
        self.common.peer.as_ref()
    }

    /// Returns the era of the server, to be stored for the next connection.
    ///
    /// Returns `None` before the connection is ready, and after the era proved wrong.
    #[must_use]
    pub const fn known_era(&self) -> Option<KnownEra> {
        self.negotiation.known_era()
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.common.config
    }

    /// Returns the number of calls without an outcome.
    #[must_use]
    pub const fn pending_calls(&self) -> usize {
        self.common.endpoint.outbound.calls.application_calls()
    }

    /// Returns the next record of the tap ([`Limits::tap_records`](crate::Limits::tap_records)).
    ///
    /// Without the feature `observe` nothing is recorded.
    pub fn poll_tap(&mut self) -> Option<TapRecord> {
        self.common.endpoint.poll_tap()
    }

    /// Returns the number of messages that the tap dropped.
    #[must_use]
    pub fn tap_dropped(&self) -> u64 {
        self.common.endpoint.tap_dropped()
    }

    /// Makes a call. Its outcome arrives as [`Event::Done`].
    ///
    /// `params` must serialize as a JSON object. Types of [`model`](crate::model) are shaped for the negotiated
    /// revision. `_meta` belongs to the engine; pass further members in `options`. The call is queued until the
    /// connection is ready. A queued call that is refused later ends with [`CallError::Refused`].
    ///
    /// # Errors
    ///
    /// Nothing was sent. [`UseError::NotReady`] without a channel, [`UseError::Closed`] after its end.
    /// [`UseError::MissingPeerCapability`] or [`UseError::NotInVersion`] if the server lacks the capability, or the
    /// revision the method or a feature of the parameters. [`UseError::ReservedMethod`] for methods that the engine
    /// sends. [`UseError::ReservedKey`] for reserved members of `params` or `_meta`. [`UseError::Full`] if a limit is
    /// reached. An encoding error if `params` cannot be serialized.
    // Inlined into the program, which shows the compiler whether it asks for progress.
    #[inline(always)]
    pub fn call<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        method: &str,
        params: &T,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        if options.wants_progress {
            self.common.endpoint.outbound.read_progress();
        }
        let params: &WriteForm<'_> = &|out, table| Serializer::object(out, params, table);
        self.call_as(now, method, params, options, TaskUse::Default)
    }

    /// Makes a call. One with progress needs [`read_progress`](crate::calls::outbound::OutboundCalls::read_progress) first.
    pub(super) fn call_as(
        &mut self,
        now: Instant,
        method: &str,
        params: &WriteForm<'_>,
        options: &CallOptions,
        task: TaskUse,
    ) -> Result<CallKey, UseError> {
        self.common.endpoint.tick(now);
        let main = self.common.main_channel.ok_or(UseError::NotReady)?;
        if self.common.endpoint.channels.get(main).is_none_or(|c| c.closed) {
            return Err(UseError::Closed);
        }
        let is_reserved = match methods::request_rule(method) {
            Some(rule) => matches!(rule.name, methods::INITIALIZE | methods::SUBSCRIPTIONS_LISTEN),
            None => methods::is_spec_notification(method),
        };
        if is_reserved {
            return Err(UseError::ReservedMethod(method.into()));
        }
        // All that can refuse a call comes before the first byte of it.
        outbound_requests::check_meta(options.meta.as_ref())?;
        self.common.check_capacity(1)?;
        if self.common.retained_bytes >= self.common.endpoint.limits.max_retained_bytes {
            return Err(UseError::Full(Limit::RetainedBytes));
        }
        self.calls.call(&mut self.common, main, method, params, options, task)
    }

    /// Checks whether the server is alive: by `ping`, or by `server/discover` in the modern era (PING-001, PING-006).
    ///
    /// # Errors
    ///
    /// [`UseError::NotReady`] before the connection is ready; otherwise as [`call`](Self::call).
    pub fn ping(&mut self, now: Instant, options: &CallOptions) -> Result<CallKey, UseError> {
        #[derive(Serialize)]
        struct EmptyParams {}
        match self.common.peer.as_ref().map(|p| p.era()) {
            None => Err(UseError::NotReady),
            Some(Era::Legacy) => self.call(now, methods::PING, &EmptyParams {}, options),
            Some(Era::Modern) => self.call(now, methods::DISCOVER, &EmptyParams {}, options),
        }
    }

    /// Calls a tool. `arguments` must serialize as a JSON object (TOOL-010).
    ///
    /// With [`Config::tasks`](super::Config::tasks) a modern server may run it as a task, which the call follows as
    /// [`call_tool_as_task`](Self::call_tool_as_task) describes (TASK-105).
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    #[inline(always)]
    pub fn call_tool<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        name: &str,
        arguments: &T,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        self.call(now, methods::TOOLS_CALL, &ToolCallParams::new(name, arguments), options)
    }

    /// Requests a page of a list (PAGE-005, PAGE-008).
    ///
    /// `cursor` comes from the previous page; it is `None` for the first page.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub fn list(
        &mut self,
        now: Instant,
        kind: EntryKind,
        cursor: Option<&str>,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        #[derive(Serialize)]
        struct PageParams<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            cursor: Option<&'a str>,
        }
        self.call(now, kind.list_method(), &PageParams { cursor }, options)
    }

    /// Requests a page of the tools.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub fn list_tools(
        &mut self,
        now: Instant,
        cursor: Option<&str>,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        self.list(now, EntryKind::Tool, cursor, options)
    }

    /// Cancels a call. It ends with [`CallError::Cancelled`] (CANC-003, CANC-012, CANC-016).
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the call has ended.
    pub fn cancel(&mut self, now: Instant, call: CallKey, reason: Option<&str>) -> Result<(), UseError> {
        self.common.endpoint.tick(now);
        // A call of 2025-11-25 that was cancelled may keep its entry under this key, as `Abandoned`.
        let sent = self.common.endpoint.outbound.calls.get(call.0);
        sent.filter(|sent| sent.purpose == CallPurpose::Application).ok_or(UseError::Stale)?;
        self.calls.abandon(&mut self.common, call.0, reason, CallError::Cancelled);
        Ok(())
    }

    /// Sends a custom notification.
    ///
    /// # Errors
    ///
    /// [`UseError::NotReady`] before the connection is ready, [`UseError::Closed`] after its end, [`UseError::Full`] if
    /// the outbox is full, [`UseError::ReservedMethod`] for a method of the protocol, or an encoding error.
    pub fn notify<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        method: &str,
        params: Option<&T>,
    ) -> Result<(), UseError> {
        self.common.endpoint.tick(now);
        if self.common.peer.is_none() {
            return Err(UseError::NotReady);
        }
        let main = self.common.main_channel.ok_or(UseError::NotReady)?;
        let table = self.common.shape_table();
        self.common.endpoint.notify(main, method, params, table)
    }

    /// Records that the transport does not read at present, so that silence of the peer is no missed ping.
    ///
    /// With [`keep_alive_ping`](super::Config::keep_alive_ping), call it before each wait that does not include reading.
    pub fn hold_keep_alive(&mut self, now: Instant) {
        self.common.endpoint.tick(now);
        self.common.endpoint.hold_input();
    }

    /// Records that a part of a message has arrived.
    pub(crate) fn record_input(&mut self, now: Instant, channel: ChannelId) {
        self.common.endpoint.tick(now);
        self.common.endpoint.record_input(channel.0);
    }

    // ---- internals ----

    /// Ends all calls, requests and subscriptions, once.
    pub(super) fn close_with(&mut self, fault: Fault) {
        let Some(main) = self.common.main_channel else { return };
        self.common.endpoint.end_input(main, fault.clone(), Duration::ZERO);
        if self.common.endpoint.channels.get(main).is_none_or(|c| c.closed) {
            return;
        }
        for key in self.common.endpoint.live_calls(main) {
            if self.common.endpoint.drop_call(key).is_some() {
                self.calls.end_server_request(&mut self.common, key);
            }
        }
        self.calls.clear_hosted(&mut self.common);
        for key in self.common.endpoint.outbound_keys(main) {
            let is_application_call = self
                .common
                .endpoint
                .outbound
                .calls
                .get(key)
                .is_some_and(|c| c.purpose == CallPurpose::Application);
            if is_application_call {
                self.calls.finish(&mut self.common, key, Err(CallError::Closed(fault.clone())));
            } else {
                // No event is expected for a request of the engine itself.
                self.common.endpoint.outbound.calls.remove(key);
            }
        }
        self.calls.drop_queue();
        self.subscriptions.end_all(&mut self.common, &CallError::Closed(fault.clone()));
        if let Some(c) = self.common.endpoint.channels.get_mut(main) {
            c.closed = true;
        }
        self.negotiation.handle_close();
        self.common.disarm_negotiation_timeout();
        end_session(&mut self.common.endpoint, main, Direction::Out, &fault);
        // Pushed last: the ends of all calls and subscriptions come before it.
        self.common.events.push_back(Event::Closed(fault));
    }

    /// Does what a step of the negotiation asks for.
    pub(super) fn apply(&mut self, step: NegotiationStep) {
        match step {
            NegotiationStep::Wait => {}
            NegotiationStep::Ready(peer) => self.become_ready(peer),
            NegotiationStep::Close(fault) => self.close_with(fault),
        }
    }

    fn become_ready(&mut self, peer: Peer) {
        self.negotiation.handle_ready(peer.era());
        if let Some(c) = self.common.main_channel.and_then(|m| self.common.endpoint.channels.get_mut(m)) {
            c.idless_errors = IdlessErrors::in_session(peer.version, &self.common.config.settings);
        }
        self.common.disarm_negotiation_timeout();
        // Before the queue is sent: a queued call may be refused at once, and `Ready` comes before its outcome.
        self.common.events.push_back(Event::Ready(peer.clone()));
        if let Some(main) = self.common.main_channel {
            begin_session(&mut self.common.endpoint, main, peer.version);
        }
        // Before the queue is sent: queued calls are encoded for this revision.
        self.common.peer = Some(peer);
        self.calls.flush_queue(&mut self.common);
        // Keep-alive is legacy only (DESIGN-37).
        if let Some(main) = self.common.main_channel.filter(|_| !self.common.is_modern()) {
            self.common.endpoint.begin_keep_alive(main);
        }
    }

    /// Handles a deadline of an outbound call.
    fn handle_call_deadline(&mut self, key: Key) {
        let Some(call) = self.common.endpoint.outbound.calls.get(key) else { return };
        match (call.purpose, call.timeout_error(self.common.endpoint.now)) {
            (CallPurpose::Application, _) if call.is_superseded() => {
                self.calls.handle_round_deadline(&mut self.common, key)
            }
            (CallPurpose::Application | CallPurpose::Retry(_), _) => {
                self.calls.handle_call_timeout(&mut self.common, key)
            }
            (CallPurpose::Abandoned, Some(outcome)) => {
                // The end of its call was reported before. Only the exchange is left, if there is one.
                self.common.expire_request(key);
                self.calls.finish_abandoned(&mut self.common, key, &Err(outcome));
            }
            (CallPurpose::KeepAlive, Some(_)) if self.common.restart_ping_wait(key) => {}
            (
                CallPurpose::Listen(_)
                | CallPurpose::Subscribe(_)
                | CallPurpose::Internal
                | CallPurpose::KeepAlive
                | CallPurpose::Task(_),
                Some(outcome),
            ) => {
                // The cancellation needs the key, which `finish_outbound` frees.
                self.common.endpoint.send_cancellation(key, Some("no answer in time"));
                self.finish_outbound(key, Err(outcome));
            }
            // The negotiation has a deadline of its own.
            _ => {}
        }
    }

    /// Reports a missed ping, or closes the connection after too many (PING-005).
    pub(super) fn report_health(&mut self, health: PeerHealth) {
        match health {
            PeerHealth::Alive => {}
            PeerHealth::Missed(diagnostic) => self.common.diagnose(diagnostic),
            PeerHealth::Lost(fault) => self.close_with(fault),
        }
    }
}

impl BoundEngine for Engine {
    #[inline]
    fn handle_timeout_with(&mut self, now: Instant, has_input: bool) {
        if cfg!(debug_assertions) {
            let has_output = has_input || self.has_events();
            check_timeout(&mut self.common.endpoint, now, has_output);
        }
        self.process_timeouts(now);
    }

    fn process_timeouts(&mut self, now: Instant) {
        self.common.endpoint.tick(now);
        while let Some(timer) = self.common.endpoint.pop_due() {
            match timer {
                EndpointTimer::Negotiation(_) => {
                    let step = self.negotiation.handle_timeout(&mut self.common);
                    self.apply(step);
                }
                EndpointTimer::Outbound(key) => self.handle_call_deadline(key),
                EndpointTimer::CallAge(key) => {
                    if self.common.endpoint.fail(key, &RpcError::internal("no answer in time")).is_some() {
                        self.calls.end_server_request(&mut self.common, key);
                    }
                }
                EndpointTimer::Deferred(key) => self.common.endpoint.send_deferred(key, None),
                EndpointTimer::KeepAlive(channel) => {
                    let health = self.common.endpoint.handle_keep_alive(channel);
                    self.report_health(health);
                }
                EndpointTimer::Trim => {
                    if self.common.endpoint.trim() {
                        self.common.events.shrink_to_fit();
                        if self.subscriptions.is_empty() {
                            self.subscriptions = Subscriptions::default();
                        }
                        self.calls.trim(&self.common);
                    }
                }
                EndpointTimer::Tasks => {
                    self.calls.handle_task_timeout(&mut self.common);
                    self.calls.handle_hosted_timeout(&mut self.common);
                }
                EndpointTimer::Changes(_) | EndpointTimer::SessionLog(_) | EndpointTimer::Grace(_) => {}
            }
        }
    }

    fn next_deadline(&mut self) -> Option<(Instant, TimeoutReason)> {
        next_deadline(&mut self.common.endpoint)
    }

    fn has_events(&self) -> bool {
        !self.common.events.is_empty()
    }

    fn driver_check(&mut self) -> &mut DriverCheck {
        &mut self.common.endpoint.check
    }

    fn is_idle(&self) -> bool {
        self.common.endpoint.is_idle()
    }
}

/// Returns the oldest event that there is already.
#[inline]
pub(crate) fn take_event(engine: &mut Engine) -> Option<Event> {
    engine.common.events.pop_front()
}

/// Returns whether there is an event. Errors that there was no memory for are sent before.
#[inline]
pub(crate) fn has_event(engine: &mut Engine, now: Instant) -> bool {
    engine.common.endpoint.tick(now);
    engine.common.endpoint.check.polled();
    if engine.common.endpoint.owed > 0 {
        let before = engine.common.outbox_len();
        while endpoint::send_owed(&mut engine.common.endpoint).is_some() {}
        engine.common.count_answer(before);
    }
    !engine.common.events.is_empty()
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString as _;

    use serde_json::{Value, json};

    use super::*;
    use crate::identity::Capabilities;
    use crate::limits::Limits;
    use crate::methods::Capability;
    use crate::version::VersionSet;

    const NOW: Instant = Instant::ZERO;

    /// Returns a client of a legacy server with a bounded heap.
    #[expect(deprecated, reason = "tested until its removal")]
    fn bounded() -> (Engine, ChannelId) {
        let config = Config::new("c", "1")
            .versions(VersionSet::LEGACY)
            .capabilities(Capabilities::new().with(Capability::Roots))
            .limits(Limits { memory_reserve: 1, ..Limits::default() });
        let mut engine = Engine::new(Arc::new(config));
        let channel = engine.open_channel(NOW);
        let id = sent(&mut engine, channel).expect("a request")["id"].clone();
        let info = json!({"name": "s", "version": "1"});
        let result =
            json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info});
        feed(&mut engine, channel, &json!({"jsonrpc": "2.0", "id": id, "result": result}));
        assert!(matches!(engine.poll_event(NOW), Some(Event::Ready(_))));
        assert_eq!(sent(&mut engine, channel).expect("a message")["method"], "notifications/initialized");
        (engine, channel)
    }

    fn feed(engine: &mut Engine, channel: ChannelId, message: &Value) {
        engine.handle_message(NOW, channel, message.to_string().into());
    }

    fn sent(engine: &mut Engine, channel: ChannelId) -> Option<Value> {
        let message = engine.outbox(channel).expect("open").pop_message()?;
        Some(serde_json::from_slice(&message).expect("JSON"))
    }

    #[test]
    fn error_that_had_no_memory_is_sent_before_the_next_event() {
        let (mut engine, channel) = bounded();
        feed(&mut engine, channel, &json!({"jsonrpc": "2.0", "id": "r", "method": "roots/list"}));
        // The first event says that the feature is deprecated.
        let mut events = core::iter::from_fn(|| engine.poll_event(NOW));
        let question = |event| if let Event::Input(input) = event { Some(input) } else { None };
        let input = events.find_map(question).expect("a question");
        engine.common.endpoint.limits = Arc::new(Limits::without_memory());
        engine.refuse(NOW, input.id, &RpcError::new(-1, "no")).expect("open");
        assert!(engine.poll_event(NOW).is_none() && sent(&mut engine, channel).is_none());
        engine.common.endpoint.limits = Arc::new(Limits { memory_reserve: 1, ..Limits::default() });
        assert!(engine.poll_event(NOW).is_none());
        let answer = sent(&mut engine, channel).expect("the error");
        assert!(answer["id"] == "r" && answer["error"].is_object(), "{answer}");
        assert!(sent(&mut engine, channel).is_none());
    }

    // covers: STDIO-010
    #[test]
    fn unread_answers_alone_pause_reading() {
        let (mut engine, channel) = bounded();
        let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
        feed(&mut engine, channel, &ping);
        let size = engine.outbox(channel).expect("open").len();
        while sent(&mut engine, channel).is_some() {}
        let limits = Limits { outbox_high_water: 3 * size, ..Limits::default() };
        engine.common.endpoint.limits = Arc::new(limits);
        // A request before an answer does not count with it.
        let call = |engine: &mut Engine| {
            let params = json!({"name": "x".repeat(10 * size)});
            engine.call(NOW, "tools/call", &params, &CallOptions::new()).expect("room");
        };
        call(&mut engine);
        feed(&mut engine, channel, &ping);
        assert!(!engine.is_stalled());
        while sent(&mut engine, channel).is_some() {}
        for is_stalled in [false, false, true] {
            feed(&mut engine, channel, &ping);
            assert_eq!(engine.is_stalled(), is_stalled);
        }
        for _ in 0..2 {
            sent(&mut engine, channel);
        }
        assert!(!engine.is_stalled());
        // Nor does one behind the last answer, also when a message comes that is not answered yet.
        call(&mut engine);
        feed(&mut engine, channel, &json!({"jsonrpc": "2.0", "id": "r", "method": "roots/list"}));
        assert!(!engine.is_stalled());
    }

    #[test]
    fn messages_wait_for_memory_while_answers_are_unread() {
        let (mut engine, channel) = bounded();
        engine.list_tools(NOW, None, &CallOptions::new()).expect("room");
        engine.common.endpoint.limits = Arc::new(Limits::without_memory());
        assert!(engine.can_answer(channel), "an answer of the server may free memory");
        engine.common.endpoint.limits = Arc::new(Limits { memory_reserve: 1, ..Limits::default() });
        feed(&mut engine, channel, &json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}));
        assert!(engine.can_answer(channel));
        engine.common.endpoint.limits = Arc::new(Limits::without_memory());
        assert!(!engine.can_answer(channel));
        while sent(&mut engine, channel).is_some() {}
        assert!(engine.can_answer(channel));
    }
}
