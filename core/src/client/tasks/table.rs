//! The table of followed tasks as the rest of the client reaches it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::calls::outbound::CallTask;
use crate::client::common::CommonState;
use crate::client::tasks::polling::TaskSupport;
use crate::error::{CallError, UseError};
use crate::json::{EncodeError, ShapeTable, TopLevelMembers};
use crate::model::{Task, TaskId};
use crate::raw::RawJson;
use crate::slab::Key;

/// Writes an answer in the shape of a revision.
pub(in crate::client) type WriteAnswer<'a> =
    &'a mut dyn FnMut(&mut Vec<u8>, Option<&'static ShapeTable>) -> Result<TopLevelMembers, EncodeError>;

/// The end of a call that follows a task, if it has one now.
pub(in crate::client) type TaskOutcome = Option<Result<RawJson, CallError>>;

/// Meaning of a deadline of a call that follows a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::client) enum TaskDeadline {
    /// It was handled.
    None,
    /// The input has not come in time.
    InputTimedOut,
}

/// Tasks that calls follow; [`FollowedTasks`](super::FollowedTasks) has the meanings.
pub(in crate::client) trait TaskTable: fmt::Debug + Send + Sync {
    /// Returns whether there is nothing to keep.
    fn is_empty(&self) -> bool;
    /// Returns whether a call follows a task.
    fn is_followed(&self, call: Key) -> bool;
    /// Returns a call that follows the task with this id.
    fn call_of(&self, id: &TaskId) -> Option<Key>;
    /// Returns whether a request is one for notifications about a task.
    fn is_listen(&self, common: &CommonState, request: Key) -> bool;
    /// Reads the result of a call. `None` means that the call ends with it.
    fn read(&self, role: CallTask, result: &RawJson) -> Result<Option<Box<Task<'static>>>, CallError>;
    /// Begins to follow the task that a call has created.
    fn begin(&mut self, common: &mut CommonState, call: Key, task: Box<Task<'static>>) -> TaskOutcome;
    /// Begins to wait for a task that was created before: its state is requested now.
    fn wait(&mut self, common: &mut CommonState, call: Key, id: &TaskId);
    /// Cancels a task that was created for a call which has ended, unless another call follows it.
    fn cancel_late(&mut self, common: &mut CommonState, result: &RawJson);
    /// Handles the answer to a request about a task. The call may have ended.
    fn receive_outcome(
        &mut self,
        common: &mut CommonState,
        request: Key,
        call: Key,
        outcome: Result<RawJson, CallError>,
    ) -> TaskOutcome;
    /// Handles a notification about a task. Returns the calls with their outcomes, or `None` if no call follows it.
    fn receive_notification(
        &mut self,
        common: &mut CommonState,
        params: &RawJson,
    ) -> Option<Vec<(Key, TaskOutcome)>>;
    /// Counts a request of the server that belongs to the task of a call (2025-11-25). `is_alone` tells that no other one
    /// is open.
    ///
    /// # Errors
    ///
    /// The outcome of the call, after too many rounds.
    fn count_question(&mut self, common: &CommonState, call: Key, is_alone: bool) -> Result<(), CallError>;
    /// Handles a deadline of a call that is not its total timeout.
    fn handle_deadline(&mut self, common: &mut CommonState, call: Key) -> TaskDeadline;
    /// Sends the cancellations that are due again.
    fn handle_timeout(&mut self, common: &mut CommonState);
    /// Ends what was begun for a call that has ended: requests, input requests, and the task itself if the call created
    /// it and it still runs (TASK-028, TASK-122).
    fn end(&mut self, common: &mut CommonState, call: Key, outcome: &Result<RawJson, CallError>);
    /// Records an answer and sends it.
    ///
    /// # Errors
    ///
    /// As [`Engine::answer`](crate::client::Engine::answer).
    fn answer(
        &mut self,
        common: &mut CommonState,
        serial: u64,
        write: WriteAnswer<'_>,
    ) -> Result<(), UseError>;
    /// Removes an input request that the application refuses. Returns its call.
    fn take_refused(&mut self, serial: u64) -> Option<Key>;
}

/// Makes the table of a configuration with tasks.
pub(in crate::client) fn new_table(support: TaskSupport) -> Option<Box<dyn TaskTable>> {
    Some(*(support.new_table)().downcast::<Box<dyn TaskTable>>().ok()?)
}
