//! Tasks: tool calls whose results are collected later (TASK).
//!
//! The engine knows them as a trait object, so that a server without tasks is linked without this code. The states are in
//! the [table](table), which knows no connection. The rest connects it with calls, sessions and listeners.

#[cfg(feature = "crypto")]
mod collect;
#[cfg(feature = "crypto")]
mod commands;
#[cfg(feature = "crypto")]
mod entry;
#[cfg(feature = "crypto")]
mod host;
#[cfg(feature = "crypto")]
mod limits;
#[cfg(feature = "crypto")]
mod listeners;
mod offer;
#[cfg(feature = "crypto")]
mod record;
#[cfg(feature = "crypto")]
mod requests;
#[cfg(feature = "crypto")]
mod runs;
#[cfg(feature = "crypto")]
mod store;
#[cfg(feature = "crypto")]
mod table;
#[cfg(all(test, feature = "crypto"))]
mod table_tests;
#[cfg(feature = "crypto")]
mod text;
#[cfg(feature = "crypto")]
mod write;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

#[cfg(feature = "crypto")]
pub use commands::{TaskOptions, Tasks};
#[cfg(feature = "crypto")]
pub use limits::TaskLimits;
pub(super) use offer::CallTask;
pub use offer::TaskOffer;
#[cfg(feature = "crypto")]
pub use store::StoreEffect;
#[cfg(feature = "crypto")]
pub use table::TaskTable;

use super::channel::ServerEndpoint;
use super::config::Config;
use super::engine::Engine;
use super::event::{Call, Event};
use super::request_check::MessageSource;
use super::retry::CarriedAnswer;
use crate::calls::inbound::{InputOutcome, Progress, SendStatus};
use crate::error::UseError;
use crate::model::{InputRequests, TaskId};
use crate::rpc::envelope::ParamsSpans;
use crate::rpc::{RequestId, RpcError};
use crate::slab::Key;
use crate::version::Version;

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

    /// Records the outcome of a request that asked a question of a task.
    fn finish_question(&mut self, cx: &mut TaskContext<'_>, task: Key, request: Key, outcome: InputOutcome);

    /// Forgets a call that waits for a task: its client cancelled it or is gone. Returns false if it does not wait.
    fn release(&mut self, cx: &mut TaskContext<'_>, call: Key) -> bool;

    /// Ends the requests that wait for tasks on a stream whose client has left it.
    #[cfg(feature = "exchanges")]
    fn abandon(&mut self, cx: &mut TaskContext<'_>, stream: Key);

    /// Returns the session that created the task of a run.
    fn session_of_run(&self, endpoint: &ServerEndpoint, run: Key) -> Option<Key>;

    /// Reports progress of a run to the client that asked for it (TASK-033).
    fn report_progress(&mut self, cx: &mut TaskContext<'_>, run: Key, progress: &Progress) -> SendStatus;

    /// Processes the deadlines that have passed.
    fn handle_timeout(&mut self, cx: &mut TaskContext<'_>);

    /// Frees spare memory.
    fn trim(&mut self);

    /// Returns the tasks themselves, for the commands of the application.
    #[cfg(feature = "crypto")]
    fn tasks(&mut self) -> &mut host::ServerTasks;

    /// Panics if a sum differs from what it sums.
    #[cfg(any(fuzzing, test))]
    fn check_sums(&self, endpoint: &ServerEndpoint);
}

impl Engine {
    /// Returns whether a call runs a task.
    #[inline]
    pub(super) fn is_run(&self, call: Key) -> bool {
        self.tasks.as_deref().is_some_and(|tasks| {
            self.endpoint.inbound.calls.get(call).is_some_and(|record| record.channel == tasks.channel())
        })
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
