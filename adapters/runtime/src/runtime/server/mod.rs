//! Servers on byte streams: one future that reads, runs handlers and writes.

mod state;

use alloc::sync::Arc;
use core::future::poll_fn;
use core::time::Duration;

use mcp_proto::pipe::{self, Pipe};
use mcp_proto::server::{Call, Config, Engine, Event};
use mcp_proto::tap::TapRecord;
use mcp_proto::{Fault, Instant};
use mcp_std::io::{Duplex, HungUp};
use mcp_std::sync::CoalescingWaker;

use super::{FutureSet, PollStream, Runtime, StdioStream, start_timer};
use crate::Error;
use crate::driver::PipeDriver;
use crate::inline_map::ErasedBox;
use crate::server::{
    AsyncHandler, Attachments, Dispatcher, FinishedCall, Handle, HandlerFailure, RemoteCall, ServerLoop,
    StartTimer, StorePlace, run_call,
};
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
        state.core.attach(&handler.attachments())?;
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

// The engine and clock of a byte stream, as seen by the dispatcher.

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

// The part of a server on a byte stream that does not depend on the runtime or the handlers.

/// Engine, driver and dispatcher of a server, and its deadlines.
#[derive(Debug)]
struct StreamCore {
    pipe: pipe::Server,
    drive: PipeDriver,
    dispatcher: Dispatcher,
    /// Woken by handlers and handles.
    coalescing_waker: CoalescingWaker,
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
    /// Number of calls for which answers are not delayed, because a handler was slow.
    eager_calls: u32,
    fault: Option<Fault>,
}

impl StreamCore {
    /// Creates the core. The code that drops it is referred to from here alone.
    fn boxed(config: Config, max_running: usize) -> ErasedBox<Self> {
        let mut drive = PipeDriver::new();
        let now = drive.tick();
        // Without a source of randomness only the sealing of state between two rounds fails.
        let config = config.max_memory_by_default(mcp_std::memory::max_memory());
        let config = config.seal_lazily(|| Some((mcp_std::entropy::seed().ok()?, drive.anchor())));
        ErasedBox::new(Self {
            pipe: pipe::Server::new(Arc::new(config), now),
            drive,
            dispatcher: Dispatcher::new(max_running),
            coalescing_waker: CoalescingWaker::new(),
            needs_flush: false,
            shutdown_deadline: None,
            tasks_deadline: None,
            disconnect_deadline: None,
            next_disconnect_check: Instant::ZERO,
            eager_calls: 0,
            fault: None,
        })
    }

    /// Returns the dispatcher, and the loop as it sees it.
    fn parts(&mut self) -> (&mut Dispatcher, PipeHost<'_>) {
        let Self { pipe, drive, dispatcher, shutdown_deadline, .. } = self;
        (dispatcher, PipeHost { pipe, drive, shutdown_deadline })
    }

    /// Lets messages of handlers and handles wake the server.
    fn register_waker(&self) {
        self.dispatcher.register(self.coalescing_waker.waker());
    }

    /// Takes what the handler gives to its loop.
    fn attach(&mut self, attachments: &Attachments) -> Result<(), Error> {
        let (anchor, place) = (self.drive.anchor(), StorePlace::Worker(self.dispatcher.commands()));
        let (dispatcher, mut host) = self.parts();
        attachments.install(dispatcher, &mut host, anchor, place)
    }

    /// Returns until when the tasks that have not finished at the end of the stream may run; `None` without tasks.
    fn begin_finishing_tasks(&mut self) -> Option<Instant> {
        if !self.dispatcher.has_tasks() {
            return None;
        }
        let (now, grace) = (self.drive.tick(), self.grace_period());
        let until = self.tasks_deadline.unwrap_or_else(|| {
            let until = self.shutdown_deadline.unwrap_or(now + grace);
            self.pipe.engine().shutdown(now, until.saturating_duration_since(now));
            until
        });
        self.tasks_deadline = Some(until);
        Some(until)
    }

    /// Returns the time that is left to running tasks; `None` if there are none, or if it is over.
    fn time_for_tasks(&mut self, until: Instant) -> Option<Duration> {
        let left = until.saturating_duration_since(self.drive.tick());
        (self.dispatcher.running_tasks() > 0 && !left.is_zero()).then_some(left)
    }

    /// Lets the store write what it has not written.
    fn finish_tasks(&mut self) {
        let (dispatcher, mut host) = self.parts();
        dispatcher.finish_tasks(&mut host);
    }

    /// Passes the events that were read to the dispatcher, or to `on_event`. Returns whether there were any.
    fn accept_events(&mut self, on_event: &mut dyn FnMut(&Event)) -> bool {
        let mut moved = false;
        loop {
            let now = self.drive.now();
            // Cancellations are delivered even while no more calls are accepted.
            let congested = self.is_congested();
            let event =
                if congested { self.pipe.engine().poll_event(now) } else { self.pipe.poll_event(now) };
            let Some(event) = event else { return moved };
            moved = true;
            match event {
                Event::Closed { fault, .. } => self.fault = Some(fault),
                event => {
                    let (dispatcher, mut host) = self.parts();
                    if let Some(event) = dispatcher.accept_event(&mut host, event) {
                        on_event(&event);
                    }
                }
            }
        }
    }

    /// Returns the next call for a handler.
    fn next_call(&mut self) -> Option<RemoteCall> {
        let (dispatcher, mut host) = self.parts();
        dispatcher.next_call(&mut host)
    }

    /// Returns whether answers are written before more calls start, after `started` of them in this turn.
    ///
    /// Answers are collected into one write only while handlers are fast.
    fn must_answer_first(&mut self, started: u32) -> bool {
        self.eager_calls = self.eager_calls.saturating_sub(1);
        // The clock is read for one call in eight, unless a handler was slow before.
        let is_slow = (self.eager_calls > 0 || started % 8 == 0) && self.drive.since_tick() > COALESCE_WINDOW;
        if is_slow {
            self.eager_calls = EAGER_CALLS;
        }
        is_slow
    }

    /// Notes that the client makes progress.
    const fn note_progress(&mut self) {
        self.disconnect_deadline = None;
    }

    /// Applies the messages of handlers and the commands of handles. Returns whether there were any.
    fn apply_commands(&mut self, on_failure: &mut dyn FnMut(&Call, &HandlerFailure)) -> bool {
        let (dispatcher, mut host) = self.parts();
        dispatcher.process_messages(&mut host, on_failure)
    }

    /// Applies the outcome of a handler that the loop has polled to its end.
    fn apply_finished(&mut self, finished: FinishedCall, on_failure: &mut dyn FnMut(&Call, &HandlerFailure)) {
        let (dispatcher, mut host) = self.parts();
        dispatcher.apply_finished(&mut host, finished, on_failure);
    }

    /// Returns the next record of a message.
    fn poll_tap(&mut self) -> Option<TapRecord> {
        self.pipe.engine().poll_tap()
    }

    /// Returns whether the server has ended and all output is written.
    fn is_drained(&self) -> bool {
        self.pipe.is_drained()
    }

    /// Returns whether so many calls wait for handlers that reading pauses.
    fn is_congested(&mut self) -> bool {
        self.dispatcher.is_congested(self.pipe.engine().config().effective_limits())
    }

    /// Writes output until the stream blocks. Returns whether bytes were written.
    fn write(&mut self, stream: &mut dyn Duplex) -> bool {
        let moved = self.drive.write(&mut self.pipe, stream);
        self.needs_flush |= moved;
        if moved {
            self.note_progress();
        }
        moved
    }

    /// Returns whether the stream has to be flushed.
    const fn needs_flush(&self) -> bool {
        self.needs_flush && !self.drive.is_write_closed()
    }

    /// Notes whether a flush is complete.
    const fn set_flushed(&mut self, is_complete: bool) {
        self.needs_flush = !is_complete;
    }

    /// Ends the server if no answer can reach the client any more. Returns whether it does.
    fn abort_unwritable(&mut self) -> bool {
        let is_over = self.drive.is_write_closed() && !self.pipe.is_drained();
        if is_over {
            self.pipe.abort(self.drive.now(), &Fault::Eof);
        }
        is_over
    }

    /// Reads available input and processes deadlines of the engine.
    ///
    /// Returns whether a disconnect would go unnoticed, because nothing is read.
    fn read(&mut self, stream: &mut dyn Duplex) -> bool {
        let can_read = !self.is_congested();
        let is_blind = !can_read || !self.pipe.wants_input();
        let next_check = is_blind.then_some(self.next_disconnect_check);
        let held = self.dispatcher.next_deadline();
        let until = self.shutdown_deadline.into_iter().chain(next_check).chain(held).min();
        self.drive.wait(&mut self.pipe, stream, can_read, until);
        is_blind
    }

    /// Returns whether it is time to check whether the client has disconnected, and sets the next time.
    fn is_disconnect_check_due(&mut self) -> bool {
        let now = self.drive.now();
        let is_due = now >= self.next_disconnect_check;
        if is_due {
            self.next_disconnect_check = now + DISCONNECT_CHECK_INTERVAL;
        }
        is_due
    }

    /// Ends the server if the client has disconnected, or has closed its sending side and nothing progresses any more.
    fn check_client(&mut self, hung_up: HungUp) {
        let now = self.drive.now();
        if hung_up.read_closed || self.drive.is_read_closed() {
            // After the end of input the engine bounds the running calls, provided that it could read the end.
            let unread = self.is_congested() || self.pipe.is_stalled();
            let stuck = unread || !self.pipe.transmit().is_empty();
            let grace = self.grace_period();
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

    /// Returns whether the grace period of a shutdown is over. The deadline is forgotten then.
    fn is_shutdown_due(&mut self) -> bool {
        let now = self.drive.now();
        self.shutdown_deadline.take_if(|at| *at <= now).is_some()
    }

    /// Cancels all calls, at the end of a shutdown.
    fn abort_after_shutdown(&mut self) {
        self.pipe.abort(self.drive.now(), &Fault::Closed);
    }

    /// Returns the time that calls and tasks have after the end of input.
    fn grace_period(&mut self) -> Duration {
        self.pipe.engine().config().effective_limits().eof_grace_period
    }

    /// Takes the fault that ended the connection.
    const fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }
}

/// Time between two checks for a disconnect while nothing is read.
const DISCONNECT_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum delay of an answer while handlers of calls that were read together with it run.
const COALESCE_WINDOW: Duration = Duration::from_millis(10);
/// Number of calls whose answers are not delayed after `COALESCE_WINDOW` was exceeded.
const EAGER_CALLS: u32 = 64;
