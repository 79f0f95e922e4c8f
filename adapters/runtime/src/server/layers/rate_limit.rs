//! Limits of calls: their rate, their number, and by which key.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::hash::{BuildHasher, Hasher};
use core::net::IpAddr;
use core::ops::ControlFlow;
use core::time::Duration;
use std::collections::hash_map::RandomState;
use std::sync::{Mutex, PoisonError};
use std::time::Instant as StdInstant;

use mcp_proto::Instant;
use mcp_proto::router::{CallTarget, Subject};

use super::refusal;
use crate::server::cx::Cx;
use crate::server::router::{EntryRequest, HandlerResult, Interceptor};
use crate::token_rate::TokenRate;

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
/// # use mcp_runtime::server::router::{Functions, Local, Router};
/// use std::time::Duration;
/// use mcp_runtime::server::layers::{CallKey, RateLimit};
///
/// let mut router = Router::<Functions<(), Local>>::new("harbour", "1.0");
/// // A hundred calls a minute for each client, and of them at most ten at once.
/// router.layer(RateLimit::new(100, Duration::from_secs(60)).burst(10));
/// // A thousand calls a minute for each entry, resources and prompts included.
/// router.layer(RateLimit::new(1000, Duration::from_secs(60)).all_entries().key(CallKey::NONE.entry()));
/// ```
pub struct RateLimit {
    rate: TokenRate,
    max_keys: usize,
    is_for_all: bool,
    keys: KeyHasher,
    clock: LimitClock,
    table: Mutex<BucketTable>,
    #[cfg(feature = "shared-sessions")]
    shared: Option<super::shared_rate::SharedRate>,
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
pub(super) struct BucketTable {
    pub(super) buckets: KeyTable<u64>,
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
            #[cfg(feature = "shared-sessions")]
            shared: None,
        }
    }

    /// Counts the calls of all processes that share sessions in a [store](crate::server::SharedSessions::join) together, by
    /// [key](Self::key). In each process the limit has the same settings and this name, which no other one of its limits has.
    ///
    /// No call waits for the store. A process tells the others what it has counted at most twenty times a second, in two round
    /// trips for each key that had calls, one key after the other, and learns what they have. So in such a time a process may
    /// allow what its own bucket has; what all have allowed too much is taken from what comes later, up to sixteen buckets.
    /// While the store is down, the limit holds in each process alone, and what was counted is dropped. So is what a process
    /// counts in its last moments, if it ends before the store has it. Clients that [share a bucket](Self::max_keys) in a
    /// process for want of room count there alone.
    ///
    /// The clocks of the machines have to agree: where one is ahead, the others have smaller buckets. When the current one of the
    /// [`SessionKeys`](crate::server::SessionKeys) is replaced, the buckets begin anew, full, and processes with the old one
    /// count apart from those with the new one.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](std::io::ErrorKind::InvalidInput) if the sessions are shared [without a
    /// store](crate::server::SharedSessions::in_ids); the error of the operating system if no thread can be started.
    #[cfg(feature = "shared-sessions")]
    pub fn shared(mut self, sessions: &crate::server::SharedSessions, name: &str) -> std::io::Result<Self> {
        let buckets = sessions.buckets(name)?;
        self.keys.empty = PartHasher::with_secret(buckets.key_secret());
        self.shared = Some(super::shared_rate::SharedRate::start(self.rate, buckets)?);
        Ok(self)
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
    pub(super) fn take(&self, key: u64) -> Result<(), Duration> {
        let now = self.clock.nanos();
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        #[cfg(feature = "shared-sessions")]
        if let Some(shared) = &self.shared {
            let now = super::shared_rate::Now::at(now);
            return shared.take((self.rate, now), (key, self.max_keys), &mut table, |table| {
                self.take_here(table, key, now.here)
            });
        }
        self.take_here(&mut table, key, now)
    }

    fn take_here(&self, table: &mut BucketTable, key: u64, now: u64) -> Result<(), Duration> {
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
            // Not for each new key: clients that invent keys would make each call walk the table.
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

// Limit of the number of calls that run at a time.

/// Limits how many calls run at a time. A call beyond the limit is refused, as by a [`RateLimit`](super::RateLimit), but without
/// a time.
///
/// A place is free again when the inside has ended in any way: with a result or an error, by a panic, or because it was dropped. A
/// call that waits for the answer to a question has no place, and needs one when it is delivered again.
///
/// By default all calls of all kinds of entries count together, and tasks count while they run. On the router of `mcp-blocking` one call runs at a time, so a
/// limit has no effect there.
///
/// ```
/// # use mcp_runtime::server::router::{Functions, Local, Router};
/// use mcp_runtime::server::layers::{CallKey, ConcurrencyLimit};
///
/// let mut router = Router::<Functions<(), Local>>::new("harbour", "1.0");
/// router.layer(ConcurrencyLimit::new(64)).layer(ConcurrencyLimit::new(4).key(CallKey::CLIENT.entry()));
/// ```
#[derive(Debug)]
pub struct ConcurrencyLimit {
    max: u32,
    keys: KeyHasher,
    running: Arc<Mutex<KeyTable<u32>>>,
}

impl ConcurrencyLimit {
    /// Creates a limit of `max` calls at a time; 0 refuses all.
    #[must_use]
    pub fn new(max: u32) -> Self {
        Self { max, keys: KeyHasher::default(), running: Arc::default() }
    }

    /// Sets the parts of calls that are limited on their own; by default [none](CallKey::NONE).
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

    /// Takes a place, if there is one.
    fn enter(&self, key: u64) -> Option<RunningPlace> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // Calls that run have an entry each at most, and the engine limits them.
        let count = running.get(&key).copied().unwrap_or_default();
        if count >= self.max {
            return None;
        }
        running.insert(key, count + 1);
        Some(RunningPlace { key, running: self.running.clone() })
    }
}

/// The place of a running call. Dropping it frees the place.
#[derive(Debug)]
pub struct RunningPlace {
    key: u64,
    running: Arc<Mutex<KeyTable<u32>>>,
}

impl Drop for RunningPlace {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        match running.get_mut(&self.key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => _ = running.remove(&self.key),
        }
    }
}

impl Interceptor for ConcurrencyLimit {
    type State = RunningPlace;

    fn before(
        &self,
        _: &mut Cx<'_>,
        request: &mut EntryRequest<'_>,
    ) -> ControlFlow<HandlerResult, RunningPlace> {
        match self.enter(self.keys.hash(request)) {
            Some(place) => ControlFlow::Continue(place),
            None => {
                let message = format!("too many calls at a time, the limit is {}: try again later", self.max);
                ControlFlow::Break(refusal(request, message, None))
            }
        }
    }
}

// Keys that distinguish the calls of a limit.

/// The parts of a call by which a limit distinguishes: calls with equal parts share a limit.
///
/// A part that a call does not have is equal to that of all other calls without it: a byte stream has no peer address,
/// and a server without authorization has no principals. The run of a task has the principal and the address of the request
/// that created it. A store keeps no addresses, so tasks without a principal that were created before a restart are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallKey {
    /// One bit for each [`KeyPart`].
    parts: u8,
}

/// A part of a call that distinguishes it.
#[derive(Clone, Copy)]
enum KeyPart {
    Client,
    Principal,
    Peer,
    Entry,
}

impl CallKey {
    /// All calls share one limit.
    pub const NONE: Self = Self { parts: 0 };
    /// By principal, and by [peer](Self::peer) for calls without one.
    pub const CLIENT: Self = Self::NONE.with(KeyPart::Client);

    /// Adds the authenticated principal.
    #[must_use]
    pub const fn principal(self) -> Self {
        self.with(KeyPart::Principal)
    }

    /// Adds the address of the peer without its port; of IPv6 the first 64 bits, since the others are free to choose.
    ///
    /// Behind a proxy, it is that of the proxy.
    #[must_use]
    pub const fn peer(self) -> Self {
        self.with(KeyPart::Peer)
    }

    /// Adds the entry: its kind and its registered name. All resources of a template are one entry.
    #[must_use]
    pub const fn entry(self) -> Self {
        self.with(KeyPart::Entry)
    }

    const fn with(self, part: KeyPart) -> Self {
        Self { parts: self.parts | 1 << part as u8 }
    }

    const fn has(self, part: KeyPart) -> bool {
        self.parts & 1 << part as u8 != 0
    }
}

/// Function of the application that returns a further part of the key.
pub(super) type KeyFunction = Box<dyn Fn(&EntryRequest<'_>) -> Option<String> + Send + Sync>;

/// Hashes keys with a secret, so that clients cannot choose equal ones.
pub(super) struct KeyHasher {
    empty: PartHasher,
    pub(super) key: CallKey,
    pub(super) function: Option<KeyFunction>,
}

impl Default for KeyHasher {
    fn default() -> Self {
        Self { empty: PartHasher::new(), key: CallKey::default(), function: None }
    }
}

impl KeyHasher {
    pub(super) fn new(key: CallKey) -> Self {
        Self { key, ..Self::default() }
    }

    pub(super) fn hash(&self, request: &EntryRequest<'_>) -> u64 {
        let mut hasher = self.empty;
        let call = request.call();
        let principal = call.authorization().map(|party| party.principal());
        let peer = || call.caller().peer_ip().map(network);
        if self.key.has(KeyPart::Client) {
            match principal {
                Some(_) => hasher.add_text(principal),
                None => hasher.add_network(peer()),
            }
        }
        if self.key.has(KeyPart::Principal) {
            hasher.add_text(principal);
        }
        if self.key.has(KeyPart::Peer) {
            hasher.add_network(peer());
        }
        if self.key.has(KeyPart::Entry) {
            let (kind, name) = entry(request.subject());
            // The length is part of the hash, so that no byte can move from one part to the next.
            hasher.add(kind << 56 | name.len() as u64);
            hasher.add_bytes(name.as_bytes());
        }
        if let Some(function) = &self.function {
            hasher.add_text(function(request).as_deref());
        }
        hasher.state
    }
}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyHasher").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Hashes the parts of a key by folded multiplications: the halves of the product of state and multiplier are the next state.
///
/// Both are secrets of a limit, drawn at random, and no hash leaves the limit, so clients cannot find parts with equal hashes.
/// `SipHash`, which costs more, has to withstand those who see hashes. No part is a prefix of another: each begins with its length.
#[derive(Clone, Copy)]
struct PartHasher {
    state: u64,
    multiplier: u64,
}

impl PartHasher {
    /// Creates the hasher of all processes that know a secret.
    #[cfg(feature = "shared-sessions")]
    fn with_secret([state, multiplier]: [u64; 2]) -> Self {
        Self { state, multiplier: multiplier | 1 }
    }

    fn new() -> Self {
        let random = RandomState::new();
        // Odd, so that no bit of the state is lost.
        Self { state: random.hash_one(0), multiplier: random.hash_one(1) | 1 }
    }

    #[inline]
    fn add(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.multiplier);
        self.state = (product as u64) ^ ((product >> 64) as u64);
    }

    #[inline]
    fn add_text(&mut self, text: Option<&str>) {
        let Some(text) = text else { return self.add(u64::MAX) };
        self.add(text.len() as u64);
        self.add_bytes(text.as_bytes());
    }

    #[inline]
    fn add_bytes(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in words.by_ref() {
            self.add(u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
        let rest = words.remainder();
        if let (Some(first), Some(last)) = (rest.first_chunk(), rest.last_chunk()) {
            // They overlap, and with the length they determine the rest.
            self.add(u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last)));
        } else if !rest.is_empty() {
            self.add(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }

    #[inline]
    fn add_network(&mut self, network: Option<u128>) {
        let Some(network) = network else { return self.add(u64::MAX) };
        // Neither the length of a text nor the mark of an absent part.
        self.add(u64::MAX - 1);
        self.add(network as u64);
        self.add((network >> 64) as u64);
    }
}

/// Returns the part of an address that its owner cannot choose.
fn network(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() | u128::from(u64::MAX),
    }
}

/// Returns a number for the kind of an entry, and its name.
fn entry(subject: Subject<'_>) -> (u64, &str) {
    match subject {
        Subject::Tool(name) => (0, name),
        Subject::Resource(uri) => (1, uri),
        Subject::ResourceTemplate(template) => (2, template),
        Subject::Prompt(name) => (3, name),
        Subject::Completion(name) => (4, name),
        _ => (5, ""),
    }
}

/// Hasher of keys that are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HashedKey(u64);

impl Hasher for HashedKey {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A table by the hashes of keys.
pub(super) type KeyTable<V> = std::collections::HashMap<u64, V, core::hash::BuildHasherDefault<HashedKey>>;

#[cfg(test)]
mod call_key_tests {
    use alloc::format;
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn parts_with_other_texts_or_other_borders_have_other_hashes() {
        let empty = PartHasher::new();
        let hash = |parts: &[Option<&str>]| {
            let mut hasher = empty;
            parts.iter().for_each(|part| hasher.add_text(*part));
            hasher.state
        };
        assert_eq!(hash(&[Some("alice"), None]), hash(&[Some("alice"), None]));
        let keys: [&[Option<&str>]; 10] = [
            &[Some("alice"), None],
            &[Some("alice"), Some("")],
            &[Some("alic"), Some("e")],
            &[None, Some("alice")],
            &[Some("alicealice")],
            &[Some("alice"), Some("alice")],
            &[Some("alice\0")],
            &[Some("\0alice")],
            &[Some("alicealicealice!")],
            &[Some("alicealicealice!\0")],
        ];
        assert_eq!(keys.iter().map(|parts| hash(parts)).collect::<HashSet<_>>().len(), keys.len());
        let other = PartHasher::new();
        assert_ne!(
            (empty.state, empty.multiplier),
            (other.state, other.multiplier),
            "each limit has its own secret"
        );
    }

    #[test]
    fn hashes_of_similar_texts_are_spread_over_the_table() {
        // The table looks at the lowest and at the highest bits.
        let empty = PartHasher::new();
        for shift in [0, 54] {
            let mut counts = [0_u32; 1024];
            for n in 0..10_240_u64 {
                let mut hasher = empty;
                hasher.add_text(Some(&format!("tenant/user-{n}")));
                let slot = (hasher.state >> shift) & 1023;
                counts[usize::try_from(slot).expect("ten bits")] += 1;
            }
            assert!(counts.iter().all(|count| *count < 40), "{shift}: {:?}", counts.iter().max());
        }
    }

    #[test]
    fn address_of_ipv6_counts_by_its_network() {
        let network = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
        assert_eq!(network("192.0.2.1"), network("::ffff:192.0.2.1"));
    }
}

#[cfg(test)]
mod concurrency_limit_tests {
    use super::*;

    #[test]
    fn place_is_free_again_when_it_is_dropped_and_leaves_nothing() {
        let limit = ConcurrencyLimit::new(2);
        let places = [limit.enter(1), limit.enter(1)];
        assert!(places.iter().all(Option::is_some) && limit.enter(1).is_none());
        let other = limit.enter(2);
        assert!(other.is_some());
        let [first, second] = places;
        drop(first);
        let third = limit.enter(1);
        assert!(third.is_some() && limit.enter(1).is_none());
        drop((second, third, other));
        assert!(limit.running.lock().unwrap().is_empty());
        assert!(ConcurrencyLimit::new(0).enter(1).is_none());
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
