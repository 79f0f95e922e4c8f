//! The steps of the tour, as the demonstration server knows them.

use core::fmt;

/// A step of the tour, in order. A server can be made to perform a step wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TourStep {
    Negotiate,
    List,
    Call,
    Error,
    Progress,
    Ask,
    Change,
    Task,
    Cancel,
    Timeout,
    End,
}

impl TourStep {
    /// All steps, in order.
    pub(crate) const ALL: [Self; 11] = [
        Self::Negotiate,
        Self::List,
        Self::Call,
        Self::Error,
        Self::Progress,
        Self::Ask,
        Self::Change,
        Self::Task,
        Self::Cancel,
        Self::Timeout,
        Self::End,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Negotiate => "negotiate",
            Self::List => "list",
            Self::Call => "call",
            Self::Error => "error",
            Self::Progress => "progress",
            Self::Ask => "ask",
            Self::Change => "change",
            Self::Task => "task",
            Self::Cancel => "cancel",
            Self::Timeout => "timeout",
            Self::End => "end",
        }
    }
}

impl fmt::Display for TourStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
