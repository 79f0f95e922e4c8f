//! Queues, wakers and containers that event loops share with other threads and tasks.

mod inbox;
mod wakers;
mod workers;

pub use inbox::{Inbox, SendError, Sender};
pub use wakers::{CoalescingWaker, FlagWaker, IndexedWaker};
pub use workers::Workers;

use alloc::boxed::Box;
use alloc::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::{io, thread};

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
    let job = job.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(job) = job {
        job();
    }
}
