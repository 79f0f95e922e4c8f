//! Parameters of requests about tasks, and the errors that they are refused with.

use alloc::borrow::Cow;

use crate::json::{object_members, string};
use crate::rpc::RpcError;

/// Returns the error for a task that does not exist, has expired or belongs to someone else: all alike (TASK-031,
/// TASK-124).
pub(crate) fn unknown_task() -> RpcError {
    RpcError::invalid_params("the task does not exist")
}

/// Returns the id of the task in the parameters of a request.
///
/// # Errors
///
/// The error response to send.
pub(crate) fn task_id(params: &[u8]) -> Result<Cow<'_, str>, RpcError> {
    let mut id = None;
    object_members(params, |name, value| {
        if name == b"taskId" {
            id = Some(value);
        }
    });
    let id = id.ok_or_else(|| RpcError::invalid_params("`params.taskId` is missing"))?;
    string(id).ok_or_else(|| RpcError::invalid_params("`params.taskId` is not a string"))
}
