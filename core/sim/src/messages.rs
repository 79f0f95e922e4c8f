//! Invariants of the messages on the links.

use alloc::collections::{BTreeMap, BTreeSet};

use core::ops::Deref;

use serde_json::Value;

use crate::entry::{Entry, Lane, What};
use crate::strict::StrictJson;

/// The only revision with batches.
const BATCHES: &str = "2025-03-26";

/// The log of a run, whose messages are parsed once for all invariants. It is the slice of its entries besides.
#[derive(Debug)]
pub struct Log<'l> {
    entries: &'l [Entry],
    lines: Vec<Option<Line>>,
}

/// A line on a link.
#[derive(Debug)]
struct Line {
    /// The message, or those of a batch; none if it is not readable.
    messages: Vec<Value>,
    is_batch: bool,
    /// Why no side may write it, whatever the revision is.
    fault: Option<String>,
}

impl<'l> Log<'l> {
    /// Parses the messages of a log.
    #[must_use]
    pub fn new(entries: &'l [Entry]) -> Self {
        let lines = entries.iter().map(|entry| match &entry.what {
            What::Sent { line } | What::Injected { line } => Some(Line::read(line)),
            _ => None,
        });
        Self { entries, lines: lines.collect() }
    }

    pub(crate) fn messages(&self, at: usize) -> &[Value] {
        self.lines.get(at).and_then(Option::as_ref).map_or(&[], |line| &line.messages)
    }
}

impl Deref for Log<'_> {
    type Target = [Entry];

    fn deref(&self) -> &[Entry] {
        self.entries
    }
}

impl Line {
    fn read(line: &str) -> Self {
        let control = line.chars().find(|c| *c < ' ' || *c == '\u{feff}');
        let control = control.map(|c| format!("the character {c:?}"));
        match serde_json::from_str::<StrictJson>(line) {
            Ok(StrictJson(Value::Array(messages))) => Self { messages, is_batch: true, fault: control },
            Ok(StrictJson(message)) => Self { messages: vec![message], is_batch: false, fault: control },
            Err(error) => Self { messages: Vec::new(), is_batch: false, fault: Some(error.to_string()) },
        }
    }
}

/// What is known of one life of a server and its client.
#[derive(Default)]
struct Life {
    is_alive: bool,
    has_initialize: bool,
    /// Whether messages come on exchanges that overtake each other.
    is_http: bool,
    /// The exchange of the event stream of HTTP+SSE, which brings all messages in order, and whose end is that of the connection.
    stream: Option<usize>,
    /// The revision that a handshake has agreed on.
    version: Option<String>,
    /// The ids of the requests that the server has sent. Over HTTP a client repeats a response that may not have arrived.
    asked: BTreeSet<String>,
    foreign: BTreeSet<String>,
    /// Method and subject of the requests that the client has sent.
    requests: BTreeMap<String, (String, String)>,
    /// Progress tokens, with the request and the last progress.
    tokens: BTreeMap<String, (String, f64)>,
    /// The exchange of the last event with an id, and that of the last progress of each token.
    exchange: Option<usize>,
    progress_on: BTreeMap<String, Option<usize>>,
    /// The ids of requests that were received again, or became tasks.
    postponed: BTreeSet<String>,
    /// The ids that were answered by a message.
    sent: BTreeSet<String>,
    /// The ids that the application has answered.
    answered: BTreeSet<String>,
    cancelled: BTreeSet<String>,
    /// The last progress of open requests.
    reported: BTreeMap<String, u32>,
    /// The ids whose exchange broke.
    lost: BTreeSet<String>,
    /// The ids of calls that became tasks, whose progress goes on.
    tasks: BTreeSet<String>,
    subscribed: BTreeSet<String>,
}

/// The id within the name of a request; none in that of a run of a task, whose request was answered with the task.
fn id_of(request: &str) -> Option<&str> {
    request.strip_prefix("request ").and_then(|rest| rest.split(" (").next())
}

impl Life {
    fn handle(&mut self, entry: &Entry, messages: &[Value]) {
        self.handle_request_of_server(&entry.what);
        match (&entry.what, entry.lane) {
            (What::Started, Lane::Client(_)) => *self = Self::default(),
            // What the client has sent before may still arrive, and it may answer what it was asked.
            (What::Started, _) => {
                let before = core::mem::take(self);
                let Self { foreign, requests, tokens, asked, subscribed, .. } = before;
                *self =
                    Self { is_alive: true, foreign, requests, tokens, asked, subscribed, ..Self::default() };
            }
            (What::Restored, _) => {
                self.is_alive = true;
                self.answered.clear();
                self.reported.clear();
            }
            (What::Requested { .. }, _) => self.is_http = self.stream.is_none(),
            (What::Endpoint { exchange, .. }, _) => (self.is_http, self.stream) = (false, Some(*exchange)),
            (What::Streamed { exchange, .. }, _) => self.exchange = Some(*exchange),
            (What::Lost { exchange, .. }, _) if self.stream.is_some() => {
                self.is_alive &= self.stream != Some(*exchange);
            }
            (What::Lost { requests, .. }, _) => self.lost.extend(requests.iter().cloned()),
            (What::Died | What::Closed { .. }, _) => self.is_alive = false,
            (What::Injected { .. }, Lane::Client(_)) => {
                self.foreign.extend(messages.iter().map(|message| message["id"].to_string()));
            }
            (What::Sent { .. }, Lane::Client(_)) => {
                messages.iter().for_each(|message| self.handle_request(message));
            }
            (What::Sent { .. }, Lane::Server(_)) => {
                messages.iter().for_each(|message| self.handle_response(message));
            }
            _ => {}
        }
    }

    /// Follows a request through the application of the server.
    fn handle_request_of_server(&mut self, what: &What) {
        let (What::Received { request }
        | What::Reported { request, .. }
        | What::Answered { request }
        | What::Postponed { request }
        | What::Cancelled { request }) = what
        else {
            return;
        };
        let Some(id) = id_of(request) else { return };
        match what {
            What::Received { .. } => drop(self.cancelled.remove(id)),
            What::Reported { value, .. } => drop(self.reported.insert(id.to_owned(), *value)),
            _ => drop(self.reported.remove(id)),
        }
        match what {
            What::Answered { .. } => drop(self.answered.insert(id.to_owned())),
            What::Cancelled { .. } => drop(self.cancelled.insert(id.to_owned())),
            What::Postponed { .. } => drop(self.postponed.insert(id.to_owned())),
            _ => {}
        }
    }

    /// Returns whether the progress of a task may overtake that of its call, which waits on another stream.
    fn may_overtake(&self, token: &str, id: &str) -> bool {
        let last = self.progress_on.get(token).copied().flatten();
        self.is_http && self.postponed.contains(id) && last.is_some() && last != self.exchange
    }

    /// Returns why a side may not send a message now.
    fn find_unsound(&self, lane: Lane, message: &Value) -> Option<String> {
        let id = message.get("id").filter(|id| !id.is_null())?.to_string();
        let is_request = message.get("method").is_some();
        let is_known = match lane {
            Lane::Client(_) => is_request || self.asked.contains(&id) || self.foreign.contains(&id),
            _ if is_request => {
                return self
                    .version
                    .is_none()
                    .then(|| format!("a request of a server without a session: {id}"));
            }
            // Over HTTP a request may be sent again, and then has two responses.
            _ if self.sent.contains(&id) && !self.is_http && !self.foreign.contains(&id) => false,
            _ => self.requests.contains_key(&id) || self.foreign.contains(&id),
        };
        (!is_known).then(|| format!("the response {id} to no open request"))
    }

    fn handle_request(&mut self, message: &Value) {
        let Some(id) = message.get("id") else { return };
        let Some(method) = message["method"].as_str() else { return };
        self.has_initialize |= method == "initialize";
        // A subscription of a modern client ends when its cancellation arrives, so what it names is kept.
        if let Some(uris) = message.pointer("/params/notifications/resourceSubscriptions") {
            let uris = uris.as_array().into_iter().flatten().filter_map(Value::as_str);
            self.subscribed.extend(uris.map(str::to_owned));
        }
        let uri = message["params"]["uri"].as_str().unwrap_or_default();
        if method == "resources/subscribe" {
            // Over HTTP a change may overtake the answer on another stream.
            self.subscribed.insert(uri.to_owned());
        }
        self.requests.insert(id.to_string(), (method.to_owned(), uri.to_owned()));
        if let Some(token) = message.pointer("/params/_meta/progressToken") {
            self.tokens.insert(token.to_string(), (id.to_string(), f64::NEG_INFINITY));
        }
    }

    fn handle_response(&mut self, message: &Value) {
        if message["method"] == "notifications/progress" {
            let progress = message["params"]["progress"].as_f64().unwrap_or(f64::NAN);
            if let Some((_, last)) = self.tokens.get_mut(&message["params"]["progressToken"].to_string()) {
                // One that was overtaken does not lower it.
                *last = last.max(progress);
                self.progress_on.insert(message["params"]["progressToken"].to_string(), self.exchange);
            }
        }
        let Some(id) = message.get("id") else { return };
        if message.get("method").is_some() {
            self.asked.insert(id.to_string());
            return;
        }
        if let Some(version) = message.pointer("/result/protocolVersion").and_then(Value::as_str) {
            self.version = Some(version.to_owned());
        }
        self.sent.insert(id.to_string());
        if message.pointer("/result/task").is_some() || message.pointer("/result/taskId").is_some() {
            self.tasks.insert(id.to_string());
        }
        match self.requests.get(&id.to_string()) {
            Some((method, uri)) if method == "resources/subscribe" && message.get("result").is_some() => {
                self.subscribed.insert(uri.clone());
            }
            Some((method, uri)) if method == "resources/unsubscribe" && message.get("result").is_some() => {
                let is_again = self.requests.iter().any(|(id, (method, again))| {
                    method == "resources/subscribe" && again == uri && !self.sent.contains(id)
                });
                // Over HTTP the answer may overtake a change that was published before.
                if !is_again && !self.is_http {
                    self.subscribed.remove(uri);
                }
            }
            _ => {}
        }
    }
}

/// Finds the first entry of a link that `check` refuses, given its messages and what has happened before.
fn find(
    log: &Log<'_>,
    check: impl Fn(&Life, &Entry, Option<&Line>) -> Option<String>,
) -> Option<(usize, String)> {
    let mut lives: BTreeMap<usize, Life> = BTreeMap::new();
    for (at, entry) in log.iter().enumerate() {
        let found = match entry.lane {
            Lane::Client(n) | Lane::Server(n) => {
                let life = lives.entry(n).or_default();
                let found = check(life, entry, log.lines[at].as_ref());
                life.handle(entry, log.messages(at));
                found
            }
            Lane::World => {
                lives.values().filter(|life| life.is_alive).find_map(|life| check(life, entry, None))
            }
        };
        if let Some(reason) = found {
            return Some((at, reason));
        }
    }
    None
}

/// Finds the first message of a server that `check` refuses.
fn find_sent(log: &Log<'_>, check: impl Fn(&Life, &Value) -> Option<String>) -> Option<(usize, String)> {
    find(log, |life, entry, line| match (&entry.what, entry.lane) {
        (What::Sent { .. }, Lane::Server(_)) => {
            line?.messages.iter().find_map(|message| check(life, message))
        }
        _ => None,
    })
}

pub(crate) fn messages_are_sound(log: &Log<'_>) -> Option<(usize, String)> {
    find(log, |life, entry, line| {
        let What::Sent { line: text } = &entry.what else { return None };
        let Line { messages, is_batch, fault } = line?;
        if let Some(fault) = fault {
            return Some(format!("{fault} in {text}"));
        }
        if *is_batch && life.version.as_deref().is_some_and(|version| version != BATCHES) {
            return Some(format!("a batch in a session of {:?}", life.version));
        }
        messages.iter().find_map(|message| life.find_unsound(entry.lane, message))
    })
}

pub(crate) fn cancelled_is_not_answered(log: &Log<'_>) -> Option<(usize, String)> {
    find_sent(log, |life, message| {
        let id = message.get("id").filter(|_| message.get("method").is_none())?.to_string();
        life.cancelled.contains(&id).then(|| format!("request {id} was cancelled"))
    })
}

pub(crate) fn answer_is_sent(log: &Log<'_>) -> Option<(usize, String)> {
    find(log, |life, entry, _| match entry.what {
        What::Settled => {
            let is_unsent = |id: &&String| !life.sent.contains(*id) && !life.lost.contains(*id);
            life.answered.iter().find(is_unsent).map(|id| format!("no answer to request {id}"))
        }
        _ => None,
    })
}

pub(crate) fn progress_is_lawful(log: &Log<'_>) -> Option<(usize, String)> {
    find_sent(log, |life, message| {
        if message["method"] != "notifications/progress" {
            return None;
        }
        let token = message["params"]["progressToken"].to_string();
        let Some((id, last)) = life.tokens.get(&token) else {
            return Some(format!("nobody has the token {token}"));
        };
        if life.sent.contains(id) && !life.tasks.contains(id) {
            return Some(format!("request {id} was answered"));
        }
        let progress = message["params"]["progress"].as_f64();
        progress
            .is_none_or(|progress| progress <= *last && !life.may_overtake(&token, id))
            .then(|| format!("progress of {id} does not increase"))
    })
}

pub(crate) fn progress_is_sent(log: &Log<'_>) -> Option<(usize, String)> {
    find(log, |life, entry, _| match entry.what {
        What::Flushed => life.tokens.values().find_map(|(id, sent)| {
            let reported = f64::from(*life.reported.get(id).filter(|_| !life.lost.contains(id))?);
            (*sent < reported).then(|| format!("progress {reported} of request {id} is held back"))
        }),
        _ => None,
    })
}

pub(crate) fn handshake_precedes_calls(log: &Log<'_>) -> Option<(usize, String)> {
    find(log, |life, entry, _| match &entry.what {
        What::Received { request }
            if id_of(request).is_some_and(|id| life.foreign.contains(id)) && !life.has_initialize =>
        {
            Some(format!("{request} came before a handshake"))
        }
        _ => None,
    })
}

pub(crate) fn updates_are_subscribed(log: &Log<'_>) -> Option<(usize, String)> {
    find_sent(log, |life, message| {
        let uri = message["params"]["uri"]
            .as_str()
            .filter(|_| message["method"] == "notifications/resources/updated")?;
        (!life.subscribed.contains(uri)).then(|| format!("{uri} is not subscribed"))
    })
}
