//! The client over pooled HTTP/1.1 connections: which exist, what each carries, and what happens when one ends.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::client::Event;
use mcp_proto::h1::{self, server};
use mcp_proto::head::{BodySize, Fields};
use mcp_proto::http::client::{Client, Config, ConnectionId, ConnectionPool, Credential, PoolLimits};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::tap::Direction::{In, Out};
use mcp_proto::{CallError, CallKey, CallOptions, Fault, HttpError, Instant, Version, VersionSet};
use mcp_tests::harness::build::{
    discover_result, error_response, initialize_result, notification, result_response,
};
use mcp_tests::harness::{ChunkSizes, Chunker, ENDPOINT, describe_client_event, for_each_chunker};
use serde_json::{Value, json};

use crate::protocol::common::{client, ms, secs};

/// A request as the server received it.
#[derive(Debug)]
struct ReceivedRequest {
    connection: ConnectionId,
    line: String,
    body: Value,
}

#[derive(Debug)]
struct PoolHarness {
    client: Client,
    pool: ConnectionPool,
    now: Instant,
    chunk_sizes: ChunkSizes,
    /// True if connections are established immediately.
    connects_at_once: bool,
    connecting: Vec<ConnectionId>,
    servers: BTreeMap<ConnectionId, (server::Connection, String, Vec<u8>)>,
    closed: Vec<ConnectionId>,
    received: VecDeque<ReceivedRequest>,
    events: VecDeque<Event>,
    event_texts: Vec<String>,
}

impl PoolHarness {
    fn new(versions: VersionSet, limits: PoolLimits, cut: Chunker) -> Self {
        Self::with_config(versions, Config::new(ENDPOINT).expect("a URL"), limits, cut)
    }

    fn with_config(versions: VersionSet, config: Config, limits: PoolLimits, cut: Chunker) -> Self {
        let mut rig = Self {
            client: Client::new(Arc::new(client(versions)), Arc::new(config), Instant::ZERO),
            pool: ConnectionPool::new(limits),
            now: Instant::ZERO,
            chunk_sizes: ChunkSizes::new(cut),
            connects_at_once: true,
            connecting: Vec::new(),
            servers: BTreeMap::new(),
            closed: Vec::new(),
            received: VecDeque::new(),
            events: VecDeque::new(),
            event_texts: Vec::new(),
        };
        rig.pump();
        rig
    }

    fn modern(cut: Chunker) -> Self {
        let mut rig = Self::new(VersionSet::MODERN, PoolLimits::default(), cut);
        rig.answer_discover();
        rig
    }

    fn answer_discover(&mut self) {
        let probe = self.expect_request();
        let found = discover_result(&["2026-07-28"], json!({"tools": {}}));
        self.respond_with_json(probe.connection, &result_response(&probe.body, found));
        assert!(matches!(self.events.pop_front(), Some(Event::Ready(_))));
    }

    fn pump(&mut self) {
        loop {
            let mut moved = false;
            while let Some(event) = self.pool.poll_event(self.now, &mut self.client) {
                self.event_texts.push(describe_client_event(&event));
                self.events.push_back(event);
                moved = true;
            }
            while let Some((id, origin)) = self.pool.poll_connect() {
                assert_eq!((&*origin.host, origin.port, origin.secure), ("tide.example", 3000, false));
                moved = true;
                self.connecting.push(id);
                if self.connects_at_once {
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
                moved |= self.transfer(id);
            }
            if !moved {
                return;
            }
        }
    }

    fn connected(&mut self, id: ConnectionId) {
        self.connecting.retain(|c| *c != id);
        let server = server::Connection::new(self.now, h1::HttpLimits::default());
        self.servers.insert(id, (server, String::new(), Vec::new()));
        self.pool.handle_connected(self.now, id);
    }

    /// Moves bytes on one connection; returns whether anything moved.
    fn transfer(&mut self, id: ConnectionId) -> bool {
        let Some((server, line, body)) = self.servers.get_mut(&id) else { return false };
        let mut moved = false;
        let bytes = self.pool.transmit(id);
        if !bytes.is_empty() && server.wants_input() {
            let n = self.chunk_sizes.next(bytes.len());
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
                    self.received.push_back(ReceivedRequest {
                        connection: id,
                        line: core::mem::take(line),
                        body,
                    });
                }
                server::Event::ClientGone => {}
                server::Event::Fault(fault) => panic!("the client sent invalid HTTP: {fault}"),
            }
        }
        let bytes = server.transmit();
        if !bytes.is_empty() && self.pool.wants_input(id) {
            let n = self.chunk_sizes.next(bytes.len());
            self.pool.handle_input(self.now, id, &bytes[..n]);
            server.consume(n);
            moved = true;
        }
        moved
    }

    fn advance(&mut self, span: Duration) {
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

    fn expect_request(&mut self) -> ReceivedRequest {
        self.pump();
        assert_eq!(self.received.len(), 1, "{:?}", self.received);
        self.received.pop_front().expect("one")
    }

    fn server(&mut self, id: ConnectionId) -> &mut server::Connection {
        &mut self.servers.get_mut(&id).expect("a connection").0
    }

    fn respond_with_json(&mut self, id: ConnectionId, message: &Value) {
        let text = message.to_string();
        let (now, mut fields) = (self.now, Fields::new());
        fields.push("Content-Type", b"application/json");
        let server = self.server(id);
        server.respond(now, 200, &fields, BodySize::Exact(text.len() as u64)).expect("a response");
        server.write_body(text.as_bytes()).expect("a body");
        server.end(now).expect("an end");
        self.pump();
    }

    fn respond_with_status(&mut self, id: ConnectionId, status: u16) {
        let now = self.now;
        let server = self.server(id);
        server.respond(now, status, &Fields::new(), BodySize::Exact(0)).expect("a response");
        server.end(now).expect("an end");
        self.pump();
    }

    fn start_event_stream(&mut self, id: ConnectionId) {
        let (now, mut fields) = (self.now, Fields::new());
        fields.push("Content-Type", b"text/event-stream");
        self.server(id).respond(now, 200, &fields, BodySize::Stream).expect("a response");
        self.pump();
    }

    fn send_event(&mut self, id: ConnectionId, message: &Value) {
        self.server(id).write_body(format!("data: {message}\n\n").as_bytes()).expect("a body");
        self.pump();
    }

    /// Ends the server's side of a connection abruptly.
    fn cut_connection(&mut self, id: ConnectionId) {
        self.servers.remove(&id);
        self.pool.handle_eof(self.now, id);
        self.pump();
    }

    fn start_wave_call(&mut self) -> CallKey {
        let options = CallOptions::new();
        let key = self.client.engine().call_tool(self.now, "wave", &json!({}), &options).expect("a call");
        self.pump();
        key
    }

    fn expect_done(&mut self, key: CallKey) -> Result<Value, CallError> {
        self.pump();
        match self.events.pop_front() {
            Some(Event::Done { call, outcome, .. }) => {
                assert_eq!(call, key);
                outcome.map(|r| mcp_tests::harness::build::to_value(&r))
            }
            other => panic!("expected an outcome, got {other:?}"),
        }
    }
}

fn tool_result() -> Value {
    json!({"resultType": "complete", "content": []})
}

fn expect_http_error(outcome: Result<Value, CallError>) -> HttpError {
    match outcome {
        Err(CallError::Http(error)) => HttpError::clone(&error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn connection_is_reused_for_consecutive_calls() {
    for_each_chunker(|cut| {
        let mut rig = PoolHarness::modern(cut);
        let mut used = Vec::new();
        for round in 0..3 {
            let key = rig.start_wave_call();
            let got = rig.expect_request();
            assert_eq!(got.line, "POST /mcp");
            if round == 1 {
                rig.start_event_stream(got.connection);
                rig.send_event(got.connection, &result_response(&got.body, tool_result()));
                let now = rig.now;
                rig.server(got.connection).end(now).expect("an end");
                rig.pump();
            } else {
                rig.respond_with_json(got.connection, &result_response(&got.body, tool_result()));
            }
            assert_eq!(rig.expect_done(key), Ok(tool_result()));
            used.push(got.connection);
        }
        assert!(used.iter().all(|id| *id == used[0]), "{used:?}");
        // A connection that was idle for long is not used again: the server may be closing it.
        assert!(rig.pool.poll_timeout().is_some_and(|at| at <= rig.now + secs(4)));
        rig.advance(secs(4));
        assert_eq!(rig.closed, [used[0]]);
        rig.start_wave_call();
        assert_ne!(rig.expect_request().connection, used[0]);
        rig.event_texts
    });
}

#[test]
fn concurrent_calls_use_up_to_max_connections() {
    let mut limits = PoolLimits::default();
    limits.max_connections = 3;
    let mut rig = PoolHarness::new(VersionSet::MODERN, limits, Chunker::Whole);
    rig.answer_discover();
    let keys: Vec<CallKey> = (0..5).map(|_| rig.start_wave_call()).collect();
    let mut got: Vec<ReceivedRequest> = rig.received.drain(..).collect();
    assert_eq!(got.len(), 3);
    // A notification does not wait for a connection, because others may depend on it.
    rig.client.engine().notify(rig.now, "x/y", None::<&Value>).expect("sent");
    let notice = rig.expect_request();
    assert_eq!(notice.body["method"], "x/y");
    rig.respond_with_status(notice.connection, 202);
    // The connection of the notification is kept for messages. Each other one takes the next call when it becomes idle.
    assert!(rig.received.is_empty());
    let mut done = 0;
    while let Some(next) = got.pop() {
        rig.respond_with_json(next.connection, &result_response(&next.body, tool_result()));
        got.extend(rig.received.drain(..));
        done += 1;
    }
    assert_eq!(done, 5);
    for _ in keys {
        assert!(matches!(rig.events.pop_front(), Some(Event::Done { outcome: Ok(_), .. })));
    }
    assert!(rig.pool.is_idle());
}

#[test]
fn failed_connection_fails_its_exchange() {
    let mut rig = PoolHarness::new(VersionSet::ALL, PoolLimits::default(), Chunker::Whole);
    let probe = rig.expect_request();
    rig.cut_connection(probe.connection);
    assert!(matches!(rig.events.pop_front(), Some(Event::Closed(Fault::Http(_)))));

    let mut rig = PoolHarness::modern(Chunker::Whole);
    rig.advance(secs(4));
    rig.connects_at_once = false;
    let key = rig.start_wave_call();
    let id = rig.connecting[0];
    rig.pool.handle_connect_failed(rig.now, id, &mut rig.client, "no route");
    assert_eq!(expect_http_error(rig.expect_done(key)), HttpError::Unreachable { reason: "no route".into() });
    // Establishing a connection times out.
    let key = rig.start_wave_call();
    assert_eq!(rig.pool.poll_timeout(), Some(rig.now + secs(10)));
    // What is said of a connection before it is established changes nothing.
    rig.pool.handle_eof(rig.now, rig.connecting[1]);
    rig.advance(secs(10) - ms(1));
    assert!(rig.events.is_empty());
    rig.advance(ms(1));
    assert!(matches!(expect_http_error(rig.expect_done(key)), HttpError::Unreachable { .. }));
    // A call cancelled before it has a connection leaves nothing behind.
    let key = rig.start_wave_call();
    rig.client.engine().cancel(rig.now, key, None).expect("a call");
    rig.pump();
    assert_eq!(rig.expect_done(key), Err(CallError::Cancelled));
    assert!(rig.pool.is_idle() && rig.pool.iter().count() == 0);
}

#[test]
fn response_cut_at_any_byte_loses_the_call_once() {
    let whole = {
        let text = result_response(&json!({"id": 1}), tool_result()).to_string();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        )
    };
    for cut in 0..whole.len() {
        let mut rig = PoolHarness::modern(Chunker::Whole);
        let key = rig.start_wave_call();
        let got = rig.expect_request();
        rig.pool.handle_input(rig.now, got.connection, &whole.as_bytes()[..cut]);
        rig.cut_connection(got.connection);
        let HttpError::Lost { reason } = expect_http_error(rig.expect_done(key)) else { panic!("{cut}") };
        let expected = if cut == 0 { "the server closed the connection" } else { "within a message" };
        assert!(reason.contains(expected), "{cut}: {reason}");
        assert!(rig.events.is_empty() && rig.pool.is_idle());
        assert_eq!(rig.closed, [got.connection]);
    }
}

#[test]
fn invalid_http_fails_the_call_and_closes_the_connection() {
    for bytes in ["HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", "SSH-2.0-x\r\n", "\0"]
    {
        let mut rig = PoolHarness::modern(Chunker::Whole);
        let key = rig.start_wave_call();
        let got = rig.expect_request();
        rig.pool.handle_input(rig.now, got.connection, bytes.as_bytes());
        // The fault was there before.
        rig.pool.handle_broken(rig.now, got.connection, "the cable was cut");
        rig.pump();
        let HttpError::Lost { reason } = expect_http_error(rig.expect_done(key)) else { panic!("{bytes}") };
        assert!(!reason.contains("cable") && !reason.contains("closed the connection"), "{reason}");
        assert_eq!(rig.closed, [got.connection]);
    }
}

#[test]
fn closed_idle_connection_is_replaced_where_retry_is_safe() {
    // Nothing was written yet: any request is sent again.
    let mut rig = PoolHarness::modern(Chunker::Whole);
    let idle = *rig.servers.keys().next().expect("a connection");
    rig.pool.handle_eof(rig.now, idle);
    rig.servers.remove(&idle);
    let key = rig.start_wave_call();
    let got = rig.expect_request();
    assert_ne!(got.connection, idle);
    rig.respond_with_json(got.connection, &result_response(&got.body, tool_result()));
    assert_eq!(rig.expect_done(key), Ok(tool_result()));

    // Written, and it is unknown whether the server read it: only repeatable requests are sent again.
    for (repeatable, method) in [(false, "tools/call"), (true, "tools/call"), (true, "tools/list")] {
        let mut rig = PoolHarness::modern(Chunker::Whole);
        let mut options = CallOptions::new();
        if repeatable && method == "tools/call" {
            options = options.idempotent();
        }
        let params = json!({"name": "wave"});
        let key = rig.client.engine().call(rig.now, method, &params, &options).expect("a call");
        let first = rig.expect_request();
        rig.cut_connection(first.connection);
        if repeatable {
            let again = rig.expect_request();
            assert_eq!(again.body, first.body);
            // A fresh connection that closes is a failure.
            rig.cut_connection(again.connection);
            if method == "tools/list" {
                assert!(matches!(expect_http_error(rig.expect_done(key)), HttpError::Lost { .. }));
            }
        } else {
            assert!(matches!(expect_http_error(rig.expect_done(key)), HttpError::Lost { .. }));
        }
        assert!(rig.received.is_empty());
    }
}

// covers: CANC-016
#[test]
fn cancelled_call_closes_its_connection() {
    let mut rig = PoolHarness::modern(Chunker::Whole);
    let key = rig.start_wave_call();
    let got = rig.expect_request();
    rig.start_event_stream(got.connection);
    assert!(!rig.pool.is_idle());
    rig.client.engine().cancel(rig.now, key, None).expect("a call");
    rig.pump();
    assert_eq!(rig.expect_done(key), Err(CallError::Cancelled));
    assert_eq!(rig.closed, [got.connection]);
    assert!(rig.pool.is_idle());
}

// covers: CANC-016
#[test]
fn call_cancelled_while_it_waits_for_a_connection_is_never_sent() {
    let mut limits = PoolLimits::default();
    limits.max_connections = 2;
    let mut rig = PoolHarness::new(VersionSet::MODERN, limits, Chunker::Whole);
    rig.answer_discover();
    let calls = [rig.start_wave_call(), rig.start_wave_call()];
    let waiting = rig.start_wave_call();
    rig.client.engine().cancel(rig.now, waiting, None).expect("a call");
    assert_eq!(rig.expect_done(waiting), Err(CallError::Cancelled));
    let received: Vec<ReceivedRequest> = rig.received.drain(..).collect();
    assert_eq!(received.len(), 2);
    for (call, got) in calls.into_iter().zip(received) {
        rig.respond_with_json(got.connection, &result_response(&got.body, tool_result()));
        assert_eq!(rig.expect_done(call), Ok(tool_result()));
    }
    assert!(rig.received.is_empty() && rig.closed.is_empty() && rig.pool.is_idle());
}

// covers: CANC-016
#[test]
fn call_cancelled_after_its_stream_ended_does_not_close_the_connection() {
    let mut rig = PoolHarness::modern(Chunker::Whole);
    let key = rig.start_wave_call();
    let got = rig.expect_request();
    let (now, mut fields) = (rig.now, Fields::new());
    fields.push("Content-Type", b"text/event-stream");
    let server = rig.server(got.connection);
    server.respond(now, 200, &fields, BodySize::Stream).expect("a response");
    let events = format!("data: {}\n\n", notification("x/y", Value::Null)).repeat(2);
    server.write_body(events.as_bytes()).expect("a body");
    server.end(now).expect("an end");
    let bytes = server.transmit().to_vec();
    server.consume(bytes.len());
    rig.pool.handle_input(now, got.connection, &bytes);
    // The second event is not decoded yet, although the connection is free.
    assert!(matches!(rig.pool.poll_event(now, &mut rig.client), Some(Event::Notification(_))));
    rig.client.engine().cancel(now, key, None).expect("a call");
    assert_eq!(rig.expect_done(key), Err(CallError::Cancelled));
    assert_eq!(rig.closed, []);
    rig.start_wave_call();
    assert_eq!(rig.expect_request().connection, got.connection);
}

// covers: HTTP-047, HTTP-073
#[test]
fn legacy_session_runs_from_probe_to_delete() {
    for_each_chunker(|cut| {
        let mut rig = PoolHarness::new(VersionSet::ALL, PoolLimits::default(), cut);
        let probe = rig.expect_request();
        rig.respond_with_status(probe.connection, 405);
        let init = rig.expect_request();
        let (now, mut fields) = (rig.now, Fields::new());
        fields.push("content-type", b"application/json");
        fields.push("mcp-session-id", b"s-1");
        let text =
            result_response(&init.body, initialize_result("2025-11-25", json!({"tools": {}}))).to_string();
        let server = rig.server(init.connection);
        server.respond(now, 200, &fields, BodySize::Stream).expect("a response");
        server.write_body(text.as_bytes()).expect("a body");
        server.end(now).expect("an end");
        rig.pump();
        assert!(matches!(rig.events.pop_front(), Some(Event::Ready(p)) if p.version == Version::V2025_11_25));
        let initialized = rig.expect_request();
        assert_eq!(initialized.body["method"], "notifications/initialized");
        rig.respond_with_status(initialized.connection, 202);
        let get = rig.expect_request();
        assert_eq!(get.line, "GET /mcp");
        rig.start_event_stream(get.connection);
        let key = rig.start_wave_call();
        let call = rig.expect_request();
        assert_ne!(call.connection, get.connection, "a call does not wait for the GET stream");
        rig.send_event(get.connection, &notification("x/y", Value::Null));
        assert!(matches!(rig.events.pop_front(), Some(Event::Notification(_))));
        rig.respond_with_json(call.connection, &result_response(&call.body, json!({"content": []})));
        assert!(rig.expect_done(key).is_ok());
        rig.client.close(rig.now);
        let end = rig.expect_request();
        assert_eq!(end.line, "DELETE /mcp");
        assert!(rig.closed.contains(&get.connection));
        rig.respond_with_status(end.connection, 204);
        assert!(matches!(rig.events.pop_front(), Some(Event::Closed(Fault::Closed))));
        assert!(rig.client.is_drained() && rig.pool.is_idle());
        rig.pool.close();
        rig.pump();
        assert_eq!(rig.pool.iter().count(), 0);
        rig.event_texts
    });
}

#[test]
fn unpolled_events_apply_back_pressure_to_the_server() {
    let mut rig = PoolHarness::modern(Chunker::Whole);
    let key = rig.start_wave_call();
    let got = rig.expect_request();
    rig.start_event_stream(got.connection);
    let event_text = format!("data: {}\n\n", notification("x/y", Value::Null));
    let mut pushed = 0;
    // Like an adapter that has read input and has not polled for events yet.
    while rig.pool.wants_input(got.connection) && pushed < 4 << 20 {
        let chunk = event_text.repeat(200);
        rig.server(got.connection).write_body(chunk.as_bytes()).expect("a body");
        while let Some((server, ..)) =
            rig.servers.get_mut(&got.connection).filter(|(s, ..)| !s.transmit().is_empty())
        {
            let bytes = server.transmit().to_vec();
            server.consume(bytes.len());
            rig.pool.handle_input(rig.now, got.connection, &bytes);
            pushed += bytes.len();
        }
    }
    assert!(pushed < 1 << 20, "{pushed}");
    rig.pump();
    let n = rig.events.len();
    assert!(n > 1_000 && rig.events.drain(..).all(|e| matches!(e, Event::Notification(_))));
    rig.send_event(got.connection, &result_response(&got.body, tool_result()));
    assert_eq!(rig.expect_done(key), Ok(tool_result()));
}

// covers: HTTP-081
#[test]
fn response_before_end_of_request_closes_the_connection() {
    let mut rig = PoolHarness::modern(Chunker::Whole);
    let idle = *rig.servers.keys().next().expect("a connection");
    let arguments = json!({"text": "x".repeat(1 << 20)});
    let key =
        rig.client.engine().call_tool(rig.now, "wave", &arguments, &CallOptions::new()).expect("a call");
    assert!(rig.pool.poll_event(rig.now, &mut rig.client).is_none());
    // The server reads the head and a little more, refuses, and keeps its end open without reading on.
    rig.servers.remove(&idle);
    rig.pool.consume(idle, 4096);
    rig.pool.handle_input(rig.now, idle, b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n");
    assert!(
        matches!(expect_http_error(rig.expect_done(key)), HttpError::Response(answer) if answer.status == 413)
    );
    assert_eq!(rig.closed, [idle]);
    // The next call does not queue behind a body that the server never reads.
    let key = rig.start_wave_call();
    let got = rig.expect_request();
    rig.respond_with_json(got.connection, &result_response(&got.body, tool_result()));
    assert_eq!(rig.expect_done(key), Ok(tool_result()));
}

/// Queues a call on an idle connection without writing any of it.
fn connection_with_unwritten_call(rig: &mut PoolHarness) -> (CallKey, ConnectionId) {
    let idle = *rig.servers.keys().next().expect("a connection");
    let options = CallOptions::new();
    let key = rig.client.engine().call_tool(rig.now, "wave", &json!({}), &options).expect("a call");
    assert!(!rig.pool.is_possibly_stale(idle));
    assert!(rig.pool.poll_event(rig.now, &mut rig.client).is_none());
    assert!(rig.pool.is_possibly_stale(idle) && !rig.pool.transmit(idle).is_empty());
    rig.servers.remove(&idle);
    (key, idle)
}

#[test]
fn unwritten_call_moves_to_another_connection() {
    for failure in ["end", "answer", "time-out", "no writing"] {
        let mut rig = PoolHarness::modern(Chunker::Whole);
        let (key, idle) = connection_with_unwritten_call(&mut rig);
        match failure {
            "end" => rig.pool.handle_eof(rig.now, idle),
            // A response that is already there cannot be the answer to this call.
            "answer" => {
                let forged = result_response(
                    &json!({"id": 2}),
                    json!({"resultType": "complete", "content": ["forged"]}),
                );
                let forged = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{forged}",
                    forged.to_string().len()
                );
                rig.pool.handle_input(rig.now, idle, forged.as_bytes());
            }
            "time-out" => {
                let late = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n";
                rig.pool.handle_input(rig.now, idle, late);
                rig.pool.handle_eof(rig.now, idle);
            }
            _ => {
                rig.pool.handle_write_failed(idle);
                assert!(rig.pool.transmit(idle).is_empty());
                rig.pool.handle_eof(rig.now, idle);
            }
        }
        let got = rig.expect_request();
        assert_ne!(got.connection, idle, "{failure}");
        assert_eq!(rig.closed, [idle]);
        rig.respond_with_json(got.connection, &result_response(&got.body, tool_result()));
        assert_eq!(rig.expect_done(key), Ok(tool_result()), "{failure}");
        assert!(rig.received.is_empty() && rig.events.is_empty());
    }
    // A part of the call was written: the server may have run it, so it is not sent again.
    let mut rig = PoolHarness::modern(Chunker::Whole);
    let (key, idle) = connection_with_unwritten_call(&mut rig);
    rig.pool.consume(idle, 0);
    assert!(rig.pool.is_possibly_stale(idle), "nothing was written");
    rig.pool.consume(idle, 1);
    assert!(!rig.pool.is_possibly_stale(idle));
    rig.pool.handle_write_failed(idle);
    rig.pool.handle_eof(rig.now, idle);
    assert!(matches!(expect_http_error(rig.expect_done(key)), HttpError::Lost { .. }));
    assert!(rig.received.is_empty());
}

#[test]
fn close_delimited_response_requires_a_clean_close() {
    for breaks in [false, true] {
        let mut rig = PoolHarness::modern(Chunker::Whole);
        let key = rig.start_wave_call();
        let call = rig.expect_request();
        rig.servers.remove(&call.connection);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";
        let whole = format!("{head}{}", result_response(&call.body, tool_result()));
        rig.pool.handle_input(rig.now, call.connection, whole.as_bytes());
        if breaks {
            rig.pool.handle_broken(rig.now, call.connection, "the cable was cut");
            let error = expect_http_error(rig.expect_done(key));
            assert!(
                matches!(&error, HttpError::Lost { reason } if reason.contains("cable was cut")),
                "{error:?}"
            );
        } else {
            rig.pool.handle_eof(rig.now, call.connection);
            assert_eq!(rig.expect_done(key), Ok(tool_result()));
        }
    }
}

#[test]
fn repeatable_messages_survive_a_closed_idle_connection() {
    let mut rig = PoolHarness::new(VersionSet::ALL, PoolLimits::default(), Chunker::Whole);
    let probe = rig.expect_request();
    rig.respond_with_status(probe.connection, 405);
    // The handshake and its confirmation.
    for method in ["initialize", "notifications/initialized"] {
        let first = rig.expect_request();
        assert_eq!(first.body["method"], method);
        rig.cut_connection(first.connection);
        let again = rig.expect_request();
        assert_ne!(again.connection, first.connection);
        assert_eq!(again.body, first.body);
        if method == "initialize" {
            rig.respond_with_json(
                again.connection,
                &result_response(&again.body, initialize_result("2025-11-25", json!({"tools": {}}))),
            );
            assert!(matches!(rig.events.pop_front(), Some(Event::Ready(_))));
        } else {
            rig.respond_with_status(again.connection, 202);
        }
    }
    let first = rig.expect_request();
    rig.cut_connection(first.connection);
    let get = rig.expect_request();
    assert_eq!((&*first.line, &*get.line), ("GET /mcp", "GET /mcp"));
    rig.start_event_stream(get.connection);
    let key = rig.start_wave_call();
    let call = rig.expect_request();
    rig.respond_with_json(call.connection, &result_response(&call.body, json!({"content": []})));
    assert!(rig.expect_done(key).is_ok());
    // A response that a call at the server waits for.
    rig.send_event(get.connection, &json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}));
    let first = rig.expect_request();
    assert_eq!(first.body["id"], 7);
    rig.cut_connection(first.connection);
    let again = rig.expect_request();
    assert_eq!(again.body, first.body);
    rig.respond_with_status(again.connection, 202);
    // A notification of the application is sent once.
    rig.client.engine().notify(rig.now, "x/y", None::<&Value>).expect("sent");
    let notice = rig.expect_request();
    rig.cut_connection(notice.connection);
    assert!(rig.received.is_empty());
}

// covers: XHDR-029
#[test]
fn call_without_tool_name_fails_with_the_server_error() {
    let mut rig = PoolHarness::modern(Chunker::Whole);
    let nameless = json!({"arguments": {}});
    let options = CallOptions::new();
    let key = rig.client.engine().call(rig.now, "tools/call", &nameless, &options).expect("a call");
    let got = rig.expect_request();
    let text = error_response(&got.body, -32020, "Mcp-Name is missing", Value::Null).to_string();
    let (now, mut fields) = (rig.now, Fields::new());
    fields.push("Content-Type", b"application/json");
    let server = rig.server(got.connection);
    server.respond(now, 400, &fields, BodySize::Exact(text.len() as u64)).expect("a response");
    server.write_body(text.as_bytes()).expect("a body");
    server.end(now).expect("an end");
    assert!(matches!(rig.expect_done(key), Err(CallError::Rpc(e)) if e.code == -32020));
    assert!(rig.received.is_empty());
}

#[test]
fn get_stream_leaves_a_connection_for_calls() {
    for max_connections in [0, 1, 2] {
        let mut limits = PoolLimits::default();
        limits.max_connections = max_connections;
        let mut rig = PoolHarness::new(VersionSet::LEGACY, limits, Chunker::Whole);
        let init = rig.expect_request();
        rig.respond_with_json(
            init.connection,
            &result_response(&init.body, initialize_result("2025-11-25", json!({"tools": {}}))),
        );
        assert!(matches!(rig.events.pop_front(), Some(Event::Ready(_))));
        let initialized = rig.expect_request();
        rig.respond_with_status(initialized.connection, 202);
        let get = rig.expect_request();
        rig.start_event_stream(get.connection);
        let key = rig.start_wave_call();
        let call = rig.expect_request();
        // A ping would time out if it waited for the connection of a long call.
        let ping =
            rig.client.engine().call(rig.now, "ping", &json!({}), &CallOptions::new()).expect("a call");
        let got = rig.expect_request();
        assert_eq!(got.body["method"], "ping");
        rig.respond_with_json(got.connection, &result_response(&got.body, json!({})));
        assert!(rig.expect_done(ping).is_ok());
        rig.respond_with_json(call.connection, &result_response(&call.body, json!({"content": []})));
        assert!(rig.expect_done(key).is_ok(), "{max_connections}");
    }
}

/// Opens four connections with short exchanges, all of which are idle then.
fn rig_with_four_idle_connections() -> PoolHarness {
    let mut limits = PoolLimits::default();
    limits.max_connections = 2;
    let mut rig = PoolHarness::new(VersionSet::MODERN, limits, Chunker::Whole);
    rig.answer_discover();
    let calls = [rig.start_wave_call(), rig.start_wave_call()];
    for _ in 0..2 {
        rig.client.engine().notify(rig.now, "x/y", None::<&Value>).expect("sent");
        rig.pump();
    }
    let received: Vec<ReceivedRequest> = rig.received.drain(..).collect();
    for got in received {
        if got.body["method"] == "x/y" {
            rig.respond_with_status(got.connection, 202);
        } else {
            rig.respond_with_json(got.connection, &result_response(&got.body, tool_result()));
        }
    }
    for call in calls {
        assert_eq!(rig.expect_done(call), Ok(tool_result()));
    }
    assert_eq!((rig.servers.len(), rig.pool.is_idle()), (4, true));
    rig
}

/// Sends a notification, which must not wait, and answers it.
fn expect_notification_at_once(rig: &mut PoolHarness) {
    rig.client.engine().notify(rig.now, "x/y", None::<&Value>).expect("sent");
    let notice = rig.expect_request();
    assert_eq!(notice.body["method"], "x/y");
    rig.respond_with_status(notice.connection, 202);
}

#[test]
fn streams_leave_idle_connections_for_calls_and_messages() {
    let mut rig = rig_with_four_idle_connections();
    let filter = SubscriptionFilter::new().tools_list_changed(true);
    for _ in 0..4 {
        rig.client.engine().subscribe(rig.now, &filter).expect("a subscription");
    }
    // Half of the two connections; the other three streams wait.
    let listen = rig.expect_request();
    assert_eq!(listen.body["method"], "subscriptions/listen");
    rig.start_event_stream(listen.connection);
    expect_notification_at_once(&mut rig);
    let call = rig.start_wave_call();
    let got = rig.expect_request();
    rig.respond_with_json(got.connection, &result_response(&got.body, tool_result()));
    assert_eq!(rig.expect_done(call), Ok(tool_result()));
    // The next stream follows as soon as the first one is gone.
    rig.cut_connection(listen.connection);
    assert_eq!(rig.expect_request().body["method"], "subscriptions/listen");
}

#[test]
fn calls_leave_idle_connections_for_messages() {
    let mut rig = rig_with_four_idle_connections();
    // Each of them may wait for a message of the client, so they must not hold all connections.
    let calls: Vec<CallKey> = (0..4).map(|_| rig.start_wave_call()).collect();
    let mut got: VecDeque<ReceivedRequest> = rig.received.drain(..).collect();
    assert_eq!(got.len(), 2);
    expect_notification_at_once(&mut rig);
    assert!(rig.received.is_empty(), "the connection of a message is no place for a call");
    for call in calls {
        let next = got.pop_front().expect("a call");
        rig.respond_with_json(next.connection, &result_response(&next.body, tool_result()));
        assert_eq!(rig.expect_done(call), Ok(tool_result()));
        got.extend(rig.received.drain(..));
    }
    assert_eq!((rig.servers.len(), rig.pool.is_idle()), (4, true));
}

#[test]
fn streams_and_calls_together_leave_the_connections_of_messages_free() {
    let mut limits = PoolLimits::default();
    limits.max_connections = 4;
    let mut rig = PoolHarness::new(VersionSet::MODERN, limits, Chunker::Whole);
    rig.answer_discover();
    for _ in 0..3 {
        rig.start_wave_call();
    }
    let filter = SubscriptionFilter::new().tools_list_changed(true);
    for _ in 0..2 {
        rig.client.engine().subscribe(rig.now, &filter).expect("a subscription");
    }
    rig.pump();
    let received: Vec<ReceivedRequest> = rig.received.drain(..).collect();
    let methods: Vec<&Value> = received.iter().map(|got| &got.body["method"]).collect();
    assert_eq!(methods, ["tools/call", "tools/call", "tools/call", "subscriptions/listen"]);
    // Although there may be two streams, the second one waits for a call to end.
    rig.respond_with_json(received[0].connection, &result_response(&received[0].body, tool_result()));
    assert_eq!(rig.expect_request().body["method"], "subscriptions/listen");
}

#[test]
fn messages_open_at_most_two_connections_beyond_the_limit() {
    let mut limits = PoolLimits::default();
    limits.max_connections = 2;
    let mut rig = PoolHarness::new(VersionSet::MODERN, limits, Chunker::Whole);
    rig.answer_discover();
    for _ in 0..6 {
        rig.client.engine().notify(rig.now, "x/y", None::<&Value>).expect("sent");
    }
    rig.pump();
    assert_eq!((rig.servers.len(), rig.received.len()), (4, 4));
}

#[test]
fn response_is_processed_behind_a_connection_that_has_nothing_whole() {
    let mut rig = PoolHarness::modern(Chunker::Whole);
    let calls = [rig.start_wave_call(), rig.start_wave_call()];
    let [first, second] = [rig.received.pop_front().expect("one"), rig.received.pop_front().expect("two")];
    rig.pool.handle_input(rig.now, first.connection, b"HTTP/1.1 200");
    let text = result_response(&second.body, tool_result()).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        text.len()
    );
    rig.pool.handle_input(rig.now, second.connection, (head + &text).as_bytes());
    let event = rig.pool.poll_event(rig.now, &mut rig.client);
    assert!(matches!(event, Some(Event::Done { call, outcome: Ok(_), .. }) if call == calls[1]), "{event:?}");
}

#[test]
fn limits_of_a_pool_are_those_of_its_connections_but_for_bodies_and_idle_time() {
    for (limits, mut h1, max_connections) in [
        (PoolLimits::default(), h1::HttpLimits::default(), 32),
        (PoolLimits::small(), h1::HttpLimits::small(), 4),
    ] {
        (h1.keep_alive, h1.max_body) = (secs(4), u64::MAX);
        assert_eq!(
            (limits.h1, limits.max_connections, limits.connect_timeout),
            (h1, max_connections, secs(10))
        );
    }
}

#[test]
fn tapped_pool_records_heads_and_the_bodies_that_fail_requests() {
    for is_tapped in [false, true] {
        let mut rig = PoolHarness::modern(Chunker::Whole);
        if is_tapped {
            rig.pool.tap_heads();
        }
        for body in ["", "out of order"] {
            let key = rig.start_wave_call();
            let got = rig.expect_request();
            let now = rig.now;
            let server = rig.server(got.connection);
            let size = BodySize::Exact(body.len() as u64);
            server.respond(now, 400, &Fields::new(), size).expect("a response");
            server.write_body(body.as_bytes()).expect("a body");
            server.end(now).expect("an end");
            assert!(matches!(expect_http_error(rig.expect_done(key)), HttpError::Response(_)));
        }
        let records: Vec<_> = core::iter::from_fn(|| rig.pool.poll_head()).collect();
        let kinds: Vec<_> = records.iter().map(|record| (record.direction, record.is_body)).collect();
        let expected = [(Out, false), (In, false), (Out, false), (In, false), (In, true)];
        assert_eq!(kinds, if is_tapped { &expected[..] } else { &[] });
        assert!(records.last().is_none_or(|record| record.text == "out of order"), "{records:?}");
    }
}

// covers: SEC-019
#[test]
fn recorded_body_hides_the_credential_that_it_quotes() {
    let credential = Credential::bearer("s3cret-token").expect("a token");
    let config = Config::new(ENDPOINT).expect("a URL").credential(credential);
    let mut rig = PoolHarness::with_config(VersionSet::MODERN, config, PoolLimits::default(), Chunker::Whole);
    rig.answer_discover();
    rig.pool.tap_heads();
    let key = rig.start_wave_call();
    let got = rig.expect_request();
    let (now, body) = (rig.now, "who is s3cret-token?");
    let server = rig.server(got.connection);
    server.respond(now, 400, &Fields::new(), BodySize::Exact(body.len() as u64)).expect("a response");
    server.write_body(body.as_bytes()).expect("a body");
    server.end(now).expect("an end");
    assert!(matches!(expect_http_error(rig.expect_done(key)), HttpError::Response(_)));
    let records: Vec<_> = core::iter::from_fn(|| rig.pool.poll_head()).collect();
    assert!(records.iter().all(|record| !record.text.contains("s3cret")), "{records:?}");
    let body = records.iter().find(|record| record.is_body).expect("the body");
    assert_eq!(body.text, "who is …?");
}
