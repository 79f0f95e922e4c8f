//! Who comes in, to which path, with what.

use mcp_proto::VersionSet;
use mcp_proto::head::Request;
use mcp_proto::http::server::Config;
use mcp_tests::harness::Web;

use super::{CALL, ECHO, answer, modern, session, web, web_of};

// covers: HTTP-003, HTTP-004, HTTP-005, HTTP-008, SEC-017
#[test]
fn a_page_of_elsewhere_is_turned_away_before_anything_else() {
    let mut web = web(Config::new().allow_origin("https://app.example.com").allow_host("mcp.example.com"));
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
        let fields: Vec<_> = CALL.into_iter().chain([field]).collect();
        let x = web.post(&fields, &modern(1, "tools/call", ECHO));
        if status == 200 {
            let call = web.call();
            answer(&mut web, &call);
        }
        assert_eq!(web.reply(x).status, status, "{field:?}");
        assert!(web.event().is_none());
        if status == 403 {
            let message = web.reply(x).message();
            assert!(message.get("id").is_none() && message["error"]["message"].is_string());
        }
    }
    // Neither a path nor a method tells such a page anything.
    for (method, target) in [("GET", "/mcp"), ("PUT", "/other"), ("DELETE", "/mcp"), ("OPTIONS", "/mcp")] {
        let x = web.send(method, target, &[("Origin", "https://evil.example")], "");
        assert_eq!(web.reply(x).status, 403, "{method} {target}");
    }
    let x = web.post(&[("Host", "")], &modern(1, "tools/call", ECHO));
    assert_eq!(web.reply(x).status, 403, "no host at all");
}

// covers: HTTP-008, SEC-017
#[test]
fn opting_out_has_a_loud_name() {
    let mut web = web(Config::new().dangerously_allow_any_origin_and_host());
    let fields: Vec<_> =
        CALL.into_iter().chain([("Origin", "https://evil.example"), ("Host", "evil.example")]).collect();
    let x = web.post(&fields, &modern(1, "tools/call", ECHO));
    let call = web.call();
    answer(&mut web, &call);
    assert_eq!(web.reply(x).status, 200);
}

// covers: HTTP-001, HTTP-002, HTTP-039, HTTP-080
#[test]
fn methods_and_paths_are_what_is_served() {
    let mut dual = web(Config::new());
    let mut only = web_of(VersionSet::MODERN, Config::new());
    for (method, target, dual_status, only_status) in [
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
            [(&mut dual, dual_status, "POST, GET, DELETE"), (&mut only, only_status, "POST")]
        {
            let x = web.send(method, target, &[], "");
            assert_eq!(web.reply(x).status, status, "{method} {target}");
            if status == 405 {
                assert_eq!(web.reply(x).field("allow"), Some(allow));
            }
        }
    }
    // Who speaks a revision without sessions has no use for either, and is told so; others lack one.
    for method in ["GET", "DELETE"] {
        for (version, reply) in [("2026-07-28", (405, Some("POST"))), ("2025-11-25", (400, None))] {
            let fields = [("Accept", "text/event-stream"), ("MCP-Protocol-Version", version)];
            let x = dual.send(method, "/mcp", &fields, "");
            assert_eq!((dual.reply(x).status, dual.reply(x).field("allow")), reply, "{method} {version}");
        }
    }
    let x = only.send("POST", "/mcp?query=is&not=looked-at", &CALL, &modern(1, "tools/call", ECHO));
    let call = only.call();
    answer(&mut only, &call);
    assert_eq!(only.reply(x).status, 200);
}

/// Makes a call with one more field, which gets this status
fn calls_with(web: &mut Web, field: (&str, &str), status: u16) {
    let fields: Vec<_> = CALL.into_iter().chain([field]).collect();
    let x = web.post(&fields, &modern(1, "tools/call", ECHO));
    if status == 200 {
        let call = web.call();
        answer(web, &call);
    }
    assert_eq!(web.reply(x).status, status, "{field:?}");
}

// covers: HTTP-011, HTTP-013, HTTP-049
#[test]
fn types_have_to_be_right() {
    let mut web = web(Config::new());
    for (accept, status) in [
        ("application/json, text/event-stream", 200),
        ("text/event-stream;q=0.5 , APPLICATION/JSON", 200),
        ("*/*", 200),
        ("application/*, text/*", 200),
        ("application/json", 406),
        ("text/event-stream", 406),
        ("application/json, text/event-stream;q=0", 406),
        ("text/html", 406),
        ("", 406),
    ] {
        calls_with(&mut web, ("Accept", accept), status);
    }
    for (kind, status) in [
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("text/plain", 415),
        ("application/json-seq", 415),
        ("", 415),
    ] {
        calls_with(&mut web, ("Content-Type", kind), status);
    }
    let id = session(&mut web, "2025-11-25");
    let x = web.send("GET", "/mcp", &[("Accept", "application/json"), ("Mcp-Session-Id", &id)], "");
    assert_eq!(web.reply(x).status, 406);
}

// covers: HTTP-081
#[test]
fn a_body_beyond_the_limit_is_not_read() {
    let config =
        crate::common::server(VersionSet::ALL).limits(crate::common::limits(|l| l.max_frame = 1_000));
    let mut web = Web::new(config, Config::new());
    let x = web.post(&CALL, &modern(1, "tools/call", &format!("\"name\":\"{}\"", "x".repeat(1_000))));
    assert_eq!(web.reply(x).status, 413);
    // Where its length is not said, it is counted.
    let fields = [("host", &b"localhost"[..]), ("accept", b"*/*"), ("content-type", b"application/json")];
    let head = Request { method: "POST", target: "/mcp", fields: &fields };
    let x = web.server.open(web.now, &head, None);
    for _ in 0..3 {
        assert!(web.server.wants_body(x));
        web.server.handle_body(web.now, x, vec![b' '; 400].into());
    }
    assert!(!web.server.wants_body(x));
    assert_eq!(web.server.response(x).map(|r| r.status), Some(413));
}

#[test]
fn pages_that_are_let_in_may_read_answers_if_that_is_wanted() {
    let mut web = web(Config::new().allow_origin("https://app.example.com").cors(true));
    let origin = ("Origin", "https://app.example.com");
    let x = web.send("OPTIONS", "/mcp", &[origin], "");
    let reply = web.reply(x);
    assert_eq!((reply.status, reply.field("access-control-allow-origin")), (204, Some(origin.1)));
    for name in
        ["Mcp-Method", "Mcp-Name", "MCP-Protocol-Version", "Mcp-Session-Id", "Authorization", "Last-Event-ID"]
    {
        assert!(reply.field("access-control-allow-headers").is_some_and(|v| v.contains(name)), "{name}");
    }
    let fields: Vec<_> = CALL.into_iter().chain([origin]).collect();
    let x = web.post(&fields, &modern(1, "tools/call", ECHO));
    let call = web.call();
    answer(&mut web, &call);
    assert_eq!(web.reply(x).field("access-control-allow-origin"), Some(origin.1));
    assert_eq!(web.reply(x).field("vary"), Some("Origin"));
    assert!(
        web.reply(x).field("access-control-expose-headers").is_some_and(|v| v.contains("Mcp-Session-Id"))
    );
}

#[test]
fn too_many_exchanges_are_sent_away() {
    let mut web = web(Config::new().max_exchanges(2));
    let kept = [1, 2].map(|id| {
        web.post(&CALL, &modern(id, "tools/call", ECHO));
        web.call()
    });
    let x = web.post(&CALL, &modern(3, "tools/call", ECHO));
    assert_eq!(web.reply(x).status, 503);
    assert!(web.event().is_none());
    answer(&mut web, &kept[0]);
    let x = web.post(&CALL, &modern(3, "tools/call", ECHO));
    let call = web.call();
    answer(&mut web, &call);
    assert_eq!(web.reply(x).status, 200);
}

// covers: HTTP-003, HTTP-004
#[test]
fn a_page_that_is_not_let_in_does_not_read_why() {
    let mut web = web(Config::new().allow_origin("https://app.example.com").cors(true));
    for fields in [
        &[("Origin", "https://evil.example")][..],
        &[("Origin", "null")],
        &[("Origin", "https://app.example.com"), ("Host", "evil.example")],
        &[("Origin", "https://app.example.com"), ("origin", "https://evil.example")],
    ] {
        for method in ["POST", "GET", "OPTIONS"] {
            let x = web.send(method, "/mcp", fields, "");
            let reply = web.reply(x);
            assert_eq!(reply.status, 403, "{method} {fields:?}");
            assert_eq!(reply.field("access-control-allow-origin"), None, "{method} {fields:?}");
        }
    }
    // What is kept of an answer that named no origin is not what a page may be shown.
    let x = web.send("GET", "/elsewhere", &[], "");
    let reply = web.reply(x);
    assert_eq!((reply.field("vary"), reply.field("access-control-allow-origin")), (Some("Origin"), None));
    assert_eq!(reply.field("cache-control"), Some("no-store"));
}

// covers: HTTP-008
#[test]
fn who_looks_at_no_host_needs_none() {
    let mut web = web(Config::new().dangerously_allow_any_origin_and_host());
    for fields in [&[("Host", "")][..], &[("Host", "a"), ("host", "b")], &[("Origin", "\u{e4}")]] {
        let fields: Vec<_> = CALL.iter().chain(fields).copied().collect();
        let x = web.post(&fields, &modern(1, "tools/call", ECHO));
        let call = web.call();
        answer(&mut web, &call);
        assert_eq!(web.reply(x).status, 200, "{fields:?}");
    }
}

// covers: HTTP-077, HTTP-073
#[test]
fn what_is_said_about_the_revision_is_looked_at_wherever_it_is_said() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let wrong = [("Mcp-Session-Id", &*id), ("MCP-Protocol-Version", "1999-01-01")];
    for method in ["GET", "DELETE"] {
        let x = web.send(method, "/mcp", &wrong, "");
        assert_eq!(web.reply(x).status, 400, "{method}");
    }
    assert_eq!(web.server.sessions(), 1);
}

// covers: HTTP-011
#[test]
fn the_most_special_entry_of_accept_decides() {
    let mut web = web(Config::new());
    for (accept, status) in [
        ("*/*, application/json;q=0", 406),
        ("text/event-stream ; q=0.000, text/*, application/json", 406),
        ("*/*;q=0, application/json, text/event-stream", 200),
        ("application/*;q=0, */*", 406),
        ("application/json;v=1;q=0.001, text/event-stream;q=1", 200),
        ("application/json;q=0, application/json, text/*", 200),
    ] {
        calls_with(&mut web, ("Accept", accept), status);
    }
    // On several lines it is one list.
    let lines: Vec<_> =
        CALL.into_iter().chain([("Accept", "application/json"), ("accept", "text/event-stream")]).collect();
    let x = web.post(&lines, &modern(1, "tools/call", ECHO));
    let call = web.call();
    answer(&mut web, &call);
    assert_eq!(web.reply(x).status, 200);
}

// covers: HTTP-029, HTTP-013
#[test]
fn the_head_is_judged_in_order() {
    let config = crate::common::server(VersionSet::ALL).limits(crate::common::limits(|l| l.max_frame = 300));
    let mut web = Web::new(config, Config::new());
    let long = " ".repeat(301);
    for (fields, status) in [
        (&[("Content-Type", "text/plain"), ("Accept", "text/html")][..], 415),
        (&[("Content-Encoding", "gzip"), ("Accept", "text/html")], 415),
        (&[("Accept", "text/html")], 406),
        (&[("Content-Encoding", "identity")], 413),
    ] {
        let x = web.post(fields, &long);
        assert_eq!(web.reply(x).status, status, "{fields:?}");
    }
}

// covers: SEC-018
#[test]
fn streams_without_an_end_leave_room_for_calls() {
    let mut web = web(Config::new().max_exchanges(8).http_sse("/sse", "/messages"));
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let listen = modern(1, "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}");
    let fields = [CALL[0], ("Mcp-Method", "subscriptions/listen")];
    let first = web.send("GET", "/mcp", &[named], "");
    let open: Vec<_> = (0..4).map(|_| web.post(&fields, &listen)).collect();
    let old = web.send("GET", "/sse", &[], "");
    for x in open.iter().chain([&first, &old]) {
        assert_eq!(web.reply(*x).status, 200);
    }
    let other = session(&mut web, "2025-11-25");
    for x in [
        web.post(&fields, &listen),
        web.send("GET", "/sse", &[], ""),
        web.send("GET", "/mcp", &[("Mcp-Session-Id", &other)], ""),
    ] {
        assert_eq!(web.reply(x).status, 503);
    }
    // Who comes back takes the place that it had.
    let again = web.send("GET", "/mcp", &[named], "");
    assert!(web.reply(again).status == 200 && web.reply(first).finished);
    let x = web.post(&CALL, &modern(1, "tools/call", ECHO));
    let call = web.call();
    answer(&mut web, &call);
    assert_eq!(web.reply(x).status, 200);
    web.hang_up(open[0]);
    let x = web.send("GET", "/mcp", &[("Mcp-Session-Id", &other)], "");
    assert_eq!(web.reply(x).status, 200);
    // None of those that were refused has left anything.
    web.hang_up(x);
    let x = web.post(&fields, &listen);
    assert_eq!(web.reply(x).status, 200);
}
