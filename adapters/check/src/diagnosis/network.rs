//! The steps from a URL to an open connection: proxies, name, TCP and TLS.

use core::net::SocketAddr;
use core::time::Duration;
use std::env;
use std::io::{self, ErrorKind};

use mcp_proto::http::Origin;
use mcp_std::http_client::{HttpClient, HttpFailure};
use mcp_std::sync::{Budget, Ended};

use super::{Fault, FaultKind, Passed};
use crate::exchange::HttpTarget;
use crate::hints;

/// What the variables of a proxy say about a server.
pub(super) struct ProxyVariables {
    /// The variable that names a proxy for the server, unless NO_PROXY excludes it.
    variable: Option<String>,
    is_excluded: bool,
}

impl ProxyVariables {
    pub(super) fn read(origin: &Origin) -> Self {
        let scheme = if origin.secure { "HTTPS_PROXY" } else { "HTTP_PROXY" };
        let names = [scheme, "ALL_PROXY"].into_iter().flat_map(|name| [name.to_owned(), name.to_lowercase()]);
        let is_set = |name: &String| env::var_os(name).is_some_and(|value| !value.is_empty());
        let exclusions = env::var("NO_PROXY").or_else(|_| env::var("no_proxy")).unwrap_or_default();
        let is_excluded = origin.is_loopback() || is_listed(&exclusions, &origin.host);
        Self { variable: { names }.find(is_set), is_excluded }
    }

    /// Returns the variable of the proxy that other clients would use.
    fn in_use(&self) -> Option<&str> {
        self.variable.as_deref().filter(|_| !self.is_excluded)
    }

    pub(super) fn judge(&self) -> Passed {
        match (&self.variable, self.is_excluded) {
            (None, _) => Passed::Ok("no variable names one".into()),
            (Some(name), true) => Passed::Ok(format!("{name} is set, but not for this host")),
            (Some(name), false) => Passed::Warning(format!(
                "{name} is set, and other clients may use that proxy; mcp-probe uses none and connects directly"
            )),
        }
    }

    /// Adds what a proxy has to do with a failure to connect.
    fn explain(&self, fault: Fault) -> Fault {
        let Some(name) = self.in_use() else { return fault };
        let fix = format!(
            "{name} says that this network needs a proxy, which mcp-probe does not use: run it where the host is reached directly, or through a tunnel ({})",
            fault.fix
        );
        Fault { fix, ..fault }
    }
}

/// Returns whether a list of NO_PROXY names a host.
fn is_listed(exclusions: &str, host: &str) -> bool {
    exclusions.split(',').map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        let domain = entry.trim_start_matches("*.").trim_start_matches('.').to_ascii_lowercase();
        let inner = host.strip_suffix(&domain);
        entry == "*" || inner.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

/// Looks the host up.
pub(super) fn look_up(
    origin: &Origin,
    proxy: &ProxyVariables,
    timeout: Duration,
) -> Result<(Passed, Vec<SocketAddr>), Fault> {
    match HttpClient::new().look_up(origin, &Budget::new(timeout)) {
        Ok(addresses) => {
            let shown: Vec<String> = addresses.iter().map(|address| address.ip().to_string()).collect();
            Ok((Passed::Ok(shown.join(", ")), addresses))
        }
        Err(failure) => {
            let what = format!("the name {} has no address", origin.host);
            let fix = "check the spelling of the host, the network, and whether the name needs a VPN";
            let fault = match failure {
                HttpFailure::Ended(Ended::TimedOut) => {
                    Fault::new(what, "the name server does not answer in time", fix)
                        .with_kind(FaultKind::TimedOut)
                }
                other => Fault::new(what, format!("the resolver of this machine reports {other}"), fix),
            };
            Err(proxy.explain(fault))
        }
    }
}

/// Connects to the first address that accepts, which later exchanges use.
pub(super) fn connect(
    target: &HttpTarget,
    proxy: &ProxyVariables,
    timeout: Duration,
) -> Result<(Passed, SocketAddr), Fault> {
    match target.connect(timeout).and_then(|stream| stream.peer_addr()) {
        Ok(address) => Ok((Passed::Ok(format!("{address} accepts connections")), address)),
        Err(error) => Err(proxy.explain(explain_tcp(target.url().origin(), &error))),
    }
}

fn explain_tcp(origin: &Origin, error: &io::Error) -> Fault {
    let what = format!("no connection to {} at port {}", origin.host, origin.port);
    match error.kind() {
        ErrorKind::ConnectionRefused => Fault::new(
            what,
            "the host refused the connection: nothing listens at this port, or not at this address",
            "start the server, and compare the port; a server in a container or on another machine has to listen at 0.0.0.0",
        ),
        ErrorKind::TimedOut => Fault::new(
            what,
            "no packet came back (timed out): a firewall drops them, or the host is off",
            "check the port, the firewall and security group of the host, and the VPN",
        )
        .with_kind(FaultKind::TimedOut),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => Fault::new(
            what,
            format!("this machine has no route to the address ({error})"),
            "check the network and the VPN; an address of IPv6 needs a network with IPv6",
        ),
        _ => Fault::new(what, error.to_string(), "check the host and the port"),
    }
}

/// Negotiates TLS, for `https`.
pub(super) fn negotiate_tls(target: &HttpTarget, timeout: Duration) -> Result<Passed, Fault> {
    if !target.url().origin().secure {
        return Ok(Passed::Skipped("the URL is http".into()));
    }
    match target.open_transport(timeout) {
        Ok(_) => Ok(Passed::Ok("the certificate is accepted".into())),
        Err(error) => Err(explain_tls(&target.url().origin().host, &error)),
    }
}

/// Explains a failed handshake.
fn explain_tls(host: &str, error: &io::Error) -> Fault {
    let text = error.to_string();
    let (why, fix) = hints::tls_cause(&text).unwrap_or_else(|| match error.kind() {
        ErrorKind::TimedOut => (
            "the server accepts the connection and says nothing",
            "is it a server with TLS? Compare the port, and http with https",
        ),
        _ => (
            "the connection broke in the handshake",
            "compare the port, and http with https; a firewall may cut TLS off",
        ),
    });
    Fault::new(format!("TLS with {host} failed: {}", text.trim_start_matches("TLS failed: ")), why, fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_no_proxy_are_excluded_with_their_subdomains() {
        for (list, host, expected) in [
            ("*", "a.example", true),
            ("example.com", "mcp.example.com", true),
            (".example.com, other", "example.com", true),
            ("*.example.com", "mcp.example.com", true),
            ("example.com", "notexample.com", false),
            ("10.0.0.1", "10.0.0.12", false),
            ("", "a", false),
            (" , ", "a", false),
        ] {
            assert_eq!(is_listed(list, host), expected, "{list} {host}");
        }
    }

    #[test]
    fn failures_of_tcp_are_told_apart() {
        let origin = Origin { secure: false, host: "h.example".into(), port: 81 };
        for (kind, words) in [
            (ErrorKind::ConnectionRefused, "nothing listens"),
            (ErrorKind::TimedOut, "a firewall drops them"),
            (ErrorKind::NetworkUnreachable, "no route"),
        ] {
            let fault = explain_tcp(&origin, &kind.into());
            assert!(fault.why.contains(words) && fault.what.contains("h.example at port 81"), "{fault:?}");
        }
    }

    #[test]
    fn a_proxy_that_others_use_is_named_where_a_connection_fails() {
        let proxy = |is_excluded| ProxyVariables { variable: Some("HTTPS_PROXY".into()), is_excluded };
        let fault = || Fault::new("what", "why", "check the host");
        let fix = proxy(false).explain(fault()).fix;
        assert!(fix.contains("HTTPS_PROXY") && fix.contains("check the host"), "{fix}");
        assert!(matches!(proxy(false).judge(), Passed::Warning(_)));
        assert_eq!(proxy(true).explain(fault()).fix, "check the host");
        assert!(matches!(proxy(true).judge(), Passed::Ok(_)));
    }
}
