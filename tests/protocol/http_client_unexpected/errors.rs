//! Error responses and invalid responses.

use mcp_proto::{CallError, HttpError, VersionSet};
use mcp_tests::harness::build::{error_response, initialize_result, result_response};
use mcp_tests::harness::{Chunker, HttpClientHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits};
use crate::protocol::http_client_shared::{
    BOM, JSON, V, expect_http_error, legacy_harness, modern_harness, non_retryable, tool_capabilities,
    tool_result,
};

// covers: HTTP-020, VER-030
#[test]
fn rpc_error_is_read_from_a_body_of_any_content_type() {
    for content_type in ["text/html; charset=utf-8", "text/plain", "application/problem+json", "", JSON] {
        for id in [json!(null), json!("server-error"), json!(4_000_000)] {
            for mark in ["", BOM, " \r\n"] {
                for_each_chunker(|cut| {
                    let mut harness = legacy_harness(cut);
                    let probe = harness.expect_post("server/discover");
                    let fields: &[(&str, &str)] =
                        if content_type.is_empty() { &[] } else { &[("content-type", content_type)] };
                    let data = json!({"supported": ["2025-06-18"], "requested": "2026-07-28"});
                    let body = |code, data| {
                        format!("{mark}{}", error_response(&json!({"id": id}), code, "it is closed", data))
                    };
                    harness.respond_with(probe.id, 400, fields, &body(-32022, data));
                    let request = harness.expect_post("initialize");
                    harness.respond_with_json(
                        request.id,
                        200,
                        &result_response(&request.body, initialize_result("2025-06-18", tool_capabilities())),
                    );
                    harness.expect_ready();
                    let initialized = harness.expect_post("notifications/initialized");
                    harness.respond_with_status(initialized.id, 202);
                    let get = harness.expect_request();
                    harness.respond_with_status(get.id, 405);
                    for status in [400, 404, 500] {
                        let (key, request) = harness.start_wave_call(&non_retryable());
                        harness.respond_with(request.id, status, fields, &body(-32000, Value::Null));
                        let outcome = harness.expect_done(key);
                        assert!(
                            matches!(&outcome, Err(CallError::Rpc(e)) if e.message == "it is closed"),
                            "{outcome:?}"
                        );
                    }
                    let (key, request) = harness.start_wave_call(&non_retryable());
                    harness.respond_with(request.id, 401, fields, &body(-32000, Value::Null));
                    assert!(
                        matches!(expect_http_error(harness.expect_done(key)), HttpError::Response(a) if a.status == 401)
                    );
                    harness.assert_idle();
                    harness.transcript
                });
            }
        }
    }
}

// covers: HTTP-072
#[test]
fn byte_order_mark_in_a_response_is_ignored() {
    let mut harness = legacy_harness(Chunker::Whole);
    harness.become_legacy(V, Some("one"), tool_capabilities());
    let (key, request) = harness.start_wave_call(&non_retryable());
    harness.respond_with_status(request.id, 404);
    let init = harness.expect_request();
    let body = result_response(&init.body, initialize_result(V.as_str(), tool_capabilities()));
    harness.respond_with(init.id, 200, &[("content-type", JSON)], &format!("{BOM}{body}"));
    let initialized = harness.expect_post("notifications/initialized");
    harness.respond_with_status(initialized.id, 202);
    let get = harness.expect_request();
    harness.respond_with_status(get.id, 405);
    let again = harness.expect_post("tools/call");
    harness.respond(again.id, 200, JSON, &format!("{BOM}{}", result_response(&again.body, tool_result())));
    assert_eq!(harness.expect_done(key), Ok(tool_result()));
}

// covers: HTTP-082
#[test]
fn invalid_response_is_described_in_the_error() {
    for (status, content_type, body, message) in [
        (
            400,
            "text/plain; charset=utf-8",
            "session id is missing\n",
            "HTTP status 400 with a body of type `text/plain; charset=utf-8`: session id is missing",
        ),
        (
            400,
            JSON,
            "{\"detail\":\"no\"}",
            "HTTP status 400 with a body of type `application/json`: {\"detail\":\"no\"}",
        ),
        (502, "text/html", "<h1>Bad gateway</h1>", "HTTP status 502 with a body of type `text/html`"),
        (400, "", "go\u{7}away", "HTTP status 400 with a body of no type: go\\u{7}away"),
        (200, "", "{}", "HTTP status 200 with a body of no type, which is not an MCP message: {}"),
        (500, "", "", "HTTP status 500 without a body"),
    ] {
        let mut harness = modern_harness(Chunker::Whole);
        let (key, request) = harness.start_wave_call(&non_retryable());
        let fields: &[(&str, &str)] =
            if content_type.is_empty() { &[] } else { &[("content-type", content_type)] };
        harness.respond_with(request.id, status, fields, body);
        assert_eq!(expect_http_error(harness.expect_done(key)).to_string(), message);
    }
}

/// An error is shown, so its beginning is enough; a result may be as long as a frame.
#[test]
fn body_that_is_no_result_is_read_up_to_64_kib() {
    const MAX: usize = 64 << 10;
    for (status, content_type, length, is_cut) in [
        (200, JSON, MAX + 1, false),
        (200, "text/html", MAX, false),
        (200, "text/html", MAX + 1, true),
        (500, JSON, MAX, false),
        (500, JSON, MAX + 1, true),
    ] {
        let config = client(VersionSet::MODERN).limits(limits(|l| l.max_noise_bytes = 1 << 20));
        let mut harness =
            HttpClientHarness::new(config, HttpClientHarness::default_http_config(), Chunker::Whole);
        harness.become_modern(json!({"tools": {}}));
        let (key, request) = harness.start_wave_call(&non_retryable());
        harness.receive_head(request.id, status, &[("Content-Type", content_type)]);
        harness.receive_body(request.id, "x".repeat(MAX - 10));
        harness.receive_body(request.id, "x".repeat(length - (MAX - 10)));
        if !is_cut {
            harness.assert_idle();
            harness.receive_end(request.id);
        }
        harness.take_diagnostics();
        let error = expect_http_error(harness.expect_done(key));
        if let HttpError::Response(answer) = &error {
            assert_eq!(answer.body.len(), MAX, "{status} {content_type} {length}");
        }
        assert_eq!(matches!(error, HttpError::Unanswered { .. }), content_type == JSON && status == 200);
    }
}
