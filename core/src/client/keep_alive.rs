//! Keep-alive pings: what the engine feeds them, and what it does about a silent peer.

use super::engine::Engine;
use crate::calls::keep_alive::PeerHealth;
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;

impl Engine {
    /// Records that the transport does not read at present, so that silence of the peer is no missed ping.
    ///
    /// With [`keep_alive_ping`](super::Config::keep_alive_ping), call it before each wait that does not include reading.
    pub fn hold_keep_alive(&mut self, now: Instant) {
        self.endpoint.tick(now);
        self.endpoint.hold_input();
    }

    /// Records that a part of a message has arrived.
    pub(crate) fn record_input(&mut self, now: Instant, channel: ChannelId) {
        self.endpoint.tick(now);
        self.endpoint.record_input(channel.0);
    }

    /// Waits on for the answer to a ping if silence proves nothing. Returns whether it does.
    pub(super) fn restart_ping_wait(&mut self, key: Key) -> bool {
        let is_stalled = self.events.len() >= self.endpoint.limits.max_events;
        self.endpoint.restart_ping_wait(key, is_stalled)
    }

    /// Reports a missed ping, or closes the connection after too many (PING-005).
    pub(super) fn report_health(&mut self, health: PeerHealth) {
        match health {
            PeerHealth::Alive => {}
            PeerHealth::Missed(diagnostic) => self.diagnose(diagnostic),
            PeerHealth::Lost(fault) => self.close_with(fault),
        }
    }
}
