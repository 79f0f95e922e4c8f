//! The HTTP request and the values of the application that handlers see.

use alloc::sync::Arc;

use mcp_proto::http::server::{Config, VisibleFieldError};
use mcp_proto::model::{ElicitParams, ElicitSchema, InputRequest};
use mcp_proto::server::{Call, ConnectionInfo, Event, Identity, InputRequired};
use mcp_proto::{Extensions, Instant};
use mcp_tests::harness::HttpServerHarness;
use serde_json::json;

use super::scopes::send;
use super::tokens::protected;
use super::{
    CALL_FIELDS, ECHO_PARAMS, answer_call, harness, initialize_request, legacy_request, modern_request,
};

/// A value of the application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tenant(&'static str);

fn view() -> HttpServerHarness {
    harness(Config::new().visible_fields(["X-Trace", "User-Agent"]).expect("no secrets"))
}

fn call_with(web: &mut HttpServerHarness, fields: &[(&str, &str)]) -> Call {
    let fields: Vec<_> = CALL_FIELDS.into_iter().chain(fields.iter().copied()).collect();
    web.post(&fields, &modern_request(1, "tools/call", ECHO_PARAMS));
    web.expect_call()
}

#[test]
fn handlers_see_path_and_chosen_fields_alone() {
    let mut web = view();
    let fields = [
        ("x-trace", "a"),
        ("X-TRACE", "b"),
        ("user-agent", "demo/1"),
        ("Authorization", "Bearer s3cret"),
        ("X-Other", "x"),
    ];
    let fields: Vec<_> = CALL_FIELDS.into_iter().chain(fields).collect();
    web.send_request("POST", "/mcp?key=s3cret", &fields, &modern_request(1, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    let http = call.http().expect("over HTTP");
    assert_eq!((http.method(), http.path()), ("POST", "/mcp"));
    let seen: Vec<_> = http.fields().collect();
    assert_eq!(seen, [("x-trace", &b"a"[..]), ("X-TRACE", b"b"), ("user-agent", b"demo/1")]);
    assert_eq!((http.field_text("X-Trace"), http.field("authorization")), (Some("a"), None));
    assert_eq!((http.field("x-other"), http.peer_addr()), (None, None));
    assert!(!format!("{call:?}").contains("s3cret"));
    answer_call(&mut web, &call);
    // Values that are not text are seen as bytes.
    let fields: [(&str, &[u8]); 7] = [
        ("host", b"localhost"),
        ("accept", b"application/json, text/event-stream"),
        ("content-type", b"application/json"),
        ("mcp-protocol-version", b"2026-07-28"),
        ("mcp-method", b"tools/call"),
        ("mcp-name", b"echo"),
        ("x-trace", b"\xff\xfe"),
    ];
    let body = modern_request(2, "tools/call", ECHO_PARAMS);
    let head = mcp_proto::head::RequestHead { method: "POST", target: "/mcp", fields: &fields };
    let x = web.server.open(web.now, &head, None);
    web.server.handle_body(web.now, x, body.into());
    web.server.handle_end(web.now, x);
    let Some(mcp_proto::http::server::Event::Server(Event::Call(call))) = web.server.poll_event(web.now)
    else {
        panic!("no call")
    };
    let http = call.http().expect("over HTTP");
    assert_eq!((http.field("x-trace"), http.field_text("x-trace")), (Some(&b"\xff\xfe"[..]), None));
}

// covers: SEC-019
#[test]
fn secrets_cannot_be_chosen() {
    for name in [
        "Authorization",
        "cookie",
        "X-Api-Key",
        "Mcp-Session-Id",
        "DPoP",
        "X-Amz-Security-Token",
        "Cf-Access-Jwt-Assertion",
    ] {
        let error = Config::new().visible_fields([name]).expect_err(name);
        let text = format!("the header field `{name}` is not shown to handlers: its name suggests a secret");
        assert_eq!((&error, error.to_string()), (&VisibleFieldError::Secret(name.into()), text));
    }
    for name in ["", "a b", "X-A:", "X\r\nA", "é"] {
        let error = Config::new().visible_fields(["X-A", name]).expect_err(name);
        assert_eq!(error, VisibleFieldError::Invalid(name.into()));
        let text = error.to_string();
        assert!(
            text.ends_with("` is not the name of a header field") && !text.contains(['\r', '\n']),
            "{text}"
        );
    }
    // What does not fit is left out, and the rest is seen.
    let mut web = view();
    let call = call_with(
        &mut web,
        &[("X-Trace", &"a".repeat(8_000)), ("X-Trace", &"b".repeat(200)), ("User-Agent", "c")],
    );
    let http = call.http().expect("over HTTP");
    let seen: Vec<usize> = http.fields().map(|(_, value)| value.len()).collect();
    assert_eq!(seen, [8_000, 1]);
    // By default nothing is seen.
    let mut web = harness(Config::new());
    let call = call_with(&mut web, &[("X-Trace", "a")]);
    assert_eq!(call.http().expect("over HTTP").fields().count(), 0);
}

#[test]
fn values_come_from_the_nearest_place_that_has_one() {
    let request = |web: &mut HttpServerHarness, value: Option<Tenant>, connection: Option<Tenant>| {
        let head_fields: Vec<(&str, &[u8])> = [("host", "localhost"), ("accept", "*/*")]
            .into_iter()
            .chain([("content-type", "application/json"), ("authorization", "Bearer a")])
            .chain(CALL_FIELDS)
            .map(|(name, value)| (name, value.as_bytes()))
            .collect();
        let head = mcp_proto::head::RequestHead { method: "POST", target: "/mcp", fields: &head_fields };
        let x = web.server.open(web.now, &head, None);
        if let Some(connection) = connection {
            let info = ConnectionInfo::new().peer_addr(([192, 0, 2, 7], 4000)).extension(connection);
            web.server.request_mut(x).expect("open").set_connection(Arc::new(info));
        }
        if let Some(value) = value {
            web.server.request_mut(x).expect("open").extensions_mut().insert(value);
        }
        let body = modern_request(1, "tools/call", ECHO_PARAMS);
        web.server.handle_body(web.now, x, body.into());
        web.server.handle_end(web.now, x);
        loop {
            match web.server.poll_event(web.now).expect("a call") {
                mcp_proto::http::server::Event::Server(Event::Call(call)) => {
                    // The handler has the request.
                    assert!(web.server.request_mut(x).is_none());
                    return call;
                }
                mcp_proto::http::server::Event::Token { exchange, .. } => {
                    web.server.grant(
                        web.now,
                        exchange,
                        Identity::new("alice").extension(Tenant("token")).extension(7_u8),
                    );
                }
                other => panic!("{other:?}"),
            }
        }
    };
    let mut web = harness(Config::new());
    let call = request(&mut web, Some(Tenant("request")), Some(Tenant("connection")));
    assert_eq!(call.extension(), Some(&Tenant("request")));
    assert_eq!(call.extension::<u8>(), None);
    assert_eq!(call.http().and_then(|http| http.peer_addr()), Some(([192, 0, 2, 7], 4000).into()));
    let call = request(&mut web, None, Some(Tenant("connection")));
    assert_eq!(call.extension(), Some(&Tenant("connection")));
    assert_eq!(request(&mut web, None, None).extension::<Tenant>(), None);

    let mut web = harness(Config::new().protected(protected()));
    let call = request(&mut web, None, Some(Tenant("connection")));
    assert_eq!((call.extension(), call.extension()), (Some(&Tenant("token")), Some(&7_u8)));
    let call = request(&mut web, Some(Tenant("request")), None);
    assert_eq!(call.extension(), Some(&Tenant("request")));
    // Another way to validate tokens.
    let mut web = harness(Config::new().protected(protected()));
    let identity = Identity::new("alice").extension(Tenant("token"));
    send(&mut web, ("POST", "/mcp"), &CALL_FIELDS, &modern_request(1, "tools/call", ECHO_PARAMS), identity);
    assert_eq!(web.expect_call().extension(), Some(&Tenant("token")));
}

#[test]
fn session_has_values_and_each_of_its_requests_is_its_own() {
    let mut web = view();
    let x = web.post(&[], &initialize_request("2025-11-25"));
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    web.post(&[("Mcp-Session-Id", &id)], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    let Some(Event::SessionOpened { channel: session, .. }) = web.poll_event() else { panic!("no session") };
    let named = |trace: &'static str| [("Mcp-Session-Id", id.clone()), ("X-Trace", trace.to_owned())];
    let post = |web: &mut HttpServerHarness, trace: &'static str, body: &str| {
        let fields = named(trace);
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, &**value)).collect();
        let x = web.post(&fields, body);
        (x, web.expect_call())
    };
    let call = |number: u32| legacy_request(number, "tools/call", ECHO_PARAMS);
    let (_, first) = post(&mut web, "first", &call(2));
    assert_eq!(first.extension::<Tenant>(), None);
    let mut extensions = Extensions::new();
    extensions.insert(Tenant("session"));
    web.server.engine().set_extensions(session, extensions);
    let (x, second) = post(&mut web, "second", &call(3));
    assert_eq!(second.extension(), Some(&Tenant("session")));
    for (call, trace) in [(&first, "first"), (&second, "second")] {
        assert_eq!(call.http().and_then(|http| http.field_text("x-trace")), Some(trace));
    }
    // A call that waited for an answer keeps the request that began it, whatever other requests come.
    let mut input = InputRequired::new();
    let form = ElicitParams::form("Sure?", ElicitSchema::default());
    input.request_input(&second, "sure", InputRequest::Elicit(form)).expect_err("not yet");
    let now = web.now;
    web.server.engine().require_input(now, &second, &input).expect("the client can answer");
    web.transmit_all();
    let question = web.response(x).messages().pop().expect("a request");
    post(&mut web, "third", &call(4));
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}});
    let (_, again) = post(&mut web, "answer", &answer.to_string());
    assert_eq!(again.http().and_then(|http| http.field_text("x-trace")), Some("second"));
    assert_eq!(again.extension(), Some(&Tenant("session")));
}

// covers: HTTP-046
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn http_sse_and_initialize_have_their_own_requests() {
    let config = Config::new().http_sse("/sse", "/messages").visible_fields(["X-Trace"]).expect("valid");
    let mut web = harness(config);
    let stream = web.send_request("GET", "/sse", &[("Accept", "text/event-stream")], "");
    let target = web.response(stream).events()[0].data.clone();
    let post = |web: &mut HttpServerHarness, body: &str| {
        web.send_request("POST", &target, &[("X-Trace", "a")], body);
    };
    post(&mut web, &initialize_request("2024-11-05"));
    post(&mut web, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert!(matches!(web.poll_event(), Some(Event::SessionOpened { .. })));
    post(&mut web, &legacy_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    let http = call.http().expect("over HTTP");
    // The query has the id of the session, which is a secret.
    assert_eq!((http.path(), http.field_text("x-trace")), ("/messages", Some("a")));
}

#[test]
fn byte_stream_has_values_and_no_request() {
    let config = crate::protocol::common::server(mcp_proto::VersionSet::ALL);
    let mut engine = mcp_proto::server::Engine::new(Arc::new(config));
    let now = Instant::from_micros(1);
    let channel = engine.open_channel(now);
    let mut extensions = Extensions::new();
    extensions.insert(Tenant("stream"));
    engine.set_extensions(channel, extensions);
    let body = modern_request(1, "tools/call", ECHO_PARAMS);
    engine.handle_message(now, channel, body.into());
    let Some(Event::Call(call)) = engine.poll_event(now) else { panic!("no call") };
    assert!(call.http().is_none());
    assert_eq!(call.extension(), Some(&Tenant("stream")));
    engine.set_extensions(channel, Extensions::new());
    engine.handle_message(now, channel, modern_request(2, "tools/call", ECHO_PARAMS).into());
    let Some(Event::Call(call)) = engine.poll_event(now) else { panic!("no call") };
    assert_eq!(call.extension::<Tenant>(), None);
}
