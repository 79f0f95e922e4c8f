//! Tests of `mcp-threads`: the suites of every adapter, and its own.

extern crate alloc;

mod client;
mod completing;
#[cfg(unix)]
mod line_streams;
mod pair;
mod router;
mod server;
mod server_tasks;
mod shards;
// For adapters with shards.
#[path = "../../suites/shards.rs"]
mod shards_suite;
#[path = "../../suites/mod.rs"]
mod suites;
mod support;
mod tls;

use support::adapter;
