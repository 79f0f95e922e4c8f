//! Layers of routers of `mcp-blocking`.

extern crate alloc;

#[path = "../../suites/layers.rs"]
mod suite;
mod support;

use support::adapter;
