//! Clients and servers of `mcp-tokio` in a runtime.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/executors.rs"]
mod suite;
mod support;

use support::adapter;
