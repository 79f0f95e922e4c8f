//! Questions that the server asks as tasks over HTTP: everything goes over the stream of the call.

use mcp_proto::http::server::{Config, ExchangeId};
use mcp_proto::server::{Event, InputRequired};
use mcp_proto::{RawJson, VersionSet};
use mcp_tests::harness::HttpServerHarness;
use mcp_tests::harness::build::{
    initialize_request, legacy_request, notification, result_response, to_value,
};
use serde_json::{Value, json};

use super::asking::{hosting, state};
use super::{accepted, schema};
use crate::protocol::common::{ms, server};

fn post(web: &mut HttpServerHarness, session: &str, message: &Value) -> ExchangeId {
    web.post(&[("Mcp-Session-Id", session)], &message.to_string())
}

fn open_session(web: &mut HttpServerHarness) -> String {
    let mut initialize = initialize_request(0, "2025-11-25");
    initialize["params"]["capabilities"] = hosting();
    let x = web.post(&[], &initialize.to_string());
    let session = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    post(web, &session, &notification("notifications/initialized", Value::Null));
    assert!(matches!(web.poll_event(), Some(Event::SessionOpened { .. })));
    session
}

/// Takes the newest message of the stream of the call, which has this number of messages now.
fn newest(web: &mut HttpServerHarness, x: ExchangeId, count: usize) -> Value {
    web.transmit_all();
    let messages = web.response(x).messages();
    assert_eq!(messages.len(), count, "{messages:?}");
    messages.last().expect("a message").clone()
}

// covers: TASK-009, TASK-018, TASK-019, TASK-037
#[test]
fn question_is_polled_and_collected_on_the_stream_of_its_call() {
    let mut web = HttpServerHarness::new(server(VersionSet::ALL), Config::new());
    let session = open_session(&mut web);
    let x = post(&mut web, &session, &legacy_request(1, "tools/call", json!({"name": "dredge"})));
    let call = web.expect_call();
    let mut input = InputRequired::new();
    input.ask_as_tasks(None);
    assert!(input.elicit(&call, "basin", "Which basin?", schema()).is_err());
    let now = web.now;
    web.server.engine().require_input(now, &call, &input).expect("the client answers forms");
    let question = newest(&mut web, x, 1);
    assert!(question["params"]["task"].is_object(), "{question}");
    post(&mut web, &session, &result_response(&question, json!({"task": state("working", &json!({}))})));
    web.advance(ms(500));
    let poll = newest(&mut web, x, 2);
    assert_eq!((&poll["method"], &poll["params"]["taskId"]), (&json!("tasks/get"), &json!("q-1")));
    post(&mut web, &session, &result_response(&poll, state("completed", &json!({}))));
    let collect = newest(&mut web, x, 3);
    assert_eq!(collect["method"], "tasks/result");
    post(&mut web, &session, &result_response(&collect, accepted()));
    let again = web.expect_call();
    let answer: &RawJson = again.answer("basin").expect("an outcome").expect("an answer");
    assert_eq!(to_value(answer), accepted());
    let now = web.now;
    web.server.engine().complete(now, again.id(), &json!({"content": []})).expect("open");
    assert_eq!(newest(&mut web, x, 4)["id"], 1);
    assert!(web.response(x).is_complete);
}
