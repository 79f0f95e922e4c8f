//! Tasks as both roles see them: ids, states, lists, times between polls. Each role keeps its tasks in tables of its own.

pub(crate) mod follow;
pub(crate) mod ledger;
pub(crate) mod text;

use alloc::vec::Vec;

use super::identity::Capabilities;
use super::json::{TopLevelMembers, write_str};
use super::meta;
use super::methods::{self, Capability};

/// Longest id of a task that is accepted from a peer, in bytes. Others are refused.
pub(crate) const MAX_TASK_ID: usize = 1_024;

/// Returns whether a client declared that questions of this method may run as tasks (TASK-003).
#[expect(deprecated, reason = "supported until its removal")]
pub(crate) fn may_be_task(declared: &Capabilities, method: &str) -> bool {
    match method {
        methods::CREATE_MESSAGE => declared.has(Capability::SamplingTasks),
        methods::ELICIT => declared.has(Capability::ElicitationTasks),
        _ => false,
    }
}

/// Returns the part of the message of a state that is kept: at most 1 KiB.
pub(crate) fn clip(message: &str) -> &str {
    let end = (0..=message.len().min(1 << 10)).rev().find(|end| message.is_char_boundary(*end));
    message.get(..end.unwrap_or_default()).unwrap_or_default()
}

// The name of a task in `_meta` of what belongs to it (2025-11-25; TASK-023).

/// Appends the member of `_meta` that names the task.
pub(crate) fn write_related_task(out: &mut Vec<u8>, id: &str) {
    write_str(out, meta::RELATED_TASK);
    out.extend_from_slice(b":{\"taskId\":");
    write_str(out, id);
    out.push(b'}');
}

/// Appends an object with the name of the task in its `_meta`.
pub(crate) fn write_with_related_task(out: &mut Vec<u8>, object: &[u8], id: &str) {
    if let Some(at) = TopLevelMembers::scan(object, 0).meta {
        let (head, tail) = object.split_at_checked(at).unwrap_or((object, b""));
        out.extend_from_slice(head);
        write_related_task(out, id);
        // An empty object has no member behind the new one, so it gets no comma.
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
            // The closing brace, which is written again below.
            out.pop();
            out.extend_from_slice(if out.last() == Some(&b'{') { b"\"_meta\":{" } else { b",\"_meta\":{" });
            out.extend_from_slice(&member);
            out.extend_from_slice(b"}}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Serializer;
    use serde_json::value::RawValue;

    // covers: TASK-023
    #[test]
    fn name_of_the_task_is_added_to_meta_in_any_spelling() {
        let named = alloc::format!(r#""{}":{{"taskId":"t"}}"#, meta::RELATED_TASK);
        for (object, meta) in [
            ("{}", ""),
            ("{ }", ""),
            (r#"{"a":1}"#, ""),
            (r#"{"a":1 } "#, ""),
            (r#"{"_meta":{}}"#, ""),
            (r#"{"_meta": { } ,"a":1}"#, ""),
            (r#"{"a":{"_meta":{}},"_meta":{"b":2}}"#, r#","b":2"#),
            (r#"{"_meta":{ "b" : 2}}"#, r#","b":2"#),
        ] {
            let value: serde_json::Value = serde_json::from_str(object).expect("JSON");
            let mut want = value.as_object().expect("an object").clone();
            let meta = alloc::format!("{{{named}{meta}}}");
            want.insert("_meta".into(), serde_json::from_str(&meta).expect("JSON"));
            let check = |out: &[u8]| {
                let found: serde_json::Value = serde_json::from_slice(out).expect("JSON");
                assert_eq!(found.as_object(), Some(&want), "{object}");
            };
            let mut out = Vec::new();
            write_with_related_task(&mut out, object.trim().as_bytes(), "t");
            check(&out);
            // A result that was written from a value has no white space.
            let mut out = Vec::new();
            let compact = serde_json::to_string(&value).expect("JSON");
            let raw: &RawValue = serde_json::from_str(&compact).expect("JSON");
            let members = Serializer::object(&mut out, raw, None).expect("an object");
            add_related_task(&mut out, members, "t");
            check(&out);
        }
    }
}
