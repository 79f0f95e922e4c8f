//! Tests that every [`SessionStore`] passes.
//!
//! They use what the trait promises: versions grow, one of several writers wins, records expire, and messages arrive in the
//! order of their sender. Implement [`Store`] in a test program, and name the type:
//!
//! ```text
//! struct Mine { … }
//! impl mcp_std::testing::session_store::Store for Mine { … }
//! mcp_std::session_store_tests!(Mine);
//! ```
//!
//! Some wait until a record has expired, up to 3 s.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Instant;

use crate::session_store::{SessionName, SessionStore, StoredSession, Swap, Watched};

/// A store under test, which is empty at first.
pub trait Store: Sync {
    /// Creates an empty store; `None` if that is impossible on this machine, and the tests check nothing.
    fn create() -> Option<Self>
    where
        Self: Sized;

    /// Opens the store as another process would.
    fn open(&self) -> Arc<dyn SessionStore>;

    /// Replaces the record of a session by bytes that the store did not write. Returns whether that is possible.
    fn damage(&self, session: &SessionName) -> bool;
}

/// Declares a test for each check of [`mcp_std::testing::session_store`](crate::testing::session_store), for the type of a store.
#[macro_export]
macro_rules! session_store_tests {
    ($store:ty) => {
        $crate::session_store_tests! { $store:
            record_is_loaded_as_it_was_stored
            stale_version_is_refused_with_the_stored_record
            one_of_several_writers_wins
            record_expires
            touched_record_expires_later_or_earlier
            removed_record_is_gone_and_its_versions_are_not_used_again
            damaged_record_has_version_0_and_can_be_replaced
            processes_get_different_numbers
            messages_arrive_in_the_order_of_each_sender
            dropped_watch_receives_nothing
        }
    };
    ($store:ty: $($check:ident)*) => {$(
        #[test]
        fn $check() {
            $crate::testing::session_store::$check::<$store>();
        }
    )*};
}

const LONG: Duration = Duration::from_secs(600);
/// Time in which a slow machine does a few calls.
const SHORT: Duration = Duration::from_secs(2);
const DEADLINE: Duration = Duration::from_secs(60);

fn name(number: u8) -> SessionName {
    SessionName([number; 32])
}

/// Stores a record, and returns its version.
#[track_caller]
fn set(
    store: &dyn SessionStore,
    session: u8,
    expected: Option<u64>,
    record: &[u8],
    lifetime: Duration,
) -> u64 {
    match store.compare_and_set(&name(session), expected, record, lifetime).expect("the store works") {
        Swap::Stored(version) => version,
        Swap::Conflict(stored) => panic!("expected {expected:?}, found {stored:?}"),
    }
}

#[track_caller]
fn load(store: &dyn SessionStore, session: u8) -> Option<StoredSession> {
    store.load(&name(session)).expect("the store works")
}

#[track_caller]
fn wait_until_gone(store: &dyn SessionStore, session: u8) {
    let begun = Instant::now();
    while load(store, session).is_some() {
        assert!(begun.elapsed() < DEADLINE, "the record has not expired");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Checks that records of any bytes come back, to other processes, too, and that versions grow.
pub fn record_is_loaded_as_it_was_stored<S: Store>() {
    let Some(shared) = S::create() else { return };
    let (store, other) = (shared.open(), shared.open());
    let every_byte: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let mut expected = None;
    for record in [&b"first"[..], b"", &every_byte, b"last\n"] {
        let version = set(&*store, 1, expected, record, LONG);
        assert!(Some(version) > expected, "version {version} after {expected:?}");
        expected = Some(version);
        let stored = StoredSession { version, record: record.into() };
        assert_eq!(load(&*other, 1), Some(stored));
    }
    assert_eq!(load(&*store, 2), None);
    set(&*other, 2, None, b"second session", LONG);
    assert_eq!(load(&*store, 1).expect("a record").record, b"last\n");
    assert_eq!(load(&*store, 2).expect("a record").record, b"second session");
}

/// Checks that a writer with another version changes nothing, and learns what is stored.
pub fn stale_version_is_refused_with_the_stored_record<S: Store>() {
    let Some(shared) = S::create() else { return };
    let store = shared.open();
    let refused = |session, expected| {
        let swap = store.compare_and_set(&name(session), expected, b"stale", LONG).expect("the store works");
        let Swap::Conflict(found) = swap else { panic!("a stale version was stored") };
        found
    };
    assert_eq!(refused(1, Some(1)), None);
    assert_eq!(load(&*store, 1), None);
    let first = set(&*store, 1, None, b"first", LONG);
    let second = set(&*store, 1, Some(first), b"second", LONG);
    let stored = Some(StoredSession { version: second, record: b"second".to_vec() });
    for expected in [None, Some(0), Some(first), Some(second + 1), Some(u64::MAX)] {
        assert_eq!(refused(1, expected), stored, "{expected:?}");
    }
    assert_eq!(load(&*store, 1), stored);
}

/// Checks that of several processes that expect the same version exactly one stores its record.
pub fn one_of_several_writers_wins<S: Store>() {
    let Some(shared) = S::create() else { return };
    let stores: Vec<_> = (0..4).map(|_| shared.open()).collect();
    let mut expected = None;
    for round in 0..25 {
        let swaps: Vec<(String, Swap)> = thread::scope(|scope| {
            let writers: Vec<_> = stores
                .iter()
                .enumerate()
                .map(|(i, store)| {
                    scope.spawn(move || {
                        let record = format!("round {round}, writer {i}");
                        let swap = store.compare_and_set(&name(1), expected, record.as_bytes(), LONG);
                        (record, swap.expect("the store works"))
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().expect("no panic")).collect()
        });
        let won: Vec<_> = swaps.iter().filter(|(_, swap)| matches!(swap, Swap::Stored(_))).collect();
        let [(record, Swap::Stored(version))] = won[..] else { panic!("{} writers won", won.len()) };
        let stored = StoredSession { version: *version, record: record.as_bytes().into() };
        assert_eq!(load(&*stores[0], 1).as_ref(), Some(&stored));
        for (_, swap) in swaps.iter().filter(|(_, swap)| !matches!(swap, Swap::Stored(_))) {
            assert_eq!(*swap, Swap::Conflict(Some(stored.clone())));
        }
        expected = Some(*version);
    }
}

/// Checks that a record is gone after its lifetime, and others are not.
pub fn record_expires<S: Store>() {
    let Some(shared) = S::create() else { return };
    let (store, other) = (shared.open(), shared.open());
    let stays = set(&*store, 2, None, b"stays", LONG);
    // A lifetime that no clock represents is a long one.
    set(&*store, 3, None, b"stays, too", Duration::MAX);
    let version = set(&*store, 1, None, b"short", Duration::from_millis(50));
    wait_until_gone(&*other, 1);
    assert_eq!(load(&*store, 1), None);
    let swap = store.compare_and_set(&name(1), Some(version), b"late", LONG).expect("the store works");
    assert_eq!(swap, Swap::Conflict(None));
    assert!(set(&*store, 1, None, b"new", LONG) > version);
    // A record that is stored again has its new lifetime.
    set(&*store, 2, Some(stays), b"now it is short", Duration::from_millis(50));
    wait_until_gone(&*store, 2);
    assert!(load(&*store, 1).is_some() && load(&*other, 3).is_some());
}

/// Checks that a touch gives records a new lifetime, creates none, and changes no version.
pub fn touched_record_expires_later_or_earlier<S: Store>() {
    let Some(shared) = S::create() else { return };
    let store = shared.open();
    let version = set(&*store, 1, None, b"record", SHORT);
    set(&*store, 2, None, b"record", LONG);
    store.touch(&[], LONG).expect("the store works");
    shared.open().touch(&[name(3), name(1)], LONG).expect("the store works");
    store.touch(&[name(2)], Duration::from_millis(50)).expect("the store works");
    wait_until_gone(&*store, 2);
    thread::sleep(SHORT + Duration::from_millis(200));
    let stored = StoredSession { version, record: b"record".to_vec() };
    assert_eq!(load(&*store, 1), Some(stored));
    assert_eq!(load(&*store, 3), None);
    // One that has expired does not come back.
    store.touch(&[name(2)], LONG).expect("the store works");
    assert_eq!(load(&*store, 2), None);
}

/// Checks that a removed record is gone, that this may be repeated, and that no version of it returns.
pub fn removed_record_is_gone_and_its_versions_are_not_used_again<S: Store>() {
    let Some(shared) = S::create() else { return };
    let (store, other) = (shared.open(), shared.open());
    let mut last = 0;
    for _ in 0..5 {
        let version = set(&*store, 1, None, b"record", LONG);
        assert!(version > last, "version {version} after {last}");
        last = version;
        other.remove(&name(1)).expect("the store works");
        other.remove(&name(1)).expect("the store works");
        assert_eq!(load(&*store, 1), None);
        let swap = store.compare_and_set(&name(1), Some(last), b"late", LONG).expect("the store works");
        assert_eq!(swap, Swap::Conflict(None));
    }
}

/// Checks that bytes which the store did not write are returned with version 0, and can be replaced.
pub fn damaged_record_has_version_0_and_can_be_replaced<S: Store>() {
    let Some(shared) = S::create() else { return };
    let store = shared.open();
    let before = set(&*store, 1, None, b"record", LONG);
    if !shared.damage(&name(1)) {
        return;
    }
    let damaged = load(&*store, 1).expect("the damaged record");
    assert_eq!(damaged.version, 0);
    assert_ne!(damaged.record, b"record");
    let swap = store.compare_and_set(&name(1), Some(before), b"stale", LONG).expect("the store works");
    assert_eq!(swap, Swap::Conflict(Some(damaged)));
    let version = set(&*store, 1, Some(0), b"new", LONG);
    assert!(version > before, "version {version} after {before}");
    assert_eq!(load(&*store, 1).expect("a record").record, b"new");
}

/// Checks that no number is given twice, neither to one process nor to several at a time.
pub fn processes_get_different_numbers<S: Store>() {
    let Some(shared) = S::create() else { return };
    let stores: Vec<_> = (0..4).map(|_| shared.open()).collect();
    let numbers: Vec<u32> = thread::scope(|scope| {
        let join = |store: &Arc<dyn SessionStore>| (0..10).map(|_| store.join().expect("a number")).collect();
        let joining: Vec<_> =
            stores.iter().map(|store| scope.spawn(move || -> Vec<u32> { join(store) })).collect();
        joining.into_iter().flat_map(|numbers| numbers.join().expect("no panic")).collect()
    });
    let different: BTreeSet<_> = numbers.iter().collect();
    assert_eq!(different.len(), 40, "{numbers:?}");
}

/// A watch that keeps what it receives.
struct Kept {
    received: Arc<Mutex<Vec<Option<Vec<u8>>>>>,
    watch: crate::session_store::Watch,
}

impl Kept {
    #[track_caller]
    fn start(store: &dyn SessionStore) -> Self {
        let received = Arc::new(Mutex::new(Vec::new()));
        let keep = received.clone();
        let receiver = move |watched: Watched<'_>| {
            let message = match watched {
                Watched::Message(message) => Some(message.to_vec()),
                Watched::Gap => None,
            };
            keep.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        };
        let watch = store.watch(Arc::new(receiver)).expect("a watch");
        Self { received, watch }
    }

    fn received(&self) -> Vec<Option<Vec<u8>>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it has received so many.
    #[track_caller]
    fn wait_for(&self, count: usize) -> Vec<Option<Vec<u8>>> {
        let begun = Instant::now();
        loop {
            let received = self.received();
            if received.len() >= count {
                return received;
            }
            assert!(begun.elapsed() < DEADLINE, "{} of {count} messages", received.len());
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Checks that each message reaches each watch once, also those of the same process, without a gap.
pub fn messages_arrive_in_the_order_of_each_sender<S: Store>() {
    const SENDERS: usize = 3;
    const MESSAGES: usize = 100;
    let Some(shared) = S::create() else { return };
    let stores: Vec<_> = (0..SENDERS).map(|_| shared.open()).collect();
    stores[0].publish(b"before the watches").expect("the store works");
    let watches = [Kept::start(&*stores[0]), Kept::start(&*stores[1])];
    thread::scope(|scope| {
        for (sender, store) in stores.iter().enumerate() {
            scope.spawn(move || {
                for number in 0..MESSAGES {
                    // Also empty ones, and one of several reads.
                    let padding = if number == 50 { 200_000 } else { number % 3 };
                    let message = format!("{sender} {number} {}", "x".repeat(padding));
                    store.publish(message.as_bytes()).expect("the store works");
                }
            });
        }
    });
    stores[0].publish(b"").expect("the store works");
    for watch in watches {
        let received = watch.wait_for(SENDERS * MESSAGES + 1);
        assert_eq!(received.len(), SENDERS * MESSAGES + 1);
        assert!(received.contains(&Some(Vec::new())));
        for sender in 0..SENDERS {
            let prefix = format!("{sender} ");
            let numbers = received.iter().flatten().filter_map(|message| {
                let text = core::str::from_utf8(message).expect("text");
                let (number, padding) = text.strip_prefix(&prefix)?.split_once(' ').expect("two fields");
                assert!(padding.bytes().all(|byte| byte == b'x'));
                Some(number.parse::<usize>().expect("a number"))
            });
            assert!(numbers.eq(0..MESSAGES), "the messages of sender {sender}");
        }
    }
}

/// Checks that a watch ends with its value, and others go on.
pub fn dropped_watch_receives_nothing<S: Store>() {
    let Some(shared) = S::create() else { return };
    let store = shared.open();
    let (ended, goes_on) = (Kept::start(&*store), Kept::start(&*store));
    store.publish(b"first").expect("the store works");
    ended.wait_for(1);
    let Kept { received, watch } = ended;
    drop(watch);
    store.publish(b"second").expect("the store works");
    assert_eq!(goes_on.wait_for(2), [Some(b"first".to_vec()), Some(b"second".to_vec())]);
    assert_eq!(*received.lock().unwrap_or_else(PoisonError::into_inner), [Some(b"first".to_vec())]);
    // Its receiver is dropped soon, on whichever thread.
    let begun = Instant::now();
    while Arc::strong_count(&received) > 1 {
        assert!(begun.elapsed() < DEADLINE, "the receiver of a dropped watch is still there");
        thread::sleep(Duration::from_millis(1));
    }
    // A watch that is dropped by its own receiver ends as well.
    let (sent, watches) = mpsc::channel();
    let watches = Mutex::new(watches);
    let receiver = move |_: Watched<'_>| {
        let watch = watches.lock().unwrap_or_else(PoisonError::into_inner).recv();
        drop(watch);
    };
    let own: crate::session_store::Watch = store.watch(Arc::new(receiver)).expect("a watch");
    sent.send(own).expect("a receiver");
    drop(sent);
    store.publish(b"third").expect("the store works");
    assert_eq!(goes_on.wait_for(3).len(), 3);
}
