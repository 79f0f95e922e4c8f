//! Writers: events to bytes.
//!
//! No value can break out of its line: where a line end cannot be expressed, the value is refused.

use alloc::vec::Vec;
use core::time::Duration;

/// Fields of an event other than its data.
///
/// ```
/// use mcp_proto::frame::sse::{EVENT_END, EventHead, write_event};
/// let head = EventHead { id: Some("7"), ..EventHead::default() };
/// let mut out = Vec::new();
/// write_event(&mut out, &head, b"two\nlines")?;
/// assert_eq!(out, b"id: 7\ndata: two\ndata: lines\n\n");
///
/// // A large payload without line ends need not be copied: send it between head and end.
/// let mut before = Vec::new();
/// head.begin(&mut before)?;
/// let (payload, after) = (br#"{"jsonrpc":"2.0"}"#, EVENT_END);
/// assert_eq!([&before, &payload[..], after].concat(), b"id: 7\ndata: {\"jsonrpc\":\"2.0\"}\n\n");
/// # Ok::<(), mcp_proto::frame::sse::InvalidEventField>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventHead<'a> {
    /// Type of the event; `None` for `message`, the default (SSE-001).
    pub kind: Option<&'a str>,
    /// Id of the event; an empty one makes the reader forget the previous id (SSE-013).
    pub id: Option<&'a str>,
    /// Time for the reader to wait before it connects again, in whole milliseconds (SSE-018).
    pub retry: Option<Duration>,
}

/// End of an event, written after its data.
pub const EVENT_END: &[u8] = b"\n\n";

impl EventHead<'_> {
    /// Appends an event up to its data.
    ///
    /// The data must follow without a line end in it; JSON text that this crate writes has none. [`EVENT_END`] ends the
    /// event.
    ///
    /// # Errors
    ///
    /// [`InvalidEventField`] if the type or the id holds a line end or NUL. Nothing is appended then.
    pub fn begin(&self, out: &mut Vec<u8>) -> Result<(), InvalidEventField> {
        for (name, value) in [("type", self.kind), ("id", self.id)] {
            if value.is_some_and(|v| v.bytes().any(|b| matches!(b, b'\n' | b'\r' | 0))) {
                return Err(InvalidEventField { name });
            }
        }
        if let Some(id) = self.id {
            field(out, b"id: ", id.as_bytes());
        }
        if let Some(kind) = self.kind {
            field(out, b"event: ", kind.as_bytes());
        }
        if let Some(retry) = self.retry {
            let millis = u64::try_from(retry.as_millis()).unwrap_or(u64::MAX);
            field(out, b"retry: ", itoa::Buffer::new().format(millis).as_bytes());
        }
        out.extend_from_slice(DATA);
        Ok(())
    }
}

/// Appends an event. Each line end of the data begins a new line of data; the reader joins them with newlines.
///
/// An event without data is not returned by the reader, but its id takes effect (SSE-016).
///
/// # Errors
///
/// [`InvalidEventField`] if the type or the id holds a line end or NUL. Nothing is appended then.
pub fn write_event(out: &mut Vec<u8>, head: &EventHead<'_>, data: &[u8]) -> Result<(), InvalidEventField> {
    head.begin(out)?;
    lines(out, DATA, data);
    out.extend_from_slice(EVENT_END);
    Ok(())
}

/// Appends a comment, which readers ignore: it keeps a quiet stream alive (SSE-006).
pub fn write_comment(out: &mut Vec<u8>, text: &str) {
    const COMMENT: &[u8] = b": ";
    out.extend_from_slice(COMMENT);
    lines(out, COMMENT, text.as_bytes());
    out.extend_from_slice(EVENT_END);
}

/// Error for a field that could not be read back unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the {name} of an event holds a line end or NUL")]
#[non_exhaustive]
pub struct InvalidEventField {
    /// Name of the field: `type` or `id`.
    pub name: &'static str,
}

const DATA: &[u8] = b"data: ";

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// Appends text with `begin` after each line end in it.
fn lines(out: &mut Vec<u8>, begin: &[u8], text: &[u8]) {
    let mut rest = text;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
        let (line, end) = rest.split_at(at);
        out.extend_from_slice(line);
        out.push(b'\n');
        out.extend_from_slice(begin);
        let length = if end.starts_with(b"\r\n") { 2 } else { 1 };
        rest = end.get(length..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}
