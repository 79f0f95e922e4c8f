//! Checks of a server that requires access tokens: its challenge, and the document that describes it.

use core::time::Duration;
use std::time::Instant;

use mcp_proto::AuthChallenge;
use mcp_proto::auth::{Fetch, FetchPolicy};
use mcp_proto::head::Fields;
use mcp_proto::http::client::{Url, parse_challenges};
use mcp_proto::http::fields::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use mcp_std::auth::{Fetcher as _, HttpFetcher};
use serde_json::Value;

use super::conversation::CheckSetup;
use super::exchange::{self, HttpResponseHead};
use super::http_peer::{EVENT_STREAM, JSON};
use super::peer::ServerTarget;
use super::report::{CheckReport, clip};
use super::rules;

const PING: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";
const OFFLINE_ACCESS: &str = "offline_access";
/// Size of the largest document, in bytes.
const MAX_DOCUMENT: usize = 64 << 10;

/// Checks how a server answers a request without a token. No effect if it requires none.
pub(super) fn check_challenge(setup: &CheckSetup, report: &CheckReport) {
    let ServerTarget::Http(server) = &setup.server else { return };
    let mut fields = Fields::new();
    fields.push(CONTENT_TYPE, JSON.as_bytes());
    fields.push(ACCEPT, format!("{JSON}, {EVENT_STREAM}").as_bytes());
    let until = Instant::now() + setup.connect_timeout;
    let reply = exchange::perform(&server.without_credentials(), "POST", fields, Some(PING), until);
    // Other checks report a server that does not answer.
    let Some(head) = reply.ok().map(|reply| reply.head).filter(|head| head.status == 401) else { return };
    let challenge = bearer_challenge(&head);
    let location = "a request without a token";
    match &challenge {
        None => report.add(rules::CHALLENGE, location, describe_challenges(&head)),
        Some(challenge) => match challenge.param("scope") {
            None => report.add(rules::CHALLENGE_SCOPE, location, "the challenge has no `scope`"),
            Some(scopes) if names_offline_access(scopes.split(' ')) => {
                report.add(rules::OFFLINE_ACCESS, location, "the challenge names it");
            }
            Some(_) => {}
        },
    }
    let named = challenge.as_ref().and_then(|challenge| challenge.param("resource_metadata"));
    let found = match named {
        Some(url) => {
            fetch(url, server.url(), setup.timeout).map_err(|why| format!("`resource_metadata`: {why}"))
        }
        None => find_document(server.url(), setup.timeout),
    };
    match found {
        Ok(document) => check_document(report, server.url(), &document),
        Err(why) => report.add(rules::RESOURCE_METADATA, location, why),
    }
}

/// Returns the challenge that is about access tokens.
fn bearer_challenge(head: &HttpResponseHead) -> Option<AuthChallenge> {
    let challenges = parse_challenges(head.values(WWW_AUTHENTICATE).map(str::as_bytes));
    let is_known = |challenge: &AuthChallenge| {
        ["bearer", "dpop"].iter().any(|scheme| challenge.scheme.eq_ignore_ascii_case(scheme))
    };
    challenges.into_iter().find(is_known)
}

fn describe_challenges(head: &HttpResponseHead) -> String {
    match head.field(WWW_AUTHENTICATE) {
        Some(value) => format!("the response has `{WWW_AUTHENTICATE}: {}`", clip(value, 80)),
        None => format!("the response has 401 and no `{WWW_AUTHENTICATE}`"),
    }
}

/// Fetches the document from its well-known locations (AUTH-023).
fn find_document(server: &Url, timeout: Duration) -> Result<Value, String> {
    let path = server.target().split('?').next().unwrap_or_default();
    let mut failures = Vec::new();
    for target in [format!("{WELL_KNOWN}{path}"), WELL_KNOWN.to_owned()] {
        match fetch(&format!("{}{target}", server.origin()), server, timeout) {
            Ok(document) => return Ok(document),
            Err(why) => failures.push(why),
        }
    }
    Err(format!("the challenge has no `resource_metadata`; {}", failures.join("; ")))
}

/// Fetches a JSON object that the server at `server` refers to.
fn fetch(url: &str, server: &Url, timeout: Duration) -> Result<Value, String> {
    let shown = Url::redacted(url);
    let target = Url::parse(url).map_err(|error| format!("{shown}: {error}"))?;
    let policy = FetchPolicy::new(timeout, MAX_DOCUMENT).reachable_from(server.origin().clone());
    let response =
        HttpFetcher::new().fetch(&Fetch::get(target, policy)).map_err(|error| format!("{shown}: {error}"))?;
    if response.status != 200 {
        return Err(format!("{shown} has the status {}", response.status));
    }
    match serde_json::from_slice(&response.body) {
        Ok(document @ Value::Object(_)) => Ok(document),
        _ => Err(format!("{shown} is not a JSON object")),
    }
}

/// Checks the members of the document (RFC 9728, 2).
fn check_document(report: &CheckReport, server: &Url, document: &Value) {
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
    for issuer in issuers {
        let url = issuer.as_str().and_then(|issuer| Url::parse(issuer).ok());
        let is_safe = |url: &Url| url.origin().secure || url.origin().is_loopback();
        if !url.as_ref().is_some_and(is_safe) {
            report.add(
                rules::AUTHORIZATION_SERVERS,
                location,
                format!("it names {}", clip(&issuer.to_string(), 80)),
            );
        }
    }
    let scopes = document["scopes_supported"].as_array().map_or(&[][..], |all| all);
    if names_offline_access(scopes.iter().filter_map(Value::as_str)) {
        report.add(rules::OFFLINE_ACCESS, location, "`scopes_supported` names it");
    }
}

fn names_offline_access<'s>(mut scopes: impl Iterator<Item = &'s str>) -> bool {
    scopes.any(|scope| scope == OFFLINE_ACCESS)
}

/// Returns whether a resource is the server, or a path above it on the same origin.
fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let (above, path) = (resource.target().trim_end_matches('/'), server.target());
    let rest = path.strip_prefix(above);
    resource.origin() == server.origin()
        && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
}
