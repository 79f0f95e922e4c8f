//! A shard: one engine, its handlers, and those who wait for it. It is driven by those who poll (DESIGN-52).

mod core;
mod exchange;
mod handlers;
mod host;
mod sleepers;
mod waiting;

use ::core::cell::Cell;
use ::core::fmt;
use ::core::ops::{Deref, DerefMut};
use ::core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use ::core::task::Waker;
#[cfg(feature = "tokio")]
use ::core::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::task::Wake;
use alloc::vec::Vec;
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, TryLockError};

use mcp_std::sync::lock;

use mcp_proto::Instant;
use mcp_proto::http::server::{self as http, ExchangeId};
use mcp_runtime::Error;
use mcp_runtime::server::{
    ChangeSet, CommandSender, Dispatcher, RemoteCall, ShareSessions, StartTimer, TokenOutcome, TokenWorkers,
};

use self::core::{Core, Outcome};
use self::handlers::{Handlers, Phase, WakeTarget};
use self::host::Host;
use self::sleepers::Sleepers;
use self::waiting::Waiting;
use crate::Timer;
use crate::handler::Application;

pub(crate) use self::exchange::{Exchange, Piece, RequestState, ResponseBody};
pub(crate) use self::handlers::{Home, Poller};
pub(crate) use self::sleepers::ShardSleep;
pub(crate) use self::waiting::Waiter;

/// Input of a shard that does not wait for its engine.
#[derive(Default)]
struct Inbox {
    /// Exchanges that were dropped.
    gone: Vec<ExchangeId>,
    /// Tokens that were decided about on threads.
    decided: Vec<(ExchangeId, TokenOutcome)>,
    /// Changes that other shards published.
    changes: Option<ChangeSet>,
}

/// One engine with everything that belongs to it.
///
/// No other code runs while `core` is locked but the callbacks of the application; those must not wait for the shard.
/// The other mutexes are held for single operations.
pub(crate) struct Shard {
    this: Weak<Self>,
    core: Mutex<Core>,
    application: Arc<dyn Application>,
    handlers: Handlers,
    waiting: Mutex<Waiting>,
    sleepers: Sleepers,
    inbox: Mutex<Inbox>,
    /// Whether there may be something in `inbox`.
    has_input: AtomicBool,
    /// Whether the service was shut down.
    is_shutting_down: AtomicBool,
    /// Whether the drivers were told that it is over.
    has_told_drivers: AtomicBool,
    /// Whether there may be work that no pass has begun with.
    has_work: AtomicBool,
    /// Whether there is a [`TemporaryDriver`].
    #[cfg(feature = "tokio")]
    has_temporary_driver: AtomicBool,
    /// The number of exchanges that callers hold.
    open: AtomicUsize,
    timer: Arc<dyn Timer>,
    start_timer: StartTimer,
    /// Whether the timer of the host has fired.
    timer_fired: AtomicBool,
    timer_waker: Waker,
    commands: CommandSender,
    others: OnceLock<Vec<Weak<Self>>>,
}

impl Shard {
    pub(crate) fn new(
        mut server: http::Server,
        application: Arc<dyn Application>,
        timer: Arc<dyn Timer>,
        max_running: usize,
        (index, all): (u8, u8),
    ) -> Arc<Self> {
        if all > 1 {
            server.set_shard(index, all);
        }
        Arc::new_cyclic(|this: &Weak<Self>| {
            let dispatcher = Dispatcher::new(max_running);
            let waker = ShardWaker::waker(this, false);
            dispatcher.register(&waker);
            let commands = dispatcher.commands();
            let mut host = Host::new(server, timer.clone());
            host.is_sharded = all > 1;
            let sleeper = this.clone();
            let timer_waker = ShardWaker::waker(this, true);
            Self {
                this: this.clone(),
                core: Mutex::new(Core::new(host, dispatcher, application.clone(), timer.clone())),
                application,
                handlers: Handlers::default(),
                waiting: Mutex::default(),
                sleepers: Sleepers::new(),
                inbox: Mutex::default(),
                has_input: AtomicBool::new(false),
                is_shutting_down: AtomicBool::new(false),
                has_told_drivers: AtomicBool::new(false),
                has_work: AtomicBool::new(false),
                #[cfg(feature = "tokio")]
                has_temporary_driver: AtomicBool::new(false),
                open: AtomicUsize::new(0),
                timer,
                start_timer: StartTimer::Shared(Arc::new(move |duration| {
                    Box::pin(ShardSleep::new(&sleeper, duration))
                })),
                timer_fired: AtomicBool::new(false),
                timer_waker,
                commands,
                others: OnceLock::new(),
            }
        })
    }

    /// Registers the tools, and takes what the application gives to its loops. Returns whether there are tasks.
    pub(crate) fn prepare(&self, tokens: Option<&TokenWorkers>) -> Result<bool, Error> {
        let core = &mut *self.core();
        let application = core.application.clone();
        core.host.register_tools(&*application)?;
        if let Some(tokens) = tokens {
            core.set_tokens(tokens.clone());
        }
        core.attach()
    }

    /// Shares the sessions with other processes.
    pub(crate) fn share_sessions(&self, start: &StartSharing) -> io::Result<()> {
        let host = &mut self.core().host;
        let sharing = start(&mut host.server)?;
        sharing.register(&ShardWaker::waker(&self.this, false));
        if !host.repeatable_tools.is_empty() {
            host.server.shared_sessions().set_repeatable_tools(host.repeatable_tools.iter().cloned());
        }
        host.sharing = Some(sharing);
        Ok(())
    }

    /// Sets the other shards of the service.
    pub(crate) fn set_others(&self, others: Vec<Weak<Self>>) {
        let _ = self.others.set(others);
    }

    pub(crate) fn commands(&self) -> CommandSender {
        self.commands.clone()
    }

    pub(crate) fn now(&self) -> Instant {
        host::now(&*self.timer)
    }

    /// Returns whether the service was shut down, and all work is done or aborted.
    pub(crate) fn is_over(&self) -> bool {
        let core = &mut *self.core();
        let is_idle = self.open.load(SeqCst) == 0
            && self.handlers.len() == 0
            && core.dispatcher.running_count() == 0
            && core.dispatcher.running_tasks() == 0;
        let is_over = core.host.shutdown_deadline.is_some() && (core.is_aborted || is_idle);
        if is_over {
            core.finish_tasks();
        }
        is_over
    }

    /// Tells those who await the end that there is nothing left, once.
    fn tell_drivers_if_over(&self) {
        if self.is_shutting_down.load(SeqCst) && self.is_over() && !self.has_told_drivers.swap(true, SeqCst) {
            let drivers = lock(&self.waiting).take_drivers();
            drivers.into_iter().for_each(Waker::wake);
        }
    }

    /// Locks the engine. What this thread reports meanwhile is left to those who poll.
    fn core(&self) -> CoreGuard<'_> {
        CoreGuard { core: lock(&self.core), _scope: TurnScope::enter(self, None) }
    }

    /// As [`core`](Self::core), unless another thread or a callback of this one has the engine.
    fn try_core(&self) -> Option<CoreGuard<'_>> {
        let core = match self.core.try_lock() {
            Ok(core) => core,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(CoreGuard { core, _scope: TurnScope::enter(self, None) })
    }

    /// Adds input for the next pass.
    fn add_input(&self, add: impl FnOnce(&mut Inbox)) {
        let mut inbox = lock(&self.inbox);
        add(&mut inbox);
        self.has_input.store(true, SeqCst);
    }

    /// Takes the input, if there is any.
    fn take_input(&self) -> Option<Inbox> {
        self.has_input.load(SeqCst).then(|| {
            let mut inbox = lock(&self.inbox);
            self.has_input.store(false, SeqCst);
            ::core::mem::take(&mut *inbox)
        })
    }

    // ---- driving ---------------------------------------------------------------------------------------------

    /// Does the work that is there, and polls the handlers that `poller` is to poll. Returns whether there is more.
    pub(crate) fn turn(&self, poller: Poller<'_>) -> bool {
        let _scope = TurnScope::enter(self, Some(poller));
        for _ in 0..MAX_TURNS {
            self.has_work.swap(false, SeqCst);
            let outcome = self.core().pass(self, Some(poller));
            let mut calls = self.finish_pass(outcome);
            let has_ended = self.handlers.end_cancelled();
            // Those of others first: they do not wait for what a handler of this one does.
            calls.sort_by_key(|call| poller.is_home_of(call));
            let others = calls.partition_point(|call| !poller.is_home_of(call));
            let own = if others == 0 { ::core::mem::take(&mut calls) } else { calls.split_off(others) };
            let has_started = others > 0 || !own.is_empty();
            calls.into_iter().for_each(|call| self.start(call, poller));
            let has_polled = self.handlers.poll_woken(poller);
            // Last: each handler is polled once between two passes.
            own.into_iter().for_each(|call| self.start(call, poller));
            if !has_polled && !has_started && !has_ended && !self.has_work_for(poller) {
                self.tell_drivers_if_over();
                self.end_temporary_driver();
                if self.handlers.has_woken(Poller::Driver) {
                    // A driver may have ended with its runtime.
                    self.ensure_driver();
                }
                return false;
            }
        }
        // A handler may wait for its next turn, though another thread has done all other work.
        self.has_work.store(true, SeqCst);
        true
    }

    /// Returns whether the shard has work that no turn has begun with, or `poller` a handler.
    pub(crate) fn has_work_for(&self, poller: Poller<'_>) -> bool {
        self.has_work.load(SeqCst) || self.handlers.has_woken(poller)
    }

    /// Starts the handler of a call, and polls it if `poller` is to do that; otherwise has it polled.
    fn start(&self, call: RemoteCall, poller: Poller<'_>) {
        let is_here = poller.is_home_of(&call);
        let running = call.running().clone();
        let home = running.call().extension::<Arc<Home>>().cloned();
        let future = self.application.clone().start(call, self.start_timer.clone());
        let target = self.handlers.start(&self.this, &running, future, home, is_here);
        self.ensure_driver();
        if let Some(target) = target {
            self.wake_for_handler(target);
        }
    }

    /// Does the work that needs no handler, for commands and destructors. Others are woken for the rest.
    pub(crate) fn settle(&self) {
        self.has_work.store(true, SeqCst);
        if TurnScope::is_inside(self) {
            // A callback or a handler of this shard: the turn around it goes on with the work.
            return;
        }
        let scope = TurnScope::enter(self, None);
        self.has_work.swap(false, SeqCst);
        let outcome = {
            let mut core = self.core();
            let outcome = core.pass(self, None);
            if core.dispatcher.has_waiting() {
                // Whoever polls next starts the calls for which there may be room now.
                self.has_work.store(true, SeqCst);
            }
            outcome
        };
        self.finish_pass(outcome);
        self.handlers.end_cancelled();
        drop(scope);
        self.tell_drivers_if_over();
        self.end_temporary_driver();
        if self.has_work.load(SeqCst) {
            self.wake(None);
        }
    }

    /// Does what follows a pass, without the mutex. Returns the calls to start.
    fn finish_pass(&self, outcome: Outcome) -> Vec<RemoteCall> {
        outcome.wakers.into_iter().for_each(Waker::wake);
        let others = self.others.get().into_iter().flatten().filter_map(Weak::upgrade);
        if outcome.unshared.is_some() || outcome.unshared_shutdown.is_some() {
            for other in others {
                if let Some(changes) = &outcome.unshared {
                    other.add_input(|inbox| inbox.changes.get_or_insert_default().merge(changes));
                }
                if let Some(grace) = outcome.unshared_shutdown {
                    let _ = other.commands.send_unbounded(move |server| server.shutdown(grace));
                }
                other.wake(None);
            }
        }
        outcome.calls
    }

    /// Reports work. Somebody who waits is woken for it, unless this thread does it anyway.
    fn wake(&self, exchange: Option<usize>) {
        self.has_work.store(true, SeqCst);
        if TurnScope::is_inside(self) {
            return;
        }
        let waker = lock(&self.waiting).pick(exchange);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Reports that a deadline has passed: to a driver, or else to all, for one alone might not be polled.
    fn wake_for_timer(&self) {
        self.timer_fired.store(true, SeqCst);
        self.has_work.store(true, SeqCst);
        if TurnScope::is_inside(self) {
            return;
        }
        let wakers = lock(&self.waiting).take_for_timer();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Lets somebody wait, who looks for [work](Self::has_work_for) afterwards.
    pub(crate) fn wait(&self, waiter: Waiter, waker: &Waker) {
        let previous = {
            let mut waiting = lock(&self.waiting);
            let previous = waiting.remove(waiter);
            waiting.insert(waiter, waker);
            previous
        };
        drop(previous);
    }

    /// Wakes whoever is to poll a handler, unless this thread does it anyway.
    fn wake_for_handler(&self, target: WakeTarget) {
        if TurnScope::polls(self, target) {
            return;
        }
        let waker = match target {
            WakeTarget::Anybody => return self.wake(None),
            WakeTarget::Exchange(index) => lock(&self.waiting).remove_exchange(index),
            WakeTarget::Driver => lock(&self.waiting).take_driver(),
        };
        match waker {
            Some(waker) => waker.wake(),
            None if target == WakeTarget::Driver => self.ensure_driver(),
            None => {}
        }
    }

    // ---- drivers ---------------------------------------------------------------------------------------------

    /// Adds somebody who drives the shard between requests.
    pub(crate) fn add_driver(&self) -> u64 {
        let mut waiting = lock(&self.waiting);
        let number = waiting.add_driver();
        // The new driver looks at once, so there is nobody to wake.
        drop(self.handlers.set_driver(true));
        drop(waiting);
        number
    }

    /// Removes what [`add_driver`](Self::add_driver) has added. Unless `may_spawn`, it gets no successor now.
    pub(crate) fn remove_driver(&self, number: u64, may_spawn: bool) {
        let mut waiting = lock(&self.waiting);
        let is_last = waiting.remove_driver();
        let targets = if is_last { self.handlers.set_driver(false) } else { Vec::new() };
        drop(waiting);
        let is_served = |target: &WakeTarget| *target != WakeTarget::Driver;
        targets.into_iter().filter(is_served).for_each(|target| self.wake_for_handler(target));
        let waker = lock(&self.waiting).remove(Waiter::Driver(number));
        drop(waker);
        self.pass_on();
        // It may have been woken for a handler.
        if (may_spawn || !is_last) && self.handlers.has_woken(Poller::Driver) {
            self.wake_for_handler(WakeTarget::Driver);
        }
    }

    /// Spawns a driver if handlers need one, there is none, and this is a task of tokio.
    pub(crate) fn ensure_driver(&self) {
        #[cfg(feature = "tokio")]
        if self.handlers.fostered() > 0 && !lock(&self.waiting).has_driver() {
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                if let Some(driver) = TemporaryDriver::new(&self.this) {
                    runtime.spawn(driver);
                }
            }
        }
    }

    /// Wakes a temporary driver that has nothing to do any more, so that it ends.
    fn end_temporary_driver(&self) {
        #[cfg(feature = "tokio")]
        if self.has_temporary_driver.load(SeqCst) && self.handlers.fostered() == 0 {
            let drivers = lock(&self.waiting).take_drivers();
            drivers.into_iter().for_each(Waker::wake);
        }
    }

    /// Moves a request to its next phase, and has the handlers polled that go on.
    fn advance(&self, home: &Home, phase: Phase) {
        if self.handlers.advance(home, phase) {
            self.ensure_driver();
            if self.handlers.has_woken(Poller::Driver) {
                self.wake_for_handler(WakeTarget::Driver);
            }
        }
    }

    /// Passes on what somebody may have been woken for who does not wait any more.
    fn pass_on(&self) {
        if self.has_work.load(SeqCst) {
            self.wake(None);
        }
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard").field("open", &self.open).finish_non_exhaustive()
    }
}

/// Drives a shard as long as it has handlers that no response polls. It keeps neither the shard nor its runtime alive.
#[cfg(feature = "tokio")]
struct TemporaryDriver {
    shard: Weak<Shard>,
    number: u64,
    has_ended: bool,
}

#[cfg(feature = "tokio")]
impl TemporaryDriver {
    /// Creates one, unless there is one.
    fn new(shard: &Weak<Shard>) -> Option<Self> {
        let alive = shard.upgrade()?;
        if alive.has_temporary_driver.swap(true, SeqCst) {
            return None;
        }
        Some(Self { shard: shard.clone(), number: alive.add_driver(), has_ended: false })
    }
}

#[cfg(feature = "tokio")]
impl Future for TemporaryDriver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(shard) = self.shard.upgrade() else { return Poll::Ready(()) };
        shard.turn(Poller::Driver);
        if shard.handlers.fostered() == 0 {
            self.has_ended = true;
            return Poll::Ready(());
        }
        shard.wait(Waiter::Driver(self.number), cx.waker());
        if shard.has_work_for(Poller::Driver) || shard.handlers.fostered() == 0 {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

#[cfg(feature = "tokio")]
impl Drop for TemporaryDriver {
    fn drop(&mut self) {
        let Some(shard) = self.shard.upgrade() else { return };
        shard.has_temporary_driver.store(false, SeqCst);
        // Not if its runtime has ended, which would drop the next one at once.
        shard.remove_driver(self.number, self.has_ended);
        if self.has_ended {
            shard.ensure_driver();
        }
    }
}

/// Wakes one of those who wait for a shard, or notes that the timer of the host has fired.
struct ShardWaker {
    shard: Weak<Shard>,
    is_timer: bool,
}

impl ShardWaker {
    fn waker(shard: &Weak<Shard>, is_timer: bool) -> Waker {
        Waker::from(Arc::new(Self { shard: shard.clone(), is_timer }))
    }
}

impl Wake for ShardWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match self.shard.upgrade() {
            Some(shard) if self.is_timer => shard.wake_for_timer(),
            Some(shard) => shard.wake(None),
            None => {}
        }
    }
}

/// Starts to share the sessions of a server.
pub(crate) type StartSharing =
    Box<dyn Fn(&mut http::Server) -> io::Result<Box<dyn ShareSessions>> + Send + Sync>;

std::thread_local! {
    /// The shard that this thread drives, which looks for new work before it stops, and the handlers that it polls: none, or
    /// those for which this target would be woken.
    static DRIVEN: Cell<(usize, Option<WakeTarget>)> = const { Cell::new((0, None)) };
}

/// Marks a shard as driven by this thread.
struct TurnScope((usize, Option<WakeTarget>));

impl TurnScope {
    fn enter(shard: &Shard, poller: Option<Poller<'_>>) -> Self {
        let target = poller.map(Poller::wake_target);
        Self(DRIVEN.replace((::core::ptr::from_ref(shard).addr(), target)))
    }

    fn is_inside(shard: &Shard) -> bool {
        DRIVEN.get().0 == ::core::ptr::from_ref(shard).addr()
    }

    /// Returns whether this thread polls the handlers for which `target` would be woken.
    fn polls(shard: &Shard, target: WakeTarget) -> bool {
        DRIVEN.get() == (::core::ptr::from_ref(shard).addr(), Some(target))
    }
}

/// The engine of a shard, locked by this thread.
struct CoreGuard<'a> {
    // Unlocked before the scope ends.
    core: MutexGuard<'a, Core>,
    _scope: TurnScope,
}

impl Deref for CoreGuard<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for CoreGuard<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}

impl Drop for TurnScope {
    fn drop(&mut self) {
        DRIVEN.set(self.0);
    }
}

pub(crate) use self::host::now as instant;

/// Rounds after which a poll returns to its executor.
const MAX_TURNS: usize = 16;
