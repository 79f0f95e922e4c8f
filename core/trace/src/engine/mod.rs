//! A trace is replayed into the engines: what one side said goes in at the recorded times and with the recorded cuts, and what the
//! engine says is compared with what the other side said.
//!
//! What an application did is not in a trace, but follows from its messages: a response that was recorded is what the
//! application answers. What an engine says by itself, as the answer to `initialize` or to an invalid message, is not told to it.

mod client;
mod player;
mod server;

use alloc::borrow::Cow;

use crate::compare::Replayed;
use crate::message::Message;
use crate::record::{Content, Record, Side};
use crate::trace::Trace;

/// Replays a trace into the engine of one side, and compares what it says with what that side said.
#[must_use]
pub fn replay(trace: &Trace, side: Side) -> Replayed {
    let trace = &without_refused(trace);
    match side {
        Side::Server => server::replay(trace),
        Side::Client => client::replay(trace),
    }
}

/// Returns a trace without the exchanges that the HTTP side of a server has refused: its engine has never seen them. Their records
/// keep their places.
fn without_refused(trace: &Trace) -> Cow<'_, Trace> {
    let is_refusal = |record: &&Record| {
        let Content::Line(line) = &record.content else { return false };
        let message = line.text.to_bytes().and_then(|text| Message::parse(&text));
        let has_no_id =
            |message: &Message| message.error.is_some() && message.id_text().is_none_or(|id| id == "null");
        record.from == Side::Server && record.exchange.is_some() && message.as_ref().is_some_and(has_no_id)
    };
    let refused: Vec<_> = trace.records.iter().filter(is_refusal).map(|record| record.exchange).collect();
    if refused.is_empty() {
        return Cow::Borrowed(trace);
    }
    let mut rest = trace.clone();
    for record in rest.records.iter_mut().filter(|record| refused.contains(&record.exchange)) {
        record.content = Content::Lost(0);
    }
    Cow::Owned(rest)
}

/// Returns a Rust test that replays a trace, for a program that depends on this package: it fails while there is a difference.
#[must_use]
pub fn rust_test(trace: &Trace, side: Side) -> String {
    let mut text = Vec::new();
    // Memory takes all.
    let _ = trace.write(&mut text);
    let text = String::from_utf8_lossy(&text).trim_end().to_owned();
    // A raw string is easier to read; it cannot hold any number of `#`, and no text that a compiler refuses to show.
    let longest =
        text.split('"').skip(1).map(|after| after.bytes().take_while(|byte| *byte == b'#').count()).max();
    let hashes = "#".repeat(longest.map_or(0, |longest| longest + 1));
    let is_plain = hashes.len() < 200 && text.chars().all(|c| c == '\n' || (' '..='~').contains(&c));
    let text = match is_plain {
        true => format!("r{hashes}\"{text}\"{hashes}"),
        false => format!("\"{}\"", text.escape_default()),
    };
    let engine = match side {
        Side::Client => "Client",
        Side::Server => "Server",
    };
    format!(
        "#[test]\n\
         fn recorded_session_is_replayed_without_a_difference() {{\n    \
             let trace = {text};\n    \
             let trace = mcp_proto_trace::Trace::read(trace.as_bytes(), u64::MAX).expect(\"a trace\");\n    \
             let outcome = mcp_proto_trace::engine::replay(&trace, mcp_proto_trace::Side::{engine});\n    \
             assert_eq!(outcome.difference(), None);\n\
         }}\n"
    )
}
