//! Layers of routers of `mcp-tokio`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/layers.rs"]
mod suite;
mod support;

use support::adapter;
