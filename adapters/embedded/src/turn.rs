//! Outcome of one turn of a driver.

use mcp_proto::Instant;

/// Work that a driver did in one turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Turn {
    /// Bytes were moved: poll again at once.
    Busy,
    /// Nothing is left to do. Poll again when bytes can be read or written, and at this time at the latest.
    Idle(Option<Instant>),
    /// The connection has ended.
    Closed,
}

impl Turn {
    /// Combines the turns of two drivers of one loop. One that has closed waits for nothing.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Busy, _) | (_, Self::Busy) => Self::Busy,
            (Self::Idle(one), Self::Idle(two)) => Self::Idle(one.into_iter().chain(two).min()),
            (Self::Closed, other) | (other, Self::Closed) => other,
        }
    }
}
