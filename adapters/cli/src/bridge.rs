//! The `bridge` command: connects clients and a server across transports and eras.

mod args;

use alloc::sync::Arc;

use mcp_proto_proxy::host::{Bridge, ClientIdentity};
use mcp_std::io::StreamAddress;
use mcp_std::process::terminate_all;

use crate::authorization;
use crate::endpoint::{http, streams};
use crate::failure::CommandFailure;
use crate::notes;
use crate::proxy::{self, ProxyNotes, UpstreamOpener};
use crate::server::Server;
use crate::stop::{self, StopSignal};
pub(crate) use args::BridgeArgs;

/// Runs the bridge until the client is gone, or a signal ends it.
///
/// # Errors
///
/// Fails if the command line is wrong, or if the server cannot be reached at first.
pub(crate) fn run(args: BridgeArgs) -> Result<(), CommandFailure> {
    // A wrong command line is reported before anything is awaited.
    let mut server = Server::from_args(&args.server)?;
    let proxy = Arc::new(args.proxy);
    if proxy.http.address.is_none() && proxy.http.listen.is_none() {
        authorization::check_stdin(&args.authorization, "where the messages of the client come from")?;
    }
    let authorizer = authorization::for_command(&args.authorization, &proxy.revisions, &mut server)?;
    let timeout = proxy.timeout;
    let opener = Arc::new(UpstreamOpener { name: None, args: proxy, timeout, server, authorizer });
    let outcome = match (&opener.args.http.address, &opener.args.http.listen) {
        (Some(address), _) => run_http(&opener, address),
        #[cfg(unix)]
        (None, Some(address)) if args.share => run_shared(&opener, address),
        (None, Some(address)) => run_socket(&opener, address),
        (None, None) => {
            let signal = stop_signal()?;
            notes::hint_at_terminal("bridge");
            bridge(&opener, &signal)
                .serve_stdio(&signal.stop)
                .map_err(|error| proxy::failure("bridge", error))
        }
    };
    // Of connections that did not end in time, or were about to begin.
    terminate_all(stop::SERVER_END_TIMEOUT);
    outcome
}

fn stop_signal() -> Result<StopSignal, CommandFailure> {
    StopSignal::new().map_err(|error| CommandFailure::failed(error.to_string()))
}

fn bridge(opener: &Arc<UpstreamOpener>, signal: &StopSignal) -> Bridge {
    Bridge::new(opener.clone(), proxy::options(&opener.args, ProxyNotes::new(signal)))
}

/// Serves the clients that connect to a socket, each with a connection of its own to the server.
fn run_socket(opener: &Arc<UpstreamOpener>, address: &StreamAddress) -> Result<(), CommandFailure> {
    let shared = Arc::clone(opener);
    streams::run(&opener.args.http, address, move |socket, connection| {
        let signal = StopSignal::of_connection(connection);
        let signal = signal
            .map_err(|error| CommandFailure::failed(format!("the client cannot be served: {error}")))?;
        let served = bridge(&shared, &signal).serve_stream(socket, &signal.stop);
        served.map_err(|error| proxy::failure("bridge", error))
    })
}

/// Serves the clients that connect to a socket with one server.
#[cfg(unix)]
fn run_shared(opener: &Arc<UpstreamOpener>, address: &StreamAddress) -> Result<(), CommandFailure> {
    let signal = stop_signal()?;
    let (socket, report) = proxy::listen(&opener.args.http, address)?;
    // What all clients have is not known before the last one has come, and the server is told once.
    let connected = bridge(opener, &signal).connect(ClientIdentity::shared());
    let connected = connected.map_err(proxy::connect_failure)?;
    report()?;
    connected.serve_socket(socket, &signal.stop).map_err(|error| proxy::failure("bridge", error))
}

fn run_http(opener: &Arc<UpstreamOpener>, address: &str) -> Result<(), CommandFailure> {
    let args = &opener.args;
    let signal = stop_signal()?;
    let bound = proxy::bind(&args.http, address, http::config(&args.http))?;
    let connected = bridge(opener, &signal).connect(ClientIdentity::any());
    let connected = connected.map_err(proxy::connect_failure)?;
    http::report_address(&args.http, bound.address(), None)?;
    connected.serve_http(bound, &signal.stop).map_err(|error| proxy::failure("bridge", error))
}
