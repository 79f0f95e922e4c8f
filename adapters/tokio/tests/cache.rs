//! Cached results of the client of `mcp-tokio`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/cache.rs"]
mod suite;
mod support;

use support::adapter;
