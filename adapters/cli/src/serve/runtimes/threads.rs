//! The demonstration server on `mcp-threads`.

use mcp_mock::threads::router as mock_router;
use mcp_threads as adapter;
use mcp_threads::{Handler, HttpServer, Router};

#[path = "../on_thread.rs"]
#[expect(clippy::duplicate_mod, reason = "once for the loop of each adapter")]
mod on_thread;

pub(in crate::serve) use on_thread::run;

fn with_shards<H: Handler>(server: HttpServer<H>, shards: u8) -> HttpServer<H> {
    server.shards(shards)
}
