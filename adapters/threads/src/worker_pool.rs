//! The worker threads that run handlers.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use mcp_std::sync::lock;
use std::thread;

use mcp_runtime::server::Cores;
use mcp_std::catch;

/// A bounded pool of threads, each of which runs one job at a time.
///
/// The pool starts a thread when a job waits, no thread is idle, and fewer than `max_threads` run. Dropping the pool
/// drops the jobs that wait. Each thread then ends after its current job; the drop does not wait for that.
pub(crate) struct WorkerPool<J>(Arc<PoolShared<J>>);

struct PoolShared<J> {
    state: Mutex<State<J>>,
    job_available: Condvar,
    max_threads: usize,
    /// Cores on which threads may run. They do not inherit the core of the thread that starts them.
    cores: Cores,
    work: Box<dyn Fn(J) + Send + Sync>,
}

struct State<J> {
    /// Jobs that wait for a thread.
    jobs: VecDeque<J>,
    /// Number of running threads.
    threads: usize,
    /// Number of threads that wait for a job.
    idle: usize,
    /// Number of idle threads that were notified and have not woken up yet.
    notified: usize,
    closed: bool,
}

impl<J: Send + 'static> WorkerPool<J> {
    /// Creates a pool without threads. At most `max_threads` run `work`, on any of these cores.
    pub(crate) fn new(max_threads: usize, cores: Cores, work: impl Fn(J) + Send + Sync + 'static) -> Self {
        let state = State { jobs: VecDeque::new(), threads: 0, idle: 0, notified: 0, closed: false };
        Self(Arc::new(PoolShared {
            state: Mutex::new(state),
            job_available: Condvar::new(),
            max_threads: max_threads.max(1),
            cores,
            work: Box::new(work),
        }))
    }

    /// Queues jobs, which start in this order as threads become free. Leaves `jobs` empty.
    pub(crate) fn submit(&self, jobs: &mut VecDeque<J>) {
        if jobs.is_empty() {
            return;
        }
        let mut state = lock(&self.0.state);
        state.jobs.append(jobs);
        PoolShared::wake_worker(&self.0, state);
    }
}

impl<J: Send + 'static> PoolShared<J> {
    /// Notifies or starts one more thread if jobs are queued. That thread in turn wakes the next.
    fn wake_worker(shared: &Arc<Self>, mut state: MutexGuard<'_, State<J>>) {
        if state.jobs.is_empty() || state.notified > 0 {
            return;
        }
        if state.idle > state.notified {
            state.notified += 1;
            drop(state);
            return shared.job_available.notify_one();
        }
        if state.threads >= shared.max_threads {
            return;
        }
        state.threads += 1;
        drop(state);
        let worker = shared.clone();
        if thread::Builder::new().name("mcp-worker".into()).spawn(move || Self::run_worker(&worker)).is_err()
        {
            // The system has no thread left: existing threads run the jobs, or this thread if there are none.
            let mut state = lock(&shared.state);
            state.threads -= 1;
            while let Some(job) = if state.threads == 0 { state.jobs.pop_front() } else { None } {
                drop(state);
                let _ = catch(|| (shared.work)(job));
                state = lock(&shared.state);
            }
        }
    }

    /// Runs jobs until the pool is closed.
    fn run_worker(shared: &Arc<Self>) {
        shared.cores.unpin_thread();
        let mut state = lock(&shared.state);
        while !state.closed {
            let Some(job) = state.jobs.pop_front() else {
                state.idle += 1;
                state = shared.job_available.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                // After a spurious wake-up the count is one too low. The only effect is one superfluous notification.
                state.notified = state.notified.saturating_sub(1);
                continue;
            };
            Self::wake_worker(shared, state);
            let _ = catch(|| (shared.work)(job));
            state = lock(&shared.state);
        }
        state.threads -= 1;
    }
}

impl<J> Drop for WorkerPool<J> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        let left = core::mem::take(&mut state.jobs);
        drop(state);
        self.0.job_available.notify_all();
        drop(left);
    }
}

impl<J> fmt::Debug for WorkerPool<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerPool").field("max_threads", &self.0.max_threads).finish_non_exhaustive()
    }
}
