//! A cache of results for several clients

use alloc::sync::Arc;
use core::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_proto::Change;
use mcp_proto::client::{Asker, Cache, Kind, Question, Ticket};
use mcp_proto::{Instant, RawJson};

use crate::Clock;

/// A [`Cache`] with a clock of its own, for one client or several, on any threads
///
/// Cloning shares it.
#[derive(Clone)]
pub struct SharedCache(Arc<Shared>);

struct Shared {
    /// Clients count time from epochs of their own
    clock: Clock,
    cache: Mutex<Cache>,
}

impl Default for SharedCache {
    fn default() -> Self {
        Self::new(Cache::new())
    }
}

impl SharedCache {
    /// Shares an empty cache
    #[must_use]
    pub fn new(cache: Cache) -> Self {
        Self(Arc::new(Shared { clock: Clock::start(), cache: Mutex::new(cache) }))
    }

    /// As [`Cache::get`], now
    #[must_use]
    pub fn get(&self, asker: &Asker, question: &Question) -> Option<RawJson> {
        let (mut cache, now) = self.lock();
        cache.get(now, asker, question)
    }

    /// As [`Cache::ticket`]
    #[must_use]
    pub fn ticket(&self, asker: &Asker, question: Question) -> Ticket {
        self.lock().0.ticket(asker, question)
    }

    /// As [`Cache::put`], now
    pub fn put(&self, ticket: Ticket, result: &RawJson) {
        let (mut cache, now) = self.lock();
        cache.put(now, ticket, result);
    }

    /// As [`Cache::notice`]
    pub fn notice(&self, asker: &Asker, change: &Change) {
        self.lock().0.notice(asker, change);
    }

    /// As [`Cache::forget_list`]
    pub fn forget_list(&self, asker: &Asker, kind: Kind) {
        self.lock().0.forget_list(asker, kind);
    }

    /// As [`Cache::forget`]
    pub fn forget(&self, asker: &Asker) {
        self.lock().0.forget(asker);
    }

    /// As [`Cache::clear`]
    pub fn clear(&self) {
        self.lock().0.clear();
    }

    /// Held for a look or an entry, never while something is waited for
    fn lock(&self) -> (MutexGuard<'_, Cache>, Instant) {
        // No method of the cache's leaves it half done.
        let cache = self.0.cache.lock().unwrap_or_else(PoisonError::into_inner);
        (cache, self.0.clock.now())
    }
}

impl fmt::Debug for SharedCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCache").field("len", &self.lock().0.len()).finish_non_exhaustive()
    }
}
