//! Queues, wakers and containers that event loops share with other threads and tasks.

mod inbox;
mod wakers;
mod workers;

pub use inbox::{Inbox, SendError, Sender};
pub use wakers::{CoalescingWaker, FlagWaker, IndexedWaker};
pub use workers::Workers;

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use std::{io, thread};

/// Locks a mutex, ignoring poison. Only for state that stays consistent if a holder panics.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// Work that may block its thread, away from the threads that poll futures.

/// Work that may block its thread.
pub type BlockingJob = Box<dyn FnOnce() + Send>;

/// The threads on which an adapter runs work that may block.
pub trait BlockingPool {
    /// Runs `job` soon, on a thread that may block. It returns without waiting for that.
    ///
    /// A pool that shuts down may drop the job instead.
    fn run_blocking(job: BlockingJob);
}

/// Runs `job` on a thread of its own; on this thread, before it returns, if the system has no thread.
pub fn run_on_thread(job: BlockingJob) {
    // The closure of a thread that cannot be started is dropped, so the job is kept outside of it.
    let job = Arc::new(Mutex::new(Some(job)));
    let shared = job.clone();
    let run = move || run_once(&shared);
    let started: io::Result<_> = thread::Builder::new().name("mcp-blocking".into()).spawn(run);
    if started.is_err() {
        run_once(&job);
    }
}

fn run_once(job: &Mutex<Option<BlockingJob>>) {
    let job = lock(job).take();
    if let Some(job) = job {
        job();
    }
}

// The time of a call that blocks.

/// The time that a blocking call has left, over all its steps.
#[derive(Clone, Debug)]
pub struct Budget<'a> {
    /// `None` if the deadline is too far away to be represented.
    deadline: Option<Instant>,
    cancelled: Option<&'a AtomicBool>,
}

/// The reason why a call ends before its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its time has passed.
    TimedOut,
    /// The flag of [`Budget::or_cancelled`] was set.
    Cancelled,
}

impl<'a> Budget<'a> {
    /// Creates a budget that ends after `time`.
    #[must_use]
    pub fn new(time: Duration) -> Self {
        Self { deadline: Instant::now().checked_add(time), cancelled: None }
    }

    /// Creates a budget that ends at `deadline`.
    #[must_use]
    pub const fn until(deadline: Instant) -> Self {
        Self { deadline: Some(deadline), cancelled: None }
    }

    /// Lets it end, within 50 ms, when `flag` is set, too.
    #[must_use]
    pub const fn or_cancelled(mut self, flag: &'a AtomicBool) -> Self {
        self.cancelled = Some(flag);
        self
    }

    /// Returns a budget that ends after `time` or with this one.
    #[must_use]
    pub fn at_most(&self, time: Duration) -> Self {
        let deadline = Instant::now().checked_add(time);
        let deadline = [self.deadline, deadline].into_iter().flatten().min();
        Self { deadline, cancelled: self.cancelled }
    }

    /// Returns the time that is left; `None` without a deadline.
    #[must_use]
    pub fn left(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// Returns the time of the next wait, after which this method is to be called again.
    ///
    /// # Errors
    ///
    /// [`Ended`] if no time is left.
    pub fn next_wait(&self) -> Result<Duration, Ended> {
        if self.cancelled.is_some_and(|flag| flag.load(Ordering::Acquire)) {
            return Err(Ended::Cancelled);
        }
        let longest = if self.cancelled.is_some() { LONGEST_CANCELLABLE_WAIT } else { LONGEST_WAIT };
        match self.left() {
            Some(Duration::ZERO) => Err(Ended::TimedOut),
            left => Ok(left.unwrap_or(longest).min(longest)),
        }
    }
}

/// Time after which a waiting call looks at its flag again.
const LONGEST_CANCELLABLE_WAIT: Duration = Duration::from_millis(50);
/// Time that every system can wait for.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

#[cfg(test)]
mod budget_tests {
    use super::*;

    #[test]
    fn budget_ends_by_time_or_by_cancellation() {
        let flag = AtomicBool::new(false);
        let long = Budget::new(Duration::MAX).or_cancelled(&flag);
        assert_eq!(long.left(), None);
        assert_eq!(long.next_wait(), Ok(LONGEST_CANCELLABLE_WAIT));
        assert_eq!(Budget::new(Duration::MAX).next_wait(), Ok(LONGEST_WAIT));
        let short = long.at_most(Duration::from_millis(20));
        assert!(short.next_wait().unwrap() <= Duration::from_millis(20));
        let over = Budget::until(Instant::now()).or_cancelled(&flag);
        assert_eq!(over.next_wait(), Err(Ended::TimedOut));
        flag.store(true, Ordering::Release);
        assert_eq!(short.next_wait(), Err(Ended::Cancelled));
    }
}
