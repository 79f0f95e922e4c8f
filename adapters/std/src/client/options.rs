//! How a client comes to its server

use alloc::boxed::Box;
#[cfg(all(feature = "http", not(feature = "tls")))]
use alloc::format;
use alloc::string::String;
use core::borrow::Borrow;
use core::fmt;
use core::marker::PhantomData;
use core::time::Duration;

use crate::child::{Patience, Program};
use crate::{Duplex, SharedCache};
#[cfg(doc)]
use mcp_proto::client::Asker;
use mcp_proto::client::{Config, OutputSchemas, Peer, SchemaValidator};

use super::connection::Connection;
#[cfg(feature = "http")]
use super::exchanges::Exchanges;
use super::handler::ClientHandler;
use super::link::Link;
use super::memory::Caching;
use super::wire::{Stream, Wire};
use crate::error::Error;
#[cfg(feature = "tls")]
use crate::tls::ClientTls;

/// A client that is about to connect: its configuration, and what is to be there from the first message on
///
/// ```no_run
/// use mcp_proto::{Diagnostic, client::Config};
/// use mcp_std::child::{Program, Stderr};
/// use mcp_std::client::{ClientHandler, Opened, Options};
///
/// struct Log;
///
/// impl ClientHandler for Log {
///     fn diagnostic(&mut self, diagnostic: &Diagnostic) {
///         eprintln!("odd: {diagnostic:?}");
///     }
/// }
///
/// // An adapter's own `Client` stands where `Opened` does here.
/// let program = Program::new("my-server").stderr(Stderr::Capture);
/// let client = Options::<Opened>::new(Config::new("my-app", "1.0")).handler(Log).spawn(program)?;
/// # Ok::<(), mcp_std::Error>(())
/// ```
pub struct Options<C> {
    setup: Setup,
    client: PhantomData<fn() -> C>,
}

/// What [`Options`] were given
pub struct Setup {
    /// The configuration of the engine
    pub config: Config,
    /// Who hears of what comes from the server
    pub handler: Box<dyn ClientHandler + Send>,
    /// How long each step of ending the server may take
    pub patience: Patience,
    caching: Option<Caching>,
    schemas: Option<OutputSchemas>,
    /// Whether heads of requests and responses are shown
    #[cfg(feature = "http")]
    pub heads: bool,
    #[cfg(feature = "tls")]
    tls: ClientTls,
}

/// The way to a server that is no stream
#[non_exhaustive]
pub enum Way<'a> {
    /// A program to start
    Program(Box<dyn Borrow<Program> + Send + 'a>),
    /// A server over HTTP
    #[cfg(feature = "http")]
    Http(mcp_proto::http::client::Config),
}

/// A client of an adapter: what [`Options`] open
pub trait Opens: Sized {
    /// What opening gives: a client, at once or as a future
    type Opening<'a>;

    /// Begins to open
    fn open(setup: Setup, way: Way<'_>) -> Self::Opening<'_>;

    /// Says that it cannot even begin
    fn refuse(error: Error) -> Self::Opening<'static>;
}

/// A client of an adapter that speaks over streams of the type `S`
pub trait OpensStream<S>: Opens {
    /// Begins to open
    fn open_stream(setup: Setup, stream: S) -> Self::Opening<'static>;
}

/// A connection that is ready, and who is at its other end: what an adapter makes its client of
#[derive(Debug)]
pub struct Opened {
    /// Ready for calls
    pub connection: Connection,
    /// The server
    pub peer: Peer,
}

impl<C: Opens> Options<C> {
    /// No callbacks, the default patience with a server that is to end, and a cache of its own
    ///
    /// With the feature `validate`, structured results are checked as [`validator`](Self::validator) says, by
    /// `mcp_std::validate::Schemas`.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let setup = Setup {
            config,
            handler: Box::new(()),
            patience: Patience::default(),
            caching: Some(Caching::default()),
            #[cfg(feature = "validate")]
            schemas: Some(OutputSchemas::new(crate::validate::Schemas::new())),
            #[cfg(not(feature = "validate"))]
            schemas: None,
            #[cfg(feature = "http")]
            heads: false,
            #[cfg(feature = "tls")]
            tls: ClientTls::new(),
        };
        Self { setup, client: PhantomData }
    }

    /// Has [`ClientHandler::head`] see the heads of requests and responses over HTTP
    #[cfg(feature = "http")]
    #[must_use]
    pub const fn tap_heads(mut self) -> Self {
        self.setup.heads = true;
        self
    }

    /// Says which servers are trusted over `https`, instead of those that the system trusts
    ///
    /// ```no_run
    /// use mcp_std::client::{Opened, Options};
    /// use mcp_std::tls::ClientTls;
    ///
    /// let tls = ClientTls::new().root_file("/etc/company/ca.pem").unwrap();
    /// let options = Options::<Opened>::new(mcp_proto::client::Config::new("my-app", "1.0")).tls(tls);
    /// let client = options.connect_url("https://tools.company.example/mcp")?;
    /// # Ok::<(), mcp_std::Error>(())
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: impl Into<ClientTls>) -> Self {
        self.setup.tls = tls.into();
        self
    }

    /// Says who handles what comes from the server
    #[must_use]
    pub fn handler(mut self, handler: impl ClientHandler + Send + 'static) -> Self {
        self.setup.handler = Box::new(handler);
        self
    }

    /// Says how long each step of ending the server may take
    #[must_use]
    pub const fn patience(mut self, patience: Patience) -> Self {
        self.setup.patience = patience;
        self
    }

    /// Keeps lists and contents of resources in `cache`, along with other clients
    ///
    /// `server` is the name by which the application knows the server, an address or a command line for instance: what
    /// is kept of one server is never given for another. `principal` is on whose behalf the client acts, in a spelling
    /// of the application's: what a server gave to one is given to another only if it said so (CACHE-012).
    #[must_use]
    pub fn cache(
        mut self,
        cache: &SharedCache,
        server: impl Into<String>,
        principal: impl Into<String>,
    ) -> Self {
        let legacy = self.setup.caching.and_then(|caching| caching.legacy);
        let (server, principal) = (server.into(), principal.into());
        self.setup.caching = Some(Caching { cache: cache.clone(), server, principal, legacy });
        self
    }

    /// Keeps no result: everything is asked for each time
    #[must_use]
    pub fn no_cache(mut self) -> Self {
        self.setup.caching = None;
        self
    }

    /// Keeps the lists of legacy servers too, until they say that a list has changed, or for `time`
    ///
    /// Legacy revisions do not say how long a list may be kept; see [`Asker::keep_legacy`].
    #[must_use]
    pub fn cache_legacy(mut self, time: Duration) -> Self {
        self.setup.caching.get_or_insert_default().legacy = Some(time);
        self
    }

    /// Checks structured results against the output schemas that the client has seen in lists of tools (TOOL-016)
    ///
    /// It takes the place of `mcp_std::validate::Schemas`, which the feature `validate` puts there. A tool whose
    /// schema was not seen (lists of a client that are read), or cannot be used, is not checked.
    #[must_use]
    pub fn validator(mut self, validator: impl SchemaValidator + 'static) -> Self {
        self.setup.schemas = Some(OutputSchemas::new(validator));
        self
    }

    /// Checks no results against schemas
    #[must_use]
    pub fn no_validator(mut self) -> Self {
        self.setup.schemas = None;
        self
    }

    /// Starts a server and waits until it is ready
    ///
    /// A server that exits when it is asked which revisions it speaks, as some old ones do, is started once more and
    /// spoken to as such a one is.
    ///
    /// The hook of [`Program::before_spawn`] is asked again when the server has to be started a second time.
    ///
    /// # Errors
    ///
    /// [`Error::Spawn`] when it cannot be started, [`Error::Closed`] when it ended, did not answer in time, or is no MCP
    /// server; nothing is left running then.
    pub fn spawn<'a>(self, program: impl Borrow<Program> + Send + 'a) -> C::Opening<'a> {
        C::open(self.setup, Way::Program(Box::new(program)))
    }

    /// Speaks over any byte stream, and waits until the server is ready
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] and [`Error::Io`], as for [`spawn`](Self::spawn).
    pub fn connect<S>(self, stream: S) -> C::Opening<'static>
    where
        C: OpensStream<S>,
    {
        C::open_stream(self.setup, stream)
    }

    /// Speaks HTTP to the server at `url`, and waits until it is ready
    ///
    /// # Errors
    ///
    /// [`Error::Url`] when it is none that can be connected to: `https` is refused without the feature `tls`;
    /// [`Error::Closed`] when there is no server, it is no MCP server, or does not answer in time.
    #[cfg(feature = "http")]
    pub fn connect_url(self, url: &str) -> C::Opening<'static> {
        match mcp_proto::http::client::Config::new(url) {
            Ok(http) => self.connect_http(http),
            Err(why) => C::refuse(Error::url(url, &why)),
        }
    }

    /// Speaks HTTP to a server, and waits until it is ready: as [`connect_url`](Self::connect_url), where there is more to
    /// say than a URL, such as a token
    ///
    /// ```no_run
    /// use mcp_std::client::{Opened, Options};
    /// use mcp_proto::http::client::{Config, Credential};
    ///
    /// let token = std::env::var("TOKEN").unwrap();
    /// let http = Config::new("http://localhost:8080/mcp").unwrap().credential(Credential::bearer(&token).unwrap());
    /// let client = Options::<Opened>::new(mcp_proto::client::Config::new("my-app", "1.0")).connect_http(http)?;
    /// # Ok::<(), mcp_std::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Url`] when it is none that can be connected to: `https` is refused without the feature `tls`;
    /// [`Error::Closed`] when there is no server, it is no MCP server, or does not answer in time.
    #[cfg(feature = "http")]
    pub fn connect_http(self, http: mcp_proto::http::client::Config) -> C::Opening<'static> {
        #[cfg(not(feature = "tls"))]
        if http.endpoint().origin().secure {
            return C::refuse(Error::url(&format!("{:?}", http.endpoint()), &NO_TLS));
        }
        C::open(self.setup, Way::Http(http))
    }
}

impl Setup {
    /// Opens, and waits until the server is ready
    pub fn open(self, way: Way<'_>) -> Result<Opened, Error> {
        match way {
            Way::Program(program) => self.spawn((*program).borrow()),
            #[cfg(feature = "http")]
            Way::Http(http) => {
                let wire = self.exchanges(http)?;
                self.open_wire(Box::new(wire))
            }
        }
    }

    /// The way to a server over HTTP
    ///
    /// # Errors
    ///
    /// As [`Exchanges::new`].
    #[cfg(feature = "http")]
    pub fn exchanges(&self, http: mcp_proto::http::client::Config) -> Result<Exchanges, Error> {
        let exchanges = Exchanges::new(self.config.clone(), http, self.heads)?;
        #[cfg(feature = "tls")]
        let exchanges = exchanges.tls(self.tls.clone());
        Ok(exchanges)
    }

    /// Speaks over a stream, and waits until the server is ready
    pub fn open_stream<D: Duplex + Send + 'static>(self, stream: D) -> Result<Opened, Error> {
        let wire = Stream::new(self.config.clone(), Link::Stream(Box::new(stream)));
        self.open_wire(Box::new(wire))
    }

    fn spawn(mut self, program: &Program) -> Result<Opened, Error> {
        let wire = Stream::new(self.config.clone(), Link::spawn(program)?);
        let mut first = self.connection(Box::new(wire));
        let error = match first.open() {
            Ok(peer) => return Ok(self.ready(first, peer)),
            Err(error) => error,
        };
        if !self.again(&mut first, &error) {
            return Err(error);
        }
        // Gone for good before the next one starts: both may want the same port or lock.
        drop(first);
        let wire = Stream::new(self.config.clone(), Link::spawn(program)?);
        self.open_wire(Box::new(wire))
    }

    /// Speaks over a wire of any kind, and waits until the server is ready
    pub fn open_wire(mut self, wire: Box<dyn Wire + Send>) -> Result<Opened, Error> {
        let mut connection = self.connection(wire);
        let peer = connection.open()?;
        Ok(self.ready(connection, peer))
    }

    fn ready(self, mut connection: Connection, peer: Peer) -> Opened {
        self.introduce(&mut connection, &peer);
        Opened { connection, peer }
    }

    /// A connection that has not begun to speak; the handler is its from now on
    #[must_use]
    pub fn connection(&mut self, wire: Box<dyn Wire + Send>) -> Connection {
        Connection::new(wire, core::mem::replace(&mut self.handler, Box::new(())), self.patience)
    }

    /// Whether a server that did not become ready is to be started once more, and spoken to in another way
    #[must_use]
    pub fn again(&mut self, first: &mut Connection, error: &Error) -> bool {
        let Error::Closed(closed) = error else { return false };
        let Some(verdict) = closed.fault.retry_with() else { return false };
        self.handler = first.take_handler();
        self.config = self.config.clone().verdict(Some(verdict));
        true
    }

    /// Says whose results are kept and checked, now that the server is known
    pub fn introduce(self, connection: &mut Connection, peer: &Peer) {
        connection.memory.open(self.caching, connection.wire.engine().config(), peer);
        connection.memory.set_schemas(self.schemas);
    }
}

impl Opens for Opened {
    type Opening<'a> = Result<Self, Error>;

    fn open(setup: Setup, way: Way<'_>) -> Self::Opening<'_> {
        setup.open(way)
    }

    fn refuse(error: Error) -> Self::Opening<'static> {
        Err(error)
    }
}

impl<D: Duplex + Send + 'static> OpensStream<D> for Opened {
    fn open_stream(setup: Setup, stream: D) -> Self::Opening<'static> {
        setup.open_stream(stream)
    }
}

/// Why there is no `https`
#[cfg(all(feature = "http", not(feature = "tls")))]
const NO_TLS: &str = "TLS is spoken with the feature `tls` alone, which is not turned on here; or have a program on this \
                      machine that speaks it (stunnel, for instance) forward a local port, and connect to that with http";

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("config", &self.config).finish_non_exhaustive()
    }
}

impl fmt::Debug for Way<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(program) => program.as_ref().borrow().fmt(f),
            #[cfg(feature = "http")]
            Self::Http(http) => http.fmt(f),
        }
    }
}

impl<C> fmt::Debug for Options<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("config", &self.setup.config)
            .field("patience", &self.setup.patience)
            .finish_non_exhaustive()
    }
}
