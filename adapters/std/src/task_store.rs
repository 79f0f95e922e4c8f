//! Tasks of a server that outlive its process.
//!
//! A server with tasks keeps them in memory. With a [`TaskStore`] each change of a task is also stored, and a server
//! that starts again continues with the stored tasks. [`FileTaskStore`] keeps them in a folder. A [`TaskStoreWorker`]
//! runs a store on a thread of its own, so that a slow disk delays no other request.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use std::io;
use std::path::PathBuf;

#[cfg(feature = "crypto")]
use mcp_proto::server::TaskRecordError;

use crate::durable_file::FileError;

mod file;
mod record_file;
#[cfg(test)]
mod tests;
mod worker;

pub use file::FileTaskStore;
pub use worker::{TaskStoreJob, TaskStoreOutcome, TaskStoreWorker};

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
}

impl LoadedTasks {
    /// Creates the content of a store without problems.
    #[must_use]
    pub const fn new(tasks: Vec<StoredTask>) -> Self {
        Self { tasks, problems: Vec::new() }
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
    #[cfg(feature = "crypto")]
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
            #[cfg(feature = "crypto")]
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
