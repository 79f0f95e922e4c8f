//! Permits for connections: how many each shard and each address holds, and which shard gets the next one.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::task::Waker;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of open connections of each shard and of each address.
#[derive(Debug)]
pub(super) struct ConnectionPermits {
    counts: Vec<AtomicUsize>,
    addresses: Mutex<BTreeMap<IpAddr, usize>>,
    /// Whether a shard waits for a permit.
    is_waiter_registered: AtomicBool,
    /// Whether a request waits for a permit.
    is_crowded: AtomicBool,
    /// Whether one of the shards should evict a connection.
    is_eviction_requested: AtomicBool,
    /// Wakes the shard that accepts connections.
    waker: Waker,
}

impl ConnectionPermits {
    /// Creates the counters. `waker` is woken when a permit is released while a [waiter](Self::register_waiter) waits.
    pub(super) fn new(shards: u8, waker: Waker) -> Arc<Self> {
        let counts = (0..shards).map(|_| AtomicUsize::new(0)).collect();
        Arc::new(Self {
            counts,
            addresses: Mutex::default(),
            is_waiter_registered: AtomicBool::new(false),
            is_crowded: AtomicBool::new(false),
            is_eviction_requested: AtomicBool::new(false),
            waker,
        })
    }

    /// Sets whether a request waits for a permit, for the other shards.
    pub(super) fn set_crowded(&self, is_crowded: bool) {
        if self.is_crowded() != is_crowded {
            self.is_crowded.store(is_crowded, Ordering::SeqCst);
        }
    }

    /// Returns whether a request waits for a permit.
    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded.load(Ordering::SeqCst)
    }

    /// Requests that one of the shards evicts a connection.
    pub(super) fn request_eviction(&self) {
        self.is_eviction_requested.store(true, Ordering::SeqCst);
    }

    /// Takes the request for an eviction, if there is one.
    pub(super) fn take_eviction_request(&self) -> bool {
        self.is_eviction_requested.swap(false, Ordering::SeqCst)
    }

    /// Requests a wake-up when the next permit is released. Check for capacity again afterwards.
    pub(super) fn register_waiter(&self) {
        self.is_waiter_registered.store(true, Ordering::SeqCst);
    }

    /// Returns the number of open connections of all shards.
    pub(super) fn total(&self) -> usize {
        self.counts.iter().map(|shard| shard.load(Ordering::SeqCst)).sum()
    }

    fn addresses(&self) -> MutexGuard<'_, BTreeMap<IpAddr, usize>> {
        // No code that can panic runs while it is locked.
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, shard: u8) -> usize {
        self.counts.get(usize::from(shard)).map_or(usize::MAX, |shard| shard.load(Ordering::SeqCst))
    }

    fn increment(&self, shard: u8) {
        self.counts.get(usize::from(shard)).map(|shard| shard.fetch_add(1, Ordering::SeqCst));
    }

    fn decrement(&self, shard: u8) {
        self.counts.get(usize::from(shard)).map(|shard| shard.fetch_sub(1, Ordering::SeqCst));
        if self.is_waiter_registered.swap(false, Ordering::SeqCst) {
            self.waker.wake_by_ref();
        }
    }

    /// Chooses the shard for a connection: `wanted`, unless it has many more connections than another shard.
    pub(super) fn choose_shard(&self, wanted: u8) -> u8 {
        let shards = u8::try_from(self.counts.len()).unwrap_or(u8::MAX);
        let least = (0..shards).min_by_key(|shard| self.count(*shard)).unwrap_or(0);
        let fewest = self.count(least);
        if self.count(wanted) <= fewest + BALANCE_SLACK.max(fewest / 4) { wanted } else { least }
    }
}

/// Surplus of connections that a shard may have over the smallest shard; or a quarter, if that is more.
const BALANCE_SLACK: usize = 8;

/// The right to hold one of the open connections.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    permits: Arc<ConnectionPermits>,
    shard: u8,
}

impl ConnectionPermit {
    /// Counts one more connection in a shard, until the permit is dropped.
    pub(super) fn new(permits: &Arc<ConnectionPermits>, shard: u8) -> Self {
        permits.increment(shard);
        Self { permits: permits.clone(), shard }
    }

    /// Counts the connection in another shard from now on.
    pub(super) fn move_to(&mut self, shard: u8) {
        if shard != self.shard {
            // Increment first: for a moment, one too many is better than one too few.
            self.permits.increment(shard);
            self.permits.decrement(self.shard);
            self.shard = shard;
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.permits.decrement(self.shard);
    }
}

/// The right of an address to hold one of its connections.
#[derive(Debug)]
pub(super) struct AddressPermit {
    /// `None` for an address that is not limited.
    counted: Option<(Arc<ConnectionPermits>, IpAddr)>,
}

impl AddressPermit {
    /// Counts one more connection of an address; `None` if it has `limit` already.
    ///
    /// Addresses of this machine are not limited: a proxy may stand behind them.
    pub(super) fn acquire(permits: &Arc<ConnectionPermits>, address: IpAddr, limit: usize) -> Option<Self> {
        let address = network_of(address);
        if address.is_loopback() || limit == usize::MAX {
            return Some(Self { counted: None });
        }
        let mut addresses = permits.addresses();
        if addresses.get(&address).copied().unwrap_or(0) >= limit {
            return None;
        }
        *addresses.entry(address).or_default() += 1;
        Some(Self { counted: Some((permits.clone(), address)) })
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let Some((permits, address)) = &self.counted else { return };
        let mut addresses = permits.addresses();
        if let Some(count) = addresses.get_mut(address) {
            *count -= 1;
            if *count == 0 {
                addresses.remove(address);
            }
        }
    }
}

/// Returns the address of which connections are counted: of IPv6 the network of 64 bits that one host may have whole.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) if !v6.is_loopback() => {
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !u128::from(u64::MAX)))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permit_is_counted_in_its_shard_until_dropped() {
        let permits = ConnectionPermits::new(3, Waker::noop().clone());
        let mut one = ConnectionPermit::new(&permits, 0);
        let two = ConnectionPermit::new(&permits, 2);
        assert_eq!([permits.count(0), permits.count(1), permits.count(2), permits.total()], [1, 0, 1, 2]);
        one.move_to(2);
        one.move_to(2);
        assert_eq!([permits.count(0), permits.count(1), permits.count(2), permits.total()], [0, 0, 2, 2]);
        drop(one);
        assert_eq!([permits.count(2), permits.total()], [1, 1]);
        drop(two);
        assert_eq!(permits.total(), 0);
    }

    /// Whichever shard is wanted, no shard gets many more connections than another.
    #[test]
    fn wanted_shard_is_replaced_when_it_has_many_more_connections() {
        let permits = ConnectionPermits::new(4, Waker::noop().clone());
        let acquire = |wanted| ConnectionPermit::new(&permits, permits.choose_shard(wanted));
        // Every connection gets the wanted shard while the shards are even.
        let _even: Vec<ConnectionPermit> = (0..4).cycle().take(400).map(acquire).collect();
        assert!((0..4).all(|shard| permits.count(shard) == 100));
        let _all: Vec<ConnectionPermit> = (0..600).map(|_| acquire(1)).collect();
        let counts: Vec<usize> = (0..4).map(|shard| permits.count(shard)).collect();
        assert!(counts[1] > counts[0] && counts[1] <= counts[0] + 1 + counts[0] / 4, "{counts:?}");
        assert_eq!(permits.total(), 1_000);
        assert!(counts[0].abs_diff(counts[2]) <= 1 && counts[0].abs_diff(counts[3]) <= 1, "{counts:?}");
        // A shard that does not exist is never chosen.
        assert!(permits.choose_shard(9) < 4);
    }

    // covers: SEC-018
    #[test]
    fn address_has_a_limit_of_its_own() {
        let permits = ConnectionPermits::new(1, Waker::noop().clone());
        let acquire = |address: &str| AddressPermit::acquire(&permits, address.parse().unwrap(), 2);
        let one = acquire("203.0.113.7");
        let _mapped = acquire("::ffff:203.0.113.7").expect("the second of this address");
        assert!(one.is_some() && acquire("203.0.113.7").is_none() && acquire("203.0.113.8").is_some());
        drop(one);
        assert!(acquire("203.0.113.7").is_some());
        // A host may have a whole network of 64 bits.
        let _six = [acquire("2001:db8::1").unwrap(), acquire("2001:db8::2").unwrap()];
        assert!(acquire("2001:db8::3").is_none() && acquire("2001:db8:0:1::3").is_some());
        // Local clients, or a proxy on this machine.
        let local: Vec<_> = (0..9).flat_map(|_| [acquire("127.0.0.1"), acquire("::1")]).collect();
        assert!(local.iter().all(Option::is_some));
        drop((_mapped, _six));
        assert!(permits.addresses().is_empty());
        // An address that is refused leaves no entry.
        let refused = AddressPermit::acquire(&permits, "203.0.113.7".parse().unwrap(), 0);
        assert!(refused.is_none() && permits.addresses().is_empty());
    }
}
