//! Serving HTTP: one loop for all connections and their streams

use alloc::collections::VecDeque;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;

use mcp_proto::h1::Limits;
use mcp_proto::http::server::{self as http, Denial, ExchangeId, Token};
use mcp_proto::seal::Keys;
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{CallId, Change, Entropy, Instant, RawJson};
use mcp_std::{Listener, catch, entropy};

use mcp_std::Error;
use mcp_std::serve::Peers;
use mcp_std::serve::{self, Backlog, Handler, Host};

/// Serves HTTP at `address` for ever; see [`HttpServer`]
///
/// ```no_run
/// use mcp_blocking::{Call, Cx, serve_http};
/// use mcp_proto::{Capabilities, Capability, http, model::CallToolResult, server::Config};
///
/// let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
/// serve_http("127.0.0.1:8080", config, http::server::Config::new(), |cx: &mut Cx<'_>, call: &Call| {
///     cx.complete(&CallToolResult::text(call.tool()?.name))
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

/// A server over HTTP, on one thread: all connections, their streams, and the handlers
///
/// A handler runs on the loop's thread: while it runs, no connection moves, except inside of the methods of
/// [`Cx`](crate::Cx) that say so ([`progress`](crate::Cx::progress), [`checkpoint`](crate::Cx::checkpoint),
/// [`sleep`](crate::Cx::sleep)), which move all of them. So a slow handler stops everybody: this is for local tools and
/// for few clients.
///
/// 64 connections are open at a time ([`max_connections`](Self::max_connections)), those included that carry a stream of
/// events. Who comes then gets the place of a connection that is kept alive and was not used for a second, or waits.
///
/// Whoever can reach the address can use the server. Listen at `127.0.0.1` or `[::1]` unless it is meant for others
/// (HTTP-006); what is let in besides is in [`http::server::Config`](http::Config). For the open network there is TLS with the
/// feature of that name (`HttpServer::tls`), or put a proxy in front.
#[derive(Debug)]
pub struct HttpServer<H> {
    handler: H,
    state: State,
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
        let peers = Peers::new(Listener::bind(address)?)?;
        let seed = entropy::seed()?;
        let anchor = peers.anchor();
        // Its own, so that what is sealed has nothing to do with ids of sessions.
        let keys = entropy::seed()?;
        let config = config.seal_by_default(|| Some((Keys::new(keys), anchor)));
        let entropy = Entropy::new(seed, entropy::nonce());
        let server = http::Server::new(Arc::new(config), Arc::new(http), entropy);
        let mut state = State {
            server,
            peers,
            backlog: Backlog::default(),
            held: VecDeque::new(),
            told: Vec::new(),
            tools_changed: false,
            ends_at: None,
            error: None,
        };
        let mut handler = handler;
        state.tell_tools(&mut handler)?;
        Ok(Self { handler, state })
    }

    /// How many connections may be open at a time (default 64; at least 1)
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.state.peers.max = connections.max(1);
        self
    }

    /// The bounds of connections, such as how slow a client may be; how long a body may be is said by
    /// [`Limits::max_frame`](mcp_proto::Limits), whatever stands here
    #[must_use]
    pub fn connection_limits(mut self, limits: Limits) -> Self {
        self.state.peers.limits = limits;
        self.state.peers.limits.max_body = u64::MAX;
        self
    }

    /// Speaks TLS to all clients; one that does not is let go
    ///
    /// The handshake may take as long as the head of a request ([`connection_limits`](Self::connection_limits)). A
    /// connection holds up to 32 KiB more in each direction while it moves data, and about 8 KiB when it is idle.
    ///
    /// ```no_run
    /// use mcp_blocking::{Call, Cx, HttpServer, tls::ServerTls};
    /// use mcp_proto::{http, model::CallToolResult, server::Config};
    ///
    /// let tls = ServerTls::from_files("chain.pem", "key.pem")?;
    /// let http = http::server::Config::new().allow_host("tools.example.com");
    /// let handler = |cx: &mut Cx<'_>, _: &Call| cx.complete(&CallToolResult::text("hello"));
    /// HttpServer::bind("[::]:8443", Config::new("demo", "1.0"), http, handler)?.tls(tls).run()?;
    /// # Ok::<(), mcp_blocking::Error>(())
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: impl Into<mcp_std::tls::ServerTls>) -> Self {
        self.state.peers.tls = Some(tls.into());
        self
    }

    /// Has [`Handler::head`] see the heads of requests and responses
    #[must_use]
    pub const fn tap_heads(mut self) -> Self {
        self.state.peers.heads = true;
        self
    }

    /// Where it listens
    ///
    /// # Errors
    ///
    /// What the operating system says; when it was told to shut down.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.state.peers.address()
    }

    /// Connections that are open
    #[must_use]
    pub fn connections(&self) -> usize {
        self.state.peers.count()
    }

    /// Serves until [shut down](Self::shutdown), which only who holds the loop can do: for ever
    ///
    /// # Errors
    ///
    /// As [`poll`](Self::poll).
    pub fn run(mut self) -> Result<(), Error> {
        while self.turn(None)? {}
        Ok(())
    }

    /// Waits for something to do, at most for `timeout`, and does it; false when everything is over
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system does not let it wait; what goes wrong with a connection ends that one.
    pub fn poll(&mut self, timeout: Duration) -> Result<bool, Error> {
        let until = self.state.peers.tick() + timeout;
        self.turn(Some(until))
    }

    /// Accepts nobody any more; ends when calls in work are answered and written, or after `grace`
    ///
    /// To be followed by [`poll`](Self::poll) until that says that it is over.
    pub fn shutdown(&mut self, grace: Duration) {
        Host::shutdown(&mut self.state, grace);
    }

    /// The server itself; what its commands write goes out with the next [`poll`](Self::poll)
    pub const fn server(&mut self) -> &mut http::Server {
        &mut self.state.server
    }

    /// The engine, for commands such as a notification; what they write goes out with the next [`poll`](Self::poll)
    pub const fn engine(&mut self) -> &mut Engine {
        self.state.server.engine()
    }

    /// Tells everybody who wants to know that something has changed; how many that are
    pub fn publish(&mut self, change: &Change) -> usize {
        self.state.tell(change)
    }

    /// The time, for the engine's commands
    pub fn now(&mut self) -> Instant {
        self.state.peers.tick()
    }

    /// The handler
    pub const fn handler(&mut self) -> &mut H {
        &mut self.handler
    }

    /// One turn of the loop; false when everything is over
    fn turn(&mut self, until: Option<Instant>) -> Result<bool, Error> {
        let until = until.into_iter().chain(self.state.ends_at).min();
        // Commands may have been given since.
        self.state.write();
        self.show_tap();
        if !self.state.peers.is_over() {
            self.state.wait_until(until);
            if let Some(error) = self.state.error.take() {
                return Err(Error::Io(error));
            }
        }
        if self.state.ends_at.is_some_and(|at| at <= self.state.peers.now()) {
            self.state.peers.abandon(&mut self.state.server);
        }
        // One after the other, so that nobody's answer waits for what others want.
        self.settle();
        while self.state.next_peer() {
            self.settle();
        }
        Ok(!self.state.peers.is_over())
    }

    /// Handles everything that was read, then writes everything, until there is nothing left to do but wait
    fn settle(&mut self) {
        loop {
            let mut moved = false;
            while let Some(event) = self.state.next_event() {
                self.show_tap();
                if matches!(event, Event::Call(_)) {
                    // Whoever waits for the answers to other calls need not wait for this handler.
                    self.state.write();
                }
                serve::handle(&mut self.state, &mut self.handler, &event);
                // However long that took: what is written next was not waiting meanwhile.
                self.state.peers.tick();
                if core::mem::take(&mut self.state.tools_changed) {
                    // What cannot be used is not checked; it was told of at the start.
                    let _ = self.state.tell_tools(&mut self.handler);
                }
                moved = true;
            }
            moved |= self.judge();
            moved |= self.state.write();
            self.show_tap();
            if !moved {
                return;
            }
        }
    }

    /// Has the handler judge the tokens that came; whether there were any
    fn judge(&mut self) -> bool {
        let mut any = false;
        while let Some((exchange, token)) = self.state.held.pop_front() {
            any = true;
            let verdict = catch(|| self.handler.token(&token));
            let (now, server) = (self.state.peers.tick(), &mut self.state.server);
            match verdict {
                Ok(Ok(principal)) => server.grant(now, exchange, &principal),
                Ok(Err(denial)) => server.deny(now, exchange, &denial),
                Err(_) => server.deny(now, exchange, &Denial::InvalidToken),
            }
            self.state.peers.drive(server, exchange);
        }
        any
    }

    fn show_tap(&mut self) {
        while let Some(record) = self.state.peers.poll_head() {
            let _ = catch(|| self.handler.head(&record));
        }
        while let Some(record) = self.state.server.engine().poll_tap() {
            let _ = catch(|| self.handler.tap(&record));
        }
    }
}

/// Everything but the handler
#[derive(Debug)]
struct State {
    server: http::Server,
    peers: Peers,
    backlog: Backlog,
    /// Exchanges that wait for a judgement of their tokens; no more of them than connections
    held: VecDeque<(ExchangeId, Token)>,
    /// The tools that the server knows the schemas of
    told: Vec<String>,
    tools_changed: bool,
    /// When what is left is given up, once it was told to shut down
    ends_at: Option<Instant>,
    /// Why nothing can be waited for
    error: Option<io::Error>,
}

impl State {
    /// Tells everybody who wants to know that something has changed; how many that are
    fn tell(&mut self, change: &Change) -> usize {
        self.tools_changed |= *change == Change::Tools;
        let now = self.peers.tick();
        self.server.engine().publish(now, change)
    }

    fn next_event(&mut self) -> Option<Event> {
        self.backlog.pop().or_else(|| self.poll_event())
    }

    fn poll_event(&mut self) -> Option<Event> {
        let now = self.peers.now();
        loop {
            match self.server.poll_event(now)? {
                http::Event::Server(event) => return Some(event),
                http::Event::Token { exchange, token } => self.held.push_back((exchange, token)),
                _ => {}
            }
        }
    }

    /// Whether more is taken in
    fn reads(&mut self) -> bool {
        !self.backlog.is_full(self.server.engine().config().get_limits())
    }

    fn wait_until(&mut self, until: Option<Instant>) {
        let reads = self.reads();
        if let Err(error) = self.peers.wait(&mut self.server, reads, until) {
            self.error.get_or_insert(error);
            self.peers.tick();
        }
    }

    /// Gives the next one its turn for whom there is something; false when there is nobody
    fn next_peer(&mut self) -> bool {
        let reads = self.reads();
        self.peers.next(&mut self.server, reads)
    }

    /// Gives all of them their turn, and writes what comes of it; whether there were any
    fn each_peer(&mut self) -> bool {
        let mut any = false;
        while self.next_peer() {
            any = true;
            self.write();
        }
        any
    }

    /// Tells the server which arguments of tools are repeated in header fields
    fn tell_tools(&mut self, handler: &mut impl Handler) -> Result<(), Error> {
        let mut gone = core::mem::take(&mut self.told);
        let mut refused = None;
        let told = catch(|| {
            handler.tools(&mut |name, schema| {
                gone.retain(|other| other != name);
                self.told.push(name.into());
                if let Err(why) = self.server.tool_schema(name, schema) {
                    let why =
                        alloc::format!("the schema of the tool `{name}` cannot be served over HTTP: {why}");
                    refused.get_or_insert_with(|| io::Error::new(ErrorKind::InvalidInput, why));
                }
            })
        });
        if let Err(panic) = told {
            // What it had before stays known, so that it can be told of no more later.
            self.told.append(&mut gone);
            refused.get_or_insert_with(|| io::Error::other(panic.to_string()));
        }
        if let Ok(nothing) = RawJson::new("{}") {
            gone.iter().for_each(|name| _ = self.server.tool_schema(name, &nothing));
        }
        refused.map_or(Ok(()), |error| Err(Error::Io(error)))
    }
}

impl Host for State {
    fn engine(&mut self) -> &mut Engine {
        self.server.engine()
    }

    fn now(&self) -> Instant {
        self.peers.now()
    }

    fn tick(&mut self) -> Instant {
        self.peers.tick()
    }

    fn next_meanwhile(&mut self) -> Option<Event> {
        self.poll_event()
    }

    fn defer(&mut self, event: Event) {
        self.backlog.push(event);
    }

    fn write(&mut self) -> bool {
        self.peers.write(&mut self.server)
    }

    fn wait(&mut self, until: Instant) {
        // Those are first whose turn had not come when the handler began; then it is only seen what there is besides.
        let left = self.each_peer();
        let until = if left { self.peers.now() } else { until };
        self.wait_until(Some(until));
        self.each_peer();
    }

    fn publish(&mut self, change: &Change) {
        self.tell(change);
    }

    fn shutdown(&mut self, grace: Duration) {
        let now = self.peers.tick();
        self.server.shutdown(now, grace);
        self.peers.close(&mut self.server);
        self.ends_at = Some(now + grace);
    }

    fn polls(&self) -> bool {
        true
    }

    fn poll_later(&mut self, call: CallId, retry: Option<Duration>) -> bool {
        let now = self.peers.tick();
        self.server.poll_later(now, call, retry)
    }
}
