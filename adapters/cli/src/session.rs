//! Client sessions: from the command line to a connection.

use alloc::rc::Rc;
use alloc::sync::Arc;
use core::cell::RefCell;
use core::time::Duration;
use std::sync::Mutex;
use std::time::Instant;

use mcp_blocking::{ClientHandler, Error};
use mcp_proto::client::{Config, Input, LogMessage, SubscriptionKey};
use mcp_proto::http::HeadRecord;
use mcp_proto::model::{InputResponse, LoggingLevel, Task, TaskStatus, UI_EXTENSION, UiClientCapabilities};
use mcp_proto::tap::TapRecord;
use mcp_proto::{
    CallError, CallKey, CallOptions, Change, Diagnostic, EntryKind, Era, Progress, RawJson, RpcError,
    UseError,
};
use mcp_proto_trace::masked;
use mcp_std::process::{ShutdownReport, ShutdownStage};
use mcp_std::sync::lock;
use serde::Serialize;

use crate::answer::{AnswerArgs, InputResponder, OfferedRoots, UnansweredInputs};
use crate::args::{RequestArgs, StderrChoice, TargetArgs};
use crate::authorization;
use crate::changes::{ChangeEvent, ReceivedChanges};
use crate::client::{Client, SHUTDOWN_TIMEOUTS, StartedCall, client_config};
use crate::deviations::Deviations;
use crate::era_cache::{self, EraMemory};
use crate::escape;
use crate::failure::{CommandFailure, FailureContext};
use crate::notes::{LimitedNotes, OmissionNotes, print_note, print_stderr};
use crate::paint::Paint;
use crate::progress::{ProgressDisplay, SharedProgress};
use crate::screen;
use crate::server::{Server, ServerSpec};
use crate::stop::Interrupts;
use crate::trace::{self, HeadRedaction};

/// A connection to the server that the command line names.
pub(crate) struct ClientSession {
    pub(crate) client: Client,
    pub(crate) failure_context: FailureContext,
    server: Rc<Server>,
    /// Input requests of the server that got no answer.
    pub(crate) unanswered: UnansweredInputs,
    /// Roots that are offered to the server, if there are any.
    roots: Option<OfferedRoots>,
    /// Changes reported by the server.
    pub(crate) changes: ReceivedChanges,
    /// Lowest level of log messages that are shown.
    pub(crate) log_level: Arc<Mutex<Option<LoggingLevel>>>,
    /// Where progress of calls is shown that are waited for without a callback.
    progress: SharedProgress,
    /// Interrupts that cancel calls instead of ending the program: those of a shell.
    pub(crate) interrupts: Option<Interrupts>,
    stderr: StderrChoice,
    /// Deviations of the server that no failure has been explained by.
    deviations: Deviations,
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
        Self::open_as(target, answer_args, Config::clone)
    }

    /// Runs a command in a session without answers to input requests, and closes it.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), and as `run`.
    pub(crate) fn run<T>(
        target: &TargetArgs,
        run: impl FnOnce(&mut Self) -> Result<T, CommandFailure>,
    ) -> Result<T, CommandFailure> {
        let mut session = Self::open(target, None)?;
        let outcome = run(&mut session);
        session.close();
        outcome
    }

    /// Connects as [`open`](Self::open) does, as a client that knows apps. Input requests are refused.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub(crate) fn open_for_apps(target: &TargetArgs) -> Result<Self, CommandFailure> {
        Self::open_as(target, None, |config| {
            let settings = UiClientCapabilities::html().to_settings();
            config.clone().extension(UI_EXTENSION, settings).unwrap_or_else(|_| config.clone())
        })
    }

    /// Connects as [`open`](Self::open) does, for requests with these options.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub(crate) fn open_for_requests(
        request_args: &RequestArgs,
        answer_args: Option<&AnswerArgs>,
    ) -> Result<Self, CommandFailure> {
        let mut session = Self::open(&request_args.target, answer_args)?;
        session.failure_context.total_timeout = request_args.total;
        session.settle_roots();
        Ok(session)
    }

    fn open_as(
        target: &TargetArgs,
        answer_args: Option<&AnswerArgs>,
        role: fn(&Config) -> Config,
    ) -> Result<Self, CommandFailure> {
        let versions = target.revisions.version_set().map_err(CommandFailure::usage)?;
        let failure_context = FailureContext {
            timeout: target.timeout,
            connect_timeout: target.connection.connect_timeout,
            total_timeout: None,
            is_stderr_shown: matches!(target.stderr, StderrChoice::Show | StderrChoice::Inherit),
        };
        let mut server = Server::from_args(&target.server)?;
        let authorizer = authorization::for_command(&target.authorization, &target.revisions, &mut server)?;
        let server = Rc::new(server);
        let deviations = Deviations::default();
        let memory = EraMemory::new(server.place_hash(), server.is_remote(), versions)
            .filter(|_| !target.connection.no_cache);
        let opened = era_cache::open(
            memory.as_ref(),
            target.connection.connect_timeout,
            (|session: &Self| session.client.peer(), Self::close),
            &mut |known_era, connect_timeout| {
                let draft = target.revisions.drafts.followed();
                let config = client_config((versions, draft), target.timeout, connect_timeout, target.trace)
                    .known_era(known_era);
                let config = target.connection.keep_alive(role(&config));
                let spec = ServerSpec {
                    server: &server,
                    stderr: target.stderr,
                    tap_heads: target.trace,
                    authorizer: authorizer.as_ref(),
                    memory: memory.as_ref(),
                };
                Self::connect(target, answer_args, (&server, &spec, &deviations), config, failure_context)
            },
        )?;
        let mut session = opened
            .map_err(|error| server.failure(&error, &failure_context).with_deviations(deviations.take()))?;
        if let Some(level) = &target.log {
            match session.client.set_log_level(level.clone()) {
                Ok(()) => {}
                Err(Error::Use(UseError::MissingPeerCapability(_))) => {
                    print_note("the server does not support logging")
                }
                Err(error) => return Err(session.failure(&error)),
            }
        }
        Ok(session)
    }

    /// Makes one attempt to connect.
    ///
    /// # Errors
    ///
    /// The outer error reports a mistake on the command line, the inner one a failed connection.
    fn connect(
        target: &TargetArgs,
        answer_args: Option<&AnswerArgs>,
        (server, spec, deviations): (&Rc<Server>, &ServerSpec<'_>, &Deviations),
        mut config: Config,
        failure_context: FailureContext,
    ) -> Result<Result<Self, Error>, CommandFailure> {
        if server.is_remote() {
            // Over HTTP a slow probe must not cause a fallback to the legacy handshake.
            let mut limits = config.effective_limits().clone();
            (limits.probe_timeout, limits.init_timeout) =
                (target.connection.connect_timeout, target.connection.connect_timeout);
            config = config.limits(limits);
        }
        // Those of webhooks are never shown.
        config = config.redact_in_tap("secret");
        for member in &target.hide {
            config = config.redact_in_tap(member);
        }
        let responder = answer_args
            .map(|answer_args| InputResponder::new(answer_args, &server.display_name()))
            .transpose()?;
        let mut unanswered = UnansweredInputs::default();
        let roots = responder.as_ref().and_then(InputResponder::roots);
        if let Some(responder) = &responder {
            config = config.capabilities(responder.capabilities()).tasks();
            unanswered = responder.unanswered.clone();
        }
        let (changes, progress) = (ReceivedChanges::default(), SharedProgress::default());
        let log_level = Arc::new(Mutex::new(target.log.clone()));
        let handler = SessionHandler {
            notes: ServerNotes::new(server, target.trace, !target.hide.is_empty(), deviations),
            log_level: Arc::clone(&log_level),
            responder: responder.map(RefCell::new),
            roots: roots.clone(),
            changes: changes.clone(),
            progress: progress.clone(),
        };
        let client = Client::open(target.runtime, spec, config, handler, SHUTDOWN_TIMEOUTS)?;
        Ok(client.map(|client| {
            let (server, deviations) = (Rc::clone(server), deviations.clone());
            Self {
                client,
                failure_context,
                server,
                unanswered,
                roots,
                changes,
                log_level,
                progress,
                interrupts: None,
                stderr: target.stderr,
                deviations,
            }
        }))
    }

    /// Returns the name of the server, without secrets.
    pub(crate) fn server_name(&self) -> String {
        self.server.report_name()
    }

    /// Returns whether the server is reached over HTTP.
    pub(crate) fn is_remote(&self) -> bool {
        self.server.is_remote()
    }

    /// Waits until a legacy server that asks for roots has read them: until it has been silent for [`ROOTS_SILENCE`] since
    /// it got them.
    ///
    /// It asks after the handshake, and may refuse what is outside of the roots that it knows. One that has not asked after
    /// [`ROOTS_TIMEOUT`] asks later or never. Modern servers ask within a call.
    pub(crate) fn settle_roots(&mut self) {
        let Some(roots) = self.roots.as_ref().filter(|_| self.client.peer().era() == Era::Legacy) else {
            return;
        };
        let begun = Instant::now();
        // The answer to a request would prove nothing: many servers answer others while they read the roots.
        let is_settled = || match roots.silence() {
            None => begun.elapsed() >= ROOTS_TIMEOUT,
            Some(silence) => silence >= ROOTS_SILENCE || begun.elapsed() >= 2 * ROOTS_TIMEOUT,
        };
        // The end of the connection is reported by the request itself.
        while !is_settled() && self.client.poll(ROOTS_POLL_INTERVAL).is_ok() {}
    }

    // ---- requests --------------------------------------------------------------------------------------------------

    /// Sends a request and waits for its result. Progress is shown meanwhile.
    ///
    /// # Errors
    ///
    /// Fails if the client does, or if the user interrupts a request of a shell.
    pub(crate) fn request<T: Serialize>(
        &mut self,
        method: &str,
        params: &T,
        options: &CallOptions,
    ) -> Result<RawJson, RequestError> {
        self.answer(
            |client| client.start(method, params, options),
            |client, show| client.request(method, params, options, show),
        )
    }

    /// Calls a tool, as [`request`](Self::request) sends a request.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request).
    pub(crate) fn call_tool(
        &mut self,
        tool: &str,
        arguments: &RawJson,
        options: &CallOptions,
    ) -> Result<RawJson, RequestError> {
        self.answer(
            |client| client.start_tool(tool, arguments, options),
            |client, show| client.call_tool_raw(tool, arguments, options, show),
        )
    }

    /// Sends a request by `start` in a shell, whose interrupts cancel it, and by `ask` otherwise.
    fn answer(
        &mut self,
        start: impl FnOnce(&mut Client) -> Result<StartedCall, Error>,
        ask: impl FnOnce(&mut Client, &mut (dyn FnMut(&Progress) + Send)) -> Result<RawJson, Error>,
    ) -> Result<RawJson, RequestError> {
        let mut display = ProgressDisplay::new(self.stderr);
        if self.interrupts.is_none() {
            let answered = ask(&mut self.client, &mut |progress| display.show(progress));
            display.end();
            return answered.map_err(RequestError::Client);
        }
        self.progress.begin(display);
        let answered = self.interruptible(|session| {
            let mut call = start(&mut session.client)?;
            loop {
                if let Some(result) = session.client.wait_timeout(&mut call, INTERRUPT_INTERVAL)? {
                    return Ok(result);
                }
                if screen::is_interrupted() {
                    session.client.cancel(call, "interrupted by the user")?;
                    return Err(Error::Call(CallError::Cancelled));
                }
            }
        });
        self.progress.end();
        answered
    }

    /// Runs requests. What they give is discarded if the user of a shell interrupts them.
    ///
    /// # Errors
    ///
    /// As `run`, and after an interrupt.
    pub(crate) fn interruptible<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, RequestError> {
        let Some(interrupts) = self.interrupts.clone() else {
            return run(self).map_err(RequestError::Client);
        };
        interrupts.begin();
        let outcome = run(self);
        let is_interrupted = interrupts.is_requested();
        interrupts.end();
        match is_interrupted {
            true => Err(RequestError::Command(CommandFailure::failed("the call was cancelled"))),
            false => outcome.map_err(RequestError::Client),
        }
    }

    /// Creates a failure from an error of the client.
    pub(crate) fn failure(&self, error: &Error) -> CommandFailure {
        self.server.failure(error, &self.failure_context).with_deviations(self.deviations.take())
    }

    /// Closes the connection and ends the server. Prints a note if the server did not end by itself.
    pub(crate) fn close(self) {
        note_end("", &self.client.close());
    }
}

/// The reason why a request has no result.
#[derive(Debug)]
pub(crate) enum RequestError {
    /// The client failed, or the server answered with an error.
    Client(Error),
    /// The request could not be made from the command line, or was interrupted.
    Command(CommandFailure),
}

/// Prints a note if a server did not end by itself.
pub(crate) fn note_end(prefix: &str, outcome: &Result<Option<ShutdownReport>, Error>) {
    let complaint = match outcome {
        Ok(ended) => ended.as_ref().and_then(describe_abnormal_exit),
        Err(error) => Some(error.to_string()),
    };
    if let Some(complaint) = complaint {
        print_note(&format!("{prefix}{complaint}"));
    }
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

/// Describes the state of the task that a call waits for.
fn task_note(task: &Task<'_>) -> String {
    let status = match &task.status {
        TaskStatus::InputRequired => "needs input",
        other => other.as_str(),
    };
    match &task.status_message {
        Some(message) => format!("the tool runs as a task: {status}: {message}"),
        None => format!("the tool runs as a task: {status}"),
    }
}

/// Prints a note about a list that was not read to its end.
pub(crate) fn note_incomplete(list: EntryKind, diagnostic: Option<&Diagnostic>, is_cut: bool) {
    if let Some(diagnostic) = diagnostic {
        print_note(&diagnostic.to_string());
    } else if is_cut {
        print_note(&format!(
            "the list of {} is cut: it has more pages or bytes than are read",
            list.list_member()
        ));
    }
}

/// Prints events of a session on stderr and answers input requests.
struct SessionHandler {
    notes: ServerNotes,
    /// Lowest level of log messages that are shown.
    log_level: Arc<Mutex<Option<LoggingLevel>>>,
    responder: Option<RefCell<InputResponder>>,
    roots: Option<OfferedRoots>,
    changes: ReceivedChanges,
    progress: SharedProgress,
}

impl SessionHandler {
    /// Notes that the server is not silent.
    fn heard(&self) {
        if let Some(roots) = &self.roots {
            roots.heard(false);
        }
    }
}

impl ClientHandler for SessionHandler {
    fn input(&self, input: &Input) -> Option<Result<InputResponse<'static>, RpcError>> {
        Some(match &self.responder {
            Some(responder) => responder.borrow_mut().answer(input),
            None => Err(RpcError::internal("the client has no handler for this request")),
        })
    }

    fn changed(&self, change: &Change) {
        self.heard();
        self.changes.add(ChangeEvent::Changed(change.clone()));
    }

    fn subscription_ended(&self, _: SubscriptionKey, error: Option<&CallError>) {
        self.changes.add(ChangeEvent::Ended(error.cloned()));
    }

    fn progress(&self, _: CallKey, progress: &Progress) {
        self.progress.show(progress);
    }

    fn task_changed(&self, _: CallKey, task: &Task<'_>) {
        print_note(&task_note(task));
    }

    fn elicitation_complete(&self, id: &str) {
        print_note(&format!("the server reports that the elicitation by web page is complete (`{id}`)"));
    }

    fn log(&self, log: &LogMessage) {
        self.heard();
        // Legacy servers may send any level; an unknown one counts as the most severe.
        let minimum = lock(&self.log_level).clone();
        if minimum.is_some_and(|minimum| {
            log.level.severity() >= minimum.severity() || log.level.severity().is_none()
        }) {
            print_stderr(&log_line(log, self.notes.paint));
        }
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        self.heard();
        match diagnostic {
            Diagnostic::DeprecatedFeature { .. } if self.notes.trace => print_note(&diagnostic.to_string()),
            Diagnostic::DeprecatedFeature { .. } => {}
            other => self.notes.diagnostic(other),
        }
    }

    fn tap(&self, record: &TapRecord) {
        self.notes.tap(record);
    }

    fn head(&self, record: &HeadRecord) {
        self.notes.head(record);
    }
}

/// Prints notes about a connection to a server, and its messages.
pub(crate) struct ServerNotes {
    /// What precedes notes about one of several servers: its name.
    pub(crate) prefix: String,
    /// Name of the server behind a proxy, in a trace of several connections.
    pub(crate) label: Option<String>,
    trace: bool,
    /// Name of the source of lines that are no messages.
    noise_source: &'static str,
    head_redaction: HeadRedaction,
    paint: Paint,
    noise_notes: Mutex<LimitedNotes>,
    omission_notes: Mutex<OmissionNotes>,
    deviations: Deviations,
}

impl ServerNotes {
    pub(crate) fn new(server: &Server, trace: bool, hides_members: bool, deviations: &Deviations) -> Self {
        Self {
            prefix: String::new(),
            label: None,
            trace,
            noise_source: server.noise_source(),
            head_redaction: HeadRedaction::new(hides_members, server),
            paint: Paint::for_stderr(),
            noise_notes: Mutex::new(LimitedNotes(MAX_NOISE_LINES)),
            omission_notes: Mutex::default(),
            deviations: deviations.clone(),
        }
    }

    fn show(&self, record: &str) {
        match &self.label {
            Some(label) => print_stderr(&format!("{} {record}", self.paint.dim(label))),
            None => print_stderr(record),
        }
    }
}

impl ClientHandler for ServerNotes {
    fn diagnostic(&self, diagnostic: &Diagnostic) {
        let prefix = &self.prefix;
        match diagnostic {
            // Between a proxy and its server.
            Diagnostic::LateResponse(_)
            | Diagnostic::UnknownCancellation(_)
            | Diagnostic::DeprecatedFeature { .. }
                if self.label.is_some() => {}
            Diagnostic::Noise { line, length } => {
                let more = if line.len() < *length { " …" } else { "" };
                // Escapes may hide the form of a secret.
                let (what, line) = (self.noise_source, masked(line));
                let line = escape::line(&line);
                lock(&self.noise_notes).note(&format!("{prefix}{what} is not a message: {line}{more}"));
            }
            omission if lock(&self.omission_notes).note(omission) => {}
            other if self.trace => {
                print_note(&masked(&format!("{prefix}the server deviated from the protocol: {other}")))
            }
            other => self.deviations.record(other),
        }
    }

    fn tap(&self, record: &TapRecord) {
        self.show(&trace::format_record(record, self.paint));
    }

    fn head(&self, record: &HeadRecord) {
        self.show(&trace::format_head(record, &self.head_redaction, self.paint));
    }
}

/// Formats a log message: `log: warning (disk) "almost full"`.
fn log_line(log: &LogMessage, paint: Paint) -> String {
    let logger = log.logger.as_ref().map(|logger| format!(" ({})", escape::line(logger))).unwrap_or_default();
    // A plain string needs no quotes.
    let data = log.data.string().unwrap_or_else(|| log.data.as_str().to_owned());
    format!(
        "{} {}{logger} {}",
        paint.dim("log:"),
        escape::line(log.level.as_str()),
        escape::line(&masked(&data))
    )
}

/// Interval at which a running call looks for an interrupt.
const INTERRUPT_INTERVAL: Duration = Duration::from_millis(50);
/// Time in which a legacy server asks for roots after the handshake.
const ROOTS_TIMEOUT: Duration = Duration::from_secs(1);
/// Silence after which a server counts as having read the roots.
const ROOTS_SILENCE: Duration = Duration::from_millis(300);
const ROOTS_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum number of notes about noise.
const MAX_NOISE_LINES: u32 = 3;
