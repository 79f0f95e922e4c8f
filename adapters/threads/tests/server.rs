//! A server of `mcp-threads` whose handlers run on workers in parallel.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::io::ErrorKind;
use std::sync::{Barrier, Condvar, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::support::{DEADLINE, raw_text};
use mcp_blocking::Client;
use mcp_proto::model::CallToolResult;
use mcp_proto::{CallOptions, Capabilities, Capability, Change, Limits, RpcError, client, server};
use mcp_std::io::{Duplex, Interest, MemoryEnd};
use mcp_threads::{Answered, Call, Cx, Error, Handle, Handler, HandlerFailure, Server};
use serde_json::json;

fn config() -> server::Config {
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
    let mut limits = Limits::default();
    limits.eof_grace_period = Duration::from_millis(200);
    server::Config::new("test", "1").capabilities(capabilities).limits(limits)
}

/// Connects a client to a server with `workers` workers.
fn pair(workers: usize, handler: impl Handler) -> (Client, Handle, JoinHandle<Result<(), Error>>) {
    let (near, far) = mcp_std::io::memory_pair(4096);
    let mut server = Server::new(config(), near, handler).workers(workers);
    let handle = server.handle().unwrap();
    let server = thread::spawn(move || server.run());
    (Client::connect(client::Config::new("me", "1"), far).unwrap(), handle, server)
}

/// Joins a thread.
///
/// # Panics
///
/// Panics if the thread panics or does not end within [`DEADLINE`].
fn join_in_time<T: Send + 'static>(thread: JoinHandle<T>) -> T {
    let (sender, receiver) = mpsc::channel();
    let waits = thread::spawn(move || drop(sender.send(thread.join())));
    let ended = receiver.recv_timeout(DEADLINE).expect("no readiness before the deadline");
    waits.join().unwrap();
    ended.unwrap()
}

/// A gate that opens once. Clones share it.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |open| !*open).unwrap());
    }
}

// covers: BASE-033, STDIO-010
#[test]
fn parallel_handlers_answer_in_order_of_completion() {
    let (meet, gate) = (Barrier::new(3), Gate::default());
    let opens = gate.clone();
    let (client, _, server) = pair(4, move |cx: &mut Cx<'_>, call: &Call| {
        let tool = call.tool_call()?;
        match &*tool.name {
            "meet" => _ = meet.wait(),
            "waits" => gate.wait(),
            _ => {}
        }
        cx.complete(&CallToolResult::text(&*tool.name))
    });
    let options = CallOptions::default();
    let slow = client.start_tool("waits", &json!({}), &options).unwrap();
    let meet: Vec<_> = (0..3).map(|_| client.start_tool("meet", &json!({}), &options).unwrap()).collect();
    for call in meet {
        assert_eq!(raw_text(&client.wait(call).unwrap()), "meet");
    }
    opens.open();
    assert_eq!(raw_text(&client.wait(slow).unwrap()), "waits");
    client.close().unwrap();
    join_in_time(server).unwrap();
}

#[test]
fn hanging_handler_costs_only_its_worker() {
    let gate = Gate::default();
    let opens = gate.clone();
    let (client, handle, server) = pair(2, move |cx: &mut Cx<'_>, call: &Call| {
        let name = call.tool_call()?.name;
        if name == "never" {
            gate.wait();
        }
        cx.complete(&CallToolResult::text(name))
    });
    let never = client.start_tool("never", &json!({}), &CallOptions::default()).unwrap();
    for _ in 0..200 {
        assert_eq!(client.call_tool("fast", &json!({})).unwrap().content[0].as_text(), Some("fast"));
    }
    // The shutdown waits for the grace period and no longer.
    handle.shutdown(Duration::from_millis(50));
    assert!(client.wait(never).is_err());
    join_in_time(server).unwrap();
    assert!(handle.is_over() && handle.publish(&Change::Tools).is_err());
    // The outcome of the handler is discarded.
    opens.open();
}

#[test]
fn end_of_input_does_not_wait_for_hanging_handler() {
    let gate = Gate::default();
    let opens = gate.clone();
    let (client, _, server) = pair(2, move |cx: &mut Cx<'_>, _: &Call| {
        gate.wait();
        cx.complete(&CallToolResult::text("late"))
    });
    client.start_tool("never", &json!({}), &CallOptions::default()).unwrap();
    client.poll(Duration::ZERO).unwrap();
    drop(client);
    join_in_time(server).unwrap();
    opens.open();
}

#[test]
fn handlers_run_on_loop_without_workers() {
    for (workers, same) in [(0, true), (1, false)] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = seen.clone();
        let (client, _, server) = pair(workers, move |cx: &mut Cx<'_>, _: &Call| {
            notes.lock().unwrap().push(thread::current().id());
            cx.complete(&CallToolResult::text("here"))
        });
        client.call_tool("any", &json!({})).unwrap();
        client.call_tool("any", &json!({})).unwrap();
        client.close().unwrap();
        let of_loop = server.thread().id();
        join_in_time(server).unwrap();
        assert!(seen.lock().unwrap().iter().all(|id| (*id == of_loop) == same));
    }
}

/// Reports failures of its calls.
struct FailureReporter(mpsc::Sender<String>);

impl Handler for FailureReporter {
    fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        assert!(call.tool_call()?.name != "panics", "on purpose");
        cx.complete(&CallToolResult::text("done"))
    }

    fn failed(&self, _: &Call, failure: &HandlerFailure) {
        self.0.send(failure.to_string()).unwrap();
    }
}

// covers: ERR-019
#[test]
fn panic_becomes_internal_error_and_worker_survives() {
    for workers in [0, 1] {
        let (sender, receiver) = mpsc::channel();
        let (client, _, server) = pair(workers, FailureReporter(sender));
        for _ in 0..3 {
            let error = client.call_tool("panics", &json!({})).unwrap_err().to_string();
            assert!(error.contains("-32603"), "{error}");
            assert!(receiver.recv_timeout(DEADLINE).unwrap().contains("on purpose"));
        }
        assert_eq!(client.call_tool("fine", &json!({})).unwrap().content[0].as_text(), Some("done"));
        client.close().unwrap();
        join_in_time(server).unwrap();
    }
}

/// The client end of a stream, and the bytes read ahead.
struct RawClient(MemoryEnd, Vec<u8>);

impl RawClient {
    fn write(&mut self, text: &str) {
        let mut bytes = text.as_bytes();
        while !bytes.is_empty() {
            match self.0.write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.0.wait(Interest::WRITE, Some(DEADLINE)).unwrap();
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Reads the next line. Returns `None` at the end of the stream.
    fn read_line(&mut self) -> Option<serde_json::Value> {
        loop {
            if let Some(end) = self.1.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.1.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let mut buffer = [0; 4096];
            match self.0.read(&mut buffer) {
                Ok(0) => return None,
                Ok(n) => self.1.extend_from_slice(&buffer[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    assert!(
                        self.0.wait(Interest::READ, Some(DEADLINE)).unwrap().readable,
                        "no readiness before the deadline"
                    );
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn send_call(&mut self, id: usize, tool: &str) {
        self.write(&call_line(id, tool));
    }
}

fn call_line(id: usize, tool: &str) -> String {
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let params = format!(r#"{{"name":"{tool}","_meta":{meta}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#) + "\n"
}

fn cancel_line(id: usize) -> String {
    let params = format!(r#"{{"requestId":{id}}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#) + "\n"
}

/// Starts a server with `workers` workers, on a stream that holds `capacity` bytes in each direction.
fn spawn_raw(
    workers: usize,
    capacity: usize,
    handler: impl Handler,
) -> (RawClient, JoinHandle<Result<(), Error>>) {
    let (near, far) = mcp_std::io::memory_pair(capacity);
    let server = thread::spawn(move || Server::new(config(), near, handler).workers(workers).run());
    (RawClient(far, Vec::new()), server)
}

// covers: CANC-010, CANC-014, CANC-020, STDIO-019
#[test]
fn thousand_calls_are_cancelled() {
    let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (b, e) = (begun.clone(), ended.clone());
    let (mut client, server) = spawn_raw(8, 1 << 20, move |cx: &mut Cx<'_>, call: &Call| {
        if call.tool_call()?.name == "sleeps" {
            b.fetch_add(1, Ordering::SeqCst);
            let slept = cx.sleep(DEADLINE * 2);
            e.fetch_add(1, Ordering::SeqCst);
            slept?;
        }
        cx.complete(&CallToolResult::text("done"))
    });
    for id in 0..1000 {
        client.send_call(id, "sleeps");
        // At that time eight calls sleep, and the others wait or are about to begin.
        if id % 100 == 99 {
            (id - 99..=id).for_each(|id| client.write(&cancel_line(id)));
        }
    }
    client.send_call(1000, "echo");
    assert_eq!(client.read_line().unwrap()["id"], 1000);
    client.0.shutdown_write().unwrap();
    assert!(client.read_line().is_none());
    join_in_time(server).unwrap();
    // A cancelled handler may outlive the server by a moment.
    let until = Instant::now() + DEADLINE;
    let counts = || (begun.load(Ordering::SeqCst), ended.load(Ordering::SeqCst));
    while counts().0 != counts().1 {
        assert!(Instant::now() < until, "(begun, ended): {:?}", counts());
        thread::yield_now();
    }
}

#[test]
fn back_pressure_loses_no_call() {
    let (mut client, server) = spawn_raw(3, 300, |cx: &mut Cx<'_>, call: &Call| {
        cx.complete(&CallToolResult::text(call.tool_call()?.name))
    });
    // One thread writes and reads in turn, as far as possible. A server that only reads or only writes would block it.
    let calls = 2000;
    let out: String = (0..calls).map(|id| call_line(id, &format!("t{id}"))).collect();
    let out = out.as_bytes();
    let mut seen = vec![false; calls];
    let (mut sent, mut buffer, mut input) = (0, [0; 4096], Vec::new());
    while !seen.iter().all(|seen| *seen) {
        if let Ok(n) = client.0.write(&out[sent..]) {
            sent += n;
        }
        if let Ok(n) = client.0.read(&mut buffer) {
            input.extend_from_slice(&buffer[..n]);
        }
        while let Some(end) = input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = input.drain(..=end).collect();
            let answer: serde_json::Value = serde_json::from_slice(&line).unwrap();
            let id = usize::try_from(answer["id"].as_u64().unwrap()).unwrap();
            assert_eq!(answer["result"]["content"][0]["text"], format!("t{id}"), "{answer}");
            assert!(!core::mem::replace(&mut seen[id], true));
        }
        let interest = Interest { read: true, write: sent < out.len() };
        if sent < out.len() || !seen.iter().all(|seen| *seen) {
            let ready = client.0.wait(interest, Some(DEADLINE)).unwrap();
            assert!(ready.readable || ready.writable, "no readiness before the deadline");
        }
    }
    drop(client);
    join_in_time(server).unwrap();
}

#[test]
fn server_ends_without_error_when_client_disconnects() {
    let (mut client, server) = spawn_raw(2, 4096, |cx: &mut Cx<'_>, _: &Call| {
        cx.sleep(DEADLINE * 2)?;
        cx.complete(&CallToolResult::text("discarded"))
    });
    client.send_call(1, "any");
    drop(client);
    join_in_time(server).unwrap();
}

#[test]
fn shutdown_interrupts_handler_that_sleeps_on_loop() {
    let (begun, begins) = mpsc::channel();
    let (client, handle, server) = pair(0, move |cx: &mut Cx<'_>, _: &Call| {
        begun.send(()).unwrap();
        cx.sleep(DEADLINE * 2)?;
        cx.complete(&CallToolResult::text("late"))
    });
    let call = client.start_tool("sleeps", &json!({}), &CallOptions::default()).unwrap();
    client.poll(Duration::ZERO).unwrap();
    begins.recv_timeout(DEADLINE).unwrap();
    handle.shutdown(Duration::from_millis(50));
    assert!(client.wait(call).is_err());
    join_in_time(server).unwrap();
}

/// Submits a command that submits itself again.
fn resubmit_forever(handle: &Handle) {
    let next = handle.clone();
    let _ = handle.with_engine(move |_, _| resubmit_forever(&next));
}

#[test]
fn panicking_or_endless_commands_delay_nothing_else() {
    for workers in [0, 2] {
        let (client, handle, server) =
            pair(workers, |cx: &mut Cx<'_>, _: &Call| cx.complete(&CallToolResult::text("done")));
        handle.with_engine(|_, _| panic!("on purpose")).unwrap();
        resubmit_forever(&handle);
        for _ in 0..10 {
            assert_eq!(client.call_tool("any", &json!({})).unwrap().content[0].as_text(), Some("done"));
        }
        handle.shutdown(DEADLINE);
        drop(client);
        join_in_time(server).unwrap();
    }
}

/// Dropping a server cancels the calls that its handlers run.
#[test]
fn dropped_server_cancels_its_handlers() {
    let (sender, receiver) = mpsc::channel();
    let (near, far) = mcp_std::io::memory_pair(1 << 20);
    let mut server = Server::new(config(), near, move |cx: &mut Cx<'_>, _: &Call| {
        sender.send("begun").unwrap();
        let slept = cx.sleep(DEADLINE * 2);
        sender.send(if cx.is_cancelled() { "cancelled" } else { "late" }).unwrap();
        slept?;
        cx.complete(&CallToolResult::text("late"))
    });
    let mut client = RawClient(far, Vec::new());
    client.send_call(1, "sleeps");
    while receiver.try_recv().is_err() {
        assert!(server.poll(Duration::from_millis(1)).unwrap());
    }
    drop(server);
    assert_eq!(receiver.recv_timeout(DEADLINE), Ok("cancelled"));
}

// covers: PROG-005, TOOL-019
#[test]
fn progress_and_commands_take_effect() {
    let (client, handle, server) = pair(2, |cx: &mut Cx<'_>, _: &Call| {
        cx.progress(mcp_proto::Progress::new(1.0).with_total(2.0))?;
        cx.complete(&CallToolResult::text("done"))
    });
    let mut steps = Vec::new();
    let params = json!({"name": "any"});
    client
        .request_with("tools/call", &params, &CallOptions::default(), &mut |p| steps.push(p.progress))
        .unwrap();
    assert_eq!(steps, [1.0]);
    let (sender, receiver) = mpsc::channel();
    let publisher = handle.clone();
    thread::spawn(move || {
        publisher.publish(&Change::Tools).unwrap();
        publisher.with_engine(move |engine, _| sender.send(engine.config().effective_versions()).unwrap())
    })
    .join()
    .unwrap()
    .unwrap();
    assert_eq!(receiver.recv_timeout(DEADLINE).unwrap(), mcp_proto::VersionSet::ALL);
    client.close().unwrap();
    join_in_time(server).unwrap();
    assert!(handle.is_over());
}
