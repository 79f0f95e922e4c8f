//! Modern requests: each is independent, and its header fields are checked against its body.

use core::time::Duration;

use mcp_proto::http::server::{Config, ExchangeId};
use mcp_proto::model::{CallToolResult, ElicitParams, ElicitSchema, InputRequest, LoggingLevel};
use mcp_proto::server::{Call, CancelReason, Event, InputRequired};
use mcp_proto::{Change, Progress, RpcError, VersionSet};

use super::{
    CALL_FIELDS, ECHO_PARAMS, answer_call, harness, harness_with_versions, legacy_request, modern_request,
    open_session,
};
use crate::protocol::common::secs;

// covers: HTTP-021, HTTP-023, HTTP-040, HTTP-041, HTTP-061
#[test]
fn quick_answer_is_one_json_object_and_ids_are_per_exchange() {
    for versions in [VersionSet::ALL, VersionSet::MODERN] {
        assert_single_object(harness_with_versions(versions, Config::new()));
    }
}

fn assert_single_object(mut web: mcp_tests::harness::HttpServerHarness) {
    let first = web.post(&CALL_FIELDS, &modern_request(1, "tools/call", ECHO_PARAMS));
    let a = web.expect_call();
    // Session fields are ignored, and none are sent.
    let fields: Vec<_> =
        CALL_FIELDS.into_iter().chain([("Mcp-Session-Id", "whatever"), ("Last-Event-ID", "1-1")]).collect();
    let second = web.post(&fields, &modern_request(1, "tools/call", ECHO_PARAMS));
    let b = web.expect_call();
    answer_call(&mut web, &b);
    assert!(web.response(second).is_complete && !web.response(first).is_complete);
    answer_call(&mut web, &a);
    for x in [first, second] {
        let reply = web.response(x);
        assert_eq!((reply.status, reply.field("content-type")), (200, Some("application/json")));
        assert!(reply.field("mcp-session-id").is_none());
        assert_eq!(reply.message()["result"]["content"][0]["text"], "done");
    }
    assert_eq!(web.server.exchange_count(), 0, "nothing is kept");
}

// covers: HTTP-024, HTTP-025, HTTP-027, HTTP-028, HTTP-029, HTTP-031, HTTP-036, HTTP-037, VER-035, BASE-043, VER-040 (1 and 3)
#[test]
fn checks_run_in_the_documented_order() {
    let call = modern_request(1, "tools/call", ECHO_PARAMS);
    let version = "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"";
    let capabilities = "\"io.modelcontextprotocol/clientCapabilities\":{}";
    let future = call.replace("2026-07-28", "2031-01-01");
    let cases: [(&str, String, [&str; 3], u16, i64); 20] = [
        ("right", call.clone(), ["2026-07-28", "tools/call", "echo"], 200, 0),
        ("not JSON", "{".into(), ["2026-07-28", "tools/call", "echo"], 400, -32700),
        ("not UTF-8 is not JSON", "\u{1}".into(), ["2026-07-28", "", ""], 400, -32700),
        ("not JSON-RPC", "{\"id\":1}".into(), ["2026-07-28", "tools/call", "echo"], 400, -32600),
        ("a batch", format!("[{call}]"), ["2026-07-28", "tools/call", "echo"], 400, -32600),
        ("another version in the field", call.clone(), ["2025-11-25", "tools/call", "echo"], 400, -32020),
        (
            "… before anything is missing",
            call.replace(capabilities, "\"x/y\":1"),
            ["2025-11-25", "", ""],
            400,
            -32020,
        ),
        ("no version in the body", call.replace(version, "\"x/y\":1"), ["2026-07-28", "", ""], 400, -32602),
        ("no capabilities", call.replace(capabilities, "\"x/y\":1"), ["2026-07-28", "", ""], 400, -32602),
        (
            "no metadata at all",
            legacy_request(1, "tools/call", ECHO_PARAMS),
            ["2026-07-28", "", ""],
            400,
            -32602,
        ),
        ("an unknown version, before its other fields", future, ["2031-01-01", "", ""], 400, -32022),
        ("no version in the fields", call.clone(), ["", "tools/call", "echo"], 400, -32020),
        ("no method", call.clone(), ["2026-07-28", "", "echo"], 400, -32020),
        ("another method", call.clone(), ["2026-07-28", "tools/list", "echo"], 400, -32020),
        ("a method in other case", call.clone(), ["2026-07-28", "Tools/Call", "echo"], 400, -32020),
        ("no name", call.clone(), ["2026-07-28", "tools/call", ""], 400, -32020),
        ("another name", call.clone(), ["2026-07-28", "tools/call", "Echo"], 400, -32020),
        (
            "another method, before it is unknown",
            modern_request(1, "no/such", ""),
            ["2026-07-28", "tools/call", ""],
            400,
            -32020,
        ),
        ("an unknown method", modern_request(1, "no/such", ""), ["2026-07-28", "no/such", ""], 404, -32601),
        (
            "a method of the other era",
            modern_request(1, "initialize", ""),
            ["2026-07-28", "initialize", ""],
            404,
            -32601,
        ),
    ];
    for (case, body, [version, method, name], status, code) in cases {
        let mut web = harness(Config::new());
        let fields = [("mcp-protocol-VERSION", version), ("MCP-METHOD", method), ("mcp-name", name)];
        let x = web.post(&fields, &body);
        if code == 0 {
            let call = web.expect_call();
            answer_call(&mut web, &call);
        }
        let reply = web.response(x);
        assert_eq!(reply.status, status, "{case}: {reply:?}");
        if code != 0 {
            let message = reply.message();
            assert_eq!(message["error"]["code"], code, "{case}: {message}");
            while let Some(event) = web.poll_event() {
                assert!(matches!(event, Event::Diagnostic { .. }), "{case}: {event:?}");
            }
        }
        assert_eq!(web.server.exchange_count(), 0, "{case}");
    }
}

// covers: XHDR-020, XHDR-021, XHDR-022, XHDR-027
#[test]
fn mcp_name_header_can_be_base64_encoded() {
    let umlaut = "\"name\":\"M\u{fc}ll\",\"arguments\":{}";
    for (name, field, status) in [
        (umlaut, "=?base64?TcO8bGw=?=", 200),
        (umlaut, "M\u{fc}ll", 400),
        (umlaut, "=?base64?TcO8bGw?=", 400),
        (umlaut, "=?base64?TcO8bGx=?=", 400),
        (umlaut, "=?BASE64?TcO8bGw=?=", 400),
        (ECHO_PARAMS, "=?base64?ZWNobw==?=", 200),
        ("\"name\":\"=?base64?x\"", "=?base64?x", 200),
    ] {
        let mut web = harness(Config::new());
        let fields = [CALL_FIELDS[0], CALL_FIELDS[1], ("Mcp-Name", field)];
        let x = web.post(&fields, &modern_request(1, "tools/call", name));
        if status == 200 {
            let call = web.expect_call();
            answer_call(&mut web, &call);
        }
        assert_eq!(web.response(x).status, status, "{name} {field}");
    }
    let mut web = harness(Config::new());
    let twice: Vec<_> = CALL_FIELDS.into_iter().chain([("Mcp-Name", "echo")]).collect();
    let x = web.post(&twice, &modern_request(1, "tools/call", ECHO_PARAMS));
    assert_eq!(web.response(x).status, 400, "a duplicate field is refused");
    let x = web.post(
        &[CALL_FIELDS[0], ("Mcp-Method", "resources/read"), ("Mcp-Name", "a:b")],
        &modern_request(1, "resources/read", "\"uri\":\"a:b\""),
    );
    let call = web.expect_call();
    assert_eq!(call.method(), "resources/read");
    web.server.engine().fail(web.now, call.id(), &RpcError::resource_not_found("a:b")).expect("open");
    web.transmit_all();
    assert_eq!(
        (web.response(x).status, &web.response(x).message()["error"]["code"]),
        (200, &serde_json::json!(-32602))
    );
}

// covers: HTTP-017, HTTP-018, HTTP-034
#[test]
fn notifications_are_accepted_and_responses_refused() {
    let mut web = harness(Config::new());
    let x = web.post(
        &CALL_FIELDS[..1],
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}",
    );
    assert_eq!((web.response(x).status, &*web.response(x).body), (202, ""));
    let x = web.post(&CALL_FIELDS[..1], "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
    assert_eq!(web.response(x).status, 400);
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: SSE-001, SSE-007, SSE-008, SSE-009, SSE-011, SSE-012, HTTP-061
#[test]
fn progress_before_the_answer_turns_the_response_into_a_stream() {
    let mut web = harness(Config::new());
    let body = modern_request(1, "tools/call", ECHO_PARAMS)
        .replace("\"_meta\":{", "\"_meta\":{\"progressToken\":\"t\",");
    let x = web.post(&CALL_FIELDS, &body);
    let call = web.expect_call();
    assert_eq!(web.response(x).status, 0, "nothing is decided yet");
    for n in [1.0, 2.0] {
        web.server.engine().progress(web.now, call.id(), Progress::new(n)).expect("open");
        web.transmit_all();
    }
    assert_eq!(
        (web.response(x).status, web.response(x).messages().len(), web.response(x).is_complete),
        (200, 2, false)
    );
    answer_call(&mut web, &call);
    let reply = web.response(x);
    assert!(reply.is_complete && reply.is_event_stream());
    assert!(reply.events().iter().all(|e| e.id.is_empty() && e.retry.is_empty() && e.event.is_empty()));
    assert_eq!(reply.messages().last().map(|m| m["id"].clone()), Some(1.into()));
    // Progress and answer in one transmission are a stream as well.
    let x = web.post(&CALL_FIELDS, &body);
    let call = web.expect_call();
    web.auto_transmits = false;
    web.server.engine().progress(web.now, call.id(), Progress::new(1.0)).expect("open");
    answer_call(&mut web, &call);
    web.auto_transmits = true;
    web.transmit_all();
    assert_eq!((web.response(x).messages().len(), web.response(x).is_complete), (2, true));
}

// covers: PROG-016, SSE-009
#[test]
fn progress_goes_to_its_call_and_changes_to_the_listen_stream() {
    let mut web = harness(Config::new());
    let fields = [CALL_FIELDS[0], ("Mcp-Method", "subscriptions/listen")];
    let listen = "\"notifications\":{\"toolsListChanged\":true}";
    let listen_stream = web.post(&fields, &modern_request(1, "subscriptions/listen", listen));
    let body = modern_request(2, "tools/call", ECHO_PARAMS)
        .replace("\"_meta\":{", "\"_meta\":{\"progressToken\":\"t\",");
    let x = web.post(&CALL_FIELDS, &body);
    let call = web.expect_call();
    web.server.engine().progress(web.now, call.id(), Progress::new(1.0)).expect("open");
    web.server.engine().publish(web.now, &Change::Tools);
    web.transmit_all();
    answer_call(&mut web, &call);
    let methods = |x| web.response(x).messages().iter().map(|m| m["method"].clone()).collect::<Vec<_>>();
    assert_eq!(methods(x), ["notifications/progress".into(), serde_json::Value::Null]);
    assert_eq!(
        methods(listen_stream),
        ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"]
    );
}

/// Starts a call of a client that supports form elicitation.
fn start_call(web: &mut mcp_tests::harness::HttpServerHarness, id: u32) -> (ExchangeId, Call) {
    let capabilities =
        "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{\"form\":{}}},\"progressToken\":1";
    let body = modern_request(id, "tools/call", ECHO_PARAMS)
        .replace("\"io.modelcontextprotocol/clientCapabilities\":{}", capabilities);
    let x = web.post(&CALL_FIELDS, &body);
    (x, web.expect_call())
}

fn input_required(call: &Call) -> InputRequired {
    let mut input = InputRequired::new();
    let form = ElicitParams::form("who?", ElicitSchema::default());
    input.request_input(call, "who", InputRequest::Elicit(form)).expect_err("not yet");
    input
}

// covers: MRTR-032, SSE-010, HTTP-061
#[test]
fn input_required_completes_the_call_and_ends_the_stream() {
    let mut web = harness(Config::new());
    for streams in [false, true] {
        let (x, call) = start_call(&mut web, 1);
        let now = web.now;
        if streams {
            web.server.engine().progress(now, call.id(), Progress::new(1.0)).expect("open");
            web.transmit_all();
        }
        web.server.engine().require_input(now, &call, &input_required(&call)).expect("the client can answer");
        web.transmit_all();
        // Later progress and results are refused.
        assert!(web.server.engine().progress(now, call.id(), Progress::new(2.0)).is_err());
        assert!(web.server.engine().complete(now, call.id(), &CallToolResult::text("late")).is_err());
        web.transmit_all();
        let reply = web.response(x);
        assert!(reply.is_complete && reply.is_event_stream() == streams, "{reply:?}");
        let messages = reply.messages();
        assert_eq!(messages.len(), 1 + usize::from(streams));
        assert_eq!(messages.last().map(|m| m["result"]["resultType"].clone()), Some("input_required".into()));
        let is_request = |m: &serde_json::Value| m.get("method").is_some() && m.get("id").is_some();
        assert!(!messages.iter().any(is_request), "{messages:?}");
        assert_eq!(web.server.exchange_count(), 0);
    }
}

// covers: HTTP-026
#[test]
fn missing_client_capability_is_status_400() {
    let mut web = harness(Config::new());
    let x = web.post(&CALL_FIELDS, &modern_request(1, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    web.server
        .engine()
        .require_input(web.now, &call, &input_required(&call))
        .expect_err("the capability is missing");
    web.transmit_all();
    let reply = web.response(x);
    let error = &reply.message()["error"];
    assert_eq!((reply.status, &error["code"]), (400, &(-32021).into()), "{reply:?}");
    assert!(error["data"]["requiredCapabilities"]["elicitation"].is_object(), "{error}");
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: SSE-006
#[test]
fn slow_call_sends_keep_alive_comments() {
    let mut web = harness(Config::new());
    let x = web.post(&CALL_FIELDS, &modern_request(1, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    web.advance(secs(4));
    assert_eq!(web.response(x).status, 0);
    web.advance(secs(2));
    assert_eq!(
        (web.response(x).status, web.response(x).is_event_stream(), &*web.response(x).body),
        (200, true, "")
    );
    web.advance(secs(31));
    assert_eq!(web.response(x).body, ": \n\n: \n\n");
    answer_call(&mut web, &call);
    assert_eq!(web.response(x).message()["result"]["resultType"], "complete");
    assert!(web.response(x).is_complete);
    web.advance(secs(100));
    assert_eq!(web.server.poll_timeout(), None, "no deadline is left");
}

// covers: SSE-006, HTTP-070
#[test]
fn zero_intervals_do_not_spin() {
    let zero = secs(0);
    let mut web = harness(
        Config::new().keep_alive(zero).event_stream_delay(zero).session_idle_timeout(zero).retry(zero),
    );
    let session = open_session(&mut web, "2025-11-25");
    let get = web.send_request("GET", "/mcp", &[("Mcp-Session-Id", &session)], "");
    let x = web.post(&CALL_FIELDS, &modern_request(1, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    web.advance(secs(1));
    for stream in [get, x] {
        let comments = web.response(stream).body.matches(": \n\n").count();
        assert!((10..=25).contains(&comments), "{comments} keep-alive comments in one second");
    }
    answer_call(&mut web, &call);
    web.close_exchange(get);
    web.advance(secs(1));
    assert_eq!((web.server.session_count(), web.server.exchange_count()), (0, 0));
    assert_eq!(web.server.poll_timeout(), None, "no deadline is left");
}

// covers: HTTP-042, HTTP-043, CANC-017
#[test]
fn disconnect_cancels_a_modern_call() {
    let mut web = harness(Config::new());
    let stays = web.post(&CALL_FIELDS, &modern_request(1, "tools/call", ECHO_PARAMS));
    let other = web.expect_call();
    for streams in [false, true] {
        let x = web.post(&CALL_FIELDS, &modern_request(1, "tools/call", ECHO_PARAMS));
        let call = web.expect_call();
        if streams {
            web.advance(Duration::from_secs(6));
            assert!(web.response(x).is_event_stream());
        }
        web.close_exchange(x);
        match web.poll_event() {
            Some(Event::Cancelled { call: gone, reason }) => {
                assert_eq!((gone, reason), (call.id(), CancelReason::Disconnected));
            }
            other => panic!("{other:?}"),
        }
        assert!(web.server.engine().fail(web.now, call.id(), &RpcError::internal("late")).is_err());
    }
    answer_call(&mut web, &other);
    assert!(web.response(stays).is_complete);
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: HTTP-042, SUB-001, SUB-004, SUB-013, SUB-017, SUB-021
#[test]
fn listen_stream_stays_open_until_either_side_ends_it() {
    let mut web = harness(Config::new());
    let fields = [CALL_FIELDS[0], ("Mcp-Method", "subscriptions/listen")];
    let listen = modern_request(1, "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}");
    let (a, b) = (web.post(&fields, &listen), web.post(&fields, &listen));
    assert_eq!(web.server.engine().publish(web.now, &Change::Tools), 2);
    web.transmit_all();
    for x in [a, b] {
        let methods: Vec<_> = web.response(x).messages().iter().map(|m| m["method"].clone()).collect();
        assert_eq!(methods, ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"]);
    }
    web.close_exchange(a);
    assert_eq!(web.server.engine().publish(web.now, &Change::Tools), 1);
    web.server.shutdown(web.now, secs(1));
    web.transmit_all();
    let reply = web.response(b);
    assert!(reply.is_complete, "{reply:?}");
    let last = reply.messages().pop().expect("messages");
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&1.into(), &"complete".into()));
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: SUB-013, SUB-014
#[test]
fn end_all_subscriptions_keeps_calls_running() {
    let mut web = harness(Config::new());
    let fields = [CALL_FIELDS[0], ("Mcp-Method", "subscriptions/listen")];
    let listen =
        |id| modern_request(id, "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}");
    let (a, b) = (web.post(&fields, &listen(1)), web.post(&fields, &listen(2)));
    let x = web.post(&CALL_FIELDS, &modern_request(3, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    web.server.engine().end_all_subscriptions(web.now);
    web.transmit_all();
    for (x, id) in [(a, 1), (b, 2)] {
        let last = web.response(x).messages().pop().expect("messages");
        assert!(web.response(x).is_complete);
        assert_eq!((&last["id"], &last["result"]["resultType"]), (&id.into(), &"complete".into()));
    }
    assert_eq!(web.server.engine().publish(web.now, &Change::Tools), 0);
    assert!(!web.response(x).is_complete);
    answer_call(&mut web, &call);
    assert!(web.response(x).is_complete);
}

// covers: VER-032, VER-033, ERR-006, VER-036 (the second half)
#[test]
fn modern_only_server_names_its_versions_to_legacy_client() {
    let mut web = harness_with_versions(VersionSet::MODERN, Config::new());
    let x = web.post(&[], &super::initialize_request("2025-11-25"));
    let error = web.response(x).message()["error"].clone();
    assert_eq!((web.response(x).status, &error["code"]), (400, &serde_json::json!(-32020)));
    assert_eq!(error["data"]["supported"], serde_json::json!(["2026-07-28"]));
    assert!(error["message"].as_str().is_some_and(|m| m.contains("2026-07-28")));
    let x = web.post(&[("MCP-Protocol-Version", "2025-11-25")], &super::initialize_request("2025-11-25"));
    assert_eq!(
        (web.response(x).status, &web.response(x).message()["error"]["code"]),
        (400, &serde_json::json!(-32022))
    );
}

// covers: LOG-007
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn slow_reader_memory_is_bounded() {
    let mut web = harness(Config::new());
    let body = modern_request(1, "tools/call", ECHO_PARAMS).replace(
        "\"_meta\":{",
        "\"_meta\":{\"progressToken\":1,\"io.modelcontextprotocol/logLevel\":\"debug\",",
    );
    let x = web.post(&CALL_FIELDS, &body);
    let call = web.expect_call();
    web.auto_transmits = false;
    for n in 0..10_000 {
        let now = web.now;
        let text = "x".repeat(1_000);
        let _ = web.server.engine().log(now, call.id(), &LoggingLevel::Info, None, &text);
        let _ = web.server.engine().progress(now, call.id(), Progress::new(f64::from(n)));
        web.advance(Duration::from_millis(100));
        assert!(web.poll_event().is_none());
    }
    // Messages are encoded only when the adapter transmits.
    web.auto_transmits = true;
    web.transmit_all();
    assert!(web.response(x).body.len() < (2 << 20), "{}", web.response(x).body.len());
    answer_call(&mut web, &call);
    assert!(web.response(x).is_complete);
}

#[test]
fn overloaded_server_refuses_new_requests_only() {
    let mut web = harness(Config::new());
    let x = web.post(&CALL_FIELDS, &modern_request(1, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    web.server.set_overloaded(true);
    for id in 2..4 {
        let refused = web.post(&CALL_FIELDS, &modern_request(id, "tools/call", ECHO_PARAMS));
        assert_eq!(
            (web.response(refused).status, web.response(refused).field("retry-after")),
            (503, Some("1"))
        );
    }
    // Running calls are still answered.
    answer_call(&mut web, &call);
    assert_eq!(web.response(x).message()["result"]["content"][0]["text"], "done");
    web.server.set_overloaded(false);
    let y = web.post(&CALL_FIELDS, &modern_request(4, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    answer_call(&mut web, &call);
    assert_eq!(web.response(y).status, 200);
}

#[test]
fn shutdown_finishes_open_calls_and_refuses_new_ones() {
    let mut web = harness(Config::new());
    let (x, y) = (
        web.post(&CALL_FIELDS, &modern_request(1, "tools/call", ECHO_PARAMS)),
        web.post(&CALL_FIELDS, &modern_request(2, "tools/call", ECHO_PARAMS)),
    );
    let (done, _left) = (web.expect_call(), web.expect_call());
    web.server.shutdown(web.now, secs(5));
    let refused = web.post(&CALL_FIELDS, &modern_request(3, "tools/call", ECHO_PARAMS));
    assert_eq!(web.response(refused).status, 503);
    answer_call(&mut web, &done);
    assert_eq!(web.response(x).message()["result"]["content"][0]["text"], "done");
    web.advance(secs(6));
    assert_eq!(web.response(y).message()["error"]["code"], -32603);
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: XHDR-027
#[test]
fn duplicate_mcp_header_is_refused() {
    let mut web = harness(Config::new());
    for field in ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Param-Unknown"] {
        let fields = [
            CALL_FIELDS[0],
            ("Mcp-Method", "tools/list"),
            ("Mcp-Name", "x"),
            ("mcp-param-unknown", "1"),
            (field, if field == "MCP-Protocol-Version" { CALL_FIELDS[0].1 } else { "tools/list" }),
        ];
        let x = web.post(&fields, &modern_request(1, "tools/list", ""));
        let error = &web.response(x).message()["error"];
        assert_eq!((web.response(x).status, &error["code"]), (400, &(-32020).into()), "{field}");
        assert!(error["message"].as_str().is_some_and(|m| m.to_lowercase().contains(&field.to_lowercase())));
    }
    assert!(web.poll_event().is_none());
}

// covers: HTTP-031, HTTP-034, HTTP-036
#[test]
fn headers_of_a_notification_are_checked() {
    let notification = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1,\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}}";
    let mut web = harness(Config::new());
    for (fields, status) in [
        (&[][..], 202),
        (&[("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "notifications/cancelled")], 202),
        (&[("MCP-Protocol-Version", "2025-11-25")], 400),
        (&[("Mcp-Method", "tools/call")], 400),
        (&[("Mcp-Method", "notifications/cancelled"), ("mcp-method", "notifications/cancelled")], 400),
    ] {
        let x = web.post(fields, notification);
        let reply = web.response(x);
        assert_eq!(reply.status, status, "{fields:?}");
        if status == 400 {
            let message = reply.message();
            assert_eq!((&message["error"]["code"], message.get("id")), (&(-32020).into(), None));
        }
        while let Some(event) = web.poll_event() {
            assert!(status == 202 && matches!(event, Event::Diagnostic { .. }), "{event:?}");
        }
    }
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: SSE-006
#[test]
fn comment_follows_the_last_output_after_the_interval() {
    let mut web = harness(Config::new());
    let x = web.post(
        &CALL_FIELDS,
        &modern_request(1, "tools/call", ECHO_PARAMS)
            .replace("\"_meta\":{", "\"_meta\":{\"progressToken\":1,"),
    );
    let call = web.expect_call();
    let comments =
        |web: &mcp_tests::harness::HttpServerHarness| web.response(x).body.matches(": \n\n").count();
    web.advance(secs(5));
    assert_eq!((web.response(x).status, web.server.poll_timeout()), (200, Some(web.now + secs(15))));
    web.advance(secs(10));
    web.server.engine().progress(web.now, call.id(), Progress::new(1.0)).expect("open");
    web.transmit_all();
    // The time of the first comment passes, and the next look is fifteen seconds after the message.
    web.advance(secs(5));
    assert_eq!((comments(&web), web.server.poll_timeout()), (0, Some(web.now + secs(10))));
    web.advance(secs(10));
    assert_eq!((comments(&web), web.server.poll_timeout()), (1, Some(web.now + secs(15))));
    web.advance(secs(15));
    assert_eq!(comments(&web), 2);
    answer_call(&mut web, &call);
}

// covers: SSE-006
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn each_stream_has_its_first_comment_after_the_interval() {
    let mut web = harness(Config::new().http_sse("/sse", "/messages"));
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    // The memory of what was open before is released.
    web.advance(secs(2));
    let stream = web.send_request("GET", "/mcp", &[named], "");
    assert_eq!(web.server.poll_timeout(), Some(web.now + secs(15)));
    web.close_exchange(stream);
    web.advance(secs(2));
    let stream = web.send_request("GET", "/sse", &[], "");
    assert_eq!(web.server.poll_timeout(), Some(web.now + secs(15)));
    web.close_exchange(stream);
    web.advance(secs(2));
    let x = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
    web.expect_call();
    web.advance(secs(5));
    let first = web.response(x).events()[0].id.clone();
    web.close_exchange(x);
    web.advance(secs(2));
    web.send_request("GET", "/mcp", &[named, ("Last-Event-ID", &first)], "");
    assert_eq!(web.server.poll_timeout(), Some(web.now + secs(15)));
}

#[test]
fn answer_behind_more_than_a_body_holds_arrives() {
    for is_modern in [true, false] {
        let mut web = harness(Config::new());
        let x = if is_modern {
            let body = modern_request(1, "tools/call", ECHO_PARAMS)
                .replace("\"_meta\":{", "\"_meta\":{\"io.modelcontextprotocol/logLevel\":\"debug\",");
            web.post(&CALL_FIELDS, &body)
        } else {
            let id = open_session(&mut web, "2025-11-25");
            web.post(&[("Mcp-Session-Id", &id)], &legacy_request(2, "tools/call", ECHO_PARAMS))
        };
        let call = web.expect_call();
        web.auto_transmits = false;
        let now = web.now;
        let pending = |web: &mut mcp_tests::harness::HttpServerHarness| {
            while web.server.poll_ready(now).is_some() {}
            web.server.transmit(now, x).len()
        };
        #[expect(deprecated, reason = "tested until its removal")]
        let log = |web: &mut mcp_tests::harness::HttpServerHarness, length: usize| {
            let text = "x".repeat(length);
            _ = web.server.engine().log(now, call.id(), &LoggingLevel::Info, None, &text);
            pending(web)
        };
        // The body takes messages while it has less than 16 KiB, to the byte.
        let [first, second] = [(); 2].map(|()| log(&mut web, 1));
        let rest = (16 << 10) - second - (second - first) + 1;
        for length in [rest, 1, 10_000, 10_000, 10_000] {
            assert_eq!(log(&mut web, length), 16 << 10, "{length}");
        }
        web.server.engine().complete(now, call.id(), &CallToolResult::text("done")).expect("open");
        assert_eq!(pending(&mut web), 16 << 10);
        web.auto_transmits = true;
        web.transmit_all();
        web.transmit_exchange(x);
        let messages = web.response(x).messages();
        assert!(web.response(x).is_complete && messages.len() == 8, "{}", messages.len());
        assert_eq!(messages[7]["result"]["content"][0]["text"], "done");
    }
}

// covers: HTTP-058
#[test]
fn shutdown_ends_get_streams_at_once_and_waits_for_calls() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let stream = web.send_request("GET", "/mcp", &[named], "");
    let x = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    web.server.shutdown(web.now, secs(5));
    web.transmit_all();
    assert!(web.response(stream).is_complete && !web.response(x).is_complete);
    answer_call(&mut web, &call);
    assert_eq!(web.response(x).message()["id"], 2);
}
