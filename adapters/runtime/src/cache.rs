//! A result cache for several clients.

use alloc::sync::Arc;
use core::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_proto::Change;
use mcp_proto::EntryKind;
use mcp_proto::client::{Cache, CacheKey, CacheScope, CacheTicket};
use mcp_proto::{Instant, RawJson};

use mcp_std::Clock;

/// A [`Cache`] with its own clock, shared by any number of clients on any threads.
///
/// Clones share the cache.
#[derive(Clone)]
pub struct SharedCache(Arc<SharedCacheInner>);

struct SharedCacheInner {
    /// One clock for all clients, because each client counts time from an epoch of its own.
    clock: Clock,
    cache: Mutex<Cache>,
}

impl Default for SharedCache {
    fn default() -> Self {
        Self::new(Cache::new())
    }
}

impl SharedCache {
    /// Shares `cache`.
    #[must_use]
    pub fn new(cache: Cache) -> Self {
        Self(Arc::new(SharedCacheInner { clock: Clock::start(), cache: Mutex::new(cache) }))
    }

    /// Calls [`Cache::get`] with the current time.
    #[must_use]
    pub fn get(&self, scope: &CacheScope, key: &CacheKey) -> Option<RawJson> {
        let (mut cache, now) = self.lock();
        cache.get(now, scope, key)
    }

    /// Calls [`Cache::ticket`].
    #[must_use]
    pub fn ticket(&self, scope: &CacheScope, key: CacheKey) -> CacheTicket {
        self.lock().0.ticket(scope, key)
    }

    /// Calls [`Cache::insert`] with the current time.
    pub fn insert(&self, ticket: CacheTicket, result: &RawJson) {
        let (mut cache, now) = self.lock();
        cache.insert(now, ticket, result);
    }

    /// Calls [`Cache::handle_change`].
    pub fn handle_change(&self, scope: &CacheScope, change: &Change) {
        self.lock().0.handle_change(scope, change);
    }

    /// Calls [`Cache::invalidate_list`].
    pub fn invalidate_list(&self, scope: &CacheScope, kind: EntryKind) {
        self.lock().0.invalidate_list(scope, kind);
    }

    /// Calls [`Cache::invalidate_server`].
    pub fn invalidate_server(&self, scope: &CacheScope) {
        self.lock().0.invalidate_server(scope);
    }

    /// Calls [`Cache::clear`].
    pub fn clear(&self) {
        self.lock().0.clear();
    }

    /// Locks the cache for one operation; the lock is never held across a wait.
    fn lock(&self) -> (MutexGuard<'_, Cache>, Instant) {
        // A poisoned lock is harmless: no method of the cache leaves it half changed.
        let cache = self.0.cache.lock().unwrap_or_else(PoisonError::into_inner);
        (cache, self.0.clock.now())
    }
}

impl fmt::Debug for SharedCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCache").field("len", &self.lock().0.len()).finish_non_exhaustive()
    }
}
