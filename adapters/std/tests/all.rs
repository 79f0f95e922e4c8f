//! Tests of `mcp-std` from outside: byte streams, processes, stores of sessions and tasks, wakers.

extern crate alloc;

#[cfg(target_os = "linux")]
mod child;
#[cfg(unix)]
mod line_streams;
mod session_store;
mod streams;
mod support;
mod task_store;
mod wakers;
