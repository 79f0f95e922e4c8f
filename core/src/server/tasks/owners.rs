//! Owners of tasks, and the bounds of each.

use alloc::vec::Vec;

use super::entry::{Owner, OwnerEntry, TaskEntry};
use super::limits::TaskLimits;
use super::table::TaskTable;
use crate::error::UseError;
use crate::limits::Limit;
use crate::slab::Key;
use crate::slab::list::List;
use crate::slab::tree::TreeLinks;

impl TaskLimits {
    /// Returns the number of tasks and of bytes that an owner may have.
    const fn of_owner(&self, owner: &Owner) -> (usize, usize) {
        match owner {
            Owner::Holder => (self.max_unowned_tasks, self.max_unowned_bytes),
            Owner::Session(_) | Owner::Principal(_) => (self.max_tasks_per_owner, self.max_bytes_per_owner),
        }
    }
}

impl TaskTable {
    pub(super) fn find_owner(&mut self, owner: &Owner) -> Option<Key> {
        self.by_owner.find(&mut self.owners, |_, other| other.owner.cmp(owner))
    }

    /// Returns the owner of a task.
    pub(super) fn owner(&self, task: &TaskEntry) -> Option<&Owner> {
        self.owners.get(task.owner).map(|of| &of.owner)
    }

    /// Returns the tasks of an owner, in order of creation.
    pub(super) fn tasks_of(&mut self, owner: &Owner) -> Vec<Key> {
        let of = self.find_owner(owner).and_then(|owner| self.owners.get(owner));
        of.map(|of| of.tasks.iter(&self.tasks).map(|(key, _)| key).collect()).unwrap_or_default()
    }

    /// Checks that there is room for one more task of this size.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`]. Records that the store has still to delete count as tasks.
    pub(super) fn check_room(&mut self, owner: &Owner, bytes: usize) -> Result<(), UseError> {
        let deleted = self.store.as_ref().map_or(0, |store| store.pending_deletes());
        let known = self.find_owner(owner).and_then(|key| self.owners.get(key));
        let (count, used) = known.map_or((0, 0), |of| (of.count, of.bytes));
        let (max_tasks, max_bytes) = self.limits.of_owner(owner);
        if self.tasks.len() + deleted >= self.limits.max_tasks || count >= max_tasks {
            return Err(UseError::Full(Limit::Tasks));
        }
        let has_room = self.bytes.saturating_add(bytes) <= self.limits.max_bytes
            && used.saturating_add(bytes) <= max_bytes;
        if has_room { Ok(()) } else { Err(UseError::Full(Limit::TaskBytes)) }
    }

    /// Returns whether a task may have more bytes.
    pub(super) fn has_room(&self, task: Key, bytes: usize) -> bool {
        let of = self.tasks.get(task).and_then(|task| self.owners.get(task.owner));
        self.bytes.saturating_add(bytes) <= self.limits.max_bytes
            && of.is_some_and(|of| of.bytes.saturating_add(bytes) <= self.limits.of_owner(&of.owner).1)
    }

    /// Changes what is kept for a task, with the sums of the bytes.
    pub(super) fn change<R>(&mut self, key: Key, change: impl FnOnce(&mut TaskEntry) -> R) -> Option<R> {
        let task = self.tasks.get_mut(key)?;
        let before = task.len();
        let result = change(task);
        let after = task.len();
        self.bytes = (self.bytes + after).saturating_sub(before);
        if let Some(of) = self.owners.get_mut(task.owner) {
            of.bytes = (of.bytes + after).saturating_sub(before);
        }
        Some(result)
    }

    /// Adds a task, also beyond the limits.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if its id is in use.
    pub(super) fn insert(&mut self, mut entry: TaskEntry, owner: Owner) -> Result<Key, UseError> {
        let (id, bytes, expires_at) = (entry.id, entry.len(), entry.expires_at);
        let place = self.by_id.place(&mut self.tasks, |_, other| other.id.cmp(&id));
        let place = place.map_err(|_| UseError::Stale)?;
        let owner = match self.by_owner.place(&mut self.owners, |_, other| other.owner.cmp(&owner)) {
            Err(known) => known,
            Ok(place) => {
                let links = TreeLinks::default();
                let entry =
                    OwnerEntry { owner, tasks: List::new(), count: 0, bytes: 0, next_number: 0, links };
                let key = self.owners.insert(entry);
                self.by_owner.insert(&mut self.owners, place, key);
                key
            }
        };
        let Some(of) = self.owners.get_mut(owner) else { return Err(UseError::Stale) };
        (entry.owner, entry.number) = (owner, of.next_number);
        of.next_number = of.next_number.wrapping_add(1);
        of.count += 1;
        of.bytes += bytes;
        let key = self.tasks.insert(entry);
        self.by_id.insert(&mut self.tasks, place, key);
        of.tasks.push(&mut self.tasks, key);
        self.bytes += bytes;
        self.deadlines.arm(expires_at, key);
        let tasks = &self.tasks;
        self.deadlines.sweep(tasks.len(), |_, key| tasks.get(key).is_some(), |_| false);
        Ok(key)
    }

    /// Removes a task. Its record in the store is deleted.
    pub(in crate::server) fn remove(&mut self, key: Key) -> Option<TaskEntry> {
        let (id, owner) = (self.tasks.get(key)?.id, self.tasks.get(key)?.owner);
        self.by_id.remove(&mut self.tasks, key, |_, task| task.id.cmp(&id));
        let bytes = self.tasks.get(key)?.len();
        if let Some(of) = self.owners.get_mut(owner) {
            of.tasks.remove(&mut self.tasks, key);
            of.count = of.count.saturating_sub(1);
            of.bytes = of.bytes.saturating_sub(bytes);
            if of.count == 0 {
                self.remove_owner(owner);
            }
        }
        let task = self.tasks.remove(key)?;
        self.bytes = self.bytes.saturating_sub(bytes);
        self.running -= usize::from(task.state.holds_place()).min(self.running);
        if let Some(store) = self.store.as_mut().filter(|_| task.may_be_stored()) {
            store.delete(task.id, task.revision.saturating_add(1));
        }
        Some(task)
    }

    fn remove_owner(&mut self, key: Key) {
        let Some(owner) = self.owners.get(key).map(|of| of.owner.clone()) else { return };
        self.by_owner.remove(&mut self.owners, key, |_, other| other.owner.cmp(&owner));
        self.owners.remove(key);
    }

    /// Panics if a sum of an owner differs from what it sums.
    #[cfg(any(fuzzing, test))]
    pub(super) fn check_owners(&self) {
        let owned: usize = self.owners.iter().map(|(_, of)| of.count).sum();
        assert_eq!(owned, self.tasks.len(), "each task has an owner");
        for (key, of) in self.owners.iter() {
            let tasks = of.tasks.iter(&self.tasks).filter(|(_, task)| task.owner == key);
            let listed: Vec<usize> = tasks.map(|(_, task)| task.len()).collect();
            assert_eq!((listed.len(), of.count > 0), (of.count, true), "the tasks of an owner");
            assert_eq!(listed.iter().sum::<usize>(), of.bytes, "the bytes of an owner");
        }
    }
}
