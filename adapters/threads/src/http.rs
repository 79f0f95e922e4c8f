//! HTTP servers whose handlers run on workers.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::net::ToSocketAddrs;
use std::thread::{self, JoinHandle};

use mcp_auth::token::TokenValidator;
use mcp_proto::Instant;
use mcp_proto::h1::HttpLimits;
use mcp_proto::http::server as http;
use mcp_proto::server::{Announcement, Config, ConnectionInfo, Engine};
use mcp_runtime::Error;
use mcp_runtime::server as serve;
use mcp_runtime::server::{Handle, RemoteCall};

use crate::handler::{Handler, SharedHandler};
use crate::relay::{self, LoopCalls, Pace};
use crate::server::{CallQueue, default_workers, run_handler, task_pool};
use crate::worker_pool::WorkerPool;

/// Serves HTTP at `address` until an error occurs; see [`HttpServer`].
///
/// ```no_run
/// use mcp_threads::mcp_proto::{Capabilities, Capability, http, model::CallToolResult, server::Config};
/// use mcp_threads::{Call, Cx, serve_http};
///
/// let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
/// serve_http("127.0.0.1:8080", config, http::server::Config::new(), |cx: &mut Cx<'_>, call: &Call| {
///     cx.complete(&CallToolResult::text(call.tool_call()?.name))
/// })?;
/// # Ok::<(), mcp_threads::Error>(())
/// ```
///
/// # Errors
///
/// As [`HttpServer::bind`] and [`HttpServer::poll`].
pub fn serve_http(
    address: impl ToSocketAddrs,
    config: Config,
    http: http::Config,
    handler: impl Handler,
) -> Result<(), Error> {
    HttpServer::bind(address, config, http, handler)?.run()
}

/// An HTTP server on one thread or [several](Self::shards), with handlers on [workers](Self::workers).
///
/// A handler delays neither other handlers (while a worker is free) nor connections. A handler that never returns
/// occupies its worker, and is left behind when the server ends.
///
/// The number of connections is limited ([`max_connections`](Self::max_connections)), including event streams. At the
/// limit, a new connection waits: an idle, silent or slow one is evicted in its favour, or its request gets 503 with
/// `Retry-After` within a second. The same connections are evicted when the process has no descriptor left.
///
/// Requests beyond [`http::server::Config::max_exchanges`](http::Config::max_exchanges) are refused with 503 and
/// `Retry-After`. So are requests that arrive while [`Limits::max_waiting_requests`](mcp_proto::Limits) calls or
/// [`max_waiting_bytes`](mcp_proto::Limits) bytes wait for workers.
///
/// Every program that reaches the address can use the server. Listen at `127.0.0.1` or `[::1]` unless other machines
/// shall have access (HTTP-006). [`http::server::Config`](http::Config) sets which hosts and origins are accepted. On
/// public networks use TLS (`HttpServer::tls`, feature `tls`) or a proxy.
#[derive(Debug)]
pub struct HttpServer<H> {
    inner: serve::HttpServer<SharedHandler<H>>,
    workers: usize,
    shards: u8,
    /// `None` before the start, with several shards, and if handlers run inside the turns of the loop.
    calls: Option<Arc<LoopCalls>>,
    is_started: bool,
    shard_threads: ShardThreads,
}

/// The shards other than the first, each on its own thread; shut down when this is dropped.
#[derive(Debug, Default)]
struct ShardThreads(Vec<(Handle, JoinHandle<Result<(), Error>>)>);

impl<H: Handler> HttpServer<H> {
    /// Binds `address` and starts to listen; connections are accepted while the loop runs.
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
        let inner = serve::HttpServer::bind(address, config, http, SharedHandler(Arc::new(handler)))?;
        Ok(Self {
            inner,
            workers: default_workers(),
            shards: 1,
            calls: None,
            is_started: false,
            shard_threads: ShardThreads::default(),
        })
    }

    /// Sets how many handlers run at a time; see [`Server::workers`](crate::Server::workers).
    ///
    /// With 0, handlers run on the threads of the shards. While such a handler runs, its shard serves no connection,
    /// except inside [`Cx::progress`](crate::Cx::progress), [`checkpoint`](crate::Cx::checkpoint) and
    /// [`sleep`](crate::Cx::sleep).
    ///
    /// Takes effect only before the server runs and before [`handle`](Self::handle) is called.
    #[must_use]
    pub const fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Sets on how many threads connections are served (default 1, at least 1).
    ///
    /// Each shard has clients and sessions of its own. One shard serves tens of thousands of requests per second; more
    /// shards than cores are of no use. Connections are distributed in turn. A connection whose client names a session
    /// of another shard moves there.
    ///
    /// Takes effect only before the server runs and before [`handle`](Self::handle) is called.
    #[must_use]
    pub const fn shards(mut self, shards: u8) -> Self {
        self.shards = shards;
        self
    }

    /// Pins each [shard](Self::shards) except the first to a core.
    ///
    /// A pinned shard gets the connections whose packets arrive on its core, as long as the shards stay evenly loaded.
    /// Use this on a machine that does little else and whose network card (or local proxy) uses several cores: data
    /// then stays on the core on which it arrived. The first shard runs wherever its caller runs.
    /// [Workers](Self::workers) are not pinned.
    ///
    /// Takes effect only before the server runs and before [`handle`](Self::handle) is called. Linux only; elsewhere it
    /// has no effect.
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
    /// use mcp_threads::mcp_proto::{http, model::CallToolResult, server::Config};
    /// use mcp_threads::{Call, Cx, HttpServer, tls::ServerTls};
    ///
    /// let tls = ServerTls::from_files("chain.pem", "key.pem")?;
    /// let http = http::server::Config::new().allow_host("tools.example.com");
    /// let handler = |cx: &mut Cx<'_>, _: &Call| cx.complete(&CallToolResult::text("hello"));
    /// HttpServer::bind("[::]:8443", Config::new("demo", "1.0"), http, handler)?.tls(tls).run()?;
    /// # Ok::<(), mcp_threads::Error>(())
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
    /// A decision that the [validator](mcp_auth::token::TokenValidator) cannot make at once is made on own threads,
    /// at most 8 at a time; 256 more tokens may wait. Beyond that, and after
    /// [`token_timeout`](mcp_proto::http::server::Config::token_timeout), requests get 503 with `Retry-After`. A token is
    /// validated at every request (SEC-004).
    ///
    /// ```no_run
    /// use mcp_threads::mcp_proto::http::server::{Config as Http, Denial, Protected, TokenRequest};
    /// use mcp_threads::mcp_proto::server::{Config, Identity};
    /// use mcp_threads::mcp_proto::model::CallToolResult;
    /// use mcp_threads::{Call, Cx, HttpServer};
    ///
    /// let handler = |cx: &mut Cx<'_>, _: &Call| {
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
    /// server.validate_tokens(validator).run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn validate_tokens(mut self, validator: impl TokenValidator + 'static) -> Self {
        self.inner = self.inner.validate_tokens(validator);
        self
    }

    /// Shares the sessions of clients with other processes, so that each request can go to any of them and a session survives
    /// its process ([`SharedSessions`](mcp_runtime::server::SharedSessions)).
    ///
    /// Requests that need the store while it is down are answered with 503 and `Retry-After`: those that begin or change a
    /// session, and those of a session that is not here. Call this before the number of event loops is set.
    ///
    /// # Errors
    ///
    /// [`Error::Tasks`] if the server has tasks, which other processes would not know; [`Error::Io`] if no thread can be
    /// started.
    #[cfg(feature = "shared-sessions")]
    pub fn share_sessions(mut self, sessions: &mcp_runtime::server::SharedSessions) -> Result<Self, Error> {
        self.inner = self.inner.share_sessions(sessions)?;
        Ok(self)
    }

    /// Sets a callback that completes the description of each connection, before its first request.
    ///
    /// The description has the address of the client, and its certificates if TLS asks for them. Handlers get it with
    /// what the callback attaches: `cx.http()`, `cx.extension()`. The callback runs on a thread that accepts, after the TLS
    /// handshake, and must not block. If it panics, the connection ends.
    ///
    /// ```
    /// # fn demo(server: mcp_threads::HttpServer<impl mcp_threads::Handler>) {
    /// struct IsLocal(bool);
    ///
    /// let server = server.on_connect(|info| {
    ///     let is_local = info.peer().is_some_and(|peer| peer.ip().is_loopback());
    ///     info.extension(IsLocal(is_local))
    /// });
    /// # let _ = server;
    /// # }
    /// ```
    #[must_use]
    pub fn on_connect(
        mut self,
        describe: impl Fn(ConnectionInfo) -> ConnectionInfo + Send + Sync + 'static,
    ) -> Self {
        self.inner = self.inner.on_connect(describe);
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
    /// The error of the operating system, or an error after shutdown.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.inner.address()
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.inner.connections()
    }

    /// Returns a handle for commands from other threads.
    ///
    /// [`Handle::shutdown`] and [`Handle::publish`] act on all shards, [`Handle::with_engine`] on the first one.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system has no descriptor or thread left.
    pub fn handle(&mut self) -> Result<Handle, Error> {
        self.start_shards()?;
        self.inner.handle()
    }

    /// Serves until [`Handle::shutdown`] is called.
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll).
    pub fn run(mut self) -> Result<(), Error> {
        self.start_shards()?;
        let result = match &self.calls {
            Some(calls) => relay::run(self.inner, calls),
            None => self.inner.run(),
        };
        self.shard_threads.join(result)
    }

    /// Waits for work, at most for `timeout`, and does it. Returns `false` when the server has ended.
    ///
    /// This runs the loop of the first shard. The other shards have their own threads.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system refuses to wait. An error of a connection ends that connection only.
    pub fn poll(&mut self, timeout: Duration) -> Result<bool, Error> {
        self.start_shards()?;
        match self.inner.poll(timeout) {
            Ok(true) => Ok(true),
            ended => core::mem::take(&mut self.shard_threads).join(ended.map(drop)).map(|()| false),
        }
    }

    /// Stops accepting connections. The server ends when all running calls are answered and written, or after `grace`.
    ///
    /// Call [`poll`](Self::poll) afterwards until it returns `false`. From other threads use [`Handle::shutdown`].
    pub fn shutdown(&mut self, grace: Duration) {
        self.inner.shutdown(grace);
    }

    /// Returns the server (of the first shard). Output of its commands is sent with the next [`poll`](Self::poll).
    pub fn server(&mut self) -> &mut http::Server {
        self.inner.server()
    }

    /// Returns the engine of the server (of the first shard).
    pub fn engine(&mut self) -> &mut Engine {
        self.inner.engine()
    }

    /// Announces a change to all subscribers, or an [`Announcement`] to its audience. Returns the number of subscribers in the first shard.
    pub fn publish<'c>(&mut self, change: impl Into<Announcement<'c>>) -> usize {
        self.inner.publish(change)
    }

    /// Returns the current time, for commands of the engine.
    pub fn now(&mut self) -> Instant {
        self.inner.now()
    }

    /// Returns the handler.
    pub fn handler(&mut self) -> &H {
        &self.inner.handler().0
    }

    fn start_shards(&mut self) -> Result<(), Error> {
        self.start_shards_at(Pace::DEFAULT)
    }

    pub(crate) fn start_shards_at(&mut self, pace: Pace) -> Result<(), Error> {
        if core::mem::replace(&mut self.is_started, true) {
            return Ok(());
        }
        let handler = self.inner.handler().clone();
        let calls = Arc::new(LoopCalls::new(pace, run_handler(&handler)));
        let of_pool = calls.clone();
        let pool = (self.workers > 0).then(|| {
            let cores = self.inner.cores().clone();
            Arc::new(WorkerPool::new(self.workers, cores, move |call| of_pool.run(call)))
        });
        let mut shards = Vec::new();
        if self.shards > 1 {
            shards = self.inner.shards(usize::from(self.shards) - 1)?;
        }
        if let Some(pool) = &pool {
            // A shard keeps its core, where a slow handler would compete with it.
            self.calls = (self.shards == 1).then_some(calls);
            use_workers(&mut self.inner, self.workers, pool, self.calls.clone())?;
        }
        for shard in shards {
            let mut server = shard.with_handler(handler.clone())?;
            if let Some(pool) = &pool {
                use_workers(&mut server, self.workers, pool, None)?;
            }
            let (first, handle) = (self.inner.handle()?, server.handle()?);
            let serving = move || {
                server.pin_thread();
                let result = server.run();
                if result.is_err() {
                    // Without this, connections would still be handed to a shard that is gone.
                    first.shutdown(Duration::ZERO);
                }
                result
            };
            let thread = thread::Builder::new().name("mcp-shard".into()).spawn(serving)?;
            self.shard_threads.0.push((handle, thread));
        }
        Ok(())
    }
}

/// Runs the handlers of a shard on the worker pool.
fn use_workers<H: Handler>(
    server: &mut serve::HttpServer<SharedHandler<H>>,
    workers: usize,
    pool: &Arc<WorkerPool<RemoteCall>>,
    loop_calls: Option<Arc<LoopCalls>>,
) -> Result<(), Error> {
    let tasks = task_pool(server.cores().clone(), &server.handler().clone());
    let mut queue = CallQueue::new(pool.clone(), tasks, loop_calls);
    server.run_remotely(workers, move |new_calls| queue.submit(new_calls))
}

impl ShardThreads {
    /// Waits for all threads. They shut down along with the first shard; if that failed, this shuts them down.
    fn join(mut self, result: Result<(), Error>) -> Result<(), Error> {
        if result.is_err() {
            self.shut_down();
        }
        core::mem::take(&mut self.0).into_iter().fold(result, |result, (_, thread)| {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a shard panicked").into()));
            result.and(ended)
        })
    }

    fn shut_down(&self) {
        self.0.iter().for_each(|(handle, _)| handle.shutdown(Duration::ZERO));
    }
}

impl Drop for ShardThreads {
    fn drop(&mut self) {
        self.shut_down();
    }
}
