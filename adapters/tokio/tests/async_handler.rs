//! Asynchronous client handlers of `mcp-tokio`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/async_client_handler.rs"]
mod suite;
mod support;

use support::adapter;
