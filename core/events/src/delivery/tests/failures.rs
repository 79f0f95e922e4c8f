//! Receivers that fail for long: suspensions, and the end of subscriptions without expiry.

use super::*;
use crate::store::Record;

/// Lets every attempt fail until the subscription is suspended. Returns the time behind that.
fn suspend(machine: &mut Deliveries, subscription: SubscriptionHandle) -> u64 {
    let (mut now, mut attempts) = (0, 0);
    while !events(machine).contains(&Event::Suspended { subscription }) {
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
    now
}

// covers: EVT-100, EVT-098, EVT-101
#[test]
fn deliveries_are_suspended_by_their_rate_of_failure() {
    let (mut machine, subscription) = subscribed();
    let mut now = suspend(&mut machine, subscription);
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

/// Subscribes without expiry, or refreshes such a subscription.
fn subscribe_for_ever(machine: &mut Deliveries, now: u64, profile: Profile, secret: Secret) -> Grant {
    let call = request(key("user-17", HOOK, "{}"));
    match machine.subscribe(at(now), Subscribe { ttl: Some(Nullable(None)), profile, secret, ..call }) {
        Ok(Subscribed::Granted(grant)) => {
            assert_eq!(grant.refresh_before, None);
            grant
        }
        other => panic!("{other:?}"),
    }
}

/// A machine with one subscription without expiry, whose changes are tracked.
pub(super) fn endless(profile: Profile) -> (Deliveries, SubscriptionHandle) {
    let config = Config { grants_no_expiry: true, ..Config::default() };
    let mut machine = machine(config.verified_origin(HOOK).expect("a URL"));
    machine.track_changes();
    let grant = subscribe_for_ever(&mut machine, 0, profile, secret(1));
    (machine, grant.subscription)
}

/// Makes all attempts until a time, with the same answer. Returns their bodies.
fn attempt_until(machine: &mut Deliveries, from: u64, until: u64, status: u16) -> Vec<String> {
    let (mut now, mut bodies) = (at(from), Vec::new());
    while now <= at(until) {
        machine.handle_timeout(now);
        while let Some(delivery) = machine.poll_transmit(now) {
            bodies.push(text(&delivery).to_string());
            machine.handle_answer(now, delivery.id, &answer(status));
        }
        let Some(next) = machine.poll_timeout().filter(|next| *next > now) else { break };
        now = next;
    }
    machine.handle_timeout(at(until));
    bodies
}

/// Publishes an event that is attempted in an hour, with the same answer each time.
fn hour(machine: &mut Deliveries, subscription: SubscriptionHandle, hour: u64, status: u16) {
    machine.publish(at(hour * HOUR), subscription, &event(hour + 1)).expect("it is there");
    attempt_until(machine, hour * HOUR, (hour + 1) * HOUR - 1, status);
}

fn changes(machine: &mut Deliveries) -> Vec<Record> {
    core::iter::from_fn(|| machine.poll_change()).collect()
}

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;
const TERMINATED: &str = r#"{"type":"terminated","error":{"code":-32027,"message":"CallbackEndpointError","data":{"reason":"http_5xx"}}}"#;

// covers: EVT-085, EVT-101, EVT-131
#[test]
fn subscription_without_expiry_ends_when_its_receiver_is_dead() {
    for status in [500, 200] {
        let (mut machine, subscription) = endless(Profile::SEP);
        (0..7 * 24).for_each(|number| hour(&mut machine, subscription, number, 503));
        assert_eq!((events(&mut machine), machine.len()), (Vec::new(), 1), "not a second too early");
        let stats = machine.stats();
        // `terminated` is all that is sent then, and its outcome changes nothing.
        let sent = attempt_until(&mut machine, 7 * DAY, 8 * DAY, status);
        assert_eq!(sent, vec![TERMINATED; if status == 200 { 1 } else { 5 }]);
        assert_eq!(events(&mut machine), [Event::GivenUp { subscription }, Event::Ended { subscription }]);
        assert_eq!(machine.publish(at(8 * DAY), subscription, &event(999)), Err(PublishError::Stale));
        assert_eq!((machine.is_empty(), machine.poll_timeout(), machine.stats()), (true, None, stats));
        let last = changes(&mut machine).pop();
        assert!(matches!(last, Some(Record::SubscriptionEnded { .. })), "{last:?}");
    }
    // Without control envelopes nothing is sent.
    let (mut machine, subscription) = endless(Profile::CHATGPT);
    (0..7 * 24).for_each(|number| hour(&mut machine, subscription, number, 503));
    assert_eq!(attempt_until(&mut machine, 7 * DAY, 8 * DAY, 200), [""; 0]);
    assert_eq!(events(&mut machine), [Event::GivenUp { subscription }, Event::Ended { subscription }]);
}

// covers: EVT-100, EVT-131
#[test]
fn success_and_refresh_give_a_failing_receiver_its_whole_time() {
    let (mut machine, subscription) = endless(Profile::SEP);
    hour(&mut machine, subscription, 0, 500);
    hour(&mut machine, subscription, 6 * 24, 204);
    assert_eq!((machine.poll_timeout(), machine.len()), (None, 1), "nothing ends it");
    hour(&mut machine, subscription, 8 * 24, 500);
    subscribe_for_ever(&mut machine, 14 * DAY, Profile::SEP, secret(1));
    machine.handle_timeout(at(21 * DAY - 1));
    assert_eq!(events(&mut machine), []);
    // Nothing was published meanwhile.
    machine.handle_timeout(at(21 * DAY));
    assert_eq!(events(&mut machine), [Event::GivenUp { subscription }]);
    // One that is suspended ends, too: at the time of the one that is not.
    let (mut machine, subscription) = endless(Profile::SEP);
    let now = suspend(&mut machine, subscription);
    assert_eq!(machine.poll_timeout(), Some(at(7 * DAY)), "since the first failure");
    assert!(machine.poll_transmit(at(7 * DAY - 1)).is_none() && now < HOUR);
    let end = machine.poll_transmit(at(7 * DAY)).expect("the end");
    assert!(text(&end).starts_with(r#"{"type":"terminated""#), "{}", text(&end));
    // One with an expiry goes on as long as it is refreshed, and expires in silence.
    let (mut machine, subscription) = endless(Profile::SEP);
    for number in 0..10 * 24 {
        refresh(&mut machine, number * HOUR);
        hour(&mut machine, subscription, number, 500);
    }
    assert_eq!((events(&mut machine), machine.len()), (Vec::new(), 1));
    assert_eq!(attempt_until(&mut machine, 10 * DAY, 11 * DAY, 200), [""; 0]);
    assert_eq!(events(&mut machine), [Event::Ended { subscription }]);
}

// covers: EVT-084, EVT-085, EVT-131
#[test]
fn failures_are_counted_over_restarts_but_not_the_time_without_a_server() {
    let (mut machine, subscription) = endless(Profile::SEP);
    hour(&mut machine, subscription, 0, 500);
    let Some(Record::Subscription(stored)) = changes(&mut machine).pop() else { panic!("a record") };
    assert_eq!((stored.granted_at, stored.progress.failed_since), (EPOCH, Some(EPOCH)));
    let restored = |days: u64| {
        let anchor = Anchor::new(at(7), EPOCH + days * DAY);
        let config = Config { grants_no_expiry: true, ..Config::default() };
        let mut machine = Deliveries::new(config, Entropy::new([4; 32], days), anchor);
        let handle = machine.restore(at(7), &stored).expect("it has no expiry");
        (machine, handle)
    };
    let (machine, _) = restored(6);
    assert_eq!(machine.poll_timeout(), Some(at(7 + DAY)));
    // Nothing was tried for a month: it has attempts before it is given up.
    for (status, is_given_up) in [(500, true), (204, false)] {
        let (mut machine, subscription) = restored(30);
        machine.publish(at(7), subscription, &event(2)).expect("it is there");
        assert!(!attempt_until(&mut machine, 7, 7 + HOUR, status).is_empty());
        let news = events(&mut machine);
        assert_eq!(news.contains(&Event::GivenUp { subscription }), is_given_up, "{news:?}");
    }
    // One whose end was to be told has that end alone.
    let (mut machine, subscription) = restored(30);
    machine.track_changes();
    machine.terminate(at(7), subscription, &EventsError::EventNotFound);
    assert_eq!(attempt_until(&mut machine, 7, 10 * DAY, 500).len(), 5);
    assert_eq!(events(&mut machine), [Event::Ended { subscription }]);
}

// covers: EVT-100
#[test]
fn success_suspends_nothing() {
    let (mut machine, subscription) = subscribed();
    for position in 1..=100 {
        machine.publish(at(0), subscription, &event(position)).expect("room");
        let delivery = machine.poll_transmit(at(0)).expect("an attempt");
        machine.handle_answer(at(0), delivery.id, &answer(if position == 100 { 200 } else { 500 }));
    }
    assert_eq!(events(&mut machine), [], "99 of 100 have failed, and the last one has not");
    assert!(machine.poll_transmit(at(100)).is_some());
}

// covers: EVT-094, EVT-098, EVT-100
#[test]
fn secret_that_is_rotated_during_a_suspension_signs_what_has_waited() {
    let (mut machine, subscription) = endless(Profile::SEP);
    let now = suspend(&mut machine, subscription) + 2 * HOUR;
    let next_is_signed_by = |machine: &mut Deliveries, now: u64, secrets: &[Secret]| {
        let delivery = machine.poll_transmit(at(now)).expect("an attempt");
        let expected = sign(secrets, header(&delivery, "webhook-id"), EPOCH + now, &delivery.body);
        assert_eq!(header(&delivery, "webhook-signature"), expected, "{now}");
        machine.handle_answer(at(now), delivery.id, &answer(200));
    };
    let grant = subscribe_for_ever(&mut machine, now, Profile::SEP, secret(2));
    assert!(!grant.status.expect("a refresh").active);
    next_is_signed_by(&mut machine, now, &[secret(2), secret(1)]);
    // Back to the old one, before anybody has seen the new one.
    subscribe_for_ever(&mut machine, now + 10, Profile::SEP, secret(1));
    next_is_signed_by(&mut machine, now + 10, &[secret(1), secret(2)]);
    next_is_signed_by(&mut machine, now + 909, &[secret(1), secret(2)]);
    next_is_signed_by(&mut machine, now + 910, &[secret(1)]);
    // A rotation long before the suspension.
    let (mut machine, subscription) = endless(Profile::SEP);
    subscribe_for_ever(&mut machine, 0, Profile::SEP, secret(2));
    let now = suspend(&mut machine, subscription) + HOUR;
    subscribe_for_ever(&mut machine, now, Profile::SEP, secret(2));
    next_is_signed_by(&mut machine, now, &[secret(2)]);
}
