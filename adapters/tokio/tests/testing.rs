//! Routers of `mcp-tokio` in front of a test client, on virtual time.

use crate::suites::testing::{options, tool};
use crate::support::text;
use mcp_blocking::testing;
use mcp_proto::RpcError;
use mcp_tokio::{Cx, LocalRouter};
use serde_json::{Value, json};

/// A test of a router is one poll of the test's task, which never yields: the runtime sets no bound to it.
#[tokio::test(flavor = "multi_thread")]
async fn handlers_may_use_the_runtime_more_often_than_its_budget_allows() {
    let mut router = LocalRouter::new("harbour", "1.0");
    router.tool_with(tool("locks"), async |_: &mut Cx, _: Value| {
        let mutex = tokio::sync::Mutex::new(0_u32);
        for _ in 0..1_000 {
            *mutex.lock().await += 1;
        }
        let count = *mutex.lock().await;
        Ok::<_, RpcError>(count.to_string())
    });
    let client = testing::pair(router, options(mcp_proto::Era::Modern)).unwrap();
    assert_eq!(text(&client.call_tool("locks", &json!({})).unwrap()), "1000");
}
