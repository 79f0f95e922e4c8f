//! A byte stream over TLS.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind, IoSlice, Read as _, Write as _};
use std::time::Instant;

use rustls::Connection;

use super::{ALPN_PROTOCOL, describe_error};
use crate::io::{Duplex, is_peer_gone};
use crate::poll::{HungUp, Interest, Ready};

/// TLS over a non-blocking stream.
///
/// Written bytes are encrypted immediately, and up to 32 KiB of them are buffered; no more are accepted until these
/// have left. Received bytes are decrypted into the caller's buffer, except for those that do not fit.
#[derive(Debug)]
pub(crate) struct TlsStream<S> {
    stream: S,
    pub(super) connection: Connection,
    /// Name of the server for error texts; `None` if this process is the server.
    host: Option<Box<str>>,
    /// Decrypted bytes that were not read yet.
    plaintext_len: usize,
    /// Whether the underlying stream may have more to read.
    may_have_more: bool,
    /// Whether the peer has sent `close_notify`.
    is_peer_closed: bool,
    /// Error to return once everything before it has been read.
    read_error: Option<(ErrorKind, String)>,
    /// Error of a failed write to the underlying stream, which is final. A read that would wait returns it, as no write may follow.
    write_error: Option<(ErrorKind, String)>,
    /// Whether this process has closed its sending side.
    is_closing: bool,
    /// Whether that direction of the underlying stream has been shut down.
    is_write_shut: bool,
}

impl<S: Duplex> TlsStream<S> {
    pub(crate) fn new(stream: S, mut connection: Connection, host: Option<Box<str>>) -> Self {
        connection.set_buffer_limit(Some(MAX_UNSENT));
        Self {
            stream,
            connection,
            host,
            plaintext_len: 0,
            may_have_more: false,
            is_peer_closed: false,
            read_error: None,
            write_error: None,
            is_closing: false,
            is_write_shut: false,
        }
    }

    pub(crate) const fn stream(&self) -> &S {
        &self.stream
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Returns whether a read returns a result now, the end included, whatever the state of the underlying stream.
    pub(crate) const fn has_pending_read(&self) -> bool {
        self.plaintext_len > 0
            || self.may_have_more
            || self.is_peer_closed
            || self.read_error.is_some()
            || self.write_error.is_some()
    }

    /// Returns the certificates that the peer proved to own, its own first, each in DER.
    pub(crate) fn peer_certificates(&self) -> impl Iterator<Item = &[u8]> {
        self.connection.peer_certificates().into_iter().flatten().map(AsRef::as_ref)
    }

    /// Returns whether all written bytes have left.
    pub(crate) fn is_flushed(&self) -> bool {
        self.write_error.is_some() || !self.connection.wants_write()
    }

    /// Returns the interest in the underlying stream for the interest `wanted` in this one.
    pub(crate) fn interest(&self, wanted: Interest) -> Interest {
        let handshaking = self.is_handshaking();
        Interest {
            // The handshake has to read before anything can be written.
            read: wanted.read || (wanted.write && handshaking),
            write: (wanted.write && !handshaking) || !self.is_flushed(),
        }
    }

    /// Advances the handshake as far as possible and returns whether it is complete.
    pub(crate) fn handshake(&mut self) -> io::Result<bool> {
        loop {
            // If this fails, bytes that the peer sent before it disconnected are still readable, and the read behind them fails.
            let _ = self.flush_records();
            if !self.is_handshaking() {
                return Ok(true);
            }
            match self.receive() {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes buffered records and returns whether all of them have left.
    pub(crate) fn flush_records(&mut self) -> io::Result<bool> {
        while self.connection.wants_write() {
            if self.write_error.is_some() {
                return Err(ErrorKind::BrokenPipe.into());
            }
            match self.connection.write_tls(&mut RawStream(&mut self.stream)) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => {
                    let message = self.broken_message(self.is_handshaking(), &error);
                    self.write_error = Some((error.kind(), message));
                    return Err(error);
                }
            }
        }
        // The end follows the last record, which is `close_notify`.
        if self.is_closing && !core::mem::replace(&mut self.is_write_shut, true) {
            self.stream.shutdown_write()?;
        }
        Ok(true)
    }

    /// Reads once from the underlying stream and decrypts; returns the bytes read, 0 at the end.
    fn receive(&mut self) -> io::Result<usize> {
        if let Some((kind, message)) = &self.read_error {
            return Err(io::Error::new(*kind, message.clone()));
        }
        if self.is_peer_closed {
            return Ok(0);
        }
        let handshaking = self.is_handshaking();
        let outcome = match self.connection.read_tls(&mut RawStream(&mut self.stream)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => match &self.write_error {
                Some((kind, message)) => Err((*kind, message.clone())),
                None => return Err(error),
            },
            Err(error) => Err((error.kind(), self.broken_message(handshaking, &error))),
            Ok(n) => self.process(n, handshaking),
        };
        outcome.map_err(|(kind, message)| {
            self.read_error = Some((kind, message.clone()));
            io::Error::new(kind, message)
        })
    }

    fn process(&mut self, n: usize, handshaking: bool) -> Result<usize, (ErrorKind, String)> {
        let state = match self.connection.process_new_packets() {
            Ok(state) => state,
            Err(error) => {
                // Sends the alert, if the peer still reads.
                let _ = self.flush_records();
                return Err((
                    ErrorKind::InvalidData,
                    describe_error(&error, self.host.as_deref(), handshaking),
                ));
            }
        };
        self.plaintext_len = state.plaintext_bytes_to_read();
        self.is_peer_closed = state.peer_has_closed();
        if n == 0 && !self.is_peer_closed {
            return Err((ErrorKind::UnexpectedEof, self.truncation_message(handshaking)));
        }
        if handshaking && !self.is_handshaking() {
            let chosen = self.connection.alpn_protocol();
            if let Some(other) = chosen.filter(|chosen| *chosen != ALPN_PROTOCOL) {
                let message = format!("{} selected an unknown protocol by ALPN: {other:?}", self.peer_name());
                return Err((ErrorKind::InvalidData, message));
            }
        }
        Ok(n)
    }

    /// Describes a failure of the underlying stream.
    fn broken_message(&self, handshaking: bool, error: &io::Error) -> String {
        let during = if handshaking { " during the TLS handshake" } else { "" };
        format!("the connection to {} broke{during}: {error}", self.peer_name())
    }

    /// Describes an end of the underlying stream without the end of TLS, which an attacker may have caused
    /// (RFC 8446, section 6.1).
    fn truncation_message(&self, handshaking: bool) -> String {
        match handshaking {
            true => format!("{} closed the connection during the TLS handshake", self.peer_name()),
            false => {
                format!("the connection to {} was cut off: TLS ended without close_notify", self.peer_name())
            }
        }
    }

    fn peer_name(&self) -> &str {
        self.host.as_deref().unwrap_or("the client")
    }

    /// Reads decrypted bytes.
    fn take(&mut self, buf: &mut [u8]) -> usize {
        if self.plaintext_len == 0 {
            return 0;
        }
        let n = self.connection.reader().read(buf).unwrap_or(0);
        self.plaintext_len = self.plaintext_len.saturating_sub(n);
        n
    }
}

impl<S: Duplex> Duplex for TlsStream<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        self.may_have_more = false;
        for round in 0.. {
            filled += self.take(buf.get_mut(filled..).unwrap_or_default());
            if filled == buf.len() {
                return Ok(filled);
            }
            // A peer that sends records without data is limited to one round of reads.
            if round == MAX_READS {
                self.may_have_more = true;
                break;
            }
            match self.receive() {
                Ok(0) => return Ok(filled),
                // The underlying stream has probably nothing more without another wait.
                Ok(n) if n < RUSTLS_READ_SIZE && self.plaintext_len > 0 => {
                    filled += self.take(buf.get_mut(filled..).unwrap_or_default());
                    break;
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock || filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        // Sends responses of the handshake or of a key update.
        let _ = self.flush_records();
        if filled == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(filled) }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.is_closing {
            return Err(ErrorKind::BrokenPipe.into());
        }
        if parts.iter().all(|part| part.is_empty()) {
            return Ok(0);
        }
        if !self.flush_records()? || self.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let n = self.connection.writer().write_vectored(parts)?;
        // These bytes are accepted in any case; the next write returns the error, or a read that would wait.
        let _ = self.flush_records();
        Ok(n)
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        let pending = interest.read && self.has_pending_read();
        // Input that is decrypted already must not wait for the network.
        let timeout = if pending { Some(Duration::ZERO) } else { timeout };
        let found = self.stream.wait(self.interest(interest), timeout)?;
        if self.is_handshaking() {
            // The next read or write returns the error.
            let _ = self.handshake();
        } else if found.writable {
            let _ = self.flush_records();
        }
        let failed = self.read_error.is_some() || self.write_error.is_some();
        Ok(Ready {
            readable: interest.read && (found.readable || self.has_pending_read()),
            writable: interest.write && ((found.writable && !self.is_handshaking()) || failed),
        })
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.stream.waker()
    }

    fn hung_up(&mut self) -> io::Result<HungUp> {
        self.stream.hung_up()
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        if !core::mem::replace(&mut self.is_closing, true) {
            self.connection.send_close_notify();
        }
        match self.flush_records() {
            Err(error) if is_peer_gone(&error) => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    fn flush(&mut self, timeout: Duration) -> io::Result<()> {
        let started = Instant::now();
        while !self.flush_records()? {
            let left = timeout.checked_sub(started.elapsed()).ok_or(ErrorKind::TimedOut)?;
            self.stream.wait(Interest::WRITE, Some(left))?;
        }
        self.stream.flush(timeout.saturating_sub(started.elapsed()))
    }
}

/// The underlying stream, as the reader and writer that `rustls` expects.
struct RawStream<'a, S>(&'a mut S);

impl<S: Duplex> io::Read for RawStream<'_, S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl<S: Duplex> io::Write for RawStream<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Encrypted bytes that may be buffered.
const MAX_UNSENT: usize = 32 << 10;
/// Bytes that `rustls` reads at once, at most.
const RUSTLS_READ_SIZE: usize = 4 << 10;
/// Reads of the underlying stream for one read of this one: enough for 64 KiB.
const MAX_READS: u32 = 18;
