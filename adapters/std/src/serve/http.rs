//! Serving HTTP: one loop for all connections and their streams

mod shards;
mod state;
mod turns;

pub use self::shards::Shard;

use alloc::boxed::Box;
use core::fmt;
use core::net::SocketAddr;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::net::ToSocketAddrs;

use mcp_proto::h1::Limits;
use mcp_proto::http::server as http;
use mcp_proto::server::{Config, Engine};
use mcp_proto::{Change, Instant};

use self::turns::{Elsewhere, Loop};
use super::desk::Commands;
use super::handler::Handler;
use super::host::Host;
use super::remote::Remote;
use super::stream::{HandOut, Handle};
use crate::held::Held;
use crate::{Error, Listener};

/// A server over HTTP, on one thread: all connections, their streams, and the handlers
///
/// A handler runs on the loop's thread, unless handlers [run elsewhere](Self::away): while it runs, no connection moves,
/// except inside of the methods of [`Cx`](super::Cx) that say so ([`progress`](super::Cx::progress),
/// [`checkpoint`](super::Cx::checkpoint), [`sleep`](super::Cx::sleep)), which move all of them. So a slow handler stops
/// everybody: this is for local tools and for few clients.
///
/// 64 connections are open at a time ([`max_connections`](Self::max_connections)), those included that carry a stream of
/// events. Who comes then gets the place of a connection that is kept alive and was not used for a second, or waits; so
/// does who comes when no descriptor is left.
///
/// Whoever can reach the address can use the server. Listen at `127.0.0.1` or `[::1]` unless it is meant for others
/// (HTTP-006); what is let in besides is in [`http::server::Config`](http::Config). For the open network there is TLS with the
/// feature of that name (`HttpServer::tls`), or put a proxy in front.
pub struct HttpServer<H> {
    handler: H,
    all: Held<Loop>,
}

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
        Self::of(Loop::bind(Listener::bind(address)?, config, http)?, handler)
    }

    fn of(mut all: Held<Loop>, mut handler: H) -> Result<Self, Error> {
        all.state.tell_tools(&mut handler)?;
        Ok(Self { handler, all })
    }

    /// Has handlers run elsewhere: `run` takes the calls to them, `most` of them at a time (at least 1)
    ///
    /// The handler that the server has only hears what is no call. When more calls wait than may, further requests are
    /// refused with 503. To be said before it runs.
    ///
    /// # Errors
    ///
    /// Those of [`Selector::waker`](crate::Selector::waker).
    pub fn away(
        &mut self,
        most: usize,
        run: impl FnMut(&mut dyn Iterator<Item = Remote>) + Send + 'static,
    ) -> Result<(), Error> {
        self.all.away = Elsewhere(Some(Box::new(run)));
        self.all.desk.limit(most);
        self.all.wake()
    }

    /// What gives it commands from other threads
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system has no descriptor left that could end its waiting.
    pub fn handle(&mut self) -> Result<Handle, Error> {
        self.all.wake()?;
        Ok(Handle::new(self.all.desk.commands()))
    }

    /// How many connections may be open at a time (default 64; at least 1)
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.all.state.peers.max = connections.max(1);
        self
    }

    /// The bounds of connections, such as how slow a client may be; how long a body may be is said by
    /// [`Limits::max_frame`](mcp_proto::Limits), whatever stands here
    #[must_use]
    pub fn connection_limits(mut self, limits: Limits) -> Self {
        self.all.state.peers.limits = limits;
        self.all.state.peers.limits.max_body = u64::MAX;
        self
    }

    /// Speaks TLS to all clients; one that does not is let go
    ///
    /// The handshake may take as long as the head of a request ([`connection_limits`](Self::connection_limits)). A
    /// connection holds up to 32 KiB more in each direction while it moves data, and about 8 KiB when it is idle.
    ///
    /// ```no_run
    /// use mcp_proto::{http, model::CallToolResult, server::{Call, Config}};
    /// use mcp_std::{serve::{Cx, HttpServer}, tls::ServerTls};
    ///
    /// let tls = ServerTls::from_files("chain.pem", "key.pem")?;
    /// let http = http::server::Config::new().allow_host("tools.example.com");
    /// let handler = |cx: &mut Cx<'_>, _: &Call| cx.complete(&CallToolResult::text("hello"));
    /// HttpServer::bind("[::]:8443", Config::new("demo", "1.0"), http, handler)?.tls(tls).run()?;
    /// # Ok::<(), mcp_std::Error>(())
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: impl Into<crate::tls::ServerTls>) -> Self {
        self.all.state.peers.tls = Some(tls.into());
        self
    }

    /// Has [`Handler::head`] see the heads of requests and responses
    #[must_use]
    pub fn tap_heads(mut self) -> Self {
        self.all.state.peers.heads = true;
        self
    }

    /// Where it listens
    ///
    /// # Errors
    ///
    /// What the operating system says; when it was told to shut down.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.all.state.peers.address()
    }

    /// Connections that are open, of all [shards](Self::shards)
    #[must_use]
    pub fn connections(&self) -> usize {
        self.all.state.peers.count()
    }

    /// Serves until [shut down](Self::shutdown), which only who holds the loop can do: for ever
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll).
    pub fn run(mut self) -> Result<(), Error> {
        while self.all.turn(&mut self.handler, None)? {}
        Ok(())
    }

    /// Waits for something to do, at most for `timeout`, and does it; false when everything is over
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system does not let it wait; what goes wrong with a connection ends that one.
    pub fn poll(&mut self, timeout: Duration) -> Result<bool, Error> {
        let until = self.all.state.peers.tick() + timeout;
        self.all.turn(&mut self.handler, Some(until))
    }

    /// Accepts nobody any more; ends when calls in work are answered and written, or after `grace`
    ///
    /// To be followed by [`poll`](Self::poll) until that says that it is over.
    pub fn shutdown(&mut self, grace: Duration) {
        Host::shutdown(&mut self.all.state, grace);
    }

    /// The server itself; what its commands write goes out with the next [`poll`](Self::poll)
    pub fn server(&mut self) -> &mut http::Server {
        &mut self.all.state.server
    }

    /// The engine, for commands such as a notification; what they write goes out with the next [`poll`](Self::poll)
    pub fn engine(&mut self) -> &mut Engine {
        self.all.state.server.engine()
    }

    /// Tells everybody who wants to know that something has changed; how many that are
    pub fn publish(&mut self, change: &Change) -> usize {
        self.all.state.tell(change)
    }

    /// The time, for the engine's commands
    pub fn now(&mut self) -> Instant {
        self.all.state.peers.tick()
    }

    /// The handler
    pub const fn handler(&mut self) -> &mut H {
        &mut self.handler
    }

    // For loops that wait by other means and run handlers themselves, as futures: `look` when the selector may have
    // something, `go_on`, and `arm` before a wait.

    /// How many calls may run at a time, for a loop that [runs them itself](Self::go_on) (at least 1)
    pub fn max_running(&mut self, calls: usize) {
        self.all.desk.limit(calls);
    }

    /// For whoever wants something done on the loop
    #[must_use]
    pub fn commands(&self) -> Commands {
        self.all.desk.commands()
    }

    /// Has `waker` woken, instead of the selector, by what handlers, [commands](Self::commands) and other
    /// [shards](Self::shards) have to say from now on; to be followed by [`go_on`](Self::go_on)
    pub fn register(&self, waker: &Waker) {
        self.all.desk.register(waker);
        self.all.state.crossings.register(waker);
    }

    /// Sees what can be read, written and accepted, without waiting
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system does not let it look.
    pub fn look(&mut self) -> Result<(), Error> {
        self.all.look()
    }

    /// Does what there is to do, and gives the calls to `run` that may run now; whether there was anything
    ///
    /// The handler that the server has only hears what is no call.
    pub fn go_on(&mut self, run: &mut HandOut<'_>) -> bool {
        self.all.state.peers.tick();
        self.all.act(&mut self.handler, Some(run))
    }

    /// Brings up to date what the selector waits for; when to [look](Self::look) and [go on](Self::go_on) at the latest
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system does not let it wait.
    pub fn arm(&mut self) -> Result<Option<Instant>, Error> {
        self.all.arm()
    }

    /// Whether it was told to shut down, and nobody is connected any more
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.all.state.peers.is_over()
    }
}

/// Readable when there is something for [`look`](HttpServer::look) to find
#[cfg(target_os = "linux")]
impl<H> std::os::fd::AsFd for HttpServer<H> {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.all.state.peers.as_fd()
    }
}

impl<H: fmt::Debug> fmt::Debug for HttpServer<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServer").field("handler", &self.handler).field("all", &self.all).finish()
    }
}
