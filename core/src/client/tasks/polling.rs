//! How tasks are polled.

use alloc::boxed::Box;
use core::any::Any;
use core::time::Duration;

use crate::tasks::pace::PollPace;

/// How tasks are polled that the client follows.
///
/// The server proposes the time between two polls (TASK-017, TASK-114). It is used within [`min_interval`] and
/// [`max_interval`].
///
/// A task that asks the user without end is ended by [`Limits::max_input_rounds`](crate::Limits::max_input_rounds).
///
/// [`min_interval`]: Self::min_interval
/// [`max_interval`]: Self::max_interval
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TaskPolling {
    /// Shortest time between two polls (default 100 ms).
    pub min_interval: Duration,
    /// Time between two polls if the server proposes none or zero (default 1 s).
    pub default_interval: Duration,
    /// Longest time between two polls, also after failures (default 60 s).
    pub max_interval: Duration,
    /// Longest total time of a call that follows a task (default 24 h).
    ///
    /// It takes the place of [`Limits::call_total_timeout`](crate::Limits::call_total_timeout) from the creation of the
    /// task on. [`CallOptions::total_timeout`](crate::CallOptions::total_timeout) takes precedence.
    pub max_wait: Duration,
    /// Number of polls in a row that may fail before the call fails (default 5). As often a task is cancelled whose server
    /// does not answer that.
    ///
    /// Failures are those of the transport, timeouts, and internal errors of the server. The time between two polls
    /// doubles with each.
    pub max_failures: u32,
    /// Time between two polls from which on the server is also asked for notifications about the task (default 5 s).
    ///
    /// Only servers of 2026-07-28 are asked, by one more request for each such task (TASK-126). Nothing depends on the
    /// notifications: polls go on. [`Duration::MAX`] turns it off.
    pub listen_from: Duration,
}

impl Default for TaskPolling {
    fn default() -> Self {
        Self {
            min_interval: Duration::from_millis(100),
            default_interval: Duration::from_secs(1),
            max_interval: Duration::from_secs(60),
            max_wait: Duration::from_secs(24 * 3_600),
            max_failures: 5,
            listen_from: Duration::from_secs(5),
        }
    }
}

impl TaskPolling {
    /// Creates the default values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the shortest and the longest time between two polls.
    #[must_use]
    pub const fn interval_range(mut self, min: Duration, max: Duration) -> Self {
        (self.min_interval, self.max_interval) = (min, max);
        self
    }

    /// Sets the time between two polls if the server proposes none.
    #[must_use]
    pub const fn default_interval(mut self, interval: Duration) -> Self {
        self.default_interval = interval;
        self
    }

    /// Sets the longest total time of a call that follows a task.
    #[must_use]
    pub const fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = wait;
        self
    }

    /// Sets the number of polls in a row that may fail.
    #[must_use]
    pub const fn max_failures(mut self, failures: u32) -> Self {
        self.max_failures = failures;
        self
    }

    /// Sets the time between two polls from which on the server is also asked for notifications.
    #[must_use]
    pub const fn listen_from(mut self, interval: Duration) -> Self {
        self.listen_from = interval;
        self
    }

    /// Returns the time until the next poll for the proposal of the server, after this number of failures in a row.
    pub(super) fn interval(&self, proposed: Option<Duration>, failures: u32) -> Duration {
        let pace =
            PollPace { min: self.min_interval, default: self.default_interval, max: self.max_interval };
        pace.interval(proposed, failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TASK-017, TASK-114
    #[test]
    fn interval_is_that_of_the_server_within_bounds() {
        let polling = TaskPolling::default();
        let ms = Duration::from_millis;
        for (proposed, expected) in [
            (Some(ms(500)), ms(500)),
            (None, ms(1_000)),
            (Some(ms(0)), ms(1_000)),
            (Some(ms(1)), ms(100)),
            (Some(Duration::MAX), ms(60_000)),
        ] {
            assert_eq!(polling.interval(proposed, 0), expected, "{proposed:?}");
        }
        assert_eq!(polling.interval(Some(ms(500)), 3), ms(4_000));
        assert_eq!(polling.interval(None, u32::MAX), ms(60_000));
        let odd = TaskPolling::new().interval_range(ms(0), ms(0));
        assert_eq!(odd.interval(Some(ms(9)), 0), ms(1));
    }
}

/// Settings of tasks and the table for them, which a configuration with tasks holds.
///
/// Only [`Config::task_polling`](crate::client::Config::task_polling) refers to the functions of the table, so a program
/// without tasks links none of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskSupport {
    pub(in crate::client) polling: TaskPolling,
    /// Makes a `Box<dyn TaskTable>`. The trait is not named here: it refers to the state of the client, which refers to
    /// the configuration.
    pub(in crate::client) new_table: fn() -> Box<dyn Any>,
}
