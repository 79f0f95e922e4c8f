//! A trace is replayed into the engines: what one side said goes in at the recorded times and with the recorded cuts, and what the
//! engine says is compared with what the other side said.
//!
//! What an application did is not in a trace, but follows from its messages: a response that was recorded is what the
//! application answers. What an engine says by itself, as the answer to `initialize` or to an invalid message, is not told to it.

mod client;
mod message;
mod player;
mod server;
mod steps;
mod translation;

use core::fmt;

use crate::record::Side;
use crate::trace::Trace;

/// What a replay found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Replayed {
    /// Messages that came out with the same bytes.
    pub identical: usize,
    /// Messages that came out with the same value, but with members in another order, or with other spaces.
    pub equal: usize,
    /// Messages that differ only in words for people, or in members that only tell more: texts of errors, reasons.
    pub reworded: usize,
    /// Messages that an engine has no command for, by their record: what else follows from them is not compared either.
    pub unplayed: Vec<(usize, String)>,
    /// The first message that did not come out as it was recorded.
    pub difference: Option<Difference>,
}

impl Replayed {
    /// Returns the number of messages that were compared.
    #[must_use]
    pub const fn compared(&self) -> usize {
        self.identical + self.equal + self.reworded
    }
}

/// The first difference between what was recorded and what an engine says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Index of the record in the trace; `None` for a message that was not recorded.
    pub record: Option<usize>,
    /// Time in microseconds since the recording began.
    pub at: u64,
    /// What was recorded, if anything.
    pub recorded: Option<String>,
    /// What the engine says, if anything.
    pub replayed: Option<String>,
    /// Where they differ, or why there is no counterpart.
    pub reason: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}.{:06} s", self.at / 1_000_000, self.at % 1_000_000)?;
        if let Some(record) = self.record {
            // The header is the first line.
            write!(f, ", line {} of the trace", record + 2)?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Replays a trace into the engine of one side, and compares what it says with what that side said.
#[must_use]
pub fn replay(trace: &Trace, side: Side) -> Replayed {
    match side {
        Side::Server => server::replay(trace),
        Side::Client => client::replay(trace),
    }
}

/// Returns a Rust test that replays a trace, for a program that depends on this package: it fails while there is a difference.
#[must_use]
pub fn rust_test(trace: &Trace, side: Side) -> String {
    let mut text = Vec::new();
    // Memory takes all.
    let _ = trace.write(&mut text);
    let text = String::from_utf8_lossy(&text).trim_end().to_owned();
    let longest =
        text.split('"').skip(1).map(|after| after.bytes().take_while(|byte| *byte == b'#').count()).max();
    let hashes = "#".repeat(longest.map_or(0, |longest| longest + 1));
    let engine = match side {
        Side::Client => "Client",
        Side::Server => "Server",
    };
    format!(
        "#[test]\n\
         fn recorded_session_is_replayed_without_a_difference() {{\n    \
             let trace = r{hashes}\"{text}\"{hashes};\n    \
             let trace = mcp_proto_trace::Trace::read(trace.as_bytes(), u64::MAX).expect(\"a trace\");\n    \
             let outcome = mcp_proto_trace::engine::replay(&trace, mcp_proto_trace::Side::{engine});\n    \
             assert_eq!(outcome.difference, None);\n\
         }}\n"
    )
}

impl Difference {
    /// Returns whether another difference is of the same kind: messages of the same kinds, and the same reason or the same member,
    /// whatever the values.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let kind = |difference: &Self| {
            let of = |text: &Option<String>| text.as_ref().map(|text| message::kind(text));
            let reason = difference.reason.split(": recorded ").next().unwrap_or_default().to_owned();
            (of(&difference.recorded), of(&difference.replayed), reason)
        };
        kind(self) == kind(other)
    }
}
