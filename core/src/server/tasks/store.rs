//! Saving of tasks: what a store has to do, and what follows from its answers.
//!
//! At most one save of a task is under way. A change meanwhile is saved afterwards, as the state that the task has then.

use alloc::borrow::Cow;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::entry::{TaskEntry, TaskOutcome, TaskState};
use super::record::{self, TaskRecordError};
use super::table::TaskTable;
use crate::deadlines::Deadlines;
use crate::json::{max_escaped_len, member, string, write_str};
use crate::model::{TaskId, TaskStatus};
use crate::slab::Key;
use crate::tasks;
use crate::tasks::text::{TaskBits, ascii};
use crate::time::Instant;
use crate::version::Version;

impl TaskTable {
    /// Saves the state of a task.
    pub(super) fn save(&mut self, key: Key) {
        let (Some(store), Some(task)) = (&mut self.store, self.tasks.get_mut(key)) else { return };
        // Otherwise the save that is queued or under way, or its next attempt, leads to one of this state.
        let is_idle = task.saving == 0 && task.failed_saves == 0 && task.saved == task.revision;
        task.revision = task.revision.saturating_add(1);
        if is_idle {
            // Tasks that were removed leave their keys while the store is slow.
            if store.unsaved.len() > 2 * self.tasks.len() + 32 {
                let tasks = &self.tasks;
                store.unsaved.retain(|key| tasks.get(*key).is_some());
            }
            store.unsaved.push_back(key);
        }
    }

    /// Saves the state of a task, which goes on when the store has it.
    pub(super) fn save_before_going_on(&mut self, key: Key) {
        self.save(key);
        if let Some(task) = self.tasks.get_mut(key) {
            task.milestone = task.revision;
        }
    }

    /// Returns the next effect for the store.
    pub(in crate::server) fn poll_store(&mut self) -> Option<StoreEffect> {
        let store = self.store.as_mut()?;
        if let Some((bits, version)) = store.deletes.pop_front() {
            store.deleting.push((bits, version));
            return Some(StoreEffect::Delete { id: bits.id(), version });
        }
        loop {
            let key = self.store.as_mut()?.unsaved.pop_front()?;
            let Some(task) = self.tasks.get_mut(key) else { continue };
            // A key may be queued twice, or its state may be saved by now.
            if task.saving != 0 || task.saved >= task.revision {
                continue;
            }
            task.saving = task.revision;
            let (id, version) = (task.head.id.id(), task.revision);
            let record = record::encode(self, key)?;
            return Some(StoreEffect::Save { id, version, record });
        }
    }

    /// Returns whether the store has nothing to do and nothing under way.
    pub(in crate::server) fn is_saved(&self) -> bool {
        self.store.as_ref().is_none_or(|store| {
            store.deletes.is_empty()
                && store.deleting.is_empty()
                && store.failed_deletes.is_empty()
                && self.tasks.iter().all(|(_, task)| task.saved >= task.revision)
        })
    }

    /// Takes the outcome of a save.
    pub(in crate::server) fn handle_saved(
        &mut self,
        now: Instant,
        id: &TaskId,
        version: u32,
        is_ok: bool,
    ) -> Milestone {
        let Some(key) = TaskBits::parse(id.as_str().as_bytes()).and_then(|bits| self.find_bits(bits)) else {
            return Milestone::Nothing;
        };
        let (Some(store), Some(task)) = (&mut self.store, self.tasks.get_mut(key)) else {
            return Milestone::Nothing;
        };
        // Not the save that is under way: an outcome that was reported twice, for example.
        if task.saving != version || version == 0 {
            return Milestone::Nothing;
        }
        task.saving = 0;
        if !is_ok {
            task.failed_saves = task.failed_saves.saturating_add(1);
            store.failures = store.failures.saturating_add(1);
            if task.state == TaskState::Creating {
                return Milestone::NotCreated(key);
            }
            store.retries.arm(now + backoff(u32::from(task.failed_saves) - 1), key);
            let tasks = &self.tasks;
            store.retries.sweep(tasks.len(), |_, key| tasks.get(key).is_some());
            return Milestone::Nothing;
        }
        (task.saved, task.failed_saves, store.failures) = (version, 0, 0);
        if task.revision > version {
            store.unsaved.push_back(key);
        }
        // The task waits for a later state than this one.
        if version < task.milestone {
            return Milestone::Nothing;
        }
        match task.state {
            TaskState::Creating => {
                self.set_state(key, TaskState::Queued);
                self.push_turn(key);
                Milestone::Created(key)
            }
            TaskState::Starting => {
                self.set_state(key, TaskState::Running);
                Milestone::Started(key)
            }
            // Clients see its end from now on.
            state if state.is_terminal() && !core::mem::replace(&mut task.is_settled, true) => {
                Milestone::Ended(key)
            }
            _ => Milestone::Nothing,
        }
    }

    /// Takes the outcome of a deletion.
    pub(in crate::server) fn handle_deleted(&mut self, now: Instant, id: &TaskId, version: u32, is_ok: bool) {
        let (Some(bits), Some(store)) = (TaskBits::parse(id.as_str().as_bytes()), &mut self.store) else {
            return;
        };
        let Some(at) = store.deleting.iter().position(|entry| *entry == (bits, version)) else { return };
        store.deleting.swap_remove(at);
        if is_ok {
            store.failures = 0;
        } else {
            store.failures = store.failures.saturating_add(1);
            let again = now + backoff(store.failures - 1);
            // No time is earlier than the one before, so the front of the queue is due first.
            let again = store.failed_deletes.back().map_or(again, |(last, ..)| again.max(*last));
            store.failed_deletes.push_back((again, bits, version));
        }
    }

    /// Tries again what has failed, if it is time.
    pub(in crate::server) fn retry_store(&mut self, now: Instant) {
        let Some(store) = &mut self.store else { return };
        while let Some((_, key)) = store.retries.pop_due(now) {
            store.unsaved.push_back(key);
        }
        while let Some((_, bits, version)) =
            store.failed_deletes.front().copied().filter(|(at, ..)| *at <= now)
        {
            store.failed_deletes.pop_front();
            store.deletes.push_back((bits, version));
        }
    }

    /// Restores a task from its record, also beyond the limits. Returns its key; `None` if it has expired.
    ///
    /// A task that ran when the process ended has failed: its handler may have had effects, so it does not run again. One
    /// that had not run waits for its turn.
    ///
    /// # Errors
    ///
    /// [`TaskRecordError`].
    pub(in crate::server) fn load(
        &mut self,
        now: Instant,
        stored_id: &TaskId,
        record: &[u8],
    ) -> Result<Option<Key>, TaskRecordError> {
        let (entry, owner) = record::decode(record, now, self.anchor)?;
        let (state, revision) = (entry.state, entry.revision);
        let (id, expires_at) = (entry.head.id, entry.head.expires_at);
        if TaskBits::parse(stored_id.as_str().as_bytes()) != Some(id) {
            return Err(TaskRecordError::OtherTask);
        }
        if self.find_bits(id).is_some() {
            return Err(TaskRecordError::Duplicate);
        }
        if expires_at <= now {
            if let Some(store) = &mut self.store {
                store.delete(id, revision.saturating_add(1));
            }
            return Ok(None);
        }
        let key = self.insert(entry, owner).map_err(|_| TaskRecordError::Duplicate)?;
        match state {
            // Its requestor may know it: the record was durable, and the answer may have been sent.
            TaskState::Creating | TaskState::Queued => {
                if let Some(task) = self.tasks.get_mut(key) {
                    task.state = TaskState::Queued;
                }
                self.push_turn(key);
            }
            TaskState::Starting | TaskState::Running => {
                if let Some(task) = self.tasks.get_mut(key) {
                    // Not by `set_state`: in this process the task holds no place.
                    task.state = TaskState::Queued;
                }
                let error = crate::rpc::RpcError::internal("the server was restarted while the task ran");
                let outcome = super::table::error_outcome(&error);
                self.end(now, key, TaskState::Failed, Some(outcome));
            }
            _ => {}
        }
        Ok(Some(key))
    }
}

// The queue of a task store: pending operations, and finished ones.

/// Something that the store of tasks has to do.
///
/// The effects of one task are to be carried out in the order in which they are returned.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreEffect {
    /// Write the record of a task, durably. Answer with [`Tasks::handle_saved`](crate::server::Tasks::handle_saved).
    Save {
        /// The task.
        id: TaskId,
        /// Number of the record, larger than that of an earlier one of the task.
        version: u32,
        /// The record, opaque to the store.
        record: Vec<u8>,
    },
    /// Delete the record of a task. Answer with [`Tasks::handle_deleted`](crate::server::Tasks::handle_deleted).
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
#[derive(Debug, Default)]
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

// The forms of a task on the wire: that of 2025-11-25 and that of the extension.

/// The members of a written task besides its state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Nothing (TASK-009, TASK-108).
    Bare,
    /// In the extension, what belongs to its status (TASK-112).
    Full,
}

/// Returns the bytes that the texts of a task may take in a message; `extra` of `Endpoint::send`.
pub(super) fn text_room(task: &TaskEntry) -> usize {
    let message = task.message.as_ref().map_or(0, |message| max_escaped_len(message.len()));
    task.len().saturating_add(message)
}

/// Appends the members of a task in the form of its revision, without braces (TASK-014, TASK-108).
pub(super) fn write_members(out: &mut Vec<u8>, task: &TaskEntry, detail: Detail) {
    let is_modern = task.version >= Version::V2026_07_28;
    let status = task.status().unwrap_or(TaskStatus::Working);
    task.head.write(out, &status, message(task, &status).as_deref(), is_modern);
    if !is_modern || detail == Detail::Bare {
        return;
    }
    match (&status, &task.outcome) {
        (TaskStatus::InputRequired, _) => write_questions(out, task),
        (TaskStatus::Completed, Some(TaskOutcome::Result(text, _))) => {
            out.extend_from_slice(b",\"result\":");
            out.extend_from_slice(text);
        }
        (TaskStatus::Failed, Some(TaskOutcome::Error(text))) => {
            out.extend_from_slice(b",\"error\":");
            out.extend_from_slice(text);
        }
        _ => {}
    }
}

/// Returns the message, or for a task that failed without one its reason (TASK-032).
fn message<'t>(task: &'t TaskEntry, status: &TaskStatus) -> Option<Cow<'t, str>> {
    match (&task.message, &task.outcome) {
        (Some(message), _) => Some((&**message).into()),
        (None, Some(outcome)) if *status == TaskStatus::Failed => match outcome {
            TaskOutcome::Error(text) => Some(string(member(text, "message")?).unwrap_or_default()),
            TaskOutcome::Result(..) => Some("the tool reported a failure".into()),
        },
        _ => None,
    }
}

/// Appends the open questions by their keys (TASK-112, TASK-120).
fn write_questions(out: &mut Vec<u8>, task: &TaskEntry) {
    out.extend_from_slice(b",\"inputRequests\":{");
    let mut is_first = true;
    for question in task.questions().iter().filter(|question| question.answer.is_none()) {
        if !core::mem::take(&mut is_first) {
            out.push(b',');
        }
        write_str(out, question.wire_key());
        out.extend_from_slice(b":{\"method\":\"");
        out.extend_from_slice(question.method.as_bytes());
        out.push(b'"');
        if &*question.params != b"{}" {
            out.extend_from_slice(b",\"params\":");
            out.extend_from_slice(&question.params);
        }
        out.push(b'}');
    }
    out.push(b'}');
}

/// Appends the member of `_meta` that names the task (TASK-023).
pub(super) fn write_related_task(out: &mut Vec<u8>, task: &TaskEntry) {
    tasks::write_related_task(out, ascii(&task.head.id.text()));
}

/// Appends an object with the name of the task in its `_meta` (TASK-023, TASK-024).
pub(super) fn write_with_related_task(out: &mut Vec<u8>, object: &[u8], task: &TaskEntry) {
    tasks::write_with_related_task(out, object, ascii(&task.head.id.text()));
}
