//! Checks of the metadata of the authorization servers that a protected server names.

use core::time::Duration;

use mcp_proto::DeprecatedFeature;
use mcp_proto::http::client::Url;
use serde_json::Value;

use super::report::{CheckReport, clip};
use super::rules::rules_of;
use crate::document::{MAX_SERVERS, fetch_server_metadata, is_safe};

rules_of! {
    RULES
    SERVER_UNREACHABLE "server-unreachable" Warning [Spec Hosted] Mcp07 ["AUTH-027"]
        "named authorization servers can be reached, so that their metadata is checked"
        "check again from where clients are, with the authorization server running"
    SERVER_METADATA "server-metadata" Error [Spec Hosted] Mcp07 ["AUTH-027"]
        "named authorization servers publish their metadata at a well-known location of the issuer identifier"
        "serve it as RFC 8414 or OpenID Connect Discovery defines, or correct `authorization_servers`"
    SERVER_ISSUER "server-issuer" Error [Spec Hosted] Mcp07 ["AUTH-030"]
        "the `issuer` in the metadata of an authorization server is the named one, character by character"
        "use one spelling in both: clients refuse the metadata otherwise, even for a slash at the end"
    SERVER_ENDPOINTS "server-endpoints" Error [Spec Hosted] Mcp01 ["AUTH-061"]
        "an authorization server has a token endpoint, and its endpoints are https"
        "publish https URLs"
    SERVER_PKCE "server-pkce" Error [Spec Hosted] Mcp07 ["AUTH-041" "AUTH-042"]
        "an authorization server that grants codes advertises the PKCE method `S256`"
        "list it in `code_challenge_methods_supported`: clients refuse the server otherwise"
}

/// Members whose values are URLs that get credentials, keys, or the user.
const ENDPOINTS: [&str; 7] = [
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
    "introspection_endpoint",
    "device_authorization_endpoint",
    "jwks_uri",
];

/// Checks the metadata of authorization servers that the server at `server` names.
pub(super) fn check_all(report: &CheckReport, server: &Url, issuers: &[&str], timeout: Duration) {
    for issuer in issuers.iter().take(MAX_SERVERS) {
        let Ok(url) = Url::parse(issuer) else { continue };
        let location = format!("the authorization server {}", Url::redacted(issuer));
        match fetch_server_metadata(issuer, &url, server, timeout) {
            Ok(metadata) => check(report, &location, issuer, &metadata),
            Err(error) if error.is_unreachable => {
                report.add(SERVER_UNREACHABLE, &location, error.to_string());
            }
            Err(error) => report.add(SERVER_METADATA, &location, error.to_string()),
        }
    }
    if let Some(more) = issuers.len().checked_sub(MAX_SERVERS).filter(|more| *more > 0) {
        let what = format!("{more} more are named, which were not asked");
        report.add(SERVER_UNREACHABLE, "the document of the resource", what);
    }
}

fn check(report: &CheckReport, location: &str, issuer: &str, metadata: &Value) {
    // AUTH-030: byte for byte.
    if metadata["issuer"] != issuer {
        let found = match &metadata["issuer"] {
            Value::Null => "`issuer` is missing".into(),
            other => format!("`issuer` is {}", clip(&other.to_string(), 120)),
        };
        report.add(SERVER_ISSUER, location, found);
    }
    if metadata["token_endpoint"].is_null() {
        report.add(SERVER_ENDPOINTS, location, "`token_endpoint` is missing");
    }
    for name in ENDPOINTS {
        let endpoint = &metadata[name];
        let url = endpoint.as_str().and_then(|url| Url::parse(url).ok());
        if !endpoint.is_null() && !url.as_ref().is_some_and(is_safe) {
            let what = format!("`{name}` is {}", clip(&endpoint.to_string(), 120));
            report.add(SERVER_ENDPOINTS, location, what);
        }
    }
    if !metadata["registration_endpoint"].is_null() {
        report.add_deprecated(DeprecatedFeature::DynamicClientRegistration);
    }
    // A server without this endpoint grants no codes, which alone need PKCE.
    let methods = metadata["code_challenge_methods_supported"].as_array();
    let has_pkce = methods.is_some_and(|methods| methods.iter().any(|method| method == "S256"));
    if !metadata["authorization_endpoint"].is_null() && !has_pkce {
        let what = match methods {
            Some(_) => "`code_challenge_methods_supported` does not contain `S256`",
            None => "`code_challenge_methods_supported` is missing",
        };
        report.add(SERVER_PKCE, location, what);
    }
}
