//! The tap, and deterministic runs: equal input gives equal output byte for byte.

use core::fmt::Write as _;

use mcp_proto::pipe::Pipe as _;
use mcp_proto::tap::{Direction, TapRecord};
use mcp_proto::{CallOptions, Limits, Version, VersionSet};
use mcp_tests::harness::build::{error_response, legacy_request, modern_request};
use mcp_tests::harness::{Chunker, ClientHarness, Pair, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, ms, secs, server};

fn tap_limits(records: usize) -> Limits {
    limits(|l| l.tap_records = records)
}

fn record_text(record: &TapRecord) -> String {
    String::from_utf8_lossy(&record.bytes).into_owned()
}

fn drain_records(harness: &mut ServerHarness) -> Vec<TapRecord> {
    core::iter::from_fn(|| harness.pipe.engine().poll_tap()).collect()
}

// covers: STDIO-002
#[test]
fn tap_records_every_message_in_order_with_time_and_direction() {
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(server(VersionSet::ALL).limits(tap_limits(100)), cut);
        harness.open_session(Version::V2025_11_25);
        harness.advance(ms(7));
        let call = harness.expect_call_for(&legacy_request(1, "tools/call", json!({"name": "a"})));
        harness.advance(ms(3));
        let answer = harness.complete(call.id(), &json!({"content": []}));
        let seen = drain_records(&mut harness);
        let directions: Vec<_> = seen.iter().map(|r| r.direction).collect();
        assert_eq!(directions, [Direction::In, Direction::Out, Direction::In, Direction::In, Direction::Out]);
        let times: Vec<_> = seen.iter().map(|r| r.at.as_micros()).collect();
        assert_eq!(times, [0, 0, 0, 7_000, 10_000]);
        assert!(seen.iter().all(|r| r.channel == harness.pipe.channel() && !r.bytes.contains(&b'\n')));
        let last: Value = serde_json::from_str(&record_text(&seen[4])).expect("JSON");
        assert_eq!(last, answer);
        assert!(drain_records(&mut harness).is_empty());
        seen.iter().map(|r| format!("{r:?}")).collect::<Vec<_>>()
    });
}

#[test]
fn tap_is_off_by_default() {
    let mut harness = ServerHarness::server(server(VersionSet::ALL), Chunker::Whole);
    harness.assert_works();
    assert!(drain_records(&mut harness).is_empty());
    assert_eq!(harness.pipe.engine().tap_dropped(), 0);
}

#[test]
fn redacted_members_never_reach_the_tap() {
    for_each_chunker(|cut| {
        let config =
            server(VersionSet::ALL).limits(tap_limits(100)).redact_in_tap("token").redact_in_tap("pass word");
        let mut harness = ServerHarness::server(config, cut);
        let arguments = json!({"token": "S3CRET", "deep": [{"pass word": {"a": "S3CRET"}}], "kept": "token"});
        let call = harness.expect_call_for(&modern_request(
            1,
            "tools/call",
            json!({"name": "a", "arguments": arguments}),
        ));
        let answer = harness.complete(call.id(), &json!({"content": [], "token": ["S3CRET"]}));
        assert_eq!(answer["result"]["token"], json!(["S3CRET"]), "the wire itself is untouched");
        // Text that is not JSON may contain a secret anywhere.
        harness.feed("token=S3CRET");
        harness.expect_diagnostic();
        harness.take_sent();
        let seen: Vec<_> = drain_records(&mut harness).iter().map(record_text).collect();
        assert!(seen.iter().all(|t| !t.contains("S3CRET")), "{seen:?}");
        assert!(
            seen[0].contains(r#""token":"[redacted]""#) && seen[0].contains(r#""kept":"token""#),
            "{}",
            seen[0]
        );
        assert!(seen[2].contains("12 bytes"), "{}", seen[2]);
        seen
    });
}

#[test]
fn records_beyond_the_tap_limits_are_counted_as_dropped() {
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(server(VersionSet::ALL).limits(tap_limits(3)), cut);
        for _ in 0..4 {
            harness.assert_works();
        }
        assert_eq!(harness.pipe.engine().tap_dropped(), 5);
        assert_eq!(drain_records(&mut harness).len(), 3);
        harness.assert_works();
        assert_eq!((drain_records(&mut harness).len(), harness.pipe.engine().tap_dropped()), (2, 5));
        harness.transcript
    });
    let small = limits(|l| {
        l.tap_records = 1_000;
        l.tap_bytes = 2_000;
    });
    let mut harness = ServerHarness::server(server(VersionSet::ALL).limits(small), Chunker::Whole);
    for _ in 0..100 {
        harness.assert_works();
    }
    let seen = drain_records(&mut harness);
    assert!(seen.iter().map(|r| r.bytes.capacity()).sum::<usize>() <= 2_000);
    assert_eq!(seen.len() as u64 + harness.pipe.engine().tap_dropped(), 200);
}

#[test]
fn client_tap_counts_what_it_drops() {
    let mut harness = ClientHarness::client(client(VersionSet::ALL).limits(tap_limits(1)), Chunker::Whole);
    assert_eq!(harness.pipe.engine().tap_dropped(), 0);
    harness.become_legacy(Version::V2025_11_25, json!({}));
    // The probe, its refusal, the handshake of three messages.
    assert_eq!(harness.pipe.engine().tap_dropped(), 4);
}

#[test]
fn client_tap_records_the_negotiation() {
    for_each_chunker(|cut| {
        let mut harness = ClientHarness::client(client(VersionSet::ALL).limits(tap_limits(100)), cut);
        let probe = harness.expect_request("server/discover");
        harness.feed("a banner");
        harness.expect_diagnostic();
        harness.feed_message(&error_response(&probe, -32601, "?", Value::Null));
        harness.expect_request("initialize");
        let seen: Vec<_> = core::iter::from_fn(|| harness.pipe.engine().poll_tap()).collect();
        let directions: Vec<_> = seen.iter().map(|r| r.direction).collect();
        assert_eq!(directions, [Direction::Out, Direction::In, Direction::In, Direction::Out]);
        assert_eq!(record_text(&seen[1]), "a banner");
        assert!(record_text(&seen[3]).contains("initialize"));
        seen.iter().map(record_text).collect::<Vec<_>>()
    });
}

#[test]
fn tap_records_large_messages_whole() {
    let mut harness = ServerHarness::server(server(VersionSet::ALL).limits(tap_limits(100)), Chunker::Whole);
    let call = harness.expect_call_for(&modern_request(1, "tools/call", json!({"name": "a"})));
    let big = json!({"content": [{"type": "text", "text": "x".repeat(100_000)}]});
    let raw = mcp_tests::harness::build::raw(&big);
    harness.pipe.engine().complete_raw(harness.now, call.id(), &raw).expect("open");
    let sent = harness.expect_reply();
    let seen = drain_records(&mut harness);
    assert_eq!(serde_json::from_slice::<Value>(&seen[1].bytes).expect("JSON"), sent);
}

/// Returns everything that a run of both sides produces: bytes, times, events and remaining state.
fn run_with_seed(seed: u64) -> String {
    let client_config = client(VersionSet::ALL).limits(tap_limits(10_000));
    let server_config = server(VersionSet::ALL).limits(tap_limits(10_000));
    let link =
        mcp_tests::harness::LinkConfig { latency: ms(3), capacity: 50, ..Chunker::Seeded(seed).into() };
    let mut pair = Pair::new(client_config, server_config, link);
    for i in 0..20 {
        let name = ["echo", "count", "meta", "fail", "slow"][i % 5];
        let params = json!({"name": name, "arguments": {"text": "x".repeat(i * 7), "to": 12}});
        let options = CallOptions::new().with_progress().timeout(secs(2));
        pair.app
            .call(pair.now, &mut pair.client, &format!("{i}"), "tools/call", &params, &options)
            .expect("room");
        pair.drive_bounded(ms(40));
    }
    pair.drive_bounded(secs(10));
    pair.hang_up();
    pair.drive();
    let mut all = format!("{:#?}\n{:?}\n{:?}\n", pair.app, pair.client, pair.server);
    let taps = [pair.client.engine().poll_tap(), pair.server.engine().poll_tap()];
    assert!(taps.iter().all(Option::is_some));
    let records = core::iter::from_fn(|| pair.client.engine().poll_tap()).collect::<Vec<_>>();
    let more = core::iter::from_fn(|| pair.server.engine().poll_tap()).collect::<Vec<_>>();
    for record in records.iter().chain(&more) {
        let _ = writeln!(all, "{} {:?} {}", record.at, record.direction, record_text(record));
    }
    all
}

#[test]
fn equal_runs_are_equal_byte_for_byte() {
    for seed in 0..3 {
        let first = run_with_seed(seed);
        assert!(first.len() > 10_000);
        assert!(first == run_with_seed(seed), "seed {seed}");
    }
}

// covers: STDIO-002, TIME-001
#[test]
fn extra_polling_changes_nothing() {
    let run = |eager: bool| {
        let mut harness = ServerHarness::server(server(VersionSet::ALL), Chunker::Whole);
        let mut seen = Vec::new();
        for i in 0..20u64 {
            if eager {
                for _ in 0..3 {
                    harness.pipe.handle_timeout(harness.now);
                    let _ = (
                        harness.pipe.poll_timeout(),
                        harness.pipe.transmit().len(),
                        harness.pipe.wants_input(),
                    );
                    harness.pipe.handle_input(harness.now, b"");
                    harness.pipe.consume(0);
                    harness.pipe.handle_timeout(harness.now);
                    harness.pump();
                }
            }
            let call = harness.expect_call_for(&modern_request(i, "tools/call", json!({"name": "a"})));
            harness.now = harness.now + ms(i);
            seen.push(harness.complete(call.id(), &json!({"content": []})));
        }
        (seen, harness.transcript)
    };
    assert_eq!(run(true), run(false));
}
