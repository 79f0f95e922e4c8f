//! Tests of the bounds of the table of tasks, and of what a store makes of them.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;

use super::entry::{Owner, OwnerEntry, TaskRequest, TaskState};
use super::store::{Milestone, StoreEffect};
use super::table::{NewTask, TaskLimits, TaskTable};
use super::table_tests::{MODERN, alice, asking, new_task, result, save, table};
use crate::error::{CallError, UseError};
use crate::limits::Limit;
use crate::model::TaskId;
use crate::raw::RawJson;
use crate::slab::Key;
use crate::slab::list::List;
use crate::sync::Arc;
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

#[test]
fn everything_that_is_kept_for_a_task_is_charged_once() {
    let json = |bytes| RawJson::new(format!("\"{}\"", "x".repeat(bytes - 2))).expect("JSON");
    let text = |bytes| String::from("x").repeat(bytes);
    let mut request = asking(&["", ""]);
    request.params = alloc::vec![b' '; 3].into();
    request.state = alloc::vec![b' '; 5].into();
    request.meta = Some((0, alloc::vec![b' '; 7].into()));
    request.answers =
        alloc::vec![(text(11).into(), Ok(json(13))), (text(17).into(), Err(CallError::Cancelled)),];
    for (question, sizes) in request.questions.iter_mut().zip([[19, 23, 29, 31], [37, 41, 43, 47]]) {
        question.name = text(sizes[0]).into();
        question.key = Some(text(sizes[1]));
        question.params = alloc::vec![b' '; sizes[2]].into();
        question.answer = Some(Ok(json(sizes[3])));
    }
    assert_eq!(request.len(), 3 + 5 + 7 + 11 + 13 + 17 + 19 + 23 + 29 + 31 + 37 + 41 + 43 + 47);
}

// covers: TASK-036, TASK-120
#[test]
fn keys_that_a_task_has_used_are_charged_until_its_end() {
    let size = 256 + asking(&["boat", "basin"]).len() + (4 + 16) + (5 + 16);
    for (max_bytes, expected) in [(size - 1, Err(UseError::Full(Limit::TaskBytes))), (size, Ok(()))] {
        let mut table = table(0, false).limits(TaskLimits::new().max_bytes(max_bytes));
        let key = table.create(Instant::ZERO, new_task(MODERN, alice())).expect("room");
        assert_eq!(table.take_turn(), Some(key));
        table.take_request(key).expect("its arguments");
        assert_eq!(table.suspend(Instant::ZERO, key, asking(&["boat", "basin"])), expected);
        assert_eq!(table.get(key).map(|task| task.len()), Some(if expected.is_ok() { size } else { 256 }));
        table.cancel(Instant::ZERO, key);
        assert_eq!(table.bytes, 256);
    }
}

#[test]
fn equal_metadata_of_requests_in_a_row_is_kept_once() {
    let mut table = table(0, false);
    let texts = ["{}", "{}", "[1]", "[1]"];
    let kept = texts.map(|text| {
        let mut request = TaskRequest { meta: Some((0, text.as_bytes().into())), ..TaskRequest::default() };
        table.share_meta(&mut request);
        request.meta.expect("metadata").1
    });
    assert!(kept.iter().zip(texts).all(|(kept, text)| **kept == *text.as_bytes()));
    assert!(Arc::ptr_eq(&kept[0], &kept[1]) && Arc::ptr_eq(&kept[2], &kept[3]));
}

// covers: TASK-036
#[test]
fn task_runs_at_once_if_there_is_a_place_and_none_waits_before_it() {
    let mut table = table(0, false).limits(TaskLimits::new().max_running(2));
    let create =
        |table: &mut TaskTable| table.create(Instant::ZERO, new_task(MODERN, alice())).expect("room");
    let mut places = Vec::new();
    for _ in 0..2 {
        places.push(table.has_place());
        create(&mut table);
        places.push(table.has_place());
        assert!(table.take_turn().is_some());
    }
    places.push(table.has_place());
    assert_eq!(places, [true, false, true, false, false]);
}

#[test]
fn keys_of_tasks_that_are_gone_are_removed_before_they_are_many() {
    let queued = |table: &TaskTable| match &table.store {
        Some(store) => store.unsaved.len(),
        None => table.queue_len(),
    };
    for live in [0, 10, 100] {
        // Without a store they wait for their turns, and with one to be saved.
        for is_stored in [false, true] {
            let mut table = table(0, is_stored).limits(TaskLimits::new().max_running(1_000));
            let create =
                |table: &mut TaskTable| table.create(Instant::ZERO, new_task(MODERN, alice())).expect("room");
            let keys: Vec<Key> = (0..live).map(|_| create(&mut table)).collect();
            let most = (0..1_000).map(|_| {
                let key = create(&mut table);
                table.remove(key);
                queued(&table)
            });
            // The table has `live + 1` tasks then. Fewer keys would be searched too often.
            assert_eq!(most.max(), Some(2 * (live + 1) + 33), "{live} {is_stored}");
            table.check_sums();
            let mut next = || if is_stored { created(save(&mut table, true)) } else { table.take_turn() };
            assert!(keys.iter().all(|key| next() == Some(*key)), "the others keep their places");
            assert_eq!(next(), None);
        }
    }
}

fn created(milestone: Milestone) -> Option<Key> {
    if let Milestone::Created(key) = milestone { Some(key) } else { None }
}

#[test]
fn check_of_the_sums_finds_each_that_is_wrong() {
    type Breakage = (&'static str, fn(&mut TaskTable));
    let wrong: [Breakage; 5] = [
        ("bytes", |table| table.bytes += 1),
        ("running", |table| table.running += 1),
        ("tasks of an owner", |table| owner(table).count += 1),
        ("bytes of an owner", |table| owner(table).bytes += 1),
        ("owner without tasks", |table| owner(table).tasks = List::new()),
    ];
    for (name, break_it) in wrong {
        let mut table = table(0, false);
        table.create(Instant::ZERO, new_task(MODERN, alice())).expect("room");
        table.check_sums();
        break_it(&mut table);
        assert!(catch_unwind(AssertUnwindSafe(|| table.check_sums())).is_err(), "{name}");
    }
}

fn owner(table: &mut TaskTable) -> &mut OwnerEntry {
    let key = table.find_owner(&alice()).expect("an owner");
    table.owners.get_mut(key).expect("an owner")
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
