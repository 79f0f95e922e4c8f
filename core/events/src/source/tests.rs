use alloc::format;
use alloc::string::ToString as _;

use mcp_proto::RawJson;

use super::*;
use crate::wire::StreamEventsParams;

/// The first lane of each source here.
const LANE: Lane = Lane(1);
const SECOND: Duration = Duration::from_secs(1);

fn at(secs: u64) -> Instant {
    Instant::ZERO + SECOND * u32::try_from(secs).expect("small")
}

fn raw(text: &str) -> RawJson {
    RawJson::new(text.to_string()).expect("JSON")
}

fn described(name: &str, modes: &[DeliveryMode]) -> EventType {
    EventType::new(name, modes.to_vec(), raw("{}")).payload_schema(raw("{}"))
}

fn event(name: &str, number: u64) -> EventOccurrence {
    EventOccurrence::new(
        format!("evt-{number}"),
        name,
        "2026-11-25T10:00:00Z",
        raw(&format!(r#"{{"n":{number}}}"#)),
    )
}

fn source_of(limits: LogLimits) -> Source {
    let mut source = Source::new(SourceConfig::default(), Entropy::new([3; 32], 0));
    assert_eq!(source.add_lane(), LANE);
    source.add(described("build", &[DeliveryMode::Poll, DeliveryMode::Push]), limits);
    source.add(described("mail", &[DeliveryMode::Poll]), limits);
    source
}

fn all() -> Filter {
    Box::new(|_| true)
}

fn open(source: &mut Source, now: Instant, cursor: Option<&str>) -> StreamKey {
    let params = match cursor {
        Some(cursor) => StreamEventsParams::new("build").cursor(cursor),
        None => StreamEventsParams::new("build"),
    };
    source.open(now, LANE, &params, None, all()).expect("a stream")
}

fn messages(source: &mut Source, now: Instant) -> Vec<(StreamKey, StreamMessage)> {
    source.handle_timeout(now, LANE);
    core::iter::from_fn(|| source.poll_message(now, LANE)).collect()
}

fn number(message: &StreamMessage) -> Option<u64> {
    match message {
        StreamMessage::Event(event) => event.event_id.strip_prefix("evt-")?.parse().ok(),
        _ => None,
    }
}

// covers: EVT-010, EVT-011
#[test]
fn list_pages_by_name_whatever_comes_and_goes() {
    let mut source =
        Source::new(SourceConfig { types_per_page: 2, ..SourceConfig::default() }, Entropy::new([3; 32], 0));
    for name in ["d", "a", "c", "secret", "b"] {
        source.add(described(name, &[DeliveryMode::Poll]), LogLimits::default());
    }
    let visible = |described: &EventType| described.name != "secret";
    let page = |source: &Source, cursor: Option<&str>| {
        let page = source.list(cursor, visible);
        let names: Vec<String> = page.events.iter().map(|described| described.name.clone()).collect();
        (names.concat(), page.next_cursor)
    };
    let (names, cursor) = page(&source, None);
    assert_eq!((&*names, cursor.as_deref()), ("ab", Some("b")));
    source.remove("b", &EventsError::EventNotFound);
    source.add(described("bb", &[DeliveryMode::Poll]), LogLimits::default());
    let (names, cursor) = page(&source, cursor.as_deref());
    assert_eq!((&*names, cursor.as_deref()), ("bbc", Some("c")));
    // The hidden type behind the last page makes no page of its own.
    assert_eq!(page(&source, Some("c")), ("d".into(), None));
}

// covers: EVT-041, EVT-042, EVT-043, EVT-046, EVT-047, EVT-144
#[test]
fn poll_answers_as_its_cursor_and_bounds_say() {
    let mut source = source_of(LogLimits { events: 8, ..LogLimits::default() });
    let poll = |source: &mut Source, params: PollEventsParams<'_>| source.poll(at(20), &params, |_| true);
    let first = poll(&mut source, PollEventsParams::new("build")).expect("an answer");
    assert_eq!((first.events.len(), first.has_more, first.truncated), (0, Some(false), Some(false)));
    assert_eq!(first.next_poll_ms, Some(30_000.0));
    let cursor = Nullable::text(first.cursor.as_ref()).expect("a cursor").to_string();
    for n in 0..5 {
        source.publish(at(n), event("build", n)).expect("a type");
    }
    let params = || PollEventsParams::new("build").cursor(&*cursor);
    let two = poll(&mut source, params().max_events(2u64)).expect("an answer");
    assert_eq!((two.events.len(), two.has_more, two.truncated), (2, Some(true), Some(false)));
    assert!(two.events.iter().all(|event| event.cursor.is_none()), "the cursor of a poll is in its result");
    let rest = Nullable::text(two.cursor.as_ref()).expect("a cursor").to_string();
    let rest = poll(&mut source, PollEventsParams::new("build").cursor(&*rest)).expect("an answer");
    assert_eq!((rest.events.len(), rest.has_more), (3, Some(false)));
    // Only the young: what is left out is told.
    let young = poll(&mut source, params().max_age_ms(17_500u64)).expect("an answer");
    assert_eq!((young.events.len(), young.truncated), (2, Some(true)));
    // Beyond the log.
    for n in 5..20 {
        source.publish(at(n), event("build", n)).expect("a type");
    }
    let late = poll(&mut source, params()).expect("an answer");
    assert_eq!((late.events.len(), late.truncated), (8, Some(true)));
    // What is no poll.
    let error = |source: &mut Source, params| poll(source, params).expect_err("an error");
    assert_eq!(error(&mut source, PollEventsParams::new("none")), EventsError::EventNotFound);
    assert!(matches!(error(&mut source, params().max_events(0u64)), EventsError::InvalidParams(_)));
    let wrong = PollEventsParams::new("build").cursor("wrong");
    assert!(matches!(error(&mut source, wrong), EventsError::InvalidParams(_)));
    source.add(described("pushed", &[DeliveryMode::Push]), LogLimits::default());
    let unsupported = EventsError::UnsupportedMode(DeliveryMode::Poll);
    assert_eq!(error(&mut source, PollEventsParams::new("pushed")), unsupported);
    assert_eq!(source.publish(at(20), event("none", 1)), Err(UnknownType));
}

// covers: EVT-050, EVT-051, EVT-056, EVT-057, EVT-060, EVT-065
#[test]
fn stream_begins_with_active_and_beats_when_it_is_quiet() {
    let mut source = source_of(LogLimits::default());
    source.publish(at(0), event("build", 0)).expect("a type");
    let key = open(&mut source, at(1), None);
    let sent = messages(&mut source, at(1));
    let [(_, StreamMessage::Active { cursor: Some(cursor), truncated: false })] = &*sent else {
        panic!("{sent:?}")
    };
    source.publish(at(2), event("build", 1)).expect("a type");
    let sent = messages(&mut source, at(2));
    let [(_, StreamMessage::Event(first))] = &*sent else { panic!("{sent:?}") };
    assert_eq!(first.event_id, "evt-1");
    let after = Nullable::text(first.cursor.as_ref()).expect("a cursor");
    assert_ne!(after, cursor);
    // Ten seconds behind the last message, not before, and then again.
    assert_eq!(source.poll_timeout(LANE), Some(at(12)));
    assert_eq!(messages(&mut source, at(11)), []);
    for now in [12, 22] {
        let beat = StreamMessage::Heartbeat { cursor: Some(after.into()) };
        assert_eq!(messages(&mut source, at(now)), [(key, beat)]);
    }
    // A reconnect with that cursor misses nothing.
    source.publish(at(23), event("build", 2)).expect("a type");
    let again = open(&mut source, at(24), Some(after));
    let numbers: Vec<_> = messages(&mut source, at(24)).iter().map(|(key, m)| (*key, number(m))).collect();
    assert_eq!(numbers, [(key, Some(2)), (again, None), (again, Some(2))]);
    for key in [key, again] {
        assert!(source.close(key) && !source.close(key));
    }
    assert_eq!((source.open_streams(), source.poll_timeout(LANE)), (0, None));
    assert!(source.lanes[&LANE].timers.is_empty() && source.principals.is_empty());
    assert!(source.types.values().all(|known| known.waiting.is_empty()));
}

// covers: EVT-055, EVT-142, EVT-147
#[test]
fn stream_that_falls_behind_is_told_once_and_goes_on() {
    for replays in [true, false] {
        let mut source = source_of(LogLimits { events: 3, replays, ..LogLimits::default() });
        let key = open(&mut source, at(0), None);
        assert_eq!(messages(&mut source, at(0)).len(), 1);
        for n in 0..9 {
            source.publish(at(1), event("build", n)).expect("a type");
        }
        let sent = messages(&mut source, at(1));
        let numbers: Vec<_> = sent.iter().filter_map(|(_, m)| number(m)).collect();
        assert_eq!(numbers, [6, 7, 8]);
        let gaps = sent.iter().filter(|(_, m)| matches!(m, StreamMessage::Active { truncated: true, .. }));
        assert_eq!(gaps.count(), usize::from(replays));
        let cursors = sent.iter().any(|(_, m)| match m {
            StreamMessage::Event(event) => Nullable::text(event.cursor.as_ref()).is_some(),
            _ => false,
        });
        assert_eq!(cursors, replays);
        source.close(key);
    }
}

// covers: EVT-057
#[test]
fn deadline_of_a_lane_does_not_depend_on_the_clock_of_another() {
    let mut source = source_of(LogLimits::default());
    let ahead = source.add_lane();
    let params = StreamEventsParams::new("build");
    open(&mut source, at(0), None);
    source.open(at(0), ahead, &params, None, all()).expect("a stream");
    assert_eq!(messages(&mut source, at(0)).len(), 1);
    // Another thread drives its lane, and looked at its clock later.
    source.handle_timeout(at(9), ahead);
    while source.poll_message(at(9), ahead).is_some() {}
    source.publish(at(9), event("build", 1)).expect("a type");
    for (lane, expected) in [(LANE, at(0)), (ahead, at(9))] {
        assert_eq!(source.poll_timeout(lane), Some(expected), "at once");
    }
    // Heartbeats are of the time of their lane, too.
    assert_eq!(messages(&mut source, at(1)).len(), 1);
    assert_eq!(source.poll_timeout(LANE), Some(at(11)));
}

// covers: EVT-054, EVT-055, EVT-145, EVT-147
#[test]
fn errors_and_gaps_from_upstream_reach_those_who_are_there() {
    for replays in [true, false] {
        let mut source = source_of(LogLimits { replays, ..LogLimits::default() });
        assert_eq!(source.report_gap(at(0), "none"), Err(UnknownType));
        let error = EventsError::Internal("upstream 503".into());
        assert_eq!(source.report_error("none", &error), Err(UnknownType));
        let key = open(&mut source, at(0), None);
        source.report_error("build", &error).expect("a type");
        // The first message is `active`, whatever happened before it (EVT-051).
        let sent = messages(&mut source, at(0)).into_iter().map(|(_, m)| m).collect::<Vec<_>>();
        assert!(matches!(sent[0], StreamMessage::Active { truncated: false, .. }), "{sent:?}");
        assert_eq!(sent[1..], [StreamMessage::Error(error.clone())]);
        let poll = PollEventsParams::new("build");
        let begun = source.poll(at(0), &poll, |_| true).expect("polled").cursor.and_then(|cursor| cursor.0);
        source.publish(at(1), event("build", 1)).expect("a type");
        source.report_gap(at(1), "build").expect("a type");
        source.publish(at(1), event("build", 2)).expect("a type");
        let sent = messages(&mut source, at(1)).into_iter().map(|(_, m)| m).collect::<Vec<_>>();
        let numbers: Vec<Option<u64>> = sent.iter().map(number).collect();
        if !replays {
            assert_eq!(numbers, [Some(1), Some(2)]);
            continue;
        }
        assert_eq!(numbers, [Some(1), None, Some(2)]);
        let StreamMessage::Active { truncated: true, cursor: Some(behind) } = &sent[1] else {
            panic!("{sent:?}")
        };
        // A poll has the events in front of it, and then the gap and those behind it.
        let mut cursor = begun.expect("a cursor");
        for (expected, truncated) in [("evt-1", false), ("evt-2", true)] {
            let page = source.poll(at(2), &poll.clone().cursor(cursor), |_| true).expect("polled");
            assert_eq!((&*page.events[0].event_id, page.truncated), (expected, Some(truncated)));
            cursor = page.cursor.and_then(|cursor| cursor.0).expect("a cursor");
        }
        let page = source.poll(at(2), &poll.clone().cursor(behind.as_str()), |_| true).expect("polled");
        assert_eq!((page.events.len(), page.truncated), (1, Some(false)));
        // While there is no room: the newest error is sent, and nothing is lost for it.
        source.publish(at(3), event("build", 3)).expect("a type");
        let (_, first) = source.poll_message(at(3), LANE).expect("an event");
        source.report_error("build", &EventsError::Internal("upstream 502".into())).expect("a type");
        source.hold(key, at(4));
        source.report_error("build", &error).expect("a type");
        assert_eq!(messages(&mut source, at(3)), []);
        assert_eq!(messages(&mut source, at(4)), [(key, StreamMessage::Error(error)), (key, first)]);
    }
}

// covers: EVT-020, EVT-021, EVT-022, EVT-162
#[test]
fn streams_end_by_their_type_and_by_their_principal() {
    let mut source = source_of(LogLimits::default());
    let params = StreamEventsParams::new("build");
    let [ann, bob] =
        ["ann", "bob"].map(|name| source.open(at(0), LANE, &params, Some(name), all()).expect("a stream"));
    messages(&mut source, at(0));
    source.add(described("build", &[DeliveryMode::Push]).description("more"), LogLimits::default());
    source.publish(at(1), event("build", 1)).expect("a type");
    let forbidden = EventsError::Forbidden("access revoked".into());
    let revoked = |_: &str, principal: Option<&str>| (principal == Some("ann")).then(|| forbidden.clone());
    assert_eq!(source.terminate(revoked), 1);
    assert_eq!(source.terminate(revoked), 0);
    // Nothing that was published before reaches the one who lost access.
    let sent = messages(&mut source, at(1));
    assert!(sent.contains(&(ann, StreamMessage::Terminated(forbidden.clone()))), "{sent:?}");
    assert_eq!(sent.iter().filter(|(key, _)| *key == ann).count(), 1);
    assert_eq!(sent.iter().filter_map(|(key, m)| Some((*key, number(m)?))).collect::<Vec<_>>(), [(bob, 1)]);
    assert!(source.remove("build", &EventsError::EventNotFound));
    assert_eq!(messages(&mut source, at(2)), [(bob, StreamMessage::Terminated(EventsError::EventNotFound))]);
    assert_eq!(source.open(at(3), LANE, &params, None, all()), Err(EventsError::EventNotFound));
    assert_eq!((source.open_streams(), source.poll_timeout(LANE)), (0, None));
}

// covers: EVT-064, EVT-087
#[test]
fn limits_of_streams_are_per_server_and_per_principal() {
    let config = SourceConfig { streams: 3, streams_per_principal: 2, ..SourceConfig::default() };
    let mut source = Source::new(config, Entropy::new([3; 32], 0));
    assert_eq!(source.add_lane(), LANE);
    source.add(described("build", &[DeliveryMode::Push]), LogLimits::default());
    let params = StreamEventsParams::new("build");
    let mut open = |principal| source.open(at(0), LANE, &params, principal, all());
    let first = open(Some("ann")).expect("one");
    open(Some("ann")).expect("two");
    let exhausted = |max| Err(EventsError::ResourceExhausted { limit: "streams", max });
    assert_eq!(open(Some("ann")), exhausted(2));
    open(None).expect("another party");
    assert_eq!(open(Some("bob")), exhausted(3));
    source.close(first);
    assert!(source.open(at(0), LANE, &params, Some("ann"), all()).is_ok());
    // With its lane, every stream goes, and none can be opened any more.
    source.remove_lane(LANE);
    assert_eq!((source.open_streams(), source.poll_timeout(LANE)), (0, None));
    assert_eq!(source.open(at(0), LANE, &params, Some("ann"), all()), exhausted(0));
}

// covers: EVT-053, EVT-150, EVT-145
/// Streams with filters, messages that find no room, clients that go: each gets every event that is for it once and in order, or is
/// told of a gap in front of what it missed. They are on two lanes.
#[test]
fn every_stream_gets_its_events_once_or_a_gap() {
    for seed in 0..40u8 {
        let mut entropy = Entropy::new([seed; 32], 0);
        let mut random = |below: u64| {
            let mut bytes = [0; 8];
            entropy.fill(&mut bytes);
            u64::from_le_bytes(bytes) % below
        };
        let mut source = source_of(LogLimits { events: 16, scan: 3, ..LogLimits::default() });
        let lanes = [LANE, source.add_lane()];
        // For each stream: its lane, its divisor, the first number that it may get, and whether a gap is open.
        let mut expected: BTreeMap<StreamKey, (Lane, u64, u64, bool)> = BTreeMap::new();
        let (mut published, mut now) = (0, 0);
        for _ in 0..600 {
            now += random(4);
            match random(8) {
                0 if expected.len() < 6 => {
                    let divisor = 1 + random(7);
                    let filter: Filter = Box::new(move |e| {
                        number(&StreamMessage::Event(e.clone())).is_some_and(|n| n % divisor == 0)
                    });
                    let (lane, params) = (lanes[random(2) as usize], StreamEventsParams::new("build"));
                    let key = source.open(at(now), lane, &params, None, filter).expect("room");
                    expected.insert(key, (lane, divisor, published, false));
                }
                1 => {
                    if let Some(key) =
                        expected.keys().nth(usize::try_from(random(6)).expect("small")).copied()
                    {
                        expected.remove(&key);
                        assert!(source.close(key));
                    }
                }
                2..=4 => {
                    for _ in 0..random(6) {
                        source.publish(at(now), event("build", published)).expect("a type");
                        published += 1;
                    }
                }
                _ => {
                    let lane = lanes[random(2) as usize];
                    source.handle_timeout(at(now), lane);
                    for _ in 0..random(40) {
                        let Some((key, message)) = source.poll_message(at(now), lane) else { continue };
                        let (own, divisor, next, gap) = expected.get_mut(&key).expect("an open stream");
                        assert_eq!(*own, lane);
                        if random(5) == 0 {
                            source.hold(key, at(now + random(5)));
                            continue;
                        }
                        match &message {
                            StreamMessage::Active { truncated, .. } => *gap |= truncated,
                            StreamMessage::Event(_) => {
                                let number = number(&message).expect("a number");
                                assert_eq!(number % *divisor, 0);
                                assert!(number >= *next, "{number} again or out of order, seed {seed}");
                                let missed = (*next..number).any(|n| n % *divisor == 0);
                                assert!(*gap || !missed, "{next} to {number} without a gap, seed {seed}");
                                (*next, *gap) = (number + 1, false);
                            }
                            StreamMessage::Heartbeat { .. } => {
                                assert!(*gap || (*next..published).all(|n| n % *divisor != 0), "seed {seed}");
                            }
                            StreamMessage::Error(error) | StreamMessage::Terminated(error) => {
                                panic!("{error:?}")
                            }
                        }
                    }
                }
            }
        }
        // In the end all of them catch up.
        for _ in 0..20 {
            now += 10;
            lanes.iter().for_each(|lane| source.handle_timeout(at(now), *lane));
            while let Some((key, message)) = lanes.iter().find_map(|lane| source.poll_message(at(now), *lane))
            {
                let (.., next, gap) = expected.get_mut(&key).expect("an open stream");
                match &message {
                    StreamMessage::Active { truncated, .. } => *gap |= truncated,
                    _ => *next = number(&message).map_or(*next, |n| n + 1),
                }
            }
        }
        for (key, (_, divisor, next, _)) in expected {
            let last = (0..published).rev().find(|n| n % divisor == 0).map_or(0, |n| n + 1);
            assert!(next >= last, "{key:?} has read to {next} of {last}, seed {seed}");
            source.close(key);
        }
        assert!(
            source.lanes.values().all(|lane| lane.timers.is_empty()) && source.principals.is_empty(),
            "seed {seed}"
        );
    }
}

// covers: EVT-078, EVT-144
#[test]
fn replay_has_what_came_between_resume_and_now_and_tells_of_a_gap() {
    let mut source = source_of(LogLimits { events: 8, ..LogLimits::default() });
    let resumed = source.resume(at(0), "build", None, None);
    assert_eq!(resumed, Err(EventsError::UnsupportedMode(DeliveryMode::Webhook)));
    source.add(described("hook", &[DeliveryMode::Webhook]), LogLimits { events: 8, ..LogLimits::default() });
    let resume = source.resume(at(0), "hook", None, None).expect("a start");
    assert!(!resume.truncated);
    let even =
        |event: &EventOccurrence| number(&StreamMessage::Event(event.clone())).is_some_and(|n| n % 2 == 0);
    assert_eq!(source.replay("hook", &resume, even), Replay { events: Vec::new(), gap: None });
    (0..5).for_each(|n| source.publish(at(n), event("hook", n)).expect("a type"));
    let replay = source.replay("hook", &resume, even);
    let ids: Vec<&str> = replay.events.iter().map(|event| &*event.event_id).collect();
    assert_eq!((ids, replay.gap), (Vec::from(["evt-0", "evt-2", "evt-4"]), None));
    // The cursor of each is a place to resume from.
    let cursor = Nullable::text(replay.events[1].cursor.as_ref()).expect("a cursor").to_string();
    let rest = source.resume(at(9), "hook", Some(&cursor), None).expect("a start");
    assert_eq!(source.replay("hook", &rest, even).events.len(), 1);
    // More than the log keeps: the gap is told with the cursor behind it.
    (5..30).for_each(|n| source.publish(at(n), event("hook", n)).expect("a type"));
    let replay = source.replay("hook", &resume, even);
    assert_eq!(replay.events.iter().map(|event| &*event.event_id).next(), Some("evt-22"));
    let gap = replay.gap.expect("a gap");
    let behind = source.resume(at(30), "hook", Some(&gap), None).expect("a start");
    assert!(!behind.truncated);
    assert_eq!(source.replay("hook", &behind, even).events.len(), 4);
    // One that was reported: in front of all, with a position behind none of them.
    let resume = source.resume(at(30), "hook", None, None).expect("a start");
    source.publish(at(30), event("hook", 30)).expect("a type");
    source.report_gap(at(30), "hook").expect("a type");
    let replay = source.replay("hook", &resume, even);
    assert_eq!((replay.events.len(), &replay.gap), (1, &resume.cursor));
    let replay = source.replay("hook", &resume, |_| false);
    assert_eq!((replay.events.len(), replay.gap), (0, source.cursor("hook")));
    // A type that was removed has nothing more.
    source.remove("hook", &EventsError::EventNotFound);
    assert_eq!(source.replay("hook", &resume, even), Replay { events: Vec::new(), gap: None });
}

// covers: EVT-142, EVT-151
#[test]
fn stored_log_goes_when_its_type_replays_nothing_any_more() {
    let mut first = source_of(LogLimits::default());
    first.publish(at(0), event("build", 1)).expect("a type");
    let cursor = first.cursor("build").expect("a cursor");
    let mut kept: Vec<Record> = first.records().collect();
    let add = |kept: &[Record], replays| {
        let mut source = Source::new(SourceConfig::default(), Entropy::new([4; 32], u64::from(replays)));
        let _ = source.restore(kept.iter().cloned().collect());
        let limits = LogLimits { replays, ..LogLimits::default() };
        let record = source.add(described("build", &[DeliveryMode::Poll]), limits);
        (source, record)
    };
    let (source, removed) = add(&kept, false);
    assert_eq!(removed, Some(Record::LogRemoved { name: "build".into() }));
    assert!(source.records().all(|record| !matches!(&record, Record::Event { .. })));
    kept.extend(removed);
    assert_eq!(add(&kept, false).1, None, "it is known by now");
    // Those who come back later learn that they have missed something: it is another log.
    let (mut source, begun) = add(&kept, true);
    assert!(matches!(begun, Some(Record::Log { first: 0, .. })), "{begun:?}");
    let polled =
        source.poll(at(1), &PollEventsParams::new("build").cursor(&*cursor), |_| true).expect("a poll");
    assert!(polled.truncated.unwrap_or_default() && polled.events.is_empty(), "{polled:?}");
}
