//! A blocking client: each call returns when it has been answered.

mod backend;

use alloc::boxed::Box;
use core::borrow::Borrow;
use core::ops::Deref;
use core::time::Duration;

use mcp_proto::client::{Config, Engine, KnownEra, OutputSchemas, Peer, SchemaValidator, SubscriptionKey};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallKey, Instant, Progress, RawJson, UseError};
use mcp_std::io::Duplex;
use mcp_std::process::{Program, ShutdownReport};

use mcp_runtime::Error;
use mcp_runtime::client::{
    BlockingCalls, BlockingConnector, ClientBackend, ClientHandler, ClientSetup, ConnectionTarget, Connector,
    HandlerSlot, ReadyConnection, StreamConnector,
};

use crate::Options;

pub use backend::LocalBackend;

/// A connection to one server, ready for calls.
///
/// Bytes move only while one of its methods runs. A program that pauses between calls should [`poll`](Self::poll) from
/// time to time. Otherwise requests of the server stay unanswered and its output accumulates.
///
/// Dropping a client shuts the server down as [`close`](Self::close) does, and discards the outcome.
///
/// ```no_run
/// use mcp_blocking::{Client, Program};
///
/// let client = Client::spawn(Program::new("my-server").arg("--stdio"))?;
/// let result = client.call_tool("add", &serde_json::json!({"a": 20, "b": 22}))?;
/// for block in result.content.iter() {
///     println!("{block:?}");
/// }
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
///
/// The client dereferences to its [calls](BlockingCalls).
///
/// The handler and progress callbacks run inside its methods. A callback that calls the client again gets
/// [`Error::Busy`].
#[derive(Debug)]
pub struct Client {
    calls: BlockingCalls<LocalBackend>,
}

impl Deref for Client {
    type Target = BlockingCalls<LocalBackend>;

    fn deref(&self) -> &Self::Target {
        &self.calls
    }
}

impl From<ReadyConnection> for Client {
    fn from(ReadyConnection { connection, peer }: ReadyConnection) -> Self {
        Self { calls: BlockingCalls::new(LocalBackend::new(connection, peer)) }
    }
}

impl Connector for Client {
    type Connecting<'a> = Result<Self, Error>;

    fn default_config() -> Config {
        Config::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    fn open(setup: ClientSetup, target: ConnectionTarget<'_>) -> Self::Connecting<'_> {
        setup.open(target).map(Self::from)
    }

    fn refuse(error: Error) -> Self::Connecting<'static> {
        Err(error)
    }
}

impl BlockingConnector for Client {}

impl<D: Duplex + Send + 'static> StreamConnector<D> for Client {
    fn open_stream(setup: ClientSetup, stream: D) -> Self::Connecting<'static> {
        setup.open_stream(stream).map(Self::from)
    }
}

impl Client {
    /// Starts a server process and waits until it is ready.
    ///
    /// The client supports every revision and declares no capabilities; [`spawn_with`](Self::spawn_with) takes a
    /// configuration.
    ///
    /// # Errors
    ///
    /// As [`spawn_with`](Self::spawn_with).
    pub fn spawn(program: impl Borrow<Program> + Send) -> Result<Self, Error> {
        Options::default().spawn(program)
    }

    /// Starts a server process and waits until it is ready, at most for the timeouts in [`Limits`](mcp_proto::Limits).
    ///
    /// Some legacy servers exit when they receive `server/discover`. Such a server is started again and gets
    /// `initialize` instead. To set a handler before the first message arrives, use [`options`](Self::options).
    ///
    /// # Errors
    ///
    /// - [`Error::Spawn`] if the process cannot be started.
    /// - [`Error::Closed`] if the process ended, did not answer in time, or is not an MCP server. No process is left
    ///   running.
    pub fn spawn_with(config: Config, program: impl Borrow<Program> + Send) -> Result<Self, Error> {
        Options::new(config).spawn(program)
    }

    /// Connects over any byte stream and waits until the server is ready.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] and [`Error::Io`], as for [`spawn_with`](Self::spawn_with).
    pub fn connect<D: Duplex + Send + 'static>(config: Config, stream: D) -> Result<Self, Error> {
        Options::new(config).connect(stream)
    }

    /// Connects to the HTTP server at `url` (example: `http://127.0.0.1:8080/mcp`) and waits until it is ready.
    ///
    /// The client finds out which revision and which HTTP transport the server speaks. To set a handler or a token, use
    /// [`options`](Self::options) and [`Options::connect_http`].
    ///
    /// Connections are opened when they are needed. Host names are resolved on another thread, within 10 s. Several
    /// addresses of one name are tried in turn, alternating between IPv6 and IPv4.
    ///
    /// # Errors
    ///
    /// - [`Error::Url`] if `url` is not usable; `https` needs the feature `tls`.
    /// - [`Error::Closed`] if there is no server, if it is not an MCP server, or if it does not answer in time.
    #[cfg(feature = "http")]
    pub fn connect_url(url: &str) -> Result<Self, Error> {
        Options::default().connect_url(url)
    }

    /// Returns the options of a client with this configuration, to be set before it connects.
    #[must_use]
    pub fn options(config: Config) -> Options {
        Options::new(config)
    }

    /// Replaces the handler of the server's requests and notifications.
    pub fn set_handler(&mut self, handler: impl ClientHandler + Send + 'static) {
        self.calls.backend_mut().connection().handler = HandlerSlot::Local(Box::new(handler));
    }

    /// Sets the validator of structured results. It applies to tools that are listed from now on; see
    /// [`Options::validator`].
    pub fn set_validator(&self, validator: impl SchemaValidator + 'static) {
        self.backend().result_cache().set_schemas(Some(OutputSchemas::new(validator)));
    }

    /// Discards the cached results of this server, also for other clients that share the cache.
    pub fn clear_cache(&self) {
        self.backend().result_cache().invalidate_server();
    }

    /// Returns the server's revision, identity, capabilities and instructions.
    #[must_use]
    pub const fn peer(&self) -> &Peer {
        &self.calls.backend().peer
    }

    /// Returns the era that the client found the server to have, or `None` after the server contradicted it and in a
    /// callback.
    ///
    /// Store it and pass it to [`Config::known_era`] for the next connection, which then needs no probe.
    #[must_use]
    pub fn known_era(&self) -> Option<KnownEra> {
        self.backend().try_connection().ok()?.known_era
    }

    // ---- pending calls -----------------------------------------------------------------------------------------

    /// Waits for the result of a call that was started. Other calls may be answered in the meantime.
    ///
    /// # Errors
    ///
    /// As [`request`](BlockingCalls::request); [`UseError::Stale`] if the result was fetched before or the call was cancelled.
    pub fn wait(&self, call: CallKey) -> Result<RawJson, Error> {
        self.wait_with(call, &mut |_| {})
    }

    /// Waits as [`wait`](Self::wait) does, and passes progress to `on_progress`.
    ///
    /// Progress arrives only if the options of the call requested it.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_with(&self, call: CallKey, on_progress: &mut dyn FnMut(&Progress)) -> Result<RawJson, Error> {
        self.backend().wait(call, on_progress).map(|(result, _)| result)
    }

    /// Waits as [`wait`](Self::wait) does, at most for `timeout`. Returns `None` if there is no result by then; the
    /// call continues.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_timeout(&self, call: CallKey, timeout: Duration) -> Result<Option<RawJson>, Error> {
        let mut connection = self.backend().try_connection()?;
        let until = connection.transport.tick() + timeout;
        let outcome = connection.wait_outcome(call, Some(until), &mut None)?;
        Ok(outcome.map(|(result, _)| result))
    }

    /// Cancels a call and notifies the server. A result that has already arrived is discarded.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the result was fetched before or the call was cancelled.
    pub fn cancel(&self, call: CallKey, reason: Option<&str>) -> Result<(), Error> {
        let mut connection = self.backend().try_connection()?;
        if !connection.cancel(call, reason) {
            return Err(Error::Use(UseError::Stale));
        }
        connection.flush();
        Ok(())
    }

    // ---- between calls -----------------------------------------------------------------------------------------

    /// Waits for an event, at most for `timeout`, and runs the handler on it. Returns whether there was an event.
    ///
    /// Results that arrive are kept for the `wait` methods.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if the connection has ended.
    pub fn poll(&self, timeout: Duration) -> Result<bool, Error> {
        let mut connection = self.backend().try_connection()?;
        let until = connection.transport.tick() + timeout;
        let events_before = connection.event_count;
        loop {
            connection.check_open()?;
            connection.turn(Some(until), &mut None);
            if connection.event_count != events_before {
                return connection.check_open().map(|()| true);
            }
            if connection.transport.now() >= until {
                return Ok(false);
            }
        }
    }

    /// Subscribes to changes, and waits until the server has acknowledged the subscription.
    ///
    /// Returns the key of the subscription, and the part of the filter that the server acknowledged.
    /// From then on [`ClientHandler::changed`] receives changes while any method of the client runs; call
    /// [`poll`](Self::poll) between calls. Earlier changes are not reported: read the current state after this method
    /// returns. A legacy server may report fewer changes than it acknowledged.
    ///
    /// ```no_run
    /// # fn example(client: &mcp_blocking::Client) -> Result<(), mcp_blocking::Error> {
    /// use mcp_blocking::mcp_proto::model::SubscriptionFilter;
    ///
    /// let filter = SubscriptionFilter::new().tools_list_changed(true).resource_subscriptions(["file:///log".into()]);
    /// let (subscription, honoured) = client.subscribe(&filter)?;
    /// while client.poll(std::time::Duration::from_secs(60))? {}
    /// client.unsubscribe(subscription)?;
    /// # let _ = honoured;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Error::Use`] if there are too many subscriptions, or a URI is too long.
    /// - [`Error::Call`] if the server refuses or does not answer in time.
    /// - Otherwise as [`start`](BlockingCalls::start).
    pub fn subscribe(
        &self,
        filter: &SubscriptionFilter,
    ) -> Result<(SubscriptionKey, SubscriptionFilter), Error> {
        self.backend().try_connection()?.subscribe(filter)
    }

    /// Returns the engine, for operations that have no method here.
    ///
    /// Output of its commands is sent with the next [`poll`](Self::poll). The outcomes of calls that it starts are
    /// discarded.
    pub fn engine(&mut self) -> &mut Engine {
        self.calls.backend_mut().connection().transport.engine()
    }

    /// Returns the current time, for commands of the engine.
    pub fn now(&mut self) -> Instant {
        self.calls.backend_mut().connection().transport.tick()
    }

    /// Closes the connection, and shuts the server process down if this client started it.
    ///
    /// The process gets the end of its stdin, then `SIGTERM`, then `SIGKILL`, each after the wait that
    /// [`Options::shutdown_timeouts`] sets. Returns how the process ended; `None` if this client started no process.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if a stream that is not a process of this client could not be closed properly.
    pub fn close(mut self) -> Result<Option<ShutdownReport>, Error> {
        self.calls.backend_mut().connection().finish()
    }
}
