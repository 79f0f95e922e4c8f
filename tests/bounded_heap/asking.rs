//! Memory that an engine reserves before it accepts a message or a command, and releases when it is idle.

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::pipe::Pipe;
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{Capabilities, Capability, Change, ChannelId, Instant, Limits};
use serde_json::{Value, json};

use super::{LIVE, NOW, line, meta, server, within};

const RESERVE: usize = 4 << 10;

fn open(limits: Limits) -> (Engine, ChannelId) {
    let capabilities = Capabilities::new()
        .with(Capability::Tools)
        .with(Capability::Resources)
        .with(Capability::ResourceSubscriptions);
    let mut engine = Engine::new(Arc::new(Config::new("s", "1").capabilities(capabilities).limits(limits)));
    let channel = engine.open_channel(NOW);
    (engine, channel)
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    (limits.memory_reserve, limits.max_meta_cache) = (RESERVE, 0);
    limits
}

fn feed(engine: &mut Engine, channel: ChannelId, message: &Value) {
    feed_at(engine, NOW, channel, message);
}

fn feed_at(engine: &mut Engine, now: Instant, channel: ChannelId, message: &Value) {
    engine.handle_message(now, channel, message.to_string().into());
}

fn request(id: usize, method: &str, mut params: Value) -> Value {
    params["_meta"] = meta();
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn drain(engine: &mut Engine, channel: ChannelId) -> usize {
    let outbox = engine.outbox(channel).expect("open");
    core::iter::from_fn(|| outbox.pop_message()).count()
}

#[test]
fn request_is_taken_once_the_reserve_and_the_growth_of_the_event_queue_are_free() {
    let event = size_of::<Event>();
    for (waiting, growth) in [(0, 4), (1, 0), (3, 0), (4, 8), (5, 0), (8, 16)] {
        let is_taken = |budget: usize| {
            let (mut engine, channel) = open(limits());
            for id in 0..waiting {
                feed(&mut engine, channel, &request(id, "tools/call", json!({ "name": "t" })));
            }
            let message = request(waiting, "tools/call", json!({ "name": "t" })).to_string().into();
            within(budget as isize, || engine.handle_message(NOW, channel, message));
            drain(&mut engine, channel) == 0
        };
        let (mut least, mut most) = (RESERVE / 2, 64 << 10);
        while least < most {
            let middle = (least + most) / 2;
            if is_taken(middle) { most = middle } else { least = middle + 1 }
        }
        assert_eq!(least, RESERVE + growth * event, "{waiting} events wait");
    }
}

#[test]
fn long_message_is_held_without_memory_for_its_account() {
    let (mut engine, channel) = open(limits());
    let blank = vec![b' '; 2 << 10];
    for budget in (0..1_000).step_by(8) {
        let message = blank.clone().into();
        within(budget, || engine.handle_message(NOW, channel, message));
    }
    assert_eq!((engine.poll_event(NOW).is_some(), drain(&mut engine, channel)), (false, 0));
}

#[test]
fn reading_pauses_when_there_is_no_room_for_another_answer() {
    let mut limits = limits();
    limits.outbox_high_water = 1 << 20;
    let mut server = server(limits);
    let ping = line(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
    let input = ping.repeat(200);
    server.handle_input(NOW, &input);
    within(RESERVE as isize / 2, || while server.poll_event(NOW).is_some() {});
    let first = super::written(&mut server).len();
    assert!((1..200).contains(&first), "{first} answers");
    while server.poll_event(NOW).is_some() {}
    assert_eq!(first + super::written(&mut server).len(), 200, "no request is lost");
}

#[test]
fn change_of_a_resource_with_a_long_uri_waits_for_memory() {
    let (mut sent, mut deferred) = (0, 0);
    let uri = format!("x:{}", "u".repeat(8_000));
    let listen =
        request(1, "subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": [uri] } }));
    for budget in (RESERVE as isize..40_000).step_by(1_000) {
        let (mut engine, channel) = open(limits());
        feed(&mut engine, channel, &listen);
        assert_eq!(drain(&mut engine, channel), 1, "the acknowledgement");
        let change = Change::Resource(uri.as_str().into());
        within(budget, || assert_eq!(engine.publish(NOW, &change), 1));
        match drain(&mut engine, channel) {
            0 => deferred += 1,
            _ => sent += 1,
        }
    }
    assert!(sent > 3 && deferred > 3, "{sent} sent, {deferred} deferred");
}

#[test]
fn idle_engine_gives_back_what_its_tables_took() {
    const LATER: Instant = Instant::from_micros(60_000_000);
    type Work = fn(&mut Engine, ChannelId);
    let works: [(&str, Work); 3] = [
        ("requests that waited", |engine, channel| {
            for id in 0..100 {
                feed_at(engine, LATER, channel, &request(id, "tools/call", json!({ "name": "t" })));
            }
            while let Some(event) = engine.poll_event(LATER) {
                let Event::Call(call) = event else { continue };
                engine.complete(LATER, call.id(), &json!({})).expect("open");
            }
        }),
        ("subscriptions", |engine, channel| {
            let uris: Vec<String> = (0..100).map(|n| format!("x:{n}")).collect();
            let filter = json!({ "notifications": { "resourceSubscriptions": uris } });
            feed_at(engine, LATER, channel, &request(1, "subscriptions/listen", filter));
            let cancelled = json!({ "requestId": 1 });
            let message =
                json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled });
            feed_at(engine, LATER, channel, &message);
            while engine.poll_event(LATER).is_some() {}
        }),
        ("a client that repeats itself", |engine, channel| {
            feed_at(engine, LATER, channel, &request(1, "server/discover", json!({})));
        }),
    ];
    for (name, work) in works {
        let mut limits = limits();
        (limits.max_live_calls, limits.max_meta_cache, limits.memory_reserve) = (4, 1 << 10, 0);
        let (mut engine, channel) = open(limits);
        let idle = |engine: &mut Engine, now: Instant| {
            drain(engine, channel);
            engine.handle_timeout(now);
            LIVE.get()
        };
        feed(&mut engine, channel, &json!({ "jsonrpc": "2.0", "id": 0, "method": "ping" }));
        let before = idle(&mut engine, LATER);
        work(&mut engine, channel);
        let after = idle(&mut engine, LATER + Duration::from_secs(60));
        // A table of subscriptions, once there is one, stays.
        assert!(after - before < 256, "{name}: {} bytes are kept", after - before);
    }
}
