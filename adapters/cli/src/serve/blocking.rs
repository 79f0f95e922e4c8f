//! The demonstration server on mcp-blocking

use mcp_blocking as adapter;
use mcp_blocking::{Cx, HttpServer, Router};
use mcp_proto::Change;
use mcp_proto::server::Config;

use super::clock::Clock;
use super::http;
use super::watched::watched;
use crate::args;
use crate::failure::Failure;

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

/// Serves until somebody ends the process
fn serve_http(
    args: &args::Serve,
    address: &str,
    config: Config,
    watched: Watched,
    clock: Option<&Clock>,
) -> Result<(), Failure> {
    let bound = HttpServer::bind(address, config, http::config(&args.http), watched);
    let mut server = bound.map_err(|error| http::refused(address, &error))?;
    if args.trace {
        server = server.tap_heads();
    }
    http::listening(&args.http, server.address())?;
    while server
        .poll(clock.and_then(Clock::left).unwrap_or(turned::IDLE))
        .map_err(|error| Failure::serving(&error))?
    {
        if clock.is_some_and(Clock::ticks) {
            server.publish(&Change::Resource(Clock::URI.into()));
        }
    }
    Ok(())
}

watched!(adapter: self, mut: [mut], async: [], await: []);
