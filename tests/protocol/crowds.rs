//! Many channels of one server: what is for one of them reaches no other, and one that does not read holds up nobody.

use alloc::sync::Arc;

use mcp_proto::model::{ElicitUrlParams, InputRequest, InputRequests};
use mcp_proto::server::{Engine, Event};
use mcp_proto::tap::ChannelId;
use mcp_proto::{Capabilities, Capability, Change, Instant, VersionSet};
use mcp_tests::harness::Rng;
use mcp_tests::harness::build::{initialize, legacy, modern, modern_with, note};
use serde_json::{Value, json};

use crate::common::{limits, ms, server};

/// An engine and the time
struct Crowd {
    engine: Engine,
    now: Instant,
}

impl Crowd {
    fn new(outbox_mark: usize) -> Self {
        let promised = [Capability::ToolsListChanged, Capability::ResourceSubscriptions, Capability::Logging];
        let config = server(VersionSet::ALL)
            .capabilities(promised.into_iter().fold(Capabilities::new(), Capabilities::with))
            .limits(limits(|l| l.outbox_mark = outbox_mark));
        Self { engine: Engine::new(Arc::new(config)), now: Instant::ZERO }
    }

    fn open(&mut self) -> ChannelId {
        self.engine.open_channel(self.now)
    }

    /// A legacy session of a client that can be sent to web pages
    fn session(&mut self) -> ChannelId {
        let channel = self.open();
        let mut initialize = initialize(0, "2025-11-25");
        initialize["params"]["capabilities"] = json!({"elicitation": {"url": {}}});
        self.tell(channel, &initialize);
        self.tell(channel, &note("notifications/initialized", Value::Null));
        self.sent(channel);
        channel
    }

    fn tell(&mut self, channel: ChannelId, message: &Value) -> Vec<Event> {
        self.engine.handle_message(self.now, channel, message.to_string().into_bytes().into());
        core::iter::from_fn(|| self.engine.poll_event(self.now)).collect()
    }

    /// What has not been read, which is read now
    fn sent(&mut self, channel: ChannelId) -> Vec<Value> {
        let outbox = self.engine.outbox(channel).expect("open");
        let messages = core::iter::from_fn(|| outbox.pop_message());
        messages.map(|message| serde_json::from_slice(&message).expect("JSON")).collect()
    }

    /// Bytes that have not been read
    fn held(&mut self, channel: ChannelId) -> usize {
        self.engine.outbox(channel).expect("open").len()
    }

    fn publish(&mut self, change: &Change) -> usize {
        self.engine.publish(self.now, change)
    }

    fn pass(&mut self, millis: u64) {
        self.now = self.now + ms(millis);
        self.engine.handle_timeout(self.now);
    }
}

fn listen(uris: &[String]) -> Value {
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": uris});
    modern(1, "subscriptions/listen", json!({"notifications": filter}))
}

// covers: ELIC-025, ELIC-026
#[test]
fn the_end_of_a_page_is_told_to_the_client_that_was_sent_there() {
    let mut crowd = Crowd::new(1 << 20);
    let all = [crowd.session(), crowd.session(), crowd.session()];
    let mut pages = Vec::new();
    for (n, channel) in all.into_iter().enumerate() {
        let events = crowd.tell(channel, &legacy(1, "tools/call", json!({"name": "pay"})));
        let [Event::Call(call)] = &events[..] else { panic!("a call, not {events:?}") };
        let page = ElicitUrlParams::new("Pay", "https://harbour.example/pay").elicitation_id(format!("e{n}"));
        let mut requests = InputRequests::new();
        requests.insert("page", InputRequest::Elicit(page.into()));
        crowd.engine.need_input(crowd.now, call, &requests, b"").expect("declared");
        let asked = crowd.sent(channel);
        pages.push(asked[0]["params"]["elicitationId"].as_str().expect("an id").to_owned());
    }
    assert_eq!(pages, ["e0", "e1", "e2"]);
    for (n, channel) in all.into_iter().enumerate() {
        assert!(crowd.engine.elicitation_complete(crowd.now, channel, &pages[n]));
        for other in all {
            let told = crowd.sent(other);
            if other == channel {
                assert_eq!(told[0]["method"], "notifications/elicitation/complete");
                assert_eq!(told[0]["params"], json!({"elicitationId": pages[n]}));
            } else {
                assert!(told.is_empty(), "{told:?}");
            }
        }
    }
}

// covers: SUB-003
#[test]
fn who_does_not_read_costs_nobody_else_and_little_itself() {
    let mut crowd = Crowd::new(4_096);
    let uris: Vec<String> = (0..200).map(|n| format!("tide://{n}")).collect();
    let (deaf, reader, session) = (crowd.open(), crowd.open(), crowd.session());
    for channel in [deaf, reader] {
        crowd.tell(channel, &listen(&uris));
        crowd.sent(channel);
    }
    // One that never reads has more to be told than may be under way to it.
    let mut most = 0;
    for round in 0..100 {
        for change in uris.iter().map(|uri| Change::Resource(uri.clone())) {
            assert_eq!(crowd.publish(&change), 2);
            assert_eq!(crowd.sent(reader).len(), 1, "{change:?} in round {round}");
        }
        assert_eq!(crowd.publish(&Change::Tools), 3);
        assert_eq!((crowd.sent(reader).len(), crowd.sent(session).len()), (1, 1), "round {round}");
        crowd.pass(60);
        most = most.max(crowd.held(deaf));
    }
    assert!(most < 4_096 + 512, "{most} bytes");
    // When it reads at last it is told of each thing once.
    let mut told: Vec<String> = Vec::new();
    for _ in 0..200 {
        let news = crowd.sent(deaf);
        told.extend(news.iter().map(|m| m["params"]["uri"].as_str().unwrap_or("tools").to_owned()));
        crowd.pass(60);
    }
    told.sort_unstable();
    let mut want: Vec<String> = uris.into_iter().chain(["tools".into()]).collect();
    want.sort_unstable();
    assert_eq!(told, want);
}

#[test]
fn whoever_asks_again_on_news_misses_no_change_however_slowly_it_reads() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut crowd = Crowd::new(if seed % 2 == 0 { 1 << 20 } else { 600 });
        let uris: Vec<String> = (0..4).map(|n| format!("tide://{n}")).collect();
        let channel = crowd.open();
        crowd.tell(channel, &listen(&uris));
        crowd.sent(channel);
        // How often each has changed, and which of these the client has seen: it looks when it is told.
        let (mut now, mut seen) = ([0; 5], [0; 5]);
        let look = |said: &Value, now: &[u32; 5], seen: &mut [u32; 5]| {
            let uri = said["params"]["uri"].as_str();
            let which = uri.map_or(4, |uri| uris.iter().position(|u| u == uri).expect("one of them"));
            seen[which] = now[which];
        };
        for _ in 0..60 {
            match rng.below(5) {
                0 => crowd.pass(60),
                1 | 2 => {
                    let said = crowd.engine.outbox(channel).expect("open").pop_message();
                    if let Some(said) = said {
                        look(&serde_json::from_slice(&said).expect("JSON"), &now, &mut seen);
                    }
                }
                _ => {
                    let which = rng.below(5);
                    now[which] += 1;
                    let change = uris.get(which).map_or(Change::Tools, |uri| Change::Resource(uri.clone()));
                    assert_eq!(crowd.publish(&change), 1);
                }
            }
        }
        for _ in 0..10 {
            for said in crowd.sent(channel) {
                look(&said, &now, &mut seen);
            }
            crowd.pass(60);
        }
        assert_eq!(seen, now, "seed {seed}");
        assert_eq!(crowd.held(channel), 0);
    }
}

// covers: SUB-006
#[test]
fn a_million_uris_are_honoured_as_far_as_the_limit_goes() {
    let mut crowd = Crowd::new(1 << 20);
    let uris: Vec<String> = (0..1_000_000).map(|n| format!("x:{n}")).collect();
    let channel = crowd.open();
    let events = crowd.tell(channel, &listen(&uris));
    assert_eq!(events.len(), 1_024);
    let said = crowd.sent(channel);
    let honoured = &said[0]["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(honoured.as_array().expect("some").len(), 1_024);
    assert_eq!(crowd.publish(&Change::Resource("x:1023".into())), 1);
    assert_eq!(crowd.publish(&Change::Resource("x:1024".into())), 0);
    // One after the other there are no more of them, and the session goes on.
    let channel = crowd.session();
    let mut refused = 0;
    for (id, uri) in uris.iter().take(10_000).enumerate() {
        crowd.tell(channel, &legacy(id + 1, "resources/subscribe", json!({"uri": uri})));
        refused += usize::from(crowd.sent(channel)[0]["error"]["code"] == -32603);
    }
    assert_eq!(refused, 10_000 - 1_024);
    crowd.tell(channel, &legacy(20_000, "ping", Value::Null));
    assert_eq!(crowd.sent(channel)[0]["result"], json!({}));
    // What nobody follows any more is forgotten.
    crowd.engine.handle_eof(crowd.now, channel);
    let gone = core::iter::from_fn(|| crowd.engine.poll_event(crowd.now));
    let gone = gone.filter(|event| matches!(event, Event::Interest { wanted: false, .. })).count();
    assert_eq!(gone, 0, "the other still follows the same ones");
    assert_eq!(crowd.publish(&Change::Resource("x:1".into())), 1);
}

// covers: SUB-011, LOG-009
#[test]
fn a_subscription_carries_news_and_nothing_else() {
    let mut crowd = Crowd::new(1 << 20);
    let channel = crowd.open();
    let wants = json!({"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"});
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let events = crowd.tell(channel, &modern_with(1, "subscriptions/listen", filter, &wants));
    // The application gets no call that it could report on, or log about.
    assert!(events.is_empty(), "{events:?}");
    let level = mcp_proto::model::LoggingLevel::Error;
    crowd.engine.log_session(crowd.now, channel, &level, None, "x").expect("declared");
    crowd.publish(&Change::Tools);
    crowd.pass(10_000);
    crowd.engine.end_subscriptions(crowd.now, channel);
    let sent = crowd.sent(channel);
    let methods: Vec<&str> = sent.iter().filter_map(|m| m["method"].as_str()).collect();
    let want = [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
        "notifications/cancelled",
    ];
    assert_eq!(methods, want);
    // Another request at the same time has both, and neither is the subscription's.
    crowd.tell(channel, &listen(&[]));
    crowd.sent(channel);
    let events = crowd.tell(channel, &modern_with(2, "tools/call", json!({"name": "x"}), &wants));
    let [Event::Call(call)] = &events[..] else { panic!("a call, not {events:?}") };
    crowd.engine.log(crowd.now, call.id(), &level, None, "x").expect("declared");
    crowd.engine.progress(crowd.now, call.id(), mcp_proto::Progress::new(1.0)).expect("open");
    let sent = crowd.sent(channel);
    assert_eq!(sent.len(), 2);
    for said in sent {
        let meta = &said["params"]["_meta"];
        assert!(meta.get("io.modelcontextprotocol/subscriptionId").is_none(), "{said}");
    }
}
