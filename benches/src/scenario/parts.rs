//! Framing and envelope alone.

use core::hint::black_box;

use mcp_proto::Limits;
use mcp_proto::frame::line::{Line, LineDecoder};

use super::{Scenario, TEXT};
use crate::floor;
use crate::wire::{Era, Request};

/// The floor's envelope: search for the line end, parse into a borrowed struct
#[derive(Debug)]
pub struct FloorEnvelope(Request);

impl FloorEnvelope {
    /// With a request of `era`
    #[must_use]
    pub fn new(era: Era) -> Self {
        Self(Request::new(era, TEXT))
    }
}

impl Scenario for FloorEnvelope {
    fn op(&mut self) {
        let line = black_box(self.0.advance());
        let end = memchr::memchr(b'\n', line).expect("a line end");
        black_box(floor::envelope(&line[..end])).expect("a request");
    }
}

/// Framing and envelope, ours; an engine is faster on a `_meta` that it saw before, this one has seen nothing
#[derive(Debug)]
pub struct FrameEnvelope {
    request: Request,
    decoder: LineDecoder,
    limits: Limits,
}

impl FrameEnvelope {
    /// With a request of `era`
    #[must_use]
    pub fn new(era: Era) -> Self {
        let limits = Limits::default();
        Self { request: Request::new(era, TEXT), decoder: LineDecoder::new(limits.max_frame), limits }
    }
}

impl Scenario for FrameEnvelope {
    fn op(&mut self) {
        self.decoder.push(black_box(self.request.advance()));
        let Some(Line::Frame(frame)) = self.decoder.next_line() else { panic!("no frame") };
        black_box(mcp_proto::bench::envelope(&frame, &self.limits)).expect("a request");
    }
}
