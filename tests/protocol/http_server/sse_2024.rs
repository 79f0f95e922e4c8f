//! HTTP+SSE of 2024-11-05, beside the MCP endpoint.

use mcp_proto::http::server::Config;
use mcp_proto::server::Event;
use mcp_proto::{Change, Progress};
use serde_json::Value;

use super::{ECHO_PARAMS, answer_call, harness, initialize_request, legacy_request};

const PATHS: (&str, &str) = ("/sse", "/messages");

// covers: HTTPSSE-001, HTTPSSE-002
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn http_sse_stream_needs_no_accept_field() {
    let mut web = harness(Config::new().http_sse(PATHS.0, PATHS.1));
    for (accept, status) in [("", 200), ("*/*", 200), ("text/event-stream", 200), ("text/html", 406)] {
        let stream = web.send_request("GET", "/sse", &[("Accept", accept)], "");
        assert_eq!(web.response(stream).status, status, "{accept:?}");
    }
    // Streamable HTTP asks for the field (HTTP-048).
    let id = super::open_session(&mut web, "2025-11-25");
    let stream = web.send_request("GET", "/mcp", &[("Mcp-Session-Id", &id), ("Accept", "")], "");
    assert_eq!(web.response(stream).status, 406);
}

// covers: HTTPSSE-001, HTTPSSE-002, HTTPSSE-003, HTTPSSE-004, HTTPSSE-007, HTTPSSE-009, HTTPSSE-010, HTTPSSE-012, HTTP-083
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn http_sse_answers_arrive_on_the_get_stream() {
    let mut web = harness(Config::new().http_sse(PATHS.0, PATHS.1));
    let stream = web.send_request("GET", "/sse", &[], "");
    let first = web.response(stream).events()[0].clone();
    assert_eq!(first.event, "endpoint");
    let target = first.data;
    assert!(target.starts_with("/messages?sessionId="));
    let stream_messages = |web: &mcp_tests::harness::HttpServerHarness| -> Vec<Value> {
        let events = web.response(stream).events();
        events[1..].iter().map(|e| serde_json::from_str(&e.data).expect("JSON")).collect()
    };
    let x = web.send_request("POST", &target, &[("Accept", "")], &initialize_request("2024-11-05"));
    assert_eq!((web.response(x).status, &*web.response(x).body), (202, ""));
    assert_eq!(stream_messages(&web)[0]["result"]["protocolVersion"], "2024-11-05");
    web.send_request("POST", &target, &[], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert!(matches!(web.poll_event(), Some(Event::SessionOpened { .. })));
    web.send_request(
        "POST",
        &target,
        &[],
        &legacy_request(2, "tools/call", &format!("{ECHO_PARAMS},\"_meta\":{{\"progressToken\":1}}")),
    );
    let call = web.expect_call();
    web.server.engine().progress(web.now, call.id(), Progress::new(1.0)).expect("open");
    web.server.engine().publish(web.now, &Change::Tools);
    web.transmit_all();
    answer_call(&mut web, &call);
    let methods: Vec<_> =
        stream_messages(&web).iter().map(|m| m["method"].as_str().unwrap_or("-").to_owned()).collect();
    assert_eq!(methods, ["-", "notifications/progress", "notifications/tools/list_changed", "-"]);
    // A message with line breaks is one message.
    web.send_request("POST", &target, &[], "{\n\"jsonrpc\":\"2.0\",\r\n\"id\":3,\n\"method\":\"ping\"}\n");
    assert_eq!(stream_messages(&web).len(), 5);
    for wrong in ["/messages", "/messages?sessionId=x", "/messages?sessionId="] {
        let x = web.send_request("POST", wrong, &[], &legacy_request(4, "ping", ""));
        assert_eq!(web.response(x).status, 404, "{wrong}");
    }
    // Neither transport accepts sessions of the other.
    let id = target.split_once('=').expect("an id").1.to_owned();
    for method in ["POST", "GET", "DELETE"] {
        let x = web.send_request(method, "/mcp", &[("Mcp-Session-Id", &id)], &legacy_request(5, "ping", ""));
        assert_eq!(web.response(x).status, 404, "{method}");
    }
    let other = super::open_session(&mut web, "2025-11-25");
    let x = web.send_request(
        "POST",
        &format!("/messages?sessionId={other}"),
        &[],
        &legacy_request(5, "ping", ""),
    );
    assert_eq!(web.response(x).status, 404);
    web.send_request("DELETE", "/mcp", &[("Mcp-Session-Id", &other)], "");
    assert!(matches!(web.poll_event(), Some(Event::Closed { .. })));
    web.close_exchange(stream);
    assert!(matches!(web.poll_event(), Some(Event::Closed { .. })));
    let x = web.send_request("POST", &target, &[], &legacy_request(4, "ping", ""));
    assert_eq!(web.response(x).status, 404);
    assert_eq!((web.server.session_count(), web.server.exchange_count()), (0, 0));
}

// covers: HTTPSSE-003, CANC-001
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn http_sse_accepts_cancellation_at_the_call_limit() {
    let limits = crate::protocol::common::limits(|limits| limits.max_live_calls = 1);
    let config = crate::protocol::common::server(mcp_proto::VersionSet::ALL).limits(limits);
    let mut web =
        mcp_tests::harness::HttpServerHarness::new(config, Config::new().http_sse(PATHS.0, PATHS.1));
    let stream = web.send_request("GET", "/sse", &[], "");
    let target = web.response(stream).events()[0].data.clone();
    web.send_request("POST", &target, &[], &initialize_request("2024-11-05"));
    web.send_request("POST", &target, &[], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert!(matches!(web.poll_event(), Some(Event::SessionOpened { .. })));
    web.send_request("POST", &target, &[], &legacy_request(2, "tools/call", ECHO_PARAMS));
    web.expect_call();
    let x = web.send_request("POST", &target, &[], &legacy_request(3, "tools/call", ECHO_PARAMS));
    assert_eq!(web.response(x).status, 503);
    let cancel = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}}";
    let x = web.send_request("POST", &target, &[], cancel);
    assert_eq!(web.response(x).status, 202);
    assert!(matches!(web.poll_event(), Some(Event::Cancelled { .. })));
}

// covers: HTTPSSE-003
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn http_sse_refuses_every_message_while_its_stream_is_not_read() {
    let limits = crate::protocol::common::limits(|limits| limits.outbox_high_water = 50);
    let config = super::with_capabilities(crate::protocol::common::server(mcp_proto::VersionSet::ALL));
    let http = Config::new().http_sse(PATHS.0, PATHS.1);
    let mut web = mcp_tests::harness::HttpServerHarness::new(config.limits(limits), http);
    let stream = web.send_request("GET", "/sse", &[], "");
    let target = web.response(stream).events()[0].data.clone();
    web.send_request("POST", &target, &[], &initialize_request("2024-11-05"));
    web.send_request("POST", &target, &[], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert!(matches!(web.poll_event(), Some(Event::SessionOpened { .. })));
    let notification = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}";
    web.auto_transmits = false;
    web.server.engine().publish(web.now, &Change::Tools);
    let refused = [notification, &legacy_request(2, "ping", "")]
        .map(|message| web.send_request("POST", &target, &[], message));
    web.auto_transmits = true;
    web.transmit_all();
    assert_eq!(refused.map(|x| web.response(x).status), [503, 503]);
    assert!(web.poll_event().is_none());
    let x = web.send_request("POST", &target, &[], notification);
    assert_eq!(web.response(x).status, 202);
    assert!(matches!(web.poll_event(), Some(Event::Notification(_))));
}

// covers: HTTPSSE-003, HTTPSSE-007
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn http_sse_refuses_messages_that_cannot_be_answered_on_the_stream() {
    let mut web = harness(Config::new().http_sse(PATHS.0, PATHS.1));
    let stream = web.send_request("GET", "/sse", &[], "");
    let target = web.response(stream).events()[0].data.clone();
    web.send_request("POST", &target, &[], &initialize_request("2024-11-05"));
    web.send_request("POST", &target, &[], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert!(matches!(web.poll_event(), Some(Event::SessionOpened { .. })));
    let event_count = web.response(stream).events().len();
    let no_id = "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}";
    let batch = format!("[{}]", legacy_request(1, "ping", ""));
    for (body, code) in [
        (&*batch, -32600),
        ("[]", -32600),
        ("{", -32700),
        ("hello", -32700),
        ("5", -32600),
        ("{}", -32600),
        (no_id, -32600),
    ] {
        let x = web.send_request("POST", &target, &[], body);
        let error: Value = serde_json::from_str(&web.response(x).body).expect("JSON");
        assert_eq!((web.response(x).status, &error["error"]["code"]), (400, &Value::from(code)), "{body}");
        assert!(matches!(web.poll_event(), Some(Event::Diagnostic { .. })), "{body}");
    }
    web.send_request("POST", &target, &[], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    // The answer to the second request would be taken for one to the first.
    let x = web.send_request("POST", &target, &[], &legacy_request(2, "ping", ""));
    assert_eq!(web.response(x).status, 400);
    assert_eq!(web.response(stream).events().len(), event_count);
    // An invalid request with an id is answered on the stream, and the session stays open.
    let x = web.send_request("POST", &target, &[], "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":5}");
    assert_eq!(web.response(x).status, 202);
    answer_call(&mut web, &call);
    assert_eq!(web.response(stream).events().len(), event_count + 2);
}

// covers: HTTPSSE-005, HTTPSSE-011, HTTP-003
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn http_sse_is_off_by_default_and_checks_origin_and_method() {
    let mut off = harness(Config::new());
    for (method, target) in [("GET", "/sse"), ("POST", "/messages?sessionId=x")] {
        let x = off.send_request(method, target, &[], "");
        assert_eq!(off.response(x).status, 404);
    }
    let mut on = harness(Config::new().http_sse(PATHS.0, PATHS.1));
    for (method, target, status) in
        [("POST", "/sse", 405), ("GET", "/messages", 405), ("DELETE", "/sse", 405)]
    {
        let x = on.send_request(method, target, &[], "");
        assert_eq!(on.response(x).status, status);
    }
    let x = on.send_request("GET", "/sse", &[("Origin", "https://evil.example")], "");
    assert_eq!(on.response(x).status, 403);
}

// covers: HTTPSSE-003, BATCH-001
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn batch_and_response_are_taken_over_http_sse() {
    let mut web = harness(Config::new().http_sse(PATHS.0, PATHS.1));
    let stream = web.send_request("GET", "/sse", &[], "");
    let target = web.response(stream).events()[0].data.clone();
    web.send_request("POST", &target, &[], &initialize_request("2025-03-26"));
    web.send_request("POST", &target, &[], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    while web.poll_event().is_some() {}
    let count = web.response(stream).events().len();
    let x = web.send_request("POST", &target, &[], &format!(" [{}]", legacy_request(2, "ping", "")));
    assert_eq!((web.response(x).status, web.response(stream).events().len()), (202, count + 1));
    // A response has the id of a request of the server, not of the client.
    web.send_request("POST", &target, &[], &legacy_request(3, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    let x = web.send_request("POST", &target, &[], "{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{}}");
    assert_eq!(web.response(x).status, 202);
    answer_call(&mut web, &call);
    assert_eq!(web.response(stream).events().len(), count + 2);
    while web.poll_event().is_some() {}
    // A session of the endpoint is none of this transport, whether it has a stream or not.
    let other = super::open_session(&mut web, "2025-11-25");
    let stream = web.send_request("GET", "/mcp", &[("Mcp-Session-Id", &other)], "");
    let target = format!("/messages?sessionId={other}");
    let x = web.send_request("POST", &target, &[], &legacy_request(4, "ping", ""));
    assert_eq!((web.response(x).status, web.response(stream).is_complete), (404, false));
}

// covers: HTTPSSE-002
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn session_in_the_path_of_messages_names_its_shard() {
    let shard = |n: u8| {
        let mut web = harness(Config::new().http_sse(PATHS.0, PATHS.1));
        web.server.set_shard(n, 2);
        web
    };
    let [mut first, second] = [0, 1].map(shard);
    let stream = first.send_request("GET", "/sse", &[], "");
    let target = first.response(stream).events()[0].data.clone();
    let fields = [("host", &b"localhost"[..])];
    let other_shard = |web: &mcp_tests::harness::HttpServerHarness, target: &str| {
        web.server.other_shard(&mcp_proto::head::RequestHead { method: "POST", target, fields: &fields })
    };
    assert_eq!((other_shard(&first, &target), other_shard(&second, &target)), (None, Some(0)));
    assert_eq!(
        other_shard(&second, &target.replace("/messages", "/mcp")),
        None,
        "the endpoint has a field for it"
    );
}
