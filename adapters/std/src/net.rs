//! TCP connections: who comes, and where to go

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::duplex::uninterrupted;
use crate::socket::Socket;

/// A TCP listener that never blocks
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Listens at the first of the addresses that can be had; port 0 lets the system choose one
    ///
    /// # Errors
    ///
    /// What the operating system says about the last address, and which addresses were tried.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        let addresses: Vec<_> = address.to_socket_addrs()?.collect();
        let listener = TcpListener::bind(addresses.as_slice()).map_err(|error| {
            let tried: Vec<_> = addresses.iter().map(ToString::to_string).collect();
            io::Error::new(error.kind(), format!("cannot listen at {}: {error}", tried.join(", ")))
        })?;
        listener.set_nonblocking(true)?;
        // Again, for more than the 128 that std has wait: who finds no room comes back after a second.
        rustix::net::listen(&listener, WAITING)?;
        Ok(Self(listener))
    }

    /// Where it listens
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }

    /// The next connection; none when nobody waits
    ///
    /// # Errors
    ///
    /// What the operating system says; [`is_exhausted`] tells what passes when connections are closed.
    pub fn accept(&self) -> io::Result<Option<Socket>> {
        loop {
            match uninterrupted(|| self.0.accept()) {
                // Its options can only fail to be set when the client is gone again.
                Ok((stream, _)) => {
                    if let Ok(socket) = Socket::tcp(stream) {
                        return Ok(Some(socket));
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if crate::is_peer_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether `error` says that this process or machine has no room for another connection now
#[must_use]
pub fn is_exhausted(error: &io::Error) -> bool {
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    exhausted.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

impl Socket {
    /// Begins to connect, and does not wait for it: when the socket can be written to, [`connected`](Self::connected)
    /// says what came of it
    ///
    /// # Errors
    ///
    /// What the operating system says, as far as it knows at once.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let socket = tcp_socket(family)?;
        // Makes it non-blocking.
        let connecting = Self::tcp(socket.into())?;
        match rustix::net::connect(&connecting, &address) {
            // Interrupted: it goes on all the same.
            Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(connecting),
            Err(error) => Err(error.into()),
        }
    }

    /// What came of [`connect`](Self::connect)
    ///
    /// # Errors
    ///
    /// Why there is no connection.
    pub fn connected(&self) -> io::Result<()> {
        Ok(sockopt::socket_error(self)??)
    }
}

impl Socket {
    /// Has the connection reset when it is dropped, so that the peer does not take its end for an orderly one
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn reset_when_dropped(&self) -> io::Result<()> {
        Ok(sockopt::set_socket_linger(self, Some(Duration::ZERO))?)
    }
}

/// A socket that no child of ours inherits
#[cfg(not(target_vendor = "apple"))]
fn tcp_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(family, SocketType::STREAM, rustix::net::SocketFlags::CLOEXEC, None)?)
}

/// A socket that no child of ours inherits, unless it is started between these two calls
#[cfg(target_vendor = "apple")]
fn tcp_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    Ok(socket)
}

/// Connections that may wait to be accepted, if the system lets so many
const WAITING: i32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpStream;

    #[test]
    fn a_reset_is_no_orderly_end() {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        for resets in [true, false] {
            let mut theirs = TcpStream::connect(listener.address().unwrap()).unwrap();
            let ours = loop {
                if let Some(socket) = listener.accept().unwrap() {
                    break socket;
                }
            };
            if resets {
                ours.reset_when_dropped().unwrap();
            }
            drop(ours);
            let end = theirs.read(&mut [0; 8]);
            assert_eq!(end.is_err(), resets, "{end:?}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn many_may_wait_to_be_accepted() {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        let address = listener.address().unwrap();
        // Nobody is accepted: one without room would try again and again.
        let waiting: Vec<_> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert_eq!(core::iter::from_fn(|| listener.accept().unwrap()).count(), waiting.len());
    }

    #[test]
    fn exhaustion_is_told_from_other_errors() {
        let of = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        assert!(is_exhausted(&of(Errno::MFILE)) && is_exhausted(&of(Errno::NFILE)));
        assert!(!is_exhausted(&of(Errno::CONNABORTED)) && !is_exhausted(&ErrorKind::Other.into()));
    }
}
