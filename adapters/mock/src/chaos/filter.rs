//! Decides what becomes of each message, and does it. Without I/O.

use alloc::collections::VecDeque;
use core::time::Duration;

use mcp_proto::testing::Rng;
use serde_json::{Map, Value, json};

use mcp_proto_trace::escape;

use super::{Chaos, Kind};

/// Size of the member that makes a message huge: more than the default limit of our clients and of others.
pub(super) const HUGE_BYTES: usize = 17 << 20;
/// Depth of nested arrays: more than the default limit of our clients (128) and of most parsers.
const DEPTH: usize = 1_000;

/// What the relay does next.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// These bytes are written.
    Write(Vec<u8>),
    /// This many `x` are written. They are not made before, since many messages can wait.
    Fill(usize),
    /// Nothing is written for so long.
    Pause(Duration),
    /// The stream to the client ends.
    End,
}

/// Disturbs the messages of one connection.
#[derive(Debug)]
pub struct Filter {
    chaos: Chaos,
    connection: u64,
    is_numbered: bool,
    /// Takes a line about each disturbance.
    note: fn(&str),
    /// Number of messages so far.
    messages: u64,
    /// Beginning of a message whose end has not come.
    line: Vec<u8>,
    /// Message that comes after the next one.
    held: Option<Vec<u8>>,
    /// Token of the last progress notification.
    token: Option<Value>,
}

impl Filter {
    /// Creates the filter of a connection. `note` is told of each disturbance, with the number of the connection if `is_numbered`.
    #[must_use]
    pub fn new(chaos: &Chaos, connection: u64, is_numbered: bool, note: fn(&str)) -> Self {
        Self {
            chaos: chaos.clone(),
            connection,
            is_numbered,
            note,
            messages: 0,
            line: Vec::new(),
            held: None,
            token: None,
        }
    }

    /// Takes output of the server and appends what the relay does for the messages that end in it.
    pub fn push(&mut self, bytes: &[u8], steps: &mut VecDeque<Step>) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if let Some(message) = self.line.strip_suffix(b"\n") {
                let message = message.to_vec();
                self.line.clear();
                self.pass(message, steps);
            }
        }
    }

    /// Takes the end of the output.
    pub fn finish(&mut self, steps: &mut VecDeque<Step>) {
        let rest = self.held.take().map(with_newline).into_iter();
        let unfinished = Some(core::mem::take(&mut self.line)).filter(|line| !line.is_empty());
        steps.extend(rest.chain(unfinished).map(Step::Write));
    }

    fn pass(&mut self, message: Vec<u8>, steps: &mut VecDeque<Step>) {
        self.messages += 1;
        let object = serde_json::from_slice::<Map<String, Value>>(&message).ok();
        let kind = object.as_ref().and_then(|object| self.choose(object));
        if let (Some(kind), Some(object)) = (kind, &object) {
            let connection =
                if self.is_numbered { format!("connection {}, ", self.connection) } else { String::new() };
            let text =
                format!("{connection}message {} ({}): {}", self.messages, describe(object), kind.name());
            (self.note)(&format!("chaos: {}", escape::line(&text)));
        }
        if let Some(token) = object.as_ref().and_then(|object| object.get("params")?.get("progressToken")) {
            self.token = Some(token.clone());
        }
        let before = self.held.take();
        match (kind, object) {
            (Some(Kind::OutOfOrder), _) if before.is_none() => self.held = Some(message),
            (Some(kind), Some(object)) => self.disturb(kind, message, object, steps),
            _ => steps.push_back(Step::Write(with_newline(message))),
        }
        steps.extend(before.map(with_newline).map(Step::Write));
    }

    /// Returns what becomes of the message: it follows from the seed, the connection, and the number and kind of the message.
    fn choose(&self, object: &Map<String, Value>) -> Option<Kind> {
        if self.messages <= self.chaos.after {
            return None;
        }
        let mut rng = Rng::new(self.chaos.seed);
        for number in [self.connection, self.messages] {
            rng = Rng::new(rng.next() ^ number);
        }
        let is_response = is_response(object);
        let fitting: Vec<Kind> =
            self.chaos.kinds.iter().copied().filter(|kind| is_response || !kind.is_for_responses()).collect();
        (rng.percent(self.chaos.rate) && !fitting.is_empty()).then(|| *rng.pick(&fitting))
    }

    fn disturb(
        &self,
        kind: Kind,
        message: Vec<u8>,
        mut object: Map<String, Value>,
        steps: &mut VecDeque<Step>,
    ) {
        let mut write = |bytes: Vec<u8>| steps.push_back(Step::Write(with_newline(bytes)));
        let half = message.get(..message.len() / 2).unwrap_or_default().to_vec();
        match kind {
            Kind::Silent => {}
            Kind::Twice => (0..2).for_each(|_| write(message.clone())),
            Kind::WrongId => {
                let id = object.get("id").map(|id| match id.as_i64() {
                    Some(id) => json!(id.wrapping_add(1_000_000_007)),
                    None => json!("never asked"),
                });
                write(with_id(object, id.unwrap_or_default()));
            }
            Kind::StringId => {
                let id = object.get("id").map_or(Value::Null, |id| match id {
                    Value::String(_) => json!(0),
                    other => json!(other.to_string()),
                });
                write(with_id(object, id));
            }
            Kind::NullId => write(with_id(object, Value::Null)),
            Kind::Both => {
                let error = json!({"code": -32603, "message": "chaos: result and error"});
                let other =
                    if object.contains_key("result") { ("error", error) } else { ("result", json!({})) };
                object.insert(other.0.into(), other.1);
                write(Value::Object(object).to_string().into_bytes());
            }
            Kind::InvalidUtf8 => write(with_member(object, b"\"\xff\xfe\xc0\"")),
            Kind::LogLine => {
                write(b"2026-01-01T00:00:00Z INFO chaos: a log line on stdout".to_vec());
                write(message);
            }
            Kind::BlankLine => {
                write(Vec::new());
                write(message);
            }
            Kind::Batch => write([&b"["[..], &*message, b"]"].concat()),
            Kind::Truncated => write(half),
            Kind::LateProgress => {
                let token = self.token.clone().or_else(|| object.get("id").cloned());
                let params = json!({"progressToken": token, "progress": 1e9});
                let late = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
                write(message);
                write(late.to_string().into_bytes());
            }
            Kind::BigNumber => write(with_member(object, b"1e400")),
            Kind::Huge => {
                // No other byte of a message is 0.
                let message = with_member(object, b"\"\0\"");
                let mut parts = message.split(|byte| *byte == 0).map(<[u8]>::to_vec);
                let [head, tail] = [(); 2].map(|()| parts.next().unwrap_or_default());
                steps.extend([Step::Write(head), Step::Fill(HUGE_BYTES), Step::Write(with_newline(tail))]);
            }
            Kind::Deep => write(with_member(object, &[vec![b'['; DEPTH], vec![b']'; DEPTH]].concat())),
            Kind::Late => steps.extend([Step::Pause(self.chaos.delay), Step::Write(with_newline(message))]),
            Kind::Cut => steps.extend([Step::Write(half), Step::End]),
            // It is late already: another one is held.
            Kind::OutOfOrder => write(message),
        }
    }
}

fn with_newline(mut message: Vec<u8>) -> Vec<u8> {
    message.push(b'\n');
    message
}

fn is_response(object: &Map<String, Value>) -> bool {
    object.contains_key("id") && !object.contains_key("method")
}

/// Names a message: `response 3`, `notification notifications/progress`.
fn describe(object: &Map<String, Value>) -> String {
    let id = object.get("id").map(Value::to_string);
    match (object.get("method").and_then(Value::as_str), id) {
        (Some(method), Some(id)) => format!("request {id}, {method}"),
        (Some(method), None) => format!("notification {method}"),
        (None, id) => format!("response {}", id.unwrap_or_else(|| "without an id".into())),
    }
}

fn with_id(mut object: Map<String, Value>, id: Value) -> Vec<u8> {
    object.insert("id".into(), id);
    Value::Object(object).to_string().into_bytes()
}

/// Adds the member `chaos` with this value, which need not be JSON, to the result, the error or the parameters.
fn with_member(mut object: Map<String, Value>, value: &[u8]) -> Vec<u8> {
    let body = ["result", "error", "params"]
        .into_iter()
        .find(|name| object.get(*name).is_some_and(Value::is_object));
    let body = body.and_then(|name| Some((name, object.remove(name)?)));
    let outer = Value::Object(object).to_string().into_bytes();
    match body {
        Some((name, inner)) => insert(outer, name, &insert(inner.to_string().into_bytes(), "chaos", value)),
        None => insert(outer, "chaos", value),
    }
}

/// Adds a member to an object.
fn insert(mut object: Vec<u8>, name: &str, value: &[u8]) -> Vec<u8> {
    object.pop();
    let comma = if object == b"{" { "" } else { "," };
    object.extend_from_slice(format!("{comma}\"{name}\":").as_bytes());
    object.extend_from_slice(value);
    object.push(b'}');
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(seed: u64, connection: u64, kinds: &[Kind], rate: u64) -> Filter {
        let chaos = Chaos { seed, kinds: kinds.to_vec(), rate, delay: Duration::from_secs(2), after: 0 };
        Filter::new(&chaos, connection, false, |_| {})
    }

    /// Passes responses 1, 2, … through the filter, in pieces of this many bytes.
    fn pass(mut filter: Filter, count: u64, piece: usize) -> Vec<Step> {
        let mut steps = VecDeque::new();
        let input: String =
            (1..=count).map(|id| format!("{{\"id\":{id},\"jsonrpc\":\"2.0\",\"result\":{{}}}}\n")).collect();
        input.as_bytes().chunks(piece).for_each(|bytes| filter.push(bytes, &mut steps));
        filter.finish(&mut steps);
        steps.into()
    }

    fn text(kind: Kind) -> String {
        let written = pass(filter(1, 1, &[kind], 100), 2, 1_000).into_iter().map(|step| match step {
            Step::Write(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Step::Fill(length) => "x".repeat(length),
            Step::Pause(time) => format!("<pause {time:?}>"),
            Step::End => "<end>".into(),
        });
        written.collect::<String>().replace("\"jsonrpc\":\"2.0\",", "")
    }

    #[test]
    fn same_seed_disturbs_the_same_messages_however_they_are_cut() {
        let small: Vec<Kind> = Kind::all().filter(|kind| *kind != Kind::Huge).collect();
        let steps = |seed, connection, piece| pass(filter(seed, connection, &small, 50), 200, piece);
        assert_eq!(steps(7, 1, 1), steps(7, 1, 10_000));
        assert_ne!(steps(7, 1, 1), steps(8, 1, 1));
        assert_ne!(steps(7, 1, 1), steps(7, 2, 1));
    }

    #[test]
    fn rate_is_the_part_of_the_messages_that_is_disturbed() {
        let lost = |rate| 1_000 - pass(filter(3, 1, &[Kind::Silent], rate), 1_000, 4_096).len();
        assert_eq!((lost(0), lost(100)), (0, 1_000));
        assert!((200..300).contains(&lost(25)), "{}", lost(25));
    }

    // covers: BASE-008, BASE-009
    #[test]
    fn each_kind_does_what_its_row_says() {
        let good = "{\"id\":1,\"result\":{}}\n{\"id\":2,\"result\":{}}\n";
        let cases = [
            (Kind::Silent, ""),
            (Kind::OutOfOrder, "{\"id\":2,\"result\":{}}\n{\"id\":1,\"result\":{}}\n"),
            (Kind::WrongId, "{\"id\":1000000008,\"result\":{}}\n{\"id\":1000000009,\"result\":{}}\n"),
            (Kind::StringId, "{\"id\":\"1\",\"result\":{}}\n{\"id\":\"2\",\"result\":{}}\n"),
            (Kind::NullId, "{\"id\":null,\"result\":{}}\n{\"id\":null,\"result\":{}}\n"),
            (Kind::BlankLine, "\n{\"id\":1,\"result\":{}}\n\n{\"id\":2,\"result\":{}}\n"),
            (Kind::Batch, "[{\"id\":1,\"result\":{}}]\n[{\"id\":2,\"result\":{}}]\n"),
            (
                Kind::BigNumber,
                "{\"id\":1,\"result\":{\"chaos\":1e400}}\n{\"id\":2,\"result\":{\"chaos\":1e400}}\n",
            ),
            (Kind::Late, "<pause 2s>{\"id\":1,\"result\":{}}\n<pause 2s>{\"id\":2,\"result\":{}}\n"),
        ];
        for (kind, want) in cases {
            let want = want.replace("\"jsonrpc\":\"2.0\",", "");
            assert_eq!(text(kind).replace(",\"jsonrpc\":\"2.0\"", ""), want, "{kind:?}");
        }
        assert!(text(Kind::Cut).contains("<end>") && !text(Kind::Cut).contains('\n'));
        assert_eq!(text(Kind::Twice).lines().count(), 2 * good.lines().count());
        assert!(text(Kind::Both).matches("\"error\":{\"code\":-32603").count() == 2);
        assert_eq!(text(Kind::Deep).matches("[[").count(), 2 * DEPTH / 2);
        assert!(text(Kind::Huge).len() > 2 * HUGE_BYTES);
        let kept: usize = pass(filter(1, 1, &[Kind::Huge], 100), 100, 10_000)
            .iter()
            .map(|step| if let Step::Write(bytes) = step { bytes.len() } else { 0 })
            .sum();
        assert!(kept < 10_000, "{kept} bytes wait");
        assert!(text(Kind::InvalidUtf8).contains(char::REPLACEMENT_CHARACTER));
        assert_eq!(text(Kind::LateProgress).matches("notifications/progress").count(), 2);
        assert_eq!(text(Kind::LogLine).matches("INFO").count(), 2);
        assert_eq!(text(Kind::Truncated).matches("result").count(), 0);
    }

    #[test]
    fn notification_keeps_what_only_responses_have() {
        let mut filter = filter(1, 1, &[Kind::WrongId, Kind::Both], 100);
        let (mut steps, line) = (VecDeque::new(), b"{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n");
        filter.push(line, &mut steps);
        assert_eq!(steps, [Step::Write(line.to_vec())]);
    }
}
