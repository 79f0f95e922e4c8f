//! Webhooks: secrets, signatures of deliveries, verification challenges, ids of subscriptions.
//!
//! Deliveries are signed as Standard Webhooks are: HMAC-SHA-256 over the id, the time and the raw body, keyed with the
//! decoded bytes of a secret that the subscriber made (EVT-072, EVT-092).
//!
//! ```
//! use mcp_events::webhook::{Secret, SignedHead, Verifier, sign};
//!
//! let secret = Secret::from_entropy([7; 32]);
//! let body = br#"{"type":"gap","cursor":"c-90"}"#;
//! let signature = sign([&secret], "msg_gap_1", 1_795_600_800, body);
//!
//! let head = SignedHead { id: "msg_gap_1", timestamp: "1795600800", signature: &signature };
//! let verifier = Verifier::new(secret);
//! assert_eq!(verifier.verify(&head, body, 1_795_600_900), Ok(()));
//! assert!(verifier.verify(&head, b"{}", 1_795_600_900).is_err());
//! ```

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac as _};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use mcp_proto::http::Url;
use mcp_proto::{CanonicalError, EncodeError, Instant, RawJson};

/// Header field with the id of a message, the same for all its attempts (EVT-091).
pub const WEBHOOK_ID: &str = "webhook-id";
/// Header field with the time of an attempt, in Unix seconds.
pub const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
/// Header field with the signatures of an attempt, separated by spaces.
pub const WEBHOOK_SIGNATURE: &str = "webhook-signature";
/// Header field with the id of the subscription (EVT-090).
pub const SUBSCRIPTION_ID: &str = "X-MCP-Subscription-Id";
/// Media type of the body of a delivery.
pub const MEDIA_TYPE: &str = "application/json";
/// Size of the largest body of a delivery, in bytes (EVT-095).
pub const MAX_BODY: usize = 256 << 10;
/// Largest difference between the time of a delivery and that of its receiver (EVT-121).
pub const TOLERANCE: Duration = Duration::from_secs(300);
/// Time in which a challenge has to be answered (EVT-114).
pub const CHALLENGE_LIFE: Duration = Duration::from_secs(300);
/// Size of the largest answer to a challenge that is read, in bytes.
pub const MAX_CHALLENGE_ANSWER: usize = 4 << 10;

/// Number of well-formed signatures of a delivery that are looked at; more are ignored.
pub const MAX_SIGNATURES: usize = 16;

/// Version of the signatures that are made and verified here; `v1a` is that of asymmetric ones (EVT-105).
const SIGNATURE_VERSION: &str = "v1";

/// Secret that a subscriber shares with a server, for one subscription (EVT-072, EVT-073).
///
/// Its debug output has no part of it, two secrets are compared in constant time, and its bytes are overwritten when it is
/// dropped.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

/// Reason why a text is not a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It does not begin with `whsec_`.
    #[error("the secret does not begin with `whsec_`")]
    Prefix,
    /// The text after `whsec_` is not Base64 with padding.
    #[error("the text after `whsec_` is not Base64")]
    Base64,
    /// It has fewer than 24 or more than 64 bytes.
    #[error("the secret has {0} bytes instead of 24 to 64")]
    Length(usize),
}

impl Secret {
    /// Prefix of the text of a secret.
    pub const PREFIX: &str = "whsec_";
    /// Numbers of bytes that a secret may have.
    pub const LENGTHS: core::ops::RangeInclusive<usize> = 24..=64;

    /// Reads the text of a secret.
    ///
    /// # Errors
    ///
    /// [`SecretError`] with the first violated rule; it has no part of the text.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let text = text.strip_prefix(Self::PREFIX).ok_or(SecretError::Prefix)?;
        // Longer texts are not decoded: 64 bytes are 88 characters.
        if text.len() > 88 {
            let padding = text.bytes().rev().take_while(|b| *b == b'=').count();
            return Err(SecretError::Length((text.len() / 4 * 3).saturating_sub(padding)));
        }
        let bytes = STANDARD.decode(text).map_err(|_| SecretError::Base64)?;
        if !Self::LENGTHS.contains(&bytes.len()) {
            return Err(SecretError::Length(bytes.len()));
        }
        Ok(Self(bytes.into()))
    }

    /// Creates a secret of 32 bytes, which must come from a cryptographic source and be used for nothing else.
    #[must_use]
    pub fn from_entropy(bytes: [u8; 32]) -> Self {
        Self(bytes.into())
    }

    /// Returns the text of the secret, for `delivery.secret` and for a store of secrets.
    #[must_use]
    pub fn reveal(&self) -> String {
        format!("{}{}", Self::PREFIX, STANDARD.encode(&self.0))
    }

    fn mac(&self, id: &str, timestamp: &str, body: &[u8]) -> [u8; 32] {
        mac(&self.0, id, timestamp, body)
    }
}

/// Returns the HMAC-SHA-256 of a message (EVT-092).
fn mac(key: &[u8], id: &str, timestamp: &str, body: &[u8]) -> [u8; 32] {
    // HMAC takes a key of any length; the error branch cannot be reached, and no signature equals it.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        // Without it the compiler drops writes that nobody reads.
        core::hint::black_box(&self.0);
    }
}

/// Hides the secret.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Takes constant time for secrets of one length.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for Secret {}

/// Writes the text of the secret: for messages, which nobody logs.
impl serde::Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.reveal())
    }
}

impl<'de> serde::Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// Returns the value of [`WEBHOOK_SIGNATURE`] for an attempt at `unix_secs`: one signature per secret, in their order.
///
/// Two secrets sign during a rotation (EVT-094).
#[must_use]
pub fn sign<'s>(
    secrets: impl IntoIterator<Item = &'s Secret>,
    id: &str,
    unix_secs: u64,
    body: &[u8],
) -> String {
    let timestamp = format!("{unix_secs}");
    let mut value = String::new();
    for secret in secrets {
        if !value.is_empty() {
            value.push(' ');
        }
        value.push_str(SIGNATURE_VERSION);
        value.push(',');
        STANDARD.encode_string(secret.mac(id, &timestamp, body), &mut value);
    }
    value
}

// Verification.

/// The header fields that a delivery is verified by, as they arrived.
#[derive(Clone, Copy, Debug)]
pub struct SignedHead<'a> {
    /// Value of [`WEBHOOK_ID`].
    pub id: &'a str,
    /// Value of [`WEBHOOK_TIMESTAMP`].
    pub timestamp: &'a str,
    /// Value of [`WEBHOOK_SIGNATURE`].
    pub signature: &'a str,
}

/// Reason why a delivery was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The id is empty.
    #[error("`webhook-id` is empty")]
    Id,
    /// The time is not a number of seconds in decimal digits.
    #[error("`webhook-timestamp` is not a number of seconds")]
    Timestamp,
    /// There is no signature of version `v1`; those of other versions prove nothing here.
    #[error("`webhook-signature` has no signature of version v1")]
    NoSignature,
    /// Every signature of version `v1` is malformed: not Base64 with padding, or not of 32 bytes.
    #[error("no signature of version v1 is Base64 of 32 bytes")]
    Malformed,
    /// No signature fits: another secret, another body, or a changed id or time.
    #[error("no signature fits this id, time and body")]
    Mismatch,
    /// The signature fits, and the delivery is too old.
    #[error("the delivery is {by} seconds older than is allowed")]
    Stale {
        /// Seconds beyond the tolerance.
        by: u64,
    },
    /// The signature fits, and the delivery is too far in the future.
    #[error("the delivery is {by} seconds farther in the future than is allowed")]
    Future {
        /// Seconds beyond the tolerance.
        by: u64,
    },
}

/// A known mistake that a signature with [`VerifyError::Mismatch`] shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureMistake {
    /// The key was the text of the secret instead of its decoded bytes.
    #[error("the signature was made with the text of the secret instead of its decoded bytes")]
    SecretAsText,
    /// The signature fits the body with other white space at its end.
    #[error("the signature fits the body with other white space at its end")]
    WhiteSpace,
    /// The signature fits the body alone, without the id and the time.
    #[error("the signature was made over the body alone, without id and time")]
    BodyAlone,
    /// The signature fits the time, the id and the body, in this order.
    #[error("the signature was made over time, id and body, and the id comes first")]
    TimeFirst,
}

/// Verifies deliveries of one subscription.
#[derive(Clone, Debug)]
pub struct Verifier {
    secrets: Vec<Secret>,
    tolerance: Duration,
}

impl Verifier {
    /// Creates a verifier with the tolerance [`TOLERANCE`].
    #[must_use]
    pub fn new(secret: Secret) -> Self {
        Self { secrets: Vec::from([secret]), tolerance: TOLERANCE }
    }

    /// Accepts signatures of another secret, too, while secrets are rotated (EVT-094, EVT-128).
    #[must_use]
    pub fn or(mut self, secret: Secret) -> Self {
        self.secrets.push(secret);
        self
    }

    /// Sets the largest difference between the time of a delivery and `now`, in both directions (EVT-121).
    #[must_use]
    pub const fn tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self
    }

    /// Verifies the signature over the raw body, and then the time (EVT-120, EVT-121, EVT-128).
    ///
    /// One signature that fits is enough; malformed ones and those of other versions are skipped, and so are those behind the
    /// first [`MAX_SIGNATURES`]. The work is one HMAC per secret, however many signatures there are.
    ///
    /// # Errors
    ///
    /// [`VerifyError`] with the first violated rule.
    pub fn verify(&self, head: &SignedHead<'_>, body: &[u8], unix_secs: u64) -> Result<(), VerifyError> {
        let signed = Signed::new(head)?;
        if !self.secrets.iter().any(|secret| signed.fits(secret, body)) {
            return Err(VerifyError::Mismatch);
        }
        signed.check_time(unix_secs, self.tolerance)
    }

    /// Looks for a known mistake of the sender behind a [`VerifyError::Mismatch`], for tools and logs.
    #[must_use]
    pub fn explain(&self, head: &SignedHead<'_>, body: &[u8]) -> Option<SignatureMistake> {
        let signatures = signatures(head.signature).ok()?;
        let trimmed = body.trim_ascii_end();
        self.secrets.iter().find_map(|secret| {
            let is = |key: &[u8], body: &[u8]| fits(&signatures, mac(key, head.id, head.timestamp, body));
            let text = secret.reveal();
            let encoded = text.strip_prefix(Secret::PREFIX).unwrap_or_default();
            let with_line = [trimmed, b"\n"].concat();
            if is(text.as_bytes(), body) || is(encoded.as_bytes(), body) {
                return Some(SignatureMistake::SecretAsText);
            }
            if is(&secret.0, trimmed) || is(&secret.0, &with_line) {
                return Some(SignatureMistake::WhiteSpace);
            }
            if fits(&signatures, mac(&secret.0, head.timestamp, head.id, body)) {
                return Some(SignatureMistake::TimeFirst);
            }
            let mut alone = Hmac::<Sha256>::new_from_slice(&secret.0).ok()?;
            alone.update(body);
            fits(&signatures, alone.finalize().into_bytes().into()).then_some(SignatureMistake::BodyAlone)
        })
    }
}

/// A head that is read once, for several secrets.
pub(crate) struct Signed<'a> {
    pub(crate) id: &'a str,
    timestamp: &'a str,
    /// Unix time of the attempt, which is signed.
    pub(crate) unix_secs: u64,
    signatures: Vec<[u8; 32]>,
}

impl<'a> Signed<'a> {
    pub(crate) fn new(head: &SignedHead<'a>) -> Result<Self, VerifyError> {
        let SignedHead { id, timestamp, signature } = *head;
        if id.is_empty() {
            return Err(VerifyError::Id);
        }
        let digits = !timestamp.is_empty() && timestamp.bytes().all(|b| b.is_ascii_digit());
        let unix_secs = timestamp.parse().ok().filter(|_| digits).ok_or(VerifyError::Timestamp)?;
        Ok(Self { id, timestamp, unix_secs, signatures: signatures(signature)? })
    }

    /// Returns whether a secret made one of the signatures; costs a hash of the body.
    pub(crate) fn fits(&self, secret: &Secret, body: &[u8]) -> bool {
        fits(&self.signatures, secret.mac(self.id, self.timestamp, body))
    }

    /// Compares the time of the attempt with that of the receiver (EVT-121).
    pub(crate) fn check_time(&self, unix_secs: u64, tolerance: Duration) -> Result<(), VerifyError> {
        let (sent, tolerance) = (self.unix_secs, tolerance.as_secs());
        match (unix_secs.saturating_sub(sent), sent.saturating_sub(unix_secs)) {
            (age, _) if age > tolerance => Err(VerifyError::Stale { by: age - tolerance }),
            (_, ahead) if ahead > tolerance => Err(VerifyError::Future { by: ahead - tolerance }),
            _ => Ok(()),
        }
    }
}

/// Returns the well-formed signatures of version `v1`, at most [`MAX_SIGNATURES`].
fn signatures(value: &str) -> Result<Vec<[u8; 32]>, VerifyError> {
    let texts = value.split(' ').filter_map(|signature| match signature.split_once(',') {
        Some((SIGNATURE_VERSION, text)) => Some(text),
        _ => None,
    });
    let mut error = VerifyError::NoSignature;
    let mut found = Vec::new();
    for text in texts {
        if found.len() >= MAX_SIGNATURES {
            break;
        }
        error = VerifyError::Malformed;
        // 32 bytes are 44 characters; other texts are not decoded.
        let bytes = Some(text).filter(|text| text.len() == 44).and_then(|text| STANDARD.decode(text).ok());
        found.extend(bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()));
    }
    if found.is_empty() { Err(error) } else { Ok(found) }
}

/// Compares each signature in constant time; which of them fits is no secret.
fn fits(signatures: &[[u8; 32]], expected: [u8; 32]) -> bool {
    signatures.iter().any(|signature| signature.ct_eq(&expected).into())
}

// Verification challenges.

/// A challenge that a server sent to a URL, and that proves that its owner wants deliveries (EVT-113, EVT-114).
///
/// It is not `Clone`, and [`accept`](Self::accept) takes it: an answer counts once.
pub struct Challenge {
    nonce: String,
    expires_at: Instant,
}

/// Reason why an answer does not prove anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChallengeError {
    /// The answer came more than [`CHALLENGE_LIFE`] after the challenge.
    #[error("the challenge has expired")]
    Expired,
    /// The status is not 2xx.
    #[error("the endpoint answered the challenge with status {0}")]
    Status(u16),
    /// The body is not a JSON object whose member `challenge` is the nonce.
    #[error("the endpoint did not echo the challenge")]
    Echo,
}

impl Challenge {
    /// Creates a challenge from 24 bytes of a cryptographic source.
    #[must_use]
    pub fn new(entropy: [u8; 24], now: Instant) -> Self {
        Self { nonce: URL_SAFE_NO_PAD.encode(entropy), expires_at: now + CHALLENGE_LIFE }
    }

    /// Returns the body to send.
    #[must_use]
    pub fn body(&self) -> String {
        format!(r#"{{"type":"verification","challenge":"{}"}}"#, self.nonce)
    }

    /// Returns the time after which no answer counts.
    #[must_use]
    pub const fn expires_at(&self) -> Instant {
        self.expires_at
    }

    /// Accepts or refuses an answer; nothing of the answer is part of an error (EVT-101).
    ///
    /// The echo is compared in constant time. A body of more than [`MAX_CHALLENGE_ANSWER`] bytes is refused.
    ///
    /// # Errors
    ///
    /// [`ChallengeError`] with the first violated rule.
    pub fn accept(self, now: Instant, status: u16, body: &[u8]) -> Result<(), ChallengeError> {
        if now > self.expires_at {
            return Err(ChallengeError::Expired);
        }
        if !(200..300).contains(&status) {
            return Err(ChallengeError::Status(status));
        }
        let body = Some(body).filter(|body| body.len() <= MAX_CHALLENGE_ANSWER);
        let answer = body.and_then(|body| RawJson::new(Vec::from(body)).ok());
        // A text without a canonical form could have the member twice.
        let answer = answer.filter(|answer| answer.to_canonical().is_ok());
        let echo = answer.and_then(|answer| answer.member("challenge")?.string());
        let is_echo = echo.is_some_and(|echo| self.nonce.as_bytes().ct_eq(echo.as_bytes()).into());
        if is_echo { Ok(()) } else { Err(ChallengeError::Echo) }
    }
}

/// Hides the nonce, which an answer is compared with.
impl fmt::Debug for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Challenge").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

// Subscriptions.

/// What identifies a webhook subscription at a server (EVT-074, EVT-077): all of it is immutable.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionKey {
    principal: String,
    url: String,
    name: String,
    /// By the JSON Canonicalization Scheme.
    arguments: String,
}

/// Omits the query of the URL and the arguments, which may be secrets.
impl fmt::Debug for SubscriptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubscriptionKey")
            .field("principal", &self.principal)
            .field("url", &Url::redacted(&self.url))
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl SubscriptionKey {
    /// Creates a key. The URL counts as it was sent; arguments count by their values, and `{}` stands for none.
    ///
    /// # Errors
    ///
    /// [`CanonicalError`] if the arguments have no canonical text.
    pub fn new(
        principal: impl Into<String>,
        url: impl Into<String>,
        name: impl Into<String>,
        arguments: &RawJson,
    ) -> Result<Self, CanonicalError> {
        let arguments = arguments.to_canonical()?;
        Ok(Self { principal: principal.into(), url: url.into(), name: name.into(), arguments })
    }

    /// Returns the canonical name of the subscriber.
    #[must_use]
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// Returns the URL of the receiver.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the name of the event type.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the arguments by the JSON Canonicalization Scheme.
    #[must_use]
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// Returns the id of the subscription: the same for the same key, at every host and after every restart (EVT-076).
    ///
    /// It is `sub_` and 32 hexadecimal digits: the first half of the SHA-256 of the canonical JSON array of principal, URL,
    /// name and arguments. It routes deliveries and proves nothing.
    #[must_use]
    pub fn id(&self) -> String {
        let array: Result<String, EncodeError> = (|| {
            let strings = [&self.principal, &self.url, &self.name].map(RawJson::encode);
            let [principal, url, name] = strings;
            Ok(format!("[{},{},{},{}]", principal?, url?, name?, self.arguments))
        })();
        // Strings are always encoded, and as the scheme writes them.
        let digest = Sha256::digest(array.unwrap_or_default());
        let digits = digest.iter().take(16).flat_map(|byte| [byte >> 4, byte & 15]);
        let digits = digits.filter_map(|digit| char::from_digit(u32::from(digit), 16));
        "sub_".chars().chain(digits).collect()
    }
}

#[cfg(test)]
mod tests;
