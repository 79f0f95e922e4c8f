//! The fastest server process that rmcp allows: pipes without helper threads, one thread, a cached router.

use mcp_benches_peers::CachedRouterServer;
use rmcp::ServiceExt;
use rmcp::transport::io::stdio_pipes;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    CachedRouterServer::default().serve(stdio_pipes()).await?.waiting().await?;
    Ok(())
}
