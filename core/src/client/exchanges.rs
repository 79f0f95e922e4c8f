//! What a transport that gives each message an exchange of its own tells the engine: how a request of ours fared.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use super::config::Config;
use super::engine::Engine;
use crate::calls::link::Timer;
use crate::calls::outbound::{Match, Outbound, Purpose};
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, Fault};
use crate::frame::line::Oversize;
use crate::json::object_members;
use crate::rpc::RequestId;
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::time::Instant;

impl Engine {
    /// An engine whose messages travel one by one
    pub(crate) fn over_exchanges(config: Arc<Config>) -> Self {
        let mut engine = Self::new(config);
        engine.exchanges = true;
        engine
    }

    fn live(&self, channel: ChannelId, id: &RequestId) -> Option<Key> {
        match self.link.match_answer(channel.0, id) {
            Match::Live(key) => Some(key),
            _ => None,
        }
    }

    /// Takes one message that came where only `own` can be answered, or anything where there is none
    pub(crate) fn take_message(
        &mut self,
        now: Instant,
        channel: ChannelId,
        message: Bytes,
        own: Option<&RequestId>,
    ) {
        self.link.tick(now);
        self.link.touch();
        self.link.received(channel.0, &message);
        if self.link.channels.get(channel.0).is_some_and(|c| !c.closed) {
            self.receive(channel.0, message, own);
        }
    }

    /// Takes note of a message that was too long to keep
    pub(crate) fn take_oversize(&mut self, now: Instant, channel: ChannelId, oversize: Oversize) {
        self.handle_oversize(now, channel, oversize);
    }

    /// How many requests of ours have no answer yet
    pub(crate) const fn open_requests(&self) -> usize {
        self.link.outbound.calls.len()
    }

    /// Whether a request of ours has no answer yet
    pub(crate) fn waits_for(&self, channel: ChannelId, id: &RequestId) -> bool {
        self.live(channel, id).is_some()
    }

    /// Whether a request is one that the next session is told anew anyway
    pub(crate) fn is_errand(&self, channel: ChannelId, id: &RequestId) -> bool {
        let call = self.live(channel, id).and_then(|key| self.link.outbound.calls.get(key));
        call.is_some_and(|call| call.purpose == Purpose::Errand)
    }

    /// Whether to send a request of ours twice does no harm
    pub(crate) fn is_repeatable(&self, channel: ChannelId, id: &RequestId) -> bool {
        let call = self.live(channel, id).map(|key| self.call_of(key));
        call.and_then(|key| self.link.outbound.calls.get(key)).is_some_and(|c| c.repeatable)
    }

    /// Whether anybody waits for changes
    pub(crate) fn is_following(&self) -> bool {
        self.news.as_ref().is_some_and(|news| !news.subscriptions.is_empty())
    }

    /// What a server says unasked will not come any more: who waits for changes waits in vain
    pub(crate) fn unasked_lost(&mut self, now: Instant, error: &CallError) {
        self.link.tick(now);
        self.end_subscriptions(error);
    }

    /// A request of ours will have no answer
    pub(crate) fn fail_request(
        &mut self,
        now: Instant,
        channel: ChannelId,
        id: &RequestId,
        error: CallError,
    ) {
        self.link.tick(now);
        if let Some(key) = self.live(channel, id) {
            self.ended(key, Err(error));
        }
    }

    /// Sends a call of ours again; the id that it has now, or none when it cannot be
    pub(crate) fn repeat_request(
        &mut self,
        now: Instant,
        channel: ChannelId,
        id: &RequestId,
    ) -> Option<RequestId> {
        self.link.tick(now);
        let key = self.live(channel, id)?;
        let again = match self.link.outbound.calls.get(key)?.purpose {
            Purpose::Application | Purpose::Round(_) => self.repeat_lost(key),
            Purpose::Listen => self.listen_again(key),
            _ => None,
        };
        again.map(|key| RequestId::int(Outbound::wire_id(key)))
    }

    /// Lets the clocks of a request stand still while its exchange is held
    pub(crate) fn hold_request(&mut self, now: Instant, channel: ChannelId, id: &RequestId) {
        self.link.tick(now);
        let Some(key) = self.live(channel, id) else { return };
        let Some(call) = self.link.outbound.calls.get_mut(key) else { return };
        if matches!(call.purpose, Purpose::Probe | Purpose::Handshake) {
            self.link.opening += 1;
            return;
        }
        let time = self.link.limits.input_timeout;
        call.idle_at = self.link.now + time;
        self.shift_total(key, |total_at| total_at + time);
    }

    /// Moves the end of a request, and of the call that it repeats, unless that was set
    fn shift_total(&mut self, key: Key, shift: impl Fn(Instant) -> Instant) {
        let call = self.call_of(key);
        let both = [Some(key), Some(call).filter(|call| *call != key)];
        for key in both.into_iter().flatten() {
            let Some(call) = self.link.outbound.calls.get_mut(key) else { continue };
            if !call.total_is_set {
                call.total_at = shift(call.total_at);
            }
            let deadline = call.deadline();
            self.link.deadlines.arm(deadline, Timer::Out(key));
        }
    }

    /// The exchange of a request goes on that was held for so long
    pub(crate) fn release_request(
        &mut self,
        now: Instant,
        channel: ChannelId,
        id: &RequestId,
        held: Duration,
    ) {
        self.link.tick(now);
        let Some(key) = self.live(channel, id) else { return };
        let Some(call) = self.link.outbound.calls.get_mut(key) else { return };
        if matches!(call.purpose, Purpose::Probe | Purpose::Handshake) {
            return self.arm_opening(self.link.limits.init_timeout);
        }
        call.idle_at = self.link.now + call.timeout;
        let time = self.link.limits.input_timeout;
        self.shift_total(key, |total_at| total_at - time + held);
    }

    /// Ends the connection for a reason of the transport's
    pub(crate) fn close_because(&mut self, now: Instant, fault: Fault) {
        self.link.tick(now);
        self.close_with(fault);
    }

    /// The session has ended at the server: what it asked for is owed to nobody
    pub(crate) fn session_lost(&mut self, now: Instant) {
        self.link.tick(now);
        let theirs = self.main.and_then(|m| self.link.channels.get(m)).map(|c| c.live.clone());
        for key in theirs.into_iter().flatten() {
            if self.link.drop_call(key).is_some() {
                self.request_over(key);
            }
        }
        let Some(outbox) = self.main.and_then(|m| self.link.channels.get_mut(m)).map(|c| &mut c.outbox)
        else {
            return;
        };
        // Nor is what was answered and has not gone out: its id may mean something else in the next session.
        let mut kept = Vec::new();
        while let Some(message) = outbox.pop_message() {
            let mut asks = false;
            if message.first() == Some(&b'{') {
                object_members(&message, |name, _| asks |= name == b"method");
            }
            if asks {
                kept.push(message);
            }
        }
        for message in kept {
            outbox.push(&message);
            outbox.push(b"\n");
        }
    }

    /// There is another session: the server is told again what it is to remember
    pub(crate) fn session_renewed(&mut self, now: Instant) {
        self.link.tick(now);
        if let Some(main) = self.main {
            self.follow_again(main);
            self.log_level_again();
        }
    }

    /// Whether every event was taken
    pub(crate) fn is_told(&self) -> bool {
        self.events.is_empty()
    }

    /// Tells the application of something odd that the transport has seen, as long as it is told anything
    pub(crate) fn note(&mut self, diagnostic: Diagnostic) {
        if !self.is_closed() {
            self.diagnose(diagnostic);
        }
    }
}
