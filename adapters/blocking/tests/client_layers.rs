//! Layers around the requests of the client of `mcp-blocking`.

extern crate alloc;

#[path = "../../suites/client_layers.rs"]
mod suite;
mod support;

use support::adapter;
