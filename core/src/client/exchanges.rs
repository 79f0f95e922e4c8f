//! The interface for transports with separate exchanges, which report the outcome of each request.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::config::Config;
use super::engine::Engine;
use crate::calls::endpoint::EndpointTimer;
use crate::calls::outbound::{CallPurpose, EndedRequests, OutboundCalls, ResponseMatch};
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault};
use crate::frame::line::Oversize;
use crate::json::object_members;
use crate::rpc::RequestId;
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;

impl Engine {
    /// Creates an engine for a transport with separate exchanges.
    pub(crate) fn with_exchanges(config: Arc<Config>) -> Self {
        let mut engine = Self::new(config);
        engine.common.uses_exchanges = true;
        engine
    }

    fn pending_call(&self, channel: ChannelId, id: &RequestId) -> Option<Key> {
        match self.common.endpoint.match_response(channel.0, id) {
            ResponseMatch::Live(key) => Some(key),
            _ => None,
        }
    }

    /// Takes one message. With `own`, it may answer only that request.
    ///
    /// `ended` then holds the calls whose requests ended.
    pub(crate) fn handle_exchange_message(
        &mut self,
        now: Instant,
        channel: ChannelId,
        message: Bytes,
        own: Option<&RequestId>,
        ended: &mut Option<Box<EndedRequests>>,
    ) {
        self.common.endpoint.tick(now);
        self.common.endpoint.record_activity();
        self.common.endpoint.record_received(channel.0, &message);
        self.begin_record(ended);
        if self.common.endpoint.channels.get(channel.0).is_some_and(|c| !c.closed) {
            self.receive(channel.0, message, own);
        }
        *ended = self.common.endpoint.outbound.calls.record_ended(None);
    }

    fn begin_record(&mut self, ended: &mut Option<Box<EndedRequests>>) {
        let mut record = ended.take().unwrap_or_default();
        record.calls.clear();
        self.common.endpoint.outbound.calls.record_ended(Some(record));
    }

    /// Handles a message that exceeded the frame limit; `ended` then holds the calls whose requests ended.
    pub(crate) fn handle_exchange_oversize(
        &mut self,
        now: Instant,
        channel: ChannelId,
        oversize: Oversize,
        ended: &mut Option<Box<EndedRequests>>,
    ) {
        self.begin_record(ended);
        self.handle_oversize(now, channel, oversize);
        *ended = self.common.endpoint.outbound.calls.record_ended(None);
    }

    /// Returns whether an outbound request waits for its answer.
    pub(crate) fn awaits_response(&self, channel: ChannelId, id: &RequestId) -> bool {
        self.pending_call(channel, id).is_some()
    }

    /// Returns whether a request is repeated by the engine in the next session anyway.
    pub(crate) fn is_internal_request(&self, channel: ChannelId, id: &RequestId) -> bool {
        let call =
            self.pending_call(channel, id).and_then(|key| self.common.endpoint.outbound.calls.get(key));
        call.is_some_and(|call| {
            matches!(call.purpose, CallPurpose::Internal | CallPurpose::Subscribe(_) | CallPurpose::KeepAlive)
        })
    }

    /// Returns whether a request may be executed twice.
    pub(crate) fn is_idempotent(&self, channel: ChannelId, id: &RequestId) -> bool {
        let call = self.pending_call(channel, id).map(|key| self.common.original_call(key));
        call.and_then(|key| self.common.endpoint.outbound.calls.get(key)).is_some_and(|c| c.idempotent)
    }

    /// Returns whether there are subscriptions.
    pub(crate) fn has_subscriptions(&self) -> bool {
        self.subscriptions.as_ref().is_some_and(|subscriptions| !subscriptions.is_empty())
    }

    /// Ends the subscriptions, because the GET stream with their change notifications is unavailable.
    pub(crate) fn handle_get_stream_lost(&mut self, now: Instant, error: &CallError) {
        self.common.endpoint.tick(now);
        if let Some(subscriptions) = &mut self.subscriptions {
            subscriptions.end_all(&mut self.common, error);
        }
    }

    /// Fails a request whose exchange gave no answer.
    pub(crate) fn fail_request(
        &mut self,
        now: Instant,
        channel: ChannelId,
        id: &RequestId,
        error: CallError,
    ) {
        self.common.endpoint.tick(now);
        if let Some(key) = self.pending_call(channel, id) {
            self.finish_outbound(key, Err(error));
        }
    }

    /// Sends a request again. Returns its new id, or `None` if it cannot be repeated.
    pub(crate) fn resend_request(
        &mut self,
        now: Instant,
        channel: ChannelId,
        id: &RequestId,
    ) -> Option<RequestId> {
        self.common.endpoint.tick(now);
        let key = self.pending_call(channel, id)?;
        let retry = match self.common.endpoint.outbound.calls.get(key)?.purpose {
            CallPurpose::Application | CallPurpose::Retry(_) => self.calls.resend_lost(&mut self.common, key),
            CallPurpose::Listen(_) => self.subscriptions.as_mut()?.renew_listen(&mut self.common, key),
            _ => None,
        };
        retry.map(|key| RequestId::int(OutboundCalls::wire_id(key)))
    }

    /// Suspends the timeouts of a request while its exchange is held.
    pub(crate) fn pause_request(&mut self, now: Instant, channel: ChannelId, id: &RequestId) {
        self.common.endpoint.tick(now);
        let Some(key) = self.pending_call(channel, id) else { return };
        let Some(call) = self.common.endpoint.outbound.calls.get_mut(key) else { return };
        if matches!(call.purpose, CallPurpose::Probe | CallPurpose::Handshake) {
            self.common.endpoint.negotiation_generation += 1;
            return;
        }
        let time = self.common.endpoint.limits.input_timeout;
        call.idle_deadline = self.common.endpoint.now + time;
        self.shift_total_deadline(key, |total_at| total_at + time);
    }

    /// Moves the total deadline of a request and of its original call, unless it was set by the application.
    fn shift_total_deadline(&mut self, key: Key, shift: impl Fn(Instant) -> Instant) {
        let call = self.common.original_call(key);
        let keys = [Some(key), Some(call).filter(|call| *call != key)];
        for key in keys.into_iter().flatten() {
            let Some(call) = self.common.endpoint.outbound.calls.get_mut(key) else { continue };
            if !call.has_explicit_total {
                call.total_deadline = shift(call.total_deadline);
            }
            let deadline = call.deadline();
            self.common.endpoint.deadlines.arm(deadline, EndpointTimer::Outbound(key));
        }
    }

    /// Resumes the timeouts of a request whose exchange was held for this time.
    pub(crate) fn resume_request(
        &mut self,
        now: Instant,
        channel: ChannelId,
        id: &RequestId,
        held_for: Duration,
    ) {
        self.common.endpoint.tick(now);
        let Some(key) = self.pending_call(channel, id) else { return };
        let Some(call) = self.common.endpoint.outbound.calls.get_mut(key) else { return };
        if matches!(call.purpose, CallPurpose::Probe | CallPurpose::Handshake) {
            let wait = self.common.endpoint.limits.init_timeout;
            return self.common.arm_negotiation_timeout(wait);
        }
        call.idle_deadline = self.common.endpoint.now + call.timeout;
        let time = self.common.endpoint.limits.input_timeout;
        self.shift_total_deadline(key, |total_at| total_at - time + held_for);
    }

    /// Closes the connection with a fault of the transport.
    pub(crate) fn close_with_fault(&mut self, now: Instant, fault: Fault) {
        self.common.endpoint.tick(now);
        self.close_with(fault);
    }

    /// Handles the end of the session at the server: its requests need no answers any more.
    pub(crate) fn handle_session_lost(&mut self, now: Instant) {
        self.common.endpoint.tick(now);
        let inbound =
            self.common.main_channel.map(|main| self.common.endpoint.live_calls(main)).unwrap_or_default();
        for key in inbound {
            if self.common.endpoint.drop_call(key).is_some() {
                self.calls.end_server_request(&mut self.common, key);
            }
        }
        let Some(outbox) = self
            .common
            .main_channel
            .and_then(|m| self.common.endpoint.channels.get_mut(m))
            .map(|c| &mut c.outbox)
        else {
            return;
        };
        // Unsent answers are removed as well, because their ids may be reused in the next session.
        let mut requests = Vec::new();
        while let Some(message) = outbox.pop_message() {
            let mut has_method = false;
            if message.first() == Some(&b'{') {
                object_members(&message, |name, _| has_method |= name == b"method");
            }
            if has_method {
                requests.push(message);
            }
        }
        for message in requests {
            outbox.push(&message);
            outbox.push(b"\n");
        }
    }

    /// Restores subscriptions and log level in a new session.
    pub(crate) fn handle_session_renewed(&mut self, now: Instant) {
        self.common.endpoint.tick(now);
        if let Some(main) = self.common.main_channel {
            if let Some(subscriptions) = &mut self.subscriptions {
                subscriptions.renew_resources(&mut self.common, main);
            }
            if let Some(level) = self.common.log.as_ref().map(|log| log.level().cloned()) {
                // It was accepted before, so it can fail only because the outbox is full.
                let _ = self.set_log_level(now, level);
            }
        }
    }

    /// Returns whether all events were polled.
    pub(crate) fn has_no_events(&self) -> bool {
        self.common.events.is_empty()
    }

    /// Reports a diagnostic of the transport, unless the connection is closed.
    pub(crate) fn report_diagnostic(&mut self, diagnostic: Diagnostic) {
        if !self.is_closed() {
            self.common.diagnose(diagnostic);
        }
    }
}
