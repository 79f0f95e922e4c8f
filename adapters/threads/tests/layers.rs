//! Layers of routers of `mcp-threads`.

extern crate alloc;

#[path = "../../suites/layers.rs"]
mod suite;
mod support;

use support::adapter;
