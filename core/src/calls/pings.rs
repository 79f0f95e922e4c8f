//! Keep-alive pings: they find a peer that no longer answers (PING-004, PING-005).
//!
//! A ping is sent after an interval without input, and has one interval for its answer. Any input in that time shows
//! that the peer is alive. Only silence that this side has listened to counts as a miss (DESIGN-37).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::endpoint::{Endpoint, EndpointTimer};
use super::keep_alive::{KeepAlive, KeepAlivePing, KeepAlivePings, PeerHealth};
use super::outbound::{CallOptions, CallPurpose, OutboundCall};
use super::outbound_requests::OutboundRequest;
use super::role::Role;
use crate::built::{Legacy, Part};
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault, HttpError};
use crate::json::TopLevelMembers;
use crate::methods;
use crate::raw::RawJson;
use crate::slab::Key;
use crate::time::Instant;

impl<R: Role> Endpoint<R> {
    /// Starts the keep-alive pings of a channel, if they are configured. Legacy only (PING-006).
    pub(crate) fn begin_keep_alive(&mut self, channel: Key) {
        let (Some(settings), Some(c)) = (self.ping_settings(), self.channels.get_mut(channel)) else {
            return;
        };
        let Some(marker) = Legacy::get() else { return };
        let state = KeepAlive {
            last_input: self.now,
            next_ping_at: None,
            waiting_since: self.now,
            output_taken: c.outbox.consumed(),
            misses: 0,
        };
        c.keep_alive = Some(Part::new(marker, Box::new(state)));
        self.schedule_ping(channel, self.now + settings.interval);
    }

    fn ping_settings(&self) -> Option<KeepAlivePing> {
        self.keep_alive.as_deref().map(|pings| pings.settings)
    }

    /// Records input from the peer of a channel or stream: a message, or a part of one.
    #[inline]
    pub(crate) fn record_input(&mut self, channel: Key) {
        self.check.progressed();
        if self.keep_alive.is_some() {
            self.record_sign_of_life(channel);
        }
    }

    /// Records that the transport does not read at present.
    pub(crate) fn hold_input(&mut self) {
        if let Some(pings) = &mut self.keep_alive {
            pings.input_held_at = Some(self.now);
        }
    }

    fn record_sign_of_life(&mut self, channel: Key) {
        let (root, now) = (self.root_channel(channel), self.now);
        if let Some(state) = self.channels.get_mut(root).and_then(|c| c.keep_alive.as_deref_mut()) {
            (state.last_input, state.misses) = (now, 0);
        }
    }

    fn schedule_ping(&mut self, channel: Key, at: Instant) {
        if let Some(state) = self.channels.get_mut(channel).and_then(|c| c.keep_alive.as_deref_mut()) {
            state.next_ping_at = Some(at);
            self.deadlines.arm(at, EndpointTimer::KeepAlive(channel));
        }
    }

    /// Handles the time of the next ping: sends it, unless there was input in the meantime.
    pub(crate) fn handle_keep_alive(&mut self, channel: Key) -> PeerHealth {
        if !Legacy::IS_BUILT {
            return PeerHealth::Alive;
        }
        let has_room = self.has_room_for_ping();
        let Some(&KeepAlivePings { settings, input_held_at }) = self.keep_alive.as_deref() else {
            return PeerHealth::Alive;
        };
        let high_water = self.limits.outbox_high_water;
        let Some(c) = self.channels.get_mut(channel) else { return PeerHealth::Alive };
        let Some(state) = c.keep_alive.as_deref_mut() else { return PeerHealth::Alive };
        let next = state.last_input + settings.interval;
        let taken = c.outbox.consumed();
        if next > self.now {
            self.schedule_ping(channel, next);
        } else if !has_room || !c.role.is_reachable() {
            self.schedule_ping(channel, self.now + settings.interval);
        } else if c.outbox.len() < high_water {
            self.send_ping(channel, settings);
        } else {
            // A ping behind so much output would only grow it. The peer reads none of it, or is slow to read.
            let is_moving = core::mem::replace(&mut state.output_taken, taken) != taken;
            let has_waited = state.waiting_since > state.last_input;
            let was_away = state.was_away(state.next_ping_at.unwrap_or(self.now), self.now, input_held_at);
            state.waiting_since = self.now;
            if has_waited && !is_moving && !was_away {
                return self.count_miss(channel, settings);
            }
            self.schedule_ping(channel, self.now + settings.interval);
        }
        PeerHealth::Alive
    }

    /// Returns whether a ping fits into the table of calls, of which pings use a quarter.
    fn has_room_for_ping(&self) -> bool {
        let max = self.limits.effective_max_pending_calls();
        let calls = &self.outbound.calls;
        calls.len() < max && calls.pings() < (max / 4).max(1)
    }

    fn send_ping(&mut self, channel: Key, settings: KeepAlivePing) {
        let options = CallOptions::new().timeout(settings.interval).total_timeout(Duration::MAX);
        let call = OutboundCall::new(self.now, channel, CallPurpose::KeepAlive, &options, &self.limits);
        let Some(key) = self.begin_request(call) else { return };
        let now = self.now;
        if let Some(c) = self.channels.get_mut(channel) {
            let taken = c.outbox.consumed();
            if let Some(state) = c.keep_alive.as_deref_mut() {
                (state.next_ping_at, state.waiting_since, state.output_taken) = (None, now, taken);
            }
        }
        let request =
            OutboundRequest { method: methods::PING, base_meta: None, meta: None, wants_progress: false };
        let params = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"{}");
            Ok(TopLevelMembers::default())
        };
        if self.send_request(key, &request, params).is_err() {
            // The channel is gone.
            self.end_request(key);
        }
    }

    /// Restarts the wait for the answer to a ping if silence proves nothing. Returns whether it did.
    ///
    /// `is_stalled`: input is not processed, because the application has not taken earlier input.
    pub(crate) fn restart_ping_wait(&mut self, key: Key, is_stalled: bool) -> bool {
        let Some(&KeepAlivePings { settings, input_held_at }) = self.keep_alive.as_deref() else {
            return false;
        };
        let Some(call) = self.outbound.calls.get_mut(key) else { return false };
        let Some(c) = self.channels.get_mut(call.channel) else { return false };
        let Some(state) = c.keep_alive.as_deref_mut() else { return false };
        let taken = c.outbox.consumed();
        let was_away = state.was_away(call.idle_deadline, self.now, input_held_at);
        // Above this mark a server does not read; a peer that takes output is alive.
        let is_reading = c.outbox.len() >= self.limits.outbox_high_water && taken > state.output_taken;
        if !(is_stalled || was_away || is_reading) {
            return false;
        }
        (state.waiting_since, state.output_taken) = (self.now, taken);
        call.idle_deadline = self.now + settings.interval;
        let deadline = call.deadline();
        self.deadlines.arm(deadline, EndpointTimer::Outbound(key));
        true
    }

    /// Handles the end of a ping.
    pub(crate) fn finish_ping(&mut self, key: Key, outcome: &Result<RawJson, CallError>) -> PeerHealth {
        if !Legacy::IS_BUILT {
            return PeerHealth::Alive;
        }
        let ended = self.end_request(key);
        self.sweep();
        let (Some(settings), Some(call)) = (self.ping_settings(), ended) else { return PeerHealth::Alive };
        let Some(c) = self.channels.get_mut(call.channel) else { return PeerHealth::Alive };
        let Some(state) = c.keep_alive.as_deref_mut() else { return PeerHealth::Alive };
        let is_alive = match outcome {
            // The channel is being closed.
            Err(CallError::Closed(_)) => return PeerHealth::Alive,
            Err(CallError::Http(error)) if **error == HttpError::SessionLost => true,
            // Also an answer that is an error: the peer is there.
            _ => state.last_input >= state.waiting_since || !c.role.is_reachable(),
        };
        if !is_alive {
            return self.count_miss(call.channel, settings);
        }
        let next = (state.last_input + settings.interval).max(self.now);
        self.schedule_ping(call.channel, next);
        PeerHealth::Alive
    }

    /// Counts an interval without a sign of life.
    fn count_miss(&mut self, channel: Key, settings: KeepAlivePing) -> PeerHealth {
        let Some(state) = self.channels.get_mut(channel).and_then(|c| c.keep_alive.as_deref_mut()) else {
            return PeerHealth::Alive;
        };
        state.misses = state.misses.saturating_add(1);
        let misses = state.misses;
        if misses > settings.allowed_misses {
            return PeerHealth::Lost(Fault::PingTimeout { misses });
        }
        // A ping that failed at once is not repeated at once.
        let next = (state.waiting_since + settings.interval).max(self.now);
        self.schedule_ping(channel, next);
        PeerHealth::Missed(Diagnostic::PingMissed { misses })
    }
}
