//! Tools of `mcp-tokio` that run as tasks.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/server_tasks.rs"]
mod suite;
mod support;

use support::adapter;

#[test]
fn server_with_tasks_refuses_shards() {
    suite::assert_refuses_shards(|server| {
        let make = || mcp_tokio::LocalRouter::new("yard", "1.0");
        adapter::block_on(server.shards_with(2, make).run())
    });
}
