//! Errors of clients and servers.

#[cfg(feature = "skills")]
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt::{self, Write};
use std::io;
use std::process::ExitStatus;

#[cfg(feature = "skills")]
use mcp_extensions::skills::SkillError;
use mcp_proto::client::Violations;
#[cfg(feature = "http")]
use mcp_proto::http::server::{ProtectedError, VisibleFieldError};
use mcp_proto::model::CallToolResult;
use mcp_proto::router::RegisterErrors;
use mcp_proto::{CallError, Fault, UseError};
use mcp_std::process::SpawnError;
use mcp_std::task_store::TasksError;

/// Reason why a server or a client cannot continue, or why a call failed.
///
/// `Display` states what happened and, if possible, what to do. Text of the peer is escaped in it, so it can be shown
/// on a terminal. `Debug` is the same: it is what a `main` that returns this error prints.
#[non_exhaustive]
pub enum Error {
    /// The server process could not be started.
    Spawn(SpawnError),
    /// The stream broke. A peer that disconnects is not an error but the end, or [`Closed`](Self::Closed).
    Io(io::Error),
    /// One call failed; the connection and other calls continue.
    Call(CallError),
    /// A call or command was refused before anything was sent.
    Use(UseError),
    /// The result of a call is valid but lacks what was requested; the text names what is missing.
    UnexpectedResult(String),
    /// A structured result does not match the output schema of its tool (TOOL-016).
    OutputSchemaViolation(Arc<OutputSchemaViolation>),
    /// A tool is not as it was pinned, so its call was not sent ([`AsyncCalls::pin`](crate::client::AsyncCalls::pin)). The text names
    /// the tool and what has changed.
    Pinned(String),
    /// A file of a skill must not be used: it, or the entry of its skill, is not as it has to be (SKILL-030).
    #[cfg(feature = "skills")]
    Skill(Box<SkillError>),
    /// A URL cannot be connected to; nothing was sent.
    Url {
        /// The URL without user name, password and query.
        url: String,
        /// The fault of the URL, and its remedy.
        reason: String,
    },
    /// An entry could not be registered in a router; nothing was served.
    Register(RegisterErrors),
    /// A server cannot have its tasks; nothing was served.
    Tasks(Arc<TasksError>),
    /// A server cannot be protected like that; nothing was served.
    #[cfg(feature = "http")]
    Protected(ProtectedError),
    /// A header field cannot be shown to handlers; nothing was served.
    #[cfg(feature = "http")]
    VisibleField(VisibleFieldError),
    /// A callback called the client of `mcp-blocking` while a call of that client runs; nothing was sent.
    Busy,
    /// The connection has ended.
    Closed(Arc<ConnectionClosed>),
}

/// A structured result that does not match the output schema of its tool.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct OutputSchemaViolation {
    /// Name of the tool.
    pub tool: String,
    /// The whole result, which is well-formed otherwise.
    pub result: CallToolResult<'static>,
    /// Violations of the schema, with their positions.
    pub violations: Violations,
}

impl OutputSchemaViolation {
    /// Creates the error for `result` of `tool`.
    #[must_use]
    pub fn new(tool: impl Into<String>, result: CallToolResult<'static>, violations: Violations) -> Self {
        Self { tool: tool.into(), result, violations }
    }
}

/// Omits the result: otherwise a `main` that returns [`Error`] would link the formatting code of all its types.
impl fmt::Debug for OutputSchemaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputSchemaViolation")
            .field("tool", &self.tool)
            .field("violations", &self.violations)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for OutputSchemaViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the structured result of tool `{}` does not match its outputSchema: {}",
            self.tool, self.violations
        )
    }
}

/// The end of a connection, with all that is known about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionClosed {
    /// Reason of the end.
    pub fault: Fault,
    /// The error of the stream that ended the connection, if one did; it was returned once, as [`Error::Io`].
    pub io_error: Option<String>,
    /// Whether the connection was ready for calls.
    pub was_ready: bool,
    /// Program of the server, if it is a process started by this client.
    pub program: Option<String>,
    /// URL of the server, if the connection is over HTTP; the address of the byte stream, if it was opened by one
    /// ([`StreamAddress`](mcp_std::io::StreamAddress)).
    pub url: Option<String>,
    /// Exit status of the server process, if it is known.
    pub exit_status: Option<ExitStatus>,
    /// End of the server's stderr; empty unless it was captured
    /// ([`Stderr::Capture`](mcp_std::process::Stderr::Capture)).
    pub stderr_tail: String,
    /// Whether the server process has ended without reading what it was sent: it failed by itself. `false` where the system does not
    /// tell.
    pub has_unread_input: bool,
    /// First line of the stream that was no message, cut to [`Limits::max_noise_bytes`](mcp_proto::Limits).
    pub noise: Option<String>,
    /// Whether any message was received, even an invalid one.
    pub received_message: bool,
}

impl Error {
    /// Creates the error for a connection about which only `fault` is known.
    pub fn closed(fault: Fault) -> Self {
        Self::Closed(Arc::new(ConnectionClosed::unknown(fault)))
    }

    /// Returns the error of the HTTP exchange that ended the call or the connection, if that is the reason.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn http(&self) -> Option<&mcp_proto::HttpError> {
        let fault = match self {
            Self::Call(CallError::Http(error)) => return Some(error),
            Self::Call(CallError::Closed(fault)) => fault,
            Self::Closed(closed) => &closed.fault,
            _ => return None,
        };
        match fault {
            Fault::Http(error) => Some(error),
            _ => None,
        }
    }

    /// Returns why an authorization failed, if that ended the call or the connection.
    #[cfg(feature = "auth")]
    #[must_use]
    pub fn authorization(&self) -> Option<&mcp_auth::client::Error> {
        match self.http()? {
            mcp_proto::HttpError::Authorization { error, .. } => error.downcast_ref(),
            _ => None,
        }
    }

    /// Creates the error for a URL that cannot be connected to.
    #[cfg(feature = "http")]
    pub fn url(url: &str, reason: &dyn fmt::Display) -> Self {
        Self::Url { url: mcp_proto::http::client::Url::redacted(url), reason: alloc::format!("{reason}") }
    }

    /// Returns whether the connection has ended, so that a new one is needed.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_) | Self::Io(_) | Self::Spawn(_))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spawn(error) => error.fmt(f),
            Self::Io(error) => write!(f, "the stream to the peer failed: {error}"),
            Self::Call(error @ (CallError::TimedOut | CallError::TotalTimedOut | CallError::Misaddressed(_))) => {
                write!(Escaped(f), "{error}; the call was cancelled (its time can be set with `CallOptions`)")
            }
            Self::Call(error) => write!(Escaped(f), "{error}"),
            Self::Use(error) => write!(Escaped(f), "{error}"),
            Self::UnexpectedResult(text) => write!(Escaped(f), "{text}"),
            Self::Pinned(why) => write!(Escaped(f), "the call was not sent: {why}"),
            Self::OutputSchemaViolation(violation) => write!(Escaped(f), "{violation}"),
            #[cfg(feature = "skills")]
            Self::Skill(error) => write!(Escaped(f), "{error}"),
            Self::Url { url, reason } => write!(Escaped(f), "cannot connect to {url:?}: {reason}"),
            Self::Register(error) => write!(Escaped(f), "{error}"),
            Self::Tasks(error) => error.fmt(f),
            #[cfg(feature = "http")]
            Self::Protected(error) => write!(Escaped(f), "{error}"),
            #[cfg(feature = "http")]
            Self::VisibleField(error) => write!(Escaped(f), "{error}"),
            Self::Busy => f.write_str(
                "a callback called the client while another call of the same client runs; make the call after that one, \
                 or use `mcp-threads`, whose calls may overlap",
            ),
            Self::Closed(closed) => closed.fmt(f),
        }
    }
}

impl fmt::Display for ConnectionClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = Escaped(f);
        let name = self.program.as_ref().or(self.url.as_ref());
        let server = name.map_or_else(|| "the server".into(), |name| format!("the server {name:?}"));
        let only_noise = !self.was_ready && !self.received_message && self.noise.is_some();
        let is_not_mcp = only_noise || self.fault == Fault::Echo;
        if is_not_mcp {
            let name = name.map_or("the peer", |name| name);
            write!(f, "this is not an MCP server: {name} ")?;
            let behaviour =
                if only_noise { "sent only lines that are not messages" } else { "echoes its input" };
            f.write_str(behaviour)?;
        } else if let Some(error) = self.stream_error() {
            write!(f, "no connection to {server}: {error}")?;
        } else if let (true, Some(status)) = (self.is_ended_by_peer(), self.exit_status) {
            let when = match (self.was_ready, &self.fault) {
                (false, Fault::Truncated { .. }) => {
                    " in the middle of a message, before the connection was ready"
                }
                (false, _) => " before the connection was ready",
                (true, Fault::Truncated { .. }) => " in the middle of a message",
                (true, _) => "",
            };
            write!(f, "{server} ended{when} ({status})")?;
        } else if let (true, false) = (self.is_ended_by_peer(), self.was_ready) {
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
        if let (true, Some(status)) = (is_not_mcp || self.stream_error().is_some(), self.exit_status) {
            write!(f, "; it ended ({status})")?;
        }
        // The other faults say it themselves.
        if let (Fault::ExitedDuringProbe { .. }, Some(untried)) =
            (&self.fault, self.fault.untried_handshake())
        {
            write!(f, "; {untried}")?;
        }
        f.write_str(self.advice(is_not_mcp))?;
        if !self.stderr_tail.is_empty() {
            // Line breaks of the peer are escaped; only those written here start a line.
            f.0.write_str("\nits last lines on stderr:")?;
            let skip = self.stderr_tail.lines().count().saturating_sub(MAX_STDERR_LINES);
            for line in self.stderr_tail.lines().skip(skip) {
                f.0.write_str("\n    ")?;
                f.write_str(line)?;
            }
        }
        Ok(())
    }
}

impl ConnectionClosed {
    /// Returns the error of the stream, if that is the reason. What the peer sent before it ended is a better one.
    fn stream_error(&self) -> Option<&str> {
        let is_end = matches!(self.fault, Fault::Closed | Fault::Eof | Fault::Truncated { .. });
        self.io_error.as_deref().filter(|_| is_end)
    }

    /// Returns what the user may do about it, as the end of a message.
    fn advice(&self, is_not_mcp: bool) -> &'static str {
        if self.stream_error().is_some() && !is_not_mcp {
            return "";
        }
        let never_spoke = self.is_ended_by_peer() && !self.was_ready;
        // A stream that the client opened itself; the reasons of HTTP are in the fault.
        if self.url.is_some() {
            return match self.fault {
                _ if is_not_mcp => "; is this the right address?",
                Fault::HandshakeTimeout { .. } => "; is this the address of an MCP server?",
                _ if never_spoke => "; is this the address of an MCP server?",
                Fault::Eof | Fault::Truncated { .. } => "; connect again to go on",
                _ => "",
            };
        }
        match self.fault {
            _ if is_not_mcp => "; is this the right command, with the right arguments?",
            Fault::HandshakeTimeout { .. } => {
                "; does it speak MCP on stdin and stdout? If it is only slow to start, raise `Limits::init_timeout`"
            }
            _ if never_spoke => "; is this the right command for an MCP server on stdin and stdout?",
            Fault::Eof | Fault::Truncated { .. } => "; start it again to go on",
            _ => "",
        }
    }

    /// Creates a value about which only `fault` is known.
    pub(crate) const fn unknown(fault: Fault) -> Self {
        Self {
            fault,
            io_error: None,
            was_ready: true,
            program: None,
            url: None,
            exit_status: None,
            stderr_tail: String::new(),
            has_unread_input: false,
            noise: None,
            received_message: true,
        }
    }

    /// Returns whether the peer ended the connection.
    pub const fn is_ended_by_peer(&self) -> bool {
        matches!(self.fault, Fault::Eof | Fault::Truncated { .. } | Fault::ExitedDuringProbe { .. })
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Spawn(error) => error.source(),
            // `Display` already contains these sources.
            Self::Io(_)
            | Self::Call(_)
            | Self::Use(_)
            | Self::UnexpectedResult(_)
            | Self::OutputSchemaViolation(_)
            | Self::Pinned(_)
            | Self::Url { .. }
            | Self::Register(_)
            | Self::Tasks(_)
            | Self::Busy
            | Self::Closed(_) => None,
            #[cfg(feature = "http")]
            Self::Protected(_) | Self::VisibleField(_) => None,
            #[cfg(feature = "skills")]
            Self::Skill(_) => None,
        }
    }
}

impl From<SpawnError> for Error {
    fn from(error: SpawnError) -> Self {
        Self::Spawn(error)
    }
}

impl From<TasksError> for Error {
    fn from(error: TasksError) -> Self {
        Self::Tasks(Arc::new(error))
    }
}

#[cfg(feature = "skills")]
impl From<SkillError> for Error {
    fn from(error: SkillError) -> Self {
        Self::Skill(error.into())
    }
}

/// A refused command, for example of a [`Handle`](crate::server::Handle).
impl From<UseError> for Error {
    fn from(error: UseError) -> Self {
        Self::Use(error)
    }
}

impl From<RegisterErrors> for Error {
    fn from(error: RegisterErrors) -> Self {
        Self::Register(error)
    }
}

#[cfg(feature = "http")]
impl From<ProtectedError> for Error {
    fn from(error: ProtectedError) -> Self {
        Self::Protected(error)
    }
}

#[cfg(feature = "http")]
impl From<VisibleFieldError> for Error {
    fn from(error: VisibleFieldError) -> Self {
        Self::VisibleField(error)
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Escapes control characters and characters that change the text direction.
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

/// Characters that change the text direction.
const BIDI: [char; 12] = [
    '\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}',
    '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];
/// Lines of stderr that `Display` shows at most.
const MAX_STDERR_LINES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_the_stream_is_the_reason_unless_the_peer_gave_one() {
        let error = Some(String::from("the cable is cut"));
        for (fault, text) in [
            (Fault::Eof, "no connection to the server \"a\": the cable is cut"),
            (Fault::Truncated { bytes: 3 }, "no connection to the server \"a\": the cable is cut"),
            (Fault::Closed, "no connection to the server \"a\": the cable is cut"),
            (
                Fault::NoCommonVersion { supported: mcp_proto::VersionSet::ALL, offered: Vec::new() },
                "no connection to the server \"a\": ",
            ),
        ] {
            let closed = ConnectionClosed {
                program: Some("a".into()),
                io_error: error.clone(),
                ..ConnectionClosed::unknown(fault.clone())
            };
            let before = ConnectionClosed { was_ready: false, ..closed.clone() };
            let ended = matches!(fault, Fault::Eof | Fault::Truncated { .. } | Fault::Closed);
            for closed in [closed, before] {
                let shown = closed.to_string();
                assert!(if ended { shown == text } else { shown.starts_with(text) }, "{shown}");
                assert_eq!(shown.contains("cable"), ended, "{shown}");
            }
        }
    }
}
