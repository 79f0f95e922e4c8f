//! Tasks of a server that outlive its process.
//!
//! A server with tasks keeps them in memory. With a [`TaskStore`] each change of a task is also stored, and a server
//! that starts again continues with the stored tasks. [`FileTaskStore`] keeps them in a folder. A [`TaskStoreWorker`]
//! runs a store on a thread of its own, so that a slow disk delays no other request.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::task::Waker;
use core::time::Duration;
use std::io;
use std::path::PathBuf;

use mcp_proto::server::TaskRecordError;

use crate::catch;
use crate::durable_file::FileError;
use crate::sync::Workers;

mod file;
#[cfg(test)]
mod tests;

pub use file::FileTaskStore;

/// A store of tasks.
///
/// The server chooses ids, versions and records, and is the only one that reads the records. The versions of a task
/// grow with each change. A store keeps each record whole: after a crash it has the old one or the new one.
pub trait TaskStore: Send + Sync {
    /// Returns all stored tasks, in any order.
    ///
    /// A record that cannot be read is no error but one of the [`problems`](LoadedTasks::problems), and the other tasks are
    /// returned.
    ///
    /// # Errors
    ///
    /// [`TaskStoreError`] if the store as a whole cannot be read.
    fn load(&self) -> Result<LoadedTasks, TaskStoreError>;

    /// Stores a version of a task. It is permanent once this returns. A stored version that is newer stays.
    ///
    /// # Errors
    ///
    /// [`TaskStoreError`] if it may not have been stored. Other tasks are unchanged.
    fn save(&self, id: &str, version: u64, record: &[u8]) -> Result<(), TaskStoreError>;

    /// Deletes a task, if it is stored. A stored version that is newer than `version` stays.
    ///
    /// # Errors
    ///
    /// [`TaskStoreError`] if it may not have been deleted. Other tasks are unchanged.
    fn delete(&self, id: &str, version: u64) -> Result<(), TaskStoreError>;
}

/// The content of a [`TaskStore`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct LoadedTasks {
    /// The stored tasks.
    pub tasks: Vec<StoredTask>,
    /// Stored items that could not be read, and what was done with them.
    pub problems: Vec<TaskStoreError>,
    /// Bytes that were admitted.
    bytes: usize,
}

impl LoadedTasks {
    /// Bytes of records that a store reads, with 256 for each: four times what a server keeps by default.
    pub const MAX_BYTES: usize = 256 << 20;

    /// Creates the content of a store without problems.
    #[must_use]
    pub const fn new(tasks: Vec<StoredTask>) -> Self {
        Self { tasks, problems: Vec::new(), bytes: 0 }
    }

    /// Returns whether there is room for a record of this length, to be asked before it is read. If not, that is a problem, and the
    /// store reads no more.
    #[must_use]
    pub fn admit(&mut self, length: usize) -> bool {
        self.bytes = self.bytes.saturating_add(length).saturating_add(256);
        let has_room = self.bytes <= Self::MAX_BYTES;
        if !has_room {
            let max = Self::MAX_BYTES;
            let why =
                alloc::format!("the tasks have more than {max} bytes: those that were not read stay stored");
            self.problems.push(TaskStoreError::Other(why.into()));
        }
        has_room
    }
}

/// A stored task.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredTask {
    /// The id of the task. Who knows it may use the task.
    pub id: String,
    /// The version of the record.
    pub version: u64,
    /// The record.
    pub record: Vec<u8>,
}

/// Shows neither the id nor the record, which are secret (TASK-131).
impl fmt::Debug for StoredTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.record.len();
        f.debug_struct("StoredTask")
            .field("version", &self.version)
            .field("bytes", &bytes)
            .finish_non_exhaustive()
    }
}

/// The reason why a [`TaskStore`] did not do what was asked. It shows no id and no record of a task.
#[derive(Debug)]
#[non_exhaustive]
pub enum TaskStoreError {
    /// The operating system refused an operation on a file.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Operation that failed: `read`, `replace`, …
        operation: &'static str,
        /// The error of the operating system.
        error: io::Error,
    },
    /// Another process, or another [`FileTaskStore`] of this one, uses the folder.
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// A file has the name of a stored task and no whole task in it.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, as the end of a sentence that begins with the path.
        why: Box<str>,
        /// The file that has the content now; `None` if it could not be renamed.
        set_aside: Option<PathBuf>,
    },
    /// A file in the folder does not belong to the store. It was not touched.
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The id is not one of 1 to 64 letters, digits, `-` and `_`. Nothing was done.
    InvalidId,
    /// The name of the file of a new task is that of another task. Nothing was stored.
    NameTaken {
        /// The file.
        path: PathBuf,
    },
    /// The record is larger than the store takes. Nothing was stored.
    TooLarge {
        /// Bytes of the record.
        size: usize,
        /// Bytes that the store takes.
        max: usize,
    },
    /// The server restored no task from a record. The record is still stored.
    NotRestored(TaskRecordError),
    /// The error of a store of the application.
    Other(Box<dyn core::error::Error + Send + Sync>),
}

impl From<FileError> for TaskStoreError {
    fn from(failed: FileError) -> Self {
        Self::Io { path: failed.path, operation: failed.operation, error: failed.error }
    }
}

impl fmt::Display for TaskStoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, operation, error } => {
                write!(f, "cannot {operation} {}: {error}", path.display())
            }
            Self::InUse { path } => write!(
                f,
                "the task store {} is in use by another server: give each server a folder of its own",
                path.display()
            ),
            Self::Damaged { path, why, set_aside } => {
                write!(f, "the stored task {} {why}", path.display())?;
                match set_aside {
                    Some(aside) => write!(f, "; it is now {}", aside.display()),
                    None => Ok(()),
                }
            }
            Self::Foreign { path } => {
                write!(f, "{} does not belong to the task store, which ignores it", path.display())
            }
            Self::InvalidId => f.write_str(
                "the id of a task has other characters than letters, digits, - and _, or not 1 to 64",
            ),
            Self::NameTaken { path } => write!(f, "the file {} is that of another task", path.display()),
            Self::TooLarge { size, max } => {
                write!(f, "the record of a task has {size} bytes, and the store takes {max}")
            }
            Self::NotRestored(error) => error.fmt(f),
            Self::Other(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for TaskStoreError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            Self::Other(error) => error.source(),
            _ => None,
        }
    }
}

/// The reason why a server cannot have its tasks.
#[derive(Debug)]
#[non_exhaustive]
pub enum TasksError {
    /// The stored tasks cannot be loaded.
    Store(TaskStoreError),
    /// The server has several shards. Each would have tasks that the others do not know.
    Shards,
    /// The tasks of the router belong to a server already.
    InUse,
}

impl fmt::Display for TasksError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => write!(f, "the stored tasks cannot be loaded: {error}"),
            Self::Shards => {
                f.write_str("a server with tasks has one shard: each shard would have tasks of its own")
            }
            Self::InUse => f.write_str("the tasks of this router belong to another server"),
        }
    }
}

impl core::error::Error for TasksError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Store(error) => Some(error),
            Self::Shards | Self::InUse => None,
        }
    }
}

// A task store on a thread of its own.

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
pub struct TaskStoreWorker(Workers<TaskStoreJob, TaskStoreOutcome>);

impl TaskStoreWorker {
    /// Starts the thread. At most `capacity` jobs wait (at least 1).
    ///
    /// # Errors
    ///
    /// The error of the operating system if no thread can be started.
    pub fn start(store: Arc<dyn TaskStore>, capacity: usize) -> io::Result<Self> {
        let run = move |job: TaskStoreJob| job.run(&*store);
        Ok(Self(Workers::start("mcp-task-store", 1, capacity, run)?))
    }

    /// Registers the waker that is woken when an outcome can be taken.
    pub fn register(&self, waker: &Waker) {
        self.0.register(waker);
    }

    /// Submits a job.
    ///
    /// # Errors
    ///
    /// The job if the queue is full.
    pub fn submit(&self, job: TaskStoreJob) -> Result<(), TaskStoreJob> {
        self.0.submit(job)
    }

    /// Returns the next outcome, in the order of submission.
    pub fn poll_outcome(&mut self) -> Option<TaskStoreOutcome> {
        self.0.poll_outcome()
    }

    /// Waits up to `timeout` for the end of all submitted jobs, and ends the thread. Returns whether all have ended.
    ///
    /// Jobs that have not are finished if the process lives long enough. The store is free for the next server after that.
    #[must_use]
    pub fn finish(self, timeout: Duration) -> bool {
        self.0.finish(timeout)
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
