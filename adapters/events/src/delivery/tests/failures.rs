//! Receivers that fail for long: suspensions, and the end of subscriptions without expiry.

use super::*;

// covers: EVT-100, EVT-098, EVT-101
#[test]
fn deliveries_are_suspended_by_their_rate_of_failure() {
    let (mut machine, subscription) = subscribed();
    let mut now = 0;
    let mut attempts = 0;
    while events(&mut machine).is_empty() {
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
