//! Suite: HTTP servers with several shards.
//!
//! `crate::shards` has the servers of the adapter under test.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part of it")]

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use mcp_proto::Change;
use mcp_runtime::Error;
use mcp_runtime::server::Handle;
use serde_json::{Value, json};

use crate::shards::{blocked_server, gated_server, pinned_servers, small_servers};

/// Deadline of each wait. Only a test that hangs reaches it.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A server on a thread.
pub struct ShardedServer {
    pub address: SocketAddr,
    pub handle: Handle,
    thread: JoinHandle<Result<(), Error>>,
}

impl ShardedServer {
    pub fn new(address: SocketAddr, handle: Handle, thread: JoinHandle<Result<(), Error>>) -> Self {
        Self { address, handle, thread }
    }

    pub fn connect(&self) -> RawHttpClient {
        RawHttpClient::connect(self.address)
    }

    /// Waits until `count` calls are running or waiting.
    pub fn wait_for_calls(&self, count: usize) {
        let (sender, receiver) = mpsc::channel();
        loop {
            let sender = sender.clone();
            self.handle.with_engine(move |engine, _| sender.send(engine.live_calls()).unwrap()).unwrap();
            if receiver.recv_timeout(DEADLINE) == Ok(count) {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for the end of a server that fails, and returns its error.
    pub fn join_err(self) -> Error {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(self.thread.join()));
        receiver.recv_timeout(DEADLINE).expect("the server ends in time").unwrap().unwrap_err()
    }

    /// Shuts the server down.
    ///
    /// # Panics
    ///
    /// Panics if the server fails or does not end within [`DEADLINE`].
    pub fn shut_down(self, grace: Duration) {
        self.handle.shutdown(grace);
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || sender.send(self.thread.join()));
        receiver.recv_timeout(DEADLINE).expect("the server ends in time").unwrap().unwrap();
        assert!(self.handle.is_over());
    }
}

/// Returns the value of a header field of `head`.
pub fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.split("\r\n").filter_map(|line| line.split_once(": "));
    fields.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
}

/// A client connection, and the bytes read ahead.
pub struct RawHttpClient(pub TcpStream, Vec<u8>);

impl RawHttpClient {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Self(stream, Vec::new())
    }

    pub fn send(&mut self, method: &str, fields: &str, body: &str) {
        let head = format!(
            "{method} /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{fields}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.write_all(head.as_bytes()).unwrap();
    }

    /// Reads up to and including `end`.
    pub fn read_until(&mut self, end: &str) -> String {
        loop {
            if let Some(at) = self.1.windows(end.len()).position(|bytes| bytes == end.as_bytes()) {
                let read: Vec<u8> = self.1.drain(..at + end.len()).collect();
                return String::from_utf8(read).unwrap();
            }
            let mut buffer = [0; 4096];
            let n = self.0.read(&mut buffer).unwrap();
            assert!(n > 0, "ends after {:?}", String::from_utf8_lossy(&self.1));
            self.1.extend_from_slice(&buffer[..n]);
        }
    }

    /// Reads until `text` has arrived, and keeps all bytes for later reads.
    pub fn peek_until(&mut self, text: &str) {
        let read = self.read_until(text);
        self.1.splice(..0, read.into_bytes());
    }

    /// Reads a response with a `Content-Length`. Returns its head and its body.
    pub fn read_response(&mut self) -> (String, String) {
        let head = self.read_until("\r\n\r\n");
        let length = field(&head, "content-length").map_or(0, |length| length.parse().unwrap());
        while self.1.len() < length {
            let mut buffer = [0; 4096];
            let n = self.0.read(&mut buffer).unwrap();
            assert!(n > 0, "ends in a body");
            self.1.extend_from_slice(&buffer[..n]);
        }
        let body = self.1.drain(..length).collect();
        (head, String::from_utf8(body).unwrap())
    }

    /// Opens a legacy session. Returns the header fields that name it.
    pub fn initialize(&mut self) -> String {
        let client = json!({"name": "by hand", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        self.send("POST", "", &request.to_string());
        let (head, _) = self.read_response();
        let id = field(&head, "mcp-session-id").expect("a session");
        format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-06-18\r\n")
    }

    /// Sends a call in a legacy session.
    pub fn send_session_call(&mut self, session: &str, id: usize) {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "n"}});
        self.send("POST", session, &call.to_string());
    }

    /// Makes a modern call and returns the text of its result.
    pub fn call(&mut self, tool: &str) -> String {
        self.send_call(tool);
        let (head, body) = self.read_response();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        body["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    pub fn send_call(&mut self, tool: &str) {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let params = json!({"name": tool, "_meta": meta});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let fields =
            format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n");
        self.send("POST", &fields, &request.to_string());
    }

    /// Opens a modern listen stream with the filter `filter`.
    pub fn listen(&mut self, filter: &Value) {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let params = json!({"notifications": filter, "_meta": meta});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
        let fields = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n";
        self.send("POST", fields, &request.to_string());
        self.read_until("notifications/subscriptions/acknowledged");
    }
}

// covers: HTTP-064, HTTP-067, HTTP-071
#[test]
fn session_is_found_from_connections_of_all_shards() {
    for server in small_servers(3, 64) {
        // There are more connections than shards, so each shard has sessions and connections for sessions of others.
        let mut clients: Vec<_> = (0..6).map(|_| server.connect()).collect();
        let sessions: Vec<_> = clients.iter_mut().map(RawHttpClient::initialize).collect();
        for session in &sessions {
            let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            clients[0].send("POST", session, &ready.to_string());
            assert!(clients[0].read_response().0.starts_with("HTTP/1.1 202 "));
        }
        let mut id = 1;
        for client in &mut clients {
            // Two requests in one write: they may belong to different shards.
            for pair in sessions.chunks(2) {
                for session in pair {
                    id += 1;
                    client.send_session_call(session, id);
                }
                for _ in pair {
                    let (head, body) = client.read_response();
                    assert!(head.starts_with("HTTP/1.1 200 ") && body.contains("result"), "{head}{body}");
                }
            }
        }
        // An unknown session is refused, whichever shard its id names.
        clients[1].send("POST", "Mcp-Session-Id: AAAAAQAAAAAAAAAAAAAAAAAAAAAA\r\n", "{}");
        assert!(clients[1].read_response().0.starts_with("HTTP/1.1 4"));
        // A session that is deleted on a connection of another shard has ended everywhere.
        clients[5].send("DELETE", &sessions[0], "");
        assert!(clients[5].read_response().0.starts_with("HTTP/1.1 204 "));
        for client in &mut clients {
            client.send_session_call(&sessions[0], 99);
            assert!(client.read_response().0.starts_with("HTTP/1.1 404 "));
        }
        server.shut_down(DEADLINE);
    }
}

/// Returns the CPU cores on which the calling thread may run, as Linux lists them. Empty on other systems.
pub fn allowed_cores() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap_or_default().trim().to_owned()
}

/// Connections are distributed evenly even if all of them arrive on one core.
#[test]
fn pinned_shards_share_connections_evenly() {
    let all = allowed_cores();
    for (server, on_shards) in pinned_servers() {
        let mut clients: Vec<_> = (0..60).map(|_| server.connect()).collect();
        let lists: BTreeSet<String> = clients.iter_mut().map(|client| client.call("cores")).collect();
        // The first shard and the workers are not pinned; the second shard is pinned to the second core.
        let several = all.contains([',', '-']) && cfg!(target_os = "linux");
        assert!(lists.contains(&all), "{lists:?}");
        assert_eq!(lists.len(), if several && on_shards { 2 } else { 1 }, "{lists:?}");
        assert!(lists.iter().all(|cores| *cores == all || !cores.contains([',', '-'])), "{lists:?}");
        server.shut_down(DEADLINE);
    }
}

// covers: TOOL-019, SUB-001
#[test]
fn change_is_published_by_each_shard() {
    for server in small_servers(3, 64) {
        let mut clients: Vec<_> = (0..3).map(|_| server.connect()).collect();
        clients.iter_mut().for_each(|client| client.listen(&json!({"toolsListChanged": true})));
        server.handle.publish(&Change::Tools).unwrap();
        for client in &mut clients {
            client.read_until("notifications/tools/list_changed");
        }
        server.shut_down(Duration::from_millis(500));
    }
}

// covers: SEC-018
#[test]
fn connection_limit_spans_shards_and_evicts_idle_connections() {
    for server in small_servers(2, 4) {
        let mut first: Vec<_> = (0..4).map(|_| server.connect()).collect();
        first.iter_mut().for_each(|client| _ = client.call("n"));
        // A new connection evicts one of these as soon as it has been idle for the minimum time.
        let mut later: Vec<_> = (0..4).map(|_| server.connect()).collect();
        later.iter_mut().for_each(|client| _ = client.call("n"));
        for client in &mut first {
            assert!(matches!(client.0.read(&mut [0; 1]), Ok(0) | Err(_)));
        }
        server.shut_down(DEADLINE);
    }
}

/// The freed slot is taken without waiting for the next periodic check.
#[test]
#[cfg_attr(windows, ignore = "Wine is too slow to tell")]
fn slot_freed_in_any_shard_is_taken_at_once() {
    for server in small_servers(2, 1) {
        // A busy machine delays most of them. With periodic checks alone, none would be in time.
        let mut times = Vec::new();
        for _ in 0..50 {
            let mut first = server.connect();
            first.call("n");
            let mut next = server.connect();
            // The server has found no free slot.
            thread::sleep(Duration::from_millis(10));
            let begun = Instant::now();
            drop(first);
            next.call("n");
            times.push(begun.elapsed());
        }
        times.sort();
        assert!(times[5] < Duration::from_millis(40), "{times:?}");
        server.shut_down(DEADLINE);
    }
}

/// A blocked shard delivers all changes afterwards, whatever their number.
#[test]
fn blocked_shard_publishes_all_missed_changes() {
    // A few bytes of names, which are all kept, and many.
    for name in ["r", &"resource".repeat(40)] {
        let (open, gate) = mpsc::channel();
        let (begun, begins) = mpsc::channel();
        let server = blocked_server(begun, gate);
        // Connections are distributed in turn: the second shard serves the second and the fourth.
        let [mut first, mut second, _third, mut fourth] = [(); 4].map(|()| server.connect());
        assert_eq!(first.call("echo"), "echo");
        let last = format!("file:///{name}/last");
        fourth.listen(&json!({"toolsListChanged": true, "resourceSubscriptions": [last]}));
        second.send_call("waits");
        begins.recv_timeout(DEADLINE).unwrap();
        for round in 0..200 {
            for n in 0..10 {
                let uri = format!("file:///{name}/{round}/{n}");
                server.handle.publish(&Change::Resource(uri)).unwrap();
            }
            // The first shard has forwarded the changes.
            assert_eq!(first.call("echo"), "echo");
        }
        server.handle.publish(&Change::Resource(last.clone())).unwrap();
        server.handle.publish(&Change::Tools).unwrap();
        assert_eq!(first.call("echo"), "echo");
        drop(open);
        for notification in ["notifications/tools/list_changed", &last] {
            fourth.peek_until(notification);
        }
        server.shut_down(Duration::from_millis(500));
    }
}

// covers: SEC-018
#[test]
fn calls_beyond_queue_are_refused_until_a_client_disconnects() {
    let (begun, begins) = mpsc::channel();
    let open = Arc::new(AtomicBool::new(false));
    let server = gated_server(begun, open.clone());
    // Two calls run and four wait.
    let mut clients: Vec<_> = (0..6).map(|_| server.connect()).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.send_call("waits");
        if n < 2 {
            begins.recv_timeout(DEADLINE).unwrap();
        }
    }
    server.wait_for_calls(6);
    let mut late = server.connect();
    for _ in 0..2 {
        late.send_call("late");
        let (head, _) = late.read_response();
        assert!(head.starts_with("HTTP/1.1 503 ") && field(&head, "retry-after").is_some(), "{head}");
    }
    // A waiting call whose connection closes frees its slot.
    drop(clients.pop());
    server.wait_for_calls(5);
    late.send_call("late");
    server.wait_for_calls(6);
    open.store(true, Ordering::SeqCst);
    for client in &mut clients {
        assert!(client.read_response().1.contains("waits"));
    }
    assert!(late.read_response().1.contains("late"));
    server.shut_down(DEADLINE);
}
