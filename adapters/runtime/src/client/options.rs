//! Options of a client, and how it connects to its server.

use alloc::boxed::Box;
#[cfg(feature = "http")]
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::borrow::Borrow;
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;
use std::thread;

#[cfg(feature = "auth")]
use mcp_auth::client::Authorizer;
use mcp_proto::RawJson;
#[cfg(doc)]
use mcp_proto::client::CacheScope;
use mcp_proto::client::{Config, OutputSchemas, Peer, SchemaValidator};
#[cfg(feature = "tasks")]
use mcp_proto::client::{InputTaskLimits, InputTasks};
use mcp_std::io::{Duplex, StreamAddress};
use mcp_std::process::{Program, ShutdownTimeouts};
#[cfg(feature = "tls")]
use mcp_std::tls::ClientTls;

use super::connection::Connection;
#[cfg(feature = "http")]
use super::exchange_transport::StartExchange;
use super::handler::ClientHandler;
#[cfg(feature = "http")]
use super::http_transport::HttpTransport;
use super::layers::{BlockingClientNext, ClientRequest, Layers, Retry};
use super::result_cache::CacheOptions;
use super::transport::{ClientTransport, ServerIo, StreamTransport};
use crate::SharedCache;
use crate::error::Error;

/// Options of a client that is about to connect.
///
/// ```no_run
/// use mcp_proto::{Diagnostic, client::Config};
/// use mcp_std::process::{Program, Stderr};
/// use mcp_runtime::client::{ClientHandler, Options, ReadyConnection};
///
/// struct Log;
///
/// impl ClientHandler for Log {
///     fn diagnostic(&self, diagnostic: &Diagnostic) {
///         eprintln!("diagnostic: {diagnostic:?}");
///     }
/// }
///
/// // An application uses the `Client` of its adapter instead of `ReadyConnection`.
/// let program = Program::new("my-server").stderr(Stderr::Capture);
/// let client = Options::<ReadyConnection>::new(Config::new("my-app", "1.0")).handler(Log).spawn(program)?;
/// # Ok::<(), mcp_runtime::Error>(())
/// ```
///
/// # Layers
///
/// A layer is a function around the requests of the application. It may look at a request, refuse it, rewrite its parameters,
/// its result or its error, make it again, or answer without a call. It gets the [`ClientRequest`] and what is inside:
/// the further layers and the call. On a client that blocks it is a function, on an asynchronous client it returns a
/// future. A condition restricts it to a method or to a tool:
///
#[cfg_attr(feature = "http", doc = "```no_run")]
#[cfg_attr(not(feature = "http"), doc = "```ignore")]
/// use std::time::Instant;
/// use mcp_proto::{CallError, RpcError};
/// use mcp_runtime::Error;
/// use mcp_runtime::client::{Options, ReadyConnection};
///
/// let client = Options::<ReadyConnection>::default()
///     .layer(|request, next| {
///         let (method, start) = (request.method().to_owned(), Instant::now());
///         let result = next.run(request);
///         eprintln!("{method}: {:?}, {}", start.elapsed(), if result.is_ok() { "done" } else { "failed" });
///         result
///     })
///     .layer(|request, next| {
///         if request.is_tool("delete") {
///             let refusal = RpcError::invalid_request("nothing is deleted here");
///             return Err(Error::Call(CallError::Rpc(refusal)));
///         }
///         next.run(request)
///     })
///     .connect_url("http://127.0.0.1:8080/mcp")?;
/// # Ok::<(), mcp_runtime::Error>(())
/// ```
///
/// The layer that was added first is the outermost, as on a router. [`Retry`] is a layer, too.
///
/// - Layers surround everything that waits for a result: `call_tool`, `get_prompt`, `read_resource`, `complete`, `send`,
///   `request`, each page of a list, tasks. A call may make several requests: a list of tools goes before
///   the first call of a client with tasks.
/// - They do not surround `start` and `start_tool`, which return before there is a result, nor `ping`, subscriptions,
///   notifications, answers to the server, and what connecting sends.
/// - The cache is inside of all layers: they see each request, also one that the cache answers, and it has the results of the
///   server. Reading and checking a result, output schemas included, is outside: what layers return counts.
/// - A panic of a layer is a panic of the call, and other calls go on. A layer that never returns keeps its caller waiting:
///   timeouts are those of the requests inside.
/// - Without layers, a call costs as much as if there were none.
pub struct Options<C> {
    setup: ClientSetup,
    client: PhantomData<fn() -> C>,
}

/// The values that [`Options`] collect.
pub struct ClientSetup {
    /// The configuration of the engine.
    pub config: Config,
    /// The handler of callbacks.
    pub handler: Box<dyn ClientHandler + Send>,
    /// Duration of each step of ending the server.
    pub shutdown_timeouts: ShutdownTimeouts,
    cache: Option<CacheOptions>,
    schemas: Option<OutputSchemas>,
    /// Limits of tasks that the client hosts, if it does.
    #[cfg(feature = "tasks")]
    input_tasks: Option<InputTaskLimits>,
    /// Whether heads of HTTP requests and responses are recorded.
    #[cfg(feature = "http")]
    pub taps_heads: bool,
    #[cfg(feature = "tls")]
    tls: ClientTls,
    #[cfg(feature = "auth")]
    authorizer: Option<Authorizer>,
    /// Layers around the requests of the application.
    pub layers: Layers,
}

/// A server to start or to connect to.
#[non_exhaustive]
pub enum ConnectionTarget<'a> {
    /// A program to start.
    Program(Box<dyn Borrow<Program> + Send + 'a>),
    /// A byte stream to open.
    Stream(StreamAddress),
    /// A server over HTTP.
    #[cfg(feature = "http")]
    Http(mcp_proto::http::client::Config),
}

/// A client of an adapter, which [`Options`] create.
pub trait Connector: Sized {
    /// The result of connecting: a client, or a future of one.
    type Connecting<'a>;

    /// Returns the configuration of a client that sets none: the name of the adapter, and no capabilities.
    fn default_config() -> Config;

    /// Starts to connect.
    fn open(setup: ClientSetup, target: ConnectionTarget<'_>) -> Self::Connecting<'_>;

    /// Returns a connection attempt that has failed with `error`.
    fn refuse(error: Error) -> Self::Connecting<'static>;
}

/// A client of an adapter that can use byte streams of type `S`.
pub trait StreamConnector<S>: Connector {
    /// Starts to connect over a byte stream.
    fn open_stream(setup: ClientSetup, stream: S) -> Self::Connecting<'static>;
}

/// A client of an adapter that can use an HTTP implementation of the application.
#[cfg(feature = "http")]
pub trait ExchangeConnector: Connector {
    /// Starts to connect to an HTTP server. `start` starts each exchange.
    fn open_exchanges(
        setup: ClientSetup,
        http: mcp_proto::http::client::Config,
        start: StartExchange,
    ) -> Self::Connecting<'static>;
}

/// A connection that is ready, and its server. Adapters build their client from it.
#[derive(Debug)]
pub struct ReadyConnection {
    /// The connection.
    pub connection: Connection,
    /// The server.
    pub peer: Peer,
}

/// Options of a client with the name of its adapter, every revision and no capabilities.
impl<C: Connector> Default for Options<C> {
    fn default() -> Self {
        Self::new(C::default_config())
    }
}

impl<C> Options<C> {
    /// Returns the values, to add to them.
    pub(crate) const fn setup_mut(&mut self) -> &mut ClientSetup {
        &mut self.setup
    }
}

impl<C: Connector> Options<C> {
    /// Creates options without callbacks, with default shutdown timeouts and a cache of their own.
    ///
    /// With the feature `validate`, structured results are checked with `mcp_std::schema::JsonSchemaValidator`, as
    /// described at [`validator`](Self::validator).
    #[must_use]
    pub fn new(config: Config) -> Self {
        let setup = ClientSetup {
            config,
            handler: Box::new(()),
            shutdown_timeouts: ShutdownTimeouts::default(),
            cache: Some(CacheOptions::default()),
            #[cfg(feature = "validate")]
            schemas: Some(OutputSchemas::new(mcp_std::schema::JsonSchemaValidator::new())),
            #[cfg(not(feature = "validate"))]
            schemas: None,
            #[cfg(feature = "tasks")]
            input_tasks: None,
            #[cfg(feature = "http")]
            taps_heads: false,
            #[cfg(feature = "tls")]
            tls: ClientTls::new(),
            #[cfg(feature = "auth")]
            authorizer: None,
            layers: Layers::None,
        };
        Self { setup, client: PhantomData }
    }

    /// Enables [`ClientHandler::head`] callbacks for heads of HTTP requests and responses.
    #[cfg(feature = "http")]
    #[must_use]
    pub const fn tap_heads(mut self) -> Self {
        self.setup.taps_heads = true;
        self
    }

    /// Sets the trusted certificates for `https`; the default is those of the system.
    ///
    /// ```no_run
    /// use mcp_runtime::client::{Options, ReadyConnection};
    /// use mcp_std::tls::ClientTls;
    ///
    /// let tls = ClientTls::new().root_file("/etc/company/ca.pem").unwrap();
    /// let options = Options::<ReadyConnection>::new(mcp_proto::client::Config::new("my-app", "1.0")).tls(tls);
    /// let client = options.connect_url("https://tools.company.example/mcp")?;
    /// # Ok::<(), mcp_runtime::Error>(())
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: impl Into<ClientTls>) -> Self {
        self.setup.tls = tls.into();
        self
    }

    /// Lets `authorizer` answer the challenges of an HTTP server, instead of
    /// [`ClientHandler::challenge`](super::ClientHandler::challenge).
    ///
    /// A token that it has stored is sent from the first request on, and is renewed before it expires. Requests that
    /// need another token wait for it, while the connection goes on. A failure ends them with
    /// [`HttpError::Authorization`](mcp_proto::HttpError). A [credential](mcp_proto::http::client::Config::credential)
    /// of the configuration sets the authorizer aside.
    ///
    /// ```no_run
    /// use mcp_runtime::client::{Options, ReadyConnection};
    /// use mcp_auth::client::Authorizer;
    ///
    /// let authorizer = Authorizer::new(mcp_auth::client::Config::new("My application"));
    /// let options = Options::<ReadyConnection>::default().authorize(authorizer);
    /// let client = options.connect_url("https://mcp.example.com/mcp")?;
    /// # Ok::<(), mcp_runtime::Error>(())
    /// ```
    #[cfg(feature = "auth")]
    #[must_use]
    pub fn authorize(mut self, authorizer: Authorizer) -> Self {
        for name in authorizer.config().extensions() {
            // The names are valid, and so are empty settings.
            let declared = RawJson::new(&b"{}"[..])
                .ok()
                .and_then(|none| self.setup.config.clone().extension(name, none).ok());
            self.setup.config = declared.unwrap_or(self.setup.config);
        }
        self.setup.authorizer = Some(authorizer);
        self
    }

    /// Sets the handler of callbacks.
    #[must_use]
    pub fn handler(mut self, handler: impl ClientHandler + Send + 'static) -> Self {
        self.setup.handler = Box::new(handler);
        self
    }

    /// Sets the duration of each step of ending the server.
    #[must_use]
    pub const fn shutdown_timeouts(mut self, timeouts: ShutdownTimeouts) -> Self {
        self.setup.shutdown_timeouts = timeouts;
        self
    }

    /// Caches lists and contents of resources in `cache`, which other clients may share.
    ///
    /// `server` is the application's name for the server, for example its URL or command line. Results of one server
    /// are never returned for another. `principal` is the application's name for the party on whose behalf the client
    /// acts. A result for one principal is returned to another only if the server allowed it (CACHE-012).
    #[must_use]
    pub fn cache(
        mut self,
        cache: &SharedCache,
        server: impl Into<String>,
        principal: impl Into<String>,
    ) -> Self {
        let legacy_ttl = self.setup.cache.and_then(|options| options.legacy_ttl);
        let (server, principal) = (server.into(), principal.into());
        self.setup.cache = Some(CacheOptions { cache: cache.clone(), server, principal, legacy_ttl });
        self
    }

    /// Disables caching: each request is sent to the server.
    #[must_use]
    pub fn no_cache(mut self) -> Self {
        self.setup.cache = None;
        self
    }

    /// Caches lists of legacy servers, too, for at most `time` or until the server announces a change.
    ///
    /// Legacy revisions have no cache hints; see [`CacheScope::with_legacy_ttl`].
    #[must_use]
    pub fn cache_legacy(mut self, time: Duration) -> Self {
        self.setup.cache.get_or_insert_default().legacy_ttl = Some(time);
        self
    }

    /// Sets the validator that checks structured results against output schemas of tools (TOOL-016).
    ///
    /// It replaces `mcp_std::schema::JsonSchemaValidator`, the default with the feature `validate`. The client learns
    /// schemas from the lists of tools that it reads. A tool is not checked if its schema is unknown or unusable.
    #[must_use]
    pub fn validator(mut self, validator: impl SchemaValidator + 'static) -> Self {
        self.setup.schemas = Some(OutputSchemas::new(validator));
        self
    }

    /// Disables the check of structured results.
    #[must_use]
    pub fn no_validator(mut self) -> Self {
        self.setup.schemas = None;
        self
    }

    /// Lets a server of 2025-11-25 run its questions as tasks, whose answers it collects later.
    ///
    /// The handler gets the same questions and answers as usual ([`Config::input_tasks`]). The ids of the tasks come from
    /// the random generator of the operating system; connecting fails if that does. By default there are none.
    #[cfg(feature = "tasks")]
    #[must_use]
    pub fn input_tasks(mut self, limits: InputTaskLimits) -> Self {
        self.setup.input_tasks = Some(limits);
        self
    }

    /// Starts a server process and waits until the connection is ready.
    ///
    /// Some old servers exit when they are asked for their revisions. Such a server is started again and gets the
    /// legacy handshake, unless it has not read the question: then it failed by itself. The hook of [`Program::before_spawn`] runs at each start.
    ///
    /// # Errors
    ///
    /// No process is left running after an error.
    ///
    /// - [`Error::Spawn`]: the process cannot be started.
    /// - [`Error::Closed`]: the server ended, did not answer in time, or is not an MCP server.
    /// - [`Error::Io`]: the stream failed.
    pub fn spawn<'a>(self, program: impl Borrow<Program> + Send + 'a) -> C::Connecting<'a> {
        C::open(self.setup, ConnectionTarget::Program(Box::new(program)))
    }

    /// Connects over a byte stream and waits until the connection is ready.
    ///
    /// # Errors
    ///
    /// - [`Error::Closed`]: the server closed the stream, did not answer in time, or is not an MCP server.
    /// - [`Error::Io`]: the stream failed.
    pub fn connect<S>(self, stream: S) -> C::Connecting<'static>
    where
        C: StreamConnector<S>,
    {
        C::open_stream(self.setup, stream)
    }

    /// Opens the byte stream at `address`, and waits until the connection is ready: TCP, a Unix domain socket, or a serial
    /// line.
    ///
    /// The stream is opened within [`Limits::init_timeout`](mcp_proto::Limits), as
    /// [`StreamAddress::connect`] describes; `mcp-smol` and `mcp-tokio` do that on a thread for blocking work, and then need a
    /// Unix system. Lines that are no messages, the boot messages of a board for example, are skipped and reported to
    /// [`ClientHandler::diagnostic`]; with
    /// [`Limits::max_faulty_messages`](mcp_proto::Limits) many of them end the connection. A connection that has ended is
    /// not opened again.
    ///
    /// # Errors
    ///
    /// - [`Error::Io`]: the stream cannot be opened, or failed. The text names the address.
    /// - [`Error::Closed`]: the server closed the stream, did not answer in time, or is not an MCP server.
    pub fn connect_to(self, address: StreamAddress) -> C::Connecting<'static> {
        C::open(self.setup, ConnectionTarget::Stream(address))
    }

    /// Connects to the HTTP server at `url` and waits until the connection is ready.
    ///
    /// # Errors
    ///
    /// - [`Error::Url`]: the URL is invalid, it is `https` and the feature `tls` is off, or a credential would be sent
    ///   without TLS to another machine.
    /// - [`Error::Closed`]: there is no server, it is not an MCP server, or it did not answer in time.
    #[cfg(feature = "http")]
    pub fn connect_url(self, url: &str) -> C::Connecting<'static> {
        match mcp_proto::http::client::Config::new(url) {
            Ok(http) => self.connect_http(http),
            Err(why) => C::refuse(Error::url(url, &why)),
        }
    }

    /// Connects to an HTTP server and waits until the connection is ready.
    ///
    /// Use it instead of [`connect_url`](Self::connect_url) for more settings than a URL, for example a token.
    ///
    /// ```no_run
    /// use mcp_runtime::client::{Options, ReadyConnection};
    /// use mcp_proto::http::client::{Config, Credential};
    ///
    /// let token = std::env::var("TOKEN").unwrap();
    /// let http = Config::new("http://localhost:8080/mcp").unwrap().credential(Credential::bearer(&token).unwrap());
    /// let options = Options::<ReadyConnection>::new(mcp_proto::client::Config::new("my-app", "1.0"));
    /// let client = options.connect_http(http)?;
    /// # Ok::<(), mcp_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`connect_url`](Self::connect_url).
    #[cfg(feature = "http")]
    pub fn connect_http(self, http: mcp_proto::http::client::Config) -> C::Connecting<'static> {
        #[cfg(not(feature = "tls"))]
        if http.endpoint().origin().secure {
            return C::refuse(Error::url(&format!("{:?}", http.endpoint()), &NO_TLS));
        }
        if http.exposes_credential() {
            return C::refuse(Error::url(&format!("{:?}", http.endpoint()), &CLEARTEXT));
        }
        C::open(self.setup, ConnectionTarget::Http(http))
    }

    /// Connects to an HTTP server over an HTTP implementation of the application, and waits until the connection is ready.
    ///
    /// `mcp_tower::connect` calls this with a `tower::Service`. That implementation decides about TLS, proxies and
    /// connections; heads are not recorded for the tap. The connection ends exchanges that are left when its last handle
    /// is dropped, so close the client to end its session at the server.
    ///
    /// # Errors
    ///
    /// As [`connect_url`](Self::connect_url), except that `https` needs no feature. [`Error::Io`] with `Unsupported` if the
    /// options have an authorizer: let the HTTP implementation add the token, or a handler answer challenges.
    #[cfg(feature = "http")]
    pub fn connect_exchanges(
        self,
        http: mcp_proto::http::client::Config,
        start: StartExchange,
    ) -> C::Connecting<'static>
    where
        C: ExchangeConnector,
    {
        if http.exposes_credential() {
            return C::refuse(Error::url(&format!("{:?}", http.endpoint()), &CLEARTEXT));
        }
        #[cfg(feature = "auth")]
        if self.setup.authorizer.is_some() {
            let why = "an authorizer works over the HTTP implementation of this library only";
            return C::refuse(Error::Io(std::io::Error::new(std::io::ErrorKind::Unsupported, why)));
        }
        C::open_exchanges(self.setup, http, start)
    }
}

impl ClientSetup {
    /// Connects and waits until the connection is ready.
    ///
    /// # Errors
    ///
    /// As [`Options::spawn`] and [`Options::connect_http`].
    pub fn open(self, target: ConnectionTarget<'_>) -> Result<ReadyConnection, Error> {
        match target {
            ConnectionTarget::Program(program) => self.spawn((*program).borrow()),
            ConnectionTarget::Stream(address) => {
                let io = ServerIo::connect(&address, self.open_timeout())?;
                let transport = StreamTransport::new(self.engine_config()?, io);
                self.open_transport(Box::new(transport))
            }
            #[cfg(feature = "http")]
            ConnectionTarget::Http(http) => {
                let transport = self.http_transport(http)?;
                self.open_transport(Box::new(transport))
            }
        }
    }

    /// Returns the longest time to open a byte stream.
    #[must_use]
    pub fn open_timeout(&self) -> Duration {
        self.config.effective_limits().init_timeout
    }

    /// Creates the transport to an HTTP server.
    ///
    /// # Errors
    ///
    /// As [`HttpTransport::new`].
    #[cfg(feature = "http")]
    pub fn http_transport(&self, http: mcp_proto::http::client::Config) -> Result<HttpTransport, Error> {
        #[cfg(feature = "auth")]
        let authorizer = self.authorizer.clone().filter(|_| !http.has_credential());
        #[cfg(feature = "auth")]
        let (server, http) = match &authorizer {
            Some(_) => (http.endpoint().clone(), http.handle_challenges(true).await_credential(true)),
            None => (http.endpoint().clone(), http),
        };
        let transport = HttpTransport::new(self.engine_config()?, http, self.taps_heads)?;
        #[cfg(feature = "auth")]
        let transport = match authorizer {
            Some(authorizer) => transport.authorizer(authorizer, server),
            None => transport,
        };
        #[cfg(feature = "tls")]
        let transport = transport.tls(self.tls.clone());
        Ok(transport)
    }

    /// Connects over a byte stream and waits until the connection is ready.
    ///
    /// # Errors
    ///
    /// As [`Options::connect`].
    pub fn open_stream<D: Duplex + Send + 'static>(self, stream: D) -> Result<ReadyConnection, Error> {
        let transport = StreamTransport::new(self.engine_config()?, ServerIo::Stream(Box::new(stream), None));
        self.open_transport(Box::new(transport))
    }

    /// Returns the configuration of the engine of a new connection.
    ///
    /// # Errors
    ///
    /// [`Error::Io`]: the operating system gives no random bytes for the ids of tasks.
    pub fn engine_config(&self) -> Result<Config, Error> {
        #[cfg(feature = "tasks")]
        if let Some(limits) = &self.input_tasks {
            // The clock of the connection starts now.
            let entropy = mcp_proto::Entropy::new(mcp_std::entropy::seed()?, mcp_std::entropy::nonce());
            let tasks = InputTasks::new(entropy, mcp_std::Clock::start().anchor()).limits(limits.clone());
            return Ok(self.config.clone().input_tasks(tasks));
        }
        Ok(self.config.clone())
    }

    fn spawn(mut self, program: &Program) -> Result<ReadyConnection, Error> {
        let transport = StreamTransport::new(self.engine_config()?, ServerIo::spawn(program)?);
        let mut first = self.connection(Box::new(transport));
        let error = match first.open() {
            Ok(peer) => return Ok(self.into_ready(first, peer)),
            Err(error) => error,
        };
        if !self.prepare_retry(&mut first, &error) {
            return Err(error);
        }
        // End the first process before the second starts: both may need the same port or lock.
        drop(first);
        let transport = StreamTransport::new(self.engine_config()?, ServerIo::spawn(program)?);
        self.open_transport(Box::new(transport))
    }

    /// Connects over a transport and waits until the connection is ready.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] or [`Error::Io`] if the connection ends before it is ready.
    pub fn open_transport(
        mut self,
        transport: Box<dyn ClientTransport + Send>,
    ) -> Result<ReadyConnection, Error> {
        let mut connection = self.connection(transport);
        let peer = connection.open()?;
        Ok(self.into_ready(connection, peer))
    }

    fn into_ready(self, mut connection: Connection, peer: Peer) -> ReadyConnection {
        self.configure_results(&mut connection, &peer);
        ReadyConnection { connection, peer }
    }

    /// Creates a connection that has not sent anything yet. Moves the handler into it.
    #[must_use]
    pub fn connection(&mut self, transport: Box<dyn ClientTransport + Send>) -> Connection {
        Connection::new(
            transport,
            core::mem::replace(&mut self.handler, Box::new(())),
            self.shutdown_timeouts,
        )
    }

    /// Returns whether the server should be started again with another handshake.
    ///
    /// If so, takes the handler back from `first` and sets the known era for the next connection.
    #[must_use]
    pub fn prepare_retry(&mut self, first: &mut Connection, error: &Error) -> bool {
        let Error::Closed(closed) = error else { return false };
        // One that has not even read the question fails again.
        let known_era = closed.fault.retry_with().filter(|_| !closed.has_unread_input);
        let Some(known_era) = known_era else { return false };
        self.handler = first.take_handler();
        self.config = self.config.clone().known_era(Some(known_era));
        true
    }

    /// Configures caching and the check of results, once the server is known.
    pub fn configure_results(self, connection: &mut Connection, peer: &Peer) {
        connection.layers = self.layers;
        connection.cache.open(self.cache, connection.transport.engine().config(), peer);
        connection.cache.set_schemas(self.schemas);
    }
}

impl Connector for ReadyConnection {
    type Connecting<'a> = Result<Self, Error>;

    fn default_config() -> Config {
        Config::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    fn open(setup: ClientSetup, target: ConnectionTarget<'_>) -> Self::Connecting<'_> {
        setup.open(target)
    }

    fn refuse(error: Error) -> Self::Connecting<'static> {
        Err(error)
    }
}

impl<D: Duplex + Send + 'static> StreamConnector<D> for ReadyConnection {
    fn open_stream(setup: ClientSetup, stream: D) -> Self::Connecting<'static> {
        setup.open_stream(stream)
    }
}

/// Reason for refusing to send a credential without TLS.
#[cfg(feature = "http")]
const CLEARTEXT: &str = "a credential would be sent without TLS, where everybody on the way can read it; use `https`, or \
                         allow it for this server (`dangerously_allow_cleartext_credential`)";

/// Reason for refusing `https`.
#[cfg(all(feature = "http", not(feature = "tls")))]
const NO_TLS: &str = "`https` needs the feature `tls`, which is not enabled; enable it, or let a TLS proxy on this \
                      machine (stunnel, for example) forward a local port, and connect to that with `http`";

impl fmt::Debug for ClientSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSetup").field("config", &self.config).finish_non_exhaustive()
    }
}

impl fmt::Debug for ConnectionTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(program) => program.as_ref().borrow().fmt(f),
            Self::Stream(address) => address.fmt(f),
            #[cfg(feature = "http")]
            Self::Http(http) => http.fmt(f),
        }
    }
}

impl<C> fmt::Debug for Options<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("config", &self.setup.config)
            .field("shutdown_timeouts", &self.setup.shutdown_timeouts)
            .finish_non_exhaustive()
    }
}

// Options of clients that block: their layers are functions.

/// A client whose calls block, so that its layers are functions.
pub trait BlockingConnector: Connector {}

impl BlockingConnector for ReadyConnection {}

/// # Layers of clients that block
impl<C: BlockingConnector> Options<C> {
    /// Adds a [layer](Self#layers) around the requests of the application, inside those before it.
    ///
    /// It runs on the thread that makes the call. With `mcp-threads`, that may be several at a time.
    #[must_use]
    pub fn layer(
        mut self,
        layer: impl Fn(ClientRequest, BlockingClientNext<'_>) -> Result<RawJson, Error> + Send + Sync + 'static,
    ) -> Self {
        self.setup_mut().layers.push_blocking(Arc::new(layer));
        self
    }

    /// Adds a layer that repeats requests, inside the layers before it. Between attempts the thread of the call sleeps.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        self.layer(move |request, next| {
            let mut attempts = 1;
            loop {
                let outcome = next.run(request.clone());
                let Err(error) = &outcome else { return outcome };
                let pause = retry.pause_after(attempts, error).filter(|_| retry.may_repeat(&request));
                let Some(pause) = pause else { return outcome };
                thread::sleep(pause);
                attempts += 1;
            }
        })
    }
}
