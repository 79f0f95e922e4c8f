//! Tools of `mcp-threads` that run as tasks.

#[test]
fn server_with_tasks_refuses_shards() {
    crate::suites::server_tasks::assert_refuses_shards(|server| server.shards(2).run());
}
