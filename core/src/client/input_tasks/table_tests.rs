//! Tests of the table of hosted tasks: each status with each event, against its document, and the moments around both.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use serde_json::{Value, json};

use super::hosted::{InputTaskLimits, InputTasks};
use crate::client::{Config, Engine, Event, InputId};
use crate::tap::ChannelId;
use crate::{Anchor, Capabilities, Capability, Entropy, Instant, Limits, RpcError, UseError, VersionSet};

const DOCUMENT: &str = include_str!("../../../docs/tasks.md");
const STATUSES: [&str; 5] = ["working", "completed", "failed", "cancelled", "unknown"];
const TTL: Duration = Duration::from_secs(600);
/// Time by which a question must be answered.
const PATIENCE: Duration = Duration::from_secs(300);

/// A client of 2025-11-25 whose server speaks by hand.
struct Host {
    engine: Engine,
    channel: ChannelId,
    now: Instant,
    next_id: i64,
}

/// A task, and the question that the application sees.
#[derive(Clone)]
struct Hosted {
    id: Value,
    input: InputId,
}

impl Host {
    fn new(limits: InputTaskLimits) -> Self {
        let tasks = InputTasks::new(Entropy::new([3; 32], 0), Anchor::new(Instant::ZERO, 1_785_578_400));
        let config = Config::new("c", "1")
            .versions(VersionSet::LEGACY)
            .capabilities(Capabilities::new().with(Capability::Elicitation))
            .limits(Limits { input_timeout: PATIENCE, ..Limits::default() })
            .input_tasks(tasks.limits(limits));
        let mut engine = Engine::new(Arc::new(config));
        let channel = engine.open_channel(Instant::ZERO);
        let mut host = Self { engine, channel, now: Instant::ZERO, next_id: 1 };
        let initialize = host.sent().remove(0);
        let result = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"},
        });
        host.feed(&json!({"jsonrpc": "2.0", "id": initialize["id"], "result": result}));
        assert!(matches!(host.events()[..], [Event::Ready(_)]));
        assert_eq!(host.sent()[0]["method"], "notifications/initialized");
        host
    }

    fn feed(&mut self, message: &Value) {
        self.engine.handle_message(self.now, self.channel, message.to_string().into());
        self.engine.check_sums();
    }

    fn sent(&mut self) -> Vec<Value> {
        let mut sent = Vec::new();
        while let Some(message) = self.engine.outbox(self.channel).and_then(|outbox| outbox.pop_message()) {
            sent.push(serde_json::from_slice(&message).expect("JSON"));
        }
        sent
    }

    fn events(&mut self) -> Vec<Event> {
        core::iter::from_fn(|| self.engine.poll_event(self.now)).collect()
    }

    /// Returns the withdrawn questions; there is no other event.
    fn withdrawn(&mut self) -> Vec<InputId> {
        let event = |event| match event {
            Event::InputWithdrawn(input) => input,
            other => panic!("{other:?}"),
        };
        self.events().into_iter().map(event).collect()
    }

    fn send(&mut self, method: &str, params: &Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        self.feed(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a request that is answered at once, without any other message.
    fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        let sent = self.sent();
        assert!(sent.len() == 1 && sent[0]["id"] == id, "{method}: {sent:?}");
        sent[0].clone()
    }

    fn ask_with(&mut self, params: &Value) -> Result<Hosted, Value> {
        let answer = self.request("elicitation/create", params);
        if answer["error"].is_object() {
            assert!(self.events().is_empty());
            return Err(answer["error"].clone());
        }
        let [Event::Input(input)] = &self.events()[..] else { panic!("no question") };
        Ok(Hosted { id: answer["result"]["task"]["taskId"].clone(), input: input.id })
    }

    fn ask(&mut self) -> Result<Hosted, Value> {
        self.ask_with(&question(TTL))
    }

    fn about(&mut self, method: &str, task: &Hosted) -> Value {
        self.request(method, &json!({"taskId": task.id}))
    }

    fn status(&mut self, task: &Hosted) -> String {
        let answer = self.about("tasks/get", task);
        match answer["error"]["code"].as_i64() {
            Some(code) => format!("{code}"),
            None => answer["result"]["status"].as_str().expect("a status").into(),
        }
    }

    fn answer(&mut self, task: &Hosted) -> Result<(), UseError> {
        let done = self.engine.answer(self.now, task.input, &accepted());
        self.engine.check_sums();
        done
    }

    fn refuse(&mut self, task: &Hosted) -> Result<(), UseError> {
        let done = self.engine.refuse(self.now, task.input, &RpcError::new(-1, "tide"));
        self.engine.check_sums();
        done
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now + time;
        self.engine.handle_timeout(self.now);
        self.engine.check_sums();
    }

    /// Brings a task into a status, and drops what is sent for it.
    fn reach(&mut self, task: &Hosted, status: &str) {
        match status {
            "completed" => self.answer(task).expect("it is open"),
            "failed" => self.refuse(task).expect("it is open"),
            "cancelled" => _ = self.about("tasks/cancel", task),
            // Its time to live ends first.
            "unknown" => self.wait(TTL),
            _ => {}
        }
        self.sent();
        self.events();
    }
}

fn question(ttl: Duration) -> Value {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    json!({
        "mode": "form", "message": "?", "requestedSchema": schema,
        "task": {"ttl": u64::try_from(ttl.as_millis()).expect("small")},
    })
}

fn accepted() -> Value {
    json!({"action": "accept", "content": {"a": "x"}})
}

fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let part = DOCUMENT.split("\n\n").find(|part| part.starts_with(heading)).expect("the table");
    let lines = part.lines().filter(|line| !line.starts_with("|--"));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// Returns what `tasks/result` answers: the answer, or the code of an error.
fn outcome_of(status: &str) -> Value {
    match status {
        "completed" => json!("x"),
        "failed" => json!(-1),
        "cancelled" => json!(-32603),
        _ => json!(-32602),
    }
}

fn outcome(answer: &Value) -> Value {
    match answer.get("error") {
        Some(error) => error["code"].clone(),
        None => answer["result"]["content"]["a"].clone(),
    }
}

// covers: TASK-013, TASK-019, TASK-024, TASK-025, TASK-028, TASK-031
#[test]
fn each_status_and_event_of_a_hosted_task_is_as_documented() {
    let table = rows("| Status | answer");
    let (head, rows) = table.split_first().expect("a table");
    assert_eq!((head.len(), rows.iter().map(|row| row[0]).collect::<Vec<_>>()), (7, STATUSES.to_vec()));
    for row in rows {
        for (event, cell) in head.iter().zip(row).skip(1) {
            // A request may wait for the result.
            for waits in [false, true] {
                check_transition(row[0], event, cell, waits && row[0] == "working");
            }
        }
    }
}

fn check_transition(from: &str, event: &str, cell: &str, waits: bool) {
    let case = format!("{from} + {event}, waits: {waits}");
    let mut host = Host::new(InputTaskLimits::new());
    let task = host.ask().expect("room");
    host.reach(&task, from);
    let waiting = waits.then(|| host.send("tasks/result", &json!({"taskId": task.id})));
    let is_open = from == "working";
    let expected = if ["", "="].contains(&cell) { from } else { cell };
    let mut answers = Vec::new();
    match event {
        "answer" => assert_eq!(host.answer(&task).is_ok(), is_open, "{case}"),
        "refusal" => assert_eq!(host.refuse(&task).is_ok(), is_open, "{case}"),
        "no answer" => host.wait(PATIENCE),
        "expiry" => host.wait(TTL),
        "cancel" => {
            host.send("tasks/cancel", &json!({"taskId": task.id}));
            let answer = host.sent();
            let (last, before) = answer.split_last().expect("an answer");
            assert_eq!(last["error"]["code"].as_i64(), (!is_open).then_some(-32602), "{case}");
            answers.extend_from_slice(before);
        }
        "result" => _ = host.send("tasks/result", &json!({"taskId": task.id})),
        other => panic!("unknown event `{other}`"),
    }
    let is_removed = expected == "unknown" && from == "working" && event == "expiry";
    let has_ended = is_open && expected != from;
    // The question is withdrawn unless the application ended it.
    let is_withdrawn = has_ended && !["answer", "refusal"].contains(&event);
    assert_eq!(host.withdrawn(), Vec::from_iter(is_withdrawn.then_some(task.input)), "{case}");
    answers.extend(host.sent());
    let failed = if event == "no answer" || event == "expiry" { json!(-32603) } else { outcome_of(expected) };
    if let Some(id) = waiting.filter(|_| has_ended) {
        let answer = answers.remove(0);
        let code = if is_removed { json!(-32602) } else { failed };
        assert_eq!((&answer["id"], outcome(&answer)), (&json!(id), code), "{case}");
    } else if has_ended && event != "cancel" && !is_removed {
        let told = answers.remove(0);
        assert_eq!(told["method"], "notifications/tasks/status", "{case}");
        assert_eq!(told["params"]["status"], expected, "{case}");
    }
    if event == "result" && !is_open {
        assert_eq!(outcome(&answers.remove(0)), outcome_of(from), "{case}");
    }
    assert!(answers.is_empty(), "{case}: {answers:?}");
    let shown = if expected == "unknown" { "-32602" } else { expected };
    assert_eq!(host.status(&task), shown, "{case}");
    // Nothing is left of it later.
    host.wait(TTL);
    let late = host.sent();
    assert!(late.iter().all(|answer| answer["error"]["code"] == -32602), "{case}: {late:?}");
    assert_eq!(host.status(&task), "-32602", "{case}");
    let withdrawn = host.withdrawn();
    assert_eq!(withdrawn.len(), usize::from(is_open && !has_ended), "{case}");
    assert!(host.engine.common.endpoint.inbound.calls.is_empty(), "{case}: a request is left");
}

// covers: TASK-024, TASK-032
#[test]
fn question_without_an_answer_in_time_fails_once_and_the_late_answer_is_refused() {
    let mut host = Host::new(InputTaskLimits::new());
    let task = host.ask().expect("room");
    host.wait(PATIENCE - Duration::from_micros(1));
    assert_eq!((host.status(&task), host.withdrawn()), ("working".into(), Vec::new()));
    host.wait(Duration::from_micros(1));
    assert_eq!(host.withdrawn(), [task.input]);
    assert_eq!(host.sent()[0]["params"]["statusMessage"], "no answer in time");
    assert_eq!((host.answer(&task), host.refuse(&task)), (Err(UseError::Stale), Err(UseError::Stale)));
    assert_eq!(outcome(&host.about("tasks/result", &task)), -32603);
}

/// The time has passed, and the timer has not been processed yet.
// covers: TASK-031
#[test]
fn overdue_task_is_unknown_to_the_server_and_still_ends_once() {
    for end in ["answer", "cancel", "result", "nothing"] {
        let mut host = Host::new(InputTaskLimits::new());
        let task = host.ask_with(&question(Duration::from_secs(9))).expect("room");
        let waiting = host.send("tasks/result", &json!({"taskId": task.id}));
        host.now = host.now + Duration::from_secs(9);
        assert_eq!(host.request("tasks/list", &json!({}))["result"]["tasks"], json!([]));
        let mut withdrawn = 1;
        let code = match end {
            "answer" => {
                // Requests that were there in time get the answer.
                host.answer(&task).expect("not withdrawn yet");
                withdrawn = 0;
                json!("x")
            }
            "cancel" | "result" => {
                let method = if end == "cancel" { "tasks/cancel" } else { "tasks/result" };
                assert_eq!(host.about(method, &task)["error"]["code"], -32602);
                json!(-32602)
            }
            _ => json!(-32602),
        };
        host.wait(Duration::ZERO);
        let answer = host.sent();
        assert_eq!((&answer[0]["id"], outcome(&answer[0])), (&json!(waiting), code), "{end}");
        assert_eq!((answer.len(), host.withdrawn().len()), (1, withdrawn), "{end}");
        assert_eq!(host.answer(&task), Err(UseError::Stale));
    }
}

/// The expiry and the time for the answer are one moment: there is one outcome.
#[test]
fn expiry_at_the_time_for_the_answer_removes_the_task() {
    let mut host = Host::new(InputTaskLimits::new());
    let task = host.ask_with(&question(PATIENCE)).expect("room");
    let other = host.ask_with(&question(PATIENCE)).expect("room");
    host.answer(&other).expect("open");
    host.sent();
    host.wait(PATIENCE);
    assert_eq!(host.withdrawn(), [task.input]);
    assert!(host.sent().is_empty(), "the end of a task that is unknown is not announced");
    assert_eq!((host.status(&task), host.status(&other)), ("-32602".into(), "-32602".into()));
}

// covers: TASK-030, TASK-036
#[test]
fn full_table_gives_up_only_what_the_server_does_not_need() {
    for status in STATUSES {
        for is_collected in [false, true] {
            let mut host = Host::new(InputTaskLimits::new().max_tasks(2));
            let (first, second) = (host.ask().expect("room"), host.ask().expect("room"));
            if status != "unknown" {
                host.reach(&first, status);
            }
            if is_collected && !["working", "unknown"].contains(&status) {
                host.about("tasks/result", &first);
            }
            if status == "unknown" {
                // Both are overdue, and their timer has not been processed.
                host.now = host.now + TTL;
            }
            let gives_way =
                status == "cancelled" || is_collected && ["completed", "failed"].contains(&status);
            let third = host.ask();
            assert_eq!(third.is_ok(), gives_way, "{status} {is_collected}");
            match third {
                Ok(third) => {
                    assert_eq!(host.status(&first), "-32602");
                    assert_eq!(host.status(&third), "working");
                }
                Err(error) => assert_eq!(error["code"], -32603),
            }
            if status != "unknown" {
                assert_eq!(host.status(&second), "working", "an open question never gives way");
            }
            assert!(host.withdrawn().is_empty());
        }
    }
}

// covers: TASK-036
#[test]
fn answer_beyond_the_bytes_keeps_the_question_open_until_there_is_room() {
    let size = accepted().to_string().len();
    let mut host = Host::new(InputTaskLimits::new().max_bytes(2 * size));
    let tasks: Vec<Hosted> = (0..3).map(|_| host.ask().expect("room")).collect();
    host.answer(&tasks[0]).expect("room");
    host.answer(&tasks[1]).expect("room");
    host.sent();
    assert_eq!(host.answer(&tasks[2]), Err(UseError::Full(crate::Limit::TaskBytes)));
    assert_eq!(host.status(&tasks[2]), "working");
    host.about("tasks/result", &tasks[1]);
    // One that can never fit costs no other its place.
    let large = json!({"action": "accept", "content": {"a": "x".repeat(3 * size)}});
    let refused = host.engine.answer(host.now, tasks[2].input, &large);
    assert_eq!(refused, Err(UseError::Full(crate::Limit::TaskBytes)));
    assert_eq!(host.status(&tasks[1]), "completed");
    host.answer(&tasks[2]).expect("a collected answer gives way");
    host.sent();
    let seen: Vec<String> = tasks.iter().map(|task| host.status(task)).collect();
    assert_eq!(seen, ["completed", "-32602", "completed"]);
}

// covers: TASK-036
#[test]
fn answer_that_just_fits_costs_no_other_its_place_and_errors_count_with_their_data() {
    let size = accepted().to_string().len();
    let mut host = Host::new(InputTaskLimits::new().max_bytes(2 * size));
    let tasks = [(); 2].map(|()| host.ask().expect("room"));
    host.reach(&tasks[0], "completed");
    host.about("tasks/result", &tasks[0]);
    host.reach(&tasks[1], "completed");
    assert_eq!(tasks.each_ref().map(|task| host.status(task)), ["completed", "completed"]);
    let mut error = RpcError::new(-1, "tide");
    error.data = Some(crate::RawJson::new(r#""neap""#).expect("JSON"));
    let kept = "tide".len() + r#""neap""#.len();
    for (room, fits) in [(kept + size, true), (kept + size - 1, false)] {
        let mut host = Host::new(InputTaskLimits::new().max_bytes(room));
        let tasks = [(); 2].map(|()| host.ask().expect("room"));
        host.engine.refuse(host.now, tasks[0].input, &error).expect("open");
        assert_eq!(host.answer(&tasks[1]).is_ok(), fits, "{room}");
    }
}

// covers: TASK-131
#[test]
fn debug_output_has_numbers_and_neither_ids_nor_answers() {
    let mut host = Host::new(InputTaskLimits::new());
    let tasks = [(); 2].map(|()| host.ask().expect("room"));
    let answer = json!({"action": "accept", "content": {"a": "the-answer-of-the-user"}});
    host.engine.answer(host.now, tasks[0].input, &answer).expect("open");
    host.sent();
    let text = format!("{:?}", host.engine);
    let bytes = answer.to_string().len();
    assert!(text.contains(&format!("HostedTasks {{ tasks: 2, open: 1, bytes: {bytes}, .. }}")), "{text}");
    let secrets = tasks.iter().map(|task| task.id.as_str().expect("an id")).chain(["the-answer-of-the-user"]);
    for secret in secrets {
        let bytes = format!("{:?}", secret.as_bytes());
        assert!(!text.contains(secret) && !text.contains(bytes.trim_matches(['[', ']'])), "{text}");
    }
}

// covers: TASK-036
#[test]
fn requests_that_wait_are_bounded_and_can_be_withdrawn() {
    let mut host = Host::new(InputTaskLimits::new().max_waiting(2));
    let task = host.ask().expect("room");
    let params = json!({"taskId": task.id});
    let first = host.send("tasks/result", &params);
    let second = host.send("tasks/result", &params);
    assert_eq!(host.about("tasks/result", &task)["error"]["code"], -32603);
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": first}});
    host.feed(&cancelled);
    assert!(host.events().is_empty(), "the application knows nothing of it");
    let third = host.send("tasks/result", &params);
    host.answer(&task).expect("open");
    let answers: Vec<Value> = host.sent().iter().map(|answer| answer["id"].clone()).collect();
    assert_eq!(answers, [json!(second), json!(third)], "in order, each once");
    // Too late: it has been answered.
    host.feed(&cancelled);
    assert!(matches!(host.events()[..], [Event::Diagnostic(_)]));
    assert_eq!(
        outcome(&host.about("tasks/result", &task)),
        "x",
        "a task that has ended answers beyond the bound"
    );
}

#[test]
fn end_of_the_connection_withdraws_open_questions_only() {
    for status in STATUSES {
        for waits in [false, true] {
            let mut host = Host::new(InputTaskLimits::new());
            let task = host.ask().expect("room");
            host.reach(&task, status);
            if waits {
                host.send("tasks/result", &json!({"taskId": task.id}));
                host.sent();
            }
            host.engine.handle_eof(host.now, host.channel);
            host.engine.check_sums();
            let withdrawn =
                host.events().iter().filter(|event| matches!(event, Event::InputWithdrawn(_))).count();
            assert_eq!(withdrawn, usize::from(status == "working"), "{status}");
            assert_eq!(
                (host.answer(&task), host.refuse(&task)),
                (Err(UseError::Stale), Err(UseError::Stale))
            );
            assert!(host.sent().is_empty(), "{status}");
            host.wait(TTL);
            assert!(
                host.events().is_empty() && host.engine.poll_timeout_without_trim().is_none(),
                "{status}"
            );
        }
    }
}

// covers: TASK-016
#[test]
fn time_to_live_is_that_of_the_limits_or_shorter() {
    let second = Duration::from_secs(1);
    let limits = InputTaskLimits::new().default_ttl(5 * second).max_ttl(10 * second);
    for (asked, lives) in [(json!({}), 5), (json!({"ttl": 2_000}), 2), (json!({"ttl": 60_000}), 10)] {
        let mut host = Host::new(limits.clone());
        let mut params = question(TTL);
        params["task"] = asked;
        let task = host.ask_with(&params).expect("room");
        host.wait(lives * second - Duration::from_micros(1));
        assert_eq!(host.status(&task), "working");
        host.wait(Duration::from_micros(1));
        assert_eq!((host.status(&task), host.withdrawn()), (String::from("-32602"), [task.input].to_vec()));
    }
}

#[test]
fn tasks_are_hosted_only_if_the_configuration_has_them() {
    let config = Config::new("c", "1");
    assert!(!config.has_input_tasks());
    let tasks = InputTasks::new(Entropy::new([3; 32], 0), Anchor::new(Instant::ZERO, 1_785_578_400));
    assert!(config.input_tasks(tasks).has_input_tasks());
    let interval = Duration::from_millis(7);
    assert_eq!(InputTaskLimits::new().poll_interval(interval).poll_interval, interval);
}
