//! Calls whose results are read as types, by the client of `mcp-tokio`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/typed.rs"]
mod suite;
mod support;

use support::adapter;
