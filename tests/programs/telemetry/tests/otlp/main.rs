//! Spans and metrics of three processes, at a receiver of OTLP.
//!
//! Each service is a process with one subscriber. This process has none.

mod collector;
mod faults;
mod processes;
mod traces;
