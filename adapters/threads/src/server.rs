//! Serving byte streams, with handlers that run on workers

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;
use std::thread;

use mcp_proto::server::{Config, Engine};
use mcp_proto::{ChannelId, Instant};
use mcp_std::serve::{self, Handle, Remote};
use mcp_std::{Cores, Duplex, Error, Stdio};

use crate::handler::{Handler, Shared};
use crate::pool::Pool;

/// Serves on this process' stdin and stdout until the input ends or the client is gone
///
/// Calls that came before the end of input are still answered, so `printf … | server` works: those that are in work or
/// wait when the end is read have [`Limits::eof_grace`](mcp_proto::Limits) (5 s) in all; what is not answered by then is
/// cancelled. The end is read when no more than [`Limits::max_waiting`](mcp_proto::Limits) calls wait for a worker.
/// It is over earlier when nobody reads the output any more, and when the input has ended and nothing moves for that
/// long: so many calls wait that the end cannot be read, and none is finished, or the output is not taken.
///
/// While it runs, stdout belongs to the stream: what else is printed there goes to stderr (on Unix; see
/// [`Stdio::guarded`](mcp_std::Stdio::guarded)).
///
/// # Errors
///
/// [`Error::Io`] when the handles cannot be had, or the stream breaks otherwise than by the client leaving;
/// [`Error::Closed`] when the client sent too much garbage ([`Limits::max_faulty`](mcp_proto::Limits)).
pub fn serve_stdio(config: Config, handler: impl Handler) -> Result<(), Error> {
    Server::stdio(config, handler)?.run()
}

/// Serves one client on any byte stream until it ends its side or is gone
///
/// ```
/// use mcp_proto::{Capabilities, Capability, model::CallToolResult, server::Config};
/// use mcp_threads::{Call, Cx, serve};
///
/// let (near, far) = mcp_threads::memory_pair(4096);
/// let server = std::thread::spawn(move || {
///     let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
///     serve(config, near, |cx: &mut Cx<'_>, call: &Call| cx.complete(&CallToolResult::text(call.tool()?.name)))
/// });
/// # drop(far);
/// server.join().unwrap()?;
/// # Ok::<(), mcp_threads::Error>(())
/// ```
///
/// # Errors
///
/// As [`serve_stdio`]; [`Error::Io`] also for a stream that cannot be waited for and woken: see [`Duplex::waker`].
pub fn serve<D: Duplex>(config: Config, stream: D, handler: impl Handler) -> Result<(), Error> {
    Server::new(config, stream, handler).run()
}

/// A server on one byte stream, for who wants to say how many workers there are, or to hold the loop
///
/// The loop is turned by the thread that is in [`run`](Self::run) or [`poll`](Self::poll): it reads and writes, and never
/// waits for a handler. Handlers run on [workers](Self::workers). One that never returns keeps its worker, and nothing
/// else: not other calls, and not the end of the server, which leaves it behind. Its thread goes on until the process
/// ends, or the handler does; whoever does not want that asks [`Cx::checkpoint`](crate::Cx::checkpoint) now and then,
/// which says so when nobody waits for the answer.
///
/// ```
/// use core::time::Duration;
/// use mcp_proto::{Capabilities, Capability, model::CallToolResult, server::Config};
/// use mcp_threads::{Call, Cx, Server};
///
/// let (near, _far) = mcp_threads::memory_pair(4096);
/// let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
/// let answer = |cx: &mut Cx<'_>, call: &Call| cx.complete(&CallToolResult::text(call.tool()?.name));
/// let mut server = Server::new(config, near, answer).workers(2);
/// let handle = server.handle()?;
/// let server = std::thread::spawn(move || server.run());
/// // … from any thread:
/// handle.shutdown(Duration::from_secs(5));
/// server.join().unwrap()?;
/// # Ok::<(), mcp_threads::Error>(())
/// ```
#[derive(Debug)]
pub struct Server<D, H> {
    inner: serve::Server<D, Shared<H>>,
    workers: usize,
    started: bool,
}

impl<H: Handler> Server<Stdio, H> {
    /// A server on this process' stdin and stdout: see [`serve_stdio`]
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the handles cannot be had.
    pub fn stdio(config: Config, handler: H) -> Result<Self, Error> {
        let mut server = Self::new(config, Stdio::guarded()?, handler);
        server.inner.relax();
        Ok(server)
    }
}

impl<D: Duplex, H: Handler> Server<D, H> {
    /// A server that has not begun to read
    pub fn new(config: Config, stream: D, handler: H) -> Self {
        let inner = serve::Server::new(config, stream, Shared(Arc::new(handler)));
        Self { inner, workers: workers(), started: false }
    }

    /// How many handlers run at a time, each on a thread of its own (default: as many as the machine runs threads at a
    /// time, but at least 4 and at most 64)
    ///
    /// Threads are started when they are needed. With 0 handlers run on the thread that turns the loop, one at a time:
    /// the least work per call, for handlers that are always fast. While one runs, nothing else moves then, except inside
    /// of [`Cx::progress`](crate::Cx::progress), [`checkpoint`](crate::Cx::checkpoint) and [`sleep`](crate::Cx::sleep).
    ///
    /// To be said before it runs, and before anybody has a [`Handle`].
    #[must_use]
    pub const fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// What gives it commands from other threads
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when waiting for the stream cannot be ended from elsewhere: see [`Duplex::waker`].
    pub fn handle(&mut self) -> Result<Handle, Error> {
        self.start()?;
        self.inner.handle()
    }

    /// Serves to the end
    ///
    /// # Errors
    ///
    /// As [`serve()`].
    pub fn run(mut self) -> Result<(), Error> {
        self.start()?;
        self.inner.run()
    }

    /// Waits for something to do, at most for `timeout`, and does it; false when everything is over
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run); it is over then, too.
    pub fn poll(&mut self, timeout: Duration) -> Result<bool, Error> {
        self.start()?;
        self.inner.poll(timeout)
    }

    /// Takes no more requests; ends when those in work are answered and written, or after `grace`
    ///
    /// To be followed by [`poll`](Self::poll) until that says that it is over. From other threads:
    /// [`Handle::shutdown`].
    pub fn shutdown(&mut self, grace: Duration) {
        self.inner.shutdown(grace);
    }

    /// The engine, for commands such as a notification; what they write goes out with the next [`poll`](Self::poll)
    pub const fn engine(&mut self) -> &mut Engine {
        self.inner.engine()
    }

    /// The channel that the stream is, for the engine's commands
    pub const fn channel(&self) -> ChannelId {
        self.inner.channel()
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
        if core::mem::replace(&mut self.started, true) || self.workers == 0 {
            return Ok(());
        }
        let pool = pool(self.workers, Cores::default(), self.inner.handler());
        let mut calls = VecDeque::new();
        self.inner.away(self.workers, move |work| {
            calls.extend(work);
            pool.give(&mut calls);
        })
    }
}

/// Workers for a handler, on any of these cores
pub(crate) fn pool<H: Handler>(workers: usize, cores: Cores, handler: &Shared<H>) -> Pool<Remote> {
    let handler = handler.clone();
    Pool::new(workers, cores, move |remote: Remote| {
        // It may have waited for this thread longer than somebody waits for it.
        if !remote.is_cancelled() {
            remote.run(|cx, call| handler.0.call(cx, call));
        }
    })
}

/// How many workers there are unless it is said
pub(crate) fn workers() -> usize {
    thread::available_parallelism().map_or(4, usize::from).clamp(4, 64)
}
