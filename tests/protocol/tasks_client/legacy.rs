//! Tasks of 2025-11-25 at the client.

use mcp_proto::client::{Event, TaskRequest};
use mcp_proto::{CallError, CallKey, CallOptions, Diagnostic, Version};
use mcp_tests::harness::ClientHarness;
use mcp_tests::harness::build::{error_response, notification, result_response};
use serde_json::{Value, json};

use super::{
    accepted, answer_poll, config, content, expect_task, form, legacy, legacy_state, legacy_with, text,
};
use crate::protocol::common::{ms, secs};

const RELATED: &str = "io.modelcontextprotocol/related-task";

fn start(harness: &mut ClientHarness, task: TaskRequest, options: &CallOptions) -> (CallKey, Value) {
    let (now, engine) = (harness.now, harness.pipe.engine());
    let call = engine.call_tool_as_task(now, "dredge", &json!({}), task, options).expect("a call");
    (call, harness.expect_request("tools/call"))
}

/// Starts a call that follows the task `t-9`.
fn followed(harness: &mut ClientHarness) -> (CallKey, Value) {
    let (call, request) = start(harness, TaskRequest::followed(), &CallOptions::new().with_progress());
    harness.feed_message(&result_response(&request, json!({"task": legacy_state("working", json!({}))})));
    expect_task(harness, call, "working");
    harness.assert_idle();
    (call, request)
}

fn result_with_task() -> Value {
    let mut result = content();
    result["_meta"] = json!({RELATED: {"taskId": "t-9"}});
    result
}

// covers: TASK-006, TASK-007, TASK-008, TASK-009, TASK-018, TASK-019, TASK-024
#[test]
fn call_follows_its_task_and_collects_the_result() {
    let mut harness = legacy();
    let request = TaskRequest::followed().ttl(secs(60));
    let (call, request) = start(&mut harness, request, &CallOptions::new());
    assert_eq!(request["params"], json!({"name": "dredge", "arguments": {}, "task": {"ttl": 60_000}}));
    harness.feed_message(&result_response(&request, json!({"task": legacy_state("working", json!({}))})));
    expect_task(&mut harness, call, "working");
    harness.advance(ms(500));
    let poll = answer_poll(&mut harness, legacy_state("completed", json!({})));
    assert_eq!(poll["params"], json!({"taskId": "t-9"}));
    expect_task(&mut harness, call, "completed");
    let collect = harness.expect_request("tasks/result");
    assert_eq!(collect["params"], json!({"taskId": "t-9"}));
    harness.advance(secs(30));
    harness.assert_idle();
    harness.feed_message(&result_response(&collect, result_with_task()));
    assert_eq!(text(&harness.expect_done(call).expect("a result")), result_with_task());
    harness.advance(secs(600));
    harness.assert_idle();
}

// covers: TASK-003, TASK-004
#[test]
fn server_without_tasks_of_tools_runs_the_tool_plainly() {
    for tasks in
        [json!({}), json!({"requests": {"tools": {}}}), json!({"requests": {"tools": {"call": true}}})]
    {
        let mut harness = legacy_with(config(), &tasks);
        let (call, request) = start(&mut harness, TaskRequest::followed(), &CallOptions::new());
        assert!(request["params"].get("task").is_none(), "{request}");
        harness.feed_message(&result_response(&request, content()));
        assert_eq!(text(&harness.expect_done(call).expect("a result")), content());
    }
    for version in [Version::V2024_11_05, Version::V2025_03_26, Version::V2025_06_18] {
        let mut harness = ClientHarness::client(config(), mcp_tests::harness::Chunker::Whole);
        harness.become_legacy(version, json!({"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}}));
        let (_, request) = start(&mut harness, TaskRequest::followed(), &CallOptions::new());
        assert!(request["params"].get("task").is_none(), "{request}");
    }
    // A plain call never asks for a task.
    let mut harness = legacy();
    let (_, request) = harness.start_call("tools/call", &super::tool_call(), &CallOptions::new());
    assert!(request["params"].get("task").is_none(), "{request}");
}

// covers: TASK-010
#[test]
fn server_that_ignores_the_request_for_a_task_is_read() {
    let mut harness = legacy();
    let (call, request) = start(&mut harness, TaskRequest::followed(), &CallOptions::new());
    let mut result = content();
    result["task"] = json!("a member of the tool's");
    harness.feed_message(&result_response(&request, result.clone()));
    assert_eq!(text(&harness.expect_done(call).expect("a result")), result);
}

// covers: TASK-020, TASK-021, TASK-022, TASK-023, TASK-037, TIME-008
#[test]
fn question_comes_on_the_request_for_the_result() {
    let mut harness = legacy();
    let (call, _) = followed(&mut harness);
    harness.advance(ms(500));
    answer_poll(&mut harness, legacy_state("input_required", json!({})));
    expect_task(&mut harness, call, "input_required");
    let collect = harness.expect_request("tasks/result");
    let mut ask = form();
    ask["jsonrpc"] = json!("2.0");
    ask["id"] = json!("q1");
    ask["params"]["_meta"] = json!({RELATED: {"taskId": "t-9"}});
    harness.feed_message(&ask);
    let input = harness.expect_input();
    assert_eq!((input.call, input.key), (Some(call), None));
    // The user takes longer than any timeout. Polls go on, and the result is requested once.
    for _ in 0..1_000 {
        harness.advance(ms(500));
        answer_poll(&mut harness, legacy_state("input_required", json!({})));
    }
    harness.assert_idle();
    let mut answer = accepted("east");
    answer["_meta"] = json!({"own": 1});
    harness.answer(input.id, &answer);
    let sent = harness.expect_reply();
    assert_eq!(sent["id"], "q1");
    assert_eq!(sent["result"]["_meta"], json!({RELATED: {"taskId": "t-9"}, "own": 1}));
    assert_eq!(sent["result"]["content"], json!({"basin": "east"}));
    harness.feed_message(&result_response(&collect, result_with_task()));
    assert_eq!(text(&harness.expect_done(call).expect("a result")), result_with_task());
    harness.advance(secs(600));
    harness.assert_idle();
}

// covers: TASK-023
#[test]
fn answers_name_the_task_of_the_question() {
    for (answer, expected) in [
        (json!({"action": "decline"}), json!({"action": "decline", "_meta": {RELATED: {"taskId": "t-9"}}})),
        (
            json!({"_meta": {}, "action": "decline"}),
            json!({"action": "decline", "_meta": {RELATED: {"taskId": "t-9"}}}),
        ),
    ] {
        let mut harness = legacy();
        let mut ask = form();
        ask["jsonrpc"] = json!("2.0");
        ask["id"] = json!(7);
        ask["params"]["_meta"] = json!({RELATED: {"taskId": "t-9"}});
        harness.feed_message(&ask);
        let input = harness.expect_input();
        assert_eq!(input.call, None);
        harness.answer(input.id, &answer);
        assert_eq!(harness.expect_reply()["result"], expected);
        // Other questions get no such member.
        ask["id"] = json!(8);
        ask["params"].as_object_mut().expect("params").remove("_meta");
        harness.feed_message(&ask);
        let input = harness.expect_input();
        harness.answer(input.id, &json!({"action": "decline"}));
        assert_eq!(harness.expect_reply()["result"], json!({"action": "decline"}));
    }
}

// covers: TASK-013, TASK-025
#[test]
fn status_notification_comes_before_the_next_poll() {
    let mut harness = legacy();
    let (call, _) = followed(&mut harness);
    harness.advance(ms(500));
    let poll = harness.expect_request("tasks/get");
    let completed = legacy_state("completed", json!({}));
    harness.feed_message(&notification("notifications/tasks/status", completed));
    expect_task(&mut harness, call, "completed");
    let collect = harness.expect_request("tasks/result");
    // The answer to the poll is older, and so is another notification: a terminal status never changes.
    harness.feed_message(&result_response(&poll, legacy_state("working", json!({}))));
    harness.feed_message(&notification("notifications/tasks/status", legacy_state("working", json!({}))));
    harness.assert_idle();
    harness.feed_message(&result_response(&collect, result_with_task()));
    harness.expect_done(call).expect("a result");
    harness.advance(secs(600));
    harness.assert_idle();
}

// covers: TASK-033
#[test]
fn progress_token_is_valid_until_the_task_ends() {
    let mut harness = legacy();
    let (call, request) = followed(&mut harness);
    let token = request["params"]["_meta"]["progressToken"].clone();
    let report = |n: u32| {
        let meta = json!({RELATED: {"taskId": "t-9"}});
        notification("notifications/progress", json!({"progressToken": token, "progress": n, "_meta": meta}))
    };
    harness.advance(ms(400));
    harness.feed_message(&report(1));
    harness.expect_progress(call);
    // Progress does not delay the poll.
    harness.advance(ms(100));
    answer_poll(&mut harness, legacy_state("working", json!({})));
    harness.feed_message(&report(2));
    harness.expect_progress(call);
    harness.feed_message(&report(2));
    assert!(matches!(harness.expect_event(), Event::Diagnostic(Diagnostic::ProgressNotIncreasing)));
    harness.pipe.engine().cancel(harness.now, call, None).expect("open");
    harness.expect_done(call).expect_err("cancelled");
    harness.feed_message(&report(3));
    assert!(matches!(harness.expect_event(), Event::Diagnostic(Diagnostic::UnknownProgress)));
}

// covers: TASK-019, TASK-032
#[test]
fn failed_task_has_the_result_or_the_error_of_the_request() {
    let failed = json!({"content": [], "isError": true});
    let mut harness = legacy();
    let (call, _) = followed(&mut harness);
    harness.advance(ms(500));
    answer_poll(&mut harness, legacy_state("failed", json!({"statusMessage": "rust"})));
    expect_task(&mut harness, call, "failed");
    let collect = harness.expect_request("tasks/result");
    harness.feed_message(&result_response(&collect, failed.clone()));
    assert_eq!(text(&harness.expect_done(call).expect("a result")), failed);
    let (call, _) = followed(&mut harness);
    harness.advance(ms(500));
    answer_poll(&mut harness, legacy_state("failed", json!({})));
    expect_task(&mut harness, call, "failed");
    let collect = harness.expect_request("tasks/result");
    harness.feed_message(&error_response(&collect, -32602, "no such boat", json!(null)));
    let error = harness.expect_done(call).expect_err("no result");
    assert!(matches!(&error, CallError::Rpc(error) if error.message == "no such boat"), "{error:?}");
    harness.advance(secs(600));
    harness.assert_idle();
}

// covers: TASK-030, TASK-031
#[test]
fn task_that_vanishes_before_its_result_is_lost() {
    let mut harness = legacy();
    let (call, _) = followed(&mut harness);
    harness.advance(ms(500));
    answer_poll(&mut harness, legacy_state("completed", json!({})));
    expect_task(&mut harness, call, "completed");
    let collect = harness.expect_request("tasks/result");
    harness.feed_message(&error_response(&collect, -32602, "unknown task", json!(null)));
    let error = harness.expect_done(call).expect_err("no result");
    assert!(matches!(error, CallError::TaskLost(_)), "{error:?}");
    // Any other error is that of the result.
    let (call, _) = followed(&mut harness);
    harness.advance(ms(500));
    answer_poll(&mut harness, legacy_state("completed", json!({})));
    expect_task(&mut harness, call, "completed");
    let collect = harness.expect_request("tasks/result");
    harness.feed_message(&error_response(&collect, -32603, "rust", json!(null)));
    let error = harness.expect_done(call).expect_err("no result");
    assert!(matches!(&error, CallError::Rpc(error) if error.message == "rust"), "{error:?}");
    let (call, _) = followed(&mut harness);
    harness.advance(ms(500));
    answer_poll(&mut harness, legacy_state("cancelled", json!({})));
    expect_task(&mut harness, call, "cancelled");
    assert_eq!(harness.expect_done(call), Err(CallError::TaskCancelled { message: None }));
    harness.advance(secs(600));
    harness.assert_idle();
}

/// An error on the stream of the result is the outcome only if the task has failed.
// covers: TASK-019, TASK-020
#[test]
fn error_of_an_early_request_for_the_result_is_checked_by_a_poll() {
    let asked = |harness: &mut ClientHarness| {
        let (call, _) = followed(harness);
        harness.advance(ms(500));
        answer_poll(harness, legacy_state("input_required", json!({})));
        expect_task(harness, call, "input_required");
        (call, harness.expect_request("tasks/result"))
    };
    // The task has failed with that error.
    let mut harness = legacy();
    let (call, collect) = asked(&mut harness);
    harness.feed_message(&error_response(&collect, -32000, "rust", json!(null)));
    answer_poll(&mut harness, legacy_state("failed", json!({})));
    expect_task(&mut harness, call, "failed");
    let error = harness.expect_done(call).expect_err("no result");
    assert!(matches!(&error, CallError::Rpc(error) if error.message == "rust"), "{error:?}");
    // It goes on: the result is requested again.
    let mut harness = legacy();
    let (call, collect) = asked(&mut harness);
    harness.feed_message(&error_response(&collect, -32000, "too many streams", json!(null)));
    answer_poll(&mut harness, legacy_state("input_required", json!({})));
    let collect = harness.expect_request("tasks/result");
    harness.feed_message(&result_response(&collect, content()));
    assert_eq!(text(&harness.expect_done(call).expect("a result")), content());
    // It has completed: so is its result.
    let mut harness = legacy();
    let (call, collect) = asked(&mut harness);
    harness.feed_message(&error_response(&collect, -32602, "unknown", json!(null)));
    answer_poll(&mut harness, legacy_state("completed", json!({})));
    expect_task(&mut harness, call, "completed");
    let collect = harness.expect_request("tasks/result");
    harness.feed_message(&result_response(&collect, content()));
    assert_eq!(text(&harness.expect_done(call).expect("a result")), content());
    // It is gone.
    let mut harness = legacy();
    let (call, collect) = asked(&mut harness);
    harness.feed_message(&error_response(&collect, -32602, "unknown", json!(null)));
    let poll = harness.expect_request("tasks/get");
    harness.feed_message(&error_response(&poll, -32602, "unknown", json!(null)));
    let error = harness.expect_done(call).expect_err("no result");
    assert!(matches!(error, CallError::TaskLost(_)), "{error:?}");
    // Without end, it fails.
    let mut harness = legacy();
    let (call, mut collect) = asked(&mut harness);
    for _ in 0..4 {
        harness.feed_message(&error_response(&collect, -32000, "no", json!(null)));
        answer_poll(&mut harness, legacy_state("input_required", json!({})));
        collect = harness.expect_request("tasks/result");
    }
    harness.feed_message(&error_response(&collect, -32000, "no", json!(null)));
    harness.expect_done(call).expect_err("no result");
    harness.expect_request("tasks/cancel");
}

#[test]
fn result_that_does_not_come_is_requested_again() {
    let mut harness = legacy();
    let (call, _) = followed(&mut harness);
    harness.advance(ms(500));
    answer_poll(&mut harness, legacy_state("completed", json!({})));
    expect_task(&mut harness, call, "completed");
    let lost = harness.expect_request("tasks/result");
    harness.advance(secs(60));
    assert_eq!(harness.expect_reply()["params"]["requestId"], lost["id"]);
    harness.advance(secs(1));
    let again = harness.expect_request("tasks/result");
    harness.feed_message(&result_response(&again, content()));
    assert_eq!(text(&harness.expect_done(call).expect("a result")), content());
    // The first one comes late.
    harness.feed_message(&result_response(&lost, content()));
    assert!(matches!(harness.expect_event(), Event::Diagnostic(Diagnostic::LateResponse(_))));
    harness.assert_idle();
}

// covers: CANC-009, TASK-028
#[test]
fn cancelled_call_cancels_its_task_by_its_id_only() {
    let mut harness = legacy();
    let (call, _) = followed(&mut harness);
    harness.pipe.engine().cancel(harness.now, call, None).expect("open");
    assert_eq!(harness.expect_done(call), Err(CallError::Cancelled));
    assert_eq!(harness.expect_request("tasks/cancel")["params"], json!({"taskId": "t-9"}));
    // The id is not known yet: the task is cancelled as soon as it is.
    let mut harness = legacy();
    let (call, request) = start(&mut harness, TaskRequest::followed(), &CallOptions::new());
    harness.pipe.engine().cancel(harness.now, call, None).expect("open");
    assert_eq!(harness.expect_done(call), Err(CallError::Cancelled));
    harness.assert_idle();
    harness.feed_message(&result_response(&request, json!({"task": legacy_state("working", json!({}))})));
    assert!(matches!(harness.expect_event(), Event::Diagnostic(Diagnostic::LateResponse(_))));
    assert_eq!(harness.expect_request("tasks/cancel")["params"], json!({"taskId": "t-9"}));
}

// covers: TASK-008
#[test]
fn call_before_the_connection_is_ready_asks_for_a_task() {
    let mut harness = ClientHarness::client(config(), mcp_tests::harness::Chunker::Whole);
    let (now, engine) = (harness.now, harness.pipe.engine());
    let call = engine
        .call_tool_as_task(now, "dredge", &json!({}), TaskRequest::followed(), &CallOptions::new())
        .expect("queued");
    let probe = harness.expect_request("server/discover");
    harness.feed_message(&error_response(&probe, -32601, "unknown", json!(null)));
    let initialize = harness.expect_request("initialize");
    let capabilities = json!({"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}});
    let result = mcp_tests::harness::build::initialize_result("2025-11-25", capabilities);
    harness.feed_message(&result_response(&initialize, result));
    harness.expect_ready();
    let sent = harness.take_sent();
    let request = &sent[1];
    assert_eq!(request["params"], json!({"name": "dredge", "arguments": {}, "task": {}}));
    harness.feed_message(&result_response(request, json!({"task": legacy_state("working", json!({}))})));
    expect_task(&mut harness, call, "working");
}
