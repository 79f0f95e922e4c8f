//! The loop of a gateway: clients in front, a place for each server behind.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use mcp_proto::Instant;
use mcp_proto::client::Peer;
use mcp_proto::model::Implementation;
use mcp_proto_proxy::{ClientCount, Gateway, GatewayEngines, UpstreamEngine, UpstreamEngines};

use super::health::{Health, ServerState};
use super::rules::SharedRules;
use super::server_file::{ConfiguredUpstream, ServerFile};
use crate::failure::{CommandFailure, Exit};
use crate::notes::print_note;
use crate::proxy::front::Front;
use crate::proxy::upstream::{ClientIdentity, LOGIN_CAUSE};
use crate::proxy::upstream_slot::UpstreamSlot;
use crate::stop;

/// Servers by the index of their upstream, but those that were removed.
#[derive(Default)]
struct Slots(BTreeMap<usize, UpstreamSlot>);

impl UpstreamEngines for Slots {
    fn engine(&mut self, upstream: usize) -> Option<UpstreamEngine<'_>> {
        let (now, engine) = self.0.get_mut(&upstream)?.engine();
        Some(UpstreamEngine { now, engine })
    }
}

/// A gateway with its clients, servers and file.
pub(super) struct GatewayLoop {
    front: Front,
    gateway: Gateway,
    slots: Slots,
    /// Servers of removed upstreams that have not ended yet.
    leaving: Vec<UpstreamSlot>,
    idle_timeout: Option<Duration>,
    /// The client that servers see.
    identity: ClientIdentity,
    file: ServerFile,
    /// Time at which the file is looked at next.
    look_at: Instant,
    /// Set by a signal: the file is read even if it has not changed.
    is_told_to_read: Arc<AtomicBool>,
    rules: SharedRules,
    health: Health,
    has_policy: bool,
    /// Until when the first client waits for servers that are being started, so that it gets their instructions; `None` once it is read.
    holds_until: Option<Instant>,
    /// Servers whose followed resources are too many, as a note has told.
    unfollowed: BTreeSet<usize>,
}

impl GatewayLoop {
    pub(super) fn new(
        front: Front,
        gateway: Gateway,
        idle_timeout: Option<Duration>,
        identity: ClientIdentity,
        file: ServerFile,
        (rules, health): (SharedRules, Health),
    ) -> Self {
        Self {
            look_at: front.downstream.now() + LOOK_INTERVAL,
            front,
            gateway,
            slots: Slots::default(),
            leaving: Vec::new(),
            idle_timeout,
            identity,
            file,
            is_told_to_read: stop::hangup_flag(),
            rules,
            health,
            has_policy: false,
            holds_until: None,
            unfollowed: BTreeSet::new(),
        }
    }

    /// Lets the only client wait for the servers, for some seconds at most.
    pub(super) fn hold_client(&mut self) {
        self.holds_until = Some(self.front.downstream.now() + MAX_FIRST_WAIT);
    }

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
    pub(super) fn run(&mut self) -> Result<(), CommandFailure> {
        self.front.begin_loop();
        loop {
            self.front.heed_signal();
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
            // Those that leave are looked at when the file is.
            let servers = self.slots.0.values_mut().filter_map(UpstreamSlot::wait_request);
            self.front.wait(reads, servers, Some(due))?;
        }
    }

    /// Ends the servers and the side that faces the clients.
    ///
    /// # Errors
    ///
    /// Fails if the side of the clients broke.
    pub(super) fn finish(self) -> Result<(), CommandFailure> {
        let mut slots: Vec<_> = self.slots.0.into_values().chain(self.leaving).collect();
        self.front.finish(|| {
            // All end at the same time.
            slots.iter_mut().for_each(|slot| slot.end(None));
            slots.into_iter().for_each(UpstreamSlot::close);
        })
    }

    /// Adds, replaces and removes servers, so that they are those of the file. Others go on undisturbed.
    pub(super) fn apply(&mut self, configured: Vec<ConfiguredUpstream>) {
        // What goes is hidden by its rules up to its end, which answers lists and calls. So these are replaced after it, and those of
        // a server are there before it is.
        for index in self.slots.0.keys().copied().collect::<Vec<_>>() {
            let Some(opener) = self.slots.0.get(&index).map(UpstreamSlot::opener) else { continue };
            let is_same = |other: &&ConfiguredUpstream| {
                opener.name.as_ref() == Some(&other.name) && other.is_same_server(opener)
            };
            match configured.iter().find(is_same) {
                Some(same) => self.gateway.limit_calls(index, Some(same.max_calls)),
                None => self.remove(index),
            }
        }
        self.apply_rules(&configured);
        for upstream in configured {
            if self.gateway.by_name(&upstream.name).is_none() {
                self.add(upstream);
            }
        }
    }

    fn apply_rules(&mut self, configured: &[ConfiguredUpstream]) {
        let rules = configured.iter().map(|upstream| (upstream.name.clone(), upstream.rules.clone()));
        if !self.rules.replace(rules) {
            return;
        }
        // Without rules there is no policy, which would keep back what names no entry.
        if !core::mem::replace(&mut self.has_policy, true) {
            let rules = self.rules.clone();
            let gateway = core::mem::replace(&mut self.gateway, Gateway::new(ClientCount::One));
            self.gateway = gateway.policy(move |access| rules.decide(access));
        }
        self.with_gateway(|gateway, engines| gateway.announce_changes(engines));
    }

    fn add(&mut self, upstream: ConfiguredUpstream) {
        let ConfiguredUpstream { name, opener, max_calls, .. } = upstream;
        match self.gateway.add(self.front.downstream.now(), &name, self.idle_timeout) {
            Ok(index) => {
                self.gateway.limit_calls(index, Some(max_calls));
                if let Some([client, own]) = opener.access_help() {
                    self.gateway.set_access_help(index, &client, &own);
                }
                let mut slot = UpstreamSlot::vacant(Arc::new(opener), self.identity.clone());
                let is_named = |other: &UpstreamSlot| other.opener().name.as_ref() == Some(&name);
                if let Some(before) = self.leaving.iter().position(is_named) {
                    slot.follow(self.leaving.swap_remove(before));
                }
                self.slots.0.insert(index, slot);
                self.health.add(index, &name);
            }
            Err(error) => print_note(&format!("{error}; start the gateway again")),
        }
    }

    fn remove(&mut self, index: usize) {
        self.with_gateway(|gateway, engines| gateway.remove(engines, index));
        let Some(mut slot) = self.slots.0.remove(&index) else { return };
        self.health.remove(index);
        print_note(&format!("{} is removed", slot.name()));
        // The server reads what it was told last.
        if let Some(upstream) = slot.upstream() {
            upstream.wire().write();
        }
        slot.leave();
        self.leaving.push(slot);
    }

    fn with_gateway<R>(&mut self, act: impl FnOnce(&mut Gateway, &mut GatewayEngines<'_>) -> R) -> R {
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
            if self.is_told_to_read.swap(false, Ordering::Relaxed) || self.file.has_changed() {
                self.reload();
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
                print_note(&format!(
                    "{}: changes of {unfollowed} followed resources are not announced: there are too many",
                    slot.name()
                ));
            }
        }
    }

    /// Reads the file again. One that is wrong changes nothing.
    fn reload(&mut self) {
        match self.file.read() {
            Ok(servers) => self.apply(servers),
            Err(failure) => failure.print_note("the file has changed, and the servers go on as before"),
        }
    }

    /// Lets go of servers that have ended, and starts those that are due. Returns whether there was anything to do.
    fn change_servers(&mut self) -> bool {
        let mut any = false;
        self.leaving.retain_mut(|slot| !slot.poll_left());
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
                Some(Err(failure)) => self.handle_start_failure(index, &failure),
            }
        }
        while let Some(index) = self.gateway.poll_start(self.front.downstream.now()) {
            let Some(slot) = self.slots.0.get_mut(&index) else { continue };
            any = true;
            if let Err(failure) = slot.start() {
                self.handle_start_failure(index, &failure);
            }
        }
        any
    }

    fn handle_started(&mut self, index: usize, peer: &Peer) {
        let Some(slot) = self.slots.0.get_mut(&index) else { return };
        print_note(&format!("{} is ready: {}", slot.name(), describe(peer)));
        self.health.set(index, ServerState::Ready);
        let events = slot.upstream().map(|upstream| upstream.take_early_events()).unwrap_or_default();
        self.with_gateway(|gateway, engines| {
            gateway.handle_started(engines, index, peer);
            for event in events {
                gateway.handle_client_event(engines, index, event);
            }
        });
    }

    fn handle_start_failure(&mut self, index: usize, failure: &CommandFailure) {
        let Some(slot) = self.slots.0.get(&index) else { return };
        failure.print_note(&format!("{} cannot be started, and is tried again", slot.name()));
        self.health.set(index, ServerState::Failed);
        let reason = reason_for_clients(failure.exit(), slot.opener().server.is_remote());
        self.with_gateway(|gateway, engines| gateway.handle_start_failure(engines, index, reason));
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

/// Returns why a server cannot be started, as clients are told. The failure itself may name programs, URLs with secrets in their
/// paths, and what the server wrote: it is for the log of the gateway.
const fn reason_for_clients(exit: Exit, is_remote: bool) -> &'static str {
    match (exit, is_remote) {
        (Exit::Unauthorized, _) => LOGIN_CAUSE,
        (Exit::Connection | Exit::Timeout, true) => "it cannot be reached",
        (Exit::Connection | Exit::Timeout, false) => "its program does not start, or is no MCP server",
        (Exit::Failed | Exit::Usage | Exit::Unanswered, _) => "it cannot be connected to",
    }
}

/// Describes a server: its name, version and revision.
fn describe(peer: &Peer) -> String {
    match peer.info.as_ref().and_then(|info| info.parse::<Implementation>().ok()) {
        Some(info) => format!("{} {}, {}", info.name, info.version, peer.version),
        None => peer.version.to_string(),
    }
}

/// Longest time that a client waits for its first answer, because servers are being started.
const MAX_FIRST_WAIT: Duration = Duration::from_secs(5);
/// Time between two looks at the file.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
