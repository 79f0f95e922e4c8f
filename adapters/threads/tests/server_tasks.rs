//! Tools of `mcp-threads` that run as tasks.

#![cfg(unix)]

extern crate alloc;

#[path = "../../suites/server_tasks.rs"]
mod suite;
mod support;

use support::adapter;

#[test]
fn server_with_tasks_refuses_shards() {
    suite::assert_refuses_shards(|server| server.shards(2).run());
}
