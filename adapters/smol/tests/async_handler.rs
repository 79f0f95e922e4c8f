//! Asynchronous client handlers of `mcp-smol`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/async_client_handler.rs"]
mod suite;
mod support;

use support::adapter;
