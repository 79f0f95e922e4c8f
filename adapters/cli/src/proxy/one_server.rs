//! The loop of a proxy with one server behind: a relay between its clients and it.

#[cfg(unix)]
use alloc::sync::Arc;
#[cfg(unix)]
use core::time::Duration;

#[cfg(unix)]
use mcp_proto::VersionSet;
use mcp_proto::client::Peer;
use mcp_proto_proxy::{ClientCount, Engines, Relay, search_server_config, server_config};
#[cfg(unix)]
use mcp_std::io::StreamListener;

use super::downstream::Downstream;
use super::front::{Front, front_limits, with_hidden_members};
#[cfg(unix)]
use super::shared::SharedDownstream;
#[cfg(unix)]
use super::upstream::UpstreamOpener;
use super::upstream_slot::UpstreamSlot;
use crate::args::ProxyArgs;
use crate::failure::CommandFailure;
#[cfg(unix)]
use crate::proxy::first_message::shared_identity;
use crate::stop::StopSignal;

/// Serves the clients that connect to a socket with one server. It is connected to first, and `ready` hears of it.
///
/// With `is_as_server` clients may speak the revision of the server alone, so that it is what they see. With `idle_end` the loop ends
/// when there was no client for this time. `ending` hears that no client is served any more, before the
/// server is ended.
///
/// # Errors
///
/// Fails if the server cannot be reached, if `ready` does, or if the loop breaks.
#[cfg(unix)]
pub(crate) fn serve_shared(
    opener: &Arc<UpstreamOpener>,
    listener: StreamListener,
    is_as_server: bool,
    idle_end: Option<Duration>,
    stop_signal: StopSignal,
    ready: impl FnOnce(&Peer) -> Result<(), CommandFailure>,
    ending: impl FnOnce(),
) -> Result<(), CommandFailure> {
    let args = &opener.args;
    // What all clients have is not known before the last one has come, and the server is told once.
    let (upstream, peer) = UpstreamSlot::open(Arc::clone(opener), shared_identity())?;
    let mut config = config(args, &peer);
    if is_as_server {
        config = config.versions(VersionSet::only(peer.version));
    }
    ready(&peer)?;
    let downstream = SharedDownstream::new(config, listener, &args.http).end_after(idle_end);
    run(args, Box::new(downstream), upstream, &peer, ClientCount::Streams, stop_signal, ending)
}

/// Returns the configuration of the server that clients see.
pub(crate) fn config(args: &ProxyArgs, peer: &Peer) -> mcp_proto::server::Config {
    let config = if args.search { search_server_config } else { server_config };
    with_hidden_members(config(peer, args.client_era.version_set(), front_limits(args)), args)
}

/// Runs the event loop until everything is finished. `ending` is called before the server is ended.
pub(crate) fn run(
    args: &ProxyArgs,
    downstream: Box<dyn Downstream>,
    upstream: UpstreamSlot,
    peer: &Peer,
    clients: ClientCount,
    stop_signal: StopSignal,
    ending: impl FnOnce(),
) -> Result<(), CommandFailure> {
    let relay = Relay::new(clients, peer, downstream.now(), args.server_idle_timeout());
    let mut relay = if args.search { relay.with_search() } else { relay };
    if let Some([client, own]) = upstream.opener().access_help() {
        relay.set_access_help(&client, &own);
    }
    let front = Front::new("bridge", downstream, stop_signal);
    let mut bridge = Bridge { front, upstream, relay };
    let outcome = bridge.run();
    ending();
    outcome?;
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
        self.with_relay(|relay, engines| relay.handle_start_failure(engines, &failure.message()));
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
                moved = true;
                let Some(event) = self.front.part_progress(0, event) else { continue };
                self.with_relay(|relay, engines| relay.handle_client_event(engines, event));
            }
            while let Some((_, event)) = self.front.take_result() {
                self.with_relay(|relay, engines| relay.handle_client_event(engines, event));
                moved = true;
            }
            self.with_relay(Relay::process_pending);
            while let Some((tool, schema)) = self.relay.poll_header_tool() {
                self.front.downstream.set_tool_schema(&tool, &schema);
            }
            self.front.note_search(self.relay.search_size());
            self.front.note_omissions(&self.relay.take_diagnostics(), &self.relay.take_notes());
            moved |= self.front.write(self.upstream.upstream().into_iter());
            any |= moved;
            if !moved {
                return any;
            }
        }
    }
}
