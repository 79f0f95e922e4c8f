//! Tasks at the client of `mcp-tokio`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/tasks_client.rs"]
mod suite;
mod support;

use support::adapter;
