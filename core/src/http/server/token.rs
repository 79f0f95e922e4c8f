//! Access tokens of requests: how they are presented, the decision of the application, and the responses to it.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use super::admission::SingleValue;
use super::exchange::{ExchangeId, RequestPhase};
use super::protected::{Dpop, Scheme};
use super::refusal::{Refusal, overloaded};
use super::{Event, Server};
use crate::ascii::AsciiCaseExt as _;
use crate::head::Fields;
use crate::http::fields;
use crate::server::{Authorization, Identity, Scopes};
use crate::slab::Key;
use crate::time::Instant;

/// An access token; only [`reveal`](Self::reveal) shows it (SEC-019).
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(Box<str>);

impl AccessToken {
    /// Wraps a token, for tests of validators.
    #[must_use]
    pub fn new(token: impl Into<Box<str>>) -> Self {
        Self(token.into())
    }

    /// Returns the text of the token.
    #[must_use]
    pub const fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

/// A token to validate, with what a DPoP proof is compared with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TokenRequest {
    /// How the token was presented.
    pub scheme: Scheme,
    /// The token: one or more letters, digits and `-._~+/=`.
    pub token: AccessToken,
    /// The proof; it is there exactly with [`Scheme::Dpop`].
    pub proof: Option<AccessToken>,
    /// The method of the request.
    pub method: &'static str,
    /// The URL of the request as clients know it, without a query.
    pub url: Arc<str>,
}

impl TokenRequest {
    /// Creates a request with a bearer token, for tests of validators.
    #[must_use]
    pub fn bearer(token: &str, method: &'static str, url: &str) -> Self {
        Self { scheme: Scheme::Bearer, token: AccessToken::new(token), proof: None, method, url: url.into() }
    }

    /// Creates a request with a token that is bound to a key, for tests of validators.
    #[must_use]
    pub fn dpop(token: &str, proof: &str, method: &'static str, url: &str) -> Self {
        let proof = Some(AccessToken::new(proof));
        Self { scheme: Scheme::Dpop, proof, ..Self::bearer(token, method, url) }
    }
}

/// The reason why a token is not accepted (RFC 6750, 3.1; RFC 9449, 7.1).
///
/// Descriptions are sent to the client and must not hold secrets.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Denial {
    /// The token is unknown, expired, revoked, or for another server: 401. The text is a description, or empty.
    InvalidToken(Cow<'static, str>),
    /// The token is valid but lacks scopes for every request: 403. Names all scopes that are needed.
    InsufficientScope(Scopes),
    /// The DPoP proof is missing or does not fit: 401. The text is a description, or empty.
    InvalidDpopProof(Cow<'static, str>),
    /// The DPoP proof must contain this nonce: 401, with a `DPoP-Nonce` field (RFC 9449, 9).
    UseDpopNonce(String),
    /// The token could not be validated now: 503.
    Unavailable,
}

impl Denial {
    /// Returns the denial of a token without a description.
    #[must_use]
    pub const fn invalid_token() -> Self {
        Self::InvalidToken(Cow::Borrowed(""))
    }
}

/// The reason why the credentials of a request cannot be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CredentialFault {
    /// They are not one token of a known scheme: 400.
    Malformed,
    /// The server does not take this scheme: 401.
    SchemeNotOffered(Scheme),
    /// There is not exactly one proof: 401.
    Proof,
}

impl CredentialFault {
    /// Returns the status, the scheme of the challenge, and its error code with a description.
    const fn response(self) -> (u16, Option<Scheme>, Option<(&'static str, &'static str)>) {
        match self {
            Self::Malformed => (400, None, Some(("invalid_request", ""))),
            Self::SchemeNotOffered(Scheme::Bearer) => {
                (401, None, Some(("invalid_token", "the token has to be bound to a key")))
            }
            Self::SchemeNotOffered(Scheme::Dpop) => (401, None, None),
            Self::Proof => {
                (401, Some(Scheme::Dpop), Some(("invalid_dpop_proof", "there has to be one proof")))
            }
        }
    }
}

impl Server {
    /// Asks for the decision about the token of a request; `Err(None)` means that it was answered already.
    pub(super) fn check_token(
        &mut self,
        key: Key,
        (method, path): (&str, &str),
        given: SingleValue<'_>,
        proof: SingleValue<'_>,
    ) -> Result<(), Option<Refusal>> {
        let Some(protected) = &self.config.protected else { return Ok(()) };
        let credentials = match given {
            SingleValue::Absent => {
                // Without credentials there is no error code (RFC 6750, 3.1).
                let fields = protected.challenge_fields(None, None, None);
                self.exchanges.refuse_with(key, &denied(401), fields);
                return Err(None);
            }
            SingleValue::One(value) => credentials(value, proof, protected.dpop_mode()),
            SingleValue::Repeated => Err(CredentialFault::Malformed),
        };
        let fault = match credentials {
            Ok((scheme, token, proof)) => {
                let request = TokenRequest {
                    scheme,
                    token: AccessToken(token.into()),
                    proof: proof.map(AccessToken::new),
                    method: method_name(method),
                    url: protected.request_url(path, &self.config.path),
                };
                if let Some(x) = self.exchanges.get_mut(key) {
                    (x.phase, x.scheme) = (RequestPhase::Authorizing, Some(scheme));
                }
                self.events.push_back(Event::Token { exchange: ExchangeId(key), request });
                return Ok(());
            }
            Err(fault) => fault,
        };
        let (status, scheme, error) = fault.response();
        let fields = protected.challenge_fields(scheme, error, None);
        self.exchanges.refuse_with(key, &denied(status), fields); // AUTH-004, AUTH-005
        Err(None)
    }

    /// Accepts the token of a request, which then acts for its principal.
    ///
    /// A token without a [scope that every request needs](super::Protected::scope) is denied with 403.
    pub fn grant(&mut self, now: Instant, exchange: ExchangeId, identity: impl Into<Arc<Identity>>) {
        self.tick(now);
        let key = exchange.0;
        let Some(protected) = self.config.protected.as_ref().filter(|_| self.exchanges.is_authorizing(key))
        else {
            return;
        };
        let authorization = Authorization::with_policy(identity.into(), protected.policy().clone());
        if !authorization.has_required_scopes() {
            let required = protected.policy().required.clone();
            return self.deny(now, exchange, &Denial::InsufficientScope(required));
        }
        if !self.admit_principal(authorization.principal()) {
            return self
                .exchanges
                .refuse(key, &overloaded("too many requests of this principal are in work"));
        }
        let expires = authorization.identity().lifetime().map(|lifetime| self.now + lifetime);
        self.exchanges.set_authorization(key, authorization);
        if let Some(x) = self.exchanges.get_mut(key) {
            (x.phase, x.expires) = (RequestPhase::ReceivingBody, expires);
        }
        self.proceed(key);
    }

    /// Refuses a request because of its token.
    pub fn deny(&mut self, now: Instant, exchange: ExchangeId, denial: &Denial) {
        self.tick(now);
        let key = exchange.0;
        if !self.exchanges.is_authorizing(key) {
            return;
        }
        let scheme = self.exchanges.get(key).and_then(|x| x.scheme);
        let Some(protected) = &self.config.protected else { return };
        let challenge =
            |scheme, error, why, scopes| protected.challenge_fields(scheme, Some((error, why)), scopes);
        let dpop = Some(Scheme::Dpop);
        let (status, fields) = match denial {
            Denial::InvalidToken(why) => (401, challenge(scheme, "invalid_token", &**why, None)),
            Denial::InsufficientScope(scopes) => {
                (403, challenge(scheme, "insufficient_scope", "", Some(scopes)))
            }
            Denial::InvalidDpopProof(why) => (401, challenge(dpop, "invalid_dpop_proof", &**why, None)),
            Denial::UseDpopNonce(nonce) => {
                let mut fields = challenge(dpop, "use_dpop_nonce", "", None);
                // A nonce is one word of visible ASCII; another one would not arrive as it is.
                if !nonce.is_empty() && nonce.bytes().all(|b| b.is_ascii_graphic()) {
                    fields.push(fields::DPOP_NONCE, nonce.as_bytes());
                }
                (401, fields)
            }
            Denial::Unavailable => {
                let refusal = overloaded("the token cannot be validated at present");
                return self.exchanges.refuse(key, &refusal);
            }
        };
        self.exchanges.refuse_with(key, &denied(status), fields); // AUTH-004, AUTH-005
    }

    /// Adds the challenge to the response of a call that lacks scopes, and returns its status (AUTH-054).
    pub(super) fn challenge_call(&mut self, key: Key, stream: Key, fields: &mut Fields) -> Option<u16> {
        let scopes = self.engine.exchanges().take_required_scopes(stream)?.split(' ').collect();
        let scheme = self.exchanges.get(key)?.scheme?;
        let error = Some(("insufficient_scope", ""));
        let protected = self.config.protected.as_ref()?;
        for (name, value) in protected.challenge_fields(Some(scheme), error, Some(&scopes)).iter() {
            fields.push(name, value);
        }
        fields.push(fields::CACHE_CONTROL, b"no-store");
        Some(403)
    }
}

fn denied(status: u16) -> Refusal {
    // Nothing of MCP is revealed here (AUTH-070).
    let reason = match status {
        401 => "a good token is needed",
        403 => "the token does not allow this",
        _ => "the `Authorization` field is not one token",
    };
    Refusal::new(status, reason)
}

/// Returns the name of a method that reaches the check of tokens.
fn method_name(method: &str) -> &'static str {
    match method {
        "GET" => "GET",
        "DELETE" => "DELETE",
        _ => "POST",
    }
}

/// Returns the scheme, the token and the proof of an `Authorization` field (RFC 6750, 2.1; RFC 9449, 7.1).
fn credentials<'a>(
    value: &'a [u8],
    proof: SingleValue<'a>,
    dpop: Dpop,
) -> Result<(Scheme, &'a str, Option<&'a str>), CredentialFault> {
    let (scheme, token) = match () {
        () if value.starts_with(b"Bearer ") => (Scheme::Bearer, value.get(7..)),
        () if starts_with(value, b"bearer ") => (Scheme::Bearer, value.get(7..)),
        () if starts_with(value, b"dpop ") => (Scheme::Dpop, value.get(5..)),
        () => return Err(CredentialFault::Malformed),
    };
    let token = token68(token.unwrap_or_default().trim_ascii()).ok_or(CredentialFault::Malformed)?;
    match (scheme, dpop, proof) {
        (Scheme::Bearer, Dpop::Required, _) | (Scheme::Dpop, Dpop::Off, _) => {
            Err(CredentialFault::SchemeNotOffered(scheme))
        }
        (Scheme::Bearer, ..) => Ok((scheme, token, None)),
        (Scheme::Dpop, _, SingleValue::One(proof)) => match token68(proof) {
            Some(proof) => Ok((scheme, token, Some(proof))),
            None => Err(CredentialFault::Proof),
        },
        (Scheme::Dpop, ..) => Err(CredentialFault::Proof),
    }
}

fn starts_with(value: &[u8], scheme: &[u8]) -> bool {
    value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_case(scheme))
}

/// Returns the text if it is one word of the characters that tokens have (RFC 6750, 2.1).
fn token68(text: &[u8]) -> Option<&str> {
    // Two masks in place of many comparisons: tokens are long.
    let mask = |b: u8| if b & 64 == 0 { LOW } else { HIGH };
    let is_valid = text.iter().all(|b| b.is_ascii() && (mask(*b) >> (b & 63)) & 1 == 1);
    if text.is_empty() || !is_valid { None } else { core::str::from_utf8(text).ok() }
}

/// The characters of tokens below 64, as bits.
const LOW: u64 = token_characters(0);
/// The characters of tokens from 64 to 127, as bits.
const HIGH: u64 = token_characters(64);

/// Returns which of 64 bytes may be part of a token.
const fn token_characters(first: u8) -> u64 {
    let (mut mask, mut at) = (0, 0);
    while at < 64 {
        let b = first + at;
        if b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=') {
            mask |= 1 << at;
        }
        at += 1;
    }
    mask
}
