//! A request over a keep-alive connection, from the bytes that a socket gave to those that it takes; and what sessions
//! hold.

use alloc::sync::Arc;
use core::hint::black_box;
use core::time::Duration;

use mcp_proto::http::server::{Config, Connection, Event, Server};
use mcp_proto::model::CallToolResult;
use mcp_proto::server::Call;
use mcp_proto::{Entropy, Instant, h1, server};

use super::memory::{Held, grown};
use super::server::config;
use super::{Echo, STEP, Scenario, TEXT, pass};
use crate::heap;
use crate::wire::{Era, INITIALIZE, INITIALIZED, Request};

/// A server over HTTP with one connection, driven as an adapter drives it
#[derive(Debug)]
struct Site {
    server: Server,
    connection: Connection,
    now: Instant,
    out: Vec<u8>,
}

impl Site {
    fn new() -> Self {
        let now = Instant::from_micros(1);
        let server = Server::new(config(), Arc::new(Config::new()), Entropy::new([7; 32], 0));
        Self { server, connection: Connection::new(now, h1::Limits::default()), now, out: Vec::new() }
    }

    /// Hands bytes over, answers what comes of them, and takes what is written
    fn exchange(&mut self, bytes: &[u8]) -> &[u8] {
        self.connection.handle_input(self.now, bytes);
        self.connection.drive(self.now, &mut self.server);
        while let Some(event) = self.server.poll_event(self.now) {
            if let Event::Server(server::Event::Call(call)) = event {
                self.answer(&call);
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
        // An adapter looks once per turn of its loop.
        while self.server.poll_timeout().is_some_and(|at| at <= self.now) {
            self.server.handle_timeout(self.now);
        }
        &self.out
    }

    fn answer(&mut self, call: &Call) {
        let echo = call.tool().and_then(|tool| tool.parse::<Echo<'_>>()).expect("arguments");
        let result = CallToolResult::text(echo.text);
        self.server.engine().complete(self.now, call.id(), &result).expect("an open call");
    }

    /// Opens a session; its id
    fn session(&mut self) -> String {
        let answer = String::from_utf8(self.exchange(&post("", INITIALIZE)).to_vec()).expect("text");
        let (_, rest) = answer.split_once("Mcp-Session-Id: ").expect("a session");
        let id = rest.split_once("\r\n").expect("a line").0.to_owned();
        let field = format!("Mcp-Session-Id: {id}\r\n");
        let taken = self.exchange(&post(&field, INITIALIZED));
        assert!(taken.starts_with(b"HTTP/1.1 202 "), "taken");
        id
    }
}

/// A POST as the driver of `tools/perf` writes it
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

/// One request over a keep-alive connection
#[derive(Debug)]
pub struct HttpCall {
    site: Site,
    request: Request,
    bytes: Vec<u8>,
    body: usize,
}

impl HttpCall {
    /// In the steady state: a few calls were made
    #[must_use]
    pub fn new(era: Era) -> Self {
        let mut site = Site::new();
        let request = Request::new(era, TEXT);
        let fields = match era {
            Era::Legacy => {
                format!("MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {}\r\n", site.session())
            }
            Era::Modern => {
                "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n".to_owned()
            }
        };
        let line = request.line();
        let body = line.len() - 1;
        let bytes = post(&fields, &line[..body]);
        let mut call = Self { site, request, bytes, body };
        for _ in 0..100 {
            call.op();
        }
        call
    }
}

impl Scenario for HttpCall {
    fn op(&mut self) {
        pass(&mut self.site.now, STEP);
        let at = self.bytes.len() - self.body;
        let line = self.request.advance();
        self.bytes[at..].copy_from_slice(&line[..self.body]);
        let answer = black_box(self.site.exchange(black_box(&self.bytes)));
        assert!(answer.starts_with(b"HTTP/1.1 200 ") && answer.len() > TEXT, "an answer");
    }
}

/// Per legacy session in which one call was made; with its GET stream open or not
#[must_use]
pub fn sessions(streams: bool, n: usize) -> Held {
    let http = Config::new().max_sessions(n + 10, n + 10).max_exchanges(2 * n + 10);
    let mut site = Site::new();
    site.server = Server::new(config(), Arc::new(http), Entropy::new([7; 32], 0));
    let mut request = Request::new(Era::Legacy, TEXT);
    let mut connections = Vec::with_capacity(n);
    let before = heap::now().live;
    for _ in 0..n {
        let id = site.session();
        let field = format!("Mcp-Session-Id: {id}\r\n");
        let line = request.advance();
        let body = line[..line.len() - 1].to_vec();
        assert!(site.exchange(&post(&field, &body)).starts_with(b"HTTP/1.1 200 "), "an answer");
        if streams {
            let get =
                format!("GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n{field}\r\n");
            assert!(site.exchange(get.as_bytes()).starts_with(b"HTTP/1.1 200 "), "a stream");
            let fresh = Connection::new(site.now, h1::Limits::default());
            connections.push(core::mem::replace(&mut site.connection, fresh));
        }
    }
    pass(&mut site.now, Duration::from_secs(2));
    while site.server.poll_timeout().is_some_and(|at| at <= site.now) {
        site.server.handle_timeout(site.now);
    }
    site.out = Vec::new();
    assert_eq!(site.server.sessions(), n, "all of them");
    // A connection has a place of its own in its owner's table.
    Held { heap: grown(before) / n as f64, inline: if streams { size_of::<Connection>() } else { 0 } }
}
