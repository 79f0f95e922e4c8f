//! The backlog: requests that wait because too many calls are in flight.
//!
//! Each channel has a queue, and the channels take turns. Every operation costs the same however many requests wait.
//! The backlog has no deadlines: a request waits until a call ends.

use alloc::vec::Vec;

use bytes::Bytes;

use crate::budget::Budget;
use crate::limits::Limits;
use crate::memory::STEP;
use crate::rpc::RequestId;
use crate::slab::list::{List, ListLinks};
use crate::slab::tree::{Tree, TreeLinks};
use crate::slab::{Key, Slab, links};

/// The requests of all channels that wait.
///
/// Invariant: a queue exists while it has requests, and is then in `turns`.
#[derive(Debug)]
pub(super) struct Backlog {
    queues: Slab<WaitQueue>,
    /// The queues, in the order of their turns.
    turns: List,
    requests: Slab<WaitingRequest>,
}

/// The requests of a channel that wait; it names the queue of the channel, which may have ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WaitingRequests(Option<Key>);

#[derive(Debug)]
struct WaitQueue {
    channel: Key,
    /// In order of arrival.
    requests: List,
    by_id: Tree,
    len: usize,
    budget: Budget,
    turn: ListLinks,
}

links! { WaitQueue: list turn }

#[derive(Debug)]
struct WaitingRequest {
    id: RequestId,
    frame: Bytes,
    arrival: ListLinks,
    links: TreeLinks,
}

links! { WaitingRequest: list arrival, tree links }

impl Backlog {
    pub(super) const fn new() -> Self {
        Self { queues: Slab::new(), turns: List::new(), requests: Slab::new() }
    }

    /// Returns the bytes of the entries, with those of messages that are too short to be charged by themselves.
    pub(super) const fn byte_len(&self) -> usize {
        self.requests.len() * (size_of::<WaitingRequest>() + STEP / 8)
    }

    /// Releases the memory if no request waits.
    pub(super) fn trim(&mut self) {
        self.queues.trim();
        self.requests.trim();
    }

    fn queue(&self, of: WaitingRequests) -> Option<&WaitQueue> {
        self.queues.get(of.0?)
    }

    /// Returns whether no request of a channel waits.
    pub(super) fn is_empty(&self, of: WaitingRequests) -> bool {
        self.queue(of).is_none()
    }

    /// Returns whether the limits allow no further request of a channel.
    pub(super) fn is_full(&self, of: WaitingRequests, limits: &Limits) -> bool {
        // The last queued request may exceed the budget: it was read already, and reading pauses then.
        let (len, is_spent) = self.queue(of).map_or((0, false), |queue| (queue.len, queue.budget.is_spent()));
        len >= limits.max_waiting_requests || is_spent
    }

    pub(super) fn contains(&mut self, of: WaitingRequests, id: &RequestId) -> bool {
        let queue = of.0.and_then(|key| self.queues.get_mut(key));
        queue.is_some_and(|q| q.by_id.find(&mut self.requests, |_, other| other.id.cmp(id)).is_some())
    }

    /// Adds a request, even beyond the budget. Its id must not wait already.
    pub(super) fn push(
        &mut self,
        of: &mut WaitingRequests,
        channel: Key,
        id: RequestId,
        frame: Bytes,
        limits: &Limits,
    ) {
        let key = match of.0.filter(|key| self.queues.get(*key).is_some()) {
            Some(key) => key,
            None => {
                let key = self.queues.insert(WaitQueue {
                    channel,
                    requests: List::new(),
                    by_id: Tree::new(),
                    len: 0,
                    budget: Budget::new(limits.max_waiting_bytes),
                    turn: ListLinks::NONE,
                });
                self.turns.push(&mut self.queues, key);
                *of = WaitingRequests(Some(key));
                key
            }
        };
        let Some(queue) = self.queues.get_mut(key) else { return };
        let place = queue.by_id.place(&mut self.requests, |_, other| other.id.cmp(&id));
        // It has a place: `in_flight` has excluded an id that waits.
        let Ok(place) = place else { return };
        queue.budget.overdraw(frame.len());
        queue.len += 1;
        let (arrival, links) = (ListLinks::NONE, TreeLinks::default());
        let request = self.requests.insert(WaitingRequest { id, frame, arrival, links });
        queue.by_id.insert(&mut self.requests, place, request);
        queue.requests.push(&mut self.requests, request);
    }

    /// Takes the oldest request of the channel whose turn it is, if `may_take` allows it for the channel.
    pub(super) fn pop(&mut self, may_take: impl FnOnce(Key) -> bool) -> Option<(Key, Bytes)> {
        let key = self.turns.first(&self.queues)?;
        // The turn is over even if nothing is taken: a channel without room must not hold up the others.
        self.turns.remove(&mut self.queues, key);
        self.turns.push(&mut self.queues, key);
        let queue = self.queues.get(key)?;
        let (channel, oldest) = (queue.channel, queue.requests.first(&self.requests)?);
        if !may_take(channel) {
            return None;
        }
        let request = self.take(key, oldest)?;
        Some((channel, request.frame))
    }

    /// Removes a request; returns false if there is none with this id.
    pub(super) fn remove(&mut self, of: WaitingRequests, id: &RequestId) -> bool {
        let Some(key) = of.0 else { return false };
        let Some(queue) = self.queues.get_mut(key) else { return false };
        let found = queue.by_id.find(&mut self.requests, |_, other| other.id.cmp(id));
        found.and_then(|request| self.take(key, request)).is_some()
    }

    /// Removes all requests of a channel and returns their ids, in order of arrival.
    pub(super) fn remove_all(&mut self, of: WaitingRequests) -> Vec<RequestId> {
        let mut ids = Vec::new();
        while let Some(oldest) = self.queue(of).and_then(|queue| queue.requests.first(&self.requests)) {
            let Some(request) = of.0.and_then(|key| self.take(key, oldest)) else { break };
            ids.push(request.id);
        }
        ids
    }

    /// Removes a request, and its queue if it was the last one.
    fn take(&mut self, key: Key, request: Key) -> Option<WaitingRequest> {
        let queue = self.queues.get_mut(key)?;
        // The id is compared with those of other requests only.
        let id = core::mem::replace(&mut self.requests.get_mut(request)?.id, RequestId::int(0));
        queue.by_id.remove(&mut self.requests, request, |_, other| other.id.cmp(&id));
        queue.requests.remove(&mut self.requests, request);
        let taken = self.requests.remove(request)?;
        queue.budget.release(taken.frame.len());
        queue.len -= 1;
        if queue.len == 0 {
            // The key in the state of the channel becomes stale, and its next request makes another queue.
            self.turns.remove(&mut self.queues, key);
            self.queues.remove(key);
        }
        Some(WaitingRequest { id, ..taken })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use alloc::collections::VecDeque;

    fn channel(slot: u32) -> Key {
        Key { slot, generation: 0 }
    }

    fn frame(id: i64) -> Bytes {
        Bytes::from(alloc::vec![b'x'; usize::try_from(id % 40).unwrap_or(0)])
    }

    #[test]
    fn channels_take_turns_and_each_keeps_the_order_of_arrival() {
        let (mut backlog, limits) = (Backlog::new(), Limits::default());
        let (mut a, mut b) = (WaitingRequests::default(), WaitingRequests::default());
        for id in [5, 1, 3] {
            backlog.push(&mut a, channel(0), RequestId::int(id), frame(id), &limits);
        }
        backlog.push(&mut b, channel(1), RequestId::int(5), frame(5), &limits);
        let order: Vec<_> =
            core::iter::from_fn(|| backlog.pop(|_| true)).map(|(c, f)| (c.slot, f.len())).collect();
        assert_eq!(order, [(0, 5), (1, 5), (0, 1), (0, 3)]);
        assert!(backlog.is_empty(a) && backlog.is_empty(b) && backlog.turns.is_empty());
    }

    #[test]
    fn limits_of_number_and_bytes_are_reached_per_channel() {
        let limits = Limits { max_waiting_requests: 2, max_waiting_bytes: 8, ..Limits::default() };
        let (mut backlog, mut a, mut b) = (Backlog::new(), <_>::default(), <_>::default());
        backlog.push(&mut a, channel(0), RequestId::int(9), frame(9), &limits);
        assert!(backlog.is_full(a, &limits) && !backlog.is_full(b, &limits), "its bytes are spent");
        for id in [1, 2] {
            backlog.push(&mut b, channel(1), RequestId::int(id), frame(id), &limits);
        }
        assert!(backlog.is_full(b, &limits));
        assert!(backlog.remove(b, &RequestId::int(2)) && !backlog.remove(b, &RequestId::int(2)));
        assert!(!backlog.is_full(b, &limits));
        assert_eq!((backlog.remove_all(a), backlog.is_full(a, &limits)), ([RequestId::int(9)].into(), false));
    }

    #[test]
    fn request_that_waits_counts_as_its_entry_and_a_short_message() {
        let (mut backlog, mut a, limits) = (Backlog::new(), <_>::default(), Limits::default());
        for count in 0..9 {
            assert_eq!(backlog.byte_len(), count * (size_of::<WaitingRequest>() + 128));
            let id = RequestId::int(i64::try_from(count).unwrap_or(0));
            backlog.push(&mut a, channel(0), id, frame(1), &limits);
        }
        backlog.trim();
        assert!(backlog.contains(a, &RequestId::int(8)), "what waits is kept");
        backlog.remove_all(a);
        assert_eq!(backlog.byte_len(), 0);
        assert!(backlog.queues.capacity() > 0 && backlog.requests.capacity() > 0);
        backlog.trim();
        assert_eq!((backlog.queues.capacity(), backlog.requests.capacity()), (0, 0));
    }

    #[test]
    fn backlog_equals_queues_with_turns_after_every_step() {
        for seed in 1..40 {
            let (mut rng, mut backlog, limits) = (Rng::new(seed), Backlog::new(), Limits::default());
            let mut channels = [WaitingRequests::default(); 3];
            let mut turns: VecDeque<(usize, VecDeque<i64>)> = VecDeque::new();
            for _ in 0..400 {
                let (on, id) = (rng.below(3), i64::try_from(rng.below(12)).unwrap_or(0));
                let at = turns.iter().position(|(other, _)| *other == on);
                match rng.below(5) {
                    0..=2 if !backlog.contains(channels[on], &RequestId::int(id)) => {
                        let slot = u32::try_from(on).unwrap_or(0);
                        backlog.push(
                            &mut channels[on],
                            channel(slot),
                            RequestId::int(id),
                            frame(id),
                            &limits,
                        );
                        match at {
                            Some(at) => turns[at].1.push_back(id),
                            None => turns.push_back((on, [id].into())),
                        }
                    }
                    3 => {
                        let expected = turns.pop_front().map(|(on, mut ids)| {
                            let id = ids.pop_front().expect("never empty");
                            if !ids.is_empty() {
                                turns.push_back((on, ids));
                            }
                            (u32::try_from(on).unwrap_or(0), frame(id))
                        });
                        assert_eq!(backlog.pop(|_| true).map(|(c, f)| (c.slot, f)), expected);
                    }
                    4 if rng.percent(80) => {
                        let known = at.and_then(|at| turns[at].1.iter().position(|other| *other == id));
                        assert_eq!(backlog.remove(channels[on], &RequestId::int(id)), known.is_some());
                        if let (Some(at), Some(known)) = (at, known) {
                            turns[at].1.remove(known);
                            turns.retain(|(_, ids)| !ids.is_empty());
                        }
                    }
                    4 => {
                        let ids = at.and_then(|at| turns.remove(at)).map(|(_, ids)| ids).unwrap_or_default();
                        let ids: Vec<_> = ids.into_iter().map(RequestId::int).collect();
                        assert_eq!(backlog.remove_all(channels[on]), ids);
                    }
                    _ => {}
                }
                for (on, of) in channels.iter().enumerate() {
                    assert_eq!(backlog.is_empty(*of), turns.iter().all(|(other, _)| *other != on));
                }
            }
        }
    }
}
