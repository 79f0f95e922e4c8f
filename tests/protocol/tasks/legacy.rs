//! Tasks of 2025-11-25 on a byte stream.

use mcp_proto::server::{CancelReason, Event, TaskLimits, TaskOptions};
use mcp_proto::{CallError, Progress, RpcError, SendStatus, UseError, Version};
use mcp_tests::harness::build::{initialize_request, legacy_request, notification, result_response};
use mcp_tests::harness::{Chunker, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use super::{
    LEGACY, begin, complete, dredged, form, harness_with, legacy_call, legacy_harness, refusal, table,
    task_request,
};
use crate::protocol::common::secs;

fn related(id: &str) -> Value {
    json!({"io.modelcontextprotocol/related-task": {"taskId": id}})
}

// covers: TASK-001, TASK-002
#[test]
fn server_declares_tasks_in_the_form_of_the_revision() {
    for version in Version::ALL.into_iter().filter(|v| *v < Version::V2026_07_28) {
        let mut harness = harness_with(table(), Chunker::Whole);
        harness.feed_message(&initialize_request(0, version.as_str()));
        let capabilities = harness.expect_reply()["result"]["capabilities"].clone();
        let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        let expected = if version == LEGACY { tasks } else { Value::Null };
        assert_eq!(capabilities["tasks"], expected, "{version}");
        assert_eq!(capabilities.get("extensions"), None, "{version}");
    }
}

// covers: TASK-009, TASK-013, TASK-014, TASK-015, TASK-016, TASK-017, TASK-018, TASK-019, TASK-024, TASK-025, TASK-026, META-023
#[test]
fn task_is_created_polled_and_collected() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(table(), cut);
        let call = harness.expect_call_for(&legacy_call(1));
        let now = harness.now;
        let options = TaskOptions::new().message("queued").poll_interval(secs(2));
        harness.pipe.engine().tasks(now).begin(&call, options).expect("room");
        harness.pump();
        let created = harness.expect_reply();
        let task = created["result"]["task"].clone();
        let id = task["taskId"].as_str().expect("an id").to_owned();
        assert_eq!(id.len(), 22);
        assert_eq!(
            task,
            json!({
                "taskId": id, "status": "working", "createdAt": "2026-08-01T10:00:00Z",
                "lastUpdatedAt": "2026-08-01T10:00:00Z", "ttl": 60_000, "pollInterval": 2_000, "statusMessage": "queued",
            })
        );
        assert_eq!(created["result"].as_object().expect("a result").len(), 1);
        let run = harness.expect_call();
        harness.advance(secs(5));
        harness.feed_message(&task_request(2, "tasks/get", &id));
        assert_eq!(harness.expect_reply()["result"], task);
        complete(&mut harness, &run, &dredged());
        let status = harness.expect_reply();
        assert_eq!(status["method"], "notifications/tasks/status");
        assert_eq!(status["params"]["status"], "completed");
        assert_eq!(status["params"]["lastUpdatedAt"], "2026-08-01T10:00:05Z");
        assert_eq!(status["params"].get("_meta"), None, "the parameter names the task");
        harness.feed_message(&task_request(3, "tasks/result", &id));
        let mut expected = dredged();
        expected["_meta"] = related(&id);
        assert_eq!(harness.expect_reply()["result"], expected);
        harness.feed_message(&legacy_request(4, "tasks/list", json!({})));
        let page = harness.expect_reply()["result"].clone();
        assert_eq!(page, json!({"tasks": [status["params"]]}));
        harness.assert_idle();
        harness.transcript
    });
}

// covers: TASK-005, TASK-006, TASK-007, TASK-010
#[test]
fn plain_calls_and_forbidden_tools_are_refused_as_the_tool_says() {
    let mut harness = legacy_harness(table(), Chunker::Whole);
    let plain = legacy_request(1, "tools/call", json!({"name": "dredge"}));
    let call = harness.expect_call_for(&plain);
    let now = harness.now;
    let refused = harness.pipe.engine().tasks(now).begin(&call, TaskOptions::new());
    assert!(matches!(refused, Err(UseError::MissingPeerCapability(_))), "{refused:?}");
    let answer = harness.fail(call.id(), &call.task_required_error());
    assert_eq!(answer["error"]["code"], -32_601);
    assert!(answer["error"]["message"].as_str().expect("text").contains("must be called as a task"));
    let call = harness.expect_call_for(&legacy_call(2));
    assert_eq!(harness.fail(call.id(), &call.task_forbidden_error())["error"]["code"], -32_601);
    // A server without tasks ignores the member.
    let mut without = ServerHarness::server(super::config(), Chunker::Whole);
    without.open_session(LEGACY);
    let call = without.expect_call_for(&legacy_call(3));
    assert_eq!(call.task_offer(), mcp_proto::server::TaskOffer::None);
    assert_eq!(without.complete(call.id(), &dredged())["result"], dredged());
    for method in ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"] {
        assert_eq!(
            refusal(&mut without, &task_request(4, method, "x"))["error"]["code"],
            -32_601,
            "{method}"
        );
    }
    // An older revision has no tasks.
    let mut older = harness_with(table(), Chunker::Whole);
    older.open_session(Version::V2025_06_18);
    assert_eq!(refusal(&mut older, &task_request(4, "tasks/get", "x"))["error"]["code"], -32_601);
    let call = older.expect_call_for(&legacy_call(5));
    assert_eq!(call.task_offer(), mcp_proto::server::TaskOffer::None);
}

// covers: TASK-020, TASK-032
#[test]
fn result_is_waited_for_and_failures_are_the_answer_of_the_request() {
    let mut harness = legacy_harness(table(), Chunker::Whole);
    let (id, run) = begin(&mut harness, &legacy_call(1));
    harness.feed_message(&task_request(2, "tasks/result", &id));
    harness.advance(secs(30));
    harness.assert_idle();
    let now = harness.now;
    harness.pipe.engine().fail(now, run.id(), &RpcError::new(7, "pump broke")).expect("open");
    harness.pump();
    let sent = harness.take_sent();
    assert_eq!(sent[0]["error"], json!({"code": 7, "message": "pump broke"}));
    assert_eq!(
        (&sent[1]["params"]["status"], &sent[1]["params"]["statusMessage"]),
        (&json!("failed"), &json!("pump broke"))
    );
    // A result that reports a failure makes the task fail, and is the result all the same.
    let (id, run) = begin(&mut harness, &legacy_call(3));
    let failure = json!({"content": [], "isError": true, "_meta": {"org.example/a": 1}});
    complete(&mut harness, &run, &failure);
    assert_eq!(harness.expect_reply()["params"]["status"], "failed");
    harness.feed_message(&task_request(4, "tasks/result", &id));
    let result = harness.expect_reply()["result"].clone();
    assert_eq!((&result["isError"], &result["_meta"]["org.example/a"]), (&json!(true), &json!(1)));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id.as_str());
}

// covers: TASK-021, TASK-022, TASK-023
#[test]
fn questions_are_asked_on_the_stream_of_the_result() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(table(), cut);
        let (id, run) = begin(&mut harness, &legacy_call(1));
        harness.need_input(&run, &form("basin"), b"half").expect("possible");
        let status = harness.expect_reply();
        assert_eq!(status["params"]["status"], "input_required");
        harness.feed_message(&task_request(2, "tasks/get", &id));
        assert_eq!(harness.expect_reply()["result"]["status"], "input_required");
        harness.feed_message(&task_request(3, "tasks/result", &id));
        let question = harness.expect_reply();
        assert_eq!(question["method"], "elicitation/create");
        assert_eq!(question["params"]["_meta"], related(&id));
        harness.feed_message(&result_response(
            &question,
            json!({"action": "accept", "content": {"basin": "east"}}),
        ));
        assert_eq!(harness.expect_reply()["params"]["status"], "working");
        let again = harness.expect_call();
        assert_eq!((again.attempt(), again.state()), (1, Some(&b"half"[..])));
        let answer = again.answer("basin").expect("an answer").expect("given");
        assert_eq!(answer.as_str(), r#"{"action":"accept","content":{"basin":"east"}}"#);
        complete(&mut harness, &again, &dredged());
        let sent = harness.take_sent();
        assert_eq!((&sent[0]["id"], &sent[0]["result"]["content"]), (&json!(3), &dredged()["content"]));
        assert_eq!(sent[1]["params"]["status"], "completed");
        harness.assert_idle();
        harness.transcript
    });
}

// covers: TASK-021, TASK-022
#[test]
fn capabilities_of_the_client_that_collects_decide_what_can_be_asked() {
    let mut harness = harness_with(table(), Chunker::Whole);
    harness.open_session_with(LEGACY, &json!({}));
    let (id, run) = begin(&mut harness, &legacy_call(1));
    harness.need_input(&run, &form("basin"), b"").expect("kept until somebody collects");
    assert_eq!(harness.expect_reply()["params"]["status"], "input_required");
    harness.feed_message(&task_request(2, "tasks/result", &id));
    let again = harness.expect_call();
    let refused = again.answer("basin").expect("an outcome").expect_err("nobody can answer");
    assert!(matches!(refused, CallError::Refused(UseError::MissingPeerCapability(_))), "{refused:?}");
}

// covers: TASK-028, TASK-029, TASK-030, TASK-031
#[test]
fn cancelled_task_stays_cancelled_and_ended_one_cannot_be_cancelled() {
    let mut harness = legacy_harness(table(), Chunker::Whole);
    let (id, run) = begin(&mut harness, &legacy_call(1));
    harness.feed_message(&task_request(2, "tasks/result", &id));
    harness.feed_message(&task_request(3, "tasks/cancel", &id));
    let sent = harness.take_sent();
    assert_eq!(sent[0]["error"]["code"], -32_603, "{sent:?}");
    assert_eq!(sent[1]["params"]["status"], "cancelled");
    assert_eq!((&sent[2]["id"], &sent[2]["result"]["status"]), (&json!(3), &json!("cancelled")));
    assert_eq!(harness.expect_cancelled(&run), CancelReason::Client(None));
    let now = harness.now;
    assert_eq!(harness.pipe.engine().complete(now, run.id(), &dredged()), Err(UseError::Stale));
    let error = refusal(&mut harness, &task_request(4, "tasks/cancel", &id));
    assert_eq!(
        (&error["error"]["code"], &error["error"]["message"]),
        (&json!(-32_602), &json!("the task is already cancelled"))
    );
    let (ended, run) = begin(&mut harness, &legacy_call(5));
    complete(&mut harness, &run, &dredged());
    harness.take_sent();
    assert_eq!(
        refusal(&mut harness, &task_request(6, "tasks/cancel", &ended))["error"]["message"],
        "the task is already completed"
    );
}

// covers: TASK-031, TASK-034, TASK-124
#[test]
fn unknown_expired_and_malformed_ids_are_answered_alike() {
    let mut harness = legacy_harness(table(), Chunker::Whole);
    let (id, run) = begin(&mut harness, &legacy_call(1));
    harness.advance(secs(60));
    assert_eq!(harness.expect_cancelled(&run), CancelReason::Expired);
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        for unknown in [&*id, "", "AAAAAAAAAAAAAAAAAAAAAA", &"x".repeat(65_536)] {
            let answer = refusal(&mut harness, &task_request(2, method, unknown));
            assert_eq!(
                answer["error"],
                json!({"code": -32_602, "message": "the task does not exist"}),
                "{method}"
            );
        }
        let wrong = json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": {"taskId": 5}});
        assert_eq!(refusal(&mut harness, &wrong)["error"]["code"], -32_602);
        let missing = legacy_request(4, method, json!({}));
        assert_eq!(refusal(&mut harness, &missing)["error"]["message"], "`params.taskId` is missing");
    }
}

// covers: TASK-008, TASK-016
#[test]
fn requested_ttl_is_checked_and_clamped() {
    let mut harness = legacy_harness(table(), Chunker::Whole);
    for (ttl, expected) in [
        (json!({}), Ok(3_600_000)),
        (json!({"ttl": null}), Ok(3_600_000)),
        (json!({"ttl": 1}), Ok(1)),
        (json!({"ttl": 1500.0}), Ok(1_500)),
        (json!({"ttl": 1500.9}), Ok(1_500)),
        (json!({"ttl": 0.5}), Ok(1)),
        (json!({"ttl": 315_360_000_000_u64}), Ok(86_400_000)),
        (json!({"ttl": 1e300}), Ok(86_400_000)),
        (json!({"ttl": 0.0}), Err("`params.task.ttl` is not a positive number of milliseconds")),
        (json!({"ttl": true}), Err("`params.task.ttl` is not a positive number of milliseconds")),
        (json!({"ttl": 0}), Err("`params.task.ttl` is not a positive number of milliseconds")),
        (json!({"ttl": -5}), Err("`params.task.ttl` is not a positive number of milliseconds")),
        (json!({"ttl": "5"}), Err("`params.task.ttl` is not a positive number of milliseconds")),
        (json!([]), Err("`params.task` is not an object")),
    ] {
        let request = legacy_request(
            1,
            "tools/call",
            json!({"name": "dredge", "arguments": {"deep": true}, "task": ttl}),
        );
        match expected {
            Ok(millis) => {
                let (id, run) = begin(&mut harness, &request);
                harness.feed_message(&task_request(2, "tasks/get", &id));
                assert_eq!(harness.expect_reply()["result"]["ttl"], millis, "{ttl}");
                complete(&mut harness, &run, &dredged());
                harness.take_sent();
            }
            Err(message) => {
                let answer = refusal(&mut harness, &request);
                assert_eq!(
                    (&answer["error"]["code"], &answer["error"]["message"]),
                    (&json!(-32_602), &json!(message))
                );
            }
        }
    }
}

// covers: TASK-033, PROG-014, PROG-015
#[test]
fn progress_goes_to_the_token_of_the_original_request() {
    let mut harness = legacy_harness(table(), Chunker::Whole);
    let mut request = legacy_call(1);
    request["params"]["_meta"] = json!({"progressToken": "p4"});
    let (id, run) = begin(&mut harness, &request);
    let now = harness.now;
    let engine = harness.pipe.engine();
    let report = |p| Progress::new(p).with_total(2.0).with_message("mud");
    assert_eq!(engine.progress(now, run.id(), report(1.0)), Ok(SendStatus::Queued));
    assert_eq!(engine.progress(now, run.id(), report(1.0)), Ok(SendStatus::Dropped), "it does not increase");
    harness.pump();
    let sent = harness.expect_reply();
    assert_eq!(
        sent["params"],
        json!({"progressToken": "p4", "progress": 1, "total": 2, "message": "mud", "_meta": related(&id)})
    );
    complete(&mut harness, &run, &dredged());
    harness.take_sent();
    let now = harness.now;
    assert_eq!(harness.pipe.engine().progress(now, run.id(), report(2.0)), Err(UseError::Stale));
}

// covers: TASK-033, PROG-007
#[test]
fn progress_of_a_run_goes_on_where_its_call_and_the_runs_before_ended() {
    let mut harness = legacy_harness(table(), Chunker::Whole);
    let mut request = legacy_call(1);
    request["params"]["_meta"] = json!({"progressToken": "p4"});
    let call = harness.expect_call_for(&request);
    let now = harness.now;
    let engine = harness.pipe.engine();
    assert_eq!(engine.progress(now, call.id(), Progress::new(1.0)), Ok(SendStatus::Queued));
    engine.tasks(now).begin(&call, TaskOptions::new()).expect("room");
    harness.pump();
    let sent = harness.take_sent();
    assert_eq!(sent.len(), 2, "progress, and the task: {sent:?}");
    let mut run = harness.expect_call();
    for (seen, next) in [(1.0, 2.0), (2.0, 3.0)] {
        let engine = harness.pipe.engine();
        assert_eq!(engine.progress(now, run.id(), Progress::new(seen)), Ok(SendStatus::Dropped));
        assert_eq!(engine.progress(now, run.id(), Progress::new(next)), Ok(SendStatus::Queued));
        harness.pump();
        assert_eq!(harness.expect_reply()["params"]["progress"], next);
        if next < 3.0 {
            harness.need_input(&run, &form("who"), b"").expect("the client can answer");
            harness.take_sent();
            harness.feed_message(&legacy_request(
                9,
                "tasks/result",
                json!({"taskId": run.task_id().expect("a run").as_str()}),
            ));
            let sent = harness.take_sent();
            let asked = sent.iter().find(|message| message["method"] == "elicitation/create");
            harness.feed_message(&result_response(asked.expect("a question"), json!({"action": "decline"})));
            run = harness.expect_call();
            harness.take_sent();
        }
    }
}

// covers: TASK-026, TASK-027, TASK-031, TASK-036
#[test]
fn list_has_pages_and_each_task_once() {
    let limits = TaskLimits::new().max_running(1).max_tasks_per_owner(121);
    let mut harness = legacy_harness(table().limits(limits), Chunker::Whole);
    let mut ids = Vec::new();
    let mut runs = Vec::new();
    for id in 0..121 {
        let call = harness.expect_call_for(&legacy_call(id));
        let now = harness.now;
        harness.pipe.engine().tasks(now).begin(&call, TaskOptions::new()).expect("room");
        harness.pump();
        ids.push(harness.expect_reply()["result"]["task"]["taskId"].clone());
        if id == 0 {
            runs.push(harness.expect_call());
        }
    }
    assert!(harness.has_no_events(), "the others wait for their turn");
    let call = harness.expect_call_for(&legacy_call(500));
    let now = harness.now;
    let refused = harness.pipe.engine().tasks(now).begin(&call, TaskOptions::new());
    assert!(matches!(refused, Err(UseError::Full(_))));
    harness.complete(call.id(), &dredged());
    let (mut listed, mut cursor, mut pages) = (Vec::new(), Value::Null, Vec::new());
    loop {
        harness.feed_message(&legacy_request(600, "tasks/list", json!({"cursor": cursor, "other": 1})));
        let page = harness.expect_reply()["result"].clone();
        let tasks = page["tasks"].as_array().expect("a page");
        listed.extend(tasks.iter().map(|task| task["taskId"].clone()));
        pages.push(tasks.len());
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!((listed, pages), (ids, vec![50, 50, 21]));
    for wrong in ["", "x", "1.2", "1.2.3.4", "-1.0.0"] {
        let answer = refusal(&mut harness, &legacy_request(700, "tasks/list", json!({"cursor": wrong})));
        assert_eq!(answer["error"]["code"], -32_602, "{wrong}");
    }
    // The next one runs when the first has ended.
    complete(&mut harness, &runs[0], &dredged());
    assert!(harness.expect_call().is_task_run());
}

// covers: TASK-025, TASK-036
#[test]
fn messages_are_told_at_most_once_a_second() {
    let mut harness = legacy_harness(table(), Chunker::Whole);
    let (id, run) = begin(&mut harness, &legacy_call(1));
    for step in 0..20 {
        let now = harness.now;
        assert!(harness.pipe.engine().tasks(now).working(run.id(), &format!("step {step}")));
        harness.advance(core::time::Duration::from_millis(100));
    }
    let sent = harness.take_sent();
    assert!((2..=3).contains(&sent.len()), "{sent:?}");
    harness.feed_message(&task_request(2, "tasks/get", &id));
    assert_eq!(harness.expect_reply()["result"]["statusMessage"], "step 19");
    let now = harness.now;
    assert!(!harness.pipe.engine().tasks(now).working(run.id(), "step 19"), "the same");
    assert!(harness.pipe.engine().tasks(now).working(run.id(), &"ü".repeat(2_000)));
    harness.take_sent();
    harness.feed_message(&task_request(3, "tasks/get", &id));
    let message = harness.expect_reply()["result"]["statusMessage"].as_str().expect("text").to_owned();
    assert_eq!(message, "ü".repeat(512));
}

// covers: CANC-009
#[test]
fn notification_does_not_cancel_a_task() {
    let mut harness = legacy_harness(table(), Chunker::Whole);
    let (id, run) = begin(&mut harness, &legacy_call(1));
    harness.feed_message(&notification("notifications/cancelled", json!({"requestId": 1})));
    assert!(matches!(harness.expect_event(), Event::Diagnostic { .. }), "the request was answered");
    complete(&mut harness, &run, &dredged());
    assert_eq!(harness.expect_reply()["params"]["status"], "completed");
    harness.feed_message(&task_request(2, "tasks/get", &id));
    assert_eq!(harness.expect_reply()["result"]["status"], "completed");
}
