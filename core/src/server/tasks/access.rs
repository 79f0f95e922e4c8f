//! Access of the engine to its tasks.

use alloc::vec::Vec;
use core::time::Duration;

use super::super::engine::Engine;
use super::{TaskContext, TaskHost};
use crate::slab::Key;

impl Engine {
    /// Returns whether a call runs a task.
    #[inline]
    pub(in crate::server) fn is_run(&self, call: Key) -> bool {
        self.tasks.as_deref().is_some_and(|tasks| {
            self.endpoint.inbound.calls.get(call).is_some_and(|record| record.channel == tasks.channel())
        })
    }

    /// Ends the tasks of a session that has ended, after a grace period. At a shutdown they are left to the next process.
    pub(in crate::server) fn end_session_tasks(&mut self, channel: Key, grace: Duration) {
        let is_session = self.endpoint.channels.get(channel).is_some_and(|c| c.role.session.is_some());
        if is_session && !self.shutting_down {
            self.with_tasks(|tasks, cx| tasks.end_session(cx, channel, cx.endpoint.now + grace));
        }
    }

    /// Does something with the tasks, if there are any, and closes the channels on which it ended the last call.
    pub(in crate::server) fn with_tasks<R>(
        &mut self,
        act: impl FnOnce(&mut dyn TaskHost, &mut TaskContext<'_>) -> R,
    ) -> Option<R> {
        let tasks = self.tasks.as_deref_mut()?;
        let mut cx = TaskContext {
            endpoint: &mut self.endpoint,
            config: &self.config,
            events: &mut self.events,
            ended: Vec::new(),
        };
        let result = act(tasks, &mut cx);
        for channel in cx.ended {
            self.close_if_finished(channel);
        }
        Some(result)
    }
}
