//! Keep-alive pings: what the engine feeds them, and what it does about a silent peer.

use super::engine::Engine;
use super::input_tasks::cancel_question;
use super::parked::poll_question;
use crate::calls::outbound::CallPurpose;
use crate::calls::pings::PeerHealth;
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

    /// Handles a deadline of an outbound request.
    pub(super) fn handle_request_deadline(&mut self, key: Key) {
        // A question that follows a task has polls at this deadline, which are no timeouts.
        if poll_question(&mut self.parked, &mut self.endpoint, key) {
            return;
        }
        let Some(request) = self.endpoint.outbound.calls.get(key) else { return };
        let Some(outcome) = request.timeout_error(self.endpoint.now) else { return };
        let (purpose, channel) = (request.purpose, request.channel);
        if purpose == CallPurpose::KeepAlive
            && self.endpoint.restart_ping_wait(key, self.has_unread_input(channel))
        {
            return;
        }
        let reason = "no answer in time";
        // Before the request ends: the cancellation needs its id and its channel (TIME-002).
        match purpose {
            CallPurpose::TaskInput { task, .. } => {
                self.with_tasks(|tasks, cx| tasks.cancel_question(cx, task, key, reason));
            }
            _ => cancel_question(&mut self.endpoint, key, Some(reason)),
        }
        self.finish_outbound(key, Err(outcome));
    }

    /// Returns whether input of a channel waits until the application has handled earlier input.
    pub(super) fn has_unread_input(&self, channel: Key) -> bool {
        let limits = &self.endpoint.limits;
        self.endpoint.channels.get(channel).is_some_and(|c| {
            self.events.len() >= limits.max_events || self.backlog.is_full(c.role.waiting, limits)
        })
    }

    /// Reports a missed ping, or closes the channel after too many (PING-005).
    pub(super) fn report_health(&mut self, channel: Key, health: PeerHealth) {
        match health {
            PeerHealth::Alive => {}
            PeerHealth::Missed(diagnostic) => self.diagnose(channel, diagnostic),
            PeerHealth::Lost(fault) => self.close_channel(self.endpoint.now, ChannelId(channel), &fault),
        }
    }
}
