//! On `mcp-smol`: handlers are futures on one thread.
//!
//! A query of this database takes microseconds, so the handlers call it directly. A slow one belongs on another thread,
//! by `blocking::unblock` for example.

use std::sync::Arc;

use mcp_smol::mcp_proto::http::server::Config;
use mcp_smol::{HttpServer, Router, Server};

use crate::entries::add_entries;
use crate::news::watch;
use crate::store::Store;

/// Creates the server: every entry shares the store.
#[must_use]
pub fn router(store: &Arc<Store>) -> Router {
    let mut router = Router::new("notes", env!("CARGO_PKG_VERSION"));
    add_entries(&mut router, store);
    router.subscriptions(|_, _| {});
    router
}

pub fn serve_stdio(store: &Arc<Store>) -> anyhow::Result<()> {
    let router = router(store);
    let server = Server::stdio(router.config()?, router)?;
    watch(store.clone(), server.handle())?;
    Ok(mcp_smol::block_on(server.run())?)
}

pub fn serve_http(store: &Arc<Store>, address: &str) -> anyhow::Result<()> {
    let router = router(store);
    let server = HttpServer::bind(address, router.config()?, Config::new(), router)?;
    watch(store.clone(), server.handle())?;
    eprintln!("http://{}/mcp", server.address()?);
    Ok(mcp_smol::block_on(server.run())?)
}
