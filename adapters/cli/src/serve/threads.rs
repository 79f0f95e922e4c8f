//! The demonstration server on mcp-threads

use mcp_proto::server::Config;
use mcp_threads as adapter;
use mcp_threads::{Cx, Router};

use super::clock::Clock;
use super::watched::watched;
use crate::args;
use crate::failure::Failure;

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

fn serve_http(_: &args::Serve, _: &str, _: Config, _: Watched, _: Option<&Clock>) -> Result<(), Failure> {
    Err(Failure::usage("there is no HTTP on threads yet: say --runtime blocking or smol"))
}

watched!(adapter: self, mut: [], async: [], await: []);
