//! The table equals a walk over all exchanges; its order, its shares and its deadlines.

use super::*;
use crate::head::Fields;
use crate::server::{Config, Engine};
use crate::tap::ChannelId;
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

#[test]
fn memory_is_released_a_while_after_the_last_exchange_has_closed() {
    let mut table = ExchangeTable::new(1);
    let at = |micros| Instant::from_micros(micros);
    let [first, second] = [(); 2].map(|()| table.open(Kind::Post, at(0)));
    table.remove(at(1), first);
    assert_eq!(table.next_deadline(), None, "one is open");
    table.remove(at(2), second);
    let due = at(2) + TRIM_DELAY;
    assert_eq!(table.next_deadline(), Some(due));
    let third = table.open(Kind::Post, at(3));
    table.remove(at(4), third);
    assert_eq!(table.next_deadline(), Some(due), "one that comes and goes delays nothing");
    table.trim_if_due(at(1) + TRIM_DELAY);
    assert_eq!((table.next_deadline(), table.capacity() > 0), (Some(due), true));
    table.trim_if_due(due);
    assert_eq!((table.next_deadline(), table.capacity()), (None, 0));
}

#[test]
fn memory_of_a_closed_request_is_for_the_next_one_if_it_is_small() {
    let mut table = ExchangeTable::new(1);
    // What is empty, or large, does not take the place of what is kept.
    for (capacity, kept) in [(64, 64), (0, 64), (4 << 10, 4 << 10), ((4 << 10) + 1, 4 << 10)] {
        // A stream leaves the memory to requests.
        let key = table.open(Kind::Get, Instant::ZERO);
        let x = table.get_mut(key).expect("open");
        assert_eq!(x.out.capacity(), 0);
        x.headers = RequestHeaders::new(Vec::with_capacity(capacity));
        x.out.write(|out| out.reserve_exact(capacity));
        table.remove(Instant::ZERO, key);
        assert_eq!((table.spare.header_buffer.capacity(), table.spare.out.capacity()), (kept, kept));
    }
    let key = table.open(Kind::Post, Instant::ZERO);
    assert_eq!((table.spare.header_buffer.capacity(), table.spare.out.capacity()), (0, 0));
    let x = table.get_mut(key).expect("open");
    assert_eq!((x.headers.take_buffer().capacity(), x.out.capacity()), (4 << 10, 4 << 10));

    // The fields of its response.
    let mut fields = Fields::new();
    fields.push(fields::ALLOW, b"POST");
    let memory = fields.as_lines().as_ptr();
    table.answer_empty(key, 405, fields);
    table.remove(Instant::ZERO, key);
    let fields = table.take_fields();
    assert_eq!((fields.as_lines().as_ptr(), fields.is_empty()), (memory, true));
    assert_ne!(table.take_fields().as_lines().as_ptr(), memory, "they are taken once");

    // And the stream of the engine.
    let mut engine = Engine::new(Arc::new(Config::new("demo", "1.0")));
    for (length, is_kept) in [(64, true), (8 << 10, false)] {
        let buffers = ExchangeBuffers::default();
        let stream = engine.exchanges().open_channel(Instant::ZERO, None, key, buffers);
        engine.outbox(ChannelId(stream)).expect("open").push(&alloc::vec![0; length]);
        table.keep_stream_buffers(engine.exchanges().remove(Instant::ZERO, stream));
        let kept = table.take_stream_buffers();
        assert_eq!(kept.capacity() > 0, is_kept, "{length}");
        assert_eq!(table.take_stream_buffers().capacity(), 0);
    }
}

#[test]
fn body_tells_before_what_it_allocates() {
    let mut body = RequestBody::None;
    // The first piece is kept as it is. The second one begins a buffer of twice the length of both, which then doubles.
    for (piece, growth, capacity) in
        [(0, 0, 0), (100, 0, 100), (0, 0, 100), (50, 300, 300), (150, 0, 300), (0, 0, 300), (1, 600, 600)]
    {
        assert_eq!(body.growth(piece), growth, "{piece} after {}", body.len());
        body.push(alloc::vec![b'x'; piece].into());
        assert_eq!(body.capacity(), capacity, "{} bytes", body.len());
    }
    assert_eq!(body.take().len(), 301);
}

#[test]
fn body_is_charged_from_a_step_on() {
    let (memory, mut table) = (MemoryAccount::new(1 << 20, false), ExchangeTable::new(1));
    let key = table.open(Kind::Post, Instant::ZERO);
    let x = table.get_mut(key).expect("open");
    let mut push = |length| {
        x.push_body(alloc::vec![b'x'; length].into(), &memory);
        (x.body_len(), x.body_capacity(), memory.used())
    };
    assert_eq!(push(STEP - 1), (STEP - 1, STEP - 1, 0));
    assert_eq!(push(1), (STEP, 2 * STEP, 2 * STEP));
    assert_eq!((table.get_mut(key).expect("open").take_body().len(), memory.used()), (STEP, 0));
}

#[test]
fn exchange_is_undecided_while_the_application_decides() {
    let mut session = Session::new();
    let key = session.open(Kind::Post);
    let mut decided = |change: fn(&mut ServerExchange)| {
        session.table.get_mut(key).map(change);
        session.table.is_undecided(key)
    };
    assert!(!decided(|_| {}));
    assert!(decided(|x| x.phase = RequestPhase::Authorizing) && decided(|x| x.phase = RequestPhase::Loading));
    assert!(!decided(|x| x.phase = RequestPhase::Active));
    assert!(decided(|x| x.is_held = true) && !decided(|x| x.is_held = false));
    assert!(decided(|x| x.repeat = RepeatState::Removing) && !decided(|x| x.repeat = RepeatState::Stored));
}
