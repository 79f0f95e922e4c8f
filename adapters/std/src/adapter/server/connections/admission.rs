//! Admission of connections at the limit, and eviction of others in their favour (SEC-018).
//!
//! A connection that is accepted at the limit waits for a permit: its request is read but not served. It gets the first
//! permit that is released. If the head of its request is complete, the connection that loses least is evicted, and
//! other connections end after their responses. Without a permit in time, the request gets 503.

use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::h1::{Eviction, EvictionClass};
use mcp_proto::http::server::Server;

use super::Connections;
use crate::adapter::server::connection::{ConnectionReadiness, MigratedConnection, Waiting};
use crate::adapter::server::permits::ConnectionPermit;

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
            self.permits.request_eviction();
        }
    }

    /// Evicts the connection that loses least, if one may be evicted now. Returns whether there was one.
    pub(super) fn evict_one(&mut self, server: &mut Server) -> bool {
        self.evict_older_than(server, Duration::ZERO)
    }

    /// As [`evict_one`](Self::evict_one), but of those that could have been evicted for `age`.
    fn evict_older_than(&mut self, server: &mut Server, age: Duration) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_follows_the_descriptor_limit() {
        let defaults = [None, Some(1_000_000), Some(1_024), Some(256), Some(40), Some(1), Some(0)];
        assert_eq!(defaults.map(default_max_connections), [10_000, 10_000, 896, 128, 10, 1, 1]);
    }
}
