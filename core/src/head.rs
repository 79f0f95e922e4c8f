//! Heads of HTTP messages, as every HTTP stack can give and take them.
//!
//! Nothing here parses: [`h1`](crate::h1) does that for HTTP/1.1, somebody else's stack for what it speaks.

use alloc::vec::Vec;

use crate::ascii::AnyCase as _;

/// A field line as it was received: its name in any case, its value without the whitespace around it
pub type Field<'a> = (&'a str, &'a [u8]);

/// The head of a request that was received
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// `POST`, `GET`, …
    pub method: &'a str,
    /// Path and query as they stand in the request line
    pub target: &'a str,
    /// In the order in which they came
    pub fields: &'a [Field<'a>],
}

/// The head of a response that was received
#[derive(Clone, Copy)]
pub struct Response<'a> {
    /// 100 to 599
    pub status: u16,
    /// In the order in which they came
    pub fields: &'a [Field<'a>],
}

/// Shows no values of fields, nor what follows a question mark: they may be secrets (SEC-019)
impl core::fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let path = self.target.split('?').next().unwrap_or_default();
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("path", &path)
            .field("fields", &Names(self.fields))
            .finish()
    }
}

/// Shows no values of fields: they may be secrets (SEC-019)
impl core::fmt::Debug for Response<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Response").field("status", &self.status).field("fields", &Names(self.fields)).finish()
    }
}

struct Names<'a>(&'a [Field<'a>]);

impl core::fmt::Debug for Names<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// How the body of a message that we send is delimited
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodySize {
    /// There is none, and nothing says so (204, 304, a GET)
    None,
    /// So many bytes
    Exact(u64),
    /// Until it ends
    Stream,
}

/// Field lines of a message that we send, kept as they will be written
///
/// A name or a value that would break out of its line is never accepted, so what is in here can be sent as it is.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Fields {
    lines: Vec<u8>,
}

impl Fields {
    /// None
    #[must_use]
    pub const fn new() -> Self {
        Self { lines: Vec::new() }
    }

    /// Adds a field; false, with nothing added, when the name is no token or the value has control characters in it
    /// (RFC 9110, 5.1 and 5.5)
    pub fn push(&mut self, name: &str, value: &[u8]) -> bool {
        let fits =
            is_token(name.as_bytes()) && value.iter().all(|b| *b == b'\t' || (*b >= b' ' && *b != 0x7f));
        if fits {
            self.lines.extend_from_slice(name.as_bytes());
            self.lines.extend_from_slice(b": ");
            self.lines.extend_from_slice(value);
            self.lines.extend_from_slice(b"\r\n");
        }
        fits
    }

    /// Name and value of each, in order
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut rest = &*self.lines;
        core::iter::from_fn(move || {
            let end = rest.windows(2).position(|w| w == b"\r\n")?;
            let (line, after) = (rest.get(..end)?, rest.get(end + 2..)?);
            rest = after;
            let colon = line.iter().position(|b| *b == b':')?;
            let name = core::str::from_utf8(line.get(..colon)?).ok()?;
            Some((name, line.get(colon + 2..)?))
        })
    }

    /// `name: value` and a line end, for each
    #[must_use]
    pub fn as_lines(&self) -> &[u8] {
        &self.lines
    }

    /// Whether there are none
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Drops all of them and keeps the room
    pub fn clear(&mut self) {
        self.lines.clear();
    }
}

/// Shows names alone: a value may be a secret (SEC-019)
impl core::fmt::Debug for Fields {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

/// Whether `text` is a token (RFC 9110, 5.6.2)
#[must_use]
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|b| TOKEN_BYTES.get(usize::from(*b)) == Some(&true))
}

static TOKEN_BYTES: [bool; 256] =
    set_of(b"!#$%&'*+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz|~");

/// Which bytes are among `members`
pub(crate) const fn set_of(members: &[u8]) -> [bool; 256] {
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

/// The values of all fields called `name`, in whatever case it is written (HTTP-037)
pub fn values<'a>(fields: &'a [Field<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().filter(move |(n, _)| n.eq_any_case(name)).map(|(_, v)| *v)
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: SEC-019
    #[test]
    fn heads_show_no_values() {
        let fields: [Field<'_>; 1] = [("Authorization", b"Bearer hush")];
        let request = Request { method: "POST", target: "/messages?sessionId=hush", fields: &fields };
        let response = Response { status: 200, fields: &fields };
        let shown = alloc::format!("{request:?} {response:?}");
        assert!(!shown.contains("hush") && shown.contains("Authorization") && shown.contains("/messages"));
        // Nor as bytes.
        assert!(!shown.contains("104, 117"), "{shown}");
    }

    #[test]
    fn nothing_breaks_out_of_a_line() {
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
    fn names_are_found_in_any_case_and_all_of_them() {
        let fields: [Field<'_>; 3] = [("HOST", b"a"), ("x", b"b"), ("Host", b"c")];
        assert_eq!(values(&fields, "host").collect::<Vec<_>>(), [b"a", b"c"]);
    }

    #[test]
    fn a_token_is_what_the_rule_says() {
        for b in 0..=255u8 {
            let want = b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            assert_eq!(is_token(&[b]), want, "{b}");
        }
    }
}
