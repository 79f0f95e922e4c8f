//! A server of `mcp-tokio` that reads bytes: what it reads and writes when, and how it ends.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/async_wire.rs"]
mod async_suite;
#[path = "../../suites/wire.rs"]
mod suite;
mod support;

use support::adapter;
