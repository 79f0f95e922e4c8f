//! A socket, or TLS over one

#[cfg(feature = "tls")]
use alloc::boxed::Box;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, IoSlice};

#[cfg(unix)]
use crate::duplex::Descriptors;
use crate::duplex::{Duplex, HungUp, Interest, Ready};
use crate::socket::Socket;
#[cfg(feature = "tls")]
use crate::tls::Tls;

/// A socket, or TLS over one: what a connection of HTTP is made of
///
/// TLS needs a loop to know a little more than a [`Duplex`] tells when sockets are waited for elsewhere: which readiness
/// to wait for ([`interest`](Self::interest)), whether to wait at all ([`is_pending`](Self::is_pending)), and that what
/// was written may not have left ([`flush_some`](Self::flush_some)). A plain socket has nothing to say to these.
#[derive(Debug)]
pub struct Transport(Kind);

#[derive(Debug)]
enum Kind {
    Plain(Socket),
    #[cfg(feature = "tls")]
    Tls(Box<Tls<Socket>>),
}

/// Calls the same method on whichever it is
macro_rules! on {
    ($self:ident, $stream:ident => $call:expr) => {
        match &mut $self.0 {
            Kind::Plain($stream) => $call,
            #[cfg(feature = "tls")]
            Kind::Tls($stream) => $call,
        }
    };
}

/// Asks TLS, or gives what holds of a plain socket
macro_rules! ask {
    ($self:expr, $plain:expr, $tls:ident => $call:expr) => {
        match $self {
            Kind::Plain(_) => $plain,
            #[cfg(feature = "tls")]
            Kind::Tls($tls) => $call,
        }
    };
}

impl Transport {
    #[cfg(feature = "tls")]
    pub(crate) fn tls(tls: Tls<Socket>) -> Self {
        Self(Kind::Tls(Box::new(tls)))
    }

    /// What is waited for
    #[must_use]
    pub fn socket(&self) -> &Socket {
        match &self.0 {
            Kind::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Kind::Tls(tls) => tls.stream(),
        }
    }

    /// What to wait for at the [`socket`](Self::socket) when `wanted` is wanted here
    ///
    /// When it comes, [`read`](Duplex::read) where reading is wanted and [`flush_some`](Self::flush_some) where not only
    /// writing is do what TLS needs for itself.
    #[must_use]
    pub fn interest(&self, wanted: Interest) -> Interest {
        ask!(&self.0, wanted, tls => tls.interest(wanted))
    }

    /// Whether [`read`](Duplex::read) has something to say, whether or not the socket can be read: it must not be waited
    /// for
    #[must_use]
    pub fn is_pending(&self) -> bool {
        ask!(&self.0, false, tls => tls.is_pending())
    }

    /// Whether the TLS handshake is still under way: nothing can be written
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        ask!(&self.0, false, tls => tls.is_handshaking())
    }

    /// Goes on with the TLS handshake as far as it goes now; whether it is over
    ///
    /// Reading does so, too: this is for who is to write first.
    ///
    /// # Errors
    ///
    /// Why there is no connection, with the name of the server and what is wrong with its certificate.
    pub fn handshake(&mut self) -> io::Result<bool> {
        ask!(&mut self.0, Ok(true), tls => tls.handshake())
    }

    /// Whether all that was written has left this process; 32 KiB at most have not
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        ask!(&self.0, true, tls => tls.is_flushed())
    }

    /// Writes what has not left this process, as far as it goes now
    ///
    /// # Errors
    ///
    /// As [`Duplex::write`].
    pub fn flush_some(&mut self) -> io::Result<()> {
        ask!(&mut self.0, Ok(()), tls => tls.push().map(drop))
    }
}

impl Transport {
    /// Lets go of the socket, and has TLS end before; what was written and has not left is lost
    pub fn close(mut self) {
        // A plain socket needs no words, and a peer that is gone hears none.
        let _: io::Result<()> = ask!(&mut self.0, Ok(()), tls => tls.shutdown_write());
    }
}

impl From<Socket> for Transport {
    fn from(socket: Socket) -> Self {
        Self(Kind::Plain(socket))
    }
}

/// Over TLS, [`read`](Self::read) tells an end that may be somebody else's work from the peer's: it fails with
/// `UnexpectedEof`. [`shutdown_write`](Self::shutdown_write) ends TLS first.
impl Duplex for Transport {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        on!(self, stream => stream.read(buf))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        on!(self, stream => stream.write(bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        on!(self, stream => stream.write_vectored(parts))
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        on!(self, stream => stream.wait(interest, timeout))
    }

    fn waker(&mut self) -> io::Result<Waker> {
        on!(self, stream => stream.waker())
    }

    /// Those of the socket; none over TLS, of which they tell only the half
    #[cfg(unix)]
    fn descriptors(&self) -> Descriptors<'_> {
        ask!(&self.0, self.socket().descriptors(), _tls => Descriptors::default())
    }

    fn hung_up(&mut self) -> io::Result<HungUp> {
        on!(self, stream => stream.hung_up())
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        on!(self, stream => stream.shutdown_write())
    }

    fn flush(&mut self, timeout: Duration) -> io::Result<()> {
        on!(self, stream => stream.flush(timeout))
    }
}
