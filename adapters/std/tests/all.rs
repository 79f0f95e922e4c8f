//! Tests of `mcp-std` from outside: byte streams, processes, stores, wakers.

extern crate alloc;

#[cfg(target_os = "linux")]
mod child;
mod dispatcher;
#[cfg(unix)]
mod line_streams;
mod streams;
mod support;
mod task_store;
mod token_store;
mod wakers;
