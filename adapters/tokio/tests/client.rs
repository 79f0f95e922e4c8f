//! A client of `mcp-tokio` that many tasks share.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/async_client_process.rs"]
mod process;
#[path = "../../suites/async_client.rs"]
mod suite;
mod support;

use support::adapter;
