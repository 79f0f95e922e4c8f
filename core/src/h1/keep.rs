//! Since when buffers lie unused.

use core::time::Duration;

use crate::time::Instant;

/// Whether there is memory to give back
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Keep {
    /// None
    Nothing,
    /// Buffers were used, some time after the last instant that was seen
    Used,
    /// Nobody has touched them since
    Since(Instant),
}

impl Keep {
    /// Time has passed: this is when it was looked at first
    pub(super) fn pass(&mut self, now: Instant) {
        if *self == Self::Used {
            *self = Self::Since(now);
        }
    }

    /// When to look again
    pub(super) fn until(self, now: Instant, quiet: Duration) -> Option<Instant> {
        match self {
            Self::Nothing => None,
            Self::Used => Some(now + quiet),
            Self::Since(then) => Some(then + quiet),
        }
    }
}
