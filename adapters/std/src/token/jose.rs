//! Signed JSON objects: reading, keys, and signatures by `ring` (RFC 7515, RFC 7517, RFC 7518).

use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey};
use serde_json::{Map, Value};

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

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

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
}

/// A signed object whose signature was not verified yet (the compact form of JWS).
pub(super) struct Jws<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) header: Map<String, Value>,
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
        let header = object(&decode(header)?)?;
        let algorithm = Algorithm::from_name(header.get("alg")?.as_str()?)?;
        if header.contains_key("crit") || header.contains_key("b64") {
            return None;
        }
        Some(Self { algorithm, header, payload: decode(payload)?, signed, signature: decode(signature)? })
    }

    /// Returns a member of the header that is a string.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.header.get(name)?.as_str()
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

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PublicKey {
    Rsa { n: Vec<u8>, e: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// Members of a JWK that are private.
const PRIVATE_MEMBERS: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

impl PublicKey {
    /// Reads a key for signatures. `None` if it is of another kind, or not public.
    pub(super) fn from_jwk(jwk: &Map<String, Value>) -> Option<Self> {
        if PRIVATE_MEMBERS.iter().any(|name| jwk.contains_key(*name)) {
            return None;
        }
        let text = |name: &str| jwk.get(name)?.as_str();
        let bytes = |name: &str| decode(text(name)?);
        let point = |len: usize| {
            let (x, y) = (bytes("x")?, bytes("y")?);
            (x.len() == len && y.len() == len).then(|| [&[4][..], &x, &y].concat())
        };
        match (text("kty")?, text("crv")) {
            ("RSA", _) => Some(Self::Rsa { n: bytes("n")?, e: bytes("e")? }),
            ("EC", Some("P-256")) => point(32).map(Self::P256),
            ("EC", Some("P-384")) => point(48).map(Self::P384),
            ("OKP", Some("Ed25519")) => bytes("x").filter(|x| x.len() == 32).map(Self::Ed25519),
            _ => None,
        }
    }

    /// Returns whether a signature is valid. An algorithm for another kind of key verifies nothing.
    fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let outcome = match (self, algorithm) {
            (Self::P256(point), Algorithm::Es256) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            (Self::P384(point), Algorithm::Es384) => {
                UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point).verify(message, signature)
            }
            (Self::Ed25519(key), Algorithm::EdDsa) => {
                UnparsedPublicKey::new(&signature::ED25519, key).verify(message, signature)
            }
            (Self::Rsa { n, e }, algorithm) => match algorithm.rsa() {
                Some(parameters) => RsaPublicKeyComponents { n, e }.verify(parameters, message, signature),
                None => return false,
            },
            _ => return false,
        };
        outcome.is_ok()
    }
}
