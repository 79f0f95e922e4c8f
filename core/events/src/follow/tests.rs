use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;

use super::listing::MAX_LISTS;
use super::polls::BURST;
use super::*;
use crate::wire::{EventsError, PollEventsResult};

pub(super) const PUSH: &[DeliveryMode] = &[DeliveryMode::Push];
pub(super) const POLL: &[DeliveryMode] = &[DeliveryMode::Poll];
pub(super) const BOTH: &[DeliveryMode] = &[DeliveryMode::Poll, DeliveryMode::Push];

pub(super) fn at(millis: u64) -> Instant {
    Instant::from_micros(millis * 1_000)
}

pub(super) fn raw(text: &str) -> RawJson {
    RawJson::new(text.to_string()).expect("JSON")
}

pub(super) fn described(modes: &[DeliveryMode]) -> EventType {
    EventType::new("build", modes.to_vec(), raw("{}"))
}

pub(super) fn follower(modes: &[DeliveryMode], cursor: Option<&str>) -> Follower {
    let subscription = Subscription { name: "build".into(), arguments: Some(raw(r#"{"branch":"main"}"#)) };
    let entropy = Entropy::new([5; 32], 1);
    let cursor = cursor.map(Into::into);
    Follower::new(FollowConfig::default(), subscription, &described(modes), true, cursor, entropy)
        .expect("a mode")
}

pub(super) fn event(number: u32) -> EventOccurrence {
    EventOccurrence::new(format!("evt-{number}"), "build", "2026-11-25T10:00:00Z", raw("{}"))
}

pub(super) fn polled(events: &[u32], cursor: &str) -> PollEventsResult {
    PollEventsResult::new(events.iter().map(|number| event(*number)).collect::<Vec<_>>()).cursor(cursor)
}

/// The result of a poll as it is received.
pub(super) fn answer(result: &PollEventsResult) -> Result<RawJson, FollowError> {
    Ok(RawJson::encode(result).expect("JSON"))
}

pub(super) fn server(error: &EventsError) -> FollowError {
    FollowError::Server(error.to_rpc(&wire::Profile::SEP))
}

pub(super) fn lost() -> FollowError {
    FollowError::Lost("reset".into())
}

/// Describes what is handed out: ids of events, and the kinds of others.
pub(super) fn taken(follower: &mut Follower) -> Vec<String> {
    core::iter::from_fn(|| follower.poll_event())
        .map(|event| match event {
            FollowEvent::Event(event) => event.event_id,
            FollowEvent::Gap { reason, cursor } => format!("gap {reason:?} {cursor:?}"),
            FollowEvent::Error(error) => format!("error {error}"),
            FollowEvent::Ended(error) => format!("ended {error}"),
        })
        .collect()
}

/// Takes the poll or the stream that is due, and returns its cursor.
pub(super) fn requested(follower: &mut Follower, now: Instant) -> Option<String> {
    let cursor = match follower.poll_action(now) {
        Some(FollowAction::Poll(params)) => params.cursor,
        Some(FollowAction::Open(params)) => params.cursor,
        other => panic!("{other:?} in {follower:?}"),
    };
    assert_eq!(follower.poll_action(now), None, "one at a time");
    cursor.map(|cursor| cursor.to_string())
}

/// Returns how long the follower waits before its next request.
pub(super) fn pause(follower: &mut Follower, now: Instant) -> Duration {
    assert_eq!(follower.poll_action(now + Duration::ZERO), None, "it is due at once");
    let until = follower.poll_timeout().expect("it waits");
    assert_eq!(follower.poll_action(at(until.as_micros() / 1_000 - 1)), None);
    until.saturating_duration_since(now)
}

pub(super) fn note(follower: &mut Follower, now: Instant, method: &str, params: &str) {
    follower.handle_notification(now, method, Some(&raw(params)));
}

/// Opens the stream that is due, and lets it begin at a cursor.
pub(super) fn go_live(follower: &mut Follower, now: Instant, cursor: &str) {
    requested(follower, now);
    note(follower, now, wire::ACTIVE, &format!(r#"{{"cursor":{cursor},"truncated":false}}"#));
}

pub(super) fn push(follower: &mut Follower, now: Instant, number: u32, cursor: &str) {
    let event = event(number).cursor(Nullable(Some(cursor.to_string())));
    follower.handle_notification(now, wire::EVENT, Some(&RawJson::encode(&event).expect("JSON")));
}

// ---- polls: the rows of the table of cursors ---------------------------------------------------------------------

// covers: EVT-041, EVT-065, EVT-079
#[test]
fn poll_cursor_is_that_of_the_last_result_and_counts_after_its_events() {
    let mut follower = follower(POLL, None);
    let Some(FollowAction::Poll(params)) = follower.poll_action(at(0)) else { panic!("{follower:?}") };
    assert_eq!((&*params.name, params.cursor, params.max_events), ("build", None, None));
    assert_eq!(params.arguments.as_ref().map(RawJson::as_str), Some(r#"{"branch":"main"}"#));
    follower.handle_polled(at(0), answer(&polled(&[], "c1").next_poll_ms(2_000.0)));
    assert_eq!(follower.cursor(), None);
    assert_eq!(follower.poll_event(), None);
    assert_eq!(follower.cursor(), Some("c1"));
    assert_eq!(pause(&mut follower, at(0)), Duration::from_secs(2));
    assert_eq!(requested(&mut follower, at(2_000)).as_deref(), Some("c1"));
    follower.handle_polled(at(2_000), answer(&polled(&[1, 2], "c2")));
    // There is no position between the events of a poll.
    let Some(FollowEvent::Event(first)) = follower.poll_event() else { panic!("{follower:?}") };
    assert_eq!((&*first.event_id, first.cursor, follower.cursor()), ("evt-1", None, None));
    let Some(FollowEvent::Event(last)) = follower.poll_event() else { panic!("{follower:?}") };
    let cursor = Nullable::text(last.cursor.as_ref());
    assert_eq!((&*last.event_id, cursor, follower.cursor()), ("evt-2", Some("c2"), Some("c2")));
}

/// Runs a follower for a while: from a stored position until it has handed out so many events, or no more come.
fn short_run(stored: &mut Option<String>, modes: &[DeliveryMode], wanted: u64) -> Vec<String> {
    let mut follower = follower(modes, stored.as_deref());
    follower.set_max_events(Some(wanted));
    let all = |from: Option<&str>| from.map_or(0, |c| c[1..].parse().expect("a number"))..6_u32;
    match follower.poll_action(at(0)) {
        Some(FollowAction::Poll(params)) => {
            let most = usize::try_from(params.max_events.expect("a number")).expect("a number");
            let page: Vec<u32> = all(params.cursor.as_deref()).take(most).map(|n| n + 1).collect();
            let end = page.last().copied().unwrap_or(6);
            follower.handle_polled(at(0), answer(&polled(&page, &format!("c{end}"))));
        }
        Some(FollowAction::Open(params)) => {
            let cursor = params.cursor.as_deref();
            note(
                &mut follower,
                at(0),
                wire::ACTIVE,
                &format!(r#"{{"cursor":"{}"}}"#, cursor.unwrap_or("c0")),
            );
            all(cursor).for_each(|n| push(&mut follower, at(0), n + 1, &format!("c{}", n + 1)));
        }
        other => panic!("{other:?}"),
    }
    let mut handed_out = Vec::new();
    while (handed_out.len() as u64) < wanted {
        let Some(FollowEvent::Event(event)) = follower.poll_event() else { break };
        handed_out.push(event.event_id);
        *stored = follower.cursor().map(String::from).or_else(|| stored.take());
    }
    handed_out
}

// covers: EVT-065
#[test]
fn chain_of_short_runs_gets_each_event_once() {
    for modes in [POLL, PUSH] {
        for wanted in [1, 2, 4] {
            let (mut stored, mut all) = (Some("c0".into()), Vec::new());
            for _ in 0..6 {
                all.extend(short_run(&mut stored, modes, wanted));
            }
            let expected: Vec<String> = (1..7).map(|n| format!("evt-{n}")).collect();
            assert_eq!(all, expected, "{modes:?}, {wanted} at a time");
        }
    }
}

// covers: EVT-065
#[test]
fn event_of_a_poll_has_no_position_of_its_own() {
    let mut follower = follower(POLL, Some("c0"));
    requested(&mut follower, at(0));
    let events: Vec<String> = (1..4)
        .map(|n| RawJson::encode(&event(n).cursor(Nullable(Some("x".into())))).expect("JSON").to_string())
        .collect();
    // The one without an id cannot be read.
    let page = format!(r#"{{"events":[{},{{}},{}],"cursor":"c3"}}"#, events[0], events[1..].join(","));
    follower.handle_polled(at(0), Ok(raw(&page)));
    let cursors: Vec<_> = core::iter::from_fn(|| {
        let event = follower.poll_event()?;
        let own = match event {
            FollowEvent::Event(event) => Nullable::text(event.cursor.as_ref()).map(String::from),
            _ => None,
        };
        Some((own, follower.cursor().map(String::from)))
    })
    .collect();
    let last = Some("c3".to_string());
    assert_eq!(cursors[1..], [(None, None), (None, None), (None, None), (last.clone(), last)]);
}

// covers: EVT-065
#[test]
fn repetition_behind_an_event_moves_its_position() {
    let mut follower = follower(POLL, Some("c0"));
    requested(&mut follower, at(0));
    follower.handle_polled(at(0), answer(&polled(&[1], "c1")));
    assert_eq!(taken(&mut follower), ["evt-1"]);
    requested(&mut follower, at(30_000));
    follower.handle_polled(at(30_000), answer(&polled(&[2, 1], "c2")));
    let Some(FollowEvent::Event(event)) = follower.poll_event() else { panic!("{follower:?}") };
    assert_eq!((Nullable::text(event.cursor.as_ref()), follower.cursor()), (Some("c2"), Some("c2")));
}

// covers: EVT-044
#[test]
fn has_more_polls_at_once_up_to_a_burst_and_only_if_the_position_moves() {
    let mut follower = follower(POLL, Some("c0"));
    for n in 1..BURST {
        requested(&mut follower, at(0));
        follower
            .handle_polled(at(0), answer(&polled(&[n], &format!("c{n}")).has_more(true).next_poll_ms(9e9)));
    }
    requested(&mut follower, at(0));
    follower.handle_polled(at(0), answer(&polled(&[100], "c100").has_more(true)));
    assert_eq!(pause(&mut follower, at(0)), Duration::from_secs(1));
    // It begins again, and a server that stays where it is has nothing.
    requested(&mut follower, at(1_000));
    follower.handle_polled(at(1_000), answer(&polled(&[101], "c101").has_more(true)));
    requested(&mut follower, at(1_000));
    follower.handle_polled(at(1_000), answer(&polled(&[], "c101").has_more(true)));
    assert_eq!(pause(&mut follower, at(1_000)), Duration::from_secs(1));
    assert_eq!(taken(&mut follower).len(), BURST as usize + 1);
}

// covers: EVT-045
#[test]
fn next_poll_is_bounded_on_both_sides() {
    for (asked, seconds) in [
        ("0", 1.0),
        ("-0.0", 1.0),
        ("-5", 1.0),
        ("-1e308", 1.0),
        ("1500", 1.5),
        ("1e308", 300.0),
        ("18446744073709551616", 300.0),
        // What is no number of the language counts as absent, as any other value does.
        ("1e999", 30.0),
        ("null", 30.0),
        (r#""NaN""#, 30.0),
        ("[1]", 30.0),
    ] {
        let mut follower = follower(POLL, None);
        requested(&mut follower, at(0));
        follower
            .handle_polled(at(0), Ok(raw(&format!(r#"{{"events":[],"cursor":"c1","nextPollMs":{asked}}}"#))));
        assert_eq!(pause(&mut follower, at(0)), Duration::from_secs_f64(seconds), "{asked}");
        assert_eq!(taken(&mut follower), Vec::<String>::new(), "{asked}");
        assert_eq!(follower.cursor(), Some("c1"));
    }
}

// covers: EVT-140, EVT-141
#[test]
fn type_without_positions_is_polled_without_a_cursor() {
    for result in [PollEventsResult::new(vec![]), PollEventsResult::new(vec![]).cursor(Nullable(None))] {
        let mut follower = follower(POLL, None);
        for n in 0..3 {
            assert_eq!(requested(&mut follower, at(n * 30_000)), None);
            // It cannot tell (EVT-147).
            follower.handle_polled(at(n * 30_000), answer(&result.clone().truncated(true)));
        }
        assert_eq!((taken(&mut follower), follower.cursor()), (vec![], None));
    }
}

#[test]
fn position_stays_if_the_server_breaks_its_promise_of_positions() {
    let mut follower = follower(POLL, Some("c1"));
    requested(&mut follower, at(0));
    follower.handle_polled(at(0), answer(&PollEventsResult::new(vec![event(1)])));
    assert_eq!(requested(&mut follower, at(30_000)).as_deref(), Some("c1"));
    follower.handle_polled(at(30_000), answer(&PollEventsResult::new(vec![event(1), event(2)])));
    assert_eq!(taken(&mut follower), ["evt-1", "evt-2"]);
    // It is not behind these.
    assert_eq!(follower.cursor(), None);
}

// covers: EVT-146
#[test]
fn truncated_result_is_a_gap_and_nothing_is_subscribed_again() {
    let mut follower = follower(POLL, Some("c1"));
    requested(&mut follower, at(0));
    follower.handle_polled(at(0), answer(&polled(&[7], "c7").truncated(true).next_poll_ms(1_000.0)));
    assert_eq!(taken(&mut follower), ["gap Truncated None", "evt-7"]);
    assert_eq!(requested(&mut follower, at(1_000)).as_deref(), Some("c7"));
}

#[test]
fn failed_poll_repeats_the_same_cursor_later_and_later() {
    let mut follower = follower(POLL, Some("c1"));
    let mut now = at(0);
    let mut longest = Duration::ZERO;
    for n in 0..12_u32 {
        assert_eq!(requested(&mut follower, now).as_deref(), Some("c1"));
        // An error of the server that is none of the extension passes, and so does a limit.
        let error = match n % 3 {
            0 => lost(),
            1 => FollowError::Server(RpcError::internal("upstream")),
            _ => server(&EventsError::ResourceExhausted { limit: "requests", max: 1 }),
        };
        follower.handle_polled(now, Err(error.clone()));
        assert_eq!(taken(&mut follower), [format!("error {error}")]);
        let pause = pause(&mut follower, now);
        let whole = Duration::from_secs(1 << n.min(6)).min(Duration::from_secs(60));
        assert!(whole / 2 <= pause && pause <= whole, "{pause:?} instead of {whole:?}");
        longest = longest.max(pause);
        now = now + pause + Duration::from_millis(1);
    }
    assert!(longest > Duration::from_secs(30));
    requested(&mut follower, now);
    follower.handle_polled(now, answer(&polled(&[], "c2").next_poll_ms(1_000.0)));
    now = now + Duration::from_secs(1);
    requested(&mut follower, now);
    follower.handle_polled(now, Err(lost()));
    assert!(pause(&mut follower, now) <= Duration::from_secs(1), "the failures are in a row");
}

// covers: EVT-023
#[test]
fn unknown_or_changed_type_is_looked_up_and_begins_anew() {
    for error in [EventsError::EventNotFound, EventsError::SchemaChanged { feature: "payloadSchema" }] {
        let mut follower = follower(POLL, Some("c1"));
        requested(&mut follower, at(0));
        follower.handle_polled(at(0), Err(server(&error)));
        assert_eq!(follower.poll_action(at(0)), Some(FollowAction::List));
        // A list that is not there now is asked for again.
        follower.handle_listed(at(0), Err(lost()));
        assert_eq!(taken(&mut follower), [format!("error {}", lost())]);
        assert_eq!(follower.poll_action(at(1_000)), Some(FollowAction::List));
        follower.handle_listed(at(1_000), Ok(Some(described(POLL))));
        assert_eq!(requested(&mut follower, at(1_000)), None);
        follower.handle_polled(at(1_000), answer(&polled(&[], "d1")));
        assert_eq!(taken(&mut follower), [r#"gap TypeChanged Some("d1")"#]);
    }
}

// covers: EVT-023
#[test]
fn type_that_is_gone_or_stays_unknown_ends() {
    let mut gone = follower(POLL, None);
    requested(&mut gone, at(0));
    gone.handle_polled(at(0), Err(server(&EventsError::EventNotFound)));
    assert_eq!(gone.poll_action(at(0)), Some(FollowAction::List));
    gone.handle_listed(at(0), Ok(None));
    let ended = format!("ended {}", server(&EventsError::EventNotFound));
    assert_eq!((taken(&mut gone), gone.has_ended()), (vec![ended.clone()], true));
    // The list has it, and it is not found: not for ever.
    let mut vain = follower(POLL, None);
    let mut now = at(0);
    let mut lists = 0;
    while !vain.has_ended() {
        match vain.poll_action(now) {
            Some(FollowAction::List) => {
                lists += 1;
                vain.handle_listed(now, Ok(Some(described(POLL))));
            }
            Some(FollowAction::Poll(_)) => {
                vain.handle_polled(now, Err(server(&EventsError::EventNotFound)));
            }
            Some(other) => panic!("{other:?}"),
            None => now = vain.poll_timeout().expect("it waits"),
        }
    }
    assert_eq!((lists, taken(&mut vain)), (MAX_LISTS + 1, vec![ended]));
    assert_eq!((vain.poll_action(now), vain.poll_timeout()), (None, None));
}

#[test]
fn forbidden_ends() {
    for modes in [POLL, PUSH] {
        let mut follower = follower(modes, Some("c1"));
        requested(&mut follower, at(0));
        let error = server(&EventsError::Forbidden("no".into()));
        match modes {
            POLL => follower.handle_polled(at(0), Err(error.clone())),
            _ => follower.handle_stream_end(at(0), Err(error.clone())),
        }
        assert_eq!(taken(&mut follower), [format!("ended {error}")]);
        assert_eq!(follower.poll_action(at(1_000_000)), None);
    }
}

#[test]
fn invalid_params_drop_the_cursor_first_and_end_without_one() {
    for modes in [POLL, PUSH] {
        let mut follower = follower(modes, Some("c1"));
        let error = server(&EventsError::InvalidParams("`cursor` is not one of this server".into()));
        let refuse = |follower: &mut Follower| match modes {
            POLL => follower.handle_polled(at(0), Err(error.clone())),
            _ => follower.handle_stream_end(at(0), Err(error.clone())),
        };
        assert_eq!(requested(&mut follower, at(0)).as_deref(), Some("c1"));
        refuse(&mut follower);
        assert_eq!((taken(&mut follower), follower.cursor()), (vec![], None));
        assert_eq!(requested(&mut follower, at(0)), None);
        let mut refused = follower;
        refuse(&mut refused);
        assert_eq!(taken(&mut refused), [format!("ended {error}")]);
    }
    let mut follower = follower(POLL, Some("c1"));
    requested(&mut follower, at(0));
    follower.handle_polled(at(0), Err(server(&EventsError::InvalidParams(String::new()))));
    requested(&mut follower, at(0));
    follower.handle_polled(at(0), answer(&polled(&[], "d1")));
    assert_eq!(taken(&mut follower), [r#"gap CursorRefused Some("d1")"#]);
    assert_eq!(follower.cursor(), Some("d1"));
}

#[test]
fn poll_that_was_given_up_is_due_again_with_its_cursor() {
    let mut follower = follower(POLL, Some("c1"));
    requested(&mut follower, at(0));
    follower.handle_abandoned(at(5));
    // Its answer comes too late.
    assert_eq!(requested(&mut follower, at(5)).as_deref(), Some("c1"));
    assert_eq!(taken(&mut follower), Vec::<String>::new());
}

// ---- streams: the rows of their table ----------------------------------------------------------------------------

// covers: EVT-065
#[test]
fn stream_resumes_from_the_last_cursor_of_event_heartbeat_or_active() {
    for last in ["active", "event", "heartbeat"] {
        let mut follower = follower(BOTH, None);
        assert_eq!(follower.mode(), &DeliveryMode::Push);
        go_live(&mut follower, at(0), r#""c-active""#);
        if last != "active" {
            push(&mut follower, at(1), 1, "c-event");
            // Absent positions move nothing.
            note(&mut follower, at(2), wire::HEARTBEAT, "{}");
            note(&mut follower, at(2), wire::HEARTBEAT, r#"{"cursor":null}"#);
        }
        if last == "heartbeat" {
            note(&mut follower, at(3), wire::HEARTBEAT, r#"{"cursor":"c-heartbeat"}"#);
        }
        follower.handle_stream_end(at(10), Err(lost()));
        assert!(pause(&mut follower, at(10)) <= Duration::from_secs(1));
        let cursor = requested(&mut follower, at(1_010));
        assert_eq!(cursor, Some(format!("c-{last}")));
        taken(&mut follower);
        assert_eq!(follower.cursor(), cursor.as_deref());
    }
}

// covers: EVT-059
#[test]
fn silence_for_twice_the_interval_of_heartbeats_is_a_dead_stream() {
    // Without heartbeats, and with one time between two: they come every 30 s at least.
    for beats in 0..3_u64 {
        let mut follower = follower(PUSH, None);
        go_live(&mut follower, at(0), r#""c""#);
        for n in 0..beats {
            note(&mut follower, at(n * 2_000), wire::HEARTBEAT, r#"{"cursor":"c"}"#);
        }
        let heard = beats.saturating_sub(1) * 2_000;
        let dead_at = follower.poll_timeout().expect("a deadline");
        assert_eq!(dead_at, at(heard + 60_000), "{beats}");
        follower.handle_timeout(at(heard + 59_999));
        assert_eq!(follower.poll_action(at(heard + 59_999)), None);
        follower.handle_timeout(dead_at);
        assert_eq!(follower.poll_action(dead_at), Some(FollowAction::Close));
        assert_eq!(taken(&mut follower), [format!("error {}", FollowError::Silent)]);
        assert_eq!(requested(&mut follower, dead_at + Duration::from_secs(1)).as_deref(), Some("c"));
    }
    // The interval is learned; events are signs of life, and no heartbeats.
    let mut follower = follower(PUSH, None);
    go_live(&mut follower, at(0), r#""c""#);
    for n in 1..=4 {
        note(&mut follower, at(n * 2_500), wire::HEARTBEAT, r#"{"cursor":"c"}"#);
        push(&mut follower, at(n * 2_500 + 100), u32::try_from(n).expect("small"), "c");
    }
    assert_eq!(follower.poll_timeout(), Some(at(10_100 + 5_000)));
    // Very fast ones leave time for a slow network.
    for n in 0..1_000 {
        note(&mut follower, at(11_000 + n), wire::HEARTBEAT, r#"{"cursor":"c"}"#);
    }
    assert_eq!(follower.poll_timeout(), Some(at(11_999 + 5_000)));
}

// covers: EVT-062
#[test]
fn end_without_terminated_is_followed_by_another_stream_later_and_later() {
    let mut follower = follower(PUSH, Some("c"));
    let mut now = at(0);
    for n in 0..8 {
        go_live(&mut follower, now, r#""c""#);
        follower.handle_stream_end(now, Ok(()));
        let pause = pause(&mut follower, now);
        let whole = Duration::from_secs(1 << n).min(Duration::from_secs(60));
        assert!(whole / 2 <= pause && pause <= whole, "{pause:?} instead of {whole:?}");
        now = now + pause + Duration::from_millis(1);
    }
    assert_eq!(taken(&mut follower), Vec::<String>::new());
    // One that has lived for longer than the last pause was no failure.
    go_live(&mut follower, now, r#""c""#);
    now = now + Duration::from_secs(61);
    follower.handle_stream_end(now, Ok(()));
    assert!(pause(&mut follower, now) <= Duration::from_secs(1));
}

// covers: EVT-054, EVT-153
#[test]
fn error_goes_on_and_terminated_ends() {
    let mut follower = follower(PUSH, None);
    go_live(&mut follower, at(0), r#""c""#);
    note(&mut follower, at(1), wire::ERROR, r#"{"error":{"code":-32603,"message":"upstream 503"}}"#);
    push(&mut follower, at(2), 1, "c1");
    let upstream = FollowError::Server(RpcError::new(-32603, "upstream 503"));
    assert_eq!(taken(&mut follower), [format!("error {upstream}"), "evt-1".into()]);
    for code in [-32024, -32012] {
        let mut follower = self::follower(PUSH, None);
        go_live(&mut follower, at(0), r#""c""#);
        let end =
            format!(r#"{{"error":{{"code":{code},"message":"Forbidden","data":{{"reason":"revoked"}}}}}}"#);
        note(&mut follower, at(1), wire::TERMINATED, &end);
        assert_eq!(follower.poll_action(at(1)), Some(FollowAction::Close));
        follower.handle_stream_end(at(1), Ok(()));
        let Some(FollowEvent::Ended(FollowError::Server(error))) = follower.poll_event() else {
            panic!("{follower:?}")
        };
        assert_eq!((error.code, error.data), (code, Some(raw(r#"{"reason":"revoked"}"#))));
        assert_eq!((follower.poll_action(at(1)), follower.poll_timeout()), (None, None));
    }
}

// covers: EVT-023
#[test]
fn terminated_because_of_its_type_is_looked_up() {
    let mut follower = follower(PUSH, None);
    go_live(&mut follower, at(0), r#""c""#);
    note(&mut follower, at(1), wire::TERMINATED, r#"{"error":{"code":-32026,"message":"Unsupported"}}"#);
    assert_eq!(follower.poll_action(at(1)), Some(FollowAction::Close));
    assert_eq!(follower.poll_action(at(1)), Some(FollowAction::List));
    // It has polls alone now.
    follower.handle_listed(at(1), Ok(Some(described(POLL))));
    assert_eq!(requested(&mut follower, at(1)), None);
    follower.handle_polled(at(1), answer(&polled(&[], "d")));
    assert_eq!(taken(&mut follower), [r#"gap TypeChanged Some("d")"#]);
}

// covers: EVT-146
#[test]
fn gap_on_a_stream_moves_the_position_and_the_stream_goes_on() {
    let mut follower = follower(PUSH, Some("c1"));
    requested(&mut follower, at(0));
    note(&mut follower, at(0), wire::ACTIVE, r#"{"cursor":"c5","truncated":true}"#);
    push(&mut follower, at(1), 5, "c6");
    note(&mut follower, at(2), wire::ACTIVE, r#"{"cursor":"c9","truncated":true}"#);
    assert_eq!(taken(&mut follower), [r#"gap Truncated Some("c5")"#, "evt-5", r#"gap Truncated Some("c9")"#]);
    assert_eq!(follower.poll_action(at(2)), None);
    assert_eq!(follower.cursor(), Some("c9"));
    // Nothing is missing before the beginning.
    let mut fresh = self::follower(PUSH, None);
    requested(&mut fresh, at(0));
    note(&mut fresh, at(0), wire::ACTIVE, r#"{"cursor":"c5","truncated":true}"#);
    assert_eq!(taken(&mut fresh), Vec::<String>::new());
}

// covers: EVT-141, EVT-147
#[test]
fn stream_of_a_type_without_positions_begins_anew_with_a_gap() {
    let mut follower = follower(PUSH, None);
    go_live(&mut follower, at(0), "null");
    follower.handle_stream_end(at(1), Ok(()));
    assert_eq!(requested(&mut follower, at(1_001)), None);
    note(&mut follower, at(1_001), wire::ACTIVE, r#"{"cursor":null,"truncated":false}"#);
    assert_eq!(taken(&mut follower), ["gap NoReplay None"]);
    // One that never began has missed nothing.
    let mut late = self::follower(PUSH, None);
    requested(&mut late, at(0));
    late.handle_stream_end(at(0), Err(lost()));
    go_live(&mut late, at(1_000), "null");
    assert_eq!(taken(&mut late), [format!("error {}", lost())]);
}

#[test]
fn repetition_is_dropped_within_bounded_memory() {
    let config = FollowConfig { remembered: 3, ..FollowConfig::default() };
    let subscription = Subscription { name: "build".into(), arguments: None };
    let entropy = Entropy::new([5; 32], 1);
    let mut follower = Follower::new(config, subscription, &described(POLL), true, Some("c".into()), entropy)
        .expect("a mode");
    requested(&mut follower, at(0));
    follower.handle_polled(at(0), answer(&polled(&[1, 2, 2, 3, 1], "c1")));
    assert_eq!(taken(&mut follower), ["evt-1", "evt-2", "evt-3"]);
    requested(&mut follower, at(30_000));
    follower.handle_polled(at(30_000), answer(&polled(&[4, 2, 1], "c2")));
    // The first one is forgotten.
    assert_eq!(taken(&mut follower), ["evt-4", "evt-1"]);
}

#[test]
fn polls_take_the_place_of_streams_that_the_server_does_not_know() {
    let unknown = || FollowError::Server(RpcError::method_not_found(wire::STREAM));
    let mut falls_back = follower(BOTH, Some("c1"));
    requested(&mut falls_back, at(0));
    falls_back.handle_stream_end(at(0), Err(unknown()));
    let Some(FollowAction::Poll(params)) = falls_back.poll_action(at(0)) else { panic!("{falls_back:?}") };
    assert_eq!(params.cursor.as_deref(), Some("c1"));
    let mut ends = follower(PUSH, None);
    requested(&mut ends, at(0));
    ends.handle_stream_end(at(0), Err(unknown()));
    assert!(ends.has_ended());
    let mut polls = follower(POLL, None);
    requested(&mut polls, at(0));
    polls.handle_polled(at(0), Err(unknown()));
    assert!(polls.has_ended());
}

// covers: EVT-013
#[test]
fn mode_is_one_that_type_and_connection_have() {
    let webhook = &[DeliveryMode::Webhook][..];
    for (modes, has_streams, mode) in [
        (BOTH, true, Some(DeliveryMode::Push)),
        (BOTH, false, Some(DeliveryMode::Poll)),
        (POLL, true, Some(DeliveryMode::Poll)),
        (PUSH, false, None),
        (webhook, true, None),
    ] {
        let subscription = Subscription { name: "build".into(), arguments: None };
        let entropy = Entropy::new([5; 32], 1);
        let made = Follower::new(
            FollowConfig::default(),
            subscription,
            &described(modes),
            has_streams,
            None,
            entropy,
        );
        let expected = mode.ok_or(FollowError::NoMode);
        assert_eq!(made.map(|follower| follower.mode().clone()), expected, "{modes:?} {has_streams}");
    }
}

#[test]
fn odd_messages_are_reported_and_nothing_ends() {
    let mut follower = follower(PUSH, None);
    requested(&mut follower, at(0));
    // An event before `active` is tolerated.
    push(&mut follower, at(0), 1, "c1");
    note(&mut follower, at(1), wire::EVENT, r#"{"eventId":"e"}"#);
    note(&mut follower, at(1), wire::HEARTBEAT, r#"{"cursor":7}"#);
    note(&mut follower, at(1), "notifications/other", r#"{"cursor":"x"}"#);
    let other = EventOccurrence::new("evt-2", "mail", "2026-11-25T10:00:00Z", raw("{}"));
    follower.handle_notification(at(1), wire::EVENT, Some(&RawJson::encode(&other).expect("JSON")));
    let reported = taken(&mut follower);
    assert_eq!((reported.len(), &*reported[0], &*reported[2]), (5, "evt-1", "gap Malformed None"));
    for error in [1, 3, 4] {
        assert!(reported[error].starts_with("error the server sends what is no"), "{reported:?}");
    }
    assert_eq!(follower.poll_action(at(1)), None);
    assert_eq!(follower.cursor(), Some("c1"));
}

// covers: EVT-143
#[test]
fn bounds_of_age_and_number_go_with_the_requests_that_they_apply_to() {
    let config = FollowConfig { max_age_ms: Some(60_000), max_events: Some(0), ..FollowConfig::default() };
    for (cursor, age) in [(None, None), (Some("c1".to_string()), Some(60_000))] {
        let subscription = Subscription { name: "build".into(), arguments: None };
        let entropy = Entropy::new([5; 32], 1);
        let mut follower =
            Follower::new(config, subscription, &described(POLL), true, cursor, entropy).expect("a mode");
        let Some(FollowAction::Poll(params)) = follower.poll_action(at(0)) else { panic!("{follower:?}") };
        assert_eq!((params.max_age_ms, params.max_events, params.arguments), (age, Some(1), None));
    }
}

#[test]
fn debug_output_shows_no_position_and_no_arguments() {
    let shown = format!("{:?}", follower(POLL, Some("secret-position")));
    assert!(!shown.contains("secret-position") && !shown.contains("main"), "{shown}");
}
