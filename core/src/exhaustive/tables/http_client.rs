//! All short histories of the queues and places of a connection pool.

use super::exchange::ExchangeClass;
use super::pool_table::{Place, Places, WaitingRequests};
use super::{ExchangeId, OutgoingRequest, Url};
use crate::slab::Key;
use crate::sync::Arc;
use crate::testing::{exhaustive, for_each_sequence};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

#[test]
fn exhaustive_request_that_waited_longest_is_the_first_of_the_classes_with_a_place() {
    let property = "Of the requests that wait, the first one is the oldest of the classes that have a place, those put in front before.";
    let classes = [ExchangeClass::Message, ExchangeClass::Request, ExchangeClass::Stream];
    exhaustive(
        property,
        "requests of 3 classes at both ends, removals at both ends, up to",
        [4, 5, 6],
        |most| {
            let url = Arc::new(Url::parse("http://localhost/").expect("a URL"));
            let request = |class| OutgoingRequest {
                exchange: ExchangeId(Key { slot: 0, generation: 0 }),
                method: "POST",
                url: Arc::clone(&url),
                fields: crate::head::Fields::new(),
                body: bytes::Bytes::new(),
                class,
                idempotent: false,
            };
            for_each_sequence(8, most, |steps| {
                let (mut waiting, mut model, mut gone) = (WaitingRequests::default(), Vec::new(), Vec::new());
                for step in steps {
                    let class = classes[step % 3];
                    match step {
                        0..=2 => model.push((waiting.push_back(request(class)), class)),
                        3..=5 => model.insert(0, (waiting.push_front(request(class)), class)),
                        _ if model.is_empty() => {}
                        _ => {
                            let at = if *step == 6 { 0 } else { model.len() - 1 };
                            let (key, class) = model.remove(at);
                            assert!(
                                waiting.remove(key).is_some_and(|request| request.class == class),
                                "{steps:?}"
                            );
                            gone.push(key);
                        }
                    }
                }
                assert_eq!(waiting.is_empty(), model.is_empty());
                assert!(gone.into_iter().all(|key| waiting.remove(key).is_none()), "{steps:?}");
                for chosen in 0..8 {
                    let has_place = |class: ExchangeClass| {
                        classes
                            .iter()
                            .position(|other| *other == class)
                            .is_some_and(|at| chosen >> at & 1 == 1)
                    };
                    let expected = model.iter().find(|(_, class)| has_place(*class)).map(|(key, _)| *key);
                    assert_eq!(waiting.first(has_place).map(|(key, _)| key), expected, "{chosen} {steps:?}");
                }
            })
        },
    );
}

#[test]
fn exhaustive_place_belongs_to_the_exchange_that_took_its_slot_last() {
    let property =
        "The place of an exchange is the one that was set for it last, and is taken once, by it alone.";
    let exchanges = [(0, 0), (0, 1), (2, 0)].map(|(slot, generation)| ExchangeId(Key { slot, generation }));
    exhaustive(property, "places of 3 exchanges in 2 slots, set and taken, up to", [5, 6, 7], |most| {
        for_each_sequence(6, most, |steps| {
            let (mut places, mut model) = (Places::default(), BTreeMap::new());
            for (at, step) in steps.iter().enumerate() {
                let exchange = exchanges[step % 3];
                if *step < 3 {
                    let key = Key { slot: u32::try_from(at).expect("few"), generation: 0 };
                    let place = if at % 2 == 0 { Place::Waiting(key) } else { Place::Connection(key) };
                    places.set(exchange, place);
                    model.insert(exchange.0.slot, (exchange, place));
                } else {
                    let is_own = model.get(&exchange.0.slot).is_some_and(|(owner, _)| *owner == exchange);
                    let own = if is_own { model.remove(&exchange.0.slot) } else { None };
                    assert_eq!(places.take(exchange), own.map(|(_, place)| place), "{steps:?}");
                }
            }
        })
    });
}
