//! Keep-alive pings: they find a peer that no longer answers (PING-004, PING-005).
//!
//! A ping is sent after an interval without input, and has one interval for its answer. Any input in that time shows
//! that the peer is alive. Only silence that this side has listened to counts as a miss (DESIGN-37).

use alloc::vec::Vec;
use core::time::Duration;

use super::endpoint::{Endpoint, EndpointTimer, Role};
use super::outbound::{CallOptions, CallPurpose, OutboundCall};
use super::outbound_requests::OutboundRequest;
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
        c.keep_alive = Part::new(marker, state);
        self.schedule_ping(channel, self.now + settings.interval);
    }

    fn ping_settings(&self) -> Option<KeepAlivePing> {
        self.keep_alive.as_ref().map(|pings| pings.settings)
    }

    /// Records that the transport does not read at present.
    pub(crate) fn hold_input(&mut self) {
        if let Some(pings) = self.keep_alive.as_mut() {
            pings.input_held_at = Some(self.now);
        }
    }

    /// Records that the peer of a channel or stream is alive.
    pub(super) fn record_sign_of_life(&mut self, channel: Key) {
        let (root, now) = (self.root_channel(channel), self.now);
        if let Some(state) = self.channels.get_mut(root).and_then(|c| c.keep_alive.as_mut()) {
            (state.last_input, state.misses) = (now, 0);
        }
    }

    fn schedule_ping(&mut self, channel: Key, at: Instant) {
        if let Some(state) = self.channels.get_mut(channel).and_then(|c| c.keep_alive.as_mut()) {
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
        let Some(&KeepAlivePings { settings, input_held_at }) = self.keep_alive.as_ref() else {
            return PeerHealth::Alive;
        };
        let high_water = self.limits.outbox_high_water;
        let Some(c) = self.channels.get_mut(channel) else { return PeerHealth::Alive };
        let Some(state) = c.keep_alive.as_mut() else { return PeerHealth::Alive };
        let next = state.last_input + settings.interval;
        let taken = c.outbox.consumed();
        // Input does not move the timer, which would be an entry of the heap for each message.
        if next > self.now {
            self.schedule_ping(channel, next);
        } else if !has_room || !c.role.is_reachable() {
            // Silence proves nothing where no ping could be sent or heard, so no miss is counted.
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
        // A wait may be restarted any number of times, so no total deadline ends the ping.
        let options = CallOptions::new().timeout(settings.interval).total_timeout(Duration::MAX);
        let call = OutboundCall::new(self.now, channel, CallPurpose::KeepAlive, &options, &self.limits);
        let Some(key) = self.begin_request(call) else { return };
        let now = self.now;
        if let Some(c) = self.channels.get_mut(channel) {
            let taken = c.outbox.consumed();
            // Without a time for the next ping the timer lapses: one ping is in flight at most.
            if let Some(state) = c.keep_alive.as_mut() {
                (state.next_ping_at, state.waiting_since, state.output_taken) = (None, now, taken);
            }
        }
        let request =
            OutboundRequest { method: methods::PING, base_meta: None, meta: None, wants_progress: false };
        let mut params = |out: &mut Vec<u8>| {
            out.extend_from_slice(b"{}");
            Ok(TopLevelMembers::default())
        };
        if self.send_request(key, &request, &mut params).is_err() {
            // There is no memory for the ping. Nothing was sent, so its silence is no miss, and the next one is as far away.
            self.end_request(key);
            self.schedule_ping(channel, now + settings.interval);
        }
    }

    /// Restarts the wait for the answer to a ping if silence proves nothing. Returns whether it did.
    ///
    /// `is_stalled`: input is not processed, because the application has not taken earlier input.
    pub(crate) fn restart_ping_wait(&mut self, key: Key, is_stalled: bool) -> bool {
        let Some(&KeepAlivePings { settings, input_held_at }) = self.keep_alive.as_ref() else {
            return false;
        };
        let Some(call) = self.outbound.calls.get_mut(key) else { return false };
        let Some(c) = self.channels.get_mut(call.channel) else { return false };
        let Some(state) = c.keep_alive.as_mut() else { return false };
        let taken = c.outbox.consumed();
        let was_away = state.was_away(call.idle_deadline, self.now, input_held_at);
        // Above this mark a server does not read; a peer that takes output is alive.
        let is_reading = c.outbox.len() >= self.limits.outbox_high_water && taken > state.output_taken;
        if !(is_stalled || was_away || is_reading) {
            return false;
        }
        (state.waiting_since, state.output_taken) = (self.now, taken);
        // The total deadline of a ping is in the far future, so this is its deadline.
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
        let Some(state) = c.keep_alive.as_mut() else { return PeerHealth::Alive };
        let is_alive = match outcome {
            // The channel is being closed.
            Err(CallError::Closed(_)) => return PeerHealth::Alive,
            // The server has said that the session is gone, so it is there.
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
        let Some(state) = self.channels.get_mut(channel).and_then(|c| c.keep_alive.as_mut()) else {
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

// Settings and state of keep-alive pings (PING-004).

/// Shortest interval; shorter ones would be excessive pinging (PING-004).
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Delay of a deadline from which on the event loop was away, so that an answer may have arrived unread.
const LATE: Duration = Duration::from_millis(100);

/// Settings of keep-alive pings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeepAlivePing {
    pub(super) interval: Duration,
    /// Number of consecutive misses that do not end the connection.
    pub(super) allowed_misses: u32,
}

impl KeepAlivePing {
    pub(crate) fn new(interval: Duration, allowed_misses: u32) -> Self {
        Self { interval: interval.max(MIN_INTERVAL), allowed_misses }
    }
}

/// Keep-alive pings of an endpoint.
#[derive(Debug)]
pub(super) struct KeepAlivePings {
    pub(super) settings: KeepAlivePing,
    /// Time at which the transport was last known not to read.
    pub(super) input_held_at: Option<Instant>,
}

/// State of the keep-alive pings of a channel. At most one ping is in flight.
#[derive(Debug)]
pub(crate) struct KeepAlive {
    pub(super) last_input: Instant,
    /// Time of the next ping, unless there is input before; `None` while one is in flight.
    pub(super) next_ping_at: Option<Instant>,
    /// Time at which the latest ping was sent, or its wait was restarted.
    pub(super) waiting_since: Instant,
    /// Output of the channel that had been taken at that time, in bytes.
    pub(super) output_taken: u64,
    /// Number of consecutive misses.
    pub(super) misses: u32,
}

impl KeepAlive {
    /// Returns whether the timer for the next ping at `at` is still valid.
    pub(crate) fn is_due_at(&self, at: Instant) -> bool {
        self.next_ping_at == Some(at)
    }

    /// Returns whether input may have arrived unread since the wait began.
    ///
    /// `held_at` is the time at which the transport last did not read. A deadline that is handled late shows that the
    /// event loop was busy or the machine was suspended.
    pub(super) fn was_away(&self, deadline: Instant, now: Instant, held_at: Option<Instant>) -> bool {
        now.saturating_duration_since(deadline) > LATE || held_at.is_some_and(|at| at >= self.waiting_since)
    }
}

/// Outcome of a step of the keep-alive pings.
#[derive(Debug)]
pub(crate) enum PeerHealth {
    /// Nothing to report.
    Alive,
    /// A ping was not answered. The connection continues.
    Missed(Diagnostic),
    /// Too many pings were not answered. The connection has to be ended.
    Lost(Fault),
}

#[cfg(test)]
mod tests;
