//! Observer of all messages of a connection: records them, and checks those that the tested side emits.
//!
//! Each emitted message must be one line of compact JSON without a byte order mark, name no member twice, and match
//! the JSON Schema of its revision. A response must answer an open request.

use mcp_proto::{Era, Instant, VersionSet};
use serde_json::Value;

use mcp_sim::strict::StrictJson;

use crate::schema::{MessageDirection, REVISIONS, SchemaSet};

const MODERN: &str = "2026-07-28";
const LAST_LEGACY: &str = "2025-11-25";
/// The only revision with batches.
const BATCHES: &str = "2025-03-26";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";

/// A recorded message.
#[derive(Clone, Debug)]
pub struct ObservedMessage {
    /// Time at which it was written.
    pub at: Instant,
    /// Direction in which it went.
    pub direction: MessageDirection,
    /// Content.
    pub value: Value,
}

/// A recorded request.
#[derive(Clone, Debug)]
struct ObservedRequest {
    direction: MessageDirection,
    id: Value,
    method: String,
    revision: String,
    progress_token: Option<Value>,
    /// Number of handshakes before it.
    handshakes: usize,
    is_answered: bool,
}

/// The observer of one connection.
#[derive(Debug)]
pub struct MessageObserver {
    schemas: Option<SchemaSet>,
    requests: Vec<ObservedRequest>,
    /// Revision that a handshake has negotiated.
    session_revision: Option<String>,
    /// Number of handshakes that have negotiated a revision.
    handshakes: usize,
    /// Whether one of these revisions had batches.
    had_batches: bool,
    /// Whether the server accepts modern requests.
    serves_modern: bool,
    /// Whether the server received a modern request or is modern-only (DEC-004).
    is_modern: bool,
    /// Whether unreadable input was fed.
    has_unreadable_input: bool,
    /// Whether errors may have the id `null`, which no schema has (DEC-004).
    pub allows_null_ids: bool,
    /// Recorded messages, oldest first.
    pub messages: Vec<ObservedMessage>,
}

impl MessageObserver {
    /// Returns the observer of a new connection to a server of `server_versions`.
    #[must_use]
    pub fn new(server_versions: VersionSet) -> Self {
        let schemas = SchemaSet::from_env();
        let serves_modern = !server_versions.era(Era::Modern).is_empty();
        let modern = server_versions.era(Era::Legacy).is_empty();
        Self {
            schemas,
            requests: Vec::new(),
            session_revision: None,
            handshakes: 0,
            had_batches: false,
            serves_modern,
            is_modern: modern,
            has_unreadable_input: false,
            allows_null_ids: false,
            messages: Vec::new(),
        }
    }

    /// Records and checks one line that the tested side wrote, without its newline.
    ///
    /// # Panics
    ///
    /// If the line is not a valid message.
    pub fn record_emitted(&mut self, at: Instant, direction: MessageDirection, line: &[u8]) -> Value {
        let text = core::str::from_utf8(line).expect("emitted messages are UTF-8");
        assert!(!text.starts_with('\u{feff}'), "emitted a byte order mark");
        assert!(!text.bytes().any(|b| b < 0x20), "emitted a raw control character: {text:?}");
        let StrictJson(value) =
            serde_json::from_str(text).unwrap_or_else(|e| panic!("emitted invalid JSON: {text}: {e}"));
        self.assert_valid(direction, &value);
        self.record(at, direction, &value);
        value
    }

    /// Records one line that a test feeds to the tested side. It may hold any bytes.
    pub fn record_fed(&mut self, at: Instant, direction: MessageDirection, line: &[u8]) {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        match serde_json::from_slice::<Value>(line) {
            Ok(value) => {
                // An id without a method is answered in a batch, although it opens no request (BATCH-008).
                let is_bare = |m: &Value| {
                    m.get("id").is_some_and(|_| {
                        ["method", "result", "error"].iter().all(|name| m.get(name).is_none())
                    })
                };
                self.has_unreadable_input |= value.is_array() && members(&value).iter().any(is_bare);
                self.record(at, direction, &value);
            }
            // Malformed, or nested too deeply for this reader. The tested side may still find its id.
            Err(_) => self.has_unreadable_input = true,
        }
    }

    /// Returns whether messages are compared with schemas.
    #[must_use]
    pub const fn has_schemas(&self) -> bool {
        self.schemas.is_some()
    }

    fn assert_valid(&self, direction: MessageDirection, value: &Value) {
        let members = members(value);
        for member in members {
            let is_null = self.allows_null_ids && member.get("id") == Some(&Value::Null);
            let answers = member.get("method").is_none() && member.get("id").is_some() && !is_null;
            let known = !answers || self.open_request(direction, member).is_some();
            assert!(known || self.has_unreadable_input, "response to no open request: {value}");
        }
        let Some(schemas) = &self.schemas else { return };
        // Everything else has to be as the schema says.
        let mut value = value.clone();
        let all = if let Value::Array(members) = &mut value {
            &mut members[..]
        } else {
            core::slice::from_mut(&mut value)
        };
        for member in all.iter_mut().filter(|m| self.allows_null_ids && m.get("id") == Some(&Value::Null)) {
            member["id"] = "unknown".into();
        }
        let value = &value;
        let members = self::members(value);
        if value.is_array() {
            // Before a session only a client of the revision with batches sends one, which is refused (BATCH-003).
            let unknown = if self.is_modern { MODERN } else { BATCHES };
            let session = self.session_revision.as_deref().unwrap_or(unknown);
            // A batch that came before a second `initialize` is answered as it came (LIFE-008).
            let mut begun = members.iter().filter_map(|member| self.open_request(direction, member));
            let is_older = self.had_batches && begun.any(|request| request.handshakes < self.handshakes);
            let revision = if is_older { BATCHES } else { session };
            verify(schemas.check(revision, direction, value, None), value);
        }
        for member in members {
            let request = self.open_request(direction, member);
            let method = request.map(|a| a.method.as_str());
            let revision = self.revision_of(direction, member, request);
            let idless = member.get("error").is_some() && member.get("id").is_none();
            let outcome =
                if idless && direction == MessageDirection::ServerToClient && revision >= LAST_LEGACY {
                    schemas.check_http_body(revision, member, method)
                } else {
                    schemas.check(revision, direction, member, method)
                };
            verify(outcome, member);
        }
    }

    /// Returns the open request that a response answers.
    fn open_request(&self, direction: MessageDirection, response: &Value) -> Option<&ObservedRequest> {
        let id = normalized_id(response.get("id").filter(|_| response.get("method").is_none())?);
        self.requests.iter().find(|a| !a.is_answered && a.direction == direction.reverse() && a.id == id)
    }

    fn revision_of<'a>(
        &'a self,
        direction: MessageDirection,
        message: &'a Value,
        request: Option<&'a ObservedRequest>,
    ) -> &'a str {
        let method = message.get("method").and_then(Value::as_str);
        if let Some(request) = request {
            // A handshake settles the revision of its own answer.
            let settled = message.pointer("/result/protocolVersion").and_then(Value::as_str);
            return settled.filter(|_| request.method == "initialize").unwrap_or(&request.revision);
        }
        match method {
            Some(_) if message.get("id").is_some() => self.revision_of_request(message),
            Some("notifications/cancelled") => {
                let id = message.pointer("/params/requestId").map(normalized_id);
                let named = self
                    .requests
                    .iter()
                    .rev()
                    .find(|a| a.direction == direction && Some(&a.id) == id.as_ref());
                named.map_or_else(|| self.current_revision(), |a| &a.revision)
            }
            Some("notifications/progress") => {
                let token = message.pointer("/params/progressToken").map(normalized_id);
                let named =
                    |a: &&ObservedRequest| a.direction == direction.reverse() && a.progress_token == token;
                self.requests
                    .iter()
                    .rev()
                    .find(named)
                    .map_or_else(|| self.current_revision(), |a| &a.revision)
            }
            None if message.get("id").is_none() && direction == MessageDirection::ServerToClient => {
                self.revision_without_id()
            }
            _ => self.current_revision(),
        }
    }

    fn revision_of_request<'a>(&'a self, request: &'a Value) -> &'a str {
        if request.pointer("/params/_meta").is_some_and(|meta| meta.get(VERSION_KEY).is_some()) {
            return MODERN;
        }
        if request["method"] == "initialize" {
            let requested = request.pointer("/params/protocolVersion").and_then(Value::as_str);
            return requested.filter(|v| REVISIONS.contains(v) && *v != MODERN).unwrap_or(LAST_LEGACY);
        }
        self.session_revision.as_deref().unwrap_or(LAST_LEGACY)
    }

    /// Returns the revision of messages that belong to no request.
    fn current_revision(&self) -> &str {
        match self.session_revision.as_deref() {
            Some(session) => session,
            None if self.is_modern => MODERN,
            // No revision is negotiated yet: the message must be valid in the oldest one.
            None => REVISIONS[0],
        }
    }

    /// Returns the revision that allows an error without an id, if one of the connection does (DEC-004).
    fn revision_without_id(&self) -> &str {
        if self.is_modern { MODERN } else { self.current_revision() }
    }

    fn record(&mut self, at: Instant, direction: MessageDirection, value: &Value) {
        for member in members(value) {
            self.track(direction, member);
        }
        self.messages.push(ObservedMessage { at, direction, value: value.clone() });
    }

    fn track(&mut self, direction: MessageDirection, message: &Value) {
        let Some(id) = message.get("id").map(normalized_id) else { return };
        if let Some(method) = message.get("method") {
            // A server without modern revisions ignores the metadata.
            let known = self.serves_modern || direction == MessageDirection::ServerToClient;
            let revision = match self.revision_of_request(message) {
                MODERN if !known => self.session_revision.as_deref().unwrap_or(LAST_LEGACY),
                revision => revision,
            };
            let revision = revision.to_owned();
            let named = message.pointer("/params/_meta").and_then(|meta| meta.get(VERSION_KEY));
            self.is_modern |= self.serves_modern && named.is_some_and(|named| named == MODERN);
            let token = message.pointer("/params/_meta/progressToken").map(normalized_id);
            let method = method.as_str().unwrap_or_default().to_owned();
            self.requests.push(ObservedRequest {
                direction,
                id,
                method,
                revision,
                progress_token: token,
                handshakes: self.handshakes,
                is_answered: false,
            });
            return;
        }
        let settled = message.pointer("/result/protocolVersion").and_then(Value::as_str);
        let open =
            |a: &&mut ObservedRequest| !a.is_answered && a.direction == direction.reverse() && a.id == id;
        if let Some(request) = self.requests.iter_mut().find(open) {
            request.is_answered = true;
            if request.method == "initialize" && settled.is_some() {
                self.handshakes += 1;
                self.had_batches |= settled == Some(BATCHES);
                self.session_revision = settled.map(str::to_owned);
            }
        }
    }
}

/// Returns the members of a batch, or the single message.
fn members(value: &Value) -> &[Value] {
    match value {
        Value::Array(members) => members,
        _ => core::slice::from_ref(value),
    }
}

fn verify(outcome: Result<(), Vec<String>>, message: &Value) {
    if let Err(problems) = outcome {
        panic!("emitted an invalid message: {message}\n{}", problems.join("\n"));
    }
}

/// Returns an id or token in normal form: `1.0` becomes `1` (DEC-013).
fn normalized_id(id: &Value) -> Value {
    match id.as_f64() {
        #[allow(clippy::cast_possible_truncation, reason = "only whole numbers, and only to compare them")]
        Some(number) if number % 1.0 == 0.0 && !id.is_i64() => Value::from(number as i64),
        _ => id.clone(),
    }
}
