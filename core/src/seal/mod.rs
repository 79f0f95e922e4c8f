//! Sealed state: a `requestState` with integrity, which the client keeps between two rounds.
//!
//! Modern revisions have no sessions, so the state of an unfinished call travels to the client and back (MRTR-010).
//! The server must treat the returned state as an attacker's until it is verified (MRTR-020). A seal is an
//! HMAC-SHA-256 over the state and its binding: principal, method, target, arguments and expiry (MRTR-021, MRTR-023).
//! It stays valid across restarts and on other hosts that have the same keys (DESIGN-06, DESIGN-10).
//!
//! A seal has two limits:
//!
//! - It does not encrypt. The client can read the payload, so put no secrets in it.
//! - It is not single-use. A text opens any number of times until it expires. The server must record by itself what may
//!   happen only once (MRTR-024).
//!
//! ```
//! use mcp_proto::seal::{Binding, Keys, RequestState, digest};
//!
//! // 32 bytes from a cryptographic source, the same on every host and after every restart.
//! let keys = Keys::new([7; 32]).with_older([3; 32]);
//! let arguments = br#"{"amount":1,"to":"bob"}"#;
//! let binding = Binding {
//!     principal: Some("alice"),
//!     method: "tools/call",
//!     target: "transfer",
//!     arguments: digest(Some(arguments)).unwrap(),
//! };
//! let record = RequestState { attempt: 2, state: b"step 1", answers: vec![("sure", r#"{"action":"accept"}"#)] };
//! let text = keys.seal(&binding, 1_800_000_900, &record.encode(), 32 << 10).unwrap();
//!
//! // The client sends it back with the same arguments, which may be spelled differently.
//! let again = Binding { arguments: digest(Some(br#"{"to": "bob", "amount": 1.0}"#)).unwrap(), ..binding };
//! let payload = keys.open(&again, 1_800_000_100, &text, 32 << 10).unwrap();
//! assert_eq!(RequestState::decode(&payload), Ok(record));
//! // Another principal, another call or a later time is refused.
//! assert!(keys.open(&Binding { principal: Some("eve"), ..again }, 1_800_000_100, &text, 32 << 10).is_err());
//! assert!(keys.open(&again, 1_800_000_900, &text, 32 << 10).is_err());
//! ```

use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::json::{canonical, check_utf8};
use crate::raw::InvalidJson;
use crate::record::{number, part, put, put_number, text};

/// Bytes before the payload: version, id of the key, expiry.
const HEAD_LEN: usize = 1 + 4 + 8;
/// Bytes after the payload.
const TAG_LEN: usize = 32;
const SEAL_VERSION: u8 = 1;

/// Keys that seal and open.
///
/// The current key seals; the current and the older keys open. To rotate keys without refusing the state of running
/// calls:
///
/// 1. Give the new key to all hosts as an older one.
/// 2. Make it the current key and the previous one an older key.
/// 3. Drop the previous key when everything that it sealed has expired.
///
/// A text names its key by four bytes that are derived from the key and reveal nothing about it. The order of keys
/// therefore has no meaning, and a text of an unknown key is refused without a calculation.
#[derive(Clone)]
pub struct Keys {
    current: SealKey,
    older: Vec<SealKey>,
}

#[derive(Clone)]
struct SealKey {
    id: [u8; 4],
    /// MAC that was initialized with the key and has no other input yet.
    mac: Hmac<Sha256>,
}

impl SealKey {
    fn new(secret: &[u8; 32]) -> Self {
        // The secret is used for derivation only, so other purposes that derive their keys may share it.
        let derived = |purpose: &[u8]| -> [u8; 32] {
            let mut mac = keyed(secret);
            mac.update(purpose);
            mac.finalize().into_bytes().into()
        };
        let [a, b, c, d, ..] = derived(b"mcp-proto seal 1 name");
        Self { id: [a, b, c, d], mac: keyed(&derived(b"mcp-proto seal 1 key")) }
    }

    fn tag(&self, head: &[u8], binding: &Binding<'_>, payload: &[u8]) -> [u8; TAG_LEN] {
        let mut mac = self.mac.clone();
        mac.update(head);
        // Each part is preceded by its length, so that no byte can move from one part to the next.
        mac.update(&[u8::from(binding.principal.is_some())]);
        for part in [binding.principal.unwrap_or_default(), binding.method, binding.target] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac.update(&binding.arguments);
        mac.update(payload);
        mac.finalize().into_bytes().into()
    }
}

fn keyed(key: &[u8; 32]) -> Hmac<Sha256> {
    let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
    for (to, from) in block.iter_mut().zip(key) {
        *to = *from;
    }
    // HMAC pads a key that is shorter than a block with zeros.
    Hmac::new(&block)
}

/// The call that a sealed state belongs to; the sealed text contains none of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding<'a> {
    /// The principal of the call, where it is known.
    pub principal: Option<&'a str>,
    /// The method of the call.
    pub method: &'a str,
    /// The name of the tool or prompt, or the URI of the resource.
    pub target: &'a str,
    /// The [`digest`] of the arguments.
    pub arguments: [u8; 32],
}

/// Returns the digest of a call's arguments, given as JSON; `None` for a call without arguments.
///
/// Member order, escapes, white space and the spelling of numbers do not matter, so a client may encode the arguments
/// anew when it retries. No arguments, `null` and `{}` are three different values.
///
/// # Errors
///
/// [`InvalidJson`] if the text is not JSON or is nested more than 128 deep.
pub fn digest(arguments: Option<&[u8]>) -> Result<[u8; 32], InvalidJson> {
    let mut hash = Sha256::new();
    if let Some(text) = arguments {
        check_utf8(text).map_err(|at| InvalidJson { at })?;
        canonical(text, &mut |part| hash.update(part)).map_err(|e| InvalidJson { at: e.offset() })?;
    }
    Ok(hash.finalize().into())
}

impl Keys {
    /// Creates keys with one key that seals and opens.
    ///
    /// The key must come from a cryptographic source: it is all that is needed to forge state. State that is sealed
    /// with a key drawn at process start cannot be opened after that process has ended.
    #[must_use]
    pub fn new(current: [u8; 32]) -> Self {
        Self { current: SealKey::new(&current), older: Vec::new() }
    }

    /// Adds a key that only opens.
    #[must_use]
    pub fn with_older(mut self, key: [u8; 32]) -> Self {
        self.older.push(SealKey::new(&key));
        self
    }

    /// Seals `payload` for `binding`; it can be opened before `expires` (Unix time in seconds).
    ///
    /// Returns URL-safe base64 of `60 + ⌈payload · 4 / 3⌉` bytes. Equal arguments give equal texts.
    ///
    /// # Errors
    ///
    /// [`SealError::TooLong`] if the text would be longer than `limit` bytes.
    pub fn seal(
        &self,
        binding: &Binding<'_>,
        expires: u64,
        payload: &[u8],
        limit: usize,
    ) -> Result<String, SealError> {
        let size = HEAD_LEN.saturating_add(payload.len()).saturating_add(TAG_LEN);
        if base64::encoded_len(size, false).is_none_or(|length| length > limit) {
            return Err(SealError::TooLong { limit });
        }
        let key = &self.current;
        let mut bytes = Vec::with_capacity(size);
        bytes.push(SEAL_VERSION);
        bytes.extend_from_slice(&key.id);
        bytes.extend_from_slice(&expires.to_be_bytes());
        let tag = key.tag(&bytes, binding, payload);
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(&tag);
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Opens `text` and returns its payload; `now` is Unix time in seconds.
    ///
    /// It succeeds if one of the keys sealed the text for `binding` and it has not expired at `now`. The text must be
    /// unchanged: no bytes around it, and no other spelling of its last bits. Tags are compared in constant time.
    ///
    /// # Errors
    ///
    /// The variants of [`SealError`]. Send the peer the same message for all of them: [`SealError::PEER_MESSAGE`].
    pub fn open(
        &self,
        binding: &Binding<'_>,
        now: u64,
        text: &str,
        limit: usize,
    ) -> Result<Vec<u8>, SealError> {
        // Before the text is decoded, because the peer chooses its length.
        if text.len() > limit {
            return Err(SealError::TooLong { limit });
        }
        let mut bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| SealError::Malformed)?;
        let (head, rest) = bytes.split_first_chunk::<HEAD_LEN>().ok_or(SealError::Malformed)?;
        let (payload, tag) = rest.split_last_chunk::<TAG_LEN>().ok_or(SealError::Malformed)?;
        let [version, a, b, c, d, expires @ ..] = *head;
        if version != SEAL_VERSION {
            return Err(SealError::Malformed);
        }
        // Two keys may share an id, though rarely: all that match are tried.
        let mut known = false;
        let fits = core::iter::once(&self.current)
            .chain(&self.older)
            .filter(|key| key.id == [a, b, c, d])
            .any(|key| {
                known = true;
                bool::from(key.tag(head, binding, payload).ct_eq(tag))
            });
        match (fits, known) {
            (true, _) => {}
            (false, true) => return Err(SealError::BindingMismatch),
            (false, false) => return Err(SealError::UnknownKey),
        }
        // After the tag: only now the expiry is known to be the one that was sealed.
        if now >= u64::from_be_bytes(expires) {
            return Err(SealError::Expired);
        }
        let end = HEAD_LEN + payload.len();
        bytes.truncate(end);
        bytes.drain(..HEAD_LEN);
        Ok(bytes)
    }
}

/// Hides the keys.
impl core::fmt::Debug for Keys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

/// Reason why state was not sealed or not opened.
///
/// The reasons are for a log. A peer, which may have forged the text, receives
/// [`PEER_MESSAGE`](Self::PEER_MESSAGE) for all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// The text is longer than the limit.
    #[error("the request state is longer than {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// The text was never sealed: its base64, version or length is wrong.
    #[error("the request state is malformed")]
    Malformed,
    /// The text names a key that is unknown or was dropped, or it was made up.
    #[error("the request state names an unknown key")]
    UnknownKey,
    /// The text was changed, or sealed for another principal, method, target or other arguments.
    #[error("the request state does not match its call")]
    BindingMismatch,
    /// The text is valid but has expired.
    #[error("the request state has expired")]
    Expired,
}

impl SealError {
    /// Message for the peer, the same for all errors.
    pub const PEER_MESSAGE: &'static str =
        "the request state is not valid for this call, or no longer; call again without it";
}

#[cfg(test)]
mod tests;

// State of a call between two rounds, as bytes.

/// Progress of a call: the payload of a sealed state.
///
/// Encoding: a version, the attempt, the state, and the number of input responses, then key and text of each. Numbers
/// are written seven bits at a time, low ones first; a length precedes each text. Each record has exactly one encoding.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RequestState<'a> {
    /// Number of the delivery that this is for.
    pub attempt: u32,
    /// State of the application.
    pub state: &'a [u8],
    /// Input responses so far, as JSON with their keys; an empty text for an input request without an answer yet.
    pub answers: Vec<(&'a str, &'a str)>,
}

const STATE_VERSION: u8 = 1;

impl<'a> RequestState<'a> {
    /// Encodes the record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let answers: usize = self.answers.iter().map(|(key, json)| key.len() + json.len() + 6).sum();
        let mut out = Vec::with_capacity(16 + self.state.len() + answers);
        out.push(STATE_VERSION);
        put_number(&mut out, u64::from(self.attempt));
        put(&mut out, self.state);
        put_number(&mut out, self.answers.len() as u64);
        for (key, json) in &self.answers {
            put(&mut out, key.as_bytes());
            put(&mut out, json.as_bytes());
        }
        out
    }

    /// Decodes the output of [`encode`](Self::encode).
    ///
    /// It does not check that the input responses are JSON: the seal has shown that this server wrote them.
    ///
    /// # Errors
    ///
    /// [`SealError::Malformed`] for any other bytes.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, SealError> {
        Self::read(bytes).ok_or(SealError::Malformed)
    }

    fn read(mut from: &'a [u8]) -> Option<Self> {
        let from = &mut from;
        let version;
        (version, *from) = from.split_first()?;
        if *version != STATE_VERSION {
            return None;
        }
        let attempt = u32::try_from(number(from)?).ok()?;
        let state = part(from)?;
        let count = usize::try_from(number(from)?).ok()?;
        // An entry has two lengths at least: this bounds the allocation by the input.
        if count > from.len() / 2 {
            return None;
        }
        let mut answers = Vec::with_capacity(count);
        for _ in 0..count {
            answers.push((text(from)?, text(from)?));
        }
        from.is_empty().then_some(Self { attempt, state, answers })
    }
}

#[cfg(test)]
mod request_state_tests {
    use super::*;
    use alloc::string::String;

    fn answers(n: usize) -> Vec<(String, String)> {
        (0..n).map(|i| ("k".repeat(i % 200), "9".repeat(i * 7))).collect()
    }

    #[test]
    fn request_state_round_trips() {
        let long = answers(300);
        let long: Vec<(&str, &str)> = long.iter().map(|(key, json)| (&**key, &**json)).collect();
        let state = [0xff; 20_000];
        for attempt in [0, 1, 2, 127, 128, 16_383, 16_384, u32::MAX] {
            for state in [&b""[..], b"x", &state[..127], &state[..128], &state] {
                for answers in [&[][..], &[("", "")], &[("sure", r#"{"action":"accept"}"#)], &long] {
                    let record = RequestState { attempt, state, answers: answers.into() };
                    assert_eq!(RequestState::decode(&record.encode()), Ok(record));
                }
            }
        }
        assert_eq!(RequestState::default().encode(), [1, 0, 0, 0]);
    }

    // covers: MRTR-020
    #[test]
    fn malformed_request_state_is_refused() {
        let record =
            RequestState { attempt: 300, state: b"step 1", answers: [("a", "1"), ("é", "null")].into() };
        let bytes = record.encode();
        for length in 0..bytes.len() {
            assert_eq!(
                RequestState::decode(&bytes[..length]),
                Err(SealError::Malformed),
                "the first {length}"
            );
        }
        for more in 0..=255 {
            let longer = [&bytes[..], &[more]].concat();
            assert_eq!(RequestState::decode(&longer), Err(SealError::Malformed));
        }
        for bad in [
            &[][..],
            // Another version.
            &[0, 0, 0, 0],
            &[2, 0, 0, 0],
            // Numbers that could be shorter, have no end, or are too large.
            &[1, 0x80, 0, 0, 0],
            &[1, 0x81, 0, 0, 0],
            &[1, 0, 0, 0x80],
            &[1, 0xff, 0xff, 0xff, 0xff, 0x1f, 0, 0],
            &[1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0],
            // Lengths and counts beyond the end.
            &[1, 0, 1],
            &[1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0],
            &[1, 0, 0, 1],
            &[1, 0, 0, 1, 0],
            &[1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
            &[1, 0, 0, 2, 0, 0],
            &[1, 0, 0, 1, 1, b'a', 2, b'1'],
            // Texts that are not UTF-8.
            &[1, 0, 0, 1, 1, 0xff, 0],
            &[1, 0, 0, 1, 0, 2, b'"', 0x80],
        ] {
            assert_eq!(RequestState::decode(bad), Err(SealError::Malformed), "{bad:?}");
        }
    }

    /// Decoded bytes encode to themselves: each record has exactly one encoding.
    #[test]
    fn request_state_has_one_encoding() {
        let mut seen = 0;
        let mut random: u64 = 1;
        for _ in 0..200_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut bytes = random.to_be_bytes();
            bytes[0] = 1;
            for byte in &mut bytes[1..] {
                *byte = [0, 1, 2, 3, 0x80, 0x81, b'a', 0xff][usize::from(*byte >> 5)];
            }
            let bytes = &bytes[..4 + (random & 3) as usize];
            if let Ok(record) = RequestState::decode(bytes) {
                assert_eq!(record.encode(), bytes);
                seen += 1;
            }
        }
        assert!(seen > 500, "{seen}");
    }
}
