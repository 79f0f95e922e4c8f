//! What is odd, and borne.

use mcp_proto::{CallError, Diagnostic, Fault};
use mcp_tests::harness::build::{error, initialized, result};
use mcp_tests::harness::{Chunker, LoneHttp, each_cut};
use serde_json::{Value, json};

use crate::common::secs;
use crate::http_client_shared::{JSON, V, answer, can, lone, modern, once};

// covers: HTTP-064, HTTP-067, HTTP-040 (as the client takes it)
#[test]
fn only_initialize_gives_a_session() {
    let mut lone = lone(Chunker::Whole);
    lone.with_legacy(V, Some("s"), can());
    for _ in 0..2 {
        let (key, asked) = lone.waves(&once());
        assert_eq!(asked.field("mcp-session-id"), Some("s"));
        let fields = [("content-type", JSON), ("mcp-session-id", "other")];
        lone.answer_with(asked.id, 200, &fields, &result(&asked.body, answer()).to_string());
        assert_eq!(lone.done(key), Ok(answer()));
    }
    let mut lone = modern(Chunker::Whole);
    for _ in 0..2 {
        let (key, asked) = lone.waves(&once());
        assert_eq!(asked.field("mcp-session-id"), None);
        let fields = [("content-type", JSON), ("mcp-session-id", "s")];
        let done = json!({"resultType": "complete", "content": []});
        lone.answer_with(asked.id, 200, &fields, &result(&asked.body, done).to_string());
        assert!(lone.done(key).is_ok());
    }
    lone.client.close(lone.now);
    lone.closed();
    lone.silent();
}

// covers: HTTP-022, SSE-002
#[test]
fn types_and_marks_are_read_as_they_are_meant() {
    for (kind, text) in [
        ("Application/JSON ; charset=UTF-8", "MESSAGE"),
        ("TEXT/Event-Stream;x=y", "data: MESSAGE\n\n"),
        ("text/event-stream", "\u{feff}event: message\rdata:MESSAGE\r\r"),
        (JSON, "\u{feff} \r\n\tMESSAGE \n"),
    ] {
        each_cut(|cut| {
            let mut lone = modern(cut);
            let (key, asked) = lone.waves(&once());
            let done = json!({"resultType": "complete", "content": []});
            let text = text.replace("MESSAGE", &result(&asked.body, done.clone()).to_string());
            lone.answer(asked.id, 200, kind, &text);
            assert_eq!(lone.done(key), Ok(done), "{kind}");
            lone.still();
            lone.transcript
        });
    }
}

// covers: TIME-001, TIME-002
#[test]
fn an_answer_without_end_ends_with_its_time() {
    for how in ["silent", "json", "comments", "page"] {
        let mut lone = lone(Chunker::Whole);
        lone.with_legacy(V, None, can());
        let (key, asked) = lone.waves(&once());
        match how {
            "json" => lone.head(asked.id, 200, &[("content-type", JSON)]),
            "page" => lone.head(asked.id, 500, &[("content-type", "text/html")]),
            "comments" => lone.stream(asked.id),
            _ => {}
        }
        for _ in 0..59 {
            match how {
                "json" | "page" => lone.body(asked.id, " "),
                "comments" => lone.body(asked.id, ": still there\n\n"),
                _ => {}
            }
            lone.pass(secs(1));
        }
        lone.still();
        lone.pass(secs(1));
        assert_eq!(lone.done(key), Err(CallError::TimedOut), "{how}");
        assert_eq!(lone.posted("notifications/cancelled").body["params"]["requestId"], asked.body["id"]);
        assert_eq!(lone.aborted(), asked.id);
    }
}

// covers: HTTPSSE-002, HTTPSSE-013
#[test]
fn the_first_endpoint_is_the_one() {
    let mut lone = lone(Chunker::Whole);
    for method in ["server/discover", "initialize"] {
        let asked = lone.posted(method);
        lone.status(asked.id, 405);
    }
    let get = lone.asked();
    lone.stream(get.id);
    lone.body(get.id, "event: endpoint\ndata: http://tide.example:3000/one?x=1\n\n");
    let asked = lone.posted("initialize");
    lone.body(get.id, "event: endpoint\ndata: http://evil.example/two\n\n");
    lone.status(asked.id, 202);
    lone.event(get.id, "", &result(&asked.body, initialized("2024-11-05", can())));
    lone.ready();
    assert_eq!(lone.posted("notifications/initialized").url.target(), "/one?x=1");
}

// covers: HTTP-073, LIFE-019
#[test]
fn the_end_may_come_at_any_time() {
    let drained = |mut lone: LoneHttp| {
        lone.pass(secs(5));
        assert!(lone.client.is_drained(), "{:?}", lone.client);
        lone.pass(secs(100));
    };
    // While it is asked what the server speaks.
    let mut opening = lone(Chunker::Whole);
    let probe = opening.posted("server/discover");
    opening.client.close(opening.now);
    assert_eq!(opening.aborted(), probe.id);
    opening.closed();
    opening.silent();
    drained(opening);
    // While a session is made.
    let mut making = lone(Chunker::Whole);
    let probe = making.posted("server/discover");
    making.status(probe.id, 404);
    let init = making.posted("initialize");
    making.head(init.id, 200, &[("content-type", JSON), ("mcp-session-id", "s")]);
    making.client.close(making.now);
    assert_eq!(making.aborted(), init.id);
    making.closed();
    assert_eq!(making.asked().field("mcp-session-id"), Some("s"), "it is ended at the server");
    drained(making);
    // While calls wait for the stream.
    let mut waiting = lone(Chunker::Whole);
    let said = waiting.to_legacy(V, Some("s"), can());
    let key = waiting.call("tools/list", &json!({}), &once());
    waiting.client.close(waiting.now);
    assert_eq!(waiting.done(key), Err(CallError::Closed(Fault::Closed)));
    waiting.closed();
    assert_eq!(waiting.asked().method, "DELETE");
    waiting.status(said.id, 202);
    waiting.silent();
    drained(waiting);
    // While there is no session.
    let mut renewing = lone(Chunker::Whole);
    renewing.with_legacy(V, Some("s"), can());
    let (key, asked) = renewing.waves(&once());
    renewing.status(asked.id, 404);
    let init = renewing.posted("initialize");
    renewing.client.engine().notify(renewing.now, "x/y", None::<&Value>).expect("a notification");
    renewing.client.close(renewing.now);
    assert_eq!(renewing.aborted(), init.id);
    assert_eq!(renewing.done(key), Err(CallError::Closed(Fault::Closed)));
    renewing.closed();
    renewing.silent();
    drained(renewing);
}

// covers: CANC-012 (an answer that comes twice)
#[test]
fn a_second_answer_is_none() {
    each_cut(|cut| {
        let mut lone = lone(cut);
        let get = lone.with_stream(V, None, can());
        let (key, asked) = lone.waves(&once());
        lone.stream(asked.id);
        lone.event(asked.id, "1", &result(&asked.body, answer()));
        assert_eq!(lone.done(key), Ok(answer()));
        lone.event(asked.id, "2", &error(&asked.body, -32000, "no", Value::Null));
        lone.still();
        lone.event(get, "3", &result(&asked.body, answer()));
        assert!(matches!(lone.diagnosed(), Diagnostic::LateResponse(_)));
        lone.end(asked.id);
        lone.still();
        lone.transcript
    });
}
