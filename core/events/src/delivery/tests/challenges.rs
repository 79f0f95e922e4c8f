//! Challenges and proofs: nothing is sent to a URL whose owner has not agreed.

use super::*;

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
