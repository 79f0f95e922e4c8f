//! HTTP servers: one future for all connections and event streams, or several shards.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::poll_fn;
use core::net::SocketAddr;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;
use std::net::ToSocketAddrs;
use std::thread;

use mcp_proto::Instant;
use mcp_proto::h1::HttpLimits;
use mcp_proto::http::server as http;
use mcp_proto::server::Config;
use mcp_std::adapter::server as serve;
use mcp_std::adapter::server::{Handle, RemoteCall, SharedHandler, run_call};
use mcp_std::adapter::sync::CoalescingWaker;
use mcp_std::adapter::sync::Inbox;
use mcp_std::token::TokenValidator;
use mcp_std::{Error, catch};

use crate::Handler;
use crate::block_on;
use crate::future_set::FutureSet;
#[cfg(target_os = "linux")]
use crate::io::DescriptorWatch;
use crate::server::{DEFAULT_MAX_RUNNING, MAX_TURNS};
use crate::timer::DeadlineTimer;
use crate::timer::start_timer;

/// Serves HTTP at `address` until an error occurs; see [`HttpServer`].
///
/// ```no_run
/// use mcp_smol::mcp_proto::{Capabilities, Capability, http, model::CallToolResult, server::Config};
/// use mcp_smol::{Call, Cx, serve_http};
///
/// let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
/// let handler = async |cx: &mut Cx, call: &Call| {
///     cx.complete(&CallToolResult::text(call.tool_call()?.name))
/// };
/// mcp_smol::block_on(serve_http("127.0.0.1:8080", config, http::server::Config::new(), handler))?;
/// # Ok::<(), mcp_smol::Error>(())
/// ```
///
/// # Errors
///
/// As [`HttpServer::bind`] and [`HttpServer::run`].
pub async fn serve_http(
    address: impl ToSocketAddrs,
    config: Config,
    http: http::Config,
    handler: impl Handler,
) -> Result<(), Error> {
    HttpServer::bind(address, config, http, handler)?.run().await
}

/// An HTTP server in one future, or in [several shards](Self::shards): connections, event streams and handlers.
///
/// Calls run concurrently, as on a [byte stream](crate::serve). A handler that computes without awaiting delays all
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
/// On Linux the reactor watches one descriptor for all connections. On other systems the server checks its connections
/// every 10 ms.
pub struct HttpServer<H> {
    inner: InnerServer<H>,
    /// Starts the shards other than the first.
    spawn_shards: Option<SpawnShards<H>>,
}

type SpawnShards<H> = Box<dyn FnOnce(&mut InnerServer<H>) -> Result<ShardThreads, Error> + Send + Sync>;

/// The server or one of its shards, without the futures of handlers.
type InnerServer<H> = serve::HttpServer<SharedHandler<H>>;

impl<H: Handler> HttpServer<H> {
    /// Binds `address` and starts to listen; connections are accepted while the server runs.
    ///
    /// With port 0 the system chooses a port: see [`address`](Self::address).
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the address cannot be bound, if there is no source of randomness, if a tool's schema requests
    /// invalid header fields, if [`Handler::for_each_tool`] panics, or if the platform cannot wait for many sockets.
    pub fn bind(
        address: impl ToSocketAddrs,
        config: Config,
        http: http::Config,
        handler: H,
    ) -> Result<Self, Error> {
        let mut inner = InnerServer::bind(address, config, http, SharedHandler(Arc::new(handler)))?;
        inner.max_running(DEFAULT_MAX_RUNNING);
        Ok(Self { inner, spawn_shards: None })
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
    /// [`Router`](crate::Router).
    ///
    /// ```no_run
    /// use mcp_smol::mcp_proto::{http, model::CallToolResult, server::Config};
    /// use mcp_smol::{Call, Cx, HttpServer};
    ///
    /// let handler = async |cx: &mut Cx, _: &Call| cx.complete(&CallToolResult::text("hello"));
    /// let (config, http) = (Config::new("demo", "1.0"), http::server::Config::new());
    /// let server = HttpServer::bind("127.0.0.1:8080", config, http, handler)?.shards(2);
    /// mcp_smol::block_on(server.run())?;
    /// # Ok::<(), mcp_smol::Error>(())
    /// ```
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
    ///
    /// ```no_run
    /// use mcp_smol::mcp_proto::{RawJson, http, model::Tool};
    /// use mcp_smol::{Cx, HttpServer, Router};
    ///
    /// fn router() -> Router {
    ///     let mut router = Router::new("demo", "1.0");
    ///     let tool = Tool::new("hello", RawJson::new(r#"{"type":"object"}"#).expect("JSON"));
    ///     router.tool_with(tool, async |_: &mut Cx, _: serde_json::Value| "hello");
    ///     router
    /// }
    ///
    /// let first = router();
    /// let config = first.config()?;
    /// let server = HttpServer::bind("127.0.0.1:8080", config, http::server::Config::new(), first)?;
    /// mcp_smol::block_on(server.shards_with(2, router).run())?;
    /// # Ok::<(), mcp_smol::Error>(())
    /// ```
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
            .then(|| -> SpawnShards<H> { Box::new(move |first| spawn_shards(first, shards, &make)) });
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
    /// and at most 10,000; see [`raise_descriptor_limit`](crate::raise_descriptor_limit). An idle connection takes about
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
    ///
    /// ```no_run
    /// use mcp_smol::mcp_proto::{http, model::CallToolResult, server::Config};
    /// use mcp_smol::{Call, Cx, HttpServer, tls::ServerTls};
    ///
    /// let tls = ServerTls::from_files("chain.pem", "key.pem")?;
    /// let http = http::server::Config::new().allow_host("tools.example.com");
    /// let handler = async |cx: &mut Cx, _: &Call| cx.complete(&CallToolResult::text("hello"));
    /// let server = HttpServer::bind("[::]:8443", Config::new("demo", "1.0"), http, handler)?.tls(tls);
    /// mcp_smol::block_on(server.run())?;
    /// # Ok::<(), mcp_smol::Error>(())
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: impl Into<mcp_std::tls::ServerTls>) -> Self {
        self.inner = self.inner.tls(tls);
        self
    }

    /// Sets the validator of access tokens, for a server that is [protected](http::Config::protected). Without one, no
    /// token is accepted.
    ///
    /// A decision that the [validator](mcp_std::token::TokenValidator) cannot make at once is made on own threads,
    /// at most 8 at a time; 256 more tokens may wait. Beyond that, and after
    /// [`token_timeout`](mcp_proto::http::server::Config::token_timeout), requests get 503 with `Retry-After`. A token is
    /// validated at every request (SEC-004).
    ///
    /// ```no_run
    /// use mcp_smol::mcp_proto::http::server::{Config as Http, Denial, Protected, TokenRequest};
    /// use mcp_smol::mcp_proto::server::{Config, Identity};
    /// use mcp_smol::mcp_proto::model::CallToolResult;
    /// use mcp_smol::{Call, Cx, HttpServer};
    ///
    /// let handler = async |cx: &mut Cx, _: &Call| {
    ///     cx.require_scopes(&["greet"])?;
    ///     let name = cx.principal().unwrap_or_default();
    ///     cx.complete(&CallToolResult::text(format!("hello, {name}")))
    /// };
    /// let protected = Protected::new("https://tools.example.com/mcp", "https://login.example.com")?;
    /// let http = Http::new().allow_host("tools.example.com").protected(protected);
    /// let validator = |request: &TokenRequest| {
    ///     if request.token.matches("a-long-random-text") {
    ///         Ok(Identity::new("alice").scopes("greet"))
    ///     } else {
    ///         Err(Denial::invalid_token())
    ///     }
    /// };
    /// let server = HttpServer::bind("127.0.0.1:8080", Config::new("demo", "1.0"), http, handler)?;
    /// mcp_smol::block_on(server.validate_tokens(validator).run())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn validate_tokens(mut self, validator: impl TokenValidator + 'static) -> Self {
        self.inner = self.inner.validate_tokens(validator);
        self
    }

    /// Enables [`Handler::head`].
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
        let Self { mut inner, spawn_shards } = self;
        let threads = spawn_shards.map_or_else(|| Ok(ShardThreads::new()), |spawn| spawn(&mut inner))?;
        let result = serve_shard(inner).await;
        threads.join(result).await
    }
}

/// Serves one shard, or the whole server if there is only one.
async fn serve_shard<H: Handler>(mut server: InnerServer<H>) -> Result<(), Error> {
    let coalescing_waker = CoalescingWaker::new();
    server.register(coalescing_waker.waker());
    let handler = server.handler().0.clone();
    let mut running = FutureSet::new(coalescing_waker.waker());
    let socket_watch = SocketWatch::new(&server)?;
    let mut serve_loop = ServeLoop {
        server,
        socket_watch,
        coalescing_waker,
        timer: DeadlineTimer::new(),
        is_armed: false,
        next_deadline: None,
    };
    poll_fn(|cx| serve_loop.poll(cx, &mut running, &|remote| run_call(&*handler, remote, start_timer))).await
}

/// State of a running server or shard, without the futures of handlers.
struct ServeLoop<H> {
    server: InnerServer<H>,
    socket_watch: SocketWatch,
    /// Woken by handlers, handles and other shards.
    coalescing_waker: CoalescingWaker,
    timer: DeadlineTimer,
    /// Whether the reactor watches `socket_watch` and has reported nothing yet.
    is_armed: bool,
    /// Next time at which I/O is polled in any case.
    next_deadline: Option<Instant>,
}

impl<H: Handler> ServeLoop<H> {
    /// Does the work that is possible now. Ready when the server has ended.
    fn poll<F: Future<Output = ()>>(
        &mut self,
        cx: &mut Context<'_>,
        running: &mut FutureSet<F>,
        start: &impl Fn(RemoteCall) -> F,
    ) -> Poll<Result<(), Error>> {
        self.coalescing_waker.begin_poll(cx.waker());
        self.is_armed = self.is_armed && !self.socket_watch.poll(cx)?;
        for _ in 0..MAX_TURNS {
            self.coalescing_waker.mark_polling();
            let mut moved = running.poll_woken();
            if !self.is_armed || self.next_deadline.is_some_and(|at| at <= self.server.now()) {
                // Polling for readiness without waiting costs less than a wait.
                self.server.poll_io()?;
            }
            moved |= self
                .server
                .process_events(&mut |calls| calls.for_each(|remote| running.start((), || start(remote))));
            if self.server.is_over() {
                return Poll::Ready(Ok(()));
            }
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
        self.is_armed = self.is_armed || !self.socket_watch.poll(cx)?;
        Ok(self.timer.poll(cx, timeout) || !self.is_armed)
    }
}

/// The shards other than the first, each on its own thread; shut down when this is dropped.
#[derive(Debug)]
struct ShardThreads {
    handles: Vec<Handle>,
    /// The outcomes of shards that have ended: an error, or `None`.
    results: Inbox<Option<Arc<Error>>>,
}

/// Starts all shards but the first.
fn spawn_shards<H: Handler + 'static>(
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
                block_on(serve_shard(server))
            });
            let result = result.unwrap_or_else(|_| Err(io::Error::other("a shard panicked").into()));
            if result.is_err() {
                // Without this, connections would still be handed to a shard that is gone.
                first.shutdown(Duration::ZERO);
            }
            let _ = results.send_unbounded(result.err().map(Arc::new));
        };
        thread::Builder::new().name("mcp-shard".into()).spawn(serving)?;
    }
    Ok(threads)
}

impl ShardThreads {
    #[inline]
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

    #[inline]
    fn shut_down(&self) {
        self.handles.iter().for_each(|handle| handle.shutdown(Duration::ZERO));
    }
}

impl Drop for ShardThreads {
    #[inline]
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// One descriptor that becomes readable when any connection is ready.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct SocketWatch(DescriptorWatch);

#[cfg(target_os = "linux")]
impl SocketWatch {
    #[inline]
    fn new(server: &impl std::os::fd::AsFd) -> io::Result<Self> {
        DescriptorWatch::new(server.as_fd()).map(Self)
    }

    /// Returns whether a connection may be ready; otherwise the future is woken later.
    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        match self.0.poll(cx, mcp_std::adapter::poll::Interest::READ, false) {
            Poll::Ready(outcome) => outcome.map(|()| true),
            Poll::Pending => Ok(false),
        }
    }
}

/// A timer: without such a descriptor the connections are checked periodically.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
struct SocketWatch(async_io::Timer);

#[cfg(not(target_os = "linux"))]
impl SocketWatch {
    fn new<T>(_: &T) -> io::Result<Self> {
        Ok(Self(async_io::Timer::never()))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        self.0.set_after(Duration::from_millis(10));
        Ok(core::pin::Pin::new(&mut self.0).poll(cx).is_ready())
    }
}

impl<H: fmt::Debug> fmt::Debug for HttpServer<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer").field("inner", &self.inner).finish_non_exhaustive()
    }
}
