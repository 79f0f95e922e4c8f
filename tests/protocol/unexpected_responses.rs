//! Unexpected, repeated and malformed responses at the server: none does harm, and open requests stay open.

use mcp_proto::model::{InputRequest, InputRequests};
use mcp_proto::seal::Keys;
use mcp_proto::server::{self, Call, Event};
use mcp_proto::{
    Anchor, CallError, Capabilities, Capability, Diagnostic, Limit, UseError, Version, VersionSet,
};
use mcp_tests::harness::build::{legacy_request, modern_request_with, result_response, to_value};
use mcp_tests::harness::{Chunker, ServerHarness, for_each_chunker, rounds};
use serde_json::{Value, json};

use crate::protocol::common::{limits, secs, server};

const NEWEST: Version = Version::V2025_11_25;

fn config() -> server::Config {
    server(VersionSet::ALL).capabilities(Capabilities::new().with(Capability::Tools))
}

fn open_session(config: server::Config, cut: Chunker) -> ServerHarness {
    let mut harness = ServerHarness::server(config, cut);
    harness.open_session_with(NEWEST, &json!({"roots": {}}));
    harness
}

#[expect(deprecated, reason = "tested until its removal")]
fn roots_requests<S: AsRef<str>>(keys: impl IntoIterator<Item = S>) -> InputRequests<'static> {
    let mut requests = InputRequests::new();
    for key in keys {
        requests.insert(key.as_ref(), InputRequest::ListRoots(None));
    }
    requests
}

/// Starts a call that waits for two input responses; returns the two requests.
fn start_waiting_calls(harness: &mut ServerHarness, id: i64) -> Vec<Value> {
    let call = harness.expect_call_for(&legacy_request(id, "tools/call", json!({"name": "book"})));
    harness.need_input(&call, &roots_requests(["a", "b"]), b"").expect("the client can answer");
    harness.take_sent()
}

fn roots_response(uri: &str) -> Value {
    json!({"roots": [{"uri": uri}]})
}

fn input_response(call: &Call, key: &str) -> Value {
    to_value(call.answer(key).expect("an answer").expect("a result"))
}

fn assert_late_response(harness: &mut ServerHarness, message: &Value) {
    harness.feed_message(message);
    assert!(matches!(harness.expect_diagnostic(), Diagnostic::LateResponse(_)), "{message}");
    harness.assert_idle();
}

#[test]
fn first_input_response_counts_and_later_ones_are_late() {
    for_each_chunker(|cut| {
        let mut harness = open_session(config(), cut);
        let requests = start_waiting_calls(&mut harness, 1);
        harness.feed_message(&result_response(&requests[0], roots_response("file:///first")));
        // While the other request is open, while the call runs again, and after its end.
        assert_late_response(&mut harness, &result_response(&requests[0], roots_response("file:///second")));
        harness.feed_message(&result_response(&requests[1], roots_response("file:///b")));
        let call = harness.expect_call();
        assert_eq!(input_response(&call, "a"), roots_response("file:///first"));
        for again in &requests {
            assert_late_response(&mut harness, &result_response(again, roots_response("file:///third")));
            assert_late_response(
                &mut harness,
                &json!({"jsonrpc": "2.0", "id": again["id"], "error": {"code": 1, "message": "no"}}),
            );
        }
        harness.complete(call.id(), &json!({"content": []}));
        assert_late_response(&mut harness, &result_response(&requests[1], roots_response("file:///fourth")));
        harness.assert_works();
        harness.transcript
    });
}

#[test]
fn unknown_responses_are_reported_and_change_nothing() {
    for_each_chunker(|cut| {
        let mut harness = open_session(config(), cut);
        let requests = start_waiting_calls(&mut harness, 77);
        for id in [json!("s1"), json!(-1), json!(999_999), json!(1.5), json!("")] {
            let stray = json!({"jsonrpc": "2.0", "id": id, "result": roots_response("file:///stray")});
            harness.feed_message(&stray);
            let diagnostic = harness.expect_diagnostic();
            let is_expected =
                matches!(diagnostic, Diagnostic::UnknownResponse { .. } | Diagnostic::Malformed { .. });
            assert!(is_expected, "{id}: {diagnostic:?}");
            harness.assert_idle();
        }
        // The id of a client request is not that of a server request.
        harness.feed_message(&json!({"jsonrpc": "2.0", "id": 77, "result": roots_response("file:///own")}));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::UnknownResponse { .. }));
        for request in &requests {
            harness.feed_message(&result_response(request, roots_response("file:///x")));
        }
        let call = harness.expect_call();
        assert_eq!(
            (input_response(&call, "a"), input_response(&call, "b")),
            (roots_response("file:///x"), roots_response("file:///x"))
        );
        harness.complete(call.id(), &json!({"content": []}));
        harness.assert_works();
        harness.transcript
    });
}

// covers: BASE-017
#[test]
fn malformed_response_completes_only_its_input_request() {
    for malformed in [
        json!({"result": 7}),
        json!({"result": null}),
        json!({"result": []}),
        json!({"result": "x"}),
        json!({"error": 7}),
        json!({"error": {"code": "x", "message": "m"}}),
        json!({"result": {}, "error": {"code": 1, "message": "m"}}),
    ] {
        for_each_chunker(|cut| {
            let mut harness = open_session(config(), cut);
            let requests = start_waiting_calls(&mut harness, 1);
            let mut wrong = json!({"jsonrpc": "2.0", "id": requests[0]["id"]});
            wrong.as_object_mut().expect("an object").extend(malformed.as_object().expect("members").clone());
            harness.feed_message(&wrong);
            harness.assert_nothing_sent();
            let events = harness.take_event_texts();
            assert!(events.iter().all(|line| line.starts_with("diagnostic")), "{malformed}: {events:?}");
            harness.feed_message(&result_response(&requests[1], roots_response("file:///b")));
            let call = harness.expect_call();
            assert!(
                matches!(call.answer("a"), Some(Err(CallError::Malformed(_)))),
                "{malformed}: {:?}",
                call.answer("a")
            );
            assert_eq!(input_response(&call, "b"), roots_response("file:///b"));
            harness.transcript
        });
    }
}

#[test]
fn need_input_beyond_max_inputs_is_refused() {
    let limited = || config().limits(limits(|l| l.max_inputs = 8));
    let too_many = roots_requests((0..9).map(|n| format!("q{n}")));
    let allowed = roots_requests((0..8).map(|n| format!("q{n}")));
    let everything = json!({"io.modelcontextprotocol/clientCapabilities": {"roots": {}}});
    let mut harness = open_session(limited(), Chunker::Whole);
    for request in [
        legacy_request(1, "tools/call", json!({"name": "book"})),
        modern_request_with(2, "tools/call", json!({"name": "book"}), &everything),
    ] {
        let call = harness.expect_call_for(&request);
        assert_eq!(harness.need_input(&call, &too_many, b""), Err(UseError::Full(Limit::Inputs)));
        harness.assert_nothing_sent();
        assert_eq!(harness.need_input(&call, &allowed, b""), Ok(()));
        harness.take_sent();
    }
}

// covers: BASE-033
#[test]
fn parked_calls_are_bounded_and_all_end() {
    let config = config().limits(limits(|l| l.max_pending_calls = 100));
    let mut harness = open_session(config, Chunker::Whole);
    let mut open = Vec::new();
    let mut refused = 0;
    for id in 0..1_000 {
        let call = harness.expect_call_for(&legacy_request(id, "tools/call", json!({"name": "book"})));
        match harness.need_input(&call, &roots_requests(["a"]), b"") {
            Ok(()) => open.push(harness.expect_reply()),
            Err(error) => {
                assert_eq!(error, UseError::Full(Limit::PendingCalls));
                refused += 1;
                // The call is unchanged and can be answered.
                harness.complete(call.id(), &json!({"content": []}));
            }
        }
    }
    assert_eq!((open.len(), refused), (100, 900));
    for (n, request) in open.iter().enumerate() {
        harness.feed_message(&result_response(request, roots_response("file:///x")));
        let call = harness.expect_call();
        assert_eq!(harness.complete(call.id(), &json!({"content": []}))["id"], n);
    }
    harness.assert_works();
    assert_eq!(harness.pipe.engine().live_calls(), 0);
}

// covers: MRTR-025
#[test]
fn modern_calls_awaiting_input_keep_no_state() {
    let sealed_config = config()
        .seal(Keys::new([7; 32]), Anchor::default())
        .limits(limits(|l| (l.max_live_calls, l.max_pending_calls) = (1, 1)));
    let mut harness = ServerHarness::server(sealed_config, Chunker::Whole);
    let everything = json!({"io.modelcontextprotocol/clientCapabilities": {"roots": {}}});
    let request = |id: u32, params: Value| modern_request_with(id, "tools/call", params, &everything);
    let mut last = Value::Null;
    let last_id = rounds(10_000) as u32;
    for id in 0..last_id {
        let call = harness.expect_call_for(&request(id, json!({"name": "book"})));
        harness.need_input(&call, &roots_requests(["a"]), b"x").expect("the client can answer");
        last = harness.expect_reply()["result"]["requestState"].clone();
        assert_eq!(harness.pipe.engine().live_calls(), 0);
    }
    // The client may retry any of them later.
    let more = json!({"name": "book", "requestState": last, "inputResponses": {"a": {"roots": []}}});
    let call = harness.expect_call_for(&request(last_id, more));
    assert_eq!((call.attempt(), call.state()), (1, Some(&b"x"[..])));
    harness.complete(call.id(), &json!({"content": []}));
    harness.advance(secs(7_200));
    harness.assert_idle();
}

// covers: CANC-010, CANC-013
#[test]
fn responses_for_a_cancelled_call_are_late() {
    for_each_chunker(|cut| {
        let mut harness = open_session(config(), cut);
        let requests = start_waiting_calls(&mut harness, 1);
        let cancel =
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
        harness.feed_message(&cancel);
        harness.take_sent();
        for request in &requests {
            assert_late_response(&mut harness, &result_response(request, roots_response("file:///x")));
        }
        // For a request without a response in time the handler gets an error.
        let requests = start_waiting_calls(&mut harness, 2);
        harness.feed_message(&result_response(&requests[0], roots_response("file:///x")));
        harness.advance(secs(3_601));
        let call = loop {
            match harness.expect_event() {
                Event::Call(call) => break call,
                Event::Diagnostic { .. } => {}
                other => panic!("{other:?}"),
            }
        };
        assert!(matches!(call.answer("b"), Some(Err(CallError::TotalTimedOut | CallError::TimedOut))));
        harness.transcript
    });
}
