//! The order in which the addresses of a name are tried.

use alloc::collections::VecDeque;
use core::net::SocketAddr;

/// Orders addresses so that IPv6 and IPv4 alternate, beginning with the family that the system prefers. If one family
/// is unreachable, the second attempt uses the other (RFC 8305, section 4).
pub(crate) fn interleave_families(addresses: impl Iterator<Item = SocketAddr>) -> VecDeque<SocketAddr> {
    let mut addresses = addresses.peekable();
    let is_ipv6 = addresses.peek().is_some_and(SocketAddr::is_ipv6);
    let (mut own, mut other): (VecDeque<_>, VecDeque<_>) = addresses.partition(|a| a.is_ipv6() == is_ipv6);
    let mut all = VecDeque::new();
    while all.len() < MAX_ADDRESSES && !(own.is_empty() && other.is_empty()) {
        all.extend(own.pop_front());
        all.extend(other.pop_front());
    }
    all
}

/// Maximum number of addresses of a name that are tried.
const MAX_ADDRESSES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_are_interleaved_and_bounded() {
        let of = |text: &[&str]| -> Vec<SocketAddr> { text.iter().map(|a| a.parse().unwrap()).collect() };
        let sorted = |text: &[&str]| Vec::from(interleave_families(of(text).into_iter()));
        let six = ["[::1]:1", "[::2]:1", "[::3]:1"];
        assert_eq!(sorted(&six), of(&six));
        assert_eq!(
            sorted(&[&six[..], &["1.1.1.1:1", "1.1.1.2:1"]].concat()),
            of(&["[::1]:1", "1.1.1.1:1", "[::2]:1", "1.1.1.2:1", "[::3]:1"])
        );
        assert_eq!(sorted(&["1.1.1.1:1", "[::1]:1"]), of(&["1.1.1.1:1", "[::1]:1"]));
        assert_eq!(sorted(&["1.1.1.1:1"; 100]).len(), MAX_ADDRESSES);
        assert!(sorted(&[]).is_empty());
    }
}
