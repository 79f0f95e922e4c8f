//! Saving of tasks: what a store has to do, and what follows from its answers.
//!
//! At most one save of a task is under way. A change meanwhile is saved afterwards, as the state that the task has then.

use super::entry::TaskState;
use super::record::{self, TaskRecordError};
use super::store_queue::{Milestone, StoreEffect, backoff};
use super::table::TaskTable;
use crate::model::TaskId;
use crate::slab::Key;
use crate::tasks::text::TaskBits;
use crate::time::Instant;

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
            let tasks = &self.tasks;
            store.retries.sweep(tasks.len(), |_, key| tasks.get(key).is_some(), |_| false);
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
        let (state, expires_at, id, revision) = (entry.state, entry.expires_at, entry.id, entry.revision);
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

fn text_id(bits: TaskBits) -> TaskId {
    TaskId::new(core::str::from_utf8(&bits.text()).unwrap_or_default())
}
