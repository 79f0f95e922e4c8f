//! Suite: servers of several processes that share sessions, on real sockets.
//!
//! `crate::adapter` names the adapter under test. The servers are in one process, and each has joined the store by itself.

#![allow(elided_lifetimes_in_paths, reason = "the context has a lifetime in some adapters only")]
#![allow(unused_mut, reason = "each adapter uses a part of it")]

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::io::{Read, Write};
use std::net::TcpStream;

use mcp_proto::http::server::Config as Http;
use mcp_proto::model::{CallToolResult, ElicitSchema};
use mcp_proto::{Capabilities, Capability, Change, RpcError, server};
use mcp_runtime::server::{SessionKeys, SharedSessions};
use mcp_std::session_store::{
    MemorySessionStore, SessionName, SessionStore, SessionStoreError, StoredSession, Swap, Watch,
    WatchReceiver,
};
use serde_json::{Value, json};

use super::http::HttpTestServer;
use crate::adapter::{Answered, Call, Cx, impl_handler};
use crate::support::{DEADLINE, with_timeout};

/// Asks its user if the tool is `ask`.
struct AskingHandler;

impl_handler! {
    AskingHandler {
        fn call(&self, cx: &mut Cx, call: &Call) -> Result<Answered, RpcError> {
            if call.tool_call()?.name == "ask" {
                let answer = cx.elicit("sure", "Sure?", ElicitSchema::default())?;
                return cx.complete(&CallToolResult::text(format!("{:?}", answer.action)));
            }
            cx.complete(&CallToolResult::text("done"))
        }
    }
}

/// A store that can be down.
#[derive(Clone)]
struct Switched(MemorySessionStore, Arc<AtomicBool>);

impl Switched {
    fn check(&self) -> Result<(), SessionStoreError> {
        if self.1.load(Ordering::SeqCst) { Ok(()) } else { Err(SessionStoreError::TimedOut) }
    }
}

impl SessionStore for Switched {
    fn load(&self, session: &SessionName) -> Result<Option<StoredSession>, SessionStoreError> {
        self.check().and_then(|()| self.0.load(session))
    }

    fn compare_and_set(
        &self,
        session: &SessionName,
        expected: Option<u64>,
        record: &[u8],
        lifetime: Duration,
    ) -> Result<Swap, SessionStoreError> {
        assert!(!record.windows(8).any(|part| part == b"by hand\""), "what leaves the process is sealed");
        self.check().and_then(|()| self.0.compare_and_set(session, expected, record, lifetime))
    }

    fn touch(&self, sessions: &[SessionName], lifetime: Duration) -> Result<(), SessionStoreError> {
        self.check().and_then(|()| self.0.touch(sessions, lifetime))
    }

    fn remove(&self, session: &SessionName) -> Result<(), SessionStoreError> {
        self.check().and_then(|()| self.0.remove(session))
    }

    fn join(&self) -> Result<u32, SessionStoreError> {
        self.check().and_then(|()| self.0.join())
    }

    fn publish(&self, message: &[u8]) -> Result<(), SessionStoreError> {
        self.check().and_then(|()| self.0.publish(message))
    }

    fn watch(&self, receiver: WatchReceiver) -> Result<Watch, SessionStoreError> {
        self.check().and_then(|()| self.0.watch(receiver))
    }
}

fn serve(store: &(impl SessionStore + Clone + 'static)) -> HttpTestServer {
    let sessions = SharedSessions::join(store.clone(), &SessionKeys::new([7; 32])).expect("the store is up");
    serve_shared(sessions, &[Capability::Resources, Capability::ResourceSubscriptions])
}

fn serve_shared(sessions: SharedSessions, more: &[Capability]) -> HttpTestServer {
    let capabilities =
        [Capability::Tools, Capability::ToolsListChanged].into_iter().chain(more.iter().copied());
    let capabilities = capabilities.fold(Capabilities::new(), Capabilities::with);
    let config = server::Config::new("test", "1").capabilities(capabilities);
    HttpTestServer::with_config(
        config,
        Http::new(),
        || AskingHandler,
        move |server| server.share_sessions(&sessions).expect("threads"),
    )
}

/// Sends a request and returns the status, the fields and the body of the response.
fn send(served: &HttpTestServer, method: &str, session: &str, body: &str) -> (u16, String, String) {
    let mut stream = request(served, method, session, body);
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("a response");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head[9..12].parse().expect("a status"), head.into(), body.into())
}

fn request(served: &HttpTestServer, method: &str, session: &str, body: &str) -> TcpStream {
    let mut stream = served.connect();
    let session = if session.is_empty() { String::new() } else { format!("Mcp-Session-Id: {session}\r\n") };
    let accept = if method == "GET" { "text/event-stream" } else { "application/json, text/event-stream" };
    let head = format!(
        "{method} /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: {accept}\r\n\
         {session}Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("the server reads");
    stream
}

/// Reads until a text has arrived, and returns all that has.
fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 4096];
    while !String::from_utf8_lossy(&all).contains(text) {
        let n = stream.read(&mut buffer).expect("the server writes");
        assert!(n > 0, "{}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&buffer[..n]);
    }
    String::from_utf8(all).expect("text")
}

fn initialize(served: &HttpTestServer) -> (u16, String, String) {
    let client = json!({"name": "by hand", "version": "1"});
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": client});
    send(served, "POST", "", &message(1, "initialize", &params))
}

fn message(id: u32, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// Begins the handshake of a session. Returns its id.
fn begin(at: &HttpTestServer) -> String {
    let (status, head, _) = initialize(at);
    assert_eq!(status, 200);
    let field = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("mcp-session-id").then_some(value)
    });
    field.expect("a session").to_owned()
}

/// Opens a session, whose handshake ends at another server than it began at. Returns its id.
fn open(at: &HttpTestServer, then: &HttpTestServer) -> String {
    let id = begin(at);
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(send(then, "POST", &id, &initialized.to_string()).0, 202);
    id
}

/// Calls a tool and returns the status and the text of the answer.
fn call(served: &HttpTestServer, session: &str, id: u32) -> (u16, String) {
    let body = message(id, "tools/call", &json!({"name": "echo", "arguments": {}}));
    let (status, _, body) = send(served, "POST", session, &body);
    (status, body)
}

// covers: HTTP-064, HTTP-071, RES-010
#[test]
fn session_is_served_by_every_process_and_outlives_each() {
    with_timeout(|| {
        let store = Switched(MemorySessionStore::new(), Arc::new(AtomicBool::new(true)));
        let [a, b, c] = [(); 3].map(|()| serve(&store));
        let id = open(&a, &b);
        for (n, served) in [&c, &a, &b, &c].into_iter().enumerate() {
            let (status, body) = call(served, &id, n as u32 + 10);
            assert!(status == 200 && body.contains("done"), "{status} {body}");
        }
        // What one process publishes reaches the stream at another one, for a subscription that was made at a third one.
        let mut stream = request(&b, "GET", &id, "");
        read_until(&mut stream, "list_changed");
        let (status, _, body) =
            send(&c, "POST", &id, &message(20, "resources/subscribe", &json!({"uri": "a:1"})));
        assert!(status == 200, "{status} {body}");
        let begun = std::time::Instant::now();
        let mut reads = core::iter::from_fn(|| {
            // Until the process of the stream knows of the subscription.
            a.handle.publish(&Change::Resource("a:1".into())).expect("it runs");
            std::thread::sleep(Duration::from_millis(20));
            stream.set_read_timeout(Some(Duration::from_millis(20))).expect("a socket");
            let mut buffer = [0; 4096];
            let n = stream.read(&mut buffer).unwrap_or_default();
            (begun.elapsed() < DEADLINE).then(|| String::from_utf8_lossy(&buffer[..n]).into_owned())
        });
        assert!(reads.any(|read| read.contains("resources/updated") && read.contains("a:1")));

        // An answer finds the process that has asked.
        let mut asking = request(&a, "POST", &id, &message(30, "tools/call", &json!({"name": "ask"})));
        let asked = read_until(&mut asking, "elicitation/create");
        let question = asked.split_once("\"id\":").expect("an id").1;
        let question: u64 = question[..question.find(',').expect("more")].parse().expect("a number");
        let answer = json!({"jsonrpc": "2.0", "id": question, "result": {"action": "decline"}});
        assert_eq!(send(&c, "POST", &id, &answer.to_string()).0, 202);
        assert!(read_until(&mut asking, "Decline").contains("\"id\":30"));

        // The end of a process is not the end of the session.
        a.stop();
        drop(stream);
        let new = serve(&store);
        for served in [&new, &b, &c] {
            assert_eq!(call(served, &id, 40).0, 200);
        }
        assert_eq!(send(&new, "DELETE", &id, "").0, 204);
        for served in [&new, &b, &c] {
            assert_eq!(call(served, &id, 50).0, 404);
        }
        [new, b, c].into_iter().for_each(HttpTestServer::stop);
    });
}

#[test]
fn store_that_is_down_is_told_to_those_who_need_it_alone() {
    with_timeout(|| {
        let store = Switched(MemorySessionStore::new(), Arc::new(AtomicBool::new(true)));
        let [a, b] = [(); 2].map(|()| serve(&store));
        let id = open(&a, &a);
        assert_eq!(call(&a, &id, 2).0, 200);
        store.1.store(false, Ordering::SeqCst);
        assert!(SharedSessions::join(store.clone(), &SessionKeys::new([7; 32])).is_err());
        assert_eq!(call(&a, &id, 3).0, 200);
        for (status, head, body) in [
            initialize(&a),
            send(&a, "POST", &id, &message(4, "resources/subscribe", &json!({"uri": "a:1"}))),
            send(&b, "POST", &id, &message(5, "ping", &json!({}))),
            send(&a, "DELETE", &id, ""),
        ] {
            assert_eq!(status, 503, "{body}");
            assert!(head.to_ascii_lowercase().contains("retry-after: 1"), "{head}");
        }
        store.1.store(true, Ordering::SeqCst);
        assert_eq!((initialize(&b).0, call(&b, &id, 6).0), (200, 200));
        // The end that failed is repeated by the server, too.
        assert!([204, 404].contains(&send(&a, "DELETE", &id, "").0));
        [a, b].into_iter().for_each(HttpTestServer::stop);
    });
}

#[test]
fn record_of_other_keys_is_that_of_no_session() {
    with_timeout(|| {
        let store = Switched(MemorySessionStore::new(), Arc::new(AtomicBool::new(true)));
        let a = serve(&store);
        let id = open(&a, &a);
        let others =
            SharedSessions::join(store.clone(), &SessionKeys::new([8; 32])).expect("the store is up");
        let b = serve_shared(others, &[]);
        let (status, body) = call(&b, &id, 2);
        assert!(status == 404 && !body.contains("by hand"), "{status} {body}");
        assert_eq!(call(&a, &id, 3).0, 200);
        [a, b].into_iter().for_each(HttpTestServer::stop);
    });
}

// covers: HTTP-064, HTTP-071, HTTP-075
#[test]
fn session_whose_id_carries_it_needs_no_store() {
    with_timeout(|| {
        let hour = Duration::from_secs(3600);
        let in_ids = |key, lifetime| SharedSessions::in_ids(&SessionKeys::new([key; 32]), lifetime);
        let [a, b] = [(); 2].map(|()| serve_shared(in_ids(7, hour), &[]));
        let id = open(&a, &b);
        assert!(id.len() > 100 && id.len() <= 1024 && id.bytes().all(|byte| byte.is_ascii_graphic()));
        for (n, served) in [&b, &a, &b].into_iter().enumerate() {
            let (status, body) = call(served, &id, n as u32 + 10);
            assert!(status == 200 && body.contains("done"), "{status} {body}");
        }
        assert_eq!(send(&a, "DELETE", &id, "").0, 405);
        // All processes end, and one with newer keys begins.
        [a, b].into_iter().for_each(HttpTestServer::stop);
        let newer = SessionKeys::new([8; 32]).with_older([7; 32]);
        let c = serve_shared(SharedSessions::in_ids(&newer, hour), &[]);
        assert_eq!(call(&c, &id, 20).0, 200);
        let mut stream = request(&c, "GET", &id, "");
        read_until(&mut stream, "list_changed");
        // Other keys, an id that was altered, or one that has expired: its client begins anew.
        let other = serve_shared(in_ids(9, hour), &[]);
        let brief = serve_shared(in_ids(7, Duration::from_secs(3)), &[]);
        let expired = begin(&brief);
        std::thread::sleep(Duration::from_secs(3));
        let new = serve_shared(in_ids(7, hour), &[]);
        let bad = [
            (&other, &*id),
            (&brief, &expired),
            (&new, &expired),
            (&new, &id[..id.len() - 1]),
            (&new, "anything"),
        ];
        for (served, id) in bad {
            let (status, body) = call(served, id, 31);
            assert!(status == 404 && !body.contains("by hand"), "{status} {body}");
        }
        assert_eq!(call(&new, &open(&new, &new), 32).0, 200);
        drop(stream);
        [c, other, brief, new].into_iter().for_each(HttpTestServer::stop);
    });
}

/// A store that counts its calls: loads, writes, removals, messages.
#[derive(Clone, Default)]
struct Counted(MemorySessionStore, Arc<[AtomicUsize; 4]>);

impl Counted {
    fn count(&self, at: usize) {
        self.1[at].fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the numbers of calls since the last time.
    fn take(&self) -> [usize; 4] {
        [0, 1, 2, 3].map(|at| self.1[at].swap(0, Ordering::SeqCst))
    }
}

impl SessionStore for Counted {
    fn load(&self, session: &SessionName) -> Result<Option<StoredSession>, SessionStoreError> {
        self.count(0);
        self.0.load(session)
    }

    fn compare_and_set(
        &self,
        session: &SessionName,
        expected: Option<u64>,
        record: &[u8],
        lifetime: Duration,
    ) -> Result<Swap, SessionStoreError> {
        self.count(1);
        assert!(record.len() <= 256, "a session without subscriptions has {} bytes", record.len());
        self.0.compare_and_set(session, expected, record, lifetime)
    }

    fn touch(&self, sessions: &[SessionName], lifetime: Duration) -> Result<(), SessionStoreError> {
        self.0.touch(sessions, lifetime)
    }

    fn remove(&self, session: &SessionName) -> Result<(), SessionStoreError> {
        self.count(2);
        self.0.remove(session)
    }

    fn join(&self) -> Result<u32, SessionStoreError> {
        self.0.join()
    }

    fn publish(&self, message: &[u8]) -> Result<(), SessionStoreError> {
        self.count(3);
        self.0.publish(message)
    }

    fn watch(&self, receiver: WatchReceiver) -> Result<Watch, SessionStoreError> {
        self.0.watch(receiver)
    }
}

#[test]
fn plain_call_asks_no_store_and_change_writes_once() {
    with_timeout(|| {
        let store = Counted::default();
        let [a, b] = [(); 2].map(|()| serve(&store));
        // Each is heard when it begins.
        [&a, &b].into_iter().for_each(|served| _ = open(served, served));
        store.take();
        let id = open(&a, &a);
        // Both steps of the handshake are stored and told. Before the second one, the first may be that of another process.
        assert_eq!(store.take(), [1, 2, 0, 2]);
        for n in 10..20 {
            assert_eq!(call(&a, &id, n).0, 200);
        }
        assert_eq!(store.take(), [0; 4], "what changes nothing asks nobody");
        assert_eq!(call(&b, &id, 20).0, 200);
        assert_eq!(store.take(), [1, 0, 0, 0], "the first request at another process");
        assert_eq!(call(&b, &id, 21).0, 200);
        assert_eq!(store.take(), [0; 4]);
        let subscribe = message(30, "resources/subscribe", &json!({"uri": "a:1"}));
        assert_eq!(send(&b, "POST", &id, &subscribe).0, 200);
        assert_eq!(store.take(), [0, 1, 0, 1], "one change");
        assert_eq!(send(&b, "DELETE", &id, "").0, 204);
        assert_eq!(store.take(), [0, 0, 1, 1]);
        [a, b].into_iter().for_each(HttpTestServer::stop);
    });
}
