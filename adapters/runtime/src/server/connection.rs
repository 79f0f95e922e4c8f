//! One connection of an HTTP server.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind, IoSlice};

use mcp_proto::Instant;
use mcp_proto::h1::{Eviction, EvictionClass};
use mcp_proto::http::server::{Admission, Connection, ExchangeId, Server};
use mcp_proto::server::ConnectionInfo;
use mcp_std::NetStream;
use mcp_std::catch;
use mcp_std::io::Duplex;
use mcp_std::poll::{Interest, Ready, Selector};

use super::connections::{AddressPermit, ConnectionPermit};

/// Readiness of a connection after a wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConnectionReadiness {
    pub(super) ready: Ready,
    /// Whether the selector had read interest.
    pub(super) read_wanted: bool,
    /// Whether a deadline has passed.
    pub(super) deadline_passed: bool,
}

impl ConnectionReadiness {
    pub(super) const READABLE: Self =
        Self { ready: Ready { readable: true, writable: false }, read_wanted: true, deadline_passed: false };
}

/// State of a connection that has no permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Waiting {
    /// It does not wait: it has a permit, or is refused.
    No,
    /// No complete head of a request has arrived.
    WithoutRequest,
    /// Its request waits, too.
    WithRequest,
}

/// A connection on its way to another shard.
#[derive(Debug)]
pub struct MigratedConnection(pub(super) Box<ServerConnection>);

/// Completes the description of a connection before its first request.
#[derive(Clone)]
pub(super) struct OnConnect(Arc<dyn Fn(ConnectionInfo) -> ConnectionInfo + Send + Sync>);

impl OnConnect {
    pub(super) fn new(describe: impl Fn(ConnectionInfo) -> ConnectionInfo + Send + Sync + 'static) -> Self {
        Self(Arc::new(describe))
    }
}

impl fmt::Debug for OnConnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnConnect")
    }
}

/// The description of a connection until its TLS handshake is complete.
#[derive(Debug)]
pub(super) struct PendingDescription {
    peer: SocketAddr,
    on_connect: Option<OnConnect>,
}

impl PendingDescription {
    pub(super) const fn new(peer: SocketAddr, on_connect: Option<OnConnect>) -> Self {
        Self { peer, on_connect }
    }
}

/// A connection of an HTTP server with its socket.
#[derive(Debug)]
pub(super) struct ServerConnection {
    pub(super) transport: NetStream,
    /// Held while the connection is open. `None` until it is admitted.
    pub(super) permit: Option<ConnectionPermit>,
    /// Counts the connection for the address of its client, until it is dropped.
    _address: Option<AddressPermit>,
    /// Time at which the request of a connection without a permit is refused.
    refuse_at: Option<Instant>,
    pub(super) connection: Connection,
    /// The description that handlers get once the handshake is complete.
    pub(super) description: Option<PendingDescription>,
    /// Readiness that the last wait found and that is not handled yet.
    pub(super) readiness: ConnectionReadiness,
    /// Time until which it is not evicted, because it had input that was not read yet, or has just been written to.
    pub(super) spared_until: Instant,
    /// Time of the last read or write.
    pub(super) last_used: Instant,
    /// Deadline of the TLS handshake, or of the last TLS bytes.
    pub(super) tls_deadline: Option<Instant>,
    /// Whether the write direction is closed.
    is_write_shut: bool,
    /// Whether the socket is broken.
    is_broken: bool,
    /// The lists of its shard in which the connection is.
    pub(super) listed: Listed,
    /// Interest that the selector has registered.
    pub(super) interest: Interest,
    /// The entry of the connection in each map of the index.
    pub(super) indexed_exchange: Option<ExchangeId>,
    pub(super) indexed_deadline: Option<Instant>,
    pub(super) indexed_eviction: Option<Eviction>,
}

/// The lists of a shard in which a connection is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    /// The index's `update_queue`.
    pub(super) update_queue: bool,
    /// The index's `changed_exchanges`.
    pub(super) changed_exchanges: bool,
    /// `Connections::read_suspended`: its read interest is suspended for back-pressure.
    pub(super) read_suspended: bool,
}

impl Listed {
    const NOWHERE: Self = Self { update_queue: false, changed_exchanges: false, read_suspended: false };
}

impl ServerConnection {
    pub(super) const fn new(
        transport: NetStream,
        connection: Connection,
        address: Option<AddressPermit>,
        now: Instant,
    ) -> Self {
        Self {
            transport,
            permit: None,
            _address: address,
            refuse_at: None,
            connection,
            description: None,
            readiness: ConnectionReadiness {
                ready: Ready { readable: false, writable: false },
                read_wanted: false,
                deadline_passed: false,
            },
            spared_until: Instant::ZERO,
            last_used: now,
            tls_deadline: None,
            is_write_shut: false,
            is_broken: false,
            listed: Listed::NOWHERE,
            interest: Interest::READ,
            indexed_exchange: None,
            indexed_deadline: None,
            indexed_eviction: None,
        }
    }

    /// Resets everything that refers to the shard it leaves.
    pub(super) const fn detach(&mut self) {
        self.readiness = ConnectionReadiness {
            ready: Ready { readable: false, writable: false },
            read_wanted: false,
            deadline_passed: false,
        };
        self.listed = Listed::NOWHERE;
        (self.indexed_exchange, self.indexed_deadline, self.indexed_eviction) = (None, None, None);
        self.interest = Interest::READ;
    }

    /// Returns from when it may be evicted in favour of another connection.
    pub(super) fn eviction(&self) -> Option<Eviction> {
        // Without a permit it takes no place, and readiness that was not handled yet may be a request.
        if self.permit.is_none() || !self.readiness.ready.is_empty() {
            return None;
        }
        let eviction = if self.transport.is_handshaking() {
            Eviction { class: EvictionClass::Silent, at: self.last_used }
        } else {
            // TLS may hold bytes that the connection has counted as sent.
            let is_flushed = self.transport.is_flushed();
            let eviction = self.connection.eviction();
            eviction.filter(|eviction| is_flushed || eviction.class != EvictionClass::Idle)?
        };
        Some(Eviction { at: eviction.at.max(self.spared_until), ..eviction })
    }

    /// Serves its requests from now on.
    pub(super) fn admit(&mut self, now: Instant, permit: ConnectionPermit) {
        self.permit = Some(permit);
        self.refuse_at = None;
        self.last_used = now;
        self.connection.set_admission(Admission::Open);
    }

    /// Answers its request with 503, now or when it arrives.
    pub(super) fn refuse(&mut self, now: Instant, server: &mut Server) {
        self.refuse_at = None;
        self.connection.set_admission(Admission::Refused);
        self.connection.drive(now, server);
    }

    /// Returns how it waits for a permit.
    pub(super) fn waiting(&self) -> Waiting {
        match () {
            () if self.permit.is_some() => Waiting::No,
            () if self.connection.is_head_held() => Waiting::WithRequest,
            () if self.connection.admission() == Admission::Refused => Waiting::No,
            () => Waiting::WithoutRequest,
        }
    }

    /// Returns whether to read, for the TLS handshake or (if `reads`) for the server.
    pub(super) fn wants_read(&self, reads: bool) -> bool {
        self.transport.is_handshaking() || (reads && self.connection.wants_input())
    }

    /// Returns its next deadline.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.connection.poll_timeout().into_iter().chain(self.tls_deadline).chain(self.refuse_at).min()
    }

    /// Updates the interest in the selector.
    pub(super) fn update_interest(
        &mut self,
        token: u64,
        wanted: Interest,
        selector: &mut Selector,
    ) -> io::Result<()> {
        let interest = self.transport.interest(wanted);
        if interest != self.interest {
            selector.modify(self.transport.socket(), token, interest)?;
            self.interest = interest;
        }
        Ok(())
    }

    /// Writes, reads and handles deadlines, according to its readiness.
    pub(super) fn process_readiness(
        &mut self,
        now: Instant,
        server: &mut Server,
        readiness: ConnectionReadiness,
        reads: bool,
        scratch: &mut [u8],
    ) {
        let ready = readiness.ready;
        if self.is_over() {
            return;
        }
        if ready.writable {
            // Write before checking deadlines: while a handler ran, nothing was written, however fast the client reads.
            self.write(now, server);
        }
        if ready.readable && !readiness.read_wanted {
            // Readable without read interest: both directions are closed.
            return self.abort(now, server);
        }
        if self.transport.is_handshaking() && self.transport.handshake().is_err() {
            return self.abort(now, server);
        }
        if !self.complete_handshake() {
            return self.abort(now, server);
        }
        if self.tls_deadline.is_some_and(|at| at <= now) {
            return self.abort(now, server);
        }
        if self.refuse_at.is_some_and(|at| at <= now) {
            self.refuse(now, server);
        }
        // Looked up again: what was written above may have moved the deadline.
        let due = readiness.deadline_passed && self.connection.poll_timeout().is_some_and(|at| at <= now);
        if ready.readable && reads && self.connection.wants_input() {
            match self.transport.read(scratch) {
                Ok(0) => self.connection.handle_eof(now),
                Ok(n) => {
                    self.last_used = now;
                    // The read may have completed the handshake.
                    if !self.complete_handshake() {
                        return self.abort(now, server);
                    }
                    self.connection.handle_input(now, scratch.get(..n).unwrap_or_default());
                }
                // Nothing has changed, so the connection need not be driven.
                Err(error) if error.kind() == ErrorKind::WouldBlock && !due => return,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // TLS has no proper end. HTTP messages carry their length, so truncation is noticed anyway.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => self.connection.handle_eof(now),
                Err(_) => return self.abort(now, server),
            }
        } else if !due {
            return;
        }
        if due {
            self.connection.handle_timeout(now);
        }
        self.connection.drive(now, server);
        if self.connection.is_head_held() && self.refuse_at.is_none() {
            self.refuse_at = Some(now + MAX_PERMIT_WAIT);
        }
        self.shutdown_if_done(now);
    }

    /// Describes the connection to its handlers, once no handshake runs. Returns false if the callback has panicked.
    pub(super) fn complete_handshake(&mut self) -> bool {
        if self.transport.is_handshaking() {
            return true;
        }
        let Some(PendingDescription { peer, on_connect }) = self.description.take() else { return true };
        self.tls_deadline = None;
        let certificates = self.transport.peer_certificates();
        let info = ConnectionInfo::new().peer_addr(peer).peer_certificates(certificates);
        let described = match on_connect {
            Some(OnConnect(describe)) => catch(|| describe(info)),
            None => Ok(info),
        };
        described.map(|info| self.connection.set_info(info)).is_ok()
    }

    /// Writes as much as possible without waiting. Returns whether anything was written.
    pub(super) fn write(&mut self, now: Instant, server: &mut Server) -> bool {
        let mut wrote = false;
        if !self.is_broken && self.transport.try_flush().is_err() {
            self.abort(now, server);
        }
        while !self.is_broken && !self.connection.transmit().is_empty() {
            let mut parts = [IoSlice::new(&[]); 8];
            let mut filled = 0;
            for (part, bytes) in parts.iter_mut().zip(self.connection.segments()) {
                *part = IoSlice::new(bytes);
                filled += 1;
            }
            match self.transport.write_vectored(parts.get(..filled).unwrap_or(&parts)) {
                Ok(0) => break,
                Ok(n) => {
                    self.last_used = now;
                    self.connection.consume(n);
                    self.connection.drive(now, server);
                    wrote = true;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.abort(now, server),
            }
        }
        self.shutdown_if_done(now);
        wrote
    }

    /// Closes the write direction once nothing is left to write.
    fn shutdown_if_done(&mut self, now: Instant) {
        if self.connection.wants_write_shutdown() && !core::mem::replace(&mut self.is_write_shut, true) {
            if self.connection.wants_reset() {
                // Fails if the client is gone, which then needs no reset.
                let _ = self.transport.socket().set_reset_on_drop();
            } else {
                // Fails if the client is gone, which then needs no end.
                let _ = self.transport.shutdown_write();
                self.tls_deadline = Some(now + TLS_CLOSE_TIMEOUT).filter(|_| !self.transport.is_flushed());
            }
        }
    }

    fn abort(&mut self, now: Instant, server: &mut Server) {
        self.is_broken = true;
        self.connection.abandon(now, server);
    }

    pub(super) fn is_over(&self) -> bool {
        // A connection that is reset does not wait for its last TLS bytes.
        let is_flushed = self.transport.is_flushed() || self.connection.wants_reset();
        self.is_broken || (self.connection.wants_close() && is_flushed)
    }
}

/// Maximum time for the last TLS bytes to be written.
const TLS_CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time that a request waits for a permit before it gets 503.
///
/// A connection that is idle when it arrives, and stays idle, is evicted before that.
const MAX_PERMIT_WAIT: Duration = Duration::from_millis(900);
