//! Seeded schedules of the table of tasks over a store that fails.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use std::sync::OnceLock;

use super::entry::{Owner, TaskOutcome};
use super::store::{Milestone, StoreEffect};
use super::table::{NewTask, TaskLimits, TaskTable, error_outcome};
use super::table_tests::{LEGACY, MODERN, asking, at, new_task, result, table};
use crate::model::TaskId;
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::slab::Key;
use crate::tasks::text::TaskBits;
use crate::testing::{Rng, rounds};
use crate::version::Version;

/// A store that fails at any step, and loses what it was not asked to write.
#[derive(Debug, Default)]
struct Store {
    records: BTreeMap<TaskId, (u32, Vec<u8>)>,
}

/// The facts of a task that are known besides the table.
#[derive(Debug, Default)]
struct Known {
    owner: usize,
    version: Option<Version>,
    expires: u64,
    runs: u32,
    rounds: u32,
    /// Keys of its questions.
    keys: BTreeSet<String>,
    /// Outcome that a client has seen.
    seen: Option<(String, Option<TaskOutcome>)>,
}

fn owners() -> &'static [Owner; 3] {
    static OWNERS: OnceLock<[Owner; 3]> = OnceLock::new();
    OWNERS.get_or_init(|| {
        [Owner::Principal(Arc::from("alice")), Owner::Principal(Arc::from("bob")), Owner::Holder]
    })
}

struct Schedule {
    seed: u64,
    rng: Rng,
    now: u64,
    lives: u64,
    /// Number of tasks that were restored last.
    loaded: usize,
    table: TaskTable,
    store: Store,
    in_flight: VecDeque<StoreEffect>,
    known: BTreeMap<TaskBits, Known>,
    running: Vec<TaskBits>,
}

impl Schedule {
    fn new(seed: u64) -> Self {
        let mut schedule = Self {
            seed,
            rng: Rng::new(seed),
            now: 0,
            lives: 0,
            loaded: 0,
            table: table(0, true),
            store: Store::default(),
            in_flight: VecDeque::new(),
            known: BTreeMap::new(),
            running: Vec::new(),
        };
        schedule.restart();
        schedule
    }

    fn restart(&mut self) {
        // Some of what was under way has been written.
        while let Some(effect) = self.in_flight.pop_front() {
            if self.rng.percent(50) {
                self.write(&effect);
            }
        }
        self.lives += 1;
        self.running.clear();
        let limits = TaskLimits::new().max_tasks(12).max_tasks_per_owner(6).max_bytes(8_000).max_running(3);
        self.table = table(self.lives + self.seed * 1_000, true).limits(limits);
        for (id, (_, record)) in &self.store.records {
            assert!(self.table.load(at(self.now), id, record).is_ok(), "seed {}: a record", self.seed);
        }
        self.loaded = self.store.records.len();
        self.go_on();
        for (bits, known) in &self.known {
            if known.expires > self.now {
                assert!(self.table.find_bits(*bits).is_some(), "seed {}: a task is lost", self.seed);
            }
        }
    }

    fn write(&mut self, effect: &StoreEffect) {
        match effect {
            StoreEffect::Save { id, version, record } => {
                if self.store.records.get(id).is_none_or(|(known, _)| known < version) {
                    self.store.records.insert(id.clone(), (*version, record.clone()));
                }
            }
            StoreEffect::Delete { id, .. } => _ = self.store.records.remove(id),
        }
    }

    fn go_on(&mut self) {
        assert!(self.table.take_turn().is_none(), "with a store each run waits for it");
    }

    fn handle(&mut self, milestone: Milestone) {
        match milestone {
            Milestone::Created(key) => {
                let task = self.table.get(key).expect("a task");
                let owner = owners()
                    .iter()
                    .position(|owner| self.table.owner(task) == Some(owner))
                    .expect("its owner");
                let known = Known {
                    owner,
                    version: Some(task.version),
                    expires: task.head.expires_at.as_micros() / 1_000_000,
                    ..Known::default()
                };
                self.known.insert(task.head.id, known);
            }
            Milestone::NotCreated(key) => _ = self.table.remove(key),
            Milestone::Started(key) => {
                let bits = self.table.get(key).expect("a task").head.id;
                let request = self.table.take_request(key).expect("what the handler needs");
                let known = self.known.entry(bits).or_default();
                known.runs += 1;
                assert_eq!(known.runs, known.rounds + 1, "seed {}: a task runs twice", self.seed);
                assert!(request.attempt == known.rounds, "seed {}: {request:?}", self.seed);
                self.running.push(bits);
            }
            Milestone::Ended(_) | Milestone::Nothing => {}
        }
        self.go_on();
    }

    fn step(&mut self) {
        let now = at(self.now);
        match self.rng.below(100) {
            0..15 => {
                let owner = self.rng.pick(owners()).clone();
                let version = *self.rng.pick(&[LEGACY, MODERN]);
                let ttl = Some(Duration::from_secs(1 + self.rng.below(60) as u64));
                _ = self.table.create(now, NewTask { ttl, ..new_task(version, owner) });
            }
            15..50 => {
                if let Some(effect) = self.table.poll_store() {
                    self.in_flight.push_back(effect);
                }
            }
            50..75 => {
                let Some(effect) = self.in_flight.pop_front() else { return };
                let is_ok = self.rng.percent(80);
                // An operation that is reported as failed may have been carried out.
                if is_ok || self.rng.percent(30) {
                    self.write(&effect);
                }
                match effect {
                    StoreEffect::Save { id, version, .. } => {
                        let milestone = self.table.handle_saved(now, &id, version, is_ok);
                        self.handle(milestone);
                    }
                    StoreEffect::Delete { id, version } => {
                        self.table.handle_deleted(now, &id, version, is_ok)
                    }
                }
            }
            75..88 => {
                if self.running.is_empty() {
                    return;
                }
                let which = self.rng.below(self.running.len());
                let bits = self.running.swap_remove(which);
                let Some(key) = self.table.find_bits(bits) else { return };
                match self.rng.below(4) {
                    0 => {
                        let names = [&["a", "b"][..], &["a"], &["b", "a#2"]][self.rng.below(3)];
                        let mut request = asking(names);
                        let known = self.known.entry(bits).or_default();
                        request.attempt = known.rounds;
                        if self.table.suspend(now, key, request).is_ok() {
                            known.rounds += 1;
                            for question in self.table.get(key).expect("a task").questions() {
                                let is_new = known.keys.insert(question.wire_key().to_string());
                                assert!(is_new, "seed {}: a key is used twice", self.seed);
                            }
                        }
                    }
                    1 => _ = self.table.finish(now, key, error_outcome(&RpcError::internal("no"))),
                    kind => {
                        let text = alloc::vec![b' '; self.rng.below(600)];
                        _ = self.table.finish(now, key, result(&text_object(&text), kind == 2));
                        // The end is decided, although the store does not have it.
                        let is_cancelled = self.rng.percent(30) && self.table.cancel(now, key);
                        assert!(!is_cancelled, "seed {}: a task ends twice", self.seed);
                    }
                }
            }
            88..92 => {
                if let Some(key) = self.any_task() {
                    let at = self.rng.below(2);
                    let outcome = Ok(RawJson::new("{}").expect("JSON"));
                    _ = self.table.answer(now, key, at, outcome);
                }
            }
            92..94 => {
                if let Some(key) = self.any_task() {
                    let bits = self.table.get(key).expect("a task").head.id;
                    _ = self.table.cancel(now, key);
                    self.running.retain(|other| *other != bits);
                }
            }
            94..96 => {
                if let Some(key) = self.any_task() {
                    let message = format!("step {}", self.now);
                    _ = self.table.set_message(now, key, &message);
                }
            }
            96..99 => {
                self.now += 1 + self.rng.below(8) as u64;
                let now = at(self.now);
                self.table.retry_store(now);
                while let Some(key) = self.table.next_expired(now) {
                    let bits = self.table.get(key).expect("a task").head.id;
                    self.running.retain(|other| *other != bits);
                    self.table.remove(key);
                }
                self.go_on();
            }
            _ => self.restart(),
        }
        self.go_on();
    }

    fn any_task(&mut self) -> Option<Key> {
        let ids: Vec<TaskBits> = self.known.keys().copied().collect();
        if ids.is_empty() {
            return None;
        }
        let bits = *self.rng.pick(&ids);
        self.table.find_bits(bits)
    }

    fn check(&mut self) {
        self.table.check_sums();
        // A restored table holds all that the store has; creations that failed may be among them.
        let deleted = self.table.store.as_ref().map_or(0, |store| store.pending_deletes());
        assert!(self.table.len() + deleted <= self.loaded.max(12), "seed {}: too many tasks", self.seed);
        let now = at(self.now);
        let seed = self.seed;
        for (bits, known) in &mut self.known {
            let Some(version) = known.version else { continue };
            let id = bits.text();
            for (at, owner) in owners().iter().enumerate() {
                let found = self.table.find(now, &id, owner, version);
                let may_see = known.expires > self.now && (at == known.owner || known.owner == 2);
                assert_eq!(found.is_some(), may_see, "seed {seed}: who sees a task");
                let Some(task) = found.and_then(|key| self.table.get(key)) else { continue };
                if task.has_ended() {
                    let status = task.status().expect("visible").to_string();
                    let end = (status, task.outcome.clone());
                    let seen = known.seen.get_or_insert_with(|| end.clone());
                    assert_eq!(*seen, end, "seed {seed}: an outcome changes");
                } else {
                    assert!(known.seen.is_none(), "seed {seed}: a task that had ended works");
                }
            }
        }
    }
}

fn text_object(filler: &[u8]) -> Vec<u8> {
    [b"{\"content\":[]", filler, b"}"].concat()
}

/// Number of schedules: `MCP_TASK_SCHEDULES`, else few.
fn schedules() -> u64 {
    let text = std::env::var("MCP_TASK_SCHEDULES").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| rounds(200))
}

// covers: TASK-013, TASK-034, TASK-036, TASK-109, TASK-120, TASK-131
#[test]
fn no_schedule_loses_a_task_runs_one_twice_or_shows_it_to_others() {
    let (mut ended, mut runs, mut lives) = (0, 0, 0);
    for seed in 0..schedules() {
        let mut schedule = Schedule::new(seed);
        for step in 0..300 {
            schedule.step();
            if step == 150 {
                schedule.restart();
            }
            if step % 10 == 0 {
                schedule.check();
            }
        }
        schedule.check();
        ended += schedule.known.values().filter(|known| known.seen.is_some()).count();
        runs += schedule.known.values().map(|known| known.runs).sum::<u32>();
        lives += schedule.lives;
    }
    let count = usize::try_from(schedules()).unwrap_or(usize::MAX);
    assert!(
        ended > count && runs > 0 && lives > schedules(),
        "the schedules get somewhere: {ended} {runs} {lives}"
    );
}
