//! Proofs that a client has the key to which its token is bound (RFC 9449).

use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::String;
use core::fmt;
use std::sync::{Mutex, PoisonError};

use mcp_proto::http::client::Url;
use mcp_proto::http::server::{Denial, Scheme, TokenRequest};

use super::jose::{Algorithm, Jws, encode, numeric_date, sha256};

/// Seconds by which the time of a proof may differ from ours, in both directions.
const MAX_AGE: u64 = 60;
/// Maximum number of proofs that are remembered; beyond it proofs are refused until some are too old.
const MAX_PROOFS: usize = 1 << 16;
/// Length of the longest `jti`, in bytes.
const MAX_JTI: usize = 512;

/// Verifies proofs, and remembers them while they could be used again.
#[derive(Default)]
pub(super) struct DpopVerifier(Mutex<Seen>);

/// Invariant: `keys` has exactly those in `order`, which is sorted by time.
#[derive(Default)]
struct Seen {
    order: VecDeque<(u64, [u8; 32])>,
    keys: BTreeSet<[u8; 32]>,
}

impl DpopVerifier {
    /// Checks that a token is presented as it has to be: with a proof exactly if it is bound to a key.
    ///
    /// `thumbprint` is that of the key (`cnf.jkt`); `now` is the Unix time in seconds.
    pub(super) fn check(
        &self,
        request: &TokenRequest,
        thumbprint: Option<&str>,
        now: u64,
    ) -> Result<(), Denial> {
        match (request.scheme, thumbprint) {
            (Scheme::Bearer, None) => Ok(()),
            (Scheme::Bearer, Some(_)) => Err(Denial::InvalidToken("the token is bound to a key".into())),
            (Scheme::Dpop, Some(thumbprint)) => self.check_proof(request, thumbprint, now),
            _ => Err(Denial::InvalidToken("the token is not bound to a key".into())),
        }
    }

    fn check_proof(&self, request: &TokenRequest, thumbprint: &str, now: u64) -> Result<(), Denial> {
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
        let issued = claims.get("iat").and_then(numeric_date);
        if issued.is_none_or(|at| at.abs_diff(now) > MAX_AGE) {
            return Err(invalid("the proof is too old, or a clock is wrong"));
        }
        let id = text("jti").filter(|id| !id.is_empty() && id.len() <= MAX_JTI);
        let id = id.ok_or_else(|| invalid("the proof has no usable `jti`"))?;
        self.remember(sha256([thumbprint, " ", id].concat().as_bytes()), now)
    }

    /// Records the use of a proof.
    fn remember(&self, key: [u8; 32], now: u64) -> Result<(), Denial> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A proof may be dated `MAX_AGE` in the future, and is then valid for twice that time.
        while seen.order.front().is_some_and(|(at, _)| at.saturating_add(2 * MAX_AGE) < now) {
            if let Some((_, old)) = seen.order.pop_front() {
                seen.keys.remove(&old);
            }
        }
        if seen.keys.contains(&key) {
            return Err(Denial::InvalidDpopProof("the proof was used before".into()));
        }
        if seen.order.len() >= MAX_PROOFS {
            return Err(Denial::Unavailable);
        }
        seen.order.push_back((now, key));
        seen.keys.insert(key);
        Ok(())
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
        f.debug_struct("DpopVerifier").finish_non_exhaustive()
    }
}
