//! The demonstration server on `mcp-blocking`.

use mcp_blocking as adapter;
use mcp_blocking::{HttpServer, Router};
use mcp_mock::blocking::router as mock_router;

#[path = "on_thread.rs"]
#[cfg_attr(feature = "runtimes", expect(clippy::duplicate_mod, reason = "once for the loop of each adapter"))]
mod on_thread;

pub(super) use on_thread::run;

/// Returns the server unchanged: this adapter has one thread, and the options allow no more.
fn with_shards<H>(server: HttpServer<H>, _: u8) -> HttpServer<H> {
    server
}
