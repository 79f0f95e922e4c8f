//! Cached results of the client of `mcp-smol`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/cache.rs"]
mod suite;
mod support;

use support::adapter;
