//! State of a server on a byte stream: what reads, runs handlers and writes.

use alloc::sync::Arc;
use core::future::{Future, poll_fn};
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;

use mcp_proto::pipe::{self, Pipe};
use mcp_proto::server::{Config, Event};
use mcp_proto::{Fault, Instant};

use super::MAX_TURNS;
use super::host::PipeHost;
use crate::adapter::driver::PipeDriver;
use crate::adapter::runtime::deadline_timer::{DeadlineTimer, timer_after};
use crate::adapter::runtime::future_set::FutureSet;
use crate::adapter::runtime::poll_stream::PollScopedStream;
use crate::adapter::runtime::{AsyncTimer, PollStream, Runtime};
use crate::adapter::server::{
    AsyncHandler, Dispatcher, RemoteCall, StorePlace, TaskSource, dispatch_async_event,
};
use crate::adapter::sync::CoalescingWaker;
use crate::io::{HungUp, is_peer_gone};
use crate::{Error, catch};

/// State of a server, without the stream and the handlers.
#[derive(Debug)]
pub(super) struct State<R: Runtime, S> {
    pipe: pipe::Server,
    pub(super) drive: PipeDriver,
    pub(super) dispatcher: Dispatcher,
    /// Woken by handlers and handles.
    pub(super) coalescing_waker: CoalescingWaker,
    timer: DeadlineTimer<R::Timer>,
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
    pub(super) check_hung_up: fn(&mut S) -> HungUp,
    /// Number of calls for which answers are not delayed, because a handler was slow.
    eager_calls: u32,
    fault: Option<Fault>,
}

impl<R: PollStream<S>, S> State<R, S> {
    pub(super) fn new(config: Config, max_running: usize) -> Self {
        let mut drive = PipeDriver::new();
        let now = drive.tick();
        // Without a source of randomness only the sealing of state between two rounds fails.
        #[cfg(feature = "crypto")]
        let config = config.seal_lazily(|| Some((crate::entropy::seed().ok()?, drive.anchor())));
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
    pub(super) fn install_tasks(&mut self, tasks: &TaskSource) -> Result<(), Error> {
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
    pub(super) fn poll_tasks<H: AsyncHandler, F: Future<Output = ()>>(
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
    pub(super) fn finish_tasks(&mut self) {
        let mut host = PipeHost {
            pipe: &mut self.pipe,
            drive: &mut self.drive,
            shutdown_deadline: &mut self.shutdown_deadline,
        };
        self.dispatcher.finish_tasks(&mut host);
    }

    /// Does the work that is possible now. Ready when the server has ended.
    pub(super) fn poll<H: AsyncHandler, F: Future<Output = ()>>(
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
    fn dispatch_events<H: AsyncHandler, F: Future<Output = ()>>(
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
    fn apply_commands<H: AsyncHandler>(&mut self, handler: &H) -> bool {
        let mut host = PipeHost {
            pipe: &mut self.pipe,
            drive: &mut self.drive,
            shutdown_deadline: &mut self.shutdown_deadline,
        };
        self.dispatcher
            .process_messages(&mut host, &mut |call, failure| _ = catch(|| handler.failed(call, failure)))
    }

    fn dispatch_tap<H: AsyncHandler>(&mut self, handler: &H) {
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
        let mut polled = PollScopedStream::<R, S>::new(stream, cx);
        let moved = self.drive.write(&mut self.pipe, &mut polled);
        self.needs_flush |= moved;
        if moved {
            self.disconnect_deadline = None;
        }
        if self.needs_flush && !self.drive.is_write_closed() {
            // An error here occurs again at the next write.
            self.needs_flush = R::poll_flush(stream, cx).is_pending();
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
        let mut polled = PollScopedStream::<R, S>::new(stream, cx);
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
    pub(super) async fn finish(mut self, stream: &mut S) -> Result<(), Error> {
        let grace = self.pipe.engine().config().effective_limits().eof_grace_period;
        let closed =
            if self.drive.is_write_closed() { Ok(()) } else { flush_and_close::<R, S>(stream, grace).await };
        match (self.drive.take_error(), self.fault.take(), closed) {
            (Some(error), ..) => Err(Error::Io(error)),
            (None, Some(fault @ (Fault::TooManyFaultyMessages { .. } | Fault::PingTimeout { .. })), _) => {
                Err(Error::closed(fault))
            }
            (None, _, Err(error)) if !is_peer_gone(&error) => Err(Error::Io(error)),
            _ => Ok(()),
        }
    }
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

/// Time between two checks for a disconnect while nothing is read.
const DISCONNECT_CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum delay of an answer while handlers of calls that were read together with it run.
const COALESCE_WINDOW: Duration = Duration::from_millis(10);
/// Number of calls whose answers are not delayed after `COALESCE_WINDOW` was exceeded.
const EAGER_CALLS: u32 = 64;
