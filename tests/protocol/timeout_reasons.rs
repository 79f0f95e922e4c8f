//! The reason of each deadline, as a driver reads it.

use alloc::sync::Arc;

use mcp_proto::h1::{self, HttpLimits};
use mcp_proto::http::client::{Client, Config as ClientConfig, ConnectionPool, PoolLimits};
use mcp_proto::http::server::{Config, Connection, Protected};
use mcp_proto::pipe::Pipe;
use mcp_proto::{CallOptions, Change, Instant, Progress, TimeoutReason, Version, VersionSet};
use mcp_tests::harness::build::{legacy_request, modern_request, modern_request_with};
use mcp_tests::harness::{
    Chunker, ClientHarness, ENDPOINT, HttpClientHarness, HttpServerHarness, PipeHarness, ServerHarness,
};
use serde_json::json;

use super::http_server::{CALL_FIELDS, ECHO_PARAMS, harness as web_harness, initialize_request};
use crate::protocol::common::{client, limits, ms, secs, server};

/// Returns when the next deadline is, after now, and its reason.
fn next<P: Pipe>(harness: &mut PipeHarness<P>) -> (u64, TimeoutReason) {
    let reason = harness.pipe.timeout_reason().expect("a deadline");
    let at = harness.pipe.poll_timeout().expect("a deadline");
    (at.saturating_duration_since(harness.now).as_millis() as u64, reason)
}

/// Lets the buffers of an idle engine be freed, which would be the first deadline otherwise.
fn trim<P: Pipe>(harness: &mut PipeHarness<P>) {
    harness.advance(secs(2));
}

fn server_harness() -> ServerHarness {
    ServerHarness::server(server(VersionSet::ALL), Chunker::Whole)
}

fn next_of_web(web: &mut HttpServerHarness) -> (u64, TimeoutReason) {
    let reason = web.server.timeout_reason().expect("a deadline");
    let at = web.server.poll_timeout().expect("a deadline");
    (at.saturating_duration_since(web.now).as_millis() as u64, reason)
}

fn next_of_client(harness: &mut HttpClientHarness) -> (u64, TimeoutReason) {
    let reason = harness.client.timeout_reason().expect("a deadline");
    let at = harness.client.poll_timeout().expect("a deadline");
    (at.saturating_duration_since(harness.now).as_millis() as u64, reason)
}

#[test]
fn machine_without_deadline_has_no_reason() {
    let mut harness = server_harness();
    assert_eq!((harness.pipe.poll_timeout(), harness.pipe.timeout_reason()), (None, None));
    let mut web = web_harness(Config::new());
    assert_eq!((web.server.poll_timeout(), web.server.timeout_reason()), (None, None));
    let mut pool = ConnectionPool::new(PoolLimits::default());
    assert_eq!((pool.poll_timeout(), pool.timeout_reason()), (None, None));
}

#[test]
fn client_names_handshake_call_ping_and_buffers() {
    let mut harness = ClientHarness::client(client(VersionSet::ALL), Chunker::Whole);
    assert_eq!(next(&mut harness), (10_000, TimeoutReason::Negotiation));
    harness.become_modern(json!({"tools": {}}));
    let (_, reason) = next(&mut harness);
    assert_eq!(reason, TimeoutReason::Trim);
    trim(&mut harness);
    assert_eq!(harness.pipe.timeout_reason(), None);
    harness.start_call("tools/call", &json!({"name": "slow"}), &CallOptions::new());
    assert_eq!(next(&mut harness), (60_000, TimeoutReason::Call));

    let config = client(VersionSet::ALL).keep_alive_ping(secs(10), 2);
    let mut harness = ClientHarness::client(config, Chunker::Whole);
    harness.become_legacy(Version::V2025_11_25, json!({"tools": {}}));
    trim(&mut harness);
    assert_eq!(next(&mut harness), (8_000, TimeoutReason::KeepAlive));
}

#[test]
fn server_names_call_grace_period_and_held_notifications() {
    let config = server(VersionSet::ALL).limits(limits(|limits| limits.progress_burst = 1));
    let mut harness = ServerHarness::server(config, Chunker::Whole);
    let request = modern_request_with(1, "tools/call", json!({"name": "a"}), &json!({"progressToken": 1}));
    let call = harness.expect_call_for(&request);
    trim(&mut harness);
    assert_eq!(next(&mut harness), (3_598_000, TimeoutReason::CallAge));
    for n in 1..=2 {
        let now = harness.now;
        harness.pipe.engine().progress(now, call.id(), Progress::new(n.into())).expect("open");
    }
    assert_eq!(next(&mut harness), (50, TimeoutReason::Notification));
    harness.advance(ms(50));
    harness.eof();
    assert_eq!(next(&mut harness), (5_000, TimeoutReason::GracePeriod));
}

#[test]
fn server_names_held_changes_and_tasks() {
    use mcp_proto::server::TaskTable;
    use mcp_proto::{Anchor, Capabilities, Capability, Entropy};

    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
    let limits = limits(|limits| limits.outbox_high_water = 2_000);
    let config = server(VersionSet::ALL).capabilities(capabilities).limits(limits);
    let mut harness = ServerHarness::server(config, Chunker::Whole);
    let filter = json!({"notifications": {"toolsListChanged": true}});
    harness.feed_message(&modern_request("listen", "subscriptions/listen", filter));
    let call = harness.expect_call_for(&modern_request(2, "tools/list", json!({})));
    trim(&mut harness);
    // No more changes are written behind as much as this.
    harness.is_blocked = true;
    let now = harness.now;
    let long = json!({"tools": [], "note": "x".repeat(3_000)});
    harness.pipe.engine().complete(now, call.id(), &long).expect("open");
    harness.pipe.engine().publish(now, &Change::Tools);
    assert_eq!(next(&mut harness), (50, TimeoutReason::Changes));

    let mut harness = server_harness();
    let table = TaskTable::new(Entropy::new([9; 32], 0), Anchor::new(Instant::ZERO, 1_785_578_400));
    harness.pipe.engine().set_tasks(Instant::ZERO, table);
    harness.open_session(Version::V2025_11_25);
    let params = json!({"name": "dredge", "arguments": {}, "task": {"ttl": 60_000}});
    let call = harness.expect_call_for(&legacy_request(5, "tools/call", params));
    let now = harness.now;
    harness.pipe.engine().tasks(now).begin(&call, mcp_proto::server::TaskOptions::new()).expect("room");
    harness.pump();
    trim(&mut harness);
    assert_eq!(next(&mut harness).1, TimeoutReason::Task);
}

#[test]
fn http_server_names_stream_session_and_token() {
    let mut web = web_harness(Config::new());
    let body = super::http_server::modern_request(1, "tools/call", ECHO_PARAMS);
    web.post(&CALL_FIELDS, &body);
    let _call = web.expect_call();
    web.advance(secs(2));
    assert_eq!(next_of_web(&mut web).1, TimeoutReason::EventStream);

    let mut web = web_harness(Config::new());
    web.post(&[], &initialize_request("2025-11-25"));
    while web.poll_event().is_some() {}
    web.advance(secs(2));
    assert_eq!(next_of_web(&mut web).1, TimeoutReason::Session);

    let protected = Protected::new("https://example.com/mcp", "https://as.example").expect("valid");
    let mut web = web_harness(Config::new().protected(protected));
    let fields = [&CALL_FIELDS[..], &[("Authorization", "Bearer x")]].concat();
    web.post(&fields, &body);
    assert!(web.server.poll_event(web.now).is_some(), "the token");
    assert_eq!(next_of_web(&mut web).1, TimeoutReason::TokenDecision);
}

#[test]
fn http_client_names_response_retry_credential_and_session() {
    let config = HttpClientHarness::default_http_config;
    let mut harness = HttpClientHarness::new(client(VersionSet::MODERN), config(), Chunker::Whole);
    harness.become_modern(json!({"tools": {}}));
    harness.advance(secs(2));
    let (_, request) = harness.start_wave_call(&CallOptions::new().idempotent());
    assert_eq!(next_of_client(&mut harness).1, TimeoutReason::Call);
    harness.break_connection(request.id);
    harness.pump();
    assert_eq!(next_of_client(&mut harness).1, TimeoutReason::Retry);

    let config = config().handle_challenges(true);
    let mut harness = HttpClientHarness::new(client(VersionSet::MODERN), config, Chunker::Whole);
    let probe = harness.expect_post("server/discover");
    harness.respond_with(probe.id, 401, &[("WWW-Authenticate", "Bearer")], "");
    harness.expect_challenge();
    assert_eq!(next_of_client(&mut harness).1, TimeoutReason::Credential);

    let config = HttpClientHarness::default_http_config();
    let mut harness = HttpClientHarness::new(client(VersionSet::LEGACY), config, Chunker::Whole);
    harness.initialize_legacy(Version::V2025_11_25, Some("s"), json!({"tools": {}}));
    harness.advance(secs(2));
    assert_eq!(next_of_client(&mut harness).1, TimeoutReason::Response);
}

#[test]
fn connection_names_what_it_waits_for() {
    let now = Instant::from_micros(1);
    let mut limits = HttpLimits::default();
    limits.idle_trim = secs(3_600);
    let mut server = h1::server::Connection::new(now, limits);
    assert_eq!(server.timeout_reason(), Some(TimeoutReason::IdleConnection));
    server.handle_input(now, b"POST / HTTP/1.1\r\nHost: h\r\n");
    assert_eq!(server.timeout_reason(), Some(TimeoutReason::Head));
    server.handle_input(now, b"Content-Length: 9\r\n\r\nx");
    while server.poll_event(now, |_, _| ()).is_some() {}
    assert_eq!(server.timeout_reason(), Some(TimeoutReason::Body));
    let mut server = h1::server::Connection::new(now, HttpLimits::default());
    server.handle_input(now, b"nonsense\r\n\r\n");
    while server.poll_event(now, |_, _| ()).is_some() {}
    server.consume(server.unsent_len());
    assert_eq!(server.timeout_reason(), Some(TimeoutReason::Linger));

    let mut server = web_harness(Config::new()).server;
    let mut connection = Connection::new(now, HttpLimits::default());
    assert_eq!(connection.timeout_reason(), Some(TimeoutReason::IdleConnection));
    connection.handle_input(now, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    connection.drive(now, &mut server);
    assert!(!connection.transmit().is_empty());
    assert_eq!(connection.timeout_reason(), Some(TimeoutReason::SlowReader));
}

#[test]
fn pool_names_the_connection_that_is_not_established() {
    let config = ClientConfig::new(ENDPOINT).expect("a URL");
    let mut client = Client::new(Arc::new(client(VersionSet::ALL)), Arc::new(config), Instant::ZERO);
    let mut pool = ConnectionPool::new(PoolLimits::default());
    assert!(pool.poll_event(Instant::ZERO, &mut client).is_none());
    let (connection, _) = pool.poll_connect().expect("a connection");
    assert_eq!(pool.timeout_reason(), Some(TimeoutReason::Connect));
    pool.handle_connected(Instant::ZERO, connection);
    assert!(pool.poll_event(Instant::ZERO, &mut client).is_none());
    pool.consume(connection, pool.transmit(connection).len());
    let now = Instant::ZERO + secs(1);
    pool.handle_input(now, connection, b"HTTP/1.1 ");
    assert!(pool.poll_event(now, &mut client).is_none());
    assert_eq!(pool.timeout_reason(), Some(TimeoutReason::Head));
}
