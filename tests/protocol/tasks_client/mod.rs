//! Tasks at the client, in both forms, on virtual time: the messages of the server are written by hand.

mod attacks;
mod calls;
mod failures;
mod handles;
mod http;
mod legacy;
mod questions;

use mcp_proto::client::{self, Event};
use mcp_proto::model::Task;
use mcp_proto::{CallKey, CallOptions, Capabilities, Capability, RawJson, Version, VersionSet};
use mcp_tests::harness::build::result_response;
use mcp_tests::harness::{Chunker, ClientHarness};
use serde_json::{Value, json};

use crate::protocol::common::client;

#[expect(deprecated, reason = "tested until its removal")]
pub(super) const DECLARED: [Capability; 3] =
    [Capability::Elicitation, Capability::ElicitationUrl, Capability::Roots];

pub(super) fn config() -> client::Config {
    let capabilities = DECLARED.iter().copied().fold(Capabilities::new(), Capabilities::with);
    client(VersionSet::ALL).tasks().capabilities(capabilities)
}

pub(super) fn modern_with(config: client::Config) -> ClientHarness {
    let mut harness = ClientHarness::client(config, Chunker::Whole);
    harness.become_modern(json!({"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}));
    harness
}

pub(super) fn modern() -> ClientHarness {
    modern_with(config())
}

pub(super) fn legacy_with(config: client::Config, tasks: &Value) -> ClientHarness {
    let mut harness = ClientHarness::client(config, Chunker::Whole);
    harness.become_legacy(Version::V2025_11_25, json!({"tools": {}, "tasks": tasks}));
    harness
}

pub(super) fn legacy() -> ClientHarness {
    legacy_with(config(), &json!({"cancel": {}, "requests": {"tools": {"call": {}}}}))
}

/// Returns the state of the task `t-9` in the form of 2026-07-28.
pub(super) fn state(status: &str, members: Value) -> Value {
    let mut state = json!({
        "resultType": "complete", "taskId": "t-9", "status": status, "createdAt": "2026-08-01T10:00:00Z",
        "lastUpdatedAt": "2026-08-01T10:00:02Z", "ttlMs": 3_600_000, "pollIntervalMs": 500,
    });
    merge(&mut state, members);
    state
}

/// Returns the state of the task `t-9` in the form of 2025-11-25.
pub(super) fn legacy_state(status: &str, members: Value) -> Value {
    let mut state = json!({
        "taskId": "t-9", "status": status, "createdAt": "2025-11-26T09:00:00Z",
        "lastUpdatedAt": "2025-11-26T09:00:05Z", "ttl": 3_600_000, "pollInterval": 500,
    });
    merge(&mut state, members);
    state
}

pub(super) fn merge(target: &mut Value, members: Value) {
    let Value::Object(members) = members else { panic!("members") };
    for (name, value) in members {
        target[name] = value;
    }
}

/// Returns the result that creates the task `t-9` in the form of 2026-07-28.
pub(super) fn created(members: Value) -> Value {
    let mut state = state("working", json!({"resultType": "task"}));
    merge(&mut state, members);
    state
}

pub(super) fn tool_call() -> Value {
    json!({"name": "dredge", "arguments": {"boat": "Aline"}})
}

pub(super) fn content() -> Value {
    json!({"content": [{"type": "text", "text": "dredged"}]})
}

/// Starts a call at a modern server that becomes the task `t-9`.
pub(super) fn followed_call(harness: &mut ClientHarness, options: &CallOptions) -> (CallKey, Value) {
    let (call, request) = harness.start_call("tools/call", &tool_call(), options);
    harness.feed_message(&result_response(&request, created(json!({}))));
    expect_task(harness, call, "working");
    harness.assert_idle();
    (call, request)
}

/// Takes the next event, a state of the task of `call`.
pub(super) fn expect_task(harness: &mut ClientHarness, call: CallKey, status: &str) -> Task<'static> {
    match harness.expect_event() {
        Event::Task { call: key, task } if key == call => {
            assert_eq!(task.status.as_str(), status);
            *task
        }
        other => panic!("expected a state, got {other:?}"),
    }
}

/// Answers the next poll.
pub(super) fn answer_poll(harness: &mut ClientHarness, result: Value) -> Value {
    let poll = harness.expect_request("tasks/get");
    assert_eq!(poll["params"]["taskId"], "t-9");
    harness.feed_message(&result_response(&poll, result));
    poll
}

pub(super) fn text(result: &RawJson) -> Value {
    serde_json::from_slice(result.as_bytes()).expect("JSON")
}

pub(super) fn form() -> Value {
    let schema = json!({"type": "object", "properties": {"basin": {"type": "string"}}});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": "Which?", "requestedSchema": schema}})
}

pub(super) fn accepted(basin: &str) -> Value {
    json!({"action": "accept", "content": {"basin": basin}})
}
