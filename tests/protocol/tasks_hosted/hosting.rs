//! Tasks that the client hosts.

use mcp_proto::client::{Event, Input, InputTaskLimits};
use mcp_proto::model::{CreateMessageResult, ElicitParams, InputRequest, SamplingContent};
use mcp_proto::{CallOptions, RpcError, UseError, Version};
use mcp_tests::harness::build::{legacy_request, notification, result_response};
use mcp_tests::harness::{Chunker, ClientHarness, for_each_chunker};
use serde_json::{Value, json};

use super::{RELATED, accepted, form, hosting_client, with_related};
use crate::protocol::common::{ms, secs};

pub(super) fn open(limits: InputTaskLimits, cut: Chunker) -> ClientHarness {
    let mut harness = ClientHarness::client(hosting_client(limits), cut);
    harness.become_legacy(Version::V2025_11_25, json!({"tools": {}}));
    harness
}

pub(super) fn hosting() -> ClientHarness {
    open(InputTaskLimits::new(), Chunker::Whole)
}

/// Sends a question that asks for a task. Returns the input request and the task.
pub(super) fn ask(harness: &mut ClientHarness, id: i64, task: &Value) -> (Input, Value) {
    harness.feed_message(&legacy_request(id, "elicitation/create", form(&json!({"task": task}))));
    let answer = harness.expect_reply();
    assert_eq!(answer["id"], id);
    let task = answer["result"]["task"].clone();
    assert_eq!(task["status"], "working", "{answer}");
    (harness.expect_input(), task)
}

/// Sends a request about a task and returns the answer.
pub(super) fn request(harness: &mut ClientHarness, id: i64, method: &str, params: Value) -> Value {
    harness.feed_message(&legacy_request(id, method, params));
    let answer = harness.expect_reply();
    assert_eq!(answer["id"], id, "{answer}");
    answer
}

pub(super) fn get(harness: &mut ClientHarness, id: i64, task: &Value) -> Value {
    request(harness, id, "tasks/get", json!({"taskId": task["taskId"]}))["result"].clone()
}

pub(super) fn expect_status(harness: &mut ClientHarness, task: &Value, status: &str) {
    let sent = harness.expect_reply();
    assert_eq!(sent["method"], "notifications/tasks/status", "{sent}");
    assert_eq!((&sent["params"]["taskId"], &sent["params"]["status"]), (&task["taskId"], &json!(status)));
}

// covers: TASK-001, TASK-002, TASK-039
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn tasks_are_declared_for_what_the_client_answers_in_one_revision() {
    use mcp_proto::{Capabilities, Capability};
    let all = json!({"elicitation": {"create": {}}, "sampling": {"createMessage": {}}});
    for (declared, requests) in [
        (vec![Capability::Elicitation, Capability::Sampling], all.clone()),
        (vec![Capability::Sampling], json!({"sampling": {"createMessage": {}}})),
        (vec![Capability::Elicitation, Capability::Roots], json!({"elicitation": {"create": {}}})),
        (vec![Capability::Roots], Value::Null),
    ] {
        let capabilities = declared.into_iter().fold(Capabilities::new(), Capabilities::with);
        let config = hosting_client(InputTaskLimits::new()).capabilities(capabilities);
        for version in [Version::V2025_06_18, Version::V2025_11_25] {
            let config = config.clone().versions(mcp_proto::VersionSet::only(version));
            let mut harness = ClientHarness::client(config, Chunker::Whole);
            let tasks = harness.expect_request("initialize")["params"]["capabilities"]["tasks"].clone();
            let is_declared = version == Version::V2025_11_25 && !requests.is_null();
            let wanted = json!({"list": {}, "cancel": {}, "requests": requests});
            assert_eq!(tasks, if is_declared { wanted } else { Value::Null }, "{version}");
        }
    }
    let mut modern = ClientHarness::client(hosting_client(InputTaskLimits::new()), Chunker::Whole);
    let probe = modern.expect_request("server/discover");
    let declared = &probe["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert!(declared.get("tasks").is_none() && declared["elicitation"].is_object(), "{probe}");
}

// covers: TASK-009, TASK-012, TASK-013, TASK-014, TASK-015, TASK-017, TASK-019, TASK-020, TASK-024, TASK-025
#[test]
fn question_is_acknowledged_at_once_and_its_answer_is_collected() {
    for_each_chunker(|cut| {
        let mut harness = open(InputTaskLimits::new(), cut);
        harness.feed_message(&legacy_request(
            5,
            "elicitation/create",
            form(&json!({"task": {"ttl": 9_000}})),
        ));
        let answer = harness.expect_reply();
        let task = answer["result"]["task"].clone();
        let id = task["taskId"].as_str().expect("an id");
        assert!(id.len() == 22 && answer["result"].as_object().expect("members").len() == 1, "{answer}");
        let wanted = json!({
            "taskId": id, "status": "working", "createdAt": "2026-08-01T10:00:00Z",
            "lastUpdatedAt": "2026-08-01T10:00:00Z", "ttl": 9_000, "pollInterval": 1_000,
        });
        assert_eq!(task, wanted);
        let input = harness.expect_input();
        // The application sees an ordinary question.
        let InputRequest::Elicit(ElicitParams::Form(asked)) = &*input.request else { panic!("{input:?}") };
        assert!(asked.task.is_none() && asked.message == "Which basin?" && input.call.is_none());
        assert_eq!(get(&mut harness, 6, &task), wanted);
        // Blocked until there is an answer.
        harness.feed_message(&legacy_request(7, "tasks/result", json!({"taskId": id})));
        harness.advance(secs(2));
        harness.assert_idle();
        harness.answer(input.id, &accepted());
        let collected = harness.expect_reply();
        let result = with_related(&accepted(), &task["taskId"]);
        assert_eq!(collected, result_response(&json!({"id": 7}), result.clone()));
        harness.assert_idle();
        let state = get(&mut harness, 8, &task);
        assert_eq!(
            (&state["status"], &state["lastUpdatedAt"]),
            (&json!("completed"), &json!("2026-08-01T10:00:02Z"))
        );
        // It can be collected again.
        let again = request(&mut harness, 9, "tasks/result", json!({"taskId": id}));
        assert_eq!(again["result"], result);
        assert_eq!(harness.pipe.engine().answer(harness.now, input.id, &accepted()), Err(UseError::Stale));
        harness.assert_works();
        harness.transcript
    });
}

// covers: TASK-009, TASK-019, TASK-025, SAMP-005
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn sampling_runs_as_a_task_and_its_end_is_announced() {
    let mut harness = hosting();
    let params = json!({"messages": [], "maxTokens": 9, "task": {}});
    harness.feed_message(&legacy_request(5, "sampling/createMessage", params));
    let task = harness.expect_reply()["result"]["task"].clone();
    assert_eq!(task["ttl"], 600_000, "the default");
    let input = harness.expect_input();
    assert!(matches!(&*input.request, InputRequest::CreateMessage(asked) if asked.task.is_none()));
    let (now, engine) = (harness.now, harness.pipe.engine());
    assert!(engine.answer(now, input.id, &accepted()).is_err(), "the answer to a form");
    let message = CreateMessageResult::new("assistant", vec![SamplingContent::text("Fair winds")], "m");
    engine.answer(now, input.id, &message).expect("open");
    harness.pump();
    expect_status(&mut harness, &task, "completed");
    let result = request(&mut harness, 6, "tasks/result", json!({"taskId": task["taskId"]}));
    assert_eq!(result["result"]["content"][0]["text"], "Fair winds");
    assert_eq!(result["result"]["_meta"][RELATED], json!({"taskId": task["taskId"]}));
    harness.assert_idle();
}

// covers: TASK-009, TASK-019
#[test]
fn page_to_visit_runs_as_a_task() {
    use mcp_proto::{Capabilities, Capability};
    let declared = Capabilities::new().with(Capability::Elicitation).with(Capability::ElicitationUrl);
    let config = hosting_client(InputTaskLimits::new()).capabilities(declared);
    let mut harness = ClientHarness::client(config, Chunker::Whole);
    harness.become_legacy(Version::V2025_11_25, json!({}));
    let page = json!({
        "mode": "url", "message": "Pay the dues", "url": "https://harbour.test/dues", "elicitationId": "e", "task": {},
    });
    harness.feed_message(&legacy_request(5, "elicitation/create", page));
    let task = harness.expect_reply()["result"]["task"].clone();
    assert_eq!(task["status"], "working");
    let input = harness.expect_input();
    assert!(
        matches!(&*input.request, InputRequest::Elicit(ElicitParams::Url(page)) if page.task.is_none()),
        "{input:?}"
    );
    harness.answer(input.id, &json!({"action": "accept"}));
    expect_status(&mut harness, &task, "completed");
    let result = request(&mut harness, 6, "tasks/result", json!({"taskId": task["taskId"]}));
    assert_eq!(result["result"]["action"], "accept");
}

// covers: TASK-010
#[test]
fn question_without_a_task_or_of_a_client_without_tasks_is_answered_plainly() {
    let mut harness = hosting();
    harness.feed_message(&legacy_request(1, "elicitation/create", form(&json!({}))));
    let input = harness.expect_input();
    harness.assert_nothing_sent();
    harness.answer(input.id, &accepted());
    assert_eq!(harness.expect_reply(), result_response(&json!({"id": 1}), accepted()));
    let plain = crate::protocol::common::client(mcp_proto::VersionSet::ALL)
        .capabilities(mcp_proto::Capabilities::new().with(mcp_proto::Capability::Elicitation));
    for (config, version) in
        [(plain, Version::V2025_11_25), (hosting_client(InputTaskLimits::new()), Version::V2025_06_18)]
    {
        let mut harness = ClientHarness::client(config, Chunker::Whole);
        harness.become_legacy(version, json!({}));
        harness.feed_message(&legacy_request(1, "elicitation/create", form(&json!({"task": {"ttl": 5}}))));
        let input = harness.expect_input();
        harness.assert_nothing_sent();
        harness.answer(input.id, &accepted());
        assert_eq!(harness.expect_reply(), result_response(&json!({"id": 1}), accepted()));
        for (id, method) in
            ["tasks/get", "tasks/result", "tasks/cancel", "tasks/list"].into_iter().enumerate()
        {
            let id = i64::try_from(id).expect("small") + 2;
            let answer = request(&mut harness, id, method, json!({"taskId": "t"}));
            assert_eq!(answer["error"]["code"], -32601, "{method}");
        }
        harness.assert_idle();
    }
}

// covers: TASK-008, TASK-031, ELIC-031
#[test]
fn invalid_requests_for_tasks_are_refused_without_an_event() {
    let mut harness = hosting();
    for task in [json!(true), json!([]), json!({"ttl": "soon"}), json!({"ttl": -1})] {
        let params = form(&json!({"task": task}));
        let answer = request(&mut harness, 1, "elicitation/create", params);
        assert_eq!(answer["error"]["code"], -32602, "{task}");
        harness.assert_idle();
    }
    let (_, task) = ask(&mut harness, 2, &json!({}));
    let other = json!("AAAAAAAAAAAAAAAAAAAAAA");
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        for params in [json!({}), json!({"taskId": 7}), json!({"taskId": ""}), json!({"taskId": other})] {
            let answer = request(&mut harness, 3, method, params.clone());
            assert_eq!(answer["error"]["code"], -32602, "{method} {params}");
        }
    }
    for cursor in [json!("x"), json!(4), json!("-1")] {
        let answer = request(&mut harness, 4, "tasks/list", json!({"cursor": cursor}));
        assert_eq!(answer["error"]["code"], -32602, "{cursor}");
    }
    assert_eq!(get(&mut harness, 5, &task)["status"], "working");
    harness.assert_idle();
}

// covers: TASK-028, TASK-029, TASK-030, CANC-009
#[test]
fn cancelled_task_withdraws_its_question() {
    let mut harness = hosting();
    let (input, task) = ask(&mut harness, 1, &json!({}));
    harness.feed_message(&legacy_request(2, "tasks/result", json!({"taskId": task["taskId"]})));
    harness.feed_message(&legacy_request(3, "tasks/cancel", json!({"taskId": task["taskId"]})));
    let sent = harness.take_sent();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert_eq!((&sent[0]["id"], &sent[0]["error"]["code"]), (&json!(2), &json!(-32603)));
    assert_eq!((&sent[1]["id"], &sent[1]["result"]["status"]), (&json!(3), &json!("cancelled")));
    harness.expect_input_withdrawn(input.id);
    harness.assert_idle();
    let again = request(&mut harness, 4, "tasks/cancel", json!({"taskId": task["taskId"]}));
    assert_eq!(again["error"]["code"], -32602, "{again}");
    assert_eq!(get(&mut harness, 5, &task)["status"], "cancelled");
    harness.assert_works();
}

// covers: TASK-019, TASK-032
#[test]
fn refused_question_is_a_failed_task_with_the_error() {
    let mut harness = hosting();
    let (input, task) = ask(&mut harness, 1, &json!({}));
    let error = RpcError::new(-1, "User rejected sampling request");
    harness.pipe.engine().refuse(harness.now, input.id, &error).expect("open");
    harness.pump();
    expect_status(&mut harness, &task, "failed");
    let state = get(&mut harness, 2, &task);
    assert_eq!((&state["status"], &state["statusMessage"]), (&json!("failed"), &json!(error.message)));
    for id in [3, 4] {
        let answer = request(&mut harness, id, "tasks/result", json!({"taskId": task["taskId"]}));
        assert_eq!(answer["error"], json!({"code": -1, "message": error.message}));
    }
    assert_eq!(harness.pipe.engine().refuse(harness.now, input.id, &error), Err(UseError::Stale));
}

// covers: TASK-026, TASK-027
#[test]
fn list_has_all_tasks_in_pages() {
    let mut harness = open(InputTaskLimits::new().max_tasks(200), Chunker::Whole);
    let mut asked: Vec<Value> =
        (0..120).map(|n| ask(&mut harness, n, &json!({})).1["taskId"].clone()).collect();
    let cancelled = asked[7].clone();
    request(&mut harness, 500, "tasks/cancel", json!({"taskId": cancelled}));
    let (mut listed, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({"cursor": cursor}) };
        let page = request(&mut harness, 501, "tasks/list", params)["result"].clone();
        let tasks = page["tasks"].as_array().expect("tasks");
        assert!(tasks.len() <= 50 && !tasks.is_empty());
        for task in tasks {
            let status = if task["taskId"] == cancelled { "cancelled" } else { "working" };
            assert_eq!(task["status"], status);
            listed.push(task["taskId"].clone());
        }
        (cursor, pages) = (page["nextCursor"].clone(), pages + 1);
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!((pages, &listed), (3, &asked));
    for params in [json!({"cursor": null}), json!({"_meta": {"a": 1}})] {
        let page = request(&mut harness, 502, "tasks/list", params)["result"].clone();
        assert_eq!(page["tasks"].as_array().map(Vec::len), Some(50));
    }
    asked.sort_by_key(Value::to_string);
    asked.dedup();
    assert_eq!(asked.len(), 120, "ids are unique");
}

// covers: TIME-008
#[test]
fn open_question_of_a_task_suspends_the_timeouts_of_calls() {
    let mut harness = hosting();
    let options = CallOptions::new().timeout(secs(10));
    let (call, sent) = harness.start_call("tools/call", &json!({"name": "dredge"}), &options);
    harness.advance(secs(5));
    let (input, task) = ask(&mut harness, 1, &json!({"ttl": 3_000_000}));
    harness.advance(secs(200));
    harness.assert_idle();
    harness.answer(input.id, &accepted());
    expect_status(&mut harness, &task, "completed");
    harness.advance(secs(9));
    harness.assert_idle();
    harness.feed_message(&result_response(&sent, json!({"content": []})));
    assert!(harness.expect_done(call).is_ok());
    let (call, _) = harness.start_call("tools/call", &json!({"name": "dredge"}), &options);
    harness.advance(secs(5));
    // A server that looks at its tasks says nothing about the call.
    get(&mut harness, 2, &task);
    harness.advance(secs(5));
    assert!(harness.expect_done(call).is_err());
}

#[test]
fn end_of_the_connection_withdraws_questions() {
    let mut harness = hosting();
    let (input, task) = ask(&mut harness, 1, &json!({}));
    harness.feed_message(&legacy_request(2, "tasks/result", json!({"taskId": task["taskId"]})));
    harness.advance(ms(5));
    harness.eof();
    harness.expect_input_withdrawn(input.id);
    assert!(matches!(harness.expect_event(), Event::Closed(_)));
    harness.assert_idle();
    assert_eq!(harness.pipe.engine().answer(harness.now, input.id, &accepted()), Err(UseError::Stale));
}

// covers: CANC-010
#[test]
fn server_may_cancel_its_request_for_a_result_alone() {
    let mut harness = hosting();
    let (input, task) = ask(&mut harness, 1, &json!({}));
    harness.feed_message(&legacy_request(2, "tasks/result", json!({"taskId": task["taskId"]})));
    harness.feed_message(&notification("notifications/cancelled", json!({"requestId": 2})));
    harness.assert_idle();
    harness.answer(input.id, &accepted());
    expect_status(&mut harness, &task, "completed");
    harness.assert_idle();
    let text = format!("{:?}", harness.pipe.engine());
    let id = task["taskId"].as_str().expect("an id");
    assert!(!text.contains(id) && !text.contains("east"), "{text}");
}
