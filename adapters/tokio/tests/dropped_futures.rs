//! A client of `mcp-tokio` whose futures are dropped at any moment.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/dropped_futures.rs"]
mod suite;
mod support;

use support::adapter;
