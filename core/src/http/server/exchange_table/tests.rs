//! The table equals a walk over all exchanges; its order, its shares and its deadlines.

use super::*;
use crate::head::Fields;
use crate::testing::rounds;

const PRINCIPALS: [&str; 2] = ["alice", "bob"];

/// The exchanges of one session, and the index of the session.
struct Session {
    table: ExchangeTable,
    index: Tree,
}

impl Session {
    fn new() -> Self {
        let mut table = ExchangeTable::new(3);
        table.count_principals();
        Self { table, index: Tree::new() }
    }

    fn open(&mut self, kind: Kind) -> Key {
        self.table.open(kind, Instant::ZERO)
    }

    fn set_place(&mut self, key: Key, number: u32, is_call: bool) {
        self.table.unindex(Some(&mut self.index), key);
        self.table.set_place(key, SessionPlace { session: None, number, is_call });
        self.table.index(&mut self.index, key);
    }

    fn remove(&mut self, now: Instant, key: Key) {
        self.table.unindex(Some(&mut self.index), key);
        self.table.remove(now, key);
    }

    /// Compares what is kept with a walk over all exchanges.
    fn check(&mut self) {
        let table = &mut self.table;
        let open = || table.slab.iter();
        assert_eq!(table.open_ended, open().filter(|(_, x)| x.is_open_ended()).count());

        for (key, x) in open() {
            let times = table.ready.iter().filter(|ready| **ready == key).count();
            match x.client {
                ClientPresence::Here => assert_eq!(times, 0),
                ClientPresence::Queued => assert_eq!(times, 1),
                ClientPresence::Gone => assert!(times <= 1),
            }
            assert_eq!(x.is_indexed, x.place.is_indexed());
        }
        for principal in PRINCIPALS {
            let own = || open().filter(|(_, x)| x.principal() == Some(principal));
            assert_eq!(table.count_of(principal), own().count());
            assert_eq!(
                table.quietest(Some(principal)).is_some(),
                own().any(|(_, x)| x.may_end_for_another())
            );
        }
        let mut quiet: Vec<Key> = table.quietest.iter(&table.slab).map(|(key, _)| key).collect();
        quiet.sort_unstable();
        let mut expected: Vec<Key> =
            open().filter(|(_, x)| x.may_end_for_another()).map(|(key, _)| key).collect();
        expected.sort_unstable();
        assert_eq!(quiet, expected);
        let mut places: Vec<_> = open().filter(|(_, x)| x.is_indexed).collect();
        places.sort_by_key(|(key, x)| (x.place.order(), key.slot));
        let places: Vec<Key> = places.into_iter().map(|(key, _)| key).collect();
        assert_eq!(table.indexed(&self.index), places);
    }
}

fn party(principal: &str) -> Authorization {
    Authorization::new(crate::server::Identity::new(principal))
}

#[test]
fn table_equals_a_walk_after_every_step() {
    let (mut session, mut keys, mut random) = (Session::new(), Vec::new(), 5_u32);
    for step in 0..rounds(4_000) {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let (choice, at) = ((random >> 16) % 9, (random >> 8) as usize);
        let now = Instant::from_micros(step * 1_000);
        let key = (!keys.is_empty()).then(|| keys[at % keys.len()]);
        let Session { table, .. } = &mut session;
        match (choice, key) {
            (0 | 1, _) => {
                let kind = [Kind::Post, Kind::Get, Kind::HttpSse, Kind::Other][at % 4];
                keys.push(session.open(kind));
            }
            (2, Some(key)) => table.mark_ready(key),
            (3, Some(key)) => table.set_open_ended(key, at % 3 > 0),
            (4, Some(key)) => table.set_authorization(key, party(PRINCIPALS[at % 2]), None),
            (5, Some(key)) => table.record_activity(key),
            // Of the exchanges with one number at most one is the call.
            (6, Some(key)) => session.set_place(key, (at % 7) as u32, false),
            (7, Some(key)) => session.set_place(key, 100 + key.slot, at % 2 == 0),
            (8, Some(_)) if at % 2 == 0 => drop(table.pop_ready()),
            (8, Some(key)) => {
                keys.retain(|other| *other != key);
                session.remove(now, key);
            }
            _ => {}
        }
        session.check();
    }
    assert!(keys.len() > 10 && session.table.open_ended > session.table.max_open_ended);
    keys.iter().for_each(|key| session.remove(Instant::ZERO, *key));
    session.check();
    assert!(session.table.pop_ready().is_none());
    let trim_at = session.table.next_deadline().expect("memory is kept for a while");
    session.table.trim_if_due(trim_at);
    assert_eq!((session.table.capacity(), session.table.next_deadline()), (0, None));
}

#[test]
fn call_of_a_number_comes_before_the_exchanges_that_lost_the_stream() {
    let mut session = Session::new();
    let [old, call, other] = [0; 3].map(|_| session.open(Kind::Post));
    session.set_place(old, 7, false);
    session.set_place(call, 7, true);
    session.set_place(other, 8, false);
    let Session { table, index } = &mut session;
    assert_eq!((table.find_call(index, 7), table.find_call(index, 8)), (Some(call), None));
    table.unindex(Some(index), call);
    assert_eq!((table.find_call(index, 7), table.find_stream(index, 7)), (None, Some(old)));
    table.unindex(None, old);
    assert!(!table.is_indexed(old), "its session has ended");
}

#[test]
fn quietest_stream_is_the_one_without_messages_for_longest() {
    let mut session = Session::new();
    let keys = [Kind::Get, Kind::HttpSse, Kind::Post].map(|kind| session.open(kind));
    let table = &mut session.table;
    for key in keys {
        assert!(table.has_room_for_open_ended());
        table.set_open_ended(key, true);
    }
    assert!(!table.has_room_for_open_ended());
    assert_eq!(table.quietest(None), Some(keys[0]));
    table.record_activity(keys[0]);
    assert_eq!(table.quietest(None), Some(keys[2]), "the stream of HTTP+SSE is its session");
    table.set_authorization(keys[0], party("alice"), None);
    assert_eq!((table.quietest(Some("alice")), table.quietest(Some("bob"))), (Some(keys[0]), None));
}

#[test]
fn check_of_a_complete_exchange_is_no_deadline() {
    let mut session = Session::new();
    let keys = [Kind::Post, Kind::Post].map(|kind| session.open(kind));
    let table = &mut session.table;
    for (key, at) in keys.into_iter().zip([20, 10]) {
        table.schedule_check(Instant::from_micros(at), key);
    }
    assert_eq!(table.next_deadline(), Some(Instant::from_micros(10)));
    table.answer_empty(keys[1], 202, Fields::new());
    assert_eq!(table.next_deadline(), Some(Instant::from_micros(20)));
    assert_eq!(table.pop_ready(), Some(keys[1]));
}
