//! The demonstration server where a thread turns the loop, on the adapter that includes this

use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::Change;
use mcp_proto::server::Config;
use mcp_std::Stdio;

use super::{Watched, adapter, sharded, tools};
use crate::args;
use crate::failure::Failure;
use crate::serve::clock::{Clock, LOOK};
use crate::serve::http;
use crate::serve::watched::Watch;
use crate::stop;

pub(in crate::serve) fn run(args: &args::Serve) -> Result<(), Failure> {
    let (router, clock) = tools::router(args);
    let config = crate::serve::config(args, router.config())?;
    let watched = Watched { router, watch: Arc::new(Watch::new(args)) };
    match &args.http.address {
        Some(address) => serve_http(args, address, config, watched, clock.as_ref()),
        None => serve_stdio(config, watched, clock.as_ref()).map_err(|error| Failure::serving(&error)),
    }
}

/// Serves to the end, and tells what changes by itself
fn serve_stdio(config: Config, watched: Watched, clock: Option<&Clock>) -> Result<(), adapter::Error> {
    let mut server = adapter::Server::new(config, Stdio::guarded()?, watched);
    stop::shuts_down(server.handle()?);
    while server.poll(clock.and_then(Clock::left).unwrap_or(IDLE))? {
        if clock.is_some_and(Clock::ticks) {
            let now = server.now();
            server.engine().publish(now, &Change::Resource(Clock::URI.into()));
        }
    }
    Ok(())
}

/// Serves until it is told to end
fn serve_http(
    args: &args::Serve,
    address: &str,
    config: Config,
    watched: Watched,
    clock: Option<&Clock>,
) -> Result<(), Failure> {
    let bound = adapter::HttpServer::bind(address, config, http::config(&args.http), watched);
    let mut server = bound.map_err(|error| http::refused(address, &error))?;
    #[cfg(feature = "tls")]
    if let Some(tls) = http::tls(&args.http)? {
        server = server.tls(tls);
    }
    if args.trace {
        server = server.tap_heads();
    }
    let address = server.address();
    server = sharded(server, args.shards);
    stop::shuts_down(server.handle().map_err(|error| Failure::serving(&error))?);
    http::listening(&args.http, address)?;
    // Another thread may hear that somebody follows the clock.
    let idle = if clock.is_some() && args.shards > 1 { LOOK } else { IDLE };
    while server
        .poll(clock.and_then(Clock::left).unwrap_or(idle))
        .map_err(|error| Failure::serving(&error))?
    {
        if clock.is_some_and(Clock::ticks) {
            server.publish(&Change::Resource(Clock::URI.into()));
        }
    }
    Ok(())
}

/// Until something happens
const IDLE: Duration = Duration::from_secs(3_600);
