//! Many descriptors at once

#[cfg(target_os = "linux")]
mod epoll;
#[cfg(any(test, not(target_os = "linux")))]
mod polled;
#[cfg(test)]
mod tests;

use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;

#[cfg(target_os = "linux")]
use epoll as platform;
#[cfg(not(target_os = "linux"))]
use polled as platform;

use crate::duplex::{Interest, Ready};

/// A wait for many sockets
///
/// Each is known by a token of its owner's choice; one that is used again for another socket is told for that one alone.
///
/// On Linux this is `epoll`, and a wait costs what is ready. Elsewhere on Unix it is one `poll(2)` each time, and a
/// duplicate of each descriptor is kept until it is removed; where sockets cannot be polled there is none.
///
/// ```
/// # #[cfg(unix)] {
/// use std::net::TcpStream;
/// use mcp_std::{Interest, Listener, Selector};
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
pub struct Selector(platform::Selector);

impl Selector {
    /// Nothing is waited for yet
    ///
    /// # Errors
    ///
    /// What the operating system says, which may have no descriptor left; `Unsupported` where there is none.
    pub fn new() -> io::Result<Self> {
        platform::Selector::new().map(Self)
    }

    /// Waits for one more; for a listener, a client that wants to connect counts as readable
    ///
    /// # Errors
    ///
    /// `AlreadyExists` when it is waited for; `InvalidInput` for the token `u64::MAX`; what the operating system says.
    pub fn add(&mut self, source: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        if token == BELL {
            return Err(io::Error::new(ErrorKind::InvalidInput, "the last token is taken"));
        }
        self.0.add(source.as_fd(), token, interest)
    }

    /// Waits for something else with one that was added with this token
    ///
    /// # Errors
    ///
    /// `NotFound` when it was not added; what the operating system says.
    pub fn modify(&mut self, source: &impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.0.modify(source.as_fd(), token, interest)
    }

    /// Waits for it no more; to be called before it is closed
    ///
    /// # Errors
    ///
    /// `NotFound` when it was not added.
    pub fn remove(&mut self, source: &impl AsFd, token: u64) -> io::Result<()> {
        self.0.remove(source.as_fd(), token)
    }

    /// Waits until one can move, `timeout` has passed (`None`: no limit), a [waker](Self::waker) was used or a signal
    /// arrived; what can takes the place of what is in `found`
    ///
    /// Of many that can, some are left to the next wait. One that is broken can move in both directions, wanted or not:
    /// reading or writing says what is wrong with it. Timeouts may be rounded up to milliseconds.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn wait(&mut self, timeout: Option<Duration>, found: &mut Vec<(u64, Ready)>) -> io::Result<()> {
        found.clear();
        self.0.wait(timeout, found)
    }

    /// What ends a wait early, as [`Duplex::waker`](crate::Duplex::waker) does
    ///
    /// # Errors
    ///
    /// What the operating system says, which may have no descriptor left.
    pub fn waker(&mut self) -> io::Result<Waker> {
        self.0.waker()
    }
}

/// Readable when a wait would find something, or was woken: so one reactor can wait for all of them at once, and call
/// [`wait`](Selector::wait) with a timeout of zero
#[cfg(target_os = "linux")]
impl AsFd for Selector {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The token of what wakers ring
const BELL: u64 = u64::MAX;
