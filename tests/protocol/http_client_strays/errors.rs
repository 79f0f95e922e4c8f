//! Answers that are errors, and those that are none.

use mcp_proto::{CallError, HttpError};
use mcp_tests::harness::build::{error, initialized, result};
use mcp_tests::harness::{Chunker, each_cut};
use serde_json::{Value, json};

use crate::http_client_shared::{BOM, JSON, V, answer, can, http, lone, modern, once};

// covers: HTTP-020, VER-030
#[test]
fn an_error_is_found_in_a_body_of_any_type() {
    for kind in ["text/html; charset=utf-8", "text/plain", "application/problem+json", "", JSON] {
        for id in [json!(null), json!("server-error"), json!(4_000_000)] {
            for mark in ["", BOM, " \r\n"] {
                each_cut(|cut| {
                    let mut lone = lone(cut);
                    let probe = lone.posted("server/discover");
                    let fields: &[(&str, &str)] =
                        if kind.is_empty() { &[] } else { &[("content-type", kind)] };
                    let data = json!({"supported": ["2025-06-18"], "requested": "2026-07-28"});
                    let body = |code, data| {
                        format!("{mark}{}", error(&json!({"id": id}), code, "it is closed", data))
                    };
                    lone.answer_with(probe.id, 400, fields, &body(-32022, data));
                    let asked = lone.posted("initialize");
                    lone.json(asked.id, 200, &result(&asked.body, initialized("2025-06-18", can())));
                    lone.ready();
                    let said = lone.posted("notifications/initialized");
                    lone.status(said.id, 202);
                    let get = lone.asked();
                    lone.status(get.id, 405);
                    for status in [400, 404, 500] {
                        let (key, asked) = lone.waves(&once());
                        lone.answer_with(asked.id, status, fields, &body(-32000, Value::Null));
                        let outcome = lone.done(key);
                        assert!(
                            matches!(&outcome, Err(CallError::Rpc(e)) if e.message == "it is closed"),
                            "{outcome:?}"
                        );
                    }
                    let (key, asked) = lone.waves(&once());
                    lone.answer_with(asked.id, 401, fields, &body(-32000, Value::Null));
                    assert!(matches!(http(lone.done(key)), HttpError::Answer(a) if a.status == 401));
                    lone.still();
                    lone.transcript
                });
            }
        }
    }
}

// covers: HTTP-072
#[test]
fn a_byte_order_mark_changes_nothing() {
    let mut lone = lone(Chunker::Whole);
    lone.with_legacy(V, Some("one"), can());
    let (key, asked) = lone.waves(&once());
    lone.status(asked.id, 404);
    let init = lone.asked();
    let body = result(&init.body, initialized(V.as_str(), can()));
    lone.answer_with(init.id, 200, &[("content-type", JSON)], &format!("{BOM}{body}"));
    let said = lone.posted("notifications/initialized");
    lone.status(said.id, 202);
    let get = lone.asked();
    lone.status(get.id, 405);
    let again = lone.posted("tools/call");
    lone.answer(again.id, 200, JSON, &format!("{BOM}{}", result(&again.body, answer())));
    assert_eq!(lone.done(key), Ok(answer()));
}

// covers: HTTP-082
#[test]
fn an_answer_that_is_none_is_described_as_it_is() {
    for (status, kind, body, says) in [
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
        (200, "", "{}", "HTTP status 200 with a body of no type, which is no MCP message: {}"),
        (500, "", "", "HTTP status 500 without a body"),
    ] {
        let mut lone = modern(Chunker::Whole);
        let (key, asked) = lone.waves(&once());
        let fields: &[(&str, &str)] = if kind.is_empty() { &[] } else { &[("content-type", kind)] };
        lone.answer_with(asked.id, status, fields, body);
        assert_eq!(http(lone.done(key)).to_string(), says);
    }
}
