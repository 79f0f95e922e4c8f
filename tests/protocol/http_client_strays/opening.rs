//! The first questions, and what becomes of them.

use mcp_proto::{Era, Fault, HttpError};
use mcp_tests::harness::build::{error, initialized, result};
use mcp_tests::harness::{Chunker, LoneHttp, each_cut};
use serde_json::{Value, json};

use crate::common::{ms, secs};
use crate::http_client_shared::{answer, can, lone, once};

// covers: VER-020, VER-021
#[test]
fn a_stream_that_ends_without_an_answer_is_an_old_server_and_one_that_breaks_is_none() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let probe = lone.posted("server/discover");
        lone.stream(probe.id);
        lone.body(probe.id, ": nothing\n\nid: 1\ndata:\n\n");
        lone.end(probe.id);
        let asked = lone.posted("initialize");
        lone.json(asked.id, 200, &result(&asked.body, initialized("2025-11-25", json!({}))));
        assert_eq!(lone.ready().era(), Era::Legacy);
        lone.transcript
    });
    let mut lone = lone(Chunker::Whole);
    let probe = lone.posted("server/discover");
    lone.stream(probe.id);
    lone.breaks(probe.id);
    assert!(matches!(lone.closed(), Fault::Http(e) if matches!(*e, HttpError::Lost { .. })));
}

// covers: HTTPSSE-013, VER-031
#[test]
fn a_stream_that_names_no_endpoint_is_not_waited_for_without_saying_what_was_tried() {
    for how in ["silent", "stream", "comments"] {
        let mut lone = lone(Chunker::Whole);
        for method in ["server/discover", "initialize"] {
            let asked = lone.posted(method);
            lone.json(asked.id, 400, &error(&asked.body, -32000, "who are you?", Value::Null));
        }
        let get = lone.asked();
        if how != "silent" {
            lone.stream(get.id);
        }
        if how == "comments" {
            lone.body(get.id, ": hello\n\n");
        }
        lone.pass(secs(30) - ms(1));
        lone.still();
        lone.pass(ms(1));
        assert_eq!(lone.aborted(), get.id);
        let fault = lone.closed();
        assert!(matches!(&fault, Fault::NoServer { attempts } if attempts.len() == 3), "{fault:?}");
        assert!(fault.to_string().contains("who are you?"), "{fault}");
    }
    // One that does may be quiet afterwards.
    let mut lone = lone(Chunker::Whole);
    for method in ["server/discover", "initialize"] {
        let asked = lone.posted(method);
        lone.status(asked.id, 404);
    }
    let get = lone.asked();
    lone.stream(get.id);
    lone.body(get.id, "event: endpoint\ndata: /messages\n\n");
    let asked = lone.posted("initialize");
    lone.status(asked.id, 202);
    lone.event(get.id, "", &result(&asked.body, initialized("2024-11-05", json!({}))));
    lone.ready();
    let said = lone.posted("notifications/initialized");
    lone.status(said.id, 202);
    lone.pass(secs(1_000));
    lone.still();
}

// covers: HTTPSSE-004, HTTPSSE-007
#[test]
fn what_becomes_of_a_post_that_was_answered_on_the_stream_is_of_no_interest() {
    for how in ["202", "404", "500", "breaks", "unreachable"] {
        let mut lone = lone(Chunker::Whole);
        for method in ["server/discover", "initialize"] {
            let asked = lone.posted(method);
            lone.status(asked.id, 404);
        }
        let get = lone.asked();
        lone.stream(get.id);
        lone.body(get.id, "event: endpoint\ndata: /messages\n\n");
        let ends = |lone: &mut LoneHttp, x| match how {
            "breaks" => lone.breaks(x),
            "unreachable" => lone.unreachable(x),
            status => lone.status(x, status.parse().expect("a number")),
        };
        let asked = lone.posted("initialize");
        lone.event(get.id, "", &result(&asked.body, initialized("2024-11-05", can())));
        lone.ready();
        let said = lone.posted("notifications/initialized");
        ends(&mut lone, asked.id);
        lone.status(said.id, 202);
        let (key, asked) = lone.waves(&once());
        lone.event(get.id, "", &result(&asked.body, answer()));
        assert_eq!(lone.done(key), Ok(answer()));
        ends(&mut lone, asked.id);
        lone.still();
    }
}

// covers: SEC-018 (the errors that are kept for people), VER-031
#[test]
fn what_a_server_says_is_quoted_in_part_and_never_raw() {
    let mut lone = lone(Chunker::Whole);
    let probe = lone.posted("server/discover");
    lone.stream(probe.id);
    let loud = format!("\u{1b}[31m\u{202e}{}", "x".repeat(100_000));
    for id in 0..100 {
        lone.event(probe.id, "", &error(&json!({"id": 900_000 + id}), -32000, &loud, Value::Null));
    }
    lone.end(probe.id);
    lone.odd();
    let asked = lone.posted("initialize");
    lone.json(asked.id, 404, &error(&asked.body, -32000, &loud, Value::Null));
    let get = lone.asked();
    lone.answer(get.id, 404, "text/plain", &loud);
    let fault = lone.closed();
    let text = fault.to_string();
    assert!(text.len() < 8_000, "{}", text.len());
    assert!(text.contains("xxxxxxxx") && !text.contains(['\u{1b}', '\u{202e}']), "{text}");
    assert!(matches!(&fault, Fault::NoServer { attempts } if attempts.len() < 16), "{fault:?}");
}
