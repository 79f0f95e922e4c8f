//! Threads that run the jobs of a bounded queue.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Condvar, Mutex, PoisonError};
use std::{io, thread};

use super::{Inbox, Sender, lock};
use crate::catch;

/// Threads that run jobs, and return an outcome for each.
///
/// Jobs begin in the order of their submission; with one thread they also end in it. The queue is bounded: while it is full,
/// the caller keeps the job and submits it later. One thread starts with the pool, and others when a job finds none idle;
/// these end after ten seconds without a job.
///
/// When the pool is dropped, its threads finish what is queued.
pub struct Workers<J, O> {
    jobs: Jobs<J, O>,
    outcomes: Inbox<O>,
    taken: VecDeque<O>,
    /// Disconnected when all threads have ended.
    ended: mpsc::Receiver<()>,
}

/// The submitting end of the queue; its drop ends the threads.
struct Jobs<J, O> {
    queue: Arc<JobQueue<J, O>>,
    /// Each thread has a clone.
    alive: mpsc::Sender<()>,
}

struct JobQueue<J, O> {
    name: &'static str,
    max_threads: usize,
    capacity: usize,
    state: Mutex<QueueState<J>>,
    /// Notified of a job, and of the end.
    changed: Condvar,
    outcomes: Sender<O>,
    run: Arc<dyn Fn(J) -> O + Send + Sync>,
}

struct QueueState<J> {
    waiting: VecDeque<J>,
    threads: usize,
    /// Number of threads that wait for a job.
    idle: usize,
    has_ended: bool,
}

impl<J: Send + 'static, O: Send + 'static> Workers<J, O> {
    /// Starts a pool of at most `threads` threads of this name, for which at most `capacity` jobs wait (at least 1 of each).
    ///
    /// `run` does a job. A panic in it is caught, and its job has no outcome.
    ///
    /// # Errors
    ///
    /// The error of the operating system if no thread can be started.
    pub fn start(
        name: &'static str,
        threads: usize,
        capacity: usize,
        run: impl Fn(J) -> O + Send + Sync + 'static,
    ) -> io::Result<Self> {
        // No more outcomes exist than jobs, and the caller takes them before it submits more.
        let outcomes = Inbox::new(usize::MAX);
        let (alive, ended) = mpsc::channel();
        let queue = Arc::new(JobQueue {
            name,
            max_threads: threads.max(1),
            capacity: capacity.max(1),
            state: Mutex::new(QueueState { waiting: VecDeque::new(), threads: 1, idle: 0, has_ended: false }),
            changed: Condvar::new(),
            outcomes: outcomes.sender(),
            run: Arc::new(run),
        });
        let jobs = Jobs { queue, alive };
        jobs.start_thread()?;
        Ok(Self { jobs, outcomes, taken: VecDeque::new(), ended })
    }

    /// Registers the waker that is woken when an outcome can be taken.
    pub fn register(&self, waker: &Waker) {
        self.outcomes.register(waker);
    }

    /// Submits a job.
    ///
    /// # Errors
    ///
    /// The job if the queue is full.
    pub fn submit(&self, job: J) -> Result<(), J> {
        let queue = &*self.jobs.queue;
        let mut state = lock(&queue.state);
        if state.waiting.len() >= queue.capacity {
            return Err(job);
        }
        state.waiting.push_back(job);
        // An idle thread that was notified takes one of those that wait.
        let starts = state.waiting.len() > state.idle && state.threads < queue.max_threads;
        state.threads += usize::from(starts);
        drop(state);
        queue.changed.notify_one();
        if starts && self.jobs.start_thread().is_err() {
            // The others run it later; one is always left.
            lock(&queue.state).threads -= 1;
        }
        Ok(())
    }

    /// Drops the jobs that have not begun and that `keeps` returns false for. They have no outcome.
    pub fn retain(&self, keeps: impl FnMut(&J) -> bool) {
        lock(&self.jobs.queue.state).waiting.retain(keeps);
    }

    /// Returns whether [`poll_outcome`](Self::poll_outcome) may have one. Costs less.
    #[must_use]
    pub fn has_outcome(&self) -> bool {
        !self.taken.is_empty() || !self.outcomes.is_empty()
    }

    /// Returns the next outcome, in the order in which jobs ended.
    pub fn poll_outcome(&mut self) -> Option<O> {
        if self.taken.is_empty() {
            self.outcomes.take(&mut self.taken);
        }
        self.taken.pop_front()
    }

    /// Waits up to `timeout` for the end of all submitted jobs, and ends the threads. Returns whether all have ended; what
    /// `run` owned is dropped then.
    ///
    /// Jobs that have not are finished if the process lives long enough.
    #[must_use]
    pub fn finish(self, timeout: Duration) -> bool {
        let Self { jobs, ended, .. } = self;
        drop(jobs);
        matches!(ended.recv_timeout(timeout), Err(RecvTimeoutError::Disconnected))
    }
}

impl<J: Send + 'static, O: Send + 'static> Jobs<J, O> {
    fn start_thread(&self) -> io::Result<()> {
        let (queue, alive) = (self.queue.clone(), self.alive.clone());
        let work = move || {
            // Dropped in reverse order: once the end is seen, what `run` owned is free.
            let _alive: mpsc::Sender<()> = alive;
            let queue = queue;
            while let Some(job) = queue.next_job() {
                if let Ok(outcome) = catch(|| (queue.run)(job)) {
                    // After the pool was dropped, its jobs are still done, and their outcomes are dropped.
                    let _ = queue.outcomes.send_unbounded(outcome);
                }
            }
        };
        thread::Builder::new().name(self.queue.name.into()).spawn(work).map(drop)
    }
}

impl<J, O> Drop for Jobs<J, O> {
    fn drop(&mut self) {
        lock(&self.queue.state).has_ended = true;
        self.queue.changed.notify_all();
    }
}

impl<J, O> JobQueue<J, O> {
    /// Waits for the next job; `None` if the thread is to end, and is not counted any more.
    fn next_job(&self) -> Option<J> {
        let mut state = lock(&self.state);
        let mut is_idle = false;
        loop {
            if let Some(job) = state.waiting.pop_front() {
                return Some(job);
            }
            if state.has_ended || (is_idle && state.threads > 1) {
                state.threads -= 1;
                return None;
            }
            state.idle += 1;
            let woken = self.changed.wait_timeout(state, IDLE_TIMEOUT);
            let (locked, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            state = locked;
            state.idle -= 1;
            is_idle = timeout.timed_out();
        }
    }
}

impl<J, O> fmt::Debug for Workers<J, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("name", &self.jobs.queue.name).finish_non_exhaustive()
    }
}

/// Time after which a thread without a job ends.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use std::sync::Barrier;
    use std::time::Instant;

    use super::*;

    fn outcomes<O: Send + 'static>(workers: &mut Workers<u32, O>, count: usize) -> Vec<O> {
        let begun = Instant::now();
        let mut all = Vec::new();
        while all.len() < count {
            all.extend(workers.poll_outcome());
            assert!(begun.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(1));
        }
        all
    }

    #[test]
    fn jobs_run_beside_each_other_and_start_as_many_threads_as_they_need() {
        // Each job ends when two others run.
        let barrier = Arc::new(Barrier::new(3));
        let wait = barrier.clone();
        let mut workers = Workers::start("test", 3, 8, move |job: u32| {
            wait.wait();
            (job, thread::current().id())
        })
        .unwrap();
        for _ in 0..2 {
            (0..3).for_each(|job| workers.submit(job).unwrap());
            let mut done = outcomes(&mut workers, 3);
            done.sort_by_key(|(job, _)| *job);
            assert_eq!(done.iter().map(|(job, _)| *job).collect::<Vec<_>>(), [0, 1, 2]);
            assert!(done[0].1 != done[1].1 && done[1].1 != done[2].1 && done[0].1 != done[2].1);
        }
        assert_eq!(lock(&workers.jobs.queue.state).threads, 3);
        assert!(workers.finish(Duration::from_secs(60)));
        // What `run` owned is free.
        assert_eq!(Arc::strong_count(&barrier), 1);
    }

    #[test]
    fn panic_of_a_job_ends_no_thread_and_jobs_outlive_the_pool() {
        let (sender, done) = mpsc::channel();
        let sender = Mutex::new(sender);
        let mut workers = Workers::start("test", 1, 2, move |job: u32| {
            assert!(job != 1, "a panic of the test");
            sender.lock().unwrap().send(job).unwrap();
            job
        })
        .unwrap();
        let mut submit = |mut job| {
            while let Err(refused) = workers.submit(job) {
                job = refused;
                thread::yield_now();
            }
        };
        (0..4).for_each(&mut submit);
        assert_eq!(outcomes(&mut workers, 3), [0, 2, 3]);
        workers.submit(4).unwrap();
        drop(workers);
        assert_eq!(done.iter().collect::<Vec<_>>(), [0, 2, 3, 4]);
    }
}
