//! Back-pressure: who waits for whom when somebody does not read, and what that costs.

use mcp_proto::client::Event as ClientEvent;
use mcp_proto::pipe::Pipe as _;
use mcp_proto::{CallOptions, Instant, UseError, Version, VersionSet};
use mcp_tests::harness::build::{legacy, modern, result};
use mcp_tests::harness::{Chunker, Line, LoneClient, LoneServer, Pair, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, secs, server};

fn session(version: Version, mark: usize, cut: Chunker) -> LoneClient {
    let config = client(VersionSet::only(version)).custom_method("harbor/name");
    let mut lone = LoneClient::client(config.limits(limits(|l| l.outbox_mark = mark)), cut);
    lone.with_legacy(version, json!({"tools": {}}));
    lone
}

// covers: STDIO-010
#[test]
fn a_client_never_stops_reading_because_of_its_own_requests() {
    each_cut(|cut| {
        let mut lone = session(Version::V2025_11_25, 1_000, cut);
        let (first, request) = lone.calls("tools/list", &json!({}), &CallOptions::new());
        lone.blocked = true;
        let params = json!({"name": "x".repeat(100)});
        let mut refused = 0;
        for _ in 0..100 {
            match lone.pipe.engine().call(lone.now, "tools/call", &params, &CallOptions::new()) {
                Ok(_) => {}
                Err(UseError::Full("outbox_mark")) => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!(refused > 80, "too much is unsent for more");
        assert!(lone.pipe.wants_input());
        lone.tell(&result(&request, json!({"tools": []})));
        assert!(lone.done(first).is_ok());
        // And once it is read there is room again.
        lone.blocked = false;
        assert_eq!(lone.sent().len(), 100 - refused);
        lone.calls("tools/list", &json!({}), &CallOptions::new());
        lone.transcript
    });
}

// covers: STDIO-010, PING-002
#[test]
fn a_server_that_asks_and_does_not_read_is_made_to_wait() {
    each_cut(|cut| {
        let mut lone = session(Version::V2025_11_25, 1_000, cut);
        lone.blocked = true;
        for i in 0..200 {
            lone.tell(&legacy(i, "ping", Value::Null));
        }
        // What it sends is still read, so that it may get round to reading, but not yet looked at.
        assert!(lone.pipe.wants_input());
        assert!(lone.pipe.transmit().len() < 1_100, "what is owed is bounded");
        lone.blocked = false;
        assert_eq!(lone.sent().len(), 200, "none is lost");
        assert!(lone.pipe.wants_input());
        lone.transcript.sent
    });
}

// covers: STDIO-010, STDIO-012
#[test]
fn what_is_not_looked_at_is_bounded_on_both_sides() {
    fn takes(pipe: &mut impl mcp_proto::pipe::Pipe) -> usize {
        let mut taken = 0;
        while pipe.wants_input() && taken < 100_000 {
            pipe.handle_input(Instant::ZERO, b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}\n");
            taken += 44;
        }
        taken
    }
    let bounded = || limits(|l| l.max_frame = 1_000);
    let mut lone = LoneClient::client(client(VersionSet::ALL).limits(bounded()), Chunker::Whole);
    assert!((1_000..3_000).contains(&takes(&mut lone.pipe)));
    assert!(lone.said().len() > 20 && lone.pipe.wants_input());
    let mut lone = LoneServer::server(server(VersionSet::ALL).limits(bounded()), Chunker::Whole);
    assert!((1_000..3_000).contains(&takes(&mut lone.pipe)));
    assert!(lone.said().len() > 20 && lone.pipe.wants_input());
}

// covers: STDIO-010
#[test]
fn a_client_that_reads_nothing_costs_no_more_than_its_marks() {
    each_cut(|cut| {
        let config = server(VersionSet::ALL).limits(limits(|l| l.outbox_mark = 5_000));
        let mut lone = LoneServer::server(config, cut);
        lone.blocked = true;
        let mut answered = 0;
        for i in 0..500 {
            lone.tell(&modern(i, "tools/call", json!({"name": "a"})));
            while !lone.is_quiet() {
                let call = lone.call();
                let text = json!({"content": [{"type": "text", "text": "x".repeat(200)}]});
                lone.pipe.engine().complete(lone.now, call.id(), &text).expect("open");
                answered += 1;
            }
        }
        assert!(answered < 40, "no more is taken than can be answered: {answered}");
        assert!(lone.untaken() > 0 && !lone.pipe.wants_input());
        assert!(format!("{:?}", lone.pipe).len() < 60_000);
        lone.blocked = false;
        while answered < 500 {
            let call = lone.call();
            lone.pipe.engine().complete(lone.now, call.id(), &json!({"content": []})).expect("open");
            answered += 1;
        }
        assert_eq!(lone.sent().len(), 500);
        Vec::<String>::new()
    });
}

// covers: STDIO-010
#[test]
fn two_ends_with_full_pipes_go_on() {
    for versions in [VersionSet::MODERN, VersionSet::only(Version::V2025_06_18)] {
        for room in [1, 100, 4_096] {
            let ours = client(versions).limits(limits(|l| l.outbox_mark = 100_000));
            let theirs = server(versions).limits(limits(|l| l.outbox_mark = 2_000));
            let mut pair = Pair::new(ours, theirs, Line { room, ..Chunker::Whole.into() });
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
            assert_eq!(pair.app.waiting(), 0, "{room}");
        }
    }
}

/// Both owe each other answers beyond their marks, and neither reads before it has written
#[test]
fn two_ends_that_owe_each_other_answers_go_on() {
    let ours =
        client(VersionSet::LEGACY).custom_method("harbor/name").limits(limits(|l| l.outbox_mark = 1_000));
    let theirs = server(VersionSet::LEGACY).limits(limits(|l| l.outbox_mark = 1_000));
    let mut pair = Pair::new(ours, theirs, Line { room: 10, ..Chunker::Whole.into() });
    pair.app.client_waits = true;
    pair.settle();
    let channel = pair.app.channel.expect("a session");
    let (now, options) = (pair.now, CallOptions::new().timeout(secs(5)));
    for i in 0..10 {
        let params = json!({"name": "slow", "arguments": {}});
        pair.app.call(now, &mut pair.client, &format!("{i}"), "tools/call", &params, &options).expect("room");
        pair.server.engine().request(now, channel, "harbor/name", &json!({}), &options).expect("room");
    }
    pair.settle();
    assert_eq!((pair.app.open.len(), pair.app.asked.len()), (10, 10));
    // Now both answer everything at once.
    let text = json!({"content": [{"type": "text", "text": "x".repeat(500)}]});
    for request in core::mem::take(&mut pair.app.asked) {
        pair.client.engine().respond(now, request.id, &text).expect("open");
    }
    for (id, _) in core::mem::take(&mut pair.app.open) {
        pair.server.engine().complete(now, id, &text).expect("open");
    }
    pair.drive_bounded(secs(1));
    assert_eq!(pair.app.waiting(), 0);
}

#[test]
fn quick_calls_beside_a_slow_one_leave_nothing_behind() {
    let mut lone = LoneClient::client(client(VersionSet::ALL), Chunker::Whole);
    lone.with_modern(json!({"tools": {}}));
    lone.calls("tools/list", &json!({}), &CallOptions::new());
    let before = format!("{:?}", lone.pipe).len();
    for _ in 0..3_000 {
        let (key, request) = lone.calls("tools/list", &json!({}), &CallOptions::new());
        lone.tell(&result(&request, json!({"tools": []})));
        assert!(lone.done(key).is_ok());
    }
    let after = format!("{:?}", lone.pipe).len();
    assert!(after < before + 20_000, "{before} {after}");
    // The same at a server, for its calls and for its requests.
    let mut lone = LoneServer::server(server(VersionSet::ALL), Chunker::Whole);
    lone.open(Version::V2025_11_25);
    lone.take(&modern("slow", "tools/call", json!({"name": "a"})));
    let channel = lone.pipe.channel();
    let ping = |lone: &mut LoneServer| {
        lone.pipe.engine().request(lone.now, channel, "ping", &json!({}), &CallOptions::new()).expect("room");
        lone.reply()
    };
    ping(&mut lone);
    let before = format!("{:?}", lone.pipe).len();
    for _ in 0..3_000 {
        let request = ping(&mut lone);
        lone.tell(&result(&request, json!({})));
        assert_eq!(lone.said().len(), 1);
        lone.works();
    }
    let after = format!("{:?}", lone.pipe).len();
    assert!(after < before + 20_000, "{before} {after}");
}

// covers: STDIO-010, BASE-018
#[test]
fn requests_of_the_server_are_answered_while_the_client_waits_for_its_own() {
    each_cut(|cut| {
        let mut lone = session(Version::V2025_03_26, 1_000, cut);
        let (key, request) = lone.calls("tools/call", &json!({"name": "a"}), &CallOptions::new());
        for i in 0..30 {
            lone.tell(&legacy(i, "harbor/name", json!({})));
            let ClientEvent::Request(asked) = lone.event() else { panic!("a request") };
            lone.pipe.engine().respond(lone.now, asked.id, &json!({"name": "Mara"})).expect("open");
            assert_eq!(lone.reply()["id"], i);
        }
        lone.tell(&result(&request, json!({"content": []})));
        assert!(lone.done(key).is_ok());
        lone.transcript
    });
}
