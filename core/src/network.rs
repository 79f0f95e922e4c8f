//! Networks of addresses: where a request to a URL of somebody else may go (SEC-011).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::url::{Origin, ends_in_number};

/// The kind of network that an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Network {
    /// Reachable from the Internet.
    Public,
    /// This machine: `127.0.0.0/8`, `::1`.
    Loopback,
    /// A private network: RFC 1918, RFC 6598 (`100.64.0.0/10`), unique local (`fc00::/7`).
    Private,
    /// One link: `169.254.0.0/16`, `fe80::/10`. Clouds serve the credentials of a machine here.
    LinkLocal,
    /// No address of a server: unspecified, multicast, broadcast, documentation, reserved.
    Reserved,
}

impl Network {
    /// Returns the network of an address.
    ///
    /// An IPv6 address that stands for an IPv4 address (mapped, compatible, NAT64, 6to4) belongs to the network of that
    /// address.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => Self::of_v6(address),
        }
    }

    /// Returns the network of a host that is an address or a name for the loopback interface; `None` for other names, which
    /// are not resolved here.
    ///
    /// Numbers that only some resolvers read as addresses (`127.1`, `0x7f000001`, `0177.0.0.1`) are
    /// [`Reserved`](Self::Reserved). No URL has such a host.
    #[must_use]
    pub fn of_host(origin: &Origin) -> Option<Self> {
        if origin.is_loopback() {
            return Some(Self::Loopback);
        }
        // A dot at the end names the same host.
        let name = origin.host.strip_suffix('.').unwrap_or(&origin.host);
        match name.parse::<IpAddr>() {
            Ok(address) => Some(Self::of(address)),
            Err(_) if ends_in_number(name) => Some(Self::Reserved),
            Err(_) => None,
        }
    }

    /// Returns whether a flow for a server of this network may send a request to `target`.
    ///
    /// Public addresses always. Others only if the server itself is in a network of that kind, so that no server makes
    /// a client call into networks that the server cannot reach.
    #[must_use]
    pub fn permits(self, target: IpAddr) -> bool {
        match Self::of(target) {
            Self::Public => true,
            Self::Reserved => false,
            other => other == self,
        }
    }

    const fn of_v4(address: Ipv4Addr) -> Self {
        match address.octets() {
            [127, ..] => Self::Loopback,
            [169, 254, ..] => Self::LinkLocal,
            [10, ..] | [172, 16..=31, ..] | [192, 168, ..] | [100, 64..=127, ..] => Self::Private,
            // "This network", IETF assignments, documentation, 6to4 relays, benchmarks, multicast and above.
            [0, ..]
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [198, 18..=19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
            | [224..=255, ..] => Self::Reserved,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let v4 = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            Self::of_v4(Ipv4Addr::new(a, b, c, d))
        };
        match address.segments() {
            // This comes first: below it would count as compatible with 0.0.0.1, which is reserved.
            [0, 0, 0, 0, 0, 0, 0, 1] => Self::Loopback,
            [0, 0, 0, 0, 0, 0, 0, 0] => Self::Reserved,
            // Mapped, translated and compatible addresses; NAT64 (RFC 6052, RFC 8215).
            [0, 0, 0, 0, 0, 0xffff, high, low]
            | [0, 0, 0, 0, 0xffff, 0, high, low]
            | [0, 0, 0, 0, 0, 0, high, low]
            | [0x64, 0xff9b, 0 | 1, _, _, _, high, low] => v4(high, low),
            // 6to4.
            [0x2002, high, low, ..] => v4(high, low),
            [0xfe80..=0xfebf, ..] => Self::LinkLocal,
            [0xfc00..=0xfdff, ..] => Self::Private,
            // Teredo and other protocol assignments, documentation, and what is not global unicast.
            [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Self::Reserved,
            [0x2000..=0x3fff, ..] => Self::Public,
            _ => Self::Reserved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: SEC-011
    #[test]
    fn addresses_belong_to_networks() {
        for (address, network) in [
            ("8.8.8.8", Network::Public),
            ("127.0.0.1", Network::Loopback),
            ("127.255.0.9", Network::Loopback),
            ("10.1.2.3", Network::Private),
            ("172.15.0.1", Network::Public),
            ("172.16.0.1", Network::Private),
            ("172.31.255.255", Network::Private),
            ("172.32.0.1", Network::Public),
            ("192.168.0.1", Network::Private),
            ("100.64.0.1", Network::Private),
            ("100.128.0.1", Network::Public),
            ("169.254.169.254", Network::LinkLocal),
            ("0.0.0.0", Network::Reserved),
            ("255.255.255.255", Network::Reserved),
            ("224.0.0.1", Network::Reserved),
            ("192.0.2.1", Network::Reserved),
            ("::", Network::Reserved),
            ("::1", Network::Loopback),
            ("::ffff:127.0.0.1", Network::Loopback),
            ("::ffff:169.254.169.254", Network::LinkLocal),
            ("::10.0.0.1", Network::Private),
            ("::ffff:0:7f00:1", Network::Loopback),
            ("::ffff:0:808:808", Network::Public),
            ("64:ff9b::7f00:1", Network::Loopback),
            ("64:ff9b:1::a9fe:a9fe", Network::LinkLocal),
            ("2002:7f00:1::", Network::Loopback),
            ("fe80::1", Network::LinkLocal),
            ("fd00::1", Network::Private),
            ("ff02::1", Network::Reserved),
            ("2001::1", Network::Reserved),
            ("2001:db8::1", Network::Reserved),
            ("3fff::1", Network::Reserved),
            ("3fff:1000::1", Network::Public),
            ("2606:4700::1", Network::Public),
            ("fec0::1", Network::Reserved),
        ] {
            assert_eq!(Network::of(address.parse().expect("an address")), network, "{address}");
        }
    }

    // covers: SEC-011
    #[test]
    fn hosts_that_are_numbers_are_no_names() {
        for (host, network) in [
            ("localhost.", Some(Network::Loopback)),
            ("a.localhost", Some(Network::Loopback)),
            ("127.0.0.1.", Some(Network::Loopback)),
            ("::ffff:a9fe:a9fe", Some(Network::LinkLocal)),
            ("8.8.8.8", Some(Network::Public)),
            ("127.1", Some(Network::Reserved)),
            ("0x7F000001", Some(Network::Reserved)),
            ("2130706433", Some(Network::Reserved)),
            ("0177.0.0.1", Some(Network::Reserved)),
            ("1.1.1.0xff", Some(Network::Reserved)),
            ("1.1.1.1.example", None),
            ("xn--nxasmq6b.example", None),
        ] {
            let origin = Origin { secure: true, host: host.to_ascii_lowercase().into(), port: 443 };
            assert_eq!(Network::of_host(&origin), network, "{host}");
        }
    }

    // covers: SEC-011
    #[test]
    fn only_a_server_of_the_same_kind_of_network_permits_local_targets() {
        let permits = |server: Network, target: &str| server.permits(target.parse().expect("an address"));
        for server in
            [Network::Public, Network::Loopback, Network::Private, Network::LinkLocal, Network::Reserved]
        {
            assert!(permits(server, "8.8.8.8"), "{server:?}");
            assert!(!permits(server, "0.0.0.0"), "{server:?}");
            assert_eq!(permits(server, "127.0.0.1"), server == Network::Loopback, "{server:?}");
            assert_eq!(permits(server, "10.0.0.1"), server == Network::Private, "{server:?}");
            assert_eq!(permits(server, "169.254.169.254"), server == Network::LinkLocal, "{server:?}");
        }
    }
}
