//! Retained state of the server: nothing is lost or answered twice, and state that no client can fetch is dropped.

use mcp_proto::http::server::Config;
use mcp_proto::model::{ElicitParams, ElicitSchema, InputRequest};
use mcp_proto::server::{Call, Event, InputRequired};
use mcp_proto::{
    CallError, CallOptions, Capabilities, Capability, Fault, Limit, Progress, UseError, VersionSet,
};
use mcp_tests::harness::HttpServerHarness;

use super::{
    CALL_FIELDS, ECHO_PARAMS, answer_call, harness, initialize_request, legacy_request, modern_request,
    open_session,
};
use crate::protocol::common::{limits, secs, server};

/// Requests a form from the client of a call.
fn request_input(web: &mut HttpServerHarness, call: &Call, key: &str) -> Result<(), UseError> {
    let mut input = InputRequired::new();
    let form = ElicitParams::form("who?", ElicitSchema::default());
    input.request_input(call, key, InputRequest::Elicit(form)).expect_err("not yet");
    let now = web.now;
    let outcome = web.server.engine().require_input(now, call, &input);
    web.transmit_all();
    outcome
}

// covers: HTTP-064, SEC-018
#[test]
fn stateless_server_refuses_resource_subscriptions() {
    let mut web = harness(Config::new().sessions(false));
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        let x = web.post(&[], &legacy_request(2, method, "\"uri\":\"a:b\""));
        let reply = web.response(x);
        assert!(reply.is_complete, "{method}: {reply:?}");
        assert_eq!((reply.status, &reply.message()["error"]["code"]), (200, &(-32601).into()));
    }
    assert!(web.poll_event().is_none(), "no event for a session that does not exist");
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: BASE-010, HTTP-019
#[test]
fn malformed_input_response_completes_the_input_request() {
    for faulty in
        ["\"result\":\"text\"", "\"error\":{}", "\"result\":{},\"error\":{\"code\":1,\"message\":\"\"}"]
    {
        let mut web = harness(Config::new());
        let id = open_session(&mut web, "2025-11-25");
        let named = ("Mcp-Session-Id", &*id);
        let x = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
        let call = web.expect_call();
        request_input(&mut web, &call, "who").expect("the client can answer");
        let question = web.response(x).messages().pop().expect("a request");
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{faulty}}}", question["id"]);
        // A response in another session is ignored.
        let other = open_session(&mut web, "2025-11-25");
        let y = web.post(&[("Mcp-Session-Id", &other)], &body);
        assert_eq!(web.response(y).status, 400, "{faulty}");
        assert!(matches!(web.poll_event(), Some(Event::Diagnostic { .. })));
        assert!(web.poll_event().is_none());
        let y = web.post(&[named], &body);
        assert_eq!(web.response(y).status, 400, "{faulty}");
        let again = loop {
            match web.poll_event() {
                Some(Event::Call(call)) => break call,
                Some(Event::Diagnostic { .. }) => {}
                other => panic!("{faulty}: {other:?}"),
            }
        };
        assert!(matches!(again.answer("who"), Some(Err(CallError::Malformed(_)))), "{faulty}");
        answer_call(&mut web, &again);
        assert!(web.response(x).is_complete);
    }
}

// covers: BATCH-008
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn malformed_input_response_in_a_batch_completes_the_input_request() {
    let mut web = harness(Config::new());
    let x = web.post(&[], &initialize_request("2025-03-26").replace("\"elicitation\"", "\"roots\""));
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    let named = ("Mcp-Session-Id", &*id);
    web.post(&[named], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert!(matches!(web.poll_event(), Some(Event::SessionOpened { .. })));
    let x = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    let mut input = InputRequired::new();
    input.request_input(&call, "where", InputRequest::ListRoots(None)).expect_err("not yet");
    web.server.engine().require_input(web.now, &call, &input).expect("the client can answer");
    web.transmit_all();
    let question = web.response(x).messages().pop().expect("a request");
    let body = format!("[{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":1}}]", question["id"]);
    let y = web.post(&[named], &body);
    assert_eq!(web.response(y).status, 202);
    let mut events = Vec::new();
    while let Some(event) = web.poll_event() {
        events.push(event);
    }
    assert!(events.iter().any(|e| matches!(e, Event::Call(call) if call.attempt() == 1)), "{events:?}");
}

// covers: VER-018, VER-040 (1)
#[test]
fn related_task_metadata_does_not_make_a_request_modern() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let related = "\"_meta\":{\"io.modelcontextprotocol/related-task\":{\"taskId\":\"t\"}}";
    let x = web.post(&[named], &legacy_request(2, "tools/call", &format!("{ECHO_PARAMS},{related}")));
    let call = web.expect_call();
    assert_eq!(call.version().as_str(), "2025-11-25");
    // A notification with this metadata stays in its session too.
    let cancel = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{{\"requestId\":2,{related}}}}}"
    );
    let y = web.post(&[named], &cancel);
    assert_eq!(web.response(y).status, 202);
    assert!(matches!(web.poll_event(), Some(Event::Cancelled { .. })));
    assert!(web.response(x).is_complete);
    // A key that only modern requests have makes a request modern.
    for key in ["clientInfo", "clientCapabilities", "logLevel"] {
        let meta = format!("{ECHO_PARAMS},\"_meta\":{{\"io.modelcontextprotocol/{key}\":{{}}}}");
        let x = web.post(&[named], &legacy_request(3, "tools/call", &meta));
        let reply = web.response(x);
        assert_eq!((reply.status, &reply.message()["error"]["code"]), (400, &(-32602).into()), "{key}");
    }
}

// covers: SSE-016, CANC-020
#[test]
fn cancelled_call_ends_its_stream_without_priming_event() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let _call = web.expect_call();
    web.post(
        &[named],
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}}",
    );
    let reply = web.response(x);
    assert!(reply.is_complete && reply.events().is_empty(), "{reply:?}");
}

// covers: HTTP-062, SEC-018
#[test]
fn unreachable_client_is_not_asked_for_input() {
    // The client has no event id to resume from: neither the input request nor the answer can reach it.
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    web.auto_transmits = false;
    request_input(&mut web, &call, "who").expect("the client can answer");
    web.close_exchange(x);
    web.auto_transmits = true;
    web.transmit_all();
    assert_eq!(web.server.exchange_count(), 0, "an input request that was never sent is not awaited");
    let x = web.post(&[named], &legacy_request(3, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    web.close_exchange(x);
    assert!(matches!(request_input(&mut web, &call, "who"), Err(UseError::Closed)));
    assert_eq!(web.server.exchange_count(), 0);
    // Without replay the client cannot resume either, but a request that was sent may still be answered.
    let mut web = harness(Config::new().replay_bytes(0));
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    request_input(&mut web, &call, "who").expect("the client can answer");
    let question = web.response(x).messages().pop().expect("a request");
    web.close_exchange(x);
    let response =
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"action\":\"decline\"}}}}", question["id"]);
    let y = web.post(&[named], &response);
    assert_eq!(web.response(y).status, 202);
    let again = web.expect_call();
    assert!(matches!(request_input(&mut web, &again, "more"), Err(UseError::Closed)));
    assert_eq!(web.server.exchange_count(), 0);
    // Before the first event id there is no way to resume; only 2025-11-25 starts streams with one.
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-06-18");
    let x = web.post(&[("Mcp-Session-Id", &id)], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    web.advance(secs(6));
    assert!(web.response(x).is_event_stream() && web.response(x).events().is_empty());
    web.close_exchange(x);
    assert!(matches!(request_input(&mut web, &call, "who"), Err(UseError::Closed)));
    // A request that waits in such a stream is not awaited either.
    let x = web.post(&[("Mcp-Session-Id", &id)], &legacy_request(3, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    web.advance(secs(6));
    web.auto_transmits = false;
    request_input(&mut web, &call, "who").expect("the client can answer");
    web.close_exchange(x);
    web.auto_transmits = true;
    web.transmit_all();
    assert_eq!(web.server.exchange_count(), 0, "neither call goes on");
    // With an id, that of a message or of the first event, the request is delivered on resumption.
    for version in ["2025-06-18", "2025-11-25"] {
        let mut web = harness(Config::new());
        let id = open_session(&mut web, version);
        let named = ("Mcp-Session-Id", &*id);
        let params = format!("{ECHO_PARAMS},\"_meta\":{{\"progressToken\":1}}");
        let x = web.post(&[named], &legacy_request(2, "tools/call", &params));
        let call = web.expect_call();
        if version == "2025-06-18" {
            web.server.engine().progress(web.now, call.id(), Progress::new(1.0)).expect("open");
        }
        web.advance(secs(6));
        let first = web.response(x).events()[0].id.clone();
        web.close_exchange(x);
        request_input(&mut web, &call, "who").expect("the client can answer");
        let y = web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", &first)], "");
        assert_eq!(web.response(y).messages()[0]["method"], "elicitation/create");
    }
}

// covers: HTTP-062
#[test]
fn request_that_was_never_sent_is_not_awaited_where_nothing_is_kept() {
    let mut web = harness(Config::new().replay_bytes(0));
    let id = open_session(&mut web, "2025-11-25");
    let x = web.post(&[("Mcp-Session-Id", &id)], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    web.auto_transmits = false;
    request_input(&mut web, &call, "who").expect("the client can answer");
    web.close_exchange(x);
    web.auto_transmits = true;
    web.transmit_all();
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: BATCH-007, BATCH-010, BASE-005 (receiver side)
#[test]
fn batch_with_duplicate_id_is_refused_as_a_whole() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-03-26");
    let named = ("Mcp-Session-Id", &*id);
    let first = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    let (again, ping) = (legacy_request(2, "tools/call", ECHO_PARAMS), legacy_request(3, "ping", ""));
    for batch in [
        format!("[{again}]"),
        format!("[{ping},{again}]"),
        format!("[{},{}]", legacy_request(4, "tools/call", ECHO_PARAMS), legacy_request(4, "ping", "")),
    ] {
        let x = web.post(&[named], &batch);
        let reply = web.response(x);
        assert_eq!((reply.status, &reply.message()["error"]["code"]), (400, &(-32600).into()), "{batch}");
        assert!(web.poll_event().is_none(), "no member of the batch is executed");
    }
    answer_call(&mut web, &call);
    assert!(web.response(first).is_complete && web.response(first).message()["id"] == 2);
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: SEC-018
#[test]
fn batch_counts_against_max_streams_per_session() {
    let mut web = harness(Config::new().max_streams_per_session(2));
    let id = open_session(&mut web, "2025-03-26");
    let named = ("Mcp-Session-Id", &*id);
    for n in 2..4 {
        web.post(&[named], &format!("[{}]", legacy_request(n, "tools/call", ECHO_PARAMS)));
        web.expect_call();
    }
    let x = web.post(&[named], &format!("[{}]", legacy_request(4, "tools/call", ECHO_PARAMS)));
    assert_eq!(web.response(x).status, 503);
    let cancel = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}}";
    let x = web.post(&[named], &format!("[{cancel}]"));
    assert_eq!(web.response(x).status, 202, "a cancellation is accepted at the limit");
}

// covers: SEC-018
#[test]
fn notifications_beyond_max_events_are_503() {
    let config = server(VersionSet::ALL).limits(limits(|l| l.max_events = 3));
    let mut web = HttpServerHarness::new(config, Config::new());
    let notification = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}";
    for n in 0..5 {
        let x = web.post(&CALL_FIELDS[..1], notification);
        assert_eq!(web.response(x).status, if n < 3 { 202 } else { 503 });
    }
    for _ in 0..3 {
        assert!(matches!(web.poll_event(), Some(Event::Notification(_))));
    }
    assert!(web.poll_event().is_none());
    let x = web.post(&CALL_FIELDS[..1], notification);
    assert_eq!(web.response(x).status, 202);
}

// covers: SEC-018
#[test]
fn unfetched_messages_of_a_session_are_bounded() {
    let capabilities = Capabilities::new().with(Capability::Tools);
    let limits = limits(|l| l.outbox_high_water = 2_000);
    let config = server(VersionSet::ALL).capabilities(capabilities).limits(limits);
    let mut web = HttpServerHarness::new(config, Config::new());
    let x = web.post(&[], &initialize_request("2025-11-25"));
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    web.post(&[("Mcp-Session-Id", &id)], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    let Some(Event::SessionOpened { channel, .. }) = web.poll_event() else { panic!("no session") };
    // The session has no open stream: pings that cannot be sent must not pile up.
    let (mut sent, mut refused) = (0, 0);
    for _ in 0..100 {
        let now = web.now;
        let nothing = serde_json::json!({});
        let options = CallOptions::new().timeout(secs(1));
        match web.server.engine().request(now, channel, "ping", &nothing, &options) {
            Ok(_) => sent += 1,
            Err(error) => {
                assert!(matches!(error, UseError::Full(Limit::OutboxHighWater)), "{error:?}");
                refused += 1;
            }
        }
        web.advance(secs(2));
        while web.poll_event().is_some() {}
        assert!(web.server.engine().outbox(channel).is_some_and(|o| o.len() < 2_500));
    }
    assert!(sent > 5 && refused > 50, "{sent} {refused}");
    for n in 0..100 {
        let now = web.now;
        web.server.engine().notify_elicitation_complete(now, channel, &format!("page {n}"));
    }
    assert!(web.server.engine().outbox(channel).is_some_and(|o| o.len() < 2_500));
}

// covers: SEC-018
#[test]
fn session_is_limited_in_pending_input_requests() {
    let config = server(VersionSet::ALL).limits(limits(|l| {
        l.max_pending_calls = 8;
        l.max_inputs = 2;
        l.max_retained_bytes = 4_000;
    }));
    let mut web = HttpServerHarness::new(config, Config::new());
    let (greedy, other) = (open_session(&mut web, "2025-11-25"), open_session(&mut web, "2025-11-25"));
    for n in 2..8 {
        web.post(&[("Mcp-Session-Id", &greedy)], &legacy_request(n, "tools/call", ECHO_PARAMS));
        let call = web.expect_call();
        let outcome = request_input(&mut web, &call, "who");
        assert_eq!(outcome.is_ok(), n < 4, "{n}: {outcome:?}");
        if let Err(error) = outcome {
            assert!(matches!(error, UseError::Full(Limit::PendingCalls)), "{error:?}");
        }
    }
    web.post(&[("Mcp-Session-Id", &other)], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    request_input(&mut web, &call, "who").expect("the other session has its share");
    // Memory is shared fairly too.
    let long = format!("\"name\":\"echo\",\"arguments\":{{\"text\":\"{}\"}}", "x".repeat(2_000));
    web.post(&[("Mcp-Session-Id", &other)], &legacy_request(3, "tools/call", &long));
    let call = web.expect_call();
    assert!(matches!(request_input(&mut web, &call, "who"), Err(UseError::Full(Limit::RetainedBytes))));
}

// covers: SEC-018, HTTP-064
#[test]
fn evicted_session_id_is_never_sent() {
    let mut web = harness(Config::new().max_sessions(1, 1));
    web.auto_transmits = false;
    let first = web.post(&[], &initialize_request("2025-11-25"));
    let second = web.post(&[], &initialize_request("2025-11-25"));
    web.auto_transmits = true;
    web.transmit_all();
    assert_eq!((web.response(first).status, web.response(first).field("mcp-session-id")), (503, None));
    assert_eq!(web.response(second).status, 200);
    assert!(web.response(second).field("mcp-session-id").is_some());
    assert_eq!((web.server.exchange_count(), web.server.session_count()), (0, 1));
}

// covers: HTTP-070
#[test]
fn session_end_is_reported_once() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    web.server.shutdown(web.now, secs(1));
    assert!(matches!(web.poll_event(), Some(Event::Closed { .. })));
    let x = web.send_request("DELETE", "/mcp", &[("Mcp-Session-Id", &id)], "");
    assert_eq!(web.response(x).status, 204);
    assert!(web.poll_event().is_none());
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn shutdown_still_answers_on_http_sse_streams() {
    let mut web = harness(Config::new().http_sse("/sse", "/messages"));
    let streams = [1, 2, 3].map(|_| web.send_request("GET", "/sse", &[], ""));
    let last_message = |web: &HttpServerHarness, x| -> serde_json::Value {
        let last = web.response(x).events().pop().expect("an answer");
        serde_json::from_str(&last.data).expect("JSON")
    };
    let mut calls = Vec::new();
    for x in &streams[..2] {
        let target = web.response(*x).events()[0].data.clone();
        web.send_request("POST", &target, &[], &initialize_request("2024-11-05"));
        web.send_request(
            "POST",
            &target,
            &[],
            "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}",
        );
        assert!(matches!(web.poll_event(), Some(Event::SessionOpened { .. })));
        web.send_request("POST", &target, &[], &legacy_request(2, "tools/call", ECHO_PARAMS));
        calls.push(web.expect_call());
    }
    web.server.shutdown(web.now, secs(5));
    web.transmit_all();
    assert!(web.response(streams[2]).is_complete, "no answer is pending on this stream");
    assert!(!web.response(streams[0]).is_complete && !web.response(streams[1]).is_complete);
    answer_call(&mut web, &calls[0]);
    let last = last_message(&web, streams[0]);
    assert_eq!((&last["id"], &last["result"]["content"][0]["text"]), (&2.into(), &"done".into()));
    assert!(web.response(streams[0]).is_complete);
    web.advance(secs(6));
    let last = last_message(&web, streams[1]);
    assert_eq!((&last["id"], &last["error"]["code"]), (&2.into(), &(-32603).into()));
    assert!(web.response(streams[1]).is_complete);
    assert_eq!((web.server.exchange_count(), web.server.session_count()), (0, 0));
}

#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn shutdown_refuses_incomplete_requests() {
    use mcp_proto::head::RequestHead;
    let mut web = harness(Config::new().http_sse("/sse", "/messages"));
    let fields = [("host", &b"localhost"[..]), ("accept", b"*/*"), ("content-type", b"application/json")];
    let open = |web: &mut HttpServerHarness, target| {
        let head = RequestHead { method: "POST", target, fields: &fields };
        web.server.open(web.now, &head, None)
    };
    let (x, y) = (open(&mut web, "/mcp"), open(&mut web, "/messages?sessionId=x"));
    web.server.shutdown(web.now, secs(1));
    for x in [x, y] {
        assert_eq!(web.server.response(x).map(|r| r.status), Some(503));
        assert!(!web.server.wants_body(x));
    }
    // Input that arrives after the shutdown is ignored.
    let body = modern_request(1, "tools/call", ECHO_PARAMS);
    web.server.handle_body(web.now, x, body.into());
    web.server.handle_end(web.now, x);
    assert!(web.poll_event().is_none());
}

// covers: BATCH-004
#[test]
fn modern_request_in_a_batch_is_refused() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-03-26");
    let named = ("Mcp-Session-Id", &*id);
    let listen = modern_request(2, "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}");
    let call = modern_request(3, "tools/call", ECHO_PARAMS);
    let x = web.post(&[named], &format!("[{listen},{call},{}]", legacy_request(4, "ping", "")));
    let reply = web.response(x);
    assert!(reply.is_complete, "{reply:?}");
    let message = reply.message();
    let codes: Vec<_> = (0..3).map(|n| message[n]["error"]["code"].as_i64()).collect();
    assert_eq!(codes, [Some(-32600), Some(-32600), None], "{message}");
    assert!(web.poll_event().is_none());
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: HTTP-070, HTTP-071, SSE-027
#[test]
fn application_can_close_a_session() {
    let mut web = harness(Config::new());
    let x = web.post(&[], &initialize_request("2025-11-25"));
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    let named = ("Mcp-Session-Id", &*id);
    web.post(&[named], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    let Some(Event::SessionOpened { channel, .. }) = web.poll_event() else { panic!("no session") };
    let get = web.send_request("GET", "/mcp", &[named], "");
    let x = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
    web.expect_call();
    let now = web.now;
    web.server.engine().close_channel(now, channel, &Fault::Closed);
    web.transmit_all();
    assert!(web.response(get).is_complete && web.response(x).is_complete);
    assert!(matches!(web.poll_event(), Some(Event::Cancelled { .. })));
    assert!(matches!(web.poll_event(), Some(Event::Closed { .. })));
    for (method, body) in
        [("POST", legacy_request(3, "ping", "")), ("GET", String::new()), ("DELETE", String::new())]
    {
        let x = web.send_request(method, "/mcp", &[named], &body);
        assert_eq!(web.response(x).status, 404, "{method}");
    }
    assert!(web.poll_event().is_none(), "the end was reported before");
    assert_eq!((web.server.session_count(), web.server.exchange_count()), (0, 0));
}

// covers: SEC-018
#[test]
fn session_is_dropped_when_initialize_response_is_never_sent() {
    let mut web = harness(Config::new());
    web.auto_transmits = false;
    let x = web.post(&[], &initialize_request("2025-11-25"));
    assert_eq!(web.server.session_count(), 1);
    web.close_exchange(x);
    assert_eq!((web.server.session_count(), web.server.exchange_count()), (0, 0));
}
