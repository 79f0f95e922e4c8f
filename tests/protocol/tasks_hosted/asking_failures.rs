//! Questions whose tasks fail, are lost or are described wrongly.

use mcp_proto::{CallError, Limits};
use mcp_tests::harness::ServerHarness;
use mcp_tests::harness::build::{error_response, result_response};
use serde_json::{Value, json};

use super::accepted;
use super::asking::{ask, asked, call, expect_about, expect_answer, open, state};
use crate::protocol::common::{ms, secs};

/// Polls, and answers by a state.
fn answer_poll(harness: &mut ServerHarness, state: Value) {
    harness.advance(ms(500));
    let poll = expect_about(harness, "tasks/get");
    harness.feed_message(&result_response(&poll, state));
}

fn expect_error(harness: &mut ServerHarness) -> CallError {
    let (_, seen) = expect_answer(harness);
    seen.expect_err("an error")
}

// covers: TASK-019, TASK-032
#[test]
fn error_of_a_failed_task_is_that_of_its_question() {
    let mut harness = open();
    asked(&mut harness);
    answer_poll(&mut harness, state("failed", &json!({"statusMessage": "rejected"})));
    let collect = expect_about(&mut harness, "tasks/result");
    // An internal error, too, is its outcome: it is not asked for again.
    harness.feed_message(&error_response(&collect, -32603, "rejected", Value::Null));
    assert!(matches!(expect_error(&mut harness), CallError::Rpc(e) if e.message == "rejected"));
    harness.advance(secs(600));
    harness.assert_idle();
}

// covers: TASK-013
#[test]
fn cancelled_task_ends_its_question() {
    let mut harness = open();
    asked(&mut harness);
    answer_poll(&mut harness, state("cancelled", &json!({"statusMessage": "gone home"})));
    let error = expect_error(&mut harness);
    assert!(matches!(error, CallError::TaskCancelled { message: Some(m) } if m == "gone home"));
    harness.assert_idle();
}

// covers: TASK-031
#[test]
fn task_that_the_client_does_not_know_ends_its_question() {
    let mut harness = open();
    asked(&mut harness);
    harness.advance(ms(500));
    let poll = expect_about(&mut harness, "tasks/get");
    harness.feed_message(&error_response(&poll, -32602, "the task does not exist", Value::Null));
    assert!(matches!(expect_error(&mut harness), CallError::TaskLost(_)));
    harness.assert_idle();
    let mut harness = open();
    asked(&mut harness);
    answer_poll(&mut harness, state("completed", &json!({})));
    let collect = expect_about(&mut harness, "tasks/result");
    harness.feed_message(&error_response(&collect, -32602, "the task does not exist", Value::Null));
    assert!(matches!(expect_error(&mut harness), CallError::TaskLost(_)));
    harness.assert_idle();
}

#[test]
fn failed_polls_are_repeated_five_times_at_longer_intervals() {
    for is_silent in [false, true] {
        let mut harness = open();
        asked(&mut harness);
        let mut waits = Vec::new();
        let mut previous = harness.now;
        for n in 0..5 {
            let mut polled = Vec::new();
            while polled.is_empty() {
                harness.advance(ms(100));
                polled = harness.take_sent();
                polled.retain(|message| message["method"] == "tasks/get");
            }
            waits.push(harness.now.saturating_duration_since(previous));
            previous = harness.now;
            if !is_silent {
                harness.feed_message(&error_response(&polled[0], -32603, "busy", Value::Null));
            }
            assert!(n == 4 || harness.has_no_events());
        }
        assert!(waits.windows(2).all(|pair| pair[0] < pair[1]), "{waits:?}");
        if is_silent {
            harness.advance(secs(60));
        }
        let sent: Vec<Value> = harness.take_sent();
        assert_eq!(sent.last().expect("a message")["method"], "tasks/cancel", "{sent:?}");
        match expect_error(&mut harness) {
            CallError::Rpc(error) => assert!(!is_silent && error.message == "busy"),
            error => assert!(is_silent && error == CallError::TimedOut, "{error}"),
        }
    }
}

#[test]
fn request_for_the_answer_that_is_lost_is_repeated_a_bounded_number_of_times() {
    let mut harness = open();
    asked(&mut harness);
    answer_poll(&mut harness, state("completed", &json!({})));
    expect_about(&mut harness, "tasks/result");
    let mut requests = 1;
    while harness.has_no_events() {
        harness.advance(secs(1));
        let sent = harness.take_sent();
        assert!(
            sent.iter().all(|m| m["method"] == "tasks/result" || m["method"] == "notifications/cancelled")
        );
        requests += sent.iter().filter(|message| message["method"] == "tasks/result").count();
        assert!(requests <= 5, "{requests}");
    }
    assert!(matches!(expect_error(&mut harness), CallError::TimedOut | CallError::TotalTimedOut));
}

#[test]
fn question_ends_at_its_timeout_and_its_task_is_cancelled() {
    let mut harness = open();
    asked(&mut harness);
    let limit = Limits::default().input_timeout;
    let end = harness.now + limit;
    loop {
        harness.advance(ms(500));
        let sent = harness.take_sent();
        if harness.now >= end {
            assert_eq!(sent.last().expect("a message")["method"], "tasks/cancel", "{sent:?}");
            break;
        }
        for poll in sent.iter().filter(|message| message["method"] == "tasks/get") {
            harness.feed_message(&result_response(poll, state("working", &json!({}))));
        }
    }
    assert!(matches!(expect_error(&mut harness), CallError::TimedOut | CallError::TotalTimedOut));
    harness.advance(secs(300));
    assert!(harness.take_sent().iter().all(|message| message["method"] == "notifications/cancelled"));
}

// covers: TASK-012, TASK-014
#[test]
fn states_that_are_not_valid_end_the_question() {
    let long = "q".repeat(2_000);
    for created in [
        json!({"task": {}}),
        json!({"task": state("asleep", &json!({}))}),
        json!({"task": state("working", &json!({"taskId": long}))}),
        json!({"task": state("working", &json!({"taskId": 5}))}),
        json!({"task": true}),
    ] {
        let mut harness = open();
        let call = call(&mut harness, 1);
        ask(&mut harness, &call, None);
        let question = harness.expect_reply();
        harness.feed_message(&result_response(&question, created.clone()));
        let error = expect_error(&mut harness);
        assert!(matches!(error, CallError::InvalidTask { .. }), "{created}: {error}");
    }
    for polled in [state("working", &json!({"taskId": "q-2"})), state("asleep", &json!({})), json!({})] {
        let mut harness = open();
        asked(&mut harness);
        answer_poll(&mut harness, polled.clone());
        let error = expect_error(&mut harness);
        assert!(matches!(error, CallError::InvalidTask { .. }), "{polled}: {error}");
        expect_about(&mut harness, "tasks/cancel");
    }
}

// covers: TASK-013, TASK-017
#[test]
fn second_answers_and_hasty_intervals_change_nothing() {
    let mut harness = open();
    let call = call(&mut harness, 1);
    ask(&mut harness, &call, None);
    let question = harness.expect_reply();
    let hasty = json!({"task": state("working", &json!({"pollInterval": 1}))});
    harness.feed_message(&result_response(&question, hasty.clone()));
    harness.feed_message(&result_response(&question, hasty));
    harness.expect_diagnostic();
    let cancelled = harness.take_sent();
    assert!(cancelled.is_empty(), "the task is followed: {cancelled:?}");
    harness.advance(ms(99));
    harness.assert_idle();
    harness.advance(ms(1));
    let poll = expect_about(&mut harness, "tasks/get");
    harness.feed_message(&result_response(&poll, state("completed", &json!({}))));
    harness.feed_message(&result_response(&poll, state("working", &json!({}))));
    harness.expect_diagnostic();
    let collect = expect_about(&mut harness, "tasks/result");
    harness.feed_message(&result_response(&collect, accepted()));
    assert_eq!(expect_answer(&mut harness).1, Ok(accepted()));
}
