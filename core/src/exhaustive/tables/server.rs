//! All short histories of the small machines of a server engine, each against a plain collection.

use super::backlog::{Backlog, WaitingRequests};
use super::early_cancels::EarlyCancels;
use super::log::{LogOutcome, LogOutput, SessionLog};
use super::subscriptions::{ChannelListeners, SentChanges, Subscriptions};
use crate::change::Change;
use crate::limits::Limits;
use crate::listen_filter::{CustomLists, PROMPTS, TOOLS};
use crate::rpc::RequestId;
use crate::slab::Key;
use crate::sync::Arc;
use crate::testing::{exhaustive, for_each_sequence};
use crate::time::Instant;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;
use core::time::Duration;

fn key(slot: usize) -> Key {
    Key { slot: u32::try_from(slot).expect("few"), generation: 0 }
}

#[test]
fn exhaustive_early_cancellation_ends_its_own_request_once_within_its_time_and_share() {
    let property = "An early cancellation is taken once, by its session and id, within 5 s, unless newer ones displaced it.";
    // Recorded are three ids of one session and one of another; taken are two and one.
    let requests = [(0, 0), (0, 1), (0, 2), (1, 0)];
    exhaustive(property, "steps of 8 kinds with room for 0, 1, 3 and 8, up to", [4, 5, 7], |most| {
        [0, 1, 3, 8]
            .map(|max: usize| {
                let limits = Limits { max_early_cancellations: max, ..Limits::default() };
                for_each_sequence(8, most, |steps| {
                    let (mut early, mut model, mut secs) = (EarlyCancels::new(), Vec::new(), 0);
                    for step in steps {
                        let now = Instant::from_micros(secs * 1_000_000);
                        model.retain(|(_, recorded)| secs - recorded < 5);
                        match step {
                            0..=3 => {
                                let request @ (session, id) = requests[*step];
                                model.retain(|(other, _)| *other != request);
                                let is_own = |(other, _): &&((usize, i64), u64)| other.0 == session;
                                if model.iter().filter(is_own).count() >= (max / 4).max(1) {
                                    let oldest = model.iter().position(|other| other.0.0 == session);
                                    oldest.map(|at| model.remove(at));
                                } else if max > 0 && model.len() == max {
                                    model.remove(0);
                                }
                                if max > 0 {
                                    model.push((request, secs));
                                }
                                early.insert(now, key(session), RequestId::int(id), &limits);
                            }
                            4..=6 => {
                                let request @ (session, id) = requests[[0, 1, 3][step - 4]];
                                let at = model.iter().position(|(other, _)| *other == request);
                                let was_cancelled = early.take(now, key(session), &RequestId::int(id));
                                assert_eq!(
                                    was_cancelled,
                                    at.map(|at| model.remove(at)).is_some(),
                                    "{max} {steps:?}"
                                );
                            }
                            _ => secs += 2,
                        }
                    }
                })
            })
            .into_iter()
            .sum()
    });
}

#[test]
fn exhaustive_backlog_takes_turns_between_channels_and_keeps_the_order_within_each() {
    let property =
        "Waiting requests leave in the order of their channel, the channels in turns, each request once.";
    // Two ids of each of two channels, of different lengths.
    let limits = Limits { max_waiting_requests: 2, max_waiting_bytes: 5, ..Limits::default() };
    let frame = |id: usize| Bytes::from(alloc::vec![b'x'; 3 + 2 * id]);
    exhaustive(property, "steps of 9 kinds on 2 channels, up to", [4, 5, 6], |most| {
        for_each_sequence(9, most, |steps| {
            let (mut backlog, mut channels) = (Backlog::new(), [WaitingRequests::default(); 2]);
            let mut turns: VecDeque<(usize, VecDeque<usize>)> = VecDeque::new();
            for step in steps {
                let (on, id) = (step / 2 % 2, step % 2);
                let at = turns.iter().position(|(other, _)| *other == on);
                match step {
                    0..=3 if at.is_none_or(|at| !turns[at].1.contains(&id)) => {
                        let request = RequestId::int(id as i64);
                        backlog.push(&mut channels[on], key(on), request, frame(id), &limits);
                        match at {
                            Some(at) => turns[at].1.push_back(id),
                            None => turns.push_back((on, [id].into())),
                        }
                    }
                    0..=3 => assert!(backlog.contains(channels[on], &RequestId::int(id as i64))),
                    // The removal of one request, of the first channel or of the second.
                    4..=6 => {
                        let known = at.is_some_and(|at| turns[at].1.contains(&id));
                        assert_eq!(backlog.remove(channels[on], &RequestId::int(id as i64)), known);
                        turns.iter_mut().filter(|(other, _)| *other == on).for_each(|(_, ids)| {
                            ids.retain(|other| *other != id);
                        });
                    }
                    // A turn without room for the channel, and one with.
                    _ => {
                        let mut expected = None;
                        if let Some((on, mut ids)) = turns.pop_front() {
                            if *step == 8 {
                                expected = ids.pop_front().map(|id| (key(on), frame(id)));
                            }
                            turns.push_back((on, ids));
                        }
                        assert_eq!(backlog.pop(|_| *step == 8), expected, "{steps:?}");
                    }
                }
                turns.retain(|(_, ids)| !ids.is_empty());
                for (on, of) in channels.iter().enumerate() {
                    let ids = turns.iter().find(|(other, _)| *other == on).map(|(_, ids)| ids);
                    let bytes: usize = ids.into_iter().flatten().map(|id| frame(*id).len()).sum();
                    let is_full = bytes >= limits.max_waiting_bytes || ids.is_some_and(|ids| ids.len() >= 2);
                    assert_eq!(
                        (backlog.is_empty(*of), backlog.is_full(*of, &limits)),
                        (ids.is_none(), is_full)
                    );
                }
            }
            for (on, of) in channels.iter().enumerate() {
                let ids = turns.iter().find(|(other, _)| *other == on).map(|(_, ids)| ids.clone());
                let ids = ids.unwrap_or_default().into_iter().map(|id| RequestId::int(id as i64));
                assert!(backlog.remove_all(*of).into_iter().eq(ids), "{steps:?}");
            }
        })
    });
}

#[test]
fn exhaustive_resource_is_watched_from_its_first_subscriber_to_its_last() {
    let property = "The first subscriber of a resource and the last one to go are reported, and a change finds all between.";
    let uris = ["x:1", "x:2"];
    exhaustive(property, "steps of 6 kinds of 2 listeners, up to", [4, 5, 6], |most| {
        for_each_sequence(12, most, |steps| {
            let mut subs = Subscriptions::new();
            let mut channels = [ChannelListeners::new(), ChannelListeners::new()];
            let mut keys: [Option<Key>; 2] = [None, None];
            let mut model: BTreeSet<(&str, usize)> = BTreeSet::new();
            let is_watched =
                |model: &BTreeSet<(&str, usize)>, uri: &str| model.iter().any(|(other, _)| *other == uri);
            for step in steps {
                let (who, uri) = (step / 6, uris[step % 2]);
                let of = &mut channels[who];
                match (step % 6, keys[who]) {
                    (0, open) => {
                        // The second one is a request, the first one a session.
                        let id = (who == 1).then(|| RequestId::int(7));
                        let lists = [TOOLS, TOOLS | PROMPTS][who];
                        let opened = subs.open(of, key(who), id, lists);
                        assert_eq!(opened.is_some(), open.is_none(), "{steps:?}");
                        keys[who] = open.or(opened);
                    }
                    (1, Some(open)) => {
                        let own: Vec<&str> =
                            uris.into_iter().filter(|uri| model.remove(&(*uri, who))).collect();
                        let mut ended = subs.close(of, open);
                        ended.sort_unstable();
                        let expected = own.into_iter().filter(|uri| !is_watched(&model, uri));
                        assert!(ended.iter().map(|uri| &**uri).eq(expected), "{steps:?}");
                        keys[who] = None;
                    }
                    (2 | 3, Some(open)) => {
                        let expected = (!is_watched(&model, uri)).then_some(uri);
                        assert_eq!(subs.subscribe(of, open, uri).as_deref(), expected, "{steps:?}");
                        model.insert((uri, who));
                    }
                    (_, Some(open)) => {
                        let was = model.remove(&(uri, who));
                        let expected = (was && !is_watched(&model, uri)).then_some(uri);
                        assert_eq!(subs.unsubscribe(of, open, uri).as_deref(), expected, "{steps:?}");
                    }
                    _ => {}
                }
            }
            let mut check = |change: &Change, expected: Vec<usize>| {
                let target = subs.find_target(change, &CustomLists::new());
                let mut interests = target.map(|target| subs.interests(target));
                let mut found: Vec<_> = core::iter::from_fn(|| subs.next(interests.as_mut()?))
                    .filter_map(|interest| subs.receiver(interest).map(|(channel, _)| channel.slot as usize))
                    .collect();
                found.sort_unstable();
                assert_eq!(found, expected, "{change:?} {steps:?}");
            };
            for uri in uris {
                let own = model.iter().filter(|(other, _)| *other == uri).map(|(_, who)| *who);
                check(&Change::Resource(uri.into()), own.collect());
            }
            check(&Change::Tools, (0..2).filter(|who| keys[*who].is_some()).collect());
            check(&Change::Prompts, (1..2).filter(|who| keys[*who].is_some()).collect());
            check(&Change::Resources, Vec::new());
            let uris: Vec<&str> = uris.into_iter().filter(|uri| is_watched(&model, uri)).collect();
            let mut watched: Vec<&str> = subs.uris().collect();
            watched.sort_unstable();
            assert_eq!(watched, uris);
            for (who, of) in channels.iter().enumerate() {
                let own = model.iter().filter(|(_, other)| *other == who).count();
                assert_eq!((of.len(), of.resource_count()), (usize::from(keys[who].is_some()), own));
            }
        })
    });
}

#[test]
fn exhaustive_change_is_reported_again_exactly_after_the_last_report_was_written() {
    let property = "A listener is told of each change, once until all reports that were sent are written.";
    exhaustive(
        property,
        "changes of 2 lists, writes of half or all of the output, up to",
        [7, 8, 10],
        |most| {
            for_each_sequence(4, most, |steps| {
                let (mut subs, mut of, custom) =
                    (Subscriptions::new(), ChannelListeners::new(), CustomLists::new());
                subs.open(&mut of, key(0), None, TOOLS | PROMPTS).expect("new");
                let mut sent = SentChanges::default();
                // Each report has ten bytes.
                let (mut produced, mut consumed) = (0_u64, 0_u64);
                let mut open = [false; 2];
                for step in steps {
                    match step {
                        0 | 1 => {
                            let change = [Change::Tools, Change::Prompts][*step].clone();
                            let target = subs.find_target(&change, &custom).expect("a list");
                            let interest = subs.next(&mut subs.interests(target)).expect("a listener");
                            // A report is open for its list until all reports were written.
                            if consumed == produced {
                                open = [false; 2];
                            }
                            sent.begin(consumed, usize::try_from(produced - consumed).expect("few"));
                            let is_told = !subs.was_notified(interest, sent.epoch());
                            assert_eq!(is_told, !core::mem::replace(&mut open[*step], true), "{steps:?}");
                            if is_told {
                                produced += 10;
                                sent.set_end(produced);
                                subs.mark_notified(interest, sent.epoch());
                            }
                        }
                        2 => consumed += (produced - consumed) / 2,
                        _ => consumed = produced,
                    }
                }
            })
        },
    );
}

#[test]
fn exhaustive_log_ends_with_the_newest_message_and_keeps_order_and_rate() {
    let property =
        "Log messages leave in order, each at most once, within the rate, and the newest one always.";
    let limits = Limits { progress_burst: 1, progress_rate: 1, ..Limits::default() };
    exhaustive(property, "messages, two lengths of time, and a full output, up to", [6, 7, 9], |most| {
        for_each_sequence(4, most, |steps| {
            let (mut log, mut now, mut timer, mut is_full) =
                (SessionLog::default(), Instant::ZERO, None, false);
            let (mut number, mut sent) = (0_u8, Vec::new());
            for step in steps.iter().copied().chain([4; 4]) {
                let unsent = if is_full && step != 4 { limits.outbox_high_water } else { 0 };
                let output = LogOutput { unsent, has_no_reader: false };
                let outcome = match step {
                    0 => {
                        number += 1;
                        log.push(now, &limits, output, alloc::vec![number])
                    }
                    3 => {
                        is_full = !is_full;
                        continue;
                    }
                    _ => {
                        now = now + Duration::from_millis([0, 300, 1_000, 0, 2_000][step]);
                        // The timer is set once, and fires once.
                        let Some(_) = timer.take_if(|at| *at <= now) else { continue };
                        log.handle_timeout(now, &limits, output)
                    }
                };
                match outcome {
                    LogOutcome::Send(message) => sent.push((now, message[0])),
                    LogOutcome::Deferred(at) => {
                        assert!(at.is_some() != timer.is_some(), "one timer: {steps:?}");
                        timer = timer.or(at);
                    }
                    LogOutcome::Dropped => panic!("dropped: {steps:?}"),
                }
            }
            assert_eq!(sent.last().map_or(0, |(_, last)| *last), number, "{steps:?}");
            assert!(sent.windows(2).all(|two| two[0].1 < two[1].1), "{steps:?}");
            let apart = |two: &[(Instant, u8)]| two[1].0.saturating_duration_since(two[0].0);
            assert!(sent.windows(2).all(|two| apart(two) >= Duration::from_secs(1)), "{steps:?}");
            assert_eq!(log.deferred_len(), 0);
        })
    });
}

#[test]
fn exhaustive_uris_that_are_watched_outlive_no_arc() {
    let property =
        "After all listeners have closed, in any order, a table of subscriptions holds no URI and no byte.";
    exhaustive(
        property,
        "subscriptions of 3 listeners to 2 resources, closed in each order, up to",
        [4, 5, 6],
        |most| {
            let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
            for_each_sequence(6, most, |steps| {
                for order in orders {
                    let (mut subs, mut of) = (Subscriptions::new(), ChannelListeners::new());
                    let keys = [0, 1, 2]
                        .map(|id| subs.open(&mut of, key(0), Some(RequestId::int(id)), TOOLS).expect("new"));
                    let mut started: Vec<Arc<str>> = Vec::new();
                    for step in steps {
                        started.extend(subs.subscribe(&mut of, keys[step / 2], ["x:1", "x:2"][step % 2]));
                    }
                    let mut ended: Vec<Arc<str>> = Vec::new();
                    order.iter().for_each(|who| ended.extend(subs.close(&mut of, keys[*who])));
                    started.sort_unstable();
                    ended.sort_unstable();
                    assert_eq!(started, ended, "{steps:?} {order:?}");
                    assert!(
                        started
                            .iter()
                            .zip(&ended)
                            .all(|(a, b)| Arc::strong_count(a) + Arc::strong_count(b) == 4)
                    );
                    assert_eq!((of.len(), of.resource_count(), subs.uris().count()), (0, 0, 0));
                }
            }) * orders.len() as u64
        },
    );
}
