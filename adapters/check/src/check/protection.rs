//! Checks of a server that requires access tokens: its challenges, and the document that describes it.

use core::time::Duration;
use std::time::Instant;

use mcp_proto::head::Fields;
use mcp_proto::http::client::Url;
use mcp_proto::http::fields::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use serde_json::Value;

use super::authorization_server;
use super::conversation::CheckSetup;
use super::exposure;
use super::http_peer::{EVENT_STREAM, JSON};
use super::peer::ServerTarget;
use super::report::{CheckReport, clip};
use super::rules;
use crate::document::{covers, fetch_resource_metadata, is_safe};
use crate::exchange::{self, HttpResponseHead, HttpTarget};

const PING: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const OFFLINE_ACCESS: &str = "offline_access";
/// Names of scopes that allow everything.
const WIDE_SCOPES: [&str; 7] = ["all", "admin", "root", "full", "full_access", "full-access", "superuser"];
/// A token that no server has issued.
const INVALID_TOKEN: &str = "Bearer mcp-probe-checks-that-this-token-is-refused";

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
        None => report.add(rules::CHALLENGE, location, describe_challenges(&head)),
        Some(challenge) => match challenge.param("scope") {
            None => report.add(rules::CHALLENGE_SCOPE, location, "the challenge has no `scope`"),
            Some(scopes) => {
                if names_offline_access(scopes.split(' ')) {
                    report.add(rules::OFFLINE_ACCESS, location, "the challenge names it");
                }
                check_scopes(report, location, scopes.split(' '));
            }
        },
    }
    for method in ["GET", "DELETE"] {
        check_method(report, method, send(&bare, method, None, setup.connect_timeout));
    }
    check_invalid_token(report, send(&bare, "POST", Some(INVALID_TOKEN), setup.connect_timeout));
    let named = challenge.as_ref().and_then(|challenge| challenge.param("resource_metadata"));
    match fetch_resource_metadata(named, server.url(), setup.timeout) {
        Ok(document) => check_document(report, server.url(), &document, setup.timeout),
        Err(why) => report.add(rules::RESOURCE_METADATA, location, why),
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
            fields.push(CONTENT_TYPE, JSON.as_bytes());
            fields.push(ACCEPT, format!("{JSON}, {EVENT_STREAM}").as_bytes());
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
                report.add(rules::CHALLENGE, &location, describe_challenges(&head));
            }
        }
        Ok(head) if head.is_success() => {
            report.add(rules::UNPROTECTED, &location, format!("the response has {}", head.summary()));
        }
        Ok(head) => {
            report.add(rules::CHALLENGE_METHODS, &location, format!("the response has {}", head.summary()));
        }
        Err(why) => report.add(rules::CHALLENGE_METHODS, &location, why),
    }
}

/// Checks the response to a request with a token that no authorization server has issued.
fn check_invalid_token(report: &CheckReport, reply: Result<HttpResponseHead, String>) {
    let location = "a request with an invalid token";
    let head = match reply {
        Ok(head) => head,
        Err(why) => return report.add(rules::INVALID_TOKEN, location, why),
    };
    if head.is_success() {
        return report.add(rules::UNPROTECTED, location, format!("the response has {}", head.summary()));
    }
    match head.bearer_challenge().filter(|_| head.status == 401) {
        None if head.status == 401 => report.add(rules::INVALID_TOKEN, location, describe_challenges(&head)),
        None => report.add(rules::INVALID_TOKEN, location, format!("the response has {}", head.summary())),
        Some(challenge) if challenge.param("error") == Some("invalid_token") => {}
        Some(challenge) => {
            let what = match challenge.param("error") {
                Some(error) => format!("the challenge has the error {:?}", clip(error, 80)),
                None => "the challenge has no `error`".into(),
            };
            report.add(rules::INVALID_TOKEN_ERROR, location, what);
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
        report.add(rules::RESOURCE_IDENTIFIER, location, clip(&shown, 200));
    }
    let issuers = document["authorization_servers"].as_array().map_or(&[][..], |all| all);
    if issuers.is_empty() {
        report.add(rules::AUTHORIZATION_SERVERS, location, "`authorization_servers` is missing or empty");
    }
    let mut usable = Vec::new();
    for issuer in issuers {
        let is_usable = |issuer: &&str| Url::parse(issuer).is_ok_and(|url| is_safe(&url));
        match issuer.as_str().filter(is_usable) {
            Some(issuer) => usable.push(issuer),
            None => report.add(
                rules::AUTHORIZATION_SERVERS,
                location,
                format!("it names {}", clip(&issuer.to_string(), 80)),
            ),
        }
    }
    authorization_server::check_all(report, server, &usable, timeout);
    let scopes = document["scopes_supported"].as_array().map_or(&[][..], |all| all);
    check_scopes(report, location, scopes.iter().filter_map(Value::as_str));
    if names_offline_access(scopes.iter().filter_map(Value::as_str)) {
        report.add(rules::OFFLINE_ACCESS, location, "`scopes_supported` names it");
    }
}

/// Reports scopes that allow everything.
fn check_scopes<'s>(report: &CheckReport, location: &str, scopes: impl Iterator<Item = &'s str>) {
    for scope in scopes.filter(|scope| scope.contains('*') || WIDE_SCOPES.contains(scope)) {
        report.add(rules::WIDE_SCOPE, location, format!("it names the scope {:?}", clip(scope, 80)));
    }
}

fn names_offline_access<'s>(mut scopes: impl Iterator<Item = &'s str>) -> bool {
    scopes.any(|scope| scope == OFFLINE_ACCESS)
}
