//! Messages on the wire, for people to read

use mcp_proto::RawJson;
use mcp_proto::http::HeadRecord;
use mcp_proto::http::fields::{NAME, PARAM_PREFIX};
use mcp_proto::tap::{Direction, TapRecord};

use crate::escape;
use crate::ordered;
use crate::paint::Paint;

/// One message on one line: when, which way, what
pub(crate) fn line(record: &TapRecord, paint: Paint) -> String {
    show(record, paint, &String::from_utf8_lossy(&record.bytes))
}

/// As [`line()`], with no more of the message than a person wants to see, and at most `width` characters of that
pub(crate) fn short_line(record: &TapRecord, paint: Paint, width: usize) -> String {
    let text = match RawJson::new(record.bytes.clone()) {
        Ok(message) => brief(&message, true),
        Err(_) => String::from_utf8_lossy(&record.bytes).into_owned(),
    };
    show(record, paint, &cut(text, width))
}

/// A head of HTTP on one line: when, which way, and its lines; `hides` says that members of messages are hidden, which
/// a head repeats
pub(crate) fn head(record: &HeadRecord, hides: bool, paint: Paint) -> String {
    let text = if hides { without_members(&record.text) } else { record.text.clone() };
    line_of(record.at.as_micros(), record.direction, &text.replace('\n', " · "), paint)
}

/// The lines of a head with nothing in them that is a member of the message behind it, but for its method
fn without_members(head: &str) -> String {
    let mut shown = Vec::new();
    for line in head.lines() {
        let name = line.split(':').next().unwrap_or_default();
        let is_param =
            name.get(..PARAM_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PARAM_PREFIX));
        let hidden = is_param || name.eq_ignore_ascii_case(NAME);
        shown.push(if hidden { format!("{name}: [redacted]") } else { line.to_owned() });
    }
    shown.join("\n")
}

fn show(record: &TapRecord, paint: Paint, text: &str) -> String {
    line_of(record.at.as_micros(), record.direction, text, paint)
}

/// A line of text on one line: when, which way, what
pub(crate) fn line_of(micros: u64, direction: Direction, text: &str, paint: Paint) -> String {
    let time = paint.dim(format!("{:>4}.{:03}s", micros / 1_000_000, micros / 1_000 % 1_000));
    let text = escape::line(text);
    match direction {
        Direction::Out => format!("{time} {} {}", paint.name("→"), paint.name(text)),
        Direction::In => format!("{time} {} {}", paint.good("←"), paint.good(text)),
    }
}

/// A message without what every message has: `jsonrpc`, and what the protocol keeps in `_meta`
fn brief(value: &RawJson, top: bool) -> String {
    if let Some(elements) = value.elements() {
        let elements: Vec<_> = elements.iter().map(|element| brief(element, false)).collect();
        return format!("[{}]", elements.join(","));
    }
    if !value.is_object() {
        return value.as_str().to_owned();
    }
    let mut shown = Vec::new();
    for (name, value) in ordered::members(value) {
        // The last of them ends with a sign for all that is left out.
        let text = match name.as_str() {
            "jsonrpc" if top => continue,
            name if name.starts_with("io.modelcontextprotocol/") => "…".into(),
            name => format!("\"{name}\":{}", brief(&value, false)),
        };
        if text != "…" || !shown.contains(&text) {
            shown.push(text);
        }
    }
    format!("{{{}}}", shown.join(","))
}

fn cut(text: String, width: usize) -> String {
    match text.char_indices().nth(width) {
        Some(_) => text.chars().take(width - 2).chain(" …".chars()).collect(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_shortened_to_what_differs() {
        let cases = [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"b":[1,{"a":null}],"_meta":{"io.modelcontextprotocol/x":{"y":1},"io.modelcontextprotocol/z":2,"progressToken":1}}}"#,
                r#"{"id":1,"method":"m","params":{"b":[1,{"a":null}],"_meta":{…,"progressToken":1}}}"#,
            ),
            (r#"[{"jsonrpc":"2.0"}]"#, r#"[{"jsonrpc":"2.0"}]"#),
            ("5", "5"),
        ];
        for (message, want) in cases {
            assert_eq!(brief(&RawJson::new(message).expect("JSON"), true), want);
        }
    }

    // covers: SEC-019
    #[test]
    fn what_is_hidden_in_messages_is_hidden_in_heads() {
        let head = "POST /mcp\nMcp-Method: tools/call\nmcp-name: x\nMcp-Param-Password: hunter2\nA: b";
        let want =
            "POST /mcp\nMcp-Method: tools/call\nmcp-name: [redacted]\nMcp-Param-Password: [redacted]\nA: b";
        assert_eq!(without_members(head), want);
    }

    #[test]
    fn what_is_too_long_is_cut() {
        assert_eq!(cut("abcdef".into(), 6), "abcdef");
        assert_eq!(cut("äbcdefg".into(), 6), "äbcd …");
    }
}
