//! Questions that the server asks as tasks of the client.

use core::time::Duration;

use mcp_proto::server::{Call, Event, InputRequired};
use mcp_proto::{CallError, Version, VersionSet};
use mcp_tests::harness::build::{error_response, legacy_request, notification, result_response, to_value};
use mcp_tests::harness::{Chunker, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use super::{accepted, schema, with_related};
use crate::protocol::common::{ms, secs, server};

/// Capabilities of a client that hosts tasks for elicitation and sampling.
pub(super) fn hosting() -> Value {
    let requests = json!({"elicitation": {"create": {}}, "sampling": {"createMessage": {}}});
    json!({"elicitation": {}, "sampling": {}, "tasks": {"list": {}, "cancel": {}, "requests": requests}})
}

pub(super) fn open_with(capabilities: &Value, version: Version, cut: Chunker) -> ServerHarness {
    let mut harness = ServerHarness::server(server(VersionSet::ALL), cut);
    harness.open_session_with(version, capabilities);
    harness
}

pub(super) fn open() -> ServerHarness {
    open_with(&hosting(), Version::V2025_11_25, Chunker::Whole)
}

/// Asks as a handler does that wants its questions to run as tasks.
pub(super) fn ask(harness: &mut ServerHarness, call: &Call, ttl: Option<Duration>) {
    let mut input = InputRequired::new();
    input.ask_as_tasks(ttl);
    assert!(input.elicit(call, "basin", "Which basin?", schema()).is_err(), "there is no answer yet");
    harness.pipe.engine().require_input(harness.now, call, &input).expect("the client answers forms");
    harness.pump();
}

pub(super) fn call(harness: &mut ServerHarness, id: i64) -> Call {
    harness.expect_call_for(&legacy_request(id, "tools/call", json!({"name": "dredge", "arguments": {}})))
}

/// Returns a state of the task `q-1`.
pub(super) fn state(status: &str, more: &Value) -> Value {
    let mut state = json!({
        "taskId": "q-1", "status": status, "createdAt": "2025-11-26T09:00:00Z",
        "lastUpdatedAt": "2025-11-26T09:00:05Z", "ttl": 3_600_000, "pollInterval": 500,
    });
    for (name, value) in more.as_object().expect("members") {
        state[name] = value.clone();
    }
    state
}

/// Takes the only message, a request of `method` about the task.
pub(super) fn expect_about(harness: &mut ServerHarness, method: &str) -> Value {
    let request = harness.expect_reply();
    assert_eq!((&request["method"], &request["params"]), (&json!(method), &json!({"taskId": "q-1"})));
    request
}

/// Asks a question that becomes the task `q-1`. Returns its request.
pub(super) fn asked(harness: &mut ServerHarness) -> Value {
    let call = call(harness, 1);
    ask(harness, &call, None);
    let question = harness.expect_reply();
    assert_eq!(question["method"], "elicitation/create");
    harness.feed_message(&result_response(&question, json!({"task": state("working", &json!({}))})));
    harness.assert_idle();
    question
}

/// Takes the next delivery of the call, and what it got for its question.
pub(super) fn expect_answer(harness: &mut ServerHarness) -> (Call, Result<Value, CallError>) {
    let call = harness.expect_call();
    let answer = call.answer("basin").expect("an outcome").map(to_value).map_err(CallError::clone);
    (call, answer)
}

// covers: TASK-003, TASK-008, TASK-009, TASK-017, TASK-018, TASK-019
#[test]
fn answer_of_a_task_is_collected_as_if_it_came_at_once() {
    for_each_chunker(|cut| {
        let mut harness = open_with(&hosting(), Version::V2025_11_25, cut);
        let call = call(&mut harness, 1);
        ask(&mut harness, &call, Some(secs(60)));
        let question = harness.expect_reply();
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(question["params"]["task"], json!({"ttl": 60_000}));
        assert_eq!(question["params"]["message"], "Which basin?");
        harness.feed_message(&result_response(&question, json!({"task": state("working", &json!({}))})));
        for _ in 0..3 {
            harness.advance(ms(499));
            harness.assert_idle();
            harness.advance(ms(1));
            let poll = expect_about(&mut harness, "tasks/get");
            harness.feed_message(&result_response(&poll, state("working", &json!({}))));
        }
        harness.advance(ms(500));
        let poll = expect_about(&mut harness, "tasks/get");
        harness.feed_message(&result_response(&poll, state("completed", &json!({}))));
        let collect = expect_about(&mut harness, "tasks/result");
        let answer = with_related(&accepted(), &json!("q-1"));
        harness.feed_message(&result_response(&collect, answer.clone()));
        let (again, seen) = expect_answer(&mut harness);
        assert_eq!((again.attempt(), seen), (1, Ok(answer)));
        assert_eq!(harness.complete(again.id(), &json!({"content": []}))["id"], 1);
        harness.advance(secs(600));
        harness.assert_idle();
        harness.transcript
    });
}

// covers: TASK-003, TASK-039
#[test]
fn client_that_hosts_no_tasks_is_asked_plainly() {
    let only_sampling =
        json!({"elicitation": {}, "tasks": {"requests": {"sampling": {"createMessage": {}}}}});
    let odd = json!({"elicitation": {}, "tasks": {"requests": {"elicitation": {"create": true}}}});
    for (capabilities, version) in [
        (json!({"elicitation": {}}), Version::V2025_11_25),
        (json!({"elicitation": {}, "tasks": {}}), Version::V2025_11_25),
        (only_sampling, Version::V2025_11_25),
        (odd, Version::V2025_11_25),
        (hosting(), Version::V2025_06_18),
    ] {
        let mut harness = open_with(&capabilities, version, Chunker::Whole);
        let call = call(&mut harness, 1);
        ask(&mut harness, &call, None);
        let question = harness.expect_reply();
        assert!(question["params"].get("task").is_none(), "{question}");
        harness.feed_message(&result_response(&question, accepted()));
        assert_eq!(expect_answer(&mut harness).1, Ok(accepted()), "{capabilities}");
    }
}

// covers: TASK-010
#[test]
fn client_that_answers_at_once_in_spite_of_the_task_is_understood() {
    let mut harness = open();
    let call = call(&mut harness, 1);
    ask(&mut harness, &call, None);
    let question = harness.expect_reply();
    // Without a time of its own, the task has to live as long as the answer is waited for.
    let timeout = mcp_proto::Limits::default().input_timeout.as_millis();
    assert_eq!(question["params"]["task"], json!({"ttl": u64::try_from(timeout).expect("small")}));
    harness.feed_message(&result_response(&question, accepted()));
    assert_eq!(expect_answer(&mut harness).1, Ok(accepted()));
    harness.advance(secs(600));
    harness.assert_idle();
}

#[test]
fn refused_question_that_never_became_a_task_gives_its_error() {
    let mut harness = open();
    let call = call(&mut harness, 1);
    ask(&mut harness, &call, None);
    let question = harness.expect_reply();
    harness.feed_message(&error_response(&question, -32603, "too many tasks", Value::Null));
    let (_, seen) = expect_answer(&mut harness);
    assert!(matches!(seen, Err(CallError::Rpc(error)) if error.code == -32603));
}

// covers: TASK-021
#[test]
fn task_that_is_over_at_once_or_wants_input_is_collected_without_polls() {
    for status in ["completed", "input_required"] {
        let mut harness = open();
        let call = call(&mut harness, 1);
        ask(&mut harness, &call, None);
        let question = harness.expect_reply();
        harness.feed_message(&result_response(&question, json!({"task": state(status, &json!({}))})));
        let collect = expect_about(&mut harness, "tasks/result");
        // One that is blocked has no timeout of its own.
        harness.advance(secs(if status == "completed" { 5 } else { 250 }));
        harness.assert_idle();
        harness.feed_message(&result_response(&collect, accepted()));
        assert_eq!(expect_answer(&mut harness).1, Ok(accepted()), "{status}");
    }
}

// covers: TASK-025
#[test]
fn notification_of_the_end_leads_to_one_poll_and_others_are_the_applications() {
    let mut harness = open();
    asked(&mut harness);
    let told = |id: &str, status: &str| {
        let mut told = state(status, &json!({}));
        told["taskId"] = json!(id);
        notification("notifications/tasks/status", told)
    };
    harness.feed_message(&told("q-2", "completed"));
    assert!(matches!(harness.expect_event(), Event::Notification(_)));
    harness.feed_message(&told("q-1", "working"));
    harness.assert_idle();
    harness.feed_message(&told("q-1", "completed"));
    // The state is asked for: a notification proves nothing.
    let poll = expect_about(&mut harness, "tasks/get");
    harness.feed_message(&told("q-1", "completed"));
    harness.feed_message(&result_response(&poll, state("working", &json!({}))));
    for _ in 0..100 {
        harness.feed_message(&told("q-1", "completed"));
    }
    harness.assert_idle();
    harness.advance(ms(500));
    let poll = expect_about(&mut harness, "tasks/get");
    harness.feed_message(&result_response(&poll, state("completed", &json!({}))));
    expect_about(&mut harness, "tasks/result");
}

// covers: TASK-028, CANC-009, CANC-010
#[test]
fn cancelled_call_cancels_the_task_of_its_question() {
    // The request for the state is in flight, or not.
    for polls in [false, true] {
        let mut harness = open();
        asked(&mut harness);
        let poll = polls.then(|| {
            harness.advance(ms(500));
            expect_about(&mut harness, "tasks/get")
        });
        harness.feed_message(&notification("notifications/cancelled", json!({"requestId": 1})));
        let mut sent = harness.take_sent();
        if let Some(poll) = &poll {
            let dropped = sent.remove(0);
            assert_eq!(dropped["method"], "notifications/cancelled");
            assert_eq!(dropped["params"]["requestId"], poll["id"]);
        }
        assert_eq!(sent.len(), 1, "{sent:?}");
        assert_eq!(
            (&sent[0]["method"], &sent[0]["params"]),
            (&json!("tasks/cancel"), &json!({"taskId": "q-1"}))
        );
        harness.feed_message(&result_response(&sent[0], state("cancelled", &json!({}))));
        harness.assert_idle();
        assert_eq!(harness.pipe.engine().live_calls(), 0);
        harness.advance(secs(600));
        harness.assert_idle();
    }
}

// covers: CANC-009, TASK-028
#[test]
fn task_that_is_created_after_the_end_of_its_call_is_cancelled() {
    let mut harness = open();
    let call = call(&mut harness, 1);
    ask(&mut harness, &call, None);
    let question = harness.expect_reply();
    harness.feed_message(&notification("notifications/cancelled", json!({"requestId": 1})));
    // No notification cancels a request that is to become a task.
    harness.assert_idle();
    harness.feed_message(&result_response(&question, json!({"task": state("working", &json!({}))})));
    let cancel = expect_about(&mut harness, "tasks/cancel");
    harness.expect_diagnostic();
    harness.feed_message(&error_response(&cancel, -32602, "the task has already ended", Value::Null));
    harness.assert_idle();
}

#[test]
fn question_that_is_withdrawn_by_the_application_cancels_its_task() {
    let mut harness = open();
    let call = call(&mut harness, 1);
    let mut input = InputRequired::new();
    input.ask_as_tasks(None);
    assert!(input.elicit(&call, "basin", "Which basin?", schema()).is_err());
    input.set_state(*b"tide 7");
    harness.pipe.engine().require_input(harness.now, &call, &input).expect("room");
    let question = harness.expect_reply();
    harness.feed_message(&result_response(&question, json!({"task": state("working", &json!({}))})));
    assert!(harness.pipe.engine().withdraw_input(harness.now, b"tide 7", Some("ebb")));
    expect_about(&mut harness, "tasks/cancel");
    assert_eq!(expect_answer(&mut harness).1, Err(CallError::Cancelled));
}

#[test]
fn end_of_the_connection_ends_the_question() {
    for polls in [false, true] {
        let mut harness = open();
        asked(&mut harness);
        if polls {
            harness.advance(ms(500));
            expect_about(&mut harness, "tasks/get");
        }
        harness.eof();
        let sent = harness.take_sent();
        assert!(sent.iter().all(|message| message["method"] != "tasks/cancel"), "{sent:?}");
        assert_eq!(harness.pipe.engine().live_calls(), 0);
        let events = harness.take_event_texts();
        assert!(!events.is_empty() && !events.iter().any(|event| event.starts_with("call")), "{events:?}");
    }
}

#[test]
fn debug_of_the_engine_shows_no_id_of_a_task() {
    let mut harness = open();
    let call = call(&mut harness, 1);
    ask(&mut harness, &call, None);
    let question = harness.expect_reply();
    let task = state("working", &json!({"taskId": "secret-of-the-harbour"}));
    harness.feed_message(&result_response(&question, json!({"task": task})));
    assert!(!format!("{:?}", harness.pipe.engine()).contains("secret"));
}
