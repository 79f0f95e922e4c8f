//! A gateway: the loop of a proxy with clients in front, and a place for each server behind.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::client::Peer;
use mcp_proto::http::server::PublicDocument;
use mcp_proto::server::Config;
use mcp_std::io::{Duplex, Stdio};

use super::client::{ClientIdentity, FirstMessage};
use super::downstream::{Downstream, StreamDownstream};
use super::front::Front;
use super::health::{Health, ServerState};
use super::http::{Http, HttpDownstream};
use super::notice::Notice;
use super::rules::{Rules, SharedRules};
use super::slot::UpstreamSlot;
#[cfg(unix)]
use super::socket::{Socket, SocketDownstream};
use super::stop::Stop;
use super::upstream::{Connect, ConnectError};
use super::{Error, Options};
use crate::{
    AddError, ClientCount, GatewayEngines, UpstreamEngine, UpstreamEngines, gateway_config,
    search_gateway_config, upstream_name,
};

/// A server of a gateway.
#[derive(Clone, Debug)]
pub struct Server {
    name: String,
    connector: Arc<dyn Connect>,
    max_calls: usize,
    rules: Rules,
}

impl Server {
    /// Creates a server with at most 64 calls in flight, of which clients see everything. Its name is made valid by [`upstream_name`].
    #[must_use]
    pub fn new(name: &str, connector: Arc<dyn Connect>) -> Self {
        Self { name: upstream_name(name), connector, max_calls: 64, rules: Rules::default() }
    }

    /// Sets the maximum number of calls in flight, so that a slow server leaves room for calls of others. Further ones are refused. Lists
    /// do not count.
    #[must_use]
    pub const fn max_calls(mut self, calls: usize) -> Self {
        self.max_calls = calls;
        self
    }

    /// Sets which entries clients see and use.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }
}

/// A proxy with several servers behind, which clients see as one.
///
/// Tools and prompts are named `SERVER_tool`, and lists are merged. A server that fails is left out and started again.
#[derive(Debug)]
pub struct Gateway {
    name: String,
    version: String,
    options: Options,
    servers: Vec<Server>,
    rules: SharedRules,
    health: Health,
}

impl Gateway {
    /// Creates a gateway without servers. Clients see this name and version.
    #[must_use]
    pub fn new(name: &str, version: &str, options: Options) -> Self {
        let rules = SharedRules::default();
        let health = Health::new(rules.clone());
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            options,
            servers: Vec::new(),
            rules,
            health,
        }
    }

    /// Adds a server, of which clients see everything.
    ///
    /// # Errors
    ///
    /// Fails if it has no name, or that of another server.
    pub fn server(&mut self, name: &str, connector: impl Connect + 'static) -> Result<(), AddError> {
        self.add(Server::new(name, Arc::new(connector)))
    }

    /// Adds a server.
    ///
    /// # Errors
    ///
    /// As [`server`](Self::server).
    pub fn add(&mut self, server: Server) -> Result<(), AddError> {
        if server.name.is_empty() {
            return Err(AddError::InvalidName(server.name));
        }
        if self.servers.iter().any(|other| other.name == server.name) {
            return Err(AddError::NameTaken(server.name));
        }
        self.servers.push(server);
        Ok(())
    }

    /// Returns a document at [`HEALTH_PATH`](super::HEALTH_PATH) for monitors, which they read without a token: `status` is `ok`,
    /// `degraded` (a server has failed) or `down` (all have); with `shows_servers` it lists the names and states of those that rules do
    /// not hide. Add it by [`Config::document`](mcp_proto::http::server::Config::document).
    #[must_use]
    pub fn health(&self, shows_servers: bool) -> PublicDocument {
        self.health.document(shows_servers)
    }

    /// Serves the client on stdin and stdout, as [`serve_stream`](Self::serve_stream) does.
    ///
    /// # Errors
    ///
    /// [`Error::Stdio`] if they cannot be used; and those of [`serve_stream`](Self::serve_stream).
    pub fn serve_stdio(self, stop: &Stop) -> Result<(), Error> {
        self.serve_stream(Stdio::guarded().map_err(Error::Stdio)?, stop)
    }

    /// Serves one client on a byte stream until it is gone. Servers see the identity and the capabilities that its first message declares.
    /// Its first answer waits for their start, 5 s at most, because it has their instructions.
    ///
    /// # Errors
    ///
    /// [`Error::Client`] if no message can be read; [`Error::Stopped`].
    pub fn serve_stream(self, mut stream: impl Duplex + 'static, stop: &Stop) -> Result<(), Error> {
        // The client comes first, because servers may want to know its identity.
        let Some(first) = FirstMessage::read(&mut stream).map_err(Error::Client)? else { return Ok(()) };
        let FirstMessage { identity, bytes } = first;
        let downstream = StreamDownstream::new(self.config(), stream, &bytes);
        self.serve(Box::new(downstream), ClientCount::One, identity, stop)
    }

    /// Serves clients over HTTP until `stop` ends it.
    ///
    /// # Errors
    ///
    /// [`Error::Http`], [`Error::Stopped`].
    pub fn serve_http(self, http: Http, stop: &Stop) -> Result<(), Error> {
        let idle_timeout = self.options.idle_timeout;
        let downstream = HttpDownstream::new(self.config(), http, idle_timeout).map_err(Error::Http)?;
        self.serve(Box::new(downstream), ClientCount::Many, ClientIdentity::shared(), stop)
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
        self.serve(Box::new(downstream), ClientCount::Streams, ClientIdentity::shared(), stop)
    }

    /// Returns the configuration of the server that clients see.
    fn config(&self) -> Config {
        let Self { name, version, options, rules, .. } = self;
        let config = if options.search { search_gateway_config } else { gateway_config };
        let config = config(name, version, options.versions, options.front_limits());
        let rules = rules.clone();
        options.with_hidden(config).tool_audience(move |name| rules.audience_of_tool(name))
    }

    fn serve(
        self,
        downstream: Box<dyn Downstream>,
        clients: ClientCount,
        identity: ClientIdentity,
        stop: &Stop,
    ) -> Result<(), Error> {
        let Self { options, servers, rules, health, .. } = self;
        let gateway = crate::Gateway::new(clients);
        let gateway = if options.search { gateway.with_search() } else { gateway };
        let front = Front::new(&options, downstream, stop);
        let now = front.downstream.now();
        let mut gateway = GatewayLoop {
            // The only client waits for the servers.
            holds_until: (clients == ClientCount::One).then(|| now + MAX_FIRST_WAIT),
            look_at: now + LOOK_INTERVAL,
            front,
            gateway,
            slots: Slots::default(),
            leaving: Vec::new(),
            idle_timeout: options.idle_timeout,
            identity,
            rules,
            health,
            has_policy: false,
            unfollowed: BTreeSet::new(),
        };
        gateway.apply(servers);
        gateway.front.notice(&Notice::Begun);
        let outcome = gateway.run();
        gateway.front.notice(&Notice::Ended);
        outcome.and_then(|()| gateway.finish())
    }
}

/// Servers by the index of their upstream, but those that were removed.
#[derive(Default)]
struct Slots(BTreeMap<usize, UpstreamSlot>);

impl UpstreamEngines for Slots {
    fn engine(&mut self, upstream: usize) -> Option<UpstreamEngine<'_>> {
        let (now, engine) = self.0.get_mut(&upstream)?.engine();
        Some(UpstreamEngine { now, engine })
    }
}

/// A gateway with its clients and servers.
struct GatewayLoop<'s> {
    front: Front<'s>,
    gateway: crate::Gateway,
    slots: Slots,
    /// Servers of removed upstreams that have not ended yet.
    leaving: Vec<UpstreamSlot>,
    idle_timeout: Option<Duration>,
    /// The client that servers see.
    identity: ClientIdentity,
    /// Time at which the operator is asked for servers next.
    look_at: Instant,
    rules: SharedRules,
    health: Health,
    has_policy: bool,
    /// Until when the first client waits for servers that are being started, so that it gets their instructions; `None` once it is read.
    holds_until: Option<Instant>,
    /// Servers whose followed resources are too many, as a notice has told.
    unfollowed: BTreeSet<usize>,
}

impl GatewayLoop<'_> {
    fn reads_clients(&mut self) -> bool {
        let now = self.front.downstream.now();
        self.holds_until = self.holds_until.filter(|until| now < *until && self.gateway.awaits_first_start());
        self.holds_until.is_none()
    }

    /// Runs until all clients are gone.
    ///
    /// # Errors
    ///
    /// Fails if the system cannot wait.
    fn run(&mut self) -> Result<(), Error> {
        loop {
            self.front.heed_stop();
            let reads = self.reads_clients();
            self.front.downstream.poll_io(reads);
            for upstream in self.slots.0.values_mut().filter_map(UpstreamSlot::upstream) {
                upstream.poll_io();
            }
            self.handle_timeouts();
            self.process_pending();
            while self.change_servers() {
                self.process_pending();
            }
            self.front.note_search(self.gateway.search_size(self.front.downstream.now()));
            if self.front.downstream.is_finished() {
                return Ok(());
            }
            let deadline = self.gateway.poll_timeout().map_or(self.look_at, |at| at.min(self.look_at));
            let due = deadline.saturating_duration_since(self.front.downstream.now());
            // Those that leave are looked at when the operator is asked.
            let servers = self.slots.0.values_mut().filter_map(UpstreamSlot::wait_request);
            self.front.wait(reads, servers, Some(due))?;
        }
    }

    /// Ends the servers and the side that faces the clients.
    ///
    /// # Errors
    ///
    /// Fails if the side of the clients broke.
    fn finish(self) -> Result<(), Error> {
        let mut slots: Vec<_> = self.slots.0.into_values().chain(self.leaving).collect();
        self.front.finish(|| {
            // All end at the same time.
            slots.iter_mut().for_each(|slot| slot.end(None));
            slots.into_iter().for_each(UpstreamSlot::close);
        })
    }

    /// Adds, replaces and removes servers, so that they are these. Others go on undisturbed.
    fn apply(&mut self, servers: Vec<Server>) {
        // What goes is hidden by its rules up to its end, which answers lists and calls. So these are replaced after it, and those of
        // a server are there before it is.
        for index in self.slots.0.keys().copied().collect::<Vec<_>>() {
            let Some(slot) = self.slots.0.get(&index) else { continue };
            let is_same = |other: &&Server| {
                other.name == slot.name() && Arc::ptr_eq(&other.connector, slot.connector())
            };
            match servers.iter().find(is_same) {
                Some(same) => self.gateway.limit_calls(index, Some(same.max_calls)),
                None => self.remove(index),
            }
        }
        self.apply_rules(&servers);
        for server in servers {
            if self.gateway.by_name(&server.name).is_none() {
                self.add(server);
            }
        }
    }

    fn apply_rules(&mut self, servers: &[Server]) {
        let rules = servers.iter().map(|server| (server.name.clone(), server.rules.clone()));
        if !self.rules.replace(rules) {
            return;
        }
        // Without rules there is no policy, which would keep back what names no entry.
        if !core::mem::replace(&mut self.has_policy, true) {
            let rules = self.rules.clone();
            let gateway = core::mem::replace(&mut self.gateway, crate::Gateway::new(ClientCount::One));
            self.gateway = gateway.policy(move |access| rules.decide(access));
        }
        self.with_gateway(|gateway, engines| gateway.announce_changes(engines));
    }

    fn add(&mut self, server: Server) {
        let Server { name, connector, max_calls, .. } = server;
        let index = match self.gateway.add(self.front.downstream.now(), &name, self.idle_timeout) {
            Ok(index) => index,
            Err(error) => return self.front.notice(&Notice::NotAdded(&error)),
        };
        self.gateway.limit_calls(index, Some(max_calls));
        if let Some([client, own]) = connector.access_help() {
            self.gateway.set_access_help(index, &client, &own);
        }
        self.health.add(index, &name);
        let before = self.leaving.iter().position(|other| other.name() == name);
        let operator = Arc::clone(&self.front.operator);
        let mut slot = UpstreamSlot::vacant(Some(name), connector, operator, self.identity.clone());
        if let Some(before) = before {
            slot.follow(self.leaving.swap_remove(before));
        }
        self.slots.0.insert(index, slot);
    }

    fn remove(&mut self, index: usize) {
        self.with_gateway(|gateway, engines| gateway.remove(engines, index));
        let Some(mut slot) = self.slots.0.remove(&index) else { return };
        self.health.remove(index);
        self.front.notice(&Notice::Removed { server: slot.name() });
        // The server reads what it was told last.
        if let Some(upstream) = slot.upstream() {
            upstream.wire().write();
        }
        slot.leave();
        self.leaving.push(slot);
    }

    fn with_gateway<R>(&mut self, act: impl FnOnce(&mut crate::Gateway, &mut GatewayEngines<'_>) -> R) -> R {
        let now = self.front.downstream.now();
        let downstream = self.front.downstream.engine();
        act(&mut self.gateway, &mut GatewayEngines { now, downstream, upstreams: &mut self.slots })
    }

    fn handle_timeouts(&mut self) {
        let now = self.front.downstream.now();
        if self.gateway.poll_timeout().is_some_and(|at| at <= now) {
            self.with_gateway(|gateway, engines| gateway.handle_timeout(engines));
        }
        if self.look_at <= now {
            self.look_at = now + LOOK_INTERVAL;
            if let Some(servers) = self.front.operator.changed_servers() {
                self.apply(servers);
            }
            self.note_unfollowed();
        }
    }

    /// Tells of resources that a server cannot be asked to follow, once until it can again.
    fn note_unfollowed(&mut self) {
        for (index, slot) in &self.slots.0 {
            let unfollowed = self.gateway.unfollowed_resources(*index);
            if unfollowed == 0 {
                self.unfollowed.remove(index);
            } else if self.unfollowed.insert(*index) {
                self.front.notice(&Notice::Unfollowed { server: slot.name(), resources: unfollowed });
            }
        }
    }

    /// Lets go of servers that have ended, and starts those that are due. Returns whether there was anything to do.
    fn change_servers(&mut self) -> bool {
        let mut any = false;
        self.leaving.retain(|slot| !slot.has_left());
        for index in self.slots.0.keys().copied().collect::<Vec<_>>() {
            let Some(slot) = self.slots.0.get_mut(&index) else { continue };
            // What the last one sent is relayed first.
            if !self.gateway.is_running(index) && !self.front.downstream.is_congested() {
                let fault = self.gateway.take_fault(index);
                if slot.upstream().is_some() {
                    any = true;
                    self.health
                        .set(index, if fault.is_some() { ServerState::Failed } else { ServerState::Idle });
                }
                slot.end(fault);
            }
            let started = slot.poll_started();
            any |= started.is_some();
            match started {
                None => {}
                Some(Ok(peer)) => self.handle_started(index, &peer),
                Some(Err(error)) => self.handle_start_failure(index, &error),
            }
        }
        while let Some(index) = self.gateway.poll_start(self.front.downstream.now()) {
            let Some(slot) = self.slots.0.get_mut(&index) else { continue };
            any = true;
            if let Err(error) = slot.start() {
                self.handle_start_failure(index, &error);
            }
        }
        any
    }

    fn handle_started(&mut self, index: usize, peer: &Peer) {
        let Some(slot) = self.slots.0.get_mut(&index) else { return };
        self.front.notice(&Notice::Ready { server: slot.name(), peer });
        self.health.set(index, ServerState::Ready);
        let events = slot.upstream().map(|upstream| upstream.take_early_events()).unwrap_or_default();
        self.with_gateway(|gateway, engines| {
            gateway.handle_started(engines, index, peer);
            for event in events {
                gateway.handle_client_event(engines, index, event);
            }
        });
    }

    fn handle_start_failure(&mut self, index: usize, error: &ConnectError) {
        let Some(slot) = self.slots.0.get(&index) else { return };
        self.front.notice(&Notice::StartFailed { server: Some(slot.name()), error });
        self.health.set(index, ServerState::Failed);
        self.with_gateway(|gateway, engines| gateway.handle_start_failure(engines, index, error.reason()));
    }

    /// Relays all input and writes the results until nothing is left but to wait.
    fn process_pending(&mut self) {
        loop {
            let mut moved = false;
            while let Some(event) = self.front.downstream.poll_event() {
                self.front.note_event(&event);
                self.with_gateway(|gateway, engines| gateway.handle_server_event(engines, event));
                moved = true;
            }
            for index in self.slots.0.keys().copied().collect::<Vec<_>>() {
                while !self.front.downstream.is_congested() {
                    let event = self.slots.0.get_mut(&index).and_then(UpstreamSlot::poll_event);
                    let Some(event) = event else { break };
                    moved = true;
                    let Some(event) = self.front.part_progress(index, event) else { continue };
                    self.with_gateway(|gateway, engines| gateway.handle_client_event(engines, index, event));
                }
            }
            while let Some((index, event)) = self.front.take_result() {
                self.with_gateway(|gateway, engines| gateway.handle_client_event(engines, index, event));
                moved = true;
            }
            self.with_gateway(|gateway, engines| gateway.process_pending(engines));
            while let Some((tool, schema)) = self.gateway.poll_header_tool() {
                self.front.downstream.set_tool_schema(&tool, &schema);
            }
            self.front.note_omissions(&self.gateway.take_diagnostics(), &self.gateway.take_notes());
            moved |= self.front.write(self.slots.0.values_mut().filter_map(UpstreamSlot::upstream));
            if !moved {
                return;
            }
        }
    }
}

/// Longest time that a client waits for its first answer, because servers are being started.
const MAX_FIRST_WAIT: Duration = Duration::from_secs(5);
/// Time between two questions for changed servers.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
