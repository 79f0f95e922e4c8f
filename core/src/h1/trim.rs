//! Idle time of buffers, to decide when to free their memory.

use core::time::Duration;

use crate::time::Instant;

/// Whether buffers hold memory that can be freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TrimState {
    /// No memory is held.
    Trimmed,
    /// The buffers were used after the last known instant.
    InUse,
    /// The buffers have been idle since this instant.
    IdleSince(Instant),
}

impl TrimState {
    /// Starts the idle time at `now` if the buffers were in use.
    #[inline]
    pub(super) fn tick(&mut self, now: Instant) {
        if *self == Self::InUse {
            *self = Self::IdleSince(now);
        }
    }

    /// Returns when the idle time ends.
    pub(super) fn trim_deadline(self, now: Instant, quiet: Duration) -> Option<Instant> {
        match self {
            Self::Trimmed => None,
            Self::InUse => Some(now + quiet),
            Self::IdleSince(then) => Some(then + quiet),
        }
    }
}
