//! The demonstration server on mcp-blocking

use mcp_blocking as adapter;
use mcp_blocking::{Cx, HttpServer, Router};

use super::watched::watched;

macro_rules! handler {
    (|$cx:tt, $($rest:tt)*) => {
        move |$cx: &mut mcp_blocking::Cx<'_>, $($rest)*
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

watched!(adapter: self, mut: [mut], async: [], await: []);

/// It has one thread, and was not asked for more
fn sharded<H>(server: HttpServer<H>, _: u8) -> HttpServer<H> {
    server
}
