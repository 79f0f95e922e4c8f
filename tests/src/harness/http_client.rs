//! A client over HTTP alone, at exchange level: a test in the place of the server and of whoever speaks HTTP.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt::Write as _;
use core::time::Duration;

use mcp_proto::client::{self, Event, Peer};
use mcp_proto::http::client::{Action, Challenge, Class, Client, Config, ExchangeId, Failure, Url};
use mcp_proto::http::fields::decode_value;
use mcp_proto::{CallError, CallKey, CallOptions, Fault, Instant, RawJson, Version, VersionSet, head};
use serde_json::{Value, json};

use super::lone::Transcript;
use super::watch::Watch;
use super::wire::{Chunker, Cutter};
use super::{build, say};
use crate::schema::Direction;

/// A request that the client wants sent
#[derive(Debug)]
pub struct Asked {
    /// By which it is answered
    pub id: ExchangeId,
    /// `POST`, …
    pub method: &'static str,
    /// Where it goes
    pub url: Arc<Url>,
    /// Its fields
    pub fields: Vec<(String, String)>,
    /// Its body; null where there is none
    pub body: Value,
    /// How long it may take
    pub class: Class,
}

impl Asked {
    /// The value of a field
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// What holds of every head that a client sends
    fn check(&self) {
        for (at, (name, value)) in self.fields.iter().enumerate() {
            assert!(head::is_token(name.as_bytes()), "{self:?}");
            let bare = value.trim_matches([' ', '\t']);
            assert!(bare == value && value.bytes().all(|b| matches!(b, b' '..=b'~' | b'\t')), "{self:?}");
            let again = self.fields.iter().skip(at + 1).any(|(n, _)| n.eq_ignore_ascii_case(name));
            assert!(!again, "`{name}` is there twice: {self:?}");
        }
        let (accept, kind) = match self.method {
            "POST" => (Some("application/json, text/event-stream"), Some("application/json")),
            "GET" => (Some("text/event-stream"), None),
            "DELETE" => (None, None),
            other => panic!("no method of MCP: {other}"),
        };
        assert_eq!((self.field("accept"), self.field("content-type")), (accept, kind), "{self:?}");
        assert_eq!(self.body.is_null(), self.method != "POST", "{self:?}");
        let version = self.field("mcp-protocol-version");
        let told = self.body.pointer("/params/_meta/io.modelcontextprotocol~1protocolVersion");
        if told.is_some() {
            assert_eq!(version, told.and_then(Value::as_str), "HTTP-030: {self:?}");
            let method = self.field("mcp-method").map(|m| decode_value(m.as_bytes()).expect("we encode it"));
            assert_eq!(method.as_deref(), self.body["method"].as_str(), "HTTP-032: {self:?}");
            let of_sessions = ["mcp-session-id", "last-event-id"];
            assert!(of_sessions.iter().all(|name| self.field(name).is_none()), "{self:?}");
        } else if version != Some("2026-07-28") {
            let mirrors = |name: &str| {
                let name = name.to_ascii_lowercase();
                name == "mcp-method" || name == "mcp-name" || name.starts_with("mcp-param-")
            };
            assert!(!self.fields.iter().any(|(name, _)| mirrors(name)), "{self:?}");
        }
    }
}

/// The client, and all that came out of it
#[derive(Debug)]
pub struct LoneHttp {
    /// The client itself, for commands; [`pump`](Self::pump) afterwards
    pub client: Client,
    /// The time
    pub now: Instant,
    /// What passed
    pub watch: Watch,
    /// What came out, all of it
    pub transcript: Transcript,
    cutter: Cutter,
    events: VecDeque<Event>,
    asked: VecDeque<Asked>,
    aborted: VecDeque<ExchangeId>,
    open: Vec<ExchangeId>,
}

/// Where the client of tests goes
pub const ENDPOINT: &str = "http://tide.example:3000/mcp";

impl LoneHttp {
    /// A client whose answers are cut in this way
    #[must_use]
    pub fn new(config: client::Config, http: Config, cut: Chunker) -> Self {
        let mut lone = Self {
            client: Client::new(Arc::new(config), Arc::new(http), Instant::ZERO),
            now: Instant::ZERO,
            watch: Watch::new(VersionSet::ALL),
            transcript: Transcript::default(),
            cutter: Cutter::new(cut),
            events: VecDeque::new(),
            asked: VecDeque::new(),
            aborted: VecDeque::new(),
            open: Vec::new(),
        };
        lone.pump();
        lone
    }

    /// The configuration that tests begin with
    ///
    /// # Panics
    ///
    /// Never: the URL is one.
    #[must_use]
    pub fn http() -> Config {
        Config::new(ENDPOINT).expect("a URL")
    }

    // ---- moving ----------------------------------------------------------------------------------------------

    /// Takes all that can be taken now
    pub fn pump(&mut self) {
        loop {
            if let Some(event) = self.client.poll_event(self.now) {
                self.transcript.events.push(say::client(&event));
                self.events.push_back(event);
                continue;
            }
            match self.client.poll_exchange(self.now) {
                Some(Action::Open(open)) => {
                    let mut body = Value::Null;
                    if !open.body.is_empty() {
                        body = self.watch.emitted(self.now, Direction::ClientToServer, &open.body);
                        assert!(body.is_object(), "one message each (HTTP-009, HTTP-014), not {body}");
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
                    let asked = Asked {
                        id: open.exchange,
                        method: open.method,
                        url: open.url,
                        fields,
                        body,
                        class: open.class,
                    };
                    asked.check();
                    self.asked.push_back(asked);
                }
                Some(Action::Abort { exchange }) => {
                    assert!(!self.client.is_open(exchange), "aborted and not forgotten");
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

    /// Lets time pass
    ///
    /// # Panics
    ///
    /// When deadlines are due again and again without time going on.
    pub fn pass(&mut self, span: Duration) {
        let until = self.now + span;
        for _ in 0..100_000 {
            let next = self.client.poll_timeout().filter(|at| *at <= until);
            self.now = next.unwrap_or(until).max(self.now);
            self.client.handle_timeout(self.now);
            self.pump();
            if next.is_none() {
                return;
            }
        }
        panic!("deadlines without end at {}", self.now);
    }

    // ---- answers ---------------------------------------------------------------------------------------------

    /// The head of an answer
    pub fn head(&mut self, x: ExchangeId, status: u16, fields: &[(&str, &str)]) {
        let fields: Vec<head::Field<'_>> = fields.iter().map(|(n, v)| (*n, v.as_bytes())).collect();
        self.client.handle_head(self.now, x, &head::Response { status, fields: &fields });
        self.pump();
    }

    /// A part of a body, cut
    pub fn body(&mut self, x: ExchangeId, bytes: impl AsRef<[u8]>) {
        let mut rest = bytes.as_ref();
        while !rest.is_empty() {
            let n = self.cutter.next(rest.len());
            let (piece, tail) = rest.split_at(n);
            self.client.handle_body(self.now, x, piece);
            self.pump();
            rest = tail;
        }
    }

    /// The end of an answer
    pub fn end(&mut self, x: ExchangeId) {
        self.open.retain(|open| *open != x);
        self.client.handle_end(self.now, x);
        self.pump();
    }

    /// The connection breaks
    pub fn breaks(&mut self, x: ExchangeId) {
        self.open.retain(|open| *open != x);
        self.client.handle_failure(self.now, x, Failure::broken("connection reset"));
        self.pump();
    }

    /// There is no connection
    pub fn unreachable(&mut self, x: ExchangeId) {
        self.open.retain(|open| *open != x);
        self.client.handle_failure(self.now, x, Failure::unsent("connection refused"));
        self.pump();
    }

    /// An answer with a body of some type
    pub fn answer(&mut self, x: ExchangeId, status: u16, kind: &str, body: &str) {
        self.answer_with(x, status, &[("Content-Type", kind)], body);
    }

    /// An answer with these fields
    pub fn answer_with(&mut self, x: ExchangeId, status: u16, fields: &[(&str, &str)], body: &str) {
        self.head(x, status, fields);
        self.body(x, body);
        self.end(x);
    }

    /// An answer without a body
    pub fn status(&mut self, x: ExchangeId, status: u16) {
        self.answer_with(x, status, &[], "");
    }

    /// A message in JSON
    pub fn json(&mut self, x: ExchangeId, status: u16, message: &Value) {
        self.watch.fed(self.now, Direction::ServerToClient, message.to_string().as_bytes());
        self.answer(x, status, "application/json", &message.to_string());
    }

    /// Begins an event stream
    pub fn stream(&mut self, x: ExchangeId) {
        self.head(x, 200, &[("content-type", "text/event-stream; charset=utf-8")]);
    }

    /// A message on an event stream, with an id or none
    pub fn event(&mut self, x: ExchangeId, id: &str, message: &Value) {
        self.watch.fed(self.now, Direction::ServerToClient, message.to_string().as_bytes());
        let id = if id.is_empty() { String::new() } else { format!("id: {id}\n") };
        self.body(x, format!("{id}data: {message}\n\n"));
    }

    // ---- what comes out --------------------------------------------------------------------------------------

    /// The one request that has not been taken
    ///
    /// # Panics
    ///
    /// When there is none or more than one.
    pub fn asked(&mut self) -> Asked {
        self.pump();
        assert!(self.asked.len() == 1, "one request, not {:#?}; so far {:#?}", self.asked, self.transcript);
        self.asked.pop_front().expect("one")
    }

    /// All requests that have not been taken
    pub fn all_asked(&mut self) -> Vec<Asked> {
        self.pump();
        self.asked.drain(..).collect()
    }

    /// The one request that has not been taken, which posts a message of this method
    ///
    /// # Panics
    ///
    /// When it is not.
    pub fn posted(&mut self, method: &str) -> Asked {
        let asked = self.asked();
        assert_eq!((asked.method, asked.body["method"].as_str()), ("POST", Some(method)), "{asked:?}");
        asked
    }

    /// The one exchange that was aborted
    ///
    /// # Panics
    ///
    /// When there is none or more than one.
    pub fn aborted(&mut self) -> ExchangeId {
        self.pump();
        assert!(self.aborted.len() == 1, "one aborted, not {:?}: {:#?}", self.aborted, self.transcript);
        self.aborted.pop_front().expect("one")
    }

    /// Nothing was asked for and nothing aborted
    ///
    /// # Panics
    ///
    /// When something was.
    pub fn silent(&mut self) {
        self.pump();
        assert!(self.asked.is_empty() && self.aborted.is_empty(), "{:?} {:?}", self.asked, self.aborted);
    }

    /// Nothing was asked for, and nothing happened
    ///
    /// # Panics
    ///
    /// When something did.
    pub fn still(&mut self) {
        self.silent();
        assert!(self.events.is_empty(), "{:?}", self.events);
    }

    /// The next event
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn next_event(&mut self) -> Event {
        self.pump();
        self.events.pop_front().unwrap_or_else(|| panic!("an event; so far: {:#?}", self.transcript))
    }

    /// The next event, which says that the connection is ready
    ///
    /// # Panics
    ///
    /// When it does not.
    pub fn ready(&mut self) -> Peer {
        match self.next_event() {
            Event::Ready(peer) => peer,
            other => panic!("ready, not {other:?}"),
        }
    }

    /// The next event, which is the outcome of a call
    ///
    /// # Panics
    ///
    /// When it is not.
    pub fn done(&mut self, key: CallKey) -> Result<Value, CallError> {
        match self.next_event() {
            Event::Done { call, outcome, .. } => {
                assert_eq!(call, key);
                outcome.map(|result: RawJson| build::value(&result))
            }
            other => panic!("an outcome, not {other:?}"),
        }
    }

    /// The last event, which says that everything is over
    ///
    /// # Panics
    ///
    /// When it does not.
    pub fn closed(&mut self) -> Fault {
        match self.next_event() {
            Event::Closed(fault) => {
                assert!(self.events.is_empty(), "{:?}", self.events);
                fault
            }
            other => panic!("the end, not {other:?}"),
        }
    }

    /// The next challenge
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn challenged(&mut self) -> Challenge {
        self.pump();
        self.client.poll_challenge().expect("a challenge")
    }

    /// The next event, which is a diagnostic
    ///
    /// # Panics
    ///
    /// When it is not.
    pub fn diagnosed(&mut self) -> mcp_proto::Diagnostic {
        match self.next_event() {
            Event::Diagnostic(diagnostic) => diagnostic,
            other => panic!("a diagnostic, not {other:?}"),
        }
    }

    /// Takes the diagnostics that come next, if any
    pub fn odd(&mut self) -> Vec<mcp_proto::Diagnostic> {
        self.pump();
        let mut odd = Vec::new();
        while let Some(Event::Diagnostic(_)) = self.events.front() {
            odd.push(self.diagnosed());
        }
        odd
    }

    // ---- scenes ----------------------------------------------------------------------------------------------

    /// Leads the client to a modern server with `capabilities`
    ///
    /// # Panics
    ///
    /// When it does not become ready.
    pub fn with_modern(&mut self, capabilities: Value) {
        let probe = self.posted("server/discover");
        let found = build::discovery(&["2026-07-28"], capabilities);
        self.json(probe.id, 200, &build::result(&probe.body, found));
        assert_eq!(self.ready().version, Version::V2026_07_28);
        self.still();
    }

    /// Leads the client to a legacy server, to where `initialized` has been sent
    ///
    /// # Panics
    ///
    /// When it does not become ready.
    pub fn to_legacy(&mut self, version: Version, session: Option<&str>, capabilities: Value) -> Asked {
        let mut asked = self.asked();
        if asked.body["method"] == "server/discover" {
            self.status(asked.id, 400);
            asked = self.asked();
        }
        assert_eq!(asked.body["method"], "initialize");
        let answer = build::result(&asked.body, build::initialized(version.as_str(), capabilities));
        self.watch.fed(self.now, Direction::ServerToClient, answer.to_string().as_bytes());
        let mut fields = vec![("Content-Type", "application/json")];
        fields.extend(session.map(|id| ("mcp-session-id", id)));
        self.answer_with(asked.id, 200, &fields, &answer.to_string());
        assert_eq!(self.ready().version, version);
        self.posted("notifications/initialized")
    }

    /// Leads the client to a legacy server without a GET stream
    ///
    /// # Panics
    ///
    /// When it does not become ready.
    pub fn with_legacy(&mut self, version: Version, session: Option<&str>, capabilities: Value) {
        let initialized = self.to_legacy(version, session, capabilities);
        self.status(initialized.id, 202);
        let get = self.asked();
        assert_eq!(get.method, "GET");
        self.status(get.id, 405);
        self.still();
    }

    /// Leads the client to a legacy server with a GET stream, which is returned
    ///
    /// # Panics
    ///
    /// When it does not become ready.
    pub fn with_stream(
        &mut self,
        version: Version,
        session: Option<&str>,
        capabilities: Value,
    ) -> ExchangeId {
        let initialized = self.to_legacy(version, session, capabilities);
        self.status(initialized.id, 202);
        let get = self.asked();
        assert_eq!(get.method, "GET");
        self.stream(get.id);
        self.still();
        get.id
    }

    /// Makes a call
    ///
    /// # Panics
    ///
    /// When it is refused.
    pub fn call(&mut self, method: &str, params: &Value, options: &CallOptions) -> CallKey {
        let key = self.client.engine().call(self.now, method, params, options).expect("a call");
        self.pump();
        key
    }

    /// Makes a call that goes out at once
    ///
    /// # Panics
    ///
    /// When it does not go out.
    pub fn calls(&mut self, method: &str, params: &Value, options: &CallOptions) -> (CallKey, Asked) {
        let key = self.call(method, params, options);
        (key, self.posted(method))
    }

    /// Calls a tool called `wave`
    pub fn waves(&mut self, options: &CallOptions) -> (CallKey, Asked) {
        self.calls("tools/call", &json!({"name": "wave", "arguments": {}}), options)
    }
}
