//! Servers whose handlers run on workers: what goes on side by side, and what nothing stops

extern crate alloc;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::io::ErrorKind;
use std::sync::{Barrier, Condvar, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use mcp_blocking::Client;
use mcp_proto::model::CallToolResult;
use mcp_proto::{CallOptions, Capabilities, Capability, Change, Limits, RawJson, RpcError, client, server};
use mcp_std::{Duplex, Interest, MemoryEnd};
use mcp_threads::{Answered, Call, Cx, Error, Failure, Handle, Handler, Server};
use serde_json::json;

/// Generous, as test machines are slow and shared; nothing waits this long unless it hangs
const DEADLINE: Duration = Duration::from_secs(120);

fn config() -> server::Config {
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
    let mut limits = Limits::default();
    limits.eof_grace = Duration::from_millis(200);
    server::Config::new("test", "1").capabilities(capabilities).limits(limits)
}

/// A server with so many workers, and a client of it
fn pair(workers: usize, handler: impl Handler) -> (Client, Handle, JoinHandle<Result<(), Error>>) {
    let (near, far) = mcp_std::memory_pair(4096);
    let mut server = Server::new(config(), near, handler).workers(workers);
    let handle = server.handle().unwrap();
    let server = thread::spawn(move || server.run());
    (Client::connect(client::Config::new("me", "1"), far).unwrap(), handle, server)
}

/// Fails when the thread does not end in time
fn joined<T: Send + 'static>(thread: JoinHandle<T>) -> T {
    let (tell, told) = mpsc::channel();
    let waits = thread::spawn(move || drop(tell.send(thread.join())));
    let ended = told.recv_timeout(DEADLINE).expect("hangs");
    waits.join().unwrap();
    ended.unwrap()
}

fn text(result: &RawJson) -> String {
    result.parse::<CallToolResult<'_>>().unwrap().content[0].as_text().unwrap().to_owned()
}

/// A gate that opens once
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        drop(self.0.1.wait_while(self.0.0.lock().unwrap(), |open| !*open).unwrap());
    }
}

// covers: BASE-033, STDIO-010
#[test]
fn handlers_run_side_by_side_and_answers_come_as_they_are_ready() {
    let (meet, gate) = (Barrier::new(3), Gate::default());
    let opens = gate.clone();
    let (mut client, _, server) = pair(4, move |cx: &mut Cx<'_>, call: &Call| {
        let tool = call.tool()?;
        match &*tool.name {
            "meet" => _ = meet.wait(),
            "waits" => gate.pass(),
            _ => {}
        }
        cx.complete(&CallToolResult::text(&*tool.name))
    });
    let options = CallOptions::default();
    let slow = client.start_tool("waits", &json!({}), &options).unwrap();
    let meet: Vec<_> = (0..3).map(|_| client.start_tool("meet", &json!({}), &options).unwrap()).collect();
    for call in meet {
        assert_eq!(text(&client.wait(call).unwrap()), "meet");
    }
    opens.open();
    assert_eq!(text(&client.wait(slow).unwrap()), "waits");
    client.close().unwrap();
    joined(server).unwrap();
}

#[test]
fn a_handler_that_never_returns_costs_its_worker_and_nothing_else() {
    let gate = Gate::default();
    let opens = gate.clone();
    let (mut client, handle, server) = pair(2, move |cx: &mut Cx<'_>, call: &Call| {
        let name = call.tool()?.name;
        if name == "never" {
            gate.pass();
        }
        cx.complete(&CallToolResult::text(name))
    });
    let never = client.start_tool("never", &json!({}), &CallOptions::default()).unwrap();
    for _ in 0..200 {
        assert_eq!(client.call_tool("fast", &json!({})).unwrap().content[0].as_text(), Some("fast"));
    }
    // Told to stop, it waits as long as it was told, and not for ever.
    handle.shutdown(Duration::from_millis(50));
    assert!(client.wait(never).is_err());
    joined(server).unwrap();
    assert!(handle.is_over() && handle.publish(&Change::Tools).is_err());
    // What the handler says now is heard by nobody.
    opens.open();
}

#[test]
fn the_end_of_input_does_not_wait_for_a_handler_that_never_returns() {
    let gate = Gate::default();
    let opens = gate.clone();
    let (mut client, _, server) = pair(2, move |cx: &mut Cx<'_>, _: &Call| {
        gate.pass();
        cx.complete(&CallToolResult::text("late"))
    });
    client.start_tool("never", &json!({}), &CallOptions::default()).unwrap();
    client.poll(Duration::ZERO).unwrap();
    drop(client);
    joined(server).unwrap();
    opens.open();
}

#[test]
fn without_workers_handlers_run_on_the_thread_of_the_loop() {
    for (workers, same) in [(0, true), (1, false)] {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = seen.clone();
        let (mut client, _, server) = pair(workers, move |cx: &mut Cx<'_>, _: &Call| {
            notes.lock().unwrap().push(thread::current().id());
            cx.complete(&CallToolResult::text("here"))
        });
        client.call_tool("any", &json!({})).unwrap();
        client.call_tool("any", &json!({})).unwrap();
        client.close().unwrap();
        let of_loop = server.thread().id();
        joined(server).unwrap();
        assert!(seen.lock().unwrap().iter().all(|id| (*id == of_loop) == same));
    }
}

/// Says what it is told
struct Failing(mpsc::Sender<String>);

impl Handler for Failing {
    fn call(&self, cx: &mut Cx<'_>, call: &Call) -> Result<Answered, RpcError> {
        assert!(call.tool()?.name != "panics", "on purpose");
        cx.complete(&CallToolResult::text("done"))
    }

    fn failed(&self, _: &Call, failure: &Failure) {
        self.0.send(failure.to_string()).unwrap();
    }
}

// covers: ERR-019
#[test]
fn a_panic_is_an_internal_error_and_the_worker_goes_on() {
    for workers in [0, 1] {
        let (tell, told) = mpsc::channel();
        let (mut client, _, server) = pair(workers, Failing(tell));
        for _ in 0..3 {
            let error = client.call_tool("panics", &json!({})).unwrap_err().to_string();
            assert!(error.contains("-32603"), "{error}");
            assert!(told.recv_timeout(DEADLINE).unwrap().contains("on purpose"));
        }
        assert_eq!(client.call_tool("fine", &json!({})).unwrap().content[0].as_text(), Some("done"));
        client.close().unwrap();
        joined(server).unwrap();
    }
}

/// What a client writes and reads by hand
struct Hand(MemoryEnd, Vec<u8>);

impl Hand {
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

    /// The next line; none at the end
    fn line(&mut self) -> Option<serde_json::Value> {
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
                    assert!(self.0.wait(Interest::READ, Some(DEADLINE)).unwrap().readable, "hangs");
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn call(&mut self, id: usize, tool: &str) {
        self.write(&call(id, tool));
    }
}

fn call(id: usize, tool: &str) -> String {
    let meta = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let params = format!(r#"{{"name":"{tool}","_meta":{meta}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#) + "\n"
}

fn cancel(id: usize) -> String {
    let params = format!(r#"{{"requestId":{id}}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#) + "\n"
}

/// A server with so many workers, for a client by hand on a stream that holds `capacity` bytes each way
fn by_hand(workers: usize, capacity: usize, handler: impl Handler) -> (Hand, JoinHandle<Result<(), Error>>) {
    let (near, far) = mcp_std::memory_pair(capacity);
    let server = thread::spawn(move || Server::new(config(), near, handler).workers(workers).run());
    (Hand(far, Vec::new()), server)
}

// covers: CANC-010, CANC-014, CANC-020, STDIO-019
#[test]
fn a_thousand_cancellations_at_once_end_a_thousand_calls() {
    let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (b, e) = (begun.clone(), ended.clone());
    let (mut hand, server) = by_hand(8, 1 << 20, move |cx: &mut Cx<'_>, call: &Call| {
        if call.tool()?.name == "sleeps" {
            b.fetch_add(1, Ordering::SeqCst);
            let slept = cx.sleep(DEADLINE * 2);
            e.fetch_add(1, Ordering::SeqCst);
            slept?;
        }
        cx.complete(&CallToolResult::text("done"))
    });
    for id in 0..1000 {
        hand.call(id, "sleeps");
        // In the backlog of eight that sleep and those that wait, or with a worker.
        if id % 100 == 99 {
            (id - 99..=id).for_each(|id| hand.write(&cancel(id)));
        }
    }
    hand.call(1000, "echo");
    assert_eq!(hand.line().unwrap()["id"], 1000);
    hand.0.shutdown_write().unwrap();
    assert!(hand.line().is_none());
    joined(server).unwrap();
    // Workers whose calls are cancelled may outlive the server by a moment.
    let until = Instant::now() + DEADLINE;
    let counts = || (begun.load(Ordering::SeqCst), ended.load(Ordering::SeqCst));
    while counts().0 != counts().1 {
        assert!(Instant::now() < until, "(begun, ended): {:?}", counts());
        thread::yield_now();
    }
}

#[test]
fn full_pipes_and_more_calls_than_may_wait_stop_reading_and_nothing_is_lost() {
    let (mut hand, server) =
        by_hand(3, 300, |cx: &mut Cx<'_>, call: &Call| cx.complete(&CallToolResult::text(call.tool()?.name)));
    // One thread writes and reads in turn, as far as each goes: a server that reads only, or writes only, would hang.
    let calls = 2000;
    let out: String = (0..calls).map(|id| call(id, &format!("t{id}"))).collect();
    let out = out.as_bytes();
    let mut seen = vec![false; calls];
    let (mut sent, mut buffer, mut input) = (0, [0; 4096], Vec::new());
    while !seen.iter().all(|seen| *seen) {
        if let Ok(n) = hand.0.write(&out[sent..]) {
            sent += n;
        }
        if let Ok(n) = hand.0.read(&mut buffer) {
            input.extend_from_slice(&buffer[..n]);
        }
        while let Some(end) = input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = input.drain(..=end).collect();
            let answer: serde_json::Value = serde_json::from_slice(&line).unwrap();
            let id = usize::try_from(answer["id"].as_u64().unwrap()).unwrap();
            assert_eq!(answer["result"]["content"][0]["text"], format!("t{id}"), "{answer}");
            assert!(!core::mem::replace(&mut seen[id], true));
        }
        let wanted = Interest { read: true, write: sent < out.len() };
        if sent < out.len() || !seen.iter().all(|seen| *seen) {
            let ready = hand.0.wait(wanted, Some(DEADLINE)).unwrap();
            assert!(ready.readable || ready.writable, "hangs");
        }
    }
    drop(hand);
    joined(server).unwrap();
}

#[test]
fn a_client_that_is_gone_ends_the_server_and_is_no_error() {
    let (mut hand, server) = by_hand(2, 4096, |cx: &mut Cx<'_>, _: &Call| {
        cx.sleep(DEADLINE * 2)?;
        cx.complete(&CallToolResult::text("nobody hears it"))
    });
    hand.call(1, "any");
    drop(hand);
    joined(server).unwrap();
}

#[test]
fn a_handler_that_sleeps_on_the_thread_of_the_loop_is_told_to_stop() {
    let (begun, begins) = mpsc::channel();
    let (mut client, handle, server) = pair(0, move |cx: &mut Cx<'_>, _: &Call| {
        begun.send(()).unwrap();
        cx.sleep(DEADLINE * 2)?;
        cx.complete(&CallToolResult::text("late"))
    });
    let call = client.start_tool("sleeps", &json!({}), &CallOptions::default()).unwrap();
    client.poll(Duration::ZERO).unwrap();
    begins.recv_timeout(DEADLINE).unwrap();
    handle.shutdown(Duration::from_millis(50));
    assert!(client.wait(call).is_err());
    joined(server).unwrap();
}

/// A command that gives the next one
fn again(handle: &Handle) {
    let next = handle.clone();
    let _ = handle.with_engine(move |_, _| again(&next));
}

#[test]
fn commands_that_panic_or_never_end_stop_nothing_else() {
    for workers in [0, 2] {
        let (mut client, handle, server) =
            pair(workers, |cx: &mut Cx<'_>, _: &Call| cx.complete(&CallToolResult::text("done")));
        handle.with_engine(|_, _| panic!("on purpose")).unwrap();
        again(&handle);
        for _ in 0..10 {
            assert_eq!(client.call_tool("any", &json!({})).unwrap().content[0].as_text(), Some("done"));
        }
        handle.shutdown(DEADLINE);
        drop(client);
        joined(server).unwrap();
    }
}

/// Who lets go of a server lets go of what its handlers wait for
#[test]
fn handlers_of_a_server_that_is_dropped_are_told() {
    let (tell, told) = mpsc::channel();
    let (near, far) = mcp_std::memory_pair(1 << 20);
    let mut server = Server::new(config(), near, move |cx: &mut Cx<'_>, _: &Call| {
        tell.send("begun").unwrap();
        let slept = cx.sleep(DEADLINE * 2);
        tell.send(if cx.is_cancelled() { "cancelled" } else { "late" }).unwrap();
        slept?;
        cx.complete(&CallToolResult::text("late"))
    });
    let mut hand = Hand(far, Vec::new());
    hand.call(1, "sleeps");
    while told.try_recv().is_err() {
        assert!(server.poll(Duration::from_millis(1)).unwrap());
    }
    drop(server);
    assert_eq!(told.recv_timeout(DEADLINE), Ok("cancelled"));
}

// covers: PROG-005, TOOL-019
#[test]
fn what_handlers_and_handles_say_reaches_the_client() {
    let (mut client, handle, server) = pair(2, |cx: &mut Cx<'_>, _: &Call| {
        cx.progress(mcp_proto::Progress::new(1.0).of(2.0))?;
        cx.complete(&CallToolResult::text("done"))
    });
    let mut steps = Vec::new();
    let params = json!({"name": "any"});
    client
        .request_with("tools/call", &params, &CallOptions::default(), &mut |p| steps.push(p.progress))
        .unwrap();
    assert_eq!(steps, [1.0]);
    let (tell, told) = mpsc::channel();
    let publisher = handle.clone();
    thread::spawn(move || {
        publisher.publish(&Change::Tools).unwrap();
        publisher.with_engine(move |engine, _| tell.send(engine.config().get_versions()).unwrap())
    })
    .join()
    .unwrap()
    .unwrap();
    assert_eq!(told.recv_timeout(DEADLINE).unwrap(), mcp_proto::VersionSet::ALL);
    client.close().unwrap();
    joined(server).unwrap();
    assert!(handle.is_over());
}
