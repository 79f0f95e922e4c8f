//! Framing: bytes to frames and back. Each framing can be used alone.

pub mod line;
pub mod sse;
