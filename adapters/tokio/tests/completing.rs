//! Completion of texts while they are typed, by the client of `mcp-tokio`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/async_completing.rs"]
mod async_suite;
#[path = "../../suites/completing.rs"]
mod suite;
mod support;

use support::adapter;
