//! A server process as the README shows it: `stdio()`, all threads

use mcp_benches_peers::Readme;
use rmcp::ServiceExt;
use rmcp::transport::io::stdio;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Readme.serve(stdio()).await?.waiting().await?;
    // The blocking reader of stdin would keep the runtime from ending.
    std::process::exit(0)
}
