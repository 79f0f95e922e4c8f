//! Observers of `mcp-smol`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/observer.rs"]
mod suite;
mod support;

use support::adapter;
