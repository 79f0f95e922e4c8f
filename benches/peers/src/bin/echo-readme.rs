//! The server process of rmcp's README: `stdio()`, on all threads.

use mcp_benches_peers::ReadmeServer;
use rmcp::ServiceExt;
use rmcp::transport::io::stdio;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    ReadmeServer.serve(stdio()).await?.waiting().await?;
    // The thread that reads stdin would keep the runtime alive.
    std::process::exit(0)
}
