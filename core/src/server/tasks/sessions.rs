//! Ends of sessions: the tasks of a session end with it, because no other party may use them.

use super::TaskContext;
use super::entry::Owner;
use super::host::ServerTasks;
use crate::rpc::RpcError;
use crate::server::event::CancelReason;
use crate::slab::Key;
use crate::time::Instant;

impl ServerTasks {
    /// Ends the tasks of a session at a time, unless the server is shut down before.
    pub(super) fn end_tasks_of(&mut self, cx: &mut TaskContext<'_>, session: Key, at: Instant) {
        if at <= cx.endpoint.now {
            return self.end_session_tasks(cx, session);
        }
        // Also if it has no tasks yet: a call that still runs may become one.
        let place = self.leaving.partition_point(|(other, _)| *other <= at);
        self.leaving.insert(place, (at, session));
    }

    /// Ends the tasks of the sessions whose time is over.
    pub(super) fn end_left_sessions(&mut self, cx: &mut TaskContext<'_>) {
        let due = self.leaving.partition_point(|(at, _)| *at <= cx.endpoint.now);
        for (_, session) in self.leaving.drain(..due).collect::<alloc::vec::Vec<_>>() {
            // After the shutdown the next process has them.
            if !self.is_closing(cx) {
                self.end_session_tasks(cx, session);
            }
        }
    }

    fn end_session_tasks(&mut self, cx: &mut TaskContext<'_>, session: Key) {
        for task in self.table.tasks_of(&Owner::Session(session)) {
            self.discard(cx, task, CancelReason::Disconnected, &RpcError::internal("the session has ended"));
        }
        self.run_next(cx);
    }
}
