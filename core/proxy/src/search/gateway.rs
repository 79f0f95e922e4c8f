//! The tools of a gateway behind `search` and `call`.

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;

use mcp_proto::model::Map;
use mcp_proto::server::{self, Call};
use mcp_proto::{Capability, EntryKind, Instant, Limits, RawJson, VersionSet};

use super::answers::{self, LIST, ToolSearch, WaitingCall, Wanted};
use super::catalogue::{Catalogue, IndexedTool};
use crate::convert;
use crate::gateway::{Gateway, GatewayEngines, config_with};
use crate::lists::UNAVAILABLE;
use crate::policy::Decision;
use crate::relay::Relay;
use crate::routing::with_name;

/// What search saves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SearchSize {
    /// Number of tools that are found.
    pub tools: usize,
    /// Tokens that the list of them would take, at 4 bytes each.
    pub tokens: usize,
    /// Tokens that the list of `search` and `call` takes.
    pub shown_tokens: usize,
}

impl SearchSize {
    pub(crate) fn of<'t>(tools: impl IntoIterator<Item = &'t IndexedTool>) -> Self {
        let sizes = tools.into_iter().map(|tool| tool.entry.as_bytes().len() + 1);
        let (tools, bytes) = sizes.fold((0, 0), |(tools, bytes), size| (tools + 1, bytes + size));
        Self { tools, tokens: bytes / BYTES_PER_TOKEN, shown_tokens: LIST.len() / BYTES_PER_TOKEN }
    }
}

impl Gateway {
    /// Shows two tools in place of all: `search` finds tools by a query, `call` calls one by its name. A tool that is not shown can be
    /// called by its own name, too.
    ///
    /// Tools are read from an upstream when it has been started, and when it tells that they have changed, at the times of a
    /// [`ListPace`](mcp_proto::client::ListPace): at most 4,096 tools of 256 KiB, in 8 MiB. A search ranks those that the policy shows
    /// to its client, and waits up to 10 s for those of upstreams that are being started. Clients are not told of changes: their list
    /// stays the same ([`search_gateway_config`]). They need not repeat arguments of tools in header fields.
    #[must_use]
    pub fn with_search(mut self) -> Self {
        self.search = Some(ToolSearch::default());
        self.upstreams.iter_mut().flatten().for_each(Relay::hide_tools);
        self
    }

    /// Returns what search saves; `None` without search, and while tools of an upstream are being read.
    #[must_use]
    pub fn search_size(&self, now: Instant) -> Option<SearchSize> {
        self.search.as_ref()?;
        let relays = || self.upstreams.iter().flatten();
        if relays().any(|relay| relay.is_list_open(now)) {
            return None;
        }
        let catalogues = relays().filter_map(|relay| relay.catalogue.as_ref());
        Some(SearchSize::of(catalogues.flat_map(Catalogue::tools)))
    }

    /// Routes a call, unless it is one of the two tools, or of their list.
    pub(crate) fn handle_search(&mut self, engines: &mut GatewayEngines<'_>, call: Call) {
        if self.search.is_none() {
            return self.route_call(engines, call, None);
        }
        match answers::read(engines.downstream, engines.now, call) {
            Some((call, None)) => self.route_call(engines, call, None),
            Some((call, Some(wanted))) => self.start_search(engines, call, wanted),
            None => {}
        }
    }

    /// Lets a call wait for the tools of upstreams. For those that its client may not learn of nothing is waited for or started, as for
    /// ones that there are not.
    fn start_search(&mut self, engines: &mut GatewayEngines<'_>, call: Call, wanted: Wanted) {
        let is_named = |relay: &Relay| self.is_named(call.caller(), EntryKind::Tool, relay.name());
        let mut open: Vec<usize> = self.indices().collect();
        open.retain(|upstream| self.relay(*upstream).is_some_and(is_named));
        if let Wanted::Tool(name, params) = &wanted {
            let owner = self.owner_of(name);
            // A hidden tool is waited for as one that does not exist, so that times do not tell them apart.
            let is_ready = owner.and_then(|owner| self.relay(owner)).is_some_and(|relay| {
                relay.has_failed_list() || (relay.has_tool(name) && self.is_callable(&call, name, params))
            });
            open.retain(|upstream| Some(*upstream) == owner && !is_ready);
        }
        for upstream in &open {
            self.with(engines, *upstream, |relay, engines| relay.with_catalogue(engines, Catalogue::retry));
        }
        if let Some(search) = &mut self.search {
            search.add(engines.now, call, wanted, open);
        }
    }

    /// Returns whether a name may be one of a tool that the client can use.
    fn is_callable(&self, call: &Call, name: &str, params: &RawJson) -> bool {
        self.owner_of(name).is_some_and(|upstream| {
            // The policy knows the whole name.
            let full = self.full_name(EntryKind::Tool, name);
            let whole = full.as_deref().and_then(|full| with_name(call, Some(params), full));
            let subject = (EntryKind::Tool, full.as_deref().unwrap_or(name));
            let decision = self.decide_use(call, subject, Some(whole.as_ref().unwrap_or(params)), upstream);
            self.relay(upstream).is_some_and(|relay| relay.may_have_tool(name))
                && !matches!(decision, Decision::Hide)
        })
    }

    /// Lets calls go on whose time is over, or that wait for no upstream any more whose tools are to come.
    pub(crate) fn finish_searches(&mut self, engines: &mut GatewayEngines<'_>) {
        let Some(search) = &mut self.search else { return };
        let (relays, now) = (&self.upstreams, engines.now);
        let is_open =
            |index: usize| matches!(relays.get(index), Some(Some(relay)) if relay.is_list_open(now));
        let over = search.take_over(now, is_open);
        let mut shortened = Vec::new();
        for (index, relay) in self.upstreams.iter_mut().enumerate() {
            let Some(relay) = relay else { continue };
            relay.is_searched = search.awaits(index);
            let names = relay.catalogue.as_mut().map(|catalogue| core::mem::take(&mut catalogue.shortened));
            shortened.extend(names.into_iter().flatten());
        }
        for full in shortened {
            self.shown_name(full, true);
        }
        for waiting in over {
            self.go_on(engines, waiting);
        }
    }

    /// Answers a search without the upstreams that are still open, or relays a call.
    fn go_on(&mut self, engines: &mut GatewayEngines<'_>, waiting: WaitingCall) {
        let WaitingCall { call, wanted, open, .. } = waiting;
        match wanted {
            Wanted::Tool(name, params) if self.is_callable(&call, &name, &params) => {
                self.route_call(engines, call, Some(params));
            }
            wanted => {
                let tools = self.visible_tools(engines.now, &call);
                let tools: Vec<&IndexedTool> = tools.iter().map(|tool| &**tool).collect();
                let mut result = answers::result(&wanted, &tools);
                let unavailable = self.unavailable(engines.now, &call, &open);
                if matches!(wanted, Wanted::Tools(_)) && !unavailable.is_empty() {
                    result.meta = RawJson::encode(&Map::from([(UNAVAILABLE, unavailable)])).ok();
                }
                answers::answer(engines.downstream, engines.now, &call, &result);
            }
        }
    }

    /// Returns why tools of some upstreams are not found, by their names.
    fn unavailable(&self, now: Instant, call: &Call, open: &BTreeSet<usize>) -> Map<String> {
        let mut unavailable = Map::new();
        for upstream in self.indices() {
            let Some(relay) = self.relay(upstream) else { continue };
            let catalogue = relay.catalogue.as_ref().filter(|catalogue| catalogue.tools().is_empty());
            let reason = match (relay.life.absence(now), catalogue.and_then(Catalogue::failure)) {
                (Some(reason), _) => reason,
                (None, _) if open.contains(&upstream) => "no answer in time",
                (None, Some(reason)) => reason,
                (None, None) => continue,
            };
            if self.is_named(call.caller(), EntryKind::Tool, relay.name()) {
                unavailable.insert(relay.name(), reason.to_owned());
            }
        }
        unavailable
    }

    /// Returns the tools that a client may see, in the order of upstreams, without those of upstreams that have failed.
    fn visible_tools(&self, now: Instant, call: &Call) -> Vec<Cow<'_, IndexedTool>> {
        let mut visible = Vec::new();
        let present = self.upstreams.iter().flatten().filter(|relay| relay.life.absence(now).is_none());
        for relay in present {
            for tool in relay.catalogue.iter().flat_map(Catalogue::tools) {
                let entry = (EntryKind::Tool, &*tool.name, &tool.entry);
                match self.decide_listed(call.caller(), relay.name(), entry) {
                    Decision::Allow => visible.push(Cow::Borrowed(tool)),
                    Decision::Rewrite(entry) => {
                        let prefix = relay.prefix.as_deref().unwrap_or_default();
                        let name = RawJson::encode(&tool.name).ok();
                        let entry = convert::with_member(&entry, "name", name);
                        let tool = entry.and_then(|entry| IndexedTool::new(prefix, &entry));
                        visible.extend(tool.map(Cow::Owned));
                    }
                    Decision::Hide | Decision::Refuse(_) => {}
                }
            }
        }
        visible
    }
}

/// Returns the configuration of a server in front of a gateway [with search](Gateway::with_search): as that of
/// [`gateway_config`](crate::gateway_config), but the list of tools never changes.
#[must_use]
pub fn search_gateway_config(
    name: &str,
    version: &str,
    versions: VersionSet,
    limits: Limits,
) -> server::Config {
    config_with(Capability::Tools, (name, version), versions, limits)
}

/// Bytes of a list that are counted as one token.
const BYTES_PER_TOKEN: usize = 4;
