//! Tasks that vanish, expire, or whose server does not answer.

use mcp_proto::client::{Event, TaskPolling};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallError, CallOptions, Fault};
use mcp_tests::harness::build::{error_response, notification, result_response};
use serde_json::json;

use super::{
    answer_poll, config, content, created, expect_task, followed_call, form, modern, modern_with, state,
    text, tool_call,
};
use crate::protocol::common::{limits, ms, secs};

// covers: TASK-124
#[test]
fn vanished_task_fails_the_call_and_is_not_cancelled() {
    let mut harness = modern();
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    harness.advance(ms(500));
    let poll = harness.expect_request("tasks/get");
    harness.feed_message(&error_response(&poll, -32602, "no such task", json!(null)));
    let error = harness.expect_done(call).expect_err("no result");
    assert!(matches!(&error, CallError::TaskLost(error) if error.code == -32602), "{error:?}");
    harness.advance(secs(600));
    harness.assert_idle();
}

#[test]
fn internal_errors_and_lost_polls_are_repeated_with_growing_pauses() {
    let mut harness = modern();
    let (call, _) = followed_call(&mut harness, &CallOptions::new().timeout(secs(10)));
    let mut wait = ms(500);
    for _ in 0..4 {
        harness.advance(wait - ms(1));
        harness.assert_nothing_sent();
        harness.advance(ms(1));
        let poll = harness.expect_request("tasks/get");
        harness.feed_message(&error_response(&poll, -32603, "busy", json!(null)));
        wait *= 2;
    }
    harness.advance(wait);
    answer_poll(&mut harness, state("working", json!({})));
    // The count starts again, and silence counts as a failure.
    harness.advance(ms(500));
    let poll = harness.expect_request("tasks/get");
    harness.advance(secs(10));
    let cancelled = harness.expect_reply();
    assert_eq!(cancelled["params"]["requestId"], poll["id"]);
    harness.advance(ms(1_000));
    answer_poll(&mut harness, state("completed", json!({"result": content()})));
    expect_task(&mut harness, call, "completed");
    assert_eq!(text(&harness.expect_done(call).expect("a result")), content());
}

#[test]
fn too_many_failed_polls_fail_the_call_and_cancel_the_task() {
    let mut harness = modern_with(config().task_polling(TaskPolling::new().max_failures(2)));
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    for wait in [500, 1_000] {
        harness.advance(ms(wait));
        let poll = harness.expect_request("tasks/get");
        harness.feed_message(&error_response(&poll, -32603, "busy", json!(null)));
    }
    let error = harness.expect_done(call).expect_err("no result");
    assert!(matches!(&error, CallError::Rpc(error) if error.code == -32603), "{error:?}");
    assert_eq!(harness.expect_request("tasks/cancel")["params"]["taskId"], "t-9");
}

#[test]
fn other_errors_of_a_poll_end_the_call_at_once() {
    let mut harness = modern();
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    harness.advance(ms(500));
    let poll = harness.expect_request("tasks/get");
    harness.feed_message(&error_response(&poll, -32601, "no tasks", json!(null)));
    let error = harness.expect_done(call).expect_err("no result");
    assert!(matches!(&error, CallError::Rpc(error) if error.code == -32601), "{error:?}");
    harness.expect_request("tasks/cancel");
    harness.advance(ms(50_000));
    harness.assert_idle();
}

// covers: TASK-116
#[test]
fn task_expires_if_its_ttl_passes_without_progress() {
    let mut harness = modern();
    let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
    harness
        .feed_message(&result_response(&request, created(json!({"ttlMs": 1_200, "pollIntervalMs": 1_000}))));
    expect_task(&mut harness, call, "working");
    let members = |at: &str| json!({"ttlMs": 1_200, "pollIntervalMs": 1_000, "lastUpdatedAt": at});
    for at in ["a", "b"] {
        harness.advance(ms(1_000));
        // Progress can be seen, so the task is usable although its time has passed.
        answer_poll(&mut harness, state("working", members(at)));
    }
    harness.advance(ms(1_000));
    answer_poll(&mut harness, state("working", members("b")));
    assert_eq!(harness.expect_done(call), Err(CallError::TaskExpired));
    assert_eq!(harness.expect_request("tasks/cancel")["params"]["taskId"], "t-9");
}

// covers: TIME-006
#[test]
fn total_timeout_applies_to_the_task_and_the_default_one_does_not() {
    let mut harness = modern();
    let (call, _) = followed_call(&mut harness, &CallOptions::new().total_timeout(secs(2)));
    for _ in 0..3 {
        harness.advance(ms(500));
        answer_poll(&mut harness, state("working", json!({})));
    }
    harness.advance(ms(500));
    assert_eq!(harness.expect_done(call), Err(CallError::TotalTimedOut));
    assert_eq!(harness.expect_request("tasks/cancel")["params"]["taskId"], "t-9");
    // Without it, `max_wait` bounds the call.
    let polling =
        TaskPolling::new().max_wait(secs(10_000)).interval_range(secs(60), secs(60)).listen_from(secs(61));
    let mut harness =
        modern_with(config().task_polling(polling).limits(limits(|l| l.call_total_timeout = secs(5))));
    let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
    harness.feed_message(&result_response(&request, created(json!({"ttlMs": null}))));
    expect_task(&mut harness, call, "working");
    for _ in 0..166 {
        harness.advance(secs(60));
        answer_poll(&mut harness, state("working", json!({"ttlMs": null})));
    }
    harness.advance(secs(40));
    assert_eq!(harness.expect_done(call), Err(CallError::TotalTimedOut));
}

#[test]
fn end_of_the_connection_ends_the_call_and_not_the_task() {
    let mut harness = modern();
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    harness.advance(ms(500));
    harness.expect_request("tasks/get");
    harness.eof();
    assert_eq!(harness.expect_done(call), Err(CallError::Closed(Fault::Eof)));
    assert!(matches!(harness.expect_event(), Event::Closed(Fault::Eof)));
    harness.assert_idle();
}

// covers: TASK-108
#[test]
fn task_that_is_not_valid_fails_the_call() {
    for (members, expected) in [
        (json!({"taskId": null}), "taskId"),
        (json!({"taskId": "x".repeat(1_025)}), "longer than 1024 bytes"),
        (json!({"status": "started"}), "`started` is no status"),
        (json!({"pollIntervalMs": "soon"}), "pollIntervalMs"),
        (json!({"ttlMs": -1}), "ttlMs"),
        (json!({"ttlMs": "long"}), "ttlMs"),
    ] {
        let mut harness = modern();
        let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
        harness.feed_message(&result_response(&request, created(members)));
        let error = harness.expect_done(call).expect_err("no result").to_string();
        assert!(error.contains("not valid") && error.contains(expected), "{error}");
        harness.take_sent();
        harness.advance(secs(600));
        assert!(harness.has_no_events());
    }
}

/// Each of many calls is polled, although the table of calls is full.
#[test]
fn polls_have_room_when_all_calls_are_followed() {
    let mut harness = modern_with(config().limits(limits(|l| l.max_pending_calls = 4)));
    let calls: Vec<_> = (0..4)
        .map(|n| {
            let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
            let id = format!("t-{n}");
            harness.feed_message(&result_response(&request, created(json!({"taskId": id}))));
            expect_task(&mut harness, call, "working");
            call
        })
        .collect();
    harness.advance(ms(500));
    let polls = harness.take_sent();
    assert_eq!(polls.len(), 4, "{polls:?}");
    for (poll, call) in polls.iter().zip(calls) {
        let done = state("completed", json!({"taskId": poll["params"]["taskId"], "result": content()}));
        harness.feed_message(&result_response(poll, done));
        expect_task(&mut harness, call, "completed");
        harness.expect_done(call).expect("a result");
    }
}

/// Calls that follow no task have deadlines of their own.
#[test]
fn round_beside_a_task_has_its_total_time() {
    let mut harness = modern();
    followed_call(&mut harness, &CallOptions::new().total_timeout(secs(900)));
    let options = CallOptions::new().total_timeout(ms(400));
    let (call, request) = harness.start_call("tools/call", &tool_call(), &options);
    let asked = json!({"resultType": "input_required", "inputRequests": {"a": form()}, "requestState": "s"});
    harness.feed_message(&result_response(&request, asked));
    let input = harness.expect_input();
    harness.advance(ms(400));
    harness.expect_input_withdrawn(input.id);
    assert_eq!(harness.expect_done(call), Err(CallError::TotalTimedOut));
}

/// Calls that follow no task are cancelled by a notification.
#[test]
fn call_beside_a_task_is_cancelled_as_usual() {
    let mut harness = modern();
    followed_call(&mut harness, &CallOptions::new());
    let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
    harness.pipe.engine().cancel(harness.now, call, None).expect("open");
    assert_eq!(harness.expect_done(call), Err(CallError::Cancelled));
    let sent = harness.expect_reply();
    assert_eq!(
        (&sent["method"], &sent["params"]["requestId"]),
        (&json!("notifications/cancelled"), &request["id"])
    );
}

#[test]
fn subscription_beside_a_task_is_acknowledged_to_the_application() {
    let mut harness = modern();
    followed_call(&mut harness, &CallOptions::new());
    let subscription = harness.subscribe(&SubscriptionFilter::new().tools_list_changed(true));
    let listen = harness.expect_request("subscriptions/listen");
    let meta = json!({"io.modelcontextprotocol/subscriptionId": listen["id"]});
    let honoured = json!({"_meta": meta, "notifications": {"toolsListChanged": true}});
    harness.feed_message(&notification("notifications/subscriptions/acknowledged", honoured));
    assert_eq!(harness.expect_subscribed(subscription).tools_list_changed, Some(true));
}
