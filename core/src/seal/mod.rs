//! Sealed `requestState`: what a server lets a client keep for it between two rounds of input, and believes afterwards.
//!
//! In the revisions without sessions the state of an unfinished call travels to the client and back (MRTR-010). What
//! comes back is an attacker's until shown otherwise (MRTR-020). A seal is an HMAC-SHA-256 over the state and over what
//! it belongs to: principal, method, target, arguments, and the time until which it is good (MRTR-021, MRTR-023). With
//! the keys given again it holds across restarts, and on other hosts.
//!
//! What a seal is not:
//!
//! - It is no encryption. Whoever has the text can read the payload: put no secrets in it.
//! - It is no ticket. The same text opens any number of times until it expires; what must happen only once has to be
//!   remembered by the server (MRTR-024).
//!
//! ```
//! use mcp_proto::seal::{Binding, Keys, Record, digest};
//!
//! // 32 bytes from a cryptographic source, the same on every host and after every restart.
//! let keys = Keys::new([7; 32]).older([3; 32]);
//! let arguments = br#"{"amount":1,"to":"bob"}"#;
//! let binding = Binding {
//!     principal: Some("alice"),
//!     method: "tools/call",
//!     target: "transfer",
//!     arguments: digest(Some(arguments)).unwrap(),
//! };
//! let record = Record { attempt: 2, state: b"step 1", answers: vec![("sure", r#"{"action":"accept"}"#)] };
//! let text = keys.seal(&binding, 1_800_000_900, &record.encode(), 32 << 10).unwrap();
//!
//! // The client sends it back with the same arguments, perhaps written another way.
//! let again = Binding { arguments: digest(Some(br#"{"to": "bob", "amount": 1.0}"#)).unwrap(), ..binding };
//! let payload = keys.open(&again, 1_800_000_100, &text, 32 << 10).unwrap();
//! assert_eq!(Record::decode(&payload), Ok(record));
//! // Nobody else's, no other call's, and not for ever.
//! assert!(keys.open(&Binding { principal: Some("eve"), ..again }, 1_800_000_100, &text, 32 << 10).is_err());
//! assert!(keys.open(&again, 1_800_000_900, &text, 32 << 10).is_err());
//! ```

mod record;

pub use record::Record;

use alloc::string::String;
use alloc::vec::Vec;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::json::{canonical, check_utf8};
use crate::raw::InvalidJson;

/// What is in front of the payload: version, name of the key, expiry
const HEAD: usize = 1 + 4 + 8;
/// What is behind it
const TAG: usize = 32;
const VERSION: u8 = 1;

/// The keys that seal and open
///
/// One key seals; it and the older ones open. To change keys without refusing what is in clients' hands: give the new
/// key to all hosts as an older one, then make it the first one and the previous one an older one, and drop that when
/// all that it sealed has expired.
///
/// A text names its key by four bytes that are derived from the key and tell nothing about it, so the order of keys
/// means nothing and a stranger's text is refused without a calculation.
#[derive(Clone)]
pub struct Keys {
    current: Key,
    older: Vec<Key>,
}

#[derive(Clone)]
struct Key {
    name: [u8; 4],
    /// Has taken in the key and nothing else
    mac: Hmac<Sha256>,
}

impl Key {
    fn new(secret: &[u8; 32]) -> Self {
        // The secret itself is used for nothing else, so it may be shared with other purposes that do the same.
        let derived = |purpose: &[u8]| -> [u8; 32] {
            let mut mac = keyed(secret);
            mac.update(purpose);
            mac.finalize().into_bytes().into()
        };
        let [a, b, c, d, ..] = derived(b"mcp-proto seal 1 name");
        Self { name: [a, b, c, d], mac: keyed(&derived(b"mcp-proto seal 1 key")) }
    }

    fn tag(&self, head: &[u8], binding: &Binding<'_>, payload: &[u8]) -> [u8; TAG] {
        let mut mac = self.mac.clone();
        mac.update(head);
        // Each part with its length, so that nothing can move from one into the next.
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
    // A key that is shorter than a block counts as if zeros followed it.
    Hmac::new(&block)
}

/// What a sealed state belongs to; no part of it stands in the text
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding<'a> {
    /// Who made the call, where that is known
    pub principal: Option<&'a str>,
    /// The method of the call
    pub method: &'a str,
    /// The name of the tool or prompt, or the URI of the resource
    pub target: &'a str,
    /// The [`digest`] of the arguments
    pub arguments: [u8; 32],
}

/// The digest of the arguments of a call, given as JSON; none where the call has none
///
/// Member order, escapes, white space and the spelling of numbers do not matter, so a client may write the arguments
/// anew when it retries. No arguments, `null` and `{}` are three different things.
///
/// # Errors
///
/// What is no JSON, or is nested more than 128 deep, has no digest.
pub fn digest(arguments: Option<&[u8]>) -> Result<[u8; 32], InvalidJson> {
    let mut hash = Sha256::new();
    if let Some(text) = arguments {
        check_utf8(text).map_err(|at| InvalidJson { at })?;
        canonical(text, &mut |part| hash.update(part)).map_err(|e| InvalidJson { at: e.at() })?;
    }
    Ok(hash.finalize().into())
}

impl Keys {
    /// One key, that seals and opens
    ///
    /// It must come from a cryptographic source: whoever knows it can make states. A key that was made up at the start
    /// of a process opens nothing after that process.
    #[must_use]
    pub fn new(current: [u8; 32]) -> Self {
        Self { current: Key::new(&current), older: Vec::new() }
    }

    /// Another key that opens
    #[must_use]
    pub fn older(mut self, key: [u8; 32]) -> Self {
        self.older.push(Key::new(&key));
        self
    }

    /// Seals `payload` for `binding`, good before `expires` (Unix time in seconds)
    ///
    /// Gives URL-safe base64 of `60 + ⌈payload · 4 / 3⌉` bytes. Equal arguments give equal texts.
    ///
    /// # Errors
    ///
    /// [`SealError::TooLong`] where that is more than `limit`, which no text may pass on its way back either.
    pub fn seal(
        &self,
        binding: &Binding<'_>,
        expires: u64,
        payload: &[u8],
        limit: usize,
    ) -> Result<String, SealError> {
        let size = HEAD.saturating_add(payload.len()).saturating_add(TAG);
        if base64::encoded_len(size, false).is_none_or(|length| length > limit) {
            return Err(SealError::TooLong { limit });
        }
        let key = &self.current;
        let mut bytes = Vec::with_capacity(size);
        bytes.push(VERSION);
        bytes.extend_from_slice(&key.name);
        bytes.extend_from_slice(&expires.to_be_bytes());
        let tag = key.tag(&bytes, binding, payload);
        bytes.extend_from_slice(payload);
        bytes.extend_from_slice(&tag);
        Ok(URL_SAFE_NO_PAD.encode(bytes))
    }

    /// The payload of `text`, if one of the keys sealed it for `binding` and it has not expired at `now` (Unix time in
    /// seconds)
    ///
    /// A text opens as it was given out or not at all: nothing may stand around it, and no other spelling of its last
    /// bits opens. Seals are compared in constant time.
    ///
    /// # Errors
    ///
    /// Whatever the error is, the peer should be told one thing, [`SealError::TOLD`].
    pub fn open(
        &self,
        binding: &Binding<'_>,
        now: u64,
        text: &str,
        limit: usize,
    ) -> Result<Vec<u8>, SealError> {
        if text.len() > limit {
            return Err(SealError::TooLong { limit });
        }
        let mut bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| SealError::Malformed)?;
        let (head, rest) = bytes.split_first_chunk::<HEAD>().ok_or(SealError::Malformed)?;
        let (payload, tag) = rest.split_last_chunk::<TAG>().ok_or(SealError::Malformed)?;
        let [version, a, b, c, d, expires @ ..] = *head;
        if version != VERSION {
            return Err(SealError::Malformed);
        }
        // Two keys may have one name, though only by a rare chance: all that fit are tried.
        let mut known = false;
        let fits = core::iter::once(&self.current)
            .chain(&self.older)
            .filter(|key| key.name == [a, b, c, d])
            .any(|key| {
                known = true;
                bool::from(key.tag(head, binding, payload).ct_eq(tag))
            });
        match (fits, known) {
            (true, _) => {}
            (false, true) => return Err(SealError::Unfit),
            (false, false) => return Err(SealError::UnknownKey),
        }
        if now >= u64::from_be_bytes(expires) {
            return Err(SealError::Expired);
        }
        let end = HEAD + payload.len();
        bytes.truncate(end);
        bytes.drain(..HEAD);
        Ok(bytes)
    }
}

/// Shows nothing
impl core::fmt::Debug for Keys {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

/// Why a state was not sealed or not opened
///
/// The reasons are for a log. A peer that may have forged the text is told [`TOLD`](Self::TOLD), whichever it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// Longer than allowed
    #[error("the request state is longer than {limit} bytes")]
    TooLong {
        /// What is allowed
        limit: usize,
    },
    /// Nothing that was ever sealed: not the base64, the version or the length of it
    #[error("the request state is malformed")]
    Malformed,
    /// Sealed by a key that is not, or no longer, accepted; or made up
    #[error("the request state names an unknown key")]
    UnknownKey,
    /// Changed, or sealed for another principal, method, target or other arguments
    #[error("the request state does not fit the call that it came with")]
    Unfit,
    /// Good in all, but too late
    #[error("the request state has expired")]
    Expired,
}

impl SealError {
    /// What a peer is told about any of these
    pub const TOLD: &'static str =
        "the request state is not valid for this call, or no longer; call again without it";
}

#[cfg(test)]
mod tests;
