//! Settings and state of keep-alive pings (PING-004).

use core::time::Duration;

use crate::diagnostic::Diagnostic;
use crate::error::Fault;
use crate::time::Instant;

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
