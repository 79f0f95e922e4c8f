//! The upstream side, which faces the server.

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use mcp_blocking::Error;
use mcp_proto::client::{Config, Event, Input, LogMessage, Peer};
use mcp_proto::http::HeadRecord;
use mcp_proto::model::{Implementation, InputResponse};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Capabilities, Change, Diagnostic, Fault, RpcError};
use mcp_proto_proxy::client_limits;
use mcp_runtime::client::{ClientHandler, ClientTransport, Connection, Options, ReadyConnection};

use crate::args::{ProxyArgs, StderrChoice};
use crate::authorizer::Authorizer;
use crate::client::{self, SHUTDOWN_TIMEOUTS};
use crate::deviations::Deviations;
use crate::era_cache::{self, EraMemory, Reopen};
use crate::escape;
use crate::failure::{CommandFailure, Exit, FailureContext};
use crate::notes::{self, LimitedNotes, OmissionNotes};
use crate::paint::Paint;
use crate::secrets::masked;
use crate::server::{Server, ServerSpec};
use crate::session;
use crate::trace::{self, HeadRedaction};

/// A connection to a server.
pub(crate) struct Upstream {
    connection: Connection,
    pub(crate) peer: Peer,
    early_events: Arc<Mutex<EarlyEvents>>,
}

/// Events that arrived before the relay existed, and the output of notes and traces.
struct EarlyEvents {
    events: Vec<Event>,
    noise_notes: LimitedNotes,
    omission_notes: OmissionNotes,
    deviations: Deviations,
    trace: bool,
    head_redaction: HeadRedaction,
    /// Name of the source of lines that are no messages.
    noise_source: &'static str,
    /// Name of the server in a trace.
    label: String,
    /// What precedes notes about one of several servers: its name.
    note_prefix: String,
    paint: Paint,
}

/// A server, and how to connect to it.
pub(crate) struct UpstreamOpener {
    /// Name among several servers.
    pub(crate) name: Option<String>,
    pub(crate) args: Arc<ProxyArgs>,
    /// Time limit of a call.
    pub(crate) timeout: Duration,
    pub(crate) server: Server,
    pub(crate) authorizer: Option<Authorizer>,
}

/// Identity and capabilities that the bridge presents to the server.
#[derive(Clone)]
pub(crate) struct ClientIdentity {
    pub(crate) info: Option<Implementation>,
    pub(crate) capabilities: Capabilities,
}

impl UpstreamOpener {
    /// Returns the command that helps if the server refuses access, as clients are told, who may not learn of the URL, and as whoever runs
    /// the proxy is; `None` for a server without authorization.
    pub(crate) fn access_help(&self) -> Option<[String; 2]> {
        let url = self.server.is_remote().then(|| self.server.display_name())?;
        let own = format!("`mcp-probe login {url}` logs in again");
        Some([LOGIN_CAUSE.to_owned(), own])
    }

    /// Connects to the server as a client of this identity.
    ///
    /// # Errors
    ///
    /// Fails if the command line is wrong, or if no connection is established.
    pub(crate) fn open(&self, identity: &ClientIdentity) -> Result<Upstream, CommandFailure> {
        let Self { args, timeout, server, .. } = self;
        let versions = args.revisions.version_set().map_err(CommandFailure::usage)?;
        let memory = EraMemory::new(server.place_hash(), server.is_remote(), versions)
            .filter(|_| !args.connection.no_cache);
        let deviations = Deviations::default();
        let opened = era_cache::open(
            memory.as_ref(),
            args.connection.connect_timeout,
            &mut |known_era, connect_timeout| {
                let spoken = (versions, args.revisions.drafts.followed());
                let config = client::client_config(spoken, *timeout, connect_timeout, args.trace);
                let config = args.connection.keep_alive(config.known_era(known_era));
                Upstream::connect(self, config, identity.clone(), (&deviations, memory.as_ref()))
            },
        )?;
        opened.map_err(|error| {
            server.failure(&error, &self.failure_context()).with_deviations(deviations.take())
        })
    }

    fn failure_context(&self) -> FailureContext {
        FailureContext {
            timeout: self.timeout,
            connect_timeout: self.args.connection.connect_timeout,
            total_timeout: None,
            is_stderr_shown: matches!(self.args.stderr, StderrChoice::Show | StderrChoice::Inherit),
        }
    }
}

impl Upstream {
    /// Makes one attempt to connect.
    ///
    /// # Errors
    ///
    /// The outer error reports a mistake on the command line, the inner one a failed connection.
    fn connect(
        UpstreamOpener { name, args, server, authorizer, .. }: &UpstreamOpener,
        mut config: Config,
        ClientIdentity { info, capabilities }: ClientIdentity,
        (deviations, memory): (&Deviations, Option<&EraMemory>),
    ) -> Result<Result<Self, Error>, CommandFailure> {
        let remote = server.is_remote();
        let mut limits = client_limits(config.effective_limits().clone());
        if remote {
            // Over HTTP a slow probe must not cause a fallback to the legacy handshake.
            (limits.probe_timeout, limits.init_timeout) =
                (args.connection.connect_timeout, args.connection.connect_timeout);
        }
        config = config.limits(limits).capabilities(capabilities).any_custom_method().tasks();
        if let Some(info) = info {
            config = config.info(info);
        }
        for member in &args.hide {
            config = config.redact_in_tap(member);
        }
        let early = Arc::new(Mutex::new(EarlyEvents {
            events: Vec::new(),
            noise_notes: LimitedNotes(3),
            omission_notes: OmissionNotes::default(),
            deviations: deviations.clone(),
            trace: args.trace,
            head_redaction: HeadRedaction::new(!args.hide.is_empty(), server),
            noise_source: server.noise_source(),
            label: name.clone().unwrap_or_else(|| "server".to_owned()),
            note_prefix: name.as_ref().map(|name| format!("`{name}`: ")).unwrap_or_default(),
            paint: Paint::for_stderr(),
        }));
        let options = Options::<ReadyConnection>::new(config);
        let options = options
            .handler(EarlyEventHandler(Arc::clone(&early)))
            .shutdown_timeouts(SHUTDOWN_TIMEOUTS)
            .no_cache()
            .no_validator();
        let spec = ServerSpec {
            server,
            stderr: args.stderr,
            tap_heads: args.trace,
            authorizer: authorizer.as_ref(),
            memory,
        };
        let opened = spec.connect(options)?;
        Ok(opened.map(|ReadyConnection { connection, peer }| Self { connection, peer, early_events: early }))
    }

    pub(crate) fn wire(&mut self) -> &mut dyn ClientTransport {
        &mut *self.connection.transport
    }

    /// Takes the events that arrived while connecting.
    pub(crate) fn take_early_events(&self) -> Vec<Event> {
        core::mem::take(&mut self.lock_early_events().events)
    }

    fn lock_early_events(&self) -> MutexGuard<'_, EarlyEvents> {
        lock_events(&self.early_events)
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        let event = self.connection.transport.poll_event()?;
        if let Event::Diagnostic(diagnostic) = &event {
            self.lock_early_events().diagnostic(diagnostic);
        }
        Some(event)
    }

    /// Reads available input without waiting and handles deadlines.
    pub(crate) fn poll_io(&mut self) {
        let now = self.connection.transport.tick();
        self.connection.transport.wait(Some(now));
    }

    pub(crate) fn show_tap(&mut self) {
        while let Some(record) = self.connection.transport.poll_head() {
            self.lock_early_events().head(&record);
        }
        while let Some(record) = self.connection.transport.engine().poll_tap() {
            self.lock_early_events().tap(&record);
        }
    }

    /// Closes the connection and ends the server. Takes as long as the server takes to end, a few seconds at most.
    pub(crate) fn close(&mut self) {
        let complaint = match self.connection.finish() {
            Ok(ended) => ended.as_ref().and_then(session::describe_abnormal_exit),
            Err(error) => Some(error.to_string()),
        };
        if let Some(complaint) = complaint {
            notes::print_note(&format!("{}{complaint}", self.lock_early_events().note_prefix));
        }
    }

    /// Creates the failure for a server that is gone.
    pub(crate) fn failure(&mut self, fault: &Fault) -> CommandFailure {
        let known = self.connection.transport.exit_info(EXIT_STATUS_TIMEOUT);
        let name = match (known.program, known.url) {
            (Some(program), _) => format!("{program:?}"),
            (None, Some(url)) => url,
            (None, None) => "the server".to_owned(),
        };
        let how = known.exit_status.map(|status| format!(" ({status})")).unwrap_or_default();
        let what = match fault {
            Fault::Eof | Fault::Truncated { .. } => format!("{name} ended in the middle of the session{how}"),
            fault => format!("the connection to {name} is lost{how}: {fault}"),
        };
        let deviations = self.lock_early_events().deviations.take();
        CommandFailure::new(Exit::Connection, what)
            .with_stderr_tail(&known.stderr_tail)
            .with_deviations(deviations)
    }
}

impl Reopen for Upstream {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn close(mut self) {
        Self::close(&mut self);
    }
}

fn lock_events(early: &Mutex<EarlyEvents>) -> MutexGuard<'_, EarlyEvents> {
    early.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EarlyEvents {
    fn diagnostic(&mut self, diagnostic: &Diagnostic) {
        match diagnostic {
            Diagnostic::Noise { line, length } => {
                let more = if line.len() < *length { " …" } else { "" };
                let what = self.noise_source;
                let (prefix, line) = (&self.note_prefix, escape::line(line));
                self.noise_notes.note(&format!("{prefix}{what} is not a message: {line}{more}"));
            }
            Diagnostic::LateResponse(_)
            | Diagnostic::UnknownCancellation(_)
            | Diagnostic::DeprecatedFeature { .. } => {}
            omission if self.omission_notes.note(omission) => {}
            other if self.trace => {
                let note = format!("{}the server deviated from the protocol: {other}", self.note_prefix);
                notes::print_note(&masked(&note))
            }
            other => self.deviations.record(other),
        }
    }

    fn tap(&self, record: &TapRecord) {
        notes::print_stderr(&format!(
            "{} {}",
            self.paint.dim(&self.label),
            trace::format_record(record, self.paint)
        ));
    }

    fn head(&self, record: &HeadRecord) {
        notes::print_stderr(&format!(
            "{} {}",
            self.paint.dim(&self.label),
            trace::format_head(record, &self.head_redaction, self.paint)
        ));
    }
}

/// Records events until the relay exists.
struct EarlyEventHandler(Arc<Mutex<EarlyEvents>>);

impl EarlyEventHandler {
    fn record(&self, event: Event) {
        let mut early = lock_events(&self.0);
        if early.events.len() < MAX_EARLY_EVENTS {
            early.events.push(event);
        }
    }
}

impl ClientHandler for EarlyEventHandler {
    fn input(&self, input: &Input) -> Option<Result<InputResponse<'static>, RpcError>> {
        self.record(Event::Input(input.clone()));
        None
    }

    fn changed(&self, change: &Change) {
        self.record(Event::Changed { key: None, change: change.clone() });
    }

    #[expect(deprecated, reason = "supported until its removal")]
    fn log(&self, log: &LogMessage) {
        self.record(Event::Log(log.clone()));
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        lock_events(&self.0).diagnostic(diagnostic);
    }

    fn tap(&self, record: &TapRecord) {
        lock_events(&self.0).tap(record);
    }

    fn head(&self, record: &HeadRecord) {
        lock_events(&self.0).head(record);
    }
}

/// What helps clients of a server that refuses access.
pub(crate) const LOGIN_CAUSE: &str = "the login is missing or has ended; `mcp-probe login` with the URL of the server, where \
     it is connected from, logs in again";
/// Maximum number of recorded events.
const MAX_EARLY_EVENTS: usize = 256;
/// Time to wait for the exit status of a server that has closed its output.
const EXIT_STATUS_TIMEOUT: Duration = Duration::from_secs(1);
