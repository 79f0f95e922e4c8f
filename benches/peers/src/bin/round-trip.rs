//! `round-trip readme|best legacy|modern N`: N calls from a client to a server in memory, on one thread.

use std::error::Error;

use mcp_benches_peers::{CachedRouterServer, ReadmeServer};
use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::{ClientLifecycleMode, ClientServiceExt, ServerHandler, ServiceExt};
use tokio::io::{DuplexStream, duplex};

const TEXT: &str =
    "The quick brown fox jumps over the lazy dog 0123456789 and then echoes this text back, please. The q";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [server, era, n] = &args[..] else {
        return Err("usage: round-trip readme|best legacy|modern N".into());
    };
    let (client_end, server_end) = duplex(64 << 10);
    match server.as_str() {
        "readme" => tokio::spawn(serve(ReadmeServer, server_end)),
        "best" => tokio::spawn(serve(CachedRouterServer::default(), server_end)),
        _ => return Err("`readme` or `best`".into()),
    };
    let lifecycle = match era.as_str() {
        "modern" => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        "legacy" => ClientLifecycleMode::Initialize,
        _ => return Err("`legacy` or `modern`".into()),
    };
    let client = ().serve_with_lifecycle(client_end, lifecycle).await?;
    let mut arguments = serde_json::Map::new();
    arguments.insert("text".into(), TEXT.into());
    for _ in 0..n.parse::<u32>()? {
        let ask = CallToolRequestParams::new("echo").with_arguments(arguments.clone());
        let result = client.call_tool(ask).await?;
        assert_eq!(result.content.len(), 1, "an answer");
    }
    client.cancel().await?;
    Ok(())
}

async fn serve(server: impl ServerHandler, stream: DuplexStream) {
    if let Ok(running) = server.serve(stream).await {
        let _ended = running.waiting().await;
    }
}
