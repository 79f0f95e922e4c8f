//! The open exchanges and the sessions of each principal.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use super::Server;
use super::exchange_table::{Kind, SessionKey};
use super::refusal::{HeadDecision, overloaded};
use super::resumption::write_empty_event;
use crate::frame::sse::EventHead;
use crate::server::Authorization;
use crate::slab::{Key, Slab};
use crate::sync::Arc;
use crate::tap::ChannelId;

/// The number of open exchanges of each principal.
#[derive(Debug, Default)]
pub(super) struct PrincipalCounts {
    /// The principal whose exchange was counted last, and their number, which may be zero: its next request mostly
    /// follows.
    recent: Option<(Arc<str>, usize)>,
    /// The other ones with open exchanges.
    others: BTreeMap<Arc<str>, usize>,
}

impl PrincipalCounts {
    /// Returns the number of exchanges of a principal.
    pub(in crate::http::server) fn of(&self, principal: &str) -> usize {
        match &self.recent {
            Some((recent, count)) if **recent == *principal => *count,
            _ => self.others.get(principal).copied().unwrap_or(0),
        }
    }

    /// Counts one more exchange of a principal.
    pub(in crate::http::server) fn add(&mut self, principal: &Arc<str>) {
        match &mut self.recent {
            Some((recent, count)) if *recent == *principal => *count += 1,
            _ => {
                let count = self.others.remove(principal).unwrap_or(0) + 1;
                // A principal without open exchanges is dropped here, or the map would keep everyone who ever came.
                if let Some((other, open @ 1..)) = self.recent.replace((principal.clone(), count)) {
                    self.others.insert(other, open);
                }
            }
        }
    }

    /// Counts one exchange of a principal less.
    pub(in crate::http::server) fn remove(&mut self, principal: &Arc<str>) {
        match &mut self.recent {
            Some((recent, count)) if *recent == *principal => *count = count.saturating_sub(1),
            _ => match self.others.get_mut(principal) {
                Some(count @ 2..) => *count -= 1,
                Some(_) => _ = self.others.remove(principal),
                None => {}
            },
        }
    }

    /// Removes the principals without exchanges.
    pub(in crate::http::server) fn trim(&mut self) {
        self.recent.take_if(|(_, count)| *count == 0);
    }
}

/// The sessions of a principal.
#[derive(Debug, Default)]
pub(super) struct SessionsOfPrincipal {
    pub(super) count: usize,
    /// Its sessions whose handshake may be unfinished, oldest first; may contain stale keys.
    pub(super) uninitialized: VecDeque<SessionKey>,
}

/// The sessions of each principal that has any.
#[derive(Debug, Default)]
pub(super) struct PrincipalSessions {
    pub(super) shares: Slab<SessionsOfPrincipal>,
    pub(super) by_principal: BTreeMap<Arc<str>, Key>,
}

impl PrincipalSessions {
    /// Adds a session of a principal; `is_known` tells whether a session goes on.
    pub(in crate::http::server) fn add(
        &mut self,
        principal: &str,
        session: SessionKey,
        is_known: &dyn Fn(SessionKey) -> bool,
    ) {
        let share = match self.by_principal.get(principal) {
            Some(share) => *share,
            None => {
                let share = self.shares.insert(SessionsOfPrincipal::default());
                self.by_principal.insert(principal.into(), share);
                share
            }
        };
        if let Some(share) = self.shares.get_mut(share) {
            share.count += 1;
            queue_uninitialized(&mut share.uninitialized, session, share.count, is_known);
        }
    }

    /// Removes a session of a principal.
    pub(in crate::http::server) fn remove(&mut self, principal: &str) {
        let Some(share) = self.of(principal) else { return };
        // A share exists only while it has sessions, so the count is at least one.
        share.count -= 1;
        if share.count == 0 {
            if let Some(share) = self.by_principal.remove(principal) {
                self.shares.remove(share);
                self.shares.trim();
            }
        }
    }

    /// Returns the sessions of a principal, if it has any.
    pub(in crate::http::server) fn of(&mut self, principal: &str) -> Option<&mut SessionsOfPrincipal> {
        self.shares.get_mut(*self.by_principal.get(principal)?)
    }
}

/// Queues a new session.
///
/// Removes stale keys when the queue exceeds about twice the `count` of sessions. So the queue stays bounded even if an
/// unfinished session stays at its front.
pub(super) fn queue_uninitialized(
    queue: &mut VecDeque<SessionKey>,
    session: SessionKey,
    count: usize,
    is_known: &dyn Fn(SessionKey) -> bool,
) {
    if queue.len() >= 2 * count + 16 {
        queue.retain(|session| is_known(*session));
    }
    queue.push_back(session);
}

// The shares of open exchanges that streams and principals may have, and eviction of quiet streams.

/// Returns the share of streams: three quarters of `all`, and at least one.
pub(super) const fn share_of_streams(all: usize) -> usize {
    let share = all - all.div_ceil(4);
    if share == 0 { 1 } else { share }
}

impl Server {
    /// Sets the number of connections that the caller allows, of all shards. Streams may have three quarters of them.
    ///
    /// The share of [`Config::max_exchanges`](super::Config::max_exchanges) holds, too. When it is reached, a new
    /// stream ends the one that has been quiet for longest. Of several shards, each has an equal part of the share; call
    /// this after [`set_shard`](Self::set_shard). With fewer streams than shards, some shards refuse all streams: one for
    /// each shard could take all connections.
    pub fn set_max_connections(&mut self, connections: usize) {
        let all = share_of_streams(connections);
        let part = match self.sessions.shard() {
            Some((shard, shards)) => {
                let (shard, shards) = (usize::from(shard), usize::from(shards).max(1));
                // The first shards get the remainder, so that all parts add up to the share.
                all / shards + usize::from(shard < all % shards)
            }
            None => all,
        };
        self.exchanges.set_max_open_ended(part.min(share_of_streams(self.config.max_exchanges)));
    }

    /// Admits one more stream without an end of its own, or refuses it and returns false.
    ///
    /// If the share of such streams is taken, the quietest one ends.
    pub(super) fn admit_open_ended(&mut self, key: Key) -> bool {
        if !self.exchanges.has_room_for_open_ended() && !self.end_quietest_stream(None) {
            self.exchanges.refuse(key, &overloaded("too many streams are open"));
            return false;
        }
        self.exchanges.set_open_ended(key, true);
        true
    }

    /// Ends the GET stream or subscription that has been quiet for longest, of all or of one principal.
    ///
    /// A GET stream can be resumed or opened again after a delay that it names; a subscription gets its final result
    /// (SUB-013). Neither owes a response (HTTP-058). Returns whether there was one.
    fn end_quietest_stream(&mut self, principal: Option<&str>) -> bool {
        let Some(key) = self.exchanges.quietest(principal) else { return false };
        self.end_stream(key, self.config.retry.saturating_mul(CROWDED_RETRY));
        true
    }

    /// Ends a GET stream, whose client may come back after `retry`, or a subscription.
    pub(super) fn end_stream(&mut self, key: Key, retry: Duration) {
        let Some(x) = self.exchanges.get_mut(key) else { return };
        match (x.kind, x.stream) {
            (Kind::Post, Some(stream)) => {
                // Its result is the last message of the stream, which then ends.
                self.engine.end_subscriptions(self.now, ChannelId(stream));
                // The room is free at once: the new stream does not wait until the last bytes of this one are read.
                self.exchanges.set_open_ended(key, false);
                self.fill_response(key);
            }
            _ => {
                let head = EventHead { retry: Some(retry), ..EventHead::default() };
                x.out.write(|out| write_empty_event(out, &head));
                self.finish(key);
            }
        }
    }
}

/// Lets a request act for a principal, unless too many of its requests are in work. One of its streams may end for that.
pub(super) fn admit_as(server: &mut Server, key: Key, authorization: Authorization) -> HeadDecision {
    // A stream that is resumed takes the place of a call that is polled; DELETE and the like are answered at once.
    let needs_room = server.exchanges.get(key).is_some_and(|x| match x.kind {
        Kind::Other => false,
        Kind::Get => x.headers.last_event_id() == Ok(None),
        _ => true,
    });
    let (principal, max) = (authorization.principal(), server.config.max_exchanges_per_principal);
    // Mostly there are fewer exchanges in all than one principal may have; the one to admit is among them.
    let has_room = server.exchanges.len() <= max || server.exchanges.count_of(principal) < max;
    if needs_room && !has_room && !server.end_quietest_stream(Some(principal)) {
        return HeadDecision::Refused(overloaded("too many requests of this principal are in work"));
    }
    let expires = authorization.identity().lifetime().map(|lifetime| server.now + lifetime);
    server.exchanges.set_authorization(key, authorization, expires);
    HeadDecision::Admitted
}

/// Factor of the retry time of an evicted GET stream: a client that came back immediately would evict the next stream.
const CROWDED_RETRY: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn counts_equal_a_walk_and_at_most_one_principal_is_idle() {
        let names: [Arc<str>; 20] = core::array::from_fn(|n| format!("principal {n}").into());
        let (mut counts, mut open, mut random) = (PrincipalCounts::default(), [0_usize; 20], 7_u32);
        for _ in 0..10_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = (random >> 16) as usize % names.len();
            if open[at] == 0 || (open[at] < 3 && random & 0x800 == 0) {
                counts.add(&names[at]);
                open[at] += 1;
            } else {
                counts.remove(&names[at]);
                open[at] -= 1;
            }
            for (name, open) in names.iter().zip(open) {
                assert_eq!(counts.of(name), open, "{name}");
            }
            assert!(counts.others.values().all(|count| *count > 0));
        }
        for (name, open) in names.iter().zip(open) {
            (0..open).for_each(|_| counts.remove(name));
        }
        counts.remove(&"nobody".into());
        assert!(counts.others.is_empty());
        counts.trim();
        assert!(counts.recent.is_none());
    }

    // covers: SEC-018
    #[test]
    fn queue_of_unfinished_sessions_is_cleared_of_stale_ones_at_twice_their_number() {
        for count in [0_usize, 1, 10] {
            let (mut queue, most) = (VecDeque::new(), 2 * count + 16);
            let key = |slot| SessionKey::new(Key { slot, generation: 0 }, crate::built::Sessions);
            for slot in 0..u32::try_from(most).expect("few") {
                queue_uninitialized(&mut queue, key(slot), count, &|_| false);
            }
            assert_eq!(queue.len(), most, "not looked at before");
            queue_uninitialized(&mut queue, key(1_000), count, &|known| known == key(0));
            assert_eq!(queue, [key(0), key(1_000)]);
        }
    }

    // covers: SEC-018
    #[test]
    fn removed_sessions_leave_no_memory_of_their_principal() {
        let mut sessions = PrincipalSessions::default();
        let key = SessionKey::new(Key { slot: 0, generation: 0 }, crate::built::Sessions);
        for name in ["alice", "bob", "alice"] {
            sessions.add(name, key, &|_| true);
        }
        let mut count = |name: &str| sessions.of(name).map(|share| share.count);
        assert_eq!((count("alice"), count("bob"), count("carol")), (Some(2), Some(1), None));
        for name in ["alice", "bob", "carol"] {
            sessions.remove(name);
        }
        assert_eq!(sessions.by_principal.len(), 1);
        sessions.remove("alice");
        assert!(sessions.of("alice").is_none() && sessions.by_principal.is_empty());
        assert_eq!(sessions.shares.capacity(), 0);
    }
}
