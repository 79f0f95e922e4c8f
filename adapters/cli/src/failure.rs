//! Failures of a command: message, hint and exit code.

#[cfg(feature = "auth")]
mod authorization;

use core::fmt::{Display, Write as _};
use core::time::Duration;
use std::path::Path;
use std::process::ExitCode;

use mcp_blocking::{ConnectionClosed, Error};
use mcp_check::hints::{self, StartFault};
use mcp_proto::{CallError, Fault, HttpError, RawJson, RpcError, UseError};
use mcp_proto_trace::masked;
use mcp_std::json_file::JsonFileError;
use mcp_std::process::{SpawnError, SpawnErrorKind};
use serde::{Deserialize, Serialize, Serializer};

use crate::args;
use crate::connections;
use crate::escape;
#[cfg(feature = "auth")]
pub(crate) use authorization::url_text;

/// A reason to stop: a message and a hint about what to do.
///
/// The texts are escaped when they are printed. A background process sends it to the command: another version of the program may
/// leave the last members out.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CommandFailure {
    #[serde(rename = "exitCode")]
    pub(crate) exit: Exit,
    /// May have secrets, which [`message`](Self::message) leaves out.
    #[serde(serialize_with = "serialize_masked")]
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    /// Last lines that the server wrote to stderr, if they are not shown anyway.
    #[serde(rename = "stderr")]
    pub(crate) stderr_tail: String,
    /// Deviations of the server from the protocol before the failure.
    #[serde(default)]
    pub(crate) deviations: Box<[String]>,
    /// Scopes that the server asks for.
    #[serde(default)]
    pub(crate) scopes: Box<[String]>,
    /// Error response of the server, if that is the reason.
    #[serde(default)]
    pub(crate) response: Option<Box<Response>>,
    /// Whether a result is already on stdout.
    #[serde(skip)]
    pub(crate) has_result: bool,
}

/// An error response of the server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Response {
    pub(crate) code: i64,
    message: String,
    pub(crate) data: Option<RawJson>,
}

fn serialize_masked<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&masked(text))
}

impl Display for CommandFailure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.message())
    }
}

impl core::error::Error for CommandFailure {}

/// Exit codes, as `--help` documents them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "u8", into = "u8")]
pub(crate) enum Exit {
    Failed = 1,
    Usage = 2,
    Connection = 3,
    Timeout = 4,
    Unanswered = 5,
    Unauthorized = 6,
}

impl Exit {
    /// Returns the name of this kind of failure in JSON.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Unanswered => "unanswered",
            Self::Unauthorized => "unauthorized",
        }
    }
}

/// An unknown code is a failure of another kind.
impl From<u8> for Exit {
    fn from(code: u8) -> Self {
        let all = [Self::Usage, Self::Connection, Self::Timeout, Self::Unanswered, Self::Unauthorized];
        all.into_iter().find(|exit| *exit as u8 == code).unwrap_or(Self::Failed)
    }
}

impl From<Exit> for u8 {
    fn from(exit: Exit) -> Self {
        exit as Self
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A file of the command line.
impl From<JsonFileError> for CommandFailure {
    fn from(error: JsonFileError) -> Self {
        let failure = Self::usage(error.message);
        if let Some(hint) = error.hint { failure.with_hint(hint) } else { failure }
    }
}

/// Settings of the command line that failure messages mention.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailureContext {
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    /// Total timeout, if one was set.
    pub(crate) total_timeout: Option<Duration>,
    /// Whether the server's stderr is already shown.
    pub(crate) is_stderr_shown: bool,
}

impl CommandFailure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
            stderr_tail: String::new(),
            deviations: Box::default(),
            response: None,
            scopes: Box::default(),
            has_result: false,
        }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message).with_hint("see `mcp-probe --help`")
    }

    /// Creates the failure of a file that cannot be written.
    pub(crate) fn unwritten<E: Display>(path: &Path) -> impl Fn(E) -> Self {
        move |error| Self::failed(format!("cannot write {}: {error}", path.display()))
    }

    /// Creates the failure for a connection that nobody keeps.
    pub(crate) fn missing_connection(name: &str) -> Self {
        let (message, hint) = connections::describe_missing(name);
        Self::usage(message).with_hint(hint)
    }

    /// Creates the failure of an invalid command line.
    pub(crate) fn from_parse_error(error: &clap::Error) -> Self {
        let text = error.to_string();
        let line = text.lines().next().unwrap_or_default();
        Self::usage(line.strip_prefix("error: ").unwrap_or(line))
    }

    /// Creates the failure of a server of this program that stopped.
    pub(crate) fn from_serve_error(error: &Error) -> Self {
        Self::new(Exit::Failed, format!("the server stopped: {error}"))
    }

    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a hint to the one that is there.
    #[must_use]
    pub(crate) fn add_hint(mut self, hint: &str) -> Self {
        self.hint = Some(self.hint.map_or_else(|| hint.to_owned(), |before| format!("{before}; {hint}")));
        self
    }

    /// Adds the last lines that the server wrote to stderr.
    #[must_use]
    pub(crate) fn with_stderr_tail(mut self, words: &str) -> Self {
        words.clone_into(&mut self.stderr_tail);
        self
    }

    /// Adds the error response of the server that is the reason, for programs.
    #[must_use]
    pub(crate) fn with_response(mut self, response: RpcError) -> Self {
        let RpcError { code, message, data, .. } = response;
        self.response = Some(Box::new(Response { code, message: message.into_owned(), data }));
        self
    }

    /// Names the scopes that the server asks for, for programs.
    #[must_use]
    pub(crate) fn with_scopes<'s>(mut self, scopes: impl Iterator<Item = &'s str>) -> Self {
        self.scopes = scopes.map(str::to_owned).collect();
        self
    }

    /// Adds the deviations of the server before the failure, which may be its reason.
    #[must_use]
    pub(crate) fn with_deviations(mut self, mut deviations: Vec<String>) -> Self {
        // The error of the client may tell of some itself.
        deviations.retain(|deviation| !self.message.contains(deviation));
        self.deviations = deviations.into();
        self
    }

    /// Replaces the name of the server in the message.
    #[must_use]
    pub(crate) fn renamed(mut self, name: &str, by: &str) -> Self {
        self.message = self.message.replace(name, by);
        self
    }

    /// Replaces the exit code.
    #[must_use]
    pub(crate) const fn with_exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Prefixes the message with the operation that failed.
    #[must_use]
    pub(crate) fn with_context(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Adds the message of a second failure. The kind and the hint are those of the one that ends more.
    #[must_use]
    pub(crate) fn and(mut self, second: Self) -> Self {
        let message = format!("{}\n{}", self.message, second.message);
        let deviations = [&*self.deviations, &*second.deviations].concat();
        if self.exit == Exit::Failed && second.exit != Exit::Failed {
            self = second;
        }
        (self.message, self.deviations) = (message, deviations.into());
        self
    }

    /// Returns what went wrong, without secrets: it is for reports, and for clients.
    pub(crate) fn message(&self) -> String {
        masked(&self.message)
    }

    /// Returns the last line that the server wrote to stderr, if it is not shown anyway.
    pub(crate) fn last_stderr_line(&self) -> Option<&str> {
        self.stderr_tail.lines().rev().map(str::trim).find(|line| !line.is_empty())
    }

    /// States that a result is already on stdout, so that a script finds no second value there.
    #[must_use]
    pub(crate) const fn after_result(mut self) -> Self {
        self.has_result = true;
        self
    }

    /// Creates the failure of a program that does not start.
    pub(crate) fn from_spawn_error(error: &SpawnError) -> Self {
        let StartFault { why, fix, first_word, .. } = StartFault::of(error);
        let failure = Self::new(Exit::Connection, error.to_string());
        match (error.kind(), first_word) {
            // It says all that is known.
            (SpawnErrorKind::Other | SpawnErrorKind::Refused | SpawnErrorKind::UnsafeArgument, _) => failure,
            (SpawnErrorKind::Directory, _) if failure.message.contains("directory \"~") => {
                failure.with_hint(hints::HOME)
            }
            (SpawnErrorKind::Directory, _) => failure,
            (_, Some(first)) => failure.renamed(error.program(), &first).with_hint(format!("{why}: {fix}")),
            (_, None) => failure.with_hint(format!("{why}: {fix}")),
        }
    }

    /// Returns `None`: this program gets no tokens.
    #[cfg(not(feature = "auth"))]
    pub(crate) const fn from_refused_authorization(_: &Error, _: &str) -> Option<Self> {
        None
    }

    /// Creates a failure from an error of a client.
    pub(crate) fn from_client_error(error: &Error, context: &FailureContext) -> Self {
        if let Some(failure) = Self::from_refused_authorization(error, "URL") {
            return failure;
        }
        match error {
            Error::Spawn(error) => Self::from_spawn_error(error),
            Error::Io(error) => {
                Self::new(Exit::Connection, format!("the stream to the server failed: {error}"))
            }
            Error::Call(error) => Self::from_call_error(error, context),
            Error::Use(UseError::MissingPeerCapability(capability)) => {
                Self::failed(format!("the server does not have the capability `{capability}`"))
                    .with_hint("`mcp-probe inspect` shows its capabilities")
            }
            Error::Url { reason, .. } if reason.contains("feature `tls`") => {
                Self::usage(error.to_string()).with_hint(FULL_HINT)
            }
            Error::Url { .. } => Self::usage(error.to_string()),
            Error::Closed(closed) => Self::from_closed(closed, context),
            other => Self::failed(other.to_string()),
        }
    }

    fn from_call_error(error: &CallError, context: &FailureContext) -> Self {
        match error {
            CallError::TimedOut => {
                let message = format!(
                    "timed out: no answer within {}, so the call was cancelled",
                    format_seconds(context.timeout)
                );
                let twice = format_seconds(context.timeout * 2);
                Self::new(Exit::Timeout, message)
                    .with_hint(format!("raise --timeout, for example to {twice}; progress restarts the time"))
            }
            CallError::TotalTimedOut => Self::new(
                Exit::Timeout,
                match context.total_timeout {
                    Some(total) => {
                        format!(
                            "timed out: no answer within {} in total, so the call was cancelled",
                            format_seconds(total)
                        )
                    }
                    None => "timed out: no answer in spite of progress, so the call was cancelled".into(),
                },
            )
            .with_hint(
                "--total sets the total time; the default is 10 minutes, or --timeout if that is longer",
            ),
            CallError::Misaddressed(_) => Self::new(
                Exit::Timeout,
                format!("timed out, and the call was cancelled: {error}"),
            )
            .with_hint(
                "the server answers with an id that is not that of the request; --trace shows its messages",
            ),
            CallError::Rpc(error) => {
                Self::failed(format!("the server answered with {}", describe_rpc_error(error)))
                    .with_response(error.clone())
            }
            CallError::Http(error) => Self::from_http_error(error),
            CallError::Closed(fault) => {
                Self::new(Exit::Connection, format!("the connection ended before the answer came: {fault}"))
            }
            other => Self::failed(other.to_string()),
        }
    }

    /// Creates a failure from an error of one HTTP exchange.
    fn from_http_error(error: &HttpError) -> Self {
        match error {
            HttpError::Unreachable { .. }
            | HttpError::Lost { .. }
            | HttpError::GetStreamUnavailable { .. }
            | HttpError::SessionLost => Self::new(Exit::Connection, error.to_string()),
            _ if is_refusal(error) => Self::new(Exit::Unauthorized, error.to_string())
                .with_hint(hints::BEARER)
                .with_scopes(challenged_scopes(error).unwrap_or_default().split_whitespace()),
            _ => Self::failed(error.to_string()),
        }
    }

    fn from_closed(closed: &ConnectionClosed, context: &FailureContext) -> Self {
        let mut message = describe_closed(closed);
        if let (Some(noise), false) = (&closed.noise, closed.was_ready) {
            let what = if closed.url.is_some() { "it sent" } else { "the first line on its stdout was" };
            let _ = write!(message, "; {what} {noise:?}");
        }
        let untried = closed.fault.untried_handshake().filter(|_| !closed.was_ready);
        if let Some(untried) = untried.filter(|untried| !message.contains(untried)) {
            let _ = write!(message, "; {untried}");
        }
        let mut failure = Self::new(Exit::Connection, message);
        if let Fault::HandshakeRefused(error) = &closed.fault {
            failure = failure.with_response(RpcError::clone(error));
        }
        if !context.is_stderr_shown {
            failure.stderr_tail.clone_from(&closed.stderr_tail);
        }
        let is_stream = closed.url.as_deref().is_some_and(|url| !args::is_url(url));
        failure.hint = match &closed.fault {
            Fault::LegacyServer { .. } => Some(LEGACY_HINT.into()),
            // The message says why.
            Fault::HandshakeRefused(error) if error.is_of_draft() => Some("--draft follows the drafts".into()),
            Fault::NoCommonVersion { .. } | Fault::HandshakeRefused(_) => {
                Some("leave --era and --protocol-version out, so that both sides can choose".into())
            }
            _ if closed.was_ready => None,
            Fault::HandshakeTimeout { .. } if is_stream => Some(format!(
                "is there an MCP server at this address (and, on a serial line, at this baud rate)? If it is only slow, \
                 raise --connect-timeout (now {})",
                format_seconds(context.connect_timeout)
            )),
            _ if is_stream => Some("is this the address of an MCP server, and does it take another connection?".into()),
            Fault::HandshakeTimeout { .. } if closed.url.is_some() => Some(format!(
                "is there an MCP server at this URL? If it is only slow, raise --connect-timeout (now {})",
                format_seconds(context.connect_timeout)
            )),
            Fault::Http(error) if is_refusal(error) => {
                failure.exit = Exit::Unauthorized;
                Some(hints::BEARER.into())
            }
            Fault::Http(error) if matches!(**error, HttpError::Unreachable { .. }) => {
                Some(hints::unreachable(&error.to_string()).into())
            }
            _ if closed.url.is_some() => {
                Some("is this the full URL of an MCP server, including its path? --trace shows its responses".into())
            }
            _ if closed.noise.is_some() && !closed.received_message => Some(
                "is this the right command, with the right arguments? A server on stdio writes nothing but messages \
                 to stdout"
                    .into(),
            ),
            Fault::HandshakeTimeout { .. } => Some(format!(
                "does it speak MCP on stdin and stdout? If it is only slow to start, raise --connect-timeout (now {})",
                format_seconds(context.connect_timeout)
            )),
            _ if closed.stderr_tail.is_empty() && !context.is_stderr_shown => {
                Some("is this the right command for a server on stdio? --stderr show prints its stderr".into())
            }
            _ => Some("is this the right command for a server on stdio?".into()),
        };
        if untried.is_some() { failure.add_hint(LEGACY_HINT) } else { failure }
    }
}

/// Describes in one sentence why a connection ended.
fn describe_closed(closed: &ConnectionClosed) -> String {
    let server = match (&closed.program, &closed.url) {
        (Some(program), _) => format!("{program:?}"),
        (None, Some(url)) => url.clone(),
        (None, None) => "the server".to_owned(),
    };
    let ended = closed.exit_status.map(|status| format!(" ({status})")).unwrap_or_default();
    match &closed.fault {
        Fault::Eof | Fault::Truncated { .. } | Fault::ExitedDuringProbe { .. } if closed.was_ready => {
            let cut = matches!(closed.fault, Fault::Truncated { .. });
            let what = if cut { ", in the middle of a message" } else { "" };
            format!("{server} ended in the middle of the session{ended}{what}")
        }
        Fault::Eof | Fault::Truncated { .. } | Fault::ExitedDuringProbe { .. } => {
            let what = if matches!(closed.fault, Fault::Truncated { .. }) {
                "in the middle of a message, before it had agreed on a revision"
            } else if closed.received_message {
                "without agreeing on a revision"
            } else {
                "without sending a message"
            };
            let outcome = if closed.received_message {
                "did not complete the handshake"
            } else if closed.program.is_some() {
                "is not an MCP server, or not with these arguments"
            } else {
                "is not an MCP server, or takes no more connections"
            };
            format!("{server} {outcome}: it ended{ended} {what}")
        }
        Fault::HandshakeTimeout { method, .. } if !closed.received_message => {
            format!("{server} may not be an MCP server: it did not answer `{method}`")
        }
        Fault::HandshakeRefused(error) => {
            format!("{server} refused the handshake with {}", describe_rpc_error(error))
        }
        Fault::Http(error) if is_refusal(error) => {
            format!("{server} refused the request: {error}")
        }
        fault => format!("no connection to {server}: {fault}"),
    }
}

/// Returns whether the server refused a request for want of authorization.
pub(crate) fn is_refusal(error: &HttpError) -> bool {
    matches!(error, HttpError::Response(answer) if answer.asks_for_credential())
}

/// Returns `scope` of the first challenge that has it.
fn challenged_scopes(error: &HttpError) -> Option<&str> {
    let HttpError::Response(answer) = error else { return None };
    answer.challenges.iter().find_map(|challenge| challenge.param("scope"))
}

/// Describes an error response with its `data`, where peers put the revisions that they support.
fn describe_rpc_error(error: &RpcError) -> String {
    let mut text = format!("an error: {error}");
    if let Some(data) = &error.data {
        let _ = write!(text, "; details: {}", escape::shortened(data.as_str(), MAX_DETAIL_CHARS));
    }
    text
}

/// Formats a duration in seconds, as `--timeout` accepts it: `0.5s`, not `500ms`.
pub(crate) fn format_seconds(time: Duration) -> String {
    format!("{}s", time.as_secs_f64())
}

/// Hint for a server that speaks only revisions with a handshake, or may do so.
const LEGACY_HINT: &str = "leave --era and --protocol-version out, or use --era legacy";
/// Hint for whatever needs a feature that is missing.
pub(crate) const FULL_HINT: &str = "`cargo install mcp-probe --features full` installs it with all features";
/// Maximum number of characters shown of an error's `data`.
const MAX_DETAIL_CHARS: usize = 2_000;
