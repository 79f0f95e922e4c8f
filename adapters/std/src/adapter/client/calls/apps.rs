//! Calls of a host of apps: the tools for its model, and the tools that pages may call.

use alloc::vec::Vec;

use mcp_proto::client::AppTools;
use mcp_proto::model::{CallToolResult, Tool, UiToolVisibility};
use mcp_proto::{Diagnostic, EntryKind, UseError};
use serde::Serialize;

use super::{AsyncCalls, ClientBackend};
use crate::adapter::client::callback::Callback;
use crate::error::Error;

/// Number of lists that are fetched for a call of an app, each after the one before has changed while it was read.
const MAX_LISTS: usize = 2;

/// # Apps
impl<B: ClientBackend> AsyncCalls<B> {
    /// Returns the tools for the model, without those that only apps may call (APP-007); otherwise as
    /// [`list_tools`](Self::list_tools).
    ///
    /// A tool whose `_meta.ui.visibility` cannot be read is left out and reported like one that cannot be read at all.
    ///
    /// # Errors
    ///
    /// As [`list`](Self::list).
    pub async fn list_model_tools(&self) -> Result<Vec<Tool>, Error> {
        let mut tools = self.list_tools().await?;
        let mut index = 0;
        tools.retain(|tool| {
            index += 1;
            tool.is_visible_to(&UiToolVisibility::Model).unwrap_or_else(|error| {
                let reason = std::format!("`{}`: {error}", tool.name).chars().take(256).collect();
                self.backend.dispatch(Callback::Diagnostic(Diagnostic::UnreadableEntry {
                    list: EntryKind::Tool,
                    index: index - 1,
                    reason,
                }));
                false
            })
        });
        Ok(tools)
    }

    /// Calls a tool for the page of an app of this server, if the tool permits it (APP-008).
    ///
    /// Whether it does is known from the list of tools, which is fetched when an app calls a tool for the first time, after
    /// it has changed, and for a tool that it lacks. A list that changes while it is fetched is fetched once more. Use the
    /// client of the server that the page came from: apps never call the tools of another server.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool), as [`list`](Self::list), and
    /// [`UseError::NotForApps`](mcp_proto::UseError::NotForApps) if apps may not call the tool, or the list of tools has
    /// changed both times.
    pub async fn call_tool_for_app<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
    ) -> Result<CallToolResult<'static>, Error> {
        // A change notification that hides the tool may have arrived unread.
        self.backend.catch_up().await?;
        let access = match self.backend.result_cache().check_app_tool(name) {
            Some(access) => access,
            None => self.fetch_app_access(name).await?,
        };
        access.map_err(Error::Use)?;
        self.call_tool(name, arguments).await
    }

    /// Fetches the list of tools, and checks whether an app may call one of them.
    async fn fetch_app_access(&self, name: &str) -> Result<Result<(), UseError>, Error> {
        let cache = self.backend.result_cache();
        cache.keep_app_tools();
        for _ in 0..MAX_LISTS {
            let generation = cache.tools_generation();
            let tools = self.list(EntryKind::Tool).await?;
            // A list that has changed meanwhile may be older than the change that hides the tool.
            if cache.tools_generation() == generation {
                return Ok(AppTools::new(&tools).check(name));
            }
        }
        let reason = "the list of tools changes while it is read".into();
        Ok(Err(UseError::NotForApps { tool: name.into(), reason }))
    }
}
