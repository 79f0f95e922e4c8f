//! The monotonic clock that gives the core its instants.

use core::time::Duration;
use std::time::{Instant as StdInstant, SystemTime};

use mcp_proto::{Anchor, Instant};

/// A monotonic clock whose epoch is its start.
///
/// Use one per engine, or share one (it is `Copy`). Instants of two clocks cannot be compared. Whether the clock
/// advances while the machine sleeps depends on the operating system; on Linux it does not.
///
/// ```
/// let clock = mcp_std::Clock::start();
/// let deadline = clock.now() + core::time::Duration::from_secs(5);
/// assert!(clock.until(deadline) > core::time::Duration::ZERO);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch: StdInstant,
}

impl Clock {
    /// Seconds by which Unix time may differ from the monotonic clock before the difference counts as a sleep of the machine,
    /// or as a system clock that was set.
    pub const MAX_DRIFT: u64 = 5;

    /// Starts a clock; its first instant is zero.
    #[must_use]
    pub fn start() -> Self {
        Self { epoch: StdInstant::now() }
    }

    /// Returns the time since the start, in microseconds.
    #[must_use]
    pub fn now(&self) -> Instant {
        // 2^64 µs are 584,000 years.
        Instant::from_micros(u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// Returns the time from now until `deadline`, or zero if it has passed.
    #[must_use]
    pub fn until(&self, deadline: Instant) -> Duration {
        deadline.saturating_duration_since(self.now())
    }

    /// Returns the relation of this clock to Unix time, read from the system clock now.
    ///
    /// A system clock set before 1970 counts as 1970. An anchor does not follow later changes of the system clock; take
    /// a new one if they matter.
    #[must_use]
    pub fn anchor(&self) -> Anchor {
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Anchor::new(self.now(), unix.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_runs_forward_from_zero() {
        let clock = Clock::start();
        let first = clock.now();
        assert!(first.as_micros() < 1_000_000);
        assert!(clock.now() >= first);
        assert_eq!(clock.until(Instant::from_micros(0)), Duration::ZERO);
    }
}
