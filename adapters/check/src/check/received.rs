//! Input from the server under test: its events, its limits, and its trace.

use alloc::rc::Rc;
use core::time::Duration;
use std::time::Instant;

use mcp_proto::tap::Direction;

use super::rules::Rule;

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
    pub(super) rule: &'static Rule,
    pub(super) location: String,
    pub(super) detail: String,
}

/// A function that gets each line: the time since this server was started or connected to, the direction, and the bytes.
pub(super) type TraceSink = dyn Fn(Duration, Direction, &[u8]);

/// Gives lines to the sink, if there is one.
pub(super) struct WireTrace {
    sink: Option<Rc<TraceSink>>,
    started: Instant,
}

impl WireTrace {
    pub(super) fn new(sink: Option<Rc<TraceSink>>) -> Self {
        Self { sink, started: Instant::now() }
    }

    pub(super) fn line(&self, direction: Direction, line: &[u8]) {
        if let Some(sink) = &self.sink {
            sink(self.started.elapsed(), direction, line);
        }
    }
}

/// Maximum number of bytes of a line.
pub(super) const MAX_LINE: usize = 16 << 20;
/// Maximum number of bytes read from one server.
pub(super) const MAX_TOTAL: usize = 256 << 20;
