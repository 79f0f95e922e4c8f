//! Limits of a table of tasks.

use core::time::Duration;

/// Limits of the tasks of a server; each documents what happens when it is reached (TASK-036).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskLimits {
    /// Number of tasks, including those that have ended and can still be read (default 10,000).
    ///
    /// A task that has expired counts until the store has deleted its record.
    /// No task is created beyond it: [`Tasks::begin`](super::super::Tasks::begin) returns
    /// [`UseError::Full`](crate::UseError::Full), and the call stays open.
    pub max_tasks: usize,
    /// Number of tasks of one owner: a principal or a session (default 1,000). As [`max_tasks`](Self::max_tasks).
    pub max_tasks_per_owner: usize,
    /// Number of all tasks without an owner (default 5,000). As [`max_tasks`](Self::max_tasks).
    ///
    /// Clients without a principal and a session create them: those of 2026-07-28 on a server without authorization.
    pub max_unowned_tasks: usize,
    /// Bytes that are kept for all tasks: 256 for each, its arguments, state, answers, messages and its result (default
    /// 64 MiB).
    ///
    /// As [`max_tasks`](Self::max_tasks) for a new task. A result beyond it makes its task fail, input requests and
    /// answers beyond it are refused, and a message beyond it is dropped.
    pub max_bytes: usize,
    /// Bytes that are kept for the tasks of one owner (default 16 MiB). As [`max_bytes`](Self::max_bytes).
    pub max_bytes_per_owner: usize,
    /// Bytes that are kept for all tasks without an owner (default 32 MiB). As
    /// [`max_bytes`](Self::max_bytes).
    pub max_unowned_bytes: usize,
    /// Time from creation to expiry of a task whose requestor asked for none (default one hour).
    pub default_ttl: Duration,
    /// Longest time from creation to expiry (default one day). A longer request gets this one (TASK-016).
    pub max_ttl: Duration,
    /// Suggested time between two polls (default one second; TASK-017).
    pub poll_interval: Duration,
    /// Number of requests of one principal, session or connection that wait for tasks: for results (2025-11-25), and for
    /// the store (default 64). All requests together have the bound of
    /// [`Limits::max_live_calls`](crate::Limits::max_live_calls).
    ///
    /// Error -32603 answers a request beyond it, and changes nothing.
    pub max_waiting_requests: usize,
    /// Number of tasks whose handlers run at the same time (default 64). Others wait for their turn as data.
    ///
    /// In the adapters, the handler of a cancelled task counts until it has returned and its blocking work has ended.
    pub max_running: usize,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self {
            max_tasks: 10_000,
            max_tasks_per_owner: 1_000,
            max_unowned_tasks: 5_000,
            max_bytes: 64 << 20,
            max_bytes_per_owner: 16 << 20,
            max_unowned_bytes: 32 << 20,
            default_ttl: Duration::from_secs(3_600),
            max_ttl: Duration::from_secs(86_400),
            poll_interval: Duration::from_secs(1),
            max_waiting_requests: 64,
            max_running: 64,
        }
    }
}

impl TaskLimits {
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

    /// Sets [`max_tasks_per_owner`](#structfield.max_tasks_per_owner).
    #[must_use]
    pub const fn max_tasks_per_owner(mut self, tasks: usize) -> Self {
        self.max_tasks_per_owner = tasks;
        self
    }

    /// Sets [`max_unowned_tasks`](#structfield.max_unowned_tasks).
    #[must_use]
    pub const fn max_unowned_tasks(mut self, tasks: usize) -> Self {
        self.max_unowned_tasks = tasks;
        self
    }

    /// Sets [`max_bytes`](#structfield.max_bytes).
    #[must_use]
    pub const fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets [`max_bytes_per_owner`](#structfield.max_bytes_per_owner).
    #[must_use]
    pub const fn max_bytes_per_owner(mut self, bytes: usize) -> Self {
        self.max_bytes_per_owner = bytes;
        self
    }

    /// Sets [`max_unowned_bytes`](#structfield.max_unowned_bytes).
    #[must_use]
    pub const fn max_unowned_bytes(mut self, bytes: usize) -> Self {
        self.max_unowned_bytes = bytes;
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

    /// Sets [`max_waiting_requests`](#structfield.max_waiting_requests).
    #[must_use]
    pub const fn max_waiting_requests(mut self, requests: usize) -> Self {
        self.max_waiting_requests = requests;
        self
    }

    /// Sets [`max_running`](#structfield.max_running).
    #[must_use]
    pub const fn max_running(mut self, tasks: usize) -> Self {
        self.max_running = tasks;
        self
    }
}
