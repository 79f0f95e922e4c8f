//! Tests of what a store is asked to do, and of the records that it gets.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use super::entry::{TaskOutcome, TaskState};
use super::record::{STATES, TaskRecordError, encode};
use super::store::{Detail, Milestone, StoreEffect, write_members};
use super::table::TaskTable;
use super::table_tests::{LEGACY, MODERN, at, in_state, request, result, table};
use crate::model::TaskId;
use crate::slab::Key;
use crate::time::Instant;

/// Reports the outcome of the next effect.
fn report(table: &mut TaskTable, now: Instant, is_ok: bool) {
    match table.poll_store().expect("something to do") {
        StoreEffect::Save { id, version, .. } => _ = table.handle_saved(now, &id, version, is_ok),
        StoreEffect::Delete { id, version } => table.handle_deleted(now, &id, version, is_ok),
    }
}

#[test]
fn changes_of_a_task_are_saved_one_at_a_time_and_the_last_one_always() {
    let (mut table, key) = in_state("Running", "", MODERN);
    let change = |table: &mut TaskTable, step: u32| {
        assert!(table.set_message(Instant::ZERO, key, &step.to_string()));
    };
    (0..100).for_each(|step| change(&mut table, step));
    assert_eq!(table.store.as_ref().map(|store| store.unsaved.len()), Some(1), "once, whatever changes");
    let Some(StoreEffect::Save { id, version: first, .. }) = table.poll_store() else { panic!("a save") };
    (100..200).for_each(|step| change(&mut table, step));
    assert!(table.poll_store().is_none(), "two saves at once");
    let of_none = |table: &mut TaskTable, version| {
        for is_ok in [true, false] {
            assert_eq!(table.handle_saved(Instant::ZERO, &id, version, is_ok), Milestone::Nothing);
            assert!(table.poll_store().is_none(), "{version} is not under way");
        }
    };
    [0, first - 1, first + 1].into_iter().for_each(|version| of_none(&mut table, version));
    table.handle_saved(Instant::ZERO, &id, first, true);
    let Some(StoreEffect::Save { version: last, .. }) = table.poll_store() else { panic!("a save") };
    assert_eq!(table.get(key).map(|task| task.revision), Some(last));
    assert!(!table.is_saved());
    table.handle_saved(Instant::ZERO, &id, last, true);
    [0, first, last].into_iter().for_each(|version| of_none(&mut table, version));
    assert!(table.is_saved());
}

#[test]
fn operations_that_fail_are_tried_again_after_half_a_second_to_32() {
    for is_deletion in [false, true] {
        let (mut table, key) = in_state("Running", "", MODERN);
        let mut now = at(1);
        let change = |table: &mut TaskTable, now: Instant| {
            if is_deletion {
                table.remove(key).is_some()
            } else {
                table.set_message(now, key, &now.to_string())
            }
        };
        assert!(change(&mut table, now));
        for millis in [500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 32_000, 32_000] {
            report(&mut table, now, false);
            // A change does not hasten it.
            assert_eq!(change(&mut table, now + Duration::from_micros(1)), !is_deletion);
            let again = now + Duration::from_millis(millis);
            assert_eq!(table.next_deadline(), Some(again), "{now}");
            table.retry_store(now + Duration::from_micros(millis * 1_000 - 1));
            assert!(table.poll_store().is_none() && !table.is_saved());
            table.retry_store(again);
            now = again;
        }
        report(&mut table, now, true);
        assert!(table.is_saved());
        // After a success it begins anew.
        assert_eq!(change(&mut table, now), !is_deletion);
        if !is_deletion {
            report(&mut table, now, false);
            assert_eq!(table.next_deadline(), Some(now + Duration::from_millis(500)));
        }
    }
}

#[test]
fn store_has_everything_when_its_deletions_are_carried_out() {
    let (mut table, key) = in_state("Running", "", MODERN);
    assert!(table.is_saved());
    table.remove(key);
    assert!(!table.is_saved(), "the deletion waits");
    let Some(StoreEffect::Delete { id, version }) = table.poll_store() else { panic!("a deletion") };
    assert!(!table.is_saved(), "it is under way");
    table.handle_deleted(Instant::ZERO, &id, version, true);
    assert!(table.is_saved());
}

#[test]
fn effect_shows_the_size_of_its_record_alone() {
    let (mut table, key) = in_state("Creating", "", LEGACY);
    let effect = table.poll_store().expect("a save");
    let StoreEffect::Save { id, version, record } = &effect else { panic!("{effect:?}") };
    assert_eq!(
        format!("{effect:?}"),
        format!("Save {{ id: TaskId(…), version: 1, bytes: {} }}", record.len())
    );
    table.handle_saved(Instant::ZERO, id, *version, true);
    table.remove(key);
    let effect = table.poll_store().expect("a deletion");
    assert_eq!(format!("{effect:?}"), "Delete { id: TaskId(…), version: 2 }");
}

// covers: TASK-032, TASK-113
#[test]
fn message_of_a_failed_task_is_its_reason_once_clients_see_the_failure() {
    let tool = "the tool reported a failure";
    for (state, outcome, legacy, modern) in [
        ("Ending", "error", None, None),
        ("Ended", "error", Some("x"), Some("x")),
        ("Ending", "tool failure", None, None),
        ("Ended", "tool failure", Some(tool), None),
        ("Ended", "result", None, None),
        ("Ended", "cancelled", None, None),
    ] {
        for (version, expected) in [(LEGACY, legacy), (MODERN, modern)] {
            let (table, key) = in_state(state, outcome, version);
            let mut text = Vec::from(*b"{");
            write_members(&mut text, table.get(key).expect("a task"), Detail::Bare);
            text.push(b'}');
            let task: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
            let message = task.get("statusMessage").and_then(|message| message.as_str());
            assert_eq!(message, expected, "{state} {outcome} {version}");
        }
    }
}

/// Loads a record into an empty table.
fn load(id: &TaskId, record: &[u8]) -> Result<Option<Key>, TaskRecordError> {
    table(1, true).load(Instant::ZERO, id, record)
}

/// Returns the record of a task that runs, after a change.
fn record_of(change: impl FnOnce(&mut TaskTable, Key)) -> (TaskId, Vec<u8>) {
    let (mut table, key) = in_state("Running", "", MODERN);
    change(&mut table, key);
    let id = table.get(key).expect("a task").head.id.text();
    let id = TaskId::new(core::str::from_utf8(&id).expect("ASCII"));
    (id, encode(&table, key).expect("a record"))
}

#[test]
fn record_is_read_if_its_state_fits_its_outcome_and_its_request() {
    use TaskState::{Asking, Cancelled, Completed, Creating, Failed, Queued, Running, Starting};
    let outcomes = [None, Some(result(b"{}", false)), Some(TaskOutcome::Error((*b"{}").into()))];
    let mut read = Vec::new();
    for state in STATES {
        for (at, outcome) in outcomes.iter().enumerate() {
            for has_request in [false, true] {
                let (id, record) = record_of(|table, key| {
                    let task = table.get_mut(key).expect("a task");
                    (task.state, task.outcome) = (state, outcome.clone());
                    task.request = has_request.then(|| Box::new(request()));
                });
                match load(&id, &record) {
                    Ok(Some(_)) => read.push((state, at, has_request)),
                    error => assert_eq!(error, Err(TaskRecordError::Damaged)),
                }
            }
        }
    }
    let both = |state, outcome| [(state, outcome, false), (state, outcome, true)];
    let waiting = [Creating, Queued].map(|state| (state, 0, true));
    let running = [both(Starting, 0), both(Running, 0)].concat();
    let ended = [both(Completed, 1), both(Failed, 2), both(Cancelled, 0)].concat();
    assert_eq!(read, [&waiting[..], &running, &[(Asking, 0, true)], &ended].concat());
}

#[test]
fn record_that_is_not_whole_is_damaged() {
    let damaged = Err(TaskRecordError::Damaged);
    let (id, record) = record_of(|_, _| ());
    assert!(load(&id, &record).is_ok());
    for len in 0..record.len() {
        assert_eq!(load(&id, &record[..len]), damaged, "{len}");
    }
    assert_eq!(load(&id, &[&record[..], b"\0"].concat()), damaged);
    let (id, record) = record_of(|table, key| table.get_mut(key).expect("a task").revision = 0);
    assert_eq!(load(&id, &record), damaged, "no state has the number 0");
    // The position of the metadata is within the parameters.
    let end = u32::try_from(request().params.len()).expect("small");
    for (at, is_whole) in [(end, true), (end + 1, false)] {
        let (id, record) = record_of(|table, key| {
            let task = table.get_mut(key).expect("a task").request.as_mut().expect("a request");
            task.meta = Some((at, (*b"{}").into()));
        });
        assert_eq!(load(&id, &record).is_ok(), is_whole, "{at}");
    }
}

#[test]
fn reason_for_which_a_record_is_not_read_is_explained() {
    let (id, record) = record_of(|_, _| ());
    let other = TaskId::new("AAAAAAAAAAAAAAAAAAAAAA");
    let mut full = table(1, true);
    assert!(full.load(Instant::ZERO, &id, &record).is_ok());
    for (error, text) in [
        (
            load(&id, &[&[9], &record[1..]].concat()),
            "the record of a task has the format 9, and this version reads 2",
        ),
        (load(&id, b""), "the record of a task is damaged"),
        (load(&other, &record), "the record of a task is stored for another task"),
        (full.load(Instant::ZERO, &id, &record), "the task of a record is there already"),
        (Err(TaskRecordError::NoTasks), "the server has no tasks"),
    ] {
        assert_eq!(error.expect_err("refused").to_string(), text);
    }
}
