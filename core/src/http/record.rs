//! Heads of requests and responses as a person may see them: without what opens doors (SEC-019).

use alloc::collections::VecDeque;
use alloc::string::String;
use core::fmt::Write;

use super::fields;
use crate::ascii::AnyCase as _;
use crate::head::Request;
use crate::tap::Direction;
use crate::time::Instant;

/// A head as it went over the wire, with secrets replaced and long parts cut
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HeadRecord {
    /// When it was handled here
    pub at: Instant,
    /// Which way it went
    pub direction: Direction,
    /// The first line and then the fields, each on a line of its own, without an empty line behind them
    pub text: String,
}

/// What stands in the place of a secret
const REPLACEMENT: &str = "[redacted]";
/// Characters of a target or a value that are shown
const SHOWN: usize = 512;
/// Heads that are kept until they are looked at
const KEPT: usize = 64;

impl HeadRecord {
    pub(crate) fn request(at: Instant, direction: Direction, head: &Request<'_>) -> Self {
        let mut text = String::new();
        let (path, query) = head.target.split_once('?').unwrap_or((head.target, ""));
        let _ = write!(text, "{} {}", head.method, cut(path));
        for (n, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
            text.push(if n == 0 { '?' } else { '&' });
            // Sessions of HTTP+SSE are there, and keys of those who know no better place for them.
            match pair.split_once('=') {
                Some((name, _)) => _ = write!(text, "{}={REPLACEMENT}", cut(name)),
                None => text.push_str(REPLACEMENT),
            }
        }
        Self::with_fields(at, direction, text, head.fields.iter().copied())
    }

    pub(crate) fn response<'a>(
        at: Instant,
        direction: Direction,
        status: u16,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Self {
        let mut text = String::new();
        let _ = write!(text, "{status}");
        Self::with_fields(at, direction, text, fields)
    }

    fn with_fields<'a>(
        at: Instant,
        direction: Direction,
        mut text: String,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    ) -> Self {
        for (name, value) in fields {
            let value = String::from_utf8_lossy(value);
            let shown = match () {
                () if fields::is_secret(name) => REPLACEMENT,
                // What follows the path may be anything.
                () if name.eq_any_case(fields::LOCATION) => {
                    cut(value.split(['?', '#']).next().unwrap_or_default())
                }
                () => cut(&value),
            };
            let _ = write!(text, "\n{name}: {shown}");
        }
        Self { at, direction, text }
    }
}

/// Keeps a head, if heads are kept and there is room
pub(crate) fn keep(heads: &mut Option<VecDeque<HeadRecord>>, record: impl FnOnce() -> HeadRecord) {
    if let Some(heads) = heads.as_mut().filter(|heads| heads.len() < KEPT) {
        heads.push_back(record());
    }
}

fn cut(text: &str) -> &str {
    text.char_indices().nth(SHOWN).map_or(text, |(at, _)| text.get(..at).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: SEC-019
    #[test]
    fn secrets_are_not_shown() {
        let fields: [(&str, &[u8]); 10] = [
            ("AUTHORIZATION", b"Bearer abc"),
            ("mcp-Session-Id", b"abc"),
            ("Accept", b"x/y"),
            ("Cookie", b"abc"),
            ("X-Api-Key", b"abc"),
            ("apikey", b"abc"),
            ("X-Auth-Token", b"abc"),
            ("Client-SECRET", b"abc"),
            ("location", b"/login?state=abc"),
            ("WWW-Authenticate", b"Bearer scope=x"),
        ];
        let head = Request { method: "POST", target: "/m?key=abc&sessionId=abc&abc", fields: &fields };
        let record = HeadRecord::request(Instant::ZERO, Direction::In, &head);
        assert!(!record.text.contains("abc"), "{}", record.text);
        assert!(
            record.text.starts_with(
                "POST /m?key=[redacted]&sessionId=[redacted]&[redacted]\nAUTHORIZATION: [redacted]\n"
            ),
            "{}",
            record.text
        );
        assert!(record.text.contains("\nAccept: x/y") && record.text.contains("\nlocation: /login\n"));
        assert!(record.text.ends_with("WWW-Authenticate: Bearer scope=x"), "what is asked for is no secret");
        let answer = HeadRecord::response(Instant::ZERO, Direction::Out, 200, fields.into_iter());
        assert!(answer.text.starts_with("200\n") && !answer.text.contains("abc"));
    }

    #[test]
    fn what_is_long_is_cut() {
        let long = "ä".repeat(10_000);
        let fields: [(&str, &[u8]); 1] = [("a", long.as_bytes())];
        let head = Request { method: "GET", target: &long, fields: &fields };
        assert!(HeadRecord::request(Instant::ZERO, Direction::In, &head).text.chars().count() < 1_100);
    }
}
