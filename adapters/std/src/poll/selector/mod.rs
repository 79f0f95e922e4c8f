//! A wait for many descriptors.

#[cfg(all(target_os = "linux", any(test, not(mcp_portable))))]
mod epoll;
#[cfg(any(test, not(target_os = "linux"), mcp_portable))]
mod polled;
#[cfg(test)]
mod tests;

#[cfg(any(not(target_os = "linux"), mcp_portable))]
use alloc::sync::Arc;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
#[cfg(any(not(target_os = "linux"), mcp_portable))]
use std::os::fd::OwnedFd;

#[cfg(all(target_os = "linux", not(mcp_portable)))]
use epoll as platform;
#[cfg(any(not(target_os = "linux"), mcp_portable))]
use polled as platform;

use crate::poll::{Interest, Ready};

/// A wait for many sockets.
///
/// Each source has a token chosen by its owner. A token that is reused reports only its new source.
///
/// On Linux this is `epoll`, and a wait costs what is ready. On other Unix systems each wait is one `poll(2)`, and a
/// duplicate of each descriptor is kept until the source is removed. Where sockets cannot be polled, no selector can be
/// created.
///
/// ```
/// # #[cfg(unix)] {
/// use std::net::TcpStream;
/// use mcp_std::poll::{Interest, Selector};
/// use mcp_std::io::Listener;
///
/// let listener = Listener::bind("127.0.0.1:0")?;
/// let mut selector = Selector::new()?;
/// selector.add(&listener, 7, Interest::READ)?;
/// let _client = TcpStream::connect(listener.address()?)?;
/// let mut found = Vec::new();
/// while found.is_empty() {
///     selector.wait(None, &mut found)?;
/// }
/// assert!(found[0].0 == 7 && found[0].1.readable && listener.accept()?.is_some());
/// # }
/// # std::io::Result::Ok(())
/// ```
#[derive(Debug)]
pub struct Selector(platform::PlatformSelector);

impl Selector {
    /// Creates a selector without sources.
    ///
    /// # Errors
    ///
    /// The error of the operating system, for example if no descriptor is left; `Unsupported` where sockets cannot
    /// be polled.
    pub fn new() -> io::Result<Self> {
        platform::PlatformSelector::new().map(Self)
    }

    /// Registers a source. A listener is readable when a client wants to connect.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` if it is registered; `InvalidInput` for the token `u64::MAX`; otherwise the error of the
    /// operating system.
    pub fn add(&mut self, source: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        if token == NOTIFIER_TOKEN {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the token u64::MAX is reserved"));
        }
        self.0.add(source.as_fd(), token, interest)
    }

    /// Changes the interest in a source that was registered with this token.
    ///
    /// # Errors
    ///
    /// `NotFound` if it is not registered; otherwise the error of the operating system.
    pub fn modify(&mut self, source: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.0.modify(source.as_fd(), token, interest)
    }

    /// Removes a source. Call it before the source is closed.
    ///
    /// # Errors
    ///
    /// `NotFound` if it is not registered.
    pub fn remove(&mut self, source: &impl AsFd, token: u64) -> io::Result<()> {
        self.0.remove(source.as_fd(), token)
    }

    /// Waits until a source is ready, `timeout` has passed (`None`: no limit), a [waker](Self::waker) was used or a
    /// signal arrives, and replaces the content of `found` by the ready sources.
    ///
    /// If many are ready, some are left to the next wait. A broken source is ready in both directions, whatever its
    /// interest; reading or writing returns the error. Timeouts may be rounded up to milliseconds.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn wait(&mut self, timeout: Option<Duration>, found: &mut Vec<(u64, Ready)>) -> io::Result<()> {
        found.clear();
        self.0.wait(timeout, found)
    }

    /// Returns a waker that ends a wait early, as [`Duplex::waker`](crate::io::Duplex::waker) does.
    ///
    /// # Errors
    ///
    /// The error of the operating system, for example if no descriptor is left.
    pub fn waker(&mut self) -> io::Result<Waker> {
        self.0.waker()
    }
}

/// Readable when a wait would find a source, or a waker was used.
///
/// So one reactor can watch all sources through this descriptor, and call [`wait`](Selector::wait) with a timeout of
/// zero.
#[cfg(all(target_os = "linux", not(mcp_portable)))]
impl AsFd for Selector {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Its sources one by one, for a reactor that watches each of them: this selector has no descriptor of its own.
#[cfg(any(not(target_os = "linux"), mcp_portable))]
impl Selector {
    /// Returns the descriptor of the source with this token.
    #[must_use]
    pub fn source(&self, token: u64) -> Option<&Arc<OwnedFd>> {
        self.0.source(token)
    }

    /// Returns all sources.
    pub fn sources(&self) -> impl Iterator<Item = (u64, &Arc<OwnedFd>, Interest)> {
        self.0.sources()
    }

    /// Returns what becomes readable when a [waker](Self::waker) is used; `None` until there is a waker.
    #[must_use]
    pub fn notifier(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.0.notifier()
    }
}

/// Token of the notifier.
const NOTIFIER_TOKEN: u64 = u64::MAX;
