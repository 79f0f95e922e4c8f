//! Clients that go away, cancel, do not read, or send too much while tasks run.

use mcp_proto::server::{TaskLimits, TaskOptions};
use mcp_proto::{RpcError, UseError};
use mcp_tests::harness::build::{legacy_request, notification, result_response};
use mcp_tests::harness::{Chunker, ServerHarness};
use serde_json::{Value, json};

use super::{
    LEGACY, begin, complete, dredged, form, harness_with, legacy_call, legacy_harness, modern, modern_call,
    modern_harness, table, task_request,
};
use crate::protocol::common::secs;

fn cancel(harness: &mut ServerHarness, id: i64) {
    harness.feed_message(&notification("notifications/cancelled", json!({"requestId": id})));
}

// covers: TASK-038
#[test]
fn cancelled_result_request_leaves_the_question_out_and_it_is_asked_once() {
    let mut harness = legacy_harness(table(), Chunker::Whole);
    let (id, run) = begin(&mut harness, &legacy_call(1));
    harness.feed_message(&task_request(2, "tasks/result", &id));
    harness.need_input(&run, &form("basin"), b"").expect("possible");
    let sent = harness.take_sent();
    let question = sent.iter().find(|m| m["method"] == "elicitation/create").expect("asked").clone();
    cancel(&mut harness, 2);
    harness.assert_nothing_sent();
    harness.feed_message(&task_request(3, "tasks/result", &id));
    harness.assert_nothing_sent();
    harness.feed_message(&result_response(&question, json!({"action": "decline"})));
    let again = harness.expect_call();
    assert_eq!(
        again.answer("basin").expect("an outcome").expect("given").as_str(),
        r#"{"action":"decline"}"#
    );
    harness.take_sent();
    complete(&mut harness, &again, &dredged());
    let answers: Vec<Value> = harness.take_sent().into_iter().filter(|m| m.get("result").is_some()).collect();
    assert_eq!((answers.len(), &answers[0]["id"]), (1, &json!(3)), "the cancelled request has no answer");
}

// covers: TASK-020, TASK-036
#[test]
fn cancelled_result_requests_make_room_for_others() {
    let mut harness = harness_with(table(), Chunker::Whole);
    harness.open_session_with(LEGACY, &json!({}));
    let (id, run) = begin(&mut harness, &legacy_call(1));
    let most = 256;
    let mut refused = 0;
    for round in 0..2 {
        for at in 0..most {
            harness.feed_message(&task_request(1_000 * (round + 1) + at, "tasks/result", &id));
        }
        refused += harness.take_sent().len();
        for at in 0..most {
            cancel(&mut harness, 1_000 * (round + 1) + at);
        }
        harness.take_event_texts();
    }
    let room = usize::try_from(most).expect("small");
    assert!(refused <= 2 * room);
    harness.feed_message(&task_request(9_000, "tasks/result", &id));
    harness.assert_nothing_sent();
    // Requests that wait for tasks do not hold up others.
    harness.feed_message(&legacy_request(9_001, "ping", Value::Null));
    assert_eq!(harness.expect_reply()["id"], 9_001);
    complete(&mut harness, &run, &dredged());
    assert_eq!(harness.take_sent().iter().filter(|m| m.get("result").is_some()).count(), 1);
}

#[test]
fn shutdown_ends_the_runs() {
    let mut harness = legacy_harness(table(), Chunker::Whole);
    let (_, run) = begin(&mut harness, &legacy_call(1));
    let now = harness.now;
    harness.pipe.engine().shutdown(now, secs(1));
    harness.pump();
    harness.advance(secs(2));
    let events = harness.take_event_texts();
    assert!(events.iter().any(|event| event.contains("ancelled")), "{events:?}");
    let now = harness.now;
    assert_eq!(harness.pipe.engine().complete(now, run.id(), &dredged()), Err(UseError::Stale));
    let closed = events.iter().filter(|event| event.contains("Closed") || event.contains("closed")).count();
    assert!(closed <= 1, "the channel of the runs is not reported: {events:?}");
}

// covers: TASK-035, TASK-131
#[test]
fn nothing_of_a_run_shows_the_id_of_its_task() {
    let mut harness = modern_harness(Chunker::Whole);
    let (id, run) = begin(&mut harness, &modern_call(1));
    let now = harness.now;
    let engine = harness.pipe.engine();
    let texts = [
        format!("{run:?}"),
        format!("{engine:?}"),
        format!("{:?}", engine.tasks(now)),
        format!("{:?}", run.task_id()),
    ];
    assert!(texts.iter().all(|text| !text.contains(&id)));
    assert_eq!(engine.notify(now, run.channel(), "harbor/x", None::<&Value>), Err(UseError::Closed));
    complete(&mut harness, &run, &dredged());
    let mut other = modern_harness(Chunker::Whole);
    let (_, run) = begin(&mut other, &modern_call(1));
    let now = other.now;
    other.pipe.engine().fail(now, run.id(), &RpcError::internal("x")).expect("open");
    other.assert_nothing_sent();
}

// covers: TASK-036
#[test]
fn results_count_for_the_bytes_of_all_tasks() {
    let limits = TaskLimits::new().max_bytes(200_000);
    let mut harness = harness_with(table().limits(limits), Chunker::Whole);
    let big = json!({"content": [{"type": "text", "text": "x".repeat(65_536)}]});
    let (mut kept, mut failed) = (0, 0);
    for id in 0..5 {
        let (task, run) = begin(&mut harness, &modern_call(id));
        complete(&mut harness, &run, &big);
        harness.feed_message(&modern(50, "tasks/get", json!({"taskId": task})));
        match harness.expect_reply()["result"]["status"].as_str() {
            Some("completed") => kept += 1,
            Some("failed") => failed += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((kept, failed), (3, 2));
}

#[test]
fn listener_that_does_not_read_gets_the_latest_state_later() {
    let mut harness = modern_harness(Chunker::Whole);
    let (id, run) = begin(&mut harness, &modern_call(1));
    harness.feed_message(&modern(5, "subscriptions/listen", json!({"notifications": {"taskIds": [id]}})));
    harness.take_sent();
    harness.is_blocked = true;
    // Fills the outbox.
    for n in 0..8_000 {
        harness.feed_message(&modern(100 + n, "tasks/get", json!({"taskId": id})));
    }
    for step in 0..5 {
        let now = harness.now;
        harness.pipe.engine().tasks(now).working(run.id(), &format!("step {step}"));
        harness.advance(secs(2));
    }
    let now = harness.now;
    harness.pipe.engine().complete(now, run.id(), &dredged()).expect("open");
    harness.advance(secs(1));
    harness.is_blocked = false;
    harness.pump();
    harness.advance(secs(1));
    let told: Vec<Value> =
        harness.take_sent().into_iter().filter(|m| m["method"] == "notifications/tasks").collect();
    assert_eq!(told.last().expect("told")["params"]["status"], "completed");
    assert!(told.len() <= 3, "{}", told.len());
    assert!(harness.pipe.engine().poll_timeout_without_trim().is_none_or(|at| at > harness.now + secs(5)));
}

#[test]
fn begin_uses_up_the_offer_of_a_call() {
    let mut harness = modern_harness(Chunker::Whole);
    let call = harness.expect_call_for(&modern_call(1));
    let now = harness.now;
    let mut tasks = harness.pipe.engine().tasks(now);
    tasks.begin(&call, TaskOptions::new()).expect("room");
    assert_eq!(tasks.begin(&call, TaskOptions::new()), Err(UseError::Stale));
    harness.pump();
    harness.expect_reply();
    let run = harness.expect_call();
    let now = harness.now;
    assert!(harness.pipe.engine().tasks(now).begin(&run, TaskOptions::new()).is_err(), "a run is no request");
}
