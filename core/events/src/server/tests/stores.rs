//! Restarts: events that go on with the store of others, with webhooks on virtual time.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use alloc::collections::VecDeque;
use core::task::Waker;

use super::*;
use crate::delivery::{Config as DeliveryConfig, Deliveries, Delivery, DriveDeliveries, Outcome, Subscribe};
use crate::store::{Record, Snapshot, StoredSubscription, log_records};
use crate::webhook::{MEDIA_TYPE, SUBSCRIPTION_ID, Secret};
use crate::wire::Nullable;

const HOOK: &str = "https://hooks.example/a?token=marker";

/// Drives deliveries as the test says, whose clock stands still.
#[derive(Clone)]
pub(super) struct TestDriver(Arc<(Mutex<TestMachine>, Mutex<Option<Waker>>)>);

struct TestMachine {
    deliveries: Deliveries,
    now: Instant,
}

impl TestDriver {
    pub(super) fn new() -> Self {
        let mut config = DeliveryConfig::default();
        config.grants_no_expiry = true;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_secs();
        let entropy = Entropy::new(entropy::seed().expect("entropy"), 0);
        let deliveries = Deliveries::new(config, entropy, Anchor::new(Instant::ZERO, unix));
        Self(Arc::new((Mutex::new(TestMachine { deliveries, now: Instant::ZERO }), Mutex::new(None))))
    }

    fn change<R>(&self, change: impl FnOnce(&mut Deliveries, Instant) -> R) -> R {
        let mut machine = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = machine.now;
        let result = change(&mut machine.deliveries, now);
        let is_woken = machine.deliveries.has_events() || machine.deliveries.has_changes();
        drop(machine);
        let waker = self.0.1.lock().expect("a waker").clone();
        waker.into_iter().filter(|_| is_woken).for_each(Waker::wake);
        result
    }

    /// Returns the requests that are due.
    pub(super) fn due(&self) -> Vec<Delivery> {
        self.change(|deliveries, now| core::iter::from_fn(|| deliveries.poll_transmit(now)).collect())
    }

    pub(super) fn answer(&self, delivery: &Delivery, status: u16) {
        let body = if status == 200 { &*delivery.body } else { b"{}" };
        let outcome = Outcome::Answer { status, retry_after: None, body };
        self.change(|deliveries, now| deliveries.handle_answer(now, delivery.id, &outcome));
    }

    /// Acknowledges what is due, and returns the ids of subscriptions and the bodies.
    pub(super) fn delivered(&self) -> Vec<(String, Value)> {
        let mut delivered = Vec::new();
        loop {
            let due = self.due();
            if due.is_empty() {
                return delivered;
            }
            for delivery in due {
                self.answer(&delivery, 200);
                delivered.push((id(&delivery), body(&delivery)));
            }
        }
    }

    pub(super) fn advance(&self, time: Duration) {
        self.0.0.lock().expect("a machine").now = self.change(|_, now| now + time);
        self.change(|deliveries, now| deliveries.handle_timeout(now));
    }
}

impl DriveDeliveries for TestDriver {
    fn with_deliveries(&self, f: &mut dyn FnMut(&mut Deliveries, Instant)) {
        self.change(f);
    }

    fn register(&self, waker: &Waker) {
        *self.0.1.lock().expect("a waker") = Some(waker.clone());
    }

    fn finish(&self, _: Duration) -> bool {
        !self.change(|deliveries, _| deliveries.has_open_messages())
    }
}

fn id(delivery: &Delivery) -> String {
    let (name, id) = &delivery.headers[4];
    assert_eq!((delivery.headers[0].1.as_str(), *name), (MEDIA_TYPE, SUBSCRIPTION_ID));
    id.clone()
}

pub(super) fn body(delivery: &Delivery) -> Value {
    serde_json::from_slice(&delivery.body).expect("JSON")
}

pub(super) fn ids(delivered: &[(String, Value)]) -> Vec<&str> {
    delivered.iter().map(|(_, body)| body["eventId"].as_str().unwrap_or("-")).collect()
}

/// A server between two restarts.
pub(super) struct Life {
    pub(super) events: Events,
    pub(super) driver: TestDriver,
    pub(super) harness: Harness,
}

impl Life {
    pub(super) fn new(store: impl EventStore + 'static) -> Self {
        Self::with_profile(store, Profile::SEP)
    }

    fn with_profile(store: impl EventStore + 'static, profile: Profile) -> Self {
        let events = Events::with_store(SourceConfig::default(), profile, store).expect("a store");
        let driver = TestDriver::new();
        events.webhooks(driver.clone());
        let harness = Harness::new(&events);
        Self { events, driver, harness }
    }

    fn add(&self) -> Publisher<Value> {
        self.events.add(mail()).expect("a type")
    }

    pub(super) fn sign_in(&mut self, principal: &str) {
        let channel = self.harness.server.pipe.channel();
        let party = server::Authorization::new(Identity::new(principal).scopes("mail:read"));
        self.harness.server.engine().set_authorization(channel, Some(party));
    }

    /// Subscribes, and answers the challenge.
    pub(super) fn subscribe(&mut self, principal: &str, arguments: &Value, ttl: Value) -> Value {
        let mut params = target(arguments);
        params["ttlMs"] = ttl;
        self.subscribe_with(principal, params)
    }

    fn subscribe_with(&mut self, principal: &str, mut params: Value) -> Value {
        self.sign_in(principal);
        params["delivery"]["secret"] = json!(SECRET);
        let mut sent = self.harness.request(9, wire::SUBSCRIBE, params);
        // Granted at once, if it is known.
        let challenges = if sent.is_empty() { self.driver.due() } else { Vec::new() };
        for challenge in challenges {
            assert_eq!(body(&challenge)["type"], "verification");
            self.driver.answer(&challenge, 200);
        }
        self.harness.process();
        sent.extend(self.harness.sent());
        assert_eq!((sent.len(), &sent[0]["id"]), (1, &json!(9)), "{sent:?}");
        sent[0]["result"].clone()
    }
}

pub(super) fn target(arguments: &Value) -> Value {
    json!({"name": "mail", "arguments": arguments, "delivery": {"mode": "webhook", "url": HOOK}})
}

/// Mail goes to its principal alone, who has to have the scope, and can choose a folder.
pub(super) fn mail() -> Event<Value, Value> {
    let any = || raw(r#"{"type":"object"}"#);
    Event::with_schemas("mail", any(), any())
        .modes([DeliveryMode::Poll, DeliveryMode::Push, DeliveryMode::Webhook])
        .authorize(|_, caller| match caller.has_scope("mail:read") {
            true => Ok(()),
            false => Err(EventsError::Forbidden("no scope".into())),
        })
        .matching_for(|principal, wanted: &Value, mail: &Value| {
            mail["to"].as_str() == principal
                && (wanted["folder"].is_null() || wanted["folder"] == mail["folder"])
        })
}

pub(super) fn send(publisher: &Publisher<Value>, number: u32, to: &str) {
    let payload = json!({"to": to, "folder": if number % 2 == 0 { "even" } else { "odd" }});
    publisher.publish_as(format!("evt-{number}"), UNIX_EPOCH, &payload).expect("published");
}

/// A store that fails while it is told to.
#[derive(Clone, Default)]
pub(super) struct Failing {
    store: MemoryStore,
    pub(super) fails: Arc<AtomicUsize>,
    pub(super) snapshots: Arc<AtomicUsize>,
}

impl Failing {
    fn check(&self) -> io::Result<()> {
        match self.fails.load(Ordering::SeqCst) {
            0 => Ok(()),
            _ => Err(io::Error::other("the disk is full")),
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.store.load().expect("records").into_iter().collect()
    }
}

impl EventStore for Failing {
    fn load(&self) -> io::Result<Vec<Record>> {
        self.check()?;
        self.store.load()
    }

    fn append(&self, records: &[Record]) -> io::Result<()> {
        self.check()?;
        self.store.append(records)
    }

    fn wants_snapshot(&self) -> bool {
        self.store.wants_snapshot()
    }

    fn replace(&self, records: &[Record]) -> io::Result<()> {
        self.check()?;
        self.snapshots.fetch_add(1, Ordering::SeqCst);
        self.store.replace(records)
    }
}

// covers: EVT-048, EVT-065, EVT-151
#[test]
fn cursors_of_before_a_restart_are_valid() {
    let store = MemoryStore::new();
    let mut life = Life::new(store.clone());
    let publisher = life.add();
    life.sign_in("ann");
    let cursor = life.harness.result(1, wire::POLL, json!({"name": "mail"}))["cursor"].clone();
    (0..4).for_each(|n| send(&publisher, n, "ann"));
    publisher.report_gap().expect("reported");
    send(&publisher, 4, "ann");
    drop((life, publisher));
    let mut life = Life::new(store.clone());
    let publisher = life.add();
    life.sign_in("ann");
    send(&publisher, 5, "ann");
    let params = json!({"name": "mail", "cursor": cursor});
    let polled = life.harness.result(1, wire::POLL, params);
    assert_eq!(polled["events"].as_array().map(Vec::len), Some(4));
    assert_eq!((&polled["truncated"], &polled["hasMore"]), (&json!(false), &json!(true)));
    // The gap keeps its place, too.
    let sent = life.harness.request(2, wire::STREAM, json!({"name": "mail", "cursor": polled["cursor"]}));
    assert_eq!(methods(&sent), [wire::ACTIVE, wire::ACTIVE, wire::EVENT, wire::EVENT]);
    assert_eq!([&sent[0]["params"]["truncated"], &sent[1]["params"]["truncated"]], [false, true]);
    assert_eq!(sent[3]["params"]["eventId"], "evt-5");
    // A type that is removed begins anew, also after a restart.
    life.events.remove("mail", &EventsError::EventNotFound);
    drop(life);
    let mut life = Life::new(store);
    life.add();
    life.sign_in("ann");
    let polled = life.harness.result(1, wire::POLL, json!({"name": "mail", "cursor": polled["cursor"]}));
    assert_eq!((&polled["events"], &polled["truncated"]), (&json!([]), &json!(true)));
}

// covers: EVT-074, EVT-076, EVT-084, EVT-094, EVT-099, EVT-117, EVT-151
#[test]
fn subscriptions_go_on_over_restarts_without_their_clients() {
    let store = MemoryStore::new();
    let mut life = Life::new(store.clone());
    let publisher = life.add();
    let ann = life.subscribe("ann", &json!({"folder": "even"}), Value::Null);
    let bob = life.subscribe("bob", &json!({}), Value::Null);
    assert!(ann["refreshBefore"].is_null() && bob["id"].is_string() && ann["id"] != bob["id"], "{ann} {bob}");
    let of = |id: &Value| id.as_str().expect("an id").to_string();
    let [ann, bob] = [&ann, &bob].map(|granted| of(&granted["id"]));
    send(&publisher, 0, "ann");
    assert_eq!(life.driver.delivered().len(), 1);
    // Of these, one is acknowledged before the end, one has failed once, and the others were not sent.
    for n in 1..6 {
        send(&publisher, n, if n == 3 { "bob" } else { "ann" });
    }
    let due = life.driver.due();
    let [two, four]: [&Delivery; 2] =
        ["evt-2", "evt-4"].map(|n| due.iter().find(|d| body(d)["eventId"] == n).expect("it is due"));
    life.driver.answer(two, 500);
    life.driver.answer(four, 200);
    drop((life, publisher));
    // Without its type, nothing goes on, and nothing is lost.
    let life = Life::new(store.clone());
    assert_eq!(life.driver.delivered(), []);
    drop(life);
    let mut life = Life::new(store.clone());
    let publisher = life.add();
    send(&publisher, 6, "ann");
    let mut delivered = life.driver.delivered();
    delivered.sort_by_key(|(_, body)| body["eventId"].to_string());
    // At least once: what was acknowledged behind an open one comes again.
    assert_eq!(ids(&delivered), ["evt-2", "evt-3", "evt-4", "evt-6"]);
    assert!(
        delivered.iter().all(|(id, body)| *id == if body["data"]["to"] == "ann" { &*ann } else { &*bob })
    );
    // A refresh finds it, as it was.
    let refreshed = life.subscribe("ann", &json!({"folder": "even"}), Value::Null);
    assert_eq!((&refreshed["id"], &refreshed["deliveryStatus"]["active"]), (&json!(ann), &json!(true)));
    assert!(refreshed["deliveryStatus"]["lastDeliveryAt"].is_string(), "{refreshed}");
    drop((life, publisher));
    // Everything is acknowledged, so nothing comes again; the end of one is kept, too.
    let mut life = Life::new(store.clone());
    let publisher = life.add();
    assert_eq!(life.driver.delivered(), []);
    life.sign_in("ann");
    life.harness.result(1, wire::UNSUBSCRIBE, target(&json!({"folder": "even"})));
    drop((life, publisher));
    let life = Life::new(store);
    let publisher = life.add();
    (8..10).for_each(|n| send(&publisher, n, if n == 9 { "bob" } else { "ann" }));
    assert_eq!(ids(&life.driver.delivered()), ["evt-9"]);
}

// covers: EVT-020, EVT-084, EVT-088, EVT-104, EVT-130, EVT-162
#[test]
fn subscription_that_waits_for_its_type_can_end() {
    let store = MemoryStore::new();
    let mut life = Life::new(store.clone());
    life.add();
    for (principal, folder) in
        [("ann", "even"), ("ann", "odd"), ("bob", "even"), ("cid", "even"), ("dan", "even")]
    {
        life.subscribe(principal, &json!({"folder": folder}), json!(3_600_000));
    }
    drop(life);
    let mut life = Life::new(store.clone());
    // By its client, and by the application.
    life.sign_in("ann");
    life.harness.result(1, wire::UNSUBSCRIBE, target(&json!({"folder": "even"})));
    assert_eq!(life.harness.error(2, wire::UNSUBSCRIBE, target(&json!({"folder": "even"}))).0, -32023);
    let left = |_: &str, principal: Option<&str>| {
        (principal == Some("bob")).then(|| EventsError::Forbidden("left".into()))
    };
    assert_eq!(life.events.terminate(left), 1);
    // Its receiver is told, by the next life if it has to be.
    drop(life);
    let life = Life::new(store.clone());
    let told = life.driver.delivered();
    assert_eq!(
        (told.len(), &told[0].1["type"], &told[0].1["error"]["code"]),
        (1, &json!("terminated"), &json!(-32024))
    );
    // Who may not subscribe any more, is told when his type comes.
    let picky = mail().authorize(|_, caller| match caller.principal() {
        Some("cid") => Err(EventsError::Forbidden("left".into())),
        Some("dan") => panic!("a bug of the application"),
        _ => Ok(()),
    });
    let publisher = life.events.add(picky).expect("a type");
    let told = life.driver.delivered();
    assert_eq!(
        told.iter().map(|(_, body)| &body["type"]).collect::<Vec<_>>(),
        ["terminated"],
        "a panic ends nothing"
    );
    for n in 0..2 {
        ["ann", "bob", "cid", "dan"].iter().for_each(|to| send(&publisher, n, to));
    }
    assert_eq!(ids(&life.driver.delivered()), ["evt-1"]);
    drop((life, publisher));
    // The type goes for good, and the subscription with it.
    let life = Life::new(store.clone());
    life.events.remove("mail", &EventsError::EventNotFound);
    assert_eq!(life.driver.delivered().len(), 2);
    let kept: Snapshot = store.load().expect("records").into_iter().collect();
    assert!(kept.subscriptions.is_empty() && kept.logs.is_empty(), "{kept:?}");
}

// covers: EVT-075, EVT-084
#[test]
fn subscription_that_was_made_anew_is_not_that_of_the_store() {
    let store = MemoryStore::new();
    let mut life = Life::new(store.clone());
    life.add();
    life.subscribe("ann", &json!({}), Value::Null);
    drop(life);
    let kept = || store.load().expect("records").into_iter().collect::<Snapshot>();
    let stored = kept().subscriptions.into_values().next().expect("one");
    let mut life = Life::new(store.clone());
    // Between the type and its stored subscriptions.
    let request = Subscribe {
        key: stored.key().expect("a key"),
        secret: Secret::from_entropy([9; 32]),
        ttl: Some(Nullable(None)),
        cursor: stored.progress.cursor.clone(),
        truncated: false,
        profile: Profile::SEP,
        scopes: String::new(),
    };
    life.driver.change(|deliveries, now| {
        deliveries.prove(now, "ann", HOOK, u64::MAX);
        deliveries.subscribe(now, request).expect("a grant");
    });
    life.add();
    life.sign_in("ann");
    let kept = kept().subscriptions.into_values().collect::<Vec<_>>();
    assert_eq!((kept.len(), &kept[0].secret), (1, &Secret::from_entropy([9; 32])));
}

// covers: EVT-082, EVT-100
#[test]
fn store_has_what_is_suspended_and_drops_what_has_expired() {
    let store = Failing::default();
    let mut life = Life::new(store.clone());
    let publisher = life.add();
    let suspended = life.subscribe("ann", &json!({}), Value::Null)["id"].as_str().expect("an id").to_string();
    life.subscribe("bob", &json!({}), json!(60_000));
    for n in 0..100 {
        send(&publisher, n, "ann");
        life.driver.due().iter().for_each(|delivery| life.driver.answer(delivery, 500));
    }
    let progress = |store: &Failing| store.snapshot().subscriptions[&suspended].progress.clone();
    assert!(
        progress(&store).is_suspended && progress(&store).failed_since.is_some(),
        "{:?}",
        progress(&store)
    );
    life.driver.advance(Duration::from_secs(61));
    assert_eq!(store.snapshot().subscriptions.len(), 1);
    drop((life, publisher));
    let mut life = Life::new(store.clone());
    life.add();
    assert_eq!(life.driver.delivered(), [], "it is suspended");
    let refreshed = life.subscribe("ann", &json!({}), json!(60_000));
    assert_eq!(refreshed["deliveryStatus"]["active"], false);
    assert_eq!(refreshed["deliveryStatus"]["lastError"], "http_5xx");
    assert_eq!(life.driver.delivered().len(), 100);
    assert!(!progress(&store).is_suspended);
    drop(life);
    // While no server ran, its time has passed.
    let mut expired: StoredSubscription = store.snapshot().subscriptions[&suspended].clone();
    expired.expires_at = Some(1_795_600_800 / 2);
    store.append(&[Record::Subscription(expired.into())]).expect("memory");
    let life = Life::new(store);
    let publisher = life.add();
    send(&publisher, 200, "ann");
    assert_eq!(life.driver.delivered(), []);
}

// covers: EVT-099, EVT-104, EVT-143, EVT-144
#[test]
fn gap_before_the_start_outlives_restarts_before_it_is_delivered() {
    // Because the log has lost it, and because of the age that the client asks for, where the cursor is good.
    for (events, max_age) in [(4, Value::Null), (100, json!(1_000))] {
        let store = MemoryStore::new();
        let log = LogLimits { events, ..LogLimits::default() };
        let begin = || {
            let life = Life::new(store.clone());
            let publisher = life.events.add(mail().log(log)).expect("a type");
            (life, publisher)
        };
        let (mut life, publisher) = begin();
        let begun = life.subscribe("ann", &json!({}), Value::Null)["cursor"].clone();
        (0..9).for_each(|n| send(&publisher, n, "ann"));
        life.harness.advance(Duration::from_secs(60));
        let mut params = target(&json!({"folder": "even"}));
        (params["cursor"], params["maxAgeMs"]) = (begun, max_age);
        let granted = life.subscribe_with("ann", params);
        assert_eq!(granted["truncated"], true);
        // Processes die before anything was sent.
        drop((life, publisher));
        drop(begin());
        let of_it = |life: &Life| {
            let all = life.driver.delivered().into_iter().filter(|(id, _)| *id == granted["id"]);
            all.collect::<Vec<_>>()
        };
        let (life, publisher) = begin();
        let delivered = of_it(&life);
        let expected: &[&str] = if events == 4 { &["-", "evt-6", "evt-8"] } else { &["-"] };
        assert_eq!(ids(&delivered), expected);
        assert_eq!(delivered[0].1, json!({"type": "gap", "cursor": granted["cursor"]}));
        drop((life, publisher));
        let (life, _) = begin();
        assert_eq!(of_it(&life), [], "it was told");
    }
}

// covers: EVT-104, EVT-144
#[test]
fn refresh_after_a_restart_tells_of_the_gap_before_the_start_without_envelopes() {
    let store = MemoryStore::new();
    let log = LogLimits { events: 4, ..LogLimits::default() };
    let begin = || {
        let life = Life::with_profile(store.clone(), Profile::CHATGPT);
        let publisher = life.events.add(mail().log(log)).expect("a type");
        (life, publisher)
    };
    let (mut life, publisher) = begin();
    let begun = life.subscribe("ann", &json!({}), Value::Null)["cursor"].clone();
    (0..9).for_each(|n| send(&publisher, n, "ann"));
    let mut params = target(&json!({"folder": "even"}));
    params["cursor"] = begun;
    assert_eq!(life.subscribe_with("ann", params.clone())["truncated"], true);
    drop((life, publisher));
    let (mut life, publisher) = begin();
    life.driver.delivered();
    assert_eq!(life.subscribe_with("ann", params.clone())["truncated"], true);
    drop((life, publisher));
    let (mut life, _) = begin();
    assert_eq!(life.subscribe_with("ann", params)["truncated"], false, "it was told");
}

// covers: EVT-084, EVT-099, EVT-104
#[test]
fn quiet_subscription_is_told_of_a_gap_only_if_there_is_one() {
    let store = Failing::default();
    let log = LogLimits { events: 10, ..LogLimits::default() };
    let mut life = Life::new(store.clone());
    let publisher = life.events.add(mail().log(log)).expect("a type");
    let begun = life.subscribe("bob", &json!({}), Value::Null)["cursor"].clone();
    life.subscribe("ann", &json!({}), Value::Null);
    // Far more than the log keeps, and none of it for one of them, whose cursor goes on nevertheless.
    for n in 0..57 {
        send(&publisher, n, "ann");
        assert_eq!(life.driver.delivered().len(), 1);
    }
    let refreshed = life.subscribe("bob", &json!({}), Value::Null)["cursor"].clone();
    assert!(refreshed.is_string() && refreshed != begun, "{refreshed}");
    (57..113).for_each(|n| send(&publisher, n, "ann"));
    assert!(!life.driver.delivered().is_empty());
    drop((life, publisher));
    let life = Life::new(store.clone());
    let publisher = life.events.add(mail().log(log)).expect("a type");
    assert_eq!(life.driver.delivered(), []);
    // A snapshot has the cursors as they are.
    send(&publisher, 200, "bob");
    (201..209).for_each(|n| send(&publisher, n, "ann"));
    assert_eq!(life.driver.delivered().len(), 9);
    store.fails.store(1, Ordering::SeqCst);
    assert!(publisher.publish(&json!({})).is_err());
    store.fails.store(0, Ordering::SeqCst);
    (209..213).for_each(|n| send(&publisher, n, "ann"));
    assert_eq!((life.driver.delivered().len(), store.snapshots.load(Ordering::SeqCst)), (4, 1));
    drop((life, publisher));
    let life = Life::new(store.clone());
    let publisher = life.events.add(mail().log(log)).expect("a type");
    assert_eq!(life.driver.delivered(), []);
    // What was open, and left the log.
    send(&publisher, 300, "bob");
    life.driver.due().iter().for_each(|delivery| life.driver.answer(delivery, 500));
    (301..330).for_each(|n| send(&publisher, n, "ann"));
    drop((life, publisher));
    let life = Life::new(store);
    life.events.add(mail().log(log)).expect("a type");
    let told = life.driver.delivered();
    let gaps = told.iter().filter(|(_, body)| body["type"] == "gap").count();
    assert_eq!((gaps, told.len()), (2, 12), "{told:?}");
}

#[test]
fn store_that_fails_refuses_events_and_gets_the_rest_later() {
    let store = Failing::default();
    let told = Arc::new(AtomicUsize::new(0));
    let mut life = Life::new(store.clone());
    let count = told.clone();
    life.events.on_store_error(move |error| {
        assert!(error.to_string().contains("full"));
        count.fetch_add(1, Ordering::SeqCst);
    });
    let publisher = life.add();
    store.fails.store(1, Ordering::SeqCst);
    let refused = publisher.publish(&json!({"to": "ann"}));
    assert_eq!(refused, Err(PublishError::Store("the disk is full".into())));
    assert!(matches!(publisher.report_gap(), Err(PublishError::Store(_))));
    life.sign_in("ann");
    let cursor = life.harness.result(1, wire::POLL, json!({"name": "mail"}))["cursor"].clone();
    // A subscription is granted; the application hears that it is not kept.
    assert_eq!(told.load(Ordering::SeqCst), 0);
    let granted = life.subscribe("ann", &json!({}), Value::Null);
    assert!(granted["id"].is_string() && told.load(Ordering::SeqCst) > 0);
    assert!(store.snapshot().subscriptions.is_empty());
    store.fails.store(0, Ordering::SeqCst);
    send(&publisher, 1, "ann");
    assert_eq!(store.snapshots.load(Ordering::SeqCst), 1);
    assert_eq!(store.snapshot().subscriptions.len(), 1);
    let polled = life.harness.result(2, wire::POLL, json!({"name": "mail", "cursor": cursor}));
    assert_eq!(polled["events"].as_array().map(Vec::len), Some(1), "nothing else was published");
    drop((life, publisher));
    let life = Life::new(store.clone());
    life.add();
    assert_eq!(ids(&life.driver.delivered()), ["evt-1"]);
    store.fails.store(1, Ordering::SeqCst);
    drop(life);
    let loaded = Events::with_store(SourceConfig::default(), Profile::SEP, store);
    assert_eq!(loaded.expect_err("the disk").to_string(), "the disk is full");
}

#[test]
fn store_stays_within_bounds_however_much_is_published() {
    let store = Failing::default();
    let limits = LogLimits { events: 10, ..LogLimits::default() };
    let mut seen = VecDeque::new();
    for life in 0..6 {
        let mut life_of = Life::new(store.clone());
        let publisher = life_of.events.add(mail().log(limits)).expect("a type");
        if life == 0 {
            life_of.subscribe("ann", &json!({}), Value::Null);
        }
        for n in 0..500 {
            send(&publisher, life * 1_000 + n, "ann");
            seen.extend(life_of.driver.delivered());
        }
        assert!(store.store.load().expect("records").len() < 2 * 12 + 1_024 + 2);
    }
    assert_eq!(seen.len(), 3_000);
    assert!(store.snapshots.load(Ordering::SeqCst) > 2);
    // Other bounds count from the next life on.
    let life = Life::new(store.clone());
    life.events.add(mail().log(LogLimits { events: 3, ..limits })).expect("a type");
    assert_eq!(log_records("mail", &store.snapshot().logs["mail"]).count(), 4);
}

// covers: EVT-084, EVT-151
#[test]
fn file_is_a_store_of_events() {
    let folder = std::env::temp_dir().join(format!("mcp-events-{}-lives", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let open = || FileStore::open(folder.join("events.jsonl"));
    let mut life = Life::new(open().expect("a store"));
    let publisher = life.add();
    life.subscribe("ann", &json!({"folder": "even"}), Value::Null);
    (0..4).for_each(|n| send(&publisher, n, "ann"));
    assert!(matches!(open(), Err(FileStoreError::InUse { .. })));
    // Every clone of the events has to be gone.
    drop((life, publisher));
    let life = Life::new(open().expect("a store"));
    life.add();
    assert_eq!(ids(&life.driver.delivered()), ["evt-0", "evt-2"]);
    drop(life);
    let life = Life::new(open().expect("a store"));
    life.add();
    assert_eq!(life.driver.delivered(), []);
    drop(life);
    std::fs::remove_dir_all(&folder).expect("a folder");
}

#[test]
fn file_with_a_small_bound_never_fills_up() {
    let folder = std::env::temp_dir().join(format!("mcp-events-{}-small", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let path = folder.join("events.jsonl");
    let store = FileStore::open(&path).expect("a store").flush_events(false).max_bytes(20_000);
    let life = Life::new(store);
    let limits = LogLimits { events: 10, ..LogLimits::default() };
    let publisher = life.events.add(mail().log(limits)).expect("a type");
    (0..2_000).for_each(|n| send(&publisher, n, "ann"));
    assert!(std::fs::metadata(&path).expect("a file").len() <= 20_000);
    drop((life, publisher));
    std::fs::remove_dir_all(&folder).expect("a folder");
}

#[test]
fn type_without_positions_keeps_no_events() {
    let store = MemoryStore::new();
    let limits = LogLimits { replays: false, ..LogLimits::default() };
    let mut life = Life::new(store.clone());
    let publisher = life.events.add(mail().log(limits)).expect("a type");
    life.subscribe("ann", &json!({}), Value::Null);
    send(&publisher, 1, "ann");
    drop((life, publisher));
    let kept: Snapshot = store.load().expect("records").into_iter().collect();
    assert_eq!((kept.logs.len(), kept.subscriptions.len()), (0, 1));
    let life = Life::new(store);
    let publisher = life.events.add(mail().log(limits)).expect("a type");
    send(&publisher, 2, "ann");
    assert_eq!(ids(&life.driver.delivered()), ["evt-2"], "at most once (EVT-151)");
}
