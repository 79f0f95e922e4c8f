//! Apps, on `mcp-smol`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/apps.rs"]
mod suite;
mod support;

use support::adapter;
