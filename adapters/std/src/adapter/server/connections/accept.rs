//! Accepting connections, and evicting idle ones to make room.

use alloc::boxed::Box;
use core::time::Duration;
use std::io;

use mcp_proto::Instant;
use mcp_proto::http::server::Connection;

use super::Connections;
use crate::adapter::NetStream;
use crate::adapter::server::connection::{MigratedConnection, ServerConnection};
use crate::adapter::server::permits::ConnectionPermit;
use crate::io::{Socket, is_resource_exhausted};

impl Connections {
    /// Returns, once, whether the limit is reached and this shard cannot evict. Then another shard may
    /// [evict](Self::evict_idle).
    pub const fn take_at_capacity(&mut self) -> bool {
        core::mem::replace(&mut self.at_capacity, false)
    }

    /// Closes the connection that has been idle for longest, if that is at least [`MIN_IDLE`].
    pub fn evict_idle(&mut self) {
        if let Some(idle) = self.eviction_candidate() {
            self.evict(idle);
        }
    }

    /// Returns the connection that has been idle for longest, if that is at least [`MIN_IDLE`].
    fn eviction_candidate(&mut self) -> Option<u64> {
        self.longest_idle().filter(|(since, _)| *since + MIN_IDLE <= self.now).map(|(_, idle)| idle)
    }

    fn evict(&mut self, idle: u64) {
        if let Some(transport) = self.remove(idle) {
            transport.close();
        }
    }

    /// Returns when a connection can be evicted, or `None` if there is room or that time has passed.
    pub(super) fn next_eviction_at(&mut self) -> Option<Instant> {
        if !self.is_full() || self.shards > 1 {
            return None;
        }
        if self.now < self.eviction_retry_at {
            // The search runs at most once until then.
            return Some(self.eviction_retry_at);
        }
        let at = self.longest_idle().map_or(Instant::FAR_FUTURE, |(at, _)| at + MIN_IDLE);
        // A connection that is in use now can be evicted after `MIN_IDLE` at the earliest.
        self.eviction_retry_at = at.min(self.now + MIN_IDLE);
        Some(at).filter(|at| *at > self.now)
    }

    /// Returns whether the connection limit is reached.
    fn is_full(&self) -> bool {
        self.count() >= self.max_connections
    }

    /// Returns the connection that has been idle for longest, and since when.
    fn longest_idle(&mut self) -> Option<(Instant, u64)> {
        while let Some((at, token)) = self.index.idle.first().copied() {
            let idle = self
                .connections
                .get_mut(token.into())
                .filter(|connection| connection.indexed_idle == Some(at));
            match idle {
                Some(connection) if connection.is_idle() && connection.last_used <= at => {
                    return Some((at, token));
                }
                Some(connection) => {
                    self.index.idle.remove(&(at, token));
                    // In use: it is entered again after it was driven.
                    connection.indexed_idle = connection.is_idle().then_some(connection.last_used);
                    self.index.idle.extend(connection.indexed_idle.map(|at| (at, token)));
                }
                None => _ = self.index.idle.remove(&(at, token)),
            }
        }
        None
    }

    /// Creates the connection of a socket, and registers it or moves it to its shard.
    fn accept_socket(&mut self, socket: Socket) -> io::Result<()> {
        let shard = self.choose_shard(&socket);
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
        let mut connection = Box::new(ServerConnection::new(
            transport,
            connection,
            ConnectionPermit::new(&self.permits, shard),
            self.now,
        ));
        let is_handshaking = connection.transport.is_handshaking();
        connection.tls_deadline = is_handshaking.then(|| self.now + self.limits.head_timeout);
        if shard == self.shard {
            return self.register(connection);
        }
        self.migrating.push_back((shard, MigratedConnection(connection)));
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

    /// Accepts waiting connections. Evicts idle connections if the limit is reached.
    pub(super) fn accept(&mut self) {
        for _ in 0..ACCEPT_BATCH {
            let full = self.is_full();
            let idle = if full { self.eviction_candidate() } else { None };
            if full && idle.is_none() {
                if self.shards > 1 {
                    // Other shards may close or evict connections. Check again, in case one did before the
                    // registration.
                    self.permits.register_waiter();
                    if !self.is_full() {
                        continue;
                    }
                    self.at_capacity = true;
                    self.waits_for_permit = true;
                    self.accepts_at = Some(self.now + ACCEPT_RETRY_DELAY);
                }
                return;
            }
            let Some(listener) = &self.listener else { return };
            let accepted = match listener.accept() {
                Ok(Some(socket)) => {
                    if let Some(idle) = idle {
                        self.evict(idle);
                    }
                    self.accept_socket(socket)
                }
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if let Err(error) = accepted {
                let exhausted = is_resource_exhausted(&error);
                if exhausted {
                    if let Some(idle) = self.eviction_candidate() {
                        self.evict(idle);
                        continue;
                    }
                    self.at_capacity = self.shards > 1;
                }
                // Retry later: an immediate attempt would fail again, and other connections may end meanwhile.
                let wait = if exhausted { ACCEPT_RETRY_DELAY } else { ACCEPT_RETRY_DELAY / 10 };
                self.accepts_at = Some(self.now + wait);
                return;
            }
        }
    }
}

/// Maximum number of connections accepted at once.
const ACCEPT_BATCH: usize = 16;
/// Minimum idle time before a connection can be evicted.
const MIN_IDLE: Duration = Duration::from_secs(1);
/// Pause after the process or the system ran out of resources. Other errors pause for a tenth of it.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
