//! Many channels of one server: messages reach only their own channel, and a blocked channel delays no other.

use alloc::sync::Arc;

use mcp_proto::model::{ElicitUrlParams, InputRequest, InputRequests};
use mcp_proto::server::{Engine, Event};
use mcp_proto::tap::ChannelId;
use mcp_proto::{Capabilities, Capability, Change, Instant, VersionSet};
use mcp_tests::harness::build::{
    initialize_request, legacy_request, modern_request, modern_request_with, notification,
};
use mcp_tests::harness::{Rng, rounds};
use serde_json::{Value, json};

use crate::protocol::common::{limits, ms, server};

/// An engine and the current time.
struct ManyChannels {
    engine: Engine,
    now: Instant,
}

impl ManyChannels {
    #[expect(deprecated, reason = "tested until its removal")]
    fn new(outbox_mark: usize) -> Self {
        let promised = [Capability::ToolsListChanged, Capability::ResourceSubscriptions, Capability::Logging];
        let config = server(VersionSet::ALL)
            .capabilities(promised.into_iter().fold(Capabilities::new(), Capabilities::with))
            .limits(limits(|l| l.outbox_high_water = outbox_mark));
        Self { engine: Engine::new(Arc::new(config)), now: Instant::ZERO }
    }

    fn open(&mut self) -> ChannelId {
        self.engine.open_channel(self.now)
    }

    /// Opens a legacy session of a client with URL elicitation.
    fn open_session(&mut self) -> ChannelId {
        let channel = self.open();
        let mut initialize = initialize_request(0, "2025-11-25");
        initialize["params"]["capabilities"] = json!({"elicitation": {"url": {}}});
        self.feed(channel, &initialize);
        self.feed(channel, &notification("notifications/initialized", Value::Null));
        self.take_sent(channel);
        channel
    }

    fn feed(&mut self, channel: ChannelId, message: &Value) -> Vec<Event> {
        self.engine.handle_message(self.now, channel, message.to_string().into_bytes().into());
        core::iter::from_fn(|| self.engine.poll_event(self.now)).collect()
    }

    /// Reads and returns all unread messages of a channel.
    fn take_sent(&mut self, channel: ChannelId) -> Vec<Value> {
        let outbox = self.engine.outbox(channel).expect("open");
        let messages = core::iter::from_fn(|| outbox.pop_message());
        messages.map(|message| serde_json::from_slice(&message).expect("JSON")).collect()
    }

    /// Returns the number of unread bytes.
    fn queued_bytes(&mut self, channel: ChannelId) -> usize {
        self.engine.outbox(channel).expect("open").len()
    }

    fn publish(&mut self, change: &Change) -> usize {
        self.engine.publish(self.now, change)
    }

    fn advance(&mut self, millis: u64) {
        self.now = self.now + ms(millis);
        self.engine.handle_timeout(self.now);
    }
}

fn listen(uris: &[String]) -> Value {
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": uris});
    modern_request(1, "subscriptions/listen", json!({"notifications": filter}))
}

// covers: ELIC-025, ELIC-026
#[test]
fn elicitation_complete_reaches_only_its_own_channel() {
    let mut channels = ManyChannels::new(1 << 20);
    let all = [channels.open_session(), channels.open_session(), channels.open_session()];
    let mut pages = Vec::new();
    for (n, channel) in all.into_iter().enumerate() {
        let events = channels.feed(channel, &legacy_request(1, "tools/call", json!({"name": "pay"})));
        let [Event::Call(call)] = &events[..] else { panic!("expected a call, got {events:?}") };
        let page = ElicitUrlParams::new("Pay", "https://harbour.example/pay").elicitation_id(format!("e{n}"));
        let mut requests = InputRequests::new();
        requests.insert("page", InputRequest::Elicit(page.into()));
        channels.engine.need_input(channels.now, call, &requests, b"").expect("declared");
        let requests = channels.take_sent(channel);
        pages.push(requests[0]["params"]["elicitationId"].as_str().expect("an id").to_owned());
    }
    assert_eq!(pages, ["e0", "e1", "e2"]);
    for (n, channel) in all.into_iter().enumerate() {
        assert!(channels.engine.notify_elicitation_complete(channels.now, channel, &pages[n]));
        for other in all {
            let sent = channels.take_sent(other);
            if other == channel {
                assert_eq!(sent[0]["method"], "notifications/elicitation/complete");
                assert_eq!(sent[0]["params"], json!({"elicitationId": pages[n]}));
            } else {
                assert!(sent.is_empty(), "{sent:?}");
            }
        }
    }
}

// covers: SUB-003
#[test]
fn channel_that_does_not_read_is_bounded_and_delays_no_other() {
    let mut channels = ManyChannels::new(4_096);
    let uris: Vec<String> = (0..200).map(|n| format!("tide://{n}")).collect();
    let (blocked, reader, session) = (channels.open(), channels.open(), channels.open_session());
    for channel in [blocked, reader] {
        channels.feed(channel, &listen(&uris));
        channels.take_sent(channel);
    }
    // The blocked channel has more changes than its outbox may hold.
    let mut max_queued = 0;
    for round in 0..100 {
        for change in uris.iter().map(|uri| Change::Resource(uri.clone())) {
            assert_eq!(channels.publish(&change), 2);
            assert_eq!(channels.take_sent(reader).len(), 1, "{change:?} in round {round}");
        }
        assert_eq!(channels.publish(&Change::Tools), 3);
        assert_eq!(
            (channels.take_sent(reader).len(), channels.take_sent(session).len()),
            (1, 1),
            "round {round}"
        );
        channels.advance(60);
        max_queued = max_queued.max(channels.queued_bytes(blocked));
    }
    assert!(max_queued < 4_096 + 512, "{max_queued} bytes");
    // When it reads, each change arrives once.
    let mut changes: Vec<String> = Vec::new();
    for _ in 0..200 {
        let notifications = channels.take_sent(blocked);
        changes
            .extend(notifications.iter().map(|m| m["params"]["uri"].as_str().unwrap_or("tools").to_owned()));
        channels.advance(60);
    }
    changes.sort_unstable();
    let mut want: Vec<String> = uris.into_iter().chain(["tools".into()]).collect();
    want.sort_unstable();
    assert_eq!(changes, want);
}

#[test]
fn slow_reader_misses_no_change() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut channels = ManyChannels::new(if seed % 2 == 0 { 1 << 20 } else { 600 });
        let uris: Vec<String> = (0..4).map(|n| format!("tide://{n}")).collect();
        let channel = channels.open();
        channels.feed(channel, &listen(&uris));
        channels.take_sent(channel);
        // Versions of each resource: the current one, and the one that the client last read.
        let (mut current, mut seen) = ([0; 5], [0; 5]);
        let read_resource = |notice: &Value, current: &[u32; 5], seen: &mut [u32; 5]| {
            let uri = notice["params"]["uri"].as_str();
            let which = uri.map_or(4, |uri| uris.iter().position(|u| u == uri).expect("a known URI"));
            seen[which] = current[which];
        };
        for _ in 0..60 {
            match rng.below(5) {
                0 => channels.advance(60),
                1 | 2 => {
                    let notice = channels.engine.outbox(channel).expect("open").pop_message();
                    if let Some(notice) = notice {
                        read_resource(&serde_json::from_slice(&notice).expect("JSON"), &current, &mut seen);
                    }
                }
                _ => {
                    let which = rng.below(5);
                    current[which] += 1;
                    let change = uris.get(which).map_or(Change::Tools, |uri| Change::Resource(uri.clone()));
                    assert_eq!(channels.publish(&change), 1);
                }
            }
        }
        for _ in 0..10 {
            for notice in channels.take_sent(channel) {
                read_resource(&notice, &current, &mut seen);
            }
            channels.advance(60);
        }
        assert_eq!(seen, current, "seed {seed}");
        assert_eq!(channels.queued_bytes(channel), 0);
    }
}

// covers: SUB-006
#[test]
fn resource_subscriptions_are_honoured_up_to_the_limit() {
    let mut channels = ManyChannels::new(1 << 20);
    let uris: Vec<String> = (0..rounds(1_000_000)).map(|n| format!("x:{n}")).collect();
    let channel = channels.open();
    let events = channels.feed(channel, &listen(&uris));
    assert_eq!(events.len(), 1_024);
    let sent = channels.take_sent(channel);
    let honoured = &sent[0]["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(honoured.as_array().expect("some").len(), 1_024);
    assert_eq!(channels.publish(&Change::Resource("x:1023".into())), 1);
    assert_eq!(channels.publish(&Change::Resource("x:1024".into())), 0);
    // Single subscriptions have the same limit, and the session stays open.
    let channel = channels.open_session();
    let mut refused = 0;
    for (id, uri) in uris.iter().take(2_000).enumerate() {
        channels.feed(channel, &legacy_request(id + 1, "resources/subscribe", json!({"uri": uri})));
        refused += usize::from(channels.take_sent(channel)[0]["error"]["code"] == -32603);
    }
    assert_eq!(refused, 2_000 - 1_024);
    channels.feed(channel, &legacy_request(20_000, "ping", Value::Null));
    assert_eq!(channels.take_sent(channel)[0]["result"], json!({}));
    // The end of a channel ends its subscriptions.
    channels.engine.handle_eof(channels.now, channel);
    let gone = core::iter::from_fn(|| channels.engine.poll_event(channels.now));
    let gone =
        gone.filter(|event| matches!(event, Event::ResourceInterest { is_subscribed: false, .. })).count();
    assert_eq!(gone, 0, "another channel still subscribes to the same resources");
    assert_eq!(channels.publish(&Change::Resource("x:1".into())), 1);
}

// covers: SUB-011, LOG-009
#[test]
#[expect(deprecated, reason = "tested until its removal")]
fn listen_stream_carries_only_change_notifications() {
    let mut channels = ManyChannels::new(1 << 20);
    let channel = channels.open();
    let meta = json!({"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"});
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let events = channels.feed(channel, &modern_request_with(1, "subscriptions/listen", filter, &meta));
    // The application gets no call that it could log or report progress for.
    assert!(events.is_empty(), "{events:?}");
    let level = mcp_proto::model::LoggingLevel::Error;
    channels.engine.log_session(channels.now, channel, &level, None, "x").expect("declared");
    channels.publish(&Change::Tools);
    channels.advance(10_000);
    channels.engine.end_subscriptions(channels.now, channel);
    let sent = channels.take_sent(channel);
    let methods: Vec<&str> = sent.iter().filter_map(|m| m["method"].as_str()).collect();
    let want = [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
        "notifications/cancelled",
    ];
    assert_eq!(methods, want);
    // Another request at the same time has both, without the subscription id.
    channels.feed(channel, &listen(&[]));
    channels.take_sent(channel);
    let events = channels.feed(channel, &modern_request_with(2, "tools/call", json!({"name": "x"}), &meta));
    // The level is deprecated.
    let [Event::Diagnostic { .. }, Event::Call(call)] = &events[..] else { panic!("{events:?}") };
    channels.engine.log(channels.now, call.id(), &level, None, "x").expect("declared");
    channels.engine.progress(channels.now, call.id(), mcp_proto::Progress::new(1.0)).expect("open");
    let sent = channels.take_sent(channel);
    assert_eq!(sent.len(), 2);
    for message in sent {
        let meta = &message["params"]["_meta"];
        assert!(meta.get("io.modelcontextprotocol/subscriptionId").is_none(), "{message}");
    }
}
