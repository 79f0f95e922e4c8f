//! Access for `mcp-benches` to internal parts. Not a part of the API: no version promises anything here.

#[cfg(feature = "http")]
pub use crate::h1::HeadParser;
use crate::limits::Limits;
use crate::rpc::envelope;

/// Parses the envelope of one message and returns the lengths of its method and parameters, or `None` if refused.
#[must_use]
pub fn envelope(frame: &[u8], limits: &Limits) -> Option<(usize, usize)> {
    let read = envelope::parse(frame, limits, None).ok()?;
    Some((read.method.len(), read.params.whole.slice(frame).map_or(0, <[u8]>::len)))
}
