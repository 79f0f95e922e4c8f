//! On `mcp-threads`: handlers run on workers, several at a time.

use std::sync::Arc;

use mcp_threads::mcp_proto::http::server::Config;
use mcp_threads::{HttpServer, Server};

use crate::news::watch;
use crate::store::Store;

crate::entries::router!(mcp_threads []);

pub fn serve_stdio(store: &Arc<Store>) -> anyhow::Result<()> {
    let router = router(store);
    let mut server = Server::stdio(router.config()?, router)?;
    watch(store.clone(), server.handle()?)?;
    Ok(server.run()?)
}

pub fn serve_http(store: &Arc<Store>, address: &str) -> anyhow::Result<()> {
    let router = router(store);
    let mut server = HttpServer::bind(address, router.config()?, Config::new(), router)?;
    watch(store.clone(), server.handle()?)?;
    eprintln!("http://{}/mcp", server.address()?);
    Ok(server.run()?)
}
