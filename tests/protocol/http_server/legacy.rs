//! Legacy sessions: ids, streams, and the stream that each message uses.

use mcp_proto::http::server::Config;
use mcp_proto::model::{ElicitParams, ElicitSchema, InputRequest, LoggingLevel};
use mcp_proto::server::{Call, Event, InputRequired};
use mcp_proto::{Change, Progress, RpcError, Version, VersionSet};

use super::{
    ECHO_PARAMS, answer_call, harness, harness_with_versions, initialize_request, legacy_request,
    open_session,
};
use crate::protocol::common::{ms, secs};

const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

// covers: HTTP-018, HTTP-021, HTTP-064, HTTP-066, HTTP-069, HTTP-071, HTTP-075
#[test]
fn session_lives_from_initialize_to_delete() {
    for version in LEGACY {
        let mut web = harness(Config::new());
        let x = web.post(&[], &initialize_request(version));
        assert_eq!(web.response(x).message()["result"]["protocolVersion"], version);
        let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
        assert!(id.bytes().all(|b| (0x21..=0x7e).contains(&b)));
        let named = ("Mcp-Session-Id", &*id);
        let x = web.post(&[named], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
        assert_eq!(web.response(x).status, 202);
        assert!(matches!(web.poll_event(), Some(Event::SessionOpened { .. })));
        let x = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
        let call = web.expect_call();
        assert_eq!(call.version().as_str(), version);
        answer_call(&mut web, &call);
        let reply = web.response(x);
        assert_eq!((reply.status, reply.field("content-type")), (200, Some("application/json")));
        assert!(reply.field("mcp-session-id").is_none());
        // Without the id, with another one, and after the end.
        let x = web.post(&[], &legacy_request(3, "ping", ""));
        assert_eq!(web.response(x).status, 400);
        for other in ["x".to_owned(), "A".repeat(28), id[1..].to_owned(), format!("{id}A")] {
            let x = web.post(&[("Mcp-Session-Id", &other)], &legacy_request(3, "ping", ""));
            assert_eq!(web.response(x).status, 404, "{other}");
        }
        let x = web.send_request("DELETE", "/mcp", &[named], "");
        assert_eq!(web.response(x).status, 204);
        assert!(matches!(web.poll_event(), Some(Event::Closed { .. })));
        for (method, body) in
            [("POST", legacy_request(3, "ping", "")), ("GET", String::new()), ("DELETE", String::new())]
        {
            let x = web.send_request(method, "/mcp", &[named], &body);
            assert_eq!(web.response(x).status, 404, "{method}");
        }
        assert_eq!((web.server.session_count(), web.server.exchange_count()), (0, 0));
    }
}

// covers: HTTP-077, VER-038, VER-040 (2 and 4)
#[test]
fn invalid_version_header_is_refused() {
    for (version, header, status) in [
        ("2025-11-25", "2025-11-25", 200),
        ("2025-11-25", "", 200),
        ("2025-11-25", "2025-06-18", 200),
        ("2025-11-25", "1999-01-01", 400),
        ("2025-06-18", "nonsense", 400),
        // Sessions that are older than the field ignore which revision it names.
        ("2025-03-26", "1999-01-01", 200),
        ("2025-03-26", "2025-11-25", 200),
        ("2025-03-26", "nonsense", 400),
        ("2025-03-26", "2025-13-45", 400),
        ("2024-11-05", "2025-6-18", 400),
        ("2025-03-26", "2025-06-18, 2025-03-26", 400),
    ] {
        let mut web = harness(Config::new());
        let id = open_session(&mut web, version);
        let x = web.post(
            &[("Mcp-Session-Id", &id), ("MCP-Protocol-Version", header)],
            &legacy_request(2, "ping", ""),
        );
        assert_eq!(web.response(x).status, status, "{version} {header:?}");
        // GET and DELETE follow the same rule.
        for method in ["GET", "DELETE"] {
            let fields = [("Mcp-Session-Id", &*id), ("MCP-Protocol-Version", header)];
            let x = web.send_request(method, "/mcp", &fields, "");
            assert_eq!(web.response(x).status == 400, status == 400, "{method} {version} {header:?}");
        }
        assert_eq!(web.server.session_count(), usize::from(status == 400));
    }
    // On `initialize` the revision that it names is ignored (DEC-026): what the message asks for is negotiated.
    let mut web = harness(Config::new());
    for (header, status) in [
        ("2025-11-25", 200),
        ("2025-06-18", 200),
        ("1999-01-01", 200),
        ("2099-12-31", 200),
        ("2024-02-29", 200),
        ("nonsense", 400),
        ("2025-13-45", 400),
        ("2025-00-10", 400),
        ("2025-11-00", 400),
        ("2025-06-31", 400),
        ("20251125", 400),
        ("2025/11/25", 400),
        ("DRAFT-2025", 400),
        ("2025-11-2\u{665}", 400),
    ] {
        let x = web.post(
            &[("MCP-Protocol-Version", header), ("Mcp-Method", "initialize")],
            &initialize_request("2025-11-25"),
        );
        assert_eq!(web.response(x).status, status, "{header}");
    }
    // An unknown date in the message is negotiated.
    let x = web.post(&[("MCP-Protocol-Version", "2099-12-31")], &initialize_request("2099-12-31"));
    assert_eq!(web.response(x).message()["result"]["protocolVersion"], "2025-11-25");
}

// covers: HTTP-020, HTTP-023, HTTP-024
#[test]
fn legacy_rpc_errors_have_status_200_and_malformed_ones_400() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-06-18");
    let named = ("Mcp-Session-Id", &*id);
    for (fields, body, status, code) in [
        (vec![named], legacy_request(2, "no/such", ""), 200, -32601),
        (vec![named], "{".into(), 400, -32700),
        (vec![named], "{\"id\":1}".into(), 400, -32600),
        (vec![named], format!("[{}]", legacy_request(2, "ping", "")), 400, -32600),
        (
            vec![named, ("Mcp-Method", "tools/list")],
            legacy_request(2, "tools/call", ECHO_PARAMS),
            400,
            -32600,
        ),
        (vec![named, ("Mcp-Name", "other")], legacy_request(2, "tools/call", ECHO_PARAMS), 400, -32600),
    ] {
        let x = web.post(&fields, &body);
        let reply = web.response(x);
        assert_eq!(reply.status, status, "{body}: {reply:?}");
        if code != 0 {
            assert_eq!(reply.message()["error"]["code"], code, "{body}");
        }
    }
    let x = web.post(
        &[named, ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")],
        &legacy_request(2, "tools/call", ECHO_PARAMS),
    );
    while let Some(event) = web.poll_event() {
        if let Event::Call(call) = event {
            answer_call(&mut web, &call);
        }
    }
    assert_eq!(web.response(x).status, 200);
}

// covers: HTTP-019, HTTP-020, HTTP-071, VER-035 (the other 404)
#[test]
fn refused_notifications_and_responses_get_an_error_without_id() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-06-18");
    let cancelled =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}";
    let response = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}";
    for body in [cancelled, response] {
        for (session, version, status) in
            [("", "", 400), ("other", "", 404), (&*id, "1999-01-01", 400), (&*id, "2025-06-18", 202)]
        {
            let x = web.post(&[("Mcp-Session-Id", session), ("MCP-Protocol-Version", version)], body);
            let reply = web.response(x);
            assert_eq!(reply.status, status, "{body} {session:?} {version:?}");
            if status == 202 {
                assert!(reply.body.is_empty());
                continue;
            }
            let message = reply.message();
            assert!(message.get("id").is_none() && message["error"]["message"].is_string(), "{message}");
            // A client must not read this 404 as an unknown method.
            assert_ne!(message["error"]["code"], -32601, "{message}");
        }
    }
}

// covers: SEC-018, LOG-016
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn log_messages_without_get_stream_are_bounded() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    let text = "x".repeat(1_000);
    let log = |web: &mut mcp_tests::harness::HttpServerHarness, call: &Call| {
        let now = web.now;
        web.server.engine().log_session(now, call.channel(), &LoggingLevel::Info, None, &text).expect("open")
    };
    for _ in 0..2_000 {
        log(&mut web, &call);
        log(&mut web, &call);
        web.advance(ms(100));
    }
    answer_call(&mut web, &call);
    web.advance(secs(5));
    // The queue causes no wake-ups either.
    let until = web.now + secs(100);
    let mut wake_count = 0;
    while let Some(at) = web.server.poll_timeout().filter(|at| *at <= until) {
        (web.now, wake_count) = (at, wake_count + 1);
        web.server.handle_timeout(at);
    }
    assert!(wake_count < 10, "woke up {wake_count} times");
    let get = web.send_request("GET", "/mcp", &[named], "");
    let queued = web.response(get).messages().len();
    assert!((1..=4).contains(&queued), "{queued}");
    // From here on the GET stream is open.
    web.post(&[named], &legacy_request(3, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    for _ in 0..20 {
        log(&mut web, &call);
        web.advance(ms(100));
    }
    assert_eq!(web.response(get).messages().len(), queued + 20);
}

// covers: HTTP-050, HTTP-051, HTTP-054, HTTP-055, HTTP-056, HTTP-057, HTTP-060, HTTP-061
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn messages_go_out_on_the_stream_they_belong_to() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-06-18");
    let named = ("Mcp-Session-Id", &*id);
    let get = web.send_request("GET", "/mcp", &[named], "");
    let token = |id: u32| {
        legacy_request(id, "tools/call", &format!("{ECHO_PARAMS},\"_meta\":{{\"progressToken\":{id}}}"))
    };
    let (a, b) = (web.post(&[named], &token(2)), web.post(&[named], &token(3)));
    let (call_a, call_b) = (web.expect_call(), web.expect_call());
    let now = web.now;
    web.server.engine().progress(now, call_b.id(), Progress::new(1.0)).expect("open");
    web.server.engine().log(now, call_a.id(), &LoggingLevel::Info, None, "of a").expect("open");
    assert_eq!(web.server.engine().publish(now, &Change::Tools), 1);
    web.server
        .engine()
        .log_session(now, call_a.channel(), &LoggingLevel::Info, None, "of none")
        .expect("sent");
    web.transmit_all();
    answer_call(&mut web, &call_a);
    answer_call(&mut web, &call_b);
    let methods = |x| {
        let messages = web.response(x).messages();
        messages
            .iter()
            .map(|m| m["method"].as_str().map_or_else(|| m["id"].to_string(), str::to_owned))
            .collect::<Vec<_>>()
    };
    assert_eq!(methods(a)[0], "notifications/message");
    assert_eq!(methods(a).last().map(String::as_str), Some("2"));
    assert_eq!(methods(b), ["notifications/progress", "3"]);
    assert_eq!(methods(get), ["notifications/tools/list_changed", "notifications/message"]);
    assert!(web.response(a).is_complete && web.response(b).is_complete && !web.response(get).is_complete);
}

// covers: ELIC-025
#[test]
fn elicitation_complete_goes_out_with_its_call() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    let now = web.now;
    assert!(web.server.engine().notify_elicitation_complete(now, call.channel(), "page"));
    answer_call(&mut web, &call);
    let messages = web.response(x).messages();
    assert_eq!(messages[0]["method"], "notifications/elicitation/complete");
    assert_eq!((&messages[0]["params"]["elicitationId"], messages.len()), (&"page".into(), 2));
    // The complete notification cannot be sent after its call.
    assert!(!web.server.engine().notify_elicitation_complete(now, call.channel(), "page"));
}

// covers: HTTP-018, HTTP-057
#[test]
fn input_requests_go_out_with_their_call_and_responses_are_posted() {
    for version in ["2025-06-18", "2025-11-25"] {
        let mut web = harness(Config::new());
        let id = open_session(&mut web, version);
        let named = ("Mcp-Session-Id", &*id);
        let x = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
        let call = web.expect_call();
        let mut input = InputRequired::new();
        let form = ElicitParams::form("who?", ElicitSchema::default());
        input.request_input(&call, "who", InputRequest::Elicit(form)).expect_err("not yet");
        let now = web.now;
        web.server.engine().require_input(now, &call, &input).expect("the client can answer");
        web.transmit_all();
        let question = web.response(x).messages().pop().expect("a request");
        assert_eq!(question["method"], "elicitation/create");
        let response = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"action\":\"accept\",\"content\":{{}}}}}}",
            question["id"]
        );
        // A response in another session is ignored.
        let other = open_session(&mut web, version);
        let y = web.post(&[("Mcp-Session-Id", &other)], &response);
        assert_eq!(web.response(y).status, 202);
        while let Some(event) = web.poll_event() {
            assert!(matches!(event, Event::Diagnostic { .. }), "{event:?}");
        }
        let y = web.post(&[named], &response);
        assert_eq!(web.response(y).status, 202);
        let again = web.expect_call();
        assert_eq!(again.attempt(), 1);
        answer_call(&mut web, &again);
        assert!(web.response(x).is_complete);
        assert_eq!(web.response(x).messages().last().map(|m| m["id"].clone()), Some(2.into()));
    }
}

// covers: HTTP-062, CANC-021
#[test]
fn disconnect_does_not_cancel_a_legacy_call() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    web.close_exchange(x);
    assert!(web.poll_event().is_none());
    answer_call(&mut web, &call);
    assert_eq!(web.server.exchange_count(), 0, "no client can fetch the answer, so nothing is kept");
    let x = web.post(&[named], &legacy_request(3, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    let cancel = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":3}}";
    let y = web.post(&[named], cancel);
    assert_eq!(web.response(y).status, 202);
    match web.poll_event() {
        Some(Event::Cancelled { call: gone, .. }) => assert_eq!(gone, call.id()),
        other => panic!("{other:?}"),
    }
    assert!(
        web.response(x).is_complete && web.response(x).messages().is_empty(),
        "it ends without a message"
    );
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: BASE-005 (receiver side)
#[test]
fn duplicate_request_id_is_refused_and_first_call_continues() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let first = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    let second = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
    assert_eq!(web.response(second).status, 400);
    assert!(matches!(web.poll_event(), Some(Event::Diagnostic { .. })));
    answer_call(&mut web, &call);
    assert!(web.response(first).is_complete);
    // In another session the id is free.
    let other = open_session(&mut web, "2025-11-25");
    let x = web.post(&[("Mcp-Session-Id", &other)], &legacy_request(2, "ping", ""));
    assert_eq!(web.response(x).status, 200);
}

// covers: HTTP-049, HTTP-053, HTTP-055, HTTP-056
#[test]
fn change_notifications_wait_for_the_get_stream() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-06-18");
    let session = ("Mcp-Session-Id", &*id);
    assert_eq!(web.server.engine().publish(web.now, &Change::Tools), 1);
    let get = web.send_request("GET", "/mcp", &[session], "");
    assert_eq!(web.response(get).messages().len(), 1);
    // From the second GET on the messages go there: the first may be on a connection that died unnoticed.
    let next = web.send_request("GET", "/mcp", &[session], "");
    assert!(!web.response(get).is_complete && !web.response(next).is_complete);
    assert_eq!(web.server.engine().publish(web.now, &Change::Tools), 1);
    web.transmit_all();
    assert_eq!((web.response(get).messages().len(), web.response(next).messages().len()), (1, 1));
    web.close_exchange(next);
    web.close_exchange(get);
    assert!(web.poll_event().is_none(), "the session stays open");
    assert_eq!(web.server.engine().publish(web.now, &Change::Tools), 1);
    let last = web.send_request("GET", "/mcp", &[session], "");
    assert_eq!(web.response(last).messages().len(), 1);
}

// covers: BATCH-003, BATCH-008, BATCH-010
#[test]
fn batch_without_a_message_is_400_and_members_with_an_id_get_their_error() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-03-26");
    let named = ("Mcp-Session-Id", &*id);
    for batch in ["[1]", "[1,null,\"x\"]", "[{}]", "[[]]", "[{\"jsonrpc\":\"2.0\"}]"] {
        let x = web.post(&[named], batch);
        let reply = web.response(x);
        assert_eq!((reply.status, &reply.message()["error"]["code"]), (400, &(-32600).into()), "{batch}");
        assert!(reply.message().get("id").is_none(), "{batch}");
    }
    let note = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}";
    let x = web.post(&[named], &format!("[1,{note}]"));
    assert_eq!(web.response(x).status, 202, "the notification is accepted");
    let x = web.post(&[named], "[1,{\"jsonrpc\":\"2.0\",\"id\":7}]");
    assert_eq!((&web.response(x).message()[0]["id"], web.response(x).status), (&7.into(), 200));
    // A handshake, in the session and before it.
    for fields in [&[named][..], &[]] {
        let x = web.post(
            fields,
            &format!("[{},{{\"jsonrpc\":\"2.0\",\"id\":7}}]", initialize_request("2025-03-26")),
        );
        let reply = web.response(x);
        assert_eq!(reply.status, if fields.is_empty() { 400 } else { 200 });
        let message = reply.message();
        assert_eq!(message.as_array().map(Vec::len), Some(2), "{message}");
        for member in message.as_array().expect("an array") {
            assert_eq!(member["error"]["code"], -32600, "{message}");
        }
        assert!(reply.field("mcp-session-id").is_none());
    }
    let x = web.post(&[], &format!("[{}]", legacy_request(2, "ping", "")));
    assert_eq!(web.response(x).status, 400, "a batch belongs into a session");
}

// covers: BATCH-001, BATCH-003, BATCH-006, BATCH-007, BATCH-010, BATCH-011
#[test]
fn batch_is_answered_as_one_array() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-03-26");
    let named = ("Mcp-Session-Id", &*id);
    let x =
        web.post(&[named], &format!("[{},{}]", legacy_request(2, "ping", ""), legacy_request(3, "ping", "")));
    let reply = web.response(x);
    assert_eq!((reply.status, reply.field("content-type")), (200, Some("application/json")));
    assert_eq!(reply.message().as_array().map(Vec::len), Some(2));
    let notification =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":9}}";
    let x = web.post(&[named], &format!("[{notification},{notification}]"));
    assert_eq!((web.response(x).status, &*web.response(x).body), (202, ""));
    let x = web.post(&[named], "[]");
    assert_eq!(web.response(x).status, 400);
    while let Some(event) = web.poll_event() {
        assert!(matches!(event, Event::Diagnostic { .. }), "{event:?}");
    }
    let token = format!("{ECHO_PARAMS},\"_meta\":{{\"progressToken\":1}}");
    let x = web.post(
        &[named],
        &format!(
            "[{},{}]",
            legacy_request(4, "tools/call", &token),
            legacy_request(5, "tools/call", ECHO_PARAMS)
        ),
    );
    let (a, b) = (web.expect_call(), web.expect_call());
    web.server.engine().progress(web.now, a.id(), Progress::new(1.0)).expect("open");
    web.transmit_all();
    answer_call(&mut web, &b);
    assert!(!web.response(x).is_complete);
    answer_call(&mut web, &a);
    let messages = web.response(x).messages();
    assert!(
        web.response(x).is_complete && messages.len() == 2 && messages[1].as_array().map(Vec::len) == Some(2)
    );
    let x = web.post(&[], &format!("[{}]", initialize_request("2025-03-26")));
    assert_eq!(web.response(x).status, 400);
}

// covers: HTTP-064, HTTP-074, HTTP-078, VER-037, VER-036 (the first half)
#[test]
fn stateless_server_opens_no_sessions() {
    let mut web = harness(Config::new().sessions(false));
    let x = web.post(&[], &initialize_request("2025-06-18"));
    assert_eq!(web.response(x).message()["result"]["protocolVersion"], "2025-06-18");
    assert!(web.response(x).field("mcp-session-id").is_none());
    let x = web.post(&[], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert_eq!(web.response(x).status, 202);
    for (header, version) in [("", Version::V2025_03_26), ("2025-11-25", Version::V2025_11_25)] {
        let x = web.post(
            &[("MCP-Protocol-Version", header), ("Mcp-Session-Id", "stale")],
            &legacy_request(2, "tools/call", ECHO_PARAMS),
        );
        let call = loop {
            match web.poll_event() {
                Some(Event::Call(call)) => break call,
                Some(_) => {}
                None => panic!("no call"),
            }
        };
        assert_eq!(call.version(), version);
        answer_call(&mut web, &call);
        assert_eq!(web.response(x).status, 200);
    }
    let x = web.post(&[("MCP-Protocol-Version", "1999-01-01")], &legacy_request(2, "ping", ""));
    assert_eq!(web.response(x).status, 400);
    for method in ["GET", "DELETE"] {
        let x = web.send_request(method, "/mcp", &[], "");
        assert_eq!((web.response(x).status, web.response(x).field("allow")), (405, Some("POST")));
    }
    assert_eq!((web.server.session_count(), web.server.exchange_count()), (0, 0));
}

// covers: HTTP-070
#[test]
fn idle_sessions_expire() {
    let mut web = harness(Config::new().session_idle_timeout(secs(100)));
    let (idle, busy, open) = (
        open_session(&mut web, "2025-11-25"),
        open_session(&mut web, "2025-11-25"),
        open_session(&mut web, "2025-11-25"),
    );
    let get = web.send_request("GET", "/mcp", &[("Mcp-Session-Id", &open)], "");
    for _ in 0..4 {
        web.advance(secs(50));
        let x = web.post(&[("Mcp-Session-Id", &busy)], &legacy_request(2, "ping", ""));
        assert_eq!(web.response(x).status, 200);
    }
    let x = web.post(&[("Mcp-Session-Id", &idle)], &legacy_request(2, "ping", ""));
    assert_eq!(web.response(x).status, 404);
    let x = web.post(&[("Mcp-Session-Id", &open)], &legacy_request(2, "ping", ""));
    assert_eq!(web.response(x).status, 200, "its GET stream is open");
    web.close_exchange(get);
    web.advance(secs(200));
    assert_eq!((web.server.session_count(), web.server.exchange_count()), (0, 0));
    assert_eq!(web.server.poll_timeout(), None);
}

// covers: SEC-018
#[test]
fn unfinished_handshakes_are_evicted_first() {
    let mut web = harness(Config::new().max_sessions(3, 3));
    let open = open_session(&mut web, "2025-11-25");
    let unfinished: Vec<String> = (0..4)
        .map(|_| {
            let x = web.post(&[], &initialize_request("2025-11-25"));
            web.response(x).field("mcp-session-id").expect("a session").to_owned()
        })
        .collect();
    assert_eq!(web.server.session_count(), 3);
    for (id, status) in [
        (&open, 200),
        (&unfinished[0], 404),
        (&unfinished[1], 404),
        (&unfinished[2], 200),
        (&unfinished[3], 200),
    ] {
        let x = web.post(&[("Mcp-Session-Id", id)], &legacy_request(2, "ping", ""));
        assert_eq!(web.response(x).status, status);
    }
    for id in &unfinished[2..] {
        web.post(&[("Mcp-Session-Id", id)], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    }
    let x = web.post(&[], &initialize_request("2025-11-25"));
    assert_eq!(web.response(x).status, 503, "all sessions are in use");
}

#[test]
fn session_is_limited_to_max_streams_per_session() {
    let mut web = harness(Config::new().max_streams_per_session(2));
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    for n in 2..4 {
        web.post(&[named], &legacy_request(n, "tools/call", ECHO_PARAMS));
        web.expect_call();
    }
    let x = web.post(&[named], &legacy_request(4, "tools/call", ECHO_PARAMS));
    assert_eq!(web.response(x).status, 503);
    let x = web.post(
        &[named],
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}}",
    );
    assert_eq!(web.response(x).status, 202, "a cancellation is accepted at the limit");
    assert!(matches!(web.poll_event(), Some(Event::Cancelled { .. })));
    web.post(&[named], &legacy_request(5, "tools/call", ECHO_PARAMS));
    web.expect_call();
}

// covers: HTTP-070, SSE-027
#[test]
fn delete_ends_streams_and_calls_of_the_session() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let get = web.send_request("GET", "/mcp", &[named], "");
    let x = web.post(&[named], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    web.send_request("DELETE", "/mcp", &[named], "");
    assert!(web.response(get).is_complete && web.response(x).is_complete);
    assert!(matches!(web.poll_event(), Some(Event::Cancelled { .. })));
    assert!(matches!(web.poll_event(), Some(Event::Closed { .. })));
    assert!(web.server.engine().fail(web.now, call.id(), &RpcError::internal("late")).is_err());
    assert_eq!((web.server.session_count(), web.server.exchange_count()), (0, 0));
}

// covers: VER-040 (1)
#[test]
fn modern_request_ignores_the_session_id() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let fields: Vec<_> = super::CALL_FIELDS.into_iter().chain([("Mcp-Session-Id", &*id)]).collect();
    let x = web.post(&fields, &super::modern_request(1, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    assert_eq!(call.version(), Version::V2026_07_28);
    answer_call(&mut web, &call);
    assert_eq!(web.response(x).message()["result"]["resultType"], "complete");
    let mut legacy_only = harness_with_versions(VersionSet::LEGACY, Config::new());
    let x = legacy_only.post(&super::CALL_FIELDS, &super::modern_request(1, "tools/call", ECHO_PARAMS));
    assert_eq!(
        legacy_only.response(x).status,
        400,
        "a legacy server treats it as a request without a session"
    );
}

// covers: BATCH-003, HTTP-078
#[test]
fn batch_without_a_session_has_the_revision_of_its_field() {
    let mut web = harness(Config::new().sessions(false));
    let batch = format!("[{}]", legacy_request(2, "ping", ""));
    for (version, status) in [("", 200), ("2025-03-26", 200), ("2025-06-18", 400), ("2025-11-25", 400)] {
        let x = web.post(&[("MCP-Protocol-Version", version)], &batch);
        assert_eq!(web.response(x).status, status, "{version:?}");
    }
    // Where there are no batches at all, that is the fault to name.
    for (versions, session, is_of_session) in [
        (VersionSet::ALL, "", true),
        (VersionSet::only(Version::V2025_11_25), "", false),
        (VersionSet::only(Version::V2025_11_25), "AAAAAAAAAAAAAAAAAAAAAAAAAAAA", false),
    ] {
        let mut web = harness_with_versions(versions, Config::new());
        let x = web.post(&[("Mcp-Session-Id", session)], &batch);
        let message = web.response(x).message()["error"]["message"].to_string();
        assert_eq!(
            (web.response(x).status, message.contains("belongs into a session")),
            (400, is_of_session),
            "{message}"
        );
    }
    let mut web = harness(Config::new());
    let x = web.post(&[("Mcp-Session-Id", "AAAAAAAAAAAAAAAAAAAAAAAAAAAA")], &batch);
    assert_eq!(web.response(x).status, 404, "batches are served, and the session is unknown");
}
