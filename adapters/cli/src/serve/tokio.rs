//! The demonstration server on `mcp-tokio`.

use alloc::sync::Arc;

use futures_lite::future;
use mcp_proto::Change;
use mcp_proto::server::Config;
#[cfg(unix)]
use mcp_tokio::Server;
use mcp_tokio::{Error, Handle, HttpServer, LocalRouter as Router};

use super::card;
use super::clock::{ClockResource, POLL_INTERVAL};
use super::http;
use super::logged_router::{ServerLog, logged_router};
use super::protection;
use crate::args;
use crate::failure::CommandFailure;
use crate::stop;
use crate::tokio_runtime;

/// The adapter, with the router whose handlers stay on their thread.
mod adapter {
    pub(super) use mcp_tokio::LocalRouter as Router;
    pub(super) use mcp_tokio::*;
}

macro_rules! handler {
    (|$cx:tt, $($rest:tt)*) => {
        async move |$cx: &mut mcp_tokio::Cx, $($rest)*
    };
}

macro_rules! wait {
    ($waiting:expr) => {
        $waiting.await
    };
}

#[path = "tools/mod.rs"]
#[expect(clippy::duplicate_mod, reason = "once for the router of each adapter")]
mod tools;

logged_router!(adapter: self, context: mcp_tokio::Cx, mut: [], async: [async], await: [.await]);

pub(super) fn run(args: &args::ServeArgs) -> Result<(), CommandFailure> {
    let (router, clock) = tools::router(args);
    let config = super::config(args, router.config())?;
    let handler = LoggedRouter { router, log: Arc::new(ServerLog::new(args)) };
    tokio_runtime::block_on(async {
        match &args.http.address {
            Some(address) if args.shards > 1 => {
                // Each shard has its own router, because async closures stay on their thread. These handlers keep no
                // state.
                let (broken, log) = (args.broken, handler.log);
                let make =
                    move || LoggedRouter { router: tools::build_router(false, broken).0, log: log.clone() };
                let first = make();
                let sharded = |server: HttpServer<_>| server.shards_with(args.shards, make);
                serve_http(args, address, config, first, sharded, clock.as_ref()).await
            }
            Some(address) => serve_http(args, address, config, handler, |one| one, clock.as_ref()).await,
            None => {
                let served = serve_stdio(config, handler, clock.as_ref()).await;
                served.map_err(|error| CommandFailure::from_serve_error(&error))
            }
        }
    })
}

/// Fails: this platform is not supported.
#[cfg(not(unix))]
async fn serve_stdio(_: Config, _: LoggedRouter, _: Option<&ClockResource>) -> Result<(), Error> {
    let why = "mcp-tokio serves stdin and stdout on Unix only: use another --runtime, or --http";
    Err(Error::Io(std::io::Error::new(std::io::ErrorKind::Unsupported, why)))
}

/// Serves stdio until the end and announces ticks of the clock.
#[cfg(unix)]
async fn serve_stdio(
    config: Config,
    handler: LoggedRouter,
    clock: Option<&ClockResource>,
) -> Result<(), Error> {
    let server = Server::stdio(config, handler)?;
    let handle = server.handle();
    stop::shut_down_on_signal(handle.clone());
    future::or(server.run(), announce_ticks(handle, clock)).await
}

/// Serves HTTP until a signal arrives.
async fn serve_http(
    args: &args::ServeArgs,
    address: &str,
    config: Config,
    handler: LoggedRouter,
    sharded: impl FnOnce(HttpServer<LoggedRouter>) -> HttpServer<LoggedRouter>,
    clock: Option<&ClockResource>,
) -> Result<(), CommandFailure> {
    let (http, address) = protection::apply(args, http::config(&args.http), address)?;
    let http = card::apply(args, http, &address)?;
    let (address, protected) = (&*address, http.protected_resource().cloned());
    let bound = HttpServer::bind(address, config, http, handler);
    let mut server = bound.map_err(|error| http::bind_failure(address, &error))?;
    #[cfg(feature = "tls")]
    if let Some(tls) = http::tls(&args.http)? {
        server = server.tls(tls);
    }
    if let Some(protected) = &protected {
        server = server.validate_tokens(protection::validator(protected));
    }
    if args.trace {
        server = server.tap_heads();
    }
    if let Some(connections) = args.http.max_connections {
        server = server.max_connections(connections);
    }
    let address = server.address();
    let server = sharded(server);
    let handle = server.handle();
    stop::shut_down_on_signal(handle.clone());
    http::report_address(&args.http, address, protected.as_ref())?;
    future::or(server.run(), announce_ticks(handle, clock))
        .await
        .map_err(|error| CommandFailure::from_serve_error(&error))
}

/// Announces ticks of the clock. Never completes.
async fn announce_ticks(handle: Handle, clock: Option<&ClockResource>) -> Result<(), Error> {
    let Some(clock) = clock else { return future::pending().await };
    loop {
        ::tokio::time::sleep(clock.time_to_tick().unwrap_or(POLL_INTERVAL)).await;
        if clock.take_tick() {
            let _ = handle.publish(&Change::Resource(ClockResource::URI.into()));
        }
    }
}
