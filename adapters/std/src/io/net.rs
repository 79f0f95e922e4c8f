//! TCP listeners, and connecting sockets.

use alloc::sync::{Arc, Weak};
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::io::Socket;
use crate::io::retry_on_interrupt;

/// A TCP listener that never blocks.
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Listens on the first address that is available; with port 0 the system chooses a port.
    ///
    /// # Errors
    ///
    /// The error of the operating system for the last address; the text names all addresses that were tried.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        let addresses: Vec<_> = address.to_socket_addrs()?.collect();
        let listener = TcpListener::bind(addresses.as_slice()).map_err(|error| {
            let tried: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            io::Error::new(error.kind(), format!("cannot listen at {}: {error}", tried.join(", ")))
        })?;
        listener.set_nonblocking(true)?;
        // Raises std's backlog of 128: a client that is dropped from it would retry only after a second.
        rustix::net::listen(&listener, BACKLOG)?;
        Ok(Self(listener))
    }

    /// Returns the address that the listener is bound to.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// Accepts the next connection, with the address of the client; `None` if none is waiting.
    ///
    /// # Errors
    ///
    /// The error of the operating system. [`is_resource_exhausted`] detects errors that pass when connections are
    /// closed.
    pub fn accept(&self) -> io::Result<Option<(Socket, SocketAddr)>> {
        loop {
            match retry_on_interrupt(|| self.0.accept()) {
                // Setting the options fails only if the client has disconnected already.
                Ok((stream, address)) => {
                    if let Ok(socket) = Socket::tcp(stream) {
                        return Ok(Some((socket, address)));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if crate::io::is_peer_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Listener {
    /// Returns whether a connection is waiting. [`accept`](Self::accept) does not tell without a free descriptor.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

#[cfg(unix)]
impl std::os::fd::AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(windows)]
impl std::os::windows::io::AsSocket for Listener {
    fn as_socket(&self) -> BorrowedFd<'_> {
        self.0.as_socket()
    }
}

/// The open connections of a server that has a thread for each, up to a number. Clones are the same.
///
/// At that number a new one takes the place of the oldest one that is silent, as all are until they are [busy](OpenConnection::set_busy):
/// connections that send nothing do not lock others out.
#[derive(Clone, Debug)]
pub struct OpenConnections {
    limit: usize,
    /// In the order of their arrival.
    open: Arc<Mutex<Vec<Weak<Closer>>>>,
}

/// The place of an open connection, which is free when this is dropped.
#[derive(Debug)]
pub struct OpenConnection(Arc<Closer>);

/// What closes a connection that is silent.
type Closer = Mutex<Option<TcpStream>>;

impl OpenConnections {
    /// Creates the set, for this number of connections.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, open: Arc::default() }
    }

    /// Takes a connection in. Returns its place, or `None` if all others are busy: then it is to be closed.
    #[must_use]
    pub fn admit(&self, stream: &TcpStream) -> Option<OpenConnection> {
        let mut open = lock(&self.open);
        open.retain(|one| one.strong_count() > 0);
        if open.len() >= self.limit {
            let take = |one: &Weak<Closer>| lock(&*one.upgrade()?).take();
            let (index, closer) =
                open.iter().enumerate().find_map(|(index, one)| Some((index, take(one)?)))?;
            // Its thread reads the end.
            let _ = closer.shutdown(Shutdown::Both);
            open.remove(index);
        }
        // Without a descriptor for it, it cannot be closed for another one.
        let place = Arc::new(Mutex::new(stream.try_clone().ok()));
        open.push(Arc::downgrade(&place));
        Some(OpenConnection(place))
    }

    /// Returns whether no connection is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        lock(&self.open).iter().all(|one| one.strong_count() == 0)
    }
}

impl OpenConnection {
    /// Keeps the connection open from now on, whatever others come: its request has arrived.
    pub fn set_busy(&self) {
        *lock(&self.0) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns whether `error` means that this process or machine has no resources for another connection now.
#[must_use]
pub fn is_resource_exhausted(error: &io::Error) -> bool {
    #[cfg(not(windows))]
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    #[cfg(windows)]
    let exhausted = [Errno::MFILE, Errno::NOBUFS];
    exhausted.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

impl Socket {
    /// Begins to connect without waiting.
    ///
    /// Once the socket is writable, [`connect_result`](Self::connect_result) returns the outcome.
    ///
    /// # Errors
    ///
    /// The error of the operating system, as far as it is known by then.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        // Not every system reaches IPv4 by a socket for IPv6.
        let mapped = match address {
            SocketAddr::V6(six) => six.ip().to_ipv4_mapped(),
            SocketAddr::V4(_) => None,
        };
        let address = mapped.map_or(address, |four| (four, address.port()).into());
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = tcp_socket(family)?;
        // `Socket::tcp` makes the socket non-blocking.
        let connecting = Self::tcp(socket.into())?;
        match rustix::net::connect(&connecting, &address) {
            // An interrupted connect continues in the background.
            Ok(()) | Err(CONNECTING | Errno::INTR) => Ok(connecting),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the outcome of [`connect`](Self::connect).
    ///
    /// # Errors
    ///
    /// The reason why there is no connection.
    pub fn connect_result(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(self)??)
    }
}

impl Socket {
    /// Resets the connection when it is dropped, so that the peer does not mistake its end for an orderly one.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn set_reset_on_drop(&self) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(self, Some(Duration::ZERO))?)
    }

    /// Lets the system probe a TCP peer that is silent for long, so that one that vanished is noticed.
    ///
    /// On Linux that takes two minutes.
    pub(crate) fn probe_silent_peer(&self) {
        // Without it the connection works, and only stays open for longer.
        let _ = sockopt::set_socket_keepalive(self, true);
        #[cfg(target_os = "linux")]
        {
            let _ = sockopt::set_tcp_keepidle(self, Duration::from_secs(60));
            let _ = sockopt::set_tcp_keepintvl(self, Duration::from_secs(15));
            let _ = sockopt::set_tcp_keepcnt(self, 4);
        }
    }

    /// Returns whether bytes, or the end of the input, have arrived and were not read.
    pub fn has_input(&self) -> bool {
        let mut fds = [PollFd::new(self, PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

/// Creates a socket that child processes do not inherit.
#[cfg(not(any(target_vendor = "apple", windows)))]
fn tcp_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(family, SocketType::STREAM, rustix::net::SocketFlags::CLOEXEC, None)?)
}

/// Creates a socket that child processes do not inherit, unless one is started between the two calls.
#[cfg(target_vendor = "apple")]
fn tcp_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    Ok(socket)
}

/// Creates a socket that child processes do not inherit, unless one is started between the two calls.
#[cfg(windows)]
fn tcp_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    // std does this for its own sockets alone. The system counts the calls, so once is enough.
    static STARTUP: std::sync::Once = std::sync::Once::new();
    STARTUP.call_once(|| {
        // If it fails, so does the socket.
        let _ = rustix::net::wsa_startup();
    });
    let inheritable = rustix::net::socket(family, SocketType::STREAM, None)?;
    // A duplicate is not inherited.
    rustix::fd::AsFd::as_fd(&inheritable).try_clone_to_owned()
}

/// Says that a connect continues in the background.
const CONNECTING: Errno = if cfg!(windows) { Errno::WOULDBLOCK } else { Errno::INPROGRESS };

/// Connections that may wait to be accepted, if the system allows as many.
const BACKLOG: i32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpStream;

    #[test]
    #[cfg_attr(windows, ignore = "Wine ends the stream before it resets the connection")]
    fn reset_on_drop_is_seen_as_an_error() {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        for resets in [true, false] {
            let mut client = TcpStream::connect(listener.address().unwrap()).unwrap();
            let server = loop {
                if let Some((socket, _)) = listener.accept().unwrap() {
                    break socket;
                }
            };
            if resets {
                server.set_reset_on_drop().unwrap();
            }
            drop(server);
            let end = client.read(&mut [0; 8]);
            assert_eq!(end.is_err(), resets, "{end:?}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn listener_queues_more_than_std_backlog() {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        let address = listener.address().unwrap();
        // None is accepted: a client beyond the backlog would retry again and again.
        let waiting: Vec<_> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert_eq!(core::iter::from_fn(|| listener.accept().unwrap()).count(), waiting.len());
    }

    #[test]
    fn resource_exhaustion_is_distinguished_from_other_errors() {
        let error = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        assert!(is_resource_exhausted(&error(Errno::MFILE)) && is_resource_exhausted(&error(Errno::NOBUFS)));
        assert!(
            !is_resource_exhausted(&error(Errno::CONNABORTED))
                && !is_resource_exhausted(&ErrorKind::Other.into())
        );
    }
}
