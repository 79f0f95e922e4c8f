//! The log of a world as rows of a timeline, with the arrival and the loss of each message, deadlines, and states.

use std::collections::{BTreeMap, VecDeque};

use mcp_proto::{Instant, TimeoutReason};
use mcp_sim::{Application, Binding, Entry, Lane, Plan, Side, SidePhase, Transit, What, World};
use serde_json::{Value, json};

/// Most rows. A page cannot show more.
const MAX_ROWS: usize = 3_000;

/// A message on its way.
struct Message {
    number: usize,
    label: String,
}

/// Collects rows while a world runs.
#[derive(Default)]
pub(crate) struct Timeline {
    /// Number of clients. A client over HTTP that is started again has a number above it, and the column of the one before.
    clients: usize,
    is_http: bool,
    pub(crate) rows: Vec<Value>,
    pub(crate) frames: Vec<Value>,
    /// Whether there were more rows.
    pub(crate) is_cut: bool,
    entries: usize,
    messages: usize,
    /// The messages of exchanges that are under way, by their transits.
    exchanged: BTreeMap<usize, Message>,
    /// The transits that begin in this step, by their entries.
    begun: BTreeMap<usize, usize>,
    transits: usize,
    /// Messages that lead to a side and have not arrived, in order.
    under_way: BTreeMap<Lane, VecDeque<Message>>,
    /// Lines that have arrived at a side in this life.
    arrived: BTreeMap<Lane, usize>,
    /// Methods of requests, by the side that has sent them and their id.
    methods: BTreeMap<(Lane, String), String>,
    sides: Vec<Side>,
    deadlines: BTreeMap<Lane, Instant>,
}

/// Parts of a row before its numbers are known.
struct Row {
    at: Instant,
    lane: Lane,
    kind: &'static str,
    text: String,
    details: Option<String>,
    message: Option<usize>,
    entry: Option<usize>,
}

fn millis(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(Instant::ZERO).as_millis()).unwrap_or(u64::MAX)
}

const fn place(lane: Lane) -> (&'static str, usize) {
    match lane {
        Lane::Client(n) => ("client", n),
        Lane::Server(n) => ("server", n),
        _ => ("world", 0),
    }
}

const fn other_end(lane: Lane) -> Lane {
    match lane {
        Lane::Client(n) => Lane::Server(n),
        Lane::Server(n) => Lane::Client(n),
        other => other,
    }
}

const fn phase(phase: SidePhase, is_http: bool) -> &'static str {
    match phase {
        SidePhase::Dead => "dead",
        SidePhase::Open if is_http => "open",
        SidePhase::Open => "no session",
        SidePhase::Handshake => "handshake",
        SidePhase::Ready => "ready",
        SidePhase::ShuttingDown => "shutting down",
        SidePhase::Ended => "ended",
        _ => "another phase",
    }
}

/// Returns the state of a side, which is one of the server of all clients over HTTP.
fn state(side: &Side, clients: usize, is_http: bool) -> Value {
    let (name, number) = place(side.lane);
    json!({
        "side": name,
        "n": number % clients,
        "number": number,
        "phase": phase(side.phase, is_http),
        "version": side.version.map(mcp_proto::Version::as_str),
        "open": side.open_calls,
        "unsent": side.unsent,
        "reads": side.reads,
        "deadline": side.deadline.map(|(at, _)| millis(at)),
        "reason": side.deadline.and_then(|(_, reason)| reason).map(reason_words),
    })
}

/// Returns the name of a variant as words.
fn words(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !text.is_empty() {
            text.push(' ');
        }
        text.push(letter.to_ascii_lowercase());
    }
    text
}

fn reason_words(reason: TimeoutReason) -> String {
    words(&format!("{reason:?}"))
}

/// Returns the name of a request without the key of the engine.
fn short(request: &str) -> &str {
    request.split(" (").next().unwrap_or(request)
}

/// Returns the id of an event without that of its session.
fn event_id(id: &str) -> &str {
    id.rsplit(' ').next().unwrap_or(id)
}

/// Returns the kind of an entry and a text of one line.
fn describe(what: &What) -> (&'static str, String) {
    match what {
        What::Started => ("started", "process starts".to_owned()),
        What::Restored => ("started", "process starts, with the sessions of the one before".to_owned()),
        What::Died => ("died", "process dies".to_owned()),
        What::Called { mark } => ("called", format!("call {mark}")),
        What::Ended { mark, mistake: Some(mistake), .. } => ("mistake", format!("{mark}: {mistake}")),
        What::Ended { mark, outcome, .. } if outcome.starts_with('{') => {
            ("ended", format!("{mark} ends with a result"))
        }
        What::Ended { mark, outcome, .. } => ("ended", format!("{mark} ends: {outcome}")),
        What::Received { request } => ("received", format!("{} begins", short(request))),
        What::Answered { request } => ("answered", format!("{} is answered", short(request))),
        What::Cancelled { request } => ("cancelled", format!("{} is cancelled", short(request))),
        What::Postponed { request } => ("postponed", format!("{} is postponed", short(request))),
        What::Replied { request, mistake: Some(mistake) } => {
            ("mistake", format!("{}: {mistake}", short(request)))
        }
        What::Replied { request, .. } => ("replied", format!("{} has its answer", short(request))),
        What::Reported { request, value } => ("reported", format!("{}: progress {value}", short(request))),
        What::Ready { version } => ("ready", format!("ready: {version}")),
        What::Progressed { mark } => ("progressed", format!("progress of {mark}")),
        What::Injected { line } | What::Sent { line } => ("sent", line.clone()),
        What::Requested { exchange, head, resumes: None } => {
            ("requested", format!("exchange {exchange}: {head}"))
        }
        What::Requested { exchange, resumes: Some(event), .. } => {
            ("resumed", format!("exchange {exchange} resumes a stream after event {}", event_id(event)))
        }
        What::Responded { exchange, status } => {
            ("responded", format!("exchange {exchange}: status {status}"))
        }
        What::Streamed { exchange, id, .. } => {
            ("streamed", format!("exchange {exchange}: event {}", event_id(id)))
        }
        What::Endpoint { exchange, target } => {
            ("event", format!("exchange {exchange} names the URL for messages, {target}"))
        }
        What::Finished { exchange } => ("finished", format!("exchange {exchange}: its response is written")),
        What::Unreadable { exchange, fault } => ("mistake", format!("exchange {exchange}: {fault}")),
        What::Lost { exchange, .. } => ("broken", format!("exchange {exchange} is lost")),
        What::Overheard { text, granted: Some(n) } => {
            ("mistake", format!("a stranger gets of client {n}: {text}"))
        }
        What::Overheard { text, .. } => ("stranger", format!("a stranger gets {text}")),
        What::Event { text } => ("event", text.clone()),
        What::Closed { fault } => ("closed", format!("closed: {fault}")),
        What::Fault { text } if text.starts_with("a stranger") => ("stranger", text.clone()),
        What::Fault { text } => ("fault", text.clone()),
        What::Flushed => ("phase", "the faults end".to_owned()),
        What::Settled => ("phase", "every call has ended; clients hang up".to_owned()),
        What::Rest => ("phase", "all has ended; only time passes".to_owned()),
        What::Idle { exchanges, sessions } => {
            ("phase", format!("the server without clients has {exchanges} exchanges and {sessions} sessions"))
        }
        What::Held { most, bound } if most > bound => ("mistake", format!("servers held {most} bytes")),
        What::Held { .. } => ("phase", "servers held no more than their limits allow".to_owned()),
        What::Released { memory } => ("phase", format!("{memory} bytes are still held")),
        What::Published { event, audience } => ("published", format!("{event} is published: {audience}")),
        What::Followed { follower, audience, .. } => ("followed", format!("{follower} begins: {audience}")),
        What::Positioned { follower } => ("positioned", format!("{follower} has a position")),
        What::HandedOut { follower, event } => ("handed-out", format!("{follower} gets {event}")),
        What::Gap { follower, reason } => ("gap", format!("{follower} may miss events: {}", words(reason))),
        What::Unfollowed { follower, error: None } => ("unfollowed", format!("{follower} ends")),
        What::Unfollowed { follower, error: Some(error) } => ("mistake", format!("{follower} ends: {error}")),
        What::Posted { target, is_last, .. } => {
            ("posted", format!("delivery to {target}{}", if *is_last { ", the last attempt" } else { "" }))
        }
        What::Forged { text, is_taken: false } => ("stranger", text.clone()),
        What::Forged { text, .. } => ("mistake", format!("{text}, and the delivery is taken")),
        What::CaughtUp => ("phase", "followers have what they were promised".to_owned()),
        // The log may get more.
        other => ("event", format!("{other:?}")),
    }
}

/// Returns what a line of text leaves out.
fn details(what: &What) -> Option<String> {
    match what {
        What::Sent { line } | What::Injected { line } => Some(line.clone()),
        What::Ended { outcome, .. } => Some(outcome.clone()),
        What::Received { request } | What::Answered { request } | What::Cancelled { request } => {
            Some(request.clone())
        }
        What::Postponed { request } | What::Replied { request, .. } => Some(request.clone()),
        What::Streamed { id, .. } => Some(id.clone()),
        What::Lost { requests, .. } if !requests.is_empty() => {
            Some(format!("requests {}", requests.join(", ")))
        }
        What::Requested { resumes, .. } => resumes.clone(),
        What::Posted { head, body, .. } => Some(format!("{head}\n{body}")),
        What::Event { text } | What::Fault { text } | What::Overheard { text, .. } => Some(text.clone()),
        _ => None,
    }
}

impl Timeline {
    pub(crate) fn new(plan: &Plan) -> Self {
        let clients = usize::try_from(plan.clients).map_or(1, |clients| clients.max(1));
        Self { clients, is_http: plan.binding != Binding::Pipe, ..Self::default() }
    }

    /// Adds what has happened in a step.
    pub(crate) fn take<A: Application>(&mut self, world: &mut World<A>) {
        let sides = world.sides();
        let (now, memory) = (world.now(), world.memory_in_use());
        let mut rows = self.deadlines(now);
        let (log, transits) = (world.log(), world.transits());
        let begun = transits.iter().enumerate().skip(self.transits);
        self.begun = begun.map(|(number, transit)| (transit.sent, number)).collect();
        self.transits = transits.len();
        for (index, entry) in log.iter().enumerate().skip(self.entries) {
            self.entry(index, entry, &mut rows);
        }
        self.entries = log.len();
        // A deadline stands before what it causes.
        rows.sort_by_key(|row| row.at);
        self.end_transits(transits, &mut rows);
        self.arrivals(&sides, transits, now, &mut rows);
        self.frame(&sides, now, memory);
        self.sides = sides;
        let step = self.frames.len() - 1;
        for row in rows {
            if self.rows.len() == MAX_ROWS {
                self.is_cut = true;
                return;
            }
            let (side, number) = place(row.lane);
            self.rows.push(json!({
                "step": step, "at": millis(row.at), "side": side, "n": number % self.clients, "number": number,
                "kind": row.kind, "text": row.text, "details": row.details, "message": row.message, "entry": row.entry,
            }));
        }
    }

    /// The deadlines that have passed in the step.
    fn deadlines(&mut self, now: Instant) -> Vec<Row> {
        let mut rows = Vec::new();
        for side in &self.sides {
            let Some((at, reason)) = side.deadline.filter(|(at, _)| *at <= now) else { continue };
            // The server of all clients has one deadline.
            let is_shared = self.is_http && matches!(side.lane, Lane::Server(_));
            let lane = if is_shared { Lane::World } else { side.lane };
            if self.deadlines.insert(lane, at) != Some(at) {
                let reason = reason.map_or_else(String::new, |reason| format!(": {}", reason_words(reason)));
                let of = if is_shared { " of the server" } else { "" };
                let text = format!("deadline{of}{reason}");
                rows.push(Row {
                    at,
                    lane,
                    kind: "deadline",
                    text,
                    details: None,
                    message: None,
                    entry: None,
                });
            }
        }
        rows
    }

    fn entry(&mut self, index: usize, entry: &Entry, rows: &mut Vec<Row>) {
        let (mut kind, mut text) = describe(&entry.what);
        let mut message = None;
        match &entry.what {
            What::Started => {
                // Both ends are new, and so is their link.
                self.lose(entry.lane, entry.at, rows);
                self.arrived.remove(&entry.lane);
                let (_, number) = place(entry.lane);
                if number >= self.clients {
                    text = format!("process starts, with the number {number}");
                }
            }
            What::Sent { line: sent } | What::Injected { line: sent } => {
                if matches!(entry.what, What::Injected { .. }) {
                    kind = "injected";
                }
                text = self.label(entry.lane, sent);
                message = Some(self.send(index, entry.lane, text.clone()));
            }
            What::Streamed { exchange, id, line } if self.begun.contains_key(&index) => {
                kind = "repeated";
                let label = self.label(entry.lane, line);
                text = format!("exchange {exchange}: event {} again, {label}", event_id(id));
                message = Some(self.send(index, entry.lane, label));
            }
            _ => {}
        }
        let details = details(&entry.what);
        rows.push(Row { at: entry.at, lane: entry.lane, kind, text, details, message, entry: Some(index) });
    }

    /// Takes a message on its way, and returns its number.
    fn send(&mut self, entry: usize, from: Lane, label: String) -> usize {
        let number = self.messages;
        self.messages += 1;
        let message = Message { number, label };
        match self.begun.get(&entry) {
            Some(transit) => {
                self.exchanged.insert(*transit, message);
            }
            None => self.under_way.entry(other_end(from)).or_default().push_back(message),
        }
        number
    }

    /// Adds the arrivals and losses of messages of exchanges where they happened.
    fn end_transits(&mut self, transits: &[Transit], rows: &mut Vec<Row>) {
        let mut ended = Vec::new();
        for (number, message) in std::mem::take(&mut self.exchanged) {
            match transits[number] {
                Transit { to, end: Some(end), .. } => ended.push((end, to, message)),
                _ => drop(self.exchanged.insert(number, message)),
            }
        }
        // Transits are numbered as they are sent; rows have the order of arrival.
        ended.sort_by_key(|(end, ..)| end.at);
        for (end, to, message) in ended {
            let is_later = |row: &Row| row.at > end.at || row.entry.is_some_and(|entry| entry >= end.entry);
            let before = rows.iter().position(is_later);
            let row = Row {
                at: end.at,
                lane: to,
                kind: if end.is_lost { "lost" } else { "arrived" },
                text: if end.is_lost { format!("lost: {}", message.label) } else { message.label },
                details: None,
                message: Some(message.number),
                entry: None,
            };
            rows.insert(before.unwrap_or(rows.len()), row);
        }
    }

    /// Names a message: its method, or that of the request that it answers, and its id.
    fn label(&mut self, from: Lane, line: &str) -> String {
        let Ok(message) = serde_json::from_str::<Value>(line) else { return "no JSON".to_owned() };
        if let Value::Array(batch) = &message {
            return format!("batch of {}", batch.len());
        }
        let id = message.get("id").filter(|id| !id.is_null()).map(ToString::to_string);
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            let request = match id.map(|id| (self.methods.get(&(other_end(from), id.clone())), id)) {
                Some((Some(method), id)) => format!("{method} {id}"),
                Some((None, id)) => format!("request {id}"),
                None => "no request".to_owned(),
            };
            return match message.pointer("/error/code") {
                Some(code) => format!("error {code} to {request}"),
                None => format!("result of {request}"),
            };
        };
        match id {
            Some(id) => {
                let text = format!("{method} {id}");
                self.methods.insert((from, id), method.to_owned());
                text
            }
            None => method.to_owned(),
        }
    }

    /// Adds the arrivals and losses of a step. The log does not have them: an arrival stands before the first event that its side
    /// reports after the message was sent, and otherwise at the end of the step.
    fn arrivals(&mut self, sides: &[Side], transits: &[Transit], now: Instant, rows: &mut Vec<Row>) {
        for side in sides {
            let arrived = self.arrived.insert(side.lane, side.arrived).unwrap_or(0);
            let mut earliest = 0;
            for _ in arrived..side.arrived {
                let Some(message) = self.under_way.entry(side.lane).or_default().pop_front() else { break };
                let sent = rows.iter().position(|row| row.message == Some(message.number));
                earliest = earliest.max(sent.map_or(0, |at| at + 1));
                let is_effect = |row: &Row| {
                    row.lane == side.lane
                        && matches!(
                            row.kind,
                            "received"
                                | "cancelled"
                                | "event"
                                | "ended"
                                | "mistake"
                                | "progressed"
                                | "ready"
                                | "closed"
                                | "handed-out"
                                | "gap"
                                | "positioned"
                                | "unfollowed"
                        )
                };
                let before = rows.iter().skip(earliest).position(is_effect);
                let place = before.map_or(rows.len(), |at| earliest + at);
                let row = Row {
                    at: rows.get(place).map_or(now, |row| row.at),
                    lane: side.lane,
                    kind: "arrived",
                    text: message.label,
                    details: None,
                    message: Some(message.number),
                    entry: None,
                };
                rows.insert(place, row);
                earliest = place + 1;
            }
            if side.is_cut_off {
                self.lose(side.lane, now, rows);
            }
        }
        if sides.is_empty() {
            for (number, message) in std::mem::take(&mut self.exchanged) {
                self.under_way.entry(transits[number].to).or_default().push_back(message);
            }
            let lanes: Vec<_> = self.under_way.keys().copied().collect();
            lanes.into_iter().for_each(|lane| self.lose(lane, now, rows));
        }
    }

    fn lose(&mut self, to: Lane, at: Instant, rows: &mut Vec<Row>) {
        for message in self.under_way.remove(&to).unwrap_or_default() {
            rows.push(Row {
                at,
                lane: to,
                kind: "lost",
                text: format!("lost: {}", message.label),
                details: None,
                message: Some(message.number),
                entry: None,
            });
        }
    }

    /// Adds the states that differ from those before the step.
    fn frame(&mut self, sides: &[Side], now: Instant, memory: usize) {
        let is_new = |side: &&Side| !self.sides.contains(side);
        let shown = |side: &Side| state(side, self.clients, self.is_http);
        let states: Vec<_> = sides.iter().filter(is_new).map(shown).collect();
        self.frames.push(json!({"at": millis(now), "memory": memory, "states": states}));
    }
}
