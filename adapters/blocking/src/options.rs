//! How a client comes to its server

use alloc::boxed::Box;
use core::borrow::Borrow;
use core::fmt;

use mcp_proto::client::Config;
use mcp_std::Duplex;
use mcp_std::child::{Patience, Program};

use crate::client::{Client, ClientHandler};
use crate::connection::Connection;
use crate::error::Error;
use crate::link::Link;

/// A client that is about to connect: its configuration, and what is to be there from the first message on
///
/// ```no_run
/// use mcp_blocking::{Client, ClientHandler};
/// use mcp_proto::{Diagnostic, client::Config};
/// use mcp_std::child::{Program, Stderr};
///
/// struct Log;
///
/// impl ClientHandler for Log {
///     fn diagnostic(&mut self, diagnostic: &Diagnostic) {
///         eprintln!("odd: {diagnostic:?}");
///     }
/// }
///
/// let program = Program::new("my-server").stderr(Stderr::Capture);
/// let client = Client::options(Config::new("my-app", "1.0")).handler(Log).spawn(program)?;
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
pub struct Options {
    config: Config,
    handler: Box<dyn ClientHandler + Send>,
    patience: Patience,
}

impl Options {
    /// No callbacks, and the default patience with a server that is to end
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self { config, handler: Box::new(()), patience: Patience::default() }
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

    /// Starts a server and waits until it is ready; see [`Client::spawn_with`]
    ///
    /// The hook of [`Program::before_spawn`] is asked again when the server has to be started a second time.
    ///
    /// # Errors
    ///
    /// As [`Client::spawn_with`].
    pub fn spawn(self, program: impl Borrow<Program>) -> Result<Client, Error> {
        let Self { config, mut handler, patience } = self;
        let link = Link::spawn(program.borrow())?;
        let mut first = Connection::new(config.clone(), link, handler, patience);
        let error = match first.open() {
            Ok(peer) => return Ok(Client::new(first, peer)),
            Err(error) => error,
        };
        let Error::Closed(closed) = &error else { return Err(error) };
        let Some(verdict) = closed.fault.retry_with() else { return Err(error) };
        handler = first.take_handler();
        // Gone for good before the next one starts: both may want the same port or lock.
        drop(first);
        let link = Link::spawn(program.borrow())?;
        let mut second = Connection::new(config.verdict(Some(verdict)), link, handler, patience);
        let peer = second.open()?;
        Ok(Client::new(second, peer))
    }

    /// Speaks over any byte stream, and waits until the server is ready
    ///
    /// # Errors
    ///
    /// As [`Client::connect`].
    pub fn connect<D: Duplex + Send + 'static>(self, stream: D) -> Result<Client, Error> {
        let Self { config, handler, patience } = self;
        let mut connection = Connection::new(config, Link::Stream(Box::new(stream)), handler, patience);
        let peer = connection.open()?;
        Ok(Client::new(connection, peer))
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("config", &self.config)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}
