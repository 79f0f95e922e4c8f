//! Tasks: tool calls whose results are collected later (TASK).
//!
//! The engine knows them as a trait object, so that a server without tasks is linked without this code. The states are in
//! the [table](table), which knows no connection. The rest connects it with calls, sessions and listeners.

#[cfg(all(test, feature = "crypto"))]
mod bounds_tests;
#[cfg(feature = "crypto")]
mod collect;
#[cfg(feature = "crypto")]
mod entry;
#[cfg(feature = "crypto")]
mod host;
#[cfg(all(test, feature = "crypto"))]
mod host_tests;
#[cfg(feature = "crypto")]
pub(super) mod record;
#[cfg(feature = "crypto")]
pub(super) mod requests;
#[cfg(feature = "crypto")]
mod runs;
#[cfg(all(test, feature = "crypto"))]
mod schedule_tests;
#[cfg(feature = "crypto")]
pub(super) mod store;
#[cfg(feature = "crypto")]
pub(super) mod table;
#[cfg(all(test, feature = "crypto"))]
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
use super::receive::CarriedAnswer;
use super::request_check::MessageSource;
use crate::built::{Part, Tasking};
use crate::calls::inbound::{InputOutcome, Progress, SendStatus};
use crate::error::UseError;
use crate::identity::Capabilities;
use crate::methods::Capability;
use crate::model::{ClientCapabilities, InputRequests, TaskId};
use crate::rpc::envelope::ParamsSpans;
use crate::rpc::{RequestId, RpcError, code};
use crate::slab::Key;
use crate::time::Instant;
use crate::version::Version;
#[cfg(feature = "crypto")]
use record::TaskRecordError;
#[cfg(feature = "crypto")]
use requests::TaskOptions;
#[cfg(feature = "crypto")]
use store::StoreEffect;

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

/// The tasks of an engine.
pub(super) trait TaskHost: fmt::Debug + Send + Sync {
    /// Returns the channel of the calls that run tasks. No connection belongs to it.
    fn channel(&self) -> Key;

    /// Returns the number of calls in the table of calls that no handler works at, or whose handlers run a task.
    fn held_calls(&self) -> usize;

    /// Returns whether a call may or must become a task.
    ///
    /// # Errors
    ///
    /// The error response: the requested time to live is not valid.
    fn offer(&self, version: Version, call: &Call) -> Result<TaskOffer, RpcError>;

    /// Answers a request about tasks, now or later.
    fn answer(&mut self, cx: &mut TaskContext<'_>, request: &TaskRequestFrame<'_>);

    /// Returns the tasks of a filter that the client may listen to (TASK-126).
    ///
    /// # Errors
    ///
    /// The error response: the client did not declare the extension (TASK-125).
    fn accept_listener(
        &mut self,
        cx: &TaskContext<'_>,
        request: &TaskRequestFrame<'_>,
        ids: &[TaskId],
    ) -> Result<Vec<TaskId>, RpcError>;

    /// Registers a listener for tasks that were accepted.
    fn listen(&mut self, cx: &mut TaskContext<'_>, channel: Key, id: &RequestId, ids: &[TaskId]);

    /// Removes the listener with this id of a channel, or all of the channel.
    fn unlisten(&mut self, channel: Key, id: Option<&RequestId>);

    /// Ends the run of a task with the answer of its handler.
    fn finish_run(&mut self, cx: &mut TaskContext<'_>, run: Key, answer: RunAnswer<'_>);

    /// Keeps the input requests of a run, which is delivered again with their answers.
    ///
    /// # Errors
    ///
    /// [`UseError::Full`], [`UseError::Stale`], [`UseError::ReservedKey`] or an encoding error.
    fn need_input(
        &mut self,
        cx: &mut TaskContext<'_>,
        call: &Call,
        requests: &InputRequests<'_>,
        state: &[u8],
        answers: &[CarriedAnswer<'_>],
    ) -> Result<(), UseError>;

    /// Cancels a request that asks a question of a task and was not answered in time.
    fn cancel_question(&mut self, cx: &mut TaskContext<'_>, task: Key, request: Key, reason: &str);

    /// Records the outcome of a request that asked a question of a task.
    fn finish_question(&mut self, cx: &mut TaskContext<'_>, task: Key, request: Key, outcome: InputOutcome);

    /// Forgets a call that waits for a task: its client cancelled it or is gone. Returns false if it does not wait.
    fn release(&mut self, cx: &mut TaskContext<'_>, call: Key) -> bool;

    /// Ends the requests that wait for tasks on a stream whose client has left it.
    #[cfg(feature = "exchanges")]
    fn abandon(&mut self, cx: &mut TaskContext<'_>, stream: Key);

    /// Ends the tasks that belong to a session at a time, unless the server is shut down before.
    fn end_session(&mut self, cx: &mut TaskContext<'_>, session: Key, at: Instant);

    /// Returns the session that created the task of a run.
    fn session_of_run(&self, endpoint: &ServerEndpoint, run: Key) -> Option<Key>;

    /// Reports progress of a run to the client that asked for it (TASK-033).
    fn report_progress(&mut self, cx: &mut TaskContext<'_>, run: Key, progress: &Progress) -> SendStatus;

    /// Processes the deadlines that have passed.
    fn handle_timeout(&mut self, cx: &mut TaskContext<'_>);

    /// Frees spare memory.
    fn trim(&mut self);

    /// Returns the number of tasks.
    fn len(&self) -> usize;

    /// Returns how many tasks may run at a time.
    fn max_running(&self) -> usize;

    /// Makes a call a task: its client is told, and the call is delivered again as a run of the task.
    ///
    /// # Errors
    ///
    /// The call stays open. [`UseError::Stale`], [`UseError::Full`], [`UseError::MissingPeerCapability`] without an
    /// offer.
    #[cfg(feature = "crypto")]
    fn begin(&mut self, cx: &mut TaskContext<'_>, call: &Call, options: TaskOptions) -> Result<(), UseError>;

    /// Sets the message of the task that a call runs. Returns whether it changed.
    fn set_message(&mut self, cx: &mut TaskContext<'_>, run: Key, message: &str) -> bool;

    /// Returns the next thing that the store has to do.
    #[cfg(feature = "crypto")]
    fn poll_store(&mut self) -> Option<StoreEffect>;

    /// Returns whether the store has everything.
    fn is_saved(&self) -> bool;

    /// Takes the outcome of a save.
    fn handle_saved(&mut self, cx: &mut TaskContext<'_>, id: &TaskId, version: u32, is_ok: bool);

    /// Takes the outcome of a deletion.
    fn handle_deleted(&mut self, cx: &mut TaskContext<'_>, id: &TaskId, version: u32, is_ok: bool);

    /// Restores a task from its record. Returns false if it has expired.
    ///
    /// # Errors
    ///
    /// [`TaskRecordError`].
    #[cfg(feature = "crypto")]
    fn load(&mut self, cx: &mut TaskContext<'_>, id: &TaskId, record: &[u8])
    -> Result<bool, TaskRecordError>;

    /// Returns the bytes that are kept for tasks, and the lengths of all tables and queues.
    #[cfg(all(test, feature = "crypto"))]
    fn sizes(&self, endpoint: &ServerEndpoint) -> Vec<usize>;

    /// Panics if a sum differs from what it sums.
    #[cfg(any(debug_assertions, test))]
    fn check_sums(&self, endpoint: &ServerEndpoint);
}

/// Ends the listeners for tasks of a `subscriptions/listen`, or of a channel.
pub(super) fn unlisten(
    tasks: &mut Option<Part<Tasking, dyn TaskHost>>,
    channel: Key,
    id: Option<&RequestId>,
) {
    if let Some(tasks) = tasks {
        tasks.unlisten(channel, id);
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

/// The bits of the id of a task that a call runs. `Debug` omits them.
#[derive(Clone, Copy)]
pub(super) struct RunId([u8; 16]);

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
        self.tasks.as_deref().is_some_and(|tasks| {
            self.endpoint.inbound.calls.get(call).is_some_and(|record| record.channel == tasks.channel())
        })
    }

    /// Ends the tasks of a session that has ended, after a grace period. At a shutdown they are left to the next process.
    pub(super) fn end_session_tasks(&mut self, channel: Key, grace: Duration) {
        let is_session = self.endpoint.channels.get(channel).is_some_and(|c| c.role.session.is_some());
        if is_session && !self.shutting_down {
            self.with_tasks(|tasks, cx| tasks.end_session(cx, channel, cx.endpoint.now + grace));
        }
    }

    /// Does something with the tasks, if there are any, and closes the channels on which it ended the last call.
    pub(super) fn with_tasks<R>(
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
    #[cfg(feature = "crypto")]
    #[must_use]
    pub fn task_id(&self) -> Option<TaskId> {
        match self.task {
            CallTask::Offer(_) => None,
            CallTask::Run(run) => {
                let text = crate::tasks::text::TaskBits(run.0).text();
                Some(TaskId::new(core::str::from_utf8(&text).unwrap_or_default()))
            }
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
