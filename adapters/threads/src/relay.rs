//! An event loop that two threads run in turns, so that fast handlers run without a hand-over.
//!
//! A hand-over to a worker and back is two switches of threads and four system calls, which is more than a fast handler
//! takes. While handlers are fast, the thread that runs the loop therefore runs them, too, and the other thread watches
//! it: if it sees the same handler at two [ticks](TICK), the watcher takes over the loop, and further handlers run on
//! workers. So a handler that blocks delays the others by two ticks at most, and only if those before it were fast. Two in
//! a row that return just before that make handlers slow, too.
//!
//! While there are few calls, the watcher sleeps, and handlers run on workers.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, PoisonError};

use mcp_std::sync::lock;
use std::time::Instant;
use std::{io, thread};

use mcp_runtime::Error;
use mcp_runtime::server as serve;
use mcp_runtime::server::RemoteCall;
use mcp_std::catch;
use mcp_std::io::Duplex;

use crate::handler::{Handler, SharedHandler};

/// The event loop of a server whose handlers run remotely.
pub(crate) trait EventLoop: Send + 'static {
    /// Waits for work, and does it. Returns `false` when the server has ended.
    fn turn(&mut self) -> Result<bool, Error>;

    /// Lets the outcomes of handlers wake nothing until the next turn, which does not wait.
    fn expect_outcomes(&mut self);
}

impl<D: Duplex + Send + 'static, H: Handler> EventLoop for serve::Server<D, SharedHandler<H>> {
    fn turn(&mut self) -> Result<bool, Error> {
        self.poll(LONGEST_TURN)
    }

    fn expect_outcomes(&mut self) {
        self.expect_messages();
    }
}

#[cfg(feature = "http")]
impl<H: Handler> EventLoop for serve::HttpServer<SharedHandler<H>> {
    fn turn(&mut self) -> Result<bool, Error> {
        self.poll(LONGEST_TURN)
    }

    fn expect_outcomes(&mut self) {
        self.expect_messages();
    }
}

/// Runs an event loop to its end: on this thread, or on two of its own from when it has many calls with fast handlers.
pub(crate) fn run<L: EventLoop>(mut event_loop: L, calls: &Arc<LoopCalls>) -> Result<(), Error> {
    let mut may_start_threads = true;
    while event_loop.turn()? {
        if may_start_threads && calls.wants_threads() {
            match Relay::start(event_loop, calls) {
                Ok(()) => return calls.wait_for_end(),
                // The system has no thread left.
                Err(unstarted) => event_loop = unstarted,
            }
            may_start_threads = false;
        }
    }
    Ok(())
}

/// An event loop and its two threads. The one that runs it is its leader; the other one watches.
struct Relay<L> {
    /// Locked by the leader, except while it runs a handler. `None` after the end.
    event_loop: Mutex<Option<L>>,
    calls: Arc<LoopCalls>,
}

impl<L: EventLoop> Relay<L> {
    /// Starts the threads, or returns the loop if that is not possible.
    fn start(event_loop: L, calls: &Arc<LoopCalls>) -> Result<(), L> {
        let relay = Arc::new(Self { event_loop: Mutex::new(Some(event_loop)), calls: calls.clone() });
        let started = Self::spawn(&relay, false).and_then(|()| Self::spawn(&relay, true));
        if started.is_err() {
            // Ends the thread that was started.
            calls.end(Ok(Ok(())));
            if let Some(event_loop) = lock(&relay.event_loop).take() {
                return Err(event_loop);
            }
        }
        Ok(())
    }

    fn spawn(relay: &Arc<Self>, is_leader: bool) -> io::Result<()> {
        let relay = relay.clone();
        thread::Builder::new().name("mcp-loop".into()).spawn(move || {
            let mut leads = is_leader;
            let served = catch_unwind(AssertUnwindSafe(|| {
                while leads || relay.calls.watch() {
                    // Relieved, it watches in its turn. After the end `watch` returns `false`.
                    relay.lead();
                    leads = false;
                }
            }));
            if let Err(panic) = served {
                // Streams end now, not with a handler that may never return on the other thread.
                let _ = catch(|| drop(lock(&relay.event_loop).take()));
                relay.calls.end(Err(panic));
            }
        })?;
        Ok(())
    }

    /// Runs the loop and fast handlers, until this thread is relieved or the server has ended.
    fn lead(&self) {
        loop {
            let mut guard = lock(&self.event_loop);
            let Some(event_loop) = &mut *guard else { return };
            match event_loop.turn() {
                Ok(true) => {}
                ended => {
                    *guard = None;
                    return self.calls.end(Ok(ended.map(drop)));
                }
            }
            if self.calls.has_kept() {
                event_loop.expect_outcomes();
                drop(guard);
                if !self.calls.run_kept() {
                    return;
                }
            }
        }
    }
}

/// Where the handlers of a loop's calls run, and which of its threads leads.
pub(crate) struct LoopCalls {
    /// Runs the handler of a call.
    work: Box<dyn Fn(RemoteCall) + Send + Sync>,
    pace: Pace,
    /// How fast the last handlers were, up to [`HIGHEST_SCORE`].
    score: AtomicU32,
    /// Calls whose handlers the leader runs after its turn.
    kept: Mutex<VecDeque<RemoteCall>>,
    /// Number of starts and ends of handlers on the leader: odd while one runs there.
    runs: AtomicU64,
    /// Whether the watcher looks at `runs` with each tick.
    is_watched: AtomicBool,
    state: Mutex<State>,
    /// Notified when the watcher is to look, and when the server has ended.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Whether there is a thread that can watch.
    has_watcher: bool,
    /// Whether threads for the loop are worth their price.
    wants_threads: bool,
    has_ended: bool,
    /// How the loop ended, until it is taken: its result, or a panic.
    outcome: Option<thread::Result<Result<(), Error>>>,
    rate: CallRate,
}

/// The number of calls in the current [`RATE_WINDOW`].
#[derive(Default)]
struct CallRate {
    since: Option<Instant>,
    calls: usize,
}

impl CallRate {
    /// Counts calls, and returns whether there are so many that watching handlers costs less than handing them over.
    fn count(&mut self, calls: usize, pace: &Pace) -> bool {
        let now = Instant::now();
        if self.since.is_none_or(|since| now.saturating_duration_since(since) > RATE_WINDOW) {
            *self = Self { since: Some(now), calls: 0 };
        }
        self.calls += calls;
        self.calls >= pace.busy_calls
    }
}

impl LoopCalls {
    /// Creates the state of a loop whose handlers are run by `work`.
    pub(crate) fn new(pace: Pace, work: impl Fn(RemoteCall) + Send + Sync + 'static) -> Self {
        Self {
            work: Box::new(work),
            pace,
            score: AtomicU32::new(0),
            kept: Mutex::default(),
            runs: AtomicU64::new(0),
            is_watched: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Runs the handler of a call on this thread, and notes how long it takes.
    pub(crate) fn run(&self, call: RemoteCall) {
        let begun = Instant::now();
        (self.work)(call);
        self.note(begun.elapsed());
    }

    fn note(&self, time: Duration) {
        let score = self.score.load(Ordering::Relaxed);
        let next = if time <= self.pace.fast {
            (score + 1).min(HIGHEST_SCORE)
        } else {
            // On the loop's thread it delays all others, which as many fast ones have to be worth. Bounded, because one slow
            // handler in many is as often an interrupted one.
            let penalty = time.as_nanos() * PENALTY_OF_FAST / self.pace.fast.as_nanos().max(1);
            score.saturating_sub(
                u32::try_from(penalty).map_or(MAX_PENALTY, |penalty| penalty.min(MAX_PENALTY)),
            )
        };
        if next != score {
            // Workers may note at the same time; one that is lost matters little.
            self.score.store(next, Ordering::Relaxed);
        }
    }

    fn are_handlers_fast(&self) -> bool {
        self.score.load(Ordering::Relaxed) >= self.pace.fast_score
    }

    /// Keeps new calls for the leader, or leaves those that workers have to run.
    pub(crate) fn keep(&self, new_calls: &mut VecDeque<RemoteCall>) {
        let mut kept = lock(&self.kept);
        if self.are_handlers_fast() {
            if self.is_watched.load(Ordering::Relaxed) {
                return kept.append(new_calls);
            }
            if !new_calls.is_empty() {
                self.call_watcher(new_calls.len());
            }
        }
        // Workers run those that were kept, too, and before the new ones.
        if !kept.is_empty() {
            kept.append(new_calls);
            core::mem::swap(&mut *kept, new_calls);
        }
    }

    /// Has handlers watched from now on, if there are enough calls.
    fn call_watcher(&self, new_calls: usize) {
        let mut state = lock(&self.state);
        if state.rate.count(new_calls, &self.pace) {
            state.wants_threads = true;
            // If the second thread could not be started, the first one has ended, and handlers run on workers only.
            if state.has_watcher && !state.has_ended {
                self.is_watched.store(true, Ordering::SeqCst);
                self.changed.notify_all();
            }
        }
    }

    fn wants_threads(&self) -> bool {
        self.are_handlers_fast() && lock(&self.state).wants_threads
    }

    fn has_kept(&self) -> bool {
        !lock(&self.kept).is_empty()
    }

    /// Runs handlers on this thread, the leader. Returns `false` if it was relieved meanwhile.
    ///
    /// Calls are left if handlers are no longer fast or watched. The next turn gives them to workers.
    fn run_kept(&self) -> bool {
        while self.are_handlers_fast() {
            let Some(call) = lock(&self.kept).pop_front() else { break };
            let run = self.begin_run();
            if !self.may_run(run) {
                lock(&self.kept).push_front(call);
                break;
            }
            // As on a worker: a panic outside of the handler, for example in the drop of a value, ends nothing else.
            let _ = catch(|| self.run(call));
            if !self.end_run(run) {
                return false;
            }
        }
        true
    }

    /// Announces a handler on the leader, and returns its number.
    fn begin_run(&self) -> u64 {
        // The leader alone changes an even number.
        let run = self.runs.load(Ordering::Relaxed) + 1;
        self.runs.store(run, Ordering::SeqCst);
        run
    }

    /// Returns whether the announced handler is to run. Otherwise it has ended.
    fn may_run(&self, run: u64) -> bool {
        // In one order with the two accesses of `stop_watching`: the watcher sees the handler, or it is not begun. If this
        // thread was interrupted since the announcement, it may be relieved, and still has to run the call: the new leader
        // does not know it.
        self.is_watched.load(Ordering::SeqCst) || !self.end_run(run)
    }

    /// Ends a handler. Returns `false` if its thread was relieved meanwhile.
    fn end_run(&self, run: u64) -> bool {
        self.runs.compare_exchange(run, run + 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Watches the leader until this thread is the leader. Returns `false` if the server has ended.
    fn watch(&self) -> bool {
        let mut state = lock(&self.state);
        state.has_watcher = true;
        let (mut seen, mut at_window, mut ticks) = (0, 0, 0);
        while !state.has_ended {
            if !self.is_watched.load(Ordering::SeqCst) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                // The number at the beginning does not count as seen.
                (seen, at_window, ticks) = (0, self.runs.load(Ordering::SeqCst), 0);
                continue;
            }
            state = self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
            let runs = self.runs.load(Ordering::SeqCst);
            if runs % 2 == 1 && runs == seen && self.relieve(runs) {
                state.has_watcher = false;
                return true;
            }
            seen = runs;
            ticks += 1;
            if ticks == TICKS_OF_WINDOW {
                if runs.saturating_sub(at_window) / 2 < self.pace.busy_calls as u64 {
                    self.stop_watching();
                }
                (at_window, ticks) = (runs, 0);
            }
        }
        false
    }

    /// Makes the caller, the watcher, the leader. Returns `false` if the handler has ended meanwhile.
    fn relieve(&self, run: u64) -> bool {
        let is_leader = self.end_run(run);
        if is_leader {
            // The other thread can watch only when its handler has returned.
            self.is_watched.store(false, Ordering::SeqCst);
            self.score.store(0, Ordering::Relaxed);
        }
        is_leader
    }

    /// Ends the looks, unless a handler runs that was begun because of them.
    fn stop_watching(&self) {
        self.is_watched.store(false, Ordering::SeqCst);
        if self.runs.load(Ordering::SeqCst) % 2 == 1 {
            self.is_watched.store(true, Ordering::SeqCst);
        }
    }

    fn end(&self, outcome: thread::Result<Result<(), Error>>) {
        // Nobody runs them any more, and a handler that never returns holds this object.
        let _ = catch(|| drop(core::mem::take(&mut *lock(&self.kept))));
        let mut state = lock(&self.state);
        state.has_ended = true;
        state.outcome.get_or_insert(outcome);
        self.changed.notify_all();
    }

    fn wait_for_end(&self) -> Result<(), Error> {
        let mut state = lock(&self.state);
        loop {
            match state.outcome.take() {
                Some(Ok(result)) => return result,
                Some(Err(panic)) => {
                    drop(state);
                    resume_unwind(panic)
                }
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl fmt::Debug for LoopCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopCalls").field("score", &self.score).finish_non_exhaustive()
    }
}

/// When handlers run on the thread of the loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Longest time of a handler that is worth no hand-over.
    pub(crate) fast: Duration,
    /// Score from which on handlers count as fast.
    pub(crate) fast_score: u32,
    /// Calls in a [`RATE_WINDOW`] from which on looks at each tick cost less than hand-overs.
    pub(crate) busy_calls: usize,
}

impl Pace {
    pub(crate) const DEFAULT: Self =
        Self { fast: Duration::from_micros(20), fast_score: 128, busy_calls: 16 };
}

/// At this score one slow handler leaves handlers fast, and two in a row do not.
const HIGHEST_SCORE: u32 = 256;
/// A slow handler lowers the score by this number for each [`Pace::fast`] of its time. A fast one raises it by 1, because it
/// saves a hand-over, which costs about a quarter of [`Pace::fast`].
const PENALTY_OF_FAST: u128 = 4;
/// The most that one handler takes from the score.
const MAX_PENALTY: u32 = 128;
/// Interval of the watcher's looks: a handler that is seen twice is slow.
const TICK: Duration = Duration::from_millis(1);
/// Time in which calls are counted.
const RATE_WINDOW: Duration = Duration::from_millis(10);
/// Number of ticks in a [`RATE_WINDOW`].
const TICKS_OF_WINDOW: u32 = 10;
/// No turn has to end, but the servers have none without a timeout.
const LONGEST_TURN: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod tests;
