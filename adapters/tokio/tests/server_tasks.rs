//! Tools of `mcp-tokio` that run as tasks.

#[test]
fn server_with_tasks_refuses_shards() {
    crate::suites::server_tasks::assert_refuses_shards(|server| {
        let make = || mcp_tokio::LocalRouter::new("yard", "1.0");
        crate::adapter::block_on(server.shards_with(2, make).run())
    });
}
