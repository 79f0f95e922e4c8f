//! Exchanges that wait for a connection, and where each exchange is.

use alloc::vec::Vec;

use super::exchange::{ExchangeClass, ExchangeId, OutgoingRequest};
use crate::slab::list::{List, ListLinks, ListNode};
use crate::slab::{Key, Slab};

/// A request that waits for a connection, and its position among all.
#[derive(Debug)]
struct WaitingRequest {
    request: OutgoingRequest,
    position: i64,
    links: ListLinks,
}

impl ListNode for WaitingRequest {
    fn list_links(&self) -> ListLinks {
        self.links
    }

    fn set_list_links(&mut self, links: ListLinks) {
        self.links = links;
    }
}

/// Requests that wait for a connection: one queue per class, with an order among all.
///
/// All requests of a client go to one origin, so those behind the first one of a class cannot do better than it.
#[derive(Debug, Default)]
pub(super) struct WaitingRequests {
    slab: Slab<WaitingRequest>,
    queues: [List; 3],
    next_position: i64,
    /// Position of the request that was put in front last.
    front_position: i64,
}

const fn queue_of(class: ExchangeClass) -> usize {
    match class {
        ExchangeClass::Message => 0,
        ExchangeClass::Request => 1,
        ExchangeClass::Stream => 2,
    }
}

impl WaitingRequests {
    pub(super) const fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    /// Adds a request behind all others.
    pub(super) fn push_back(&mut self, request: OutgoingRequest) -> Key {
        self.next_position += 1;
        let class = request.class;
        let (position, links) = (self.next_position, ListLinks::NONE);
        let key = self.slab.insert(WaitingRequest { request, position, links });
        if let Some(queue) = self.queues.get_mut(queue_of(class)) {
            queue.push(&mut self.slab, key);
        }
        key
    }

    /// Adds a request before all others.
    pub(super) fn push_front(&mut self, request: OutgoingRequest) -> Key {
        self.front_position -= 1;
        let class = request.class;
        let (position, links) = (self.front_position, ListLinks::NONE);
        let key = self.slab.insert(WaitingRequest { request, position, links });
        if let Some(queue) = self.queues.get_mut(queue_of(class)) {
            queue.push_front(&mut self.slab, key);
        }
        key
    }

    /// Returns the first request whose class is not excluded.
    pub(super) fn first(
        &self,
        is_excluded: impl Fn(ExchangeClass) -> bool,
    ) -> Option<(Key, &OutgoingRequest)> {
        let firsts = self.queues.iter().filter_map(|queue| queue.first(&self.slab));
        let waiting = firsts.filter_map(|key| Some((key, self.slab.get(key)?)));
        let allowed = waiting.filter(|(_, waiting)| !is_excluded(waiting.request.class));
        allowed.min_by_key(|(_, waiting)| waiting.position).map(|(key, waiting)| (key, &waiting.request))
    }

    /// Takes a request out.
    pub(super) fn remove(&mut self, key: Key) -> Option<OutgoingRequest> {
        let waiting = self.slab.remove(key)?;
        if let Some(queue) = self.queues.get_mut(queue_of(waiting.request.class)) {
            queue.unlink(&mut self.slab, waiting.links);
        }
        Some(waiting.request)
    }
}

/// The place of an exchange in a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Waiting(Key),
    Connection(Key),
}

/// The places of exchanges, by their slots.
#[derive(Debug, Default)]
pub(super) struct Places {
    slots: Vec<Option<(ExchangeId, Place)>>,
}

impl Places {
    /// Records the place of an exchange.
    pub(super) fn set(&mut self, exchange: ExchangeId, place: Place) {
        let at = exchange.0.slot as usize;
        if at >= self.slots.len() {
            self.slots.resize(at + 1, None);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            *slot = Some((exchange, place));
        }
    }

    /// Forgets the place of an exchange. Returns it.
    pub(super) fn take(&mut self, exchange: ExchangeId) -> Option<Place> {
        let slot = self.slots.get_mut(exchange.0.slot as usize)?;
        slot.take_if(|(known, _)| *known == exchange).map(|(_, place)| place)
    }

    /// Releases the memory.
    pub(super) fn clear(&mut self) {
        self.slots = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::sync::Arc;

    fn request(slot: u32, class: ExchangeClass) -> OutgoingRequest {
        OutgoingRequest {
            exchange: ExchangeId(Key { slot, generation: 0 }),
            method: "POST",
            url: Arc::new(crate::http::client::Url::parse("http://localhost/").expect("a URL")),
            fields: crate::head::Fields::new(),
            body: bytes::Bytes::new(),
            class,
            idempotent: false,
        }
    }

    fn first(waiting: &WaitingRequests, excluded: &[ExchangeClass]) -> Option<(Key, u32)> {
        waiting.first(|class| excluded.contains(&class)).map(|(key, request)| (key, request.exchange.0.slot))
    }

    #[test]
    fn first_request_is_the_oldest_of_the_classes_that_are_not_excluded() {
        use ExchangeClass::{Message, Request, Stream};
        let mut waiting = WaitingRequests::default();
        let keys = [Stream, Request, Message, Request].map(|class| {
            let slot = u32::try_from(waiting.slab.len()).expect("few");
            waiting.push_back(request(slot, class))
        });
        assert_eq!(first(&waiting, &[]), Some((keys[0], 0)));
        assert_eq!(first(&waiting, &[Stream]), Some((keys[1], 1)));
        assert_eq!(first(&waiting, &[Stream, Request]), Some((keys[2], 2)));
        assert!(waiting.remove(keys[1]).is_some() && waiting.remove(keys[1]).is_none());
        assert_eq!(first(&waiting, &[Stream, Message]), Some((keys[3], 3)));
        let front = waiting.push_front(request(9, Request));
        assert_eq!(first(&waiting, &[]), Some((front, 9)));
        for key in [keys[0], keys[2], keys[3], front] {
            assert!(waiting.remove(key).is_some());
        }
        assert!(waiting.is_empty() && first(&waiting, &[]).is_none());
    }

    #[test]
    fn place_of_an_exchange_is_not_that_of_the_next_one_in_its_slot() {
        let mut places = Places::default();
        let [old, new] = [0, 1].map(|generation| ExchangeId(Key { slot: 3, generation }));
        let key = Key { slot: 0, generation: 0 };
        places.set(old, Place::Waiting(key));
        assert_eq!(places.take(new), None);
        places.set(new, Place::Connection(key));
        assert_eq!(
            (places.take(old), places.take(new), places.take(new)),
            (None, Some(Place::Connection(key)), None)
        );
    }
}
