//! Layers of routers of `mcp-smol`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/layers.rs"]
mod suite;
mod support;

use support::adapter;
