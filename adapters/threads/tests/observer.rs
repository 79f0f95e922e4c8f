//! Observers of `mcp-threads`.

extern crate alloc;

#[path = "../../suites/observer.rs"]
mod suite;
mod support;

use support::adapter;
