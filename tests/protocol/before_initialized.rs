//! Input requests of a handler between the answer to `initialize` and `notifications/initialized` (LIFE-006).

use mcp_proto::http::server::Config as HttpConfig;
use mcp_proto::model::{CreateMessageParams, ElicitSchema, LoggingLevel, SamplingMessage};
use mcp_proto::model::{ElicitFormParams, InputRequest, InputRequests};
use mcp_proto::server::{Call, Event};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Fault, Limits, RawJson, Version, VersionSet,
};
use mcp_tests::harness::build::{initialize_request, legacy_request, notification, result_response};
use mcp_tests::harness::{Chunker, HttpServerHarness, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{limits, secs, server};

/// Starts a session whose handshake is not finished.
#[expect(deprecated, reason = "tested until its removal")]
fn half_open(version: Version, limits: Limits, cut: Chunker) -> ServerHarness {
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::Logging);
    let config = server(VersionSet::ALL).capabilities(capabilities).limits(limits);
    let mut harness = ServerHarness::server(config, cut);
    let mut initialize = initialize_request(0, version.as_str());
    initialize["params"]["capabilities"] = json!({"elicitation": {}, "sampling": {}, "roots": {}});
    harness.feed_message(&initialize);
    harness.expect_reply();
    harness
}

fn initialized() -> Value {
    notification("notifications/initialized", Value::Null)
}

#[expect(deprecated, reason = "tested until its removal")]
fn sampling_and_roots() -> InputRequests<'static> {
    let messages = vec![SamplingMessage::user("hi")];
    let sampling = InputRequest::CreateMessage(CreateMessageParams::new(messages, 100u64));
    [("line".to_owned(), sampling), ("where".to_owned(), InputRequest::ListRoots(None))].into_iter().collect()
}

/// Delivers a call and parks it.
fn park(harness: &mut ServerHarness, state: &[u8]) -> Call {
    let call = harness.expect_call_for(&legacy_request(1, "tools/call", json!({"name": "book"})));
    harness.need_input(&call, &sampling_and_roots(), state).expect("the client can answer");
    harness.assert_nothing_sent();
    call
}

/// Takes the two input requests that were sent.
fn expect_both(harness: &mut ServerHarness) -> (Value, Value) {
    let sent = harness.take_sent();
    let [sampling, roots] = &*sent else { panic!("two requests, not {sent:?}") };
    assert_eq!(
        (&sampling["method"], &roots["method"]),
        (&json!("sampling/createMessage"), &json!("roots/list"))
    );
    (sampling.clone(), roots.clone())
}

fn expect_session_opened(harness: &mut ServerHarness) {
    assert!(matches!(harness.expect_event(), Event::SessionOpened { .. }));
}

// covers: LIFE-006, LOG-016, PING-001
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn input_requests_wait_for_initialized() {
    for version in Version::ALL.into_iter().filter(|version| VersionSet::LEGACY.contains(*version)) {
        for_each_chunker(|cut| {
            let mut harness = half_open(version, Limits::default(), cut);
            park(&mut harness, b"");
            // Pings and log messages do not wait.
            let channel = harness.pipe.channel();
            let now = harness.now;
            let options = CallOptions::new();
            harness.pipe.engine().request(now, channel, "ping", &json!({}), &options).expect("allowed");
            assert_eq!(harness.expect_reply()["method"], "ping");
            let _ = harness.pipe.engine().log_session(now, channel, &LoggingLevel::Error, None, &"x");
            assert_eq!(harness.expect_reply()["method"], "notifications/message");
            harness.feed_message(&initialized());
            expect_session_opened(&mut harness);
            let (sampling, roots) = expect_both(&mut harness);
            assert_eq!(sampling["params"]["maxTokens"], 100);
            let text = json!({"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"});
            harness.feed_message(&result_response(&sampling, text));
            harness.feed_message(&result_response(&roots, json!({"roots": []})));
            let again = harness.expect_call();
            assert_eq!(again.attempt(), 1);
            assert!(
                matches!(again.answer("line"), Some(Ok(_))) && matches!(again.answer("where"), Some(Ok(_)))
            );
            // After the notification they go out at once.
            harness.need_input(&again, &sampling_and_roots(), b"").expect("the client can answer");
            expect_both(&mut harness);
            harness.transcript
        });
    }
}

// covers: LIFE-006
#[test]
fn input_timeout_begins_when_the_request_is_sent() {
    let limits = limits(|l| l.input_timeout = secs(5));
    let mut harness = half_open(Version::V2025_11_25, limits, Chunker::Whole);
    park(&mut harness, b"");
    harness.advance(secs(60));
    harness.assert_idle();
    harness.feed_message(&initialized());
    expect_session_opened(&mut harness);
    expect_both(&mut harness);
    harness.advance(secs(6));
    let again = harness.expect_call();
    assert!(matches!(again.answer("line"), Some(Err(CallError::TotalTimedOut | CallError::TimedOut))));
}

// covers: LIFE-006
#[test]
fn call_that_waits_for_initialized_ends_at_max_call_age() {
    let limits = limits(|l| l.max_call_age = secs(30));
    let mut harness = half_open(Version::V2025_06_18, limits, Chunker::Whole);
    park(&mut harness, b"kept");
    harness.advance(secs(29));
    harness.assert_idle();
    harness.advance(secs(2));
    let reply = harness.expect_reply();
    assert_eq!((&reply["id"], &reply["error"]["code"]), (&json!(1), &json!(-32603)), "{reply}");
    // The handler is not running; only the state that it kept is given back.
    match harness.expect_event() {
        Event::ParkedCallDropped { state } => assert_eq!(&*state, b"kept"),
        other => panic!("{other:?}"),
    }
    harness.feed_message(&initialized());
    expect_session_opened(&mut harness);
    harness.assert_idle();
    harness.assert_works();
}

// covers: LIFE-006
#[test]
fn call_cancelled_while_it_waits_sends_nothing() {
    let mut harness = half_open(Version::V2025_11_25, Limits::default(), Chunker::Whole);
    park(&mut harness, b"kept");
    harness.feed_message(&notification("notifications/cancelled", json!({"requestId": 1})));
    assert!(matches!(harness.expect_event(), Event::ParkedCallDropped { .. }));
    harness.assert_nothing_sent();
    harness.feed_message(&initialized());
    expect_session_opened(&mut harness);
    // Neither the requests nor cancellations of requests that were never sent.
    harness.assert_idle();
    harness.assert_works();
}

// covers: LIFE-006
#[test]
fn input_withdrawn_while_it_waits_sends_nothing() {
    let mut harness = half_open(Version::V2025_11_25, Limits::default(), Chunker::Whole);
    park(&mut harness, b"kept");
    let now = harness.now;
    assert!(harness.pipe.engine().withdraw_input(now, b"kept", None));
    let again = harness.expect_call();
    assert_eq!(again.answer("line"), Some(Err(&CallError::Cancelled)));
    harness.feed_message(&initialized());
    expect_session_opened(&mut harness);
    harness.assert_idle();
}

// covers: LIFE-006, STDIO-028
#[test]
fn connection_that_ends_while_a_call_waits_ends_the_call() {
    let mut harness = half_open(Version::V2025_11_25, Limits::default(), Chunker::Whole);
    park(&mut harness, b"");
    harness.eof();
    assert_eq!(harness.expect_reply()["error"]["code"], -32603);
    assert_eq!(harness.expect_closed(), Fault::Eof);
    harness.assert_nothing_sent();
}

/// Starts a session over HTTP whose handshake is not finished. Returns its id.
fn half_open_http(web: &mut HttpServerHarness) -> String {
    let mut initialize = initialize_request(0, "2025-11-25");
    initialize["params"]["capabilities"] = json!({"elicitation": {}});
    let x = web.post(&[], &initialize.to_string());
    web.response(x).field("mcp-session-id").expect("a session").to_owned()
}

/// Posts a call over HTTP and parks it. Returns its exchange.
fn park_http(web: &mut HttpServerHarness, id: &str) -> mcp_proto::http::server::ExchangeId {
    let body = legacy_request(1, "tools/call", json!({"name": "book"})).to_string();
    let x = web.post(&[("Mcp-Session-Id", id)], &body);
    let call = web.expect_call();
    let schema = RawJson::new(r#"{"type":"object","properties":{"a":{"type":"string"}}}"#).expect("JSON");
    let schema = schema.parse::<ElicitSchema>().expect("a form");
    let form = InputRequest::Elicit(ElicitFormParams::new("who?", schema).into());
    let requests = [("who".to_owned(), form)].into_iter().collect();
    let now = web.now;
    web.server.engine().need_input(now, &call, &requests, b"").expect("the client can answer");
    web.transmit_all();
    x
}

// covers: LIFE-006
#[test]
fn input_requests_over_http_wait_for_initialized_of_the_session() {
    let mut web = HttpServerHarness::new(server(VersionSet::ALL), HttpConfig::new());
    let id = half_open_http(&mut web);
    let x = park_http(&mut web, &id);
    assert!(web.response(x).messages().is_empty());
    let y = web.post(&[("Mcp-Session-Id", &id)], &initialized().to_string());
    assert_eq!(web.response(y).status, 202);
    web.transmit_all();
    let question = web.response(x).messages().pop().expect("a request");
    assert_eq!(question["method"], "elicitation/create");
    assert!(matches!(web.poll_event(), Some(Event::SessionOpened { .. })));
    let response = result_response(&question, json!({"action": "decline"}));
    let y = web.post(&[("Mcp-Session-Id", &id)], &response.to_string());
    assert_eq!(web.response(y).status, 202);
    assert_eq!(web.expect_call().attempt(), 1);
}

// covers: LIFE-006
#[test]
fn exchange_that_ends_while_its_call_waits_ends_the_call() {
    let mut web = HttpServerHarness::new(server(VersionSet::ALL), HttpConfig::new());
    let id = half_open_http(&mut web);
    let x = park_http(&mut web, &id);
    web.close_exchange(x);
    let y = web.post(&[("Mcp-Session-Id", &id)], &initialized().to_string());
    assert_eq!(web.response(y).status, 202);
    assert!(matches!(web.poll_event(), Some(Event::SessionOpened { .. })));
    assert!(web.poll_event().is_none());
    assert_eq!(web.server.exchange_count(), 0);
    assert_eq!(web.server.engine().live_calls(), 0);
}
