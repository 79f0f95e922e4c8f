//! Scopes: those of every request, those of one call, and streams that end with their token.

use core::time::Duration;

use mcp_proto::http::server::{Config, Event, ExchangeId};
use mcp_proto::model::{CallToolResult, InputRequest, InputRequests, Resource, ResourceTemplate};
use mcp_proto::router::Router;
use mcp_proto::server::{Call, Caller, Event as EngineEvent, Identity};
use mcp_proto::{Capability, Change, EntryKind, Progress, Version};
use mcp_tests::harness::HttpServerHarness;
use serde_json::{Value, json};

use super::tokens::protected;
use super::{
    CALL_FIELDS, ECHO_PARAMS, answer_call, harness, initialize_request, legacy_request, modern_request,
};
use crate::protocol::common::secs;

const METADATA: &str = "https://mcp.example.com/.well-known/oauth-protected-resource/mcp";
const TOKEN: (&str, &str) = ("Authorization", "Bearer good");

fn scoped_config() -> Config {
    let protected = protected().scope("base").expect("a scope");
    Config::new()
        .protected(protected.implies(|broad, narrow| broad == "files" && narrow.starts_with("files:")))
}

/// Sends a request whose token has this identity.
pub(super) fn send(
    web: &mut HttpServerHarness,
    (method, target): (&str, &str),
    fields: &[(&str, &str)],
    body: &str,
    identity: Identity,
) -> ExchangeId {
    let fields: Vec<_> = fields.iter().copied().chain([TOKEN]).collect();
    let x = web.send_request(method, target, &fields, body);
    let Some(Event::Token { exchange, .. }) = web.server.poll_event(web.now) else { panic!("no token") };
    web.server.grant(web.now, exchange, identity);
    if method == "POST" {
        web.send_body(x, body);
    }
    web.transmit_all();
    x
}

fn call_with(web: &mut HttpServerHarness, scopes: &str) -> ExchangeId {
    let body = modern_request(1, "tools/call", ECHO_PARAMS);
    send(web, ("POST", "/mcp"), &CALL_FIELDS, &body, Identity::new("alice").scopes(scopes))
}

/// Refuses a call unless its token has these scopes. Returns whether it was refused.
fn require(web: &mut HttpServerHarness, call: &Call, scopes: &[&str]) -> bool {
    let missing = call.require_scopes(scopes).err();
    if let Some(missing) = &missing {
        let now = web.now;
        web.server.engine().fail(now, call.id(), missing).expect("open");
        web.transmit_all();
    }
    missing.is_some()
}

// covers: AUTH-005, AUTH-054, AUTH-055
#[test]
fn token_without_required_scope_gets_403_before_its_body_is_read() {
    let mut web = harness(scoped_config());
    let x = call_with(&mut web, "files");
    let reply = web.response(x);
    assert_eq!(reply.status, 403);
    assert_eq!(
        reply.field("www-authenticate"),
        Some(&*format!(
            "Bearer error=\"insufficient_scope\", scope=\"base\", resource_metadata=\"{METADATA}\""
        ))
    );
    assert!(web.poll_event().is_none());
}

// covers: AUTH-054, AUTH-055, AUTH-056
#[test]
fn call_that_lacks_scopes_gets_403_with_all_of_them() {
    let mut web = harness(scoped_config());
    let x = call_with(&mut web, "base files");
    let call = web.expect_call();
    let party = call.authorization().expect("a token");
    assert_eq!((party.principal(), party.scopes().as_str()), ("alice", "base files"));
    assert!(party.has_scope("files:write") && !party.has_scope("mail"));
    assert!(!require(&mut web, &call, &["files:write"]), "the broader scope is enough");
    assert!(require(&mut web, &call, &["files:write", "mail"]));
    let reply = web.response(x);
    assert_eq!(reply.status, 403);
    assert_eq!(
        reply.field("www-authenticate"),
        Some(&*format!(
            "Bearer error=\"insufficient_scope\", scope=\"base files:write mail\", resource_metadata=\"{METADATA}\""
        ))
    );
    let error = &reply.message()["error"];
    assert_eq!(error["code"], -32600);
    assert_eq!(error["data"], json!({"requiredScopes": ["base", "files:write", "mail"]}));
    // The next one starts anew.
    let x = call_with(&mut web, "base files mail");
    let call = web.expect_call();
    assert!(!require(&mut web, &call, &["files:write", "mail"]));
    answer_call(&mut web, &call);
    assert_eq!((web.response(x).status, web.response(x).field("www-authenticate")), (200, None));
}

// covers: AUTH-054
#[test]
fn response_that_has_begun_carries_the_error_alone() {
    let mut web = harness(scoped_config());
    let params = format!("{ECHO_PARAMS},\"_meta\":{{\"progressToken\":1}}");
    let x = send(
        &mut web,
        ("POST", "/mcp"),
        &[],
        &initialize_request("2025-03-26"),
        Identity::new("a").scopes("base"),
    );
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    let named = [("Mcp-Session-Id", &*id)];
    let identity = || Identity::new("a").scopes("base");
    let ready = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
    send(&mut web, ("POST", "/mcp"), &named, ready, identity());
    assert!(matches!(web.poll_event(), Some(EngineEvent::SessionOpened { .. })));
    // An event stream.
    let x = send(&mut web, ("POST", "/mcp"), &named, &legacy_request(2, "tools/call", &params), identity());
    let call = web.expect_call();
    web.server.engine().progress(web.now, call.id(), Progress::new(1.0)).expect("open");
    web.transmit_all();
    assert!(require(&mut web, &call, &["mail"]));
    let reply = web.response(x);
    assert_eq!((reply.status, reply.is_event_stream()), (200, true));
    assert_eq!(reply.messages()[1]["error"]["data"]["requiredScopes"], json!(["base", "mail"]));
    // A batch.
    let batch =
        format!("[{},{}]", legacy_request(3, "tools/call", ECHO_PARAMS), legacy_request(4, "ping", ""));
    let x = send(&mut web, ("POST", "/mcp"), &named, &batch, identity());
    let call = web.expect_call();
    assert!(require(&mut web, &call, &["mail"]));
    assert_eq!((web.response(x).status, web.response(x).field("www-authenticate")), (200, None));
    assert!(web.response(x).body.contains("requiredScopes") && web.response(x).body.contains("\"result\""));
    // A single call of the same session, with the scopes of its own token.
    let x =
        send(&mut web, ("POST", "/mcp"), &named, &legacy_request(5, "tools/call", ECHO_PARAMS), identity());
    let call = web.expect_call();
    assert_eq!(call.version(), Version::V2025_03_26);
    assert!(require(&mut web, &call, &["mail"]));
    assert_eq!(web.response(x).status, 403);
    let stepped_up = Identity::new("a").scopes("base mail");
    let x =
        send(&mut web, ("POST", "/mcp"), &named, &legacy_request(6, "tools/call", ECHO_PARAMS), stepped_up);
    let call = web.expect_call();
    assert!(!require(&mut web, &call, &["mail"]), "step-up needs no new session");
    answer_call(&mut web, &call);
    assert_eq!(web.response(x).status, 200);
}

/// Opens a stream of HTTP+SSE with a session; returns it, and where to post.
fn open_http_sse(web: &mut HttpServerHarness, identity: &Identity) -> (ExchangeId, String) {
    let stream = send(web, ("GET", "/sse"), &[], "", identity.clone());
    let target = web.response(stream).events()[0].data.clone();
    let handshake = [
        initialize_request("2024-11-05").replace("\"elicitation\"", "\"roots\""),
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}".to_owned(),
    ];
    for body in handshake {
        let x = send(web, ("POST", &target), &[], &body, identity.clone());
        assert_eq!(web.response(x).status, 202);
    }
    assert!(matches!(web.poll_event(), Some(EngineEvent::SessionOpened { .. })));
    (stream, target)
}

/// Returns the last message on a stream of HTTP+SSE.
fn last_message(web: &HttpServerHarness, stream: ExchangeId) -> Value {
    let data = web.response(stream).events().pop().expect("an event").data;
    serde_json::from_str(&data).expect("JSON")
}

// covers: AUTH-054
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn http_sse_call_has_the_scopes_of_its_own_post() {
    let mut web = harness(scoped_config().http_sse("/sse", "/messages"));
    let identity = |scopes| Identity::new("alice").scopes(scopes);
    let stream = send(&mut web, ("GET", "/sse"), &[], "", identity("base"));
    let target = web.response(stream).events()[0].data.clone();
    let post = |web: &mut HttpServerHarness, body: &str, scopes| {
        let x = send(web, ("POST", &target), &[], body, identity(scopes));
        assert_eq!(web.response(x).status, 202);
    };
    post(&mut web, &initialize_request("2024-11-05"), "base");
    post(&mut web, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", "base");
    assert!(matches!(web.poll_event(), Some(EngineEvent::SessionOpened { .. })));
    post(&mut web, &legacy_request(2, "tools/call", ECHO_PARAMS), "base mail");
    post(&mut web, &legacy_request(3, "tools/call", ECHO_PARAMS), "base");
    let (first, second) = (web.expect_call(), web.expect_call());
    assert!(!require(&mut web, &first, &["mail"]));
    assert!(require(&mut web, &second, &["mail"]));
    let events = web.response(stream).events();
    assert!(events.last().is_some_and(|event| event.data.contains("requiredScopes")));
}

// covers: AUTH-054
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn parked_call_over_http_sse_keeps_the_scopes_of_its_own_post() {
    let mut web = harness(scoped_config().http_sse("/sse", "/messages"));
    let identity = |scopes| Identity::new("alice").scopes(scopes);
    let (stream, target) = open_http_sse(&mut web, &identity("base"));
    let post = |web: &mut HttpServerHarness, body: &str, scopes| {
        let x = send(web, ("POST", &target), &[], body, identity(scopes));
        assert_eq!(web.response(x).status, 202);
    };
    post(&mut web, &legacy_request(2, "tools/call", ECHO_PARAMS), "base mail");
    let call = web.expect_call();
    let mut requests = InputRequests::new();
    requests.insert("q", InputRequest::ListRoots(None));
    let now = web.now;
    web.server.engine().need_input(now, &call, &requests, b"").expect("it waits");
    web.transmit_all();
    let asked = last_message(&web, stream);
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}});
    post(&mut web, &answer.to_string(), "base");
    let again = web.expect_call();
    assert!(again.answer("q").is_some_and(|answer| answer.is_ok()));
    assert!(!require(&mut web, &again, &["mail"]), "the answer came with another token");
}

// covers: SEC-004
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn stream_of_http_sse_answers_running_calls_when_its_token_has_expired() {
    for is_cancelled in [false, true] {
        let mut web = harness(scoped_config().http_sse("/sse", "/messages"));
        let identity = |seconds| Identity::new("a").scopes("base").valid_for(Duration::from_secs(seconds));
        let (stream, target) = open_http_sse(&mut web, &identity(3));
        let post = |web: &mut HttpServerHarness, body: &str| {
            let x = send(web, ("POST", &target), &[], body, identity(100));
            web.response(x).status
        };
        assert_eq!(post(&mut web, &legacy_request(2, "tools/call", ECHO_PARAMS)), 202);
        let running = web.expect_call();
        web.advance(secs(60));
        assert!(!web.response(stream).is_complete && web.server.session_count() == 1);
        // It is there for this call alone.
        assert_eq!(post(&mut web, &legacy_request(3, "tools/call", ECHO_PARAMS)), 404);
        assert_eq!(post(&mut web, "nonsense"), 404);
        let now = web.now;
        assert_eq!(web.server.engine().publish(now, &Change::Tools), 0, "changes are not for it any more");
        if is_cancelled {
            let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#;
            assert_eq!(post(&mut web, cancel), 202);
            web.advance(secs(20));
        } else {
            answer_call(&mut web, &running);
            let last = last_message(&web, stream);
            assert_eq!(last["result"]["content"][0]["text"], "done");
        }
        assert!(web.response(stream).is_complete, "{is_cancelled}");
        assert_eq!((web.server.session_count(), web.server.exchange_count()), (0, 0));
    }
}

// covers: SEC-004
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn stream_of_http_sse_whose_token_has_expired_ends_after_all_answers_however_long_they_are() {
    let mut web = harness(scoped_config().http_sse("/sse", "/messages"));
    let identity = |seconds| Identity::new("a").scopes("base").valid_for(Duration::from_secs(seconds));
    let (stream, target) = open_http_sse(&mut web, &identity(3));
    let running = [2, 3].map(|id| {
        let body = legacy_request(id, "tools/call", ECHO_PARAMS);
        send(&mut web, ("POST", &target), &[], &body, identity(100));
        web.expect_call()
    });
    web.advance(secs(60));
    assert!(!web.response(stream).is_complete);
    // Both answers wait when the stream goes on, and one alone is more than a response holds.
    let before = web.response(stream).events().len();
    for call in &running {
        let now = web.now;
        let answer = CallToolResult::text("x".repeat(20_000));
        web.server.engine().complete(now, call.id(), &answer).expect("open");
    }
    web.transmit_all();
    assert_eq!(web.response(stream).events().len(), before + 2);
    assert_eq!(last_message(&web, stream)["id"], 3);
    assert!(web.response(stream).is_complete);
    assert_eq!((web.server.session_count(), web.server.exchange_count()), (0, 0));
}

// covers: SEC-018
#[test]
fn call_that_is_polled_later_counts_for_its_principal() {
    let mut web = harness(scoped_config().max_exchanges_per_principal(2));
    let identity = || Identity::new("a").scopes("base");
    let x = send(&mut web, ("POST", "/mcp"), &[], &initialize_request("2025-11-25"), identity());
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    let named = [("Mcp-Session-Id", &*id)];
    let (mut calls, mut polled) = (Vec::new(), Vec::new());
    for n in 2..4 {
        let x = send(
            &mut web,
            ("POST", "/mcp"),
            &named,
            &legacy_request(n, "tools/call", ECHO_PARAMS),
            identity(),
        );
        let call = web.expect_call();
        let now = web.now;
        assert!(web.server.poll_later(now, call.id(), None));
        web.transmit_all();
        assert!(web.response(x).is_complete);
        calls.push(call);
        polled.push(x);
    }
    let refused = legacy_request(4, "tools/call", ECHO_PARAMS);
    let x = send(&mut web, ("POST", "/mcp"), &named, &refused, identity());
    assert_eq!(web.response(x).status, 503, "two calls are in work");
    let x = send(
        &mut web,
        ("POST", "/mcp"),
        &[],
        &initialize_request("2025-11-25"),
        Identity::new("b").scopes("base"),
    );
    assert_eq!(web.response(x).status, 200, "another principal");
    // Its own calls can be fetched all the same, and its session ended.
    let last = web.response(polled[0]).events()[0].id.clone();
    let resumed = [named[0], ("Last-Event-ID", &*last)];
    let x = send(&mut web, ("GET", "/mcp"), &resumed, "", identity());
    assert_eq!(web.response(x).status, 200, "resumed");
    let x = send(&mut web, ("GET", "/mcp"), &named, "", identity());
    assert_eq!(web.response(x).status, 503, "another stream");
    for call in &calls {
        answer_call(&mut web, call);
    }
    let x = send(&mut web, ("POST", "/mcp"), &named, &legacy_request(5, "ping", ""), identity());
    assert_eq!(web.response(x).status, 200);
}

// covers: SEC-004
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn streams_end_with_the_token_that_opened_them() {
    let mut web = harness(scoped_config().http_sse("/sse", "/messages"));
    let identity = |seconds| Identity::new("a").scopes("base").valid_for(Duration::from_secs(seconds));
    let x = send(&mut web, ("POST", "/mcp"), &[], &initialize_request("2025-11-25"), identity(2));
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    let named = [("Mcp-Session-Id", &*id)];
    let get = send(&mut web, ("GET", "/mcp"), &named, "", identity(3));
    let sse = send(&mut web, ("GET", "/sse"), &[], "", identity(3));
    let fields = [CALL_FIELDS[0], ("Mcp-Method", "subscriptions/listen")];
    let listen = modern_request(1, "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}");
    let listen = send(&mut web, ("POST", "/mcp"), &fields, &listen, identity(3));
    let call =
        send(&mut web, ("POST", "/mcp"), &named, &legacy_request(2, "tools/call", ECHO_PARAMS), identity(3));
    let lasting = send(&mut web, ("GET", "/mcp"), &named, "", Identity::new("a").scopes("base"));
    let running = web.expect_call();
    web.advance(secs(2));
    assert!([get, sse, listen, lasting].iter().all(|x| !web.response(*x).is_complete));
    web.advance(secs(2));
    assert!([get, sse, listen].iter().all(|x| web.response(*x).is_complete), "the token has expired");
    assert!(!web.response(lasting).is_complete, "no end of this token is known");
    assert!(web.response(listen).messages().last().is_some_and(|m| m["result"].is_object()));
    assert_eq!(web.server.session_count(), 1, "the session of the expired stream of HTTP+SSE is over");
    // A call that began is answered, and the session lives with other tokens.
    answer_call(&mut web, &running);
    assert_eq!(web.response(call).status, 200);
    let x = send(&mut web, ("POST", "/mcp"), &named, &legacy_request(3, "ping", ""), identity(5));
    assert_eq!(web.response(x).status, 200);
}

// covers: AUTH-054
#[test]
fn subscription_needs_the_scopes_of_its_resource() {
    let mut router = Router::<()>::new("x", "1");
    router.declare(Capability::ResourceSubscriptions);
    router.resource(Resource::new("file:///open", "open"), ()).expect("valid");
    router.resource(Resource::new("file:///Mine", "mine"), ()).expect("valid");
    for template in ["vault://{name}", "vault://public/{name}"] {
        router.resource_template(ResourceTemplate::new(template, template), ()).expect("valid");
    }
    // Any spelling that finds the resource.
    assert!(router.require_scope(EntryKind::Resource, "FILE:///%4Dine", "files:read"));
    assert!(!router.require_scope(EntryKind::Resource, "file:///mine", "files:read"));
    assert!(router.require_scope(EntryKind::ResourceTemplate, "vault://{name}", "vault"));
    let access = router.access_rules();
    for (uri, expected) in [
        ("file:///open", &[][..]),
        ("file:///Mine", &["files:read"]),
        ("FILE:///%4Dine", &["files:read"]),
        ("vault://a", &["vault"]),
        ("VAULT://a", &["vault"]),
        ("vault://public/a", &[]),
        ("other://x", &[]),
        ("no URI", &[]),
    ] {
        let found = access.required_for(&Caller::default(), uri);
        assert_eq!(found.iter().map(|scope| &**scope).collect::<Vec<_>>(), expected, "{uri}");
    }
    // A read passes over a disabled entry, and finds it again when it is enabled.
    let mut changed = Router::<()>::new("x", "1");
    for uri in ["file:///open", "file:///Mine"] {
        changed.resource(Resource::new(uri, uri), ()).expect("valid");
    }
    assert!(changed.require_scope(EntryKind::Resource, "file:///Mine", "files:read"));
    changed.resource_template(ResourceTemplate::new("file:///{name}", "any"), ()).expect("valid");
    assert!(changed.require_scope(EntryKind::ResourceTemplate, "file:///{name}", "any"));
    let needed = |router: &Router<()>, uri: &str| {
        router.access_rules().required_for(&Caller::default(), uri).join(" ")
    };
    assert_eq!(
        (needed(&changed, "file:///open"), needed(&changed, "file:///Mine")),
        ("".into(), "files:read".into())
    );
    for uri in ["file:///open", "file:///Mine"] {
        changed.enable(EntryKind::Resource, uri, false).expect("an entry");
    }
    assert_eq!(needed(&changed, "file:///open"), "any");
    assert_eq!(needed(&changed, "file:///Mine"), "files:read any");
    let mut web = HttpServerHarness::new(router.config(), scoped_config());
    let fields = [CALL_FIELDS[0], ("Mcp-Method", "subscriptions/listen")];
    let mut listen = |uris: &str, scopes: &str| {
        let params = format!("\"notifications\":{{\"resourceSubscriptions\":[{uris}]}}");
        let body = modern_request(1, "subscriptions/listen", &params);
        let x = send(&mut web, ("POST", "/mcp"), &fields, &body, Identity::new("a").scopes(scopes));
        let reply = web.response(x);
        (reply.status, reply.field("www-authenticate").unwrap_or_default().to_owned())
    };
    assert_eq!(listen(r#""file:///open","vault://public/a""#, "base").0, 200);
    assert_eq!(listen(r#""file:///Mine","vault://a""#, "base files vault").0, 200);
    let (status, challenge) = listen(r#""file:///open","file:///Mine","vault://a""#, "base vault");
    assert!(status == 403 && challenge.contains("scope=\"base files:read vault\""), "{challenge}");
    // A session subscribes to one resource at a time, and needs no scopes to end that.
    let party = |scopes| Identity::new("a").scopes(scopes);
    let x = send(&mut web, ("POST", "/mcp"), &[], &initialize_request("2025-11-25"), party("base"));
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    let named = [("Mcp-Session-Id", &*id)];
    for (n, method, scopes, status) in [
        (2, "resources/subscribe", "base", 403),
        (3, "resources/subscribe", "base files:read", 200),
        (4, "resources/unsubscribe", "base", 200),
    ] {
        let body = legacy_request(n, method, "\"uri\":\"file:///Mine\"");
        let x = send(&mut web, ("POST", "/mcp"), &named, &body, party(scopes));
        assert_eq!(web.response(x).status, status, "{method} {scopes}");
    }
}
