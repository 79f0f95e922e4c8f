//! A request over a keep-alive connection, from the received bytes to the sent ones; and the memory of sessions.

use alloc::sync::Arc;
use core::hint::black_box;
use core::time::Duration;

use mcp_proto::http::server::{
    Config, Connection, Denial, Event, Protected, Server, SessionId, SharedSessionEvent,
};
use mcp_proto::model::CallToolResult;
use mcp_proto::server::{Call, Identity};
use mcp_proto::{Entropy, Instant, h1, server};

use super::memory::{Footprint, heap_growth};
use super::server::config;
use super::{EchoArguments, Scenario, TEXT, TIME_STEP, advance};
use crate::heap;
use crate::wire::{INITIALIZE, INITIALIZED, RequestLine, WireEra};

/// The token of requests to a protected server, as long as those of a validator that looks them up.
pub(super) const TOKEN: &str = "mF_9.B5f-4.1JqM8s2vL0xQkPzR7tW3yUaEoIhGdNcVbXjKlMnOpQrStUvWxYz";

/// The token of another client.
const OTHER_TOKEN: &str = "nG_0.C6g-5.2KrN9t3wM1yRlQaS8uX4zVbFpJiHeOdYcWkLmPoTrUsZvBxNjEi";

/// An HTTP server with one connection, driven like an adapter.
#[derive(Debug)]
pub(super) struct HttpEcho {
    pub(super) server: Server,
    connection: Connection,
    pub(super) now: Instant,
    out: Vec<u8>,
    /// The identity of every token.
    identity: Arc<Identity>,
    /// The session that was stored last, if sessions are shared.
    pub(super) stored: Option<StoredRecord>,
}

/// The record of a session in a store.
#[derive(Debug)]
pub(super) struct StoredRecord {
    pub(super) id: SessionId,
    version: u64,
    pub(super) bytes: Vec<u8>,
}

impl HttpEcho {
    pub(super) fn new(http: Config) -> Self {
        let now = Instant::from_micros(1);
        let server = Server::new(config(), Arc::new(http), Entropy::new([7; 32], 0));
        let connection = Connection::new(now, h1::HttpLimits::default());
        let identity = identity();
        Self { server, connection, now, out: Vec::new(), identity, stored: None }
    }

    /// Decides about tokens while the heads of their requests are handled.
    fn decide_at_once(&mut self) {
        let identities = [identity(), identity()];
        self.server.set_validator(move |request| {
            let known = [TOKEN, OTHER_TOKEN].iter().position(|known| request.token.reveal() == *known);
            let identity = known.and_then(|at| identities.get(at));
            Some(identity.cloned().ok_or_else(Denial::invalid_token))
        });
    }

    /// Passes in bytes, answers the calls, and takes the output.
    fn exchange(&mut self, bytes: &[u8]) -> &[u8] {
        self.connection.handle_input(self.now, bytes);
        self.connection.drive(self.now, &mut self.server);
        while let Some(event) = self.server.poll_event(self.now) {
            match event {
                Event::Server(server::Event::Call(call)) => self.answer(&call),
                Event::Token { exchange, request } => {
                    assert_eq!(request.token.reveal(), TOKEN, "the token");
                    self.server.grant(self.now, exchange, self.identity.clone());
                    self.connection.drive(self.now, &mut self.server);
                }
                Event::Shared(event) => {
                    self.serve_store(event);
                    self.connection.drive(self.now, &mut self.server);
                }
                _ => {}
            }
        }
        while self.server.poll_ready(self.now).is_some() {
            self.connection.drive(self.now, &mut self.server);
        }
        self.out.clear();
        loop {
            let bytes = self.connection.transmit();
            if bytes.is_empty() {
                break;
            }
            self.out.extend_from_slice(bytes);
            let n = bytes.len();
            self.connection.consume(n);
        }
        // An adapter checks deadlines once per turn of its event loop.
        while self.server.poll_timeout().is_some_and(|at| at <= self.now) {
            self.server.handle_timeout(self.now);
        }
        &self.out
    }

    fn answer(&mut self, call: &Call) {
        let echo = call.tool_call().and_then(|tool| tool.parse::<EchoArguments<'_>>()).expect("arguments");
        let result = CallToolResult::text(echo.text);
        self.server.engine().complete(self.now, call.id(), &result).expect("an open call");
    }

    /// Answers as a store that has one record.
    fn serve_store(&mut self, event: SharedSessionEvent) {
        let mut sessions = self.server.shared_sessions();
        match event {
            SharedSessionEvent::Load { exchange, .. } => {
                let stored = self.stored.as_ref().expect("a record");
                sessions
                    .found(self.now, exchange, stored.version, &stored.bytes)
                    .expect("that of the session");
            }
            SharedSessionEvent::Changed { exchange, id } => {
                let record = sessions.save(&id).expect("a session");
                let version = record.replaces + 1;
                sessions.stored(self.now, exchange, version);
                self.stored = Some(StoredRecord { id, version, bytes: record.bytes });
            }
            other => panic!("{other:?}"),
        }
    }

    /// Opens a session with these further fields and returns its id.
    pub(super) fn session(&mut self, fields: &str) -> String {
        let answer = String::from_utf8(self.exchange(&post(fields, INITIALIZE)).to_vec()).expect("text");
        let (_, rest) = answer.split_once("Mcp-Session-Id: ").expect("a session");
        let id = rest.split_once("\r\n").expect("a line").0.to_owned();
        let field = format!("{fields}Mcp-Session-Id: {id}\r\n");
        let taken = self.exchange(&post(&field, INITIALIZED));
        assert!(taken.starts_with(b"HTTP/1.1 202 "), "accepted");
        id
    }
}

/// Returns what the token of requests means.
fn identity() -> Arc<Identity> {
    Arc::new(Identity::new("alice").scopes("tools:use"))
}

/// Returns a POST with the head that `bench-http` writes.
fn post(fields: &str, body: &[u8]) -> Vec<u8> {
    let mut request = format!(
        "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{fields}Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    request
}

/// Returns the field with a token.
fn authorization(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// One request over a keep-alive connection.
#[derive(Debug)]
pub struct HttpCall {
    pub(super) echo: HttpEcho,
    request: RequestLine,
    bytes: Vec<u8>,
    body: usize,
    /// Where the token begins that changes with each request.
    changing_token: Option<usize>,
}

impl HttpCall {
    /// Returns the scenario in its steady state, after a few calls.
    #[must_use]
    pub fn new(era: WireEra) -> Self {
        Self::with_fields(era, HttpEcho::new(Config::new()), "")
    }

    /// Returns the scenario of a protected server, to which each request brings a token.
    ///
    /// It decides about the token `at_once`, or when it processes the event.
    #[must_use]
    pub fn protected(era: WireEra, at_once: bool) -> Self {
        let protected = Protected::new("https://tools.example.com/mcp", "https://login.example.com");
        let protected = protected.and_then(|protected| protected.scope("tools:use")).expect("valid");
        let mut echo = HttpEcho::new(Config::new().protected(protected));
        if at_once {
            echo.decide_at_once();
        }
        Self::with_fields(era, echo, &authorization(TOKEN))
    }

    /// Returns the scenario of a protected server whose requests bring the tokens of two clients in turn.
    #[must_use]
    pub fn of_two_clients(era: WireEra) -> Self {
        let mut call = Self::protected(era, true);
        call.changing_token = call.bytes.windows(TOKEN.len()).position(|text| text == TOKEN.as_bytes());
        call
    }

    /// Returns the scenario of an open server, to which each request brings a token that it ignores.
    #[must_use]
    pub fn ignored_token(era: WireEra) -> Self {
        Self::with_fields(era, HttpEcho::new(Config::new()), &authorization(TOKEN))
    }

    /// Returns the scenario of a server that shares its sessions with other processes.
    #[must_use]
    pub fn shared(era: WireEra) -> Self {
        let mut echo = HttpEcho::new(Config::new());
        echo.server.shared_sessions().begin(1);
        Self::with_fields(era, echo, "")
    }

    fn with_fields(era: WireEra, mut scenario: HttpEcho, more: &str) -> Self {
        let request = RequestLine::new(era, TEXT);
        let fields = match era {
            WireEra::Legacy => {
                format!("MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {}\r\n", scenario.session(more))
            }
            WireEra::Modern => {
                "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n".to_owned()
            }
        };
        let line = request.line();
        let body = line.len() - 1;
        let bytes = post(&format!("{more}{fields}"), &line[..body]);
        let mut call = Self { echo: scenario, request, bytes, body, changing_token: None };
        for _ in 0..100 {
            call.run_once();
        }
        call
    }
}

impl Scenario for HttpCall {
    fn run_once(&mut self) {
        advance(&mut self.echo.now, TIME_STEP);
        let at = self.bytes.len() - self.body;
        let line = self.request.advance();
        self.bytes[at..].copy_from_slice(&line[..self.body]);
        if let Some(at) = self.changing_token {
            let token = &mut self.bytes[at..at + TOKEN.len()];
            let next = if token == TOKEN.as_bytes() { OTHER_TOKEN } else { TOKEN };
            token.copy_from_slice(next.as_bytes());
        }
        let answer = black_box(self.echo.exchange(black_box(&self.bytes)));
        assert!(answer.starts_with(b"HTTP/1.1 200 ") && answer.len() > TEXT, "an answer");
    }
}

/// Returns the memory per legacy session after one call, with or without an open GET stream.
#[must_use]
pub fn sessions(streams: bool, n: usize) -> Footprint {
    let http = Config::new().max_sessions(n + 10, n + 10).max_exchanges(2 * n + 10);
    let mut scenario = HttpEcho::new(Config::new());
    scenario.server = Server::new(config(), Arc::new(http), Entropy::new([7; 32], 0));
    let mut request = RequestLine::new(WireEra::Legacy, TEXT);
    let mut connections = Vec::with_capacity(n);
    let before = heap::snapshot().live;
    for _ in 0..n {
        let id = scenario.session("");
        let field = format!("Mcp-Session-Id: {id}\r\n");
        let line = request.advance();
        let body = line[..line.len() - 1].to_vec();
        assert!(scenario.exchange(&post(&field, &body)).starts_with(b"HTTP/1.1 200 "), "an answer");
        if streams {
            let get =
                format!("GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n{field}\r\n");
            assert!(scenario.exchange(get.as_bytes()).starts_with(b"HTTP/1.1 200 "), "a stream");
            let fresh = Connection::new(scenario.now, h1::HttpLimits::default());
            connections.push(core::mem::replace(&mut scenario.connection, fresh));
        }
    }
    advance(&mut scenario.now, Duration::from_secs(2));
    while scenario.server.poll_timeout().is_some_and(|at| at <= scenario.now) {
        scenario.server.handle_timeout(scenario.now);
    }
    // As an adapter does: an idle connection then gives its buffers back.
    for connection in &mut connections {
        while connection.poll_timeout().is_some_and(|at| at <= scenario.now) {
            connection.handle_timeout(scenario.now);
            connection.drive(scenario.now, &mut scenario.server);
        }
    }
    scenario.out = Vec::new();
    assert_eq!(scenario.server.session_count(), n, "all sessions are open");
    // The owner of a connection stores it in a table.
    Footprint {
        heap: heap_growth(before) / n as f64,
        inline: if streams { size_of::<Connection>() } else { 0 },
    }
}
