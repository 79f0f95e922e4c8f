//! Wrong driving, which a debug build tells at once. In a release build it has the outcome that the contract names.

#![cfg(debug_assertions)]

use alloc::sync::Arc;

use mcp_proto::h1::{HttpLimits, server};
use mcp_proto::http::client::{Client as HttpClient, ConnectionPool, PoolLimits};
use mcp_proto::http::server::Connection;
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::{CallOptions, Instant, VersionSet};
use mcp_tests::harness::{Chunker, HttpClientHarness, HttpServerHarness};
use serde_json::json;

use super::http_server::{CALL_FIELDS, harness as web_harness, modern_request};
use crate::protocol::common::{client, ms, secs, server as config};

const NOW: Instant = Instant::from_micros(5_000_000);
const PING: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";

const INITIALIZE: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\",\
    \"capabilities\":{},\"clientInfo\":{\"name\":\"x\",\"version\":\"1\"}}}\n\
    {\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

const INITIALIZED: &[u8] = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-11-25\",\
    \"capabilities\":{},\"serverInfo\":{\"name\":\"x\",\"version\":\"1\"}}}\n";

fn pipe_server() -> Server {
    Server::new(Arc::new(config(VersionSet::ALL)), NOW)
}

/// Returns a server with a session, which pings once a second.
fn pinging_server() -> Server {
    let mut server = Server::new(Arc::new(config(VersionSet::ALL).keep_alive_ping(secs(1), 1_000)), NOW);
    server.handle_input(NOW, INITIALIZE);
    while server.poll_event(NOW).is_some() {}
    server
}

fn pipe_client() -> Client {
    Client::new(Arc::new(client(VersionSet::ALL)), NOW)
}

// ---- time ---------------------------------------------------------------------------------------------------------

#[test]
#[should_panic(expected = "time does not go back")]
fn input_before_the_last_instant_is_told() {
    pipe_server().handle_input(NOW - ms(1), PING);
}

#[test]
#[should_panic(expected = "time does not go back")]
fn command_before_the_last_instant_is_told() {
    let now = NOW - ms(1);
    let _ = pipe_client().engine().call(now, "tools/list", &json!({}), &CallOptions::new());
}

#[test]
#[should_panic(expected = "time does not go back")]
fn http_server_before_the_last_instant_is_told() {
    let mut web = web_harness(mcp_proto::http::server::Config::new());
    web.server.handle_timeout(NOW);
    web.server.poll_event(NOW - ms(1));
}

#[test]
#[should_panic(expected = "time does not go back")]
fn connection_before_the_last_instant_is_told() {
    server::Connection::new(NOW, HttpLimits::default()).handle_input(NOW - ms(1), b"GET");
}

// ---- output -------------------------------------------------------------------------------------------------------

#[test]
#[should_panic(expected = "consume what was written")]
fn consuming_more_than_the_output_is_told() {
    let mut client = pipe_client();
    client.consume(client.transmit().len() + 1);
}

#[test]
#[should_panic(expected = "consume what was written")]
fn consuming_the_same_bytes_twice_is_told() {
    let mut client = pipe_client();
    let written = client.transmit().len();
    client.consume(written);
    client.consume(written);
}

#[test]
#[should_panic(expected = "consume what was written")]
fn consuming_more_than_the_output_of_a_connection_is_told() {
    server::Connection::new(NOW, HttpLimits::default()).consume(1);
}

/// A write that the system does later is reported later.
#[test]
fn bytes_that_were_dropped_meanwhile_may_be_consumed() {
    let mut server = pipe_server();
    server.handle_input(NOW, PING);
    while server.poll_event(NOW).is_some() {}
    let written = server.transmit().len();
    assert!(written > 0);
    server.abort(NOW, &mcp_proto::Fault::Closed);
    assert!(server.transmit().is_empty());
    server.consume(written);
}

// ---- order --------------------------------------------------------------------------------------------------------

#[test]
#[should_panic(expected = "poll until there is nothing before you wait")]
fn events_that_are_never_polled_are_told() {
    let mut server = pinging_server();
    // Each ping is missed, which is an event.
    while let Some(at) = server.poll_timeout() {
        server.handle_timeout(at);
    }
}

#[test]
#[should_panic(expected = "poll until there is nothing before you wait")]
fn input_that_is_never_polled_is_told() {
    let mut server = pinging_server();
    server.handle_input(NOW, PING);
    while let Some(at) = server.poll_timeout() {
        server.handle_timeout(at);
    }
}

/// Returns a client of a legacy server, which pings once a second.
fn pinging_client() -> Client {
    let config = client(VersionSet::LEGACY).keep_alive_ping(secs(1), 1_000);
    let mut client = Client::new(Arc::new(config), NOW);
    client.handle_input(NOW, INITIALIZED);
    while client.poll_event(NOW).is_some() {}
    client
}

#[test]
#[should_panic(expected = "poll until there is nothing before you wait")]
fn events_of_a_client_that_are_never_polled_are_told() {
    let mut client = pinging_client();
    while let Some(at) = client.poll_timeout() {
        client.handle_timeout(at);
    }
}

#[test]
fn closed_client_has_no_deadline() {
    let mut client = pipe_client();
    assert_eq!(client.poll_timeout_without_trim(), Some(NOW + secs(10)));
    client.engine().close(NOW);
    assert_eq!(client.poll_timeout_without_trim(), None);
}

#[test]
fn deadlines_of_a_client_without_events_need_no_poll() {
    let (mut client, mut now) = (pinging_client(), NOW);
    for _ in 0..100 {
        // A ping, which the server answers.
        let engine = client.engine();
        now = engine.poll_timeout().expect("the next ping");
        engine.handle_timeout(now);
        let channel = engine.open_channel(now);
        while let Some(sent) = engine.outbox(channel).and_then(|outbox| outbox.pop_message()) {
            let sent: serde_json::Value = serde_json::from_slice(&sent).expect("JSON");
            if sent["method"] == "ping" {
                let answer = json!({"jsonrpc": "2.0", "id": sent["id"], "result": {}});
                engine.handle_message(now, channel, answer.to_string().into());
            }
        }
    }
    assert!(client.poll_event(now).is_none(), "no ping was missed");
}

#[test]
#[should_panic(expected = "poll until there is nothing before you wait")]
fn deadline_of_a_connection_that_is_not_driven_is_told() {
    let mut connection = Connection::new(NOW, HttpLimits::default());
    loop {
        let at = connection.poll_timeout().expect("an idle connection ends when it is driven");
        connection.handle_timeout(at);
    }
}

#[test]
#[should_panic(expected = "poll until there is nothing before you wait")]
fn deadline_that_comes_back_without_a_poll_is_told() {
    let mut connection = server::Connection::new(NOW, HttpLimits::default());
    loop {
        let at = connection.poll_timeout().expect("an idle connection ends");
        connection.handle_timeout(at);
        assert_eq!(connection.poll_timeout(), Some(at), "its effect appears at the next poll");
    }
}

#[test]
#[should_panic(expected = "poll until there is nothing before you wait")]
fn events_of_an_http_client_that_are_never_polled_are_told() {
    let http = HttpClientHarness::default_http_config();
    let mut harness = HttpClientHarness::new(client(VersionSet::MODERN), http, Chunker::Whole);
    harness.become_modern(json!({"tools": {}}));
    // They wait in the outbox, so that there is no action.
    for n in 1..=40 {
        let options = CallOptions::new().timeout(ms(n));
        harness.client.engine().call(harness.now, "tools/list", &json!({}), &options).expect("room");
    }
    for n in 1..=40 {
        harness.client.handle_timeout(harness.now + ms(n));
    }
}

/// Passes the deadline of a pool again and again.
fn pass_deadline_of_a_pool(times: u32) {
    let http = Arc::new(HttpClientHarness::default_http_config());
    let mut client = HttpClient::new(Arc::new(client(VersionSet::ALL)), http, NOW);
    let mut pool = ConnectionPool::new(PoolLimits::default());
    assert!(pool.poll_event(NOW, &mut client).is_none());
    let at = pool.poll_timeout().expect("a connection is being established");
    for _ in 0..times {
        pool.handle_timeout(at);
    }
}

#[test]
#[should_panic(expected = "poll until there is nothing before you wait")]
fn deadline_of_a_pool_that_is_not_driven_is_told() {
    pass_deadline_of_a_pool(33);
}

/// Nothing is there to poll when the first of them passes.
#[test]
fn deadline_of_a_pool_may_be_passed_32_times() {
    pass_deadline_of_a_pool(32);
}

/// Inputs come in any order and number, so two events of one wait may each call `handle_timeout`.
#[test]
fn deadline_may_be_passed_again_before_the_poll() {
    let mut connection = server::Connection::new(NOW, HttpLimits::default());
    let at = connection.poll_timeout().expect("an idle connection ends");
    for part in [&b"GET / "[..], b"HTTP/1.1\r\n"] {
        connection.handle_timeout(at);
        connection.handle_input(at, part);
    }
    while connection.poll_event(at, |_, _| ()).is_some() {}
}

/// An application may be slow for a while.
#[test]
fn events_may_wait_for_some_deadlines() {
    let mut client = pipe_client();
    for _ in 0..20 {
        let Some(at) = client.poll_timeout() else { break };
        client.handle_timeout(at);
    }
    let now = NOW + secs(100_000);
    assert!(client.poll_event(now).is_some());
}

#[test]
fn each_deadline_may_be_followed_by_one_poll() {
    let mut client = pipe_client();
    while let Some(at) = client.poll_timeout() {
        client.handle_timeout(at);
        assert!(client.poll_timeout().is_none_or(|next| next > at), "one call is enough for an instant");
        while client.poll_event(at).is_some() {}
    }
    assert!(client.is_drained() || !client.transmit().is_empty());
}

// ---- a clock that stands still --------------------------------------------------------------------------------------

#[test]
#[should_panic(expected = "read the clock after each wait")]
fn loop_whose_clock_stands_still_is_told() {
    let mut client = pipe_client();
    loop {
        assert!(client.poll_timeout().is_some_and(|at| at > NOW));
        client.handle_timeout(NOW);
        assert!(client.poll_event(NOW).is_none());
    }
}

#[test]
fn calls_without_need_have_no_effect_while_the_clock_advances() {
    let mut client = pipe_client();
    for n in 0..50_000 {
        let now = NOW + core::time::Duration::from_micros(n / 100);
        client.handle_timeout(now);
        assert!(client.poll_event(now).is_none());
    }
    assert!(client.poll_timeout().is_some_and(|at| at == NOW + secs(10)));
}

/// Returns a server over HTTP with a stream whose client reads nothing: it has a deadline every fifteen seconds, and no output.
fn web_with_a_slow_reader() -> HttpServerHarness {
    let mut web = web_harness(mcp_proto::http::server::Config::new());
    web.auto_transmits = false;
    let listen = modern_request(1, "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}");
    web.post(&[CALL_FIELDS[0], ("Mcp-Method", "subscriptions/listen")], &listen);
    drain(&mut web);
    while web.poll_event().is_some() {}
    web
}

fn drain(web: &mut HttpServerHarness) {
    while web.server.poll_ready(web.now).is_some() {}
}

fn pass_deadlines(web: &mut HttpServerHarness) {
    for _ in 0..100 {
        web.now = web.server.poll_timeout().expect("the stream is open");
        web.server.handle_timeout(web.now);
    }
}

#[test]
fn deadlines_of_a_web_server_without_output_may_pass() {
    let mut web = web_with_a_slow_reader();
    pass_deadlines(&mut web);
    drain(&mut web);
}

#[test]
#[should_panic(expected = "poll until there is nothing before you wait")]
fn exchanges_that_are_never_polled_are_told() {
    let mut web = web_with_a_slow_reader();
    web.send_request("GET", "/nowhere", &[], "");
    pass_deadlines(&mut web);
}

#[test]
#[should_panic(expected = "poll until there is nothing before you wait")]
fn events_of_a_web_server_that_are_never_polled_are_told() {
    let mut web = web_with_a_slow_reader();
    web.send_request("GET", "/mcp", &[("Host", "evil.example")], "");
    drain(&mut web);
    pass_deadlines(&mut web);
}

#[test]
#[should_panic(expected = "poll until there is nothing before you wait")]
fn events_of_its_engine_that_are_never_polled_are_told() {
    let mut web = web_with_a_slow_reader();
    let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    web.post(&[CALL_FIELDS[0], ("Mcp-Method", "notifications/cancelled")], note);
    drain(&mut web);
    pass_deadlines(&mut web);
}

/// One instant is long enough for any number of bytes.
#[test]
fn input_and_output_in_pieces_take_no_time() {
    let mut server = pinging_server();
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"_meta":{{"x":"{}"}}}}}}"#,
        "x".repeat(20_000)
    );
    for byte in line.bytes() {
        server.handle_timeout(NOW);
        server.handle_input(NOW, &[byte]);
        assert!(server.poll_event(NOW).is_none());
    }
    let mut web = web_harness(mcp_proto::http::server::Config::new());
    for _ in 0..20_000 {
        web.server.handle_timeout(NOW);
        assert!(web.server.poll_event(NOW).is_none());
    }
}
