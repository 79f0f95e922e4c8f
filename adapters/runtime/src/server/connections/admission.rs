//! Admission of connections at the limit, and eviction of others in their favour (SEC-018).
//!
//! A connection that is accepted at the limit waits for a permit: its request is read but not served. It gets the first
//! permit that is released. If the head of its request is complete, the connection that loses least is evicted, and
//! other connections end after their responses. Without a permit in time, the request gets 503.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::Waker;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_proto::Instant;
use mcp_proto::h1::{Eviction, EvictionClass};
use mcp_proto::http::server::{ExchangeId, Server};
use mcp_proto::slab::Slab;

use super::Connections;
use crate::server::connection::{ConnectionReadiness, MigratedConnection, ServerConnection, Waiting};

impl Connections {
    /// Returns, once, whether a connection waits for a permit and none of this shard can be evicted. Then one of the
    /// other shards may [evict one](Self::evict_for_first_shard).
    pub fn take_at_capacity(&mut self) -> bool {
        let at_capacity = core::mem::replace(&mut self.at_capacity, false);
        if at_capacity {
            self.permits.request_eviction();
        }
        at_capacity
    }

    /// Evicts a connection because the first shard needs its permit, unless another shard has done so.
    pub fn evict_for_first_shard(&mut self, server: &mut Server) {
        if self.permits.take_eviction_request() && !self.evict_one(server) {
            // None can be evicted here, so the request is left for another shard.
            self.permits.request_eviction();
        }
    }

    /// Evicts the connection that loses least, if one may be evicted now. Returns whether there was one.
    pub(super) fn evict_one(&mut self, server: &mut Server) -> bool {
        self.evict_older_than(server, Duration::ZERO)
    }

    /// As [`evict_one`](Self::evict_one), but of those that could have been evicted for `age`.
    fn evict_older_than(&mut self, server: &mut Server, age: Duration) -> bool {
        // Bounded, so that a crowd of connections with unread input does not keep this thread here.
        for _ in 0..MAX_SPARED {
            let Some((class, token)) = self.find_victim(age) else { return false };
            if !self.spare(server, class, token) {
                self.evict(server, class, token);
                return true;
            }
        }
        false
    }

    /// Spares a connection that is only behind because this thread was busy. Returns whether it did.
    ///
    /// Readiness is known from the last wait. Since then a handler may have run for seconds, in which a request arrived,
    /// or the reader made room for more of its response.
    fn spare(&mut self, server: &mut Server, class: EvictionClass, token: u64) -> bool {
        let Some(connection) = self.connections.get_mut(token.into()) else { return false };
        let spared = match class {
            // Its input is dropped.
            EvictionClass::Done => false,
            // More of its request changes nothing.
            EvictionClass::Undecided => false,
            _ if connection.connection.transmit().is_empty() => connection.transport.socket().has_input(),
            _ => connection.write(self.now, server),
        };
        if spared {
            // Input is read after the next wait, but not while the application has too much to do.
            connection.spared_until = self.now + SPARED_TIME;
            self.index.queue_update(token, connection);
            self.write_queue.push(token);
        }
        spared
    }

    /// Returns whether the connection limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.count() >= self.max_connections
    }

    /// Admits the next connection that waits. Returns whether there was a permit for it.
    pub(super) fn admit_next(&mut self, server: &mut Server) -> bool {
        let Some((token, waiting)) = self.next_waiting() else { return false };
        if self.is_full() {
            // Nobody is evicted for a connection that is as silent as those that are here (DESIGN-36).
            if waiting == Waiting::WithoutRequest {
                return false;
            }
            if !self.evict_one(server) {
                if self.shards > 1 && self.ask_shards_at <= self.now {
                    self.at_capacity = true;
                    self.ask_shards_at = self.now + SHARD_RETRY_DELAY;
                }
                return false;
            }
        }
        self.waiting.retain(|other| *other != token);
        let is_crowded = self.is_crowded();
        let Some(connection) = self.connections.get_mut(token.into()) else { return false };
        let shard = self.permits.choose_shard(self.shard);
        connection.admit(self.now, ConnectionPermit::new(&self.permits, shard));
        connection.connection.end_after_response(is_crowded);
        if shard == self.shard {
            connection.connection.drive(self.now, server);
            self.index.queue_update(token, connection);
            self.write_queue.push(token);
            self.migrate_if_needed(token);
        } else if let Some(connection) = self.take(token) {
            self.migrating.push_back((shard, MigratedConnection(connection)));
        }
        true
    }

    /// Returns whether a request waits for a permit, in whichever shard.
    pub(super) fn is_crowded(&mut self) -> bool {
        if self.is_draining {
            return true;
        }
        // Only the first shard accepts connections, so only it knows which ones wait.
        if self.shard > 0 {
            return self.permits.is_crowded();
        }
        let is_crowded =
            !self.waiting.is_empty() && matches!(self.next_waiting(), Some((_, Waiting::WithRequest)));
        if self.shards > 1 {
            self.permits.set_crowded(is_crowded);
        }
        is_crowded
    }

    /// Returns the connection that gets the next permit: the first with a complete head, or else the first.
    fn next_waiting(&mut self) -> Option<(u64, Waiting)> {
        let mut first = None;
        for token in &self.waiting {
            let Some(connection) = self.connections.get_mut((*token).into()) else { continue };
            match connection.waiting() {
                Waiting::WithRequest => return Some((*token, Waiting::WithRequest)),
                Waiting::WithoutRequest if first.is_none() => first = Some((*token, Waiting::WithoutRequest)),
                Waiting::WithoutRequest | Waiting::No => {}
            }
        }
        first
    }

    /// Returns when a connection that waits may get a permit.
    pub(super) fn next_admission_at(&mut self) -> Option<Instant> {
        let (_, waiting) = self.next_waiting()?;
        if self.shards > 1 {
            // A permit that another shard released before this is seen below.
            self.permits.register_waiter();
        }
        if !self.is_full() {
            return Some(self.now);
        }
        if waiting == Waiting::WithoutRequest {
            return None;
        }
        let shards = Some(self.ask_shards_at).filter(|_| self.shards > 1);
        let own = match self.find_victim(Duration::ZERO) {
            Some(_) => Some(self.now),
            // None can be evicted now. One of these may be at its time.
            None => CLASSES
                .iter()
                .filter_map(|class| self.first_of(*class).map(|(eviction, _)| eviction.at))
                .min(),
        };
        shards.into_iter().chain(own).min()
    }

    /// Closes a connection without a permit if there are too many: a refused one, or one without a request, or else the
    /// first one, which gets its 503 now.
    pub(super) fn limit_waiting(&mut self, server: &mut Server) {
        if self.waiting.len() >= MAX_WAITING {
            self.close_waiting(server);
        }
    }

    /// Closes one of the connections without a permit. Returns whether there was one.
    fn close_waiting(&mut self, server: &mut Server) -> bool {
        for closed in [Waiting::No, Waiting::WithoutRequest, Waiting::WithRequest] {
            let connections = &mut self.connections;
            let found = self.waiting.iter().copied().find(|token| {
                connections.get_mut((*token).into()).is_some_and(|connection| connection.waiting() == closed)
            });
            let Some(token) = found else { continue };
            if let Some(connection) = self.connections.get_mut(token.into()) {
                connection.refuse(self.now, server);
                // Its request may have arrived by now.
                let readiness = ConnectionReadiness::READABLE;
                connection.process_readiness(self.now, server, readiness, true, &mut self.scratch);
                connection.write(self.now, server);
            }
            self.close_connection(server, token);
            return true;
        }
        false
    }

    /// Closes a connection because the process has no descriptor left. Returns whether there was one to close.
    pub(super) fn free_descriptor(&mut self, server: &mut Server) -> bool {
        // No request is known to wait, so that a connection is not evicted for one that is as silent as itself.
        self.close_waiting(server) || self.evict_older_than(server, DESCRIPTOR_GRACE)
    }

    fn first_of(&self, class: EvictionClass) -> Option<(Eviction, u64)> {
        let from = Eviction { class, at: Instant::ZERO };
        let first = self.index.evictions.range((from, 0)..).next().copied();
        first.filter(|(eviction, _)| eviction.class == class)
    }

    /// Returns the connection that loses least by being evicted, of those that could have been evicted for `age`.
    fn find_victim(&mut self, age: Duration) -> Option<(EvictionClass, u64)> {
        for class in CLASSES {
            while let Some((known, token)) =
                self.first_of(class).filter(|(first, _)| first.at + age <= self.now)
            {
                let connection = self.connections.get_mut(token.into());
                let actual = connection.as_ref().and_then(|connection| connection.eviction());
                if actual == Some(known) {
                    return Some((class, token));
                }
                // The entry is outdated: `update` enters an earlier time only, and a later one is corrected here.
                self.index.evictions.remove(&(known, token));
                if let Some(connection) = connection {
                    // In use: otherwise it is entered again after it was driven.
                    connection.indexed_eviction = actual;
                    self.index.evictions.extend(actual.map(|actual| (actual, token)));
                }
            }
        }
        None
    }

    fn evict(&mut self, server: &mut Server, class: EvictionClass, token: u64) {
        if let Some(connection) = self.connections.get_mut(token.into()) {
            if matches!(class, EvictionClass::IncompleteHead | EvictionClass::Undecided | EvictionClass::Slow)
            {
                connection.connection.time_out(self.now, server);
                connection.write(self.now, server);
            }
        }
        self.close_connection(server, token);
    }

    fn close_connection(&mut self, server: &mut Server, token: u64) {
        let Some(mut connection) = self.take(token) else { return };
        connection.connection.abandon(self.now, server);
        connection.transport.close();
    }
}

/// Returns the default for the number of connections: as many as the process has descriptors for, less a reserve.
///
/// `descriptors` is the number that it may have open, `None` if there is no limit.
pub(super) fn default_max_connections(descriptors: Option<u64>) -> usize {
    let descriptors = descriptors.unwrap_or(u64::MAX);
    let connections = descriptors.saturating_sub(RESERVED_DESCRIPTORS).max(descriptors / 4);
    usize::try_from(connections).unwrap_or(usize::MAX).clamp(1, MAX_DEFAULT_CONNECTIONS)
}

/// The classes of connections in the order of eviction.
const CLASSES: [EvictionClass; 6] = [
    EvictionClass::Done,
    EvictionClass::Silent,
    EvictionClass::IncompleteHead,
    EvictionClass::Undecided,
    EvictionClass::Slow,
    EvictionClass::Idle,
];
/// Maximum number of connections without a permit.
const MAX_WAITING: usize = 64;
/// Descriptors that are left for connections without a permit and for everything else that the process has open.
const RESERVED_DESCRIPTORS: u64 = 128;
/// The largest default: bounds the memory.
const MAX_DEFAULT_CONNECTIONS: usize = 10_000;
/// Time after which a connection that may be evicted is, because the process has no descriptor left.
const DESCRIPTOR_GRACE: Duration = Duration::from_millis(100);
/// Maximum number of connections that are spared in favour of a later one, before the next wait.
const MAX_SPARED: usize = 64;
/// Time for which a connection is spared.
const SPARED_TIME: Duration = Duration::from_millis(20);
/// Time after which the other shards are asked again to evict a connection.
const SHARD_RETRY_DELAY: Duration = Duration::from_millis(20);

// An index of the connections by exchange, deadline and eviction, so that a wait does not visit each connection.

/// An index of the connections by exchange, deadline and eviction.
///
/// Invariant: an entry in `deadlines` or `evictions` is never greater than the value of its connection. It may be
/// smaller, because most times only grow; it is corrected when it has come.
#[derive(Debug, Default)]
pub(super) struct ConnectionIndex {
    /// Connections that were driven since the last wait. Their other entries and their interest may be outdated.
    pub(super) update_queue: Vec<u64>,
    /// The connection of each exchange, by the index of the exchange. Outdated for those in `changed_exchanges`.
    pub(super) exchanges: Vec<Option<(ExchangeId, u64)>>,
    pub(super) changed_exchanges: Vec<u64>,
    /// Deadlines of connections.
    pub(super) deadlines: BTreeSet<(Instant, u64)>,
    /// Connections that may be evicted.
    pub(super) evictions: BTreeSet<(Eviction, u64)>,
}

impl ConnectionIndex {
    /// Queues a connection for an update before the next wait.
    pub(super) fn queue_update(&mut self, token: u64, connection: &mut ServerConnection) {
        if !core::mem::replace(&mut connection.listed.update_queue, true) {
            self.update_queue.push(token);
        }
        if connection.indexed_exchange != connection.connection.exchange()
            && !core::mem::replace(&mut connection.listed.changed_exchanges, true)
        {
            self.changed_exchanges.push(token);
        }
    }

    /// Updates the exchanges of connections.
    ///
    /// Most exchanges begin and end without a wait in between, so that the index never contains them.
    pub(super) fn update_exchanges(&mut self, connections: &mut Slab<Box<ServerConnection>>) {
        let mut changed = core::mem::take(&mut self.changed_exchanges);
        for token in changed.drain(..) {
            let Some(connection) = connections.get_mut(token.into()) else { continue };
            connection.listed.changed_exchanges = false;
            let exchange = connection.connection.exchange();
            if exchange != connection.indexed_exchange {
                if let Some(previous) = core::mem::replace(&mut connection.indexed_exchange, exchange) {
                    self.remove_exchange(previous);
                }
                if let Some(exchange) = exchange {
                    let index = exchange.index();
                    if index >= self.exchanges.len() {
                        self.exchanges.resize(index + 1, None);
                    }
                    if let Some(slot) = self.exchanges.get_mut(index) {
                        *slot = Some((exchange, token));
                    }
                }
            }
        }
        self.changed_exchanges = changed;
    }

    pub(super) fn token_of(&self, exchange: ExchangeId) -> Option<u64> {
        let (known, token) = (*self.exchanges.get(exchange.index())?)?;
        (known == exchange).then_some(token)
    }

    fn remove_exchange(&mut self, exchange: ExchangeId) {
        // Another exchange may have this index by now.
        if let Some(slot) = self.exchanges.get_mut(exchange.index()) {
            *slot = slot.filter(|(known, _)| *known != exchange);
        }
    }

    pub(super) fn update(&mut self, token: u64, connection: &mut ServerConnection) {
        let deadline = connection.poll_timeout();
        // Most deadlines move later, and a later one is found when this entry is due. So the tree changes seldom.
        if deadline.is_some_and(|at| connection.indexed_deadline.is_none_or(|known| at < known)) {
            if let Some(previous) = core::mem::replace(&mut connection.indexed_deadline, deadline) {
                self.deadlines.remove(&(previous, token));
            }
            self.deadlines.extend(deadline.map(|at| (at, token)));
        }
        let eviction = connection.eviction();
        if eviction.is_some_and(|new| connection.indexed_eviction.is_none_or(|known| new < known)) {
            if let Some(previous) = core::mem::replace(&mut connection.indexed_eviction, eviction) {
                self.evictions.remove(&(previous, token));
            }
            self.evictions.extend(eviction.map(|new| (new, token)));
        }
    }

    pub(super) fn remove(&mut self, token: u64, connection: &ServerConnection) {
        if let Some(exchange) = connection.indexed_exchange {
            self.remove_exchange(exchange);
        }
        if let Some(at) = connection.indexed_deadline {
            self.deadlines.remove(&(at, token));
        }
        if let Some(eviction) = connection.indexed_eviction {
            self.evictions.remove(&(eviction, token));
        }
    }
}

// Permits for connections: how many each shard and each address holds, and which shard gets the next one.

/// The number of open connections of each shard and of each address.
#[derive(Debug)]
pub(in crate::server) struct ConnectionPermits {
    counts: Vec<AtomicUsize>,
    addresses: Mutex<BTreeMap<IpAddr, usize>>,
    /// Whether a shard waits for a permit.
    is_waiter_registered: AtomicBool,
    /// Whether a request waits for a permit.
    is_crowded: AtomicBool,
    /// Whether one of the shards should evict a connection.
    is_eviction_requested: AtomicBool,
    /// Wakes the shard that accepts connections.
    waker: Waker,
}

impl ConnectionPermits {
    /// Creates the counters. `waker` is woken when a permit is released while a [waiter](Self::register_waiter) waits.
    pub(in crate::server) fn new(shards: u8, waker: Waker) -> Arc<Self> {
        let counts = (0..shards).map(|_| AtomicUsize::new(0)).collect();
        Arc::new(Self {
            counts,
            addresses: Mutex::default(),
            is_waiter_registered: AtomicBool::new(false),
            is_crowded: AtomicBool::new(false),
            is_eviction_requested: AtomicBool::new(false),
            waker,
        })
    }

    /// Sets whether a request waits for a permit, for the other shards.
    pub(in crate::server) fn set_crowded(&self, is_crowded: bool) {
        if self.is_crowded() != is_crowded {
            self.is_crowded.store(is_crowded, Ordering::SeqCst);
        }
    }

    /// Returns whether a request waits for a permit.
    pub(in crate::server) fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::SeqCst)
    }

    /// Requests that one of the shards evicts a connection.
    pub(in crate::server) fn request_eviction(&self) {
        self.is_eviction_requested.store(true, Ordering::SeqCst);
    }

    /// Takes the request for an eviction, if there is one.
    pub(in crate::server) fn take_eviction_request(&self) -> bool {
        self.is_eviction_requested.swap(false, Ordering::SeqCst)
    }

    /// Requests a wake-up when the next permit is released. Check for capacity again afterwards.
    pub(in crate::server) fn register_waiter(&self) {
        self.is_waiter_registered.store(true, Ordering::SeqCst);
    }

    /// Returns the number of open connections of all shards.
    pub(in crate::server) fn total(&self) -> usize {
        self.counts.iter().map(|shard| shard.load(Ordering::SeqCst)).sum()
    }

    fn addresses(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        // No code that can panic runs while it is locked.
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, shard: u8) -> usize {
        self.counts.get(usize::from(shard)).map_or(usize::MAX, |shard| shard.load(Ordering::SeqCst))
    }

    fn increment(&self, shard: u8) {
        self.counts.get(usize::from(shard)).map(|shard| shard.fetch_add(1, Ordering::SeqCst));
    }

    fn decrement(&self, shard: u8) {
        self.counts.get(usize::from(shard)).map(|shard| shard.fetch_sub(1, Ordering::SeqCst));
        // One wake-up is enough until the waiter has looked again.
        if self.is_waiter_registered.swap(false, Ordering::SeqCst) {
            self.waker.wake_by_ref();
        }
    }

    /// Chooses the shard for a connection: `wanted`, unless it has many more connections than another shard.
    pub(in crate::server) fn choose_shard(&self, wanted: u8) -> u8 {
        let shards = u8::try_from(self.counts.len()).unwrap_or(u8::MAX);
        let least = (0..shards).min_by_key(|shard| self.count(*shard)).unwrap_or(0);
        let fewest = self.count(least);
        if self.count(wanted) <= fewest + BALANCE_SLACK.max(fewest / 4) { wanted } else { least }
    }
}

/// Surplus of connections that a shard may have over the smallest shard; or a quarter, if that is more.
const BALANCE_SLACK: usize = 8;

/// The right to hold one of the open connections.
#[derive(Debug)]
pub(in crate::server) struct ConnectionPermit {
    permits: Arc<ConnectionPermits>,
    shard: u8,
}

impl ConnectionPermit {
    /// Counts one more connection in a shard, until the permit is dropped.
    pub(in crate::server) fn new(permits: &Arc<ConnectionPermits>, shard: u8) -> Self {
        permits.increment(shard);
        Self { permits: permits.clone(), shard }
    }

    /// Counts the connection in another shard from now on.
    pub(in crate::server) fn move_to(&mut self, shard: u8) {
        if shard != self.shard {
            // Increment first: for a moment, one too many is better than one too few.
            self.permits.increment(shard);
            self.permits.decrement(self.shard);
            self.shard = shard;
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.permits.decrement(self.shard);
    }
}

/// The right of an address to hold one of its connections.
#[derive(Debug)]
pub(in crate::server) struct AddressPermit {
    /// `None` for an address that is not limited.
    counted: Option<(Arc<ConnectionPermits>, IpAddr)>,
}

impl AddressPermit {
    /// Counts one more connection of an address; `None` if it has `limit` already.
    ///
    /// Addresses of this machine are not limited: a proxy may stand behind them.
    pub(in crate::server) fn acquire(
        permits: &Arc<ConnectionPermits>,
        address: IpAddr,
        limit: usize,
    ) -> Option<Self> {
        let address = network_of(address);
        if address.is_loopback() || limit == usize::MAX {
            return Some(Self { counted: None });
        }
        let mut addresses = permits.addresses();
        if addresses.get(&address).copied().unwrap_or(0) >= limit {
            return None;
        }
        *addresses.entry(address).or_default() += 1;
        Some(Self { counted: Some((permits.clone(), address)) })
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let Some((permits, address)) = &self.counted else { return };
        let mut addresses = permits.addresses();
        if let Some(count) = addresses.get_mut(address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(address);
            }
        }
    }
}

/// Returns the address of which connections are counted: of IPv6 the network of 64 bits that one host may have whole.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)))
        }
        other => other,
    }
}

#[cfg(test)]
mod permits_tests {
    use super::*;

    #[test]
    fn permit_is_counted_in_its_shard_until_dropped() {
        let permits = ConnectionPermits::new(3, Waker::noop().clone());
        let mut one = ConnectionPermit::new(&permits, 0);
        let two = ConnectionPermit::new(&permits, 2);
        assert_eq!([permits.count(0), permits.count(1), permits.count(2), permits.total()], [1, 0, 1, 2]);
        one.move_to(2);
        one.move_to(2);
        assert_eq!([permits.count(0), permits.count(1), permits.count(2), permits.total()], [0, 0, 2, 2]);
        drop(one);
        assert_eq!([permits.count(2), permits.total()], [1, 1]);
        drop(two);
        assert_eq!(permits.total(), 0);
    }

    /// Whichever shard is wanted, no shard gets many more connections than another.
    #[test]
    fn wanted_shard_is_replaced_when_it_has_many_more_connections() {
        let permits = ConnectionPermits::new(4, Waker::noop().clone());
        let acquire = |wanted| ConnectionPermit::new(&permits, permits.choose_shard(wanted));
        // Every connection gets the wanted shard while the shards are even.
        let _even: Vec<ConnectionPermit> = (0..4).cycle().take(400).map(acquire).collect();
        assert!((0..4).all(|shard| permits.count(shard) == 100));
        let _all: Vec<ConnectionPermit> = (0..600).map(|_| acquire(1)).collect();
        let counts: Vec<usize> = (0..4).map(|shard| permits.count(shard)).collect();
        assert!(counts[1] > counts[0] && counts[1] <= counts[0] + 1 + counts[0] / 4, "{counts:?}");
        assert_eq!(permits.total(), 1_000);
        assert!(counts[0].abs_diff(counts[2]) <= 1 && counts[0].abs_diff(counts[3]) <= 1, "{counts:?}");
        // A shard that does not exist is never chosen.
        assert!(permits.choose_shard(9) < 4);
    }

    // covers: SEC-018
    #[test]
    fn address_has_a_limit_of_its_own() {
        let permits = ConnectionPermits::new(1, Waker::noop().clone());
        let acquire = |address: &str| AddressPermit::acquire(&permits, address.parse().unwrap(), 2);
        let one = acquire("203.0.113.7");
        let _mapped = acquire("::ffff:203.0.113.7").expect("the second of this address");
        assert!(one.is_some() && acquire("203.0.113.7").is_none() && acquire("203.0.113.8").is_some());
        drop(one);
        assert!(acquire("203.0.113.7").is_some());
        // A host may have a whole network of 64 bits.
        let _six = [acquire("2001:db8::1").unwrap(), acquire("2001:db8::2").unwrap()];
        assert!(acquire("2001:db8::3").is_none() && acquire("2001:db8:0:1::3").is_some());
        // Local clients, or a proxy on this machine.
        let local: Vec<_> = (0..9).flat_map(|_| [acquire("127.0.0.1"), acquire("::1")]).collect();
        assert!(local.iter().all(Option::is_some));
        drop((_mapped, _six));
        assert!(permits.addresses().is_empty());
        // An address that is refused leaves no entry.
        let refused = AddressPermit::acquire(&permits, "203.0.113.7".parse().unwrap(), 0);
        assert!(refused.is_none() && permits.addresses().is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_follows_the_descriptor_limit() {
        let defaults = [None, Some(1_000_000), Some(1_024), Some(256), Some(40), Some(1), Some(0)];
        assert_eq!(defaults.map(default_max_connections), [10_000, 10_000, 896, 128, 10, 1, 1]);
    }
}
