//! Tests of the table of tasks: against its document, and in seeded schedules over a store that fails.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use std::sync::OnceLock;

use super::entry::{Owner, Question, TaskOutcome, TaskRequest, TaskState};
use super::limits::TaskLimits;
use super::store_queue::{Milestone, StoreEffect};
use super::table::{NewTask, TaskTable, error_outcome};
use crate::entropy::Entropy;
use crate::model::TaskId;
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::slab::Key;
use crate::tasks::text::TaskBits;
use crate::testing::Rng;
use crate::time::{Anchor, Instant};
use crate::version::Version;

const DOCUMENT: &str = include_str!("../../../docs/tasks.md");
const LEGACY: Version = Version::V2025_11_25;
const MODERN: Version = Version::V2026_07_28;
const UNIX: u64 = 1_785_578_400;

fn at(secs: u64) -> Instant {
    Instant::from_micros(secs * 1_000_000)
}

fn table(nonce: u64, stored: bool) -> TaskTable {
    let table = TaskTable::new(Entropy::new([7; 32], nonce), Anchor::new(Instant::ZERO, UNIX));
    if stored { table.stored() } else { table }
}

fn request() -> Box<TaskRequest> {
    Box::new(TaskRequest { params: (*b"{\"name\":\"t\"}").into(), ..TaskRequest::default() })
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

fn asking(names: &[&str]) -> Box<TaskRequest> {
    let mut request = request();
    request.questions = names.iter().map(|name| question(name)).collect();
    request
}

fn new_task(version: Version, owner: Owner) -> NewTask {
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

fn alice() -> Owner {
    Owner::Principal("alice".into())
}

fn result(text: &[u8], failed: bool) -> TaskOutcome {
    TaskOutcome::Result(text.into(), failed)
}

/// Carries out the next effect of the store.
fn save(table: &mut TaskTable, is_ok: bool) -> Milestone {
    match table.poll_store() {
        Some(StoreEffect::Save { id, version, .. }) => table.handle_saved(Instant::ZERO, &id, version, is_ok),
        _ => Milestone::Nothing,
    }
}

/// Creates a task in a state, as the document names it, and leaves what is to be saved.
fn in_state(state: &str, outcome: &str, version: Version) -> (TaskTable, Key) {
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
    // A message makes that something is to be saved in the states that wait for nothing.
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
        "saved" | "save failed" => {
            let milestone = save(table, event == "saved");
            if milestone == Milestone::NotCreated(key) {
                table.remove(key);
            }
        }
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
        let id = table.get(key).expect("a task").id.text();
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
    let id = table.get(key).expect("a task").id.text();
    assert_eq!(table.find(Instant::ZERO, &id, &bob, MODERN), Some(key), "whoever knows the id");
}

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

/// A store that fails at any step, and loses what it was not asked to write.
#[derive(Debug, Default)]
struct Store {
    records: BTreeMap<TaskId, (u32, Vec<u8>)>,
}

/// What is known about a task besides the table.
#[derive(Debug, Default)]
struct Known {
    owner: usize,
    version: Option<Version>,
    expires: u64,
    runs: u32,
    rounds: u32,
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
        let records: Vec<Vec<u8>> = self.store.records.values().map(|(_, record)| record.clone()).collect();
        for record in records {
            self.table.load(at(self.now), &record);
        }
        self.loaded = self.table.len();
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
                    expires: task.expires_at.as_micros() / 1_000_000,
                    ..Known::default()
                };
                self.known.insert(task.id, known);
            }
            Milestone::NotCreated(key) => _ = self.table.remove(key),
            Milestone::Started(key) => {
                let bits = self.table.get(key).expect("a task").id;
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
                        let mut request = asking(&["a", "b"]);
                        let known = self.known.entry(bits).or_default();
                        request.attempt = known.rounds;
                        if self.table.suspend(now, key, request).is_ok() {
                            known.rounds += 1;
                        }
                    }
                    1 => _ = self.table.finish(now, key, error_outcome(&RpcError::internal("no"))),
                    kind => {
                        let text = alloc::vec![b' '; self.rng.below(600)];
                        _ = self.table.finish(now, key, result(&text_object(&text), kind == 2));
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
                    let bits = self.table.get(key).expect("a task").id;
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
                    let bits = self.table.get(key).expect("a task").id;
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
        assert!(self.table.len() <= self.loaded.max(12), "seed {}: too many tasks", self.seed);
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
    text.and_then(|text| text.parse().ok()).unwrap_or(200)
}

// covers: TASK-013, TASK-034, TASK-036, TASK-109, TASK-131
#[test]
fn no_schedule_loses_a_task_runs_one_twice_or_shows_it_to_others() {
    let (mut ended, mut runs, mut lives) = (0, 0, 0);
    for seed in 0..schedules() {
        let mut schedule = Schedule::new(seed);
        for step in 0..300 {
            schedule.step();
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
