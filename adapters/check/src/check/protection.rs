//! Checks of a server that requires access tokens: its challenges, and the document that describes it.

use core::time::Duration;
use std::time::Instant;

use mcp_proto::head::Fields;
use mcp_proto::http::client::Url;
use mcp_proto::http::fields::{ACCEPT, AUTHORIZATION, WWW_AUTHENTICATE};
use serde_json::Value;

use super::conversation::CheckSetup;
use super::peer::ServerTarget;
use super::report::{CheckReport, clip};
use super::rules::rules_of;
use super::{authorization_server, exposure};
use crate::document::{covers, fetch_resource_metadata, is_safe};
use crate::exchange::{self, EVENT_STREAM, HttpResponseHead, HttpTarget};

rules_of! {
    RULES
    CHALLENGE "challenge" Error [Spec Hosted] Mcp07 ["AUTH-004" "AUTH-020"]
        "a 401 response has a challenge for `Bearer` or `DPoP`"
        "add `WWW-Authenticate: Bearer resource_metadata=\"…\"`"
    CHALLENGE_SCOPE "challenge-scope" Warning [Spec Hosted] Mcp02 ["AUTH-051"]
        "the challenge of a 401 response names the scopes to ask for"
        "add `scope=\"…\"` to the challenge"
    RESOURCE_METADATA "resource-metadata" Error [Spec Hosted] Mcp07 ["AUTH-021"]
        "a server that requires tokens describes itself: at the URL that its challenge names, or at a well-known one"
        "serve the document of RFC 9728, and name it by `resource_metadata` in the challenge"
    RESOURCE_IDENTIFIER "resource-identifier" Error [Spec Hosted] Mcp07 ["AUTH-021" "AUTH-044"]
        "the `resource` of the document is the URL of the server, or a path above it"
        "set it to the URL by which clients know the server"
    AUTHORIZATION_SERVERS "authorization-servers" Error [Spec Hosted] Mcp07 ["AUTH-019"]
        "the document names at least one authorization server, by an https URL"
        "list the issuer identifiers in `authorization_servers`"
    OFFLINE_ACCESS "offline-access" Warning [Spec Hosted] Mcp01 ["AUTH-060"]
        "neither challenges nor the document name the scope `offline_access`"
        "leave it out: clients ask for it themselves"
    UNPROTECTED "unprotected" Error [Spec Hosted] Mcp07 ["AUTH-004" "AUTH-009"]
        "a server that requires tokens serves no request without a valid one, whatever its method"
        "validate the token before anything else"
    CHALLENGE_METHODS "challenge-methods" Warning [Spec Hosted] Mcp07 ["AUTH-004"]
        "GET and DELETE without a token are challenged as POST is, or get 405"
        "answer with 401 and the challenge: clients also learn there that a token is needed, or has expired"
    INVALID_TOKEN "invalid-token" Error [Spec Hosted] Mcp07 ["AUTH-004" "AUTH-009"]
        "an invalid token gets 401, with a challenge for `Bearer` or `DPoP`"
        "answer with 401 and the challenge, so that the client gets another token"
    INVALID_TOKEN_ERROR "invalid-token-error" Warning [Spec Hosted] Mcp07 ["AUTH-009"]
        "the challenge about an invalid token says so"
        "add `error=\"invalid_token\"` to the challenge"
}

rules_of! {
    SCOPES
    WIDE_SCOPE "wide-scope" Warning [Hosted] Mcp02 ["AUTH-055"]
        "scopes are narrow: none allows everything"
        "offer a scope for each kind of operation"
}

const PING: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const OFFLINE_SCOPE: &str = "offline_access";
/// Names of scopes that allow everything.
const WIDE_SCOPES: [&str; 7] = ["all", "admin", "root", "full", "full_access", "full-access", "superuser"];
/// A token that no server has issued.
const UNISSUED_TOKEN: &str = "Bearer mcp-probe-checks-that-this-token-is-refused";

/// Checks how a server answers requests without a valid token. No effect if it requires none.
pub(super) fn check_challenge(setup: &CheckSetup, report: &CheckReport) {
    let ServerTarget::Http(server) = &setup.server else { return };
    let bare = server.without_credentials();
    let reply = send(&bare, "POST", None, setup.connect_timeout);
    // Other checks report a server that does not answer.
    let Ok(head) = reply else { return };
    exposure::check_response(report, &head);
    if head.status != 401 {
        return;
    }
    let challenge = head.bearer_challenge();
    let location = "a request without a token";
    match &challenge {
        None => report.add(CHALLENGE, location, describe_challenges(&head)),
        Some(challenge) => match challenge.param("scope") {
            None => report.add(CHALLENGE_SCOPE, location, "the challenge has no `scope`"),
            Some(scopes) => {
                if names_offline_access(scopes.split(' ')) {
                    report.add(OFFLINE_ACCESS, location, "the challenge names it");
                }
                check_scopes(report, location, scopes.split(' '));
            }
        },
    }
    for method in ["GET", "DELETE"] {
        check_method(report, method, send(&bare, method, None, setup.connect_timeout));
    }
    check_invalid_token(report, send(&bare, "POST", Some(UNISSUED_TOKEN), setup.connect_timeout));
    let named = challenge.as_ref().and_then(|challenge| challenge.param("resource_metadata"));
    match fetch_resource_metadata(named, server.url(), setup.timeout) {
        Ok(document) => check_document(report, server.url(), &document, setup.timeout),
        Err(why) => report.add(RESOURCE_METADATA, location, why),
    }
}

/// Sends a request of its own and returns the head of the response.
fn send(
    server: &HttpTarget,
    method: &str,
    authorization: Option<&str>,
    timeout: Duration,
) -> Result<HttpResponseHead, String> {
    let mut fields = Fields::new();
    let body = match method {
        "POST" => {
            exchange::push_message_fields(&mut fields);
            Some(PING)
        }
        _ => {
            fields.push(ACCEPT, EVENT_STREAM.as_bytes());
            None
        }
    };
    if let Some(authorization) = authorization {
        fields.push(AUTHORIZATION, authorization.as_bytes());
    }
    exchange::perform(server, method, fields, body, Instant::now() + timeout).map(|reply| reply.head)
}

/// Checks the response to a request with another method than POST, without a token.
fn check_method(report: &CheckReport, method: &str, reply: Result<HttpResponseHead, String>) {
    let location = format!("a {method} without a token");
    match reply {
        // A server without that method need not look at a token.
        Ok(head) if head.status == 405 => {}
        Ok(head) if head.status == 401 => {
            if head.bearer_challenge().is_none() {
                report.add(CHALLENGE, &location, describe_challenges(&head));
            }
        }
        Ok(head) if head.is_success() => {
            report.add(UNPROTECTED, &location, head.sentence());
        }
        Ok(head) => {
            report.add(CHALLENGE_METHODS, &location, head.sentence());
        }
        Err(why) => report.add(CHALLENGE_METHODS, &location, why),
    }
}

/// Checks the response to a request with a token that no authorization server has issued.
fn check_invalid_token(report: &CheckReport, reply: Result<HttpResponseHead, String>) {
    let location = "a request with an invalid token";
    let head = match reply {
        Ok(head) => head,
        Err(why) => return report.add(INVALID_TOKEN, location, why),
    };
    if head.is_success() {
        return report.add(UNPROTECTED, location, head.sentence());
    }
    match head.bearer_challenge().filter(|_| head.status == 401) {
        None if head.status == 401 => report.add(INVALID_TOKEN, location, describe_challenges(&head)),
        None => report.add(INVALID_TOKEN, location, head.sentence()),
        Some(challenge) if challenge.param("error") == Some("invalid_token") => {}
        Some(challenge) => {
            let what = match challenge.param("error") {
                Some(error) => format!("the challenge has the error {:?}", clip(error, 80)),
                None => "the challenge has no `error`".into(),
            };
            report.add(INVALID_TOKEN_ERROR, location, what);
        }
    }
}

/// Returns whether the server refuses requests with the credentials that the check has, if any.
pub(super) fn is_unauthorized(setup: &CheckSetup) -> bool {
    let ServerTarget::Http(server) = &setup.server else { return false };
    send(server, "POST", None, setup.connect_timeout).is_ok_and(|head| head.status == 401)
}

fn describe_challenges(head: &HttpResponseHead) -> String {
    match head.field(WWW_AUTHENTICATE) {
        Some(value) => format!("the response has `{WWW_AUTHENTICATE}: {}`", clip(value, 80)),
        None => format!("the response has 401 and no `{WWW_AUTHENTICATE}`"),
    }
}

/// Checks the members of the document (RFC 9728, 2).
fn check_document(report: &CheckReport, server: &Url, document: &Value, timeout: Duration) {
    let location = "the document of the resource";
    let resource = document["resource"].as_str();
    if !resource.is_some_and(|resource| covers(resource, server)) {
        let shown = resource
            .map_or_else(|| "there is no `resource`".into(), |resource| format!("it is {resource:?}"));
        report.add(RESOURCE_IDENTIFIER, location, clip(&shown, 200));
    }
    let issuers = document["authorization_servers"].as_array().map_or(&[][..], |all| all);
    if issuers.is_empty() {
        report.add(AUTHORIZATION_SERVERS, location, "`authorization_servers` is missing or empty");
    }
    let mut usable = Vec::new();
    for issuer in issuers {
        let is_usable = |issuer: &&str| Url::parse(issuer).is_ok_and(|url| is_safe(&url));
        match issuer.as_str().filter(is_usable) {
            Some(issuer) => usable.push(issuer),
            None => report.add(
                AUTHORIZATION_SERVERS,
                location,
                format!("it names {}", clip(&issuer.to_string(), 80)),
            ),
        }
    }
    authorization_server::check_all(report, server, &usable, timeout);
    let scopes = document["scopes_supported"].as_array().map_or(&[][..], |all| all);
    check_scopes(report, location, scopes.iter().filter_map(Value::as_str));
    if names_offline_access(scopes.iter().filter_map(Value::as_str)) {
        report.add(OFFLINE_ACCESS, location, "`scopes_supported` names it");
    }
}

/// Reports scopes that allow everything.
fn check_scopes<'s>(report: &CheckReport, location: &str, scopes: impl Iterator<Item = &'s str>) {
    for scope in scopes.filter(|scope| scope.contains('*') || WIDE_SCOPES.contains(scope)) {
        report.add(WIDE_SCOPE, location, format!("it names the scope {:?}", clip(scope, 80)));
    }
}

fn names_offline_access<'s>(mut scopes: impl Iterator<Item = &'s str>) -> bool {
    scopes.any(|scope| scope == OFFLINE_SCOPE)
}
