//! Our typed client with servers of SDKs that run tools as tasks.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::ffi::OsString;
use std::net::TcpListener;
use std::process::Command;
use std::time::Instant;

use mcp_blocking::{Client, Program, Stderr};
use mcp_proto::client::{Config, InputTaskLimits, StartedTask, TaskPolling};
use mcp_proto::model::{CallToolResult, ElicitParams, ElicitResult, TaskStatus};
use mcp_proto::{CallError, CallOptions, Capabilities, Capability, RpcError, VersionSet};
use mcp_runtime::Error;
use mcp_runtime::client::ClientHandler;
use serde_json::{Value, json};

use crate::hosted_server::HostedServer;
use crate::peers::{is_node_ready, is_rmcp_ready, node, rmcp_program};
use crate::run::{DEADLINE, print_line};

/// Answers each form with the first field set to `east`, or the first of its choices, and counts them.
#[derive(Clone, Default)]
struct User(Arc<AtomicUsize>);

impl ClientHandler for User {
    fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let ElicitParams::Form(form) = params else { return Ok(ElicitResult::decline()) };
        let is_clarification = form.message.contains("interpretations");
        let (name, value) = if is_clarification { ("interpretation", "snake") } else { ("basin", "east") };
        Ok(ElicitResult::accept([(name, value.into())]))
    }
}

fn config(versions: VersionSet) -> Config {
    // More than the default: these servers start slowly on a busy machine.
    let mut limits = mcp_proto::Limits::default();
    limits.init_timeout = Duration::from_secs(50);
    let range = (Duration::from_millis(20), Duration::from_secs(1));
    Config::new("interop", "1")
        .versions(versions)
        .limits(limits)
        .capabilities(Capabilities::new().with(Capability::Elicitation))
        .task_polling(TaskPolling::new().interval_range(range.0, range.1))
}

/// A tool that runs as a task, asks one question and ends with a text.
struct AskingTool {
    name: &'static str,
    arguments: Value,
    expected: &'static str,
}

fn only_text(result: &CallToolResult<'_>) -> String {
    assert!(!result.is_failure(), "{result:?}");
    assert_eq!(result.content.len(), 1, "{result:?}");
    result.content[0].as_text().expect("a text").to_owned()
}

/// Waits until the server has registered the tool: some do that after the handshake.
fn await_tool(client: &Client, name: &str) {
    let begun = Instant::now();
    while !client.list_tools().expect("a list").iter().any(|tool| tool.name == name) {
        assert!(begun.elapsed() < DEADLINE, "the server has no tool `{name}`");
        client.poll(Duration::from_millis(50)).expect("a server");
    }
}

/// Calls a tool plainly, starts it and takes it up by the text of its handle, and cancels it in both ways.
fn use_tasks(what: &str, mut client: Client, asking: &AskingTool, endless: &AskingTool) {
    let user = User::default();
    client.set_handler(user.clone());
    await_tool(&client, asking.name);
    let result = client.call_tool(asking.name, &asking.arguments).expect("a result");
    assert!(only_text(&result).contains(asking.expected), "{what}: {result:?}");
    assert_eq!(user.0.load(Ordering::SeqCst), 1, "{what}");

    let started = client.start_task(asking.name, &asking.arguments, Some(Duration::from_secs(300)));
    let StartedTask::Task(task) = started.expect("a start") else { panic!("{what}: no task") };
    let task = client.resume_task(&task.to_text()).expect("a handle");
    assert!(!client.get_task(&task).expect("a state").status.is_terminal(), "{what}");
    let result = client.wait_task(&task).expect("a result");
    assert!(only_text(&result).contains(asking.expected), "{what}: {result:?}");
    assert_eq!(user.0.load(Ordering::SeqCst), 2, "{what}");

    // A task that is cancelled by its handle.
    let started = client.start_task(endless.name, &endless.arguments, None);
    let StartedTask::Task(task) = started.expect("a start") else { panic!("{what}: no task") };
    client.cancel_task(&task).expect("a confirmation");
    assert_eq!(client.get_task(&task).expect("a state").status, TaskStatus::Cancelled, "{what}");
    let ended = client.wait_task(&task).expect_err("cancelled");
    assert!(matches!(ended, Error::Call(CallError::TaskCancelled { .. })), "{what}: {ended}");

    // A call whose time is over cancels its task.
    let options = CallOptions::new().total_timeout(Duration::from_millis(1_500));
    let ended = client.call_tool_with(endless.name, &endless.arguments, &options, &mut |_| {});
    let ended = ended.expect_err("an endless tool");
    assert!(matches!(ended, Error::Call(CallError::TotalTimedOut)), "{what}: {ended}");
    client.ping().expect("an answer");
    client.close().expect("an end");
    print_line(&format!("interop of tasks, our client, {what}: call, start, resume, cancel, time out"));
}

fn spawn(args: &[OsString]) -> Client {
    let program = Program::new("node").args(args).stderr(Stderr::Capture);
    Client::spawn_with(config(VersionSet::LEGACY), program).expect("a connection")
}

fn connect(url: &str) -> Client {
    Client::options(config(VersionSet::LEGACY)).connect_url(url).expect("a connection")
}

// covers: TASK-005, TASK-007, TASK-008, TASK-009, TASK-018, TASK-019, TASK-021, TASK-022, TASK-023, TASK-028
#[test]
fn own_client_uses_tasks_of_the_typescript_sdk() {
    if !is_node_ready() {
        return;
    }
    let asking =
        AskingTool { name: "dredge", arguments: json!({"depth": 4}), expected: "dredged east to 4 m" };
    let endless = AskingTool { name: "endless", arguments: json!({"depth": 4}), expected: "" };
    let script: OsString = node().join("tasks-server.mjs").into();
    use_tasks("TypeScript SDK 1 over stdio", spawn(core::slice::from_ref(&script)), &asking, &endless);
    let mut server = Command::new("node");
    server.arg(script).args(["--http", "0"]);
    let server = HostedServer::start(server);
    use_tasks("TypeScript SDK 1 over HTTP", connect(&server.url), &asking, &endless);
    server.stop();
}

// covers: TASK-005, TASK-007, TASK-008, TASK-009, TASK-018, TASK-019, TASK-021, TASK-022, TASK-023, TASK-028
#[test]
fn own_client_uses_tasks_of_server_everything() {
    if !is_node_ready() {
        return;
    }
    let research = |expected| AskingTool {
        name: "simulate-research-query",
        arguments: json!({"topic": "python", "ambiguous": true}),
        expected,
    };
    // This tool takes four seconds, so it is far from its end when it is cancelled.
    let (asking, endless) = (research("python (snake)"), research(""));
    let entry = ["node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js"];
    let entry: OsString = entry.iter().fold(node(), |path, part| path.join(part)).into();
    use_tasks("server-everything over stdio", spawn(&[entry.clone(), "stdio".into()]), &asking, &endless);
    // This server is given a port and does not print its address.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port();
    let mut server = Command::new("node");
    server.arg(entry).arg("streamableHttp").env("PORT", port.to_string());
    let server = HostedServer::start_at(server, port, "/mcp");
    use_tasks("server-everything over HTTP", connect(&server.url), &asking, &endless);
}

/// Fills in the form of server-everything, and counts the questions.
struct Namer(Arc<AtomicUsize>);

impl ClientHandler for Namer {
    fn elicit(&self, params: &ElicitParams) -> Result<ElicitResult, RpcError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        assert!(matches!(params, ElicitParams::Form(form) if form.message.contains("async task")));
        Ok(ElicitResult::accept([("name", "Ada".into())]))
    }
}

/// The other direction: the server asks by a task of our client, polls it and collects the answer.
// covers: TASK-001, TASK-002, TASK-009, TASK-014, TASK-018, TASK-019, TASK-039
#[test]
fn own_client_hosts_tasks_of_server_everything() {
    if !is_node_ready() {
        return;
    }
    let entry = ["node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js"];
    let entry: OsString = entry.iter().fold(node(), |path, part| path.join(part)).into();
    for hosts in [true, false] {
        let program = Program::new("node").args([entry.clone(), "stdio".into()]).stderr(Stderr::Capture);
        let asked = Arc::new(AtomicUsize::new(0));
        let options = Client::options(config(VersionSet::LEGACY)).handler(Namer(Arc::clone(&asked)));
        let options = if hosts { options.input_tasks(InputTaskLimits::new()) } else { options };
        let client = options.spawn(program).expect("a connection");
        let tool = "trigger-elicitation-request-async";
        if hosts {
            await_tool(&client, tool);
            let result = client.call_tool(tool, &json!({})).expect("a result");
            let text: String = result.content.iter().filter_map(|content| content.as_text()).collect();
            for part in ["[COMPLETED]", "- Name: Ada", "Task created: ", "Poll 1: completed"] {
                assert!(text.contains(part), "{part}: {text}");
            }
            assert_eq!(asked.load(Ordering::SeqCst), 1);
        } else {
            // It offers the tool to clients that host tasks only. The other tools come at the same time.
            await_tool(&client, "trigger-elicitation-request");
            assert!(!client.list_tools().expect("a list").iter().any(|other| other.name == tool));
        }
        client.close().expect("an end");
    }
    print_line(
        "interop of tasks, our client hosts a question of server-everything over stdio: answered, polled, collected",
    );
}

// covers: TASK-101, TASK-104, TASK-107, TASK-108, TASK-111, TASK-112, TASK-113, TASK-117, TASK-122, TASK-123
#[test]
fn own_client_uses_tasks_of_rmcp() {
    if !is_rmcp_ready() {
        return;
    }
    let asking =
        AskingTool { name: "dredge", arguments: json!({"depth": 4}), expected: "dredged east to 4 m" };
    let endless = AskingTool { name: "endless", arguments: json!({"depth": 4}), expected: "" };
    let program = Program::new(rmcp_program()).arg("task-server").stderr(Stderr::Capture);
    let client = Client::spawn_with(config(VersionSet::MODERN), program).expect("a connection");
    use_tasks("rmcp over stdio", client, &asking, &endless);
    let mut server = Command::new(rmcp_program());
    server.args(["task-server", "--http", "0"]);
    let server = HostedServer::start(server);
    let client = Client::options(config(VersionSet::MODERN)).connect_url(&server.url).expect("a connection");
    use_tasks("rmcp over HTTP", client, &asking, &endless);
    server.stop();
}
