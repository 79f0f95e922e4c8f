//! What each host of tasks keeps of a task, and answers alike.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::text::{TaskBits, millis};
use crate::calls::endpoint::{Endpoint, Role};
use crate::calls::inbound::RequestSource;
use crate::json::{member, string, write_int, write_str};
use crate::model::TaskStatus;
use crate::rpc::RpcError;
use crate::time::{Anchor, Instant, write_iso_8601};

/// Largest time to live, so that sums of times do not overflow: about 31 years.
const MAX_TTL_MILLIS: u64 = 1_000_000_000_000;
/// Number of tasks in a page of `tasks/list`.
const PAGE_SIZE: usize = 50;
/// Bytes of tasks after which a page of `tasks/list` ends.
const PAGE_BYTES: usize = 32 << 10;

/// The part of a task that both forms have in each state (TASK-014, TASK-108).
#[derive(Debug)]
pub(crate) struct TaskHead {
    pub(crate) id: TaskBits,
    /// Unix time of the creation, and of the last change.
    pub(crate) created: u64,
    pub(crate) updated: u64,
    pub(crate) ttl_millis: u64,
    pub(crate) expires_at: Instant,
    pub(crate) poll_millis: u32,
}

impl TaskHead {
    /// Creates the head of a new task (TASK-016).
    pub(crate) fn new(id: TaskBits, now: Instant, anchor: Anchor, ttl: Duration, poll: Duration) -> Self {
        let created = anchor.unix_secs(now);
        // At least one millisecond: a task that expires at once could never be collected.
        let ttl_millis = millis(ttl).clamp(1, MAX_TTL_MILLIS);
        let expires_at = now + Duration::from_millis(ttl_millis);
        let poll_millis = u32::try_from(millis(poll)).unwrap_or(u32::MAX);
        Self { id, created, updated: created, ttl_millis, expires_at, poll_millis }
    }

    /// Records a change.
    pub(crate) fn touch(&mut self, now: Instant, anchor: Anchor) {
        // If the clock was set back, the last change does not become older.
        self.updated = anchor.unix_secs(now).max(self.updated);
    }

    /// Appends the members of a state, without braces (TASK-015).
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        status: &TaskStatus,
        message: Option<&str>,
        is_modern: bool,
    ) {
        let number = |out: &mut Vec<u8>, number| write_int(out, i64::try_from(number).unwrap_or(i64::MAX));
        out.extend_from_slice(b"\"taskId\":\"");
        out.extend_from_slice(&self.id.text());
        out.extend_from_slice(b"\",\"status\":\"");
        out.extend_from_slice(status.as_str().as_bytes());
        out.extend_from_slice(b"\",\"createdAt\":\"");
        write_iso_8601(out, self.created);
        out.extend_from_slice(b"\",\"lastUpdatedAt\":\"");
        write_iso_8601(out, self.updated);
        out.extend_from_slice(if is_modern { b"\",\"ttlMs\":" } else { b"\",\"ttl\":" });
        number(out, self.ttl_millis);
        out.extend_from_slice(if is_modern { b",\"pollIntervalMs\":" } else { b",\"pollInterval\":" });
        number(out, u64::from(self.poll_millis));
        if let Some(message) = message {
            out.extend_from_slice(b",\"statusMessage\":");
            write_str(out, message);
        }
    }
}

/// Returns the position after which a page of `tasks/list` begins; `None` for the first page.
///
/// # Errors
///
/// The error response to send.
pub(crate) fn list_position<P>(
    params: &[u8],
    parse: impl FnOnce(&str) -> Option<P>,
) -> Result<Option<P>, RpcError> {
    let Some(cursor) = member(params, "cursor").filter(|cursor| *cursor != b"null") else { return Ok(None) };
    let position = string(cursor).and_then(|text| parse(&text));
    position.map(Some).ok_or_else(|| RpcError::invalid_params("`params.cursor` is not valid"))
}

/// Answers `tasks/list` with a page (TASK-026, TASK-027).
///
/// `write` appends the members of a task, and `cursor` returns the position behind it.
pub(crate) fn send_list<R: Role, T: Copy>(
    endpoint: &mut Endpoint<R>,
    source: RequestSource<'_>,
    mut tasks: impl Iterator<Item = T>,
    write: impl Fn(&mut Vec<u8>, T),
    cursor: impl Fn(T) -> String,
) {
    let (mut page, mut last, mut count) = (Vec::new(), None, 0);
    // The last one may exceed it: a page makes progress.
    while let Some(task) = (count < PAGE_SIZE && page.len() < PAGE_BYTES).then(|| tasks.next()).flatten() {
        count += 1;
        page.extend_from_slice(if page.is_empty() { b"{" } else { b",{" });
        write(&mut page, task);
        page.push(b'}');
        last = Some(task);
    }
    // Looked for, because a cursor must not lead to an empty page.
    let next = last.filter(|_| tasks.next().is_some());
    source.send_result(endpoint, page.len(), |out| {
        out.extend_from_slice(b"{\"tasks\":[");
        out.extend_from_slice(&page);
        out.push(b']');
        if let Some(task) = next {
            out.extend_from_slice(b",\"nextCursor\":");
            write_str(out, &cursor(task));
        }
        out.push(b'}');
    });
}

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
    let id =
        member(params, "taskId").ok_or_else(|| RpcError::invalid_params("`params.taskId` is missing"))?;
    string(id).ok_or_else(|| RpcError::invalid_params("`params.taskId` is not a string"))
}
