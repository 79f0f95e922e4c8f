//! One server engine in front of several upstreams.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::client::{self, Event as ClientEvent};
use mcp_proto::server::{self, Caller, Event as ServerEvent};
use mcp_proto::{
    Capabilities, Capability, Change, ChannelId, Diagnostic, EntryKind, Fault, Instant, Limits, RawJson,
    RpcError, VersionSet,
};

use super::convert;
use super::lists::MergedLists;
use super::names::{self, AddError};
use super::policy::{Access, Decision, Policy};
use super::relay::{ClientCount, Engines, Relay, recall_inputs};
use super::relayed_call::{DownstreamCall, RetryToken};
use super::resources::EntryOwners;
use super::search::{Catalogue, ToolSearch};

/// Engine of an upstream, and the current time on its clock.
#[derive(Debug)]
pub struct UpstreamEngine<'e> {
    /// Current time on the clock of the engine.
    pub now: Instant,
    /// The engine. Without a connection any engine will do that is not connected.
    pub engine: &'e mut client::Engine,
}

/// The engines of the upstreams, as the driver of a gateway keeps them.
pub trait UpstreamEngines {
    /// Returns the engine of an upstream, by its index. It is asked for those that were added and not removed.
    fn engine(&mut self, upstream: usize) -> Option<UpstreamEngine<'_>>;
}

/// All engines of a gateway and the current time.
#[expect(missing_debug_implementations, reason = "engines of the driver need none")]
pub struct GatewayEngines<'e> {
    /// Current time on the downstream clock, which is also the clock of the gateway.
    pub now: Instant,
    /// Engine that faces the clients.
    pub downstream: &'e mut server::Engine,
    /// Engines that face the upstreams.
    pub upstreams: &'e mut dyn UpstreamEngines,
}

impl GatewayEngines<'_> {
    /// Returns the engines that the relay to an upstream is between.
    pub(crate) fn of(&mut self, upstream: usize) -> Option<Engines<'_>> {
        let UpstreamEngine { now, engine } = self.upstreams.engine(upstream)?;
        Some(Engines { now: self.now, downstream: self.downstream, upstream_now: now, upstream: engine })
    }
}

/// A proxy in front of several servers, which clients see as one.
///
/// Each upstream has a name and an index, which the driver passes with its events. It is started when it is added, and again,
/// with back-off, when a client needs it after it has ended; meanwhile it is left out of lists, and the others go on.
///
/// Tools and prompts are named `UPSTREAM_NAME`. Names of upstreams have no underscore, so that two upstreams never have
/// the same name for something, whatever they list and whichever are there. Resources keep their URIs: see
/// [`handle_server_event`](Self::handle_server_event).
#[derive(Debug)]
pub struct Gateway {
    clients: ClientCount,
    /// Relays by index; `None` where an upstream was removed. Each has a name.
    pub(crate) upstreams: Vec<Option<Relay>>,
    pub(crate) lists: MergedLists,
    pub(crate) owners: EntryOwners,
    /// Resources that clients follow, with the upstreams that are told.
    pub(crate) followed: BTreeMap<String, Vec<usize>>,
    /// Whether followed resources may belong elsewhere now. They are routed once after each batch of events.
    pub(crate) needs_routing: bool,
    /// Number of times that a followed resource was routed.
    #[cfg(test)]
    pub(crate) routed: usize,
    pub(crate) policy: Option<Policy>,
    sessions: Vec<ChannelId>,
    instance: u64,
    /// Calls of `search` and `call`, if these two stand for all tools.
    pub(crate) search: Option<ToolSearch>,
    /// Sentences for whoever runs the gateway. Bounded by [`MAX_NOTES`].
    notes: Vec<String>,
    /// Tools of removed upstreams, to be registered anew without header fields.
    removed_header_tools: Vec<(String, RawJson)>,
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Gateway {
    /// Creates a gateway without upstreams.
    #[must_use]
    pub fn new(clients: ClientCount) -> Self {
        Self {
            clients,
            upstreams: Vec::new(),
            lists: MergedLists::default(),
            owners: EntryOwners::default(),
            followed: BTreeMap::new(),
            needs_routing: false,
            #[cfg(test)]
            routed: 0,
            policy: None,
            sessions: Vec::new(),
            instance: 0,
            search: None,
            notes: Vec::new(),
            removed_header_tools: Vec::new(),
            diagnostics: Vec::new(),
        }
    }

    /// Lets a function decide about each entry that is listed and each that is used.
    ///
    /// Custom methods and notifications name no entry: with a policy they are refused, and dropped. So is what an upstream says or
    /// asks that names no call: it is not known whom it concerns. Questions of legacy servers name none, and are refused.
    /// With [`ClientCount::One`] what is said or asked while a call runs reaches the client of the call. The instructions of the gateway
    /// are those of the upstreams that a caller without a principal may learn of.
    ///
    /// A subscription to a resource is accepted whatever the function says, as one to a resource that does not exist, and passed
    /// on to the upstreams that own the resource: it is not known which clients it is for. Each change of it is a use by each
    /// client that follows it, with its URI as the only parameter: clients for which that is not allowed are not told, nor are
    /// those that may follow a resource but not use the part of it that has changed. Of a resource of several upstreams a client
    /// learns what the one says that it reads from. Notices that lists have changed name no entry and go to all clients.
    ///
    /// Over HTTP wrong header fields of a call tell a hidden tool from an unknown one, unless
    /// [`server::Config::tool_audience`] hides it, too: the driver sets it, for `UPSTREAM_NAME`.
    #[must_use]
    pub fn policy(mut self, decide: impl Fn(&Access<'_>) -> Decision + Send + Sync + 'static) -> Self {
        self.policy = Some(Policy(Arc::new(decide)));
        self.needs_routing = true;
        for relay in self.upstreams.iter_mut().flatten() {
            relay.has_policy = true;
        }
        self
    }

    /// Sets the number that tells this gateway from others with the same seal keys, as [`Relay::instance`] does. Upstreams
    /// that were added before keep theirs.
    #[must_use]
    pub const fn instance(mut self, number: u64) -> Self {
        self.instance = number;
        self
    }

    pub(crate) fn decide(&self, access: &Access<'_>) -> Decision {
        self.policy.as_ref().map_or(Decision::Allow, |policy| (policy.0)(access))
    }

    pub(crate) const fn has_policy(&self) -> bool {
        self.policy.is_some()
    }

    // ---- upstreams -------------------------------------------------------------------------------------------

    /// Adds an upstream, and returns its index. It is started at once, and ended after `idle_timeout` without use.
    ///
    /// Indices begin at 0, count up, and are never used again.
    ///
    /// # Errors
    ///
    /// Fails if an upstream cannot have this name, or if another one has it. [`upstream_name`](crate::upstream_name)
    /// makes valid names.
    pub fn add(
        &mut self,
        now: Instant,
        name: &str,
        idle_timeout: Option<Duration>,
    ) -> Result<usize, AddError> {
        if !names::is_valid(name) {
            return Err(AddError::InvalidName(name.to_owned()));
        }
        if self.by_name(name).is_some() {
            return Err(AddError::NameTaken(name.to_owned()));
        }
        let index = self.upstreams.len();
        let number = u16::try_from(index).ok().filter(|_| index < MAX_UPSTREAMS).ok_or(AddError::Full)?;
        let place = (number, name);
        let mut relay = Relay::of_gateway(self.clients, place, &self.sessions, now, idle_timeout);
        relay.has_policy = self.has_policy();
        relay.calls.instance = self.instance;
        if self.search.is_some() {
            relay.hide_tools();
        }
        self.upstreams.push(Some(relay));
        self.needs_routing = true;
        Ok(index)
    }

    /// Limits the calls of clients that an upstream has at a time, those included that wait for its start, but not those whose
    /// clients are being asked: these may never come back. `None` for no limit but those of the engines. A further call is refused.
    pub fn limit_calls(&mut self, upstream: usize, calls: Option<usize>) {
        if let Some(Some(relay)) = self.upstreams.get_mut(upstream) {
            relay.max_calls = calls;
        }
    }

    /// Sets what helps if an upstream refuses access, as [`Relay::set_access_help`] does.
    pub fn set_access_help(&mut self, upstream: usize, client: &str, own: &str) {
        if let Some(Some(relay)) = self.upstreams.get_mut(upstream) {
            relay.set_access_help(client, own);
        }
    }

    /// Removes an upstream. Its calls are answered with an error, and clients learn that lists have changed.
    pub fn remove(&mut self, engines: &mut GatewayEngines<'_>, upstream: usize) {
        self.fail_parts(engines, upstream, "it was removed");
        let why = RpcError::internal("the server was removed from the gateway");
        self.with(engines, upstream, |relay, engines| relay.retire(engines, &relay.named(why)));
        let removed = self.upstreams.get_mut(upstream).and_then(Option::take);
        self.owners.forget(upstream);
        for told in self.followed.values_mut() {
            told.retain(|other| *other != upstream);
        }
        self.needs_routing = true;
        if let Some(mut relay) = removed {
            for (call, others) in relay.unfound.drain(..) {
                self.ask_next(engines, call, others);
            }
            self.removed_header_tools.extend(relay.into_header_tools());
        }
        self.announce_changes(engines);
        self.finish_searches(engines);
    }

    /// Tells clients that lists may have changed, for example because the policy decides otherwise now. That of tools does not change
    /// [with search](Self::with_search).
    pub fn announce_changes(&self, engines: &mut GatewayEngines<'_>) {
        self.join_instructions(engines);
        let tools = Some(Change::Tools).filter(|_| self.search.is_none());
        for change in tools.into_iter().chain([Change::Prompts, Change::Resources]) {
            engines.downstream.publish(engines.now, &change);
        }
    }

    /// Sets the instructions of the gateway: those of its upstreams, each under its name.
    fn join_instructions(&self, engines: &mut GatewayEngines<'_>) {
        let mut joined = String::new();
        for relay in self.upstreams.iter().flatten() {
            let is_named = self.is_named(&Caller::default(), EntryKind::Tool, relay.name());
            if let Some(text) = relay.instructions.as_ref().filter(|_| is_named) {
                let text = format!("# {}\n\n{}\n\n", relay.name(), text.trim());
                if joined.len() + text.len() <= MAX_JOINED_INSTRUCTIONS {
                    joined += &text;
                }
            }
        }
        let joined = Some(joined.trim_end()).filter(|text| !text.is_empty());
        server::set_instructions(engines.downstream, joined);
    }

    /// Returns whether an upstream is being started for the first time, so that what it offers and says is not known yet.
    #[must_use]
    pub fn awaits_first_start(&self) -> bool {
        self.upstreams.iter().flatten().any(|relay| relay.life.awaits_first_start())
    }

    /// Returns the index of an upstream.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<usize> {
        let is_named = |relay: &Option<Relay>| relay.as_ref().is_some_and(|relay| relay.name() == name);
        self.upstreams.iter().position(is_named)
    }

    /// Returns whether an upstream is connected. Otherwise the driver closes the connection to it.
    #[must_use]
    pub fn is_running(&self, upstream: usize) -> bool {
        self.relay(upstream).is_some_and(Relay::is_server_running)
    }

    /// Returns why an upstream has failed, while its next start is far away.
    #[must_use]
    pub fn failure(&self, now: Instant, upstream: usize) -> Option<&str> {
        self.relay(upstream)?.life.absence(now)
    }

    /// Returns the number of resources that clients follow and the upstream is not asked for, as
    /// [`Relay::unfollowed_resources`] does.
    #[must_use]
    pub fn unfollowed_resources(&self, upstream: usize) -> usize {
        self.relay(upstream).map_or(0, Relay::unfollowed_resources)
    }

    /// Returns the index of an upstream that the driver has to start now, once.
    pub fn poll_start(&mut self, now: Instant) -> Option<usize> {
        self.upstreams.iter_mut().position(|relay| relay.as_mut().is_some_and(|relay| relay.poll_start(now)))
    }

    /// Handles an upstream that was started.
    pub fn handle_started(&mut self, engines: &mut GatewayEngines<'_>, upstream: usize, peer: &client::Peer) {
        self.owners.note_change(upstream);
        self.with(engines, upstream, |relay, engines| relay.handle_started(engines, peer));
        self.join_instructions(engines);
        self.publish_notices(engines, upstream);
        self.send_waiting_parts(engines, upstream);
        self.needs_routing = true;
    }

    /// Handles an upstream that could not be started. It is left out of the lists that waited for it.
    pub fn handle_start_failure(&mut self, engines: &mut GatewayEngines<'_>, upstream: usize, reason: &str) {
        self.with(engines, upstream, |relay, engines| relay.handle_start_failure(engines, reason));
        self.fail_parts(engines, upstream, reason);
    }

    /// Returns the fault that ended an upstream that is to be let go of; `None` if no client used it.
    ///
    /// The driver lets go of it now, so the next one may be started after this.
    pub fn take_fault(&mut self, upstream: usize) -> Option<Fault> {
        self.upstreams.get_mut(upstream)?.as_mut()?.take_fault()
    }

    pub(crate) fn relay(&self, upstream: usize) -> Option<&Relay> {
        self.upstreams.get(upstream)?.as_ref()
    }

    /// Iterates over the indices of all upstreams.
    pub(crate) fn indices(&self) -> impl Iterator<Item = usize> + use<> {
        let present = self.upstreams.iter().enumerate().filter(|(_, relay)| relay.is_some());
        present.map(|(index, _)| index).collect::<Vec<_>>().into_iter()
    }

    /// Calls a function with the relay to an upstream and its engines.
    pub(crate) fn with<R>(
        &mut self,
        engines: &mut GatewayEngines<'_>,
        upstream: usize,
        act: impl FnOnce(&mut Relay, &mut Engines<'_>) -> R,
    ) -> Option<R> {
        let relay = self.upstreams.get_mut(upstream)?.as_mut()?;
        Some(act(relay, &mut engines.of(upstream)?))
    }

    fn with_each(
        &mut self,
        engines: &mut GatewayEngines<'_>,
        mut act: impl FnMut(&mut Relay, &mut Engines<'_>),
    ) {
        for upstream in 0..self.upstreams.len() {
            self.with(engines, upstream, &mut act);
        }
    }

    /// Returns the name by which clients know a tool or prompt; `None` if that is a shorter one, by which it would not be known again.
    pub(crate) fn shown_name(&mut self, full: String, is_known: bool) -> Option<String> {
        let Some(shown) = names::shortened(&full) else { return Some(full) };
        let (clipped, count) = (convert::clip(&full), self.notes.len());
        self.note(match is_known {
            // What is left out has room beside these.
            true if count >= MAX_NOTES / 2 => return Some(shown),
            true => format!("`{clipped}` is shown as `{shown}`: names have 64 characters at most"),
            false => format!("`{clipped}` is left out: it is too long, or too many names are"),
        });
        is_known.then_some(shown)
    }

    /// Returns the whole name of a tool or prompt that clients know by a shorter one.
    pub(crate) fn full_name(&self, kind: EntryKind, shown: &str) -> Option<String> {
        let relay = self.relay(self.owner_of(shown)?)?;
        match (kind, &relay.catalogue) {
            (EntryKind::Tool, Some(catalogue)) => catalogue.full_name(shown),
            (EntryKind::Tool | EntryKind::Prompt, _) => self.owners.full_name(kind, shown),
            _ => None,
        }
    }

    pub(crate) fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(note);
        }
    }

    /// Returns sentences for whoever runs the gateway, since the last call of this function: what is left out or shown by another name, and
    /// which upstream refuses the gateway. They repeat.
    pub fn take_notes(&mut self) -> Vec<String> {
        let mut all = core::mem::take(&mut self.notes);
        for relay in self.upstreams.iter_mut().flatten() {
            all.append(&mut relay.take_notes());
        }
        all
    }

    // ---- events ----------------------------------------------------------------------------------------------

    /// Handles an event of the engine that faces the clients.
    ///
    /// - Lists are asked for at all upstreams, and merged. One that has failed, or does not answer in
    ///   [`LIST_TIMEOUT`](crate::LIST_TIMEOUT), is left out; `_meta` of the result says why, by
    ///   [`UNAVAILABLE`](crate::UNAVAILABLE). A page has the next page of each upstream that has one.
    /// - Names of more than 64 characters are shortened in lists, by a digest, and known again until a list has them no more. They have
    ///   4,096 bytes at most, and 2,048 tools and as many prompts have room; others are left out, and [told](Self::take_notes).
    /// - Calls of tools and prompts, and completions, go to the upstream that the name begins with.
    /// - A resource belongs to the upstream that has listed it; if several have, to the one that was added first of those that the
    ///   policy shows to the client, and the others' are left out of lists. Otherwise the upstream decides whose template begins
    ///   like the URI. If there is none, the upstreams are asked one after the other, and the first error that says something else
    ///   than that the resource is unknown is the answer if no upstream knows it.
    /// - A followed resource is subscribed to at the upstream that it belongs to, with a policy at all that have listed it. One that
    ///   none has listed is followed at the only upstream that may have subscriptions, or nowhere until one lists it.
    /// - Custom methods are relayed if there is one upstream. Notifications of clients go to all.
    pub fn handle_server_event(&mut self, engines: &mut GatewayEngines<'_>, event: ServerEvent) {
        match event {
            ServerEvent::Call(call) => self.handle_call(engines, call),
            ServerEvent::Cancelled { call, reason } => {
                self.cancel_list(engines, call);
                self.search.iter_mut().for_each(|search| search.cancel(call));
                self.with_each(engines, |relay, engines| relay.cancel(engines, call, &reason));
            }
            ServerEvent::ParkedCallDropped { state } => {
                if let Some(token) = RetryToken::decode(&state) {
                    self.with(engines, token.upstream(), |relay, engines| {
                        relay.drop_parked_call(engines, token);
                    });
                }
            }
            ServerEvent::SessionOpened { channel, .. } => {
                self.sessions.push(channel);
                self.with_each(engines, |relay, _| relay.sessions.push(channel));
            }
            ServerEvent::Closed { channel, .. } => {
                self.sessions.retain(|other| *other != channel);
                self.with_each(engines, |relay, engines| relay.close_session(engines, channel));
            }
            ServerEvent::Done { call, .. } => {
                let has_asked = |relay: &Relay| relay.upstream_requests.contains_key(&call);
                let asked = self.indices().find(|index| self.relay(*index).is_some_and(has_asked));
                if let Some(upstream) = asked {
                    self.with(engines, upstream, |relay, engines| relay.handle_server_event(engines, event));
                }
            }
            ServerEvent::ResourceInterest { uri, is_subscribed } => {
                self.handle_interest(engines, uri, is_subscribed);
            }
            ServerEvent::Notification(notification)
                if !self.has_policy() || &*notification.method == "notifications/roots/list_changed" =>
            {
                self.with_each(engines, |relay, engines| relay.forward_notification(engines, &notification));
            }
            _ => {}
        }
    }

    /// Handles an event of the engine that faces an upstream.
    pub fn handle_client_event(
        &mut self,
        engines: &mut GatewayEngines<'_>,
        upstream: usize,
        event: ClientEvent,
    ) {
        match event {
            ClientEvent::Done { call, outcome, .. } if self.lists.has_part(upstream, call) => {
                return self.handle_part(engines, upstream, call, outcome);
            }
            ClientEvent::Changed { change: Change::Tools | Change::Prompts | Change::Resources, .. } => {
                self.owners.note_change(upstream);
            }
            _ => {}
        }
        self.with(engines, upstream, |relay, engines| relay.handle_client_event(engines, event));
        self.publish_notices(engines, upstream);
    }

    /// Does the work due once after a batch of events: asks others for resources that an upstream does not know, sends input
    /// requests, subscribes to resources at their owners, sets log levels.
    pub fn process_pending(&mut self, engines: &mut GatewayEngines<'_>) {
        // Asking the next may fail at once. Each time there is one upstream less to ask.
        loop {
            let unfound = self.upstreams.iter_mut().flatten().flat_map(|relay| relay.unfound.drain(..));
            let unfound: Vec<_> = unfound.collect();
            if unfound.is_empty() {
                break;
            }
            for (call, others) in unfound {
                self.ask_next(engines, call, others);
            }
        }
        self.route_if_due(engines);
        self.with_each(engines, |relay, engines| relay.with_catalogue(engines, Catalogue::refresh));
        self.finish_searches(engines);
        self.with_each(engines, Relay::process_pending);
    }

    /// Returns when [`handle_timeout()`](Self::handle_timeout) must be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let relays = self.upstreams.iter().flatten().filter_map(Relay::poll_timeout);
        let searches = self.search.as_ref().and_then(ToolSearch::next_deadline);
        relays.chain(self.lists.next_deadline()).chain(searches).min()
    }

    /// Handles deadlines.
    pub fn handle_timeout(&mut self, engines: &mut GatewayEngines<'_>) {
        self.with_each(engines, |relay, engines| relay.handle_timeout(engines));
        self.finish_late_lists(engines);
    }

    /// Returns the next tool to register with a server over HTTP, with its schema.
    pub fn poll_header_tool(&mut self) -> Option<(String, RawJson)> {
        let removed = self.removed_header_tools.pop();
        removed.or_else(|| self.upstreams.iter_mut().flatten().find_map(Relay::poll_header_tool))
    }

    /// Returns the faults of upstreams since the last call of this function.
    pub fn take_diagnostics(&mut self) -> Vec<Diagnostic> {
        let mut all = core::mem::take(&mut self.diagnostics);
        for relay in self.upstreams.iter_mut().flatten() {
            all.append(&mut relay.take_diagnostics());
        }
        all
    }
}

impl Relay {
    /// Returns the name of the upstream.
    pub(crate) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// Answers all calls with an error, because the upstream is removed. Those that others may answer are left in `unfound`.
    pub(crate) fn retire(&mut self, engines: &mut Engines<'_>, why: &RpcError) {
        for delivery in core::mem::take(&mut self.held_calls) {
            self.fail_delivery(engines, delivery.call, delivery.others, why.clone());
        }
        for (token, relayed) in self.calls.take_rest() {
            // Its client need not answer what it is asked: it retries at once, and is refused.
            recall_inputs(engines, Some(token));
            self.cancel_upstream(engines, &relayed, "the server was removed from the gateway");
            if let DownstreamCall::Delivered(call) = relayed.downstream {
                self.fail_delivery(engines, *call, relayed.others, why.clone());
            }
        }
        for call in core::mem::take(&mut self.upstream_requests).into_keys() {
            let _ = engines.downstream.cancel_request(engines.now, call, Some("the server is gone"));
        }
    }
}

/// Returns the configuration of a server in front of a gateway: with all that upstreams may offer, and notices of changes.
///
/// The driver has to add [keys](server::Config::seal): state of calls that wait for their clients is sealed with them. The engine is to
/// [have tasks](crate::set_tasks).
#[must_use]
pub fn gateway_config(name: &str, version: &str, versions: VersionSet, limits: Limits) -> server::Config {
    config_with(Capability::ToolsListChanged, (name, version), versions, limits)
}

/// Returns the configuration of a server with this capability for tools.
#[expect(deprecated, reason = "supported until its removal")]
pub(crate) fn config_with(
    tools: Capability,
    (name, version): (&str, &str),
    versions: VersionSet,
    limits: Limits,
) -> server::Config {
    let all = [
        tools,
        Capability::PromptsListChanged,
        Capability::ResourcesListChanged,
        Capability::ResourceSubscriptions,
        Capability::Completions,
        Capability::Logging,
        Capability::TasksExtension,
    ];
    let capabilities = all.into_iter().fold(Capabilities::new(), Capabilities::with);
    server::Config::new(name, version)
        .capabilities(capabilities)
        .versions(versions)
        .limits(limits)
        .any_custom_method()
}

/// Maximum number of bytes of the instructions of a gateway. Those of upstreams for which there is no room are left out.
const MAX_JOINED_INSTRUCTIONS: usize = 8 << 10;
/// Maximum number of sentences that wait for the driver.
pub(crate) const MAX_NOTES: usize = 256;
/// Maximum number of upstreams that a gateway has in its life.
pub const MAX_UPSTREAMS: usize = 4_096;
