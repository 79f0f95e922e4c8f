//! Sessions that end, and streams that their clients leave.

use mcp_proto::http::server::Config;
use mcp_proto::model::{InputRequest, InputRequests};
use mcp_proto::server::{CancelReason, Event, TaskLimits, TaskOptions};
use mcp_proto::{CallError, Capability, UseError};
use mcp_tests::harness::{Chunker, HttpServerHarness};
use serde_json::json;

use super::over_http::{begin as begin_over_http, harness as http_harness, open_session, post};
use super::stored::Store;
use super::{LEGACY, begin, dredged, form, harness_with, legacy_call, legacy_harness, table, task_request};
use crate::protocol::common::secs;

// covers: TASK-034, TASK-036
#[test]
fn task_of_a_session_ends_after_the_grace_period_of_its_connection() {
    let mut harness = legacy_harness(table(), Chunker::Whole);
    let (_, run) = begin(&mut harness, &legacy_call(1));
    let (_, waiting) = begin(&mut harness, &legacy_call(2));
    harness.need_input(&waiting, &form("basin"), b"").expect("possible");
    harness.eof();
    let events = harness.take_event_texts();
    assert!(!events.iter().any(|event| event.contains("cancelled")), "{events:?}");
    let now = harness.now;
    assert!(harness.pipe.engine().tasks(now).working(run.id(), "alone"));
    harness.advance(secs(6));
    assert_eq!(harness.expect_cancelled(&run), CancelReason::Disconnected);
    let now = harness.now;
    let engine = harness.pipe.engine();
    assert!(engine.tasks(now).is_empty(), "nothing is kept for a client that cannot come back");
    assert_eq!(engine.complete(now, run.id(), &dredged()), Err(UseError::Stale));
}

// covers: TASK-034
#[test]
fn record_of_a_task_goes_with_its_session_unless_the_server_is_shut_down() {
    for is_shut_down in [false, true] {
        let (mut harness, mut store) = (harness_with(table().stored(), Chunker::Whole), Store::default());
        harness.open_session_with(LEGACY, &json!({}));
        super::stored::begin(&mut harness, &legacy_call(1));
        store.work(&mut harness, true);
        harness.expect_reply();
        let run = harness.expect_call();
        harness.eof();
        if is_shut_down {
            let now = harness.now;
            harness.pipe.engine().shutdown(now, secs(60));
        }
        harness.advance(secs(6));
        let events = harness.take_event_texts();
        assert_eq!(events.iter().any(|event| event.contains("cancelled")), !is_shut_down, "{events:?}");
        store.work(&mut harness, true);
        assert_eq!(store.0.len(), usize::from(is_shut_down), "the next process reports the task");
        let now = harness.now;
        let outcome = harness.pipe.engine().complete(now, run.id(), &dredged());
        assert_eq!(outcome.is_ok(), is_shut_down);
    }
}

// covers: TASK-034, HTTP-073
#[test]
fn deleted_session_ends_its_tasks_and_answers_those_who_wait() {
    let mut web = http_harness(Config::new());
    let (mine, other) = (open_session(&mut web), open_session(&mut web));
    let (id, run) = begin_over_http(&mut web, &mine);
    let (_, kept) = begin_over_http(&mut web, &other);
    let blocked = post(&mut web, &mine, &task_request(3, "tasks/result", &id));
    assert!(!web.response(blocked).is_complete);
    web.send_request("DELETE", "/mcp", &[("Mcp-Session-Id", &mine)], "");
    web.transmit_all();
    let answer = web.response(blocked).message();
    assert_eq!(
        (&answer["id"], &answer["error"]),
        (&json!(3), &json!({"code": -32_603, "message": "the session has ended"}))
    );
    assert!(web.response(blocked).is_complete);
    let mut cancelled = Vec::new();
    while let Some(event) = web.poll_event() {
        if let Event::Cancelled { call, reason } = event {
            cancelled.push((call, reason));
        }
    }
    assert_eq!(cancelled, [(run.id(), CancelReason::Disconnected)]);
    let now = web.now;
    assert_eq!(web.server.engine().tasks(now).len(), 1);
    web.server.engine().complete(now, kept.id(), &dredged()).expect("that of the other session");
}

// covers: TASK-034
#[test]
fn session_that_is_deleted_during_the_shutdown_leaves_its_tasks_to_the_next_process() {
    let mut web = http_harness(Config::new());
    let session = open_session(&mut web);
    let (_, run) = begin_over_http(&mut web, &session);
    web.server.shutdown(web.now, secs(60));
    web.send_request("DELETE", "/mcp", &[("Mcp-Session-Id", &session)], "");
    while let Some(event) = web.poll_event() {
        assert!(!matches!(event, Event::Cancelled { .. }), "{event:?}");
    }
    let now = web.now;
    web.server.engine().complete(now, run.id(), &dredged()).expect("the run goes on");
}

// covers: TASK-038
#[test]
fn left_stream_of_a_result_frees_its_place_and_the_task_goes_on() {
    let mut web = HttpServerHarness::new(super::config(), Config::new());
    let now = web.now;
    web.server.set_tasks(now, table().limits(TaskLimits::new().max_waiting_requests(3)));
    let session = open_session(&mut web);
    let (id, run) = begin_over_http(&mut web, &session);
    let open = post(&mut web, &session, &task_request(9, "tasks/result", &id));
    // Left before its response begins, and later, when its messages are kept for the client.
    for (at, wait) in [(0, 0), (1, 2), (2, 2), (3, 0), (4, 2)] {
        let x = post(&mut web, &session, &task_request(10 + at, "tasks/result", &id));
        web.advance(secs(wait));
        assert!(!web.response(x).is_complete, "{at}: {:?}", web.response(x));
        web.close_exchange(x);
    }
    let x = post(&mut web, &session, &task_request(20, "tasks/result", &id));
    let now = web.now;
    web.server.engine().complete(now, run.id(), &dredged()).expect("the task goes on");
    web.transmit_all();
    for x in [open, x] {
        assert_eq!(web.response(x).message()["result"]["content"], dredged()["content"]);
    }
}

// covers: TASK-021
#[test]
fn question_that_no_client_can_get_is_refused_with_the_capability_that_is_missing() {
    let mut web = http_harness(Config::new().sessions(false));
    let fields = [("MCP-Protocol-Version", "2025-11-25")];
    let x = web.post(&fields, &legacy_call(3).to_string());
    let call = web.expect_call();
    let now = web.now;
    web.server.engine().tasks(now).begin(&call, TaskOptions::new()).expect("room");
    web.transmit_all();
    let id = web.response(x).message()["result"]["task"]["taskId"].as_str().expect("an id").to_owned();
    let run = web.expect_call();
    #[expect(deprecated, reason = "tested until its removal")]
    let requests: InputRequests<'_> = [
        ("roots", InputRequest::ListRoots(None)),
        ("form", form("form").iter().next().expect("a form").1.clone()),
    ]
    .into_iter()
    .collect();
    let now = web.now;
    web.server.engine().need_input(now, &run, &requests, b"").expect("possible");
    web.post(&fields, &task_request(4, "tasks/result", &id).to_string());
    let again = web.expect_call();
    #[expect(deprecated, reason = "tested until its removal")]
    let missing = [("roots", Capability::Roots), ("form", Capability::ElicitationForm)];
    for (name, capability) in missing {
        let refused = again.answer(name).expect("an outcome").expect_err("no client was asked");
        assert_eq!(*refused, CallError::Refused(UseError::MissingPeerCapability(capability)), "{name}");
    }
}
