//! Signatures of clients: assertions by a configured key, and DPoP proofs (RFC 9449).

use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_oauth::{Algorithm, DpopKey, Secret, Signature};
use ring::error::KeyRejected;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::PemObject as _;

#[cfg(test)]
mod tests;

/// The private key of a client, for `private_key_jwt` (RFC 7523, 2.2). Clones share it.
///
/// ```no_run
/// use mcp_auth::client::ClientKey;
///
/// let key = ClientKey::from_pem(&std::fs::read_to_string("key.pem")?)?;
/// println!("the algorithm is {}", key.algorithm().name());
/// # Ok::<_, Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ClientKey(Arc<Kind>);

enum Kind {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
    Rs256(RsaKeyPair),
}

/// The reason why a key cannot be used. It holds no part of a key (SEC-019).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The text has no private key in PEM, or a damaged one.
    NoKey,
    /// The private key is encrypted.
    Encrypted,
    /// The key is neither for P-256 nor for Ed25519 nor for RSA.
    UnknownKind,
    /// The key is of a known kind, but damaged, too short, or without its public half.
    Rejected(String),
    /// The random generator of the operating system failed, or the key cannot sign.
    Signing,
}

impl ClientKey {
    /// Reads the first private key of a PEM text.
    ///
    /// The key is for ECDSA over P-256, Ed25519, or RSA with 2048 to 4096 bits. The form is PKCS#8
    /// (`BEGIN PRIVATE KEY`), SEC 1 (`BEGIN EC PRIVATE KEY`) or PKCS#1 (`BEGIN RSA PRIVATE KEY`), not encrypted. A key
    /// for P-256 must contain its public half, as those of OpenSSL do.
    ///
    /// # Errors
    ///
    /// [`KeyError`] with the reason why there is no such key.
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        let Ok(key) = PrivateKeyDer::from_pem_slice(pem.as_bytes()) else {
            // The error of the parser may quote a line of the key.
            let encrypted =
                pem.contains("BEGIN ENCRYPTED PRIVATE KEY") || pem.contains("Proc-Type: 4,ENCRYPTED");
            return Err(if encrypted { KeyError::Encrypted } else { KeyError::NoKey });
        };
        let kind = match &key {
            PrivateKeyDer::Pkcs8(der) => Self::from_pkcs8(der.secret_pkcs8_der())?,
            PrivateKeyDer::Sec1(der) => Kind::Es256(p256(&sec1_to_pkcs8(der.secret_sec1_der()))?),
            PrivateKeyDer::Pkcs1(der) => {
                Kind::Rs256(RsaKeyPair::from_der(der.secret_pkcs1_der()).map_err(rejected)?)
            }
            _ => return Err(KeyError::UnknownKind),
        };
        Ok(Self(Arc::new(kind)))
    }

    /// Reads a key in PKCS#8, which names its kind.
    fn from_pkcs8(der: &[u8]) -> Result<Kind, KeyError> {
        match p256(der) {
            Err(KeyError::UnknownKind) => {}
            outcome => return outcome.map(Kind::Es256),
        }
        // Keys of OpenSSL have no public half, which is then computed.
        match Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map_err(rejected) {
            Err(KeyError::UnknownKind) => {}
            outcome => return outcome.map(Kind::EdDsa),
        }
        RsaKeyPair::from_pkcs8(der).map(Kind::Rs256).map_err(rejected)
    }

    /// Returns the algorithm of the signatures.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        match &*self.0 {
            Kind::Es256(_) => Algorithm::Es256,
            Kind::EdDsa(_) => Algorithm::EdDsa,
            Kind::Rs256(_) => Algorithm::Rs256,
        }
    }

    /// Signs bytes. The signature has the form of a JWS (RFC 7518, 3).
    ///
    /// # Errors
    ///
    /// [`KeyError::Signing`] if the random generator of the operating system fails, which ES256 needs.
    pub fn sign(&self, input: &[u8]) -> Result<Signature, KeyError> {
        match &*self.0 {
            Kind::Es256(key) => sign_es256(key, input),
            Kind::EdDsa(key) => Ok(key.sign(input).as_ref().into()),
            Kind::Rs256(key) => {
                let mut signature = alloc::vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), input, &mut signature)
                    .map_err(|_| KeyError::Signing)?;
                Ok(signature)
            }
        }
    }
}

/// Creates a key for DPoP proofs. Its private half is the base64 form of PKCS#8.
///
/// # Errors
///
/// [`KeyError::Signing`] if the random generator of the operating system fails.
pub fn generate_dpop_key() -> Result<DpopKey, KeyError> {
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
        .map_err(|_| KeyError::Signing)?;
    let key = p256(pkcs8.as_ref())?;
    // The uncompressed form: 4, then both coordinates (SEC 1, 2.3.3).
    let public = key.public_key().as_ref().strip_prefix(&[4]).and_then(|point| point.try_into().ok());
    let private = Secret::from(STANDARD.encode(pkcs8.as_ref()));
    Ok(DpopKey { private, public: public.ok_or(KeyError::Signing)? })
}

/// Signs a DPoP proof with the private half of a [generated key](generate_dpop_key), by ES256.
///
/// # Errors
///
/// - [`KeyError::NoKey`], [`KeyError::UnknownKind`] or [`KeyError::Rejected`]: `private` is no such key, perhaps
///   because it comes from a store of another program.
/// - [`KeyError::Signing`]: the random generator of the operating system fails.
pub fn sign_dpop(private: &Secret, input: &[u8]) -> Result<Signature, KeyError> {
    let pkcs8 = STANDARD.decode(private.expose()).map_err(|_| KeyError::NoKey)?;
    sign_es256(&p256(&pkcs8)?, input)
}

fn p256(pkcs8: &[u8]) -> Result<EcdsaKeyPair, KeyError> {
    EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &SystemRandom::new()).map_err(rejected)
}

fn sign_es256(key: &EcdsaKeyPair, input: &[u8]) -> Result<Signature, KeyError> {
    let signature = key.sign(&SystemRandom::new(), input).map_err(|_| KeyError::Signing)?;
    Ok(signature.as_ref().into())
}

fn rejected(error: KeyRejected) -> KeyError {
    // The text is the name of a reason, of which `ring` exposes nothing else.
    match error.to_string() {
        reason if reason == "WrongAlgorithm" => KeyError::UnknownKind,
        reason => KeyError::Rejected(reason),
    }
}

/// Puts a key of SEC 1 for P-256 into PKCS#8 (RFC 5208, 5), the form that `ring` reads.
///
/// If the key names another curve, `ring` refuses it.
fn sec1_to_pkcs8(sec1: &[u8]) -> Vec<u8> {
    let content = [P256_HEADER, &der(OCTET_STRING, sec1)].concat();
    der(SEQUENCE, &content)
}

/// Encodes a value in DER.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let digits: Vec<u8> = length.into_iter().skip_while(|digit| *digit == 0).collect();
    let mut encoded = alloc::vec![tag];
    match *digits.as_slice() {
        [] => encoded.push(0),
        [length @ 0..=127] => encoded.push(length),
        // The number of digits is at most eight.
        ref digits => {
            encoded.push(0x80 | digits.len() as u8);
            encoded.extend_from_slice(digits);
        }
    }
    encoded.extend_from_slice(content);
    encoded
}

/// Tags of DER.
const OCTET_STRING: u8 = 4;
const SEQUENCE: u8 = 0x30;
/// Version 0, and the identifiers of keys on elliptic curves (1.2.840.10045.2.1) and of P-256 (1.2.840.10045.3.1.7).
const P256_HEADER: &[u8] = &[
    0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07,
];

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").field("algorithm", &self.algorithm()).finish_non_exhaustive()
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => f.write_str("there is no private key in PEM (`BEGIN PRIVATE KEY`)"),
            Self::Encrypted => f.write_str("the private key is encrypted; give it without a password"),
            Self::UnknownKind => {
                f.write_str("the private key is neither for P-256 nor for Ed25519 nor for RSA")
            }
            Self::Rejected(reason) => write!(
                f,
                "the private key cannot be used: {reason} (a key for P-256 must contain its public half, and a key for \
                 RSA must have 2048 to 4096 bits)"
            ),
            Self::Signing => {
                f.write_str("the random generator of the operating system failed, or the key cannot sign")
            }
        }
    }
}

impl core::error::Error for KeyError {}
