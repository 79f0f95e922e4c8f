//! A server process as well as it goes: pipes without helper threads, one thread, the router kept

use mcp_benches_peers::Best;
use rmcp::ServiceExt;
use rmcp::transport::io::stdio_pipes;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Best::default().serve(stdio_pipes()).await?.waiting().await?;
    Ok(())
}
