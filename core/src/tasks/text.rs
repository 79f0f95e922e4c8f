//! Texts of tasks of this side: ids in Base64, times in ISO 8601, states.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::entropy::Entropy;
use crate::json::{object_members, string, write_int};
use crate::model::TaskStatus;
use crate::rpc::RpcError;
use crate::time::write_iso_8601;

/// The bits of a task id. `Debug` omits them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskBits(pub(crate) [u8; 16]);

/// Number of characters of a task id.
pub(crate) const ID_LEN: usize = 22;

impl core::fmt::Debug for TaskBits {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("TaskBits(…)")
    }
}

impl TaskBits {
    /// Returns the id as text: 22 characters of URL-safe Base64.
    pub(crate) fn text(self) -> [u8; ID_LEN] {
        let mut text = [0; ID_LEN];
        // 16 bytes are 22 characters.
        let _ = URL_SAFE_NO_PAD.encode_slice(self.0, &mut text);
        text
    }

    /// Parses an id; `None` if it is not one of this side.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mut bits = [0; 16];
        // The text is that of a peer: one of another length is not decoded at all.
        let written = match text.len() {
            // The decoder refuses bits beyond the 16 bytes, so each id has one spelling.
            ID_LEN => URL_SAFE_NO_PAD.decode_slice(text, &mut bits).ok()?,
            _ => return None,
        };
        (written == bits.len()).then_some(Self(bits))
    }
}

/// Draws ids of tasks, 128 bits each (TASK-035, TASK-131). One draw gives two.
#[derive(Clone, Debug)]
pub(crate) struct TaskIds {
    entropy: Entropy,
    spare: Option<TaskBits>,
}

impl TaskIds {
    pub(crate) const fn new(entropy: Entropy) -> Self {
        Self { entropy, spare: None }
    }

    pub(crate) fn draw(&mut self) -> TaskBits {
        if let Some(id) = self.spare.take() {
            return id;
        }
        let mut bytes = [0; 32];
        self.entropy.fill(&mut bytes);
        let (mut first, mut second) = ([0; 16], [0; 16]);
        let (low, high) = bytes.split_at(16);
        first.copy_from_slice(low);
        second.copy_from_slice(high);
        self.spare = Some(TaskBits(second));
        TaskBits(first)
    }
}

/// Returns a text of ASCII characters as `str`.
pub(crate) fn ascii(text: &[u8]) -> &str {
    core::str::from_utf8(text).unwrap_or_default()
}

/// Largest time to live, so that sums of times do not overflow: about 31 years.
const MAX_TTL_MILLIS: u64 = 1_000_000_000_000;

/// Returns the time to live of a new task in milliseconds: what is asked for, up to a limit (TASK-016).
pub(crate) fn granted_ttl(asked: Option<Duration>, default: Duration, max: Duration) -> u64 {
    // At least one millisecond: a task that expires at once could never be collected.
    millis(asked.unwrap_or(default).min(max)).clamp(1, MAX_TTL_MILLIS)
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Members that every state of a task has, in both forms (TASK-014, TASK-108).
pub(crate) struct StateText<'a> {
    pub(crate) id: TaskBits,
    pub(crate) status: &'a TaskStatus,
    /// Unix time of the creation, and of the last change.
    pub(crate) created: u64,
    pub(crate) updated: u64,
    pub(crate) ttl_millis: u64,
    pub(crate) poll_millis: u32,
}

impl StateText<'_> {
    /// Appends the members, without braces.
    pub(crate) fn write(&self, out: &mut Vec<u8>, is_modern: bool) {
        let number = |out: &mut Vec<u8>, number| write_int(out, i64::try_from(number).unwrap_or(i64::MAX));
        out.extend_from_slice(b"\"taskId\":\"");
        out.extend_from_slice(&self.id.text());
        out.extend_from_slice(b"\",\"status\":\"");
        out.extend_from_slice(self.status.as_str().as_bytes());
        out.extend_from_slice(b"\",\"createdAt\":\"");
        write_iso_8601(out, self.created);
        out.extend_from_slice(b"\",\"lastUpdatedAt\":\"");
        write_iso_8601(out, self.updated);
        out.extend_from_slice(if is_modern { b"\",\"ttlMs\":" } else { b"\",\"ttl\":" });
        number(out, self.ttl_millis);
        out.extend_from_slice(if is_modern { b",\"pollIntervalMs\":" } else { b",\"pollInterval\":" });
        number(out, u64::from(self.poll_millis));
    }
}

// Parameters of requests about tasks, and the errors that they are refused with.

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

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TASK-012, TASK-131
    #[test]
    fn ids_are_22_characters_and_other_spellings_are_none() {
        let bits = TaskBits([0xfb; 16]);
        let text = bits.text();
        assert_eq!(&text, b"-_v7-_v7-_v7-_v7-_v7-w");
        assert_eq!(TaskBits::parse(&text), Some(bits));
        assert_eq!(alloc::format!("{bits:?}"), "TaskBits(…)", "an id is a secret");
        for wrong in
            [&b""[..], b"-_v7-_v7-_v7-_v7-_v7-x", b"-_v7-_v7-_v7-_v7-_v7-w=", b"+/v7-_v7-_v7-_v7-_v7-w"]
        {
            assert_eq!(TaskBits::parse(wrong), None);
        }
    }
}
