//! Tools of `mcp-smol` that run as tasks.

#[test]
fn server_with_tasks_refuses_shards() {
    crate::suites::server_tasks::assert_refuses_shards(|server| {
        let make = || mcp_smol::Router::new("yard", "1.0");
        mcp_smol::block_on(server.shards_with(2, make).run())
    });
}
