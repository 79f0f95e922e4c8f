//! Handlers of `mcp-tokio` that block.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/blocking_work.rs"]
mod suite;
mod support;

use support::adapter;
