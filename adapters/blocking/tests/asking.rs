//! Handlers that ask, on the loop's thread

extern crate alloc;

use mcp_blocking as adapter;

#[path = "shared/asking.rs"]
mod shared;
mod support;
