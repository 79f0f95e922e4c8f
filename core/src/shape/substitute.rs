//! Substitutes for types that a revision lacks.
//!
//! Each substitute is made from JSON text that was just written in the shape of the revision. The text is therefore
//! well-formed, and its member names have no escapes.

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::json::{Scanner, object_members, string, write_str};

/// Returns the value of a member.
fn member<'a>(object: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut found = None;
    object_members(object, |n, value| {
        if n == name.as_bytes() {
            found = Some(value);
        }
    });
    found
}

/// Returns the text of a string member.
fn text<'a>(object: &'a [u8], name: &str) -> Option<Cow<'a, str>> {
    string(member(object, name)?)
}

/// Returns the elements of an array; any other value counts as an array of one element.
fn elements(value: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    if value.first() != Some(&b'[') {
        found.push(value);
        return found;
    }
    // The serializer wrote the text, so the scan cannot fail.
    let _ = Scanner::trusted(value).array(|s| {
        found.push(s.value()?.slice(value).unwrap_or_default());
        Ok(())
    });
    found
}

/// Callback that gets name and value of a member; it writes a replacement and returns `true`, or returns `false`.
type RewriteMember<'a> = dyn FnMut(&[u8], &[u8], &mut Vec<u8>) -> bool + 'a;

/// Appends an object member by member; members that `change` does not replace are copied.
fn rewrite(object: &[u8], out: &mut Vec<u8>, change: &mut RewriteMember<'_>) {
    out.push(b'{');
    let start = out.len();
    object_members(object, |name, value| {
        let before = out.len();
        if before > start {
            out.push(b',');
        }
        let comma = out.len();
        if change(name, value, out) {
            if out.len() == comma {
                out.truncate(before); // the member is omitted
            }
        } else {
            push_member_name(name, out);
            out.extend_from_slice(value);
        }
    });
    out.push(b'}');
}

fn push_member_name(name: &[u8], out: &mut Vec<u8>) {
    write_str(out, core::str::from_utf8(name).unwrap_or_default());
    out.push(b':');
}

/// Appends a text block with the annotations of the block that it replaces.
fn push_text_block(text: &str, instead_of: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
    write_str(out, text);
    if let Some(annotations) = member(instead_of, "annotations") {
        out.extend_from_slice(b",\"annotations\":");
        out.extend_from_slice(annotations);
    }
    out.push(b'}');
}

/// Describes a content block in words.
fn describe_block(block: &[u8]) -> String {
    let part = |name| text(block, name).unwrap_or_default();
    match &*part("type") {
        "text" => part("text").into_owned(),
        "image" | "audio" => {
            let data = part("data");
            let bytes = data.trim_end_matches('=').len() * 3 / 4;
            format!("[{} left out: {}, {bytes} bytes]", part("type"), part("mimeType"))
        }
        "resource" => {
            let resource = member(block, "resource").unwrap_or_default();
            match text(resource, "text") {
                Some(text) => text.into_owned(),
                None => format!("[resource left out: {}]", text(resource, "uri").unwrap_or_default()),
            }
        }
        "resource_link" => {
            let name = text(block, "title").unwrap_or_else(|| part("name"));
            let mut link = format!("{name}: {}", part("uri"));
            if let Some(description) = text(block, "description") {
                link.push('\n');
                link.push_str(&description);
            }
            link
        }
        "tool_use" => {
            let input = member(block, "input").and_then(|i| core::str::from_utf8(i).ok());
            format!("[tool call {}: {} {}]", part("id"), part("name"), input.unwrap_or_default())
        }
        "tool_result" => {
            let failed = member(block, "isError") == Some(b"true");
            let mut result =
                format!("[{} of tool call {}]", if failed { "error" } else { "result" }, part("toolUseId"));
            for inner in elements(member(block, "content").unwrap_or(b"[]")) {
                result.push('\n');
                result.push_str(&describe_block(inner));
            }
            result
        }
        other => format!("[{other} left out]"),
    }
}

/// Replaces a block of a kind that the revision lacks by a text that describes it.
pub(super) fn block_as_text(block: &[u8], out: &mut Vec<u8>) {
    push_text_block(&describe_block(block), block, out);
}

/// Removes `structuredContent` and adds it as a text block, unless the result has a text block already (TOOL-014).
pub(super) fn structured_as_text(result: &[u8], out: &mut Vec<u8>) {
    let value = member(result, "structuredContent").and_then(|v| core::str::from_utf8(v).ok());
    rewrite(result, out, &mut |name, content, out| match name {
        b"structuredContent" => true,
        b"content" => {
            let blocks = elements(content);
            let is_text = |block: &&[u8]| text(block, "type").as_deref() == Some("text");
            let Some(value) = value.filter(|_| !blocks.iter().any(is_text)) else { return false };
            push_member_name(name, out);
            out.extend_from_slice(content.strip_suffix(b"]").unwrap_or(content));
            if !blocks.is_empty() {
                out.push(b',');
            }
            push_text_block(value, b"{}", out);
            out.push(b']');
            true
        }
        _ => false,
    });
}

/// Splits messages of several blocks into messages of one block each.
pub(super) fn split_messages(params: &[u8], out: &mut Vec<u8>) {
    rewrite(params, out, &mut |name, messages, out| {
        if name != b"messages" {
            return false;
        }
        push_member_name(name, out);
        out.push(b'[');
        let start = out.len();
        for message in elements(messages) {
            for block in elements(member(message, "content").unwrap_or(b"[]")) {
                if out.len() > start {
                    out.push(b',');
                }
                rewrite(message, out, &mut |name, _, out| {
                    if name != b"content" {
                        return false;
                    }
                    push_member_name(name, out);
                    out.extend_from_slice(block);
                    true
                });
            }
        }
        out.push(b']');
        true
    });
}

/// Merges several blocks into one: the only block, or a text that describes all of them.
pub(super) fn merge_blocks(result: &[u8], out: &mut Vec<u8>) {
    rewrite(result, out, &mut |name, content, out| {
        if name != b"content" {
            return false;
        }
        push_member_name(name, out);
        match &*elements(content) {
            [only] => out.extend_from_slice(only),
            blocks => {
                let words: Vec<String> = blocks.iter().map(|b| describe_block(b)).collect();
                push_text_block(&words.join("\n"), b"{}", out);
            }
        }
        true
    });
}

/// Writes titled choices as `enum` with `enumNames`, the form of the first revision with elicitation (ELIC-015).
pub(super) fn legacy_enum(field: &[u8], out: &mut Vec<u8>) {
    rewrite(field, out, &mut |name, options, out| {
        if name != b"oneOf" {
            return false;
        }
        let options = elements(options);
        for (i, (list, part)) in [("enum", "const"), ("enumNames", "title")].into_iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            push_member_name(list.as_bytes(), out);
            out.push(b'[');
            for (i, option) in options.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_str(out, &text(option, part).unwrap_or_default());
            }
            out.push(b']');
        }
        true
    });
}
