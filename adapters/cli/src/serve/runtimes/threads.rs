//! The demonstration server on `mcp-threads`.

use mcp_threads as adapter;
use mcp_threads::{Handler, HttpServer, Router};

macro_rules! handler {
    (|$cx:tt, $($rest:tt)*) => {
        move |$cx: &mut mcp_threads::Cx<'_>, $($rest)*
    };
}

#[path = "../on_thread.rs"]
#[expect(clippy::duplicate_mod, reason = "once for the loop of each adapter")]
mod on_thread;
#[path = "../tools/mod.rs"]
#[expect(clippy::duplicate_mod, reason = "once for the router of each adapter")]
mod tools;

pub(in crate::serve) use on_thread::run;

fn with_shards<H: Handler>(server: HttpServer<H>, shards: u8) -> HttpServer<H> {
    server.shards(shards)
}
