//! What tests of the client over HTTP share: clients that are about to connect, and what they send and get.

use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Diagnostic, HttpError, Version, VersionSet,
};
use mcp_tests::harness::build::{initialized, result};
use mcp_tests::harness::{Asked, Chunker, LoneHttp};
use serde_json::{Value, json};

use crate::common::client;

pub(crate) const V: Version = Version::V2025_11_25;
pub(crate) const JSON: &str = "application/json";
pub(crate) const BOM: &str = "\u{feff}";

pub(crate) fn lone(cut: Chunker) -> LoneHttp {
    let config = client(VersionSet::ALL)
        .capabilities(Capabilities::new().with(Capability::Elicitation).with(Capability::Roots));
    LoneHttp::new(config, LoneHttp::http(), cut)
}

pub(crate) fn modern(cut: Chunker) -> LoneHttp {
    let mut lone = LoneHttp::new(client(VersionSet::MODERN), LoneHttp::http(), cut);
    lone.with_modern(json!({"tools": {}}));
    lone
}

pub(crate) fn can() -> Value {
    json!({"tools": {}, "logging": {}, "resources": {"subscribe": true}})
}

pub(crate) fn once() -> CallOptions {
    CallOptions::new()
}

pub(crate) fn answer() -> Value {
    json!({"content": []})
}

pub(crate) fn http(outcome: Result<Value, CallError>) -> HttpError {
    match outcome {
        Err(CallError::Http(error)) => HttpError::clone(&error),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn told(diagnostic: Diagnostic) -> String {
    match diagnostic {
        Diagnostic::Http(text) => text,
        other => panic!("{other:?}"),
    }
}

/// The answer to the `initialize` of another session, up to its GET
pub(crate) fn renews(lone: &mut LoneHttp, init: &Asked, session: &str) -> Asked {
    assert_eq!(init.body["method"], "initialize");
    let body = result(&init.body, initialized(V.as_str(), can())).to_string();
    let fields = [("Content-Type", JSON), ("Mcp-Session-Id", session)];
    lone.answer_with(init.id, 200, &fields, &body);
    let said = lone.posted("notifications/initialized");
    lone.status(said.id, 202);
    let get = lone.asked();
    assert_eq!((get.method, get.field("mcp-session-id")), ("GET", Some(session)));
    get
}
