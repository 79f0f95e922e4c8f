//! One change with many subscribers.

use alloc::sync::Arc;
use core::hint::black_box;

use mcp_proto::server::{Config, Engine};
use mcp_proto::{Capabilities, Capability, Change, ChannelId, Instant, Limits};

use super::memory::heap_growth;
use super::{Footprint, Scenario, TIME_STEP, advance};
use crate::heap;
use crate::wire::modern;

const URI: &str = "file:///harbour/tide";
/// Number of subscriptions on one engine.
const LISTENERS: usize = 10_000;

/// A change of a resource for 10,000 subscriptions, each on a channel of its own that reads immediately.
#[derive(Debug)]
pub struct ChangeFanout {
    engine: Engine,
    channels: Vec<ChannelId>,
    now: Instant,
}

impl ChangeFanout {
    /// Returns the scenario with all subscriptions open.
    #[must_use]
    pub fn new() -> Self {
        let mut engine = engine(Limits::default());
        let listen = listen(&[URI]);
        let channels = (0..LISTENERS).map(|_| {
            let channel = engine.open_channel(Instant::ZERO);
            engine.handle_message(Instant::ZERO, channel, listen.clone().into());
            assert!(drain(&mut engine, channel) > 0, "acknowledged");
            channel
        });
        let channels = channels.collect();
        while engine.poll_event(Instant::ZERO).is_some() {}
        let mut scenario = Self { engine, channels, now: Instant::ZERO };
        scenario.run_once();
        scenario
    }
}

impl Default for ChangeFanout {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for ChangeFanout {
    fn run_once(&mut self) {
        advance(&mut self.now, TIME_STEP);
        let change = Change::Resource(black_box(URI).into());
        assert_eq!(self.engine.publish(self.now, &change), LISTENERS);
        for channel in &self.channels {
            assert!(drain(&mut self.engine, *channel) > URI.len(), "a notification");
        }
    }
}

/// Returns the memory per subscription to the lists and to `uris` shared resources, all on one channel.
#[must_use]
pub fn subscriptions(uris: usize, n: usize) -> Footprint {
    let mut limits = Limits::default();
    limits.max_subscriptions = n + 1;
    limits.max_subscribed_resources = (n + 1) * uris.max(1);
    let mut engine = engine(limits);
    let channel = engine.open_channel(Instant::ZERO);
    let listen = listen(&[URI, "file:///harbour/wind"][..uris]);
    let subscribe = |engine: &mut Engine, id: usize| {
        let text = listen.replacen("10000", &(id + 10_000).to_string(), 1);
        engine.handle_message(Instant::ZERO, channel, text.into());
        assert!(drain(engine, channel) > 0, "acknowledged");
        while engine.poll_event(Instant::ZERO).is_some() {}
    };
    subscribe(&mut engine, 0);
    let before = heap::snapshot().live;
    for id in 1..=n {
        subscribe(&mut engine, id);
    }
    Footprint { heap: heap_growth(before) / n as f64, inline: 0 }
}

fn engine(limits: Limits) -> Engine {
    let capabilities = Capabilities::new()
        .with(Capability::ToolsListChanged)
        .with(Capability::PromptsListChanged)
        .with(Capability::ResourcesListChanged)
        .with(Capability::ResourceSubscriptions);
    Engine::new(Arc::new(Config::new("harbour", "1.0.0").capabilities(capabilities).limits(limits)))
}

fn listen(uris: &[&str]) -> String {
    let uris = serde_json::to_string(uris).expect("JSON");
    let meta = modern();
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":10000,\"method\":\"subscriptions/listen\",\"params\":{{\"notifications\":\
         {{\"toolsListChanged\":true,\"resourceSubscriptions\":{uris}}},{meta}}}}}"
    )
}

/// Takes all output of a channel and returns its length.
fn drain(engine: &mut Engine, channel: ChannelId) -> usize {
    let outbox = engine.outbox(channel).expect("a channel");
    let mut taken = 0;
    while let sent @ 1.. = outbox.transmit().len() {
        taken += black_box(sent);
        outbox.consume(sent);
    }
    taken
}
