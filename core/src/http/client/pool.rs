//! The connection pool of a client: HTTP/1.1 without sockets.
//!
//! The owner of the sockets opens the connections that [`poll_connect`](ConnectionPool::poll_connect) returns, moves
//! bytes, and closes those that [`poll_close`](ConnectionPool::poll_close) returns:
//!
//! ```text
//!   handle_connected / handle_connect_failed / handle_input / handle_eof / handle_broken / handle_timeout
//!     → poll_event(&mut client) until None
//!     → poll_connect, poll_close until None · write transmit(id), consume(id, n) for each connection
//!     → wait to read where wants_input(id), to write where transmit(id) is not empty, or for poll_timeout
//! ```

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::binding::Client;
use super::exchange::{Action, ExchangeClass, ExchangeFailure, ExchangeId};
use super::pool_table::{
    ConnectionStage, ConnectionState, ConnectionTable, Place, Places, PooledConnection, WaitingRequests,
};
use crate::built::{Observability, Part};
use crate::client::Event;
use crate::driving::{self, DriverCheck};
use crate::h1;
use crate::head::{BodySize, RequestHead};
use crate::http::{HeadRecord, HeadRecords};
use crate::slab::Key;
use crate::tap::Direction;
use crate::time::{Instant, TimeoutReason};
use crate::url::Origin;

crate::slab::key! {
    /// The id of a connection; stale once [`ConnectionPool::poll_close`] returned it.
    ConnectionId
}

/// The limits of a connection pool.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PoolLimits {
    /// Largest number of connections with calls and event streams (default 32, small 4, at least 2).
    ///
    /// Half of them may be event streams. Two more are reserved for messages that other exchanges may wait for, idle or not.
    /// Reached: exchanges wait for a connection.
    pub max_connections: usize,
    /// Timeout for establishing a connection (default 10 s).
    pub connect_timeout: Duration,
    /// The limits of each connection.
    ///
    /// `keep_alive` (4 s in this default) is how long an idle connection is reused. It is shorter than that of most
    /// servers, so that they rarely close a connection while a request is being written.
    pub h1: h1::HttpLimits,
}

impl Default for PoolLimits {
    fn default() -> Self {
        let h1 = client_limits(&h1::HttpLimits::default());
        Self { max_connections: 32, connect_timeout: Duration::from_secs(10), h1 }
    }
}

impl PoolLimits {
    /// Returns limits for a small device.
    #[must_use]
    pub fn small() -> Self {
        Self { max_connections: 4, h1: client_limits(&h1::HttpLimits::small()), ..Self::default() }
    }
}

/// Returns the limits for client connections; the client limits bodies itself, and event streams have no end.
fn client_limits(limits: &h1::HttpLimits) -> h1::HttpLimits {
    h1::HttpLimits { keep_alive: Duration::from_secs(4), max_body: u64::MAX, ..limits.clone() }
}

/// Connections reserved for messages that other exchanges may wait for.
const RESERVED_CONNECTIONS: usize = 2;

/// The connections of a client.
#[derive(Debug)]
pub struct ConnectionPool {
    limits: PoolLimits,
    connections: ConnectionTable,
    waiting: WaitingRequests,
    places: Places,
    connects: VecDeque<(ConnectionId, Origin)>,
    closes: VecDeque<ConnectionId>,
    now: Instant,
    check: DriverCheck,
    heads: Part<Observability, HeadRecords>,
}

impl ConnectionPool {
    /// Creates an empty pool.
    #[must_use]
    pub fn new(limits: PoolLimits) -> Self {
        Self {
            limits,
            connections: ConnectionTable::new(),
            waiting: WaitingRequests::default(),
            places: Places::default(),
            connects: VecDeque::new(),
            closes: VecDeque::new(),
            now: Instant::ZERO,
            check: DriverCheck::default(),
            heads: Part::NONE,
        }
    }

    /// Enables the records of heads, and of bodies that fail requests, for [`poll_head`](Self::poll_head).
    ///
    /// At most 64 records wait to be polled. Further ones are not recorded. Without the feature `observe` none are.
    pub fn tap_heads(&mut self) {
        self.heads.get_or_make(HeadRecords::default);
    }

    /// Returns the next record of a head, if records are enabled.
    pub fn poll_head(&mut self) -> Option<HeadRecord> {
        self.heads.as_mut()?.poll()
    }

    // ---- input from the owner of the sockets -------------------------------------------------------------------

    /// Records that a connection is established, with TLS if the origin is secure.
    pub fn handle_connected(&mut self, now: Instant, connection: ConnectionId) {
        self.tick(now);
        let Some(c) = self.connections.get_mut(connection.0) else { return };
        if matches!(c.state, ConnectionState::Connecting { .. }) {
            c.state = ConnectionState::Connected(Box::new(h1::client::Connection::new(
                self.now,
                self.limits.h1.clone(),
            )));
            self.write_request(connection.0);
        }
    }

    /// Records that a connection could not be established; its exchange fails with the reason `reason`.
    pub fn handle_connect_failed(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        client: &mut Client,
        reason: &str,
    ) {
        self.tick(now);
        let Some((_, assigned)) = self.connections.remove(connection.0) else { return };
        if let Some(assigned) = assigned {
            client.handle_failure(self.now, assigned.request.exchange, ExchangeFailure::unsent(reason));
        }
    }

    /// Processes bytes that were read.
    pub fn handle_input(&mut self, now: Instant, connection: ConnectionId, bytes: &[u8]) {
        self.tick(now);
        self.connections.update_h1(connection.0, |h1| h1.handle_input(now, bytes));
    }

    /// Records the end of the input: the peer closed its side.
    pub fn handle_eof(&mut self, now: Instant, connection: ConnectionId) {
        self.tick(now);
        self.connections.update_h1(connection.0, |h1| h1.handle_eof(now));
    }

    /// Records that the connection broke, or may have.
    ///
    /// Unlike an orderly end, this does not complete a response that is delimited by the end of the connection (RFC
    /// 9112, 9.8).
    pub fn handle_broken(&mut self, now: Instant, connection: ConnectionId, reason: &str) {
        self.tick(now);
        if let Some(c) = self.connections.get_mut(connection.0) {
            c.failure = Some(reason.into());
        }
        self.connections.update_h1(connection.0, |h1| h1.handle_broken(now));
    }

    /// Advances the time to `now`; call [`poll_event`](Self::poll_event) afterwards.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.tick(now);
        if cfg!(debug_assertions) {
            let next = self.connections.next_deadline();
            let next = next.zip(self.connections.timeout_reason());
            self.check.handle_timeout(self.now, next, self.connections.ready_len() > 0);
        }
        for key in self.connections.take_due(self.now) {
            self.connections.update_h1(key, |h1| h1.advance_time(now));
        }
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout) next; the client has a deadline of its own.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        self.connections.next_deadline()
    }

    /// Returns the reason of the deadline of [`poll_timeout`](Self::poll_timeout).
    pub fn timeout_reason(&mut self) -> Option<TimeoutReason> {
        self.connections.timeout_reason()
    }

    // ---- output for the owner of the sockets -------------------------------------------------------------------

    /// Returns the next connection to establish.
    pub fn poll_connect(&mut self) -> Option<(ConnectionId, Origin)> {
        loop {
            let (connection, origin) = self.connects.pop_front()?;
            // It may have been closed before anybody knew of it.
            if let Some(c) = self.connections.get_mut(connection.0) {
                c.stage = ConnectionStage::Announced;
                return Some((connection, origin));
            }
        }
    }

    /// Returns the next connection to close.
    pub fn poll_close(&mut self) -> Option<ConnectionId> {
        self.closes.pop_front()
    }

    /// Returns whether to read from a connection now.
    #[must_use]
    pub fn wants_input(&self, connection: ConnectionId) -> bool {
        match self.connections.get(connection.0).map(|c| &c.state) {
            Some(ConnectionState::Connected(h1)) => h1.wants_input(),
            _ => false,
        }
    }

    /// Returns the bytes to write next to a connection; empty if there are none.
    #[must_use]
    pub fn transmit(&self, connection: ConnectionId) -> &[u8] {
        match self.connections.get(connection.0).map(|c| &c.state) {
            Some(ConnectionState::Connected(h1)) => h1.transmit(),
            _ => &[],
        }
    }

    /// Records that `n` bytes were written.
    pub fn consume(&mut self, connection: ConnectionId, n: usize) {
        let Some(c) = self.connections.get_mut(connection.0) else { return };
        if let ConnectionState::Connected(h1) = &mut c.state {
            h1.consume(n);
            // From the first byte on the server may have executed the request.
            if let Some(assigned) = c.assigned_mut().filter(|_| n > 0) {
                assigned.is_written = true;
            }
            self.connections.refresh(connection.0);
        }
    }

    /// Records that a connection cannot be written to any more; received bytes are still processed.
    pub fn handle_write_failed(&mut self, connection: ConnectionId) {
        self.connections.update_h1(connection.0, h1::client::Connection::handle_write_failed);
    }

    /// Returns whether to read from a connection before [`transmit`](Self::transmit) is written.
    ///
    /// The connection was used before, and the server may have closed it. Until the first byte of a request is written,
    /// any request can move to another connection.
    #[must_use]
    pub fn is_possibly_stale(&self, connection: ConnectionId) -> bool {
        let untouched = |c: &PooledConnection| {
            c.stage == ConnectionStage::Used && c.assigned().is_some_and(|x| !x.is_written)
        };
        self.connections.get(connection.0).is_some_and(untouched)
    }

    /// Returns all connections, including those being established.
    pub fn iter(&self) -> impl Iterator<Item = ConnectionId> {
        self.connections.keys().map(ConnectionId)
    }

    /// Returns whether no exchange is waiting or open.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.connections.assigned() == 0
    }

    /// Closes all connections and drops waiting exchanges; call it once the client is drained.
    pub fn close(&mut self) {
        self.waiting = WaitingRequests::default();
        let keys: Vec<Key> = self.connections.keys().collect();
        for key in keys {
            self.drop(key);
        }
        self.places.clear();
    }

    // ---- the loop ---------------------------------------------------------------------------------------------

    /// Returns the next event of the client; moves requests and responses between the client and the connections.
    pub fn poll_event(&mut self, now: Instant, client: &mut Client) -> Option<Event> {
        self.tick(now);
        self.check.polled();
        // Events come first: while the application has some to take, no input is processed.
        loop {
            let event = client.poll_event(self.now);
            if event.is_some() {
                return event;
            }
            let mut moved = self.process_actions(client);
            moved |= self.read_ready(client);
            moved |= self.assign_connections();
            if !moved {
                return None;
            }
        }
    }

    /// Processes the actions of the client; returns whether there were any.
    fn process_actions(&mut self, client: &mut Client) -> bool {
        let mut moved = false;
        while let Some(action) = client.poll_exchange(self.now) {
            moved = true;
            match action {
                Action::Send(open) => {
                    let exchange = open.exchange;
                    let key = self.waiting.push_back(open);
                    self.places.set(exchange, Place::Waiting(key));
                }
                Action::Abort { exchange } => match self.places.take(exchange) {
                    Some(Place::Waiting(key)) => drop(self.waiting.remove(key)),
                    Some(Place::Connection(key)) if self.carries(key, exchange) => self.drop(key),
                    _ => {}
                },
            }
        }
        moved
    }

    fn carries(&self, key: Key, exchange: ExchangeId) -> bool {
        self.connections.get(key).and_then(PooledConnection::exchange) == Some(exchange)
    }

    /// Passes the events of the connections that have some to the client; returns whether there were any.
    fn read_ready(&mut self, client: &mut Client) -> bool {
        for key in self.connections.take_due(self.now) {
            self.connections.refresh(key);
        }
        let mut moved = false;
        // Only connections that are ready now are read: one that waits for the application is queued again at once.
        for _ in 0..self.connections.ready_len() {
            let Some(key) = self.connections.pop_ready() else { break };
            moved |= self.read(key, client);
            self.connections.record_processed(key);
        }
        moved
    }

    /// Passes the events of one connection to the client; returns whether there were any.
    fn read(&mut self, key: Key, client: &mut Client) -> bool {
        let mut moved = false;
        while let Some(c) = self.connections.get_mut(key) {
            let exchange = c.exchange();
            let h1 = match &mut c.state {
                ConnectionState::Connected(h1) => h1,
                ConnectionState::Connecting { deadline: until } if *until <= self.now => {
                    if let Some(exchange) = exchange {
                        let reason = format!("timeout while connecting to {}", c.host);
                        client.handle_failure(self.now, exchange, ExchangeFailure::unsent(reason));
                    }
                    self.drop(key);
                    return true;
                }
                ConnectionState::Connecting { .. } => return moved,
            };
            if exchange.is_some_and(|x| client.is_open(x) && !client.wants_body(x)) {
                // It continues when the application has taken earlier events.
                self.connections.mark_ready(key);
                return moved;
            }
            let (now, heads) = (self.now, &mut self.heads);
            let event = h1.poll_event(now, |head| {
                let Some(exchange) = exchange else { return };
                if let Some(tap) = heads.as_mut() {
                    let fields = &mut head.fields.iter().copied();
                    tap.record_response(now, Direction::In, head.status, fields);
                }
                client.handle_head(now, exchange, &head);
            });
            let Some(event) = event else {
                if !h1.wants_close() {
                    return moved;
                }
                // With an exchange this happens only after `write_request` failed. A connection that ends behind a
                // response has none.
                self.drop(key);
                if let Some(exchange) = exchange {
                    client.handle_failure(
                        self.now,
                        exchange,
                        ExchangeFailure::unsent("the request could not be written"),
                    );
                }
                return true;
            };
            moved = true;
            self.deliver_event(key, exchange, event, client);
        }
        moved
    }

    fn deliver_event(
        &mut self,
        key: Key,
        exchange: Option<ExchangeId>,
        event: h1::client::Event<()>,
        client: &mut Client,
    ) {
        use h1::client::Event as H1Event;
        let Some(exchange) = exchange else {
            if matches!(event, H1Event::Closed | H1Event::Fault(_)) {
                self.drop(key);
            }
            return;
        };
        match event {
            // The client has it.
            H1Event::Head(()) => {
                if let Some(assigned) = self.connections.get_mut(key).and_then(|c| c.assigned_mut()) {
                    assigned.head_received = true;
                    // The server has it, and after its head it is not sent again.
                    assigned.request.body = Bytes::new();
                }
            }
            H1Event::Body(bytes) => client.handle_body(self.now, exchange, &bytes),
            H1Event::End => {
                // Free before the exchange ends, because the next request may follow at once.
                self.connections.release(key);
                if let Some(c) = self.connections.get_mut(key) {
                    c.stage = ConnectionStage::Used;
                }
                client.handle_end(self.now, exchange);
            }
            H1Event::Closed => self.lose_connection(key, exchange, None, client),
            H1Event::Fault(fault) => self.lose_connection(key, exchange, Some(fault), client),
        }
        if let (Some(body), Some(tap)) = (client.failed_body.take(), self.heads.as_mut()) {
            tap.record_body(self.now, body);
        }
    }

    /// Ends a connection that the server closed, or whose input has a fault. Its exchange fails, or moves to another one.
    fn lose_connection(
        &mut self,
        key: Key,
        exchange: ExchangeId,
        fault: Option<h1::ConnectionFault>,
        client: &mut Client,
    ) {
        let Some((c, assigned)) = self.connections.remove(key) else { return };
        self.closes.push_back(ConnectionId(key));
        let Some(assigned) = assigned else { return };
        // The server closed an idle connection: the request moves to a new one if that cannot execute it twice.
        let stale = fault.is_none() && assigned.request.idempotent;
        let resend =
            c.stage == ConnectionStage::Used && !assigned.head_received && (!assigned.is_written || stale);
        if resend && client.is_open(exchange) {
            let key = self.waiting.push_front(assigned.request);
            return self.places.set(exchange, Place::Waiting(key));
        }
        let reason = match (fault, c.failure) {
            // A broken connection looks truncated to the parser, but its own reason says more.
            (Some(fault), broken) if broken.is_none() || fault.reason() != h1::Reason::Truncated => {
                format!("{fault}")
            }
            (_, Some(broken)) => broken,
            _ => String::from("the server closed the connection"),
        };
        let failure = ExchangeFailure { may_have_been_sent: assigned.is_written, reason: reason.into() };
        client.handle_failure(self.now, exchange, failure);
    }

    /// Assigns connections to waiting exchanges; returns whether any was assigned.
    fn assign_connections(&mut self) -> bool {
        let mut moved = false;
        // The classes come first: an idle connection may be one of those that are reserved.
        while let Some((waiting, open)) = self.waiting.first(|class| self.has_place(class)) {
            let idle = self.connections.take_idle(open.url.origin());
            let max = self.max_connections().saturating_add(RESERVED_CONNECTIONS);
            if idle.is_none() && self.connections.len() >= max {
                break;
            }
            let Some(request) = self.waiting.remove(waiting) else { break };
            moved = true;
            let key = idle.unwrap_or_else(|| {
                let (origin, until) = (request.url.origin().clone(), self.now + self.limits.connect_timeout);
                let key = self.connections.insert(PooledConnection::new(origin.clone(), until));
                self.connects.push_back((ConnectionId(key), origin));
                key
            });
            self.places.set(request.exchange, Place::Connection(key));
            self.connections.assign(key, request);
            if idle.is_some() {
                self.write_request(key);
            }
        }
        moved
    }

    /// Returns whether one more exchange of this class may have a connection, be it idle or new.
    fn has_place(&self, class: ExchangeClass) -> bool {
        let (max, table) = (self.max_connections(), &self.connections);
        match class {
            ExchangeClass::Message => true,
            ExchangeClass::Request => table.calls() + table.streams() < max,
            ExchangeClass::Stream => table.calls() + table.streams() < max && table.streams() < max / 2,
        }
    }

    fn max_connections(&self) -> usize {
        self.limits.max_connections.max(2)
    }

    /// Writes the request that is assigned to a connection.
    fn write_request(&mut self, key: Key) {
        let now = self.now;
        let Some((h1, host, open)) = self.connections.begin_request(key) else {
            return;
        };
        let size =
            if open.method == "POST" { BodySize::Exact(open.body.len() as u64) } else { BodySize::None };
        let written = h1
            .request(now, open.method, open.url.target(), host, &open.fields, size)
            .and_then(|()| h1.write_body_owned(&open.body))
            .and_then(|()| h1.end(now));
        if let Some(tap) = self.heads.as_mut() {
            let fields: Vec<(&str, &[u8])> = open.fields.iter().collect();
            let head = RequestHead { method: open.method, target: open.url.target(), fields: &fields };
            tap.record_request(now, Direction::Out, &head);
        }
        if written.is_err() {
            // The client produces valid requests, but the connection may be over by now.
            h1.abort(now);
        }
        self.connections.refresh(key);
    }

    /// Closes a connection without reporting a failure of its exchange.
    fn drop(&mut self, key: Key) {
        // A connection that was not announced needs no closing.
        if self.connections.remove(key).is_some_and(|(c, _)| c.stage != ConnectionStage::Planned) {
            self.closes.push_back(ConnectionId(key));
        }
    }

    fn tick(&mut self, now: Instant) {
        driving::check_time(self.now, now);
        self.now = self.now.max(now);
    }
}
