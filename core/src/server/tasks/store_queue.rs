//! The queue of a task store: pending operations, and finished ones.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::deadlines::Deadlines;
use crate::model::TaskId;
use crate::slab::Key;
use crate::tasks::text::TaskBits;
use crate::time::Instant;

/// Something that the store of tasks has to do.
///
/// The effects of one task are to be carried out in the order in which they are returned.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreEffect {
    /// Write the record of a task, durably. Answer with [`Tasks::handle_saved`](super::super::Tasks::handle_saved).
    Save {
        /// The task.
        id: TaskId,
        /// Number of the record, larger than that of an earlier one of the task.
        version: u32,
        /// The record, opaque to the store.
        record: Vec<u8>,
    },
    /// Delete the record of a task. Answer with [`Tasks::handle_deleted`](super::super::Tasks::handle_deleted).
    Delete {
        /// The task.
        id: TaskId,
        /// Number of the deletion, larger than that of all records of the task.
        version: u32,
    },
}

/// Hides the record, which contains the id and the arguments of the task.
impl fmt::Debug for StoreEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Save { id, version, record } => f
                .debug_struct("Save")
                .field("id", id)
                .field("version", version)
                .field("bytes", &record.len())
                .finish(),
            Self::Delete { id, version } => {
                f.debug_struct("Delete").field("id", id).field("version", version).finish()
            }
        }
    }
}

/// The next operation of the store.
#[derive(Debug)]
pub(super) struct StoreQueue {
    /// Tasks with something to save, and some that have none any more.
    pub(super) unsaved: VecDeque<Key>,
    pub(super) deletes: VecDeque<(TaskBits, u32)>,
    /// Deletions that the store is carrying out.
    pub(super) deleting: Vec<(TaskBits, u32)>,
    /// Tasks whose save failed, by the time of the next attempt.
    pub(super) retries: Deadlines<Key>,
    /// Deletions that failed, and the time of the next attempt.
    pub(super) failed_deletes: VecDeque<(Instant, TaskBits, u32)>,
    /// Number of failures in a row.
    pub(super) failures: u32,
}

impl Default for StoreQueue {
    fn default() -> Self {
        Self {
            unsaved: VecDeque::new(),
            deletes: VecDeque::new(),
            deleting: Vec::new(),
            retries: Deadlines::new(),
            failed_deletes: VecDeque::new(),
            failures: 0,
        }
    }
}

impl StoreQueue {
    /// Returns the number of deletions that the store has not finished.
    pub(super) fn pending_deletes(&self) -> usize {
        self.deletes.len() + self.deleting.len() + self.failed_deletes.len()
    }

    pub(super) fn delete(&mut self, id: TaskBits, version: u32) {
        self.deletes.push_back((id, version));
    }

    pub(super) fn next_retry(&mut self) -> Option<Instant> {
        let delete = self.failed_deletes.front().map(|(at, ..)| *at);
        self.retries.next(|_, _| true).into_iter().chain(delete).min()
    }
}

/// Time until a failed operation is tried again: from half a second to 32 seconds.
pub(super) fn backoff(failures: u32) -> Duration {
    Duration::from_millis(500 << failures.min(6))
}

/// The step of a task that follows because the store has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::server) enum Milestone {
    Nothing,
    /// Its requestor can be told about it.
    Created(Key),
    /// Its handler runs.
    Started(Key),
    /// Clients see its end.
    Ended(Key),
    /// It could not be created and is to be removed.
    NotCreated(Key),
}
