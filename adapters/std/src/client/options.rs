//! How a client comes to its server

use alloc::boxed::Box;
#[cfg(feature = "http")]
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
use super::wire::Stream;
use crate::error::Error;

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
/// let client: Opened = Options::new(Config::new("my-app", "1.0")).handler(Log).spawn(program)?;
/// # Ok::<(), mcp_std::Error>(())
/// ```
pub struct Options<C> {
    config: Config,
    handler: Box<dyn ClientHandler + Send>,
    patience: Patience,
    caching: Option<Caching>,
    schemas: Option<OutputSchemas>,
    #[cfg(feature = "http")]
    heads: bool,
    client: PhantomData<fn() -> C>,
}

/// A connection that is ready, and who is at its other end: what an adapter makes its client of
#[derive(Debug)]
pub struct Opened {
    /// Ready for calls
    pub connection: Connection,
    /// The server
    pub peer: Peer,
}

impl<C: From<Opened>> Options<C> {
    /// No callbacks, the default patience with a server that is to end, and a cache of its own
    ///
    /// With the feature `validate`, structured results are checked as [`validator`](Self::validator) says, by
    /// `mcp_std::validate::Schemas`.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
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
            client: PhantomData,
        }
    }

    /// Has [`ClientHandler::head`] see the heads of requests and responses over HTTP
    #[cfg(feature = "http")]
    #[must_use]
    pub const fn tap_heads(mut self) -> Self {
        self.heads = true;
        self
    }

    /// Says who handles what comes from the server
    #[must_use]
    pub fn handler(mut self, handler: impl ClientHandler + Send + 'static) -> Self {
        self.handler = Box::new(handler);
        self
    }

    /// Says how long each step of ending the server may take
    #[must_use]
    pub const fn patience(mut self, patience: Patience) -> Self {
        self.patience = patience;
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
        let legacy = self.caching.and_then(|caching| caching.legacy);
        let (server, principal) = (server.into(), principal.into());
        self.caching = Some(Caching { cache: cache.clone(), server, principal, legacy });
        self
    }

    /// Keeps no result: everything is asked for each time
    #[must_use]
    pub fn no_cache(mut self) -> Self {
        self.caching = None;
        self
    }

    /// Keeps the lists of legacy servers too, until they say that a list has changed, or for `time`
    ///
    /// Legacy revisions do not say how long a list may be kept; see [`Asker::keep_legacy`].
    #[must_use]
    pub fn cache_legacy(mut self, time: Duration) -> Self {
        self.caching.get_or_insert_default().legacy = Some(time);
        self
    }

    /// Checks structured results against the output schemas that the client has seen in lists of tools (TOOL-016)
    ///
    /// It takes the place of `mcp_std::validate::Schemas`, which the feature `validate` puts there. A tool whose
    /// schema was not seen (lists of a client that are read), or cannot be used, is not checked.
    #[must_use]
    pub fn validator(mut self, validator: impl SchemaValidator + 'static) -> Self {
        self.schemas = Some(OutputSchemas::new(validator));
        self
    }

    /// Checks no results against schemas
    #[must_use]
    pub fn no_validator(mut self) -> Self {
        self.schemas = None;
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
    pub fn spawn(self, program: impl Borrow<Program>) -> Result<C, Error> {
        let Self { config, mut handler, patience, caching, schemas, .. } = self;
        let memory = (caching, schemas);
        let link = Link::spawn(program.borrow())?;
        let mut first = Connection::new(Box::new(Stream::new(config.clone(), link)), handler, patience);
        let error = match first.open() {
            Ok(peer) => return Ok(ready(first, peer, memory).into()),
            Err(error) => error,
        };
        let Error::Closed(closed) = &error else { return Err(error) };
        let Some(verdict) = closed.fault.retry_with() else { return Err(error) };
        handler = first.take_handler();
        // Gone for good before the next one starts: both may want the same port or lock.
        drop(first);
        let link = Link::spawn(program.borrow())?;
        let wire = Stream::new(config.verdict(Some(verdict)), link);
        let mut second = Connection::new(Box::new(wire), handler, patience);
        let peer = second.open()?;
        Ok(ready(second, peer, memory).into())
    }

    /// Speaks over any byte stream, and waits until the server is ready
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] and [`Error::Io`], as for [`spawn`](Self::spawn).
    pub fn connect<D: Duplex + Send + 'static>(self, stream: D) -> Result<C, Error> {
        let Self { config, handler, patience, caching, schemas, .. } = self;
        let wire = Stream::new(config, Link::Stream(Box::new(stream)));
        let mut connection = Connection::new(Box::new(wire), handler, patience);
        let peer = connection.open()?;
        Ok(ready(connection, peer, (caching, schemas)).into())
    }

    /// Speaks HTTP to the server at `url`, and waits until it is ready
    ///
    /// # Errors
    ///
    /// [`Error::Url`] when it is none that can be connected to: there is no TLS here, so `https` is refused;
    /// [`Error::Closed`] when there is no server, it is no MCP server, or does not answer in time.
    #[cfg(feature = "http")]
    pub fn connect_url(self, url: &str) -> Result<C, Error> {
        let http = mcp_proto::http::client::Config::new(url);
        self.connect_http(http.map_err(|why| Error::url(url, &why))?)
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
    /// let client: Opened = Options::new(mcp_proto::client::Config::new("my-app", "1.0")).connect_http(http)?;
    /// # Ok::<(), mcp_std::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Url`] when it is none that can be connected to: there is no TLS here, so `https` is refused;
    /// [`Error::Closed`] when there is no server, it is no MCP server, or does not answer in time.
    #[cfg(feature = "http")]
    pub fn connect_http(self, http: mcp_proto::http::client::Config) -> Result<C, Error> {
        let Self { config, handler, patience, caching, schemas, heads, .. } = self;
        if http.endpoint().origin().secure {
            return Err(Error::url(&format!("{:?}", http.endpoint()), &NO_TLS));
        }
        let wire = Exchanges::new(config, http, heads)?;
        let mut connection = Connection::new(Box::new(wire), handler, patience);
        let peer = connection.open()?;
        Ok(ready(connection, peer, (caching, schemas)).into())
    }
}

/// Why there is no `https`
#[cfg(feature = "http")]
const NO_TLS: &str = "TLS is not spoken here: have a program on this machine that does speak it (stunnel, for instance) \
                      forward a local port, and connect to that with http";

fn ready(mut connection: Connection, peer: Peer, memory: (Option<Caching>, Option<OutputSchemas>)) -> Opened {
    let (caching, schemas) = memory;
    connection.memory.open(caching, connection.wire.engine().config(), &peer);
    connection.memory.schemas = schemas;
    Opened { connection, peer }
}

impl<C> fmt::Debug for Options<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("config", &self.config)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}
