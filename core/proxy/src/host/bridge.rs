//! A bridge: the loop of a proxy with one server behind, a relay between its clients and it.

use alloc::sync::Arc;
use core::fmt;
use std::thread;
use std::time::Instant;

use mcp_proto::client::Peer;
use mcp_proto::server::Config;
use mcp_proto::{Limits, VersionSet};
use mcp_std::io::{Duplex, Stdio};

use super::client::{ClientIdentity, FirstMessage, refusal};
use super::downstream::{Downstream, StreamDownstream};
use super::front::Front;
use super::http::{Http, HttpDownstream};
use super::notice::Notice;
use super::slot::{LOOK_INTERVAL, UpstreamSlot};
#[cfg(unix)]
use super::socket::{Socket, SocketDownstream};
use super::stop::Stop;
use super::upstream::{Connect, ConnectError};
use super::{Error, Options};
use crate::{ClientCount, Engines, Relay, search_server_config, server_config};

/// A proxy with one server behind, which it stands in for: of another transport, or of another era.
#[derive(Clone, Debug)]
pub struct Bridge {
    options: Options,
    connector: Arc<dyn Connect>,
}

impl Bridge {
    /// Creates a bridge to a server, which is not connected to yet.
    #[must_use]
    pub fn new(connector: Arc<dyn Connect>, options: Options) -> Self {
        Self { options, connector }
    }

    /// Serves the client on stdin and stdout, as [`serve_stream`](Self::serve_stream) does.
    ///
    /// # Errors
    ///
    /// [`Error::Stdio`] if they cannot be used; and those of [`serve_stream`](Self::serve_stream).
    pub fn serve_stdio(&self, stop: &Stop) -> Result<(), Error> {
        self.serve_stream(Stdio::guarded().map_err(Error::Stdio)?, stop)
    }

    /// Serves one client on a byte stream until it is gone. It has a server of its own, which sees the identity and the capabilities that
    /// its first message declares.
    ///
    /// # Errors
    ///
    /// [`Error::Client`] if no message can be read; [`Error::Connect`] if the server cannot be connected to at first, which is also the
    /// answer to the first message; [`Error::Stopped`].
    pub fn serve_stream(&self, mut stream: impl Duplex + 'static, stop: &Stop) -> Result<(), Error> {
        // The client comes first, because the server may want to know its identity.
        let Some(first) = FirstMessage::read(&mut stream).map_err(Error::Client)? else { return Ok(()) };
        let FirstMessage { identity, bytes } = first;
        let operator = Arc::clone(&self.options.operator);
        let mut upstream = UpstreamSlot::vacant(None, Arc::clone(&self.connector), operator, identity);
        let (why, outcome) = match open_for(&mut stream, &mut upstream) {
            Ok(Some(peer)) => {
                let connected = ConnectedBridge { options: self.options.clone(), upstream, peer };
                let downstream = Box::new(StreamDownstream::new(connected.config(), stream, &bytes));
                return connected.serve(downstream, ClientCount::One, stop);
            }
            Ok(None) => {
                self.options.operator.notice(&Notice::ClientLeft);
                upstream.leave();
                (Notice::ClientLeft.to_string(), Ok(()))
            }
            Err(error) => {
                let why = format!("the server behind the bridge cannot be started: {}", error.reason());
                (why, Err(error.into()))
            }
        };
        // The client may be gone, or read what comes after the end of its own messages.
        let _ = refusal(&bytes, &why).map(|answer| stream.write(&answer));
        let _ = stream.flush(Limits::default().eof_grace_period);
        outcome
    }

    /// Connects to the server, for any number of clients: [`ClientIdentity::any`] over HTTP, and [`ClientIdentity::shared`] on a socket.
    ///
    /// # Errors
    ///
    /// Fails if no connection is established.
    pub fn connect(&self, identity: ClientIdentity) -> Result<ConnectedBridge, ConnectError> {
        let operator = Arc::clone(&self.options.operator);
        let (upstream, peer) = UpstreamSlot::open(Arc::clone(&self.connector), operator, identity)?;
        Ok(ConnectedBridge { options: self.options.clone(), upstream, peer })
    }
}

/// Connects to the server of a client. Returns `None` if the client is gone before: it reads nothing more, or has sent nothing more for
/// some time, as if a call ran.
fn open_for(stream: &mut dyn Duplex, upstream: &mut UpstreamSlot) -> Result<Option<Peer>, ConnectError> {
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

/// A bridge whose server is connected, for clients that share it.
pub struct ConnectedBridge {
    options: Options,
    upstream: UpstreamSlot,
    peer: Peer,
}

impl ConnectedBridge {
    /// Returns the server.
    #[must_use]
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Sets the revisions that clients may speak, for example that of the server alone.
    #[must_use]
    pub const fn versions(mut self, versions: VersionSet) -> Self {
        self.options.versions = versions;
        self
    }

    /// Serves clients over HTTP until `stop` ends it.
    ///
    /// # Errors
    ///
    /// [`Error::Http`], [`Error::Stopped`].
    pub fn serve_http(self, http: Http, stop: &Stop) -> Result<(), Error> {
        let idle_timeout = self.options.idle_timeout;
        let downstream = HttpDownstream::new(self.config(), http, idle_timeout).map_err(Error::Http)?;
        self.serve(Box::new(downstream), ClientCount::Many, stop)
    }

    /// Serves the clients of a socket until `stop` ends it, or the socket by itself.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    #[cfg(unix)]
    pub fn serve_socket(self, socket: Socket, stop: &Stop) -> Result<(), Error> {
        let operator = Arc::clone(&self.options.operator);
        let downstream = SocketDownstream::new(self.config(), socket, operator);
        self.serve(Box::new(downstream), ClientCount::Streams, stop)
    }

    /// Closes the connection and ends the server.
    pub fn close(self) {
        self.upstream.close();
    }

    /// Returns the configuration of the server that clients see.
    fn config(&self) -> Config {
        let config = if self.options.search { search_server_config } else { server_config };
        self.options.with_hidden(config(&self.peer, self.options.versions, self.options.front_limits()))
    }

    fn serve(self, downstream: Box<dyn Downstream>, clients: ClientCount, stop: &Stop) -> Result<(), Error> {
        let Self { options, upstream, peer } = self;
        let relay = Relay::new(clients, &peer, downstream.now(), options.idle_timeout);
        let mut relay = if options.search { relay.with_search() } else { relay };
        if let Some([client, own]) = upstream.connector().access_help() {
            relay.set_access_help(&client, &own);
        }
        let mut bridge = BridgeLoop { front: Front::new(&options, downstream, stop), upstream, relay };
        bridge.front.notice(&Notice::Begun);
        let outcome = bridge.run();
        bridge.front.notice(&Notice::Ended);
        outcome?;
        let BridgeLoop { front, upstream, .. } = bridge;
        front.finish(|| upstream.close())
    }
}

impl fmt::Debug for ConnectedBridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectedBridge").field("peer", &self.peer).finish_non_exhaustive()
    }
}

struct BridgeLoop<'s> {
    front: Front<'s>,
    upstream: UpstreamSlot,
    relay: Relay,
}

impl BridgeLoop<'_> {
    fn run(&mut self) -> Result<(), Error> {
        self.relay_early_events();
        loop {
            self.front.heed_stop();
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
            if let Err(error) = self.upstream.start() {
                self.handle_start_failure(&error);
            }
        }
        match self.upstream.poll_started() {
            None => {}
            Some(Ok(peer)) => {
                self.with_relay(|relay, engines| relay.handle_started(engines, &peer));
                self.relay_early_events();
            }
            Some(Err(error)) => self.handle_start_failure(&error),
        }
    }

    fn handle_start_failure(&mut self, error: &ConnectError) {
        self.front.notice(&Notice::StartFailed { server: None, error });
        self.with_relay(|relay, engines| relay.handle_start_failure(engines, error.reason()));
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
