//! Servers over HTTP in several shards, of any adapter that has them, and clients by hand: `crate::adapter` says which

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
use mcp_std::Error;
use mcp_std::serve::Handle;
use serde_json::{Value, json};

use crate::adapter::{behind, gated, pinned, servers};

/// Generous, as test machines are slow and shared; nothing waits this long unless it hangs
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A server in a thread
pub struct Serving {
    pub address: SocketAddr,
    pub handle: Handle,
    thread: JoinHandle<Result<(), Error>>,
}

impl Serving {
    pub fn new(address: SocketAddr, handle: Handle, thread: JoinHandle<Result<(), Error>>) -> Self {
        Self { address, handle, thread }
    }

    pub fn connect(&self) -> Peer {
        Peer::connect(self.address)
    }

    /// Waits until so many calls are in work or wait
    pub fn has_calls(&self, count: usize) {
        let (tell, told) = mpsc::channel();
        loop {
            let tell = tell.clone();
            self.handle.with_engine(move |engine, _| tell.send(engine.live_calls()).unwrap()).unwrap();
            if told.recv_timeout(DEADLINE) == Ok(count) {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Why it ended, untold
    pub fn fails(self) -> Error {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || tell.send(self.thread.join()));
        told.recv_timeout(DEADLINE).expect("hangs").unwrap().unwrap_err()
    }

    /// Fails when it does not end in time
    pub fn ends(self, grace: Duration) {
        self.handle.shutdown(grace);
        let (tell, told) = mpsc::channel();
        thread::spawn(move || tell.send(self.thread.join()));
        told.recv_timeout(DEADLINE).expect("hangs").unwrap().unwrap();
        assert!(self.handle.is_over());
    }
}

/// The value of a field of a head
pub fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.split("\r\n").filter_map(|line| line.split_once(": "));
    fields.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
}

/// A connection of a client by hand, and what was read of it
pub struct Peer(pub TcpStream, Vec<u8>);

impl Peer {
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Self(stream, Vec::new())
    }

    pub fn send(&mut self, method: &str, more: &str, body: &str) {
        let head = format!(
            "{method} /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{more}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.write_all(head.as_bytes()).unwrap();
    }

    /// Reads until `end` has come, and gives everything up to there
    pub fn until(&mut self, end: &str) -> String {
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

    /// Reads until `what` has come, which may be read again
    pub fn comes(&mut self, what: &str) {
        let read = self.until(what);
        self.1.splice(..0, read.into_bytes());
    }

    /// The head of an answer, and its body, which has its length said
    pub fn answer(&mut self) -> (String, String) {
        let head = self.until("\r\n\r\n");
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

    /// Begins a session of the legacy era; the fields that name it
    pub fn session(&mut self) -> String {
        let client = json!({"name": "by hand", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        self.send("POST", "", &request.to_string());
        let (head, _) = self.answer();
        let id = field(&head, "mcp-session-id").expect("a session");
        format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-06-18\r\n")
    }

    /// Begins a call of a session
    pub fn call_in(&mut self, session: &str, id: usize) {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "n"}});
        self.send("POST", session, &call.to_string());
    }

    /// A call of the modern era; the text that is answered
    pub fn call(&mut self, tool: &str) -> String {
        self.begin(tool);
        let (head, body) = self.answer();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        body["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    pub fn begin(&mut self, tool: &str) {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let params = json!({"name": tool, "_meta": meta});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let more =
            format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n");
        self.send("POST", &more, &request.to_string());
    }

    /// Follows changes, in the modern era
    pub fn listen(&mut self, to: &Value) {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let params = json!({"notifications": to, "_meta": meta});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
        let more = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n";
        self.send("POST", more, &request.to_string());
        self.until("notifications/subscriptions/acknowledged");
    }
}

// covers: HTTP-064, HTTP-067, HTTP-071
#[test]
fn a_session_is_found_whatever_connection_it_is_used_on() {
    for server in servers(3, 64) {
        // More connections than shards: each shard has sessions, and connections of those of others.
        let mut peers: Vec<_> = (0..6).map(|_| server.connect()).collect();
        let sessions: Vec<_> = peers.iter_mut().map(Peer::session).collect();
        for session in &sessions {
            let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            peers[0].send("POST", session, &ready.to_string());
            assert!(peers[0].answer().0.starts_with("HTTP/1.1 202 "));
        }
        let mut id = 1;
        for peer in &mut peers {
            // Two requests in one write: the second one may be for another shard than the first.
            for pair in sessions.chunks(2) {
                for session in pair {
                    id += 1;
                    peer.call_in(session, id);
                }
                for _ in pair {
                    let (head, body) = peer.answer();
                    assert!(head.starts_with("HTTP/1.1 200 ") && body.contains("result"), "{head}{body}");
                }
            }
        }
        // A session that nobody has, of whatever shard, is nobody's.
        peers[1].send("POST", "Mcp-Session-Id: AAAAAQAAAAAAAAAAAAAAAAAAAAAA\r\n", "{}");
        assert!(peers[1].answer().0.starts_with("HTTP/1.1 4"));
        // One that is ended on the connection of another shard is over for all.
        peers[5].send("DELETE", &sessions[0], "");
        assert!(peers[5].answer().0.starts_with("HTTP/1.1 204 "));
        for peer in &mut peers {
            peer.call_in(&sessions[0], 99);
            assert!(peer.answer().0.starts_with("HTTP/1.1 404 "));
        }
        server.ends(DEADLINE);
    }
}

/// The cores that the calling thread may be on, as Linux names them; empty elsewhere
pub fn cores() -> String {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.unwrap_or_default().trim().to_owned()
}

/// Newcomers whose packets all come in on one core are shared out all the same
#[test]
fn shards_stay_on_cores_and_stay_even() {
    let all = cores();
    for (server, on_shards) in pinned() {
        let mut peers: Vec<_> = (0..60).map(|_| server.connect()).collect();
        let said: BTreeSet<String> = peers.iter_mut().map(|peer| peer.call("cores")).collect();
        // The first shard stays nowhere, nor do workers; the second has the second core.
        let several = all.contains([',', '-']);
        assert!(said.contains(&all), "{said:?}");
        assert_eq!(said.len(), if several && on_shards { 2 } else { 1 }, "{said:?}");
        assert!(said.iter().all(|cores| *cores == all || !cores.contains([',', '-'])), "{said:?}");
        server.ends(DEADLINE);
    }
}

// covers: TOOL-019, SUB-001
#[test]
fn what_changes_is_told_by_every_shard() {
    for server in servers(3, 64) {
        let mut peers: Vec<_> = (0..3).map(|_| server.connect()).collect();
        peers.iter_mut().for_each(|peer| peer.listen(&json!({"toolsListChanged": true})));
        server.handle.publish(&Change::Tools).unwrap();
        for peer in &mut peers {
            peer.until("notifications/tools/list_changed");
        }
        server.ends(Duration::from_millis(500));
    }
}

// covers: SEC-018
#[test]
fn all_shards_together_have_so_many_connections_and_the_idle_give_way() {
    for server in servers(2, 4) {
        let mut first: Vec<_> = (0..4).map(|_| server.connect()).collect();
        first.iter_mut().for_each(|peer| _ = peer.call("n"));
        // Whoever comes now gets the place of one of those, which are idle, once they were for a moment.
        let mut later: Vec<_> = (0..4).map(|_| server.connect()).collect();
        later.iter_mut().for_each(|peer| _ = peer.call("n"));
        for peer in &mut first {
            assert!(matches!(peer.0.read(&mut [0; 1]), Ok(0) | Err(_)));
        }
        server.ends(DEADLINE);
    }
}

/// Not when it is looked again, as often as that may be
#[test]
fn a_place_that_becomes_free_in_any_shard_is_taken_at_once() {
    for server in servers(2, 1) {
        let mut waited = Duration::ZERO;
        for _ in 0..50 {
            let mut first = server.connect();
            first.call("n");
            let mut next = server.connect();
            // It is seen that there is no place.
            thread::sleep(Duration::from_millis(10));
            let begun = Instant::now();
            drop(first);
            next.call("n");
            waited += begun.elapsed();
        }
        assert!(waited < Duration::from_secs(2), "{waited:?}");
        server.ends(DEADLINE);
    }
}

/// What has changed is told by a shard that was at something else meanwhile, however much it was
#[test]
fn a_shard_that_is_behind_tells_of_all_that_changed_since() {
    // Few bytes of names, which are all kept, and many.
    for name in ["r", &"resource".repeat(40)] {
        let (open, gate) = mpsc::channel();
        let (begun, begins) = mpsc::channel();
        let server = behind(begun, gate);
        // Shared out in turn: the second and the fourth one are served by the shard that is not the first.
        let [mut first, mut second, _third, mut fourth] = [(); 4].map(|()| server.connect());
        assert_eq!(first.call("echo"), "echo");
        let last = format!("file:///{name}/last");
        fourth.listen(&json!({"toolsListChanged": true, "resourceSubscriptions": [last]}));
        second.begin("waits");
        begins.recv_timeout(DEADLINE).unwrap();
        for round in 0..200 {
            for n in 0..10 {
                let uri = format!("file:///{name}/{round}/{n}");
                server.handle.publish(&Change::Resource(uri)).unwrap();
            }
            // The first shard has sent it on.
            assert_eq!(first.call("echo"), "echo");
        }
        server.handle.publish(&Change::Resource(last.clone())).unwrap();
        server.handle.publish(&Change::Tools).unwrap();
        assert_eq!(first.call("echo"), "echo");
        drop(open);
        for told in ["notifications/tools/list_changed", &last] {
            fourth.comes(told);
        }
        server.ends(Duration::from_millis(500));
    }
}

// covers: SEC-018
#[test]
fn more_than_may_wait_are_refused_and_who_leaves_makes_room() {
    let (begun, begins) = mpsc::channel();
    let open = Arc::new(AtomicBool::new(false));
    let server = gated(begun, open.clone());
    // Two in work, and four that wait.
    let mut peers: Vec<_> = (0..6).map(|_| server.connect()).collect();
    for (n, peer) in peers.iter_mut().enumerate() {
        peer.begin("waits");
        if n < 2 {
            begins.recv_timeout(DEADLINE).unwrap();
        }
    }
    server.has_calls(6);
    let mut late = server.connect();
    for _ in 0..2 {
        late.begin("late");
        let (head, _) = late.answer();
        assert!(head.starts_with("HTTP/1.1 503 ") && field(&head, "retry-after").is_some(), "{head}");
    }
    // Everything else goes on: one that waits and goes away is noticed, and leaves its place.
    drop(peers.pop());
    server.has_calls(5);
    late.begin("late");
    server.has_calls(6);
    open.store(true, Ordering::SeqCst);
    for peer in &mut peers {
        assert!(peer.answer().1.contains("waits"));
    }
    assert!(late.answer().1.contains("late"));
    server.ends(DEADLINE);
}
