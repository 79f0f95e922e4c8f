//! Limits of the tasks that the client hosts.

use mcp_proto::client::InputTaskLimits;
use mcp_proto::{Limit, UseError};
use mcp_tests::harness::Chunker;
use mcp_tests::harness::build::legacy_request;
use serde_json::{Value, json};

use super::hosting::{ask, expect_status, get, open, request};
use super::{accepted, form, with_related};
use crate::protocol::common::{ms, secs};

// covers: TASK-016, TASK-036
#[test]
fn time_to_live_is_clamped_and_ends_the_task() {
    let limits = InputTaskLimits::new().default_ttl(secs(50)).max_ttl(secs(100));
    for (task, granted) in [
        (json!({"ttl": 7_000}), 7_000),
        (json!({}), 50_000),
        (json!({"ttl": 0}), 1),
        (json!({"ttl": 9_007_199_254_740_991_u64}), 100_000),
    ] {
        let mut harness = open(limits.clone(), Chunker::Whole);
        let (input, created) = ask(&mut harness, 1, &task);
        assert_eq!(created["ttl"], granted, "{task}");
        harness.feed_message(&legacy_request(2, "tasks/result", json!({"taskId": created["taskId"]})));
        harness.advance(ms(granted));
        harness.expect_input_withdrawn(input.id);
        let blocked = harness.expect_reply();
        assert_eq!((&blocked["id"], &blocked["error"]["code"]), (&json!(2), &json!(-32602)));
        let gone = request(&mut harness, 3, "tasks/get", json!({"taskId": created["taskId"]}));
        assert_eq!(gone["error"]["code"], -32602);
        assert_eq!(request(&mut harness, 4, "tasks/list", json!({}))["result"], json!({"tasks": []}));
        harness.assert_idle();
    }
}

// covers: TASK-036
#[test]
fn question_that_is_not_answered_in_time_fails_its_task() {
    let mut harness = open(InputTaskLimits::new().max_ttl(secs(100_000)), Chunker::Whole);
    let (input, task) = ask(&mut harness, 1, &json!({"ttl": 90_000_000}));
    let limit = harness.pipe.engine().config().effective_limits().input_timeout;
    harness.advance(limit);
    harness.expect_input_withdrawn(input.id);
    expect_status(&mut harness, &task, "failed");
    let answer = request(&mut harness, 2, "tasks/result", json!({"taskId": task["taskId"]}));
    assert_eq!(answer["error"]["code"], -32603);
    harness.assert_idle();
}

// covers: TASK-036, TASK-030
#[test]
fn number_of_tasks_is_bounded_and_collected_ones_give_way() {
    let mut harness = open(InputTaskLimits::new().max_tasks(2), Chunker::Whole);
    let (first, first_task) = ask(&mut harness, 1, &json!({}));
    let (_, second_task) = ask(&mut harness, 2, &json!({}));
    let refused = request(&mut harness, 3, "elicitation/create", form(&json!({"task": {}})));
    assert_eq!(refused["error"]["code"], -32603);
    harness.assert_idle();
    // A plain question needs no place.
    harness.feed_message(&legacy_request(4, "elicitation/create", form(&json!({}))));
    let plain = harness.expect_input();
    harness.answer(plain.id, &accepted());
    assert_eq!(harness.expect_reply()["result"], accepted());
    // An answer that was not collected keeps its place.
    harness.answer(first.id, &accepted());
    expect_status(&mut harness, &first_task, "completed");
    let refused = request(&mut harness, 5, "elicitation/create", form(&json!({"task": {}})));
    assert_eq!(refused["error"]["code"], -32603);
    let collected = request(&mut harness, 6, "tasks/result", json!({"taskId": first_task["taskId"]}));
    assert_eq!(collected["result"], with_related(&accepted(), &first_task["taskId"]));
    let (_, third_task) = ask(&mut harness, 7, &json!({}));
    let gone = request(&mut harness, 8, "tasks/get", json!({"taskId": first_task["taskId"]}));
    assert_eq!(gone["error"]["code"], -32602);
    request(&mut harness, 9, "tasks/cancel", json!({"taskId": third_task["taskId"]}));
    let _ = harness.take_event_texts();
    let (_, fourth_task) = ask(&mut harness, 10, &json!({}));
    for task in [second_task, fourth_task] {
        assert_eq!(get(&mut harness, 11, &task)["status"], "working");
    }
    harness.assert_works();
}

// covers: TASK-036
#[test]
fn answer_beyond_the_bytes_is_refused_and_leaves_the_question_open() {
    let mut harness = open(InputTaskLimits::new().max_bytes(80), Chunker::Whole);
    let (input, task) = ask(&mut harness, 1, &json!({}));
    let long = json!({"action": "accept", "content": {"basin": "e".repeat(100)}});
    let refused = harness.pipe.engine().answer(harness.now, input.id, &long);
    assert_eq!(refused, Err(UseError::Full(Limit::TaskBytes)));
    harness.assert_idle();
    harness.answer(input.id, &accepted());
    expect_status(&mut harness, &task, "completed");
    let (second, _) = ask(&mut harness, 2, &json!({}));
    let refused = harness.pipe.engine().answer(harness.now, second.id, &accepted());
    assert_eq!(refused, Err(UseError::Full(Limit::TaskBytes)));
    harness.assert_idle();
}

// covers: TASK-036, TASK-016
#[test]
fn collected_answers_give_way_to_new_ones() {
    let mut harness = open(InputTaskLimits::new().max_bytes(80), Chunker::Whole);
    for id in 0..5 {
        let (input, task) = ask(&mut harness, 2 * id + 1, &json!({}));
        harness.answer(input.id, &accepted());
        expect_status(&mut harness, &task, "completed");
        let collected = request(&mut harness, 2 * id + 2, "tasks/result", json!({"taskId": task["taskId"]}));
        assert_eq!(collected["result"], with_related(&accepted(), &task["taskId"]));
    }
    harness.assert_idle();
}

/// The time to live may end exactly when the answer is due.
// covers: TASK-016
#[test]
fn answered_task_expires_even_if_its_answer_was_due_at_the_same_time() {
    let limits = InputTaskLimits::new().max_tasks(1).max_ttl(secs(100_000));
    let mut harness = open(limits, Chunker::Whole);
    let timeout = harness.pipe.engine().config().effective_limits().input_timeout;
    let (input, task) = ask(&mut harness, 1, &json!({"ttl": timeout.as_millis() as u64}));
    harness.advance(ms(10));
    harness.answer(input.id, &accepted());
    expect_status(&mut harness, &task, "completed");
    harness.advance(timeout);
    // The answer was not collected, and its place is free.
    assert_eq!(request(&mut harness, 2, "tasks/list", json!({}))["result"], json!({"tasks": []}));
    ask(&mut harness, 3, &json!({}));
    harness.assert_idle();
}

// covers: TASK-036
#[test]
fn blocked_requests_for_results_are_bounded() {
    let mut harness = open(InputTaskLimits::new().max_waiting(3), Chunker::Whole);
    let (input, task) = ask(&mut harness, 1, &json!({}));
    for id in 10..13 {
        harness.feed_message(&legacy_request(id, "tasks/result", json!({"taskId": task["taskId"]})));
        harness.assert_idle();
    }
    let refused = request(&mut harness, 13, "tasks/result", json!({"taskId": task["taskId"]}));
    assert_eq!(refused["error"]["code"], -32603);
    harness.answer(input.id, &accepted());
    let sent: Vec<Value> = harness.take_sent();
    assert_eq!(sent.iter().map(|m| m["id"].clone()).collect::<Vec<_>>(), [json!(10), json!(11), json!(12)]);
    harness.assert_idle();
    harness.assert_works();
}
