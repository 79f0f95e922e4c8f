//! Input requests of handlers of `mcp-threads`.

extern crate alloc;

#[path = "../../suites/input_requests.rs"]
mod suite;
mod support;

use support::adapter;
