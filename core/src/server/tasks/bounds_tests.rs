//! Tests of the bounds of the table of tasks, and of what a store makes of them.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use core::time::Duration;

use super::entry::{Owner, TaskRequest, TaskState};
use super::store::{Milestone, StoreEffect};
use super::table::{NewTask, TaskLimits, TaskTable};
use super::table_tests::{MODERN, alice, asking, new_task, result, save, table};
use crate::error::UseError;
use crate::limits::Limit;
use crate::model::TaskId;
use crate::raw::RawJson;
use crate::time::Instant;

// covers: TASK-036
#[test]
fn limits_bound_tasks_owners_bytes_and_runs() {
    let limits = TaskLimits::new().max_tasks(4).max_tasks_per_owner(2).max_bytes(2_000).max_running(1);
    let mut table = table(0, false).limits(limits);
    let create = |table: &mut TaskTable, owner| table.create(Instant::ZERO, new_task(MODERN, owner));
    let first = create(&mut table, alice()).expect("room");
    create(&mut table, alice()).expect("room");
    assert!(create(&mut table, alice()).is_err(), "two for each owner");
    create(&mut table, Owner::Holder).expect("room");
    let last = create(&mut table, Owner::Holder).expect("room");
    assert!(create(&mut table, Owner::Holder).is_err(), "four in all");
    assert_eq!((table.take_turn(), table.take_turn()), (Some(first), None));
    table.finish(Instant::ZERO, first, result(&[b' '; 1_500], false));
    assert_eq!(
        table.get(first).map(|task| task.state),
        Some(TaskState::Failed),
        "a result that is too large"
    );
    table.remove(last);
    assert!(create(&mut table, Owner::Holder).is_ok());
    assert!(table.take_turn().is_some(), "the place of the first");
    table.check_sums();
}

// covers: TASK-036
#[test]
fn bytes_are_bounded_for_each_owner_and_for_tasks_without_one() {
    let limits = TaskLimits::new().max_bytes_per_owner(1_000).max_unowned_bytes(800).max_unowned_tasks(2);
    let mut table = table(0, false).limits(limits);
    for (owner, bytes) in [(alice(), 1_000), (Owner::Holder, 800)] {
        let key = table.create(Instant::ZERO, new_task(MODERN, owner.clone())).expect("room");
        assert_eq!(table.take_turn(), Some(key));
        let used = table.get(key).expect("a task").len();
        let mut request = asking(&["a"]);
        request.state = alloc::vec![b' '; bytes - used].into();
        let full = Err(UseError::Full(Limit::TaskBytes));
        assert_eq!(table.suspend(Instant::ZERO, key, request), full, "questions");
        assert!(!table.set_message(Instant::ZERO, key, &"x".repeat(bytes - used + 1)), "a message");
        table.finish(Instant::ZERO, key, result(&alloc::vec![b' '; bytes - used + 1], false));
        assert_eq!(table.get(key).map(|task| task.state), Some(TaskState::Failed), "a result");
        table.remove(key);
        let arguments = NewTask {
            request: Some(TaskRequest { params: alloc::vec![b' '; bytes].into(), ..TaskRequest::default() }),
            ..new_task(MODERN, owner.clone())
        };
        assert_eq!(
            table.create(Instant::ZERO, arguments),
            Err(UseError::Full(Limit::TaskBytes)),
            "arguments"
        );
        let key = table.create(Instant::ZERO, new_task(MODERN, owner.clone())).expect("room");
        assert_eq!(table.take_turn(), Some(key));
        let used = table.get(key).expect("a task").len();
        table.suspend(Instant::ZERO, key, asking(&["a", "b"])).expect("room");
        let answer = RawJson::new(format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - used))).expect("JSON");
        let refused = table.answer(Instant::ZERO, key, 0, Ok(answer));
        assert_eq!(refused, Err(UseError::Full(Limit::TaskBytes)), "answers");
        table.check_sums();
    }
    // Others have room.
    let bob = Owner::Principal("bob".into());
    let key = table.create(Instant::ZERO, new_task(MODERN, bob)).expect("room");
    assert_eq!(table.take_turn(), Some(key));
    table.finish(Instant::ZERO, key, result(&[b' '; 600], false));
    assert_eq!(table.get(key).map(|task| task.state), Some(TaskState::Completed));
    table.create(Instant::ZERO, new_task(MODERN, Owner::Holder)).expect("two without an owner");
    let third = table.create(Instant::ZERO, new_task(MODERN, Owner::Holder));
    assert_eq!(third, Err(UseError::Full(Limit::Tasks)));
}

// covers: TASK-036
#[test]
fn deletions_that_a_slow_store_has_not_finished_count_as_tasks() {
    let limits = TaskLimits::new().max_tasks(4);
    let mut table = table(0, true).limits(limits);
    let (mut now, mut created) = (Instant::ZERO, 0);
    for _ in 0..100 {
        // Creations are saved, and no deletion ends.
        while let Ok(key) = table.create(now, new_task(MODERN, alice())) {
            created += 1;
            while let Some(effect) = table.poll_store() {
                if let StoreEffect::Save { id, version, .. } = effect {
                    table.handle_saved(now, &id, version, true);
                }
            }
            assert_eq!(table.get(key).map(|task| task.state), Some(TaskState::Queued));
        }
        now = now + Duration::from_secs(3_600);
        while let Some(key) = table.next_expired(now) {
            table.remove(key);
        }
    }
    assert_eq!((created, table.len()), (4, 0));
    assert_eq!(table.store.as_ref().map(|store| store.pending_deletes()), Some(4));
    // One that fails is tried again, and counts.
    while table.poll_store().is_some() {}
    let (bits, version) = table.store.as_ref().expect("a store").deleting[0];
    let id = TaskId::new(core::str::from_utf8(&bits.text()).expect("ASCII"));
    table.handle_deleted(now, &id, version, false);
    assert!(table.create(now, new_task(MODERN, alice())).is_err());
    table.retry_store(now + Duration::from_secs(1));
    let again = table.poll_store();
    assert!(matches!(&again, Some(StoreEffect::Delete { id: other, .. }) if *other == id), "{again:?}");
    table.handle_deleted(now, &id, version, true);
    assert!(table.create(now, new_task(MODERN, alice())).is_ok());
}

#[test]
fn tasks_that_end_before_the_store_takes_them_leave_nothing_to_do() {
    let mut table = table(0, true);
    for _ in 0..10_000 {
        let key = table.create(Instant::ZERO, new_task(MODERN, alice())).expect("room");
        table.remove(key);
    }
    let store = table.store.as_ref().expect("a store");
    assert!(store.unsaved.len() <= 64 && store.pending_deletes() == 0);
    assert!(table.poll_store().is_none() && table.is_saved());
}

// covers: TASK-120
#[test]
fn keys_of_questions_are_not_reused_after_a_restart() {
    let mut first = table(0, true);
    let key = first.create(Instant::ZERO, new_task(MODERN, alice())).expect("room");
    let mut asked = BTreeSet::new();
    let mut store = None;
    let mut current = (first, key);
    for round in 0..4 {
        let (table, key) = (&mut current.0, current.1);
        let _ = save(table, true);
        assert_eq!(table.take_turn(), None);
        assert_eq!(save(table, true), Milestone::Started(key));
        let mut request = asking(&["boat", if round % 2 == 0 { "even" } else { "odd" }]);
        request.attempt = round;
        table.suspend(Instant::ZERO, key, request).expect("room");
        for question in table.get(key).expect("a task").questions() {
            assert!(asked.insert(String::from(question.wire_key())), "{}", question.wire_key());
        }
        for at in 0..2 {
            table.answer(Instant::ZERO, key, at, Ok(RawJson::new("{}").expect("JSON"))).expect("room");
        }
        while let Some(StoreEffect::Save { id, version, record }) = table.poll_store() {
            table.handle_saved(Instant::ZERO, &id, version, true);
            store = Some((id, record));
        }
        let mut restarted = super::table_tests::table(1 + u64::from(round), true);
        let (id, record) = store.as_ref().expect("a record");
        let key = restarted.load(Instant::ZERO, id, record).expect("whole").expect("a task");
        current = (restarted, key);
    }
    let expected = ["boat", "boat#2", "boat#3", "boat#4", "even", "even#2", "odd", "odd#2"];
    assert!(asked.iter().map(String::as_str).eq(expected), "{asked:?}");
}
