//! Tasks with a store: what is durable before it shows, and what a restart keeps.

use alloc::collections::BTreeMap;

use mcp_proto::model::TaskId;
use mcp_proto::server::{StoreEffect, TaskOptions};
use mcp_tests::harness::{Chunker, ServerHarness};
use serde_json::{Value, json};

use super::{
    LEGACY, complete, dredged, form, harness_with, legacy_call, modern, modern_call, table, task_request,
};
use crate::common::secs;

#[derive(Debug, Default)]
struct Store(BTreeMap<TaskId, (u32, Vec<u8>)>);

impl Store {
    /// Carries out what there is to do; `is_ok` decides about each save.
    fn work(&mut self, harness: &mut ServerHarness, is_ok: bool) -> usize {
        let mut count = 0;
        let now = harness.now;
        while let Some(effect) = harness.pipe.engine().tasks(now).poll_store() {
            count += 1;
            match effect {
                StoreEffect::Save { id, version, record } => {
                    if is_ok {
                        let before = self.0.insert(id.clone(), (version, record));
                        assert!(before.is_none_or(|(before, _)| before < version));
                    }
                    harness.pipe.engine().tasks(now).handle_saved(&id, version, is_ok);
                }
                StoreEffect::Delete { id, version } => {
                    if is_ok {
                        self.0.remove(&id);
                    }
                    harness.pipe.engine().tasks(now).handle_deleted(&id, version, is_ok);
                }
                other => panic!("{other:?}"),
            }
        }
        harness.pump();
        count
    }

    /// Starts a server over the records.
    fn restart(&self) -> ServerHarness {
        let mut harness = harness_with(table().stored(), Chunker::Whole);
        let now = harness.now;
        for (_, record) in self.0.values() {
            assert!(harness.pipe.engine().tasks(now).load(record));
        }
        harness.pump();
        harness
    }
}

fn begin(harness: &mut ServerHarness, request: &Value) {
    let call = harness.expect_call_for(request);
    let now = harness.now;
    harness.pipe.engine().tasks(now).begin(&call, TaskOptions::new()).expect("room");
    harness.pump();
    harness.assert_nothing_sent();
}

fn get(harness: &mut ServerHarness, id: &str) -> Value {
    harness.feed_message(&modern(80, "tasks/get", json!({"taskId": id})));
    harness.expect_reply()["result"].clone()
}

// covers: TASK-109
#[test]
fn creation_start_and_outcome_are_durable_before_they_show() {
    let (mut harness, mut store) = (harness_with(table().stored(), Chunker::Whole), Store::default());
    begin(&mut harness, &modern_call(1));
    assert!(harness.has_no_events(), "the run waits, too");
    store.work(&mut harness, true);
    let id = harness.expect_reply()["result"]["taskId"].as_str().expect("an id").to_owned();
    let run = harness.expect_call();
    complete(&mut harness, &run, &dredged());
    assert_eq!(get(&mut harness, &id)["status"], "working", "the store does not have the outcome");
    // A save that fails is tried again, and reports nothing wrong meanwhile.
    store.work(&mut harness, false);
    assert_eq!(get(&mut harness, &id)["status"], "working");
    assert_eq!(store.work(&mut harness, true), 0, "not before its time");
    harness.advance(secs(1));
    store.work(&mut harness, true);
    assert_eq!(get(&mut harness, &id)["status"], "completed");
    let mut harness = store.restart();
    assert_eq!(get(&mut harness, &id)["result"]["content"], dredged()["content"]);
    assert!(harness.has_no_events());
    // Its record goes with it.
    harness.advance(secs(3_601));
    store.work(&mut harness, true);
    assert!(store.0.is_empty());
}

// covers: TASK-109
#[test]
fn creation_that_cannot_be_stored_fails() {
    let (mut harness, mut store) = (harness_with(table().stored(), Chunker::Whole), Store::default());
    begin(&mut harness, &modern_call(1));
    store.work(&mut harness, false);
    let answer = harness.expect_reply();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32_603)));
    let now = harness.now;
    assert!(harness.pipe.engine().tasks(now).is_empty());
    assert!(harness.has_no_events() && store.0.is_empty());
}

#[test]
fn task_that_had_not_run_runs_after_a_restart_and_one_that_had_fails() {
    let limits = mcp_proto::server::TaskLimits::new().max_running(1);
    let mut harness = harness_with(table().stored().limits(limits), Chunker::Whole);
    let mut store = Store::default();
    let mut ids = Vec::new();
    for at in 1..=2 {
        begin(&mut harness, &modern_call(at));
        store.work(&mut harness, true);
        ids.push(harness.expect_reply()["result"]["taskId"].as_str().expect("an id").to_owned());
        if at == 1 {
            assert!(harness.expect_call().is_task_run());
        }
    }
    assert!(harness.has_no_events(), "one at a time");
    let mut harness = store.restart();
    store.work(&mut harness, true);
    let failed = get(&mut harness, &ids[0]);
    assert_eq!(
        (&failed["status"], &failed["error"]["message"]),
        (&json!("failed"), &json!("the server was restarted while the task ran"))
    );
    let run = harness.expect_call();
    assert_eq!(run.task_id().expect("a run").as_str(), ids[1]);
    assert_eq!(run.tool_call().expect("a tool").arguments, br#"{"deep":true}"#);
    assert!(harness.has_no_events());
    complete(&mut harness, &run, &dredged());
    store.work(&mut harness, true);
    assert_eq!(get(&mut harness, &ids[1])["status"], "completed");
}

#[test]
fn questions_and_answers_survive_a_restart() {
    let (mut harness, mut store) = (harness_with(table().stored(), Chunker::Whole), Store::default());
    begin(&mut harness, &modern_call(1));
    store.work(&mut harness, true);
    let id = harness.expect_reply()["result"]["taskId"].as_str().expect("an id").to_owned();
    let run = harness.expect_call();
    harness.need_input(&run, &super::forms(&["a", "b"]), b"state").expect("possible");
    store.work(&mut harness, true);
    let answer = json!({"action": "decline"});
    harness.feed_message(&modern(2, "tasks/update", json!({"taskId": id, "inputResponses": {"a": answer}})));
    harness.expect_reply();
    store.work(&mut harness, true);
    let mut harness = store.restart();
    let asks = get(&mut harness, &id);
    assert_eq!(asks["inputRequests"].as_object().expect("a map").keys().collect::<Vec<_>>(), ["b"]);
    harness.feed_message(&modern(3, "tasks/update", json!({"taskId": id, "inputResponses": {"b": answer}})));
    harness.expect_reply();
    store.work(&mut harness, true);
    let again = harness.expect_call();
    assert_eq!((again.attempt(), again.state()), (1, Some(&b"state"[..])));
    assert!(again.answer("a").is_some() && again.answer("b").is_some());
}

// covers: TASK-028, TASK-029
#[test]
fn cancellation_is_durable_before_its_answer() {
    let (mut harness, mut store) = (harness_with(table().stored(), Chunker::Whole), Store::default());
    harness.open_session_with(LEGACY, &json!({}));
    begin(&mut harness, &legacy_call(1));
    store.work(&mut harness, true);
    let id = harness.expect_reply()["result"]["task"]["taskId"].as_str().expect("an id").to_owned();
    let run = harness.expect_call();
    harness.feed_message(&task_request(2, "tasks/cancel", &id));
    harness.assert_nothing_sent();
    harness.expect_cancelled(&run);
    store.work(&mut harness, true);
    let sent = harness.take_sent();
    let answer = sent.iter().find(|m| m["id"] == 2).expect("an answer");
    assert_eq!(answer["result"]["status"], "cancelled");
    // Without its session, the id gives access.
    let mut harness = store.restart();
    harness.open_session_with(LEGACY, &json!({}));
    harness.feed_message(&task_request(3, "tasks/get", &id));
    assert_eq!(harness.expect_reply()["result"]["status"], "cancelled");
}

#[test]
fn damaged_records_are_refused() {
    let (mut harness, mut store) = (harness_with(table().stored(), Chunker::Whole), Store::default());
    begin(&mut harness, &modern_call(1));
    store.work(&mut harness, true);
    harness.expect_reply();
    let run = harness.expect_call();
    harness.need_input(&run, &form("a"), b"state").expect("possible");
    store.work(&mut harness, true);
    let (_, record) = store.0.values().next().expect("a record").clone();
    let mut fresh = harness_with(table().stored(), Chunker::Whole);
    let now = fresh.now;
    for end in 0..record.len() {
        assert!(!fresh.pipe.engine().tasks(now).load(&record[..end]), "{end}");
    }
    for at in 0..record.len() {
        let mut changed = record.clone();
        changed[at] ^= 0x55;
        let _ = fresh.pipe.engine().tasks(now).load(&changed);
    }
    assert!(!fresh.pipe.engine().tasks(now).load(&[&record[..], b"x"].concat()));
}
