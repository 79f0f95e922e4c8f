//! An index of the connections by exchange, deadline and eviction, so that a wait does not visit each connection.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use mcp_proto::Instant;
use mcp_proto::h1::Eviction;
use mcp_proto::http::server::ExchangeId;
use mcp_proto::slab::Slab;

use crate::adapter::server::connection::ServerConnection;

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
        if !core::mem::replace(&mut connection.is_update_queued, true) {
            self.update_queue.push(token);
        }
        if connection.indexed_exchange != connection.connection.exchange()
            && !core::mem::replace(&mut connection.exchange_changed, true)
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
            connection.exchange_changed = false;
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
