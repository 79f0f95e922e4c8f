//! The look at the wire from inside, and that equal runs are equal to the byte.

use core::fmt::Write as _;

use mcp_proto::pipe::Pipe as _;
use mcp_proto::tap::{Direction, TapRecord};
use mcp_proto::{CallOptions, Instant, Limits, Version, VersionSet};
use mcp_tests::harness::build::{error, legacy, modern};
use mcp_tests::harness::{Chunker, LoneClient, LoneServer, Pair, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, ms, secs, server};

fn watching(records: usize) -> Limits {
    limits(|l| l.tap_records = records)
}

fn text(record: &TapRecord) -> String {
    String::from_utf8_lossy(&record.bytes).into_owned()
}

fn records(lone: &mut LoneServer) -> Vec<TapRecord> {
    core::iter::from_fn(|| lone.pipe.engine().poll_tap()).collect()
}

// covers: STDIO-002
#[test]
fn every_message_passes_the_tap_in_order_with_time_and_direction() {
    each_cut(|cut| {
        let mut lone = LoneServer::server(server(VersionSet::ALL).limits(watching(100)), cut);
        lone.open(Version::V2025_11_25);
        lone.pass(ms(7));
        let call = lone.take(&legacy(1, "tools/call", json!({"name": "a"})));
        lone.pass(ms(3));
        let answer = lone.complete(call.id(), &json!({"content": []}));
        let seen = records(&mut lone);
        let ways: Vec<_> = seen.iter().map(|r| r.direction).collect();
        assert_eq!(ways, [Direction::In, Direction::Out, Direction::In, Direction::In, Direction::Out]);
        let times: Vec<_> = seen.iter().map(|r| r.at.as_micros()).collect();
        assert_eq!(times, [0, 0, 0, 7_000, 10_000]);
        assert!(seen.iter().all(|r| r.channel == lone.pipe.channel() && !r.bytes.contains(&b'\n')));
        let last: Value = serde_json::from_str(&text(&seen[4])).expect("JSON");
        assert_eq!(last, answer);
        assert!(records(&mut lone).is_empty());
        seen.iter().map(|r| format!("{r:?}")).collect::<Vec<_>>()
    });
}

#[test]
fn the_tap_is_off_unless_asked_for() {
    let mut lone = LoneServer::server(server(VersionSet::ALL), Chunker::Whole);
    lone.works();
    assert!(records(&mut lone).is_empty());
    assert_eq!(lone.pipe.engine().tap_dropped(), 0);
}

#[test]
fn hidden_members_never_reach_the_tap() {
    each_cut(|cut| {
        let config =
            server(VersionSet::ALL).limits(watching(100)).hide_in_tap("token").hide_in_tap("pass word");
        let mut lone = LoneServer::server(config, cut);
        let arguments = json!({"token": "S3CRET", "deep": [{"pass word": {"a": "S3CRET"}}], "kept": "token"});
        let call = lone.take(&modern(1, "tools/call", json!({"name": "a", "arguments": arguments})));
        let answer = lone.complete(call.id(), &json!({"content": [], "token": ["S3CRET"]}));
        assert_eq!(answer["result"]["token"], json!(["S3CRET"]), "the wire itself is untouched");
        // What is no JSON may hold anything.
        lone.feed("token=S3CRET");
        lone.diagnostic();
        lone.sent();
        let seen: Vec<_> = records(&mut lone).iter().map(text).collect();
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
fn what_does_not_fit_is_counted_and_room_comes_back() {
    each_cut(|cut| {
        let mut lone = LoneServer::server(server(VersionSet::ALL).limits(watching(3)), cut);
        for _ in 0..4 {
            lone.works();
        }
        assert_eq!(lone.pipe.engine().tap_dropped(), 5);
        assert_eq!(records(&mut lone).len(), 3);
        lone.works();
        assert_eq!((records(&mut lone).len(), lone.pipe.engine().tap_dropped()), (2, 5));
        lone.transcript
    });
    let small = limits(|l| {
        l.tap_records = 1_000;
        l.tap_bytes = 2_000;
    });
    let mut lone = LoneServer::server(server(VersionSet::ALL).limits(small), Chunker::Whole);
    for _ in 0..100 {
        lone.works();
    }
    let seen = records(&mut lone);
    assert!(seen.iter().map(|r| r.bytes.capacity()).sum::<usize>() <= 2_000);
    assert_eq!(seen.len() as u64 + lone.pipe.engine().tap_dropped(), 200);
}

#[test]
fn the_clients_tap_shows_the_negotiation() {
    each_cut(|cut| {
        let mut lone = LoneClient::client(client(VersionSet::ALL).limits(watching(100)), cut);
        let probe = lone.asked("server/discover");
        lone.feed("a banner");
        lone.diagnostic();
        lone.tell(&error(&probe, -32601, "?", Value::Null));
        lone.asked("initialize");
        let seen: Vec<_> = core::iter::from_fn(|| lone.pipe.engine().poll_tap()).collect();
        let ways: Vec<_> = seen.iter().map(|r| r.direction).collect();
        assert_eq!(ways, [Direction::Out, Direction::In, Direction::In, Direction::Out]);
        assert_eq!(text(&seen[1]), "a banner");
        assert!(text(&seen[3]).contains("initialize"));
        seen.iter().map(text).collect::<Vec<_>>()
    });
}

#[test]
fn large_messages_pass_the_tap_whole() {
    let mut lone = LoneServer::server(server(VersionSet::ALL).limits(watching(100)), Chunker::Whole);
    let call = lone.take(&modern(1, "tools/call", json!({"name": "a"})));
    let big = json!({"content": [{"type": "text", "text": "x".repeat(100_000)}]});
    let raw = mcp_tests::harness::build::raw(&big);
    lone.pipe.engine().complete_raw(lone.now, call.id(), &raw).expect("open");
    let sent = lone.reply();
    let seen = records(&mut lone);
    assert_eq!(serde_json::from_slice::<Value>(&seen[1].bytes).expect("JSON"), sent);
}

/// Everything that a run of both sides leaves behind: bytes, times, events and what is left inside
fn everything(seed: u64) -> String {
    let ours = client(VersionSet::ALL).limits(watching(10_000));
    let theirs = server(VersionSet::ALL).limits(watching(10_000));
    let line = mcp_tests::harness::Line { latency: ms(3), room: 50, ..Chunker::Seeded(seed).into() };
    let mut pair = Pair::new(ours, theirs, line);
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
        let _ = writeln!(all, "{} {:?} {}", record.at, record.direction, text(record));
    }
    all
}

#[test]
fn equal_runs_are_equal_byte_for_byte() {
    for seed in 0..3 {
        let first = everything(seed);
        assert!(first.len() > 10_000);
        assert!(first == everything(seed), "seed {seed}");
    }
}

// covers: STDIO-002, TIME-001
#[test]
fn polling_more_often_or_in_vain_changes_nothing() {
    let run = |eager: bool| {
        let mut lone = LoneServer::server(server(VersionSet::ALL), Chunker::Whole);
        let mut seen = Vec::new();
        for i in 0..20u64 {
            if eager {
                for _ in 0..3 {
                    lone.pipe.handle_timeout(lone.now);
                    let _ = (lone.pipe.poll_timeout(), lone.pipe.transmit().len(), lone.pipe.wants_input());
                    lone.pipe.handle_input(lone.now, b"");
                    lone.pipe.consume(0);
                    lone.pipe.handle_timeout(Instant::ZERO);
                    lone.pump();
                }
            }
            let call = lone.take(&modern(i, "tools/call", json!({"name": "a"})));
            lone.now = lone.now + ms(i);
            seen.push(lone.complete(call.id(), &json!({"content": []})));
        }
        (seen, lone.transcript)
    };
    assert_eq!(run(true), run(false));
}
