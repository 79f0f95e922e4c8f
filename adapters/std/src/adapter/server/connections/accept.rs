//! Accepting connections.

use alloc::boxed::Box;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;

use mcp_proto::http::server::{Admission, Connection, Server};

use super::Connections;
use crate::adapter::NetStream;
use crate::adapter::server::connection::{MigratedConnection, PendingDescription, ServerConnection};
use crate::adapter::server::permits::{AddressPermit, ConnectionPermit};
use crate::io::{Listener, Socket, is_resource_exhausted};

impl Connections {
    /// Accepts connections. At the limit they wait for a permit.
    pub(super) fn accept(&mut self, server: &mut Server) {
        for _ in 0..ACCEPT_BATCH {
            let Some(listener) = &self.listener else { return };
            let accepted = match listener.accept() {
                Ok(Some((socket, address))) => self.accept_socket(server, socket, address),
                Ok(None) => return,
                Err(error) => Err(error),
            };
            if let Err(error) = accepted {
                let exhausted = is_resource_exhausted(&error);
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
            connection.connection.set_admission(Admission::Held);
        } else {
            connection.admit(self.now, ConnectionPermit::new(&self.permits, shard));
            if shard != self.shard {
                self.migrating.push_back((shard, MigratedConnection(connection)));
                return Ok(());
            }
            return self.register(connection).map(drop);
        }
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

/// Maximum number of connections accepted at once.
const ACCEPT_BATCH: usize = 16;
/// Pause after the process or the system ran out of resources. Other errors pause for a tenth of it.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
