//! The end of a proxy, from any thread.

use alloc::sync::Arc;
use core::time::Duration;
use std::io;
use std::sync::OnceLock;

#[cfg(unix)]
use std::os::fd::AsFd as _;

use mcp_std::poll::WaitRequest;
#[cfg(unix)]
use mcp_std::poll::{Descriptors, Interest, Notifier};

/// Ends a proxy from any thread. Clones end the same one.
#[derive(Clone, Debug)]
pub struct Stop(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    grace: OnceLock<Duration>,
    #[cfg(unix)]
    notifier: Notifier,
}

impl Stop {
    /// Creates what ends a proxy.
    ///
    /// # Errors
    ///
    /// That of the operating system, which may have no more descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(Shared {
            grace: OnceLock::new(),
            #[cfg(unix)]
            notifier: Notifier::new()?,
        })))
    }

    /// Ends the proxy when running calls are answered, or after `grace`. A second call does nothing.
    pub fn shutdown(&self, grace: Duration) {
        if self.0.grace.set(grace).is_ok() {
            #[cfg(unix)]
            self.0.notifier.notify();
        }
    }

    /// Returns whether the end was asked for.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.grace().is_some()
    }

    pub(super) fn grace(&self) -> Option<Duration> {
        self.0.grace.get().copied()
    }

    /// Returns what a loop waits for besides its own sources. It is ready from the request on.
    #[must_use]
    pub fn wait_request(&self) -> WaitRequest<'_> {
        #[cfg(unix)]
        {
            let read = Some(self.0.notifier.as_fd());
            WaitRequest::new(Descriptors { read, ..Descriptors::default() }, Interest::READ, None)
        }
        #[cfg(not(unix))]
        WaitRequest::unpollable(None)
    }
}
