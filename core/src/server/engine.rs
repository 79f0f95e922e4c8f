//! The server engine: channels, events, deadlines, and the commands of the application.

use alloc::collections::VecDeque;
use core::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::authorization::Authorization;
use super::backlog::Backlog;
use super::changes::Changes;
use super::channel::{
    LegacySession, ServerChannel, is_exchange, lacks_memory, mark_stream_finished, principal, session,
};
use super::config::Config;
use super::early_cancels::EarlyCancels;
use super::event::{Call, CancelReason, Event, Peer};
use super::input_tasks::cancel_question;
use super::parked::{Parked, follow_question, poll_question};
use super::request_check::RequestCheck;
use super::sealing::Sealing;
use super::tasks::host::ServerTasks;
use super::tasks::{RunAnswer, unlisten};
use crate::built::{Part, Tasking};
use crate::calls::endpoint::{
    self, Channel, Endpoint, EndpointTimer, IdlessErrors, check_timeout, next_deadline,
};
use crate::calls::inbound::CallId;
use crate::calls::observing::{end_session, observe_outcome, resume_message};
use crate::calls::outbound::{CallKey, CallOptions, CallPurpose, OutboundCall};
use crate::calls::outbound_requests::{self, OutboundRequest};
use crate::calls::pings::PeerHealth;
use crate::calls::{batch, room};
use crate::deprecation::ReportedFeatures;
use crate::diagnostic::Diagnostic;
use crate::driving::{BoundEngine, DriverCheck};
use crate::error::{CallError, Fault, UseError};
use crate::extensions::Extensions;
use crate::frame::line::{Line, LineDecoder};
use crate::json::Serializer;
use crate::limits::Limit;
use crate::memory::{Charge, STEP};
use crate::outbox::Outbox;
use crate::raw::RawJson;
use crate::rpc::{RequestId, RpcError};
use crate::slab::Key;
use crate::sync::Arc;
use crate::tap::{ChannelId, Direction, TapRecord};
use crate::time::{Instant, TimeoutReason};
use crate::{methods, shape};

/// Bytes that are charged for an engine, and for each entry of its tables. They include the holdings of an entry that are
/// too small to be charged by themselves.
const ENGINE_COST: usize = 2 * STEP;
const CHANNEL_COST: usize = size_of::<Channel<ServerChannel>>() + STEP / 2;
const CALL_COST: usize = size_of::<Call>() + STEP;

pub(super) const SHUTTING_DOWN: &str = "the server is shutting down";

/// The server engine: takes messages, produces messages and events.
///
/// One engine serves any number of channels. Request ids are unique within a channel. Pass in messages with
/// [`handle_message`](Self::handle_message), take events with [`poll_event`](Self::poll_event), answer calls, and send
/// the content of each channel's [`outbox`](Self::outbox). For a byte stream, [`pipe::Server`](crate::pipe::Server)
/// does this.
#[derive(Debug)]
pub struct Engine {
    pub(super) config: Arc<Config>,
    pub(super) endpoint: Endpoint<ServerChannel>,
    pub(super) events: VecDeque<Event>,
    /// Requests that wait; made when the first one does.
    pub(super) backlog: Option<Backlog>,
    pub(super) shutting_down: bool,
    /// Calls that wait for input; created with the first one.
    pub(super) parked: Parked,
    pub(super) tasks: Part<Tasking, ServerTasks>,
    pub(super) sealing: Sealing,
    /// Cancellations that overtook their request; made with the first one.
    pub(super) early_cancels: Option<EarlyCancels>,
    pub(super) changes: Changes,
    pub(super) request_check: RequestCheck,
    /// Deprecated features of modern exchanges that were reported.
    pub(super) reported_features: ReportedFeatures,
    /// The entries of the tables, and the bytes that tables sum up by themselves.
    tables: Charge,
}

/// Replaces the [instructions](Config::instructions) of an engine for clients that connect or ask from now on.
pub fn set_instructions(engine: &mut Engine, instructions: Option<&str>) {
    Arc::make_mut(&mut engine.config).instructions = instructions.map(alloc::string::String::from);
}

impl Engine {
    /// Creates an engine without channels.
    #[must_use]
    pub fn new(config: Arc<Config>) -> Self {
        let endpoint = Endpoint::new(&config.settings);
        let mut tables = endpoint.memory.open();
        tables.set(ENGINE_COST);
        Self {
            tables,
            sealing: Sealing::new(&config),
            config,
            endpoint,
            events: VecDeque::new(),
            backlog: None,
            shutting_down: false,
            parked: None,
            tasks: Part::NONE,
            early_cancels: None,
            changes: Changes::default(),
            request_check: RequestCheck::default(),
            reported_features: ReportedFeatures::default(),
        }
    }

    /// Opens a channel: a byte stream, or another ordered stream of messages from one peer.
    pub fn open_channel(&mut self, now: Instant) -> ChannelId {
        self.endpoint.tick(now);
        // A modern-only server has no peer whose revision lacks errors without an id (DEC-004).
        let idless_errors = match self.config.legacy_versions().is_empty() {
            true => IdlessErrors::Absent,
            false => IdlessErrors::Unsent,
        };
        let channel = self.endpoint.open_channel(idless_errors, ServerChannel::new());
        charge_tables(self);
        ChannelId(channel)
    }

    /// Sets the authenticated party of a channel, for the calls that arrive from now on ([`Call::authorization`]).
    ///
    /// State that is sealed from now on is valid for its principal only, on any channel (MRTR-023, ELIC-035).
    pub fn set_authorization(&mut self, channel: ChannelId, authorization: Option<Authorization>) {
        if let Some(c) = self.endpoint.channels.get_mut(channel.0) {
            c.role.authorization = authorization;
        }
    }

    /// Sets the values that the application attaches to a session or a byte stream, for the calls that arrive from now on
    /// ([`Call::extension`]).
    pub fn set_extensions(&mut self, channel: ChannelId, extensions: Extensions) {
        if let Some(c) = self.endpoint.channels.get_mut(channel.0) {
            c.role.extensions = (!extensions.is_empty()).then(|| Arc::new(extensions));
        }
    }

    /// Returns the authenticated principal of a channel.
    #[must_use]
    pub fn principal(&self, channel: ChannelId) -> Option<&str> {
        principal(&self.endpoint, channel.0)
    }

    /// Takes one message of a channel. Events share its memory.
    ///
    /// The message is one JSON value, a batch included; white space, line breaks and a byte order mark around it are
    /// skipped. Its length is not checked here: the transport bounds it
    /// ([`Limits::max_frame`](crate::Limits::max_frame)), below 4 GiB.
    pub fn handle_message(&mut self, now: Instant, channel: ChannelId, message: Bytes) {
        let message = self.endpoint.memory.hold(message);
        handle_held_message(self, now, channel, message);
    }

    /// Creates a decoder for a byte stream, with the limits of the engine. What it stores counts for
    /// [`Limits::max_memory`](crate::Limits::max_memory).
    #[must_use]
    pub fn line_decoder(&self) -> LineDecoder {
        let limits = &self.endpoint.limits;
        LineDecoder::new(limits.effective_max_frame())
            .memory_reserve(limits.memory_reserve)
            .charge_to(&self.endpoint.memory)
    }

    /// Takes a line of its [decoder](Self::line_decoder) as a message of a channel. Events share its memory.
    pub fn handle_line(&mut self, now: Instant, channel: ChannelId, line: Line) {
        match line {
            Line::Frame(frame) => handle_held_message(self, now, channel, frame),
            Line::TooLong(oversize) => self.handle_oversize(now, channel, oversize),
        }
    }

    /// Records that the transport does not read at present, so that silence of the peer is no missed ping.
    ///
    /// With [`keep_alive_ping`](super::Config::keep_alive_ping), call it before each wait that does not include reading.
    pub fn hold_keep_alive(&mut self, now: Instant) {
        self.endpoint.tick(now);
        self.endpoint.hold_input();
    }

    /// Records that a part of a message has arrived.
    pub(crate) fn record_input(&mut self, now: Instant, channel: ChannelId) {
        self.endpoint.tick(now);
        self.endpoint.record_input(channel.0);
    }

    /// Records the end of the input of a channel.
    ///
    /// Open calls may finish within [`Limits::eof_grace_period`](crate::Limits::eof_grace_period), and their answers
    /// are still sent (STDIO-028). An exchange ends with `Exchanges::handle_disconnect` instead.
    pub fn handle_eof(&mut self, now: Instant, channel: ChannelId) {
        self.end_input(now, channel.0, &Fault::Eof, self.endpoint.limits.eof_grace_period);
    }

    /// Closes a channel immediately: its calls are cancelled and nothing more is sent.
    ///
    /// An exchange is closed with `Exchanges::close` instead.
    pub fn close_channel(&mut self, now: Instant, channel: ChannelId, fault: &Fault) {
        self.end_input(now, channel.0, fault, Duration::ZERO);
        self.abort_channel(channel.0, &CancelReason::Disconnected);
        // Last, because what ended above may have written to it.
        if let Some(c) = self.endpoint.channels.get_mut(channel.0) {
            c.outbox.clear();
        }
    }

    pub(crate) fn end_input(&mut self, now: Instant, channel: Key, fault: &Fault, grace: Duration) {
        self.endpoint.tick(now);
        if self.endpoint.end_input(channel, fault.clone(), grace) {
            // Parked calls first: they would be delivered again when their requests end below, and nobody could answer them.
            self.fail_parked(channel, "the input ended before the answers came");
            // The peer is gone, so outbound requests cannot be answered.
            for key in self.endpoint.requests_of(channel) {
                self.finish_outbound(key, Err(CallError::Closed(fault.clone())));
            }
            // At a shutdown subscribers get their final result; otherwise the client has gone and reads none.
            if *fault == Fault::Closed {
                self.end_subscriptions(now, ChannelId(channel));
            } else {
                cancel_long_lived(self, channel);
            }
            // The listener of a legacy session is no request, so it is left for this.
            let unsubscribed = self.changes.end_all(&mut self.endpoint, channel);
            self.events.extend(unsubscribed);
            unlisten(&mut self.tasks, channel, None);
            self.end_session_tasks(channel, grace);
            self.close_if_finished(channel);
        }
    }

    /// Refuses new requests, and closes each channel when its calls are answered or `grace` has passed.
    pub fn shutdown(&mut self, now: Instant, grace: Duration) {
        self.shutting_down = true;
        for channel in self.endpoint.open_channels() {
            self.end_input(now, channel, &Fault::Closed, grace);
        }
    }

    /// Returns whether [`shutdown`](Self::shutdown) was called. What keeps [long-lived](super::CustomMethod::long_lived) calls open
    /// answers them then.
    #[must_use]
    pub const fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// Processes the deadlines that have passed. Early or spurious calls have no effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handle_timeout_with(now, false);
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    /// Like [`poll_timeout`](Self::poll_timeout), without the deadline at which idle buffers are freed.
    pub fn poll_timeout_without_trim(&mut self) -> Option<Instant> {
        self.endpoint.poll_timeout_without_trim()
    }

    /// Returns the reason of the deadline of [`poll_timeout`](Self::poll_timeout).
    pub fn timeout_reason(&mut self) -> Option<TimeoutReason> {
        self.next_deadline().map(|(_, reason)| reason)
    }

    /// Returns the next event.
    #[inline]
    pub fn poll_event(&mut self, now: Instant) -> Option<Event> {
        has_event(self, now);
        take_event(self)
    }

    /// Returns whether [`Limits::max_live_calls`](crate::Limits::max_live_calls) is reached, so new requests wait.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.live_calls() >= self.endpoint.limits.max_live_calls as usize
    }

    /// Returns whether reading on `channel` should pause.
    ///
    /// Its input has ended, its outbox is full, or too many requests or events wait. While there is no memory for requests
    /// ([`Limits::max_memory`](crate::Limits::max_memory)), an outbox of 1 KiB is full. The outbox of a session without a
    /// stream (`Exchanges::set_session_token`) does not count.
    #[must_use]
    pub fn is_stalled(&self, channel: ChannelId) -> bool {
        let full = self.endpoint.limits.outbox_high_water;
        // The refusals of a client that reads none would take what is left.
        let full = if self.endpoint.memory.takes_request() { full } else { full.min(STEP) };
        is_paused(self, channel, full)
    }

    /// Returns whether the input of a channel has ended.
    pub(crate) fn has_input_ended(&self, channel: ChannelId) -> bool {
        self.endpoint.channels.get(channel.0).is_none_or(|c| c.input_end.is_some())
    }

    /// Returns whether a channel is closed, its events are taken and its output is written.
    pub(crate) fn is_drained(&self, channel: ChannelId) -> bool {
        self.events.is_empty()
            && self.endpoint.channels.get(channel.0).is_none_or(|c| c.closed && c.outbox.is_empty())
    }

    /// Returns the id of the request of a call, or `None` if the call has ended.
    #[must_use]
    pub fn request_id(&self, call: CallId) -> Option<&RequestId> {
        self.endpoint.inbound.calls.get(call.0).map(|call| &call.id)
    }

    /// Returns the number of calls that wait for an answer of the application, without
    /// [long-lived](super::CustomMethod::long_lived) ones.
    #[must_use]
    pub fn live_calls(&self) -> usize {
        let parked = self.parked.as_ref().map_or(0, |parked| parked.len());
        // Runs of tasks have a bound of their own.
        let of_tasks = self.tasks.as_ref().map_or(0, |tasks| tasks.held_calls());
        let inbound = &self.endpoint.inbound;
        inbound.calls.len().saturating_sub(parked + of_tasks + inbound.long_lived)
    }

    /// Returns the outbox of a channel: messages to send, each ended by a newline.
    ///
    /// A byte stream takes [`Outbox::transmit`]; a transport of whole messages takes [`Outbox::pop_message`].
    pub fn outbox(&mut self, channel: ChannelId) -> Option<&mut Outbox> {
        self.endpoint.channels.get_mut(channel.0).map(|c| &mut c.outbox)
    }

    /// Returns the bytes to send next on a channel.
    pub(crate) fn peek_outbox(&self, channel: ChannelId) -> &[u8] {
        self.endpoint.channels.get(channel.0).map_or(&[], |c| c.outbox.transmit())
    }

    /// Releases a channel that is closed and whose outbox is written.
    pub fn release_channel(&mut self, channel: ChannelId) {
        self.endpoint.release_channel(channel.0);
    }

    /// Returns the next record of the tap ([`Limits::tap_records`](crate::Limits::tap_records)).
    ///
    /// Without the feature `observe` nothing is recorded.
    pub fn poll_tap(&mut self) -> Option<TapRecord> {
        self.endpoint.poll_tap()
    }

    /// Returns the number of messages that the tap dropped.
    #[must_use]
    pub fn tap_dropped(&self) -> u64 {
        self.endpoint.tap_dropped()
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the client that made `call`.
    ///
    /// Modern calls describe it in their `_meta` (BASE-032, META-015), legacy calls through their session.
    #[must_use]
    pub fn peer(&self, call: &Call) -> Peer {
        let empty = || RawJson::trusted(Bytes::from_static(b"{}"));
        if call.version.is_modern() {
            let meta = &call.params.meta;
            return Peer {
                version: call.version,
                info: call.slice(meta.info),
                capabilities: call.slice(meta.capabilities).unwrap_or_else(empty),
            };
        }
        let run = self.tasks.as_ref().filter(|_| call.is_task_run());
        let channel = run.and_then(|tasks| tasks.session_of_run(&self.endpoint, call.id.0));
        let session = session(&self.endpoint, channel.unwrap_or(call.channel.0));
        Peer {
            version: call.version,
            info: session.and_then(LegacySession::info),
            capabilities: session.map_or_else(empty, LegacySession::capabilities),
        }
    }

    /// Answers a call with a result, which must serialize as a JSON object.
    ///
    /// The result is serialized into the outbox. Types of [`model`](crate::model) are shaped for the revision of the
    /// call, and the engine adds the members that the revision requires in every result (BASE-026, META-018,
    /// CACHE-001).
    ///
    /// # Errors
    ///
    /// The call stays open.
    ///
    /// - [`UseError::Stale`]: the call has ended.
    /// - [`UseError::NotInVersion`]: the revision has no form for the value.
    /// - [`UseError::ReservedKey`]: `_meta` has a malformed key or one of the protocol (META-003, META-006, META-007,
    ///   DEC-009).
    /// - [`UseError::Encode`]: the value is not an object or cannot be serialized. This includes `input_required`
    ///   without input requests (MRTR-005) and values that are [never sent](crate::EncodeError::NeverSent).
    pub fn complete<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        call: CallId,
        result: &T,
    ) -> Result<(), UseError> {
        self.answer(now, call, &mut |out, version| Serializer::object(out, result, shape::table(version)))
    }

    /// Answers a call with an error. The code is that of the call's revision.
    ///
    /// An error of [`Call::require_scopes`] is answered over HTTP with status 403 and a challenge that names the scopes
    /// (AUTH-054). Where the response has begun, it is the error alone: in a batch, in an event stream, and over
    /// HTTP+SSE.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the call has ended. Without memory for the error, a short one is sent in its place, and later
    /// if there is no memory for that either; the call has ended in any case.
    pub fn fail(&mut self, now: Instant, call: CallId, error: &RpcError) -> Result<(), UseError> {
        self.endpoint.tick(now);
        let record = self.endpoint.inbound.calls.get(call.0).ok_or(UseError::Stale)?;
        let version = record.version;
        if self.is_run(call.0) {
            let error = shape::error_in_revision(error, version);
            self.with_tasks(|tasks, cx| tasks.finish(cx, call.0, RunAnswer::Error(&error)));
            return Ok(());
        }
        // A batch has one response, whose status cannot be that of a member.
        if let (Some(scopes), None) = (&error.required_scopes, record.batch) {
            if let Some(c) = self.endpoint.channels.get_mut(record.channel) {
                c.role.stream.set_required_scopes(scopes);
            }
        }
        let channel =
            self.endpoint.fail(call.0, &shape::error_in_revision(error, version)).ok_or(UseError::Stale)?;
        self.close_if_finished(channel);
        Ok(())
    }

    /// Sends a request to a client: `ping` or a custom method.
    ///
    /// Legacy only, because modern servers send no requests (BASE-019). The outcome arrives as [`Event::Done`].
    ///
    /// # Errors
    ///
    /// Nothing was sent. [`UseError::NotReady`] without a session or before `notifications/initialized` (`ping` is
    /// allowed then). [`UseError::Stale`] or [`UseError::Closed`] if the channel is closed. [`UseError::Full`] if the
    /// outbox or the table of calls is full. [`UseError::ReservedMethod`] for other methods of the protocol.
    /// [`UseError::ReservedKey`] or an encoding error for the parameters.
    pub fn request<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        channel: ChannelId,
        method: &str,
        params: &T,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        self.endpoint.tick(now);
        outbound_requests::check_meta(options.meta.as_ref())?;
        let limits = Arc::clone(&self.endpoint.limits);
        let c = self.endpoint.channels.get_mut(channel.0).ok_or(UseError::Stale)?;
        if c.input_end.is_some() || c.closed {
            return Err(UseError::Closed);
        }
        // Before `notifications/initialized` only `ping` may be sent (LIFE-006).
        let Some(session) = c.role.session.as_ref() else { return Err(UseError::NotReady) };
        let table = shape::table(session.version);
        if !session.initialized && method != methods::PING {
            return Err(UseError::NotReady);
        }
        self.endpoint.check_outbox_room(channel.0, 0)?;
        if method != methods::PING && methods::request_rule(method).is_some() {
            return Err(UseError::ReservedMethod(method.into()));
        }
        if self.endpoint.outbound.calls.len() >= limits.effective_max_pending_calls() {
            return Err(UseError::Full(Limit::PendingCalls));
        }
        // After all checks, so that a refused command has changed nothing (DESIGN-27).
        let call =
            OutboundCall::new(self.endpoint.now, channel.0, CallPurpose::Application, options, &limits);
        if options.wants_progress {
            self.endpoint.outbound.read_progress();
        }
        let key = self.endpoint.begin_request(call).ok_or(UseError::Stale)?;
        let request = OutboundRequest {
            method,
            base_meta: None,
            meta: options.meta.as_ref(),
            wants_progress: options.wants_progress,
        };
        let written =
            self.endpoint.send_request(key, &request, &mut |out| Serializer::object(out, params, table));
        if let Err(e) = written {
            // The entry gave the request its id. Nothing was sent, so it is removed again.
            self.endpoint.end_request(key);
            return Err(e);
        }
        Ok(CallKey(key))
    }

    /// Cancels an outbound request. It ends with [`CallError::Cancelled`] (CANC-001, CANC-003).
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the request has ended.
    pub fn cancel_request(
        &mut self,
        now: Instant,
        call: CallKey,
        reason: Option<&str>,
    ) -> Result<(), UseError> {
        self.endpoint.tick(now);
        let purpose = self.endpoint.outbound.calls.get(call.0).map(|c| c.purpose);
        if purpose != Some(CallPurpose::Application) {
            return Err(UseError::Stale);
        }
        // Sent first: the end of the request removes the entry with its channel.
        self.endpoint.send_cancellation(call.0, reason);
        self.finish_outbound(call.0, Err(CallError::Cancelled));
        Ok(())
    }

    // ---- internals ----

    pub(super) fn finish_outbound(&mut self, key: Key, outcome: Result<RawJson, CallError>) {
        // First: removed without an outcome, the request would count as given up.
        observe_outcome(&mut self.endpoint, key, outcome.as_ref());
        // A ping is none of the application: it has no event, and its outcome is the health of the peer.
        let ping = self.endpoint.outbound.calls.get(key).filter(|c| c.purpose == CallPurpose::KeepAlive);
        if let Some(channel) = ping.map(|c| c.channel) {
            let health = self.endpoint.finish_ping(key, &outcome);
            return report_health(self, channel, health);
        }
        let Some((key, outcome)) = follow_question(&mut self.parked, &mut self.endpoint, key, outcome) else {
            return;
        };
        let Some(request) = self.endpoint.end_request(key) else { return };
        self.endpoint.sweep();
        match request.purpose {
            CallPurpose::Input(call) => {
                let Some(parked) = self.parked.as_mut() else { return };
                self.events.extend(parked.finish_request(&mut self.endpoint, call, key, outcome));
            }
            CallPurpose::TaskInput { task, .. } => {
                self.with_tasks(|tasks, cx| tasks.take_answer(cx, task, key, outcome));
            }
            _ => self.events.push_back(Event::Done { call: CallKey(key), outcome }),
        }
    }

    /// Reports a diagnostic, or drops it if there is no memory for its event.
    pub(super) fn diagnose(&mut self, channel: Key, diagnostic: Diagnostic) {
        if lacks_memory(&self.endpoint, &self.events, 0, 0) {
            return;
        }
        self.events.push_back(Event::Diagnostic { channel: ChannelId(channel), diagnostic });
    }

    /// Ends an unanswered call with an internal error.
    fn expire_call(&mut self, key: Key, reason: CancelReason, message: &'static str) {
        // A parked call has no running handler to notify.
        // Before the call fails: a parked call is found by its entry in the table of calls.
        let was_parked = self.unpark(key, message);
        if let Some(channel) = self.endpoint.fail(key, &RpcError::internal(message)) {
            if !was_parked {
                self.events.push_back(Event::Cancelled { call: CallId(key), reason });
            }
            self.close_if_finished(channel);
        }
    }

    /// Cancels everything on a channel and closes it.
    fn abort_channel(&mut self, channel: Key, reason: &CancelReason) {
        let Some(c) = self.endpoint.channels.get_mut(channel) else { return };
        // Requests that wait were not delivered, so they end without an event.
        let waiting = core::mem::take(&mut c.role.waiting);
        let live = self.endpoint.live_calls(channel);
        let waiting = self.backlog.as_mut().map(|backlog| backlog.remove_all(waiting)).unwrap_or_default();
        // Otherwise the client is gone, or has sent nothing but faults, and gets no errors.
        if *reason == CancelReason::Shutdown {
            for id in waiting {
                self.endpoint.send_error(channel, None, Some(&id), &RpcError::internal(SHUTTING_DOWN));
            }
        }
        for key in live {
            // The application has answered an owed call, and a parked one has no handler that runs: nothing is cancelled there.
            if room::is_owed(&self.endpoint, key) {
                self.endpoint.drop_call(key);
            } else if self.unpark(key, "the call is over") {
                if *reason == CancelReason::Shutdown {
                    self.endpoint.fail(key, &RpcError::internal(SHUTTING_DOWN));
                } else {
                    self.endpoint.drop_call(key);
                }
            } else if *reason == CancelReason::Shutdown {
                self.expire_call(key, reason.clone(), SHUTTING_DOWN);
            } else if self.endpoint.drop_call(key).is_some() {
                self.events.push_back(Event::Cancelled { call: CallId(key), reason: reason.clone() });
            }
        }
        // Complete batches that wait for memory would keep the channel open, although its time is over.
        batch::drop_owed_batches(&mut self.endpoint, channel);
        self.close_if_finished(channel);
    }

    /// Closes a channel whose input has ended once nothing is left to do.
    pub(super) fn close_if_finished(&mut self, channel: Key) {
        // A session closes as a whole, whichever of its streams has ended.
        let channel = self.endpoint.root_channel(channel);
        let Some(c) = self.endpoint.channels.get(channel) else { return };
        if c.input_end.is_none() || c.closed || c.has_live_calls() {
            return;
        }
        // Requests that wait, and answered members of a batch, are not in the table of calls.
        let has_waiting = self.backlog.as_ref().is_some_and(|backlog| !backlog.is_empty(c.role.waiting));
        if has_waiting || batch::has_batches(&self.endpoint, channel) {
            return;
        }
        let Some(c) = self.endpoint.channels.get_mut(channel) else { return };
        let Some(end) = &c.input_end else { return };
        let fault = end.fault.clone();
        c.closed = true;
        // A binding learns of the end by the queue of streams, as an exchange has no event for it.
        mark_stream_finished(&mut self.endpoint, channel);
        let is_of_tasks = self.tasks.as_ref().is_some_and(|tasks| tasks.channel == channel);
        if !is_exchange(&self.endpoint, channel) && !is_of_tasks {
            end_session(&mut self.endpoint, channel, Direction::In, &fault);
            self.events.push_back(Event::Closed { channel: ChannelId(channel), fault });
        }
    }

    /// Starts a waiting request if there is room. Returns false if there was nothing to start.
    fn admit_waiting(&mut self) -> bool {
        if self.backlog.is_none() || self.is_full() {
            return false;
        }
        let may_take = |channel| endpoint::can_answer(&mut self.endpoint, channel);
        let Some((channel, frame)) = self.backlog.as_mut().and_then(|backlog| backlog.pop(may_take)) else {
            return false;
        };
        if self.endpoint.channels.get(channel).is_some() {
            resume_message(&mut self.endpoint, &frame);
            // Checked once more from the beginning: its session may have changed while it waited.
            self.receive(channel, frame, true);
            self.close_if_finished(channel);
        }
        true
    }

    /// Panics if a sum that the engine keeps differs from what it sums.
    #[cfg(any(debug_assertions, test))]
    pub(crate) fn check_sums(&self) {
        self.endpoint.check_requests();
        self.changes.check_sums();
        if let Some(parked) = self.parked.as_ref() {
            parked.check_sums(&self.endpoint);
        }
        if let Some(tasks) = self.tasks.as_ref() {
            tasks.check_sums(&self.endpoint);
        }
    }

    /// Returns the sizes of what is kept for tasks.
    #[cfg(test)]
    pub(super) fn task_sizes(&self) -> alloc::vec::Vec<usize> {
        self.tasks.as_ref().map(|tasks| tasks.sizes(&self.endpoint)).unwrap_or_default()
    }

    fn trim(&mut self) {
        if self.endpoint.trim() {
            self.request_check.trim();
            self.events.shrink_to_fit();
            if let Some(backlog) = self.backlog.as_mut() {
                backlog.trim();
            }
            self.parked.take_if(|parked| parked.is_unused(&self.endpoint));
            self.changes.trim();
            if let Some(tasks) = self.tasks.as_mut() {
                tasks.trim();
            }
            self.early_cancels.take_if(|early| early.remove_expired(self.endpoint.now));
            let bytes = table_bytes(self);
            self.tables.set(bytes);
        }
    }
}

/// Takes one message of a channel, whose bytes are charged already.
fn handle_held_message(engine: &mut Engine, now: Instant, channel: ChannelId, message: Bytes) {
    engine.endpoint.tick(now);
    engine.endpoint.record_activity();
    engine.endpoint.record_received(channel.0, &message);
    // Recorded above even if it is dropped here: the tap shows what came.
    if engine.endpoint.channels.get(channel.0).is_some_and(|c| !c.closed) {
        engine.receive(channel.0, message, false);
        charge_tables(engine);
    }
}

/// Returns the account of what the server holds.
#[cfg(feature = "http")]
pub(crate) const fn memory(engine: &Engine) -> &crate::memory::MemoryAccount {
    &engine.endpoint.memory
}

/// Returns the bytes of the tables.
#[inline]
fn table_bytes(engine: &Engine) -> usize {
    let parked = engine.parked.as_ref().map_or(0, |parked| parked.byte_len());
    let waiting = engine.backlog.as_ref().map_or(0, Backlog::byte_len);
    ENGINE_COST
        + engine.endpoint.channels.len() * CHANNEL_COST
        + (engine.endpoint.inbound.calls.len() + engine.endpoint.outbound.calls.len()) * CALL_COST
        + engine.events.len() * size_of::<Event>()
        + engine.changes.byte_len()
        + parked
        + waiting
}

/// Charges the tables if they have changed by much.
#[inline]
pub(super) fn charge_tables(engine: &mut Engine) {
    let bytes = table_bytes(engine);
    engine.tables.follow_coarsely(bytes);
}

impl BoundEngine for Engine {
    #[inline]
    fn handle_timeout_with(&mut self, now: Instant, has_input: bool) {
        if cfg!(debug_assertions) {
            let has_output = has_input || self.has_events();
            check_timeout(&mut self.endpoint, now, has_output);
        }
        self.process_timeouts(now);
    }

    fn process_timeouts(&mut self, now: Instant) {
        self.endpoint.tick(now);
        while let Some(timer) = self.endpoint.pop_due() {
            match timer {
                EndpointTimer::CallAge(key) => {
                    self.expire_call(key, CancelReason::Expired, "the call took too long and was given up")
                }
                EndpointTimer::Deferred(run) if self.is_run(run) => {
                    self.with_tasks(|tasks, cx| tasks.send_deferred_progress(cx, run));
                }
                EndpointTimer::Deferred(key) => self.endpoint.send_deferred(key, None),
                EndpointTimer::Tasks => _ = self.with_tasks(|tasks, cx| tasks.handle_timeout(cx)),
                EndpointTimer::Outbound(key) => handle_request_deadline(self, key),
                EndpointTimer::KeepAlive(channel) => {
                    let health = self.endpoint.handle_keep_alive(channel);
                    report_health(self, channel, health);
                }
                EndpointTimer::Grace(channel) => {
                    let is_shutdown =
                        self.endpoint.channels.get(channel).is_some_and(|c| {
                            c.input_end.as_ref().is_some_and(|end| end.fault == Fault::Closed)
                        });
                    let reason =
                        if is_shutdown { CancelReason::Shutdown } else { CancelReason::Disconnected };
                    self.abort_channel(channel, &reason);
                }
                EndpointTimer::Changes(channel) => {
                    self.changes.handle_timeout(&mut self.endpoint, &self.config, channel)
                }
                EndpointTimer::SessionLog(channel) => _ = self.advance_log(channel, None),
                EndpointTimer::Trim => self.trim(),
                EndpointTimer::Negotiation(_) => {}
            }
        }
        charge_tables(self);
    }

    fn next_deadline(&mut self) -> Option<(Instant, TimeoutReason)> {
        next_deadline(&mut self.endpoint)
    }

    fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    fn driver_check(&mut self) -> &mut DriverCheck {
        &mut self.endpoint.check
    }

    fn is_idle(&self) -> bool {
        self.endpoint.is_idle()
    }
}

/// Handles a deadline of an outbound request.
fn handle_request_deadline(engine: &mut Engine, key: Key) {
    // A question that follows a task has polls at this deadline, which are no timeouts.
    if poll_question(&mut engine.parked, &mut engine.endpoint, key) {
        return;
    }
    let Some(request) = engine.endpoint.outbound.calls.get(key) else { return };
    let Some(outcome) = request.timeout_error(engine.endpoint.now) else { return };
    let (purpose, channel) = (request.purpose, request.channel);
    if purpose == CallPurpose::KeepAlive
        && engine.endpoint.restart_ping_wait(key, has_unread_input(engine, channel))
    {
        return;
    }
    let reason = Some("no answer in time");
    // Before the request ends: the cancellation needs its id and its channel (TIME-002).
    match purpose {
        CallPurpose::TaskInput { task, .. } => {
            engine.with_tasks(|tasks, cx| tasks.cancel_question(cx, task, key, reason));
        }
        _ => cancel_question(&mut engine.endpoint, key, reason),
    }
    engine.finish_outbound(key, Err(outcome));
}

/// Reports a missed ping, or closes the channel after too many (PING-005).
fn report_health(engine: &mut Engine, channel: Key, health: PeerHealth) {
    match health {
        PeerHealth::Alive => {}
        PeerHealth::Missed(diagnostic) => engine.diagnose(channel, diagnostic),
        PeerHealth::Lost(fault) => engine.close_channel(engine.endpoint.now, ChannelId(channel), &fault),
    }
}

/// Returns whether reading should pause whatever memory there is; see [`Engine::is_stalled`].
#[cfg(feature = "http")]
pub(crate) fn is_blocked(engine: &Engine, channel: ChannelId) -> bool {
    is_paused(engine, channel, engine.endpoint.limits.outbox_high_water)
}

/// Returns whether reading should pause if an outbox of `full` bytes is full.
fn is_paused(engine: &Engine, channel: ChannelId, full: usize) -> bool {
    engine.endpoint.channels.get(channel.0).is_none_or(|c| {
        c.input_end.is_some()
            // Without a stream for it, the output does not leave however long the client waits.
            || (c.outbox.len() >= full && !c.role.stream.has_no_get_stream())
            || has_unread_input(engine, channel.0)
    })
}

/// Returns the oldest event that there is already.
#[inline]
pub(crate) fn take_event(engine: &mut Engine) -> Option<Event> {
    engine.events.pop_front()
}

/// Returns whether there is an event. Waiting requests are admitted until there is one.
#[inline]
pub(crate) fn has_event(engine: &mut Engine, now: Instant) -> bool {
    engine.endpoint.tick(now);
    engine.endpoint.check.polled();
    // May be what a channel waited for to close, which is an event.
    while let Some(channel) = endpoint::send_owed(&mut engine.endpoint) {
        engine.close_if_finished(channel);
    }
    // A request that is admitted may be answered without an event, so the next one is tried.
    while engine.events.is_empty() {
        if !engine.admit_waiting() {
            // Many events may have been taken since the last message.
            if engine.tables.is_beyond(ENGINE_COST) {
                charge_tables(engine);
            }
            return false;
        }
    }
    true
}

/// Cancels the long-lived calls of a channel: they would take the whole grace period, since nothing ends them.
fn cancel_long_lived(engine: &mut Engine, channel: Key) {
    if engine.endpoint.inbound.long_lived == 0 {
        return;
    }
    for key in engine.endpoint.live_calls(channel) {
        let is_long_lived = engine.endpoint.inbound.calls.get(key).is_some_and(|call| call.is_long_lived);
        if is_long_lived && engine.endpoint.drop_call(key).is_some() {
            engine
                .events
                .push_back(Event::Cancelled { call: CallId(key), reason: CancelReason::Disconnected });
        }
    }
}

/// Returns whether input of a channel waits until the application has handled earlier input.
fn has_unread_input(engine: &Engine, channel: Key) -> bool {
    let limits = &engine.endpoint.limits;
    engine.endpoint.channels.get(channel).is_some_and(|c| {
        let is_full = |backlog: &Backlog| backlog.is_full(c.role.waiting, limits);
        engine.events.len() >= limits.max_events
            || engine.backlog.as_ref().map_or(limits.max_waiting_requests == 0, is_full)
    })
}

/// Returns whether the next message of a channel can be taken; see [`endpoint::can_answer`].
#[inline]
pub(crate) fn can_answer(engine: &mut Engine, channel: ChannelId) -> bool {
    endpoint::can_answer(&mut engine.endpoint, channel.0)
}

/// Returns whether a request of `length` bytes has to be refused because its event, `more` bytes and the reserve are not free.
#[cfg(feature = "http")]
pub(crate) fn is_out_of_memory(engine: &Engine, length: usize, more: usize) -> bool {
    lacks_memory(&engine.endpoint, &engine.events, length, more)
}

#[cfg(all(
    test,
    feature = "http",
    feature = "legacy",
    feature = "modern",
    feature = "subscriptions",
    feature = "tasks"
))]
mod tests;
