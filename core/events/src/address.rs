//! Addresses: which URLs and hosts a server may send webhooks to (SSRF; EVT-110, EVT-111, EVT-118).
//!
//! A callback URL is text of a stranger, and the server that sends to it stands in a private network. The URL is checked
//! when it is taken, and the addresses of its host right before each connection: for each delivery, each verification, and
//! each receiver document. The caller resolves the host, passes **all** addresses to [`AddressPolicy::check_addresses`],
//! connects to one of these addresses and to no other, and keeps the name of the URL for `Host` and TLS. It never follows a
//! redirect (EVT-112), and uses a kept connection only for the host that it was checked for. The module `post` does this on `std`.
//!
//! ```
//! use mcp_events::address::AddressPolicy;
//!
//! let policy = AddressPolicy::new();
//! let url = policy.check_url("https://hooks.example/mcp/a1")?;
//! // … what the resolver returned:
//! assert!(policy.check_addresses(&url, &["93.184.215.14".parse()?]).is_ok());
//! assert!(policy.check_addresses(&url, &["169.254.169.254".parse()?]).is_err());
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

use alloc::vec::Vec;
use core::net::IpAddr;

use mcp_proto::http::{Network, Origin, Url, UrlError};

/// Length of the longest callback URL, in bytes.
pub const MAX_CALLBACK_URL: usize = 2048;

/// Rules on callback URLs and on the addresses of their hosts.
///
/// The default allows `https` on the ports 443 and 8443 of hosts whose addresses are all public.
#[derive(Clone, Debug)]
pub struct AddressPolicy {
    /// Empty for every port.
    ports: Vec<u16>,
    networks: Vec<Network>,
    origins: Vec<Origin>,
}

/// Reason why a URL or an address is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The text is not a URL, or has a user name or password.
    #[error("{0}")]
    Url(#[from] UrlError),
    /// The scheme is not `https` (EVT-071).
    #[error("the callback URL is not https")]
    NotHttps,
    /// The URL has a fragment, which is never sent.
    #[error("the callback URL has a fragment")]
    Fragment,
    /// The URL has more than [`MAX_CALLBACK_URL`] bytes.
    #[error("the callback URL is longer than {MAX_CALLBACK_URL} bytes")]
    TooLong,
    /// The policy does not allow the port.
    #[error("callbacks to port {0} are not allowed")]
    Port(u16),
    /// The host is an address, or a name of this machine, that the policy does not allow.
    #[error("callbacks to this host are not allowed ({0:?} address)")]
    Host(Network),
    /// An address of the host belongs to a network that the policy does not allow.
    #[error("the host has an address that callbacks must not go to ({network:?})")]
    Address {
        /// The address.
        address: IpAddr,
        /// Its network.
        network: Network,
    },
    /// The host has no address.
    #[error("the host has no address")]
    NoAddress,
}

impl Default for AddressPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl AddressPolicy {
    /// Creates the default policy.
    #[must_use]
    pub fn new() -> Self {
        Self { ports: Vec::from([443, 8443]), networks: Vec::from([Network::Public]), origins: Vec::new() }
    }

    /// Allows a port in addition.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        if !self.ports.is_empty() {
            self.ports.push(port);
        }
        self
    }

    /// Allows every port.
    #[must_use]
    pub fn any_port(mut self) -> Self {
        self.ports.clear();
        self
    }

    /// Allows addresses of a network in addition: of the private network that server and receivers share, for example.
    ///
    /// [`Network::Reserved`] is never allowed.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.networks.push(network);
        self
    }

    /// Exempts one origin from the rules on ports and addresses; it is `https` all the same.
    ///
    /// # Errors
    ///
    /// [`AddressError`] if the text is not an `https` URL.
    pub fn origin(mut self, url: &str) -> Result<Self, AddressError> {
        let url = Url::parse(url)?;
        if !url.origin().secure {
            return Err(AddressError::NotHttps);
        }
        self.origins.push(url.origin().clone());
        Ok(self)
    }

    /// Checks a callback URL without resolving its host (EVT-071, EVT-110).
    ///
    /// # Errors
    ///
    /// [`AddressError`] with the first violated rule.
    pub fn check_url(&self, text: &str) -> Result<Url, AddressError> {
        if text.len() > MAX_CALLBACK_URL {
            return Err(AddressError::TooLong);
        }
        let url = Url::parse(text)?;
        let origin = url.origin();
        if !origin.secure {
            return Err(AddressError::NotHttps);
        }
        if text.contains('#') {
            return Err(AddressError::Fragment);
        }
        if self.origins.contains(origin) {
            return Ok(url);
        }
        if !self.ports.is_empty() && !self.ports.contains(&origin.port) {
            return Err(AddressError::Port(origin.port));
        }
        match host_network(origin) {
            Some(network) if !self.allows(network) => Err(AddressError::Host(network)),
            _ => Ok(url),
        }
    }

    /// Checks the addresses of the host of a URL, all of them, right before a connection (EVT-111).
    ///
    /// # Errors
    ///
    /// [`AddressError`] with the first address that is not allowed: one is enough to refuse the host.
    pub fn check_addresses(&self, url: &Url, addresses: &[IpAddr]) -> Result<(), AddressError> {
        if addresses.is_empty() {
            return Err(AddressError::NoAddress);
        }
        if self.origins.contains(url.origin()) {
            return Ok(());
        }
        match addresses.iter().map(|address| (*address, network(*address))).find(|(_, n)| !self.allows(*n)) {
            Some((address, network)) => Err(AddressError::Address { address, network }),
            None => Ok(()),
        }
    }

    fn allows(&self, network: Network) -> bool {
        network != Network::Reserved && self.networks.contains(&network)
    }
}

/// Returns the network of a host that is an address or a name of this machine.
fn host_network(origin: &Origin) -> Option<Network> {
    match origin.host.parse() {
        Ok(address) => Some(network(address)),
        Err(_) => Network::of_host(origin),
    }
}

/// Returns the network of an address, by the IANA registries of special-purpose addresses.
///
/// Stricter than [`Network::of`]: beside the prefix of all translators (`64:ff9b::/96`), IPv4 addresses in a prefix for
/// NAT64 stand where only the translator knows (RFC 8215), so none of them counts as public.
fn network(address: IpAddr) -> Network {
    match address {
        IpAddr::V6(v6) if matches!(v6.segments(), [0x64, 0xff9b, a, b, c, d, ..] if (a, b, c, d) != (0, 0, 0, 0)) => {
            Network::Reserved
        }
        _ => Network::of(address),
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString as _;

    use super::*;

    fn addresses(list: &[&str]) -> Vec<IpAddr> {
        list.iter().map(|text| text.parse().expect("an address")).collect()
    }

    // covers: EVT-071, EVT-110
    #[test]
    fn urls_are_public_https_without_ambiguity() {
        let policy = AddressPolicy::new();
        for url in [
            "https://hooks.example/mcp/a1",
            "https://hooks.example:8443/?mcp_event_subscription=1",
            "https://xn--nxasmq6b.example/",
            "https://8.8.8.8/",
            "https://[2606:4700::1]/",
            "https://[::ffff:8.8.8.8]/",
            "https://hooks.example./",
            "https://127.0.0.1.example/",
        ] {
            assert!(policy.check_url(url).is_ok(), "{url}: {:?}", policy.check_url(url));
        }
        let host = |network| AddressError::Host(network);
        for (url, error) in [
            ("http://hooks.example/", AddressError::NotHttps),
            ("https://127.0.0.1/", host(Network::Loopback)),
            ("https://127.1/", AddressError::Url(UrlError::Host)),
            ("https://0x7f000001/", AddressError::Url(UrlError::Host)),
            ("https://0X7F.1/", AddressError::Url(UrlError::Host)),
            ("https://2130706433/", AddressError::Url(UrlError::Host)),
            ("https://0177.0.0.1/", AddressError::Url(UrlError::Host)),
            ("https://[::1]/", host(Network::Loopback)),
            ("https://[::ffff:10.0.0.1]/", host(Network::Private)),
            ("https://[::ffff:a9fe:a9fe]/", host(Network::LinkLocal)),
            ("https://[::10.0.0.1]/", host(Network::Private)),
            ("https://[64:ff9b::7f00:1]/", host(Network::Loopback)),
            ("https://[2002:7f00:1::]/", host(Network::Loopback)),
            ("https://[fe80::1%25eth0]/", AddressError::Url(UrlError::Host)),
            ("https://169.254.169.254/", host(Network::LinkLocal)),
            ("https://100.64.0.1/", host(Network::Private)),
            ("https://0.0.0.0/", host(Network::Reserved)),
            ("https://localhost./", host(Network::Loopback)),
            ("https://LocalHost/", host(Network::Loopback)),
            ("https://a.localhost/", host(Network::Loopback)),
            ("https://user@host/", AddressError::Url(UrlError::UserInfo)),
            ("https://host#@evil/", AddressError::Fragment),
            ("https://host\\@evil/", AddressError::Url(UrlError::UserInfo)),
            ("https://host/a#b", AddressError::Fragment),
            ("https://ho\tst/", AddressError::Url(UrlError::Host)),
            ("https://host/\r\nX: y", AddressError::Url(UrlError::Path)),
            (" https://host/", AddressError::Url(UrlError::Scheme)),
            ("https://b\u{fc}cher.example/", AddressError::Url(UrlError::Host)),
            ("https://\u{2460}27.0.0.1/", AddressError::Url(UrlError::Host)),
            ("https://127\u{3002}0\u{3002}0\u{3002}1/", AddressError::Url(UrlError::Host)),
            ("https://host:22/", AddressError::Port(22)),
            ("https://host:80/", AddressError::Port(80)),
            ("https://[host]/", AddressError::Url(UrlError::Host)),
            ("https:///", AddressError::Url(UrlError::Host)),
            ("//host/", AddressError::Url(UrlError::Scheme)),
            ("", AddressError::Url(UrlError::Scheme)),
        ] {
            assert_eq!(policy.check_url(url).map(|url| format!("{url:?}")), Err(error.clone()), "{url}");
            assert!(!error.to_string().is_empty());
        }
        let long = format!("https://h/{}", "a".repeat(MAX_CALLBACK_URL - 10));
        assert!(policy.check_url(&long).is_ok());
        assert_eq!(policy.check_url(&format!("{long}a")).err(), Some(AddressError::TooLong));
    }

    // The registries of IANA for special-purpose addresses, as of 2026: what is not globally reachable, a first and a last
    // address of each.
    // covers: EVT-110, EVT-111
    #[test]
    fn special_purpose_addresses_are_refused() {
        let policy = AddressPolicy::new();
        let url = policy.check_url("https://hooks.example/").expect("a URL");
        for address in [
            "0.0.0.0",
            "0.255.255.255",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.127.255.255",
            "127.0.0.0",
            "127.255.255.255",
            "169.254.0.0",
            "169.254.255.255",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.0",
            "192.0.0.170",
            "192.0.0.255",
            "192.0.2.0",
            "192.0.2.255",
            "192.88.99.0",
            "192.88.99.255",
            "192.168.0.0",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.0",
            "198.51.100.255",
            "203.0.113.0",
            "203.0.113.255",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.0",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:0:10.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:0:1::8.8.8.8",
            "64:ff9b:1::8.8.8.8",
            "64:ff9b:1:7f00:0:100:808:808",
            "64:ff9b:1:ffff:ffff:ffff:ffff:ffff",
            "100::",
            "100::ffff:ffff:ffff:ffff",
            "100:0:0:1::",
            "2001::",
            "2001:0:1:2::3",
            "2001:2::",
            "2001:10::",
            "2001:1ff:ffff::",
            "2001:db8::",
            "2001:db8:ffff::1",
            "2002:a00:1::",
            "2002:c0a8:101::1",
            "3fff::",
            "3fff:fff::1",
            "5f00::",
            "5f00:ffff::1",
            "fc00::",
            "fdff:ffff::1",
            "fe80::",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
        ] {
            let error = policy.check_addresses(&url, &addresses(&[address]));
            assert!(matches!(error, Err(AddressError::Address { .. })), "{address}: {error:?}");
        }
        for address in [
            "1.1.1.1",
            "9.255.255.255",
            "100.63.255.255",
            "100.128.0.0",
            "172.32.0.0",
            "223.255.255.255",
            "2600::1",
            "64:ff9b::8.8.8.8",
            "2002:808:808::",
        ] {
            assert_eq!(policy.check_addresses(&url, &addresses(&[address])), Ok(()), "{address}");
        }
    }

    // covers: EVT-111
    #[test]
    fn every_address_of_a_host_must_pass() {
        let policy = AddressPolicy::new();
        let url = policy.check_url("https://hooks.example/").expect("a URL");
        assert_eq!(policy.check_addresses(&url, &addresses(&["1.1.1.1", "2600::1"])), Ok(()));
        for list in [&["1.1.1.1", "10.0.0.1"], &["10.0.0.1", "1.1.1.1"], &["2600::1", "::1"]] {
            assert!(policy.check_addresses(&url, &addresses(list)).is_err(), "{list:?}");
        }
        assert_eq!(policy.check_addresses(&url, &[]), Err(AddressError::NoAddress));
        // A resolver that answers otherwise the second time.
        assert!(policy.check_addresses(&url, &addresses(&["127.0.0.1"])).is_err());
    }

    // covers: EVT-110
    #[test]
    fn policy_widens_what_is_allowed() {
        let private = AddressPolicy::new().network(Network::Private).network(Network::Reserved).port(9000);
        let url = private.check_url("https://10.0.0.1:9000/").expect("a URL");
        assert_eq!(private.check_addresses(&url, &addresses(&["10.0.0.1", "1.1.1.1"])), Ok(()));
        assert!(private.check_addresses(&url, &addresses(&["127.0.0.1"])).is_err());
        assert!(private.check_url("https://0.0.0.0:9000/").is_err());
        assert!(AddressPolicy::new().any_port().port(1).check_url("https://host:22/").is_ok());
        let fixture = AddressPolicy::new().origin("https://127.0.0.1:7443").expect("an origin");
        let url = fixture.check_url("https://127.0.0.1:7443/hook").expect("a URL");
        assert_eq!(fixture.check_addresses(&url, &addresses(&["127.0.0.1"])), Ok(()));
        assert_eq!(fixture.check_url("https://127.0.0.1:7444/hook").err(), Some(AddressError::Port(7444)));
        assert_eq!(fixture.check_url("http://127.0.0.1:7443/hook").err(), Some(AddressError::NotHttps));
        assert_eq!(AddressPolicy::new().origin("http://h").err(), Some(AddressError::NotHttps));
    }
}
