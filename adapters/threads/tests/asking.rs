//! Handlers that ask, on workers

extern crate alloc;

use mcp_threads as adapter;

#[path = "../../blocking/tests/shared/asking.rs"]
mod shared;
#[path = "../../blocking/tests/support/mod.rs"]
mod support;
