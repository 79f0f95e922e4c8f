//! Readable rendering of messages on the wire, and files in which they were recorded.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use mcp_proto::RawJson;
use mcp_proto::http::HeadRecord;
use mcp_proto::http::fields::{NAME, PARAM_PREFIX};
use mcp_proto::tap::{Direction, TapRecord};
use mcp_proto_trace::Trace;

use crate::escape;
use crate::failure::CommandFailure;
use crate::notes::print_note;
use crate::ordered;
use crate::paint::Paint;
use crate::server::Server;

/// Reads a recorded trace of at most `max_bytes` bytes from a file, or from stdin (`-`). One that is cut is read up to there, which a
/// note says.
///
/// # Errors
///
/// Fails if it cannot be read, or is no trace.
pub(crate) fn read_file(path: &Path, max_bytes: u64) -> Result<Trace, CommandFailure> {
    let from: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(path).map_err(|error| unusable(path, &error))?))
    };
    read_from(from, path, max_bytes)
}

fn unusable(path: &Path, error: &dyn core::fmt::Display) -> CommandFailure {
    CommandFailure::usage(format!("the trace {} cannot be used: {error}", path.display()))
}

/// Does the same with the content of the file.
///
/// # Errors
///
/// As [`read_file`].
pub(crate) fn read_from(content: impl BufRead, path: &Path, max_bytes: u64) -> Result<Trace, CommandFailure> {
    let trace = Trace::read(content, max_bytes).map_err(|error| unusable(path, &error))?;
    if trace.is_cut {
        print_note(&format!("the trace {} ends within a line, and was read up to there", path.display()));
    }
    Ok(trace)
}

/// Formats one message on one line: time, direction, text.
pub(crate) fn format_record(record: &TapRecord, paint: Paint) -> String {
    format_text(record, paint, &String::from_utf8_lossy(&record.bytes))
}

/// Formats a message as [`format_record()`] does, but abridged and cut to at most `width` characters.
pub(crate) fn format_short_record(record: &TapRecord, paint: Paint, width: usize) -> String {
    let text = match RawJson::new(record.bytes.clone()) {
        Ok(message) => abridge(&message, true),
        Err(_) => String::from_utf8_lossy(&record.bytes).into_owned(),
    };
    format_text(record, paint, &truncate(text, width))
}

/// Values that are hidden in the heads of HTTP messages.
pub(crate) struct HeadRedaction {
    /// Whether members of messages are hidden. Header fields that repeat members are then hidden too.
    hides_members: bool,
    /// Names of header fields whose values are hidden.
    fields: Vec<String>,
}

impl HeadRedaction {
    /// Hides the header fields that the command line sets for a server (SEC-019).
    pub(crate) fn new(hides_members: bool, server: &Server) -> Self {
        Self { hides_members, fields: server.field_names() }
    }

    /// Hides only header fields that repeat members, if members are hidden.
    pub(crate) const fn of_members(hides_members: bool) -> Self {
        Self { hides_members, fields: Vec::new() }
    }

    /// Replaces the hidden values of a head. `Mcp-Method` is kept.
    fn apply(&self, head: &str) -> String {
        let mut shown = Vec::new();
        for line in head.lines() {
            let name = line.split(':').next().unwrap_or_default();
            let is_param =
                name.get(..PARAM_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PARAM_PREFIX));
            let hidden = (self.hides_members && (is_param || name.eq_ignore_ascii_case(NAME)))
                || self.fields.iter().any(|field| field.eq_ignore_ascii_case(name));
            shown.push(if hidden { format!("{name}: [redacted]") } else { line.to_owned() });
        }
        shown.join("\n")
    }
}

/// Formats the head of an HTTP message, or a body that is no message, on one line: time, direction and its lines.
pub(crate) fn format_head(record: &HeadRecord, redaction: &HeadRedaction, paint: Paint) -> String {
    let text = match record.is_body {
        // It need not be JSON, so its members are not found.
        true if redaction.hides_members => format!("[{} bytes]", record.text.len()),
        true => record.text.clone(),
        false => redaction.apply(&record.text),
    };
    format_line(record.at.as_micros(), record.direction, &text.replace('\n', " · "), paint)
}

fn format_text(record: &TapRecord, paint: Paint, text: &str) -> String {
    format_line(record.at.as_micros(), record.direction, text, paint)
}

/// Formats one text on one line: time, direction, text.
pub(crate) fn format_line(micros: u64, direction: Direction, text: &str, paint: Paint) -> String {
    let time = paint.dim(format_time(micros));
    let text = escape::line(text);
    match direction {
        Direction::Out => format!("{time} {} {}", paint.name("→"), paint.name(text)),
        Direction::In => format!("{time} {} {}", paint.good("←"), paint.good(text)),
    }
}

/// Formats a time since the beginning.
pub(crate) fn format_time(micros: u64) -> String {
    format!("{:>4}.{:03}s", micros / 1_000_000, micros / 1_000 % 1_000)
}

/// Abridges a part of a message: drops the protocol's own keys of `_meta`.
pub(crate) fn abridged(part: &RawJson) -> String {
    abridge(part, false)
}

/// Abridges a message: drops `jsonrpc` and the protocol's own keys of `_meta`.
fn abridge(value: &RawJson, top: bool) -> String {
    if let Some(elements) = value.elements() {
        let elements: Vec<_> = elements.iter().map(|element| abridge(element, false)).collect();
        return format!("[{}]", elements.join(","));
    }
    if !value.is_object() {
        return value.as_str().to_owned();
    }
    let mut shown = Vec::new();
    for (name, value) in ordered::members(value) {
        // One "…" at the end stands for all members that are left out.
        let text = match name.as_str() {
            "jsonrpc" if top => continue,
            name if name.starts_with("io.modelcontextprotocol/") => "…".into(),
            name => format!("\"{name}\":{}", abridge(&value, false)),
        };
        if text != "…" || !shown.contains(&text) {
            shown.push(text);
        }
    }
    format!("{{{}}}", shown.join(","))
}

/// Cuts a text to at most `width` characters.
pub(crate) fn truncate(text: String, width: usize) -> String {
    match text.char_indices().nth(width) {
        Some(_) => text.chars().take(width - 2).chain(" …".chars()).collect(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abridged_message_omits_common_members() {
        let cases = [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"b":[1,{"a":null}],"_meta":{"io.modelcontextprotocol/x":{"y":1},"io.modelcontextprotocol/z":2,"progressToken":1}}}"#,
                r#"{"id":1,"method":"m","params":{"b":[1,{"a":null}],"_meta":{…,"progressToken":1}}}"#,
            ),
            (r#"[{"jsonrpc":"2.0"}]"#, r#"[{"jsonrpc":"2.0"}]"#),
            ("5", "5"),
        ];
        for (message, want) in cases {
            assert_eq!(abridge(&RawJson::new(message).expect("JSON"), true), want);
        }
    }

    // covers: SEC-019
    #[test]
    fn hidden_members_and_fields_are_hidden_in_http_heads() {
        let head = "POST /mcp\nMcp-Method: tools/call\nmcp-name: x\nMcp-Param-Password: hunter2\nA: b\nC: d";
        let hidden = |hides_members, fields: &[&str]| {
            let fields = fields.iter().copied().map(str::to_owned).collect();
            HeadRedaction { hides_members, fields }.apply(head)
        };
        let want = "POST /mcp\nMcp-Method: tools/call\nmcp-name: [redacted]\nMcp-Param-Password: [redacted]\n\
                    A: b\nC: d";
        assert_eq!(hidden(true, &[]), want);
        assert_eq!(hidden(false, &["a"]), head.replace("A: b", "A: [redacted]"));
    }

    #[test]
    fn text_beyond_width_is_truncated() {
        assert_eq!(truncate("abcdef".into(), 6), "abcdef");
        assert_eq!(truncate("äbcdefg".into(), 6), "äbcd …");
    }
}
