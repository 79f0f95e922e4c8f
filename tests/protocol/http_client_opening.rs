//! HTTP client: the first request, what a status says about the era, and where the search for a server ends.

use mcp_proto::client::KnownEra;
use mcp_proto::{Era, Fault, HttpError, Version, VersionSet};
use mcp_tests::harness::build::{discover_result, error_response, initialize_result, result_response};
use mcp_tests::harness::{Chunker, HttpClientHarness, SentRequest, Transcript, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, secs};

fn dual_era_harness(cut: Chunker) -> HttpClientHarness {
    HttpClientHarness::new(client(VersionSet::ALL), HttpClientHarness::default_http_config(), cut)
}

const JSON: &str = "application/json";
const PAGE: &str = "<!DOCTYPE html><title>Tide tables</title>";

/// Checks that the client falls back to `initialize` and becomes ready.
fn assert_falls_back(mut harness: HttpClientHarness) -> Transcript {
    let request = harness.expect_post("initialize");
    for never in ["mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name", "last-event-id"] {
        assert_eq!(request.field(never), None, "{never}");
    }
    harness.respond_with_json(
        request.id,
        200,
        &result_response(&request.body, initialize_result("2025-11-25", json!({}))),
    );
    assert_eq!(harness.expect_ready().era(), Era::Legacy);
    harness.expect_post("notifications/initialized");
    harness.transcript
}

// covers: HTTP-009, HTTP-010, HTTP-012, HTTP-016, HTTP-030, HTTP-032, VER-008, VER-029
#[test]
fn discover_request_carries_all_modern_header_fields() {
    let mut harness = dual_era_harness(Chunker::Whole);
    let probe = harness.expect_post("server/discover");
    assert_eq!(probe.url.target(), "/mcp");
    assert_eq!(probe.url.origin().authority(), "tide.example:3000");
    assert_eq!(probe.field("Content-Type"), Some(JSON));
    assert_eq!(probe.field("Accept"), Some("application/json, text/event-stream"));
    assert_eq!(probe.field("MCP-Protocol-Version"), Some("2026-07-28"));
    assert_eq!(probe.field("Mcp-Method"), Some("server/discover"));
    assert_eq!(probe.field("Mcp-Name"), None);
    assert_eq!(probe.field("Mcp-Session-Id"), None);
    assert_eq!(probe.body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
}

// covers: HTTP-022, SSE-005
#[test]
fn discover_is_answered_by_json_or_event_stream() {
    for_each_chunker(|cut| {
        let mut harness = dual_era_harness(cut);
        let probe = harness.expect_post("server/discover");
        harness.respond_with_json(
            probe.id,
            200,
            &result_response(&probe.body, discover_result(&["2026-07-28"], json!({}))),
        );
        assert_eq!(harness.expect_ready().version, Version::V2026_07_28);
        harness.assert_idle();
        harness.transcript
    });
    for_each_chunker(|cut| {
        let mut harness = dual_era_harness(cut);
        let probe = harness.expect_post("server/discover");
        harness.start_event_stream(probe.id);
        harness.receive_body(probe.id, ": hello\r\n\r\n");
        harness.receive_event(
            probe.id,
            "",
            &result_response(&probe.body, discover_result(&["2026-07-28"], json!({}))),
        );
        assert_eq!(harness.expect_ready().version, Version::V2026_07_28);
        harness.receive_end(probe.id);
        harness.assert_idle();
        harness.transcript
    });
}

// covers: VER-020, VER-030, HTTP-087 (and, by VER-020, on other 4xx)
#[test]
fn client_error_without_modern_error_means_legacy_server() {
    let bodies = [
        ("", String::new()),
        ("text/html", PAGE.into()),
        (JSON, "{}".into()),
        (JSON, "not json".into()),
        (
            JSON,
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "No session"}})
                .to_string(),
        ),
        (JSON, json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}}).to_string()),
        (JSON, json!({"jsonrpc": "2.0", "error": {"code": -32602, "message": "no"}}).to_string()),
    ];
    for status in [400, 404, 405, 406, 410, 415, 422, 441] {
        for (content_type, body) in &bodies {
            for_each_chunker(|cut| {
                let mut harness = dual_era_harness(cut);
                let probe = harness.expect_post("server/discover");
                if body.is_empty() {
                    harness.respond_with_status(probe.id, status);
                } else {
                    harness.respond(probe.id, status, content_type, body);
                }
                assert_falls_back(harness)
            });
        }
    }
}

// covers: VER-020
#[test]
fn success_without_valid_response_means_legacy_server() {
    for (status, content_type, body) in
        [(202, "", ""), (200, "", ""), (200, "text/html", PAGE), (200, JSON, "{}"), (200, JSON, "[]")]
    {
        for_each_chunker(|cut| {
            let mut harness = dual_era_harness(cut);
            let probe = harness.expect_post("server/discover");
            if content_type.is_empty() {
                harness.respond_with_status(probe.id, status);
            } else {
                harness.respond(probe.id, status, content_type, body);
            }
            // Unreadable input may be reported as diagnostics; it does not matter here.
            harness.take_diagnostics();
            assert_falls_back(harness)
        });
    }
}

// covers: VER-019, VER-030, VER-041
#[test]
fn modern_error_means_modern_server_for_any_status() {
    for status in [200, 400, 404] {
        for_each_chunker(|cut| {
            let mut harness = dual_era_harness(cut);
            let probe = harness.expect_post("server/discover");
            let data = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
            harness.respond_with_json(probe.id, status, &error_response(&probe.body, -32022, "no", data));
            let again = harness.expect_post("server/discover");
            assert_ne!(again.body["id"], probe.body["id"]);
            harness.respond_with_json(
                again.id,
                200,
                &result_response(&again.body, discover_result(&["2026-07-28"], json!({}))),
            );
            assert_eq!(harness.expect_ready().version, Version::V2026_07_28);
            harness.transcript
        });
        for_each_chunker(|cut| {
            let mut harness = dual_era_harness(cut);
            let probe = harness.expect_post("server/discover");
            harness.respond_with_json(
                probe.id,
                status,
                &error_response(&probe.body, -32020, "no", Value::Null),
            );
            let fault = harness.expect_closed();
            assert!(matches!(&fault, Fault::HandshakeRefused(e) if e.code == -32020), "{fault:?}");
            harness.assert_nothing_sent();
            harness.transcript
        });
    }
    // An error without an id still belongs to this request (HTTP-020).
    let mut harness = dual_era_harness(Chunker::Whole);
    let probe = harness.expect_post("server/discover");
    let body = json!({"jsonrpc": "2.0", "error": {"code": -32022, "message": "no",
        "data": {"supported": ["2025-06-18"], "requested": "2026-07-28"}}});
    harness.respond(probe.id, 400, JSON, &body.to_string());
    assert_falls_back(harness);
}

// covers: VER-021, HTTP-088
#[test]
fn other_statuses_close_the_client_without_fallback() {
    for status in [401, 407, 408, 500, 501, 502, 503, 504, 599, 301, 302, 303, 304, 308] {
        for_each_chunker(|cut| {
            let mut harness = dual_era_harness(cut);
            let probe = harness.expect_post("server/discover");
            harness.respond(probe.id, status, "text/html", PAGE);
            let fault = harness.expect_closed();
            match &fault {
                Fault::Http(error) => match &**error {
                    HttpError::Response(answer) => assert_eq!(answer.status, status),
                    HttpError::Redirected { status: s, .. } => assert_eq!(*s, status),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
            assert!(fault.to_string().contains(&status.to_string()), "{fault}");
            harness.assert_nothing_sent();
            assert!(harness.client.is_drained());
            harness.transcript
        });
    }
}

// covers: VER-021, HTTP-088
#[test]
fn refusal_that_asks_for_a_login_or_a_pause_closes_the_client_without_fallback() {
    for (status, name, value) in [
        (403, "WWW-Authenticate", "Bearer error=\"insufficient_scope\""),
        (403, "WWW-Authenticate", "=="),
        (403, "Retry-After", "Fri, 31 Dec 1999 23:59:59 GMT"),
        (429, "Retry-After", "7"),
        (429, "WWW-Authenticate", "Bearer"),
    ] {
        for requests in [&["server/discover"][..], &["server/discover", "initialize"]] {
            let mut harness = dual_era_harness(Chunker::Whole);
            let mut last = harness.expect_post(requests[0]);
            for method in &requests[1..] {
                harness.respond_with_status(last.id, 404);
                last = harness.expect_post(method);
            }
            harness.respond_with(last.id, status, &[(name, value)], "");
            let fault = harness.expect_closed();
            let refused = |error: &HttpError| matches!(error, HttpError::Response(it) if it.status == status);
            assert!(matches!(&fault, Fault::Http(error) if refused(error)), "{fault:?}");
            harness.assert_nothing_sent();
        }
    }
}

// covers: VER-020, VER-031, HTTP-084
#[test]
fn bare_refusal_is_evidence_of_an_older_server() {
    for status in [403, 429] {
        for_each_chunker(|cut| {
            let mut harness = dual_era_harness(cut);
            let probe = harness.expect_post("server/discover");
            harness.respond(probe.id, status, "text/html", PAGE);
            assert_falls_back(harness)
        });
        let (mut harness, get) = fall_back_to_sse(Chunker::Whole, status);
        harness.respond_with_status(get.id, status);
        assert_eq!(attempts(&harness.expect_closed()).len(), 3);
    }
}

// covers: VER-021
#[test]
fn failed_connection_closes_the_client_without_fallback() {
    let mut harness = dual_era_harness(Chunker::Whole);
    let probe = harness.expect_post("server/discover");
    harness.refuse_connection(probe.id);
    let fault = harness.expect_closed();
    assert!(matches!(&fault, Fault::Http(e) if matches!(**e, HttpError::Unreachable { .. })), "{fault:?}");
    assert!(fault.to_string().contains("connection refused"), "{fault}");

    let mut harness = dual_era_harness(Chunker::Whole);
    let probe = harness.expect_post("server/discover");
    harness.break_connection(probe.id);
    assert!(matches!(harness.expect_closed(), Fault::Http(e) if matches!(*e, HttpError::Lost { .. })));

    let mut harness = dual_era_harness(Chunker::Whole);
    harness.expect_post("server/discover");
    harness.advance(secs(30));
    harness.assert_idle();
    harness.advance(secs(30));
    assert_eq!(harness.expect_closed(), Fault::HandshakeTimeout { method: "server/discover", stray: None });
    harness.expect_aborted();
}

fn attempts(fault: &Fault) -> &[String] {
    match fault {
        Fault::NoServer { attempts } => attempts,
        other => panic!("{other:?}"),
    }
}

// covers: VER-031, HTTP-084
#[test]
fn fault_for_web_page_lists_all_attempts() {
    for_each_chunker(|cut| {
        let mut harness = dual_era_harness(cut);
        for method in ["server/discover", "initialize"] {
            let request = harness.expect_post(method);
            harness.respond(request.id, 404, "text/html; charset=utf-8", PAGE);
        }
        let get = harness.expect_request();
        assert_eq!((get.method, get.field("Accept")), ("GET", Some("text/event-stream")));
        harness.respond(get.id, 200, "text/html; charset=utf-8", PAGE);
        let fault = harness.expect_closed();
        let attempts = attempts(&fault);
        assert_eq!(attempts.len(), 3);
        let text = fault.to_string();
        for word in ["server/discover", "initialize", "GET", "404", "200", "text/html"] {
            assert!(text.contains(word), "{text}");
        }
        harness.assert_nothing_sent();
        harness.transcript
    });
}

// covers: VER-031, HTTP-084
#[test]
fn fault_names_the_error_response_to_an_attempt() {
    let mut harness = dual_era_harness(Chunker::Whole);
    let probe = harness.expect_post("server/discover");
    harness.respond_with_json(probe.id, 200, &error_response(&probe.body, -32601, "unheard of", Value::Null));
    let request = harness.expect_post("initialize");
    harness.respond(request.id, 404, "text/html", PAGE);
    let get = harness.expect_request();
    harness.respond(get.id, 200, "text/html", PAGE);
    let fault = harness.expect_closed();
    let [probe, initialize, _] = attempts(&fault) else { panic!("{fault}") };
    assert!(probe.contains("unheard of (code -32601)") && !initialize.contains("code"), "{fault}");
}

// covers: VER-034
#[test]
fn modern_only_client_does_not_try_initialize() {
    let mut harness = HttpClientHarness::new(
        client(VersionSet::MODERN),
        HttpClientHarness::default_http_config(),
        Chunker::Whole,
    );
    let probe = harness.expect_post("server/discover");
    harness.respond(probe.id, 404, "text/html", PAGE);
    let fault = harness.expect_closed();
    let [probe, untried] = attempts(&fault) else { panic!("{fault}") };
    assert!(probe.contains("404") && untried.contains("`initialize`"), "{fault}");
    assert!(fault.to_string().ends_with(fault.untried_handshake().expect("it was not tried")), "{fault}");
    harness.assert_nothing_sent();
}

// covers: VER-034
#[test]
fn modern_only_client_knows_a_legacy_server_by_its_error() {
    for status in [200, 400, 404, 405] {
        for id in [true, false] {
            let mut harness = HttpClientHarness::new(
                client(VersionSet::MODERN),
                HttpClientHarness::default_http_config(),
                Chunker::Whole,
            );
            let probe = harness.expect_post("server/discover");
            let mut error = error_response(&probe.body, -32_000, "no session", Value::Null);
            if !id {
                error["id"] = Value::Null;
            }
            harness.respond_with_json(probe.id, status, &error);
            harness.take_diagnostics();
            let fault = harness.expect_closed();
            assert!(
                matches!(&fault, Fault::LegacyServer { error: Some(e), .. } if e.code == -32_000),
                "{fault:?}"
            );
            for words in ["only revisions with an `initialize` handshake", "2026-07-28", "no session"] {
                assert!(fault.to_string().contains(words), "{fault}");
            }
            harness.assert_nothing_sent();
        }
    }
}

#[test]
fn client_without_2024_11_05_does_not_try_http_sse() {
    let versions = VersionSet::only(Version::V2025_11_25);
    let mut harness =
        HttpClientHarness::new(client(versions), HttpClientHarness::default_http_config(), Chunker::Whole);
    let request = harness.expect_post("initialize");
    harness.respond_with_status(request.id, 404);
    assert_eq!(attempts(&harness.expect_closed()).len(), 1);
    harness.assert_nothing_sent();
}

// covers: VER-023, VER-042
#[test]
fn wrong_known_era_is_probed_again_once() {
    let config = client(VersionSet::ALL).known_era(KnownEra::Legacy);
    let mut harness =
        HttpClientHarness::new(config.clone(), HttpClientHarness::default_http_config(), Chunker::Whole);
    let request = harness.expect_post("initialize");
    harness.respond_with_json(request.id, 400, &error_response(&request.body, -32020, "no", Value::Null));
    let probe = harness.expect_post("server/discover");
    harness.respond_with_json(
        probe.id,
        200,
        &result_response(&probe.body, discover_result(&["2026-07-28"], json!({}))),
    );
    assert_eq!(harness.expect_ready().version, Version::V2026_07_28);

    let mut harness =
        HttpClientHarness::new(config, HttpClientHarness::default_http_config(), Chunker::Whole);
    let request = harness.expect_post("initialize");
    harness.respond(request.id, 404, "text/html", PAGE);
    let get = harness.expect_request();
    harness.respond_with_status(get.id, 404);
    let probe = harness.expect_post("server/discover");
    harness.respond(probe.id, 404, "text/html", PAGE);
    assert_eq!(attempts(&harness.expect_closed()).len(), 3);
}

// covers: VER-023
#[test]
fn client_of_legacy_revisions_alone_does_not_probe_whatever_era_is_known() {
    let config = client(VersionSet::LEGACY).known_era(KnownEra::Legacy);
    let mut harness =
        HttpClientHarness::new(config, HttpClientHarness::default_http_config(), Chunker::Whole);
    let request = harness.expect_post("initialize");
    harness.respond(request.id, 404, "text/html", PAGE);
    let get = harness.expect_request();
    harness.respond_with_status(get.id, 404);
    assert_eq!(attempts(&harness.expect_closed()).len(), 2);
    harness.assert_nothing_sent();
}

// covers: HTTP-073, VER-042
#[test]
fn session_of_a_refused_handshake_is_ended_by_a_modern_client() {
    let config = client(VersionSet::ALL).known_era(KnownEra::Legacy);
    let mut harness =
        HttpClientHarness::new(config, HttpClientHarness::default_http_config(), Chunker::Whole);
    let request = harness.expect_post("initialize");
    let refusal = error_response(&request.body, -32020, "no", Value::Null).to_string();
    let fields = [("Content-Type", "application/json"), ("Mcp-Session-Id", "s")];
    harness.respond_with(request.id, 200, &fields, &refusal);
    let probe = harness.expect_post("server/discover");
    let result = discover_result(&["2026-07-28"], json!({}));
    harness.respond_with_json(probe.id, 200, &result_response(&probe.body, result));
    assert_eq!(harness.expect_ready().version, Version::V2026_07_28);
    harness.client.close(harness.now);
    harness.expect_closed();
    let end = harness.expect_request();
    assert_eq!((end.method, end.field("mcp-session-id")), ("DELETE", Some("s")));
}

// ---- HTTP+SSE ------------------------------------------------------------------------------------------------

/// Returns a client that has fallen back to HTTP+SSE, and its GET.
pub(super) fn fall_back_to_sse(cut: Chunker, status: u16) -> (HttpClientHarness, SentRequest) {
    let mut harness = dual_era_harness(cut);
    for method in ["server/discover", "initialize"] {
        let request = harness.expect_post(method);
        harness.respond_with_status(request.id, status);
    }
    let get = harness.expect_request();
    assert_eq!((get.method, get.url.target()), ("GET", "/mcp"));
    (harness, get)
}

// covers: HTTPSSE-002, HTTPSSE-003, HTTPSSE-004, HTTPSSE-007, HTTPSSE-010, HTTPSSE-013, HTTP-084, HTTP-085
#[test]
fn http_sse_connection_runs_from_endpoint_event_to_end() {
    for status in [400, 404, 405] {
        for_each_chunker(|cut| {
            let (mut harness, get) = fall_back_to_sse(cut, status);
            harness.start_event_stream(get.id);
            harness.receive_body(get.id, "event: endpoint\ndata: messages?token=7\n\n");
            let request = harness.expect_post("initialize");
            assert_eq!(request.url.target(), "/messages?token=7");
            harness.respond(request.id, 202, "text/plain", "Accepted");
            harness.receive_event(
                get.id,
                "",
                &result_response(&request.body, initialize_result("2024-11-05", json!({"tools": {}}))),
            );
            assert_eq!(harness.expect_ready().version, Version::V2024_11_05);
            let initialized = harness.expect_post("notifications/initialized");
            assert_eq!(initialized.url.target(), "/messages?token=7");
            let key = harness.call("tools/list", &json!({}), &mcp_proto::CallOptions::new());
            harness.assert_nothing_sent();
            harness.respond_with_status(initialized.id, 202);
            let list = harness.expect_post("tools/list");
            assert_eq!(list.field("mcp-protocol-version"), None);
            harness.respond_with_status(list.id, 200);
            harness.receive_event(get.id, "", &result_response(&list.body, json!({"tools": []})));
            assert_eq!(harness.expect_done(key), Ok(json!({"tools": []})));
            let (key, request) = harness.start_wave_call(&mcp_proto::CallOptions::new());
            harness.respond_with_status(request.id, 500);
            assert!(matches!(harness.expect_done(key), Err(mcp_proto::CallError::Http(_))));
            let (key, request) = harness.start_wave_call(&mcp_proto::CallOptions::new());
            harness.respond_with_status(request.id, 202);
            harness.receive_end(get.id);
            assert_eq!(harness.expect_done(key), Err(mcp_proto::CallError::Closed(Fault::Eof)));
            assert_eq!(harness.expect_closed(), Fault::Eof);
            harness.assert_nothing_sent();
            harness.transcript
        });
    }
}

// covers: HTTPSSE-008, HTTPSSE-013, SEC-016
#[test]
fn invalid_or_foreign_endpoint_event_is_refused() {
    for event in [
        "event: endpoint\ndata: http://evil.example/x\n\n",
        "event: endpoint\ndata: //evil.example/x\n\n",
        "event: endpoint\ndata: https://tide.example:3000/x\n\n",
        "event: endpoint\ndata: http://tide.example/x\n\n",
        "event: endpoint\ndata: http://u@tide.example:3000/x\n\n",
        "event: endpoint\ndata: /a b\n\n",
        "data: /messages\n\n",
        "event: other\ndata: /messages\n\n",
    ] {
        for_each_chunker(|cut| {
            let (mut harness, get) = fall_back_to_sse(cut, 405);
            harness.start_event_stream(get.id);
            harness.receive_body(get.id, event);
            assert_eq!(harness.expect_aborted(), get.id);
            let fault = harness.expect_closed();
            assert_eq!(attempts(&fault).len(), 3);
            assert!(!fault.to_string().contains("path"), "{fault}");
            harness.assert_nothing_sent();
            harness.transcript
        });
    }
    // The same origin, on a path that the configuration does not allow.
    let config = HttpClientHarness::default_http_config().confine_to("/mcp/*");
    let mut harness = HttpClientHarness::new(client(VersionSet::ALL), config, Chunker::Whole);
    for method in ["server/discover", "initialize"] {
        let request = harness.expect_post(method);
        harness.respond_with_status(request.id, 405);
    }
    let get = harness.expect_request();
    harness.start_event_stream(get.id);
    harness.receive_body(get.id, "event: endpoint\ndata: /admin\n\n");
    let fault = harness.expect_closed();
    assert!(fault.to_string().contains("names a path that is not allowed"), "{fault}");
}

// covers: VER-042
#[test]
fn handshake_that_fails_after_a_probe_is_the_last_attempt_but_for_http_sse() {
    let config = client(VersionSet::ALL).known_era(KnownEra::Modern);
    let mut harness =
        HttpClientHarness::new(config, HttpClientHarness::default_http_config(), Chunker::Whole);
    for method in ["server/discover", "initialize"] {
        let request = harness.expect_post(method);
        harness.respond(request.id, 404, "text/html", PAGE);
    }
    let get = harness.expect_request();
    harness.respond(get.id, 404, "text/html", PAGE);
    assert_eq!(attempts(&harness.expect_closed()).len(), 3);
    harness.assert_nothing_sent();
}
