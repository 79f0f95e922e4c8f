//! The HTTP transport of a client: its exchanges, connection pool and sockets.

#[cfg(feature = "auth")]
mod authorization;
mod connecting;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::task::Waker;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::sync::mpsc;

use mcp_proto::client::{Config, Engine, Event};
use mcp_proto::http::HeadRecord;
use mcp_proto::http::client::{
    Challenge, Client, Config as Http, ConnectionId, ConnectionPool, Credential, ExchangeId, PoolLimits,
};
use mcp_proto::{Diagnostic, Instant};
use mcp_std::Clock;
use mcp_std::NetStream;
use mcp_std::io::{Duplex, is_peer_gone};
#[cfg(unix)]
use mcp_std::poll::Descriptors;
use mcp_std::poll::{Interest, Ready, Selector, WaitRequest};
use mcp_std::process::ShutdownTimeouts;
use mcp_std::sync::{BlockingJob, BlockingPool, run_on_thread};
#[cfg(feature = "tls")]
use mcp_std::tls::ClientTls;

use self::connecting::{AddressLookup, ConnectAttempt};
use super::transport::{ClientTransport, CloseAction, ExitInfo, answer_challenge};

/// The exchanges of one client, their connection pool, and the sockets of the pool.
#[derive(Debug)]
pub struct HttpTransport {
    client: Client,
    connections: ConnectionPool,
    /// Whether heads of requests and responses are recorded.
    taps_heads: bool,
    sockets: Vec<HttpSocket>,
    lookups: Vec<AddressLookup>,
    /// An event that [`write`](ClientTransport::write) found.
    buffered_event: Option<Event>,
    /// Whether events are paused.
    events_paused: bool,
    url: String,
    /// The URL in the memory of eras. It may hold a key: never shown.
    era_key: String,
    selector: Selector,
    /// Buffer for the result of a wait, kept to reuse its memory.
    readiness: Vec<(u64, Ready)>,
    last_token: u64,
    clock: Clock,
    now: Instant,
    scratch: Box<[u8]>,
    /// Maximum time for connecting.
    connect_timeout: Duration,
    /// Runs the lookups of names, which block.
    run_blocking: fn(BlockingJob),
    /// Trusted certificates.
    #[cfg(feature = "tls")]
    tls: ClientTls,
    #[cfg(feature = "auth")]
    authorization: Option<authorization::Authorization>,
    /// The error that made waiting impossible.
    error: Option<io::Error>,
}

/// A connection and its socket.
#[derive(Debug)]
struct HttpSocket {
    id: ConnectionId,
    transport: NetStream,
    /// Token of the socket in the selector. Tokens are never reused.
    token: u64,
    /// Interest that the selector has registered.
    interest: Interest,
    /// The connection attempt. `None` once the connection is established, including TLS.
    connecting: Option<ConnectAttempt>,
}

impl HttpTransport {
    /// Creates a transport without connections. `taps_heads` enables the record of heads.
    ///
    /// # Errors
    ///
    /// An error of the operating system if it cannot create a selector.
    pub fn new(config: Config, http: Http, taps_heads: bool) -> io::Result<Self> {
        let selector = Selector::new()?;
        let clock = Clock::start();
        let now = clock.now();
        let limits = PoolLimits::default();
        let connect_timeout = limits.connect_timeout;
        let mut connections = ConnectionPool::new(limits);
        if taps_heads {
            connections.tap_heads();
        }
        let url = format!("{:?}", http.endpoint());
        let endpoint = http.endpoint();
        // With its query, which may select a server, and which `url` does not show.
        let era_key = format!("{}{}", endpoint.origin(), endpoint.target());
        let config = connecting::recall_era(&era_key, config);
        Ok(Self {
            client: Client::new(Arc::new(config), Arc::new(http), now),
            connections,
            taps_heads,
            sockets: Vec::new(),
            lookups: Vec::new(),
            buffered_event: None,
            events_paused: false,
            url,
            era_key,
            selector,
            readiness: Vec::new(),
            last_token: 0,
            clock,
            now,
            scratch: vec![0; READ_BUFFER_SIZE].into(),
            connect_timeout,
            run_blocking: run_on_thread,
            #[cfg(feature = "tls")]
            tls: ClientTls::new(),
            #[cfg(feature = "auth")]
            authorization: None,
            error: None,
        })
    }

    /// Sets where names are looked up; the default is a thread for each lookup.
    #[must_use]
    pub fn look_up_on<P: BlockingPool>(mut self) -> Self {
        self.run_blocking = P::run_blocking;
        self
    }

    /// Sets the trusted certificates; the default is those of the system.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: ClientTls) -> Self {
        self.tls = tls;
        self
    }

    /// Lets an authorizer answer the challenges of the server.
    #[cfg(feature = "auth")]
    #[must_use]
    pub fn authorizer(
        mut self,
        authorizer: mcp_auth::client::Authorizer,
        server: mcp_proto::http::client::Url,
    ) -> Self {
        let versions = self.client.engine().config().effective_versions();
        let config = authorizer.config().clone().versions(versions);
        let authorizer = authorizer.with_config(config);
        self.authorization = Some(authorization::Authorization::new(authorizer, server));
        self
    }

    /// Reads the clocks.
    fn read_clock(&mut self) -> Instant {
        self.now = self.clock.now();
        #[cfg(feature = "auth")]
        if let Some(authorization) = &mut self.authorization {
            authorization.follow_clock(&mut self.client, self.now, &self.clock);
        }
        self.now
    }

    /// Answers challenges and signs proofs. Returns whether there is something new to send.
    fn advance_authorization(&mut self) -> bool {
        #[cfg(feature = "auth")]
        if let Some(authorization) = &mut self.authorization {
            let selector = &mut self.selector;
            return authorization.advance(&mut self.client, self.now, &self.clock, || selector.waker());
        }
        false
    }

    /// Opens and closes connections as the pool requests. Returns whether an attempt failed immediately.
    fn manage_connections(&mut self) -> bool {
        let mut failed = false;
        while let Some(id) = self.connections.poll_close() {
            self.lookups.retain(|lookup| lookup.id != id);
            if let Some(index) = self.sockets.iter().position(|socket| socket.id == id) {
                self.remove_socket(index).transport.close();
            }
        }
        while let Some((id, origin)) = self.connections.poll_connect() {
            if let Some(found) = self.look_up(id, &origin).transpose() {
                failed |= !self.connect_any(id, origin, found);
            }
        }
        let mut index = 0;
        while let Some(lookup) = self.lookups.get(index) {
            let outcome = match lookup.addresses.try_recv() {
                Ok(outcome) => outcome,
                Err(mpsc::TryRecvError::Empty) if self.now < lookup.deadline => {
                    index += 1;
                    continue;
                }
                // The lookup timed out; a later result is dropped.
                Err(_) => Err(ErrorKind::TimedOut.into()),
            };
            let AddressLookup { id, origin, .. } = self.lookups.swap_remove(index);
            let found = outcome.map_err(|error| format!("no address of {}: {error}", origin.host));
            failed |= !self.connect_any(id, origin, found);
        }
        failed
    }

    /// Updates the interest of all sockets in the selector.
    fn update_interest(&mut self) -> io::Result<()> {
        for socket in &mut self.sockets {
            let interest = match &socket.connecting {
                Some(connecting) if !connecting.is_tcp_connected => Interest::WRITE,
                Some(_) => socket.transport.interest(Interest::WRITE),
                None => socket.transport.interest(Interest {
                    read: self.connections.wants_input(socket.id),
                    write: !self.connections.transmit(socket.id).is_empty(),
                }),
            };
            if interest != socket.interest {
                self.selector.modify(socket.transport.socket(), socket.token, interest)?;
                socket.interest = interest;
            }
        }
        Ok(())
    }

    /// Removes a socket from the list and the selector.
    fn remove_socket(&mut self, index: usize) -> HttpSocket {
        let socket = self.sockets.swap_remove(index);
        // Closing is not enough while a child process holds the socket between fork and exec.
        let _ = self.selector.remove(socket.transport.socket(), socket.token);
        socket
    }

    /// Returns whether a socket has buffered input, so that waiting to read is unnecessary.
    fn has_pending_read(&self, index: usize) -> bool {
        let pending =
            |socket: &HttpSocket| socket.connecting.is_none() && socket.transport.has_pending_read();
        self.sockets
            .get(index)
            .is_some_and(|socket| pending(socket) && self.connections.wants_input(socket.id))
    }

    /// Returns whether a request is about to be written to a connection that was used before.
    fn is_possibly_stale(&self, index: usize) -> bool {
        self.sockets.get(index).is_some_and(|socket| self.connections.is_possibly_stale(socket.id))
    }

    /// Reads once. Returns whether there was input, an end of file or an error.
    fn read(&mut self, index: usize) -> bool {
        let Some(socket) = self.sockets.get_mut(index) else { return false };
        match socket.transport.read(&mut self.scratch) {
            Ok(0) => self.connections.handle_eof(self.now, socket.id),
            Ok(n) => {
                let bytes = self.scratch.get(..n).unwrap_or_default();
                self.connections.handle_input(self.now, socket.id, bytes);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => self.connections.handle_broken(self.now, socket.id, &error.to_string()),
        }
        true
    }

    /// Writes as much as possible without waiting. Returns whether anything was written, and whether an idle connection
    /// proved to be closed.
    fn write_sockets(&mut self) -> (bool, bool) {
        let (mut wrote, mut closed) = (false, false);
        for index in 0..self.sockets.len() {
            // An idle connection is not watched between two calls: the server may have closed it.
            if self.is_possibly_stale(index) && self.read(index) {
                closed = true;
                continue;
            }
            let Some(socket) = self.sockets.get_mut(index) else { break };
            // Before TCP is connected, a write would take the error that tells why the connection failed.
            if socket.connecting.as_ref().is_none_or(|connecting| connecting.is_tcp_connected) {
                // If flushing fails, the next read returns the error.
                let _ = socket.transport.try_flush();
            }
            while socket.connecting.is_none() && !self.connections.transmit(socket.id).is_empty() {
                match socket.transport.write(self.connections.transmit(socket.id)) {
                    Ok(0) => break,
                    Ok(n) => {
                        self.connections.consume(socket.id, n);
                        wrote = true;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    // Responses that the server sent before it left can still be read.
                    Err(error) if is_peer_gone(&error) => self.connections.handle_write_failed(socket.id),
                    // The server does not know of it, so a read would wait for a response that never comes.
                    Err(error) => {
                        self.connections.handle_broken(self.now, socket.id, &error.to_string());
                        closed = true;
                        break;
                    }
                }
            }
        }
        (wrote, closed)
    }
}

impl ClientTransport for HttpTransport {
    fn engine(&mut self) -> &mut Engine {
        self.client.engine()
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn tick(&mut self) -> Instant {
        self.read_clock()
    }

    fn poll_event(&mut self) -> Option<Event> {
        #[cfg(feature = "auth")]
        if let Some(diagnostic) = self.authorization.as_mut().and_then(|a| a.poll_diagnostic()) {
            return Some(Event::Diagnostic(diagnostic));
        }
        self.buffered_event.take().or_else(|| self.connections.poll_event(self.now, &mut self.client))
    }

    fn record_era(&mut self) {
        let engine = self.client.engine();
        connecting::record_era(&self.era_key, engine.config(), engine.known_era());
    }

    fn set_events_paused(&mut self, paused: bool) {
        self.events_paused = paused;
    }

    fn write(&mut self) -> bool {
        let mut any = false;
        loop {
            // Polling assigns connections to exchanges; an event found on the way is kept for `poll_event`.
            if self.buffered_event.is_none() && !self.events_paused {
                self.buffered_event = self.connections.poll_event(self.now, &mut self.client);
            }
            if self.advance_authorization() {
                if self.buffered_event.is_none() && !self.events_paused {
                    continue;
                }
                any = true;
            }
            let failed = self.manage_connections();
            let (wrote, closed) = self.write_sockets();
            any |= wrote;
            // A failure may have caused an event, and nothing would end the wait for it.
            if self.buffered_event.is_some() || self.events_paused || !(failed || closed) {
                return any;
            }
        }
    }

    fn wait(&mut self, until: Option<Instant>) {
        if self.buffered_event.is_some() && !self.events_paused {
            self.tick();
            return;
        }
        let timeout = until.into_iter().chain(self.next_deadline()).min().map(|at| self.clock.until(at));
        let mut found = core::mem::take(&mut self.readiness);
        let waited = self.update_interest().and_then(|()| self.selector.wait(timeout, &mut found));
        if let Err(error) = waited {
            self.error.get_or_insert(error);
            // Without a close, the failing wait would be repeated forever.
            self.client.close(self.now);
        }
        self.read_clock();
        for (token, ready) in found.drain(..) {
            // A socket that moved on to another address has a new token.
            let Some(index) = self.sockets.iter().position(|socket| socket.token == token) else { continue };
            let Some(socket) = self.sockets.get(index) else { continue };
            if socket.connecting.is_some() {
                self.advance_connect(index, ready.writable);
            } else if ready.readable && self.connections.wants_input(socket.id) {
                let _ = self.read(index);
            } else if ready.readable {
                // Readable without read interest: both directions are closed, and earlier input is not read.
                self.connections.handle_broken(self.now, socket.id, "the connection broke");
            }
        }
        self.readiness = found;
        // TLS may hold decrypted input, of which the selector knows nothing.
        for index in 0..self.sockets.len() {
            if self.has_pending_read(index) {
                let _ = self.read(index);
            }
        }
        // Each pass ends an attempt or goes on to its next address, which has a later deadline.
        while let Some(index) = self.sockets.iter().position(|socket| socket.is_timed_out(self.now)) {
            self.advance_connect(index, false);
        }
        if self.client.poll_timeout().is_some_and(|at| at <= self.now) {
            self.client.handle_timeout(self.now);
        }
        if self.connections.poll_timeout().is_some_and(|at| at <= self.now) {
            self.connections.handle_timeout(self.now);
        }
    }

    fn waker(&mut self) -> io::Result<Waker> {
        self.selector.waker()
    }

    fn wait_request(&mut self) -> WaitRequest<'_> {
        let is_due = self.buffered_event.is_some() && !self.events_paused;
        if is_due || self.update_interest().is_err() {
            // The wait reports the error.
            return WaitRequest::unpollable(Some(Duration::ZERO));
        }
        let timeout = self.next_deadline().map(|at| self.clock.until(at));
        #[cfg(unix)]
        return WaitRequest::for_selector(&self.selector, timeout);
        #[cfg(not(unix))]
        WaitRequest::unpollable(timeout)
    }

    fn is_tapped(&mut self) -> bool {
        self.taps_heads || self.engine().config().effective_limits().tap_records > 0
    }

    fn poll_head(&mut self) -> Option<HeadRecord> {
        self.connections.poll_head()
    }

    fn poll_challenge(&mut self) -> Option<Challenge> {
        #[cfg(feature = "auth")]
        if self.authorization.is_some() {
            return None;
        }
        self.client.authorization().poll_challenge()
    }

    fn authorize(&mut self, exchange: ExchangeId, credential: Option<Credential>) {
        // A user may have taken long.
        let now = self.tick();
        answer_challenge(&mut self.client, now, exchange, credential);
    }

    fn next_deadline(&mut self) -> Option<Instant> {
        if self.buffered_event.is_some() && !self.events_paused {
            return Some(self.now);
        }
        let found = self.lookups.iter().map(|lookup| lookup.deadline).min();
        let next = self.sockets.iter().filter_map(|socket| socket.connecting.as_ref()?.deadline).min();
        let at_once = (0..self.sockets.len()).any(|index| self.has_pending_read(index)).then_some(self.now);
        let all = [next, found, at_once, self.client.poll_timeout(), self.connections.poll_timeout()];
        all.into_iter().flatten().min()
    }

    /// Returns read interest in the selector, which knows the interest in each socket.
    fn interest(&mut self) -> Interest {
        if let Err(error) = self.update_interest() {
            self.error.get_or_insert(error);
            self.client.close(self.now);
        }
        Interest::READ
    }

    #[cfg(unix)]
    fn descriptors(&mut self) -> Descriptors<'_> {
        let read = Some(std::os::fd::AsFd::as_fd(&self.selector));
        Descriptors { read, ..Descriptors::default() }
    }

    fn close(&mut self) {
        self.client.close(self.now);
    }

    fn is_drained(&self) -> bool {
        self.client.is_drained()
    }

    fn poll_closing_diagnostic(&mut self) -> Option<Diagnostic> {
        self.client.poll_closing_diagnostic()
    }

    fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    fn exit_info(&mut self, _: Duration) -> ExitInfo {
        ExitInfo { url: Some(self.url.clone()), ..ExitInfo::default() }
    }

    fn take_close_action(&mut self, _: ShutdownTimeouts, _: Instant) -> CloseAction {
        self.lookups.clear();
        while !self.sockets.is_empty() {
            self.remove_socket(0).transport.close();
        }
        CloseAction::Nothing
    }
}

/// Size of the read buffer in bytes.
const READ_BUFFER_SIZE: usize = 64 << 10;
