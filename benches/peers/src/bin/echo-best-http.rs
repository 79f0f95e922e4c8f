//! `echo-best-http PORT`: a server over HTTP as well as it goes

use mcp_benches_peers::Best;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).ok_or("usage: echo-best-http PORT")?;
    let best = Best::default();
    mcp_benches_peers::serve_http(&port, move || best.clone()).await
}
