//! The messages of two traces side by side.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use core::ops::ControlFlow;

use mcp_proto::RawJson;
use serde::Serialize;
use serde_json::{Map, Value};
use similar::{Algorithm, DiffTag, capture_diff_slices};

use crate::compare::relation;
use crate::{Call, Calls, Content, Message, Record, Side, Text, Trace};

/// A message as it is compared.
#[derive(Clone, Debug)]
struct Entry {
    /// Index of its record.
    record: usize,
    /// What it is: the method, the name and the arguments, of a response those of its request.
    exact: Arc<str>,
    /// What it is without the arguments.
    loose: Arc<str>,
    /// What it says.
    value: Value,
}

/// A difference of a message, or a message that one trace lacks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Divergence {
    /// The side whose message it is.
    pub from: Side,
    /// Line of the record in the file of the first trace, from 1.
    pub first_line: Option<usize>,
    /// Line of the record in the file of the second trace.
    pub second_line: Option<usize>,
    /// The message: its method and name, of a response those of its request.
    pub message: String,
    /// What is different.
    #[serde(flatten)]
    pub change: Change,
}

/// What is different between two traces.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "change", rename_all = "camelCase")]
pub enum Change {
    /// The second trace lacks the message.
    OnlyFirst,
    /// The first trace lacks the message.
    OnlySecond,
    /// It stands at another place.
    Moved,
    /// A value in the message differs.
    Value {
        /// Its place, a JSON pointer.
        pointer: String,
        /// The value in the first trace, if it is there.
        #[serde(skip_serializing_if = "Option::is_none")]
        first: Option<Value>,
        /// The value in the second trace, if it is there.
        #[serde(skip_serializing_if = "Option::is_none")]
        second: Option<Value>,
    },
}

/// Compares two traces message by message.
///
/// The messages of each side are compared in their order. Ids, tokens, times, what was written to stderr, heads of HTTP and the members
/// of `_meta` that are the protocol's are left out. Messages are first matched by method and arguments (responses by those of their
/// request), then by method and name, so that an additional call moves nothing.
#[must_use]
pub fn diff(first: &Trace, second: &Trace) -> Vec<Divergence> {
    let (first, second) = (Entries::new(first), Entries::new(second));
    let mut differences = Vec::new();
    for from in [Side::Client, Side::Server] {
        compare_side(from, first.of(from), second.of(from), &mut differences);
    }
    // In the order of the first trace; what it lacks comes where the second one has it.
    differences.sort_by_key(|difference| difference.first_line.or(difference.second_line));
    differences
}

/// The exact and the loose key of each request, by its record and its id.
type RequestKeys = BTreeMap<(usize, String), (Arc<str>, Arc<str>)>;

fn request_of(call: &Call) -> (usize, String) {
    (call.request, call.id.as_str().to_owned())
}

/// The messages of a trace by side.
#[derive(Default)]
struct Entries {
    client: Vec<Entry>,
    server: Vec<Entry>,
}

impl Entries {
    fn new(trace: &Trace) -> Self {
        let calls = Calls::new(trace);
        let mut entries = Self::default();
        // Of requests, for their responses.
        let mut keys = RequestKeys::new();
        for (index, record) in trace.records.iter().enumerate() {
            let mut add = |exact: Arc<str>, loose: Arc<str>, value| {
                let side = match record.from {
                    Side::Client => &mut entries.client,
                    Side::Server => &mut entries.server,
                };
                side.push(Entry { record: index, exact, loose, value });
            };
            let messages = Message::of(record);
            if messages.is_empty() {
                if let Some((kind, text)) = other_text(record) {
                    add(format!("{kind} {text}").into(), kind.into(), Value::String(text));
                }
            }
            for message in messages {
                let call = calls.call_of(index, &message);
                let (exact, loose) = match (&message.method, call) {
                    (Some(method), _) => request_keys(method, &message),
                    (None, Some(call)) => response_keys(call, &keys),
                    (None, None) => {
                        let loose = Arc::from("response to no request");
                        (Arc::clone(&loose), loose)
                    }
                };
                if let Some(call) = call.filter(|call| call.request == index) {
                    keys.insert(request_of(call), (Arc::clone(&exact), Arc::clone(&loose)));
                }
                add(exact, loose, essence(&message));
            }
        }
        entries
    }

    fn of(&self, from: Side) -> &[Entry] {
        match from {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }
}

/// Returns what a record says that is no message, if it is compared.
fn other_text(record: &Record) -> Option<(&'static str, String)> {
    match &record.content {
        Content::Line(line) if line.text == Text::default() => None,
        Content::Line(line) => Some(("a line that is no message", line.text.to_string())),
        Content::End(how) => Some(("the end", how.clone())),
        _ => None,
    }
}

fn request_keys(method: &str, message: &Message) -> (Arc<str>, Arc<str>) {
    let loose = match message.target() {
        Some(target) => format!("{method} {target}"),
        None => method.to_owned(),
    };
    // `serde_json` sorts the members.
    let arguments = message.params.as_ref().map(|params| without_identity(method, parse(params)));
    (format!("{loose} {}", arguments.unwrap_or_default()).into(), loose.into())
}

fn response_keys(call: &Call, keys: &RequestKeys) -> (Arc<str>, Arc<str>) {
    let text = |key: &str| Arc::from(format!("response to {key}"));
    match keys.get(&request_of(call)) {
        Some((exact, loose)) => (text(exact), text(loose)),
        None => (text(&call.method), text(&call.method)),
    }
}

fn parse(json: &RawJson) -> Value {
    json.parse().unwrap_or_else(|_| Value::String(json.as_str().to_owned()))
}

/// Returns what a message says without what differs from run to run.
fn essence(message: &Message) -> Value {
    let mut members = Map::new();
    let method = message.method.as_deref().unwrap_or_default();
    let parts = [("params", &message.params), ("result", &message.result), ("error", &message.error)];
    for (name, part) in parts {
        if let Some(part) = part {
            members.insert(name.to_owned(), without_identity(method, parse(part)));
        }
    }
    Value::Object(members)
}

/// Removes ids, tokens and the protocol's own members of `_meta` from parameters or a result.
fn without_identity(method: &str, mut value: Value) -> Value {
    let Some(members) = value.as_object_mut() else { return value };
    if let Some(meta) = members.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.retain(|name, _| {
            let is_of_trace_context = matches!(name.as_str(), "traceparent" | "tracestate" | "baggage");
            name != "progressToken" && !name.starts_with("io.modelcontextprotocol/") && !is_of_trace_context
        });
        if meta.is_empty() {
            members.remove("_meta");
        }
    }
    match method {
        "notifications/progress" => drop(members.remove("progressToken")),
        "notifications/cancelled" => drop(members.remove("requestId")),
        _ => {}
    }
    value
}

/// Aligns the messages of one side, and compares those that belong together.
fn compare_side(from: Side, first: &[Entry], second: &[Entry], differences: &mut Vec<Divergence>) {
    let (mut only_first, mut only_second) = (Vec::new(), Vec::new());
    let mut pairs = Vec::new();
    for (a, b) in align(first, second, |entry| &entry.exact) {
        // Between two exact matches: the same method and name with other arguments.
        for (a, b) in align(a, b, |entry| &entry.loose) {
            match (a, b) {
                ([a], [b]) if a.loose == b.loose => pairs.push((a, b, false)),
                (a, b) => {
                    only_first.extend(a);
                    only_second.extend(b);
                }
            }
        }
    }
    // What is left and says the same elsewhere has moved.
    let mut elsewhere: BTreeMap<&str, VecDeque<&Entry>> = BTreeMap::new();
    for entry in only_second {
        elsewhere.entry(&entry.exact).or_default().push_back(entry);
    }
    for entry in only_first {
        match elsewhere.get_mut(&*entry.exact).and_then(VecDeque::pop_front) {
            Some(moved) => pairs.push((entry, moved, true)),
            None => differences.push(difference(from, Some(entry), None, Change::OnlyFirst)),
        }
    }
    for entry in elsewhere.into_values().flatten() {
        differences.push(difference(from, None, Some(entry), Change::OnlySecond));
    }
    for (a, b, is_moved) in pairs {
        if is_moved {
            differences.push(difference(from, Some(a), Some(b), Change::Moved));
        }
        let _ = relation::differences(Some(&a.value), Some(&b.value), "", &mut |at, first, second| {
            let (pointer, first, second) = (at.to_owned(), first.cloned(), second.cloned());
            differences.push(difference(from, Some(a), Some(b), Change::Value { pointer, first, second }));
            ControlFlow::<()>::Continue(())
        });
    }
}

fn difference(from: Side, first: Option<&Entry>, second: Option<&Entry>, change: Change) -> Divergence {
    let message = first.or(second).map(|entry| entry.loose.to_string()).unwrap_or_default();
    // The header is the first line.
    let line = |entry: &Entry| entry.record + 2;
    Divergence { from, first_line: first.map(line), second_line: second.map(line), message, change }
}

/// Aligns two sequences by their longest common subsequence of keys (an approximation where long ones differ much): pairs of slices, of one element each if they have the
/// same key, and of those between otherwise.
fn align<'a>(
    first: &'a [Entry],
    second: &'a [Entry],
    key: impl Fn(&Entry) -> &Arc<str>,
) -> Vec<(&'a [Entry], &'a [Entry])> {
    let mut numbers: BTreeMap<Arc<str>, usize> = BTreeMap::new();
    let mut number = |entries: &[Entry]| -> Vec<usize> {
        let mut of = |entry| {
            let next = numbers.len();
            *numbers.entry(Arc::clone(key(entry))).or_insert(next)
        };
        entries.iter().map(&mut of).collect()
    };
    let (a, b) = (number(first), number(second));
    let mut parts = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &a, &b) {
        let (tag, a, b) = op.as_tag_tuple();
        let a = first.get(a).unwrap_or_default();
        let b = second.get(b).unwrap_or_default();
        if tag == DiffTag::Equal {
            parts.extend(a.chunks(1).zip(b.chunks(1)));
        } else {
            parts.push((a, b));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use crate::{Header, Line};

    use super::*;

    fn trace(lines: &[(Side, &str)]) -> Trace {
        let record = |(from, text): &(Side, &str)| {
            Record::new(0, *from, Content::Line(Line::new(Text::new(text.as_bytes()))))
        };
        Trace::new(Header::new("test", 0), lines.iter().map(record).collect())
    }

    fn call(id: u32, tool: &str, x: u32) -> String {
        format!(
            r#"{{"id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"x":{x}}},"_meta":{{"progressToken":{id},"io.modelcontextprotocol/a":{id}}}}}}}"#
        )
    }

    fn session(calls: &[(u32, &str, u32, &str)]) -> Trace {
        let requests = calls.iter().map(|(id, tool, x, _)| (Side::Client, call(*id, tool, *x)));
        let responses = calls
            .iter()
            .map(|(id, _, _, result)| (Side::Server, format!(r#"{{"id":{id},"result":{result}}}"#)));
        let lines: Vec<_> = requests.chain(responses).collect();
        trace(&lines.iter().map(|(from, text)| (*from, text.as_str())).collect::<Vec<_>>())
    }

    fn told(first: &Trace, second: &Trace) -> Vec<String> {
        let line = |line: Option<usize>| line.map_or_else(|| "-".to_owned(), |line| line.to_string());
        let mut told = Vec::new();
        for Divergence { from, first_line, second_line, message, change } in diff(first, second) {
            let place = format!("lines {} and {} {from} {message}: ", line(first_line), line(second_line));
            let show = |value: Option<Value>| {
                value.map_or_else(|| "(nothing)".to_owned(), |value| value.to_string())
            };
            match change {
                Change::OnlyFirst => told.push(place + "only in the first trace"),
                Change::OnlySecond => told.push(place + "only in the second trace"),
                Change::Moved => told.push(place + "at another place"),
                Change::Value { pointer, first, second } => {
                    told.push(place + &pointer);
                    told.push(format!("  - {}", show(first)));
                    told.push(format!("  + {}", show(second)));
                }
            }
        }
        told
    }

    #[test]
    fn ids_tokens_and_meta_of_the_protocol_are_no_difference() {
        let first =
            session(&[(1, "a", 1, "{}"), (2, "b", 2, r#"{"_meta":{"io.modelcontextprotocol/x":1}}"#)]);
        let second = session(&[(7, "a", 1, "{}"), (8, "b", 2, "{}")]);
        assert_eq!(told(&first, &second), [""; 0]);
    }

    #[test]
    fn one_more_call_moves_nothing() {
        let first = session(&[(1, "a", 1, "1"), (2, "b", 2, "2"), (3, "a", 1, "3")]);
        let second = session(&[(1, "a", 1, "1"), (2, "new", 0, "9"), (3, "b", 2, "2"), (4, "a", 1, "3")]);
        let want = [
            "lines - and 3 client tools/call new: only in the second trace",
            "lines - and 7 server response to tools/call new: only in the second trace",
        ];
        assert_eq!(told(&first, &second), want);
        assert_eq!(
            told(&second, &first)[0],
            want[0].replace("- and 3", "3 and -").replace("second", "first")
        );
    }

    #[test]
    fn other_arguments_and_results_are_told_by_their_pointer() {
        let first = session(&[(1, "a", 1, r#"{"c":[1,{"a/b":2}]}"#), (2, "a", 5, "{}")]);
        let second = session(&[(1, "a", 1, r#"{"c":[1,{"a/b":3}],"d":0}"#), (2, "a", 6, "{}")]);
        let want = [
            "lines 3 and 3 client tools/call a: /params/arguments/x",
            "  - 5",
            "  + 6",
            "lines 4 and 4 server response to tools/call a: /result/c/1/a~1b",
            "  - 2",
            "  + 3",
            "lines 4 and 4 server response to tools/call a: /result/d",
            "  - (nothing)",
            "  + 0",
        ];
        assert_eq!(told(&first, &second), want);
    }

    #[test]
    fn a_response_in_another_order_has_moved() {
        let lines = [
            (Side::Server, r#"{"method":"a"}"#),
            (Side::Server, r#"{"method":"b"}"#),
            (Side::Server, "noise"),
        ];
        let turned = [lines[1], lines[0], lines[2]];
        let told = told(&trace(&lines), &trace(&turned));
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].ends_with(": at another place"), "{told:?}");
    }
}
