//! What passes between the checker and a server: what comes of waiting for it, how much it may be, and how it is shown

use std::time::Instant;

use mcp_proto::tap::Direction;

use super::rules::Rule;
use crate::paint::Paint;
use crate::session;
use crate::trace;

/// What came of waiting for a line
pub(super) enum Got {
    /// A line, without its end
    Line(Vec<u8>),
    /// Nothing in time
    Quiet,
    /// There is no more; what came after the last line
    End(Vec<u8>),
    /// More than anybody reads
    Flood,
    /// Something is wrong with what a message came in
    Odd(Odd),
}

/// A finding about the transport
pub(super) struct Odd {
    pub(super) rule: &'static Rule,
    pub(super) place: String,
    pub(super) what: String,
}

/// Shows what passes on stderr, if somebody wants to see it
#[derive(Clone, Copy)]
pub(super) struct Shown {
    trace: bool,
    started: Instant,
}

impl Shown {
    pub(super) fn new(trace: bool) -> Self {
        Self { trace, started: Instant::now() }
    }

    pub(super) fn line(self, direction: Direction, line: &[u8]) {
        if self.trace {
            let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
            let text = String::from_utf8_lossy(line);
            session::say(&trace::line_of(micros, direction, &text, Paint::for_stderr()));
        }
    }
}

/// Bytes of a line that are read
pub(super) const LONGEST: usize = 16 << 20;
/// Bytes that are read from one server
pub(super) const MOST: usize = 256 << 20;
