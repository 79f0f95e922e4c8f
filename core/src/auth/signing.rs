//! What a flow lets others sign: assertions of clients and DPoP proofs. No cryptography is here.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::secret::Secret;

/// A signature algorithm (RFC 7518, 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Algorithm {
    /// ECDSA over P-256 with SHA-256. The signature is `r || s`, 64 bytes.
    Es256,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// Ed25519 (RFC 8037).
    EdDsa,
}

impl Algorithm {
    /// Returns the value of `alg`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
            Self::EdDsa => "EdDSA",
        }
    }
}

/// The key of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SigningKey {
    /// The key that the application configured for `private_key_jwt`.
    Client,
    /// A key that [`DpopKey`] brought; its private half.
    Dpop(Secret),
}

/// A signature that a flow needs.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SignRequest {
    /// The key.
    pub key: SigningKey,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The bytes to sign.
    pub input: Box<[u8]>,
}

/// A new key for DPoP proofs: ECDSA over P-256.
#[derive(Clone, PartialEq, Eq)]
pub struct DpopKey {
    /// The private half, in any form that the signer understands later (as text). It is stored with the tokens.
    pub private: Secret,
    /// The public point: `x || y`, 32 bytes each.
    pub public: [u8; 64],
}

/// A signature, in the form that the algorithm has in a JWS.
pub type Signature = Vec<u8>;

/// Omits the input, of which some is secret.
impl fmt::Debug for SignRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignRequest")
            .field("key", &self.key)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for DpopKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpopKey").finish_non_exhaustive()
    }
}
