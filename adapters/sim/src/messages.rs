//! Invariants of the messages on the links.

use alloc::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::world::{Entry, Lane, What};

/// What is known of one life of a server and its client.
#[derive(Default)]
struct Life {
    is_alive: bool,
    has_initialize: bool,
    foreign: BTreeSet<String>,
    /// Method and subject of the requests that the client has sent.
    requests: BTreeMap<String, (String, String)>,
    /// Progress tokens, with the request and the last progress.
    tokens: BTreeMap<String, (String, f64)>,
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

/// The messages of a line: one, or those of a batch.
fn messages(line: &str) -> Vec<Value> {
    match serde_json::from_str(line) {
        Ok(Value::Array(batch)) => batch,
        Ok(message) => vec![message],
        Err(_) => Vec::new(),
    }
}

impl Life {
    fn handle(&mut self, entry: &Entry) {
        self.handle_request_of_server(&entry.what);
        match (&entry.what, entry.lane) {
            (What::Started, Lane::Server(_)) => *self = Self { is_alive: true, ..Self::default() },
            (What::Restored, _) => {
                self.is_alive = true;
                self.answered.clear();
                self.reported.clear();
            }
            (What::Lost { requests, .. }, _) => self.lost.extend(requests.iter().cloned()),
            (What::Died | What::Closed { .. }, _) => self.is_alive = false,
            (What::Injected { line }, Lane::Client(_)) => {
                self.foreign.extend(messages(line).iter().map(|message| message["id"].to_string()));
            }
            (What::Sent { line }, Lane::Client(_)) => {
                messages(line).iter().for_each(|message| self.handle_request(message));
            }
            (What::Sent { line }, Lane::Server(_)) => {
                messages(line).iter().for_each(|message| self.handle_response(message));
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
            _ => {}
        }
    }

    fn handle_request(&mut self, message: &Value) {
        let (Some(id), Some(method)) = (message.get("id"), message["method"].as_str()) else { return };
        self.has_initialize |= method == "initialize";
        let uri = message["params"]["uri"].as_str().unwrap_or_default();
        self.requests.insert(id.to_string(), (method.to_owned(), uri.to_owned()));
        if let Some(token) = message.pointer("/params/_meta/progressToken") {
            self.tokens.insert(token.to_string(), (id.to_string(), f64::NEG_INFINITY));
        }
    }

    fn handle_response(&mut self, message: &Value) {
        if message["method"] == "notifications/progress" {
            let progress = message["params"]["progress"].as_f64().unwrap_or(f64::NAN);
            if let Some((_, last)) = self.tokens.get_mut(&message["params"]["progressToken"].to_string()) {
                *last = progress;
            }
        }
        let (Some(id), None) = (message.get("id"), message.get("method")) else { return };
        self.sent.insert(id.to_string());
        if message.pointer("/result/task").is_some() || message.pointer("/result/taskId").is_some() {
            self.tasks.insert(id.to_string());
        }
        match self.requests.get(&id.to_string()) {
            Some((method, uri)) if method == "resources/subscribe" && message.get("result").is_some() => {
                self.subscribed.insert(uri.clone());
            }
            Some((method, uri)) if method == "resources/unsubscribe" && message.get("result").is_some() => {
                self.subscribed.remove(uri);
            }
            _ => {}
        }
    }
}

/// Finds the first entry of a link that `check` refuses, given what has happened before.
fn find(log: &[Entry], check: impl Fn(&Life, &Entry) -> Option<String>) -> Option<(usize, String)> {
    let mut lives: BTreeMap<usize, Life> = BTreeMap::new();
    for (at, entry) in log.iter().enumerate() {
        let found = match entry.lane {
            Lane::Client(n) | Lane::Server(n) => {
                let life = lives.entry(n).or_default();
                let found = check(life, entry);
                life.handle(entry);
                found
            }
            Lane::World => lives.values().filter(|life| life.is_alive).find_map(|life| check(life, entry)),
        };
        if let Some(reason) = found {
            return Some((at, reason));
        }
    }
    None
}

/// Finds the first message of a server that `check` refuses.
fn find_sent(log: &[Entry], check: impl Fn(&Life, &Value) -> Option<String>) -> Option<(usize, String)> {
    find(log, |life, entry| match (&entry.what, entry.lane) {
        (What::Sent { line }, Lane::Server(_)) => {
            messages(line).iter().find_map(|message| check(life, message))
        }
        _ => None,
    })
}

pub(crate) fn cancelled_is_not_answered(log: &[Entry]) -> Option<(usize, String)> {
    find_sent(log, |life, message| {
        let id = message.get("id").filter(|_| message.get("method").is_none())?.to_string();
        life.cancelled.contains(&id).then(|| format!("request {id} was cancelled"))
    })
}

pub(crate) fn answer_is_sent(log: &[Entry]) -> Option<(usize, String)> {
    find(log, |life, entry| match entry.what {
        What::Settled => {
            let is_unsent = |id: &&String| !life.sent.contains(*id) && !life.lost.contains(*id);
            life.answered.iter().find(is_unsent).map(|id| format!("no answer to request {id}"))
        }
        _ => None,
    })
}

pub(crate) fn progress_is_lawful(log: &[Entry]) -> Option<(usize, String)> {
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
            .is_none_or(|progress| progress <= *last)
            .then(|| format!("progress of {id} does not increase"))
    })
}

pub(crate) fn progress_is_sent(log: &[Entry]) -> Option<(usize, String)> {
    find(log, |life, entry| match entry.what {
        What::Flushed => life.tokens.values().find_map(|(id, sent)| {
            let reported = f64::from(*life.reported.get(id).filter(|_| !life.lost.contains(id))?);
            (*sent < reported).then(|| format!("progress {reported} of request {id} is held back"))
        }),
        _ => None,
    })
}

pub(crate) fn handshake_precedes_calls(log: &[Entry]) -> Option<(usize, String)> {
    find(log, |life, entry| match &entry.what {
        What::Received { request }
            if id_of(request).is_some_and(|id| life.foreign.contains(id)) && !life.has_initialize =>
        {
            Some(format!("{request} came before a handshake"))
        }
        _ => None,
    })
}

pub(crate) fn updates_are_subscribed(log: &[Entry]) -> Option<(usize, String)> {
    find_sent(log, |life, message| {
        let uri = message["params"]["uri"]
            .as_str()
            .filter(|_| message["method"] == "notifications/resources/updated")?;
        (!life.subscribed.contains(uri)).then(|| format!("{uri} is not subscribed"))
    })
}
