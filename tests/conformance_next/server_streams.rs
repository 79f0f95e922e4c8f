//! Server leg, streams: calls whose client goes away, levels of single requests, streams that are resumed, ids of subscriptions.

use alloc::collections::BTreeSet;

use mcp_proto::http::server::{Config, ExchangeId};
use mcp_proto::model::{CallToolResult, LoggingLevel};
use mcp_proto::server::{Call, CancelReason, Event};
use mcp_proto::{Capabilities, Capability, Change, Progress, SendStatus, VersionSet};
use mcp_tests::harness::HttpServerHarness;
use mcp_tests::harness::build::{legacy_request, modern_request, modern_request_with};
use serde_json::{Value, json};

use super::server_core::open_session;
use crate::protocol::common::{secs, server};

const V: (&str, &str) = ("MCP-Protocol-Version", "2026-07-28");

#[expect(deprecated, reason = "tested until its removal")]
fn web() -> HttpServerHarness {
    let capabilities = Capabilities::new()
        .with(Capability::Tools)
        .with(Capability::ToolsListChanged)
        .with(Capability::Logging);
    HttpServerHarness::new(server(VersionSet::ALL).capabilities(capabilities), Config::new())
}

fn start(web: &mut HttpServerHarness, id: u32, tool: &str, meta: &Value) -> ExchangeId {
    let fields = [V, ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
    let params = json!({"name": tool, "arguments": {}});
    web.post(&fields, &modern_request_with(id, "tools/call", params, meta).to_string())
}

fn complete(web: &mut HttpServerHarness, call: &Call) {
    let now = web.now;
    web.server.engine().complete(now, call.id(), &CallToolResult::text("done")).expect("open");
    web.transmit_all();
}

fn assert_healthy(web: &mut HttpServerHarness) {
    let fast = start(web, 99, "test_tool_fast", &json!({}));
    let call = web.expect_call();
    complete(web, &call);
    assert_eq!((web.response(fast).status, &web.response(fast).message()["id"]), (200, &json!(99)));
    assert_eq!((web.server.exchange_count(), web.server.engine().live_calls()), (0, 0));
}

/// Scenario `http-stream-cancellation`. Ours is stricter: the work is told to end, and nothing stays.
// covers: HTTP-042, CANC-017, CANC-020
#[test]
fn streams_that_clients_close_end_their_calls() {
    let mut web = web();
    let slow = |web: &mut HttpServerHarness, n: u32| {
        let x = start(web, n, "test_tool_slow", &json!({"progressToken": n}));
        (x, web.expect_call())
    };
    let (x, call) = slow(&mut web, 1);
    let now = web.now;
    web.server.engine().progress(now, call.id(), Progress::new(1.0)).expect("open");
    web.transmit_all();
    assert_eq!(web.response(x).messages().len(), 1);
    web.close_exchange(x);
    assert!(
        matches!(web.poll_event(), Some(Event::Cancelled { call: ended, reason: CancelReason::Disconnected })
        if ended == call.id())
    );
    assert!(web.server.engine().complete(now, call.id(), &CallToolResult::text("late")).is_err());
    assert_healthy(&mut web);
    // Five in a row, some before anything was sent.
    let burst: Vec<(ExchangeId, Call)> = (0..5).map(|n| slow(&mut web, n)).collect();
    for (n, (x, call)) in burst.iter().enumerate() {
        if n % 2 == 0 {
            let now = web.now;
            web.server.engine().progress(now, call.id(), Progress::new(1.0)).expect("open");
            web.transmit_all();
        }
        web.close_exchange(*x);
    }
    let mut running: BTreeSet<_> = burst.iter().map(|(_, call)| call.id()).collect();
    while let Some(event) = web.poll_event() {
        let Event::Cancelled { call, .. } = event else { panic!("{event:?}") };
        assert!(running.remove(&call), "each ends once");
    }
    assert!(running.is_empty());
    assert_healthy(&mut web);
}

#[expect(deprecated, reason = "tested until its removal")]
fn log(web: &mut HttpServerHarness, call: &Call, level: &LoggingLevel, data: &str) -> SendStatus {
    let now = web.now;
    let sent = web.server.engine().log(now, call.id(), level, None, &data).expect("open");
    web.transmit_all();
    sent
}

/// Scenario `per-request-loglevel`: what was asked for, nothing below it, nothing beside it.
// covers: LOG-007, LOG-008, LOG-009, LOG-010
#[test]
fn log_level_is_that_of_its_request_alone() {
    let level = |level: &str| json!({"io.modelcontextprotocol/logLevel": level});
    let all = [LoggingLevel::Debug, LoggingLevel::Info, LoggingLevel::Warning, LoggingLevel::Error];
    for (wanted, expected) in [("debug", &["debug", "info", "warning", "error"][..]), ("error", &["error"])] {
        let mut web = web();
        let logging = start(&mut web, 1, "test_logging_tool", &level(wanted));
        let first = web.expect_call();
        let silent = start(&mut web, 2, "test_tool_fast", &json!({}));
        let second = web.expect_call();
        for severity in &all {
            log(&mut web, &first, severity, "x");
            assert_eq!(log(&mut web, &second, severity, "x"), SendStatus::Dropped);
        }
        complete(&mut web, &second);
        complete(&mut web, &first);
        let messages = web.response(logging).messages();
        let (result, logs) = messages.split_last().expect("messages");
        assert_eq!(result["id"], 1);
        let found: Vec<&str> = logs.iter().filter_map(|m| m["params"]["level"].as_str()).collect();
        assert_eq!(found, expected, "{wanted}");
        assert_eq!(web.response(silent).message()["id"], 2);
    }
    let mut web = web();
    let x = start(&mut web, 1, "test_logging_tool", &level("banana"));
    assert_eq!(web.response(x).message()["error"]["code"], -32602);
}

/// Returns the texts of the log messages of a response.
fn texts(web: &HttpServerHarness, x: ExchangeId) -> Vec<String> {
    let text = |message: &Value| message["params"]["data"].as_str().map(str::to_owned);
    web.response(x).messages().iter().filter_map(text).collect()
}

/// Scenario `server-sse-polling`, phases 2 and 3: what is sent while the stream is closed is replayed, in order and once.
// covers: SSE-021, SSE-022, SSE-023
#[test]
fn messages_are_replayed_after_each_close_of_the_stream() {
    let mut web = web();
    let id = open_session(&mut web, "2025-11-25");
    let session = ("Mcp-Session-Id", &*id);
    let begin = |web: &mut HttpServerHarness, n: u32, tool: &str| {
        let params = json!({"name": tool, "arguments": {}});
        let x = web.post(&[session], &legacy_request(n, "tools/call", params).to_string());
        (x, web.expect_call())
    };
    let close = |web: &mut HttpServerHarness, call: &Call| {
        assert!(web.server.poll_later(web.now, call.id(), None));
        web.transmit_all();
    };
    let last_id = |web: &HttpServerHarness, x| {
        web.response(x).events().iter().rfind(|e| !e.id.is_empty()).expect("one").id.clone()
    };
    let resume = |web: &mut HttpServerHarness, after: &str| {
        web.send_request("GET", "/mcp", &[session, ("Last-Event-ID", after)], "")
    };

    let (x, call) = begin(&mut web, 2, "test_event_replay");
    log(&mut web, &call, &LoggingLevel::Info, "notification1");
    let seen = web.response(x).events().iter().rfind(|e| !e.data.is_empty()).expect("one").id.clone();
    close(&mut web, &call);
    assert!(web.response(x).is_complete);
    log(&mut web, &call, &LoggingLevel::Info, "notification2");
    log(&mut web, &call, &LoggingLevel::Info, "notification3");
    complete(&mut web, &call);
    let y = resume(&mut web, &seen);
    assert_eq!(
        (texts(&web, x), texts(&web, y)),
        (vec!["notification1".to_owned()], vec!["notification2".to_owned(), "notification3".to_owned()])
    );
    assert_eq!(web.response(y).messages().last().expect("a result")["id"], 2);

    let (mut x, call) = begin(&mut web, 3, "test_multiple_reconnections");
    let mut found = Vec::new();
    for n in 0..3 {
        web.advance(secs(1));
        log(&mut web, &call, &LoggingLevel::Info, &format!("checkpoint_{n}"));
        close(&mut web, &call);
        found.extend(texts(&web, x));
        let after = last_id(&web, x);
        x = resume(&mut web, &after);
        assert_eq!(web.response(x).status, 200);
    }
    complete(&mut web, &call);
    found.extend(texts(&web, x));
    assert_eq!(found, ["checkpoint_0", "checkpoint_1", "checkpoint_2"]);
    assert_eq!(web.response(x).messages().last().expect("a result")["id"], 3);
}

/// Scenario `server-stateless`: the subscription id equals the id of its request, and a call's stream has no `notifications/cancelled`.
// covers: SUB-008, CANC-019
#[test]
fn subscription_has_the_id_of_its_request_whatever_its_type() {
    let mut web = web();
    let streams = [json!(7), json!("7"), json!("h\u{f6}r zu"), json!(0)].map(|id| {
        let params = json!({"notifications": {"toolsListChanged": true}});
        let fields = [V, ("Mcp-Method", "subscriptions/listen")];
        let x = web.post(&fields, &modern_request(id.clone(), "subscriptions/listen", params).to_string());
        (id, x)
    });
    let now = web.now;
    assert_eq!(web.server.engine().publish(now, &Change::Tools), streams.len());
    web.transmit_all();
    for (id, x) in streams {
        let messages = web.response(x).messages();
        assert_eq!(messages.len(), 2, "{id}");
        for message in messages {
            assert_eq!(message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
        }
    }
    let x = start(&mut web, 1, "test_streaming_elicitation", &json!({"progressToken": "t"}));
    let call = web.expect_call();
    let now = web.now;
    web.server.engine().progress(now, call.id(), Progress::new(1.0)).expect("open");
    web.transmit_all();
    complete(&mut web, &call);
    let messages = web.response(x).messages();
    assert_eq!(messages.len(), 2);
    assert!(messages.iter().all(|message| message["method"] != "notifications/cancelled"));
}
