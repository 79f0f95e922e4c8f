//! The listener and the open connections of one shard, driven by one selector.
//!
//! The cost of a wait grows with the connections that are ready, updated or due, not with all connections.

mod admission;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind};

use mcp_proto::Instant;
use mcp_proto::h1::HttpLimits;
use mcp_proto::http::HeadRecord;
use mcp_proto::http::server::{Admission, Connection, ExchangeId, Server};
use mcp_proto::slab::Slab;
use mcp_std::io::{Listener, Socket, descriptor_limit, is_resource_exhausted};
use mcp_std::poll::{Interest, Ready, Selector, WaitRequest};
#[cfg(feature = "tls")]
use mcp_std::tls::ServerTls;
use mcp_std::{Clock, NetStream};

use super::connection::{
    ConnectionReadiness, MigratedConnection, OnConnect, PendingDescription, ServerConnection, Waiting,
};
use crate::server::Cores;
use admission::{ConnectionIndex, ConnectionPermits, default_max_connections};

pub(super) use admission::{AddressPermit, ConnectionPermit};

/// The listener and the open connections of one shard.
#[derive(Debug)]
pub struct Connections {
    listener: Option<Listener>,
    accepting: Accepting,
    /// Each connection ends after its next response, because the server ends.
    is_draining: bool,
    /// Number of this shard, number of all shards, and the shard that gets the next connection.
    shard: u8,
    shards: u8,
    next_shard: u8,
    /// Connections on their way to other shards.
    migrating: VecDeque<(u8, MigratedConnection)>,
    /// A connection waits for a permit, and none of this shard can be evicted.
    at_capacity: bool,
    /// Time before which the other shards are not asked again to evict a connection.
    ask_shards_at: Instant,
    /// Connections without a permit, by arrival: they wait for one, or are refused.
    waiting: VecDeque<u64>,
    /// The number of open connections of all shards.
    permits: Arc<ConnectionPermits>,
    /// The core of each shard. New connections go to the shard of the core that receives their packets.
    cores: Cores,
    /// The open connections. The bits of a key are the token in the selector.
    connections: Slab<Box<ServerConnection>>,
    /// Token of the connection that was processed last.
    current: u64,
    /// Connections that are ready and not processed yet.
    ready_queue: VecDeque<u64>,
    /// Connections that changed since they were last written to.
    write_queue: Vec<u64>,
    index: ConnectionIndex,
    /// Connections whose read interest is suspended for back-pressure.
    read_suspended: Vec<u64>,
    /// Connections with buffered input that the selector does not know of.
    pending_reads: Vec<u64>,
    /// Maximum number of open connections of all shards.
    pub max_connections: usize,
    /// Maximum number of connections of one address; half of all if `None`.
    pub max_per_address: Option<usize>,
    /// Limits of each connection.
    pub limits: HttpLimits,
    /// Whether heads of requests and responses are recorded.
    pub taps_heads: bool,
    /// Completes the description of a connection for handlers.
    pub(super) on_connect: Option<OnConnect>,
    /// TLS configuration. If it is set, all clients must use TLS.
    #[cfg(feature = "tls")]
    pub tls: Option<ServerTls>,
    /// Time at which connections are accepted again. `None` while they are accepted.
    accepts_at: Option<Instant>,
    selector: Selector,
    /// Buffer for the result of a wait, kept to reuse its memory.
    readiness: Vec<(u64, Ready)>,
    clock: Clock,
    now: Instant,
    scratch: Box<[u8]>,
}

/// Whether connections are accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Accepting {
    /// The selector has the listener registered with read interest.
    Listening,
    /// Not now: the operating system has no descriptors left, or another shard has the listener.
    Paused,
    /// No more.
    Closed,
}

impl Connections {
    /// Creates the first shard, without connections.
    ///
    /// # Errors
    ///
    /// An error of the operating system if it cannot create a selector.
    pub fn new(listener: Listener) -> io::Result<Self> {
        let mut limits = HttpLimits::default();
        // The server binding bounds bodies, because it answers an oversize message with its own error.
        limits.max_body = u64::MAX;
        let mut connections = Self::with_selector(
            Clock::start(),
            Selector::new()?,
            limits,
            ConnectionPermits::new(1, Waker::noop().clone()),
        );
        connections.selector.add(&listener, LISTENER, Interest::READ)?;
        (connections.listener, connections.accepting) = (Some(listener), Accepting::Listening);
        Ok(connections)
    }

    /// Creates another shard. It gets its connections from this one, the first of `all` shards.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn shard(&mut self, shard: u8, all: u8) -> io::Result<Self> {
        if self.shards != all {
            self.permits = ConnectionPermits::new(all, self.selector.waker()?);
        }
        let mut connections =
            Self::with_selector(self.clock, Selector::new()?, self.limits.clone(), self.permits.clone());
        (connections.max_connections, connections.taps_heads) = (self.max_connections, self.taps_heads);
        connections.on_connect.clone_from(&self.on_connect);
        (connections.shard, connections.shards, self.shards) = (shard, all, all);
        connections.cores = self.cores.clone();
        Ok(connections)
    }

    /// Pins each [shard](Self::shard) that is created from now on to a core.
    pub fn pin_shards(&mut self) {
        self.cores = Cores::available();
    }

    /// Returns the cores of the shards; empty unless shards are pinned.
    pub const fn cores(&self) -> &Cores {
        &self.cores
    }

    /// Pins this thread to the core of this shard, if shards are pinned. The first shard is never pinned.
    pub fn pin_thread(&self) {
        if self.shard > 0 {
            self.cores.pin_thread(usize::from(self.shard));
        }
    }

    fn with_selector(
        clock: Clock,
        selector: Selector,
        limits: HttpLimits,
        permits: Arc<ConnectionPermits>,
    ) -> Self {
        Self {
            listener: None,
            accepting: Accepting::Paused,
            is_draining: false,
            shard: 0,
            shards: 1,
            next_shard: 0,
            migrating: VecDeque::new(),
            at_capacity: false,
            ask_shards_at: Instant::ZERO,
            waiting: VecDeque::new(),
            permits,
            cores: Cores::default(),
            connections: Slab::new(),
            current: LISTENER,
            ready_queue: VecDeque::new(),
            write_queue: Vec::new(),
            index: ConnectionIndex::default(),
            read_suspended: Vec::new(),
            pending_reads: Vec::new(),
            max_connections: default_max_connections(descriptor_limit()),
            max_per_address: None,
            limits,
            taps_heads: false,
            on_connect: None,
            #[cfg(feature = "tls")]
            tls: None,
            accepts_at: None,
            selector,
            readiness: Vec::new(),
            clock,
            now: clock.now(),
            scratch: vec![0; READ_BUFFER_SIZE].into(),
        }
    }

    /// Returns the time of the last [`tick`](Self::tick), without a system call.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Reads the clock.
    pub fn tick(&mut self) -> Instant {
        self.now = self.clock.now();
        self.now
    }

    /// Returns the relation of the clock to Unix time.
    pub fn anchor(&self) -> mcp_proto::Anchor {
        self.clock.anchor()
    }

    /// Returns the address of the listener.
    ///
    /// # Errors
    ///
    /// An error of the operating system, or [`NotConnected`](ErrorKind::NotConnected) without a listener.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.as_ref().map_or_else(|| Err(ErrorKind::NotConnected.into()), Listener::address)
    }

    /// Returns the number of open connections of all shards.
    pub fn count(&self) -> usize {
        self.permits.total()
    }

    /// Returns whether the shard is closed and has no connections.
    pub fn is_over(&self) -> bool {
        self.accepting == Accepting::Closed && self.connections.is_empty()
    }

    /// Returns a waker that ends a [`wait`](Self::wait) from any thread.
    ///
    /// # Errors
    ///
    /// As [`Selector::waker`].
    pub fn waker(&mut self) -> io::Result<Waker> {
        self.selector.waker()
    }

    /// Stops accepting connections, and closes each connection once its requests are answered.
    pub fn close(&mut self, server: &mut Server) {
        self.stop_listening();
        self.is_draining = false;
        for (key, connection) in self.connections.iter_mut() {
            let token = key.into();
            if connection.waiting() == Waiting::WithRequest {
                // It was read and gets no permit any more.
                connection.refuse(self.now, server);
            }
            connection.connection.close(self.now);
            connection.connection.drive(self.now, server);
            self.index.queue_update(token, connection);
            self.write_queue.push(token);
        }
    }

    /// Stops accepting connections. Those that are there are served on, and each ends after its next response.
    pub fn drain(&mut self, server: &mut Server) {
        // The system has accepted these, and would reset them.
        for _ in 0..MAX_DRAINED {
            if !self.listener.as_ref().is_some_and(Listener::has_waiting) {
                break;
            }
            self.accept(server);
        }
        self.stop_listening();
        self.is_draining = true;
    }

    /// Ends all connections immediately.
    pub fn abandon(&mut self, server: &mut Server) {
        self.stop_listening();
        let tokens: Vec<u64> = self.connections.iter_mut().map(|(key, _)| u64::from(key)).collect();
        for token in tokens {
            if let Some(connection) = self.connections.get_mut(token.into()) {
                connection.connection.abandon(self.now, server);
            }
            drop(self.remove(token));
        }
    }

    fn stop_listening(&mut self) {
        self.accepting = Accepting::Closed;
        if let Some(listener) = self.listener.take() {
            // Closing the listener would be enough.
            let _ = self.selector.remove(&listener, LISTENER);
        }
    }

    /// Returns the next connection that belongs to another shard, which must [adopt](Self::adopt) it.
    pub fn poll_migrating(&mut self) -> Option<(u8, MigratedConnection)> {
        self.migrating.pop_front()
    }

    /// Adopts a connection of another shard. It is closed if the selector refuses it.
    pub fn adopt(&mut self, server: &mut Server, migrated: MigratedConnection) {
        let MigratedConnection(mut connection) = migrated;
        // Its time is that of the other shard, which may be ahead of the last tick here.
        self.tick();
        connection.detach();
        if let Some(permit) = &mut connection.permit {
            permit.move_to(self.shard);
        }
        // This shard was closed while the connection was on its way.
        if self.accepting == Accepting::Closed && !self.is_draining {
            connection.connection.close(self.now);
        }
        connection.connection.drive(self.now, server);
        let _ = self.register(connection);
    }

    /// Registers a connection and marks it as ready.
    fn register(&mut self, mut connection: Box<ServerConnection>) -> io::Result<u64> {
        // Most clients have sent their request by now.
        connection.readiness = ConnectionReadiness::READABLE;
        let token = u64::from(self.connections.insert(connection));
        let Some(connection) = self.connections.get_mut(token.into()) else { return Ok(token) };
        if let Err(error) = self.selector.add(connection.transport.socket(), token, Interest::READ) {
            self.connections.remove(token.into());
            return Err(error);
        }
        self.index.queue_update(token, connection);
        self.ready_queue.push_back(token);
        self.write_queue.push(token);
        Ok(token)
    }

    /// Moves a connection to the shard that its next request is for, if that is another one.
    fn migrate_if_needed(&mut self, token: u64) {
        let shard = self
            .connections
            .get_mut(token.into())
            .and_then(|connection| connection.connection.take_other_shard());
        if let Some((shard, connection)) = shard.and_then(|shard| Some((shard, self.take(token)?))) {
            self.migrating.push_back((shard, MigratedConnection(connection)));
        }
    }

    /// Returns the next recorded head of a request or response.
    pub fn poll_head(&mut self) -> Option<HeadRecord> {
        if !self.taps_heads {
            return None;
        }
        self.connections.iter_mut().find_map(|(_, connection)| connection.connection.poll_head())
    }

    /// Drives the connection of an exchange, after the server binding changed the exchange.
    pub fn drive(&mut self, server: &mut Server, exchange: ExchangeId) {
        // Most likely it is the current connection, whose exchange may be over before the index is updated.
        let has_exchange =
            |connection: &mut Box<ServerConnection>| connection.connection.exchange() == Some(exchange);
        let mut token = self.current;
        if !self.connections.get_mut(token.into()).is_some_and(has_exchange) {
            self.index.update_exchanges(&mut self.connections);
            let Some(found) = self.index.token_of(exchange) else { return };
            token = found;
        }
        let is_crowded = self.is_crowded();
        if let Some(connection) = self.connections.get_mut(token.into()) {
            connection.connection.end_after_response(is_crowded);
            connection.connection.drive(self.now, server);
            self.index.queue_update(token, connection);
            self.write_queue.push(token);
            self.migrate_if_needed(token);
        }
    }

    /// Writes as much as possible without waiting. Returns whether anything was written.
    pub fn write(&mut self, server: &mut Server) -> bool {
        let mut wrote = false;
        // A write makes room for further output, so the exchanges are asked again after each one.
        loop {
            while let Some(exchange) = server.poll_ready(self.now) {
                self.drive(server, exchange);
            }
            let Some(token) = self.write_queue.pop() else { return wrote };
            let Some(connection) = self.connections.get_mut(token.into()) else { continue };
            wrote |= connection.write(self.now, server);
            if connection.is_over() {
                drop(self.remove(token));
            } else {
                self.index.queue_update(token, connection);
                self.migrate_if_needed(token);
            }
        }
    }

    /// Removes a connection and returns its transport, to be closed.
    fn remove(&mut self, token: u64) -> Option<NetStream> {
        self.take(token).map(|connection| connection.transport)
    }

    fn take(&mut self, token: u64) -> Option<Box<ServerConnection>> {
        let connection = self.connections.remove(token.into())?;
        self.index.remove(token, &connection);
        if connection.permit.is_none() {
            self.waiting.retain(|other| *other != token);
        }
        if self.connections.is_empty() {
            self.index.exchanges = Vec::new();
        }
        // Closing is not enough if it moves to another shard, or a child process holds it between fork and exec.
        let _ = self.selector.remove(connection.transport.socket(), token);
        Some(connection)
    }

    /// Waits until I/O is possible, until `until`, or until [woken](Self::waker). Reads are included if `reads` is set.
    ///
    /// Then [`process_next`](Self::process_next) processes the connections that are ready. Accepts new connections, and
    /// handles the deadlines of the server.
    ///
    /// # Errors
    ///
    /// An error of the selector.
    pub fn wait(&mut self, server: &mut Server, reads: bool, until: Option<Instant>) -> io::Result<()> {
        let deadline = until.into_iter().chain(self.prepare_wait(server, reads)?).min();
        let mut found = core::mem::take(&mut self.readiness);
        let waited = self.selector.wait(deadline.map(|at| self.clock.until(at)), &mut found);
        self.now = self.clock.now();
        let has_newcomers = found.iter().any(|(token, _)| *token == LISTENER);
        let recorded =
            found.drain(..).try_for_each(|(token, ready)| self.record_readiness(token, ready, reads));
        self.readiness = found;
        waited.and(recorded)?;

        self.record_pending_reads();
        self.record_deadlines();
        if server.poll_timeout().is_some_and(|at| at <= self.now) {
            server.handle_timeout(self.now);
        }
        self.accepts_at = self.accepts_at.filter(|at| *at > self.now);
        if has_newcomers && self.accepting == Accepting::Listening {
            self.accept(server);
        }
        Ok(())
    }

    /// Returns the conditions that [`wait`](Self::wait) waits for, for a loop that also waits for other sources.
    ///
    /// # Errors
    ///
    /// An error of the selector.
    pub fn wait_request(&mut self, server: &mut Server, reads: bool) -> io::Result<WaitRequest<'_>> {
        let timeout = self.prepare_wait(server, reads)?.map(|at| self.clock.until(at));
        #[cfg(unix)]
        return Ok(WaitRequest::for_selector(&self.selector, timeout));
        #[cfg(not(unix))]
        Ok(WaitRequest::unpollable(timeout))
    }

    /// Updates the interest in the selector. Returns the deadline for the next [`wait`](Self::wait).
    ///
    /// It is for loops that wait for the selector themselves; `wait` does it itself.
    ///
    /// # Errors
    ///
    /// An error of the selector.
    pub fn prepare_wait(&mut self, server: &mut Server, reads: bool) -> io::Result<Option<Instant>> {
        for token in self.ready_queue.drain(..) {
            // The selector will report unhandled readiness again.
            if let Some(connection) = self.connections.get_mut(token.into()) {
                connection.readiness = ConnectionReadiness::default();
                self.index.queue_update(token, connection);
            }
        }
        if !reads {
            // Silence while nothing is read is no missed ping (DESIGN-37).
            server.engine().hold_keep_alive(self.now);
        } else {
            for token in self.read_suspended.drain(..) {
                if let Some(connection) = self.connections.get_mut(token.into()) {
                    connection.listed.read_suspended = false;
                    self.index.queue_update(token, connection);
                }
            }
        }
        self.index.update_exchanges(&mut self.connections);
        while let Some(token) = self.index.update_queue.pop() {
            let Some(connection) = self.connections.get_mut(token.into()) else { continue };
            connection.listed.update_queue = false;
            self.index.update(token, connection);
            // Keep read interest: most connections want to read again soon. It is removed when there is input.
            let wants = connection.connection.wants_input();
            let read = connection.interest.read || connection.wants_read(reads);
            let pending = connection.transport.has_pending_read();
            if wants
                && (!read || (pending && !reads))
                && !core::mem::replace(&mut connection.listed.read_suspended, true)
            {
                self.read_suspended.push(token);
            }
            if pending && connection.wants_read(reads) && !self.pending_reads.contains(&token) {
                self.pending_reads.push(token);
            }
            let write = !connection.connection.transmit().is_empty();
            connection.update_interest(token, Interest { read, write }, &mut self.selector)?;
        }

        let accepts_at = self.listener.as_ref().and(self.accepts_at);
        if let Some(listener) = &self.listener {
            let read = accepts_at.is_none();
            let accepting = if read { Accepting::Listening } else { Accepting::Paused };
            if accepting != self.accepting {
                self.selector.modify(listener, LISTENER, Interest { read, write: false })?;
                self.accepting = accepting;
            }
        }
        let own = self.index.deadlines.first().map(|(at, _)| *at);
        let at_once = Some(self.now).filter(|_| !self.pending_reads.is_empty());
        let admission = self.next_admission_at();
        Ok([at_once, accepts_at, own, admission, server.poll_timeout()].into_iter().flatten().min())
    }

    /// Records the readiness of a connection.
    fn record_readiness(&mut self, token: u64, mut ready: Ready, reads: bool) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(token.into()) else { return Ok(()) };
        let read_wanted = connection.interest.read;
        if ready.readable && read_wanted && !connection.wants_read(reads) {
            // If both directions are closed, the selector reports that again.
            ready.readable = false;
            connection.update_interest(
                token,
                Interest { read: false, ..connection.interest },
                &mut self.selector,
            )?;
            // The update decides whether and when to read again.
            self.index.queue_update(token, connection);
        }
        if !ready.is_empty() {
            connection.readiness = ConnectionReadiness { ready, read_wanted, deadline_passed: false };
            self.ready_queue.push_back(token);
        }
        Ok(())
    }

    /// Marks the connections with buffered input as ready.
    fn record_pending_reads(&mut self) {
        for token in self.pending_reads.drain(..) {
            let Some(connection) = self.connections.get_mut(token.into()) else { continue };
            if connection.readiness.ready.is_empty() {
                self.ready_queue.push_back(token);
            }
            connection.readiness.ready.readable = true;
            connection.readiness.read_wanted = true;
        }
    }

    /// Marks the connections whose deadline has passed.
    fn record_deadlines(&mut self) {
        while let Some((at, token)) = self.index.deadlines.first().copied().filter(|(at, _)| *at <= self.now)
        {
            self.index.deadlines.remove(&(at, token));
            let Some(connection) = self.connections.get_mut(token.into()) else { continue };
            connection.indexed_deadline = None;
            // The deadline may have moved since it was entered.
            if connection.poll_timeout().is_some_and(|at| at <= self.now) {
                if connection.readiness.ready.is_empty() {
                    self.ready_queue.push_back(token);
                }
                connection.readiness.deadline_passed = true;
            }
            // The update enters the next deadline.
            self.index.queue_update(token, connection);
        }
    }

    /// Processes the next connection that is ready: reads (if `reads`) and handles its deadline; or admits one that
    /// waits. Returns `false` if there is none.
    pub fn process_next(&mut self, server: &mut Server, reads: bool) -> bool {
        let is_crowded = self.is_crowded();
        while let Some(token) = self.ready_queue.pop_front() {
            let Some(connection) = self.connections.get_mut(token.into()) else { continue };
            let found = core::mem::take(&mut connection.readiness);
            self.current = token;
            connection.connection.end_after_response(is_crowded);
            connection.process_readiness(self.now, server, found, reads, &mut self.scratch);
            self.index.queue_update(token, connection);
            self.write_queue.push(token);
            self.migrate_if_needed(token);
            return true;
        }
        self.admit_next(server)
    }
}

/// Readable when [`wait`](Connections::wait) has something to do or was [woken](Connections::waker).
#[cfg(unix)]
impl std::os::fd::AsFd for Connections {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.selector.as_fd()
    }
}

/// Token of the listener in the selector. Neither half of it is that of a connection.
const LISTENER: u64 = u64::MAX - 1;
/// Size of the read buffer in bytes.
const READ_BUFFER_SIZE: usize = 64 << 10;

// Accepting connections.

impl Connections {
    /// Accepts connections. At the limit they wait for a permit.
    fn accept(&mut self, server: &mut Server) {
        // Bounded, so that a flood of new connections does not stop those that are open.
        for _ in 0..ACCEPT_BATCH {
            let Some(listener) = &self.listener else { return };
            let accepted = match listener.accept() {
                Ok(Some((socket, address))) => self.accept_socket(server, socket, address),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if let Err(error) = accepted {
                let exhausted = is_resource_exhausted(&error);
                // Linux reports exhaustion even if no connection waits.
                if exhausted && !self.listener.as_ref().is_some_and(Listener::has_waiting) {
                    return;
                }
                if exhausted && self.free_descriptor(server) {
                    continue;
                }
                self.at_capacity |= exhausted && self.shards > 1;
                // Retry later: an immediate attempt would fail again, and other connections may end meanwhile.
                let wait = if exhausted { ACCEPT_RETRY_DELAY } else { ACCEPT_RETRY_DELAY / 10 };
                self.accepts_at = Some(self.now + wait);
                return;
            }
        }
    }

    /// Creates the connection of a socket, and registers it or moves it to its shard.
    fn accept_socket(&mut self, server: &mut Server, socket: Socket, peer: SocketAddr) -> io::Result<()> {
        let shard = self.choose_shard(&socket);
        let per_address = self.max_per_address.unwrap_or_else(|| self.max_connections.div_ceil(2));
        let address = AddressPermit::acquire(&self.permits, peer.ip(), per_address);
        #[cfg(feature = "tls")]
        let transport = match &self.tls {
            Some(tls) => NetStream::accept_tls(tls, socket)?,
            None => socket.into(),
        };
        #[cfg(not(feature = "tls"))]
        let transport = NetStream::from(socket);
        let mut connection = Connection::new(self.now, self.limits.clone());
        if self.taps_heads {
            connection.tap_heads();
        }
        let is_admissible = address.is_some();
        let mut connection = Box::new(ServerConnection::new(transport, connection, address, self.now));
        let is_handshaking = connection.transport.is_handshaking();
        connection.description = Some(PendingDescription::new(peer, self.on_connect.clone()));
        if !connection.complete_handshake() {
            return Ok(());
        }
        connection.tls_deadline = is_handshaking.then(|| self.now + self.limits.head_timeout);
        if !is_admissible {
            connection.refuse(self.now, server);
        } else if self.is_full() || !self.waiting.is_empty() {
            // Those that wait came first, even if there is a permit by now.
            connection.connection.set_admission(Admission::Held);
        } else {
            connection.admit(self.now, ConnectionPermit::new(&self.permits, shard));
            if shard != self.shard {
                self.migrating.push_back((shard, MigratedConnection(connection)));
                return Ok(());
            }
            return self.register(connection).map(drop);
        }
        // Before the new connection is in the list, so that it is not the one that is closed.
        self.limit_waiting(server);
        let token = self.register(connection)?;
        self.waiting.push_back(token);
        Ok(())
    }

    /// Returns the shard for a new connection: that of the core that receives its packets, or the next in turn.
    fn choose_shard(&mut self, socket: &Socket) -> u8 {
        if self.shards == 1 {
            return self.shard;
        }
        let core = self.cores.incoming_index(socket).and_then(|core| u8::try_from(core).ok());
        let wanted = core.filter(|shard| *shard < self.shards).unwrap_or_else(|| {
            let next = (self.next_shard + 1) % self.shards;
            core::mem::replace(&mut self.next_shard, next)
        });
        self.permits.choose_shard(wanted)
    }
}

/// Maximum number of batches that are accepted before the server stops listening.
const MAX_DRAINED: usize = 256;
/// Maximum number of connections accepted at once.
const ACCEPT_BATCH: usize = 16;
/// Pause after the process or the system ran out of resources. Other errors pause for a tenth of it.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
