//! Thousands of connections to one HTTP server of `mcp-threads`, which need the descriptors of a whole process.

#![cfg(target_os = "linux")]

extern crate alloc;

#[path = "../../suites/many_connections.rs"]
mod suite;
mod support;

use support::adapter;
