//! A server over HTTP behind a line interface: each line is a request of its own.
//!
//! This module checks responses as such. The messages in them are checked by the readers of the lines.

use alloc::collections::VecDeque;
use std::time::Instant;

use core::time::Duration;

use mcp_proto::draft::{Deviation, Draft};
use mcp_proto::frame::sse::{SseDecoder, SseItem};
use mcp_proto::head::Fields;
use mcp_proto::http::fields::{METHOD, NAME, PROTOCOL_VERSION, SESSION_ID, X_ACCEL_BUFFERING, encode_value};
use mcp_proto::tap::Direction;
use mcp_proto::{Era, Version};
use serde_json::Value;

use super::received::{MAX_LINE, MAX_TOTAL, Received, TransportFinding, WireTrace};
use super::report::clip;
use super::rules::{Rule, rules_of};
use super::transport::HTTP_SESSION_ID;
use crate::exchange::{
    self, CollectedResponse, EVENT_STREAM, HttpExchange, HttpResponseHead, HttpTarget, JSON, NoResponse,
    ResponseEvent,
};

rules_of! {
    RULES
    HTTP_UNANSWERED "http-unanswered" Error [Spec Hosted] ["HTTP-021"]
        "each request is answered with a message in the response to it"
        "answer with a result or an error, even with an error status"
    HTTP_CONTENT_TYPE "http-content-type" Error [Spec Hosted] ["HTTP-021"]
        "requests are answered with `application/json` or `text/event-stream`"
        "set `Content-Type` to one of the two"
    HTTP_BODY "http-body" Error [Spec Hosted] ["HTTP-021" "BASE-001"]
        "bodies and events hold one message each"
        "write JSON-RPC 2.0 and nothing else"
    HTTP_STATUS "http-status" Error [Spec Hosted] ["HTTP-023" "HTTP-024" "HTTP-025" "HTTP-026" "HTTP-027"]
        "results have the status 200; in the modern era -32601 has 404, and -32022, -32021 and -32020 have 400"
        "send the result or error with that status"
    HTTP_ACCEPTED "http-accepted" Error [Spec Hosted] ["HTTP-018"]
        "a notification is accepted with 202 and an empty body"
        "answer with 202 and no body"
    HTTP_BUFFERING "http-buffering" Warning [Spec Hosted] ["SSE-007"]
        "event streams ask proxies not to buffer them"
        "add `X-Accel-Buffering: no`"
}

/// A conversation with a server over HTTP.
pub(super) struct HttpPeer {
    pub(super) target: HttpTarget,
    version: Version,
    draft: Draft,
    /// Whether the handshake is complete.
    is_initialized: bool,
    pub(super) session: Option<String>,
    pending_exchanges: Vec<PendingExchange>,
    /// Lines and findings that have not been taken yet.
    received: VecDeque<Received>,
    total_bytes: usize,
    trace: WireTrace,
    /// Reason why the last request was not answered.
    failure: Option<String>,
}

/// A request whose response has not ended.
struct PendingExchange {
    exchange: HttpExchange,
    info: ExchangeInfo,
    head: Option<HttpResponseHead>,
    body: Vec<u8>,
    events: Option<SseDecoder>,
}

/// The request that a response belongs to.
#[derive(Clone)]
struct ExchangeInfo {
    method: String,
    /// Id, if it is a request.
    id: Option<Value>,
    /// Whether it is a notification.
    is_notification: bool,
    is_answered: bool,
}

impl HttpPeer {
    pub(super) fn new(target: HttpTarget, (version, draft): (Version, Draft), trace: WireTrace) -> Self {
        Self {
            target,
            version,
            draft,
            is_initialized: false,
            session: None,
            pending_exchanges: Vec::new(),
            received: VecDeque::new(),
            total_bytes: 0,
            trace,
            failure: None,
        }
    }

    pub(super) const fn set_version(&mut self, version: Version) {
        self.version = version;
        self.is_initialized = true;
    }

    /// Sends a line, which need not be a message. Returns `false` if that fails or takes too long.
    pub(super) fn send(&mut self, line: &[u8], until: Instant) -> bool {
        self.trace.line(Direction::Out, line);
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default();
        if self.is_modern() && method == "notifications/cancelled" {
            // Over modern HTTP a request is cancelled by closing its exchange (HTTP-042).
            self.pending_exchanges
                .retain(|open| open.info.id.as_ref() != Some(&message["params"]["requestId"]));
            return true;
        }
        let info = ExchangeInfo {
            method: method.to_owned(),
            id: message.get("id").filter(|_| !method.is_empty()).cloned(),
            is_notification: !method.is_empty() && message.get("id").is_none(),
            is_answered: false,
        };
        let notifies = info.is_notification;
        let (fields, left) = (self.post_fields(&message), exchange::time_to(until));
        let exchange = match HttpExchange::begin(&self.target, "POST", fields, Some(line), left) {
            Ok(exchange) => exchange,
            Err(error) => {
                self.failure = Some(NoResponse::Unconnected(error).to_string());
                return false;
            }
        };
        self.pending_exchanges.push(PendingExchange {
            exchange,
            info,
            head: None,
            body: Vec::new(),
            events: None,
        });
        // Later messages may depend on the notification.
        while notifies && self.pending_exchanges.iter().any(|open| open.info.is_notification) {
            if Instant::now() >= until || !self.advance(until) {
                return false;
            }
        }
        true
    }

    /// Waits for a line.
    pub(super) fn next(&mut self, until: Instant) -> Received {
        loop {
            if let Some(got) = self.received.pop_front() {
                if let Received::Line(line) = &got {
                    self.trace.line(Direction::In, line);
                }
                return got;
            }
            if self.total_bytes > MAX_TOTAL {
                return Received::Flood;
            }
            if self.pending_exchanges.is_empty() {
                return Received::Closed(Vec::new());
            }
            if Instant::now() >= until {
                return Received::TimedOut;
            }
            if !self.advance(until) {
                return Received::Closed(Vec::new());
            }
        }
    }

    /// Describes what the server did instead of answering.
    pub(super) fn describe_failure(&mut self) -> String {
        self.failure.take().unwrap_or_else(|| "there was no response".into())
    }

    /// Ends the session, if there is one. The response is ignored.
    pub(super) fn end_session(&mut self, timeout: Duration) {
        self.pending_exchanges.clear();
        if self.session.is_some() {
            let fields = self.session_fields();
            let _ = exchange::perform(&self.target, "DELETE", fields, None, Instant::now() + timeout);
            self.session = None;
        }
    }

    /// Performs a separate exchange and returns the response.
    ///
    /// # Errors
    ///
    /// Returns a description of why there is no response.
    pub(super) fn perform(
        &self,
        method: &str,
        fields: Fields,
        body: Option<&[u8]>,
        timeout: Duration,
    ) -> Result<CollectedResponse, String> {
        if let Some(body) = body {
            self.trace.line(Direction::Out, body);
        }
        let reply = exchange::perform(&self.target, method, fields, body, Instant::now() + timeout)?;
        self.trace.line(Direction::In, &[reply.head.summary().as_bytes(), b" ", &reply.body].concat());
        Ok(reply)
    }

    /// Returns the header fields of a POST.
    pub(super) fn post_fields(&self, message: &Value) -> Fields {
        let mut fields = self.session_fields();
        exchange::push_message_fields(&mut fields);
        let method = match message["method"].as_str() {
            method if self.is_modern() => Some(method.unwrap_or("server/discover")),
            method => method.filter(|_| self.draft.contains(Deviation::SentInSessions)),
        };
        if let Some(method) = method {
            fields.push(METHOD, method.as_bytes());
            let params = &message["params"];
            let named = match method {
                "tools/call" | "prompts/get" => params["name"].as_str(),
                "resources/read" => params["uri"].as_str(),
                _ => None,
            };
            if let Some(name) = named {
                fields.push(NAME, encode_value(name).as_bytes());
            }
        }
        if self.is_modern() {
            let meta = &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
            let version = meta.as_str().unwrap_or(self.version.as_str());
            fields.push(PROTOCOL_VERSION, version.as_bytes());
        }
        fields
    }

    /// Returns the header fields that name the session and, in the legacy era, the revision.
    pub(super) fn session_fields(&self) -> Fields {
        let mut fields = Fields::new();
        if let Some(session) = &self.session {
            fields.push(SESSION_ID, session.as_bytes());
        }
        if !self.is_modern() && self.is_initialized && self.version >= Version::V2025_06_18 {
            fields.push(PROTOCOL_VERSION, self.version.as_str().as_bytes());
        }
        fields
    }

    const fn is_modern(&self) -> bool {
        matches!(self.version.era(), Era::Modern)
    }

    /// Waits at most until `until` and advances all exchanges. Returns `false` if waiting fails.
    fn advance(&mut self, until: Instant) -> bool {
        let exchanges = self.pending_exchanges.iter_mut().map(|open| &mut open.exchange);
        if let Err(error) = exchange::advance(exchanges, until) {
            self.failure = Some(format!("cannot wait for responses: {error}"));
            return false;
        }
        let mut open = core::mem::take(&mut self.pending_exchanges);
        open.retain_mut(|open| self.process_exchange(open));
        self.pending_exchanges = open;
        true
    }

    /// Processes available parts of a response. Returns whether more may follow.
    fn process_exchange(&mut self, open: &mut PendingExchange) -> bool {
        while let Some(came) = open.exchange.poll_event() {
            match came {
                ResponseEvent::Head(head) => self.handle_head(open, head),
                ResponseEvent::Body(piece) => {
                    self.total_bytes += piece.len();
                    if let Some(events) = &mut open.events {
                        events.push(&piece);
                        self.handle_events(open);
                    } else if open.body.len() <= MAX_LINE {
                        open.body.extend_from_slice(&piece);
                    } else {
                        self.received.push_back(Received::Flood);
                        return false;
                    }
                }
                ResponseEvent::End => {
                    self.handle_end(open);
                    return false;
                }
                ResponseEvent::Broken(why) => {
                    if !open.info.is_answered {
                        self.failure = Some(why);
                    }
                    return false;
                }
            }
        }
        true
    }

    fn handle_head(&mut self, open: &mut PendingExchange, head: HttpResponseHead) {
        self.trace.line(Direction::In, head.summary().as_bytes());
        if open.info.method == "initialize" && head.is_success() {
            self.session = head.field(SESSION_ID).map(str::to_owned);
            let session = self.session.as_deref().unwrap_or("x");
            if session.is_empty() || !session.bytes().all(|byte| byte.is_ascii_graphic()) {
                self.add_finding(HTTP_SESSION_ID, &open.info, format!("the session id is {session:?}"));
            }
        }
        let (json, events) = (head.has_media_type(JSON), head.has_media_type(EVENT_STREAM));
        if head.status == 200 && open.info.id.is_some() && !json && !events {
            self.add_finding(HTTP_CONTENT_TYPE, &open.info, head.sentence());
        }
        if events {
            let unbuffered = head.field(X_ACCEL_BUFFERING).is_some_and(|value| value == "no");
            if self.is_modern() && !unbuffered {
                let what = format!("the event stream has no `{X_ACCEL_BUFFERING}: no`");
                self.add_finding(HTTP_BUFFERING, &open.info, what);
            }
            open.events = Some(SseDecoder::new(MAX_LINE));
        }
        open.head = Some(head);
    }

    fn handle_events(&mut self, open: &mut PendingExchange) {
        while let Some(event) = open.events.as_mut().and_then(SseDecoder::next_event) {
            match event {
                SseItem::Event(event) if event.kind.as_deref().is_none_or(|kind| kind == b"message") => {
                    self.handle_message(open, &event.data);
                }
                SseItem::Event(_) => {}
                SseItem::TooLong { .. } => self.received.push_back(Received::Flood),
            }
        }
    }

    /// Processes the end of a response.
    fn handle_end(&mut self, open: &mut PendingExchange) {
        let Some(head) = open.head.clone() else { return };
        let body = core::mem::take(&mut open.body);
        if open.info.is_notification {
            // Unknown notifications may be refused.
            let known = !open.info.method.contains("mcp-probe");
            if (head.is_success() && head.status != 202) || (!head.is_success() && known) {
                self.add_finding(HTTP_ACCEPTED, &open.info, head.sentence());
            } else if head.is_success() && !body.is_empty() {
                let what = format!("the response has a body of {} bytes", body.len());
                self.add_finding(HTTP_ACCEPTED, &open.info, what);
            }
            return;
        }
        // Error pages of gateways contain no messages.
        if !body.is_empty() && (head.is_success() || head.has_media_type(JSON)) {
            self.handle_message(open, &body);
        }
        if !open.info.is_answered {
            self.failure = Some(format!("{} and contains no answer", head.sentence()));
        }
    }

    fn handle_message(&mut self, open: &mut PendingExchange, data: &[u8]) {
        let value: Value = serde_json::from_slice(data).unwrap_or_default();
        let members = ["jsonrpc", "method", "result", "error"];
        if !value.is_array() && !members.iter().any(|name| value.get(name).is_some()) {
            let text = clip(&String::from_utf8_lossy(data), 160);
            return self.add_finding(
                HTTP_BODY,
                &open.info,
                format!("the response contains no message: {text}"),
            );
        }
        if value.is_array() || value.get("id") == open.info.id.as_ref() {
            open.info.is_answered = true;
            self.check_status(open, &value);
        }
        self.received.push_back(Received::Line(data.to_vec()));
    }

    /// Checks that the status fits the answer.
    fn check_status(&mut self, open: &PendingExchange, answer: &Value) {
        let (Some(head), true) = (&open.head, open.info.id.is_some()) else { return };
        let wanted = match answer["error"]["code"].as_i64() {
            None => 200,
            Some(-32601) if self.is_modern() => 404,
            Some(-32022..=-32020) if self.is_modern() => 400,
            // The specification leaves the status of other errors open.
            Some(_) => return,
        };
        if head.status != wanted {
            let what = match answer["error"]["code"].as_i64() {
                Some(code) => format!("the error {code} has the status {}", head.status),
                None => format!("the result has the status {}", head.status),
            };
            self.add_finding(HTTP_STATUS, &open.info, what);
        }
    }

    fn add_finding(&mut self, rule: &'static Rule, info: &ExchangeInfo, what: String) {
        let location = match info.method.as_str() {
            "" => "an invalid message".into(),
            method => super::method_location(method),
        };
        self.received.push_back(Received::Finding(TransportFinding { rule, location, detail: what }));
    }
}
