//! Events to bytes.
//!
//! Nothing that is written breaks out of its line: where a line end cannot be expressed it is refused.

use alloc::vec::Vec;
use core::time::Duration;

/// The fields of an event beside its data
///
/// ```
/// use mcp_proto::frame::sse::{END, EventHead, write_event};
/// let head = EventHead { id: Some("7"), ..EventHead::default() };
/// let mut out = Vec::new();
/// write_event(&mut out, &head, b"two\nlines")?;
/// assert_eq!(out, b"id: 7\ndata: two\ndata: lines\n\n");
///
/// // A large payload without line ends need not be copied: its event is what is sent before and after it.
/// let mut before = Vec::new();
/// head.begin(&mut before)?;
/// let (payload, after) = (br#"{"jsonrpc":"2.0"}"#, END);
/// assert_eq!([&before, &payload[..], after].concat(), b"id: 7\ndata: {\"jsonrpc\":\"2.0\"}\n\n");
/// # Ok::<(), mcp_proto::frame::sse::BadField>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventHead<'a> {
    /// Its type; none for `message`, which is the default (SSE-001)
    pub kind: Option<&'a str>,
    /// Its id; an empty one tells the reader to forget the one before (SSE-013)
    pub id: Option<&'a str>,
    /// How long the reader is to wait before it connects again, in whole milliseconds (SSE-018)
    pub retry: Option<Duration>,
}

/// What ends an event behind its data
pub const END: &[u8] = b"\n\n";

impl EventHead<'_> {
    /// Appends an event up to its data, which must follow with no line end in it, as all JSON text that this crate
    /// writes; [`END`] comes behind it
    ///
    /// Nothing is appended when a field is refused.
    pub fn begin(&self, out: &mut Vec<u8>) -> Result<(), BadField> {
        for (name, value) in [("type", self.kind), ("id", self.id)] {
            if value.is_some_and(|v| v.bytes().any(|b| matches!(b, b'\n' | b'\r' | 0))) {
                return Err(BadField { name });
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

/// Appends an event; each line end of the data begins a new line of data, which the reader joins with newlines again
///
/// Without data it is one that the reader does not hand out, but notes the id of (SSE-016). Nothing is appended when a
/// field is refused.
pub fn write_event(out: &mut Vec<u8>, head: &EventHead<'_>, data: &[u8]) -> Result<(), BadField> {
    head.begin(out)?;
    lines(out, DATA, data);
    out.extend_from_slice(END);
    Ok(())
}

/// Appends a comment, which no reader hands out: a sign of life on a stream without news (SSE-006)
pub fn write_comment(out: &mut Vec<u8>, text: &str) {
    const COMMENT: &[u8] = b": ";
    out.extend_from_slice(COMMENT);
    lines(out, COMMENT, text.as_bytes());
    out.extend_from_slice(END);
}

/// A field that would not be read back as it is
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the {name} of an event holds a line end or NUL")]
#[non_exhaustive]
pub struct BadField {
    /// `type` or `id`
    pub name: &'static str,
}

const DATA: &[u8] = b"data: ";

fn field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// Appends text, with `begin` behind each line end in it
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
