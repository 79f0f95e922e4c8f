//! The URLs of a flow: where metadata is looked for, and which URLs of other parties are acceptable.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::document::Defect;
use mcp_proto::http::Network;
use mcp_proto::http::{Origin, Url};

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const SERVER: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// Returns the path of a URL without its query.
pub(super) fn path(url: &Url) -> &str {
    url.target().split('?').next().unwrap_or_default()
}

/// Returns a URL without its query: the value of `htu`, and the name of a server in errors.
#[inline(never)]
pub(crate) fn without_query(url: &Url) -> String {
    format!("{}{}", url.origin(), path(url))
}

/// Returns the identifier of an MCP server for the `resource` parameter, if its metadata names none (AUTH-044).
///
/// Scheme and host are in lower case; the query and the slash of an empty path are dropped.
#[inline(never)]
pub(super) fn canonical(server: &Url) -> String {
    match path(server) {
        "/" => format!("{}", server.origin()),
        path => format!("{}{path}", server.origin()),
    }
}

/// Returns the places of the metadata of a protected resource, in the order to try them (AUTH-023).
///
/// A challenge that names another place comes before them.
#[must_use]
pub fn resource_metadata(server: &Url) -> Vec<Url> {
    let origin = server.origin();
    let path = path(server).trim_end_matches('/');
    let mut places = Vec::new();
    // RFC 9728, 3.1: the well-known part is put before path and query. Many servers leave the query out.
    if let Some((_, query)) = server.target().split_once('?') {
        places.push(format!("{origin}{RESOURCE}{path}?{query}"));
    }
    if !path.is_empty() {
        places.push(format!("{origin}{RESOURCE}{path}"));
    }
    places.push(format!("{origin}{RESOURCE}"));
    parsed(&places)
}

/// Returns the places of the metadata of an authorization server, in the order to try them (AUTH-028, AUTH-029).
#[must_use]
pub fn server_metadata(issuer: &Url) -> Vec<Url> {
    let origin = issuer.origin();
    let path = path(issuer).trim_end_matches('/');
    if path.is_empty() {
        return parsed(&[format!("{origin}{SERVER}"), format!("{origin}{OPENID}")]);
    }
    parsed(&[
        format!("{origin}{SERVER}{path}"),
        format!("{origin}{OPENID}{path}"),
        format!("{origin}{path}{OPENID}"),
    ])
}

/// Returns the place of the metadata of an authorization server in 2025-03-26 (AUTH-013).
pub(super) fn legacy_server_metadata(server: &Url) -> Vec<Url> {
    parsed(&[format!("{}{SERVER}", server.origin())])
}

fn parsed(places: &[String]) -> Vec<Url> {
    places.iter().filter_map(|place| Url::parse(place).ok()).collect()
}

/// Returns whether the identifier of a protected resource covers an MCP server: the same origin, and a path that is
/// equal or a prefix of whole segments.
pub(super) fn covers(resource: &Url, server: &Url) -> bool {
    if resource.origin() != server.origin() {
        return false;
    }
    if resource.target().contains('?') {
        return resource.target() == server.target();
    }
    let (resource, server) = (path(resource).trim_end_matches('/'), path(server).trim_end_matches('/'));
    // Only whole segments count: `/mcp` must not cover `/mcp2`.
    server.strip_prefix(resource).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Rules on the URLs that other parties name.
#[derive(Debug)]
pub(super) struct UrlPolicy<'a> {
    /// The MCP server, or the party that the application named.
    pub(super) server: &'a Origin,
    /// Hosts to which plain `http` is allowed by name.
    pub(super) http_hosts: &'a [String],
}

impl UrlPolicy<'_> {
    /// Parses a URL that another party named, and checks it (SEC-011, SEC-014, SEC-016, AUTH-061).
    #[inline(never)]
    pub(super) fn parse(&self, what: &str, text: &str) -> Result<Url, Defect> {
        let url = Url::parse(text).map_err(|why| Cow::Owned(format!("`{what}`: {why}")))?;
        self.check(what, &url)?;
        Ok(url)
    }

    /// Checks a URL: `https`, or `http` on the loopback interface if the MCP server is there, too.
    #[inline(never)]
    pub(super) fn check(&self, what: &str, url: &Url) -> Result<(), Defect> {
        let origin = url.origin();
        if self.http_hosts.iter().any(|host| **host == *origin.host) {
            return Ok(());
        }
        let network = Network::of_host(origin);
        let is_near = network == Network::of_host(self.server);
        match network {
            // Both are on this machine. A server elsewhere must not make the client call into it (SEC-011).
            Some(Network::Loopback) if is_near => Ok(()),
            Some(Network::Loopback | Network::LinkLocal | Network::Private | Network::Reserved)
                if !is_near =>
            {
                Err(format!("`{what}` is an address that {} may not refer to", self.server).into())
            }
            _ if !origin.secure => Err(format!("`{what}` is not https").into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    fn texts(urls: &[Url]) -> Vec<String> {
        urls.iter().map(|u| format!("{}{}", u.origin(), u.target())).collect()
    }

    // covers: AUTH-023, AUTH-028, AUTH-029, AUTH-013
    #[test]
    fn metadata_is_looked_for_in_the_specified_order() {
        assert_eq!(
            texts(&resource_metadata(&url("https://h/public/mcp?x=1"))),
            [
                "https://h/.well-known/oauth-protected-resource/public/mcp?x=1",
                "https://h/.well-known/oauth-protected-resource/public/mcp",
                "https://h/.well-known/oauth-protected-resource"
            ]
        );
        assert_eq!(
            texts(&resource_metadata(&url("https://h:8443"))),
            ["https://h:8443/.well-known/oauth-protected-resource"]
        );
        assert_eq!(
            texts(&server_metadata(&url("https://as/tenant1"))),
            [
                "https://as/.well-known/oauth-authorization-server/tenant1",
                "https://as/.well-known/openid-configuration/tenant1",
                "https://as/tenant1/.well-known/openid-configuration",
            ]
        );
        assert_eq!(
            texts(&server_metadata(&url("https://[fd00::1]:8443/a")))[0],
            "https://[fd00::1]:8443/.well-known/oauth-authorization-server/a"
        );
        for issuer in ["https://as", "https://as/"] {
            assert_eq!(
                texts(&server_metadata(&url(issuer))),
                [
                    "https://as/.well-known/oauth-authorization-server",
                    "https://as/.well-known/openid-configuration"
                ]
            );
        }
        assert_eq!(
            texts(&legacy_server_metadata(&url("https://h/mcp"))),
            ["https://h/.well-known/oauth-authorization-server"]
        );
    }

    // covers: AUTH-044
    #[test]
    fn canonical_uri_is_lower_case_without_query_and_needless_slash() {
        for (server, expected) in [
            ("HTTPS://MCP.Example.com", "https://mcp.example.com"),
            ("https://h/", "https://h"),
            ("https://h:443/mcp?key=1#f", "https://h/mcp"),
            ("https://h:8443/a/", "https://h:8443/a/"),
        ] {
            assert_eq!(canonical(&url(server)), expected);
        }
    }

    // covers: AUTH-044
    #[test]
    fn a_resource_covers_its_paths_alone() {
        for (resource, server, expected) in [
            ("https://h", "https://h/mcp", true),
            ("https://h/", "https://h/mcp", true),
            ("https://h/mcp", "https://h/mcp", true),
            ("https://h/mcp/", "https://h/mcp", true),
            ("https://H:443/mcp", "https://h/mcp", true),
            ("https://h/mc", "https://h/mcp", false),
            ("https://h/mcp/x", "https://h/mcp", false),
            ("https://h:444/mcp", "https://h/mcp", false),
            ("http://h/mcp", "https://h/mcp", false),
            ("https://evil/mcp", "https://h/mcp", false),
            ("https://h/mcp?a", "https://h/mcp", false),
            ("https://h/mcp?a", "https://h/mcp?a", true),
            ("https://h/a/../mcp", "https://h/mcp", true),
        ] {
            assert_eq!(covers(&url(resource), &url(server)), expected, "{resource} {server}");
        }
    }

    // covers: SEC-011, SEC-014, SEC-016, AUTH-061
    #[test]
    fn urls_of_others_are_https_or_loopback_of_a_loopback_server() {
        let hosts = ["plain.test".to_string()];
        for (server, text, expected) in [
            ("https://h", "https://as/x", true),
            ("https://h", "http://as/x", false),
            ("https://h", "http://plain.test/x", true),
            ("https://h", "javascript:alert(1)", false),
            ("https://h", "file:///etc/passwd", false),
            ("https://h", "data:text/html,x", false),
            ("https://h", "vbscript:x", false),
            ("https://h", "https://user:pw@as/x", false),
            ("https://h", "https://127.0.0.1/x", false),
            ("https://h", "http://localhost:1/x", false),
            ("https://h", "https://localhost./x", false),
            ("https://h", "https://[::ffff:127.0.0.1]/x", false),
            ("https://h", "https://169.254.169.254/x", false),
            ("https://h", "https://0.0.0.0/x", false),
            ("https://h", "https://192.168.1.1/x", false),
            ("https://10.0.0.1", "https://192.168.1.1/x", true),
            ("https://[fd00::1]", "https://[fd00::2]/x", true),
            ("https://[fd00::1]", "http://[fd00::2]/x", false),
            ("https://[fd00::1]", "https://10.0.0.1/x", true),
            ("https://h", "https://[fd00::1]/x", false),
            ("https://[2001:db8::1]", "https://[fd00::1]/x", false),
            ("https://h", "https://127.1/x", false),
            ("https://h", "https://0x7f000001/x", false),
            ("https://h", "https://2130706433/x", false),
            ("http://localhost:9", "http://127.0.0.1:1/x", true),
            ("http://[::1]:9", "http://as.localhost/x", true),
            ("http://localhost:9", "http://as/x", false),
            ("http://localhost:9", "https://as/x", true),
            ("http://localhost:9", "https://169.254.169.254/x", false),
        ] {
            let server = url(server);
            let policy = UrlPolicy { server: server.origin(), http_hosts: &hosts };
            assert_eq!(policy.parse("x", text).is_ok(), expected, "{} {text}", server.origin());
        }
    }
}
