//! An asynchronous client, driven by the tasks that await its calls.

mod async_handler;
mod backend;
mod driver;
mod open;
mod watch;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::borrow::Borrow;
use core::fmt;
use core::future::{Future, poll_fn};
use core::ops::Deref;
use core::pin::Pin;
use core::task::Poll;
use core::time::Duration;

use mcp_proto::client::{Config, KnownEra, OutputSchemas, Peer, SchemaValidator, SubscriptionKey};
use mcp_proto::model::SubscriptionFilter;
use mcp_proto::{Progress, RawJson};
use mcp_std::process::{Program, ShutdownReport};

use super::{AsyncTimer, PollStream, Runtime, sleep, timer_after};
use crate::Error;
use crate::client::{
    AsyncCalls, ClientBackend, ClientHandler, ClientNext, ClientRequest, ConnectionHandle, HandlerSlot,
    Options, Retry,
};
use driver::{ClientShared, ConnectionDriver, LeaderQueue, WaiterGuard};
use open::{LeaveOnDrop, SubscribeGuard};
use watch::poll_until;

pub use async_handler::{AsyncClientHandler, async_handler};
pub use backend::SharedBackend;
pub use open::{Connecting, PendingCall, RunWith};
pub use watch::Run;

/// A handle of a connection to one server, ready for calls from any task.
///
/// Clones are handles of the same connection. Nothing is spawned: of all tasks that await a call, one (the leader)
/// moves the bytes for all, and another takes over when the leader has its answer.
///
/// Bytes move only while some task awaits the client. A program that pauses between calls should spawn
/// [`run`](Self::run), or [`poll`](Self::poll) from time to time. Otherwise requests of the server stay unanswered and
/// its output accumulates. The client works under any executor, if its runtime does.
///
/// Dropping the future of a call cancels the call; the next leader notifies the server. Drop a future that was polled
/// and is no longer needed: it may be the leader, and the other tasks would wait for it.
///
/// When the last handle is dropped, the server is shut down as by [`close`](Self::close), and the outcome is discarded.
/// The future of `run` does this if there is one. Otherwise a thread is started, unless the connection ends
/// immediately.
///
/// The client dereferences to its [calls](AsyncCalls).
pub struct Client<R: Runtime> {
    calls: AsyncCalls<SharedBackend<R>>,
}

impl<R: Runtime> Clone for Client<R> {
    fn clone(&self) -> Self {
        Self { calls: self.calls.clone() }
    }
}

impl<R: Runtime> Deref for Client<R> {
    type Target = AsyncCalls<SharedBackend<R>>;

    fn deref(&self) -> &Self::Target {
        &self.calls
    }
}

impl<R: Runtime> Client<R> {
    fn new(driver: ConnectionDriver<R>, leader_queue: Arc<LeaderQueue>, caller: ConnectionHandle) -> Self {
        Self { calls: AsyncCalls::new(SharedBackend::new(driver, leader_queue, caller)) }
    }

    fn shared(&self) -> &Arc<ClientShared<R>> {
        self.backend().shared()
    }

    /// Starts a server process and waits until it is ready.
    ///
    /// The client supports every revision and declares no capabilities; [`spawn_with`](Self::spawn_with) takes a
    /// configuration.
    ///
    /// # Errors
    ///
    /// As [`spawn_with`](Self::spawn_with).
    pub async fn spawn(program: impl Borrow<Program> + Send) -> Result<Self, Error> {
        Options::<Self>::default().spawn(program).await
    }

    /// Starts a server process and waits until it is ready, at most for the timeouts in [`Limits`](mcp_proto::Limits).
    ///
    /// Some legacy servers exit when they receive `server/discover`. Such a server is started again and gets
    /// `initialize` instead. [`options`](Self::options) sets a handler that is in place from the beginning. Dropping
    /// the future shuts the server down as dropping a client does.
    ///
    /// # Errors
    ///
    /// - [`Error::Spawn`] if the process cannot be started.
    /// - [`Error::Closed`] if the process ended, did not answer in time, or is not an MCP server. No process is left
    ///   running.
    pub async fn spawn_with(config: Config, program: impl Borrow<Program> + Send) -> Result<Self, Error> {
        Options::<Self>::new(config).spawn(program).await
    }

    /// Connects over any byte stream and waits until the server is ready.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] and [`Error::Io`], as for [`spawn_with`](Self::spawn_with).
    pub async fn connect<S>(config: Config, stream: S) -> Result<Self, Error>
    where
        R: PollStream<S>,
        S: Send + 'static,
    {
        Options::<Self>::new(config).connect(stream).await
    }

    /// Connects to the HTTP server at `url` (example: `http://127.0.0.1:8080/mcp`) and waits until it is ready.
    ///
    /// The client finds out which revision and which HTTP transport the server speaks. [`options`](Self::options) sets
    /// a handler, tokens ([`Options::connect_http`]) and the rest.
    ///
    /// Connections are opened when they are needed, and names are resolved on a thread. Several addresses of one name
    /// are tried in turn, alternating between IPv6 and IPv4. Linux only; elsewhere the operation is unsupported.
    ///
    /// # Errors
    ///
    /// - [`Error::Url`] if `url` is not usable; `https` needs the feature `tls`.
    /// - [`Error::Closed`] if there is no server, if it is not an MCP server, or if it does not answer in time.
    #[cfg(feature = "http")]
    pub async fn connect_url(url: &str) -> Result<Self, Error> {
        Options::<Self>::default().connect_url(url).await
    }

    /// Returns the options of a client with this configuration, to be set before it connects.
    #[must_use]
    pub fn options(config: Config) -> Options<Self> {
        Options::<Self>::new(config)
    }

    /// Replaces the handler of the server's requests and notifications.
    ///
    /// The methods of a handler run in the leader's task and must be fast. For slow answers, use
    /// [`async_handler`], or leave the request open and [answer](AsyncCalls::answer) it later. Requests
    /// that a replaced asynchronous handler has open are refused.
    pub fn set_handler(&self, handler: impl ClientHandler + Send + 'static) {
        self.shared()
            .caller
            .run_unbounded(move |connection| connection.set_handler(HandlerSlot::Local(Box::new(handler))));
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
        self.shared().caller.peer()
    }

    /// Returns the era that the client found the server to have. Returns `None` after the server contradicted it, and
    /// after the connection has ended.
    ///
    /// Store it and pass it to [`Config::known_era`] for the next connection, which then needs no probe.
    pub async fn known_era(&self) -> Option<KnownEra> {
        self.backend().run_on_loop(|connection| Ok(connection.known_era)).await.ok().flatten()
    }

    // ---- pending calls -----------------------------------------------------------------------------------------

    /// Waits for the result of a call that was started.
    ///
    /// # Errors
    ///
    /// As [`request`](AsyncCalls::request), and errors that [`start`](AsyncCalls::start) could not know yet: requests that this
    /// server does not support.
    pub async fn wait(&self, call: PendingCall<R>) -> Result<RawJson, Error> {
        call.await
    }

    /// Waits as [`wait`](Self::wait) does, and passes progress to `on_progress`.
    ///
    /// Progress arrives only if the options of the call requested it. If progress arrives faster than it is passed on,
    /// only the newest is kept.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub async fn wait_with(
        &self,
        call: PendingCall<R>,
        on_progress: &mut (dyn FnMut(&Progress) + Send),
    ) -> Result<RawJson, Error> {
        call.slot.enable_progress();
        self.backend().result(call, on_progress).await.map(|(result, _)| result)
    }

    /// Waits as [`wait`](Self::wait) does, at most for `timeout`. Returns `None` if there is no result by then; the
    /// call continues.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait); [`UseError::Stale`](mcp_proto::UseError) if the result was fetched before.
    pub async fn wait_timeout(
        &self,
        call: &mut PendingCall<R>,
        timeout: Duration,
    ) -> Result<Option<RawJson>, Error> {
        let call = LeaveOnDrop(call);
        let mut timer = timer_after::<R>(timeout);
        poll_fn(|cx| match Pin::new(&mut *call.0).poll(cx) {
            Poll::Pending => timer.poll(cx).map(|()| Ok(None)),
            Poll::Ready(outcome) => Poll::Ready(outcome.map(Some)),
        })
        .await
    }

    /// Cancels a call and notifies the server. A result that has already arrived is discarded.
    ///
    /// # Errors
    ///
    /// None at present; the type is that of other adapters.
    pub fn cancel(&self, call: PendingCall<R>, reason: Option<&str>) -> Result<(), Error> {
        self.shared().caller.cancel(&call.slot, reason);
        drop(call);
        Ok(())
    }

    // ---- between calls -----------------------------------------------------------------------------------------

    /// Returns a future that drives the connection to its end, even while no task awaits a call. Spawn it.
    ///
    /// It does not keep the connection open: when the last handle is dropped, it shuts the server down and completes.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if the connection ended without being closed by this side.
    pub fn run(&self) -> Run<R> {
        self.shared().leader_queue.wake_by_ref();
        Run::new(self.shared().clone())
    }

    /// Drives the connection as [`run`](Self::run) does, with a handler that stays in this future.
    ///
    /// Neither the handler nor, with [`async_handler`], its futures need be `Send`. From now on
    /// the handler gets all callbacks, and nothing is answered while this future is not polled. At most
    /// [`Limits::max_waiting_requests`](mcp_proto::Limits) callbacks and [`max_waiting_bytes`](mcp_proto::Limits) bytes
    /// are queued; beyond that, nothing is read from the server until the handler has caught up. Dropping the future
    /// refuses open requests. Then callbacks are discarded until another handler is set.
    pub fn run_with<H: ClientHandler>(&self, handler: H) -> RunWith<R, H> {
        RunWith::new(self, handler)
    }

    /// Waits for an event, at most for `timeout`, and runs the handler on it. Returns whether there was an event.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] if the connection has ended.
    pub async fn poll(&self, timeout: Duration) -> Result<bool, Error> {
        let shared = &**self.shared();
        let mut timer = timer_after::<R>(timeout);
        let mut waiter = WaiterGuard::new(shared.leader_queue.clone(), true);
        let events_before = shared.leader_queue.events_seen();
        // The last leader may have left work.
        shared.leader_queue.wake_by_ref();
        poll_fn(|cx| {
            poll_until(shared, &mut waiter, cx, |cx| {
                if shared.caller.is_over() {
                    return Poll::Ready(Err(shared.caller.closed_error()));
                }
                if shared.leader_queue.events_seen() != events_before {
                    return Poll::Ready(Ok(true));
                }
                timer.poll(cx).map(|()| Ok(false))
            })
        })
        .await
    }

    /// Subscribes to changes, and waits until the server has acknowledged the subscription.
    ///
    /// Returns the key of the subscription, and the part of the filter that the server acknowledged.
    /// From then on [`ClientHandler::changed`] receives changes while some task awaits the client; spawn
    /// [`run`](Self::run) to receive them between calls. Earlier changes are not reported: read the current state after
    /// this method returns. A legacy server may report fewer changes than it acknowledged.
    ///
    /// # Errors
    ///
    /// - [`Error::Use`] if there are too many subscriptions, or a URI is too long.
    /// - [`Error::Call`] if the server refuses or does not answer in time.
    /// - Otherwise as [`start`](AsyncCalls::start).
    pub async fn subscribe(
        &self,
        filter: &SubscriptionFilter,
    ) -> Result<(SubscriptionKey, SubscriptionFilter), Error> {
        let caller = &self.shared().caller;
        let subscribing = SubscribeGuard { slot: caller.subscribe(filter.clone())?, caller };
        self.backend().wait_for(&subscribing.slot).await
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
    pub async fn close(self) -> Result<Option<ShutdownReport>, Error> {
        // It fails if the connection has ended already.
        let _ = self.shared().caller.close();
        let mut run = self.run();
        // If the connection ended by itself, the pending calls have received the error.
        let _ = (&mut run).await;
        run.take_exit()
    }

    /// Checks, without I/O, that calls can still be made.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] with all known details if the connection has ended.
    pub fn check_open(&self) -> Result<(), Error> {
        let caller = &self.shared().caller;
        if caller.is_over() { Err(caller.closed_error()) } else { Ok(()) }
    }
}

impl<R: Runtime> fmt::Debug for Client<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("caller", &self.shared().caller).finish_non_exhaustive()
    }
}

// Layers of asynchronous clients.

/// # Layers of asynchronous clients
impl<R: Runtime> Options<Client<R>> {
    /// Adds a [layer](Self#layers) around the requests of the application, inside those before it.
    ///
    /// Its future is polled by the task that makes the call. Dropping the future of a call drops those of its layers, and
    /// cancels what they wait for. A layer may run the inside several times at once. When its future has ended, calls that it
    /// has left to other tasks end with [`CallError::Cancelled`](mcp_proto::CallError::Cancelled).
    #[must_use]
    pub fn layer<F>(mut self, layer: impl Fn(ClientRequest, ClientNext) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<RawJson, Error>> + Send + 'static,
    {
        self.setup_mut().layers.push_async(Arc::new(move |request, next| Box::pin(layer(request, next))));
        self
    }

    /// Adds a layer that repeats requests, inside the layers before it. It waits with the timer of the runtime.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        let retry = Arc::new(retry);
        self.layer(move |request, next| {
            let retry = retry.clone();
            async move {
                let mut attempts = 1;
                loop {
                    let outcome = next.run(request.clone()).await;
                    let Err(error) = &outcome else { return outcome };
                    let pause = retry.pause_after(attempts, error).filter(|_| retry.may_repeat(&request));
                    let Some(pause) = pause else { return outcome };
                    sleep::<R>(pause).await;
                    attempts += 1;
                }
            }
        })
    }
}
