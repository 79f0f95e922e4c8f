//! Routers of `mcp-threads` in front of a test client, on virtual time.

extern crate alloc;

#[path = "../../suites/testing.rs"]
mod suite;
mod support;

use support::adapter;
