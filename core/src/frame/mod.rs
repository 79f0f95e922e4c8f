//! Bytes to frames and back; each framing is usable alone.

pub mod line;
pub mod sse;
