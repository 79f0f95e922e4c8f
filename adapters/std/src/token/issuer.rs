//! The keys of an authorization server: found through its metadata, cached and rotated.

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jsonwebtoken::jwk::PublicKeyUse;
use mcp_proto::auth::{Fetch, FetchPolicy};
use mcp_proto::http::client::Url;
use serde_json::{Map, Value};

use super::jose::{Algorithm, PublicKey, object, public_jwk};
use crate::auth::Fetcher;

/// Size of the largest metadata document, in bytes.
const MAX_METADATA: usize = 64 << 10;
/// Size of the largest set of keys, in bytes.
const MAX_KEY_SET: usize = 256 << 10;
/// Maximum number of keys of a set that are used.
const MAX_KEYS: usize = 256;
/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Seconds after which keys are fetched again.
const FRESH: u64 = 3_600;
/// Seconds for which keys are used while the authorization server cannot be reached.
const USABLE: u64 = 24 * 3_600;
/// Seconds between two attempts, so that tokens with invented keys cause few requests.
const MIN_INTERVAL: u64 = 30;

/// A key of an authorization server, with what it is for.
#[derive(Debug)]
struct IssuerKey {
    id: Option<String>,
    algorithm: Option<String>,
    key: PublicKey,
}

/// Keys that may have signed a token.
pub(super) type Candidates = Vec<PublicKey>;

/// The outcome of a search for keys.
pub(super) enum Lookup {
    /// These keys are possible; none if the set is known and has no such key.
    Found(Candidates),
    /// The keys have to be fetched first.
    Fetch,
}

/// An authorization server.
#[derive(Debug)]
pub(super) struct Issuer {
    identifier: String,
    /// The URL of the keys, if the application named it.
    configured: Option<Url>,
    cache: Mutex<Cache>,
    /// Held during a fetch, so that there is one at a time.
    fetching: Mutex<()>,
}

#[derive(Debug, Default)]
struct Cache {
    keys_url: Option<Url>,
    keys: Arc<[IssuerKey]>,
    /// Unix time at which the keys were fetched.
    fetched_at: Option<u64>,
    /// Unix time of the last attempt.
    tried_at: Option<u64>,
}

impl Issuer {
    pub(super) fn new(identifier: &str, keys_url: Option<Url>) -> Self {
        let cache = Mutex::default();
        Self { identifier: identifier.into(), configured: keys_url, cache, fetching: Mutex::default() }
    }

    pub(super) fn identifier(&self) -> &str {
        &self.identifier
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the keys for a token without a request.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm, now: u64) -> Lookup {
        let cache = self.cache();
        let Some(fetched_at) = cache.fetched_at.filter(|at| now.abs_diff(*at) <= USABLE) else {
            return Lookup::Fetch;
        };
        let may_fetch = cache.tried_at.is_none_or(|at| now.abs_diff(at) >= MIN_INTERVAL);
        let fits = |key: &&IssuerKey| {
            (id.is_none() || key.id.as_deref() == id)
                && key.algorithm.as_deref().is_none_or(|name| name == algorithm.name())
        };
        let found: Candidates = cache.keys.iter().filter(fits).map(|key| key.key.clone()).collect();
        let is_fresh = now.abs_diff(fetched_at) <= FRESH;
        if may_fetch && (found.is_empty() || !is_fresh) { Lookup::Fetch } else { Lookup::Found(found) }
    }

    /// Fetches the keys, unless that was done a moment ago. Returns whether there are any to use.
    pub(super) fn refresh(&self, fetcher: &dyn Fetcher, now: u64) -> bool {
        let _fetching = self.fetching.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut cache = self.cache();
            let is_early = cache.tried_at.is_some_and(|at| now.abs_diff(at) < MIN_INTERVAL);
            if is_early {
                return cache.fetched_at.is_some_and(|at| now.abs_diff(at) <= USABLE);
            }
            cache.tried_at = Some(now);
        }
        let known = self.configured.clone().or_else(|| self.cache().keys_url.clone());
        let fetch_from = |url: Option<Url>| {
            let keys = url.as_ref().and_then(|url| self.fetch_keys(fetcher, url));
            (url, keys)
        };
        let (url, keys) = match fetch_from(known) {
            // The keys may have moved.
            (_, None) if self.configured.is_none() => fetch_from(self.discover(fetcher)),
            fetched => fetched,
        };
        let mut cache = self.cache();
        if let (Some(keys), Some(url)) = (keys, url) {
            (cache.keys, cache.keys_url, cache.fetched_at) = (keys.into(), Some(url), Some(now));
        }
        cache.fetched_at.is_some_and(|at| now.abs_diff(at) <= USABLE)
    }

    /// Finds the URL of the keys in the metadata of the authorization server (AUTH-028, AUTH-029, AUTH-030).
    fn discover(&self, fetcher: &dyn Fetcher) -> Option<Url> {
        let issuer = Url::parse(&self.identifier).ok()?;
        let path = issuer.target().trim_end_matches('/');
        let inserted = |name: &str| format!("/.well-known/{name}{path}");
        let mut targets =
            Vec::from([inserted("oauth-authorization-server"), inserted("openid-configuration")]);
        if !path.is_empty() {
            targets.push(format!("{path}/.well-known/openid-configuration"));
        }
        let document = targets.iter().find_map(|target| {
            let url = issuer.resolve(target).ok()?;
            let document = fetch_object(fetcher, url, FetchPolicy::new(TIMEOUT, MAX_METADATA))?;
            // A document of another issuer is not used (AUTH-030).
            let is_own = document.get("issuer").and_then(Value::as_str) == Some(&*self.identifier);
            is_own.then_some(document)
        })?;
        let url = Url::parse(document.get("jwks_uri")?.as_str()?).ok()?;
        // Keys over a connection that anyone can change are no keys.
        let is_safe = url.origin().secure || url.origin() == issuer.origin();
        is_safe.then_some(url)
    }

    fn fetch_keys(&self, fetcher: &dyn Fetcher, url: &Url) -> Option<Vec<IssuerKey>> {
        let mut policy = FetchPolicy::new(TIMEOUT, MAX_KEY_SET);
        // The URL of the application may be anywhere.
        if let (Ok(issuer), None) = (Url::parse(&self.identifier), &self.configured) {
            policy = policy.reachable_from(issuer.origin().clone()); // SEC-011
        }
        let set = fetch_object(fetcher, url.clone(), policy)?;
        let keys = set.get("keys")?.as_array()?;
        Some(keys.iter().filter_map(Value::as_object).filter_map(issuer_key).take(MAX_KEYS).collect())
    }
}

/// Reads a key for signatures; others of a set are left out.
fn issuer_key(jwk: &Map<String, Value>) -> Option<IssuerKey> {
    let jwk = public_jwk(jwk)?;
    if jwk.common.public_key_use.as_ref().is_some_and(|used| *used != PublicKeyUse::Signature) {
        return None;
    }
    let key = PublicKey::from_jwk(&jwk)?;
    let algorithm = jwk.common.key_algorithm.map(|algorithm| algorithm.to_string());
    Some(IssuerKey { id: jwk.common.key_id, algorithm, key })
}

/// Fetches a JSON object. `None` if there is no such answer; redirects are none.
pub(super) fn fetch_object(
    fetcher: &dyn Fetcher,
    url: Url,
    policy: FetchPolicy,
) -> Option<Map<String, Value>> {
    let limit = policy.max_body;
    let response = fetcher.fetch(&Fetch::get(url, policy)).ok()?;
    // The fetcher of an application may have missed the limit.
    if response.status != 200 || response.body.len() > limit {
        return None;
    }
    object(&response.body)
}
