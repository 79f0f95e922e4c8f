//! Client leg, core: a session that is lost, tasks, names and parameters in header fields.

use mcp_proto::client::Event;
use mcp_proto::{CallError, CallOptions, Diagnostic, Version, VersionSet};
use mcp_tests::harness::build::{error_response, initialize_result, result_response};
use mcp_tests::harness::{Chunker, HttpClientHarness, SentRequest};
use serde_json::{Value, json};

use crate::protocol::common::{client, ms, secs};

const TASKS: &str = "io.modelcontextprotocol/tasks";

fn http(config: mcp_proto::client::Config) -> HttpClientHarness {
    HttpClientHarness::new(config, HttpClientHarness::default_http_config(), Chunker::Whole)
}

fn modern() -> HttpClientHarness {
    let mut harness = http(client(VersionSet::MODERN).tasks());
    harness.become_modern(json!({"tools": {}, "extensions": {(TASKS): {}}}));
    harness
}

fn respond(harness: &mut HttpClientHarness, request: &SentRequest, result: Value) {
    harness.respond_with_json(request.id, 200, &result_response(&request.body, result));
}

/// Scenario `session-renegotiation-404`: a new session without the old id, in which the call that failed is made again, once.
// covers: HTTP-072
#[test]
fn session_that_was_lost_is_opened_again_and_its_call_repeated() {
    for version in [Version::V2025_03_26, Version::V2025_06_18, Version::V2025_11_25] {
        let mut harness = http(client(VersionSet::LEGACY));
        let initialized = harness.initialize_legacy(version, Some("session-a"), json!({"tools": {}}));
        harness.respond_with_status(initialized.id, 202);
        // The stream of the mock ends as soon as it was opened.
        let get = harness.expect_request();
        harness.start_event_stream(get.id);
        harness.receive_end(get.id);
        let (key, request) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
        assert_eq!(request.field("mcp-session-id"), Some("session-a"));
        let lost = error_response(&request.body, -32001, "Session not found", Value::Null);
        harness.respond_with_json(request.id, 404, &lost);
        let initialize = harness.expect_post("initialize");
        assert_eq!(initialize.field("mcp-session-id"), None, "{version}");
        let answer =
            result_response(&initialize.body, initialize_result(version.as_str(), json!({"tools": {}})));
        let fields = [("Content-Type", "application/json"), ("Mcp-Session-Id", "session-b")];
        harness.respond_with(initialize.id, 200, &fields, &answer.to_string());
        let initialized = harness.expect_post("notifications/initialized");
        harness.respond_with_status(initialized.id, 202);
        let get = harness.expect_request();
        assert_eq!((get.method, get.field("mcp-session-id")), ("GET", Some("session-b")));
        harness.start_event_stream(get.id);
        harness.receive_end(get.id);
        let again = harness.expect_post("tools/list");
        assert_eq!(again.field("mcp-session-id"), Some("session-b"));
        respond(&mut harness, &again, json!({"tools": []}));
        assert_eq!(harness.expect_done(key).expect("a list")["tools"], json!([]));
        harness.take_diagnostics();
    }
}

fn call(harness: &mut HttpClientHarness, tool: &str) -> (mcp_proto::CallKey, SentRequest) {
    harness.start_call("tools/call", &json!({"name": tool, "arguments": {}}), &CallOptions::new())
}

fn state(id: &str, status: &str, more: Value) -> Value {
    let mut state = json!({"resultType": "complete", "taskId": id, "status": status, "ttlMs": 60_000,
        "createdAt": "2026-08-01T10:00:00Z", "lastUpdatedAt": "2026-08-01T10:00:00Z", "pollIntervalMs": 300});
    let Value::Object(more) = more else { panic!("an object") };
    state.as_object_mut().expect("an object").extend(more);
    state
}

/// Answers a call with a new task, and takes the event that says so.
fn become_task(harness: &mut HttpClientHarness, request: &SentRequest, id: &str, interval: u64) {
    respond(
        harness,
        request,
        state(id, "working", json!({"resultType": "task", "pollIntervalMs": interval})),
    );
    assert!(matches!(harness.expect_event(), Event::Task { .. }));
}

/// Answers the next request of a method about a task, whose header names it.
fn answer(harness: &mut HttpClientHarness, method: &str, id: &str, result: Value) {
    let request = harness.expect_post(method);
    assert_eq!((request.field("mcp-name"), &request.body["params"]["taskId"]), (Some(id), &json!(id)));
    respond(harness, &request, result);
}

/// Scenario `tasks-client-lifecycle`, on the wire of 2026-07-28: there is no `ping`, so the result of another kind answers a list.
// covers: TASK-105, TASK-106, TASK-114, TASK-122, TASK-128
#[test]
fn tasks_are_polled_until_they_end_and_cancelled_by_their_own_method() {
    let mut harness = modern();
    // A task that ends well, not asked for before its interval has passed.
    let (key, request) = call(&mut harness, "quick_task");
    become_task(&mut harness, &request, "quick", 300);
    for (status, more) in [
        ("working", json!({})),
        ("completed", json!({"result": {"content": [{"type": "text", "text": "x"}]}})),
    ] {
        harness.advance(ms(299));
        harness.assert_idle();
        harness.advance(ms(1));
        answer(&mut harness, "tasks/get", "quick", state("quick", status, more));
    }
    assert!(matches!(harness.expect_event(), Event::Task { .. }));
    assert_eq!(harness.expect_done(key).expect("a result")["content"][0]["text"], "x");
    // One that needs none.
    let (key, request) = call(&mut harness, "sync_echo");
    respond(&mut harness, &request, json!({"resultType": "complete", "content": []}));
    assert!(harness.expect_done(key).is_ok());
    // One that fails ends at its first poll.
    let (key, request) = call(&mut harness, "failing_task");
    become_task(&mut harness, &request, "failing", 300);
    harness.advance(ms(300));
    let error = json!({"error": {"code": -32000, "message": "it broke"}});
    answer(&mut harness, "tasks/get", "failing", state("failing", "failed", error));
    assert!(matches!(harness.expect_event(), Event::Task { .. }));
    assert!(matches!(harness.expect_done(key), Err(CallError::Rpc(error)) if error.message == "it broke"));
    // One that is cancelled: no `notifications/cancelled`.
    let (key, request) = call(&mut harness, "cancel_task");
    become_task(&mut harness, &request, "long", 300);
    let now = harness.now;
    harness.client.engine().cancel(now, key, None).expect("a call");
    assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
    answer(&mut harness, "tasks/cancel", "long", json!({"resultType": "complete"}));
    harness.advance(secs(60));
    harness.assert_idle();
    // A task for a request that cannot be one: nothing is asked about it.
    let (key, request) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
    respond(&mut harness, &request, state("stray", "working", json!({"resultType": "task"})));
    assert!(matches!(harness.expect_done(key), Err(CallError::UnknownResultType(_))));
    harness.advance(secs(60));
    harness.assert_idle();
}

/// Scenario `tasks-client-create-handling`: an interval of 1 ms, and a first poll that has the result.
// covers: TASK-101, TASK-105
#[test]
fn task_with_the_shortest_interval_is_followed_without_a_storm() {
    let mut harness = modern();
    let (key, request) = call(&mut harness, "long_running_echo");
    let declared =
        &request.body["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
    assert!(declared[TASKS].is_object(), "the declaration is that of this request: {declared}");
    become_task(&mut harness, &request, "echo", 1);
    harness.advance(ms(99));
    harness.assert_idle();
    harness.advance(ms(1));
    let result = json!({"result": {"content": [{"type": "text", "text": "hi"}]}});
    answer(&mut harness, "tasks/get", "echo", state("echo", "completed", result));
    assert!(matches!(harness.expect_event(), Event::Task { .. }));
    assert_eq!(harness.expect_done(key).expect("a result")["content"][0]["text"], "hi");
    harness.assert_idle();
}

fn list(harness: &mut HttpClientHarness, tools: &[Value]) -> Vec<String> {
    let now = harness.now;
    let key = harness.client.engine().list_tools(now, None, &CallOptions::new()).expect("a list");
    let request = harness.expect_post("tools/list");
    let page = json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": tools});
    respond(harness, &request, page);
    let left_out = harness.take_diagnostics();
    let found = harness.expect_done(key).expect("a list");
    let names: Vec<String> = found["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .map(|tool| tool["name"].as_str().expect("a name").to_owned())
        .collect();
    let reported = left_out.iter().filter(|one| matches!(one, Diagnostic::InvalidTool { .. })).count();
    assert_eq!(names.len() + reported, tools.len(), "each one that is left out is reported");
    names
}

/// Scenarios `http-standard-headers` (a name that is not ASCII) and `http-custom-headers` (an annotation of a nested property).
// covers: XHDR-009, XHDR-014, XHDR-015, XHDR-031, XHDR-032
#[test]
fn unicode_name_and_nested_parameter_are_in_the_header() {
    let mut harness = modern();
    let nested = json!({"type": "object", "properties": {"outer": {"type": "object",
        "properties": {"inner": {"type": "string", "x-mcp-header": "Nested"}}}}});
    list(
        &mut harness,
        &[
            json!({"name": "t\u{f6}\u{f6}l_unicode", "inputSchema": {"type": "object"}}),
            json!({"name": "test_custom_headers_nested", "inputSchema": nested}),
        ],
    );
    let (_, request) = call(&mut harness, "t\u{f6}\u{f6}l_unicode");
    assert_eq!(request.field("mcp-name"), Some("=?base64?dMO2w7ZsX3VuaWNvZGU=?="));
    for (arguments, expected) in [
        (json!({"outer": {"inner": "nested-value"}}), Some("nested-value")),
        (json!({"outer": {}}), None),
        (json!({"outer": {"inner": null}}), None),
        (json!({"outer": null}), None),
        (json!({"inner": "x", "outer": {"other": {"inner": "x"}}}), None),
    ] {
        let params = json!({"name": "test_custom_headers_nested", "arguments": arguments});
        let (_, request) = harness.start_call("tools/call", &params, &CallOptions::new());
        assert_eq!(request.field("mcp-param-nested"), expected, "{arguments}");
    }
}

/// Scenario `http-invalid-tool-headers`: annotations that cannot be reached by `properties` alone.
// covers: XHDR-010, XHDR-011
#[test]
fn tools_with_annotations_out_of_reach_are_left_out() {
    let marked = json!({"type": "string", "x-mcp-header": "A"});
    let of = |schema: Value| {
        let mut schema = schema;
        schema["type"] = json!("object");
        schema
    };
    let inside = json!({"properties": {"a": marked}});
    let tools: Vec<Value> = [
        ("items", of(json!({"properties": {"a": {"type": "array", "items": marked}}}))),
        ("one", of(json!({"oneOf": [inside]}))),
        ("any", of(json!({"anyOf": [inside]}))),
        ("all", of(json!({"allOf": [inside]}))),
        ("not", of(json!({"not": inside}))),
        ("then", of(json!({"if": {}, "then": inside}))),
        ("ref", of(json!({"properties": {"a": {"$ref": "#/$defs/d"}}, "$defs": {"d": marked}}))),
        ("valid", of(inside.clone())),
    ]
    .into_iter()
    .map(|(name, schema)| json!({"name": name, "inputSchema": schema}))
    .collect();
    assert_eq!(list(&mut modern(), &tools), ["valid"]);
}
