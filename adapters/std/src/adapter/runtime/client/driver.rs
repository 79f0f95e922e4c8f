//! The non-blocking loop of a connection, and the steps of its end.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::poll_fn;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::thread;
use std::time::Instant as StdInstant;

use crate::adapter::client::{CloseAction, CommandQueue, Connection, EXIT_STATUS_TIMEOUT, HandlerSlot};
use crate::io::{Duplex, is_peer_gone};
use crate::process::{Shutdown, ShutdownReport, ShutdownStep};
use crate::{Clock, Error, Panic, catch};
use mcp_proto::client::Peer;
use mcp_proto::{Fault, Instant};

use super::leader::{LeaderQueue, LeaderScope, WaiterGuard};
use super::watch::{ConnectionWatch, WatchReadiness};
use crate::adapter::runtime::{AsyncTimer, Runtime};

/// A connection with all that drives it. When dropped, a thread completes the unfinished steps.
#[derive(Debug)]
pub(super) struct ConnectionDriver<R: Runtime> {
    /// `None` while it is dropped.
    state: Option<Box<DriverState<R>>>,
}

#[derive(Debug)]
pub(super) struct DriverState<R: Runtime> {
    pub(super) connection: Connection,
    /// The commands of callers; `None` until the connection is ready.
    commands: Option<CommandQueue>,
    watch: Option<ConnectionWatch<R>>,
    /// Whether readiness is requested from the reactor instead of the current poller.
    uses_reactor: bool,
    timer: R::Timer,
    /// Time for which `timer` is set. It may be earlier than needed.
    timer_deadline: Option<Instant>,
    /// Clock of the closing steps.
    clock: Clock,
    waker: Waker,
    stage: DriverStage,
    /// Whether the connection is being closed by this side.
    pub(super) is_closing: bool,
    /// Whether no task polls the connection any more.
    is_detached: bool,
    /// The error with which the connection ended before it was ready.
    pub(super) error: Option<Error>,
    /// Outcome of the shutdown of the server process.
    pub(super) exit: Option<Result<Option<ShutdownReport>, Error>>,
}

#[derive(Debug)]
enum DriverStage {
    Open,
    /// The server has closed its output. Waits for its exit status until this time of `clock`.
    AwaitExit(Instant),
    /// Writes the remaining output, until this time.
    Drain(Instant),
    /// Shuts the server process down.
    Child(Box<Shutdown>),
    /// Closes the write direction of a stream, until this time of `clock`.
    Stream(ClosingStream, Instant),
    Closed,
}

/// A stream whose write direction is still to be closed.
struct ClosingStream(Box<dyn Duplex + Send>);

impl core::fmt::Debug for ClosingStream {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("ClosingStream")
    }
}

impl<R: Runtime> ConnectionDriver<R> {
    pub(super) fn new(mut connection: Connection, watch: ConnectionWatch<R>, waker: Waker) -> Self {
        // This loop waits for the exit status itself, in `DriverStage::AwaitExit`.
        connection.exit_status_timeout = Duration::ZERO;
        Self {
            state: Some(Box::new(DriverState {
                connection,
                commands: None,
                watch: Some(watch),
                uses_reactor: false,
                timer: R::Timer::never(),
                timer_deadline: None,
                clock: Clock::start(),
                waker,
                stage: DriverStage::Open,
                is_closing: false,
                is_detached: false,
                error: None,
                exit: None,
            })),
        }
    }

    /// Returns the state; `None` only while the driver is dropped.
    pub(super) fn state_mut(&mut self) -> Option<&mut DriverState<R>> {
        self.state.as_deref_mut()
    }

    /// Does the work that is possible now, and wakes the queue if there is more. Only the leader calls this.
    pub(super) fn drive(&mut self, queue: &LeaderQueue) {
        let Some(inner) = self.state_mut() else { return };
        let more = inner.run_guarded(queue, DriverState::step);
        queue.end_turn(inner.connection.event_count, matches!(inner.stage, DriverStage::Closed));
        if more {
            inner.waker.wake_by_ref();
        }
    }

    /// Waits until the connection is ready. An error is returned after the connection has been closed completely.
    pub(super) async fn wait_until_ready(&mut self, queue: &Arc<LeaderQueue>) -> Result<Peer, Error> {
        let mut waiter = WaiterGuard::new(queue.clone(), false);
        queue.wake_by_ref();
        poll_fn(|cx| {
            for _ in 0..MAX_TURNS_PER_POLL {
                if !waiter.try_lead(cx.waker()) {
                    return Poll::Pending;
                }
                self.drive(queue);
                let Some(inner) = self.state_mut() else { break };
                if let Some(peer) = inner.connection.take_peer() {
                    return Poll::Ready(Ok(peer));
                }
                if let DriverStage::Closed = inner.stage {
                    let error = inner.error.take();
                    return Poll::Ready(Err(error.unwrap_or_else(|| Error::closed(Fault::Closed))));
                }
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await
    }
}

impl<R: Runtime> DriverState<R> {
    /// Processes the commands of callers from now on.
    pub(super) fn accept_calls(&mut self, mut commands: CommandQueue) {
        if !matches!(self.stage, DriverStage::Open | DriverStage::AwaitExit(_)) {
            // The connection became ready, and ended before the first call.
            commands.notify_closed(&mut self.connection);
        }
        self.commands = Some(commands);
    }

    /// Returns whether a call may start immediately, without queueing.
    pub(super) fn is_idle(&mut self) -> bool {
        matches!(self.stage, DriverStage::Open)
            && !self.connection.is_over()
            && self.commands.as_ref().is_some_and(CommandQueue::is_idle)
            && !self.connection.transport.engine().is_congested()
    }

    /// Sends the output of a started call and registers for wake-ups. Returns `false` if more work is possible now.
    pub(super) fn send_queued(&mut self, queue: &LeaderQueue) -> bool {
        self.run_guarded(queue, Self::send_queued_now)
    }

    /// Runs `work` in the scope of this queue. Returns `false` if a stream of the program panicked.
    fn run_guarded(&mut self, queue: &LeaderQueue, work: fn(&mut Self) -> bool) -> bool {
        let _turn = LeaderScope::enter(queue);
        self.uses_reactor = queue.select_reactor();
        catch(|| work(self)).unwrap_or_else(|panic| self.handle_panic(&panic))
    }

    fn send_queued_now(&mut self) -> bool {
        let seen = self.connection.event_count;
        self.connection.flush();
        self.connection.process_events(&mut None);
        if self.connection.is_over() || self.connection.event_count != seen {
            return false;
        }
        // A call may start on any thread. What waits for it is polled inside of the runtime, and sets the timer there.
        if !R::is_entered() {
            return false;
        }
        let due = self.commands.as_ref().and_then(CommandQueue::next_deadline);
        self.arm_wakeup(due)
    }

    /// Runs the steps of the current stage. Returns whether more work is possible now.
    fn step(&mut self) -> bool {
        for _ in 0..MAX_STEPS {
            let waits = match &mut self.stage {
                DriverStage::Open => self.exchange_messages(),
                DriverStage::AwaitExit(until) => {
                    let until = *until;
                    self.await_exit(until)
                }
                DriverStage::Drain(until) => {
                    let until = *until;
                    self.drain(until)
                }
                DriverStage::Child(shutdown) => match shutdown.poll(self.clock.now()) {
                    ShutdownStep::Done(ended) => self.finish_close(Ok(Some(ended))),
                    ShutdownStep::Wait(until) => self.sleep_until(until),
                },
                DriverStage::Stream(stream, until) => {
                    let (outcome, until) = (stream.0.shutdown_write(), *until);
                    match outcome {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {
                            if self.clock.now() < until {
                                self.sleep_until(until)
                            } else {
                                self.finish_close(Err(Error::Io(ErrorKind::TimedOut.into())))
                            }
                        }
                        Err(error) if !is_peer_gone(&error) => self.finish_close(Err(Error::Io(error))),
                        _ => self.finish_close(Ok(None)),
                    }
                }
                DriverStage::Closed => true,
            };
            if waits {
                return false;
            }
        }
        true
    }

    fn exchange_messages(&mut self) -> bool {
        if let Some(commands) = &mut self.commands {
            commands.process_commands(&mut self.connection);
            self.is_closing |= commands.is_close_requested();
        }
        if self.is_closing {
            return self.finish();
        }
        match self.take_readiness() {
            // Stderr of the server process is read while the rest is waited for.
            WatchReadiness { has_stderr: true, .. } => self.connection.turn(Some(Instant::ZERO), &mut None),
            WatchReadiness { is_readable, .. } => self.connection.step(is_readable),
        }
        self.connection.poll_deferred(&self.waker);
        if self.connection.is_over() {
            self.stage = DriverStage::AwaitExit(self.clock.now() + EXIT_STATUS_TIMEOUT);
            return false;
        }
        let due = self.commands.as_ref().and_then(CommandQueue::next_deadline);
        self.arm_wakeup(due)
    }

    /// Registers for the next wake-up. Returns `false` if more work is possible now.
    fn arm_wakeup(&mut self, due: Option<Instant>) -> bool {
        let due = due.into_iter().chain(self.connection.transport.next_deadline()).min();
        if self.poll_watch() {
            return false;
        }
        let Some(due) = due else { return true };
        let now = self.connection.transport.now();
        if due <= now {
            return false;
        }
        self.arm_timer(due, now)
    }

    /// Sets the timer, unless it is set for an earlier time: most calls end long before their deadlines.
    fn arm_timer(&mut self, at: Instant, now: Instant) -> bool {
        if self.is_detached || self.timer_deadline.is_some_and(|armed| now < armed && armed <= at) {
            return true;
        }
        self.timer.reset(StdInstant::now() + at.saturating_duration_since(now));
        let mut cx = Context::from_waker(&self.waker);
        let is_pending = self.timer.poll(&mut cx).is_pending();
        self.timer_deadline = is_pending.then_some(at);
        is_pending
    }

    /// Sets the timer for a time of `clock`. Returns `false` if that time has passed.
    fn sleep_until(&mut self, until: Instant) -> bool {
        self.timer_deadline = None;
        if self.is_detached {
            return true;
        }
        self.timer.reset(StdInstant::now() + self.clock.until(until));
        let mut cx = Context::from_waker(&self.waker);
        self.timer.poll(&mut cx).is_pending()
    }

    /// Returns and resets the readiness found since the last call.
    fn take_readiness(&mut self) -> WatchReadiness {
        let mut cx = Context::from_waker(&self.waker);
        self.watch.as_mut().map(|watch| watch.take_readiness(&mut cx, self.uses_reactor)).unwrap_or_default()
    }

    fn poll_watch(&mut self) -> bool {
        let Some(watch) = &mut self.watch else { return false };
        let mut cx = Context::from_waker(&self.waker);
        match watch.poll(&mut *self.connection.transport, &mut cx, self.uses_reactor) {
            Ok(ready) => ready,
            Err(error) => {
                self.watch = None;
                self.connection.abort(error);
                true
            }
        }
    }

    /// Waits for the exit status: a process closes its output a moment before it exits.
    fn await_exit(&mut self, until: Instant) -> bool {
        let now = self.clock.now();
        if now < until && self.connection.is_awaiting_exit_status() {
            return self.sleep_until(until.min(now + EXIT_POLL_INTERVAL));
        }
        match &mut self.commands {
            Some(commands) => commands.notify_closed(&mut self.connection),
            None => self.error = Some(self.connection.closed_error()),
        }
        self.begin_close();
        false
    }

    fn finish(&mut self) -> bool {
        if let Some(commands) = &mut self.commands {
            commands.notify_closed(&mut self.connection);
        }
        self.begin_close();
        false
    }

    fn begin_close(&mut self) {
        self.timer_deadline = None;
        self.connection.refuse_deferred();
        let until = self.connection.begin_finish();
        self.stage = DriverStage::Drain(until.unwrap_or(Instant::ZERO));
    }

    fn drain(&mut self, until: Instant) -> bool {
        let wire = &mut self.connection.transport;
        if !wire.is_drained() && wire.tick() < until {
            self.take_readiness();
            self.connection.continue_finish(Instant::ZERO);
            if !self.connection.transport.is_drained() {
                return self.arm_wakeup(Some(until));
            }
        }
        self.close_transport();
        false
    }

    fn close_transport(&mut self) {
        // First: a duplicate descriptor would keep the write direction open.
        self.watch = None;
        let now = self.clock.now();
        let (action, timeouts) = self.connection.take_close_action(now);
        match action {
            CloseAction::Child(shutdown) => self.stage = DriverStage::Child(shutdown),
            CloseAction::Stream(stream) => {
                self.stage = DriverStage::Stream(ClosingStream(stream), now + timeouts.exit)
            }
            CloseAction::Nothing => _ = self.finish_close(Ok(None)),
        }
    }

    fn finish_close(&mut self, outcome: Result<Option<ShutdownReport>, Error>) -> bool {
        self.exit = Some(outcome);
        self.stage = DriverStage::Closed;
        // The handler may hold a handle of this connection. A connection that was not ready keeps it for a retry.
        if self.commands.is_some() {
            self.connection.set_handler(HandlerSlot::Local(Box::new(())));
        }
        true
    }

    /// Ends the connection after a stream of the program panicked. The stream is not used again, and all calls fail.
    fn handle_panic(&mut self, panic: &Panic) -> bool {
        self.connection.abort_unclean(io::Error::other(panic.to_string()));
        self.watch = None;
        match &mut self.commands {
            Some(commands) => commands.notify_closed(&mut self.connection),
            None => self.error = Some(self.connection.closed_error()),
        }
        let _ = self.finish_close(Ok(None));
        false
    }

    /// Closes the connection with blocking waits.
    fn close_blocking(mut self) {
        if let Some(watch) = &self.watch {
            watch.set_blocking();
        }
        if let DriverStage::Open | DriverStage::AwaitExit(_) = self.stage {
            self.begin_close();
        }
        if let DriverStage::Drain(until) = self.stage {
            while !self.connection.transport.is_drained() && self.connection.transport.tick() < until {
                self.connection.continue_finish(until);
            }
            self.close_transport();
        }
        if let DriverStage::Child(shutdown) = self.stage {
            shutdown.run(self.clock);
        }
    }
}

// No task is left to drive the connection: immediate steps run here, the rest runs on a thread.
impl<R: Runtime> Drop for ConnectionDriver<R> {
    fn drop(&mut self) {
        let Some(mut inner) = self.state.take() else { return };
        (inner.is_closing, inner.is_detached) = (true, true);
        inner.watch.iter().for_each(ConnectionWatch::abandon);
        while catch(|| inner.step()).unwrap_or_else(|panic| inner.handle_panic(&panic)) {}
        if let DriverStage::Closed = inner.stage {
            return;
        }
        // If no thread can be started, dropping `inner` ends the process immediately instead of gracefully.
        let _ = thread::Builder::new().name("mcp-end".into()).spawn(move || inner.close_blocking());
    }
}

/// Maximum number of steps in one turn.
const MAX_STEPS: u32 = 16;
/// Maximum number of turns in one poll of a future, before other futures of the executor run.
pub(super) const MAX_TURNS_PER_POLL: u32 = 4;
/// Time between two checks for the exit status.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);
