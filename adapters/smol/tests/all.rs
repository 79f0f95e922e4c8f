//! Tests of `mcp-smol`: the suites of every adapter, those of adapters of futures, and its own.

#![cfg(unix)]

extern crate alloc;

mod block_on;
#[path = "../../suites/futures/mod.rs"]
mod futures;
mod line_streams;
#[cfg(target_os = "linux")]
mod process;
mod router;
mod server_tasks;
// For adapters with shards.
#[path = "../../suites/shards.rs"]
mod shards_suite;
#[path = "../../suites/mod.rs"]
mod suites;
mod support;
// For adapters whose handlers share a thread with the I/O.
#[path = "../../suites/wire.rs"]
mod wire_suite;

use futures::{pair, shards};
use support::adapter;
