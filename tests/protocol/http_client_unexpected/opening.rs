//! The first requests of a client, and their unexpected outcomes.

use mcp_proto::{Era, Fault, HttpError};
use mcp_tests::harness::build::{error_response, initialize_result, result_response};
use mcp_tests::harness::{Chunker, HttpClientHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{ms, secs};
use crate::protocol::http_client_shared::{legacy_harness, non_retryable, tool_capabilities, tool_result};

// covers: VER-020, VER-021
#[test]
fn discover_stream_without_answer_means_legacy_server_unless_it_breaks() {
    for_each_chunker(|cut| {
        let mut harness = legacy_harness(cut);
        let probe = harness.expect_post("server/discover");
        harness.start_event_stream(probe.id);
        harness.receive_body(probe.id, ": nothing\n\nid: 1\ndata:\n\n");
        harness.receive_end(probe.id);
        let request = harness.expect_post("initialize");
        harness.respond_with_json(
            request.id,
            200,
            &result_response(&request.body, initialize_result("2025-11-25", json!({}))),
        );
        assert_eq!(harness.expect_ready().era(), Era::Legacy);
        harness.transcript
    });
    let mut harness = legacy_harness(Chunker::Whole);
    let probe = harness.expect_post("server/discover");
    harness.start_event_stream(probe.id);
    harness.break_connection(probe.id);
    assert!(matches!(harness.expect_closed(), Fault::Http(e) if matches!(*e, HttpError::Lost { .. })));
}

// covers: HTTPSSE-013, VER-031
#[test]
fn http_sse_stream_without_endpoint_event_times_out_with_all_attempts() {
    for how in ["silent", "stream", "comments"] {
        let mut harness = legacy_harness(Chunker::Whole);
        for method in ["server/discover", "initialize"] {
            let request = harness.expect_post(method);
            harness.respond_with_json(
                request.id,
                400,
                &error_response(&request.body, -32000, "who are you?", Value::Null),
            );
        }
        let get = harness.expect_request();
        if how != "silent" {
            harness.start_event_stream(get.id);
        }
        if how == "comments" {
            harness.receive_body(get.id, ": hello\n\n");
        }
        harness.advance(secs(30) - ms(1));
        harness.assert_idle();
        harness.advance(ms(1));
        assert_eq!(harness.expect_aborted(), get.id);
        let fault = harness.expect_closed();
        assert!(matches!(&fault, Fault::NoServer { attempts } if attempts.len() == 3), "{fault:?}");
        assert!(fault.to_string().contains("who are you?"), "{fault}");
    }
    // A stream that names its endpoint may be silent afterwards.
    let mut harness = legacy_harness(Chunker::Whole);
    for method in ["server/discover", "initialize"] {
        let request = harness.expect_post(method);
        harness.respond_with_status(request.id, 404);
    }
    let get = harness.expect_request();
    harness.start_event_stream(get.id);
    harness.receive_body(get.id, "event: endpoint\ndata: /messages\n\n");
    let request = harness.expect_post("initialize");
    harness.respond_with_status(request.id, 202);
    harness.receive_event(
        get.id,
        "",
        &result_response(&request.body, initialize_result("2024-11-05", json!({}))),
    );
    harness.expect_ready();
    let initialized = harness.expect_post("notifications/initialized");
    harness.respond_with_status(initialized.id, 202);
    harness.advance(secs(1_000));
    harness.assert_idle();
}

// covers: HTTPSSE-004, HTTPSSE-007
#[test]
fn http_sse_post_outcome_is_ignored_once_answered_on_the_stream() {
    for post_outcome in ["202", "404", "500", "breaks", "unreachable"] {
        let mut harness = legacy_harness(Chunker::Whole);
        for method in ["server/discover", "initialize"] {
            let request = harness.expect_post(method);
            harness.respond_with_status(request.id, 404);
        }
        let get = harness.expect_request();
        harness.start_event_stream(get.id);
        harness.receive_body(get.id, "event: endpoint\ndata: /messages\n\n");
        let end_post = |harness: &mut HttpClientHarness, x| match post_outcome {
            "breaks" => harness.break_connection(x),
            "unreachable" => harness.refuse_connection(x),
            status => harness.respond_with_status(x, status.parse().expect("a number")),
        };
        let request = harness.expect_post("initialize");
        harness.receive_event(
            get.id,
            "",
            &result_response(&request.body, initialize_result("2024-11-05", tool_capabilities())),
        );
        harness.expect_ready();
        let initialized = harness.expect_post("notifications/initialized");
        end_post(&mut harness, request.id);
        harness.respond_with_status(initialized.id, 202);
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.receive_event(get.id, "", &result_response(&request.body, tool_result()));
        assert_eq!(harness.expect_done(key), Ok(tool_result()));
        end_post(&mut harness, request.id);
        harness.assert_idle();
    }
}

// covers: SEC-018 (errors that are reported as text), VER-031
#[test]
fn server_text_in_faults_is_truncated_and_escaped() {
    let mut harness = legacy_harness(Chunker::Whole);
    let probe = harness.expect_post("server/discover");
    harness.start_event_stream(probe.id);
    let loud = format!("\u{1b}[31m\u{202e}{}", "x".repeat(100_000));
    for id in 0..100 {
        harness.receive_event(
            probe.id,
            "",
            &error_response(&json!({"id": 900_000 + id}), -32000, &loud, Value::Null),
        );
    }
    harness.receive_end(probe.id);
    harness.take_diagnostics();
    let request = harness.expect_post("initialize");
    harness.respond_with_json(request.id, 404, &error_response(&request.body, -32000, &loud, Value::Null));
    let get = harness.expect_request();
    harness.respond(get.id, 404, "text/plain", &loud);
    let fault = harness.expect_closed();
    let text = fault.to_string();
    assert!(text.len() < 8_000, "{}", text.len());
    assert!(text.contains("xxxxxxxx") && !text.contains(['\u{1b}', '\u{202e}']), "{text}");
    assert!(matches!(&fault, Fault::NoServer { attempts } if attempts.len() < 16), "{fault:?}");
}
