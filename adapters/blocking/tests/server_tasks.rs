//! Tools of `mcp-blocking` that run as tasks.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/server_tasks.rs"]
mod suite;
mod support;

use support::adapter;
