//! Calls that a modern server runs as tasks.

use mcp_proto::client::{Event, TaskPolling, TaskRequest};
use mcp_proto::{CallError, CallOptions, Diagnostic, UseError, VersionSet};
use mcp_tests::harness::build::{error_response, notification, result_response};
use serde_json::json;

use super::{
    answer_poll, config, content, created, expect_task, followed_call, modern, modern_with, state, text,
    tool_call,
};
use crate::protocol::common::{client, limits, ms, secs};

// covers: TASK-101, TASK-103, TASK-105, TASK-111, TASK-112, TASK-114
#[test]
fn call_follows_its_task_to_the_result() {
    let mut harness = modern();
    let (call, request) = followed_call(&mut harness, &CallOptions::new());
    let declared = "io.modelcontextprotocol/clientCapabilities";
    assert_eq!(
        request["params"]["_meta"][declared]["extensions"],
        json!({"io.modelcontextprotocol/tasks": {}})
    );
    assert!(request["params"].get("task").is_none());
    harness.advance(ms(499));
    harness.assert_idle();
    harness.advance(ms(1));
    let poll = answer_poll(&mut harness, state("working", json!({"pollIntervalMs": 2_000})));
    assert!(poll["params"]["_meta"][declared]["extensions"]["io.modelcontextprotocol/tasks"].is_object());
    // The interval may change.
    harness.advance(ms(1_999));
    harness.assert_idle();
    harness.advance(ms(1));
    answer_poll(&mut harness, state("working", json!({"statusMessage": "half"})));
    assert_eq!(expect_task(&mut harness, call, "working").status_message.as_deref(), Some("half"));
    harness.advance(ms(500));
    answer_poll(&mut harness, state("completed", json!({"result": content()})));
    expect_task(&mut harness, call, "completed");
    assert_eq!(text(&harness.expect_done(call).expect("a result")), content());
    harness.advance(secs(100_000));
    harness.assert_idle();
}

// covers: TASK-105, TASK-113
#[test]
fn call_without_a_task_and_failed_tools_end_as_usual() {
    let mut harness = modern();
    let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
    let result = json!({"resultType": "complete", "content": []});
    harness.feed_message(&result_response(&request, result.clone()));
    assert_eq!(text(&harness.expect_done(call).expect("a result")), result);
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    harness.advance(ms(500));
    let failed = json!({"content": [], "isError": true});
    answer_poll(&mut harness, state("completed", json!({"result": failed})));
    expect_task(&mut harness, call, "completed");
    assert_eq!(text(&harness.expect_done(call).expect("a result")), failed);
}

// covers: TASK-106
#[test]
fn task_for_another_request_is_an_invalid_response() {
    let mut harness = modern();
    let (call, request) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
    harness.feed_message(&result_response(&request, created(json!({}))));
    let error = harness.expect_done(call).expect_err("no result");
    assert!(matches!(error, CallError::UnknownResultType(_)), "{error:?}");
    harness.advance(secs(60));
    harness.assert_idle();
    // Neither does a client that has not declared tasks take one.
    let mut harness = modern_with(client(VersionSet::ALL));
    let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
    harness.feed_message(&result_response(&request, created(json!({}))));
    let error = harness.expect_done(call).expect_err("no result");
    assert!(matches!(error, CallError::UnknownResultType(_)), "{error:?}");
    let (now, engine) = (harness.now, harness.pipe.engine());
    let refused =
        engine.call_tool_as_task(now, "a", &json!({}), TaskRequest::followed(), &CallOptions::new());
    assert!(matches!(refused, Err(UseError::NotDeclared(_))), "{refused:?}");
}

// covers: TASK-112
#[test]
fn failed_and_cancelled_tasks_fail_the_call() {
    let error = json!({"code": -32000, "message": "rust", "data": {"deep": true}});
    for (result, expected) in [
        (state("failed", json!({"error": error})), "rust (code -32000)"),
        (state("cancelled", json!({"statusMessage": "no boat"})), "the task was cancelled: no boat"),
        (state("cancelled", json!({})), "the task was cancelled"),
        (state("failed", json!({})), "a task that is failed has no `error`"),
        (state("completed", json!({})), "a task that is completed has no `result`"),
        (state("input_required", json!({})), "a task that is input_required has no `inputRequests`"),
        (state("done", json!({})), "`done` is no status of a task"),
        (state("working", json!({"taskId": "t-8"})), "the state is that of another task"),
        (state("working", json!({"taskId": 9})), "taskId"),
    ] {
        let mut harness = modern();
        let (call, _) = followed_call(&mut harness, &CallOptions::new());
        harness.advance(ms(500));
        answer_poll(&mut harness, result);
        let mut error = None;
        while error.is_none() {
            match harness.expect_event() {
                Event::Done { call: key, outcome, .. } if key == call => {
                    error = Some(outcome.expect_err("failed"))
                }
                Event::Task { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        let error = error.expect("an error").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

// covers: TASK-114
#[test]
fn poll_interval_of_the_server_is_bounded() {
    let config = config().task_polling(TaskPolling::new().listen_from(core::time::Duration::MAX));
    for (proposed, expected) in [
        (json!(0), ms(1_000)),
        (json!(1), ms(100)),
        (json!(90_000), ms(60_000)),
        (json!(u64::MAX / 2), ms(60_000)),
        (json!(-1), ms(1_000)),
        (json!(-1e300), ms(1_000)),
        (json!(1e300), ms(60_000)),
        (json!(250.7), ms(250)),
    ] {
        let mut harness = modern_with(config.clone());
        let (_, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
        harness.feed_message(&result_response(&request, created(json!({"pollIntervalMs": proposed}))));
        harness.expect_event();
        harness.advance(expected - ms(1));
        harness.assert_idle();
        harness.advance(ms(1));
        harness.expect_request("tasks/get");
    }
    // A missing one has the default of the configuration.
    let mut harness =
        modern_with(config.task_polling(TaskPolling::new().default_interval(secs(7)).listen_from(secs(8))));
    let (_, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
    let mut task = created(json!({}));
    task.as_object_mut().expect("an object").remove("pollIntervalMs");
    harness.feed_message(&result_response(&request, task));
    harness.expect_event();
    harness.advance(ms(6_999));
    harness.assert_idle();
    harness.advance(ms(1));
    harness.expect_request("tasks/get");
}

// covers: TASK-122, CANC-022
#[test]
fn cancelled_call_cancels_its_task() {
    let mut harness = modern();
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    harness.pipe.engine().cancel(harness.now, call, Some("enough")).expect("open");
    assert_eq!(harness.expect_done(call), Err(CallError::Cancelled));
    let cancel = harness.expect_request("tasks/cancel");
    assert_eq!(cancel["params"]["taskId"], "t-9");
    harness.feed_message(&result_response(&cancel, json!({"resultType": "complete"})));
    harness.advance(secs(3_600));
    harness.assert_idle();
}

// covers: TASK-122
#[test]
fn call_cancelled_during_a_poll_ends_once_and_gives_the_poll_up() {
    let mut harness = modern();
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    harness.advance(ms(500));
    let poll = harness.expect_request("tasks/get");
    harness.pipe.engine().cancel(harness.now, call, None).expect("open");
    assert_eq!(harness.expect_done(call), Err(CallError::Cancelled));
    let sent = harness.take_sent();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert_eq!(sent[0]["params"]["requestId"], poll["id"]);
    assert_eq!(sent[1]["method"], "tasks/cancel");
    // A refused cancellation is no matter.
    harness.feed_message(&error_response(&sent[1], -32602, "unknown", json!(null)));
    harness.feed_message(&result_response(&poll, state("completed", json!({"result": content()}))));
    assert!(matches!(harness.expect_event(), Event::Diagnostic(Diagnostic::LateResponse(_))));
    harness.assert_idle();
}

// covers: TASK-122
#[test]
fn task_that_is_created_after_its_call_ended_is_cancelled() {
    let mut harness = modern();
    let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
    harness.pipe.engine().cancel(harness.now, call, None).expect("open");
    assert_eq!(harness.expect_done(call), Err(CallError::Cancelled));
    assert_eq!(harness.expect_reply()["method"], "notifications/cancelled");
    harness.feed_message(&result_response(&request, created(json!({}))));
    assert!(matches!(harness.expect_event(), Event::Diagnostic(Diagnostic::LateResponse(_))));
    let cancel = harness.expect_request("tasks/cancel");
    assert_eq!(cancel["params"]["taskId"], "t-9");
    harness.feed_message(&result_response(&cancel, json!({"resultType": "complete"})));
    harness.assert_idle();
}

// covers: TASK-126
#[test]
fn notification_is_a_state_that_comes_before_the_next_poll() {
    let mut harness = modern();
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    harness
        .feed_message(&notification("notifications/tasks", state("working", json!({"statusMessage": "a"}))));
    expect_task(&mut harness, call, "working");
    harness.advance(ms(500));
    let poll = harness.expect_request("tasks/get");
    // While a poll is in flight.
    harness
        .feed_message(&notification("notifications/tasks", state("completed", json!({"result": content()}))));
    expect_task(&mut harness, call, "completed");
    assert_eq!(text(&harness.expect_done(call).expect("a result")), content());
    assert_eq!(harness.expect_reply()["params"]["requestId"], poll["id"]);
    // A task that no call follows is the application's matter.
    harness.feed_message(&notification("notifications/tasks", state("working", json!({}))));
    assert!(matches!(harness.expect_event(), Event::Notification(_)));
    harness.assert_idle();
}

#[test]
fn notification_that_is_not_complete_causes_a_poll() {
    let mut harness = modern();
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    harness.feed_message(&notification("notifications/tasks", state("completed", json!({}))));
    expect_task(&mut harness, call, "completed");
    // Such notifications do not make polls more frequent than the shortest interval.
    harness.feed_message(&notification("notifications/tasks", state("completed", json!({}))));
    harness.advance(ms(99));
    assert!(harness.take_sent().is_empty());
    harness.advance(ms(1));
    answer_poll(&mut harness, state("completed", json!({"result": content()})));
    harness.expect_done(call).expect("a result");
    // An older state that comes late ends nothing, and is not asked for again at once.
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    harness.feed_message(&notification("notifications/tasks", state("completed", json!({}))));
    expect_task(&mut harness, call, "completed");
    harness.advance(ms(100));
    answer_poll(&mut harness, state("working", json!({})));
    harness.advance(ms(499));
    harness.assert_idle();
    harness.advance(ms(1));
    answer_poll(&mut harness, state("completed", json!({"result": content()})));
    harness.expect_done(call).expect("a result");
    for status in ["failed", "input_required"] {
        let (call, _) = followed_call(&mut harness, &CallOptions::new());
        harness.feed_message(&notification("notifications/tasks", state(status, json!({}))));
        expect_task(&mut harness, call, status);
        harness.assert_idle();
        harness.pipe.engine().cancel(harness.now, call, None).expect("open");
        harness.expect_done(call).expect_err("cancelled");
        harness.take_sent();
    }
    // A faulty one is reported, and nothing else happens.
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    harness.feed_message(&notification("notifications/tasks", json!({"taskId": "t-9", "status": 7})));
    assert!(matches!(harness.expect_event(), Event::Diagnostic(Diagnostic::InvalidNotification(_))));
    harness.advance(ms(500));
    answer_poll(&mut harness, state("completed", json!({"result": content()})));
    expect_task(&mut harness, call, "completed");
    harness.expect_done(call).expect("a result");
}

// covers: TASK-110
#[test]
fn rounds_come_before_the_task_and_have_keys_of_their_own() {
    let mut harness = modern();
    let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
    let asked =
        json!({"resultType": "input_required", "inputRequests": {"a": super::form()}, "requestState": "s"});
    harness.feed_message(&result_response(&request, asked));
    let input = harness.expect_input();
    harness.answer(input.id, &super::accepted("east"));
    let retry = harness.expect_request("tools/call");
    harness.feed_message(&result_response(&retry, created(json!({}))));
    expect_task(&mut harness, call, "working");
    harness.advance(ms(500));
    // The same key asks something else now.
    answer_poll(&mut harness, state("input_required", json!({"inputRequests": {"a": super::form()}})));
    expect_task(&mut harness, call, "input_required");
    let input = harness.expect_input();
    assert_eq!((input.call, input.key.as_deref()), (Some(call), Some("a")));
    harness.answer(input.id, &super::accepted("west"));
    let update = harness.expect_request("tasks/update");
    assert_eq!(update["params"]["inputResponses"], json!({"a": super::accepted("west")}));
}

// covers: TASK-110
#[test]
fn rounds_before_a_task_leave_all_room_to_its_questions() {
    let mut harness = modern_with(config().limits(limits(|l| l.max_retained_bytes = 2_000)));
    let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
    let asked = json!({
        "resultType": "input_required", "inputRequests": {"a": super::form()}, "requestState": "s".repeat(1_500),
    });
    harness.feed_message(&result_response(&request, asked));
    let input = harness.expect_input();
    harness.answer(input.id, &super::accepted("east"));
    let retry = harness.expect_request("tools/call");
    harness.feed_message(&result_response(&retry, created(json!({}))));
    expect_task(&mut harness, call, "working");
    harness.advance(ms(500));
    let name = "b".repeat(1_500);
    answer_poll(&mut harness, state("input_required", json!({"inputRequests": {name: super::form()}})));
    expect_task(&mut harness, call, "input_required");
    assert_eq!(harness.expect_input().call, Some(call));
}

// covers: TASK-133
#[test]
fn state_with_the_type_of_a_new_task_is_read() {
    let mut harness = modern();
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    harness.advance(ms(500));
    answer_poll(&mut harness, state("completed", json!({"resultType": "task", "result": content()})));
    expect_task(&mut harness, call, "completed");
    harness.expect_done(call).expect("a result");
}

// covers: TASK-127
#[test]
fn task_has_no_progress() {
    let mut harness = modern();
    let (_, request) = followed_call(&mut harness, &CallOptions::new().with_progress());
    let token = &request["params"]["_meta"]["progressToken"];
    harness.feed_message(&notification(
        "notifications/progress",
        json!({"progressToken": token, "progress": 1}),
    ));
    assert!(matches!(harness.expect_event(), Event::Diagnostic(Diagnostic::UnknownProgress)));
}

// covers: TASK-125, TASK-126
#[test]
fn server_is_asked_for_notifications_if_polls_are_rare() {
    let acknowledge = |listen: &serde_json::Value| {
        let meta = json!({"io.modelcontextprotocol/subscriptionId": listen["id"]});
        notification(
            "notifications/subscriptions/acknowledged",
            json!({"notifications": {"taskIds": ["t-9"]}, "_meta": meta}),
        )
    };
    let start = |interval: u32| {
        let mut harness = modern();
        let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
        harness.feed_message(&result_response(&request, created(json!({"pollIntervalMs": interval}))));
        expect_task(&mut harness, call, "working");
        (harness, call)
    };
    let (mut harness, _) = start(4_999);
    harness.assert_idle();
    // The state comes by the stream, whose request then ends.
    let (mut harness, call) = start(30_000);
    let listen = harness.expect_request("subscriptions/listen");
    assert_eq!(listen["params"]["notifications"], json!({"taskIds": ["t-9"]}));
    harness.feed_message(&acknowledge(&listen));
    harness.advance(ms(100));
    harness.assert_idle();
    let mut completed = state("completed", json!({"result": content()}));
    completed["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": listen["id"]});
    harness.feed_message(&notification("notifications/tasks", completed));
    expect_task(&mut harness, call, "completed");
    harness.expect_done(call).expect("a result");
    let ended = harness.expect_reply();
    assert_eq!(
        (&ended["method"], &ended["params"]["requestId"]),
        (&json!("notifications/cancelled"), &listen["id"])
    );
    // The server refuses, ends the stream, or is silent: polls go on, and it is not asked again.
    for end in 0..4 {
        let (mut harness, call) = start(30_000);
        let listen = harness.expect_request("subscriptions/listen");
        match end {
            0 => harness.feed_message(&error_response(&listen, -32601, "none", json!(null))),
            1 => harness.feed_message(&result_response(&listen, json!({"resultType": "complete"}))),
            2 => {
                harness.feed_message(&acknowledge(&listen));
                harness.feed_message(&notification(
                    "notifications/cancelled",
                    json!({"requestId": listen["id"]}),
                ));
            }
            _ => {}
        }
        harness.assert_idle();
        harness.advance(secs(30));
        answer_poll(&mut harness, state("working", json!({"pollIntervalMs": 30_000})));
        harness.advance(secs(30));
        // The request that was never answered times out.
        let mut sent = harness.take_sent();
        assert_eq!(sent.len(), 1 + usize::from(end == 3), "{sent:?}");
        let poll = sent.swap_remove(0);
        assert_eq!(poll["method"], "tasks/get");
        harness.feed_message(&result_response(&poll, state("completed", json!({"result": content()}))));
        expect_task(&mut harness, call, "completed");
        harness.expect_done(call).expect("a result");
        harness.assert_idle();
    }
}
