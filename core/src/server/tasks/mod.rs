//! Tasks: tool calls whose results are collected later (TASK).
//!
//! The feature `tasks` leaves them out of a build. The states are in the [table](table), which knows no connection. The rest
//! connects it with calls, sessions and listeners.

#[cfg(test)]
mod bounds_tests;
mod collect;
mod entry;
pub(super) mod host;
#[cfg(all(test, feature = "tasks"))]
mod host_tests;
pub(super) mod record;
pub(super) mod requests;
mod runs;
#[cfg(test)]
mod schedule_tests;
pub(super) mod store;
#[cfg(test)]
mod store_tests;
pub(super) mod table;
#[cfg(test)]
mod table_tests;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use bytes::Bytes;

use super::channel::ServerEndpoint;
use super::config::Config;
use super::engine::Engine;
use super::event::{Call, Event};
use super::request_check::MessageSource;
use crate::built::{Part, Tasking};
use crate::identity::Capabilities;
use crate::methods::Capability;
use crate::model::{ClientCapabilities, TaskId};
use crate::rpc::envelope::ParamsSpans;
use crate::rpc::{RequestId, RpcError, code};
use crate::slab::Key;
use crate::tasks::text::TaskBits;
use crate::version::Version;
use host::ServerTasks;

/// The parts of the engine that tasks use.
#[derive(Debug)]
pub(super) struct TaskContext<'e> {
    pub(super) endpoint: &'e mut ServerEndpoint,
    pub(super) config: &'e Config,
    pub(super) events: &'e mut VecDeque<Event>,
    /// Channels on which a call has ended.
    pub(super) ended: Vec<Key>,
}

/// A request of a client for the tasks.
pub(super) struct TaskRequestFrame<'a> {
    pub(super) source: MessageSource<'a>,
    pub(super) id: &'a RequestId,
    pub(super) method: &'a str,
    pub(super) frame: &'a Bytes,
    pub(super) params: &'a ParamsSpans,
}

/// Answer of a handler to the run of a task.
#[derive(Clone, Copy, Debug)]
pub(super) enum RunAnswer<'a> {
    /// A result object.
    Result(&'a [u8]),
    /// An error.
    Error(&'a RpcError),
}

/// Ends the listeners for tasks of a `subscriptions/listen`, or of a channel.
pub(super) fn unlisten(tasks: &mut Part<Tasking, ServerTasks>, channel: Key, id: Option<&RequestId>) {
    if let Some(tasks) = tasks.as_mut() {
        tasks.listeners.remove(channel, id);
    }
}

// The relation of a call to tasks: it may become one, or it runs one.

/// Whether a call may become a task ([`Call::task_offer`](super::Call::task_offer)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum TaskOffer {
    /// It must be answered directly: its client does not know tasks, or the server has none.
    #[default]
    None,
    /// It may become a task, at the choice of the server (2026-07-28; TASK-103).
    Allowed,
    /// Its client asks for a task (2025-11-25; TASK-009).
    Requested,
}

/// The id of a task that a call runs. `Debug` omits it.
#[derive(Clone, Copy)]
pub(super) struct RunId(TaskBits);

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunId(…)")
    }
}

/// The relation of a call to tasks.
#[derive(Clone, Copy, Debug)]
pub(super) enum CallTask {
    Offer(TaskOffer),
    Run(RunId),
}

// Access of the engine to its tasks.

impl Engine {
    /// Returns whether a call runs a task.
    #[inline]
    pub(super) fn is_run(&self, call: Key) -> bool {
        self.tasks.as_ref().is_some_and(|tasks| {
            self.endpoint.inbound.calls.get(call).is_some_and(|record| record.channel == tasks.channel)
        })
    }

    /// Ends the tasks of a session that has ended, after a grace period. At a shutdown they are left to the next process.
    pub(super) fn end_session_tasks(&mut self, channel: Key, grace: Duration) {
        let is_session = self.endpoint.channels.get(channel).is_some_and(|c| c.role.session.is_some());
        if is_session && !self.shutting_down {
            self.with_tasks(|tasks, cx| tasks.end_tasks_of(cx, channel, cx.endpoint.now + grace));
        }
    }

    /// Does something with the tasks, if there are any, and closes the channels on which it ended the last call.
    pub(super) fn with_tasks<R>(
        &mut self,
        act: impl FnOnce(&mut ServerTasks, &mut TaskContext<'_>) -> R,
    ) -> Option<R> {
        let tasks = self.tasks.as_mut()?;
        let mut cx = TaskContext {
            endpoint: &mut self.endpoint,
            config: &self.config,
            events: &mut self.events,
            ended: Vec::new(),
        };
        let result = act(tasks, &mut cx);
        tasks.arm(&mut cx);
        // Only now: closing needs the whole engine, of which `act` borrows parts.
        for channel in cx.ended {
            self.close_if_finished(channel);
        }
        Some(result)
    }
}

// Tasks as a call declares them: whether it may become one, and which one it runs.

impl Call {
    /// Returns whether the call may or must become a task ([`Tasks::begin`](super::Tasks::begin)).
    ///
    /// Always [`TaskOffer::None`] for a call that runs a task, and for methods other than `tools/call`.
    #[must_use]
    pub const fn task_offer(&self) -> TaskOffer {
        match self.task {
            CallTask::Offer(offer) => offer,
            CallTask::Run(_) => TaskOffer::None,
        }
    }

    /// Returns the id of the task that the call runs; `None` for a call that its client waits for.
    ///
    /// A call that runs a task is answered as any other. Its [`channel`](Self::channel) belongs to no connection.
    #[must_use]
    pub fn task_id(&self) -> Option<TaskId> {
        match self.task {
            CallTask::Offer(_) => None,
            CallTask::Run(run) => Some(run.0.id()),
        }
    }

    /// Returns whether the call runs a task.
    #[must_use]
    pub const fn is_task_run(&self) -> bool {
        matches!(self.task, CallTask::Run(_))
    }

    /// Returns the error for a call that can only be served as a task, and whose client does not offer that (TASK-007,
    /// TASK-104).
    #[must_use]
    pub fn task_required_error(&self) -> RpcError {
        if self.version < Version::V2026_07_28 {
            let message = alloc::format!("{} must be called as a task", self.describe_target());
            return RpcError::new(code::METHOD_NOT_FOUND, message);
        }
        extension_required_error()
    }

    /// Returns the error for a call whose client asks for a task of a tool that runs as none (TASK-005).
    #[must_use]
    pub fn task_forbidden_error(&self) -> RpcError {
        let message = alloc::format!("{} cannot be called as a task", self.describe_target());
        RpcError::new(code::METHOD_NOT_FOUND, message)
    }
}

/// Returns the error for a client that did not declare the extension (TASK-104, TASK-125).
fn extension_required_error() -> RpcError {
    let required = ClientCapabilities::from(&Capabilities::new().with(Capability::TasksExtension));
    RpcError::missing_client_capability(required)
        .unwrap_or_else(|_| RpcError::internal("the client lacks a capability that this needs"))
}
