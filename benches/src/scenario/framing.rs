//! Framing and envelope only.

use core::hint::black_box;

use mcp_proto::Limits;
use mcp_proto::frame::line::{Line, LineDecoder};
use mcp_proto::internals::Message;

use super::{Scenario, TEXT};
use crate::floor;
use crate::wire::{RequestLine, WireEra};

/// The envelope of the floor: search for the line end, parse into a borrowed struct.
#[derive(Debug)]
pub struct FloorEnvelope(RequestLine);

impl FloorEnvelope {
    /// Returns the scenario with a request of `era`.
    #[must_use]
    pub fn new(era: WireEra) -> Self {
        Self(RequestLine::new(era, TEXT))
    }
}

impl Scenario for FloorEnvelope {
    fn run_once(&mut self) {
        let line = black_box(self.0.advance());
        let end = memchr::memchr(b'\n', line).expect("a line end");
        black_box(floor::envelope(&line[..end])).expect("a request");
    }
}

/// Framing and envelope of ours. An engine is faster with a `_meta` that it knows; here it is always new.
#[derive(Debug)]
pub struct FrameEnvelope {
    request: RequestLine,
    decoder: LineDecoder,
    limits: Limits,
}

impl FrameEnvelope {
    /// Returns the scenario with a request of `era`.
    #[must_use]
    pub fn new(era: WireEra) -> Self {
        let limits = Limits::default();
        Self { request: RequestLine::new(era, TEXT), decoder: LineDecoder::new(limits.max_frame), limits }
    }
}

impl Scenario for FrameEnvelope {
    fn run_once(&mut self) {
        self.decoder.push(black_box(self.request.advance()));
        let Some(Line::Frame(frame)) = self.decoder.next_line() else { panic!("no frame") };
        black_box(Message::parse(&frame, &self.limits)).expect("a request");
    }
}
