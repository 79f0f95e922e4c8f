//! A byte stream under TLS

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind, IoSlice, Read as _, Write as _};
use std::time::Instant;

use rustls::Connection;

use super::PROTOCOL;
use super::explain::explain;
use crate::duplex::{Duplex, HungUp, Interest, Ready, is_peer_gone};

/// TLS over a stream that does not block
///
/// What is written is encrypted at once and may stay here for a while, 32 KiB at most: until it has gone nothing more is
/// taken. What is read is decrypted straight into the caller's buffer, except for what does not fit.
#[derive(Debug)]
pub(crate) struct Tls<S> {
    stream: S,
    pub(super) connection: Connection,
    /// Whom we speak to, for what goes wrong; none at a server
    host: Option<Box<str>>,
    /// Decrypted bytes that nobody has taken yet
    waiting: usize,
    /// There may be more to read below
    more: bool,
    /// The peer has ended its direction as TLS does
    ended: bool,
    /// What reading says once everything before it is taken
    failed: Option<(ErrorKind, String)>,
    /// Writing below has failed, once and for all
    unwritable: bool,
    /// We have ended our direction
    ending: bool,
    /// That has been said below
    shut: bool,
}

impl<S: Duplex> Tls<S> {
    pub(crate) fn new(stream: S, mut connection: Connection, host: Option<Box<str>>) -> Self {
        connection.set_buffer_limit(Some(HELD));
        Self {
            stream,
            connection,
            host,
            waiting: 0,
            more: false,
            ended: false,
            failed: None,
            unwritable: false,
            ending: false,
            shut: false,
        }
    }

    pub(crate) const fn stream(&self) -> &S {
        &self.stream
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether reading has something to say, be it the end, whatever there is below
    pub(crate) const fn is_pending(&self) -> bool {
        self.waiting > 0 || self.more || self.ended || self.failed.is_some()
    }

    /// Whether nothing is left here that was written
    pub(crate) fn is_flushed(&self) -> bool {
        self.unwritable || !self.connection.wants_write()
    }

    /// What to wait for below
    pub(crate) fn interest(&self, wanted: Interest) -> Interest {
        let handshaking = self.is_handshaking();
        Interest {
            read: wanted.read || (wanted.write && handshaking),
            write: (wanted.write && !handshaking) || !self.is_flushed(),
        }
    }

    /// Goes on with the handshake as far as it goes now; whether it is over
    pub(crate) fn handshake(&mut self) -> io::Result<bool> {
        loop {
            // When that fails, what the peer said before it left is still there to be read.
            let _ = self.push();
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

    /// Writes below what is left; whether all of it went
    pub(crate) fn push(&mut self) -> io::Result<bool> {
        while self.connection.wants_write() {
            if self.unwritable {
                return Err(ErrorKind::BrokenPipe.into());
            }
            match self.connection.write_tls(&mut Below(&mut self.stream)) {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => {
                    self.unwritable = true;
                    return Err(error);
                }
            }
        }
        if self.ending && !core::mem::replace(&mut self.shut, true) {
            self.stream.shutdown_write()?;
        }
        Ok(true)
    }

    /// Reads once from below, and makes of it what can be made: how many bytes that were, 0 at the end
    fn receive(&mut self) -> io::Result<usize> {
        if let Some((kind, why)) = &self.failed {
            return Err(io::Error::new(*kind, why.clone()));
        }
        if self.ended {
            return Ok(0);
        }
        let handshaking = self.is_handshaking();
        let outcome = match self.connection.read_tls(&mut Below(&mut self.stream)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(error),
            Err(error) => Err((error.kind(), self.broken(handshaking, &error))),
            Ok(n) => self.process(n, handshaking),
        };
        outcome.map_err(|(kind, why)| {
            self.failed = Some((kind, why.clone()));
            io::Error::new(kind, why)
        })
    }

    fn process(&mut self, n: usize, handshaking: bool) -> Result<usize, (ErrorKind, String)> {
        let state = match self.connection.process_new_packets() {
            Ok(state) => state,
            Err(error) => {
                // The peer is told why, if it still listens.
                let _ = self.push();
                return Err((ErrorKind::InvalidData, explain(&error, self.host.as_deref(), handshaking)));
            }
        };
        self.waiting = state.plaintext_bytes_to_read();
        self.ended = state.peer_has_closed();
        if n == 0 && !self.ended {
            return Err((ErrorKind::UnexpectedEof, self.cut_off(handshaking)));
        }
        if handshaking && !self.is_handshaking() {
            let chosen = self.connection.alpn_protocol();
            if let Some(other) = chosen.filter(|chosen| *chosen != PROTOCOL) {
                let why = format!("{} speaks another protocol over TLS: {other:?}", self.peer());
                return Err((ErrorKind::InvalidData, why));
            }
        }
        Ok(n)
    }

    /// The stream below has failed
    fn broken(&self, handshaking: bool, error: &io::Error) -> String {
        let during = if handshaking { " during the TLS handshake" } else { "" };
        format!("the connection to {} broke{during}: {error}", self.peer())
    }

    /// The stream below has ended, and TLS has not (RFC 8446, 6.1): somebody else may have ended it
    fn cut_off(&self, handshaking: bool) -> String {
        match handshaking {
            true => format!("{} closed the connection during the TLS handshake", self.peer()),
            false => format!("the connection to {} was cut off: TLS did not end as it should", self.peer()),
        }
    }

    fn peer(&self) -> &str {
        self.host.as_deref().unwrap_or("the client")
    }

    /// Takes decrypted bytes
    fn take(&mut self, buf: &mut [u8]) -> usize {
        if self.waiting == 0 {
            return 0;
        }
        let n = self.connection.reader().read(buf).unwrap_or(0);
        self.waiting = self.waiting.saturating_sub(n);
        n
    }
}

impl<S: Duplex> Duplex for Tls<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        self.more = false;
        for turn in 0.. {
            filled += self.take(buf.get_mut(filled..).unwrap_or_default());
            if filled == buf.len() {
                return Ok(filled);
            }
            // A peer that sends what says nothing gets no more than a turn.
            if turn == TURNS {
                self.more = true;
                break;
            }
            match self.receive() {
                Ok(0) => return Ok(filled),
                // More is there, if at all, after another wait.
                Ok(n) if n < PIECE && self.waiting > 0 => {
                    filled += self.take(buf.get_mut(filled..).unwrap_or_default());
                    break;
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock || filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        // The handshake's answers, or those to new keys.
        let _ = self.push();
        if filled == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(filled) }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.ending {
            return Err(ErrorKind::BrokenPipe.into());
        }
        if parts.iter().all(|part| part.is_empty()) {
            return Ok(0);
        }
        if !self.push()? || self.is_handshaking() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let n = self.connection.writer().write_vectored(parts)?;
        // These are taken, whatever comes of them: the next write says what is wrong.
        let _ = self.push();
        Ok(n)
    }

    fn wait(&mut self, interest: Interest, timeout: Option<Duration>) -> io::Result<Ready> {
        let pending = interest.read && self.is_pending();
        let timeout = if pending { Some(Duration::ZERO) } else { timeout };
        let found = self.stream.wait(self.interest(interest), timeout)?;
        if self.is_handshaking() {
            // Reading or writing says what went wrong.
            let _ = self.handshake();
        } else if found.writable {
            let _ = self.push();
        }
        let failed = self.failed.is_some() || self.unwritable;
        Ok(Ready {
            readable: interest.read && (found.readable || self.is_pending()),
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
        if !core::mem::replace(&mut self.ending, true) {
            self.connection.send_close_notify();
        }
        match self.push() {
            Err(error) if is_peer_gone(&error) => Ok(()),
            outcome => outcome.map(drop),
        }
    }

    fn flush(&mut self, timeout: Duration) -> io::Result<()> {
        let begun = Instant::now();
        while !self.push()? {
            let left = timeout.checked_sub(begun.elapsed()).ok_or(ErrorKind::TimedOut)?;
            self.stream.wait(Interest::WRITE, Some(left))?;
        }
        self.stream.flush(timeout.saturating_sub(begun.elapsed()))
    }
}

/// The stream below, as `rustls` wants to have it
struct Below<'a, S>(&'a mut S);

impl<S: Duplex> io::Read for Below<'_, S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read(buf)
    }
}

impl<S: Duplex> io::Write for Below<'_, S> {
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

/// Bytes that were encrypted and have not gone
const HELD: usize = 32 << 10;
/// Bytes that `rustls` reads at once, at most
const PIECE: usize = 4 << 10;
/// Reads below for one of ours: enough for 64 KiB
const TURNS: u32 = 18;
