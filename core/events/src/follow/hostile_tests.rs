//! What a hostile or faulty server, a network and a clock do to a follower: messages that cannot be read, refusals of HTTP, changes
//! of the list, jumps of time, repetitions and positions that nobody knows.

use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;

use super::tests::{
    BOTH, POLL, PUSH, answer, at, described, event, follower, go_live, lost, note, pause, polled, push, raw,
    requested, server, taken,
};
use super::*;
use crate::wire::EventsError;

const HOUR: u64 = 3_600_000;

// ---- messages that cannot be read --------------------------------------------------------------------------------

// covers: EVT-030, EVT-065
#[test]
fn bad_event_of_a_poll_costs_itself_and_the_position_moves_on() {
    let good = |number| RawJson::encode(&event(number)).expect("JSON").to_string();
    let mut follower = follower(POLL, Some("c0"));
    requested(&mut follower, at(0));
    let events = [
        good(1),
        r#"{"eventId":"evt-2","name":"build","data":{}}"#.into(),
        r#"{"eventId":"","name":"build","timestamp":"2026-11-25T10:00:00Z","data":{}}"#.into(),
        good(3),
        "7".into(),
    ];
    let result = format!(r#"{{"events":[{}],"cursor":"c1","truncated":true}}"#, events.join(","));
    follower.handle_polled(at(0), Ok(raw(&result)));
    let reported = taken(&mut follower);
    let malformed = "error the server sends what is no message of the extension: `events/poll`, event";
    for (index, expected) in [
        (0, "gap Truncated None".to_string()),
        (1, "evt-1".into()),
        (2, format!("{malformed} 2 of 5: missing field `timestamp`")),
        (3, "gap Malformed None".into()),
        (4, format!("{malformed} 3 of 5: `eventId` is empty")),
        (5, "evt-3".into()),
        (6, format!("{malformed} 5 of 5: ")),
        (7, "gap Malformed None".into()),
    ] {
        assert!(reported[index].starts_with(&expected), "{index}: {reported:?}");
    }
    assert!(reported[2].ends_with("(`eventId` is `evt-2`)"), "{reported:?}");
    // It does not come again.
    assert_eq!((reported.len(), follower.cursor()), (8, Some("c1")));
    assert_eq!(requested(&mut follower, at(30_000)).as_deref(), Some("c1"));
}

// covers: EVT-042
#[test]
fn result_without_events_has_none_and_a_wrong_one_is_an_error_without_an_end() {
    let mut follower = follower(POLL, Some("c0"));
    for (result, cursor) in [(r#"{"cursor":"c1"}"#, "c1"), (r#"{"events":null,"cursor":"c2"}"#, "c2")] {
        let now = follower.poll_timeout().expect("it waits");
        requested(&mut follower, now);
        follower.handle_polled(now, Ok(raw(result)));
        assert_eq!((taken(&mut follower), follower.cursor()), (vec![], Some(cursor)));
    }
    for (result, what) in [
        ("[]", "the result is no object"),
        (r#"{"events":{},"cursor":"c3"}"#, "`events` is no array"),
        (r#"{"events":[],"cursor":7}"#, "`cursor`: "),
        (r#"{"events":[],"hasMore":"yes"}"#, "`hasMore`: "),
    ] {
        let now = follower.poll_timeout().expect("it waits");
        assert_eq!(requested(&mut follower, now).as_deref(), Some("c2"), "{result}");
        follower.handle_polled(now, Ok(raw(result)));
        let reported = taken(&mut follower);
        let text =
            format!("error the server sends what is no message of the extension: `events/poll`: {what}");
        assert!(reported.len() == 1 && reported[0].starts_with(&text), "{reported:?}");
    }
}

// covers: EVT-055, EVT-065
#[test]
fn bad_event_of_a_stream_is_an_error_and_a_gap_and_its_position_is_taken() {
    let mut follower = follower(PUSH, None);
    go_live(&mut follower, at(0), r#""c0""#);
    push(&mut follower, at(1), 1, "c1");
    note(&mut follower, at(2), wire::EVENT, r#"{"eventId":"evt-2","name":"build","cursor":"c2"}"#);
    push(&mut follower, at(3), 3, "c3");
    note(&mut follower, at(4), wire::EVENT, r#"{"eventId":7,"cursor":["c4"]}"#);
    // It may have told of a gap.
    note(&mut follower, at(5), wire::ACTIVE, r#"{"cursor":7,"truncated":true}"#);
    let reported = taken(&mut follower);
    let kinds: Vec<&str> =
        reported.iter().map(|text| if text.starts_with("error ") { "error" } else { text }).collect();
    assert_eq!(
        kinds,
        [
            "evt-1",
            "error",
            r#"gap Malformed Some("c2")"#,
            "evt-3",
            "error",
            "gap Malformed None",
            "error",
            "gap Malformed None"
        ]
    );
    assert!(reported[1].contains("`notifications/events/event`: missing field"), "{reported:?}");
    assert_eq!((follower.poll_action(at(6)), follower.cursor()), (None, Some("c3")));
    // A bad beginning of a stream that begins now hides nothing.
    let mut fresh = self::follower(PUSH, None);
    requested(&mut fresh, at(0));
    note(&mut fresh, at(0), wire::ACTIVE, r#"{"cursor":7}"#);
    assert_eq!(taken(&mut fresh).len(), 1);
}

// ---- HTTP -------------------------------------------------------------------------------------------------------

fn busy(seconds: u64) -> FollowError {
    FollowError::Busy { reason: "HTTP status 503".into(), retry_after: Duration::from_secs(seconds) }
}

#[test]
fn server_that_asks_to_wait_is_asked_again_not_before_and_within_a_bound() {
    for modes in [POLL, PUSH] {
        for (asked, seconds) in [(0, 1), (120, 120), (400, 300), (u64::MAX, 300)] {
            let mut follower = follower(modes, Some("c"));
            requested(&mut follower, at(0));
            match modes {
                POLL => follower.handle_polled(at(0), Err(busy(asked))),
                _ => follower.handle_stream_end(at(0), Err(busy(asked))),
            }
            assert_eq!(taken(&mut follower), [format!("error {}", busy(asked))]);
            let pause = pause(&mut follower, at(0));
            let whole = Duration::from_secs(seconds);
            assert!(pause <= whole && pause >= whole.min(Duration::from_millis(500)), "{asked}: {pause:?}");
            assert!(asked == 0 || pause == whole, "{asked}: {pause:?}");
            assert_eq!(requested(&mut follower, at(0) + pause).as_deref(), Some("c"));
        }
    }
}

#[test]
fn refused_access_is_the_end_and_nothing_is_sent_again() {
    let refused = || FollowError::Refused("HTTP status 401".into());
    for modes in [POLL, PUSH] {
        let mut follower = follower(modes, Some("c"));
        requested(&mut follower, at(0));
        match modes {
            POLL => follower.handle_polled(at(0), Err(refused())),
            _ => follower.handle_stream_end(at(0), Err(refused())),
        }
        assert_eq!(taken(&mut follower), ["ended access is refused: HTTP status 401"]);
        assert_eq!((follower.poll_action(at(1_000 * HOUR)), follower.poll_timeout()), (None, None));
        // The position is there for another follower.
        assert_eq!(follower.cursor(), Some("c"));
    }
    let mut live = follower(PUSH, None);
    go_live(&mut live, at(0), r#""c""#);
    live.handle_stream_end(at(1), Err(refused()));
    assert!(live.has_ended());
    let mut listing = follower(POLL, None);
    requested(&mut listing, at(0));
    listing.handle_polled(at(0), Err(server(&EventsError::EventNotFound)));
    assert_eq!(listing.poll_action(at(0)), Some(FollowAction::List));
    listing.handle_listed(at(0), Err(refused()));
    assert!(listing.has_ended());
}

// ---- changes of the list ----------------------------------------------------------------------------------------

// covers: EVT-019
#[test]
fn changed_list_is_read_beside_what_goes_on_and_once_in_a_while() {
    for modes in [POLL, PUSH] {
        let mut follower = follower(modes, Some("c"));
        follower.handle_list_changed(at(0));
        assert_eq!(follower.poll_action(at(0)), Some(FollowAction::List));
        assert_eq!(follower.poll_action(at(0)), None, "one at a time");
        // One that comes meanwhile is not in the answer, and is read at once.
        follower.handle_list_changed(at(0));
        follower.handle_listed(at(0), Ok(Some(described(modes))));
        assert_eq!(follower.poll_action(at(0)), Some(FollowAction::List));
        follower.handle_listed(at(0), Ok(Some(described(modes))));
        assert_eq!(requested(&mut follower, at(0)).as_deref(), Some("c"));
        // A request is answered first.
        for n in 0..1_000 {
            follower.handle_list_changed(at(n));
        }
        assert_eq!(follower.poll_action(at(2_000)), None);
        match modes {
            POLL => follower.handle_polled(at(2_000), answer(&polled(&[], "c1"))),
            _ => note(&mut follower, at(2_000), wire::ACTIVE, r#"{"cursor":"c1"}"#),
        }
        assert_eq!(follower.poll_timeout(), Some(at(1_000)));
        assert_eq!(follower.poll_action(at(2_000)), Some(FollowAction::List));
        follower.handle_listed(at(2_000), Ok(Some(described(modes))));
        // A storm of changes makes no storm of requests.
        follower.handle_list_changed(at(2_001));
        assert_eq!((follower.poll_timeout(), follower.poll_action(at(3_999))), (Some(at(4_000)), None));
        assert_eq!(follower.poll_action(at(4_000)), Some(FollowAction::List));
        // Given up, it is due again; the stream is not touched.
        follower.handle_abandoned(at(4_001));
        assert_eq!(follower.poll_action(at(4_001)), Some(FollowAction::List));
        follower.handle_listed(at(4_001), Ok(Some(described(modes))));
        assert_eq!(taken(&mut follower), Vec::<String>::new());
        assert_eq!((follower.poll_action(at(4_001)), follower.cursor()), (None, Some("c1")));
    }
}

// covers: EVT-019
#[test]
fn list_that_changes_at_each_read_is_read_once_a_minute_in_the_end() {
    let mut live = follower(PUSH, None);
    go_live(&mut live, at(0), r#""c""#);
    let mut times = Vec::new();
    for now in (0..600_000).step_by(100) {
        live.handle_timeout(at(now));
        note(&mut live, at(now), wire::HEARTBEAT, r#"{"cursor":"c"}"#);
        live.handle_list_changed(at(now));
        while let Some(action) = live.poll_action(at(now)) {
            assert_eq!(action, FollowAction::List);
            times.push(now);
            live.handle_listed(at(now), Ok(Some(described(PUSH))));
            live.handle_list_changed(at(now));
        }
    }
    assert_eq!(times[..7], [0, 0, 1_000, 3_000, 7_000, 15_000, 31_000]);
    assert!(times.windows(2).skip(7).all(|pair| pair[1] - pair[0] >= 60_000), "{times:?}");
}

// covers: EVT-019, EVT-023
#[test]
fn mode_that_is_gone_is_replaced_from_the_same_position() {
    let mut follower = follower(BOTH, None);
    go_live(&mut follower, at(0), r#""c1""#);
    follower.handle_list_changed(at(1));
    assert_eq!(follower.poll_action(at(1)), Some(FollowAction::List));
    follower.handle_listed(at(1), Ok(Some(described(POLL))));
    assert_eq!(follower.poll_action(at(1)), Some(FollowAction::Close));
    assert_eq!(follower.mode(), &DeliveryMode::Poll);
    assert_eq!(requested(&mut follower, at(1)).as_deref(), Some("c1"));
    follower.handle_polled(at(1), answer(&polled(&[1], "c2")));
    assert_eq!(taken(&mut follower), ["evt-1"], "nothing is missing");
    // Streams are preferred as soon as they are there; the pause goes on.
    follower.handle_list_changed(at(2_000));
    assert_eq!(follower.poll_action(at(2_000)), Some(FollowAction::List));
    follower.handle_listed(at(2_000), Ok(Some(described(BOTH))));
    assert_eq!(follower.poll_action(at(2_000)), None);
    let Some(FollowAction::Open(params)) = follower.poll_action(at(30_001)) else { panic!("{follower:?}") };
    assert_eq!(params.cursor.as_deref(), Some("c2"));
    // Without positions something may be missing.
    let mut blind = self::follower(BOTH, None);
    go_live(&mut blind, at(0), "null");
    blind.handle_list_changed(at(1));
    assert_eq!(blind.poll_action(at(1)), Some(FollowAction::List));
    blind.handle_listed(at(1), Ok(Some(described(POLL))));
    assert_eq!(blind.poll_action(at(1)), Some(FollowAction::Close));
    requested(&mut blind, at(1));
    blind.handle_polled(at(1), Ok(raw(r#"{"events":[],"cursor":null}"#)));
    assert_eq!(taken(&mut blind), ["gap NoReplay None"]);
}

// covers: EVT-019, EVT-020, EVT-153
#[test]
fn type_that_is_gone_is_followed_until_the_server_ends_it() {
    for (listed, error) in
        [(None, FollowError::Unlisted), (Some(described(&[DeliveryMode::Webhook])), FollowError::NoMode)]
    {
        let mut live = follower(PUSH, None);
        go_live(&mut live, at(0), r#""c0""#);
        live.handle_list_changed(at(1));
        assert_eq!(live.poll_action(at(1)), Some(FollowAction::List));
        live.handle_listed(at(1), Ok(listed));
        // The last events come in front of the end.
        push(&mut live, at(2), 1, "c1");
        assert_eq!(taken(&mut live), [format!("error {error}"), "evt-1".into()]);
        note(&mut live, at(3), wire::TERMINATED, r#"{"error":{"code":-32023,"message":"NotFound"}}"#);
        assert_eq!(live.poll_action(at(3)), Some(FollowAction::Close));
        assert_eq!(live.poll_action(at(3)), Some(FollowAction::List));
        live.handle_listed(at(3), Ok(None));
        assert!(live.has_ended());
        live.handle_list_changed(at(4));
        assert_eq!((live.poll_action(at(HOUR)), live.poll_timeout()), (None, None));
    }
}

#[test]
fn list_that_fails_is_read_again_later_unless_the_server_refuses_it() {
    let refusal = FollowError::Server(RpcError::method_not_found(wire::LIST));
    for (error, heard, due, again) in [
        (lost(), 50_000, 61_000, Some(FollowAction::List)),
        // It asks for more time than is believed.
        (busy(400), 290_000, 301_000, Some(FollowAction::List)),
        // What is due then is the end of the silence.
        (refusal, 290_000, 350_000, None),
    ] {
        let mut live = follower(PUSH, None);
        go_live(&mut live, at(0), r#""c""#);
        live.handle_list_changed(at(1_000));
        assert_eq!(live.poll_action(at(1_000)), Some(FollowAction::List));
        live.handle_listed(at(1_000), Err(error.clone()));
        assert_eq!(taken(&mut live), [format!("error {error}")]);
        note(&mut live, at(heard), wire::HEARTBEAT, r#"{"cursor":"c"}"#);
        assert_eq!((live.poll_timeout(), live.poll_action(at(due - 1))), (Some(at(due)), None), "{error}");
        assert_eq!(live.poll_action(at(due)), again, "{error}");
    }
}

// ---- time -------------------------------------------------------------------------------------------------------

// covers: EVT-045, EVT-059
#[test]
fn hour_that_passes_at_once_is_a_dead_stream_and_one_poll() {
    // A machine that slept: its stream is opened again at once, and its poll is one poll.
    let mut live = follower(PUSH, None);
    go_live(&mut live, at(0), r#""c""#);
    live.handle_timeout(at(HOUR));
    assert_eq!(live.poll_action(at(HOUR)), Some(FollowAction::Close));
    assert!(pause(&mut live, at(HOUR)) <= Duration::from_secs(1));
    let mut polls = follower(POLL, Some("c"));
    requested(&mut polls, at(0));
    polls.handle_polled(at(0), answer(&polled(&[], "c1").next_poll_ms(2_000.0)));
    assert_eq!(requested(&mut polls, at(HOUR)).as_deref(), Some("c1"));
    polls.handle_polled(at(HOUR), answer(&polled(&[], "c2").next_poll_ms(2_000.0)));
    assert_eq!(pause(&mut polls, at(HOUR)), Duration::from_secs(2));
}

// covers: EVT-045, EVT-059
#[test]
fn clock_that_goes_back_kills_no_stream_and_ends_no_pause_for_good() {
    // Clocks of the adapters do not go back. One that does delays what is due, and breaks nothing.
    let start = HOUR;
    let mut live = follower(PUSH, None);
    go_live(&mut live, at(start), r#""c""#);
    push(&mut live, at(0), 1, "c1");
    live.handle_timeout(at(0));
    assert_eq!((live.poll_action(at(0)), live.poll_timeout()), (None, Some(at(60_000))));
    note(&mut live, at(30_000), wire::HEARTBEAT, r#"{"cursor":"c1"}"#);
    note(&mut live, at(0), wire::HEARTBEAT, r#"{"cursor":"c1"}"#);
    note(&mut live, at(1_000), wire::HEARTBEAT, r#"{"cursor":"c1"}"#);
    let dead_at = live.poll_timeout().expect("a deadline");
    assert!(dead_at <= at(61_000), "{dead_at:?}");
    live.handle_timeout(dead_at);
    assert_eq!(live.poll_action(dead_at), Some(FollowAction::Close));
    assert_eq!(taken(&mut live), ["evt-1".to_string(), format!("error {}", FollowError::Silent)]);
    let mut polls = follower(POLL, Some("c"));
    requested(&mut polls, at(start));
    polls.handle_polled(at(start), answer(&polled(&[], "c1").next_poll_ms(2_000.0)));
    assert_eq!((polls.poll_action(at(0)), polls.poll_timeout()), (None, Some(at(start + 2_000))));
    assert_eq!(requested(&mut polls, at(start + 2_000)).as_deref(), Some("c1"));
}

// ---- repetitions, and a server that has forgotten ---------------------------------------------------------------

// covers: EVT-065, EVT-151
#[test]
fn repetitions_are_dropped_over_reconnects_and_over_modes() {
    let mut follower = follower(BOTH, None);
    let mut now = 0;
    let mut handed_out = Vec::new();
    for connection in 0..20_u32 {
        go_live(&mut follower, at(now), r#""c""#);
        // The server goes back by two events at each connection.
        for number in (connection * 3).saturating_sub(2)..connection * 3 + 3 {
            push(&mut follower, at(now), number, &format!("c{number}"));
        }
        handed_out.extend(taken(&mut follower));
        follower.handle_stream_end(at(now), Ok(()));
        now = follower.poll_timeout().expect("it waits").as_micros() / 1_000 + 1;
    }
    // The same by polls.
    follower.handle_list_changed(at(now));
    assert_eq!(follower.poll_action(at(now)), Some(FollowAction::List));
    follower.handle_listed(at(now), Ok(Some(described(POLL))));
    requested(&mut follower, at(now));
    follower.handle_polled(at(now), answer(&polled(&[57, 58, 59, 60, 60], "c60")));
    handed_out.extend(taken(&mut follower));
    let expected: Vec<String> = (0..=60).map(|number| format!("evt-{number}")).collect();
    assert_eq!(handed_out, expected);
}

// covers: EVT-024, EVT-145, EVT-146
#[test]
fn position_that_a_server_has_forgotten_with_its_restart_is_a_gap_and_a_new_beginning() {
    for modes in [POLL, PUSH] {
        let mut follower = follower(modes, Some("from-before"));
        let mut now = at(0);
        // It goes away, comes back, and knows nothing.
        for outcome in
            [lost(), server(&EventsError::InvalidParams("`cursor` is not one of this server".into()))]
        {
            assert_eq!(requested(&mut follower, now).as_deref(), Some("from-before"));
            match modes {
                POLL => follower.handle_polled(now, Err(outcome)),
                _ => follower.handle_stream_end(now, Err(outcome)),
            }
            now = follower.poll_timeout().expect("it waits");
        }
        // What was handed out has no position any more: a program that begins from it begins anew, too.
        assert_eq!((taken(&mut follower), follower.cursor()), (vec![format!("error {}", lost())], None));
        assert_eq!(requested(&mut follower, now), None);
        match modes {
            POLL => follower.handle_polled(now, answer(&polled(&[], "d1"))),
            _ => note(&mut follower, now, wire::ACTIVE, r#"{"cursor":"d1","truncated":true}"#),
        }
        assert_eq!(taken(&mut follower), [r#"gap CursorRefused Some("d1")"#], "one gap, not two");
        assert_eq!(follower.cursor(), Some("d1"));
    }
}

// covers: EVT-044
#[test]
fn endless_promise_of_more_at_an_unchanged_position_is_no_storm() {
    let mut follower = follower(POLL, Some("c"));
    let mut now = at(0);
    for _ in 0..100 {
        requested(&mut follower, now);
        follower.handle_polled(now, answer(&polled(&[1], "c").has_more(true).next_poll_ms(0.0)));
        assert_eq!(pause(&mut follower, now), Duration::from_secs(1));
        now = now + Duration::from_secs(1);
    }
    assert_eq!(taken(&mut follower), ["evt-1"]);
}
