//! A server over HTTP alone, exchange by exchange: heads and bodies in, responses and events out, on virtual time.
//!
//! Every response is checked: its fields, how its body is delimited, and each message in it ([`Watch`]).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::time::Duration;

use bytes::Bytes;
use mcp_proto::Entropy;
use mcp_proto::head::{BodySize, Request};
use mcp_proto::http::server::{Config, Event, ExchangeId, Server};
use mcp_proto::{Instant, server};
use serde_json::Value;

use super::watch::Watch;
use crate::schema::Direction;

/// A server with a test in the place of its clients
#[derive(Debug)]
pub struct Web {
    /// The server itself, for commands
    pub server: Server,
    /// The time
    pub now: Instant,
    versions: mcp_proto::VersionSet,
    replies: BTreeMap<ExchangeId, Reply>,
    /// By session id
    watches: BTreeMap<String, Watch>,
    /// Events that have come, by session: what comes again is no second answer
    seen: BTreeSet<(String, String)>,
    /// Whether it pulls what there is to send
    pub pulls: bool,
}

/// A response as far as it has come
#[derive(Debug)]
pub struct Reply {
    /// Its status; 0 while there is none
    pub status: u16,
    /// Names in lower case, and values
    pub fields: Vec<(String, String)>,
    /// What came of the body
    pub body: String,
    /// It is complete
    pub finished: bool,
    size: BodySize,
    watch: Watch,
    session: Option<String>,
    checked: usize,
}

impl Reply {
    /// The value of a field
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n == name).map(|(_, v)| &**v)
    }

    /// The messages in it: the body, or the data of its events
    #[must_use]
    pub fn messages(&self) -> Vec<Value> {
        if self.is_stream() {
            return self.events().iter().filter(|e| !e.data.is_empty()).map(|e| value(&e.data)).collect();
        }
        if self.body.is_empty() { Vec::new() } else { vec![value(&self.body)] }
    }

    /// The only message in it
    ///
    /// # Panics
    ///
    /// When there is none, or more than one.
    #[must_use]
    pub fn message(&self) -> Value {
        let messages = self.messages();
        assert_eq!(messages.len(), 1, "{self:?}");
        messages.into_iter().next().unwrap_or_default()
    }

    /// Whether it is a stream of events
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.field("content-type") == Some("text/event-stream")
    }

    /// The events that have come whole
    #[must_use]
    pub fn events(&self) -> Vec<Sse> {
        let blocks = self.body.split_inclusive("\n\n").filter(|b| b.ends_with("\n\n"));
        blocks.map(Sse::read).filter(|e| *e != Sse::default()).collect()
    }
}

/// An event, read by the plainest means there are
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sse {
    /// `event`
    pub event: String,
    /// `id`
    pub id: String,
    /// `data`
    pub data: String,
    /// `retry`
    pub retry: String,
}

impl Sse {
    fn read(block: &str) -> Self {
        let mut event = Self::default();
        for line in block.lines().filter(|l| !l.is_empty() && !l.starts_with(':')) {
            let (name, text) = line.split_once(": ").unwrap_or((line, ""));
            let slot = match name {
                "event" => &mut event.event,
                "id" => &mut event.id,
                "data" => &mut event.data,
                "retry" => &mut event.retry,
                _ => panic!("no such field: {line}"),
            };
            assert!(slot.is_empty(), "twice in one event: {block}");
            *slot = text.into();
        }
        event
    }
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("we write JSON, not {text}: {e}"))
}

/// A value without the white space around it, as every reader of heads gives it
fn bare(value: &str) -> &[u8] {
    value.trim_matches([' ', '\t']).as_bytes()
}

/// What a request has unless it says otherwise
const USUAL: [(&str, &str); 3] = [
    ("host", "localhost:8080"),
    ("accept", "application/json, text/event-stream"),
    ("content-type", "application/json"),
];

impl Web {
    /// A server with these configurations
    #[must_use]
    pub fn new(server: server::Config, http: Config) -> Self {
        let versions = server.get_versions();
        let server = Server::new(Arc::new(server), Arc::new(http), Entropy::new([3; 32], 0));
        Self {
            server,
            now: Instant::from_micros(1),
            versions,
            replies: BTreeMap::new(),
            watches: BTreeMap::new(),
            seen: BTreeSet::new(),
            pulls: true,
        }
    }

    /// Sends a request; fields with an empty value are left out, also the usual ones
    pub fn send(&mut self, method: &str, target: &str, fields: &[(&str, &str)], body: &str) -> ExchangeId {
        let given = |name: &str| fields.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        let usual = USUAL.iter().filter(|(n, _)| !given(n) && (method == "POST" || *n != "content-type"));
        let all: Vec<(&str, &[u8])> =
            usual.chain(fields).filter(|(_, v)| !v.is_empty()).map(|(n, v)| (*n, bare(v))).collect();
        let session = fields
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case("mcp-session-id"))
            .map(|(_, v)| (*v).to_owned())
            .or_else(|| Some(target.split_once("sessionId=")?.1.to_owned()));
        let head = Request { method, target, fields: &all };
        let x = self.server.open(self.now, &head, Some(body.len() as u64));
        let reply = Reply {
            status: 0,
            fields: Vec::new(),
            body: String::new(),
            finished: false,
            size: BodySize::None,
            watch: Watch::new(self.versions),
            session: session.clone(),
            checked: 0,
        };
        self.replies.insert(x, reply);
        if !body.is_empty() {
            let now = self.now;
            self.watch(x).fed(now, Direction::ClientToServer, body.as_bytes());
        }
        if self.server.response(x).is_some() || self.server.wants_body(x) || body.is_empty() {
            self.body(x, body);
        }
        x
    }

    /// Sends the body of a request, which is complete then
    pub fn body(&mut self, x: ExchangeId, body: &str) {
        if self.server.wants_body(x) && !body.is_empty() {
            self.server.handle_body(self.now, x, Bytes::copy_from_slice(body.as_bytes()));
        }
        self.server.handle_end(self.now, x);
        self.pull();
    }

    /// Posts a message to the endpoint
    pub fn post(&mut self, fields: &[(&str, &str)], body: &str) -> ExchangeId {
        self.send("POST", "/mcp", fields, body)
    }

    fn watch(&mut self, x: ExchangeId) -> &mut Watch {
        let reply = self.replies.get_mut(&x).expect("known");
        match reply.session.as_ref().and_then(|s| self.watches.get_mut(s)) {
            Some(watch) => watch,
            None => &mut reply.watch,
        }
    }

    /// The response of an exchange as far as it has come
    ///
    /// # Panics
    ///
    /// When there never was such an exchange.
    #[must_use]
    pub fn reply(&self, x: ExchangeId) -> &Reply {
        self.replies.get(&x).expect("known")
    }

    /// The next event of the engine
    pub fn event(&mut self) -> Option<server::Event> {
        match self.server.poll_event(self.now)? {
            Event::Server(event) => Some(event),
            other => panic!("unexpected: {other:?}"),
        }
    }

    /// The call that was made
    ///
    /// # Panics
    ///
    /// When something else came first.
    pub fn call(&mut self) -> server::Call {
        match self.event() {
            Some(server::Event::Call(call)) => call,
            other => panic!("no call but {other:?}"),
        }
    }

    /// Lets time pass
    pub fn advance(&mut self, by: Duration) {
        let until = self.now + by;
        while let Some(at) = self.server.poll_timeout().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.server.handle_timeout(self.now);
            self.pull();
        }
        self.now = until;
        self.pull();
    }

    /// Says that the client of an exchange is gone
    pub fn hang_up(&mut self, x: ExchangeId) {
        self.server.handle_gone(self.now, x);
        self.pull();
    }

    /// Takes everything that there is to send
    ///
    /// # Panics
    ///
    /// When something is wrong with it.
    pub fn pull(&mut self) {
        if !self.pulls {
            return;
        }
        while let Some(x) = self.server.poll_ready(self.now) {
            self.pull_one(x);
        }
    }

    fn pull_one(&mut self, x: ExchangeId) {
        let Some(response) = self.server.response(x) else { return };
        let reply = self.replies.get_mut(&x).expect("known");
        if reply.status == 0 {
            reply.status = response.status;
            reply.size = response.size;
            let text = |v: &[u8]| String::from_utf8(v.to_vec()).expect("text");
            reply.fields = response.fields.iter().map(|(n, v)| (n.to_ascii_lowercase(), text(v))).collect();
            check_fields(reply);
            if let Some(id) = reply.field("mcp-session-id").map(str::to_owned) {
                let watch = core::mem::replace(&mut reply.watch, Watch::new(self.versions));
                self.watches.insert(id.clone(), watch);
                reply.session = Some(id);
            }
        }
        loop {
            let bytes = self.server.transmit(self.now, x).to_vec();
            if bytes.is_empty() {
                break;
            }
            self.server.consume(x, bytes.len());
            let reply = self.replies.get_mut(&x).expect("known");
            reply.body.push_str(core::str::from_utf8(&bytes).expect("our tests send whole characters"));
        }
        let finished = self.server.is_finished(x);
        let reply = self.replies.get_mut(&x).expect("known");
        reply.finished = finished;
        match reply.size {
            BodySize::None => assert!(reply.body.is_empty()),
            BodySize::Exact(length) => assert!(reply.body.len() as u64 <= length),
            BodySize::Stream => {}
        }
        if finished {
            if let BodySize::Exact(length) = reply.size {
                assert_eq!(reply.body.len() as u64, length);
            }
            self.server.release(self.now, x);
        }
        self.check_messages(x);
    }

    fn check_messages(&mut self, x: ExchangeId) {
        let reply = self.replies.get(&x).expect("known");
        if let Some(first) = reply.events().first().filter(|e| e.event == "endpoint") {
            let id = first.data.split_once("sessionId=").expect("an id").1.to_owned();
            self.watches.entry(id.clone()).or_insert_with(|| Watch::new(self.versions));
            self.replies.get_mut(&x).expect("known").session = Some(id);
        }
        let reply = self.replies.get(&x).expect("known");
        let session = reply.session.clone().unwrap_or_default();
        let mut again = Vec::new();
        let texts: Vec<String> = if reply.is_stream() {
            let messages = reply.events().into_iter().filter(|e| e.event.is_empty() && !e.data.is_empty());
            let seen = &mut self.seen;
            let checked = reply.checked;
            let all = messages.enumerate().map(|(n, e)| {
                again.push(n >= checked && !e.id.is_empty() && !seen.insert((session.clone(), e.id)));
                e.data
            });
            all.collect()
        } else if reply.finished && reply.field("content-type") == Some("application/json") {
            vec![reply.body.clone()]
        } else {
            Vec::new()
        };
        let (checked, now) = (reply.checked, self.now);
        // The body of a refusal is no answer to anything, and a resumed stream answers what was asked elsewhere.
        for (n, text) in texts.iter().enumerate().skip(checked) {
            let message = value(text);
            if again.get(n).copied().unwrap_or_default() {
                continue;
            }
            if message.get("id").is_some() || message.get("method").is_some() || message.is_array() {
                self.watch(x).emitted(now, Direction::ServerToClient, text.as_bytes());
            } else if self.reply(x).status >= 400 {
                let error = message.get("error").expect("an error without an id");
                assert!(error["code"].is_i64() && error["message"].is_string(), "{text}");
            }
        }
        self.replies.get_mut(&x).expect("known").checked = texts.len();
    }
}

fn check_fields(reply: &Reply) {
    assert!((200..=599).contains(&reply.status), "{reply:?}");
    let kind = reply.field("content-type");
    match (reply.status, reply.size) {
        (202 | 204, size) => {
            assert!(kind.is_none() && matches!(size, BodySize::None | BodySize::Exact(0)), "{reply:?}");
        }
        (200, BodySize::Stream) => {
            assert_eq!(kind, Some("text/event-stream"));
            assert_eq!(reply.field("cache-control"), Some("no-cache"));
            assert_eq!(reply.field("x-accel-buffering"), Some("no"));
        }
        (200, _) => assert!(matches!(kind, Some("application/json" | "text/event-stream")), "{reply:?}"),
        // Every refusal says why.
        _ => assert_eq!(kind, Some("application/json"), "{reply:?}"),
    }
    assert_eq!(reply.status == 405, reply.field("allow").is_some(), "{reply:?}");
    assert_eq!(reply.status == 401, reply.field("www-authenticate").is_some() && reply.status == 401);
    assert_eq!(reply.status == 503, reply.field("retry-after").is_some(), "{reply:?}");
    let mut names: Vec<_> = reply.fields.iter().map(|(n, _)| n).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), reply.fields.len(), "a field is there twice: {reply:?}");
}
