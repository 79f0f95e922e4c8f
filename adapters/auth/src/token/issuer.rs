//! The keys of an authorization server: found through its metadata, cached and rotated.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::sync::{Mutex, MutexGuard, TryLockError};

use jsonwebtoken::jwk::PublicKeyUse;
use mcp_oauth::{Fetch, FetchFailure, FetchPolicy, FetchResponse};
use mcp_proto::http::client::Url;
use serde_json::{Map, Value};

use super::jwt::{Algorithm, PublicKey, object, public_jwk, sha256};
use super::settings::UnixClock;
use crate::client::Fetcher;

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
/// Maximum number of attempts in [`INTERVAL`], so that tokens with invented keys cause few requests.
const MAX_ATTEMPTS: usize = 4;
/// Seconds in which there are at most [`MAX_ATTEMPTS`].
const INTERVAL: u64 = 30;
/// Seconds after a failure in which there is no other attempt.
const FAILURE_PAUSE: u64 = 10;
/// Seconds for which the id of a key is known to be missing.
const MISSING_FOR: u64 = 30;
/// Maximum number of ids that are known to be missing; the oldest is forgotten for another one.
const MAX_MISSING: usize = 256;

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
    /// These keys are possible; none if the set is known to have no such key.
    Found(Candidates),
    /// The keys have to be fetched first, unless there are others than those of this version by then.
    Fetch(u64),
    /// The keys are not known, and cannot be fetched at present.
    Unavailable,
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
    /// Number of sets that were fetched.
    version: u64,
    /// Unix time at which the keys were fetched.
    fetched_at: Option<u64>,
    /// Unix times of the last attempts; at most [`MAX_ATTEMPTS`].
    attempts: VecDeque<u64>,
    /// Unix time of the last attempt, if it failed.
    failed_at: Option<u64>,
    /// Digests of ids that the last set lacked when they were looked for, and when that was.
    missing: VecDeque<([u8; 32], u64)>,
}

impl Cache {
    fn is_usable(&self, now: u64) -> bool {
        self.fetched_at.is_some_and(|at| now.abs_diff(at) <= USABLE)
    }

    fn is_fresh(&self, now: u64) -> bool {
        self.fetched_at.is_some_and(|at| now.abs_diff(at) <= FRESH)
    }

    fn may_fetch(&self, now: u64) -> bool {
        let is_recent = |at: &&u64| now.abs_diff(**at) < INTERVAL;
        self.failed_at.is_none_or(|at| now.abs_diff(at) >= FAILURE_PAUSE)
            && self.attempts.iter().filter(is_recent).count() < MAX_ATTEMPTS
    }

    fn begin_attempt(&mut self, now: u64) {
        if self.attempts.len() >= MAX_ATTEMPTS {
            self.attempts.pop_front();
        }
        self.attempts.push_back(now);
    }

    /// Returns the keys that a token may have been signed by.
    fn candidates(&self, id: Option<&str>, algorithm: Algorithm) -> Candidates {
        let fits = |key: &&IssuerKey| {
            (id.is_none() || key.id.as_deref() == id)
                && key.algorithm.as_deref().is_none_or(|name| name == algorithm.name())
        };
        self.keys.iter().filter(fits).map(|key| key.key.clone()).collect()
    }

    fn is_missing(&self, id: Option<&str>, now: u64) -> bool {
        let digest = key_digest(id);
        self.missing.iter().any(|(known, at)| *known == digest && now.abs_diff(*at) < MISSING_FOR)
    }

    fn add_missing(&mut self, id: Option<&str>, now: u64) {
        let digest = key_digest(id);
        self.missing.retain(|(known, _)| *known != digest);
        if self.missing.len() >= MAX_MISSING {
            self.missing.pop_front();
        }
        self.missing.push_back((digest, now));
    }
}

/// Returns a digest of the id of a key: ids of tokens may be long.
fn key_digest(id: Option<&str>) -> [u8; 32] {
    id.map_or([0; 32], |id| sha256(id.as_bytes()))
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
        mcp_std::sync::lock(&self.cache)
    }

    /// Returns the keys for a token without a request.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm, now: u64) -> Lookup {
        let cache = self.cache();
        let is_usable = cache.is_usable(now);
        let found = if is_usable { cache.candidates(id, algorithm) } else { Candidates::new() };
        if found.is_empty() {
            return match () {
                () if is_usable && cache.is_missing(id, now) => Lookup::Found(found),
                () if cache.may_fetch(now) || self.is_fetching() => Lookup::Fetch(cache.version),
                // The key may be a new one, so this token is neither good nor bad.
                () => Lookup::Unavailable,
            };
        }
        // Old keys are good while one request fetches others: the authorization server may be slow, or gone.
        if cache.is_fresh(now) || !cache.may_fetch(now) || self.is_fetching() {
            Lookup::Found(found)
        } else {
            Lookup::Fetch(cache.version)
        }
    }

    fn is_fetching(&self) -> bool {
        matches!(self.fetching.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Fetches the keys for a token, unless there are others than those of `version` meanwhile.
    ///
    /// Returns why there are no others, if there are none.
    pub(super) fn refresh(
        &self,
        fetcher: &dyn Fetcher,
        (id, algorithm): (Option<&str>, Algorithm),
        version: u64,
        clock: &UnixClock,
    ) -> Vec<ServiceFailure> {
        let _fetching = mcp_std::sync::lock(&self.fetching);
        let mut failures = Vec::new();
        let is_needed = {
            let (mut cache, now) = (self.cache(), clock.now());
            let is_needed = cache.version == version && cache.may_fetch(now);
            if is_needed {
                cache.begin_attempt(now);
            }
            is_needed
        };
        let fetched = if is_needed { self.fetch_set(fetcher, &mut failures) } else { None };
        // The wait may have been long: what follows counts from its end.
        let (mut cache, now) = (self.cache(), clock.now());
        if let Some((url, keys)) = fetched {
            (cache.keys, cache.keys_url, cache.fetched_at) = (keys.into(), Some(url), Some(now));
            cache.version += 1;
            cache.failed_at = None;
            failures.clear();
        } else if is_needed {
            cache.failed_at = Some(now);
        }
        if cache.version != version && cache.candidates(id, algorithm).is_empty() {
            cache.add_missing(id, now);
        }
        failures
    }

    /// Fetches the set of keys from where it was, or else from where the metadata says that it is.
    fn fetch_set(
        &self,
        fetcher: &dyn Fetcher,
        failures: &mut Vec<ServiceFailure>,
    ) -> Option<(Url, Vec<IssuerKey>)> {
        let mut fetch_from = |url: Url| match self.fetch_keys(fetcher, &url) {
            Ok(keys) => Some((url, keys)),
            Err(failure) => {
                failures.push(failure);
                None
            }
        };
        let known = self.configured.clone().or_else(|| self.cache().keys_url.clone());
        if let Some(found) = known.and_then(&mut fetch_from) {
            return Some(found);
        }
        if self.configured.is_some() {
            return None;
        }
        // The keys may have moved.
        match self.discover(fetcher) {
            Ok(url) => fetch_from(url),
            Err(more) => {
                failures.extend(more);
                None
            }
        }
    }

    /// Finds the URL of the keys in the metadata of the authorization server (AUTH-028, AUTH-029, AUTH-030).
    ///
    /// # Errors
    ///
    /// Why no location has a document with a usable URL.
    fn discover(&self, fetcher: &dyn Fetcher) -> Result<Url, Vec<ServiceFailure>> {
        let mut failures = Vec::new();
        let Ok(issuer) = Url::parse(&self.identifier) else { return Err(failures) };
        let path = issuer.target().trim_end_matches('/');
        let inserted = |name: &str| format!("/.well-known/{name}{path}");
        let mut targets =
            Vec::from([inserted("oauth-authorization-server"), inserted("openid-configuration")]);
        if !path.is_empty() {
            targets.push(format!("{path}/.well-known/openid-configuration"));
        }
        for target in targets {
            let Ok(url) = issuer.resolve(&target) else { continue };
            match self.read_metadata(fetcher, &issuer, &url) {
                Ok(Some(keys_url)) => return Ok(keys_url),
                Ok(None) => {
                    failures
                        .push(ServiceFailure::content(&url, "`jwks_uri` is not a URL that can be trusted"));
                    return Err(failures);
                }
                Err(failure) => failures.push(failure),
            }
        }
        Err(failures)
    }

    /// Reads the URL of the keys from a document; `None` if it has none that can be used.
    ///
    /// # Errors
    ///
    /// Why there is no document of this issuer.
    fn read_metadata(
        &self,
        fetcher: &dyn Fetcher,
        issuer: &Url,
        url: &Url,
    ) -> Result<Option<Url>, ServiceFailure> {
        let document = fetch_object(fetcher, url, FetchPolicy::new(TIMEOUT, MAX_METADATA))?;
        // A document of another issuer is not used (AUTH-030).
        if document.get("issuer").and_then(Value::as_str) != Some(&*self.identifier) {
            return Err(ServiceFailure::content(url, "the document is of another issuer"));
        }
        let keys_url = document.get("jwks_uri").and_then(Value::as_str).and_then(|url| Url::parse(url).ok());
        // Keys over a connection that anyone can change are no keys.
        Ok(keys_url.filter(|url| url.origin().secure || url.origin() == issuer.origin()))
    }

    fn fetch_keys(&self, fetcher: &dyn Fetcher, url: &Url) -> Result<Vec<IssuerKey>, ServiceFailure> {
        let mut policy = FetchPolicy::new(TIMEOUT, MAX_KEY_SET);
        // The URL of the application may be anywhere.
        if let (Ok(issuer), None) = (Url::parse(&self.identifier), &self.configured) {
            policy = policy.reachable_from(issuer.origin().clone()); // SEC-011
        }
        let set = fetch_object(fetcher, url, policy)?;
        let keys = set.get("keys").and_then(Value::as_array);
        let keys = keys.ok_or_else(|| ServiceFailure::content(url, "the answer is not a set of keys"))?;
        Ok(keys.iter().filter_map(Value::as_object).filter_map(issuer_key).take(MAX_KEYS).collect())
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

/// Fetches a JSON object.
fn fetch_object(
    fetcher: &dyn Fetcher,
    url: &Url,
    policy: FetchPolicy,
) -> Result<Map<String, Value>, ServiceFailure> {
    let limit = policy.max_body;
    read_object(url, fetcher.fetch(&Fetch::get(url.clone(), policy)), limit)
}

// Failures of the authorization servers on which validators depend.

/// A request to an authorization server that gave a validator nothing to use.
///
/// Clients get 503 for what cannot be decided meanwhile, and are not told why. This is for the logs of the server; it
/// holds no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServiceFailure {
    /// The URL of the request, without its query.
    pub url: String,
    /// The reason.
    pub reason: ServiceFailureReason,
}

/// The reason of a [`ServiceFailure`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceFailureReason {
    /// There was no response.
    Fetch(FetchFailure),
    /// The response has another status than 200. Redirects are not followed.
    Status(u16),
    /// The response is not what it has to be; the text says what is wrong.
    Content(&'static str),
}

impl ServiceFailure {
    pub(super) fn new(url: &Url, reason: ServiceFailureReason) -> Self {
        Self { url: Url::redacted(&format!("{}{}", url.origin(), url.target())), reason }
    }

    pub(super) fn content(url: &Url, what: &'static str) -> Self {
        Self::new(url, ServiceFailureReason::Content(what))
    }
}

impl fmt::Display for ServiceFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, reason } = self;
        match reason {
            ServiceFailureReason::Fetch(failure) => write!(f, "{url}: {failure}"),
            ServiceFailureReason::Status(status) => write!(f, "{url}: the status is {status}"),
            ServiceFailureReason::Content(what) => write!(f, "{url}: {what}"),
        }
    }
}

impl core::error::Error for ServiceFailure {}

/// The function of a callback for failures.
type OnFailure = dyn Fn(&ServiceFailure) + Send + Sync;

/// A callback of the application for failures.
#[derive(Default)]
pub(super) struct FailureCallback(Option<Box<OnFailure>>);

impl FailureCallback {
    pub(super) fn new(callback: impl Fn(&ServiceFailure) + Send + Sync + 'static) -> Self {
        Self(Some(Box::new(callback)))
    }

    /// Reports a failure. A panic of the callback changes no decision; the panic hook has reported it.
    pub(super) fn report(&self, failure: &ServiceFailure) {
        if let Some(callback) = &self.0 {
            let _ = catch_unwind(AssertUnwindSafe(|| callback(failure)));
        }
    }
}

/// Reads the JSON object of a response with status 200 that is at most `limit` bytes long.
pub(super) fn read_object(
    url: &Url,
    response: Result<FetchResponse, FetchFailure>,
    limit: usize,
) -> Result<Map<String, Value>, ServiceFailure> {
    let response =
        response.map_err(|failure| ServiceFailure::new(url, ServiceFailureReason::Fetch(failure)))?;
    if response.status != 200 {
        return Err(ServiceFailure::new(url, ServiceFailureReason::Status(response.status)));
    }
    // The fetcher of an application may have missed the limit.
    if response.body.len() > limit {
        return Err(ServiceFailure::new(url, ServiceFailureReason::Fetch(FetchFailure::TooLarge)));
    }
    object(&response.body).ok_or_else(|| ServiceFailure::content(url, "the answer is not a JSON object"))
}
