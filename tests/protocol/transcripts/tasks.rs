//! The flows with tasks replayed completely against the server, that of the extension over HTTP.

use std::collections::HashMap;

use mcp_proto::http::server::Config as HttpConfig;
use mcp_proto::model::{
    CallToolResult, ElicitFormParams, ElicitSchema, InputRequest, InputRequests, ListToolsResult,
};
use mcp_proto::server::{Call, Engine, Event, TaskOptions, TaskTable};
use mcp_proto::{Anchor, Entropy, Instant, Progress, RpcError, VersionSet};
use mcp_tests::harness::build::raw;
use mcp_tests::harness::{HttpServerHarness, ServerHarness, for_each_chunker};
use serde_json::{Value, json};

use super::normalize;
use crate::protocol::common::server;

const LEGACY: &str = include_str!("../../transcripts/2025-11-25-tasks.jsonl");
const EXTENSION: &str = include_str!("../../transcripts/2026-07-28-tasks-extension.jsonl");

/// A line of a flow: whether the client sends it, the message, and the HTTP head.
struct Line {
    is_from_client: bool,
    message: Value,
    http: Value,
}

fn parse(text: &str) -> Vec<Line> {
    let lines = text.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let lines: Vec<Line> = lines
        .map(|line| Line {
            is_from_client: line["dir"] == "c2s",
            message: line["msg"].clone(),
            http: line["http"].clone(),
        })
        .collect();
    assert!(lines.len() > 12, "a flow");
    lines
}

fn table() -> TaskTable {
    TaskTable::new(Entropy::new([9; 32], 0), Anchor::new(Instant::ZERO, 1_785_578_400))
}

/// The application of a flow: it does what the answers of the flow need.
#[derive(Default)]
struct Application {
    calls: HashMap<String, Call>,
    run: Option<Call>,
    has_asked: bool,
    /// The id of the task in the flow, and here.
    ids: Option<(String, String)>,
}

impl Application {
    fn take(&mut self, request: &Value, event: Event) {
        match event {
            Event::Call(call) if call.is_task_run() => self.run = Some(call),
            Event::Call(call) => _ = self.calls.insert(request["id"].to_string(), call),
            Event::SessionOpened { .. } => {}
            other => panic!("after {request}: {other:?}"),
        }
    }

    /// Brings the task to the state that the answer to the next request shows.
    fn prepare(&mut self, engine: &mut Engine, now: Instant, answer: &Value, question: Option<&Value>) {
        let result = &answer["result"];
        match (result["status"].as_str(), self.run.take()) {
            (Some("input_required"), Some(run)) if !self.has_asked => {
                let (name, params) =
                    match result["inputRequests"].as_object().and_then(|all| all.iter().next()) {
                        Some((name, request)) => (name.as_str(), &request["params"]),
                        None => ("question", question.expect("a question of the flow")),
                    };
                let text = params["message"].as_str().expect("a text");
                let form = ElicitFormParams::new(
                    text,
                    raw(&params["requestedSchema"]).parse::<ElicitSchema>().expect("a form"),
                );
                let asks: InputRequests<'_> =
                    [(name, InputRequest::Elicit(form.into()))].into_iter().collect();
                engine.need_input(now, &run, &asks, b"").expect("possible");
                self.has_asked = true;
            }
            (Some("completed"), Some(run)) if result["result"].is_object() => {
                self.complete(engine, now, &run, &result["result"]);
            }
            (_, run) => self.run = run,
        }
    }

    fn complete(&self, engine: &mut Engine, now: Instant, call: &Call, result: &Value) {
        let mut result = result.clone();
        result.as_object_mut().expect("an object").remove("_meta");
        let result = raw(&result);
        if call.method() == "tools/list" {
            let typed: ListToolsResult = result.parse().expect("a result");
            engine.complete(now, call.id(), &typed).expect("open");
        } else {
            let typed: CallToolResult<'_> = result.parse().expect("a result");
            engine.complete(now, call.id(), &typed).expect("open");
        }
    }

    /// Makes the server send a message of the flow, if it has not sent it by itself.
    fn act(&mut self, engine: &mut Engine, now: Instant, message: &Value) {
        let (result, error) = (&message["result"], &message["error"]);
        if message["method"] == "notifications/progress" {
            let run = self.run.as_ref().expect("a run");
            let progress = message["params"]["progress"].as_f64().expect("a number");
            engine.progress(now, run.id(), Progress::new(progress)).expect("open");
        } else if let Some(call) = self.calls.remove(&message["id"].to_string()) {
            let task = if result["task"].is_object() { &result["task"] } else { result };
            if task["taskId"].is_string() {
                let poll =
                    task.get("pollInterval").or_else(|| task.get("pollIntervalMs")).and_then(Value::as_u64);
                let poll = core::time::Duration::from_millis(poll.expect("an interval"));
                engine.tasks(now).begin(&call, TaskOptions::new().poll_interval(poll)).expect("room");
            } else if error.is_object() {
                let refused = call.task_required_error();
                assert_eq!(refused.code, error["code"].as_i64().expect("a code"));
                let error: RpcError = refused;
                engine.fail(now, call.id(), &error).expect("open");
            } else {
                self.complete(engine, now, &call, result);
            }
        } else if result["content"].is_array() {
            // The result of a task is waited for.
            if let Some(run) = self.run.take() {
                self.complete(engine, now, &run, result);
            }
        }
    }

    /// Compares a message with that of the flow. Times are those of the server, and messages for people its choice.
    fn compare(&mut self, sent: &Value, flow: &Value) {
        if self.ids.is_none() {
            let id = |message: &Value| {
                let result = &message["result"];
                let id = result["task"]["taskId"].as_str().or_else(|| result["taskId"].as_str());
                id.map(str::to_owned)
            };
            self.ids = id(flow).zip(id(sent));
        }
        let comparable = |message: &Value| {
            let mut message = normalize(message);
            for at in ["/result", "/result/task", "/result/tasks/0", "/params"] {
                let Some(members) = message.pointer_mut(at).and_then(Value::as_object_mut) else { continue };
                for name in ["createdAt", "lastUpdatedAt"] {
                    if let Some(time) = members.get_mut(name) {
                        let text = time.as_str().expect("a text");
                        assert!(text.len() == 20 && text.ends_with('Z'), "{text}");
                        *time = json!("a time");
                    }
                }
                members.remove("statusMessage");
                if let Some(result) = members.get_mut("result").and_then(Value::as_object_mut) {
                    // Its request would have had it, too.
                    result.remove("resultType");
                }
                if let Some(meta) = members.get_mut("_meta").and_then(Value::as_object_mut) {
                    meta.remove("io.modelcontextprotocol/serverInfo");
                    if meta.is_empty() {
                        members.remove("_meta");
                    }
                }
            }
            message
        };
        assert_eq!(comparable(sent), comparable(&self.local(flow)));
    }

    /// Returns a message of the flow with the id of the task here.
    fn local(&self, message: &Value) -> Value {
        let Some((flow, local)) = &self.ids else { return message.clone() };
        let text = message.to_string().replace(&format!("\"{flow}\""), &format!("\"{local}\""));
        serde_json::from_str(&text).expect("JSON")
    }
}

/// Returns the answer of a flow to the request at a position.
fn answer_to(lines: &[Line], at: usize) -> Option<&Value> {
    let id = lines[at].message.get("id").filter(|_| lines[at].message["method"].is_string())?;
    lines[at..]
        .iter()
        .filter(|line| !line.is_from_client)
        .map(|line| &line.message)
        .find(|m| m.get("id") == Some(id))
}

// covers: TASK-001, TASK-007, TASK-008, TASK-009, TASK-013, TASK-018, TASK-019, TASK-021, TASK-023, TASK-025, TASK-026, TASK-028, TASK-031, TASK-033
#[test]
fn server_matches_flow_tasks_2025_11_25() {
    let lines = parse(LEGACY);
    let question = lines.iter().find(|line| line.message["method"] == "elicitation/create");
    let question = &question.expect("a question").message["params"];
    for_each_chunker(|cut| {
        let mut harness = ServerHarness::server(server(VersionSet::LEGACY), cut);
        let now = harness.now;
        harness.pipe.engine().set_tasks(now, table());
        let mut application = Application::default();
        let (mut sent, mut questions): (Vec<Value>, HashMap<String, Value>) = (Vec::new(), HashMap::new());
        for (at, line) in lines.iter().enumerate() {
            let now = harness.now;
            if line.is_from_client {
                if let Some(answer) = answer_to(&lines, at) {
                    application.prepare(harness.pipe.engine(), now, answer, Some(question));
                    harness.pump();
                    sent.extend(harness.take_sent());
                }
                let mut message = application.local(&line.message);
                if let Some(id) = questions.get(&message["id"].to_string()) {
                    message["id"] = id.clone();
                }
                harness.feed_message(&message);
            } else {
                application.act(harness.pipe.engine(), now, &line.message);
                harness.pump();
            }
            while !harness.has_no_events() {
                let event = harness.expect_event();
                application.take(&line.message, event);
            }
            sent.extend(harness.take_sent());
            if line.is_from_client {
                continue;
            }
            // A server may tell more of the states of a task than the flow shows.
            let is_extra = |message: &Value| {
                message["method"] == "notifications/tasks/status"
                    && (line.message["method"] != message["method"]
                        || line.message["params"]["status"] != message["params"]["status"])
            };
            while sent.first().is_some_and(&is_extra) {
                sent.remove(0);
            }
            assert!(!sent.is_empty(), "the server sent nothing, the flow has {}", line.message);
            let mut message = sent.remove(0);
            if line.message["method"].is_string() && line.message.get("id").is_some() {
                questions.insert(line.message["id"].to_string(), message["id"].clone());
                message["id"] = line.message["id"].clone();
            }
            if line.message["result"]["protocolVersion"].is_string() {
                assert_eq!(
                    message["result"]["capabilities"]["tasks"],
                    line.message["result"]["capabilities"]["tasks"]
                );
                continue;
            }
            application.compare(&message, &line.message);
        }
        sent.retain(|message| message["method"] != "notifications/tasks/status");
        assert!(sent.is_empty(), "the server sent more than the flow: {sent:?}");
        assert!(application.calls.is_empty(), "never answered");
        harness.transcript
    });
}

// covers: TASK-101, TASK-104, TASK-107, TASK-108, TASK-112, TASK-113, TASK-117, TASK-118, TASK-122, TASK-123, TASK-125, TASK-128, TASK-129
#[test]
fn server_matches_flow_tasks_extension_2026_07_28() {
    let lines = parse(EXTENSION);
    let mut web = HttpServerHarness::new(server(VersionSet::ALL), HttpConfig::new());
    let now = web.now;
    web.server.set_tasks(now, table());
    let mut application = Application::default();
    for (at, pair) in lines.chunks(2).enumerate() {
        let [request, answer] = pair else { panic!("each request has its answer") };
        assert!(request.is_from_client && !answer.is_from_client);
        let now = web.now;
        application.prepare(web.server.engine(), now, answer_to(&lines, 2 * at).expect("an answer"), None);
        let local = |value: &Value| application.local(value).as_str().expect("a text").to_owned();
        let fields: Vec<(String, String)> = request.http["headers"]
            .as_object()
            .expect("fields")
            .iter()
            .map(|(name, value)| (name.clone(), local(value)))
            .collect();
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let x = web.post(&fields, &application.local(&request.message).to_string());
        while let Some(event) = web.poll_event() {
            application.take(&request.message, event);
        }
        let now = web.now;
        application.act(web.server.engine(), now, &answer.message);
        web.transmit_all();
        while let Some(event) = web.poll_event() {
            application.take(&request.message, event);
        }
        let response = web.response(x);
        assert_eq!(
            u64::from(response.status),
            answer.http["status"].as_u64().unwrap_or(200),
            "{}",
            request.message
        );
        application.compare(&response.message(), &answer.message);
    }
    assert!(application.calls.is_empty(), "never answered");
}
