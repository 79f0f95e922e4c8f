//! Serving HTTP: one future for all connections and their streams, or several side by side

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
use mcp_proto::h1::Limits;
use mcp_proto::http::server as http;
use mcp_proto::server::Config;
use mcp_std::inbox::Inbox;
use mcp_std::nudge::Nudge;
use mcp_std::serve::{self, Handle, Remote};
use mcp_std::{Error, catch};

use crate::block_on;
use crate::handler::{Handler, Shared, run};
#[cfg(target_os = "linux")]
use crate::io::Watch;
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

/// A server over HTTP in one future, or in [several](Self::shards): all connections, their streams, and the handlers
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
pub struct HttpServer<H> {
    inner: Inner<H>,
    /// Begins the other shards
    others: Option<Begin<H>>,
}

type Begin<H> = Box<dyn FnOnce(&mut Inner<H>) -> Result<Shards, Error> + Send + Sync>;

/// The server or one shard of it, all but the futures of handlers
type Inner<H> = serve::HttpServer<Shared<H>>;

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
        let mut inner = Inner::bind(address, config, http, Shared(Arc::new(handler)))?;
        inner.max_running(MAX_RUNNING);
        Ok(Self { inner, others: None })
    }

    /// On how many threads connections are served, each with clients and sessions of its own (default 1; at least 1)
    ///
    /// The first shard is the future of [`run`](Self::run). The others have threads of their own, which last as long as
    /// that future, and poll the futures of their handlers there: those need not be `Send`, only the handler is shared.
    /// No shard waits for another, so a handler that works without waiting holds up its own shard alone.
    ///
    /// One serves tens of thousands of requests a second. More than the machine has cores are of no use. Connections are
    /// shared out in turn; one whose client comes with a session of another shard goes there.
    ///
    /// For handlers that cannot be shared, such as a [`Router`](crate::Router), there is
    /// [`shards_with`](Self::shards_with).
    ///
    /// ```no_run
    /// use mcp_proto::{http, model::CallToolResult, server::Config};
    /// use mcp_smol::{Call, Cx, HttpServer};
    ///
    /// let handler = async |cx: &mut Cx<'_>, _: &Call| cx.complete(&CallToolResult::text("hello"));
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
        self.begin(shards, move || Shared(shared.clone()))
    }

    /// As [`shards`](Self::shards), and each but the first has a handler of its own, which `make` makes in its thread
    ///
    /// A session stays with its shard, so what a handler remembers of one is where its next request comes. A panic of
    /// `make` ends the server.
    ///
    /// ```no_run
    /// use mcp_proto::{RawJson, http, model::Tool};
    /// use mcp_smol::{Cx, HttpServer, Router};
    ///
    /// fn router() -> Router {
    ///     let mut router = Router::new("demo", "1.0");
    ///     let tool = Tool::new("hello", RawJson::new(r#"{"type":"object"}"#).expect("JSON"));
    ///     router.tool_with(tool, async |_: &mut Cx<'_>, _: serde_json::Value| "hello");
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
        self.begin(shards, move || Shared(Arc::new(make())))
    }

    fn begin(mut self, shards: u8, make: impl Fn() -> Shared<H> + Send + Sync + 'static) -> Self
    where
        H: 'static,
    {
        let make = Arc::new(make);
        self.others =
            (shards > 1).then(|| -> Begin<H> { Box::new(move |first| spawn(first, shards, &make)) });
        self
    }

    /// Keeps each [shard](Self::shards) but the first on a core of its own, and gives it the connections whose packets come
    /// in there, as long as that keeps shards even
    ///
    /// For a machine that does little else, whose network card (or proxy on the same machine) works on several cores: what
    /// comes in on a core is not carried to another one. The first shard is wherever it is run.
    /// Threads that are started by handlers of a shard are kept there, too.
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

    /// How many calls run at a time in each shard (default 1,024; at least 1); more wait, within
    /// [`Limits::max_waiting`](mcp_proto::Limits) and [`max_waiting_bytes`](mcp_proto::Limits), and then further requests are
    /// refused with 503
    #[must_use]
    pub fn max_running(mut self, calls: usize) -> Self {
        self.inner.max_running(calls);
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
    /// What the operating system says.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.inner.address()
    }

    /// What gives it commands while it runs: to shut down, or that something has changed, which all shards tell; its
    /// [`with_engine`](Handle::with_engine) is about the first shard alone
    pub fn handle(&self) -> Handle {
        Handle::new(self.inner.commands())
    }

    /// Serves until it is told to [shut down](Handle::shutdown): then nobody is accepted any more, and it ends when calls
    /// in work are answered and written, in all shards
    ///
    /// If it is dropped, it is all over at once.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the system does not let it wait, or has no thread for a shard; what goes wrong with a connection
    /// ends that one.
    pub async fn run(self) -> Result<(), Error> {
        let Self { mut inner, others } = self;
        let others = others.map_or_else(|| Ok(Shards::new()), |begin| begin(&mut inner))?;
        let ran = serve(inner).await;
        others.end(ran).await
    }
}

/// Serves as one shard, or all alone
async fn serve<H: Handler>(mut server: Inner<H>) -> Result<(), Error> {
    let nudge = Nudge::new();
    server.register(nudge.waker());
    let handler = server.handler().0.clone();
    let mut running = Running::new(nudge.waker());
    let watch = Wait::new(&server)?;
    let mut serving = Serving { server, watch, nudge, deadline: Deadline::new(), armed: false, due: None };
    poll_fn(|cx| serving.poll(cx, &mut running, &|remote| run(&*handler, remote))).await
}

/// A server or shard that is served, all but the futures of handlers
struct Serving<H> {
    server: Inner<H>,
    watch: Wait,
    /// What handlers, handles and other shards wake
    nudge: Nudge,
    deadline: Deadline,
    /// The reactor was told to look for something, and has not found it
    armed: bool,
    /// When it is looked in any case
    due: Option<Instant>,
}

impl<H: Handler> Serving<H> {
    /// Does what can be done now; ready when everything is over
    fn poll<F: Future<Output = ()>>(
        &mut self,
        cx: &mut Context<'_>,
        running: &mut Running<F>,
        start: &impl Fn(Remote) -> F,
    ) -> Poll<Result<(), Error>> {
        self.nudge.begin(cx.waker());
        self.armed = self.armed && !self.watch.poll(cx)?;
        for _ in 0..TURNS {
            self.nudge.look();
            let mut moved = running.turn();
            if !self.armed || self.due.is_some_and(|at| at <= self.server.now()) {
                // What can be had at once; that costs less than to wait for it.
                self.server.look()?;
            }
            moved |=
                self.server.go_on(&mut |calls| calls.for_each(|remote| running.start((), || start(remote))));
            if self.server.is_over() {
                return Poll::Ready(Ok(()));
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
    fn waits(&mut self, cx: &mut Context<'_>) -> Result<bool, Error> {
        self.due = self.server.arm()?;
        let now = self.server.now();
        let timeout = self.due.map(|at| at.saturating_duration_since(now));
        self.armed = self.armed || !self.watch.poll(cx)?;
        Ok(self.deadline.poll(cx, timeout) || !self.armed)
    }
}

/// The shards that are not the first, each on a thread of its own; told to shut down when this is dropped
#[derive(Debug)]
struct Shards {
    handles: Vec<Handle>,
    /// What each has ended with, if anything was wrong
    ended: Inbox<Option<Arc<Error>>>,
}

/// Begins all shards but the first
fn spawn<H: Handler + 'static>(
    first: &mut Inner<H>,
    shards: u8,
    make: &Arc<impl Fn() -> Shared<H> + Send + Sync + 'static>,
) -> Result<Shards, Error> {
    let mut all = Shards::new();
    for shard in first.shards(usize::from(shards) - 1)? {
        all.handles.push(Handle::new(shard.commands()));
        let (first, ended) = (Handle::new(first.commands()), all.ended.sender());
        let make = make.clone();
        let serving = move || {
            let ran = catch(|| {
                let other = shard.with(make())?;
                other.stay();
                block_on(serve(other))
            });
            let ran = ran.unwrap_or_else(|_| Err(io::Error::other("a shard panicked").into()));
            if ran.is_err() {
                // Clients must not be sent to one that is not there.
                first.shutdown(Duration::ZERO);
            }
            let _ = ended.send_due(ran.err().map(Arc::new));
        };
        thread::Builder::new().name("mcp-shard".into()).spawn(serving)?;
    }
    Ok(all)
}

impl Shards {
    #[inline]
    fn new() -> Self {
        Self { handles: Vec::new(), ended: Inbox::new(usize::MAX) }
    }

    /// Waits for all of them, which were told to shut down along with the first one unless that failed
    async fn end(self, mut ran: Result<(), Error>) -> Result<(), Error> {
        if ran.is_err() {
            self.shut_down();
        }
        let (mut left, mut ended) = (self.handles.len(), VecDeque::new());
        poll_fn(|cx| {
            self.ended.register(cx.waker());
            self.ended.take(&mut ended);
            left -= ended.len();
            for error in ended.drain(..).flatten() {
                if ran.is_ok() {
                    ran = Arc::into_inner(error).map_or(Ok(()), Err);
                }
            }
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        ran
    }

    #[inline]
    fn shut_down(&self) {
        self.handles.iter().for_each(|handle| handle.shutdown(Duration::ZERO));
    }
}

impl Drop for Shards {
    #[inline]
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// How it is waited for all connections at once
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Wait(Watch);

#[cfg(target_os = "linux")]
impl Wait {
    #[inline]
    fn new(server: &impl std::os::fd::AsFd) -> io::Result<Self> {
        Watch::new(server.as_fd()).map(Self)
    }

    /// Whether there may be something already; otherwise the future is woken when there is
    #[inline]
    fn poll(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        match self.0.poll(cx, mcp_std::Interest::READ, false) {
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
