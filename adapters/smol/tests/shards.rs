//! HTTP servers of `mcp-smol` with several shards.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/async_shards.rs"]
mod async_suite;
#[path = "../../suites/shards.rs"]
mod suite;
mod support;

mod adapter {
    pub(crate) use crate::async_suite::{blocked_server, gated_server, pinned_servers, small_servers};
    pub(crate) use crate::support::adapter::*;
}
