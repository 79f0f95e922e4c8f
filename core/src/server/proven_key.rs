//! The key to which an access token is bound, of which its bearer has given proof.

use alloc::boxed::Box;

/// The key to which an access token is bound, after the proof of its possession was verified (DPoP, RFC 9449).
///
/// Only what has verified the proof of a request may create one. `mcp_std::token::DpopVerifier` does both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenKey {
    thumbprint: Box<str>,
    next_nonce: Option<Box<str>>,
}

impl ProvenKey {
    /// Creates the record of a verified proof, with the thumbprint of its key (`cnf.jkt` of the token; RFC 7638).
    #[must_use]
    pub fn new(thumbprint: impl Into<Box<str>>) -> Self {
        Self { thumbprint: thumbprint.into(), next_nonce: None }
    }

    /// Sets a nonce for the next proofs of the client, which the response offers in `DPoP-Nonce` (RFC 9449, 8.2).
    ///
    /// A text that is not one word of visible ASCII is not sent.
    #[must_use]
    pub fn with_next_nonce(mut self, nonce: impl Into<Box<str>>) -> Self {
        self.next_nonce = Some(nonce.into());
        self
    }

    /// Returns the thumbprint of the key.
    #[must_use]
    pub fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// Returns the nonce for the next proofs, if it is another one than the client used, and can be sent.
    #[must_use]
    pub fn next_nonce(&self) -> Option<&str> {
        self.next_nonce.as_deref().filter(|nonce| is_nonce(nonce))
    }
}

/// Returns whether a text can be sent as a nonce: one word of visible ASCII.
pub(crate) fn is_nonce(nonce: &str) -> bool {
    !nonce.is_empty() && nonce.bytes().all(|b| b.is_ascii_graphic())
}
