//! The client engine: channel, events, deadlines, and the commands of the application.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;

use bytes::Bytes;
use serde::Serialize;

use super::calls::{CallQueue, request_meta};
use super::config::Config;
use super::event::{Event, Peer};
use super::negotiate::NegotiationStage;
use super::notifications::NotificationState;
use super::rounds::InputState;
use crate::calls::endpoint::{Endpoint, EndpointTimer};
use crate::calls::outbound::{CallKey, CallOptions, CallPurpose, OutboundCall, QueuedCall};
use crate::calls::outbound_requests::{self, OutboundRequest};
use crate::calls::versioned_params::VersionedParams;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault, UseError};
use crate::json::{OBJECT_MARKER, Serializer};
use crate::limits::Limit;
use crate::methods::{self, EntryKind};
use crate::outbox::Outbox;
use crate::rpc::RpcError;
use crate::shape;
use crate::slab::Key;
use crate::tap::{ChannelId, TapRecord};
use crate::time::Instant;
use crate::version::{Era, KnownEra, Version};

/// The client engine: takes messages, produces messages and events.
///
/// Open the channel and make calls, which are queued until the era of the server is known. Pass received messages to
/// [`handle_message`](Self::handle_message), take events with [`poll_event`](Self::poll_event), and send the content
/// of the [`outbox`](Self::outbox). For a byte stream, [`pipe::Client`](crate::pipe::Client) does this.
#[derive(Debug)]
pub struct Engine {
    pub(super) config: Arc<Config>,
    pub(super) endpoint: Endpoint<()>,
    pub(super) events: VecDeque<Event>,
    pub(super) stage: NegotiationStage,
    /// The channel of the negotiation and all calls.
    pub(super) main_channel: Option<Key>,
    pub(super) peer: Option<Box<Peer>>,
    pub(super) known_era: Option<KnownEra>,
    /// Calls that are queued until the connection is ready.
    pub(super) queue: Option<Box<CallQueue>>,
    /// Input requests of the server.
    pub(super) inputs: Option<Box<InputState>>,
    /// Subscriptions and log level.
    pub(super) notifications: Option<Box<NotificationState>>,
    /// Bytes that are retained of calls that may be repeated.
    pub(super) retained_bytes: usize,
    /// The last serial number of an input request or a subscription.
    pub(super) last_serial: u64,
    /// Bytes of answers to the server that were appended since all earlier ones had been sent.
    answer_bytes: usize,
    /// Position after the last of these answers in the output.
    answers_end: u64,
    /// Each message has an HTTP exchange of its own, whose status is stronger evidence than silence.
    pub(super) uses_exchanges: bool,
}

impl Engine {
    /// Creates an engine without a channel.
    #[must_use]
    pub fn new(config: Arc<Config>) -> Self {
        let endpoint = Endpoint::new(Arc::clone(&config.limits), &config.redacted_members, config.keep_alive);
        Self {
            endpoint,
            events: VecDeque::new(),
            stage: NegotiationStage::Idle,
            main_channel: None,
            peer: None,
            known_era: None,
            queue: None,
            inputs: None,
            notifications: None,
            retained_bytes: 0,
            last_serial: 0,
            answer_bytes: 0,
            answers_end: 0,
            uses_exchanges: false,
            config,
        }
    }

    /// Opens the channel and starts the negotiation.
    ///
    /// An engine has one channel at a time. While it is open, this returns the same id.
    pub fn open_channel(&mut self, now: Instant) -> ChannelId {
        self.endpoint.tick(now);
        if let Some(main) = self.main_channel {
            return ChannelId(main);
        }
        let main = self.endpoint.open_channel(false, ());
        self.main_channel = Some(main);
        self.begin_negotiation();
        ChannelId(main)
    }

    /// Takes one message from the server.
    pub fn handle_message(&mut self, now: Instant, channel: ChannelId, message: Bytes) {
        self.endpoint.tick(now);
        self.endpoint.record_activity();
        self.endpoint.record_received(channel.0, &message);
        if self.endpoint.channels.get(channel.0).is_some_and(|c| !c.closed) {
            self.receive(channel.0, message, None);
        }
    }

    /// Records the end of the input. Every open call ends (STDIO-028).
    pub fn handle_eof(&mut self, now: Instant, channel: ChannelId) {
        if Some(channel.0) == self.main_channel {
            self.end_input(now, 0);
        }
    }

    /// Records the end of the input, after `partial` bytes of a message.
    pub(crate) fn end_input(&mut self, now: Instant, partial: usize) {
        self.endpoint.tick(now);
        let fault = match (self.eof_fault(), partial) {
            (Fault::Eof, 1..) => Fault::Truncated { bytes: partial },
            (fault, _) => fault,
        };
        self.close_with(fault);
    }

    /// Closes the connection. Every open call ends with [`CallError::Closed`]; the outbox can still be written.
    pub fn close(&mut self, now: Instant) {
        self.endpoint.tick(now);
        self.close_with(Fault::Closed);
    }

    /// Processes the deadlines that have passed. Early or spurious calls have no effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.tick(now);
        while let Some(timer) = self.endpoint.pop_due() {
            match timer {
                EndpointTimer::Negotiation(_) => self.negotiation_timed_out(),
                EndpointTimer::Outbound(key) => self.handle_call_deadline(key),
                EndpointTimer::CallAge(key) => {
                    if self.endpoint.fail(key, &RpcError::internal("no answer in time")).is_some() {
                        self.end_server_request(key);
                    }
                }
                EndpointTimer::Deferred(key) => self.endpoint.send_deferred(key),
                EndpointTimer::KeepAlive(channel) => {
                    let health = self.endpoint.handle_keep_alive(channel);
                    self.report_health(health);
                }
                EndpointTimer::Trim => {
                    if self.endpoint.trim() {
                        self.events.shrink_to_fit();
                        self.notifications.take_if(|state| state.is_empty());
                        // Deadlines of open calls depend on the times in `inputs`.
                        let no_calls = self.endpoint.outbound.calls.is_empty();
                        self.inputs.take_if(|inputs| no_calls && inputs.is_empty());
                    }
                }
                EndpointTimer::Changes(_) | EndpointTimer::Grace(_) => {}
            }
        }
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout).
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    /// Like [`poll_timeout`](Self::poll_timeout), without the deadline at which idle buffers are freed.
    pub fn poll_timeout_without_trim(&mut self) -> Option<Instant> {
        self.endpoint.poll_timeout_without_trim()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self, now: Instant) -> Option<Event> {
        self.endpoint.tick(now);
        self.events.pop_front()
    }

    /// Returns whether decoding should pause.
    ///
    /// The connection is closed, the server does not read the answers that it requested, or too many events wait.
    /// Reading may continue within the bounds of the input buffer. Otherwise two peers with full buffers could wait for
    /// each other (DESIGN-12).
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.is_closed()
            || self.unread_answer_bytes() >= self.endpoint.limits.outbox_high_water
            || self.events.len() >= self.endpoint.limits.max_events
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.main_channel.and_then(|m| self.endpoint.channels.get(m)).is_none_or(|c| c.closed)
    }

    /// Returns whether the outbox is so full that calls are refused.
    #[must_use]
    pub fn is_congested(&self) -> bool {
        self.outbox_len() >= self.endpoint.limits.outbox_high_water
    }

    /// Returns whether the connection is closed, its events are taken and its output is written.
    pub(crate) fn is_drained(&self) -> bool {
        let main = self.main_channel.and_then(|m| self.endpoint.channels.get(m));
        self.events.is_empty() && main.is_none_or(|c| c.closed && c.outbox.is_empty())
    }

    /// Returns the outbox of the channel: messages to send, each ended by a newline.
    ///
    /// A byte stream takes [`Outbox::transmit`]; a transport of whole messages takes [`Outbox::pop_message`].
    pub fn outbox(&mut self, channel: ChannelId) -> Option<&mut Outbox> {
        self.endpoint.channels.get_mut(channel.0).map(|c| &mut c.outbox)
    }

    pub(crate) fn peek_outbox(&self, channel: ChannelId) -> &[u8] {
        self.endpoint.channels.get(channel.0).map_or(&[], |c| c.outbox.transmit())
    }

    pub(crate) const fn is_idle(&self) -> bool {
        self.endpoint.is_idle()
    }

    /// Accounts for an answer to the server that was appended; see [`is_stalled`](Self::is_stalled).
    pub(super) fn count_answer(&mut self, before: usize) {
        let Some(outbox) = self.main_channel.and_then(|m| self.endpoint.channels.get(m)).map(|c| &c.outbox)
        else {
            return;
        };
        let (sent, after) = (outbox.consumed(), outbox.len());
        if sent >= self.answers_end {
            self.answer_bytes = 0;
        }
        if after > before {
            self.answer_bytes += after - before;
            self.answers_end = sent.saturating_add(after as u64);
        }
    }

    /// Returns the bytes of answers that were not sent yet, without the requests behind the last one.
    fn unread_answer_bytes(&self) -> usize {
        let sent =
            self.main_channel.and_then(|m| self.endpoint.channels.get(m)).map_or(0, |c| c.outbox.consumed());
        let left = usize::try_from(self.answers_end.saturating_sub(sent)).unwrap_or(usize::MAX);
        self.answer_bytes.min(left)
    }

    pub(super) fn outbox_len(&self) -> usize {
        self.main_channel.and_then(|m| self.endpoint.channels.get(m)).map_or(0, |c| c.outbox.len())
    }

    /// Returns the server, once the connection is ready.
    #[must_use]
    pub fn peer(&self) -> Option<&Peer> {
        self.peer.as_deref()
    }

    /// Returns the era of the server, to be stored for the next connection.
    ///
    /// Returns `None` before the connection is ready, and after the era proved wrong.
    #[must_use]
    pub const fn known_era(&self) -> Option<KnownEra> {
        self.known_era
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the number of calls without an outcome.
    #[must_use]
    pub const fn pending_calls(&self) -> usize {
        self.endpoint.outbound.calls.application_calls()
    }

    /// Returns the next record of the tap ([`Limits::tap_records`](crate::Limits::tap_records)).
    pub fn poll_tap(&mut self) -> Option<TapRecord> {
        self.endpoint.poll_tap()
    }

    /// Returns the number of messages that the tap dropped.
    #[must_use]
    pub fn tap_dropped(&self) -> u64 {
        self.endpoint.tap_dropped()
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
    pub fn call<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        method: &str,
        params: &T,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        self.endpoint.tick(now);
        let main = self.main_channel.ok_or(UseError::NotReady)?;
        if self.endpoint.channels.get(main).is_none_or(|c| c.closed) {
            return Err(UseError::Closed);
        }
        let is_reserved = match methods::request_rule(method) {
            Some(rule) => matches!(rule.name, methods::INITIALIZE | methods::SUBSCRIPTIONS_LISTEN),
            None => methods::is_spec_notification(method),
        };
        if is_reserved {
            return Err(UseError::ReservedMethod(method.into()));
        }
        outbound_requests::check_meta(options.meta.as_ref())?;
        self.check_capacity(1)?;
        if self.retained_bytes >= self.endpoint.limits.max_retained_bytes {
            return Err(UseError::Full(Limit::RetainedBytes));
        }
        let mut call = OutboundCall::new(
            self.endpoint.now,
            main,
            CallPurpose::Application,
            options,
            &self.endpoint.limits,
        );
        if self.peer.is_some() {
            self.check_permitted(method)?;
            if let Some(inputs) = self.inputs.as_ref().filter(|_| !call.has_explicit_total) {
                // The time that has passed before this call is added again in the check of its deadline.
                call.total_deadline =
                    call.total_deadline - inputs.legacy_inputs.total_wait(self.endpoint.now);
            }
            let base_meta = request_meta(self.peer.as_deref(), &self.config, self.notifications.as_deref());
            let request = OutboundRequest {
                method,
                base_meta,
                meta: options.meta.as_ref(),
                wants_progress: options.wants_progress,
            };
            let table = self.peer.as_ref().and_then(|p| shape::table(p.version));
            let key = self.endpoint.outbound.calls.insert(call);
            match self
                .endpoint
                .send_request_range(key, &request, |out| Serializer::object(out, params, table))
            {
                Err(e) => {
                    self.endpoint.outbound.calls.remove(key);
                    return Err(e);
                }
                Ok(written) => self.retain_call(key, method, written, options.meta.as_ref()),
            }
            return Ok(CallKey(key));
        }
        let params = VersionedParams::encode(params, self.config.versions)?;
        let total = options.total_timeout.unwrap_or(self.endpoint.limits.call_total_timeout);
        let queued =
            QueuedCall { method: method.into(), params, meta: options.meta.clone(), total_timeout: total };
        let bytes = self.queue.as_ref().map_or(0, |q| q.bytes).saturating_add(queued.cost());
        if bytes > self.endpoint.limits.max_queued_bytes {
            return Err(UseError::Full(Limit::QueuedBytes));
        }
        call.queued = Some(Box::new(queued));
        let key = self.endpoint.outbound.calls.insert(call);
        let queue = self.queue.get_or_insert_default();
        queue.bytes = bytes;
        queue.calls.push(key);
        Ok(CallKey(key))
    }

    /// Checks whether the server is alive: by `ping`, or by `server/discover` in the modern era (PING-001, PING-006).
    ///
    /// # Errors
    ///
    /// [`UseError::NotReady`] before the connection is ready; otherwise as [`call`](Self::call).
    pub fn ping(&mut self, now: Instant, options: &CallOptions) -> Result<CallKey, UseError> {
        #[derive(Serialize)]
        struct EmptyParams {}
        match self.peer.as_ref().map(|p| p.era()) {
            None => Err(UseError::NotReady),
            Some(Era::Legacy) => self.call(now, methods::PING, &EmptyParams {}, options),
            Some(Era::Modern) => self.call(now, methods::DISCOVER, &EmptyParams {}, options),
        }
    }

    /// Calls a tool. `arguments` must serialize as a JSON object (TOOL-010).
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub fn call_tool<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        name: &str,
        arguments: &T,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        #[derive(Serialize)]
        struct ToolCallParams<'a, T: ?Sized> {
            name: &'a str,
            arguments: ToolArguments<'a, T>,
        }
        struct ToolArguments<'a, T: ?Sized>(&'a T);
        impl<T: Serialize + ?Sized> Serialize for ToolArguments<'_, T> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_newtype_struct(OBJECT_MARKER, self.0)
            }
        }
        self.call(
            now,
            methods::TOOLS_CALL,
            &ToolCallParams { name, arguments: ToolArguments(arguments) },
            options,
        )
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
        self.endpoint.tick(now);
        self.endpoint.outbound.calls.get(call.0).ok_or(UseError::Stale)?;
        self.abandon(call.0, reason, CallError::Cancelled);
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
        self.endpoint.tick(now);
        if self.peer.is_none() {
            return Err(UseError::NotReady);
        }
        let main = self.main_channel.ok_or(UseError::NotReady)?;
        let table = self.peer.as_ref().and_then(|p| shape::table(p.version));
        self.endpoint.notify(main, method, params, table)
    }

    // ---- internals ----

    /// Returns the channel and the negotiated revision.
    ///
    /// # Errors
    ///
    /// [`UseError::NotReady`] or [`UseError::Closed`].
    pub(super) fn ready_channel(&self) -> Result<(Key, Version), UseError> {
        let main = self.main_channel.ok_or(UseError::NotReady)?;
        if self.is_closed() {
            return Err(UseError::Closed);
        }
        let version = self.peer.as_ref().map(|p| p.version).ok_or(UseError::NotReady)?;
        Ok((main, version))
    }

    /// Checks that this number of further requests can be sent.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`].
    #[inline]
    pub(super) fn check_capacity(&self, requests: usize) -> Result<(), UseError> {
        if self.endpoint.outbound.calls.len() + requests > self.endpoint.limits.effective_max_pending_calls()
        {
            return Err(UseError::Full(Limit::PendingCalls));
        }
        if self.is_congested() {
            return Err(UseError::Full(Limit::OutboxHighWater));
        }
        Ok(())
    }

    /// Returns whether the connection is ready and modern.
    pub(super) fn is_modern(&self) -> bool {
        self.peer.as_ref().is_some_and(|p| p.era() == Era::Modern)
    }

    pub(super) fn diagnose(&mut self, diagnostic: Diagnostic) {
        self.events.push_back(Event::Diagnostic(diagnostic));
    }

    /// Ends all calls, requests and subscriptions, once.
    pub(super) fn close_with(&mut self, fault: Fault) {
        let Some(main) = self.main_channel else { return };
        self.endpoint.end_input(main, fault.clone(), Duration::ZERO);
        let Some(c) = self.endpoint.channels.get_mut(main).filter(|c| !c.closed) else { return };
        let inbound = c.live_calls.clone();
        for key in inbound {
            if self.endpoint.drop_call(key).is_some() {
                self.end_server_request(key);
            }
        }
        for key in self.endpoint.outbound_keys(main) {
            let is_application_call =
                self.endpoint.outbound.calls.get(key).is_some_and(|c| c.purpose == CallPurpose::Application);
            if is_application_call {
                self.finish(key, Err(CallError::Closed(fault.clone())));
            } else {
                self.endpoint.outbound.calls.remove(key);
            }
        }
        self.queue = None;
        self.end_subscriptions(&CallError::Closed(fault.clone()));
        if let Some(c) = self.endpoint.channels.get_mut(main) {
            c.closed = true;
        }
        self.stage = NegotiationStage::Closed;
        self.endpoint.negotiation_generation += 1;
        self.events.push_back(Event::Closed(fault));
    }

    pub(super) fn become_ready(&mut self, peer: Peer) {
        self.known_era = Some(match peer.era() {
            Era::Modern => KnownEra::Modern,
            Era::Legacy => KnownEra::Legacy,
        });
        if let Some(c) = self.main_channel.and_then(|m| self.endpoint.channels.get_mut(m)) {
            c.allows_idless_errors = peer.version >= Version::V2025_11_25; // DEC-004
        }
        self.stage = NegotiationStage::Ready;
        self.endpoint.negotiation_generation += 1;
        self.peer = Some(Box::new(peer.clone()));
        self.events.push_back(Event::Ready(peer));
        self.flush_queue();
        if let Some(main) = self.main_channel.filter(|_| !self.is_modern()) {
            self.endpoint.begin_keep_alive(main);
        }
    }
}
