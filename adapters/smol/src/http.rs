//! Serving HTTP: one future for all connections and their streams

use alloc::collections::VecDeque;
use alloc::string::{String, ToString as _};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::net::SocketAddr;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;

use mcp_proto::h1::Limits;
use mcp_proto::http::server::{self as http, Denial, ExchangeId, Token};
use mcp_proto::seal::Keys;
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{CallId, Change, Entropy, Instant, RawJson};
use mcp_std::serve::{Desk, Handle, Host, Peers, Remote};
use mcp_std::{Error, Listener, catch, entropy};

use crate::handler::{Handler, run, tell};
#[cfg(target_os = "linux")]
use crate::io::Watch;
use crate::nudge::Nudge;
use crate::running::Running;
use crate::server::{MAX_RUNNING, TURNS};
use crate::timer::Deadline;

/// Serves HTTP at `address` for ever; see [`HttpServer`]
///
/// ```no_run
/// use mcp_proto::{Capabilities, Capability, http, model::CallToolResult, server::Config};
/// use mcp_smol::{Call, Cx, serve_http};
///
/// let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
/// let server = serve_http("127.0.0.1:8080", config, http::server::Config::new(), async |cx: &mut Cx<'_>, call: &Call| {
///     cx.complete(&CallToolResult::text(call.tool()?.name))
/// });
/// mcp_smol::block_on(server)?;
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

/// A server over HTTP in one future: all connections, their streams, and the handlers
///
/// Calls run at the same time, as on a [stream](crate::serve); a handler that works without waiting holds up everybody
/// meanwhile. A connection costs no task, and an idle one little more than its buffers.
///
/// 64 connections are open at a time ([`max_connections`](Self::max_connections)), those included that carry a stream of
/// events. Who comes then gets the place of a connection that is kept alive and was not used for a second, or waits; so
/// does who comes when no descriptor is left.
///
/// Whoever can reach the address can use the server. Listen at `127.0.0.1` or `[::1]` unless it is meant for others
/// (HTTP-006); what is let in besides is in [`http::server::Config`](http::Config). For the open network there is TLS with the
/// feature of that name (`HttpServer::tls`), or put a proxy in front.
///
/// On Linux the reactor watches one descriptor for all of them. On other systems it is looked every ten milliseconds what
/// there is, as long as anybody is connected or may be.
#[derive(Debug)]
pub struct HttpServer<H> {
    handler: H,
    state: State,
}

impl<H: Handler> HttpServer<H> {
    /// Begins to listen; connections are accepted while it runs
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
        Self::on(Listener::bind(address)?, config, http, handler)
    }

    fn on(listener: Listener, config: Config, http: http::Config, handler: H) -> Result<Self, Error> {
        let peers = Peers::new(listener)?;
        let seed = entropy::seed()?;
        let anchor = peers.anchor();
        // Its own, so that what is sealed has nothing to do with ids of sessions.
        let keys = entropy::seed()?;
        let config = config.seal_by_default(|| Some((Keys::new(keys), anchor)));
        let entropy = Entropy::new(seed, entropy::nonce());
        let server = http::Server::new(Arc::new(config), Arc::new(http), entropy);
        let desk = Desk::new(MAX_RUNNING);
        let mut state = State {
            watch: Wait::new(&peers)?,
            loops: Loops { server, peers, tools_changed: false, ends_at: None },
            desk,
            held: VecDeque::new(),
            told: Vec::new(),
            nudge: Nudge::new(),
            deadline: Deadline::new(),
            armed: false,
            due: None,
        };
        state.tell_tools(&handler)?;
        Ok(Self { handler, state })
    }

    /// How many connections may be open at a time (default 64; at least 1)
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.state.loops.peers.max = connections.max(1);
        self
    }

    /// How many calls run at a time (default 1,024; at least 1); more wait, within
    /// [`Limits::max_waiting`](mcp_proto::Limits) and [`max_waiting_bytes`](mcp_proto::Limits), and then reading pauses
    #[must_use]
    pub fn max_running(mut self, calls: usize) -> Self {
        self.state.desk = Desk::new(calls);
        self
    }

    /// The bounds of connections, such as how slow a client may be; how long a body may be is said by
    /// [`Limits::max_frame`](mcp_proto::Limits), whatever stands here
    #[must_use]
    pub fn connection_limits(mut self, limits: Limits) -> Self {
        self.state.loops.peers.limits = limits;
        self.state.loops.peers.limits.max_body = u64::MAX;
        self
    }

    /// Speaks TLS to all clients; one that does not is let go
    ///
    /// The handshake may take as long as the head of a request ([`connection_limits`](Self::connection_limits)). A
    /// connection holds up to 32 KiB more in each direction while it moves data, and about 8 KiB when it is idle.
    ///
    /// ```no_run
    /// use mcp_proto::{http, model::CallToolResult, server::Config};
    /// use mcp_smol::{Call, Cx, HttpServer, tls::ServerTls};
    ///
    /// let tls = ServerTls::from_files("chain.pem", "key.pem")?;
    /// let http = http::server::Config::new().allow_host("tools.example.com");
    /// let handler = async |cx: &mut Cx<'_>, _: &Call| cx.complete(&CallToolResult::text("hello"));
    /// let server = HttpServer::bind("[::]:8443", Config::new("demo", "1.0"), http, handler)?.tls(tls);
    /// mcp_smol::block_on(server.run())?;
    /// # Ok::<(), mcp_smol::Error>(())
    /// ```
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: impl Into<mcp_std::tls::ServerTls>) -> Self {
        self.state.loops.peers.tls = Some(tls.into());
        self
    }

    /// Has [`Handler::head`] see the heads of requests and responses
    #[must_use]
    pub const fn tap_heads(mut self) -> Self {
        self.state.loops.peers.heads = true;
        self
    }

    /// Where it listens
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.state.loops.peers.address()
    }

    /// For commands to the server while it runs
    pub fn handle(&self) -> Handle {
        Handle::new(self.state.desk.commands())
    }

    /// Serves until it is told to [shut down](Handle::shutdown): then nobody is accepted any more, and it ends when calls
    /// in work are answered and written
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system does not let it wait; what goes wrong with a connection ends that one.
    pub async fn run(self) -> Result<(), Error> {
        let Self { handler, mut state } = self;
        let mut running = Running::new(state.nudge.waker());
        state.desk.register(state.nudge.waker());
        poll_fn(|cx| state.poll(cx, &handler, &mut running, &|remote| run(&handler, remote))).await
    }
}

/// The server and who is connected to it
#[derive(Debug)]
struct Loops {
    server: http::Server,
    peers: Peers,
    /// The tools that the server knows may be others now
    tools_changed: bool,
    /// When what is left is given up, once it was told to shut down
    ends_at: Option<Instant>,
}

/// Everything but the handlers
#[derive(Debug)]
struct State {
    watch: Wait,
    loops: Loops,
    desk: Desk,
    /// Exchanges that wait for a judgement of their tokens; no more of them than connections
    held: VecDeque<(ExchangeId, Token)>,
    /// The tools that the server knows the schemas of
    told: Vec<String>,
    /// What handlers and handles wake
    nudge: Nudge,
    deadline: Deadline,
    /// The reactor was told to look for something, and has not found it
    armed: bool,
    /// When it is looked in any case
    due: Option<Instant>,
}

impl State {
    /// Does what can be done now; ready when everything is over
    fn poll<H: Handler, F: Future<Output = ()>>(
        &mut self,
        cx: &mut Context<'_>,
        handler: &H,
        running: &mut Running<F>,
        start: &impl Fn(Remote) -> F,
    ) -> Poll<Result<(), Error>> {
        self.nudge.begin(cx.waker());
        self.armed = self.armed && !self.watch.poll(cx)?;
        for _ in 0..TURNS {
            self.nudge.look();
            let now = self.loops.peers.tick();
            let mut moved = running.turn();
            moved |= self.settle(handler, running, start);
            if self.loops.ends_at.is_some_and(|at| at <= now) {
                self.loops.peers.abandon(&mut self.loops.server);
                self.loops.ends_at = None;
            }
            if self.loops.peers.is_over() {
                return Poll::Ready(Ok(()));
            }
            if !self.armed || self.due.is_some_and(|at| at <= now) {
                // What can be had at once; that costs less than to wait for it.
                let reads = self.reads();
                self.loops.peers.wait(&mut self.loops.server, reads, Some(now))?;
            }
            while self.next_peer() {
                moved = true;
                // One after the other, so that nobody's answer waits for what others want.
                self.settle(handler, running, start);
            }
            if !moved && !self.waits(cx)? && self.nudge.rest() {
                return Poll::Pending;
            }
        }
        // Others want to have their turn, too.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Has the future woken when there is something to do; whether there may be already
    fn waits(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let reads = self.reads();
        self.due = self.loops.peers.arm(&mut self.loops.server, reads)?;
        let at = self.due.into_iter().chain(self.loops.ends_at).min();
        let now = self.loops.peers.tick();
        let timeout = at.map(|at| at.saturating_duration_since(now));
        self.armed = self.armed || !self.watch.poll(cx)?;
        Ok(self.deadline.poll(cx, timeout) || !self.armed)
    }

    /// Handles everything that was read and reported, then writes everything; whether there was anything
    fn settle<H: Handler, F: Future<Output = ()>>(
        &mut self,
        handler: &H,
        running: &mut Running<F>,
        start: &impl Fn(Remote) -> F,
    ) -> bool {
        let mut any = false;
        loop {
            let mut moved = false;
            while let Some(event) = self.next_event() {
                moved = true;
                let cancelled = if let Event::Cancelled { call, .. } = &event { Some(*call) } else { None };
                if let Some(event) = self.desk.take_in(event) {
                    tell(handler, &event);
                }
                if let Some(call) = cancelled {
                    running.stop(call);
                }
            }
            while let Some(remote) = self.desk.next_call(&mut self.loops) {
                moved = true;
                running.start(remote.running().call().id(), || start(remote));
            }
            moved |= self.apply(handler);
            moved |= self.judge(handler);
            moved |= self.loops.peers.write(&mut self.loops.server);
            self.show_tap(handler);
            if !moved {
                return any;
            }
            any = true;
        }
    }

    /// Does what handlers and handles have to say; whether there was anything
    fn apply<H: Handler>(&mut self, handler: &H) -> bool {
        let any = self
            .desk
            .apply(&mut self.loops, &mut |call, failure| _ = catch(|| handler.failed(call, failure)));
        if core::mem::take(&mut self.loops.tools_changed) {
            // What cannot be used is not checked; it was told of at the start.
            let _ = self.tell_tools(handler);
        }
        any
    }

    /// Has the handler judge the tokens that came; whether there were any
    fn judge<H: Handler>(&mut self, handler: &H) -> bool {
        let mut any = false;
        while let Some((exchange, token)) = self.held.pop_front() {
            any = true;
            let verdict = catch(|| handler.token(&token));
            let Loops { server, peers, .. } = &mut self.loops;
            let now = peers.tick();
            match verdict {
                Ok(Ok(principal)) => server.grant(now, exchange, &principal),
                Ok(Err(denial)) => server.deny(now, exchange, &denial),
                Err(_) => server.deny(now, exchange, &Denial::InvalidToken),
            }
            peers.drive(server, exchange);
        }
        any
    }

    fn show_tap<H: Handler>(&mut self, handler: &H) {
        while let Some(record) = self.loops.peers.poll_head() {
            let _ = catch(|| handler.head(&record));
        }
        while let Some(record) = self.loops.server.engine().poll_tap() {
            let _ = catch(|| handler.tap(&record));
        }
    }

    fn next_event(&mut self) -> Option<Event> {
        let now = self.loops.peers.now();
        loop {
            match self.loops.server.poll_event(now)? {
                http::Event::Server(event) => return Some(event),
                http::Event::Token { exchange, token } => self.held.push_back((exchange, token)),
                _ => {}
            }
        }
    }

    /// Whether more is taken in
    fn reads(&mut self) -> bool {
        !self.desk.is_congested(self.loops.server.engine().config().get_limits())
    }

    /// Gives the next one its turn for whom there is something; false when there is nobody
    fn next_peer(&mut self) -> bool {
        let reads = self.reads();
        self.loops.peers.next(&mut self.loops.server, reads)
    }

    /// Tells the server which arguments of tools are repeated in header fields
    fn tell_tools(&mut self, handler: &impl Handler) -> Result<(), Error> {
        let mut gone = core::mem::take(&mut self.told);
        let mut refused = None;
        let server = &mut self.loops.server;
        let told = catch(|| {
            handler.tools(&mut |name, schema| {
                gone.retain(|other| other != name);
                self.told.push(name.into());
                if let Err(why) = server.tool_schema(name, schema) {
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
            gone.iter().for_each(|name| _ = server.tool_schema(name, &nothing));
        }
        refused.map_or(Ok(()), |error| Err(Error::Io(error)))
    }
}

impl Host for Loops {
    fn engine(&mut self) -> &mut Engine {
        self.server.engine()
    }

    fn now(&self) -> Instant {
        self.peers.now()
    }

    fn tick(&mut self) -> Instant {
        self.peers.tick()
    }

    fn shutdown(&mut self, grace: Duration) {
        let now = self.peers.tick();
        self.server.shutdown(now, grace);
        self.peers.close(&mut self.server);
        self.ends_at = Some(now + grace);
    }

    // No handler runs on the loop itself: nothing has to be kept moving for it.

    fn next_meanwhile(&mut self) -> Option<Event> {
        None
    }

    fn defer(&mut self, _: Event) {}

    fn write(&mut self) -> bool {
        false
    }

    fn wait(&mut self, _: Instant) {}

    fn publish(&mut self, change: &Change) {
        self.tools_changed |= *change == Change::Tools;
        let now = self.peers.tick();
        self.server.engine().publish(now, change);
    }

    fn poll_later(&mut self, call: CallId, retry: Option<Duration>) -> bool {
        let now = self.peers.tick();
        self.server.poll_later(now, call, retry)
    }

    fn polls(&self) -> bool {
        true
    }
}

/// How it is waited for all connections at once
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Wait(Watch);

#[cfg(target_os = "linux")]
impl Wait {
    fn new(peers: &Peers) -> io::Result<Self> {
        use std::os::fd::AsFd;
        Watch::new(peers.as_fd()).map(Self)
    }

    /// Whether there may be something already; otherwise the future is woken when there is
    fn poll(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        match self.0.poll(cx, mcp_std::Interest::READ) {
            Poll::Ready(outcome) => outcome.map(|()| true),
            Poll::Pending => Ok(false),
        }
    }
}

/// Nothing stands for all of them: they are asked again soon
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
struct Wait(async_io::Timer);

#[cfg(not(target_os = "linux"))]
impl Wait {
    fn new(_: &Peers) -> io::Result<Self> {
        Ok(Self(async_io::Timer::never()))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        self.0.set_after(Duration::from_millis(10));
        Ok(core::pin::Pin::new(&mut self.0).poll(cx).is_ready())
    }
}
