//! Random requests, commands and disconnections: the sums of the engine stay right, and each call ends once.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;

use super::TaskOffer;
use super::entry::{Held, Owner};
use super::host::ServerTasks;
use super::requests::TaskOptions;
use super::store::StoreEffect;
use super::table::{TaskLimits, TaskTable};
use crate::entropy::Entropy;
use crate::error::Fault;
use crate::identity::Capabilities;
use crate::limits::Limits;
use crate::methods::Capability;
use crate::model::{CallToolResult, ElicitParams, ElicitSchema, InputRequest, InputRequests};
use crate::raw::RawJson;
use crate::rpc::{RequestId, RpcError};
use crate::server::{Call, Config, Engine, Event, Identity};
use crate::slab::Key;
use crate::tap::ChannelId;
use crate::testing::{Rng, rounds};
use crate::time::{Anchor, Instant};

const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;

struct World {
    rng: Rng,
    engine: Engine,
    now: Instant,
    /// Channels, and whether each has a legacy session.
    channels: Vec<(ChannelId, bool)>,
    calls: Vec<Call>,
    ids: Vec<String>,
    questions: Vec<(ChannelId, String)>,
    effects: Vec<StoreEffect>,
    next_id: u32,
    ended: BTreeSet<String>,
}

impl World {
    fn new(seed: u64) -> Self {
        let capabilities = Capabilities::new().with(Capability::Tools);
        let config = Config::new("w", "1").capabilities(capabilities).limits(Limits::small());
        let mut engine = Engine::new(Arc::new(config));
        let limits = TaskLimits::new().max_tasks(9).max_tasks_per_owner(4).max_running(2).max_bytes(9_000);
        let table = TaskTable::new(Entropy::new([5; 32], seed), Anchor::default()).limits(limits);
        engine.set_tasks(Instant::ZERO, if seed % 2 == 0 { table } else { table.stored() });
        Self {
            rng: Rng::new(seed),
            engine,
            now: Instant::ZERO,
            channels: Vec::new(),
            calls: Vec::new(),
            ids: Vec::new(),
            questions: Vec::new(),
            effects: Vec::new(),
            next_id: 1,
            ended: BTreeSet::new(),
        }
    }

    fn send(&mut self, channel: ChannelId, text: &str) {
        self.engine.handle_message(self.now, channel, text.to_string().into());
    }

    fn open(&mut self) {
        let channel = self.engine.open_channel(self.now);
        let is_legacy = self.rng.percent(50);
        if self.rng.percent(30) {
            let who = *self.rng.pick(&["alice", "bob"]);
            self.engine
                .set_authorization(channel, Some(crate::server::Authorization::new(Identity::new(who))));
        }
        self.begin_channel(channel, is_legacy);
    }

    fn begin_channel(&mut self, channel: ChannelId, is_legacy: bool) -> ChannelId {
        if is_legacy {
            self.send(channel, r#"{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"x","version":"1"}}}"#);
            self.send(channel, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        }
        self.channels.push((channel, is_legacy));
        channel
    }

    /// Opens a channel, with or without a session.
    fn connect(&mut self, is_legacy: bool) -> ChannelId {
        let channel = self.engine.open_channel(self.now);
        self.begin_channel(channel, is_legacy)
    }

    /// Makes a call a task.
    fn begin(&mut self, channel: ChannelId, is_legacy: bool, ttl: u64) {
        let members = if is_legacy { r#""task":{}"# } else { META };
        self.next_id += 1;
        let id = self.next_id;
        self.send(
            channel,
            &format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t",{members}}}}}"#
            ),
        );
        self.poll();
        let call = self.calls.pop().expect("a call");
        let options = TaskOptions::new().ttl(Duration::from_secs(ttl));
        self.engine.tasks(self.now).begin(&call, options).expect("room");
        self.poll();
    }

    fn advance(&mut self, secs: u64) {
        let until = self.now + Duration::from_secs(secs);
        while let Some(at) = self.engine.poll_timeout().filter(|at| *at <= until) {
            self.now = at.max(self.now);
            self.engine.handle_timeout(self.now);
            self.poll();
        }
        self.now = until;
    }

    fn request(&mut self) {
        if self.channels.is_empty() {
            return self.open();
        }
        let (channel, is_legacy) = *self.rng.pick(&self.channels);
        let unknown = String::from("AAAAAAAAAAAAAAAAAAAAAA");
        let task = if self.ids.is_empty() { unknown } else { self.rng.pick(&self.ids).clone() };
        let method = *self.rng.pick(&[
            "tools/call",
            "tools/call",
            "tasks/get",
            "tasks/result",
            "tasks/list",
            "tasks/cancel",
            "tasks/update",
            "subscriptions/listen",
        ]);
        self.next_id += 1;
        let members = match method {
            "tools/call" if is_legacy => r#""name":"t","arguments":{},"task":{"ttl":5000}"#.to_string(),
            "tools/call" => r#""name":"t","arguments":{}"#.to_string(),
            "subscriptions/listen" => format!(r#""notifications":{{"taskIds":["{task}"]}}"#),
            "tasks/update" => {
                format!(r#""taskId":"{task}","inputResponses":{{"a":{{}},"a#2":{{}},"b":{{}}}}"#)
            }
            _ => format!(r#""taskId":"{task}""#),
        };
        let meta = if is_legacy { String::new() } else { format!(",{META}") };
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":{},"method":"{method}","params":{{{members}{meta}}}}}"#,
            self.next_id
        );
        self.send(channel, &text);
    }

    fn command(&mut self) {
        if self.calls.is_empty() {
            return;
        }
        let which = self.rng.below(self.calls.len());
        let call = self.calls.swap_remove(which);
        let now = self.now;
        match self.rng.below(6) {
            0 if call.is_task_run() => {
                let form = InputRequest::Elicit(ElicitParams::form("?", ElicitSchema::default()));
                let asks: InputRequests<'_> = [("a", form.clone()), ("b", form)].into_iter().collect();
                let _ = self.engine.need_input(now, &call, &asks, b"s");
            }
            1 => _ = self.engine.fail(now, call.id(), &RpcError::internal("no")),
            2 if call.is_task_run() => {
                self.engine.tasks(now).working(call.id(), &now.to_string());
                self.calls.push(call);
            }
            _ if call.task_offer() == TaskOffer::None => {
                let text = "x".repeat(self.rng.below(900));
                let _ = self.engine.complete(now, call.id(), &CallToolResult::text(text));
            }
            _ => {
                let begun =
                    self.engine.tasks(now).begin(&call, TaskOptions::new().ttl(Duration::from_secs(3)));
                if begun.is_err() {
                    self.calls.push(call);
                }
            }
        }
    }

    fn store(&mut self) {
        if self.rng.percent(60) {
            self.effects.extend(self.engine.tasks(self.now).poll_store());
        } else if !self.effects.is_empty() {
            let is_ok = self.rng.percent(80);
            match self.effects.remove(0) {
                StoreEffect::Save { id, version, .. } => {
                    self.engine.tasks(self.now).handle_saved(&id, version, is_ok)
                }
                StoreEffect::Delete { id, version } => {
                    self.engine.tasks(self.now).handle_deleted(&id, version, is_ok)
                }
            }
        }
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..5 => self.open(),
            5..45 => self.request(),
            45..70 => self.command(),
            70..82 => self.store(),
            82..86 if !self.channels.is_empty() => {
                let (channel, _) = *self.rng.pick(&self.channels);
                let id = self.next_id.saturating_sub(u32::try_from(self.rng.below(6)).unwrap_or(0));
                self.send(channel, &format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#));
            }
            86..89 if !self.channels.is_empty() => {
                let which = self.rng.below(self.channels.len());
                let (channel, _) = self.channels.swap_remove(which);
                self.engine.close_channel(self.now, channel, &Fault::Eof);
            }
            89..93 if !self.questions.is_empty() => {
                let (channel, id) = self.questions.remove(0);
                self.send(
                    channel,
                    &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"action":"decline"}}}}"#),
                );
            }
            98.. => _ = self.engine.withdraw_input(self.now, b"s", None),
            93..98 => {
                self.now = self.now + Duration::from_millis(300 * (1 + self.rng.below(4) as u64));
                self.engine.handle_timeout(self.now);
            }
            _ => {}
        }
        self.poll();
    }

    fn poll(&mut self) {
        while let Some(event) = self.engine.poll_event(self.now) {
            match event {
                Event::Call(call) => self.calls.push(call),
                Event::Cancelled { call, .. } => {
                    assert!(self.ended.insert(format!("{call:?}")), "a call is cancelled twice");
                    self.calls.retain(|other| other.id() != call);
                }
                _ => {}
            }
        }
        for (channel, _) in self.channels.clone() {
            let Some(outbox) = self.engine.outbox(channel) else { continue };
            while let Some(message) = outbox.pop_message() {
                let message = RawJson::new(message).expect("JSON");
                let text = message.as_str();
                if let Some(at) = text.find("\"taskId\":\"").filter(|_| text.contains("\"result\"")) {
                    let id = text[at + 10..at + 32].to_string();
                    if !self.ids.contains(&id) {
                        self.ids.push(id);
                    }
                }
                if text.contains("elicitation/create")
                    && text.contains("\"id\":")
                    && !text.contains("inputRequests")
                {
                    self.questions.push((channel, message.member("id").expect("an id").as_str().to_string()));
                }
            }
        }
        self.engine.check_sums();
    }
}

// covers: TASK-013, TASK-036, TASK-123
#[test]
fn random_requests_keep_the_sums_right_and_end_each_call_once() {
    let (mut runs, mut ids, mut questions) = (0, 0, 0);
    for seed in 0..60 {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step();
            runs += world.calls.iter().filter(|call| call.is_task_run()).count();
            questions += world.questions.len();
        }
        ids += world.ids.len();
        // Everything ends with the time to live.
        for _ in 0..40 {
            world.now = world.now + Duration::from_secs(1);
            world.engine.handle_timeout(world.now);
            world.poll();
        }
        assert!(world.engine.tasks(world.now).is_empty(), "seed {seed}: a task outlives its time");
        assert!(!world.calls.iter().any(Call::is_task_run), "seed {seed}: a run outlives its task");
    }
    assert!(
        runs > 1_000 && ids > 100 && questions > 50,
        "the schedules get somewhere: {runs} {ids} {questions}"
    );
}

/// Number of polls of the test below: `MCP_TASK_POLLS`, else few. Fewer than 2,000 would prove nothing.
fn polls() -> u64 {
    let text = std::env::var("MCP_TASK_POLLS").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| rounds(50_000)).max(2_000)
}

// covers: TASK-018, TASK-036
#[test]
fn polls_leave_nothing_behind() {
    for is_stored in [false, true] {
        let mut world = World::new(u64::from(is_stored));
        let channel = world.engine.open_channel(world.now);
        world.channels.push((channel, false));
        world.send(
            channel,
            &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t",{META}}}}}"#),
        );
        world.poll();
        let call = world.calls.pop().expect("a call");
        let ttl = TaskOptions::new().ttl(Duration::from_secs(80_000));
        world.engine.tasks(world.now).begin(&call, ttl).expect("room");
        while let Some(StoreEffect::Save { id, version, .. }) = world.engine.tasks(world.now).poll_store() {
            world.engine.tasks(world.now).handle_saved(&id, version, true);
        }
        world.poll();
        let id = world.ids[0].clone();
        let (polls, mut checks) = (polls(), 0);
        for poll in 0..polls {
            let request = format!(
                r#"{{"jsonrpc":"2.0","id":{poll},"method":"tasks/get","params":{{"taskId":"{id}",{META}}}}}"#
            );
            world.send(channel, &request);
            let answer = world.engine.outbox(channel).expect("open").pop_message().expect("an answer");
            assert!(answer.windows(9).any(|part| part == b"\"working\""));
            world.now = world.now + Duration::from_millis(1);
            world.engine.handle_timeout(world.now);
            if poll % 10_000 == 1_999 || poll + 1 == polls {
                let sizes = world.engine.task_sizes();
                assert!(sizes.iter().all(|size| *size < 600), "after {poll} polls: {sizes:?}");
                checks += 1;
            }
        }
        assert!(checks > 0, "nothing was checked");
    }
}

// covers: TASK-034
#[test]
fn tasks_of_each_session_end_after_its_own_grace_period() {
    for graces in [[2, 5], [5, 2], [3, 3]] {
        let mut world = World::new(0);
        for grace in graces {
            let session = world.connect(true);
            world.begin(session, true, 3_600);
            world.engine.end_input(world.now, session.0, &Fault::Eof, Duration::from_secs(grace));
        }
        for second in 1..=6 {
            world.advance(1);
            let left = graces.iter().filter(|grace| **grace > second).count();
            assert_eq!(world.engine.tasks(world.now).len(), left, "{graces:?} {second}");
        }
    }
}

// covers: TASK-035, TASK-131
#[test]
fn task_of_2026_07_28_on_a_connection_with_a_session_belongs_to_whoever_knows_its_id() {
    let mut world = World::new(0);
    let (session, other) = (world.connect(true), world.connect(false));
    world.begin(session, false, 3_600);
    let id = world.ids[0].clone();
    for channel in [session, other] {
        world.send(
            channel,
            &format!(
                r#"{{"jsonrpc":"2.0","id":9,"method":"tasks/get","params":{{"taskId":"{id}",{META}}}}}"#
            ),
        );
        let answer = world.engine.outbox(channel).expect("open").pop_message().expect("an answer");
        let answer: serde_json::Value = serde_json::from_slice(&answer).expect("JSON");
        assert_eq!(answer["result"]["status"], "working", "{answer}");
    }
}

#[test]
fn expiry_of_a_task_that_is_gone_is_forgotten_while_the_server_is_idle() {
    let mut world = World::new(0);
    let (session, other) = (world.connect(true), world.connect(false));
    world.begin(other, false, 10_000);
    world.begin(session, true, 20_000);
    world.engine.end_input(world.now, session.0, &Fault::Eof, Duration::ZERO);
    let expiries = |world: &World| world.engine.tasks.as_ref().expect("tasks").table.deadlines.len();
    assert_eq!((world.engine.tasks(world.now).len(), expiries(&world)), (1, 2));
    world.advance(600);
    assert_eq!((world.engine.tasks(world.now).len(), expiries(&world)), (1, 1));
}

#[test]
fn check_of_the_sums_finds_what_is_wrong_around_the_table() {
    const NOBODY: Key = Key { slot: 77, generation: 0 };
    type Breakage = (&'static str, fn(&mut ServerTasks));
    let wrong: [Breakage; 4] = [
        ("a sum of the table", |tasks| tasks.table.bytes += 1),
        ("number of runs", |tasks| tasks.runs += 1),
        ("call that is not in flight", |tasks| {
            tasks.held.insert(NOBODY, Held::Result(NOBODY), Owner::Holder);
        }),
        ("listener of no task", |tasks| tasks.listeners.add(NOBODY, NOBODY, &RequestId::int(1))),
    ];
    for (name, break_it) in wrong {
        let mut world = World::new(0);
        let channel = world.connect(false);
        world.begin(channel, false, 60);
        world.engine.check_sums();
        break_it(world.engine.tasks.as_mut().expect("tasks"));
        assert!(catch_unwind(AssertUnwindSafe(|| world.engine.check_sums())).is_err(), "{name}");
    }
}
