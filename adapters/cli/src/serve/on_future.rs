//! The demonstration server as a future, for the asynchronous adapter that includes this file.

use alloc::sync::Arc;

use futures_lite::future;
use mcp_mock::ClockResource;
use mcp_proto::Change;
use mcp_proto::server::Config;
use mcp_std::io::Duplex;

use super::adapter::{Error, Handle, HttpServer, Server};
use super::{Router, block_on, sleep};
use crate::endpoint::{http, streams};
use crate::failure::CommandFailure;
use crate::serve::POLL_INTERVAL;
use crate::serve::ServeArgs;
use crate::serve::chaos::Chaos;
use crate::serve::server_log::ServerLog;
use crate::stop;

#[path = "http_server.rs"]
#[expect(clippy::duplicate_mod, reason = "once for the server of each adapter")]
mod http_server;
#[path = "logged_router.rs"]
#[expect(clippy::duplicate_mod, reason = "once for the router of each adapter")]
mod logged_router;

pub(in crate::serve) fn run(args: &Arc<ServeArgs>) -> Result<(), CommandFailure> {
    let chaos = Chaos::new(&args.chaos, args.http.listen.is_some());
    if let Some(address) = &args.http.listen {
        let (shared, log) = (Arc::clone(args), ServerLog::new(args)?);
        return streams::run(&args.http, address, move |socket, connection| {
            chaos.around(Box::new(socket), |stream| {
                serve_stream(&shared, &log, stream, |handle| connection.shut_down(handle))
            })
        });
    }
    let log = ServerLog::new(args)?;
    if args.serial.is_some() || args.chaos.chaos.is_some() {
        return chaos.around(chaos.open_stream(args.serial.as_ref())?, |stream| {
            serve_stream(args, &log, stream, |handle| chaos.shut_down_on_signal(handle))
        });
    }
    let (router, clock) = logged_router::build(args, &log);
    let config = crate::serve::config(args, router.config())?;
    block_on(async {
        match &args.http.address {
            Some(address) if args.shards > 1 => {
                // Each shard has its own router, because async closures stay on their thread. These handlers keep no
                // state.
                let shared = Arc::clone(args);
                let make = move || logged_router::build(&shared, &log).0;
                let first = make();
                let sharded = |server: HttpServer<_>| server.shards_with(args.shards, make);
                serve_http(args, address, config, first, sharded, clock.as_ref()).await
            }
            Some(address) => serve_http(args, address, config, router, |one| one, clock.as_ref()).await,
            None => {
                let served = serve_stdio(config, router, clock.as_ref()).await;
                served.map_err(|error| CommandFailure::from_serve_error(&error))
            }
        }
    })
}

/// Serves one stream to its end and announces ticks of the clock. `register` gets the handle that ends it earlier.
#[cfg(unix)]
fn serve_stream(
    args: &ServeArgs,
    log: &Arc<ServerLog>,
    stream: Box<dyn Duplex + Send>,
    register: impl FnOnce(Handle),
) -> Result<(), CommandFailure> {
    let (router, clock) = logged_router::build(args, log);
    let config = crate::serve::config(args, router.config())?;
    let served = block_on(async {
        let server = Server::new(config, super::adapter::ByteStream::new(stream)?, router);
        let handle = server.handle();
        register(handle.clone());
        future::or(server.run(), announce_ticks(handle, clock.as_ref())).await
    });
    served.map_err(|error| CommandFailure::from_serve_error(&error))
}

/// Fails: on this platform the adapter watches no such stream.
#[cfg(not(unix))]
fn serve_stream(
    _: &ServeArgs,
    _: &Arc<ServerLog>,
    _: Box<dyn Duplex + Send>,
    _: impl FnOnce(Handle),
) -> Result<(), CommandFailure> {
    Err(CommandFailure::failed("this runtime serves such a stream on Unix only"))
}

/// Serves stdio until the end and announces ticks of the clock.
async fn serve_stdio(config: Config, router: Router, clock: Option<&ClockResource>) -> Result<(), Error> {
    let server = Server::stdio(config, router)?;
    let handle = server.handle();
    let ended = handle.clone();
    stop::run_on_signal(move || ended.shutdown(stop::GRACE_PERIOD));
    future::or(server.run(), announce_ticks(handle, clock)).await
}

/// Serves HTTP until a signal arrives.
async fn serve_http(
    args: &ServeArgs,
    address: &str,
    config: Config,
    router: Router,
    sharded: impl FnOnce(HttpServer<Router>) -> HttpServer<Router>,
    clock: Option<&ClockResource>,
) -> Result<(), CommandFailure> {
    let (server, protected) = http_server::bind(args, address, config, router)?;
    let address = server.address();
    let server = sharded(server);
    let handle = server.handle();
    let (ended, grace) = (handle.clone(), args.grace_period());
    stop::run_on_signal(move || ended.shutdown(grace));
    http::report_address(&args.http, address, protected.as_ref())?;
    future::or(server.run(), announce_ticks(handle, clock))
        .await
        .map_err(|error| CommandFailure::from_serve_error(&error))
}

/// Announces ticks of the clock. Never completes.
async fn announce_ticks(handle: Handle, clock: Option<&ClockResource>) -> Result<(), Error> {
    let Some(clock) = clock else { return future::pending().await };
    loop {
        sleep(clock.time_to_tick().unwrap_or(POLL_INTERVAL)).await;
        if clock.take_tick() {
            let _ = handle.publish(&Change::Resource(ClockResource::URI.into()));
        }
    }
}
