//! Our requests that have no answer yet.
//!
//! A request id on the wire is slot and generation of the table, so that finding the call of an answer is an index
//! and an id is never used twice (BASE-005, BASE-006). The same number is the progress token (PROG-004).

use core::time::Duration;

use super::forms::Forms;
use crate::error::CallError;
use crate::limits::Limits;
use crate::rpc::RequestId;
use crate::slab::{Key, Slab};
use crate::time::Instant;

crate::slab::key! {
    /// A request of ours
    ///
    /// Ends exactly once, with an event that carries its outcome; stale from then on.
    CallKey
}

/// How one call is to be made
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallOptions {
    /// Longest time without an answer or progress; none for [`Limits::call_timeout`] (TIME-004)
    pub timeout: Option<Duration>,
    /// Longest time in all; none for [`Limits::call_total`] (TIME-006). One that is set here is kept whatever happens,
    /// even while the peer waits for an answer of a human.
    pub total: Option<Duration>,
    /// Ask the peer to report progress (PROG-001)
    pub progress: bool,
    /// Whether progress starts the time anew (TIME-005; default yes)
    pub progress_resets: bool,
    /// Further `_meta` members: a JSON object. Keys that belong to the protocol are refused; trace context
    /// (`traceparent`, `tracestate`, `baggage`) goes here.
    pub meta: Option<crate::raw::RawJson>,
    /// Whether to make the call twice does no harm: over HTTP it is sent again, under a new id, when its answer was
    /// lost (HTTP-044; default no)
    pub repeatable: bool,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self {
            timeout: None,
            total: None,
            progress: false,
            progress_resets: true,
            meta: None,
            repeatable: false,
        }
    }
}

impl CallOptions {
    /// The defaults
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the longest time without an answer or progress
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the longest time in all
    #[must_use]
    pub const fn total(mut self, total: Duration) -> Self {
        self.total = Some(total);
        self
    }

    /// Asks for progress
    #[must_use]
    pub const fn with_progress(mut self) -> Self {
        self.progress = true;
        self
    }

    /// Says that to make the call twice does no harm
    #[must_use]
    pub const fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// Adds `_meta` members
    #[must_use]
    pub fn with_meta(mut self, meta: crate::raw::RawJson) -> Self {
        self.meta = Some(meta);
        self
    }
}

/// What a request of ours is for
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// The application's own
    Application,
    /// `server/discover` to find out the era
    Probe,
    /// `initialize`
    Handshake,
    /// This call of the application's, repeated with what the server needed first (MRTR-016)
    Round(Key),
    /// `subscriptions/listen`
    Listen,
    /// Something that the engine asks on the way
    Errand,
    /// An answer that a call of the peer's waits for
    Input(Key),
}

#[derive(Debug)]
pub(crate) struct OutCall {
    pub(crate) channel: Key,
    pub(crate) purpose: Purpose,
    /// Not yet sent: everything that is needed to send it
    pub(crate) queued: Option<alloc::boxed::Box<Queued>>,
    /// Sent, and perhaps to be sent again: what is needed for that ([`kept_parts`](super::ours::kept_parts))
    pub(crate) kept: Option<alloc::boxed::Box<[u8]>>,
    /// It was answered, though not to the end: nothing more can come for its id
    pub(crate) parked: bool,
    /// The longest time in all was set for this call, so that nothing makes it longer
    pub(crate) total_is_set: bool,
    pub(crate) wants_progress: bool,
    pub(crate) progress_resets: bool,
    pub(crate) repeatable: bool,
    pub(crate) last_progress: f64,
    pub(crate) timeout: Duration,
    /// Ends the call if nothing is heard until then
    pub(crate) idle_at: Instant,
    /// Ends the call whatever is heard
    pub(crate) total_at: Instant,
}

/// A request that waits for the connection to be ready
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) method: alloc::string::String,
    pub(crate) params: Forms,
    pub(crate) meta: Option<crate::raw::RawJson>,
    /// Longest time in all, from when it goes out
    pub(crate) total: Duration,
}

impl Queued {
    /// Bytes that are charged for keeping it
    pub(crate) fn cost(&self) -> usize {
        self.method.len() + self.params.cost() + self.meta.as_ref().map_or(0, |m| m.as_bytes().len())
    }
}

impl OutCall {
    pub(crate) fn new(
        now: Instant,
        channel: Key,
        purpose: Purpose,
        options: &CallOptions,
        limits: &Limits,
    ) -> Self {
        let timeout = options.timeout.unwrap_or(limits.call_timeout);
        let total = options.total.unwrap_or(limits.call_total);
        Self {
            channel,
            purpose,
            queued: None,
            kept: None,
            parked: false,
            total_is_set: options.total.is_some(),
            wants_progress: options.progress,
            progress_resets: options.progress_resets,
            repeatable: options.repeatable,
            last_progress: f64::NEG_INFINITY,
            timeout,
            idle_at: now + timeout,
            total_at: now + total,
        }
    }

    /// When the call is to be looked at next
    pub(crate) fn deadline(&self) -> Instant {
        self.idle_at.min(self.total_at)
    }

    /// The outcome when the time is over, none while it is not
    pub(crate) fn expired(&self, now: Instant) -> Option<CallError> {
        if now >= self.total_at {
            Some(CallError::TotalTimedOut)
        } else if now >= self.idle_at {
            Some(CallError::TimedOut)
        } else {
            None
        }
    }

    /// Starts the clocks anew; for a call that was queued until the connection was ready
    pub(crate) fn restart(&mut self, now: Instant, total: Duration) {
        self.idle_at = now + self.timeout;
        self.total_at = now + total;
    }

    /// The same request, to be sent again for `call`; what was taken of its time in all is taken
    pub(crate) fn again(&self, now: Instant, call: Key) -> Self {
        Self {
            purpose: Purpose::Round(call),
            queued: None,
            kept: None,
            parked: false,
            last_progress: f64::NEG_INFINITY,
            idle_at: now + self.timeout,
            ..*self
        }
    }

    /// Stops the clocks for good
    pub(crate) fn wait_for_ever(&mut self) {
        self.idle_at = Instant::FAR;
        self.total_at = Instant::FAR;
    }

    /// Takes note of a progress report: false when it does not increase (PROG-007)
    pub(crate) fn advance(&mut self, now: Instant, progress: f64) -> bool {
        if !self.wants_progress
            || progress.partial_cmp(&self.last_progress) != Some(core::cmp::Ordering::Greater)
        {
            return false;
        }
        self.last_progress = progress;
        if self.progress_resets {
            self.idle_at = now + self.timeout;
        }
        true
    }
}

/// Who an answer is for
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Match {
    Live(Key),
    /// It was ours and has ended
    Late,
    Unknown,
}

#[derive(Debug)]
pub(crate) struct Outbound {
    pub(crate) calls: Slab<OutCall>,
}

/// Slots fit 16 bits ([`Limits::max_pending_calls`], and each call may be repeated), so ids stay below 2^53 for every generation
const SLOT_BITS: u32 = 16;

impl Outbound {
    pub(crate) const fn new() -> Self {
        Self { calls: Slab::new() }
    }

    /// The id on the wire; never zero, which some peers take for "no id"
    pub(crate) fn wire_id(key: Key) -> i64 {
        (i64::from(key.generation) << SLOT_BITS | i64::from(key.slot)) + 1
    }

    pub(crate) fn lookup(&self, id: &RequestId) -> Match {
        let Some(raw) = id.as_int().and_then(|i| u64::try_from(i).ok()).and_then(|i| i.checked_sub(1)) else {
            return Match::Unknown;
        };
        let Ok(generation) = u32::try_from(raw >> SLOT_BITS) else { return Match::Unknown };
        let key = Key { slot: (raw & ((1 << SLOT_BITS) - 1)) as u32, generation };
        if self.calls.get(key).is_some() {
            Match::Live(key)
        } else if self.calls.is_stale(key) {
            Match::Late
        } else {
            Match::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> OutCall {
        let channel = Key { slot: 0, generation: 0 };
        OutCall::new(
            Instant::ZERO,
            channel,
            Purpose::Application,
            &CallOptions::new().with_progress(),
            &Limits::default(),
        )
    }

    // covers: BASE-005, BASE-006, PROG-004
    #[test]
    fn ids_are_never_used_twice_and_late_ones_are_known() {
        let mut out = Outbound::new();
        let mut seen = alloc::collections::BTreeSet::new();
        for _ in 0..1_000 {
            let a = out.calls.insert(call());
            let b = out.calls.insert(call());
            for k in [a, b] {
                assert!(seen.insert(Outbound::wire_id(k)));
                assert_eq!(out.lookup(&RequestId::int(Outbound::wire_id(k))), Match::Live(k));
            }
            out.calls.remove(a);
            assert_eq!(out.lookup(&RequestId::int(Outbound::wire_id(a))), Match::Late);
            out.calls.remove(b);
        }
        out.calls.trim();
        assert!(seen.insert(Outbound::wire_id(out.calls.insert(call()))));
        for unknown in [0, -1, i64::MAX, 99 << 20] {
            assert_eq!(out.lookup(&RequestId::int(unknown)), Match::Unknown, "{unknown}");
        }
    }

    // covers: TIME-005, TIME-006, PROG-007
    #[test]
    fn progress_extends_the_idle_time_but_not_the_total() {
        let s = |n: u64| Instant::from_micros(n * 1_000_000);
        let mut c = call();
        assert_eq!(c.deadline(), s(60));
        assert!(c.advance(s(50), 1.0) && !c.advance(s(51), 1.0) && !c.advance(s(51), f64::NAN));
        assert_eq!(c.expired(s(109)), None);
        assert_eq!(c.expired(s(110)), Some(CallError::TimedOut));
        assert!(c.advance(s(590), 2.0));
        assert_eq!(c.expired(s(600)), Some(CallError::TotalTimedOut));
    }
}
