//! The upstream side, which faces a server: what connects to it, and a connection.

use alloc::borrow::Cow;
use alloc::sync::Arc;
use core::error::Error as StdError;
use core::fmt;
use std::sync::Mutex;

use mcp_proto::client::{self, Config, Event, Input, LogMessage, Peer};
use mcp_proto::http::HeadRecord;
use mcp_proto::model::InputResponse;
use mcp_proto::tap::TapRecord;
use mcp_proto::{Change, Diagnostic, RpcError};
use mcp_runtime::Error;
use mcp_runtime::client::{self as runtime, ClientHandler, ClientTransport, Options, ReadyConnection};
use mcp_std::io::StreamAddress;
use mcp_std::process::{Program, ShutdownReport};
use mcp_std::sync::lock;

use super::client::ClientIdentity;
use crate::client_limits;

/// Connects to a server, again each time after it has ended.
///
/// [`Upstream`] is one for usual servers. Methods are called on a thread of their own, one at a time for each place of a server.
pub trait Connect: Send + Sync {
    /// Connects to the server as this client. [`Connection::prepare`] makes the options of the connection.
    ///
    /// # Errors
    ///
    /// Fails if no connection is established. It is tried again when a client needs it, after a delay of up to a minute.
    fn connect(&self, client: &ClientIdentity) -> Result<Connection, ConnectError>;

    /// Returns what helps if the server refuses access, a command for example: as clients are told, who may not learn of the URL, and as
    /// whoever runs the proxy is.
    fn access_help(&self) -> Option<[String; 2]> {
        None
    }
}

impl fmt::Debug for dyn Connect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connect")
    }
}

/// Why a server cannot be connected to.
#[derive(Debug)]
pub struct ConnectError {
    reason: Cow<'static, str>,
    source: Box<dyn StdError + Send + Sync>,
}

impl ConnectError {
    /// Creates an error. `reason` is told to clients: it names no program, no URL, and nothing that the server wrote.
    pub fn new(
        reason: impl Into<Cow<'static, str>>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Self {
        Self { reason: reason.into(), source: source.into() }
    }

    /// Returns what clients are told.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Returns the error itself.
    #[must_use]
    pub fn into_source(self) -> Box<dyn StdError + Send + Sync> {
        self.source
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl StdError for ConnectError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.source()
    }
}

impl From<Error> for ConnectError {
    fn from(error: Error) -> Self {
        let reason = match &error {
            Error::Spawn(_) => PROGRAM_FAILED,
            Error::Closed(closed) if closed.program.is_some() => PROGRAM_FAILED,
            Error::Closed(_) | Error::Io(_) => UNREACHABLE,
            _ => "it cannot be connected to",
        };
        Self::new(reason, error)
    }
}

/// A server that is connected to with the same options each time.
pub struct Upstream {
    target: Target,
    config: Config,
    adjust: Box<dyn Fn(Options<ReadyConnection>) -> Options<ReadyConnection> + Send + Sync>,
}

enum Target {
    Program(Program),
    Http(Box<mcp_proto::http::client::Config>),
    Stream(StreamAddress),
}

impl Upstream {
    fn new(target: Target) -> Self {
        let config = Config::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        Self { target, config, adjust: Box::new(|options| options) }
    }

    /// A server on stdio, which this program starts.
    #[must_use]
    pub fn program(program: Program) -> Self {
        Self::new(Target::Program(program))
    }

    /// A server over HTTP: its URL, header fields, credential.
    #[must_use]
    pub fn http(server: mcp_proto::http::client::Config) -> Self {
        Self::new(Target::Http(Box::new(server)))
    }

    /// A server at the address of a byte stream.
    #[must_use]
    pub fn stream(address: StreamAddress) -> Self {
        Self::new(Target::Stream(address))
    }

    /// Sets the configuration of the client: revisions, limits, and its name where no client has one. Capabilities are those of the
    /// clients.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Adjusts the options of each connection, for example by [`Options::shutdown_timeouts`] or an authorizer.
    #[must_use]
    pub fn options(
        mut self,
        adjust: impl Fn(Options<ReadyConnection>) -> Options<ReadyConnection> + Send + Sync + 'static,
    ) -> Self {
        self.adjust = Box::new(adjust);
        self
    }
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upstream")
    }
}

impl Connect for Upstream {
    fn connect(&self, client: &ClientIdentity) -> Result<Connection, ConnectError> {
        let mut config = self.config.clone();
        if let Target::Http(_) = self.target {
            // A slow probe must not cause a fallback to the legacy handshake.
            let mut limits = config.effective_limits().clone();
            limits.probe_timeout = limits.init_timeout;
            config = config.limits(limits);
        }
        let (options, connected) = Connection::prepare(config, client, ());
        let options = (self.adjust)(options);
        let opened = match &self.target {
            Target::Program(program) => options.spawn(program),
            Target::Http(server) => options.connect_http((**server).clone()),
            Target::Stream(address) => options.connect_to(address.clone()),
        };
        Ok(connected(opened?))
    }
}

/// A connection to a server.
pub struct Connection {
    connection: runtime::Connection,
    peer: Peer,
    handler: Box<dyn ClientHandler + Send>,
    early_events: Arc<Mutex<Vec<Event>>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Connection {
    /// Returns options with which a connection is opened, and the function that makes it ready for a proxy.
    ///
    /// The handler gets the diagnostics, messages and heads of the connection, as long as it lasts. What the server asks and says else goes
    /// to the clients.
    pub fn prepare<H: ClientHandler + Send + 'static>(
        mut config: Config,
        client: &ClientIdentity,
        handler: H,
    ) -> (Options<ReadyConnection>, impl FnOnce(ReadyConnection) -> Self + use<H>) {
        let ClientIdentity { info, capabilities } = client.clone();
        let limits = client_limits(config.effective_limits().clone());
        config = config.limits(limits).capabilities(capabilities).any_custom_method().tasks();
        if let Some(info) = info {
            config = config.info(info);
        }
        let early_events = Arc::default();
        let handler = EarlyHandler { inner: Box::new(handler), events: Arc::clone(&early_events) };
        let options = Options::<ReadyConnection>::new(config).handler(handler).no_cache().no_validator();
        let connected = move |ReadyConnection { mut connection, peer }: ReadyConnection| {
            let handler = connection.take_handler();
            Self { connection, peer, handler, early_events }
        };
        (options, connected)
    }

    /// Returns the server.
    #[must_use]
    pub const fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(super) fn wire(&mut self) -> &mut dyn ClientTransport {
        &mut *self.connection.transport
    }

    /// Takes the events that arrived while connecting.
    pub(super) fn take_early_events(&self) -> Vec<Event> {
        core::mem::take(&mut lock(&self.early_events))
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        let event = self.connection.transport.poll_event()?;
        if let Event::Diagnostic(diagnostic) = &event {
            self.handler.diagnostic(diagnostic);
        }
        Some(event)
    }

    /// Reads available input without waiting and handles deadlines.
    pub(super) fn poll_io(&mut self) {
        let now = self.wire().tick();
        self.wire().wait(Some(now));
    }

    pub(super) fn show_tap(&mut self) {
        while let Some(record) = self.connection.transport.poll_head() {
            self.handler.head(&record);
        }
        while let Some(record) = self.connection.transport.engine().poll_tap() {
            self.handler.tap(&record);
        }
    }

    /// Closes the connection and ends the server. Takes as long as the server takes to end, which
    /// [`shutdown_timeouts`](Options::shutdown_timeouts) bounds.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the stream fails.
    pub fn close(mut self) -> Result<Option<ShutdownReport>, Error> {
        self.connection.finish()
    }
}

/// Keeps events until the proxy takes them, and passes on what is about the connection.
struct EarlyHandler {
    inner: Box<dyn ClientHandler + Send>,
    events: Arc<Mutex<Vec<Event>>>,
}

impl EarlyHandler {
    fn keep(&self, event: Event) {
        let mut events = lock(&self.events);
        if events.len() < MAX_EARLY_EVENTS {
            events.push(event);
        }
    }
}

impl ClientHandler for EarlyHandler {
    fn input(&self, input: &Input) -> Option<Result<InputResponse<'static>, RpcError>> {
        self.keep(Event::Input(input.clone()));
        None
    }

    fn changed(&self, change: &Change) {
        self.keep(Event::Changed { key: None, change: change.clone() });
    }

    #[expect(deprecated, reason = "supported until its removal")]
    fn log(&self, log: &LogMessage) {
        self.keep(Event::Log(log.clone()));
    }

    fn diagnostic(&self, diagnostic: &Diagnostic) {
        self.inner.diagnostic(diagnostic);
    }

    fn tap(&self, record: &TapRecord) {
        self.inner.tap(record);
    }

    fn head(&self, record: &HeadRecord) {
        self.inner.head(record);
    }
}

/// Returns an engine for a place without a server. It is never connected, and refuses all commands.
pub(super) fn vacant_engine() -> client::Engine {
    client::Engine::new(Arc::new(Config::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))))
}

/// Why a program cannot be connected to, as clients are told.
pub const PROGRAM_FAILED: &str = "its program does not start, or is no MCP server";
/// Why a server elsewhere cannot be connected to, as clients are told.
pub const UNREACHABLE: &str = "it cannot be reached";
/// Maximum number of events that are kept while connecting.
const MAX_EARLY_EVENTS: usize = 256;
