//! Limits of tasks that the client hosts.

use core::time::Duration;

/// Limits of the tasks that a client hosts for a server; each documents what happens when it is reached (TASK-036).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputTaskLimits {
    /// Number of tasks, including those that have ended and can still be read (default 100).
    ///
    /// At the limit, the oldest task whose answer was collected or that was cancelled is removed (TASK-030). If there is
    /// none, the question is refused with error -32603.
    pub max_tasks: usize,
    /// Bytes of answers that are kept (default 16 MiB).
    ///
    /// An answer beyond it is refused with [`UseError::Full`](crate::UseError::Full), and its question stays open.
    pub max_bytes: usize,
    /// Number of requests for results that wait for an answer (default 100). More are refused with error -32603.
    pub max_waiting: usize,
    /// Time from creation to expiry of a task for which the server asks for no time (default ten minutes).
    pub default_ttl: Duration,
    /// Longest time from creation to expiry (default one hour). A longer request gets this one (TASK-016).
    ///
    /// A question that is open when its task expires is withdrawn.
    pub max_ttl: Duration,
    /// Suggested time between two polls (default one second; TASK-017).
    pub poll_interval: Duration,
}

impl Default for InputTaskLimits {
    fn default() -> Self {
        Self {
            max_tasks: 100,
            max_bytes: 16 << 20,
            max_waiting: 100,
            default_ttl: Duration::from_secs(600),
            max_ttl: Duration::from_secs(3_600),
            poll_interval: Duration::from_secs(1),
        }
    }
}

impl InputTaskLimits {
    /// Creates the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`max_tasks`](#structfield.max_tasks).
    #[must_use]
    pub const fn max_tasks(mut self, tasks: usize) -> Self {
        self.max_tasks = tasks;
        self
    }

    /// Sets [`max_bytes`](#structfield.max_bytes).
    #[must_use]
    pub const fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets [`max_waiting`](#structfield.max_waiting).
    #[must_use]
    pub const fn max_waiting(mut self, requests: usize) -> Self {
        self.max_waiting = requests;
        self
    }

    /// Sets [`default_ttl`](#structfield.default_ttl).
    #[must_use]
    pub const fn default_ttl(mut self, ttl: Duration) -> Self {
        self.default_ttl = ttl;
        self
    }

    /// Sets [`max_ttl`](#structfield.max_ttl).
    #[must_use]
    pub const fn max_ttl(mut self, ttl: Duration) -> Self {
        self.max_ttl = ttl;
        self
    }

    /// Sets [`poll_interval`](#structfield.poll_interval).
    #[must_use]
    pub const fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval;
        self
    }
}
