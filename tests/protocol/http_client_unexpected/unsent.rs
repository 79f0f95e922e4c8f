//! Calls that ended before they were sent.

use mcp_proto::{CallError, VersionSet};
use mcp_tests::harness::build::{LEGACY_VERSIONS, result_response};
use mcp_tests::harness::{Chunker, HttpClientHarness};
use serde_json::json;

use crate::protocol::common::{client, secs};
use crate::protocol::http_client_shared::{
    V, expect_session_renewed, legacy_harness, modern_harness, non_retryable, tool_capabilities,
};

// covers: HTTP-063, CANC-003, TIME-002 (a request that was not sent is not cancelled)
#[test]
fn call_that_ended_before_it_was_sent_is_never_sent() {
    for how in ["cancelled", "overdue"] {
        for version in LEGACY_VERSIONS {
            let mut harness = legacy_harness(Chunker::Whole);
            let initialized = harness.initialize_legacy(version, Some("s"), tool_capabilities());
            let key = harness.call("tools/call", &json!({"name": "wave"}), &non_retryable().timeout(secs(1)));
            let other = harness.call("tools/list", &json!({}), &non_retryable());
            harness.assert_nothing_sent();
            if how == "cancelled" {
                harness.client.engine().cancel(harness.now, key, None).expect("a call");
                assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
            } else {
                harness.advance(secs(1));
                assert_eq!(harness.expect_done(key), Err(CallError::TimedOut));
            }
            harness.respond_with_status(initialized.id, 202);
            let get = harness.expect_request();
            harness.respond_with_status(get.id, 405);
            // Neither the call nor its cancellation is sent: the server does not know the call.
            let list = harness.expect_post("tools/list");
            harness.respond_with_json(list.id, 200, &result_response(&list.body, json!({"tools": []})));
            assert!(harness.expect_done(other).is_ok());
            harness.assert_idle();
            // A call that was sent is cancelled at the server.
            let (key, request) = harness.start_wave_call(&non_retryable());
            harness.client.engine().cancel(harness.now, key, None).expect("a call");
            assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
            let cancelled = harness.expect_post("notifications/cancelled");
            assert_eq!(cancelled.body["params"]["requestId"], request.body["id"]);
            assert_eq!(harness.expect_aborted(), request.id);
        }
    }
    let mut harness = modern_harness(Chunker::Whole);
    let engine = harness.client.engine();
    let key = engine.call_tool(harness.now, "wave", &json!({}), &non_retryable()).expect("a call");
    engine.cancel(harness.now, key, None).expect("a call");
    assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
    harness.assert_idle();
}

// covers: HTTP-072, CANC-003
#[test]
fn call_cancelled_during_session_renewal_is_not_sent_again() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy_with_get_stream(V, Some("one"), tool_capabilities());
    let (key, request) = harness.start_wave_call(&non_retryable());
    harness.respond_with_status(request.id, 404);
    let init = harness.expect_request();
    harness.expect_aborted();
    harness.client.engine().cancel(harness.now, key, None).expect("a call");
    assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
    let get = expect_session_renewed(&mut harness, &init, "two");
    harness.start_event_stream(get.id);
    harness.assert_idle();
}

// covers: HTTP-088
#[test]
fn call_cancelled_while_held_for_authorization_is_never_announced() {
    let config = HttpClientHarness::default_http_config().handle_challenges(true);
    let mut harness = HttpClientHarness::new(client(VersionSet::LEGACY), config, Chunker::Whole);
    harness.become_legacy(V, None, tool_capabilities());
    let (key, request) = harness.start_wave_call(&non_retryable());
    harness.respond_with_status(request.id, 401);
    harness.expect_challenge();
    harness.client.engine().cancel(harness.now, key, None).expect("a call");
    assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
    harness.assert_idle();
    // The same while the authorized retry is being sent.
    let (key, request) = harness.start_wave_call(&non_retryable());
    harness.respond_with_status(request.id, 401);
    let challenge = harness.expect_challenge();
    let token = mcp_proto::http::client::Credential::bearer("x").expect("a token");
    harness
        .client
        .authorization()
        .authorize(harness.now, challenge.exchange, token)
        .expect("an open challenge");
    harness.client.engine().cancel(harness.now, key, None).expect("a call");
    assert_eq!(harness.expect_done(key), Err(CallError::Cancelled));
    harness.assert_idle();
}

// covers: MRTR-013, TIME-006, HTTP-088
#[test]
fn retry_held_for_authorization_keeps_the_remaining_timeout() {
    for how in ["a round", "lost"] {
        let config = HttpClientHarness::default_http_config().handle_challenges(true);
        let mut harness = HttpClientHarness::new(client(VersionSet::MODERN), config, Chunker::Whole);
        harness.become_modern(json!({"tools": {}}));
        let (key, request) = harness.start_wave_call(&non_retryable().idempotent());
        if how == "lost" {
            harness.break_connection(request.id);
            harness.advance(secs(1));
        } else {
            let needs = json!({"resultType": "input_required", "requestState": "x"});
            harness.respond_with_json(request.id, 200, &result_response(&request.body, needs));
        }
        let again = harness.expect_post("tools/call");
        harness.respond_with_status(again.id, 401);
        let challenge = harness.expect_challenge();
        // A person may take long to log in.
        harness.advance(secs(1_800));
        harness.assert_idle();
        let token = mcp_proto::http::client::Credential::bearer("x").expect("a token");
        harness
            .client
            .authorization()
            .authorize(harness.now, challenge.exchange, token)
            .expect("an open challenge");
        harness.expect_post("tools/call");
        // The retry has the rest of the call's timeout.
        harness.advance(secs(59));
        harness.assert_idle();
        harness.advance(secs(1));
        assert_eq!(harness.expect_done(key), Err(CallError::TimedOut), "{how}");
        harness.expect_aborted();
    }
}
