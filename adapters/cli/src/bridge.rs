//! The `bridge` command: connects clients and a server across transports and eras.

mod args;

use alloc::sync::Arc;
use std::thread;
use std::time::Instant;

use mcp_proto::Limits;
use mcp_proto::client::Peer;
use mcp_proto_proxy::ClientCount;
#[cfg(unix)]
use mcp_std::io::StreamListener;
use mcp_std::io::{Duplex, StreamAddress};
use mcp_std::process::terminate_all;

use crate::authorization;
use crate::endpoint::{http, streams};
use crate::failure::CommandFailure;
#[cfg(unix)]
use crate::failure::Exit;
use crate::notes;
use crate::proxy::downstream::StreamDownstream;
use crate::proxy::first_message::{FirstMessage, all_capabilities, broken, refusal, stdio};
use crate::proxy::http_downstream::BoundHttp;
use crate::proxy::one_server;
use crate::proxy::upstream::{ClientIdentity, UpstreamOpener};
use crate::proxy::upstream_slot::{LOOK_INTERVAL, UpstreamSlot};
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
            let stop_signal = stop_signal()?;
            run_stream(&opener, stdio("bridge")?, stop_signal)
        }
    };
    // Of connections that did not end in time, or were about to begin.
    terminate_all(stop::SERVER_END_TIMEOUT);
    outcome
}

fn stop_signal() -> Result<StopSignal, CommandFailure> {
    StopSignal::new().map_err(|error| CommandFailure::failed(error.to_string()))
}

/// Serves the clients that connect to a socket, each with a connection of its own to the server.
fn run_socket(opener: &Arc<UpstreamOpener>, address: &StreamAddress) -> Result<(), CommandFailure> {
    let shared = Arc::clone(opener);
    streams::run(&opener.args.http, address, move |socket, connection| {
        let stop_signal = StopSignal::of_connection(connection);
        let stop_signal = stop_signal.map_err(|error| broken("the client cannot be served", &error))?;
        run_stream(&shared, socket, stop_signal)
    })
}

/// Serves the clients that connect to a socket with one server.
#[cfg(unix)]
fn run_shared(opener: &Arc<UpstreamOpener>, address: &StreamAddress) -> Result<(), CommandFailure> {
    let stop_signal = stop_signal()?;
    let listener = StreamListener::bind(address)
        .map_err(|error| CommandFailure::new(Exit::Connection, error.to_string()))?;
    let (at, is_reachable_from_outside) = (listener.address(), listener.is_reachable_from_outside());
    let ready = |_: &Peer| streams::report_address(at, is_reachable_from_outside, address);
    one_server::serve_shared(opener, listener, false, None, stop_signal, ready, || {})
}

/// Serves one client on a byte stream until it is gone.
fn run_stream(
    opener: &Arc<UpstreamOpener>,
    mut stream: impl Duplex + 'static,
    stop_signal: StopSignal,
) -> Result<(), CommandFailure> {
    let args = &opener.args;
    // The client comes first, because the server may want to know its identity.
    let Some(first) = FirstMessage::read(&mut stream)? else { return Ok(()) };
    let FirstMessage { identity, bytes } = first;
    let mut upstream = UpstreamSlot::vacant(Arc::clone(opener), identity);
    let (why, outcome) = match open_for(&mut stream, &mut upstream) {
        Ok(Some(peer)) => {
            let downstream = Box::new(StreamDownstream::new(one_server::config(args, &peer), stream, &bytes));
            return one_server::run(args, downstream, upstream, &peer, ClientCount::One, stop_signal, || {});
        }
        Ok(None) => {
            let why = "the client ended before the server was connected";
            notes::print_note(why);
            upstream.abandon();
            (why.to_owned(), Ok(()))
        }
        Err(failure) => {
            (format!("the server behind the bridge cannot be started: {}", failure.message()), Err(failure))
        }
    };
    // The client may be gone, or read what comes after the end of its own messages.
    let _ = refusal(&bytes, &why).map(|answer| stream.write(&answer));
    let _ = stream.flush(Limits::default().eof_grace_period);
    outcome
}

/// Connects to the server of a client. Returns `None` if the client is gone before: it reads nothing more, or has sent nothing more for
/// some time, as if a call ran.
///
/// # Errors
///
/// Fails if no connection is established.
fn open_for(stream: &mut dyn Duplex, upstream: &mut UpstreamSlot) -> Result<Option<Peer>, CommandFailure> {
    upstream.start()?;
    let mut ends_at = None;
    loop {
        if let Some(started) = upstream.poll_started() {
            return started.map(Some);
        }
        let hung_up = stream.hung_up().unwrap_or_default();
        if hung_up.read_closed {
            ends_at.get_or_insert_with(|| Instant::now() + Limits::default().eof_grace_period);
        }
        if hung_up.write_closed || ends_at.is_some_and(|at| at <= Instant::now()) {
            return Ok(None);
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

fn run_http(opener: &Arc<UpstreamOpener>, address: &str) -> Result<(), CommandFailure> {
    let args = &opener.args;
    let stop_signal = stop_signal()?;
    let bound = BoundHttp::new(&args.http, address)?;
    let identity = ClientIdentity { info: None, capabilities: all_capabilities() };
    let (upstream, peer) = UpstreamSlot::open(Arc::clone(opener), identity)?;
    let config = one_server::config(args, &peer);
    let downstream = bound.serve(args, config, http::config(&args.http))?;
    one_server::run(args, Box::new(downstream), upstream, &peer, ClientCount::Many, stop_signal, || {})
}
