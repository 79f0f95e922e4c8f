//! The relation of a call to tasks, before it is sent.

use super::common::CommonState;
use crate::calls::outbound::CallTask;
use crate::calls::task_request::TaskRequest;
use crate::methods::{self, Capability};
use crate::version::Version;

/// The relation of a call of the application to tasks.
#[derive(Clone, Copy, Debug)]
pub(super) enum TaskUse {
    /// Nothing, unless the server makes a task of it.
    Default,
    /// It asks for a task.
    Request(TaskRequest),
}

/// Returns the part that tasks have in a call, and the request for a task to send with it.
pub(super) fn task_role(
    common: &CommonState,
    method: &str,
    task: TaskUse,
) -> (CallTask, Option<TaskRequest>) {
    let request = match task {
        TaskUse::Request(request) => Some(request),
        TaskUse::Default => None,
    };
    if method != methods::TOOLS_CALL || !common.config.has_tasks() {
        return (CallTask::None, None);
    }
    let role = |request: TaskRequest| if request.follow { CallTask::Follow } else { CallTask::Report };
    if common.is_modern() {
        // The server alone decides (TASK-103, TASK-105).
        return (request.map_or(CallTask::Follow, role), None);
    }
    let runs_tasks = common.peer.as_ref().is_some_and(|peer| {
        peer.version == Version::V2025_11_25 && peer.has(Capability::ToolTasks) // TASK-003, TASK-004
    });
    match request.filter(|_| runs_tasks) {
        Some(request) => (role(request), Some(request)),
        None => (CallTask::None, None),
    }
}
