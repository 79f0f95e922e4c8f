//! The name of a task in `_meta` of what belongs to it (2025-11-25; TASK-023).

use alloc::vec::Vec;

use crate::json::{TopLevelMembers, write_str};
use crate::meta;

/// Appends the member of `_meta` that names the task.
pub(crate) fn write_related_task(out: &mut Vec<u8>, id: &str) {
    write_str(out, meta::RELATED_TASK);
    out.extend_from_slice(b":{\"taskId\":");
    write_str(out, id);
    out.push(b'}');
}

/// Appends an object with the name of the task in its `_meta`.
#[cfg(feature = "crypto")]
pub(crate) fn write_with_related_task(out: &mut Vec<u8>, object: &[u8], id: &str) {
    if let Some(at) = TopLevelMembers::scan(object, 0).meta {
        let (head, tail) = object.split_at_checked(at).unwrap_or((object, b""));
        out.extend_from_slice(head);
        write_related_task(out, id);
        if tail.iter().find(|b| !b.is_ascii_whitespace()) != Some(&b'}') {
            out.push(b',');
        }
        out.extend_from_slice(tail);
        return;
    }
    let body = object.strip_suffix(b"}").unwrap_or(object).trim_ascii_end();
    out.extend_from_slice(body);
    out.extend_from_slice(if body == b"{" { b"\"_meta\":{" } else { b",\"_meta\":{" });
    write_related_task(out, id);
    out.extend_from_slice(b"}}");
}

/// Adds the name of the task to an object at the end of `out`, whose members are known.
pub(crate) fn add_related_task(out: &mut Vec<u8>, members: TopLevelMembers, id: &str) {
    let mut member = Vec::new();
    write_related_task(&mut member, id);
    match members.meta.filter(|at| *at < out.len()) {
        Some(at) => {
            if out.get(at) != Some(&b'}') {
                member.push(b',');
            }
            out.splice(at..at, member);
        }
        None => {
            out.pop();
            out.extend_from_slice(if out.last() == Some(&b'{') { b"\"_meta\":{" } else { b",\"_meta\":{" });
            out.extend_from_slice(&member);
            out.extend_from_slice(b"}}");
        }
    }
}
