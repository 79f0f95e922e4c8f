//! Spans and metrics of engines, as exporters in memory get them.

extern crate alloc;

mod metrics;
mod plain;
mod spans;
mod support;
