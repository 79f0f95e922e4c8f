//! Clients and servers of `mcp-tokio` in a runtime.

use core::future;
use core::time::Duration;

use mcp_proto::client::Config;
use mcp_proto::model::Tool;
use mcp_proto::{CallOptions, RawJson};
use mcp_tokio::{Client, Cx, Error, PendingCall, Router, Server};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// Starts calls on this thread, outside of the runtime, and lets `wait` have the first one. The server never answers.
fn call_from_outside(wait: impl FnOnce(&Runtime, &Client, PendingCall) -> Result<RawJson, Error>) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let client = runtime
        .block_on(async {
            let mut router = Router::new("slow", "1.0");
            let tool = Tool::new("wait", RawJson::new(r#"{"type":"object"}"#).expect("JSON"));
            router.tool_with(tool, async |_: &mut Cx, _: Value| future::pending::<&str>().await);
            let (near, far) = tokio::io::duplex(1 << 14);
            tokio::spawn(async move {
                let config = router.config().expect("no mistakes");
                let _ = Server::new(config, near, router).run().await;
            });
            Client::options(Config::new("me", "1.0")).connect(far).await
        })
        .expect("a connection");
    let options = CallOptions::new().timeout(Duration::from_millis(50));
    let call = client.start_tool("wait", &json!({}), &options).expect("an idle connection");
    let error = wait(&runtime, &client, call).expect_err("the server never answers").to_string();
    assert!(error.starts_with("no answer in time"), "{error}");
    runtime.block_on(client.ping()).expect("the connection goes on");
}

#[test]
fn call_that_starts_outside_of_the_runtime_times_out_where_it_is_awaited() {
    call_from_outside(|runtime, client, call| runtime.block_on(client.wait(call)));
}

#[test]
fn call_that_starts_outside_of_the_runtime_times_out_while_a_task_drives_the_connection() {
    call_from_outside(|runtime, client, call| {
        runtime.spawn(client.run());
        // Not polled before its time: the task alone sets the timer.
        std::thread::sleep(Duration::from_millis(200));
        runtime.block_on(client.wait(call))
    });
}
