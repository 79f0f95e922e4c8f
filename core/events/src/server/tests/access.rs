//! Subscribers that lose access, receivers that are dead, and what of it reaches the application and the store.

use core::fmt::Write;
use core::sync::atomic::AtomicBool;
use core::task::Waker;
use std::sync::Mutex;

use super::stores::{Failing, Life, TestDriver, body, ids, mail, send, target};
use super::*;
use crate::delivery::{Deliveries, DriveDeliveries};

const WEEK: Duration = Duration::from_secs(7 * 86_400);

/// Returns the types of the control envelopes that are due, and acknowledges them; nothing else is due.
fn controls(driver: &TestDriver) -> Vec<Value> {
    driver.delivered().into_iter().map(|(_, body)| body["type"].clone()).collect()
}

fn refused(life: &mut Life, principal: &str) -> i64 {
    life.sign_in(principal);
    let mut params = target(&json!({}));
    params["delivery"]["secret"] = json!(SECRET);
    life.harness.error(7, wire::SUBSCRIBE, params).0
}

// covers: EVT-088, EVT-104, EVT-162
#[test]
fn refresh_that_is_refused_ends_the_subscription_between_two_attempts() {
    let what = |error: Option<EventsError>| {
        let answer = Arc::new(Mutex::new(None::<EventsError>));
        let (asked, is_hidden) = (answer.clone(), Arc::new(AtomicBool::new(false)));
        let hides = is_hidden.clone();
        let store = Failing::default();
        let mut life = Life::new(store.clone());
        let picky = mail()
            .visible_to(move |caller| caller.principal() != Some("ann") || !hides.load(Ordering::SeqCst))
            .authorize(move |_, caller| {
                let refused: Option<EventsError> = asked.lock().expect("an answer").clone();
                refused.filter(|_| caller.principal() == Some("ann")).map_or(Ok(()), Err)
            });
        let publisher = life.events.add(picky).expect("a type");
        for principal in ["ann", "bob"] {
            life.subscribe(principal, &json!({}), Value::Null);
        }
        ["ann", "ann", "bob"].iter().zip(1..).for_each(|(to, n)| send(&publisher, n, to));
        let due = life.driver.due();
        assert_eq!(due.len(), 3);
        // Each has failed once, and one is in flight, when access is lost.
        due[1..].iter().for_each(|delivery| life.driver.answer(delivery, 500));
        let is_hidden_now = error.is_none();
        is_hidden.store(is_hidden_now, Ordering::SeqCst);
        *answer.lock().expect("an answer") = error;
        let code = refused(&mut life, "ann");
        send(&publisher, 4, "ann");
        life.driver.answer(&due[0], 500);
        life.driver.advance(Duration::from_secs(20));
        let sent = life.driver.delivered();
        let kept = store.snapshot().subscriptions.into_values().map(|stored| stored.principal);
        (code, sent, kept.collect::<Vec<_>>())
    };
    for (error, code) in [(Some(EventsError::Forbidden("left".into())), -32024), (None, -32023)] {
        let (answered, mut sent, kept) = what(error);
        sent.sort_by_key(|(_, body)| body["type"].is_null());
        assert_eq!((answered, sent.len()), (code, 2), "{sent:?}");
        assert_eq!((&sent[0].1["type"], &sent[0].1["error"]["code"]), (&json!("terminated"), &json!(code)));
        assert_eq!(ids(&sent[1..]), ["evt-3"], "that of another one");
        assert_eq!(kept, ["bob"]);
    }
    // What says nothing about access ends nothing.
    for (error, code) in [
        (EventsError::Internal("the database is away".into()), -32603),
        (EventsError::InvalidParams("no such folder".into()), -32602),
    ] {
        let (answered, sent, kept) = what(Some(error));
        let mut sent = ids(&sent);
        sent.sort_unstable();
        assert_eq!((answered, &*sent), (code, &["evt-1", "evt-2", "evt-3", "evt-4"][..]));
        assert_eq!(kept.len(), 2);
    }
}

// covers: EVT-084, EVT-088, EVT-162
#[test]
fn panic_of_the_application_ends_no_subscription() {
    for place in ["visible_to", "authorize"] {
        let panics = Arc::new(AtomicBool::new(false));
        let decide = |function: &'static str| {
            let panics = panics.clone();
            move || assert!(place != function || !panics.load(Ordering::SeqCst), "a bug of the application")
        };
        let picky = || {
            let (look, allow) = (decide("visible_to"), decide("authorize"));
            let visible = mail().visible_to(move |_| {
                look();
                true
            });
            visible.authorize(move |_, _| {
                allow();
                Ok(())
            })
        };
        let store = MemoryStore::new();
        let mut life = Life::new(store.clone());
        let publisher = life.events.add(picky()).expect("a type");
        life.subscribe("ann", &json!({}), Value::Null);
        panics.store(true, Ordering::SeqCst);
        assert_eq!(refused(&mut life, "ann"), -32603, "{place}");
        send(&publisher, 1, "ann");
        assert_eq!(ids(&life.driver.delivered()), ["evt-1"], "{place}");
        drop((life, publisher));
        // Nor does a restart: it waits until there is a decision, and misses nothing.
        let life = Life::new(store);
        let publisher = life.events.add(picky()).expect("a type");
        send(&publisher, 2, "ann");
        assert_eq!(life.driver.delivered(), [], "{place}");
        panics.store(false, Ordering::SeqCst);
        life.events.add(picky()).expect("a type");
        assert_eq!(ids(&life.driver.delivered()), ["evt-2"], "{place}");
    }
}

// covers: EVT-088, EVT-162
#[test]
fn call_that_waits_for_a_challenge_is_refused_with_a_later_one() {
    let allowed = Arc::new(AtomicBool::new(true));
    let is_allowed = allowed.clone();
    let mut life = Life::new(MemoryStore::new());
    let picky = mail().authorize(move |_, _| match is_allowed.load(Ordering::SeqCst) {
        true => Ok(()),
        false => Err(EventsError::Forbidden("left".into())),
    });
    let publisher = life.events.add(picky).expect("a type");
    life.sign_in("ann");
    let mut params = target(&json!({}));
    params["delivery"]["secret"] = json!(SECRET);
    assert_eq!(life.harness.request(1, wire::SUBSCRIBE, params.clone()), [Value::Null; 0]);
    let challenge = life.driver.due().pop().expect("a challenge");
    allowed.store(false, Ordering::SeqCst);
    let mut answers = life.harness.request(2, wire::SUBSCRIBE, params.clone());
    life.harness.process();
    answers.extend(life.harness.sent());
    answers.sort_by_key(|answer| answer["id"].as_i64());
    assert_eq!(answers.iter().map(|a| &a["error"]["code"]).collect::<Vec<_>>(), [-32024, -32024]);
    life.driver.answer(&challenge, 200);
    send(&publisher, 1, "ann");
    assert_eq!(life.driver.due().len(), 0);
    assert_eq!(life.events.with_deliveries(|deliveries, _| deliveries.len()), Some(0));
    // One whose loop ends while the answer of its receiver is on its way leaves no subscription either.
    allowed.store(true, Ordering::SeqCst);
    params["delivery"]["url"] = json!("https://hooks.example/other");
    params["ttlMs"] = Value::Null;
    life.harness.request(3, wire::SUBSCRIBE, params);
    let challenge = life.driver.due().pop().expect("a challenge");
    let mut locked = life.events.0.lock();
    life.driver.answer(&challenge, 200);
    let lane = *locked.loops.keys().next().expect("a loop");
    locked.webhooks.as_mut().expect("webhooks").remove_lane(lane);
    drop(locked);
    assert_eq!(life.events.with_deliveries(|deliveries, _| deliveries.len()), Some(0));
}

// covers: EVT-085, EVT-100, EVT-101, EVT-131
#[test]
fn application_hears_of_dead_receivers_and_the_store_forgets_them() {
    let store = Failing::default();
    let mut life = Life::new(store.clone());
    let publisher = life.events.add(mail()).expect("a type");
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (hears, events) = (heard.clone(), life.events.clone());
    life.events.on_webhook_failure(move |failure| {
        // It may use the events.
        assert_eq!(events.open_streams(), 0);
        hears.lock().expect("failures").push(failure.clone());
        panic!("a bug of the application");
    });
    let id = life.subscribe("ann", &json!({}), Value::Null)["id"].as_str().expect("an id").to_string();
    life.subscribe("bob", &json!({}), Value::Null);
    for n in 0..100 {
        send(&publisher, n, "ann");
        life.driver.due().iter().for_each(|delivery| life.driver.answer(delivery, 500));
    }
    let failure =
        |kind| WebhookFailure { kind, id: id.clone(), name: "mail".into(), principal: "ann".into() };
    assert_eq!(*heard.lock().expect("failures"), [failure(WebhookFailureKind::Suspended)]);
    assert_eq!(store.snapshot().subscriptions.len(), 2);
    life.driver.advance(WEEK);
    assert_eq!(
        *heard.lock().expect("failures"),
        [failure(WebhookFailureKind::Suspended), failure(WebhookFailureKind::GivenUp)]
    );
    // A restart does not bring it back, and its end is still told.
    assert!(store.snapshot().subscriptions[&id].terminated.is_some());
    life.events.on_webhook_failure(|_| ());
    drop((life, publisher));
    let life = Life::new(store.clone());
    let publisher = life.events.add(mail()).expect("a type");
    assert_eq!(controls(&life.driver), ["terminated"]);
    ["ann", "bob"].iter().for_each(|to| send(&publisher, 200, to));
    assert_eq!(life.driver.delivered().len(), 1);
    let kept = store.snapshot().subscriptions;
    assert_eq!(kept.into_values().map(|stored| stored.principal).collect::<Vec<_>>(), ["bob"]);
}

/// A driver that takes nothing while it is told so.
#[derive(Clone)]
struct Shy(TestDriver, Arc<AtomicBool>);

impl Shy {
    /// Creates one that takes nothing, for events.
    fn new(events: &Events) -> Self {
        let shy = Self(TestDriver::new(), Arc::new(AtomicBool::new(false)));
        events.webhooks(shy.clone());
        shy.1.store(true, Ordering::SeqCst);
        shy
    }
}

impl DriveDeliveries for Shy {
    fn with_deliveries(&self, f: &mut dyn FnMut(&mut Deliveries, Instant)) {
        if !self.1.load(Ordering::SeqCst) {
            self.0.with_deliveries(f);
        }
    }

    fn register(&self, waker: &Waker) {
        self.0.register(waker);
    }

    fn finish(&self, timeout: Duration) -> bool {
        self.0.finish(timeout)
    }
}

// covers: EVT-084, EVT-151, EVT-162
#[test]
fn stored_subscription_outlives_a_deliverer_that_takes_nothing() {
    let store = Failing::default();
    let mut life = Life::new(store.clone());
    let publisher = life.events.add(mail()).expect("a type");
    for principal in ["ann", "bob"] {
        life.subscribe(principal, &json!({}), Value::Null);
    }
    send(&publisher, 1, "ann");
    drop((life, publisher));
    let events = Events::with_store(SourceConfig::default(), Profile::SEP, store.clone()).expect("a store");
    let shy = Shy::new(&events);
    let publisher = events.add(mail()).expect("a type");
    assert_eq!(store.snapshot().subscriptions.len(), 2);
    // Nor does a snapshot lose them, whether they were taken or not.
    let grow = |from: u32| (from..from + 1_500).for_each(|n| send(&publisher, n, "cid"));
    grow(10_000);
    assert_eq!(store.snapshots.load(Ordering::SeqCst), 0, "it would not be complete");
    shy.1.store(false, Ordering::SeqCst);
    assert_eq!(shy.0.delivered(), []);
    events.add(Event::new("other", raw(r#"{"type":"object"}"#), raw("{}"))).expect("a type");
    let told = shy.0.delivered();
    assert!(told.iter().any(|(_, body)| body["type"] == "gap") && told.len() <= 2, "{told:?}");
    grow(20_000);
    assert!(store.snapshots.load(Ordering::SeqCst) > 0);
    shy.1.store(true, Ordering::SeqCst);
    grow(30_000);
    shy.1.store(false, Ordering::SeqCst);
    assert_eq!(store.snapshot().subscriptions.len(), 2);
    send(&publisher, 2, "ann");
    assert_eq!(ids(&shy.0.delivered()), ["evt-2"]);
}

// covers: EVT-162
#[test]
fn stored_subscription_that_nobody_has_taken_ends_with_a_refresh_that_is_refused() {
    let store = Failing::default();
    let mut life = Life::new(store.clone());
    life.events.add(mail()).expect("a type");
    life.subscribe("ann", &json!({}), Value::Null);
    drop(life);
    let events = Events::with_store(SourceConfig::default(), Profile::SEP, store.clone()).expect("a store");
    let shy = Shy::new(&events);
    events.add(mail().authorize(|_, _| Err(EventsError::Forbidden("left".into())))).expect("a type");
    assert_eq!(store.snapshot().subscriptions.len(), 1);
    let harness = Harness::new(&events);
    let mut life = Life { events, driver: shy.0.clone(), harness };
    shy.1.store(false, Ordering::SeqCst);
    assert_eq!(refused(&mut life, "ann"), -32024);
    assert_eq!(controls(&life.driver), ["terminated"]);
    assert_eq!(store.snapshot().subscriptions.len(), 0);
}

/// Lets a call be granted in the middle of what it is given to write.
struct Interrupted<'l>(&'l mut Life, bool);

impl Write for Interrupted<'_> {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        if !core::mem::replace(&mut self.1, true) {
            let challenge = self.0.driver.due().pop().expect("a challenge");
            assert_eq!(body(&challenge)["type"], "verification");
            self.0.driver.answer(&challenge, 200);
        }
        Ok(())
    }
}

#[test]
fn output_for_debugging_holds_up_nobody() {
    let mut life = Life::new(MemoryStore::new());
    life.events.add(mail()).expect("a type");
    life.sign_in("ann");
    let mut params = target(&json!({}));
    params["delivery"]["secret"] = json!(SECRET);
    assert_eq!(life.harness.request(1, wire::SUBSCRIBE, params), [Value::Null; 0]);
    let events = life.events.clone();
    write!(Interrupted(&mut life, false), "{events:?}").expect("no error");
    assert!(!events.0.has_news.load(Ordering::SeqCst), "the grant was taken at once");
    life.harness.process();
    assert!(life.harness.sent()[0]["result"].is_object());
    assert_eq!(format!("{events:?}"), "Events { types: 1, streams: 0, loops: 1, .. }");
    let locked = events.0.lock();
    assert_eq!(format!("{events:?}"), "Events { .. }");
    drop(locked);
}
