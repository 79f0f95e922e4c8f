//! One socket of the server, and the connection on it.

use core::hint::black_box;
use core::time::Duration;

use alloc::vec::Vec;
use mcp_proto::Instant;
use mcp_proto::h1::{Eviction, EvictionClass, HttpLimits};
use mcp_proto::http::server::{Admission, Connection, ExchangeId, Server};
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, State};

/// Largest number of bytes that are taken from a socket at once.
const READ_BYTES: usize = 512;
/// Bytes of the head of a response, about.
const RESPONSE_HEAD_BYTES: usize = 256;
/// Bytes that have to be free beyond the buffer of a connection, for its small parts.
const MEMORY_RESERVE: usize = 1 << 10;
/// Time for which a client without memory or without a place waits.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(1);
/// Time after which a socket that was closed is reset, because its client does not end the connection.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which a socket acknowledges the end of its client before it listens again.
///
/// Shorter than RFC 9293 asks for, because the sockets are few. A later duplicate of the end is answered by a reset, and the
/// client has read everything by then.
const TIME_WAIT: Duration = Duration::from_millis(10);
/// Time for the handshake of TCP, so that packets that begin connections from false addresses do not hold the sockets for long.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(3);
/// Time without an acknowledgement of output after which the client is gone.
const PEER_TIMEOUT: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(20);

/// One socket of the server.
#[derive(Debug)]
pub(super) struct Slot {
    handle: SocketHandle,
    phase: Phase,
}

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a slot is in place, so that a connection takes no memory of the heap"
)]
enum Phase {
    /// The socket waits for a client, or since then for the end of its handshake.
    Listening { since: Option<Instant> },
    /// A client is connected.
    Open(Open),
    /// The connection is over, and its socket ends until this time.
    Closing { until: Instant },
}

const LISTENING: Phase = Phase::Listening { since: None };

/// An open connection.
#[derive(Debug)]
struct Open {
    connection: Connection,
    /// Time since which it waits for a place.
    held_since: Instant,
    /// Time since which input waits for memory, although no response is owed.
    starved_since: Option<Instant>,
    /// Time since which its exchange has output for which there was no turn, or no memory.
    ready_since: Option<Instant>,
    /// Bytes of a head that were received, at most.
    head_bytes: usize,
    /// The end of the input was reported.
    has_ended: bool,
}

impl Slot {
    pub(super) const fn new(handle: SocketHandle) -> Self {
        Self { handle, phase: LISTENING }
    }

    /// Returns the connection.
    pub(super) const fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.phase {
            Phase::Open(open) => Some(&mut open.connection),
            Phase::Listening { .. } | Phase::Closing { .. } => None,
        }
    }

    /// Returns whether the connection has a place.
    pub(super) fn is_served(&self) -> bool {
        matches!(&self.phase, Phase::Open(open) if open.connection.admission() == Admission::Open)
    }

    /// Returns since when the connection waits for a place.
    pub(super) fn held_since(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Open(open) if open.connection.admission() == Admission::Held => Some(open.held_since),
            _ => None,
        }
    }

    /// Returns from when a connection with a place may be evicted.
    pub(super) fn eviction(&self) -> Option<Eviction> {
        match &self.phase {
            Phase::Open(open) if self.is_served() => open.connection.eviction(),
            _ => None,
        }
    }

    /// Accepts a client, and takes what has arrived. Returns whether something has happened.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        port: u16,
        limits: &HttpLimits,
        server: &mut Server,
        sockets: &mut SocketSet<'_>,
    ) -> bool {
        let socket: &mut Socket<'_> = sockets.get_mut(self.handle);
        if let Phase::Closing { until } = &mut self.phase {
            if socket.state() == State::TimeWait {
                *until = (*until).min(now + TIME_WAIT);
            }
            let is_reset = socket.state() == State::Closed && socket.remote_endpoint().is_none();
            if !is_reset && now < *until {
                return false;
            }
            if !is_reset && socket.is_open() {
                // The reset is sent at the next turn of the interface, unless its client cannot be reached.
                socket.abort();
                *until = now + TIME_WAIT;
                return true;
            }
            self.phase = LISTENING;
        }
        if let Phase::Listening { since } = &mut self.phase {
            match socket.state() {
                State::Closed | State::TimeWait => {
                    // Responses are written whole.
                    socket.set_nagle_enabled(false);
                    // Fails for port 0 alone.
                    let _ = socket.listen(port);
                    return false;
                }
                State::SynReceived if *since.get_or_insert(now) + HANDSHAKE_TIMEOUT <= now => {
                    socket.abort();
                    self.phase = Phase::Closing { until: now + TIME_WAIT };
                    return true;
                }
                State::SynSent | State::SynReceived => return false,
                State::Listen => {
                    *since = None;
                    return false;
                }
                _ => {}
            }
            let mut connection = Connection::new(now, limits.clone());
            connection.set_admission(Admission::Held);
            self.phase = Phase::Open(Open {
                connection,
                held_since: now,
                starved_since: None,
                ready_since: None,
                head_bytes: 0,
                has_ended: false,
            });
        }
        match &mut self.phase {
            Phase::Open(open) => {
                let is_busy = open.receive(now, limits, server, socket);
                if socket.state() == State::Closed {
                    open.connection.abandon(now, server);
                    self.close(now, socket, true);
                    return true;
                }
                if open.starved_since.is_some_and(|since| since + MAX_WAIT <= now) {
                    self.evict(now, EvictionClass::IncompleteHead, server, sockets);
                    return true;
                }
                is_busy
            }
            Phase::Listening { .. } | Phase::Closing { .. } => false,
        }
    }

    /// Notes that an exchange has output. Returns whether it is that of this connection.
    pub(super) fn mark_ready(&mut self, now: Instant, exchange: ExchangeId) -> bool {
        match &mut self.phase {
            Phase::Open(open) if open.connection.exchange() == Some(exchange) => {
                open.ready_since.get_or_insert(now);
                true
            }
            _ => false,
        }
    }

    /// Writes what the socket takes, and ends the connection if it is over. Returns whether something has happened.
    pub(super) fn send(&mut self, now: Instant, server: &mut Server, sockets: &mut SocketSet<'_>) -> bool {
        let Phase::Open(open) = &mut self.phase else { return false };
        let socket: &mut Socket<'_> = sockets.get_mut(self.handle);
        let mut is_busy = open.queue_output(now, server);
        let connection = &mut open.connection;
        if open.ready_since.is_some_and(|since| since + MAX_WAIT <= now) {
            connection.abandon(now, server);
            self.close(now, socket, true);
            return true;
        }
        is_busy |= write(now, connection, server, socket);
        // `smoltcp` measures it from the last segment of the client, so that it would end connections that are merely quiet.
        socket.set_timeout((socket.send_queue() > 0).then_some(PEER_TIMEOUT));
        if connection.wants_write_shutdown() && socket.may_send() {
            socket.close();
            is_busy = true;
        }
        if connection.wants_close() {
            let is_reset = connection.wants_reset();
            connection.abandon(now, server);
            self.close(now, socket, is_reset);
            return true;
        }
        is_busy
    }

    /// Ends the connection in favour of another one.
    pub(super) fn evict(
        &mut self,
        now: Instant,
        class: EvictionClass,
        server: &mut Server,
        sockets: &mut SocketSet<'_>,
    ) {
        let Phase::Open(open) = &mut self.phase else { return };
        let socket: &mut Socket<'_> = sockets.get_mut(self.handle);
        if matches!(class, EvictionClass::IncompleteHead | EvictionClass::Undecided | EvictionClass::Slow) {
            open.connection.time_out(now, server);
            write(now, &mut open.connection, server, socket);
        }
        open.connection.abandon(now, server);
        // A client that has its responses learns nothing from an orderly end, and the socket is free at once after a reset.
        let is_reset =
            matches!(class, EvictionClass::Idle | EvictionClass::Silent) && socket.send_queue() == 0;
        self.close(now, socket, is_reset);
    }

    fn close(&mut self, now: Instant, socket: &mut Socket<'_>, is_reset: bool) {
        if is_reset {
            socket.abort();
        } else {
            socket.close();
        }
        self.phase = Phase::Closing { until: now + CLOSE_TIMEOUT };
    }

    /// Returns when the slot has something to do without input.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        match &self.phase {
            Phase::Listening { since } => since.map(|since| since + HANDSHAKE_TIMEOUT),
            Phase::Closing { until } => Some(*until),
            Phase::Open(open) => {
                let starved = open.starved_since.map(|since| since + MAX_WAIT);
                let held = self.held_since().map(|since| since + MAX_WAIT);
                let ready = open.ready_since.map(|since| since + MAX_WAIT);
                open.connection.poll_timeout().into_iter().chain(starved).chain(ready).chain(held).min()
            }
        }
    }
}

impl Open {
    /// Moves output of the exchange to the connection, if there is memory for its copy. Returns whether it did.
    fn queue_output(&mut self, now: Instant, server: &mut Server) -> bool {
        if self.ready_since.is_none() {
            return false;
        }
        let body = self.connection.exchange().map_or(0, |exchange| server.transmit(now, exchange).len());
        if !has_memory(2 * (body + RESPONSE_HEAD_BYTES) + MEMORY_RESERVE) {
            return false;
        }
        self.ready_since = None;
        self.connection.drive(now, server);
        true
    }

    fn receive(
        &mut self,
        now: Instant,
        limits: &HttpLimits,
        server: &mut Server,
        socket: &mut Socket<'_>,
    ) -> bool {
        let connection = &mut self.connection;
        let mut is_busy = false;
        self.starved_since = self.starved_since.filter(|_| socket.can_recv());
        while connection.wants_input() && socket.can_recv() {
            if connection.exchange().is_some() || connection.is_idle() {
                self.head_bytes = 0;
            }
            let length = socket.recv_queue().min(READ_BYTES);
            // The head is collected in a buffer that doubles. The core asks for the memory of a body.
            if !has_memory(2 * (self.head_bytes + length) + MEMORY_RESERVE) {
                let is_owed = connection.eviction().is_none() || !connection.transmit().is_empty();
                self.starved_since = self.starved_since.or(Some(now)).filter(|_| !is_owed);
                break;
            }
            self.starved_since = None;
            self.head_bytes = (self.head_bytes + length).min(limits.max_buffered.max(limits.max_head));
            let read = socket.recv(|bytes| {
                let piece = bytes.get(..length).unwrap_or(bytes);
                connection.handle_input(now, piece);
                (piece.len(), ())
            });
            if read.is_err() {
                break;
            }
            connection.drive(now, server);
            is_busy = true;
        }
        if !socket.may_recv() && !self.has_ended {
            self.has_ended = true;
            connection.handle_eof(now);
            connection.drive(now, server);
            is_busy = true;
        }
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
            connection.drive(now, server);
            is_busy = true;
        }
        is_busy
    }
}

/// Writes as much as the socket takes. Returns whether it took any.
fn write(now: Instant, connection: &mut Connection, server: &mut Server, socket: &mut Socket<'_>) -> bool {
    let mut is_busy = false;
    while socket.can_send() && !connection.transmit().is_empty() {
        let Ok(n @ 1..) = socket.send_slice(connection.transmit()) else { break };
        connection.consume(n);
        connection.drive(now, server);
        is_busy = true;
    }
    is_busy
}

/// Returns whether the allocator has `bytes` in one piece.
fn has_memory(bytes: usize) -> bool {
    let mut probe = Vec::<u8>::new();
    let has_memory = probe.try_reserve_exact(bytes).is_ok();
    // The compiler may remove an allocation that nothing uses.
    black_box(&mut probe);
    has_memory
}
