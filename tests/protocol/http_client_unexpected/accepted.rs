//! Requests that a legacy server accepts with 202 and answers on the GET stream.

use mcp_proto::{CallError, CallOptions, Diagnostic, HttpError, Version, VersionSet};
use mcp_tests::harness::build::{notification, result_response};
use mcp_tests::harness::{Chunker, HttpClientHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, ms, secs};
use crate::protocol::http_client_shared::{
    V, expect_http_error, legacy_harness, modern_harness, non_retryable, tool_capabilities, tool_result,
};

/// Starts a call that the server accepts with 202.
fn start_accepted_call(
    harness: &mut HttpClientHarness,
    options: &CallOptions,
) -> (mcp_proto::CallKey, Value) {
    let (key, request) = harness.start_wave_call(options);
    harness.respond_with_status(request.id, 202);
    (key, request.body)
}

// covers: HTTP-021, HTTP-051, HTTP-082 (as the client takes it)
#[test]
fn accepted_call_is_answered_on_the_get_stream() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        let get = harness.become_legacy_with_get_stream(V, Some("s"), tool_capabilities());
        let (key, request) = start_accepted_call(&mut harness, &non_retryable());
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::Http(_)));
        let (other, other_request) = start_accepted_call(&mut harness, &non_retryable());
        harness.advance(secs(20));
        harness.assert_idle();
        harness.receive_event(get, "1", &result_response(&other_request, tool_result()));
        assert_eq!(harness.expect_done(other), Ok(tool_result()));
        // The server may drop the stream meanwhile and replay what was missed.
        harness.break_connection(get);
        harness.advance(secs(1));
        let again = harness.expect_request();
        assert_eq!((again.method, again.field("last-event-id")), ("GET", Some("1")));
        harness.start_event_stream(again.id);
        harness.receive_event(again.id, "2", &result_response(&request, tool_result()));
        assert_eq!(harness.expect_done(key), Ok(tool_result()));
        // The answer may overtake the 202.
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.receive_event(again.id, "3", &result_response(&request.body, tool_result()));
        assert_eq!(harness.expect_done(key), Ok(tool_result()));
        harness.respond_with_status(request.id, 202);
        harness.assert_idle();
        harness.transcript
    });
}

// covers: HTTP-063, HTTP-082 (as the client takes it)
#[test]
fn accepted_call_ends_by_its_own_timeout() {
    let mut harness = legacy_harness(Chunker::Whole);
    let get = harness.become_legacy_with_get_stream(V, None, tool_capabilities());
    let (key, request) = start_accepted_call(&mut harness, &non_retryable().timeout(secs(40)));
    harness.take_diagnostics();
    harness.advance(secs(40) - ms(1));
    harness.assert_idle();
    harness.advance(ms(1));
    assert!(matches!(harness.expect_done(key), Err(CallError::TimedOut)));
    let cancel = harness.expect_post("notifications/cancelled");
    assert_eq!(cancel.body["params"]["requestId"], request["id"]);
    harness.respond_with_status(cancel.id, 202);
    // The answer comes too late.
    harness.receive_event(get, "", &result_response(&request, tool_result()));
    harness.take_diagnostics();
    harness.assert_idle();
}

// covers: HTTP-082
#[test]
fn accepted_call_fails_without_a_get_stream() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, None, tool_capabilities());
    let (key, _) = start_accepted_call(&mut harness, &non_retryable());
    assert_eq!(expect_http_error(harness.expect_done(key)), HttpError::Unanswered { status: 202 });
    // Another status without a body is no promise of an answer, and a modern server has no GET stream.
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy_with_get_stream(V, None, tool_capabilities());
    let (key, request) = harness.start_wave_call(&non_retryable());
    harness.respond_with_status(request.id, 204);
    assert_eq!(expect_http_error(harness.expect_done(key)), HttpError::Unanswered { status: 204 });
    let mut harness = modern_harness(Chunker::Whole);
    let (key, _) = start_accepted_call(&mut harness, &non_retryable());
    assert_eq!(expect_http_error(harness.expect_done(key)), HttpError::Unanswered { status: 202 });
}

// covers: HTTP-053, HTTP-072, HTTP-082
#[test]
fn accepted_call_ends_with_the_get_stream() {
    for (end, idempotent) in [("405", false), ("405", true), ("session", false)] {
        let mut harness = legacy_harness(Chunker::Whole);
        let get = harness.become_legacy_with_get_stream(V, Some("s"), tool_capabilities());
        let options = if idempotent { non_retryable().idempotent() } else { non_retryable() };
        let (key, _) = start_accepted_call(&mut harness, &options);
        harness.take_diagnostics();
        harness.receive_event(get, "1", &notification("x/y", Value::Null));
        harness.expect_event();
        harness.break_connection(get);
        harness.advance(secs(1));
        let again = harness.expect_request();
        assert_eq!(again.method, "GET");
        harness.respond_with_status(again.id, if end == "session" { 404 } else { 405 });
        match (end, idempotent) {
            ("405", true) => {
                harness.take_diagnostics();
                harness.advance(secs(1));
                let repeated = harness.expect_post("tools/call");
                harness.respond_with_json(repeated.id, 200, &result_response(&repeated.body, tool_result()));
                assert_eq!(harness.expect_done(key), Ok(tool_result()));
            }
            ("405", false) => {
                let error = expect_http_error(harness.expect_done(key));
                assert!(matches!(&error, HttpError::Lost { reason } if reason.contains("405")), "{error:?}");
                assert!(matches!(harness.expect_diagnostic(), Diagnostic::Http(_)));
                // The call that comes next has no GET stream.
                let (key, _) = start_accepted_call(&mut harness, &non_retryable());
                let error = expect_http_error(harness.expect_done(key));
                assert_eq!(error, HttpError::Unanswered { status: 202 });
            }
            _ => assert_eq!(expect_http_error(harness.expect_done(key)), HttpError::SessionLost),
        }
    }
}

// covers: HTTP-073
#[test]
fn accepted_call_does_not_delay_closing() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy_with_get_stream(V, Some("s"), json!({"tools": {}}));
    start_accepted_call(&mut harness, &non_retryable());
    harness.client.close(harness.now);
    let delete = harness.take_requests().pop().expect("the DELETE");
    assert_eq!(delete.method, "DELETE");
    harness.respond_with_status(delete.id, 204);
    while harness.client.poll_event(harness.now).is_some() {}
    assert!(harness.client.is_drained());
}

// covers: HTTP-082
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn calls_wait_for_a_log_level_that_is_answered_on_the_get_stream() {
    let mut harness = HttpClientHarness::new(
        client(VersionSet::ALL),
        HttpClientHarness::default_http_config(),
        Chunker::Whole,
    );
    let get = harness.become_legacy_with_get_stream(
        Version::V2025_11_25,
        Some("s"),
        json!({"tools": {}, "logging": {}}),
    );
    let now = harness.now;
    harness.client.engine().set_log_level(now, Some(mcp_proto::model::LoggingLevel::Info)).expect("a level");
    let level = harness.expect_post("logging/setLevel");
    harness.respond_with_status(level.id, 202);
    harness.take_diagnostics();
    let key = harness.call("tools/call", &json!({"name": "wave", "arguments": {}}), &non_retryable());
    harness.advance(ms(1));
    harness.assert_nothing_sent();
    harness.receive_event(get, "1", &result_response(&level.body, json!({})));
    let request = harness.expect_post("tools/call");
    harness.respond_with_json(request.id, 200, &result_response(&request.body, tool_result()));
    harness.expect_done(key).expect("done");
}

// covers: HTTP-082
#[test]
fn accepted_pings_do_not_block_later_messages() {
    let config = client(VersionSet::ALL);
    let mut harness =
        HttpClientHarness::new(config, HttpClientHarness::default_http_config(), Chunker::Whole);
    let _get = harness.become_legacy_with_get_stream(Version::V2025_11_25, Some("s"), json!({"tools": {}}));
    for _ in 0..64 {
        let (_, ping) = harness.start_call("ping", &json!({}), &non_retryable());
        harness.respond_with_status(ping.id, 202);
    }
    harness.take_diagnostics();
    let _ = harness.start_wave_call(&non_retryable());
}
