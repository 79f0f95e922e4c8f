//! The engines without a byte stream: any message transport works, and a server may have many channels.

use alloc::sync::Arc;

use mcp_proto::client::{self, Event as ClientEvent};
use mcp_proto::server::{self, CancelReason, Event};
use mcp_proto::tap::ChannelId;
use mcp_proto::{CallOptions, Diagnostic, Fault, Instant, UseError, Version, VersionSet};
use mcp_tests::harness::build::{
    initialize_request, legacy_request, modern_request, notification, result_response, to_value,
};
use serde_json::{Value, json};

use crate::protocol::common::{client, limits, ms, secs, server};

const NOW: Instant = Instant::ZERO;

/// Delivers whole messages, as a message queue or a WebSocket does.
fn deliver(client: &mut client::Engine, up: ChannelId, server: &mut server::Engine, down: ChannelId) {
    loop {
        let mut moved = false;
        while let Some(message) = client.outbox(up).and_then(|o| o.pop_message()) {
            assert!(!message.contains(&b'\n'));
            server.handle_message(NOW, down, message);
            moved = true;
        }
        while let Some(message) = server.outbox(down).and_then(|o| o.pop_message()) {
            client.handle_message(NOW, up, message);
            moved = true;
        }
        if !moved {
            return;
        }
    }
}

// covers: BASE-037, BASE-038, BASE-039, BASE-042
#[test]
fn custom_message_transport_carries_both_eras() {
    for versions in [VersionSet::MODERN, VersionSet::LEGACY, VersionSet::ALL] {
        let mut client_engine = client::Engine::new(Arc::new(client(versions)));
        let mut server_engine = server::Engine::new(Arc::new(server(versions)));
        let (up, down) = (client_engine.open_channel(NOW), server_engine.open_channel(NOW));
        deliver(&mut client_engine, up, &mut server_engine, down);
        assert!(
            matches!(client_engine.poll_event(NOW), Some(ClientEvent::Ready(peer)) if Some(peer.version) == versions.newest())
        );
        if versions == VersionSet::LEGACY {
            assert!(matches!(server_engine.poll_event(NOW), Some(Event::SessionOpened { .. })));
        }
        let key = client_engine.call(NOW, "tools/list", &json!({}), &CallOptions::new()).expect("ready");
        deliver(&mut client_engine, up, &mut server_engine, down);
        let Some(Event::Call(call)) = server_engine.poll_event(NOW) else { panic!("a call") };
        // Large enough to be sent as a segment of its own.
        let schema = json!({"type": "object", "description": "x".repeat(40_000)});
        let tools = json!({"tools": [{"name": "a", "inputSchema": schema}]});
        server_engine.complete_raw(NOW, call.id(), &mcp_tests::harness::build::raw(&tools)).expect("open");
        deliver(&mut client_engine, up, &mut server_engine, down);
        match client_engine.poll_event(NOW) {
            Some(ClientEvent::Done { call, outcome: Ok(result), .. }) => {
                assert_eq!(call, key);
                assert_eq!(to_value(&result)["tools"], tools["tools"]);
            }
            other => panic!("{other:?}"),
        }
        client_engine.handle_eof(NOW, up);
        assert!(matches!(client_engine.poll_event(NOW), Some(ClientEvent::Closed(Fault::Eof))));
        server_engine.handle_eof(NOW, down);
        assert!(matches!(server_engine.poll_event(NOW), Some(Event::Closed { fault: Fault::Eof, .. })));
    }
}

/// Returns a server with two open channels.
fn server_with_two_channels() -> (server::Engine, ChannelId, ChannelId) {
    let mut engine = server::Engine::new(Arc::new(server(VersionSet::ALL)));
    let (one, two) = (engine.open_channel(NOW), engine.open_channel(NOW));
    assert_ne!(one, two);
    (engine, one, two)
}

fn feed(engine: &mut server::Engine, channel: ChannelId, message: &Value) {
    engine.handle_message(NOW, channel, message.to_string().into());
}

fn take_sent(engine: &mut server::Engine, channel: ChannelId) -> Option<Value> {
    let message = engine.outbox(channel)?.pop_message()?;
    Some(serde_json::from_slice(&message).expect("JSON"))
}

fn expect_call(engine: &mut server::Engine) -> server::Call {
    match engine.poll_event(NOW) {
        Some(Event::Call(call)) => call,
        other => panic!("{other:?}"),
    }
}

// covers: BASE-008, BASE-032, STDIO-025, CANC-003
#[test]
fn ids_sessions_and_cancellations_are_scoped_to_their_channel() {
    let (mut engine, one, two) = server_with_two_channels();
    for (channel, version) in [(one, "2024-11-05"), (two, "2025-11-25")] {
        feed(&mut engine, channel, &initialize_request(0, version));
        assert_eq!(take_sent(&mut engine, channel).expect("an answer")["result"]["protocolVersion"], version);
    }
    for channel in [one, two] {
        feed(&mut engine, channel, &legacy_request(1, "tools/list", Value::Null));
    }
    let (first, second) = (expect_call(&mut engine), expect_call(&mut engine));
    assert_eq!((first.channel(), first.version()), (one, Version::V2024_11_05));
    assert_eq!((second.channel(), second.version()), (two, Version::V2025_11_25));
    feed(&mut engine, two, &notification("notifications/cancelled", json!({"requestId": 1})));
    match engine.poll_event(NOW) {
        Some(Event::Cancelled { call, .. }) => assert_eq!(call, second.id()),
        other => panic!("{other:?}"),
    }
    engine.complete(NOW, first.id(), &json!({"tools": []})).expect("open");
    assert_eq!(take_sent(&mut engine, one).expect("an answer")["id"], 1);
    assert!(take_sent(&mut engine, two).is_none());
}

// covers: STDIO-028, BASE-033
#[test]
fn closing_one_channel_keeps_the_others() {
    let (mut engine, one, two) = server_with_two_channels();
    for channel in [one, two] {
        feed(&mut engine, channel, &modern_request(1, "tools/list", json!({})));
    }
    let (first, second) = (expect_call(&mut engine), expect_call(&mut engine));
    engine.close_channel(NOW, one, &Fault::Closed);
    assert!(matches!(engine.poll_event(NOW),
        Some(Event::Cancelled { call, reason: CancelReason::Disconnected }) if call == first.id()));
    assert!(matches!(engine.poll_event(NOW), Some(Event::Closed { channel, .. }) if channel == one));
    assert_eq!(engine.complete(NOW, first.id(), &json!({"tools": []})), Err(UseError::Stale));
    engine.complete(NOW, second.id(), &json!({"tools": []})).expect("open");
    assert!(take_sent(&mut engine, two).is_some());
    // Messages for a closed channel are ignored.
    feed(&mut engine, one, &modern_request(2, "tools/list", json!({})));
    assert!(engine.poll_event(NOW).is_none());
    engine.release_channel(one);
    assert!(engine.outbox(one).is_none() && engine.is_stalled(one));
    assert_eq!(engine.notify(NOW, one, "notifications/x", None::<&()>), Err(UseError::Stale));
    // The slot may be reused; the stale key reaches nothing.
    let three = engine.open_channel(NOW);
    assert!(three != one && engine.outbox(one).is_none());
    feed(&mut engine, one, &modern_request(3, "tools/list", json!({})));
    assert!(engine.poll_event(NOW).is_none());
    // An open channel is not released.
    engine.release_channel(two);
    assert!(engine.outbox(two).is_some());
}

// covers: BASE-008, CANC-012
#[test]
fn response_on_another_channel_is_unknown() {
    let (mut engine, one, two) = server_with_two_channels();
    for channel in [one, two] {
        feed(&mut engine, channel, &initialize_request(0, "2025-11-25"));
        take_sent(&mut engine, channel);
    }
    let key = engine.request(NOW, one, "ping", &json!({}), &CallOptions::new()).expect("a session");
    let answer = result_response(&take_sent(&mut engine, one).expect("a request"), json!({}));
    feed(&mut engine, two, &answer);
    match engine.poll_event(NOW) {
        Some(Event::Diagnostic { channel, diagnostic: Diagnostic::UnknownResponse { .. } }) => {
            assert_eq!(channel, two);
        }
        other => panic!("{other:?}"),
    }
    feed(&mut engine, one, &answer);
    assert!(matches!(engine.poll_event(NOW), Some(Event::Done { call, outcome: Ok(_) }) if call == key));
}

// covers: BASE-033
#[test]
fn live_call_slots_are_shared_fairly_by_channels() {
    let config = server(VersionSet::ALL).limits(limits(|l| l.max_live_calls = 1));
    let mut engine = server::Engine::new(Arc::new(config));
    let channels = [engine.open_channel(NOW), engine.open_channel(NOW), engine.open_channel(NOW)];
    for id in 0..3 {
        for channel in channels {
            feed(&mut engine, channel, &modern_request(id, "tools/list", json!({})));
        }
    }
    let mut order = Vec::new();
    while let Some(Event::Call(call)) = engine.poll_event(NOW) {
        assert!(engine.is_full());
        order.push(channels.iter().position(|c| *c == call.channel()).expect("a known channel"));
        engine.complete(NOW, call.id(), &json!({"tools": []})).expect("open");
    }
    assert_eq!(order.len(), 9);
    // Apart from the first call, no channel is served twice while another one waits.
    assert!(order[1..7].chunks(3).all(|round| round.contains(&1) && round.contains(&2)), "{order:?}");
}

// covers: STDIO-028
#[test]
fn shutdown_ends_every_channel() {
    let (mut engine, one, two) = server_with_two_channels();
    feed(&mut engine, two, &modern_request(1, "tools/list", json!({})));
    let open = expect_call(&mut engine);
    engine.shutdown(NOW, secs(1));
    assert!(matches!(engine.poll_event(NOW), Some(Event::Closed { channel, .. }) if channel == one));
    assert!(engine.poll_event(NOW).is_none());
    feed(&mut engine, two, &modern_request(2, "tools/list", json!({})));
    assert_eq!(
        take_sent(&mut engine, two).expect("an answer")["error"]["code"],
        -32603,
        "new calls are refused"
    );
    let end = NOW + ms(1_000);
    engine.handle_timeout(end);
    assert!(matches!(engine.poll_event(end),
        Some(Event::Cancelled { call, reason: CancelReason::Shutdown }) if call == open.id()));
    assert!(matches!(engine.poll_event(end), Some(Event::Closed { channel, .. }) if channel == two));
}
