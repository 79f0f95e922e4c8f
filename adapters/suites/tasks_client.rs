//! Suite: tools that run as tasks, from a server whose messages are written by hand, in both forms.
//!
//! `crate::adapter` names the adapter under test.

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::Mutex;
use std::thread::JoinHandle;

use mcp_proto::client::{Config, StartedTask, TaskPolling};
use mcp_proto::model::{
    CallToolResult, ElicitParams, ElicitResult, InputResponse, InputResponses, Task, TaskStatus,
};
use mcp_proto::{
    CallError, CallKey, CallOptions, Capabilities, Capability, Era, RawJson, RpcError, UseError,
};
use mcp_runtime::client::ClientHandler;
use mcp_std::io::Duplex;
use serde_json::{Value, json};

use super::scripted_server::{read, write};
use crate::adapter::{Client, Error, client_layer, connect, wait};
use crate::support::{ERAS, NoteLog, client_config, version_set, with_timeout};

const RELATED: &str = "io.modelcontextprotocol/related-task";

/// A server with the tool `dredge`, which runs as a task and asks a question, and the tool `plain`. Clones share the
/// tasks, as processes share a store.
#[derive(Clone, Default)]
struct TaskServer {
    state: Arc<Mutex<TaskServerState>>,
    /// Whether its clients have a layer, which changes nothing.
    has_layer: bool,
}

#[derive(Default)]
struct TaskServerState {
    requests: Vec<String>,
    /// Number of polls.
    polls: u32,
    answer: Option<Value>,
    is_cancelled: bool,
    /// The task asks nothing and never ends.
    is_endless: bool,
    /// The server has no tasks.
    is_plain: bool,
    /// Id of the request for the result that waits (2025-11-25).
    waiting: Option<Value>,
}

#[expect(clippy::needless_pass_by_value, reason = "`json!` at the call creates the value")]
fn response(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

fn error(id: &Value, code: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}})
}

impl TaskServerState {
    fn status(&self) -> &'static str {
        match &self.answer {
            _ if self.is_cancelled => "cancelled",
            Some(_) => "completed",
            None if self.polls < 2 || self.is_endless => "working",
            None => "input_required",
        }
    }

    fn task(&self, era: Era) -> Value {
        let mut task = json!({
            "taskId": "t-1", "status": self.status(), "createdAt": "2026-08-01T10:00:00Z",
            "lastUpdatedAt": "2026-08-01T10:00:00Z",
        });
        if era == Era::Legacy {
            task["ttl"] = json!(60_000);
            task["pollInterval"] = json!(5);
            return task;
        }
        task["resultType"] = json!("complete");
        task["ttlMs"] = json!(60_000);
        task["pollIntervalMs"] = json!(5);
        match self.status() {
            "input_required" => task["inputRequests"] = json!({"where": question()}),
            "completed" => task["result"] = self.result(),
            _ => {}
        }
        task
    }

    fn result(&self) -> Value {
        let basin = self.answer.as_ref().map_or(Value::Null, |answer| answer["content"]["basin"].clone());
        json!({"content": [{"type": "text", "text": format!("dredged {basin}")}]})
    }

    fn handle(&mut self, era: Era, message: &Value) -> Vec<Value> {
        let (id, params) = (&message["id"], &message["params"]);
        let Some(method) = message["method"].as_str() else {
            // The answer to the question of 2025-11-25.
            assert_eq!(message["result"]["_meta"][RELATED]["taskId"], "t-1");
            self.answer = Some(message["result"].clone());
            return self.waiting.take().map(|id| response(&id, self.result())).into_iter().collect();
        };
        if id.is_null() {
            return Vec::new();
        }
        let tasks = if self.is_plain { Value::Null } else { json!({}) };
        let mut capabilities = json!({"tools": {}});
        match era {
            Era::Legacy if !self.is_plain => {
                capabilities["tasks"] = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
            }
            Era::Modern if !self.is_plain => {
                capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": tasks});
            }
            _ => {}
        }
        let info = json!({"name": "harbour", "version": "1"});
        let plain = json!({"content": [], "resultType": "complete"});
        match method {
            "server/discover" => {
                return vec![response(
                    id,
                    json!({
                        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                        "ttlMs": 0, "cacheScope": "private", "_meta": {"io.modelcontextprotocol/serverInfo": info},
                    }),
                )];
            }
            "initialize" => {
                let version = &params["protocolVersion"];
                return vec![response(
                    id,
                    json!({"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}),
                )];
            }
            _ => self.requests.push(method.to_owned()),
        }
        vec![match method {
            "tools/list" => {
                let tool = |name: &str, support: &str| json!({"name": name, "inputSchema": {"type": "object"}, "execution": {"taskSupport": support}});
                let tools = [tool("dredge", "required"), tool("plain", "forbidden")];
                response(
                    id,
                    json!({"tools": tools, "resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}),
                )
            }
            "tools/call" if self.is_plain || params["name"] == "plain" => {
                assert!(params.get("task").is_none());
                response(id, plain)
            }
            "tools/call" if era == Era::Legacy && params.get("task").is_none() => error(id, -32601),
            "tools/call" if era == Era::Legacy => response(id, json!({"task": self.task(era)})),
            "tools/call" => {
                let mut task = self.task(era);
                task["resultType"] = json!("task");
                response(id, task)
            }
            _ if params["taskId"] != "t-1" => error(id, -32602),
            "tasks/get" => {
                self.polls += 1;
                response(id, self.task(era))
            }
            "tasks/update" => {
                self.answer = Some(params["inputResponses"]["where"].clone());
                response(id, json!({"resultType": "complete"}))
            }
            "tasks/cancel" => {
                self.is_cancelled = true;
                let task = self.task(era);
                response(id, if era == Era::Legacy { task } else { json!({"resultType": "complete"}) })
            }
            "tasks/result" if self.answer.is_some() => response(id, self.result()),
            "tasks/result" => {
                self.waiting = Some(id.clone());
                let mut ask = question();
                ask["jsonrpc"] = json!("2.0");
                ask["id"] = json!("q");
                ask["params"]["_meta"] = json!({RELATED: {"taskId": "t-1"}});
                ask
            }
            _ => error(id, -32601),
        }]
    }
}

fn question() -> Value {
    let schema = json!({"type": "object", "properties": {"basin": {"type": "string"}}});
    json!({"method": "elicitation/create", "params": {"message": "Which?", "requestedSchema": schema}})
}

impl TaskServer {
    fn update(&self, f: impl FnOnce(&mut TaskServerState)) {
        f(&mut self.state.lock().unwrap());
    }

    fn take_requests(&self) -> Vec<String> {
        core::mem::take(&mut self.state.lock().unwrap().requests)
    }

    fn serve(&self, near: &mut dyn Duplex, era: Era) {
        let (mut input, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            let n = read(near, &mut buffer);
            if n == 0 {
                return;
            }
            input.extend_from_slice(&buffer[..n]);
            while let Some(end) = input.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = input.drain(..=end).collect();
                let message: Value = serde_json::from_slice(&line).expect("a message");
                let replies = self.state.lock().unwrap().handle(era, &message);
                for reply in replies {
                    write(near, format!("{reply}\n").as_bytes());
                }
            }
        }
    }

    fn connect(&self, config: Config, era: Era, notes: &NoteLog) -> (Client, JoinHandle<()>) {
        let server = self.clone();
        let mut options = Client::options(config).handler(User(notes.clone()));
        if self.has_layer {
            options = options.layer(client_layer!(
                [] | request,
                next | {
                    let mut request = request;
                    if request.is_tool("dredge") {
                        // Arguments may be left out.
                        request.set_params(RawJson::new(r#"{"name":"dredge"}"#).unwrap()).unwrap();
                    }
                    wait!(next.run(request))
                }
            ));
        }
        connect(options, move |mut near| server.serve(&mut *near, era))
    }

    fn client(&self, era: Era) -> (Client, JoinHandle<()>, NoteLog) {
        let notes = NoteLog::default();
        let (client, serving) = self.connect(config(era), era, &notes);
        (client, serving, notes)
    }
}

/// Returns servers of both eras, for clients with a layer and without.
fn servers() -> impl Iterator<Item = (Era, TaskServer)> {
    let server = |has_layer| TaskServer { has_layer, ..TaskServer::default() };
    ERAS.into_iter().flat_map(move |era| [false, true].map(|has_layer| (era, server(has_layer))))
}

fn config(era: Era) -> Config {
    let polling = TaskPolling::new().interval_range(Duration::from_millis(5), Duration::from_secs(1));
    client_config(version_set(era))
        .capabilities(Capabilities::new().with(Capability::Elicitation))
        .task_polling(polling)
}

/// Answers the question and records the states.
struct User(NoteLog);

impl ClientHandler for User {
    fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        self.0.record("asked");
        assert!(matches!(params, ElicitParams::Form(_)));
        Ok(ElicitResult::accept([("basin", "east".into())]))
    }

    fn task_changed(&self, _: CallKey, task: &Task<'_>) {
        self.0.record(task.status.as_str());
    }
}

fn only_text(result: &CallToolResult<'_>) -> String {
    format!("{:?}", result.content)
}

fn finish(client: Client, serving: JoinHandle<()>) {
    client.close().unwrap();
    serving.join().unwrap();
}

// covers: TASK-005, TASK-007, TASK-105, TASK-121
#[test]
fn call_of_a_tool_follows_its_task_unseen() {
    with_timeout(|| {
        for (era, server) in servers() {
            let (client, serving, notes) = server.client(era);
            let result = client.call_tool("dredge", &json!({})).unwrap();
            assert!(only_text(&result).contains("dredged \\\"east\\\""), "{result:?}");
            assert_eq!(notes.take().iter().filter(|note| *note == "asked").count(), 1);
            client.call_tool("plain", &json!({})).unwrap();
            let requests = server.take_requests();
            let expected: &[&str] = match era {
                Era::Modern => &["tools/call", "tasks/get", "tasks/get"],
                Era::Legacy => &["tools/list", "tools/call", "tasks/get", "tasks/get"],
            };
            assert_eq!(&requests[..expected.len()], expected, "{requests:?}");
            assert_eq!(requests.last().map(String::as_str), Some("tools/call"));
            // What the list says is known by now.
            server.update(|state| state.answer = None);
            client.call_tool_with("dredge", &json!({}), &CallOptions::new(), &mut |_| {}).unwrap();
            assert_eq!(server.take_requests().iter().filter(|method| *method == "tools/call").count(), 1);
            finish(client, serving);
        }
    });
}

// covers: TASK-114
#[test]
fn started_task_is_taken_up_by_another_client() {
    with_timeout(|| {
        for (era, server) in servers() {
            let (client, serving, _) = server.client(era);
            let started = client.start_task("dredge", &json!({}), Some(Duration::from_secs(60))).unwrap();
            let StartedTask::Task(task) = started else { panic!("{started:?}") };
            let text = task.to_text();
            finish(client, serving);
            let (client, serving, notes) = server.client(era);
            let task = client.resume_task(&text).unwrap();
            assert_eq!(client.get_task(&task).unwrap().status, TaskStatus::Working);
            for _ in 0..2 {
                let result = client.wait_task(&task).unwrap();
                assert!(only_text(&result).contains("east"), "{result:?}");
            }
            assert_eq!(notes.take().iter().filter(|note| *note == "asked").count(), 1);
            let foreign = client.resume_task(&text.replace("harbour", "other")).unwrap_err();
            assert!(matches!(foreign, Error::Use(UseError::ForeignTask { .. })), "{foreign}");
            let foreign = client.resume_task("t-1").unwrap_err();
            assert!(matches!(foreign, Error::Use(UseError::ForeignTask { .. })), "{foreign}");
            // A task that the server does not have.
            let unknown = client.resume_task(&text.replace("t-1", "t-2")).unwrap();
            let lost = client.wait_task(&unknown).unwrap_err();
            assert!(matches!(lost, Error::Call(CallError::TaskLost(_))), "{lost}");
            finish(client, serving);
        }
    });
}

// covers: TASK-028, TASK-117, TASK-122
#[test]
fn task_is_answered_and_cancelled_by_its_handle() {
    with_timeout(|| {
        for (era, server) in servers() {
            let (client, serving, _) = server.client(era);
            let started = client.start_task("dredge", &json!({}), None).unwrap();
            let StartedTask::Task(task) = started else { panic!("{started:?}") };
            let responses: InputResponses<'_> =
                [(String::from("where"), InputResponse::from(ElicitResult::decline()))].into_iter().collect();
            let updated = client.update_task(&task, &responses);
            assert_eq!(updated.is_ok(), era == Era::Modern, "{updated:?}");
            server.update(|state| state.answer = None);
            client.cancel_task(&task).unwrap();
            let ended = client.wait_task(&task).unwrap_err();
            assert!(matches!(ended, Error::Call(CallError::TaskCancelled { .. })), "{ended}");
            finish(client, serving);
        }
    });
}

// covers: TASK-028, TASK-122, TIME-006
#[test]
fn call_that_times_out_cancels_its_task_and_a_wait_does_not() {
    with_timeout(|| {
        for (era, server) in servers() {
            server.update(|state| state.is_endless = true);
            let (client, serving, _) = server.client(era);
            let started = client.start_task("dredge", &json!({}), None).unwrap();
            let StartedTask::Task(task) = started else { panic!("{started:?}") };
            let options = CallOptions::new().total_timeout(Duration::from_millis(60));
            let ended = client.wait_task_with(&task, &options).unwrap_err();
            assert!(matches!(ended, Error::Call(CallError::TotalTimedOut)), "{ended}");
            assert!(!server.take_requests().iter().any(|method| method == "tasks/cancel"));
            let ended = client.call_tool_with("dredge", &json!({}), &options, &mut |_| {}).unwrap_err();
            assert!(matches!(ended, Error::Call(CallError::TotalTimedOut)), "{ended}");
            // The cancellation is sent before anything else.
            client.call_tool("plain", &json!({})).unwrap();
            assert!(server.take_requests().iter().any(|method| method == "tasks/cancel"));
            finish(client, serving);
        }
    });
}

// covers: TASK-003
#[test]
fn server_without_tasks_runs_the_tool_at_once() {
    with_timeout(|| {
        for (era, server) in servers() {
            server.update(|state| state.is_plain = true);
            let (client, serving, _) = server.client(era);
            let started = client.start_task("dredge", &json!({}), None).unwrap();
            assert!(matches!(started, StartedTask::Done(_)), "{started:?}");
            finish(client, serving);
            // A client that has not declared tasks has none.
            let (client, serving) = server.connect(client_config(version_set(era)), era, &NoteLog::default());
            let refused = client.start_task("dredge", &json!({}), None).unwrap_err();
            assert!(matches!(refused, Error::Use(UseError::NotDeclared(_))), "{refused}");
            finish(client, serving);
        }
    });
}
