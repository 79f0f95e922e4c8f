//! Tasks of a server: both forms, on byte streams and over HTTP.

mod attacks;
mod extension;
mod legacy;
mod observed;
mod over_http;
mod sessions;
mod stored;
mod waiting;

use mcp_proto::model::{ElicitFormParams, ElicitSchema, InputRequest, InputRequests};
use mcp_proto::server::{self, Call, TaskOffer, TaskOptions, TaskTable};
use mcp_proto::{Anchor, Entropy, RawJson, Version, VersionSet};
use mcp_tests::harness::build::{legacy_request, modern_request_with};
use mcp_tests::harness::{Chunker, ServerHarness};
use serde_json::{Value, json};

use crate::protocol::common::server;

const LEGACY: Version = Version::V2025_11_25;

fn config() -> server::Config {
    server(VersionSet::ALL)
}

fn table() -> TaskTable {
    TaskTable::new(Entropy::new([9; 32], 0), Anchor::new(mcp_proto::Instant::ZERO, 1_785_578_400))
}

fn harness_with(table: TaskTable, cut: Chunker) -> ServerHarness {
    let mut harness = ServerHarness::server(config(), cut);
    let now = harness.now;
    harness.pipe.engine().set_tasks(now, table);
    harness
}

fn modern_harness(cut: Chunker) -> ServerHarness {
    harness_with(table(), cut)
}

fn legacy_harness(table: TaskTable, cut: Chunker) -> ServerHarness {
    let mut harness = harness_with(table, cut);
    harness.open_session_with(LEGACY, &json!({"elicitation": {}}));
    harness
}

/// A modern request of a client that declares the extension and forms.
fn modern(id: i64, method: &str, params: Value) -> Value {
    let capabilities = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    modern_request_with(
        id,
        method,
        params,
        &json!({"io.modelcontextprotocol/clientCapabilities": capabilities}),
    )
}

fn modern_call(id: i64) -> Value {
    modern(id, "tools/call", json!({"name": "dredge", "arguments": {"deep": true}}))
}

/// A call that asks for a task.
fn legacy_call(id: i64) -> Value {
    legacy_request(
        id,
        "tools/call",
        json!({"name": "dredge", "arguments": {"deep": true}, "task": {"ttl": 60_000}}),
    )
}

fn task_request(id: i64, method: &str, task: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {"taskId": task}})
}

/// Makes a call a task. Returns its id and the call that runs it.
fn begin(harness: &mut ServerHarness, request: &Value) -> (String, Call) {
    let call = harness.expect_call_for(request);
    assert_ne!(call.task_offer(), TaskOffer::None);
    let now = harness.now;
    harness.pipe.engine().tasks(now).begin(&call, TaskOptions::new()).expect("room");
    harness.pump();
    let created = harness.expect_reply();
    let result = &created["result"];
    let id = result["task"]["taskId"].as_str().or_else(|| result["taskId"].as_str());
    let id = id.unwrap_or_else(|| panic!("a task: {created}")).to_owned();
    let run = harness.expect_call();
    assert_eq!(run.task_id().expect("a run").as_str(), id);
    assert_eq!((run.task_offer(), run.method()), (TaskOffer::None, "tools/call"));
    assert_eq!(run.tool_call().expect("a tool").arguments, br#"{"deep":true}"#);
    (id, run)
}

/// Answers a run with a result; nothing is sent for it.
fn complete(harness: &mut ServerHarness, run: &Call, result: &Value) {
    let now = harness.now;
    harness.pipe.engine().complete(now, run.id(), result).expect("the run is open");
    harness.pump();
}

/// Feeds a request that is refused, and returns its answer.
fn refusal(harness: &mut ServerHarness, request: &Value) -> Value {
    json!({"error": harness.expect_error(request)})
}

fn form(name: &str) -> InputRequests<'static> {
    let schema = RawJson::new(r#"{"type":"object","properties":{"basin":{"type":"string"}}}"#).expect("JSON");
    let form = ElicitFormParams::new("Which basin?", schema.parse::<ElicitSchema>().expect("a form"));
    [(name, InputRequest::Elicit(form.into()))].into_iter().collect()
}

fn forms(names: &[&str]) -> InputRequests<'static> {
    names.iter().map(|name| (*name, form(name).iter().next().expect("a form").1.clone())).collect()
}

fn dredged() -> Value {
    json!({"content": [{"type": "text", "text": "dredged"}]})
}
