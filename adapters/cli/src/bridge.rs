//! The `bridge` command: connects clients and a server across transports and eras.

mod args;

use alloc::sync::Arc;
use std::io;

use mcp_proto::Limits;
use mcp_proto::client::Peer;
use mcp_proto_proxy::{ClientCount, Engines, Relay, search_server_config, server_config};
#[cfg(unix)]
use mcp_std::io::StreamListener;
use mcp_std::io::{Duplex, Stdio, StreamAddress};
use mcp_std::process::terminate_all;

use crate::args::ProxyArgs;
use crate::authorization;
use crate::endpoint::{http, streams};
use crate::failure::CommandFailure;
#[cfg(unix)]
use crate::failure::Exit;
use crate::proxy::downstream::{Downstream, StreamDownstream};
#[cfg(unix)]
use crate::proxy::first_message::shared_capabilities;
use crate::proxy::first_message::{FirstMessage, all_capabilities};
use crate::proxy::front::{Front, front_limits, with_hidden_members};
use crate::proxy::http_downstream::BoundHttp;
#[cfg(unix)]
use crate::proxy::shared::{MAX_SHARED_CLIENTS, SharedDownstream};
use crate::proxy::upstream::{ClientIdentity, UpstreamOpener};
use crate::proxy::upstream_slot::UpstreamSlot;
use crate::server::Server;
use crate::session;
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
            session::hint_at_terminal("bridge");
            let stream =
                Stdio::guarded().map_err(|error| broken("stdin and stdout cannot be used", &error))?;
            run_stream(&opener, stream, stop_signal)
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
    let args = &opener.args;
    let stop_signal = stop_signal()?;
    let clients = args.http.max_connections.unwrap_or(MAX_SHARED_CLIENTS);
    if clients > MAX_SHARED_CLIENTS {
        // Without it there are fewer clients.
        let _ = mcp_std::io::raise_descriptor_limit();
    }
    let listener = StreamListener::bind(address)
        .map_err(|error| CommandFailure::new(Exit::Connection, error.to_string()))?;
    // What all clients have is not known before the last one has come, and the server is told once.
    let identity = ClientIdentity { info: None, capabilities: shared_capabilities() };
    let (upstream, peer) = UpstreamSlot::open(Arc::clone(opener), identity)?;
    let config = config(args, &peer);
    streams::report_address(listener.address(), listener.is_reachable_from_outside(), address)?;
    let downstream = SharedDownstream::new(config, listener, clients);
    run_bridge(args, Box::new(downstream), upstream, &peer, ClientCount::Streams, stop_signal)
}

/// Serves one client on a byte stream until it is gone.
fn run_stream(
    opener: &Arc<UpstreamOpener>,
    mut stream: impl Duplex + 'static,
    stop_signal: StopSignal,
) -> Result<(), CommandFailure> {
    let args = &opener.args;
    // The client comes first, because the server may want to know its identity.
    let first_message = FirstMessage::read(&mut stream, Limits::default().max_frame)
        .map_err(|error| broken("the client cannot be read from", &error))?;
    let Some(FirstMessage { info, capabilities, bytes }) = first_message else { return Ok(()) };
    let (upstream, peer) = UpstreamSlot::open(Arc::clone(opener), ClientIdentity { info, capabilities })?;
    let config = config(args, &peer);
    let downstream = StreamDownstream::new(config, stream, &bytes);
    run_bridge(args, Box::new(downstream), upstream, &peer, ClientCount::One, stop_signal)
}

/// Returns the configuration of the server that clients see.
fn config(args: &ProxyArgs, peer: &Peer) -> mcp_proto::server::Config {
    let config = if args.search { search_server_config } else { server_config };
    with_hidden_members(config(peer, args.client_era.version_set(), front_limits(args)), args)
}

fn broken(what: &str, error: &io::Error) -> CommandFailure {
    CommandFailure::failed(format!("{what}: {error}"))
}

fn run_http(opener: &Arc<UpstreamOpener>, address: &str) -> Result<(), CommandFailure> {
    let args = &opener.args;
    let stop_signal = stop_signal()?;
    let bound = BoundHttp::new(&args.http, address)?;
    let identity = ClientIdentity { info: None, capabilities: all_capabilities() };
    let (upstream, peer) = UpstreamSlot::open(Arc::clone(opener), identity)?;
    let config = config(args, &peer);
    let downstream = bound.serve(args, config, http::config(&args.http))?;
    run_bridge(args, Box::new(downstream), upstream, &peer, ClientCount::Many, stop_signal)
}

/// Runs the event loop until everything is finished.
fn run_bridge(
    args: &ProxyArgs,
    downstream: Box<dyn Downstream>,
    upstream: UpstreamSlot,
    peer: &Peer,
    clients: ClientCount,
    stop_signal: StopSignal,
) -> Result<(), CommandFailure> {
    let relay = Relay::new(clients, peer, downstream.now(), args.server_idle_timeout());
    let relay = if args.search { relay.with_search() } else { relay };
    let front = Front::new("bridge", downstream, args, stop_signal);
    let mut bridge = Bridge { front, upstream, relay };
    bridge.run()?;
    let Bridge { front, upstream, .. } = bridge;
    front.finish(|| upstream.close())
}

struct Bridge {
    front: Front,
    upstream: UpstreamSlot,
    relay: Relay,
}

impl Bridge {
    fn run(&mut self) -> Result<(), CommandFailure> {
        self.front.begin_loop();
        self.relay_early_events();
        loop {
            self.front.heed_signal();
            self.process_pending();
            if self.front.downstream.is_finished() {
                return Ok(());
            }
            // Both sides are polled before waiting too, because an answer may already be there.
            let reads = self.accepts_client_input();
            self.front.downstream.poll_io(reads);
            if let Some(upstream) = self.upstream.upstream() {
                upstream.poll_io();
            }
            self.handle_timeouts();
            self.change_servers();
            if self.process_pending() || self.front.downstream.is_finished() {
                continue;
            }
            let due = self.relay.poll_timeout();
            let due = due.map(|at| at.saturating_duration_since(self.front.downstream.now()));
            let reads = self.accepts_client_input();
            self.front.wait(reads, self.upstream.wait_request().into_iter(), due)?;
        }
    }

    /// Returns whether clients are read from: not while the server is congested.
    fn accepts_client_input(&mut self) -> bool {
        !self.upstream.engine().1.is_congested()
    }

    fn with_relay<R>(&mut self, act: impl FnOnce(&mut Relay, &mut Engines<'_>) -> R) -> R {
        let now = self.front.downstream.now();
        let (upstream_now, upstream) = self.upstream.engine();
        let downstream = self.front.downstream.engine();
        act(&mut self.relay, &mut Engines { now, downstream, upstream_now, upstream })
    }

    fn handle_timeouts(&mut self) {
        let due = self.relay.poll_timeout();
        if due.is_some_and(|at| at <= self.front.downstream.now()) {
            self.with_relay(|relay, engines| relay.handle_timeout(engines));
        }
    }

    /// Relays what the server sent before it had a relay.
    fn relay_early_events(&mut self) {
        let events = self.upstream.upstream().map(|upstream| upstream.take_early_events());
        for event in events.unwrap_or_default() {
            self.with_relay(|relay, engines| relay.handle_client_event(engines, event));
        }
    }

    /// Lets go of a server that has ended, and starts the next one when it is due.
    fn change_servers(&mut self) {
        // What the last one sent is relayed first.
        if !self.relay.is_server_running() && !self.front.downstream.is_congested() {
            self.upstream.end(self.relay.take_fault());
        }
        if self.relay.poll_start(self.front.downstream.now()) {
            if let Err(failure) = self.upstream.start() {
                self.handle_start_failure(&failure);
            }
        }
        match self.upstream.poll_started() {
            None => {}
            Some(Ok(peer)) => {
                self.with_relay(|relay, engines| relay.handle_started(engines, &peer));
                self.relay_early_events();
            }
            Some(Err(failure)) => self.handle_start_failure(&failure),
        }
    }

    fn handle_start_failure(&mut self, failure: &CommandFailure) {
        failure.print_note("the server cannot be started again");
        self.with_relay(|relay, engines| relay.handle_start_failure(engines, failure.message()));
    }

    /// Relays all input and writes the results until nothing is left but to wait. Returns whether there was any work.
    fn process_pending(&mut self) -> bool {
        let mut any = false;
        loop {
            let mut moved = false;
            // Each side is read only while the other one accepts output.
            while self.accepts_client_input() {
                let Some(event) = self.front.downstream.poll_event() else { break };
                self.front.note_event(&event);
                self.with_relay(|relay, engines| relay.handle_server_event(engines, event));
                moved = true;
            }
            while !self.front.downstream.is_congested() {
                let Some(event) = self.upstream.poll_event() else { break };
                self.with_relay(|relay, engines| relay.handle_client_event(engines, event));
                moved = true;
            }
            self.with_relay(Relay::process_pending);
            while let Some((tool, schema)) = self.relay.poll_header_tool() {
                self.front.downstream.set_tool_schema(&tool, &schema);
            }
            self.front.note_search(self.relay.search_size());
            self.front.note_omissions(&self.relay.take_diagnostics());
            if self.front.is_traced() {
                self.front.show_tap();
                if let Some(upstream) = self.upstream.upstream() {
                    upstream.show_tap();
                }
            }
            moved |= self.front.downstream.write();
            // An event that waits for a client which reads nothing would wake the loop at once.
            let is_congested = self.front.downstream.is_congested();
            if let Some(upstream) = self.upstream.upstream() {
                upstream.wire().set_events_paused(is_congested);
                moved |= upstream.wire().write();
            }
            any |= moved;
            if !moved {
                return any;
            }
        }
    }
}
