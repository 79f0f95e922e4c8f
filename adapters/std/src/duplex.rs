//! The one interface that a loop needs from a byte stream

use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind, IoSlice};
#[cfg(unix)]
use std::os::fd::BorrowedFd;

/// A pair of byte directions that one thread can drive at once
///
/// `read` and `write` do what can be done now and answer [`ErrorKind::WouldBlock`] when that is nothing;
/// `wait` is the only call that sleeps (one exception: see [`wait`](Self::wait)). A loop that always offers
/// both directions cannot hang, however full the pipes are:
///
/// ```
/// use std::io::{self, ErrorKind};
/// use mcp_std::{Duplex, Interest};
///
/// /// Sends `out` and reads until the peer ends its side.
/// fn exchange(io: &mut impl Duplex, mut out: &[u8]) -> io::Result<Vec<u8>> {
///     let (mut answer, mut buf) = (Vec::new(), [0; 4096]);
///     loop {
///         match io.write(out) {
///             Ok(n) => out = &out[n..],
///             Err(e) if e.kind() == ErrorKind::WouldBlock => {}
///             Err(e) => return Err(e),
///         }
///         let ready = io.wait(Interest { read: true, write: !out.is_empty() }, None)?;
///         if ready.readable {
///             match io.read(&mut buf) {
///                 Ok(0) => return Ok(answer),
///                 Ok(n) => answer.extend_from_slice(&buf[..n]),
///                 Err(e) if e.kind() == ErrorKind::WouldBlock => {}
///                 Err(e) => return Err(e),
///             }
///         }
///     }
/// }
///
/// let (mut near, mut far) = mcp_std::memory_pair(8);
/// far.write(b"hello")?;
/// far.shutdown_write()?;
/// assert_eq!(exchange(&mut near, b"hi")?, b"hello");
/// # io::Result::Ok(())
/// ```
///
/// Interrupted system calls are handled inside; `Interrupted` is never returned.
pub trait Duplex {
    /// Reads what is there, up to `buf.len()` bytes; `Ok(0)` (for a non-empty `buf`) is the end of the stream
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing is there now. Anything else ends the stream; [`is_peer_gone`] tells a peer
    /// that left from a real failure.
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize>;

    /// Writes as much as fits now and returns how much that was; more than 0 when `bytes` is not empty
    ///
    /// May be tried without a `wait` before it: that is the fast path.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing fits now. Anything else ends this direction; [`is_peer_gone`] tells a peer
    /// that left from a real failure. What can still be read then is still there.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Writes from several slices in turn, as [`write`](Self::write) does from one
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match parts.iter().find(|part| !part.is_empty()) {
            Some(part) => self.write(part),
            None => Ok(0),
        }
    }

    /// Waits until a wanted direction can move, or `timeout` has passed (`None`: no limit)
    ///
    /// May return early with nothing ready (a signal arrived, or somebody used a [waker](Self::waker)), and may call a direction ready that turns out
    /// not to be: callers loop. A direction that ended or failed is ready, so that `read` or `write` can say
    /// so; stop asking for it after that. Data that a peer left behind when it hung up is readable first.
    ///
    /// When only reading is wanted and there is no timeout, an implementation on a blocking handle may return
    /// at once and let `read` do the waiting: one system call less. It does not while somebody holds a waker.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when nothing is wanted, there is no timeout, and nobody ever asked for a waker, as that would
    /// never return; otherwise what the operating system says.
    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready>;

    /// What ends a [`wait`](Self::wait) early, from any thread: the one under way, or else the next one
    ///
    /// However often it is woken between two waits, one wait ends early. What was written to memory before the wake is
    /// there to be seen after that wait. All wakers of a stream are clones of one; they may outlive it. What they take
    /// (on Unix a descriptor, and a place in every wait from then on) is taken when the first one is asked for.
    ///
    /// # Errors
    ///
    /// What the operating system says, which may have no descriptor left. `Unsupported` where a wait cannot be ended,
    /// which is what streams say that do not say otherwise.
    fn waker(&mut self) -> io::Result<Waker> {
        Err(io::Error::new(ErrorKind::Unsupported, "a wait for this stream cannot be ended from elsewhere"))
    }

    /// What to watch instead of calling [`wait`](Self::wait), for a loop that waits for other things besides
    ///
    /// Streams that are not made of descriptors have none.
    #[cfg(unix)]
    fn descriptors(&self) -> Descriptors<'_> {
        Descriptors::default()
    }

    /// Which directions the peer has given up, as far as that shows without reading or writing; never waits
    ///
    /// For a loop that does not read for a while, and would not notice otherwise that nobody is there any more. What
    /// the peer wrote before may still be there to be read. Streams that cannot tell say nothing.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    fn hung_up(&mut self) -> io::Result<HungUp> {
        Ok(HungUp::default())
    }

    /// Ends our direction: the peer reads the end of the stream after what was written; reading goes on
    ///
    /// Writing afterwards fails with `BrokenPipe`. Calling it again does nothing.
    ///
    /// # Errors
    ///
    /// What the operating system says; a peer that is gone already is no error.
    fn shutdown_write(&mut self) -> io::Result<()>;

    /// Waits until what `write` accepted has left this process, at most for `timeout`
    ///
    /// Only streams that write behind the caller's back ([`Threaded`](crate::Threaded)) have anything to do
    /// here. Call it before the process ends.
    ///
    /// # Errors
    ///
    /// `TimedOut` when bytes are left; the write error when there was one.
    fn flush(&mut self, timeout: Duration) -> io::Result<()> {
        let _ = timeout;
        Ok(())
    }
}

/// What to wait for
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Interest {
    /// Wake when something can be read, or reading ended
    pub read: bool,
    /// Wake when something can be written, or writing failed
    pub write: bool,
}

impl Interest {
    /// Reading alone
    pub const READ: Self = Self { read: true, write: false };
    /// Writing alone
    pub const WRITE: Self = Self { read: false, write: true };
    /// Either
    pub const BOTH: Self = Self { read: true, write: true };

    /// Refuses a wait that could never end
    pub(crate) fn check(self, timeout: Option<Duration>, wakeable: impl FnOnce() -> bool) -> io::Result<()> {
        if self.read || self.write || timeout.is_some() || wakeable() {
            Ok(())
        } else {
            Err(io::Error::new(ErrorKind::InvalidInput, "waiting for nothing, without a timeout"))
        }
    }
}

/// What a wait found
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ready {
    /// `read` will say something: bytes, the end, or a failure
    pub readable: bool,
    /// `write` will say something: bytes taken, or a failure
    pub writable: bool,
}

impl Ready {
    /// Whether nothing became ready: the timeout passed, or a signal arrived
    #[must_use]
    pub fn is_empty(self) -> bool {
        !self.readable && !self.writable
    }
}

/// The descriptors that a stream is made of, for a reactor
///
/// They may be one and the same. They are what they are until [`shutdown_write`](Duplex::shutdown_write) or
/// [`wait`](Duplex::wait) is called, either of which may close one: whoever watches duplicates has to drop those too, or
/// the peer does not see the end. `epoll` refuses what is always ready, such as regular files, with `PermissionDenied`.
#[cfg(unix)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Descriptors<'stream> {
    /// Readable when [`read`](Duplex::read) has something to say
    pub read: Option<BorrowedFd<'stream>>,
    /// Writable when [`write`](Duplex::write) has something to say; none once our direction was ended
    pub write: Option<BorrowedFd<'stream>>,
    /// Readable when the stream has something to do for itself, such as to take in what a server process writes to its
    /// stderr: [`wait`](Duplex::wait) for nothing with a timeout of zero does it
    pub aside: Option<BorrowedFd<'stream>>,
}

/// Which directions of a stream the peer has given up
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HungUp {
    /// The peer writes nothing more; what it wrote may not have been read yet
    pub input: bool,
    /// The peer reads nothing more: what is written is lost
    pub output: bool,
}

/// Whether `error` says that the peer has left, rather than that something is broken here
#[must_use]
pub fn is_peer_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe
            | ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::NotConnected
            | ErrorKind::UnexpectedEof
    )
}

/// Repeats a call that a signal interrupted
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<D: Duplex + ?Sized> Duplex for $pointer {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                (**self).read(buf)
            }
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                (**self).write(bytes)
            }
            fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
                (**self).write_vectored(parts)
            }
            fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
                (**self).wait(interest, timeout)
            }
            fn waker(&mut self) -> io::Result<Waker> {
                (**self).waker()
            }
            #[cfg(unix)]
            fn descriptors(&self) -> Descriptors<'_> {
                (**self).descriptors()
            }
            fn hung_up(&mut self) -> io::Result<HungUp> {
                (**self).hung_up()
            }
            fn shutdown_write(&mut self) -> io::Result<()> {
                (**self).shutdown_write()
            }
            fn flush(&mut self, timeout: Duration) -> io::Result<()> {
                (**self).flush(timeout)
            }
        }
    )*};
}

forward!(&mut D, Box<D>);
