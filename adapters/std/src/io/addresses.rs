//! The order in which the addresses of a name are tried.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

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

/// Returns the addresses of a host that no name server is asked for: an IP address, `localhost`, and the names below it
/// (RFC 6761, 6.3), which are this machine whatever a name server says.
pub(crate) fn known_addresses(host: &str, port: u16) -> Option<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some([SocketAddr::new(address, port)].into());
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_localhost = name == "localhost" || name.ends_with(".localhost");
    let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    is_localhost.then(|| loopback.map(|address| SocketAddr::new(address, port)).into())
}

/// Maximum number of addresses of a name that are tried.
const MAX_ADDRESSES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_known() {
        let of = |host: &str| {
            let found = known_addresses(host, 5)?;
            Some(found.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(" "))
        };
        for name in ["localhost", "localhost.", "a.localhost", "a.b.localhost."] {
            assert_eq!(of(name).as_deref(), Some("127.0.0.1:5 [::1]:5"), "{name}");
        }
        assert_eq!(of("192.0.2.1").as_deref(), Some("192.0.2.1:5"));
        assert_eq!(of("fe80::1").as_deref(), Some("[fe80::1]:5"));
        for name in ["localhost.test", "notlocalhost", "", ".", "localhost.."] {
            assert_eq!(of(name), None, "{name}");
        }
    }

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
