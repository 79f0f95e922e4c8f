//! Cached results of the client of `mcp-blocking`.

extern crate alloc;

#[path = "../../suites/cache.rs"]
mod suite;
mod support;

use support::adapter;
