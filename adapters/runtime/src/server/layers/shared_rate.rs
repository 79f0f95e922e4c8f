//! Rates of calls that several processes count together, in the store of their sessions.
//!
//! No call waits for the store. A thread adds what was counted here to the bucket in the store, and the next call takes over what
//! that says of the other processes.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Condvar, Mutex, PoisonError};

use mcp_std::sync::lock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use std::{io, thread};

use mcp_std::session_store::SessionStoreError;

use super::rate_limit::BucketTable;
use crate::server::shared_sessions::SharedBuckets;
use crate::token_rate::TokenRate;

/// Time between two rounds of the thread.
const INTERVAL: Duration = Duration::from_millis(50);
/// The same after the store has failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Longest time for what was counted before the end of the limit.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// The calls of a limit that the other processes do not know, and what they have counted.
pub(super) struct SharedRate(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The rate that the limit had last.
    rate: TokenRate,
    /// The calls that are not in the store, and are in none of `news`, by key.
    uncounted: BTreeMap<u64, Counted>,
    /// The buckets in the store, by key: the time at which each is full, in nanoseconds since 1970.
    news: Vec<(u64, u64)>,
    /// The time at which the thread gives up, after the end of the limit.
    end: Option<Instant>,
}

/// Calls of a key.
#[derive(Clone, Copy)]
struct Counted {
    calls: u32,
    /// The time of the first one.
    since: Now,
}

/// A time by two clocks, in nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct Now {
    /// By the clock of the limit.
    pub(super) here: u64,
    /// Since 1970, as in the store.
    wall: u64,
}

impl Now {
    /// Returns the time, which is `here` by the clock of the limit.
    pub(super) fn at(here: u64) -> Self {
        Self { here, wall: nanos_since_1970() }
    }
}

impl SharedRate {
    /// Starts the thread.
    pub(super) fn start(rate: TokenRate, buckets: SharedBuckets) -> io::Result<Self> {
        let limit = Self::new(rate);
        let shared = limit.0.clone();
        thread::Builder::new().name("mcp-rate-limit".into()).spawn(move || count(&shared, &buckets))?;
        Ok(limit)
    }

    fn new(rate: TokenRate) -> Self {
        let state = State { rate, uncounted: BTreeMap::new(), news: Vec::new(), end: None };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// Takes a token of the bucket of a key by `take`, after what the other processes have counted was taken over.
    pub(super) fn take(
        &self,
        (rate, now): (TokenRate, Now),
        (key, max_keys): (u64, usize),
        table: &mut BucketTable,
        take: impl FnOnce(&mut BucketTable) -> Result<(), Duration>,
    ) -> Result<(), Duration> {
        let mut state = lock(&self.0.state);
        state.rate = rate;
        for (key, full_at) in core::mem::take(&mut state.news) {
            if let Some(bucket) = table.buckets.get_mut(&key) {
                // It may have been full for some time.
                let full_at = now.here.saturating_add(full_at).saturating_sub(now.wall);
                let Counted { calls, since } =
                    state.uncounted.get(&key).copied().unwrap_or(Counted { calls: 0, since: now });
                *bucket = rate.charged(full_at, (since.here, now.here), calls).max(*bucket);
            }
        }
        take(table)?;
        // Clients for which the table has no room share a bucket, which counts here alone. The store may be slower than the
        // table, from which full buckets are dropped.
        if table.buckets.contains_key(&key) && state.uncounted.len() < max_keys {
            let is_first = state.uncounted.is_empty();
            let counted = state.uncounted.entry(key).or_insert(Counted { calls: 0, since: now });
            counted.calls = counted.calls.saturating_add(1);
            drop(state);
            if is_first {
                self.0.changed.notify_one();
            }
        }
        Ok(())
    }
}

impl Drop for SharedRate {
    fn drop(&mut self) {
        lock(&self.0.state).end = Some(Instant::now() + FINISH_TIMEOUT);
        self.0.changed.notify_one();
    }
}

/// Adds to the store what was counted, until the end of the limit. Nobody waits for the last round.
fn count(shared: &Shared, buckets: &SharedBuckets) {
    loop {
        let mut state = lock(&shared.state);
        while state.uncounted.is_empty() && state.end.is_none() {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.uncounted.is_empty() {
            return;
        }
        drop(state);
        let pause =
            if count_once(shared, buckets, nanos_since_1970).is_ok() { INTERVAL } else { RETRY_AFTER };
        let state = lock(&shared.state);
        drop(shared.changed.wait_timeout_while(state, pause, |state| state.end.is_none()));
    }
}

/// Adds to the store what was counted, key by key, with the clock of the store. An error is one of the store itself: the limit
/// of this process holds meanwhile. What was counted may be old when the store is back, so it is dropped.
fn count_once(shared: &Shared, buckets: &SharedBuckets, wall: impl Fn() -> u64) -> Result<(), ()> {
    let mut state = lock(&shared.state);
    let (counted, rate) = (core::mem::take(&mut state.uncounted), state.rate);
    drop(state);
    for (key, Counted { calls, since }) in counted {
        if lock(&shared.state).end.is_some_and(|end| Instant::now() >= end) {
            return Ok(());
        }
        let add = |full_at: u64| {
            let now = wall();
            let full_at = rate.charged(full_at, (since.wall, now), calls);
            (full_at, Duration::from_nanos(full_at.saturating_sub(now)))
        };
        // A panic would end the thread, and with it the limit of all processes.
        match catch_unwind(AssertUnwindSafe(|| buckets.change(key, add))) {
            Ok(Ok(Some(full_at))) => lock(&shared.state).news.push((key, full_at)),
            // This key has no luck; the others may.
            Ok(Ok(None) | Err(SessionStoreError::Full)) => {}
            Ok(Err(_)) | Err(_) => return Err(()),
        }
    }
    Ok(())
}

fn nanos_since_1970() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use mcp_std::session_store::MemorySessionStore;

    use super::super::RateLimit;
    use super::*;
    use crate::server::{SessionKeys, SharedSessions};

    const HOUR: Duration = Duration::from_secs(3600);

    fn limit(store: &MemorySessionStore, calls: u32) -> RateLimit {
        let sessions = SharedSessions::join(store.clone(), &SessionKeys::new([7; 32])).unwrap();
        RateLimit::new(calls, HOUR).shared(&sessions, "calls").unwrap()
    }

    /// A limit of one process whose clock is that of the test, and which counts when the test says so.
    struct Process {
        rate: TokenRate,
        limit: SharedRate,
        buckets: SharedBuckets,
        table: BucketTable,
    }

    impl Process {
        fn new(store: &MemorySessionStore, rate: TokenRate) -> Self {
            let sessions = SharedSessions::join(store.clone(), &SessionKeys::new([7; 32])).unwrap();
            let buckets = sessions.buckets("calls").unwrap();
            Self { rate, limit: SharedRate::new(rate), buckets, table: BucketTable::default() }
        }

        /// Takes a token of a key `millis` after the start.
        fn take(&mut self, key: u64, millis: u64) -> Result<(), Duration> {
            let now = Now { here: millis * 1_000_000, wall: wall(millis) };
            self.limit.take((self.rate, now), (key, 100), &mut self.table, |table| {
                self.rate.take(table.buckets.entry(key).or_default(), now.here)
            })
        }

        fn count(&self, millis: u64) -> Result<(), ()> {
            count_once(&self.limit.0, &self.buckets, || wall(millis))
        }

        /// Returns the number of calls for which the store knows the bucket of a key to be not full.
        fn stored(&self, key: u64, millis: u64) -> u64 {
            let full_at = self.buckets.change(key, |full_at| (full_at, HOUR)).unwrap().unwrap();
            full_at.saturating_sub(wall(millis)) / 1_000_000
        }
    }

    /// Returns the time in the store.
    fn wall(millis: u64) -> u64 {
        (1_800_000_000_000 + millis) * 1_000_000
    }

    // covers: TOOL-032
    #[test]
    fn client_that_bursts_at_several_processes_has_one_rate() {
        let store = MemorySessionStore::new();
        let rate = TokenRate::new(20, Duration::from_secs(60), 20);
        let mut processes = [(); 4].map(|()| Process::new(&store, rate));
        let mut taken = 0;
        for minute in 0..20 {
            let millis = minute * 60_000;
            for process in &mut processes {
                taken += (0..40).filter(|_| process.take(1, millis).is_ok()).count();
            }
            for process in &processes {
                process.count(millis).unwrap();
            }
        }
        // Each process may have allowed a bucket before it heard of the others.
        assert!((400..=480).contains(&taken), "{taken}");
    }

    // covers: TOOL-032
    #[test]
    fn calls_at_the_rate_pass_with_a_bucket_that_is_smaller_than_a_round() {
        let mut process =
            Process::new(&MemorySessionStore::new(), TokenRate::new(1000, Duration::from_secs(1), 5));
        let mut late = Vec::new();
        for millis in 0..2000 {
            // What the store has said arrives while there are further calls.
            if millis % 50 == 20 {
                lock(&process.limit.0.state).news.append(&mut late);
            }
            assert_eq!(process.take(1, millis), Ok(()), "{millis}");
            if millis % 50 == 49 {
                process.count(millis).unwrap();
                late.append(&mut lock(&process.limit.0.state).news);
            }
        }
    }

    #[test]
    fn key_that_the_store_has_no_room_for_leaves_the_others_counted() {
        let store = MemorySessionStore::with_bounds(1, 1 << 20);
        let mut process = Process::new(&store, TokenRate::new(1000, Duration::from_secs(1), 1000));
        process.take(5, 0).unwrap();
        process.count(0).unwrap();
        assert_eq!(process.stored(5, 0), 1);
        for key in [3, 5, 5] {
            process.take(key, 0).unwrap();
        }
        assert_eq!(process.count(0), Ok(()), "the store works");
        assert_eq!(process.stored(5, 0), 3);
    }

    #[test]
    fn calls_before_the_end_of_a_limit_reach_the_store_and_the_thread_ends() {
        let store = MemorySessionStore::new();
        let process = Process::new(&store, TokenRate::new(1000, HOUR, 1000));
        let now = Now::at(0);
        let mut state = lock(&process.limit.0.state);
        state.uncounted.insert(1, Counted { calls: 3, since: now });
        state.end = Some(Instant::now() + HOUR);
        drop(state);
        count(&process.limit.0, &process.buckets);
        let full_at = process.buckets.change(1, |full_at| (full_at, HOUR)).unwrap();
        assert_eq!(full_at, Some(now.wall + 3 * 3_600_000_000));
        // Nothing is written after the time for it.
        let mut state = lock(&process.limit.0.state);
        state.uncounted.insert(1, Counted { calls: 3, since: now });
        state.end = Some(Instant::now());
        drop(state);
        count(&process.limit.0, &process.buckets);
        assert_eq!(process.buckets.change(1, |full_at| (full_at, HOUR)).unwrap(), full_at);
    }

    #[test]
    fn clients_that_share_a_bucket_for_want_of_room_are_not_in_the_store() {
        let mut process = Process::new(&MemorySessionStore::new(), TokenRate::new(10, HOUR, 10));
        let now = (process.rate, Now::at(0));
        process.limit.take(now, (1, 100), &mut process.table, |_| Ok(())).unwrap();
        assert!(lock(&process.limit.0.state).uncounted.is_empty());
    }

    #[test]
    fn panic_of_the_store_is_an_error_of_it() {
        let mut process = Process::new(&MemorySessionStore::new(), TokenRate::new(10, HOUR, 10));
        process.take(1, 0).unwrap();
        assert_eq!(count_once(&process.limit.0, &process.buckets, || panic!("a store with a bug")), Err(()));
        process.take(1, 0).unwrap();
        assert_eq!(process.count(0), Ok(()));
    }

    /// Takes tokens with pauses, until there is none. Returns how many there were.
    fn take_all(limit: &RateLimit, key: u64) -> u32 {
        let begun = Instant::now();
        let mut taken = 0;
        while limit.take(key).is_ok() {
            taken += 1;
            assert!(taken < 1000 && begun.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(150));
        }
        taken
    }

    // covers: TOOL-032
    #[test]
    fn calls_of_all_processes_count_together_for_each_key() {
        let store = MemorySessionStore::new();
        let [a, b] = [(); 2].map(|()| limit(&store, 20));
        assert_eq!((0..20).filter(|_| a.take(1).is_ok()).count(), 20);
        assert!(a.take(1).is_err());
        // The other process learns of it by its own first calls, and then allows no more.
        thread::sleep(Duration::from_millis(200));
        let taken = take_all(&b, 1);
        assert!((1..=4).contains(&taken), "{taken}");
        // Another client has a bucket of its own, of which each process gets a part.
        let mut shared = [0, 0];
        let begun = Instant::now();
        while [&a, &b].into_iter().zip(&mut shared).any(|(limit, taken)| {
            let is_taken = limit.take(2).is_ok();
            *taken += u32::from(is_taken);
            thread::sleep(Duration::from_millis(100));
            is_taken
        }) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{shared:?}");
        }
        assert!((20..=24).contains(&(shared[0] + shared[1])), "{shared:?}");
    }

    // covers: TOOL-032
    #[test]
    fn limit_of_a_process_holds_while_the_store_takes_nothing() {
        // A store that takes no records.
        let store = MemorySessionStore::with_bounds(0, 1 << 20);
        let alone = limit(&store, 5);
        assert_eq!((0..100).filter(|_| alone.take(1).is_ok()).count(), 5);
        thread::sleep(Duration::from_millis(200));
        assert!(alone.take(1).is_err() && alone.take(2).is_ok());
        // Without a store nothing can be counted together.
        let in_ids = SharedSessions::in_ids(&SessionKeys::new([7; 32]), HOUR);
        let refused = RateLimit::new(5, HOUR).shared(&in_ids, "calls").unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
