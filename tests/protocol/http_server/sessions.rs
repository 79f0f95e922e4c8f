//! Sessions: idle time, limits per principal, and eviction.

use mcp_proto::http::server::Config;
use mcp_proto::http::server::{Event, ExchangeId, Protected};
use mcp_proto::server::Identity;
use mcp_tests::harness::HttpServerHarness;

use super::{ECHO_PARAMS, answer_call, harness, initialize_request, legacy_request, open_session};
use crate::protocol::common::secs;

fn session_exists(web: &mut HttpServerHarness, id: &str) -> bool {
    let x = web.post(&[("Mcp-Session-Id", id)], &legacy_request(9, "ping", ""));
    match web.response(x).status {
        200 => true,
        404 => false,
        other => panic!("{other}"),
    }
}

// covers: HTTP-070, HTTP-062
#[test]
fn session_idle_time_starts_at_the_end_of_its_last_exchange() {
    let mut web = harness(Config::new().session_idle_timeout(secs(100)));
    let (calls, listens) = (open_session(&mut web, "2025-11-25"), open_session(&mut web, "2025-11-25"));
    let x = web.post(&[("Mcp-Session-Id", &calls)], &legacy_request(2, "tools/call", ECHO_PARAMS));
    let call = web.expect_call();
    let get = web.send_request("GET", "/mcp", &[("Mcp-Session-Id", &listens)], "");
    web.advance(secs(300));
    answer_call(&mut web, &call);
    assert!(web.response(x).is_complete);
    web.close_exchange(get);
    // The full idle time starts after a long exchange: a person may read, and a client may reconnect.
    web.advance(secs(50));
    assert!(session_exists(&mut web, &calls) && session_exists(&mut web, &listens));
    web.advance(secs(150));
    assert_eq!(web.server.session_count(), 0);
}

/// Sends a request that is authorized for `principal`.
fn send_as(web: &mut HttpServerHarness, principal: &str, fields: &[(&str, &str)], body: &str) -> ExchangeId {
    let fields: Vec<_> = fields.iter().copied().chain([("Authorization", "Bearer good")]).collect();
    let x = web.post(&fields, body);
    let Some(Event::Token { exchange, .. }) = web.server.poll_event(web.now) else { panic!("no token") };
    web.server.grant(web.now, exchange, Identity::new(principal));
    web.send_body(x, body);
    x
}

// covers: SEC-018
#[test]
fn principal_beyond_its_session_limit_evicts_only_its_own() {
    let protected = Protected::new("https://example.com/mcp", "https://as.example").expect("valid");
    let mut web = harness(Config::new().protected(protected).max_sessions(10, 3));
    let open = |web: &mut HttpServerHarness, principal: &str| {
        let x = send_as(web, principal, &[], &initialize_request("2025-11-25"));
        let reply = web.response(x);
        assert_eq!(reply.status == 503, reply.field("mcp-session-id").is_none());
        reply.field("mcp-session-id").map(str::to_owned)
    };
    let is_open = |web: &mut HttpServerHarness, principal: &str, id: &str| {
        let x = send_as(web, principal, &[("Mcp-Session-Id", id)], &legacy_request(9, "ping", ""));
        web.response(x).status == 200
    };
    let other = open(&mut web, "other").expect("a session");
    let many: Vec<String> =
        (0..20).map(|_| open(&mut web, "greedy").expect("the oldest session is evicted")).collect();
    assert_eq!(web.server.session_count(), 4);
    assert!(is_open(&mut web, "other", &other), "the oldest session, of another principal, stays open");
    let remaining: Vec<bool> = many.iter().map(|id| is_open(&mut web, "greedy", id)).collect();
    assert_eq!(remaining.iter().filter(|remaining| **remaining).count(), 3);
    assert!(remaining[17..].iter().all(|remaining| *remaining));
    // Sessions in use are not evicted.
    for id in &many[17..] {
        let done = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
        send_as(&mut web, "greedy", &[("Mcp-Session-Id", id)], done);
        assert!(web.server.poll_event(web.now).is_some());
    }
    assert_eq!(open(&mut web, "greedy"), None);
    assert!(open(&mut web, "other").is_some());
}

#[test]
fn index_of_an_exchange_is_the_smallest_that_was_free() {
    let mut web = harness(Config::new());
    web.auto_transmits = false;
    let mut open = || web.send_request("GET", "/nowhere", &[], "");
    let exchanges = [open(), open(), open()];
    assert_eq!(exchanges.map(ExchangeId::index), [0, 1, 2]);
    web.close_exchange(exchanges[1]);
    assert_eq!(web.send_request("GET", "/nowhere", &[], "").index(), 1);
}

#[test]
fn configuration_is_shown_as_it_was_set() {
    let config = Config::new().path("/tides").session_idle_timeout(secs(80)).store_timeout(secs(3));
    let web = harness(config);
    let config = web.server.config();
    assert_eq!((config.endpoint_path(), config.record_lifetime()), ("/tides", secs(90)));
}
