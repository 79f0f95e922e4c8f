//! Metadata of authorization servers (RFC 8414, OpenID Connect Discovery 1.0) and of protected resources (RFC 9728).

use alloc::borrow::{Cow, ToOwned as _};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::document::{Defect, Document};
use super::locations::{self, UrlPolicy};
use mcp_proto::Scopes;
use mcp_proto::http::Url;

/// A defect and the rule that it breaks.
type Refusal = (Defect, &'static str);

/// The metadata of an authorization server, as far as a client uses it. Every URL has passed the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerMetadata {
    /// The issuer, byte for byte.
    pub(super) issuer: String,
    pub(super) authorization_endpoint: Option<Url>,
    pub(super) token_endpoint: Option<Url>,
    pub(super) registration_endpoint: Option<Url>,
    pub(super) device_authorization_endpoint: Option<Url>,
    pub(super) revocation_endpoint: Option<Url>,
    pub(super) scopes: Scopes,
    pub(super) auth_methods: Option<Vec<String>>,
    /// `None` if the metadata does not say.
    pub(super) supports_pkce: Option<bool>,
    pub(super) supports_client_metadata: bool,
    pub(super) sends_issuer: bool,
    pub(super) supports_dpop: bool,
}

impl ServerMetadata {
    /// Reads the document of `issuer`; the error names the rule that it breaks.
    pub(super) fn parse(body: &[u8], issuer: &str, policy: &UrlPolicy<'_>) -> Result<Self, Refusal> {
        Document::read(body, rfc_8414, |document| Self::build(document, issuer, policy))
    }

    fn build(document: &Document, issuer: &str, policy: &UrlPolicy<'_>) -> Result<Self, Refusal> {
        // AUTH-030: byte for byte, before anything else of the document is looked at.
        match document.string("issuer") {
            Some(found) if found == issuer => {}
            Some(found) => {
                let shown = Url::redacted(&found);
                return Err((
                    format!("`issuer` is {shown}, not {}", Url::redacted(issuer)).into(),
                    "AUTH-030",
                ));
            }
            None => return Err((Cow::Borrowed("`issuer` is missing"), "AUTH-030")),
        }
        let endpoint = |name| endpoint(document, policy, name);
        // Only a known scope is looked for here; the others may be anything.
        let scopes = document.strings("scopes_supported").iter().flatten().collect();
        Ok(Self {
            issuer: issuer.to_owned(),
            authorization_endpoint: endpoint("authorization_endpoint")?,
            token_endpoint: endpoint("token_endpoint")?,
            registration_endpoint: endpoint("registration_endpoint")?,
            device_authorization_endpoint: endpoint("device_authorization_endpoint")?,
            revocation_endpoint: endpoint("revocation_endpoint")?,
            scopes,
            auth_methods: document.strings("token_endpoint_auth_methods_supported"),
            supports_pkce: document
                .strings("code_challenge_methods_supported")
                .map(|methods| methods.iter().any(|method| method == "S256")),
            supports_client_metadata: document.boolean("client_id_metadata_document_supported"),
            sends_issuer: document.boolean("authorization_response_iss_parameter_supported"),
            supports_dpop: document.lists("dpop_signing_alg_values_supported", "ES256"),
        })
    }

    /// Returns the default endpoints of a server without metadata, which 2025-03-26 allows (AUTH-014).
    ///
    /// PKCE is used all the same.
    pub(super) fn default_endpoints(server: &Url) -> Self {
        let origin = server.origin();
        let endpoint = |path: &str| Url::parse(&format!("{origin}{path}")).ok();
        Self {
            issuer: format!("{origin}"),
            authorization_endpoint: endpoint("/authorize"),
            token_endpoint: endpoint("/token"),
            registration_endpoint: endpoint("/register"),
            device_authorization_endpoint: None,
            revocation_endpoint: None,
            scopes: Scopes::new(),
            auth_methods: None,
            supports_pkce: Some(true),
            supports_client_metadata: false,
            sends_issuer: false,
            supports_dpop: false,
        }
    }

    /// Returns whether the token endpoint supports a way of client authentication.
    ///
    /// A server that lists none supports `client_secret_basic` (RFC 8414, 2).
    pub(super) fn supports_auth(&self, method: &str) -> bool {
        match &self.auth_methods {
            Some(methods) => methods.iter().any(|other| other == method),
            None => method == "client_secret_basic",
        }
    }
}

#[inline(never)]
fn endpoint(document: &Document, policy: &UrlPolicy<'_>, name: &str) -> Result<Option<Url>, Refusal> {
    let Some(text) = document.string(name) else { return Ok(None) };
    policy.parse(name, &text).map(Some).map_err(|why| (why, "AUTH-061"))
}

const fn rfc_8414(why: Defect) -> Refusal {
    (why, "RFC 8414")
}

// The metadata of a protected resource (RFC 9728).

/// Largest number of authorization servers that are considered.
const MAX_SERVERS: usize = 16;

/// The metadata of an MCP server, as far as a client uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourceMetadata {
    /// The identifier, byte for byte.
    pub(super) resource: String,
    pub(super) authorization_servers: Vec<String>,
    pub(super) scopes: Option<Scopes>,
    pub(super) requires_dpop: bool,
}

impl ResourceMetadata {
    /// Reads the document of `server`; the error names the rule that it breaks.
    pub(super) fn parse(body: &[u8], server: &Url) -> Result<Self, (Defect, &'static str)> {
        Document::read(body, rfc_9728, |document| Self::build(document, server))
    }

    fn build(document: &Document, server: &Url) -> Result<Self, (Defect, &'static str)> {
        let resource = document.required_string("resource");
        let url = Url::parse(&resource).map_err(|why| rfc_9728(format!("`resource`: {why}").into()))?;
        if resource.contains('#') {
            return Err((Cow::Borrowed("`resource` has a fragment"), "AUTH-044"));
        }
        if !locations::covers(&url, server) {
            let why = format!("`resource` is {url:?}, which is not this server");
            return Err((why.into(), "RFC 9728, 3.3"));
        }
        let mut authorization_servers = document.strings("authorization_servers").unwrap_or_default();
        if authorization_servers.is_empty() {
            return Err((Cow::Borrowed("`authorization_servers` is missing"), "AUTH-019"));
        }
        // Each one may be tried, which costs requests.
        authorization_servers.truncate(MAX_SERVERS);
        Ok(Self {
            resource,
            authorization_servers,
            scopes: document.scopes("scopes_supported"),
            requires_dpop: document.boolean("dpop_bound_access_tokens_required"),
        })
    }
}

const fn rfc_9728(why: Defect) -> (Defect, &'static str) {
    (why, "RFC 9728")
}

#[cfg(test)]
mod resource_metadata_tests {
    use super::*;

    fn read(body: &str) -> Result<ResourceMetadata, (Defect, &'static str)> {
        ResourceMetadata::parse(body.as_bytes(), &Url::parse("https://h/mcp").expect("a URL"))
    }

    // covers: AUTH-019, AUTH-022, AUTH-024
    #[test]
    fn a_document_is_read_or_refused_with_its_member() {
        let found = read(
            r#"{"resource":"https://h","authorization_servers":["https://a","https://b/t"],"scopes_supported":["x","y"]}"#,
        )
        .expect("metadata");
        assert_eq!(found.resource, "https://h");
        assert_eq!(found.authorization_servers, ["https://a", "https://b/t"]);
        assert_eq!(found.scopes.expect("scopes").as_str(), "x y");
        for (body, member) in [
            (r#"{"authorization_servers":["https://a"]}"#, "`resource`"),
            (r#"{"resource":"https://evil/mcp","authorization_servers":["https://a"]}"#, "`resource`"),
            (r#"{"resource":"https://h/mcp#x","authorization_servers":["https://a"]}"#, "`resource`"),
            (r#"{"resource":"h","authorization_servers":["https://a"]}"#, "`resource`"),
            (r#"{"resource":"https://h/mcp"}"#, "`authorization_servers`"),
            (r#"{"resource":"https://h/mcp","authorization_servers":[]}"#, "`authorization_servers`"),
            (
                r#"{"resource":"https://h/mcp","authorization_servers":"https://a"}"#,
                "`authorization_servers`",
            ),
            (
                r#"{"resource":"https://h/mcp","authorization_servers":["https://a"],"scopes_supported":["a\"b"]}"#,
                "`scopes_supported`",
            ),
            ("<html>", "JSON"),
        ] {
            let (why, _) = read(body).expect_err(body);
            assert!(why.contains(member), "{body}: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://as/t";

    fn read(body: &str) -> Result<ServerMetadata, Refusal> {
        let server = Url::parse("https://h/mcp").expect("a URL");
        ServerMetadata::parse(
            body.as_bytes(),
            ISSUER,
            &UrlPolicy { server: server.origin(), http_hosts: &[] },
        )
    }

    // covers: AUTH-030
    #[test]
    fn the_issuer_is_equal_byte_for_byte() {
        assert!(read(r#"{"issuer":"https://as/t"}"#).is_ok());
        for body in [
            "{}",
            r#"{"issuer":null}"#,
            r#"{"issuer":"https://as/t/"}"#,
            r#"{"issuer":"https://AS/t"}"#,
            r#"{"issuer":"https://as:443/t"}"#,
            r#"{"issuer":"https://as/%74"}"#,
            r#"{"issuer":"https://attacker.example"}"#,
            r#"{"issuer":["https://as/t"]}"#,
        ] {
            let (why, _) = read(body).expect_err(body);
            assert!(why.contains("`issuer`"), "{body}: {why}");
        }
    }

    // covers: AUTH-061, SEC-014
    #[test]
    fn endpoints_are_checked() {
        for (name, url) in [
            ("token_endpoint", "http://as/token"),
            ("token_endpoint", "https://127.0.0.1/token"),
            ("authorization_endpoint", "javascript:alert(1)"),
            ("registration_endpoint", "file:///x"),
            ("device_authorization_endpoint", "https://169.254.169.254/"),
            ("revocation_endpoint", "data:,x"),
        ] {
            let (why, rule) = read(&format!(r#"{{"issuer":"{ISSUER}","{name}":"{url}"}}"#)).expect_err(url);
            assert!(why.contains(name) && rule == "AUTH-061", "{why}");
        }
    }

    #[test]
    fn abilities_are_read() {
        let found = read(
            r#"{"issuer":"https://as/t","token_endpoint":"https://login.as/token",
                "code_challenge_methods_supported":["plain","S256"],"scopes_supported":["offline_access"],
                "token_endpoint_auth_methods_supported":["none"],
                "client_id_metadata_document_supported":true,"dpop_signing_alg_values_supported":["RS256"]}"#,
        )
        .expect("metadata");
        assert!(
            found.supports_pkce == Some(true)
                && found.supports_client_metadata
                && !found.supports_dpop
                && !found.sends_issuer
        );
        assert!(found.supports_auth("none") && !found.supports_auth("client_secret_basic"));
        assert!(found.scopes.contains("offline_access"));
        let pkce = |body| read(body).expect("metadata").supports_pkce;
        assert_eq!(
            pkce(r#"{"issuer":"https://as/t","code_challenge_methods_supported":["plain"]}"#),
            Some(false)
        );
        assert_eq!(pkce(r#"{"issuer":"https://as/t"}"#), None);
    }
}
