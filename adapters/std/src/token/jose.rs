//! Signed JSON objects: headers and keys by `jsonwebtoken`, signatures by `ring` (RFC 7515, RFC 7517, RFC 7518).
//!
//! The functions of `jsonwebtoken` that verify are not used: they take the cryptography from a variable of the process,
//! which belongs to the application, and refuse headers that issuers do send (`DESIGN-43`).

use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk};
use jsonwebtoken::{Algorithm as AnyAlgorithm, DecodingKey, DecodingKeyKind, Header};
use ring::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde_json::{Map, Value};

/// The claims of a token.
pub(super) type Claims = Map<String, Value>;

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

    /// Returns an algorithm of the library. `None` for those with a shared secret; it has no `none`.
    const fn accepted(algorithm: AnyAlgorithm) -> Option<Self> {
        Some(match algorithm {
            AnyAlgorithm::RS256 => Self::Rs256,
            AnyAlgorithm::RS384 => Self::Rs384,
            AnyAlgorithm::RS512 => Self::Rs512,
            AnyAlgorithm::PS256 => Self::Ps256,
            AnyAlgorithm::PS384 => Self::Ps384,
            AnyAlgorithm::PS512 => Self::Ps512,
            AnyAlgorithm::ES256 => Self::Es256,
            AnyAlgorithm::ES384 => Self::Es384,
            AnyAlgorithm::EdDSA => Self::EdDsa,
            AnyAlgorithm::HS256 | AnyAlgorithm::HS384 | AnyAlgorithm::HS512 => return None,
        })
    }

    /// Returns the parameters of an algorithm for RSA keys.
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

    /// Returns the curve and the parameters of an algorithm for keys on curves.
    fn elliptic(self) -> Option<(EllipticCurve, &'static dyn VerificationAlgorithm)> {
        match self {
            Self::Es256 => Some((EllipticCurve::P256, &signature::ECDSA_P256_SHA256_FIXED)),
            Self::Es384 => Some((EllipticCurve::P384, &signature::ECDSA_P384_SHA384_FIXED)),
            Self::EdDsa => Some((EllipticCurve::Ed25519, &signature::ED25519)),
            _ => None,
        }
    }
}

/// Members of a header that are used; `jwk` is read apart from them.
const MEMBERS: [&str; 3] = ["alg", "kid", "typ"];

/// A signed object whose signature was not verified yet (the compact form of JWS).
pub(super) struct Jws<'a> {
    pub(super) algorithm: Algorithm,
    header: Header,
    /// The member `jwk` of the header.
    jwk: Option<Value>,
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
        let mut members = object(&decode(header)?)?;
        if members.contains_key("crit") || members.contains_key("b64") {
            return None;
        }
        let jwk = members.remove("jwk");
        // Unknown members are ignored (RFC 7515, 4), which the library does only if they are strings.
        members.retain(|name, _| MEMBERS.contains(&name.as_str()));
        let header: Header = serde_json::from_value(Value::Object(members)).ok()?;
        let algorithm = Algorithm::accepted(header.alg)?;
        let (payload, signature) = (decode(payload)?, decode(signature)?);
        Some(Self { algorithm, header, jwk, payload, signed, signature })
    }

    /// Returns the type of the object (`typ`).
    pub(super) fn kind(&self) -> Option<&str> {
        self.header.typ.as_deref()
    }

    /// Returns the id of the key (`kid`).
    pub(super) fn key_id(&self) -> Option<&str> {
        self.header.kid.as_deref()
    }

    /// Returns the key in the header (`jwk`), which anybody may have put there.
    pub(super) fn own_key(&self) -> Option<PublicKey> {
        PublicKey::from_jwk(&public_jwk(self.jwk.as_ref()?.as_object()?)?)
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

/// Members of a JWK that are private.
const PRIVATE_MEMBERS: [&str; 8] = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];

/// Reads a JWK. `None` if it is of an unknown kind, or not public.
pub(super) fn public_jwk(jwk: &Map<String, Value>) -> Option<Jwk> {
    // The library ignores these members.
    if PRIVATE_MEMBERS.iter().any(|name| jwk.contains_key(*name)) {
        return None;
    }
    serde_json::from_value(Value::Object(jwk.clone())).ok()
}

/// A public key for signatures.
#[derive(Clone, Debug)]
pub(super) struct PublicKey {
    key: DecodingKey,
    /// The curve of a key that is not for RSA. The key of the library does not tell P-256 from P-384.
    curve: Option<EllipticCurve>,
}

impl PublicKey {
    /// Reads a key for signatures. `None` if it is of another kind, or its length is not that of its curve.
    pub(super) fn from_jwk(jwk: &Jwk) -> Option<Self> {
        let (curve, length) = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => (None, None),
            AlgorithmParameters::EllipticCurve(key) if key.x.len() == key.y.len() => match key.curve {
                EllipticCurve::P256 => (Some(EllipticCurve::P256), Some(1 + 2 * 32)),
                EllipticCurve::P384 => (Some(EllipticCurve::P384), Some(1 + 2 * 48)),
                _ => return None,
            },
            AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
                (Some(EllipticCurve::Ed25519), Some(32))
            }
            _ => return None,
        };
        let key = Self { key: DecodingKey::from_jwk(jwk).ok()?, curve };
        (key.bytes().map(<[u8]>::len) == length).then_some(key)
    }

    /// Returns the bytes of a key that is not for RSA.
    fn bytes(&self) -> Option<&[u8]> {
        match self.key.kind() {
            DecodingKeyKind::SecretOrDer(bytes) => Some(bytes),
            DecodingKeyKind::RsaModulusExponent { .. } => None,
        }
    }

    /// Returns the coordinates of a key for P-256.
    pub(super) fn p256(&self) -> Option<(&[u8], &[u8])> {
        let point = self.bytes().filter(|_| self.curve == Some(EllipticCurve::P256))?;
        // The uncompressed form: 4, then both coordinates (SEC 1, 2.3.3).
        point.strip_prefix(&[4])?.split_at_checked(32)
    }

    /// Returns whether a signature is valid. An algorithm for another kind of key verifies nothing.
    fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        let outcome = match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => algorithm
                .rsa()
                .map(|parameters| RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)),
            DecodingKeyKind::SecretOrDer(key) => algorithm
                .elliptic()
                .filter(|(curve, _)| self.curve.as_ref() == Some(curve))
                .map(|(_, parameters)| UnparsedPublicKey::new(parameters, key).verify(message, signature)),
        };
        outcome.is_some_and(|outcome| outcome.is_ok())
    }
}
