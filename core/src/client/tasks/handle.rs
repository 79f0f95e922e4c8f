//! Handles of tasks, which another process can take up.

use alloc::boxed::Box;
use alloc::string::{String, ToString as _};
use core::fmt;

use serde::{Deserialize, Serialize};

use super::super::event::Peer;
use super::check_id;
use crate::error::UseError;
use crate::json::check_and_read;
use crate::model::CallToolParams;
use crate::model::{CallToolResult, RequestParams as _, Task, TaskId};
use crate::raw::RawJson;
use crate::tasks::MAX_TASK_ID;
use crate::version::Version;

/// A task of a server: its id, its form, and the server and the tool that it belongs to.
///
/// [`to_text`](Self::to_text) writes it down, and another process takes it up with [`parse`](Self::parse), on a
/// connection of its own. Where a server does not know who its clients are, every holder of the id can read, answer and
/// cancel the task: keep the text like a password (TASK-035, TASK-131). `Debug` omits the id.
#[derive(Clone, PartialEq, Eq)]
pub struct TaskHandle {
    id: TaskId,
    version: Version,
    /// Name of the server, if it has told one.
    server: Option<String>,
    tool: Box<str>,
}

/// The text of a handle.
#[derive(Serialize, Deserialize)]
struct HandleText {
    task: String,
    revision: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    tool: String,
}

/// The reason why a text is not the handle of a task.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("not the handle of a task: {reason}")]
pub struct ParseTaskHandleError {
    reason: String,
}

/// Longest text of a handle in bytes.
const MAX_TEXT: usize = 16 << 10;

impl TaskHandle {
    /// Creates the handle of a task of a tool.
    #[must_use]
    pub fn new(peer: &Peer, tool: &str, id: TaskId) -> Self {
        Self { id, version: peer.version, server: server_name(peer), tool: tool.into() }
    }

    /// Returns the id of the task. It may be a secret; see [`TaskHandle`].
    #[must_use]
    pub const fn id(&self) -> &TaskId {
        &self.id
    }

    /// Returns the name of the tool.
    #[must_use]
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Returns the name of the server, if it has told one.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        self.server.as_deref()
    }

    /// Returns the revision in which the task was created.
    #[must_use]
    pub const fn version(&self) -> Version {
        self.version
    }

    /// Returns the handle as one line of JSON, to be written down. It contains the id; see [`TaskHandle`].
    #[must_use]
    pub fn to_text(&self) -> String {
        let text = HandleText {
            task: self.id.as_str().into(),
            revision: self.version.as_str().into(),
            server: self.server.clone(),
            tool: String::from(&*self.tool),
        };
        RawJson::encode(&text).map(|text| String::from(text.as_str())).unwrap_or_default()
    }

    /// Reads what [`to_text`](Self::to_text) has written, up to 16 KiB.
    ///
    /// # Errors
    ///
    /// [`ParseTaskHandleError`] names what is not valid.
    pub fn parse(text: &str) -> Result<Self, ParseTaskHandleError> {
        let error = |reason: String| ParseTaskHandleError { reason };
        if text.len() > MAX_TEXT {
            return Err(error(alloc::format!("it is longer than {MAX_TEXT} bytes")));
        }
        let text: HandleText = check_and_read(text.trim()).map_err(|e| {
            // The message can repeat a value, and the values are secrets.
            error(alloc::format!("no such JSON object (line {}, column {})", e.line(), e.column()))
        })?;
        let version = Version::from_name(&text.revision).filter(|version| *version >= Version::V2025_11_25);
        let version = version.ok_or_else(|| error("its revision has no tasks".into()))?;
        check_id(&text.task).map_err(error)?;
        let (id, server) = (TaskId::from(text.task), text.server);
        Ok(Self { id, version, server, tool: text.tool.into() })
    }

    /// Checks that the task can be of this server: the form is the same, and so is the name of the server. A handle or a peer
    /// without a server name passes the comparison of names.
    ///
    /// # Errors
    ///
    /// [`UseError::ForeignTask`].
    pub fn check(&self, peer: &Peer) -> Result<(), UseError> {
        let error = |reason: String| Err(UseError::ForeignTask { reason });
        let is_extension = |version: Version| version > Version::V2025_11_25;
        let has_tasks = peer.version >= Version::V2025_11_25;
        if !has_tasks || is_extension(peer.version) != is_extension(self.version) {
            return error(alloc::format!("it was created in {}, and this is {}", self.version, peer.version));
        }
        match (&self.server, server_name(peer)) {
            (Some(expected), Some(found)) if *expected != found => {
                error(alloc::format!("it belongs to the server `{expected}`, and this is `{found}`"))
            }
            _ => Ok(()),
        }
    }
}

/// Returns the name that a server gives itself.
fn server_name(peer: &Peer) -> Option<String> {
    let name = peer.info.as_ref()?.member("name")?.string()?;
    // A name that is cut could be equal to that of another server, so a long one is left out.
    Some(name).filter(|name| name.len() <= MAX_TASK_ID)
}

/// Omits the id.
impl fmt::Debug for TaskHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle")
            .field("version", &self.version)
            .field("server", &self.server)
            .field("tool", &self.tool)
            .finish_non_exhaustive()
    }
}

/// The answer to the call of a tool that may run as a task.
#[derive(Clone, Debug)]
pub enum StartedTask {
    /// The tool runs as a task.
    Task(TaskHandle),
    /// The tool has finished: the server has no tasks, or made none of this call.
    Done(Box<CallToolResult<'static>>),
}

impl StartedTask {
    /// Reads the result of a call that was made with [`TaskRequest::detached`](crate::client::TaskRequest::detached).
    ///
    /// # Errors
    ///
    /// The reason why it is neither a task nor the result of a tool.
    pub fn from_result(peer: &Peer, tool: &str, result: &RawJson) -> Result<Self, String> {
        match Task::from_result(result) {
            Ok(Some(task)) => check_id(task.task_id.as_str())
                .map(|()| Self::Task(TaskHandle::new(peer, tool, task.task_id))),
            Ok(None) => {
                let read = CallToolParams::read(result).map_err(|error| error.to_string())?;
                Ok(Self::Done(Box::new(read)))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}
