//! The forms of a task on the wire: that of 2025-11-25 and that of the extension.

use alloc::vec::Vec;

use super::entry::{TaskEntry, TaskOutcome};
use super::text::write_time;
use crate::json::{TopLevelMembers, object_members, string, write_int, write_str};
use crate::meta;
use crate::model::TaskStatus;
use crate::version::Version;

/// What is written of a task besides its state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Nothing (TASK-009, TASK-108).
    Bare,
    /// In the extension, what belongs to its status (TASK-112).
    Full,
}

fn write_number(out: &mut Vec<u8>, number: u64) {
    write_int(out, i64::try_from(number).unwrap_or(i64::MAX));
}

/// Appends the members of a task in the form of its revision, without braces (TASK-014, TASK-108).
pub(super) fn write_members(out: &mut Vec<u8>, task: &TaskEntry, detail: Detail) {
    let is_modern = task.version >= Version::V2026_07_28;
    let status = task.status().unwrap_or(TaskStatus::Working);
    out.extend_from_slice(b"\"taskId\":\"");
    out.extend_from_slice(&task.id.text());
    out.extend_from_slice(b"\",\"status\":\"");
    out.extend_from_slice(status.as_str().as_bytes());
    out.extend_from_slice(b"\",\"createdAt\":\"");
    write_time(out, task.created);
    out.extend_from_slice(b"\",\"lastUpdatedAt\":\"");
    write_time(out, task.updated);
    out.extend_from_slice(if is_modern { b"\",\"ttlMs\":" } else { b"\",\"ttl\":" });
    write_number(out, task.ttl_millis);
    out.extend_from_slice(if is_modern { b",\"pollIntervalMs\":" } else { b",\"pollInterval\":" });
    write_number(out, u64::from(task.poll_millis));
    write_message(out, task, &status);
    if !is_modern || detail == Detail::Bare {
        return;
    }
    match (&status, &task.outcome) {
        (TaskStatus::InputRequired, _) => write_questions(out, task),
        (TaskStatus::Completed, Some(TaskOutcome::Result(text, _))) => {
            out.extend_from_slice(b",\"result\":");
            out.extend_from_slice(text);
        }
        (TaskStatus::Failed, Some(TaskOutcome::Error(text))) => {
            out.extend_from_slice(b",\"error\":");
            out.extend_from_slice(text);
        }
        _ => {}
    }
}

/// Appends the message, or for a task that failed without one its reason (TASK-032).
fn write_message(out: &mut Vec<u8>, task: &TaskEntry, status: &TaskStatus) {
    let mut write = |text: &str| {
        out.extend_from_slice(b",\"statusMessage\":");
        write_str(out, text);
    };
    match (&task.message, &task.outcome) {
        (Some(message), _) => write(message),
        (None, Some(TaskOutcome::Error(text))) if *status == TaskStatus::Failed => {
            object_members(text, |name, value| {
                if name == b"message" {
                    write(&string(value).unwrap_or_default());
                }
            });
        }
        (None, Some(_)) if *status == TaskStatus::Failed => write("the tool reported a failure"),
        _ => {}
    }
}

/// Appends the open questions by their keys (TASK-112, TASK-120).
fn write_questions(out: &mut Vec<u8>, task: &TaskEntry) {
    out.extend_from_slice(b",\"inputRequests\":{");
    let mut is_first = true;
    for question in task.questions().iter().filter(|question| question.answer.is_none()) {
        if !core::mem::take(&mut is_first) {
            out.push(b',');
        }
        write_str(out, question.wire_key());
        out.extend_from_slice(b":{\"method\":\"");
        out.extend_from_slice(question.method.as_bytes());
        out.push(b'"');
        if &*question.params != b"{}" {
            out.extend_from_slice(b",\"params\":");
            out.extend_from_slice(&question.params);
        }
        out.push(b'}');
    }
    out.push(b'}');
}

/// Appends the member of `_meta` that names the task (TASK-023).
pub(super) fn write_related_task(out: &mut Vec<u8>, task: &TaskEntry) {
    out.push(b'"');
    out.extend_from_slice(meta::RELATED_TASK.as_bytes());
    out.extend_from_slice(b"\":{\"taskId\":\"");
    out.extend_from_slice(&task.id.text());
    out.extend_from_slice(b"\"}");
}

/// Appends an object with the name of the task in its `_meta` (TASK-023, TASK-024).
pub(super) fn write_with_related_task(out: &mut Vec<u8>, object: &[u8], task: &TaskEntry) {
    if let Some(at) = TopLevelMembers::scan(object, 0).meta {
        let (head, tail) = object.split_at_checked(at).unwrap_or((object, b""));
        out.extend_from_slice(head);
        write_related_task(out, task);
        if tail.iter().find(|b| !b.is_ascii_whitespace()) != Some(&b'}') {
            out.push(b',');
        }
        out.extend_from_slice(tail);
        return;
    }
    let body = object.strip_suffix(b"}").unwrap_or(object).trim_ascii_end();
    out.extend_from_slice(body);
    out.extend_from_slice(if body == b"{" { b"\"_meta\":{" } else { b",\"_meta\":{" });
    write_related_task(out, task);
    out.extend_from_slice(b"}}");
}
