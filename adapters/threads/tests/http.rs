//! Servers over HTTP with handlers on workers, on one thread and on several
#![cfg(unix)]

use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Barrier, mpsc};
use std::thread::{self, JoinHandle};

use mcp_proto::http::server::Config as Http;
use mcp_proto::model::CallToolResult;
use mcp_proto::server::Config;
use mcp_proto::{Capabilities, Capability, Change, Limits};
use mcp_threads::{Call, Cx, Error, Handle, Handler, HttpServer};
use serde_json::{Value, json};

/// Generous, as test machines are slow and shared; nothing waits this long unless it hangs
const DEADLINE: Duration = Duration::from_secs(60);

fn config() -> Config {
    let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
    let mut limits = Limits::default();
    limits.max_waiting = 4;
    Config::new("test", "1").capabilities(capabilities).limits(limits)
}

struct Serving {
    address: SocketAddr,
    handle: Handle,
    thread: JoinHandle<Result<(), Error>>,
}

fn serve<H: Handler>(handler: H, more: impl FnOnce(HttpServer<H>) -> HttpServer<H>) -> Serving {
    let mut server = more(HttpServer::bind("127.0.0.1:0", config(), Http::new(), handler).unwrap());
    let (address, handle) = (server.address().unwrap(), server.handle().unwrap());
    Serving { address, handle, thread: thread::spawn(move || server.run()) }
}

impl Serving {
    fn connect(&self) -> Peer {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Peer(stream, Vec::new())
    }

    /// Waits until so many calls are in work or wait
    fn has_calls(&self, count: usize) {
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

    /// Fails when it does not end in time
    fn ends(self, grace: Duration) {
        self.handle.shutdown(grace);
        let (tell, told) = mpsc::channel();
        thread::spawn(move || tell.send(self.thread.join()));
        told.recv_timeout(DEADLINE).expect("hangs").unwrap().unwrap();
        assert!(self.handle.is_over());
    }
}

/// The value of a field of a head
fn field<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.split("\r\n").filter_map(|line| line.split_once(": "));
    fields.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
}

/// A connection of a client by hand, and what was read of it
struct Peer(TcpStream, Vec<u8>);

impl Peer {
    fn send(&mut self, method: &str, more: &str, body: &str) {
        let head = format!(
            "{method} /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n{more}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.0.write_all(head.as_bytes()).unwrap();
    }

    /// Reads until `end` has come, and gives everything up to there
    fn until(&mut self, end: &str) -> String {
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

    /// The head of an answer, and its body, which has its length said
    fn answer(&mut self) -> (String, String) {
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
    fn session(&mut self) -> String {
        let client = json!({"name": "by hand", "version": "1"});
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
        let request = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        self.send("POST", "", &request.to_string());
        let (head, _) = self.answer();
        let id = field(&head, "mcp-session-id").expect("a session");
        format!("Mcp-Session-Id: {id}\r\nMCP-Protocol-Version: 2025-06-18\r\n")
    }

    /// Begins a call of a session
    fn call_in(&mut self, session: &str, id: usize) {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "n"}});
        self.send("POST", session, &call.to_string());
    }

    /// A call of the modern era; the text that is answered
    fn call(&mut self, tool: &str) -> String {
        self.begin(tool);
        let (head, body) = self.answer();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}{body}");
        let body: Value = serde_json::from_str(&body).unwrap();
        body["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    fn begin(&mut self, tool: &str) {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let params = json!({"name": tool, "_meta": meta});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let more =
            format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: {tool}\r\n");
        self.send("POST", &more, &request.to_string());
    }
}

#[test]
fn a_handler_that_never_returns_holds_up_neither_calls_nor_connections_nor_the_end() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let (begun, begins) = mpsc::channel();
    let server = serve(
        move |cx: &mut Cx<'_>, call: &Call| {
            let name = call.tool()?.name;
            if name == "never" {
                begun.send(()).unwrap();
                let _ = gate.lock().unwrap().recv();
            }
            cx.complete(&CallToolResult::text(name))
        },
        |server| server.workers(2),
    );
    let mut stuck = server.connect();
    stuck.begin("never");
    begins.recv_timeout(DEADLINE).unwrap();
    let mut other = server.connect();
    for _ in 0..50 {
        assert_eq!(other.call("echo"), "echo");
    }
    assert_eq!(server.connect().call("echo"), "echo");
    server.ends(Duration::from_millis(50));
    assert!(stuck.answer().1.contains("shutting down"));
    drop(open);
}

// covers: SEC-018
#[test]
fn more_than_may_wait_are_refused_and_who_leaves_makes_room() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let (begun, begins) = mpsc::channel();
    let server = serve(
        move |cx: &mut Cx<'_>, call: &Call| {
            begun.send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
            cx.complete(&CallToolResult::text(call.tool()?.name))
        },
        |server| server.workers(2),
    );
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
    drop(open);
    for peer in &mut peers {
        assert!(peer.answer().1.contains("waits"));
    }
    assert!(late.answer().1.contains("late"));
    server.ends(DEADLINE);
}

#[test]
fn calls_of_many_connections_run_side_by_side() {
    for shards in [1, 2] {
        let meet = Barrier::new(4);
        let server = serve(
            move |cx: &mut Cx<'_>, _: &Call| {
                meet.wait();
                cx.complete(&CallToolResult::text("met"))
            },
            |server| server.workers(4).shards(shards),
        );
        let mut peers: Vec<_> = (0..4).map(|_| server.connect()).collect();
        peers.iter_mut().for_each(|peer| peer.begin("meet"));
        for peer in &mut peers {
            assert!(peer.answer().1.contains("met"));
        }
        server.ends(DEADLINE);
    }
}

/// Answers with how many answered before
fn counting() -> impl Handler {
    let count = AtomicUsize::new(0);
    move |cx: &mut Cx<'_>, _: &Call| {
        cx.complete(&CallToolResult::text(count.fetch_add(1, Ordering::Relaxed).to_string()))
    }
}

// covers: HTTP-064, HTTP-067, HTTP-071
#[test]
fn a_session_is_found_whatever_connection_it_is_used_on() {
    for workers in [0, 2] {
        let server = serve(counting(), |server| server.workers(workers).shards(3));
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

// covers: TOOL-019, SUB-001
#[test]
fn what_changes_is_told_by_every_shard() {
    let server = serve(counting(), |server| server.shards(3));
    let mut peers: Vec<_> = (0..3).map(|_| server.connect()).collect();
    for peer in &mut peers {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let params = json!({"notifications": {"toolsListChanged": true}, "_meta": meta});
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
        let more = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n";
        peer.send("POST", more, &request.to_string());
        peer.until("notifications/subscriptions/acknowledged");
    }
    server.handle.publish(&Change::Tools).unwrap();
    for peer in &mut peers {
        peer.until("notifications/tools/list_changed");
    }
    server.ends(Duration::from_millis(500));
}

#[test]
fn told_to_stop_every_shard_answers_what_it_has() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let (begun, begins) = mpsc::channel();
    let server = serve(
        move |cx: &mut Cx<'_>, _: &Call| {
            begun.send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
            cx.complete(&CallToolResult::text("answered"))
        },
        |server| server.workers(4).shards(2),
    );
    let mut peers: Vec<_> = (0..4).map(|_| server.connect()).collect();
    peers.iter_mut().for_each(|peer| peer.begin("slow"));
    (0..4).for_each(|_| begins.recv_timeout(DEADLINE).unwrap());
    server.handle.shutdown(DEADLINE);
    drop(open);
    for peer in &mut peers {
        assert!(peer.answer().1.contains("answered"));
    }
    server.ends(DEADLINE);
}

// covers: SEC-018
#[test]
fn all_shards_together_have_so_many_connections_and_the_idle_give_way() {
    let server = serve(counting(), |server| server.shards(2).max_connections(4));
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

/// A command that gives the next one
fn again(handle: &Handle) {
    let next = handle.clone();
    let _ = handle.with_engine(move |_, _| again(&next));
}

#[test]
fn commands_that_panic_or_never_end_stop_nothing_else() {
    for workers in [0, 2] {
        let server = serve(counting(), |server| server.workers(workers));
        server.handle.with_engine(|_, _| panic!("on purpose")).unwrap();
        again(&server.handle);
        let mut peer = server.connect();
        (0..10).for_each(|n| assert_eq!(peer.call("n"), n.to_string()));
        server.ends(DEADLINE);
    }
}

#[test]
fn handlers_that_sleep_on_the_threads_of_shards_are_told_to_stop() {
    let (begun, begins) = mpsc::channel();
    let server = serve(
        move |cx: &mut Cx<'_>, _: &Call| {
            begun.send(()).unwrap();
            cx.sleep(DEADLINE * 2)?;
            cx.complete(&CallToolResult::text("late"))
        },
        |server| server.workers(0).shards(2),
    );
    let mut peers: Vec<_> = (0..2).map(|_| server.connect()).collect();
    peers.iter_mut().for_each(|peer| peer.begin("sleeps"));
    (0..2).for_each(|_| begins.recv_timeout(DEADLINE).unwrap());
    server.ends(Duration::from_millis(50));
    peers.iter_mut().for_each(|peer| assert!(peer.answer().1.contains("shutting down")));
}

/// However much waits for a shard that is at something, it hears that it is to stop
#[test]
fn a_shard_that_is_behind_stops_with_the_others() {
    let (open, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let (begun, begins) = mpsc::channel();
    let server = serve(
        move |cx: &mut Cx<'_>, call: &Call| {
            let name = call.tool()?.name;
            if name == "waits" {
                begun.send(()).unwrap();
                let _ = gate.lock().unwrap().recv();
            }
            cx.complete(&CallToolResult::text(name))
        },
        |server| server.workers(0).shards(2),
    );
    // Shared out in turn: the second one is served by the shard that is not the first.
    let (mut first, mut second) = (server.connect(), server.connect());
    assert_eq!(first.call("echo"), "echo");
    second.begin("waits");
    begins.recv_timeout(DEADLINE).unwrap();
    for _ in 0..200 {
        (0..10).for_each(|_| server.handle.publish(&Change::Tools).unwrap());
        assert_eq!(first.call("echo"), "echo");
    }
    server.handle.shutdown(Duration::from_millis(50));
    assert!(matches!(first.0.read(&mut [0; 1]), Ok(0) | Err(_)), "the first shard has ended");
    drop(open);
    server.ends(Duration::from_millis(50));
}

/// Shards end with the server that they are of, whether it was run or not
#[test]
fn a_server_that_is_dropped_leaves_no_shard_behind() {
    let (begun, begins) = mpsc::channel();
    let (ended, ends) = mpsc::channel();
    let sleeps = move |cx: &mut Cx<'_>, _: &Call| {
        begun.send(()).unwrap();
        let slept = cx.sleep(DEADLINE * 2);
        ended.send(cx.is_cancelled()).unwrap();
        slept?;
        cx.complete(&CallToolResult::text("late"))
    };
    let mut server = HttpServer::bind("127.0.0.1:0", config(), Http::new(), sleeps).unwrap().shards(2);
    let (address, handle) = (server.address().unwrap(), server.handle().unwrap());
    let connect = || {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Peer(stream, Vec::new())
    };
    let mut peers = [connect(), connect()];
    peers.iter_mut().for_each(|peer| peer.begin("sleeps"));
    for _ in 0..2 {
        while begins.try_recv().is_err() {
            assert!(server.poll(Duration::from_millis(1)).unwrap());
        }
    }
    drop(server);
    (0..2).for_each(|_| assert_eq!(ends.recv_timeout(DEADLINE), Ok(true)));
    for peer in &mut peers {
        let kept = |error: std::io::Error| error.kind() == ErrorKind::WouldBlock;
        assert!(!peer.0.read_to_end(&mut Vec::new()).is_err_and(kept), "it is let go");
    }
    assert!(handle.is_over());
}

#[test]
fn an_address_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let error = HttpServer::bind(address, config(), Http::new(), counting()).err().unwrap();
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    assert!(matches!(error, Error::Io(error) if error.kind() == ErrorKind::AddrInUse));
}
