//! Rates of calls that several processes count together, in the store of their sessions.
//!
//! No call waits for the store. A thread adds what was counted here to the bucket in the store, and the next call takes over what
//! that says of the other processes.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{io, thread};

use super::rate_limit::BucketTable;
use crate::server::shared_sessions::SharedBuckets;
use crate::token_rate::TokenRate;

/// Time between two rounds of the thread.
const INTERVAL: Duration = Duration::from_millis(50);
/// The same after the store has failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The calls of a limit that the other processes do not know, and what they have counted.
pub(super) struct SharedRate(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The rate that the limit had last.
    rate: TokenRate,
    /// Number of calls that are not in the store, and are in none of `news`, by key.
    uncounted: BTreeMap<u64, u32>,
    /// The buckets in the store, by key: the time at which each is full, in nanoseconds since 1970.
    news: Vec<(u64, u64)>,
    has_ended: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedRate {
    /// Starts the thread.
    pub(super) fn start(rate: TokenRate, buckets: SharedBuckets) -> io::Result<Self> {
        let state = State { rate, uncounted: BTreeMap::new(), news: Vec::new(), has_ended: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let run = shared.clone();
        thread::Builder::new().name("mcp-rate-limit".into()).spawn(move || count(&run, &buckets))?;
        Ok(Self(shared))
    }

    /// Takes a token of the bucket of a key by `take`, after what the other processes have counted was taken over.
    pub(super) fn take(
        &self,
        (rate, now): (TokenRate, u64),
        (key, max_keys): (u64, usize),
        table: &mut BucketTable,
        take: impl FnOnce(&mut BucketTable) -> Result<(), Duration>,
    ) -> Result<(), Duration> {
        let mut state = self.0.lock();
        state.rate = rate;
        if !state.news.is_empty() {
            let wall = nanos_since_1970();
            for (key, full_at) in core::mem::take(&mut state.news) {
                let left = full_at.saturating_sub(wall);
                let here =
                    rate.filled(now.saturating_add(left), now, *state.uncounted.get(&key).unwrap_or(&0));
                if let Some(bucket) = table.buckets.get_mut(&key) {
                    *bucket = here.max(*bucket);
                }
            }
        }
        take(table)?;
        // Beyond the number of keys it counts here alone, and so do all further clients.
        if state.uncounted.len() < max_keys {
            let count = state.uncounted.entry(key).or_default();
            *count = count.saturating_add(1);
            drop(state);
            self.0.changed.notify_one();
        }
        Ok(())
    }
}

impl Drop for SharedRate {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.changed.notify_one();
    }
}

/// Adds to the store what was counted, until the end of the limit.
fn count(shared: &Shared, buckets: &SharedBuckets) {
    loop {
        let mut state = shared.lock();
        while state.uncounted.is_empty() && !state.has_ended {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.has_ended {
            return;
        }
        let (counted, rate) = (core::mem::take(&mut state.uncounted), state.rate);
        drop(state);
        let mut pause = INTERVAL;
        for (key, count) in counted {
            let lifetime = rate.filling();
            let add = |full_at: u64| rate.filled(full_at, nanos_since_1970(), count);
            match buckets.change(key, lifetime, add) {
                Ok(full_at) => shared.lock().news.push((key, full_at)),
                // The limit of this process holds meanwhile. What was counted may be old when the store is back, so it is dropped.
                Err(_) => {
                    pause = RETRY_AFTER;
                    break;
                }
            }
        }
        thread::sleep(pause);
    }
}

fn nanos_since_1970() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use mcp_std::session_store::MemorySessionStore;

    use super::super::RateLimit;
    use crate::server::{SessionKeys, SharedSessions};
    use core::time::Duration;
    use std::thread;

    const HOUR: Duration = Duration::from_secs(3600);

    fn limit(store: &MemorySessionStore, calls: u32) -> RateLimit {
        let sessions = SharedSessions::join(store.clone(), &SessionKeys::new([7; 32])).unwrap();
        RateLimit::new(calls, HOUR).shared(&sessions, "calls").unwrap()
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
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    }
}
