//! `axum-tower PORT`: `mcp-tower` in axum, as in its README.

use mcp_benches_peers::EchoArguments;
use mcp_tower::{Cx, McpService, Router};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).ok_or("usage: axum-tower PORT")?;
    let mut router = Router::new("echo", "1.0.0");
    router
        .tool("echo", async |_: &mut Cx, arguments: EchoArguments| arguments.text())
        .description("Says it again");
    let app = axum::Router::new().route_service("/mcp", McpService::new(router)?);
    mcp_benches_peers::serve_axum(&port, app).await
}
