//! Saving of tasks: what a store has to do, and what follows from its answers.
//!
//! At most one save of a task is under way. A change meanwhile is saved afterwards, as the state that the task has then.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use super::entry::TaskState;
use super::record;
use super::table::TaskTable;
use super::text::TaskBits;
use crate::deadlines::Deadlines;
use crate::model::TaskId;
use crate::slab::Key;
use crate::time::Instant;

/// Something that the store of tasks has to do.
///
/// The effects of one task are to be carried out in the order in which they are returned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreEffect {
    /// Write the record of a task, durably. Answer with [`Tasks::handle_saved`](super::Tasks::handle_saved).
    Save {
        /// The task.
        id: TaskId,
        /// Number of the record, larger than that of an earlier one of the task.
        version: u32,
        /// The record, opaque to the store.
        record: Vec<u8>,
    },
    /// Delete the record of a task. Answer with [`Tasks::handle_deleted`](super::Tasks::handle_deleted).
    Delete {
        /// The task.
        id: TaskId,
        /// Number of the deletion, larger than that of all records of the task.
        version: u32,
    },
}

/// What the store has to do next.
#[derive(Debug)]
pub(super) struct StoreQueue {
    /// Tasks with something to save, and some that have none any more.
    unsaved: VecDeque<Key>,
    deletes: VecDeque<(TaskBits, u32)>,
    /// Deletions that the store is carrying out.
    deleting: Vec<(TaskBits, u32)>,
    /// Tasks whose save failed, by the time of the next attempt.
    retries: Deadlines<Key>,
    /// Deletions that failed, and the time of the next attempt.
    failed_deletes: VecDeque<(Instant, TaskBits, u32)>,
    /// Number of failures in a row.
    failures: u32,
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
    pub(super) fn delete(&mut self, id: TaskBits, version: u32) {
        self.deletes.push_back((id, version));
    }

    pub(super) fn next_retry(&mut self) -> Option<Instant> {
        let delete = self.failed_deletes.front().map(|(at, ..)| *at);
        self.retries.next(|_, _| true).into_iter().chain(delete).min()
    }
}

/// Time until a failed operation is tried again: from half a second to 32 seconds.
fn backoff(failures: u32) -> Duration {
    Duration::from_millis(500 << failures.min(6))
}

/// What a task reaches because the store has it.
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

impl TaskTable {
    /// Saves the state of a task.
    pub(super) fn save(&mut self, key: Key) {
        let (Some(store), Some(task)) = (&mut self.store, self.tasks.get_mut(key)) else { return };
        task.revision = task.revision.saturating_add(1);
        store.unsaved.push_back(key);
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
            return Some(StoreEffect::Delete { id: text_id(bits), version });
        }
        loop {
            let key = self.store.as_mut()?.unsaved.pop_front()?;
            let Some(task) = self.tasks.get_mut(key) else { continue };
            if task.saving != 0 || task.saved >= task.revision {
                continue;
            }
            task.saving = task.revision;
            let (id, version) = (text_id(task.id), task.revision);
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
            return Milestone::Nothing;
        }
        (task.saved, task.failed_saves, store.failures) = (version, 0, 0);
        if task.revision > version {
            store.unsaved.push_back(key);
        }
        if version < task.milestone {
            return Milestone::Nothing;
        }
        let state = task.state;
        match state {
            TaskState::Creating if self.confirm_creation(key) => Milestone::Created(key),
            TaskState::Starting if self.confirm_start(key) => Milestone::Started(key),
            _ if self.confirm_end(key) => Milestone::Ended(key),
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

    /// Restores a task from its record. Returns its key, and whether it is to be told that it has ended.
    ///
    /// A task that ran when the process ended has failed: its handler may have had effects, so it does not run again. One
    /// that had not run waits for its turn.
    pub(in crate::server) fn load(&mut self, now: Instant, record: &[u8]) -> Option<Key> {
        let (entry, owner) = record::decode(record, now, self.anchor)?;
        let (state, expires_at, id, revision) = (entry.state, entry.expires_at, entry.id, entry.revision);
        if expires_at <= now {
            self.store.as_mut()?.delete(id, revision.saturating_add(1));
            return None;
        }
        let key = self.insert(entry, owner, false).ok()?;
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
                    task.state = TaskState::Queued;
                }
                let error = crate::rpc::RpcError::internal("the server was restarted while the task ran");
                self.finish(now, key, super::table::error_outcome(&error));
            }
            _ => {}
        }
        Some(key)
    }
}

fn text_id(bits: TaskBits) -> TaskId {
    TaskId::new(core::str::from_utf8(&bits.text()).unwrap_or_default())
}
