//! Tasks at the client of `mcp-threads`.

extern crate alloc;

#[path = "../../suites/tasks_client.rs"]
mod suite;
mod support;

use support::adapter;
