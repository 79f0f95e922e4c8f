//! Proofs that a client has the key to which its token is bound (RFC 9449).

mod memory;
mod nonces;

use alloc::string::String;
use core::fmt;
use core::time::Duration;
use std::io;
use std::sync::{Mutex, PoisonError};

use mcp_proto::http::client::Url;
use mcp_proto::http::server::{Denial, Scheme, TokenRequest};
use mcp_proto::server::ProvenKey;
use ring::rand::{SecureRandom as _, SystemRandom};

use self::memory::{MemoryError, ProofMemory};
use self::nonces::{NonceAge, Nonces};
use super::clock::UnixClock;
use super::jose::{Algorithm, Jws, encode, numeric_date, sha256};

/// Seconds by which the time of a proof may differ from ours, in both directions.
const MAX_AGE: u64 = 60;
/// Length of the longest `jti`, in bytes.
const MAX_JTI: usize = 512;

/// A verifier of the proofs by which clients show that they have the key of their token (DPoP, RFC 9449).
///
/// It checks the signature (ES256), the key, the method, the URL, the token, and the time of a proof, which may differ
/// by 60 seconds from ours. A proof is accepted once. Those that could be used again are remembered: 65,536 at most, of
/// one key at most as many as there are free places. Beyond that requests get 503.
///
/// [`JwtValidator`](super::JwtValidator) and [`IntrospectionValidator`](super::IntrospectionValidator) have one. A
/// closure that decides about tokens calls it itself; without that, no token that is presented with a proof is accepted
/// ([`Identity::proven_key`](mcp_proto::server::Identity::proven_key)). All clones and shards of a server have to share
/// one verifier.
///
/// ```
/// use mcp_proto::http::server::{Denial, TokenRequest};
/// use mcp_proto::server::Identity;
/// use mcp_std::token::DpopVerifier;
///
/// /// What the application knows about a token.
/// struct Grant {
///     user: String,
///     key: Option<String>,
/// }
/// # fn look_up(_: &TokenRequest) -> Option<Grant> {
/// #     Some(Grant { user: "alice".into(), key: Some("x".into()) })
/// # }
///
/// let dpop = DpopVerifier::new();
/// let validator = move |request: &TokenRequest| {
///     let grant = look_up(request).ok_or(Denial::invalid_token())?;
///     let key = dpop.verify(request, grant.key.as_deref())?;
///     Ok(Identity::new(grant.user).proven_key(key))
/// };
/// let stolen = TokenRequest::bearer("a-long-random-text", "POST", "https://tools.example.com/mcp");
/// let decision: Result<Identity, Denial> = validator(&stolen);
/// assert_eq!(decision, Err(Denial::InvalidToken("the token is bound to a key".into())));
/// ```
pub struct DpopVerifier {
    used: Mutex<ProofMemory>,
    nonces: Option<Nonces>,
    clock: UnixClock,
}

impl DpopVerifier {
    /// Creates a verifier that has seen no proof, and needs no nonces.
    #[must_use]
    pub fn new() -> Self {
        Self { used: Mutex::default(), nonces: None, clock: UnixClock::default() }
    }

    /// Accepts only proofs with a nonce of this server, so that none can be made in advance (RFC 9449, 8 and 9).
    ///
    /// A client without one is told it in the refusal, and repeats its request. There is another nonce after each
    /// `period` (seconds are rounded down; at least 1 s; five minutes are usual). The one before is accepted, too, and
    /// the response then tells the client the current one.
    ///
    /// The nonces come from a random secret of this verifier. Processes that serve the same clients have to share one:
    /// see [`nonce_secret`](Self::nonce_secret).
    ///
    /// # Errors
    ///
    /// That of the random generator of the system.
    pub fn require_nonces(self, period: Duration) -> io::Result<Self> {
        let mut secret = [0; 32];
        let filled = SystemRandom::new().fill(&mut secret);
        filled.map_err(|_| io::Error::other("the system has no random bytes for the secret of nonces"))?;
        Ok(self.nonce_secret(&secret, period))
    }

    /// Sets the secret of which the nonces are made; otherwise as [`require_nonces`](Self::require_nonces).
    ///
    /// It must come from a cryptographic source.
    #[must_use]
    pub fn nonce_secret(mut self, secret: &[u8; 32], period: Duration) -> Self {
        self.nonces = Some(Nonces::new(secret, period));
        self
    }

    /// Sets the clock: a function that returns the Unix time in seconds (default: that of the system).
    ///
    /// A validator with a clock of its own uses that.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        self.clock = UnixClock::new(clock);
        self
    }

    /// Checks that a token is presented as it has to be: with a proof of its key exactly if it is bound to one.
    ///
    /// `thumbprint` is that of the key to which the token is bound (`cnf.jkt`; RFC 7638), `None` if it is bound to none.
    /// The result is for [`Identity::proven_key`](mcp_proto::server::Identity::proven_key). A proof counts as used
    /// afterwards, so this has to be the last check of a token.
    ///
    /// # Errors
    ///
    /// The denial that the client receives.
    pub fn verify(
        &self,
        request: &TokenRequest,
        thumbprint: Option<&str>,
    ) -> Result<Option<ProvenKey>, Denial> {
        self.verify_at(request, thumbprint, self.clock.now())
    }

    /// Does the same at a Unix time in seconds.
    pub(super) fn verify_at(
        &self,
        request: &TokenRequest,
        thumbprint: Option<&str>,
        now: u64,
    ) -> Result<Option<ProvenKey>, Denial> {
        match (request.scheme, thumbprint) {
            (Scheme::Bearer, None) => Ok(None),
            (Scheme::Bearer, Some(_)) => Err(Denial::InvalidToken("the token is bound to a key".into())),
            (Scheme::Dpop, Some(thumbprint)) => self.verify_proof(request, thumbprint, now).map(Some),
            _ => Err(Denial::InvalidToken("the token is not bound to a key".into())),
        }
    }

    fn verify_proof(&self, request: &TokenRequest, thumbprint: &str, now: u64) -> Result<ProvenKey, Denial> {
        let invalid = |why: &'static str| Denial::InvalidDpopProof(why.into());
        let proof = request.proof.as_ref().ok_or_else(|| invalid("there has to be one proof"))?;
        let jws = Jws::parse(proof.reveal()).ok_or_else(|| invalid("the proof is not a signed token"))?;
        if jws.kind() != Some("dpop+jwt") || jws.algorithm != Algorithm::Es256 {
            return Err(invalid("the proof has another type or algorithm"));
        }
        let key = jws.own_key();
        let Some((key, (x, y))) = key.as_ref().and_then(|key| Some((key, key.p256()?))) else {
            return Err(invalid("the proof has no public key"));
        };
        let claims = jws.verify(key).ok_or_else(|| invalid("the signature does not fit"))?;
        if key_thumbprint(x, y) != thumbprint {
            return Err(invalid("the token is bound to another key"));
        }
        let text = |name: &str| claims.get(name).and_then(|value| value.as_str());
        if text("htm") != Some(request.method) || !text("htu").is_some_and(|url| same_url(url, &request.url))
        {
            return Err(invalid("the proof is for another request"));
        }
        if text("ath") != Some(&encode(&sha256(request.token.reveal().as_bytes()))) {
            return Err(invalid("the proof is for another token"));
        }
        let next_nonce = self.check_nonce(text("nonce"), now)?;
        let issued = claims.get("iat").and_then(numeric_date);
        if issued.is_none_or(|at| at.abs_diff(now) > MAX_AGE) {
            return Err(invalid("the proof is too old, or a clock is wrong"));
        }
        let id = text("jti").filter(|id| !id.is_empty() && id.len() <= MAX_JTI);
        let id = id.ok_or_else(|| invalid("the proof has no usable `jti`"))?;
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        // A proof may be dated `MAX_AGE` in the future, and is then valid for twice that time.
        match used.insert(thumbprint, id, now, 2 * MAX_AGE) {
            Ok(()) => {}
            Err(MemoryError::Repeated) => return Err(invalid("the proof was used before")),
            Err(MemoryError::Full) => return Err(Denial::Unavailable),
        }
        let key = ProvenKey::new(thumbprint);
        Ok(match next_nonce {
            Some(nonce) => key.with_next_nonce(nonce),
            None => key,
        })
    }

    /// Checks the nonce of a proof. Returns the next one if the client should use another.
    fn check_nonce(&self, nonce: Option<&str>, now: u64) -> Result<Option<String>, Denial> {
        let Some(nonces) = &self.nonces else { return Ok(None) };
        match nonce.map_or(NonceAge::Unknown, |nonce| nonces.find(nonce, now)) {
            NonceAge::Current => Ok(None),
            NonceAge::Previous => Ok(Some(nonces.current(now))),
            NonceAge::Unknown => Err(Denial::UseDpopNonce(nonces.current(now))),
        }
    }
}

impl Default for DpopVerifier {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the thumbprint of a P-256 key (RFC 7638) from its coordinates.
fn key_thumbprint(x: &[u8], y: &[u8]) -> String {
    let json = alloc::format!(r#"{{"crv":"P-256","kty":"EC","x":"{}","y":"{}"}}"#, encode(x), encode(y));
    encode(&sha256(json.as_bytes()))
}

/// Compares URLs without query and fragment, after normalization (RFC 9449, 4.3).
fn same_url(given: &str, own: &str) -> bool {
    let bare = |url: &str| {
        let end = url.find(['?', '#']).unwrap_or(url.len());
        Url::parse(url.get(..end)?).ok()
    };
    match (bare(given), bare(own)) {
        (Some(given), Some(own)) => given.origin() == own.origin() && given.target() == own.target(),
        _ => false,
    }
}

impl fmt::Debug for DpopVerifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpopVerifier").field("nonces", &self.nonces.is_some()).finish_non_exhaustive()
    }
}
