//! Tools of `mcp-smol` that run as tasks.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/server_tasks.rs"]
mod suite;
mod support;

use support::adapter;

#[test]
fn server_with_tasks_refuses_shards() {
    suite::assert_refuses_shards(|server| {
        let make = || mcp_smol::Router::new("yard", "1.0");
        mcp_smol::block_on(server.shards_with(2, make).run())
    });
}
