//! HTTP+SSE of 2024-11-05, beside the endpoint.

use mcp_proto::http::server::Config;
use mcp_proto::server::Event;
use mcp_proto::{Change, Progress};
use serde_json::Value;

use super::{ECHO, answer, initialize, legacy, web};

const PATHS: (&str, &str) = ("/sse", "/messages");

// covers: HTTPSSE-001, HTTPSSE-002, HTTPSSE-003, HTTPSSE-004, HTTPSSE-007, HTTPSSE-009, HTTPSSE-010, HTTPSSE-012, HTTP-083
#[test]
fn all_answers_come_on_the_stream() {
    let mut web = web(Config::new().http_sse(PATHS.0, PATHS.1));
    let stream = web.send("GET", "/sse", &[], "");
    let first = web.reply(stream).events()[0].clone();
    assert_eq!(first.event, "endpoint");
    let target = first.data;
    assert!(target.starts_with("/messages?sessionId="));
    let said = |web: &mcp_tests::harness::Web| -> Vec<Value> {
        let events = web.reply(stream).events();
        events[1..].iter().map(|e| serde_json::from_str(&e.data).expect("JSON")).collect()
    };
    let x = web.send("POST", &target, &[("Accept", "")], &initialize("2024-11-05"));
    assert_eq!((web.reply(x).status, &*web.reply(x).body), (202, ""));
    assert_eq!(said(&web)[0]["result"]["protocolVersion"], "2024-11-05");
    web.send("POST", &target, &[], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert!(matches!(web.event(), Some(Event::SessionOpened { .. })));
    web.send(
        "POST",
        &target,
        &[],
        &legacy(2, "tools/call", &format!("{ECHO},\"_meta\":{{\"progressToken\":1}}")),
    );
    let call = web.call();
    web.server.engine().progress(web.now, call.id(), Progress::new(1.0)).expect("open");
    web.server.engine().publish(web.now, &Change::Tools);
    web.pull();
    answer(&mut web, &call);
    let methods: Vec<_> = said(&web).iter().map(|m| m["method"].as_str().unwrap_or("-").to_owned()).collect();
    assert_eq!(methods, ["-", "notifications/progress", "notifications/tools/list_changed", "-"]);
    // A message with line breaks is one message.
    web.send("POST", &target, &[], "{\n\"jsonrpc\":\"2.0\",\r\n\"id\":3,\n\"method\":\"ping\"}\n");
    assert_eq!(said(&web).len(), 5);
    for wrong in ["/messages", "/messages?sessionId=x", "/messages?sessionId="] {
        let x = web.send("POST", wrong, &[], &legacy(4, "ping", ""));
        assert_eq!(web.reply(x).status, 404, "{wrong}");
    }
    // Neither transport knows the other's sessions.
    let id = target.split_once('=').expect("an id").1.to_owned();
    for method in ["POST", "GET", "DELETE"] {
        let x = web.send(method, "/mcp", &[("Mcp-Session-Id", &id)], &legacy(5, "ping", ""));
        assert_eq!(web.reply(x).status, 404, "{method}");
    }
    let other = super::session(&mut web, "2025-11-25");
    let x = web.send("POST", &format!("/messages?sessionId={other}"), &[], &legacy(5, "ping", ""));
    assert_eq!(web.reply(x).status, 404);
    web.send("DELETE", "/mcp", &[("Mcp-Session-Id", &other)], "");
    assert!(matches!(web.event(), Some(Event::Closed { .. })));
    web.hang_up(stream);
    assert!(matches!(web.event(), Some(Event::Closed { .. })));
    let x = web.send("POST", &target, &[], &legacy(4, "ping", ""));
    assert_eq!(web.reply(x).status, 404);
    assert_eq!((web.server.sessions(), web.server.exchanges()), (0, 0));
}

// covers: HTTPSSE-003, CANC-001
#[test]
fn what_frees_a_place_is_taken_when_there_is_none() {
    let limits = crate::common::limits(|limits| limits.max_live_calls = 1);
    let config = crate::common::server(mcp_proto::VersionSet::ALL).limits(limits);
    let mut web = mcp_tests::harness::Web::new(config, Config::new().http_sse(PATHS.0, PATHS.1));
    let stream = web.send("GET", "/sse", &[], "");
    let target = web.reply(stream).events()[0].data.clone();
    web.send("POST", &target, &[], &initialize("2024-11-05"));
    web.send("POST", &target, &[], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert!(matches!(web.event(), Some(Event::SessionOpened { .. })));
    web.send("POST", &target, &[], &legacy(2, "tools/call", ECHO));
    web.call();
    let x = web.send("POST", &target, &[], &legacy(3, "tools/call", ECHO));
    assert_eq!(web.reply(x).status, 503);
    let cancel = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}}";
    let x = web.send("POST", &target, &[], cancel);
    assert_eq!(web.reply(x).status, 202);
    assert!(matches!(web.event(), Some(Event::Cancelled { .. })));
}

// covers: HTTPSSE-003, HTTPSSE-007
#[test]
fn what_the_stream_cannot_answer_is_refused() {
    let mut web = web(Config::new().http_sse(PATHS.0, PATHS.1));
    let stream = web.send("GET", "/sse", &[], "");
    let target = web.reply(stream).events()[0].data.clone();
    web.send("POST", &target, &[], &initialize("2024-11-05"));
    web.send("POST", &target, &[], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert!(matches!(web.event(), Some(Event::SessionOpened { .. })));
    let said = web.reply(stream).events().len();
    let no_id = "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}";
    let batch = format!("[{}]", legacy(1, "ping", ""));
    for (body, code) in [
        (&*batch, -32600),
        ("[]", -32600),
        ("{", -32700),
        ("hello", -32700),
        ("5", -32600),
        ("{}", -32600),
        (no_id, -32600),
    ] {
        let x = web.send("POST", &target, &[], body);
        let error: Value = serde_json::from_str(&web.reply(x).body).expect("JSON");
        assert_eq!((web.reply(x).status, &error["error"]["code"]), (400, &Value::from(code)), "{body}");
        assert!(matches!(web.event(), Some(Event::Diagnostic { .. })), "{body}");
    }
    web.send("POST", &target, &[], &legacy(2, "tools/call", ECHO));
    let call = web.call();
    // The answer to the second would be taken for one to the first.
    let x = web.send("POST", &target, &[], &legacy(2, "ping", ""));
    assert_eq!(web.reply(x).status, 400);
    assert_eq!(web.reply(stream).events().len(), said);
    // What names itself is answered on the stream, and the session goes on.
    let x = web.send("POST", &target, &[], "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":5}");
    assert_eq!(web.reply(x).status, 202);
    answer(&mut web, &call);
    assert_eq!(web.reply(stream).events().len(), said + 2);
}

// covers: HTTPSSE-005, HTTPSSE-011, HTTP-003
#[test]
fn it_is_off_unless_it_is_wanted_and_as_careful() {
    let mut off = web(Config::new());
    for (method, target) in [("GET", "/sse"), ("POST", "/messages?sessionId=x")] {
        let x = off.send(method, target, &[], "");
        assert_eq!(off.reply(x).status, 404);
    }
    let mut on = web(Config::new().http_sse(PATHS.0, PATHS.1));
    for (method, target, status) in
        [("POST", "/sse", 405), ("GET", "/messages", 405), ("DELETE", "/sse", 405)]
    {
        let x = on.send(method, target, &[], "");
        assert_eq!(on.reply(x).status, status);
    }
    let x = on.send("GET", "/sse", &[("Origin", "https://evil.example")], "");
    assert_eq!(on.reply(x).status, 403);
}
