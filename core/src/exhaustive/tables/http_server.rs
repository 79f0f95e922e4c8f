//! All short histories of the exchanges of a session, of its replay log, and of the counts of principals.

use super::exchange_table::{ExchangeTable, Kind, SessionPlace};
use super::principals::{PrincipalCounts, share_of_streams};
use super::resumption::{ReplayEntry, ReplayLog, UnwrittenEvent, UnwrittenEvents};
use crate::head::Fields;
use crate::memory::MemoryAccount;
use crate::server::{Authorization, Identity};
use crate::slab::Key;
use crate::slab::tree::Tree;
use crate::sync::Arc;
use crate::testing::{exhaustive, for_each_sequence};
use crate::time::Instant;
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

/// An open exchange, as the model has it.
#[derive(Clone, Copy)]
struct Opened {
    key: Key,
    number: u32,
    is_call: bool,
    is_stream: bool,
    is_gone: bool,
    is_queued: bool,
    is_complete: bool,
    check_at: u64,
}

/// The exchanges of one session beside a model of them: lists in the order of opening, of the output, and of silence.
struct Exchanges {
    table: ExchangeTable,
    index: Tree,
    open: Vec<Opened>,
    ready: Vec<Key>,
    quiet: Vec<Key>,
    stale: Vec<Key>,
    last_number: u32,
    /// The last exchange was removed, so memory is to be released.
    was_emptied: bool,
}

impl Exchanges {
    const MOST: usize = 3;
    /// Those of [`step`](Self::step).
    const STEPS: usize = 3 + 5 * Self::MOST;

    fn new() -> Self {
        let mut table = ExchangeTable::new(2);
        table.count_principals();
        let (open, ready, quiet, stale) = Default::default();
        Self { table, index: Tree::new(), open, ready, quiet, stale, last_number: 0, was_emptied: false }
    }

    /// Opens an exchange with a place in the session. Calls are of alice, streams of bob, whose token expires.
    fn open(&mut self, kind: Kind, number: u32) -> usize {
        let (now, is_stream) = (Instant::ZERO, kind == Kind::Get && number > self.last_number);
        let key = self.table.open(kind, now);
        assert!(self.open.iter().all(|x| x.key != key) && !self.stale.contains(&key));
        // A later one is checked earlier, and a token expires before all checks.
        let age = (self.open.len() + self.stale.len()) as u64;
        let (check, expires) = (1_000 - age, 500 - age);
        let party = Authorization::new(Identity::new(if is_stream { "bob" } else { "alice" }));
        self.table.set_authorization(key, party, Some(Instant::from_micros(expires)));
        self.table.set_open_ended(key, is_stream);
        self.table.schedule_check(Instant::from_micros(check), key);
        self.set_number(key, number);
        if is_stream {
            self.quiet.push(key);
        }
        self.last_number = self.last_number.max(number);
        self.open.push(Opened {
            key,
            number,
            is_call: false,
            is_stream,
            is_gone: false,
            is_queued: false,
            is_complete: false,
            check_at: if is_stream { expires } else { check },
        });
        self.open.len() - 1
    }

    fn set_number(&mut self, key: Key, number: u32) {
        self.table.set_place(key, SessionPlace { session: None, number, is_call: false });
        self.table.index(&mut self.index, key);
    }

    fn queue(&mut self, at: usize) {
        let x = &mut self.open[at];
        if !x.is_gone && !x.is_queued {
            x.is_queued = true;
            self.ready.push(x.key);
        }
    }

    /// Ends the response of an exchange, and its call or stream.
    fn answer(&mut self, at: usize) {
        let Opened { key, is_call, .. } = self.open[at];
        if is_call {
            self.table.end_call(Some(&mut self.index), key);
        }
        self.table.set_open_ended(key, false);
        self.table.answer_empty(key, 202, Fields::new());
        self.quiet.retain(|other| *other != key);
        let x = &mut self.open[at];
        (x.is_call, x.is_stream, x.is_complete) = (false, false, true);
        self.queue(at);
    }

    /// Takes a step, and returns whether it can be taken.
    fn step(&mut self, step: usize) -> bool {
        let has_room = self.open.len() < Self::MOST;
        if step < 3 {
            match step {
                0 if has_room => {
                    let at = self.open(Kind::Post, self.last_number + 1);
                    self.table.begin_call(&mut self.index, self.open[at].key);
                    self.open[at].is_call = true;
                }
                1 if has_room => _ = self.open(Kind::Get, self.last_number + 1),
                2 if !self.ready.is_empty() => {
                    let key = self.ready.remove(0);
                    self.open.iter_mut().filter(|x| x.key == key).for_each(|x| x.is_queued = false);
                    assert_eq!(self.table.pop_ready(), Some(key));
                }
                _ => return false,
            }
            return true;
        }
        let (action, at) = ((step - 3) / Self::MOST, (step - 3) % Self::MOST);
        let Some(x) = self.open.get(at).copied() else { return false };
        match action {
            0 if !x.is_complete => self.answer(at),
            // A message is written.
            1 if !x.is_complete => {
                self.table.record_activity(x.key);
                self.table.mark_ready(x.key);
                if x.is_stream {
                    self.quiet.retain(|key| *key != x.key);
                    self.quiet.push(x.key);
                }
                self.queue(at);
            }
            2 if !x.is_gone => {
                self.open[at].is_gone = true;
                self.table.get_mut(x.key).expect("it is open").mark_client_gone();
            }
            // Another exchange takes the stream of this number, and the call if that has not ended.
            3 if has_room && !x.is_stream => {
                let holder = self.open.iter().position(|other| other.is_call && other.number == x.number);
                let found = self.table.find_call(&mut self.index, x.number);
                assert_eq!(found, holder.map(|at| self.open[at].key));
                let new = self.open(Kind::Get, x.number);
                if let Some(holder) = holder {
                    self.answer(holder);
                    self.table.begin_call(&mut self.index, self.open[new].key);
                    self.open[new].is_call = true;
                } else {
                    self.answer(new);
                }
            }
            4 => {
                self.remove(at);
            }
            _ => return false,
        }
        true
    }

    fn remove(&mut self, at: usize) {
        let Opened { key, .. } = self.open.remove(at);
        self.table.unindex(Some(&mut self.index), key);
        self.table.remove(Instant::ZERO, key);
        self.ready.retain(|other| *other != key);
        self.quiet.retain(|other| *other != key);
        self.stale.push(key);
        self.was_emptied |= self.open.is_empty();
    }

    /// Compares the table with the model, then empties it.
    fn check(mut self, steps: &[usize]) {
        let table = &mut self.table;
        // A stale key changes no exchange.
        for key in &self.stale {
            table.mark_ready(*key);
            table.set_open_ended(*key, true);
            table.record_activity(*key);
            table.begin_call(&mut self.index, *key);
            table.remove(Instant::ZERO, *key);
            assert!(table.get(*key).is_none() && !table.is_indexed(*key), "{steps:?}");
        }
        assert_eq!(table.len(), self.open.len(), "{steps:?}");
        for x in &self.open {
            let found = table.get(x.key).expect("it is open");
            let place = found.place();
            assert_eq!(
                (place.number, place.is_call, found.is_client_gone(), found.is_open_ended()),
                (x.number, x.is_call, x.is_gone, x.is_stream),
                "{steps:?}"
            );
            assert_eq!(found.is_live(), !x.is_gone && !x.is_complete, "{steps:?}");
        }
        for number in 1..=self.last_number {
            let mut of_number = self.open.iter().filter(|x| x.number == number);
            let call = of_number.clone().find(|x| x.is_call).map(|x| x.key);
            assert_eq!(table.find_call(&mut self.index, number), call, "{steps:?}");
            let stream = table.find_stream(&mut self.index, number);
            let is_of_number = |key| of_number.any(|x| x.key == key);
            assert!(stream.map_or_else(|| call.is_none(), is_of_number), "{steps:?}");
        }
        let mut places = self.open.clone();
        places.sort_by_key(|x| (x.number, !x.is_call, x.key.slot));
        assert!(table.indexed(&self.index).into_iter().eq(places.iter().map(|x| x.key)), "{steps:?}");
        let streams = self.open.iter().filter(|x| x.is_stream);
        assert_eq!(table.has_room_for_open_ended(), streams.clone().count() < 2, "{steps:?}");
        let is_here = |key: &&Key| self.open.iter().any(|x| x.key == **key && !x.is_gone);
        let quietest = self.quiet.iter().find(is_here).copied();
        assert_eq!((table.quietest(None), table.quietest(Some("bob"))), (quietest, quietest), "{steps:?}");
        assert_eq!(table.count_of("alice") + table.count_of("bob"), self.open.len(), "{steps:?}");
        let check = self.open.iter().filter(|x| !x.is_gone && !x.is_complete).map(|x| x.check_at).min();
        let trim = self.was_emptied.then_some(1_000_000);
        let next = check.into_iter().chain(trim).min().map(Instant::from_micros);
        assert_eq!(table.next_deadline(), next, "{steps:?}");
        while let Some(key) = table.pop_ready() {
            assert!(!self.ready.is_empty() && self.ready.remove(0) == key, "{steps:?}");
        }
        assert!(self.ready.is_empty() && !table.has_ready(), "{steps:?}");

        while !self.open.is_empty() {
            self.remove(0);
        }
        if let Some(at) = self.table.next_deadline() {
            self.table.trim_if_due(at);
        }
        assert_eq!((self.table.capacity(), self.table.next_deadline()), (0, None), "{steps:?}");
    }
}

/// Checks all sequences of steps that begin with these, and returns how many there are.
fn check_exchanges(taken: &mut Vec<usize>, longest: usize) -> u64 {
    let mut count = 0;
    for step in 0..Exchanges::STEPS {
        let mut exchanges = Exchanges::new();
        assert!(taken.iter().all(|earlier| exchanges.step(*earlier)));
        if exchanges.step(step) {
            taken.push(step);
            exchanges.check(taken);
            count += 1;
            if taken.len() < longest {
                count += check_exchanges(taken, longest);
            }
            taken.pop();
        }
    }
    count
}

#[test]
fn exhaustive_exchange_is_found_by_its_key_and_number_until_it_is_removed() {
    let property = "An exchange has its place, its turn and its deadline until it is removed, whatever its slot held before.";
    exhaustive(
        property,
        "calls, streams, messages, answers, disconnections, resumptions and removals of 3 exchanges, up to",
        [4, 5, 8],
        |most| check_exchanges(&mut Vec::new(), most),
    );
}
