//! The connections under a client: HTTP/1.1 without sockets, shared out among exchanges.
//!
//! Whoever owns the sockets opens those that [`poll_connect`](Connections::poll_connect) asks for, moves bytes, and closes
//! those that [`poll_close`](Connections::poll_close) names:
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
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::binding::Client;
use super::exchange::{Action, Class, ExchangeId, Failure, Open};
use super::url::{Origin, Url};
use crate::client::Event;
use crate::h1;
use crate::head::{BodySize, Request};
use crate::http::record::{HeadRecord, keep};
use crate::slab::{Key, Slab};
use crate::tap::Direction;
use crate::time::Instant;

crate::slab::key! {
    /// A connection; stale once it was named by [`Connections::poll_close`]
    ConnectionId
}

/// Bounds on connections
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConnectionLimits {
    /// Connections at once (default 32, small 4, at least 2); half of them may be streams. Two more are kept back for messages that
    /// other exchanges may wait for. Reached: exchanges wait for a connection.
    pub max_connections: usize,
    /// Time for a connection to be made (default 10 s)
    pub connect_timeout: Duration,
    /// What one connection may take and hold. Its `keep_alive` (here 4 s by default) is how long an idle one is used again:
    /// less than what servers grant, so that they hardly ever close one that a request is being written to.
    pub h1: h1::Limits,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        let h1 = client_side(&h1::Limits::default());
        Self { max_connections: 32, connect_timeout: Duration::from_secs(10), h1 }
    }
}

impl ConnectionLimits {
    /// Bounds for a small device
    #[must_use]
    pub fn small() -> Self {
        Self { max_connections: 4, h1: client_side(&h1::Limits::small()), ..Self::default() }
    }
}

/// The client bounds what it gathers, and a stream has no end
fn client_side(limits: &h1::Limits) -> h1::Limits {
    h1::Limits { keep_alive: Duration::from_secs(4), max_body: u64::MAX, ..limits.clone() }
}

/// Kept back for messages that other exchanges may wait for
const RESERVED: usize = 2;

/// An exchange on a connection
#[derive(Debug)]
struct Carried {
    /// What to send on another connection, as long as that may be
    open: Open,
    /// Some of it was written
    written: bool,
    /// The head of the answer has come
    answered: bool,
}

#[derive(Debug)]
enum State {
    Connecting { until: Instant },
    Up(Box<h1::client::Connection>),
}

#[derive(Debug)]
struct Connection {
    origin: Origin,
    state: State,
    carried: Option<Carried>,
    /// It has carried an exchange before
    used: bool,
    /// How it broke
    broken: Option<Box<str>>,
    /// When it was last used, as a number that grows
    turn: u64,
}

/// The connections of a client
#[derive(Debug)]
pub struct Connections {
    limits: ConnectionLimits,
    all: Slab<Connection>,
    /// Exchanges that wait for a connection, oldest first
    queue: VecDeque<Open>,
    connects: VecDeque<(ConnectionId, Origin)>,
    closes: VecDeque<ConnectionId>,
    turn: u64,
    now: Instant,
    heads: Option<VecDeque<HeadRecord>>,
}

/// What a head said, kept while the connection is borrowed
struct Head {
    status: u16,
    fields: Vec<(String, Vec<u8>)>,
}

impl Connections {
    /// No connections yet
    #[must_use]
    pub fn new(limits: ConnectionLimits) -> Self {
        Self {
            limits,
            all: Slab::new(),
            queue: VecDeque::new(),
            connects: VecDeque::new(),
            closes: VecDeque::new(),
            turn: 0,
            now: Instant::ZERO,
            heads: None,
        }
    }

    /// Has heads kept for [`poll_head`](Self::poll_head), 64 at most
    pub fn tap_heads(&mut self) {
        self.heads.get_or_insert_default();
    }

    /// The next head that went or came, if they are kept
    pub fn poll_head(&mut self) -> Option<HeadRecord> {
        self.heads.as_mut()?.pop_front()
    }

    // ---- what the owner of the sockets tells ------------------------------------------------------------------

    /// A connection is there, TLS included where the origin is secure
    pub fn handle_connected(&mut self, now: Instant, connection: ConnectionId) {
        self.tick(now);
        let Some(c) = self.all.get_mut(connection.0) else { return };
        if matches!(c.state, State::Connecting { .. }) {
            c.state = State::Up(Box::new(h1::client::Connection::new(self.now, self.limits.h1.clone())));
            self.write(connection.0);
        }
    }

    /// A connection could not be made
    pub fn handle_connect_failed(
        &mut self,
        now: Instant,
        connection: ConnectionId,
        client: &mut Client,
        why: &str,
    ) {
        self.tick(now);
        let Some(c) = self.all.remove(connection.0) else { return };
        if let Some(carried) = c.carried {
            client.handle_failure(self.now, carried.open.exchange, Failure::unsent(why));
        }
    }

    /// Bytes were read
    pub fn handle_input(&mut self, now: Instant, connection: ConnectionId, bytes: &[u8]) {
        self.tick(now);
        if let Some(h1) = self.h1(connection) {
            h1.handle_input(now, bytes);
        }
    }

    /// Nothing more will come: the peer closed its side
    pub fn handle_eof(&mut self, now: Instant, connection: ConnectionId) {
        self.tick(now);
        if let Some(h1) = self.h1(connection) {
            h1.handle_eof(now);
        }
    }

    /// Nothing more will come, and that is not the peer's doing, or it cannot be told: the connection broke
    ///
    /// A response that would end with the connection is not whole then (RFC 9112, 9.8).
    pub fn handle_broken(&mut self, now: Instant, connection: ConnectionId, why: &str) {
        self.tick(now);
        if let Some(c) = self.all.get_mut(connection.0) {
            c.broken = Some(why.into());
        }
        if let Some(h1) = self.h1(connection) {
            h1.handle_broken(now);
        }
    }

    /// Lets deadlines pass; [`poll_event`](Self::poll_event) afterwards
    pub fn handle_timeout(&mut self, now: Instant) {
        self.tick(now);
        for key in self.keys() {
            if let Some(h1) = self.h1(ConnectionId(key)) {
                h1.handle_timeout(now);
            }
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called next; the client has a deadline of its own
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let of = |c: &Connection| match &c.state {
            State::Connecting { until } => Some(*until),
            State::Up(h1) => h1.poll_timeout(),
        };
        self.all.iter().filter_map(|(_, c)| of(c)).min()
    }

    // ---- what it is to do --------------------------------------------------------------------------------------

    /// The next connection to make
    pub fn poll_connect(&mut self) -> Option<(ConnectionId, Origin)> {
        self.connects.pop_front()
    }

    /// The next connection to close
    pub fn poll_close(&mut self) -> Option<ConnectionId> {
        self.closes.pop_front()
    }

    /// Whether to read from a connection now
    #[must_use]
    pub fn wants_input(&self, connection: ConnectionId) -> bool {
        match self.all.get(connection.0).map(|c| &c.state) {
            Some(State::Up(h1)) => h1.wants_input(),
            _ => false,
        }
    }

    /// The bytes to write next to a connection; empty when there are none
    #[must_use]
    pub fn transmit(&self, connection: ConnectionId) -> &[u8] {
        match self.all.get(connection.0).map(|c| &c.state) {
            Some(State::Up(h1)) => h1.transmit(),
            _ => &[],
        }
    }

    /// Notes that `n` of these bytes were written
    pub fn consume(&mut self, connection: ConnectionId, n: usize) {
        let Some(c) = self.all.get_mut(connection.0) else { return };
        if let State::Up(h1) = &mut c.state {
            h1.consume(n);
            if let Some(carried) = c.carried.as_mut().filter(|_| n > 0) {
                carried.written = true;
            }
        }
    }

    /// A connection cannot be written to any more; what the server said before it left is still to be read
    pub fn handle_write_failed(&mut self, connection: ConnectionId) {
        if let Some(h1) = self.h1(connection) {
            h1.handle_write_failed();
        }
    }

    /// Whether to read from a connection before its [`transmit`](Self::transmit) is written: it was used before, and the
    /// server may have closed it since
    ///
    /// As long as nothing of a request was written, the request can go out on another connection, whatever it is.
    #[must_use]
    pub fn is_doubtful(&self, connection: ConnectionId) -> bool {
        let untouched = |c: &Connection| c.used && c.carried.as_ref().is_some_and(|x| !x.written);
        self.all.get(connection.0).is_some_and(untouched)
    }

    /// All connections that are there or being made
    pub fn iter(&self) -> impl Iterator<Item = ConnectionId> {
        self.all.iter().map(|(key, _)| ConnectionId(key))
    }

    /// Whether no exchange is left, waiting or under way
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.all.iter().all(|(_, c)| c.carried.is_none())
    }

    /// Closes what is idle, for good measure once the client is drained
    pub fn close(&mut self) {
        self.queue.clear();
        for key in self.keys() {
            self.drop(key);
        }
    }

    // ---- the loop ---------------------------------------------------------------------------------------------

    /// The next event of the client; moves heads, bodies and requests between it and the connections
    pub fn poll_event(&mut self, now: Instant, client: &mut Client) -> Option<Event> {
        self.tick(now);
        loop {
            let event = client.poll_event(self.now);
            if event.is_some() {
                return event;
            }
            let mut moved = self.act(client);
            for key in self.keys() {
                moved |= self.read(key, client);
            }
            moved |= self.share();
            if !moved {
                return None;
            }
        }
    }

    /// Takes what the client wants done
    fn act(&mut self, client: &mut Client) -> bool {
        let mut moved = false;
        while let Some(action) = client.poll_exchange(self.now) {
            moved = true;
            match action {
                Action::Open(open) => self.queue.push_back(open),
                Action::Abort { exchange } => {
                    self.queue.retain(|open| open.exchange != exchange);
                    let carries =
                        |c: &Connection| c.carried.as_ref().is_some_and(|x| x.open.exchange == exchange);
                    let found = self.all.iter().find(|(_, c)| carries(c)).map(|(key, _)| key);
                    if let Some(key) = found {
                        self.drop(key);
                    }
                }
            }
        }
        moved
    }

    /// Tells the client what came on one connection
    fn read(&mut self, key: Key, client: &mut Client) -> bool {
        let mut moved = false;
        while let Some(c) = self.all.get_mut(key) {
            let exchange = c.carried.as_ref().map(|x| x.open.exchange);
            let h1 = match &mut c.state {
                State::Up(h1) => h1,
                State::Connecting { until } if *until <= self.now => {
                    if let Some(exchange) = exchange {
                        let why = format!("{} did not take a connection in time", c.origin.authority());
                        client.handle_failure(self.now, exchange, Failure::unsent(why));
                    }
                    self.drop(key);
                    return true;
                }
                State::Connecting { .. } => return moved,
            };
            if exchange.is_some_and(|x| client.is_open(x) && !client.wants_body(x)) {
                return moved;
            }
            let event = h1.poll_event(self.now, |response| Head {
                status: response.status,
                fields: response.fields.iter().map(|(n, v)| (String::from(*n), v.to_vec())).collect(),
            });
            let Some(event) = event else {
                if !h1.is_over() {
                    return moved;
                }
                self.drop(key);
                if let Some(exchange) = exchange {
                    client.handle_failure(self.now, exchange, Failure::unsent("it cannot be sent"));
                }
                return true;
            };
            moved = true;
            self.tell(key, exchange, event, client);
        }
        moved
    }

    fn tell(
        &mut self,
        key: Key,
        exchange: Option<ExchangeId>,
        event: h1::client::Event<Head>,
        client: &mut Client,
    ) {
        use h1::client::Event as Came;
        let Some(exchange) = exchange else {
            if matches!(event, Came::Closed | Came::Fault(_)) {
                self.drop(key);
            }
            return;
        };
        match event {
            Came::Head(head) => {
                if let Some(carried) = self.all.get_mut(key).and_then(|c| c.carried.as_mut()) {
                    carried.answered = true;
                    carried.open.body = Bytes::new();
                }
                let fields: Vec<(&str, &[u8])> = head.fields.iter().map(|(n, v)| (&**n, &**v)).collect();
                keep(&mut self.heads, || {
                    HeadRecord::response(self.now, Direction::In, head.status, fields.iter().copied())
                });
                let head = crate::head::Response { status: head.status, fields: &fields };
                client.handle_head(self.now, exchange, &head);
            }
            Came::Body(bytes) => client.handle_body(self.now, exchange, &bytes),
            Came::End => {
                if let Some(c) = self.all.get_mut(key) {
                    c.carried = None;
                    c.used = true;
                }
                client.handle_end(self.now, exchange);
            }
            Came::Closed | Came::Fault(_) => {
                let Some(c) = self.all.remove(key) else { return };
                self.closes.push_back(ConnectionId(key));
                let Some(carried) = c.carried else { return };
                // A server that has just closed what was kept alive too long: the same request on a fresh one, where
                // that cannot make it happen twice.
                let stale = matches!(event, Came::Closed) && carried.open.repeatable;
                let again = c.used && !carried.answered && (!carried.written || stale);
                if again && client.is_open(exchange) {
                    return self.queue.push_front(carried.open);
                }
                let why = match (event, c.broken) {
                    (Came::Fault(fault), broken)
                        if broken.is_none() || fault.reason() != h1::Reason::Truncated =>
                    {
                        format!("{fault}")
                    }
                    (_, Some(broken)) => broken.into(),
                    _ => String::from("the server closed the connection"),
                };
                client.handle_failure(self.now, exchange, Failure { sent: carried.written, why: why.into() });
            }
        }
    }

    /// Gives connections to exchanges that wait for one
    fn share(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        // For whom there is none: those behind them need not be looked at as closely, and they may be many.
        let mut without: Vec<(Class, Arc<Url>)> = Vec::new();
        while let Some(open) = self.queue.get(at) {
            let same = |(class, url): &(Class, Arc<Url>)| {
                *class == open.class && (Arc::ptr_eq(url, &open.url) || url.origin() == open.url.origin())
            };
            if without.iter().any(same) {
                at += 1;
                continue;
            }
            let idle = self.idle(open.url.origin());
            if idle.is_none() && !self.has_room(open.class) {
                without.push((open.class, Arc::clone(&open.url)));
                at += 1;
                continue;
            }
            let Some(open) = self.queue.remove(at) else { break };
            moved = true;
            let origin = open.url.origin().clone();
            let carried = Some(Carried { open, written: false, answered: false });
            match idle.and_then(|key| Some((key, self.all.get_mut(key)?))) {
                Some((key, c)) => {
                    c.carried = carried;
                    self.write(key);
                }
                None => {
                    let until = self.now + self.limits.connect_timeout;
                    let state = State::Connecting { until };
                    let c = Connection {
                        origin: origin.clone(),
                        state,
                        carried,
                        used: false,
                        broken: None,
                        turn: 0,
                    };
                    let key = self.all.insert(c);
                    self.connects.push_back((ConnectionId(key), origin));
                }
            }
        }
        moved
    }

    /// The idle connection to this origin that was used last
    fn idle(&self, origin: &Origin) -> Option<Key> {
        let fits = |c: &Connection| {
            c.carried.is_none() && c.origin == *origin && matches!(&c.state, State::Up(h1) if h1.is_idle())
        };
        self.all.iter().filter(|(_, c)| fits(c)).max_by_key(|(_, c)| c.turn).map(|(key, _)| key)
    }

    /// Whether another connection may be made for an exchange of this class
    fn has_room(&self, class: Class) -> bool {
        let max = self.limits.max_connections.max(2);
        let is_stream = |c: &&Connection| c.carried.as_ref().is_some_and(|x| x.open.class == Class::Stream);
        let streams = self.all.iter().map(|(_, c)| c).filter(is_stream).count();
        match class {
            Class::Message => self.all.len() < max + RESERVED,
            Class::Request => self.all.len() < max,
            Class::Stream => self.all.len() < max && streams < max / 2,
        }
    }

    /// Writes the request that a connection carries
    fn write(&mut self, key: Key) {
        self.turn += 1;
        let (now, turn) = (self.now, self.turn);
        let Some(c) = self.all.get_mut(key) else { return };
        c.turn = turn;
        let (State::Up(h1), Some(carried)) = (&mut c.state, &c.carried) else { return };
        let open = &carried.open;
        let host = open.url.origin().authority();
        let size =
            if open.method == "POST" { BodySize::Exact(open.body.len() as u64) } else { BodySize::None };
        let written = h1
            .request(now, open.method, open.url.target(), &host, &open.fields, size)
            .and_then(|()| h1.body_owned(&open.body))
            .and_then(|()| h1.end(now));
        keep(&mut self.heads, || {
            let fields: Vec<(&str, &[u8])> = open.fields.iter().collect();
            let head = Request { method: open.method, target: open.url.target(), fields: &fields };
            HeadRecord::request(now, Direction::Out, &head)
        });
        if written.is_err() {
            // Nothing that the client asks for is refused, but a connection may be over by now.
            h1.abort(now);
        }
    }

    /// Closes a connection; what it carries is not told
    fn drop(&mut self, key: Key) {
        if self.all.remove(key).is_some() {
            let before = self.connects.len();
            self.connects.retain(|(id, _)| id.0 != key);
            if self.connects.len() == before {
                self.closes.push_back(ConnectionId(key));
            }
        }
    }

    fn h1(&mut self, connection: ConnectionId) -> Option<&mut h1::client::Connection> {
        match &mut self.all.get_mut(connection.0)?.state {
            State::Up(h1) => Some(h1),
            State::Connecting { .. } => None,
        }
    }

    fn keys(&self) -> Vec<Key> {
        self.all.iter().map(|(key, _)| key).collect()
    }

    fn tick(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }
}
