//! Checks of a request: origin, host, path, method, types, size and limits.

use core::time::Duration;

use mcp_proto::head::RequestHead;
use mcp_proto::http::server::{Config, ExchangeId};
use mcp_proto::model::{ElicitParams, ElicitSchema, InputRequest};
use mcp_proto::server::{Event, InputRequired};
use mcp_proto::{Diagnostic, Progress, RawJson, UseError, VersionSet};
use mcp_tests::harness::HttpServerHarness;

use super::{
    CALL_FIELDS, ECHO_PARAMS, answer_call, harness, harness_with_versions, initialize_request,
    legacy_request, modern_request, open_session,
};

// covers: HTTP-003, HTTP-004, HTTP-005, HTTP-008, SEC-017, HTTP-006
#[test]
fn foreign_origin_or_host_is_refused_first() {
    let mut web =
        harness(Config::new().allow_origin("https://app.example.com").allow_host("mcp.example.com"));
    let cases = [
        (("Origin", "http://localhost:3000"), 200),
        (("Origin", "https://app.example.com"), 200),
        (("Origin", "https://app.example.com.evil.example"), 403),
        (("Origin", "null"), 403),
        (("Host", "mcp.example.com"), 200),
        (("Host", "mcp.example.com:443"), 200),
        (("Host", "mcp.example.com:8443"), 403),
        (("Host", "mcp.example.com:80:443"), 403),
        (("Host", "127.0.0.1:8080"), 200),
        (("Host", "evil.example:8080"), 403),
    ];
    for (field, status) in cases {
        let fields: Vec<_> = CALL_FIELDS.into_iter().chain([field]).collect();
        let x = web.post(&fields, &modern_request(1, "tools/call", ECHO_PARAMS));
        if status == 200 {
            let call = web.expect_call();
            answer_call(&mut web, &call);
        }
        assert_eq!(web.response(x).status, status, "{field:?}");
        if status == 403 {
            let refused = match field {
                ("Origin", origin) => Diagnostic::RefusedOrigin { origin: origin.into() },
                (_, host) => Diagnostic::RefusedHost { host: host.into() },
            };
            assert!(
                matches!(web.poll_event(), Some(Event::Diagnostic { diagnostic, .. }) if diagnostic == refused)
            );
            let message = web.response(x).message();
            assert!(message.get("id").is_none() && message["error"]["message"].is_string());
        }
        assert!(web.poll_event().is_none());
    }
    // A foreign page learns nothing from a path or a method.
    for (method, target) in [("GET", "/mcp"), ("PUT", "/other"), ("DELETE", "/mcp"), ("OPTIONS", "/mcp")] {
        let x = web.send_request(method, target, &[("Origin", "https://evil.example")], "");
        assert_eq!(web.response(x).status, 403, "{method} {target}");
    }
    let x = web.post(&[("Host", "")], &modern_request(1, "tools/call", ECHO_PARAMS));
    assert_eq!(web.response(x).status, 403, "no host at all");
    // A flood of refusals fills no queue.
    for _ in 0..100 {
        web.post(&[("Host", "evil.example")], "");
    }
    assert!((1..100).contains(&core::iter::from_fn(|| web.poll_event()).count()));
}

// covers: HTTP-008, SEC-017
#[test]
fn any_origin_and_host_can_be_allowed_explicitly() {
    let mut web = harness(Config::new().dangerously_allow_any_origin_and_host());
    let fields: Vec<_> = CALL_FIELDS
        .into_iter()
        .chain([("Origin", "https://evil.example"), ("Host", "evil.example")])
        .collect();
    let x = web.post(&fields, &modern_request(1, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    answer_call(&mut web, &call);
    assert_eq!(web.response(x).status, 200);
}

// covers: HTTP-001, HTTP-002, HTTP-039, HTTP-080
#[test]
fn unknown_paths_are_404_and_unknown_methods_405() {
    let mut dual = harness(Config::new());
    let mut modern_only = harness_with_versions(VersionSet::MODERN, Config::new());
    for (method, target, dual_status, modern_status) in [
        ("PUT", "/mcp", 405, 405),
        ("OPTIONS", "/mcp", 405, 405),
        ("get", "/mcp", 405, 405),
        ("GET", "/mcp", 400, 405),
        ("DELETE", "/mcp", 400, 405),
        ("POST", "/", 404, 404),
        ("POST", "/mcp/", 404, 404),
        ("GET", "/MCP", 404, 404),
    ] {
        for (web, status, allow) in
            [(&mut dual, dual_status, "POST, GET, DELETE"), (&mut modern_only, modern_status, "POST")]
        {
            let x = web.send_request(method, target, &[], "");
            assert_eq!(web.response(x).status, status, "{method} {target}");
            if status == 405 {
                assert_eq!(web.response(x).field("allow"), Some(allow));
            }
        }
    }
    // A client of a revision without sessions gets 405; a legacy client without a session gets 400.
    for method in ["GET", "DELETE"] {
        for (version, reply) in [("2026-07-28", (405, Some("POST"))), ("2025-11-25", (400, None))] {
            let fields = [("Accept", "text/event-stream"), ("MCP-Protocol-Version", version)];
            let x = dual.send_request(method, "/mcp", &fields, "");
            assert_eq!(
                (dual.response(x).status, dual.response(x).field("allow")),
                reply,
                "{method} {version}"
            );
        }
    }
    let x = modern_only.send_request(
        "POST",
        "/mcp?query=is&not=looked-at",
        &CALL_FIELDS,
        &modern_request(1, "tools/call", ECHO_PARAMS),
    );
    let call = modern_only.expect_call();
    answer_call(&mut modern_only, &call);
    assert_eq!(modern_only.response(x).status, 200);
}

/// Makes a call with one more header field, and checks its status, and the type of a response that lists one type alone.
fn assert_call_status(web: &mut HttpServerHarness, field: (&str, &str), status: u16) {
    let fields: Vec<_> = CALL_FIELDS.into_iter().chain([field]).collect();
    let x = web.post(&fields, &modern_request(1, "tools/call", ECHO_PARAMS));
    if status == 200 {
        let call = web.expect_call();
        answer_call(web, &call);
    }
    assert_eq!(web.response(x).status, status, "{field:?}");
}

// covers: HTTP-011, HTTP-013, HTTP-049
#[test]
fn accept_and_content_type_are_checked() {
    let mut web = harness(Config::new());
    for (accept, status) in [
        ("application/json, text/event-stream", 200),
        ("text/event-stream;q=0.5 , APPLICATION/JSON", 200),
        ("*/*", 200),
        ("application/*, text/*", 200),
        ("application/json", 200),
        ("text/event-stream", 200),
        ("application/json, text/event-stream;q=0", 200),
        ("application/json;q=0, text/event-stream;q=0", 406),
        ("text/html", 406),
        ("", 406),
    ] {
        assert_call_status(&mut web, ("Accept", accept), status);
    }
    for (content_type, status) in [
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("text/plain", 415),
        ("application/json-seq", 415),
        ("", 415),
    ] {
        assert_call_status(&mut web, ("Content-Type", content_type), status);
    }
    let id = open_session(&mut web, "2025-11-25");
    let x = web.send_request("GET", "/mcp", &[("Accept", "application/json"), ("Mcp-Session-Id", &id)], "");
    assert_eq!(web.response(x).status, 406);
}

// covers: HTTP-081
#[test]
fn body_beyond_max_frame_is_413() {
    let config = crate::protocol::common::server(VersionSet::ALL)
        .limits(crate::protocol::common::limits(|l| l.max_frame = 1_000));
    let mut web = HttpServerHarness::new(config, Config::new());
    let x = web
        .post(&CALL_FIELDS, &modern_request(1, "tools/call", &format!("\"name\":\"{}\"", "x".repeat(1_000))));
    assert_eq!(web.response(x).status, 413);
    // One byte of the declared length decides, before there is a body.
    let head_fields = [
        ("host", &b"localhost"[..]),
        ("accept", b"*/*"),
        ("content-type", b"application/json"),
        ("mcp-protocol-version", b"2026-07-28"),
    ];
    let head = RequestHead { method: "POST", target: "/mcp", fields: &head_fields };
    for (length, status) in [(1_000, None), (1_001, Some(413)), (1_002, Some(413))] {
        let x = web.server.open(web.now, &head, Some(length));
        assert_eq!(web.server.response(x).map(|r| r.status), status, "{length}");
        // And one byte of the body, in two pieces. What comes after a refusal or the end changes nothing.
        if status.is_none() {
            web.server.handle_body(web.now, x, vec![b' '; 999].into());
            web.server.handle_body(web.now, x, b"x".as_slice().into());
            web.server.handle_end(web.now, x);
        }
        let body = web.server.transmit(web.now, x).to_vec();
        // It is no JSON.
        assert_eq!(web.server.response(x).map(|r| r.status), Some(status.unwrap_or(400)), "{length}");
        web.server.handle_body(web.now, x, vec![b' '; 2_000].into());
        assert_eq!(web.server.transmit(web.now, x), body);
        assert_eq!(web.server.response(x).map(|r| r.status), Some(status.unwrap_or(400)), "{length}");
        web.close_exchange(x);
    }
    // A body without a declared length is counted.
    let fields = [("host", &b"localhost"[..]), ("accept", b"*/*"), ("content-type", b"application/json")];
    let head = RequestHead { method: "POST", target: "/mcp", fields: &fields };
    let x = web.server.open(web.now, &head, None);
    for _ in 0..3 {
        assert!(web.server.wants_body(x));
        web.server.handle_body(web.now, x, vec![b' '; 400].into());
    }
    assert!(!web.server.wants_body(x));
    assert_eq!(web.server.response(x).map(|r| r.status), Some(413));
}

#[test]
fn cors_headers_are_sent_to_allowed_origins_when_enabled() {
    let mut web = harness(Config::new().allow_origin("https://app.example.com").cors(true));
    let origin = ("Origin", "https://app.example.com");
    let x = web.send_request("OPTIONS", "/mcp", &[origin], "");
    let reply = web.response(x);
    assert_eq!((reply.status, reply.field("access-control-allow-origin")), (204, Some(origin.1)));
    for name in
        ["Mcp-Method", "Mcp-Name", "MCP-Protocol-Version", "Mcp-Session-Id", "Authorization", "Last-Event-ID"]
    {
        assert!(reply.field("access-control-allow-headers").is_some_and(|v| v.contains(name)), "{name}");
    }
    let fields: Vec<_> = CALL_FIELDS.into_iter().chain([origin]).collect();
    let x = web.post(&fields, &modern_request(1, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    answer_call(&mut web, &call);
    assert_eq!(web.response(x).field("access-control-allow-origin"), Some(origin.1));
    assert_eq!(web.response(x).field("vary"), Some("Origin"));
    assert!(
        web.response(x).field("access-control-expose-headers").is_some_and(|v| v.contains("Mcp-Session-Id"))
    );
}

#[test]
fn exchange_beyond_max_exchanges_is_503() {
    let mut web = harness(Config::new().max_exchanges(2));
    let calls = [1, 2].map(|id| {
        web.post(&CALL_FIELDS, &modern_request(id, "tools/call", ECHO_PARAMS));
        web.expect_call()
    });
    let x = web.post(&CALL_FIELDS, &modern_request(3, "tools/call", ECHO_PARAMS));
    assert_eq!(web.response(x).status, 503);
    assert!(web.poll_event().is_none());
    answer_call(&mut web, &calls[0]);
    let x = web.post(&CALL_FIELDS, &modern_request(3, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    answer_call(&mut web, &call);
    assert_eq!(web.response(x).status, 200);
}

// covers: HTTP-003, HTTP-004
#[test]
fn refused_origin_gets_no_cors_headers() {
    let mut web = harness(Config::new().allow_origin("https://app.example.com").cors(true));
    for fields in [
        &[("Origin", "https://evil.example")][..],
        &[("Origin", "null")],
        &[("Origin", "https://app.example.com"), ("Host", "evil.example")],
        &[("Origin", "https://app.example.com"), ("origin", "https://evil.example")],
    ] {
        for method in ["POST", "GET", "OPTIONS"] {
            let x = web.send_request(method, "/mcp", fields, "");
            let reply = web.response(x);
            assert_eq!(reply.status, 403, "{method} {fields:?}");
            assert_eq!(reply.field("access-control-allow-origin"), None, "{method} {fields:?}");
        }
    }
    // A cached response to a request without an origin must not be shown to a page.
    let x = web.send_request("GET", "/elsewhere", &[], "");
    let reply = web.response(x);
    assert_eq!((reply.field("vary"), reply.field("access-control-allow-origin")), (Some("Origin"), None));
    assert_eq!(reply.field("cache-control"), Some("no-store"));
}

// covers: HTTP-008
#[test]
fn host_header_is_optional_when_any_host_is_allowed() {
    let mut web = harness(Config::new().dangerously_allow_any_origin_and_host());
    for fields in [&[("Host", "")][..], &[("Host", "a"), ("host", "b")], &[("Origin", "\u{e4}")]] {
        let fields: Vec<_> = CALL_FIELDS.iter().chain(fields).copied().collect();
        let x = web.post(&fields, &modern_request(1, "tools/call", ECHO_PARAMS));
        let call = web.expect_call();
        answer_call(&mut web, &call);
        assert_eq!(web.response(x).status, 200, "{fields:?}");
    }
}

// covers: HTTP-077, HTTP-073
#[test]
fn version_header_is_checked_on_get_and_delete() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let wrong = [("Mcp-Session-Id", &*id), ("MCP-Protocol-Version", "1999-01-01")];
    for method in ["GET", "DELETE"] {
        let x = web.send_request(method, "/mcp", &wrong, "");
        assert_eq!(web.response(x).status, 400, "{method}");
    }
    assert_eq!(web.server.session_count(), 1);
}

// covers: HTTP-011
#[test]
fn most_specific_accept_entry_wins() {
    let mut web = harness(Config::new());
    for (accept, status) in [
        ("*/*, application/json;q=0, text/event-stream;q=0", 406),
        ("text/event-stream ; q=0.000, text/*, application/json;q=0", 406),
        ("*/*;q=0, application/json, text/event-stream", 200),
        ("application/*;q=0, text/*;q=0, */*", 406),
        ("application/json;v=1;q=0.001, text/event-stream;q=1", 200),
        ("application/json;q=0, application/json, text/*", 200),
    ] {
        assert_call_status(&mut web, ("Accept", accept), status);
    }
    // Several field lines form one list.
    let lines: Vec<_> = CALL_FIELDS
        .into_iter()
        .chain([("Accept", "application/json"), ("accept", "text/event-stream")])
        .collect();
    let x = web.post(&lines, &modern_request(1, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    answer_call(&mut web, &call);
    assert_eq!(web.response(x).status, 200);
}

/// Posts a call with a progress token that accepts one type, reports progress in it, and returns its number in the harness.
fn call_that_accepts(web: &mut HttpServerHarness, session: Option<&str>, accept: &str) -> ExchangeId {
    let params = format!("{ECHO_PARAMS},\"_meta\":{{\"progressToken\":1}}");
    let x = match session {
        Some(id) => web.post(
            &[("Mcp-Session-Id", id), ("MCP-Protocol-Version", "2025-11-25"), ("Accept", accept)],
            &legacy_request(7, "tools/call", &params),
        ),
        None => {
            let fields: Vec<_> = CALL_FIELDS.into_iter().chain([("Accept", accept)]).collect();
            web.post(&fields, &modern_request(1, "tools/call", ECHO_PARAMS))
        }
    };
    let call = web.expect_call();
    if session.is_some() {
        web.server.engine().progress(web.now, call.id(), Progress::new(1.0)).expect("open");
        web.transmit_all();
    }
    // Silence makes an event stream of a response, unless its client takes none.
    web.advance(Duration::from_secs(30));
    answer_call(web, &call);
    x
}

// covers: HTTP-011
#[test]
fn client_that_lists_one_type_gets_the_answer_in_it_in_both_eras() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    for session in [None, Some(&*id)] {
        let x = call_that_accepts(&mut web, session, "application/json");
        let reply = web.response(x);
        assert_eq!(
            (reply.status, reply.field("content-type")),
            (200, Some("application/json")),
            "{session:?}"
        );
        assert!(reply.message()["result"]["content"].is_array(), "{}", reply.body);

        let x = call_that_accepts(&mut web, session, "text/event-stream");
        let reply = web.response(x);
        assert_eq!(
            (reply.status, reply.field("content-type")),
            (200, Some("text/event-stream")),
            "{session:?}"
        );
        assert!(
            reply.is_complete && reply.messages().last().is_some_and(|m| m["result"]["content"].is_array())
        );
    }
    // A quick answer, and the handshake, which names its session.
    for accept in ["application/json", "text/event-stream"] {
        let x = web.post(&[("Accept", accept)], &initialize_request("2025-06-18"));
        let reply = web.response(x);
        assert_eq!((reply.status, reply.field("content-type")), (200, Some(accept)));
        assert!(reply.field("mcp-session-id").is_some() && reply.is_complete);
        assert!(reply.body.contains("2025-06-18"), "{}", reply.body);
    }
    // The status of an error says more than the type.
    let fields =
        [("Accept", "text/event-stream"), ("Mcp-Method", "x/y"), ("MCP-Protocol-Version", "2026-07-28")];
    let x = web.post(&fields, &modern_request(9, "x/y", ""));
    assert_eq!(
        (web.response(x).status, web.response(x).field("content-type")),
        (404, Some("application/json"))
    );
    // A subscription is a stream of events.
    let fields = [
        ("Accept", "application/json"),
        ("Mcp-Method", "subscriptions/listen"),
        ("MCP-Protocol-Version", "2026-07-28"),
    ];
    let listen = r#""notifications":{"toolsListChanged":true}"#;
    let x = web.post(&fields, &modern_request(10, "subscriptions/listen", listen));
    assert_eq!(web.response(x).status, 406);
    assert!(web.response(x).body.contains("must list text/event-stream"));
}

// covers: HTTP-011
#[test]
fn call_whose_client_takes_no_events_can_ask_nothing() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    let fields =
        [("Mcp-Session-Id", &*id), ("MCP-Protocol-Version", "2025-11-25"), ("Accept", "application/json")];
    let x = web.post(&fields, &legacy_request(7, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    let mut input = InputRequired::new();
    let form = ElicitParams::form("Name?", ElicitSchema::default());
    input.request_input(&call, "name", InputRequest::Elicit(form)).expect_err("not yet");
    let now = web.now;
    assert_eq!(web.server.engine().require_input(now, &call, &input), Err(UseError::Closed));
    web.transmit_all();
    // The engine answers the call, so that its client does not wait.
    let reply = web.response(x);
    assert_eq!((reply.status, reply.field("content-type")), (200, Some("application/json")));
    assert!(reply.message()["error"]["message"].is_string(), "{}", reply.body);
}

// covers: HTTP-029, HTTP-013
#[test]
fn header_checks_run_in_order() {
    let config = crate::protocol::common::server(VersionSet::ALL)
        .limits(crate::protocol::common::limits(|l| l.max_frame = 300));
    let mut web = HttpServerHarness::new(config, Config::new());
    let long = " ".repeat(301);
    for (fields, status) in [
        (&[("Content-Type", "text/plain"), ("Accept", "text/html")][..], 415),
        (&[("Content-Encoding", "gzip"), ("Accept", "text/html")], 415),
        (&[("Accept", "text/html")], 406),
        (&[("Content-Encoding", "identity")], 413),
    ] {
        let x = web.post(fields, &long);
        assert_eq!(web.response(x).status, status, "{fields:?}");
    }
}

// covers: SEC-018
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn endless_streams_leave_room_for_calls() {
    let mut web = harness(Config::new().max_exchanges(8).http_sse("/sse", "/messages"));
    let id = open_session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let listen = modern_request(1, "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}");
    let fields = [CALL_FIELDS[0], ("Mcp-Method", "subscriptions/listen")];
    let first = web.send_request("GET", "/mcp", &[named], "");
    let open: Vec<_> = (0..4).map(|_| web.post(&fields, &listen)).collect();
    let sse_stream = web.send_request("GET", "/sse", &[], "");
    for x in open.iter().chain([&first, &sse_stream]) {
        assert_eq!(web.response(*x).status, 200);
    }
    let other = open_session(&mut web, "2025-11-25");
    let mut streams: Vec<_> = open.into_iter().chain([first]).collect();
    // Each of these ends another stream.
    for request in 0..3 {
        let x = match request {
            0 => web.post(&fields, &listen),
            1 => web.send_request("GET", "/sse", &[], ""),
            _ => web.send_request("GET", "/mcp", &[("Mcp-Session-Id", &other)], ""),
        };
        assert_eq!(web.response(x).status, 200);
        let (ended, rest): (Vec<_>, Vec<_>) =
            streams.iter().copied().partition(|x| web.response(*x).is_complete);
        assert_eq!(ended.len(), 1);
        web.close_exchange(ended[0]);
        streams = rest;
    }
    let x = web.post(&CALL_FIELDS, &modern_request(1, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    answer_call(&mut web, &call);
    assert_eq!(web.response(x).status, 200);
    web.close_exchange(x);
    // A reopened GET stream takes the slot of its predecessor.
    let again = web.send_request("GET", "/mcp", &[("Mcp-Session-Id", &other)], "");
    assert_eq!(web.response(again).status, 200);
    assert!(streams.iter().all(|x| !web.response(*x).is_complete));
}

// covers: HTTP-039
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn path_and_method_are_checked_before_a_preflight_is_answered() {
    let mut web = harness(Config::new().cors(true).http_sse("/sse", "/messages"));
    for (method, target, status, allow) in [
        ("OPTIONS", "/mcp", 204, None),
        ("OPTIONS", "/sse", 204, None),
        ("OPTIONS", "/nowhere", 404, None),
        ("PUT", "/mcp", 405, Some("POST, GET, DELETE")),
        ("GET", "/messages", 405, Some("POST")),
        ("POST", "/sse", 405, Some("GET")),
        ("GET", "/nowhere", 404, None),
        ("POST", "/nowhere", 404, None),
    ] {
        let x = web.send_request(method, target, &[], "");
        assert_eq!(
            (web.response(x).status, web.response(x).field("allow")),
            (status, allow),
            "{method} {target}"
        );
    }
    for (versions, reason) in [
        (VersionSet::ALL, "the method is none that is served here"),
        (VersionSet::MODERN, "this server has POST alone"),
    ] {
        let mut web = harness_with_versions(versions, Config::new());
        let x = web.send_request("PUT", "/mcp", &[], "");
        assert_eq!(
            (web.response(x).status, &web.response(x).message()["error"]["message"]),
            (405, &reason.into())
        );
    }
}

// covers: AUTH-070
#[test]
fn preflight_names_the_fields_of_tools_unless_tokens_protect_them() {
    let schema = r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
    let plain = r#"{"type":"object","properties":{"region":{"type":"string"}}}"#;
    for is_protected in [false, true] {
        let config = Config::new().cors(true);
        let config = if is_protected { config.protected(super::tokens::protected()) } else { config };
        let mut web = harness(config);
        let names = |web: &mut HttpServerHarness| {
            let x = web.send_request("OPTIONS", "/mcp", &[], "");
            web.response(x).field("access-control-allow-headers").expect("names").to_owned()
        };
        web.server.set_tool_schema("echo", &RawJson::new(schema).expect("JSON")).expect("valid annotations");
        let all = names(&mut web);
        assert_eq!(
            (all.contains("Mcp-Param-Region"), all.ends_with(", *")),
            (!is_protected, is_protected),
            "{all}"
        );
        // A schema without such fields takes the place of one with them.
        web.server.set_tool_schema("echo", &RawJson::new(plain).expect("JSON")).expect("valid annotations");
        assert!(!names(&mut web).contains("Mcp-Param-Region"));
    }
}

// covers: HTTP-003, SEC-018
#[test]
fn refused_hosts_and_origins_are_told_up_to_sixteen_at_a_time() {
    let mut web = harness(Config::new());
    for (field, reason) in [
        (("Origin", "https://evil.example"), "pages of this origin are not let in"),
        (("Host", "evil.example"), "the host is not one that this server answers to"),
    ] {
        for _ in 0..20 {
            let x = web.post(&[field], "");
            let reply = web.response(x);
            assert_eq!((reply.status, &reply.message()["error"]["message"]), (403, &reason.into()));
        }
        assert_eq!(core::iter::from_fn(|| web.poll_event()).count(), 16);
    }
}

// covers: XHDR-027
#[test]
fn field_that_is_not_text_is_refused() {
    let mut web = harness(Config::new());
    let id = open_session(&mut web, "2025-11-25");
    for (name, value, status) in [
        ("last-event-id", &b"1-1\xff"[..], 400),
        ("mcp-protocol-version", b"\xff", 400),
        ("x-other", b"\xff", 200),
    ] {
        let fields = [
            ("host", &b"localhost"[..]),
            ("accept", b"*/*"),
            ("mcp-session-id", id.as_bytes()),
            (name, value),
        ];
        let head = RequestHead { method: "GET", target: "/mcp", fields: &fields };
        let x = web.server.open(web.now, &head, Some(0));
        web.server.handle_end(web.now, x);
        assert_eq!(web.server.response(x).map(|r| r.status), Some(status), "{name}");
        web.close_exchange(x);
    }
}
