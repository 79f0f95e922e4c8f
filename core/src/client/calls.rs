//! Calls and requests from sending to their end: deadlines, retention, rounds, outcomes.

use core::ops::Range;
use core::time::Duration;

use super::common::request_meta;
use super::engine::Engine;
use super::event::Event;
use super::input::{InputId, InputSource};
use super::rounds::RoundDeadline;
use crate::calls::endpoint::EndpointTimer;
use crate::calls::inbound::CallId;
use crate::calls::keep_alive::PeerHealth;
use crate::calls::outbound::{CallKey, CallPurpose};
use crate::calls::outbound_requests::{OutboundRequest, split_retained};
use crate::error::CallError;
use crate::json::TopLevelMembers;
use crate::methods;
use crate::model::ElicitUrlParams;
use crate::raw::RawJson;
use crate::slab::Key;
use crate::version::Version;

impl Engine {
    /// Retains what is needed to repeat a call, if the server may ask for input or the answer may be lost.
    pub(super) fn retain_call(
        &mut self,
        key: Key,
        method: &str,
        written: Range<usize>,
        meta: Option<&RawJson>,
    ) {
        let may_resend = || {
            self.common.uses_exchanges
                && self.common.endpoint.outbound.calls.get(key).is_some_and(|c| c.idempotent)
        };
        // The method is stored up to the next quote, so it must not contain escapes.
        let is_plain = || method.bytes().all(|b| b >= b' ' && !matches!(b, b'"' | b'\\'));
        if (self.common.is_modern() && methods::may_need_input(method)) || (may_resend() && is_plain()) {
            let bytes = self.common.endpoint.retain_request(key, method, written, meta);
            self.common.retained_bytes += bytes;
        }
    }

    /// Handles a deadline of an outbound call.
    pub(super) fn handle_call_deadline(&mut self, key: Key) {
        let Some(call) = self.common.endpoint.outbound.calls.get(key) else { return };
        match (call.purpose, call.timeout_error(self.common.endpoint.now)) {
            (CallPurpose::Application, _) if call.superseded => self.handle_round_deadline(key),
            (CallPurpose::Application | CallPurpose::Retry(_), _) => self.handle_call_timeout(key),
            (CallPurpose::KeepAlive, Some(_)) if self.restart_ping_wait(key) => {}
            (
                CallPurpose::Listen(_)
                | CallPurpose::Subscribe(_)
                | CallPurpose::Internal
                | CallPurpose::KeepAlive,
                Some(outcome),
            ) => {
                self.common.endpoint.send_cancellation(key, Some("no answer in time"));
                self.finish_outbound(key, Err(outcome));
            }
            // The negotiation has a deadline of its own.
            _ => {}
        }
    }

    /// Sends the queued calls when the connection is ready.
    pub(super) fn flush_queue(&mut self) {
        let Some(queue) = self.queue.take() else { return };
        for key in queue.iter() {
            let now = self.common.endpoint.now;
            let Some(call) = self.common.endpoint.outbound.calls.get_mut(key) else { continue };
            let Some(queued) = call.queued.take() else { continue };
            call.restart_timeouts(now, queued.total_timeout);
            let progress = call.wants_progress;
            let Some(version) = self.common.peer.as_ref().map(|p| p.version) else { continue };
            let written = self.common.check_permitted(&queued.method).and_then(|()| {
                let base_meta = request_meta(&self.common.config, self.common.peer.as_deref(), None);
                let request = OutboundRequest {
                    method: &queued.method,
                    base_meta,
                    meta: queued.meta.as_ref(),
                    wants_progress: progress,
                };
                let params = queued.params.for_version(version)?;
                self.common.endpoint.send_request_range(key, &request, |out| {
                    out.extend_from_slice(params);
                    Ok(TopLevelMembers::default())
                })
            });
            match written {
                Err(e) => self.finish(key, Err(CallError::Refused(e))),
                Ok(written) => self.retain_call(key, &queued.method, written, queued.meta.as_ref()),
            }
        }
    }

    /// Ends a call that the server may still process.
    pub(super) fn abandon(&mut self, key: Key, reason: Option<&str>, outcome: CallError) {
        let queued = self.common.endpoint.outbound.calls.get_mut(key).and_then(|c| c.queued.take());
        if let Some(queued) = queued {
            if let Some(queue) = &mut self.queue {
                let calls = &self.common.endpoint.outbound.calls;
                let is_queued = |key| calls.get(key).is_some_and(|c| c.queued.is_some());
                queue.record_removal(queued.cost(), is_queued);
            }
        } else if let Some(sent) = self.wire_key(key) {
            self.common.endpoint.send_cancellation(sent, reason);
        }
        self.finish(key, Err(outcome));
    }

    pub(super) fn finish(&mut self, key: Key, outcome: Result<RawJson, CallError>) {
        if let Some(call) = self.common.endpoint.outbound.calls.remove(key) {
            self.common.retained_bytes =
                self.common.retained_bytes.saturating_sub(call.retained.map_or(0, |kept| kept.len()));
            if call.superseded {
                if let Some(inputs) = &mut self.inputs {
                    inputs.rounds.end(&mut self.common, key);
                }
            }
            self.common.endpoint.sweep();
            self.common.events.push_back(Event::Done {
                call: CallKey(key),
                outcome,
                retried: call.superseded,
            });
        }
    }

    /// Ends a call that could not be sent again.
    pub(super) fn finish_failed(&mut self, call: Key, sent: Result<(), CallError>) {
        if let Err(error) = sent {
            self.finish(call, Err(error));
        }
    }

    // ---- input requests ----

    /// Returns whether an outbound request may be answered by `input_required` (MRTR-003).
    pub(super) fn may_need_input(&self, key: Key) -> bool {
        let call = self.common.endpoint.outbound.calls.get(self.common.original_call(key));
        let retained = call.and_then(|c| c.retained.as_deref());
        retained.is_some_and(|retained| methods::may_need_input(split_retained(retained).0))
    }

    /// Handles `input_required` for a call or its retry.
    pub(super) fn receive_input_required(&mut self, key: Key, result: &RawJson) {
        let call = self.finish_retry(key);
        let rounds = &mut self.inputs.get_or_insert_default().rounds;
        let begun = rounds.begin(&mut self.common, call, result);
        self.finish_failed(call, begun);
    }

    /// Removes a retry from the table. Returns the original call.
    pub(super) fn finish_retry(&mut self, key: Key) -> Key {
        let call = self.common.original_call(key);
        if call != key {
            self.common.endpoint.outbound.calls.remove(key);
        }
        call
    }

    /// Returns the entry under which a call is in flight, if it is.
    fn wire_key(&self, call: Key) -> Option<Key> {
        self.inputs.as_ref().map_or(Some(call), |inputs| inputs.rounds.wire_key(call))
    }

    /// Handles a deadline of a call that is in a round.
    fn handle_round_deadline(&mut self, call: Key) {
        let now = self.common.endpoint.now;
        let Some(parked) = self.common.endpoint.outbound.calls.get(call) else { return };
        let Some(inputs) = &mut self.inputs else { return };
        // A legacy server may wait for input while a call was sent a second time.
        let extension =
            if parked.has_explicit_total { Duration::ZERO } else { inputs.legacy.total_wait(now) };
        let total_at = parked.total_deadline + extension;
        if now >= total_at {
            return self.abandon(call, Some("no answer in time"), CallError::TotalTimedOut);
        }
        if now >= parked.total_deadline {
            return self.common.endpoint.deadlines.arm(total_at, EndpointTimer::Outbound(call));
        }
        match inputs.rounds.deadline_passed(call) {
            RoundDeadline::Retry => {
                let sent = inputs.rounds.send_retry(&mut self.common, call);
                self.finish_failed(call, sent);
            }
            RoundDeadline::InputTimedOut => self.finish(call, Err(CallError::InputTimedOut)),
            RoundDeadline::None => {}
        }
    }

    /// Handles the timeout of a call.
    fn handle_call_timeout(&mut self, key: Key) {
        let now = self.common.endpoint.now;
        let Some(call) = self.common.endpoint.outbound.calls.get(key) else { return };
        let end = match &self.inputs {
            Some(inputs) => inputs.legacy.check_deadline(now, call),
            None => call.timeout_error(now).ok_or_else(|| call.deadline()),
        };
        match end {
            // TIME-002, TIME-003
            Ok(outcome) => self.abandon(self.common.original_call(key), Some("no answer in time"), outcome),
            Err(at) => self.common.endpoint.deadlines.arm(at, EndpointTimer::Outbound(key)),
        }
    }

    /// Records the end of a request of the server; returns false if it was not an input request.
    pub(super) fn end_input_request(&mut self, key: Key) -> bool {
        let now = self.common.endpoint.now;
        self.inputs.as_mut().is_some_and(|inputs| inputs.legacy.end(now, key))
    }

    /// Reports the end of a request of the server.
    pub(super) fn end_server_request(&mut self, key: Key) {
        if self.end_input_request(key) {
            self.common.events.withdraw_input(InputId(InputSource::Request(key)));
        } else {
            self.common.events.push_back(Event::RequestCancelled(CallId(key)));
        }
    }

    /// Remembers the ids of elicitations by URL, up to `max_inputs` (2025-11-25).
    pub(super) fn remember_elicitations(&mut self, pages: &[ElicitUrlParams]) {
        if self.common.peer.as_ref().is_none_or(|p| p.version != Version::V2025_11_25) {
            return;
        }
        let limits = &self.common.endpoint.limits;
        for id in pages.iter().filter_map(|page| page.elicitation_id.as_deref()) {
            if id.len() <= limits.max_id {
                let known = &mut self.inputs.get_or_insert_default().url_elicitations;
                known.remember(id, limits.max_inputs);
            }
        }
    }

    // ---- keep-alive pings ----

    /// Waits on for the answer to a ping if silence proves nothing. Returns whether it does.
    fn restart_ping_wait(&mut self, key: Key) -> bool {
        let is_stalled = self.common.events.len() >= self.common.endpoint.limits.max_events;
        self.common.endpoint.restart_ping_wait(key, is_stalled)
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
