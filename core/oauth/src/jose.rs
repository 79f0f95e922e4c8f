//! JSON Web Tokens that a client signs: assertions (RFC 7523) and DPoP proofs (RFC 9449).

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use super::document::Document;
use super::token::Secret;
use mcp_proto::RawJson;

/// Returns the Base64url text of `bytes`, without padding (RFC 7515, 2).
#[inline(never)]
pub(crate) fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Returns the bytes of a Base64url text without padding.
///
/// The decoders of `base64` are made for speed and take 2 KB each.
pub(super) fn from_base64url(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let (mut bits, mut held) = (0u32, 0);
    for digit in text.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        // Bits that are pushed out at the top belong to bytes that were written already.
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            let [.., byte] = (bits >> held).to_be_bytes();
            bytes.push(byte);
        }
    }
    // A last digit alone, or bits that belong to no byte.
    let is_whole = held < 6 && bits & ((1 << held) - 1) == 0;
    is_whole.then_some(bytes)
}

/// Returns the Base64url text of the SHA-256 digest of `text`.
pub(super) fn digest(text: &str) -> String {
    base64url(&Sha256::digest(text.as_bytes()))
}

/// A JSON object under construction.
pub(super) struct JsonObject {
    text: Vec<u8>,
}

impl JsonObject {
    pub(super) fn new() -> Self {
        Self { text: alloc::vec![b'{'] }
    }

    #[inline(never)]
    fn write_str(&mut self, text: &str) {
        // A text has a JSON form always.
        if let Ok(json) = RawJson::encode(text) {
            self.text.extend_from_slice(json.as_bytes());
        }
    }

    #[inline(never)]
    fn name(&mut self, name: &str) {
        if self.text.len() > 1 {
            self.text.push(b',');
        }
        self.write_str(name);
        self.text.push(b':');
    }

    /// Adds a member with a string.
    #[inline(never)]
    pub(super) fn string(&mut self, name: &str, value: &str) -> &mut Self {
        self.name(name);
        self.write_str(value);
        self
    }

    /// Adds a member with a string, if there is one.
    #[inline(never)]
    pub(super) fn optional(&mut self, name: &str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.string(name, value),
            None => self,
        }
    }

    /// Adds a member with a number.
    #[inline(never)]
    pub(super) fn number(&mut self, name: &str, value: u64) -> &mut Self {
        self.raw(name, itoa::Buffer::new().format(value))
    }

    /// Adds a member with an array of strings.
    pub(super) fn strings<'s>(&mut self, name: &str, values: impl IntoIterator<Item = &'s str>) -> &mut Self {
        self.name(name);
        self.text.push(b'[');
        for (at, value) in values.into_iter().enumerate() {
            if at > 0 {
                self.text.push(b',');
            }
            self.write_str(value);
        }
        self.text.push(b']');
        self
    }

    /// Adds a member whose value is JSON text.
    #[inline(never)]
    pub(super) fn raw(&mut self, name: &str, json: &str) -> &mut Self {
        self.name(name);
        self.text.extend_from_slice(json.as_bytes());
        self
    }

    /// Returns the text of the object.
    pub(super) fn finish(mut self) -> String {
        self.text.push(b'}');
        // Made of strings: it is UTF-8.
        String::from_utf8(self.text).unwrap_or_default()
    }
}

/// Returns the public key as a JWK, with its members in the order of a thumbprint (RFC 7638).
fn jwk(public: &[u8; 64]) -> String {
    let (x, y) = public.split_at(32);
    let mut jwk = JsonObject::new();
    jwk.string("crv", "P-256").string("kty", "EC").string("x", &base64url(x)).string("y", &base64url(y));
    jwk.finish()
}

/// Returns the thumbprint of a public key: the value of `jkt` (RFC 9449, 6.1).
pub(super) fn thumbprint(public: &[u8; 64]) -> String {
    digest(&jwk(public))
}

/// The claims of a DPoP proof (RFC 9449, 4.2).
pub(crate) struct ProofClaims<'a> {
    /// A value that is unique to the proof.
    pub(crate) id: &'a str,
    pub(crate) method: &'a str,
    /// The URL of the request without query and fragment.
    pub(crate) url: &'a str,
    /// Unix time, in seconds.
    pub(crate) issued_at: u64,
    pub(crate) nonce: Option<&'a str>,
    pub(crate) access_token: Option<&'a str>,
}

impl ProofClaims<'_> {
    /// Returns the signing input of the proof.
    pub(crate) fn signing_input(&self, public: &[u8; 64]) -> String {
        let mut header = JsonObject::new();
        header.string("typ", "dpop+jwt").string("alg", Algorithm::Es256.name()).raw("jwk", &jwk(public));
        let mut claims = JsonObject::new();
        claims.string("jti", self.id).string("htm", self.method).string("htu", self.url);
        claims.number("iat", self.issued_at).optional("nonce", self.nonce);
        claims.optional("ath", self.access_token.map(digest).as_deref());
        signing_input(header, claims)
    }
}

/// The claims of the assertion by which a client authenticates (RFC 7523, 3).
pub(super) struct AssertionClaims<'a> {
    pub(super) id: &'a str,
    pub(super) client_id: &'a str,
    /// The issuer of the authorization server.
    pub(super) audience: &'a str,
    /// Unix time, in seconds.
    pub(super) issued_at: u64,
    /// Lifetime, in seconds.
    pub(super) lifetime: u64,
}

impl AssertionClaims<'_> {
    /// Returns the signing input of the assertion.
    pub(super) fn signing_input(&self, algorithm: Algorithm, key_id: Option<&str>) -> String {
        let mut header = JsonObject::new();
        header.string("typ", "JWT").string("alg", algorithm.name()).optional("kid", key_id);
        let mut claims = JsonObject::new();
        claims.string("iss", self.client_id).string("sub", self.client_id).string("aud", self.audience);
        claims.string("jti", self.id).number("iat", self.issued_at);
        claims.number("exp", self.issued_at.saturating_add(self.lifetime));
        signing_input(header, claims)
    }
}

fn signing_input(header: JsonObject, claims: JsonObject) -> String {
    let mut text = base64url(header.finish().as_bytes());
    text.push('.');
    text.push_str(&base64url(claims.finish().as_bytes()));
    text
}

/// Returns whether a JWT has one of these audiences, without any check of it; `None` if the text is no JWT or names none.
pub(super) fn has_audience(jwt: &str, audiences: [&str; 2]) -> Option<bool> {
    let claims = from_base64url(jwt.split('.').nth(1)?)?;
    let is_one = |audience: &String| audiences.contains(&&**audience);
    // `aud` is a string or a list (RFC 7519, 4.1.3). `read` fails at a wrong type, so both are tried.
    let one = Document::read(&claims, drop, |claims| Ok(claims.string("aud").as_ref().map(is_one)));
    let many = |claims: &Document| Ok(claims.strings("aud").map(|list| list.iter().any(is_one)));
    one.or_else(|()| Document::read(&claims, drop, many)).ok()?
}

/// Returns the JWS of a signing input and its signature.
pub(crate) fn join(mut signing_input: String, signature: &[u8]) -> String {
    signing_input.push('.');
    signing_input.push_str(&base64url(signature));
    signing_input
}

// What a flow lets others sign: assertions of clients and DPoP proofs. No cryptography is here.

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

impl SignRequest {
    /// Returns the whole JWT, in its compact form.
    #[must_use]
    pub fn finish(self, signature: &[u8]) -> String {
        join(String::from_utf8(self.input.into()).unwrap_or_default(), signature)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(part: &str) -> String {
        String::from_utf8(URL_SAFE_NO_PAD.decode(part).expect("Base64")).expect("text")
    }

    #[test]
    fn pkce_challenge_is_that_of_rfc_7636() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(digest(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }

    #[test]
    fn thumbprint_is_that_of_rfc_9449() {
        // RFC 9449, 4.1 and 6.1.
        let decode = |text| URL_SAFE_NO_PAD.decode(text).expect("Base64");
        let mut public: Vec<u8> = decode("l8tFrhx-34tV3hRICRDY9zCkDlpBhF42UQUfWVAWBFs");
        public.extend(decode("9VE4jf_Ok_o64zbTTlcuNJajHmt6v9TDVrU0CdvGRDA"));
        let public: [u8; 64] = public.try_into().expect("64 bytes");
        assert_eq!(thumbprint(&public), "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I");
    }

    #[test]
    fn proofs_and_assertions_have_their_claims() {
        let proof = ProofClaims {
            id: "j",
            method: "POST",
            url: "https://as/token",
            issued_at: 7,
            nonce: Some("n\""),
            access_token: Some("token"),
        };
        let input = proof.signing_input(&[0; 64]);
        let (header, claims) = input.split_once('.').expect("two parts");
        assert!(
            decoded(header)
                .starts_with(r#"{"typ":"dpop+jwt","alg":"ES256","jwk":{"crv":"P-256","kty":"EC","x":"#)
        );
        assert_eq!(
            decoded(claims),
            r#"{"jti":"j","htm":"POST","htu":"https://as/token","iat":7,"nonce":"n\"","ath":"PEaenWxYddN6Q_NT1PiOYfz4EsZu7jRXRlpAsNpBU-A"}"#
        );
        let assertion =
            AssertionClaims { id: "j", client_id: "c", audience: "https://as", issued_at: 7, lifetime: 60 };
        let input = assertion.signing_input(Algorithm::Rs256, Some("k"));
        let (header, claims) = input.split_once('.').expect("two parts");
        assert_eq!(decoded(header), r#"{"typ":"JWT","alg":"RS256","kid":"k"}"#);
        assert_eq!(decoded(claims), r#"{"iss":"c","sub":"c","aud":"https://as","jti":"j","iat":7,"exp":67}"#);
        assert_eq!(join(String::from("a.b"), &[255]), "a.b._w");
    }

    #[test]
    fn base64url_is_decoded_strictly() {
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..bytes.len() {
            assert_eq!(from_base64url(&base64url(&bytes[..length])).as_deref(), Some(&bytes[..length]));
        }
        for bad in ["A", "AAAAA", "AB", "AAB", "AA==", "A+==", "A A", "é"] {
            assert_eq!(from_base64url(bad), None, "{bad}");
        }
    }

    #[test]
    fn audiences_are_read_from_tokens_alone() {
        let token = |claims: &str| alloc::format!("e30.{}.x", base64url(claims.as_bytes()));
        let has = |jwt: &str| has_audience(jwt, ["a", "b"]);
        for (claims, expected) in [
            (r#"{"aud":"a"}"#, Some(true)),
            (r#"{"aud":"c"}"#, Some(false)),
            (r#"{"aud":["c","b"]}"#, Some(true)),
            (r#"{"aud":[]}"#, Some(false)),
            ("{}", None),
            (r#"{"aud":7}"#, None),
        ] {
            assert_eq!(has(&token(claims)), expected, "{claims}");
        }
        assert_eq!((has("opaque"), has("")), (None, None));
    }
}
