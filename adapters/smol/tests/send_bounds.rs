//! Futures of `mcp-smol` that are `Send`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/send_bounds.rs"]
mod suite;
mod support;

use support::adapter;
