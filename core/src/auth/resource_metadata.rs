//! The metadata of a protected resource (RFC 9728).

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::document::{Defect, Document};
use super::locations;
use crate::scope::Scopes;
use crate::url::Url;

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
        Document::read(body, rfc, |document| Self::build(document, server))
    }

    fn build(document: &Document, server: &Url) -> Result<Self, (Defect, &'static str)> {
        let resource = document.required_string("resource");
        let url = Url::parse(&resource).map_err(|why| rfc(format!("`resource`: {why}").into()))?;
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
        authorization_servers.truncate(MAX_SERVERS);
        Ok(Self {
            resource,
            authorization_servers,
            scopes: document.scopes("scopes_supported"),
            requires_dpop: document.boolean("dpop_bound_access_tokens_required"),
        })
    }
}

const fn rfc(why: Defect) -> (Defect, &'static str) {
    (why, "RFC 9728")
}

#[cfg(test)]
mod tests {
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
