//! Back-pressure when a peer does not read: which side waits, and how much memory that costs.

use mcp_proto::client::Event as ClientEvent;
use mcp_proto::pipe::Pipe as _;
use mcp_proto::{CallOptions, Instant, Limit, UseError, Version, VersionSet};
use mcp_tests::harness::build::{legacy_request, modern_request, result_response};
use mcp_tests::harness::{Chunker, ClientHarness, LinkConfig, Pair, ServerHarness, for_each_chunker, rounds};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, secs, server};

fn open_session(version: Version, mark: usize, cut: Chunker) -> ClientHarness {
    let config = client(VersionSet::only(version)).custom_method("harbor/name");
    let mut harness = ClientHarness::client(config.limits(limits(|l| l.outbox_high_water = mark)), cut);
    harness.become_legacy(version, json!({"tools": {}}));
    harness
}

// covers: STDIO-010
#[test]
fn client_with_unsent_requests_keeps_reading() {
    for_each_chunker(|cut| {
        let mut harness = open_session(Version::V2025_11_25, 1_000, cut);
        let (first, request) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
        harness.is_blocked = true;
        assert!(!harness.pipe.engine().is_congested());
        let params = json!({"name": "x".repeat(100)});
        let mut refused = 0;
        for _ in 0..100 {
            match harness.pipe.engine().call(harness.now, "tools/call", &params, &CallOptions::new()) {
                Ok(_) => {}
                Err(UseError::Full(Limit::OutboxHighWater)) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(refused > 80, "calls are refused once too much is unsent");
        assert!(harness.pipe.engine().is_congested());
        assert!(harness.pipe.wants_input());
        harness.feed_message(&result_response(&request, json!({"tools": []})));
        assert!(harness.expect_done(first).is_ok());
        // Reading makes room again.
        harness.is_blocked = false;
        assert_eq!(harness.take_sent().len(), 100 - refused);
        harness.start_call("tools/list", &json!({}), &CallOptions::new());
        harness.transcript
    });
}

// covers: STDIO-010, PING-002
#[test]
fn client_bounds_answers_to_a_server_that_does_not_read() {
    for_each_chunker(|cut| {
        let mut harness = open_session(Version::V2025_11_25, 1_000, cut);
        harness.is_blocked = true;
        for i in 0..200 {
            harness.feed_message(&legacy_request(i, "ping", Value::Null));
        }
        // Input is still read, so that the server can start to read, but it is not parsed yet.
        assert!(harness.pipe.wants_input());
        assert!(harness.pipe.transmit().len() < 1_100, "unsent answers are bounded");
        harness.is_blocked = false;
        assert_eq!(harness.take_sent().len(), 200, "none is lost");
        assert!(harness.pipe.wants_input());
        harness.transcript.sent
    });
}

// covers: STDIO-010, STDIO-012
#[test]
fn unpolled_input_is_bounded_on_both_sides() {
    fn fill_until_refused(pipe: &mut impl mcp_proto::pipe::Pipe) -> usize {
        let mut taken = 0;
        while pipe.wants_input() && taken < 100_000 {
            pipe.handle_input(Instant::ZERO, b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n");
            taken += 44;
        }
        taken
    }
    let bounded = || limits(|l| l.max_frame = 1_000);
    let mut harness = ClientHarness::client(client(VersionSet::ALL).limits(bounded()), Chunker::Whole);
    assert!((1_000..3_000).contains(&fill_until_refused(&mut harness.pipe)));
    assert!(harness.take_event_texts().len() > 20 && harness.pipe.wants_input());
    let mut harness = ServerHarness::server(server(VersionSet::ALL).limits(bounded()), Chunker::Whole);
    assert!((1_000..3_000).contains(&fill_until_refused(&mut harness.pipe)));
    assert!(harness.take_event_texts().len() > 20 && harness.pipe.wants_input());
}

// covers: STDIO-010
#[test]
fn server_memory_stays_bounded_when_client_does_not_read() {
    for_each_chunker(|cut| {
        let config = server(VersionSet::ALL).limits(limits(|l| l.outbox_high_water = 5_000));
        let mut harness = ServerHarness::server(config, cut);
        harness.is_blocked = true;
        let mut answered = 0;
        for i in 0..500 {
            harness.feed_message(&modern_request(i, "tools/call", json!({"name": "a"})));
            while !harness.has_no_events() {
                let call = harness.expect_call();
                let text = json!({"content": [{"type": "text", "text": "x".repeat(200)}]});
                harness.pipe.engine().complete(harness.now, call.id(), &text).expect("open");
                answered += 1;
            }
        }
        assert!(answered < 40, "calls are taken only while answers fit: {answered}");
        assert!(harness.unread_input_len() > 0 && !harness.pipe.wants_input());
        assert!(format!("{:?}", harness.pipe).len() < 60_000);
        harness.is_blocked = false;
        while answered < 500 {
            let call = harness.expect_call();
            harness.pipe.engine().complete(harness.now, call.id(), &json!({"content": []})).expect("open");
            answered += 1;
        }
        assert_eq!(harness.take_sent().len(), 500);
        Vec::<String>::new()
    });
}

// covers: STDIO-010
#[test]
fn peers_with_full_pipes_make_progress() {
    for versions in [VersionSet::MODERN, VersionSet::only(Version::V2025_06_18)] {
        for capacity in [1, 100, 4_096] {
            let client_config = client(versions).limits(limits(|l| l.outbox_high_water = 100_000));
            let server_config = server(versions).limits(limits(|l| l.outbox_high_water = 2_000));
            let mut pair =
                Pair::new(client_config, server_config, LinkConfig { capacity, ..Chunker::Whole.into() });
            pair.settle();
            // Both have more to write than the pipes hold, before either reads.
            for i in 0..20 {
                let params = json!({"name": "echo", "arguments": {"text": "x".repeat(1_500)}});
                let (now, options) = (pair.now, CallOptions::new());
                pair.app
                    .call(now, &mut pair.client, &format!("{i}"), "tools/call", &params, &options)
                    .expect("room");
            }
            pair.settle();
            assert_eq!(pair.app.pending_count(), 0, "{capacity}");
        }
    }
}

/// Both owe each other answers beyond their high-water marks, and neither reads before it has written.
#[test]
fn peers_that_owe_each_other_answers_make_progress() {
    let client_config = client(VersionSet::LEGACY)
        .custom_method("harbor/name")
        .limits(limits(|l| l.outbox_high_water = 1_000));
    let server_config = server(VersionSet::LEGACY).limits(limits(|l| l.outbox_high_water = 1_000));
    let mut pair =
        Pair::new(client_config, server_config, LinkConfig { capacity: 10, ..Chunker::Whole.into() });
    pair.app.defers_client_answers = true;
    pair.settle();
    let channel = pair.app.channel.expect("a session");
    let (now, options) = (pair.now, CallOptions::new().timeout(secs(5)));
    for i in 0..10 {
        let params = json!({"name": "slow", "arguments": {}});
        pair.app.call(now, &mut pair.client, &format!("{i}"), "tools/call", &params, &options).expect("room");
        pair.server.engine().request(now, channel, "harbor/name", &json!({}), &options).expect("room");
    }
    pair.settle();
    assert_eq!((pair.app.open_calls.len(), pair.app.pending_requests.len()), (10, 10));
    // Both answer everything at once.
    let text = json!({"content": [{"type": "text", "text": "x".repeat(500)}]});
    for request in core::mem::take(&mut pair.app.pending_requests) {
        pair.client.engine().respond(now, request.id, &text).expect("open");
    }
    for (id, _) in core::mem::take(&mut pair.app.open_calls) {
        pair.server.engine().complete(now, id, &text).expect("open");
    }
    pair.drive_bounded(secs(1));
    assert_eq!(pair.app.pending_count(), 0);
}

#[test]
fn quick_calls_beside_a_slow_call_leave_no_memory_behind() {
    let mut harness = ClientHarness::client(client(VersionSet::ALL), Chunker::Whole);
    harness.become_modern(json!({"tools": {}}));
    harness.start_call("tools/list", &json!({}), &CallOptions::new());
    let before = format!("{:?}", harness.pipe).len();
    for _ in 0..rounds(3_000) {
        let (key, request) = harness.start_call("tools/list", &json!({}), &CallOptions::new());
        harness.feed_message(&result_response(&request, json!({"tools": []})));
        assert!(harness.expect_done(key).is_ok());
    }
    let after = format!("{:?}", harness.pipe).len();
    assert!(after < before + 20_000, "{before} {after}");
    // The same at a server, for its calls and its requests.
    let mut harness = ServerHarness::server(server(VersionSet::ALL), Chunker::Whole);
    harness.open_session(Version::V2025_11_25);
    harness.expect_call_for(&modern_request("slow", "tools/call", json!({"name": "a"})));
    let channel = harness.pipe.channel();
    let ping = |harness: &mut ServerHarness| {
        harness
            .pipe
            .engine()
            .request(harness.now, channel, "ping", &json!({}), &CallOptions::new())
            .expect("room");
        harness.expect_reply()
    };
    ping(&mut harness);
    let before = format!("{:?}", harness.pipe).len();
    for _ in 0..rounds(3_000) {
        let request = ping(&mut harness);
        harness.feed_message(&result_response(&request, json!({})));
        assert_eq!(harness.take_event_texts().len(), 1);
        harness.assert_works();
    }
    let after = format!("{:?}", harness.pipe).len();
    assert!(after < before + 20_000, "{before} {after}");
}

// covers: STDIO-010, BASE-018
#[test]
fn client_answers_server_requests_while_its_own_call_is_pending() {
    for_each_chunker(|cut| {
        let mut harness = open_session(Version::V2025_03_26, 1_000, cut);
        let (key, request) = harness.start_call("tools/call", &json!({"name": "a"}), &CallOptions::new());
        for i in 0..30 {
            harness.feed_message(&legacy_request(i, "harbor/name", json!({})));
            let ClientEvent::Request(server_request) = harness.expect_event() else { panic!("a request") };
            harness
                .pipe
                .engine()
                .respond(harness.now, server_request.id, &json!({"name": "Mara"}))
                .expect("open");
            assert_eq!(harness.expect_reply()["id"], i);
        }
        harness.feed_message(&result_response(&request, json!({"content": []})));
        assert!(harness.expect_done(key).is_ok());
        harness.transcript
    });
}
