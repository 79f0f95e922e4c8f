//! Listeners of tasks: parts of `subscriptions/listen` requests (TASK-126).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

#[cfg(any(fuzzing, test))]
use super::table::TaskTable;
use crate::rpc::RequestId;
use crate::slab::Key;

/// The listeners of tasks.
///
/// Notifications are level-triggered: a listener that does not read gets the latest state when it does.
#[derive(Debug, Default)]
pub(super) struct TaskListeners {
    /// By task and channel; the value says whether a notification waits for room.
    pub(super) by_task: BTreeMap<(Key, Key, RequestId), bool>,
    by_channel: BTreeMap<(Key, RequestId), Vec<Key>>,
}

impl TaskListeners {
    pub(super) fn add(&mut self, task: Key, channel: Key, id: &RequestId) {
        if self.by_task.insert((task, channel, id.clone()), false).is_none() {
            self.by_channel.entry((channel, id.clone())).or_default().push(task);
        }
    }

    /// Removes the listener with this id of a channel, or all of the channel.
    pub(super) fn remove(&mut self, channel: Key, id: Option<&RequestId>) {
        if self.by_channel.is_empty() {
            return;
        }
        // Integers are before texts.
        let first = (channel, id.cloned().unwrap_or(RequestId::int(i64::MIN)));
        let of_channel = self.by_channel.range(first..).map(|(key, _)| key);
        let removed =
            of_channel.take_while(|(other, at)| *other == channel && id.is_none_or(|id| at == id)).cloned();
        for key in removed.collect::<Vec<_>>() {
            for task in self.by_channel.remove(&key).unwrap_or_default() {
                self.by_task.remove(&(task, key.0, key.1.clone()));
            }
        }
    }

    pub(super) fn remove_task(&mut self, task: Key) {
        for (channel, id) in self.of_task(task) {
            self.by_task.remove(&(task, channel, id.clone()));
            let key = (channel, id);
            if let Some(tasks) = self.by_channel.get_mut(&key) {
                tasks.retain(|other| *other != task);
                if tasks.is_empty() {
                    self.by_channel.remove(&key);
                }
            }
        }
    }

    pub(super) fn of_task(&self, task: Key) -> Vec<(Key, RequestId)> {
        if self.by_task.is_empty() {
            return Vec::new();
        }
        let first = (task, Key { slot: 0, generation: 0 }, RequestId::int(i64::MIN));
        let of_task = self.by_task.range(first..).take_while(|((other, ..), _)| *other == task);
        of_task.map(|((_, channel, id), _)| (*channel, id.clone())).collect()
    }

    #[cfg(any(fuzzing, test))]
    pub(super) fn check(&self, table: &TaskTable) {
        assert!(self.by_task.keys().all(|(task, ..)| table.get(*task).is_some()), "a listener has a task");
        let listed: usize = self.by_channel.values().map(Vec::len).sum();
        assert_eq!(listed, self.by_task.len(), "both indexes of listeners agree");
    }
}
