//! Lists of a server, from all of their pages.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use mcp_proto::client::{CacheKey, Paginator, TypedEntries};
use mcp_proto::model::{ListItem, Prompt, Resource, ResourceTemplate, Tool};
use mcp_proto::{CallOptions, EntryKind, RawJson};
use serde::Serialize;

use super::commands::Request;
use super::{AsyncCalls, ClientBackend};
use crate::adapter::client::callback::Callback;
use crate::error::Error;

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
    /// [`ClientHandler::diagnostic`](crate::adapter::client::ClientHandler::diagnostic), as
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
        let read = TypedEntries::<T>::read(&self.list(T::KIND).await?);
        for diagnostic in read.diagnostics {
            self.backend.dispatch(Callback::Diagnostic(diagnostic));
        }
        Ok(read.entries)
    }

    /// Returns all entries of a list of the server as raw JSON, from all pages.
    ///
    /// Stops at a list that looks endless, and returns the entries so far (PAGE-012). The bounds are a repeated cursor,
    /// [`Paginator::MAX_PAGES`](mcp_proto::client::Paginator::MAX_PAGES) pages, and four times
    /// [`Limits::max_frame`](mcp_proto::Limits) bytes.
    ///
    /// Fresh cached pages are used without a request ([`Options::cache`](crate::adapter::client::Options::cache)). If the
    /// server refuses the cursor of a cached page, all pages are requested again (CACHE-018).
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool), and [`Error::UnexpectedResult`] if a result does not contain the list.
    pub async fn list(&self, kind: EntryKind) -> Result<Vec<RawJson>, Error> {
        let mut pages = Paginator::new(kind, self.backend.max_list_bytes());
        let mut generation = self.backend.result_cache().tools_generation();
        loop {
            let cursor = pages.cursor().map(String::from);
            let (key, params) = (CacheKey::List(kind, cursor.clone()), PageParams { cursor });
            let options = &CallOptions::new();
            let page = Request { method: kind.list_method(), params: &params, options };
            let taken = match self.fetch(Some(key), page).await {
                Ok(fetched) if fetched.is_cached => pages.take_cached(&fetched.result),
                Ok(fetched) => {
                    let taken = pages.take(&fetched.result);
                    let ticket = fetched.ticket.filter(|_| taken.is_ok());
                    self.backend.result_cache().insert(ticket, &fetched.result);
                    taken
                }
                Err(Error::Call(error)) if pages.restart(&error) => {
                    self.backend.result_cache().invalidate_list(kind);
                    generation = self.backend.result_cache().tools_generation();
                    continue;
                }
                Err(error) => return Err(error),
            };
            if !taken.map_err(|error| Error::UnexpectedResult(error.to_string()))? {
                if let Some(diagnostic) = pages.diagnostic() {
                    self.backend.dispatch(Callback::Diagnostic(diagnostic));
                }
                let entries = pages.into_entries();
                self.backend.result_cache().set_tools(kind, generation, &entries);
                return Ok(entries);
            }
        }
    }
}
