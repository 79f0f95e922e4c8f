//! Servers on byte streams: one future that reads, runs handlers and writes.

mod host;
mod state;
mod stream_core;

use core::future::poll_fn;

use mcp_proto::server::Config;

use super::deadline_timer::start_timer;
use super::future_set::FutureSet;
use super::{PollStream, Runtime, StdioStream};
use crate::Error;
use crate::adapter::server::{AsyncHandler, Handle, StartTimer, run_call};
use state::State;

/// A server on one byte stream, with a [`Handle`] for commands while it runs.
#[derive(Debug)]
pub struct Server<R: Runtime, S, H> {
    stream: S,
    handler: H,
    state: State<R, S>,
}

impl<R: PollStream<S>, S, H: AsyncHandler> Server<R, S, H> {
    /// Creates a server that has not started to read.
    pub fn new(config: Config, stream: S, handler: H) -> Self {
        Self { stream, handler, state: State::new(config, DEFAULT_MAX_RUNNING) }
    }

    /// Sets how many calls run at a time (default 1,024, at least 1).
    ///
    /// More calls wait, up to [`Limits::max_waiting_requests`](mcp_proto::Limits) and
    /// [`max_waiting_bytes`](mcp_proto::Limits). Beyond that, reading pauses.
    #[must_use]
    pub fn max_running(mut self, calls: usize) -> Self {
        self.state.core.dispatcher.set_max_running(calls);
        self
    }

    /// Returns a handle for commands while the server runs.
    pub fn handle(&self) -> Handle {
        Handle::new(self.state.core.dispatcher.commands())
    }

    /// Serves until the stream ends.
    ///
    /// # Errors
    ///
    /// - [`Error::Io`] if the stream breaks for another reason than the client disconnecting.
    /// - [`Error::Closed`] if the client sent too many faulty messages
    ///   ([`Limits::max_faulty_messages`](mcp_proto::Limits)) or answered too few keep-alive pings.
    pub async fn run(self) -> Result<(), Error> {
        let Self { mut stream, handler, mut state } = self;
        let mut running = FutureSet::new(state.core.coalescing_waker.waker());
        state.core.register_waker();
        if let Some(tasks) = handler.tasks() {
            state.core.install_tasks(&tasks)?;
        }
        poll_fn(|cx| {
            state.poll(cx, &mut stream, &handler, &mut running, &|remote| {
                run_call(&handler, remote, StartTimer::Function(start_timer::<R>))
            })
        })
        .await?;
        poll_fn(|cx| {
            state.poll_tasks(cx, &handler, &mut running, &|remote| {
                run_call(&handler, remote, StartTimer::Function(start_timer::<R>))
            })
        })
        .await;
        // Handlers that still run are dropped: no answer can be sent any more.
        drop(running);
        state.core.finish_tasks();
        state.finish(&mut stream).await
    }
}

impl<R: Runtime + PollStream<<R as Runtime>::Stdio>, H: AsyncHandler> Server<R, <R as Runtime>::Stdio, H> {
    /// Creates a server on stdin and stdout of this process, guarded from the rest of the program.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if stdin or stdout is not available.
    pub fn stdio(config: Config, handler: H) -> Result<Self, Error> {
        let mut server = Self::new(config, R::Stdio::guarded()?, handler);
        server.state.core.drive.defer_buffer_release();
        server.state.check_hung_up = R::Stdio::hung_up;
        Ok(server)
    }
}

/// Default number of calls that run at a time.
pub(super) const DEFAULT_MAX_RUNNING: usize = 1024;
/// Iterations before the server yields to the executor.
pub(super) const MAX_TURNS: u32 = 16;
