//! The `bridge` command: connects clients and a server across transports and eras.

mod convert;
mod downstream;
mod first_message;
mod input;
mod logs;
mod relay;
mod relayed_call;
mod subscriptions;
#[cfg(test)]
mod tests;
mod upstream;

use alloc::sync::Arc;
use core::time::Duration;
use std::io;

use mcp_proto::server::Event;
use mcp_proto::{Diagnostic, Limits};
use mcp_std::io::{Duplex, Listener, Stdio};
use mcp_std::poll::WaitRequest;
use mcp_std::process::terminate_all;

use crate::args;
use crate::authorization::{self, Authorizer};
use crate::failure::CommandFailure;
use crate::paint::Paint;
use crate::serve::refusals::RefusalNotes;
use crate::serve::{http, streams};
use crate::server::Server;
use crate::session::{self, LimitedNotes, OmissionNotes};
use crate::stop::{self, StopSignal};
use crate::trace;
use downstream::{Downstream, HttpDownstream, StreamDownstream};
use first_message::{FirstMessage, all_capabilities};
use relay::{ClientCount, Engines, Relay, server_config, server_limits};
use upstream::Upstream;

/// Runs the bridge until the client or the server is gone.
///
/// # Errors
///
/// Fails if the command line is wrong, the server cannot be reached, or it is lost.
pub(crate) fn run(args: args::BridgeArgs) -> Result<(), CommandFailure> {
    if args.http.listen.is_some() {
        return run_socket(args);
    }
    let args = &args;
    let versions = args.client_era.version_set();
    // A wrong command line is reported before anything is awaited.
    let mut server = Server::from_args(&args.server)?;
    if args.http.address.is_none() {
        authorization::check_stdin(&args.authorization, "where the messages of the client come from")?;
    }
    let authorizer = authorization::for_command(&args.authorization, &args.revisions, &mut server)?;
    let stop_signal = StopSignal::new().map_err(|error| CommandFailure::failed(error.to_string()))?;
    if let Some(address) = &args.http.address {
        #[cfg(feature = "tls")]
        let tls = http::tls(&args.http)?;
        http::raise_descriptor_limit(&args.http);
        let listener =
            Listener::bind(&**address).map_err(|error| http::bind_failure(address, &error.into()))?;
        return run_http(
            args,
            &server,
            authorizer.as_ref(),
            listener,
            versions,
            stop_signal,
            #[cfg(feature = "tls")]
            tls,
        );
    }
    session::hint_at_terminal("bridge");
    let stream = Stdio::guarded().map_err(|error| broken("stdin and stdout cannot be used", &error))?;
    run_stream(args, &server, authorizer.as_ref(), stream, stop_signal)
}

/// Serves the clients that connect to a socket, each with a connection of its own to the server.
fn run_socket(args: args::BridgeArgs) -> Result<(), CommandFailure> {
    let mut server = Server::from_args(&args.server)?;
    let authorizer = authorization::for_command(&args.authorization, &args.revisions, &mut server)?;
    let args = Arc::new(args);
    let Some(address) = &args.http.listen else { return Ok(()) };
    let shared = Arc::clone(&args);
    let outcome = streams::run(&args.http, address, move |socket, connection| {
        let stop_signal = StopSignal::of_connection(connection);
        let stop_signal = stop_signal.map_err(|error| broken("the client cannot be served", &error))?;
        run_stream(&shared, &server, authorizer.as_ref(), socket, stop_signal)
    });
    // Of connections that did not end in time.
    terminate_all(stop::SERVER_END_TIMEOUT);
    outcome
}

/// Serves one client on a byte stream until it or the server is gone.
fn run_stream(
    args: &args::BridgeArgs,
    server: &Server,
    authorizer: Option<&Authorizer>,
    mut stream: impl Duplex + 'static,
    stop_signal: StopSignal,
) -> Result<(), CommandFailure> {
    let versions = args.client_era.version_set();
    // The client comes first, because the server may want to know its identity.
    let limits = Limits::default();
    let first_message = FirstMessage::read(&mut stream, limits.max_frame)
        .map_err(|error| broken("the client cannot be read from", &error))?;
    let Some(FirstMessage { info, capabilities, bytes }) = first_message else { return Ok(()) };
    let upstream = Upstream::open(args, server, authorizer, info.as_ref(), &capabilities)?;
    let config = server_config(&upstream.peer, versions, with_tap(server_limits(limits), args));
    let downstream = StreamDownstream::new(with_hidden_members(config, args), stream, &bytes);
    run_bridge(args, Box::new(downstream), upstream, ClientCount::One, stop_signal)
}

fn broken(what: &str, error: &io::Error) -> CommandFailure {
    CommandFailure::failed(format!("{what}: {error}"))
}

fn run_http(
    args: &args::BridgeArgs,
    server: &Server,
    authorizer: Option<&Authorizer>,
    listener: Listener,
    versions: mcp_proto::VersionSet,
    stop_signal: StopSignal,
    #[cfg(feature = "tls")] tls: Option<mcp_std::tls::ServerTls>,
) -> Result<(), CommandFailure> {
    let upstream = Upstream::open(args, server, authorizer, None, &all_capabilities())?;
    let config = server_config(&upstream.peer, versions, with_tap(server_limits(Limits::default()), args));
    let at = listener.address().map_err(|error| CommandFailure::failed(error.to_string()))?;
    let http_config = http::config(&args.http).max_sessions(MAX_SESSIONS, MAX_SESSIONS);
    #[allow(unused_mut, reason = "that TLS is spoken is said afterwards")]
    let mut downstream = HttpDownstream::new(with_hidden_members(config, args), http_config, listener)?;
    downstream.set_max_connections(args.http.max_connections);
    #[cfg(feature = "tls")]
    downstream.set_tls(tls);
    http::report_address(&args.http, Ok(at), None)?;
    run_bridge(args, Box::new(downstream), upstream, ClientCount::Many, stop_signal)
}

/// Runs the event loop until everything is finished.
fn run_bridge(
    args: &args::BridgeArgs,
    downstream: Box<dyn Downstream>,
    upstream: Upstream,
    clients: ClientCount,
    stop_signal: StopSignal,
) -> Result<(), CommandFailure> {
    let relay = Relay::new(clients, &upstream.peer);
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
    let Bridge { mut downstream, mut upstream, relay, stop_signal, .. } = bridge;
    stop_signal.set_looping(false);
    if stop_signal.is_requested() {
        // The sender of the signal does not wait for a slow server.
        terminate_all(stop::SERVER_END_TIMEOUT);
    }
    if let Some(fault) = relay.fault() {
        return Err(upstream.failure(fault));
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
    upstream: Upstream,
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
        for event in self.upstream.take_early_events() {
            self.with_relay(|relay, engines| relay.handle_client_event(engines, event));
        }
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
            self.upstream.poll_io();
            self.handle_timeouts();
            if self.process_pending() || self.downstream.is_finished() {
                continue;
            }
            let due = self.relay.poll_timeout();
            let due = due.map(|at| at.saturating_duration_since(self.downstream.now()));
            let reads = self.accepts_client_input();
            let wait_requests = [
                self.downstream.wait_request(reads),
                self.upstream.wire().wait_request(),
                self.stop_signal.wait_request(),
            ];
            if let Err(error) = WaitRequest::wait(&wait_requests, due) {
                return Err(CommandFailure::failed(format!("the bridge stopped: {error}")));
            }
        }
    }

    /// Returns whether clients are read from: not while the server is congested.
    fn accepts_client_input(&mut self) -> bool {
        !self.upstream.wire().engine().is_congested()
    }

    fn with_relay<R>(&mut self, act: impl FnOnce(&mut Relay, &mut Engines<'_>) -> R) -> R {
        let now = self.downstream.now();
        let up_now = self.upstream.wire().now();
        let mut engines = Engines {
            now,
            downstream: self.downstream.engine(),
            upstream_now: up_now,
            upstream: self.upstream.wire().engine(),
        };
        act(&mut self.relay, &mut engines)
    }

    fn handle_timeouts(&mut self) {
        let due = self.relay.poll_timeout();
        if due.is_some_and(|at| at <= self.downstream.now()) {
            self.with_relay(|relay, engines| relay.handle_timeout(engines));
        }
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
            if self.relay.fault().is_some() && !core::mem::replace(&mut self.is_shutting_down, true) {
                // All clients have been sent an error by then.
                self.downstream.shutdown(FINAL_WRITE_TIMEOUT);
                moved = true;
            }
            self.show_tap();
            moved |= self.downstream.write();
            moved |= self.upstream.wire().write();
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
        self.upstream.show_tap();
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

/// Maximum number of HTTP sessions. All share one connection to the server, which a legacy request may fan out to.
const MAX_SESSIONS: usize = 1_024;
/// Time that clients have to read the final messages.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(2);
