//! Looks at every message that passes: keeps it, and checks what our side emitted.
//!
//! What is checked of each of our messages: one line of compact JSON without a byte order mark, no member named
//! twice, valid against the JSON Schema of its revision, and, for a response, an answer to a request that is still
//! open.

use mcp_proto::{Era, Instant, VersionSet};
use serde_json::Value;

use super::strict::Strict;
use crate::schema::{Direction, REVISIONS, Schemas};

const MODERN: &str = "2026-07-28";
const LAST_LEGACY: &str = "2025-11-25";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// A message that passed
#[derive(Clone, Debug)]
pub struct Message {
    /// When it was written
    pub at: Instant,
    /// Which way it went
    pub direction: Direction,
    /// What it says
    pub value: Value,
}

/// A request that was seen
#[derive(Clone, Debug)]
struct Asked {
    direction: Direction,
    id: Value,
    method: String,
    revision: String,
    token: Option<Value>,
    answered: bool,
}

/// The observer of one connection
#[derive(Debug)]
pub struct Watch {
    schemas: Option<Schemas>,
    asked: Vec<Asked>,
    /// The revision that a handshake has settled on
    session: Option<String>,
    /// The server serves modern requests
    serves_modern: bool,
    /// It has got one, or gets nothing else (DEC-004)
    modern: bool,
    /// Something was fed that cannot be read
    garbled: bool,
    /// What passed, oldest first
    pub messages: Vec<Message>,
}

impl Watch {
    /// An observer of a connection that has not begun; the server speaks `theirs`
    #[must_use]
    pub fn new(theirs: VersionSet) -> Self {
        let schemas = Schemas::from_env();
        let serves_modern = !theirs.era(Era::Modern).is_empty();
        let modern = theirs.era(Era::Legacy).is_empty();
        Self {
            schemas,
            asked: Vec::new(),
            session: None,
            serves_modern,
            modern,
            garbled: false,
            messages: Vec::new(),
        }
    }

    /// Takes one line that our side wrote, without its newline
    ///
    /// # Panics
    ///
    /// When the line is no legal message.
    pub fn emitted(&mut self, at: Instant, direction: Direction, line: &[u8]) -> Value {
        let text = core::str::from_utf8(line).expect("we write UTF-8");
        assert!(!text.starts_with('\u{feff}'), "we write no byte order mark");
        assert!(!text.bytes().any(|b| b < 0x20), "no raw control characters: {text:?}");
        let Strict(value) =
            serde_json::from_str(text).unwrap_or_else(|e| panic!("we write JSON, not {text}: {e}"));
        self.check(direction, &value);
        self.take(at, direction, &value);
        value
    }

    /// Takes one line that a test feeds to our side, which may be anything
    pub fn fed(&mut self, at: Instant, direction: Direction, line: &[u8]) {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        match serde_json::from_slice(line) {
            Ok(value) => self.take(at, direction, &value),
            // Faulty, or nested too deep for this reader: its id may be made out all the same.
            Err(_) => self.garbled = true,
        }
    }

    /// Whether messages are compared with schemas at all
    #[must_use]
    pub const fn checks(&self) -> bool {
        self.schemas.is_some()
    }

    fn check(&self, direction: Direction, value: &Value) {
        let members = members(value);
        for member in members {
            let answers = member.get("method").is_none() && member.get("id").is_some();
            let known = !answers || self.open(direction, member).is_some();
            assert!(known || self.garbled, "answers nothing that was asked: {value}");
        }
        let Some(schemas) = &self.schemas else { return };
        if value.is_array() {
            let revision = self.session.as_deref().unwrap_or(LAST_LEGACY);
            verify(schemas.check(revision, direction, value, None), value);
        }
        for member in members {
            let asked = self.open(direction, member);
            let method = asked.map(|a| a.method.as_str());
            let revision = self.revision(direction, member, asked);
            let idless = member.get("error").is_some() && member.get("id").is_none();
            let outcome = if idless && direction == Direction::ServerToClient && revision >= LAST_LEGACY {
                schemas.check_http_body(revision, member, method)
            } else {
                schemas.check(revision, direction, member, method)
            };
            verify(outcome, member);
        }
    }

    /// The request that a response answers
    fn open(&self, direction: Direction, response: &Value) -> Option<&Asked> {
        let id = meaning(response.get("id").filter(|_| response.get("method").is_none())?);
        self.asked.iter().find(|a| !a.answered && a.direction == direction.reverse() && a.id == id)
    }

    fn revision<'a>(&'a self, direction: Direction, message: &'a Value, asked: Option<&'a Asked>) -> &'a str {
        let method = message.get("method").and_then(Value::as_str);
        if let Some(asked) = asked {
            // A handshake settles the revision of its own answer.
            let settled = message.pointer("/result/protocolVersion").and_then(Value::as_str);
            return settled.filter(|_| asked.method == "initialize").unwrap_or(&asked.revision);
        }
        match method {
            Some(_) if message.get("id").is_some() => self.revision_of_request(message),
            Some("notifications/cancelled") => {
                let id = message.pointer("/params/requestId").map(meaning);
                let named =
                    self.asked.iter().rev().find(|a| a.direction == direction && Some(&a.id) == id.as_ref());
                named.map_or_else(|| self.current(), |a| &a.revision)
            }
            Some("notifications/progress") => {
                let token = message.pointer("/params/progressToken").map(meaning);
                let named = |a: &&Asked| a.direction == direction.reverse() && a.token == token;
                self.asked.iter().rev().find(named).map_or_else(|| self.current(), |a| &a.revision)
            }
            None if message.get("id").is_none() && direction == Direction::ServerToClient => {
                self.current_idless()
            }
            _ => self.current(),
        }
    }

    fn revision_of_request<'a>(&'a self, request: &'a Value) -> &'a str {
        if request.pointer("/params/_meta").is_some_and(|meta| meta.get(VERSION_KEY).is_some()) {
            return MODERN;
        }
        if request["method"] == "initialize" {
            let asked = request.pointer("/params/protocolVersion").and_then(Value::as_str);
            return asked.filter(|v| REVISIONS.contains(v) && *v != MODERN).unwrap_or(LAST_LEGACY);
        }
        self.session.as_deref().unwrap_or(LAST_LEGACY)
    }

    /// The revision of what belongs to no request
    fn current(&self) -> &str {
        match self.session.as_deref() {
            Some(session) => session,
            None if self.modern => MODERN,
            // Nothing is settled: what is sent has to be legal in the oldest one.
            None => REVISIONS[0],
        }
    }

    /// The revision that lets an error go without an id, if one of the connection does (DEC-004)
    fn current_idless(&self) -> &str {
        if self.modern { MODERN } else { self.current() }
    }

    fn take(&mut self, at: Instant, direction: Direction, value: &Value) {
        for member in members(value) {
            self.note(direction, member);
        }
        self.messages.push(Message { at, direction, value: value.clone() });
    }

    fn note(&mut self, direction: Direction, message: &Value) {
        let Some(id) = message.get("id").map(meaning) else { return };
        if let Some(method) = message.get("method") {
            // A server that does not know the metadata answers as if there were none.
            let known = self.serves_modern || direction == Direction::ServerToClient;
            let revision = match self.revision_of_request(message) {
                MODERN if !known => self.session.as_deref().unwrap_or(LAST_LEGACY),
                revision => revision,
            };
            let revision = revision.to_owned();
            let named = message.pointer("/params/_meta").and_then(|meta| meta.get(VERSION_KEY));
            self.modern |= self.serves_modern && named.is_some_and(|named| named == MODERN);
            let token = message.pointer("/params/_meta/progressToken").map(meaning);
            let method = method.as_str().unwrap_or_default().to_owned();
            self.asked.push(Asked { direction, id, method, revision, token, answered: false });
            return;
        }
        let settled = message.pointer("/result/protocolVersion").and_then(Value::as_str);
        let open = |a: &&mut Asked| !a.answered && a.direction == direction.reverse() && a.id == id;
        if let Some(asked) = self.asked.iter_mut().find(open) {
            asked.answered = true;
            if asked.method == "initialize" && settled.is_some() {
                self.session = settled.map(str::to_owned);
            }
        }
    }
}

/// The members of a batch, or the one message
fn members(value: &Value) -> &[Value] {
    match value {
        Value::Array(members) => members,
        _ => core::slice::from_ref(value),
    }
}

fn verify(outcome: Result<(), Vec<String>>, message: &Value) {
    if let Err(problems) = outcome {
        panic!("we wrote a message that is not valid: {message}\n{}", problems.join("\n"));
    }
}

/// An id or token by what it means: `1.0` is `1` (DEC-013)
fn meaning(id: &Value) -> Value {
    match id.as_f64() {
        #[allow(clippy::cast_possible_truncation, reason = "only whole numbers, and only to compare them")]
        Some(number) if number % 1.0 == 0.0 && !id.is_i64() => Value::from(number as i64),
        _ => id.clone(),
    }
}
