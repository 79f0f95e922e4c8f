//! A client for any thread: one thread moves the bytes, and another runs the callbacks.

mod backend;
mod callback_queue;
mod wait;

use alloc::boxed::Box;
use core::borrow::Borrow;
use core::fmt;
use core::ops::Deref;
use core::time::Duration;
use std::time::Instant as StdInstant;

use mcp_proto::client::{Config, KnownEra, OutputSchemas, Peer, SchemaValidator, SubscriptionKey};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallKey, Progress, RawJson, UseError};
use mcp_runtime::Error;
use mcp_runtime::client::{
    BlockingCalls, BlockingConnector, CallAnswer, ClientBackend, ClientHandler, ClientSetup,
    ConnectionTarget, Connector, OutcomeReceiver, StreamConnector,
};
use mcp_std::io::Duplex;
use mcp_std::process::{Program, ShutdownReport};

use crate::Options;
use wait::wait_for_slot;

pub use backend::LoopBackend;

/// A handle of a connection to one server, ready for calls from any thread.
///
/// Clones are handles of the same connection. A call waits for its own answer only.
///
/// A connection has two threads. One moves the bytes: it answers the server's pings and observes timeouts, even while
/// no call is made. The other runs the callbacks ([`ClientHandler`]) in order. A callback may take an hour (a user
/// fills in a form); only other callbacks wait for it.
///
/// At most [`Limits::max_waiting_requests`](mcp_proto::Limits) callbacks and
/// [`max_waiting_bytes`](mcp_proto::Limits) bytes are queued. Beyond that, nothing is read from the server until the
/// handler has caught up, and calls wait until their timeouts at most.
///
/// When the last handle is dropped, the server is shut down as by [`close`](Self::close), which may take a while; the
/// outcome is discarded. A handler that holds a handle keeps the connection open.
///
/// The client dereferences to its [calls](BlockingCalls).
///
/// ```no_run
/// use mcp_threads::{Client, Program};
///
/// let client = Client::spawn(Program::new("my-server").arg("--stdio"))?;
/// std::thread::scope(|scope| {
///     for n in 0..8 {
///         let client = &client;
///         scope.spawn(move || {
///             let result = client.call_tool("add", &serde_json::json!({"a": n, "b": 22}))?;
///             println!("{:?}", result.content);
///             Ok::<(), mcp_threads::Error>(())
///         });
///     }
/// });
/// # Ok::<(), mcp_threads::Error>(())
/// ```
#[derive(Clone)]
pub struct Client {
    calls: BlockingCalls<LoopBackend>,
}

impl Deref for Client {
    type Target = BlockingCalls<LoopBackend>;

    fn deref(&self) -> &Self::Target {
        &self.calls
    }
}

/// A call that was started; [`Client::wait`] fetches its result.
///
/// Dropping it cancels the call and notifies the server.
#[must_use = "dropping it cancels the call"]
pub struct PendingCall {
    slot: OutcomeReceiver<CallAnswer>,
    backend: LoopBackend,
}

impl PendingCall {
    /// Returns the key under which the handler gets progress of the call; `None` until the call has been sent.
    #[must_use]
    pub fn key(&self) -> Option<CallKey> {
        self.slot.call()
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.backend.caller().cancel(&self.slot, None);
    }
}

impl Connector for Client {
    type Connecting<'a> = Result<Self, Error>;

    fn default_config() -> Config {
        Config::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    fn open(setup: ClientSetup, target: ConnectionTarget<'_>) -> Self::Connecting<'_> {
        setup.open(target).and_then(LoopBackend::try_from).map(Self::new)
    }

    fn refuse(error: Error) -> Self::Connecting<'static> {
        Err(error)
    }
}

impl BlockingConnector for Client {}

impl<D: Duplex + Send + 'static> StreamConnector<D> for Client {
    fn open_stream(setup: ClientSetup, stream: D) -> Self::Connecting<'static> {
        setup.open_stream(stream).and_then(LoopBackend::try_from).map(Self::new)
    }
}

impl Client {
    const fn new(backend: LoopBackend) -> Self {
        Self { calls: BlockingCalls::new(backend) }
    }

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
    /// `initialize` instead. [`options`](Self::options) sets a handler that is in place from the beginning; until the
    /// server is ready, it runs on the calling thread.
    ///
    /// # Errors
    ///
    /// - [`Error::Spawn`] if the process cannot be started.
    /// - [`Error::Closed`] if the process ended, did not answer in time, or is not an MCP server. No process is left
    ///   running.
    /// - [`Error::Io`] if no thread can be started.
    pub fn spawn_with(config: Config, program: impl Borrow<Program> + Send) -> Result<Self, Error> {
        Options::new(config).spawn(program)
    }

    /// Connects over any byte stream that has a [waker](Duplex::waker), and waits until the server is ready.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] and [`Error::Io`], as for [`spawn_with`](Self::spawn_with).
    pub fn connect<D: Duplex + Send + 'static>(config: Config, stream: D) -> Result<Self, Error> {
        Options::new(config).connect(stream)
    }

    /// Connects to the HTTP server at `url` (example: `http://127.0.0.1:8080/mcp`) and waits until it is ready.
    ///
    /// The client finds out which revision and which HTTP transport the server speaks. [`options`](Self::options) sets
    /// a handler, tokens ([`Options::connect_http`]) and the rest.
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

    /// Replaces the handler of the server's requests and notifications. Those already received go to the old handler.
    pub fn set_handler(&self, handler: impl ClientHandler + Send + 'static) {
        self.backend().set_handler(Box::new(handler));
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
    pub fn peer(&self) -> &Peer {
        self.backend().caller().peer()
    }

    /// Returns the era that the client found the server to have. Returns `None` after the server contradicted it, and
    /// after the connection has ended.
    ///
    /// Store it and pass it to [`Config::known_era`] for the next connection, which then needs no probe.
    #[must_use]
    pub fn known_era(&self) -> Option<KnownEra> {
        self.backend().run_on_loop(|connection| Ok(connection.known_era)).ok().flatten()
    }

    // ---- pending calls -----------------------------------------------------------------------------------------

    /// Waits for the result of a call that was started.
    ///
    /// # Errors
    ///
    /// As [`request`](BlockingCalls::request), and errors that [`start`](BlockingCalls::start) could not know yet: requests that this
    /// server does not support.
    pub fn wait(&self, call: PendingCall) -> Result<RawJson, Error> {
        self.backend().wait(call, &mut |_| {}).map(|(result, _)| result)
    }

    /// Waits as [`wait`](Self::wait) does, and passes progress to `on_progress` on this thread.
    ///
    /// Progress arrives only if the options of the call requested it. If progress arrives faster than it is passed on,
    /// only the newest is kept.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn wait_with(
        &self,
        call: PendingCall,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<RawJson, Error> {
        call.slot.enable_progress();
        self.backend().wait(call, on_progress).map(|(result, _)| result)
    }

    /// Waits as [`wait`](Self::wait) does, at most for `timeout`. Returns `None` if there is no result by then; the
    /// call continues.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait); [`UseError::Stale`] if the result was fetched before.
    pub fn wait_timeout(&self, call: &mut PendingCall, timeout: Duration) -> Result<Option<RawJson>, Error> {
        if call.slot.is_finished() {
            return Err(Error::Use(UseError::Stale));
        }
        let until = StdInstant::now().checked_add(timeout);
        let outcome = wait_for_slot(&call.slot, until, &mut |_| {}).transpose()?;
        Ok(outcome.map(|(result, _)| result))
    }

    /// Cancels a call and notifies the server. A result that has already arrived is discarded.
    ///
    /// # Errors
    ///
    /// None at present; the type is that of other adapters.
    pub fn cancel(&self, call: PendingCall, reason: Option<&str>) -> Result<(), Error> {
        self.backend().caller().cancel(&call.slot, reason);
        drop(call);
        Ok(())
    }

    // ---- between calls -----------------------------------------------------------------------------------------

    /// Subscribes to changes, and waits until the server has acknowledged the subscription.
    ///
    /// Returns the key of the subscription, and the part of the filter that the server acknowledged.
    /// From then on [`ClientHandler::changed`] receives changes. Earlier changes are not reported: read the current
    /// state after this method returns. A legacy server may report fewer changes than it
    /// acknowledged.
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
        let backend = self.backend();
        backend.wait_for(&backend.caller().subscribe(filter.clone())?)
    }

    /// Closes the connection for all handles, and shuts the server process down if this client started it.
    ///
    /// The process gets the end of its stdin, then `SIGTERM`, then `SIGKILL`, each after the wait that
    /// [`Options::shutdown_timeouts`] sets. Pending calls fail with [`Error::Closed`]. Returns how the process ended;
    /// `None` if this client started no process.
    ///
    /// What the handler has not seen yet (notifications, diagnostics) is passed to it before this method returns, unless
    /// the handler takes longer than a second.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if a stream that is not a process of this client could not be closed properly.
    pub fn close(self) -> Result<Option<ShutdownReport>, Error> {
        self.backend().close()
    }

    /// Checks that calls can still be made.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] with all known details if the connection has ended.
    pub fn check_open(&self) -> Result<(), Error> {
        let caller = self.backend().caller();
        if caller.is_over() { Err(caller.closed_error()) } else { Ok(()) }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("caller", self.backend().caller()).finish_non_exhaustive()
    }
}

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall").field("call", &self.slot.call()).finish_non_exhaustive()
    }
}
