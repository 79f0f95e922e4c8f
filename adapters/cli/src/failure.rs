//! What to say, and how to exit, when something did not work

use core::fmt::Write as _;
use core::time::Duration;
use std::io::{self, Write as _};
use std::process::ExitCode;

use mcp_blocking::{Closed, Error};
use mcp_proto::{CallError, Fault, HttpError, RpcError, UseError};

use crate::escape;
use crate::paint::Paint;
use crate::stop;

/// A reason to stop: what happened, and what to do about it
///
/// The texts are escaped when they are printed.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
    /// What the server wrote to stderr at the end
    last_words: String,
}

/// The exit codes, as `--help` explains them
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Failed = 1,
    Usage = 2,
    Connection = 3,
    Timeout = 4,
    Unanswered = 5,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What was asked for on the command line that messages refer to
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    /// The longest time in all, if one was given
    pub(crate) total: Option<Duration>,
    /// Whether its stderr is shown already
    pub(crate) stderr_shown: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None, last_words: String::new() }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message).hint("see `mcp-probe --help`")
    }

    /// Our own server could not go on
    pub(crate) fn serving(error: &Error) -> Self {
        Self::new(Exit::Failed, format!("the server stopped: {error}"))
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With what the server wrote to stderr at the end
    #[must_use]
    pub(crate) fn last_words(mut self, words: &str) -> Self {
        words.clone_into(&mut self.last_words);
        self
    }

    /// With another exit code
    #[must_use]
    pub(crate) const fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Puts what was being done in front of the message
    #[must_use]
    pub(crate) fn while_doing(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    /// Of a client
    pub(crate) fn of(error: &Error, asked: &Asked) -> Self {
        match error {
            Error::Spawn(error) => Self::new(Exit::Connection, error.to_string()),
            Error::Io(error) => {
                Self::new(Exit::Connection, format!("the stream to the server failed: {error}"))
            }
            Error::Call(error) => Self::of_call(error, asked),
            Error::Use(UseError::PeerLacks(capability)) => {
                Self::failed(format!("the server does not have the capability `{capability}`"))
                    .hint("`mcp-probe inspect` shows what it has")
            }
            Error::Url { .. } => Self::usage(error.to_string()),
            Error::Closed(closed) => Self::of_connection(closed, asked),
            other => Self::failed(other.to_string()),
        }
    }

    fn of_call(error: &CallError, asked: &Asked) -> Self {
        match error {
            CallError::TimedOut => {
                let message = format!(
                    "timed out: no answer within {}, so the call was cancelled",
                    seconds(asked.timeout)
                );
                let twice = seconds(asked.timeout * 2);
                Self::new(Exit::Timeout, message).hint(format!(
                    "give it more time with --timeout, {twice} for instance; progress starts it anew"
                ))
            }
            CallError::TotalTimedOut => Self::new(
                Exit::Timeout,
                match asked.total {
                    Some(total) => {
                        format!(
                            "timed out: no answer within {} in all, so the call was cancelled",
                            seconds(total)
                        )
                    }
                    None => "timed out: progress went on for too long, so the call was cancelled".into(),
                },
            )
            .hint(
                "--total sets the time in all, which is 10 minutes otherwise, or --timeout if that is longer",
            ),
            CallError::Rpc(error) => Self::failed(format!("the server answered with {}", answer(error))),
            CallError::Http(error) => Self::of_exchange(error),
            CallError::Closed(fault) => {
                Self::new(Exit::Connection, format!("the connection ended before the answer came: {fault}"))
            }
            other => Self::failed(other.to_string()),
        }
    }

    /// Of one exchange over HTTP
    fn of_exchange(error: &HttpError) -> Self {
        match error {
            HttpError::Unreachable { .. }
            | HttpError::Lost { .. }
            | HttpError::Unheard { .. }
            | HttpError::SessionLost => Self::new(Exit::Connection, error.to_string()),
            _ if is_locked(error) => Self::failed(error.to_string()).hint(TOKEN),
            _ => Self::failed(error.to_string()),
        }
    }

    fn of_connection(closed: &Closed, asked: &Asked) -> Self {
        let mut message = connection(closed);
        if let (Some(noise), false) = (&closed.noise, closed.was_ready) {
            let what = if closed.url.is_some() { "it sent" } else { "the first line on its stdout was" };
            let _ = write!(message, "; {what} {noise:?}");
        }
        let mut failure = Self::new(Exit::Connection, message);
        if !asked.stderr_shown {
            failure.last_words.clone_from(&closed.last_words);
        }
        failure.hint = match &closed.fault {
            Fault::LegacyServer { .. } => Some("leave --era and --protocol-version out, or say --era legacy".into()),
            Fault::NoCommonVersion { .. } | Fault::Refused(_) => {
                Some("leave --era and --protocol-version out, so that both sides can choose".into())
            }
            _ if closed.was_ready => None,
            Fault::HandshakeTimeout { .. } if closed.url.is_some() => Some(format!(
                "is there an MCP server at this URL? If it is only slow, raise --connect-timeout (now {})",
                seconds(asked.connect_timeout)
            )),
            Fault::Http(error) if is_locked(error) => Some(TOKEN.into()),
            _ if closed.url.is_some() => {
                Some("is this the URL of an MCP server, its path included? --trace shows what it answers".into())
            }
            _ if closed.noise.is_some() && !closed.any_message => Some(
                "is this the right command, with the right arguments? A server on stdio writes nothing but messages \
                 to stdout"
                    .into(),
            ),
            Fault::HandshakeTimeout { .. } => Some(format!(
                "does it speak MCP on stdin and stdout? If it is only slow to start, raise --connect-timeout (now {})",
                seconds(asked.connect_timeout)
            )),
            _ if closed.last_words.is_empty() && !asked.stderr_shown => {
                Some("is this the right command for a server on stdio? --stderr show shows what it has to say".into())
            }
            _ => Some("is this the right command for a server on stdio?".into()),
        };
        failure
    }

    /// Prints it and gives the code to exit with
    pub(crate) fn report(&self) -> ExitCode {
        stop::hush();
        let paint = Paint::for_stderr();
        let mut text = format!("{} {}\n", paint.bad("error:"), escape::indented(&self.message));
        if !self.last_words.is_empty() {
            text.push_str("  the server's last words on stderr:\n");
            let skip = self.last_words.lines().count().saturating_sub(SHOWN);
            for line in self.last_words.lines().skip(skip) {
                let _ = writeln!(text, "    | {}", escape::line(line));
            }
        }
        if let Some(hint) = &self.hint {
            let _ = writeln!(text, "  {} {}", paint.note("hint:"), escape::line(hint));
        }
        // There is nobody left to tell when stderr is closed.
        let _ = io::stderr().write_all(text.as_bytes());
        self.exit.into()
    }
}

/// What became of a connection, in a sentence
fn connection(closed: &Closed) -> String {
    let server = match (&closed.program, &closed.url) {
        (Some(program), _) => format!("{program:?}"),
        (None, Some(url)) => url.clone(),
        (None, None) => "the server".to_owned(),
    };
    let ended = closed.ended.map(|status| format!(" ({status})")).unwrap_or_default();
    match &closed.fault {
        Fault::Eof | Fault::Truncated { .. } | Fault::ExitedDuringProbe { .. } if closed.was_ready => {
            let cut = matches!(closed.fault, Fault::Truncated { .. });
            let what = if cut { ", in the middle of a message" } else { "" };
            format!("{server} ended in the middle of the session{ended}{what}")
        }
        Fault::Eof | Fault::Truncated { .. } | Fault::ExitedDuringProbe { .. } => {
            let what = if matches!(closed.fault, Fault::Truncated { .. }) {
                "in the middle of a message, before it had agreed on a revision"
            } else if closed.any_message {
                "without agreeing on a revision"
            } else {
                "without a single message"
            };
            let who = if closed.any_message {
                "could not be connected to"
            } else {
                "is no MCP server, or not with these arguments"
            };
            format!("{server} {who}: it ended{ended} {what}")
        }
        Fault::HandshakeTimeout { method } if !closed.any_message => {
            format!("{server} may be no MCP server: it said nothing to `{method}`")
        }
        Fault::Refused(error) => format!("{server} refused to connect with {}", answer(error)),
        fault => format!("no connection to {server}: {fault}"),
    }
}

/// An error answer with its details, which is where peers put the versions that they speak
fn answer(error: &RpcError) -> String {
    let mut text = format!("an error: {error}");
    if let Some(data) = &error.data {
        let short: String = data.as_str().chars().take(DETAILS).collect();
        let more = if short.len() < data.as_str().len() { " …" } else { "" };
        let _ = write!(text, "; details: {short}{more}");
    }
    text
}

/// `0.5 s` rather than `500ms`, as it may be given to `--timeout`
pub(crate) fn seconds(time: Duration) -> String {
    format!("{}s", time.as_secs_f64())
}

/// Whether the server wants to know who asks
fn is_locked(error: &HttpError) -> bool {
    matches!(error, HttpError::Answer(answer) if answer.status == 401)
}

/// What to do where a server wants to know who asks
const TOKEN: &str = "--bearer shows a token: env:NAME takes it from a variable, @PATH out of a file";
/// Lines of stderr that are shown at most
const SHOWN: usize = 20;
/// Characters of an error's details that are shown at most
const DETAILS: usize = 2_000;
