//! The `bridge` command: connects clients and a server across transports and eras.

mod downstream;
mod first_message;
#[cfg(unix)]
mod shared;
mod upstream;
mod upstream_slot;

use alloc::sync::Arc;
use std::io;

use mcp_proto::client::Peer;
use mcp_proto::server::Event;
use mcp_proto::{Diagnostic, Limits};
use mcp_proto_proxy::{ClientCount, Engines, Relay, server_config, server_limits};
#[cfg(unix)]
use mcp_std::io::StreamListener;
use mcp_std::io::{Duplex, Listener, Stdio, StreamAddress};
use mcp_std::poll::WaitRequest;
use mcp_std::process::terminate_all;

use crate::args;
use crate::authorization;
use crate::failure::CommandFailure;
#[cfg(unix)]
use crate::failure::Exit;
use crate::paint::Paint;
use crate::serve::refusals::RefusalNotes;
use crate::serve::{http, streams};
use crate::server::Server;
use crate::session::{self, LimitedNotes, OmissionNotes};
use crate::stop::{self, StopSignal};
use crate::trace;
use downstream::{Downstream, HttpDownstream, StreamDownstream};
#[cfg(unix)]
use first_message::shared_capabilities;
use first_message::{FirstMessage, all_capabilities};
#[cfg(unix)]
use shared::SharedDownstream;
use upstream::{ClientIdentity, UpstreamOpener};
use upstream_slot::UpstreamSlot;

/// Runs the bridge until the client is gone, or a signal ends it.
///
/// # Errors
///
/// Fails if the command line is wrong, or if the server cannot be reached at first.
pub(crate) fn run(args: args::BridgeArgs) -> Result<(), CommandFailure> {
    // A wrong command line is reported before anything is awaited.
    let mut server = Server::from_args(&args.server)?;
    if args.http.address.is_none() && args.http.listen.is_none() {
        authorization::check_stdin(&args.authorization, "where the messages of the client come from")?;
    }
    let authorizer = authorization::for_command(&args.authorization, &args.revisions, &mut server)?;
    let opener = Arc::new(UpstreamOpener { args, server, authorizer });
    let outcome = match (&opener.args.http.address, &opener.args.http.listen) {
        (Some(address), _) => run_http(&opener, address),
        #[cfg(unix)]
        (None, Some(address)) if opener.args.share => run_shared(&opener, address),
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
    let limits = with_tap(server_limits(Limits::default()), args);
    let config = server_config(&peer, args.client_era.version_set(), limits);
    streams::report_address(listener.address(), listener.is_reachable_from_outside(), address)?;
    let downstream = SharedDownstream::new(with_hidden_members(config, args), listener, clients);
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
    let limits = Limits::default();
    let first_message = FirstMessage::read(&mut stream, limits.max_frame)
        .map_err(|error| broken("the client cannot be read from", &error))?;
    let Some(FirstMessage { info, capabilities, bytes }) = first_message else { return Ok(()) };
    let (upstream, peer) = UpstreamSlot::open(Arc::clone(opener), ClientIdentity { info, capabilities })?;
    let config = server_config(&peer, args.client_era.version_set(), with_tap(server_limits(limits), args));
    let downstream = StreamDownstream::new(with_hidden_members(config, args), stream, &bytes);
    run_bridge(args, Box::new(downstream), upstream, &peer, ClientCount::One, stop_signal)
}

fn broken(what: &str, error: &io::Error) -> CommandFailure {
    CommandFailure::failed(format!("{what}: {error}"))
}

fn run_http(opener: &Arc<UpstreamOpener>, address: &str) -> Result<(), CommandFailure> {
    let args = &opener.args;
    let stop_signal = stop_signal()?;
    #[cfg(feature = "tls")]
    let tls = http::tls(&args.http)?;
    http::raise_descriptor_limit(&args.http);
    let listener = Listener::bind(address).map_err(|error| http::bind_failure(address, &error.into()))?;
    let identity = ClientIdentity { info: None, capabilities: all_capabilities() };
    let (upstream, peer) = UpstreamSlot::open(Arc::clone(opener), identity)?;
    let limits = with_tap(server_limits(Limits::default()), args);
    let config = server_config(&peer, args.client_era.version_set(), limits);
    let at = listener.address().map_err(|error| CommandFailure::failed(error.to_string()))?;
    let mut http_config = http::config(&args.http).max_sessions(MAX_SESSIONS, MAX_SESSIONS);
    if !args.idle_timeout.is_zero() {
        // Those of clients that vanished would take the places of others.
        http_config = http_config.session_idle_timeout(args.idle_timeout);
    }
    #[allow(unused_mut, reason = "that TLS is spoken is said afterwards")]
    let mut downstream = HttpDownstream::new(with_hidden_members(config, args), http_config, listener)?;
    downstream.set_max_connections(args.http.max_connections);
    #[cfg(feature = "tls")]
    downstream.set_tls(tls);
    http::report_address(&args.http, Ok(at), None)?;
    run_bridge(args, Box::new(downstream), upstream, &peer, ClientCount::Many, stop_signal)
}

/// Runs the event loop until everything is finished.
fn run_bridge(
    args: &args::BridgeArgs,
    downstream: Box<dyn Downstream>,
    upstream: UpstreamSlot,
    peer: &Peer,
    clients: ClientCount,
    stop_signal: StopSignal,
) -> Result<(), CommandFailure> {
    let idle_timeout = Some(args.idle_timeout).filter(|timeout| !timeout.is_zero());
    let relay = Relay::new(clients, peer, downstream.now(), idle_timeout);
    let mut bridge = Bridge {
        downstream,
        upstream,
        relay,
        client_notes: LimitedNotes(20),
        refusal_notes: RefusalNotes::default(),
        omission_notes: OmissionNotes::default(),
        trace: args.trace,
        paint: Paint::for_stderr(),
        stop_signal,
        is_shutting_down: false,
    };
    bridge.run()?;
    let Bridge { mut downstream, upstream, stop_signal, .. } = bridge;
    stop_signal.set_looping(false);
    if stop_signal.is_requested() {
        // The sender of the signal does not wait for a slow server.
        terminate_all(stop::SERVER_END_TIMEOUT);
    }
    let flushed = downstream.flush();
    upstream.close();
    match (downstream.take_error(), flushed) {
        (Some(error), _) => Err(CommandFailure::failed(format!("the bridge stopped: {error}"))),
        (None, Err(error)) if !mcp_std::io::is_peer_gone(&error) => {
            Err(CommandFailure::failed(format!("the bridge stopped: {error}")))
        }
        _ => Ok(()),
    }
}

struct Bridge {
    downstream: Box<dyn Downstream>,
    upstream: UpstreamSlot,
    relay: Relay,
    /// Notes about deviations of clients from the protocol.
    client_notes: LimitedNotes,
    refusal_notes: RefusalNotes,
    /// Notes about entries of the server's lists that have no form for the client.
    omission_notes: OmissionNotes,
    trace: bool,
    paint: Paint,
    /// Reports that the process should end.
    stop_signal: StopSignal,
    /// Whether the downstream side has been shut down.
    is_shutting_down: bool,
}

impl Bridge {
    fn run(&mut self) -> Result<(), CommandFailure> {
        self.stop_signal.set_looping(true);
        self.relay_early_events();
        loop {
            if self.stop_signal.is_requested() && !core::mem::replace(&mut self.is_shutting_down, true) {
                self.downstream.shutdown(stop::GRACE_PERIOD);
            }
            self.process_pending();
            if self.downstream.is_finished() {
                return Ok(());
            }
            // Both sides are polled before waiting too, because an answer may already be there.
            let reads = self.accepts_client_input();
            self.downstream.poll_io(reads);
            if let Some(upstream) = self.upstream.upstream() {
                upstream.poll_io();
            }
            self.handle_timeouts();
            self.change_servers();
            if self.process_pending() || self.downstream.is_finished() {
                continue;
            }
            let due = self.relay.poll_timeout();
            let due = due.map(|at| at.saturating_duration_since(self.downstream.now()));
            let reads = self.accepts_client_input();
            let mut wait_requests = self.downstream.wait_requests(reads);
            wait_requests.push(self.stop_signal.wait_request());
            wait_requests.extend(self.upstream.wait_request());
            if let Err(error) = WaitRequest::wait(&wait_requests, due) {
                return Err(CommandFailure::failed(format!("the bridge stopped: {error}")));
            }
        }
    }

    /// Returns whether clients are read from: not while the server is congested.
    fn accepts_client_input(&mut self) -> bool {
        !self.upstream.engine().1.is_congested()
    }

    fn with_relay<R>(&mut self, act: impl FnOnce(&mut Relay, &mut Engines<'_>) -> R) -> R {
        let now = self.downstream.now();
        let (upstream_now, upstream) = self.upstream.engine();
        let mut engines = Engines { now, downstream: self.downstream.engine(), upstream_now, upstream };
        act(&mut self.relay, &mut engines)
    }

    fn handle_timeouts(&mut self) {
        let due = self.relay.poll_timeout();
        if due.is_some_and(|at| at <= self.downstream.now()) {
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
        if !self.relay.is_server_running() && !self.downstream.is_congested() {
            self.upstream.end(self.relay.take_fault());
        }
        if self.relay.poll_start(self.downstream.now()) {
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
                let Some(event) = self.downstream.poll_event() else { break };
                self.note_event(&event);
                self.with_relay(|relay, engines| relay.handle_server_event(engines, event));
                moved = true;
            }
            while !self.downstream.is_congested() {
                let Some(event) = self.upstream.poll_event() else { break };
                self.with_relay(|relay, engines| relay.handle_client_event(engines, event));
                moved = true;
            }
            self.with_relay(Relay::process_pending);
            while let Some((tool, schema)) = self.relay.poll_header_tool() {
                self.downstream.set_tool_schema(&tool, &schema);
            }
            for diagnostic in self.relay.take_diagnostics() {
                self.omission_notes.note(&diagnostic);
            }
            self.show_tap();
            moved |= self.downstream.write();
            moved |= self.upstream.upstream().is_some_and(|upstream| upstream.wire().write());
            any |= moved;
            if !moved {
                return any;
            }
        }
    }

    fn note_event(&mut self, event: &Event) {
        if let Event::Diagnostic { diagnostic, .. } = event {
            // Neither side is at fault: a cancellation crossed the response, or overtook its request. A deprecated
            // feature is a matter between the client and its server.
            let usual = matches!(
                diagnostic,
                Diagnostic::UnknownCancellation(_)
                    | Diagnostic::EarlyCancellation(_)
                    | Diagnostic::LateResponse(_)
                    | Diagnostic::DeprecatedFeature { .. }
            );
            if !usual && !self.refusal_notes.note(diagnostic) {
                self.client_notes.note(&format!("the client deviated from the protocol: {diagnostic}"));
            }
        }
    }

    fn show_tap(&mut self) {
        if !self.trace {
            return;
        }
        while let Some(record) = self.downstream.engine().poll_tap() {
            session::print_stderr(&format!(
                "{} {}",
                self.paint.dim("client"),
                trace::format_record(&record, self.paint)
            ));
        }
        if let Some(upstream) = self.upstream.upstream() {
            upstream.show_tap();
        }
    }
}

fn with_tap(mut limits: Limits, args: &args::BridgeArgs) -> Limits {
    if args.trace {
        (limits.tap_records, limits.tap_bytes) = (100_000, 64 << 20);
    }
    limits
}

fn with_hidden_members(
    mut config: mcp_proto::server::Config,
    args: &args::BridgeArgs,
) -> mcp_proto::server::Config {
    for member in &args.hide {
        config = config.redact_in_tap(member);
    }
    config
}

/// Maximum number of clients that share a server on a socket, unless `--max-connections` sets it.
#[cfg(unix)]
const MAX_SHARED_CLIENTS: usize = 64;
/// Maximum number of HTTP sessions. All share one connection to the server, which a legacy request may fan out to.
const MAX_SESSIONS: usize = 10_000;
