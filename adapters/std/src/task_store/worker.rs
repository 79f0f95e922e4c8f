//! A task store on a thread of its own.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TrySendError};
use std::thread;

use super::{TaskStore, TaskStoreError};
use crate::adapter::sync::{Inbox, Sender};
use crate::catch;

/// A change of a [`TaskStore`].
#[derive(Clone, PartialEq, Eq)]
pub enum TaskStoreJob {
    /// [`TaskStore::save`].
    Save {
        /// The id of the task.
        id: String,
        /// The version of the record.
        version: u64,
        /// The record.
        record: Box<[u8]>,
    },
    /// [`TaskStore::delete`].
    Delete {
        /// The id of the task.
        id: String,
        /// The newest version that is deleted.
        version: u64,
    },
}

/// The result of a [`TaskStoreJob`].
pub struct TaskStoreOutcome {
    /// The id of the task.
    pub id: String,
    /// The version of the job.
    pub version: u64,
    /// Whether the job was a deletion.
    pub is_deletion: bool,
    /// The result of the store.
    pub result: Result<(), TaskStoreError>,
}

/// A thread that runs the changes of a [`TaskStore`], one after another, in the order of their submission.
///
/// Its queue is bounded: while it is full, the server keeps the changes itself and takes the next one later. When the
/// worker is dropped, its thread finishes what is queued.
pub struct TaskStoreWorker {
    jobs: SyncSender<TaskStoreJob>,
    outcomes: Inbox<TaskStoreOutcome>,
    taken: VecDeque<TaskStoreOutcome>,
    /// Disconnected when the thread has ended.
    ended: mpsc::Receiver<()>,
}

impl TaskStoreWorker {
    /// Starts the thread. At most `capacity` jobs wait (at least 1).
    ///
    /// # Errors
    ///
    /// The error of the operating system if no thread can be started.
    pub fn start(store: Arc<dyn TaskStore>, capacity: usize) -> io::Result<Self> {
        let (jobs, queue) = mpsc::sync_channel(capacity.max(1));
        // No more outcomes exist than jobs, and the server takes them before it submits more.
        let outcomes = Inbox::new(usize::MAX);
        let sender = outcomes.sender();
        let (alive, ended) = mpsc::channel();
        thread::Builder::new().name("mcp-task-store".into()).spawn(move || {
            // Dropped in reverse order: once the end is seen, the store is free for the next server.
            let _alive: mpsc::Sender<()> = alive;
            let store = store;
            run_jobs(&*store, &queue, &sender);
        })?;
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
    pub fn submit(&self, job: TaskStoreJob) -> Result<(), TaskStoreJob> {
        self.jobs.try_send(job).map_err(|refused| match refused {
            TrySendError::Full(job) | TrySendError::Disconnected(job) => job,
        })
    }

    /// Returns the next outcome, in the order of submission.
    pub fn poll_outcome(&mut self) -> Option<TaskStoreOutcome> {
        if self.taken.is_empty() {
            self.outcomes.take(&mut self.taken);
        }
        self.taken.pop_front()
    }

    /// Waits up to `timeout` for the end of all submitted jobs, and ends the thread. Returns whether all have ended.
    ///
    /// Jobs that have not are finished if the process lives long enough.
    #[must_use]
    pub fn finish(self, timeout: Duration) -> bool {
        let Self { jobs, ended, .. } = self;
        drop(jobs);
        matches!(ended.recv_timeout(timeout), Err(RecvTimeoutError::Disconnected))
    }
}

fn run_jobs(store: &dyn TaskStore, jobs: &mpsc::Receiver<TaskStoreJob>, outcomes: &Sender<TaskStoreOutcome>) {
    for job in jobs {
        // After the server has ended, its jobs are still done, and their outcomes are dropped.
        let _ = outcomes.send_unbounded(job.run(store));
    }
}

impl TaskStoreJob {
    /// Does the job, and waits for its end. A panic of the store is an error.
    #[must_use]
    pub fn run(self, store: &dyn TaskStore) -> TaskStoreOutcome {
        let result = catch(|| match &self {
            Self::Save { id, version, record } => store.save(id, *version, record),
            Self::Delete { id, version } => store.delete(id, *version),
        });
        let result = result.unwrap_or_else(|_| Err(TaskStoreError::Other("the task store panicked".into())));
        let (id, version, is_deletion) = match self {
            Self::Save { id, version, .. } => (id, version, false),
            Self::Delete { id, version } => (id, version, true),
        };
        TaskStoreOutcome { id, version, is_deletion, result }
    }
}

/// Shows neither ids nor records, which are secret (TASK-131).
impl fmt::Debug for TaskStoreJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, version) = match self {
            Self::Save { version, .. } => ("Save", version),
            Self::Delete { version, .. } => ("Delete", version),
        };
        f.debug_struct(name).field("version", version).finish_non_exhaustive()
    }
}

/// Shows no id, which is secret (TASK-131).
impl fmt::Debug for TaskStoreOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskStoreOutcome")
            .field("version", &self.version)
            .field("is_deletion", &self.is_deletion)
            .field("result", &self.result)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TaskStoreWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskStoreWorker").finish_non_exhaustive()
    }
}
