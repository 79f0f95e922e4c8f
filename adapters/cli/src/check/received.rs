//! Input from the server under test: its events, its limits, and its trace.

use std::time::Instant;

use mcp_proto::tap::Direction;

use super::rules::CheckRule;
use crate::notes;
use crate::paint::Paint;
use crate::trace;

/// Outcome of waiting for a line.
pub(super) enum Received {
    /// A line, without its line break.
    Line(Vec<u8>),
    /// No line in time.
    TimedOut,
    /// The end of input, with the bytes after the last line break.
    Closed(Vec<u8>),
    /// More input than the limits allow.
    Flood,
    /// A finding about the transport of a message.
    Finding(TransportFinding),
}

/// A finding about the transport.
pub(super) struct TransportFinding {
    pub(super) rule: &'static CheckRule,
    pub(super) location: String,
    pub(super) detail: String,
}

/// Prints lines on stderr if tracing is enabled.
#[derive(Clone, Copy)]
pub(super) struct WireTrace {
    trace: bool,
    started: Instant,
}

impl WireTrace {
    pub(super) fn new(trace: bool) -> Self {
        Self { trace, started: Instant::now() }
    }

    pub(super) fn line(self, direction: Direction, line: &[u8]) {
        if self.trace {
            let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
            let text = String::from_utf8_lossy(line);
            notes::print_stderr(&trace::format_line(micros, direction, &text, Paint::for_stderr()));
        }
    }
}

/// Maximum number of bytes of a line.
pub(super) const MAX_LINE: usize = 16 << 20;
/// Maximum number of bytes read from one server.
pub(super) const MAX_TOTAL: usize = 256 << 20;
