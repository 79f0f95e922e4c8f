//! Requests that wait for tasks: when they are answered, and their bounds.

use mcp_proto::CallError;
use mcp_proto::server::{TaskLimits, TaskOptions};
use mcp_tests::harness::build::{legacy_request, result_response};
use mcp_tests::harness::{Chunker, ServerHarness};
use serde_json::{Value, json};

use super::stored::{Store, begin as begin_stored};
use super::{
    LEGACY, begin, complete, dredged, form, forms, harness_with, legacy_call, legacy_harness, modern,
    modern_call, modern_harness, table, task_request,
};
use crate::protocol::common::secs;

fn update(id: i64, task: &str) -> Value {
    modern(id, "tasks/update", json!({"taskId": task, "inputResponses": {"basin": {"action": "decline"}}}))
}

/// Begins a stored task of 2026-07-28. Returns its id and its run.
fn stored(harness: &mut ServerHarness, store: &mut Store) -> (String, mcp_proto::server::Call) {
    begin_stored(harness, &modern_call(1));
    store.work(harness, true);
    let id = harness.expect_reply()["result"]["taskId"].as_str().expect("an id").to_owned();
    (id, harness.expect_call())
}

// covers: TASK-109, TASK-118
#[test]
fn update_is_acknowledged_when_the_store_has_the_answers() {
    let (mut harness, mut store) = (harness_with(table().stored(), Chunker::Whole), Store::default());
    let (id, run) = stored(&mut harness, &mut store);
    harness.need_input(&run, &form("basin"), b"").expect("possible");
    store.work(&mut harness, true);
    harness.feed_message(&update(2, &id));
    // The same once more changes nothing, and waits for the same record.
    harness.feed_message(&update(3, &id));
    harness.assert_nothing_sent();
    store.work(&mut harness, false);
    harness.assert_nothing_sent();
    harness.advance(secs(1));
    store.work(&mut harness, true);
    let sent = harness.take_sent();
    let ids: Vec<&Value> = sent.iter().map(|m| &m["id"]).collect();
    assert_eq!(ids, [2, 3]);
    assert!(sent.iter().all(|m| m["result"] == json!({"resultType": "complete"})), "{sent:?}");
    // One that changes nothing is acknowledged at once.
    harness.expect_call();
    harness.feed_message(&update(4, &id));
    assert_eq!(harness.expect_reply()["id"], 4);
}

// covers: TASK-123
#[test]
fn cancellation_of_2026_07_28_is_acknowledged_when_the_store_has_it() {
    let (mut harness, mut store) = (harness_with(table().stored(), Chunker::Whole), Store::default());
    let (id, run) = stored(&mut harness, &mut store);
    for request in [2, 3] {
        harness.feed_message(&modern(request, "tasks/cancel", json!({"taskId": id})));
    }
    harness.assert_nothing_sent();
    harness.expect_cancelled(&run);
    store.work(&mut harness, true);
    let sent = harness.take_sent();
    assert_eq!(sent.iter().map(|m| &m["id"]).collect::<Vec<_>>(), [2, 3], "{sent:?}");
    // The restarted server has it.
    let mut harness = store.restart();
    harness.feed_message(&modern(4, "tasks/get", json!({"taskId": id})));
    assert_eq!(harness.expect_reply()["result"]["status"], "cancelled");
    // It has ended, so a further one is acknowledged at once.
    harness.feed_message(&modern(5, "tasks/cancel", json!({"taskId": id})));
    assert_eq!(harness.expect_reply()["result"], json!({"resultType": "complete"}));
}

#[test]
fn requests_that_wait_for_a_task_are_answered_when_it_expires() {
    let (mut harness, mut store) = (harness_with(table().stored(), Chunker::Whole), Store::default());
    let (id, run) = stored(&mut harness, &mut store);
    harness.feed_message(&modern(2, "tasks/cancel", json!({"taskId": id})));
    harness.expect_cancelled(&run);
    let call = harness.expect_call_for(&modern_call(3));
    let now = harness.now;
    harness.pipe.engine().tasks(now).begin(&call, TaskOptions::new()).expect("room");
    harness.assert_nothing_sent();
    harness.advance(secs(3_601));
    let sent = harness.take_sent();
    // The call has the deadline of any call, which is the time to live here.
    let answers: Vec<_> = sent.iter().map(|m| (&m["id"], &m["error"]["code"])).collect();
    assert_eq!(answers, [(&json!(3), &json!(-32_603)), (&json!(2), &json!(-32_602))], "{sent:?}");
}

// covers: TASK-020, TASK-036
#[test]
fn blocked_results_are_bounded_for_each_session() {
    let limits = TaskLimits::new().max_waiting_requests(3);
    let mut harness = harness_with(table().limits(limits), Chunker::Whole);
    harness.open_session_with(LEGACY, &json!({}));
    let (id, run) = begin(&mut harness, &legacy_call(1));
    for request in 10..15 {
        harness.feed_message(&task_request(request, "tasks/result", &id));
    }
    let refused = harness.take_sent();
    assert_eq!(refused.len(), 2);
    for (at, answer) in refused.iter().enumerate() {
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(13 + at), &json!(-32_603)));
        assert_eq!(answer["error"]["message"], "too many requests wait for tasks");
    }
    // Other requests about the task are answered, also its cancellation.
    harness.feed_message(&task_request(20, "tasks/get", &id));
    assert_eq!(harness.expect_reply()["result"]["status"], "working");
    harness.feed_message(&task_request(21, "tasks/cancel", &id));
    harness.expect_cancelled(&run);
    let sent = harness.take_sent();
    let answered: Vec<&Value> = sent.iter().map(|m| &m["id"]).filter(|id| !id.is_null()).collect();
    assert_eq!(answered, [10, 11, 12, 21]);
    // They have made room.
    let (id, _run) = begin(&mut harness, &legacy_call(30));
    for request in 31..34 {
        harness.feed_message(&task_request(request, "tasks/result", &id));
        harness.assert_nothing_sent();
    }
}

#[test]
fn unsaved_changes_are_bounded_for_each_party_and_refused_ones_change_nothing() {
    let limits = TaskLimits::new().max_waiting_requests(2);
    let (mut harness, mut store) =
        (harness_with(table().stored().limits(limits), Chunker::Whole), Store::default());
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(stored(&mut harness, &mut store).0);
    }
    for (at, id) in ids.iter().enumerate() {
        harness.feed_message(&modern(10 + at as i64, "tasks/cancel", json!({"taskId": id})));
    }
    harness.take_event_texts();
    let refused = harness.expect_reply();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(12), &json!(-32_603)));
    store.work(&mut harness, true);
    assert_eq!(harness.take_sent().len(), 2);
    harness.feed_message(&modern(20, "tasks/get", json!({"taskId": ids[2]})));
    assert_eq!(harness.expect_reply()["result"]["status"], "working", "it was not cancelled");
}

#[test]
fn blocked_results_are_answered_at_the_shutdown() {
    for is_stored in [false, true] {
        let table = if is_stored { table().stored() } else { table() };
        let (mut harness, mut store) = (harness_with(table, Chunker::Whole), Store::default());
        harness.open_session_with(LEGACY, &json!({}));
        let call = harness.expect_call_for(&legacy_call(1));
        let now = harness.now;
        harness.pipe.engine().tasks(now).begin(&call, TaskOptions::new()).expect("room");
        store.work(&mut harness, true);
        let id = harness.expect_reply()["result"]["task"]["taskId"].as_str().expect("an id").to_owned();
        let _run = harness.expect_call();
        harness.feed_message(&task_request(2, "tasks/result", &id));
        harness.feed_message(&legacy_request(3, "tasks/result", json!({"taskId": id})));
        let now = harness.now;
        harness.pipe.engine().shutdown(now, secs(1));
        harness.pump();
        harness.assert_nothing_sent();
        harness.advance(secs(2));
        let answers: Vec<Value> = harness.take_sent().into_iter().filter(|m| m.get("id").is_some()).collect();
        let codes: Vec<_> = answers.iter().map(|m| (&m["id"], &m["error"]["code"])).collect();
        let closing = json!(-32_603);
        assert_eq!(codes, [(&json!(2), &closing), (&json!(3), &closing)], "stored: {is_stored}");
        assert!(answers[0]["error"]["message"].as_str().is_some_and(|text| text.contains("shutting down")));
    }
}

// covers: TASK-013
#[test]
fn message_after_the_end_of_a_task_is_ignored() {
    let mut harness = legacy_harness(table(), Chunker::Whole);
    let (id, run) = begin(&mut harness, &legacy_call(1));
    complete(&mut harness, &run, &dredged());
    assert_eq!(harness.expect_reply()["params"]["status"], "completed");
    let now = harness.now;
    assert!(!harness.pipe.engine().tasks(now).working(run.id(), "still digging"));
    harness.pump();
    harness.assert_nothing_sent();
    harness.feed_message(&task_request(2, "tasks/get", &id));
    let task = harness.expect_reply()["result"].clone();
    assert_eq!((&task["status"], task.get("statusMessage")), (&json!("completed"), None));
    // With a store the end is decided before clients see it.
    let (mut harness, mut store) = (harness_with(table().stored(), Chunker::Whole), Store::default());
    let (id, run) = stored(&mut harness, &mut store);
    harness.feed_message(&modern(5, "subscriptions/listen", json!({"notifications": {"taskIds": [id]}})));
    harness.take_sent();
    complete(&mut harness, &run, &dredged());
    let now = harness.now;
    assert!(!harness.pipe.engine().tasks(now).working(run.id(), "still digging"));
    store.work(&mut harness, true);
    let sent = harness.take_sent();
    assert_eq!((sent.len(), &sent[0]["params"]["status"]), (1, &json!("completed")));
    assert_eq!(sent[0]["params"].get("statusMessage"), None);
}

// covers: TASK-026, TASK-036
#[test]
fn pages_of_the_list_are_bounded_in_bytes() {
    let limits = TaskLimits::new().max_running(1);
    let mut harness = harness_with(table().limits(limits), Chunker::Whole);
    harness.open_session_with(LEGACY, &json!({}));
    for id in 0..40 {
        let call = harness.expect_call_for(&legacy_call(id));
        let now = harness.now;
        // Escaped, each of these bytes is six.
        let options = TaskOptions::new().message("\u{1}".repeat(1_000));
        harness.pipe.engine().tasks(now).begin(&call, options).expect("room");
        harness.pump();
        harness.take_sent();
        harness.take_event_texts();
    }
    let (mut listed, mut cursor) = (0, Value::Null);
    for page in 0.. {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        harness.feed_message(&legacy_request(600 + page, "tasks/list", params));
        let answer = harness.expect_reply();
        assert!(answer.to_string().len() < 48 << 10, "page {page}: {}", answer.to_string().len());
        let tasks = answer["result"]["tasks"].as_array().expect("a page").len();
        assert!(tasks > 0);
        listed += tasks;
        cursor = answer["result"]["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(listed, 40);
}

// covers: TASK-026
#[test]
fn page_of_the_list_ends_at_32_kibibytes() {
    // The text of a task without its message.
    let mut rest = 0;
    for (message, expected) in [(1, 2), (0, 2), (1, 1), (2, 1)] {
        let mut harness = harness_with(table(), Chunker::Whole);
        harness.open_session_with(LEGACY, &json!({}));
        let message = if rest == 0 { 1 } else { (32 << 10) - rest + message - 1 };
        for id in 0..2 {
            let call = harness.expect_call_for(&legacy_call(id));
            let now = harness.now;
            let options = TaskOptions::new().message("x".repeat(message));
            harness.pipe.engine().tasks(now).begin(&call, options).expect("room");
            harness.pump();
            harness.take_sent();
            harness.take_event_texts();
        }
        harness.feed_message(&legacy_request(600, "tasks/list", json!({})));
        let page = harness.expect_reply()["result"]["tasks"].as_array().expect("a page").clone();
        assert_eq!(page.len(), expected, "{message}");
        rest = page[0].to_string().len() - message;
    }
}

// covers: TASK-023, CANC-001
#[test]
fn withdrawn_questions_of_a_task_are_cancelled_and_it_runs_again() {
    for is_legacy in [true, false] {
        let mut harness =
            if is_legacy { legacy_harness(table(), Chunker::Whole) } else { modern_harness(Chunker::Whole) };
        let (id, run) = begin(&mut harness, &if is_legacy { legacy_call(1) } else { modern_call(1) });
        let withdraw = |harness: &mut ServerHarness, state: &[u8]| {
            let now = harness.now;
            let is_found = harness.pipe.engine().withdraw_input(now, state, Some("dug already"));
            harness.pump();
            is_found
        };
        assert!(!withdraw(&mut harness, b"half"));
        harness.need_input(&run, &forms(&["east", "west"]), b"half").expect("possible");
        harness.take_sent();
        let mut questions = Vec::new();
        if is_legacy {
            harness.feed_message(&task_request(2, "tasks/result", &id));
            questions = harness.take_sent();
            harness.feed_message(&result_response(&questions[0], json!({"action": "decline"})));
            harness.take_sent();
        } else {
            let responses = json!({"east": {"action": "decline"}});
            let answers = json!({"taskId": id, "inputResponses": responses});
            harness.feed_message(&modern(2, "tasks/update", answers));
            harness.take_sent();
        }
        assert!(!withdraw(&mut harness, b"ha") && !withdraw(&mut harness, b""));
        assert!(withdraw(&mut harness, b"half"));
        let sent = harness.take_sent();
        if is_legacy {
            let cancelled = &sent[0]["params"];
            assert_eq!(
                (&cancelled["requestId"], &cancelled["reason"]),
                (&questions[1]["id"], &json!("dug already"))
            );
            assert_eq!(cancelled["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id.as_str());
            assert_eq!(sent[1]["params"]["status"], "working", "{sent:?}");
        } else {
            harness.feed_message(&modern(3, "tasks/get", json!({"taskId": id})));
            assert_eq!(harness.expect_reply()["result"]["status"], "working");
        }
        let again = harness.expect_call();
        assert_eq!((again.attempt(), again.state()), (1, Some(&b"half"[..])));
        assert!(again.answer("east").expect("an outcome").is_ok());
        assert_eq!(again.answer("west"), Some(Err(&CallError::Cancelled)));
        assert!(!withdraw(&mut harness, b"half"), "it waits no longer");
        complete(&mut harness, &again, &dredged());
    }
}
