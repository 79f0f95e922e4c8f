//! Sockets as byte streams.

use core::task::Waker;
use core::time::Duration;
use std::io::{self, IoSlice};
use std::net::{Shutdown, TcpStream};

use crate::io::{Duplex, HungUp};
#[cfg(unix)]
use crate::poll::Descriptors;
use crate::poll::{Interest, Ready};

#[cfg(unix)]
pub use polled::SocketControl;

#[cfg(unix)]
use polled as platform;
#[cfg(not(unix))]
use threads as platform;

/// A connected TCP or Unix socket.
///
/// The socket must not be shared: on Unix it is made non-blocking, which also affects its clones.
#[derive(Debug)]
pub struct Socket(platform::PlatformSocket);

impl Socket {
    /// Wraps a TCP connection and sets `TCP_NODELAY`, so that small messages leave immediately.
    ///
    /// # Errors
    ///
    /// The error of the operating system if an option cannot be set, because the connection is gone.
    pub fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        platform::PlatformSocket::tcp(stream).map(Self)
    }

    /// Wraps a Unix socket connection.
    ///
    /// # Errors
    ///
    /// The error of the operating system if it cannot be made non-blocking.
    #[cfg(unix)]
    pub fn unix(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        platform::PlatformSocket::unix(stream).map(Self)
    }
}

#[cfg(unix)]
impl Socket {
    /// Returns a control of this socket for the server that accepted it. The use of the socket is recorded from now on.
    pub fn control(&mut self) -> SocketControl {
        self.0.control()
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for Socket {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Duplex for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(parts)
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        self.0.wait(interest, timeout)
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.0.waker()
    }

    #[cfg(unix)]
    fn descriptors(&self) -> Descriptors<'_> {
        self.0.descriptors()
    }

    fn hung_up(&mut self) -> io::Result<HungUp> {
        self.0.hung_up()
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.0.shutdown_write()
    }

    fn flush(&mut self, timeout: Duration) -> io::Result<()> {
        self.0.flush(timeout)
    }
}

#[cfg(unix)]
mod polled {
    use alloc::sync::{Arc, Weak};
    use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::io::{ErrorKind, Read, Write};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;
    use crate::io::retry_on_interrupt;
    use crate::poll::{LazyNotifier, hung_up, wait_stream};

    #[derive(Debug)]
    pub(super) struct PlatformSocket {
        handle: Arc<SocketHandle>,
        notifier: LazyNotifier,
        /// For a server that asked for a [`SocketControl`].
        usage: Option<Arc<SocketUsage>>,
    }

    #[derive(Debug)]
    enum SocketHandle {
        Tcp(TcpStream),
        Unix(UnixStream),
    }

    /// Calls the same method on either kind of stream.
    macro_rules! on {
        ($handle:expr, $stream:ident => $call:expr) => {
            match &*$handle {
                SocketHandle::Tcp($stream) => $call,
                SocketHandle::Unix($stream) => $call,
            }
        };
    }

    impl PlatformSocket {
        pub(super) fn tcp(stream: TcpStream) -> io::Result<Self> {
            stream.set_nonblocking(true)?;
            Ok(Self::new(SocketHandle::Tcp(stream)))
        }

        pub(super) fn unix(stream: UnixStream) -> io::Result<Self> {
            stream.set_nonblocking(true)?;
            Ok(Self::new(SocketHandle::Unix(stream)))
        }

        fn new(handle: SocketHandle) -> Self {
            Self { handle: Arc::new(handle), notifier: LazyNotifier::default(), usage: None }
        }

        pub(super) fn control(&mut self) -> SocketControl {
            let usage = self.usage.get_or_insert_with(|| Arc::new(SocketUsage::new()));
            SocketControl { handle: Arc::downgrade(&self.handle), usage: Arc::clone(usage) }
        }

        fn record_write(&self, written: io::Result<usize>) -> io::Result<usize> {
            if let (Some(usage), Ok(1..)) = (&self.usage, &written) {
                usage.record();
            }
            written
        }

        pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
            on!(self.handle, stream => stream.as_fd())
        }
    }

    /// Recorded use of a socket.
    #[derive(Debug)]
    struct SocketUsage {
        begun: Instant,
        /// Time of the last read or write, in milliseconds since `begun`.
        last_used: AtomicU64,
        /// True after the end of a line was read.
        has_line: AtomicBool,
    }

    impl SocketUsage {
        fn new() -> Self {
            Self { begun: Instant::now(), last_used: AtomicU64::new(0), has_line: AtomicBool::new(false) }
        }

        fn record(&self) {
            let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.last_used.store(now, Ordering::Relaxed);
        }
    }

    /// The use of a socket, and the means to end it, for the server that accepted it.
    #[derive(Debug)]
    pub struct SocketControl {
        handle: Weak<SocketHandle>,
        usage: Arc<SocketUsage>,
    }

    impl SocketControl {
        /// Returns the time since the peer was accepted, if it has not sent a whole line yet.
        pub fn silence(&self) -> Option<Duration> {
            let has_line = self.usage.has_line.load(Ordering::Relaxed);
            (!has_line).then(|| self.usage.begun.elapsed())
        }

        /// Returns the time since the last byte in either direction.
        pub fn idle_time(&self) -> Duration {
            let last_used = Duration::from_millis(self.usage.last_used.load(Ordering::Relaxed));
            self.usage.begun.elapsed().saturating_sub(last_used)
        }

        /// Ends the stream in both directions: the peer and the user of the socket read the end.
        pub fn close(&self) {
            if let Some(handle) = self.handle.upgrade() {
                // Fails if the peer has already closed the connection.
                let _ = on!(handle, stream => stream.shutdown(Shutdown::Both));
            }
        }
    }

    impl Duplex for PlatformSocket {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            let read = retry_on_interrupt(|| on!(self.handle, stream => (&mut &*stream).read(buf)));
            if let (Some(usage), Ok(count @ 1..)) = (&self.usage, &read) {
                usage.record();
                if !usage.has_line.load(Ordering::Relaxed) && buf[..*count].contains(&b'\n') {
                    usage.has_line.store(true, Ordering::Relaxed);
                }
            }
            read
        }

        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.record_write(retry_on_interrupt(|| on!(self.handle, stream => (&mut &*stream).write(bytes))))
        }

        fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
            match parts {
                // `write` is cheaper than `writev` for a single part.
                [part] => self.write(part),
                parts => self.record_write(retry_on_interrupt(
                    || on!(self.handle, stream => (&mut &*stream).write_vectored(parts)),
                )),
            }
        }

        fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
            wait_stream(self.as_fd(), interest, timeout, self.notifier.notifier())
        }

        fn waker(&mut self) -> io::Result<Waker> {
            self.notifier.waker()
        }

        fn descriptors(&self) -> Descriptors<'_> {
            Descriptors::both(self.as_fd())
        }

        fn hung_up(&mut self) -> io::Result<HungUp> {
            let fd = self.as_fd();
            hung_up(fd, Some(fd))
        }

        fn shutdown_write(&mut self) -> io::Result<()> {
            match on!(self.handle, stream => stream.shutdown(Shutdown::Write)) {
                // The peer has already closed the connection.
                Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
                outcome => outcome,
            }
        }
    }
}

#[cfg(not(unix))]
mod threads {
    use std::io::Write;

    use super::*;
    use crate::io::Threaded;

    #[derive(Debug)]
    pub(super) struct PlatformSocket(Threaded);

    impl PlatformSocket {
        pub(super) fn tcp(stream: TcpStream) -> io::Result<Self> {
            Threaded::new(stream.try_clone()?, ShutdownOnDrop(stream)).map(Self)
        }
    }

    /// Shuts down the write direction when the writing thread drops it; closing one of two clones would not.
    struct ShutdownOnDrop(TcpStream);

    impl Write for ShutdownOnDrop {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    impl Drop for ShutdownOnDrop {
        fn drop(&mut self) {
            // Fails if the peer has already closed the connection.
            let _ = self.0.shutdown(Shutdown::Write);
        }
    }

    impl Duplex for PlatformSocket {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.0.read(buf)
        }

        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }

        fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
            self.0.wait(interest, timeout)
        }

        fn waker(&mut self) -> io::Result<Waker> {
            self.0.waker()
        }

        fn hung_up(&mut self) -> io::Result<HungUp> {
            self.0.hung_up()
        }

        fn shutdown_write(&mut self) -> io::Result<()> {
            self.0.shutdown_write()
        }

        fn flush(&mut self, timeout: Duration) -> io::Result<()> {
            self.0.flush(timeout)
        }
    }
}
