//! Waiting for descriptors, and ending such a wait from another thread.

#[cfg(unix)]
mod current;
#[cfg(unix)]
mod notifier;
#[cfg(unix)]
mod poller;
mod selector;
mod wait_request;

#[cfg(unix)]
pub use current::{PollHandles, PollOutcome, is_ready};
#[cfg(unix)]
pub use current::{block_on_poller, current_poller, current_poller_id};
#[cfg(unix)]
pub(crate) use current::{hung_up, wait_any, wait_stream};
#[cfg(unix)]
pub(crate) use notifier::LazyNotifier;
#[cfg(unix)]
pub use notifier::Notifier;
#[cfg(unix)]
pub use poller::Poller;
pub use selector::Selector;
pub use wait_request::WaitRequest;

use core::time::Duration;
use std::io::{self, ErrorKind};
#[cfg(unix)]
use std::os::fd::BorrowedFd;

/// Returns `None`: a thread has no poller here.
#[cfg(not(unix))]
#[must_use]
pub const fn current_poller_id() -> Option<usize> {
    None
}

/// Longest timeout of one system call, as some systems count milliseconds in an `int`; callers loop.
#[cfg(any(unix, windows))]
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

// Interest in a stream's directions, and what a wait for them found.

/// The directions to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest {
    /// Wait until bytes can be read, or reading has ended.
    pub read: bool,
    /// Wait until bytes can be written, or writing has failed.
    pub write: bool,
}

impl Interest {
    /// Only reading.
    pub const READ: Self = Self { read: true, write: false };
    /// Only writing.
    pub const WRITE: Self = Self { read: false, write: true };
    /// Reading and writing.
    pub const BOTH: Self = Self { read: true, write: true };

    /// Refuses a wait that could never end.
    pub(crate) fn check(self, timeout: Option<Duration>, wakeable: impl FnOnce() -> bool) -> io::Result<()> {
        if self.read || self.write || timeout.is_some() || wakeable() {
            Ok(())
        } else {
            Err(io::Error::new(
                ErrorKind::InvalidInput,
                "a wait without interest, timeout and waker would never end",
            ))
        }
    }
}

/// The directions that a wait found ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready {
    /// `read` will return bytes, the end, or an error.
    pub readable: bool,
    /// `write` will accept bytes or return an error.
    pub writable: bool,
}

impl Ready {
    /// Returns whether nothing is ready, because the timeout passed or a signal arrived.
    #[must_use]
    pub fn is_empty(self) -> bool {
        !self.readable && !self.writable
    }
}

/// The descriptors of a stream, for a reactor.
///
/// Several may be the same descriptor. They stay valid until [`shutdown_write`](crate::io::Duplex::shutdown_write) or
/// [`wait`](crate::io::Duplex::wait) is called, either of which may close one. A reactor that watches duplicates must
/// drop those too, or the peer does not see the end. `epoll` refuses descriptors that are always ready, for example
/// regular files, with `PermissionDenied`.
#[cfg(unix)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Descriptors<'stream> {
    /// Readable when [`read`](crate::io::Duplex::read) can return a result.
    pub read: Option<BorrowedFd<'stream>>,
    /// Writable when [`write`](crate::io::Duplex::write) can return a result; `None` once this direction has ended.
    pub write: Option<BorrowedFd<'stream>>,
    /// Readable when the stream has internal work, for example to read the stderr of a server process.
    ///
    /// A [`wait`](crate::io::Duplex::wait) with empty interest and a timeout of zero does that work.
    pub auxiliary: Option<BorrowedFd<'stream>>,
}

#[cfg(unix)]
impl<'stream> Descriptors<'stream> {
    /// Returns the descriptors of a stream that has one for both directions.
    pub(crate) const fn both(fd: BorrowedFd<'stream>) -> Self {
        Self { read: Some(fd), write: Some(fd), auxiliary: None }
    }
}

/// The directions of a stream that the peer has closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HungUp {
    /// The peer writes nothing more; bytes it wrote before may still be unread.
    pub read_closed: bool,
    /// The peer reads nothing more: written bytes are lost.
    pub write_closed: bool,
}
