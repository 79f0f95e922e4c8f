//! The forms of a task on the wire: that of 2025-11-25 and that of the extension.

use alloc::vec::Vec;

use super::entry::{TaskEntry, TaskOutcome};
use crate::json::{max_escaped_len, object_members, string, write_str};
use crate::model::TaskStatus;
use crate::tasks::related;
use crate::tasks::text::{StateText, ascii};
use crate::version::Version;

/// The members of a written task besides its state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Nothing (TASK-009, TASK-108).
    Bare,
    /// In the extension, what belongs to its status (TASK-112).
    Full,
}

/// Returns the bytes that the texts of a task may take in a message; `extra` of `Endpoint::send`.
pub(super) fn text_room(task: &TaskEntry) -> usize {
    let message = task.message.as_ref().map_or(0, |message| max_escaped_len(message.len()));
    task.len().saturating_add(message)
}

/// Appends the members of a task in the form of its revision, without braces (TASK-014, TASK-108).
pub(super) fn write_members(out: &mut Vec<u8>, task: &TaskEntry, detail: Detail) {
    let is_modern = task.version >= Version::V2026_07_28;
    let status = task.status().unwrap_or(TaskStatus::Working);
    let state = StateText {
        id: task.id,
        status: &status,
        created: task.created,
        updated: task.updated,
        ttl_millis: task.ttl_millis,
        poll_millis: task.poll_millis,
    };
    state.write(out, is_modern);
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
    related::write_related_task(out, ascii(&task.id.text()));
}

/// Appends an object with the name of the task in its `_meta` (TASK-023, TASK-024).
pub(super) fn write_with_related_task(out: &mut Vec<u8>, object: &[u8], task: &TaskEntry) {
    related::write_with_related_task(out, object, ascii(&task.id.text()));
}
