//! Early cancellations: cancellations that overtook their request (CANC-003, CANC-010).
//!
//! In a session over HTTP each message has its own exchange and often its own connection, so one message may overtake
//! another. Without this table such a cancellation would be ignored, and the call would run to its maximum age. On a
//! byte stream nothing can be overtaken.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::channel::ServerEndpoint;
use crate::limits::Limits;
use crate::rpc::RequestId;
use crate::slab::Key;
use crate::time::Instant;

/// Time for which an early cancellation is kept.
///
/// It exceeds the delay between two messages of one peer, but not by much. Most cancellations without a request name a
/// call that has ended, and a peer that reuses its id (in violation of BASE-005) should still be served.
const EARLY_CANCEL_TTL: Duration = Duration::from_secs(5);

/// Early cancellations, oldest first. Invariant: `0.len() <= Limits::max_early_cancellations`.
#[derive(Debug, Default)]
pub(super) struct EarlyCancels(VecDeque<EarlyCancel>);

#[derive(Debug)]
struct EarlyCancel {
    session: Key,
    id: RequestId,
    expires_at: Instant,
}

impl EarlyCancels {
    /// Records a cancellation.
    ///
    /// A session at its share loses its oldest entry. At the total limit, the oldest entry is evicted.
    fn insert(&mut self, now: Instant, session: Key, id: RequestId, limits: &Limits) {
        self.take(now, session, &id);
        let max = limits.max_early_cancellations;
        if max == 0 {
            return;
        }
        let share = (max / 4).max(1);
        let is_same_session = |c: &EarlyCancel| c.session == session;
        if self.0.iter().filter(|c| is_same_session(c)).count() >= share {
            let oldest = self.0.iter().position(is_same_session);
            oldest.and_then(|index| self.0.remove(index));
        } else if self.0.len() >= max {
            self.0.pop_front();
        }
        self.0.push_back(EarlyCancel { session, id, expires_at: now + EARLY_CANCEL_TTL });
    }

    /// Removes the cancellation of a request; returns whether there was one.
    fn take(&mut self, now: Instant, session: Key, id: &RequestId) -> bool {
        self.remove_expired(now);
        let index = self.0.iter().position(|c| c.session == session && c.id == *id);
        index.and_then(|index| self.0.remove(index)).is_some()
    }

    /// Removes entries older than [`EARLY_CANCEL_TTL`].
    fn remove_expired(&mut self, now: Instant) {
        while self.0.front().is_some_and(|c| c.expires_at <= now) {
            self.0.pop_front();
        }
    }

    /// Removes expired entries and frees memory.
    pub(super) fn trim(&mut self, now: Instant) {
        self.remove_expired(now);
        self.0.shrink_to_fit();
    }
}

impl EarlyCancels {
    /// Records a cancellation of an unknown request, if the request may still arrive.
    pub(super) fn record(&mut self, endpoint: &ServerEndpoint, session: Key, id: &RequestId) {
        let c = endpoint.channels.get(session);
        if c.is_some_and(|c| c.role.stream.http_session().is_some()) {
            self.insert(endpoint.now, session, id.clone(), &endpoint.limits);
        }
    }

    /// Returns whether a request that has just arrived was cancelled before. Its stream is marked accordingly.
    pub(super) fn cancels(
        &mut self,
        endpoint: &mut ServerEndpoint,
        stream: Key,
        session: Key,
        id: &RequestId,
    ) -> bool {
        let was_cancelled = self.take(endpoint.now, session, id);
        if let Some(c) = endpoint.channels.get_mut(stream).filter(|_| was_cancelled) {
            c.role.stream.mark_cancelled();
        }
        was_cancelled
    }
}
