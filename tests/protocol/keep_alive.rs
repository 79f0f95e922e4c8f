//! Keep-alive pings of both engines, on a byte stream and over HTTP.

use core::time::Duration;

use mcp_proto::http::server::Config as HttpConfig;
use mcp_proto::pipe::Pipe;
use mcp_proto::server::Event;
use mcp_proto::{CallError, CallOptions, Diagnostic, Fault, Version, VersionSet};
use mcp_tests::harness::build::{
    LEGACY_VERSIONS, error_response, initialize_request, legacy_request, notification, result_response,
};
use mcp_tests::harness::{
    Chunker, ClientHarness, HttpClientHarness, HttpServerHarness, Pair, ServerHarness, for_each_chunker,
};
use mcp_tests::schema::MessageDirection;
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, ms, secs, server};

const INTERVAL: Duration = secs(10);

/// Returns a ready client that pings, with two misses allowed.
fn pinging_client(version: Version, cut: Chunker) -> ClientHarness {
    let config = client(VersionSet::ALL).keep_alive_ping(INTERVAL, 2);
    let mut harness = ClientHarness::client(config, cut);
    harness.become_legacy(version, json!({"tools": {}}));
    harness
}

/// Returns a server that pings, with two misses allowed, and an open session.
fn pinging_server(version: Version, cut: Chunker) -> ServerHarness {
    let config = server(VersionSet::ALL).keep_alive_ping(INTERVAL, 2);
    let mut harness = ServerHarness::server(config, cut);
    harness.open_session(version);
    harness
}

fn missed(misses: u32) -> Diagnostic {
    Diagnostic::PingMissed { misses }
}

/// Takes the cancellation of a ping and the next ping.
fn expect_next_ping(sent: &[Value], cancelled: &Value) -> Value {
    let [cancellation, ping] = sent else { panic!("a cancellation and a ping, not {sent:?}") };
    assert_eq!(cancellation["method"], "notifications/cancelled");
    assert_eq!(cancellation["params"]["requestId"], cancelled["id"]);
    assert_eq!(ping["method"], "ping");
    assert_ne!(ping["id"], cancelled["id"]);
    ping.clone()
}

// covers: PING-003, PING-004, PING-005
#[test]
fn client_closes_connection_after_too_many_missed_pings() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = pinging_client(version, cut);
            harness.advance(INTERVAL - ms(1));
            harness.assert_idle();
            harness.advance(ms(1));
            let mut ping = harness.expect_request("ping");
            assert!(ping.get("params").is_none(), "{ping}");
            for misses in 1..=2 {
                harness.advance(INTERVAL - ms(1));
                harness.assert_idle();
                harness.advance(ms(1));
                assert_eq!(harness.expect_diagnostic(), missed(misses));
                ping = expect_next_ping(&harness.take_sent(), &ping);
            }
            harness.advance(INTERVAL);
            assert_eq!(harness.expect_closed(), Fault::PingTimeout { misses: 3 });
            harness.take_sent();
            assert!(harness.pipe.is_drained());
            harness.advance(secs(1_000));
            harness.assert_idle();
            harness.transcript
        });
    }
}

// covers: PING-003, PING-004, PING-005
#[test]
fn server_closes_channel_after_too_many_missed_pings() {
    for version in LEGACY_VERSIONS {
        for_each_chunker(|cut| {
            let mut harness = pinging_server(version, cut);
            let call = harness.expect_call_for(&legacy_request(1, "tools/call", json!({"name": "slow"})));
            harness.advance(INTERVAL);
            let mut ping = harness.expect_reply();
            assert_eq!(ping["method"], "ping");
            for misses in 1..=2 {
                harness.advance(INTERVAL);
                assert_eq!(harness.expect_diagnostic(), missed(misses));
                ping = expect_next_ping(&harness.take_sent(), &ping);
            }
            harness.advance(INTERVAL);
            harness.expect_cancelled(&call);
            assert_eq!(harness.expect_closed(), Fault::PingTimeout { misses: 3 });
            assert!(harness.pipe.is_drained() && harness.pipe.poll_timeout_without_trim().is_none());
            harness.transcript
        });
    }
}

// covers: PING-004, PING-005
#[test]
fn late_answer_and_any_other_message_count_as_signs_of_life() {
    for_each_chunker(|cut| {
        let mut harness = pinging_client(Version::V2025_11_25, cut);
        harness.advance(INTERVAL);
        let first = harness.expect_request("ping");
        harness.advance(INTERVAL);
        assert_eq!(harness.expect_diagnostic(), missed(1));
        let second = expect_next_ping(&harness.take_sent(), &first);
        harness.advance(INTERVAL);
        assert_eq!(harness.expect_diagnostic(), missed(2));
        let third = expect_next_ping(&harness.take_sent(), &second);
        // The answer to the first ping, after two misses: the count starts again.
        harness.feed_message(&result_response(&first, json!({})));
        assert!(matches!(harness.expect_diagnostic(), Diagnostic::LateResponse(_)));
        harness.advance(INTERVAL);
        // The third ping was not answered, but the peer lives.
        let sent = harness.take_sent();
        let fourth = expect_next_ping(&sent, &third);
        // An error is an answer, too.
        harness.feed_message(&error_response(&fourth, -32601, "Method not found", Value::Null));
        harness.advance(INTERVAL);
        let fifth = harness.expect_request("ping");
        harness.advance(INTERVAL);
        assert_eq!(harness.expect_diagnostic(), missed(1));
        let sixth = expect_next_ping(&harness.take_sent(), &fifth);
        harness.feed_message(&result_response(&sixth, json!({})));
        harness.assert_works();
        harness.transcript
    });
}

// covers: PING-004
#[test]
fn busy_connection_is_not_pinged() {
    for_each_chunker(|cut| {
        let mut harness = pinging_server(Version::V2025_06_18, cut);
        for n in 0..20 {
            harness.advance(INTERVAL - ms(1));
            harness.assert_nothing_sent();
            harness.feed_message(&notification("notifications/x", json!({"n": n})));
            assert!(matches!(harness.expect_event(), Event::Notification(_)));
        }
        // A part of a message is input, too.
        let long = legacy_request(1, "ping", json!({})).to_string() + "\n";
        for part in long.as_bytes().chunks(20) {
            harness.advance(INTERVAL - ms(1));
            harness.assert_nothing_sent();
            harness.feed_bytes(part);
        }
        assert_eq!(harness.expect_reply()["id"], 1);
        harness.advance(INTERVAL);
        assert_eq!(harness.expect_reply()["method"], "ping");
        harness.transcript
    });
}

// covers: PING-004, PING-006, LIFE-006
#[test]
fn pings_are_off_by_default_and_never_sent_before_initialized_or_in_modern_era() {
    let mut client_ =
        ClientHarness::client(client(VersionSet::ALL).keep_alive_ping(INTERVAL, 0), Chunker::Whole);
    client_.become_modern(json!({"tools": {}}));
    client_.advance(secs(1_000));
    client_.assert_idle();
    let mut plain = ClientHarness::client(client(VersionSet::ALL), Chunker::Whole);
    plain.become_legacy(Version::V2025_11_25, json!({"tools": {}}));
    plain.advance(secs(1_000));
    plain.assert_idle();

    let config = server(VersionSet::ALL).keep_alive_ping(INTERVAL, 0);
    let mut half_open = ServerHarness::server(config, Chunker::Whole);
    half_open.feed_message(&initialize_request(0, "2025-11-25"));
    half_open.expect_reply();
    half_open.advance(secs(1_000));
    half_open.assert_idle();
    half_open.feed_message(&notification("notifications/initialized", Value::Null));
    assert!(matches!(half_open.expect_event(), Event::SessionOpened { .. }));
    half_open.advance(INTERVAL);
    assert_eq!(half_open.expect_reply()["method"], "ping");
    half_open.advance(INTERVAL);
    assert_eq!(half_open.expect_closed(), Fault::PingTimeout { misses: 1 }, "no miss is allowed");
}

// covers: PING-002, PING-004
#[test]
fn idle_pair_stays_connected() {
    for versions in [VersionSet::MODERN, VersionSet::only(Version::V2024_11_05)] {
        let (client, server) =
            (client(versions).keep_alive_ping(secs(3), 0), server(versions).keep_alive_ping(secs(5), 0));
        let mut pair = Pair::new(client, server, Chunker::Whole);
        pair.settle();
        pair.drive_bounded(secs(1_000));
        let log = [pair.app.client_log.join("\n"), pair.app.server_log.join("\n")].concat();
        assert!(!log.contains("closed") && !log.contains("PingMissed"), "{log}");
        let pings = |direction| pair.messages_in(direction).filter(|m| m["method"] == "ping").count();
        let directions = [MessageDirection::ClientToServer, MessageDirection::ServerToClient];
        let sent = directions.map(pings);
        // A ping of the client is input of the server, which has no reason for its own.
        let legacy = versions != VersionSet::MODERN;
        assert_eq!(sent, if legacy { [333, 0] } else { [0, 0] });
    }
}

// covers: PING-004, PING-005
#[test]
fn silence_counts_only_while_this_side_listens() {
    // The event loop was away: the answer may lie unread in a buffer of the operating system.
    let mut harness = pinging_client(Version::V2025_11_25, Chunker::Whole);
    harness.advance(INTERVAL);
    let ping = harness.expect_request("ping");
    harness.now = harness.now + secs(1_000);
    harness.pipe.handle_timeout(harness.now);
    harness.pump();
    harness.assert_idle();
    harness.feed_message(&result_response(&ping, json!({})));
    harness.assert_works();

    // The transport does not read.
    let mut harness = pinging_client(Version::V2025_11_25, Chunker::Whole);
    harness.advance(INTERVAL);
    harness.expect_request("ping");
    for _ in 0..10 {
        harness.pipe.hold_keep_alive(harness.now);
        harness.advance(INTERVAL);
        harness.assert_idle();
    }
    harness.advance(INTERVAL);
    assert_eq!(harness.expect_diagnostic(), missed(1));
    let mut harness = pinging_server(Version::V2025_11_25, Chunker::Whole);
    harness.advance(INTERVAL);
    let ping = harness.expect_reply();
    for _ in 0..10 {
        harness.pipe.hold_keep_alive(harness.now);
        harness.advance(INTERVAL);
        harness.assert_idle();
    }
    harness.advance(INTERVAL);
    assert_eq!(harness.expect_diagnostic(), missed(1));
    expect_next_ping(&harness.take_sent(), &ping);
}

// covers: PING-004, PING-005
#[test]
fn peer_that_reads_nothing_is_ended_without_further_output() {
    let config = server(VersionSet::ALL)
        .keep_alive_ping(INTERVAL, 2)
        .limits(limits(|limits| limits.outbox_high_water = 1_000));
    let mut harness = ServerHarness::server(config, Chunker::Whole);
    harness.open_session(Version::V2025_11_25);
    let now = harness.now;
    let channel = harness.pipe.channel();
    let params = json!({"text": "x".repeat(2_000)});
    harness.pipe.engine().notify(now, channel, "notifications/x", Some(&params)).expect("room");
    let mut now = now;
    let mut events = Vec::new();
    for _ in 0..4 {
        now = now + INTERVAL;
        harness.pipe.handle_timeout(now);
        assert!(harness.pipe.transmit().windows(6).all(|bytes| bytes != b"\"ping\""));
        while let Some(event) = harness.pipe.poll_event(now) {
            events.push(event);
        }
    }
    let misses = |event: &Event| match event {
        Event::Diagnostic { diagnostic: Diagnostic::PingMissed { misses }, .. }
        | Event::Closed { fault: Fault::PingTimeout { misses }, .. } => *misses,
        other => panic!("{other:?}"),
    };
    assert_eq!(events.iter().map(misses).collect::<Vec<_>>(), [1, 2, 3]);
}

// covers: PING-004
#[test]
fn interval_below_one_second_acts_as_one_second() {
    let mut harness =
        ClientHarness::client(client(VersionSet::ALL).keep_alive_ping(Duration::ZERO, 0), Chunker::Whole);
    harness.become_legacy(Version::V2025_11_25, json!({"tools": {}}));
    harness.advance(ms(999));
    harness.assert_idle();
    harness.advance(ms(1));
    harness.expect_request("ping");
    // An absurd interval is never reached.
    let config = client(VersionSet::ALL).keep_alive_ping(Duration::MAX, 0);
    let mut harness = ClientHarness::client(config, Chunker::Whole);
    harness.become_legacy(Version::V2025_11_25, json!({"tools": {}}));
    harness.advance(secs(1 << 30));
    harness.assert_idle();
}

fn http_server(http: HttpConfig, misses: u32) -> (HttpServerHarness, String) {
    let mut web = HttpServerHarness::new(server(VersionSet::ALL).keep_alive_ping(INTERVAL, misses), http);
    let x = web.post(&[], &initialize_request(1, "2025-11-25").to_string());
    let id = web.response(x).field("mcp-session-id").expect("a session").to_owned();
    web.post(&[("Mcp-Session-Id", &id)], &notification("notifications/initialized", Value::Null).to_string());
    assert!(matches!(web.poll_event(), Some(Event::SessionOpened { .. })));
    (web, id)
}

// covers: PING-003, PING-004, PING-005, HTTP-056
#[test]
fn http_session_is_pinged_on_its_get_stream_and_ends_without_answer() {
    let (mut web, id) = http_server(HttpConfig::new(), 1);
    let session = ("Mcp-Session-Id", &*id);
    // Nothing to ping on, so nothing to miss.
    web.advance(secs(100));
    assert!(web.poll_event().is_none());
    let get = web.send_request("GET", "/mcp", &[session], "");
    for n in 1..=5 {
        web.advance(INTERVAL);
        let pings = web.response(get).messages();
        assert_eq!((pings.len(), &pings[n - 1]["method"]), (n, &json!("ping")), "{pings:?}");
        let x = web.post(&[session], &result_response(&pings[n - 1], json!({})).to_string());
        assert_eq!(web.response(x).status, 202);
        assert!(web.poll_event().is_none());
    }
    web.post(&[session], &legacy_request(2, "tools/call", json!({"name": "slow"})).to_string());
    let call = web.expect_call();
    web.advance(INTERVAL);
    web.advance(INTERVAL);
    let Some(Event::Diagnostic { diagnostic, .. }) = web.poll_event() else { panic!("a diagnostic") };
    assert_eq!(diagnostic, missed(1));
    web.advance(INTERVAL);
    assert!(matches!(web.poll_event(), Some(Event::Cancelled { call: ended, .. }) if ended == call.id()));
    let Some(Event::Closed { fault, .. }) = web.poll_event() else { panic!("the end of the session") };
    assert_eq!(fault, Fault::PingTimeout { misses: 2 });
    web.transmit_all();
    assert!(web.response(get).is_complete);
    assert_eq!(web.server.session_count(), 0);
    let x = web.post(&[session], &legacy_request(3, "ping", json!({})).to_string());
    assert_eq!(web.response(x).status, 404);
    assert!(web.poll_event().is_none(), "it ends once");
}

// covers: PING-005, SEC-018
#[test]
fn http_session_whose_client_takes_nothing_ends() {
    let (mut web, id) = http_server(HttpConfig::new(), 0);
    let get = web.send_request("GET", "/mcp", &[("Mcp-Session-Id", &id)], "");
    let params = json!({"text": "x".repeat(100_000)});
    let Some(channel) = session_channel(&mut web, &id) else { panic!("a session") };
    web.auto_transmits = false;
    let now = web.now;
    web.server.engine().notify(now, channel, "notifications/x", Some(&params)).expect("room");
    while web.server.poll_ready(web.now).is_some() {}
    web.advance(INTERVAL);
    web.advance(INTERVAL);
    while let Some(event) = web.poll_event() {
        assert!(matches!(event, Event::Closed { fault: Fault::PingTimeout { misses: 1 }, .. }), "{event:?}");
    }
    assert_eq!(web.server.session_count(), 0);
    web.server.handle_gone(web.now, get);
    assert_eq!(web.server.exchange_count(), 0);
}

/// Returns the channel of a session.
fn session_channel(web: &mut HttpServerHarness, id: &str) -> Option<mcp_proto::ChannelId> {
    web.post(&[("Mcp-Session-Id", id)], &notification("notifications/y", json!({})).to_string());
    match web.poll_event() {
        Some(Event::Notification(notification)) => Some(notification.channel),
        _ => None,
    }
}

// covers: PING-005
#[test]
fn closed_get_stream_is_not_a_missed_ping() {
    let (mut web, id) = http_server(HttpConfig::new(), 0);
    let session = ("Mcp-Session-Id", &*id);
    let get = web.send_request("GET", "/mcp", &[session], "");
    web.advance(INTERVAL);
    assert_eq!(web.response(get).messages().len(), 1);
    web.close_exchange(get);
    web.advance(secs(100));
    assert!(web.poll_event().is_none());
    assert_eq!(web.server.session_count(), 1);
}

fn http_client(misses: u32) -> HttpClientHarness {
    let config = client(VersionSet::ALL).keep_alive_ping(INTERVAL, misses);
    let mut harness =
        HttpClientHarness::new(config, HttpClientHarness::default_http_config(), Chunker::Whole);
    harness.become_legacy(Version::V2025_11_25, Some("s"), json!({"tools": {}}));
    harness
}

// covers: PING-003, PING-004, PING-005
#[test]
fn http_client_pings_by_post_and_ends_its_session_without_answer() {
    let mut harness = http_client(1);
    harness.advance(INTERVAL);
    let ping = harness.expect_post("ping");
    harness.respond_with_json(ping.id, 200, &result_response(&ping.body, json!({})));
    harness.advance(INTERVAL);
    let ping = harness.expect_post("ping");
    // An exchange that fails at once is a miss, but no reason to ping at once.
    harness.refuse_connection(ping.id);
    assert_eq!(harness.expect_diagnostic(), missed(1));
    harness.assert_nothing_sent();
    harness.advance(INTERVAL);
    let ping = harness.expect_post("ping");
    harness.advance(INTERVAL);
    assert_eq!(harness.expect_closed(), Fault::PingTimeout { misses: 2 });
    harness.expect_aborted();
    let requests = harness.take_requests();
    assert!(requests.iter().any(|request| request.method == "DELETE"), "{requests:?}");
    assert_ne!(ping.id, requests[0].id);
}

// covers: PING-004
#[test]
fn comment_on_event_stream_is_a_sign_of_life() {
    let mut harness = http_client(0);
    let (key, call) =
        harness.start_call("tools/call", &json!({"name": "slow"}), &CallOptions::new().timeout(secs(1_000)));
    harness.start_event_stream(call.id);
    for _ in 0..20 {
        harness.advance(INTERVAL - ms(1));
        harness.receive_body(call.id, ": \n\n");
        harness.assert_idle();
    }
    harness.advance(INTERVAL);
    harness.expect_post("ping");
    harness.advance(INTERVAL);
    let fault = Fault::PingTimeout { misses: 1 };
    assert_eq!(harness.expect_done(key), Err(CallError::Closed(fault.clone())));
    assert_eq!(harness.expect_closed(), fault);
}

// covers: PING-004, PING-005
#[test]
fn accepted_http_ping_is_a_sign_of_life() {
    let mut harness = HttpClientHarness::new(
        client(VersionSet::ALL).keep_alive_ping(secs(10), 0),
        HttpClientHarness::default_http_config(),
        Chunker::Whole,
    );
    let _get = harness.become_legacy_with_get_stream(Version::V2025_11_25, Some("s"), json!({"tools": {}}));
    harness.advance(secs(10));
    let ping = harness.expect_post("ping");
    harness.advance(secs(5));
    harness.respond_with_status(ping.id, 202);
    harness.take_diagnostics();
    harness.advance(secs(5));
    let requests = harness.take_requests();
    assert!(requests.iter().all(|request| request.method != "DELETE"), "the session was given up");
}

// covers: PING-004, PING-005
#[test]
fn refused_http_ping_is_a_sign_of_life() {
    let mut lost = Vec::new();
    for (status, fields) in
        [(429, &[("Retry-After", "1")][..]), (503, &[]), (500, &[]), (400, &[]), (405, &[])]
    {
        let config = client(VersionSet::ALL).keep_alive_ping(secs(10), 0);
        let mut harness =
            HttpClientHarness::new(config, HttpClientHarness::default_http_config(), Chunker::Whole);
        harness.become_legacy(Version::V2025_11_25, Some("s"), json!({"tools": {}}));
        harness.advance(secs(10));
        let ping = harness.expect_post("ping");
        harness.respond_with(ping.id, status, fields, "");
        harness.take_diagnostics();
        if harness.take_requests().iter().any(|request| request.method == "DELETE") {
            lost.push(status);
        }
    }
    assert_eq!(lost, [0u16; 0], "the session was given up although the server answered at once");
}

// covers: PING-004, PING-005
#[test]
fn slow_upload_is_a_sign_of_life() {
    let (mut web, id) = http_server(HttpConfig::new(), 0);
    let session = ("Mcp-Session-Id", &*id);
    let _get = web.send_request("GET", "/mcp", &[session], "");
    let head = mcp_proto::head::RequestHead {
        method: "POST",
        target: "/mcp",
        fields: &[
            ("Host", b"localhost:8080"),
            ("Content-Type", b"application/json"),
            ("Accept", b"application/json, text/event-stream"),
            ("Mcp-Session-Id", id.as_bytes()),
        ],
    };
    let x = web.server.open(web.now, &head, Some(100_000));
    assert!(web.server.response(x).is_none());
    for _ in 0..20 {
        web.advance(secs(2));
        let now = web.now;
        web.server.handle_body(now, x, b"    ".as_slice().into());
    }
    assert_open(&mut web);
}

// covers: PING-004, PING-005
/// The ping was lost with the old stream.
#[test]
fn reopened_get_stream_is_a_sign_of_life() {
    let (mut web, id) = http_server(HttpConfig::new(), 0);
    let session = ("Mcp-Session-Id", &*id);
    let get = web.send_request("GET", "/mcp", &[session], "");
    web.advance(secs(10));
    assert_eq!(web.response(get).messages().len(), 1);
    web.close_exchange(get);
    web.advance(secs(9));
    web.send_request("GET", "/mcp", &[session], "");
    web.advance(secs(1));
    assert_open(&mut web);
}

// covers: PING-004
#[test]
fn get_stream_opened_after_the_deadline_gets_a_new_interval() {
    let (mut web, id) = http_server(HttpConfig::new(), 0);
    let session = ("Mcp-Session-Id", &*id);
    let get = web.send_request("GET", "/mcp", &[session], "");
    web.advance(secs(10));
    web.close_exchange(get);
    web.advance(secs(11));
    let again = web.send_request("GET", "/mcp", &[session], "");
    for _ in 0..4 {
        let seen = web.response(again).messages().len();
        web.advance(secs(10));
        let messages = web.response(again).messages();
        for ping in &messages[seen..] {
            web.post(&[session], &result_response(ping, json!({})).to_string());
        }
        assert_open(&mut web);
    }
}

fn assert_open(web: &mut HttpServerHarness) {
    while let Some(event) = web.poll_event() {
        assert!(!matches!(event, Event::Closed { .. }), "{event:?}");
    }
    assert_eq!(web.server.session_count(), 1);
}
