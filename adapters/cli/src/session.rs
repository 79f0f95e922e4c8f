//! Client sessions: from the command line to a connection.

use core::cell::RefCell;
use core::time::Duration;
use std::env::{self, VarError};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};

use mcp_blocking::{ClientHandler, Error};
use mcp_proto::EntryKind;
use mcp_proto::client::{Config, Input, LogMessage, SubscriptionKey};
use mcp_proto::http::{self, HeadRecord};
use mcp_proto::model::{InputResponse, LoggingLevel};
use mcp_proto::tap::TapRecord;
use mcp_proto::{CallError, Change, Diagnostic, Era, Limits, RawJson, RpcError, UseError, VersionSet};
use mcp_std::adapter::client::{Connector, Options};
use mcp_std::process::{Program, ShutdownReport, ShutdownStage, ShutdownTimeouts, Stderr};

use crate::answer::{InputResponder, UnansweredInputs};
use crate::args::{self, AnswerArgs, BEARER_NEEDS_URL, StderrChoice, TargetArgs};
use crate::changes::{ChangeEvent, ReceivedChanges};
use crate::client::Client;
use crate::escape;
use crate::failure::{CommandFailure, FailureContext};
use crate::paint::Paint;
use crate::stop;
use crate::trace;

/// A connection to the server that the command line names.
pub(crate) struct ClientSession {
    pub(crate) client: Client,
    pub(crate) failure_context: FailureContext,
    /// Input requests of the server that got no answer.
    pub(crate) unanswered: UnansweredInputs,
    /// Changes reported by the server.
    pub(crate) changes: ReceivedChanges,
}

impl ClientSession {
    /// Starts or connects to the server and agrees on a revision. Without `answer_args`, input requests are refused.
    ///
    /// # Errors
    ///
    /// Fails if the command line is wrong, or if no connection is established.
    pub(crate) fn open(
        target: &TargetArgs,
        answer_args: Option<&AnswerArgs>,
    ) -> Result<Self, CommandFailure> {
        let versions = target.revisions.version_set().map_err(CommandFailure::usage)?;
        let failure_context = FailureContext {
            timeout: target.timeout,
            connect_timeout: target.connect_timeout,
            total_timeout: None,
            is_stderr_shown: matches!(target.stderr, StderrChoice::Show | StderrChoice::Inherit),
        };
        let mut config = client_config(versions, target.timeout, target.connect_timeout, target.trace);
        if target.url().is_some() {
            // Over HTTP a slow probe must not cause a fallback to the legacy handshake.
            let mut limits = config.effective_limits().clone();
            (limits.probe_timeout, limits.init_timeout) = (target.connect_timeout, target.connect_timeout);
            config = config.limits(limits);
        }
        for member in &target.hide {
            config = config.redact_in_tap(member);
        }
        let responder =
            answer_args.map(|answer_args| InputResponder::new(answer_args, &target.server)).transpose()?;
        let mut unanswered = UnansweredInputs::default();
        if let Some(responder) = &responder {
            config = config.capabilities(responder.capabilities());
            unanswered = responder.unanswered();
        }
        let changes = ReceivedChanges::default();
        let handler = SessionHandler {
            trace: target.trace,
            is_remote: target.url().is_some(),
            hides_members: !target.hide.is_empty(),
            paint: Paint::for_stderr(),
            noise_notes: RefCell::new(LimitedNotes(MAX_NOISE_LINES)),
            log_level: target.log.clone(),
            responder: responder.map(RefCell::new),
            changes: changes.clone(),
        };
        let spec = ServerSpec {
            server: &target.server,
            bearer: target.bearer.as_deref(),
            stderr: target.stderr,
            env: &target.env,
            tap_heads: target.trace,
        };
        let client = Client::open(target.runtime, &spec, config, handler, SHUTDOWN_TIMEOUTS)?;
        let mut client =
            client.map_err(|error| CommandFailure::from_client_error(&error, &failure_context))?;
        if let Some(level) = &target.log {
            match client.set_log_level(level.clone()) {
                Ok(()) => {}
                Err(Error::Use(UseError::MissingPeerCapability(_))) => {
                    print_note("the server does not support logging")
                }
                Err(error) => return Err(CommandFailure::from_client_error(&error, &failure_context)),
            }
        }
        Ok(Self { client, failure_context, unanswered, changes })
    }

    /// Creates a failure from an error of the client.
    pub(crate) fn failure(&self, error: &Error) -> CommandFailure {
        CommandFailure::from_client_error(error, &self.failure_context)
    }

    /// Closes the connection and ends the server. Prints a note if the server did not end by itself.
    pub(crate) fn close(self) {
        match self.client.close() {
            Ok(Some(ended)) => {
                if let Some(complaint) = describe_abnormal_exit(&ended) {
                    print_note(&complaint);
                }
            }
            Ok(None) => {}
            Err(error) => print_note(&error.to_string()),
        }
    }
}

/// Address of a server and how to reach it.
pub(crate) struct ServerSpec<'a> {
    /// Command of the server, or its URL.
    pub(crate) server: &'a [OsString],
    pub(crate) bearer: Option<&'a str>,
    pub(crate) stderr: StderrChoice,
    pub(crate) env: &'a [String],
    /// Whether heads of HTTP messages are recorded.
    pub(crate) tap_heads: bool,
}

impl ServerSpec<'_> {
    /// Starts the server or connects to it.
    ///
    /// # Errors
    ///
    /// The outer error reports a mistake on the command line, the inner one a failed connection.
    pub(crate) fn connect<C>(&self, options: Options<C>) -> Result<Result<C, Error>, CommandFailure>
    where
        C: for<'a> Connector<Connecting<'a> = Result<C, Error>>,
    {
        self.open(options)
    }

    /// Does the same as [`Self::connect()`], for clients that open as futures too.
    ///
    /// # Errors
    ///
    /// Fails if the command line is wrong.
    pub(crate) fn open<C: Connector>(
        &self,
        mut options: Options<C>,
    ) -> Result<C::Connecting<'static>, CommandFailure> {
        let Some(url) = args::url(self.server) else {
            if self.bearer.is_some() {
                return Err(CommandFailure::usage(BEARER_NEEDS_URL));
            }
            return Ok(options.spawn(program(self.server, self.stderr, self.env)?));
        };
        let http = http::client::Config::new(url);
        let shown = http::client::Url::redacted(url);
        let mut http =
            http.map_err(|why| CommandFailure::usage(format!("cannot connect to {shown}: {why}")))?;
        if let Some(bearer) = self.bearer {
            let credential = http::client::Credential::bearer(&read_bearer_token(bearer)?);
            http =
                http.credential(credential.map_err(|why| CommandFailure::usage(format!("--bearer: {why}")))?);
        }
        if self.tap_heads {
            options = options.tap_heads();
        }
        Ok(options.connect_http(http))
    }
}

/// Returns the token that `--bearer` contains or refers to. No error message contains it (SEC-019).
///
/// # Errors
///
/// Fails if the variable or the file cannot be read.
pub(crate) fn read_bearer_token(bearer: &str) -> Result<String, CommandFailure> {
    let found = if let Some(name) = bearer.strip_prefix("env:") {
        env::var(name).map_err(|error| format!("the variable {name}: {}", var_error_text(&error)))
    } else if let Some(path) = bearer.strip_prefix('@') {
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(MAX_TOKEN_BYTES).read_to_string(&mut text));
        read.map(|_| text).map_err(|error| format!("the file {path}: {error}"))
    } else {
        return Ok(bearer.to_owned());
    };
    let token = found.map_err(|why| CommandFailure::usage(format!("--bearer: {why}")))?;
    Ok(token.trim().to_owned())
}

/// Describes why a variable cannot be read, without its value.
const fn var_error_text(error: &VarError) -> &'static str {
    match error {
        VarError::NotPresent => "it is not set",
        VarError::NotUnicode(_) => "its value is not UTF-8",
    }
}

/// Creates the configuration of a client.
pub(crate) fn client_config(
    versions: VersionSet,
    timeout: Duration,
    connect_timeout: Duration,
    tap: bool,
) -> Config {
    let mut limits = Limits::default();
    limits.call_timeout = timeout;
    limits.call_total_timeout = limits.call_total_timeout.max(timeout);
    // With both eras enabled, the handshake may follow a probe that timed out; together they take `connect_timeout`.
    let dual = !versions.era(Era::Legacy).is_empty() && !versions.era(Era::Modern).is_empty();
    limits.probe_timeout = limits.probe_timeout.min(connect_timeout / 2);
    limits.init_timeout = if dual { connect_timeout - limits.probe_timeout } else { connect_timeout };
    if tap {
        limits.tap_records = 100_000;
        limits.tap_bytes = 64 << 20;
    }
    Config::new("mcp-probe", env!("CARGO_PKG_VERSION")).versions(versions).limits(limits)
}

/// Describes how the end of a server differs from an orderly one, or returns `None`.
pub(crate) fn describe_abnormal_exit(ended: &ShutdownReport) -> Option<String> {
    let forced = match ended.stage {
        ShutdownStage::Exited if !ended.had_stragglers => return None,
        ShutdownStage::Exited => "left processes behind, which were ended with a signal",
        ShutdownStage::Terminated => "did not end when its input was closed; SIGTERM ended it",
        ShutdownStage::Killed => "ended neither when its input was closed nor on SIGTERM; SIGKILL ended it",
    };
    Some(format!("the server {forced}"))
}

/// Prints a note on stderr.
pub(crate) fn print_note(text: &str) {
    stop::park_if_ending();
    let paint = Paint::for_stderr();
    print_stderr(&format!("{} {}", paint.note("note:"), escape::indented(text)));
}

/// Prints what a command that speaks on stdin expects, if stdin is a terminal.
pub(crate) fn hint_at_terminal(command: &str) {
    if io::stdin().is_terminal() {
        print_note(&format!(
            "`mcp-probe {command}` is for MCP clients: it reads their messages from stdin, one JSON-RPC message per line, and \
             answers on stdout. Ctrl-D ends it; `mcp-probe {command} --help` shows how clients start it"
        ));
    }
}

/// Prints a line on stderr. Errors are ignored, since they cannot be reported.
pub(crate) fn print_stderr(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Returns the server program to start.
///
/// # Errors
///
/// Fails if no program is given.
pub(crate) fn program(
    server: &[OsString],
    stderr: StderrChoice,
    env: &[String],
) -> Result<Program, CommandFailure> {
    let (program, args) = server.split_first().ok_or_else(|| CommandFailure::usage("no server is given"))?;
    let stderr = match stderr {
        StderrChoice::Show => {
            let paint = Paint::for_stderr();
            Stderr::lines(move |line| {
                print_stderr(&format!("{} {}", paint.dim("server:"), escape::line(line)))
            })
        }
        StderrChoice::Inherit => Stderr::Inherit,
        StderrChoice::Capture => Stderr::Capture,
        StderrChoice::Null => Stderr::Null,
    };
    let mut program = Program::new(resolve_program(program)).args(args).stderr(stderr);
    for variable in env {
        program = match variable.split_once('=') {
            Some((name, value)) => program.env(name, value),
            None => program.inherit_env([variable]),
        };
    }
    Ok(program)
}

/// Replaces `mcp-probe` by the path of this executable, so that it need not be installed.
fn resolve_program(program: &OsStr) -> OsString {
    let this = (program == "mcp-probe").then(env::current_exe);
    this.and_then(Result::ok).map_or_else(|| program.to_owned(), OsString::from)
}

/// Prints events of a session on stderr and answers input requests.
struct SessionHandler {
    trace: bool,
    /// Whether the server is reached over HTTP.
    is_remote: bool,
    /// Whether the trace hides members of messages.
    hides_members: bool,
    paint: Paint,
    noise_notes: RefCell<LimitedNotes>,
    /// Lowest level of log messages that are shown.
    log_level: Option<LoggingLevel>,
    responder: Option<RefCell<InputResponder>>,
    changes: ReceivedChanges,
}

impl ClientHandler for SessionHandler {
    fn input(&self, input: &Input) -> Option<Result<InputResponse<'static>, RpcError>> {
        Some(match &self.responder {
            Some(responder) => responder.borrow_mut().answer(input),
            None => Err(RpcError::internal("the client has no handler for this request")),
        })
    }

    fn changed(&self, change: &Change) {
        self.changes.add(ChangeEvent::Changed(change.clone()));
    }

    fn subscription_ended(&self, _: SubscriptionKey, error: Option<&CallError>) {
        self.changes.add(ChangeEvent::Ended(error.cloned()));
    }

    fn elicitation_complete(&self, id: &str) {
        print_note(&format!("the server reports that the elicitation by web page is complete (`{id}`)"));
    }

    fn log(&self, log: &LogMessage) {
        // Legacy servers may send any level; an unknown one counts as the most severe.
        if self.log_level.as_ref().is_some_and(|minimum| {
            log.level.severity() >= minimum.severity() || log.level.severity().is_none()
        }) {
            print_stderr(&log_line(log, self.paint));
        }
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        match diagnostic {
            Diagnostic::Noise { line, length } => {
                let more = if line.len() < *length { " …" } else { "" };
                let what =
                    if self.is_remote { "what the server sent" } else { "a line on the server's stdout" };
                self.noise_notes
                    .borrow_mut()
                    .note(&format!("{what} is not a message: {}{more}", escape::line(line)));
            }
            // A tool that is left out must be reported (XHDR-012).
            Diagnostic::InvalidTool { .. } => self.noise_notes.borrow_mut().note(&diagnostic.to_string()),
            other if self.trace => print_note(&format!("the server deviated from the protocol: {other}")),
            _ => {}
        }
    }

    fn unreadable_entry(&self, kind: EntryKind, _: &RawJson, reason: &str) {
        self.noise_notes
            .borrow_mut()
            .note(&format!("an entry of the server's {} cannot be read: {reason}", kind.list_member()));
    }

    fn tap(&self, record: &TapRecord) {
        print_stderr(&trace::format_record(record, self.paint));
    }

    fn head(&self, record: &HeadRecord) {
        print_stderr(&trace::format_head(record, self.hides_members, self.paint));
    }
}

/// Formats a log message: `log: warning (disk) "almost full"`.
fn log_line(log: &LogMessage, paint: Paint) -> String {
    let logger = log.logger.as_ref().map(|logger| format!(" ({})", escape::line(logger))).unwrap_or_default();
    // A plain string needs no quotes.
    let data = log.data.string().unwrap_or_else(|| log.data.as_str().to_owned());
    format!("{} {}{logger} {}", paint.dim("log:"), escape::line(log.level.as_str()), escape::line(&data))
}

/// Notes of one kind, up to a maximum number.
pub(crate) struct LimitedNotes(pub(crate) u32);

impl LimitedNotes {
    pub(crate) fn note(&mut self, text: &str) {
        if let Some(left) = self.0.checked_sub(1) {
            print_note(text);
            self.0 = left;
            if left == 0 {
                print_note("further notes of this kind are not shown");
            }
        }
    }
}

/// Maximum number of bytes read from a token file.
const MAX_TOKEN_BYTES: u64 = 64 << 10;
/// Maximum number of notes about noise.
const MAX_NOISE_LINES: u32 = 3;
/// Shutdown timeouts: long enough for an orderly server, short enough for a waiting user.
pub(crate) const SHUTDOWN_TIMEOUTS: ShutdownTimeouts = ShutdownTimeouts {
    exit: Duration::from_secs(2),
    terminate: Duration::from_secs(2),
    kill: Duration::from_secs(2),
    stragglers: Duration::from_secs(1),
};
