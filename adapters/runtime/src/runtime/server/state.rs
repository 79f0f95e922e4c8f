//! State of a server on a byte stream: what reads, runs handlers and writes.

use core::future::{Future, poll_fn};
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;

use mcp_proto::Fault;
use mcp_proto::server::Config;
use mcp_std::catch;
use mcp_std::io::{HungUp, is_peer_gone};

use super::{MAX_TURNS, StreamCore};
use crate::Error;
use crate::inline_map::ErasedBox;
use crate::runtime::PollScopedStream;
use crate::runtime::{AsyncTimer, DeadlineTimer, FutureSet, PollStream, Runtime, timer_after};
use crate::server::{AsyncHandler, FinishedCall, RemoteCall, dispatch_async_event};

/// State of a server, without the stream and the handlers.
///
/// Holds what depends on the runtime. [`StreamCore`] holds the rest and is compiled once (see `core/docs/size.md`).
#[derive(Debug)]
pub(super) struct State<R: Runtime, S> {
    pub(super) core: ErasedBox<StreamCore>,
    timer: DeadlineTimer<R::Timer>,
    /// Checks which directions the client has closed.
    pub(super) check_hung_up: fn(&mut S) -> HungUp,
}

impl<R: PollStream<S>, S> State<R, S> {
    pub(super) fn new(config: Config, max_running: usize) -> Self {
        Self {
            core: StreamCore::boxed(config, max_running),
            timer: DeadlineTimer::new(),
            check_hung_up: |_| HungUp::default(),
        }
    }

    /// Runs the tasks that have not finished at the end of the stream. Ready when they have, or after the grace period.
    pub(super) fn poll_tasks<H: AsyncHandler, F: Future<Output = Option<FinishedCall>>>(
        &mut self,
        cx: &mut Context<'_>,
        handler: &H,
        running: &mut FutureSet<F>,
        start: &impl Fn(RemoteCall) -> F,
    ) -> Poll<()> {
        let core = &mut *self.core;
        let Some(until) = core.begin_finishing_tasks() else { return Poll::Ready(()) };
        core.coalescing_waker.begin_poll(cx.waker());
        for _ in 0..MAX_TURNS {
            core.coalescing_waker.mark_polling();
            let mut moved = dispatch_events(core, handler, running, start);
            moved |= running.poll_woken(&mut |finished| apply_finished(core, handler, finished));
            moved |= apply_commands(core, handler);
            let Some(timeout) = core.time_for_tasks(until) else { return Poll::Ready(()) };
            moved |= self.timer.poll(cx, Some(timeout));
            if !moved && core.coalescing_waker.try_sleep() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Does the work that is possible now. Ready when the server has ended.
    pub(super) fn poll<H: AsyncHandler, F: Future<Output = Option<FinishedCall>>>(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut S,
        handler: &H,
        running: &mut FutureSet<F>,
        start: &impl Fn(RemoteCall) -> F,
    ) -> Poll<Result<(), Error>> {
        let Self { core, timer, check_hung_up } = self;
        let core = &mut **core;
        core.coalescing_waker.begin_poll(cx.waker());
        for _ in 0..MAX_TURNS {
            core.coalescing_waker.mark_polling();
            // A wake-up is mostly caused by input, so reading comes first. Writing last sends all that resulted.
            let mut moved = read::<R, S>(core, timer, *check_hung_up, cx, stream);
            moved |= dispatch_events(core, handler, running, start);
            moved |= running.poll_woken(&mut |finished| apply_finished(core, handler, finished));
            moved |= apply_commands(core, handler);
            while let Some(record) = core.poll_tap() {
                // The panic hook has reported the panic.
                let _ = catch(|| handler.tap(&record));
            }
            moved |= write::<R, S>(core, cx, stream);
            if core.is_drained() {
                return Poll::Ready(Ok(()));
            }
            if !moved && core.coalescing_waker.try_sleep() {
                return Poll::Pending;
            }
        }
        // Yield to the executor's other futures.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Flushes the stream and returns how the server ended.
    pub(super) async fn finish(mut self, stream: &mut S) -> Result<(), Error> {
        let grace = self.core.grace_period();
        let closed = if self.core.drive.is_write_closed() {
            Ok(())
        } else {
            flush_and_close::<R, S>(stream, grace).await
        };
        match (self.core.drive.take_error(), self.core.take_fault(), closed) {
            (Some(error), ..) => Err(Error::Io(error)),
            (None, Some(fault @ (Fault::TooManyFaultyMessages { .. } | Fault::PingTimeout { .. })), _) => {
                Err(Error::closed(fault))
            }
            (None, _, Err(error)) if !is_peer_gone(&error) => Err(Error::Io(error)),
            _ => Ok(()),
        }
    }
}

/// Passes the events that were read to the dispatcher and the handler, and starts calls. Returns whether there were any.
fn dispatch_events<H: AsyncHandler, F: Future<Output = Option<FinishedCall>>>(
    core: &mut StreamCore,
    handler: &H,
    running: &mut FutureSet<F>,
    start: &impl Fn(RemoteCall) -> F,
) -> bool {
    let mut moved = core.accept_events(&mut |event| dispatch_async_event(handler, event));
    let mut started = 0;
    while let Some(remote) = core.next_call() {
        let finished = running.start((), || start(remote)).flatten();
        apply_finished(core, handler, finished);
        moved = true;
        started += 1;
        if core.must_answer_first(started) {
            break;
        }
    }
    if moved {
        core.note_progress();
    }
    moved
}

/// Applies the outcome of a handler that the loop has polled to its end, if there is one.
fn apply_finished<H: AsyncHandler>(core: &mut StreamCore, handler: &H, finished: Option<FinishedCall>) {
    if let Some(finished) = finished {
        core.apply_finished(finished, &mut |call, failure| _ = catch(|| handler.failed(call, failure)));
    }
}

/// Applies the messages of handlers and the commands of handles. Returns whether there were any.
fn apply_commands<H: AsyncHandler>(core: &mut StreamCore, handler: &H) -> bool {
    core.apply_commands(&mut |call, failure| _ = catch(|| handler.failed(call, failure)))
}

/// Writes output until the stream blocks. Returns whether bytes were written.
fn write<R: PollStream<S>, S>(core: &mut StreamCore, cx: &mut Context<'_>, stream: &mut S) -> bool {
    let moved = core.write(&mut PollScopedStream::<R, S>::new(stream, cx));
    if core.needs_flush() {
        // An error here occurs again at the next write.
        core.set_flushed(R::poll_flush(stream, cx).is_ready());
    }
    core.abort_unwritable() || moved
}

/// Reads available input and handles deadlines. Returns whether anything happened.
fn read<R: PollStream<S>, S>(
    core: &mut StreamCore,
    timer: &mut DeadlineTimer<R::Timer>,
    check_hung_up: fn(&mut S) -> HungUp,
    cx: &mut Context<'_>,
    stream: &mut S,
) -> bool {
    let mut polled = PollScopedStream::<R, S>::new(stream, cx);
    let is_blind = core.read(&mut polled);
    let (mut moved, timeout) = (polled.made_progress, polled.timeout);
    moved |= timer.poll(cx, timeout);
    if is_blind && core.is_disconnect_check_due() {
        moved = true;
        core.check_client(check_hung_up(stream));
    }
    if core.is_shutdown_due() {
        moved = true;
        // The cancellations are written as far as possible without waiting.
        write::<R, S>(core, cx, stream);
        core.abort_after_shutdown();
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
