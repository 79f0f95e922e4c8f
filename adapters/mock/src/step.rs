//! What the demonstration server can be made to do wrongly.

use core::fmt;

/// A part of a session that the demonstration server can be made to perform wrongly, to test what tests servers.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TourStep {
    /// The revisions: it speaks those of the other era.
    Negotiate,
    /// The list of tools lacks one.
    List,
    /// `add` returns a wrong sum.
    Call,
    /// `fail` succeeds.
    Error,
    /// `count` reports none.
    Progress,
    /// `sign` asks for no name.
    Ask,
    /// `sign` announces no change.
    Change,
    /// A tool becomes no task.
    Task,
    /// A cancelled call goes on.
    Cancel,
    /// A slow call ends at once.
    Timeout,
    /// The server does not end with its input.
    End,
}

impl TourStep {
    /// All steps, in order.
    #[rustfmt::skip]
    pub const ALL: [Self; 11] = [
        Self::Negotiate, Self::List, Self::Call, Self::Error, Self::Progress, Self::Ask, Self::Change, Self::Task,
        Self::Cancel, Self::Timeout, Self::End,
    ];

    /// Returns its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        const NAMES: &str = "negotiate/list/call/error/progress/ask/change/task/cancel/timeout/end";
        NAMES.split('/').nth(self as usize).unwrap_or_default()
    }
}

impl fmt::Display for TourStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
