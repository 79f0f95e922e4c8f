//! Suite: tools that run as tasks, over HTTP, with and without a store.
//!
//! `crate::adapter` names the adapter under test. The requests are written here, so that the suite sees what a client
//! reads.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]
#![allow(dead_code, reason = "only adapters with shards use a part of it")]
#![allow(unused_mut, reason = "only some adapters take a handle of `&mut self`")]

use alloc::sync::Arc;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use core::time::Duration;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use mcp_proto::http::server::Config as Http;
use mcp_proto::model::{BooleanSchema, ElicitSchema, TaskSupport, Tool};
use mcp_proto::{CallOptions, Limits, RawJson, RpcError, VersionSet, client};
use mcp_runtime::server::ServerTasks;
use mcp_std::io::Interest;
use mcp_std::task_store::{FileTaskStore, LoadedTasks, StoredTask, TaskStore, TaskStoreError};
use serde_json::{Value, json};

use crate::adapter::{
    Cx, Error, Handle, HttpServer, IS_SINGLE_THREADED, Router, handler, run_http, serve_with_handle,
    server_handle, wait,
};
use crate::support::{DEADLINE, INITIALIZE, with_timeout};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The actions of the handlers of a test, and their permissions.
#[derive(Clone, Default)]
struct Record(Arc<RecordInner>);

#[derive(Default)]
struct RecordInner {
    started: AtomicU32,
    cancelled: AtomicU32,
    /// The tool `wait` returns when this is set.
    released: AtomicBool,
}

impl Record {
    fn started(&self) -> u32 {
        self.0.started.load(Ordering::SeqCst)
    }

    fn cancelled(&self) -> u32 {
        self.0.cancelled.load(Ordering::SeqCst)
    }

    fn release(&self) {
        self.0.released.store(true, Ordering::SeqCst);
    }
}

fn tool(name: &'static str) -> Tool {
    Tool::new(name, RawJson::new(r#"{"type":"object"}"#).unwrap())
}

/// Counts a handler that was dropped, or that returned because its call was cancelled.
struct Running(Record, bool);

impl Drop for Running {
    fn drop(&mut self) {
        if !self.1 {
            self.0.0.cancelled.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn router(tasks: ServerTasks, record: &Record) -> Router {
    let mut router = Router::new("yard", "1.0");
    router.tasks(tasks);
    let own = record.clone();
    router.tool_with(
        tool("wait"),
        handler!(move |cx: &mut Cx, _: Value| -> Result<&'static str, RpcError> {
            own.0.started.fetch_add(1, Ordering::SeqCst);
            let mut running = Running(own.clone(), false);
            cx.working("waiting")?;
            while !own.0.released.load(Ordering::SeqCst) {
                wait!(cx.sleep(Duration::from_millis(5)))?;
            }
            running.1 = true;
            Ok(if cx.task().is_some() { "as a task" } else { "plainly" })
        }),
    );
    router.tool_with(tool("must"), handler!(|_: &mut Cx, _: Value| "built"));
    router.tool_with(tool("never"), handler!(|cx: &mut Cx, _: Value| cx.task().is_some().to_string()));
    router.tool_with(
        tool("fails"),
        handler!(|_: &mut Cx, _: Value| Err::<(), _>(RpcError::internal("no wood"))),
    );
    router.tool_with(
        tool("asks"),
        handler!(|cx: &mut Cx, _: Value| -> Result<String, RpcError> {
            let form = ElicitSchema::default().field("ok", BooleanSchema::new());
            let answer = cx.elicit("launch", "Launch the boat?", form)?;
            Ok(format!("{:?} {}", answer.action, cx.task().is_some()))
        }),
    );
    let number = Arc::new(AtomicU32::new(7));
    router.tool_with(
        tool("asks_first"),
        handler!(move |cx: &mut Cx, _: Value| -> Result<String, RpcError> {
            let form = ElicitSchema::default().field("ok", BooleanSchema::new());
            let answer = cx.elicit("launch", "Launch the boat?", form)?;
            // It is the value of the call, not that of the task.
            let before = cx.once("before", || number.fetch_add(1, Ordering::SeqCst))?;
            cx.begin_task()?;
            Ok(format!("{:?} {before} {}", answer.action, cx.task().is_some()))
        }),
    );
    for name in ["wait", "fails", "asks", "asks_first"] {
        router.core().tool_entry(name).task_support(TaskSupport::Optional);
    }
    router.core().tool_entry("must").task_support(TaskSupport::Required);
    router.core().tool_entry("asks_first").defer_task();
    router
}

/// A server on a thread.
struct TaskServer {
    address: SocketAddr,
    handle: Handle,
    thread: JoinHandle<Result<(), Error>>,
}

impl TaskServer {
    fn start(record: &Record, tasks: impl FnOnce() -> ServerTasks + Send + 'static) -> Self {
        let (started, starts) = mpsc::channel();
        let record = record.clone();
        let thread = thread::spawn(move || {
            let router = router(tasks(), &record);
            let mut server = HttpServer::bind("127.0.0.1:0", router.config()?, Http::new(), router)?;
            started.send((server.address()?, server_handle!(server))).unwrap();
            run_http(server)
        });
        let (address, handle) = starts.recv_timeout(DEADLINE).expect("the server listens");
        Self { address, handle, thread }
    }

    fn stop(self, grace: Duration) {
        self.handle.shutdown(grace);
        self.thread.join().unwrap().unwrap();
    }

    /// Sends a request on a connection of its own, and returns the response.
    fn request(&self, method: &str, name: &str, mut params: Value, declares: bool) -> Value {
        let extensions = if declares { json!({EXTENSION: {}}) } else { json!({}) };
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}, "extensions": extensions},
        });
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
             Mcp-Method: {method}\r\nMcp-Name: {name}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let start = answer.find("{\"jsonrpc\"").unwrap_or_else(|| panic!("{answer}"));
        let mut values = serde_json::Deserializer::from_str(&answer[start..]).into_iter::<Value>();
        values.next().expect("JSON").unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    fn call(&self, tool: &str, declares: bool) -> Value {
        self.request("tools/call", tool, json!({"name": tool, "arguments": {}}), declares)
    }

    /// Calls a tool that becomes a task, and returns the id.
    fn create(&self, tool: &str) -> String {
        let created = self.call(tool, true);
        assert_eq!(created["result"]["resultType"], "task", "{created}");
        created["result"]["taskId"].as_str().expect("an id").to_owned()
    }

    fn task(&self, method: &str, id: &str, mut more: Value) -> Value {
        more["taskId"] = json!(id);
        self.request(method, id, more, true)
    }

    fn get(&self, id: &str) -> Value {
        self.task("tasks/get", id, json!({}))["result"].clone()
    }

    /// Polls until the task has this status.
    fn await_status(&self, id: &str, status: &str) -> Value {
        let begun = Instant::now();
        loop {
            let task = self.get(id);
            if task["status"] == status {
                return task;
            }
            assert!(begun.elapsed() < DEADLINE, "{task} instead of {status}");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < DEADLINE, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn first_text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

// covers: TASK-102, TASK-108, TASK-112
#[test]
fn task_outlives_the_connections_of_its_client() {
    with_timeout(|| {
        let record = Record::default();
        let server = TaskServer::start(&record, ServerTasks::new);
        let id = server.create("wait");
        until("the handler runs", || record.started() == 1);
        // No connection is open now.
        let working = server.await_status(&id, "working");
        until("the message is shown", || server.get(&id)["statusMessage"] == "waiting");
        assert!(working.get("result").is_none(), "{working}");
        record.release();
        let done = server.await_status(&id, "completed");
        assert_eq!(first_text(&done["result"]), "as a task");
        // A client without the extension gets the result itself.
        let plain = server.call("wait", false);
        assert_eq!(first_text(&plain["result"]), "plainly");
        assert_eq!((record.started(), record.cancelled()), (2, 0));
        server.stop(Duration::ZERO);
    });
}

// covers: TASK-104, TASK-112
#[test]
fn support_of_a_tool_decides_what_its_calls_become() {
    with_timeout(|| {
        let server = TaskServer::start(&Record::default(), ServerTasks::new);
        let refused = server.call("must", false);
        assert_eq!(refused["error"]["code"], -32021, "{refused}");
        assert!(
            refused["error"]["data"]["requiredCapabilities"]["extensions"][EXTENSION].is_object(),
            "{refused}"
        );
        let id = server.create("must");
        assert_eq!(first_text(&server.await_status(&id, "completed")["result"]), "built");
        let never = server.call("never", true);
        assert_eq!(first_text(&never["result"]), "false");
        let id = server.create("fails");
        assert_eq!(server.await_status(&id, "failed")["error"]["message"], "no wood");
        server.stop(Duration::ZERO);
    });
}

// covers: TASK-123
#[test]
fn cancellation_of_a_task_reaches_its_handler() {
    with_timeout(|| {
        let record = Record::default();
        let server = TaskServer::start(&record, ServerTasks::new);
        let id = server.create("wait");
        until("the handler runs", || record.started() == 1);
        let ack = server.task("tasks/cancel", &id, json!({}));
        assert_eq!(ack["result"]["resultType"], "complete", "{ack}");
        server.await_status(&id, "cancelled");
        until("the handler ends", || record.cancelled() == 1);
        server.stop(Duration::ZERO);
    });
}

// covers: TASK-110, TASK-112, TASK-117
#[test]
fn handler_of_a_task_asks_for_input() {
    with_timeout(|| {
        let server = TaskServer::start(&Record::default(), ServerTasks::new);
        let id = server.create("asks");
        let asking = server.await_status(&id, "input_required");
        let (key, request) =
            asking["inputRequests"].as_object().and_then(|all| all.iter().next()).expect("a request");
        assert_eq!(request["method"], "elicitation/create");
        let answers = json!({"inputResponses": {key: {"action": "accept", "content": {"ok": true}}}});
        assert_eq!(server.task("tasks/update", &id, answers)["result"]["resultType"], "complete");
        assert_eq!(first_text(&server.await_status(&id, "completed")["result"]), "Accept true");

        // The other tool asks before it becomes a task.
        let first = server.call("asks_first", true);
        assert_eq!(first["result"]["resultType"], "input_required", "{first}");
        let retry = json!({
            "name": "asks_first", "arguments": {}, "requestState": first["result"]["requestState"],
            "inputResponses": {"launch": {"action": "accept", "content": {"ok": true}}},
        });
        let created = server.request("tools/call", "asks_first", retry, true);
        assert_eq!(created["result"]["resultType"], "task", "{created}");
        let id = created["result"]["taskId"].as_str().expect("an id");
        assert_eq!(first_text(&server.await_status(id, "completed")["result"]), "Accept 7 true");
        server.stop(Duration::ZERO);
    });
}

#[test]
fn running_tasks_leave_room_for_calls() {
    if IS_SINGLE_THREADED {
        return;
    }
    with_timeout(|| {
        let record = Record::default();
        let server = TaskServer::start(&record, ServerTasks::new);
        // More than the default number of workers, and more than may run.
        let ids: Vec<_> = (0..70).map(|_| server.create("wait")).collect();
        until("as many as may run", || record.started() == 64);
        assert_eq!(first_text(&server.call("never", false)["result"]), "false");
        assert_eq!(record.started(), 64);
        record.release();
        for id in &ids {
            server.await_status(id, "completed");
        }
        assert_eq!(record.started(), 70);
        server.stop(Duration::ZERO);
    });
}

/// A folder that is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mcp-server-tasks-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn stored_in(folder: &Path) -> impl FnOnce() -> ServerTasks + Send + 'static {
    let folder = folder.to_owned();
    move || ServerTasks::new().store(FileTaskStore::open(folder).unwrap())
}

// covers: TASK-109
#[test]
fn stored_tasks_are_there_after_a_restart() {
    with_timeout(|| {
        let (folder, record) = (Folder::new("restart"), Record::default());
        let server = TaskServer::start(&record, stored_in(&folder.0));
        let finished = server.create("must");
        server.await_status(&finished, "completed");
        let asking = server.create("asks");
        server.await_status(&asking, "input_required");
        let interrupted = server.create("wait");
        until("the handler runs", || record.started() == 1);
        server.stop(Duration::from_millis(50));
        until("the handler ends", || record.cancelled() == 1);

        let server = TaskServer::start(&record, stored_in(&folder.0));
        assert_eq!(first_text(&server.get(&finished)["result"]), "built");
        let failed = server.await_status(&interrupted, "failed");
        assert!(
            failed["error"]["message"].as_str().is_some_and(|message| message.contains("restarted")),
            "{failed}"
        );
        assert_eq!(record.started(), 1, "it does not run twice");
        let request = server.await_status(&asking, "input_required");
        let key = request["inputRequests"]
            .as_object()
            .and_then(|all| all.keys().next())
            .expect("a request")
            .clone();
        let answers = json!({"inputResponses": {key: {"action": "decline"}}});
        server.task("tasks/update", &asking, answers);
        assert_eq!(first_text(&server.await_status(&asking, "completed")["result"]), "Decline true");
        server.stop(Duration::ZERO);
    });
}

#[test]
fn shutdown_lets_a_running_task_finish() {
    with_timeout(|| {
        let (folder, record) = (Folder::new("grace"), Record::default());
        let server = TaskServer::start(&record, stored_in(&folder.0));
        let id = server.create("wait");
        until("the handler runs", || record.started() == 1);
        let releasing = record.clone();
        let releaser = thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            releasing.release();
        });
        server.stop(DEADLINE);
        releaser.join().unwrap();
        assert_eq!(record.cancelled(), 0);
        let server = TaskServer::start(&record, stored_in(&folder.0));
        assert_eq!(first_text(&server.get(&id)["result"]), "as a task");
        server.stop(Duration::ZERO);
    });
}

/// A store on a full disk.
struct FullStore;

impl TaskStore for FullStore {
    fn load(&self) -> Result<LoadedTasks, TaskStoreError> {
        Ok(LoadedTasks::default())
    }

    fn save(&self, _: &str, _: u64, _: &[u8]) -> Result<(), TaskStoreError> {
        Err(TaskStoreError::Other("no room".into()))
    }

    fn delete(&self, _: &str, _: u64) -> Result<(), TaskStoreError> {
        Ok(())
    }
}

// covers: TASK-109
#[test]
fn task_that_cannot_be_stored_is_not_created() {
    with_timeout(|| {
        let (record, (problems, reported)) = (Record::default(), mpsc::channel());
        let server = TaskServer::start(&record, move || {
            ServerTasks::new()
                .store(FullStore)
                .on_problem(move |problem| _ = problems.send(problem.to_string()))
        });
        let refused = server.call("wait", true);
        assert_eq!(refused["error"]["code"], -32603, "{refused}");
        assert!(!refused.to_string().contains("no room"), "{refused}");
        assert_eq!(reported.recv_timeout(DEADLINE).unwrap(), "no room");
        assert_eq!(record.started(), 0);
        // A call that is no task needs no store.
        assert_eq!(first_text(&server.call("never", true)["result"]), "false");
        server.stop(Duration::ZERO);
    });
}

/// A folder with records that were written by something else.
struct StrangeStore(FileTaskStore, mpsc::Sender<String>);

impl TaskStore for StrangeStore {
    fn load(&self) -> Result<LoadedTasks, TaskStoreError> {
        let mut loaded = self.0.load()?;
        let whole = loaded.tasks[0].clone();
        for (id, record) in [
            ("AAAAAAAAAAAAAAAAAAAAAA", whole.record.clone()),
            ("AAAAAAAAAAAAAAAAAAAAAB", vec![99, 1, 2]),
            ("AAAAAAAAAAAAAAAAAAAAAC", whole.record[..40].to_vec()),
            ("AAAAAAAAAAAAAAAAAAAAAD", Vec::new()),
        ] {
            loaded.tasks.insert(0, StoredTask { id: id.into(), version: 7, record });
        }
        Ok(loaded)
    }

    fn save(&self, id: &str, version: u64, record: &[u8]) -> Result<(), TaskStoreError> {
        self.0.save(id, version, record)
    }

    fn delete(&self, id: &str, version: u64) -> Result<(), TaskStoreError> {
        // The test looks at it: a failure on the thread of a store would go unseen.
        _ = self.1.send(id.into());
        self.0.delete(id, version)
    }
}

// covers: TASK-109
#[test]
fn records_that_cannot_be_restored_are_reported_and_the_others_load() {
    with_timeout(|| {
        let (folder, record) = (Folder::new("strange"), Record::default());
        let server = TaskServer::start(&record, stored_in(&folder.0));
        let id = server.create("must");
        server.await_status(&id, "completed");
        server.stop(Duration::ZERO);

        let (problems, reported) = mpsc::channel();
        let (deletions, deleted) = mpsc::channel();
        let path = folder.0.clone();
        let server = TaskServer::start(&record, move || {
            ServerTasks::new()
                .store(StrangeStore(FileTaskStore::open(path).unwrap(), deletions))
                .on_problem(move |problem| _ = problems.send(problem.to_string()))
        });
        assert_eq!(first_text(&server.get(&id)["result"]), "built");
        let mut texts: Vec<String> = reported.try_iter().collect();
        texts.sort();
        let expected = [
            "the record of a task has the format 99, and this version reads 2",
            "the record of a task is damaged",
            "the record of a task is damaged",
            "the record of a task is stored for another task",
        ];
        assert_eq!(texts, expected);
        server.stop(Duration::ZERO);
        let deleted: Vec<String> = deleted.try_iter().filter(|id| id.starts_with("AAAA")).collect();
        assert!(deleted.is_empty(), "what cannot be read is not deleted: {deleted:?}");
    });
}

#[test]
fn folder_in_use_is_a_clear_error() {
    let folder = Folder::new("in-use");
    let _first = FileTaskStore::open(&folder.0).unwrap();
    let error = FileTaskStore::open(&folder.0).unwrap_err().to_string();
    assert!(error.contains("is in use by another server"), "{error}");
}

/// Returns the frame of a call as a task in a legacy session.
fn task_line(id: u32, tool: &str) -> String {
    let params = json!({"name": tool, "arguments": {}, "task": {}});
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
}

/// Serves a legacy session that ends while a task runs, and returns what was written.
fn serve_task_and_end(
    tasks: impl FnOnce() -> ServerTasks + Send + 'static,
    record: &Record,
    grace: Duration,
) -> String {
    let mut limits = Limits::default();
    limits.eof_grace_period = grace;
    let config = router(ServerTasks::new(), record).config().unwrap().limits(limits);
    let own = record.clone();
    let (mut stream, _handle, serving) = serve_with_handle(config, move || router(tasks(), &own));
    let frames = format!("{INITIALIZE}{}", task_line(1, "wait"));
    assert_eq!(stream.write(frames.as_bytes()).unwrap(), frames.len(), "room for frames");
    // A task that has not started at the end waits for the next process.
    until("the handler runs", || record.started() == 1);
    stream.shutdown_write().unwrap();
    let (mut written, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => written.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                stream.wait(Interest::READ, Some(DEADLINE)).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    serving.join().unwrap().unwrap();
    String::from_utf8(written).unwrap()
}

#[test]
fn end_of_a_stream_gives_a_task_the_grace_period() {
    with_timeout(|| {
        let record = Record::default();
        let begun = Instant::now();
        let written = serve_task_and_end(ServerTasks::new, &record, Duration::from_millis(30));
        assert!(written.contains("\"task\":{\"taskId\""), "{written}");
        assert!(begun.elapsed() >= Duration::from_millis(30) && begun.elapsed() < DEADLINE);
        until("the handler ends", || record.started() == 1 && record.cancelled() == 1);
    });
}

#[test]
fn task_that_finishes_after_the_end_of_its_stream_is_stored() {
    with_timeout(|| {
        let (folder, record) = (Folder::new("stream"), Record::default());
        let releasing = record.clone();
        let releaser = thread::spawn(move || {
            until("the handler runs", || releasing.started() == 1);
            thread::sleep(Duration::from_millis(50));
            releasing.release();
        });
        let written = serve_task_and_end(stored_in(&folder.0), &record, DEADLINE);
        releaser.join().unwrap();
        assert_eq!(record.cancelled(), 0, "{written}");
        // The next process has the result: its record is the last one of the task.
        let stored = FileTaskStore::open(&folder.0).unwrap().load().unwrap();
        assert_eq!(stored.tasks.len(), 1);
        let text = String::from_utf8_lossy(&stored.tasks[0].record).into_owned();
        assert!(text.contains("as a task"), "{text}");
    });
}

#[test]
fn test_server_runs_tasks_on_virtual_time() {
    let record = Record::default();
    record.release();
    let folder = Folder::new("virtual");
    let router = router(stored_in(&folder.0)(), &record);
    let config = client::Config::new("test", "1").versions(VersionSet::LEGACY);
    let client = mcp_blocking::testing::pair(router, mcp_blocking::Client::options(config)).unwrap();
    let options = CallOptions::new();
    let params = json!({"name": "wait", "arguments": {}, "task": {"ttl": 60_000}});
    let created = client.request("tools/call", &params, &options).unwrap();
    let created: Value = created.parse().unwrap();
    let id = json!({"taskId": created["task"]["taskId"]});
    let result: Value = client.request("tasks/result", &id, &options).unwrap().parse().unwrap();
    assert_eq!(first_text(&result), "as a task");
    let done: Value = client.request("tasks/get", &id, &options).unwrap().parse().unwrap();
    assert_eq!(done["status"], "completed", "{done}");
    client.close().unwrap();
}

/// Asserts that a server with tasks does not run with several shards.
pub(crate) fn assert_refuses_shards(run: impl FnOnce(HttpServer<Router>) -> Result<(), Error>) {
    let router = router(ServerTasks::new(), &Record::default());
    let server = HttpServer::bind("127.0.0.1:0", router.config().unwrap(), Http::new(), router).unwrap();
    let error = run(server).unwrap_err().to_string();
    assert!(error.contains("a server with tasks has one shard"), "{error}");
}

#[test]
fn tool_that_requires_tasks_needs_a_router_with_tasks() {
    let mut router = Router::new("yard", "1.0");
    router.tool_with(tool("must"), handler!(|_: &mut Cx, _: Value| "built"));
    router.core().tool_entry("must").task_support(TaskSupport::Required);
    let error = router.check().unwrap_err().to_string();
    assert_eq!(error, "the tool `must` requires tasks, and the router has none: call `tasks` on it");
    router.tasks(ServerTasks::new());
    router.check().unwrap();
}
