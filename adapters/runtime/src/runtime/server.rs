//! Servers on byte streams: one future that reads, runs handlers and writes.

use core::future::{Future, poll_fn};
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;

use mcp_proto::Fault;
use mcp_proto::pipe::Pipe;
use mcp_proto::server::{Config, Event};
use mcp_std::catch;
use mcp_std::io::{Duplex, HungUp};
use mcp_std::sync::CoalescingWaker;

use super::{
    AsyncTimer, DeadlineTimer, FutureSet, PollScopedStream, PollStream, Runtime, StdioStream, start_timer,
    timer_after,
};
use crate::Error;
use crate::inline_map::ErasedBox;
use crate::server::stream_core::{EAGER_CALLS, MAX_PASSES_PER_TURN, MAX_WRITE_DELAY, StreamCore};
use crate::server::{
    AsyncHandler, Dispatcher, FinishedCall, Handle, RemoteCall, ServerLoop, StartTimer, dispatch_async_event,
    run_call,
};

/// A server on one byte stream, with a [`Handle`] for commands while it runs.
#[derive(Debug)]
pub struct Server<R: Runtime, S, H> {
    stream: S,
    handler: H,
    parts: ErasedBox<Parts>,
    timer: DeadlineTimer<R::Timer>,
    /// Checks which directions the client has closed.
    check_hung_up: fn(&mut S) -> HungUp,
}

impl<R: PollStream<S>, S, H: AsyncHandler> Server<R, S, H> {
    /// Creates a server that has not started to read.
    pub fn new(config: Config, stream: S, handler: H) -> Self {
        let (parts, timer) = (Parts::boxed(config), DeadlineTimer::new());
        Self { stream, handler, parts, timer, check_hung_up: |_| HungUp::default() }
    }

    /// Sets how many calls run at a time (default 1,024, at least 1).
    ///
    /// More calls wait, up to [`Limits::max_waiting_requests`](mcp_proto::Limits) and
    /// [`max_waiting_bytes`](mcp_proto::Limits). Beyond that, reading pauses.
    #[must_use]
    pub fn max_running(mut self, calls: usize) -> Self {
        self.parts.dispatcher.set_max_running(calls);
        self
    }

    /// Returns a handle for commands while the server runs.
    pub fn handle(&self) -> Handle {
        Handle::new(self.parts.dispatcher.commands())
    }

    /// Serves until the stream ends.
    ///
    /// # Errors
    ///
    /// - [`Error::Io`] if the stream breaks for another reason than the client disconnecting.
    /// - [`Error::Closed`] if the client sent too many faulty messages
    ///   ([`Limits::max_faulty_messages`](mcp_proto::Limits)) or answered too few keep-alive pings.
    pub async fn run(self) -> Result<(), Error> {
        let Self { mut stream, handler, mut parts, mut timer, check_hung_up } = self;
        let parts = &mut *parts;
        let mut calls = RunningCalls {
            handler: &handler,
            running: FutureSet::new(parts.coalescing_waker.waker()),
            start: |remote| run_call(&handler, remote, StartTimer::Function(start_timer::<R>)),
        };
        parts.dispatcher.register(parts.coalescing_waker.waker());
        parts.core.attach(&handler.attachments(), &mut parts.dispatcher)?;
        poll_fn(|cx| {
            parts.coalescing_waker.begin_poll(cx.waker());
            for _ in 0..MAX_PASSES_PER_TURN {
                parts.coalescing_waker.mark_polling();
                // A wake-up is mostly caused by input, so reading comes first. Writing last sends all that resulted.
                let mut moved = read::<R, S>(parts, &mut timer, check_hung_up, cx, &mut stream);
                moved |= calls.process(parts);
                while let Some(record) = parts.core.engine().poll_tap() {
                    // The panic hook has reported the panic.
                    let _ = catch(|| handler.tap(&record));
                }
                moved |= write::<R, S>(parts, cx, &mut stream);
                if parts.core.pipe.is_drained() {
                    return Poll::Ready(());
                }
                if !moved && parts.coalescing_waker.try_sleep() {
                    return Poll::Pending;
                }
            }
            // Yield to the executor's other futures.
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        if let Some(until) = parts.core.begin_finishing_tasks(&parts.dispatcher) {
            poll_fn(|cx| {
                parts.coalescing_waker.begin_poll(cx.waker());
                for _ in 0..MAX_PASSES_PER_TURN {
                    parts.coalescing_waker.mark_polling();
                    let mut moved = calls.process(parts);
                    match parts.core.time_for_tasks(&parts.dispatcher, until) {
                        None => return Poll::Ready(()),
                        timeout => moved |= timer.poll(cx, timeout),
                    }
                    if !moved && parts.coalescing_waker.try_sleep() {
                        return Poll::Pending;
                    }
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
        // Handlers that still run are dropped: no answer can be sent any more.
        drop(calls);
        parts.dispatcher.finish_tasks(&mut parts.core);
        let grace = parts.core.grace_period();
        let closed = if parts.core.driver.is_write_closed() {
            Ok(())
        } else {
            flush_and_close::<R, S>(&mut stream, grace).await
        };
        parts.core.end(closed)
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
        server.parts.core.driver.defer_buffer_release();
        server.check_hung_up = R::Stdio::hung_up;
        Ok(server)
    }
}

/// What does not depend on the runtime, the stream or the handlers, and is compiled once (see `core/docs/size.md`).
#[derive(Debug)]
struct Parts {
    core: StreamCore,
    dispatcher: Dispatcher,
    /// Woken by handlers and handles.
    coalescing_waker: CoalescingWaker,
    /// Whether written bytes may still be in a buffer of the stream.
    needs_flush: bool,
}

impl Parts {
    /// Creates the parts. The code that drops them is referred to from here alone.
    fn boxed(config: Config) -> ErasedBox<Self> {
        ErasedBox::new(Self {
            core: StreamCore::new(config),
            dispatcher: Dispatcher::new(DEFAULT_MAX_RUNNING),
            coalescing_waker: CoalescingWaker::new(),
            needs_flush: false,
        })
    }

    /// Passes the events that were read to the dispatcher, or to `on_event`. Returns whether there were any.
    fn accept_events(&mut self, on_event: &mut dyn FnMut(&Event)) -> bool {
        let mut moved = false;
        while let Some(event) = self.core.next_event(&self.dispatcher) {
            moved = true;
            if let Event::Closed { fault, .. } = event {
                self.core.fault = Some(fault);
            } else if let Some(event) = self.dispatcher.accept_event(&mut self.core, event) {
                on_event(&event);
            }
        }
        moved
    }

    /// Returns whether answers are written before more calls start, after one was started.
    ///
    /// Answers are collected into one write only while handlers are fast.
    fn must_answer_first(&mut self) -> bool {
        self.core.delayed_writes += 1;
        self.core.eager_calls = self.core.eager_calls.saturating_sub(1);
        // The clock is read for one call in eight, unless a handler was slow before.
        let is_slow = (self.core.eager_calls > 0 || self.core.delayed_writes % 8 == 0)
            && self.core.driver.since_tick() > MAX_WRITE_DELAY;
        if is_slow {
            self.core.eager_calls = EAGER_CALLS;
        }
        is_slow
    }

    /// Reads available input and processes deadlines of the engine. Returns whether to check if the client is connected.
    fn read(&mut self, stream: &mut dyn Duplex) -> bool {
        self.core.note_waiting_calls(&self.dispatcher);
        let held = self.dispatcher.next_deadline();
        self.core.wait(stream, self.core.shutdown_deadline.into_iter().chain(held).min())
    }

    /// Writes output until the stream blocks. Returns whether anything happened.
    fn write(&mut self, stream: &mut dyn Duplex) -> bool {
        let was_drained = self.core.pipe.is_drained();
        let wrote = self.core.write(stream);
        self.needs_flush |= wrote;
        if wrote {
            self.core.eof_deadline = None;
        }
        wrote || self.core.driver.is_write_closed() && !was_drained
    }
}

/// A handler, and the futures of its calls.
pub(super) struct RunningCalls<H, F, S> {
    pub(super) handler: H,
    pub(super) running: FutureSet<F>,
    /// Makes the future of a call.
    pub(super) start: S,
}

impl<T: AsyncHandler, H: core::ops::Deref<Target = T>, F, S> RunningCalls<H, F, S>
where
    F: Future<Output = Option<FinishedCall>>,
    S: Fn(RemoteCall) -> F,
{
    /// Starts the next call. Returns whether there was one.
    pub(super) fn start_next(
        &mut self,
        server_loop: &mut dyn ServerLoop,
        dispatcher: &mut Dispatcher,
    ) -> bool {
        let next = dispatcher.next_call(server_loop);
        let has_next = next.is_some();
        let finished = next.and_then(|remote| self.running.start((), || (self.start)(remote)).flatten());
        if let Some(finished) = finished {
            let handler = &*self.handler;
            dispatcher.apply_finished(server_loop, finished, &mut |call, failure| {
                _ = catch(|| handler.failed(call, failure))
            });
        }
        has_next
    }

    /// Polls the futures that were woken, and applies the messages of handlers and the commands of handles. Returns whether
    /// there were any.
    pub(super) fn poll_woken(
        &mut self,
        server_loop: &mut dyn ServerLoop,
        dispatcher: &mut Dispatcher,
    ) -> bool {
        let handler = &*self.handler;
        let on_failure = &mut |call: &_, failure: &_| _ = catch(|| handler.failed(call, failure));
        let moved = self.running.poll_woken(&mut |finished| {
            if let Some(finished) = finished {
                dispatcher.apply_finished(server_loop, finished, on_failure);
            }
        });
        dispatcher.process_messages(server_loop, on_failure) | moved
    }

    /// Handles the events that were read, starts calls and polls those that run. Returns whether anything happened.
    fn process(&mut self, parts: &mut Parts) -> bool {
        let mut moved = parts.accept_events(&mut |event| dispatch_async_event(&*self.handler, event));
        while self.start_next(&mut parts.core, &mut parts.dispatcher) {
            moved = true;
            if parts.must_answer_first() {
                break;
            }
        }
        if moved {
            parts.core.eof_deadline = None;
        }
        self.poll_woken(&mut parts.core, &mut parts.dispatcher) | moved
    }
}

/// Writes output until the stream blocks. Returns whether anything happened.
fn write<R: PollStream<S>, S>(parts: &mut Parts, cx: &mut Context<'_>, stream: &mut S) -> bool {
    let moved = parts.write(&mut PollScopedStream::<R, S>::new(stream, cx));
    if parts.needs_flush && !parts.core.driver.is_write_closed() {
        // An error here occurs again at the next write.
        parts.needs_flush = R::poll_flush(stream, cx).is_pending();
    }
    moved
}

/// Reads available input and handles deadlines. Returns whether anything happened.
fn read<R: PollStream<S>, S>(
    parts: &mut Parts,
    timer: &mut DeadlineTimer<R::Timer>,
    check_hung_up: fn(&mut S) -> HungUp,
    cx: &mut Context<'_>,
    stream: &mut S,
) -> bool {
    let mut polled = PollScopedStream::<R, S>::new(stream, cx);
    let is_check_due = parts.read(&mut polled);
    let (mut moved, timeout) = (polled.made_progress, polled.timeout);
    moved |= timer.poll(cx, timeout);
    if is_check_due {
        moved = true;
        parts.core.check_client(check_hung_up(stream));
    }
    let now = parts.core.now();
    if parts.core.shutdown_deadline.take_if(|at| *at <= now).is_some() {
        moved = true;
        // The cancellations are written as far as possible without waiting.
        write::<R, S>(parts, cx, stream);
        parts.core.pipe.abort(parts.core.now(), &Fault::Closed);
    }
    moved
}

/// Flushes and closes the write direction, at most for `grace`.
async fn flush_and_close<R: PollStream<S>, S>(stream: &mut S, grace: Duration) -> io::Result<()> {
    let mut timer = timer_after::<R>(grace);
    poll_fn(|cx| match R::poll_close(stream, cx) {
        Poll::Pending => timer.poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into())),
        closed => closed,
    })
    .await
}

/// Default number of calls that run at a time.
pub(super) const DEFAULT_MAX_RUNNING: usize = 1024;
