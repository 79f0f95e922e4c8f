//! A cache for pages of lists and contents of resources.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use core::time::Duration;

use serde::Serialize;

use super::config::Config;
use super::event::Peer;
use crate::change::Change;
use crate::json::{self, object_members};
use crate::methods::{self, EntryKind};
use crate::raw::RawJson;
use crate::sync::Arc;
use crate::time::Instant;

/// A cache of results (CACHE-005, CACHE-006).
///
/// Independent of the engine. For each request, look the result up with [`get`](Self::get). If there is none, take a
/// [`ticket`](Self::ticket), make the call and [`insert`](Self::insert) its result. Pass each change to
/// [`handle_change`](Self::handle_change). One cache may serve several connections, servers and principals, if all use
/// the same clock.
///
/// The server decides what is kept. A modern result is fresh for its `ttlMs`, and shared between principals only if
/// `cacheScope` is `public` (CACHE-012, CACHE-013). A legacy result has no such hints and is kept only with
/// [`CacheScope::with_legacy_ttl`]. A change notification removes the results that it concerns (CACHE-014),
/// and those of requests in flight are then not inserted. An expired result is never returned. Results of calls that
/// needed input must not be inserted (CACHE-011).
///
/// Entries and bytes are bounded. Expired results are evicted first, then the least recently used ones.
#[derive(Debug)]
pub struct Cache {
    entries: BTreeMap<EntryKey, CacheEntry>,
    max_entries: usize,
    max_bytes: usize,
    /// Cost of all entries.
    bytes: usize,
    /// Number of look-ups and insertions.
    clock: u64,
    /// Number of invalidations.
    invalidation_count: u64,
    /// The latest invalidations; the last one has the number `invalidation_count`.
    invalidations: VecDeque<(Arc<str>, Invalidation)>,
}

/// The key of an entry. The server comes first, so the entries of a server are adjacent.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct EntryKey {
    server: Arc<str>,
    key: CacheKey,
    client_meta: Arc<str>,
    /// `None` for shared results.
    principal: Option<Arc<str>>,
}

#[derive(Debug)]
struct CacheEntry {
    result: RawJson,
    expires_at: Instant,
    last_used: u64,
    cost: usize,
}

/// The results that a change makes outdated.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Invalidation {
    List(EntryKind),
    /// A resource, and those that it is part of (RES-013).
    Resource(String),
    Resources,
    All,
}

impl Invalidation {
    fn affects(&self, key: &CacheKey) -> bool {
        match (self, key) {
            (Self::All, _) | (Self::Resources, CacheKey::Read(_)) => true,
            (Self::List(kind), CacheKey::List(other, _)) => kind == other,
            // A plain prefix removes too much rather than too little: that costs one request, an outdated result is
            // wrong.
            (Self::Resource(changed), CacheKey::Read(uri)) => changed.starts_with(&**uri),
            _ => false,
        }
    }
}

/// A cacheable request: everything that its result depends on (CACHE-010).
///
/// Equal requests have equal keys, however their parameters are written.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum CacheKey {
    /// A page of a list, by its cursor.
    List(EntryKind, Option<String>),
    /// The contents of a resource, by its URI.
    Read(String),
}

impl CacheKey {
    /// Returns the key of a request, or `None` if its result is never cached.
    ///
    /// Only pages of lists and `resources/read` are cached, and only without other parameters, for example input
    /// responses and state (CACHE-004, CACHE-011). `_meta` is ignored (CACHE-020).
    #[must_use]
    pub fn from_request<T: Serialize + ?Sized>(method: &str, params: &T) -> Option<Self> {
        let list = EntryKind::ALL.into_iter().find(|kind| kind.list_method() == method);
        let name: &[u8] = match list {
            Some(_) => b"cursor",
            None if method == methods::RESOURCES_READ => b"uri",
            None => return None,
        };
        let params = RawJson::encode(params).ok().filter(RawJson::is_object)?;
        let (mut value, mut known) = (None, true);
        object_members(params.as_bytes(), |member, text| match member {
            member if member == name => value = Some(json::read::<String>(text)),
            b"_meta" => {}
            // An unknown parameter may change the result.
            _ => known = false,
        });
        let value = value.transpose().ok().filter(|_| known)?;
        match list {
            Some(kind) => Some(Self::List(kind, value)),
            None => value.map(Self::Read),
        }
    }

    fn byte_len(&self) -> usize {
        match self {
            Self::List(_, cursor) => cursor.as_ref().map_or(0, String::len),
            Self::Read(uri) => uri.len(),
        }
    }
}

/// The parties of a request: server, client and principal.
///
/// Results of different scopes are separate (CACHE-012, CACHE-020).
#[derive(Clone, Debug)]
pub struct CacheScope {
    server: Arc<str>,
    /// Revision, identity and capabilities of the client, as in its requests.
    client_meta: Arc<str>,
    principal: Arc<str>,
    /// Lifetime of lists without cache hints.
    legacy_ttl: Option<Duration>,
    has_cache_hints: bool,
}

impl CacheScope {
    /// Creates the scope of a connection to `server` on behalf of `principal`.
    ///
    /// `server` is the application's name for the server, for example its URL or command line. The identity that the
    /// server reports is part of the key, but is not sufficient: a server could claim that of another. `principal`
    /// names the authorization of the requests; it is empty without one. Both may be empty if the cache serves one
    /// connection.
    #[must_use]
    pub fn new(config: &Config, peer: &Peer, server: &str, principal: &str) -> Self {
        let version = peer.version;
        let info = peer.info.as_ref().map_or("", RawJson::as_str);
        let request_meta = String::from_utf8_lossy(&config.request_meta);
        Self {
            // The length separates the two parts.
            server: format!("{} {server}{info}", server.len()).into(),
            client_meta: format!("{version} {request_meta}").into(),
            principal: principal.into(),
            legacy_ttl: None,
            has_cache_hints: peer.sends_cache_hints(),
        }
    }

    /// Sets a lifetime for lists of legacy servers, which are not cached by default.
    ///
    /// Legacy revisions have no cache hints, and a server without `listChanged` sends no change notifications. Its
    /// lists may be out of date for `time`. Contents of resources are not cached.
    #[must_use]
    pub const fn with_legacy_ttl(mut self, time: Duration) -> Self {
        self.legacy_ttl = Some(time);
        self
    }

    /// Returns the lifetime of a result, and whether it is shared.
    fn freshness(&self, key: &CacheKey, result: &RawJson) -> (Duration, bool) {
        if !self.has_cache_hints {
            let list = matches!(key, CacheKey::List(..));
            return (self.legacy_ttl.filter(|_| list).unwrap_or(Duration::ZERO), false);
        }
        // A result that asks for input is not the last one, whatever its hints say.
        let is_complete = result.member("resultType").is_none_or(|kind| kind.as_bytes() == b"\"complete\"");
        let ttl = result.member("ttlMs").filter(|_| is_complete).map_or(0, |ttl| parse_ttl_millis(&ttl));
        let public = result.member("cacheScope").is_some_and(|scope| scope.as_bytes() == b"\"public\"");
        (Duration::from_millis(ttl), public)
    }
}

/// Parses a number of milliseconds. Invalid and negative values count as 0 (CACHE-002, CACHE-006).
fn parse_ttl_millis(number: &RawJson) -> u64 {
    if let Ok(millis) = number.parse::<u64>() {
        return millis;
    }
    // Some peers write integers as floats (DEC-013). Values beyond the range mean forever.
    let float = number.parse::<f64>().unwrap_or(0.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturation is intended")]
    let whole = float as u64;
    if whole == u64::MAX || whole as f64 == float { whole } else { 0 }
}

/// The permission to insert the result of one request.
#[derive(Clone, Debug)]
pub struct CacheTicket {
    scope: CacheScope,
    key: CacheKey,
    /// Number of invalidations when the request was made.
    invalidation_count: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Self::new()
    }
}

impl Cache {
    /// Maximum number of entries of [`new`](Self::new).
    pub const DEFAULT_MAX_ENTRIES: usize = 256;
    /// Maximum number of bytes of [`new`](Self::new).
    pub const DEFAULT_MAX_BYTES: usize = 4 << 20;
    /// Number of invalidations that are remembered, for the results of requests in flight.
    const MAX_INVALIDATIONS: usize = 64;
    /// Maximum length of the URI of a remembered invalidation; a longer one invalidates all resources.
    const MAX_URI: usize = 2 << 10;
    /// Cost of an entry besides its texts.
    const ENTRY_OVERHEAD: usize = 256;

    /// Creates an empty cache of the default size.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_limits(Self::DEFAULT_MAX_ENTRIES, Self::DEFAULT_MAX_BYTES)
    }

    /// Creates an empty cache with a maximum number of entries, and of bytes of results, keys and bookkeeping.
    #[must_use]
    pub const fn with_limits(entries: usize, bytes: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            max_entries: entries,
            max_bytes: bytes,
            bytes: 0,
            clock: 0,
            invalidation_count: 0,
            invalidations: VecDeque::new(),
        }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether the cache is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the result of a request, if it is cached and fresh.
    pub fn get(&mut self, now: Instant, scope: &CacheScope, key: &CacheKey) -> Option<RawJson> {
        self.clock += 1;
        for entry_key in entry_keys(scope, key) {
            match self.entries.get_mut(&entry_key) {
                Some(entry) if now < entry.expires_at => {
                    entry.last_used = self.clock;
                    return Some(entry.result.clone());
                }
                // CACHE-007
                Some(_) => self.remove(&entry_key),
                None => {}
            }
        }
        None
    }

    /// Returns a ticket for the result of a request. Take it when the request is made.
    #[must_use]
    pub fn ticket(&self, scope: &CacheScope, key: CacheKey) -> CacheTicket {
        CacheTicket { scope: scope.clone(), key, invalidation_count: self.invalidation_count }
    }

    /// Inserts a result that was received at `now`, if it may be cached. An older result of the same key is removed.
    pub fn insert(&mut self, now: Instant, ticket: CacheTicket, result: &RawJson) {
        let CacheTicket { scope, key, invalidation_count: seen } = ticket;
        if self.is_outdated(&scope, &key, seen) {
            return;
        }
        let [private, public] = entry_keys(&scope, &key);
        // The server may have changed the scope of the result, so the old one may be under the other key.
        self.remove(&private);
        self.remove(&public);
        let (lifetime, is_public) = scope.freshness(&key, result);
        let expires_at = now + lifetime;
        let cost = Self::ENTRY_OVERHEAD + key.byte_len() + result.as_bytes().len();
        if expires_at <= now || cost > self.max_bytes || self.max_entries == 0 {
            return;
        }
        self.clock += 1;
        self.bytes += cost;
        // Copied, because the received frame may be larger.
        let entry = CacheEntry { result: result.compact(), expires_at, last_used: self.clock, cost };
        self.entries.insert(if is_public { public } else { private }, entry);
        // One entry alone fits, because its cost was compared with `max_bytes`. So the loop ends.
        while self.entries.len() > self.max_entries || self.bytes > self.max_bytes {
            // Expired entries go first, then the one whose last use is the oldest.
            let order = |entry: &CacheEntry| (now < entry.expires_at, entry.last_used);
            let Some(victim) = self.entries.iter().min_by_key(|(_, entry)| order(entry)) else { return };
            let victim = victim.0.clone();
            self.remove(&victim);
        }
    }

    /// Removes the results that a change makes outdated (CACHE-014).
    pub fn handle_change(&mut self, scope: &CacheScope, change: &Change) {
        match change {
            Change::Tools => self.invalidate(scope, Invalidation::List(EntryKind::Tool)),
            Change::Prompts => self.invalidate(scope, Invalidation::List(EntryKind::Prompt)),
            Change::Resources => {
                // One notification covers both lists.
                self.invalidate(scope, Invalidation::List(EntryKind::Resource));
                self.invalidate(scope, Invalidation::List(EntryKind::ResourceTemplate));
            }
            // A very long URI is not remembered, so all resources are invalidated instead.
            Change::Resource(uri) if uri.len() > Self::MAX_URI => {
                self.invalidate(scope, Invalidation::Resources)
            }
            Change::Resource(uri) => self.invalidate(scope, Invalidation::Resource(uri.clone())),
            // Results of methods that the protocol does not define are not kept.
            Change::Custom(_) => {}
        }
    }

    /// Removes all pages of a list, for example after a cursor was refused (CACHE-018).
    pub fn invalidate_list(&mut self, scope: &CacheScope, kind: EntryKind) {
        self.invalidate(scope, Invalidation::List(kind));
    }

    /// Removes all results of a server, of every principal.
    pub fn invalidate_server(&mut self, scope: &CacheScope) {
        self.invalidate(scope, Invalidation::All);
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
        // Earlier tickets must no longer insert results.
        self.invalidations.clear();
        self.invalidation_count += 1;
    }

    fn invalidate(&mut self, scope: &CacheScope, invalidation: Invalidation) {
        let bytes = &mut self.bytes;
        self.entries.retain(|key, entry| {
            let stays = key.server != scope.server || !invalidation.affects(&key.key);
            if !stays {
                *bytes -= entry.cost;
            }
            stays
        });
        if self.invalidations.len() >= Self::MAX_INVALIDATIONS {
            self.invalidations.pop_front();
        }
        self.invalidations.push_back((Arc::clone(&scope.server), invalidation));
        self.invalidation_count += 1;
    }

    /// Returns whether a result may be older than an invalidation that happened while its request was in flight.
    fn is_outdated(&self, scope: &CacheScope, key: &CacheKey, seen: u64) -> bool {
        let missed =
            self.invalidation_count.checked_sub(seen).and_then(|missed| usize::try_from(missed).ok());
        // More invalidations were missed than are remembered, and any of them may concern the result.
        let Some(missed) = missed.filter(|missed| *missed <= self.invalidations.len()) else { return true };
        self.invalidations
            .iter()
            .rev()
            .take(missed)
            .any(|(server, invalidation)| *server == scope.server && invalidation.affects(key))
    }

    fn remove(&mut self, key: &EntryKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= entry.cost;
        }
    }
}

/// Returns the keys of a result: for the principal alone, and shared.
fn entry_keys(scope: &CacheScope, key: &CacheKey) -> [EntryKey; 2] {
    let entry_key = |principal| EntryKey {
        server: Arc::clone(&scope.server),
        key: key.clone(),
        client_meta: Arc::clone(&scope.client_meta),
        principal,
    };
    [entry_key(Some(Arc::clone(&scope.principal))), entry_key(None)]
}

#[cfg(test)]
mod tests;
