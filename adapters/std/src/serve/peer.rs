//! One connection of a server

use alloc::boxed::Box;
use core::time::Duration;
use std::io::{self, ErrorKind, IoSlice};

use mcp_proto::Instant;
use mcp_proto::http::server::{Connection, ExchangeId, Server};

use super::seats::Seat;
use crate::{Duplex, Interest, Ready, Selector, Transport};

/// What a wait found for a connection
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    pub(super) ready: Ready,
    /// Reading was wanted
    pub(super) asked: bool,
    /// A deadline has passed
    pub(super) due: bool,
}

/// A connection on its way to another shard
#[derive(Debug)]
pub struct Moved(pub(super) Box<Peer>);

/// One connection
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) transport: Transport,
    /// It is counted as long as it is there
    pub(super) seat: Seat,
    pub(super) connection: Connection,
    /// What the last wait found and was not acted on yet
    pub(super) found: Found,
    /// When something was read or written last
    pub(super) used_at: Instant,
    /// When TLS has to be through with what it is at: the handshake, or the last bytes
    pub(super) until: Option<Instant>,
    /// Our direction was ended
    shut: bool,
    /// The socket is broken
    broken: bool,
    /// It stands in the list of those driven
    pub(super) driven: bool,
    /// It stands in the list of those who are not read
    pub(super) muffled: bool,
    /// What the selector waits for
    pub(super) interest: Interest,
    /// It stands in the list of those who have another exchange than is known
    pub(super) other_exchange: bool,
    /// Its entry in each of the maps
    pub(super) exchange: Option<ExchangeId>,
    pub(super) deadline: Option<Instant>,
    pub(super) idle: Option<Instant>,
}

impl Peer {
    pub(super) const fn new(transport: Transport, connection: Connection, seat: Seat, now: Instant) -> Self {
        Self {
            transport,
            seat,
            connection,
            found: Found { ready: Ready { readable: false, writable: false }, asked: false, due: false },
            used_at: now,
            until: None,
            shut: false,
            broken: false,
            driven: false,
            muffled: false,
            other_exchange: false,
            interest: Interest::READ,
            exchange: None,
            deadline: None,
            idle: None,
        }
    }

    /// Forgets what is known of it where it stood
    pub(super) const fn uproot(&mut self) {
        self.found = Found { ready: Ready { readable: false, writable: false }, asked: false, due: false };
        (self.driven, self.muffled, self.other_exchange) = (false, false, false);
        (self.exchange, self.deadline, self.idle) = (None, None, None);
        self.interest = Interest::READ;
    }

    /// Whether closing it loses nothing
    pub(super) fn is_idle(&self) -> bool {
        self.connection.is_idle() && self.found.ready.is_empty() && self.transport.is_flushed()
    }

    /// Whether to read, for TLS itself or (if `reads`) for the server
    pub(super) fn asks(&self, reads: bool) -> bool {
        self.transport.is_handshaking() || (reads && self.connection.wants_input())
    }

    /// When it is to have its turn, whatever happens
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.connection.poll_timeout().into_iter().chain(self.until).min()
    }

    /// Has the selector wait for what it takes to do this
    pub(super) fn select(&mut self, token: u64, wanted: Interest, selector: &mut Selector) -> io::Result<()> {
        let interest = self.transport.interest(wanted);
        if interest != self.interest {
            selector.modify(self.transport.socket(), token, interest)?;
            self.interest = interest;
        }
        Ok(())
    }

    /// Writes and reads what can be, and lets its deadline pass
    pub(super) fn turn(
        &mut self,
        now: Instant,
        server: &mut Server,
        found: Found,
        reads: bool,
        scratch: &mut [u8],
    ) {
        let ready = found.ready;
        if self.is_over() {
            return;
        }
        if ready.writable {
            // Before its deadline is looked at: while a handler ran nobody wrote, however fast its client reads.
            self.write(now, server);
        }
        if ready.readable && !found.asked {
            // Nobody asked: both directions are over.
            return self.lose(now, server);
        }
        if self.transport.is_handshaking() {
            match self.transport.handshake() {
                Ok(true) => self.until = None,
                Ok(false) => {}
                Err(_) => return self.lose(now, server),
            }
        }
        if self.until.is_some_and(|at| at <= now) {
            return self.lose(now, server);
        }
        let due = found.due && self.connection.poll_timeout().is_some_and(|at| at <= now);
        if ready.readable && reads && self.connection.wants_input() {
            match self.transport.read(scratch) {
                Ok(0) => self.connection.handle_eof(now),
                Ok(n) => {
                    self.used_at = now;
                    self.connection.handle_input(now, scratch.get(..n).unwrap_or_default());
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock && !due => return,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // TLS did not end. As what came says itself how long it is, nothing can be missing unnoticed.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => self.connection.handle_eof(now),
                Err(_) => return self.lose(now, server),
            }
        } else if !due {
            return;
        }
        if due {
            self.connection.handle_timeout(now);
        }
        self.connection.drive(now, server);
        self.shut(now);
    }

    /// Writes what there is as far as it goes now; whether anything went
    pub(super) fn write(&mut self, now: Instant, server: &mut Server) -> bool {
        let mut moved = false;
        if !self.broken && self.transport.flush_some().is_err() {
            self.lose(now, server);
        }
        while !self.broken && !self.connection.transmit().is_empty() {
            let mut parts = [IoSlice::new(&[]); 8];
            let mut filled = 0;
            for (part, bytes) in parts.iter_mut().zip(self.connection.segments()) {
                *part = IoSlice::new(bytes);
                filled += 1;
            }
            match self.transport.write_vectored(parts.get(..filled).unwrap_or(&parts)) {
                Ok(0) => break,
                Ok(n) => {
                    self.used_at = now;
                    self.connection.consume(n);
                    self.connection.drive(now, server);
                    moved = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.lose(now, server),
            }
        }
        self.shut(now);
        moved
    }

    /// Ends our direction once nothing more is to be written
    fn shut(&mut self, now: Instant) {
        if self.connection.is_write_over() && !core::mem::replace(&mut self.shut, true) {
            if self.connection.wants_reset() {
                // Fails when the client is gone, who then needs no sign.
                let _ = self.transport.socket().reset_when_dropped();
            } else {
                let _ = self.transport.shutdown_write();
                self.until = Some(now + LAST).filter(|_| !self.transport.is_flushed());
            }
        }
    }

    fn lose(&mut self, now: Instant, server: &mut Server) {
        self.broken = true;
        self.connection.abandon(now, server);
    }

    pub(super) fn is_over(&self) -> bool {
        let last = self.transport.is_flushed() || self.connection.wants_reset();
        self.broken || (self.connection.is_over() && last)
    }
}

/// How long the last bytes of TLS may take to leave this process
const LAST: Duration = Duration::from_secs(10);
