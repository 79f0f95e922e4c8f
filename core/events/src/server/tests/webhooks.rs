//! Webhooks of a server: from the call to a receiver over TLS.

use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, PoisonError};
use std::thread;

use mcp_std::Clock;

use super::*;
use crate::delivery::{Config as DeliveryConfig, Deliveries};
use crate::post::Deliverer;
use crate::post::tests::{Request, SERVER, TestReceiver, answer, poster};
use crate::store::Snapshot;

const SOON: Duration = Duration::from_secs(30);
/// Time in which nothing comes.
const NEVER: Duration = Duration::from_millis(150);

/// A receiver that echoes challenges.
fn receiver() -> TestReceiver {
    TestReceiver::start(SERVER, |request, peer| {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        let echoed = json!({"challenge": body["challenge"]}).to_string();
        peer.write(answer("200 OK", if body["challenge"].is_null() { "" } else { &echoed }).as_bytes());
    })
}

fn deliverer(receiver: &TestReceiver) -> Deliverer {
    let mut config = DeliveryConfig::default();
    config.addresses = config.addresses.origin(&receiver.url()).expect("a URL");
    let clock = Clock::start();
    let entropy = Entropy::new(entropy::seed().expect("entropy"), entropy::nonce());
    let deliveries = Deliveries::new(config, entropy, clock.anchor());
    Deliverer::start(deliveries, clock, poster()).expect("a thread")
}

fn events(receiver: &TestReceiver) -> (Events, Publisher<Value>) {
    let events = Events::new().expect("entropy");
    events.webhooks(deliverer(receiver));
    let publisher = events.add(build().modes([DeliveryMode::Poll, DeliveryMode::Webhook])).expect("a type");
    (events, publisher)
}

fn harness(events: &Events) -> Harness {
    let mut harness = Harness::new(events);
    let channel = harness.server.pipe.channel();
    let ann = server::Authorization::new(Identity::new("ann"));
    harness.server.engine().set_authorization(channel, Some(ann));
    harness
}

fn subscription(receiver: &TestReceiver, cursor: &Value) -> Value {
    let delivery = json!({"mode": "webhook", "url": receiver.url(), "secret": SECRET});
    json!({"name": "build", "arguments": {"branch": "main"}, "delivery": delivery, "cursor": cursor})
}

/// Waits for the answer of a call.
fn answered(harness: &mut Harness) -> Value {
    for _ in 0..3_000 {
        harness.process();
        if let Some(sent) = harness.sent().into_iter().next() {
            return sent;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("no answer")
}

/// Returns the body of the next request that is no challenge.
fn delivered(receiver: &TestReceiver) -> Value {
    loop {
        let Request { head, body } = receiver.requests.recv_timeout(SOON).expect("a delivery");
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        if body["type"] != "verification" {
            assert!(head.contains("webhook-signature: v1,"), "{head}");
            return body;
        }
    }
}

// covers: EVT-070, EVT-075, EVT-078, EVT-080, EVT-104, EVT-113, EVT-130
#[test]
fn subscription_is_proved_replayed_delivered_and_ended() {
    let receiver = receiver();
    let (events, publisher) = events(&receiver);
    let [mut harness, mut other] = [(); 2].map(|()| harness(&events));
    let cursor = harness.result(1, wire::POLL, json!({"name": "build"}))["cursor"].clone();
    built(&publisher, 1, "main");
    built(&publisher, 2, "side");
    assert_eq!(harness.request(2, wire::SUBSCRIBE, subscription(&receiver, &cursor)), [Value::Null; 0]);
    // Between the call and its grant.
    built(&publisher, 3, "main");
    let granted = answered(&mut harness);
    assert_eq!((&granted["id"], granted["result"]["id"].is_string()), (&json!(2), true), "{granted}");
    assert_eq!((&granted["result"]["cursor"], &granted["result"]["truncated"]), (&cursor, &json!(false)));
    built(&publisher, 4, "side");
    built(&publisher, 5, "main");
    // Their order is best effort (EVT-150): several are in flight at once.
    let mut ids = [(); 3].map(|()| {
        let body = delivered(&receiver);
        assert!(body["cursor"].is_string(), "{body}");
        body["eventId"].to_string()
    });
    ids.sort();
    assert_eq!(ids, ["\"evt-1\"", "\"evt-3\"", "\"evt-5\""]);
    assert_eq!(other.sent(), [Value::Null; 0], "the answer is for the loop of the call");
    // A refresh, by another connection of the same principal: no challenge, and nothing twice.
    let refreshed = other.result(3, wire::SUBSCRIBE, subscription(&receiver, &cursor));
    assert_eq!(refreshed["id"], granted["result"]["id"]);
    assert!(refreshed["deliveryStatus"].is_object(), "{refreshed}");
    built(&publisher, 6, "main");
    assert_eq!(delivered(&receiver)["eventId"], "evt-6");
    publisher.report_gap().expect("reported");
    let gap = delivered(&receiver);
    assert_eq!((&gap["type"], gap["cursor"].is_string()), (&json!("gap"), true), "{gap}");
    let target =
        json!({"name": "build", "arguments": {"branch": "main"}, "delivery": {"url": receiver.url()}});
    assert_eq!(harness.result(4, wire::UNSUBSCRIBE, target.clone())["resultType"], "complete");
    assert_eq!(harness.error(5, wire::UNSUBSCRIBE, target), (-32023, json!({"kind": "subscription"})));
    built(&publisher, 7, "main");
    assert!(matches!(receiver.requests.recv_timeout(NEVER), Err(RecvTimeoutError::Timeout)));
    // The last answer may be on its way when the subscription ends.
    let stats = events.with_deliveries(|deliveries, _| deliveries.stats()).expect("webhooks");
    assert_eq!((stats.published, stats.acknowledged + stats.cancelled), (4, 4));
}

// covers: EVT-047, EVT-070, EVT-071, EVT-115
#[test]
fn what_is_no_subscription_is_refused() {
    let receiver = TestReceiver::start(SERVER, |_, peer| {
        peer.write(answer("200 OK", r#"{"challenge":"another"}"#).as_bytes());
    });
    let (events, _publisher) = events(&receiver);
    events
        .add(Event::new("polled", raw(r#"{"type":"object"}"#), raw("{}")).modes([DeliveryMode::Poll]))
        .expect("a type");
    let mut anonymous = Harness::new(&events);
    let error = anonymous.error(1, wire::SUBSCRIBE, subscription(&receiver, &Value::Null));
    assert_eq!(error.0, -32024, "{error:?}");
    let mut harness = harness(&events);
    let mut params = subscription(&receiver, &Value::Null);
    params["name"] = json!("polled");
    assert_eq!(harness.error(2, wire::SUBSCRIBE, params).0, -32026);
    let mut params = subscription(&receiver, &Value::Null);
    params["delivery"]["mode"] = json!("poll");
    assert_eq!(harness.error(3, wire::SUBSCRIBE, params.clone()).0, -32026);
    params["delivery"] = json!({"url": "http://localhost/", "secret": SECRET});
    assert_eq!(harness.error(4, wire::SUBSCRIBE, params).0, -32602);
    // The owner of the URL does not want it.
    let sent = harness.request(5, wire::SUBSCRIBE, subscription(&receiver, &Value::Null));
    assert_eq!(sent, [Value::Null; 0]);
    let refused = answered(&mut harness);
    assert_eq!(refused["error"]["code"], -32027, "{refused}");
    assert_eq!(refused["error"]["data"]["reason"], "challenge_failed");
}

// covers: EVT-020, EVT-104, EVT-162
#[test]
fn subscription_is_terminated_with_its_type_and_its_access() {
    let receiver = receiver();
    let (events, publisher) = events(&receiver);
    let mut harness = harness(&events);
    for end in [true, false] {
        harness.request(1, wire::SUBSCRIBE, subscription(&receiver, &Value::Null));
        if end {
            assert!(answered(&mut harness)["result"].is_object());
            let forbidden = |_: &str, principal: Option<&str>| {
                (principal == Some("ann")).then(|| EventsError::Forbidden("left".into()))
            };
            assert_eq!(events.terminate(forbidden), 1);
        } else {
            // Proved already, so it is granted at once.
            harness.process();
            assert!(events.remove("build", &EventsError::EventNotFound));
        }
        let body = delivered(&receiver);
        assert_eq!(body["type"], "terminated");
        assert_eq!(body["error"]["code"], if end { -32024 } else { -32023 });
    }
    assert_eq!(publisher.publish(&json!({})), Err(PublishError::Removed));
}

// covers: EVT-091, EVT-104, EVT-115, EVT-130
#[test]
fn subscription_keeps_the_profile_it_was_made_with() {
    let receiver = receiver();
    let (events, publisher) = events(&receiver);
    let profile = Arc::new(Mutex::new(Profile::CHATGPT));
    let chosen = profile.clone();
    events.profile_for(move |_| *chosen.lock().expect("a profile"));
    let mut harness = harness(&events);
    harness.request(1, wire::SUBSCRIBE, subscription(&receiver, &Value::Null));
    assert!(answered(&mut harness)["result"].is_object());
    // Its caller has another one now, and refreshes it: it gets no control envelopes nevertheless.
    *profile.lock().expect("a profile") = Profile::SEP;
    harness.result(2, wire::SUBSCRIBE, subscription(&receiver, &Value::Null));
    publisher.report_gap().expect("reported");
    built(&publisher, 1, "main");
    assert_eq!(delivered(&receiver)["eventId"], "evt-1");
    let refreshed = harness.result(3, wire::SUBSCRIBE, subscription(&receiver, &Value::Null));
    assert_eq!(refreshed["truncated"], true, "{refreshed}");
}

// covers: EVT-084, EVT-099
#[test]
fn store_follows_the_thread_that_delivers() {
    let receiver = receiver();
    let store = MemoryStore::new();
    let kept = || store.load().expect("memory").into_iter().collect::<Snapshot>();
    let mut cursors = Vec::new();
    for life in 0..2 {
        let events =
            Events::with_store(SourceConfig::default(), Profile::SEP, store.clone()).expect("a store");
        events.webhooks(deliverer(&receiver));
        let publisher = events.add(build().modes([DeliveryMode::Webhook])).expect("a type");
        if life == 0 {
            let mut harness = harness(&events);
            harness.request(1, wire::SUBSCRIBE, subscription(&receiver, &Value::Null));
            assert!(answered(&mut harness)["result"].is_object());
            assert_eq!(kept().subscriptions.len(), 1, "before the answer");
        }
        built(&publisher, life, "main");
        assert_eq!(delivered(&receiver)["eventId"], format!("evt-{life}"));
        assert!(events.finish(SOON));
        cursors.extend(kept().subscriptions.into_values().map(|stored| stored.progress.cursor));
    }
    assert!(cursors[0].is_some() && cursors[0] != cursors[1], "{cursors:?}");
}

// covers: EVT-097, EVT-151
#[test]
fn end_delivers_what_is_queued_and_refuses_what_comes_then() {
    let (tell, told) = std::sync::mpsc::channel::<bool>();
    let told = Mutex::new(told);
    let receiver = TestReceiver::start(SERVER, move |request, peer| {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        let echoed = json!({"challenge": body["challenge"]}).to_string();
        if request.head.contains("/other") {
            // Later than the end of the server.
            thread::sleep(Duration::from_secs(1));
        }
        let is_taken = told.lock().expect("a channel").recv().unwrap_or_default();
        peer.write(answer(if is_taken { "200 OK" } else { "500 Oh" }, &echoed).as_bytes());
    });
    for is_taken in [true, false] {
        let (events, publisher) = events(&receiver);
        let [mut harness, mut other] = [(); 2].map(|()| harness(&events));
        harness.request(1, wire::SUBSCRIBE, subscription(&receiver, &Value::Null));
        tell.send(true).expect("the receiver");
        assert!(answered(&mut harness)["result"].is_object());
        (0..9).for_each(|n| built(&publisher, n, "main"));
        (0..9).for_each(|_| tell.send(is_taken).expect("the receiver"));
        let mut path = subscription(&receiver, &Value::Null);
        path["delivery"]["url"] = json!(format!("{}/other", receiver.url().trim_end_matches('/')));
        if is_taken {
            assert!(events.finish(SOON));
        } else {
            // Its next attempts come later than this. A call waits for a challenge meanwhile.
            assert_eq!(other.request(2, wire::SUBSCRIBE, path.clone()), [Value::Null; 0]);
            assert!(!events.finish(Duration::from_millis(300)));
            assert_eq!(answered(&mut other)["error"]["code"], -32603);
        }
        let stats = events.with_deliveries(|deliveries, _| deliveries.stats()).expect("webhooks");
        assert_eq!((stats.published, stats.acknowledged), (9, if is_taken { 9 } else { 0 }));
        let (code, _) = harness.error(3, wire::SUBSCRIBE, path);
        assert_eq!(code, -32603);
        assert_eq!(events.finish(SOON), is_taken, "once is enough");
    }
    assert!(Events::new().expect("entropy").finish(SOON), "nothing is delivered");
}

// covers: EVT-075
#[test]
fn call_that_is_cancelled_or_whose_loop_ends_is_forgotten() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = Mutex::new(held);
    let receiver = TestReceiver::start(SERVER, move |request, peer| {
        let body: Value = serde_json::from_slice(&request.body).expect("JSON");
        let _ = held.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SOON);
        let echoed = json!({"challenge": body["challenge"]}).to_string();
        peer.write(answer("200 OK", &echoed).as_bytes());
    });
    let (events, publisher) = events(&receiver);
    let mut first = harness(&events);
    first.request(1, wire::SUBSCRIBE, subscription(&receiver, &Value::Null));
    let second = {
        let mut second = harness(&events);
        second.request(1, wire::SUBSCRIBE, subscription(&receiver, &Value::Null));
        second
    };
    drop(second);
    first.feed(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    // A third one waits for the same challenge, and gets it.
    let mut third = harness(&events);
    third.request(9, wire::SUBSCRIBE, subscription(&receiver, &Value::Null));
    release.send(()).expect("the receiver");
    let granted = answered(&mut third);
    assert_eq!((&granted["id"], granted["result"].is_object()), (&json!(9), true), "{granted}");
    first.process();
    assert_eq!(first.sent(), [Value::Null; 0]);
    built(&publisher, 1, "main");
    release.send(()).expect("the receiver");
    assert_eq!(delivered(&receiver)["eventId"], "evt-1");
}
