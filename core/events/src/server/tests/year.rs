//! A year of a server on virtual time: it restarts each hour, often in the middle of deliveries, requests and answers are lost,
//! secrets are rotated each day, and events get lost before they come. Everything that goes on does so by what its store has.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::{Anchor, Entropy, Instant, RawJson, iso_8601};
use serde_json::Value;

use crate::delivery::simulation::Random;
use crate::delivery::{
    Config, Deliveries, Delivery, Failure, Outcome, Subscribe, Subscribed, SubscriptionHandle,
};
use crate::server::{EventStore as _, MemoryStore};
use crate::source::{LogLimits, Source, SourceConfig};
use crate::store::{Record, Snapshot};
use crate::webhook::{Secret, SignedHead, SubscriptionKey, Verifier};
use crate::wire::{DeliveryMode, EventOccurrence, EventType, Millis, Nullable, Profile};

/// Unix time of the beginning.
const BEGIN: u64 = 1_795_600_800;
const MINUTE: u64 = 60;
const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;
/// Time in which an event has to be delivered: all attempts of one life, and those of the next.
const IN_TIME: u64 = 2 * HOUR;
/// Percentage of requests and answers that are lost, half of them each.
const LOSS: u64 = 5;
const SUBSCRIBERS: usize = 1_000;
/// Of each principal, one for each folder.
const FOLDERS: usize = 10;
/// Events that the log keeps: two hours of them.
const LOG: usize = 120;
/// Minutes after which a client refreshes its subscription: before a grant of a day ends.
const REFRESH: u64 = 23 * 60;

/// A client and its receiver, which know nothing of restarts.
struct Subscriber {
    key: SubscriptionKey,
    secret: Secret,
    /// The secret before, and when it was replaced.
    older: Option<(Secret, u64)>,
    /// Whether it was granted without expiry.
    is_endless: bool,
    /// Events and times of those that it has to get and has not got.
    expected: BTreeMap<u64, u64>,
    /// Requests of such events that were lost.
    lost: BTreeMap<u64, u32>,
    /// Times of gaps that it has to hear of.
    gaps: VecDeque<u64>,
}

impl Subscriber {
    fn new(number: usize) -> Self {
        let (principal, folder) = (number / FOLDERS, number % FOLDERS);
        let arguments = RawJson::new(format!(r#"{{"folder":{folder}}}"#)).expect("JSON");
        let url = format!("https://h{}.example/{number}", number % 37);
        Self {
            key: SubscriptionKey::new(format!("p{principal}"), url, "mail", &arguments).expect("a key"),
            secret: secret(number, 0),
            older: None,
            is_endless: number % 2 == 0,
            expected: BTreeMap::new(),
            lost: BTreeMap::new(),
            gaps: VecDeque::new(),
        }
    }

    fn subscribe(&self) -> Subscribe {
        Subscribe {
            key: self.key.clone(),
            secret: self.secret.clone(),
            ttl: Some(Nullable((!self.is_endless).then_some(Millis(DAY * 1_000)))),
            cursor: None,
            truncated: false,
            profile: Profile::SEP,
            scopes: String::new(),
        }
    }

    /// Takes a delivery that arrives.
    fn receive(&mut self, number: usize, now: u64, delivery: &Delivery) {
        let [_, (_, id), (_, timestamp), (_, signature), (_, subscription)] = &delivery.headers;
        let url = format!("https://{}{}", delivery.url.origin().host, delivery.url.target());
        assert_eq!((&*url, subscription), (self.key.url(), &self.key.id()));
        let head = SignedHead { id, timestamp, signature };
        let verify = |secret: &Secret| Verifier::new(secret.clone()).verify(&head, &delivery.body, now);
        assert_eq!(verify(&self.secret), Ok(()), "subscriber {number}");
        if let Some((older, _)) = self.older.as_ref().filter(|(_, since)| now < since + 15 * MINUTE) {
            assert_eq!(verify(older), Ok(()), "subscriber {number}, in the grace of a rotation");
        }
        let body: Value = serde_json::from_slice(&delivery.body).expect("JSON");
        assert!(body["cursor"].is_string(), "{body}");
        if body["type"] == "gap" {
            self.gaps.clear();
            return;
        }
        let event = body["data"]["n"].as_u64().expect("an event");
        let for_whom = (body["data"]["to"].as_u64(), body["data"]["folder"].as_u64());
        let own = ((number / FOLDERS) as u64, (number % FOLDERS) as u64);
        assert_eq!(for_whom, (Some(own.0), Some(own.1)), "another one's mail");
        self.expected.remove(&event);
        self.lost.remove(&event);
    }

    /// Checks that nothing is late.
    fn check(&mut self, number: usize, now: u64) {
        while let Some((event, at)) = self.expected.first_key_value().map(|(event, at)| (*event, *at)) {
            if now < at + IN_TIME {
                break;
            }
            let lost = self.lost.get(&event).copied().unwrap_or_default();
            assert!(
                lost >= 5,
                "subscriber {number} has not got event {event}, of which {lost} requests were lost"
            );
            self.expected.remove(&event);
            self.lost.remove(&event);
        }
        let oldest = self.gaps.front().copied();
        assert!(oldest.is_none_or(|at| now < at + IN_TIME), "subscriber {number} has not heard of a gap");
    }
}

fn secret(number: usize, day: u64) -> Secret {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&(number as u64).to_le_bytes());
    bytes[8..16].copy_from_slice(&day.to_le_bytes());
    Secret::from_entropy(bytes)
}

/// Time of the source: it goes on over restarts.
fn instant(unix: u64) -> Instant {
    Instant::from_micros(unix * 1_000_000)
}

/// A server between two restarts.
struct Life {
    store: MemoryStore,
    source: Source,
    deliveries: Deliveries,
    /// Unix time at which the clock of the deliveries began.
    began: u64,
    /// By the numbers of their subscribers.
    handles: BTreeMap<usize, SubscriptionHandle>,
}

impl Life {
    /// Goes on with a store, in which progress is missing if it `is_late`.
    fn new(
        store: MemoryStore,
        began: u64,
        subscribers: &BTreeMap<SubscriptionKey, usize>,
        is_late: bool,
    ) -> Self {
        let mut source = Source::new(SourceConfig::default(), Entropy::new([1; 32], began));
        let mut config = Config::default();
        config.grants_no_expiry = true;
        let mut deliveries =
            Deliveries::new(config, Entropy::new([2; 32], began), Anchor::new(Instant::ZERO, began));
        deliveries.track_changes();
        let snapshot: Snapshot = store.load().expect("memory").into_iter().collect();
        let stored = source.restore(snapshot);
        let described = EventType::new("mail", [DeliveryMode::Webhook].into(), RawJson::empty_object());
        let limits = LogLimits { events: LOG, ..LogLimits::default() };
        let record = source.add(described, limits);
        store.append(record.as_slice()).expect("memory");
        let mut life = Self { store, source, deliveries, began, handles: BTreeMap::new() };
        for stored in stored.values() {
            let number = subscribers[&stored.key().expect("a key")];
            let handle = life.deliveries.restore(Instant::ZERO, stored).expect("it has not expired");
            let cursor = stored.progress.cursor.as_deref();
            let resume = life.source.resume_stored("mail", cursor).expect("a start");
            assert!(!resume.truncated || is_late, "the log is long enough");
            if let Some(cursor) = resume.cursor.as_deref().filter(|_| resume.truncated) {
                life.deliveries.report_gap(Instant::ZERO, handle, cursor);
            }
            let replay = life.source.replay("mail", &resume, |event| is_for(number, event));
            if let Some(cursor) = &replay.gap {
                life.deliveries.report_gap(Instant::ZERO, handle, cursor);
            }
            for event in &replay.events {
                life.deliveries.publish(Instant::ZERO, handle, event).expect("it is open");
            }
            life.handles.insert(number, handle);
        }
        life
    }

    fn now(&self, unix: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(unix - self.began)
    }

    fn subscribe(&mut self, unix: u64, number: usize, subscriber: &Subscriber) {
        let now = self.now(unix);
        let mut request = subscriber.subscribe();
        let resume = self.source.resume(instant(unix), "mail", None, None).expect("a start");
        request.cursor = resume.cursor;
        let granted = match self.deliveries.subscribe(now, request).expect("it is allowed") {
            Subscribed::Granted(grant) => grant.subscription,
            Subscribed::Verifying(_) => {
                let challenge = self.deliveries.poll_transmit(now).expect("a challenge");
                let outcome = Outcome::Answer { status: 200, retry_after: None, body: &challenge.body };
                self.deliveries.handle_answer(now, challenge.id, &outcome);
                while self.deliveries.poll_event().is_some() {}
                self.deliveries.find(&subscriber.key).expect("a grant")
            }
        };
        let before = self.handles.insert(number, granted);
        assert!(unix == BEGIN || before == Some(granted), "subscriber {number} was forgotten");
        self.keep();
    }

    fn publish(&mut self, unix: u64, event: u64, number: usize) {
        let data = format!(r#"{{"n":{event},"to":{},"folder":{}}}"#, number / FOLDERS, number % FOLDERS);
        let data = RawJson::new(data).expect("JSON");
        let event = EventOccurrence::new(format!("evt-{event}"), "mail", iso_8601(unix), data);
        let record = self.source.record(instant(unix), &event).expect("it is kept");
        self.store.append(&[record]).expect("memory");
        self.source.publish(instant(unix), event.clone()).expect("a type");
        let event = event.cursor(Nullable(self.source.cursor("mail")));
        self.deliveries.publish(self.now(unix), self.handles[&number], &event).expect("it is open");
        if let Some(cursor) = self.source.checkpoint("mail") {
            self.handles.values().for_each(|handle| self.deliveries.pass(*handle, &cursor));
        }
    }

    fn report_gap(&mut self, unix: u64) {
        let record = self.source.gap_record(instant(unix), "mail").expect("it is kept");
        self.store.append(&[record]).expect("memory");
        self.source.report_gap(instant(unix), "mail").expect("a type");
        let cursor = self.source.cursor("mail").expect("a cursor");
        for handle in self.handles.values() {
            self.deliveries.report_gap(self.now(unix), *handle, &cursor);
        }
    }

    /// Writes what the store does not know.
    fn keep(&mut self) {
        let changes: Vec<Record> = core::iter::from_fn(|| self.deliveries.poll_change()).collect();
        self.store.append(&changes).expect("memory");
        if self.store.wants_snapshot() {
            let all: Vec<Record> = self.source.records().chain(self.deliveries.records()).collect();
            self.store.replace(&all).expect("memory");
        }
    }
}

fn is_for(number: usize, event: &EventOccurrence) -> bool {
    let data: Value = event.data.parse().expect("JSON");
    data["to"] == (number / FOLDERS) && data["folder"] == (number % FOLDERS)
}

/// Passes hours, with one event each minute. Returns the numbers of events, and of deliveries that arrived.
fn pass(hours: u64, seed: u64) -> (u64, u64) {
    let mut random = Random(seed);
    let mut subscribers: Vec<Subscriber> = (0..SUBSCRIBERS).map(Subscriber::new).collect();
    let numbers: BTreeMap<SubscriptionKey, usize> =
        subscribers.iter().enumerate().map(|(number, subscriber)| (subscriber.key.clone(), number)).collect();
    let mut store = MemoryStore::new();
    let mut life = Life::new(store.clone(), BEGIN, &numbers, false);
    for (number, subscriber) in subscribers.iter().enumerate() {
        // The limit of challenges of a minute is per principal.
        life.subscribe(BEGIN, number, subscriber);
    }
    let (mut events, mut arrived) = (0, 0);
    for minute in 0..hours * 60 {
        let unix = BEGIN + minute * MINUTE;
        if minute > 0 && minute % 60 == 0 {
            // The machine crashes: progress that was not flushed is lost, too.
            let is_late = random.below(2) == 0;
            if is_late {
                let mut records = store.load().expect("memory");
                while records.last().is_some_and(|record| !record.is_promise()) {
                    records.pop();
                }
                store = MemoryStore::new();
                store.append(&records).expect("memory");
            }
            let bound = 2 * (SUBSCRIBERS + LOG + 1) + 1_024 + SUBSCRIBERS;
            assert!(store.load().map_or(usize::MAX, |records| records.len()) <= bound);
            life = Life::new(store.clone(), unix, &numbers, is_late);
            assert_eq!(life.deliveries.len(), SUBSCRIBERS);
            assert!(life.source.records().count() <= LOG + 1);
            subscribers
                .iter_mut()
                .enumerate()
                .for_each(|(number, subscriber)| subscriber.check(number, unix));
        }
        // Each client refreshes in time, with another secret.
        for number in (0..SUBSCRIBERS).filter(|number| *number as u64 == minute % REFRESH && minute > 0) {
            let subscriber = &mut subscribers[number];
            let next = secret(number, minute / REFRESH + 1);
            subscriber.older = Some((core::mem::replace(&mut subscriber.secret, next), unix));
            life.subscribe(unix, number, subscriber);
        }
        let number = usize::try_from(random.below(SUBSCRIBERS as u64)).expect("small");
        events += 1;
        subscribers[number].expected.insert(events, unix);
        life.publish(unix, events, number);
        if minute % (24 * 60) == 77 {
            subscribers.iter_mut().for_each(|subscriber| subscriber.gaps.push_back(unix));
            life.report_gap(unix);
        }
        // Until the next minute.
        let mut now = unix;
        loop {
            let at = life.now(now);
            life.deliveries.handle_timeout(at);
            while let Some(delivery) = life.deliveries.poll_transmit(at) {
                let number =
                    delivery.url.target().trim_start_matches('/').parse::<usize>().expect("a number");
                let (chance, event) = (random.below(100), event_of(&delivery));
                // Of each loss, half is a request and half an answer.
                let is_lost = chance * 2 < LOSS;
                if is_lost {
                    *subscribers[number].lost.entry(event).or_default() += 1;
                } else {
                    arrived += 1;
                    subscribers[number].receive(number, now, &delivery);
                }
                let outcome = match chance < LOSS {
                    // The answer of one that is in flight when the server restarts never comes.
                    _ if minute % 60 == 59 && chance < 50 => continue,
                    true => Outcome::Failed(Failure::Timeout),
                    false => Outcome::Answer { status: 200, retry_after: None, body: b"" },
                };
                life.deliveries.handle_answer(at, delivery.id, &outcome);
            }
            life.keep();
            let next = life
                .deliveries
                .poll_timeout()
                .map_or(u64::MAX, |at| life.began + at.as_micros().div_ceil(1_000_000));
            now = next.max(now + 1);
            if now >= unix + MINUTE {
                break;
            }
        }
    }
    (events, arrived)
}

/// Returns the number of the event of a delivery; 0 for a gap.
fn event_of(delivery: &Delivery) -> u64 {
    let body: Value = serde_json::from_slice(&delivery.body).expect("JSON");
    body["data"]["n"].as_u64().unwrap_or_default()
}

// covers: EVT-076, EVT-084, EVT-093, EVT-094, EVT-097, EVT-104, EVT-117, EVT-151
#[test]
fn hours_of_restarts_lose_nothing_and_send_nothing_to_others() {
    for seed in [1, 2] {
        let (events, arrived) = pass(6, seed);
        assert_eq!(events, 6 * 60);
        // Events, a gap for each, and some twice.
        assert!(arrived > events + SUBSCRIBERS as u64, "{arrived}, seed {seed}");
    }
}

// covers: EVT-084, EVT-151
#[test]
#[ignore = "a year takes minutes: cargo test --profile measure -p mcp-events year_of -- --ignored"]
fn year_of_restarts_loses_nothing_and_sends_nothing_to_others() {
    let (events, arrived) = pass(365 * 24, 7);
    assert!(events == 365 * 24 * 60 && arrived > events + 365 * SUBSCRIBERS as u64, "{events}, {arrived}");
}
