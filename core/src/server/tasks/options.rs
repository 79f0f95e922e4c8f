//! Settings of a new task.

use alloc::boxed::Box;
use alloc::string::String;
use core::time::Duration;

/// Settings of a new task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskOptions {
    /// Time from creation to expiry. The default is that which the client asks for, else
    /// [`TaskLimits::default_ttl`](super::super::TaskLimits::default_ttl).
    pub ttl: Option<Duration>,
    /// Suggested time between two polls. The default is [`TaskLimits::poll_interval`](super::super::TaskLimits::poll_interval).
    pub poll_interval: Option<Duration>,
    /// Message for the client. The default is none.
    pub message: Option<Box<str>>,
}

impl TaskOptions {
    /// Creates the default settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time from creation to expiry.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the suggested time between two polls.
    #[must_use]
    pub const fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = Some(interval);
        self
    }

    /// Sets the message for the client.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into().into());
        self
    }
}
