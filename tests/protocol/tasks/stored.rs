//! Tasks with a store: what is durable before it shows, and what a restart keeps.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use mcp_proto::model::TaskId;
use mcp_proto::server::{
    Authorization, Engine, Event, Identity, StoreEffect, TaskLimits, TaskOptions, TaskRecordError,
};
use mcp_proto::{Instant, Limits, UseError};
use mcp_tests::harness::{Chunker, ServerHarness};
use serde_json::{Value, json};

use super::{
    LEGACY, complete, dredged, form, harness_with, legacy_call, modern, modern_call, table, task_request,
};
use crate::protocol::common::secs;

#[derive(Debug, Default)]
pub(super) struct Store(pub(super) BTreeMap<TaskId, (u32, Vec<u8>)>);

impl Store {
    /// Carries out what there is to do; `is_ok` decides about each save.
    pub(super) fn work(&mut self, harness: &mut ServerHarness, is_ok: bool) -> usize {
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

    /// Carries out the next save alone.
    fn save_one(&mut self, harness: &mut ServerHarness) {
        let now = harness.now;
        let effect = harness.pipe.engine().tasks(now).poll_store();
        let Some(StoreEffect::Save { id, version, record }) = effect else { panic!("{effect:?}") };
        self.0.insert(id.clone(), (version, record));
        harness.pipe.engine().tasks(now).handle_saved(&id, version, true);
        harness.pump();
    }

    /// Starts a server over the records.
    pub(super) fn restart(&self) -> ServerHarness {
        let mut harness = harness_with(table().stored(), Chunker::Whole);
        let now = harness.now;
        for (id, (_, record)) in &self.0 {
            assert_eq!(harness.pipe.engine().tasks(now).load(id, record), Ok(true));
        }
        harness.pump();
        harness
    }
}

pub(super) fn begin(harness: &mut ServerHarness, request: &Value) {
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
fn call_does_not_outlive_its_age_because_its_store_hangs() {
    let mut limits = Limits::default();
    limits.max_call_age = secs(30);
    let mut harness = ServerHarness::server(super::config().limits(limits), Chunker::Whole);
    let now = harness.now;
    harness.pipe.engine().set_tasks(now, table().stored());
    begin(&mut harness, &modern_call(1));
    // The store has begun with the record, and says nothing more.
    let effect = harness.pipe.engine().tasks(now).poll_store().expect("a record");
    let StoreEffect::Save { id, version, .. } = effect else { panic!("{effect:?}") };
    harness.advance(secs(29));
    harness.assert_nothing_sent();
    harness.advance(secs(1));
    let answer = harness.expect_reply();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32_603)));
    assert!(harness.has_no_events(), "no handler has the call");
    // The record that arrives late is removed again, because its client never got the id.
    let now = harness.now;
    harness.pipe.engine().tasks(now).handle_saved(&id, version, true);
    let effect = harness.pipe.engine().tasks(now).poll_store().expect("a deletion");
    assert!(matches!(effect, StoreEffect::Delete { .. }), "{effect:?}");
}

#[test]
fn task_that_had_not_run_runs_after_a_restart_and_one_that_had_fails() {
    let limits = TaskLimits::new().max_running(1);
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
fn task_whose_start_is_stored_during_the_shutdown_runs_after_the_restart() {
    let (mut harness, mut store) = (harness_with(table().stored(), Chunker::Whole), Store::default());
    begin(&mut harness, &modern_call(1));
    store.save_one(&mut harness);
    harness.take_sent();
    // It has its turn, of which the store does not know yet.
    let now = harness.now;
    harness.pipe.engine().shutdown(now, secs(1));
    store.save_one(&mut harness);
    let events = harness.take_event_texts();
    assert!(!events.iter().any(|event| event.contains("call")), "{events:?}");
    assert_eq!(store.work(&mut harness, true), 1, "it waits for its turn again");
    let mut harness = store.restart();
    store.work(&mut harness, true);
    let run = harness.expect_call();
    assert!(run.is_task_run());
    assert_eq!((run.attempt(), run.state()), (0, None));
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
    harness.assert_nothing_sent();
    store.work(&mut harness, true);
    harness.expect_reply();
    let mut harness = store.restart();
    let asks = get(&mut harness, &id);
    assert_eq!(asks["inputRequests"].as_object().expect("a map").keys().collect::<Vec<_>>(), ["b"]);
    harness.feed_message(&modern(3, "tasks/update", json!({"taskId": id, "inputResponses": {"b": answer}})));
    store.work(&mut harness, true);
    harness.expect_reply();
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
    let (id, (_, record)) = store.0.iter().next().expect("a record");
    let load = |harness: &mut ServerHarness, id: &TaskId, record: &[u8]| {
        let now = harness.now;
        harness.pipe.engine().tasks(now).load(id, record)
    };
    let mut fresh = harness_with(table().stored(), Chunker::Whole);
    for end in 0..record.len() {
        assert_eq!(load(&mut fresh, id, &record[..end]), Err(TaskRecordError::Damaged), "{end}");
    }
    assert_eq!(load(&mut fresh, id, &[&record[..], b"x"].concat()), Err(TaskRecordError::Damaged));
    let other_format = [&[record[0] + 1], &record[1..]].concat();
    assert_eq!(load(&mut fresh, id, &other_format), Err(TaskRecordError::UnknownFormat(record[0] + 1)));
    let revision = b"2026-07-28";
    let at = record.windows(revision.len()).position(|part| part == revision).expect("the revision");
    let mut other_revision = record.clone();
    other_revision[at..at + revision.len()].copy_from_slice(b"2099-01-01");
    assert_eq!(load(&mut fresh, id, &other_revision), Err(TaskRecordError::Damaged));
    for other in ["AAAAAAAAAAAAAAAAAAAAAA", "no id"] {
        assert_eq!(load(&mut fresh, &TaskId::new(other), record), Err(TaskRecordError::OtherTask));
    }
    let now = fresh.now;
    assert!(fresh.pipe.engine().tasks(now).is_empty() && fresh.has_no_events());
    // None of them is in the way of the record, which is there once.
    assert_eq!(load(&mut fresh, id, record), Ok(true));
    assert_eq!(load(&mut fresh, id, record), Err(TaskRecordError::Duplicate));
    assert_eq!(get(&mut fresh, id.as_str())["status"], "input_required");
    // A change of one bit is found, or gives another task that is whole.
    let mut fresh = harness_with(table().stored(), Chunker::Whole);
    for at in 0..record.len() {
        let mut changed = record.clone();
        changed[at] ^= 0x55;
        let _ = load(&mut fresh, id, &changed);
        let now = fresh.now;
        assert!(fresh.pipe.engine().tasks(now).len() <= 1);
    }
    let mut without = ServerHarness::server(super::config(), Chunker::Whole);
    assert_eq!(load(&mut without, id, record), Err(TaskRecordError::NoTasks));
}

// covers: TASK-034, TASK-036
#[test]
fn restored_tasks_keep_their_owner_and_are_there_beyond_the_limits() {
    let start = |limits: TaskLimits| {
        let mut engine = Engine::new(Arc::new(super::config()));
        engine.set_tasks(Instant::ZERO, table().stored().limits(limits));
        engine
    };
    let ask = |engine: &mut Engine, who: &str, message: &Value| {
        let channel = engine.open_channel(Instant::ZERO);
        engine.set_authorization(channel, Some(Authorization::new(Identity::new(who))));
        engine.handle_message(Instant::ZERO, channel, message.to_string().into());
        channel
    };
    let mut engine = start(TaskLimits::new().max_running(1));
    let mut records = Vec::new();
    for id in 0..3 {
        let channel = ask(&mut engine, "alice", &modern_call(id));
        let Some(Event::Call(call)) = engine.poll_event(Instant::ZERO) else { panic!("a call") };
        engine.tasks(Instant::ZERO).begin(&call, TaskOptions::new()).expect("room");
        while let Some(effect) = engine.tasks(Instant::ZERO).poll_store() {
            let StoreEffect::Save { id, version, record } = effect else { panic!("{effect:?}") };
            engine.tasks(Instant::ZERO).handle_saved(&id, version, true);
            records.push((id, record));
        }
        assert!(engine.outbox(channel).expect("open").pop_message().is_some());
        while engine.poll_event(Instant::ZERO).is_some() {}
    }
    let ids: BTreeSet<TaskId> = records.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(ids.len(), 3);
    let mut engine = start(TaskLimits::new().max_tasks(1).max_tasks_per_owner(1).max_bytes(1));
    for id in &ids {
        let (_, record) = records.iter().rfind(|(other, _)| other == id).expect("a record");
        assert_eq!(engine.tasks(Instant::ZERO).load(id, record), Ok(true), "nothing is lost");
    }
    for (who, sees) in [("alice", true), ("bob", false)] {
        for id in &ids {
            let channel = ask(&mut engine, who, &modern(9, "tasks/get", json!({"taskId": id})));
            let answer = engine.outbox(channel).expect("open").pop_message().expect("an answer");
            let answer: Value = serde_json::from_slice(&answer).expect("JSON");
            assert_eq!(answer.get("result").is_some(), sees, "{who}: {answer}");
        }
    }
    let _ = ask(&mut engine, "bob", &modern_call(10));
    while let Some(event) = engine.poll_event(Instant::ZERO) {
        let Event::Call(call) = event else { continue };
        if !call.is_task_run() {
            let refused = engine.tasks(Instant::ZERO).begin(&call, TaskOptions::new());
            assert!(matches!(refused, Err(UseError::Full(_))), "no room for a new one: {refused:?}");
        }
    }
}

/// The principal of a byte stream may change between a request and its task.
// covers: TASK-034
#[test]
fn task_belongs_to_the_principal_of_its_request() {
    let now = Instant::ZERO;
    let who = |name: Option<&str>| name.map(|name| Authorization::new(Identity::new(name)));
    for (asked, begun) in [(Some("alice"), Some("bob")), (Some("alice"), None), (None, Some("bob"))] {
        let mut engine = Engine::new(Arc::new(super::config()));
        engine.set_tasks(now, table());
        let channel = engine.open_channel(now);
        engine.set_authorization(channel, who(asked));
        engine.handle_message(now, channel, modern_call(1).to_string().into());
        let Some(Event::Call(call)) = engine.poll_event(now) else { panic!("a call") };
        engine.set_authorization(channel, who(begun));
        engine.tasks(now).begin(&call, TaskOptions::new()).expect("room");
        let created = engine.outbox(channel).expect("open").pop_message().expect("an answer");
        let created: Value = serde_json::from_slice(&created).expect("JSON");
        let id = created["result"]["taskId"].clone();
        for reader in [Some("alice"), Some("bob"), None] {
            engine.set_authorization(channel, who(reader));
            let get = modern(9, "tasks/get", json!({"taskId": id}));
            engine.handle_message(now, channel, get.to_string().into());
            let answer = engine.outbox(channel).expect("open").pop_message().expect("an answer");
            let answer: Value = serde_json::from_slice(&answer).expect("JSON");
            // Without a principal it belongs to whoever knows its id.
            let sees = asked.is_none() || reader == asked;
            assert_eq!(answer.get("result").is_some(), sees, "{asked:?} {begun:?} {reader:?}: {answer}");
        }
    }
}
