//! Tests of the table of tasks: against its document.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::entry::{Owner, Question, TaskOutcome, TaskRequest, TaskState};
use super::requests::{parse_cursor, write_cursor};
use super::store::{Milestone, StoreEffect};
use super::table::{NewTask, TaskLimits, TaskTable, error_outcome};
use crate::entropy::Entropy;
use crate::error::{CallError, UseError};
use crate::limits::Limit;
use crate::memory::MemoryAccount;
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::slab::Key;
use crate::time::{Anchor, Instant};
use crate::version::Version;

const DOCUMENT: &str = include_str!("../../../docs/tasks.md");
pub(super) const LEGACY: Version = Version::V2025_11_25;
pub(super) const MODERN: Version = Version::V2026_07_28;
const UNIX: u64 = 1_785_578_400;

pub(super) fn at(secs: u64) -> Instant {
    Instant::from_micros(secs * 1_000_000)
}

pub(super) fn table(nonce: u64, stored: bool) -> TaskTable {
    let table = TaskTable::new(Entropy::new([7; 32], nonce), Anchor::new(Instant::ZERO, UNIX));
    if stored { table.stored() } else { table }
}

pub(super) fn request() -> TaskRequest {
    TaskRequest { params: (*b"{\"name\":\"t\"}").into(), ..TaskRequest::default() }
}

fn question(name: &str) -> Question {
    Question {
        name: name.into(),
        key: None,
        method: crate::methods::ELICIT,
        params: (*b"{}").into(),
        answer: None,
        asked: None,
    }
}

pub(super) fn asking(names: &[&str]) -> TaskRequest {
    let mut request = request();
    request.questions = names.iter().map(|name| question(name)).collect();
    request
}

pub(super) fn new_task(version: Version, owner: Owner) -> NewTask {
    NewTask {
        version,
        owner,
        ttl: None,
        poll_interval: None,
        message: None,
        session: None,
        request: Some(request()),
    }
}

pub(super) fn alice() -> Owner {
    Owner::Principal("alice".into())
}

pub(super) fn result(text: &[u8], failed: bool) -> TaskOutcome {
    TaskOutcome::Result(text.into(), failed)
}

/// Carries out the next effect of the store.
pub(super) fn save(table: &mut TaskTable, is_ok: bool) -> Milestone {
    match table.poll_store() {
        Some(StoreEffect::Save { id, version, .. }) => table.handle_saved(Instant::ZERO, &id, version, is_ok),
        _ => Milestone::Nothing,
    }
}

/// Creates a task in a state, as the document names it, and leaves what is to be saved.
pub(super) fn in_state(state: &str, outcome: &str, version: Version) -> (TaskTable, Key) {
    let mut table = table(0, true);
    let key = table.create(Instant::ZERO, new_task(version, alice())).expect("room");
    let order = ["Creating", "Queued", "Starting", "Running"];
    let reached = order.iter().position(|name| *name == state).unwrap_or(order.len() - 1);
    for step in 0..reached {
        match step {
            0 => assert_eq!(save(&mut table, true), Milestone::Created(key)),
            1 => assert_eq!(table.take_turn(), None),
            _ => assert_eq!(save(&mut table, true), Milestone::Started(key)),
        }
    }
    match (state, outcome) {
        ("Asking", _) => table.suspend(Instant::ZERO, key, asking(&["a", "b"])).expect("room"),
        ("Ending" | "Ended", "error") => {
            table.finish(Instant::ZERO, key, error_outcome(&RpcError::internal("x")));
        }
        ("Ending" | "Ended", "cancelled") => _ = table.cancel(Instant::ZERO, key),
        ("Ending" | "Ended", outcome) => {
            table.finish(Instant::ZERO, key, result(b"{}", outcome == "tool failure"));
        }
        _ => {}
    }
    if state == "Ended" {
        assert_eq!(save(&mut table, true), Milestone::Ended(key));
    }
    assert_eq!(state_of(&table, key), state);
    (table, key)
}

fn state_of(table: &TaskTable, key: Key) -> &'static str {
    match table.get(key).map(|task| (task.state, task.has_ended())) {
        None => "removed",
        Some((TaskState::Creating, _)) => "Creating",
        Some((TaskState::Queued, _)) => "Queued",
        Some((TaskState::Starting, _)) => "Starting",
        Some((TaskState::Running, _)) => "Running",
        Some((TaskState::Asking, _)) => "Asking",
        Some((_, false)) => "Ending",
        Some((_, true)) => "Ended",
    }
}

/// Applies an event of the document.
fn apply(table: &mut TaskTable, key: Key, event: &str) {
    let now = Instant::ZERO;
    let answer = || Ok(RawJson::new("{}").expect("JSON"));
    match event {
        "saved" | "save failed" => apply_save(table, key, event == "saved"),
        "turn" => _ = table.take_turn(),
        "asks" => _ = table.suspend(now, key, asking(&["c", "d"])),
        "answer" => _ = table.answer(now, key, 0, answer()),
        "last answer" => {
            _ = table.answer(now, key, 0, answer());
            _ = table.answer(now, key, 1, answer());
        }
        "result" => _ = table.finish(now, key, result(b"{}", false)),
        "error" => _ = table.finish(now, key, error_outcome(&RpcError::internal("x"))),
        "cancel" => _ = table.cancel(now, key),
        "message" => _ = table.set_message(now, key, "half"),
        "expiry" => {
            assert_eq!(table.next_expired(at(3_599)), None);
            assert_eq!(table.next_expired(at(3_600)), Some(key));
            table.remove(key);
        }
        other => panic!("unknown event `{other}`"),
    }
    table.check_sums();
}

/// Saves a task. In a state that waits for nothing, a new message is to be saved.
fn apply_save(table: &mut TaskTable, key: Key, is_ok: bool) {
    if table.is_saved() {
        table.set_message(Instant::ZERO, key, "again");
    }
    let has_ended = table.get(key).is_some_and(|task| task.has_ended());
    let Some(StoreEffect::Save { id, version, .. }) = table.poll_store() else {
        return assert!(has_ended, "nothing is to be saved");
    };
    assert!(!has_ended, "the outcome is saved twice");
    assert!(table.poll_store().is_none(), "two saves at once");
    let milestone = table.handle_saved(Instant::ZERO, &id, version, is_ok);
    if milestone == Milestone::NotCreated(key) {
        table.remove(key);
        return;
    }
    assert_eq!(table.get(key).map(|task| task.saved == version), Some(is_ok));
    if !is_ok {
        assert_eq!(milestone, Milestone::Nothing);
        table.retry_store(Instant::from_micros(499_999));
        assert!(table.poll_store().is_none(), "it waits half a second");
        table.retry_store(Instant::from_micros(500_000));
        let again = table.poll_store();
        assert!(
            matches!(again, Some(StoreEffect::Save { version: other, .. }) if other == version),
            "{again:?}"
        );
    }
}

/// Returns the rows of a table of the document, by its heading.
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let part = DOCUMENT.split("\n## ").find(|part| part.starts_with(heading)).expect("the heading");
    let lines = part.lines().filter(|line| line.starts_with('|') && !line.starts_with("|--"));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

// covers: TASK-013, TASK-029, TASK-109
#[test]
fn transitions_are_those_of_the_document() {
    let table = rows("Transitions");
    let (head, rows) = table.split_first().expect("a table");
    assert_eq!((rows.len(), head.len()), (7, 12), "each state and each event");
    for version in [LEGACY, MODERN] {
        for row in rows {
            for (event, cell) in head.iter().zip(row).skip(1) {
                let outcomes: &[&str] = if row[0].starts_with("End") {
                    &["result", "tool failure", "error", "cancelled"]
                } else {
                    &[""]
                };
                for outcome in outcomes {
                    let (mut table, key) = in_state(row[0], outcome, version);
                    let before = table.get(key).map(|task| (task.revision, task.status()));
                    apply(&mut table, key, event);
                    let expected = if ["", "="].contains(cell) { row[0] } else { cell };
                    assert_eq!(state_of(&table, key), expected, "{} + {event}", row[0]);
                    if cell.is_empty() {
                        let after = table.get(key).map(|task| (task.revision, task.status()));
                        assert_eq!(before, after, "{} + {event} has no effect", row[0]);
                    }
                }
            }
        }
    }
}

// covers: TASK-013
#[test]
fn tasks_without_a_store_skip_the_states_that_wait_for_it() {
    let skip = |state| match state {
        "Creating" => "Queued",
        "Starting" => "Running",
        "Ending" => "Ended",
        state => state,
    };
    for version in [LEGACY, MODERN] {
        let mut table = table(0, false);
        let key = table.create(Instant::ZERO, new_task(version, Owner::Holder)).expect("room");
        let rows = rows("Transitions");
        let (head, rows) = rows.split_first().expect("a table");
        let mut state = skip("Creating");
        for event in [
            "message",
            "turn",
            "asks",
            "answer",
            "last answer",
            "turn",
            "message",
            "result",
            "cancel",
            "message",
        ] {
            assert_eq!(state_of(&table, key), state, "before {event}");
            let column = head.iter().position(|name| *name == event).expect("the event");
            let cell = rows.iter().find(|row| row[0] == state).expect("the state")[column];
            if !["", "="].contains(&cell) {
                state = skip(cell);
            }
            apply(&mut table, key, event);
            assert_eq!(state_of(&table, key), state, "after {event}");
        }
        assert!(table.poll_store().is_none() && table.is_saved());
    }
}

// covers: TASK-013, TASK-032, TASK-112, TASK-113
#[test]
fn status_is_that_of_the_document() {
    let table = rows("Status");
    assert_eq!(table[1..].len(), 10);
    for row in &table[1..] {
        for (version, expected) in [(LEGACY, row[2]), (MODERN, row[3])] {
            let (table, key) = in_state(row[0], row[1], version);
            let status = table.get(key).and_then(|task| task.status());
            let status = status.map_or_else(|| String::from("unknown"), |status| status.to_string());
            assert_eq!(status, expected, "{} {} in {version}", row[0], row[1]);
        }
    }
}

#[test]
fn error_in_place_of_an_answer_needs_no_memory() {
    let (mut table, key) = in_state("Asking", "", LEGACY);
    let account = MemoryAccount::new(64 << 10, false);
    table.charge.attach(&account);
    let mut others = account.open();
    others.follow(1 << 20);
    let answer = Ok(RawJson::new("{}").expect("JSON"));
    assert_eq!(table.answer(Instant::ZERO, key, 0, answer), Err(UseError::Full(Limit::Memory)));
    // Otherwise the handler would wait without end.
    for (at, is_last) in [(0, false), (1, true)] {
        let error = Err(CallError::TooLarge { limit: 0 });
        assert_eq!(table.answer(Instant::ZERO, key, at, error), Ok(is_last));
    }
}

/// Returns the state after an event by the document, of a table without a store as well.
fn next_state(
    transitions: &[Vec<&'static str>],
    state: &'static str,
    event: &str,
    stored: bool,
) -> &'static str {
    let column = transitions[0].iter().position(|name| *name == event).expect("the event");
    let Some(row) = transitions.iter().find(|row| row[0] == state) else { return state };
    match row[column] {
        "" | "=" => state,
        "Starting" if !stored => "Running",
        "Ending" if !stored => "Ended",
        next => next,
    }
}

/// Saves what is to be saved of a task, in whatever state it is, also again after failures.
fn save_whatever_is_due(table: &mut TaskTable, key: Key, is_ok: bool) {
    table.retry_store(at(60));
    while let Some(StoreEffect::Save { id, version, .. }) = table.poll_store() {
        if table.handle_saved(Instant::ZERO, &id, version, is_ok) == Milestone::NotCreated(key) {
            table.remove(key);
        }
        if !is_ok {
            break;
        }
    }
}

// covers: TASK-013, TASK-029, TASK-032, TASK-109, TASK-112, TASK-113
#[test]
fn exhaustive_task_has_the_state_and_status_of_the_document_after_any_events() {
    let (transitions, statuses) = (rows("Transitions"), rows("Status"));
    let starts = statuses[1..].iter().map(|row| (row[0], row[1], true)).chain([("Queued", "", false)]);
    let starts: Vec<_> = starts.collect();
    crate::testing::exhaustive(
        "A task has the state and the status of core/docs/tasks.md after any events, and shows none of an end that is not stored.",
        "events of 11 kinds from each state, both eras, with and without a store, up to",
        [2, 3, 4],
        |most| {
            let events = &transitions[0][1..];
            let mut cases = 0;
            for (begin, of, stored) in &starts {
                for version in [LEGACY, MODERN] {
                    cases += crate::testing::for_each_sequence(events.len(), most, |sequence| {
                        let (mut table, key) = if *stored {
                            in_state(begin, of, version)
                        } else {
                            let mut table = table(0, false);
                            let key = table.create(Instant::ZERO, new_task(version, alice())).expect("room");
                            (table, key)
                        };
                        let (mut state, mut outcome) = (*begin, *of);
                        for event in sequence.iter().map(|at| events[*at]) {
                            match event {
                                "saved" | "save failed" => {
                                    save_whatever_is_due(&mut table, key, event == "saved");
                                }
                                "expiry" if state == "removed" => {
                                    assert_eq!(table.next_expired(at(3_600)), None, "{sequence:?}");
                                }
                                event => apply(&mut table, key, event),
                            }
                            let next = if *stored || !event.starts_with("save") {
                                next_state(&transitions, state, event, *stored)
                            } else {
                                state
                            };
                            if next != state && next.starts_with("End") && outcome.is_empty() {
                                outcome = if event == "cancel" { "cancelled" } else { event };
                            }
                            state = next;
                        }
                        let context = || alloc::format!("{begin} {of} {stored} {version} {sequence:?}");
                        assert_eq!(state_of(&table, key), state, "{}", context());
                        let row = statuses
                            .iter()
                            .find(|row| row[0] == state && (row[1] == outcome || state == "Ending"));
                        let expected = row.map(|row| row[if version == LEGACY { 2 } else { 3 }]);
                        let status = table.get(key).map(|task| {
                            task.status().map_or_else(|| "unknown".to_string(), |s| s.to_string())
                        });
                        assert_eq!(status.as_deref(), expected, "{}", context());
                        table.check_sums();
                    });
                }
            }
            cases
        },
    );
}

// covers: TASK-016, TASK-017
#[test]
fn times_of_a_task_are_those_asked_for_within_the_limits() {
    let (default, most, poll) =
        (Duration::from_secs(20), Duration::from_secs(50), Duration::from_millis(250));
    let limits = TaskLimits::new().default_ttl(default).max_ttl(most).poll_interval(poll);
    let mut table = table(0, false).limits(limits);
    let second = Duration::from_secs(1);
    for (ttl, poll_interval, expected) in [
        (None, None, (20_000, 250)),
        (Some(most), Some(poll + second), (50_000, 1_250)),
        (Some(most + second), None, (50_000, 250)),
    ] {
        let new = NewTask { ttl, poll_interval, ..new_task(LEGACY, alice()) };
        let key = table.create(at(100), new).expect("room");
        let task = table.get(key).expect("a task");
        assert_eq!((task.head.ttl_millis, task.head.poll_millis), expected, "{ttl:?}");
        assert_eq!(task.head.expires_at, at(100) + Duration::from_millis(expected.0));
    }
}

fn listed(table: &mut TaskTable, now: Instant, version: Version, after: Option<(u32, Key)>) -> Vec<Key> {
    table.list(now, &alice(), version, after).map(|(key, _)| key).collect()
}

// covers: TASK-026, TASK-034
#[test]
fn list_goes_on_after_a_position_also_if_its_task_is_gone_or_foreign() {
    let mut table = table(0, false);
    let mut create = |owner| table.create(Instant::ZERO, new_task(LEGACY, owner)).expect("room");
    let foreign = create(Owner::Principal("bob".into()));
    create(Owner::Principal("bob".into()));
    let keys: Vec<Key> = (0..5).map(|_| create(alice())).collect();
    table.remove(keys[2]);
    let left = [keys[0], keys[1], keys[3], keys[4]];
    for (after, rest) in [
        (None, &left[..]),
        (Some((0, keys[0])), &left[1..]),
        (Some((1, keys[1])), &left[2..]),
        (Some((2, keys[2])), &left[2..]),
        (Some((2, foreign)), &left[2..]),
        (Some((3, foreign)), &left[3..]),
        (Some((4, keys[4])), &[]),
        (Some((9, foreign)), &[]),
    ] {
        assert_eq!(listed(&mut table, Instant::ZERO, LEGACY, after), rest, "{after:?}");
    }
}

// covers: TASK-026
#[test]
fn list_has_tasks_of_its_revision_that_are_created_and_have_not_expired() {
    let mut table = table(0, true);
    let mut create = |version, secs| {
        let ttl = Some(Duration::from_secs(secs));
        table.create(Instant::ZERO, NewTask { ttl, ..new_task(version, alice()) }).expect("room")
    };
    let (short, modern, long) = (create(LEGACY, 5), create(MODERN, 60), create(LEGACY, 60));
    while save(&mut table, true) != Milestone::Nothing {}
    table.create(Instant::ZERO, new_task(LEGACY, alice())).expect("room");
    for (now, version, expected) in [
        (at(4), LEGACY, &[short, long][..]),
        (at(5), LEGACY, &[long]),
        (at(4), MODERN, &[modern]),
        (at(60), LEGACY, &[]),
    ] {
        assert_eq!(listed(&mut table, now, version, None), expected, "{now} {version}");
    }
}

// covers: PAGE-010, PAGE-011
#[test]
fn exhaustive_cursor_of_tasks_is_refused_or_names_the_tasks_of_its_owner_behind_a_number() {
    const PIECES: [&str; 7] = ["0", "1", "2", "3", ".", "+", "9"];
    crate::testing::exhaustive(
        "A cursor of tasks is the one text for its position, behind which are the later tasks of whoever asks, and no others.",
        "texts of 7 pieces, and every change of one character of 4 cursors, up to a length of",
        [4, 6, 7],
        |longest| {
            let mut table = table(0, false);
            let bob = Owner::Principal("bob".into());
            let create = |table: &mut TaskTable, owner: &Owner| {
                let key = table.create(Instant::ZERO, new_task(LEGACY, owner.clone())).expect("room");
                (table.get(key).expect("a task").number, key)
            };
            let gone = create(&mut table, &alice());
            let tasks = [alice(), bob.clone(), alice(), bob].map(|owner| (create(&mut table, &owner), owner));
            table.remove(gone.1);
            // It takes the slot of the one that is gone.
            let last = (create(&mut table, &alice()), alice());
            let tasks: Vec<((u32, Key), Owner)> = tasks.into_iter().chain([last]).collect();
            let mut read = 0;
            let mut check = |text: &str| {
                let Some(position) = parse_cursor(text) else { return };
                read += 1;
                assert_eq!(write_cursor(position.0, position.1), text);
                let found: Vec<Key> =
                    table.list(Instant::ZERO, &alice(), LEGACY, Some(position)).map(|(key, _)| key).collect();
                let own =
                    tasks.iter().filter(|((number, _), owner)| *owner == alice() && *number > position.0);
                assert!(own.map(|((_, key), _)| *key).eq(found), "{text}");
            };
            let mut count = crate::exhaustive::for_each_str(&PIECES, longest, &mut check);
            for (number, key) in tasks.iter().map(|(position, _)| *position).chain([gone]) {
                let cursor = write_cursor(number, key);
                check(&cursor);
                for (at, byte) in (0..cursor.len()).flat_map(|at| (0..0x80_u8).map(move |byte| (at, byte))) {
                    let (before, after) = cursor.split_at(at);
                    check(&alloc::format!("{before}{}{after}", char::from(byte)));
                    check(&alloc::format!("{before}{}{}", char::from(byte), &after[1..]));
                    count += 2;
                }
            }
            assert!(read > 0);
            count
        },
    );
}

// covers: TASK-012, TASK-034, TASK-131
#[test]
fn task_is_found_by_its_owner_in_its_revision_until_it_expires() {
    let mut table = table(0, false);
    let bob = Owner::Principal("bob".into());
    let session = Owner::Session(Key { slot: 3, generation: 0 });
    for (owner, others) in
        [(alice(), [&bob, &session, &Owner::Holder]), (session.clone(), [&bob, &alice(), &Owner::Holder])]
    {
        let key = table.create(Instant::ZERO, new_task(LEGACY, owner.clone())).expect("room");
        let id = table.get(key).expect("a task").head.id.text();
        assert_eq!(table.find(Instant::ZERO, &id, &owner, LEGACY), Some(key));
        assert_eq!(table.find(Instant::ZERO, &id, &owner, MODERN), None);
        assert_eq!(table.find(at(3_600), &id, &owner, LEGACY), None);
        for other in others {
            assert_eq!(table.find(Instant::ZERO, &id, other, LEGACY), None);
        }
        assert_eq!(table.list(Instant::ZERO, &owner, LEGACY, None).count(), 1);
        assert_eq!(table.list(Instant::ZERO, &bob, LEGACY, None).count(), 0);
    }
    let key = table.create(Instant::ZERO, new_task(MODERN, Owner::Holder)).expect("room");
    let id = table.get(key).expect("a task").head.id.text();
    assert_eq!(table.find(Instant::ZERO, &id, &bob, MODERN), Some(key), "whoever knows the id");
}
