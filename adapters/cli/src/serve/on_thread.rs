//! The demonstration server with an event loop on this thread, for the adapter that includes this file.

use alloc::sync::Arc;
use core::time::Duration;

use mcp_mock::ClockResource;
use mcp_proto::Change;
use mcp_proto::server::Config;
use mcp_runtime::server::Handle;
use mcp_std::io::Duplex;

use super::{Router, adapter, with_shards};
use crate::endpoint::{http, streams};
use crate::failure::CommandFailure;
use crate::serve::POLL_INTERVAL;
use crate::serve::ServeArgs;
use crate::serve::chaos::Chaos;
use crate::serve::server_log::ServerLog;
use crate::stop;

#[path = "http_server.rs"]
#[cfg_attr(
    feature = "runtimes",
    expect(clippy::duplicate_mod, reason = "once for the server of each adapter")
)]
mod http_server;
#[path = "logged_router.rs"]
#[cfg_attr(
    feature = "runtimes",
    expect(clippy::duplicate_mod, reason = "once for the router of each adapter")
)]
mod logged_router;

pub(in crate::serve) fn run(args: &Arc<ServeArgs>) -> Result<(), CommandFailure> {
    let log = ServerLog::new(args)?;
    let chaos = Chaos::new(&args.chaos, args.http.listen.is_some());
    if let Some(address) = &args.http.listen {
        let shared = Arc::clone(args);
        return streams::run(&args.http, address, move |socket, connection| {
            chaos.around(Box::new(socket), |stream| {
                serve_stream(&shared, &log, stream, |handle| connection.shut_down(handle))
            })
        });
    }
    let Some(address) = &args.http.address else {
        return chaos.around(chaos.open_stream(args.serial.as_ref())?, |stream| {
            serve_stream(args, &log, stream, |handle| chaos.shut_down_on_signal(handle))
        });
    };
    let (router, clock) = logged_router::build(args, &log);
    let config = crate::serve::config(args, router.config())?;
    serve_http(args, address, config, router, clock.as_ref())
}

/// Serves one stream to its end and announces ticks of the clock. `register` gets the handle that ends it earlier.
fn serve_stream(
    args: &ServeArgs,
    log: &Arc<ServerLog>,
    stream: Box<dyn Duplex + Send>,
    register: impl FnOnce(Handle),
) -> Result<(), CommandFailure> {
    let (router, clock) = logged_router::build(args, log);
    let config = crate::serve::config(args, router.config())?;
    let served = serve_clock(adapter::Server::new(config, stream, router), clock.as_ref(), register);
    served.map_err(|error| CommandFailure::from_serve_error(&error))
}

fn serve_clock(
    mut server: adapter::Server<impl Duplex, Router>,
    clock: Option<&ClockResource>,
    register: impl FnOnce(Handle),
) -> Result<(), adapter::Error> {
    register(server.handle()?);
    while server.poll(clock.and_then(ClockResource::time_to_tick).unwrap_or(IDLE_TIMEOUT))? {
        if clock.is_some_and(ClockResource::take_tick) {
            let now = server.now();
            server.engine().publish(now, &Change::Resource(ClockResource::URI.into()));
        }
    }
    Ok(())
}

/// Serves HTTP until a signal arrives.
fn serve_http(
    args: &ServeArgs,
    address: &str,
    config: Config,
    router: Router,
    clock: Option<&ClockResource>,
) -> Result<(), CommandFailure> {
    let (server, protected) = http_server::bind(args, address, config, router)?;
    let address = server.address();
    let mut server = with_shards(server, args.shards);
    let handle = server.handle().map_err(|error| CommandFailure::from_serve_error(&error))?;
    let grace = args.grace_period();
    stop::run_on_signal(move || handle.shutdown(grace));
    http::report_address(&args.http, address, protected.as_ref())?;
    // Another thread may learn first that a client follows the clock.
    let idle = if clock.is_some() && args.shards > 1 { POLL_INTERVAL } else { IDLE_TIMEOUT };
    while server
        .poll(clock.and_then(ClockResource::time_to_tick).unwrap_or(idle))
        .map_err(|error| CommandFailure::from_serve_error(&error))?
    {
        if clock.is_some_and(ClockResource::take_tick) {
            server.publish(&Change::Resource(ClockResource::URI.into()));
        }
    }
    Ok(())
}

/// Time to wait when no tick is scheduled.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3_600);
