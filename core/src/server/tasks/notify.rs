//! Notifications about tasks: `notifications/tasks` for listeners (TASK-126), `notifications/tasks/status` for the
//! session that created a task (TASK-025).

use alloc::vec::Vec;

use super::TaskContext;
use super::host::{RETRY_DELAY, ServerTasks};
use super::write::{Detail, text_room, write_members};
use crate::json::write_str;
use crate::meta;
use crate::methods;
use crate::rpc::{RequestId, encode};
use crate::server::channel::session;
use crate::slab::Key;
use crate::version::Version;

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
            cx.endpoint.send(channel, text_room(entry), |out| {
                encode::notification_head(out, methods::TASK_STATUS);
                out.extend_from_slice(b",\"params\":{");
                write_members(out, entry, Detail::Bare);
                out.push(b'}');
                encode::end(out);
            });
        }
    }

    /// Sends the state of a task to its listeners.
    fn notify_listeners(&mut self, cx: &mut TaskContext<'_>, task: Key) {
        for (channel, id) in self.listeners.of_task(task) {
            self.notify_listener(cx, task, channel, id);
        }
    }

    pub(super) fn notify_listener(
        &mut self,
        cx: &mut TaskContext<'_>,
        task: Key,
        channel: Key,
        id: RequestId,
    ) {
        let Some(entry) = self.table.get(task) else { return };
        let high_water = cx.endpoint.limits.outbox_high_water;
        let Some(c) = cx.endpoint.channels.get(channel).filter(|c| !c.closed) else { return };
        let is_full = c.outbox.len() >= high_water;
        let is_sent = !is_full
            && cx.endpoint.send(channel, text_room(entry), |out| {
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
        if !is_sent {
            self.retry_at.get_or_insert(cx.endpoint.now + RETRY_DELAY);
        }
        if let Some(waits) = self.listeners.by_task.get_mut(&(task, channel, id)) {
            *waits = !is_sent;
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
