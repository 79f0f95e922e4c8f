//! All short histories of the replay log of a session, and of the counts of principals.

use super::principals::{PrincipalCounts, share_of_streams};
use super::resumption::{ReplayEntry, ReplayLog, UnwrittenEvent, UnwrittenEvents};
use crate::memory::MemoryAccount;
use crate::sync::Arc;
use crate::testing::{exhaustive, for_each_sequence};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;

#[test]
fn exhaustive_resumption_replays_all_events_after_an_id_or_none() {
    let property = "A stream is resumed with exactly the events that followed, in order, or refused if one of them is not kept.";
    // Two streams; the lengths make four short events or two long ones fill the budget, and one too long for it.
    let (budget, lengths) = (400, [36_usize, 136, 400]);
    exhaustive(
        property,
        "events of 3 lengths on 2 streams, ends and withdrawals, up to",
        [4, 5, 6],
        |most| {
            for_each_sequence(10, most, |steps| {
                let (mut log, memory) = (ReplayLog::default(), MemoryAccount::default());
                // All events that were sent, with whether each is kept and withdrawn.
                let mut sent: Vec<(usize, u32, usize, bool)> = Vec::new();
                let (mut is_over, mut numbers) = ([false; 2], [0_u32; 2]);
                let mut kept: Vec<usize> = Vec::new();
                for step in steps {
                    let stream = step % 2;
                    match step {
                        0..=7 if is_over[stream] => continue,
                        0..=7 => {
                            let is_last = *step >= 6;
                            let length = if is_last { 36 } else { lengths[step / 2] };
                            numbers[stream] += 1;
                            is_over[stream] = is_last;
                            let message = Bytes::from(alloc::vec![b'x'; length]);
                            let event = numbers[stream];
                            let stream_number = u32::try_from(stream).expect("few") + 1;
                            log.push(
                                ReplayEntry { stream: stream_number, event, is_last, message },
                                budget,
                                &memory,
                            );
                            sent.push((stream, event, length, false));
                            // Each costs 64 bytes more; the oldest make room for one that fits at all.
                            if length + 64 <= budget {
                                kept.push(sent.len() - 1);
                            }
                            let cost = |kept: &[usize]| kept.iter().map(|at| sent[*at].2 + 64).sum::<usize>();
                            while cost(&kept) > budget {
                                kept.remove(0);
                            }
                        }
                        _ => {
                            let newest = numbers[stream];
                            log.withdraw(u32::try_from(stream).expect("few") + 1, newest);
                            let at = sent
                                .iter()
                                .position(|(other, event, ..)| (*other, *event) == (stream, newest));
                            if let Some(at) = at.filter(|at| kept.contains(at)) {
                                (sent[at].2, sent[at].3) = (0, true);
                            }
                        }
                    }
                }
                for stream in 0..2 {
                    let newest = numbers[stream];
                    for after in 0..=newest + 1 {
                        let following: Vec<usize> = (0..sent.len())
                            .filter(|at| sent[*at].0 == stream && sent[*at].1 > after)
                            .collect();
                        let all_kept = following.iter().all(|at| kept.contains(at));
                        // A stream that is over is known by its last event only.
                        let is_known = !is_over[stream]
                            || kept.iter().any(|at| (sent[*at].0, sent[*at].1) == (stream, newest));
                        let expected = (after <= newest && all_kept && is_known).then(|| {
                            following.iter().map(|at| (sent[*at].1, sent[*at].3)).collect::<Vec<_>>()
                        });
                        let open = (!is_over[stream]).then_some(newest);
                        let number = u32::try_from(stream).expect("few") + 1;
                        let found = log.events_after(number, after, open);
                        let found = found.map(|all| {
                            all.iter().map(|entry| (entry.event, entry.message.is_empty())).collect()
                        });
                        assert_eq!(found, expected, "stream {number} after {after}: {steps:?}");
                    }
                }
            })
        },
    );
}

#[test]
fn exhaustive_unwritten_events_are_those_that_end_behind_what_was_written() {
    let property = "The events that a stream holds back are those of which a byte is unwritten, in order.";
    exhaustive(property, "events of 1 to 3 bytes, and writes of 1 to 3 bytes, up to", [5, 6, 7], |most| {
        for_each_sequence(6, most, |steps| {
            let (mut events, mut model, mut end, mut written) =
                (UnwrittenEvents::default(), Vec::new(), 0, 0);
            for (at, step) in steps.iter().enumerate() {
                let (number, bytes) = (u32::try_from(at).expect("few"), (step % 3 + 1) as u64);
                if *step < 3 {
                    end += bytes;
                    events.0.push_back(UnwrittenEvent { end, number, message: Bytes::new() });
                    model.push((number, end));
                } else {
                    written = end.min(written + bytes);
                    events.discard_written(written);
                }
            }
            events.discard_written(written);
            let unwritten = model.iter().filter(|(_, end)| *end > written).map(|(number, _)| *number);
            assert!(events.0.iter().map(|event| event.number).eq(unwritten), "{steps:?}");
        })
    });
}

#[test]
fn exhaustive_exchanges_of_a_principal_are_counted_whoever_comes_between() {
    let property = "The count of each principal is the number of its exchanges that are open.";
    exhaustive(
        property,
        "begins and ends of 3 principals, and releases of memory, up to",
        [5, 6, 7],
        |most| {
            let names: [Arc<str>; 3] = ["a", "b", "c"].map(Arc::from);
            for_each_sequence(7, most, |steps| {
                let (mut counts, mut model) = (PrincipalCounts::default(), BTreeMap::new());
                for step in steps {
                    let name = &names[step % 3];
                    let open = model.entry(name).or_insert(0_usize);
                    match step {
                        0..=2 => {
                            *open += 1;
                            counts.add(name);
                        }
                        3..=5 if *open > 0 => {
                            *open -= 1;
                            counts.remove(name);
                        }
                        6 => counts.trim(),
                        _ => {}
                    }
                    assert!(
                        names.iter().all(|name| counts.of(name) == model.get(name).copied().unwrap_or(0)),
                        "{steps:?}"
                    );
                }
            })
        },
    );
}

#[test]
fn exhaustive_shares_of_streams_leave_room_for_requests() {
    let property = "Streams have at most three quarters of the connections, less than one quarter less, and one at least.";
    exhaustive(property, "numbers of connections, up to", [1_000, 100_000, 10_000_000], |most| {
        for all in 0..=most {
            let share = share_of_streams(all);
            let is_exact = 4 * share <= 3 * all && 4 * (share + 1) > 3 * all;
            assert!(if all < 2 { share == 1 } else { is_exact }, "{share} of {all}");
        }
        most as u64 + 1
    });
}
