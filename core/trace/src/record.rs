//! The lines of a trace: one header, then one record for each message, end and loss.

use core::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

/// The version of the format that this package writes, and the only one that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// Most cuts of one line. Further reads count as parts of the last one.
pub(crate) const MAX_CUTS: usize = 1_024;

/// The first line of a trace: what was recorded, and how.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Header {
    /// Version of the format.
    #[serde(rename = "mcpTrace")]
    pub version: u32,
    /// Program that has recorded it, with its version.
    pub by: String,
    /// Time at which the recording began, in milliseconds since 1970: where the times of the records begin.
    #[serde(rename = "unixMillis")]
    pub unix_millis: u64,
    /// The server: the command that starts it, its words one by one, masked as messages are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// Whether secrets were masked.
    pub masked: bool,
    /// The 32 bytes from which a server that records itself derives the keys of sealed state, in Base64.
    ///
    /// A replay needs them to say the same bytes. Whoever has them can make state that the server accepts, until it ends.
    #[serde(default, rename = "sealSeed", skip_serializing_if = "Option::is_none")]
    pub seal_seed: Option<String>,
}

impl Header {
    /// Creates the header of a recording that begins now.
    #[must_use]
    pub fn new(by: impl Into<String>, unix_millis: u64) -> Self {
        Self {
            version: FORMAT_VERSION,
            by: by.into(),
            unix_millis,
            command: Vec::new(),
            masked: true,
            seal_seed: None,
        }
    }

    /// Sets the bytes that the server passes to `server::Config::seal_lazily`. They are a secret.
    #[must_use]
    pub fn seal_seed(mut self, seed: &[u8; 32]) -> Self {
        self.seal_seed = Some(BASE64.encode(seed));
        self
    }

    /// Returns the bytes from which the keys of sealed state are derived.
    pub(crate) fn seed(&self) -> Option<[u8; 32]> {
        BASE64.decode(self.seal_seed.as_ref()?).ok()?.try_into().ok()
    }

    /// Sets the command that starts the server.
    #[must_use]
    pub fn command(mut self, words: impl IntoIterator<Item: Into<String>>) -> Self {
        self.command = words.into_iter().map(Into::into).collect();
        self
    }
}

/// The side that something comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The client.
    Client,
    /// The server.
    Server,
}

impl Side {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// A place within a line where one read ended and the next one began.
///
/// Written as an array of two numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "(usize, u64)", into = "(usize, u64)")]
pub struct Cut {
    /// Number of bytes of the line that came before.
    pub offset: usize,
    /// Time at which the rest came, or its next part, in microseconds.
    pub at: u64,
}

impl From<(usize, u64)> for Cut {
    fn from((offset, at): (usize, u64)) -> Self {
        Self { offset, at }
    }
}

impl From<Cut> for (usize, u64) {
    fn from(cut: Cut) -> Self {
        (cut.offset, cut.at)
    }
}

/// One line of a trace after its header.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(try_from = "FlatRecord", into = "FlatRecord")]
#[non_exhaustive]
pub struct Record {
    /// Microseconds since the recording began. Of a line, it is the time at which its first byte came.
    pub at: u64,
    /// The side that it comes from.
    pub from: Side,
    /// Number of the HTTP exchange that it belongs to; `None` on a byte stream.
    pub exchange: Option<u64>,
    /// What it is.
    pub content: Content,
}

impl Record {
    /// Creates a record of a byte stream.
    #[must_use]
    pub const fn new(at: u64, from: Side, content: Content) -> Self {
        Self { at, from, exchange: None, content }
    }

    /// Sets the HTTP exchange that it belongs to.
    #[must_use]
    pub const fn exchange(mut self, exchange: u64) -> Self {
        self.exchange = Some(exchange);
        self
    }
}

/// What a record is.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Content {
    /// A line of the stream, or over HTTP a body, or the data of an event of an event stream.
    Line(Line),
    /// The head of an HTTP request or response: its first line and its fields, separated by newlines.
    Head(String),
    /// The end of the stream, or of what one side says in an exchange, and how it ended.
    End(String),
    /// A line that the server wrote to stderr.
    Stderr(String),
    /// The recording has a gap here: so many bytes passed and were not recorded.
    Lost(u64),
}

/// A line of the stream, without its newline.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Line {
    /// Its text.
    pub text: Text,
    /// Where it was cut by reads.
    pub cuts: Vec<Cut>,
    /// Whether it came in the same read as the line before it from the same side.
    pub joined: bool,
    /// Whether the stream ended, or the recording, before its newline.
    pub open: bool,
    /// The other fields of an event of an event stream, as they were written, separated by newlines: `id: 7`.
    pub event: Option<String>,
}

impl Line {
    /// Creates a line that came in one read of its own.
    #[must_use]
    pub const fn new(text: Text) -> Self {
        Self { text, cuts: Vec::new(), joined: false, open: false, event: None }
    }
}

/// Bytes of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Text {
    /// UTF-8.
    Utf8(String),
    /// Anything else, in Base64.
    Base64(String),
    /// So many bytes that were too long to be recorded.
    Omitted(u64),
}

impl Default for Text {
    fn default() -> Self {
        Self::Utf8(String::new())
    }
}

impl Text {
    /// Takes bytes as they are.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        match core::str::from_utf8(bytes) {
            Ok(text) => Self::Utf8(text.to_owned()),
            Err(_) => Self::Base64(BASE64.encode(bytes)),
        }
    }

    /// Returns the bytes, or `None` if they were not recorded or are not Base64.
    #[must_use]
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Utf8(text) => Some(text.clone().into_bytes()),
            Self::Base64(text) => BASE64.decode(text).ok(),
            Self::Omitted(_) => None,
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Utf8(text) => f.write_str(text),
            Self::Base64(text) => write!(f, "[not UTF-8, in Base64: {text}]"),
            Self::Omitted(bytes) => write!(f, "[{bytes} bytes that were not recorded]"),
        }
    }
}

/// A record as it is written: one of the members says what it is.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct FlatRecord {
    t: u64,
    from: Option<Side>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exchange: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    omitted: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cuts: Vec<Cut>,
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    joined: bool,
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    open: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
}

impl From<Record> for FlatRecord {
    fn from(record: Record) -> Self {
        let mut flat =
            Self { t: record.at, from: Some(record.from), exchange: record.exchange, ..Self::default() };
        match record.content {
            Content::Line(Line { text, cuts, joined, open, event }) => {
                (flat.cuts, flat.joined, flat.open, flat.event) = (cuts, joined, open, event);
                match text {
                    Text::Utf8(text) => flat.line = Some(text),
                    Text::Base64(text) => flat.base64 = Some(text),
                    Text::Omitted(bytes) => flat.omitted = Some(bytes),
                }
            }
            Content::Head(head) => flat.head = Some(head),
            Content::End(how) => flat.end = Some(how),
            Content::Stderr(line) => flat.stderr = Some(line),
            Content::Lost(bytes) => flat.lost = Some(bytes),
        }
        flat
    }
}

impl TryFrom<FlatRecord> for Record {
    type Error = &'static str;

    fn try_from(flat: FlatRecord) -> Result<Self, Self::Error> {
        let FlatRecord { t: at, from, exchange, cuts, joined, open, event, .. } = flat;
        let text = flat
            .line
            .map(Text::Utf8)
            .or_else(|| flat.base64.map(Text::Base64))
            .or_else(|| flat.omitted.map(Text::Omitted));
        let line = text.map(|text| Content::Line(Line { text, cuts, joined, open, event }));
        let content = line
            .or_else(|| flat.head.map(Content::Head))
            .or_else(|| flat.end.map(Content::End))
            .or_else(|| flat.stderr.map(Content::Stderr))
            .or_else(|| flat.lost.map(Content::Lost))
            .ok_or(
                "it has none of the members `line`, `base64`, `omitted`, `head`, `end`, `stderr` and `lost`",
            )?;
        let from = from.ok_or("it does not say `from` which side it is")?;
        Ok(Self { at, from, exchange, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_written_and_read_as_documented() {
        let cut_line = Line {
            text: Text::new(b"{}"),
            cuts: vec![Cut { offset: 1, at: 9 }],
            joined: true,
            open: true,
            event: None,
        };
        let cases = [
            (
                Content::Line(cut_line),
                r#"{"t":7,"from":"client","line":"{}","cuts":[[1,9]],"joined":true,"open":true}"#,
            ),
            (
                Content::Line(Line { text: Text::new(b"\xff"), ..Line::default() }),
                r#"{"t":7,"from":"client","base64":"/w=="}"#,
            ),
            (
                Content::Line(Line { text: Text::Omitted(5), ..Line::default() }),
                r#"{"t":7,"from":"client","omitted":5}"#,
            ),
            (Content::End("exit code 1".into()), r#"{"t":7,"from":"client","end":"exit code 1"}"#),
            (Content::Stderr("hello".into()), r#"{"t":7,"from":"client","stderr":"hello"}"#),
            (Content::Lost(8), r#"{"t":7,"from":"client","lost":8}"#),
        ];
        for (content, text) in cases {
            let record = Record::new(7, Side::Client, content);
            assert_eq!(serde_json::to_string(&record).expect("JSON"), text);
            assert_eq!(serde_json::from_str::<Record>(text).expect(text), record);
        }
        for text in
            [r#"{"t":1,"from":"client"}"#, r#"{"t":1,"line":"{}"}"#, r#"{"t":1,"from":"x","line":""}"#]
        {
            serde_json::from_str::<Record>(text).expect_err(text);
        }
    }
}
