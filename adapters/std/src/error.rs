//! What goes wrong, said so that somebody can do something about it

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt::{self, Write};
use std::io;
use std::process::ExitStatus;

use crate::child::SpawnError;
use mcp_proto::client::Violations;
use mcp_proto::model::CallToolResult;
use mcp_proto::router::RegisterError;
use mcp_proto::{CallError, Fault, UseError};

/// Why a server or a client could not go on, or a call failed
///
/// `Display` says what happened and, where there is something to do, what. Text that comes from the peer is escaped
/// in it: it may be shown on a terminal.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The server process could not be started
    Spawn(SpawnError),
    /// The stream broke; a peer that leaves is not this, but the end, or [`Closed`](Self::Closed)
    Io(io::Error),
    /// One call failed; others and the connection go on
    Call(CallError),
    /// A call or command was refused before anything was sent: it cannot be made, or not now
    Use(UseError),
    /// The answer to a call is valid, but not what was asked for; the text says what is missing
    Answer(String),
    /// A tool answered with another structured result than it promises by its output schema (TOOL-016)
    BadResult(Arc<BadResult>),
    /// A URL that cannot be connected to; nothing was sent
    Url {
        /// The URL, without user name, password and query
        url: String,
        /// What is wrong with it, and what to do
        why: String,
    },
    /// Something could not be registered at a router; nothing was served
    Register(RegisterError),
    /// The connection is over
    Closed(Arc<Closed>),
}

/// A structured result that is not what its tool promises, and why
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct BadResult {
    /// The tool
    pub tool: String,
    /// All of its result, which is well-formed otherwise
    pub result: CallToolResult<'static>,
    /// What is wrong, and where
    pub violations: Violations,
}

impl BadResult {
    /// Of which tool, which result, and what is wrong with it
    #[must_use]
    pub fn new(tool: impl Into<String>, result: CallToolResult<'static>, violations: Violations) -> Self {
        Self { tool: tool.into(), result, violations }
    }
}

/// Without the result: whoever lets `main` return an [`Error`] would have the printing of all of its types in the program
impl fmt::Debug for BadResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BadResult")
            .field("tool", &self.tool)
            .field("violations", &self.violations)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for BadResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the structured result of the tool `{}` is not what its outputSchema promises: {}",
            self.tool, self.violations
        )
    }
}

/// The end of a connection, with what is known about it
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Why it ended
    pub fault: Fault,
    /// Whether it was ready, so that calls could be made
    pub was_ready: bool,
    /// The server's program, if it is a process that we started
    pub program: Option<String>,
    /// Where the server is, if it is spoken to over HTTP
    pub url: Option<String>,
    /// How the server process ended, if it is known that it has
    pub ended: Option<ExitStatus>,
    /// The end of what it wrote to stderr; empty unless that was captured
    /// ([`Stderr::Capture`](crate::child::Stderr::Capture))
    pub last_words: String,
    /// The first line on the stream that was no message at all, cut to [`Limits::max_noise`](mcp_proto::Limits)
    pub noise: Option<String>,
    /// Whether any message came, however odd
    pub any_message: bool,
}

impl Error {
    /// The end of a connection about which nothing else is known
    pub fn closed(fault: Fault) -> Self {
        Self::Closed(Arc::new(Closed::unknown(fault)))
    }

    /// A URL that cannot be connected to
    #[cfg(feature = "http")]
    pub fn url(url: &str, why: &dyn fmt::Display) -> Self {
        Self::Url { url: mcp_proto::http::client::Url::shown(url), why: alloc::format!("{why}") }
    }

    /// Whether the connection is over: a new one is needed to go on
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_) | Self::Io(_) | Self::Spawn(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spawn(error) => error.fmt(f),
            Self::Io(error) => write!(f, "the stream to the peer failed: {error}"),
            Self::Call(error @ (CallError::TimedOut | CallError::TotalTimedOut)) => {
                write!(f, "{error}; the call was cancelled (its time can be set with `CallOptions`)")
            }
            Self::Call(error) => write!(Escaped(f), "{error}"),
            Self::Use(error) => write!(Escaped(f), "{error}"),
            Self::Answer(text) => write!(Escaped(f), "{text}"),
            Self::BadResult(bad) => write!(Escaped(f), "{bad}"),
            Self::Url { url, why } => write!(Escaped(f), "cannot connect to {url:?}: {why}"),
            Self::Register(error) => write!(Escaped(f), "{error}"),
            Self::Closed(closed) => closed.fmt(f),
        }
    }
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = Escaped(f);
        let name = self.program.as_ref().or(self.url.as_ref());
        let server = name.map_or_else(|| "the server".into(), |name| format!("the server {name:?}"));
        let only_noise = !self.was_ready && !self.any_message && self.noise.is_some();
        let is_stranger = only_noise || self.fault == Fault::Echo;
        if is_stranger {
            write!(f, "this is no MCP server: {} ", self.program.as_deref().unwrap_or("the peer"))?;
            let said = if only_noise {
                "said nothing but lines that are no messages"
            } else {
                "sends back what it is sent"
            };
            f.write_str(said)?;
        } else if let (true, Some(status)) = (self.is_end(), self.ended) {
            let when = match (self.was_ready, &self.fault) {
                (false, Fault::Truncated { .. }) => {
                    " in the middle of a message, before the connection was ready"
                }
                (false, _) => " before the connection was ready",
                (true, Fault::Truncated { .. }) => " in the middle of a message",
                (true, _) => "",
            };
            write!(f, "{server} ended{when} ({status})")?;
        } else if let (true, false) = (self.is_end(), self.was_ready) {
            write!(f, "{server} closed the connection before it was ready")?;
            if matches!(self.fault, Fault::Truncated { .. }) {
                f.write_str(", in the middle of a message")?;
            }
        } else {
            write!(f, "no connection to {server}: {}", self.fault)?;
        }
        if let (Some(noise), false) = (&self.noise, self.was_ready) {
            write!(f, "; its first line was {noise:?}")?;
        }
        if let (true, Some(status)) = (is_stranger, self.ended) {
            write!(f, "; it ended ({status})")?;
        }
        match &self.fault {
            _ if is_stranger => f.write_str("; is this the right command, with the right arguments?")?,
            Fault::HandshakeTimeout { .. } => f.write_str(
                "; does it speak MCP on stdin and stdout? If it is only slow to start, raise `Limits::init_timeout`",
            )?,
            _ if self.is_end() && !self.was_ready => {
                f.write_str("; is this the right command for an MCP server on stdin and stdout?")?;
            }
            Fault::Eof | Fault::Truncated { .. } => f.write_str("; start it again to go on")?,
            _ => {}
        }
        if !self.last_words.is_empty() {
            // The only line breaks that stand here as such are ours.
            f.0.write_str("\nits last words on stderr:")?;
            let skip = self.last_words.lines().count().saturating_sub(SHOWN);
            for line in self.last_words.lines().skip(skip) {
                f.0.write_str("\n    ")?;
                f.write_str(line)?;
            }
        }
        Ok(())
    }
}

impl Closed {
    /// An end about which nothing else is known
    pub(crate) const fn unknown(fault: Fault) -> Self {
        Self {
            fault,
            was_ready: true,
            program: None,
            url: None,
            ended: None,
            last_words: String::new(),
            noise: None,
            any_message: true,
        }
    }

    /// Whether the peer ended the connection, rather than an answer of its
    pub const fn is_end(&self) -> bool {
        matches!(self.fault, Fault::Eof | Fault::Truncated { .. } | Fault::ExitedDuringProbe { .. })
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Spawn(error) => error.source(),
            // Their text is in ours.
            Self::Io(_)
            | Self::Call(_)
            | Self::Use(_)
            | Self::Answer(_)
            | Self::BadResult(_)
            | Self::Url { .. }
            | Self::Register(_)
            | Self::Closed(_) => None,
        }
    }
}

impl From<SpawnError> for Error {
    fn from(error: SpawnError) -> Self {
        Self::Spawn(error)
    }
}

impl From<RegisterError> for Error {
    fn from(error: RegisterError) -> Self {
        Self::Register(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Writes text so that nothing in it begins a line, moves the cursor or turns the direction of reading
struct Escaped<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '\n' => self.0.write_str("\\n")?,
                c if c.is_control() || BIDI.contains(&c) => write!(self.0, "{}", c.escape_unicode())?,
                c => self.0.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Characters that change the direction of what follows
const BIDI: [char; 12] = [
    '\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}',
    '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];
/// Lines of stderr that `Display` shows at most
const SHOWN: usize = 20;
