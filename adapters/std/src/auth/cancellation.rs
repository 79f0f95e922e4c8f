//! Ending blocking calls from another thread.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::time::Instant;

/// A flag that ends blocking calls early. Clones share it.
///
/// The calls look at it every 50 ms. It cannot be reset.
///
/// ```
/// let cancellation = mcp_std::auth::Cancellation::new();
/// let other = cancellation.clone();
/// other.cancel();
/// assert!(cancellation.is_cancelled());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Creates a flag that is not set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the flag: calls that wait end, and later ones end at their first wait.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Returns whether the flag is set.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// The time that a call has left.
#[derive(Clone, Debug)]
pub(super) struct Budget<'a> {
    /// `None` if the deadline is too far away to be represented.
    deadline: Option<Instant>,
    cancellation: &'a Cancellation,
}

/// The reason why a call ends before its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    TimedOut,
    Cancelled,
}

impl<'a> Budget<'a> {
    pub(super) fn new(time: Duration, cancellation: &'a Cancellation) -> Self {
        Self { deadline: Instant::now().checked_add(time), cancellation }
    }

    pub(super) const fn until(deadline: Instant, cancellation: &'a Cancellation) -> Self {
        Self { deadline: Some(deadline), cancellation }
    }

    /// Returns a budget that ends after `time` or with this one.
    pub(super) fn at_most(&self, time: Duration) -> Self {
        let deadline = Instant::now().checked_add(time);
        let deadline = [self.deadline, deadline].into_iter().flatten().min();
        Self { deadline, cancellation: self.cancellation }
    }

    /// Returns the time that is left; `None` without a deadline.
    pub(super) fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Returns the time of the next wait, after which this method is to be called again.
    pub(super) fn next_wait(&self) -> Result<Duration, Ended> {
        if self.cancellation.is_cancelled() {
            return Err(Ended::Cancelled);
        }
        match self.left() {
            Some(Duration::ZERO) => Err(Ended::TimedOut),
            left => Ok(left.unwrap_or(LONGEST_WAIT).min(LONGEST_WAIT)),
        }
    }
}

/// Time after which a waiting call looks at its cancellation again.
const LONGEST_WAIT: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_ends_by_time_or_by_cancellation() {
        let cancellation = Cancellation::new();
        let long = Budget::new(Duration::MAX, &cancellation);
        assert_eq!(long.left(), None);
        assert_eq!(long.next_wait(), Ok(LONGEST_WAIT));
        let short = Budget::new(Duration::from_millis(20), &cancellation);
        assert!(short.next_wait().unwrap() <= Duration::from_millis(20));
        let over = Budget::until(Instant::now(), &cancellation);
        assert_eq!(over.next_wait(), Err(Ended::TimedOut));
        cancellation.clone().cancel();
        assert_eq!(long.next_wait(), Err(Ended::Cancelled));
    }
}
