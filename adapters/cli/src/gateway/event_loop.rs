//! The loop of a gateway: clients in front, a place for each server behind.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use mcp_proto::client::Peer;
use mcp_proto::model::Implementation;
use mcp_proto::{Change, Instant};
use mcp_proto_proxy::{ClientCount, Gateway, GatewayEngines, UpstreamEngine};

use super::rules::SharedRules;
use super::server_file::{ConfiguredUpstream, ServerFile};
use crate::failure::CommandFailure;
use crate::proxy::front::Front;
use crate::proxy::upstream::ClientIdentity;
use crate::proxy::upstream_slot::UpstreamSlot;
use crate::session::print_note;
use crate::stop;

/// A gateway with its clients, servers and file.
pub(super) struct GatewayLoop {
    front: Front,
    gateway: Gateway,
    /// Places by the index of their upstream. Those of upstreams that were removed stay, without a server.
    slots: Vec<UpstreamSlot>,
    idle_timeout: Option<Duration>,
    /// The client that servers see.
    identity: ClientIdentity,
    file: ServerFile,
    /// Time at which the file is looked at next.
    look_at: Instant,
    /// Set by a signal: the file is read even if it has not changed.
    is_told_to_read: Arc<AtomicBool>,
    rules: SharedRules,
    has_policy: bool,
}

impl GatewayLoop {
    pub(super) fn new(
        front: Front,
        clients: ClientCount,
        idle_timeout: Option<Duration>,
        identity: ClientIdentity,
        file: ServerFile,
        rules: SharedRules,
    ) -> Self {
        Self {
            look_at: front.downstream.now() + LOOK_INTERVAL,
            front,
            gateway: Gateway::new(clients),
            slots: Vec::new(),
            idle_timeout,
            identity,
            file,
            is_told_to_read: stop::hangup_flag(),
            rules,
            has_policy: false,
        }
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
            self.front.downstream.poll_io(true);
            for upstream in self.slots.iter_mut().filter_map(UpstreamSlot::upstream) {
                upstream.poll_io();
            }
            self.handle_timeouts();
            self.process_pending();
            while self.change_servers() {
                self.process_pending();
            }
            if self.front.downstream.is_finished() {
                return Ok(());
            }
            let deadline = self.gateway.poll_timeout().map_or(self.look_at, |at| at.min(self.look_at));
            let due = deadline.saturating_duration_since(self.front.downstream.now());
            let servers = self.slots.iter_mut().filter_map(UpstreamSlot::wait_request);
            self.front.wait(true, servers, Some(due))?;
        }
    }

    /// Ends the servers and the side that faces the clients.
    ///
    /// # Errors
    ///
    /// Fails if the side of the clients broke.
    pub(super) fn finish(self) -> Result<(), CommandFailure> {
        let mut slots = self.slots;
        self.front.finish(|| {
            // All end at the same time.
            slots.iter_mut().for_each(|slot| slot.end(None));
            slots.into_iter().for_each(UpstreamSlot::close);
        })
    }

    /// Adds, replaces and removes servers, so that they are those of the file. Others go on undisturbed.
    pub(super) fn apply(&mut self, configured: Vec<ConfiguredUpstream>) {
        self.apply_rules(&configured);
        for index in 0..self.slots.len() {
            let Some(slot) = self.slots.get(index).filter(|_| !self.is_removed(index)) else { continue };
            let opener = slot.opener();
            let is_same = |other: &&ConfiguredUpstream| {
                opener.name.as_ref() == Some(&other.name) && other.is_same_server(opener)
            };
            match configured.iter().find(is_same) {
                Some(same) => self.gateway.limit_calls(index, same.max_calls),
                None => self.remove(index),
            }
        }
        for upstream in configured {
            if self.gateway.by_name(&upstream.name).is_none() {
                self.add(upstream);
            }
        }
    }

    /// Returns whether an upstream was removed. Its server may still be starting or ending.
    fn is_removed(&self, index: usize) -> bool {
        let name = self.slots.get(index).and_then(|slot| slot.opener().name.as_deref());
        name.and_then(|name| self.gateway.by_name(name)) != Some(index)
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
        let now = self.front.downstream.now();
        for change in [Change::Tools, Change::Prompts, Change::Resources] {
            self.front.downstream.engine().publish(now, &change);
        }
    }

    fn add(&mut self, upstream: ConfiguredUpstream) {
        let ConfiguredUpstream { name, opener, max_calls, .. } = upstream;
        match self.gateway.add(self.front.downstream.now(), &name, self.idle_timeout) {
            Ok(index) => {
                self.gateway.limit_calls(index, max_calls);
                let mut slot = UpstreamSlot::vacant(Arc::new(opener), self.identity.clone());
                let is_named = |other: &&mut UpstreamSlot| other.opener().name.as_ref() == Some(&name);
                if let Some(before) = self.slots.iter_mut().rfind(is_named) {
                    slot.follow(before);
                }
                self.slots.push(slot);
            }
            Err(error) => print_note(&format!("{error}; start the gateway again")),
        }
    }

    fn remove(&mut self, index: usize) {
        self.with_gateway(|gateway, engines| gateway.remove(engines, index));
        if let Some(slot) = self.slots.get_mut(index) {
            print_note(&format!("{} is removed", slot.name()));
            // The server reads what it was told last.
            if let Some(upstream) = slot.upstream() {
                upstream.wire().write();
            }
            slot.end(None);
        }
    }

    fn with_gateway<R>(&mut self, act: impl FnOnce(&mut Gateway, &mut GatewayEngines<'_, '_>) -> R) -> R {
        let now = self.front.downstream.now();
        let engines = self.slots.iter_mut().map(|slot| {
            let (now, engine) = slot.engine();
            UpstreamEngine { now, engine }
        });
        let mut upstreams: Vec<_> = engines.collect();
        let downstream = self.front.downstream.engine();
        act(&mut self.gateway, &mut GatewayEngines { now, downstream, upstreams: &mut upstreams })
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
        for index in 0..self.slots.len() {
            let Some(slot) = self.slots.get_mut(index) else { continue };
            // What the last one sent is relayed first.
            if !self.gateway.is_running(index) && !self.front.downstream.is_congested() {
                any |= slot.upstream().is_some();
                slot.end(self.gateway.take_fault(index));
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
            let Some(slot) = self.slots.get_mut(index) else { continue };
            any = true;
            if let Err(failure) = slot.start() {
                self.handle_start_failure(index, &failure);
            }
        }
        any
    }

    fn handle_started(&mut self, index: usize, peer: &Peer) {
        let is_removed = self.is_removed(index);
        let Some(slot) = self.slots.get_mut(index) else { return };
        if is_removed {
            return slot.end(None);
        }
        print_note(&format!("{} is ready: {}", slot.name(), describe(peer)));
        let events = slot.upstream().map(|upstream| upstream.take_early_events()).unwrap_or_default();
        self.with_gateway(|gateway, engines| {
            gateway.handle_started(engines, index, peer);
            for event in events {
                gateway.handle_client_event(engines, index, event);
            }
        });
    }

    fn handle_start_failure(&mut self, index: usize, failure: &CommandFailure) {
        let Some(slot) = self.slots.get(index).filter(|_| !self.is_removed(index)) else { return };
        failure.print_note(&format!("{} cannot be started, and is tried again", slot.name()));
        self.with_gateway(|gateway, engines| {
            gateway.handle_start_failure(engines, index, failure.message());
        });
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
            for index in 0..self.slots.len() {
                while !self.front.downstream.is_congested() {
                    let event = self.slots.get_mut(index).and_then(UpstreamSlot::poll_event);
                    let Some(event) = event else { break };
                    self.with_gateway(|gateway, engines| gateway.handle_client_event(engines, index, event));
                    moved = true;
                }
            }
            self.with_gateway(|gateway, engines| gateway.process_pending(engines));
            while let Some((tool, schema)) = self.gateway.poll_header_tool() {
                self.front.downstream.set_tool_schema(&tool, &schema);
            }
            self.front.note_omissions(&self.gateway.take_diagnostics());
            let is_traced = self.front.is_traced();
            if is_traced {
                self.front.show_tap();
            }
            moved |= self.front.downstream.write();
            for upstream in self.slots.iter_mut().filter_map(UpstreamSlot::upstream) {
                if is_traced {
                    upstream.show_tap();
                }
                moved |= upstream.wire().write();
            }
            if !moved {
                return;
            }
        }
    }
}

/// Describes a server: its name, version and revision.
fn describe(peer: &Peer) -> String {
    match peer.info.as_ref().and_then(|info| info.parse::<Implementation>().ok()) {
        Some(info) => format!("{} {}, {}", info.name, info.version, peer.version),
        None => peer.version.to_string(),
    }
}

/// Time between two looks at the file.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
