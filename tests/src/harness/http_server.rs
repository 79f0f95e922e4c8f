//! Harness for an HTTP server at exchange level: heads and bodies in, responses and events out, on virtual time.
//!
//! The header fields and the framing of every response are checked, and a [`MessageObserver`] checks its messages.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use core::time::Duration;

use bytes::Bytes;
use mcp_proto::Entropy;
use mcp_proto::head::{BodySize, RequestHead};
use mcp_proto::http::server::{Config, Event, ExchangeId, Server, SharedSessionEvent};
use mcp_proto::{Instant, server};
use serde_json::Value;

use super::observer::MessageObserver;
use crate::schema::MessageDirection;

/// An HTTP server, with the test as its clients.
#[derive(Debug)]
pub struct HttpServerHarness {
    /// Server under test, for commands.
    pub server: Server,
    /// Virtual time.
    pub now: Instant,
    versions: mcp_proto::VersionSet,
    responses: BTreeMap<ExchangeId, RecordedResponse>,
    /// Observers of sessions, by session id.
    observers: BTreeMap<String, MessageObserver>,
    /// Received events as (session, event id); a replayed event is not checked again.
    seen: BTreeSet<(String, String)>,
    /// Whether pending output is transmitted after each step.
    pub auto_transmits: bool,
    /// Deprecated features that were reported; kept apart from the events.
    pub deprecated_features: Vec<mcp_proto::DeprecatedFeature>,
    /// Whether responses may be to requests that another process has received.
    pub has_other_processes: bool,
    /// Events of the engine that were polled while those of shared sessions were looked for.
    polled: VecDeque<server::Event>,
}

/// A response, as far as it has arrived.
#[derive(Debug)]
pub struct RecordedResponse {
    /// Status; 0 before the head has arrived.
    pub status: u16,
    /// Header fields, with names in lower case.
    pub fields: Vec<(String, String)>,
    /// Received part of the body.
    pub body: String,
    /// Whether the response is complete.
    pub is_complete: bool,
    size: BodySize,
    observer: MessageObserver,
    session: Option<String>,
    checked_len: usize,
}

impl RecordedResponse {
    /// Returns the value of a field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, v)| &**v)
    }

    /// Returns the messages in the body or in the data of its events.
    #[must_use]
    pub fn messages(&self) -> Vec<Value> {
        if self.is_event_stream() {
            return self
                .events()
                .iter()
                .filter(|e| !e.data.is_empty())
                .map(|e| parse_json(&e.data))
                .collect();
        }
        if self.body.is_empty() { Vec::new() } else { vec![parse_json(&self.body)] }
    }

    /// Returns the only message.
    ///
    /// # Panics
    ///
    /// If there is none or more than one.
    #[must_use]
    pub fn message(&self) -> Value {
        let messages = self.messages();
        assert_eq!(messages.len(), 1, "{self:?}");
        messages.into_iter().next().unwrap_or_default()
    }

    /// Returns whether the body is an event stream.
    #[must_use]
    pub fn is_event_stream(&self) -> bool {
        self.field("content-type") == Some("text/event-stream")
    }

    /// Returns the events that have arrived completely.
    #[must_use]
    pub fn events(&self) -> Vec<ParsedSseEvent> {
        let blocks = self.body.split_inclusive("\n\n").filter(|b| b.ends_with("\n\n"));
        blocks.map(ParsedSseEvent::parse).filter(|e| *e != ParsedSseEvent::default()).collect()
    }
}

/// An event of an event stream, parsed without the code under test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedSseEvent {
    /// Field `event`.
    pub event: String,
    /// Field `id`.
    pub id: String,
    /// Field `data`.
    pub data: String,
    /// Field `retry`.
    pub retry: String,
}

impl ParsedSseEvent {
    fn parse(block: &str) -> Self {
        let mut event = Self::default();
        for line in block.lines().filter(|l| !l.is_empty() && !l.starts_with(':')) {
            let (name, text) = line.split_once(": ").unwrap_or((line, ""));
            let slot = match name {
                "event" => &mut event.event,
                "id" => &mut event.id,
                "data" => &mut event.data,
                "retry" => &mut event.retry,
                _ => panic!("unknown field: {line}"),
            };
            assert!(slot.is_empty(), "field occurs twice in one event: {block}");
            *slot = text.into();
        }
        event
    }
}

fn parse_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("emitted invalid JSON: {text}: {e}"))
}

/// Returns a field value without surrounding white space, as HTTP readers deliver it.
fn trimmed(value: &str) -> &[u8] {
    value.trim_matches([' ', '\t']).as_bytes()
}

/// Header fields that a request has by default.
const DEFAULT_FIELDS: [(&str, &str); 3] = [
    ("host", "localhost:8080"),
    ("accept", "application/json, text/event-stream"),
    ("content-type", "application/json"),
];

impl HttpServerHarness {
    /// Returns a server of these configurations.
    #[must_use]
    pub fn new(server: server::Config, http: Config) -> Self {
        let versions = server.effective_versions();
        let server = Server::new(Arc::new(server), Arc::new(http), Entropy::new([3; 32], 0));
        Self {
            server,
            now: Instant::from_micros(1),
            versions,
            responses: BTreeMap::new(),
            observers: BTreeMap::new(),
            seen: BTreeSet::new(),
            auto_transmits: true,
            deprecated_features: Vec::new(),
            has_other_processes: false,
            polled: VecDeque::new(),
        }
    }

    /// Sends a request. A field with an empty value is left out, also one of the default fields.
    pub fn send_request(
        &mut self,
        method: &str,
        target: &str,
        fields: &[(&str, &str)],
        body: &str,
    ) -> ExchangeId {
        let is_given = |name: &str| fields.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        let defaults =
            DEFAULT_FIELDS.iter().filter(|(n, _)| !is_given(n) && (method == "POST" || *n != "content-type"));
        let head_fields: Vec<(&str, &[u8])> =
            defaults.chain(fields).filter(|(_, v)| !v.is_empty()).map(|(n, v)| (*n, trimmed(v))).collect();
        let session = fields
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case("mcp-session-id"))
            .map(|(_, v)| (*v).to_owned())
            .or_else(|| Some(target.split_once("sessionId=")?.1.to_owned()));
        let head = RequestHead { method, target, fields: &head_fields };
        let x = self.server.open(self.now, &head, Some(body.len() as u64));
        let response = RecordedResponse {
            status: 0,
            fields: Vec::new(),
            body: String::new(),
            is_complete: false,
            size: BodySize::None,
            observer: MessageObserver::new(self.versions),
            session: session.clone(),
            checked_len: 0,
        };
        self.responses.insert(x, response);
        if !body.is_empty() {
            let now = self.now;
            self.observer_mut(x).record_fed(now, MessageDirection::ClientToServer, body.as_bytes());
        }
        if self.server.response(x).is_some() || self.server.wants_body(x) || body.is_empty() {
            self.send_body(x, body);
        }
        x
    }

    /// Sends the body of a request and its end.
    pub fn send_body(&mut self, x: ExchangeId, body: &str) {
        if self.server.wants_body(x) && !body.is_empty() {
            self.server.handle_body(self.now, x, Bytes::copy_from_slice(body.as_bytes()));
        }
        self.server.handle_end(self.now, x);
        self.transmit_all();
    }

    /// Posts a message to the endpoint.
    pub fn post(&mut self, fields: &[(&str, &str)], body: &str) -> ExchangeId {
        self.send_request("POST", "/mcp", fields, body)
    }

    fn observer_mut(&mut self, x: ExchangeId) -> &mut MessageObserver {
        let response = self.responses.get_mut(&x).expect("a known exchange");
        match response.session.as_ref().and_then(|s| self.observers.get_mut(s)) {
            Some(observer) => observer,
            None => &mut response.observer,
        }
    }

    /// Returns the response of an exchange, as far as it has arrived.
    ///
    /// # Panics
    ///
    /// If the exchange never existed.
    #[must_use]
    pub fn response(&self, x: ExchangeId) -> &RecordedResponse {
        self.responses.get(&x).expect("a known exchange")
    }

    /// Takes the next event of the engine.
    pub fn poll_event(&mut self) -> Option<server::Event> {
        if let Some(event) = self.polled.pop_front() {
            return Some(event);
        }
        loop {
            match self.server.poll_event(self.now)? {
                Event::Server(event) => match super::describe::deprecated_by_client(&event) {
                    Some(feature) => self.deprecated_features.push(feature),
                    None => return Some(event),
                },
                other => panic!("unexpected event: {other:?}"),
            }
        }
    }

    /// Takes the next event that concerns sessions of other processes.
    pub fn poll_shared(&mut self) -> Option<SharedSessionEvent> {
        while let Some(event) = self.server.poll_event(self.now) {
            match event {
                Event::Server(event) => match super::describe::deprecated_by_client(&event) {
                    Some(feature) => self.deprecated_features.push(feature),
                    None => self.polled.push_back(event),
                },
                Event::Shared(event) => return Some(event),
                other => panic!("unexpected event: {other:?}"),
            }
        }
        None
    }

    /// Takes the next event, a call.
    ///
    /// # Panics
    ///
    /// If it is another event.
    pub fn expect_call(&mut self) -> server::Call {
        match self.poll_event() {
            Some(server::Event::Call(call)) => call,
            other => panic!("expected a call, got {other:?}"),
        }
    }

    /// Advances the time by `span` and handles each deadline on the way.
    pub fn advance(&mut self, span: Duration) {
        let until = self.now + span;
        loop {
            let next = self.server.poll_timeout();
            assert_eq!(next.is_some(), self.server.timeout_reason().is_some(), "a deadline without a reason");
            let Some(at) = next.filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            self.server.handle_timeout(self.now);
            self.transmit_all();
        }
        self.now = until;
        self.transmit_all();
    }

    /// Closes an exchange as its client.
    pub fn close_exchange(&mut self, x: ExchangeId) {
        self.server.handle_gone(self.now, x);
        self.transmit_all();
    }

    /// Takes all pending output.
    ///
    /// # Panics
    ///
    /// If a response or a message is invalid.
    pub fn transmit_all(&mut self) {
        if !self.auto_transmits {
            return;
        }
        while let Some(x) = self.server.poll_ready(self.now) {
            // One that is open for another process has no client here.
            if self.responses.contains_key(&x) {
                self.transmit_exchange(x);
            }
        }
    }

    /// Takes the pending output of one exchange.
    ///
    /// # Panics
    ///
    /// If the response or a message is invalid.
    pub fn transmit_exchange(&mut self, x: ExchangeId) {
        let Some(head) = self.server.response(x) else { return };
        let response = self.responses.get_mut(&x).expect("a known exchange");
        if response.status == 0 {
            response.status = head.status;
            response.size = head.size;
            let text = |v: &[u8]| String::from_utf8(v.to_vec()).expect("text");
            response.fields = head.fields.iter().map(|(n, v)| (n.to_ascii_lowercase(), text(v))).collect();
            check_fields(response);
            if let Some(id) = response.field("mcp-session-id").map(str::to_owned) {
                let observer =
                    core::mem::replace(&mut response.observer, MessageObserver::new(self.versions));
                self.observers.insert(id.clone(), observer);
                response.session = Some(id);
            }
        }
        loop {
            let bytes = self.server.transmit(self.now, x).to_vec();
            if bytes.is_empty() {
                break;
            }
            self.server.consume(x, bytes.len());
            let response = self.responses.get_mut(&x).expect("a known exchange");
            response.body.push_str(
                core::str::from_utf8(&bytes).expect("transmitted pieces of the tests end at characters"),
            );
        }
        let finished = self.server.is_finished(x);
        let response = self.responses.get_mut(&x).expect("a known exchange");
        response.is_complete = finished;
        match response.size {
            BodySize::None => assert!(response.body.is_empty()),
            BodySize::Exact(length) => assert!(response.body.len() as u64 <= length),
            BodySize::Stream => {}
        }
        if finished {
            if let BodySize::Exact(length) = response.size {
                assert_eq!(response.body.len() as u64, length);
            }
            self.server.release(self.now, x);
        }
        self.check_messages(x);
    }

    fn check_messages(&mut self, x: ExchangeId) {
        let response = self.responses.get(&x).expect("a known exchange");
        if let Some(first) = response.events().first().filter(|e| e.event == "endpoint") {
            let id = first.data.split_once("sessionId=").expect("an id").1.to_owned();
            self.observers.entry(id.clone()).or_insert_with(|| MessageObserver::new(self.versions));
            self.responses.get_mut(&x).expect("a known exchange").session = Some(id);
        }
        let response = self.responses.get(&x).expect("a known exchange");
        let session = response.session.clone().unwrap_or_default();
        let mut is_repeated = Vec::new();
        let texts: Vec<String> = if response.is_event_stream() {
            let messages = response.events().into_iter().filter(|e| e.event.is_empty() && !e.data.is_empty());
            let seen = &mut self.seen;
            let checked = response.checked_len;
            let head_fields = messages.enumerate().map(|(n, e)| {
                is_repeated.push(n >= checked && !e.id.is_empty() && !seen.insert((session.clone(), e.id)));
                e.data
            });
            head_fields.collect()
        } else if response.is_complete && response.field("content-type") == Some("application/json") {
            vec![response.body.clone()]
        } else {
            Vec::new()
        };
        let (checked, now) = (response.checked_len, self.now);
        // The body of a refusal answers no request. A resumed stream answers requests of another exchange.
        for (n, text) in texts.iter().enumerate().skip(checked) {
            let message = parse_json(text);
            let is_response = message.get("method").is_none();
            let may_be_of_another =
                self.has_other_processes && is_response && self.response(x).is_event_stream();
            if is_repeated.get(n).copied().unwrap_or_default() || may_be_of_another {
                continue;
            }
            if message.get("id").is_some() || message.get("method").is_some() || message.is_array() {
                self.observer_mut(x).record_emitted(now, MessageDirection::ServerToClient, text.as_bytes());
            } else if self.response(x).status >= 400 {
                let error = message.get("error").expect("an error without an id");
                assert!(error["code"].is_i64() && error["message"].is_string(), "{text}");
            }
        }
        self.responses.get_mut(&x).expect("a known exchange").checked_len = texts.len();
    }
}

/// Media types of responses that are no messages.
const PUBLIC_DOCUMENTS: [&str; 2] = ["application/mcp-server-card+json", "application/ai-catalog+json"];

fn check_fields(response: &RecordedResponse) {
    assert!((200..=599).contains(&response.status), "{response:?}");
    let kind = response.field("content-type");
    match (response.status, response.size) {
        (202 | 204 | 304, size) => {
            assert!(kind.is_none() && matches!(size, BodySize::None | BodySize::Exact(0)), "{response:?}");
        }
        (200, BodySize::Stream) => {
            assert_eq!(kind, Some("text/event-stream"));
            assert_eq!(response.field("cache-control"), Some("no-cache"));
            assert_eq!(response.field("x-accel-buffering"), Some("no"));
        }
        // Public documents beside the endpoint.
        (200, BodySize::Exact(_)) if kind.is_some_and(|kind| PUBLIC_DOCUMENTS.contains(&kind)) => {
            assert_eq!(response.field("access-control-allow-origin"), Some("*"));
        }
        (200, _) => assert!(matches!(kind, Some("application/json" | "text/event-stream")), "{response:?}"),
        // Every refusal has a body that gives the reason.
        _ => assert_eq!(kind, Some("application/json"), "{response:?}"),
    }
    assert_eq!(response.status == 405, response.field("allow").is_some(), "{response:?}");
    assert_eq!(
        response.status == 401,
        response.field("www-authenticate").is_some() && response.status == 401
    );
    assert_eq!(response.status == 503, response.field("retry-after").is_some(), "{response:?}");
    let mut names: Vec<_> = response.fields.iter().map(|(n, _)| n).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), response.fields.len(), "a field occurs twice: {response:?}");
}
