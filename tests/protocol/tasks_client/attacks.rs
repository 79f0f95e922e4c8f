//! Servers that answer with ids of other tasks, repeat old states, ask without end, or do not answer.

use mcp_proto::client::{Event, InputTasks, TaskHandle, TaskPolling, TaskRequest};
use mcp_proto::pipe::Pipe as _;
use mcp_proto::{Anchor, CallError, CallKey, CallOptions, Capabilities, Capability, Diagnostic, Entropy};
use mcp_tests::harness::ClientHarness;
use mcp_tests::harness::build::{error_response, notification, result_response};
use serde_json::{Value, json};

use super::{
    DECLARED, accepted, answer_poll, config, content, created, expect_task, followed_call, form, legacy,
    legacy_state, legacy_with, modern, modern_with, state, text, tool_call,
};
use crate::protocol::common::{limits, ms, secs};

const RELATED: &str = "io.modelcontextprotocol/related-task";

fn tasks() -> Value {
    json!({"cancel": {}, "requests": {"tools": {"call": {}}}})
}

/// Starts a call at a server of 2025-11-25 that follows the task `t-9`.
fn legacy_call(harness: &mut ClientHarness) -> CallKey {
    let (now, engine) = (harness.now, harness.pipe.engine());
    let task = TaskRequest::followed();
    let call =
        engine.call_tool_as_task(now, "dredge", &json!({}), task, &CallOptions::new()).expect("a call");
    let request = harness.expect_request("tools/call");
    harness.feed_message(&result_response(&request, json!({"task": legacy_state("working", json!({}))})));
    expect_task(harness, call, "working");
    call
}

/// Starts a call of 2025-11-25 whose task waits for input, and returns the request for its result.
fn asking_legacy_call(harness: &mut ClientHarness) -> (CallKey, Value) {
    let call = legacy_call(harness);
    harness.advance(ms(500));
    answer_poll(harness, legacy_state("input_required", json!({})));
    expect_task(harness, call, "input_required");
    (call, harness.expect_request("tasks/result"))
}

fn asking(requests: Value) -> Value {
    let mut state = state("input_required", json!({}));
    state["inputRequests"] = requests;
    state
}

// ---- cancellation ----

// covers: TASK-122
#[test]
fn cancellation_that_fails_is_repeated_within_bounds() {
    let mut harness = modern();
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    harness.pipe.engine().cancel(harness.now, call, None).expect("open");
    assert_eq!(harness.expect_done(call), Err(CallError::Cancelled));
    for wait in [2, 4, 8, 16] {
        let cancel = harness.expect_request("tasks/cancel");
        assert_eq!(cancel["params"]["taskId"], "t-9");
        harness.feed_message(&error_response(&cancel, -32603, "busy", json!(null)));
        harness.advance(secs(wait) - ms(1));
        harness.assert_idle();
        harness.advance(ms(1));
    }
    let last = harness.expect_request("tasks/cancel");
    assert_eq!(harness.pipe.poll_timeout_without_trim(), Some(harness.now + secs(60)));
    harness.feed_message(&error_response(&last, -32603, "busy", json!(null)));
    assert_eq!(harness.pipe.poll_timeout_without_trim(), None);
    harness.advance(secs(3_600));
    harness.assert_idle();
    // Silence counts as a failure, and a confirmation ends it.
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    harness.pipe.engine().cancel(harness.now, call, None).expect("open");
    assert_eq!(harness.expect_done(call), Err(CallError::Cancelled));
    let lost = harness.expect_request("tasks/cancel");
    harness.advance(secs(60));
    assert_eq!(harness.expect_reply()["params"]["requestId"], lost["id"]);
    harness.advance(secs(2));
    let again = harness.expect_request("tasks/cancel");
    harness.feed_message(&result_response(&again, json!({"resultType": "complete"})));
    harness.advance(secs(3_600));
    harness.assert_idle();
}

/// Creates a task with this id by a call that is cancelled, and returns the request that cancels the task.
fn cancelled_task(harness: &mut ClientHarness, id: &str) -> Value {
    let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
    harness.feed_message(&result_response(&request, created(json!({"taskId": id}))));
    expect_task(harness, call, "working");
    harness.pipe.engine().cancel(harness.now, call, None).expect("open");
    harness.expect_done(call).expect_err("cancelled");
    let cancel = harness.expect_request("tasks/cancel");
    assert_eq!(cancel["params"]["taskId"], id);
    cancel
}

// covers: TASK-122
#[test]
fn each_cancellation_is_repeated_at_its_own_time() {
    let mut harness = modern();
    let first = cancelled_task(&mut harness, "t-1");
    harness.feed_message(&error_response(&first, -32603, "busy", json!(null)));
    harness.advance(secs(1));
    let second = cancelled_task(&mut harness, "t-2");
    harness.feed_message(&error_response(&second, -32603, "busy", json!(null)));
    let _in_flight = cancelled_task(&mut harness, "t-3");
    harness.advance(secs(1));
    assert_eq!(harness.expect_request("tasks/cancel")["params"]["taskId"], "t-1");
    harness.advance(secs(1));
    assert_eq!(harness.expect_request("tasks/cancel")["params"]["taskId"], "t-2");
    harness.assert_idle();
}

// covers: TASK-122
#[test]
fn as_many_cancellations_are_repeated_as_there_may_be_calls() {
    let mut harness = modern_with(config().limits(limits(|l| l.max_pending_calls = 2)));
    for id in ["t-1", "t-2", "t-3"] {
        let cancel = cancelled_task(&mut harness, id);
        harness.feed_message(&error_response(&cancel, -32603, "busy", json!(null)));
    }
    harness.advance(secs(2));
    let repeated: Vec<_> = harness.take_sent().iter().map(|sent| sent["params"]["taskId"].clone()).collect();
    assert_eq!(repeated, ["t-1", "t-2"]);
}

/// The task of another call is not that call's to end.
#[test]
fn late_task_that_another_call_follows_is_not_cancelled() {
    let mut harness = modern();
    let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
    harness.pipe.engine().cancel(harness.now, call, None).expect("open");
    harness.expect_done(call).expect_err("cancelled");
    harness.take_sent();
    followed_call(&mut harness, &CallOptions::new());
    harness.feed_message(&result_response(&request, created(json!({}))));
    assert!(matches!(harness.expect_event(), Event::Diagnostic(Diagnostic::LateResponse(_))));
    harness.assert_idle();
}

#[test]
fn cancellation_ends_with_the_connection() {
    let mut harness = modern();
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    harness.pipe.engine().cancel(harness.now, call, None).expect("open");
    harness.expect_done(call).expect_err("cancelled");
    let cancel = harness.expect_request("tasks/cancel");
    harness.feed_message(&error_response(&cancel, -32603, "busy", json!(null)));
    harness.eof();
    assert!(matches!(harness.expect_event(), Event::Closed(_)));
    harness.advance(secs(3_600));
    harness.assert_idle();
}

/// The answer may still create the task, which only its id can cancel.
// covers: CANC-009, TASK-028
#[test]
fn call_that_ends_before_its_task_frees_its_place_and_is_not_ended_twice() {
    let mut harness = legacy_with(config().limits(limits(|l| l.max_pending_calls = 4)), &tasks());
    for answered in [true, false] {
        let (now, engine) = (harness.now, harness.pipe.engine());
        let (task, options) = (TaskRequest::followed(), CallOptions::new().timeout(secs(10)).with_progress());
        let call = engine.call_tool_as_task(now, "dredge", &json!({}), task, &options).expect("a call");
        let request = harness.expect_request("tools/call");
        harness.advance(secs(10));
        assert_eq!(harness.expect_done(call), Err(CallError::TimedOut));
        assert_eq!(harness.pipe.engine().pending_calls(), 0);
        assert!(harness.pipe.engine().cancel(harness.now, call, None).is_err());
        let token = &request["params"]["_meta"]["progressToken"];
        let progress = json!({"progressToken": token, "progress": 1});
        harness.feed_message(&notification("notifications/progress", progress));
        assert!(matches!(harness.expect_event(), Event::Diagnostic(Diagnostic::UnknownProgress)));
        harness.assert_idle();
        if answered {
            harness.feed_message(&result_response(
                &request,
                json!({"task": legacy_state("working", json!({}))}),
            ));
            assert!(matches!(harness.expect_event(), Event::Diagnostic(Diagnostic::LateResponse(_))));
            let cancel = harness.expect_request("tasks/cancel");
            harness.feed_message(&result_response(&cancel, legacy_state("cancelled", json!({}))));
        }
        harness.advance(secs(10));
        harness.assert_idle();
    }
    // Many of them leave room for other calls.
    for _ in 0..20 {
        let (now, engine) = (harness.now, harness.pipe.engine());
        let call = engine
            .call_tool_as_task(now, "dredge", &json!({}), TaskRequest::followed(), &CallOptions::new())
            .expect("room");
        engine.cancel(now, call, None).expect("open");
        harness.expect_done(call).expect_err("cancelled");
        harness.take_sent();
    }
}

// ---- ids ----

// covers: TASK-108
#[test]
fn task_with_an_empty_id_or_that_of_another_task_fails_the_call() {
    let mut harness = modern();
    let (first, _) = followed_call(&mut harness, &CallOptions::new());
    for (id, expected) in [("", "empty"), ("t-9", "another task")] {
        let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
        harness.feed_message(&result_response(&request, created(json!({"taskId": id}))));
        let error = harness.expect_done(call).expect_err("no task").to_string();
        assert!(error.contains(expected), "{error}");
        // The task of the first call goes on.
        harness.assert_idle();
    }
    harness.advance(ms(500));
    answer_poll(&mut harness, state("completed", json!({"result": content()})));
    expect_task(&mut harness, first, "completed");
    harness.expect_done(first).expect("a result");
}

// covers: TASK-111
#[test]
fn wait_refuses_the_state_of_another_task() {
    for (mut harness, other) in [
        (modern(), state("completed", json!({"taskId": "t-8", "result": content()}))),
        (legacy(), legacy_state("completed", json!({"taskId": "t-8"}))),
    ] {
        let peer = harness.pipe.engine().peer().expect("ready").clone();
        let task = TaskHandle::new(&peer, "dredge", "t-9".into());
        let call = harness.pipe.engine().wait_task(harness.now, &task, &CallOptions::new()).expect("a call");
        answer_poll(&mut harness, other);
        let error = harness.expect_done(call).expect_err("no result").to_string();
        assert!(error.contains("another task"), "{error}");
        harness.advance(secs(600));
        harness.assert_idle();
    }
}

/// A wait has no other state than that of a call, so nothing of it is left behind.
#[test]
fn wait_repeats_its_first_poll_and_a_lost_one_is_over() {
    let mut harness = modern();
    let peer = harness.pipe.engine().peer().expect("ready").clone();
    let task = TaskHandle::new(&peer, "dredge", "t-9".into());
    let call = harness.pipe.engine().wait_task(harness.now, &task, &CallOptions::new()).expect("a call");
    let poll = harness.expect_request("tasks/get");
    harness.feed_message(&error_response(&poll, -32603, "busy", json!(null)));
    harness.advance(secs(2));
    answer_poll(&mut harness, state("completed", json!({"result": content()})));
    expect_task(&mut harness, call, "completed");
    assert_eq!(text(&harness.expect_done(call).expect("a result")), content());
    for code in [-32601, -32602] {
        let call = harness.pipe.engine().wait_task(harness.now, &task, &CallOptions::new()).expect("a call");
        let poll = harness.expect_request("tasks/get");
        harness.feed_message(&error_response(&poll, code, "no", json!(null)));
        harness.expect_done(call).expect_err("no result");
    }
    harness.advance(secs(3_600));
    harness.assert_idle();
    let left = format!("{:?}", harness.pipe.engine());
    assert!(left.contains("tasks: None"), "{left}");
}

// covers: TASK-023
#[test]
fn result_of_another_task_fails_the_call() {
    let mut harness = legacy();
    let call = legacy_call(&mut harness);
    harness.advance(ms(500));
    answer_poll(&mut harness, legacy_state("completed", json!({})));
    expect_task(&mut harness, call, "completed");
    let collect = harness.expect_request("tasks/result");
    let mut result = content();
    result["_meta"] = json!({RELATED: {"taskId": "t-8"}});
    harness.feed_message(&result_response(&collect, result));
    let error = harness.expect_done(call).expect_err("no result").to_string();
    assert!(error.contains("another task"), "{error}");
}

// covers: TASK-025, TASK-126
#[test]
fn notification_about_another_task_changes_nothing() {
    let long = "x".repeat(5_000);
    for id in ["t-8", "", "t-99", &long] {
        let mut harness = modern();
        let (call, _) = followed_call(&mut harness, &CallOptions::new());
        let done = state("completed", json!({"taskId": id, "result": content()}));
        harness.feed_message(&notification("notifications/tasks", done));
        assert!(matches!(harness.expect_event(), Event::Notification(_)));
        harness.advance(ms(499));
        harness.assert_idle();
        harness.advance(ms(1));
        answer_poll(&mut harness, state("completed", json!({"result": content()})));
        expect_task(&mut harness, call, "completed");
        harness.expect_done(call).expect("a result");
    }
}

// ---- old states ----

// covers: TASK-121, TASK-126
#[test]
fn old_state_withdraws_no_question() {
    let mut harness = modern();
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    harness.advance(ms(500));
    answer_poll(&mut harness, asking(json!({"a": form()})));
    expect_task(&mut harness, call, "input_required");
    let input = harness.expect_input();
    // A notification that was overtaken: the next poll decides, and it comes soon.
    harness.feed_message(&notification("notifications/tasks", state("working", json!({}))));
    expect_task(&mut harness, call, "working");
    harness.feed_message(&notification("notifications/tasks", asking(json!({}))));
    expect_task(&mut harness, call, "input_required");
    harness.assert_idle();
    harness.advance(ms(100));
    let poll = harness.expect_request("tasks/get");
    // A question in a notification overtakes the answer to this poll.
    harness.feed_message(&notification("notifications/tasks", asking(json!({"a": form(), "b": form()}))));
    let second = harness.expect_input();
    harness.feed_message(&result_response(&poll, state("working", json!({}))));
    expect_task(&mut harness, call, "working");
    harness.assert_idle();
    // Both questions are open, and each was asked once.
    for (id, key) in [(input.id, "a"), (second.id, "b")] {
        harness.answer(id, &accepted(key));
        let update = harness.expect_request("tasks/update");
        assert_eq!(update["params"]["inputResponses"], json!({key: accepted(key)}));
        harness.feed_message(&result_response(&update, json!({"resultType": "complete"})));
    }
    harness.advance(ms(500));
    answer_poll(&mut harness, state("completed", json!({"result": content()})));
    expect_task(&mut harness, call, "completed");
    harness.expect_done(call).expect("a result");
}

// covers: TASK-025, TASK-126
#[test]
fn notifications_do_not_put_polls_off() {
    for mut harness in [modern(), legacy()] {
        let is_modern = harness.pipe.engine().peer().expect("ready").version.as_str() == "2026-07-28";
        let method = if is_modern { "notifications/tasks" } else { "notifications/tasks/status" };
        let working =
            if is_modern { state("working", json!({})) } else { legacy_state("working", json!({})) };
        if is_modern {
            followed_call(&mut harness, &CallOptions::new());
        } else {
            legacy_call(&mut harness);
        }
        for _ in 0..5 {
            harness.advance(ms(99));
            harness.feed_message(&notification(method, working.clone()));
            harness.assert_idle();
        }
        harness.advance(ms(5));
        harness.expect_request("tasks/get");
    }
}

// ---- errors and bounds ----

// covers: TASK-019
#[test]
fn internal_error_of_a_failed_task_ends_the_call_at_once() {
    let mut harness = legacy();
    let call = legacy_call(&mut harness);
    harness.advance(ms(500));
    answer_poll(&mut harness, legacy_state("failed", json!({})));
    expect_task(&mut harness, call, "failed");
    let collect = harness.expect_request("tasks/result");
    harness.feed_message(&error_response(&collect, -32603, "rust", json!(null)));
    let error = harness.expect_done(call).expect_err("no result");
    assert!(matches!(&error, CallError::Rpc(error) if error.message == "rust"), "{error:?}");
    // On a request that waited for the result, too.
    let (call, collect) = asking_legacy_call(&mut harness);
    harness.feed_message(&error_response(&collect, -32603, "rust", json!(null)));
    answer_poll(&mut harness, legacy_state("failed", json!({})));
    expect_task(&mut harness, call, "failed");
    let error = harness.expect_done(call).expect_err("no result");
    assert!(matches!(&error, CallError::Rpc(error) if error.message == "rust"), "{error:?}");
    harness.advance(secs(3_600));
    harness.assert_idle();
}

// covers: TASK-020, TASK-022
#[test]
fn legacy_task_that_asks_without_end_is_ended() {
    task_asks_without_end(false, false);
}

/// The wish for a task is ignored.
// covers: TASK-010, TASK-020, TASK-022
#[test]
fn legacy_task_that_asks_a_client_without_tasks_for_them_without_end_is_ended() {
    task_asks_without_end(false, true);
}

/// Its questions may be tasks of the client.
// covers: TASK-009, TASK-020, TASK-022
#[test]
fn legacy_task_that_asks_by_tasks_without_end_is_ended() {
    task_asks_without_end(true, true);
}

fn task_asks_without_end(hosted: bool, wants_tasks: bool) {
    let config = config().limits(limits(|l| l.max_input_rounds = 3));
    let config = if hosted {
        config.input_tasks(InputTasks::new(Entropy::new([4; 32], 0), Anchor::default()))
    } else {
        // It declares more than it does.
        let declared = DECLARED.into_iter().fold(Capabilities::new(), Capabilities::with);
        config.capabilities(declared.with(Capability::ElicitationTasks))
    };
    let mut harness = legacy_with(config, &tasks());
    let (call, _) = asking_legacy_call(&mut harness);
    let mut id = 0;
    let mut ask = |harness: &mut ClientHarness| {
        id += 1;
        let mut ask = form();
        (ask["jsonrpc"], ask["id"]) = (json!("2.0"), json!(id));
        ask["params"]["_meta"] = json!({RELATED: {"taskId": "t-9"}});
        if wants_tasks {
            ask["params"]["task"] = json!({});
        }
        harness.feed_message(&ask);
    };
    for _ in 0..3 {
        // Questions at the same time are one round.
        let inputs = [(); 2].map(|()| {
            ask(&mut harness);
            if hosted {
                assert_eq!(harness.expect_reply()["result"]["task"]["status"], "working");
            }
            harness.expect_input()
        });
        for input in inputs {
            assert_eq!(input.call, Some(call));
            harness.answer(input.id, &accepted("east"));
            harness.expect_reply();
        }
    }
    ask(&mut harness);
    assert_eq!(harness.expect_done(call), Err(CallError::TooManyRounds { limit: 3 }));
    let sent = harness.take_sent();
    assert!(sent.iter().any(|message| message["error"]["code"] == -32603), "{sent:?}");
    assert!(sent.iter().any(|message| message["method"] == "tasks/cancel"), "{sent:?}");
    // Questions of other tasks are the application's matter.
    let mut other = form();
    (other["jsonrpc"], other["id"]) = (json!("2.0"), json!("other"));
    other["params"]["_meta"] = json!({RELATED: {"taskId": "t-8"}});
    harness.feed_message(&other);
    assert_eq!(harness.expect_input().call, None);
}

/// Requests for results that stay open leave room for polls.
// covers: TASK-020
#[test]
fn open_requests_for_results_are_bounded() {
    let config = config().limits(limits(|l| l.max_pending_calls = 4));
    let mut harness = legacy_with(config.task_polling(TaskPolling::new()), &tasks());
    let calls = [(); 4].map(|()| {
        let (now, engine) = (harness.now, harness.pipe.engine());
        let task = TaskRequest::followed();
        let call =
            engine.call_tool_as_task(now, "dredge", &json!({}), task, &CallOptions::new()).expect("a call");
        (call, harness.expect_request("tools/call"))
    });
    for (n, (call, request)) in calls.iter().enumerate() {
        let task = legacy_state("input_required", json!({"taskId": format!("t-{n}")}));
        harness.feed_message(&result_response(request, json!({"task": task})));
        expect_task(&mut harness, *call, "input_required");
        // Beside four calls there is room for two requests that wait.
        let sent = harness.take_sent();
        assert_eq!(sent.len(), usize::from(n < 2), "{n}: {sent:?}");
    }
    harness.advance(ms(500));
    let polls = harness.take_sent();
    assert!(polls.iter().all(|poll| poll["method"] == "tasks/get") && !polls.is_empty(), "{polls:?}");
}

// covers: TASK-131
#[test]
fn debug_output_has_neither_ids_nor_answers() {
    let secret = "t-secret-77";
    let mut harness = modern_with(config());
    let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
    harness.feed_message(&result_response(&request, created(json!({"taskId": secret}))));
    expect_task(&mut harness, call, "working");
    harness.advance(ms(500));
    let poll = harness.expect_request("tasks/get");
    let mut asked = asking(json!({"a": form()}));
    asked["taskId"] = json!(secret);
    harness.feed_message(&result_response(&poll, asked));
    expect_task(&mut harness, call, "input_required");
    let input = harness.expect_input();
    harness.answer(input.id, &accepted("the-answer-of-the-user"));
    harness.expect_request("tasks/update");
    let check = |harness: &mut ClientHarness| {
        let text = format!("{:?}", harness.pipe.engine());
        assert!(!text.contains(secret) && !text.contains("the-answer-of-the-user"), "{text}");
        // Bytes would be printed as numbers.
        let bytes = format!("{:?}", b"the-answer-of-the-user");
        assert!(!text.contains(bytes.trim_matches(['[', ']'])), "{text}");
        text
    };
    assert!(check(&mut harness).contains("FollowedTask { status: InputRequired, questions: 1, .. }"));
    harness.pipe.engine().cancel(harness.now, call, None).expect("open");
    harness.expect_done(call).expect_err("cancelled");
    harness.take_sent();
    assert!(check(&mut harness).contains("Cancellation"));
    let peer = harness.pipe.engine().peer().expect("ready").clone();
    let handle = TaskHandle::new(&peer, "dredge", secret.into());
    assert!(!format!("{handle:?}").contains(secret));
}
