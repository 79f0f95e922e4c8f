//! Proofs that a client has the key to which its token is bound (RFC 9449).

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use core::fmt;
use core::time::Duration;
use std::io;
use std::sync::Mutex;

use mcp_proto::http::client::Url;
use mcp_proto::http::server::{Denial, Scheme, TokenRequest};
use mcp_proto::server::ProvenKey;
use ring::hmac;
use ring::rand::{SecureRandom as _, SystemRandom};

use super::jwt::{Algorithm, Jws, decode, encode, numeric_date, sha256};
use super::settings::UnixClock;

/// Seconds by which the time of a proof may differ from ours, in both directions.
const MAX_AGE: u64 = 60;
/// Length of the longest `jti`, in bytes.
const MAX_JTI: usize = 512;

/// A verifier of the proofs by which clients show that they have the key of their token (DPoP, RFC 9449).
///
/// It checks the signature (ES256), the key, the method, the URL, the token, and the time of a proof, which may differ
/// by 60 seconds from ours. A proof is accepted once. Those that could be used again are remembered: 262,144 at most, and
/// of one key 8,192, or as many as there are free places if these are fewer. Beyond that requests get 503.
///
/// [`JwtValidator`](super::JwtValidator) and [`IntrospectionValidator`](super::IntrospectionValidator) have one. A
/// closure that decides about tokens calls it itself; without that, no token that is presented with a proof is accepted
/// ([`Identity::proven_key`](mcp_proto::server::Identity::proven_key)). All clones and shards of a server have to share
/// one verifier.
///
/// ```
/// use mcp_proto::http::server::{Denial, TokenRequest};
/// use mcp_proto::server::Identity;
/// use mcp_auth::token::DpopVerifier;
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
        let mut used = mcp_std::sync::lock(&self.used);
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

// Nonces for proofs, which the server makes (RFC 9449, 8 and 9).

/// Nonces that need no memory: each is a code of its period of time under a secret key.
///
/// The nonces of the current period and of the one before are accepted.
struct Nonces {
    key: hmac::Key,
    /// Length of a period in seconds.
    period: u64,
}

/// How a nonce was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NonceAge {
    /// It is the current one.
    Current,
    /// It is that of the last period; the client should get the current one.
    Previous,
    /// It is too old, or was not made here.
    Unknown,
}

impl Nonces {
    fn new(secret: &[u8; 32], period: Duration) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, secret), period: period.as_secs().max(1) }
    }

    /// Returns the nonce at a time.
    fn current(&self, now: u64) -> String {
        encode(hmac::sign(&self.key, &(now / self.period).to_be_bytes()).as_ref())
    }

    /// Finds a nonce of a client.
    fn find(&self, nonce: &str, now: u64) -> NonceAge {
        let Some(given) = decode(nonce) else { return NonceAge::Unknown };
        let is_of = |period: u64| hmac::verify(&self.key, &period.to_be_bytes(), &given).is_ok();
        let period = now / self.period;
        match () {
            () if is_of(period) => NonceAge::Current,
            () if period.checked_sub(1).is_some_and(is_of) => NonceAge::Previous,
            () => NonceAge::Unknown,
        }
    }
}

// The proofs that were used and could be used again.

/// Maximum number of proofs that are remembered: at most some 24 MB.
const CAPACITY: usize = 1 << 18;
/// Maximum number of proofs of one key: 68 in a second, for the two minutes of a proof.
const MAX_OF_KEY: usize = CAPACITY / 32;

/// The first half of a SHA-256 digest, for which nobody finds a second text.
type Digest = [u8; 16];

/// A proof: the key by which it was made, and its id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct UsedProof {
    key: Digest,
    id: Digest,
}

/// The reason why a proof is not remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemoryError {
    /// The proof was used before.
    Repeated,
    /// The key has used up its share; its proofs are remembered again when some are too old.
    Full,
}

/// The proofs that were used and could be used again.
///
/// A key has a share of 1/32, and no more than there are free places: it takes more than 32 keys that are used without
/// a pause to leave no room for another one.
///
/// Invariant: `used` has exactly the proofs in `order`, whose times never decrease, and `counts` their number by key.
struct ProofMemory {
    capacity: usize,
    max_of_key: usize,
    order: VecDeque<(u64, UsedProof)>,
    used: BTreeSet<UsedProof>,
    counts: BTreeMap<Digest, usize>,
}

impl Default for ProofMemory {
    fn default() -> Self {
        Self {
            capacity: CAPACITY,
            max_of_key: MAX_OF_KEY,
            order: VecDeque::new(),
            used: BTreeSet::new(),
            counts: BTreeMap::new(),
        }
    }
}

impl ProofMemory {
    /// Records the use of a proof at `now`, in seconds, for `keep` seconds.
    ///
    /// If the clock was set back, what was recorded later than `now` is kept as if it had been recorded now: it could be
    /// used again for as long, and would otherwise take its place until the old time comes again.
    fn insert(&mut self, key: &str, id: &str, now: u64, keep: u64) -> Result<(), MemoryError> {
        self.order.iter_mut().rev().take_while(|(at, _)| *at > now).for_each(|(at, _)| *at = now);
        while self.order.front().is_some_and(|(at, _)| at.saturating_add(keep) < now) {
            self.forget_first();
        }
        let proof = UsedProof { key: digest(key), id: digest(id) };
        if self.used.contains(&proof) {
            return Err(MemoryError::Repeated);
        }
        let own = self.counts.get(&proof.key).copied().unwrap_or(0);
        if own >= self.capacity.saturating_sub(self.order.len()).min(self.max_of_key) {
            return Err(MemoryError::Full);
        }
        self.order.push_back((now, proof));
        self.used.insert(proof);
        self.counts.insert(proof.key, own + 1);
        Ok(())
    }

    fn forget_first(&mut self) {
        let Some((_, proof)) = self.order.pop_front() else { return };
        self.used.remove(&proof);
        match self.counts.get_mut(&proof.key) {
            Some(count @ 2..) => *count -= 1,
            _ => _ = self.counts.remove(&proof.key),
        }
    }
}

fn digest(text: &str) -> Digest {
    let mut half = [0; 16];
    half.copy_from_slice(&sha256(text.as_bytes())[..16]);
    half
}

#[cfg(test)]
mod memory_tests {
    use alloc::string::ToString as _;

    use super::*;

    fn memory(capacity: usize) -> ProofMemory {
        ProofMemory { capacity, ..ProofMemory::default() }
    }

    impl ProofMemory {
        /// Uses `n` new proofs of a key; returns how many were recorded.
        fn fill(&mut self, key: &str, n: usize, now: u64) -> usize {
            let first = self.order.len();
            let new = (first..first + n).filter(|id| self.insert(key, &id.to_string(), now, 120).is_ok());
            new.count()
        }

        fn check(&self) {
            let mut counts = BTreeMap::new();
            for (_, proof) in &self.order {
                assert!(self.used.contains(proof));
                *counts.entry(proof.key).or_insert(0) += 1;
            }
            assert_eq!((self.used.len(), &self.counts), (self.order.len(), &counts));
            assert!(self.order.iter().is_sorted_by_key(|(at, _)| *at));
        }
    }

    #[test]
    fn one_key_cannot_take_the_places_of_all() {
        let mut memory = ProofMemory { max_of_key: 100, ..memory(1_000) };
        for key in ["greedy", "second", "third", "fourth", "fifth"] {
            assert_eq!(memory.fill(key, 2_000, 10), 100);
            assert_eq!(memory.insert(key, "x", 10, 120), Err(MemoryError::Full));
        }
        for n in 0..20 {
            assert_eq!(memory.fill(&n.to_string(), 5, 10), 5, "{n}");
        }
        assert_eq!(memory.insert("second", "new", 130, 120), Err(MemoryError::Full));
        assert_eq!(memory.insert("second", "new", 131, 120), Ok(()));
        assert_eq!(memory.order.len(), 1, "all others are too old");
        memory.check();
    }

    #[test]
    fn clock_that_is_set_back_neither_forgets_proofs_nor_keeps_them_for_ever() {
        let mut memory = memory(100);
        assert_eq!(memory.fill("a", 10, 1_000_000), 10);
        assert_eq!(memory.insert("a", "0", 500, 120), Err(MemoryError::Repeated));
        assert_eq!(memory.insert("a", "later", 510, 120), Ok(()));
        memory.check();
        assert_eq!(memory.insert("a", "0", 620, 120), Err(MemoryError::Repeated));
        assert_eq!(memory.insert("a", "0", 621, 120), Ok(()));
        memory.check();
        assert_eq!(memory.order.len(), 2);
    }

    #[test]
    fn memory_equals_a_walk_after_every_step() {
        let (mut memory, mut random, mut now) = (memory(50), 3_u32, 1_000);
        let mut refused = [0; 2];
        for _ in 0..5_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            now = if random >> 26 == 0 { now - 40 } else { now + u64::from(random >> 24) % 9 };
            let (key, id) = ((random >> 8) % 5, (random >> 16) % 40);
            match memory.insert(&key.to_string(), &id.to_string(), now, 120) {
                Ok(()) => {}
                Err(MemoryError::Repeated) => refused[0] += 1,
                Err(MemoryError::Full) => refused[1] += 1,
            }
            memory.check();
        }
        assert!(refused.iter().all(|n| *n > 100), "{refused:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonce_is_accepted_for_one_to_two_periods() {
        let nonces = Nonces::new(&[7; 32], Duration::from_secs(300));
        let nonce = nonces.current(3_000);
        assert!(nonce.len() == 43 && nonce == nonces.current(3_299) && nonce != nonces.current(3_300));
        for (now, age) in [
            (2_999, NonceAge::Unknown),
            (3_000, NonceAge::Current),
            (3_299, NonceAge::Current),
            (3_300, NonceAge::Previous),
            (3_599, NonceAge::Previous),
            (3_600, NonceAge::Unknown),
            (0, NonceAge::Unknown),
        ] {
            assert_eq!(nonces.find(&nonce, now), age, "{now}");
        }
        for other in ["", "x", "\u{e9}", &nonce[..42], &alloc::format!("{nonce}A")] {
            assert_eq!(nonces.find(other, 3_000), NonceAge::Unknown, "{other}");
        }
        assert_eq!(Nonces::new(&[8; 32], Duration::from_secs(300)).find(&nonce, 3_000), NonceAge::Unknown);
        // A period of zero would be none.
        let shortest = Nonces::new(&[7; 32], Duration::ZERO);
        assert_eq!(shortest.find(&shortest.current(5), 6), NonceAge::Previous);
        assert_eq!(shortest.find(&shortest.current(0), 0), NonceAge::Current);
    }
}
