//! Proofs of possession for the requests to an MCP server (DPoP, RFC 9449).

use core::fmt;

use mcp_proto::http::Url;
use mcp_proto::{Anchor, Entropy, Instant};

use crate::jose::{Algorithm, DpopKey, ProofClaims, SignRequest, SigningKey, base64url};
use crate::locations::without_query;

/// Makes the proofs of an access token that is bound to a key: one for each request.
///
/// ```
/// # use mcp_oauth::{DpopKey, DpopProofs};
/// # use mcp_proto::{Anchor, Instant, http::client::Url};
/// # let key = DpopKey { private: "k".into(), public: [0; 64] };
/// # let now = Instant::from_micros(1);
/// let clock = Anchor::new(now, 1_800_000_000);
/// let mut proofs = DpopProofs::new(key, clock, [7; 32], now); // 32 random bytes
/// let url = Url::parse("https://mcp.example.com/mcp")?;
/// let sign = proofs.begin(now, "POST", &url, None, "the access token");
/// # let signature = [0; 64];
/// // It goes to whoever holds the key. With the signature, the proof is whole:
/// assert!(sign.finish(&signature).starts_with("ey"));
/// # Ok::<(), mcp_proto::http::UrlError>(())
/// ```
pub struct DpopProofs {
    key: DpopKey,
    clock: Anchor,
    entropy: Entropy,
}

impl DpopProofs {
    /// Creates a maker of proofs. `clock` tells the time of the proofs, and `secret` comes from a cryptographic source.
    #[must_use]
    pub fn new(key: DpopKey, clock: Anchor, secret: [u8; 32], now: Instant) -> Self {
        // Two clients that were given the same secret must not make equal proofs.
        Self { key, clock, entropy: Entropy::new(secret, now.as_micros()) }
    }

    /// Returns what is to be signed for the proof of a request with this method, URL and access token, and with the nonce that the server sent last.
    pub fn begin(
        &mut self,
        now: Instant,
        method: &str,
        url: &Url,
        nonce: Option<&str>,
        token: &str,
    ) -> SignRequest {
        let mut id = [0; 16];
        self.entropy.fill(&mut id);
        let claims = ProofClaims {
            id: &base64url(&id),
            method,
            url: &without_query(url),
            issued_at: self.clock.unix_secs(now),
            nonce,
            access_token: Some(token),
        };
        SignRequest {
            key: SigningKey::Dpop(self.key.private.clone()),
            algorithm: Algorithm::Es256,
            input: claims.signing_input(&self.key.public).into_bytes().into(),
        }
    }
}

impl fmt::Debug for DpopProofs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpopProofs").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_differ_and_show_no_secret() {
        let key = DpopKey { private: "pr1vate".into(), public: [7; 64] };
        let now = Instant::from_micros(7);
        let maker =
            |secret, now| DpopProofs::new(key.clone(), Anchor::new(Instant::ZERO, 1), [secret; 32], now);
        let url = Url::parse("https://mcp.example/mcp?key=1").expect("a URL");
        let proof = |proofs: &mut DpopProofs| proofs.begin(now, "POST", &url, Some("n"), "t0k3n");
        let mut one = maker(1, now);
        let made =
            [&mut one, &mut maker(1, Instant::ZERO), &mut maker(2, now)].map(|proofs| proof(proofs).input);
        let again = proof(&mut one);
        assert!(!made.contains(&again.input) && made[0] != made[1] && made[0] != made[2]);
        let shown = alloc::format!("{one:?} {again:?}");
        assert!(!shown.contains("pr1vate") && !shown.contains("t0k3n"), "{shown}");
        assert_eq!(again.finish(&[255]).rsplit_once('.').map(|(_, signature)| signature), Some("_w"));
    }
}
