//! Many sockets at once: who connects, and which of them can move

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, ToSocketAddrs};
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
        self.entries = entries.into_iter().map_while(|_| None).collect();
        match outcome {
            Ok(_) | Err(Errno::INTR) => Ok(&self.found),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use crate::duplex::Duplex;

    #[test]
    fn many_are_waited_for_without_new_memory() {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        let address = listener.address().unwrap();
        assert!(listener.accept().unwrap().is_none());
        let mut theirs: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut poll = Poll::new();
        let long = Some(Duration::from_secs(60));
        let mut ours = Vec::new();
        while ours.len() < theirs.len() {
            let sources = core::iter::once((Source::Listener(&listener), Interest::READ));
            assert!(poll.wait(sources, long).unwrap()[0].readable);
            ours.extend(core::iter::from_fn(|| listener.accept().unwrap()));
        }
        let mut memory = None;
        for at in [3, 17, 3] {
            theirs[at].write_all(b"x").unwrap();
            // Loopback or not, it takes a moment.
            let mut found = loop {
                let sources = ours.iter().map(|socket| (Source::Socket(socket), Interest::READ));
                let found = poll.wait(sources, long).unwrap();
                if found.iter().any(|ready| ready.readable) {
                    break found.to_vec();
                }
            };
            assert!(found.remove(at).readable && found.iter().all(|ready| ready.is_empty()));
            assert_eq!(ours[at].read(&mut [0; 8]).unwrap(), 1);
            let now = (poll.entries.as_ptr() as usize, poll.entries.capacity());
            assert_eq!(*memory.get_or_insert(now), now);
        }
        // A time-out, and a source of which nothing is wanted.
        let sources = ours.iter().map(|socket| (Source::Socket(socket), Interest::default()));
        let found = poll.wait(sources, Some(Duration::from_millis(1))).unwrap();
        assert!(found.len() == 20 && found.iter().all(|ready| ready.is_empty()));
        assert!(poll.wait(core::iter::empty(), Some(Duration::ZERO)).unwrap().is_empty());
    }

    #[test]
    fn connecting_is_waited_for() {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        let address = listener.address().unwrap();
        let wait = |socket: &Socket| {
            let mut poll = Poll::new();
            let sources = core::iter::once((Source::Socket(socket), Interest::WRITE));
            assert!(poll.wait(sources, Some(Duration::from_secs(60))).unwrap()[0].writable);
        };
        let mut socket = Socket::connect(address).unwrap();
        wait(&socket);
        socket.connected().unwrap();
        socket.write(b"hi").unwrap();
        drop(listener);
        // Nobody listens there any more; some systems say so at once.
        match Socket::connect(address) {
            Ok(socket) => {
                wait(&socket);
                assert_eq!(socket.connected().unwrap_err().kind(), ErrorKind::ConnectionRefused);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionRefused),
        }
    }

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
    fn exhaustion_is_told_from_other_errors() {
        let of = |errno: Errno| io::Error::from_raw_os_error(errno.raw_os_error());
        assert!(is_exhausted(&of(Errno::MFILE)) && is_exhausted(&of(Errno::NFILE)));
        assert!(!is_exhausted(&of(Errno::CONNABORTED)) && !is_exhausted(&ErrorKind::Other.into()));
    }
}
