//! The clock of a flow, which may wait for a user while the machine sleeps.

use core::cell::Cell;
use core::time::Duration;

use mcp_proto::{Anchor, Instant};

use crate::Clock;
use crate::clock::MAX_DRIFT;

/// A monotonic clock that advances with Unix time while the machine sleeps, so that what a flow signs afterwards has the
/// time of then. A system clock that is set back has no effect on it.
#[derive(Debug)]
pub(super) struct FlowClock {
    clock: Clock,
    anchor: Anchor,
    /// The most seconds by which Unix time was ahead: time does not go back when the system clock is set back.
    ahead: Cell<u64>,
    /// No earlier time is returned.
    earliest: Cell<Instant>,
}

impl FlowClock {
    pub(super) fn start() -> Self {
        let clock = Clock::start();
        Self { clock, anchor: clock.anchor(), ahead: Cell::new(0), earliest: Cell::new(Instant::ZERO) }
    }

    /// Returns the relation to Unix time.
    pub(super) const fn anchor(&self) -> Anchor {
        self.anchor
    }

    pub(super) fn now(&self) -> Instant {
        let now = self.clock.now();
        let ahead = self.clock.anchor().unix_secs(now).saturating_sub(self.anchor.unix_secs(now));
        if ahead > MAX_DRIFT {
            self.ahead.set(ahead.max(self.ahead.get()));
        }
        (now + Duration::from_secs(self.ahead.get())).max(self.earliest.get())
    }

    /// Continues at `deadline`, if it has not passed: another clock says that it has.
    pub(super) fn advance_to(&self, deadline: Instant) {
        self.earliest.set(deadline.max(self.earliest.get()));
    }

    /// Returns the time from now until `deadline`, or zero if it has passed.
    pub(super) fn until(&self, deadline: Instant) -> Duration {
        deadline.saturating_duration_since(self.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time of a clock that started when Unix time was less by so many seconds.
    fn after(secs: i64) -> u64 {
        let mut clock = FlowClock::start();
        let unix = clock.anchor.unix_secs(Instant::ZERO);
        clock.anchor = Anchor::new(Instant::ZERO, unix.saturating_add_signed(-secs));
        assert_eq!(clock.until(Instant::ZERO), Duration::ZERO);
        clock.now().as_micros() / 1_000_000
    }

    #[test]
    fn clock_follows_unix_time_forward_alone() {
        assert!(after(7_200) >= 7_199);
        for unchanged in [0, 2, -7_200] {
            assert!(after(unchanged) < 5, "{unchanged}");
        }
        let mut clock = FlowClock::start();
        let unix = clock.anchor.unix_secs(Instant::ZERO);
        clock.anchor = Anchor::new(Instant::ZERO, unix - 3_600);
        let ahead = clock.now();
        clock.anchor = Anchor::new(Instant::ZERO, unix);
        assert!(clock.now() >= ahead, "the system clock was set forward and back");
    }

    /// A receiver of redirects has a clock of its own.
    #[test]
    fn time_that_was_skipped_does_not_come_back() {
        let clock = FlowClock::start();
        let due = clock.now() + Duration::from_secs(60);
        clock.advance_to(due);
        assert_eq!((clock.now(), clock.until(due)), (due, Duration::ZERO));
        clock.advance_to(Instant::ZERO);
        assert!(clock.now() >= due);
    }
}
