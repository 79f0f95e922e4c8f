//! Times between polls, and failures that polls survive.

use core::time::Duration;

use crate::error::{CallError, HttpError};
use crate::rpc::code;

/// Bounds of the time between two polls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PollPace {
    pub(crate) min: Duration,
    /// Time if the peer proposes none or zero.
    pub(crate) default: Duration,
    pub(crate) max: Duration,
}

impl PollPace {
    /// Returns the time until the next poll for the proposal of the peer, after this number of failures in a row.
    pub(crate) fn interval(&self, proposed: Option<Duration>, failures: u32) -> Duration {
        let wanted = proposed.filter(|time| !time.is_zero()).unwrap_or(self.default);
        // A loop without pauses would be our mistake, so one millisecond passes even if the range allows none.
        let min = self.min.max(Duration::from_millis(1));
        let interval = wanted.clamp(min, self.max.max(min));
        interval.saturating_mul(1 << failures.min(16)).min(self.max.max(min))
    }
}

/// Returns whether a request may succeed later, although it failed now.
pub(crate) fn is_transient(error: &CallError) -> bool {
    match error {
        CallError::TimedOut
        | CallError::TotalTimedOut
        | CallError::Misaddressed(_)
        | CallError::Transport { .. } => true,
        CallError::Rpc(error) => error.code == code::INTERNAL_ERROR,
        CallError::Http(error) => match &**error {
            HttpError::Response(response) => {
                matches!(response.status, 408 | 425 | 429 | 500..=599)
            }
            HttpError::Unreachable { .. }
            | HttpError::Lost { .. }
            | HttpError::Unanswered { .. }
            | HttpError::SessionLost => true,
            _ => false,
        },
        _ => false,
    }
}
