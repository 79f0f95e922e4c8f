use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;

use mcp_proto::{RawJson, iso_8601};

use super::*;
use crate::receiver::{Limits, Outcome, Request};
use crate::webhook::sign;
use crate::wire::{EventsError, Profile};

const EPOCH: u64 = 1_795_600_800;
const URL: &str = "https://hooks.example/mcp?key=hidden";

fn at(secs: u64) -> Instant {
    Instant::from_micros(secs * 1_000_000)
}

struct World {
    receiver: Receiver,
    machine: WebhookSubscription,
}

fn world_with(config: SubscriptionConfig, cursor: Option<&str>) -> World {
    let mut receiver = Receiver::new(Limits::default());
    let arguments = RawJson::new(r#"{"branch":"main"}"#).expect("JSON");
    let machine = WebhookSubscription::new(
        config,
        Subscription { name: "build".into(), arguments: Some(arguments) },
        URL,
        cursor.map(Into::into),
        &mut receiver,
        Entropy::new([7; 32], 1),
        Anchor::new(at(0), EPOCH),
    );
    World { machine: machine.expect("room"), receiver }
}

fn world() -> World {
    world_with(SubscriptionConfig::default(), None)
}

fn grant(expires_at: Option<u64>) -> SubscribeEventsResult {
    SubscribeEventsResult::new("sub_1", Nullable(expires_at.map(|secs| iso_8601(EPOCH + secs))))
}

fn server(error: &EventsError) -> FollowError {
    FollowError::Server(error.to_rpc(&Profile::SEP))
}

impl World {
    #[track_caller]
    fn subscribes(&mut self, now: Instant) -> SubscribeEventsParams<'static> {
        match self.machine.poll_action(now, &mut self.receiver) {
            Some(SubscriptionAction::Subscribe(params)) => params,
            other => panic!("{other:?} in {:?}", self.machine),
        }
    }

    fn answer(&mut self, now: Instant, outcome: Result<SubscribeEventsResult, FollowError>) {
        self.machine.handle_subscribed(now, &mut self.receiver, outcome);
    }

    /// Subscribes and is granted this time.
    fn granted(&mut self, now: Instant, expires_at: Option<u64>) {
        self.subscribes(now);
        self.answer(now, Ok(grant(expires_at)));
    }

    fn events(&mut self) -> Vec<SubscriptionEvent> {
        core::iter::from_fn(|| self.machine.poll_event()).collect()
    }

    /// Returns the time until the next request.
    #[track_caller]
    fn pause(&mut self, now: Instant) -> Duration {
        let until = self.machine.poll_timeout().expect("it waits");
        assert_eq!(
            self.machine.poll_action(Instant::from_micros(until.as_micros() - 1), &mut self.receiver),
            None
        );
        until.saturating_duration_since(now)
    }

    /// Delivers a body that a secret has signed, and confirms it. Returns the status.
    fn deliver(&mut self, secret: &Secret, id: &str, body: &str) -> u16 {
        let signature = sign([secret], id, EPOCH, body.as_bytes());
        let time = EPOCH.to_string();
        let fields = [
            ("Content-Type", b"application/json".as_slice()),
            ("webhook-id", id.as_bytes()),
            ("webhook-timestamp", time.as_bytes()),
            ("webhook-signature", signature.as_bytes()),
            ("X-MCP-Subscription-Id", b"sub_1"),
        ];
        let request = Request { method: "POST", fields: &fields, body: body.as_bytes() };
        match self.receiver.receive(&request, EPOCH) {
            Outcome::Event { receipt, subscription, .. }
            | Outcome::Gap { receipt, subscription, .. }
            | Outcome::Terminated { receipt, subscription, .. } => {
                assert_eq!(subscription, self.machine.registration());
                self.receiver.confirm(receipt, true).status
            }
            Outcome::Challenge { answer, .. } | Outcome::Acknowledged(answer) => answer.status,
            Outcome::Refused { status, .. } => status,
        }
    }
}

fn event(id: &str, cursor: &str) -> String {
    format!(
        r#"{{"eventId":"{id}","name":"build","timestamp":"2026-11-25T10:00:00Z","data":{{}},"cursor":"{cursor}"}}"#
    )
}

// covers: EVT-073, EVT-124, EVT-126
#[test]
fn secret_is_registered_before_the_call_and_the_id_is_bound_after_it() {
    let mut world = world();
    let params = world.subscribes(at(0));
    assert_eq!((&*params.name, &params.delivery.url.0[..], params.cursor), ("build", URL, None));
    assert_eq!(params.ttl_ms, Some(Nullable(Some(Millis(3_600_000)))));
    let secret = params.delivery.secret;
    // The challenge comes before the result, and an event may.
    assert_eq!(world.deliver(&secret, "m", r#"{"type":"verification","challenge":"n"}"#), 200);
    let mut early = self::world();
    let secret = early.subscribes(at(0)).delivery.secret;
    assert_eq!(early.deliver(&secret, "e1", &event("e1", "c1")), 503);
    early.answer(at(1), Ok(grant(Some(3_600))));
    assert_eq!(early.deliver(&secret, "e1", &event("e1", "c1")), 204);
    assert_eq!(
        early.events(),
        [SubscriptionEvent::Granted { id: "sub_1".into(), expires_at: Some(EPOCH + 3_600), status: None }]
    );
    let other = self::world().subscribes(at(0)).delivery.secret;
    assert_eq!(other, secret, "the same entropy, so that the next line tells something");
    let mut another = world_with(SubscriptionConfig::default(), None);
    another.machine.rotate(at(0), &mut another.receiver);
    assert_ne!(another.subscribes(at(0)).delivery.secret, secret);
}

// covers: EVT-079, EVT-081, EVT-099
#[test]
fn refresh_has_the_same_key_and_the_confirmed_position_before_the_expiry() {
    for granted in [2, 10, 600, 3_600] {
        let mut world = world_with(SubscriptionConfig::default(), Some("c0"));
        let first = world.subscribes(at(0));
        assert_eq!(first.cursor.as_deref(), Some("c0"));
        world.answer(at(0), Ok(grant(Some(granted)).cursor("c1")));
        let secret = first.delivery.secret.clone();
        assert_eq!(world.deliver(&secret, "e2", &event("e2", "c2")), 204);
        // Of a second more, the clocks that count whole ones may have cut off all.
        let (pause, surely) = (world.pause(at(0)), Duration::from_secs(granted - 1));
        assert!(surely / 2 <= pause && pause <= surely * 3 / 4, "{pause:?} of {surely:?}");
        let again = world.subscribes(Instant::ZERO + pause);
        let expected = SubscribeEventsParams { cursor: Some("c2".into()), ..first };
        assert_eq!(again, expected);
    }
}

// covers: EVT-081, EVT-086
#[test]
fn refresh_is_bounded_by_what_was_asked_for_and_by_a_day() {
    // A grant of a week looks like that of a server whose clock is ahead.
    let mut world = world();
    world.granted(at(0), Some(7 * 86_400));
    assert!(world.pause(at(0)) <= Duration::from_secs(2_700));
    let config = SubscriptionConfig { time_to_live: None, ..SubscriptionConfig::default() };
    for expires_at in [None, Some(30 * 86_400)] {
        let mut world = world_with(config, None);
        assert_eq!(world.subscribes(at(0)).ttl_ms, Some(Nullable(None)));
        world.answer(at(0), Ok(grant(expires_at)));
        assert_eq!(world.pause(at(0)), Duration::from_secs(86_400));
    }
    // No time makes no storm.
    let mut world = self::world();
    world.granted(at(0), Some(1));
    assert!(world.pause(at(0)) >= Duration::from_millis(500));
}

#[test]
fn grant_in_the_past_is_told_and_refreshed_later_and_later() {
    let mut world = world();
    let mut now = at(1_000);
    for n in 0..8 {
        world.granted(now, Some(900));
        assert!(world.events().contains(&SubscriptionEvent::ClockSkew { expires_at: EPOCH + 900 }));
        let (pause, whole) = (world.pause(now), Duration::from_secs(1 << n).min(Duration::from_secs(60)));
        assert!(whole / 2 <= pause && pause <= whole, "{pause:?} instead of {whole:?}");
        now = now + pause;
    }
}

#[test]
fn failure_is_told_and_tried_again_later_and_later() {
    use crate::wire::CallbackFailure;
    let mut world = world();
    let mut now = at(0);
    for n in 0..9 {
        world.subscribes(now);
        let error = match n % 4 {
            0 => FollowError::Lost("reset".into()),
            1 => server(&EventsError::CallbackEndpoint(CallbackFailure::Timeout)),
            2 => server(&EventsError::ResourceExhausted { limit: "subscriptions", max: 1 }),
            _ => FollowError::Malformed("`refreshBefore` is no time: `soon`".into()),
        };
        match n % 4 {
            3 => world.answer(now, Ok(SubscribeEventsResult::new("sub_1", "soon"))),
            _ => world.answer(now, Err(error.clone())),
        }
        assert_eq!(world.events(), [SubscriptionEvent::Error(error)]);
        let (pause, whole) = (world.pause(now), Duration::from_secs(1 << n).min(Duration::from_secs(60)));
        assert!(whole / 2 <= pause && pause <= whole, "{pause:?} instead of {whole:?}");
        now = now + pause;
    }
}

#[test]
fn refusal_ends_and_removes_the_registration() {
    for error in [
        EventsError::Forbidden("no".into()),
        EventsError::EventNotFound,
        EventsError::UnsupportedMode(DeliveryMode::Webhook),
        EventsError::InvalidParams("arguments".into()),
    ] {
        let mut world = world();
        let secret = world.subscribes(at(0)).delivery.secret;
        world.answer(at(0), Err(server(&error)));
        assert_eq!(world.events(), [SubscriptionEvent::Ended(Some(server(&error)))]);
        assert!(world.machine.has_ended());
        assert_eq!(world.machine.poll_action(at(1_000_000), &mut world.receiver), None);
        assert_eq!(world.deliver(&secret, "m", r#"{"type":"verification","challenge":"n"}"#), 401);
    }
}

#[test]
fn wish_of_a_busy_server_is_a_bounded_pause_and_refused_access_is_the_end() {
    for (asked, seconds) in [(7, 7), (u64::MAX, 300)] {
        let mut world = world();
        world.subscribes(at(0));
        let retry_after = Duration::from_secs(asked);
        world.answer(at(0), Err(FollowError::Busy { reason: "HTTP status 429".into(), retry_after }));
        assert_eq!(world.pause(at(0)), Duration::from_secs(seconds));
        let key = world.machine.registration();
        world.subscribes(at(seconds));
        world.answer(at(seconds), Err(FollowError::Refused("HTTP status 401".into())));
        let ended = SubscriptionEvent::Ended(Some(FollowError::Refused("HTTP status 401".into())));
        assert_eq!(world.events().last(), Some(&ended));
        assert_eq!(
            (world.machine.poll_timeout(), world.receiver.set_cursor(key, None).is_err()),
            (None, true)
        );
    }
}

// covers: EVT-146
#[test]
fn refused_cursor_is_dropped_first_and_is_a_gap() {
    let mut world = world_with(SubscriptionConfig::default(), Some("old"));
    world.subscribes(at(0));
    world
        .answer(at(0), Err(server(&EventsError::InvalidParams("`cursor` is not one of this server".into()))));
    assert_eq!(world.subscribes(at(0)).cursor, None);
    world.answer(at(0), Ok(grant(Some(60)).cursor("c1")));
    assert_eq!(world.events()[0], SubscriptionEvent::Gap(GapReason::CursorRefused));
    assert_eq!(world.receiver.cursor(world.machine.registration()), Some("c1"));
}

// covers: EVT-079, EVT-146
#[test]
fn truncated_refresh_is_a_gap_and_so_is_one_of_a_delivery() {
    let mut world = world();
    let secret = world.subscribes(at(0)).delivery.secret;
    // Nothing is missing before the beginning.
    world.answer(at(0), Ok(grant(Some(60)).cursor("c1").truncated(true)));
    assert_eq!(world.events().len(), 1);
    assert_eq!(world.deliver(&secret, "m1", r#"{"type":"gap","cursor":"c5"}"#), 204);
    assert_eq!(world.receiver.cursor(world.machine.registration()), Some("c5"));
    assert_eq!(world.subscribes(at(50)).cursor.as_deref(), Some("c5"));
    let status = DeliveryStatus::new(false);
    let refreshed = grant(Some(120)).cursor("c9").truncated(true).delivery_status(status.clone());
    world.answer(at(50), Ok(refreshed));
    let granted = SubscriptionEvent::Granted {
        id: "sub_1".into(),
        expires_at: Some(EPOCH + 120),
        status: Some(status),
    };
    assert_eq!(world.events(), [SubscriptionEvent::Gap(GapReason::Truncated), granted]);
}

// covers: EVT-153
#[test]
fn terminated_ends_unless_the_type_has_changed() {
    let end = |code| format!(r#"{{"type":"terminated","error":{{"code":{code},"message":"m"}}}}"#);
    let mut world = world();
    let secret = world.subscribes(at(0)).delivery.secret;
    world.answer(at(0), Ok(grant(Some(3_600)).cursor("c1")));
    world.events();
    assert_eq!(world.deliver(&secret, "m1", &end(-32024)), 204);
    assert_eq!(world.machine.poll_action(at(1), &mut world.receiver), None);
    let error = FollowError::Server(RpcError::new(-32024, "m"));
    assert_eq!(world.events(), [SubscriptionEvent::Ended(Some(error))]);
    let mut world = self::world();
    let secret = world.subscribes(at(0)).delivery.secret;
    world.answer(at(0), Ok(grant(Some(3_600)).cursor("c1")));
    assert_eq!(world.deliver(&secret, "m1", &end(-32026)), 204);
    world.events();
    assert_eq!(world.subscribes(at(1)).cursor, None);
    world.answer(at(1), Ok(grant(Some(3_600))));
    assert_eq!(world.events()[0], SubscriptionEvent::Gap(GapReason::TypeChanged));
    // It is alive again.
    assert_eq!(world.deliver(&secret, "e1", &event("e1", "d1")), 204);
}

// covers: EVT-023, EVT-153
#[test]
fn end_that_overtakes_a_grant_is_asked_about() {
    let end = |code| format!(r#"{{"type":"terminated","error":{{"code":{code},"message":"m"}}}}"#);
    for (code, answer, is_over) in [
        // The grant was before the end, and after it.
        (-32024, Err(server(&EventsError::Forbidden("left".into()))), true),
        (-32023, Err(server(&EventsError::EventNotFound)), true),
        (-32027, Ok(grant(Some(7_200))), false),
    ] {
        let mut world = world();
        let secret = world.subscribes(at(0)).delivery.secret;
        world.answer(at(0), Ok(grant(Some(3_600)).cursor("c1")));
        assert_eq!(world.subscribes(at(2_700)).cursor.as_deref(), Some("c1"));
        assert_eq!(world.deliver(&secret, "m1", &end(code)), 204);
        // A caller that looks for actions meanwhile loses nothing.
        assert_eq!(world.machine.poll_action(at(2_700), &mut world.receiver), None);
        world.answer(at(2_701), Ok(grant(Some(6_300)).cursor("c1")));
        world.events();
        assert_eq!(world.pause(at(2_701)), Duration::from_millis(500));
        assert_eq!(world.subscribes(at(2_702)).cursor.as_deref(), Some("c1"));
        world.answer(at(2_702), answer.clone());
        let events = world.events();
        match answer {
            Err(error) => assert_eq!(events, [SubscriptionEvent::Ended(Some(error))]),
            Ok(_) => assert!(matches!(&*events, [SubscriptionEvent::Granted { .. }]), "{events:?}"),
        }
        assert_eq!(world.machine.has_ended(), is_over);
        if !is_over {
            assert!(world.pause(at(2_702)) > Duration::from_secs(60), "it is asked once");
            assert_eq!(world.deliver(&secret, "e1", &event("e1", "c2")), 204);
        }
    }
    // The refresh is lost: what the receiver was told counts.
    let mut world = world();
    let secret = world.subscribes(at(0)).delivery.secret;
    world.answer(at(0), Ok(grant(Some(3_600))));
    world.subscribes(at(2_700));
    assert_eq!(world.deliver(&secret, "m1", &end(-32024)), 204);
    world.answer(at(2_701), Err(FollowError::Lost("reset".into())));
    assert_eq!(world.machine.poll_action(at(2_701), &mut world.receiver), None);
    let error = FollowError::Server(RpcError::new(-32024, "m"));
    assert_eq!(world.events().last(), Some(&SubscriptionEvent::Ended(Some(error))));
}

// covers: EVT-146, EVT-147, EVT-153
#[test]
fn end_that_overtakes_a_grant_without_position_is_a_gap_and_no_storm() {
    let mut world = world();
    let mut now = at(0);
    for round in 0..5 {
        let secret = world.subscribes(now).delivery.secret;
        // The first grant binds the id.
        if round > 0 {
            let end = r#"{"type":"terminated","error":{"code":-32027,"message":"m"}}"#;
            assert_eq!(world.deliver(&secret, &format!("m{round}"), end), 204);
        }
        world.answer(now, Ok(grant(Some(86_400))));
        let gaps = world.events().into_iter().filter(|event| matches!(event, SubscriptionEvent::Gap(_)));
        let expected = if round > 1 { vec![SubscriptionEvent::Gap(GapReason::NoReplay)] } else { vec![] };
        assert_eq!(gaps.collect::<Vec<_>>(), expected, "{round}");
        let pause = world.pause(now);
        assert!(pause >= Duration::from_millis(500) && (round == 0 || pause < Duration::from_secs(1)));
        now = now + pause;
    }
}

// covers: EVT-081
#[test]
fn grants_are_those_of_the_clock_when_they_come() {
    for jump in [-3_600, 3_600] {
        let mut world = world();
        world.granted(at(0), Some(3_600));
        let mut now = 0;
        // There, and back again; each grant is an hour of the clock as it is.
        for jumped in [jump, 0, jump] {
            let pause = world.pause(at(now)).as_secs();
            assert!((1_799..=2_700).contains(&pause), "{pause} s");
            world.events();
            now += pause + 1;
            let unix = (EPOCH + now).checked_add_signed(jumped).expect("after 1970");
            world.subscribes(at(now));
            world.machine.set_anchor(Anchor::new(at(now), unix));
            let expires_at = unix + 3_600;
            let granted = SubscribeEventsResult::new("sub_1", Nullable(Some(iso_8601(expires_at))));
            world.answer(at(now), Ok(granted));
            let events = world.events();
            assert!(
                matches!(&*events, [SubscriptionEvent::Granted { expires_at: Some(at), .. }] if *at == expires_at),
                "{events:?}"
            );
        }
        // One that is in the past by this clock is told as such, once more with a clock that has moved.
        world.subscribes(at(now + 2_700));
        world.answer(at(now + 2_700), Ok(grant(Some(0))));
        assert!(world.events().iter().any(|event| matches!(event, SubscriptionEvent::ClockSkew { .. })));
    }
}

// covers: EVT-094
#[test]
fn rotation_is_sent_at_once_and_both_secrets_are_taken_meanwhile() {
    let mut world = world();
    let old = world.subscribes(at(0)).delivery.secret;
    world.answer(at(0), Ok(grant(Some(3_600))));
    world.machine.rotate(at(10), &mut world.receiver);
    let new = world.subscribes(at(10)).delivery.secret;
    assert_ne!(new, old);
    assert_eq!(world.deliver(&old, "e1", &event("e1", "c1")), 204);
    assert_eq!(world.deliver(&new, "e2", &event("e2", "c2")), 204);
    // One that comes while the answer is on its way follows it.
    world.machine.rotate(at(11), &mut world.receiver);
    assert_eq!(world.machine.poll_action(at(11), &mut world.receiver), None);
    world.answer(at(12), Ok(grant(Some(3_600))));
    let newest = world.subscribes(at(12)).delivery.secret;
    assert!(newest != new && newest != old);
}

#[test]
fn unsubscribe_ends_whatever_its_outcome() {
    let lost = || FollowError::Lost("reset".into());
    for (outcome, told) in [
        (Ok(()), vec![]),
        (Err(server(&EventsError::SubscriptionNotFound)), vec![]),
        (Err(lost()), vec![SubscriptionEvent::Error(lost())]),
    ] {
        let mut world = world();
        let secret = world.subscribes(at(0)).delivery.secret;
        // It waits for the answer that is on its way.
        world.machine.unsubscribe();
        assert_eq!(world.machine.poll_action(at(0), &mut world.receiver), None);
        world.answer(at(0), Ok(grant(Some(60))));
        world.events();
        let Some(SubscriptionAction::Unsubscribe(params)) =
            world.machine.poll_action(at(0), &mut world.receiver)
        else {
            panic!("{:?}", world.machine)
        };
        assert_eq!((&*params.name, &*params.delivery.url.0), ("build", URL));
        assert_eq!(params.arguments.as_ref().map(RawJson::as_str), Some(r#"{"branch":"main"}"#));
        world.machine.handle_unsubscribed(&mut world.receiver, outcome);
        let mut expected = told;
        expected.push(SubscriptionEvent::Ended(None));
        assert_eq!(world.events(), expected);
        assert_eq!(world.machine.poll_timeout(), None);
        assert_eq!(world.deliver(&secret, "e1", &event("e1", "c1")), 503, "it is unknown");
    }
}

#[test]
fn request_that_was_given_up_is_due_again() {
    let mut world = world();
    world.subscribes(at(0));
    world.machine.handle_abandoned(at(5));
    world.subscribes(at(5));
    world.machine.unsubscribe();
    world.machine.handle_abandoned(at(6));
    for _ in 0..2 {
        let action = world.machine.poll_action(at(6), &mut world.receiver);
        assert!(matches!(action, Some(SubscriptionAction::Unsubscribe(_))), "{action:?}");
        world.machine.handle_abandoned(at(6));
    }
}

#[test]
fn debug_output_shows_neither_secret_nor_query() {
    let mut world = world();
    let secret = world.subscribes(at(0)).delivery.secret.reveal();
    let action = SubscriptionAction::Subscribe(self::world().subscribes(at(0)));
    let shown = format!("{:?} {action:?}", world.machine);
    assert!(!shown.contains(&secret[6..]) && !shown.contains("hidden"), "{shown}");
}
