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
// Not of `mcp-blocking`, which has one thread.
#[path = "../../suites/shards.rs"]
mod shards_suite;
#[path = "../../suites/mod.rs"]
mod suites;
mod support;
// Not of `mcp-threads`, whose I/O thread writes when it likes.
#[path = "../../suites/wire.rs"]
mod wire_suite;

use futures::{pair, shards};
use support::adapter;
