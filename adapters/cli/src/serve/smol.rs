//! The demonstration server on mcp-smol

use alloc::sync::Arc;

use async_io::Timer;
use futures_lite::future;
use mcp_proto::Change;
use mcp_proto::server::Config;
use mcp_smol as adapter;
#[cfg(unix)]
use mcp_smol::Server;
use mcp_smol::{Cx, Error, Handle, HttpServer, Router, block_on};

use super::clock::{Clock, LOOK};
use super::http;
use super::watched::{Watch, watched};
use crate::args;
use crate::failure::Failure;
use crate::stop;

macro_rules! handler {
    (|$cx:tt, $($rest:tt)*) => {
        async move |$cx: &mut mcp_smol::Cx<'_>, $($rest)*
    };
}

macro_rules! wait {
    ($waiting:expr) => {
        $waiting.await
    };
}

#[path = "tools.rs"]
#[expect(clippy::duplicate_mod, reason = "once for the router of each adapter")]
mod tools;

watched!(adapter: self, mut: [], async: [async], await: [.await]);

pub(super) fn run(args: &args::Serve) -> Result<(), Failure> {
    let (router, clock) = tools::router(args);
    let config = super::config(args, router.config())?;
    let watched = Watched { router, watch: Arc::new(Watch::new(args)) };
    block_on(async {
        match &args.http.address {
            Some(address) if args.shards > 1 => {
                // A router for each shard: those of async closures stay where they were made. They remember nothing.
                let (broken, watch) = (args.broken, watched.watch);
                let make = move || Watched { router: tools::make(false, broken).0, watch: watch.clone() };
                let first = make();
                let sharded = |server: HttpServer<_>| server.shards_with(args.shards, make);
                serve_http(args, address, config, first, sharded, clock.as_ref()).await
            }
            Some(address) => serve_http(args, address, config, watched, |one| one, clock.as_ref()).await,
            None => {
                let served = serve_stdio(config, watched, clock.as_ref()).await;
                served.map_err(|error| Failure::serving(&error))
            }
        }
    })
}

/// Says that there is no such thing here
#[cfg(not(unix))]
async fn serve_stdio(_: Config, _: Watched, _: Option<&Clock>) -> Result<(), Error> {
    let why = "mcp-smol serves stdin and stdout on Unix only: take another --runtime, or --http";
    Err(Error::Io(std::io::Error::new(std::io::ErrorKind::Unsupported, why)))
}

/// Serves to the end, and tells what changes by itself
#[cfg(unix)]
async fn serve_stdio(config: Config, watched: Watched, clock: Option<&Clock>) -> Result<(), Error> {
    let server = Server::stdio(config, watched)?;
    let handle = server.handle();
    stop::shuts_down(handle.clone());
    future::or(server.run(), told(handle, clock)).await
}

/// Serves until it is told to end
async fn serve_http(
    args: &args::Serve,
    address: &str,
    config: Config,
    watched: Watched,
    sharded: impl FnOnce(HttpServer<Watched>) -> HttpServer<Watched>,
    clock: Option<&Clock>,
) -> Result<(), Failure> {
    let bound = HttpServer::bind(address, config, http::config(&args.http), watched);
    let mut server = bound.map_err(|error| http::refused(address, &error))?;
    #[cfg(feature = "tls")]
    if let Some(tls) = http::tls(&args.http)? {
        server = server.tls(tls);
    }
    if args.trace {
        server = server.tap_heads();
    }
    let address = server.address();
    let server = sharded(server);
    let handle = server.handle();
    stop::shuts_down(handle.clone());
    http::listening(&args.http, address)?;
    future::or(server.run(), told(handle, clock)).await.map_err(|error| Failure::serving(&error))
}

/// Tells what changes by itself; never ends
async fn told(handle: Handle, clock: Option<&Clock>) -> Result<(), Error> {
    let Some(clock) = clock else { return future::pending().await };
    loop {
        Timer::after(clock.left().unwrap_or(LOOK)).await;
        if clock.ticks() {
            let _ = handle.publish(&Change::Resource(Clock::URI.into()));
        }
    }
}
