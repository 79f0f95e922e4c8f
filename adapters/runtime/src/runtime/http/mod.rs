//! HTTP servers: one future for all connections and event streams, or several shards.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::{Future, poll_fn};
use core::marker::PhantomData;
use core::net::SocketAddr;
use core::task::{Context, Poll};
use core::time::Duration;
use std::net::ToSocketAddrs;
use std::{io, thread};

use mcp_auth::token::TokenValidator;
use mcp_proto::Instant;
use mcp_proto::h1::HttpLimits;
use mcp_proto::http::server as http;
use mcp_proto::server::{Config, ConnectionInfo};
use mcp_std::catch;
use mcp_std::sync::{CoalescingWaker, Inbox};
use platform::SocketWatch;

use super::server::DEFAULT_MAX_RUNNING;
use super::{DeadlineTimer, FutureSet, Runtime, start_timer};
use crate::Error;
use crate::server as serve;
use crate::server::stream_core::MAX_PASSES_PER_TURN;
use crate::server::{AsyncHandler, FinishedCall, Handle, RemoteCall, SharedHandler, StartTimer, run_call};

/// An HTTP server in one future, or in [several shards](Self::shards): connections, event streams and handlers.
///
/// Calls run concurrently, as on a [byte stream](super::server::Server). A handler that computes without awaiting delays all
/// clients of its shard. A connection costs no task, and an idle connection little more than its buffers.
///
/// The number of connections is limited ([`max_connections`](Self::max_connections)), including event streams. At the
/// limit, a new connection waits: an idle, silent or slow one is evicted in its favour, or its request gets 503 with
/// `Retry-After` within a second. The same connections are evicted when the process has no descriptor left.
///
/// Every program that reaches the address can use the server. Listen at `127.0.0.1` or `[::1]` unless other machines
/// shall have access (HTTP-006). [`http::server::Config`](http::Config) sets which hosts and origins are accepted. On
/// public networks use TLS (`HttpServer::tls`, feature `tls`) or a proxy.
///
/// The reactor watches one descriptor for all connections.
pub struct HttpServer<R, H> {
    inner: InnerServer<H>,
    /// Starts the shards other than the first.
    spawn_shards: Option<SpawnShards<H>>,
    runtime: PhantomData<fn() -> R>,
}

type SpawnShards<H> = Box<dyn FnOnce(&mut InnerServer<H>) -> Result<ShardThreads, Error> + Send + Sync>;

/// The server or one of its shards, without the futures of handlers.
type InnerServer<H> = serve::HttpServer<SharedHandler<H>>;

impl<R: Runtime, H: AsyncHandler> HttpServer<R, H> {
    /// Binds `address` and starts to listen; connections are accepted while the server runs.
    ///
    /// With port 0 the system chooses a port: see [`address`](Self::address).
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the address cannot be bound, if there is no source of randomness, if a tool's schema requests
    /// invalid header fields, if [`AsyncHandler::for_each_tool`] panics, or, with `Unsupported`, outside of Unix.
    pub fn bind(
        address: impl ToSocketAddrs,
        config: Config,
        http: http::Config,
        handler: H,
    ) -> Result<Self, Error> {
        if cfg!(not(unix)) {
            return Err(Error::Io(io::ErrorKind::Unsupported.into()));
        }
        let mut inner = InnerServer::bind(address, config, http, SharedHandler(Arc::new(handler)))?;
        inner.max_running(DEFAULT_MAX_RUNNING);
        Ok(Self { inner, spawn_shards: None, runtime: PhantomData })
    }

    /// Sets on how many threads connections are served (default 1, at least 1).
    ///
    /// The first shard is the future of [`run`](Self::run). Each other shard has a thread that lasts as long as that
    /// future and polls the futures of its handlers. Those futures need not be `Send`; only the handler is shared.
    /// Shards do not wait for each other, so a handler that computes without awaiting delays its own shard only.
    ///
    /// Each shard has clients and sessions of its own. One shard serves tens of thousands of requests per second; more
    /// shards than cores are of no use. Connections are distributed in turn. A connection whose client names a session
    /// of another shard moves there.
    ///
    /// Use [`shards_with`](Self::shards_with) for a handler that cannot be shared, for example a
    /// router whose futures are not `Send`.
    #[must_use]
    pub fn shards(mut self, shards: u8) -> Self
    where
        H: Send + Sync + 'static,
    {
        let shared = self.inner.handler().0.clone();
        self.with_spawner(shards, move || SharedHandler(shared.clone()))
    }

    /// Sets the number of threads as [`shards`](Self::shards) does. `make` builds a handler on each thread but the
    /// first.
    ///
    /// A session stays with its shard, so a handler sees all requests of a session. A panic of `make` ends the server.
    #[must_use]
    pub fn shards_with(self, shards: u8, make: impl Fn() -> H + Send + Sync + 'static) -> Self
    where
        H: 'static,
    {
        self.with_spawner(shards, move || SharedHandler(Arc::new(make())))
    }

    fn with_spawner(mut self, shards: u8, make: impl Fn() -> SharedHandler<H> + Send + Sync + 'static) -> Self
    where
        H: 'static,
    {
        let make = Arc::new(make);
        self.spawn_shards = (shards > 1)
            .then(|| -> SpawnShards<H> { Box::new(move |first| spawn_shards::<R, H>(first, shards, &make)) });
        self
    }

    /// Pins each [shard](Self::shards) except the first to a core.
    ///
    /// A pinned shard gets the connections whose packets arrive on its core, as long as the shards stay evenly loaded.
    /// Use this on a machine that does little else and whose network card (or local proxy) uses several cores: data
    /// then stays on the core on which it arrived. The first shard runs wherever its caller runs. Threads that the
    /// handlers of a shard start inherit its core.
    ///
    /// Linux only; elsewhere it has no effect.
    #[must_use]
    pub fn pin_shards(mut self) -> Self {
        self.inner.pin_shards();
        self
    }

    /// Sets the maximum number of open connections, in all shards together (at least 1).
    ///
    /// The default is the number of descriptors that the process may have open when the server is created, less 128,
    /// and at most 10,000; see [`raise_descriptor_limit`](mcp_std::io::raise_descriptor_limit). An idle connection takes about
    /// 1 KiB, and one with a request at most [`Limits::max_frame`](mcp_proto::Limits) for its body and four times
    /// [`HttpLimits::max_buffered`](mcp_proto::h1::HttpLimits) for its buffers. Besides, 64 connections may wait.
    /// Three quarters of the connections may be event streams: a further one ends the one that has been quiet for
    /// longest.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.inner = self.inner.max_connections(connections);
        self
    }

    /// Sets the maximum number of open connections of one address (default: half of all; at least 1).
    ///
    /// Of IPv6, addresses of one network of 64 bits count as one. Addresses of this machine are not limited. Reached:
    /// 503. Behind a proxy on another machine, all clients have its address: set `usize::MAX` there.
    #[must_use]
    pub fn max_connections_per_address(mut self, connections: usize) -> Self {
        self.inner = self.inner.max_connections_per_address(connections);
        self
    }

    /// Sets how many calls run at a time in each shard (default 1,024, at least 1).
    ///
    /// More calls wait, up to [`Limits::max_waiting_requests`](mcp_proto::Limits) and
    /// [`max_waiting_bytes`](mcp_proto::Limits). Further requests are refused with 503.
    #[must_use]
    pub fn max_running(mut self, calls: usize) -> Self {
        self.inner.max_running(calls);
        self
    }

    /// Sets the limits of each connection (timeouts, sizes of heads).
    ///
    /// The limit on bodies is always [`Limits::max_frame`](mcp_proto::Limits).
    #[must_use]
    pub fn connection_limits(mut self, limits: HttpLimits) -> Self {
        self.inner = self.inner.connection_limits(limits);
        self
    }

    /// Serves TLS only. A connection without TLS is closed.
    ///
    /// The handshake has the same timeout as the head of a request ([`connection_limits`](Self::connection_limits)). A
    /// connection holds up to 32 KiB more in each direction while it moves data, and about 8 KiB more when idle.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: impl Into<mcp_std::tls::ServerTls>) -> Self {
        self.inner = self.inner.tls(tls);
        self
    }

    /// Sets the validator of access tokens, for a server that is [protected](http::Config::protected). Without one, no
    /// token is accepted.
    ///
    /// A decision that the [validator](mcp_auth::token::TokenValidator) cannot make at once is made on own threads,
    /// at most 8 at a time; 256 more tokens may wait. Beyond that, and after
    /// [`token_timeout`](mcp_proto::http::server::Config::token_timeout), requests get 503 with `Retry-After`. A token is
    /// validated at every request (SEC-004).
    #[must_use]
    pub fn validate_tokens(mut self, validator: impl TokenValidator + 'static) -> Self {
        self.inner = self.inner.validate_tokens(validator);
        self
    }

    /// Shares the sessions of clients with other processes, so that each request can go to any of them and a session survives
    /// its process ([`SharedSessions`](crate::server::SharedSessions)).
    ///
    /// Requests that need the store while it is down are answered with 503 and `Retry-After`: those that begin or change a
    /// session, and those of a session that is not here. Call this before [`shards`](Self::shards).
    ///
    /// # Errors
    ///
    /// [`Error::Tasks`] if the server has tasks, which other processes would not know; [`Error::Io`] if no thread can be
    /// started.
    #[cfg(feature = "shared-sessions")]
    pub fn share_sessions(mut self, sessions: &crate::server::SharedSessions) -> Result<Self, Error> {
        self.inner = self.inner.share_sessions(sessions)?;
        Ok(self)
    }

    /// Sets a callback that completes the description of each connection, before its first request.
    ///
    /// The description has the address of the client, and its certificates if TLS asks for them. Handlers get it with
    /// what the callback attaches: `cx.http()`, `cx.extension()`. The callback runs on a thread that accepts, after the TLS
    /// handshake, and must not block. If it panics, the connection ends.
    #[must_use]
    pub fn on_connect(
        mut self,
        describe: impl Fn(ConnectionInfo) -> ConnectionInfo + Send + Sync + 'static,
    ) -> Self {
        self.inner = self.inner.on_connect(describe);
        self
    }

    /// Enables [`AsyncHandler::head`].
    #[must_use]
    pub fn tap_heads(mut self) -> Self {
        self.inner = self.inner.tap_heads();
        self
    }

    /// Returns the address at which the server listens.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.inner.address()
    }

    /// Returns a handle for commands while the server runs.
    ///
    /// [`Handle::shutdown`] and [`Handle::publish`] act on all shards, [`Handle::with_engine`] on the first one.
    pub fn handle(&self) -> Handle {
        Handle::new(self.inner.commands())
    }

    /// Serves until [`Handle::shutdown`] is called and all running calls are answered and written, in all shards.
    ///
    /// Dropping the future ends the server immediately.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system refuses to wait, or has no thread for a shard. An error of a connection ends that
    /// connection only.
    pub async fn run(self) -> Result<(), Error> {
        let Self { mut inner, spawn_shards, .. } = self;
        let threads = spawn_shards.map_or_else(|| Ok(ShardThreads::new()), |spawn| spawn(&mut inner))?;
        let result = serve_shard::<R, H>(inner).await;
        threads.join(result).await
    }
}

impl<R, H: fmt::Debug> fmt::Debug for HttpServer<R, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer").field("inner", &self.inner).finish_non_exhaustive()
    }
}

// The loop of an HTTP server or of one of its shards.

/// Serves one shard, or the whole server if there is only one.
async fn serve_shard<R: Runtime, H: AsyncHandler>(mut server: InnerServer<H>) -> Result<(), Error> {
    let coalescing_waker = CoalescingWaker::new();
    server.register(coalescing_waker.waker());
    let handler = server.handler().0.clone();
    let mut running = FutureSet::new(coalescing_waker.waker());
    let socket_watch = SocketWatch::new(&server)?;
    let mut serve_loop = ServeLoop::<R, H> {
        server,
        socket_watch,
        coalescing_waker,
        timer: DeadlineTimer::new(),
        is_armed: false,
        next_deadline: None,
    };
    poll_fn(|cx| {
        serve_loop.poll(cx, &mut running, &|remote| {
            run_call(&*handler, remote, StartTimer::Function(start_timer::<R>))
        })
    })
    .await
}

/// State of a running server or shard, without the futures of handlers.
struct ServeLoop<R: Runtime, H> {
    server: InnerServer<H>,
    socket_watch: SocketWatch<R>,
    /// Woken by handlers, handles and other shards.
    coalescing_waker: CoalescingWaker,
    timer: DeadlineTimer<R::Timer>,
    /// Whether the reactor watches what is in `socket_watch` and has reported nothing yet.
    is_armed: bool,
    /// Next time at which I/O is polled in any case.
    next_deadline: Option<Instant>,
}

impl<R: Runtime, H: AsyncHandler> ServeLoop<R, H> {
    /// Does the work that is possible now. Ready when the server has ended.
    fn poll<F: Future<Output = Option<FinishedCall>>>(
        &mut self,
        cx: &mut Context<'_>,
        running: &mut FutureSet<F>,
        start: &impl Fn(RemoteCall) -> F,
    ) -> Poll<Result<(), Error>> {
        self.coalescing_waker.begin_poll(cx.waker());
        self.is_armed = self.is_armed && !self.socket_watch.poll(cx)?;
        for _ in 0..MAX_PASSES_PER_TURN {
            self.coalescing_waker.mark_polling();
            let mut moved = running.poll_woken(&mut report);
            if !self.is_armed || self.next_deadline.is_some_and(|at| at <= self.server.now()) {
                // Polling for readiness without waiting costs less than a wait.
                self.server.poll_io()?;
            }
            moved |= self.server.process_events(&mut |calls| {
                calls.for_each(|remote| report(running.start((), || start(remote)).flatten()))
            });
            if self.server.is_over() {
                return Poll::Ready(Ok(()));
            }
            // Sockets and timer are armed first. Then `try_sleep` tells whether a handler has woken this future
            // meanwhile.
            if !moved && !self.arm(cx)? && self.coalescing_waker.try_sleep() {
                return Poll::Pending;
            }
        }
        // Yield to the executor's other futures.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Registers for the next wake-up. Returns whether there may already be work.
    fn arm(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        self.next_deadline = self.server.prepare_wait()?;
        let now = self.server.now();
        let timeout = self.next_deadline.map(|at| at.saturating_duration_since(now));
        if !self.is_armed {
            self.is_armed = !self.socket_watch.poll(cx)?;
        }
        Ok(self.timer.poll(cx, timeout) || !self.is_armed)
    }
}

/// Reports the outcome of a handler that the loop has polled to its end, if there is one.
fn report(finished: Option<FinishedCall>) {
    if let Some(finished) = finished {
        finished.report();
    }
}

// The shards of an HTTP server other than the first: a thread for each.

/// The shards other than the first, each on its own thread; shut down when this is dropped.
#[derive(Debug)]
struct ShardThreads {
    handles: Vec<Handle>,
    /// The outcomes of shards that have ended: an error, or `None`.
    results: Inbox<Option<Arc<Error>>>,
}

/// Starts all shards but the first.
fn spawn_shards<R: Runtime, H: AsyncHandler + 'static>(
    first: &mut InnerServer<H>,
    shards: u8,
    make: &Arc<impl Fn() -> SharedHandler<H> + Send + Sync + 'static>,
) -> Result<ShardThreads, Error> {
    let mut threads = ShardThreads::new();
    for shard in first.shards(usize::from(shards) - 1)? {
        threads.handles.push(Handle::new(shard.commands()));
        let (first, results) = (Handle::new(first.commands()), threads.results.sender());
        let make = make.clone();
        let serving = move || {
            let result = catch(|| {
                let server = shard.with_handler(make())?;
                server.pin_thread();
                R::block_on(serve_shard::<R, H>(server))?
            });
            let result = result.unwrap_or_else(|_| Err(io::Error::other("a shard panicked").into()));
            if result.is_err() {
                // Without this, connections would still be handed to a shard that is gone.
                first.shutdown(Duration::ZERO);
            }
            // The first shard collects the outcomes, and it may have ended.
            let _ = results.send_unbounded(result.err().map(Arc::new));
        };
        thread::Builder::new().name("mcp-shard".into()).spawn(serving)?;
    }
    Ok(threads)
}

impl ShardThreads {
    fn new() -> Self {
        Self { handles: Vec::new(), results: Inbox::new(usize::MAX) }
    }

    /// Waits for all shards. They shut down along with the first one; if that failed, this shuts them down.
    async fn join(self, mut result: Result<(), Error>) -> Result<(), Error> {
        if result.is_err() {
            self.shut_down();
        }
        let (mut left, mut ended) = (self.handles.len(), VecDeque::new());
        poll_fn(|cx| {
            self.results.register(cx.waker());
            self.results.take(&mut ended);
            left -= ended.len();
            for error in ended.drain(..).flatten() {
                if result.is_ok() {
                    result = Arc::into_inner(error).map_or(Ok(()), Err);
                }
            }
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        result
    }

    fn shut_down(&self) {
        self.handles.iter().for_each(|handle| handle.shutdown(Duration::ZERO));
    }
}

impl Drop for ShardThreads {
    fn drop(&mut self) {
        self.shut_down();
    }
}

// Wake-ups of an HTTP server by its sockets.

#[cfg(unix)]
mod platform {
    use core::task::{Context, Poll};
    use std::io;
    use std::os::fd::AsFd;

    use crate::runtime::{DescriptorWatch, Runtime};
    use mcp_std::io::Interest;

    /// One descriptor that becomes readable when any socket is ready.
    #[derive(Debug)]
    pub(super) struct SocketWatch<R: Runtime>(R::Watch);

    impl<R: Runtime> SocketWatch<R> {
        pub(super) fn new(server: &impl AsFd) -> io::Result<Self> {
            R::Watch::new(server.as_fd(), Interest::READ).map(Self)
        }

        /// Returns whether a socket may be ready; otherwise the future is woken later.
        pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
            match self.0.poll(cx, Interest::READ, false) {
                Poll::Ready(outcome) => outcome.map(|()| true),
                Poll::Pending => Ok(false),
            }
        }
    }
}

#[cfg(not(unix))]
mod platform {
    use core::convert::Infallible;
    use core::marker::PhantomData;
    use core::task::Context;
    use std::io;

    use crate::runtime::Runtime;

    /// It cannot be created: here a selector has no descriptor that a reactor could watch.
    #[derive(Debug)]
    pub(super) struct SocketWatch<R: Runtime>(Infallible, PhantomData<fn() -> R>);

    impl<R: Runtime> SocketWatch<R> {
        pub(super) fn new<S>(_: &S) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) fn poll(&mut self, _: &mut Context<'_>) -> io::Result<bool> {
            match self.0 {}
        }
    }
}
