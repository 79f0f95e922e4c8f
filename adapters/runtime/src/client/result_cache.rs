//! Results of the server that a client remembers: cached results, output schemas of tools, and which run as tasks.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::sync::Mutex;

use mcp_std::sync::lock;
use std::time::Instant as StdInstant;

use crate::SharedCache;
use mcp_extensions::pins::Pins;
use mcp_proto::Change;
use mcp_proto::CustomList;
use mcp_proto::EntryKind;
use mcp_proto::RawJson;
use mcp_proto::UseError;
use mcp_proto::client::{
    AppTools, CacheKey, CacheScope, CacheTicket, Config, OutputMismatch, OutputSchemas, Peer, TaskRequest,
    ToolTasks,
};

/// Settings for the cache of results.
#[derive(Clone, Debug, Default)]
pub struct CacheOptions {
    /// The cache.
    pub cache: SharedCache,
    /// Name of the server in the cache, chosen by the application.
    pub server: String,
    /// Name of the principal on whose behalf the client acts.
    pub principal: String,
    /// Lifetime of lists of legacy servers. `None` disables caching for these servers.
    pub legacy_ttl: Option<Duration>,
}

/// Cached results and output schemas of one connection. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ResultCache(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    cache: Option<(SharedCache, CacheScope)>,
    /// Output schemas that results of tools are checked against.
    schemas: Option<OutputSchemas>,
    /// Tools that apps may call; `None` before an app has called one.
    app_tools: Option<AppTools>,
    /// Number of changes of the list of tools, and of sessions that were lost.
    tools_generation: u64,
    /// The server, and its tools that run as tasks, if calls may become tasks.
    tasks: Option<(Arc<Peer>, ToolTasks)>,
    pinned_tools: Option<PinnedTools>,
    /// Numbers of changes of lists of extensions.
    list_changes: BTreeMap<CustomList, u64>,
}

/// Time after which the list of tools is read again: a server may have no way to say that it has changed.
const PIN_LIFE: Duration = Duration::from_secs(60);

/// The tools of a server: why a call of each is refused, if it is.
type ToolVerdicts = BTreeMap<String, Result<(), String>>;

type CompareTools = Box<dyn Fn(&[RawJson]) -> ToolVerdicts + Send>;

/// The tools of a client with pins.
struct PinnedTools {
    /// Compares a list with the pins. A pointer, so that only programs that pin link the code.
    compare: CompareTools,
    /// Those of the list, and when it was read; `None` until that since it has changed.
    known: Option<(ToolVerdicts, StdInstant)>,
}

impl PinnedTools {
    /// Returns the verdicts, unless they are unknown or too old.
    fn fresh(&self) -> Option<&ToolVerdicts> {
        self.known.as_ref().filter(|(_, read_at)| read_at.elapsed() <= PIN_LIFE).map(|(verdicts, _)| verdicts)
    }
}

impl fmt::Debug for PinnedTools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedTools").field("is_known", &self.known.is_some()).finish_non_exhaustive()
    }
}

impl ResultCache {
    /// Starts to cache results of `peer`, or disables caching if `caching` is `None`.
    pub fn open(&self, caching: Option<CacheOptions>, config: &Config, peer: &Peer) {
        let mut state = lock(&self.0);
        state.tasks = config.has_tasks().then(|| (Arc::new(peer.clone()), ToolTasks::for_peer(peer)));
        state.cache = caching.map(|options| {
            let CacheOptions { cache, server, principal, legacy_ttl } = options;
            let scope = CacheScope::new(config, peer, &server, &principal);
            (cache, legacy_ttl.into_iter().fold(scope, CacheScope::with_legacy_ttl))
        });
    }

    /// Sets the output schemas that results of tools are checked against, or disables the check.
    pub fn set_schemas(&self, schemas: Option<OutputSchemas>) {
        lock(&self.0).schemas = schemas;
    }

    /// Returns the cached result of a request.
    ///
    /// # Errors
    ///
    /// Without a cached result, returns the ticket for [`insert`](Self::insert). The ticket is `None` if caching is
    /// disabled.
    pub fn lookup(&self, key: CacheKey) -> Result<RawJson, Option<CacheTicket>> {
        let state = lock(&self.0);
        let Some((cache, scope)) = &state.cache else { return Err(None) };
        cache.get(scope, &key).ok_or_else(|| Some(cache.ticket(scope, key)))
    }

    /// Inserts a result under its ticket. Without a ticket it does nothing.
    pub fn insert(&self, ticket: Option<CacheTicket>, result: &RawJson) {
        let Some(ticket) = ticket else { return };
        if let Some((cache, _)) = &lock(&self.0).cache {
            cache.insert(ticket, result);
        }
    }

    /// Removes cached results and schemas that a change of the server makes outdated.
    pub fn handle_change(&self, change: &Change) {
        let mut state = lock(&self.0);
        if let Some((cache, scope)) = &state.cache {
            cache.handle_change(scope, change);
        }
        if let Some(schemas) = &mut state.schemas {
            schemas.handle_change(change);
        }
        if let Some(tools) = &mut state.app_tools {
            tools.handle_change(change);
        }
        if *change == Change::Tools {
            state.tools_generation += 1;
            if let Some(pinned) = &mut state.pinned_tools {
                pinned.known = None;
            }
        }
        if let Change::Custom(list) = change {
            *state.list_changes.entry(*list).or_default() += 1;
        }
        if let Some((_, tools)) = &mut state.tasks {
            tools.handle_change(change);
        }
    }

    /// Returns the number of changes of a list of an extension so far ([`Config::custom_list`]).
    #[must_use]
    pub fn list_changes(&self, list: CustomList) -> u64 {
        lock(&self.0).list_changes.get(&list).copied().unwrap_or_default()
    }

    /// Removes all pages of one list.
    pub fn invalidate_list(&self, kind: EntryKind) {
        if let Some((cache, scope)) = &lock(&self.0).cache {
            cache.invalidate_list(scope, kind);
        }
    }

    /// Removes all results of this server.
    pub fn invalidate_server(&self) {
        if let Some((cache, scope)) = &lock(&self.0).cache {
            cache.invalidate_server(scope);
        }
    }

    /// Returns the number of changes of the list of tools so far; a lost session counts as one.
    #[must_use]
    pub fn tools_generation(&self) -> u64 {
        lock(&self.0).tools_generation
    }

    /// Remembers the output schemas of a complete list of tools, which of them run as tasks, and which ones apps may call,
    /// if an app has called one. Lists of other kinds are ignored, and so is one that has changed since `generation`, when
    /// its first page was requested.
    pub fn set_tools(&self, kind: EntryKind, generation: u64, entries: &[RawJson]) {
        let mut state = lock(&self.0);
        if kind != EntryKind::Tool || generation != state.tools_generation {
            return;
        }
        if let Some(schemas) = &mut state.schemas {
            schemas.set_tools(entries);
        }
        if let Some((_, tools)) = &mut state.tasks {
            tools.set_tools(entries);
        }
        if let Some(app_tools) = &mut state.app_tools {
            app_tools.set_tools(entries);
        }
    }

    /// Compares a complete list of tools of the server with the pins, unless it has changed since `generation`.
    pub fn set_pinned_tools(&self, generation: u64, entries: &[RawJson]) {
        let mut state = lock(&self.0);
        let is_current = generation == state.tools_generation;
        if let Some(PinnedTools { compare, known }) = state.pinned_tools.as_mut().filter(|_| is_current) {
            *known = Some((compare(entries), StdInstant::now()));
        }
    }

    /// Forgets the list of tools that calls are checked against, because it was that of another session.
    pub fn forget_pinned_tools(&self) {
        let mut state = lock(&self.0);
        // A list that was requested in that session may still be on its way to `set_pinned_tools`.
        state.tools_generation += 1;
        if let Some(pinned) = &mut state.pinned_tools {
            pinned.known = None;
        }
    }

    /// Refuses calls of tools that are not as they were pinned.
    pub fn pin_tools(&self, pins: Pins) {
        let compare = Box::new(move |entries: &[RawJson]| {
            let checked = pins.check_list(EntryKind::Tool, entries).into_iter();
            checked.map(|(name, verdict)| (name, verdict.map_err(|finding| finding.to_string()))).collect()
        });
        lock(&self.0).pinned_tools = Some(PinnedTools { compare, known: None });
    }

    /// Returns whether there are pins.
    #[must_use]
    pub fn has_pinned_tools(&self) -> bool {
        lock(&self.0).pinned_tools.is_some()
    }

    /// Returns whether there are pins, and the list of tools has to be fetched before a tool can be compared with them.
    #[must_use]
    pub fn needs_pinned_tools(&self) -> bool {
        lock(&self.0).pinned_tools.as_ref().is_some_and(|pinned| pinned.fresh().is_none())
    }

    /// Checks whether a tool is as it was pinned, if there are pins. Returns `None` if the list of tools has to be fetched for that.
    ///
    /// # Errors
    ///
    /// What has changed.
    pub fn check_pinned_tool(&self, tool: &str) -> Option<Result<(), String>> {
        let state = lock(&self.0);
        let Some(pinned) = &state.pinned_tools else { return Some(Ok(())) };
        let verdict = pinned.fresh()?.get(tool).cloned();
        Some(verdict.unwrap_or_else(|| Err(format!("tool `{}` is not listed", tool.escape_debug()))))
    }

    /// Lets the next lists of tools say which ones apps may call.
    pub fn keep_app_tools(&self) {
        lock(&self.0).app_tools.get_or_insert_default();
    }

    /// Checks whether an app may call a tool. Returns `None` if the list of tools has to be fetched for that: it is not
    /// known, has changed, or lacks the tool.
    pub fn check_app_tool(&self, tool: &str) -> Option<Result<(), UseError>> {
        let state = lock(&self.0);
        let tools = state.app_tools.as_ref().filter(|tools| tools.contains(tool))?;
        Some(tools.check(tool))
    }

    /// Returns the server, if calls may become tasks.
    #[must_use]
    pub fn task_peer(&self) -> Option<Arc<Peer>> {
        lock(&self.0).tasks.as_ref().map(|(peer, _)| Arc::clone(peer))
    }

    /// Returns the request with which a call of a tool asks for a task, if it may; see [`ToolTasks::request`].
    #[must_use]
    pub fn task_request(&self, tool: &str, wanted: Option<TaskRequest>) -> Option<TaskRequest> {
        lock(&self.0).tasks.as_ref().and_then(|(_, tools)| tools.request(tool, wanted))
    }

    /// Returns whether the list of tools is needed to know which of them run as tasks.
    #[must_use]
    pub fn needs_tools(&self) -> bool {
        lock(&self.0).tasks.as_ref().is_some_and(|(_, tools)| tools.needs_list())
    }

    /// Checks the structured result of a tool against its output schema, if that schema is known.
    ///
    /// # Errors
    ///
    /// - [`OutputMismatch::Schema`]: the schema cannot be used.
    /// - [`OutputMismatch::Result`]: the result violates the schema.
    pub fn check_output(&self, tool: &str, result: &RawJson) -> Result<(), OutputMismatch> {
        lock(&self.0).schemas.as_mut().map_or(Ok(()), |schemas| schemas.check(tool, result))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_of_a_lost_session_says_nothing_of_the_tools_of_the_next_one() {
        let tools = [RawJson::encode(&serde_json::json!({"name": "send", "inputSchema": {}})).unwrap()];
        let cache = ResultCache::default();
        cache.pin_tools(Pins::new().entries(EntryKind::Tool, &tools).unwrap());
        assert!(cache.needs_pinned_tools());
        cache.set_pinned_tools(cache.tools_generation(), &tools);
        assert_eq!((cache.check_pinned_tool("send"), cache.needs_pinned_tools()), (Some(Ok(())), false));
        let requested_at = cache.tools_generation();
        cache.forget_pinned_tools();
        cache.set_pinned_tools(requested_at, &tools);
        assert_eq!((cache.check_pinned_tool("send"), cache.needs_pinned_tools()), (None, true));
    }
}
