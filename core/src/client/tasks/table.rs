//! The table of followed tasks as the rest of the client reaches it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use super::{FollowedTasks, StateSource, TaskDeadline, TaskOutcome, cancel_task, read_state};
use crate::calls::outbound::CallTask;
use crate::client::common::CommonState;
use crate::client::tasks::polling::TaskSupport;
use crate::error::{CallError, UseError};
use crate::json::{EncodeError, ShapeTable, TopLevelMembers};
use crate::model::{Task, TaskId};
use crate::raw::RawJson;
use crate::slab::Key;
use crate::tasks::MAX_TASK_ID;

/// Writes an answer in the shape of a revision.
pub(in crate::client) type WriteAnswer<'a> =
    &'a mut dyn FnMut(&mut Vec<u8>, Option<&'static ShapeTable>) -> Result<TopLevelMembers, EncodeError>;

/// A task with what it was read from.
pub(in crate::client) type SourcedTask = (Box<Task<'static>>, StateSource);

/// Tasks that calls follow; [`FollowedTasks`] has the meanings.
pub(in crate::client) trait TaskTable: fmt::Debug + Send + Sync {
    fn is_empty(&self) -> bool;
    fn is_followed(&self, call: Key) -> bool;
    fn call_of(&self, id: &TaskId) -> Option<Key>;
    fn is_listen(&self, common: &CommonState, request: Key) -> bool;
    /// Reads the result of a call. `None` means that the call ends with it.
    fn read(&self, role: CallTask, result: &RawJson) -> Result<Option<SourcedTask>, CallError>;
    fn begin(&mut self, common: &mut CommonState, call: Key, task: SourcedTask) -> TaskOutcome;
    /// Cancels a task that was created for a call which has ended, unless another call follows it.
    fn cancel_late(&self, common: &mut CommonState, result: &RawJson);
    fn receive_outcome(
        &mut self,
        common: &mut CommonState,
        request: Key,
        call: Key,
        outcome: Result<RawJson, CallError>,
    ) -> TaskOutcome;
    fn receive_notification(
        &mut self,
        common: &mut CommonState,
        params: &RawJson,
    ) -> Option<Vec<(Key, TaskOutcome)>>;
    fn handle_deadline(&mut self, common: &mut CommonState, call: Key) -> TaskDeadline;
    fn end(&mut self, common: &mut CommonState, call: Key, outcome: &Result<RawJson, CallError>);
    fn answer(
        &mut self,
        common: &mut CommonState,
        serial: u64,
        write: WriteAnswer<'_>,
    ) -> Result<(), UseError>;
    fn take_refused(&mut self, serial: u64) -> Option<Key>;
}

impl TaskTable for FollowedTasks {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn is_followed(&self, call: Key) -> bool {
        self.is_followed(call)
    }

    fn call_of(&self, id: &TaskId) -> Option<Key> {
        self.call_of(id)
    }

    fn is_listen(&self, common: &CommonState, request: Key) -> bool {
        self.is_listen(common, request)
    }

    fn read(&self, role: CallTask, result: &RawJson) -> Result<Option<SourcedTask>, CallError> {
        match role {
            CallTask::Follow => match Task::from_result(result) {
                Ok(task) => Ok(task.map(|task| (Box::new(task.into_owned()), StateSource::Creation))),
                Err(error) => Err(CallError::InvalidTask { reason: alloc::format!("{error}") }),
            },
            CallTask::Wait => read_state(result).map(|task| Some((Box::new(task), StateSource::Poll))),
            CallTask::None | CallTask::Report | CallTask::Running => Ok(None),
        }
    }

    fn begin(&mut self, common: &mut CommonState, call: Key, (task, source): SourcedTask) -> TaskOutcome {
        self.begin(common, call, *task, source)
    }

    fn cancel_late(&self, common: &mut CommonState, result: &RawJson) {
        let Ok(Some(task)) = Task::from_result(result) else { return };
        if self.call_of(&task.task_id).is_none() && task.task_id.as_str().len() <= MAX_TASK_ID {
            cancel_task(common, None, &task.task_id);
        }
    }

    fn receive_outcome(
        &mut self,
        common: &mut CommonState,
        request: Key,
        call: Key,
        outcome: Result<RawJson, CallError>,
    ) -> TaskOutcome {
        self.receive_outcome(common, request, call, outcome)
    }

    fn receive_notification(
        &mut self,
        common: &mut CommonState,
        params: &RawJson,
    ) -> Option<Vec<(Key, TaskOutcome)>> {
        self.receive_notification(common, params)
    }

    fn handle_deadline(&mut self, common: &mut CommonState, call: Key) -> TaskDeadline {
        self.handle_deadline(common, call)
    }

    fn end(&mut self, common: &mut CommonState, call: Key, outcome: &Result<RawJson, CallError>) {
        self.end(common, call, outcome);
    }

    fn answer(
        &mut self,
        common: &mut CommonState,
        serial: u64,
        write: WriteAnswer<'_>,
    ) -> Result<(), UseError> {
        self.answer(common, serial, write)
    }

    fn take_refused(&mut self, serial: u64) -> Option<Key> {
        self.take_refused(serial)
    }
}

/// Makes the table of a configuration with tasks.
pub(in crate::client) fn new_table(support: TaskSupport) -> Option<Box<dyn TaskTable>> {
    Some(*(support.new_table)().downcast::<Box<dyn TaskTable>>().ok()?)
}
