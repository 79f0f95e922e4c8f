//! Requests that wait for a proof of possession of the key that their access token is bound to (DPoP, RFC 9449).

use alloc::vec::Vec;

use super::config::Credential;
use super::exchange::{ExchangeId, OutgoingRequest};
use crate::head::{self, ResponseHead};
use crate::http::fields;
use crate::sync::Arc;
use crate::url::Url;

/// Length of the longest nonce, in bytes.
const MAX_NONCE: usize = 512;

/// A request that waits for its proof.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProofRequest {
    /// The exchange to answer with.
    pub exchange: ExchangeId,
    /// The method of the request: `htm` of its proof.
    pub method: &'static str,
    /// The URL of the request: without its query, `htu` of its proof.
    pub url: Arc<Url>,
    /// The nonce that the server sent last.
    pub nonce: Option<Arc<str>>,
    credential: Credential,
}

impl ProofRequest {
    /// Returns the access token of the request; secret. The proof has its digest, `ath`.
    #[must_use]
    pub fn token(&self) -> &str {
        self.credential.token()
    }
}

/// The proofs of a client.
#[derive(Debug, Default)]
pub(super) struct Proofs {
    /// The credential, if it is bound to a key.
    bound: Option<Credential>,
    /// The last nonce of the server.
    nonce: Option<Arc<str>>,
    waiting: Vec<WaitingRequest>,
}

#[derive(Debug)]
struct WaitingRequest {
    request: OutgoingRequest,
    proof: Option<ProofRequest>,
}

impl Proofs {
    pub(super) fn new(credential: Option<&Credential>) -> Self {
        let mut proofs = Self::default();
        proofs.replace(credential);
        proofs
    }

    /// Uses another credential, or none.
    pub(super) fn replace(&mut self, credential: Option<&Credential>) {
        self.bound = credential.filter(|credential| credential.is_bound).cloned();
        self.nonce = None;
    }

    /// Keeps a request that needs a proof; returns it if it needs none.
    pub(super) fn hold(&mut self, request: OutgoingRequest) -> Option<OutgoingRequest> {
        let Some(credential) = &self.bound else { return Some(request) };
        let proof = ProofRequest {
            exchange: request.exchange,
            method: request.method,
            url: Arc::clone(&request.url),
            nonce: self.nonce.clone(),
            credential: credential.clone(),
        };
        self.waiting.push(WaitingRequest { request, proof: Some(proof) });
        None
    }

    /// Returns the next proof to make.
    pub(super) fn poll(&mut self) -> Option<ProofRequest> {
        self.waiting.iter_mut().find_map(|waiting| waiting.proof.take())
    }

    /// Takes the request of an exchange out, without a proof.
    pub(super) fn take(&mut self, exchange: ExchangeId) -> Option<OutgoingRequest> {
        let at = self.waiting.iter().position(|waiting| waiting.request.exchange == exchange)?;
        Some(self.waiting.remove(at).request)
    }

    /// Remembers the nonce of a response. Returns whether the server asks for a proof with it (RFC 9449, 9).
    pub(super) fn handle_head(&mut self, head: &ResponseHead<'_>) -> bool {
        if self.bound.is_none() {
            return false;
        }
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

/// Returns whether a text is a nonce (RFC 9449, 8.1).
fn is_nonce(text: &str) -> bool {
    let fits = |b: u8| matches!(b, 0x21 | 0x23..=0x5b | 0x5d..=0x7e);
    !text.is_empty() && text.len() <= MAX_NONCE && text.bytes().all(fits)
}

/// Returns whether a response asks for a proof with its nonce, although that nonce came with another response before.
fn asks_for_nonce(head: &ResponseHead<'_>) -> bool {
    let challenges = super::parse_challenges(head::values(head.fields, fields::WWW_AUTHENTICATE));
    challenges.iter().any(|challenge| challenge.param("error") == Some("use_dpop_nonce"))
}
