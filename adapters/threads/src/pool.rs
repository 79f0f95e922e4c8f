//! Threads that wait for calls

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use mcp_std::{Cores, catch};

/// At most so many threads, each of which does one thing at a time
///
/// A thread is started when there is something to do and none is idle, and ends with the pool, or when what it does then
/// is done: nobody waits for it.
pub(crate) struct Pool<J>(Arc<Shared<J>>);

struct Shared<J> {
    state: Mutex<State<J>>,
    wanted: Condvar,
    most: usize,
    /// Where threads may be, whoever starts them
    cores: Cores,
    work: Box<dyn Fn(J) + Send + Sync>,
}

struct State<J> {
    jobs: VecDeque<J>,
    threads: usize,
    idle: usize,
    /// Those of the idle that were called and have not come yet
    called: usize,
    closed: bool,
}

impl<J: Send + 'static> Pool<J> {
    /// No thread yet; at most `most`, which do `work` on any of these cores
    pub(crate) fn new(most: usize, cores: Cores, work: impl Fn(J) + Send + Sync + 'static) -> Self {
        let state = State { jobs: VecDeque::new(), threads: 0, idle: 0, called: 0, closed: false };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            wanted: Condvar::new(),
            most: most.max(1),
            cores,
            work: Box::new(work),
        }))
    }

    /// Has jobs done, in this order as far as threads are free; `jobs` is empty afterwards
    pub(crate) fn give(&self, jobs: &mut VecDeque<J>) {
        if jobs.is_empty() {
            return;
        }
        let mut state = self.0.lock();
        state.jobs.append(jobs);
        Shared::call(&self.0, state);
    }
}

impl<J: Send + 'static> Shared<J> {
    fn lock(&self) -> MutexGuard<'_, State<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has one thread more look for jobs, if there are any left; that one calls the next
    fn call(shared: &Arc<Self>, mut state: MutexGuard<'_, State<J>>) {
        if state.jobs.is_empty() || state.called > 0 {
            return;
        }
        if state.idle > state.called {
            state.called += 1;
            drop(state);
            return shared.wanted.notify_one();
        }
        if state.threads >= shared.most {
            return;
        }
        state.threads += 1;
        drop(state);
        let worker = shared.clone();
        if thread::Builder::new().name("mcp-worker".into()).spawn(move || Self::run(&worker)).is_err() {
            // The system has no thread left: those that there are do it, or this one, if there is none.
            let mut state = shared.lock();
            state.threads -= 1;
            while let Some(job) = if state.threads == 0 { state.jobs.pop_front() } else { None } {
                drop(state);
                let _ = catch(|| (shared.work)(job));
                state = shared.lock();
            }
        }
    }

    /// What a thread does
    fn run(shared: &Arc<Self>) {
        shared.cores.roam();
        let mut state = shared.lock();
        while !state.closed {
            let Some(job) = state.jobs.pop_front() else {
                state.idle += 1;
                state = shared.wanted.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                // One that nobody called has one more called than need be.
                state.called = state.called.saturating_sub(1);
                continue;
            };
            Self::call(shared, state);
            let _ = catch(|| (shared.work)(job));
            state = shared.lock();
        }
        state.threads -= 1;
    }
}

impl<J> Drop for Pool<J> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        let left = core::mem::take(&mut state.jobs);
        drop(state);
        self.0.wanted.notify_all();
        drop(left);
    }
}

impl<J> fmt::Debug for Pool<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("most", &self.0.most).finish_non_exhaustive()
    }
}
