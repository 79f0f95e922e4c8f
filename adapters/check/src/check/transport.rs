//! Checks of HTTP behaviour that answers alone do not show.

use mcp_proto::head::Fields;
use mcp_proto::http::fields::{ACCEPT, METHOD, NAME, ORIGIN, PROTOCOL_VERSION, SESSION_ID};
use mcp_proto::{DeprecatedFeature, Version};
use serde_json::{Value, json};

use super::conversation::{CheckConversation, CheckSetup};
use super::exposure;
use super::http_peer::HTTP_UNANSWERED;
use super::peer::ServerTarget;
use super::report::CheckReport;
use super::rules::{Rule, rules_of};
use crate::exchange::{CollectedResponse, EVENT_STREAM};

rules_of! {
    RULES
    HTTP_ORIGIN "http-origin" Error [Spec Hosted] Mcp07 ["HTTP-003" "HTTP-004"]
        "requests from web pages of other origins are refused with 403"
        "check `Origin` before anything else: otherwise any web page can talk to a server on its visitor's machine"
    HTTP_GET "http-get" Error [Spec Hosted] ["HTTP-049"]
        "GET is answered with an event stream, or with 405"
        "answer with 405 if there is no such stream"
    HTTP_GET_MODERN "http-get-modern" Warning [Spec Hosted] ["HTTP-039"]
        "a modern-only server refuses GET with 405"
        "answer with 405 and `Allow: POST`"
    HTTP_SESSION_ID "http-session-id" Error [Spec Hosted] Mcp07 ["HTTP-066"]
        "session ids consist of visible ASCII characters"
        "use random bytes in hexadecimal digits, for example"
    HTTP_SESSION_UNKNOWN "http-session-unknown" Error [Spec Hosted] Mcp07 ["HTTP-071"]
        "requests in an ended or unknown session get 404"
        "answer with 404, so that the client starts a new session"
    HTTP_SESSION_MISSING "http-session-missing" Warning [Spec Hosted] Mcp07 ["HTTP-069"]
        "if the server uses sessions, requests without a session id get 400"
        "answer with 400"
    HTTP_DELETE "http-delete" Error [Spec Hosted] Mcp07 ["HTTP-074" "HTTP-071"]
        "DELETE ends a session, or is refused with 405"
        "end the session, so that later requests in it get 404"
    HTTP_VERSION "http-version" Error [Spec Hosted] ["HTTP-077"]
        "from 2025-06-18 on, an unknown revision in `MCP-Protocol-Version` is refused with 400"
        "refuse it with that status"
    HTTP_MIRROR "http-mirror" Error [Spec Hosted] ["HTTP-027" "HTTP-031" "HTTP-036"]
        "modern requests whose header differs from the body, or lacks a field, are refused with 400 and -32020"
        "compare `MCP-Protocol-Version`, `Mcp-Method` and `Mcp-Name` with the body"
}

/// An origin that no server allows.
const FOREIGN_ORIGIN: &str = "https://mcp-probe.invalid";
/// A session id that was never assigned.
const UNKNOWN_SESSION: &str = "mcp-probe-unknown";
/// A revision that never existed.
const UNKNOWN_VERSION: &str = "1999-12-31";

/// Runs all checks of this module. `alone` states that the server supports no other era.
pub(super) fn check_transport(conversation: &mut CheckConversation<'_>, alone: bool) {
    check_origin(conversation);
    exposure::check_body_limit(conversation);
    check_get(conversation, alone);
    if conversation.is_modern() {
        check_header_mismatch(conversation);
    } else {
        check_version_header(conversation);
        check_session(conversation);
    }
}

/// Notes a server that opens an event stream for GET and answers no POST: it may offer HTTP+SSE alone (HTTPSSE-001).
pub(super) fn note_http_sse(setup: &CheckSetup, report: &CheckReport) {
    let ServerTarget::Http(target) = &setup.server else { return };
    if target.opens_event_stream(setup.timeout) {
        report.add_deprecated(DeprecatedFeature::HttpSse);
    }
}

/// Sends a request with modified header fields and returns the response. A missing response is a finding.
fn post(
    conversation: &CheckConversation<'_>,
    location: &str,
    message: &Value,
    change: impl Fn(Fields) -> Fields,
) -> Option<CollectedResponse> {
    let peer = conversation.http_peer()?;
    let body = message.to_string();
    require_response(
        conversation,
        location,
        peer.perform(
            "POST",
            change(peer.post_fields(message)),
            Some(body.as_bytes()),
            conversation.setup().timeout,
        ),
    )
}

fn require_response(
    conversation: &CheckConversation<'_>,
    location: &str,
    reply: Result<CollectedResponse, String>,
) -> Option<CollectedResponse> {
    reply.map_err(|why| conversation.report.add(HTTP_UNANSWERED, location, why)).ok()
}

/// Reports a finding if the status is not one of `wanted`.
fn expect_status(
    conversation: &CheckConversation<'_>,
    rule: &'static Rule,
    location: &str,
    reply: Option<CollectedResponse>,
    wanted: &[u16],
) {
    let Some(CollectedResponse { head, .. }) = reply else { return };
    if !wanted.contains(&head.status) {
        conversation.report.add(rule, location, head.sentence());
    }
}

fn set_field(name: &'static str, value: &'static str) -> impl Fn(Fields) -> Fields {
    move |fields| {
        let mut changed = remove_field(name)(fields);
        changed.push(name, value.as_bytes());
        changed
    }
}

pub(super) fn remove_field(name: &'static str) -> impl Fn(Fields) -> Fields {
    move |fields| {
        let mut changed = Fields::new();
        for (other, value) in fields.iter().filter(|(other, _)| *other != name) {
            changed.push(other, value);
        }
        changed
    }
}

fn check_origin(conversation: &mut CheckConversation<'_>) {
    let message = conversation.safe_request();
    let location = format!("a request with `{ORIGIN}: {FOREIGN_ORIGIN}`");
    let reply = post(conversation, &location, &message, set_field(ORIGIN, FOREIGN_ORIGIN));
    if let Some(reply) = &reply {
        exposure::check_cors(conversation.report, &location, &reply.head, FOREIGN_ORIGIN);
    }
    expect_status(conversation, HTTP_ORIGIN, &location, reply, &[403]);
}

fn check_get(conversation: &CheckConversation<'_>, alone: bool) {
    let (Some(peer), modern) = (conversation.http_peer(), conversation.is_modern()) else { return };
    if modern && !alone {
        // GET may open the stream of a legacy session.
        return;
    }
    let mut fields = peer.session_fields();
    fields.push(ACCEPT, EVENT_STREAM.as_bytes());
    if modern {
        fields.push(PROTOCOL_VERSION, conversation.version().as_str().as_bytes());
    }
    let reply = peer.perform("GET", fields, None, conversation.setup().timeout);
    let Some(reply) = require_response(conversation, "GET", reply) else { return };
    if modern {
        expect_status(conversation, HTTP_GET_MODERN, "GET", Some(reply), &[405]);
    } else if !(reply.head.status == 200 && reply.head.has_media_type(EVENT_STREAM)) {
        expect_status(conversation, HTTP_GET, "GET", Some(reply), &[405]);
    }
}

/// Checks requests whose header contradicts the body.
fn check_header_mismatch(conversation: &mut CheckConversation<'_>) {
    let other = set_field(METHOD, "tools/list");
    let cases: [(&str, &dyn Fn(Fields) -> Fields); 3] = [
        ("a request with `Mcp-Method` of another one", &other),
        ("a request without `Mcp-Method`", &remove_field(METHOD)),
        (
            "a request with another revision in `MCP-Protocol-Version`",
            &set_field(PROTOCOL_VERSION, "2025-11-25"),
        ),
    ];
    for (location, change) in cases {
        let message = conversation.safe_request();
        expect_header_mismatch(conversation, location, &message, change);
    }
    if conversation.capabilities["tools"].is_object() {
        // The tool does not exist, so nothing is called.
        let params = json!({"name": "mcp-probe-unknown", "arguments": {}});
        let message = conversation.new_request("tools/call", params);
        expect_header_mismatch(
            conversation,
            "a call of a tool with the `Mcp-Name` of another one",
            &message,
            &set_field(NAME, "mcp-probe-other"),
        );
        expect_header_mismatch(
            conversation,
            "a call of a tool without `Mcp-Name`",
            &message,
            &remove_field(NAME),
        );
    }
}

fn expect_header_mismatch(
    conversation: &CheckConversation<'_>,
    location: &str,
    message: &Value,
    change: &dyn Fn(Fields) -> Fields,
) {
    let Some(CollectedResponse { head, body }) = post(conversation, location, message, change) else {
        return;
    };
    let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
    let code = &answer["error"]["code"];
    if head.status != 400 || *code != -32020 {
        let what = format!("{} and the error code {code}", head.sentence());
        conversation.report.add(HTTP_MIRROR, location, what);
    }
}

fn check_version_header(conversation: &mut CheckConversation<'_>) {
    if conversation.version() >= Version::V2025_06_18 {
        let message = conversation.safe_request();
        let location = format!("a request with `{PROTOCOL_VERSION}: {UNKNOWN_VERSION}`");
        let reply = post(conversation, &location, &message, set_field(PROTOCOL_VERSION, UNKNOWN_VERSION));
        expect_status(conversation, HTTP_VERSION, &location, reply, &[400]);
    }
}

/// Checks unknown sessions, and the end of the current one.
fn check_session(conversation: &mut CheckConversation<'_>) {
    if conversation.http_peer().is_none_or(|peer| peer.session.is_none()) {
        return;
    }
    exposure::check_session_id(conversation);
    let message = conversation.safe_request();
    let location = format!("a request with `{SESSION_ID}: {UNKNOWN_SESSION}`");
    let reply = post(conversation, &location, &message, set_field(SESSION_ID, UNKNOWN_SESSION));
    expect_status(conversation, HTTP_SESSION_UNKNOWN, &location, reply, &[404]);
    let message = conversation.safe_request();
    let location = format!("a request without `{SESSION_ID}`");
    let reply = post(conversation, &location, &message, remove_field(SESSION_ID));
    expect_status(conversation, HTTP_SESSION_MISSING, &location, reply, &[400]);

    let Some(peer) = conversation.http_peer() else { return };
    let reply = peer.perform("DELETE", peer.session_fields(), None, conversation.setup().timeout);
    let Some(reply) = require_response(conversation, "DELETE", reply) else { return };
    if !reply.head.is_success() {
        return expect_status(conversation, HTTP_DELETE, "DELETE", Some(reply), &[405]);
    }
    let message = conversation.safe_request();
    let location = "a request after DELETE";
    let reply = post(conversation, location, &message, |fields| fields);
    expect_status(conversation, HTTP_DELETE, location, reply, &[404]);
}
