//! Tests of `mcp-std` from outside: byte streams, processes, stores of tasks, wakers.

extern crate alloc;

#[cfg(target_os = "linux")]
mod child;
#[cfg(unix)]
mod line_streams;
mod streams;
mod support;
mod task_store;
mod wakers;
