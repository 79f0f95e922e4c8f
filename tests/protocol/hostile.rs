//! What a hostile reading found: an id that is in flight, answers that nobody reads, an end with requests waiting.

use mcp_proto::pipe::{self, Pipe};
use mcp_proto::server::CancelReason;
use mcp_proto::{CallOptions, Diagnostic, Instant, RequestId, Version, VersionSet};
use mcp_tests::harness::build::{legacy, modern, note};
use mcp_tests::harness::{Chunker, LoneServer, Transcript, each_cut};
use serde_json::{Value, json};

use crate::common::{client, limits, secs, server};

// covers: BASE-006, BASE-008
#[test]
fn nothing_answers_a_second_request_with_an_id_in_flight() {
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
        each_cut(|cut| {
            let mut lone = LoneServer::server(server(VersionSet::ALL), cut);
            lone.open(Version::V2025_11_25);
            let call = lone.take(&legacy(7, "tools/call", json!({"name": "a"})));
            lone.feed(second);
            match lone.diagnostic() {
                Diagnostic::DuplicateId(id) => assert_eq!(id, RequestId::int(7)),
                Diagnostic::Malformed { answered, .. } => assert!(!answered, "{second}"),
                other => panic!("{other:?}"),
            }
            lone.silent();
            assert_eq!(lone.complete(call.id(), &json!({"content": []}))["id"], 7);
            lone.transcript
        });
    }
}

// covers: STDIO-010
#[test]
fn a_reader_that_never_catches_up_costs_what_it_has_not_read() {
    let mut server = pipe::Server::new(server(VersionSet::ALL).into(), Instant::ZERO);
    let ping = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    server.handle_input(Instant::ZERO, ping);
    for _ in 0..50_000 {
        server.handle_input(Instant::ZERO, ping);
        assert!(server.poll_event(Instant::ZERO).is_none());
        // All but the last answer is read, so that the outbox is never empty.
        server.consume(server.transmit().len() - 37);
    }
    assert!(format!("{server:?}").len() < 100_000, "nothing that was read is kept");
}

// covers: LIFE-018
#[test]
fn a_shutdown_answers_requests_that_wait() {
    each_cut(|cut| {
        let mut lone =
            LoneServer::server(server(VersionSet::ALL).limits(limits(|l| l.max_live_calls = 1)), cut);
        let asks: Vec<Value> = (1..=3).map(|id| modern(id, "tools/call", json!({"name": "a"}))).collect();
        lone.tell_all(&asks);
        let call = lone.call();
        lone.pipe.shutdown(lone.now, secs(1));
        lone.pass(secs(2));
        let mut ids: Vec<i64> = lone
            .sent()
            .iter()
            .filter_map(|m| m["error"]["code"].is_i64().then(|| m["id"].as_i64())?)
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3]);
        assert_eq!(lone.cancelled(&call), CancelReason::Shutdown);
        lone.closed();
        Transcript::default()
    });
}

// covers: STDIO-010
#[test]
fn a_client_is_not_held_up_by_a_request_of_its_own() {
    let mut lone = mcp_tests::harness::LoneClient::client(
        client(VersionSet::ALL).limits(limits(|l| l.outbox_mark = 2_000)),
        Chunker::Whole,
    );
    lone.with_legacy(Version::V2025_11_25, json!({"tools": {}}));
    lone.blocked = true;
    // A few answers are owed, and before they are read a large request of our own stands behind them.
    for i in 0..10 {
        lone.tell(&legacy(i, "ping", Value::Null));
    }
    let params = json!({"name": "a", "arguments": {"text": "x".repeat(100_000)}});
    lone.pipe.engine().call(lone.now, "tools/call", &params, &CallOptions::new()).expect("room");
    assert!(!lone.pipe.engine().is_stalled());
    lone.tell(&note("notifications/x", json!({})));
    assert!(matches!(lone.event(), mcp_proto::client::Event::Notification(_)), "it goes on");
}

// covers: STDIO-010
#[test]
fn events_that_nobody_takes_hold_up_the_messages_that_cause_them() {
    let told = mcp_proto::RawJson::encode(&note("notifications/x", json!({}))).expect("JSON").into_bytes();
    let mut client =
        mcp_proto::client::Engine::new(client(VersionSet::ALL).limits(limits(|l| l.max_events = 5)).into());
    let channel = client.open_channel(Instant::ZERO);
    let mut server =
        mcp_proto::server::Engine::new(server(VersionSet::ALL).limits(limits(|l| l.max_events = 5)).into());
    let other = server.open_channel(Instant::ZERO);
    for _ in 0..5 {
        assert!(!client.is_stalled() && !server.is_stalled(other));
        client.handle_message(Instant::ZERO, channel, told.clone());
        server.handle_message(Instant::ZERO, other, told.clone());
    }
    assert!(client.is_stalled() && server.is_stalled(other));
    assert!(client.poll_event(Instant::ZERO).is_some() && server.poll_event(Instant::ZERO).is_some());
    assert!(!client.is_stalled() && !server.is_stalled(other));
}
