//! One change, and many who want to know of it.

use alloc::sync::Arc;
use core::hint::black_box;

use mcp_proto::server::{Config, Engine};
use mcp_proto::{Capabilities, Capability, Change, ChannelId, Instant, Limits};

use super::memory::grown;
use super::{Held, STEP, Scenario, pass};
use crate::heap;
use crate::wire::modern;

const URI: &str = "file:///harbour/tide";
/// Subscriptions on one engine
const LISTENERS: usize = 10_000;

/// A change of a resource, told to 10,000 subscriptions, each on a channel of its own that reads at once
#[derive(Debug)]
pub struct News {
    engine: Engine,
    channels: Vec<ChannelId>,
    now: Instant,
}

impl News {
    /// With everybody subscribed
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
        let mut news = Self { engine, channels, now: Instant::ZERO };
        news.op();
        news
    }
}

impl Default for News {
    fn default() -> Self {
        Self::new()
    }
}

impl Scenario for News {
    fn op(&mut self) {
        pass(&mut self.now, STEP);
        let change = Change::Resource(black_box(URI).into());
        assert_eq!(self.engine.publish(self.now, &change), LISTENERS);
        for channel in &self.channels {
            assert!(drain(&mut self.engine, *channel) > URI.len(), "news");
        }
    }
}

/// Per subscription to the lists, and to one resource that others follow too, all on one channel
#[must_use]
pub fn subscriptions(uris: usize, n: usize) -> Held {
    let mut limits = Limits::default();
    limits.max_subscriptions = n + 1;
    limits.max_followed = (n + 1) * uris.max(1);
    let mut engine = engine(limits);
    let channel = engine.open_channel(Instant::ZERO);
    let listen = listen(&[URI, "file:///harbour/wind"][..uris]);
    let again = |engine: &mut Engine, id: usize| {
        let text = listen.replacen("10000", &(id + 10_000).to_string(), 1);
        engine.handle_message(Instant::ZERO, channel, text.into());
        assert!(drain(engine, channel) > 0, "acknowledged");
        while engine.poll_event(Instant::ZERO).is_some() {}
    };
    again(&mut engine, 0);
    let before = heap::now().live;
    for id in 1..=n {
        again(&mut engine, id);
    }
    Held { heap: grown(before) / n as f64, inline: 0 }
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

/// Takes everything that is to be sent on a channel; how much that was
fn drain(engine: &mut Engine, channel: ChannelId) -> usize {
    let outbox = engine.outbox(channel).expect("a channel");
    let mut taken = 0;
    while let sent @ 1.. = outbox.transmit().len() {
        taken += black_box(sent);
        outbox.consume(sent);
    }
    taken
}
