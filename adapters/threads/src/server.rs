//! Servers on byte streams, whose handlers run on workers.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::time::Duration;
use std::thread;

use mcp_proto::server::{Config, Engine};
use mcp_proto::{ChannelId, Instant};
use mcp_runtime::Error;
use mcp_runtime::server as serve;
use mcp_runtime::server::Cores;
use mcp_runtime::server::{Handle, RemoteCall};
use mcp_std::io::{Duplex, Stdio};

use crate::handler::{Handler, SharedHandler};
use crate::relay::{self, LoopCalls, Pace};
use crate::worker_pool::WorkerPool;

/// Serves on stdin and stdout of this process until the input ends or the client disconnects.
///
/// Calls received before the end of input are still answered, so `printf … | server` works. After the end of input,
/// all running and waiting calls together have [`Limits::eof_grace_period`](mcp_proto::Limits) (5 s); then they are
/// cancelled. The end is read once no more than [`Limits::max_waiting_requests`](mcp_proto::Limits) calls wait for a
/// worker.
///
/// The server stops earlier in two cases:
///
/// - Its output is no longer read.
/// - The input has ended, and the server is blocked for the whole grace period: no call finishes although too many
///   calls wait for the server to notice the end, or the client does not read pending output.
///
/// While the server runs, stdout belongs to the stream. Other output of the process to stdout goes to stderr (on Unix;
/// see [`Stdio::guarded`](mcp_std::io::Stdio::guarded)).
///
/// # Errors
///
/// - [`Error::Io`] if stdin or stdout is not available, or if the stream breaks for another reason than the client
///   disconnecting.
/// - [`Error::Closed`] if the client sent too many faulty messages
///   ([`Limits::max_faulty_messages`](mcp_proto::Limits)) or answered too few
///   keep-alive pings.
pub fn serve_stdio(config: Config, handler: impl Handler) -> Result<(), Error> {
    Server::stdio(config, handler)?.run()
}

/// Serves one client on any byte stream until the client closes its sending side or disconnects.
///
/// ```
/// use mcp_threads::mcp_proto::{Capabilities, Capability, model::CallToolResult, server::Config};
/// use mcp_threads::{Call, Cx, serve};
///
/// let (server_end, client_end) = mcp_threads::memory_pair(4096);
/// let server = std::thread::spawn(move || {
///     let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
///     let handler = |cx: &mut Cx<'_>, call: &Call| cx.complete(&CallToolResult::text(call.tool_call()?.name));
///     serve(config, server_end, handler)
/// });
/// # drop(client_end);
/// server.join().unwrap()?;
/// # Ok::<(), mcp_threads::Error>(())
/// ```
///
/// # Errors
///
/// As [`serve_stdio`]; [`Error::Io`] also if the stream has no [waker](Duplex::waker).
pub fn serve<D: Duplex + Send + 'static>(
    config: Config,
    stream: D,
    handler: impl Handler,
) -> Result<(), Error> {
    Server::new(config, stream, handler).run()
}

/// A server on one byte stream, with control over the workers and the loop.
///
/// The thread in [`run`](Self::run) or [`poll`](Self::poll) runs the loop: it reads and writes, and never waits for a
/// handler. Handlers run on [workers](Self::workers). Under many calls with fast handlers, `run` moves the loop to two
/// threads of its own, one of which reads, writes and runs handlers while the other one is ready to take over (DESIGN-86).
/// The other methods of [`Handler`] run there, too.
///
/// A handler that never returns occupies its worker, but delays neither other calls nor the end of the server. Its
/// thread continues until the process ends or the handler returns. To avoid that, a long handler calls
/// [`Cx::checkpoint`](crate::Cx::checkpoint) from time to time, which fails once the answer is no longer wanted.
///
/// ```
/// use core::time::Duration;
/// use mcp_threads::mcp_proto::{Capabilities, Capability, model::CallToolResult, server::Config};
/// use mcp_threads::{Call, Cx, Server};
///
/// let (server_end, _client_end) = mcp_threads::memory_pair(4096);
/// let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
/// let answer = |cx: &mut Cx<'_>, call: &Call| cx.complete(&CallToolResult::text(call.tool_call()?.name));
/// let mut server = Server::new(config, server_end, answer).workers(2);
/// let handle = server.handle()?;
/// let server = std::thread::spawn(move || server.run());
/// // From any thread:
/// handle.shutdown(Duration::from_secs(5));
/// server.join().unwrap()?;
/// # Ok::<(), mcp_threads::Error>(())
/// ```
#[derive(Debug)]
pub struct Server<D, H> {
    inner: serve::Server<D, SharedHandler<H>>,
    workers: usize,
    /// `None` before the start, and if handlers run inside the turns of the loop.
    calls: Option<Arc<LoopCalls>>,
    is_started: bool,
}

impl<H: Handler> Server<Stdio, H> {
    /// Creates a server on stdin and stdout of this process: see [`serve_stdio`].
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if stdin or stdout is not available.
    pub fn stdio(config: Config, handler: H) -> Result<Self, Error> {
        let inner = serve::Server::stdio(config, SharedHandler(Arc::new(handler)))?;
        Ok(Self { inner, workers: default_workers(), calls: None, is_started: false })
    }
}

impl<D: Duplex, H: Handler> Server<D, H> {
    /// Creates a server that has not started to read.
    pub fn new(config: Config, stream: D, handler: H) -> Self {
        let inner = serve::Server::new(config, stream, SharedHandler(Arc::new(handler)));
        Self { inner, workers: default_workers(), calls: None, is_started: false }
    }

    /// Sets how many handlers run at a time, each on a thread of its own. Fast ones run on the loop's thread, and count.
    ///
    /// The default is the available parallelism of the machine, but at least 4 and at most 64. Threads are started when
    /// they are needed.
    ///
    /// With 0, handlers run on the loop's thread, one at a time. This costs the least per call, and suits handlers that
    /// are always fast. While such a handler runs, nothing else makes progress, except inside
    /// [`Cx::progress`](crate::Cx::progress), [`checkpoint`](crate::Cx::checkpoint) and [`sleep`](crate::Cx::sleep).
    ///
    /// Takes effect only before the server runs and before [`handle`](Self::handle) is called.
    #[must_use]
    pub const fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Returns a handle for commands from other threads.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the stream has no [waker](Duplex::waker).
    pub fn handle(&mut self) -> Result<Handle, Error> {
        self.start_workers()?;
        self.inner.handle()
    }

    /// Serves until the stream ends.
    ///
    /// # Errors
    ///
    /// As [`serve()`].
    pub fn run(mut self) -> Result<(), Error>
    where
        D: Send + 'static,
    {
        self.start_workers()?;
        match &self.calls {
            Some(calls) => relay::run(self.inner, calls),
            None => self.inner.run(),
        }
    }

    /// Waits for work, at most for `timeout`, and does it. Returns `false` when the server has ended.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run). The server has ended then, too.
    pub fn poll(&mut self, timeout: Duration) -> Result<bool, Error> {
        self.start_workers()?;
        self.inner.poll(timeout)
    }

    /// Stops accepting requests. The server ends when all running calls are answered and written, or after `grace`.
    ///
    /// Call [`poll`](Self::poll) afterwards until it returns `false`. From other threads use [`Handle::shutdown`].
    pub fn shutdown(&mut self, grace: Duration) {
        self.inner.shutdown(grace);
    }

    /// Returns the engine, for example to send a notification. Output is sent with the next [`poll`](Self::poll).
    pub const fn engine(&mut self) -> &mut Engine {
        self.inner.engine()
    }

    /// Returns the channel of the stream, for commands of the engine.
    pub const fn channel(&self) -> ChannelId {
        self.inner.channel()
    }

    /// Returns the current time, for commands of the engine.
    pub fn now(&mut self) -> Instant {
        self.inner.now()
    }

    /// Returns the handler.
    pub fn handler(&mut self) -> &H {
        &self.inner.handler().0
    }

    fn start_workers(&mut self) -> Result<(), Error> {
        self.start_workers_at(Pace::DEFAULT)
    }

    #[cfg(test)]
    pub(crate) const fn loop_calls(&self) -> &Arc<LoopCalls> {
        self.calls.as_ref().expect("started")
    }

    pub(crate) fn start_workers_at(&mut self, pace: Pace) -> Result<(), Error> {
        if core::mem::replace(&mut self.is_started, true) || self.workers == 0 {
            return Ok(());
        }
        let handler = self.inner.handler().clone();
        let calls = self.calls.insert(Arc::new(LoopCalls::new(pace, run_handler(&handler)))).clone();
        let of_pool = calls.clone();
        let pool = WorkerPool::new(self.workers, Cores::default(), move |call| of_pool.run(call));
        let mut queue = CallQueue::new(Arc::new(pool), task_pool(Cores::default(), &handler), Some(calls));
        self.inner.run_remotely(self.workers, move |new_calls| queue.submit(new_calls))
    }
}

/// Gives calls to workers, but for those whose handlers the thread of the loop runs.
pub(crate) struct CallQueue {
    pool: Arc<WorkerPool<RemoteCall>>,
    calls: VecDeque<RemoteCall>,
    /// Decides where handlers run; `None` if all run on workers.
    loop_calls: Option<Arc<LoopCalls>>,
    /// The runs of tasks have workers of their own, so that they take none from the calls that clients wait for. Their
    /// number is bounded by [`TaskLimits::max_running`](mcp_proto::server::TaskLimits).
    task_pool: WorkerPool<RemoteCall>,
    tasks: VecDeque<RemoteCall>,
}

impl CallQueue {
    pub(crate) const fn new(
        pool: Arc<WorkerPool<RemoteCall>>,
        task_pool: WorkerPool<RemoteCall>,
        loop_calls: Option<Arc<LoopCalls>>,
    ) -> Self {
        Self { pool, calls: VecDeque::new(), loop_calls, task_pool, tasks: VecDeque::new() }
    }

    pub(crate) fn submit(&mut self, new_calls: &mut dyn Iterator<Item = RemoteCall>) {
        for call in new_calls {
            let is_task = call.running().call().is_task_run();
            if is_task { self.tasks.push_back(call) } else { self.calls.push_back(call) }
        }
        if let Some(loop_calls) = &self.loop_calls {
            loop_calls.keep(&mut self.calls);
        }
        self.pool.submit(&mut self.calls);
        self.task_pool.submit(&mut self.tasks);
    }
}

/// Creates the workers of tasks, which may run on any of these cores.
pub(crate) fn task_pool<H: Handler>(cores: Cores, handler: &SharedHandler<H>) -> WorkerPool<RemoteCall> {
    // Their number has no bound of its own.
    WorkerPool::new(usize::MAX, cores, run_handler(handler))
}

/// Returns what runs a handler on the calling thread.
pub(crate) fn run_handler<H: Handler>(
    handler: &SharedHandler<H>,
) -> impl Fn(RemoteCall) + Send + Sync + 'static {
    let handler = handler.clone();
    move |remote: RemoteCall| {
        // The call may have been cancelled while it waited for this thread.
        if !remote.is_cancelled() {
            remote.run(|cx, call| handler.0.call(cx, call));
        }
    }
}

/// Returns the default number of workers.
pub(crate) fn default_workers() -> usize {
    thread::available_parallelism().map_or(4, usize::from).clamp(4, 64)
}
