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

// covers: EVT-113, EVT-114, EVT-115, EVT-116
#[test]
fn nothing_is_delivered_before_the_owner_echoes() {
    let mut machine = machine(Config::default());
    let ticket = |outcome| match outcome {
        Ok(Subscribed::Verifying(ticket)) => ticket,
        other => panic!("{other:?}"),
    };
    let first = ticket(machine.subscribe(at(0), request(key("a", HOOK, "{}"))));
    // Other arguments, and the same key with another secret: one challenge.
    let second = ticket(machine.subscribe(at(0), request(key("a", HOOK, r#"{"n":1}"#))));
    let newest = Subscribe { secret: secret(2), ..request(key("a", HOOK, "{}")) };
    let third = ticket(machine.subscribe(at(0), newest));
    // Another principal: another challenge.
    let other = ticket(machine.subscribe(at(0), request(key("b", HOOK, "{}"))));
    let challenge = machine.poll_transmit(at(1)).expect("a challenge");
    let of_other = machine.poll_transmit(at(1)).expect("a challenge");
    assert!(machine.poll_transmit(at(1)).is_none());
    assert!(header(&challenge, "webhook-id").starts_with("msg_verification_"));
    assert_eq!(header(&challenge, "X-MCP-Subscription-Id"), key("a", HOOK, "{}").id());
    let unix = EPOCH + 1;
    let signature = sign([&secret(2)], header(&challenge, "webhook-id"), unix, &challenge.body);
    assert_eq!(header(&challenge, "webhook-signature"), signature, "the newest secret");

    let echoed = echo(&challenge);
    // The echo of another challenge proves nothing.
    machine.handle_answer(
        at(2),
        of_other.id,
        &Outcome::Answer { status: 200, retry_after: None, body: echoed.as_bytes() },
    );
    let error = EventsError::CallbackEndpoint(CallbackFailure::ChallengeFailed);
    assert_eq!(events(&mut machine), [Event::Refused { ticket: other, error }]);
    machine.handle_answer(
        at(2),
        challenge.id,
        &Outcome::Answer { status: 200, retry_after: None, body: echoed.as_bytes() },
    );
    let verified: Vec<(Ticket, SubscriptionHandle)> = events(&mut machine)
        .into_iter()
        .map(|event| match event {
            Event::Verified { ticket, grant } => (ticket, grant.subscription),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(verified.iter().map(|(ticket, _)| *ticket).collect::<Vec<_>>(), [first, second, third]);
    assert_eq!(verified[0].1, verified[2].1, "one key is one subscription");
    assert_eq!(machine.len(), 2);
    // The proof counts for other arguments of the principal, for a day.
    assert!(matches!(
        machine.subscribe(at(3), request(key("a", HOOK, r#"{"n":2}"#))),
        Ok(Subscribed::Granted(_))
    ));
    let later = request(key("a", HOOK, r#"{"n":3}"#));
    assert!(matches!(machine.subscribe(at(86_402), later), Ok(Subscribed::Verifying(_))));
    // A refresh needs no new one.
    assert!(matches!(
        machine.subscribe(at(86_402), request(key("a", HOOK, "{}"))),
        Ok(Subscribed::Granted(_))
    ));
}

// covers: EVT-101, EVT-112, EVT-115
#[test]
fn a_failed_challenge_is_refused_by_its_category() {
    let marker = b"marker-of-the-endpoint";
    for (outcome, failure) in [
        (answer(302), CallbackFailure::ChallengeFailed),
        (answer(404), CallbackFailure::ChallengeFailed),
        (Outcome::Answer { status: 200, retry_after: None, body: marker }, CallbackFailure::ChallengeFailed),
        (Outcome::Failed(Failure::Blocked), CallbackFailure::ConnectionRefused),
        (Outcome::Failed(Failure::Connection), CallbackFailure::ConnectionRefused),
        (Outcome::Failed(Failure::Tls), CallbackFailure::TlsError),
        (Outcome::Failed(Failure::Timeout), CallbackFailure::Timeout),
    ] {
        let mut machine = machine(Config::default());
        let Ok(Subscribed::Verifying(ticket)) = machine.subscribe(at(0), request(key("a", HOOK, "{}")))
        else {
            panic!("a challenge")
        };
        let challenge = machine.poll_transmit(at(0)).expect("a challenge");
        machine.handle_answer(at(1), challenge.id, &outcome);
        let error = EventsError::CallbackEndpoint(failure);
        assert!(!format!("{:?} {machine:?}", error.to_rpc(&Profile::SEP)).contains("marker"));
        assert_eq!(events(&mut machine), [Event::Refused { ticket, error }]);
        assert!(machine.is_empty() && machine.poll_transmit(at(2)).is_none(), "no second attempt");
    }
    // A deadline without an answer.
    let mut machine = machine(Config::default());
    machine.subscribe(at(0), request(key("a", HOOK, "{}"))).expect("a challenge");
    machine.poll_transmit(at(0)).expect("a challenge");
    assert_eq!(machine.poll_timeout(), Some(at(10)));
    machine.handle_timeout(at(10));
    assert!(matches!(&*events(&mut machine), [Event::Refused { .. }]));
}

// covers: EVT-070, EVT-071, EVT-087, EVT-110, EVT-118
#[test]
fn subscriptions_are_refused_before_anything_is_sent() {
    let config = Config {
        subscriptions: 4,
        subscriptions_per_principal: 2,
        challenges_per_host: 3,
        ..Config::default()
    };
    let mut machine = machine(config);
    let refused =
        |machine: &mut Deliveries, key| machine.subscribe(at(0), request(key)).expect_err("refused");
    assert!(matches!(refused(&mut machine, key("", HOOK, "{}")), EventsError::Forbidden(_)));
    let unsubscribed = machine.unsubscribe(&key("", HOOK, "{}"), &Profile::CHATGPT);
    assert!(matches!(unsubscribed, Err(EventsError::Forbidden(_))));
    for url in ["http://hooks.example/", "https://127.0.0.1/", "https://hooks.example:22/", "hooks"] {
        assert!(matches!(refused(&mut machine, key("a", url, "{}")), EventsError::InvalidParams(_)), "{url}");
    }
    let arguments = RawJson::new(format!(r#"{{"x":"{}"}}"#, "y".repeat(16 << 10))).expect("JSON");
    let long = SubscriptionKey::new("a", HOOK, "n", &arguments).expect("a key");
    assert!(matches!(refused(&mut machine, long), EventsError::InvalidParams(_)));
    let long = Subscribe { cursor: Some("\u{1}".repeat(1_000)), ..request(key("a", HOOK, "{}")) };
    assert!(matches!(machine.subscribe(at(0), long), Err(EventsError::InvalidParams(_))));
    assert!(machine.poll_transmit(at(0)).is_none());

    let tickets: Vec<Ticket> = [r#"{"n":1}"#, r#"{"n":2}"#]
        .map(|arguments| match machine.subscribe(at(0), request(key("a", HOOK, arguments))) {
            Ok(Subscribed::Verifying(ticket)) => ticket,
            other => panic!("{other:?}"),
        })
        .into();
    let limit = |limit, max| EventsError::ResourceExhausted { limit, max };
    assert_eq!(refused(&mut machine, key("a", HOOK, "{}")), limit("subscriptions", 2));
    // A caller that has gone gives its place back.
    machine.cancel(tickets[0]);
    machine.cancel(tickets[0]);
    assert!(machine.subscribe(at(0), request(key("a", HOOK, "{}"))).is_ok());
    for principal in ["b", "c"] {
        assert!(machine.subscribe(at(0), request(key(principal, HOOK, "{}"))).is_ok());
    }
    assert_eq!(refused(&mut machine, key("d", HOOK, "{}")), limit("serverSubscriptions", 4));
    machine.cancel(tickets[1]);
    assert_eq!(refused(&mut machine, key("d", HOOK, "{}")), limit("challenges", 3));
    let elsewhere = key("d", "https://other.example/", "{}");
    assert!(machine.subscribe(at(0), request(elsewhere)).is_ok());
    machine.cancel(Ticket(99_999));
    // A new minute.
    assert!(machine.unsubscribe(&key("a", HOOK, "{}"), &Profile::SEP).is_ok(), "the call is refused");
    assert!(
        core::iter::from_fn(|| machine.poll_transmit(at(60))).count() == 3,
        "nobody waits for that of `a`"
    );
    assert!(machine.subscribe(at(60), request(key("e", HOOK, "{}"))).is_ok());
}

// covers: EVT-093, EVT-096, EVT-097, EVT-112
#[test]
fn failed_attempts_are_repeated_with_new_times() {
    let (mut machine, subscription) = subscribed();
    machine.publish(at(0), subscription, &event(1)).expect("room");
    let mut seen = Vec::new();
    let outcomes = [answer(500), answer(302), Outcome::Failed(Failure::Timeout), answer(404), answer(503)];
    let mut now = at(0);
    for outcome in &outcomes {
        now = now.max(machine.poll_timeout().expect("an attempt"));
        let delivery = machine.poll_transmit(now).expect("an attempt");
        assert_eq!(header(&delivery, "webhook-id"), "evt-1");
        let (time, signature) =
            (header(&delivery, "webhook-timestamp"), header(&delivery, "webhook-signature"));
        seen.push((now, time.to_string(), signature.to_string()));
        machine.handle_answer(now, delivery.id, outcome);
    }
    assert!(machine.poll_transmit(at(1_000)).is_none(), "five attempts");
    let mut now = at(1_000);
    assert_eq!((machine.stats().abandoned, machine.stats().published), (1, 1));
    for (pair, pause) in seen.windows(2).zip([5.0, 30.0, 120.0, 300.0]) {
        let waited = pair[1].0.saturating_duration_since(pair[0].0).as_secs_f64();
        assert!((0.74..=1.26).contains(&(waited / pause)), "{waited} instead of {pause}");
        assert!(pair[0].1 != pair[1].1 && pair[0].2 != pair[1].2);
    }
    // Final answers.
    for (position, status) in [(2, 410), (3, 413)] {
        machine.publish(now, subscription, &event(position)).expect("room");
        let delivery = machine.poll_transmit(now).expect("an attempt");
        machine.handle_answer(now, delivery.id, &answer(status));
        now = now + Duration::from_secs(1_000);
        assert!(machine.poll_transmit(now).is_none(), "{status} is final");
    }
    assert_eq!((machine.stats().abandoned, machine.len()), (3, 1), "the subscription lives");
}

// covers: EVT-097
#[test]
fn pauses_have_a_bound() {
    let config = Config {
        backoff: vec![Duration::MAX],
        retry_window: Duration::MAX,
        max_retry_after: Duration::MAX,
        ..Config::default()
    };
    let (mut machine, subscription) =
        subscribed_with(Config { default_ttl: Duration::from_secs(86_400), ..config }, Profile::SEP);
    machine.publish(at(0), subscription, &event(1)).expect("room");
    let delivery = machine.poll_transmit(at(0)).expect("an attempt");
    machine.handle_answer(at(0), delivery.id, &answer(500));
    let next = machine.poll_timeout().expect("another attempt, or the expiry");
    assert!(next > at(86_400 / 4 * 3 - 1) && next <= at(86_400), "{next:?}");
}

// covers: EVT-091
#[test]
fn ids_of_messages_are_those_of_the_profile() {
    let profile = Profile { webhook_id: WebhookIdRule::Message, ..Profile::SEP };
    let (mut machine, subscription) = subscribed_with(Config::default(), profile);
    for position in 1..=2 {
        machine.publish(at(0), subscription, &event(position)).expect("room");
    }
    let [first, second] = [(); 2].map(|()| machine.poll_transmit(at(0)).expect("an attempt"));
    let id = header(&first, "webhook-id");
    assert!(id.starts_with("msg_event_") && id != header(&second, "webhook-id"), "{id}");
    machine.handle_answer(at(0), first.id, &answer(500));
    let again = machine.poll_transmit(at(7)).expect("an attempt");
    assert_eq!(header(&again, "webhook-id"), id, "the same for all attempts");
}

// covers: EVT-099
#[test]
fn cursors_are_watermarks() {
    let (mut machine, subscription) = subscribed();
    for position in 1..=3 {
        machine.publish(at(0), subscription, &event(position)).expect("room");
    }
    let [first, second, third] = [(); 3].map(|()| machine.poll_transmit(at(0)).expect("an attempt"));
    let cursors = [&first, &second, &third].map(cursor);
    assert_eq!(cursors.each_ref().map(Option::as_deref), [Some("c-1"), Some("c-0"), Some("c-0")]);
    machine.handle_answer(at(1), third.id, &answer(200));
    machine.handle_answer(at(1), first.id, &answer(500));
    assert_eq!(refresh(&mut machine, 1).cursor.as_deref(), Some("c-0"));
    machine.handle_answer(at(1), second.id, &answer(410));
    let again = machine.poll_transmit(at(7)).expect("an attempt");
    assert_eq!(cursor(&again).as_deref(), Some("c-3"), "the others are done");
    machine.handle_answer(at(7), again.id, &answer(200));
    assert_eq!(refresh(&mut machine, 8).cursor.as_deref(), Some("c-3"));
}

// covers: EVT-075, EVT-078, EVT-082, EVT-083
#[test]
fn grants_follow_suggestions_within_bounds() {
    let grant = |config: Config, ttl| {
        let (mut machine, _) = subscribed_with(config, Profile::SEP);
        let request = Subscribe { ttl, cursor: Some("c-99".into()), ..request(key("user-17", HOOK, "{}")) };
        match machine.subscribe(at(0), request) {
            Ok(Subscribed::Granted(grant)) => {
                assert_eq!(grant.cursor.as_deref(), Some("c-0"), "a live subscription keeps its position");
                assert!(grant.status.is_some());
                grant.refresh_before.map(|at| at - EPOCH)
            }
            other => panic!("{other:?}"),
        }
    };
    let millis = |millis| Some(Nullable(Some(Millis(millis))));
    for (ttl, expected) in [
        (None, Some(3_600)),
        (millis(0), Some(60)),
        (millis(1_000), Some(60)),
        (millis(600_000), Some(600)),
        (millis(30 * 86_400_000), Some(86_400)),
        (millis(u64::MAX), Some(86_400)),
        (Some(Nullable(None)), Some(86_400)),
    ] {
        assert_eq!(grant(Config::default(), ttl), expected, "{ttl:?}");
    }
    let forever = Config { grants_no_expiry: true, ..Config::default() };
    assert_eq!(grant(forever.clone(), Some(Nullable(None))), None);
    assert_eq!(grant(forever, None), Some(3_600), "only if it was asked for");
}

#[test]
fn expired_and_ended_subscriptions_are_silent() {
    let (mut machine, subscription) = subscribed();
    machine.publish(at(0), subscription, &event(1)).expect("room");
    let delivery = machine.poll_transmit(at(0)).expect("an attempt");
    machine.handle_answer(at(0), delivery.id, &answer(500));
    refresh(&mut machine, 2);
    machine.handle_timeout(at(3_601));
    assert_eq!(machine.len(), 1, "it was refreshed");
    machine.handle_timeout(at(3_602));
    assert_eq!(events(&mut machine), [Event::Ended { subscription }]);
    assert_eq!((machine.len(), machine.stats().cancelled), (0, 1));
    assert_eq!(machine.publish(at(3_602), subscription, &event(2)), Err(PublishError::Stale));
    assert_eq!((machine.poll_timeout(), machine.poll_transmit(at(9_999)).is_none()), (None, true));

    // EVT-130: by key, with an attempt in flight.
    let (mut machine, subscription) = subscribed();
    machine.publish(at(0), subscription, &event(1)).expect("room");
    let delivery = machine.poll_transmit(at(0)).expect("an attempt");
    let key = key("user-17", HOOK, "{ }");
    assert_eq!(machine.unsubscribe(&key, &Profile::SEP), Ok(()));
    assert_eq!(machine.unsubscribe(&key, &Profile::SEP), Err(EventsError::SubscriptionNotFound));
    assert_eq!(machine.unsubscribe(&key, &Profile::CHATGPT), Ok(()));
    machine.handle_answer(at(1), delivery.id, &answer(500));
    assert_eq!((machine.poll_timeout(), machine.stats().cancelled), (None, 1));
}

// covers: EVT-094
#[test]
fn both_secrets_sign_during_the_grace() {
    let (mut machine, subscription) = subscribed();
    let rotated = Subscribe { secret: secret(2), ..request(key("user-17", HOOK, "{}")) };
    machine.subscribe(at(0), rotated).expect("a grant");
    for (position, secs, secrets) in
        [(1, 1, vec![secret(2), secret(1)]), (2, 899, vec![secret(2), secret(1)]), (3, 900, vec![secret(2)])]
    {
        machine.publish(at(secs), subscription, &event(position)).expect("room");
        let delivery = machine.poll_transmit(at(secs)).expect("an attempt");
        let expected = sign(&secrets, header(&delivery, "webhook-id"), EPOCH + secs, &delivery.body);
        assert_eq!(header(&delivery, "webhook-signature"), expected, "{secs}");
        machine.handle_answer(at(secs), delivery.id, &answer(200));
    }
}

// covers: EVT-094
#[test]
fn a_second_rotation_keeps_the_first_secret() {
    let (mut machine, subscription) = subscribed();
    for (secs, byte) in [(0, 2), (100, 3), (100, 3)] {
        let rotated = Subscribe { secret: secret(byte), ..request(key("user-17", HOOK, "{}")) };
        machine.subscribe(at(secs), rotated).expect("a grant");
    }
    for (position, secs, secrets) in
        [(1, 899, vec![3, 2, 1]), (2, 900, vec![3, 2]), (3, 999, vec![3, 2]), (4, 1_000, vec![3])]
    {
        machine.publish(at(secs), subscription, &event(position)).expect("room");
        let delivery = machine.poll_transmit(at(secs)).expect("an attempt");
        let secrets: Vec<Secret> = secrets.into_iter().map(secret).collect();
        let expected = sign(&secrets, header(&delivery, "webhook-id"), EPOCH + secs, &delivery.body);
        assert_eq!(header(&delivery, "webhook-signature"), expected, "{secs}");
        machine.handle_answer(at(secs), delivery.id, &answer(200));
    }
    // Back to an older one; and three older ones at most.
    for byte in [2, 3, 4, 5, 6] {
        let rotated = Subscribe { secret: secret(byte), ..request(key("user-17", HOOK, "{}")) };
        machine.subscribe(at(1_000), rotated).expect("a grant");
    }
    let target = machine.subscriptions.get(&subscription).expect("it is there");
    assert!(target.secrets(at(1_000)).eq(&[6, 5, 4, 3].map(secret)));
}

// covers: EVT-100, EVT-098, EVT-101
#[test]
fn deliveries_are_suspended_by_their_rate_of_failure() {
    let (mut machine, subscription) = subscribed();
    let mut now = 0;
    let mut attempts = 0;
    while events(&mut machine).is_empty() {
        if now % 20 == 0 {
            machine.publish(at(now), subscription, &event(1_000 + now)).expect("room");
        }
        while let Some(delivery) = machine.poll_transmit(at(now)) {
            attempts += 1;
            let outcome = if attempts % 2 == 0 { answer(500) } else { Outcome::Failed(Failure::Tls) };
            machine.handle_answer(at(now), delivery.id, &outcome);
        }
        now += 1;
        assert!(now < 3_600, "never suspended");
    }
    assert!((100..110).contains(&attempts), "{attempts}");
    machine.publish(at(now), subscription, &event(9_000)).expect("room");
    let open = machine.stats();
    // Half an hour counts for nobody.
    now += 1_800;
    assert!(machine.poll_transmit(at(now)).is_none());
    let status = refresh(&mut machine, now).status.expect("a refresh");
    assert!(!status.active && status.failed_since.as_deref() == Some("2026-11-25T10:00:00Z"), "{status:?}");
    assert!(matches!(status.last_error, Some(Nullable(Some(_)))));
    assert!(machine.poll_transmit(at(now)).is_some(), "it goes on");
    assert_eq!(machine.stats(), open, "nothing was abandoned meanwhile");
    assert!(refresh(&mut machine, now).status.expect("a refresh").active);
}

// covers: EVT-102
#[test]
fn a_receiver_that_asks_for_time_gets_it() {
    let (mut machine, subscription) = subscribed();
    for position in 1..=2 {
        machine.publish(at(0), subscription, &event(position)).expect("room");
    }
    let delivery = machine.poll_transmit(at(0)).expect("an attempt");
    let busy = Outcome::Answer { status: 429, retry_after: Some(Duration::from_secs(90)), body: b"" };
    machine.handle_answer(at(1), delivery.id, &busy);
    let status = refresh(&mut machine, 31).status.expect("a refresh");
    assert!(machine.poll_transmit(at(90)).is_none(), "others wait, too");
    assert_eq!((status.active, status.throttled, status.retry_after_ms), (true, Some(true), Some(60_000)));
    assert_eq!(status.failed_since, None, "delayed, not failing");
    assert_eq!(machine.poll_timeout(), Some(at(91)));
    assert!(machine.poll_transmit(at(91)).is_some() && machine.poll_transmit(at(91)).is_some());
    // A day is more than is heeded.
    let forever = Outcome::Answer { status: 503, retry_after: Some(Duration::MAX), body: b"" };
    machine.publish(at(91), subscription, &event(3)).expect("room");
    let delivery = machine.poll_transmit(at(91)).expect("an attempt");
    machine.handle_answer(at(91), delivery.id, &forever);
    let status = refresh(&mut machine, 91).status.expect("a refresh");
    assert_eq!(status.retry_after_ms, Some(300_000));
}

// covers: EVT-104, EVT-099, EVT-147
#[test]
fn a_receiver_that_is_down_gets_a_gap() {
    let config = Config { queue_messages: 16, ..Config::default() };
    let (mut machine, subscription) = subscribed_with(config.clone(), Profile::SEP);
    for position in 1..=10_000 {
        machine.publish(at(0), subscription, &event(position)).expect("room");
    }
    let stats = machine.stats();
    assert!(stats.published - stats.skipped <= 16, "{stats:?}");
    let gap = machine.poll_transmit(at(0)).expect("a gap");
    assert!(header(&gap, "webhook-id").starts_with("msg_gap_"));
    let skipped = format!("c-{}", stats.skipped);
    assert_eq!(text(&gap), format!(r#"{{"type":"gap","cursor":"{skipped}"}}"#));
    let next = machine.poll_transmit(at(0)).expect("an event");
    assert_eq!(cursor(&next).as_deref(), Some("c-0"), "the gap is not acknowledged");
    machine.handle_answer(at(0), gap.id, &answer(200));
    assert_eq!(refresh(&mut machine, 1).cursor, Some(skipped));

    // Without control envelopes it shows at the next refresh, once.
    let (mut machine, subscription) = subscribed_with(config.clone(), Profile::CHATGPT);
    for position in 1..=100 {
        machine.publish(at(0), subscription, &event(position)).expect("room");
    }
    let first = machine.poll_transmit(at(0)).expect("an event");
    assert!(header(&first, "webhook-id").starts_with("evt-"));
    assert!(refresh(&mut machine, 1).truncated);
    assert!(!refresh(&mut machine, 1).truncated);

    // Without positions nothing can be replayed.
    let (mut machine, _) = subscribed_with(config, Profile::SEP);
    let call = Subscribe { cursor: None, ..request(key("user-17", HOOK, r#"{"n":1}"#)) };
    let Ok(Subscribed::Granted(grant)) = machine.subscribe(at(0), call) else { panic!("no grant") };
    for position in 1..=100 {
        let event = EventOccurrence { cursor: None, ..event(position) };
        machine.publish(at(0), grant.subscription, &event).expect("room");
    }
    let first = machine.poll_transmit(at(0)).expect("an event");
    assert!(header(&first, "webhook-id").starts_with("evt-"));
    assert_eq!(cursor(&first), None);
    // The application skipped some itself.
    machine.report_gap(at(0), grant.subscription, "c-7");
    let reported = core::iter::from_fn(|| machine.poll_transmit(at(0)))
        .any(|d| text(&d).starts_with(r#"{"type":"gap""#));
    assert!(!reported, "four are in flight");
}

// covers: EVT-096, EVT-098, EVT-104
#[test]
fn a_gap_that_is_given_up_shows_at_the_next_refresh() {
    let config = Config { queue_messages: 16, ..Config::default() };
    for status in [500, 410, 413, 200] {
        let (mut machine, subscription) = subscribed_with(config.clone(), Profile::SEP);
        for position in 1..=100 {
            machine.publish(at(0), subscription, &event(position)).expect("room");
        }
        let mut gaps = 0;
        for now in 0..1_000 {
            while let Some(delivery) = machine.poll_transmit(at(now)) {
                let is_gap = text(&delivery).starts_with(r#"{"type":"gap""#);
                gaps += usize::from(is_gap);
                machine.handle_answer(at(now), delivery.id, &answer(if is_gap { status } else { 200 }));
            }
        }
        assert_eq!(gaps, if status == 500 { 5 } else { 1 });
        let grant = refresh(&mut machine, 1_000);
        assert_eq!((grant.truncated, grant.cursor.as_deref()), (status != 200, Some("c-100")), "{status}");
        assert!(!refresh(&mut machine, 1_000).truncated, "once");
    }
}

// covers: EVT-099, EVT-144
#[test]
fn a_subscription_that_is_lost_before_it_was_told_begins_before_the_skip() {
    let config = Config { queue_messages: 16, ..Config::default() };
    let (mut machine, subscription) = subscribed_with(config, Profile::CHATGPT);
    let first = machine.publish(at(0), subscription, &event(1)).map(|()| machine.poll_transmit(at(0)));
    let first = first.expect("room").expect("an attempt");
    machine.handle_answer(at(0), first.id, &answer(200));
    for position in 2..=100 {
        machine.publish(at(0), subscription, &event(position)).expect("room");
    }
    let deliver = |machine: &mut Deliveries| {
        let mut last = None;
        while let Some(delivery) = machine.poll_transmit(at(0)) {
            last = cursor(&delivery);
            machine.handle_answer(at(0), delivery.id, &answer(200));
        }
        last
    };
    assert_eq!(deliver(&mut machine).as_deref(), Some("c-1"), "what the subscriber comes back with");
    let grant = refresh(&mut machine, 0);
    assert_eq!((grant.truncated, grant.cursor.as_deref()), (true, Some("c-100")));
    machine.publish(at(0), subscription, &event(101)).expect("room");
    assert_eq!(deliver(&mut machine).as_deref(), Some("c-101"), "he was told");
}

// covers: EVT-104
#[test]
fn all_queues_together_have_a_bound() {
    let config = Config { in_flight_total: 1, queued_bytes: 0, ..Config::default() };
    let mut machine = machine(config.verified_origin(HOOK).expect("a URL"));
    let limit = machine.config().queued_bytes;
    let mut subscribe = |arguments| match machine.subscribe(at(0), request(key("a", HOOK, arguments))) {
        Ok(Subscribed::Granted(grant)) => grant.subscription,
        other => panic!("{other:?}"),
    };
    let [small, large] = [r#"{"n":1}"#, r#"{"n":2}"#].map(&mut subscribe);
    let data = RawJson::new(format!(r#"{{"x":"{}"}}"#, "y".repeat(MAX_BODY / 2))).expect("JSON");
    machine.publish(at(0), small, &event(1)).expect("room");
    for position in 1..=100 {
        let event = EventOccurrence { data: data.clone(), ..event(position) };
        machine.publish(at(0), large, &event).expect("room");
        assert!(machine.queued <= limit, "{} of {limit}", machine.queued);
    }
    let skipped = machine.stats().skipped;
    assert!(skipped > 50 && machine.queued > limit / 4, "{skipped}");
    // The small one pays for nothing.
    machine.publish(at(0), small, &event(2)).expect("room");
    let sent: Vec<String> = core::iter::from_fn(|| {
        let delivery = machine.poll_transmit(at(0))?;
        machine.handle_answer(at(0), delivery.id, &answer(200));
        Some(header(&delivery, "webhook-id").to_string())
    })
    .collect();
    assert_eq!(sent.iter().filter(|id| id.starts_with("msg_gap_")).count(), 1);
    assert!(sent.contains(&"evt-1".to_string()) && sent.contains(&"evt-2".to_string()));
    assert_eq!((machine.queued, machine.sizes.len(), machine.stats().skipped), (0, 0, skipped));
    machine.publish(at(0), large, &event(101)).expect("room");
    machine.unsubscribe(&key("a", HOOK, r#"{"n":2}"#), &Profile::SEP).expect("it is there");
    assert_eq!((machine.queued, machine.sizes.len()), (0, 0));
}

// covers: EVT-104
#[test]
fn reported_gaps_take_no_room() {
    let (mut machine, subscription) = subscribed();
    for position in 1..=20_000 {
        machine.report_gap(at(0), subscription, &format!("c-{position}"));
    }
    let gap = machine.poll_transmit(at(0)).expect("a gap");
    assert_eq!(text(&gap), r#"{"type":"gap","cursor":"c-20000"}"#);
    assert!(machine.poll_transmit(at(0)).is_none());
}

// covers: EVT-084, EVT-113, EVT-116, EVT-117
#[test]
fn proofs_are_kept_by_the_application() {
    let mut first = machine(Config::default());
    try_verify(&mut first, 0, "a", HOOK).expect("a challenge");
    assert_eq!(first.proved_until("a", HOOK), None);
    let challenge = first.poll_transmit(at(0)).expect("a challenge");
    answer_with_echo(&mut first, 5, &challenge);
    let until = first.proved_until("a", HOOK).expect("a proof");
    assert_eq!(until, EPOCH + 5 + 86_400);
    // Another process, with another clock.
    let anchor = Anchor::new(at(7), EPOCH + 100);
    let mut second = Deliveries::new(Config::default(), Entropy::new([4; 32], 1), anchor);
    second.prove(at(7), "a", HOOK, until);
    assert_eq!(second.proved_until("a", HOOK), Some(until));
    assert!(matches!(second.subscribe(at(7), request(key("a", HOOK, "{}"))), Ok(Subscribed::Granted(_))));
    assert!(try_verify(&mut second, 7, "b", HOOK).is_ok(), "another principal");
    let last = 7 + until - (EPOCH + 100);
    let more = |n| request(key("a", HOOK, n));
    assert!(matches!(second.subscribe(at(last - 1), more(r#"{"n":1}"#)), Ok(Subscribed::Granted(_))));
    assert!(matches!(second.subscribe(at(last), more(r#"{"n":2}"#)), Ok(Subscribed::Verifying(_))));
    // One that has ended proves nothing.
    second.prove(at(last), "c", HOOK, EPOCH);
    assert!(try_verify(&mut second, last, "c", HOOK).is_ok());
}

// covers: EVT-020, EVT-021, EVT-104, EVT-162
#[test]
fn a_termination_is_the_last_message() {
    let (mut machine, subscription) = subscribed();
    for position in 1..=6 {
        machine.publish(at(0), subscription, &event(position)).expect("room");
    }
    let in_flight = machine.poll_transmit(at(0)).expect("an attempt");
    machine.terminate(at(1), subscription, &EventsError::Forbidden("access revoked".into()));
    assert_eq!(machine.stats().cancelled, 6);
    machine.handle_answer(at(1), in_flight.id, &answer(500));
    assert_eq!(machine.publish(at(1), subscription, &event(7)), Err(PublishError::Stale));
    let last = machine.poll_transmit(at(1)).expect("the end");
    assert_eq!(
        text(&last),
        r#"{"type":"terminated","error":{"code":-32024,"message":"Forbidden","data":{"reason":"access revoked"}}}"#
    );
    assert!(machine.poll_transmit(at(1)).is_none());
    machine.handle_answer(at(2), last.id, &answer(503));
    let again = machine.poll_transmit(at(9)).expect("another attempt");
    assert_eq!(header(&again, "webhook-id"), header(&last, "webhook-id"));
    machine.handle_answer(at(9), again.id, &answer(204));
    assert_eq!(events(&mut machine), [Event::Ended { subscription }]);
    assert!(machine.is_empty());

    // The same key during the end begins anew.
    let (mut machine, subscription) = subscribed();
    machine.terminate(at(0), subscription, &EventsError::EventNotFound);
    let grant = refresh(&mut machine, 0);
    assert!(grant.subscription != subscription && grant.status.is_none());
    assert_eq!(events(&mut machine), [Event::Ended { subscription }]);
    assert!(machine.poll_transmit(at(0)).is_none());

    let (mut machine, subscription) = subscribed_with(Config::default(), Profile::CHATGPT);
    machine.terminate(at(0), subscription, &EventsError::UnsupportedMode(DeliveryMode::Webhook));
    assert_eq!(events(&mut machine), [Event::Ended { subscription }]);
    assert!(machine.poll_transmit(at(0)).is_none(), "nothing is sent");
}

#[test]
fn a_slow_host_does_not_hold_up_others() {
    let other = "https://other.example/";
    let config = Config { in_flight: 2, in_flight_per_host: 3, in_flight_total: 5, ..Config::default() };
    let config = config.verified_origin(HOOK).and_then(|config| config.verified_origin(other)).expect("URLs");
    let mut machine = machine(config);
    let mut subscribe = |url: &str, arguments| {
        let Ok(Subscribed::Granted(grant)) = machine.subscribe(at(0), request(key("a", url, arguments)))
        else {
            panic!("no grant")
        };
        for position in 1..=3 {
            machine.publish(at(0), grant.subscription, &event(position)).expect("room");
        }
    };
    for arguments in [r#"{"n":1}"#, r#"{"n":2}"#, r#"{"n":3}"#] {
        subscribe(HOOK, arguments);
    }
    subscribe(other, "{}");
    let mut all: Vec<Delivery> = core::iter::from_fn(|| machine.poll_transmit(at(0))).collect();
    let slow = all.iter().filter(|delivery| delivery.url.origin().host.starts_with("hooks")).count();
    assert_eq!((slow, all.len()), (3, 5), "two of the other host");
    // Everything is delivered in the end, in whichever order the answers come.
    let mut answered = 0;
    while let Some(delivery) = all.pop() {
        machine.handle_answer(at(1), delivery.id, &answer(200));
        answered += 1;
        all.extend(core::iter::from_fn(|| machine.poll_transmit(at(1))));
    }
    assert_eq!((answered, machine.stats().acknowledged), (12, 12));
    assert!(machine.hosts.is_empty() && machine.released.is_empty());
    assert_eq!(machine.poll_timeout(), Some(at(3_600)), "expiry alone");
}

/// Subscribes to a URL that needs a challenge, and returns the refusal.
fn try_verify(
    machine: &mut Deliveries,
    secs: u64,
    principal: &str,
    url: &str,
) -> Result<Ticket, EventsError> {
    match machine.subscribe(at(secs), request(key(principal, url, "{}"))) {
        Ok(Subscribed::Verifying(ticket)) => Ok(ticket),
        Ok(Subscribed::Granted(grant)) => panic!("{grant:?}"),
        Err(error) => Err(error),
    }
}

fn is_challenge(delivery: &Delivery) -> bool {
    header(delivery, "webhook-id").starts_with("msg_verification_")
}

fn answer_with_echo(machine: &mut Deliveries, secs: u64, challenge: &Delivery) {
    let echo = echo(challenge);
    let outcome = Outcome::Answer { status: 200, retry_after: None, body: echo.as_bytes() };
    machine.handle_answer(at(secs), challenge.id, &outcome);
}

// covers: EVT-087, EVT-118
#[test]
fn challenges_leave_room_for_events() {
    let config = Config { in_flight_total: 16, challenges_per_principal: 100_000, ..Config::default() };
    let config = Config { subscriptions_per_principal: 10, ..config };
    let (mut machine, subscription) = subscribed_with(config, Profile::SEP);
    let (mut number, mut delivered) = (0, 0);
    // A principal calls and goes away, again and again; none of his hosts answers.
    for now in 0..100 {
        machine.publish(at(now), subscription, &event(now + 1)).expect("room");
        machine.handle_timeout(at(now));
        for _ in 0..200 {
            number += 1;
            let call = try_verify(&mut machine, now, "stranger", &format!("https://h{number}.example/"));
            while let Some(delivery) = machine.poll_transmit(at(now)) {
                if !is_challenge(&delivery) {
                    delivered += 1;
                    machine.handle_answer(at(now), delivery.id, &answer(200));
                }
            }
            match call {
                Ok(ticket) => machine.cancel(ticket),
                Err(error) => {
                    assert_eq!(error, EventsError::ResourceExhausted { limit: "subscriptions", max: 10 });
                }
            }
        }
        assert_eq!(machine.challenges_in_flight, 4, "a quarter");
        assert_eq!(machine.verifications.places(), machine.principals["stranger"], "places are kept");
    }
    assert_eq!(delivered, 100);
    assert!(try_verify(&mut machine, 100, "another", "https://v.example/").is_ok());
}

// covers: EVT-118
#[test]
fn challenges_wait_for_their_host() {
    let config = Config { in_flight_per_host: 2, ..Config::default() };
    let mut machine = machine(config);
    // With and without the dot of the root, and on another port, it is one host.
    for (principal, url) in
        [("a", HOOK), ("b", "https://hooks.example./"), ("c", "https://hooks.example:8443/")]
    {
        try_verify(&mut machine, 0, principal, url).expect("a challenge");
    }
    let first = machine.poll_transmit(at(0)).expect("a challenge");
    assert!(machine.poll_transmit(at(0)).is_some() && machine.poll_transmit(at(0)).is_none());
    answer_with_echo(&mut machine, 1, &first);
    assert_eq!(machine.poll_timeout(), Some(at(1)));
    let third = machine.poll_transmit(at(1)).expect("it had to wait");
    assert_eq!(third.url.origin().port, 8443);
}

// covers: EVT-115, EVT-118
#[test]
fn failed_challenges_are_limited_and_honest_ones_are_not() {
    let config = Config { failed_challenges: 2, ..Config::default() };
    let mut machine = machine(config);
    // Many users of one receiver.
    for user in 0..50 {
        let url = format!("https://shared.example/callback_{user}");
        try_verify(&mut machine, 0, &format!("user-{user}"), &url).expect("a challenge");
        let challenge = machine.poll_transmit(at(0)).expect("a challenge");
        answer_with_echo(&mut machine, 0, &challenge);
    }
    assert_eq!(machine.len(), 50);
    let exhausted = |max| Err(EventsError::ResourceExhausted { limit: "challenges", max });
    for (number, expected) in [(0, None), (1, None), (2, Some(exhausted(2)))] {
        let url = format!("https://shared.example/{number}");
        let call = try_verify(&mut machine, 0, "stranger", &url);
        match expected {
            Some(expected) => assert_eq!(call, expected),
            None => {
                let challenge = machine.poll_transmit(at(0)).expect("a challenge");
                machine.handle_answer(at(0), challenge.id, &answer(404));
            }
        }
    }
    // Another one, another host, and a new minute.
    for (secs, principal, url) in [
        (0, "other", "https://shared.example/2"),
        (0, "stranger", "https://elsewhere.example/"),
        (60, "stranger", "https://shared.example/2"),
    ] {
        assert!(try_verify(&mut machine, secs, principal, url).is_ok(), "{secs} {principal} {url}");
    }
    // One principal has a rate for all hosts, whatever they answer.
    let taken = (0..100).take_while(|number| {
        try_verify(&mut machine, 60, "many", &format!("https://h{number}.example/")).is_ok()
    });
    assert_eq!(taken.count(), 30);
}

// covers: EVT-118
#[test]
fn counters_of_challenges_are_bounded() {
    let config = Config { subscriptions: 3, challenges_per_host: 1, ..Config::default() };
    let mut machine = machine(config);
    for number in 0..20 {
        let url = format!("https://h{number}.example/");
        let ticket = try_verify(&mut machine, number, &format!("p-{number}"), &url).expect("never refused");
        machine.cancel(ticket);
        assert!(machine.poll_transmit(at(number)).is_none(), "nobody waits");
    }
    assert_eq!(machine.verifications.counters(), [3, 3, 0]);
    let exhausted = EventsError::ResourceExhausted { limit: "challenges", max: 1 };
    assert_eq!(try_verify(&mut machine, 20, "p", "https://h19.example/x"), Err(exhausted));
    assert!(try_verify(&mut machine, 20, "p", "https://h0.example/").is_ok(), "the oldest is forgotten");
}

// covers: EVT-116
#[test]
fn a_proof_without_life_counts_for_its_calls() {
    let mut machine = machine(Config { proof_life: Duration::ZERO, ..Config::default() });
    try_verify(&mut machine, 0, "a", HOOK).expect("a challenge");
    let challenge = machine.poll_transmit(at(0)).expect("a challenge");
    answer_with_echo(&mut machine, 0, &challenge);
    assert!(matches!(&*events(&mut machine), [Event::Verified { .. }]));
    assert!(machine.poll_transmit(at(0)).is_none());
    let other = machine.subscribe(at(0), request(key("a", HOOK, r#"{"n":1}"#)));
    assert!(matches!(other, Ok(Subscribed::Verifying(_))), "{other:?}");
}

#[test]
fn subscriptions_of_a_host_have_their_turn() {
    let mut machine = machine(Config::default().verified_origin(HOOK).expect("a URL"));
    let subscriptions: Vec<(SubscriptionHandle, String)> = (0..6)
        .map(|number| {
            let arguments = RawJson::new(format!(r#"{{"n":{number}}}"#)).expect("JSON");
            let key = SubscriptionKey::new("p", HOOK, "n", &arguments).expect("a key");
            match machine.subscribe(at(0), request(key)) {
                Ok(Subscribed::Granted(grant)) => (grant.subscription, grant.id),
                other => panic!("{other:?}"),
            }
        })
        .collect();
    // Five are slow and always have more to send; the last one is fast.
    let mut open: Vec<(Delivery, u64)> = Vec::new();
    let mut attempts = [0; 6];
    for now in 0..500 {
        for (subscription, _) in &subscriptions {
            for part in 0..3 {
                machine.publish(at(now), *subscription, &event(now * 3 + part)).expect("room");
            }
        }
        loop {
            while let Some(delivery) = machine.poll_transmit(at(now)) {
                let id = header(&delivery, "X-MCP-Subscription-Id");
                let number = subscriptions.iter().position(|(_, other)| other == id).expect("ours");
                attempts[number] += 1;
                let slow = if number == 5 { 0 } else { 9 };
                open.push((delivery, now + slow));
            }
            let Some(due) = open.iter().position(|(_, at)| *at <= now) else { break };
            let (delivery, _) = open.swap_remove(due);
            machine.handle_answer(at(now), delivery.id, &answer(200));
        }
    }
    let least = attempts.iter().min().expect("six");
    assert!(attempts[5] >= *least && *least > 100, "{attempts:?}");
}

#[test]
fn released_hosts_do_not_hold_up_the_schedule() {
    let other = "https://other.example/";
    let config = Config { in_flight: 2, in_flight_per_host: 2, in_flight_total: 2, ..Config::default() };
    let config = config.verified_origin(HOOK).and_then(|config| config.verified_origin(other)).expect("URLs");
    let mut machine = machine(config);
    let mut subscribe = |url: &str, arguments, count| {
        let Ok(Subscribed::Granted(grant)) = machine.subscribe(at(0), request(key("a", url, arguments)))
        else {
            panic!("no grant")
        };
        for position in 1..=count {
            machine.publish(at(0), grant.subscription, &event(position)).expect("room");
        }
    };
    subscribe(HOOK, r#"{"n":1}"#, 100);
    subscribe(HOOK, r#"{"n":2}"#, 100);
    subscribe(other, "{}", 1);
    let mut open: VecDeque<Delivery> = VecDeque::new();
    let attempts_before_the_other = (1..300).find(|now| {
        open.extend(core::iter::from_fn(|| machine.poll_transmit(at(*now))));
        if open.iter().any(|delivery| delivery.url.origin().host.starts_with("other")) {
            return true;
        }
        let first = open.pop_front().expect("an attempt");
        machine.handle_answer(at(*now), first.id, &answer(200));
        false
    });
    assert!(attempts_before_the_other < Some(10), "{attempts_before_the_other:?}");
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
