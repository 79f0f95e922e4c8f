//! Completion of texts while they are typed, by the client of `mcp-blocking`.

extern crate alloc;

#[path = "../../suites/completing.rs"]
mod suite;
mod support;

use support::adapter;
