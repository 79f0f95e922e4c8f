//! Many sockets at once: who connects, and which of them can move

use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::duplex::{Interest, Ready, uninterrupted};
use crate::readiness::LONGEST;
use crate::socket::Socket;

/// A TCP listener that never blocks
#[derive(Debug)]
pub struct Listener(TcpListener);

impl Listener {
    /// Listens at the first of the addresses that can be had; port 0 lets the system choose one
    ///
    /// # Errors
    ///
    /// What the operating system says about the last address.
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
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
                Ok((stream, _)) => match Socket::tcp(stream) {
                    Ok(socket) => return Ok(Some(socket)),
                    Err(_) => {}
                },
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if crate::is_peer_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
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
        let socket: OwnedFd = rustix::net::socket(family, SocketType::STREAM, None)?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
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

/// What is waited for among others
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A client that wants to connect counts as readable
    Listener(&'a Listener),
    /// A stream
    Socket(&'a Socket),
}

impl<'a> Source<'a> {
    fn fd(self) -> BorrowedFd<'a> {
        match self {
            Self::Listener(listener) => listener.0.as_fd(),
            Self::Socket(socket) => socket.as_fd(),
        }
    }
}

/// A wait for many sockets, one `poll(2)` each time
///
/// Its memory is kept from one wait to the next.
#[derive(Debug, Default)]
pub struct Poll {
    entries: Vec<PollFd<'static>>,
    found: Vec<Ready>,
}

impl Poll {
    /// None yet
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Vec::new(), found: Vec::new() }
    }

    /// Waits until one can move, `timeout` has passed (`None`: no limit) or a signal arrived; what can, in the order of
    /// `sources`
    ///
    /// A stream that is broken can move in both directions, wanted or not: reading or writing says what is wrong with it.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn wait<'a>(
        &mut self,
        sources: impl Iterator<Item = (Source<'a>, Interest)>,
        timeout: Option<Duration>,
    ) -> io::Result<&[Ready]> {
        let mut entries: Vec<PollFd<'a>> = core::mem::take(&mut self.entries);
        entries.extend(sources.map(|(source, interest)| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, interest.read);
            flags.set(PollFlags::OUT, interest.write);
            PollFd::from_borrowed_fd(source.fd(), flags)
        }));
        let timeout = timeout.map(|timeout| timeout.min(LONGEST));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let outcome = poll(&mut entries, timeout.as_ref());
        self.found.clear();
        self.found.extend(entries.iter().map(|entry| {
            let (flags, broken) = (entry.revents(), PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL);
            // What a wait left there that failed says nothing.
            let flags = if outcome.is_ok() { flags } else { PollFlags::empty() };
            Ready {
                readable: flags.intersects(PollFlags::IN | broken),
                writable: flags.intersects(PollFlags::OUT | broken),
            }
        }));
        entries.clear();
        // Nothing is in it: a list for another time, in the same place.
        self.entries = entries.into_iter().filter_map(|_| None).collect();
        match outcome {
            Ok(_) | Err(Errno::INTR) => Ok(&self.found),
            Err(error) => Err(error.into()),
        }
    }
}
