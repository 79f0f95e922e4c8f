//! Seeded schedules over subscribers, receivers and faults, on virtual time.
//!
//! Answers are lost, late, failures or throttling; the clock of the server jumps; subscribers refresh, rotate, leave and
//! come back. A failing seed is printed.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::time::Duration;

use mcp_proto::{Anchor, Entropy, Instant, RawJson};

use super::tests::{EPOCH, echo, event, key, request, secret};
use super::*;
use crate::webhook::{Secret, SignedHead, Verifier};
use crate::wire::{EventsError, Nullable, Profile};

const URLS: [&str; 3] = ["https://a.example/", "https://b.example/x", "https://b.example/y"];
const PRINCIPALS: [&str; 2] = ["p", "q"];

/// Seeded random numbers, for every simulation of the package.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    pub(crate) fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What is known about a subscription from what was sent.
#[derive(Default)]
struct Seen {
    /// Secrets that the subscriber has sent.
    secrets: Vec<Secret>,
    /// Attempts per `webhook-id`.
    attempts: BTreeMap<String, u32>,
    /// Time of the last attempt per `webhook-id`.
    last: BTreeMap<String, Instant>,
    /// Greatest position that the cursor of a message has had.
    watermark: u64,
    /// Greatest position that was published when a gap was sent.
    told: u64,
    published: u64,
}

struct World {
    random: Random,
    now: Instant,
    wall: u64,
    machine: Deliveries,
    seen: BTreeMap<SubscriptionHandle, Seen>,
    /// Principals and URLs that have echoed.
    verified: BTreeSet<(String, String)>,
    in_flight: Vec<(Delivery, Instant)>,
    calls: BTreeMap<Ticket, Subscribe>,
    config: Config,
    /// No receiver answers any more.
    is_down: bool,
    /// Number of subscriptions that were given up.
    given_up: u64,
}

fn position(cursor: &str) -> u64 {
    cursor.strip_prefix("c-").and_then(|digits| digits.parse().ok()).expect("a cursor of ours")
}

impl World {
    fn new(seed: u64) -> Self {
        let config = Config {
            queue_messages: 12,
            in_flight: 3,
            in_flight_per_host: 4,
            in_flight_total: 6,
            challenges_per_principal: 1_000,
            failed_challenges: 1_000,
            challenges_per_host: 1_000,
            suspension_attempts: 30,
            suspension_percent: 90,
            default_ttl: Duration::from_secs(1_200),
            grants_no_expiry: true,
            give_up_after: Duration::from_secs(1_200),
            ..Config::default()
        };
        let anchor = Anchor::new(Instant::ZERO, EPOCH);
        Self {
            random: Random(seed),
            now: Instant::ZERO,
            wall: EPOCH,
            machine: Deliveries::new(config.clone(), Entropy::new([1; 32], seed), anchor),
            seen: BTreeMap::new(),
            verified: BTreeSet::new(),
            in_flight: Vec::new(),
            calls: BTreeMap::new(),
            config,
            is_down: false,
            given_up: 0,
        }
    }

    fn key(&mut self) -> SubscriptionKey {
        let (principal, url) = (self.random.below(2) as usize, self.random.below(3) as usize);
        let arguments = ["{}", r#"{"n":1}"#][self.random.below(2) as usize];
        key(PRINCIPALS[principal], URLS[url], arguments)
    }

    fn grant(&mut self, call: &Subscribe, grant: &Grant) {
        let proof = (call.key.principal().to_string(), call.key.url().to_string());
        assert!(self.verified.contains(&proof), "a grant without a proof: {proof:?}");
        let seen = self.seen.entry(grant.subscription).or_default();
        if grant.status.is_none() {
            assert_eq!(seen.published, 0);
        }
        seen.secrets.push(call.secret.clone());
        let cursor = position(grant.cursor.as_deref().expect("a cursor"));
        assert!(cursor >= seen.watermark, "the watermark went back");
    }

    fn subscribe(&mut self) {
        let key = self.key();
        let secret = secret(self.random.below(4) as u8 + 1);
        let ttl = self.random.is(20).then_some(Nullable(None));
        let call = Subscribe { secret, ttl, ..request(key) };
        match self.machine.subscribe(self.now, call.clone()).expect("within the limits") {
            Subscribed::Granted(grant) => self.grant(&call, &grant),
            Subscribed::Verifying(ticket) => drop(self.calls.insert(ticket, call)),
        }
    }

    fn publish(&mut self) {
        let handles: Vec<SubscriptionHandle> = self.seen.keys().copied().collect();
        if handles.is_empty() {
            return;
        }
        let handle = handles[self.random.below(handles.len() as u64) as usize];
        for _ in 0..=self.random.below(6) {
            self.publish_to(handle);
        }
    }

    fn publish_to(&mut self, handle: SubscriptionHandle) {
        let seen = self.seen.get_mut(&handle).expect("a handle of ours");
        if self.machine.publish(self.now, handle, &event(seen.published + 1)).is_ok() {
            seen.published += 1;
        }
    }

    /// Checks a request, and keeps it until it is answered.
    fn take(&mut self, delivery: Delivery) {
        let header =
            |name: &str| &*delivery.headers.iter().find(|(other, _)| *other == name).expect("a field").1;
        let (id, time, signature) =
            (header("webhook-id"), header("webhook-timestamp"), header("webhook-signature"));
        assert_eq!(time, self.wall.to_string(), "the time is that of the attempt");
        assert!(self.machine.attempts.len() <= self.config.in_flight_total);
        let is_challenge = |attempt: &&Attempt| matches!(attempt.purpose, Purpose::Challenge(_));
        assert!(self.machine.attempts.values().filter(is_challenge).count() <= 1, "a quarter of six");
        let busiest = self.machine.hosts.values().map(|host| host.in_flight).max();
        assert!(busiest <= Some(self.config.in_flight_per_host), "{busiest:?}");
        let head = SignedHead { id, timestamp: time, signature };
        let verifies =
            |secret: &Secret| Verifier::new(secret.clone()).verify(&head, &delivery.body, self.wall).is_ok();
        if !id.starts_with("msg_verification") {
            let Some(Attempt { purpose: Purpose::Message(handle, _), .. }) =
                self.machine.attempts.get(&delivery.id)
            else {
                panic!("a message")
            };
            let key = self.machine.key(*handle).expect("a live subscription").clone();
            assert_eq!(header("X-MCP-Subscription-Id"), key.id());
            assert!(
                self.verified.contains(&(key.principal().into(), key.url().into())),
                "nothing unverified is sent"
            );
            let seen = self.seen.get_mut(handle).expect("a granted subscription");
            assert!(
                verifies(seen.secrets.last().expect("a secret")),
                "signed by the newest secret of its owner"
            );
            let count = seen.attempts.entry(id.into()).or_default();
            *count += 1;
            assert!(*count <= self.config.attempts, "{id}: {count} attempts");
            // So its timestamp and signature are others, unless somebody has set the clock back.
            let last = seen.last.insert(id.into(), self.now);
            assert!(
                last.is_none_or(|last| self.now >= last + Duration::from_secs(1)),
                "{id}: two attempts at once"
            );
            let body = RawJson::new(delivery.body.clone()).expect("JSON");
            let own = body.member("eventId").and_then(|id| id.string());
            if let Some(own) = &own {
                let own: u64 = own["evt-".len()..].parse().expect("an id of ours");
                assert!(
                    own > seen.watermark,
                    "event {own} is open, and a cursor has passed it: {}",
                    seen.watermark
                );
            }
            if let Some(cursor) = body.member("cursor").and_then(|cursor| cursor.string()) {
                // A message with its own position reaches it only when it is acknowledged.
                let sent = position(&cursor);
                assert!(sent <= seen.published, "a cursor of the future");
                if own.is_none() {
                    seen.told = seen.told.max(seen.published);
                }
                // What was never sent was skipped, and a gap has told that before a cursor passes it.
                let untold =
                    (seen.told + 1..=sent).filter(|open| !seen.attempts.contains_key(&format!("evt-{open}")));
                assert_eq!(untold.collect::<Vec<u64>>(), [0_u64; 0], "cursor {sent}");
            }
        }
        let answered = match self.random.below(10) {
            0..=6 => self.now,
            // Some before the deadline, some after it.
            _ => self.now + Duration::from_millis(self.random.below(20_000)),
        };
        self.in_flight.push((delivery, answered));
    }

    fn answer(&mut self, delivery: &Delivery) {
        let attempt = self.machine.attempts.get(&delivery.id);
        let message = match attempt.map(|attempt| &attempt.purpose) {
            Some(Purpose::Message(handle, _)) => Some(*handle),
            Some(Purpose::Challenge(proof)) => {
                if self.random.is(80) {
                    self.verified.insert(proof.clone());
                    let body = echo(delivery);
                    let outcome = Outcome::Answer { status: 200, retry_after: None, body: body.as_bytes() };
                    return self.machine.handle_answer(self.now, delivery.id, &outcome);
                }
                return self.machine.handle_answer(self.now, delivery.id, &Outcome::Failed(Failure::Tls));
            }
            // Too late: it failed at its deadline.
            None => None,
        };
        let status = match self.random.below(20) {
            _ if self.is_down => 0,
            0..=9 => 200,
            10..=14 => 500,
            15 => 302,
            16 => 410,
            17 => 413,
            18 => 429,
            _ => 0,
        };
        let wait = self.random.below(400);
        let retry_after = (status == 429).then_some(Duration::from_secs(wait));
        let outcome = match status {
            0 => Outcome::Failed(Failure::Connection),
            status => Outcome::Answer { status, retry_after, body: b"{}" },
        };
        // What the machine takes counts; the subscription may have ended.
        let counts = message.filter(|handle| self.machine.key(*handle).is_some());
        self.machine.handle_answer(self.now, delivery.id, &outcome);
        let Some(seen) = counts.and_then(|handle| self.seen.get_mut(&handle)) else { return };
        if matches!(status, 200 | 410 | 413) {
            let body = RawJson::new(delivery.body.clone()).expect("JSON");
            let cursor = body.member("cursor").and_then(|cursor| cursor.string());
            // The receiver persists this.
            seen.watermark = seen.watermark.max(cursor.map_or(0, |cursor| position(&cursor)));
        }
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..=1 => self.subscribe(),
            2..=9 => self.publish(),
            10 => {
                let key = self.key();
                let _ = self.machine.unsubscribe(&key, &Profile::CHATGPT);
            }
            11 if self.random.is(20) => {
                let handles: Vec<SubscriptionHandle> = self.seen.keys().copied().collect();
                if let Some(handle) = handles.last() {
                    self.machine.terminate(self.now, *handle, &EventsError::EventNotFound);
                }
            }
            12 if self.random.is(20) => {
                // Somebody sets the clock.
                self.wall = self.wall + 1_000 - self.random.below(2_000);
                self.machine.set_anchor(Anchor::new(self.now, self.wall));
            }
            _ => self.pass(),
        }
        self.drain();
    }

    /// Lets time pass: to the next deadline, or a while.
    fn pass(&mut self) {
        let next = self.machine.poll_timeout();
        let answer = self.in_flight.iter().map(|(_, at)| *at).min();
        let jump = self.now + Duration::from_secs(1 + self.random.below(30));
        let next = [next, answer].into_iter().flatten().min().filter(|_| self.random.is(80)).unwrap_or(jump);
        // Whole seconds, so that no two attempts of a message are at the same one.
        let secs = next.max(self.now).as_micros().div_ceil(1_000_000);
        let next = Instant::from_micros(secs * 1_000_000);
        self.wall += next.saturating_duration_since(self.now).as_secs();
        self.now = next;
        self.machine.set_anchor(Anchor::new(self.now, self.wall));
        self.machine.handle_timeout(self.now);
    }

    fn drain(&mut self) {
        loop {
            while let Some(news) = self.machine.poll_event() {
                match news {
                    Event::Verified { ticket, grant } => {
                        let call = self.calls.remove(&ticket).expect("a call that waits");
                        self.grant(&call, &grant);
                    }
                    Event::Refused { ticket, .. } => {
                        assert!(self.calls.remove(&ticket).is_some(), "a call is answered once");
                    }
                    Event::Ended { subscription } => assert!(self.machine.key(subscription).is_none()),
                    Event::GivenUp { .. } => self.given_up += 1,
                    Event::Suspended { .. } => {}
                }
            }
            let mut sent = false;
            while let Some(delivery) = self.machine.poll_transmit(self.now) {
                self.take(delivery);
                sent = true;
            }
            let now = self.now;
            let due = self.in_flight.iter().position(|(_, at)| *at <= now);
            match due {
                Some(due) => {
                    let (delivery, _) = self.in_flight.swap_remove(due);
                    self.answer(&delivery);
                }
                None if !sent => break,
                None => {}
            }
        }
        let open: u64 = self.machine.subscriptions.values().map(|s| s.queue.events()).sum();
        let stats = self.machine.stats();
        assert_eq!(
            stats.published,
            stats.acknowledged + stats.abandoned + stats.skipped + stats.cancelled + open,
            "every event has one end: {stats:?}"
        );
        let bytes: usize = self.machine.subscriptions.values().map(|s| s.queue.bytes()).sum();
        let sizes: usize = self.machine.sizes.iter().map(|(bytes, _)| bytes).sum();
        assert_eq!((bytes, bytes), (self.machine.queued, sizes), "bytes of all queues");
        let waiting: usize = self.machine.verifications.places();
        let places: usize = self.machine.principals.values().sum();
        assert_eq!(places, self.machine.len() + waiting, "places of principals");
    }
}

// covers: EVT-092, EVT-093, EVT-097, EVT-099, EVT-113, EVT-116, EVT-131
#[test]
fn schedules_keep_the_invariants() {
    let (mut total, mut given_up) = (Stats::default(), 0);
    let runs = std::env::var("MCP_SIM_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(20);
    for seed in 0..runs {
        std::println!("seed {seed}");
        let mut world = World::new(seed);
        (0..600).for_each(|_| world.step());
        let stats = world.machine.stats();
        total.acknowledged += stats.acknowledged;
        total.abandoned += stats.abandoned;
        total.skipped += stats.skipped;
        total.cancelled += stats.cancelled;
        // Nobody does anything more, and no receiver answers: all ends.
        world.is_down = true;
        let left: Vec<SubscriptionHandle> = world.machine.subscriptions.keys().copied().collect();
        left.into_iter().for_each(|handle| world.publish_to(handle));
        for _ in 0..2_000 {
            world.pass();
            world.drain();
        }
        assert!(world.machine.is_empty() && world.calls.is_empty(), "everything has ended");
        given_up += world.given_up;
        assert!(world.machine.attempts.is_empty() && world.machine.hosts.is_empty(), "nothing leaks");
        assert!(world.machine.schedule.is_empty() && world.machine.released.is_empty());
        assert_eq!(world.machine.poll_timeout(), None);
    }
    // The schedules reach every outcome.
    let least = [total.acknowledged, total.abandoned, total.skipped, total.cancelled].into_iter().min();
    assert!(least > Some(50) && given_up > 10, "{total:?}, {given_up} given up");
}
