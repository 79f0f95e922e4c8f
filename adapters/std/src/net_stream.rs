//! A socket, or TLS over one.

#[cfg(feature = "tls")]
use alloc::boxed::Box;
use alloc::vec::Vec;
use std::io;

#[cfg(any(doc, feature = "tls"))]
use crate::io::Duplex;
use crate::io::Socket;
use crate::poll::Interest;
#[cfg(feature = "tls")]
use crate::tls::{ClientTls, ServerTls, TlsStream};

/// The stream of an HTTP connection: a socket, or TLS over one.
///
/// With TLS, a loop that waits for sockets elsewhere needs more than a [`Duplex`] offers. It needs the readiness to
/// wait for ([`interest`](Self::interest)), whether to wait at all ([`has_pending_read`](Self::has_pending_read)), and
/// whether written bytes are still buffered ([`try_flush`](Self::try_flush)). On a plain socket these are trivial.
#[derive(Debug)]
pub struct NetStream(Kind);

#[derive(Debug)]
enum Kind {
    Plain(Socket),
    #[cfg(feature = "tls")]
    Tls(Box<TlsStream<Socket>>),
}

/// Calls the same method on either kind of stream.
macro_rules! either {
    ($self:ident, $($call:tt)*) => {
        match $self {
            Self(Kind::Plain(stream)) => stream.$($call)*,
            #[cfg(feature = "tls")]
            Self(Kind::Tls(stream)) => stream.$($call)*,
        }
    };
}

/// Evaluates `$call` on a TLS stream, and `$plain` for a plain socket.
macro_rules! tls_or {
    ($self:expr, $plain:expr, $tls:ident => $call:expr) => {
        match $self {
            Kind::Plain(_) => $plain,
            #[cfg(feature = "tls")]
            Kind::Tls($tls) => $call,
        }
    };
}

impl NetStream {
    /// Starts TLS to `host`, a DNS name or an IP address, on a connected or connecting socket.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if `host` is neither; `NotFound` if there are no roots at all.
    #[cfg(feature = "tls")]
    pub fn connect_tls(tls: &ClientTls, socket: Socket, host: &str) -> io::Result<Self> {
        let stream = TlsStream::new(socket, tls.connection(host)?.into(), Some(host.into()));
        Ok(Self(Kind::Tls(Box::new(stream))))
    }

    /// Starts TLS on the connection of a client.
    ///
    /// # Errors
    ///
    /// An error if the given configuration cannot be used.
    #[cfg(feature = "tls")]
    pub fn accept_tls(tls: &ServerTls, socket: Socket) -> io::Result<Self> {
        let stream = TlsStream::new(socket, tls.connection()?.into(), None);
        Ok(Self(Kind::Tls(Box::new(stream))))
    }

    /// Returns the socket to wait for.
    #[must_use]
    pub fn socket(&self) -> &Socket {
        match &self.0 {
            Kind::Plain(socket) => socket,
            #[cfg(feature = "tls")]
            Kind::Tls(tls) => tls.stream(),
        }
    }

    /// Returns the interest in the [`socket`](Self::socket) for the interest `wanted` in this stream.
    ///
    /// When the socket is ready, call [`read`](Duplex::read) if reading is wanted, and
    /// [`try_flush`](Self::try_flush) if more than writing is wanted. These do the work that TLS itself needs.
    #[must_use]
    pub fn interest(&self, wanted: Interest) -> Interest {
        tls_or!(&self.0, wanted, tls => tls.interest(wanted))
    }

    /// Returns whether [`read`](Duplex::read) returns a result now, even if the socket is not readable: do not wait.
    #[must_use]
    pub fn has_pending_read(&self) -> bool {
        tls_or!(&self.0, false, tls => tls.has_pending_read())
    }

    /// Returns whether the TLS handshake is still running, so that nothing can be written.
    #[must_use]
    pub fn is_handshaking(&self) -> bool {
        tls_or!(&self.0, false, tls => tls.is_handshaking())
    }

    /// Advances the TLS handshake as far as possible and returns whether it is complete.
    ///
    /// Reading does this too; call it where writing comes first.
    ///
    /// # Errors
    ///
    /// The reason why there is no connection, with the name of the server and the problem of its certificate.
    pub fn handshake(&mut self) -> io::Result<bool> {
        tls_or!(&mut self.0, Ok(true), tls => tls.handshake())
    }

    /// Returns the certificates that the peer proved to own, its own first, each in DER; none without TLS.
    #[must_use]
    pub fn peer_certificates(&self) -> Vec<Box<[u8]>> {
        tls_or!(&self.0, Vec::new(), tls => tls.peer_certificates().map(Box::from).collect())
    }

    /// Returns whether all written bytes have left this process; at most 32 KiB are buffered.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        tls_or!(&self.0, true, tls => tls.is_flushed())
    }

    /// Writes buffered bytes as far as possible.
    ///
    /// # Errors
    ///
    /// The same as [`Duplex::write`].
    pub fn try_flush(&mut self) -> io::Result<()> {
        tls_or!(&mut self.0, Ok(()), tls => tls.flush_records().map(drop))
    }
}

impl NetStream {
    /// Ends TLS and closes the socket; buffered bytes are lost.
    pub fn close(mut self) {
        // A plain socket needs no closing message, and a disconnected peer cannot receive one.
        let _: io::Result<()> = tls_or!(&mut self.0, Ok(()), tls => tls.shutdown_write());
    }
}

impl From<Socket> for NetStream {
    fn from(socket: Socket) -> Self {
        Self(Kind::Plain(socket))
    }
}

crate::io::forward_duplex!(either:
    /// Over TLS, [`read`](Self::read) fails with `UnexpectedEof` at an end without `close_notify`, which an attacker may
    /// have caused, and [`shutdown_write`](Self::shutdown_write) ends TLS first. It has no
    /// [`descriptors`](Self::descriptors) then, as their readiness is not that of the stream.
    impl[] NetStream
);
