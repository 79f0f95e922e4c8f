//! Fuzz target for a server with tasks, driven by a list of operations: requests of several parties, commands, a store
//! that fails, time, and restarts.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::internals::check_server;
use mcp_proto::model::{CallToolResult, ElicitParams, ElicitSchema, InputRequest, InputRequests, TaskId};
use mcp_proto::server::{
    Authorization, Call, Config, Engine, Event, Identity, StoreEffect, TaskLimits, TaskOffer, TaskOptions,
    TaskTable,
};
use mcp_proto::tap::ChannelId;
use mcp_proto::{Anchor, Capabilities, Capability, Entropy, Fault, Instant, Limits, RpcError};
use serde_json::{Value, json};

use super::input::FuzzInput;

/// Runs a list of operations and checks the invariants of tasks.
///
/// - A task that its client knows is there until it expires or its session ends, also after a restart.
/// - No other party sees it, and what a store was asked to keep is acknowledged only once it is kept: cancellations and
///   answers survive a restart. An outcome never changes, and no key of a question is used twice.
/// - Each request is answered at most once, and all of them at a shutdown.
/// - The bounds hold, and no deadline stays in the past.
pub fn task_ops(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let seed = choices.byte();
    let mut run = TaskRun::new(seed);
    run.start();
    // Longer lists of operations find nothing more.
    for _ in 0..400 {
        if choices.is_empty() {
            break;
        }
        run.step(&mut choices);
    }
    run.end();
}

/// The parties, each with a channel: its principal, and whether it has a legacy session.
const PARTIES: [(Option<&str>, bool); 5] =
    [(Some("alice"), false), (Some("bob"), false), (None, true), (None, false), (Some("alice"), true)];
const SESSION: usize = 2;
const TTL: Duration = Duration::from_secs(30);
/// Times are stored in seconds.
const ROUNDING: Duration = Duration::from_secs(2);
const MAX_TASKS: usize = 8;
const MODERN: &str = concat!(
    r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":"#,
    r#"{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#
);

/// The purpose of a request.
#[derive(Clone, Debug)]
enum Asked {
    /// A task, and the time at which it was begun.
    Create(Option<Instant>),
    Get(String),
    Cancel(String),
    /// The answers to these questions.
    Update(String, Vec<String>),
    Other,
}

/// The facts of a task that a client was told about.
struct KnownTask {
    /// Its party; `None` if every holder of the id may use it.
    party: Option<usize>,
    is_legacy: bool,
    expires: Instant,
    /// Its session has ended.
    is_over: bool,
    is_cancelled: bool,
    end: Option<String>,
    open: Vec<String>,
    answered: BTreeSet<String>,
}

struct TaskRun {
    seed: u8,
    lives: u64,
    now: Instant,
    engine: Engine,
    channels: Vec<ChannelId>,
    calls: Vec<Call>,
    asked: BTreeMap<i64, (usize, Asked)>,
    /// Requests that their client has cancelled; an answer may be on its way.
    withdrawn: BTreeMap<i64, (usize, Asked)>,
    questions: Vec<(usize, Value)>,
    known: BTreeMap<String, KnownTask>,
    records: BTreeMap<TaskId, (u32, Vec<u8>)>,
    effects: VecDeque<StoreEffect>,
    next_id: i64,
    /// Number of tasks that were restored.
    loaded: usize,
}

impl TaskRun {
    fn new(seed: u8) -> Self {
        Self {
            seed,
            lives: 0,
            now: Instant::ZERO,
            engine: Engine::new(Arc::new(Config::new("fuzz", "1"))),
            channels: Vec::new(),
            calls: Vec::new(),
            asked: BTreeMap::new(),
            withdrawn: BTreeMap::new(),
            questions: Vec::new(),
            known: BTreeMap::new(),
            records: BTreeMap::new(),
            effects: VecDeque::new(),
            next_id: 1,
            loaded: 0,
        }
    }

    /// Starts a server over the records of the store.
    fn start(&mut self) {
        let capabilities = Capabilities::new().with(Capability::Tools);
        let config = Config::new("fuzz", "1").capabilities(capabilities).limits(Limits::small());
        self.engine = Engine::new(Arc::new(config));
        let limits = TaskLimits::new()
            .max_tasks(MAX_TASKS)
            .max_tasks_per_owner(4)
            .max_bytes(12_000)
            .max_bytes_per_owner(6_000)
            .max_waiting_requests(2)
            .max_running(2);
        self.lives += 1;
        let entropy = Entropy::new([self.seed; 32], self.lives);
        self.engine.set_tasks(self.now, TaskTable::new(entropy, Anchor::default()).limits(limits).stored());
        for (id, (_, record)) in &self.records {
            assert!(self.engine.tasks(self.now).load(id, record).is_ok(), "a record cannot be read");
        }
        self.loaded = self.engine.tasks(self.now).len();
        (self.calls, self.questions) = (Vec::new(), Vec::new());
        (self.asked, self.withdrawn) = (BTreeMap::new(), BTreeMap::new());
        self.channels = Vec::new();
        for party in 0..PARTIES.len() {
            let channel = self.open(party);
            self.channels.push(channel);
        }
        for known in self.known.values_mut().filter(|known| known.party == Some(SESSION)) {
            known.party = None;
        }
        self.poll();
        self.check_known();
    }

    fn open(&mut self, party: usize) -> ChannelId {
        let (principal, is_legacy) = PARTIES[party];
        let channel = self.engine.open_channel(self.now);
        let authorization = principal.map(|name| Authorization::new(Identity::new(name)));
        self.engine.set_authorization(channel, authorization);
        if is_legacy {
            for text in [
                r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            ] {
                self.engine.handle_message(self.now, channel, text.to_string().into());
            }
        }
        channel
    }

    fn step(&mut self, choices: &mut FuzzInput<'_>) {
        match choices.below(32) {
            0..=4 => {
                let party = choices.below(PARTIES.len());
                // A call is told by its arguments.
                let arguments = format!(r#""name":"t","arguments":{{"id":{}}}"#, self.next_id);
                let task = if PARTIES[party].1 { r#","task":{}"# } else { "" };
                self.request(party, "tools/call", &format!("{arguments}{task}"), Asked::Create(None));
            }
            5..=9 => self.ask_about_task(choices),
            10..=14 => self.command(choices),
            15..=18 => self.effects.extend(self.engine.tasks(self.now).poll_store()),
            19..=22 => self.finish_effect(choices),
            23 => {
                let millis = 1_u64 << (choices.byte() % 15);
                // Answers are checked at the time at which they were made.
                self.poll();
                self.now = self.now + Duration::from_millis(millis);
                self.engine.handle_timeout(self.now);
                let next = self.engine.poll_timeout();
                assert!(next.is_none_or(|next| next > self.now), "the deadline did not advance");
            }
            24 => {
                // The latest requests of any party.
                let nth = choices.below(8);
                let Some((id, asked)) = self.asked.iter().nth_back(nth).map(|(id, a)| (*id, a.clone()))
                else {
                    return;
                };
                let text = format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
                );
                self.engine.handle_message(self.now, self.channels[asked.0], text.into());
                self.asked.remove(&id);
                self.withdrawn.insert(id, asked);
            }
            25..=26 => {
                let Some((party, id)) = self.questions.pop() else { return };
                let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"action": "decline"}});
                self.engine.handle_message(self.now, self.channels[party], answer.to_string().into());
            }
            27 => self.close(choices.below(PARTIES.len())),
            28 if choices.below(3) == 0 => {
                if choices.boolean() {
                    self.shut_down();
                }
                self.lose_power(choices);
                self.start();
            }
            _ => {}
        }
        // Several operations may happen between two polls.
        if choices.boolean() {
            self.poll();
        }
    }

    fn request(&mut self, party: usize, method: &str, members: &str, asked: Asked) {
        let (id, meta) = (self.next_id, if PARTIES[party].1 { "" } else { MODERN });
        let comma = if meta.is_empty() { "" } else { "," };
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{members}{comma}{meta}}}}}"#
        );
        self.next_id += 1;
        self.asked.insert(id, (party, asked));
        self.engine.handle_message(self.now, self.channels[party], text.into());
    }

    fn ask_about_task(&mut self, choices: &mut FuzzInput<'_>) {
        let nth = choices.below(self.known.len());
        let Some(id) = self.known.keys().nth(nth).cloned() else { return };
        let party = choices.below(PARTIES.len());
        let members = format!(r#""taskId":"{id}""#);
        match choices.below(6) {
            0..=1 => {
                self.request(party, "tasks/get", &members, Asked::Get(id));
                // Channels are read one after the other: left unread, this state would seem later than changes of it
                // that were acknowledged to another party meanwhile.
                self.poll();
            }
            2 => self.request(party, "tasks/cancel", &members, Asked::Cancel(id)),
            3 if PARTIES[party].1 => self.request(party, "tasks/result", &members, Asked::Other),
            4 if PARTIES[party].1 => self.request(party, "tasks/list", "", Asked::Other),
            4 => {
                let members = format!(r#""notifications":{{"taskIds":["{id}"]}}"#);
                self.request(party, "subscriptions/listen", &members, Asked::Other);
            }
            _ if PARTIES[party].1 => {}
            _ => {
                let keys: Vec<String> = self.known[&id].open.clone();
                let keys: Vec<String> = keys.into_iter().take(choices.below(3)).collect();
                let responses: BTreeMap<&str, Value> =
                    keys.iter().map(|key| (&**key, json!({"action": "decline"}))).collect();
                let members = format!(r#"{members},"inputResponses":{}"#, json!(responses));
                self.request(party, "tasks/update", &members, Asked::Update(id, keys));
            }
        }
    }

    fn command(&mut self, choices: &mut FuzzInput<'_>) {
        if self.calls.is_empty() {
            return;
        }
        let call = self.calls.swap_remove(choices.below(self.calls.len()));
        let now = self.now;
        match choices.below(6) {
            0 => _ = self.engine.fail(now, call.id(), &RpcError::internal("no")),
            1..=2 if call.is_task_run() => {
                let form = InputRequest::Elicit(ElicitParams::form("?", ElicitSchema::default()));
                let names = [&["a"][..], &["a", "b"], &["a", "a#2"], &["c"]][choices.below(4)];
                let asks: InputRequests<'_> = names.iter().map(|name| (*name, form.clone())).collect();
                let _ = self.engine.need_input(now, &call, &asks, b"s");
            }
            3 if call.is_task_run() => {
                let message = "m".repeat(choices.below(200));
                let _ = self.engine.tasks(now).working(call.id(), &message);
                self.calls.push(call);
            }
            _ if call.task_offer() == TaskOffer::None => {
                let text = "x".repeat(choices.below(256) * 16);
                let _ = self.engine.complete(now, call.id(), &CallToolResult::text(text));
                assert!(!self.engine.tasks(now).working(call.id(), "late"), "a message after the end");
            }
            _ => {
                let arguments = call.tool_call().expect("a tool").arguments;
                let arguments: Value = serde_json::from_slice(arguments).expect("JSON");
                let id = arguments["id"].as_i64().expect("a number");
                if self.engine.tasks(now).begin(&call, TaskOptions::new().ttl(TTL)).is_err() {
                    self.calls.push(call);
                } else if let Some((_, asked)) =
                    self.asked.get_mut(&id).or_else(|| self.withdrawn.get_mut(&id))
                {
                    *asked = Asked::Create(Some(now));
                }
            }
        }
    }

    /// Lets the store finish what it began first. It may fail, also after it has written.
    fn finish_effect(&mut self, choices: &mut FuzzInput<'_>) {
        let Some(effect) = self.effects.pop_front() else { return };
        let how = choices.below(8);
        if how != 0 {
            self.write(&effect);
        }
        let is_ok = how > 1;
        let mut tasks = self.engine.tasks(self.now);
        match effect {
            StoreEffect::Save { id, version, .. } => tasks.handle_saved(&id, version, is_ok),
            StoreEffect::Delete { id, version } => tasks.handle_deleted(&id, version, is_ok),
            other => panic!("unknown effect: {other:?}"),
        }
    }

    fn write(&mut self, effect: &StoreEffect) {
        match effect {
            StoreEffect::Save { id, version, record } => {
                if self.records.get(id).is_none_or(|(known, _)| known < version) {
                    self.records.insert(id.clone(), (*version, record.clone()));
                }
            }
            StoreEffect::Delete { id, .. } => _ = self.records.remove(id),
            other => panic!("unknown effect: {other:?}"),
        }
    }

    /// Ends the process: the store has written some of what it had begun.
    fn lose_power(&mut self, choices: &mut FuzzInput<'_>) {
        // Effects that clients saw before the restart count.
        self.poll();
        while let Some(effect) = self.effects.pop_front() {
            if choices.boolean() {
                self.write(&effect);
            }
        }
    }

    fn close(&mut self, party: usize) {
        self.poll();
        self.engine.close_channel(self.now, self.channels[party], &Fault::Closed);
        self.poll();
        self.engine.release_channel(self.channels[party]);
        self.asked.retain(|_, (of, _)| *of != party);
        self.withdrawn.retain(|_, (of, _)| *of != party);
        self.questions.retain(|(of, _)| *of != party);
        if party == SESSION {
            for known in self.known.values_mut().filter(|known| known.party == Some(SESSION)) {
                known.is_over = true;
            }
        }
        self.channels[party] = self.open(party);
    }

    fn shut_down(&mut self) {
        self.poll();
        self.engine.shutdown(self.now, Duration::from_secs(1));
        self.poll();
        self.now = self.now + Duration::from_secs(1);
        self.engine.handle_timeout(self.now);
        self.poll();
        assert!(self.asked.is_empty(), "not answered at the shutdown: {:?}", self.asked);
    }

    fn poll(&mut self) {
        while let Some(event) = self.engine.poll_event(self.now) {
            match event {
                Event::Call(call) => self.calls.push(call),
                Event::Cancelled { call, .. } => self.calls.retain(|other| other.id() != call),
                _ => {}
            }
        }
        for party in 0..self.channels.len() {
            let channel = self.channels[party];
            while let Some(message) = self.engine.outbox(channel).and_then(|outbox| outbox.pop_message()) {
                let message: Value = serde_json::from_slice(&message).expect("JSON");
                self.receive(party, &message);
            }
        }
        check_server(&self.engine);
        let tasks = self.engine.tasks(self.now).len();
        assert!(tasks <= MAX_TASKS.max(self.loaded), "too many tasks");
    }

    fn receive(&mut self, party: usize, message: &Value) {
        if message.get("method").is_some() {
            if message.get("id").is_some() {
                self.questions.push((party, message["id"].clone()));
            }
            return;
        }
        let id = message["id"].as_i64().expect("a number");
        if id == 0 {
            return;
        }
        let asked = self.asked.remove(&id).or_else(|| self.withdrawn.remove(&id));
        let Some((of, asked)) = asked else { panic!("not asked for: {message}") };
        assert_eq!(of, party);
        let result = message.get("result");
        match asked {
            Asked::Create(begun) => {
                let task = result.map(|result| result.get("task").unwrap_or(result));
                let Some(task) = task.and_then(|task| task["taskId"].as_str()) else { return };
                let known = KnownTask {
                    party: Some(party).filter(|_| PARTIES[party] != (None, false)),
                    is_legacy: PARTIES[party].1,
                    expires: begun.expect("it was begun") + TTL,
                    is_over: false,
                    is_cancelled: false,
                    end: None,
                    open: Vec::new(),
                    answered: BTreeSet::new(),
                };
                assert!(self.known.insert(task.to_string(), known).is_none(), "an id is used twice");
            }
            // Any other error says nothing about the task.
            Asked::Get(task) if result.is_some() || message["error"]["code"] == -32_602 => {
                self.check_seen(party, &task, result);
            }
            Asked::Cancel(task) if result.is_some() => {
                let known = self.known.get_mut(&task).expect("known");
                known.is_cancelled = true;
                if known.is_legacy {
                    // TASK-028
                    assert_eq!(message["result"]["status"], "cancelled", "not cancelled before the answer");
                    known.end.get_or_insert_with(|| "cancelled".into());
                }
            }
            Asked::Update(task, keys) if result.is_some() => {
                self.known.get_mut(&task).expect("known").answered.extend(keys);
            }
            _ => {}
        }
    }

    /// Checks the answer to a `tasks/get`.
    fn check_seen(&mut self, party: usize, task: &str, seen: Option<&Value>) {
        let known = self.known.get_mut(task).expect("known");
        let (principal, is_legacy) = PARTIES[party];
        let may_see = known.is_legacy == is_legacy
            && known.party.is_none_or(|owner| match PARTIES[owner].0 {
                Some(name) => principal == Some(name),
                None => owner == party,
            });
        let Some(seen) = seen else {
            let is_lost = may_see && !known.is_over && self.now + ROUNDING < known.expires;
            assert!(!is_lost, "a task is lost");
            return;
        };
        assert!(may_see, "party {party} sees the task of another one");
        assert!(self.now < known.expires + ROUNDING, "a task outlives its time");
        let status = seen["status"].as_str().expect("a status");
        let is_over = ["completed", "failed", "cancelled"].contains(&status);
        assert!(is_over || !known.is_cancelled, "an acknowledged cancellation is lost");
        if let Some(end) = &known.end {
            assert_eq!(end, status, "the end of a task changes");
        } else if is_over {
            known.end = Some(status.to_string());
        }
        let open = seen["inputRequests"].as_object();
        known.open = open.map(|open| open.keys().cloned().collect()).unwrap_or_default();
        let again: Vec<&String> = known.open.iter().filter(|key| known.answered.contains(*key)).collect();
        assert!(again.is_empty(), "an answered question is asked again: {again:?}");
    }

    /// Reads every known task as each party.
    fn check_known(&mut self) {
        for id in self.known.keys().cloned().collect::<Vec<_>>() {
            for party in 0..PARTIES.len() {
                let members = format!(r#""taskId":"{id}""#);
                self.request(party, "tasks/get", &members, Asked::Get(id.clone()));
            }
            self.poll();
        }
    }

    /// Lets the store work and all time pass, and checks that nothing is left.
    fn end(&mut self) {
        self.poll();
        self.check_known();
        for _ in 0..1_000 {
            while let Some(effect) = self.effects.pop_front() {
                self.write(&effect);
                let mut tasks = self.engine.tasks(self.now);
                match effect {
                    StoreEffect::Save { id, version, .. } => tasks.handle_saved(&id, version, true),
                    StoreEffect::Delete { id, version } => tasks.handle_deleted(&id, version, true),
                    other => panic!("unknown effect: {other:?}"),
                }
            }
            self.effects.extend(self.engine.tasks(self.now).poll_store());
            self.poll();
            if !self.effects.is_empty() {
                continue;
            }
            let next = self.engine.poll_timeout();
            let is_done = self.engine.tasks(self.now).is_empty() && self.engine.tasks(self.now).is_saved();
            let Some(at) = next.filter(|_| !is_done) else { break };
            self.now = self.now.max(at);
            self.engine.handle_timeout(self.now);
        }
        assert!(self.engine.tasks(self.now).is_empty(), "a task has no end");
        assert!(self.engine.tasks(self.now).is_saved() && self.records.is_empty(), "records are left");
        assert!(!self.calls.iter().any(Call::is_task_run), "a run outlives its task");
    }
}
