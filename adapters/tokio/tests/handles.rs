//! Handles of servers of `mcp-tokio`, by which other threads command them.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/handles.rs"]
mod suite;
mod support;

use support::adapter;
