//! Clients that go away, cancel, do not read, or send too much while tasks run.

use mcp_proto::server::{TaskLimits, TaskOptions};
use mcp_proto::{Capability, RpcError, UseError};
use mcp_tests::harness::build::{
    initialize_request, legacy_request, modern_request, notification, result_response,
};
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
    assert!(texts[0].contains("RunId(…)"), "{}", texts[0]);
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

// covers: TASK-103
#[test]
fn call_that_may_not_become_a_task_names_what_its_client_lacks() {
    let mut legacy = legacy_harness(table(), Chunker::Whole);
    let mut other = modern_harness(Chunker::Whole);
    let params = json!({"name": "dredge"});
    for (harness, request, missing) in [
        (&mut legacy, legacy_request(1, "tools/call", params.clone()), Capability::ToolTasks),
        (&mut other, modern_request(1, "tools/call", params), Capability::TasksExtension),
    ] {
        let call = harness.expect_call_for(&request);
        let now = harness.now;
        let refused = harness.pipe.engine().tasks(now).begin(&call, TaskOptions::new());
        assert_eq!(refused, Err(UseError::MissingPeerCapability(missing)));
    }
}

#[test]
fn server_says_how_many_tasks_run_at_a_time() {
    for (limits, expected) in [
        (TaskLimits::new(), 64),
        (TaskLimits::new().max_running(3), 3),
        (TaskLimits::new().max_running(0), 1),
    ] {
        let mut harness = harness_with(table().limits(limits), Chunker::Whole);
        let now = harness.now;
        assert_eq!(harness.pipe.engine().tasks(now).max_running(), expected);
    }
    let mut harness = ServerHarness::server(super::config(), Chunker::Whole);
    let now = harness.now;
    assert_eq!(harness.pipe.engine().tasks(now).max_running(), 0, "there are no tasks");
}

// covers: TASK-036
#[test]
fn arguments_of_a_task_that_runs_at_once_are_not_kept() {
    let limits = TaskLimits::new().max_bytes(2 * 256).max_running(1);
    let mut harness = harness_with(table().limits(limits), Chunker::Whole);
    begin(&mut harness, &modern_call(1));
    let call = harness.expect_call_for(&modern_call(2));
    let now = harness.now;
    let refused = harness.pipe.engine().tasks(now).begin(&call, TaskOptions::new());
    assert!(matches!(refused, Err(UseError::Full(_))), "those of one that waits are: {refused:?}");
}

#[test]
fn runs_and_requests_for_results_are_no_live_calls() {
    let mut harness = legacy_harness(table(), Chunker::Whole);
    let runs: Vec<_> = (1..=3).map(|id| begin(&mut harness, &legacy_call(id))).collect();
    harness.feed_message(&task_request(10, "tasks/result", &runs[0].0));
    harness.feed_message(&task_request(11, "tasks/result", &runs[1].0));
    assert_eq!(harness.pipe.engine().live_calls(), 0);
    let _call = harness.expect_call_for(&legacy_request(12, "tools/call", json!({"name": "dredge"})));
    assert_eq!(harness.pipe.engine().live_calls(), 1);
    // A run knows the client of its session.
    let peer = harness.pipe.engine().peer(&runs[0].1);
    assert!(peer.info().is_some() && peer.has(Capability::ElicitationForm));
}

// covers: LIFE-006, TASK-021, TASK-025
#[test]
fn client_is_not_asked_or_told_before_its_handshake_or_after_its_end() {
    for has_ended in [false, true] {
        let mut harness = harness_with(table(), Chunker::Whole);
        let mut handshake = initialize_request(0, LEGACY.as_str());
        handshake["params"]["capabilities"] = json!({"elicitation": {}});
        harness.feed_message(&handshake);
        harness.expect_reply();
        if has_ended {
            harness.feed_message(&notification("notifications/initialized", Value::Null));
            harness.take_event_texts();
        }
        let (id, run) = begin(&mut harness, &legacy_call(1));
        harness.feed_message(&task_request(2, "tasks/result", &id));
        if has_ended {
            harness.eof();
        }
        let now = harness.now;
        assert!(harness.pipe.engine().tasks(now).working(run.id(), "half"));
        harness.need_input(&run, &form("basin"), b"").expect("possible");
        harness.assert_nothing_sent();
    }
}
