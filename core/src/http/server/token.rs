//! Access tokens of requests: how they are presented, the decision of the application, and the responses to it.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use subtle::ConstantTimeEq as _;

use super::exchange_table::{ExchangeId, ExchangeTable, Kind, RequestPhase};
use super::principals::admit_as;
use super::protected::{Dpop, Protected, Scheme};
use super::refusal::{HeadDecision, Refusal, overloaded};
use super::{Event, Server, shared};
use crate::ascii::AsciiCaseExt as _;
use crate::deadlines::Deadlines;
use crate::head::Fields;
use crate::http::fields;
use crate::server::{Authorization, Identity, Scopes, is_nonce};
use crate::slab::Key;
use crate::sync::Arc;
use crate::time::Instant;

/// An access token; only [`reveal`](Self::reveal) shows it (SEC-019).
///
/// It has no `==`, whose time would tell how much of a guess is right: see [`matches`](Self::matches).
#[derive(Clone)]
pub struct AccessToken(String);

impl AccessToken {
    /// Wraps a token, for tests of validators.
    #[must_use]
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// Copies a token of a field if it is one word of the characters that tokens have (RFC 6750, 2.1).
    ///
    /// `spare` is memory for it.
    fn from_field(token: &[u8], spare: Vec<u8>) -> Option<Self> {
        let token = core::str::from_utf8(token).ok().filter(|token| is_token(token.as_bytes()))?;
        let mut text = String::from_utf8(spare).unwrap_or_default();
        text.clear();
        text.push_str(token);
        Some(Self(text))
    }

    /// Returns the memory of the token for the next one, without its text, unless it is too large to be kept.
    pub(super) fn into_spare(self) -> Vec<u8> {
        let mut spare = self.0.into_bytes();
        // The text is erased: this memory stays while no request has the token (SEC-019).
        spare.fill(0);
        spare.clear();
        if spare.capacity() > MAX_KEPT { Vec::new() } else { spare }
    }

    /// Returns whether the token is an expected one, in a time that depends on the length alone.
    ///
    /// With many tokens, look up a digest of the [text](Self::reveal) instead: the time of a search among the texts
    /// themselves tells something about them.
    ///
    /// ```
    /// use mcp_proto::http::server::AccessToken;
    /// assert!(AccessToken::new("a-long-random-text").matches("a-long-random-text"));
    /// ```
    #[must_use]
    pub fn matches(&self, expected: &str) -> bool {
        self.0.as_bytes().ct_eq(expected.as_bytes()).into()
    }

    /// Returns the text of the token.
    #[must_use]
    pub fn reveal(&self) -> &str {
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

/// A decision about a token.
type Decision = Result<Arc<Identity>, Denial>;

/// The function of a validator.
type Validate = dyn Fn(&TokenRequest) -> Option<Decision> + Send + Sync;

/// Decides about tokens at once, or returns `None` if the application has to.
pub(super) struct Validator(pub(super) Box<Validate>);

impl fmt::Debug for Validator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Validator").finish_non_exhaustive()
    }
}

/// Returns the decision about the token of a request; `None` if the application has to decide.
fn validate(validator: Option<&Validator>, request: &TokenRequest) -> Option<Decision> {
    // Each request anew: a token may have been revoked since the last one (SEC-004).
    validator.and_then(|validator| (validator.0)(request))
}

/// The reason why the credentials of a request cannot be a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CredentialFault {
    /// They are not one token of a known scheme: 400.
    Malformed,
    /// The server does not take this scheme: 401.
    SchemeNotOffered(Scheme),
    /// They are of a scheme without tokens, as if there were none: 401 (RFC 6750, 3.1).
    OtherScheme,
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
            Self::SchemeNotOffered(Scheme::Dpop) | Self::OtherScheme => (401, None, None),
            Self::Proof => {
                (401, Some(Scheme::Dpop), Some(("invalid_dpop_proof", "there has to be one proof")))
            }
        }
    }
}

impl Server {
    /// Decides about the token of a request, or asks for the decision.
    pub(super) fn check_token(
        &mut self,
        key: Key,
        given: &Credentials<'_>,
        mut recent: Option<&mut RecentToken>,
    ) -> HeadDecision {
        let Some(protected) = self.config.protected_resource() else { return HeadDecision::Answered };
        let Some(x) = self.exchanges.get_mut(key) else { return HeadDecision::Answered };
        let credentials = match given.token {
            SingleValue::Absent => {
                // Without credentials there is no error code (RFC 6750, 3.1).
                let fields = protected.challenge_fields(None, None, None);
                self.exchanges.refuse_with(key, &denied(401), fields);
                return HeadDecision::Answered;
            }
            SingleValue::One(value) => {
                // The kept request names POST as its method, which a validator may look at.
                let known = recent.as_deref().filter(|_| x.kind == Kind::Post);
                if let Some(request) = known.and_then(|recent| recent.request_of(value, protected)) {
                    x.scheme = Some(Scheme::Bearer);
                    let decision = validate(self.validator.as_ref(), request);
                    return self.follow(key, decision.ok_or_else(|| request.clone()), recent);
                }
                let spare = core::mem::take(&mut self.spare_token);
                credentials(value, given.proof, protected.dpop_mode(), spare)
            }
            SingleValue::Repeated => Err(CredentialFault::Malformed),
        };
        let (scheme, token, proof) = match credentials {
            Ok(credentials) => credentials,
            Err(fault) => {
                let (status, scheme, error) = fault.response();
                let fields = protected.challenge_fields(scheme, error, None);
                self.exchanges.refuse_with(key, &denied(status), fields); // AUTH-004, AUTH-005
                return HeadDecision::Answered;
            }
        };
        let (method, url) = (method_name(given.method), protected.request_url(given.path, &self.config.path));
        let request = TokenRequest { scheme, token, proof, method, url };
        let Some(x) = self.exchanges.get_mut(key) else { return HeadDecision::Answered };
        x.scheme = Some(scheme);
        // Each request anew: a token may have been revoked since the last one (SEC-004).
        let Some(decision) = validate(self.validator.as_ref(), &request) else {
            return self.follow(key, Err(request), recent);
        };
        let is_kept = x.kind == Kind::Post && decision.is_ok();
        let unused = match recent.as_deref_mut().filter(|_| is_kept) {
            Some(recent) => recent.record_request(request),
            None => Some(request),
        };
        if let Some(request) = unused {
            self.spare_token = request.token.into_spare();
        }
        self.follow(key, Ok(decision), recent)
    }

    /// Follows the decision about the token of a request, or lets the application decide.
    fn follow(
        &mut self,
        key: Key,
        decision: Result<Decision, TokenRequest>,
        recent: Option<&mut RecentToken>,
    ) -> HeadDecision {
        match (decision, self.config.protected_resource()) {
            (Ok(Ok(identity)), _) => self.accept(key, identity, recent),
            (Ok(Err(denial)), Some(protected)) => {
                self.exchanges.refuse_token(key, protected, &denial);
                HeadDecision::Answered
            }
            (Ok(Err(_)), None) => HeadDecision::Answered,
            (Err(request), _) => {
                // `Admitted` says here that the head was read. The phase keeps the request from going on.
                let until = self.now + self.config.token_timeout;
                self.undecided.add(&mut self.exchanges, key, until, RequestPhase::Authorizing);
                self.events.push_back(Event::Token { exchange: ExchangeId(key), request });
                HeadDecision::Admitted
            }
        }
    }

    /// Lets a request act for a principal.
    fn accept(
        &mut self,
        key: Key,
        identity: Arc<Identity>,
        recent: Option<&mut RecentToken>,
    ) -> HeadDecision {
        let Some(protected) = self.config.protected_resource() else { return HeadDecision::Answered };
        let is_bound = identity.key().is_some();
        if is_bound || protected.dpop_mode() != Dpop::Off {
            // A bound token without a proof may be a stolen one. A proof for another token proves nothing (RFC 9449,
            // 7.1).
            let is_proven = self.exchanges.get(key).and_then(|x| x.scheme) == Some(Scheme::Dpop);
            if is_bound != is_proven {
                let denial = Denial::InvalidToken(wrong_binding(is_bound).into());
                self.exchanges.refuse_token(key, protected, &denial);
                return HeadDecision::Answered;
            }
        }
        let known =
            recent.as_deref().and_then(|recent| recent.authorization_of(&identity, protected)).cloned();
        let authorization = match known {
            Some(known) => known,
            None => {
                let authorization = Authorization::with_policy(identity, protected.policy().clone());
                if !authorization.has_required_scopes() {
                    let required = protected.policy().required.clone();
                    self.exchanges.refuse_token(key, protected, &Denial::InsufficientScope(required));
                    return HeadDecision::Answered;
                }
                // Only an authorization with all scopes is kept, so `authorization_of` need not check them.
                if let Some(recent) = recent {
                    recent.record_authorization(authorization.clone());
                }
                authorization
            }
        };
        admit_as(self, key, authorization)
    }

    /// Accepts the token of a request, which then acts for its principal.
    ///
    /// A token without a [scope that every request needs](super::Protected::scope) is denied with 403. One that is bound
    /// to a key is denied with 401 unless it was presented with a proof, and the other way round
    /// ([`Identity::proven_key`]).
    pub fn grant(&mut self, now: Instant, exchange: ExchangeId, identity: impl Into<Arc<Identity>>) {
        self.tick(now);
        let key = exchange.0;
        // The request may have timed out, or its client may be gone: the decision comes too late then.
        if !self.exchanges.is_authorizing(key) {
            return;
        }
        match self.accept(key, identity.into(), None) {
            HeadDecision::Admitted => {
                if let Some(x) = self.exchanges.get_mut(key) {
                    // The phase changes first, because `proceed` ignores a request in any other.
                    x.phase = RequestPhase::ReceivingBody;
                }
                self.proceed(key);
            }
            HeadDecision::Refused(refusal) => self.exchanges.refuse(key, &refusal),
            HeadDecision::Answered => {}
        }
    }

    /// Refuses a request because of its token.
    pub fn deny(&mut self, now: Instant, exchange: ExchangeId, denial: &Denial) {
        self.tick(now);
        if let Some(protected) = self.config.protected_resource() {
            if self.exchanges.is_authorizing(exchange.0) {
                self.exchanges.refuse_token(exchange.0, protected, denial);
            }
        }
    }
}

impl Protected {
    /// Adds the challenge to the response of a call that lacks scopes (AUTH-054).
    pub(super) fn challenge_call(&self, scheme: Scheme, scopes: &str, fields: &mut Fields) {
        let (error, scopes) = (Some(("insufficient_scope", "")), scopes.split(' ').collect());
        for (name, value) in self.challenge_fields(Some(scheme), error, Some(&scopes)).iter() {
            fields.push(name, value);
        }
        fields.push(fields::CACHE_CONTROL, b"no-store");
    }
}

impl ExchangeTable {
    /// Refuses a request because of its token.
    pub(super) fn refuse_token(&mut self, key: Key, protected: &Protected, denial: &Denial) {
        let scheme = self.get(key).and_then(|x| x.scheme);
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
                // Another text would not arrive as it is.
                if is_nonce(nonce) {
                    fields.push(fields::DPOP_NONCE, nonce.as_bytes());
                }
                (401, fields)
            }
            Denial::Unavailable => {
                let refusal = overloaded("the token cannot be validated at present");
                return self.refuse(key, &refusal);
            }
        };
        self.refuse_with(key, &denied(status), fields); // AUTH-004, AUTH-005
    }
}

/// Returns why a token is not accepted that is, or is not, bound to a key of which its request gives proof.
const fn wrong_binding(is_bound: bool) -> &'static str {
    if is_bound { "the token is bound to a key" } else { "no proof of a key was verified for the token" }
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
fn credentials(
    value: &[u8],
    proof: SingleValue<'_>,
    dpop: Dpop,
    spare: Vec<u8>,
) -> Result<(Scheme, AccessToken, Option<AccessToken>), CredentialFault> {
    let (scheme, token) = match () {
        () if value.starts_with(b"Bearer ") => (Scheme::Bearer, value.get(7..)),
        () if starts_with(value, b"bearer ") => (Scheme::Bearer, value.get(7..)),
        () if starts_with(value, b"dpop ") => (Scheme::Dpop, value.get(5..)),
        () if value.eq_ignore_case(b"bearer") || value.eq_ignore_case(b"dpop") => {
            return Err(CredentialFault::Malformed);
        }
        () => return Err(CredentialFault::OtherScheme),
    };
    let token = token.unwrap_or_default().trim_ascii();
    let token = AccessToken::from_field(token, spare).ok_or(CredentialFault::Malformed)?;
    match (scheme, dpop, proof) {
        (Scheme::Bearer, Dpop::Required, _) | (Scheme::Dpop, Dpop::Off, _) => {
            Err(CredentialFault::SchemeNotOffered(scheme))
        }
        (Scheme::Bearer, ..) => Ok((scheme, token, None)),
        (Scheme::Dpop, _, SingleValue::One(proof)) => match AccessToken::from_field(proof, Vec::new()) {
            Some(proof) => Ok((scheme, token, Some(proof))),
            None => Err(CredentialFault::Proof),
        },
        (Scheme::Dpop, ..) => Err(CredentialFault::Proof),
    }
}

fn starts_with(value: &[u8], scheme: &[u8]) -> bool {
    value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_case(scheme))
}

/// Number of bytes that are checked together.
const BLOCK: usize = 16;

/// Returns whether a text is a token.
fn is_token(text: &[u8]) -> bool {
    let Some(last) = text.last_chunk::<BLOCK>() else {
        return !text.is_empty() && text.iter().all(|b| is_token_byte(*b));
    };
    // All bytes of a block at once; the last block may overlap the one before it.
    let mut faults = [0_u8; BLOCK];
    let mut check = |block: &[u8]| {
        for (fault, b) in faults.iter_mut().zip(block) {
            *fault |= u8::from(!is_token_byte(*b));
        }
    };
    text.chunks_exact(BLOCK).for_each(&mut check);
    check(last);
    faults == [0; BLOCK]
}

/// Returns whether tokens may have a byte (RFC 6750, 2.1: letters, digits and `-._~+/=`).
const fn is_token_byte(b: u8) -> bool {
    // Without branches, so that a block is compared at once. In ASCII `-`, `.`, `/` and the digits are one range.
    let (is_letter, is_digit_or_mark) =
        ((b | 0x20).wrapping_sub(b'a') < 26, b.wrapping_sub(b'-') <= b'9' - b'-');
    is_letter | is_digit_or_mark | (b == b'+') | (b == b'=') | (b == b'_') | (b == b'~')
}

// The credentials of a request, as its head has them.

/// A field that must occur at most once.
#[derive(Clone, Copy, Default)]
pub(super) enum SingleValue<'a> {
    #[default]
    Absent,
    One(&'a [u8]),
    Repeated,
}

impl<'a> SingleValue<'a> {
    #[inline]
    pub(super) const fn add(&mut self, value: &'a [u8]) {
        *self = if matches!(self, Self::Absent) { Self::One(value) } else { Self::Repeated };
    }
}

/// The credentials of a request, with the method and the path that a proof names.
pub(super) struct Credentials<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) token: SingleValue<'a>,
    pub(super) proof: SingleValue<'a>,
}

// The token that a connection brought last: mostly its next request brings the same.

/// What was made of the token that a connection brought last.
///
/// It only saves doing the same again: the validator decides about each request (SEC-004).
#[derive(Debug, Default)]
pub(super) struct RecentToken(Option<Box<Parts>>);

#[derive(Debug, Default)]
struct Parts {
    /// The last accepted request for a decision about a bearer token of a POST to the endpoint. Those of the endpoint
    /// differ in the token alone.
    request: Option<TokenRequest>,
    /// The authorization that was made of an identity last. It has the scopes that every request needs.
    authorization: Option<Authorization>,
}

impl RecentToken {
    /// Returns the request for the decision about a POST to the endpoint, if its `Authorization` field has the token of
    /// the last one.
    pub(super) fn request_of(&self, field: &[u8], protected: &Protected) -> Option<&TokenRequest> {
        let request = self.0.as_deref()?.request.as_ref()?;
        // The duration tells how much of both tokens is equal, but only to the client that sent both.
        let is_same = field.strip_prefix(b"Bearer ")? == request.token.reveal().as_bytes();
        // Another server may drive the connection now.
        (is_same && protected.is_endpoint_url(&request.url)).then_some(request)
    }

    /// Records an accepted request of the endpoint. Returns the request whose memory can be used again.
    pub(super) fn record_request(&mut self, request: TokenRequest) -> Option<TokenRequest> {
        // A request with a proof never comes again, because each proof is used once.
        if request.scheme == Scheme::Bearer && request.token.reveal().len() <= MAX_KEPT {
            self.0.get_or_insert_default().request.replace(request)
        } else {
            Some(request)
        }
    }

    /// Returns the authorization of an identity, if it was made of the same object last.
    pub(super) fn authorization_of(
        &self,
        identity: &Arc<Identity>,
        protected: &Protected,
    ) -> Option<&Authorization> {
        let known = self.0.as_deref()?.authorization.as_ref()?;
        (Arc::ptr_eq(known.identity(), identity) && known.has_policy(protected.policy())).then_some(known)
    }

    /// Records the authorization that was made of an identity.
    pub(super) fn record_authorization(&mut self, authorization: Authorization) {
        self.0.get_or_insert_default().authorization = Some(authorization);
    }

    /// Forgets the token.
    pub(super) fn clear(&mut self) {
        self.0 = None;
    }
}

/// Largest memory of a token that is kept for the next request, in bytes.
pub(super) const MAX_KEPT: usize = 4 << 10;

// Requests that wait for a decision of the application, and when they stop waiting.

/// The deadlines of requests that wait for a decision: about their token, or their session. Those of decided ones are
/// dropped later.
#[derive(Debug)]
pub(super) struct UndecidedRequests(Deadlines<Key>);

impl UndecidedRequests {
    pub(super) const fn new() -> Self {
        Self(Deadlines::new())
    }

    /// Makes a request wait until a time, in a phase.
    pub(super) fn add(
        &mut self,
        exchanges: &mut ExchangeTable,
        key: Key,
        until: Instant,
        phase: RequestPhase,
    ) {
        if let Some(x) = exchanges.get_mut(key) {
            x.phase = phase;
        }
        self.add_held(exchanges, key, until);
    }

    /// Adds a request whose response is held back.
    pub(super) fn add_held(&mut self, exchanges: &ExchangeTable, key: Key, until: Instant) {
        self.0.arm(until, key);
        self.0.sweep(exchanges.len(), |_, key| exchanges.is_undecided(key));
    }

    /// Returns when the next request stops waiting.
    pub(super) fn next_deadline(&mut self, exchanges: &ExchangeTable) -> Option<Instant> {
        self.0.next(|_, key| exchanges.is_undecided(key))
    }
}

/// Refuses the requests that have waited until now, and releases memory if no exchange is open.
pub(super) fn refuse_undecided(server: &mut Server) {
    while let Some((_, key)) = server.undecided.0.pop_due(server.now) {
        // The timer of a decided request is not removed, so it may fire here.
        if server.exchanges.is_authorizing(key) {
            server.exchanges.refuse(key, &overloaded("the token was not validated in time"));
        } else if let Some(sharing) = shared::functions(server) {
            (sharing.expire)(server, key);
        }
    }
    if server.exchanges.len() == 0 {
        server.undecided = UndecidedRequests::new();
    }
}

impl Server {
    /// Returns whether the request of an exchange waits for the decision about its token.
    ///
    /// It stops waiting when its client disconnects, and after [`Config::token_timeout`](super::Config::token_timeout).
    /// A later decision has no effect.
    #[must_use]
    pub fn awaits_token_decision(&self, exchange: ExchangeId) -> bool {
        self.exchanges.is_authorizing(exchange.0)
    }
}

#[cfg(test)]
mod recent_token_tests {
    use super::super::{Config, Connection, Server};
    use super::*;
    use crate::entropy::Entropy;
    use crate::h1::HttpLimits;
    use crate::server::ScopePolicy;
    use crate::time::Instant;
    use alloc::format;

    fn protected() -> Protected {
        Protected::new("https://a.example/mcp", "https://login.example").expect("valid")
    }

    fn request(protected: &Protected, token: &str) -> TokenRequest {
        let url = protected.request_url("/mcp", "/mcp");
        TokenRequest { url, ..TokenRequest::bearer(token, "POST", "") }
    }

    // covers: SEC-004
    #[test]
    fn only_the_same_token_at_the_same_resource_is_known() {
        let (protected, mut recent) = (protected(), RecentToken::default());
        assert!(recent.request_of(b"Bearer first", &protected).is_none());
        assert!(recent.record_request(request(&protected, "first")).is_none());
        let known = |recent: &RecentToken, field: &[u8]| recent.request_of(field, &protected).is_some();
        assert!(known(&recent, b"Bearer first"));
        for other in [&b"Bearer firs"[..], b"Bearer first ", b"Bearer ", b"bearer first", b"first", b""] {
            assert!(!known(&recent, other), "{other:?}");
        }
        let elsewhere = Protected::new("https://a.example/mcp", "https://login.example").expect("valid");
        assert!(recent.request_of(b"Bearer first", &elsewhere).is_none());
        let earlier = recent.record_request(request(&protected, "second")).expect("the first one");
        assert_eq!(earlier.token.reveal(), "first");
        assert!(known(&recent, b"Bearer second") && !known(&recent, b"Bearer first"));
        let large = "x".repeat(MAX_KEPT + 1);
        let unused = recent.record_request(request(&protected, &large)).expect("too large to be kept");
        assert_eq!(unused.token.reveal(), large);
        let bound = TokenRequest { scheme: Scheme::Dpop, ..request(&protected, "bound") };
        let unused = recent.record_request(bound).expect("needs a new proof each time");
        assert_eq!(unused.token.reveal(), "bound");
        assert!(known(&recent, b"Bearer second"), "none of them took its place");
        recent.clear();
        assert!(!known(&recent, b"Bearer second"));
    }

    // covers: SEC-019
    #[test]
    fn idle_connection_forgets_the_token() {
        let http = Config::new().protected(protected());
        let server = crate::server::Config::new("demo", "1.0");
        let mut server = Server::new(Arc::new(server), Arc::new(http), Entropy::new([7; 32], 0));
        server.set_validator(|_| Some(Ok(Arc::new(Identity::new("alice")))));
        let (now, limits) = (Instant::from_micros(1), HttpLimits::default());
        let idle = now + limits.idle_trim;
        let mut connection = Connection::new(now, limits);
        connection.handle_input(
            now,
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer s3cret\r\nContent-Length: 0\r\n\r\n",
        );
        connection.drive(now, &mut server);
        let kept = connection.recent_token.0.as_ref().and_then(|parts| parts.request.as_ref());
        assert_eq!(kept.map(|request| request.token.reveal()), Some("s3cret"));
        assert!(!format!("{connection:?}").contains("s3cret"));
        connection.consume(connection.transmit().len());
        connection.drive(now, &mut server);
        connection.handle_timeout(idle);
        assert!(connection.recent_token.0.is_none());
    }

    #[test]
    fn only_the_same_identity_under_the_same_policy_is_known() {
        let (protected, mut recent) = (protected(), RecentToken::default());
        let [identity, equal] = [(); 2].map(|()| Arc::new(Identity::new("alice")));
        recent.record_authorization(Authorization::with_policy(identity.clone(), protected.policy().clone()));
        assert!(recent.authorization_of(&identity, &protected).is_some());
        assert!(recent.authorization_of(&equal, &protected).is_none());
        recent.record_authorization(Authorization::with_policy(
            identity.clone(),
            Arc::<ScopePolicy>::default(),
        ));
        assert!(recent.authorization_of(&identity, &protected).is_none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec;

    #[test]
    fn tokens_have_letters_digits_and_seven_marks_at_every_place() {
        assert!(AccessToken::from_field(b"", Vec::new()).is_none());
        let mut spare = Vec::new();
        for length in [1, 2, 15, 16, 17, 32, 63] {
            for at in [0, length / 2, length - 1] {
                for byte in 0..=u8::MAX {
                    let mut token = vec![b'x'; length];
                    token[at] = byte;
                    let expected = byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
                    let found = AccessToken::from_field(&token, core::mem::take(&mut spare));
                    assert_eq!(found.is_some(), expected, "{byte} at {at} of {length}");
                    if let Some(found) = found {
                        assert_eq!(found.reveal().as_bytes(), token);
                        spare = found.into_spare();
                    }
                }
            }
        }
    }

    // covers: SEC-019
    #[test]
    fn memory_of_a_token_is_kept_without_its_text_if_it_is_small() {
        for (capacity, kept) in [(16, 16), (MAX_KEPT, MAX_KEPT), (MAX_KEPT + 1, 0)] {
            let mut text = String::with_capacity(capacity);
            text.push_str("s3cret");
            let spare = AccessToken(text).into_spare();
            assert_eq!((spare.capacity(), spare.is_empty()), (kept, true));
        }
    }

    // covers: SEC-019
    #[test]
    fn token_matches_itself_alone() {
        let token = AccessToken::new("t0k3n");
        assert!(token.matches("t0k3n") && AccessToken::new("").matches(""));
        for other in ["", "t", "t0k3", "t0k3n ", "x0k3n", "t0k3m", "T0K3N", "t0k3n\0"] {
            assert!(!token.matches(other) && !AccessToken::new(other).matches("t0k3n"), "{other}");
        }
    }

    // covers: SEC-019
    #[test]
    fn debug_output_has_no_token() {
        let request = TokenRequest::dpop("s3cret", "pr00f", "POST", "https://a.example/");
        let shown = format!("{request:?}");
        assert!(!shown.contains("s3cret") && !shown.contains("pr00f"), "{shown}");
    }
}
