//! Access tokens that are JWTs (RFC 9068), validated by the keys of their issuer.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk};
use jsonwebtoken::{Algorithm as AnyAlgorithm, DecodingKey, DecodingKeyKind, Header};
use mcp_proto::http::client::{Url, UrlError};
use mcp_proto::http::server::{Denial, Protected, TokenRequest};
use mcp_proto::server::Identity;
use ring::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::{Map, Value};

use super::TokenValidator;
use super::issuer::{Issuer, Lookup};
use super::settings::{Audience, Settings, setters};
use crate::client::Fetcher;

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
/// ```
/// use mcp_auth::client::HttpFetcher;
/// use mcp_auth::token::JwtValidator;
/// use mcp_proto::http::server::{Config, Protected};
///
/// let protected = Protected::new("https://tools.example.com/mcp", "https://login.example.com")?;
/// let validator = JwtValidator::new(&protected, HttpFetcher::new());
/// let config = Config::new().allow_host("tools.example.com").protected(protected);
/// // `HttpServer::bind` of an adapter takes the configuration, and its `validate_tokens` the validator.
/// # let _ = (validator, config);
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

// Signed JSON objects: headers and keys by `jsonwebtoken`, signatures by `ring` (RFC 7515, RFC 7517, RFC 7518).
//
// The functions of `jsonwebtoken` that verify are not used: they take the cryptography from a variable of the process,
// which belongs to the application, and refuse headers that issuers do send (`DESIGN-43`).

/// The claims of a token.
pub(super) type Claims = Map<String, Value>;

/// Length of the longest token that is read, in bytes.
pub(super) const MAX_TOKEN: usize = 16 << 10;

/// An algorithm by which a token may be signed. `none` and those with a shared secret are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512.
    Rs512,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// RSASSA-PSS with SHA-384.
    Ps384,
    /// RSASSA-PSS with SHA-512.
    Ps512,
    /// ECDSA over P-256 with SHA-256.
    Es256,
    /// ECDSA over P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// All of them.
    pub(super) const ALL: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// Returns the value of `alg`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// Returns an algorithm of the library. `None` for those with a shared secret; it has no `none`.
    const fn accepted(algorithm: AnyAlgorithm) -> Option<Self> {
        Some(match algorithm {
            AnyAlgorithm::RS256 => Self::Rs256,
            AnyAlgorithm::RS384 => Self::Rs384,
            AnyAlgorithm::RS512 => Self::Rs512,
            AnyAlgorithm::PS256 => Self::Ps256,
            AnyAlgorithm::PS384 => Self::Ps384,
            AnyAlgorithm::PS512 => Self::Ps512,
            AnyAlgorithm::ES256 => Self::Es256,
            AnyAlgorithm::ES384 => Self::Es384,
            AnyAlgorithm::EdDSA => Self::EdDsa,
            AnyAlgorithm::HS256 | AnyAlgorithm::HS384 | AnyAlgorithm::HS512 => return None,
        })
    }

    /// Returns the parameters of an algorithm for RSA keys.
    fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            Self::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            Self::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            Self::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            Self::Es256 | Self::Es384 | Self::EdDsa => return None,
        })
    }

    /// Returns the curve and the parameters of an algorithm for keys on curves.
    fn elliptic(self) -> Option<(EllipticCurve, &'static dyn VerificationAlgorithm)> {
        match self {
            Self::Es256 => Some((EllipticCurve::P256, &signature::ECDSA_P256_SHA256_FIXED)),
            Self::Es384 => Some((EllipticCurve::P384, &signature::ECDSA_P384_SHA384_FIXED)),
            Self::EdDsa => Some((EllipticCurve::Ed25519, &signature::ED25519)),
            _ => None,
        }
    }
}

/// Members of a header that are used; `jwk` is read apart from them.
const MEMBERS: [&str; 3] = ["alg", "kid", "typ"];

/// A signed object whose signature was not verified yet (the compact form of JWS).
pub(super) struct Jws<'a> {
    pub(super) algorithm: Algorithm,
    header: Header,
    /// The member `jwk` of the header.
    jwk: Option<Value>,
    payload: Vec<u8>,
    signed: &'a str,
    signature: Vec<u8>,
}

impl<'a> Jws<'a> {
    /// Reads a token. `None` if it is not one, is signed by another algorithm, or has extensions that must be known.
    pub(super) fn parse(token: &'a str) -> Option<Self> {
        if token.len() > MAX_TOKEN {
            return None;
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, payload) = signed.split_once('.')?;
        let mut members = object(&decode(header)?)?;
        if members.contains_key("crit") || members.contains_key("b64") {
            return None;
        }
        let jwk = members.remove("jwk");
        // Unknown members are ignored (RFC 7515, 4), which the library does only if they are strings.
        members.retain(|name, _| MEMBERS.contains(&name.as_str()));
        let header: Header = serde_json::from_value(Value::Object(members)).ok()?;
        let algorithm = Algorithm::accepted(header.alg)?;
        let (payload, signature) = (decode(payload)?, decode(signature)?);
        Some(Self { algorithm, header, jwk, payload, signed, signature })
    }

    /// Returns the type of the object (`typ`).
    pub(super) fn kind(&self) -> Option<&str> {
        self.header.typ.as_deref()
    }

    /// Returns the id of the key (`kid`).
    pub(super) fn key_id(&self) -> Option<&str> {
        self.header.kid.as_deref()
    }

    /// Returns the key in the header (`jwk`), which anybody may have put there.
    pub(super) fn own_key(&self) -> Option<PublicKey> {
        PublicKey::from_jwk(&public_jwk(self.jwk.as_ref()?.as_object()?)?)
    }

    /// Returns the claims, which may be forged.
    pub(super) fn unverified(&self) -> Option<Map<String, Value>> {
        object(&self.payload)
    }

    /// Verifies the signature and returns the claims.
    pub(super) fn verify(&self, key: &PublicKey) -> Option<Map<String, Value>> {
        if !key.verify(self.algorithm, self.signed.as_bytes(), &self.signature) {
            return None;
        }
        object(&self.payload)
    }
}

/// Decodes Base64url without padding.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Encodes Base64url without padding.
pub(super) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the SHA-256 digest.
pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut digest = [0; 32];
    digest.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref());
    digest
}

/// Reads a JSON object.
pub(super) fn object(json: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(json).ok()
}

/// Returns a time in seconds (`NumericDate`), rounded down. Negative times are none.
pub(super) fn numeric_date(value: &Value) -> Option<u64> {
    let number = value.as_number()?;
    // Beyond 2^53 a float is no exact time.
    number.as_u64().or_else(|| number.as_f64().filter(|t| (0.0..9e15).contains(t)).map(|t| t as u64))
}

/// Members of a JWK that are private.
const PRIVATE_MEMBERS: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// Reads a JWK. `None` if it is of an unknown kind, or not public.
pub(super) fn public_jwk(jwk: &Map<String, Value>) -> Option<Jwk> {
    // The library ignores these members.
    if PRIVATE_MEMBERS.iter().any(|name| jwk.contains_key(*name)) {
        return None;
    }
    serde_json::from_value(Value::Object(jwk.clone())).ok()
}

/// A public key for signatures.
#[derive(Clone, Debug)]
pub(super) struct PublicKey {
    key: DecodingKey,
    /// The curve of a key that is not for RSA. The key of the library does not tell P-256 from P-384.
    curve: Option<EllipticCurve>,
}

impl PublicKey {
    /// Reads a key for signatures. `None` if it is of another kind, or its length is not that of its curve.
    pub(super) fn from_jwk(jwk: &Jwk) -> Option<Self> {
        let (curve, length) = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => (None, None),
            AlgorithmParameters::EllipticCurve(key) if key.x.len() == key.y.len() => match key.curve {
                EllipticCurve::P256 => (Some(EllipticCurve::P256), Some(1 + 2 * 32)),
                EllipticCurve::P384 => (Some(EllipticCurve::P384), Some(1 + 2 * 48)),
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                (Some(EllipticCurve::Ed25519), Some(32))
            }
            _ => return None,
        };
        let key = Self { key: DecodingKey::from_jwk(jwk).ok()?, curve };
        (key.bytes().map(<[u8]>::len) == length).then_some(key)
    }

    /// Returns the bytes of a key that is not for RSA.
    fn bytes(&self) -> Option<&[u8]> {
        match self.key.kind() {
            DecodingKeyKind::SecretOrDer(bytes) => Some(bytes),
            DecodingKeyKind::RsaModulusExponent { .. } => None,
        }
    }

    /// Returns the coordinates of a key for P-256.
    pub(super) fn p256(&self) -> Option<(&[u8], &[u8])> {
        let point = self.bytes().filter(|_| self.curve == Some(EllipticCurve::P256))?;
        // The uncompressed form: 4, then both coordinates (SEC 1, 2.3.3).
        point.strip_prefix(&[4])?.split_at_checked(32)
    }

    /// Returns whether a signature is valid. An algorithm for another kind of key verifies nothing.
    fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let outcome = match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => algorithm
                .rsa()
                .map(|parameters| RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)),
            DecodingKeyKind::SecretOrDer(key) => algorithm
                .elliptic()
                .filter(|(curve, _)| self.curve.as_ref() == Some(curve))
                .map(|(_, parameters)| UnparsedPublicKey::new(parameters, key).verify(message, signature)),
        };
        outcome.is_some_and(|outcome| outcome.is_ok())
    }
}
