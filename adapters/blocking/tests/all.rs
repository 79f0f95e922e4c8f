//! Tests of `mcp-blocking`: the suites of every adapter, and its own.

extern crate alloc;

mod client;
mod conversation;
mod http;
mod input_timeouts;
#[cfg(unix)]
mod line_streams;
mod pair;
#[cfg(target_os = "linux")]
mod process;
mod router;
#[cfg(unix)]
mod sockets;
#[path = "../../suites/mod.rs"]
mod suites;
mod support;
mod testing;
mod tls;
mod validate;
mod wire;
// For adapters whose handlers share a thread with the I/O.
#[path = "../../suites/wire.rs"]
mod wire_suite;

use support::adapter;
