//! Tasks: tool calls whose results are collected later (TASK).
//!
//! The engine knows them as a trait object, so that a server without tasks is linked without this code. The states are in
//! the [table](table), which knows no connection. The rest connects it with calls, sessions and listeners.

mod access;
#[cfg(all(test, feature = "crypto"))]
mod bounds_tests;
mod call;
#[cfg(feature = "crypto")]
mod collect;
#[cfg(feature = "crypto")]
pub(super) mod commands;
#[cfg(feature = "crypto")]
mod entry;
#[cfg(feature = "crypto")]
mod held;
#[cfg(feature = "crypto")]
mod host;
#[cfg(all(test, feature = "crypto"))]
mod host_tests;
#[cfg(feature = "crypto")]
mod keys;
#[cfg(feature = "crypto")]
pub(super) mod limits;
#[cfg(feature = "crypto")]
mod listeners;
#[cfg(feature = "crypto")]
mod notify;
pub(super) mod offer;
#[cfg(feature = "crypto")]
pub(super) mod options;
#[cfg(feature = "crypto")]
mod owners;
#[cfg(feature = "crypto")]
pub(super) mod record;
#[cfg(feature = "crypto")]
mod requests;
#[cfg(feature = "crypto")]
mod runs;
#[cfg(all(test, feature = "crypto"))]
mod schedule_tests;
#[cfg(feature = "crypto")]
mod sessions;
#[cfg(feature = "crypto")]
mod store;
#[cfg(feature = "crypto")]
pub(super) mod store_queue;
#[cfg(feature = "crypto")]
pub(super) mod table;
#[cfg(all(test, feature = "crypto"))]
mod table_tests;
#[cfg(feature = "crypto")]
mod waiting;
#[cfg(feature = "crypto")]
mod write;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;

#[cfg(feature = "crypto")]
use options::TaskOptions;
#[cfg(feature = "crypto")]
use record::TaskRecordError;
#[cfg(feature = "crypto")]
use store_queue::StoreEffect;

use super::channel::ServerEndpoint;
use super::config::Config;
use offer::TaskOffer;

use super::event::{Call, Event};
use super::request_check::MessageSource;
use super::retry::CarriedAnswer;
use crate::built::{Part, Tasking};
use crate::calls::inbound::{InputOutcome, Progress, SendStatus};
use crate::error::UseError;
use crate::model::{InputRequests, TaskId};
use crate::rpc::envelope::ParamsSpans;
use crate::rpc::{RequestId, RpcError};
use crate::slab::Key;
use crate::time::Instant;
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
    #[cfg(any(fuzzing, test))]
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
