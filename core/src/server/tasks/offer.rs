//! What a call has to do with tasks: it may become one, or it runs one.

use core::fmt;

use super::super::event::Call;
use crate::identity::Capabilities;
use crate::methods::Capability;
use crate::model::ClientCapabilities;
#[cfg(feature = "crypto")]
use crate::model::TaskId;
use crate::rpc::{RpcError, code};
use crate::version::Version;

/// Whether a call may become a task ([`Call::task_offer`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum TaskOffer {
    /// It must be answered directly: its client does not know tasks, or the server has none.
    #[default]
    None,
    /// It may become a task, at the choice of the server (2026-07-28; TASK-103).
    Allowed,
    /// Its client asks for a task (2025-11-25; TASK-009).
    Requested,
}

/// The bits of the id of a task that a call runs. `Debug` omits them.
#[derive(Clone, Copy)]
pub(in crate::server) struct RunId(pub(super) [u8; 16]);

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunId(…)")
    }
}

/// The relation of a call to tasks.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) enum CallTask {
    Offer(TaskOffer),
    Run(RunId),
}

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
            CallTask::Run(RunId(bits)) => {
                let text = super::text::TaskBits(bits).text();
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
