//! Sockets as streams

use core::task::Waker;
use core::time::Duration;
use std::io::{self, IoSlice};
use std::net::{Shutdown, TcpStream};

#[cfg(unix)]
use crate::duplex::Descriptors;
use crate::duplex::{Duplex, HungUp, Interest, Ready};

#[cfg(unix)]
use polled as platform;
#[cfg(not(unix))]
use threads as platform;

/// A connected TCP or Unix socket
///
/// The socket must not be shared: on Unix it is made non-blocking, which holds for its clones too.
#[derive(Debug)]
pub struct Socket(platform::Stream);

impl Socket {
    /// Takes a TCP connection; small writes leave at once (`TCP_NODELAY`), as messages wait for answers
    ///
    /// # Errors
    ///
    /// When the options cannot be set: the connection is gone.
    pub fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        platform::Stream::tcp(stream).map(Self)
    }

    /// Takes a Unix socket connection
    ///
    /// # Errors
    ///
    /// When it cannot be made non-blocking.
    #[cfg(unix)]
    pub fn unix(stream: std::os::unix::net::UnixStream) -> io::Result<Self> {
        platform::Stream::unix(stream).map(Self)
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
    use crate::alarm::Alarm;
    use crate::duplex::uninterrupted;
    use crate::readiness::{Handles, hung_up};

    #[derive(Debug)]
    pub(super) struct Stream {
        handle: Handle,
        alarm: Alarm,
    }

    #[derive(Debug)]
    enum Handle {
        Tcp(TcpStream),
        Unix(UnixStream),
    }

    /// Calls the same method on whichever stream it is
    macro_rules! on {
        ($handle:expr, $stream:ident => $call:expr) => {
            match $handle {
                Handle::Tcp($stream) => $call,
                Handle::Unix($stream) => $call,
            }
        };
    }

    impl Stream {
        pub(super) fn tcp(stream: TcpStream) -> io::Result<Self> {
            stream.set_nonblocking(true)?;
            Ok(Self { handle: Handle::Tcp(stream), alarm: Alarm::default() })
        }

        pub(super) fn unix(stream: UnixStream) -> io::Result<Self> {
            stream.set_nonblocking(true)?;
            Ok(Self { handle: Handle::Unix(stream), alarm: Alarm::default() })
        }

        pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
            on!(&self.handle, stream => stream.as_fd())
        }
    }

    impl Duplex for Stream {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            uninterrupted(|| on!(&mut self.handle, stream => stream.read(buf)))
        }

        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            uninterrupted(|| on!(&mut self.handle, stream => stream.write(bytes)))
        }

        fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
            match parts {
                // One part is sent with less ado.
                [part] => self.write(part),
                parts => uninterrupted(|| on!(&mut self.handle, stream => stream.write_vectored(parts))),
            }
        }

        fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
            let bell = self.alarm.bell();
            interest.check(timeout, || bell.is_some())?;
            let fd = self.as_fd();
            let handles = Handles {
                read: interest.read.then_some(fd),
                write: interest.write.then_some(fd),
                aside: None,
                bell,
            };
            let found = handles.wait(timeout)?;
            Ok(Ready { readable: found.read, writable: found.write })
        }

        fn waker(&mut self) -> io::Result<Waker> {
            self.alarm.waker()
        }

        fn descriptors(&self) -> Descriptors<'_> {
            let fd = Some(self.as_fd());
            Descriptors { read: fd, write: fd, aside: None }
        }

        fn hung_up(&mut self) -> io::Result<HungUp> {
            let fd = self.as_fd();
            hung_up(fd, Some(fd))
        }

        fn shutdown_write(&mut self) -> io::Result<()> {
            match on!(&self.handle, stream => stream.shutdown(Shutdown::Write)) {
                // The peer was faster.
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
    use crate::threaded::Threaded;

    #[derive(Debug)]
    pub(super) struct Stream(Threaded);

    impl Stream {
        pub(super) fn tcp(stream: TcpStream) -> io::Result<Self> {
            Threaded::new(stream.try_clone()?, Writer(stream)).map(Self)
        }
    }

    /// Ends our direction when the writing thread lets go of it: closing one of two clones would not
    struct Writer(TcpStream);

    impl Write for Writer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }

    impl Drop for Writer {
        fn drop(&mut self) {
            // Fails when the peer was faster.
            let _ = self.0.shutdown(Shutdown::Write);
        }
    }

    impl Duplex for Stream {
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
