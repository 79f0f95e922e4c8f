//! Serving HTTP, with handlers that run on workers

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use std::io;
use std::net::ToSocketAddrs;
use std::thread::{self, JoinHandle};

use mcp_proto::h1::Limits;
use mcp_proto::http::server as http;
use mcp_proto::server::{Config, Engine};
use mcp_proto::{Change, Instant};
use mcp_std::Error;
use mcp_std::serve::{self, Handle, Remote};

use crate::handler::{Handler, Shared};
use crate::pool::Pool;
use crate::server::{pool, workers};

/// Serves HTTP at `address` for ever; see [`HttpServer`]
///
/// ```no_run
/// use mcp_proto::{Capabilities, Capability, http, model::CallToolResult, server::Config};
/// use mcp_threads::{Call, Cx, serve_http};
///
/// let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
/// serve_http("127.0.0.1:8080", config, http::server::Config::new(), |cx: &mut Cx<'_>, call: &Call| {
///     cx.complete(&CallToolResult::text(call.tool()?.name))
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

/// A server over HTTP: one thread for all connections, or [several](Self::shards), and handlers on [workers](Self::workers)
///
/// A handler holds up nobody: not other handlers, as long as there are workers, and not the connections. One that never
/// returns keeps its worker, and is left behind when the server ends.
///
/// 64 connections are open at a time ([`max_connections`](Self::max_connections)), those included that carry a stream of
/// events. Who comes then gets the place of a connection that is kept alive and was not used for a second, or waits; so
/// does who comes when no descriptor is left.
/// Requests beyond [`http::server::Config::max_exchanges`](http::Config::max_exchanges) are refused with 503 and told
/// when to come again, and so are those that come while as many calls wait for workers as
/// [`Limits::max_waiting`](mcp_proto::Limits) and [`max_waiting_bytes`](mcp_proto::Limits) let.
///
/// Whoever can reach the address can use the server. Listen at `127.0.0.1` or `[::1]` unless it is meant for others
/// (HTTP-006); what is let in besides is in [`http::server::Config`](http::Config). For the open network there is TLS with the
/// feature of that name (`HttpServer::tls`), or put a proxy in front.
#[derive(Debug)]
pub struct HttpServer<H> {
    inner: serve::HttpServer<Shared<H>>,
    workers: usize,
    shards: u8,
    started: bool,
    others: Shards,
}

/// Those that are not the first, each on a thread of its own; told to shut down when this is dropped
#[derive(Debug, Default)]
struct Shards(Vec<(Handle, JoinHandle<Result<(), Error>>)>);

impl<H: Handler> HttpServer<H> {
    /// Begins to listen; connections are accepted while the loop runs
    ///
    /// `address` is one such as `127.0.0.1:8080`; with port 0 the system chooses one: [`address`](Self::address).
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the address cannot be had, there is no source of randomness, a tool's schema asks for header
    /// fields that cannot be, [`Handler::tools`] panics, or the platform cannot wait for many sockets.
    pub fn bind(
        address: impl ToSocketAddrs,
        config: Config,
        http: http::Config,
        handler: H,
    ) -> Result<Self, Error> {
        let inner = serve::HttpServer::bind(address, config, http, Shared(Arc::new(handler)))?;
        Ok(Self { inner, workers: workers(), shards: 1, started: false, others: Shards::default() })
    }

    /// How many handlers run at a time; see [`Server::workers`](crate::Server::workers)
    ///
    /// With 0 handlers run on the threads of the shards: while one runs, no connection of its shard moves, except inside
    /// of [`Cx::progress`](crate::Cx::progress), [`checkpoint`](crate::Cx::checkpoint) and [`sleep`](crate::Cx::sleep).
    ///
    /// To be said before it runs, and before anybody has a [`Handle`].
    #[must_use]
    pub const fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// On how many threads connections are served, each with clients and sessions of its own (default 1; at least 1)
    ///
    /// One serves tens of thousands of requests a second. More than the machine has cores are of no use. Connections are
    /// shared out in turn; one whose client comes with a session of another shard goes there.
    ///
    /// To be said before it runs, and before anybody has a [`Handle`].
    #[must_use]
    pub const fn shards(mut self, shards: u8) -> Self {
        self.shards = shards;
        self
    }

    /// Keeps each [shard](Self::shards) but the first on a core of its own, and gives it the connections whose packets come
    /// in there, as long as that keeps shards even
    ///
    /// For a machine that does little else, whose network card (or proxy on the same machine) works on several cores: what
    /// comes in on a core is not carried to another one. The first shard is wherever it is run.
    /// [Workers](Self::workers) are not kept anywhere.
    ///
    /// To be said before it runs, and before anybody has a [`Handle`].
    ///
    /// On Linux; elsewhere this changes nothing.
    #[must_use]
    pub fn pin_shards(mut self) -> Self {
        self.inner.pin_shards();
        self
    }

    /// How many connections may be open at a time, in all shards together (default 64; at least 1)
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.inner = self.inner.max_connections(connections);
        self
    }

    /// The bounds of connections, such as how slow a client may be; how long a body may be is said by
    /// [`Limits::max_frame`](mcp_proto::Limits), whatever stands here
    #[must_use]
    pub fn connection_limits(mut self, limits: Limits) -> Self {
        self.inner = self.inner.connection_limits(limits);
        self
    }

    /// Speaks TLS to all clients; one that does not is let go
    ///
    /// The handshake may take as long as the head of a request ([`connection_limits`](Self::connection_limits)). A
    /// connection holds up to 32 KiB more in each direction while it moves data, and about 8 KiB when it is idle.
    ///
    /// ```no_run
    /// use mcp_proto::{http, model::CallToolResult, server::Config};
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

    /// Has [`Handler::head`] see the heads of requests and responses
    #[must_use]
    pub fn tap_heads(mut self) -> Self {
        self.inner = self.inner.tap_heads();
        self
    }

    /// Where it listens
    ///
    /// # Errors
    ///
    /// What the operating system says; when it was told to shut down.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.inner.address()
    }

    /// Connections that are open
    #[must_use]
    pub fn connections(&self) -> usize {
        self.inner.connections()
    }

    /// What gives it commands from other threads: to shut down, or that something has changed, which all shards tell; its
    /// [`with_engine`](Handle::with_engine) is about the first shard alone
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system has no descriptor or thread left.
    pub fn handle(&mut self) -> Result<Handle, Error> {
        self.start()?;
        self.inner.handle()
    }

    /// Serves until it is [shut down](Handle::shutdown)
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll).
    pub fn run(mut self) -> Result<(), Error> {
        self.start()?;
        let ran = self.inner.run();
        self.others.end(ran)
    }

    /// Waits for something to do, at most for `timeout`, and does it; false when everything is over
    ///
    /// This turns the loop of the first shard; the others have threads of their own.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system does not let it wait; what goes wrong with a connection ends that one.
    pub fn poll(&mut self, timeout: Duration) -> Result<bool, Error> {
        self.start()?;
        match self.inner.poll(timeout) {
            Ok(true) => Ok(true),
            over => core::mem::take(&mut self.others).end(over.map(drop)).map(|()| false),
        }
    }

    /// Accepts nobody any more; ends when calls in work are answered and written, or after `grace`
    ///
    /// To be followed by [`poll`](Self::poll) until that says that it is over. From other threads:
    /// [`Handle::shutdown`].
    pub fn shutdown(&mut self, grace: Duration) {
        self.inner.shutdown(grace);
    }

    /// The server itself, or its first shard; what its commands write goes out with the next [`poll`](Self::poll)
    pub fn server(&mut self) -> &mut http::Server {
        self.inner.server()
    }

    /// The engine of the server, or of its first shard
    pub fn engine(&mut self) -> &mut Engine {
        self.inner.engine()
    }

    /// Tells everybody who wants to know that something has changed; how many that are in the first shard
    pub fn publish(&mut self, change: &Change) -> usize {
        self.inner.publish(change)
    }

    /// The time, for the engine's commands
    pub fn now(&mut self) -> Instant {
        self.inner.now()
    }

    /// The handler
    pub fn handler(&mut self) -> &H {
        &self.inner.handler().0
    }

    fn start(&mut self) -> Result<(), Error> {
        if core::mem::replace(&mut self.started, true) {
            return Ok(());
        }
        let handler = self.inner.handler().clone();
        let pool =
            (self.workers > 0).then(|| Arc::new(pool(self.workers, self.inner.cores().clone(), &handler)));
        let mut others = Vec::new();
        if self.shards > 1 {
            others = self.inner.shards(usize::from(self.shards) - 1)?;
        }
        if let Some(pool) = &pool {
            hand_out(&mut self.inner, self.workers, pool)?;
        }
        for shard in others {
            let mut other = shard.with(handler.clone())?;
            if let Some(pool) = &pool {
                hand_out(&mut other, self.workers, pool)?;
            }
            let (first, handle) = (self.inner.handle()?, other.handle()?);
            let serving = move || {
                other.stay();
                let ran = other.run();
                if ran.is_err() {
                    // Clients must not be sent to one that is not there.
                    first.shutdown(Duration::ZERO);
                }
                ran
            };
            let thread = thread::Builder::new().name("mcp-shard".into()).spawn(serving)?;
            self.others.0.push((handle, thread));
        }
        Ok(())
    }
}

/// Has handlers run on workers
fn hand_out<H: Handler>(
    server: &mut serve::HttpServer<Shared<H>>,
    workers: usize,
    pool: &Arc<Pool<Remote>>,
) -> Result<(), Error> {
    let (pool, mut calls) = (pool.clone(), VecDeque::new());
    server.away(workers, move |work| {
        calls.extend(work);
        pool.give(&mut calls);
    })
}

impl Shards {
    /// Waits for all of them, which were told to shut down along with the first one unless that failed
    fn end(mut self, ran: Result<(), Error>) -> Result<(), Error> {
        if ran.is_err() {
            self.shut_down();
        }
        core::mem::take(&mut self.0).into_iter().fold(ran, |ran, (_, thread)| {
            let ended = thread.join().unwrap_or_else(|_| Err(io::Error::other("a shard panicked").into()));
            ran.and(ended)
        })
    }

    fn shut_down(&self) {
        self.0.iter().for_each(|(handle, _)| handle.shutdown(Duration::ZERO));
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        self.shut_down();
    }
}
