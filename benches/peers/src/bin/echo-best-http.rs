//! `echo-best-http PORT`: the fastest HTTP server that rmcp allows.

use mcp_benches_peers::CachedRouterServer;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).ok_or("usage: echo-best-http PORT")?;
    let best = CachedRouterServer::default();
    mcp_benches_peers::serve_http(&port, move || best.clone()).await
}
