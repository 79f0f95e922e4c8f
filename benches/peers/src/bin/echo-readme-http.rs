//! `echo-readme-http PORT`: the HTTP server of rmcp's README, on all threads.

use mcp_benches_peers::ReadmeServer;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).ok_or("usage: echo-readme-http PORT")?;
    let manager = LocalSessionManager::default().into();
    let service =
        StreamableHttpService::new(|| Ok(ReadmeServer), manager, StreamableHttpServerConfig::default());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
