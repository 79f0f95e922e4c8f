//! Spans and metrics of engines, as exporters in memory get them.

extern crate alloc;

mod metrics;
mod spans;
mod support;
