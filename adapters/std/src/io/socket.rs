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
pub use polled::{Socket, SocketControl};
#[cfg(not(unix))]
pub use selected::Socket;

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

    /// A connected TCP or Unix socket.
    ///
    /// The socket must not be shared: it is made non-blocking, which also affects its clones.
    #[derive(Debug)]
    pub struct Socket {
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

    impl Socket {
        /// Wraps a TCP connection and sets `TCP_NODELAY`, so that small messages leave immediately.
        ///
        /// # Errors
        ///
        /// The error of the operating system if an option cannot be set, because the connection is gone.
        pub fn tcp(stream: TcpStream) -> io::Result<Self> {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(Self::new(SocketHandle::Tcp(stream)))
        }

        /// Wraps a Unix socket connection.
        ///
        /// # Errors
        ///
        /// The error of the operating system if it cannot be made non-blocking.
        pub fn unix(stream: UnixStream) -> io::Result<Self> {
            stream.set_nonblocking(true)?;
            Ok(Self::new(SocketHandle::Unix(stream)))
        }

        fn new(handle: SocketHandle) -> Self {
            Self { handle: Arc::new(handle), notifier: LazyNotifier::default(), usage: None }
        }

        /// Returns a control of this socket for the server that accepted it. The use of the socket is recorded from now on.
        pub fn control(&mut self) -> SocketControl {
            let usage = self.usage.get_or_insert_with(|| Arc::new(SocketUsage::new()));
            SocketControl { handle: Arc::downgrade(&self.handle), usage: Arc::clone(usage) }
        }

        fn record_write(&self, written: io::Result<usize>) -> io::Result<usize> {
            if let (Some(usage), Ok(1..)) = (&self.usage, &written) {
                usage.record();
            }
            written
        }
    }

    impl AsFd for Socket {
        fn as_fd(&self) -> BorrowedFd<'_> {
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

    impl Duplex for Socket {
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
mod selected {
    use std::io::{ErrorKind, Read, Write};

    use super::*;
    use crate::io::retry_on_interrupt;
    use crate::poll::Selector;

    /// A connected TCP socket.
    ///
    /// The socket must not be shared: it is made non-blocking, which also affects its clones.
    // It has a selector of its own, as Windows has no wait for a socket and a waker at once.
    #[derive(Debug)]
    pub struct Socket {
        stream: TcpStream,
        /// Created by the first wait or waker, with the interest that it has registered.
        selector: Option<(Selector, Interest)>,
    }

    impl Socket {
        /// Wraps a TCP connection and sets `TCP_NODELAY`, so that small messages leave immediately.
        ///
        /// # Errors
        ///
        /// The error of the operating system if an option cannot be set, because the connection is gone.
        pub fn tcp(stream: TcpStream) -> io::Result<Self> {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            Ok(Self { stream, selector: None })
        }

        /// Returns the selector with its registered interest, and the stream that it watches.
        fn selector(&mut self) -> io::Result<(&mut Selector, &mut Interest, &TcpStream)> {
            let Self { stream, selector } = self;
            let (selector, registered) = match selector {
                Some(selector) => selector,
                none => none.insert((Selector::new()?, Interest::default())),
            };
            Ok((selector, registered, stream))
        }
    }

    #[cfg(windows)]
    impl std::os::windows::io::AsSocket for Socket {
        fn as_socket(&self) -> std::os::windows::io::BorrowedSocket<'_> {
            self.stream.as_socket()
        }
    }

    impl Duplex for Socket {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            retry_on_interrupt(|| self.stream.read(buf))
        }

        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            retry_on_interrupt(|| self.stream.write(bytes))
        }

        fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
            retry_on_interrupt(|| self.stream.write_vectored(parts))
        }

        fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
            interest.check(timeout, || self.selector.is_some())?;
            let (selector, registered, stream) = self.selector()?;
            let has_changed = *registered != interest;
            if has_changed {
                // Without interest it is not watched: a broken socket would be reported at once, again and again.
                match (*registered == Interest::default(), interest == Interest::default()) {
                    (true, _) => selector.add(stream, TOKEN, interest)?,
                    (_, true) => selector.remove(stream, TOKEN)?,
                    _ => selector.modify(stream, TOKEN, interest)?,
                }
                *registered = interest;
            }
            let mut found = Vec::new();
            selector.wait(timeout, &mut found)?;
            if has_changed && found.is_empty() && timeout == Some(Duration::ZERO) {
                // The first wait after a change may see the end of the earlier request alone.
                selector.wait(timeout, &mut found)?;
            }
            let ready = found.first().map(|(_, ready)| *ready).unwrap_or_default();
            // A broken socket is ready in both directions.
            Ok(Ready {
                readable: ready.readable && interest.read,
                writable: ready.writable && interest.write,
            })
        }

        fn waker(&mut self) -> io::Result<Waker> {
            self.selector()?.0.waker()
        }

        fn hung_up(&mut self) -> io::Result<HungUp> {
            match self.stream.peek(&mut [0]) {
                Ok(0) => Ok(HungUp { read_closed: true, write_closed: false }),
                Ok(_) => Ok(HungUp::default()),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    Ok(HungUp::default())
                }
                Err(_) => Ok(HungUp { read_closed: true, write_closed: true }),
            }
        }

        fn shutdown_write(&mut self) -> io::Result<()> {
            match self.stream.shutdown(Shutdown::Write) {
                // The peer has already closed the connection.
                Err(error) if error.kind() == ErrorKind::NotConnected => Ok(()),
                outcome => outcome,
            }
        }
    }

    /// Token of the socket in its selector.
    const TOKEN: u64 = 0;
}
