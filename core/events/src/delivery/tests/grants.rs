//! Grants, secrets and ends of subscriptions.

use super::*;

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
