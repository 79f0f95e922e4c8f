//! Keys that distinguish the calls of a limit.

use alloc::boxed::Box;
use alloc::string::String;
use core::hash::{BuildHasher, Hash, Hasher};
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
#[derive(Default)]
pub(super) struct KeyHasher {
    state: RandomState,
    pub(super) key: CallKey,
    pub(super) function: Option<KeyFunction>,
}

impl KeyHasher {
    pub(super) fn new(key: CallKey) -> Self {
        Self { key, ..Self::default() }
    }

    pub(super) fn hash(&self, request: &EntryRequest<'_>) -> u64 {
        let mut hasher = self.state.build_hasher();
        let call = request.call();
        let principal = call.authorization().map(|party| party.principal());
        let peer = || call.caller().peer_ip().map(network);
        if self.key.has_client {
            match principal {
                Some(principal) => (0_u8, principal).hash(&mut hasher),
                None => (1_u8, peer()).hash(&mut hasher),
            }
        }
        if self.key.has_principal {
            principal.hash(&mut hasher);
        }
        if self.key.has_peer {
            peer().hash(&mut hasher);
        }
        if self.key.has_entry {
            entry(request.subject()).hash(&mut hasher);
        }
        if let Some(function) = &self.function {
            function(request).hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl core::fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("KeyHasher").field("key", &self.key).finish_non_exhaustive()
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
fn entry(subject: Subject<'_>) -> (u8, &str) {
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
    use super::*;

    #[test]
    fn address_of_ipv6_counts_by_its_network() {
        let network = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_ne!(network("192.0.2.1"), network("192.0.2.2"));
        assert_eq!(network("192.0.2.1"), network("::ffff:192.0.2.1"));
    }
}
