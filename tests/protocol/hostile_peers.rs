//! Findings of a security review: duplicate ids, answers that are never read, and shutdown with queued requests.

use mcp_proto::pipe::{self, Pipe};
use mcp_proto::server::CancelReason;
use mcp_proto::{CallOptions, Diagnostic, Instant, RequestId, Version, VersionSet};
use mcp_tests::harness::build::{legacy_request, modern_request, notification};
use mcp_tests::harness::{Chunker, ServerHarness, Transcript, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, secs, server};

// covers: BASE-006, BASE-008
#[test]
fn request_with_an_id_in_flight_gets_no_answer() {
    let seconds = [
        r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"nope"}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[]}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":{}}}}"#,
        r#"{"jsonrpc":"2.0","id":7.0,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2030-01-01"}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","x":broken"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","method":"tools/list"}"#,
    ];
    for second in seconds {
        for_each_chunker(|cut| {
            let mut harness = ServerHarness::server(server(VersionSet::ALL), cut);
            harness.open_session(Version::V2025_11_25);
            let call = harness.expect_call_for(&legacy_request(7, "tools/call", json!({"name": "a"})));
            harness.feed(second);
            match harness.expect_diagnostic() {
                Diagnostic::DuplicateId(id) => assert_eq!(id, RequestId::int(7)),
                Diagnostic::Malformed { answered, .. } => assert!(!answered, "{second}"),
                other => panic!("{other:?}"),
            }
            harness.assert_nothing_sent();
            assert_eq!(harness.complete(call.id(), &json!({"content": []}))["id"], 7);
            harness.transcript
        });
    }
}

// covers: STDIO-010
#[test]
fn slow_reader_costs_only_its_unread_output() {
    let mut server = pipe::Server::new(server(VersionSet::ALL).into(), Instant::ZERO);
    let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    server.handle_input(Instant::ZERO, ping);
    for _ in 0..50_000 {
        server.handle_input(Instant::ZERO, ping);
        assert!(server.poll_event(Instant::ZERO).is_none());
        // All but the last answer is read, so that the outbox is never empty.
        server.consume(server.transmit().len() - 37);
    }
    assert!(format!("{server:?}").len() < 100_000, "consumed output is freed");
}

// covers: LIFE-018
#[test]
fn shutdown_answers_queued_requests() {
    for_each_chunker(|cut| {
        let mut harness =
            ServerHarness::server(server(VersionSet::ALL).limits(limits(|l| l.max_live_calls = 1)), cut);
        let requests: Vec<Value> =
            (1..=3).map(|id| modern_request(id, "tools/call", json!({"name": "a"}))).collect();
        harness.feed_messages(&requests);
        let call = harness.expect_call();
        harness.pipe.shutdown(harness.now, secs(1));
        harness.advance(secs(2));
        let mut ids: Vec<i64> = harness
            .take_sent()
            .iter()
            .filter_map(|m| m["error"]["code"].is_i64().then(|| m["id"].as_i64())?)
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3]);
        assert_eq!(harness.expect_cancelled(&call), CancelReason::Shutdown);
        harness.expect_closed();
        Transcript::default()
    });
}

// covers: STDIO-010
#[test]
fn client_is_not_stalled_by_its_own_large_request() {
    let mut harness = mcp_tests::harness::ClientHarness::client(
        client(VersionSet::ALL).limits(limits(|l| l.outbox_high_water = 2_000)),
        Chunker::Whole,
    );
    harness.become_legacy(Version::V2025_11_25, json!({"tools": {}}));
    harness.is_blocked = true;
    // A few answers are unsent, and a large request of the client is queued behind them.
    for i in 0..10 {
        harness.feed_message(&legacy_request(i, "ping", Value::Null));
    }
    let params = json!({"name": "a", "arguments": {"text": "x".repeat(100_000)}});
    harness.pipe.engine().call(harness.now, "tools/call", &params, &CallOptions::new()).expect("room");
    assert!(!harness.pipe.engine().is_stalled());
    harness.feed_message(&notification("notifications/x", json!({})));
    assert!(
        matches!(harness.expect_event(), mcp_proto::client::Event::Notification(_)),
        "the client still reads"
    );
}

// covers: STDIO-010
#[test]
fn engine_stalls_while_max_events_are_unpolled() {
    let message =
        mcp_proto::RawJson::encode(&notification("notifications/x", json!({}))).expect("JSON").into_bytes();
    let mut client =
        mcp_proto::client::Engine::new(client(VersionSet::ALL).limits(limits(|l| l.max_events = 5)).into());
    let channel = client.open_channel(Instant::ZERO);
    let mut server =
        mcp_proto::server::Engine::new(server(VersionSet::ALL).limits(limits(|l| l.max_events = 5)).into());
    let server_channel = server.open_channel(Instant::ZERO);
    for _ in 0..5 {
        assert!(!client.is_stalled() && !server.is_stalled(server_channel));
        client.handle_message(Instant::ZERO, channel, message.clone());
        server.handle_message(Instant::ZERO, server_channel, message.clone());
    }
    assert!(client.is_stalled() && server.is_stalled(server_channel));
    assert!(client.poll_event(Instant::ZERO).is_some() && server.poll_event(Instant::ZERO).is_some());
    assert!(!client.is_stalled() && !server.is_stalled(server_channel));
}
