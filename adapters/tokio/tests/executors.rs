//! Clients and servers of `mcp-tokio` in a runtime.

use core::future;
use core::time::Duration;
use std::thread;

use mcp_proto::client::Config;
use mcp_proto::http::server::Config as Http;
use mcp_proto::model::Tool;
use mcp_proto::{CallOptions, RawJson};
use mcp_tokio::{Client, Cx, Error, HttpServer, PendingCall, Router, Server};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

use crate::support::with_timeout;

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
        thread::sleep(Duration::from_millis(200));
        runtime.block_on(client.wait(call))
    });
}

/// Runs an HTTP server by `run` while four clients call it, each as soon as it has an answer: requests arrive while the
/// server works, while it is about to sleep, and while it sleeps.
fn serve_busy_clients(run: impl FnOnce(HttpServer<Router>) -> Result<(), Error> + Send + 'static) {
    with_timeout(move || {
        let mut router = Router::new("busy", "1.0");
        let tool = Tool::new("hello", RawJson::new(r#"{"type":"object"}"#).expect("JSON"));
        router.tool_with(tool, async |_: &mut Cx, _: Value| "hello");
        let config = router.config().expect("no mistakes");
        let server = HttpServer::bind("127.0.0.1:0", config, Http::new(), router).expect("a free port");
        let (url, handle) = (format!("http://{}/mcp", server.address().expect("bound")), server.handle());
        let serving = thread::spawn(move || run(server));
        let clients = [(); 4].map(|()| {
            let url = url.clone();
            thread::spawn(move || {
                let client = mcp_blocking::Client::options(Config::new("me", "1.0"))
                    .connect_url(&url)
                    .expect("a server");
                for _ in 0..250 {
                    let result = client.call_tool("hello", &json!({})).expect("an answer");
                    assert_eq!(result.content[0].as_text(), Some("hello"));
                }
            })
        });
        clients.into_iter().for_each(|client| client.join().expect("each request is answered"));
        handle.shutdown(Duration::from_secs(5));
        serving.join().expect("the server does not panic").expect("the server ends well");
    });
}

#[test]
fn http_server_in_a_task_misses_no_request() {
    serve_busy_clients(|server| {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(async { tokio::spawn(server.run()).await.expect("the server does not panic") })
    });
}

#[test]
fn http_server_beside_the_workers_misses_no_request() {
    serve_busy_clients(|server| {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(server.run())
    });
}

#[test]
fn http_server_in_a_local_set_misses_no_request() {
    serve_busy_clients(|server| {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let serving =
            async { tokio::task::spawn_local(server.run()).await.expect("the server does not panic") };
        runtime.block_on(LocalSet::new().run_until(serving))
    });
}
