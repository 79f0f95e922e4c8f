//! Early cancellations: cancellations that overtook their request (CANC-003, CANC-010).
//!
//! In a session over HTTP each message has its own exchange and often its own connection, so one message may overtake
//! another. Without this table such a cancellation would be ignored, and the call would run to its maximum age. On a
//! byte stream nothing can be overtaken.

use core::time::Duration;

use super::channel::ServerEndpoint;
use super::request_check::MessageSource;
use super::stream::EarlyEnd;
use crate::limits::Limits;
use crate::rpc::RequestId;
use crate::slab::list::{List, ListLinks};
use crate::slab::tree::{Tree, TreeLinks};
use crate::slab::{Key, Slab, links};
use crate::time::Instant;

/// Time for which an early cancellation is kept.
///
/// It exceeds the delay between two messages of one peer, but not by much. Most cancellations without a request name a
/// call that has ended, and a peer that reuses its id (in violation of BASE-005) should still be served.
const EARLY_CANCEL_TTL: Duration = Duration::from_secs(5);

/// Early cancellations of all sessions; the engine makes it with the first one.
///
/// They have no timer: an entry that has expired is removed with the next operation. Invariant:
/// `entries.len() <= Limits::max_early_cancellations`.
#[derive(Debug)]
pub(super) struct EarlyCancels {
    entries: Slab<EarlyCancel>,
    /// In order of arrival.
    arrivals: List,
    /// Ordered by session and id.
    by_id: Tree,
}

#[derive(Debug)]
struct EarlyCancel {
    session: Key,
    id: RequestId,
    expires_at: Instant,
    arrival: ListLinks,
    links: TreeLinks,
}

links! { EarlyCancel: list arrival, tree links }

impl EarlyCancels {
    pub(super) const fn new() -> Self {
        Self { entries: Slab::new(), arrivals: List::new(), by_id: Tree::new() }
    }

    /// Records a cancellation.
    ///
    /// A session at its share loses its oldest entry. At the total limit, the oldest entry is evicted. Only this visits
    /// other entries, and only those within the limit: a peer that cancels unknown requests is rare.
    pub(super) fn insert(&mut self, now: Instant, session: Key, id: RequestId, limits: &Limits) {
        // A repeated cancellation renews its entry, so each id is in the tree once.
        self.take(now, session, &id);
        let max = limits.max_early_cancellations;
        if max == 0 {
            return;
        }
        // A session has a quarter at most, so that it cannot evict those of all others.
        let share = (max / 4).max(1);
        let own =
            || self.arrivals.iter(&self.entries).filter(|(_, c)| c.session == session).map(|(key, _)| key);
        let evicted = match own().nth(share - 1) {
            Some(_) => own().next(),
            None if self.entries.len() >= max => self.arrivals.first(&self.entries),
            None => None,
        };
        if let Some(evicted) = evicted {
            self.remove(evicted);
        }
        let place = self.by_id.place(&mut self.entries, |_, c| (c.session, &c.id).cmp(&(session, &id)));
        // It has a place: an equal entry was taken out above.
        let Ok(place) = place else { return };
        let (arrival, links) = (ListLinks::NONE, TreeLinks::default());
        let entry = EarlyCancel { session, id, expires_at: now + EARLY_CANCEL_TTL, arrival, links };
        let key = self.entries.insert(entry);
        self.by_id.insert(&mut self.entries, place, key);
        self.arrivals.push(&mut self.entries, key);
    }

    /// Removes the cancellation of a request; returns whether there was one.
    pub(super) fn take(&mut self, now: Instant, session: Key, id: &RequestId) -> bool {
        if self.remove_expired(now) {
            return false;
        }
        let found = self.by_id.find(&mut self.entries, |_, c| (c.session, &c.id).cmp(&(session, id)));
        found.map(|key| self.remove(key)).is_some()
    }

    fn remove(&mut self, key: Key) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        // The id is compared with those of other entries only.
        let (session, id) = (entry.session, core::mem::replace(&mut entry.id, RequestId::int(0)));
        self.by_id.remove(&mut self.entries, key, |_, c| (c.session, &c.id).cmp(&(session, &id)));
        self.arrivals.remove(&mut self.entries, key);
        self.entries.remove(key);
    }

    /// Removes entries older than [`EARLY_CANCEL_TTL`]. Returns whether none is left.
    pub(super) fn remove_expired(&mut self, now: Instant) -> bool {
        while let Some(oldest) = self.arrivals.first(&self.entries) {
            // All have the same time to live, so the first one that has not expired ends the search.
            if self.entries.get(oldest).is_some_and(|c| c.expires_at > now) {
                break;
            }
            self.remove(oldest);
        }
        self.entries.is_empty()
    }
}

/// The operations of the engine.
impl EarlyCancels {
    /// Records a cancellation of an unknown request, if the request may still arrive.
    pub(super) fn record(early: &mut Option<Self>, endpoint: &ServerEndpoint, session: Key, id: &RequestId) {
        let c = endpoint.channels.get(session);
        // On a byte stream nothing is overtaken: an unknown id is that of a call which has ended.
        if c.is_some_and(|c| c.role.stream.session().is_some()) {
            let early = early.get_or_insert_with(Self::new);
            early.insert(endpoint.now, session, id.clone(), &endpoint.limits);
        }
    }

    /// Returns whether a request that has just arrived was cancelled before. Its stream is marked accordingly.
    pub(super) fn cancels(
        &mut self,
        endpoint: &mut ServerEndpoint,
        source: &MessageSource<'_>,
        id: &RequestId,
    ) -> bool {
        let was_cancelled = self.take(endpoint.now, source.root, id);
        if let Some(c) = endpoint.channels.get_mut(source.channel).filter(|_| was_cancelled) {
            c.role.stream.end_early(EarlyEnd::Cancelled);
        }
        was_cancelled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(slot: u32) -> Key {
        Key { slot, generation: 0 }
    }

    // covers: CANC-010
    #[test]
    fn cancellation_is_taken_once_by_its_own_session_and_expires() {
        let (mut early, limits, now) = (EarlyCancels::new(), Limits::default(), Instant::ZERO);
        for id in [3, 1, 2] {
            early.insert(now, session(0), RequestId::int(id), &limits);
        }
        assert!(!early.take(now, session(1), &RequestId::int(1)));
        assert!(
            early.take(now, session(0), &RequestId::int(1))
                && !early.take(now, session(0), &RequestId::int(1))
        );
        early.insert(now + EARLY_CANCEL_TTL / 2, session(0), RequestId::int(2), &limits);
        assert!(!early.take(now + EARLY_CANCEL_TTL, session(0), &RequestId::int(3)), "expired");
        assert!(early.take(now + EARLY_CANCEL_TTL, session(0), &RequestId::int(2)), "recorded again");
        assert!(early.remove_expired(now) && early.by_id.is_empty() && early.arrivals.is_empty());
    }

    #[test]
    fn session_at_its_share_loses_its_own_oldest_entry() {
        let limits = Limits { max_early_cancellations: 8, ..Limits::default() };
        let (mut early, now) = (EarlyCancels::new(), Instant::ZERO);
        for id in 0..5 {
            early.insert(now, session(0), RequestId::int(id), &limits);
            early.insert(now, session(1 + u32::try_from(id).unwrap_or(0)), RequestId::int(id), &limits);
        }
        let kept = |early: &mut EarlyCancels, id| early.take(now, session(0), &RequestId::int(id));
        assert_eq!([0, 1, 2, 3, 4].map(|id| kept(&mut early, id)), [false, false, false, true, true]);
        for other in 10..30 {
            early.insert(now, session(other), RequestId::int(0), &limits);
            assert!(early.entries.len() <= 8);
        }
        assert!(
            early.take(now, session(29), &RequestId::int(0))
                && !early.take(now, session(1), &RequestId::int(0))
        );
    }
}
