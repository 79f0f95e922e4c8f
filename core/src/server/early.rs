//! Cancellations that came before the requests which they name (CANC-003, CANC-010).
//!
//! In a session over HTTP each message is an exchange of its own, most often on a connection of its own, so that one may
//! overtake another on its way. Whoever cancels right after having asked would otherwise be ignored, and the call go on
//! until its age ends it. Where one channel carries all messages of a peer nothing can overtake.

use alloc::collections::VecDeque;
use core::time::Duration;

use super::engine::Engine;
use crate::limits::Limits;
use crate::rpc::RequestId;
use crate::slab::Key;
use crate::time::Instant;

/// How long a cancellation waits for its request
///
/// Longer than messages of one peer are apart on their way, and no longer: what a cancellation names has most often
/// ended, and a peer that uses its id again, which it must not (BASE-005), is to be heard.
const WAITS: Duration = Duration::from_secs(5);

/// What was cancelled and has not come, oldest first; `0.len() <= Limits::max_early_cancels`
#[derive(Debug, Default)]
pub(super) struct Early(VecDeque<Cancelled>);

#[derive(Debug)]
struct Cancelled {
    session: Key,
    id: RequestId,
    until: Instant,
}

impl Early {
    /// Notes that a request was cancelled which may be still to come; the oldest gives way, to begin with that of a
    /// session that has its share
    fn note(&mut self, now: Instant, session: Key, id: RequestId, limits: &Limits) {
        self.take(now, session, &id);
        let most = limits.max_early_cancels;
        if most == 0 {
            return;
        }
        let share = (most / 4).max(1);
        let of_session = |c: &Cancelled| c.session == session;
        if self.0.iter().filter(|c| of_session(c)).count() >= share {
            let oldest = self.0.iter().position(of_session);
            oldest.and_then(|place| self.0.remove(place));
        } else if self.0.len() >= most {
            self.0.pop_front();
        }
        self.0.push_back(Cancelled { session, id, until: now + WAITS });
    }

    /// Whether a request was cancelled already; it is that once
    fn take(&mut self, now: Instant, session: Key, id: &RequestId) -> bool {
        self.forget(now);
        let place = self.0.iter().position(|c| c.session == session && c.id == *id);
        place.and_then(|place| self.0.remove(place)).is_some()
    }

    /// Forgets what has waited for long enough
    fn forget(&mut self, now: Instant) {
        while self.0.front().is_some_and(|c| c.until <= now) {
            self.0.pop_front();
        }
    }

    /// … and gives memory back
    pub(super) fn trim(&mut self, now: Instant) {
        self.forget(now);
        self.0.shrink_to_fit();
    }
}

impl Engine {
    /// Remembers a cancellation of what is not in work, where that may be still to come
    pub(super) fn cancelled_early(&mut self, session: Key, id: &RequestId) {
        let apart = self.link.channels.get(session).is_some_and(|c| c.extra.stream.apart);
        if apart {
            self.early.note(self.link.now, session, id.clone(), &self.link.limits);
        }
    }

    /// Whether the request that has come on a stream was cancelled before; then it is over
    pub(super) fn is_over_already(&mut self, stream: Key, session: Key, id: &RequestId) -> bool {
        let over = self.early.take(self.link.now, session, id);
        if let Some(c) = self.link.channels.get_mut(stream).filter(|_| over) {
            c.extra.stream.cancelled = true;
        }
        over
    }
}
