//! The table of the connections of a pool: which have something to process, which are idle, and their deadlines.

use alloc::boxed::Box;
use alloc::collections::{BinaryHeap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use super::exchange::{ExchangeClass, ExchangeId, OutgoingRequest};
use crate::deadlines::Deadlines;
use crate::h1;
use crate::slab::list::{List, ListLinks};
use crate::slab::{Key, Slab, links};
use crate::time::{Instant, TimeoutReason};
use crate::url::Origin;

/// An exchange that is assigned to a connection.
#[derive(Debug)]
pub(super) struct AssignedExchange {
    /// The request, kept while it may be sent on another connection.
    pub(super) request: OutgoingRequest,
    /// Bytes of the request were written.
    pub(super) is_written: bool,
    /// The head of the response was received.
    pub(super) head_received: bool,
}

#[derive(Debug)]
pub(super) enum ConnectionState {
    Connecting { deadline: Instant },
    Connected(Box<h1::client::Connection>),
}

/// How far a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ConnectionStage {
    /// The owner of the sockets knows nothing of it.
    Planned,
    /// The owner of the sockets was told of it.
    Announced,
    /// It has carried a whole exchange.
    Used,
}

#[derive(Debug)]
pub(super) struct PooledConnection {
    pub(super) origin: Origin,
    /// Value of `Host` of all its requests.
    pub(super) host: String,
    pub(super) state: ConnectionState,
    assigned: Option<AssignedExchange>,
    pub(super) stage: ConnectionStage,
    /// The reason why the connection broke.
    pub(super) failure: Option<String>,
    /// Number of requests of the table up to its last one.
    last_use: u64,
    /// It is in `ConnectionTable::ready`.
    is_ready: bool,
    /// It is in `ConnectionTable::idle`.
    is_listed: bool,
    /// Its entry in `ConnectionTable::deadlines`.
    armed: Option<Instant>,
}

impl PooledConnection {
    pub(super) fn new(origin: Origin, deadline: Instant) -> Self {
        Self {
            host: origin.authority(),
            origin,
            state: ConnectionState::Connecting { deadline },
            assigned: None,
            stage: ConnectionStage::Planned,
            failure: None,
            last_use: 0,
            is_ready: false,
            is_listed: false,
            armed: None,
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.state {
            ConnectionState::Connecting { deadline } => Some(*deadline),
            ConnectionState::Connected(h1) => h1.poll_timeout(),
        }
    }

    pub(super) fn assigned(&self) -> Option<&AssignedExchange> {
        self.assigned.as_ref()
    }

    pub(super) fn assigned_mut(&mut self) -> Option<&mut AssignedExchange> {
        self.assigned.as_mut()
    }

    /// Returns the exchange that it carries.
    pub(super) fn exchange(&self) -> Option<ExchangeId> {
        self.assigned.as_ref().map(|assigned| assigned.request.exchange)
    }

    /// Returns whether it can carry an exchange.
    fn is_idle(&self) -> bool {
        self.assigned.is_none() && matches!(&self.state, ConnectionState::Connected(h1) if h1.is_idle())
    }
}

/// The connections of a pool; see the [module](self).
///
/// Invariants: `assigned`, `calls` and `streams` equal a count; each idle connection is in `idle`, unless it is in `ready`; each
/// deadline is in `deadlines` (`table_equals_a_walk_after_every_step`).
#[derive(Debug)]
pub(super) struct ConnectionTable {
    slab: Slab<PooledConnection>,
    /// Connections that may have something to process, in order.
    ready: VecDeque<Key>,
    /// Idle connections, the last used one on top; others may be among them.
    idle: BinaryHeap<(u64, Key)>,
    deadlines: Deadlines<Key>,
    /// Number of connections with an exchange.
    assigned: usize,
    /// Number of those whose exchange is a call.
    calls: usize,
    /// Number of those whose exchange is a stream.
    streams: usize,
    /// Number of requests that were written.
    uses: u64,
}

impl ConnectionTable {
    pub(super) const fn new() -> Self {
        Self {
            slab: Slab::new(),
            ready: VecDeque::new(),
            idle: BinaryHeap::new(),
            deadlines: Deadlines::new(),
            assigned: 0,
            calls: 0,
            streams: 0,
            uses: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.slab.len()
    }

    /// Returns the number of connections with an exchange.
    pub(super) const fn assigned(&self) -> usize {
        self.assigned
    }

    /// Returns the number of connections whose exchange is a call.
    pub(super) const fn calls(&self) -> usize {
        self.calls
    }

    /// Returns the number of connections whose exchange is a stream.
    pub(super) const fn streams(&self) -> usize {
        self.streams
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        self.slab.iter().map(|(key, _)| key)
    }

    pub(super) fn get(&self, key: Key) -> Option<&PooledConnection> {
        self.slab.get(key)
    }

    /// Returns a connection for modification; call [`refresh`](Self::refresh) afterwards.
    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut PooledConnection> {
        self.slab.get_mut(key)
    }

    /// Adds a connection that is being established.
    pub(super) fn insert(&mut self, c: PooledConnection) -> Key {
        let key = self.slab.insert(c);
        self.arm(key);
        key
    }

    /// Assigns an exchange to a connection that has none.
    pub(super) fn assign(&mut self, key: Key, request: OutgoingRequest) {
        let Some(c) = self.slab.get_mut(key) else { return };
        self.assigned += 1;
        self.calls += usize::from(request.class == ExchangeClass::Request);
        self.streams += usize::from(request.class == ExchangeClass::Stream);
        c.assigned = Some(AssignedExchange { request, is_written: false, head_received: false });
    }

    /// Returns the HTTP state of an established connection, its `Host`, and the request to write, which counts as its last use.
    pub(super) fn begin_request(
        &mut self,
        key: Key,
    ) -> Option<(&mut h1::client::Connection, &str, &OutgoingRequest)> {
        let c = self.slab.get_mut(key)?;
        self.uses += 1;
        c.last_use = self.uses;
        match (&mut c.state, &c.assigned) {
            (ConnectionState::Connected(h1), Some(assigned)) => Some((h1, &c.host, &assigned.request)),
            _ => None,
        }
    }

    /// Takes the exchange of a connection.
    pub(super) fn release(&mut self, key: Key) -> Option<AssignedExchange> {
        let assigned = self.slab.get_mut(key)?.assigned.take()?;
        self.assigned -= 1;
        self.calls -= usize::from(assigned.request.class == ExchangeClass::Request);
        self.streams -= usize::from(assigned.request.class == ExchangeClass::Stream);
        Some(assigned)
    }

    /// Removes a connection with its exchange.
    pub(super) fn remove(&mut self, key: Key) -> Option<(PooledConnection, Option<AssignedExchange>)> {
        let assigned = self.release(key);
        let c = self.slab.remove(key)?;
        let slab = &self.slab;
        // Ended connections stay in the heap. They are dropped when they outnumber the others, so the heap is bounded.
        if self.idle.len() > 2 * slab.len() + 32 {
            self.idle.retain(|(_, key)| slab.get(*key).is_some());
        }
        Some((c, assigned))
    }

    /// Changes the HTTP state of a connection, if it is established.
    pub(super) fn update_h1(&mut self, key: Key, change: impl FnOnce(&mut h1::client::Connection)) {
        let Some(c) = self.slab.get_mut(key) else { return };
        if let ConnectionState::Connected(h1) = &mut c.state {
            change(h1);
        }
        self.refresh(key);
    }

    /// Records that a connection may have something to process, and its deadline.
    pub(super) fn refresh(&mut self, key: Key) {
        self.mark_ready(key);
        self.arm(key);
    }

    /// Records that a connection may have something to process.
    pub(super) fn mark_ready(&mut self, key: Key) {
        if let Some(c) = self.slab.get_mut(key).filter(|c| !c.is_ready) {
            c.is_ready = true;
            self.ready.push_back(key);
        }
    }

    /// Returns the number of connections that may have something to process; ended ones may be among them.
    pub(super) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// Returns the next connection that may have something to process.
    pub(super) fn pop_ready(&mut self) -> Option<Key> {
        while let Some(key) = self.ready.pop_front() {
            if let Some(c) = self.slab.get_mut(key) {
                c.is_ready = false;
                return Some(key);
            }
        }
        None
    }

    /// Records the deadline of a connection that was processed, and whether it is idle.
    pub(super) fn record_processed(&mut self, key: Key) {
        self.arm(key);
        let Some(c) = self.slab.get_mut(key) else { return };
        if c.is_idle() && !c.is_listed {
            c.is_listed = true;
            self.idle.push((c.last_use, key));
        }
    }

    /// Takes the idle connection to this origin that was used last from the list.
    pub(super) fn take_idle(&mut self, origin: &Origin) -> Option<Key> {
        while let Some((last_use, key)) = self.idle.pop() {
            let Some(c) = self.slab.get_mut(key) else { continue };
            c.is_listed = false;
            // One that is not idle now is listed again as soon as it is. None has another origin, as a client has one; the
            // check stays because no request may reach an origin that must not see it.
            if c.last_use == last_use && c.is_idle() && c.origin == *origin {
                return Some(key);
            }
        }
        None
    }

    /// Returns the next deadline.
    pub(super) fn next_deadline(&mut self) -> Option<Instant> {
        let Self { deadlines, slab, .. } = self;
        deadlines.next(|at, key| slab.get(key).is_some_and(|c| c.armed == Some(at)))
    }

    /// Returns the reason of the next deadline.
    pub(super) fn timeout_reason(&mut self) -> Option<TimeoutReason> {
        self.next_deadline()?;
        let (_, key) = self.deadlines.peek()?;
        match &self.slab.get(key)?.state {
            ConnectionState::Connecting { .. } => Some(TimeoutReason::Connect),
            ConnectionState::Connected(h1) => h1.timeout_reason(),
        }
    }

    /// Takes the connections whose deadlines have passed.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Key> {
        let mut due = Vec::new();
        while let Some((at, key)) = self.deadlines.pop_due(now) {
            if let Some(c) = self.slab.get_mut(key).filter(|c| c.armed == Some(at)) {
                c.armed = None;
                due.push(key);
            }
        }
        due
    }

    /// Records the deadline of a connection, if it has changed.
    fn arm(&mut self, key: Key) {
        let Self { slab, deadlines, .. } = self;
        let Some(c) = slab.get_mut(key) else { return };
        let deadline = c.deadline();
        if c.armed == deadline {
            return;
        }
        c.armed = deadline;
        if let Some(at) = deadline {
            deadlines.arm(at, key);
            deadlines.sweep(slab.len(), |at, key| slab.get(key).is_some_and(|c| c.armed == Some(at)));
        }
    }
}

// Exchanges that wait for a connection, and where each exchange is.

/// A request that waits for a connection, and its position among all.
#[derive(Debug)]
struct WaitingRequest {
    request: OutgoingRequest,
    position: i64,
    links: ListLinks,
}

links! { WaitingRequest: list links }

/// Requests that wait for a connection: one queue per class, with an order among all.
///
/// All requests of a client go to one origin, so those behind the first one of a class cannot do better than it.
#[derive(Debug, Default)]
pub(super) struct WaitingRequests {
    slab: Slab<WaitingRequest>,
    queues: [List; 3],
    next_position: i64,
    /// Position of the request that was put in front last.
    front_position: i64,
}

const fn queue_of(class: ExchangeClass) -> usize {
    match class {
        ExchangeClass::Message => 0,
        ExchangeClass::Request => 1,
        ExchangeClass::Stream => 2,
    }
}

impl WaitingRequests {
    pub(super) const fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Adds a request behind all others.
    pub(super) fn push_back(&mut self, request: OutgoingRequest) -> Key {
        self.next_position += 1;
        let class = request.class;
        let (position, links) = (self.next_position, ListLinks::NONE);
        let key = self.slab.insert(WaitingRequest { request, position, links });
        if let Some(queue) = self.queues.get_mut(queue_of(class)) {
            queue.push(&mut self.slab, key);
        }
        key
    }

    /// Adds a request before all others.
    pub(super) fn push_front(&mut self, request: OutgoingRequest) -> Key {
        // Positions in front are negative, so they come before all others.
        self.front_position -= 1;
        let class = request.class;
        let (position, links) = (self.front_position, ListLinks::NONE);
        let key = self.slab.insert(WaitingRequest { request, position, links });
        if let Some(queue) = self.queues.get_mut(queue_of(class)) {
            queue.push_front(&mut self.slab, key);
        }
        key
    }

    /// Returns the first request of a class that has a place.
    pub(super) fn first(&self, has_place: impl Fn(ExchangeClass) -> bool) -> Option<(Key, &OutgoingRequest)> {
        let firsts = self.queues.iter().filter_map(|queue| queue.first(&self.slab));
        let waiting = firsts.filter_map(|key| Some((key, self.slab.get(key)?)));
        let allowed = waiting.filter(|(_, waiting)| has_place(waiting.request.class));
        allowed.min_by_key(|(_, waiting)| waiting.position).map(|(key, waiting)| (key, &waiting.request))
    }

    /// Takes a request out.
    pub(super) fn remove(&mut self, key: Key) -> Option<OutgoingRequest> {
        let waiting = self.slab.remove(key)?;
        if let Some(queue) = self.queues.get_mut(queue_of(waiting.request.class)) {
            queue.unlink(&mut self.slab, waiting.links);
        }
        Some(waiting.request)
    }
}

/// The place of an exchange in a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Waiting(Key),
    Connection(Key),
}

/// The places of exchanges, by their slots.
#[derive(Debug, Default)]
pub(super) struct Places {
    slots: Vec<Option<(ExchangeId, Place)>>,
}

impl Places {
    /// Records the place of an exchange.
    pub(super) fn set(&mut self, exchange: ExchangeId, place: Place) {
        let at = exchange.0.slot as usize;
        if at >= self.slots.len() {
            self.slots.resize(at + 1, None);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some((exchange, place));
        }
    }

    /// Forgets the place of an exchange. Returns it.
    pub(super) fn take(&mut self, exchange: ExchangeId) -> Option<Place> {
        let slot = self.slots.get_mut(exchange.0.slot as usize)?;
        // The slot may belong to a later exchange by now.
        slot.take_if(|(known, _)| *known == exchange).map(|(_, place)| place)
    }

    /// Releases the memory.
    pub(super) fn clear(&mut self) {
        self.slots = Vec::new();
    }
}

#[cfg(test)]
mod pool_queue_tests {
    use super::*;
    use alloc::sync::Arc;

    fn request(slot: u32, class: ExchangeClass) -> OutgoingRequest {
        OutgoingRequest {
            exchange: ExchangeId(Key { slot, generation: 0 }),
            method: "POST",
            url: Arc::new(crate::http::client::Url::parse("http://localhost/").expect("a URL")),
            fields: crate::head::Fields::new(),
            body: bytes::Bytes::new(),
            class,
            idempotent: false,
        }
    }

    fn first(waiting: &WaitingRequests, excluded: &[ExchangeClass]) -> Option<(Key, u32)> {
        waiting.first(|class| !excluded.contains(&class)).map(|(key, request)| (key, request.exchange.0.slot))
    }

    #[test]
    fn first_request_is_the_oldest_of_the_classes_that_are_not_excluded() {
        use ExchangeClass::{Message, Request, Stream};
        let mut waiting = WaitingRequests::default();
        let keys = [Stream, Request, Message, Request].map(|class| {
            let slot = u32::try_from(waiting.slab.len()).expect("few");
            waiting.push_back(request(slot, class))
        });
        assert_eq!(first(&waiting, &[]), Some((keys[0], 0)));
        assert_eq!(first(&waiting, &[Stream]), Some((keys[1], 1)));
        assert_eq!(first(&waiting, &[Stream, Request]), Some((keys[2], 2)));
        assert!(waiting.remove(keys[1]).is_some() && waiting.remove(keys[1]).is_none());
        assert_eq!(first(&waiting, &[Stream, Message]), Some((keys[3], 3)));
        let front = waiting.push_front(request(9, Request));
        assert_eq!(first(&waiting, &[]), Some((front, 9)));
        for key in [keys[0], keys[2], keys[3], front] {
            assert!(waiting.remove(key).is_some());
        }
        assert!(waiting.is_empty() && first(&waiting, &[]).is_none());
    }

    #[test]
    fn place_of_an_exchange_is_not_that_of_the_next_one_in_its_slot() {
        let mut places = Places::default();
        let [old, new] = [0, 1].map(|generation| ExchangeId(Key { slot: 3, generation }));
        let key = Key { slot: 0, generation: 0 };
        places.set(old, Place::Waiting(key));
        assert_eq!(places.take(new), None);
        places.set(new, Place::Connection(key));
        assert_eq!(
            (places.take(old), places.take(new), places.take(new)),
            (None, Some(Place::Connection(key)), None)
        );
        places.set(new, Place::Waiting(key));
        places.clear();
        assert_eq!(places.take(new), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::client::Url;
    use alloc::sync::Arc;
    use core::time::Duration;

    fn request(class: ExchangeClass) -> OutgoingRequest {
        OutgoingRequest {
            exchange: ExchangeId(Key { slot: 0, generation: 0 }),
            method: "GET",
            url: Arc::new(Url::parse("http://localhost/").expect("a URL")),
            fields: crate::head::Fields::new(),
            body: bytes::Bytes::new(),
            class,
            idempotent: false,
        }
    }

    fn check(table: &mut ConnectionTable) {
        let open = || table.slab.iter().map(|(_, c)| c);
        assert_eq!(table.assigned, open().filter(|c| c.assigned.is_some()).count());
        let count = |class| open().filter_map(|c| c.assigned()).filter(|x| x.request.class == class).count();
        assert_eq!(table.calls, count(ExchangeClass::Request));
        assert_eq!(table.streams, count(ExchangeClass::Stream));
        let next = open().filter_map(PooledConnection::deadline).min();
        assert!(open().filter(|c| c.is_idle()).all(|c| c.is_listed || c.is_ready));
        assert!(table.idle.len() <= 2 * table.slab.len() + 34);
        assert_eq!(table.next_deadline(), next);
    }

    #[test]
    fn table_equals_a_walk_after_every_step() {
        let url = Url::parse("http://localhost/").expect("a URL");
        let (mut table, mut keys, mut random) = (ConnectionTable::new(), Vec::new(), 3_u32);
        for step in 1..3_000_u64 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let (choice, at) = ((random >> 16) % 7, (random >> 8) as usize);
            let now = Instant::from_micros(step * 1_000);
            let key = (!keys.is_empty()).then(|| keys[at % keys.len()]);
            let classes = [ExchangeClass::Stream, ExchangeClass::Request, ExchangeClass::Message];
            let class = classes[at % 3];
            match (choice, key) {
                (0, _) => {
                    let c = PooledConnection::new(url.origin().clone(), now + Duration::from_secs(1));
                    let key = table.insert(c);
                    table.assign(key, request(class));
                    keys.push(key);
                }
                (1, Some(key)) => {
                    let connecting =
                        |c: &&mut PooledConnection| matches!(c.state, ConnectionState::Connecting { .. });
                    if let Some(c) = table.get_mut(key).filter(connecting) {
                        let h1 = h1::client::Connection::new(now, h1::HttpLimits::default());
                        c.state = ConnectionState::Connected(Box::new(h1));
                        table.begin_request(key);
                    }
                    table.refresh(key);
                }
                (2, Some(key)) => {
                    table.release(key);
                    table.refresh(key);
                }
                (3, Some(_)) => {
                    while let Some(key) = table.pop_ready() {
                        table.record_processed(key);
                    }
                }
                (4, _) => {
                    let expected = table.slab.iter().filter(|(_, c)| c.is_listed && c.is_idle());
                    let expected = expected.max_by_key(|(_, c)| c.last_use).map(|(key, _)| key);
                    let found = table.take_idle(url.origin());
                    assert_eq!(found, expected);
                    if let Some(key) = found {
                        table.assign(key, request(class));
                        table.begin_request(key);
                    }
                }
                (5, Some(key)) if at % 2 == 0 => drop(table.remove(key)),
                (6, _) => table.take_due(now).into_iter().for_each(|key| drop(table.remove(key))),
                _ => {}
            }
            check(&mut table);
        }
        assert!(table.uses > 100);
    }

    /// Returns a table with an idle connection, and its origin.
    fn with_idle() -> (ConnectionTable, Key, Origin) {
        let origin = Url::parse("http://localhost/").expect("a URL").origin().clone();
        let mut table = ConnectionTable::new();
        let key = insert_idle(&mut table, &origin);
        (table, key, origin)
    }

    fn insert_idle(table: &mut ConnectionTable, origin: &Origin) -> Key {
        let mut c = PooledConnection::new(origin.clone(), Instant::FAR_FUTURE);
        let h1 = h1::client::Connection::new(Instant::ZERO, h1::HttpLimits::default());
        c.state = ConnectionState::Connected(Box::new(h1));
        let key = table.insert(c);
        table.record_processed(key);
        key
    }

    #[test]
    fn idle_connection_that_ended_or_has_another_origin_is_not_taken() {
        let (mut table, key, origin) = with_idle();
        assert_eq!(table.take_idle(&origin), Some(key));
        let (mut table, key, origin) = with_idle();
        table.update_h1(key, |h1| h1.handle_eof(Instant::ZERO));
        assert_eq!(table.take_idle(&origin), None);
        let (mut table, _, _) = with_idle();
        let other = Url::parse("http://tide.example/").expect("a URL");
        assert_eq!(table.take_idle(other.origin()), None);
    }

    #[test]
    fn entries_of_ended_idle_connections_are_bounded() {
        let (mut table, _, origin) = with_idle();
        let mut longest = 0;
        for _ in 0..200 {
            let key = insert_idle(&mut table, &origin);
            assert!(table.remove(key).is_some());
            longest = longest.max(table.idle.len());
        }
        assert_eq!(longest, 2 + 32, "one connection is left");
    }

    #[test]
    fn deadline_of_a_connection_survives_the_sweep_of_its_earlier_ones() {
        let (mut table, key, _) = with_idle();
        for micros in 1..200 {
            let deadline = Instant::from_micros(1_000 - micros);
            table.get_mut(key).expect("a connection").state = ConnectionState::Connecting { deadline };
            table.refresh(key);
            assert_eq!(table.next_deadline(), Some(deadline));
            assert!(table.deadlines.len() <= 2 + 33);
        }
        assert_eq!(table.timeout_reason(), Some(TimeoutReason::Connect));
    }
}
