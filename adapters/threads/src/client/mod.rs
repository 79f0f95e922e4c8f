//! A client for any thread: one thread moves the bytes, and another runs the callbacks.

mod callback_queue;
mod wait;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::fmt;
use core::time::Duration;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::Instant as StdInstant;

use mcp_proto::client::{Config, Engine, KnownEra, OutputSchemas, Peer, SchemaValidator, SubscriptionKey};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{CallKey, Instant, Progress, RawJson, UseError};
use mcp_std::adapter::client::{
    CallAnswer, Callback, ClientHandler, ClientSetup, CommandQueue, Connection, ConnectionHandle,
    ConnectionTarget, Connector, HandlerSlot, OutcomeReceiver, ReadyConnection, RemoteHandler, ResultCache,
    StreamConnector,
};
use mcp_std::io::Duplex;
use mcp_std::process::{Program, ShutdownReport};
use mcp_std::{Error, catch};
use serde::Serialize;

use crate::Options;
use callback_queue::CallbackQueue;
use wait::wait_for_slot;

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
pub struct Client(Arc<ClientHandle>);

/// State that all handles share.
struct ClientHandle {
    caller: ConnectionHandle,
    callbacks: CallbackQueue,
    loop_thread: Mutex<LoopThread>,
    loop_thread_id: ThreadId,
}

/// The thread that moves the bytes.
enum LoopThread {
    Running(JoinHandle<Result<Option<ShutdownReport>, Error>>),
    /// The thread has ended; this is how the server process ended.
    Finished(Option<ShutdownReport>),
}

/// A call that was started; [`Client::wait`] fetches its result.
///
/// Dropping it cancels the call and notifies the server.
#[must_use = "dropping it cancels the call"]
pub struct PendingCall {
    slot: OutcomeReceiver<CallAnswer>,
    client: Client,
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
        self.client.0.caller.cancel(&self.slot, None);
    }
}

impl TryFrom<ReadyConnection> for Client {
    type Error = Error;

    fn try_from(ReadyConnection { mut connection, peer }: ReadyConnection) -> Result<Self, Error> {
        let waker = connection.transport.waker().map_err(Error::Io)?;
        let handler = connection.take_handler();
        let limits = connection.transport.engine().config().effective_limits();
        let callbacks =
            CallbackQueue::new(limits.max_waiting_requests, limits.max_waiting_bytes, waker.clone());
        connection.handler = HandlerSlot::Remote(Box::new(callbacks.clone()));
        let (commands, caller) = CommandQueue::new(&mut connection, peer, &waker);
        callbacks.spawn_thread(handler, caller.clone())?;
        let loop_callbacks = callbacks.clone();
        let thread = thread::Builder::new().name("mcp-client".into());
        let thread = thread
            .spawn(move || run_loop(commands, connection, &loop_callbacks))
            .inspect_err(|_| callbacks.close())?;
        let thread_id = thread.thread().id();
        let thread = Mutex::new(LoopThread::Running(thread));
        Ok(Self(Arc::new(ClientHandle { caller, callbacks, loop_thread: thread, loop_thread_id: thread_id })))
    }
}

/// Runs the loop until the connection has ended. Returns how the server process ended.
fn run_loop(
    mut commands: CommandQueue,
    mut connection: Connection,
    callbacks: &CallbackQueue,
) -> Result<Option<ShutdownReport>, Error> {
    let result = catch(|| {
        loop {
            commands.process_commands(&mut connection);
            if commands.is_close_requested() || connection.is_over() {
                break;
            }
            connection.turn(commands.next_deadline(), &mut None);
        }
    });
    if let Err(panic) = result {
        // A stream that the program provided has panicked: do not use it again, and fail all calls.
        connection.abort_unclean(io::Error::other(panic.to_string()));
    }
    commands.notify_closed(&mut connection);
    let ended = connection.finish();
    callbacks.close();
    ended
}

impl Connector for Client {
    type Connecting<'a> = Result<Self, Error>;

    fn default_config() -> Config {
        Config::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    fn open(setup: ClientSetup, target: ConnectionTarget<'_>) -> Self::Connecting<'_> {
        setup.open(target).and_then(Self::try_from)
    }

    fn refuse(error: Error) -> Self::Connecting<'static> {
        Err(error)
    }
}

impl<D: Duplex + Send + 'static> StreamConnector<D> for Client {
    fn open_stream(setup: ClientSetup, stream: D) -> Self::Connecting<'static> {
        setup.open_stream(stream).and_then(Self::try_from)
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
        self.0.callbacks.set_handler(Box::new(handler));
    }

    /// Sets the validator of structured results. It applies to tools that are listed from now on; see
    /// [`Options::validator`].
    pub fn set_validator(&self, validator: impl SchemaValidator + 'static) {
        self.result_cache().set_schemas(Some(OutputSchemas::new(validator)));
    }

    /// Discards the cached results of this server, also for other clients that share the cache.
    pub fn clear_cache(&self) {
        self.result_cache().invalidate_server();
    }

    /// Returns the server's revision, identity, capabilities and instructions.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        self.0.caller.peer()
    }

    /// Returns the era that the client found the server to have. Returns `None` after the server contradicted it, and
    /// after the connection has ended.
    ///
    /// Store it and pass it to [`Config::known_era`] for the next connection, which then needs no probe.
    #[must_use]
    pub fn known_era(&self) -> Option<KnownEra> {
        self.run_on_loop(|connection| Ok(connection.known_era)).ok().flatten()
    }

    mcp_std::client_calls!(
        self,
        [&self],
        [],
        [],
        PendingCall,
        dyn FnMut(&Progress),
        "# let client = mcp_threads::Client::spawn(mcp_threads::Program::new(\"my-server\"))?;",
        "# Ok::<(), mcp_threads::Error>(())"
    );

    // ---- pending calls -----------------------------------------------------------------------------------------

    /// Waits for the result of a call that was started.
    ///
    /// # Errors
    ///
    /// As [`request`](Self::request), and errors that [`start`](Self::start) could not know yet: requests that this
    /// server does not support.
    pub fn wait(&self, call: PendingCall) -> Result<RawJson, Error> {
        self.result(call, None).map(|(result, _)| result)
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
        self.result(call, Some(on_progress)).map(|(result, _)| result)
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
        self.0.caller.cancel(&call.slot, reason);
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
    /// - Otherwise as [`start`](Self::start).
    pub fn subscribe(
        &self,
        filter: &SubscriptionFilter,
    ) -> Result<(SubscriptionKey, SubscriptionFilter), Error> {
        self.wait_for(&self.0.caller.subscribe(filter.clone())?)
    }

    /// Closes the connection for all handles, and shuts the server process down if this client started it.
    ///
    /// The process gets the end of its stdin, then `SIGTERM`, then `SIGKILL`, each after the wait that
    /// [`Options::shutdown_timeouts`] sets. Pending calls fail with [`Error::Closed`]. Returns how the process ended;
    /// `None` if this client started no process.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if a stream that is not a process of this client could not be closed properly.
    pub fn close(self) -> Result<Option<ShutdownReport>, Error> {
        self.0.close()
    }

    /// Checks that calls can still be made.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] with all known details if the connection has ended.
    pub fn check_open(&self) -> Result<(), Error> {
        if self.0.caller.is_over() { Err(self.0.caller.closed_error()) } else { Ok(()) }
    }

    // ---- callees of `client_calls!` ----------------------------------------------------------------------------

    /// Returns `None`, because another thread owns the engine: calls start by [`begin`](Self::begin).
    #[expect(clippy::unused_self, reason = "the clients of other adapters own their engine")]
    fn try_begin(
        &self,
        _progress: bool,
        _command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError>,
    ) -> Option<Result<PendingCall, Error>> {
        None
    }

    fn begin(
        &self,
        progress: bool,
        command: impl FnOnce(&mut Engine, Instant) -> Result<CallKey, UseError> + Send + 'static,
    ) -> Result<PendingCall, Error> {
        let slot = self.0.caller.call(progress, command)?;
        Ok(PendingCall { slot, client: self.clone() })
    }

    fn command(
        &self,
        command: impl FnOnce(&mut Engine, Instant) -> Result<(), UseError> + Send + 'static,
    ) -> Result<(), Error> {
        self.run_on_loop(|connection| connection.command(command))
    }

    /// Runs a job on the loop's thread and waits for its result.
    fn run_on_loop<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.wait_for(&self.0.caller.run(job)?)
    }

    fn wait_for<T>(&self, slot: &OutcomeReceiver<T>) -> Result<T, Error> {
        wait_for_slot(slot, None, &mut |_| {}).unwrap_or_else(|| Err(self.0.caller.closed_error()))
    }

    #[expect(clippy::needless_pass_by_value, reason = "a call has one result")]
    fn result(
        &self,
        call: PendingCall,
        on_progress: Option<&mut dyn FnMut(&Progress)>,
    ) -> Result<CallAnswer, Error> {
        if call.slot.is_finished() {
            return Err(Error::Use(UseError::Stale));
        }
        let outcome = match on_progress {
            Some(on_progress) => wait_for_slot(&call.slot, None, on_progress),
            None => wait_for_slot(&call.slot, None, &mut |_| {}),
        };
        outcome.unwrap_or_else(|| Err(self.0.caller.closed_error()))
    }

    fn catch_up(&self) -> Result<(), Error> {
        self.run_on_loop(|connection| {
            connection.catch_up();
            Ok(())
        })
    }

    fn encode<T: Serialize + ?Sized>(&self, value: &T) -> Result<RawJson, Error> {
        self.0.caller.encode_params(value)
    }

    fn name(name: &str) -> Box<str> {
        name.into()
    }

    fn result_cache(&self) -> &ResultCache {
        self.0.caller.cache()
    }

    fn dispatch(&self, callback: Callback) {
        self.0.callbacks.clone().dispatch(callback);
    }

    fn max_list_bytes(&self) -> usize {
        self.0.caller.max_list_bytes()
    }
}

impl ClientHandle {
    /// Closes the connection and joins the loop's thread, unless this is the loop's thread.
    fn close(&self) -> Result<Option<ShutdownReport>, Error> {
        let _ = self.caller.close();
        if thread::current().id() == self.loop_thread_id {
            return Ok(None);
        }
        let mut thread = self.loop_thread.lock().unwrap_or_else(PoisonError::into_inner);
        match core::mem::replace(&mut *thread, LoopThread::Finished(None)) {
            LoopThread::Running(running) => {
                let ended = running.join().unwrap_or(Ok(None))?;
                *thread = LoopThread::Finished(ended.clone());
                Ok(ended)
            }
            LoopThread::Finished(ended) => {
                *thread = LoopThread::Finished(ended.clone());
                Ok(ended)
            }
        }
    }
}

impl Drop for ClientHandle {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("caller", &self.0.caller).finish_non_exhaustive()
    }
}

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall").field("call", &self.slot.call()).finish_non_exhaustive()
    }
}
