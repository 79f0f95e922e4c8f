//! A wait for many descriptors.

#[cfg(all(target_os = "linux", any(test, not(mcp_portable))))]
mod epoll;
#[cfg(all(any(unix, windows), any(test, not(target_os = "linux"), mcp_portable)))]
mod portable;
#[cfg(test)]
mod tests;

use core::sync::atomic::AtomicBool;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind};

#[cfg(all(target_os = "linux", not(mcp_portable)))]
use epoll as platform;
#[cfg(not(any(unix, windows)))]
use platform::AsFd;
#[cfg(all(any(unix, windows), any(not(target_os = "linux"), mcp_portable)))]
use portable as platform;
#[cfg(any(unix, windows))]
use rustix::fd::AsFd;

use crate::poll::{Interest, Ready};

/// A wait for many sockets.
///
/// Each source has a token chosen by its owner. A token that is reused reports only its new source.
///
/// A wait costs what is ready. On Linux this is `epoll`. On other systems it is `polling` (`kqueue` of macOS and
/// the BSDs, AFD of Windows), and a duplicate of each descriptor is kept until the source is removed. Elsewhere no selector can be
/// created; event ports (Solaris, illumos) are not supported.
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
pub struct Selector {
    platform: platform::PlatformSelector,
    /// Whether a [`WaitRequest`](crate::poll::WaitRequest) has just found it without ready sources.
    is_quiet: AtomicBool,
}

impl Selector {
    /// Creates a selector without sources.
    ///
    /// # Errors
    ///
    /// The error of the operating system, for example if no descriptor is left; `Unsupported` where sockets cannot
    /// be polled.
    pub fn new() -> io::Result<Self> {
        Ok(Self { platform: platform::PlatformSelector::new()?, is_quiet: AtomicBool::new(false) })
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
        *self.is_quiet.get_mut() = false;
        self.platform.add(source.as_fd(), token, interest)
    }

    /// Changes the interest in a source that was registered with this token.
    ///
    /// # Errors
    ///
    /// `NotFound` if it is not registered; otherwise the error of the operating system.
    pub fn modify(&mut self, source: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        *self.is_quiet.get_mut() = false;
        self.platform.modify(source.as_fd(), token, interest)
    }

    /// Removes a source. Call it before the source is closed.
    ///
    /// # Errors
    ///
    /// `NotFound` if it is not registered.
    pub fn remove(&mut self, source: &impl AsFd, token: u64) -> io::Result<()> {
        self.platform.remove(source.as_fd(), token)
    }

    /// Waits until a source is ready, `timeout` has passed (`None`: no limit), a [waker](Self::waker) was used or, on Linux, a
    /// signal arrives, and replaces the content of `found` by the ready sources.
    ///
    /// Right after a [`WaitRequest`](crate::poll::WaitRequest) that found nothing ready, a wait with a timeout of zero does not ask
    /// the system again. If many are ready, some are left to the next wait. A broken source is ready in both directions, except with `kqueue`
    /// whatever its interest; reading or writing returns the error. Timeouts may be rounded up to milliseconds.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn wait(&mut self, timeout: Option<Duration>, found: &mut Vec<(u64, Ready)>) -> io::Result<()> {
        found.clear();
        let was_quiet = core::mem::take(self.is_quiet.get_mut());
        if was_quiet && timeout == Some(Duration::ZERO) {
            return Ok(());
        }
        self.platform.wait(timeout, found)
    }

    /// Returns a waker that ends a wait early, as [`Duplex::waker`](crate::io::Duplex::waker) does.
    ///
    /// # Errors
    ///
    /// The error of the operating system, for example if no descriptor is left.
    pub fn waker(&mut self) -> io::Result<Waker> {
        self.platform.waker()
    }

    #[cfg(unix)]
    pub(crate) const fn quiet_flag(&self) -> &AtomicBool {
        &self.is_quiet
    }
}

/// Readable when a wait would find a source, or a waker was used.
///
/// So one reactor can watch all sources through this descriptor, and call [`wait`](Selector::wait) with a timeout of
/// zero.
#[cfg(unix)]
impl AsFd for Selector {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.platform.as_fd()
    }
}

/// Token of the notifier.
const NOTIFIER_TOKEN: u64 = u64::MAX;

/// No wait: here sockets cannot be polled.
#[cfg(not(any(unix, windows)))]
mod platform {
    use alloc::vec::Vec;
    use core::convert::Infallible;

    use super::*;

    /// Whatever there is in place of a source.
    #[expect(unnameable_types, reason = "only a bound, as elsewhere")]
    pub trait AsFd {
        fn as_fd(&self) {}
    }

    impl<T> AsFd for T {}

    #[derive(Debug)]
    pub(super) struct PlatformSelector(Infallible);

    impl PlatformSelector {
        pub(super) fn new() -> io::Result<Self> {
            let why = "this platform cannot wait for several sockets at once";
            Err(io::Error::new(ErrorKind::Unsupported, why))
        }

        pub(super) fn add(&mut self, (): (), _: u64, _: Interest) -> io::Result<()> {
            match self.0 {}
        }

        pub(super) fn modify(&mut self, (): (), _: u64, _: Interest) -> io::Result<()> {
            match self.0 {}
        }

        pub(super) fn remove(&mut self, (): (), _: u64) -> io::Result<()> {
            match self.0 {}
        }

        pub(super) fn wait(&mut self, _: Option<Duration>, _: &mut Vec<(u64, Ready)>) -> io::Result<()> {
            match self.0 {}
        }

        pub(super) fn waker(&mut self) -> io::Result<Waker> {
            match self.0 {}
        }
    }
}
