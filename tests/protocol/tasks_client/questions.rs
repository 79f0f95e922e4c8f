//! Input requests of tasks of 2026-07-28.

use mcp_proto::client::{Input, TaskHandle};
use mcp_proto::{CallError, CallKey, CallOptions, RpcError, UseError};
use mcp_tests::harness::ClientHarness;
use mcp_tests::harness::build::{error_response, result_response};
use serde_json::{Value, json};

use super::{
    accepted, answer_poll, config, content, created, expect_task, followed_call, form, modern, modern_with,
    state, text, tool_call,
};
use crate::protocol::common::{limits, ms, secs};

fn asking(requests: Value) -> Value {
    let mut state = state("input_required", json!({}));
    state["inputRequests"] = requests;
    state
}

/// Starts a call whose task asks the questions `a` and `b`.
fn call_with_questions(harness: &mut ClientHarness) -> (CallKey, Vec<Input>) {
    let (call, _) = followed_call(harness, &CallOptions::new());
    harness.advance(ms(500));
    answer_poll(harness, asking(json!({"a": form(), "b": {"method": "roots/list"}})));
    expect_task(harness, call, "input_required");
    let inputs = vec![harness.expect_input(), harness.expect_input()];
    assert!(inputs.iter().all(|input| input.call == Some(call)));
    harness.assert_idle();
    (call, inputs)
}

// covers: TASK-117, TASK-118, TASK-120, TASK-121
#[test]
fn each_question_is_asked_once_and_answered_once() {
    let mut harness = modern();
    let (call, inputs) = call_with_questions(&mut harness);
    // The server lists them again while the user thinks.
    harness.advance(ms(500));
    answer_poll(&mut harness, asking(json!({"a": form(), "b": {"method": "roots/list"}})));
    harness.assert_idle();
    harness.answer(inputs[0].id, &accepted("east"));
    let update = harness.expect_request("tasks/update");
    assert_eq!(update["params"]["taskId"], "t-9");
    assert_eq!(update["params"]["inputResponses"], json!({"a": accepted("east")}));
    let (now, engine) = (harness.now, harness.pipe.engine());
    assert_eq!(engine.answer(now, inputs[0].id, &accepted("west")), Err(UseError::Stale));
    harness.feed_message(&result_response(&update, json!({"resultType": "complete"})));
    // The server is eventually consistent: it still lists what it has.
    harness.advance(ms(500));
    answer_poll(&mut harness, asking(json!({"a": form(), "b": {"method": "roots/list"}, "c": form()})));
    let third = harness.expect_input();
    assert_eq!(third.key.as_deref(), Some("c"));
    harness.assert_idle();
    harness.answer(inputs[1].id, &json!({"roots": []}));
    let update = harness.expect_request("tasks/update");
    assert_eq!(update["params"]["inputResponses"], json!({"b": {"roots": []}}));
    // Answers that come meanwhile follow together.
    harness.answer(third.id, &accepted("north"));
    harness.assert_nothing_sent();
    harness.feed_message(&result_response(&update, json!({"resultType": "complete"})));
    let update = harness.expect_request("tasks/update");
    assert_eq!(update["params"]["inputResponses"], json!({"c": accepted("north")}));
    harness.feed_message(&result_response(&update, json!({"resultType": "complete"})));
    harness.advance(ms(500));
    answer_poll(&mut harness, state("completed", json!({"result": content()})));
    expect_task(&mut harness, call, "completed");
    assert_eq!(text(&harness.expect_done(call).expect("a result")), content());
    harness.advance(secs(7_200));
    harness.assert_idle();
}

// covers: TASK-119, TASK-121
#[test]
fn lost_answer_is_sent_again_while_the_server_asks_for_it() {
    let mut harness = modern();
    let (call, inputs) = call_with_questions(&mut harness);
    harness.answer(inputs[0].id, &accepted("east"));
    let update = harness.expect_request("tasks/update");
    harness.feed_message(&error_response(&update, -32603, "busy", json!(null)));
    harness.assert_idle();
    harness.advance(ms(500));
    answer_poll(&mut harness, asking(json!({"a": form(), "b": {"method": "roots/list"}})));
    let again = harness.expect_request("tasks/update");
    assert_eq!(again["params"]["inputResponses"], update["params"]["inputResponses"]);
    harness.feed_message(&error_response(&again, -32603, "busy", json!(null)));
    harness.advance(ms(500));
    // The answer has arrived nevertheless, and the other question was withdrawn.
    answer_poll(&mut harness, state("working", json!({})));
    expect_task(&mut harness, call, "working");
    harness.expect_input_withdrawn(inputs[1].id);
    harness.assert_idle();
}

#[test]
fn answer_that_the_server_refuses_again_and_again_fails_the_call() {
    let mut harness = modern();
    let (call, inputs) = call_with_questions(&mut harness);
    harness.answer(inputs[0].id, &accepted("east"));
    let mut update = harness.expect_request("tasks/update");
    for _ in 0..2 {
        harness.feed_message(&error_response(&update, -32602, "unfit", json!(null)));
        // Whether the task is gone, its state tells at once.
        answer_poll(&mut harness, asking(json!({"a": form(), "b": {"method": "roots/list"}})));
        update = harness.expect_request("tasks/update");
    }
    harness.feed_message(&error_response(&update, -32602, "unfit", json!(null)));
    harness.expect_input_withdrawn(inputs[1].id);
    let error = harness.expect_done(call).expect_err("no result");
    assert!(matches!(&error, CallError::Rpc(error) if error.message == "unfit"), "{error:?}");
    harness.expect_request("tasks/cancel");
}

// covers: TASK-121, MRTR-031
#[test]
fn refused_question_fails_the_call_and_cancels_the_task() {
    let mut harness = modern();
    let (call, inputs) = call_with_questions(&mut harness);
    harness.pipe.engine().refuse(harness.now, inputs[0].id, &RpcError::new(-1, "no")).expect("open");
    harness.expect_input_withdrawn(inputs[1].id);
    let error = harness.expect_done(call).expect_err("no result");
    assert!(matches!(error, CallError::InputRefused(_)), "{error:?}");
    assert_eq!(harness.expect_request("tasks/cancel")["params"]["taskId"], "t-9");
}

#[test]
fn question_that_is_not_answered_in_time_fails_the_call() {
    let mut harness = modern_with(config().limits(limits(|limits| limits.input_timeout = secs(2))));
    let (call, inputs) = call_with_questions(&mut harness);
    for _ in 0..3 {
        harness.advance(ms(500));
        answer_poll(&mut harness, asking(json!({"a": form(), "b": {"method": "roots/list"}})));
    }
    harness.advance(ms(500));
    let sent = harness.take_sent();
    assert_eq!(sent.last().expect("a request")["method"], "tasks/cancel");
    for input in inputs {
        harness.expect_input_withdrawn(input.id);
    }
    assert_eq!(harness.expect_done(call), Err(CallError::InputTimedOut));
}

#[test]
fn question_withdrawn_by_the_server_is_withdrawn_here_and_not_asked_again() {
    let mut harness = modern();
    let (_, inputs) = call_with_questions(&mut harness);
    harness.advance(ms(500));
    answer_poll(&mut harness, asking(json!({"b": {"method": "roots/list"}})));
    harness.expect_input_withdrawn(inputs[0].id);
    harness.advance(ms(500));
    // The key is never reused, so this is an old state.
    answer_poll(&mut harness, asking(json!({"a": form(), "b": {"method": "roots/list"}})));
    harness.assert_idle();
}

// covers: TASK-121, MRTR-008, MRTR-009
#[test]
fn questions_are_checked_and_bounded_as_those_of_rounds() {
    let model = json!({"messages": [], "maxTokens": 30});
    let forms = |count: usize| (0..count).map(|n| (n.to_string(), form())).collect();
    let (many, most): (serde_json::Map<_, _>, serde_json::Map<_, _>) = (forms(65), forms(64));
    for (requests, expected) in [
        (json!({"a": {"method": "sampling/createMessage", "params": model}}), "Sampling"),
        (json!({"a": {"method": "elicitation/create", "params": {}}}), "Invalid"),
        (json!({"a": 1}), "Invalid"),
        (json!([]), "Invalid"),
        (Value::Object(many), "more than 64"),
    ] {
        let mut harness = modern();
        let (call, _) = followed_call(&mut harness, &CallOptions::new());
        harness.advance(ms(500));
        answer_poll(&mut harness, asking(requests));
        let mut events = harness.take_event_texts();
        let done = events.pop().expect("the end of the call");
        assert!(done.contains(expected), "{done}: {expected}");
        assert_eq!(harness.expect_request("tasks/cancel")["params"]["taskId"], "t-9");
        let _ = call;
    }
    let mut harness = modern();
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    harness.advance(ms(500));
    answer_poll(&mut harness, asking(Value::Object(most)));
    expect_task(&mut harness, call, "input_required");
    assert_eq!(harness.take_event_texts().len(), 64);
    // Questions without end, one after the other.
    let mut harness = modern_with(config().limits(limits(|limits| limits.max_input_rounds = 3)));
    let (call, _) = followed_call(&mut harness, &CallOptions::new());
    for n in 0..4 {
        harness.advance(ms(500));
        answer_poll(&mut harness, asking(json!({n.to_string(): {"method": "roots/list"}})));
        if n == 0 {
            expect_task(&mut harness, call, "input_required");
        }
        if n < 3 {
            let input = harness.expect_input();
            harness.answer(input.id, &json!({"roots": []}));
            let update = harness.expect_request("tasks/update");
            harness.feed_message(&result_response(&update, json!({"resultType": "complete"})));
        }
    }
    assert_eq!(harness.expect_done(call), Err(CallError::TooManyRounds { limit: 3 }));
}

#[test]
fn answer_of_another_kind_is_refused_and_the_question_stays_open() {
    let mut harness = modern();
    let (_, inputs) = call_with_questions(&mut harness);
    let (now, engine) = (harness.now, harness.pipe.engine());
    let refused = engine.answer(now, inputs[0].id, &json!({"roots": []}));
    assert!(matches!(refused, Err(UseError::InvalidInputResponse { .. })), "{refused:?}");
    harness.assert_idle();
    harness.answer(inputs[0].id, &accepted("east"));
    harness.expect_request("tasks/update");
}

/// Returns the state of a task that asks `a` and `b`.
fn asking_both() -> Value {
    asking(json!({"a": form(), "b": {"method": "roots/list"}}))
}

/// Waits for the task `t-9`, which asks the questions `a` and `b`, by two calls. Returns them and the questions.
fn two_waits(harness: &mut ClientHarness) -> (CallKey, CallKey, Vec<Input>) {
    let peer = harness.pipe.engine().peer().expect("ready").clone();
    let task = TaskHandle::new(&peer, "dredge", "t-9".into());
    let wait = |harness: &mut ClientHarness| {
        let options = CallOptions::new();
        let call = harness.pipe.engine().wait_task(harness.now, &task, &options).expect("a call");
        answer_poll(harness, asking_both());
        expect_task(harness, call, "input_required");
        call
    };
    let first = wait(harness);
    let inputs = vec![harness.expect_input(), harness.expect_input()];
    assert!(inputs.iter().all(|input| input.call == Some(first)));
    let second = wait(harness);
    harness.assert_idle();
    (first, second, inputs)
}

// covers: TASK-121
#[test]
fn two_waits_for_one_task_ask_each_question_once() {
    let mut harness = modern();
    let (first, second, inputs) = two_waits(&mut harness);
    for _ in 0..2 {
        harness.advance(ms(500));
        let polls = harness.take_sent();
        assert_eq!(polls.iter().filter(|poll| poll["method"] == "tasks/get").count(), 2, "{polls:?}");
        for poll in polls {
            harness.feed_message(&result_response(&poll, asking_both()));
        }
        harness.assert_idle();
    }
    harness.answer(inputs[0].id, &accepted("east"));
    let update = harness.expect_request("tasks/update");
    assert_eq!(update["params"]["inputResponses"], json!({"a": accepted("east")}));
    harness.feed_message(&result_response(&update, json!({"resultType": "complete"})));
    // The call that asked ends: the other one asks what is open, and nothing else.
    harness.pipe.engine().cancel(harness.now, first, None).expect("open");
    harness.expect_input_withdrawn(inputs[1].id);
    harness.expect_done(first).expect_err("cancelled");
    harness.assert_idle();
    harness.advance(ms(500));
    answer_poll(&mut harness, asking_both());
    let input = harness.expect_input();
    assert_eq!((input.key.as_deref(), input.call), (Some("b"), Some(second)));
    harness.assert_idle();
    harness.answer(input.id, &json!({"roots": []}));
    let update = harness.expect_request("tasks/update");
    assert_eq!(update["params"]["inputResponses"], json!({"b": {"roots": []}}));
    harness.feed_message(&result_response(&update, json!({"resultType": "complete"})));
    harness.advance(ms(500));
    answer_poll(&mut harness, state("completed", json!({"result": content()})));
    expect_task(&mut harness, second, "completed");
    assert_eq!(text(&harness.expect_done(second).expect("a result")), content());
    harness.advance(secs(7_200));
    harness.assert_idle();
}

// covers: TASK-121
#[test]
fn unconfirmed_answer_of_a_wait_that_ends_is_sent_by_the_other_one() {
    let mut harness = modern();
    let (first, _, inputs) = two_waits(&mut harness);
    harness.answer(inputs[0].id, &accepted("east"));
    let update = harness.expect_request("tasks/update");
    harness.pipe.engine().cancel(harness.now, first, None).expect("open");
    harness.expect_input_withdrawn(inputs[1].id);
    harness.expect_done(first).expect_err("cancelled");
    harness.take_sent();
    harness.advance(ms(500));
    answer_poll(&mut harness, asking_both());
    let input = harness.expect_input();
    assert_eq!(input.key.as_deref(), Some("b"));
    let again = harness.expect_request("tasks/update");
    assert_eq!(again["params"]["inputResponses"], update["params"]["inputResponses"]);
    harness.assert_idle();
}

// covers: TASK-121
#[test]
fn question_that_one_wait_refuses_is_asked_by_the_other_one() {
    let mut harness = modern();
    let (first, second, inputs) = two_waits(&mut harness);
    harness.pipe.engine().refuse(harness.now, inputs[0].id, &RpcError::new(-1, "no")).expect("open");
    harness.expect_input_withdrawn(inputs[1].id);
    let error = harness.expect_done(first).expect_err("no result");
    assert!(matches!(error, CallError::InputRefused(_)), "{error:?}");
    harness.assert_idle();
    harness.advance(ms(500));
    answer_poll(&mut harness, asking_both());
    for key in ["a", "b"] {
        let input = harness.expect_input();
        assert_eq!((input.key.as_deref(), input.call), (Some(key), Some(second)));
    }
    harness.assert_idle();
}

#[test]
fn only_open_questions_have_to_be_answered_in_time() {
    for answers in [1, 2] {
        let mut harness = modern_with(config().limits(limits(|limits| limits.input_timeout = secs(2))));
        let (call, inputs) = call_with_questions(&mut harness);
        harness.answer(inputs[0].id, &accepted("east"));
        if answers == 2 {
            harness.answer(inputs[1].id, &json!({"roots": []}));
        }
        harness.advance(secs(2));
        if answers == 1 {
            harness.expect_input_withdrawn(inputs[1].id);
            assert_eq!(harness.expect_done(call), Err(CallError::InputTimedOut));
        }
        assert!(harness.has_no_events(), "{answers}");
    }
}

/// An answer waits for its confirmation, although the server asks no more; without one it may be asked for again.
#[test]
fn unconfirmed_answers_are_sent_together_when_the_server_asks_again() {
    let mut harness = modern();
    let (_, inputs) = call_with_questions(&mut harness);
    harness.answer(inputs[0].id, &accepted("east"));
    let update = harness.expect_request("tasks/update");
    harness.answer(inputs[1].id, &json!({"roots": []}));
    harness.advance(ms(500));
    answer_poll(&mut harness, asking(json!({"b": {"method": "roots/list"}})));
    harness.assert_idle();
    harness.feed_message(&error_response(&update, -32603, "busy", json!(null)));
    harness.advance(ms(500));
    answer_poll(&mut harness, asking_both());
    let again = harness.expect_request("tasks/update");
    assert_eq!(again["params"]["inputResponses"], json!({"a": accepted("east"), "b": {"roots": []}}));
    harness.assert_idle();
}

/// Polls and what else is sent for tasks have as many places as calls.
#[test]
fn answer_waits_for_a_place_in_the_table() {
    let mut harness = modern_with(config().limits(limits(|l| l.max_pending_calls = 2)));
    let mut inputs = Vec::new();
    for id in ["t-1", "t-2"] {
        let (call, request) = harness.start_call("tools/call", &tool_call(), &CallOptions::new());
        let asked = json!({"taskId": id, "status": "input_required", "inputRequests": {"a": form()}});
        harness.feed_message(&result_response(&request, created(asked)));
        expect_task(&mut harness, call, "input_required");
        inputs.push(harness.expect_input());
    }
    harness.advance(ms(500));
    let polls = harness.take_sent();
    assert_eq!(polls.len(), 2, "{polls:?}");
    harness.answer(inputs[0].id, &accepted("east"));
    harness.assert_idle();
    let asked = json!({"taskId": "t-1", "inputRequests": {"a": form()}});
    harness.feed_message(&result_response(&polls[0], state("input_required", asked)));
    assert_eq!(harness.expect_request("tasks/update")["params"]["taskId"], "t-1");
}

/// Answers the next poll by questions with these names. Returns whether they fit.
fn ask(harness: &mut ClientHarness, names: &[&str]) -> bool {
    let requests: serde_json::Map<_, _> = names.iter().map(|name| ((*name).into(), form())).collect();
    answer_poll(harness, asking(Value::Object(requests)));
    let events = harness.take_event_texts();
    harness.take_sent();
    harness.advance(ms(500));
    !events.iter().any(|event| event.contains("it exceeds the limit `max_retained_bytes`"))
}

#[test]
fn names_of_questions_are_bounded_and_given_back() {
    let mut harness = modern_with(config().limits(limits(|limits| limits.max_retained_bytes = 4)));
    let (first, _, inputs) = two_waits(&mut harness);
    harness.answer(inputs[0].id, &accepted("east"));
    // The other call takes over the answer, and has to keep its name.
    harness.pipe.engine().cancel(harness.now, first, None).expect("open");
    harness.take_event_texts();
    harness.take_sent();
    harness.advance(ms(500));
    assert!(ask(&mut harness, &["a", "b"]) && ask(&mut harness, &["a", "b", "cc"]));
    assert!(!ask(&mut harness, &["a", "b", "cc", "d"]), "five bytes");
    for (name, fits) in [("abcd", true), ("abcde", false), ("abcd", true)] {
        let peer = harness.pipe.engine().peer().expect("ready").clone();
        let task = TaskHandle::new(&peer, "dredge", "t-9".into());
        let call = harness.pipe.engine().wait_task(harness.now, &task, &CallOptions::new()).expect("room");
        assert_eq!(ask(&mut harness, &[name]), fits, "{name}");
        assert_eq!(harness.pipe.engine().cancel(harness.now, call, None).is_ok(), fits);
        harness.take_event_texts();
        harness.take_sent();
    }
}
