//! The non-blocking loop of a connection, and the steps of its end.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::poll_fn;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io::{self, ErrorKind};
use std::sync::Mutex;

use mcp_std::sync::lock;
use std::thread;
use std::time::Instant as StdInstant;

use mcp_proto::client::Peer;
use mcp_proto::{Fault, Instant};
use mcp_std::io::{Duplex, is_peer_gone};
use mcp_std::poll::current_poller_id;
use mcp_std::process::{Shutdown, ShutdownReport, ShutdownStep};
use mcp_std::{Clock, Panic, catch};

use super::watch::{ConnectionWatch, WatchReadiness};
use crate::Error;
use crate::client::{
    CloseAction, CommandQueue, Connection, ConnectionHandle, EXIT_STATUS_TIMEOUT, HandlerSlot,
};
use crate::inline_map::InlineMap;
use crate::runtime::{AsyncTimer, Runtime};

/// A connection with all that drives it. When dropped, a thread completes the unfinished steps.
pub(super) struct ConnectionDriver<R: Runtime> {
    /// `None` while it is dropped.
    state: Option<Box<DriverState<R>>>,
}

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

enum DriverStage {
    Open,
    /// The server has closed its output. Waits for its exit status until this time of `clock`.
    AwaitExit(Instant),
    /// Writes the remaining output, until this time.
    Drain(Instant),
    /// Shuts the server process down.
    Child(Box<Shutdown>),
    /// Closes the write direction of a stream, until this time of `clock`.
    Stream(Box<dyn Duplex + Send>, Instant),
    Closed,
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
        // After the end of the turn, so that the wake-up can elect the next leader.
        if more {
            inner.waker.wake_by_ref();
        }
    }

    /// Waits until the connection is ready. An error is returned after the connection has been closed completely.
    pub(super) async fn wait_until_ready(&mut self, queue: &Arc<LeaderQueue>) -> Result<Peer, Error> {
        let mut waiter = WaiterGuard::new(queue.clone(), false);
        // The first request is to be sent, and nothing else would wake the leader.
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
                    let (outcome, until) = (stream.shutdown_write(), *until);
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
        // A timer wakes tasks that poll, and there is none any more.
        if self.is_detached || self.timer_deadline.is_some_and(|armed| now < armed && armed <= at) {
            return true;
        }
        self.timer.reset(StdInstant::now() + at.saturating_duration_since(now));
        let mut cx = Context::from_waker(&self.waker);
        // A timer wakes only a task that has polled it.
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
            CloseAction::Stream(stream) => self.stage = DriverStage::Stream(stream, now + timeouts.exit),
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

// State of a connection that its handles and the futures that wait for it share.

/// State shared by handles and [`Run`](super::Run).
pub(super) struct ClientShared<R: Runtime> {
    pub(super) caller: ConnectionHandle,
    pub(super) leader_queue: Arc<LeaderQueue>,
    /// Locked by the leader.
    pub(super) driver: Mutex<ConnectionDriver<R>>,
}

impl<R: Runtime> ClientShared<R> {
    /// Returns whether the connection was closed by this side.
    pub(super) fn is_closed(&self) -> bool {
        let mut driver = lock(&self.driver);
        driver.state_mut().is_none_or(|inner| inner.is_closing)
    }
}

// Elects the task that drives a shared connection.

/// Leader/follower queue of the tasks that poll a connection. One task, the leader, drives I/O; the others wait.
///
/// The queue is the only waker of the connection's sockets, timers and inbox. When it is woken and there is no leader,
/// the waiters that were polled last are woken, and the first of them to run becomes the leader. A waiter that leaves
/// (with an outcome, or dropped) wakes others if `has_work` is still set.
///
/// Invariant (test `leader_election_random_order_loses_no_wakeup`):
///
/// > `has_work` ∧ ¬`has_leader` ∧ a waiter exists ⇒ a waiter has been woken since its last poll
///
/// A waiter inside a handler's future is polled by the leader (`is_nested`). It is woken by its outcome, but never to
/// lead.
///
/// The invariant helps only if a woken future is also polled. A future that was polled once and then left alone would
/// swallow the wake-up. Therefore several waiters are woken, the latest first, and one more with each further event.
#[derive(Debug, Default)]
pub(super) struct LeaderQueue(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Waiters by the ticket of their last poll.
    waiters: InlineMap<u64, Waiter>,
    last_ticket: u64,
    /// Whether there may be work.
    has_work: bool,
    /// Whether a leader is active. It checks `has_work` again afterwards.
    has_leader: bool,
    /// Number of events, as of the last turn.
    events_seen: u64,
    is_over: bool,
    /// The poller that watches the descriptors; `None`: the reactor.
    watching_poller: PollerId,
    /// The poller of the waiters that are not counted in `waiters_elsewhere`.
    home_poller: PollerId,
    /// Number of waiters that were polled on another poller than `home_poller`.
    waiters_elsewhere: usize,
}

#[derive(Debug)]
struct Waiter {
    waker: Waker,
    /// Whether every event wakes the waiter.
    wants_all_events: bool,
    /// Whether it was woken to lead and has not been polled since.
    is_woken: bool,
    /// Whether the leader polled it, inside a handler's future; it cannot lead.
    is_nested: bool,
    poller: PollerId,
}

/// The [poller](mcp_std::poll::block_on_poller) in which a future is polled; `None` under another executor.
type PollerId = Option<usize>;

thread_local! {
    /// Addresses of the queues whose leader this thread is running.
    static LEADER_SCOPES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Marks this thread as running the leader of a queue. Waiters polled meanwhile are nested.
pub(super) struct LeaderScope;

impl LeaderScope {
    pub(super) fn enter(queue: &LeaderQueue) -> Self {
        let at = core::ptr::from_ref(queue).addr();
        // Thread-local values may be gone while a thread ends; then no waiter counts as nested.
        let _ = LEADER_SCOPES.try_with(|all| all.borrow_mut().push(at));
        Self
    }
}

impl Drop for LeaderScope {
    fn drop(&mut self) {
        let _ = LEADER_SCOPES.try_with(|all| all.borrow_mut().pop());
    }
}

/// A waiter in the queue; leaves it when dropped.
#[derive(Debug)]
pub(super) struct WaiterGuard {
    leader_queue: Arc<LeaderQueue>,
    ticket: Option<u64>,
    wants_all_events: bool,
}

/// Wakers to be woken after the lock is released.
type Wakers = [Option<Waker>; MAX_WOKEN];

fn wake_all(wakers: Wakers) {
    wakers.into_iter().flatten().for_each(Waker::wake);
}

impl LeaderQueue {
    /// Returns whether this thread is running the leader of this queue.
    fn is_within_scope(&self) -> bool {
        let at = core::ptr::from_ref(self).addr();
        LEADER_SCOPES.try_with(|all| all.borrow().contains(&at)).unwrap_or(false)
    }

    /// Returns the number of events so far.
    pub(super) fn events_seen(&self) -> u64 {
        lock(&self.0).events_seen
    }

    /// Selects who watches the descriptors, before the leader checks for readiness. Returns whether it is the reactor.
    ///
    /// The reactor is needed if waiters are polled on different pollers: a poller waits only while its thread is idle.
    pub(super) fn select_reactor(&self) -> bool {
        let poller = current_poller_id();
        let mut state = lock(&self.0);
        let use_reactor =
            state.waiters_elsewhere > 0 || (!state.waiters.is_empty() && state.home_poller != poller);
        state.watching_poller = poller.filter(|_| !use_reactor);
        use_reactor
    }

    /// Returns whether the connection has ended.
    pub(super) fn is_over(&self) -> bool {
        lock(&self.0).is_over
    }

    /// Ends the leader's turn and publishes the state after it.
    pub(super) fn end_turn(&self, seen: u64, over: bool) {
        let mut state = lock(&self.0);
        let has_changed = state.events_seen != seen || state.is_over != over;
        state.has_leader = false;
        (state.events_seen, state.is_over) = (seen, over);
        if !has_changed {
            return;
        }
        let notified = state.waiters.iter().filter(|(_, waiter)| waiter.wants_all_events || over);
        let wakers: Vec<Waker> = notified.map(|(_, waiter)| waiter.waker.clone()).collect();
        // Wakers run after unlocking: they may run code that uses this queue.
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Records on which poller a waiter is polled. If that changed, descriptors must be watched elsewhere.
    fn record_poll(&mut self, at: u64, poller: PollerId) {
        self.has_work |= self.watching_poller.is_some() && self.watching_poller != poller;
        let only = self.waiters.len() == 1;
        let Some(waiter) = self.waiters.get_mut(&at) else { return };
        let before = core::mem::replace(&mut waiter.poller, poller);
        if only {
            (self.home_poller, self.waiters_elsewhere) = (poller, 0);
        } else {
            self.waiters_elsewhere = self.waiters_elsewhere + usize::from(poller != self.home_poller)
                - usize::from(before != self.home_poller);
        }
    }

    fn remove(&mut self, at: u64) -> Option<Waiter> {
        let waiter = self.waiters.remove(&at)?;
        self.waiters_elsewhere -= usize::from(waiter.poller != self.home_poller);
        Some(waiter)
    }

    /// Selects at max `max` waiters to be woken, if there is work and no leader.
    fn select_wakers(&mut self, max: usize) -> Wakers {
        let mut chosen = [const { None }; MAX_WOKEN];
        if self.has_work && !self.has_leader {
            let asleep =
                self.waiters.values_mut().rev().filter(|waiter| !waiter.is_woken && !waiter.is_nested);
            for (slot, waiter) in chosen.iter_mut().take(max).zip(asleep) {
                waiter.is_woken = true;
                *slot = Some(waiter.waker.clone());
            }
        }
        chosen
    }
}

impl Wake for LeaderQueue {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = lock(&self.0);
        // If `has_work` was set before, waiters have been woken already: add one.
        let max = if core::mem::replace(&mut state.has_work, true) { 1 } else { MAX_WOKEN };
        let wakers = state.select_wakers(max);
        drop(state);
        wake_all(wakers);
    }
}

impl WaiterGuard {
    /// Creates a guard that does not wait yet. `wants_all_events` makes every event wake it.
    pub(super) const fn new(leader_queue: Arc<LeaderQueue>, wants_all_events: bool) -> Self {
        Self { leader_queue, ticket: None, wants_all_events }
    }

    /// Registers `waker`, and returns whether this task is the leader now. The leader must call
    /// [`LeaderQueue::end_turn`].
    ///
    /// Do not call it when an outcome is available.
    pub(super) fn try_lead(&mut self, waker: &Waker) -> bool {
        let poller = current_poller_id();
        let mut guard = lock(&self.leader_queue.0);
        let state = &mut *guard;
        let mut before = None;
        // A waiter that polls again becomes the latest one, and the next leader is searched from there.
        if let Some(at) = self.ticket.filter(|at| *at != state.last_ticket) {
            before = state.remove(at);
            self.ticket = None;
        }
        let at = *self.ticket.get_or_insert_with(|| {
            state.last_ticket += 1;
            state.last_ticket
        });
        let is_nested = state.has_leader && self.leader_queue.is_within_scope();
        let old = if let Some(waiter) = state.waiters.get_mut(&at) {
            (waiter.is_woken, waiter.is_nested) = (false, is_nested);
            replace_waker(&mut waiter.waker, waker)
        } else {
            let home_poller = state.home_poller;
            let mut own = before.map_or_else(|| waker.clone(), |before| before.waker);
            let old = replace_waker(&mut own, waker);
            state.waiters.insert(
                at,
                Waiter {
                    waker: own,
                    wants_all_events: self.wants_all_events,
                    is_woken: false,
                    is_nested,
                    poller: home_poller,
                },
            );
            old
        };
        state.record_poll(at, poller);
        let leads = state.has_work && !state.has_leader;
        if leads {
            (state.has_work, state.has_leader) = (false, true);
        }
        drop(guard);
        // After unlocking: dropping a waker may run code that uses this queue.
        drop(old);
        leads
    }

    /// Leaves the queue.
    pub(super) fn leave(&mut self) {
        let Some(at) = self.ticket.take() else { return };
        let mut state = lock(&self.leader_queue.0);
        let gone = state.remove(at);
        // The waiter may have been woken to lead, so others are woken in its place.
        let wakers = state.select_wakers(MAX_WOKEN);
        drop(state);
        wake_all(wakers);
        drop(gone);
    }
}

/// Replaces a waker unless it wakes the same task. Returns the old one.
fn replace_waker(current: &mut Waker, waker: &Waker) -> Option<Waker> {
    (!current.will_wake(waker)).then(|| core::mem::replace(current, waker.clone()))
}

impl Drop for WaiterGuard {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Number of waiters that are woken for one piece of work.
const MAX_WOKEN: usize = 3;

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Counts its wake-ups since the last reset.
    #[derive(Default)]
    struct CountingWaker(AtomicU32);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    struct LeaderTestTask {
        waiter: WaiterGuard,
        woken: Arc<CountingWaker>,
        is_leader: bool,
    }

    /// A xorshift generator.
    fn next_random(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }

    // Any order of waking, polling, driving and leaving keeps the invariant of `LeaderQueue`.
    #[test]
    fn leader_election_random_order_loses_no_wakeup() {
        for seed in 1..300_u64 {
            let mut seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let queue = Arc::new(LeaderQueue::default());
            let mut tasks: Vec<LeaderTestTask> = Vec::new();
            for _ in 0..200 {
                let which = next_random(&mut seed) as usize;
                match next_random(&mut seed) % 6 {
                    0 if tasks.len() < 5 => tasks.push(LeaderTestTask {
                        waiter: WaiterGuard::new(queue.clone(), false),
                        woken: Arc::default(),
                        is_leader: false,
                    }),
                    // An event: readiness, a command, a deadline.
                    1 | 2 => queue.wake_by_ref(),
                    // A task is polled, woken or not.
                    3 | 4 if !tasks.is_empty() => {
                        let at = which % tasks.len();
                        let task = &mut tasks[at];
                        task.woken.0.store(0, Ordering::SeqCst);
                        if task.is_leader {
                            task.is_leader = false;
                            queue.end_turn(0, false);
                        }
                        task.is_leader = task.waiter.try_lead(&Waker::from(task.woken.clone()));
                        assert!(tasks.iter().filter(|task| task.is_leader).count() <= 1);
                    }
                    // A task gets its outcome, or is dropped.
                    5 if !tasks.is_empty() => {
                        let at = which % tasks.len();
                        if tasks[at].is_leader {
                            queue.end_turn(0, false);
                        }
                        tasks.swap_remove(at);
                    }
                    _ => {}
                }
                let state = lock(&queue.0);
                let woken = tasks.iter().any(|task| task.woken.0.load(Ordering::SeqCst) > 0);
                // An active leader checks again at the end of its turn.
                let holds = woken || state.has_leader || !state.has_work || state.waiters.is_empty();
                assert!(holds, "{state:?}");
            }
        }
    }

    // Waiters that are never polled again do not prevent others from being woken.
    #[test]
    fn waiter_never_polled_again_does_not_block_others() {
        let queue = Arc::new(LeaderQueue::default());
        let (live, parked) = (Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default()));
        let mut waiter = WaiterGuard::new(queue.clone(), false);
        assert!(!waiter.try_lead(&Waker::from(live.clone())));
        let left: Vec<WaiterGuard> = (0..5)
            .map(|_| {
                let mut left = WaiterGuard::new(queue.clone(), false);
                assert!(!left.try_lead(&Waker::from(parked.clone())));
                left
            })
            .collect();
        // Each further event wakes one more waiter.
        for _ in 0..4 {
            queue.wake_by_ref();
        }
        assert_eq!(live.0.load(Ordering::SeqCst), 1);
        assert!(waiter.try_lead(&Waker::from(live.clone())));
        queue.end_turn(0, false);
        // From now on it is the latest waiter.
        queue.wake_by_ref();
        assert_eq!(live.0.load(Ordering::SeqCst), 2);
        drop(left);
    }

    // A nested waiter is never woken to lead.
    #[test]
    fn nested_waiter_is_never_woken_to_lead() {
        let queue = Arc::new(LeaderQueue::default());
        let (outer, inner) = (Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default()));
        let mut driver = WaiterGuard::new(queue.clone(), false);
        let mut parts: Vec<WaiterGuard> = (0..5).map(|_| WaiterGuard::new(queue.clone(), false)).collect();
        queue.wake_by_ref();
        assert!(driver.try_lead(&Waker::from(outer.clone())));
        {
            let _turn = LeaderScope::enter(&queue);
            // There is more work, but not for nested waiters.
            queue.wake_by_ref();
            assert!(!parts.iter_mut().any(|part| part.try_lead(&Waker::from(inner.clone()))));
        }
        queue.end_turn(0, false);
        assert!(driver.try_lead(&Waker::from(outer.clone())));
        queue.end_turn(0, false);
        queue.wake_by_ref();
        assert_eq!((outer.0.load(Ordering::SeqCst), inner.0.load(Ordering::SeqCst)), (1, 0));
        // Outside the scope it may lead like any other waiter.
        assert!(parts[0].try_lead(&Waker::from(inner.clone())));
    }

    #[test]
    fn watching_waiter_is_woken_by_every_event_and_all_by_end() {
        let queue = Arc::new(LeaderQueue::default());
        let (count, idle) = (Arc::new(CountingWaker::default()), Arc::new(CountingWaker::default()));
        let mut waiter = WaiterGuard::new(queue.clone(), true);
        let mut other = WaiterGuard::new(queue.clone(), false);
        assert!(!waiter.try_lead(&Waker::from(count.clone())) && !other.try_lead(&Waker::from(idle.clone())));
        queue.end_turn(1, false);
        queue.end_turn(1, false);
        assert_eq!((count.0.load(Ordering::SeqCst), idle.0.load(Ordering::SeqCst)), (1, 0));
        queue.end_turn(1, true);
        assert_eq!((count.0.load(Ordering::SeqCst), idle.0.load(Ordering::SeqCst)), (2, 1));
        assert!(queue.is_over());
    }
}
