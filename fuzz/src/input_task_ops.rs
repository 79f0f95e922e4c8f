//! Fuzz target for questions that run as tasks of the client: both ends, driven by a list of operations, with messages of
//! a hostile peer between their own.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::client::{self, InputId, InputTaskLimits, InputTasks};
use mcp_proto::internals::{check_client, check_server};
use mcp_proto::model::{CallToolResult, ElicitParams, ElicitSchema, InputRequest};
use mcp_proto::server::{self, Call, InputRequired};
use mcp_proto::tap::ChannelId;
use mcp_proto::{
    Anchor, CallError, CallKey, CallOptions, Capabilities, Capability, Entropy, Instant, Limits, RpcError,
    UseError, VersionSet,
};
use serde_json::{Value, json};

use super::input::FuzzInput;

/// Runs a list of operations on both ends and checks the invariants of tasks of questions.
///
/// - A task is there until it expires or is collected, and its status changes only from `working`, once.
/// - The result of a task is what the application of the client has answered, and so is the outcome that the handler of
///   the server gets, once.
/// - Each request is answered at most once, the bounds hold, and no deadline stays in the past.
/// - At the end nothing is left at either end.
pub fn input_task_ops(data: &[u8]) {
    let mut choices = FuzzInput::new(data);
    let mut run = QuestionRun::new(choices.byte());
    // Longer lists of operations find nothing more.
    for _ in 0..400 {
        if choices.is_empty() {
            break;
        }
        run.step(&mut choices);
    }
    run.end();
}

const TTL: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(12);
/// First id of the requests to the client that are not those of the server.
const FORGED: i64 = 1 << 40;

/// A task that the client has created.
struct KnownTask {
    /// The number of its question.
    number: i64,
    expires: Instant,
    /// Time by which its question must be answered.
    answer_by: Instant,
    /// The client may forget it: its result was sent, or it was cancelled.
    may_vanish: bool,
    /// Last status that was seen.
    status: String,
}

struct QuestionRun {
    now: Instant,
    client: client::Engine,
    server: server::Engine,
    client_channel: ChannelId,
    server_channel: ChannelId,
    /// Messages in flight.
    to_client: VecDeque<String>,
    to_server: VecDeque<String>,
    last_to_server: Option<String>,
    /// Calls of the client that are open.
    calls: Vec<CallKey>,
    /// Questions that the application of the client sees, with their numbers.
    questions: Vec<(InputId, i64)>,
    /// Its answers, and the codes of its refusals, by number.
    given: BTreeMap<i64, Value>,
    /// Requests to the client that have no answer yet: their methods, and the number of the question or the task.
    asked: BTreeMap<i64, (String, Value)>,
    tasks: BTreeMap<String, KnownTask>,
    /// Numbers of the questions whose outcome the handler got.
    delivered: BTreeSet<i64>,
    next_number: i64,
    next_id: i64,
    /// The server got a message that the client did not send, or did not get one, so its outcomes prove nothing.
    is_disturbed: bool,
    is_closed: bool,
}

impl QuestionRun {
    fn new(seed: u8) -> Self {
        let mut limits = Limits::small();
        limits.input_timeout = PATIENCE;
        limits.max_pending_calls = 12;
        limits.max_events = 1_000;
        limits.outbox_high_water = 1 << 20;
        let bounds =
            InputTaskLimits::new().max_tasks(3).max_bytes(60).max_waiting(2).default_ttl(TTL).max_ttl(TTL);
        let tasks = InputTasks::new(Entropy::new([seed; 32], 0), Anchor::default()).limits(bounds);
        let client = client::Config::new("c", "1")
            .versions(VersionSet::LEGACY)
            .capabilities(Capabilities::new().with(Capability::Elicitation))
            .limits(limits.clone())
            .input_tasks(tasks);
        let server = server::Config::new("s", "1")
            .capabilities(Capabilities::new().with(Capability::Tools))
            .limits(limits);
        let (mut client, mut server) =
            (client::Engine::new(Arc::new(client)), server::Engine::new(Arc::new(server)));
        let client_channel = client.open_channel(Instant::ZERO);
        let server_channel = server.open_channel(Instant::ZERO);
        let mut run = Self {
            now: Instant::ZERO,
            client,
            server,
            client_channel,
            server_channel,
            to_client: VecDeque::new(),
            to_server: VecDeque::new(),
            last_to_server: None,
            calls: Vec::new(),
            questions: Vec::new(),
            given: BTreeMap::new(),
            asked: BTreeMap::new(),
            tasks: BTreeMap::new(),
            delivered: BTreeSet::new(),
            next_number: 1,
            next_id: FORGED,
            is_disturbed: false,
            is_closed: false,
        };
        for _ in 0..3 {
            run.poll();
            run.deliver(10, 10);
        }
        assert!(run.client.peer().is_some(), "the handshake did not complete");
        run
    }

    fn step(&mut self, choices: &mut FuzzInput<'_>) {
        match choices.below(32) {
            0..=3 => {
                let made = self.client.call_tool(self.now, "t", &json!({}), &CallOptions::new());
                self.calls.extend(made);
            }
            4..=13 => self.deliver(choices.below(4), choices.below(4)),
            14..=17 => self.answer(choices),
            18 if !self.calls.is_empty() => {
                let call = self.calls.swap_remove(choices.below(self.calls.len()));
                let done = self.client.cancel(self.now, call, None);
                assert!(matches!(done, Ok(()) | Err(UseError::Stale)), "{done:?}");
            }
            19..=22 => {
                let millis = 1_u64 << (choices.byte() % 16);
                self.advance(self.now + Duration::from_millis(millis));
            }
            23..=27 => self.forge_request(choices),
            28 => self.disturb(choices),
            29 if choices.below(8) == 0 => self.close(),
            _ => {}
        }
        // Several operations may happen between two polls.
        if choices.boolean() {
            self.poll();
        }
    }

    fn advance(&mut self, to: Instant) {
        // Answers are checked at the time at which they were made.
        self.poll();
        self.now = to;
        self.client.handle_timeout(to);
        self.server.handle_timeout(to);
        for next in [self.client.poll_timeout(), self.server.poll_timeout()] {
            assert!(next.is_none_or(|next| next > to), "the deadline did not advance");
        }
    }

    /// Answers or refuses a question as the application of the client.
    fn answer(&mut self, choices: &mut FuzzInput<'_>) {
        self.poll();
        if self.questions.is_empty() {
            return;
        }
        let at = choices.below(self.questions.len());
        let (input, number) = self.questions[at];
        let (given, done) = if choices.below(4) == 0 {
            let code = -100 - number;
            (json!(code), self.client.refuse(self.now, input, &RpcError::new(code, "no")))
        } else {
            let content = json!({"a": format!("{number}{}", "x".repeat(choices.below(30)))});
            let answer = json!({"action": "accept", "content": content});
            (content, self.client.answer(self.now, input, &answer))
        };
        match done {
            Ok(()) => {
                self.questions.swap_remove(at);
                assert!(self.given.insert(number, given).is_none(), "a question is answered twice");
            }
            Err(UseError::Full(_)) => {}
            // Its withdrawal has not been polled yet.
            Err(error) => {
                assert_eq!(error, UseError::Stale);
                self.poll();
                assert!(!self.questions.contains(&(input, number)), "an open question is stale");
            }
        }
    }

    /// Sends the client a request that the server did not make.
    fn forge_request(&mut self, choices: &mut FuzzInput<'_>) {
        let task = self.tasks.keys().nth(choices.below(self.tasks.len() + 1)).cloned();
        let task = task.unwrap_or_else(|| "AAAAAAAAAAAAAAAAAAAAAA".into());
        let method =
            ["tasks/get", "tasks/get", "tasks/result", "tasks/cancel", "tasks/list", "elicitation/create"]
                [choices.below(6)];
        let (params, about) = if method == "elicitation/create" {
            let number = self.next_number;
            self.next_number += 1;
            let schema = json!({"type": "object", "properties": {}});
            let mut params = json!({"message": number.to_string(), "requestedSchema": schema});
            if choices.below(4) != 0 {
                params["task"] = json!({"ttl": 1_u64 << choices.below(17)});
            }
            (params, json!(number))
        } else {
            (json!({"taskId": task}), json!(task))
        };
        let id = self.next_id;
        self.next_id += 1;
        self.asked.insert(id, (method.into(), about));
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.client.handle_message(self.now, self.client_channel, message.to_string().into());
        if method.starts_with("tasks/result") && choices.below(4) == 0 {
            self.poll();
            if self.asked.contains_key(&id) {
                let params = json!({"requestId": id});
                let message =
                    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
                self.client.handle_message(self.now, self.client_channel, message.to_string().into());
                self.asked.remove(&id);
            }
        }
    }

    /// Sends the server something that the client did not, or loses a message.
    fn disturb(&mut self, choices: &mut FuzzInput<'_>) {
        let task = self.tasks.keys().nth_back(choices.below(4)).cloned().unwrap_or_default();
        let status = ["working", "input_required", "completed", "failed", "cancelled", "?"][choices.below(6)];
        let state = json!({
            "taskId": task, "status": status, "ttl": null, "pollInterval": 1 << choices.below(18),
            "createdAt": "2025-11-26T09:00:00Z", "lastUpdatedAt": "2025-11-26T09:00:05Z",
        });
        let message = match choices.below(6) {
            // A hint and a repeated response are harmless.
            0 | 1 => {
                json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": state}).to_string()
            }
            2 => self.last_to_server.clone().unwrap_or_default(),
            how => {
                self.is_disturbed = true;
                let nth = choices.below(4);
                let ids = self.asked.keys().filter(|id| **id < FORGED);
                let Some(id) = ids.copied().nth(nth) else { return };
                match how {
                    3 => {
                        self.to_server.pop_front();
                        return;
                    }
                    4 => json!({"jsonrpc": "2.0", "id": id, "result": state}).to_string(),
                    _ => json!({"jsonrpc": "2.0", "id": id, "result": {"task": state}}).to_string(),
                }
            }
        };
        self.server.handle_message(self.now, self.server_channel, message.into());
    }

    fn deliver(&mut self, down: usize, up: usize) {
        self.poll();
        for _ in 0..down {
            let Some(message) = self.to_client.pop_front() else { break };
            self.client.handle_message(self.now, self.client_channel, message.into());
        }
        for _ in 0..up {
            let Some(message) = self.to_server.pop_front() else { break };
            self.last_to_server = Some(message.clone());
            self.server.handle_message(self.now, self.server_channel, message.into());
        }
    }

    fn poll(&mut self) {
        while let Some(event) = self.client.poll_event(self.now) {
            match event {
                client::Event::Input(input) => {
                    let InputRequest::Elicit(ElicitParams::Form(form)) = &*input.request else { continue };
                    self.questions.push((input.id, form.message.parse().expect("a number")));
                }
                client::Event::InputWithdrawn(withdrawn) => {
                    let at = self.questions.iter().position(|(input, _)| *input == withdrawn);
                    self.questions.swap_remove(at.expect("an open question is withdrawn once"));
                }
                client::Event::Done { call, .. } => self.calls.retain(|other| *other != call),
                _ => {}
            }
        }
        while let Some(event) = self.server.poll_event(self.now) {
            if let server::Event::Call(call) = event {
                self.handle_call(&call);
            }
        }
        while let Some(message) =
            self.server.outbox(self.server_channel).and_then(|outbox| outbox.pop_message())
        {
            self.sent_by_server(&message);
        }
        while let Some(message) =
            self.client.outbox(self.client_channel).and_then(|outbox| outbox.pop_message())
        {
            self.sent_by_client(&message);
        }
        check_client(&self.client);
        check_server(&self.server);
    }

    /// Asks at the first delivery of a call, and compares the outcome at the second one.
    fn handle_call(&mut self, call: &Call) {
        let number = self.next_number;
        let mut input = InputRequired::new();
        if number % 4 != 0 {
            input.ask_as_tasks(None);
        }
        if call.attempt() == 0 {
            self.next_number += 1;
            input.set_state(number.to_string());
            let schema = ElicitSchema::default();
            assert!(input.elicit(call, "q", number.to_string(), schema).is_err(), "there is no answer yet");
            if self.server.require_input(self.now, call, &input).is_err() {
                let _ = self.server.fail(self.now, call.id(), &RpcError::internal("busy"));
            }
            return;
        }
        let state = call.state().expect("the state");
        let number: i64 = core::str::from_utf8(state).expect("a number").parse().expect("a number");
        assert!(self.delivered.insert(number), "the outcome of a question is delivered twice");
        let given = self.given.get(&number);
        match call.answer("q").expect("an outcome") {
            Ok(answer) if !self.is_disturbed => {
                let answer: Value = serde_json::from_str(answer.as_str()).expect("JSON");
                assert_eq!(Some(&answer["content"]), given, "not the answer of the application");
            }
            Err(CallError::Rpc(error)) if !self.is_disturbed && error.code > -1_000 => {
                assert_eq!(Some(&json!(error.code)), given, "not the refusal of the application");
            }
            _ => {}
        }
        let done = self.server.complete(self.now, call.id(), &CallToolResult::text("done"));
        assert!(matches!(done, Ok(()) | Err(UseError::Stale)), "{done:?}");
    }

    fn sent_by_server(&mut self, message: &[u8]) {
        let read: Value = serde_json::from_slice(message).expect("JSON");
        if let (Some(method), Some(id)) = (read["method"].as_str(), read["id"].as_i64()) {
            let about = match method {
                "elicitation/create" => {
                    let number = read["params"]["message"].as_str().and_then(|text| text.parse::<i64>().ok());
                    json!(number.expect("a number"))
                }
                _ => read["params"]["taskId"].clone(),
            };
            assert!(self.asked.insert(id, (method.into(), about)).is_none(), "an id is used twice");
        }
        self.to_client.push_back(String::from_utf8(message.to_vec()).expect("UTF-8"));
    }

    fn sent_by_client(&mut self, message: &[u8]) {
        let read: Value = serde_json::from_slice(message).expect("JSON");
        let id = read["id"].as_i64();
        if read["method"].is_null() {
            let id = id.expect("a number");
            let Some((method, about)) = self.asked.remove(&id) else { panic!("not asked for: {read}") };
            self.check_answer(&method, &about, &read);
            if id >= FORGED {
                return;
            }
        }
        self.to_server.push_back(String::from_utf8(message.to_vec()).expect("UTF-8"));
    }

    /// Checks the answer of the client to a request.
    fn check_answer(&mut self, method: &str, about: &Value, answer: &Value) {
        let (result, code) = (&answer["result"], answer["error"]["code"].as_i64());
        // Refused before anyone looked for the task.
        if answer["error"]["message"] == "too many requests in work" {
            let is_full = self.asked.len() >= Limits::small().max_live_calls as usize;
            assert!(is_full, "{method} is refused, but there is room");
            return;
        }
        if method == "elicitation/create" {
            let Some(id) = result["task"]["taskId"].as_str() else { return };
            assert_eq!(result["task"]["status"], "working");
            let ttl = result["task"]["ttl"].as_u64().expect("a time");
            let task = KnownTask {
                number: about.as_i64().expect("a number"),
                expires: self.now + Duration::from_millis(ttl),
                answer_by: self.now + PATIENCE,
                may_vanish: false,
                status: "working".into(),
            };
            assert!(self.tasks.insert(id.into(), task).is_none(), "an id is used twice");
            assert!(Duration::from_millis(ttl) <= TTL, "it lives too long");
            return;
        }
        if method == "tasks/list" {
            for state in result["tasks"].as_array().into_iter().flatten() {
                self.see_status(state);
            }
            return;
        }
        let id = about.as_str().unwrap_or_default();
        let Some(task) = self.tasks.get_mut(id) else {
            assert_eq!(code, Some(-32602), "{method} of a task that was never created: {answer}");
            return;
        };
        let is_gone = code == Some(-32602) && (task.may_vanish || self.now >= task.expires);
        match (method, code) {
            _ if is_gone => {}
            ("tasks/get" | "tasks/cancel", None) => {
                if method == "tasks/cancel" {
                    (task.may_vanish, task.status) = (true, "cancelled".into());
                }
                self.see_status(result);
            }
            ("tasks/cancel", Some(-32602)) => {
                let has_ended = task.status != "working" || self.now >= task.answer_by;
                assert!(has_ended || self.given.contains_key(&task.number), "it is open: {answer}");
            }
            ("tasks/result", None) => {
                let given = self.given.get(&task.number);
                assert_eq!(Some(&result["content"]), given, "not the answer of the application");
                task.may_vanish = true;
            }
            // Too many requests wait, or the task has no answer.
            ("tasks/result", Some(-32603)) => {
                task.may_vanish |= task.status != "working" || self.now >= task.answer_by;
            }
            ("tasks/result", Some(code)) => {
                assert_eq!(
                    Some(&json!(code)),
                    self.given.get(&task.number),
                    "not the refusal of the application"
                );
                task.may_vanish = true;
            }
            _ => panic!("{method}: {answer}"),
        }
    }

    fn see_status(&mut self, state: &Value) {
        let (id, status) =
            (state["taskId"].as_str().expect("an id"), state["status"].as_str().expect("a status"));
        let task = self.tasks.get_mut(id).expect("it was created");
        assert!(self.now < task.expires, "a task outlives its time");
        assert!(task.status == "working" || task.status == status, "{} -> {status}", task.status);
        task.status = status.into();
        let expected = match self.given.get(&task.number) {
            Some(given) if given.is_number() => "failed",
            Some(_) => "completed",
            None if status == "failed" && self.now >= task.answer_by => status,
            None if status == "cancelled" => status,
            None => "working",
        };
        assert_eq!(status, expected, "the status of question {}", task.number);
    }

    fn close(&mut self) {
        self.poll();
        self.client.close(self.now);
        self.poll();
        assert!(self.questions.is_empty(), "a question outlives the connection");
        self.server.handle_eof(self.now, self.server_channel);
        (self.to_client, self.to_server) = (VecDeque::new(), VecDeque::new());
        self.is_closed = true;
    }

    /// Lets all time pass, and checks that nothing is left.
    fn end(&mut self) {
        for _ in 0..2_000 {
            self.deliver(usize::MAX, usize::MAX);
            self.poll();
            if !self.to_client.is_empty() || !self.to_server.is_empty() {
                continue;
            }
            let timeouts = [self.client.poll_timeout(), self.server.poll_timeout()];
            let Some(next) = timeouts.into_iter().flatten().min() else { break };
            self.advance(self.now.max(next));
        }
        let timeouts = [self.client.poll_timeout(), self.server.poll_timeout()];
        assert_eq!(timeouts, [None, None], "a deadline is left");
        assert!(self.questions.is_empty(), "a question has no end");
        assert_eq!(self.server.live_calls(), 0, "a call has no end");
        assert!(self.is_closed || self.is_disturbed || self.calls.is_empty(), "a call has no outcome");
        let forged = self.asked.iter().filter(|(id, _)| **id >= FORGED);
        assert!(self.is_closed || forged.count() == 0, "a request has no answer");
    }
}
