//! Bearer tokens: challenges, decisions of the application, and sessions bound to a principal.

use mcp_proto::RawJson;
use mcp_proto::head::RequestHead;
use mcp_proto::http::server::{Config, Denial, Event, ExchangeId, ProtectedResource};

use super::{
    CALL_FIELDS, ECHO_PARAMS, answer_call, harness, initialize_request, legacy_request, modern_request,
};

const METADATA: &str = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";

fn protected_config() -> Config {
    let document = RawJson::new("{\"resource\":\"https://mcp.example.com/mcp\"}").expect("JSON");
    let protected = ProtectedResource::new(METADATA)
        .scope("mcp:basic")
        .serve("/.well-known/oauth-protected-resource/mcp", document);
    Config::new().protected(protected)
}

/// Sends a request with a token, and grants or denies it.
fn post_with_token(
    web: &mut mcp_tests::harness::HttpServerHarness,
    fields: &[(&str, &str)],
    body: &str,
    decision: Result<&str, Denial>,
) -> ExchangeId {
    let x = web.post(fields, body);
    match web.server.poll_event(web.now) {
        Some(Event::Token { exchange, token }) => {
            assert_eq!(exchange, x);
            assert_eq!(format!("{token:?}"), "BearerToken(…)");
            assert!(!web.server.wants_body(x), "the body is not read before the token is accepted");
            match decision {
                Ok(principal) => {
                    web.server.grant(web.now, x, principal);
                    web.send_body(x, body);
                }
                Err(denial) => web.server.deny(web.now, x, &denial),
            }
        }
        other => panic!("{other:?}"),
    }
    web.transmit_all();
    x
}

// covers: HTTP-007, AUTH-004, AUTH-005, AUTH-020, AUTH-021, AUTH-051, AUTH-054, AUTH-070
#[test]
fn missing_or_denied_token_gets_a_challenge() {
    let mut web = harness(protected_config());
    let x = web.post(&CALL_FIELDS, &modern_request(1, "tools/call", ECHO_PARAMS));
    let reply = web.response(x);
    let challenge = reply.field("www-authenticate").expect("a challenge");
    assert_eq!(reply.status, 401);
    assert_eq!(challenge, format!("Bearer scope=\"mcp:basic\", resource_metadata=\"{METADATA}\""));
    assert!(web.server.poll_event(web.now).is_none(), "no token to check");
    let with = |token| CALL_FIELDS.into_iter().chain([("Authorization", token)]).collect::<Vec<_>>();
    for (token, denial, status, challenge_part) in [
        ("Bearer bad", Denial::InvalidToken, 401, "error=\"invalid_token\""),
        (
            "bearer weak",
            Denial::InsufficientScope("mcp:write".into()),
            403,
            "error=\"insufficient_scope\", scope=\"mcp:write\"",
        ),
    ] {
        let x = post_with_token(
            &mut web,
            &with(token),
            &modern_request(1, "tools/call", ECHO_PARAMS),
            Err(denial),
        );
        let reply = web.response(x);
        assert_eq!(reply.status, status);
        assert!(reply.field("www-authenticate").is_some_and(|c| c.contains(challenge_part)), "{reply:?}");
    }
    for malformed in ["Basic eDp5", "Bearer", "Bearer a b", "Bearer \u{e4}", "Bearer a\"b"] {
        let x = web.post(&with(malformed), &modern_request(1, "tools/call", ECHO_PARAMS));
        assert_eq!(web.response(x).status, 400, "{malformed}");
    }
    let twice: Vec<_> = with("Bearer a").into_iter().chain([("authorization", "Bearer b")]).collect();
    let x = web.post(&twice, &modern_request(1, "tools/call", ECHO_PARAMS));
    assert_eq!(web.response(x).status, 400);
    assert_eq!(web.server.exchange_count(), 0);
    let x = web.send_request("GET", "/.well-known/oauth-protected-resource/mcp", &[], "");
    assert_eq!(
        (web.response(x).status, web.response(x).field("content-type")),
        (200, Some("application/json"))
    );
}

// covers: SEC-005, HTTP-071
#[test]
fn session_belongs_to_its_principal() {
    let mut web = harness(protected_config());
    let alice = ("Authorization", "Bearer alice");
    let x = post_with_token(&mut web, &[alice], &initialize_request("2025-11-25"), Ok("alice"));
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    let named = ("Mcp-Session-Id", &*id);
    for (principal, status) in [("alice", 200), ("mallory", 404)] {
        let x = post_with_token(&mut web, &[alice, named], &legacy_request(2, "ping", ""), Ok(principal));
        assert_eq!(web.response(x).status, status);
    }
    // A modern request acts for the principal of its own token.
    let fields: Vec<_> = CALL_FIELDS.into_iter().chain([alice]).collect();
    let x = post_with_token(&mut web, &fields, &modern_request(1, "tools/call", ECHO_PARAMS), Ok("alice"));
    let call = web.expect_call();
    assert_eq!(web.server.engine().principal(call.channel()), Some("alice"));
    answer_call(&mut web, &call);
    assert_eq!(web.response(x).status, 200);
}

#[test]
fn client_can_disconnect_before_the_token_decision() {
    let mut web = harness(protected_config());
    let fields = [
        ("host", &b"localhost"[..]),
        ("accept", b"*/*"),
        ("content-type", b"application/json"),
        ("authorization", b"Bearer a"),
    ];
    let head = RequestHead { method: "POST", target: "/mcp", fields: &fields };
    let x = web.server.open(web.now, &head, Some(10));
    assert!(matches!(web.server.poll_event(web.now), Some(Event::Token { .. })));
    web.server.handle_gone(web.now, x);
    web.server.grant(web.now, x, "alice");
    web.server.deny(web.now, x, &Denial::InvalidToken);
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: HTTP-029, AUTH-020
#[test]
fn token_is_checked_before_content_type_and_accept() {
    let mut web = harness(protected_config());
    for (wrong, status) in [(("Content-Type", "text/plain"), 415), (("Accept", "text/html"), 406)] {
        let fields: Vec<_> = CALL_FIELDS.into_iter().chain([("Authorization", "Bearer a"), wrong]).collect();
        let x = post_with_token(
            &mut web,
            &fields,
            &modern_request(1, "tools/call", ECHO_PARAMS),
            Err(Denial::InvalidToken),
        );
        assert_eq!(web.response(x).status, 401, "{wrong:?}");
        let x =
            post_with_token(&mut web, &fields, &modern_request(1, "tools/call", ECHO_PARAMS), Ok("alice"));
        assert_eq!(web.response(x).status, status, "{wrong:?}");
        assert!(web.poll_event().is_none());
    }
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: AUTH-004, HTTP-080
#[test]
fn resource_metadata_is_readable_across_origins() {
    let path = "/.well-known/oauth-protected-resource/mcp";
    let mut web = harness(protected_config().allow_origin("https://app.example.com").cors(true));
    let origin = ("Origin", "https://app.example.com");
    let x = web.send_request("OPTIONS", path, &[origin], "");
    let reply = web.response(x);
    assert_eq!((reply.status, reply.field("access-control-allow-origin")), (204, Some(origin.1)));
    let x = web.send_request("GET", path, &[origin], "");
    assert_eq!(web.response(x).field("access-control-allow-origin"), Some(origin.1));
    for method in ["PUT", "POST", "DELETE"] {
        let x = web.send_request(method, path, &[], "");
        assert_eq!((web.response(x).status, web.response(x).field("allow")), (405, Some("GET")), "{method}");
    }
}

#[test]
fn delete_authorized_during_shutdown_ends_the_session() {
    let mut web = harness(protected_config());
    let alice = ("Authorization", "Bearer alice");
    let x = post_with_token(&mut web, &[alice], &initialize_request("2025-11-25"), Ok("alice"));
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    let named = ("Mcp-Session-Id", &*id);
    let held = ["DELETE", "GET"].map(|method| web.send_request(method, "/mcp", &[alice, named], ""));
    for _ in held {
        assert!(matches!(web.server.poll_event(web.now), Some(Event::Token { .. })));
    }
    web.server.shutdown(web.now, crate::common::secs(1));
    for x in held {
        web.server.grant(web.now, x, "alice");
    }
    web.transmit_all();
    assert_eq!((web.response(held[0]).status, web.response(held[1]).status), (204, 503));
    assert_eq!(web.server.session_count(), 0);
}
