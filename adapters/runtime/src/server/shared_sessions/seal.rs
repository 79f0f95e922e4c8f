//! Seals of records and messages: what leaves the process is encrypted and authenticated (XChaCha20-Poly1305).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use mcp_proto::http::server::{KeptCall, SessionId};
use mcp_std::entropy;
use mcp_std::session_store::{SessionName, SessionStoreError};
use sha2::{Digest as _, Sha256};

/// The first byte of what is sealed.
const VERSION: u8 = 1;
/// Number of bytes that name the key.
const KEY_NAME_LEN: usize = 4;
const NONCE_LEN: usize = 24;

/// The keys with which records and messages of sessions are sealed, the same in all processes.
///
/// The current key seals; it and the older ones open. To change it without losing sessions: give the new key to all processes
/// as an older one, then make it the current one in all, and drop the previous one after the idle timeout of sessions and an eighth
/// of it ([`Config::record_lifetime`](mcp_proto::http::server::Config::record_lifetime)), or
/// [the lifetime of ids](super::SharedSessions::in_ids). A record that is loaded with an older key is sealed anew.
#[derive(Clone)]
pub struct SessionKeys {
    current: [u8; 32],
    older: Vec<[u8; 32]>,
}

impl SessionKeys {
    /// Creates keys with one key that seals and opens. It must come from a cryptographic source.
    #[must_use]
    pub const fn new(current: [u8; 32]) -> Self {
        Self { current, older: Vec::new() }
    }

    /// Adds a key that only opens.
    #[must_use]
    pub fn with_older(mut self, key: [u8; 32]) -> Self {
        self.older.push(key);
        self
    }
}

/// Shows no keys.
impl fmt::Debug for SessionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionKeys").finish_non_exhaustive()
    }
}

/// The purpose of sealed bytes. It is authenticated, so a record opens as that of its session alone.
#[derive(Clone, Copy)]
pub(super) enum Purpose<'a> {
    Record(&'a SessionName),
    Message,
    /// That of a client, in the id of its session.
    Identity,
    /// The message of a call.
    Call(&'a SessionName),
    /// The bucket of a limit.
    Bucket(&'a SessionName),
}

impl Purpose<'_> {
    fn associated_data(self) -> Vec<u8> {
        match self {
            Self::Record(name) => [b"mcp-proto session record 1".as_slice(), &name.0].concat(),
            Self::Message => b"mcp-proto session message 1".to_vec(),
            Self::Identity => b"mcp-proto session identity 1".to_vec(),
            Self::Call(name) => [b"mcp-proto call 1".as_slice(), &name.0].concat(),
            Self::Bucket(name) => [b"mcp-proto rate limit 1".as_slice(), &name.0].concat(),
        }
    }
}

/// Seals and opens.
pub(super) struct Sealer {
    /// The current one first.
    keys: Box<[SealKey]>,
    /// Of the current key, for names that tell nothing.
    pub(super) name_secret: [u8; 32],
}

struct SealKey {
    name: [u8; KEY_NAME_LEN],
    cipher: XChaCha20Poly1305,
}

impl SealKey {
    fn new(key: &[u8; 32]) -> Self {
        // One way: the name tells nothing about the key.
        let digest = Sha256::new().chain_update(b"mcp-proto session key name").chain_update(key).finalize();
        let [a, b, c, d, ..] = <[u8; 32]>::from(digest);
        Self { name: [a, b, c, d], cipher: XChaCha20Poly1305::new(Key::from_slice(key)) }
    }
}

/// Bytes that were not sealed with these keys, or for this purpose, or were changed.
#[derive(Debug)]
pub(super) struct NotSealed;

impl Sealer {
    pub(super) fn new(keys: &SessionKeys) -> Self {
        let secret = Sha256::new().chain_update(b"mcp-proto secret of names").chain_update(keys.current);
        Self {
            keys: core::iter::once(&keys.current).chain(&keys.older).map(SealKey::new).collect(),
            name_secret: secret.finalize().into(),
        }
    }

    /// Seals with a nonce of its own.
    pub(super) fn seal(&self, purpose: Purpose<'_>, bytes: &[u8]) -> Result<Vec<u8>, SessionStoreError> {
        let Some(key) = self.keys.first() else { return Err(failed()) };
        let seed = entropy::seed().map_err(|error| SessionStoreError::Other(error.into()))?;
        let (nonce, _) = seed.split_at(NONCE_LEN);
        let payload = Payload { msg: bytes, aad: &purpose.associated_data() };
        let sealed = key.cipher.encrypt(XNonce::from_slice(nonce), payload).map_err(|_| failed())?;
        Ok([&[VERSION], &key.name[..], nonce, &sealed].concat())
    }

    /// Returns whether something was sealed with the current key.
    pub(super) fn is_current(&self, sealed: &[u8]) -> bool {
        let name = sealed.get(1..=KEY_NAME_LEN);
        self.keys.first().is_some_and(|key| name == Some(key.name.as_slice()))
    }

    /// Opens what [`seal`](Self::seal) has sealed for the same purpose.
    pub(super) fn open(&self, purpose: Purpose<'_>, sealed: &[u8]) -> Result<Vec<u8>, NotSealed> {
        let (version, rest) = sealed.split_first().ok_or(NotSealed)?;
        let (name, rest) = rest.split_first_chunk::<KEY_NAME_LEN>().ok_or(NotSealed)?;
        let (nonce, rest) = rest.split_first_chunk::<NONCE_LEN>().ok_or(NotSealed)?;
        if *version != VERSION {
            return Err(NotSealed);
        }
        let data = purpose.associated_data();
        // Two keys may have the same name, though rarely.
        let mut known = self.keys.iter().filter(|key| key.name == *name);
        let opened = known.find_map(|key| {
            key.cipher.decrypt(XNonce::from_slice(nonce), Payload { msg: rest, aad: &data }).ok()
        });
        opened.ok_or(NotSealed)
    }
}

fn failed() -> SessionStoreError {
    SessionStoreError::Other("the record cannot be sealed".into())
}

/// Returns the name of a session in a store.
pub(super) fn name_of(id: &SessionId) -> SessionName {
    let digest = Sha256::new().chain_update(b"mcp-proto session name").chain_update(id.reveal()).finalize();
    SessionName(digest.into())
}

/// Returns the name of a call of a session in a store.
pub(super) fn name_of_call(id: &SessionId, call: &KeptCall) -> SessionName {
    let digest = Sha256::new().chain_update(b"mcp-proto call name").chain_update(id.reveal());
    let digest = digest.chain_update(call.process.to_be_bytes()).chain_update(&call.request);
    SessionName(digest.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [SessionName; 2] = [SessionName([1; 32]), SessionName([2; 32])];

    // covers: SEC-019
    #[test]
    fn only_what_was_sealed_for_the_session_with_a_known_key_opens() {
        let [old, new] = [[3; 32], [4; 32]];
        let before = Sealer::new(&SessionKeys::new(old));
        let during = Sealer::new(&SessionKeys::new(new).with_older(old));
        let after = Sealer::new(&SessionKeys::new(new));
        let [a, b] = NAMES.each_ref().map(Purpose::Record);
        let sealed = before.seal(a, b"a session").expect("sealed");
        assert_eq!(sealed.len(), 9 + 1 + 4 + 24 + 16);
        assert!(!sealed.windows(7).any(|part| part == b"session"));
        assert_ne!(before.seal(a, b"a session").expect("sealed"), sealed, "each has a nonce of its own");
        for sealer in [&before, &during] {
            assert_eq!(sealer.open(a, &sealed).expect("it is known"), b"a session");
            assert!(sealer.open(b, &sealed).is_err() && sealer.open(Purpose::Message, &sealed).is_err());
        }
        assert!(after.open(a, &sealed).is_err());
        let renewed = during.seal(a, b"").expect("sealed");
        assert_eq!(after.open(a, &renewed).expect("it is known"), b"");
        assert!(before.open(a, &renewed).is_err());
        for at in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[at] ^= 1;
            assert!(before.open(a, &altered).is_err() && before.open(a, &sealed[..at]).is_err(), "{at}");
        }
        assert!(!alloc::format!("{:?}", SessionKeys::new(old)).contains('3'));
    }
}
