//! The engines without bytes: any carrier of messages will do, and a server has as many channels as it likes.

use alloc::sync::Arc;

use mcp_proto::client::{self, Event as ClientEvent};
use mcp_proto::server::{self, CancelReason, Event};
use mcp_proto::tap::ChannelId;
use mcp_proto::{CallOptions, Diagnostic, Fault, Instant, UseError, Version, VersionSet};
use mcp_tests::harness::build::{initialize, legacy, modern, note, result, value};
use serde_json::{Value, json};

use crate::common::{client, limits, ms, secs, server};

const NOW: Instant = Instant::ZERO;

/// Messages one by one, as a message queue or a WebSocket carries them
fn carry(client: &mut client::Engine, up: ChannelId, server: &mut server::Engine, down: ChannelId) {
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
fn a_transport_of_ones_own_carries_both_eras() {
    for versions in [VersionSet::MODERN, VersionSet::LEGACY, VersionSet::ALL] {
        let mut ours = client::Engine::new(Arc::new(client(versions)));
        let mut theirs = server::Engine::new(Arc::new(server(versions)));
        let (up, down) = (ours.open_channel(NOW), theirs.open_channel(NOW));
        carry(&mut ours, up, &mut theirs, down);
        assert!(
            matches!(ours.poll_event(NOW), Some(ClientEvent::Ready(peer)) if Some(peer.version) == versions.newest())
        );
        if versions == VersionSet::LEGACY {
            assert!(matches!(theirs.poll_event(NOW), Some(Event::SessionOpened { .. })));
        }
        let key = ours.call(NOW, "tools/list", &json!({}), &CallOptions::new()).expect("ready");
        carry(&mut ours, up, &mut theirs, down);
        let Some(Event::Call(call)) = theirs.poll_event(NOW) else { panic!("a call") };
        // Large enough to travel as a segment of its own.
        let schema = json!({"type": "object", "description": "x".repeat(40_000)});
        let tools = json!({"tools": [{"name": "a", "inputSchema": schema}]});
        theirs.complete_raw(NOW, call.id(), &mcp_tests::harness::build::raw(&tools)).expect("open");
        carry(&mut ours, up, &mut theirs, down);
        match ours.poll_event(NOW) {
            Some(ClientEvent::Done { call, outcome: Ok(result), .. }) => {
                assert_eq!(call, key);
                assert_eq!(value(&result)["tools"], tools["tools"]);
            }
            other => panic!("{other:?}"),
        }
        ours.handle_eof(NOW, up);
        assert!(matches!(ours.poll_event(NOW), Some(ClientEvent::Closed(Fault::Eof))));
        theirs.handle_eof(NOW, down);
        assert!(matches!(theirs.poll_event(NOW), Some(Event::Closed { fault: Fault::Eof, .. })));
    }
}

/// A server with two channels
fn two() -> (server::Engine, ChannelId, ChannelId) {
    let mut engine = server::Engine::new(Arc::new(server(VersionSet::ALL)));
    let (one, two) = (engine.open_channel(NOW), engine.open_channel(NOW));
    assert_ne!(one, two);
    (engine, one, two)
}

fn tell(engine: &mut server::Engine, channel: ChannelId, message: &Value) {
    engine.handle_message(NOW, channel, message.to_string().into());
}

fn sent(engine: &mut server::Engine, channel: ChannelId) -> Option<Value> {
    let message = engine.outbox(channel)?.pop_message()?;
    Some(serde_json::from_slice(&message).expect("JSON"))
}

fn call(engine: &mut server::Engine) -> server::Call {
    match engine.poll_event(NOW) {
        Some(Event::Call(call)) => call,
        other => panic!("{other:?}"),
    }
}

// covers: BASE-008, BASE-032, STDIO-025, CANC-003
#[test]
fn ids_sessions_and_cancellations_live_in_their_channel() {
    let (mut engine, one, two) = two();
    for (channel, version) in [(one, "2024-11-05"), (two, "2025-11-25")] {
        tell(&mut engine, channel, &initialize(0, version));
        assert_eq!(sent(&mut engine, channel).expect("an answer")["result"]["protocolVersion"], version);
    }
    for channel in [one, two] {
        tell(&mut engine, channel, &legacy(1, "tools/list", Value::Null));
    }
    let (first, second) = (call(&mut engine), call(&mut engine));
    assert_eq!((first.channel(), first.version()), (one, Version::V2024_11_05));
    assert_eq!((second.channel(), second.version()), (two, Version::V2025_11_25));
    tell(&mut engine, two, &note("notifications/cancelled", json!({"requestId": 1})));
    match engine.poll_event(NOW) {
        Some(Event::Cancelled { call, .. }) => assert_eq!(call, second.id()),
        other => panic!("{other:?}"),
    }
    engine.complete(NOW, first.id(), &json!({"tools": []})).expect("open");
    assert_eq!(sent(&mut engine, one).expect("an answer")["id"], 1);
    assert!(sent(&mut engine, two).is_none());
}

// covers: STDIO-028, BASE-033
#[test]
fn the_end_of_one_channel_is_not_the_end_of_another() {
    let (mut engine, one, two) = two();
    for channel in [one, two] {
        tell(&mut engine, channel, &modern(1, "tools/list", json!({})));
    }
    let (first, second) = (call(&mut engine), call(&mut engine));
    engine.close_channel(NOW, one, &Fault::Closed);
    assert!(matches!(engine.poll_event(NOW),
        Some(Event::Cancelled { call, reason: CancelReason::Disconnected }) if call == first.id()));
    assert!(matches!(engine.poll_event(NOW), Some(Event::Closed { channel, .. }) if channel == one));
    assert_eq!(engine.complete(NOW, first.id(), &json!({"tools": []})), Err(UseError::Stale));
    engine.complete(NOW, second.id(), &json!({"tools": []})).expect("open");
    assert!(sent(&mut engine, two).is_some());
    // What comes for a channel that is over goes nowhere.
    tell(&mut engine, one, &modern(2, "tools/list", json!({})));
    assert!(engine.poll_event(NOW).is_none());
    engine.release_channel(one);
    assert!(engine.outbox(one).is_none() && engine.is_stalled(one));
    assert_eq!(engine.notify(NOW, one, "notifications/x", None::<&()>), Err(UseError::Stale));
    // Its place may be taken over; the old key hits nothing.
    let three = engine.open_channel(NOW);
    assert!(three != one && engine.outbox(one).is_none());
    tell(&mut engine, one, &modern(3, "tools/list", json!({})));
    assert!(engine.poll_event(NOW).is_none());
    // A channel that is not over is not released.
    engine.release_channel(two);
    assert!(engine.outbox(two).is_some());
}

// covers: BASE-008, CANC-012
#[test]
fn an_answer_on_another_channel_answers_nothing() {
    let (mut engine, one, two) = two();
    for channel in [one, two] {
        tell(&mut engine, channel, &initialize(0, "2025-11-25"));
        sent(&mut engine, channel);
    }
    let key = engine.request(NOW, one, "ping", &json!({}), &CallOptions::new()).expect("a session");
    let answer = result(&sent(&mut engine, one).expect("a request"), json!({}));
    tell(&mut engine, two, &answer);
    match engine.poll_event(NOW) {
        Some(Event::Diagnostic { channel, diagnostic: Diagnostic::UnknownResponse(_) }) => {
            assert_eq!(channel, two);
        }
        other => panic!("{other:?}"),
    }
    tell(&mut engine, one, &answer);
    assert!(matches!(engine.poll_event(NOW), Some(Event::Done { call, outcome: Ok(_) }) if call == key));
}

// covers: BASE-033
#[test]
fn places_are_shared_by_all_channels_and_come_round() {
    let config = server(VersionSet::ALL).limits(limits(|l| l.max_live_calls = 1));
    let mut engine = server::Engine::new(Arc::new(config));
    let channels = [engine.open_channel(NOW), engine.open_channel(NOW), engine.open_channel(NOW)];
    for id in 0..3 {
        for channel in channels {
            tell(&mut engine, channel, &modern(id, "tools/list", json!({})));
        }
    }
    let mut order = Vec::new();
    while let Some(Event::Call(call)) = engine.poll_event(NOW) {
        assert!(engine.is_full());
        order.push(channels.iter().position(|c| *c == call.channel()).expect("one of them"));
        engine.complete(NOW, call.id(), &json!({"tools": []})).expect("open");
    }
    assert_eq!(order.len(), 9);
    // No channel is served twice while another one waits, the one that was served at once apart.
    assert!(order[1..7].chunks(3).all(|round| round.contains(&1) && round.contains(&2)), "{order:?}");
}

// covers: STDIO-028
#[test]
fn a_shutdown_ends_every_channel() {
    let (mut engine, one, two) = two();
    tell(&mut engine, two, &modern(1, "tools/list", json!({})));
    let open = call(&mut engine);
    engine.shutdown(NOW, secs(1));
    assert!(matches!(engine.poll_event(NOW), Some(Event::Closed { channel, .. }) if channel == one));
    assert!(engine.poll_event(NOW).is_none());
    tell(&mut engine, two, &modern(2, "tools/list", json!({})));
    assert_eq!(sent(&mut engine, two).expect("an answer")["error"]["code"], -32603, "nothing new");
    engine.handle_timeout(NOW + ms(1_000));
    assert!(matches!(engine.poll_event(NOW),
        Some(Event::Cancelled { call, reason: CancelReason::Shutdown }) if call == open.id()));
    assert!(matches!(engine.poll_event(NOW), Some(Event::Closed { channel, .. }) if channel == two));
}
