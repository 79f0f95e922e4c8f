//! HTTP/2: the host is in the authority, and streams share a connection.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mcp_proto::RawJson;
use mcp_proto::model::Tool;
use mcp_tower::{Cx, McpService, Router};
use serde_json::{Value, json};

fn call(authority: &str) -> http::Request<Full<Bytes>> {
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "wait", "arguments": {}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    http::Request::post(format!("http://{authority}/mcp"))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "wait")
        .body(Full::from(message.to_string()))
        .unwrap()
}

#[tokio::test]
async fn calls_share_a_connection() {
    let mut router = Router::new("h2", "1");
    let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(8));
    let tool = Tool::new("wait", RawJson::new(r#"{"type":"object"}"#).unwrap());
    router.tool_with(tool, async move |_: &mut Cx, _: Value| {
        barrier.wait().await;
        "met"
    });
    let service = McpService::new(router).unwrap();
    let (near, far) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move {
        let service = hyper::service::service_fn(move |request| service.handle(request));
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        drop(server.serve_connection(TokioIo::new(far), service).await);
    });
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap();
    // Eight calls that wait for each other.
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..8 {
        calls.spawn(sender.send_request(call("localhost")));
    }
    while let Some(response) = calls.join_next().await {
        let response = tokio::time::timeout(Duration::from_secs(20), async { response.unwrap().unwrap() });
        let body = response.await.unwrap().into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains("met"));
    }
    let refused = sender.send_request(call("evil.example")).await.unwrap();
    assert_eq!(refused.status(), 403);
}
