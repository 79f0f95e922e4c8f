//! The exchanges of tasks over HTTP: how long they stay, and what still arrives when the client closes.

use mcp_proto::client::{Event, TaskRequest};
use mcp_proto::{CallError, CallKey, CallOptions, Diagnostic, Version};
use mcp_tests::harness::build::{error_response, result_response};
use mcp_tests::harness::{Chunker, HttpClientHarness, SentRequest};
use serde_json::json;

use super::{config, created, legacy_state, state, tool_call};
use crate::protocol::common::{ms, secs};

fn legacy() -> HttpClientHarness {
    let mut harness =
        HttpClientHarness::new(config(), HttpClientHarness::default_http_config(), Chunker::Whole);
    let tasks = json!({"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}});
    harness.become_legacy(Version::V2025_11_25, Some("s"), tasks);
    harness
}

fn modern() -> HttpClientHarness {
    let mut harness =
        HttpClientHarness::new(config(), HttpClientHarness::default_http_config(), Chunker::Whole);
    harness.become_modern(json!({"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}));
    harness
}

fn start(harness: &mut HttpClientHarness) -> (CallKey, SentRequest) {
    let (now, task) = (harness.now, TaskRequest::followed());
    let engine = harness.client.engine();
    let call =
        engine.call_tool_as_task(now, "dredge", &json!({}), task, &CallOptions::new()).expect("a call");
    (call, harness.expect_post("tools/call"))
}

/// Starts a call that follows the task `t-9` of a modern server.
fn followed(harness: &mut HttpClientHarness) -> CallKey {
    let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
    harness.respond_with_json(request.id, 200, &result_response(&request.body, created(json!({}))));
    assert!(matches!(harness.expect_event(), Event::Task { .. }));
    call
}

fn cancel(harness: &mut HttpClientHarness, call: CallKey) {
    harness.client.engine().cancel(harness.now, call, None).expect("open");
    assert_eq!(harness.expect_done(call), Err(CallError::Cancelled));
}

/// The id of the task is in the answer, and only `tasks/cancel` may end a request for a task.
// covers: CANC-009, TASK-028
#[test]
fn exchange_of_a_cancelled_call_stays_until_its_task_is_known() {
    let mut harness = legacy();
    let (call, request) = start(&mut harness);
    cancel(&mut harness, call);
    harness.assert_idle();
    harness.advance(secs(59));
    harness.assert_idle();
    let task = json!({"task": legacy_state("working", json!({}))});
    harness.respond_with_json(request.id, 200, &result_response(&request.body, task));
    assert!(matches!(harness.expect_event(), Event::Diagnostic(Diagnostic::LateResponse(_))));
    let cancel = harness.expect_post("tasks/cancel");
    assert_eq!(cancel.body["params"], json!({"taskId": "t-9"}));
    harness.respond_with_json(
        cancel.id,
        200,
        &result_response(&cancel.body, legacy_state("cancelled", json!({}))),
    );
    harness.advance(secs(3_600));
    harness.assert_idle();
}

// covers: CANC-009
#[test]
fn exchange_of_a_cancelled_call_that_is_never_answered_ends_without_a_notification() {
    let mut harness = legacy();
    let (call, request) = start(&mut harness);
    cancel(&mut harness, call);
    harness.advance(secs(60));
    assert_eq!(harness.expect_aborted(), request.id);
    harness.assert_idle();
    // So does one that was lost.
    let (call, request) = start(&mut harness);
    cancel(&mut harness, call);
    harness.break_connection(request.id);
    harness.advance(secs(3_600));
    harness.assert_idle();
}

// covers: TASK-122
#[test]
fn cancellation_of_a_task_is_repeated_after_a_lost_connection() {
    let mut harness = modern();
    let call = followed(&mut harness);
    cancel(&mut harness, call);
    let first = harness.expect_post("tasks/cancel");
    harness.break_connection(first.id);
    harness.advance(secs(2));
    let second = harness.expect_post("tasks/cancel");
    assert_eq!(second.body["params"]["taskId"], "t-9");
    harness.respond_with_json(second.id, 503, &error_response(&second.body, -32603, "busy", json!(null)));
    harness.advance(secs(4));
    let third = harness.expect_post("tasks/cancel");
    // It stays open until it is answered, or has timed out.
    harness.advance(secs(59));
    harness.assert_idle();
    harness.advance(secs(1));
    assert_eq!(harness.expect_aborted(), third.id);
    harness.advance(secs(8));
    let last = harness.expect_post("tasks/cancel");
    harness.respond_with_json(last.id, 200, &result_response(&last.body, json!({"resultType": "complete"})));
    harness.advance(secs(3_600));
    harness.assert_idle();
}

/// The process may end after a call was dropped: the server must get the cancellation all the same.
// covers: TASK-122
#[test]
fn cancellation_of_a_task_arrives_although_the_client_closes() {
    for is_sent in [false, true] {
        let mut harness = modern();
        let call = followed(&mut harness);
        harness.advance(ms(500));
        let poll = harness.expect_post("tasks/get");
        harness.respond_with_json(poll.id, 200, &result_response(&poll.body, state("working", json!({}))));
        harness.client.engine().cancel(harness.now, call, None).expect("open");
        let sent = is_sent.then(|| harness.expect_post("tasks/cancel"));
        harness.client.close(harness.now);
        let cancel = sent.unwrap_or_else(|| harness.expect_post("tasks/cancel"));
        assert_eq!(harness.expect_done(call), Err(CallError::Cancelled));
        assert!(matches!(harness.expect_event(), Event::Closed(_)));
        harness.assert_nothing_sent();
        assert!(!harness.client.is_drained());
        let confirmed = result_response(&cancel.body, json!({"resultType": "complete"}));
        harness.respond_with_json(cancel.id, 200, &confirmed);
        assert!(harness.client.is_drained());
        harness.assert_idle();
    }
}

/// The server says when it wants to be asked again, within the longest interval.
#[test]
fn poll_that_fails_is_repeated_when_the_server_says() {
    for (retry_after, wait) in [(None, 1_000), (Some("7"), 7_000), (Some("4000"), 60_000)] {
        let mut harness = modern();
        followed(&mut harness);
        harness.advance(ms(500));
        let poll = harness.expect_post("tasks/get");
        let field = retry_after.map(|seconds| ("Retry-After", seconds));
        harness.respond_with(poll.id, 503, field.as_slice(), "");
        harness.advance(ms(wait - 1));
        harness.assert_idle();
        harness.advance(ms(1));
        harness.expect_post("tasks/get");
    }
}
