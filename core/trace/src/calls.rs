//! Requests of a trace with their responses.

use alloc::collections::VecDeque;
use std::collections::HashMap;

use mcp_proto::RawJson;

use crate::message::Message;
use crate::record::{Content, Line, Record, Side, Text};
use crate::trace::Trace;

/// How a request ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It has a result.
    Succeeded,
    /// Its result reports an error of the tool, or tells of a task that has failed.
    ToolError,
    /// It has an error.
    Failed {
        /// Code of the error, if it is a number.
        code: Option<i64>,
        /// Message of the error.
        message: String,
    },
    /// It was cancelled, and has no response.
    Cancelled,
    /// The trace has no response to it.
    Unanswered,
}

/// A request with its response.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Call {
    /// Side that sent the request.
    pub from: Side,
    /// Id of the request.
    pub id: RawJson,
    /// Method of the request.
    pub method: String,
    /// What it is about, see [`Message::target`].
    pub target: Option<String>,
    /// Index of the record with the request.
    pub request: usize,
    /// Index of the record with the response.
    pub response: Option<usize>,
    /// Time of the first byte of the request, in microseconds.
    pub start: u64,
    /// Time of the last read of the response, in microseconds.
    pub end: Option<u64>,
    /// How it ended.
    pub outcome: Outcome,
    /// Bytes of the line of the request.
    pub request_bytes: usize,
    /// Bytes of the line of the response.
    pub response_bytes: usize,
    /// Whether a request from the same side with the same id had no response yet.
    pub is_id_reused: bool,
}

impl Call {
    /// Returns the time from the request to the response, in microseconds.
    #[must_use]
    pub fn duration(&self) -> Option<u64> {
        Some(self.end?.saturating_sub(self.start))
    }
}

/// The requests of a trace, in their order.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Calls {
    /// The requests.
    pub calls: Vec<Call>,
    /// Indices of records with responses that answer no request of the trace.
    pub unmatched: Vec<usize>,
    /// Indices of records with requests and responses, each with that of its call. Ascending.
    places: Vec<(usize, usize)>,
}

impl Calls {
    /// Pairs the requests of a trace with their responses.
    ///
    /// A response answers the oldest request of the other side with its id: over HTTP one of the same exchange, or else of any.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        let mut calls = Self::default();
        let mut waiting = Waiting::default();
        for (index, record) in trace.records.iter().enumerate() {
            for message in Message::of(record) {
                calls.add(index, record, message, &mut waiting);
            }
        }
        calls
    }

    fn add(&mut self, index: usize, record: &Record, message: Message, waiting: &mut Waiting) {
        let Content::Line(Line { text: Text::Utf8(text), cuts, .. }) = &record.content else { return };
        let bytes = text.len();
        if message.method.as_deref() == Some("notifications/cancelled") {
            let id = message.params.as_ref().and_then(|params| params.member("requestId"));
            let call = id.and_then(|id| waiting.first(self, &key(record.from, &id, None)));
            if let Some(call) = call.and_then(|call| self.calls.get_mut(call)) {
                call.outcome = Outcome::Cancelled;
            }
        }
        if message.is_response() {
            let from = record.from.other();
            let of = |exchange| message.id.as_ref().map(|id| key(from, id, exchange));
            let same = record.exchange.and_then(|exchange| waiting.first(self, &of(Some(exchange))?));
            let found = same.or_else(|| waiting.first(self, &of(None)?));
            let Some(call) = found.and_then(|found| self.calls.get_mut(found)) else {
                self.unmatched.push(index);
                return;
            };
            self.places.extend(found.map(|found| (index, found)));
            call.response = Some(index);
            call.end = Some(cuts.last().map_or(record.at, |cut| cut.at.max(record.at)));
            call.outcome = outcome(&message);
            call.response_bytes = bytes;
        } else if message.is_request() {
            let target = message.target();
            let (Some(id), Some(method)) = (message.id, message.method) else { return };
            let all = key(record.from, &id, None);
            let is_id_reused = waiting.first(self, &all).is_some();
            let call = self.calls.len();
            waiting.0.entry(all).or_default().push_back(call);
            if record.exchange.is_some() {
                let of_exchange = key(record.from, &id, record.exchange);
                waiting.0.entry(of_exchange).or_default().push_back(call);
            }
            self.places.push((index, call));
            self.calls.push(Call {
                from: record.from,
                id,
                method,
                target,
                request: index,
                response: None,
                start: record.at,
                end: None,
                outcome: Outcome::Unanswered,
                request_bytes: bytes,
                response_bytes: 0,
                is_id_reused,
            });
        }
    }

    /// Returns the call that a message of a record belongs to.
    #[must_use]
    pub fn call_of(&self, record: usize, message: &Message) -> Option<&Call> {
        let begin = self.places.partition_point(|(index, _)| *index < record);
        let places = self.places.get(begin..).unwrap_or_default();
        let of_record = places.iter().take_while(|(index, _)| *index == record);
        of_record.filter_map(|(_, call)| self.calls.get(*call)).find(|call| {
            let is_request = call.request == record;
            message.id.as_ref() == Some(&call.id) && is_request == message.is_request()
        })
    }
}

/// Side of a request, its id as text (`1` and `"1"` differ), and its exchange.
type Key = (Side, String, Option<u64>);

fn key(from: Side, id: &RawJson, exchange: Option<u64>) -> Key {
    (from, id.as_str().to_owned(), exchange)
}

/// Requests without a response, the oldest first. Those that have one by now are removed when they are met.
#[derive(Debug, Default)]
struct Waiting(HashMap<Key, VecDeque<usize>>);

impl Waiting {
    fn first(&mut self, calls: &Calls, key: &Key) -> Option<usize> {
        let queue = self.0.get_mut(key)?;
        while let Some(first) = queue.front() {
            if calls.calls.get(*first).is_some_and(|call| call.response.is_none()) {
                return Some(*first);
            }
            queue.pop_front();
        }
        self.0.remove(key);
        None
    }
}

/// Returns how a request ended, by its response.
fn outcome(response: &Message) -> Outcome {
    if let Some(error) = &response.error {
        return Outcome::Failed {
            code: error.member("code").and_then(|code| code.parse().ok()),
            message: error.member("message").and_then(|message| message.string()).unwrap_or_default(),
        };
    }
    let has = |of: Option<&RawJson>, name: &str, value: &str| {
        of.and_then(|of| of.member(name)).is_some_and(|member| member.as_str() == value)
    };
    let result = response.result.as_ref();
    let of_task = result.and_then(|result| result.member("result"));
    let is_failed = has(result, "isError", "true")
        || has(result, "status", r#""failed""#)
        || has(of_task.as_ref(), "isError", "true");
    if is_failed { Outcome::ToolError } else { Outcome::Succeeded }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Cut, Header};

    fn line(at: u64, from: Side, text: &str) -> Record {
        Record::new(at, from, Content::Line(Line::new(Text::new(text.as_bytes()))))
    }

    fn calls(records: Vec<Record>) -> Calls {
        Calls::new(&Trace::new(Header::new("test", 0), records))
    }

    #[test]
    fn responses_are_paired_by_side_and_id() {
        let mut cut = line(30, Side::Server, r#"{"id":"1","result":{"isError":true}}"#);
        if let Content::Line(line) = &mut cut.content {
            line.cuts.push(Cut { offset: 3, at: 35 });
        }
        let calls = calls(vec![
            line(10, Side::Client, r#"{"id":1,"method":"tools/call","params":{"name":"add"}}"#),
            line(11, Side::Client, r#"{"id":"1","method":"prompts/get","params":{"name":"plan"}}"#),
            line(12, Side::Server, r#"{"id":1,"method":"roots/list"}"#),
            line(20, Side::Client, r#"{"id":1,"result":{"roots":[]}}"#),
            cut,
            line(40, Side::Server, r#"{"id":1,"error":{"code":-32602,"message":"no"}}"#),
            line(41, Side::Server, r#"{"id":1,"result":{}}"#),
            line(42, Side::Server, r#"{"id":null,"error":{"code":1}}"#),
        ]);
        let shown: Vec<_> = calls
            .calls
            .iter()
            .map(|call| (call.method.as_str(), call.target.as_deref(), call.response, call.duration()))
            .collect();
        let want = [
            ("tools/call", Some("add"), Some(5), Some(30)),
            ("prompts/get", Some("plan"), Some(4), Some(24)),
            ("roots/list", None, Some(3), Some(8)),
        ];
        assert_eq!(shown, want);
        assert_eq!(calls.calls[0].outcome, Outcome::Failed { code: Some(-32602), message: "no".into() });
        assert_eq!(calls.calls[1].outcome, Outcome::ToolError);
        assert_eq!(calls.unmatched, [6, 7]);
    }

    #[test]
    fn results_that_tell_of_a_failure_are_no_success() {
        for (result, is_error) in [
            (r#"{"content":[],"isError":true}"#, true),
            (r#"{"content":[],"isError":false}"#, false),
            (r#"{"taskId":"t","status":"failed","statusMessage":"no"}"#, true),
            (r#"{"taskId":"t","status":"completed","result":{"content":[],"isError":true}}"#, true),
            (r#"{"taskId":"t","status":"working"}"#, false),
        ] {
            let records = vec![
                line(1, Side::Client, r#"{"id":1,"method":"tasks/get"}"#),
                line(2, Side::Server, &format!(r#"{{"id":1,"result":{result}}}"#)),
            ];
            let want = if is_error { Outcome::ToolError } else { Outcome::Succeeded };
            assert_eq!(calls(records).calls[0].outcome, want, "{result}");
        }
    }

    #[test]
    fn one_id_twice_is_answered_in_order_and_within_its_exchange() {
        let request = r#"{"id":1,"method":"ping"}"#;
        let response = r#"{"id":1,"result":{}}"#;
        let of = |records: [(u64, Side, &str, Option<u64>); 4]| {
            let records = records.into_iter().map(|(at, from, text, exchange)| {
                let record = line(at, from, text);
                match exchange {
                    Some(exchange) => record.exchange(exchange),
                    None => record,
                }
            });
            let calls = calls(records.collect());
            calls.calls.iter().map(|call| (call.response, call.is_id_reused)).collect::<Vec<_>>()
        };
        let (client, server) = (Side::Client, Side::Server);
        let stream = [
            (1, client, request, None),
            (2, client, request, None),
            (3, server, response, None),
            (4, server, response, None),
        ];
        assert_eq!(of(stream), [(Some(2), false), (Some(3), true)]);
        let http = [
            (1, client, request, Some(1)),
            (2, client, request, Some(2)),
            (3, server, response, Some(2)),
            (4, server, response, Some(1)),
        ];
        assert_eq!(of(http), [(Some(3), false), (Some(2), true)]);
    }

    #[test]
    fn batches_cancellations_and_lines_that_are_no_messages() {
        let records = vec![
            line(1, Side::Client, r#"[{"id":1,"method":"a"},{"id":2,"method":"b"},5]"#),
            line(2, Side::Client, r#"{"method":"notifications/cancelled","params":{"requestId":2}}"#),
            line(3, Side::Server, r#"[{"id":1,"result":{}}]"#),
            line(4, Side::Server, "noise"),
            line(5, Side::Server, r#"{"jsonrpc":"2.0"}"#),
        ];
        let none = [Message::of(&records[3]).len(), Message::of(&records[4]).len()];
        assert_eq!(none, [0, 0]);
        let messages = Message::of(&records[0]);
        let calls = calls(records);
        let outcomes: Vec<_> = calls.calls.iter().map(|call| call.outcome.clone()).collect();
        assert_eq!(outcomes, [Outcome::Succeeded, Outcome::Cancelled]);
        assert_eq!(calls.call_of(0, &messages[1]).map(|call| call.method.as_str()), Some("b"));
    }
}
