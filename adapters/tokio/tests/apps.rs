//! Apps, on `mcp-tokio`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/apps.rs"]
mod suite;
mod support;

use support::adapter;
