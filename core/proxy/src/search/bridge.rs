//! The tools of one server behind `search` and `call`: those of a bridge, and the catalogue of an upstream of a gateway.

use mcp_proto::model::CallToolResult;
use mcp_proto::server::{self, Call};
use mcp_proto::{CallKey, Capability, Instant, Limits, RawJson, VersionSet, client};

use super::answers::{self, ToolSearch, WaitingCall, Wanted};
use super::catalogue::{Catalogue, IndexedTool};
use super::gateway::SearchSize;
use crate::gateway::UpstreamEngine;
use crate::relay::{Engines, Relay, server_config};
use crate::relayed_call::Delivery;

impl Relay {
    /// Shows two tools in place of those of the server, as [`Gateway::with_search`](crate::Gateway::with_search) does. They precede tools
    /// of the server with their names, which can be called by `call`.
    #[must_use]
    pub fn with_search(mut self) -> Self {
        self.search = Some(ToolSearch::default());
        self.hide_tools();
        self
    }

    /// Returns what search saves; `None` without search, and while the tools of the server are being read.
    #[must_use]
    pub fn search_size(&self) -> Option<SearchSize> {
        let catalogue = self.catalogue.as_ref().filter(|catalogue| catalogue.is_known())?;
        Some(SearchSize::of(catalogue.tools()))
    }

    // ---- catalogue -------------------------------------------------------------------------------------------

    /// Reads the tools of the server for searches, and tells no client when they change.
    pub(crate) fn hide_tools(&mut self) {
        self.catalogue = Some(Catalogue::new(self.prefix.as_deref().unwrap_or_default()));
    }

    /// Returns whether the tools of the server are to come.
    pub(crate) fn is_list_open(&self, now: Instant) -> bool {
        self.catalogue.as_ref().is_some_and(|catalogue| {
            catalogue.is_reading() || (catalogue.awaits_start() && self.life.absence(now).is_none())
        })
    }

    /// Returns whether the last attempt to read the tools has failed, so that what is called may be one.
    pub(crate) fn has_failed_list(&self) -> bool {
        self.catalogue.as_ref().is_some_and(|catalogue| catalogue.failure().is_some())
    }

    /// Returns whether a tool of the server has this name for clients.
    pub(crate) fn has_tool(&self, shown: &str) -> bool {
        self.catalogue.as_ref().is_some_and(|catalogue| catalogue.has_tool(shown))
    }

    /// Returns whether a name may be one of a tool of the server.
    pub(crate) fn may_have_tool(&self, shown: &str) -> bool {
        self.catalogue.as_ref().is_some_and(Catalogue::may_have_others) || self.has_tool(shown)
    }

    /// Calls a function with the catalogue, if there is one, the time, and the engine of the server, if that runs.
    pub(crate) fn with_catalogue(
        &mut self,
        engines: &mut Engines<'_>,
        act: impl FnOnce(&mut Catalogue, Instant, Option<UpstreamEngine<'_>>),
    ) {
        let upstream = UpstreamEngine { now: engines.upstream_now, engine: engines.upstream };
        if let Some(catalogue) = &mut self.catalogue {
            act(catalogue, engines.now, Some(upstream).filter(|_| self.life.is_running()));
        }
    }

    /// Returns whether a call to the server reads its tools.
    pub(crate) fn reads_tools(&self, call: CallKey) -> bool {
        self.catalogue.as_ref().is_some_and(|catalogue| catalogue.has_call(call))
    }

    // ---- bridge ----------------------------------------------------------------------------------------------

    /// Relays a call, unless it is one of the two tools, or of their list.
    pub(crate) fn handle_new_call(&mut self, engines: &mut Engines<'_>, call: Call) {
        if self.search.is_none() {
            return self.handle_call(engines, call.into());
        }
        match answers::read(engines.downstream, engines.now, call) {
            Some((call, None)) => self.handle_call(engines, call.into()),
            Some((call, Some(wanted))) => {
                let is_ready =
                    matches!(&wanted, Wanted::Tool(name, _) if self.has_failed_list() || self.has_tool(name));
                if !is_ready {
                    self.with_catalogue(engines, Catalogue::retry);
                }
                if let Some(search) = &mut self.search {
                    search.add(engines.now, call, wanted, Some(0).filter(|_| !is_ready));
                }
            }
            None => {}
        }
    }

    /// Lets calls go on whose time is over, or all if the tools are known or are not to come.
    pub(crate) fn finish_searches(&mut self, engines: &mut Engines<'_>) {
        let is_open = self.is_list_open(engines.now);
        let Some(search) = &mut self.search else { return };
        let over = search.take_over(engines.now, |_| is_open);
        self.is_searched = search.awaits(0);
        for waiting in over {
            self.go_on(engines, waiting);
        }
    }

    fn go_on(&mut self, engines: &mut Engines<'_>, waiting: WaitingCall) {
        let WaitingCall { call, wanted, .. } = waiting;
        match wanted {
            Wanted::Tool(name, params) if self.may_have_tool(&name) => {
                self.handle_call(engines, Delivery { call, params: Some(params), others: None });
            }
            wanted => {
                let catalogue = self.catalogue.as_ref();
                let tools: Vec<&IndexedTool> =
                    catalogue.iter().flat_map(|catalogue| catalogue.tools()).collect();
                let failure = catalogue.and_then(Catalogue::failure).filter(|_| tools.is_empty());
                let failure = self.life.absence(engines.now).or(failure);
                let result = match failure.filter(|_| matches!(wanted, Wanted::Tools(_))) {
                    Some(why) => CallToolResult::error(why.to_owned()),
                    None => answers::result(&wanted, &tools),
                };
                answers::answer(engines.downstream, engines.now, &call, &result);
            }
        }
    }
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
