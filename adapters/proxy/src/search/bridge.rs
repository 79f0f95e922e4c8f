//! The tools of the server of a bridge behind `search` and `call`.

use mcp_proto::model::CallToolResult;
use mcp_proto::server::{self, Call};
use mcp_proto::{
    CallError, CallId, CallKey, Capability, EntryKind, Instant, Limits, RawJson, VersionSet, client,
};

use super::answers::{self, CALL, Query, SEARCH, Wanted};
use super::catalogue::{Catalogue, IndexedTool};
use super::gateway::SearchSize;
use crate::gateway::UpstreamEngine;
use crate::lists::LIST_TIMEOUT;
use crate::relay::{Engines, Relay, server_config};
use crate::relayed_call::Delivery;

/// The tools of a server, and the calls that wait for them. The number of these is bounded by [`mcp_proto::Limits::max_live_calls`].
#[derive(Debug)]
pub(crate) struct RelaySearch {
    catalogue: Catalogue,
    waiting: Vec<(Call, Wanted, Instant)>,
}

impl RelaySearch {
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.waiting.iter().map(|(_, _, deadline)| *deadline).chain(self.catalogue.next_read()).min()
    }
}

impl Relay {
    /// Shows two tools in place of those of the server, as [`Gateway::with_search`](crate::Gateway::with_search) does. They precede tools
    /// of the server with their names, which can be called by `call`.
    #[must_use]
    pub fn with_search(mut self) -> Self {
        self.search = Some(RelaySearch { catalogue: Catalogue::new(""), waiting: Vec::new() });
        // To be read at first.
        (self.hides_tools, self.tools_changed) = (true, true);
        self
    }

    /// Returns what search saves; `None` without search, and while the tools of the server are being read.
    #[must_use]
    pub fn search_size(&self) -> Option<SearchSize> {
        let search = self.search.as_ref().filter(|search| search.catalogue.is_known())?;
        Some(SearchSize::of(search.catalogue.tools()))
    }

    /// Returns whether the tools of the server are to come.
    fn is_list_open(&self, now: Instant) -> bool {
        let Some(search) = &self.search else { return false };
        let is_to_come = if self.life.is_running() {
            self.tools_changed || search.catalogue.is_reading()
        } else {
            self.life.absence(now).is_none()
        };
        is_to_come && !search.catalogue.is_known()
    }

    // ---- upstream --------------------------------------------------------------------------------------------

    /// Reads the tools of a server that was started.
    pub(crate) fn read_tools(&mut self, engines: &mut Engines<'_>) {
        let Some(search) = &mut self.search else { return };
        self.tools_changed = false;
        search.catalogue.read(engines.now, upstream_of(engines));
        self.finish_searches(engines);
    }

    /// Reads the tools again if the server has told that they have changed, when the time for that has come.
    pub(crate) fn refresh_tools(&mut self, engines: &mut Engines<'_>) {
        let Some(search) = &mut self.search else { return };
        let is_running = self.life.is_running();
        let has_changed = is_running && core::mem::take(&mut self.tools_changed);
        let (now, upstream) = (engines.now, is_running.then(|| upstream_of(engines)));
        if search.catalogue.refresh(now, has_changed, upstream) {
            self.finish_searches(engines);
        }
    }

    /// Returns whether a call to the server reads its tools.
    pub(crate) fn reads_tools(&self, call: CallKey) -> bool {
        self.search.as_ref().is_some_and(|search| search.catalogue.has_call(call))
    }

    pub(crate) fn handle_tools(&mut self, engines: &mut Engines<'_>, outcome: Result<RawJson, CallError>) {
        let Some(search) = &mut self.search else { return };
        search.catalogue.handle_page(outcome, upstream_of(engines));
        self.finish_searches(engines);
    }

    // ---- downstream ------------------------------------------------------------------------------------------

    /// Answers a call of one of the two tools, or of their list. Returns any other one, to be relayed.
    pub(crate) fn handle_search(&mut self, engines: &mut Engines<'_>, call: Call) -> Option<Delivery> {
        if self.search.is_none() {
            return Some(call.into());
        }
        if call.method() == EntryKind::Tool.list_method() {
            answers::answer_list(engines.downstream, engines.now, &call);
            return None;
        }
        let name = call.tool_call().map(|tool| tool.name.into_owned());
        let wanted = match name.as_deref().map(|name| (call.method(), name)) {
            Ok(("tools/call", SEARCH)) => answers::query(&call).map(Wanted::Tools),
            Ok(("tools/call", CALL)) => {
                answers::called(&call).map(|(name, params)| Wanted::Tool(name, params))
            }
            _ => return Some(call.into()),
        };
        match wanted {
            Ok(wanted) => self.wait_for_tools(engines, call, wanted),
            Err(why) => answers::answer(engines.downstream, engines.now, &call, &CallToolResult::error(why)),
        }
        None
    }

    /// Lets a call wait for the tools of the server, which is in use meanwhile.
    fn wait_for_tools(&mut self, engines: &mut Engines<'_>, call: Call, wanted: Wanted) {
        let is_search = matches!(wanted, Wanted::Tools(_));
        let Some(search) = &mut self.search else { return };
        // An attempt that failed is made again.
        if is_search && self.life.is_running() && search.catalogue.failure().is_some() {
            search.catalogue.read(engines.now, upstream_of(engines));
        }
        search.waiting.push((call, wanted, engines.now + LIST_TIMEOUT));
        self.listing += 1;
        self.finish_searches(engines);
    }

    /// Lets calls go on whose time is over, or all if the tools are known or are not to come.
    pub(crate) fn finish_searches(&mut self, engines: &mut Engines<'_>) {
        let is_open = self.is_list_open(engines.now);
        let Some(search) = &mut self.search else { return };
        let (catalogue, now) = (&search.catalogue, engines.now);
        let is_over = |(_, wanted, deadline): &(Call, Wanted, Instant)| {
            let is_known = matches!(wanted, Wanted::Tool(name, _) if catalogue.has_tool(name));
            !is_open || is_known || *deadline <= now
        };
        let (over, waiting) = core::mem::take(&mut search.waiting).into_iter().partition(is_over);
        search.waiting = waiting;
        let over: Vec<_> = over;
        for (call, wanted, _) in over {
            self.listing -= 1;
            self.go_on(engines, call, wanted);
        }
    }

    /// Lets all calls go on, because the server could not be started.
    pub(crate) fn give_searches_up(&mut self, engines: &mut Engines<'_>) {
        let Some(search) = &mut self.search else { return };
        for (call, wanted, _) in core::mem::take(&mut search.waiting) {
            self.listing -= 1;
            self.go_on(engines, call, wanted);
        }
    }

    /// Forgets a waiting call that its client has cancelled, if the call is one.
    pub(crate) fn cancel_search(&mut self, id: CallId) {
        let Some(search) = &mut self.search else { return };
        let before = search.waiting.len();
        search.waiting.retain(|(call, _, _)| call.id() != id);
        self.listing -= before - search.waiting.len();
    }

    fn go_on(&mut self, engines: &mut Engines<'_>, call: Call, wanted: Wanted) {
        let Some(search) = &self.search else { return };
        let tools: Vec<&IndexedTool> = search.catalogue.tools().iter().collect();
        let result = match wanted {
            Wanted::Tools(query) => self.found(engines.now, &query, &tools),
            Wanted::Tool(name, params) => {
                if search.catalogue.has_tool(&name) || search.catalogue.may_have_others() {
                    let delivery = Delivery { call, params: Some(params), others: None };
                    return self.handle_call(engines, delivery);
                }
                CallToolResult::error(answers::unknown(&name, &tools))
            }
        };
        answers::answer(engines.downstream, engines.now, &call, &result);
    }

    fn found(&self, now: Instant, query: &Query, tools: &[&IndexedTool]) -> CallToolResult<'static> {
        let failure = self.search.as_ref().and_then(|search| search.catalogue.failure());
        let failure = failure.filter(|_| tools.is_empty()).or_else(|| self.life.absence(now));
        match (failure, answers::found(query, tools)) {
            (Some(why), _) => CallToolResult::error(why.to_owned()),
            (None, Ok(found)) => CallToolResult::structured(found),
            (None, Err(error)) => CallToolResult::error(error.to_string()),
        }
    }
}

const fn upstream_of<'e>(engines: &'e mut Engines<'_>) -> UpstreamEngine<'e> {
    UpstreamEngine { now: engines.upstream_now, engine: engines.upstream }
}

/// Returns the configuration of the server that represents the connected one [with search](Relay::with_search): as that of
/// [`server_config`], but the list of tools never changes.
pub fn search_server_config(peer: &client::Peer, versions: VersionSet, limits: Limits) -> server::Config {
    let mut peer = peer.clone();
    if peer.has(Capability::Tools) {
        peer.capabilities =
            crate::convert::with_member(&peer.capabilities, "tools", Some(RawJson::empty_object()))
                .unwrap_or(peer.capabilities);
    }
    server_config(&peer, versions, limits)
}
