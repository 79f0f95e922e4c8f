//! Notifications about tasks: `notifications/tasks` for listeners (TASK-126), `notifications/tasks/status` for the
//! session that created a task (TASK-025).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::TaskContext;
use super::host::{RETRY_DELAY, ServerTasks};
#[cfg(any(fuzzing, test))]
use super::table::TaskTable;
use super::write::{Detail, write_members};
use crate::json::write_str;
use crate::meta;
use crate::methods;
use crate::rpc::{RequestId, encode};
use crate::server::channel::session;
use crate::slab::Key;
use crate::version::Version;

/// Listeners of tasks: parts of `subscriptions/listen` requests.
///
/// Notifications are level-triggered: a listener that does not read gets the latest state when it does.
#[derive(Debug, Default)]
pub(super) struct TaskListeners {
    /// By task and channel; the value says whether a notification waits for room.
    by_task: BTreeMap<(Key, Key, RequestId), bool>,
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
        let of_channel = self.by_channel.keys().filter(|(other, _)| *other == channel);
        let removed = of_channel.filter(|(_, other)| id.is_none_or(|id| other == id)).cloned();
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

    fn of_task(&self, task: Key) -> Vec<(Key, RequestId)> {
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

impl ServerTasks {
    /// Tells those who want to know that the state of a task has changed.
    pub(super) fn notify(&mut self, cx: &mut TaskContext<'_>, task: Key) {
        let Some(entry) = self.table.get(task).filter(|entry| entry.status().is_some()) else { return };
        if entry.version >= Version::V2026_07_28 {
            return self.notify_listeners(cx, task);
        }
        let Some(channel) = entry.session else { return };
        let high_water = cx.endpoint.limits.outbox_high_water;
        let can_receive = session(cx.endpoint, channel).is_some_and(|s| s.initialized && !s.is_stateless)
            && cx.endpoint.channels.get(channel).is_some_and(|c| {
                // Clients do not rely on it, so it does not wait for a stream or for room.
                !c.role.stream.has_no_get_stream() && c.outbox.len() < high_water && c.input_end.is_none()
            });
        if can_receive {
            cx.endpoint.send(channel, |out| {
                encode::notification_head(out, methods::TASK_STATUS);
                out.extend_from_slice(b",\"params\":{");
                write_members(out, entry, Detail::Bare);
                out.push(b'}');
                encode::end(out);
            });
        }
    }

    /// Sends the state of a task to its listeners.
    pub(super) fn notify_listeners(&mut self, cx: &mut TaskContext<'_>, task: Key) {
        for (channel, id) in self.listeners.of_task(task) {
            self.notify_listener(cx, task, channel, id);
        }
    }

    fn notify_listener(&mut self, cx: &mut TaskContext<'_>, task: Key, channel: Key, id: RequestId) {
        let Some(entry) = self.table.get(task) else { return };
        let high_water = cx.endpoint.limits.outbox_high_water;
        let Some(c) = cx.endpoint.channels.get(channel).filter(|c| !c.closed) else { return };
        let is_full = c.outbox.len() >= high_water;
        if !is_full {
            cx.endpoint.send(channel, |out| {
                encode::notification_head(out, methods::TASK_CHANGED);
                out.extend_from_slice(b",\"params\":{");
                write_members(out, entry, Detail::Full);
                out.extend_from_slice(b",\"_meta\":{");
                write_str(out, meta::SUBSCRIPTION_ID);
                out.push(b':');
                id.write(out);
                out.extend_from_slice(b"}}");
                encode::end(out);
            });
        } else {
            self.retry_at.get_or_insert(cx.endpoint.now + RETRY_DELAY);
        }
        if let Some(waits) = self.listeners.by_task.get_mut(&(task, channel, id)) {
            *waits = is_full;
        }
    }

    /// Sends the notifications that found no room.
    pub(super) fn retry_notifications(&mut self, cx: &mut TaskContext<'_>) {
        let waiting = self.listeners.by_task.iter().filter(|(_, waits)| **waits);
        for (task, channel, id) in waiting.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.notify_listener(cx, task, channel, id);
        }
    }
}
