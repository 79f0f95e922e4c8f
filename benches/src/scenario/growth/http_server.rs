//! A server over HTTP at exchange level, with sessions, open exchanges and open streams.

use alloc::sync::Arc;
use core::hint::black_box;

use bytes::Bytes;
use mcp_proto::head::RequestHead;
use mcp_proto::http::server::{Config, Event, ExchangeId, Server, SessionId, SharedSessionEvent};
use mcp_proto::model::CallToolResult;
use mcp_proto::server::{self, Call};
use mcp_proto::{Capabilities, Capability, Entropy, Instant};

use super::super::{Scenario, TIME_STEP, advance};
use super::engine::{FIRST_NUMBER, INITIALIZE, NumberedMessage};
use super::{Scattered, limits, settle_allocator, warmed_up};
use crate::wire::{INITIALIZED, modern, text};

/// A server over HTTP with a virtual clock.
#[derive(Debug)]
pub(super) struct HttpServer {
    pub(super) server: Server,
    pub(super) now: Instant,
}

/// A field line of a request.
pub(super) type Field<'a> = (&'a str, &'a [u8]);

impl HttpServer {
    /// Returns a server with room for `n` of everything.
    pub(super) fn new(n: usize) -> Self {
        let capabilities = Capabilities::new().with(Capability::Tools).with(Capability::ToolsListChanged);
        let config = server::Config::new("echo", "1.0.0").capabilities(capabilities).limits(limits(n));
        let room = n + 1_000;
        let http = Config::new()
            .max_sessions(room, room)
            // Three quarters of them may be streams.
            .max_exchanges(4 * room)
            .max_streams_per_session(room);
        let server = Server::new(Arc::new(config), Arc::new(http), Entropy::new([7; 32], 0));
        Self { server, now: Instant::from_micros(1) }
    }

    /// Opens an exchange with a whole request.
    pub(super) fn request(&mut self, method: &str, fields: &[Field<'_>], body: &[u8]) -> ExchangeId {
        let all: Vec<Field<'_>> = COMMON_FIELDS.iter().chain(fields).copied().collect();
        let head = RequestHead { method, target: "/mcp", fields: &all };
        let exchange = self.server.open(self.now, black_box(&head), Some(body.len() as u64));
        if self.server.wants_body(exchange) {
            self.server.handle_body(self.now, exchange, Bytes::copy_from_slice(black_box(body)));
        }
        self.server.handle_end(self.now, exchange);
        exchange
    }

    /// Polls events up to the next call.
    pub(super) fn next_call(&mut self) -> Option<Call> {
        while let Some(event) = self.server.poll_event(self.now) {
            if let Event::Server(server::Event::Call(call)) = event {
                return Some(call);
            }
        }
        None
    }

    pub(super) fn complete(&mut self, call: &Call) {
        let result = CallToolResult::text("done");
        self.server.engine().complete(self.now, call.id(), &result).expect("an open call");
    }

    /// Takes the output of an exchange; the others that are ready have none.
    pub(super) fn take_output(&mut self, exchange: ExchangeId) -> Vec<u8> {
        while self.server.poll_ready(self.now).is_some() {}
        let mut output = Vec::new();
        loop {
            let bytes = black_box(self.server.transmit(self.now, exchange));
            if bytes.is_empty() {
                return output;
            }
            output.extend_from_slice(bytes);
            let sent = bytes.len();
            self.server.consume(exchange, sent);
        }
    }

    pub(super) fn status(&self, exchange: ExchangeId) -> u16 {
        self.server.response(exchange).expect("a response").status
    }

    /// Takes a whole response.
    pub(super) fn finish(&mut self, exchange: ExchangeId) {
        self.take_output(exchange);
        assert!(matches!(self.status(exchange), 200 | 202 | 204), "accepted: {}", self.status(exchange));
        assert!(self.server.is_finished(exchange), "a whole response");
        self.server.release(self.now, exchange);
    }

    /// Opens a session and returns its id.
    pub(super) fn open_session(&mut self) -> String {
        let exchange = self.request("POST", &[], INITIALIZE);
        self.take_output(exchange);
        let fields = &self.server.response(exchange).expect("a response").fields;
        let id =
            fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(SESSION)).map(|(_, id)| id.to_vec());
        let id = String::from_utf8(id.expect("a session")).expect("text");
        self.finish(exchange);
        let exchange = self.request("POST", &[(SESSION, id.as_bytes())], INITIALIZED);
        self.finish(exchange);
        assert!(self.next_call().is_none(), "no call");
        id
    }

    /// Opens a GET stream.
    pub(super) fn open_stream(&mut self, session: &str, last_event: Option<&[u8]>) -> ExchangeId {
        let fields = [(SESSION, session.as_bytes()), ("Last-Event-ID", last_event.unwrap_or_default())];
        let count = if last_event.is_some() { 2 } else { 1 };
        let exchange = self.request("GET", &fields[..count], b"");
        assert_eq!(self.status(exchange), 200, "a stream");
        exchange
    }

    /// Advances the time by a step and handles the deadlines that are due, as an adapter does in each turn of its loop.
    pub(super) fn turn(&mut self) {
        advance(&mut self.now, TIME_STEP);
        while self.server.poll_timeout().is_some_and(|at| at <= self.now) {
            self.server.handle_timeout(self.now);
        }
    }
}

/// The field of the session id.
pub(super) const SESSION: &str = "Mcp-Session-Id";

const COMMON_FIELDS: [Field<'static>; 3] = [
    ("Host", b"127.0.0.1:8080"),
    ("Content-Type", b"application/json"),
    ("Accept", b"application/json, text/event-stream"),
];

/// The fields of a modern call of `echo`.
const MODERN_FIELDS: [Field<'static>; 3] =
    [("MCP-Protocol-Version", b"2026-07-28"), ("Mcp-Method", b"tools/call"), ("Mcp-Name", b"echo")];

/// Returns a modern call of `echo`.
fn modern_call() -> NumberedMessage {
    let (text, meta) = (text(100), modern());
    NumberedMessage::new(&format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":#,\"method\":\"tools/call\",\"params\":{{\"name\":\"echo\",\
         \"arguments\":{{\"text\":\"{text}\"}},{meta}}}}}"
    ))
}

/// The others beside which a server over HTTP is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Others {
    /// Sessions, of which one is called.
    Sessions,
    /// Modern calls in flight.
    Exchanges,
    /// Calls in flight of the session that is called.
    SessionCalls,
    /// Sessions with an open GET stream, of which one is called.
    GetStreams,
}

/// A call beside others.
pub(super) struct CallOverHttp {
    http: HttpServer,
    sessions: Vec<String>,
    request: NumberedMessage,
    order: Scattered,
    next: u64,
}

impl CallOverHttp {
    pub(super) fn new(others: Others, n: usize) -> Self {
        let mut http = HttpServer::new(n);
        let mut next = FIRST_NUMBER;
        let mut request =
            if others == Others::Exchanges { modern_call() } else { NumberedMessage::call("#") };
        let sessions: Vec<String> = match others {
            Others::Sessions => (0..n).map(|_| http.open_session()).collect(),
            Others::GetStreams => {
                let open = |_| {
                    let session = http.open_session();
                    let exchange = http.open_stream(&session, None);
                    http.take_output(exchange);
                    session
                };
                (0..n).map(open).collect()
            }
            Others::SessionCalls => vec![http.open_session()],
            Others::Exchanges => Vec::new(),
        };
        if matches!(others, Others::Exchanges | Others::SessionCalls) {
            for _ in 0..n {
                next += 1;
                start_call(&mut http, sessions.first(), request.with(next));
            }
        }
        let order = Scattered::new(sessions.len().max(1));
        warmed_up(Self { http, sessions, request, order, next })
    }
}

/// Starts a call, in a session if there is one.
fn start_call(http: &mut HttpServer, session: Option<&String>, body: &[u8]) -> (ExchangeId, Call) {
    let exchange = match session {
        Some(session) => http.request("POST", &[(SESSION, session.as_bytes())], body),
        None => http.request("POST", &MODERN_FIELDS, body),
    };
    (exchange, http.next_call().expect("a call"))
}

impl Scenario for CallOverHttp {
    fn run_once(&mut self) {
        self.next += 1;
        let session = self.sessions.get(self.order.advance());
        let (exchange, call) = start_call(&mut self.http, session, self.request.with(self.next));
        self.http.complete(&call);
        self.http.finish(exchange);
        self.http.turn();
    }
}

/// The look for expired sessions among `n`, none of which has expired.
///
/// There are 16 of them in the idle timeout, so it runs a few times only.
pub(super) struct ExpiryCheck(HttpServer);

impl ExpiryCheck {
    pub(super) fn new(n: usize) -> Self {
        let mut http = HttpServer::new(n);
        (0..n).for_each(|_| _ = http.open_session());
        settle_allocator();
        Self(http)
    }
}

impl Scenario for ExpiryCheck {
    fn run_once(&mut self) {
        let http = &mut self.0;
        http.now = http.server.poll_timeout().expect("sessions are looked at");
        http.server.handle_timeout(http.now);
        while http.server.poll_event(http.now).is_some() {}
        assert!(http.server.session_count() > 0, "none has expired");
    }
}

/// A session that is shared begins, and the store has one of `n` that have begun; that one is dropped.
pub(super) struct StoreSession {
    http: HttpServer,
    begun: Vec<(ExchangeId, SessionId)>,
    order: Scattered,
}

impl StoreSession {
    pub(super) fn new(n: usize) -> Self {
        let mut http = HttpServer::new(n);
        http.server.shared_sessions().begin(1);
        let begun = (0..n).map(|_| begin_shared_session(&mut http)).collect();
        warmed_up(Self { http, begun, order: Scattered::new(n) })
    }
}

/// Begins a session whose response waits for the store.
fn begin_shared_session(http: &mut HttpServer) -> (ExchangeId, SessionId) {
    let exchange = http.request("POST", &[], INITIALIZE);
    loop {
        let event = http.server.poll_event(http.now).expect("a session to be stored");
        if let Event::Shared(SharedSessionEvent::Changed { id, .. }) = event {
            return (exchange, id);
        }
    }
}

impl Scenario for StoreSession {
    fn run_once(&mut self) {
        let http = &mut self.http;
        let begun = begin_shared_session(http);
        let (exchange, id) = core::mem::replace(&mut self.begun[self.order.advance()], begun);
        let mut sessions = http.server.shared_sessions();
        assert!(black_box(sessions.save(&id)).is_some(), "a record");
        sessions.stored(http.now, exchange, 1);
        http.finish(exchange);
        http.server.shared_sessions().forget(http.now, &id);
        while http.server.poll_event(http.now).is_some() {}
        http.turn();
    }
}

/// The begin of a session, and the end of one of `n`.
pub(super) struct SessionOverHttp {
    http: HttpServer,
    sessions: Vec<String>,
    order: Scattered,
}

impl SessionOverHttp {
    pub(super) fn new(n: usize) -> Self {
        let mut http = HttpServer::new(n);
        let sessions = (0..n).map(|_| http.open_session()).collect();
        warmed_up(Self { http, sessions, order: Scattered::new(n) })
    }
}

impl Scenario for SessionOverHttp {
    fn run_once(&mut self) {
        let opened = self.http.open_session();
        let ended = core::mem::replace(&mut self.sessions[self.order.advance()], opened);
        let exchange = self.http.request("DELETE", &[(SESSION, ended.as_bytes())], b"");
        self.http.finish(exchange);
        assert!(self.http.next_call().is_none(), "no call");
        self.http.turn();
    }
}

/// A new modern call, and the end of one of `n` because its client is gone.
pub(super) struct DisconnectCall {
    http: HttpServer,
    exchanges: Vec<ExchangeId>,
    request: NumberedMessage,
    order: Scattered,
    next: u64,
}

impl DisconnectCall {
    pub(super) fn new(n: usize) -> Self {
        let mut http = HttpServer::new(n);
        let mut request = modern_call();
        let exchanges = (FIRST_NUMBER..).take(n).map(|id| start_call(&mut http, None, request.with(id)).0);
        let exchanges = exchanges.collect();
        let next = FIRST_NUMBER + n as u64;
        warmed_up(Self { http, exchanges, request, order: Scattered::new(n), next })
    }
}

impl Scenario for DisconnectCall {
    fn run_once(&mut self) {
        self.next += 1;
        let (opened, _) = start_call(&mut self.http, None, self.request.with(self.next));
        let gone = core::mem::replace(&mut self.exchanges[self.order.advance()], opened);
        self.http.server.handle_gone(self.http.now, gone);
        assert!(self.http.next_call().is_none(), "no call");
        self.http.turn();
    }
}

/// A new listen stream, and the end of one of `n` because its client is gone.
pub(super) struct ListenOverHttp {
    http: HttpServer,
    exchanges: Vec<ExchangeId>,
    order: Scattered,
}

impl ListenOverHttp {
    pub(super) fn new(n: usize) -> Self {
        let mut http = HttpServer::new(n);
        let exchanges = (0..n).map(|_| listen(&mut http)).collect();
        warmed_up(Self { http, exchanges, order: Scattered::new(n) })
    }
}

fn listen(http: &mut HttpServer) -> ExchangeId {
    let body = format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{{\"notifications\":\
         {{\"toolsListChanged\":true}},{}}}}}",
        modern()
    );
    let fields: [Field<'_>; 2] =
        [("MCP-Protocol-Version", b"2026-07-28"), ("Mcp-Method", b"subscriptions/listen")];
    let exchange = http.request("POST", &fields, body.as_bytes());
    assert!(!http.take_output(exchange).is_empty(), "acknowledged");
    exchange
}

impl Scenario for ListenOverHttp {
    fn run_once(&mut self) {
        let opened = listen(&mut self.http);
        let gone = core::mem::replace(&mut self.exchanges[self.order.advance()], opened);
        self.http.server.handle_gone(self.http.now, gone);
        assert!(self.http.next_call().is_none(), "no call");
        self.http.turn();
    }
}
