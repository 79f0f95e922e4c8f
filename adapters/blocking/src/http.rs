//! HTTP servers whose handlers run on the loop's thread.

use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::net::ToSocketAddrs;

use mcp_auth::token::TokenValidator;
use mcp_proto::Instant;
use mcp_proto::h1::HttpLimits;
use mcp_proto::http::server as http;
use mcp_proto::server::{Announcement, Config, ConnectionInfo, Engine};
use mcp_runtime::Error;
use mcp_runtime::server as serve;
use mcp_runtime::server::{Handle, Handler};

/// Serves HTTP at `address` until an error occurs; see [`HttpServer`].
///
/// ```no_run
/// use mcp_blocking::mcp_proto::{Capabilities, Capability, http, model::CallToolResult, server::Config};
/// use mcp_blocking::{Call, Cx, serve_http};
///
/// let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
/// serve_http("127.0.0.1:8080", config, http::server::Config::new(), |cx: &mut Cx<'_>, call: &Call| {
///     cx.complete(&CallToolResult::text(call.tool_call()?.name))
/// })?;
/// # Ok::<(), mcp_blocking::Error>(())
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

/// An HTTP server on one thread: all connections, their event streams, and the handlers.
///
/// While a handler runs, no connection moves, except inside [`Cx::progress`](crate::Cx::progress),
/// [`checkpoint`](crate::Cx::checkpoint) and [`sleep`](crate::Cx::sleep), which drive all connections. A slow handler
/// therefore delays all clients: use this for local tools and few clients (DESIGN-20).
///
/// The number of connections is limited ([`max_connections`](Self::max_connections)), including those with an event
/// stream. At the limit, a new connection waits. Once its request has arrived, the connection that loses least is
/// evicted: one that was refused and lingers, that never sent a byte, whose head is incomplete, whose token has waited
/// for its decision for 2 s, that is slower than [`HttpLimits::min_rate`], or that has been idle for 300 ms. If there is
/// none within 900 ms, the request gets 503 with `Retry-After`. The same connections are evicted when the process has no
/// descriptor left.
///
/// Every program that reaches the address can use the server. Listen at `127.0.0.1` or `[::1]` unless other machines
/// shall have access (HTTP-006). [`http::server::Config`](http::Config) sets which hosts and origins are accepted. On
/// public networks use TLS (`HttpServer::tls`, feature `tls`) or a proxy.
#[derive(Debug)]
pub struct HttpServer<H>(serve::HttpServer<H>);

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
        serve::HttpServer::bind(address, config, http, handler).map(Self)
    }

    /// Sets the maximum number of open connections (at least 1).
    ///
    /// The default is the number of descriptors that the process may have open when the server is created, less 128,
    /// and at most 10,000; see [`raise_descriptor_limit`](crate::raise_descriptor_limit). An idle connection takes about
    /// 1 KiB, and one with a request at most [`Limits::max_frame`](mcp_proto::Limits) for its body and four times
    /// [`HttpLimits::max_buffered`](mcp_proto::h1::HttpLimits) for its buffers. Besides, 64 connections may wait.
    /// Three quarters of the connections may be event streams: a further one ends the one that has been quiet for
    /// longest.
    #[must_use]
    pub fn max_connections(self, connections: usize) -> Self {
        Self(self.0.max_connections(connections))
    }

    /// Sets the maximum number of open connections of one address (default: half of all; at least 1).
    ///
    /// Of IPv6, addresses of one network of 64 bits count as one. Addresses of this machine are not limited. Reached:
    /// 503. Behind a proxy on another machine, all clients have its address: set `usize::MAX` there.
    #[must_use]
    pub fn max_connections_per_address(self, connections: usize) -> Self {
        Self(self.0.max_connections_per_address(connections))
    }

    /// Sets the limits of each connection (timeouts, sizes of heads).
    ///
    /// The limit on bodies is always [`Limits::max_frame`](mcp_proto::Limits).
    #[must_use]
    pub fn connection_limits(self, limits: HttpLimits) -> Self {
        Self(self.0.connection_limits(limits))
    }

    /// Serves TLS only. A connection without TLS is closed.
    ///
    /// The handshake has the same timeout as the head of a request ([`connection_limits`](Self::connection_limits)). A
    /// connection holds up to 32 KiB more in each direction while it moves data, and about 8 KiB more when idle.
    ///
    /// ```no_run
    /// use mcp_blocking::mcp_proto::{http, model::CallToolResult, server::Config};
    /// use mcp_blocking::{Call, Cx, HttpServer, tls::ServerTls};
    ///
    /// let tls = ServerTls::from_files("chain.pem", "key.pem")?;
    /// let http = http::server::Config::new().allow_host("tools.example.com");
    /// let handler = |cx: &mut Cx<'_>, _: &Call| cx.complete(&CallToolResult::text("hello"));
    /// HttpServer::bind("[::]:8443", Config::new("demo", "1.0"), http, handler)?.tls(tls).run()?;
    /// # Ok::<(), mcp_blocking::Error>(())
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(self, tls: impl Into<mcp_std::tls::ServerTls>) -> Self {
        Self(self.0.tls(tls))
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
    /// use mcp_blocking::mcp_proto::http::server::{Config as Http, Denial, Protected, TokenRequest};
    /// use mcp_blocking::mcp_proto::server::{Config, Identity};
    /// use mcp_blocking::mcp_proto::model::CallToolResult;
    /// use mcp_blocking::{Call, Cx, HttpServer};
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
        self.0 = self.0.validate_tokens(validator);
        self
    }

    /// Shares the sessions of clients with other processes, so that each request can go to any of them and a session survives
    /// its process ([`SharedSessions`](mcp_runtime::server::SharedSessions)).
    ///
    /// Requests that need the store while it is down are answered with 503 and `Retry-After`: those that begin or change a
    /// session, and those of a session that is not here.
    ///
    /// # Errors
    ///
    /// [`Error::Tasks`] if the server has tasks, which other processes would not know; [`Error::Io`] if no thread can be
    /// started.
    #[cfg(feature = "shared-sessions")]
    pub fn share_sessions(mut self, sessions: &mcp_runtime::server::SharedSessions) -> Result<Self, Error> {
        self.0 = self.0.share_sessions(sessions)?;
        Ok(self)
    }

    /// Sets a callback that completes the description of each connection, before its first request.
    ///
    /// The description has the address of the client, and its certificates if TLS asks for them. Handlers get it with
    /// what the callback attaches: `cx.http()`, `cx.extension()`. The callback runs on a thread that accepts, after the TLS
    /// handshake, and must not block. If it panics, the connection ends.
    ///
    /// ```
    /// # fn demo(server: mcp_blocking::HttpServer<impl mcp_blocking::Handler>) {
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
        self.0 = self.0.on_connect(describe);
        self
    }

    /// Enables [`Handler::head`].
    #[must_use]
    pub fn tap_heads(self) -> Self {
        Self(self.0.tap_heads())
    }

    /// Returns the address at which the server listens.
    ///
    /// # Errors
    ///
    /// The error of the operating system, or an error after shutdown.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.0.address()
    }

    /// Returns the number of open connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.0.connections()
    }

    /// Returns a handle for commands from other threads.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system has no descriptor left.
    pub fn handle(&mut self) -> Result<Handle, Error> {
        self.0.handle()
    }

    /// Serves until [`Handle::shutdown`] is called.
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll).
    pub fn run(self) -> Result<(), Error> {
        self.0.run()
    }

    /// Waits for work, at most for `timeout`, and does it. Returns `false` when the server has ended.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system refuses to wait. An error of a connection ends that connection only.
    pub fn poll(&mut self, timeout: Duration) -> Result<bool, Error> {
        self.0.poll(timeout)
    }

    /// Stops accepting connections. The server ends when all calls are answered and written, or after `grace`.
    ///
    /// Call [`poll`](Self::poll) afterwards until it returns `false`. From other threads use [`Handle::shutdown`].
    pub fn shutdown(&mut self, grace: Duration) {
        self.0.shutdown(grace);
    }

    /// Returns the server. Output of its commands is sent with the next [`poll`](Self::poll).
    pub fn server(&mut self) -> &mut http::Server {
        self.0.server()
    }

    /// Returns the engine of the server.
    pub fn engine(&mut self) -> &mut Engine {
        self.0.engine()
    }

    /// Announces a change to all subscribers, or an [`Announcement`] to its audience. Returns their number.
    pub fn publish<'c>(&mut self, change: impl Into<Announcement<'c>>) -> usize {
        self.0.publish(change)
    }

    /// Returns the current time, for commands of the engine.
    pub fn now(&mut self) -> Instant {
        self.0.now()
    }

    /// Returns the handler.
    pub const fn handler(&mut self) -> &mut H {
        self.0.handler()
    }
}
