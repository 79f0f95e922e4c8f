//! Access tokens that are JWTs (RFC 9068), validated by the keys of their issuer.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use mcp_proto::http::client::{Url, UrlError};
use mcp_proto::http::server::{Denial, Protected, TokenRequest};
use mcp_proto::server::Identity;
use serde_json::Value;

use super::TokenValidator;
use super::issuer::{Issuer, Lookup};
use super::jose::{Algorithm, Claims, Jws, numeric_date};
use super::settings::{Audience, Settings, setters};
use crate::auth::Fetcher;

/// A validator of access tokens that are JWTs (RFC 9068).
///
/// The keys come from the metadata of the authorization servers of a [`Protected`] resource. They are fetched with the
/// first token, again after an hour, and for a token with an unknown key, at most four times in 30 seconds, and not for 10
/// seconds after a failure. Beyond that, a token with an unknown key gets 503 with `Retry-After`, because the key may be a
/// new one; it gets 401 if the keys were fetched for it less than 30 seconds ago. While the authorization server cannot
/// be reached, known keys are used for a day, and [`on_failure`](Self::on_failure) tells why.
///
/// A token has to have a signature by an allowed algorithm, the issuer (`iss`), this resource as audience (`aud`;
/// AUTH-010, SEC-007) and an expiration (`exp`). `nbf`, `typ` and the binding to a key (`cnf.jkt`) are checked where they
/// are there. Times may differ by 60 seconds.
///
/// The type (`typ`) may be `at+jwt`, and also `JWT` or none, because many authorization servers do not issue `at+jwt`;
/// [`require_type`](Self::require_type) accepts that alone, as RFC 9068 asks. What must not be taken for an access token
/// is an ID token, which the same keys sign. Its audience is never the identifier of a resource, but it may be a name that
/// [`audience`](Self::audience) adds. A token for such an audience without the type `at+jwt` therefore has to have
/// `scope`, `scp` or `client_id` (or `azpacr`, `appidacr` of Microsoft Entra), which ID tokens do not have (RFC 8725, 3.12).
///
/// The principal is `sub`, or `client_id` if there is none; of several issuers, with that of the token before it
/// (`https://login.example.com alice`). The scopes are those of `scope` or `scp`.
///
/// ```no_run
/// use mcp_proto::http::server::{Config as Http, Protected};
/// use mcp_proto::{model::CallToolResult, server::{Call, Config}};
/// use mcp_std::adapter::server::{Cx, HttpServer};
/// use mcp_std::{auth::HttpFetcher, token::JwtValidator};
///
/// let handler = |cx: &mut Cx<'_>, _: &Call| cx.complete(&CallToolResult::text("hello"));
/// let protected = Protected::new("https://tools.example.com/mcp", "https://login.example.com")?;
/// let validator = JwtValidator::new(&protected, HttpFetcher::new());
/// let http = Http::new().allow_host("tools.example.com").protected(protected);
/// let server = HttpServer::bind("127.0.0.1:8080", Config::new("demo", "1.0"), http, handler)?;
/// server.validate_tokens(validator).run()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct JwtValidator {
    issuers: Vec<Issuer>,
    algorithms: Vec<Algorithm>,
    skew: u64,
    requires_type: bool,
    fetcher: Box<dyn Fetcher>,
    settings: Settings,
}

setters!(JwtValidator);

impl JwtValidator {
    /// Creates a validator of the tokens for a resource.
    pub fn new(protected: &Protected, fetcher: impl Fetcher + 'static) -> Self {
        Self {
            issuers: protected.issuers().map(|issuer| Issuer::new(issuer, None)).collect(),
            algorithms: Algorithm::ALL.to_vec(),
            skew: 60,
            requires_type: false,
            fetcher: Box::new(fetcher),
            settings: Settings::new(protected),
        }
    }

    /// Sets the algorithms that are allowed (default: RSA, RSA-PSS, ECDSA and Ed25519).
    #[must_use]
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }

    /// Sets by how much clocks may differ (default 60 s; seconds are rounded down; at most 5 min).
    #[must_use]
    pub fn clock_skew(mut self, skew: Duration) -> Self {
        self.skew = skew.as_secs().min(300);
        self
    }

    /// Accepts only tokens of the type `at+jwt` (RFC 9068, 4). By default `JWT` and none are accepted, too, as the
    /// [type](Self) says.
    #[must_use]
    pub const fn require_type(mut self) -> Self {
        self.requires_type = true;
        self
    }

    /// Sets the URL of the keys of an issuer, which then needs no metadata. No effect for an unknown issuer.
    ///
    /// # Errors
    ///
    /// [`UrlError`] if it is not a URL, or is neither `https` nor on this machine: keys over a connection that anyone can
    /// change are no keys.
    pub fn keys_url(mut self, issuer: &str, url: &str) -> Result<Self, UrlError> {
        let url = confidential_url(url)?;
        for known in self.issuers.iter_mut().filter(|known| known.identifier() == issuer) {
            *known = Issuer::new(issuer, Some(url.clone()));
        }
        Ok(self)
    }

    /// Decides about a token, or returns whose keys have to be fetched first.
    fn decide(
        &self,
        request: &TokenRequest,
        now: u64,
    ) -> Result<Result<Arc<Identity>, Denial>, MissingKey<'_>> {
        let invalid = |why: &'static str| Ok(Err(Denial::InvalidToken(why.into())));
        let Some(jws) = Jws::parse(request.token.reveal()) else {
            return invalid("the token is not a JWT with an accepted signature");
        };
        if !self.algorithms.contains(&jws.algorithm) || !self.accepts_type(jws.kind()) {
            return invalid("the type or the algorithm of the token is not accepted");
        }
        let Some(issuer) =
            jws.issuer().and_then(|issuer| self.issuers.iter().find(|i| i.identifier() == issuer))
        else {
            return invalid("the token has another issuer");
        };
        let keys = match issuer.find(jws.key_id(), jws.algorithm, now) {
            Lookup::Found(keys) => keys,
            Lookup::Unavailable => return Ok(Err(Denial::Unavailable)),
            Lookup::Fetch(version) => {
                let (id, algorithm) = (jws.key_id().map(Into::into), jws.algorithm);
                return Err(MissingKey { issuer, id, algorithm, version });
            }
        };
        let Some(claims) = keys.iter().find_map(|key| jws.verify(key)) else {
            return invalid("the signature of the token does not fit");
        };
        Ok(self.check_claims(request, issuer, (&claims, is_access_token_type(jws.kind())), now))
    }

    fn accepts_type(&self, kind: Option<&str>) -> bool {
        let is_plain = || kind.is_none_or(|kind| short_type(kind).eq_ignore_ascii_case("jwt"));
        is_access_token_type(kind) || (!self.requires_type && is_plain())
    }

    fn check_claims(
        &self,
        request: &TokenRequest,
        issuer: &Issuer,
        (claims, is_typed): (&Claims, bool),
        now: u64,
    ) -> Result<Arc<Identity>, Denial> {
        let invalid = |why: &'static str| Denial::InvalidToken(why.into());
        // AUTH-010, SEC-007
        let audience = self.settings.find_audience(claims);
        let audience = audience.ok_or_else(|| invalid("the token is for another server"))?;
        if audience == Audience::Other && !is_typed && !is_like_an_access_token(claims) {
            return Err(invalid("the token does not say that it is an access token"));
        }
        let expires =
            claims.get("exp").and_then(numeric_date).ok_or_else(|| invalid("the token never expires"))?;
        let remaining = expires.saturating_add(self.skew).checked_sub(now).filter(|seconds| *seconds > 0);
        let remaining = remaining.ok_or_else(|| invalid("the token has expired"))?;
        if let Some(begins) = claims.get("nbf") {
            let begins = numeric_date(begins).ok_or_else(|| invalid("`nbf` is not a time"))?;
            if begins > now.saturating_add(self.skew) {
                return Err(invalid("the token is not valid yet"));
            }
        }
        let subject = principal(claims)?;
        let key = self.settings.dpop.verify_at(request, thumbprint(claims)?, now)?;
        let principal = match &*self.issuers {
            [_] => subject,
            _ => format!("{} {subject}", issuer.identifier()),
        };
        let identity = Identity::new(principal).scopes(&scopes(claims)).proven_key(key);
        Ok(Arc::new(identity.valid_for(Duration::from_secs(remaining))))
    }
}

/// A key that has to be fetched to decide about a token.
struct MissingKey<'a> {
    issuer: &'a Issuer,
    id: Option<String>,
    algorithm: Algorithm,
    /// The version of the keys among which it is not.
    version: u64,
}

impl Jws<'_> {
    /// Returns the issuer that the payload claims, to find the keys by which that is verified.
    fn issuer(&self) -> Option<String> {
        let payload = self.unverified()?;
        payload.get("iss")?.as_str().map(Into::into)
    }
}

impl TokenValidator for JwtValidator {
    fn validate(&self, request: &TokenRequest) -> Result<Arc<Identity>, Denial> {
        let clock = &self.settings.clock;
        let MissingKey { issuer, id, algorithm, version } = match self.decide(request, clock.now()) {
            Ok(decision) => return decision,
            Err(missing) => missing,
        };
        let failures = issuer.refresh(&*self.fetcher, (id.as_deref(), algorithm), version, clock);
        failures.iter().for_each(|failure| self.settings.failures.report(failure));
        // The token may have expired meanwhile.
        self.decide(request, clock.now()).unwrap_or(Err(Denial::Unavailable))
    }

    fn validate_now(&self, request: &TokenRequest) -> Option<Result<Arc<Identity>, Denial>> {
        self.decide(request, self.settings.clock.now()).ok()
    }
}

impl fmt::Debug for JwtValidator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JwtValidator")
            .field("issuers", &self.issuers.iter().map(Issuer::identifier).collect::<Vec<_>>())
            .field("audiences", &self.settings.all_audiences())
            .finish_non_exhaustive()
    }
}

/// Parses a URL whose connection nobody else can read or change: `https`, or on this machine.
///
/// # Errors
///
/// [`UrlError`] if it is not a URL; [`UrlError::Scheme`] also if it is `http` to another machine.
pub(super) fn confidential_url(text: &str) -> Result<Url, UrlError> {
    let url = Url::parse(text)?;
    if url.origin().secure || url.origin().is_loopback() { Ok(url) } else { Err(UrlError::Scheme) }
}

/// Returns a media type of a header without the part that may be left out (RFC 7515, 4.1.9).
fn short_type(kind: &str) -> &str {
    kind.strip_prefix("application/").unwrap_or(kind)
}

/// Returns whether the type is that of access tokens (RFC 9068, 2.1).
fn is_access_token_type(kind: Option<&str>) -> bool {
    kind.is_some_and(|kind| short_type(kind).eq_ignore_ascii_case("at+jwt"))
}

/// Returns whether claims are those of an access token, and not of an ID token, which has none of these (RFC 8725, 3.12).
///
/// `roles` says nothing: issuers write it into both.
fn is_like_an_access_token(claims: &Claims) -> bool {
    // The last two are those of Microsoft Entra for the client of a token without scopes.
    ["scope", "scp", "client_id", "azpacr", "appidacr"].iter().any(|name| claims.contains_key(*name))
}

/// Returns the party for which the bearer of a token acts: its subject, or the client itself as `client ID`, which is not
/// the user of that name (RFC 9068, 5).
pub(super) fn principal(claims: &Claims) -> Result<String, Denial> {
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(String::from);
    let found = match claims.get("sub").filter(|subject| !subject.is_null()) {
        Some(subject) => text(subject),
        None => claims.get("client_id").and_then(text).map(|client| format!("client {client}")),
    };
    found.ok_or_else(|| Denial::InvalidToken("the token names nobody".into()))
}

/// Returns the scopes of a token, separated by spaces.
pub(super) fn scopes(claims: &Claims) -> String {
    match claims.get("scope").or_else(|| claims.get("scp")) {
        Some(Value::String(scopes)) => scopes.clone(),
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    }
}

/// Returns the thumbprint of the key to which a token is bound.
///
/// # Errors
///
/// The denial of a token with a binding that is not known here: its bearer cannot be checked.
pub(super) fn thumbprint(claims: &Claims) -> Result<Option<&str>, Denial> {
    let Some(binding) = claims.get("cnf") else { return Ok(None) };
    match binding.get("jkt").and_then(Value::as_str) {
        Some(thumbprint) => Ok(Some(thumbprint)),
        None => Err(Denial::InvalidToken("the token is bound in a way that is not known here".into())),
    }
}
