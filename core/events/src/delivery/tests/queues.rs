//! Queues: watermarks, gaps, and bounds of memory.

use super::*;

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

// covers: EVT-104, EVT-144
#[test]
fn a_subscription_that_begins_behind_a_gap_is_told_of_it_also_if_the_first_answer_is_lost() {
    let begin = |profile| {
        let mut machine = machine(Config::default().verified_origin(HOOK).expect("a URL"));
        let call = Subscribe { truncated: true, profile, ..request(key("user-17", HOOK, "{}")) };
        let Ok(Subscribed::Granted(grant)) = machine.subscribe(at(0), call) else { panic!("no grant") };
        assert!(grant.truncated);
        machine.publish(at(0), grant.subscription, &event(1)).expect("room");
        machine
    };
    let mut machine = begin(Profile::SEP);
    assert!(!refresh(&mut machine, 1).truncated);
    let gap = machine.poll_transmit(at(1)).expect("a gap");
    assert_eq!(text(&gap), r#"{"type":"gap","cursor":"c-0"}"#);
    // Without control envelopes the refresh says it.
    assert!(refresh(&mut begin(Profile::CHATGPT), 1).truncated);
}

// covers: EVT-104, EVT-144
#[test]
fn a_gap_in_front_of_all_messages_is_stored_until_its_subscriber_knows() {
    let (mut machine, subscription) = subscribed();
    let is_stored = |machine: &Deliveries| machine.subscriptions[&subscription].progress().starts_truncated;
    machine.report_gap(at(0), subscription, "c-9");
    assert!(is_stored(&machine));
    let gap = machine.poll_transmit(at(0)).expect("a gap");
    machine.handle_answer(at(0), gap.id, &answer(500));
    assert!(is_stored(&machine), "it is tried again");
    let gap = machine.poll_transmit(at(60)).expect("a gap");
    machine.handle_answer(at(60), gap.id, &answer(200));
    assert!(!is_stored(&machine));
    // The position of a later one tells of it.
    machine.publish(at(60), subscription, &event(10)).expect("room");
    machine.report_gap(at(60), subscription, "c-12");
    assert!(!is_stored(&machine));
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

// covers: EVT-098, EVT-099, EVT-100, EVT-104
#[test]
fn receiver_that_is_down_for_a_day_costs_bounded_memory_and_goes_on_behind_a_gap() {
    const DAY: u64 = 86_400;
    // A million takes half a minute without optimization.
    let total: u64 = if std::env::var_os("MCP_TEST_FULL").is_some() { 1_000_000 } else { 50_000 };
    let config = Config { default_ttl: Duration::from_secs(DAY), ..Config::default() };
    let (mut machine, subscription) = subscribed_with(config, Profile::SEP);
    let (mut suspended, mut largest) = (0, 0);
    let mut drive = |machine: &mut Deliveries, now, outcome: &Outcome<'_>, sent: &mut Vec<String>| {
        machine.handle_timeout(now);
        while let Some(delivery) = machine.poll_transmit(now) {
            sent.push(text(&delivery).to_string());
            machine.handle_answer(now, delivery.id, outcome);
        }
        suspended += events(machine).len();
    };
    let mut lost = Vec::new();
    for position in 1..=total {
        let now = Instant::from_micros(position * (DAY - 1) * 1_000_000 / total);
        machine.publish(now, subscription, &event(position)).expect("it is there");
        drive(&mut machine, now, &Outcome::Failed(Failure::Timeout), &mut lost);
        largest = largest.max(machine.queued);
        assert!(!machine.subscriptions[&subscription].queue.is_over(1_024, 4 << 20));
    }
    assert!(largest < 1 << 20, "{largest} bytes of events that have less than 100 each");
    assert!((100..200).contains(&lost.len()), "it is suspended after {} attempts", lost.len());
    let before = machine.stats();
    assert!(before.skipped > total - 1_200 && before.acknowledged == 0, "{before:?}");
    // It comes back, and its subscriber refreshes.
    let grant = refresh(&mut machine, DAY - 1);
    assert!(!grant.status.expect("a refresh").active);
    assert!(!grant.truncated, "a gap tells it");
    let mut sent = Vec::new();
    drive(&mut machine, at(DAY - 1), &answer(200), &mut sent);
    let gaps = sent.iter().filter(|body| body.starts_with(r#"{"type":"gap""#)).count();
    assert!((1..=2).contains(&gaps), "{gaps}");
    assert_eq!(sent.iter().filter(|body| body.contains(&format!(r#""eventId":"evt-{total}""#))).count(), 1);
    let stats = machine.stats();
    assert_eq!(stats.published, stats.acknowledged + stats.abandoned + stats.skipped, "{stats:?}");
    assert_eq!((machine.queued, refresh(&mut machine, DAY - 1).cursor), (0, Some(format!("c-{total}"))));
    machine.publish(at(DAY), subscription, &event(total + 1)).expect("it is there");
    sent.clear();
    drive(&mut machine, at(DAY), &answer(200), &mut sent);
    assert_eq!((sent.len(), suspended), (1, 1), "it goes on");
}
