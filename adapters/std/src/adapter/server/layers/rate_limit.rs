//! Limit of the rate of calls.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt;
use core::ops::ControlFlow;
use core::time::Duration;
use std::sync::{Mutex, PoisonError};
use std::time::Instant as StdInstant;

use mcp_proto::Instant;
use mcp_proto::router::CallTarget;

use super::call_key::{CallKey, KeyHasher, KeyTable};
use super::refusal;
use crate::adapter::server::cx::Cx;
use crate::adapter::server::router::{EntryRequest, HandlerResult, Interceptor};
use crate::adapter::sync::TokenRate;

/// Limits the rate of calls by token buckets (TOOL-032, COMP-010).
///
/// A bucket holds `calls` tokens and gets `calls` in each `period`, evenly. A call takes one, and is refused without one: a
/// tool fails with a text that says when to try again, other calls with the error
/// [`TOO_MANY_REQUESTS`](super::TOO_MANY_REQUESTS). `retryAfterMs`, in `_meta` of the result or in `data` of the error, is that
/// time for programs.
///
/// By default tools and completions are limited, [per client](CallKey::CLIENT), for 10,000 clients. If there are more, full
/// buckets are dropped, since they say nothing; when none is full, all further clients share one bucket until some are. The table is
/// cleaned at most ten times in a second.
///
/// A call counts each time that its handler would run: again when the answer to a question arrives, and for a task when it runs.
/// Calls that the router answers itself (lists, wrong arguments) do not count.
///
/// ```
/// # use mcp_std::adapter::server::router::{Functions, Router};
/// use std::time::Duration;
/// use mcp_std::adapter::server::layers::{CallKey, RateLimit};
///
/// let mut router = Router::<Functions<()>>::new("harbour", "1.0");
/// // A hundred calls a minute for each client, and of them at most ten at once.
/// router.intercept(RateLimit::new(100, Duration::from_secs(60)).burst(10));
/// // A thousand calls a minute for each entry, resources and prompts included.
/// router.intercept(RateLimit::new(1000, Duration::from_secs(60)).all_entries().key(CallKey::NONE.entry()));
/// ```
pub struct RateLimit {
    rate: TokenRate,
    max_keys: usize,
    is_for_all: bool,
    keys: KeyHasher,
    clock: LimitClock,
    table: Mutex<BucketTable>,
}

/// The clock of a limit.
enum LimitClock {
    /// The time since this instant.
    System(StdInstant),
    Other(Box<dyn Fn() -> Instant + Send + Sync>),
}

impl LimitClock {
    /// Returns the time since the epoch in nanoseconds.
    fn nanos(&self) -> u64 {
        match self {
            // 2^64 ns are 584 years.
            Self::System(epoch) => u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX),
            Self::Other(now) => now().as_micros().saturating_mul(1000),
        }
    }
}

/// The buckets that are not full.
#[derive(Debug, Default)]
struct BucketTable {
    buckets: KeyTable<u64>,
    /// Bucket of all keys for which the table has no room.
    shared: u64,
    next_cleaning: u64,
}

/// Interval between two cleanings of the table, in nanoseconds.
const CLEANING_INTERVAL: u64 = 100_000_000;

impl RateLimit {
    /// Creates a limit of `calls` in each `period`; 0 counts as 1.
    #[must_use]
    pub fn new(calls: u32, period: Duration) -> Self {
        Self {
            rate: TokenRate::new(calls, period, calls),
            max_keys: 10_000,
            is_for_all: false,
            keys: KeyHasher::new(CallKey::CLIENT),
            clock: LimitClock::System(StdInstant::now()),
            table: Mutex::default(),
        }
    }

    /// Sets the size of a bucket, the number of calls at once. 0 counts as 1; by default it is `calls`.
    #[must_use]
    pub fn burst(mut self, calls: u32) -> Self {
        self.rate = self.rate.with_size(calls);
        self
    }

    /// Sets the parts of calls that have buckets of their own.
    #[must_use]
    pub fn key(mut self, key: CallKey) -> Self {
        self.keys.key = key;
        self
    }

    /// Adds a part of the application to the key, for example a tenant.
    #[must_use]
    pub fn key_by(
        mut self,
        key: impl Fn(&EntryRequest<'_>) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.keys.function = Some(Box::new(key));
        self
    }

    /// Sets the maximum number of buckets, 24 bytes each; 10,000 by default.
    #[must_use]
    pub fn max_keys(mut self, keys: usize) -> Self {
        self.max_keys = keys;
        self
    }

    /// Limits resources and prompts, too.
    #[must_use]
    pub fn all_entries(mut self) -> Self {
        self.is_for_all = true;
        self
    }

    /// Sets the clock, for example that of a test. By default it is the monotonic clock of the system.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        self.clock = LimitClock::Other(Box::new(now));
        self
    }

    /// Takes a token; returns the time until there is one, if there is none.
    fn take(&self, key: u64) -> Result<(), Duration> {
        let now = self.clock.nanos();
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        // One look-up for a key that has a bucket.
        if let Some(bucket) = table.buckets.get_mut(&key) {
            return self.rate.take(bucket, now);
        }
        self.rate.take(table.new_bucket(key, now, self.max_keys), now)
    }
}

impl BucketTable {
    /// Returns the bucket of a key that has none in the table.
    #[cold]
    fn new_bucket(&mut self, key: u64, now: u64, max_keys: usize) -> &mut u64 {
        let Self { buckets, shared, next_cleaning } = self;
        if buckets.len() >= max_keys {
            if now >= *next_cleaning {
                *next_cleaning = now.saturating_add(CLEANING_INTERVAL);
                buckets.retain(|_, full_at| *full_at > now);
            }
            if buckets.len() >= max_keys {
                return shared;
            }
        }
        buckets.entry(key).or_default()
    }
}

impl Interceptor for RateLimit {
    type State = ();

    fn before(&self, _: &mut Cx<'_>, request: &mut EntryRequest<'_>) -> ControlFlow<HandlerResult> {
        if !self.is_for_all && !matches!(request.target(), CallTarget::Tool(_) | CallTarget::Completion(_)) {
            return ControlFlow::Continue(());
        }
        match self.take(self.keys.hash(request)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(after) => {
                let seconds = after.as_secs_f64();
                let message = format!("too many calls: try again in {seconds:.1} s");
                ControlFlow::Break(refusal(request, message, Some(after)))
            }
        }
    }
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("rate", &self.rate)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use core::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Returns a limit, and the milliseconds of its clock.
    fn limit(calls: u32, period: Duration) -> (RateLimit, Arc<AtomicU64>) {
        let millis = Arc::new(AtomicU64::new(0));
        let clock = millis.clone();
        let now = move || Instant::from_micros(clock.load(Ordering::Relaxed) * 1000);
        (RateLimit::new(calls, period).clock(now), millis)
    }

    // covers: TOOL-032, COMP-010
    #[test]
    fn bucket_gives_burst_then_one_token_per_interval() {
        let (limit, millis) = limit(4, Duration::from_secs(2));
        assert_eq!([1; 4].map(|key| limit.take(key)), [Ok(()); 4]);
        assert_eq!(limit.take(1), Err(Duration::from_millis(500)));
        assert_eq!(limit.take(2), Ok(()), "another key has another bucket");
        millis.store(499, Ordering::Relaxed);
        assert_eq!(limit.take(1), Err(Duration::from_millis(1)));
        millis.store(500, Ordering::Relaxed);
        assert_eq!(limit.take(1), Ok(()));
        assert_eq!(limit.take(1), Err(Duration::from_millis(500)), "a refused call takes no token");
        // A bucket never holds more than the burst.
        millis.store(1_000_000, Ordering::Relaxed);
        assert_eq!([1; 4].map(|key| limit.take(key)), [Ok(()); 4]);
        assert!(limit.take(1).is_err());
    }

    #[test]
    fn burst_below_the_rate_spreads_calls() {
        let (limit, millis) = limit(10, Duration::from_secs(1));
        let limit = limit.burst(0);
        let mut passed = 0;
        for now in 0..1000 {
            millis.store(now, Ordering::Relaxed);
            passed += u32::from(limit.take(7).is_ok());
        }
        assert_eq!(passed, 10);
    }

    #[test]
    fn keys_beyond_the_table_share_a_bucket_until_others_are_full() {
        let (limit, millis) = limit(2, Duration::from_secs(1));
        let limit = limit.max_keys(3);
        for key in 0..3 {
            assert_eq!(limit.take(key), Ok(()));
        }
        assert_eq!([limit.take(3), limit.take(4)], [Ok(()); 2]);
        assert!(limit.take(5).is_err(), "the further clients together have used two tokens");
        assert_eq!(limit.take(0), Ok(()), "the first ones keep theirs");
        assert!(limit.take(0).is_err());
        // The buckets of 1 and 2 are full again, that of 0 is not.
        millis.store(700, Ordering::Relaxed);
        assert_eq!([limit.take(5), limit.take(5)], [Ok(()); 2]);
        let table = limit.table.lock().unwrap();
        assert!(table.buckets.contains_key(&0) && !table.buckets.contains_key(&1));
        assert_eq!(table.buckets.len(), 2);
    }

    #[test]
    fn extreme_settings_neither_overflow_nor_divide_by_zero() {
        for (calls, period) in [(0, Duration::MAX), (u32::MAX, Duration::MAX), (u32::MAX, Duration::ZERO)] {
            let (limit, millis) = limit(calls, period);
            assert_eq!(limit.take(0), Ok(()));
            millis.store(u64::MAX / 1000, Ordering::Relaxed);
            let _ = limit.take(0);
        }
        let (limit, _) = limit(1, Duration::from_secs(1));
        let limit = limit.max_keys(0);
        assert_eq!(limit.take(0), Ok(()));
        assert!(limit.take(1).is_err(), "without room all share one bucket");
    }
}
