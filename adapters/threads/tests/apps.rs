//! Apps, on `mcp-threads`.

extern crate alloc;

#[path = "../../suites/apps.rs"]
mod suite;
mod support;

use support::adapter;
