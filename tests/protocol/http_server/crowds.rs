//! Shares of streams and principals: which stream ends for a new one, and who is refused.

use mcp_proto::head::RequestHead;
use mcp_proto::http::server::{Config, Event, ExchangeId, Protected};
use mcp_proto::server::Identity;
use mcp_tests::harness::HttpServerHarness;

use super::{
    CALL_FIELDS, ECHO_PARAMS, answer_call, harness, initialize_request, legacy_request, modern_request,
    open_session,
};
use crate::protocol::common::secs;

fn open_get(web: &mut HttpServerHarness, session: &str) -> ExchangeId {
    web.send_request("GET", "/mcp", &[("Mcp-Session-Id", session)], "")
}

fn listen(web: &mut HttpServerHarness, id: u32) -> ExchangeId {
    let fields = [CALL_FIELDS[0], ("Mcp-Method", "subscriptions/listen")];
    web.post(
        &fields,
        &modern_request(id, "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}"),
    )
}

fn publish(web: &mut HttpServerHarness) {
    let now = web.now;
    web.server.engine().publish(now, &mcp_proto::Change::Tools);
    web.transmit_all();
}

// covers: SEC-018, SSE-018, HTTP-058
#[test]
fn new_get_stream_ends_the_quietest_one() {
    // Four exchanges, so three streams.
    let mut web = harness(Config::new().max_exchanges(4).retry(secs(2)));
    let sessions: Vec<String> = (0..4).map(|_| open_session(&mut web, "2025-11-25")).collect();
    let first = open_get(&mut web, &sessions[0]);
    web.advance(secs(1));
    let second = open_get(&mut web, &sessions[1]);
    web.advance(secs(1));
    let third = open_get(&mut web, &sessions[2]);
    web.advance(secs(40));
    // The first one gets a message; keep-alive comments are none.
    let id = legacy_request(5, "resources/subscribe", "\"uri\":\"file:///a\"");
    let x = web.post(&[("Mcp-Session-Id", &sessions[0])], &id);
    let event = web.poll_event();
    assert!(event.is_some(), "the interest in the resource");
    web.close_exchange(x);
    let now = web.now;
    web.server.engine().publish(now, &mcp_proto::Change::Resource("file:///a".into()));
    web.transmit_all();
    web.advance(secs(1));

    let fourth = open_get(&mut web, &sessions[3]);
    let is_complete = |web: &HttpServerHarness, x| web.response(x).is_complete;
    assert_eq!([first, second, third, fourth].map(|x| is_complete(&web, x)), [false, true, false, false]);
    assert!(web.response(second).body.contains("\nretry: 20000\n"), "{}", web.response(second).body);
    web.close_exchange(second);
    // Its session goes on, and its client comes back for the stream.
    let again = open_get(&mut web, &sessions[1]);
    assert_eq!(web.response(again).status, 200);
    assert!(is_complete(&web, third) && !is_complete(&web, first));
}

// covers: SEC-018, SUB-013, SUB-014
#[test]
fn new_stream_ends_the_quietest_subscription_with_its_result() {
    let mut web = harness(Config::new().max_exchanges(4));
    let streams: Vec<ExchangeId> = (1..4).map(|id| listen(&mut web, id)).collect();
    web.advance(secs(1));
    let fourth = listen(&mut web, 4);
    let ended = web.response(streams[0]);
    assert!(ended.is_complete);
    let result = ended.messages().pop().expect("the result");
    assert_eq!((&result["id"], &result["result"]["resultType"]), (&1.into(), &"complete".into()));
    assert_eq!(result["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    publish(&mut web);
    for x in [streams[1], streams[2], fourth] {
        let told = web.response(x).messages();
        assert_eq!(told.last().expect("a message")["method"], "notifications/tools/list_changed");
    }
}

// covers: SEC-018
#[test]
fn streams_of_all_shards_leave_connections_to_requests() {
    for (connections, shards, expected) in
        [(16, 4, 12), (10, 4, 7), (4, 4, 3), (8, 8, 6), (2, 2, 1), (1, 1, 1), (1, 3, 1)]
    {
        let open_streams = |shard: u8| {
            let mut web = harness(Config::new());
            web.server.set_shard(shard, shards);
            web.server.set_max_connections(connections);
            let streams: Vec<ExchangeId> = (1..=20).map(|id| listen(&mut web, id)).collect();
            streams
                .into_iter()
                .filter(|x| web.response(*x).status == 200 && !web.response(*x).is_complete)
                .count()
        };
        let open: usize = (0..shards).map(open_streams).sum();
        assert_eq!(open, expected, "{connections} connections, {shards} shards");
    }
}

// covers: SEC-018, HTTP-058
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn streams_that_owe_responses_are_not_evicted() {
    // HTTP+SSE carries responses on its stream, and its session ends with it.
    let mut web = harness(Config::new().max_exchanges(4).http_sse("/sse", "/messages"));
    let old: Vec<ExchangeId> = (0..3).map(|_| web.send_request("GET", "/sse", &[], "")).collect();
    let refused = listen(&mut web, 1);
    let reply = web.response(refused);
    assert_eq!((reply.status, reply.field("retry-after")), (503, Some("1")));
    web.close_exchange(refused);
    assert!(old.iter().all(|x| web.response(*x).status == 200 && !web.response(*x).is_complete));
    // A call on an event stream is none of these streams, however long it is silent.
    let mut web = harness(Config::new().max_exchanges(8));
    let x = web.post(&CALL_FIELDS, &modern_request(1, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    web.advance(secs(100));
    (2..20).for_each(|id| {
        let stream = listen(&mut web, id);
        assert_eq!(web.response(stream).status, 200);
        web.advance(secs(1));
    });
    answer_call(&mut web, &call);
    assert_eq!(web.response(x).messages().pop().expect("a result")["id"], 1);
}

/// Sends a request of a principal whose token is valid.
fn grant(web: &mut HttpServerHarness, principal: &str, x: ExchangeId, body: &str) {
    let Some(Event::Token { exchange, .. }) = web.server.poll_event(web.now) else { panic!("no token") };
    web.server.grant(web.now, exchange, Identity::new(principal));
    web.send_body(x, body);
}

// covers: SEC-018
#[test]
fn principal_has_a_limit_of_its_own() {
    let protected = Protected::new("https://example.com/mcp", "https://as.example").expect("valid");
    let mut web = harness(Config::new().protected(protected).max_exchanges_per_principal(2));
    let call = |web: &mut HttpServerHarness, principal: &str, id| {
        let fields: Vec<_> = CALL_FIELDS.into_iter().chain([("Authorization", "Bearer good")]).collect();
        let body = modern_request(id, "tools/call", ECHO_PARAMS);
        let x = web.post(&fields, &body);
        grant(web, principal, x, &body);
        x
    };
    let listen = |web: &mut HttpServerHarness, principal: &str, id| {
        let fields =
            [CALL_FIELDS[0], ("Mcp-Method", "subscriptions/listen"), ("Authorization", "Bearer good")];
        let body =
            modern_request(id, "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}");
        let x = web.post(&fields, &body);
        grant(web, principal, x, &body);
        x
    };
    let stream = listen(&mut web, "alice", 1);
    let first = call(&mut web, "alice", 2);
    let call_of_first = web.expect_call();
    assert_eq!(web.response(stream).status, 200);
    // Her own stream ends for her next request; a request that is answered does not.
    let second = call(&mut web, "alice", 3);
    let call_of_second = web.expect_call();
    assert!(web.response(stream).is_complete);
    web.close_exchange(stream);
    let third = call(&mut web, "alice", 4);
    let reply = web.response(third);
    assert_eq!((reply.status, reply.field("retry-after")), (503, Some("1")));
    web.close_exchange(third);
    // No other principal is affected, and a call that ends makes room for her next one.
    let other = call(&mut web, "bob", 5);
    let call_of_other = web.expect_call();
    for (x, call) in [(first, &call_of_first), (second, &call_of_second), (other, &call_of_other)] {
        answer_call(&mut web, call);
        assert_eq!(web.response(x).status, 200);
        web.close_exchange(x);
    }
    let last = call(&mut web, "alice", 6);
    let call_of_last = web.expect_call();
    answer_call(&mut web, &call_of_last);
    assert_eq!(web.response(last).status, 200);
}

// covers: SEC-005, SEC-018
#[test]
fn principal_that_needs_no_token_is_that_of_its_request() {
    let protected = Protected::new("https://example.com/mcp", "https://as.example").expect("valid");
    let body = modern_request(1, "tools/call", ECHO_PARAMS);
    for (is_protected, has_token) in [(false, false), (true, false), (true, true)] {
        let config = Config::new();
        let mut web = harness(if is_protected { config.protected(protected.clone()) } else { config });
        let token = has_token.then_some(("authorization", "Bearer bob"));
        let fields: Vec<(&str, &[u8])> = CALL_FIELDS
            .iter()
            .chain(&[("host", "localhost"), ("accept", "*/*"), ("content-type", "application/json")])
            .chain(&token)
            .map(|(name, value)| (*name, value.as_bytes()))
            .collect();
        let head = RequestHead { method: "POST", target: "/mcp", fields: &fields };
        let x = web.server.open_as(web.now, &head, None, Identity::new("alice"));
        if has_token {
            assert!(matches!(web.server.poll_event(web.now), Some(Event::Token { .. })));
            web.server.grant(web.now, x, Identity::new("bob"));
        }
        web.server.handle_body(web.now, x, body.clone().into_bytes().into());
        web.server.handle_end(web.now, x);
        if is_protected && !has_token {
            assert_eq!(
                web.server.response(x).map(|response| response.status),
                Some(401),
                "tokens alone decide"
            );
        } else {
            let call = web.expect_call();
            let expected = if has_token { "bob" } else { "alice" };
            assert_eq!(call.authorization().map(|party| party.principal()), Some(expected));
        }
    }
}

// covers: HTTP-073, SEC-018
#[test]
fn principal_at_its_limit_can_end_its_session() {
    let protected = Protected::new("https://example.com/mcp", "https://as.example").expect("valid");
    let mut web = harness(Config::new().protected(protected).max_exchanges_per_principal(2));
    web.server.set_validator(|_| Some(Ok(Identity::new("alice").into())));
    let token = ("Authorization", "Bearer good");
    let x = web.post(&[token], &initialize_request("2025-11-25"));
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    let fields = [("Mcp-Session-Id", &*id), token];
    let calls = [2, 3].map(|request| web.post(&fields, &legacy_request(request, "tools/call", ECHO_PARAMS)));
    for (method, status) in [("POST", 503), ("GET", 503), ("DELETE", 204)] {
        let body = if method == "POST" { legacy_request(4, "ping", "") } else { String::new() };
        let x = web.send_request(method, "/mcp", &fields, &body);
        assert_eq!(web.response(x).status, status, "{method}");
    }
    assert!(calls.iter().all(|x| web.response(*x).is_complete) && web.server.session_count() == 0);
}
