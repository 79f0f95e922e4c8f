//! Access tokens: challenges, decisions of the application, and sessions bound to a principal.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};

use mcp_proto::head::RequestHead;
use mcp_proto::http::server::{Config, Denial, Dpop, Event, ExchangeId, Protected, Scheme};
use mcp_proto::server::{Identity, ProvenKey, Scopes};
use mcp_tests::harness::HttpServerHarness;

use super::{
    CALL_FIELDS, ECHO_PARAMS, answer_call, harness, initialize_request, legacy_request, modern_request,
};

const METADATA: &str = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";

pub(super) fn protected() -> Protected {
    Protected::new("https://mcp.example.com/mcp", "https://login.example.com").expect("valid")
}

fn protected_config() -> Config {
    Config::new().protected(protected().scope("mcp:basic").expect("a scope"))
}

/// The identity of a principal with the scopes of every request.
fn identity(principal: &str) -> Identity {
    Identity::new(principal).scopes("mcp:basic")
}

/// Sends a request with a token, and grants or denies it.
fn post_with_token(
    web: &mut HttpServerHarness,
    fields: &[(&str, &str)],
    body: &str,
    decision: Result<&str, Denial>,
) -> ExchangeId {
    let x = web.post(fields, body);
    match web.server.poll_event(web.now) {
        Some(Event::Token { exchange, request }) => {
            assert_eq!(exchange, x);
            assert_eq!((request.scheme, request.method), (Scheme::Bearer, "POST"));
            assert_eq!(&*request.url, "https://mcp.example.com/mcp", "as clients know it");
            assert!(format!("{request:?}").contains("AccessToken(…)"));
            assert!(!web.server.wants_body(x), "the body is not read before the token is accepted");
            match decision {
                Ok(principal) => {
                    web.server.grant(web.now, x, identity(principal));
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

// covers: HTTP-007, AUTH-004, AUTH-005, AUTH-020, AUTH-021, AUTH-051, AUTH-054, AUTH-070, AUTH-002
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
        ("Bearer bad", Denial::invalid_token(), 401, "error=\"invalid_token\", scope"),
        (
            "Bearer old",
            Denial::InvalidToken("it has expired".into()),
            401,
            "error=\"invalid_token\", error_description=\"it has expired\"",
        ),
        (
            "bearer weak",
            Denial::InsufficientScope(Scopes::parse("mcp:basic mcp:write").expect("scopes")),
            403,
            "error=\"insufficient_scope\", scope=\"mcp:basic mcp:write\"",
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
    for other in ["Basic eDp5", "ApiKey x", "Bearerx y"] {
        let x = web.post(&with(other), &modern_request(1, "tools/call", ECHO_PARAMS));
        let reply = web.response(x);
        assert_eq!(reply.status, 401, "{other}");
        assert!(reply.field("www-authenticate").is_some_and(|c| !c.contains("error")), "as without a token");
    }
    let malformed =
        ["Bearer", "Bearer a b", "Bearer \u{e4}", "Bearer a\"b", "Bearer a, Basic b", "Bearer a\tb"];
    for malformed in malformed {
        let x = web.post(&with(malformed), &modern_request(1, "tools/call", ECHO_PARAMS));
        let reply = web.response(x);
        assert_eq!(reply.status, 400, "{malformed}");
        assert!(reply.field("www-authenticate").is_some_and(|c| c.contains("error=\"invalid_request\"")));
    }
    let twice: Vec<_> = with("Bearer a").into_iter().chain([("authorization", "Bearer b")]).collect();
    let x = web.post(&twice, &modern_request(1, "tools/call", ECHO_PARAMS));
    assert_eq!(web.response(x).status, 400);
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: HTTP-007, AUTH-004, AUTH-005, AUTH-054, SEC-004
#[test]
fn validator_decides_at_once_about_each_request() {
    let mut web = harness(protected_config());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    web.server.set_validator(move |request| {
        count.fetch_add(1, Ordering::Relaxed);
        assert_eq!((request.scheme, request.method), (Scheme::Bearer, "POST"));
        assert_eq!(&*request.url, "https://mcp.example.com/mcp", "as clients know it");
        Some(match request.token.reveal() {
            "good" => Ok(Arc::new(identity("alice"))),
            "weak" => Ok(Arc::new(Identity::new("alice"))),
            "busy" => Err(Denial::Unavailable),
            "later" => return None,
            _ => Err(Denial::InvalidToken("it is not known".into())),
        })
    });
    let body = modern_request(1, "tools/call", ECHO_PARAMS);
    let with = |token| CALL_FIELDS.into_iter().chain([("Authorization", token)]).collect::<Vec<_>>();
    let refused = [
        ("Bearer bad", 401, "error=\"invalid_token\", error_description=\"it is not known\""),
        ("Bearer weak", 403, "error=\"insufficient_scope\", scope=\"mcp:basic\""),
        ("Bearer busy", 503, ""),
    ];
    for (token, status, challenge) in refused {
        let x = web.post(&with(token), &body);
        let reply = web.response(x);
        assert_eq!(reply.status, status, "{token}");
        assert!(reply.field("www-authenticate").unwrap_or_default().contains(challenge), "{reply:?}");
        assert!(web.server.poll_event(web.now).is_none(), "nothing is left to decide");
    }
    for (token, tokens) in [("Bearer good", 4), ("Bearer good", 5)] {
        let x = web.post(&with(token), &body);
        assert_eq!(asked.load(Ordering::Relaxed), tokens, "no decision is kept");
        let call = web.expect_call();
        assert_eq!(web.server.engine().principal(call.channel()), Some("alice"));
        answer_call(&mut web, &call);
        assert_eq!(web.response(x).status, 200);
    }
    // A token about which it does not decide is left to the application.
    let x = post_with_token(&mut web, &with("Bearer later"), &body, Ok("bob"));
    let call = web.expect_call();
    assert_eq!(web.server.engine().principal(call.channel()), Some("bob"));
    answer_call(&mut web, &call);
    assert_eq!(web.response(x).status, 200);
    assert_eq!((asked.load(Ordering::Relaxed), web.server.exchange_count()), (6, 0));
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
    assert!(!web.server.wants_body(x));
    web.server.handle_gone(web.now, x);
    web.server.grant(web.now, x, identity("alice"));
    web.server.deny(web.now, x, &Denial::invalid_token());
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
            Err(Denial::invalid_token()),
        );
        assert_eq!(web.response(x).status, 401, "{wrong:?}");
        let x =
            post_with_token(&mut web, &fields, &modern_request(1, "tools/call", ECHO_PARAMS), Ok("alice"));
        assert_eq!(web.response(x).status, status, "{wrong:?}");
        assert!(web.poll_event().is_none());
    }
    assert_eq!(web.server.exchange_count(), 0);
}

// covers: AUTH-019, AUTH-021, AUTH-060, AUTH-070, HTTP-080
#[test]
fn resource_metadata_is_public_and_readable_across_origins() {
    let path = "/.well-known/oauth-protected-resource/mcp";
    for cors in [true, false] {
        let mut web = harness(protected_config().cors(cors));
        let origin = ("Origin", "https://inspector.example");
        let ask = ("Access-Control-Request-Headers", "mcp-protocol-version");
        let x = web.send_request("OPTIONS", path, &[origin, ask], "");
        let reply = web.response(x);
        assert_eq!((reply.status, reply.field("access-control-allow-origin")), (204, Some("*")));
        assert!(
            reply
                .field("access-control-allow-headers")
                .is_some_and(|all| all.contains("MCP-Protocol-Version"))
        );
        let x = web.send_request("GET", path, &[origin], "");
        let reply = web.response(x);
        assert_eq!((reply.status, reply.field("content-type")), (200, Some("application/json")));
        assert_eq!(reply.field("access-control-allow-origin"), Some("*"));
        assert_eq!(reply.field("cache-control"), Some("public, max-age=3600"));
        let document: serde_json::Value = serde_json::from_str(&reply.body).expect("JSON");
        assert_eq!(document["resource"], "https://mcp.example.com/mcp");
        assert_eq!(document["authorization_servers"], serde_json::json!(["https://login.example.com"]));
        assert_eq!(document["scopes_supported"], serde_json::json!(["mcp:basic"]));
        for method in ["PUT", "POST", "DELETE"] {
            let x = web.send_request(method, path, &[], "");
            let reply = web.response(x);
            assert_eq!((reply.status, reply.field("allow")), (405, Some("GET")), "{method}");
        }
        // A name that a foreign page controls is refused all the same.
        let x = web.send_request("GET", path, &[("Host", "evil.example")], "");
        assert_eq!(web.response(x).status, 403);
    }
    let mut open = harness(Config::new());
    let x = open.send_request("GET", path, &[], "");
    assert_eq!(open.response(x).status, 404, "an open server describes no resource");
}

// covers: AUTH-008, AUTH-070
#[test]
fn token_in_the_query_is_no_token_and_nothing_is_revealed() {
    let mut web = harness(protected_config());
    let body = modern_request(1, "tools/call", ECHO_PARAMS);
    let fields: Vec<_> = CALL_FIELDS.into_iter().collect();
    let x = web.send_request("POST", "/mcp?access_token=good", &fields, &body);
    let reply = web.response(x);
    assert_eq!(reply.status, 401);
    let challenge = reply.field("www-authenticate").expect("a challenge");
    assert!(!challenge.contains("error="), "there were no credentials: {challenge}");
    assert!(!reply.body.contains("echo") && !reply.body.contains("2026"), "{}", reply.body);
    // Whatever the request is, its answer is the same.
    for (method, body) in [("POST", "not JSON"), ("POST", ""), ("GET", ""), ("DELETE", "")] {
        let x = web.send_request(method, "/mcp", &[("Mcp-Session-Id", "guess")], body);
        assert_eq!((web.response(x).status, &web.response(x).body), (401, &web.response(x).body));
        assert_eq!(web.response(x).field("www-authenticate"), web.response(x).field("www-authenticate"));
        assert!(web.response(x).body.contains("a good token is needed"), "{method} {body}");
    }
    assert!(web.poll_event().is_none());
    assert_eq!((web.server.exchange_count(), web.server.session_count()), (0, 0));
}

#[test]
fn dpop_challenges_follow_rfc_9449() {
    let body = modern_request(1, "tools/call", ECHO_PARAMS);
    let mode = |dpop| harness(Config::new().protected(protected().dpop(dpop)));
    let send = |web: &mut HttpServerHarness, fields: &[(&str, &str)]| {
        let all: Vec<_> = CALL_FIELDS.into_iter().chain(fields.iter().copied()).collect();
        web.post(&all, &body)
    };
    let challenge = |web: &HttpServerHarness, x| {
        let reply = web.response(x);
        (reply.status, reply.field("www-authenticate").unwrap_or_default().to_owned())
    };
    // A server without DPoP answers its scheme as if there were no token.
    let mut off = mode(Dpop::Off);
    let x = send(&mut off, &[("Authorization", "DPoP a"), ("DPoP", "p")]);
    assert_eq!(challenge(&off, x), (401, format!("Bearer resource_metadata=\"{METADATA}\"")));
    // One that requires it refuses bearer tokens.
    let mut required = mode(Dpop::Required);
    let x = send(&mut required, &[("Authorization", "Bearer a")]);
    let (status, text) = challenge(&required, x);
    assert!(status == 401 && text.starts_with("DPoP error=\"invalid_token\""), "{text}");
    assert!(text.ends_with("algs=\"ES256\""), "{text}");
    let mut web = mode(Dpop::Accepted);
    for proofs in [&[][..], &[("DPoP", "p"), ("dpop", "q")], &[("DPoP", "")], &[("DPoP", "a b")]] {
        let fields: Vec<_> = [("Authorization", "DPoP a")].iter().chain(proofs).copied().collect();
        let x = send(&mut web, &fields);
        let (status, text) = challenge(&web, x);
        assert!(status == 401 && text.starts_with("DPoP error=\"invalid_dpop_proof\""), "{proofs:?} {text}");
    }
    for (denial, error, nonce) in [
        (Denial::InvalidDpopProof("it is old".into()), "invalid_dpop_proof", None),
        (Denial::UseDpopNonce("n-1".into()), "use_dpop_nonce", Some("n-1")),
        (Denial::UseDpopNonce("n\r\nX: y".into()), "use_dpop_nonce", None),
        (Denial::invalid_token(), "invalid_token", None),
    ] {
        let x = send(&mut web, &[("Authorization", "dpop a"), ("DPoP", "p.q.r")]);
        let Some(Event::Token { request, .. }) = web.server.poll_event(web.now) else { panic!("no token") };
        assert_eq!(request.scheme, Scheme::Dpop);
        assert_eq!(request.proof.as_ref().map(|proof| proof.reveal()), Some("p.q.r"));
        assert!(!format!("{request:?}").contains("p.q.r"));
        web.server.deny(web.now, x, &denial);
        web.transmit_all();
        let (status, text) = challenge(&web, x);
        assert!(status == 401 && text.starts_with(&format!("DPoP error=\"{error}\"")), "{text}");
        assert_eq!(web.response(x).field("dpop-nonce"), nonce);
    }
    let x = send(&mut web, &[("Authorization", "Bearer a"), ("DPoP", "p")]);
    web.server.poll_event(web.now).expect("a token");
    web.server.deny(web.now, x, &Denial::Unavailable);
    web.transmit_all();
    assert_eq!(challenge(&web, x), (503, String::new()));
    assert_eq!(web.response(x).field("retry-after"), Some("1"));
}

// covers: AUTH-009
#[test]
fn proof_that_nobody_verified_lets_nobody_in() {
    let body = modern_request(1, "tools/call", ECHO_PARAMS);
    let bearer = ("Authorization", "Bearer a");
    let proven = [("Authorization", "DPoP a"), ("DPoP", "p.q.r")];
    let plain = || identity("alice");
    let bound = || identity("alice").proven_key(ProvenKey::new("thumb"));
    for (fields, identity, error) in [
        (&[bearer][..], plain(), None),
        (&[bearer], bound(), Some("the token is bound to a key")),
        (&proven, plain(), Some("no proof of a key was verified for the token")),
        (&proven, bound(), None),
        (&proven, bound().proven_key(None), Some("no proof of a key was verified for the token")),
    ] {
        let (at_once, later) = (Arc::new(identity.clone()), identity);
        for decides_at_once in [true, false] {
            let mut web = harness(Config::new().protected(protected().dpop(Dpop::Accepted)));
            if decides_at_once {
                let identity = at_once.clone();
                web.server.set_validator(move |_| Some(Ok(identity.clone())));
            }
            let all: Vec<_> = CALL_FIELDS.into_iter().chain(fields.iter().copied()).collect();
            let x = web.post(&all, &body);
            if !decides_at_once {
                assert!(matches!(web.server.poll_event(web.now), Some(Event::Token { .. })));
                web.server.grant(web.now, x, later.clone());
                web.send_body(x, &body);
            }
            let Some(error) = error else {
                let call = web.expect_call();
                assert_eq!(call.authorization().map(|party| party.principal()), Some("alice"));
                continue;
            };
            let reply = web.response(x);
            let challenge = reply.field("www-authenticate").unwrap_or_default();
            let expected = format!("error=\"invalid_token\", error_description=\"{error}\"");
            assert!(reply.status == 401 && challenge.contains(&expected), "{challenge}");
            assert!(web.poll_event().is_none());
        }
    }
    // A server without DPoP accepts no bound token either.
    let mut web = harness(protected_config());
    web.server.set_validator(move |_| Some(Ok(Arc::new(bound()))));
    let x = web.post(&CALL_FIELDS.into_iter().chain([bearer]).collect::<Vec<_>>(), &body);
    assert_eq!(web.response(x).status, 401);
}

#[test]
fn next_nonce_comes_with_every_kind_of_response() {
    let mut web = harness(Config::new().protected(protected().dpop(Dpop::Required)));
    web.server.set_validator(|request| {
        let key = ProvenKey::new("thumb").with_next_nonce(request.token.reveal());
        Some(Ok(Arc::new(identity("alice").proven_key(key))))
    });
    let fields: Vec<_> =
        CALL_FIELDS.into_iter().chain([("Authorization", "DPoP n-1"), ("DPoP", "p.q.r")]).collect();
    let x = web.post(&fields, &modern_request(1, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    answer_call(&mut web, &call);
    assert_eq!((web.response(x).status, web.response(x).field("dpop-nonce")), (200, Some("n-1")));
    for (body, status) in [("not JSON", 400), ("", 400)] {
        let x = web.post(&fields, body);
        assert_eq!((web.response(x).status, web.response(x).field("dpop-nonce")), (status, Some("n-1")));
    }
    while web.poll_event().is_some() {}
    // What is no nonce is not sent.
    web.server.set_validator(|_| {
        let key = ProvenKey::new("thumb").with_next_nonce("n\r\nX: y");
        Some(Ok(Arc::new(identity("alice").proven_key(key))))
    });
    let x = web.post(&fields, &modern_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    answer_call(&mut web, &call);
    assert_eq!((web.response(x).status, web.response(x).field("dpop-nonce")), (200, None));
}

// covers: HTTP-007
#[test]
fn validator_without_a_protected_resource_lets_nobody_in() {
    let mut web = harness(Config::new());
    web.server.set_validator(|_| Some(Ok(Arc::new(identity("alice")))));
    let token = ("Authorization", "Bearer good");
    for fields in [&CALL_FIELDS[..], &CALL_FIELDS.into_iter().chain([token]).collect::<Vec<_>>()] {
        let x = web.post(fields, &modern_request(1, "tools/call", ECHO_PARAMS));
        assert_eq!(web.response(x).status, 500);
        assert!(web.poll_event().is_none(), "no call");
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
    web.server.shutdown(web.now, crate::protocol::common::secs(1));
    for x in held {
        web.server.grant(web.now, x, identity("alice"));
    }
    web.transmit_all();
    assert_eq!((web.response(held[0]).status, web.response(held[1]).status), (204, 503));
    assert_eq!(web.server.session_count(), 0);
}

// covers: AUTH-070, HTTP-029
#[test]
fn refusal_of_a_token_says_why_and_a_validator_sees_the_method() {
    let mut web = harness(protected_config());
    let methods = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = methods.clone();
    web.server.set_validator(move |request| {
        seen.lock().expect("no panic").push(request.method);
        Some(match request.token.reveal() {
            "weak" => Err(Denial::InsufficientScope(Scopes::parse("mcp:write").expect("scopes"))),
            "bad" => Err(Denial::invalid_token()),
            _ => Ok(Arc::new(identity("alice"))),
        })
    });
    let shown = format!("{:?}", web.server);
    assert!(shown.contains("Validator") && shown.contains("Protected {"), "{shown}");
    for (token, status, reason) in [
        ("", 401, "a good token is needed"),
        ("Bearer bad", 401, "a good token is needed"),
        ("Bearer weak", 403, "the token does not allow this"),
        ("Bearer", 400, "the `Authorization` field is not one token"),
    ] {
        let x = web.post(&[("Authorization", token)], &initialize_request("2025-11-25"));
        let error: serde_json::Value = serde_json::from_str(&web.response(x).body).expect("JSON");
        assert_eq!((web.response(x).status, &error["error"]["message"]), (status, &reason.into()), "{token}");
    }
    methods.lock().expect("no panic").clear();
    for method in ["GET", "POST", "DELETE"] {
        web.send_request(method, "/mcp", &[("Authorization", "Bearer good")], "");
    }
    assert_eq!(*methods.lock().expect("no panic"), ["GET", "POST", "DELETE"]);
}
