//! Legacy sessions: their ids, their streams, and what goes where.

use mcp_proto::http::server::Config;
use mcp_proto::model::{ElicitParams, ElicitSchema, InputRequest, LoggingLevel};
use mcp_proto::server::{Asking, Call, Event};
use mcp_proto::{Change, Progress, RpcError, Version, VersionSet};

use super::{ECHO, answer, initialize, legacy, session, web, web_of};
use crate::common::{ms, secs};

const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

// covers: HTTP-018, HTTP-021, HTTP-064, HTTP-066, HTTP-069, HTTP-071, HTTP-075
#[test]
fn a_session_lives_from_initialize_to_delete() {
    for version in LEGACY {
        let mut web = web(Config::new());
        let x = web.post(&[], &initialize(version));
        assert_eq!(web.reply(x).message()["result"]["protocolVersion"], version);
        let id = web.reply(x).field("mcp-session-id").expect("a session").to_owned();
        assert!(id.bytes().all(|b| (0x21..=0x7e).contains(&b)));
        let named = ("Mcp-Session-Id", &*id);
        let x = web.post(&[named], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
        assert_eq!(web.reply(x).status, 202);
        assert!(matches!(web.event(), Some(Event::SessionOpened { .. })));
        let x = web.post(&[named], &legacy(2, "tools/call", ECHO));
        let call = web.call();
        assert_eq!(call.version().as_str(), version);
        answer(&mut web, &call);
        let reply = web.reply(x);
        assert_eq!((reply.status, reply.field("content-type")), (200, Some("application/json")));
        assert!(reply.field("mcp-session-id").is_none());
        // Without the id, with another one, and after the end.
        let x = web.post(&[], &legacy(3, "ping", ""));
        assert_eq!(web.reply(x).status, 400);
        for other in ["x".to_owned(), "A".repeat(28), id[1..].to_owned(), format!("{id}A")] {
            let x = web.post(&[("Mcp-Session-Id", &other)], &legacy(3, "ping", ""));
            assert_eq!(web.reply(x).status, 404, "{other}");
        }
        let x = web.send("DELETE", "/mcp", &[named], "");
        assert_eq!(web.reply(x).status, 204);
        assert!(matches!(web.event(), Some(Event::Closed { .. })));
        for (method, body) in
            [("POST", legacy(3, "ping", "")), ("GET", String::new()), ("DELETE", String::new())]
        {
            let x = web.send(method, "/mcp", &[named], &body);
            assert_eq!(web.reply(x).status, 404, "{method}");
        }
        assert_eq!((web.server.sessions(), web.server.exchanges()), (0, 0));
    }
}

// covers: HTTP-077, VER-038, VER-040 (2 and 4)
#[test]
fn what_a_request_says_about_the_revision_is_looked_at() {
    for (version, header, status) in [
        ("2025-11-25", "2025-11-25", 200),
        ("2025-11-25", "", 200),
        ("2025-11-25", "2025-06-18", 200),
        ("2025-11-25", "1999-01-01", 400),
        ("2025-06-18", "nonsense", 400),
        ("2025-03-26", "nonsense", 200),
    ] {
        let mut web = web(Config::new());
        let id = session(&mut web, version);
        let x =
            web.post(&[("Mcp-Session-Id", &id), ("MCP-Protocol-Version", header)], &legacy(2, "ping", ""));
        assert_eq!(web.reply(x).status, status, "{version} {header:?}");
        // Streams begin and sessions end by the same rule.
        for method in ["GET", "DELETE"] {
            let fields = [("Mcp-Session-Id", &*id), ("MCP-Protocol-Version", header)];
            let x = web.send(method, "/mcp", &fields, "");
            assert_eq!(web.reply(x).status == 400, status == 400, "{method} {version} {header:?}");
        }
        assert_eq!(web.server.sessions(), usize::from(status == 400));
    }
    // On `initialize` it says nothing (DEC-026).
    let mut web = web(Config::new());
    for header in ["2025-11-25", "2025-06-18"] {
        let x = web.post(
            &[("MCP-Protocol-Version", header), ("Mcp-Method", "initialize")],
            &initialize("2025-11-25"),
        );
        assert_eq!(web.reply(x).status, 200);
    }
}

// covers: HTTP-020, HTTP-023, HTTP-024
#[test]
fn errors_of_older_revisions_are_answers() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-06-18");
    let named = ("Mcp-Session-Id", &*id);
    for (fields, body, status, code) in [
        (vec![named], legacy(2, "no/such", ""), 200, -32601),
        (vec![named], "{".into(), 400, -32700),
        (vec![named], "{\"id\":1}".into(), 400, -32600),
        (vec![named], format!("[{}]", legacy(2, "ping", "")), 400, -32600),
        (vec![named, ("Mcp-Method", "tools/list")], legacy(2, "tools/call", ECHO), 400, -32020),
        (vec![named, ("Mcp-Name", "other")], legacy(2, "tools/call", ECHO), 400, -32020),
    ] {
        let x = web.post(&fields, &body);
        let reply = web.reply(x);
        assert_eq!(reply.status, status, "{body}: {reply:?}");
        if code != 0 {
            assert_eq!(reply.message()["error"]["code"], code, "{body}");
        }
    }
    let x = web
        .post(&[named, ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")], &legacy(2, "tools/call", ECHO));
    while let Some(event) = web.event() {
        if let Event::Call(call) = event {
            answer(&mut web, &call);
        }
    }
    assert_eq!(web.reply(x).status, 200);
}

// covers: HTTP-019, HTTP-020, HTTP-071, VER-035 (the other 404)
#[test]
fn what_cannot_be_accepted_is_refused_with_an_error_that_has_no_id() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-06-18");
    let cancelled =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}";
    let response = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}";
    for body in [cancelled, response] {
        for (session, version, status) in
            [("", "", 400), ("other", "", 404), (&*id, "1999-01-01", 400), (&*id, "2025-06-18", 202)]
        {
            let x = web.post(&[("Mcp-Session-Id", session), ("MCP-Protocol-Version", version)], body);
            let reply = web.reply(x);
            assert_eq!(reply.status, status, "{body} {session:?} {version:?}");
            if status == 202 {
                assert!(reply.body.is_empty());
                continue;
            }
            let message = reply.message();
            assert!(message.get("id").is_none() && message["error"]["message"].is_string(), "{message}");
            // Nobody takes this 404 for an unknown method.
            assert_ne!(message["error"]["code"], -32601, "{message}");
        }
    }
}

// covers: SEC-018, LOG-016
#[test]
fn what_is_logged_to_nobody_is_not_kept() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    web.post(&[named], &legacy(2, "tools/call", ECHO));
    let call = web.call();
    let text = "x".repeat(1_000);
    let log = |web: &mut mcp_tests::harness::Web, call: &Call| {
        let now = web.now;
        web.server.engine().log_session(now, call.channel(), &LoggingLevel::Info, None, &text).expect("open")
    };
    for _ in 0..2_000 {
        log(&mut web, &call);
        log(&mut web, &call);
        web.advance(ms(100));
    }
    answer(&mut web, &call);
    web.advance(secs(5));
    // Nor does anybody wake up to look after it.
    let until = web.now + secs(100);
    let mut wakes = 0;
    while let Some(at) = web.server.poll_timeout().filter(|at| *at <= until) {
        (web.now, wakes) = (at, wakes + 1);
        web.server.handle_timeout(at);
    }
    assert!(wakes < 10, "woke up {wakes} times");
    let get = web.send("GET", "/mcp", &[named], "");
    let waited = web.reply(get).messages().len();
    assert!((1..=4).contains(&waited), "{waited}");
    // From now on somebody listens.
    web.post(&[named], &legacy(3, "tools/call", ECHO));
    let call = web.call();
    for _ in 0..20 {
        log(&mut web, &call);
        web.advance(ms(100));
    }
    assert_eq!(web.reply(get).messages().len(), waited + 20);
}

// covers: HTTP-050, HTTP-051, HTTP-054, HTTP-055, HTTP-056, HTTP-057, HTTP-060, HTTP-061
#[test]
fn each_message_goes_out_on_the_stream_that_it_belongs_to() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-06-18");
    let named = ("Mcp-Session-Id", &*id);
    let get = web.send("GET", "/mcp", &[named], "");
    let token = |id: u32| legacy(id, "tools/call", &format!("{ECHO},\"_meta\":{{\"progressToken\":{id}}}"));
    let (a, b) = (web.post(&[named], &token(2)), web.post(&[named], &token(3)));
    let (call_a, call_b) = (web.call(), web.call());
    let now = web.now;
    web.server.engine().progress(now, call_b.id(), Progress::new(1.0)).expect("open");
    web.server.engine().log(now, call_a.id(), &LoggingLevel::Info, None, "of a").expect("open");
    assert_eq!(web.server.engine().publish(now, &Change::Tools), 1);
    web.server
        .engine()
        .log_session(now, call_a.channel(), &LoggingLevel::Info, None, "of none")
        .expect("sent");
    web.pull();
    answer(&mut web, &call_a);
    answer(&mut web, &call_b);
    let says = |x| {
        let words = web.reply(x).messages();
        words
            .iter()
            .map(|m| m["method"].as_str().map_or_else(|| m["id"].to_string(), str::to_owned))
            .collect::<Vec<_>>()
    };
    assert_eq!(says(a)[0], "notifications/message");
    assert_eq!(says(a).last().map(String::as_str), Some("2"));
    assert_eq!(says(b), ["notifications/progress", "3"]);
    assert_eq!(says(get), ["notifications/tools/list_changed", "notifications/message"]);
    assert!(web.reply(a).finished && web.reply(b).finished && !web.reply(get).finished);
}

// covers: ELIC-025
#[test]
fn the_end_of_a_page_is_told_with_the_call_or_to_the_session() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &legacy(2, "tools/call", ECHO));
    let call = web.call();
    let now = web.now;
    assert!(web.server.engine().elicitation_complete(now, call.channel(), "page"));
    answer(&mut web, &call);
    let said = web.reply(x).messages();
    assert_eq!(said[0]["method"], "notifications/elicitation/complete");
    assert_eq!((&said[0]["params"]["elicitationId"], said.len()), (&"page".into(), 2));
    // What a call went out on is over with it.
    assert!(!web.server.engine().elicitation_complete(now, call.channel(), "page"));
}

// covers: HTTP-018, HTTP-057
#[test]
fn questions_go_out_with_the_call_and_answers_come_in_posts_of_their_own() {
    for version in ["2025-06-18", "2025-11-25"] {
        let mut web = web(Config::new());
        let id = session(&mut web, version);
        let named = ("Mcp-Session-Id", &*id);
        let x = web.post(&[named], &legacy(2, "tools/call", ECHO));
        let call = web.call();
        let mut asking = Asking::new();
        let form = ElicitParams::form("who?", ElicitSchema::default());
        asking.ask(&call, "who", InputRequest::Elicit(form)).expect_err("not yet");
        let now = web.now;
        web.server.engine().ask(now, &call, &asking).expect("can be asked");
        web.pull();
        let question = web.reply(x).messages().pop().expect("a question");
        assert_eq!(question["method"], "elicitation/create");
        let answered = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"action\":\"accept\",\"content\":{{}}}}}}",
            question["id"]
        );
        // Another session's answer is none.
        let other = session(&mut web, version);
        let y = web.post(&[("Mcp-Session-Id", &other)], &answered);
        assert_eq!(web.reply(y).status, 202);
        while let Some(event) = web.event() {
            assert!(matches!(event, Event::Diagnostic { .. }), "{event:?}");
        }
        let y = web.post(&[named], &answered);
        assert_eq!(web.reply(y).status, 202);
        let again = web.call();
        assert_eq!(again.attempt(), 1);
        answer(&mut web, &again);
        assert!(web.reply(x).finished);
        assert_eq!(web.reply(x).messages().last().map(|m| m["id"].clone()), Some(2.into()));
    }
}

// covers: HTTP-062, CANC-021
#[test]
fn who_goes_away_does_not_cancel_and_who_cancels_says_so() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &legacy(2, "tools/call", ECHO));
    let call = web.call();
    web.hang_up(x);
    assert!(web.event().is_none());
    answer(&mut web, &call);
    assert_eq!(web.server.exchanges(), 0, "nobody can have it, so nothing is kept");
    let x = web.post(&[named], &legacy(3, "tools/call", ECHO));
    let call = web.call();
    let cancel = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":3}}";
    let y = web.post(&[named], cancel);
    assert_eq!(web.reply(y).status, 202);
    match web.event() {
        Some(Event::Cancelled { call: gone, .. }) => assert_eq!(gone, call.id()),
        other => panic!("{other:?}"),
    }
    assert!(web.reply(x).finished && web.reply(x).messages().is_empty(), "it ends and says nothing");
    assert_eq!(web.server.exchanges(), 0);
}

// covers: BASE-005 (as the receiver takes it)
#[test]
fn an_id_that_is_under_way_is_refused_and_the_first_goes_on() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let first = web.post(&[named], &legacy(2, "tools/call", ECHO));
    let call = web.call();
    let second = web.post(&[named], &legacy(2, "tools/call", ECHO));
    assert_eq!(web.reply(second).status, 400);
    assert!(matches!(web.event(), Some(Event::Diagnostic { .. })));
    answer(&mut web, &call);
    assert!(web.reply(first).finished);
    // In another session it is another id.
    let other = session(&mut web, "2025-11-25");
    let x = web.post(&[("Mcp-Session-Id", &other)], &legacy(2, "ping", ""));
    assert_eq!(web.reply(x).status, 200);
}

// covers: HTTP-049, HTTP-053, HTTP-055, HTTP-056
#[test]
fn news_wait_for_the_stream_that_they_go_out_on() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-06-18");
    let named = ("Mcp-Session-Id", &*id);
    assert_eq!(web.server.engine().publish(web.now, &Change::Tools), 1);
    let get = web.send("GET", "/mcp", &[named], "");
    assert_eq!(web.reply(get).messages().len(), 1);
    // A second one takes over: the first may be that of a connection that died unseen.
    let next = web.send("GET", "/mcp", &[named], "");
    assert!(web.reply(get).finished && !web.reply(next).finished);
    assert_eq!(web.server.engine().publish(web.now, &Change::Tools), 1);
    web.pull();
    assert_eq!((web.reply(get).messages().len(), web.reply(next).messages().len()), (1, 1));
    web.hang_up(next);
    assert!(web.event().is_none(), "the session goes on");
    assert_eq!(web.server.engine().publish(web.now, &Change::Tools), 1);
    let last = web.send("GET", "/mcp", &[named], "");
    assert_eq!(web.reply(last).messages().len(), 1);
}

// covers: BATCH-001, BATCH-003, BATCH-006, BATCH-007, BATCH-010, BATCH-011
#[test]
fn batches_are_answered_together() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-03-26");
    let named = ("Mcp-Session-Id", &*id);
    let x = web.post(&[named], &format!("[{},{}]", legacy(2, "ping", ""), legacy(3, "ping", "")));
    let reply = web.reply(x);
    assert_eq!((reply.status, reply.field("content-type")), (200, Some("application/json")));
    assert_eq!(reply.message().as_array().map(Vec::len), Some(2));
    let notification =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":9}}";
    let x = web.post(&[named], &format!("[{notification},{notification}]"));
    assert_eq!((web.reply(x).status, &*web.reply(x).body), (202, ""));
    let x = web.post(&[named], "[]");
    assert_eq!(web.reply(x).status, 400);
    while let Some(event) = web.event() {
        assert!(matches!(event, Event::Diagnostic { .. }), "{event:?}");
    }
    let token = format!("{ECHO},\"_meta\":{{\"progressToken\":1}}");
    let x = web
        .post(&[named], &format!("[{},{}]", legacy(4, "tools/call", &token), legacy(5, "tools/call", ECHO)));
    let (a, b) = (web.call(), web.call());
    web.server.engine().progress(web.now, a.id(), Progress::new(1.0)).expect("open");
    web.pull();
    answer(&mut web, &b);
    assert!(!web.reply(x).finished);
    answer(&mut web, &a);
    let messages = web.reply(x).messages();
    assert!(web.reply(x).finished && messages.len() == 2 && messages[1].as_array().map(Vec::len) == Some(2));
    let x = web.post(&[], &format!("[{}]", initialize("2025-03-26")));
    assert_eq!(web.reply(x).status, 400);
}

// covers: HTTP-064, HTTP-074, HTTP-078, VER-037, VER-036 (the first half)
#[test]
fn a_server_without_sessions_keeps_none() {
    let mut web = web(Config::new().sessions(false));
    let x = web.post(&[], &initialize("2025-06-18"));
    assert_eq!(web.reply(x).message()["result"]["protocolVersion"], "2025-06-18");
    assert!(web.reply(x).field("mcp-session-id").is_none());
    let x = web.post(&[], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert_eq!(web.reply(x).status, 202);
    for (header, version) in [("", Version::V2025_03_26), ("2025-11-25", Version::V2025_11_25)] {
        let x = web.post(
            &[("MCP-Protocol-Version", header), ("Mcp-Session-Id", "stale")],
            &legacy(2, "tools/call", ECHO),
        );
        let call = loop {
            match web.event() {
                Some(Event::Call(call)) => break call,
                Some(_) => {}
                None => panic!("no call"),
            }
        };
        assert_eq!(call.version(), version);
        answer(&mut web, &call);
        assert_eq!(web.reply(x).status, 200);
    }
    let x = web.post(&[("MCP-Protocol-Version", "1999-01-01")], &legacy(2, "ping", ""));
    assert_eq!(web.reply(x).status, 400);
    for method in ["GET", "DELETE"] {
        let x = web.send(method, "/mcp", &[], "");
        assert_eq!((web.reply(x).status, web.reply(x).field("allow")), (405, Some("POST")));
    }
    assert_eq!((web.server.sessions(), web.server.exchanges()), (0, 0));
}

// covers: HTTP-070
#[test]
fn sessions_that_nobody_uses_are_forgotten() {
    let mut web = web(Config::new().session_idle(secs(100)));
    let (idle, busy, open) =
        (session(&mut web, "2025-11-25"), session(&mut web, "2025-11-25"), session(&mut web, "2025-11-25"));
    let get = web.send("GET", "/mcp", &[("Mcp-Session-Id", &open)], "");
    for _ in 0..4 {
        web.advance(secs(50));
        let x = web.post(&[("Mcp-Session-Id", &busy)], &legacy(2, "ping", ""));
        assert_eq!(web.reply(x).status, 200);
    }
    let x = web.post(&[("Mcp-Session-Id", &idle)], &legacy(2, "ping", ""));
    assert_eq!(web.reply(x).status, 404);
    let x = web.post(&[("Mcp-Session-Id", &open)], &legacy(2, "ping", ""));
    assert_eq!(web.reply(x).status, 200, "its stream is open");
    web.hang_up(get);
    web.advance(secs(200));
    assert_eq!((web.server.sessions(), web.server.exchanges()), (0, 0));
    assert_eq!(web.server.poll_timeout(), None);
}

// covers: SEC-018
#[test]
fn handshakes_that_were_never_finished_give_way_first() {
    let mut web = web(Config::new().max_sessions(3, 3));
    let kept = session(&mut web, "2025-11-25");
    let half: Vec<String> = (0..4)
        .map(|_| {
            let x = web.post(&[], &initialize("2025-11-25"));
            web.reply(x).field("mcp-session-id").expect("a session").to_owned()
        })
        .collect();
    assert_eq!(web.server.sessions(), 3);
    for (id, status) in [(&kept, 200), (&half[0], 404), (&half[1], 404), (&half[2], 200), (&half[3], 200)] {
        let x = web.post(&[("Mcp-Session-Id", id)], &legacy(2, "ping", ""));
        assert_eq!(web.reply(x).status, status);
    }
    for id in &half[2..] {
        web.post(&[("Mcp-Session-Id", id)], "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    }
    let x = web.post(&[], &initialize("2025-11-25"));
    assert_eq!(web.reply(x).status, 503, "all of them are in use");
}

#[test]
fn one_session_cannot_take_all_places() {
    let mut web = web(Config::new().max_streams_per_session(2));
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    for n in 2..4 {
        web.post(&[named], &legacy(n, "tools/call", ECHO));
        web.call();
    }
    let x = web.post(&[named], &legacy(4, "tools/call", ECHO));
    assert_eq!(web.reply(x).status, 503);
    let x = web.post(
        &[named],
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}}",
    );
    assert_eq!(web.reply(x).status, 202, "what frees a place is taken");
    assert!(matches!(web.event(), Some(Event::Cancelled { .. })));
    web.post(&[named], &legacy(5, "tools/call", ECHO));
    web.call();
}

// covers: HTTP-070, SSE-027
#[test]
fn the_end_of_a_session_ends_what_it_has() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let named = ("Mcp-Session-Id", &*id);
    let get = web.send("GET", "/mcp", &[named], "");
    let x = web.post(&[named], &legacy(2, "tools/call", ECHO));
    let call = web.call();
    web.send("DELETE", "/mcp", &[named], "");
    assert!(web.reply(get).finished && web.reply(x).finished);
    assert!(matches!(web.event(), Some(Event::Cancelled { .. })));
    assert!(matches!(web.event(), Some(Event::Closed { .. })));
    assert!(web.server.engine().fail(web.now, call.id(), &RpcError::internal("late")).is_err());
    assert_eq!((web.server.sessions(), web.server.exchanges()), (0, 0));
}

// covers: VER-040 (1)
#[test]
fn a_modern_request_does_not_see_the_session() {
    let mut web = web(Config::new());
    let id = session(&mut web, "2025-11-25");
    let fields: Vec<_> = super::CALL.into_iter().chain([("Mcp-Session-Id", &*id)]).collect();
    let x = web.post(&fields, &super::modern(1, "tools/call", ECHO));
    let call = web.call();
    assert_eq!(call.version(), Version::V2026_07_28);
    answer(&mut web, &call);
    assert_eq!(web.reply(x).message()["result"]["resultType"], "complete");
    let mut legacy_only = web_of(VersionSet::LEGACY, Config::new());
    let x = legacy_only.post(&super::CALL, &super::modern(1, "tools/call", ECHO));
    assert_eq!(legacy_only.reply(x).status, 400, "to a legacy server that is a request without a session");
}
