//! Over HTTP: what the client asks first, what statuses say about the era, and where the search ends.

use mcp_proto::client::Verdict;
use mcp_proto::{Era, Fault, HttpError, Version, VersionSet};
use mcp_tests::harness::build::{discovery, error, initialized, result};
use mcp_tests::harness::{Asked, Chunker, LoneHttp, Transcript, each_cut};
use serde_json::{Value, json};

use crate::common::{client, secs};

fn dual(cut: Chunker) -> LoneHttp {
    LoneHttp::new(client(VersionSet::ALL), LoneHttp::http(), cut)
}

const JSON: &str = "application/json";
const PAGE: &str = "<!DOCTYPE html><title>Tide tables</title>";

/// The client has turned to `initialize`; it becomes ready
fn falls_back(mut lone: LoneHttp) -> Transcript {
    let asked = lone.posted("initialize");
    for never in ["mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name", "last-event-id"] {
        assert_eq!(asked.field(never), None, "{never}");
    }
    lone.json(asked.id, 200, &result(&asked.body, initialized("2025-11-25", json!({}))));
    assert_eq!(lone.ready().era(), Era::Legacy);
    lone.posted("notifications/initialized");
    lone.transcript
}

// covers: HTTP-009, HTTP-010, HTTP-012, HTTP-016, HTTP-030, HTTP-032, VER-008, VER-029
#[test]
fn the_first_request_carries_all_modern_fields() {
    let mut lone = dual(Chunker::Whole);
    let probe = lone.posted("server/discover");
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
fn both_kinds_of_answers_settle_it() {
    each_cut(|cut| {
        let mut lone = dual(cut);
        let probe = lone.posted("server/discover");
        lone.json(probe.id, 200, &result(&probe.body, discovery(&["2026-07-28"], json!({}))));
        assert_eq!(lone.ready().version, Version::V2026_07_28);
        lone.still();
        lone.transcript
    });
    each_cut(|cut| {
        let mut lone = dual(cut);
        let probe = lone.posted("server/discover");
        lone.stream(probe.id);
        lone.body(probe.id, ": hello\r\n\r\n");
        lone.event(probe.id, "", &result(&probe.body, discovery(&["2026-07-28"], json!({}))));
        assert_eq!(lone.ready().version, Version::V2026_07_28);
        lone.end(probe.id);
        lone.still();
        lone.transcript
    });
}

// covers: VER-020, VER-030, HTTP-087 (and, by VER-020, on other 4xx)
#[test]
fn a_refusal_without_a_modern_error_is_an_old_server() {
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
        for (kind, body) in &bodies {
            each_cut(|cut| {
                let mut lone = dual(cut);
                let probe = lone.posted("server/discover");
                if body.is_empty() {
                    lone.status(probe.id, status);
                } else {
                    lone.answer(probe.id, status, kind, body);
                }
                falls_back(lone)
            });
        }
    }
}

// covers: VER-020
#[test]
fn a_success_that_is_no_answer_is_an_old_server() {
    for (status, kind, body) in
        [(202, "", ""), (200, "", ""), (200, "text/html", PAGE), (200, JSON, "{}"), (200, JSON, "[]")]
    {
        each_cut(|cut| {
            let mut lone = dual(cut);
            let probe = lone.posted("server/discover");
            if kind.is_empty() {
                lone.status(probe.id, status);
            } else {
                lone.answer(probe.id, status, kind, body);
            }
            // What was not read is told; it changes nothing.
            lone.odd();
            falls_back(lone)
        });
    }
}

// covers: VER-019, VER-030, VER-041
#[test]
fn a_modern_error_is_a_modern_server_whatever_the_status() {
    for status in [200, 400, 404] {
        each_cut(|cut| {
            let mut lone = dual(cut);
            let probe = lone.posted("server/discover");
            let data = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
            lone.json(probe.id, status, &error(&probe.body, -32022, "no", data));
            let again = lone.posted("server/discover");
            assert_ne!(again.body["id"], probe.body["id"]);
            lone.json(again.id, 200, &result(&again.body, discovery(&["2026-07-28"], json!({}))));
            assert_eq!(lone.ready().version, Version::V2026_07_28);
            lone.transcript
        });
        each_cut(|cut| {
            let mut lone = dual(cut);
            let probe = lone.posted("server/discover");
            lone.json(probe.id, status, &error(&probe.body, -32020, "no", Value::Null));
            let fault = lone.closed();
            assert!(matches!(&fault, Fault::Refused(e) if e.code == -32020), "{fault:?}");
            lone.silent();
            lone.transcript
        });
    }
    // An error without an id is about this request all the same (HTTP-020).
    let mut lone = dual(Chunker::Whole);
    let probe = lone.posted("server/discover");
    let body = json!({"jsonrpc": "2.0", "error": {"code": -32022, "message": "no",
        "data": {"supported": ["2025-06-18"], "requested": "2026-07-28"}}});
    lone.answer(probe.id, 400, JSON, &body.to_string());
    falls_back(lone);
}

// covers: VER-021, HTTP-088
#[test]
fn some_statuses_say_nothing_about_the_era() {
    for status in [401, 403, 407, 408, 429, 500, 501, 502, 503, 504, 599, 301, 302, 303, 304, 308] {
        each_cut(|cut| {
            let mut lone = dual(cut);
            let probe = lone.posted("server/discover");
            lone.answer(probe.id, status, "text/html", PAGE);
            let fault = lone.closed();
            match &fault {
                Fault::Http(error) => match &**error {
                    HttpError::Answer(answer) => assert_eq!(answer.status, status),
                    HttpError::Redirected { status: s, .. } => assert_eq!(*s, status),
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            }
            assert!(fault.to_string().contains(&status.to_string()), "{fault}");
            lone.silent();
            assert!(lone.client.is_drained());
            lone.transcript
        });
    }
}

// covers: VER-021
#[test]
fn a_connection_that_fails_says_nothing_about_the_era() {
    let mut lone = dual(Chunker::Whole);
    let probe = lone.posted("server/discover");
    lone.unreachable(probe.id);
    let fault = lone.closed();
    assert!(matches!(&fault, Fault::Http(e) if matches!(**e, HttpError::Unreachable { .. })), "{fault:?}");
    assert!(fault.to_string().contains("connection refused"), "{fault}");

    let mut lone = dual(Chunker::Whole);
    let probe = lone.posted("server/discover");
    lone.breaks(probe.id);
    assert!(matches!(lone.closed(), Fault::Http(e) if matches!(*e, HttpError::Lost { .. })));

    let mut lone = dual(Chunker::Whole);
    lone.posted("server/discover");
    lone.pass(secs(30));
    lone.still();
    lone.pass(secs(30));
    assert_eq!(lone.closed(), Fault::HandshakeTimeout { method: "server/discover" });
    lone.aborted();
}

fn attempts(fault: &Fault) -> &[String] {
    match fault {
        Fault::NoServer { attempts } => attempts,
        other => panic!("{other:?}"),
    }
}

// covers: VER-031, HTTP-084
#[test]
fn a_page_that_is_no_server_is_named_with_all_that_was_tried() {
    each_cut(|cut| {
        let mut lone = dual(cut);
        for method in ["server/discover", "initialize"] {
            let asked = lone.posted(method);
            lone.answer(asked.id, 404, "text/html; charset=utf-8", PAGE);
        }
        let get = lone.asked();
        assert_eq!((get.method, get.field("Accept")), ("GET", Some("text/event-stream")));
        lone.answer(get.id, 200, "text/html; charset=utf-8", PAGE);
        let fault = lone.closed();
        let attempts = attempts(&fault);
        assert_eq!(attempts.len(), 3);
        let text = fault.to_string();
        for word in ["server/discover", "initialize", "GET", "404", "200", "text/html"] {
            assert!(text.contains(word), "{text}");
        }
        lone.silent();
        lone.transcript
    });
}

// covers: VER-034
#[test]
fn a_modern_client_does_not_try_what_it_does_not_speak() {
    let mut lone = LoneHttp::new(client(VersionSet::MODERN), LoneHttp::http(), Chunker::Whole);
    let probe = lone.posted("server/discover");
    lone.answer(probe.id, 404, "text/html", PAGE);
    assert_eq!(attempts(&lone.closed()).len(), 1);
    lone.silent();
}

#[test]
fn without_the_first_revision_there_is_no_http_sse() {
    let versions = VersionSet::only(Version::V2025_11_25);
    let mut lone = LoneHttp::new(client(versions), LoneHttp::http(), Chunker::Whole);
    let asked = lone.posted("initialize");
    lone.status(asked.id, 404);
    assert_eq!(attempts(&lone.closed()).len(), 1);
    lone.silent();
}

// covers: VER-023, VER-042
#[test]
fn a_verdict_that_proves_wrong_is_asked_again_once() {
    let config = client(VersionSet::ALL).verdict(Verdict::Legacy);
    let mut lone = LoneHttp::new(config.clone(), LoneHttp::http(), Chunker::Whole);
    let asked = lone.posted("initialize");
    lone.json(asked.id, 400, &error(&asked.body, -32020, "no", Value::Null));
    let probe = lone.posted("server/discover");
    lone.json(probe.id, 200, &result(&probe.body, discovery(&["2026-07-28"], json!({}))));
    assert_eq!(lone.ready().version, Version::V2026_07_28);

    let mut lone = LoneHttp::new(config, LoneHttp::http(), Chunker::Whole);
    let asked = lone.posted("initialize");
    lone.answer(asked.id, 404, "text/html", PAGE);
    let get = lone.asked();
    lone.status(get.id, 404);
    let probe = lone.posted("server/discover");
    lone.answer(probe.id, 404, "text/html", PAGE);
    assert_eq!(attempts(&lone.closed()).len(), 3);
}

// ---- HTTP+SSE ------------------------------------------------------------------------------------------------

/// The client has turned to HTTP+SSE, whose GET is returned
fn to_sse(cut: Chunker, status: u16) -> (LoneHttp, Asked) {
    let mut lone = dual(cut);
    for method in ["server/discover", "initialize"] {
        let asked = lone.posted(method);
        lone.status(asked.id, status);
    }
    let get = lone.asked();
    assert_eq!((get.method, get.url.target()), ("GET", "/mcp"));
    (lone, get)
}

// covers: HTTPSSE-002, HTTPSSE-003, HTTPSSE-004, HTTPSSE-007, HTTPSSE-010, HTTPSSE-013, HTTP-084, HTTP-085
#[test]
fn http_sse_works_from_its_endpoint_to_its_end() {
    for status in [400, 404, 405] {
        each_cut(|cut| {
            let (mut lone, get) = to_sse(cut, status);
            lone.stream(get.id);
            lone.body(get.id, "event: endpoint\ndata: messages?token=7\n\n");
            let asked = lone.posted("initialize");
            assert_eq!(asked.url.target(), "/messages?token=7");
            lone.answer(asked.id, 202, "text/plain", "Accepted");
            lone.event(get.id, "", &result(&asked.body, initialized("2024-11-05", json!({"tools": {}}))));
            assert_eq!(lone.ready().version, Version::V2024_11_05);
            let said = lone.posted("notifications/initialized");
            assert_eq!(said.url.target(), "/messages?token=7");
            let key = lone.call("tools/list", &json!({}), &mcp_proto::CallOptions::new());
            lone.silent();
            lone.status(said.id, 202);
            let list = lone.posted("tools/list");
            assert_eq!(list.field("mcp-protocol-version"), None);
            lone.status(list.id, 200);
            lone.event(get.id, "", &result(&list.body, json!({"tools": []})));
            assert_eq!(lone.done(key), Ok(json!({"tools": []})));
            let (key, asked) = lone.waves(&mcp_proto::CallOptions::new());
            lone.status(asked.id, 500);
            assert!(matches!(lone.done(key), Err(mcp_proto::CallError::Http(_))));
            let (key, asked) = lone.waves(&mcp_proto::CallOptions::new());
            lone.status(asked.id, 202);
            lone.end(get.id);
            assert_eq!(lone.done(key), Err(mcp_proto::CallError::Closed(Fault::Eof)));
            assert_eq!(lone.closed(), Fault::Eof);
            lone.silent();
            lone.transcript
        });
    }
}

// covers: HTTPSSE-008, HTTPSSE-013, SEC-016
#[test]
fn an_endpoint_elsewhere_or_none_is_refused() {
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
        each_cut(|cut| {
            let (mut lone, get) = to_sse(cut, 405);
            lone.stream(get.id);
            lone.body(get.id, event);
            assert_eq!(lone.aborted(), get.id);
            let fault = lone.closed();
            assert_eq!(attempts(&fault).len(), 3);
            lone.silent();
            lone.transcript
        });
    }
}
