//! What a server on a byte stream answers to its first message, and what it does instead.

use core::time::Duration;
use std::time::Instant;

use mcp_proto_trace::escape::shell_word;
use mcp_std::io::Duplex;
use serde_json::{Value, json};

use super::quote::clip;
use super::{Fault, FaultKind, Passed};
use crate::stream::{self, Came, write_all};
use crate::text::{initialize_params, request_meta, seconds};

/// What came after the first message.
pub(super) struct FirstOutput {
    bytes: Vec<u8>,
    end: OutputEnd,
    elapsed: Duration,
    /// Whether the server answered once the message came in the framing of LSP.
    is_lsp: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputEnd {
    /// A response to the message.
    Answered,
    /// The end of the stream.
    Closed,
    TimedOut,
    /// More than [`MAX_OUTPUT`] bytes without a response.
    Flooded,
}

/// Returns the first message: `initialize`, which a server of either era answers, if only with an error.
pub(super) fn question() -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize_params("2025-11-25")})
        .to_string()
}

/// Returns the message for a server that does not answer [`question`]: `server/discover`, of which only the modern era knows.
fn modern_question() -> String {
    let params = json!({"_meta": request_meta("2026-07-28")});
    json!({"jsonrpc": "2.0", "id": 2, "method": "server/discover", "params": params}).to_string()
}

/// Returns whether a message is a response to [`question`].
pub(super) fn is_answer(message: &Value) -> bool {
    message["id"] == 1 && is_response(message)
}

/// Returns whether a message is a response to either of the two.
fn is_any_answer(message: &Value) -> bool {
    is_answer(message) || (message["id"] == 2 && is_response(message))
}

fn is_response(message: &Value) -> bool {
    message.get("result").is_some() || message.get("error").is_some()
}

impl FirstOutput {
    /// Sends the first message and reads until it is answered.
    pub(super) fn read(io: &mut impl Duplex, timeout: Duration) -> Self {
        let mut heard =
            Self { bytes: Vec::new(), end: OutputEnd::Closed, elapsed: Duration::ZERO, is_lsp: false };
        let begun = Instant::now();
        // A server that does not read may still write what is wrong.
        let _ = write_all(io, format!("{}\n", question()).as_bytes(), begun + timeout);
        heard.end = heard.read_until(io, begun + timeout / 2, Self::is_answered);
        if heard.end == OutputEnd::TimedOut {
            if heard.bytes.is_empty() {
                let _ = write_all(io, format!("{}\n", modern_question()).as_bytes(), begun + timeout);
            }
            heard.end = heard.read_until(io, begun + timeout, Self::is_answered);
        }
        heard.elapsed = begun.elapsed();
        if heard.end == OutputEnd::TimedOut && heard.bytes.is_empty() {
            let message = question();
            let framed = format!("Content-Length: {}\r\n\r\n{message}", message.len());
            let until = Instant::now() + LSP_TIMEOUT;
            let begins = |heard: &Self| heard.bytes.starts_with(b"Content-Length:");
            if write_all(io, framed.as_bytes(), until).is_ok() {
                heard.is_lsp = heard.read_until(io, until, begins) == OutputEnd::Answered;
            }
        }
        heard
    }

    fn read_until(
        &mut self,
        io: &mut impl Duplex,
        until: Instant,
        is_enough: impl Fn(&Self) -> bool,
    ) -> OutputEnd {
        loop {
            if is_enough(self) {
                return OutputEnd::Answered;
            }
            if self.bytes.len() > MAX_OUTPUT {
                return OutputEnd::Flooded;
            }
            match stream::read_more(io, &mut self.bytes, until) {
                Came::Bytes => {}
                Came::End => return OutputEnd::Closed,
                Came::TimedOut => return OutputEnd::TimedOut,
            }
        }
    }

    fn is_answered(&self) -> bool {
        let whole = self.bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut lines = self.bytes[..whole].split(|byte| *byte == b'\n');
        lines.any(|line| parse(line).is_some_and(|message| is_any_answer(&message)))
    }

    /// Returns whether the stream ended without an answer.
    pub(super) fn is_closed(&self) -> bool {
        self.end == OutputEnd::Closed
    }

    /// Returns whether the stream ended without a single character.
    pub(super) fn ended_silently(&self) -> bool {
        self.end == OutputEnd::Closed && self.bytes.trim_ascii().is_empty()
    }

    /// Returns whether nothing came at all, although the stream is open.
    pub(super) fn is_silent(&self) -> bool {
        self.end == OutputEnd::TimedOut && self.bytes.trim_ascii().is_empty()
    }

    /// Judges the output of the server with this name.
    pub(super) fn judge(&self, name: &str) -> Result<Passed, Fault> {
        if let Some((why, fix)) = self.encoding_fault() {
            return Err(Fault::new(format!("the output of {name} is not plain UTF-8"), why, fix));
        }
        if self.end == OutputEnd::Answered {
            return Ok(self.judge_answered());
        }
        let text = String::from_utf8_lossy(&self.bytes);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let fault = self.explain_messages(name, text.trim(), &lines);
        Err(fault.unwrap_or_else(|| self.explain_text(name, &lines)))
    }

    /// Explains messages that a client cannot take for an answer; `None` if there are none.
    fn explain_messages(&self, name: &str, text: &str, lines: &[&str]) -> Option<Fault> {
        let found = |what: &str, why: &str, fix: &str| Some(Fault::new(format!("{name} {what}"), why, fix));
        if self.is_lsp || text.to_ascii_lowercase().starts_with("content-length:") {
            return found(
                "speaks another framing",
                "its messages have a Content-Length header before them, as in the Language Server Protocol",
                "let the server write each message as one line that ends with a line break, without headers",
            );
        }
        if lines.iter().any(|line| **line == *question()) {
            return found(
                "sends back what it is sent",
                "it echoes its input, as `cat` and a terminal do",
                "start the server itself, not a shell or a filter; on a serial line, switch the echo off",
            );
        }
        if !serde_json::from_str::<Value>(text).is_ok_and(|message| is_any_answer(&message)) {
            return explain_other_answer(name, lines);
        }
        match lines.len() {
            1 => found(
                "answers in another form",
                "its answer has no line break at its end, so nobody knows that it is complete",
                "let the server write \"\\n\" after each message, and flush its output",
            ),
            _ => found(
                "answers in another form",
                "its answer is spread over several lines, but a message is one line",
                "let the server write JSON without line breaks and indentation",
            ),
        }
    }

    /// Explains text that is no message.
    fn explain_text(&self, name: &str, lines: &[&str]) -> Fault {
        let found = |what: &str, why: String, fix: &str| Fault::new(format!("{name} {what}"), why, fix);
        let Some(line) = lines.first() else {
            return self.silence(name);
        };
        if let Some(address) = lines.iter().find_map(|line| http_address(line)) {
            return http_server(name, address);
        }
        if let Some(line) = lines.iter().find(|line| line.to_ascii_lowercase().starts_with("usage")) {
            return found(
                "prints how it is used",
                format!("its arguments are not what it expects: {:?}", clip(line)),
                "correct the arguments behind the program; many servers need a word such as `stdio` or `serve`",
            );
        }
        if line.starts_with("HTTP/1.") {
            return found(
                "answers in HTTP",
                "an HTTP server listens there, and a stream of lines was opened".into(),
                "give its URL instead: http://HOST:PORT/PATH",
            );
        }
        let end = match self.end {
            OutputEnd::Closed => "and then closed its output",
            OutputEnd::Flooded => "and does not stop",
            _ => "and no answer",
        };
        found(
            "prints something else than messages",
            format!("its first line was {:?}, {end}", clip(line)),
            "is this the right program, with the right arguments? An MCP server writes nothing but messages to stdout, and its log to stderr",
        )
    }

    /// Judges what came before an answer.
    fn judge_answered(&self) -> Passed {
        let text = String::from_utf8_lossy(&self.bytes);
        let noise: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && parse(line.as_bytes()).is_none())
            .collect();
        if let Some(first) = noise.first() {
            return Passed::Warning(format!(
                "it prints {} no message, beginning with {:?}: other clients may give up; its log belongs on stderr",
                match noise.len() {
                    1 => "1 line that is".to_owned(),
                    lines => format!("{lines} lines that are"),
                },
                clip(first),
            ));
        }
        if text.contains("\r\n") {
            return Passed::Warning(
                "its lines end with CRLF: a client may take the CR for a part of a message".into(),
            );
        }
        Passed::Ok(format!("it answers after {}", seconds(round(self.elapsed))))
    }

    /// Returns the fault of an encoding that is not UTF-8 without a byte order mark, and its remedy.
    fn encoding_fault(&self) -> Option<(&'static str, &'static str)> {
        if self.bytes.starts_with(b"\xef\xbb\xbf") {
            return Some((
                "it begins with a byte order mark (BOM), which is no part of JSON",
                "let the server write UTF-8 without a BOM, on Windows for example by `new UTF8Encoding(false)`",
            ));
        }
        let is_marked = self.bytes.starts_with(b"\xff\xfe") || self.bytes.starts_with(b"\xfe\xff");
        let zeros = self.bytes.iter().filter(|byte| **byte == 0).count();
        (is_marked || (zeros > 8 && zeros * 3 > self.bytes.len())).then_some((
            "it is UTF-16, as Windows PowerShell writes it",
            "let the server write UTF-8, for example by `[Console]::OutputEncoding` or PYTHONIOENCODING=utf-8",
        ))
    }

    /// Returns the fault about a server that says nothing.
    fn silence(&self, name: &str) -> Fault {
        Fault::new(
            format!("{name} does not answer"),
            format!(
                "it has taken the first message and printed nothing within {}: it waits for something else, or does not flush its output",
                seconds(round(self.elapsed))
            ),
            "run it by hand to see what it waits for (a login, a download, another mode); if it is only slow, raise --connect-timeout",
        )
        .with_kind(FaultKind::TimedOut)
    }
}

/// Explains lines that are responses, but not to the first message.
fn explain_other_answer(name: &str, lines: &[&str]) -> Option<Fault> {
    let messages = lines.iter().filter_map(|line| parse(line.as_bytes()));
    let message = { messages }.find(is_response)?;
    let id = message["id"].to_string();
    Some(if message["id"].is_null() {
        Fault::new(
            format!("{name} does not understand `initialize`"),
            format!(
                "it answers with an error that belongs to no request: {}",
                clip(&message["error"].to_string())
            ),
            "let the server read one message per line, as UTF-8; the error may say what it expected",
        )
    } else {
        Fault::new(
            format!("{name} answers another request"),
            format!("the id of its answer is {}, and that of the request was 1", clip(&id)),
            "let the server return the id as it came: a number stays a number",
        )
    })
}

/// Returns the fault about a program that is an HTTP server.
pub(super) fn http_server(name: &str, address: &str) -> Fault {
    Fault::new(
        format!("{name} is an HTTP server"),
        format!("it prints the address {:?} instead of messages", clip(address)),
        format!(
            "start it yourself and run `mcp-probe doctor {}`, with its path (often /mcp), or give it the argument for stdio",
            shell_word(&clip(address))
        ),
    )
}

/// Returns the first address of an HTTP server in a line.
pub(super) fn http_address(line: &str) -> Option<&str> {
    let at = line.find("http://").or_else(|| line.find("https://"))?;
    let is_end = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | ')' | ',' | '\u{1b}');
    let address = line[at..].split(is_end).next()?.trim_end_matches(['.', '/']);
    let host = address.split("://").nth(1)?;
    // Links to documentation are no addresses of this server.
    let is_local = ["localhost", "127.", "0.0.0.0", "[::"].iter().any(|start| host.starts_with(start));
    is_local.then_some(address)
}

fn parse(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line).ok().filter(Value::is_object)
}

/// Rounds a time to hundredths of a second.
fn round(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX) / 10 * 10)
}

/// Maximum number of bytes that are read before a response.
const MAX_OUTPUT: usize = 1 << 20;
/// Time to answer a message in the framing of LSP.
const LSP_TIMEOUT: Duration = Duration::from_secs(1);
