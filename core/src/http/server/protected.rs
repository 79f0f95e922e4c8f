//! A protected resource: its metadata document, and the challenges to requests without a suitable token (RFC 9728).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::head::Fields;
use crate::http::fields;
use crate::json::write_str;
use crate::raw::RawJson;
use crate::scope::Scopes;
use crate::server::ScopePolicy;
use crate::sync::{Arc, share};
use crate::url::{Url, UrlError};

/// The path before which the path of a resource is inserted, to get that of its metadata (RFC 9728, 3.1).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// The signature algorithm of DPoP proofs that is accepted (RFC 9449).
const DPOP_ALGORITHMS: &str = "ES256";

/// The reason why a value cannot describe a protected resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtectedError {
    /// The text is not a URL.
    #[error("`{url}` is not a URL: {reason}")]
    Url {
        /// The text, without what may be secret.
        url: String,
        /// The reason.
        reason: UrlError,
    },
    /// The URL is neither `https` nor `http` on a loopback name.
    #[error("`{0}` is not https, and its host is not this machine")]
    Insecure(String),
    /// The URL has a query or a fragment (RFC 9728, 1.2; RFC 8414, 2).
    #[error("`{0}` has a query or a fragment")]
    QueryOrFragment(String),
    /// The text is not a scope token (RFC 6749, 3.3).
    #[error("a scope is one word of printable ASCII without quotes and backslashes, not {0:?}")]
    Scope(String),
    /// `offline_access` is no scope of a resource: clients ask for it themselves (AUTH-060).
    #[error("`offline_access` is for clients to ask for, and no scope of a server (AUTH-060)")]
    OfflineAccess,
}

/// Whether access tokens may or must be bound to a key of the client (RFC 9449).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dpop {
    /// Tokens are presented as `Bearer` only.
    #[default]
    Off,
    /// Both schemes are accepted.
    Accepted,
    /// Tokens are presented as `DPoP` only.
    Required,
}

/// A protected resource: a server that requires an access token (AUTH; RFC 6750, RFC 9728).
///
/// It serves its metadata document without a token, to pages of any origin. Its challenges name that document, and the
/// scopes to ask for. The application validates tokens: see [`Event::Token`](super::Event::Token).
///
/// ```
/// use mcp_proto::http::server::{Config, Protected};
/// let protected = Protected::new("https://tools.example.com/mcp", "https://login.example.com")?
///     .scope("tools:use")?
///     .resource_name("Tools of Example");
/// assert_eq!(
///     protected.metadata_url(),
///     "https://tools.example.com/.well-known/oauth-protected-resource/mcp"
/// );
/// let http = Config::new().allow_host("tools.example.com").protected(protected);
/// # Ok::<(), mcp_proto::http::server::ProtectedError>(())
/// ```
#[derive(Clone)]
pub struct Protected {
    resource: Arc<str>,
    url: Url,
    metadata_url: Box<str>,
    issuers: Vec<Box<str>>,
    policy: Arc<ScopePolicy>,
    scopes_supported: Scopes,
    name: Option<String>,
    documentation: Option<String>,
    dpop: Dpop,
}

impl Protected {
    /// Creates the description of a resource with its authorization server.
    ///
    /// `resource` is the URL of the endpoint as clients know it, which can differ from what a server behind a proxy
    /// sees. It is the audience of the tokens (AUTH-010), and is published as it is written here, without the slash of an
    /// empty path (AUTH-044). `issuer` is the issuer identifier of the authorization server (AUTH-019), byte for byte.
    ///
    /// # Errors
    ///
    /// [`ProtectedError`] if one of them is not an absolute `https` URL without query and fragment; `http` is accepted
    /// for loopback names.
    pub fn new(resource: &str, issuer: &str) -> Result<Self, ProtectedError> {
        let url = check_url(resource)?;
        // Only the slash of the root is dropped. At the end of a longer path it is part of the identifier.
        let path =
            url.target().strip_suffix('/').filter(|path| path.is_empty()).unwrap_or_else(|| url.target());
        let metadata_url = format!("{}{WELL_KNOWN}{path}", url.origin()).into();
        // AUTH-044
        let resource = resource.strip_suffix('/').filter(|_| path.is_empty()).unwrap_or(resource);
        let protected = Self {
            resource: resource.into(),
            url,
            metadata_url,
            issuers: Vec::new(),
            policy: Arc::default(),
            scopes_supported: Scopes::default(),
            name: None,
            documentation: None,
            dpop: Dpop::Off,
        };
        protected.authorization_server(issuer)
    }

    /// Adds another authorization server, of which clients may choose one (AUTH-024).
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), for `issuer`.
    pub fn authorization_server(mut self, issuer: &str) -> Result<Self, ProtectedError> {
        check_url(issuer)?;
        if !self.issuers.iter().any(|known| **known == *issuer) {
            self.issuers.push(issuer.into());
        }
        Ok(self)
    }

    /// Adds a scope that every request needs.
    ///
    /// It is part of each challenge (AUTH-051). A token without it gets 403.
    ///
    /// # Errors
    ///
    /// [`ProtectedError::Scope`] and [`ProtectedError::OfflineAccess`].
    pub fn scope(mut self, scope: &str) -> Result<Self, ProtectedError> {
        check_scope(scope)?;
        let policy = Arc::make_mut(&mut self.policy);
        policy.required = policy.required.iter().chain([scope]).collect();
        Ok(self)
    }

    /// Adds scopes to those that the metadata lists, beside [the required ones](Self::scope).
    ///
    /// Clients ask for all listed scopes if a challenge names none (AUTH-053), so this should be the minimum that is
    /// useful. Scopes of single operations are better asked for when they are needed
    /// ([`Call::require_scopes`](crate::server::Call::require_scopes)).
    ///
    /// # Errors
    ///
    /// As [`scope`](Self::scope).
    pub fn scopes_supported<'s>(
        mut self,
        scopes: impl IntoIterator<Item = &'s str>,
    ) -> Result<Self, ProtectedError> {
        let scopes: Vec<&str> = scopes.into_iter().collect();
        scopes.iter().try_for_each(|scope| check_scope(scope))?;
        self.scopes_supported = self.scopes_supported.iter().chain(scopes).collect();
        Ok(self)
    }

    /// Sets which scopes include others: `implies(broad, narrow)` returns whether `broad` includes `narrow` (AUTH-056).
    ///
    /// Without it no scope includes another one.
    #[must_use]
    pub fn implies(mut self, implies: impl Fn(&str, &str) -> bool + Send + Sync + 'static) -> Self {
        Arc::make_mut(&mut self.policy).implies =
            Some(share!(implies, dyn Fn(&str, &str) -> bool + Send + Sync));
        self
    }

    /// Sets the name of the resource for display.
    #[must_use]
    pub fn resource_name(mut self, name: impl Into<Box<str>>) -> Self {
        self.name = Some(name.into().into());
        self
    }

    /// Sets the URL of the documentation for developers.
    ///
    /// # Errors
    ///
    /// [`ProtectedError::Url`].
    pub fn documentation(mut self, url: &str) -> Result<Self, ProtectedError> {
        parse_url(url)?;
        self.documentation = Some(url.into());
        Ok(self)
    }

    /// Sets whether tokens may or must be bound to a key of the client (default: [`Dpop::Off`]).
    ///
    /// The application verifies the proofs, which the event of a request contains, and says so
    /// ([`Identity::proven_key`](crate::server::Identity::proven_key)).
    #[must_use]
    pub const fn dpop(mut self, dpop: Dpop) -> Self {
        self.dpop = dpop;
        self
    }

    /// Returns the identifier of the resource, the audience of its tokens.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the identifiers of the authorization servers; there is at least one.
    pub fn issuers(&self) -> impl Iterator<Item = &str> {
        self.issuers.iter().map(|issuer| &**issuer)
    }

    /// Returns the URL of the metadata document, which challenges name.
    #[must_use]
    pub const fn metadata_url(&self) -> &str {
        &self.metadata_url
    }

    /// Returns whether tokens may or must be bound to a key.
    #[must_use]
    pub const fn dpop_mode(&self) -> Dpop {
        self.dpop
    }

    /// Returns the metadata document (RFC 9728, 2).
    #[must_use]
    pub fn metadata(&self) -> RawJson {
        let mut out: Vec<u8> = b"{\"resource\":".to_vec();
        write_str(&mut out, &self.resource);
        member_list(&mut out, "authorization_servers", self.issuers());
        let scopes: Scopes = self.policy.required.iter().chain(self.scopes_supported.iter()).collect();
        if !scopes.is_empty() {
            member_list(&mut out, "scopes_supported", scopes.iter());
        }
        member_list(&mut out, "bearer_methods_supported", ["header"].into_iter()); // AUTH-008
        let texts = [("resource_name", &self.name), ("resource_documentation", &self.documentation)];
        for (name, value) in texts {
            if let Some(value) = value {
                out.extend_from_slice(format!(",\"{name}\":").as_bytes());
                write_str(&mut out, value);
            }
        }
        if self.dpop != Dpop::Off {
            member_list(&mut out, "dpop_signing_alg_values_supported", [DPOP_ALGORITHMS].into_iter());
        }
        if self.dpop == Dpop::Required {
            out.extend_from_slice(b",\"dpop_bound_access_tokens_required\":true");
        }
        out.push(b'}');
        RawJson::trusted(out.into())
    }

    /// Returns whether the metadata document is at a path of a server whose endpoint is at `endpoint`.
    ///
    /// A proxy may keep the public path of the document, or map it as it maps the endpoint.
    pub(super) fn is_metadata_path(&self, path: &str, endpoint: &str) -> bool {
        let Some(rest) = path.strip_prefix(WELL_KNOWN) else { return false };
        let root = |path: &str| path.is_empty() || path == "/";
        [self.url.target(), endpoint].iter().any(|known| *known == rest || (root(known) && root(rest)))
    }

    /// Returns the URL of a request, as a DPoP proof names it: that of the resource, or of another path there.
    pub(super) fn request_url(&self, path: &str, endpoint: &str) -> Arc<str> {
        if path == endpoint {
            return self.resource.clone();
        }
        format!("{}{path}", self.url.origin()).into()
    }

    /// Returns whether a URL is the one that [`request_url`](Self::request_url) returned for the endpoint.
    pub(super) fn is_endpoint_url(&self, url: &Arc<str>) -> bool {
        Arc::ptr_eq(url, &self.resource)
    }

    pub(super) const fn policy(&self) -> &Arc<ScopePolicy> {
        &self.policy
    }

    /// Returns the challenges of a response, each the value of a `WWW-Authenticate` field (RFC 6750, 3; RFC 9449, 7.1).
    ///
    /// `scopes` overrides the scopes that every request needs.
    pub(super) fn challenges(
        &self,
        scheme: Option<Scheme>,
        error: Option<(&str, &str)>,
        scopes: Option<&Scopes>,
    ) -> Vec<String> {
        let offered: &[Scheme] = match (self.dpop, scheme) {
            // A client that presented a token learns about its own scheme, as far as that is accepted.
            (Dpop::Off, _) | (Dpop::Accepted, Some(Scheme::Bearer)) => &[Scheme::Bearer],
            (Dpop::Required, _) | (_, Some(Scheme::Dpop)) => &[Scheme::Dpop],
            (Dpop::Accepted, None) => &[Scheme::Bearer, Scheme::Dpop],
        };
        offered.iter().map(|scheme| self.challenge(*scheme, error, scopes)).collect()
    }

    /// Returns the fields of a response with [`challenges`](Self::challenges).
    pub(super) fn challenge_fields(
        &self,
        scheme: Option<Scheme>,
        error: Option<(&str, &str)>,
        scopes: Option<&Scopes>,
    ) -> Fields {
        let mut fields = Fields::new();
        for challenge in self.challenges(scheme, error, scopes) {
            fields.push(fields::WWW_AUTHENTICATE, challenge.as_bytes());
        }
        fields
    }

    fn challenge(&self, scheme: Scheme, error: Option<(&str, &str)>, scopes: Option<&Scopes>) -> String {
        let mut text = String::from(scheme.name());
        let mut comma = " ";
        let mut add = |name: &str, value: &str| {
            // A quote or a line end in a description could add parameters or fields to the response.
            let clean = |c: &char| (' '..='~').contains(c) && !matches!(c, '"' | '\\');
            text.push_str(&format!("{comma}{name}=\""));
            text.extend(value.chars().filter(clean));
            text.push('"');
            comma = ", ";
        };
        if let Some((error, description)) = error {
            add("error", error);
            if !description.is_empty() {
                add("error_description", description);
            }
        }
        let scopes = scopes.unwrap_or(&self.policy.required);
        let asked: Scopes = scopes.iter().filter(|scope| *scope != Scopes::OFFLINE_ACCESS).collect(); // AUTH-060
        if !asked.is_empty() {
            add("scope", asked.as_str()); // AUTH-051
        }
        add("resource_metadata", &self.metadata_url); // AUTH-020
        if scheme == Scheme::Dpop {
            add("algs", DPOP_ALGORITHMS);
        }
        text
    }
}

/// How a request presents its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scheme {
    /// `Bearer` (RFC 6750).
    Bearer,
    /// `DPoP`, with a proof of the key to which the token is bound (RFC 9449).
    Dpop,
}

impl Scheme {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bearer => "Bearer",
            Self::Dpop => "DPoP",
        }
    }
}

impl fmt::Debug for Protected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Protected")
            .field("resource", &self.resource)
            .field("issuers", &self.issuers)
            .field("policy", &self.policy)
            .field("dpop", &self.dpop)
            .finish_non_exhaustive()
    }
}

fn parse_url(text: &str) -> Result<Url, ProtectedError> {
    Url::parse(text).map_err(|reason| ProtectedError::Url { url: Url::redacted(text), reason })
}

/// Parses an absolute `https` URL without query and fragment; `http` is accepted for loopback names.
fn check_url(text: &str) -> Result<Url, ProtectedError> {
    let url = parse_url(text)?;
    if text.contains(['?', '#']) {
        return Err(ProtectedError::QueryOrFragment(Url::redacted(text)));
    }
    if !url.origin().secure && !url.origin().is_loopback() {
        return Err(ProtectedError::Insecure(text.into()));
    }
    Ok(url)
}

fn check_scope(scope: &str) -> Result<(), ProtectedError> {
    match scope {
        Scopes::OFFLINE_ACCESS => Err(ProtectedError::OfflineAccess),
        scope if !Scopes::is_token(scope) => Err(ProtectedError::Scope(scope.into())),
        _ => Ok(()),
    }
}

/// Appends a member whose value is a list of strings.
fn member_list<'a>(out: &mut Vec<u8>, name: &str, values: impl Iterator<Item = &'a str>) {
    out.extend_from_slice(format!(",\"{name}\":[").as_bytes());
    for (at, value) in values.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write_str(out, value);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn protected() -> Protected {
        Protected::new("https://a.example/x/mcp", "https://as.example/t").expect("valid")
    }

    // covers: AUTH-019, AUTH-008, AUTH-060
    #[test]
    fn metadata_has_every_member_that_was_set() {
        assert_eq!(
            protected().metadata().as_str(),
            r#"{"resource":"https://a.example/x/mcp","authorization_servers":["https://as.example/t"],"bearer_methods_supported":["header"]}"#
        );
        let full = protected()
            .authorization_server("http://localhost:9/b")
            .and_then(|p| p.authorization_server("https://as.example/t"))
            .and_then(|p| p.scope("a"))
            .and_then(|p| p.scopes_supported(["b", "a"]))
            .and_then(|p| p.documentation("https://a.example/docs?x"))
            .expect("valid")
            .resource_name("The \"A\"")
            .dpop(Dpop::Required);
        assert_eq!(
            full.metadata().as_str(),
            concat!(
                r#"{"resource":"https://a.example/x/mcp","#,
                r#""authorization_servers":["https://as.example/t","http://localhost:9/b"],"#,
                r#""scopes_supported":["a","b"],"bearer_methods_supported":["header"],"#,
                r#""resource_name":"The \"A\"","resource_documentation":"https://a.example/docs?x","#,
                r#""dpop_signing_alg_values_supported":["ES256"],"dpop_bound_access_tokens_required":true}"#
            )
        );
    }

    // covers: AUTH-021, AUTH-044
    #[test]
    fn document_is_at_the_inserted_path() {
        for (resource, url) in [
            ("https://a.example", "https://a.example/.well-known/oauth-protected-resource"),
            ("https://a.example/", "https://a.example/.well-known/oauth-protected-resource"),
            ("https://a.example/mcp", "https://a.example/.well-known/oauth-protected-resource/mcp"),
            ("https://a.example:8443/x/", "https://a.example:8443/.well-known/oauth-protected-resource/x/"),
            ("http://[::1]:80/mcp", "http://[::1]/.well-known/oauth-protected-resource/mcp"),
        ] {
            let protected = Protected::new(resource, "https://as.example").expect("valid");
            assert_eq!(protected.metadata_url(), url);
            let published = if resource == "https://a.example/" { "https://a.example" } else { resource };
            assert_eq!(protected.resource(), published);
        }
        let at = |path| protected().is_metadata_path(path, "/mcp");
        assert!(at("/.well-known/oauth-protected-resource/x/mcp"), "the proxy keeps the path");
        assert!(at("/.well-known/oauth-protected-resource/mcp"), "the proxy maps the path");
        for other in [
            "/.well-known/oauth-protected-resource",
            "/.well-known/oauth-protected-resource/",
            "/mcp",
            "/.well-known/oauth-protected-resource/x",
        ] {
            assert!(!at(other), "{other}");
        }
        let root = Protected::new("https://a.example", "https://as.example").expect("valid");
        assert!(root.is_metadata_path("/.well-known/oauth-protected-resource", "/"));
    }

    // covers: AUTH-060
    #[test]
    fn invalid_descriptions_are_refused() {
        let error = |resource: &str| Protected::new(resource, "https://as.example").expect_err(resource);
        assert!(matches!(error("mcp"), ProtectedError::Url { .. }));
        assert!(matches!(error("https://u:secret@a"), ProtectedError::Url { .. }));
        assert!(!format!("{}", error("https://u:secret@a")).contains("secret"));
        assert!(matches!(error("http://a.example/mcp"), ProtectedError::Insecure(_)));
        assert!(matches!(error("http://localhost.evil.example"), ProtectedError::Insecure(_)));
        assert!(matches!(error("https://a.example/mcp#x"), ProtectedError::QueryOrFragment(_)));
        assert!(matches!(error("https://a.example/mcp?x"), ProtectedError::QueryOrFragment(_)));
        let issuer = |issuer: &str| Protected::new("https://a.example", issuer).map(drop);
        for bad in
            ["", "javascript:alert(1)", "file:///etc/passwd", "http://as.example", "https://as.example?x"]
        {
            assert!(issuer(bad).is_err(), "{bad}");
        }
        assert!(issuer("http://127.0.0.1:9").is_ok());
        for bad in ["", "a b", "a\"b", "a\\b", "a\nb", "\u{e9}"] {
            assert!(matches!(protected().scope(bad), Err(ProtectedError::Scope(_))), "{bad:?}");
        }
        assert_eq!(protected().scope("offline_access").map(drop), Err(ProtectedError::OfflineAccess));
        let listed = protected().scopes_supported(["a", "offline_access"]);
        assert_eq!(listed.map(drop), Err(ProtectedError::OfflineAccess));
        assert!(protected().documentation("javascript:x").is_err());
    }

    // covers: AUTH-020, AUTH-051, AUTH-054, AUTH-060
    #[test]
    fn challenges_name_schemes_scopes_and_document() {
        let metadata = "resource_metadata=\"https://a.example/.well-known/oauth-protected-resource/x/mcp\"";
        let bearer = protected().scope("a").expect("a scope");
        assert_eq!(bearer.challenges(None, None, None), [format!("Bearer scope=\"a\", {metadata}")]);
        assert_eq!(protected().challenges(None, None, None), [format!("Bearer {metadata}")]);
        let both = bearer.clone().dpop(Dpop::Accepted);
        assert_eq!(
            both.challenges(None, None, None),
            [
                format!("Bearer scope=\"a\", {metadata}"),
                format!("DPoP scope=\"a\", {metadata}, algs=\"ES256\"")
            ]
        );
        let scopes = Scopes::parse("a b offline_access").expect("scopes");
        let error = Some(("insufficient_scope", "needs \"b\"\r\nX: y"));
        assert_eq!(
            both.challenges(Some(Scheme::Dpop), error, Some(&scopes)),
            [format!(
                "DPoP error=\"insufficient_scope\", error_description=\"needs bX: y\", scope=\"a b\", {metadata}, algs=\"ES256\""
            )]
        );
        assert_eq!(both.challenges(Some(Scheme::Bearer), None, None).len(), 1);
        let required = bearer.dpop(Dpop::Required);
        let answer = required.challenges(Some(Scheme::Bearer), Some(("invalid_token", "")), None);
        assert!(matches!(&*answer, [one] if one.starts_with("DPoP error=\"invalid_token\", scope")));
    }
}
