//! A trace that was read.

use std::io::{self, BufRead, Read as _};

use crate::record::{Content, FORMAT_VERSION, Header, MAX_CUTS, Record};

/// Longest line of a trace, in bytes: a line of the stream with each byte escaped, and its cuts.
const MAX_TRACE_LINE: u64 = 128 << 20;

/// A whole trace.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trace {
    /// Its first line.
    pub header: Header,
    /// Its other lines, in their order.
    pub records: Vec<Record>,
    /// Whether it ends within a line, as that of a recorder that was killed.
    pub is_cut: bool,
}

/// The reason why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// It cannot be read.
    #[error("the trace cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Its first line is not the header of a trace.
    #[error("this is no trace: its first line is not {{\"mcpTrace\":1,…}} ({0})")]
    NoTrace(String),
    /// It has another version.
    #[error("the trace has version {0} of the format, and this program reads version {FORMAT_VERSION}")]
    Version(u64),
    /// A line is no record.
    #[error("line {line} of the trace is no record: {reason}")]
    Record {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// It is larger than was allowed.
    #[error("the trace is larger than {max} bytes")]
    TooLarge {
        /// The most bytes that were allowed.
        max: u64,
    },
}

impl Trace {
    /// Creates a trace of these records.
    #[must_use]
    pub const fn new(header: Header, records: Vec<Record>) -> Self {
        Self { header, records, is_cut: false }
    }

    /// Reads a trace of at most `max_bytes` bytes. One that was cut off within its last line is read without that line.
    ///
    /// # Errors
    ///
    /// [`TraceError`], with the number of the line.
    pub fn read(from: impl BufRead, max_bytes: u64) -> Result<Self, TraceError> {
        let mut from = from.take(max_bytes.saturating_add(1));
        let mut buffer = Vec::new();
        let mut next = |number: usize| -> Result<Option<(Vec<u8>, bool)>, TraceError> {
            buffer.clear();
            let read = (&mut from).take(MAX_TRACE_LINE).read_until(b'\n', &mut buffer)?;
            if from.limit() == 0 {
                return Err(TraceError::TooLarge { max: max_bytes });
            }
            let is_whole = buffer.last() == Some(&b'\n');
            if !is_whole && read as u64 == MAX_TRACE_LINE {
                let reason = format!("it is longer than {MAX_TRACE_LINE} bytes");
                return Err(TraceError::Record { line: number, reason });
            }
            Ok((read > 0).then(|| (core::mem::take(&mut buffer), is_whole)))
        };
        let first = next(1)?.map(|(line, _)| line).unwrap_or_default();
        let header = header(&first)?;
        let mut trace = Self::new(header, Vec::new());
        for number in 2.. {
            let Some((line, is_whole)) = next(number)? else { break };
            match serde_json::from_slice(&line) {
                Ok(Record { content: Content::Line(line), .. }) if line.cuts.len() > MAX_CUTS => {
                    let reason = format!("it has more than {MAX_CUTS} cuts");
                    return Err(TraceError::Record { line: number, reason });
                }
                Ok(record) => trace.records.push(record),
                // The recorder was killed while it wrote.
                Err(_) if !is_whole => trace.is_cut = true,
                Err(error) => return Err(TraceError::Record { line: number, reason: error.to_string() }),
            }
        }
        Ok(trace)
    }

    /// Writes the trace as it is.
    ///
    /// # Errors
    ///
    /// Fails if `out` does.
    pub fn write(&self, mut out: impl io::Write) -> io::Result<()> {
        serde_json::to_writer(&mut out, &self.header)?;
        for record in &self.records {
            out.write_all(b"\n")?;
            serde_json::to_writer(&mut out, record)?;
        }
        out.write_all(b"\n")
    }
}

fn header(line: &[u8]) -> Result<Header, TraceError> {
    #[derive(serde::Deserialize)]
    struct Version {
        #[serde(rename = "mcpTrace")]
        version: u64,
    }
    let no_trace = |error: serde_json::Error| TraceError::NoTrace(error.to_string());
    // The version first: another one may have other members.
    let Version { version } = serde_json::from_slice(line).map_err(no_trace)?;
    if version != u64::from(FORMAT_VERSION) {
        return Err(TraceError::Version(version));
    }
    serde_json::from_slice(line).map_err(no_trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"mcpTrace":1,"by":"test 1","unixMillis":5,"masked":true}"#;

    fn read(text: &str, max: u64) -> Result<Trace, String> {
        Trace::read(text.as_bytes(), max).map_err(|error| error.to_string())
    }

    #[test]
    fn a_trace_is_written_as_it_was_read() {
        let text = format!("{HEADER}\n{{\"t\":1,\"from\":\"client\",\"line\":\"{{}}\"}}\n");
        let trace = read(&text, 1 << 10).expect("a trace");
        let mut written = Vec::new();
        trace.write(&mut written).expect("memory");
        assert_eq!(String::from_utf8(written).expect("UTF-8"), text);
        assert!(!trace.is_cut);
    }

    #[test]
    fn a_trace_that_was_cut_anywhere_is_read_up_to_there() {
        let text = format!(
            "{HEADER}\n{{\"t\":1,\"from\":\"client\",\"line\":\"{{}}\"}}\n{{\"t\":2,\"from\":\"server\",\"lost\":7}}\n"
        );
        for end in HEADER.len()..text.len() {
            let trace = read(&text[..end], 1 << 10).expect("a trace");
            assert!(trace.records.len() < 3);
        }
        assert!(read(&text[..text.len() - 5], 1 << 10).expect("a trace").is_cut);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let record = |line: &str| format!("{HEADER}\n{line}\n");
        let cases = [
            (String::new(), "this is no trace"),
            ("{\"jsonrpc\":\"2.0\"}\n".into(), "this is no trace"),
            (
                "{\"mcpTrace\":2,\"x\":{}}\n".into(),
                "version 2 of the format, and this program reads version 1",
            ),
            (record("{\"t\":1}"), "line 2 of the trace is no record: it has none of the members"),
            (
                record(&format!(
                    "{{\"t\":1,\"from\":\"client\",\"line\":\"\",\"cuts\":[{}[0,0]]}}",
                    "[0,0],".repeat(1_024)
                )),
                "line 2 of the trace is no record: it has more than 1024 cuts",
            ),
            (record("nonsense"), "line 2 of the trace is no record"),
            (record(&"x".repeat(2_000)), "larger than 1024 bytes"),
        ];
        for (text, want) in cases {
            let error =
                read(&text, if text.len() > 3_000 { 1 << 20 } else { 1 << 10 }).expect_err("an error");
            assert!(error.contains(want), "{error}");
        }
    }
}
