//! The client over HTTP/1.1 connections of ours: which there are, what each carries, what happens when one ends.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::client::Event;
use mcp_proto::h1::{self, server};
use mcp_proto::head::{BodySize, Fields};
use mcp_proto::http::client::{Client, Config, ConnectionId, ConnectionLimits, Connections};
use mcp_proto::{CallError, CallKey, CallOptions, Fault, HttpError, Instant, Version, VersionSet};
use mcp_tests::harness::build::{discovery, error, initialized, note, result};
use mcp_tests::harness::{Chunker, Cutter, ENDPOINT, each_cut, say_client};
use serde_json::{Value, json};

use crate::common::{client, ms, secs};

/// A request as the server got it
#[derive(Debug)]
struct Got {
    on: ConnectionId,
    line: String,
    body: Value,
}

#[derive(Debug)]
struct Rig {
    client: Client,
    pool: Connections,
    now: Instant,
    cutter: Cutter,
    /// Whether connections are made at once
    connects: bool,
    connecting: Vec<ConnectionId>,
    servers: BTreeMap<ConnectionId, (server::Connection, String, Vec<u8>)>,
    closed: Vec<ConnectionId>,
    got: VecDeque<Got>,
    events: VecDeque<Event>,
    said: Vec<String>,
}

impl Rig {
    fn new(versions: VersionSet, limits: ConnectionLimits, cut: Chunker) -> Self {
        let config = Config::new(ENDPOINT).expect("a URL");
        let mut rig = Self {
            client: Client::new(Arc::new(client(versions)), Arc::new(config), Instant::ZERO),
            pool: Connections::new(limits),
            now: Instant::ZERO,
            cutter: Cutter::new(cut),
            connects: true,
            connecting: Vec::new(),
            servers: BTreeMap::new(),
            closed: Vec::new(),
            got: VecDeque::new(),
            events: VecDeque::new(),
            said: Vec::new(),
        };
        rig.pump();
        rig
    }

    fn modern(cut: Chunker) -> Self {
        let mut rig = Self::new(VersionSet::MODERN, ConnectionLimits::default(), cut);
        rig.discovers();
        rig
    }

    fn discovers(&mut self) {
        let probe = self.one();
        let found = discovery(&["2026-07-28"], json!({"tools": {}}));
        self.json(probe.on, &result(&probe.body, found));
        assert!(matches!(self.events.pop_front(), Some(Event::Ready(_))));
    }

    fn pump(&mut self) {
        loop {
            let mut moved = false;
            while let Some(event) = self.pool.poll_event(self.now, &mut self.client) {
                self.said.push(say_client(&event));
                self.events.push_back(event);
                moved = true;
            }
            while let Some((id, origin)) = self.pool.poll_connect() {
                assert_eq!((&*origin.host, origin.port, origin.secure), ("tide.example", 3000, false));
                moved = true;
                self.connecting.push(id);
                if self.connects {
                    self.connected(id);
                }
            }
            while let Some(id) = self.pool.poll_close() {
                moved = true;
                self.servers.remove(&id);
                self.closed.push(id);
            }
            let ids: Vec<ConnectionId> = self.servers.keys().copied().collect();
            for id in ids {
                moved |= self.carry(id);
            }
            if !moved {
                return;
            }
        }
    }

    fn connected(&mut self, id: ConnectionId) {
        self.connecting.retain(|c| *c != id);
        let server = server::Connection::new(self.now, h1::Limits::default());
        self.servers.insert(id, (server, String::new(), Vec::new()));
        self.pool.handle_connected(self.now, id);
    }

    /// Moves what can be moved on one connection
    fn carry(&mut self, id: ConnectionId) -> bool {
        let Some((server, line, body)) = self.servers.get_mut(&id) else { return false };
        let mut moved = false;
        let bytes = self.pool.transmit(id);
        if !bytes.is_empty() && server.wants_input() {
            let n = self.cutter.next(bytes.len());
            server.handle_input(self.now, &bytes[..n]);
            self.pool.consume(id, n);
            moved = true;
        }
        while let Some(event) = server.poll_event(self.now, |r, _| format!("{} {}", r.method, r.target)) {
            moved = true;
            match event {
                server::Event::Head(head) => *line = head,
                server::Event::Body(piece) => body.extend_from_slice(&piece),
                server::Event::End => {
                    let text = core::mem::take(body);
                    let body = if text.is_empty() {
                        Value::Null
                    } else {
                        serde_json::from_slice(&text).expect("JSON")
                    };
                    self.got.push_back(Got { on: id, line: core::mem::take(line), body });
                }
                server::Event::Gone => {}
                server::Event::Fault(fault) => panic!("we wrote no HTTP: {fault}"),
            }
        }
        let bytes = server.transmit();
        if !bytes.is_empty() && self.pool.wants_input(id) {
            let n = self.cutter.next(bytes.len());
            self.pool.handle_input(self.now, id, &bytes[..n]);
            server.consume(n);
            moved = true;
        }
        moved
    }

    fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        loop {
            let next = [self.pool.poll_timeout(), self.client.poll_timeout()].into_iter().flatten().min();
            let next = next.filter(|at| *at <= until);
            self.now = next.unwrap_or(until).max(self.now);
            self.pool.handle_timeout(self.now);
            self.client.handle_timeout(self.now);
            self.pump();
            if next.is_none() {
                return;
            }
        }
    }

    fn one(&mut self) -> Got {
        self.pump();
        assert_eq!(self.got.len(), 1, "{:?}", self.got);
        self.got.pop_front().expect("one")
    }

    fn server(&mut self, id: ConnectionId) -> &mut server::Connection {
        &mut self.servers.get_mut(&id).expect("a connection").0
    }

    fn json(&mut self, id: ConnectionId, message: &Value) {
        let text = message.to_string();
        let (now, mut fields) = (self.now, Fields::new());
        fields.push("Content-Type", b"application/json");
        let server = self.server(id);
        server.respond(now, 200, &fields, BodySize::Exact(text.len() as u64)).expect("a response");
        server.body(text.as_bytes()).expect("a body");
        server.end(now).expect("an end");
        self.pump();
    }

    fn status(&mut self, id: ConnectionId, status: u16) {
        let now = self.now;
        let server = self.server(id);
        server.respond(now, status, &Fields::new(), BodySize::Exact(0)).expect("a response");
        server.end(now).expect("an end");
        self.pump();
    }

    fn stream(&mut self, id: ConnectionId) {
        let (now, mut fields) = (self.now, Fields::new());
        fields.push("Content-Type", b"text/event-stream");
        self.server(id).respond(now, 200, &fields, BodySize::Stream).expect("a response");
        self.pump();
    }

    fn event(&mut self, id: ConnectionId, message: &Value) {
        self.server(id).body(format!("data: {message}\n\n").as_bytes()).expect("a body");
        self.pump();
    }

    /// The server's side of a connection ends without a word
    fn cuts(&mut self, id: ConnectionId) {
        self.servers.remove(&id);
        self.pool.handle_eof(self.now, id);
        self.pump();
    }

    fn waves(&mut self) -> CallKey {
        let options = CallOptions::new();
        let key = self.client.engine().call_tool(self.now, "wave", &json!({}), &options).expect("a call");
        self.pump();
        key
    }

    fn done(&mut self, key: CallKey) -> Result<Value, CallError> {
        self.pump();
        match self.events.pop_front() {
            Some(Event::Done { call, outcome, .. }) => {
                assert_eq!(call, key);
                outcome.map(|r| mcp_tests::harness::build::value(&r))
            }
            other => panic!("an outcome, not {other:?}"),
        }
    }
}

fn answer() -> Value {
    json!({"resultType": "complete", "content": []})
}

fn http(outcome: Result<Value, CallError>) -> HttpError {
    match outcome {
        Err(CallError::Http(error)) => HttpError::clone(&error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_connection_carries_one_call_after_another() {
    each_cut(|cut| {
        let mut rig = Rig::modern(cut);
        let mut used = Vec::new();
        for round in 0..3 {
            let key = rig.waves();
            let got = rig.one();
            assert_eq!(got.line, "POST /mcp");
            if round == 1 {
                rig.stream(got.on);
                rig.event(got.on, &result(&got.body, answer()));
                let now = rig.now;
                rig.server(got.on).end(now).expect("an end");
                rig.pump();
            } else {
                rig.json(got.on, &result(&got.body, answer()));
            }
            assert_eq!(rig.done(key), Ok(answer()));
            used.push(got.on);
        }
        assert!(used.iter().all(|id| *id == used[0]), "{used:?}");
        // One that was idle for long is not used again: the server may be closing it.
        rig.pass(secs(4));
        assert_eq!(rig.closed, [used[0]]);
        rig.waves();
        assert_ne!(rig.one().on, used[0]);
        rig.said
    });
}

#[test]
fn calls_at_the_same_time_have_connections_of_their_own_up_to_a_bound() {
    let mut limits = ConnectionLimits::default();
    limits.max_connections = 3;
    let mut rig = Rig::new(VersionSet::MODERN, limits, Chunker::Whole);
    rig.discovers();
    let keys: Vec<CallKey> = (0..5).map(|_| rig.waves()).collect();
    let mut got: Vec<Got> = rig.got.drain(..).collect();
    assert_eq!(got.len(), 3);
    // What others may wait for is not kept waiting.
    rig.client.engine().notify(rig.now, "x/y", None::<&Value>).expect("sent");
    let told = rig.one();
    assert_eq!(told.body["method"], "x/y");
    rig.status(told.on, 202);
    // The connection that it had takes the next call, and so does each that is done.
    got.push(rig.one());
    let mut done = 0;
    while let Some(next) = got.pop() {
        rig.json(next.on, &result(&next.body, answer()));
        got.extend(rig.got.drain(..));
        done += 1;
    }
    assert_eq!(done, 5);
    for _ in keys {
        assert!(matches!(rig.events.pop_front(), Some(Event::Done { outcome: Ok(_), .. })));
    }
    assert!(rig.pool.is_idle());
}

#[test]
fn a_connection_that_cannot_be_made_or_breaks_ends_its_exchange() {
    let mut rig = Rig::new(VersionSet::ALL, ConnectionLimits::default(), Chunker::Whole);
    let probe = rig.one();
    rig.cuts(probe.on);
    assert!(matches!(rig.events.pop_front(), Some(Event::Closed(Fault::Http(_)))));

    let mut rig = Rig::modern(Chunker::Whole);
    rig.pass(secs(4));
    rig.connects = false;
    let key = rig.waves();
    let id = rig.connecting[0];
    rig.pool.handle_connect_failed(rig.now, id, &mut rig.client, "no route");
    assert_eq!(http(rig.done(key)), HttpError::Unreachable { why: "no route".into() });
    // Nor is one waited for that does not come.
    let key = rig.waves();
    rig.pass(secs(10) - ms(1));
    assert!(rig.events.is_empty());
    rig.pass(ms(1));
    assert!(matches!(http(rig.done(key)), HttpError::Unreachable { .. }));
    // A call that is given up before there is one leaves nothing behind.
    let key = rig.waves();
    rig.client.engine().cancel(rig.now, key, None).expect("a call");
    rig.pump();
    assert_eq!(rig.done(key), Err(CallError::Cancelled));
    assert!(rig.pool.is_idle() && rig.pool.iter().count() == 0);
}

#[test]
fn an_exchange_that_breaks_at_any_byte_ends_once() {
    let whole = {
        let text = result(&json!({"id": 1}), answer()).to_string();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        )
    };
    for cut in 0..whole.len() {
        let mut rig = Rig::modern(Chunker::Whole);
        let key = rig.waves();
        let got = rig.one();
        rig.pool.handle_input(rig.now, got.on, &whole.as_bytes()[..cut]);
        rig.cuts(got.on);
        assert!(matches!(http(rig.done(key)), HttpError::Lost { .. }), "{cut}");
        assert!(rig.events.is_empty() && rig.pool.is_idle());
        assert_eq!(rig.closed, [got.on]);
    }
}

#[test]
fn what_is_no_http_ends_the_call_and_the_connection() {
    for bytes in ["HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "SSH-2.0-x\r\n", "\0"]
    {
        let mut rig = Rig::modern(Chunker::Whole);
        let key = rig.waves();
        let got = rig.one();
        rig.pool.handle_input(rig.now, got.on, bytes.as_bytes());
        rig.pump();
        assert!(matches!(http(rig.done(key)), HttpError::Lost { .. }));
        assert_eq!(rig.closed, [got.on]);
    }
}

#[test]
fn a_kept_connection_that_was_closed_is_replaced_where_that_is_safe() {
    // Nothing was written yet: any request goes again.
    let mut rig = Rig::modern(Chunker::Whole);
    let kept = *rig.servers.keys().next().expect("a connection");
    rig.pool.handle_eof(rig.now, kept);
    rig.servers.remove(&kept);
    let key = rig.waves();
    let got = rig.one();
    assert_ne!(got.on, kept);
    rig.json(got.on, &result(&got.body, answer()));
    assert_eq!(rig.done(key), Ok(answer()));

    // Written, and not known whether it was read: only what may happen twice.
    for (repeatable, method) in [(false, "tools/call"), (true, "tools/call"), (true, "tools/list")] {
        let mut rig = Rig::modern(Chunker::Whole);
        let mut options = CallOptions::new();
        if repeatable && method == "tools/call" {
            options = options.repeatable();
        }
        let params = json!({"name": "wave"});
        let key = rig.client.engine().call(rig.now, method, &params, &options).expect("a call");
        let first = rig.one();
        rig.cuts(first.on);
        if repeatable {
            let again = rig.one();
            assert_eq!(again.body, first.body);
            // A fresh one that is closed is another matter.
            rig.cuts(again.on);
            if method == "tools/list" {
                assert!(matches!(http(rig.done(key)), HttpError::Lost { .. }));
            }
        } else {
            assert!(matches!(http(rig.done(key)), HttpError::Lost { .. }));
        }
        assert!(rig.got.is_empty());
    }
}

// covers: CANC-016
#[test]
fn a_cancelled_call_closes_its_connection() {
    let mut rig = Rig::modern(Chunker::Whole);
    let key = rig.waves();
    let got = rig.one();
    rig.stream(got.on);
    rig.client.engine().cancel(rig.now, key, None).expect("a call");
    rig.pump();
    assert_eq!(rig.done(key), Err(CallError::Cancelled));
    assert_eq!(rig.closed, [got.on]);
    assert!(rig.pool.is_idle());
}

// covers: HTTP-047, HTTP-073
#[test]
fn a_legacy_session_from_its_beginning_to_its_end() {
    each_cut(|cut| {
        let mut rig = Rig::new(VersionSet::ALL, ConnectionLimits::default(), cut);
        let probe = rig.one();
        rig.status(probe.on, 405);
        let init = rig.one();
        let (now, mut fields) = (rig.now, Fields::new());
        fields.push("content-type", b"application/json");
        fields.push("mcp-session-id", b"s-1");
        let text = result(&init.body, initialized("2025-11-25", json!({"tools": {}}))).to_string();
        let server = rig.server(init.on);
        server.respond(now, 200, &fields, BodySize::Stream).expect("a response");
        server.body(text.as_bytes()).expect("a body");
        server.end(now).expect("an end");
        rig.pump();
        assert!(matches!(rig.events.pop_front(), Some(Event::Ready(p)) if p.version == Version::V2025_11_25));
        let said = rig.one();
        assert_eq!(said.body["method"], "notifications/initialized");
        rig.status(said.on, 202);
        let get = rig.one();
        assert_eq!(get.line, "GET /mcp");
        rig.stream(get.on);
        let key = rig.waves();
        let call = rig.one();
        assert_ne!(call.on, get.on, "the stream keeps no call waiting");
        rig.event(get.on, &note("x/y", Value::Null));
        assert!(matches!(rig.events.pop_front(), Some(Event::Notification(_))));
        rig.json(call.on, &result(&call.body, json!({"content": []})));
        assert!(rig.done(key).is_ok());
        rig.client.close(rig.now);
        let end = rig.one();
        assert_eq!(end.line, "DELETE /mcp");
        assert!(rig.closed.contains(&get.on));
        rig.status(end.on, 204);
        assert!(matches!(rig.events.pop_front(), Some(Event::Closed(Fault::Closed))));
        assert!(rig.client.is_drained() && rig.pool.is_idle());
        rig.pool.close();
        rig.pump();
        assert_eq!(rig.pool.iter().count(), 0);
        rig.said
    });
}

#[test]
fn a_reader_that_does_not_poll_lets_the_server_wait() {
    let mut rig = Rig::modern(Chunker::Whole);
    let key = rig.waves();
    let got = rig.one();
    rig.stream(got.on);
    let told = format!("data: {}\n\n", note("x/y", Value::Null));
    let mut pushed = 0;
    // As an adapter does that has read and not come to ask for events yet.
    while rig.pool.wants_input(got.on) && pushed < 4 << 20 {
        let chunk = told.repeat(200);
        rig.server(got.on).body(chunk.as_bytes()).expect("a body");
        while let Some((server, ..)) = rig.servers.get_mut(&got.on).filter(|(s, ..)| !s.transmit().is_empty())
        {
            let bytes = server.transmit().to_vec();
            server.consume(bytes.len());
            rig.pool.handle_input(rig.now, got.on, &bytes);
            pushed += bytes.len();
        }
    }
    assert!(pushed < 1 << 20, "{pushed}");
    rig.pump();
    let n = rig.events.len();
    assert!(n > 1_000 && rig.events.drain(..).all(|e| matches!(e, Event::Notification(_))));
    rig.event(got.on, &result(&got.body, answer()));
    assert_eq!(rig.done(key), Ok(answer()));
}

// covers: HTTP-081
#[test]
fn an_answer_before_the_whole_request_was_sent_ends_its_connection() {
    let mut rig = Rig::modern(Chunker::Whole);
    let kept = *rig.servers.keys().next().expect("a connection");
    let arguments = json!({"text": "x".repeat(1 << 20)});
    let key =
        rig.client.engine().call_tool(rig.now, "wave", &arguments, &CallOptions::new()).expect("a call");
    assert!(rig.pool.poll_event(rig.now, &mut rig.client).is_none());
    // The server reads the head and a little more, refuses, and keeps its end open without reading on.
    rig.servers.remove(&kept);
    rig.pool.consume(kept, 4096);
    rig.pool.handle_input(rig.now, kept, b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
    assert!(matches!(http(rig.done(key)), HttpError::Answer(answer) if answer.status == 413));
    assert_eq!(rig.closed, [kept]);
    // The next call does not stand behind a body that nobody reads.
    let key = rig.waves();
    let got = rig.one();
    rig.json(got.on, &result(&got.body, answer()));
    assert_eq!(rig.done(key), Ok(answer()));
}

/// A call that stands on a kept connection, of which nothing was written yet
fn not_written(rig: &mut Rig) -> (CallKey, ConnectionId) {
    let kept = *rig.servers.keys().next().expect("a connection");
    let options = CallOptions::new();
    let key = rig.client.engine().call_tool(rig.now, "wave", &json!({}), &options).expect("a call");
    assert!(!rig.pool.is_doubtful(kept));
    assert!(rig.pool.poll_event(rig.now, &mut rig.client).is_none());
    assert!(rig.pool.is_doubtful(kept) && !rig.pool.transmit(kept).is_empty());
    rig.servers.remove(&kept);
    (key, kept)
}

#[test]
fn a_call_of_which_nothing_was_written_goes_out_on_another_connection() {
    for how in ["end", "answer", "time-out", "no writing"] {
        let mut rig = Rig::modern(Chunker::Whole);
        let (key, kept) = not_written(&mut rig);
        match how {
            "end" => rig.pool.handle_eof(rig.now, kept),
            // Whatever this answers, it is not the call.
            "answer" => {
                let forged =
                    result(&json!({"id": 2}), json!({"resultType": "complete", "content": ["forged"]}));
                let forged = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{forged}",
                    forged.to_string().len()
                );
                rig.pool.handle_input(rig.now, kept, forged.as_bytes());
            }
            "time-out" => {
                let late = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n";
                rig.pool.handle_input(rig.now, kept, late);
                rig.pool.handle_eof(rig.now, kept);
            }
            _ => {
                rig.pool.handle_write_failed(kept);
                assert!(rig.pool.transmit(kept).is_empty());
                rig.pool.handle_eof(rig.now, kept);
            }
        }
        let got = rig.one();
        assert_ne!(got.on, kept, "{how}");
        assert_eq!(rig.closed, [kept]);
        rig.json(got.on, &result(&got.body, answer()));
        assert_eq!(rig.done(key), Ok(answer()), "{how}");
        assert!(rig.got.is_empty() && rig.events.is_empty());
    }
    // Some of it was: nobody knows, and it is not made twice.
    let mut rig = Rig::modern(Chunker::Whole);
    let (key, kept) = not_written(&mut rig);
    rig.pool.consume(kept, 1);
    assert!(!rig.pool.is_doubtful(kept));
    rig.pool.handle_write_failed(kept);
    rig.pool.handle_eof(rig.now, kept);
    assert!(matches!(http(rig.done(key)), HttpError::Lost { .. }));
    assert!(rig.got.is_empty());
}

#[test]
fn an_answer_that_ends_with_its_connection_is_none_when_that_breaks() {
    for breaks in [false, true] {
        let mut rig = Rig::modern(Chunker::Whole);
        let key = rig.waves();
        let call = rig.one();
        rig.servers.remove(&call.on);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
        let whole = format!("{head}{}", result(&call.body, answer()));
        rig.pool.handle_input(rig.now, call.on, whole.as_bytes());
        if breaks {
            rig.pool.handle_broken(rig.now, call.on, "somebody cut the line");
            let error = http(rig.done(key));
            assert!(matches!(&error, HttpError::Lost { why } if why.contains("cut the line")), "{error:?}");
        } else {
            rig.pool.handle_eof(rig.now, call.on);
            assert_eq!(rig.done(key), Ok(answer()));
        }
    }
}

#[test]
fn what_may_be_said_twice_survives_a_kept_connection_that_is_closed() {
    let mut rig = Rig::new(VersionSet::ALL, ConnectionLimits::default(), Chunker::Whole);
    let probe = rig.one();
    rig.status(probe.on, 405);
    // The handshake, and its confirmation.
    for method in ["initialize", "notifications/initialized"] {
        let first = rig.one();
        assert_eq!(first.body["method"], method);
        rig.cuts(first.on);
        let again = rig.one();
        assert_ne!(again.on, first.on);
        assert_eq!(again.body, first.body);
        if method == "initialize" {
            rig.json(again.on, &result(&again.body, initialized("2025-11-25", json!({"tools": {}}))));
            assert!(matches!(rig.events.pop_front(), Some(Event::Ready(_))));
        } else {
            rig.status(again.on, 202);
        }
    }
    let get = rig.one();
    rig.stream(get.on);
    let key = rig.waves();
    let call = rig.one();
    rig.json(call.on, &result(&call.body, json!({"content": []})));
    assert!(rig.done(key).is_ok());
    // An answer that a call at the server waits for.
    rig.event(get.on, &json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}));
    let first = rig.one();
    assert_eq!(first.body["id"], 7);
    rig.cuts(first.on);
    let again = rig.one();
    assert_eq!(again.body, first.body);
    rig.status(again.on, 202);
    // What the application says of its own is said once.
    rig.client.engine().notify(rig.now, "x/y", None::<&Value>).expect("sent");
    let told = rig.one();
    rig.cuts(told.on);
    assert!(rig.got.is_empty());
}

// covers: XHDR-029
#[test]
fn a_call_that_names_no_tool_ends_with_its_refusal() {
    let mut rig = Rig::modern(Chunker::Whole);
    let nameless = json!({"arguments": {}});
    let options = CallOptions::new();
    let key = rig.client.engine().call(rig.now, "tools/call", &nameless, &options).expect("a call");
    let got = rig.one();
    let text = error(&got.body, -32020, "Mcp-Name is missing", Value::Null).to_string();
    let (now, mut fields) = (rig.now, Fields::new());
    fields.push("Content-Type", b"application/json");
    let server = rig.server(got.on);
    server.respond(now, 400, &fields, BodySize::Exact(text.len() as u64)).expect("a response");
    server.body(text.as_bytes()).expect("a body");
    server.end(now).expect("an end");
    assert!(matches!(rig.done(key), Err(CallError::Rpc(e)) if e.code == -32020));
    assert!(rig.got.is_empty());
}

#[test]
fn a_stream_leaves_room_for_calls_however_few_connections_there_may_be() {
    for most in [0, 1, 2] {
        let mut limits = ConnectionLimits::default();
        limits.max_connections = most;
        let mut rig = Rig::new(VersionSet::LEGACY, limits, Chunker::Whole);
        let init = rig.one();
        rig.json(init.on, &result(&init.body, initialized("2025-11-25", json!({"tools": {}}))));
        assert!(matches!(rig.events.pop_front(), Some(Event::Ready(_))));
        let said = rig.one();
        rig.status(said.on, 202);
        let get = rig.one();
        rig.stream(get.on);
        let key = rig.waves();
        let call = rig.one();
        rig.json(call.on, &result(&call.body, json!({"content": []})));
        assert!(rig.done(key).is_ok(), "{most}");
    }
}
