//! Clocks that are set while deliveries wait, subscriptions are granted, or no server runs.

use super::failures::endless;
use super::*;
use crate::store::{Record, StoredSubscription};

const HOUR: u64 = 3_600;
/// An hour back, and an hour ahead.
const JUMPS: [i64; 2] = [-3_600, 3_600];

/// Unix time after a jump.
fn unix(secs: u64, jump: i64) -> u64 {
    (EPOCH + secs).checked_add_signed(jump).expect("after 1970")
}

fn set_clock(machine: &mut Deliveries, secs: u64, jump: i64) {
    machine.handle_timeout(at(secs));
    machine.set_anchor(Anchor::new(at(secs), unix(secs, jump)));
}

fn stored(machine: &mut Deliveries) -> StoredSubscription {
    match core::iter::from_fn(|| machine.poll_change()).last() {
        Some(Record::Subscription(stored)) => *stored,
        other => panic!("{other:?}"),
    }
}

/// Restores a subscription in a process whose clock shows a Unix time at the beginning.
fn restored(stored: &StoredSubscription, unix: u64) -> Option<(Deliveries, SubscriptionHandle)> {
    let mut machine = Deliveries::new(Config::default(), Entropy::new([4; 32], 1), Anchor::new(at(0), unix));
    let handle = machine.restore(at(0), stored)?;
    Some((machine, handle))
}

// covers: EVT-093, EVT-097
#[test]
fn clock_that_jumps_between_attempts_changes_their_times_and_not_their_pauses() {
    for jump in JUMPS {
        let (mut machine, subscription) = subscribed();
        let (mut undisturbed, other) = subscribed();
        for (machine, subscription) in [(&mut machine, subscription), (&mut undisturbed, other)] {
            machine.publish(at(0), subscription, &event(1)).expect("room");
        }
        let (mut now, mut jumped, mut attempts) = (at(0), 0, 0);
        while let Some(delivery) = machine.poll_transmit(now) {
            attempts += 1;
            let expected = unix(now.as_micros() / 1_000_000, jumped);
            assert_eq!(header(&delivery, "webhook-timestamp"), expected.to_string(), "attempt {attempts}");
            let signature = sign([&secret(1)], header(&delivery, "webhook-id"), expected, &delivery.body);
            assert_eq!(header(&delivery, "webhook-signature"), signature);
            machine.handle_answer(now, delivery.id, &answer(500));
            let same = undisturbed.poll_transmit(now).expect("the same attempt");
            undisturbed.handle_answer(now, same.id, &answer(500));
            // Each pause has a jump: there, and back again.
            jumped = if jumped == 0 { jump } else { 0 };
            machine.set_anchor(Anchor::new(now, unix(now.as_micros() / 1_000_000, jumped)));
            assert_eq!(machine.poll_timeout(), undisturbed.poll_timeout());
            let due = machine.poll_timeout().expect("another attempt, or the expiry");
            now = at(due.as_micros().div_ceil(1_000_000));
        }
        assert_eq!((attempts, machine.stats().abandoned), (5, 1));
    }
}

// covers: EVT-080, EVT-082, EVT-094
#[test]
fn grants_have_the_time_of_the_clock_at_each_of_them_and_last_as_long_as_before() {
    for jump in JUMPS {
        // What was granted before is not longer nor shorter, nor is the grace of a rotation.
        let (mut machine, subscription) = subscribed();
        let rotated = Subscribe { secret: secret(2), ..request(key("user-17", HOOK, "{}")) };
        machine.subscribe(at(0), rotated).expect("a grant");
        set_clock(&mut machine, 100, jump);
        for (secs, secrets) in [(899, vec![secret(2), secret(1)]), (900, vec![secret(2)])] {
            machine.publish(at(secs), subscription, &event(secs)).expect("room");
            let delivery = machine.poll_transmit(at(secs)).expect("an attempt");
            let expected = sign(&secrets, header(&delivery, "webhook-id"), unix(secs, jump), &delivery.body);
            assert_eq!(header(&delivery, "webhook-signature"), expected, "{secs}");
            machine.handle_answer(at(secs), delivery.id, &answer(200));
        }
        machine.handle_timeout(at(HOUR - 1));
        assert_eq!(machine.len(), 1);
        machine.handle_timeout(at(HOUR));
        assert!(machine.is_empty());
        // A refresh behind the jump, and one behind the way back.
        let (mut machine, _) = subscribed();
        for (secs, jumped) in [(100, jump), (200, 0), (300, jump)] {
            set_clock(&mut machine, secs, jumped);
            assert_eq!(refresh(&mut machine, secs).refresh_before, Some(unix(secs + HOUR, jumped)));
        }
        machine.handle_timeout(at(300 + HOUR - 1));
        assert_eq!(machine.len(), 1);
        machine.handle_timeout(at(300 + HOUR));
        assert!(machine.is_empty());
        // A new one, whose proof is from before.
        let mut machine = self::machine(Config::default());
        machine.prove(at(0), "a", HOOK, EPOCH + 1_000);
        set_clock(&mut machine, 999, jump);
        match machine.subscribe(at(999), request(key("a", HOOK, "{}"))) {
            Ok(Subscribed::Granted(grant)) => {
                assert_eq!(grant.refresh_before, Some(unix(999 + HOUR, jump)));
            }
            other => panic!("{other:?}"),
        }
        set_clock(&mut machine, 1_000, jump);
        let late = machine.subscribe(at(1_000), request(key("a", HOOK, r#"{"n":1}"#)));
        assert!(matches!(late, Ok(Subscribed::Verifying(_))), "{late:?}");
    }
}

// covers: EVT-084
#[test]
fn store_has_the_times_of_the_clock_as_it_is() {
    for jump in JUMPS {
        let (mut machine, subscription) = subscribed();
        machine.track_changes();
        machine.publish(at(0), subscription, &event(1)).expect("room");
        let failed = machine.poll_transmit(at(0)).expect("an attempt");
        machine.handle_answer(at(0), failed.id, &answer(500));
        set_clock(&mut machine, 1_000, jump);
        let stored = stored(&mut machine);
        assert_eq!((stored.granted_at, stored.expires_at), (unix(0, jump), Some(unix(HOUR, jump))));
        assert_eq!(stored.progress.failed_since, Some(unix(0, jump)));
        // The restart takes no time, so the rest of the grant is left.
        let (mut machine, _) = restored(&stored, unix(1_000, jump)).expect("it has not expired");
        machine.handle_timeout(at(2_599));
        assert_eq!(machine.len(), 1);
        machine.handle_timeout(at(2_600));
        assert!(machine.is_empty());
        // A clock that is only read again changes nothing.
        let (mut machine, _) = subscribed();
        machine.track_changes();
        set_clock(&mut machine, 1_000, 0);
        assert!(!machine.has_changes());
    }
}

// covers: EVT-084, EVT-094
#[test]
fn clock_that_is_set_while_no_server_runs_makes_no_grant_longer() {
    let (mut machine, _) = subscribed();
    machine.track_changes();
    let rotated = Subscribe { secret: secret(2), ..request(key("user-17", HOOK, "{}")) };
    machine.subscribe(at(0), rotated).expect("a grant");
    let stored = stored(&mut machine);
    assert_eq!((stored.granted_at, stored.expires_at, stored.older.len()), (EPOCH, Some(EPOCH + HOUR), 1));
    // Seconds that are left of the grant, and of the grace of its old secret.
    for (jump, left, grace) in [
        (-86_400, HOUR, 900),
        (-3_600, HOUR, 900),
        (-1, HOUR, 900),
        (600, HOUR - 600, 300),
        (1_800, 1_800, 0),
    ] {
        let (mut machine, subscription) = restored(&stored, unix(0, jump)).expect("it has not expired");
        let is_signed_twice = |machine: &mut Deliveries, secs: u64| {
            machine.publish(at(secs), subscription, &event(secs + 1)).expect("room");
            let delivery = machine.poll_transmit(at(secs)).expect("an attempt");
            machine.handle_answer(at(secs), delivery.id, &answer(200));
            header(&delivery, "webhook-signature").contains(' ')
        };
        assert_eq!(is_signed_twice(&mut machine, 0), grace > 0, "{jump}");
        if grace > 0 {
            assert!(
                is_signed_twice(&mut machine, grace - 1) && !is_signed_twice(&mut machine, grace),
                "{jump}"
            );
        }
        machine.handle_timeout(at(left - 1));
        assert_eq!(machine.len(), 1, "{jump}");
        machine.handle_timeout(at(left));
        assert!(machine.is_empty(), "{jump}");
    }
    for jump in [3_600, 86_400] {
        assert!(restored(&stored, unix(0, jump)).is_none(), "{jump}");
    }
}

// covers: EVT-131
#[test]
fn clock_that_jumps_ends_no_receiver_that_fails() {
    for jump in [-86_400 * 30, -3_600, 3_600, 86_400 * 30] {
        let (mut machine, subscription) = endless(Profile::SEP);
        machine.publish(at(0), subscription, &event(1)).expect("room");
        let failed = machine.poll_transmit(at(0)).expect("an attempt");
        machine.handle_answer(at(0), failed.id, &answer(500));
        set_clock(&mut machine, 1_000, jump);
        assert_eq!(stored(&mut machine).progress.failed_since, Some(unix(0, jump)));
        machine.handle_timeout(at(7 * 86_400 - 1));
        assert_eq!(events(&mut machine), []);
        machine.handle_timeout(at(7 * 86_400));
        assert_eq!(events(&mut machine), [Event::GivenUp { subscription }], "{jump}");
    }
}
