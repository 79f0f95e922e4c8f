//! Sockets as byte streams.

use core::task::Waker;
use core::time::Duration;
use std::io::{self, IoSlice};
use std::net::{Shutdown, TcpStream};

#[cfg(unix)]
use crate::adapter::poll::Descriptors;
use crate::adapter::poll::{Interest, Ready};
use crate::io::{Duplex, HungUp};

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
    use std::io::{ErrorKind, Read, Write};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::adapter::poll::LazyNotifier;
    use crate::adapter::poll::{PollHandles, hung_up};
    use crate::io::retry_on_interrupt;

    #[derive(Debug)]
    pub(super) struct PlatformSocket {
        handle: SocketHandle,
        notifier: LazyNotifier,
    }

    #[derive(Debug)]
    enum SocketHandle {
        Tcp(TcpStream),
        Unix(UnixStream),
    }

    /// Calls the same method on either kind of stream.
    macro_rules! on {
        ($handle:expr, $stream:ident => $call:expr) => {
            match $handle {
                SocketHandle::Tcp($stream) => $call,
                SocketHandle::Unix($stream) => $call,
            }
        };
    }

    impl PlatformSocket {
        pub(super) fn tcp(stream: TcpStream) -> io::Result<Self> {
            stream.set_nonblocking(true)?;
            Ok(Self { handle: SocketHandle::Tcp(stream), notifier: LazyNotifier::default() })
        }

        pub(super) fn unix(stream: UnixStream) -> io::Result<Self> {
            stream.set_nonblocking(true)?;
            Ok(Self { handle: SocketHandle::Unix(stream), notifier: LazyNotifier::default() })
        }

        pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
            on!(&self.handle, stream => stream.as_fd())
        }
    }

    impl Duplex for PlatformSocket {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            retry_on_interrupt(|| on!(&mut self.handle, stream => stream.read(buf)))
        }

        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            retry_on_interrupt(|| on!(&mut self.handle, stream => stream.write(bytes)))
        }

        fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
            match parts {
                // `write` is cheaper than `writev` for a single part.
                [part] => self.write(part),
                parts => retry_on_interrupt(|| on!(&mut self.handle, stream => stream.write_vectored(parts))),
            }
        }

        fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
            let notifier = self.notifier.notifier();
            interest.check(timeout, || notifier.is_some())?;
            let fd = self.as_fd();
            let handles = PollHandles {
                read: interest.read.then_some(fd),
                write: interest.write.then_some(fd),
                auxiliary: None,
                notifier,
            };
            let found = handles.wait(timeout)?;
            Ok(Ready { readable: found.read, writable: found.write })
        }

        fn waker(&mut self) -> io::Result<Waker> {
            self.notifier.waker()
        }

        fn descriptors(&self) -> Descriptors<'_> {
            let fd = Some(self.as_fd());
            Descriptors { read: fd, write: fd, auxiliary: None }
        }

        fn hung_up(&mut self) -> io::Result<HungUp> {
            let fd = self.as_fd();
            hung_up(fd, Some(fd))
        }

        fn shutdown_write(&mut self) -> io::Result<()> {
            match on!(&self.handle, stream => stream.shutdown(Shutdown::Write)) {
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
