//! The tools of a gateway behind `search` and `call`.

use alloc::collections::{BTreeMap, BTreeSet};

use mcp_proto::model::{CallToolResult, Map};
use mcp_proto::server::{self, Call};
use mcp_proto::{CallError, CallId, CallKey, Capability, EntryKind, Instant, Limits, RawJson, VersionSet};

use super::answers::{self, CALL, LIST, Query, SEARCH, Wanted};
use super::catalogue::{Catalogue, IndexedTool};
use crate::convert;
use crate::gateway::{Gateway, GatewayEngines, config_with};
use crate::lists::{LIST_TIMEOUT, UNAVAILABLE};
use crate::names;
use crate::policy::{Access, Decision};
use crate::routing::refuse;

/// Catalogues of all upstreams, and the calls that wait for some of them.
#[derive(Debug, Default)]
pub(crate) struct ToolSearch {
    catalogues: BTreeMap<usize, Catalogue>,
    waiting: BTreeMap<CallId, WaitingCall>,
}

/// A call that waits. Their number is bounded by [`mcp_proto::Limits::max_live_calls`].
#[derive(Debug)]
struct WaitingCall {
    call: Call,
    wanted: Wanted,
    deadline: Instant,
    /// Upstreams whose catalogues are not read yet.
    open: BTreeSet<usize>,
}

impl ToolSearch {
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let reads = self.catalogues.values().filter_map(Catalogue::next_read);
        self.waiting.values().map(|search| search.deadline).chain(reads).min()
    }
}

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

/// A call of a client that goes to an upstream, perhaps with parameters in place of its own.
pub(crate) type RoutedCall = (Call, Option<RawJson>);

impl Gateway {
    /// Shows two tools in place of all: `search` finds tools by a query, `call` calls one by its name. A tool that is not shown can be
    /// called by its own name, too.
    ///
    /// Tools are read from an upstream when it has been started, and when it tells that they have changed, at the times of a
    /// [`ListPace`](mcp_proto::client::ListPace): at most 4,096 tools of 256 KiB, in 8 MiB. A search ranks those that the policy shows to its client, and waits up to [`LIST_TIMEOUT`] for those of
    /// upstreams that are being started. Clients are not told of changes: their list stays the same
    /// ([`search_gateway_config`]). They need not repeat arguments of tools in header fields.
    #[must_use]
    pub fn with_search(mut self) -> Self {
        self.search = Some(ToolSearch::default());
        for relay in self.upstreams.iter_mut().flatten() {
            relay.hides_tools = true;
        }
        self
    }

    /// Returns what search saves; `None` without search, and while tools of an upstream are being read.
    #[must_use]
    pub fn search_size(&self, now: Instant) -> Option<SearchSize> {
        let search = self.search.as_ref()?;
        if self.indices().any(|upstream| self.is_open(now, upstream)) {
            return None;
        }
        Some(SearchSize::of(search.catalogues.values().flat_map(Catalogue::tools)))
    }

    /// Returns whether the catalogue of an upstream is to come.
    fn is_open(&self, now: Instant, upstream: usize) -> bool {
        let Some(relay) = self.relay(upstream) else { return false };
        match self.search.as_ref().and_then(|search| search.catalogues.get(&upstream)) {
            Some(catalogue) if catalogue.is_reading() => true,
            Some(catalogue) if catalogue.is_known() || catalogue.failure().is_some() => false,
            _ => relay.life.absence(now).is_none(),
        }
    }

    // ---- catalogues ------------------------------------------------------------------------------------------

    /// Calls a function with the catalogue of an upstream and its engine, if there is search.
    fn with_catalogue(
        &mut self,
        engines: &mut GatewayEngines<'_>,
        upstream: usize,
        act: impl FnOnce(&mut Catalogue, crate::UpstreamEngine<'_>),
    ) {
        let name = self.relay(upstream).map(|relay| format!("{}_", relay.name()));
        let (Some(search), Some(prefix)) = (&mut self.search, name) else { return };
        let Some(engine) = engines.upstreams.engine(upstream) else { return };
        act(search.catalogues.entry(upstream).or_insert_with(|| Catalogue::new(&prefix)), engine);
    }

    /// Reads the tools of an upstream that was started.
    pub(crate) fn read_tools(&mut self, engines: &mut GatewayEngines<'_>, upstream: usize) {
        if let Some(Some(relay)) = self.upstreams.get_mut(upstream) {
            relay.tools_changed = false;
        }
        self.read_catalogue(engines, upstream);
        self.close_read(engines, upstream);
    }

    fn read_catalogue(&mut self, engines: &mut GatewayEngines<'_>, upstream: usize) {
        let now = engines.now;
        self.with_catalogue(engines, upstream, |catalogue, engine| catalogue.read(now, engine));
    }

    /// Reads the tools again of upstreams that have told that they have changed, when the time for that has come.
    pub(crate) fn refresh_tools(&mut self, engines: &mut GatewayEngines<'_>) {
        let mut read = Vec::new();
        for (upstream, catalogue) in self.search.iter_mut().flat_map(|search| &mut search.catalogues) {
            let relay = self.upstreams.get_mut(*upstream).and_then(Option::as_mut);
            let relay = relay.filter(|relay| relay.life.is_running());
            let has_changed = relay.map(|relay| core::mem::take(&mut relay.tools_changed));
            let engine = has_changed.and_then(|_| engines.upstreams.engine(*upstream));
            if catalogue.refresh(engines.now, has_changed == Some(true), engine) {
                read.push(*upstream);
            }
        }
        for upstream in read {
            self.close_read(engines, upstream);
        }
    }

    /// Returns whether a call of an upstream reads its tools.
    pub(crate) fn reads_tools(&self, upstream: usize, call: CallKey) -> bool {
        let catalogue = self.search.as_ref().and_then(|search| search.catalogues.get(&upstream));
        catalogue.is_some_and(|catalogue| catalogue.has_call(call))
    }

    pub(crate) fn handle_tools(
        &mut self,
        engines: &mut GatewayEngines<'_>,
        upstream: usize,
        outcome: Result<RawJson, CallError>,
    ) {
        self.with_catalogue(engines, upstream, |catalogue, engine| catalogue.handle_page(outcome, engine));
        self.close_read(engines, upstream);
    }

    /// Forgets the tools of an upstream that was removed.
    pub(crate) fn forget_tools(&mut self, engines: &mut GatewayEngines<'_>, upstream: usize) {
        self.close_searches(engines, upstream);
        if let Some(search) = &mut self.search {
            search.catalogues.remove(&upstream);
        }
    }

    /// Lets searches go on without waiting for an upstream, if its tools are no longer being read.
    fn close_read(&mut self, engines: &mut GatewayEngines<'_>, upstream: usize) {
        let catalogue = self.search.as_ref().and_then(|search| search.catalogues.get(&upstream));
        let Some(catalogue) = catalogue.filter(|catalogue| !catalogue.is_reading()) else { return };
        let long = catalogue.tools().iter().filter(|tool| !tool.shown.ends_with(&tool.name));
        let long: Vec<String> = long.map(|tool| tool.name.clone()).collect();
        let owner = self.relay(upstream).map(|relay| relay.name().to_owned()).unwrap_or_default();
        for name in long {
            self.shown_name(&owner, &name);
        }
        self.close_searches(engines, upstream);
    }

    // ---- searches --------------------------------------------------------------------------------------------

    /// Answers a call of one of the two tools, or of their list. Returns any other one, and what `call` is to call.
    pub(crate) fn handle_search(
        &mut self,
        engines: &mut GatewayEngines<'_>,
        call: Call,
    ) -> Option<RoutedCall> {
        if self.search.is_none() {
            return Some((call, None));
        }
        if call.method() == EntryKind::Tool.list_method() {
            answers::answer_list(engines.downstream, engines.now, &call);
            return None;
        }
        match call.tool_call().map(|tool| tool.name.into_owned()).as_deref() {
            Ok(SEARCH) if call.method() == "tools/call" => {
                match answers::query(&call) {
                    Ok(query) => self.start_search(engines, call, query),
                    Err(why) => {
                        answers::answer(engines.downstream, engines.now, &call, &CallToolResult::error(why))
                    }
                }
                None
            }
            Ok(CALL) if call.method() == "tools/call" => match answers::called(&call) {
                Ok((name, params)) => {
                    let upstream = names::split(&name).and_then(|(upstream, _)| self.by_name(upstream));
                    // A hidden tool is waited for as one that does not exist, so that times do not tell them apart.
                    let open = upstream.filter(|upstream| {
                        self.is_open(engines.now, *upstream)
                            && self.is_named_upstream(&call, *upstream)
                            && !(self.has_tool(*upstream, &name) && self.is_callable(&call, &name, &params))
                    });
                    self.wait_for(engines, call, Wanted::Tool(name, params), open.into_iter().collect());
                    None
                }
                Err(why) => {
                    answers::answer(engines.downstream, engines.now, &call, &CallToolResult::error(why));
                    None
                }
            },
            _ => Some((call, None)),
        }
    }

    /// Returns whether the client may learn of an upstream. For any other nothing is waited for or started, as for one that there is not.
    fn is_named_upstream(&self, call: &Call, upstream: usize) -> bool {
        self.relay(upstream).is_some_and(|relay| self.is_named(call.caller(), EntryKind::Tool, relay.name()))
    }

    fn has_tool(&self, upstream: usize, name: &str) -> bool {
        let catalogue = self.search.as_ref().and_then(|search| search.catalogues.get(&upstream));
        catalogue.is_some_and(|catalogue| catalogue.has_tool(name))
    }

    /// Returns whether a name may be one of a tool that the client can use.
    fn is_callable(&self, call: &Call, name: &str, params: &RawJson) -> bool {
        let upstream = names::split(name).and_then(|(upstream, _)| self.by_name(upstream));
        let (Some(upstream), Some(search)) = (upstream, &self.search) else { return false };
        let is_known = self.has_tool(upstream, name)
            || search.catalogues.get(&upstream).is_none_or(Catalogue::may_have_others);
        let decision = self.decide_use(call, (EntryKind::Tool, name), Some(params), upstream);
        is_known && !matches!(decision, Decision::Hide)
    }

    fn start_search(&mut self, engines: &mut GatewayEngines<'_>, call: Call, query: Query) {
        let mut open = BTreeSet::new();
        for upstream in self.indices() {
            if !self.is_named_upstream(&call, upstream) {
                continue;
            }
            let catalogue = self.search.as_ref().and_then(|search| search.catalogues.get(&upstream));
            if catalogue.is_some_and(|catalogue| catalogue.failure().is_some()) && self.is_running(upstream) {
                self.read_catalogue(engines, upstream);
            }
            let catalogue = self.search.as_ref().and_then(|search| search.catalogues.get(&upstream));
            // One that failed with its upstream is read at the next start, which the search asks for.
            let is_to_start = catalogue.is_none_or(|catalogue| !catalogue.is_known())
                && !self.is_running(upstream)
                && self.relay(upstream).is_some_and(|relay| relay.life.absence(engines.now).is_none());
            if is_to_start || self.is_open(engines.now, upstream) {
                open.insert(upstream);
            }
        }
        self.wait_for(engines, call, Wanted::Tools(query), open);
    }

    /// Lets a call wait for the catalogues of some upstreams, which are in use meanwhile.
    fn wait_for(
        &mut self,
        engines: &mut GatewayEngines<'_>,
        call: Call,
        wanted: Wanted,
        open: BTreeSet<usize>,
    ) {
        for upstream in &open {
            self.count_use(*upstream, false, true);
        }
        let (id, deadline) = (call.id(), engines.now + LIST_TIMEOUT);
        if let Some(search) = &mut self.search {
            search.waiting.insert(id, WaitingCall { call, wanted, deadline, open });
        }
        self.finish_if_read(engines, id);
    }

    /// Lets calls go on without waiting for an upstream.
    pub(crate) fn close_searches(&mut self, engines: &mut GatewayEngines<'_>, upstream: usize) {
        let Some(search) = &mut self.search else { return };
        let waiting =
            search.waiting.iter_mut().filter_map(|(id, search)| search.open.remove(&upstream).then_some(*id));
        for id in waiting.collect::<Vec<_>>() {
            self.count_use(upstream, true, false);
            self.finish_if_read(engines, id);
        }
    }

    /// Forgets a waiting call that its client has cancelled, if the call is one.
    pub(crate) fn cancel_search(&mut self, id: CallId) {
        let _ = self.take_search(id);
    }

    /// Lets calls go on whose time is over, without the upstreams that have not answered.
    pub(crate) fn finish_late_searches(&mut self, engines: &mut GatewayEngines<'_>) {
        let waiting = self.search.iter().flat_map(|search| search.waiting.iter());
        let late = waiting.filter(|(_, search)| search.deadline <= engines.now).map(|(id, _)| *id);
        for id in late.collect::<Vec<_>>() {
            self.go_on(engines, id);
        }
    }

    fn finish_if_read(&mut self, engines: &mut GatewayEngines<'_>, id: CallId) {
        let search = self.search.as_ref().and_then(|search| search.waiting.get(&id));
        if search.is_some_and(|search| search.open.is_empty()) {
            self.go_on(engines, id);
        }
    }

    /// Answers a search, or relays a call.
    fn go_on(&mut self, engines: &mut GatewayEngines<'_>, id: CallId) {
        let Some(WaitingCall { call, wanted, open, .. }) = self.take_search(id) else { return };
        match wanted {
            Wanted::Tools(query) => self.answer_search(engines, &call, &query, &open),
            Wanted::Tool(name, params) if self.is_callable(&call, &name, &params) => {
                self.route_call(engines, call, Some(params));
            }
            Wanted::Tool(name, _) => {
                let tools = self.visible_tools(engines.now, &call);
                let tools: Vec<&IndexedTool> = tools.iter().map(VisibleTool::get).collect();
                answers::answer(
                    engines.downstream,
                    engines.now,
                    &call,
                    &CallToolResult::error(answers::unknown(&name, &tools)),
                );
            }
        }
    }

    fn take_search(&mut self, id: CallId) -> Option<WaitingCall> {
        let search = self.search.as_mut()?.waiting.remove(&id)?;
        for upstream in &search.open {
            self.count_use(*upstream, true, false);
        }
        Some(search)
    }

    /// Answers a search without the upstreams that are still open.
    fn answer_search(
        &self,
        engines: &mut GatewayEngines<'_>,
        call: &Call,
        query: &Query,
        open: &BTreeSet<usize>,
    ) {
        let tools = self.visible_tools(engines.now, call);
        let tools: Vec<&IndexedTool> = tools.iter().map(VisibleTool::get).collect();
        let found = match answers::found(query, &tools) {
            Ok(found) => found,
            Err(error) => {
                return refuse(engines, call, &convert::unreadable_result_error(&error));
            }
        };
        let mut result = CallToolResult::structured(found);
        let unavailable = self.unavailable(engines.now, call, open);
        if !unavailable.is_empty() {
            result.meta = RawJson::encode(&Map::from([(UNAVAILABLE, unavailable)])).ok();
        }
        answers::answer(engines.downstream, engines.now, call, &result);
    }

    /// Returns why tools of some upstreams are not found, by their names.
    fn unavailable(&self, now: Instant, call: &Call, open: &BTreeSet<usize>) -> Map<String> {
        let mut unavailable = Map::new();
        for upstream in self.indices() {
            let catalogue = self.search.as_ref().and_then(|search| search.catalogues.get(&upstream));
            let Some(relay) = self.relay(upstream) else { continue };
            let reason = match (relay.life.absence(now), catalogue) {
                (Some(reason), _) => reason,
                (None, _) if open.contains(&upstream) => "no answer in time",
                (None, Some(catalogue)) => match catalogue.failure() {
                    Some(reason) if catalogue.tools().is_empty() => reason,
                    _ => continue,
                },
                (None, None) => "it could not be started",
            };
            if self.is_named(call.caller(), EntryKind::Tool, relay.name()) {
                unavailable.insert(relay.name(), reason.to_owned());
            }
        }
        unavailable
    }

    /// Returns the tools that a client may see, in the order of upstreams, without those of upstreams that have failed.
    fn visible_tools(&self, now: Instant, call: &Call) -> Vec<VisibleTool<'_>> {
        let mut visible = Vec::new();
        for (upstream, catalogue) in self.search.iter().flat_map(|search| &search.catalogues) {
            let Some(relay) = self.relay(*upstream) else { continue };
            if relay.life.absence(now).is_some() {
                continue;
            }
            if !self.has_policy() {
                visible.extend(catalogue.tools().iter().map(VisibleTool::Listed));
                continue;
            }
            for tool in catalogue.tools() {
                let access = Access {
                    caller: call.caller(),
                    upstream: relay.name(),
                    kind: EntryKind::Tool,
                    name: &tool.name,
                    payload: &tool.entry,
                    is_use: false,
                };
                match self.decide(&access) {
                    Decision::Allow => visible.push(VisibleTool::Listed(tool)),
                    Decision::Rewrite(entry) => {
                        let prefix = format!("{}_", relay.name());
                        let name = RawJson::encode(&tool.name).ok();
                        let entry = convert::with_member(&entry, "name", name);
                        let tool = entry.and_then(|entry| IndexedTool::new(&prefix, &entry));
                        visible.extend(tool.map(VisibleTool::Rewritten));
                    }
                    Decision::Hide | Decision::Refuse(_) => {}
                }
            }
        }
        visible
    }
}

/// A tool as a client may see it.
enum VisibleTool<'t> {
    Listed(&'t IndexedTool),
    Rewritten(IndexedTool),
}

impl VisibleTool<'_> {
    const fn get(&self) -> &IndexedTool {
        match self {
            Self::Listed(tool) => tool,
            Self::Rewritten(tool) => tool,
        }
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
