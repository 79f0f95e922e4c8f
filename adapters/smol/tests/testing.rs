//! Routers of `mcp-smol` in front of a test client, on virtual time.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/async_testing.rs"]
mod async_suite;
#[path = "../../suites/testing.rs"]
mod suite;
mod support;

use support::adapter;
