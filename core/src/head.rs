//! Heads of HTTP messages in a form that every HTTP stack can produce and consume.
//!
//! This module does not parse. [`h1`](crate::h1) parses HTTP/1.1; another HTTP stack does so for its own protocol.

use alloc::vec::Vec;

use memchr::memchr;

use crate::ascii::AsciiCaseExt as _;

/// A received field line: its name in any case, and its value without surrounding whitespace.
pub type FieldLine<'a> = (&'a str, &'a [u8]);

/// The head of a received request.
#[derive(Clone, Copy)]
pub struct RequestHead<'a> {
    /// The method: `POST`, `GET`, …
    pub method: &'a str,
    /// The path and query as in the request line.
    pub target: &'a str,
    /// The field lines in the order received.
    pub fields: &'a [FieldLine<'a>],
}

/// The head of a received response.
#[derive(Clone, Copy)]
pub struct ResponseHead<'a> {
    /// The status code, 100 to 599.
    pub status: u16,
    /// The field lines in the order received.
    pub fields: &'a [FieldLine<'a>],
}

/// Omits field values and the query, which may be secrets (SEC-019).
impl core::fmt::Debug for RequestHead<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let path = self.target.split('?').next().unwrap_or_default();
        f.debug_struct("RequestHead")
            .field("method", &self.method)
            .field("path", &path)
            .field("fields", &RedactedFields(self.fields))
            .finish()
    }
}

/// Omits field values, which may be secrets (SEC-019).
impl core::fmt::Debug for ResponseHead<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ResponseHead")
            .field("status", &self.status)
            .field("fields", &RedactedFields(self.fields))
            .finish()
    }
}

struct RedactedFields<'a>(&'a [FieldLine<'a>]);

impl core::fmt::Debug for RedactedFields<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// Framing of the body of an outgoing message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodySize {
    /// No body and no length field (204, 304, a GET).
    None,
    /// This number of bytes.
    Exact(u64),
    /// An unknown length; the body lasts until it is ended.
    Stream,
}

/// Field lines of an outgoing message, stored in wire format.
///
/// Invariant: no name or value contains bytes that could end its line, so the lines can be sent unchanged.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Fields {
    lines: Vec<u8>,
}

impl Fields {
    /// Creates an empty set of fields.
    #[must_use]
    pub const fn new() -> Self {
        Self { lines: Vec::new() }
    }

    /// Adds a field and returns true.
    ///
    /// Returns false and adds nothing if the name is not a token or the value has control characters
    /// (RFC 9110, 5.1 and 5.5).
    pub fn push(&mut self, name: &str, value: &[u8]) -> bool {
        let fits = is_token(name.as_bytes()) && is_field_value(value);
        if fits {
            self.append_line(name, value);
        }
        fits
    }

    fn append_line(&mut self, name: &str, value: &[u8]) {
        self.lines.reserve(name.len() + value.len() + b": \r\n".len());
        self.lines.extend_from_slice(name.as_bytes());
        self.lines.extend_from_slice(b": ");
        self.lines.extend_from_slice(value);
        self.lines.extend_from_slice(b"\r\n");
    }

    /// Returns the name and value of each field, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut rest = &*self.lines;
        core::iter::from_fn(move || {
            // Values have no line ends.
            let end = memchr(b'\r', rest)?;
            let (line, after) = (rest.get(..end)?, rest.get(end + 2..)?);
            rest = after;
            let colon = memchr(b':', line)?;
            let name = core::str::from_utf8(line.get(..colon)?).ok()?;
            Some((name, line.get(colon + 2..)?))
        })
    }

    /// Returns all fields as `name: value` lines, each with its line end.
    #[must_use]
    pub fn as_lines(&self) -> &[u8] {
        &self.lines
    }

    /// Returns whether there are no fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Removes all fields and keeps the allocated capacity.
    pub fn clear(&mut self) {
        self.lines.clear();
    }
}

#[cfg(all(feature = "http", feature = "client"))]
impl Fields {
    /// Creates an empty set of fields with room for so many bytes of lines.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { lines: Vec::with_capacity(bytes) }
    }

    /// Adds a field with a name that is known to be a token, as [`push()`](Self::push) does.
    pub(crate) fn push_known(&mut self, name: &'static str, value: &[u8]) -> bool {
        debug_assert!(is_token(name.as_bytes()), "{name}");
        let fits = is_field_value(value);
        if fits {
            self.append_line(name, value);
        }
        fits
    }

    /// Adds all fields of another set.
    pub(crate) fn append(&mut self, other: &Self) {
        self.lines.extend_from_slice(&other.lines);
    }
}

/// Shows the names only; a value may be a secret (SEC-019).
impl core::fmt::Debug for Fields {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

/// Returns whether `text` is a token (RFC 9110, 5.6.2).
#[must_use]
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|b| TOKEN_BYTES.get(usize::from(*b)) == Some(&true))
}

/// Returns whether a field value has no control characters but tabs (RFC 9110, 5.5).
fn is_field_value(value: &[u8]) -> bool {
    const BLOCK: usize = 16;
    let fits = |b: u8| (b == b'\t') | ((b >= b' ') & (b != 0x7f));
    let Some(last) = value.last_chunk::<BLOCK>() else {
        return value.iter().all(|b| fits(*b));
    };
    // All bytes of a block at once; the last block may overlap the one before it.
    let mut all_fit = [true; BLOCK];
    for block in value.chunks_exact(BLOCK).chain([&last[..]]) {
        for (all_fit, b) in all_fit.iter_mut().zip(block) {
            *all_fit &= fits(*b);
        }
    }
    all_fit == [true; BLOCK]
}

static TOKEN_BYTES: [bool; 256] =
    byte_set(b"!#$%&'*+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz|~");

/// Returns a lookup table that is true for each byte in `members`.
pub(crate) const fn byte_set(members: &[u8]) -> [bool; 256] {
    let mut bytes = [false; 256];
    let mut rest = members;
    while let [first, after @ ..] = rest {
        let (_, slot) = bytes.split_at_mut(*first as usize);
        if let [slot, ..] = slot {
            *slot = true;
        }
        rest = after;
    }
    bytes
}

/// Returns the values of all fields called `name`, in any case (HTTP-037).
pub fn values<'a>(fields: &'a [FieldLine<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().filter(move |(n, _)| n.eq_ignore_case(name)).map(|(_, v)| *v)
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: SEC-019
    #[test]
    fn head_debug_output_omits_values() {
        let fields: [FieldLine<'_>; 1] = [("Authorization", b"Bearer hush")];
        let request = RequestHead { method: "POST", target: "/messages?sessionId=hush", fields: &fields };
        let response = ResponseHead { status: 200, fields: &fields };
        let shown = alloc::format!("{request:?} {response:?}");
        assert!(!shown.contains("hush") && shown.contains("Authorization") && shown.contains("/messages"));
        // The derived form would print a value as a list of numbers.
        assert!(!shown.contains("104, 117"), "{shown}");
    }

    #[test]
    fn fields_push_refuses_line_breaks_and_control_characters() {
        let mut fields = Fields::new();
        assert!(
            fields.push("a", b"x: y") && fields.push("B-c", b"") && fields.push("d", "\t\u{e4}".as_bytes())
        );
        for (name, value) in [
            ("", "x"),
            ("a b", "x"),
            ("a:", "x"),
            ("a\r\nb", "x"),
            ("a", "x\r\ny: z"),
            ("a", "\0"),
            ("a", "\n"),
            ("a", "\x7f"),
        ] {
            assert!(!fields.push(name, value.as_bytes()), "{name:?} {value:?}");
        }
        let all: Vec<_> = fields.iter().collect();
        assert_eq!(all, [("a", &b"x: y"[..]), ("B-c", b""), ("d", "\t\u{e4}".as_bytes())]);
        assert_eq!(fields.as_lines(), "a: x: y\r\nB-c: \r\nd: \t\u{e4}\r\n".as_bytes());
    }

    #[test]
    fn control_characters_are_found_at_every_place() {
        for length in [1, 2, 15, 16, 17, 32, 63] {
            for at in [0, length / 2, length - 1] {
                for byte in 0..=u8::MAX {
                    let mut value = alloc::vec![b'x'; length];
                    value[at] = byte;
                    let expected = byte == b'\t' || !byte.is_ascii_control();
                    assert_eq!(Fields::new().push("a", &value), expected, "{byte} at {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn values_returns_all_matches_in_any_case() {
        let fields: [FieldLine<'_>; 3] = [("HOST", b"a"), ("x", b"b"), ("Host", b"c")];
        assert_eq!(values(&fields, "host").collect::<Vec<_>>(), [b"a", b"c"]);
    }

    #[test]
    fn is_token_matches_the_rfc_9110_set() {
        for b in 0..=255u8 {
            let want = b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            assert_eq!(is_token(&[b]), want, "{b}");
        }
    }
}
