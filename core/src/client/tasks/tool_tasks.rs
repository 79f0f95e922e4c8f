//! Which tools of a server of 2025-11-25 may or must be called as tasks, from its list of tools.

use alloc::collections::BTreeMap;
use alloc::string::String;

use super::super::event::Peer;
use crate::calls::task_request::TaskRequest;
use crate::change::Change;
use crate::methods::Capability;
use crate::model::TaskSupport;
use crate::raw::RawJson;
use crate::version::Version;

/// The tools of a server that may or must be called as tasks (2025-11-25; TASK-004 to TASK-007).
///
/// Independent of the engine: create one per connection with [`for_peer`](Self::for_peer), pass each complete list of
/// tools to [`set_tools`](Self::set_tools), from the wire or from a cache, and take the requests for tasks from
/// [`request`](Self::request). A server of 2026-07-28 decides by itself, so no list is needed.
///
/// A list takes a while, over all of its pages, and may change meanwhile. Ask for the
/// [`generation`](Self::generation) before the first page, and pass it with the list to
/// [`set_listed`](Self::set_listed): a list that began before a change does not apply.
///
/// At most [`MAX_TOOLS`](Self::MAX_TOOLS) tools with [`MAX_BYTES`](Self::MAX_BYTES) of names are kept. Further tools
/// count as tools that run as no task.
#[derive(Clone, Debug, Default)]
pub struct ToolTasks {
    server: ServerTasks,
    /// Tools that may or must be called as tasks; `None` before the list is known.
    tools: Option<BTreeMap<String, ToolTask>>,
    generation: u64,
}

/// How a server makes tasks of tools.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum ServerTasks {
    /// Not at all.
    #[default]
    None,
    /// On request, if the list of tools says so (2025-11-25).
    OnRequest,
    /// As it decides itself (since 2026-07-28; TASK-103).
    ByItself,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ToolTask {
    Optional,
    Required,
}

impl ToolTasks {
    /// Maximum number of tools.
    pub const MAX_TOOLS: usize = 4_096;
    /// Maximum number of bytes of names.
    pub const MAX_BYTES: usize = 1 << 20;

    /// Creates an empty table for a server.
    #[must_use]
    pub fn for_peer(peer: &Peer) -> Self {
        let server = match peer.version {
            Version::V2025_11_25 if peer.has(Capability::ToolTasks) => ServerTasks::OnRequest,
            version if version > Version::V2025_11_25 => ServerTasks::ByItself,
            _ => ServerTasks::None,
        };
        Self { server, tools: None, generation: 0 }
    }

    /// Returns the number of changes of the list so far.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Replaces the table by what a complete list of tools says, unless the list has changed since `generation`. Returns
    /// whether it applies.
    pub fn set_listed(&mut self, generation: u64, tools: &[RawJson]) -> bool {
        let is_current = generation == self.generation;
        if is_current {
            self.set_tools(tools);
        }
        is_current
    }

    /// Replaces the table by what the complete list of tools says.
    pub fn set_tools(&mut self, tools: &[RawJson]) {
        if self.server != ServerTasks::OnRequest {
            return;
        }
        let (mut known, mut bytes) = (BTreeMap::new(), 0);
        for tool in tools {
            let support = tool.member("execution").and_then(|execution| execution.member("taskSupport"));
            let support = match support.and_then(|word| word.string()).as_deref().map(TaskSupport::from) {
                Some(TaskSupport::Required) => ToolTask::Required,
                Some(TaskSupport::Optional) => ToolTask::Optional,
                _ => continue,
            };
            let Some(name) = tool.member("name").and_then(|name| name.string()) else { continue };
            bytes += name.len();
            if known.len() >= Self::MAX_TOOLS || bytes > Self::MAX_BYTES {
                break;
            }
            known.insert(name, support);
        }
        self.tools = Some(known);
    }

    /// Clears the table if the list of tools has changed.
    pub fn handle_change(&mut self, change: &Change) {
        if *change == Change::Tools {
            self.tools = None;
            self.generation += 1;
        }
    }

    /// Returns the request with which a call of `tool` may ask for a task, if it may.
    ///
    /// A call that needs no task (`wanted` is `None`) asks for one only if the tool requires it. To a server that decides
    /// by itself the request says only what becomes of the task.
    #[must_use]
    pub fn request(&self, tool: &str, wanted: Option<TaskRequest>) -> Option<TaskRequest> {
        if self.server == ServerTasks::ByItself {
            return wanted;
        }
        match (self.tools.as_ref()?.get(tool)?, wanted) {
            (ToolTask::Required, wanted) => Some(wanted.unwrap_or(TaskRequest::followed())),
            (ToolTask::Optional, wanted) => wanted,
        }
    }

    /// Returns whether the list of tools is needed to know whether a tool may be called as a task.
    #[must_use]
    pub const fn needs_list(&self) -> bool {
        matches!(self.server, ServerTasks::OnRequest) && self.tools.is_none()
    }
}
