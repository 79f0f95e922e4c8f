//! Tests of questions that follow tasks: each state with each event, against their document, and late messages.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use serde_json::{Value, json};

use crate::error::CallError;
use crate::model::ElicitSchema;
use crate::server::parked::SESSION_SHARE;
use crate::server::{Call, Config, Engine, Event, InputRequired};
use crate::tap::ChannelId;
use crate::{Capabilities, Capability, Instant, Limits};

const DOCUMENT: &str = include_str!("../../../docs/tasks.md");
const STATES: [&str; 6] = ["Asked", "Waiting", "Polling", "Blocked", "Collecting", "Retrying"];
/// Interval of polls that the client proposes, and the one after a failure.
const INTERVAL: Duration = Duration::from_millis(500);
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
const SILENCE: Duration = Duration::from_secs(60);
/// Time that an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(300);

/// A server whose client speaks by hand, and a call of it that asks a question as a task.
struct Asker {
    engine: Engine,
    channel: ChannelId,
    now: Instant,
    /// The request of the server that is open, and the last one that was answered: their ids and methods.
    open: Option<(Value, String)>,
    answered: Option<Value>,
    /// Messages that are no request that stays open: notifications and `tasks/cancel`.
    told: Vec<Value>,
    /// Ids of requests to cancel the task.
    cancels: Vec<Value>,
    /// The outcome of the question; `None` for a call that has ended.
    outcome: Option<Option<Result<String, CallError>>>,
}

impl Asker {
    fn new() -> Self {
        let limits =
            Limits { input_timeout: PATIENCE, call_timeout: SILENCE, max_events: 4_096, ..Limits::default() };
        let config =
            Config::new("s", "1").capabilities(Capabilities::new().with(Capability::Tools)).limits(limits);
        let mut engine = Engine::new(Arc::new(config));
        let channel = engine.open_channel(Instant::ZERO);
        let mut asker = Self {
            engine,
            channel,
            now: Instant::ZERO,
            open: None,
            answered: None,
            told: Vec::new(),
            cancels: Vec::new(),
            outcome: None,
        };
        asker.feed(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "clientInfo": {"name": "c", "version": "1"}, "capabilities": {
                "elicitation": {}, "tasks": {"requests": {"elicitation": {"create": {}}}},
            },
        }}));
        asker.feed(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let params = json!({"name": "t", "arguments": {}});
        asker.feed(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        asker
    }

    fn feed(&mut self, message: &Value) {
        self.engine.handle_message(self.now, self.channel, message.to_string().into());
        self.settle();
    }

    /// Asks for the first delivery of the call, and takes the outcome from the second one.
    fn take_call(&mut self, call: &Call) {
        if call.attempt() > 0 {
            let answer = call.answer("q").expect("an outcome");
            let answer = answer.map(|text| text.as_str().into()).map_err(CallError::clone);
            assert!(self.outcome.replace(Some(answer)).is_none(), "the question ends twice");
            return;
        }
        let mut input = InputRequired::new();
        input.ask_as_tasks(None);
        assert!(input.elicit(call, "q", "?", ElicitSchema::default()).is_err());
        self.engine.require_input(self.now, call, &input).expect("the client answers forms");
    }

    fn settle(&mut self) {
        while let Some(event) = self.engine.poll_event(self.now) {
            match event {
                Event::Call(call) => self.take_call(&call),
                Event::Cancelled { .. } => assert!(self.outcome.replace(None).is_none(), "ended twice"),
                _ => {}
            }
        }
        while let Some(message) = self.engine.outbox(self.channel).and_then(|outbox| outbox.pop_message()) {
            let message: Value = serde_json::from_slice(&message).expect("JSON");
            match message["method"].as_str() {
                // A `tasks/cancel` without an answer.
                Some("notifications/cancelled") if self.cancels.contains(&message["params"]["requestId"]) => {
                }
                Some("notifications/cancelled") => {
                    let (id, _) = self.open.take().unwrap_or_else(|| panic!("no request is open: {message}"));
                    assert_eq!(message["params"]["requestId"], id);
                    self.answered = Some(id);
                    self.told.push(message);
                }
                Some("tasks/cancel") => {
                    self.cancels.push(message["id"].clone());
                    self.told.push(message);
                }
                Some(method) => {
                    let opened = (message["id"].clone(), method.into());
                    assert!(self.open.replace(opened).is_none(), "two requests at once");
                }
                None => assert!(message["id"] == 0 || message["error"]["code"] == -32603, "{message}"),
            }
        }
        // A parked call that its client cancels ends without a word.
        let is_over = self.engine.endpoint.inbound.calls.is_empty() && self.engine.parked.is_some();
        if is_over && self.outcome.is_none() {
            self.outcome = Some(None);
        }
        self.engine.check_sums();
    }

    /// Answers the open request, or the last one again.
    fn respond(&mut self, members: Value) {
        let open = self.open.take().map(|(id, _)| id);
        let id = open.or_else(|| self.answered.clone()).expect("a request");
        self.answered = Some(id.clone());
        let mut message = members;
        (message["jsonrpc"], message["id"]) = (json!("2.0"), id);
        self.feed(&message);
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.engine.handle_timeout(self.now);
        self.settle();
        // The timeout of a request that went out too late for its answer.
        if self.open.is_some() && self.engine.endpoint.outbound.calls.len() < 2 {
            let is_question = self.open.as_ref().is_some_and(|(_, method)| method == "elicitation/create");
            self.answered = if is_question { None } else { self.open.take().map(|(id, _)| id) };
        }
    }

    /// Returns the state in the words of the document.
    fn state(&self, is_over: bool) -> &'static str {
        if self.outcome.is_some() {
            return "Ended";
        }
        match self.open.as_ref().map(|(_, method)| &**method) {
            None if is_over => "Retrying",
            None => "Waiting",
            Some("tasks/get") => "Polling",
            Some("tasks/result") if is_over => "Collecting",
            Some("tasks/result") => "Blocked",
            Some(_) => "Asked",
        }
    }

    /// Applies an event of the document.
    fn apply(&mut self, event: &str) {
        let error = |code: i64| json!({"error": {"code": code, "message": "m"}});
        match event {
            "working" | "input_required" | "completed" | "failed" | "cancelled" => {
                let is_question =
                    self.open.as_ref().is_some_and(|(_, method)| method == "elicitation/create");
                self.respond(state(event, is_question));
            }
            "plain" => self.respond(json!({"result": {"action": "decline"}})),
            "lost" => self.respond(error(-32602)),
            "failure" => self.respond(error(-32603)),
            "error" => self.respond(error(-32601)),
            "silence" if self.open.is_some() => self.wait(SILENCE),
            "silence" => {}
            "poll" => self.wait(RETRY_INTERVAL),
            "hint" => {
                let params = state("completed", false)["result"].clone();
                let method = "notifications/tasks/status";
                self.feed(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
            }
            "timeout" => self.wait(PATIENCE),
            "end" => {
                let params = json!({"requestId": 1});
                self.feed(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
            }
            other => panic!("unknown event `{other}`"),
        }
    }

    fn in_state(wanted: &str) -> Self {
        let mut asker = Self::new();
        let path: &[&str] = match wanted {
            "Asked" => &[],
            "Waiting" => &["working"],
            "Polling" => &["working", "poll"],
            "Blocked" => &["input_required"],
            "Collecting" => &["completed"],
            "Retrying" => &["completed", "silence"],
            other => panic!("unknown state `{other}`"),
        };
        for event in path {
            asker.apply(event);
        }
        assert_eq!(asker.state(["Collecting", "Retrying"].contains(&wanted)), wanted);
        asker.told.clear();
        asker
    }
}

/// Returns a response with a state of the task.
fn state(status: &str, is_question: bool) -> Value {
    let task = json!({
        "taskId": "q-1", "status": status, "createdAt": "2025-11-26T09:00:00Z",
        "lastUpdatedAt": "2025-11-26T09:00:05Z", "ttl": 3_600_000, "statusMessage": "m",
        "pollInterval": u64::try_from(INTERVAL.as_millis()).expect("small"),
    });
    json!({"result": if is_question { json!({"task": task}) } else { task }})
}

fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let part = DOCUMENT.split("\n\n").find(|part| part.starts_with(heading)).expect("the table");
    let lines = part.lines().filter(|line| !line.starts_with("|--"));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Returns the outcome of a question that has ended in a state by an event, as the document says it.
fn expected_outcome(from: &str, event: &str) -> String {
    let kind = match (from, event) {
        ("Polling", "plain") => "invalid",
        (_, "plain") => "answer",
        ("Blocked" | "Collecting", "working" | "input_required" | "completed" | "cancelled") => "answer",
        (_, "cancelled") => "cancelled",
        ("Polling" | "Collecting", "lost") => "lost",
        (_, "lost") => "-32602",
        (_, "failure") => "-32603",
        (_, "error") => "-32601",
        (_, "timeout") => "timed out",
        _ => "no delivery",
    };
    kind.into()
}

fn kind_of(outcome: Option<Result<String, CallError>>) -> String {
    let Some(outcome) = outcome else { return "no delivery".into() };
    match outcome {
        Ok(_) => "answer".into(),
        Err(CallError::InvalidTask { .. }) => "invalid".into(),
        Err(CallError::TaskCancelled { message }) => {
            assert_eq!(message.as_deref(), Some("m"));
            "cancelled".into()
        }
        Err(CallError::TaskLost(_)) => "lost".into(),
        Err(CallError::Rpc(error)) => format!("{}", error.code),
        Err(CallError::TimedOut | CallError::TotalTimedOut) => "timed out".into(),
        Err(other) => format!("{other:?}"),
    }
}

// covers: TASK-018, TASK-019, TASK-021, TASK-028, TASK-031
#[test]
fn each_state_and_event_of_a_followed_question_is_as_documented() {
    let table = rows("| State | working");
    let (head, rows) = table.split_first().expect("a table");
    assert_eq!((head.len(), rows.iter().map(|row| row[0]).collect::<Vec<_>>()), (14, STATES.to_vec()));
    for row in rows {
        for (event, cell) in head.iter().zip(row).skip(1) {
            check_transition(row[0], event, if cell.is_empty() { row[0] } else { cell });
        }
    }
}

fn check_transition(from: &str, event: &str, expected: &str) {
    let case = format!("{from} + {event}");
    let mut asker = Asker::in_state(from);
    let had_request = asker.open.clone();
    asker.apply(event);
    // A state that answers no request for the state says nothing.
    let has_state = ["Asked", "Polling"].contains(&from) && event == "completed";
    let is_over = ["Collecting", "Retrying"].contains(&from) || has_state;
    assert_eq!(asker.state(is_over), expected, "{case}");
    if expected != "Ended" {
        // A request without an answer is withdrawn.
        assert_eq!(asker.told.len(), usize::from(event == "silence" && expected != from), "{case}");
        assert!(asker.cancels.is_empty(), "{case}: {:?}", asker.told);
        if expected == from {
            assert_eq!(asker.open, had_request, "{case} has no effect");
        }
        return;
    }
    let outcome = asker.outcome.clone().flatten();
    assert_eq!(kind_of(outcome), expected_outcome(from, event), "{case}");
    // A task that may still run is cancelled, and no other one.
    let runs = ["Waiting", "Polling", "Blocked"].contains(&from) && ["timeout", "end"].contains(&event);
    let invalid = from == "Polling" && ["plain", "error"].contains(&event);
    let cancels = asker.told.iter().filter(|message| message["method"] == "tasks/cancel").count();
    assert_eq!(cancels, usize::from(runs || invalid), "{case}: {:?}", asker.told);
    check_after_end(asker, &case);
}

/// All that comes after the end changes nothing.
fn check_after_end(mut asker: Asker, case: &str) {
    asker.told.clear();
    asker.open = None;
    let ended = asker.outcome.clone();
    for event in ["hint", "end", "working", "completed", "plain", "failure", "lost", "poll", "timeout"] {
        if event == "end" && ended == Some(None) {
            continue;
        }
        if event == "end" {
            // The call was delivered again, and may end in its turn.
            asker.outcome = None;
        }
        if asker.answered.is_some() || ["hint", "end", "poll", "timeout"].contains(&event) {
            asker.apply(event);
        }
        assert!(asker.open.is_none() && asker.told.is_empty(), "{case}, then {event}: {:?}", asker.told);
    }
    assert!(asker.engine.endpoint.outbound.calls.is_empty(), "{case}: a request is left");
    assert_eq!(asker.engine.parked.as_ref().map_or(0, |parked| parked.len()), 0, "{case}");
}

#[test]
fn poll_without_memory_is_sent_later() {
    let mut asker = Asker::in_state("Waiting");
    let usual = asker.engine.endpoint.limits.clone();
    let none = usize::MAX / 4;
    asker.engine.endpoint.limits =
        Arc::new(Limits { memory_reserve: none, max_uri: none, ..(*usual).clone() });
    asker.wait(RETRY_INTERVAL);
    assert_eq!(asker.state(false), "Waiting");
    assert_eq!(asker.engine.endpoint.outbound.calls.len(), 1, "nobody answers what was not sent");
    asker.engine.endpoint.limits = usual;
    asker.wait(RETRY_INTERVAL);
    assert_eq!(asker.state(false), "Polling");
}

// covers: TASK-018
#[test]
fn failures_are_counted_in_a_row_for_polls_and_in_all_for_results() {
    let failures = |asker: &mut Asker, event: &str| {
        for count in 1.. {
            asker.apply(event);
            if asker.outcome.is_some() {
                return count;
            }
            assert_eq!(asker.state(false), "Waiting");
            // Each wait is twice as long as the one before.
            asker.wait(INTERVAL * (1 << count) - Duration::from_micros(1));
            assert!(asker.open.is_none(), "too early");
            asker.wait(Duration::from_micros(1));
            assert_eq!(asker.state(false), "Polling");
        }
        0
    };
    for event in ["failure", "silence"] {
        let mut asker = Asker::in_state("Polling");
        // Four failures are forgotten when a state has come.
        for count in 1..5 {
            asker.apply("failure");
            asker.wait(INTERVAL * (1 << count));
        }
        asker.apply("working");
        asker.wait(INTERVAL);
        if event == "failure" {
            assert_eq!(failures(&mut asker, event), 5);
        }
    }
    // Results that fail do not become fewer by states in between.
    let mut asker = Asker::in_state("Blocked");
    for count in 1..=5_u32 {
        assert_eq!(asker.state(false), "Blocked", "{count}");
        asker.apply("failure");
        if count < 5 {
            asker.wait(INTERVAL * (1 << count));
            asker.apply("input_required");
        }
    }
    assert_eq!(kind_of(asker.outcome.flatten()), "-32603");
}

#[test]
fn state_of_another_task_or_unknown_status_ends_the_question() {
    for status in ["working", "resting"] {
        let mut asker = Asker::in_state("Polling");
        let mut other = state(status, false);
        if status == "working" {
            other["result"]["taskId"] = json!("q-2");
        }
        asker.respond(other);
        assert_eq!(kind_of(asker.outcome.clone().flatten()), "invalid", "{status}");
        assert_eq!(asker.told.len(), 1, "the task may still run: {:?}", asker.told);
        assert_eq!(asker.told[0]["params"]["taskId"], "q-1");
    }
}

/// A state that was sent before the end of the task does not undo it.
// covers: TASK-013
#[test]
fn task_that_has_ended_stays_so() {
    let mut asker = Asker::in_state("Retrying");
    asker.apply("poll");
    assert_eq!(asker.state(true), "Collecting");
    asker.apply("hint");
    assert_eq!(asker.state(true), "Collecting");
    asker.apply("lost");
    assert_eq!(kind_of(asker.outcome.flatten()), "lost");
}

// covers: TASK-025
#[test]
fn one_hint_of_a_question_makes_one_poll() {
    let mut asker = Asker::in_state("Polling");
    // While a request is out, a hint is neither obeyed nor used up.
    asker.apply("hint");
    asker.apply("working");
    asker.apply("hint");
    assert_eq!(asker.state(false), "Polling");
    asker.apply("working");
    asker.apply("hint");
    assert_eq!(asker.state(false), "Waiting", "a second hint comes no earlier than the poll");
}

// covers: CANC-009, TASK-028
#[test]
fn task_that_is_created_after_the_end_of_its_question_is_cancelled() {
    for end in ["timeout", "end"] {
        for status in ["working", "input_required", "completed", "failed", "cancelled"] {
            let mut asker = Asker::in_state("Asked");
            let (question, _) = asker.open.clone().expect("a question");
            asker.apply(end);
            assert!(asker.outcome.is_some() && asker.told.is_empty(), "{end}: {:?}", asker.told);
            (asker.open, asker.answered) = (None, None);
            let mut created = state(status, true);
            (created["jsonrpc"], created["id"]) = (json!("2.0"), question);
            asker.feed(&created);
            let may_run = ["working", "input_required"].contains(&status);
            let cancels: Vec<&Value> = asker.told.iter().map(|message| &message["params"]).collect();
            let wanted = json!({"taskId": "q-1"});
            assert_eq!(cancels, Vec::from_iter(may_run.then_some(&wanted)), "{end}, {status}");
        }
    }
}

#[test]
fn end_of_the_session_ends_the_question_in_each_state_and_sends_nothing() {
    for from in STATES {
        let mut asker = Asker::in_state(from);
        asker.open = None;
        asker.engine.handle_eof(asker.now, asker.channel);
        asker.settle();
        asker.wait(PATIENCE * 2);
        assert_eq!(asker.outcome, Some(None), "{from}");
        assert!(asker.told.is_empty() && asker.open.is_none(), "{from}: {:?}", asker.told);
        assert!(asker.engine.endpoint.outbound.calls.is_empty(), "{from}: a request is left");
    }
}

#[test]
fn poll_waits_for_room_in_the_outbox() {
    let mut asker = Asker::in_state("Waiting");
    let usual = asker.engine.endpoint.limits.clone();
    asker.engine.endpoint.limits = Arc::new(Limits { outbox_high_water: 0, ..(*usual).clone() });
    asker.wait(RETRY_INTERVAL);
    assert_eq!(asker.state(false), "Waiting");
    asker.engine.endpoint.limits = usual;
    asker.wait(RETRY_INTERVAL);
    assert_eq!(asker.state(false), "Polling");
}

/// Returns the response to a question that has become a task with an id.
fn created(question: &Value, id: &str) -> Value {
    let mut created = state("working", true);
    (created["jsonrpc"], created["id"]) = (json!("2.0"), question.clone());
    created["result"]["task"]["taskId"] = json!(id);
    created
}

#[test]
fn task_is_followed_and_cancelled_late_by_an_id_of_bounded_length() {
    for (length, is_valid) in [(super::MAX_TASK_ID, true), (super::MAX_TASK_ID + 1, false)] {
        let id = "q".repeat(length);
        let mut asker = Asker::in_state("Asked");
        let (question, _) = asker.open.take().expect("a question");
        asker.feed(&created(&question, &id));
        assert_eq!(asker.state(false), if is_valid { "Waiting" } else { "Ended" });
        let tasks = asker.engine.parked.as_mut().and_then(|parked| parked.tasks()).expect("the tasks");
        let text = format!("{tasks:?}");
        assert_eq!(text, format!("FollowedQuestions {{ questions: {}, .. }}", usize::from(is_valid)));

        let mut asker = Asker::in_state("Asked");
        let (question, _) = asker.open.clone().expect("a question");
        asker.apply("end");
        asker.feed(&created(&question, &id));
        assert_eq!(asker.told.len(), usize::from(is_valid), "{length}");
    }
}

#[test]
fn late_tasks_are_cancelled_within_the_share_of_their_session() {
    let mut asker = Asker::in_state("Asked");
    let (question, _) = asker.open.clone().expect("a question");
    asker.apply("end");
    let share = u32::try_from(SESSION_SHARE).expect("small");
    let limits = Limits { max_pending_calls: 2 * share, ..(*asker.engine.endpoint.limits).clone() };
    asker.engine.endpoint.limits = Arc::new(limits);
    for id in ["q-1", "q-2", "q-3", "q-4"] {
        asker.feed(&created(&question, id));
    }
    let cancelled: Vec<&str> =
        asker.told.iter().filter_map(|sent| sent["params"]["taskId"].as_str()).collect();
    assert_eq!(cancelled, ["q-1", "q-2"]);
}

// covers: TASK-003
#[test]
#[expect(deprecated, reason = "supported until its removal")]
fn questions_become_tasks_by_the_declaration_of_their_kind() {
    let methods = ["sampling/createMessage", "elicitation/create", "roots/list"];
    for (declared, expected) in [
        (Capabilities::new(), [false, false, false]),
        (Capabilities::new().with(Capability::SamplingTasks), [true, false, false]),
        (Capabilities::new().with(Capability::ElicitationTasks), [false, true, false]),
    ] {
        assert_eq!(methods.map(|method| crate::tasks::may_be_task(&declared, method)), expected);
    }
}
