//! Access tokens that only their authorization server can read: introspection (RFC 7662).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_oauth::{Fetch, FetchPolicy, Secret};
use mcp_proto::http::client::{Url, UrlError};
use mcp_proto::http::server::{Denial, Protected, TokenRequest};
use mcp_proto::server::Identity;
use serde_json::Value;

use super::TokenValidator;
use super::issuer::read_object;
use super::jwt::{Claims, MAX_TOKEN, confidential_url, numeric_date, principal, scopes, sha256, thumbprint};
use super::settings::{Settings, setters};
use crate::client::Fetcher;

/// Size of the largest answer, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of answers that are kept.
const MAX_CACHED: usize = 10_000;

/// A validator that asks the authorization server about each token (RFC 7662).
///
/// An answer is kept for a minute at most ([`cache_for`](Self::cache_for)), and never longer than the token is valid: a
/// revoked token is accepted for that long. At most 10,000 answers are kept. Only active tokens are: an unknown one is
/// asked about each time. If the authorization server does not answer, requests get 503, and
/// [`on_failure`](Self::on_failure) tells why.
///
/// The answer has to say that the token is active and is for this resource (`aud`; AUTH-010, SEC-007). The principal is
/// `sub`, or `client_id` if there is none.
pub struct IntrospectionValidator {
    endpoint: Url,
    issuers: Vec<String>,
    authorization: Secret,
    keep: u64,
    fetcher: Box<dyn Fetcher>,
    cache: Mutex<BTreeMap<[u8; 32], CachedAnswer>>,
    settings: Settings,
}

setters!(IntrospectionValidator);

/// What is known about an active token.
#[derive(Clone)]
struct CachedAnswer {
    principal: Box<str>,
    scopes: Box<str>,
    thumbprint: Option<Box<str>>,
    /// Unix time at which the token expires, if it does.
    expires: Option<u64>,
    /// Unix time until which the answer is kept.
    until: u64,
}

impl IntrospectionValidator {
    /// Creates a validator of the tokens for a resource. The server authenticates itself as a client of the
    /// authorization server, by `client_secret_basic`.
    ///
    /// # Errors
    ///
    /// [`UrlError`] if `endpoint` is not a URL. [`UrlError::Scheme`] also if it is `http` to another machine, which
    /// would show tokens to others.
    pub fn new(
        protected: &Protected,
        endpoint: &str,
        client_id: &str,
        client_secret: &Secret,
        fetcher: impl Fetcher + 'static,
    ) -> Result<Self, UrlError> {
        let endpoint = confidential_url(endpoint)?;
        // Both are encoded as in a form first (RFC 6749, 2.3.1).
        let credentials = format!("{}:{}", form_encode(client_id), form_encode(client_secret.expose()));
        Ok(Self {
            endpoint,
            issuers: protected.issuers().map(Into::into).collect(),
            authorization: Secret::new(format!("Basic {}", STANDARD.encode(credentials))),
            keep: 60,
            fetcher: Box::new(fetcher),
            cache: Mutex::default(),
            settings: Settings::new(protected),
        })
    }

    /// Sets for how long an answer is kept (default 60 s; seconds are rounded down; 0 keeps none).
    #[must_use]
    pub const fn cache_for(mut self, keep: Duration) -> Self {
        self.keep = keep.as_secs();
        self
    }

    fn cache(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], CachedAnswer>> {
        mcp_std::sync::lock(&self.cache)
    }

    /// Asks the authorization server about a token.
    fn ask(&self, request: &TokenRequest) -> Result<CachedAnswer, Denial> {
        let form = format!("token={}&token_type_hint=access_token", form_encode(request.token.reveal()));
        let policy = FetchPolicy::new(TIMEOUT, MAX_ANSWER);
        let mut fetch = Fetch::post_form(self.endpoint.clone(), &form, policy);
        fetch.fields.push("Authorization", self.authorization.expose().as_bytes());
        match read_object(&self.endpoint, self.fetcher.fetch(&fetch), MAX_ANSWER) {
            Ok(claims) => self.check_claims(&claims, self.settings.clock.now()),
            Err(failure) => {
                self.settings.failures.report(&failure);
                Err(Denial::Unavailable)
            }
        }
    }

    fn check_claims(&self, claims: &Claims, now: u64) -> Result<CachedAnswer, Denial> {
        let invalid = |why: &'static str| Denial::InvalidToken(why.into());
        if claims.get("active") != Some(&Value::Bool(true)) {
            return Err(invalid("the token is not active"));
        }
        // AUTH-010, SEC-007
        if self.settings.find_audience(claims).is_none() {
            return Err(invalid("the token is for another server"));
        }
        if let Some(issuer) = claims.get("iss") {
            if !self.issuers.iter().any(|own| issuer.as_str() == Some(own)) {
                return Err(invalid("the token has another issuer"));
            }
        }
        let time = |name: &str| match claims.get(name) {
            Some(value) => numeric_date(value).map(Some).ok_or_else(|| invalid("a time is malformed")),
            None => Ok(None),
        };
        let expires = time("exp")?;
        if expires.is_some_and(|at| at <= now) || time("nbf")?.is_some_and(|at| at > now.saturating_add(60)) {
            return Err(invalid("the token has expired, or is not valid yet"));
        }
        let subject = principal(claims)?;
        let principal = match (&*self.issuers, claims.get("iss").and_then(Value::as_str)) {
            ([_], _) => subject,
            // One name may be two parties at two issuers.
            (_, Some(issuer)) => format!("{issuer} {subject}"),
            (_, None) => return Err(invalid("the token does not say its issuer")),
        };
        let kept = now.saturating_add(self.keep);
        Ok(CachedAnswer {
            principal: principal.into(),
            scopes: scopes(claims).into(),
            thumbprint: thumbprint(claims)?.map(Into::into),
            expires,
            until: expires.map_or(kept, |at| at.min(kept)),
        })
    }

    fn keep(&self, digest: [u8; 32], answer: &CachedAnswer, now: u64) {
        if answer.until <= now {
            return;
        }
        let mut cache = self.cache();
        if cache.len() >= MAX_CACHED {
            cache.retain(|_, kept| kept.until > now);
        }
        if cache.len() < MAX_CACHED {
            cache.insert(digest, answer.clone());
        }
    }

    fn grant(
        &self,
        request: &TokenRequest,
        answer: &CachedAnswer,
        now: u64,
    ) -> Result<Arc<Identity>, Denial> {
        let key = self.settings.dpop.verify_at(request, answer.thumbprint.as_deref(), now)?;
        let identity = Identity::new(answer.principal.clone()).scopes(&answer.scopes).proven_key(key);
        Ok(Arc::new(match answer.expires {
            Some(at) => identity.valid_for(Duration::from_secs(at.saturating_sub(now))),
            None => identity,
        }))
    }
}

impl TokenValidator for IntrospectionValidator {
    fn validate(&self, request: &TokenRequest) -> Result<Arc<Identity>, Denial> {
        if let Some(decision) = self.validate_now(request) {
            return decision;
        }
        let answer = self.ask(request)?;
        let now = self.settings.clock.now();
        self.keep(sha256(request.token.reveal().as_bytes()), &answer, now);
        self.grant(request, &answer, now)
    }

    fn validate_now(&self, request: &TokenRequest) -> Option<Result<Arc<Identity>, Denial>> {
        let (token, now) = (request.token.reveal(), self.settings.clock.now());
        if token.len() > MAX_TOKEN {
            return Some(Err(Denial::InvalidToken("the token is too long".into())));
        }
        // Digests are compared, so that the time of the search tells nothing about tokens.
        let kept = self.cache().get(&sha256(token.as_bytes())).filter(|kept| kept.until > now).cloned();
        kept.map(|answer| self.grant(request, &answer, now))
    }
}

/// Encodes a text as a value of a form.
fn form_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for b in text.bytes() {
        match b {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(b)),
            _ => out.push_str(&format!("%{b:02X}")),
        }
    }
    out
}

impl fmt::Debug for IntrospectionValidator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntrospectionValidator")
            .field("endpoint", &self.endpoint)
            .field("audiences", &self.settings.all_audiences())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod cache_tests {
    use mcp_oauth::{FetchFailure, FetchResponse};

    use super::*;

    /// Nobody is asked.
    struct NoFetcher;

    impl Fetcher for NoFetcher {
        fn fetch(&self, fetch: &Fetch) -> Result<FetchResponse, FetchFailure> {
            panic!("{fetch:?}")
        }
    }

    #[test]
    fn cache_has_ten_thousand_answers_and_forgets_the_old_ones_first() {
        let protected = Protected::new("https://h/mcp", "https://as").unwrap();
        let endpoint = "https://as/introspect";
        let validator =
            IntrospectionValidator::new(&protected, endpoint, "c", &Secret::new("s"), NoFetcher).unwrap();
        let answer = |until| CachedAnswer {
            principal: "a".into(),
            scopes: "".into(),
            thumbprint: None,
            expires: None,
            until,
        };
        let digest = |n: usize| sha256(&n.to_be_bytes());
        let is_kept = |n| validator.cache().contains_key(&digest(n));
        validator.keep(digest(0), &answer(5), 5);
        assert!(!is_kept(0), "it is old already");
        validator.keep(digest(0), &answer(6), 5);
        for n in 1..=MAX_CACHED {
            validator.keep(digest(n), &answer(7), 5);
        }
        assert!(validator.cache().len() == MAX_CACHED && is_kept(0) && !is_kept(MAX_CACHED));
        validator.keep(digest(MAX_CACHED), &answer(7), 6);
        assert!(!is_kept(0) && (1..=MAX_CACHED).all(is_kept));
        // All others have room again at the second in which theirs end.
        validator.keep(digest(0), &answer(8), 7);
        assert_eq!(validator.cache().len(), 1);
    }
}
