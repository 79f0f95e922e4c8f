//! The sides of a proxy as the command line has them, for the commands `bridge`, `gateway` and `connect`: how a server is connected to,
//! where clients come from, and what is printed on stderr.

use alloc::sync::Arc;
use core::time::Duration;
use std::sync::Mutex;

use mcp_proto::Diagnostic;
use mcp_proto::client::Peer;
use mcp_proto::http::server::Config as HttpConfig;
#[cfg(unix)]
use mcp_proto_proxy::host::Socket;
use mcp_proto_proxy::host::{
    ClientIdentity, Connect, ConnectError, Connection, Error, Http, Notice, Operator, Options,
    PROGRAM_FAILED, UNREACHABLE,
};
#[cfg(unix)]
use mcp_std::io::{StreamAddress, StreamListener};
use mcp_std::process::terminate_all;
use mcp_std::sync::lock;

use crate::args::{ProxyArgs, ServeHttpArgs, StderrChoice};
use crate::authorizer::Authorizer;
use crate::client::{SHUTDOWN_TIMEOUTS, client_config};
use crate::deviations::Deviations;
use crate::endpoint::http;
use crate::endpoint::refusals::ClientNotes;
#[cfg(unix)]
use crate::endpoint::streams;
use crate::era_cache::{self, EraMemory};
use crate::failure::{CommandFailure, Exit, FailureContext};
use crate::notes::{self, LimitedNotes, OmissionNotes, print_note};
use crate::paint::Paint;
use crate::server::{Server, ServerSpec};
use crate::session::{ServerNotes, note_end};
use crate::stop::{self, StopSignal};
use crate::trace;
use mcp_proto_trace::masked;

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

impl UpstreamOpener {
    /// Connects to the server as a client of this identity.
    ///
    /// # Errors
    ///
    /// Fails if the command line is wrong, or if no connection is established.
    pub(crate) fn open(&self, identity: &ClientIdentity) -> Result<Connection, CommandFailure> {
        let Self { args, timeout, server, .. } = self;
        let versions = args.revisions.version_set().map_err(CommandFailure::usage)?;
        let memory = EraMemory::new(server.place_hash(), server.is_remote(), versions)
            .filter(|_| !args.connection.no_cache);
        let deviations = Deviations::default();
        let connect_timeout = args.connection.connect_timeout;
        let spec = ServerSpec {
            server,
            stderr: args.stderr,
            tap_heads: args.trace,
            authorizer: self.authorizer.as_ref(),
            memory: memory.as_ref(),
        };
        let close = |connection: Connection| note_end(&self.note_prefix(), &connection.close());
        let ends = (Connection::peer as fn(&Connection) -> &Peer, close);
        let opened =
            era_cache::open(memory.as_ref(), connect_timeout, ends, &mut |known_era, attempt_timeout| {
                let spoken = (versions, args.revisions.drafts.followed());
                let config = client_config(spoken, *timeout, attempt_timeout, args.trace);
                let mut config = args.connection.keep_alive(config.known_era(known_era));
                if server.is_remote() {
                    // Over HTTP a slow probe must not cause a fallback to the legacy handshake.
                    let mut limits = config.effective_limits().clone();
                    (limits.probe_timeout, limits.init_timeout) = (connect_timeout, connect_timeout);
                    config = config.limits(limits);
                }
                for member in &args.hide {
                    config = config.redact_in_tap(member);
                }
                let mut notes = ServerNotes::new(server, args.trace, !args.hide.is_empty(), &deviations);
                (notes.label, notes.prefix) =
                    (Some(self.name.clone().unwrap_or_else(|| "server".to_owned())), self.note_prefix());
                let (options, connected) = Connection::prepare(config, identity, notes);
                let opened = spec.connect(options.shutdown_timeouts(SHUTDOWN_TIMEOUTS))?;
                Ok(opened.map(connected))
            })?;
        opened.map_err(|error| {
            server.failure(&error, &self.failure_context()).with_deviations(deviations.take())
        })
    }

    /// Returns what precedes notes about one of several servers: its name.
    fn note_prefix(&self) -> String {
        note_prefix(self.name.as_deref())
    }

    fn failure_context(&self) -> FailureContext {
        FailureContext {
            timeout: self.timeout,
            connect_timeout: self.args.connection.connect_timeout,
            total_timeout: None,
            is_stderr_shown: matches!(self.args.stderr, StderrChoice::Show | StderrChoice::Inherit),
        }
    }

    /// Returns why the server cannot be started, as clients are told. The failure itself may name programs, URLs with secrets in their
    /// paths, and what the server wrote: behind a gateway it is for its log.
    fn reason_for_clients(&self, failure: &CommandFailure) -> String {
        if self.name.is_none() {
            return failure.message();
        }
        let reason = match (failure.exit, self.server.is_remote()) {
            (Exit::Unauthorized, _) => LOGIN_CAUSE,
            (Exit::Connection | Exit::Timeout, true) => UNREACHABLE,
            (Exit::Connection | Exit::Timeout, false) => PROGRAM_FAILED,
            (Exit::Failed | Exit::Usage | Exit::Unanswered, _) => "it cannot be connected to",
        };
        reason.to_owned()
    }
}

impl Connect for UpstreamOpener {
    fn connect(&self, client: &ClientIdentity) -> Result<Connection, ConnectError> {
        self.open(client).map_err(|failure| ConnectError::new(self.reason_for_clients(&failure), failure))
    }

    fn access_help(&self) -> Option<[String; 2]> {
        let url = self.server.is_remote().then(|| self.server.display_name())?;
        let own = format!("`mcp-probe login {url}` logs in again");
        Some([LOGIN_CAUSE.to_owned(), own])
    }
}

fn note_prefix(server: Option<&str>) -> String {
    server.map(|name| format!("`{name}`: ")).unwrap_or_default()
}

/// Prints the notices of a proxy, and lets signals end its loop instead of the process.
pub(crate) struct ProxyNotes {
    signal: StopSignal,
    client_notes: ClientNotes,
    place_notes: Mutex<LimitedNotes>,
    /// Notes about entries of lists that have no form for the client.
    omission_notes: Mutex<OmissionNotes>,
    paint: Paint,
}

impl ProxyNotes {
    pub(crate) fn new(signal: &StopSignal) -> Self {
        Self {
            signal: signal.clone(),
            client_notes: ClientNotes::new(),
            place_notes: Mutex::new(LimitedNotes(20)),
            omission_notes: Mutex::default(),
            paint: Paint::for_stderr(),
        }
    }
}

impl Operator for ProxyNotes {
    fn notice(&self, notice: &Notice<'_>) {
        match *notice {
            Notice::Begun => self.signal.set_looping(true),
            Notice::Ended => {
                self.signal.set_looping(false);
                if self.signal.ends_servers() {
                    // The sender of the signal does not wait for a slow server.
                    terminate_all(stop::SERVER_END_TIMEOUT);
                }
            }
            // It is a matter between the client and its server.
            Notice::Client(Diagnostic::DeprecatedFeature { .. }) => {}
            Notice::Client(diagnostic) => self.client_notes.note(diagnostic),
            Notice::Message(record) => {
                let (client, record) = (self.paint.dim("client"), trace::format_record(record, self.paint));
                notes::print_stderr(&format!("{client} {record}"));
            }
            Notice::NoPlace(places) => lock(&self.place_notes).note(&format!(
                "a client is refused, because all places are taken (--max-connections {places})"
            )),
            Notice::Omitted(diagnostic) => _ = lock(&self.omission_notes).note(diagnostic),
            Notice::Note(text) => lock(&self.omission_notes).note_text(text),
            Notice::Closed { server, outcome } => note_end(&note_prefix(server), outcome),
            // It may have what the server was started with.
            Notice::Lost { .. } => print_note(&masked(&notice.to_string())),
            ref other => print_note(&other.to_string()),
        }
    }
}

/// Returns the options of a proxy.
pub(crate) fn options(args: &ProxyArgs, operator: impl Operator + 'static) -> Options {
    let mut options = Options::new(operator);
    options.versions = args.client_era.version_set();
    if args.trace {
        (options.limits.tap_records, options.limits.tap_bytes) = (100_000, 64 << 20);
    }
    options.hidden.clone_from(&args.hide);
    options.search = args.search;
    options.idle_timeout = Some(args.idle_timeout).filter(|timeout| !timeout.is_zero());
    options
}

/// Binds an address for clients over HTTP, and reads the certificate.
///
/// # Errors
///
/// Fails if one of them is wrong, or if the address is not free.
pub(crate) fn bind(args: &ServeHttpArgs, address: &str, config: HttpConfig) -> Result<Http, CommandFailure> {
    #[cfg(feature = "tls")]
    let tls = http::tls(args)?;
    http::raise_descriptor_limit(args);
    let bound = Http::bind(address, config);
    let mut bound = bound.map_err(|error| http::bind_failure(address, &error.into()))?;
    if let Some(connections) = args.max_connections {
        bound = bound.max_connections(connections);
    }
    #[cfg(feature = "tls")]
    if let Some(tls) = tls {
        bound = bound.tls(tls);
    }
    Ok(bound)
}

/// Binds the address of a socket. Also returns how it is reported.
///
/// # Errors
///
/// Fails if the address is not free.
#[cfg(unix)]
pub(crate) fn listen<'a>(
    args: &ServeHttpArgs,
    address: &'a StreamAddress,
) -> Result<(Socket, impl FnOnce() -> Result<(), CommandFailure> + use<'a>), CommandFailure> {
    let listener = StreamListener::bind(address)
        .map_err(|error| CommandFailure::new(Exit::Connection, error.to_string()))?;
    let (at, is_reachable_from_outside) = (listener.address(), listener.is_reachable_from_outside());
    let socket = Socket::new(listener);
    let socket = match args.max_connections {
        Some(connections) => socket.max_clients(connections),
        None => socket,
    };
    Ok((socket, move || streams::report_address(at, is_reachable_from_outside, address)))
}

/// Creates a failure from the end of a proxy.
pub(crate) fn failure(command: &str, error: Error) -> CommandFailure {
    match error {
        Error::Connect(error) => connect_failure(error),
        Error::Stopped(error) => CommandFailure::failed(format!("the {command} stopped: {error}")),
        other => CommandFailure::failed(other.to_string()),
    }
}

/// Returns the failure of [`UpstreamOpener::open`].
pub(crate) fn connect_failure(error: ConnectError) -> CommandFailure {
    match error.into_source().downcast::<CommandFailure>() {
        Ok(failure) => *failure,
        Err(other) => CommandFailure::failed(other.to_string()),
    }
}

/// What helps clients of a server that refuses access.
const LOGIN_CAUSE: &str = "the login is missing or has ended; `mcp-probe login` with the URL of the server, where \
     it is connected from, logs in again";
