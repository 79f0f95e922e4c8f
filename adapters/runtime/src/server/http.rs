//! The HTTP server: one event loop for all connections and event streams.

mod event_loop;
mod shards;
mod state;

pub use self::shards::Shard;
pub use state::{TokenOutcome, TokenQueue, TokenReply, TokenWorkers, register_tools};

use alloc::boxed::Box;
use core::fmt;
use core::net::SocketAddr;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::net::ToSocketAddrs;

use mcp_auth::token::TokenValidator;
use mcp_proto::Instant;
use mcp_proto::h1::HttpLimits;
use mcp_proto::http::server as http;
use mcp_proto::server::{Announcement, Config, ConnectionInfo, Engine};
use mcp_std::io::Listener;

use self::event_loop::{HttpLoop, RemoteRunner};
use super::Handle;
use super::connection::OnConnect;
use super::dispatcher::CommandSender;
use super::handler::Handler;
use super::remote::RemoteCall;
use super::server_loop::ServerLoop;
use super::stream::CallRunner;
use crate::Error;
use crate::inline_map::ErasedBox;

/// An HTTP server on one thread: all connections, their event streams, and the handlers.
///
/// Handlers run on the loop's thread, unless they [run remotely](Self::run_remotely). While a handler runs, no
/// connection moves, except inside [`progress`](super::Cx::progress), [`checkpoint`](super::Cx::checkpoint) and
/// [`sleep`](super::Cx::sleep), which drive all connections. A slow handler therefore delays all clients: use it for
/// local tools and few clients (DESIGN-20).
///
/// The number of connections is limited ([`max_connections`](Self::max_connections)), including those with an event
/// stream. At the limit, a new connection waits. Once its request has arrived, the connection that loses least is
/// evicted: one that was refused and lingers, that never sent a byte, whose head is incomplete, whose token has waited
/// for its decision for 2 s, that is slower than [`HttpLimits::min_rate`], or that has been idle for 300 ms. If there is
/// none within 900 ms, the request gets 503 with `Retry-After`. The same connections are evicted when the process has no
/// descriptor left.
///
/// Every process that can reach the address can use the server. Listen on `127.0.0.1` or `[::1]` unless it is meant for
/// other machines (HTTP-006). [`http::server::Config`](http::Config) configures which requests are admitted. On open
/// networks use TLS (feature `tls`, `HttpServer::tls`) or a proxy.
pub struct HttpServer<H> {
    handler: H,
    inner: ErasedBox<HttpLoop>,
}

impl<H: Handler> HttpServer<H> {
    /// Starts to listen. Connections are accepted while the loop runs.
    ///
    /// `address` is, for example, `127.0.0.1:8080`. With port 0 the system chooses one; see [`address`](Self::address).
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the server cannot listen on the address, there is no source of randomness, the schema of a tool
    /// has invalid header parameters, [`Handler::for_each_tool`] panics, or the platform has no selector.
    /// [`Error::Tasks`] if the stored tasks of the handler cannot be loaded.
    pub fn bind(
        address: impl ToSocketAddrs,
        config: Config,
        http: http::Config,
        handler: H,
    ) -> Result<Self, Error> {
        Self::from_loop(HttpLoop::bind(Listener::bind(address)?, config, http)?, handler)
    }

    fn from_loop(mut inner: ErasedBox<HttpLoop>, mut handler: H) -> Result<Self, Error> {
        inner.state.register_tools(&mut handler)?;
        inner.attach(&handler.attachments())?;
        Ok(Self { handler, inner })
    }

    /// Runs handlers elsewhere: `run` starts them for calls, at most `max_running` at a time (at least 1).
    ///
    /// The server's own handler then receives everything except calls. If too many calls wait, further requests are
    /// refused with status 503. Call this before the server runs.
    ///
    /// # Errors
    ///
    /// The error of [`Selector::waker`](mcp_std::poll::Selector::waker).
    pub fn run_remotely(
        &mut self,
        max_running: usize,
        run: impl FnMut(&mut dyn Iterator<Item = RemoteCall>) + Send + 'static,
    ) -> Result<(), Error> {
        self.inner.remote_runner = RemoteRunner(Some(Box::new(run)));
        self.inner.dispatcher.set_max_running(max_running);
        self.inner.enable_waker()
    }

    /// Lets the outcomes of [remote handlers](Self::run_remotely) wake nothing until the next [`poll`](Self::poll).
    ///
    /// For a loop that runs such a handler itself, between two turns. That turn does not wait.
    pub fn expect_messages(&mut self) {
        self.inner.dispatcher.expect_messages();
    }

    /// Returns a handle that sends commands to the server from any thread.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system has no descriptor left for the waker.
    pub fn handle(&mut self) -> Result<Handle, Error> {
        self.inner.enable_waker()?;
        Ok(Handle::new(self.inner.dispatcher.commands()))
    }

    /// Sets the maximum number of open connections (at least 1).
    ///
    /// The default is the number of descriptors that the process may have open when the server is created, less 128,
    /// and at most 10,000; see [`raise_descriptor_limit`](mcp_std::io::raise_descriptor_limit). An idle connection
    /// takes about 1 KiB, and one with a request at most
    /// [`Limits::max_frame`](mcp_proto::Limits) for its body and four times
    /// [`HttpLimits::max_buffered`] for its buffers. Besides, 64 connections may wait.
    ///
    /// Three quarters of the connections may be event streams: a further one ends the one that has been quiet for
    /// longest. Each [shard](Self::shards) has an equal part of them, and none if there are fewer than shards.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.inner.state.connections.max_connections = connections.max(1);
        self.inner.state.bound_streams();
        self
    }

    /// Sets the maximum number of open connections of one address (default: half of all; at least 1).
    ///
    /// Of IPv6, addresses of one network of 64 bits count as one. Addresses of this machine are not limited. Reached:
    /// 503. Behind a proxy on another machine, all clients have its address: set `usize::MAX` there.
    #[must_use]
    pub fn max_connections_per_address(mut self, connections: usize) -> Self {
        self.inner.state.connections.max_per_address = Some(connections.max(1));
        self
    }

    /// Sets the limits of connections, for example timeouts for slow clients.
    ///
    /// `max_body` is ignored: [`Limits::max_frame`](mcp_proto::Limits) bounds bodies.
    #[must_use]
    pub fn connection_limits(mut self, limits: HttpLimits) -> Self {
        self.inner.state.connections.limits = limits;
        // The server binding bounds bodies; see `Connections::new`.
        self.inner.state.connections.limits.max_body = u64::MAX;
        self
    }

    /// Enables TLS for all clients. Connections without TLS are closed.
    ///
    /// The handshake may take as long as the head of a request ([`connection_limits`](Self::connection_limits)). TLS
    /// needs up to 32 KiB of additional memory per connection and direction while data moves, and about 8 KiB when
    /// idle.
    ///
    /// ```no_run
    /// use mcp_proto::{http, model::CallToolResult, server::{Call, Config}};
    /// use mcp_runtime::server::{Cx, HttpServer};
    /// use mcp_std::tls::ServerTls;
    ///
    /// let tls = ServerTls::from_files("chain.pem", "key.pem")?;
    /// let http = http::server::Config::new().allow_host("tools.example.com");
    /// let handler = |cx: &mut Cx<'_>, _: &Call| cx.complete(&CallToolResult::text("hello"));
    /// HttpServer::bind("[::]:8443", Config::new("demo", "1.0"), http, handler)?.tls(tls).run()?;
    /// # Ok::<(), mcp_runtime::Error>(())
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: impl Into<mcp_std::tls::ServerTls>) -> Self {
        self.inner.state.connections.tls = Some(tls.into());
        self
    }

    /// Sets the validator of access tokens, for a server that is
    /// [protected](mcp_proto::http::server::Config::protected). Without one, no token is accepted.
    ///
    /// A decision that the validator cannot make at once is made on threads of its own, at most 8 at a time; 256 more
    /// tokens may wait. Beyond that, and after
    /// [`token_timeout`](mcp_proto::http::server::Config::token_timeout), requests get 503 with `Retry-After`. A token
    /// whose client has left is not validated. A token is validated at every request (SEC-004).
    ///
    /// ```no_run
    /// use mcp_proto::http::server::{Config as Http, Denial, Protected, TokenRequest};
    /// use mcp_proto::{model::CallToolResult, server::{Call, Config, Identity}};
    /// use mcp_runtime::server::{Cx, HttpServer};
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
    /// HttpServer::bind("127.0.0.1:8080", Config::new("demo", "1.0"), http, handler)?
    ///     .validate_tokens(validator)
    ///     .run()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn validate_tokens(mut self, validator: impl TokenValidator + 'static) -> Self {
        self.inner.set_tokens(TokenWorkers::new(validator));
        self
    }

    /// Shares the sessions of clients with other processes, so that each request can go to any of them and a session survives
    /// its process ([`SharedSessions`](super::SharedSessions)).
    ///
    /// Requests that need the store while it is down are answered with 503 and `Retry-After`: those that begin or change a
    /// session, and those of a session that is not here. Call this before [`shards`](Self::shards).
    ///
    /// # Errors
    ///
    /// [`Error::Tasks`] if the server has tasks, which other processes would not know; [`Error::Io`] if no thread can be
    /// started.
    #[cfg(feature = "shared-sessions")]
    pub fn share_sessions(mut self, sessions: &super::SharedSessions) -> Result<Self, Error> {
        if self.inner.dispatcher.has_tasks() {
            return Err(mcp_std::task_store::TasksError::Shards.into());
        }
        let sharing = sessions.share(&mut self.inner.state.server)?;
        self.inner.set_sharing(sharing)?;
        Ok(self)
    }

    /// Enables [`Handler::head`] for heads of requests and responses.
    #[must_use]
    pub fn tap_heads(mut self) -> Self {
        self.inner.state.connections.taps_heads = true;
        self
    }

    /// Sets a callback that completes the description of each connection: handlers get what it attaches
    /// ([`CallCx::http`](super::cx::CallCx::http), [`CallCx::extension`](super::cx::CallCx::extension)).
    ///
    /// It runs on the thread that accepts, after the TLS handshake, and must not block. If it panics, the connection ends.
    #[must_use]
    pub fn on_connect(
        mut self,
        describe: impl Fn(ConnectionInfo) -> ConnectionInfo + Send + Sync + 'static,
    ) -> Self {
        self.inner.state.connections.on_connect = Some(OnConnect::new(describe));
        self
    }

    /// Returns the address of the listener.
    ///
    /// # Errors
    ///
    /// An error of the operating system, or [`NotConnected`](io::ErrorKind::NotConnected) after a shutdown.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.inner.state.connections.address()
    }

    /// Returns the number of open connections of all [shards](Self::shards).
    #[must_use]
    pub fn connections(&self) -> usize {
        self.inner.state.connections.count()
    }

    /// Runs the server until it is [shut down](Self::shutdown).
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll).
    pub fn run(mut self) -> Result<(), Error> {
        while self.inner.turn(&mut self.handler, None)? {}
        Ok(())
    }

    /// Runs one turn: waits for work for `timeout` at most, and does it. Returns `false` when the server has stopped.
    ///
    /// A turn that begins with messages of other threads, for example commands of a [`Handle`], does not look at the
    /// sockets. The next one does.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system cannot wait. An error of a connection ends only that connection.
    pub fn poll(&mut self, timeout: Duration) -> Result<bool, Error> {
        let until = self.inner.state.connections.tick() + timeout;
        self.inner.turn(&mut self.handler, Some(until))
    }

    /// Shuts down: accepts no more connections, and ends when all calls are answered and written or after `grace`.
    ///
    /// Call [`poll`](Self::poll) afterwards until it returns `false`.
    pub fn shutdown(&mut self, grace: Duration) {
        ServerLoop::shutdown(&mut self.inner.state, grace);
        // Extensions end their calls in the next turn, before it waits.
        self.inner.has_more_work = true;
    }

    /// Returns the server binding. The next [`poll`](Self::poll) writes its output.
    pub fn server(&mut self) -> &mut http::Server {
        &mut self.inner.state.server
    }

    /// Returns the engine, for example to send a notification. The next [`poll`](Self::poll) writes its output.
    pub fn engine(&mut self) -> &mut Engine {
        self.inner.state.server.engine()
    }

    /// Publishes a change to all subscribers, or an [`Announcement`] to its audience. Returns their number in this shard.
    pub fn publish<'c>(&mut self, change: impl Into<Announcement<'c>>) -> usize {
        self.inner.state.publish_to_all(&change.into())
    }

    /// Reads the clock, for commands of the engine.
    pub fn now(&mut self) -> Instant {
        self.inner.state.connections.tick()
    }

    /// Returns the handler.
    pub const fn handler(&mut self) -> &mut H {
        &mut self.handler
    }

    // For loops with their own wait that run handlers as futures: call `poll_io` when the selector is ready, then
    // `process_events`, and `prepare_wait` before each wait.

    /// Sets the maximum number of running calls (at least 1), for loops that call
    /// [`process_events`](Self::process_events).
    pub fn max_running(&mut self, calls: usize) {
        self.inner.dispatcher.set_max_running(calls);
    }

    /// Returns a handle that sends commands to the event loop from any thread.
    #[must_use]
    pub fn commands(&self) -> CommandSender {
        self.inner.dispatcher.commands()
    }

    /// Registers a waker for messages of handlers, [commands](Self::commands) and other [shards](Self::shards).
    ///
    /// It replaces the selector's waker. Call [`process_events`](Self::process_events) afterwards.
    pub fn register(&self, waker: &Waker) {
        self.inner.dispatcher.register(waker);
        self.inner.state.shard_inbox.register(waker);
        if let Some(sharing) = &self.inner.state.sharing {
            sharing.register(waker);
        }
    }

    /// Reads, writes and accepts whatever is ready, without waiting.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system cannot poll the selector.
    pub fn poll_io(&mut self) -> Result<(), Error> {
        self.inner.poll_io()
    }

    /// Handles all events and passes the calls that may run now to `run`. Returns whether there was any work.
    ///
    /// The server's own handler receives everything except calls.
    pub fn process_events(&mut self, run: &mut CallRunner<'_>) -> bool {
        self.inner.state.connections.tick();
        self.inner.process(&mut self.handler, Some(run))
    }

    /// Updates the interest in the selector. Returns the deadline for the next [`poll_io`](Self::poll_io) and
    /// [`process_events`](Self::process_events).
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system cannot update the selector.
    pub fn prepare_wait(&mut self) -> Result<Option<Instant>, Error> {
        self.inner.prepare_wait()
    }

    /// Returns whether the server was shut down, no connection is open, and no task runs.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.inner.is_over()
    }
}

/// Readable when [`poll_io`](HttpServer::poll_io) has something to do.
#[cfg(unix)]
impl<H> std::os::fd::AsFd for HttpServer<H> {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.inner.state.connections.as_fd()
    }
}

impl<H: fmt::Debug> fmt::Debug for HttpServer<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer").field("handler", &self.handler).field("inner", &self.inner).finish()
    }
}
