//! Servers on byte streams: one future that reads, runs handlers and writes.

use alloc::sync::Arc;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use futures_lite::{AsyncRead, AsyncWrite};
use mcp_proto::pipe::{self, Pipe};
use mcp_proto::server::{Config, Engine, Event};
use mcp_proto::{Fault, Instant};
use mcp_std::adapter::driver::PipeDriver;
use mcp_std::adapter::server::{
    Dispatcher, Handle, RemoteCall, ServerLoop, StorePlace, TaskSource, dispatch_async_event, run_call,
};
use mcp_std::adapter::sync::CoalescingWaker;
use mcp_std::io::HungUp;
use mcp_std::{Error, catch};

use crate::Handler;
use crate::future_set::FutureSet;
use crate::io::PollScopedStream;
use crate::timer::DeadlineTimer;
use crate::timer::start_timer;

/// Serves on stdin and stdout of this process until the input ends or the client disconnects.
///
/// Calls received before the end of input are still answered, so `printf … | server` works. After the end of input,
/// all running and waiting calls together have [`Limits::eof_grace_period`](mcp_proto::Limits) (5 s); then they are
/// cancelled.
///
/// The server stops earlier in two cases:
///
/// - Its output is no longer read.
/// - The input has ended, and the server is blocked for the whole grace period: no call finishes although too many
///   calls wait for the server to notice the end, or the client does not read pending output.
///
/// The reactor watches pipes, sockets and terminals; files are read directly. While the server runs, stdout belongs to
/// the stream. Other output of the process to stdout goes to stderr ([`Stdio::guarded`](mcp_std::io::Stdio::guarded)).
/// Unix only.
///
/// # Errors
///
/// - [`Error::Io`] if stdin or stdout is not available, or if the stream breaks for another reason than the client
///   disconnecting.
/// - [`Error::Closed`] if the client sent too many faulty messages
///   ([`Limits::max_faulty_messages`](mcp_proto::Limits)) or answered too few
///   keep-alive pings.
#[cfg(unix)]
pub async fn serve_stdio(config: Config, handler: impl Handler) -> Result<(), Error> {
    Server::stdio(config, handler)?.run().await
}

/// Serves one client on any byte stream until the client closes its sending side or disconnects.
///
/// One future reads, writes, observes deadlines and polls the futures of handlers that were woken. It runs on any
/// executor, and is `Send` if the handler's futures are. Dropping it drops the stream and the running handlers.
///
/// ```
/// use std::os::unix::net::UnixStream;
///
/// use async_io::Async;
/// use mcp_smol::mcp_proto::{Capabilities, Capability, model::CallToolResult, server::Config};
/// use mcp_smol::{Call, Cx, serve};
///
/// let (server_end, client_end) = Async::<UnixStream>::pair()?;
/// let config = Config::new("demo", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
/// let server = serve(config, server_end, async |cx: &mut Cx, call: &Call| {
///     cx.complete(&CallToolResult::text(call.tool_call()?.name))
/// });
/// # drop(client_end);
/// mcp_smol::block_on(server)?;
/// # Ok::<(), mcp_smol::Error>(())
/// ```
///
/// # Errors
///
/// - [`Error::Io`] if the stream breaks for another reason than the client disconnecting.
/// - [`Error::Closed`] if the client sent too many faulty messages
///   ([`Limits::max_faulty_messages`](mcp_proto::Limits)) or answered too few
///   keep-alive pings.
pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    config: Config,
    stream: S,
    handler: impl Handler,
) -> Result<(), Error> {
    Server::new(config, stream, handler).run().await
}

/// A server on one byte stream, with a [`Handle`] for commands while it runs.
#[derive(Debug)]
pub struct Server<S, H> {
    stream: S,
    handler: H,
    state: State<S>,
}

impl<S: AsyncRead + AsyncWrite + Unpin, H: Handler> Server<S, H> {
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
        self.state.dispatcher.set_max_running(calls);
        self
    }

    /// Returns a handle for commands while the server runs.
    pub fn handle(&self) -> Handle {
        Handle::new(self.state.dispatcher.commands())
    }

    /// Serves until the stream ends.
    ///
    /// # Errors
    ///
    /// As [`serve`].
    pub async fn run(self) -> Result<(), Error> {
        let Self { mut stream, handler, mut state } = self;
        let mut running = FutureSet::new(state.coalescing_waker.waker());
        state.dispatcher.register(state.coalescing_waker.waker());
        if let Some(tasks) = handler.tasks() {
            state.install_tasks(&tasks)?;
        }
        poll_fn(|cx| {
            state.poll(cx, &mut stream, &handler, &mut running, &|remote| {
                run_call(&handler, remote, start_timer)
            })
        })
        .await?;
        poll_fn(|cx| {
            state.poll_tasks(cx, &handler, &mut running, &|remote| run_call(&handler, remote, start_timer))
        })
        .await;
        // Handlers that still run are dropped: no answer can be sent any more.
        drop(running);
        state.finish_tasks();
        state.finish(&mut stream).await
    }
}

#[cfg(unix)]
impl<H: Handler> Server<crate::Stdio, H> {
    /// Creates a server on stdin and stdout of this process, guarded from the rest of the program: see [`serve_stdio`].
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if stdin or stdout is not available.
    pub fn stdio(config: Config, handler: H) -> Result<Self, Error> {
        let mut server = Self::new(config, crate::Stdio::guarded()?, handler);
        server.state.drive.defer_buffer_release();
        server.state.check_hung_up = crate::Stdio::hung_up;
        Ok(server)
    }
}

/// State of a server, without the stream and the handlers.
#[derive(Debug)]
struct State<S> {
    pipe: pipe::Server,
    drive: PipeDriver,
    dispatcher: Dispatcher,
    /// Woken by handlers and handles.
    coalescing_waker: CoalescingWaker,
    timer: DeadlineTimer,
    /// Whether written bytes may still be in a buffer of the stream.
    needs_flush: bool,
    /// Time at which a shutdown aborts the remaining calls.
    shutdown_deadline: Option<Instant>,
    /// Time until which tasks may run after the end of the stream.
    tasks_deadline: Option<Instant>,
    /// Time at which the server gives up a client that closed its sending side, unless there is progress before.
    disconnect_deadline: Option<Instant>,
    /// Next time at which the server checks whether the client has disconnected.
    next_disconnect_check: Instant,
    /// Checks which directions the client has closed.
    check_hung_up: fn(&mut S) -> HungUp,
    /// Number of calls for which answers are not delayed, because a handler was slow.
    eager_calls: u32,
    fault: Option<Fault>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> State<S> {
    fn new(config: Config, max_running: usize) -> Self {
        let mut drive = PipeDriver::new();
        let now = drive.tick();
        // Without a source of randomness only the sealing of state between two rounds fails.
        #[cfg(feature = "crypto")]
        let config = config.seal_lazily(|| Some((mcp_std::entropy::seed().ok()?, drive.anchor())));
        Self {
            pipe: pipe::Server::new(Arc::new(config), now),
            drive,
            dispatcher: Dispatcher::new(max_running),
            coalescing_waker: CoalescingWaker::new(),
            timer: DeadlineTimer::new(),
            needs_flush: false,
            shutdown_deadline: None,
            tasks_deadline: None,
            disconnect_deadline: None,
            next_disconnect_check: Instant::ZERO,
            check_hung_up: |_| HungUp::default(),
            eager_calls: 0,
            fault: None,
        }
    }

    /// Gives the tasks of the handler to the engine.
    fn install_tasks(&mut self, tasks: &TaskSource) -> Result<(), Error> {
        let (anchor, place) = (self.drive.anchor(), StorePlace::Worker(self.dispatcher.commands()));
        let mut host = PipeHost {
            pipe: &mut self.pipe,
            drive: &mut self.drive,
            shutdown_deadline: &mut self.shutdown_deadline,
        };
        self.dispatcher.set_tasks(tasks.install(&mut host, anchor, place)?);
        Ok(())
    }

    /// Runs the tasks that have not finished at the end of the stream. Ready when they have, or after the grace period.
    fn poll_tasks<H: Handler, F: Future<Output = ()>>(
        &mut self,
        cx: &mut Context<'_>,
        handler: &H,
        running: &mut FutureSet<F>,
        start: &impl Fn(RemoteCall) -> F,
    ) -> Poll<()> {
        if !self.dispatcher.has_tasks() {
            return Poll::Ready(());
        }
        let now = self.drive.tick();
        let grace = self.pipe.engine().config().effective_limits().eof_grace_period;
        let until = *self.tasks_deadline.get_or_insert_with(|| {
            let until = self.shutdown_deadline.unwrap_or(now + grace);
            self.pipe.engine().shutdown(now, until.saturating_duration_since(now));
            until
        });
        self.coalescing_waker.begin_poll(cx.waker());
        for _ in 0..MAX_TURNS {
            self.coalescing_waker.mark_polling();
            let mut moved = self.dispatch_events(handler, running, start);
            moved |= running.poll_woken();
            moved |= self.apply_commands(handler);
            let now = self.drive.tick();
            if self.dispatcher.running_tasks() == 0 || now >= until {
                return Poll::Ready(());
            }
            moved |= self.timer.poll(cx, Some(until.saturating_duration_since(now)));
            if !moved && self.coalescing_waker.try_sleep() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Lets the store write what it has not written.
    fn finish_tasks(&mut self) {
        let mut host = PipeHost {
            pipe: &mut self.pipe,
            drive: &mut self.drive,
            shutdown_deadline: &mut self.shutdown_deadline,
        };
        self.dispatcher.finish_tasks(&mut host);
    }

    /// Does the work that is possible now. Ready when the server has ended.
    fn poll<H: Handler, F: Future<Output = ()>>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
        handler: &H,
        running: &mut FutureSet<F>,
        start: &impl Fn(RemoteCall) -> F,
    ) -> Poll<Result<(), Error>> {
        self.coalescing_waker.begin_poll(cx.waker());
        for _ in 0..MAX_TURNS {
            self.coalescing_waker.mark_polling();
            // A wake-up is mostly caused by input, so reading comes first. Writing last sends all that resulted.
            let mut moved = self.read(cx, stream);
            moved |= self.dispatch_events(handler, running, start);
            moved |= running.poll_woken();
            moved |= self.apply_commands(handler);
            self.dispatch_tap(handler);
            moved |= self.write(cx, stream);
            if self.pipe.is_drained() {
                return Poll::Ready(Ok(()));
            }
            if !moved && self.coalescing_waker.try_sleep() {
                return Poll::Pending;
            }
        }
        // Yield to the executor's other futures.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Passes the events that were read to the dispatcher and the handler. Returns whether there were any.
    fn dispatch_events<H: Handler, F: Future<Output = ()>>(
        &mut self,
        handler: &H,
        running: &mut FutureSet<F>,
        start: &impl Fn(RemoteCall) -> F,
    ) -> bool {
        let mut moved = false;
        loop {
            let now = self.drive.now();
            // Cancellations are delivered even while no more calls are accepted.
            let congested = self.is_congested();
            let event =
                if congested { self.pipe.engine().poll_event(now) } else { self.pipe.poll_event(now) };
            let Some(event) = event else { break };
            moved = true;
            match event {
                Event::Closed { fault, .. } => self.fault = Some(fault),
                event => {
                    if let Some(event) = self.dispatcher.accept_event(event) {
                        dispatch_async_event(handler, &event);
                    }
                }
            }
        }
        let mut started = 0_u32;
        let mut host = PipeHost {
            pipe: &mut self.pipe,
            drive: &mut self.drive,
            shutdown_deadline: &mut self.shutdown_deadline,
        };
        while let Some(remote) = self.dispatcher.next_call(&mut host) {
            running.start((), || start(remote));
            moved = true;
            started += 1;
            // Answers are collected into one write only while handlers are fast.
            self.eager_calls = self.eager_calls.saturating_sub(1);
            if (self.eager_calls > 0 || started % 8 == 0) && host.drive.since_tick() > COALESCE_WINDOW {
                self.eager_calls = EAGER_CALLS;
                break;
            }
        }
        if moved {
            self.disconnect_deadline = None;
        }
        moved
    }

    /// Applies the messages of handlers and the commands of handles. Returns whether there were any.
    fn apply_commands<H: Handler>(&mut self, handler: &H) -> bool {
        let mut host = PipeHost {
            pipe: &mut self.pipe,
            drive: &mut self.drive,
            shutdown_deadline: &mut self.shutdown_deadline,
        };
        self.dispatcher
            .process_messages(&mut host, &mut |call, failure| _ = catch(|| handler.failed(call, failure)))
    }

    fn dispatch_tap<H: Handler>(&mut self, handler: &H) {
        while let Some(record) = self.pipe.engine().poll_tap() {
            let _ = catch(|| handler.tap(&record));
        }
    }

    /// Returns whether so many calls wait for handlers that reading pauses.
    fn is_congested(&mut self) -> bool {
        self.dispatcher.is_congested(self.pipe.engine().config().effective_limits())
    }

    /// Writes output until the stream blocks. Returns whether bytes were written.
    fn write(&mut self, cx: &mut Context<'_>, stream: &mut S) -> bool {
        let mut polled = PollScopedStream::new(stream, cx);
        let moved = self.drive.write(&mut self.pipe, &mut polled);
        self.needs_flush |= moved;
        if moved {
            self.disconnect_deadline = None;
        }
        if self.needs_flush && !self.drive.is_write_closed() {
            // An error here occurs again at the next write.
            self.needs_flush = Pin::new(stream).poll_flush(cx).is_pending();
        }
        if self.drive.is_write_closed() && !self.pipe.is_drained() {
            // No answer can reach the client any more.
            self.pipe.abort(self.drive.now(), &Fault::Eof);
            return true;
        }
        moved
    }

    /// Reads available input and handles deadlines. Returns whether anything happened.
    fn read(&mut self, cx: &mut Context<'_>, stream: &mut S) -> bool {
        let can_read = !self.is_congested();
        // While nothing is read, a disconnect would go unnoticed.
        let is_blind = !can_read || !self.pipe.wants_input();
        let next_check = is_blind.then_some(self.next_disconnect_check);
        let mut polled = PollScopedStream::new(stream, cx);
        let held = self.dispatcher.next_deadline();
        let until = self.shutdown_deadline.into_iter().chain(next_check).chain(held).min();
        self.drive.wait(&mut self.pipe, &mut polled, can_read, until);
        let (mut moved, timeout) = (polled.made_progress, polled.timeout);
        moved |= self.timer.poll(cx, timeout);
        let now = self.drive.now();
        if is_blind && now >= self.next_disconnect_check {
            self.next_disconnect_check = now + DISCONNECT_CHECK_INTERVAL;
            moved = true;
            self.check_client(stream);
        }
        if self.shutdown_deadline.is_some_and(|at| at <= now) {
            self.shutdown_deadline = None;
            moved = true;
            // The cancellations are written as far as possible without waiting.
            self.write(cx, stream);
            self.pipe.abort(now, &Fault::Closed);
        }
        moved
    }

    /// Ends the server if the client has disconnected, or has closed its sending side and nothing progresses any more.
    fn check_client(&mut self, stream: &mut S) {
        let now = self.drive.now();
        let hung_up = (self.check_hung_up)(stream);
        if hung_up.read_closed || self.drive.is_read_closed() {
            let grace = self.pipe.engine().config().effective_limits().eof_grace_period;
            // After the end of input the engine bounds the running calls, provided that it could read the end.
            let unread = self.is_congested() || self.pipe.is_stalled();
            let stuck = unread || !self.pipe.transmit().is_empty();
            let until = *self.disconnect_deadline.get_or_insert(now + grace);
            if stuck && until <= now {
                self.pipe.abort(now, &Fault::Eof);
            } else if !stuck {
                self.disconnect_deadline = None;
            }
        }
        if hung_up.write_closed && !self.pipe.is_drained() {
            self.pipe.abort(now, &Fault::Eof);
        }
    }

    /// Flushes the stream and returns how the server ended.
    async fn finish(mut self, stream: &mut S) -> Result<(), Error> {
        let grace = self.pipe.engine().config().effective_limits().eof_grace_period;
        let closed = if self.drive.is_write_closed() { Ok(()) } else { flush_and_close(stream, grace).await };
        match (self.drive.take_error(), self.fault.take(), closed) {
            (Some(error), ..) => Err(Error::Io(error)),
            (None, Some(fault @ (Fault::TooManyFaultyMessages { .. } | Fault::PingTimeout { .. })), _) => {
                Err(Error::closed(fault))
            }
            (None, _, Err(error)) if !mcp_std::io::is_peer_gone(&error) => Err(Error::Io(error)),
            _ => Ok(()),
        }
    }
}

/// Flushes and closes the write direction, at most for `grace`.
async fn flush_and_close<S: AsyncWrite + Unpin>(stream: &mut S, grace: Duration) -> std::io::Result<()> {
    let mut timer = async_io::Timer::after(grace);
    poll_fn(|cx| match Pin::new(&mut *stream).poll_close(cx) {
        Poll::Pending => Pin::new(&mut timer).poll(cx).map(|_| Err(std::io::ErrorKind::TimedOut.into())),
        closed => closed,
    })
    .await
}

/// The engine and clock of a pipe, as seen by the dispatcher.
struct PipeHost<'a> {
    pipe: &'a mut pipe::Server,
    drive: &'a mut PipeDriver,
    shutdown_deadline: &'a mut Option<Instant>,
}

impl ServerLoop for PipeHost<'_> {
    #[inline]
    fn engine(&mut self) -> &mut Engine {
        self.pipe.engine()
    }

    #[inline]
    fn now(&self) -> Instant {
        self.drive.now()
    }

    #[inline]
    fn tick(&mut self) -> Instant {
        self.drive.tick()
    }

    #[inline]
    fn shutdown(&mut self, grace: Duration) {
        let now = self.drive.tick();
        self.pipe.shutdown(now, grace);
        *self.shutdown_deadline = Some(now + grace);
    }

    // No handler runs on the loop itself, so the following operations have nothing to do.

    #[inline]
    fn poll_event_during_call(&mut self) -> Option<Event> {
        None
    }

    #[inline]
    fn defer(&mut self, _: Event) {}

    #[inline]
    fn write(&mut self) -> bool {
        false
    }

    #[inline]
    fn wait(&mut self, _: Instant) {}
}

/// Default number of calls that run at a time.
pub(crate) const DEFAULT_MAX_RUNNING: usize = 1024;
/// Iterations before the server yields to the executor.
pub(crate) const MAX_TURNS: u32 = 16;
/// Time between two checks for a disconnect while nothing is read.
const DISCONNECT_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum delay of an answer while handlers of calls that were read together with it run.
const COALESCE_WINDOW: Duration = Duration::from_millis(10);
/// Number of calls whose answers are not delayed after `COALESCE_WINDOW` was exceeded.
const EAGER_CALLS: u32 = 64;
