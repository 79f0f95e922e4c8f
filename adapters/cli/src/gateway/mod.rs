//! The `gateway` command: shows several servers as one.

mod args;
mod event_loop;
mod health;
mod rules;
mod server_file;
mod uri_forms;

use alloc::sync::Arc;

use mcp_proto_proxy::{ClientCount, Gateway, gateway_config, search_gateway_config};
use mcp_std::io::StreamAddress;
#[cfg(unix)]
use mcp_std::io::StreamListener;
use mcp_std::process::terminate_all;

use crate::args::{ProtectionArgs, ProxyArgs};
#[cfg(unix)]
use crate::endpoint::streams;
use crate::endpoint::{http, protection};
use crate::failure::CommandFailure;
#[cfg(unix)]
use crate::failure::Exit;
use crate::proxy::downstream::{Downstream, StreamDownstream};
use crate::proxy::first_message::{FirstMessage, shared_identity, stdio};
use crate::proxy::front::{Front, front_limits, with_hidden_members};
use crate::proxy::http_downstream::BoundHttp;
#[cfg(unix)]
use crate::proxy::shared::SharedDownstream;
use crate::proxy::upstream::ClientIdentity;
use crate::stop::{self, StopSignal};
pub(crate) use args::GatewayArgs;
use event_loop::GatewayLoop;
use health::Health;
use rules::SharedRules;
use server_file::ServerFile;

/// Runs the gateway until the client is gone, or a signal ends it.
///
/// # Errors
///
/// Fails if the command line or the file is wrong.
pub(crate) fn run(args: GatewayArgs) -> Result<(), CommandFailure> {
    let GatewayArgs { config, proxy, protection, store, allow_http } = args;
    let (proxy, rules) = (Arc::new(proxy), SharedRules::default());
    let health = Health::new(rules.clone());
    // A wrong file is reported before anything is awaited.
    let mut file = ServerFile::new(config, Arc::clone(&proxy), store, allow_http);
    let servers = file.read()?;
    let stop_signal = StopSignal::new().map_err(|error| CommandFailure::failed(error.to_string()))?;
    let front = match (&proxy.http.address, &proxy.http.listen) {
        (Some(address), _) => Some(http_front(&proxy, &protection, address, (&rules, &health))?),
        (None, Some(address)) => Some(socket_front(&proxy, address, &rules)?),
        (None, None) => stream_front(&proxy, &rules)?,
    };
    // Without input there is no client, and nothing to do.
    let Some((downstream, clients, identity)) = front else { return Ok(()) };
    let front = Front::new("gateway", downstream, stop_signal);
    let idle_timeout = proxy.server_idle_timeout();
    let gateway = Gateway::new(clients);
    let gateway = if proxy.search { gateway.with_search() } else { gateway };
    let mut gateway = GatewayLoop::new(front, gateway, idle_timeout, identity, file, (rules, health));
    gateway.apply(servers);
    if clients == ClientCount::One {
        gateway.hold_client();
    }
    gateway.run()?;
    let outcome = gateway.finish();
    // Of servers that did not end in time, or were about to begin.
    terminate_all(stop::SERVER_END_TIMEOUT);
    outcome
}

/// The side that faces the clients, and the client that the servers see.
type GatewayFront = (Box<dyn Downstream>, ClientCount, ClientIdentity);

/// Returns the configuration of the server that clients see.
fn config(args: &ProxyArgs, rules: &SharedRules) -> mcp_proto::server::Config {
    let (versions, limits) = (args.client_era.version_set(), front_limits(args));
    let config = if args.search { search_gateway_config } else { gateway_config };
    let config = config(SERVER_NAME, env!("CARGO_PKG_VERSION"), versions, limits);
    let rules = rules.clone();
    with_hidden_members(config, args).tool_audience(move |name| rules.audience_of_tool(name))
}

/// Serves the client on stdin and stdout. Returns `None` if there is none.
fn stream_front(args: &ProxyArgs, rules: &SharedRules) -> Result<Option<GatewayFront>, CommandFailure> {
    let mut stream = stdio("gateway")?;
    // The client comes first, because servers may want to know its identity.
    let Some(first) = FirstMessage::read(&mut stream)? else { return Ok(None) };
    let FirstMessage { identity, bytes } = first;
    let downstream = Box::new(StreamDownstream::new(config(args, rules), stream, &bytes));
    Ok(Some((downstream, ClientCount::One, identity)))
}

/// Serves clients over HTTP.
fn http_front(
    args: &ProxyArgs,
    protection: &ProtectionArgs,
    address: &str,
    (rules, health): (&SharedRules, &Health),
) -> Result<GatewayFront, CommandFailure> {
    let http = http::config(&args.http);
    let (http, address) = protection::apply(protection, &args.http, http, address, SERVER_NAME)?;
    let is_open = http.protected_resource().is_none();
    // A document would hide an endpoint at its path.
    let http = if args.http.path == health::PATH { http } else { http.document(health.document(is_open)) };
    let bound = BoundHttp::new(&args.http, &address)?;
    #[cfg(feature = "auth")]
    let protected = http.protected_resource().cloned();
    #[allow(unused_mut, reason = "tokens are validated by a feature")]
    let mut downstream = bound.serve(args, config(args, rules), http)?;
    #[cfg(feature = "auth")]
    if let Some(protected) = protected {
        downstream.validate_tokens(protection::validator(&protected))?;
    }
    Ok((Box::new(downstream), ClientCount::Many, shared_identity()))
}

/// Serves the clients of a socket.
#[cfg(unix)]
fn socket_front(
    args: &ProxyArgs,
    address: &StreamAddress,
    rules: &SharedRules,
) -> Result<GatewayFront, CommandFailure> {
    let listener = StreamListener::bind(address)
        .map_err(|error| CommandFailure::new(Exit::Connection, error.to_string()))?;
    streams::report_address(listener.address(), listener.is_reachable_from_outside(), address)?;
    let downstream = SharedDownstream::new(config(args, rules), listener, &args.http);
    Ok((Box::new(downstream), ClientCount::Streams, shared_identity()))
}

#[cfg(not(unix))]
fn socket_front(
    _: &ProxyArgs,
    address: &StreamAddress,
    _: &SharedRules,
) -> Result<GatewayFront, CommandFailure> {
    Err(CommandFailure::failed(format!("cannot listen at {address}: --listen needs a Unix system")))
}

/// Name of the server that clients see.
const SERVER_NAME: &str = "mcp-probe-gateway";
