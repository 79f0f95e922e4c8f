//! A server over HTTP, as one that takes lines and gives some: each line is a request of its own
//!
//! What is wrong with responses is found here; what is in them is for those who look at the lines.

use alloc::collections::VecDeque;
use std::time::Instant;

use core::time::Duration;

use mcp_proto::frame::sse::{Sse, SseDecoder};
use mcp_proto::head::Fields;
use mcp_proto::http::fields::{
    ACCEPT, CONTENT_TYPE, METHOD, NAME, PROTOCOL_VERSION, SESSION_ID, X_ACCEL_BUFFERING, encode_value,
};
use mcp_proto::tap::Direction;
use mcp_proto::{Era, Version};
use serde_json::Value;

use super::exchange::{self, Came, Exchange, Head, Reply, Site};
use super::passing::{Got, LONGEST, MOST, Odd, Shown};
use super::report::clip;
use super::rules::{self, Rule};

pub(super) const JSON: &str = "application/json";
pub(super) const EVENT_STREAM: &str = "text/event-stream";

/// A conversation with a site
pub(super) struct Remote {
    pub(super) site: Site,
    version: Version,
    /// The handshake is over
    greeted: bool,
    pub(super) session: Option<String>,
    open: Vec<Open>,
    /// What came and was not taken
    ready: VecDeque<Got>,
    total: usize,
    shown: Shown,
    /// What became of the last request that was not answered
    fate: Option<String>,
}

/// A request whose response has not ended
struct Open {
    exchange: Exchange,
    about: About,
    head: Option<Head>,
    body: Vec<u8>,
    events: Option<SseDecoder>,
}

/// What a response is for
#[derive(Clone)]
struct About {
    method: String,
    /// That of a request
    id: Option<Value>,
    /// It is a notification
    notifies: bool,
    answered: bool,
}

impl Remote {
    pub(super) fn new(site: Site, version: Version, shown: Shown) -> Self {
        Self {
            site,
            version,
            greeted: false,
            session: None,
            open: Vec::new(),
            ready: VecDeque::new(),
            total: 0,
            shown,
            fate: None,
        }
    }

    pub(super) const fn agreed(&mut self, version: Version) {
        self.version = version;
        self.greeted = true;
    }

    /// Sends a message, or what is none; false when that did not work in time
    pub(super) fn send(&mut self, line: &[u8], until: Instant) -> bool {
        self.shown.line(Direction::Out, line);
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        let method = message["method"].as_str().unwrap_or_default();
        if self.is_modern() && method == "notifications/cancelled" {
            // Here a request is cancelled by going away (HTTP-042).
            self.open.retain(|open| open.about.id.as_ref() != Some(&message["params"]["requestId"]));
            return true;
        }
        let about = About {
            method: method.to_owned(),
            id: message.get("id").filter(|_| !method.is_empty()).cloned(),
            notifies: !method.is_empty() && message.get("id").is_none(),
            answered: false,
        };
        let notifies = about.notifies;
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let exchange = match Exchange::begin(&self.site, "POST", self.fields(&message), Some(line), left) {
            Ok(exchange) => exchange,
            Err(error) => {
                self.fate = Some(format!("there is no connection: {error}"));
                return false;
            }
        };
        self.open.push(Open { exchange, about, head: None, body: Vec::new(), events: None });
        // What comes next may rest on it.
        while notifies && self.open.iter().any(|open| open.about.notifies) {
            if Instant::now() >= until || !self.advance(until) {
                return false;
            }
        }
        true
    }

    /// Waits for a message
    pub(super) fn next(&mut self, until: Instant) -> Got {
        loop {
            if let Some(got) = self.ready.pop_front() {
                if let Got::Line(line) = &got {
                    self.shown.line(Direction::In, line);
                }
                return got;
            }
            if self.total > MOST {
                return Got::Flood;
            }
            if self.open.is_empty() {
                return Got::End(Vec::new());
            }
            if Instant::now() >= until {
                return Got::Quiet;
            }
            if !self.advance(until) {
                return Got::End(Vec::new());
            }
        }
    }

    /// What it did instead of answering, in words
    pub(super) fn fate(&mut self) -> String {
        self.fate.take().unwrap_or_else(|| "there was no response".into())
    }

    /// Ends the session, if there is one; no word of how that went
    pub(super) fn leave(&mut self, timeout: Duration) {
        self.open.clear();
        if self.session.is_some() {
            let fields = self.own_fields();
            let _ = exchange::perform(&self.site, "DELETE", fields, None, Instant::now() + timeout);
            self.session = None;
        }
    }

    /// Makes a request of its own and gives what it is answered with
    pub(super) fn perform(
        &self,
        method: &str,
        fields: Fields,
        body: Option<&[u8]>,
        timeout: Duration,
    ) -> Result<Reply, String> {
        if let Some(body) = body {
            self.shown.line(Direction::Out, body);
        }
        let reply = exchange::perform(&self.site, method, fields, body, Instant::now() + timeout)?;
        self.shown.line(Direction::In, &[reply.head.text().as_bytes(), b" ", &reply.body].concat());
        Ok(reply)
    }

    /// The fields of what is posted
    pub(super) fn fields(&self, message: &Value) -> Fields {
        let mut fields = self.own_fields();
        fields.push(CONTENT_TYPE, JSON.as_bytes());
        fields.push(ACCEPT, format!("{JSON}, {EVENT_STREAM}").as_bytes());
        if self.is_modern() {
            let method = message["method"].as_str().unwrap_or("server/discover");
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
            let meta = &params["_meta"]["io.modelcontextprotocol/protocolVersion"];
            let version = meta.as_str().unwrap_or(self.version.as_str());
            fields.push(PROTOCOL_VERSION, version.as_bytes());
        }
        fields
    }

    /// What says in which session and revision something is asked, where the message does not
    pub(super) fn own_fields(&self) -> Fields {
        let mut fields = Fields::new();
        if let Some(session) = &self.session {
            fields.push(SESSION_ID, session.as_bytes());
        }
        if !self.is_modern() && self.greeted && self.version >= Version::V2025_06_18 {
            fields.push(PROTOCOL_VERSION, self.version.as_str().as_bytes());
        }
        fields
    }

    const fn is_modern(&self) -> bool {
        matches!(self.version.era(), Era::Modern)
    }

    /// Lets everything move on, at most until `until`; false when nothing can be waited for
    fn advance(&mut self, until: Instant) -> bool {
        let exchanges = self.open.iter_mut().map(|open| &mut open.exchange);
        if let Err(error) = exchange::advance(exchanges, until) {
            self.fate = Some(format!("nothing can be waited for: {error}"));
            return false;
        }
        let mut open = core::mem::take(&mut self.open);
        open.retain_mut(|open| self.take(open));
        self.open = open;
        true
    }

    /// Takes what came of one; whether there is more to come
    fn take(&mut self, open: &mut Open) -> bool {
        while let Some(came) = open.exchange.poll() {
            match came {
                Came::Head(head) => self.head(open, head),
                Came::Body(piece) => {
                    self.total += piece.len();
                    if let Some(events) = &mut open.events {
                        events.push(&piece);
                        self.events(open);
                    } else if open.body.len() <= LONGEST {
                        open.body.extend_from_slice(&piece);
                    } else {
                        self.ready.push_back(Got::Flood);
                        return false;
                    }
                }
                Came::End => {
                    self.end(open);
                    return false;
                }
                Came::Broken(why) => {
                    if !open.about.answered {
                        self.fate = Some(why);
                    }
                    return false;
                }
            }
        }
        true
    }

    fn head(&mut self, open: &mut Open, head: Head) {
        self.shown.line(Direction::In, head.text().as_bytes());
        if open.about.method == "initialize" && head.is_success() {
            self.session = head.get(SESSION_ID).map(str::to_owned);
            let session = self.session.as_deref().unwrap_or("x");
            if session.is_empty() || !session.bytes().all(|byte| byte.is_ascii_graphic()) {
                self.odd(rules::HTTP_SESSION_ID, &open.about, format!("the session id is {session:?}"));
            }
        }
        let (json, events) = (head.is_of(JSON), head.is_of(EVENT_STREAM));
        if head.status == 200 && open.about.id.is_some() && !json && !events {
            self.odd(rules::HTTP_CONTENT_TYPE, &open.about, format!("the response has {}", head.text()));
        }
        if events {
            let unbuffered = head.get(X_ACCEL_BUFFERING).is_some_and(|value| value == "no");
            if self.is_modern() && !unbuffered {
                let what = format!("the stream of events has no `{X_ACCEL_BUFFERING}: no`");
                self.odd(rules::HTTP_BUFFERING, &open.about, what);
            }
            open.events = Some(SseDecoder::new(LONGEST));
        }
        open.head = Some(head);
    }

    fn events(&mut self, open: &mut Open) {
        while let Some(event) = open.events.as_mut().and_then(SseDecoder::next_event) {
            match event {
                Sse::Event(event) if event.kind.as_deref().is_none_or(|kind| kind == b"message") => {
                    self.message(open, &event.data);
                }
                Sse::Event(_) => {}
                Sse::TooLong { .. } => self.ready.push_back(Got::Flood),
            }
        }
    }

    /// A response is complete
    fn end(&mut self, open: &mut Open) {
        let Some(head) = open.head.clone() else { return };
        let body = core::mem::take(&mut open.body);
        if open.about.notifies {
            // Those that nobody knows may be refused.
            let known = !open.about.method.contains("mcp-probe");
            if (head.is_success() && head.status != 202) || (!head.is_success() && known) {
                self.odd(rules::HTTP_ACCEPTED, &open.about, format!("the response has {}", head.text()));
            } else if head.is_success() && !body.is_empty() {
                let what = format!("the response has a body of {} bytes", body.len());
                self.odd(rules::HTTP_ACCEPTED, &open.about, what);
            }
            return;
        }
        // Pages of gateways and the like say nothing that could be read.
        if !body.is_empty() && (head.is_success() || head.is_of(JSON)) {
            self.message(open, &body);
        }
        if !open.about.answered {
            self.fate = Some(format!("the response has {}, and no answer in it", head.text()));
        }
    }

    fn message(&mut self, open: &mut Open, data: &[u8]) {
        let value: Value = serde_json::from_slice(data).unwrap_or_default();
        let members = ["jsonrpc", "method", "result", "error"];
        if !value.is_array() && !members.iter().any(|name| value.get(name).is_some()) {
            let text = clip(&String::from_utf8_lossy(data), 160);
            return self.odd(rules::HTTP_BODY, &open.about, format!("the response holds no message: {text}"));
        }
        if value.is_array() || value.get("id") == open.about.id.as_ref() {
            open.about.answered = true;
            self.judge_status(open, &value);
        }
        self.ready.push_back(Got::Line(data.to_vec()));
    }

    /// Whether status and answer agree
    fn judge_status(&mut self, open: &Open, answer: &Value) {
        let (Some(head), true) = (&open.head, open.about.id.is_some()) else { return };
        let wanted = match answer["error"]["code"].as_i64() {
            None => 200,
            Some(-32601) if self.is_modern() => 404,
            Some(-32022..=-32020) if self.is_modern() => 400,
            // Left open.
            Some(_) => return,
        };
        if head.status != wanted {
            let what = match answer["error"]["code"].as_i64() {
                Some(code) => format!("the error {code} has the status {}", head.status),
                None => format!("the result has the status {}", head.status),
            };
            self.odd(rules::HTTP_STATUS, &open.about, what);
        }
    }

    fn odd(&mut self, rule: &'static Rule, about: &About, what: String) {
        let place = match about.method.as_str() {
            "" => "what is no message".into(),
            method => super::place(method),
        };
        self.ready.push_back(Got::Odd(Odd { rule, place, what }));
    }
}
