//! Keys that distinguish the calls of a limit.

use alloc::boxed::Box;
use alloc::string::String;
use core::hash::{BuildHasher, Hasher};
use core::net::IpAddr;
use std::collections::hash_map::RandomState;

use mcp_proto::router::Subject;

use crate::adapter::server::router::EntryRequest;

/// The parts of a call by which a limit distinguishes: calls with equal parts share a limit.
///
/// A part that a call does not have is equal to that of all other calls without it: a byte stream has no peer address,
/// and a server without authorization has no principals. The run of a task has the principal and the address of the request
/// that created it. A store keeps no addresses, so tasks without a principal that were created before a restart are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CallKey {
    has_client: bool,
    has_principal: bool,
    has_peer: bool,
    has_entry: bool,
}

impl CallKey {
    /// All calls share one limit.
    pub const NONE: Self =
        Self { has_client: false, has_principal: false, has_peer: false, has_entry: false };
    /// By principal, and by [peer](Self::peer) for calls without one.
    pub const CLIENT: Self = Self { has_client: true, ..Self::NONE };

    /// Adds the authenticated principal.
    #[must_use]
    pub const fn principal(mut self) -> Self {
        self.has_principal = true;
        self
    }

    /// Adds the address of the peer without its port; of IPv6 the first 64 bits, since the others are free to choose.
    ///
    /// Behind a proxy, it is that of the proxy.
    #[must_use]
    pub const fn peer(mut self) -> Self {
        self.has_peer = true;
        self
    }

    /// Adds the entry: its kind and its registered name. All resources of a template are one entry.
    #[must_use]
    pub const fn entry(mut self) -> Self {
        self.has_entry = true;
        self
    }
}

/// Function of the application that returns a further part of the key.
pub(super) type KeyFunction = Box<dyn Fn(&EntryRequest<'_>) -> Option<String> + Send + Sync>;

/// Hashes keys with a secret, so that clients cannot choose equal ones.
pub(super) struct KeyHasher {
    empty: PartHasher,
    pub(super) key: CallKey,
    pub(super) function: Option<KeyFunction>,
}

impl Default for KeyHasher {
    fn default() -> Self {
        Self { empty: PartHasher::new(), key: CallKey::default(), function: None }
    }
}

impl KeyHasher {
    pub(super) fn new(key: CallKey) -> Self {
        Self { key, ..Self::default() }
    }

    pub(super) fn hash(&self, request: &EntryRequest<'_>) -> u64 {
        let mut hasher = self.empty;
        let call = request.call();
        let principal = call.authorization().map(|party| party.principal());
        let peer = || call.caller().peer_ip().map(network);
        if self.key.has_client {
            match principal {
                Some(_) => hasher.add_text(principal),
                None => hasher.add_network(peer()),
            }
        }
        if self.key.has_principal {
            hasher.add_text(principal);
        }
        if self.key.has_peer {
            hasher.add_network(peer());
        }
        if self.key.has_entry {
            let (kind, name) = entry(request.subject());
            hasher.add(kind << 56 | name.len() as u64);
            hasher.add_bytes(name.as_bytes());
        }
        if let Some(function) = &self.function {
            hasher.add_text(function(request).as_deref());
        }
        hasher.state
    }
}

impl core::fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("KeyHasher").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Hashes the parts of a key by folded multiplications: the halves of the product of state and multiplier are the next state.
///
/// Both are secrets of a limit, drawn at random, and no hash leaves the limit, so clients cannot find parts with equal hashes.
/// `SipHash`, which costs more, has to withstand those who see hashes. No part is a prefix of another: each begins with its length.
#[derive(Clone, Copy)]
struct PartHasher {
    state: u64,
    multiplier: u64,
}

impl PartHasher {
    fn new() -> Self {
        let random = RandomState::new();
        // Odd, so that no bit of the state is lost.
        Self { state: random.hash_one(0), multiplier: random.hash_one(1) | 1 }
    }

    #[inline]
    fn add(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.multiplier);
        self.state = (product as u64) ^ ((product >> 64) as u64);
    }

    #[inline]
    fn add_text(&mut self, text: Option<&str>) {
        let Some(text) = text else { return self.add(u64::MAX) };
        self.add(text.len() as u64);
        self.add_bytes(text.as_bytes());
    }

    #[inline]
    fn add_bytes(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in words.by_ref() {
            self.add(u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
        let rest = words.remainder();
        if let (Some(first), Some(last)) = (rest.first_chunk(), rest.last_chunk()) {
            // They overlap, and with the length they determine the rest.
            self.add(u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last)));
        } else if !rest.is_empty() {
            self.add(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }

    #[inline]
    fn add_network(&mut self, network: Option<u128>) {
        let Some(network) = network else { return self.add(u64::MAX) };
        // Neither the length of a text nor the mark of an absent part.
        self.add(u64::MAX - 1);
        self.add(network as u64);
        self.add((network >> 64) as u64);
    }
}

/// Returns the part of an address that its owner cannot choose.
fn network(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits() | u128::from(u64::MAX),
    }
}

/// Returns a number for the kind of an entry, and its name.
fn entry(subject: Subject<'_>) -> (u64, &str) {
    match subject {
        Subject::Tool(name) => (0, name),
        Subject::Resource(uri) => (1, uri),
        Subject::ResourceTemplate(template) => (2, template),
        Subject::Prompt(name) => (3, name),
        Subject::Completion(name) => (4, name),
        _ => (5, ""),
    }
}

/// Hasher of keys that are hashes already.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HashedKey(u64);

impl Hasher for HashedKey {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A table by the hashes of keys.
pub(super) type KeyTable<V> = std::collections::HashMap<u64, V, core::hash::BuildHasherDefault<HashedKey>>;

#[cfg(test)]
mod tests {
    use alloc::format;
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn parts_with_other_texts_or_other_borders_have_other_hashes() {
        let empty = PartHasher::new();
        let hash = |parts: &[Option<&str>]| {
            let mut hasher = empty;
            parts.iter().for_each(|part| hasher.add_text(*part));
            hasher.state
        };
        assert_eq!(hash(&[Some("alice"), None]), hash(&[Some("alice"), None]));
        let keys: [&[Option<&str>]; 10] = [
            &[Some("alice"), None],
            &[Some("alice"), Some("")],
            &[Some("alic"), Some("e")],
            &[None, Some("alice")],
            &[Some("alicealice")],
            &[Some("alice"), Some("alice")],
            &[Some("alice\0")],
            &[Some("\0alice")],
            &[Some("alicealicealice!")],
            &[Some("alicealicealice!\0")],
        ];
        assert_eq!(keys.iter().map(|parts| hash(parts)).collect::<HashSet<_>>().len(), keys.len());
        let other = PartHasher::new();
        assert_ne!(
            (empty.state, empty.multiplier),
            (other.state, other.multiplier),
            "each limit has its own secret"
        );
    }

    #[test]
    fn hashes_of_similar_texts_are_spread_over_the_table() {
        // The table looks at the lowest and at the highest bits.
        let empty = PartHasher::new();
        for shift in [0, 54] {
            let mut counts = [0_u32; 1024];
            for n in 0..10_240_u64 {
                let mut hasher = empty;
                hasher.add_text(Some(&format!("tenant/user-{n}")));
                let slot = (hasher.state >> shift) & 1023;
                counts[usize::try_from(slot).expect("ten bits")] += 1;
            }
            assert!(counts.iter().all(|count| *count < 40), "{shift}: {:?}", counts.iter().max());
        }
    }

    #[test]
    fn address_of_ipv6_counts_by_its_network() {
        let network = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
        assert_eq!(network("192.0.2.1"), network("::ffff:192.0.2.1"));
    }
}
