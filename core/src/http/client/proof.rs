//! Proofs of possession of the key that an access token is bound to: one for each request (DPoP, RFC 9449).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::exchange::{ExchangeId, OutgoingRequest};
use crate::auth::{
    Algorithm, DpopKey, ProofClaims, Secret, SignRequest, SigningKey, is_nonce, join, proof_url,
};
use crate::entropy::Entropy;
use crate::head::{self, ResponseHead};
use crate::http::fields;
use crate::sync::Arc;
use crate::time::{Anchor, Instant};

/// What a [`Credential`](super::Credential) needs for its proofs.
pub(super) struct Binding {
    token: Secret,
    key: DpopKey,
    clock: Anchor,
    secret: [u8; 32],
}

impl Binding {
    pub(super) fn new(token: Secret, key: DpopKey, clock: Anchor, secret: [u8; 32]) -> Self {
        Self { token, key, clock, secret }
    }
}

impl PartialEq for Binding {
    fn eq(&self, other: &Self) -> bool {
        (&self.token, &self.key, self.clock, self.secret)
            == (&other.token, &other.key, other.clock, other.secret)
    }
}

impl Eq for Binding {}

/// A request that waits for the signature of its proof.
#[derive(Debug)]
#[non_exhaustive]
pub struct ProofRequest {
    /// The exchange to answer with.
    pub exchange: ExchangeId,
    /// What is to be signed.
    pub sign: SignRequest,
}

/// The proofs of a client.
#[derive(Debug, Default)]
pub(super) struct Proofs {
    current: Option<ProofMaker>,
    waiting: Vec<WaitingRequest>,
}

struct ProofMaker {
    binding: Arc<Binding>,
    /// The last nonce of the server.
    nonce: Option<String>,
    entropy: Entropy,
}

#[derive(Debug)]
struct WaitingRequest {
    request: OutgoingRequest,
    /// The signing input.
    input: String,
    private: Secret,
    is_polled: bool,
}

impl Proofs {
    pub(super) fn new(binding: Option<&Arc<Binding>>, now: Instant) -> Self {
        let mut proofs = Self::default();
        proofs.replace(binding, now);
        proofs
    }

    /// Uses another key, or none.
    pub(super) fn replace(&mut self, binding: Option<&Arc<Binding>>, now: Instant) {
        self.current = binding.map(|binding| ProofMaker::new(binding, now));
    }

    /// Keeps a request that needs a proof; returns it if it needs none.
    pub(super) fn hold(&mut self, now: Instant, request: OutgoingRequest) -> Option<OutgoingRequest> {
        let Some(maker) = &mut self.current else { return Some(request) };
        let (input, private) = maker.signing_input(now, &request);
        self.waiting.push(WaitingRequest { request, input, private, is_polled: false });
        None
    }

    /// Returns the next proof to sign.
    pub(super) fn poll(&mut self) -> Option<ProofRequest> {
        let waiting = self.waiting.iter_mut().find(|waiting| !waiting.is_polled)?;
        waiting.is_polled = true;
        let sign = SignRequest {
            key: SigningKey::Dpop(waiting.private.clone()),
            algorithm: Algorithm::Es256,
            input: waiting.input.as_bytes().into(),
        };
        Some(ProofRequest { exchange: waiting.request.exchange, sign })
    }

    /// Takes the request of an exchange out, without a proof.
    pub(super) fn take(&mut self, exchange: ExchangeId) -> Option<(OutgoingRequest, String)> {
        let at = self.waiting.iter().position(|waiting| waiting.request.exchange == exchange)?;
        let waiting = self.waiting.remove(at);
        Some((waiting.request, waiting.input))
    }

    /// Adds the proof to the request of an exchange.
    pub(super) fn sign(&mut self, exchange: ExchangeId, signature: &[u8]) -> Option<OutgoingRequest> {
        let (mut request, input) = self.take(exchange)?;
        request.fields.push(fields::DPOP, join(input, signature).as_bytes());
        Some(request)
    }

    /// Takes the head of a response. Returns whether the server asks for another proof.
    pub(super) fn handle_head(&mut self, head: &ResponseHead<'_>) -> bool {
        self.current.as_mut().is_some_and(|maker| maker.handle_head(head))
    }
}

impl ProofMaker {
    fn new(binding: &Arc<Binding>, now: Instant) -> Self {
        Self {
            binding: Arc::clone(binding),
            nonce: None,
            // Two clients that were given the same credential must not make equal proofs.
            entropy: Entropy::new(binding.secret, now.as_micros()),
        }
    }

    /// Returns the signing input for a request, and the private key.
    pub(super) fn signing_input(&mut self, now: Instant, request: &OutgoingRequest) -> (String, Secret) {
        let mut id = [0; 16];
        self.entropy.fill(&mut id);
        let claims = ProofClaims {
            id: &crate::auth::base64url(&id),
            method: request.method,
            url: &proof_url(&request.url),
            issued_at: self.binding.clock.unix_secs(now),
            nonce: self.nonce.as_deref(),
            access_token: Some(self.binding.token.expose()),
        };
        (claims.signing_input(&self.binding.key.public), self.binding.key.private.clone())
    }

    /// Remembers the nonce of a response. Returns whether the server asks for a proof with it (RFC 9449, 9).
    pub(super) fn handle_head(&mut self, head: &ResponseHead<'_>) -> bool {
        let mut nonces = head::values(head.fields, fields::DPOP_NONCE);
        let nonce = nonces.next().and_then(|nonce| core::str::from_utf8(nonce).ok());
        let Some(nonce) = nonce.filter(|nonce| nonces.next().is_none() && is_nonce(nonce)) else {
            return false;
        };
        let is_new = self.nonce.as_deref() != Some(nonce);
        if is_new {
            self.nonce = Some(nonce.into());
        }
        // A 401 to a proof with this nonce is about the token, unless its challenge names the nonce.
        head.status == 401 && (is_new || asks_for_nonce(head))
    }
}

/// Returns whether a response asks for a proof with its nonce, although that nonce came with another response before.
fn asks_for_nonce(head: &ResponseHead<'_>) -> bool {
    let challenges = super::parse_challenges(head::values(head.fields, fields::WWW_AUTHENTICATE));
    challenges.iter().any(|challenge| challenge.param("error") == Some("use_dpop_nonce"))
}

impl fmt::Debug for ProofMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProofMaker").finish_non_exhaustive()
    }
}
