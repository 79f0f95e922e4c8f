//! Events: one for many streams or webhooks, a poll without news, a delivery.

use core::hint::black_box;

use hmac::{Hmac, Mac as _};
use mcp_events::delivery::{Config, Deliveries, Outcome, Subscribe, SubscriptionHandle};
use mcp_events::source::{Lane, LogLimits, Source, SourceConfig, StreamMessage};
use mcp_events::webhook::{Secret, SubscriptionKey};
use mcp_events::wire::{
    DeliveryMode, EventOccurrence, EventType, PollEventsParams, PollEventsResult, Profile, StreamEventsParams,
};
use mcp_proto::{Anchor, Entropy, Instant, RawJson};
use sha2::Sha256;

use super::{Scenario, TIME_STEP, advance};

const NAME: &str = "build.finished";
/// Unix time of the first instant.
const EPOCH: u64 = 1_795_600_800;

fn event(number: u64) -> EventOccurrence {
    let text = "a harbour with room for many ships ".repeat(24);
    let data = RawJson::new(format!(r#"{{"build":{number},"text":"{text}"}}"#)).expect("JSON");
    EventOccurrence::new(format!("evt_{number}"), NAME, "2026-11-25T10:00:00Z", data)
}

fn source(streams: usize) -> Source {
    let mut config = SourceConfig::default();
    (config.streams, config.streams_per_principal) = (streams, streams);
    let mut source = Source::new(config, Entropy::new([1; 32], 1));
    let empty = || RawJson::new("{}").expect("JSON");
    let modes = vec![DeliveryMode::Poll, DeliveryMode::Push];
    source.add(EventType::new(NAME, modes, empty()).payload_schema(empty()), LogLimits::default());
    source
}

/// An event for many streams, which are read at once.
pub(super) struct Streams {
    source: Source,
    lane: Lane,
    streams: usize,
    published: u64,
    now: Instant,
}

impl Streams {
    pub(super) fn new(streams: usize) -> Self {
        let mut source = source(streams);
        let lane = source.add_lane();
        for _ in 0..streams {
            let all = Box::new(|_: &EventOccurrence| true);
            source.open(Instant::ZERO, lane, &StreamEventsParams::new(NAME), None, all).expect("a stream");
        }
        while source.poll_message(Instant::ZERO, lane).is_some() {}
        Self { source, lane, streams, published: 0, now: Instant::ZERO }
    }
}

impl Scenario for Streams {
    fn run_once(&mut self) {
        advance(&mut self.now, TIME_STEP);
        self.published += 1;
        self.source.publish(self.now, event(self.published)).expect("published");
        let mut told = 0;
        while let Some((_, message)) = self.source.poll_message(self.now, self.lane) {
            told += usize::from(matches!(black_box(message), StreamMessage::Event(_)));
        }
        assert_eq!(told, self.streams);
    }
}

/// A poll without news.
pub(super) struct QuietPoll {
    source: Source,
    cursor: String,
    now: Instant,
}

impl QuietPoll {
    pub(super) fn new() -> Self {
        let mut source = source(0);
        for number in 0..100 {
            source.publish(Instant::ZERO, event(number)).expect("published");
        }
        let cursor = source.cursor(NAME).expect("a position");
        Self { source, cursor, now: Instant::ZERO }
    }
}

impl Scenario for QuietPoll {
    fn run_once(&mut self) {
        advance(&mut self.now, TIME_STEP);
        let params = PollEventsParams::new(NAME).cursor(black_box(&*self.cursor));
        let result: PollEventsResult = self.source.poll(self.now, &params, |_| true).expect("a result");
        assert!(black_box(result).events.is_empty());
    }
}

/// An event for many webhooks: the requests are signed, and answered at once.
pub(super) struct Webhooks {
    deliveries: Deliveries,
    subscriptions: Vec<SubscriptionHandle>,
    published: u64,
    now: Instant,
}

impl Webhooks {
    pub(super) fn new(subscriptions: usize) -> Self {
        let mut config = Config::default();
        config.subscriptions = subscriptions;
        let anchor = Anchor::new(Instant::ZERO, EPOCH);
        let mut deliveries = Deliveries::new(config, Entropy::new([1; 32], 1), anchor);
        let arguments = RawJson::new("{}").expect("JSON");
        let mut subscribe = |number: usize| {
            let (principal, url) = (format!("user-{number}"), format!("https://h{number}.example/hook"));
            deliveries.prove(Instant::ZERO, &principal, &url, EPOCH + 3_600);
            let request = Subscribe {
                key: SubscriptionKey::new(&*principal, &*url, NAME, &arguments).expect("a key"),
                secret: Secret::from_entropy([7; 32]),
                ttl: None,
                cursor: None,
                truncated: false,
                profile: Profile::SEP,
                scopes: String::new(),
            };
            match deliveries.subscribe(Instant::ZERO, request) {
                Ok(mcp_events::delivery::Subscribed::Granted(grant)) => grant.subscription,
                other => panic!("{other:?}"),
            }
        };
        let subscriptions = (0..subscriptions).map(&mut subscribe).collect();
        Self { deliveries, subscriptions, published: 0, now: Instant::ZERO }
    }
}

impl Scenario for Webhooks {
    fn run_once(&mut self) {
        advance(&mut self.now, TIME_STEP);
        self.published += 1;
        let event = event(self.published);
        let mut delivered = 0;
        for subscription in &self.subscriptions {
            self.deliveries.publish(self.now, *subscription, &event).expect("published");
            while let Some(delivery) = self.deliveries.poll_transmit(self.now) {
                let answered = Outcome::Answer { status: 204, retry_after: None, body: b"" };
                self.deliveries.handle_answer(self.now, black_box(&delivery).id, &answered);
                delivered += 1;
            }
            while self.deliveries.poll_event().is_some() {}
            // What a store would be told.
            while self.deliveries.poll_change().is_some() {}
        }
        assert_eq!(delivered, self.subscriptions.len());
    }
}

/// HMAC-SHA-256 alone, over what a delivery of the same event signs.
pub(super) struct FloorDelivery(Vec<u8>);

impl FloorDelivery {
    pub(super) fn new() -> Self {
        let body = RawJson::encode(&event(1)).expect("JSON");
        Self([b"evt_1.1795600800.".as_slice(), body.as_bytes()].concat())
    }
}

impl Scenario for FloorDelivery {
    fn run_once(&mut self) {
        let mut mac = Hmac::<Sha256>::new_from_slice(&[7; 32]).expect("any key");
        mac.update(black_box(&self.0));
        black_box(mac.finalize());
    }
}
