//! MCP over HTTP at the level of exchanges, independent of the HTTP implementation.

#[cfg(feature = "client")]
pub mod client;
pub mod params;
#[cfg(feature = "server")]
pub mod server;

pub use crate::fields;
pub use crate::network::Network;
pub use crate::url::{Origin, Url, UrlError};

use alloc::collections::VecDeque;
use alloc::string::String;
use core::fmt::Write;

use super::ascii::AsciiCaseExt as _;
use super::head::{FieldLine, RequestHead};
use super::tap::Direction;
use super::time::Instant;

// Printable records of request and response heads, without secrets (SEC-019).

/// Record of a head that was sent or received, or of a body that failed a request. Secrets are replaced, long parts cut.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct HeadRecord {
    /// Time at which the head was processed.
    pub at: Instant,
    /// Direction of the head.
    pub direction: Direction,
    /// Text of the head: the first line and the fields, one per line, without a final empty line.
    pub text: String,
    /// True if the text is the beginning of the body of a response that is no MCP answer, instead of a head.
    ///
    /// Only clients record such bodies. Credentials are replaced; members of [`redact_in_tap`] are not.
    ///
    /// [`redact_in_tap`]: crate::client::Config::redact_in_tap
    pub is_body: bool,
}

/// Text that replaces a secret.
const REDACTED: &str = "[redacted]";
/// Maximum number of characters shown of a target or a value; the rest is cut.
const MAX_SHOWN_CHARS: usize = 512;
/// Maximum number of records that wait to be polled. Further heads are not recorded.
const MAX_RECORDS: usize = 64;

impl HeadRecord {
    fn request(at: Instant, direction: Direction, head: &RequestHead<'_>) -> Self {
        let mut text = String::new();
        let (path, query) = head.target.split_once('?').unwrap_or((head.target, ""));
        let _ = write!(text, "{} {}", head.method, truncate(path));
        for (n, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
            text.push(if n == 0 { '?' } else { '&' });
            // Query values may be HTTP+SSE session ids or API keys.
            match pair.split_once('=') {
                Some((name, _)) => _ = write!(text, "{}={REDACTED}", truncate(name)),
                None => text.push_str(REDACTED),
            }
        }
        Self::with_fields(at, direction, text, head.fields.iter().copied())
    }

    fn response<'a>(
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
                () if fields::is_secret(name) => REDACTED,
                // The query of a redirect may hold secrets.
                () if name.eq_ignore_case(fields::LOCATION) => {
                    truncate(value.split(['?', '#']).next().unwrap_or_default())
                }
                () => truncate(&value),
            };
            let _ = write!(text, "\n{name}: {shown}");
        }
        Self { at, direction, text, is_body: false }
    }
}

#[derive(Debug, Default)]
struct HeadRecords(VecDeque<HeadRecord>);

impl HeadRecords {
    /// Records the head of a request, unless [`MAX_RECORDS`] wait to be polled.
    pub(crate) fn record_request(&mut self, at: Instant, direction: Direction, head: &RequestHead<'_>) {
        if self.0.len() < MAX_RECORDS {
            self.0.push_back(HeadRecord::request(at, direction, head));
        }
    }

    /// Records the head of a response, unless [`MAX_RECORDS`] wait to be polled.
    pub(crate) fn record_response(
        &mut self,
        at: Instant,
        direction: Direction,
        status: u16,
        fields: &mut dyn Iterator<Item = FieldLine<'_>>,
    ) {
        if self.0.len() < MAX_RECORDS {
            self.0.push_back(HeadRecord::response(at, direction, status, fields));
        }
    }

    /// Records the beginning of a body that was received, unless [`MAX_RECORDS`] wait to be polled.
    pub(crate) fn record_body(&mut self, at: Instant, text: String) {
        if self.0.len() < MAX_RECORDS {
            self.0.push_back(HeadRecord { at, direction: Direction::In, text, is_body: true });
        }
    }

    /// Returns the next record.
    pub(crate) fn poll(&mut self) -> Option<HeadRecord> {
        self.0.pop_front()
    }
}

fn truncate(text: &str) -> &str {
    text.char_indices().nth(MAX_SHOWN_CHARS).map_or(text, |(at, _)| text.get(..at).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: SEC-019
    #[test]
    fn record_redacts_secrets() {
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
        let head = RequestHead { method: "POST", target: "/m?key=abc&sessionId=abc&abc", fields: &fields };
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
        assert!(record.text.ends_with("WWW-Authenticate: Bearer scope=x"), "a challenge is not a secret");
        let answer = HeadRecord::response(Instant::ZERO, Direction::Out, 200, fields.into_iter());
        assert!(answer.text.starts_with("200\n") && !answer.text.contains("abc"));
        // The query of a redirect alone is cut.
        let fields: [(&str, &[u8]); 2] = [("Location", b"/a?b#c"), ("Referer", b"/a?b#c")];
        let answer = HeadRecord::response(Instant::ZERO, Direction::Out, 302, fields.into_iter());
        assert_eq!(answer.text, "302\nLocation: /a\nReferer: /a?b#c");
    }

    #[test]
    fn records_beyond_the_limit_are_dropped_until_some_are_polled() {
        let record: [fn(&mut HeadRecords); 3] = [
            |records| {
                let head = RequestHead { method: "GET", target: "/", fields: &[] };
                records.record_request(Instant::ZERO, Direction::In, &head);
            },
            |records| records.record_response(Instant::ZERO, Direction::In, 200, &mut core::iter::empty()),
            |records| records.record_body(Instant::ZERO, "<html>".into()),
        ];
        for (record, text) in record.into_iter().zip(["GET /", "200", "<html>"]) {
            let mut records = HeadRecords::default();
            (0..MAX_RECORDS + 2).for_each(|_| record(&mut records));
            let first = records.poll().expect("a record");
            assert_eq!((&*first.text, first.is_body), (text, text == "<html>"));
            (0..2).for_each(|_| record(&mut records));
            assert_eq!(core::iter::from_fn(|| records.poll()).count(), MAX_RECORDS);
        }
    }

    #[test]
    fn record_truncates_long_parts() {
        let long = "ä".repeat(10_000);
        let fields: [(&str, &[u8]); 1] = [("a", long.as_bytes())];
        let head = RequestHead { method: "GET", target: &long, fields: &fields };
        assert!(HeadRecord::request(Instant::ZERO, Direction::In, &head).text.chars().count() < 1_100);
    }
}
