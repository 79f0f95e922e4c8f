//! Spans and metrics of engines, as exporters in memory get them.

mod metrics;
mod spans;
mod support;
