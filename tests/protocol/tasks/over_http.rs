//! Tasks over HTTP: owners, streams, header fields.

use alloc::sync::Arc;

use mcp_proto::http::server::{Config, ExchangeId};
use mcp_proto::server::{Authorization, ConnectionInfo, Event, Identity, TaskLimits, TaskOptions};
use mcp_proto::{Anchor, ChannelId, Entropy, Instant, Progress, SendStatus};
use mcp_tests::harness::HttpServerHarness;
use serde_json::{Value, json};

use super::{config, dredged, form, table};
use crate::protocol::common::secs;

pub(super) fn harness(http: Config) -> HttpServerHarness {
    let mut web = HttpServerHarness::new(config(), http);
    let now = web.now;
    web.server.set_tasks(now, table());
    web
}

pub(super) fn open_session(web: &mut HttpServerHarness) -> String {
    open_session_channel(web).0
}

/// Opens a session. Returns its id and its channel.
fn open_session_channel(web: &mut HttpServerHarness) -> (String, ChannelId) {
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "x", "version": "1"}});
    let x = web
        .post(&[], &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string());
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    web.post(&[("Mcp-Session-Id", &id)], r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    let Some(Event::SessionOpened { channel, .. }) = web.poll_event() else { panic!("an open session") };
    (id, channel)
}

pub(super) fn post(web: &mut HttpServerHarness, session: &str, body: &Value) -> ExchangeId {
    web.post(&[("Mcp-Session-Id", session)], &body.to_string())
}

/// Makes a call of a session a task.
pub(super) fn begin(web: &mut HttpServerHarness, session: &str) -> (String, mcp_proto::server::Call) {
    begin_call(web, session, &super::legacy_call(2))
}

fn begin_call(web: &mut HttpServerHarness, session: &str, call: &Value) -> (String, mcp_proto::server::Call) {
    let x = post(web, session, call);
    let call = web.expect_call();
    let now = web.now;
    web.server.engine().tasks(now).begin(&call, TaskOptions::new()).expect("room");
    web.transmit_all();
    assert!(web.response(x).is_complete);
    let id = web.response(x).message()["result"]["task"]["taskId"].as_str().expect("an id").to_owned();
    (id, web.expect_call())
}

fn modern_fields<'a>(method: &'a str, name: &'a str) -> [(&'a str, &'a str); 3] {
    [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method), ("Mcp-Name", name)]
}

fn answer(web: &mut HttpServerHarness, run: &mcp_proto::server::Call) {
    let now = web.now;
    web.server.engine().complete(now, run.id(), &dredged()).expect("open");
    web.transmit_all();
}

// covers: TASK-034, TASK-035, TASK-037
#[test]
fn task_of_a_session_is_unknown_to_another_one() {
    let mut web = harness(Config::new());
    let (mine, other) = (open_session(&mut web), open_session(&mut web));
    let (id, run) = begin(&mut web, &mine);
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let x = post(&mut web, &other, &super::task_request(3, method, &id));
        assert_eq!(
            web.response(x).message()["error"],
            json!({"code": -32_602, "message": "the task does not exist"})
        );
    }
    let list = json!({"jsonrpc": "2.0", "id": 4, "method": "tasks/list"});
    let x = post(&mut web, &other, &list);
    assert_eq!(web.response(x).message()["result"], json!({"tasks": []}));
    let x = post(&mut web, &mine, &list);
    assert_eq!(web.response(x).message()["result"]["tasks"][0]["taskId"], id.as_str());
    let x = post(&mut web, &mine, &super::task_request(5, "tasks/get", &id));
    assert_eq!(web.response(x).field("content-type"), Some("application/json"), "no stream for tasks/get");
    answer(&mut web, &run);
    // Its session ends, and the task with it.
    web.send_request("DELETE", "/mcp", &[("Mcp-Session-Id", &mine)], "");
    let x = post(&mut web, &other, &super::task_request(6, "tasks/get", &id));
    assert_eq!(web.response(x).message()["error"]["code"], -32_602);
}

// covers: TASK-021, TASK-023, TASK-038
#[test]
fn question_goes_to_the_next_result_request_when_a_stream_is_gone() {
    let mut web = harness(Config::new());
    let session = open_session(&mut web);
    let (id, run) = begin(&mut web, &session);
    let first = post(&mut web, &session, &super::task_request(3, "tasks/result", &id));
    let now = web.now;
    web.server.engine().need_input(now, &run, &form("basin"), b"").expect("possible");
    web.transmit_all();
    web.advance(secs(1));
    assert!(web.response(first).is_event_stream());
    let asked = web.response(first).messages();
    assert_eq!(asked[0]["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id.as_str());
    web.close_exchange(first);
    let second = post(&mut web, &session, &super::task_request(4, "tasks/result", &id));
    web.advance(secs(1));
    let again = web.response(second).messages();
    assert_eq!(
        (&again[0]["method"], again[0]["id"] == asked[0]["id"]),
        (&json!("elicitation/create"), false)
    );
    let reply = json!({"jsonrpc": "2.0", "id": again[0]["id"], "result": {"action": "decline"}});
    post(&mut web, &session, &reply);
    let run = web.expect_call();
    assert!(run.answer("basin").is_some());
    answer(&mut web, &run);
    let messages = web.response(second).messages();
    assert_eq!(messages.last().expect("an answer")["id"], 4);
    assert!(web.response(second).is_complete);
}

/// Makes a task ask a question on the stream of a request for its result. Returns the stream.
fn ask(
    web: &mut HttpServerHarness,
    session: &str,
    (task, run): (&str, &mcp_proto::server::Call),
) -> ExchangeId {
    let stream = post(web, session, &super::task_request(3, "tasks/result", task));
    let now = web.now;
    web.server.engine().need_input(now, run, &form("basin"), b"").expect("possible");
    web.advance(secs(1));
    assert_eq!(web.response(stream).messages().last().expect("a question")["method"], "elicitation/create");
    stream
}

// covers: TASK-023, CANC-003
#[test]
fn cancellation_of_a_question_follows_it_on_its_stream() {
    let mut web = harness(Config::new());
    let session = open_session(&mut web);
    for how in ["cancel", "time-out"] {
        let (id, run) = begin(&mut web, &session);
        let stream = ask(&mut web, &session, (&id, &run));
        let asked = web.response(stream).messages().last().expect("a question")["id"].clone();
        match how {
            "cancel" => _ = post(&mut web, &session, &super::task_request(4, "tasks/cancel", &id)),
            _ => web.advance(secs(3_601)),
        }
        web.transmit_all();
        let messages = web.response(stream).messages();
        let cancelled = messages.iter().find(|m| m["method"] == "notifications/cancelled");
        let params = &cancelled.unwrap_or_else(|| panic!("{how}: {messages:?}"))["params"];
        assert_eq!(params["requestId"], asked, "{how}");
        assert_eq!(params["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id.as_str(), "{how}");
    }
}

#[test]
fn cancellations_that_no_stream_carries_do_not_fill_the_session() {
    let mut web = harness(Config::new());
    let (session, channel) = open_session_channel(&mut web);
    for _ in 0..200 {
        let (id, run) = begin(&mut web, &session);
        let stream = ask(&mut web, &session, (&id, &run));
        web.close_exchange(stream);
        post(&mut web, &session, &super::task_request(4, "tasks/cancel", &id));
        let held = web.server.engine().outbox(channel).map_or(0, |outbox| outbox.len());
        assert_eq!(held, 0, "the session has no stream of its own");
    }
}

// covers: TASK-034
#[test]
fn task_of_a_principal_is_bound_to_it() {
    let mut engine = mcp_proto::server::Engine::new(Arc::new(config()));
    let now = Instant::ZERO;
    engine.set_tasks(now, mcp_proto::server::TaskTable::new(Entropy::new([1; 32], 0), Anchor::new(now, 0)));
    let ask = |engine: &mut mcp_proto::server::Engine, who: Option<&str>, message: &Value| {
        let channel = engine.open_channel(now);
        engine.set_authorization(channel, who.map(|name| Authorization::new(Identity::new(name))));
        engine.handle_message(now, channel, message.to_string().into());
        channel
    };
    let channel = ask(&mut engine, Some("alice"), &super::modern_call(1));
    let Some(Event::Call(call)) = engine.poll_event(now) else { panic!("a call") };
    engine.tasks(now).begin(&call, TaskOptions::new()).expect("room");
    let created = engine.outbox(channel).expect("open").pop_message().expect("an answer");
    let id = serde_json::from_slice::<Value>(&created).expect("JSON")["result"]["taskId"].clone();
    for (who, sees) in [(Some("alice"), true), (Some("bob"), false), (None, false)] {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            let request = super::modern(2, method, json!({"taskId": id, "inputResponses": {}}));
            let channel = ask(&mut engine, who, &request);
            let answer = engine.outbox(channel).expect("open").pop_message().expect("an answer");
            let answer: Value = serde_json::from_slice(&answer).expect("JSON");
            assert_eq!(answer.get("result").is_some(), sees, "{who:?} {method}: {answer}");
        }
        let filter = json!({"notifications": {"taskIds": [id]}});
        let channel = ask(&mut engine, who, &super::modern(3, "subscriptions/listen", filter));
        let answer = engine.outbox(channel).expect("open").pop_message().expect("an answer");
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        let accepted = answer["params"]["notifications"]["taskIds"].as_array().map_or(0, Vec::len);
        assert_eq!(accepted, usize::from(sees), "{who:?}: {answer}");
    }
}

// covers: TASK-124, TASK-128
#[test]
fn header_names_the_task() {
    let mut web = harness(Config::new());
    let body = super::modern_call(1).to_string();
    let x = web.post(&modern_fields("tools/call", "dredge"), &body);
    let call = web.expect_call();
    let now = web.now;
    web.server.engine().tasks(now).begin(&call, TaskOptions::new()).expect("room");
    web.transmit_all();
    let id = web.response(x).message()["result"]["taskId"].as_str().expect("an id").to_owned();
    let body = super::modern(2, "tasks/get", json!({"taskId": id})).to_string();
    let x = web.post(&modern_fields("tasks/get", &id), &body);
    assert_eq!(
        (web.response(x).status, &web.response(x).message()["result"]["status"]),
        (200, &json!("working"))
    );
    let x = web.post(&modern_fields("tasks/get", "other"), &body);
    assert_eq!((web.response(x).status, &web.response(x).message()["error"]["code"]), (400, &json!(-32_020)));
    // A client that goes away does not end its task.
    let x = web.post(&modern_fields("tasks/get", &id), &body);
    web.close_exchange(x);
    let x = web.post(&modern_fields("tasks/get", &id), &body);
    assert_eq!(web.response(x).message()["result"]["status"], "working");
}

// covers: TASK-035
#[test]
fn server_without_sessions_offers_no_list() {
    let mut web = harness(Config::new().sessions(false));
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    let x = web
        .post(&[], &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string());
    let tasks = web.response(x).message()["result"]["capabilities"]["tasks"].clone();
    assert_eq!(tasks, json!({"cancel": {}, "requests": {"tools": {"call": {}}}}));
    let fields = [("MCP-Protocol-Version", "2025-11-25")];
    let x = web.post(&fields, r#"{"jsonrpc":"2.0","id":2,"method":"tasks/list"}"#);
    assert_eq!(web.response(x).message()["error"]["code"], -32_601);
    // Whoever knows the id can read the task.
    let x = web.post(&fields, &super::legacy_call(3).to_string());
    let call = web.expect_call();
    let now = web.now;
    web.server.engine().tasks(now).begin(&call, TaskOptions::new()).expect("room");
    web.transmit_all();
    let id = web.response(x).message()["result"]["task"]["taskId"].as_str().expect("an id").to_owned();
    let x = web.post(&fields, &super::task_request(4, "tasks/get", &id).to_string());
    assert_eq!(web.response(x).message()["result"]["status"], "working");
}

/// The run of a task belongs to the address that created it, whether it runs at once, waits for its turn, or asks first, so
/// that a limit per client tells apart clients without principals.
#[test]
fn run_of_task_has_address_of_its_creator() {
    let mut web = HttpServerHarness::new(config(), Config::new());
    let now = web.now;
    web.server.set_tasks(now, table().limits(TaskLimits::new().max_running(1)));
    let request = |web: &mut HttpServerHarness, host: u8, method: &str, name: &str, body: &Value| {
        let fields = [("host", "localhost"), ("accept", "application/json, text/event-stream")];
        let fields: Vec<(&str, &[u8])> = fields
            .into_iter()
            .chain([("content-type", "application/json")])
            .chain(modern_fields(method, name))
            .map(|(name, value)| (name, value.as_bytes()))
            .collect();
        let head = mcp_proto::head::RequestHead { method: "POST", target: "/mcp", fields: &fields };
        let x = web.server.open(now, &head, None);
        let info = ConnectionInfo::new().peer_addr(([192, 0, 2, host], 4000));
        web.server.request_mut(x).expect("open").set_connection(Arc::new(info));
        web.server.handle_body(now, x, body.to_string().into());
        web.server.handle_end(now, x);
    };
    let mut runs = Vec::new();
    for host in [1, 2] {
        request(&mut web, host, "tools/call", "dredge", &super::modern_call(host.into()));
        let call = web.expect_call();
        assert_eq!(call.caller().peer_ip(), Some([192, 0, 2, host].into()));
        web.server.engine().tasks(now).begin(&call, TaskOptions::new()).expect("room");
        runs.extend(web.poll_event());
    }
    assert_eq!(runs.len(), 1, "the second waits for its turn");
    let Some(Event::Call(first)) = runs.pop() else { panic!("a run") };
    assert!(first.http().is_none());
    assert_eq!(first.caller().peer_ip(), Some([192, 0, 2, 1].into()));
    web.server.engine().need_input(now, &first, &form("basin"), b"").expect("possible");
    let second = web.expect_call();
    assert_eq!(second.caller().peer_ip(), Some([192, 0, 2, 2].into()));
    web.server.engine().complete(now, second.id(), &dredged()).expect("open");
    let id = first.task_id().expect("a run").as_str().to_owned();
    let answers = json!({"taskId": id, "inputResponses": {"basin": {"action": "decline"}}});
    request(&mut web, 3, "tasks/update", &id, &super::modern(9, "tasks/update", answers));
    let again = web.expect_call();
    assert!(again.answer("basin").is_some());
    assert_eq!(again.caller().peer_ip(), Some([192, 0, 2, 1].into()));
}

/// Returns the requests for input that were sent on streams.
fn questions(web: &HttpServerHarness, streams: &[ExchangeId]) -> Vec<Value> {
    let messages = streams.iter().flat_map(|x| web.response(*x).messages());
    messages.filter(|message| message["method"] == "elicitation/create").collect()
}

// covers: TASK-021, TASK-022
#[test]
fn question_prefers_a_stream_that_is_read_to_one_that_may_be_resumed() {
    for is_read in [true, false] {
        let mut web = harness(Config::new());
        let session = open_session(&mut web);
        let (id, run) = begin(&mut web, &session);
        let left = post(&mut web, &session, &super::task_request(3, "tasks/result", &id));
        let read = post(&mut web, &session, &super::task_request(4, "tasks/result", &id));
        web.advance(secs(5));
        web.close_exchange(left);
        if !is_read {
            web.close_exchange(read);
        }
        let now = web.now;
        web.server.engine().need_input(now, &run, &form("basin"), b"").expect("possible");
        web.advance(secs(1));
        assert_eq!(questions(&web, &[read]).len(), usize::from(is_read));
        let begun = web.response(left).events().first().expect("the first event").id.clone();
        let fields = [("Mcp-Session-Id", &*session), ("Last-Event-ID", &begun)];
        let resumed = web.send_request("GET", "/mcp", &fields, "");
        web.transmit_all();
        assert_eq!(questions(&web, &[resumed]).len(), usize::from(!is_read));
    }
}

// covers: TASK-021, TASK-033, HTTP-011
#[test]
fn response_that_is_one_object_carries_neither_questions_nor_progress_of_a_task() {
    for is_alone in [true, false] {
        let mut web = harness(Config::new());
        let session = open_session(&mut web);
        let mut call = super::legacy_call(2);
        call["params"]["_meta"] = json!({"progressToken": "p"});
        let (id, run) = begin_call(&mut web, &session, &call);
        let fields = [("Mcp-Session-Id", &*session), ("Accept", "application/json")];
        let only_json = web.post(&fields, &super::task_request(3, "tasks/result", &id).to_string());
        let other =
            (!is_alone).then(|| post(&mut web, &session, &super::task_request(4, "tasks/result", &id)));
        let now = web.now;
        let reported = web.server.engine().progress(now, run.id(), Progress::new(1.0)).expect("open");
        assert_eq!(reported, if is_alone { SendStatus::Dropped } else { SendStatus::Queued });
        web.server.engine().need_input(now, &run, &form("basin"), b"").expect("possible");
        web.advance(secs(1));
        if let Some(other) = other {
            assert_eq!(web.response(other).messages()[0]["params"]["progress"], 1);
            let asked = questions(&web, &[other]);
            let reply = json!({"jsonrpc": "2.0", "id": asked[0]["id"], "result": {"action": "decline"}});
            post(&mut web, &session, &reply);
        }
        // A client that cannot be asked refuses: the task goes on.
        let run = web.expect_call();
        assert_eq!(run.answer("basin").is_some_and(|answer| answer.is_err()), is_alone);
        answer(&mut web, &run);
        let reply = web.response(only_json);
        assert_eq!(
            (reply.field("content-type"), &reply.message()["id"]),
            (Some("application/json"), &json!(3))
        );
    }
}

// covers: TASK-021, TASK-036
#[test]
fn questions_of_tasks_have_a_share_of_the_requests_of_a_server_in_each_session() {
    let mut limits = mcp_proto::Limits::default();
    (limits.max_pending_calls, limits.max_inputs) = (16, 2);
    let mut web = HttpServerHarness::new(config().limits(limits), Config::new());
    let now = web.now;
    web.server.set_tasks(now, table());
    for _ in 0..2 {
        let session = open_session(&mut web);
        let mut streams = Vec::new();
        for request in 0..3 {
            let (id, run) = begin(&mut web, &session);
            streams.push(post(&mut web, &session, &super::task_request(10 + request, "tasks/result", &id)));
            let now = web.now;
            web.server.engine().need_input(now, &run, &super::forms(&["a", "b"]), b"").expect("possible");
        }
        web.advance(secs(1));
        let asked = questions(&web, &streams);
        assert_eq!(asked.len(), 4, "a quarter");
        // An answer makes room for one more.
        let answer = json!({"jsonrpc": "2.0", "id": asked[0]["id"], "result": {"action": "decline"}});
        post(&mut web, &session, &answer);
        web.advance(secs(1));
        assert_eq!(questions(&web, &streams).len(), 5);
    }
}

// covers: TASK-033
#[test]
fn progress_of_a_task_goes_to_a_stream_that_its_session_reads() {
    let mut web = harness(Config::new());
    let session = open_session(&mut web);
    let mut call = super::legacy_call(2);
    call["params"]["_meta"] = json!({"progressToken": "p"});
    post(&mut web, &session, &call);
    let call = web.expect_call();
    let now = web.now;
    web.server.engine().tasks(now).begin(&call, TaskOptions::new()).expect("room");
    web.transmit_all();
    let run = web.expect_call();
    let report = |web: &mut HttpServerHarness, value: f64| {
        let now = web.now;
        let sent = web.server.engine().progress(now, run.id(), Progress::new(value)).expect("open");
        web.advance(secs(1));
        sent
    };
    assert_eq!(report(&mut web, 1.0), SendStatus::Dropped, "nobody reads");
    let id = run.task_id().expect("a run");
    let stream = post(&mut web, &session, &super::task_request(3, "tasks/result", id.as_str()));
    assert_eq!(report(&mut web, 2.0), SendStatus::Queued);
    let sent = web.response(stream).messages();
    assert_eq!((sent.len(), &sent[0]["params"]["progress"]), (1, &json!(2)));
}

// covers: TASK-034
#[test]
fn run_of_task_is_made_for_the_party_of_its_call() {
    let mut engine = mcp_proto::server::Engine::new(Arc::new(config()));
    let now = Instant::ZERO;
    engine.set_tasks(now, table().limits(TaskLimits::new().max_running(1)));
    let next = |engine: &mut mcp_proto::server::Engine| {
        let Some(Event::Call(call)) = engine.poll_event(now) else { panic!("a call") };
        call
    };
    let mut runs = Vec::new();
    for name in ["alice", "bob"] {
        let channel = engine.open_channel(now);
        engine.set_authorization(channel, Some(Authorization::new(Identity::new(name).scopes("dig"))));
        engine.handle_message(now, channel, super::modern_call(1).to_string().into());
        let call = next(&mut engine);
        engine.tasks(now).begin(&call, TaskOptions::new()).expect("room");
        if runs.is_empty() {
            runs.push(next(&mut engine));
        }
    }
    // The second one had to wait for its turn.
    engine.complete(now, runs[0].id(), &dredged()).expect("open");
    runs.push(next(&mut engine));
    for (run, name) in runs.iter().zip(["alice", "bob"]) {
        let party = run.authorization().expect("a party");
        assert_eq!((party.principal(), party.scopes().as_str()), (name, "dig"));
    }
}
