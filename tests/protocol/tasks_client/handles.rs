//! Handles of tasks, and the commands that take one.

use mcp_proto::client::{Peer, StartedTask, TaskHandle, TaskRequest, ToolTasks};
use mcp_proto::model::{ElicitResult, InputResponse, InputResponses};
use mcp_proto::{CallError, CallOptions, Change, UseError, VersionSet};
use mcp_tests::harness::ClientHarness;
use mcp_tests::harness::build::{error_response, raw, result_response};
use serde_json::json;

use super::{
    answer_poll, config, content, created, expect_task, legacy, legacy_state, modern, modern_with, state,
    text,
};
use crate::protocol::common::{client, ms, secs};

fn peer(harness: &mut ClientHarness) -> Peer {
    harness.pipe.engine().peer().expect("ready").clone()
}

fn handle(harness: &mut ClientHarness) -> TaskHandle {
    TaskHandle::new(&peer(harness), "dredge", "t-9".into())
}

// covers: TASK-114, TASK-131
#[test]
fn started_task_gives_a_handle_that_another_process_takes_up() {
    let mut harness = modern();
    let (now, engine) = (harness.now, harness.pipe.engine());
    let call = engine
        .call_tool_as_task(now, "dredge", &json!({}), TaskRequest::detached(), &CallOptions::new())
        .expect("a call");
    let request = harness.expect_request("tools/call");
    harness.feed_message(&result_response(&request, created(json!({}))));
    let result = harness.expect_done(call).expect("a task");
    let started = StartedTask::from_result(&peer(&mut harness), "dredge", &result).expect("a task");
    let StartedTask::Task(task) = started else { panic!("{started:?}") };
    let shown = format!("{task:?}");
    assert!(!shown.contains("t-9") && shown.contains("tool: \"dredge\""), "{shown}");
    harness.advance(secs(60));
    harness.assert_idle();
    // Another process.
    let task = TaskHandle::parse(&task.to_text()).expect("a handle");
    assert_eq!((task.tool(), task.server()), ("dredge", Some("tide-server")));
    let mut harness = modern();
    let call = harness.pipe.engine().wait_task(harness.now, &task, &CallOptions::new()).expect("a call");
    answer_poll(&mut harness, state("working", json!({"statusMessage": "half"})));
    expect_task(&mut harness, call, "working");
    harness.advance(ms(500));
    answer_poll(&mut harness, state("completed", json!({"result": content()})));
    expect_task(&mut harness, call, "completed");
    assert_eq!(text(&harness.expect_done(call).expect("a result")), content());
    // The result can be read twice.
    let call = harness.pipe.engine().wait_task(harness.now, &task, &CallOptions::new()).expect("a call");
    answer_poll(&mut harness, state("completed", json!({"result": content()})));
    expect_task(&mut harness, call, "completed");
    assert_eq!(text(&harness.expect_done(call).expect("a result")), content());
}

// covers: TASK-124
#[test]
fn waits_end_without_cancelling_the_task() {
    let mut harness = modern();
    let task = handle(&mut harness);
    let options = CallOptions::new().total_timeout(secs(1));
    let first = harness.pipe.engine().wait_task(harness.now, &task, &options).expect("a call");
    answer_poll(&mut harness, state("working", json!({"pollIntervalMs": 4_000})));
    let second = harness.pipe.engine().wait_task(harness.now, &task, &CallOptions::new()).expect("a call");
    answer_poll(&mut harness, state("working", json!({"pollIntervalMs": 4_000})));
    harness.advance(secs(1));
    harness.pipe.engine().cancel(harness.now, second, None).expect("open");
    let ends = harness.take_event_texts();
    assert_eq!(
        ends.iter().filter(|text| text.contains("Done") || text.contains("done")).count(),
        2,
        "{ends:?}"
    );
    harness.advance(secs(600));
    harness.assert_idle();
    let _ = first;
    // Unknown from the start.
    let call = harness.pipe.engine().wait_task(harness.now, &task, &CallOptions::new()).expect("a call");
    let poll = harness.expect_request("tasks/get");
    harness.feed_message(&error_response(&poll, -32602, "unknown", json!(null)));
    let error = harness.expect_done(call).expect_err("no task");
    assert!(matches!(error, CallError::TaskLost(_)), "{error:?}");
}

// covers: TASK-028, TASK-111, TASK-117, TASK-122
#[test]
fn handle_is_read_answered_and_cancelled() {
    let mut harness = modern();
    let task = handle(&mut harness);
    let options = CallOptions::new();
    let call = harness.pipe.engine().get_task(harness.now, &task, &options).expect("a call");
    answer_poll(&mut harness, state("working", json!({})));
    assert_eq!(text(&harness.expect_done(call).expect("a state"))["status"], "working");
    let responses: InputResponses<'_> =
        [(String::from("a"), InputResponse::from(ElicitResult::decline()))].into_iter().collect();
    let call = harness.pipe.engine().update_task(harness.now, &task, &responses, &options).expect("a call");
    let update = harness.expect_request("tasks/update");
    assert_eq!(update["params"]["inputResponses"], json!({"a": {"action": "decline"}}));
    harness.feed_message(&result_response(&update, json!({"resultType": "complete"})));
    harness.expect_done(call).expect("confirmed");
    let call = harness.pipe.engine().cancel_task(harness.now, &task, &options).expect("a call");
    let cancel = harness.expect_request("tasks/cancel");
    harness.feed_message(&result_response(&cancel, json!({"resultType": "complete"})));
    harness.expect_done(call).expect("confirmed");
    // 2025-11-25
    let mut harness = legacy();
    let task = handle(&mut harness);
    let call = harness.pipe.engine().get_task(harness.now, &task, &options).expect("a call");
    answer_poll(&mut harness, legacy_state("working", json!({})));
    assert_eq!(text(&harness.expect_done(call).expect("a state"))["status"], "working");
    let refused = harness.pipe.engine().update_task(harness.now, &task, &responses, &options);
    assert!(matches!(refused, Err(UseError::NotInVersion { .. })), "{refused:?}");
    let call = harness.pipe.engine().cancel_task(harness.now, &task, &options).expect("a call");
    let cancel = harness.expect_request("tasks/cancel");
    harness.feed_message(&error_response(&cancel, -32602, "it has ended", json!(null)));
    harness.expect_done(call).expect_err("it has ended");
}

#[test]
fn handle_of_another_server_or_form_is_refused() {
    let mut harness = modern();
    let text = handle(&mut harness).to_text();
    for (from, to, expected) in [
        ("tide-server", "other", "the server `other`"),
        ("2026-07-28", "2025-11-25", "created in 2025-11-25"),
    ] {
        let task = TaskHandle::parse(&text.replace(from, to)).expect("a handle");
        let refused =
            harness.pipe.engine().wait_task(harness.now, &task, &CallOptions::new()).expect_err("foreign");
        assert!(refused.to_string().contains(expected), "{refused}");
    }
    for (text, expected) in [
        (String::new(), "no such JSON object"),
        (text.replace("2026-07-28", "2025-06-18"), "no tasks"),
        (text.replace("2026-07-28", "tomorrow"), "no tasks"),
        (text.replace("t-9", ""), "is empty"),
        (text.replace("t-9", &"x".repeat(2_000)), "longer than 1024 bytes"),
        (text.replace("dredge", &"x".repeat(20_000)), "longer than"),
        (text.replace("\"t-9\"", "99"), "no such JSON object"),
    ] {
        let error = TaskHandle::parse(&text).expect_err("no handle").to_string();
        assert!(error.contains(expected), "{error}");
    }
    // The longest text of a handle.
    let longest = format!("{text}{}", " ".repeat((16 << 10) - text.len()));
    assert!(TaskHandle::parse(&longest).is_ok() && TaskHandle::parse(&(longest + " ")).is_err());
    let task = handle(&mut harness);
    let mut plain = modern_with(client(VersionSet::ALL));
    let refused = plain.pipe.engine().get_task(plain.now, &task, &CallOptions::new());
    assert!(matches!(refused, Err(UseError::NotDeclared(_))), "{refused:?}");
    let mut new = ClientHarness::client(config(), mcp_tests::harness::Chunker::Whole);
    let refused = new.pipe.engine().get_task(new.now, &task, &CallOptions::new());
    assert_eq!(refused, Err(UseError::NotReady));
}

// covers: TASK-004, TOOL-011, TASK-005, TASK-006, TASK-007
#[test]
fn list_of_tools_tells_which_may_run_as_tasks() {
    let tools = ["required", "optional", "forbidden"].map(|support| {
        raw(&json!({"name": support, "inputSchema": {"type": "object"}, "execution": {"taskSupport": support}}))
    });
    let plain = raw(&json!({"name": "plain", "inputSchema": {"type": "object"}}));
    let tools: Vec<_> = tools.into_iter().chain([plain]).collect();
    let mut known = ToolTasks::for_peer(&peer(&mut legacy()));
    let wanted = TaskRequest::detached();
    assert!(known.needs_list());
    assert_eq!(known.request("required", Some(wanted)), None);
    known.set_tools(&tools);
    assert!(!known.needs_list());
    for (tool, plainly, as_task) in [
        ("required", Some(TaskRequest::followed()), Some(wanted)),
        ("optional", None, Some(wanted)),
        ("forbidden", None, None),
        ("plain", None, None),
        ("unknown", None, None),
    ] {
        assert_eq!(
            (known.request(tool, None), known.request(tool, Some(wanted))),
            (plainly, as_task),
            "{tool}"
        );
    }
    // A megabyte of names is kept.
    let named = |length: usize, letter: &str| {
        raw(
            &json!({"name": letter.repeat(length), "inputSchema": {}, "execution": {"taskSupport": "required"}}),
        )
    };
    let half = ToolTasks::MAX_BYTES / 2;
    known.set_tools(&[named(half, "a"), named(half, "b"), named(1, "c")]);
    let is_known = |letter: &str, length: usize| known.request(&letter.repeat(length), None).is_some();
    assert_eq!([is_known("a", half), is_known("b", half), is_known("c", 1)], [true, true, false]);
    known.handle_change(&Change::Prompts);
    assert!(!known.needs_list());
    // A list that was requested before a change does not apply.
    let before = known.generation();
    known.handle_change(&Change::Tools);
    assert!(known.needs_list() && !known.set_listed(before, &tools) && known.needs_list());
    assert!(known.set_listed(known.generation(), &tools[1..]) && !known.needs_list());
    assert_eq!(known.request("required", Some(wanted)), None);
    known.handle_change(&Change::Tools);
    assert!(known.needs_list());
    // A modern server decides by itself, and one without tasks runs none.
    for (mut harness, expected) in
        [(modern(), Some(wanted)), (super::legacy_with(config(), &json!({})), None)]
    {
        let mut known = ToolTasks::for_peer(&peer(&mut harness));
        known.set_tools(&tools);
        assert!(!known.needs_list() && known.request("required", None).is_none());
        assert_eq!(known.request("required", Some(wanted)), expected);
    }
}
