//! Deliveries on virtual time.

mod attempts;
mod challenges;
mod clocks;
mod failures;
mod grants;
mod queues;

use alloc::format;
use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;

use mcp_proto::RawJson;

use super::*;
use crate::receiver;
use crate::webhook::{MAX_BODY, Secret, sign};
use crate::wire::{
    CallbackFailure, DeliveryMode, Envelope, EventOccurrence, EventsError, Millis, Nullable, Profile,
    WebhookIdRule,
};

pub(super) const EPOCH: u64 = 1_795_600_800;
const HOOK: &str = "https://hooks.example/mcp/a1";

pub(super) fn secret(byte: u8) -> Secret {
    Secret::from_entropy([byte; 32])
}

pub(super) fn key(principal: &str, url: &str, arguments: &'static str) -> SubscriptionKey {
    SubscriptionKey::new(principal, url, "build.finished", &RawJson::new(arguments).expect("JSON"))
        .expect("a key")
}

pub(super) fn request(key: SubscriptionKey) -> Subscribe {
    Subscribe {
        key,
        secret: secret(1),
        ttl: None,
        cursor: Some("c-0".into()),
        truncated: false,
        profile: Profile::SEP,
        scopes: String::new(),
    }
}

pub(super) fn event(position: u64) -> EventOccurrence {
    let data = RawJson::new(format!(r#"{{"build":{position}}}"#)).expect("JSON");
    EventOccurrence::new(format!("evt-{position}"), "build.finished", "2026-11-25T10:00:00Z", data)
        .cursor(Some(format!("c-{position}")))
}

pub(super) fn at(secs: u64) -> Instant {
    Instant::from_micros(secs * 1_000_000)
}

fn machine(config: Config) -> Deliveries {
    Deliveries::new(config, Entropy::new([3; 32], 1), Anchor::new(Instant::ZERO, EPOCH))
}

fn answer(status: u16) -> Outcome<'static> {
    Outcome::Answer { status, retry_after: None, body: b"" }
}

fn header<'d>(delivery: &'d Delivery, name: &str) -> &'d str {
    &delivery.headers.iter().find(|(other, _)| *other == name).expect("the field").1
}

fn text(delivery: &Delivery) -> &str {
    core::str::from_utf8(&delivery.body).expect("JSON")
}

fn cursor(delivery: &Delivery) -> Option<String> {
    let body = RawJson::new(delivery.body.clone()).expect("JSON");
    body.member("cursor").expect("a cursor").string()
}

/// Echoes a challenge as a receiver does.
pub(super) fn echo(delivery: &Delivery) -> String {
    let body = RawJson::new(delivery.body.clone()).expect("JSON");
    match Envelope::read(&body) {
        Ok(Envelope::Verification(challenge)) => format!(r#"{{"challenge":"{}"}}"#, challenge.challenge),
        other => panic!("{other:?}"),
    }
}

/// A machine with one subscription that needed no challenge.
fn subscribed() -> (Deliveries, SubscriptionHandle) {
    subscribed_with(Config::default(), Profile::SEP)
}

fn subscribed_with(config: Config, profile: Profile) -> (Deliveries, SubscriptionHandle) {
    let mut machine = machine(config.verified_origin(HOOK).expect("a URL"));
    let request = Subscribe { profile, ..request(key("user-17", HOOK, "{}")) };
    match machine.subscribe(at(0), request) {
        Ok(Subscribed::Granted(grant)) => (machine, grant.subscription),
        other => panic!("{other:?}"),
    }
}

fn refresh(machine: &mut Deliveries, secs: u64) -> Grant {
    match machine.subscribe(at(secs), request(key("user-17", HOOK, "{}"))) {
        Ok(Subscribed::Granted(grant)) => grant,
        other => panic!("{other:?}"),
    }
}

fn events(machine: &mut Deliveries) -> Vec<Event> {
    core::iter::from_fn(|| machine.poll_event()).collect()
}

// covers: EVT-090, EVT-091, EVT-092, EVT-099
#[test]
fn a_delivery_is_that_of_the_vector() {
    let mut machine = machine(Config::default().verified_origin(HOOK).expect("a URL"));
    let arguments = r#"{"branch":"main","limit":5}"#;
    let secret = Secret::parse("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").expect("a secret");
    let call = Subscribe { secret, cursor: Some("c-41".into()), ..request(key("user-17", HOOK, arguments)) };
    let Ok(Subscribed::Granted(grant)) = machine.subscribe(at(0), call) else { panic!("no grant") };
    let result = RawJson::encode(&grant.to_result()).expect("JSON");
    assert_eq!(
        result.as_str(),
        r#"{"id":"sub_33f8080817ec0c597ac0f4de1e7de5cd","refreshBefore":"2026-11-25T11:00:00Z","cursor":"c-41","truncated":false}"#
    );
    let data = RawJson::new(r#"{"build":7001,"ok":true}"#).expect("JSON");
    let event =
        EventOccurrence::new("evt-7001", "build.finished", "2026-11-25T10:00:00Z", data).cursor("c-42");
    machine.publish(at(0), grant.subscription, &event).expect("room");
    let delivery = machine.poll_transmit(at(0)).expect("a delivery");
    assert_eq!(
        text(&delivery),
        r#"{"eventId":"evt-7001","name":"build.finished","timestamp":"2026-11-25T10:00:00Z","data":{"build":7001,"ok":true},"cursor":"c-42"}"#
    );
    assert_eq!(
        delivery.headers.each_ref().map(|(name, value)| (*name, &**value)),
        [
            ("Content-Type", "application/json"),
            ("webhook-id", "evt-7001"),
            ("webhook-timestamp", "1795600800"),
            ("webhook-signature", "v1,tO84eROclO7g/JTEsLRXMhl5WXLq0x7AZixaHNFhl4M="),
            ("X-MCP-Subscription-Id", "sub_33f8080817ec0c597ac0f4de1e7de5cd"),
        ]
    );
    assert_eq!((delivery.deadline, delivery.url.target()), (at(10), "/mcp/a1"));
    assert!(machine.poll_transmit(at(0)).is_none());
    machine.handle_answer(at(1), delivery.id, &answer(204));
    assert_eq!(machine.stats().acknowledged, 1);
    // Too late, or told twice.
    machine.handle_answer(at(1), delivery.id, &answer(500));
    assert_eq!((machine.stats().acknowledged, machine.poll_transmit(at(999)).is_none()), (1, true));
}

// covers: EVT-030, EVT-034, EVT-095
#[test]
fn events_that_cannot_be_delivered_are_refused() {
    let (mut machine, subscription) = subscribed();
    let mut publish = |event: EventOccurrence| machine.publish(at(0), subscription, &event);
    for id in ["", "a b", "a\r\nX: y", "\u{e9}", &"x".repeat(257)] {
        assert_eq!(
            publish(EventOccurrence { event_id: id.into(), ..event(1) }),
            Err(PublishError::EventId),
            "{id:?}"
        );
    }
    assert_eq!(publish(event(1).cursor(Some("c".repeat(4_097)))), Err(PublishError::Cursor));
    let mut typed = RawJson::encode(&event(1)).expect("JSON").as_str().to_string();
    typed.insert_str(1, r#""type":"gap","#);
    let typed: EventOccurrence = RawJson::new(typed).expect("JSON").parse().expect("an unknown member");
    assert_eq!(publish(typed), Err(PublishError::Type));
    let large = |bytes: usize| RawJson::new(format!(r#"{{"x":"{}"}}"#, "y".repeat(bytes))).expect("JSON");
    assert_eq!(publish(EventOccurrence { data: large(MAX_BODY), ..event(1) }), Err(PublishError::TooLarge));
    assert_eq!(
        publish(
            EventOccurrence { data: large(MAX_BODY - 5_000), ..event(1) }.cursor(Some("c".repeat(4_096)))
        ),
        Ok(())
    );
    let delivery = machine.poll_transmit(at(0)).expect("an attempt");
    assert!(delivery.body.len() <= MAX_BODY);
    assert_eq!(machine.stats().published, 1);
}

// covers: EVT-122, EVT-126
#[test]
fn our_receiver_takes_our_deliveries() {
    let mut machine = machine(Config::default());
    let mut receiver = receiver::Receiver::new(receiver::Limits::default());
    let registration = receiver.register(secret(1)).expect("room");
    let mut receive = |delivery: &Delivery, secs: u64| {
        let fields: Vec<(&str, &[u8])> =
            delivery.headers.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
        let request = receiver::Request { method: "POST", fields: &fields, body: &delivery.body };
        match receiver.receive(&request, EPOCH + secs) {
            receiver::Outcome::Challenge { answer, .. } => (answer.status, answer.body),
            receiver::Outcome::Event { receipt, .. }
            | receiver::Outcome::Gap { receipt, .. }
            | receiver::Outcome::Terminated { receipt, .. } => {
                (receiver.confirm(receipt, true).status, "new".into())
            }
            receiver::Outcome::Acknowledged(answer) => (answer.status, "known".into()),
            other => panic!("{other:?}"),
        }
    };
    machine.subscribe(at(0), request(key("a", HOOK, "{}"))).expect("a challenge");
    let challenge = machine.poll_transmit(at(0)).expect("a challenge");
    let (status, body) = receive(&challenge, 0);
    machine.handle_answer(
        at(0),
        challenge.id,
        &Outcome::Answer { status, retry_after: None, body: body.as_bytes() },
    );
    let Some(Event::Verified { grant, .. }) = machine.poll_event() else { panic!("not verified") };
    machine.publish(at(1), grant.subscription, &event(1)).expect("room");
    machine.report_gap(at(1), grant.subscription, "c-5");
    let [one, gap] = [(); 2].map(|()| machine.poll_transmit(at(1)).expect("an attempt"));
    assert_eq!(receive(&one, 1), (204, "new".into()));
    assert_eq!(receive(&gap, 1), (204, "new".into()));
    // The answer is lost on its way.
    machine.handle_timeout(at(11));
    let again = machine.poll_transmit(at(20)).expect("another attempt");
    assert_eq!(receive(&again, 20), (204, "known".into()));
    machine.terminate(at(20), grant.subscription, &EventsError::EventNotFound);
    let end = machine.poll_transmit(at(20)).expect("the end");
    assert_eq!(receive(&end, 20), (204, "new".into()));
    assert_eq!(receiver.id(registration), Some(&*grant.id));
}
