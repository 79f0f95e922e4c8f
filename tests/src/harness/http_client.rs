//! Harness for an HTTP client at exchange level: the test is both the server and the HTTP implementation.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt::Write as _;
use core::time::Duration;

use mcp_proto::client::{self, Event, Peer};
use mcp_proto::http::client::{
    Action, Challenge, Client, Config, ExchangeClass, ExchangeFailure, ExchangeId, Url,
};
use mcp_proto::http::fields::decode_value;
use mcp_proto::{CallError, CallKey, CallOptions, Fault, Instant, RawJson, Version, VersionSet, head};
use serde_json::{Value, json};

use super::observer::MessageObserver;
use super::pipe::Transcript;
use super::{build, describe};
use crate::schema::MessageDirection;
use mcp_sim::stream::{ChunkSizes, Chunker};

/// A request that the client sends.
#[derive(Debug)]
pub struct SentRequest {
    /// Exchange, by which the request is answered.
    pub id: ExchangeId,
    /// Method, `POST` for example.
    pub method: &'static str,
    /// Target.
    pub url: Arc<Url>,
    /// Header fields.
    pub fields: Vec<(String, String)>,
    /// Body; null if there is none.
    pub body: Value,
    /// Class of the exchange, which determines its timeout.
    pub class: ExchangeClass,
}

impl SentRequest {
    /// Returns the value of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// Checks the rules for every request head of a client.
    fn assert_valid_head(&self, mirrors_in_legacy_sessions: bool) {
        // Otherwise a server may encode its answer as it likes.
        assert_eq!(self.field("Accept-Encoding"), Some("identity"), "{self:?}");
        for (at, (name, value)) in self.fields.iter().enumerate() {
            assert!(head::is_token(name.as_bytes()), "{self:?}");
            let bare = value.trim_matches([' ', '\t']);
            assert!(bare == value && value.bytes().all(|b| matches!(b, b' '..=b'~' | b'\t')), "{self:?}");
            let is_repeated = self.fields.iter().skip(at + 1).any(|(n, _)| n.eq_ignore_ascii_case(name));
            assert!(!is_repeated, "`{name}` occurs twice: {self:?}");
        }
        let (accept, kind) = match self.method {
            "POST" => (Some("application/json, text/event-stream"), Some("application/json")),
            "GET" => (Some("text/event-stream"), None),
            "DELETE" => (None, None),
            other => panic!("unexpected method: {other}"),
        };
        assert_eq!((self.field("accept"), self.field("content-type")), (accept, kind), "{self:?}");
        assert_eq!(self.body.is_null(), self.method != "POST", "{self:?}");
        let version = self.field("mcp-protocol-version");
        let named_version = self.body.pointer("/params/_meta/io.modelcontextprotocol~1protocolVersion");
        if named_version.is_some() {
            assert_eq!(version, named_version.and_then(Value::as_str), "HTTP-030: {self:?}");
            let method =
                self.field("mcp-method").map(|m| decode_value(m.as_bytes()).expect("a decodable field"));
            assert_eq!(method.as_deref(), self.body["method"].as_str(), "HTTP-032: {self:?}");
            let session_fields = ["mcp-session-id", "last-event-id"];
            assert!(session_fields.iter().all(|name| self.field(name).is_none()), "{self:?}");
        } else if version != Some("2026-07-28") && !mirrors_in_legacy_sessions {
            let mirrors = |name: &str| {
                let name = name.to_ascii_lowercase();
                name == "mcp-method" || name == "mcp-name" || name.starts_with("mcp-param-")
            };
            assert!(!self.fields.iter().any(|(name, _)| mirrors(name)), "{self:?}");
        }
    }
}

/// An HTTP client, with the test as its server.
#[derive(Debug)]
pub struct HttpClientHarness {
    /// Client under test, for commands; call [`pump`](Self::pump) after them.
    pub client: Client,
    /// Virtual time.
    pub now: Instant,
    /// Observer of both directions.
    pub observer: MessageObserver,
    /// All output since the start.
    pub transcript: Transcript,
    /// Deprecated features that were reported; kept apart from the events.
    pub deprecated_features: Vec<mcp_proto::DeprecatedFeature>,
    /// Whether requests of a legacy session may repeat parts of the body in header fields (default no).
    pub mirrors_in_legacy_sessions: bool,
    chunk_sizes: ChunkSizes,
    events: VecDeque<Event>,
    sent_requests: VecDeque<SentRequest>,
    aborted: VecDeque<ExchangeId>,
    open: Vec<ExchangeId>,
}

/// URL of the endpoint.
pub const ENDPOINT: &str = "http://tide.example:3000/mcp";

impl HttpClientHarness {
    /// Returns a client whose response bodies are cut by `chunker`.
    #[must_use]
    pub fn new(config: client::Config, http: Config, chunker: Chunker) -> Self {
        Self::begin(config, http, chunker, false)
    }

    /// Returns a client that repeats parts of the body in header fields from its first request on, in every revision.
    #[must_use]
    pub fn mirroring(config: client::Config, http: Config, chunker: Chunker) -> Self {
        Self::begin(config, http, chunker, true)
    }

    fn begin(config: client::Config, http: Config, chunker: Chunker, mirrors: bool) -> Self {
        let mut harness = Self {
            client: Client::new(Arc::new(config), Arc::new(http), Instant::ZERO),
            now: Instant::ZERO,
            observer: MessageObserver::new(VersionSet::ALL),
            transcript: Transcript::default(),
            deprecated_features: Vec::new(),
            mirrors_in_legacy_sessions: mirrors,
            chunk_sizes: ChunkSizes::new(chunker),
            events: VecDeque::new(),
            sent_requests: VecDeque::new(),
            aborted: VecDeque::new(),
            open: Vec::new(),
        };
        harness.pump();
        harness
    }

    /// Returns the configuration of a client of [`ENDPOINT`].
    ///
    /// # Panics
    ///
    /// Never: the URL is valid.
    #[must_use]
    pub fn default_http_config() -> Config {
        Config::new(ENDPOINT).expect("a URL")
    }

    // ---- progress --------------------------------------------------------------------------------------------

    /// Takes all events and actions.
    pub fn pump(&mut self) {
        loop {
            if let Some(event) = self.client.poll_event(self.now) {
                if let Some(feature) = describe::deprecated_by_server(&event) {
                    self.deprecated_features.push(feature);
                    continue;
                }
                self.transcript.events.push(describe::client_event(&event));
                self.events.push_back(event);
                continue;
            }
            match self.client.poll_exchange(self.now) {
                Some(Action::Send(open)) => {
                    let mut body = Value::Null;
                    if !open.body.is_empty() {
                        body = self.observer.record_emitted(
                            self.now,
                            MessageDirection::ClientToServer,
                            &open.body,
                        );
                        assert!(
                            body.is_object(),
                            "expected one message per body (HTTP-009, HTTP-014), got {body}"
                        );
                    }
                    let fields = open.fields.iter();
                    let fields: Vec<_> = fields
                        .map(|(n, v)| (n.to_owned(), String::from_utf8(v.to_vec()).expect("text")))
                        .collect();
                    let mut line = format!("{} {:?}", open.method, open.url);
                    for (name, value) in &fields {
                        let _ = write!(line, " {name}={value}");
                    }
                    self.transcript.sent.push(format!("{line} {body}"));
                    self.open.push(open.exchange);
                    let request = SentRequest {
                        id: open.exchange,
                        method: open.method,
                        url: open.url,
                        fields,
                        body,
                        class: open.class,
                    };
                    request.assert_valid_head(self.mirrors_in_legacy_sessions);
                    self.sent_requests.push_back(request);
                }
                Some(Action::Abort { exchange }) => {
                    assert!(!self.client.is_open(exchange), "aborted exchange is still known");
                    let at = self.open.iter().position(|x| *x == exchange).expect("aborted once, and open");
                    self.open.swap_remove(at);
                    self.transcript.sent.push("abort".into());
                    self.aborted.push_back(exchange);
                }
                Some(other) => panic!("{other:?}"),
                None => return,
            }
        }
    }

    /// Advances the time by `span` and handles each deadline on the way.
    ///
    /// # Panics
    ///
    /// If deadlines fire without end while time does not advance.
    pub fn advance(&mut self, span: Duration) {
        let until = self.now + span;
        for _ in 0..100_000 {
            let next = self.client.poll_timeout();
            assert_eq!(next.is_some(), self.client.timeout_reason().is_some(), "a deadline without a reason");
            let next = next.filter(|at| *at <= until);
            self.now = next.unwrap_or(until).max(self.now);
            self.client.handle_timeout(self.now);
            self.pump();
            if next.is_none() {
                return;
            }
        }
        panic!("deadlines fire without end at {}", self.now);
    }

    // ---- responses -------------------------------------------------------------------------------------------

    /// Receives the head of a response.
    pub fn receive_head(&mut self, x: ExchangeId, status: u16, fields: &[(&str, &str)]) {
        let fields: Vec<head::FieldLine<'_>> = fields.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
        self.client.handle_head(self.now, x, &head::ResponseHead { status, fields: &fields });
        self.pump();
    }

    /// Receives a part of a response body, cut into pieces.
    pub fn receive_body(&mut self, x: ExchangeId, bytes: impl AsRef<[u8]>) {
        let mut rest = bytes.as_ref();
        while !rest.is_empty() {
            let n = self.chunk_sizes.next(rest.len());
            let (piece, tail) = rest.split_at(n);
            self.client.handle_body(self.now, x, piece);
            self.pump();
            rest = tail;
        }
    }

    /// Receives the end of a response.
    pub fn receive_end(&mut self, x: ExchangeId) {
        self.open.retain(|open| *open != x);
        self.client.handle_end(self.now, x);
        self.pump();
    }

    /// Breaks the connection of an exchange after the request was sent.
    pub fn break_connection(&mut self, x: ExchangeId) {
        self.open.retain(|open| *open != x);
        self.client.handle_failure(self.now, x, ExchangeFailure::interrupted("connection reset"));
        self.pump();
    }

    /// Refuses the connection of an exchange.
    pub fn refuse_connection(&mut self, x: ExchangeId) {
        self.open.retain(|open| *open != x);
        self.client.handle_failure(self.now, x, ExchangeFailure::unsent("connection refused"));
        self.pump();
    }

    /// Responds with a body of the given content type.
    pub fn respond(&mut self, x: ExchangeId, status: u16, kind: &str, body: &str) {
        self.respond_with(x, status, &[("Content-Type", kind)], body);
    }

    /// Responds with header fields and a body.
    pub fn respond_with(&mut self, x: ExchangeId, status: u16, fields: &[(&str, &str)], body: &str) {
        self.receive_head(x, status, fields);
        self.receive_body(x, body);
        self.receive_end(x);
    }

    /// Responds without a body.
    pub fn respond_with_status(&mut self, x: ExchangeId, status: u16) {
        self.respond_with(x, status, &[], "");
    }

    /// Responds with a JSON message.
    pub fn respond_with_json(&mut self, x: ExchangeId, status: u16, message: &Value) {
        self.observer.record_fed(self.now, MessageDirection::ServerToClient, message.to_string().as_bytes());
        self.respond(x, status, "application/json", &message.to_string());
    }

    /// Responds with the head of an event stream.
    pub fn start_event_stream(&mut self, x: ExchangeId) {
        self.receive_head(x, 200, &[("content-type", "text/event-stream; charset=utf-8")]);
    }

    /// Receives a message on an event stream; an empty `id` means no event id.
    pub fn receive_event(&mut self, x: ExchangeId, id: &str, message: &Value) {
        self.observer.record_fed(self.now, MessageDirection::ServerToClient, message.to_string().as_bytes());
        let id = if id.is_empty() { String::new() } else { format!("id: {id}\n") };
        self.receive_body(x, format!("{id}data: {message}\n\n"));
    }

    // ---- output ----------------------------------------------------------------------------------------------

    /// Takes the only request.
    ///
    /// # Panics
    ///
    /// If there is none or more than one.
    pub fn expect_request(&mut self) -> SentRequest {
        self.pump();
        assert!(
            self.sent_requests.len() == 1,
            "expected one request, got {:#?}; so far {:#?}",
            self.sent_requests,
            self.transcript
        );
        self.sent_requests.pop_front().expect("one")
    }

    /// Takes all requests.
    pub fn take_requests(&mut self) -> Vec<SentRequest> {
        self.pump();
        self.sent_requests.drain(..).collect()
    }

    /// Takes the only request, a POST of a message with this method.
    ///
    /// # Panics
    ///
    /// If it is not one.
    pub fn expect_post(&mut self, method: &str) -> SentRequest {
        let request = self.expect_request();
        assert_eq!((request.method, request.body["method"].as_str()), ("POST", Some(method)), "{request:?}");
        request
    }

    /// Takes the only aborted exchange.
    ///
    /// # Panics
    ///
    /// If there is none or more than one.
    pub fn expect_aborted(&mut self) -> ExchangeId {
        self.pump();
        assert!(
            self.aborted.len() == 1,
            "expected one aborted exchange, got {:?}: {:#?}",
            self.aborted,
            self.transcript
        );
        self.aborted.pop_front().expect("one")
    }

    /// Asserts that no request and no aborted exchange is left to take.
    ///
    /// # Panics
    ///
    /// If there is one.
    pub fn assert_nothing_sent(&mut self) {
        self.pump();
        assert!(
            self.sent_requests.is_empty() && self.aborted.is_empty(),
            "{:?} {:?}",
            self.sent_requests,
            self.aborted
        );
    }

    /// Asserts that no request, no aborted exchange and no event is left to take.
    ///
    /// # Panics
    ///
    /// If there is one.
    pub fn assert_idle(&mut self) {
        self.assert_nothing_sent();
        assert!(self.events.is_empty(), "{:?}", self.events);
    }

    /// Takes the next event.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn expect_event(&mut self) -> Event {
        self.pump();
        self.events.pop_front().unwrap_or_else(|| panic!("expected an event; so far: {:#?}", self.transcript))
    }

    /// Takes the next event, [`Event::Ready`].
    ///
    /// # Panics
    ///
    /// If it is another event.
    pub fn expect_ready(&mut self) -> Peer {
        match self.expect_event() {
            Event::Ready(peer) => peer,
            other => panic!("expected `Ready`, got {other:?}"),
        }
    }

    /// Takes the next event, the outcome of a call.
    ///
    /// # Errors
    ///
    /// The error of the call, if it failed.
    ///
    /// # Panics
    ///
    /// If it is another event.
    pub fn expect_done(&mut self, key: CallKey) -> Result<Value, CallError> {
        match self.expect_event() {
            Event::Done { call, outcome, .. } => {
                assert_eq!(call, key);
                outcome.map(|result: RawJson| build::to_value(&result))
            }
            other => panic!("expected an outcome, got {other:?}"),
        }
    }

    /// Takes the last event, the end of the client.
    ///
    /// # Panics
    ///
    /// If it is another event, or if more follows.
    pub fn expect_closed(&mut self) -> Fault {
        match self.expect_event() {
            Event::Closed(fault) => {
                assert!(self.events.is_empty(), "{:?}", self.events);
                fault
            }
            other => panic!("expected the end, got {other:?}"),
        }
    }

    /// Takes the next challenge.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn expect_challenge(&mut self) -> Challenge {
        self.pump();
        self.client.authorization().poll_challenge().expect("a challenge")
    }

    /// Takes the next event, a diagnostic.
    ///
    /// # Panics
    ///
    /// If it is another event.
    pub fn expect_diagnostic(&mut self) -> mcp_proto::Diagnostic {
        match self.expect_event() {
            Event::Diagnostic(diagnostic) => diagnostic,
            other => panic!("expected a diagnostic, got {other:?}"),
        }
    }

    /// Takes the diagnostics at the front of the queue.
    pub fn take_diagnostics(&mut self) -> Vec<mcp_proto::Diagnostic> {
        self.pump();
        let mut diagnostics = Vec::new();
        while let Some(Event::Diagnostic(_)) = self.events.front() {
            diagnostics.push(self.expect_diagnostic());
        }
        diagnostics
    }

    // ---- scenarios -------------------------------------------------------------------------------------------

    /// Completes the handshake with a modern server that has `capabilities`.
    ///
    /// # Panics
    ///
    /// If the client does not become ready.
    pub fn become_modern(&mut self, capabilities: Value) {
        let probe = self.expect_post("server/discover");
        let found = build::discover_result(&["2026-07-28"], capabilities);
        self.respond_with_json(probe.id, 200, &build::result_response(&probe.body, found));
        assert_eq!(self.expect_ready().version, Version::V2026_07_28);
        self.assert_idle();
    }

    /// Starts the handshake with a legacy server and returns the POST of `notifications/initialized`.
    ///
    /// # Panics
    ///
    /// If the client does not become ready.
    pub fn initialize_legacy(
        &mut self,
        version: Version,
        session: Option<&str>,
        capabilities: Value,
    ) -> SentRequest {
        let mut request = self.expect_request();
        if request.body["method"] == "server/discover" {
            self.respond_with_status(request.id, 400);
            request = self.expect_request();
        }
        assert_eq!(request.body["method"], "initialize");
        let answer =
            build::result_response(&request.body, build::initialize_result(version.as_str(), capabilities));
        self.observer.record_fed(self.now, MessageDirection::ServerToClient, answer.to_string().as_bytes());
        let mut fields = vec![("Content-Type", "application/json")];
        fields.extend(session.map(|id| ("mcp-session-id", id)));
        self.respond_with(request.id, 200, &fields, &answer.to_string());
        assert_eq!(self.expect_ready().version, version);
        self.expect_post("notifications/initialized")
    }

    /// Completes the handshake with a legacy server that has no GET stream.
    ///
    /// # Panics
    ///
    /// If the client does not become ready.
    pub fn become_legacy(&mut self, version: Version, session: Option<&str>, capabilities: Value) {
        let initialized = self.initialize_legacy(version, session, capabilities);
        self.respond_with_status(initialized.id, 202);
        let get = self.expect_request();
        assert_eq!(get.method, "GET");
        self.respond_with_status(get.id, 405);
        self.assert_idle();
    }

    /// Completes the handshake with a legacy server and returns the exchange of its GET stream.
    ///
    /// # Panics
    ///
    /// If the client does not become ready.
    pub fn become_legacy_with_get_stream(
        &mut self,
        version: Version,
        session: Option<&str>,
        capabilities: Value,
    ) -> ExchangeId {
        let initialized = self.initialize_legacy(version, session, capabilities);
        self.respond_with_status(initialized.id, 202);
        let get = self.expect_request();
        assert_eq!(get.method, "GET");
        self.start_event_stream(get.id);
        self.assert_idle();
        get.id
    }

    /// Starts a call.
    ///
    /// # Panics
    ///
    /// If it is refused.
    pub fn call(&mut self, method: &str, params: &Value, options: &CallOptions) -> CallKey {
        let key = self.client.engine().call(self.now, method, params, options).expect("a call");
        self.pump();
        key
    }

    /// Starts a call and returns its key and the request that was sent.
    ///
    /// # Panics
    ///
    /// If it is refused or nothing is sent.
    pub fn start_call(
        &mut self,
        method: &str,
        params: &Value,
        options: &CallOptions,
    ) -> (CallKey, SentRequest) {
        let key = self.call(method, params, options);
        (key, self.expect_post(method))
    }

    /// Starts a call of the tool `wave`.
    pub fn start_wave_call(&mut self, options: &CallOptions) -> (CallKey, SentRequest) {
        self.start_call("tools/call", &json!({"name": "wave", "arguments": {}}), options)
    }
}
