//! Attempts: their times, their ids, and whose turn it is.

use super::*;

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
