//! A client of `mcp-tokio`, of HTTP servers that disconnect, stall or answer wrongly within a response.

#![cfg(target_os = "linux")]

extern crate alloc;

#[path = "../../suites/faulty_servers.rs"]
mod suite;
mod support;

use support::adapter;
