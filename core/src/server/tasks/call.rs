//! Tasks as a call declares them: whether it may become one, and which one it runs.

use super::super::event::Call;
use super::offer::{CallTask, TaskOffer};
use crate::identity::Capabilities;
use crate::methods::Capability;
use crate::model::ClientCapabilities;
#[cfg(feature = "crypto")]
use crate::model::TaskId;
use crate::rpc::{RpcError, code};
use crate::version::Version;

impl Call {
    /// Returns whether the call may or must become a task ([`Tasks::begin`](super::super::Tasks::begin)).
    ///
    /// Always [`TaskOffer::None`] for a call that runs a task, and for methods other than `tools/call`.
    #[must_use]
    pub const fn task_offer(&self) -> TaskOffer {
        match self.task {
            CallTask::Offer(offer) => offer,
            CallTask::Run(_) => TaskOffer::None,
        }
    }

    /// Returns the id of the task that the call runs; `None` for a call that its client waits for.
    ///
    /// A call that runs a task is answered as any other. Its [`channel`](Self::channel) belongs to no connection.
    #[cfg(feature = "crypto")]
    #[must_use]
    pub fn task_id(&self) -> Option<TaskId> {
        match self.task {
            CallTask::Offer(_) => None,
            CallTask::Run(run) => {
                let text = crate::tasks::text::TaskBits(run.0).text();
                Some(TaskId::new(core::str::from_utf8(&text).unwrap_or_default()))
            }
        }
    }

    /// Returns whether the call runs a task.
    #[must_use]
    pub const fn is_task_run(&self) -> bool {
        matches!(self.task, CallTask::Run(_))
    }

    /// Returns the error for a call that can only be served as a task, and whose client does not offer that (TASK-007,
    /// TASK-104).
    #[must_use]
    pub fn task_required_error(&self) -> RpcError {
        if self.version < Version::V2026_07_28 {
            let message = alloc::format!("{} must be called as a task", self.describe_target());
            return RpcError::new(code::METHOD_NOT_FOUND, message);
        }
        extension_required_error()
    }

    /// Returns the error for a call whose client asks for a task of a tool that runs as none (TASK-005).
    #[must_use]
    pub fn task_forbidden_error(&self) -> RpcError {
        let message = alloc::format!("{} cannot be called as a task", self.describe_target());
        RpcError::new(code::METHOD_NOT_FOUND, message)
    }
}

/// Returns the error for a client that did not declare the extension (TASK-104, TASK-125).
pub(super) fn extension_required_error() -> RpcError {
    let required = ClientCapabilities::from(&Capabilities::new().with(Capability::TasksExtension));
    RpcError::missing_client_capability(required)
        .unwrap_or_else(|_| RpcError::internal("the client lacks a capability that this needs"))
}
