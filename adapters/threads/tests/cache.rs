//! Cached results of the client of `mcp-threads`.

extern crate alloc;

#[path = "../../suites/cache.rs"]
mod suite;
mod support;

use support::adapter;
