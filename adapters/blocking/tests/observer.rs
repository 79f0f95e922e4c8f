//! Observers of `mcp-blocking`.

extern crate alloc;

#[path = "../../suites/observer.rs"]
mod suite;
mod support;

use support::adapter;
