//! Helpers shared by the tests of the HTTP client: unconnected clients and common messages.

use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Diagnostic, HttpError, Version, VersionSet,
};
use mcp_tests::harness::build::{initialize_result, result_response};
use mcp_tests::harness::{Chunker, HttpClientHarness, SentRequest};
use serde_json::{Value, json};

use crate::protocol::common::client;

pub(crate) const V: Version = Version::V2025_11_25;
pub(crate) const JSON: &str = "application/json";
pub(crate) const BOM: &str = "\u{feff}";

#[expect(deprecated, reason = "tested until its removal")]
pub(crate) fn legacy_harness(cut: Chunker) -> HttpClientHarness {
    let config = client(VersionSet::ALL)
        .capabilities(Capabilities::new().with(Capability::Elicitation).with(Capability::Roots));
    HttpClientHarness::new(config, HttpClientHarness::default_http_config(), cut)
}

pub(crate) fn modern_harness(cut: Chunker) -> HttpClientHarness {
    let mut harness =
        HttpClientHarness::new(client(VersionSet::MODERN), HttpClientHarness::default_http_config(), cut);
    harness.become_modern(json!({"tools": {}}));
    harness
}

pub(crate) fn tool_capabilities() -> Value {
    json!({"tools": {}, "logging": {}, "resources": {"subscribe": true}})
}

pub(crate) fn non_retryable() -> CallOptions {
    CallOptions::new()
}

pub(crate) fn tool_result() -> Value {
    json!({"content": []})
}

pub(crate) fn expect_http_error(outcome: Result<Value, CallError>) -> HttpError {
    match outcome {
        Err(CallError::Http(error)) => HttpError::clone(&error),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn describe_diagnostic(diagnostic: Diagnostic) -> String {
    match diagnostic {
        Diagnostic::Http(text) => text,
        other => panic!("{other:?}"),
    }
}

/// Answers the `initialize` of a new session and returns its GET.
pub(crate) fn expect_session_renewed(
    harness: &mut HttpClientHarness,
    init: &SentRequest,
    session: &str,
) -> SentRequest {
    assert_eq!(init.body["method"], "initialize");
    let body = result_response(&init.body, initialize_result(V.as_str(), tool_capabilities())).to_string();
    let fields = [("Content-Type", JSON), ("Mcp-Session-Id", session)];
    harness.respond_with(init.id, 200, &fields, &body);
    let initialized = harness.expect_post("notifications/initialized");
    harness.respond_with_status(initialized.id, 202);
    let get = harness.expect_request();
    assert_eq!((get.method, get.field("mcp-session-id")), ("GET", Some(session)));
    get
}
