//! Observers of `mcp-tokio`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/observer.rs"]
mod suite;
mod support;

use support::adapter;
