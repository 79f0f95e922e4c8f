//! All short histories of the deadline queue.

use super::Deadlines;
use crate::testing::{exhaustive, for_each_sequence};
use crate::time::{Instant, TimeoutReason};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

const KEYS: [u8; 3] = [0, 1, 2];

fn at(micros: usize) -> Instant {
    Instant::from_micros(micros as u64)
}

#[test]
fn exhaustive_deadlines_fire_once_in_order_and_none_that_was_moved() {
    let property = "Of each key exactly the deadline that was armed last fires, once, when it is due, the earliest first.";
    // Arms one of two keys at one of three times, disarms a key, or lets the time pass and fires.
    exhaustive(property, "armings, disarmings and passing time, up to", [4, 5, 7], |most| {
        for_each_sequence(10, most, |steps| {
            let (mut queue, mut armed, mut now) = (Deadlines::new(), BTreeMap::new(), 0);
            for step in steps {
                match step {
                    0..=5 => {
                        let (key, when) = (KEYS[step / 3], now + step % 3);
                        armed.insert(key, at(when));
                        queue.arm(at(when), key);
                    }
                    6 | 7 => _ = armed.remove(&KEYS[step - 6]),
                    8 => queue.trim(|when, key| armed.get(&key) == Some(&when)),
                    _ => {
                        now += 1;
                        let mut expected: Vec<_> = armed
                            .iter()
                            .map(|(key, when)| (*when, *key))
                            .filter(|(when, _)| *when <= at(now))
                            .collect();
                        expected.sort_unstable();
                        let mut fired = Vec::new();
                        while let Some((when, key)) = queue.pop_due(at(now)) {
                            if armed.get(&key) == Some(&when) {
                                armed.remove(&key);
                                fired.push((when, key));
                            }
                        }
                        assert_eq!(fired, expected, "{steps:?}");
                    }
                }
            }
            let next = queue.next(|when, key| armed.get(&key) == Some(&when));
            assert_eq!(next, armed.values().copied().min(), "{steps:?}");
            assert_eq!(queue.peek().map(|(when, _)| when), next);
        })
    });
}

#[test]
fn exhaustive_sweep_of_deadlines_keeps_those_that_hold() {
    let property = "A sweep drops no deadline that holds: what fires afterwards is the same, and dead entries stay bounded.";
    exhaustive(property, "keys that each hold, are dead or move, up to", [5, 6, 9], |most| {
        for_each_sequence(3, most, |kinds| {
            let mut queue = Deadlines::new();
            // Enough dead entries that a sweep is due, and each key twice.
            (0..40).for_each(|n| queue.arm(at(n), u8::MAX));
            for (key, _) in (0_u8..).zip(kinds) {
                queue.arm(at(20 + usize::from(key)), key);
                queue.arm(at(10 + usize::from(key)), key);
            }
            let kind = |key: u8| kinds.get(usize::from(key)).copied();
            let holds = |_: Instant, key: u8| kind(key).is_some_and(|kind| kind != 1);
            queue.sweep_moving(kinds.len(), holds, |key| kind(key) == Some(2));
            let mut expected = Vec::new();
            for (key, kind) in (0_u8..).zip(kinds) {
                let both = [at(10 + usize::from(key)), at(20 + usize::from(key))];
                // Of one that moves only the earliest is needed: it is armed anew then.
                expected.extend(both.into_iter().take([2, 0, 1][*kind]).map(|when| (when, key)));
            }
            expected.sort_unstable();
            assert_eq!(queue.len(), expected.len(), "{kinds:?}");
            let fired = core::iter::from_fn(|| queue.pop_due(Instant::FAR_FUTURE));
            assert!(fired.eq(expected), "{kinds:?}");
        })
    });
}

#[test]
fn exhaustive_earliest_deadline_is_the_least_of_those_that_are() {
    let property =
        "The deadline of a connection is the least of its parts' deadlines, with the reason of that part.";
    const REASONS: [TimeoutReason; 5] = [
        TimeoutReason::Call,
        TimeoutReason::KeepAlive,
        TimeoutReason::Task,
        TimeoutReason::Session,
        TimeoutReason::Retry,
    ];
    exhaustive(
        property,
        "five parts, each without a deadline or with one of the times below",
        [3, 5, 9],
        |times| {
            for_each_sequence(times + 1, REASONS.len(), |parts| {
                let Ok(parts) = <[usize; 5]>::try_from(parts) else { return };
                let mut part = 0;
                let deadlines = parts.map(|time| {
                    part += 1;
                    time.checked_sub(1).map(|time| (at(time), REASONS[part - 1]))
                });
                let earliest = TimeoutReason::earliest(deadlines);
                let least = parts.into_iter().filter(|time| *time > 0).min();
                assert_eq!(earliest.map(|(when, _)| when), least.map(|time| at(time - 1)));
                assert!(earliest.is_none_or(|found| deadlines.contains(&Some(found))));
            })
        },
    );
}
