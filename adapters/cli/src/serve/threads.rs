//! The demonstration server on mcp-threads

use mcp_threads as adapter;
use mcp_threads::{Cx, Handler, HttpServer, Router};

use super::watched::watched;

macro_rules! handler {
    (|$cx:tt, $($rest:tt)*) => {
        move |$cx: &mut mcp_threads::Cx<'_>, $($rest)*
    };
}

macro_rules! wait {
    ($waiting:expr) => {
        $waiting
    };
}

#[path = "tools.rs"]
#[expect(clippy::duplicate_mod, reason = "once for the router of each adapter")]
mod tools;
#[path = "turned.rs"]
#[expect(clippy::duplicate_mod, reason = "once for the loop of each adapter")]
mod turned;

pub(super) use turned::run;

watched!(adapter: self, mut: [], async: [], await: []);

fn sharded<H: Handler>(server: HttpServer<H>, shards: u8) -> HttpServer<H> {
    server.shards(shards)
}
