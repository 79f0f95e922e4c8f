//! Doors for `mcp-benches` to parts that have no public one. No part of the API: no version promises anything here.

#[cfg(feature = "http")]
pub use crate::h1::Heads;
use crate::limits::Limits;
use crate::rpc::envelope;

/// Reads the envelope of one message; how long its method and its parameters are, none when it was refused
#[must_use]
pub fn envelope(frame: &[u8], limits: &Limits) -> Option<(usize, usize)> {
    let read = envelope::parse(frame, limits, None).ok()?;
    Some((read.method.len(), read.params.whole.of(frame).map_or(0, <[u8]>::len)))
}
