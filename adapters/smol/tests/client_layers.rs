//! Layers around the requests of the client of `mcp-smol`.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/async_client_layers.rs"]
mod async_suite;
#[path = "../../suites/client_layers.rs"]
mod suite;
mod support;

use support::adapter;
