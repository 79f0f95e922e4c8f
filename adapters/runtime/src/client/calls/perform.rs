//! The way of every request: through the layers, then to the cache and the connection; lists, from all of their pages.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use mcp_std::sync::lock;

use mcp_proto::client::{CacheKey, CacheTicket, Engine, Paginator, ResultPage, TypedEntries};
use mcp_proto::model::{
    CallToolParams, ListItem, Prompt, ReadResourceParams, RequestParams, Resource, ResourceTemplate, Tool,
};
use mcp_proto::{CallOptions, Diagnostic, EntryKind, Progress, RawJson};
use serde::Serialize;

use super::blocking_calls::complete;
use super::commands::{CallCommand, Request, ToolCall};
use super::{AsyncCalls, ClientBackend};
use crate::client::handler::Callback;
use crate::client::layers::{BlockingClientNext, ClientRequest, Layers, RequestKind, run_async};
use crate::error::Error;

/// A result that may have come from the cache.
pub(super) struct Fetched {
    pub(super) result: RawJson,
    pub(super) is_cached: bool,
    /// Permission to cache it. A result that layers have made has none: its request has cached that of the server.
    pub(super) ticket: Option<CacheTicket>,
}

/// What became of a request inside of all layers: a cached result, or a call whose result may be cached by the ticket.
enum Begun<C> {
    Cached(RawJson),
    Sent { call: C, cacheable: Option<(CacheKey, CacheTicket)> },
}

/// The entries of a list, from all pages that were read.
pub(super) struct ListedEntries {
    pub(super) entries: Vec<RawJson>,
    /// The list was given up before its end.
    pub(super) is_cut: bool,
}

impl<B: ClientBackend> AsyncCalls<B> {
    /// Makes a request and waits for its result. `reports` tells whether progress is passed to `on_progress`.
    pub(super) async fn perform(
        &self,
        command: impl CallCommand,
        reports: bool,
        on_progress: impl FnMut(&Progress),
    ) -> Result<RawJson, Error> {
        if let Layers::None = self.backend.layers() {
            let call = self.backend.begin(reports, command)?;
            return self.backend.result(call, on_progress).await.map(|(result, _)| result);
        }
        let request = command.into_request(self.backend.version()).map_err(Error::Use)?;
        self.run_layers(request, reports, on_progress).await.map(|(result, _)| result)
    }

    /// Makes a request, unless there is a fresh cached result for its key.
    pub(super) async fn fetch(
        &self,
        key: Option<CacheKey>,
        command: impl CallCommand,
    ) -> Result<Fetched, Error> {
        if let Layers::None = self.backend.layers() {
            return self.fetch_inside(key, command, false, |_| {}).await;
        }
        let request = command.into_request(self.backend.version()).map_err(Error::Use)?;
        let (result, is_cached) = self.run_layers(request.cached(), false, |_| {}).await?;
        Ok(Fetched { result, is_cached, ticket: None })
    }

    /// Makes a request as [`fetch`](Self::fetch) does, inside of all layers.
    async fn fetch_inside(
        &self,
        key: Option<CacheKey>,
        command: impl CallCommand,
        reports: bool,
        on_progress: impl FnMut(&Progress),
    ) -> Result<Fetched, Error> {
        let mut ticket = None;
        if let Some(key) = key {
            match self.lookup_cached(key).await? {
                Ok(result) => return Ok(Fetched { result, is_cached: true, ticket: None }),
                Err(permission) => ticket = permission,
            }
        }
        let call = self.backend.begin(reports, command)?;
        let (result, retried) = self.backend.result(call, on_progress).await?;
        // A retried call depends on input responses of this user at this time, so it is never cached (CACHE-011).
        Ok(Fetched { result, is_cached: false, ticket: ticket.filter(|_| !retried) })
    }

    /// Runs the layers around a request. Returns its result, and whether its last call was answered from the cache.
    async fn run_layers(
        &self,
        request: ClientRequest,
        reports: bool,
        on_progress: impl FnMut(&Progress),
    ) -> Result<(RawJson, bool), Error> {
        // Layers may make several calls at the same time.
        let on_progress = Mutex::new(on_progress);
        let report = |progress: &Progress| {
            // A panic of the function was caught, and ends only that report.
            (lock(&on_progress))(progress);
        };
        let is_cached = AtomicBool::new(false);
        let call = |request| self.call_inside(request, reports, &report, &is_cached);
        let result = match self.backend.layers() {
            Layers::None => call(request).await,
            Layers::Blocking(layers) => {
                BlockingClientNext::new(layers, &|request| complete(call(request))).run(request)
            }
            Layers::Async(layers) => run_async(layers, self.backend.observer(), request, call).await,
        };
        Ok((result?, is_cached.load(Ordering::Relaxed)))
    }

    /// Makes the request that has come through all layers.
    async fn call_inside(
        &self,
        request: ClientRequest,
        reports: bool,
        on_progress: impl FnMut(&Progress),
        is_cached: &AtomicBool,
    ) -> Result<RawJson, Error> {
        // Only the last call of the layers counts.
        is_cached.store(false, Ordering::Relaxed);
        // All that does not depend on the function is compiled once, and not for each function.
        let (call, cacheable) = match self.begin_inside(request, reports).await? {
            Begun::Cached(result) => {
                is_cached.store(true, Ordering::Relaxed);
                return Ok(result);
            }
            Begun::Sent { call, cacheable } => (call, cacheable),
        };
        let (result, retried) = self.backend.result(call, on_progress).await?;
        if let Some((key, ticket)) = cacheable {
            // As in `fetch_inside` (CACHE-011).
            let ticket = Some(ticket).filter(|_| !retried && is_readable(&key, &result));
            self.backend.result_cache().insert(ticket, &result);
        }
        Ok(result)
    }

    /// Sends the request that has come through all layers, unless there is a cached result for one that may have one.
    async fn begin_inside(
        &self,
        request: ClientRequest,
        reports: bool,
    ) -> Result<Begun<B::PendingCall>, Error> {
        let has_meta = request.has_meta();
        let (method, params, options, kind) = request.into_parts();
        // Layers may have chosen another tool.
        match (&kind, params.parse::<CallToolParams<'_>>()) {
            (RequestKind::Tool(_), Ok(tool)) => self.learn_pinned(&tool.name).await?,
            _ => self.check_request(&method, &params)?,
        }
        let options = self.request_options(&method, &options).into_owned();
        let sent = Request { method: &method, params: &params, options: &options };
        let call = match kind {
            // Members of `_meta` may change the result (DESIGN-59).
            RequestKind::Cached if !has_meta => {
                let mut cacheable = None;
                if let Some(key) = CacheKey::from_request(&method, &params) {
                    match self.lookup_cached(key.clone()).await? {
                        Ok(result) => return Ok(Begun::Cached(result)),
                        Err(permission) => cacheable = permission.map(|ticket| (key, ticket)),
                    }
                }
                return Ok(Begun::Sent { call: self.backend.begin(reports, sent)?, cacheable });
            }
            RequestKind::Sent | RequestKind::Cached => self.backend.begin(reports, sent)?,
            RequestKind::Tool(wanted) => {
                let tool = params.parse::<CallToolParams<'_>>().ok();
                let task = tool
                    .as_ref()
                    .and_then(|tool| self.backend.result_cache().task_request(&tool.name, wanted));
                match tool.filter(|_| task.is_some()) {
                    Some(CallToolParams { name, arguments, .. }) => {
                        // Those that a layer has left out.
                        let arguments = arguments.unwrap_or_else(RawJson::empty_object);
                        let call = ToolCall { name: &name, arguments: &arguments, task, options: &options };
                        self.backend.begin(reports, call)?
                    }
                    None => self.backend.begin(reports, sent)?,
                }
            }
            RequestKind::Task(task) => self
                .backend
                .begin(reports, move |engine: &mut Engine, now| engine.wait_task(now, &task, &options))?,
        };
        Ok(Begun::Sent { call, cacheable: None })
    }
}

/// Returns whether the result of a cacheable request can be read, so that it may be cached.
fn is_readable(key: &CacheKey, result: &RawJson) -> bool {
    match key {
        CacheKey::List(kind, _) => ResultPage::from_result(*kind, result).is_some(),
        CacheKey::Read(_) => ReadResourceParams::read(result).is_ok(),
        _ => false,
    }
}

// Lists of a server, from all of their pages.

/// Parameters of a page of a list.
#[derive(Serialize)]
struct PageParams {
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// # Lists
impl<B: ClientBackend> AsyncCalls<B> {
    /// Returns all tools of the server, from all pages of the list.
    ///
    /// A tool that cannot be read is left out and reported to
    /// [`ClientHandler::diagnostic`](crate::client::ClientHandler::diagnostic), as
    /// [`UnreadableEntry`](mcp_proto::Diagnostic::UnreadableEntry). [`list`](Self::list) describes the bounds of a list
    /// and the use of the cache.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub async fn list_tools(&self) -> Result<Vec<Tool>, Error> {
        self.entries().await
    }

    /// Returns all resources of the server; otherwise as [`list_tools`](Self::list_tools).
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub async fn list_resources(&self) -> Result<Vec<Resource>, Error> {
        self.entries().await
    }

    /// Returns all resource templates of the server; otherwise as [`list_tools`](Self::list_tools).
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub async fn list_resource_templates(&self) -> Result<Vec<ResourceTemplate>, Error> {
        self.entries().await
    }

    /// Returns all prompts of the server; otherwise as [`list_tools`](Self::list_tools).
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub async fn list_prompts(&self) -> Result<Vec<Prompt>, Error> {
        self.entries().await
    }

    pub(super) async fn entries<T: ListItem>(&self) -> Result<Vec<T>, Error> {
        Ok(self.read_entries(&self.list(T::KIND).await?))
    }

    /// Reads the entries of a list, and reports those that cannot be read.
    pub(super) fn read_entries<T: ListItem>(&self, entries: &[RawJson]) -> Vec<T> {
        let read = TypedEntries::<T>::read(entries);
        self.report(read.diagnostics);
        read.entries
    }

    /// Passes diagnostics to the handler.
    pub(super) fn report(&self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        for diagnostic in diagnostics {
            self.backend.dispatch(Callback::Diagnostic(diagnostic));
        }
    }

    /// Returns all entries of a list of the server as raw JSON, from all pages.
    ///
    /// Stops at a list that looks endless, and returns the entries so far (PAGE-012). The bounds are a repeated cursor,
    /// [`Paginator::MAX_PAGES`](mcp_proto::client::Paginator::MAX_PAGES) pages, and four times
    /// [`Limits::max_frame`](mcp_proto::Limits) bytes.
    ///
    /// Fresh cached pages are used without a request ([`Options::cache`](crate::client::Options::cache)). If the
    /// server refuses the cursor of a cached page, all pages are requested again (CACHE-018).
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool), and [`Error::UnexpectedResult`] if a result does not contain the list.
    pub async fn list(&self, kind: EntryKind) -> Result<Vec<RawJson>, Error> {
        let mut pages = Paginator::new(kind, self.backend.max_list_bytes());
        let mut is_of_server = matches!(self.backend.layers(), Layers::None);
        let mut is_cached = true;
        // Read before the first page: if the list changes meanwhile, `set_tools` ignores what was read.
        let mut generation = self.backend.result_cache().tools_generation();
        loop {
            let cursor = pages.cursor().map(String::from);
            let (key, params) = (CacheKey::List(kind, cursor.clone()), PageParams { cursor });
            let options = &CallOptions::new();
            let page = Request { method: kind.list_method(), params: &params, options };
            let taken = match self.fetch(Some(key), page).await {
                Ok(fetched) if fetched.is_cached => {
                    is_of_server = false;
                    pages.take_cached(&fetched.result)
                }
                Ok(fetched) => {
                    is_cached = false;
                    let taken = pages.take(&fetched.result);
                    // A page that cannot be read is not cached.
                    let ticket = fetched.ticket.filter(|_| taken.is_ok());
                    self.backend.result_cache().insert(ticket, &fetched.result);
                    taken
                }
                Err(Error::Call(error)) if pages.restart(&error) => {
                    // The pages in the cache belong to an older list, so it is read again from its beginning
                    // (CACHE-018).
                    self.backend.result_cache().invalidate_list(kind);
                    generation = self.backend.result_cache().tools_generation();
                    continue;
                }
                Err(error) => return Err(error),
            };
            if !taken.map_err(|error| Error::UnexpectedResult(error.to_string()))? {
                self.report(pages.diagnostic());
                let (cache, entries) = (self.backend.result_cache(), pages.into_entries());
                cache.set_tools(kind, generation, &entries);
                match kind {
                    EntryKind::Tool if is_of_server => cache.set_pinned_tools(generation, &entries),
                    // What layers and caches show is not what the server has. A list that is all from the cache has cost no
                    // request, so it costs one only for verdicts that calls need.
                    EntryKind::Tool
                        if cache.needs_pinned_tools() || (!is_cached && cache.has_pinned_tools()) =>
                    {
                        self.list_pinned().await?;
                    }
                    _ => {}
                }
                return Ok(entries);
            }
        }
    }

    /// Reads a list as [`list`](Self::list) does, but as the server has it now: below the layers, and from no cache.
    pub(super) async fn list_below(&self, kind: EntryKind) -> Result<ListedEntries, Error> {
        let mut pages = Paginator::new(kind, self.backend.max_list_bytes());
        loop {
            let params = PageParams { cursor: pages.cursor().map(String::from) };
            let page = Request { method: kind.list_method(), params: &params, options: &CallOptions::new() };
            let fetched = self.fetch_inside(None, page, false, |_| {}).await?;
            let goes_on = pages.take(&fetched.result);
            if !goes_on.map_err(|error| Error::UnexpectedResult(error.to_string()))? {
                break;
            }
        }
        self.report(pages.diagnostic());
        let is_cut = pages.is_cut();
        Ok(ListedEntries { entries: pages.into_entries(), is_cut })
    }
}
