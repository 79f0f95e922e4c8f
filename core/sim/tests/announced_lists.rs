//! A server that announces a change of its list after each answer to it, and the readers of the library at rest: in each era they read
//! it at the pace of a `ListPace`.

extern crate alloc;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;

use mcp_events::follow::{FollowAction, FollowConfig, Follower, Subscription};
use mcp_events::wire::{DeliveryMode, EventType, PollEventsResult};
use mcp_proto::client::{self, Cache, CacheKey, CacheScope, ListPace};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::pipe::{Client, Pipe, Server};
use mcp_proto::testing::Rng;
use mcp_proto::{
    CallKey, CallOptions, Capabilities, Capability, Change, Entropy, EntryKind, Era, Instant, RawJson,
    VersionSet, server,
};

/// Time in which no call is made: the server announces, and the reader reads.
const REST: Duration = Duration::from_secs(20 * 60);

fn raw(text: &str) -> RawJson {
    RawJson::new(text.to_owned()).expect("JSON")
}

/// A reader that keeps a list up to date.
enum Reader {
    /// A program with a cache, which reads what the cache has lost.
    Cached { cache: Box<Cache>, pace: ListPace },
    /// A follower of events, whose type is in the list.
    Follower(Box<Follower>),
}

impl Reader {
    fn cached() -> Self {
        Self::Cached { cache: Box::new(Cache::new()), pace: ListPace::default() }
    }

    fn follower(seed: u64) -> Self {
        let subscription = Subscription { name: "build".into(), arguments: None };
        let entropy = Entropy::new([7; 32], seed);
        let follower =
            Follower::new(FollowConfig::default(), subscription, &described(), false, None, entropy);
        Self::Follower(Box::new(follower.expect("a mode")))
    }

    /// Returns when there is something to do again.
    fn due(&self) -> Option<Instant> {
        match self {
            Self::Cached { pace, .. } => Some(pace.earliest()),
            Self::Follower(follower) => follower.poll_timeout(),
        }
    }

    /// Returns whether the list is to be read now.
    fn reads(&mut self, now: Instant, scope: &CacheScope) -> bool {
        match self {
            Self::Cached { cache, pace } => {
                let is_due = cache.get(now, scope, &key()).is_none() && pace.earliest() <= now;
                if is_due {
                    pace.note_read(now);
                }
                is_due
            }
            Self::Follower(follower) => loop {
                follower.handle_timeout(now);
                match follower.poll_action(now) {
                    Some(FollowAction::Poll(_)) => {
                        let polled = PollEventsResult::new(Vec::new()).cursor("c").next_poll_ms(5_000.0);
                        follower.handle_polled(now, Ok(RawJson::encode(&polled).expect("JSON")));
                    }
                    Some(FollowAction::List) => return true,
                    Some(other) => panic!("{other:?}"),
                    None => return false,
                }
                while follower.poll_event().is_some() {}
            },
        }
    }

    fn changed(&mut self, now: Instant, scope: &CacheScope, change: &Change) {
        match self {
            Self::Cached { cache, .. } => cache.handle_change(scope, change),
            Self::Follower(follower) => follower.handle_list_changed(now),
        }
    }
}

fn key() -> CacheKey {
    CacheKey::List(EntryKind::Tool, None)
}

fn described() -> EventType {
    EventType::new("build", vec![DeliveryMode::Poll], raw("{}"))
}

/// Bytes on the way to one side.
#[derive(Default)]
struct Link(VecDeque<(Instant, Vec<u8>)>);

impl Link {
    fn carry(&mut self, now: Instant, rng: &mut Rng, from: &mut impl Pipe, to: &mut impl Pipe) {
        let bytes = from.transmit().to_vec();
        if !bytes.is_empty() {
            from.consume(bytes.len());
            let last = self.0.back().map_or(now, |(at, _)| *at);
            self.0.push_back((last.max(now + Duration::from_millis(rng.below(40) as u64)), bytes));
        }
        while self.0.front().is_some_and(|(at, _)| *at <= now) {
            let (_, bytes) = self.0.pop_front().expect("it is there");
            to.handle_input(now, &bytes);
        }
    }
}

/// Runs a world, and returns when the server was asked for its list, since the reader began.
fn reads(era: Era, mut reader: Reader, seed: u64) -> Vec<Duration> {
    let mut rng = Rng::new(seed);
    let config = client::Config::new("reader", "1").versions(VersionSet::ALL.era(era));
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
    let server_config = server::Config::new("announcer", "1").capabilities(capabilities);
    let mut now = Instant::ZERO;
    let mut client = Client::new(Arc::new(config.clone()), now);
    let mut server = Server::new(Arc::new(server_config), now);
    let (mut up, mut down) = (Link::default(), Link::default());
    let (mut scope, mut asked) = (None, Vec::new());
    let mut reading: Option<(CallKey, Option<client::CacheTicket>)> = None;
    let mut announcements: VecDeque<Instant> = VecDeque::new();
    let mut begun = now;
    loop {
        up.carry(now, &mut rng, &mut client, &mut server);
        while let Some(event) = server.poll_event(now) {
            let server::Event::Call(call) = event else { continue };
            asked.push(now.saturating_duration_since(begun));
            let list = raw(r#"{"tools":[],"ttlMs":3600000,"cacheScope":"private"}"#);
            server.engine().complete(now, call.id(), &list).expect("an answer");
            // At once, while the answer is on its way, or later; and sometimes twice.
            let pauses = [0, rng.below(20), rng.below(3_000)];
            let first = now + Duration::from_millis(*rng.pick(&pauses) as u64);
            announcements.extend(core::iter::repeat_n(first, 1 + rng.below(2)));
        }
        while announcements.front().is_some_and(|at| *at <= now) {
            announcements.pop_front();
            server.engine().publish(now, &Change::Tools);
        }
        down.carry(now, &mut rng, &mut server, &mut client);
        while let Some(event) = client.poll_event(now) {
            match event {
                client::Event::Ready(peer) => {
                    scope = Some(CacheScope::new(&config, &peer, "announcer", "").with_legacy_ttl(REST));
                    let filter = SubscriptionFilter::new().tools_list_changed(true);
                    client.engine().subscribe(now, &filter).expect("a subscription");
                    begun = now;
                    // The follower has read the list before; it changes when the subscription is there.
                    announcements.push_back(now + Duration::from_millis(200));
                }
                client::Event::Changed { change, .. } => {
                    reader.changed(now, scope.as_ref().expect("ready"), &change);
                }
                client::Event::Done { call, outcome, .. } => {
                    let (_, ticket) = reading.take_if(|(key, _)| *key == call).expect("the call");
                    let result = outcome.expect("a list");
                    match &mut reader {
                        Reader::Cached { cache, .. } => cache.insert(now, ticket.expect("one"), &result),
                        Reader::Follower(follower) => follower.handle_listed(now, Ok(Some(described()))),
                    }
                }
                _ => {}
            }
        }
        if let Some(scope) = scope.as_ref().filter(|_| reading.is_none()) {
            if reader.reads(now, scope) {
                let ticket = match &reader {
                    Reader::Cached { cache, .. } => Some(cache.ticket(scope, key())),
                    Reader::Follower(_) => None,
                };
                let call = client.engine().list(now, EntryKind::Tool, None, &CallOptions::new());
                reading = Some((call.expect("room"), ticket));
            }
        }
        if client.transmit().is_empty() && server.transmit().is_empty() {
            let on_way = [&up, &down].into_iter().filter_map(|link| link.0.front().map(|(at, _)| *at));
            let reader_due = reader.due().filter(|at| reading.is_none() && *at > now);
            let others =
                [announcements.front().copied(), reader_due, client.poll_timeout(), server.poll_timeout()];
            let next = on_way.chain(others.into_iter().flatten()).min();
            let Some(next) = next.filter(|next| next.saturating_duration_since(begun) < REST) else {
                return asked;
            };
            now = now.max(next);
            client.handle_timeout(now);
            server.handle_timeout(now);
        }
    }
}

#[test]
fn announced_lists_are_read_ten_times_in_a_minute_at_most_and_then_once_a_minute() {
    let minute = Duration::from_secs(60);
    let runs = if std::env::var_os("MCP_TEST_FULL").is_some() { 200 } else { 20 };
    for era in [Era::Legacy, Era::Modern] {
        for seed in 0..runs {
            for (name, reader) in [("cache", Reader::cached()), ("follower", Reader::follower(seed))] {
                let world = format!("{name}, {era:?}, seed {seed}");
                let times = reads(era, reader, seed);
                let first = times.iter().filter(|at| **at < minute).count();
                assert!((5..=10).contains(&first), "{world}: {first} lists in the first minute: {times:?}");
                let later: Vec<_> = times.iter().filter(|at| **at >= minute).collect();
                // A list on its way may be late by the time of one way.
                let late = Duration::from_millis(100);
                assert!(
                    later.windows(2).all(|pair| *pair[1] + late >= *pair[0] + minute),
                    "{world}: {times:?}"
                );
                assert!((15..=20).contains(&later.len()), "{world}: {times:?}");
            }
        }
    }
}
