//! Input requests of handlers of `mcp-tokio`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/input_requests.rs"]
mod suite;
mod support;

use support::adapter;
