//! Handlers that ask where they need an answer: each delivery runs them from their beginning, with what is there by then.

use mcp_proto::model::{CreateMessageParams, ElicitAction, ElicitUrlParams, SamplingMessage};
use mcp_proto::server::{Call, InputError, InputRequired};
use mcp_proto::{RpcError, Version};
use mcp_tests::harness::build::{legacy_request, modern_request_with, result_response};
use mcp_tests::harness::{Chunker, ServerHarness};
use serde_json::{Value, json};

use crate::protocol::inputs_server::{config, open_session};

/// Books a berth: an order that must not be placed twice, a page, a sampled text and the directories, one after the other.
#[expect(deprecated, reason = "tested until its removal")]
fn book(call: &Call, input: &mut InputRequired, orders: &mut u32) -> Result<String, RpcError> {
    let order = input.once(call, "order", || {
        *orders += 1;
        *orders
    })?;
    assert_eq!(input.kept::<u32>(call, "order")?, Some(order));
    assert!(input.kept::<String>(call, "order").is_err_and(|error| error.message.contains("`order`")));
    assert_eq!(input.kept::<u32>(call, "another")?, None);
    let page = ElicitUrlParams::new("Pay here", "https://pay.example/c14").elicitation_id("e1");
    let action = input.elicit_url(call, "pay", page)?;
    assert_eq!(action, ElicitAction::Accept);
    let question = CreateMessageParams::new(vec![SamplingMessage::user("a name for the berth?")], 10u64);
    let model = input.sample(call, "name", question)?.model.to_string();
    let roots = input.list_roots(call, "where")?.roots.len();
    Ok(format!("{order} {model} {roots}"))
}

fn response_of(request: &Value) -> Value {
    match request["method"].as_str().expect("a request") {
        "elicitation/create" => json!({"action": "accept"}),
        "sampling/createMessage" => {
            json!({"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"})
        }
        "roots/list" => json!({"roots": [{"uri": "file:///a"}]}),
        other => panic!("{other}"),
    }
}

/// Runs the handler, and sends its questions or its result.
fn run(harness: &mut ServerHarness, call: &Call, orders: &mut u32) -> Option<String> {
    let mut input = InputRequired::new();
    match book(call, &mut input, orders) {
        Ok(text) => {
            harness.complete(call.id(), &json!({"content": [{"type": "text", "text": text}]}));
            Some(text)
        }
        Err(_) => {
            assert!(!input.is_empty());
            harness.pipe.engine().require_input(harness.now, call, &input).expect("the client can answer");
            harness.pump();
            None
        }
    }
}

const ALL: &str = r#"{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}"#;

fn modern(id: i64, more: Value) -> Value {
    let capabilities: Value = serde_json::from_str(ALL).expect("JSON");
    let mut params = json!({"name": "book", "arguments": {}});
    let Value::Object(more) = more else { panic!("an object, not {more}") };
    params.as_object_mut().expect("an object").extend(more);
    let meta = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
    modern_request_with(id, "tools/call", params, &meta)
}

// covers: MRTR-001, MRTR-021, MRTR-026
#[test]
fn modern_handler_runs_again_with_each_answer_and_does_what_it_keeps_once() {
    let mut harness = ServerHarness::server(config(), Chunker::Whole);
    let (mut orders, mut more) = (0, json!({}));
    for id in 1..=4 {
        let call = harness.expect_call_for(&modern(id, more.clone()));
        assert_eq!(call.attempt(), u32::try_from(id - 1).expect("small"));
        if let Some(text) = run(&mut harness, &call, &mut orders) {
            assert_eq!((text.as_str(), id, orders), ("1 m 1", 4, 1));
            return;
        }
        let result = harness.expect_reply()["result"].clone();
        let asked = result["inputRequests"].as_object().expect("questions");
        let answers: serde_json::Map<_, _> =
            asked.iter().map(|(key, request)| (key.clone(), response_of(request))).collect();
        more = json!({"inputResponses": answers, "requestState": result["requestState"]});
    }
    panic!("the handler never ended");
}

// covers: MRTR-001
#[test]
fn legacy_handler_runs_again_with_each_answer_and_does_what_it_keeps_once() {
    let mut harness = ServerHarness::server(config(), Chunker::Whole);
    harness.open_session_with(Version::V2025_11_25, &serde_json::from_str(ALL).expect("JSON"));
    let mut call =
        harness.expect_call_for(&legacy_request(1, "tools/call", json!({"name": "book", "arguments": {}})));
    let mut orders = 0;
    for round in 0..=3 {
        if let Some(text) = run(&mut harness, &call, &mut orders) {
            assert_eq!((text.as_str(), round, orders), ("1 m 1", 3, 1));
            return;
        }
        let asked = harness.expect_reply();
        if round == 0 {
            assert_eq!(asked["params"]["elicitationId"], "e1");
        }
        harness.feed_message(&result_response(&asked, response_of(&asked)));
        call = harness.expect_call();
    }
    panic!("the handler never ended");
}

// covers: MRTR-027, MRTR-029
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn answer_of_another_kind_is_asked_for_once_more_and_then_refused() {
    let mut harness = open_session(config(), Version::V2025_11_25, Chunker::Whole);
    let mut call =
        harness.expect_call_for(&legacy_request(1, "tools/call", json!({"name": "book", "arguments": {}})));
    for attempt in 0..2 {
        assert_eq!(call.attempt(), attempt);
        let mut input = InputRequired::new();
        assert_eq!(input.list_roots(&call, "where"), Err(InputError::Pending));
        harness.pipe.engine().require_input(harness.now, &call, &input).expect("the client can answer");
        harness.pump();
        let asked = harness.expect_reply();
        harness.feed_message(&result_response(&asked, json!({"roots": 7})));
        call = harness.expect_call();
    }
    let mut input = InputRequired::new();
    let error = input.list_roots(&call, "where").expect_err("unusable");
    assert!(matches!(error, InputError::Unusable(_)), "{error:?}");
    assert!(input.is_empty(), "nothing else is asked");
    assert_eq!(RpcError::from(error).code, -32602);
}
