//! Bearer tokens: asked for, judged by the application, and what belongs to whom.

use mcp_proto::RawJson;
use mcp_proto::head::Request;
use mcp_proto::http::server::{Config, Denial, Event, ExchangeId, Protected};

use super::{CALL, ECHO, answer, initialize, legacy, modern, web};

const METADATA: &str = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";

fn protected() -> Config {
    let document = RawJson::new("{\"resource\":\"https://mcp.example.com/mcp\"}").expect("JSON");
    let protected = Protected::new(METADATA)
        .scope("mcp:basic")
        .serve("/.well-known/oauth-protected-resource/mcp", document);
    Config::new().protected(protected)
}

/// Sends a request with a token, and grants or denies it
fn send(
    web: &mut mcp_tests::harness::Web,
    fields: &[(&str, &str)],
    body: &str,
    verdict: Result<&str, Denial>,
) -> ExchangeId {
    let x = web.post(fields, body);
    match web.server.poll_event(web.now) {
        Some(Event::Token { exchange, token }) => {
            assert_eq!(exchange, x);
            assert!(!format!("{token:?}").contains(token.reveal()));
            assert!(!web.server.wants_body(x), "nothing is read for who may not come in");
            match verdict {
                Ok(principal) => {
                    web.server.grant(web.now, x, principal);
                    web.body(x, body);
                }
                Err(denial) => web.server.deny(web.now, x, &denial),
            }
        }
        other => panic!("{other:?}"),
    }
    web.pull();
    x
}

// covers: HTTP-007, AUTH-004, AUTH-005, AUTH-020, AUTH-021, AUTH-051, AUTH-054, AUTH-070
#[test]
fn who_has_no_good_token_is_told_what_is_needed() {
    let mut web = web(protected());
    let x = web.post(&CALL, &modern(1, "tools/call", ECHO));
    let reply = web.reply(x);
    let challenge = reply.field("www-authenticate").expect("a challenge");
    assert_eq!(reply.status, 401);
    assert_eq!(challenge, format!("Bearer scope=\"mcp:basic\", resource_metadata=\"{METADATA}\""));
    assert!(web.server.poll_event(web.now).is_none(), "nobody is asked");
    let with = |token| CALL.into_iter().chain([("Authorization", token)]).collect::<Vec<_>>();
    for (token, denial, status, says) in [
        ("Bearer bad", Denial::InvalidToken, 401, "error=\"invalid_token\""),
        (
            "bearer weak",
            Denial::InsufficientScope("mcp:write".into()),
            403,
            "error=\"insufficient_scope\", scope=\"mcp:write\"",
        ),
    ] {
        let x = send(&mut web, &with(token), &modern(1, "tools/call", ECHO), Err(denial));
        let reply = web.reply(x);
        assert_eq!(reply.status, status);
        assert!(reply.field("www-authenticate").is_some_and(|c| c.contains(says)), "{reply:?}");
    }
    for malformed in ["Basic eDp5", "Bearer", "Bearer a b", "Bearer \u{e4}", "Bearer a\"b"] {
        let x = web.post(&with(malformed), &modern(1, "tools/call", ECHO));
        assert_eq!(web.reply(x).status, 400, "{malformed}");
    }
    let twice: Vec<_> = with("Bearer a").into_iter().chain([("authorization", "Bearer b")]).collect();
    let x = web.post(&twice, &modern(1, "tools/call", ECHO));
    assert_eq!(web.reply(x).status, 400);
    assert_eq!(web.server.exchanges(), 0);
    let x = web.send("GET", "/.well-known/oauth-protected-resource/mcp", &[], "");
    assert_eq!((web.reply(x).status, web.reply(x).field("content-type")), (200, Some("application/json")));
}

// covers: SEC-005, HTTP-071
#[test]
fn a_session_is_its_principals_alone() {
    let mut web = web(protected());
    let alice = ("Authorization", "Bearer alice");
    let x = send(&mut web, &[alice], &initialize("2025-11-25"), Ok("alice"));
    let id = web.reply(x).field("mcp-session-id").expect("a session").to_owned();
    let named = ("Mcp-Session-Id", &*id);
    for (principal, status) in [("alice", 200), ("mallory", 404)] {
        let x = send(&mut web, &[alice, named], &legacy(2, "ping", ""), Ok(principal));
        assert_eq!(web.reply(x).status, status);
    }
    // Modern requests are on behalf of whoever came with them.
    let fields: Vec<_> = CALL.into_iter().chain([alice]).collect();
    let x = send(&mut web, &fields, &modern(1, "tools/call", ECHO), Ok("alice"));
    let call = web.call();
    assert_eq!(web.server.engine().principal(call.channel()), Some("alice"));
    answer(&mut web, &call);
    assert_eq!(web.reply(x).status, 200);
}

#[test]
fn a_client_that_leaves_before_the_verdict_is_no_trouble() {
    let mut web = web(protected());
    let fields = [
        ("host", &b"localhost"[..]),
        ("accept", b"*/*"),
        ("content-type", b"application/json"),
        ("authorization", b"Bearer a"),
    ];
    let head = Request { method: "POST", target: "/mcp", fields: &fields };
    let x = web.server.open(web.now, &head, Some(10));
    assert!(matches!(web.server.poll_event(web.now), Some(Event::Token { .. })));
    web.server.handle_gone(web.now, x);
    web.server.grant(web.now, x, "alice");
    web.server.deny(web.now, x, &Denial::InvalidToken);
    assert_eq!(web.server.exchanges(), 0);
}

// covers: HTTP-029, AUTH-020
#[test]
fn who_it_is_comes_before_what_is_wrong() {
    let mut web = web(protected());
    for (wrong, status) in [(("Content-Type", "text/plain"), 415), (("Accept", "text/html"), 406)] {
        let fields: Vec<_> = CALL.into_iter().chain([("Authorization", "Bearer a"), wrong]).collect();
        let x = send(&mut web, &fields, &modern(1, "tools/call", ECHO), Err(Denial::InvalidToken));
        assert_eq!(web.reply(x).status, 401, "{wrong:?}");
        let x = send(&mut web, &fields, &modern(1, "tools/call", ECHO), Ok("alice"));
        assert_eq!(web.reply(x).status, status, "{wrong:?}");
        assert!(web.event().is_none());
    }
    assert_eq!(web.server.exchanges(), 0);
}

// covers: AUTH-004, HTTP-080
#[test]
fn pages_may_read_where_tokens_come_from() {
    let path = "/.well-known/oauth-protected-resource/mcp";
    let mut web = web(protected().allow_origin("https://app.example.com").cors(true));
    let origin = ("Origin", "https://app.example.com");
    let x = web.send("OPTIONS", path, &[origin], "");
    let reply = web.reply(x);
    assert_eq!((reply.status, reply.field("access-control-allow-origin")), (204, Some(origin.1)));
    let x = web.send("GET", path, &[origin], "");
    assert_eq!(web.reply(x).field("access-control-allow-origin"), Some(origin.1));
    for method in ["PUT", "POST", "DELETE"] {
        let x = web.send(method, path, &[], "");
        assert_eq!((web.reply(x).status, web.reply(x).field("allow")), (405, Some("GET")), "{method}");
    }
}

#[test]
fn a_verdict_that_comes_while_the_server_shuts_down_ends_a_session_all_the_same() {
    let mut web = web(protected());
    let alice = ("Authorization", "Bearer alice");
    let x = send(&mut web, &[alice], &initialize("2025-11-25"), Ok("alice"));
    let id = web.reply(x).field("mcp-session-id").expect("a session").to_owned();
    let named = ("Mcp-Session-Id", &*id);
    let held = ["DELETE", "GET"].map(|method| web.send(method, "/mcp", &[alice, named], ""));
    for _ in held {
        assert!(matches!(web.server.poll_event(web.now), Some(Event::Token { .. })));
    }
    web.server.shutdown(web.now, crate::common::secs(1));
    for x in held {
        web.server.grant(web.now, x, "alice");
    }
    web.pull();
    assert_eq!((web.reply(held[0]).status, web.reply(held[1]).status), (204, 503));
    assert_eq!(web.server.sessions(), 0);
}
