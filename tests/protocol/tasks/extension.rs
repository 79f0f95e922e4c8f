//! The extension for tasks of 2026-07-28 on a byte stream.

use mcp_proto::seal::Keys;
use mcp_proto::server::{CancelReason, TaskOffer, TaskOptions};
use mcp_proto::{Anchor, Progress, RpcError, SendStatus};
use mcp_tests::harness::build::{modern_request, modern_request_with, notification};
use mcp_tests::harness::{Chunker, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use super::{
    begin, complete, config, dredged, form, forms, modern, modern_call, modern_harness, refusal, table,
};
use crate::protocol::common::secs;

fn get(harness: &mut ServerHarness, id: &str) -> Value {
    harness.feed_message(&modern(90, "tasks/get", json!({"taskId": id})));
    let result = harness.expect_reply()["result"].clone();
    assert_eq!(result["resultType"], "complete", "{result}");
    result
}

fn update(harness: &mut ServerHarness, id: &str, responses: &Value) {
    harness.feed_message(&modern(91, "tasks/update", json!({"taskId": id, "inputResponses": responses})));
    let result = harness.expect_reply()["result"].clone();
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result.as_object().expect("an object").len(), 1, "empty: {result}");
}

fn accept(basin: &str) -> Value {
    json!({"action": "accept", "content": {"basin": basin}})
}

// covers: TASK-039, TASK-130
#[test]
fn server_declares_the_extension_and_no_core_tasks() {
    let mut harness = modern_harness(Chunker::Whole);
    harness.feed_message(&modern_request(1, "server/discover", json!({})));
    let capabilities = harness.expect_reply()["result"]["capabilities"].clone();
    assert_eq!(capabilities["extensions"], json!({"io.modelcontextprotocol/tasks": {}}));
    assert_eq!(capabilities.get("tasks"), None);
}

// covers: TASK-103, TASK-107, TASK-108, TASK-109, TASK-111, TASK-112, TASK-133
#[test]
fn task_is_created_polled_and_has_its_result() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let call = harness.expect_call_for(&modern_call(1));
        assert_eq!(call.task_offer(), TaskOffer::Allowed);
        let now = harness.now;
        harness.pipe.engine().tasks(now).begin(&call, TaskOptions::new().ttl(secs(60))).expect("room");
        harness.pump();
        let mut created = harness.expect_reply()["result"].clone();
        let id = created["taskId"].as_str().expect("an id").to_owned();
        let meta = created.as_object_mut().expect("a result").remove("_meta").expect("the server's identity");
        assert!(meta.get("io.modelcontextprotocol/serverInfo").is_some());
        assert_eq!(
            created,
            json!({
                "resultType": "task", "taskId": id, "status": "working", "createdAt": "2026-08-01T10:00:00Z",
                "lastUpdatedAt": "2026-08-01T10:00:00Z", "ttlMs": 60_000, "pollIntervalMs": 1_000,
            })
        );
        let run = harness.expect_call();
        let working = get(&mut harness, &id);
        assert_eq!(working["status"], "working");
        for absent in ["result", "error", "inputRequests", "requestState", "ttl", "pollInterval", "task"] {
            assert_eq!(working.get(absent), None);
        }
        complete(&mut harness, &run, &dredged());
        harness.assert_nothing_sent();
        let done = get(&mut harness, &id);
        assert_eq!(
            (&done["status"], &done["result"]["content"]),
            (&json!("completed"), &dredged()["content"])
        );
        assert_eq!(done["result"].get("_meta"), None);
        harness.assert_idle();
        harness.transcript
    });
}

// covers: TASK-101, TASK-102, TASK-104, TASK-125
#[test]
fn client_without_the_extension_gets_no_task() {
    let mut harness = modern_harness(Chunker::Whole);
    begin(&mut harness, &modern_call(1));
    let required = json!({"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}});
    let settings =
        |value: Value| json!({"io.modelcontextprotocol/clientCapabilities": {"extensions": value}});
    for (id, extra) in
        [(2, json!({})), (3, settings(json!({}))), (4, settings(json!({"io.modelcontextprotocol/tasks": 1})))]
    {
        let request = modern_request_with(id, "tools/call", json!({"name": "dredge"}), &extra);
        let call = harness.expect_call_for(&request);
        assert_eq!(call.task_offer(), TaskOffer::None);
        let now = harness.now;
        assert!(harness.pipe.engine().tasks(now).begin(&call, TaskOptions::new()).is_err());
        let answer = harness.fail(call.id(), &call.task_required_error());
        assert_eq!((&answer["error"]["code"], &answer["error"]["data"]), (&json!(-32_021), &required));
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let request = modern_request_with(9, method, json!({"taskId": "nope"}), &extra);
            let answer = refusal(&mut harness, &request);
            assert_eq!(
                (&answer["error"]["code"], &answer["error"]["data"]),
                (&json!(-32_021), &required),
                "{method}"
            );
        }
        let filter = json!({"notifications": {"taskIds": ["nope"]}});
        let answer = refusal(&mut harness, &modern_request_with(10, "subscriptions/listen", filter, &extra));
        assert_eq!(answer["error"]["code"], -32_021);
    }
}

// covers: TASK-039, TASK-103, TASK-129, TASK-132
#[test]
fn core_tasks_are_gone() {
    let mut harness = modern_harness(Chunker::Whole);
    for method in ["tasks/result", "tasks/list"] {
        let answer = refusal(&mut harness, &modern(1, method, json!({"taskId": "nope"})));
        assert_eq!(answer["error"]["code"], -32_601, "{method}");
    }
    let mut request = modern_call(2);
    request["params"]["task"] = json!({"ttl": -1});
    let call = harness.expect_call_for(&request);
    assert_eq!(call.task_offer(), TaskOffer::Allowed, "the member is ignored");
    assert_eq!(harness.complete(call.id(), &dredged())["result"]["resultType"], "complete");
}

// covers: TASK-112, TASK-113
#[test]
fn tool_failure_is_completed_and_error_is_failed() {
    let mut harness = modern_harness(Chunker::Whole);
    let (id, run) = begin(&mut harness, &modern_call(1));
    complete(&mut harness, &run, &json!({"content": [], "isError": true}));
    let done = get(&mut harness, &id);
    assert_eq!((&done["status"], &done["result"]["isError"]), (&json!("completed"), &json!(true)));
    let (id, run) = begin(&mut harness, &modern_call(2));
    let now = harness.now;
    harness.pipe.engine().fail(now, run.id(), &RpcError::new(-32_002, "gone")).expect("open");
    let failed = get(&mut harness, &id);
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["error"], json!({"code": -32_602, "message": "gone"}), "the code of the revision");
    assert_eq!((failed.get("result"), &failed["statusMessage"]), (None, &json!("gone")));
}

// covers: TASK-112, TASK-117, TASK-118, TASK-119, TASK-120
#[test]
fn questions_are_answered_one_by_one_and_keys_are_never_reused() {
    for_each_chunker(|cut| {
        let mut harness = modern_harness(cut);
        let (id, run) = begin(&mut harness, &modern_call(1));
        harness.need_input(&run, &forms(&["east", "west"]), b"s").expect("possible");
        let asks = get(&mut harness, &id);
        assert_eq!(asks["status"], "input_required");
        assert_eq!(asks["inputRequests"]["east"]["method"], "elicitation/create");
        update(&mut harness, &id, &json!({"nope": 1, "west": accept("b")}));
        let asks = get(&mut harness, &id);
        let open: Vec<&str> =
            asks["inputRequests"].as_object().expect("a map").keys().map(String::as_str).collect();
        assert_eq!((open, &asks["status"]), (vec!["east"], &json!("input_required")));
        // An answered key is ignored.
        update(&mut harness, &id, &json!({"west": accept("x")}));
        update(&mut harness, &id, &json!({"east": accept("a")}));
        assert_eq!(get(&mut harness, &id)["status"], "working");
        let again = harness.expect_call();
        assert_eq!((again.attempt(), again.state()), (1, Some(&b"s"[..])));
        for (name, basin) in [("east", "a"), ("west", "b")] {
            let answer = again.answer(name).expect("an outcome").expect("given");
            assert_eq!(answer.parse::<Value>().expect("JSON"), accept(basin));
        }
        // The same name once more is another question.
        harness.need_input(&again, &forms(&["east", "a#1"]), b"").expect("possible");
        let asks = get(&mut harness, &id);
        let open: Vec<&str> =
            asks["inputRequests"].as_object().expect("a map").keys().map(String::as_str).collect();
        assert_eq!(open, ["a#1", "east#2"], "a name that was never asked is its own key");
        update(&mut harness, &id, &json!({"east": accept("old")}));
        assert_eq!(get(&mut harness, &id)["inputRequests"].as_object().expect("a map").len(), 2);
        update(&mut harness, &id, &json!({"east#2": accept("c"), "a#1": accept("d")}));
        let last = harness.expect_call();
        assert_eq!(
            last.answer("east").expect("an outcome").expect("given").parse::<Value>().expect("JSON"),
            accept("c")
        );
        complete(&mut harness, &last, &dredged());
        assert_eq!(get(&mut harness, &id)["status"], "completed");
        harness.transcript
    });
}

// covers: TASK-110
#[test]
fn rounds_before_the_task_are_those_of_the_request() {
    let mut harness =
        ServerHarness::server(config().seal(Keys::new([7; 32]), Anchor::default()), Chunker::Whole);
    let now = harness.now;
    harness.pipe.engine().set_tasks(now, table());
    let call = harness.expect_call_for(&modern_call(1));
    harness.need_input(&call, &form("basin"), b"asked").expect("possible");
    let asks = harness.expect_reply()["result"].clone();
    assert_eq!((&asks["resultType"], asks.get("taskId")), (&json!("input_required"), None));
    let mut retry = modern_call(2);
    retry["params"]["inputResponses"] = json!({"basin": accept("east")});
    retry["params"]["requestState"] = asks["requestState"].clone();
    let (id, run) = begin(&mut harness, &retry);
    assert_eq!(run.state(), Some(&b"asked"[..]));
    assert!(run.answer("basin").is_some());
    // The keys of the task are its own.
    harness.need_input(&run, &forms(&["basin"]), b"").expect("possible");
    let asks = get(&mut harness, &id);
    assert!(asks["inputRequests"].get("basin").is_some(), "{asks}");
}

// covers: TASK-122, TASK-123, TASK-124
#[test]
fn cancellation_is_always_acknowledged() {
    let mut harness = modern_harness(Chunker::Whole);
    let (id, run) = begin(&mut harness, &modern_call(1));
    for round in 0..2 {
        harness.feed_message(&modern(2, "tasks/cancel", json!({"taskId": id})));
        let result = harness.expect_reply()["result"].clone();
        assert_eq!(
            (&result["resultType"], result.as_object().expect("an object").len()),
            (&json!("complete"), 1)
        );
        if round == 0 {
            assert_eq!(harness.expect_cancelled(&run), CancelReason::Client(None));
        }
    }
    assert_eq!(get(&mut harness, &id)["status"], "cancelled");
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let params = json!({"taskId": "AAAAAAAAAAAAAAAAAAAAAA", "inputResponses": {}});
        let answer = refusal(&mut harness, &modern(3, method, params));
        assert_eq!(
            answer["error"],
            json!({"code": -32_602, "message": "the task does not exist"}),
            "{method}"
        );
    }
    for (params, message) in [
        (json!({"taskId": id}), "`params.inputResponses` is missing"),
        (json!({"taskId": id, "inputResponses": []}), "`params.inputResponses` is not an object"),
    ] {
        assert_eq!(refusal(&mut harness, &modern(4, "tasks/update", params))["error"]["message"], message);
    }
}

// covers: TASK-126, TASK-127, SUB-020
#[test]
fn listener_gets_the_state_of_its_tasks() {
    let mut harness = modern_harness(Chunker::Whole);
    let (id, run) = begin(&mut harness, &modern_call(1));
    let filter = json!({"notifications": {"taskIds": [id, "AAAAAAAAAAAAAAAAAAAAAA", id]}});
    harness.feed_message(&modern(5, "subscriptions/listen", filter));
    let acknowledged = harness.expect_reply();
    assert_eq!(acknowledged["params"]["notifications"], json!({"taskIds": [id]}));
    let now = harness.now;
    let report = harness.pipe.engine().progress(now, run.id(), Progress::new(1.0));
    assert_eq!(report, Ok(SendStatus::Dropped));
    harness.need_input(&run, &form("basin"), b"").expect("possible");
    let asks = harness.expect_reply();
    assert_eq!(
        (&asks["method"], &asks["params"]["status"]),
        (&json!("notifications/tasks"), &json!("input_required"))
    );
    assert!(asks["params"]["inputRequests"].get("basin").is_some());
    assert_eq!(asks["params"]["_meta"], json!({"io.modelcontextprotocol/subscriptionId": 5}));
    harness.feed_message(&modern(
        6,
        "tasks/update",
        json!({"taskId": id, "inputResponses": {"basin": accept("e")}}),
    ));
    let sent = harness.take_sent();
    assert_eq!((&sent[0]["params"]["status"], &sent[1]["id"]), (&json!("working"), &json!(6)));
    let again = harness.expect_call();
    complete(&mut harness, &again, &dredged());
    let done = harness.expect_reply();
    assert_eq!(done["params"]["status"], "completed");
    let mut polled = get(&mut harness, &id);
    let mut params = done["params"].clone();
    for object in [&mut polled, &mut params] {
        object.as_object_mut().expect("an object").retain(|name, _| name != "_meta" && name != "resultType");
    }
    assert_eq!(params, polled, "as tasks/get returns it");
    // One that ended before is told at once.
    harness.feed_message(&modern(7, "subscriptions/listen", json!({"notifications": {"taskIds": [id]}})));
    let sent = harness.take_sent();
    assert_eq!((sent.len(), &sent[1]["params"]["status"]), (2, &json!("completed")));
    harness.feed_message(&notification("notifications/cancelled", json!({"requestId": 5})));
    harness.feed_message(&notification("notifications/cancelled", json!({"requestId": 7})));
    harness.assert_idle();
}

// covers: TASK-126, SUB-020
#[test]
fn listener_that_is_cancelled_is_told_nothing_more() {
    let mut harness = modern_harness(Chunker::Whole);
    let (id, run) = begin(&mut harness, &modern_call(1));
    for request in [5, 7] {
        let filter = json!({"notifications": {"taskIds": [id]}});
        harness.feed_message(&modern(request, "subscriptions/listen", filter));
    }
    harness.take_sent();
    harness.feed_message(&notification("notifications/cancelled", json!({"requestId": 5})));
    harness.take_sent();
    complete(&mut harness, &run, &dredged());
    let told = harness.expect_reply();
    assert_eq!(told["params"]["_meta"], json!({"io.modelcontextprotocol/subscriptionId": 7}));
}

// covers: TASK-103, TASK-108, TASK-116
#[test]
fn ttl_is_that_of_the_server_whatever_the_request_says() {
    for ttl in [json!(0), json!(-5), Value::Null, json!(0.5), json!(315_360_000_000_u64), json!("x")] {
        let mut harness = modern_harness(Chunker::Whole);
        let mut request = modern_call(1);
        (request["params"]["task"], request["params"]["ttlMs"]) = (json!({"ttl": ttl}), ttl.clone());
        let (id, _run) = begin(&mut harness, &request);
        assert_eq!(get(&mut harness, &id)["ttlMs"], 3_600_000, "{ttl}");
    }
    // That of the application has bounds.
    let ten_years = secs(315_360_000);
    for (ttl, expected) in [
        (core::time::Duration::ZERO, 1),
        (core::time::Duration::from_micros(1), 1),
        (core::time::Duration::from_micros(1_500), 1),
        (secs(5), 5_000),
        (ten_years, 86_400_000),
        (core::time::Duration::MAX, 86_400_000),
    ] {
        let mut harness = modern_harness(Chunker::Whole);
        let call = harness.expect_call_for(&modern_call(1));
        let now = harness.now;
        harness.pipe.engine().tasks(now).begin(&call, TaskOptions::new().ttl(ttl)).expect("room");
        harness.pump();
        let created = harness.expect_reply()["result"].clone();
        assert_eq!(created["ttlMs"], expected, "{ttl:?}");
        harness.expect_call();
        harness.advance(core::time::Duration::from_millis(expected));
        let params = json!({"taskId": created["taskId"]});
        assert_eq!(refusal_after_events(&mut harness, &modern(2, "tasks/get", params))["code"], -32_602);
    }
}

fn refusal_after_events(harness: &mut ServerHarness, request: &Value) -> Value {
    harness.take_event_texts();
    harness.expect_error(request)
}
