//! Calls that become tasks, and those that wait for one.

use serde::Serialize;

use super::calls::Calls;
use super::common::CommonState;
use super::tasks::{TaskDeadline, TaskOutcome, TaskTable, new_table};
use crate::calls::outbound::{CallPurpose, CallTask, ResponseMatch};
use crate::error::{CallError, UseError};
use crate::json::Serializer;
use crate::raw::RawJson;
use crate::rpc::{RequestId, RpcError, code};
use crate::slab::Key;

impl Calls {
    /// Returns whether a result of this type may be that of the request: a task, or the state of one.
    ///
    /// The type is expected where a call becomes a task. Examples of the extension write it in states, too (TASK-133).
    pub(super) fn may_have_task(&self, common: &CommonState, key: Key) -> bool {
        let calls = &common.endpoint.outbound.calls;
        let is_about_task = calls.get(key).is_some_and(|call| matches!(call.purpose, CallPurpose::Task(_)));
        is_about_task || calls.get(common.original_call(key)).is_some_and(|call| call.task != CallTask::None)
    }

    /// Returns whether a call was answered by a task, or is in 2025-11-25. No notification cancels it.
    pub(super) fn is_answered_by_task(&self, common: &CommonState, call: Key) -> bool {
        let task = common.endpoint.outbound.calls.get(call).map(|call| call.task);
        // CANC-009: a task that is created after the end of its call is cancelled by its id.
        let will_be = !common.is_modern() && matches!(task, Some(CallTask::Follow | CallTask::Report));
        will_be || self.tasks.as_ref().is_some_and(|tasks| tasks.is_followed(call))
    }

    /// Returns the error of a call whose request was answered by one: that of a wait says that there is no such task
    /// (TASK-031, TASK-124).
    pub(super) fn wait_error(&self, common: &CommonState, key: Key, error: CallError) -> CallError {
        let task = common.endpoint.outbound.calls.get(common.original_call(key)).map(|call| call.task);
        match error {
            CallError::Rpc(error) if error.code == code::INVALID_PARAMS && task == Some(CallTask::Wait) => {
                CallError::TaskLost(error)
            }
            error => error,
        }
    }

    /// Handles the result of a call that may be a task. Returns the result if it is none.
    pub(super) fn receive_task(
        &mut self,
        common: &mut CommonState,
        key: Key,
        result: RawJson,
    ) -> Option<RawJson> {
        let call = common.original_call(key);
        let role = common.endpoint.outbound.calls.get(call)?.task;
        let Some(tasks) = self.tasks_table(common) else { return Some(result) };
        let Some(task) = tasks.read(role, &result).transpose() else { return Some(result) };
        let call = self.finish_retry(common, key);
        self.end_rounds(common, call);
        let outcome = match task {
            Ok(task) => self.tasks.as_mut()?.begin(common, call, task),
            Err(error) => Some(Err(error)),
        };
        self.finish_followed(common, call, outcome);
        None
    }

    /// Cancels a task that was created for a call which has ended (CANC-009, TASK-122), unless another call follows it.
    pub(super) fn cancel_late_task(&mut self, common: &mut CommonState, result: &RawJson) {
        if let Some(tasks) = self.tasks_table(common) {
            tasks.cancel_late(common, result);
        }
    }

    /// Returns the table of tasks if the configuration has them. It is made now if there is none.
    fn tasks_table(&mut self, common: &CommonState) -> Option<&mut (dyn TaskTable + 'static)> {
        if self.tasks.is_none() {
            self.tasks = new_table(common.config.tasks?);
        }
        self.tasks.as_deref_mut()
    }

    fn finish_followed(&mut self, common: &mut CommonState, call: Key, outcome: TaskOutcome) {
        if let Some(outcome) = outcome {
            self.finish(common, call, outcome);
        }
    }

    /// Handles the answer to a request about the task of a call.
    pub(super) fn finish_task_request(
        &mut self,
        common: &mut CommonState,
        key: Key,
        call: Key,
        outcome: Result<RawJson, CallError>,
    ) {
        let Some(tasks) = &mut self.tasks else {
            common.endpoint.outbound.calls.remove(key);
            return;
        };
        let outcome = tasks.receive_outcome(common, key, call, outcome);
        self.finish_followed(common, call, outcome);
    }

    /// Handles a notification about a task; returns false if no call follows the task.
    pub(super) fn receive_task_notification(&mut self, common: &mut CommonState, params: &RawJson) -> bool {
        let Some(tasks) = &mut self.tasks else { return false };
        let Some(outcomes) = tasks.receive_notification(common, params) else { return false };
        for (call, outcome) in outcomes {
            self.finish_followed(common, call, outcome);
        }
        true
    }

    /// Handles the acknowledgment of a request for notifications about a task; returns false for any other.
    pub(super) fn receive_task_acknowledged(
        &self,
        common: &mut CommonState,
        channel: Key,
        params: &[u8],
    ) -> bool {
        let Some(request) = common.subscription_request(channel, params) else { return false };
        let is_listen = self.tasks.as_ref().is_some_and(|tasks| tasks.is_listen(common, request));
        if let Some(sent) = common.endpoint.outbound.calls.get_mut(request).filter(|_| is_listen) {
            sent.disable_timeouts();
        }
        is_listen
    }

    /// Handles the cancellation of a request for notifications about a task; returns false for any other.
    pub(super) fn task_listen_cancelled(
        &mut self,
        common: &mut CommonState,
        channel: Key,
        id: &RequestId,
    ) -> bool {
        let ResponseMatch::Live(request) = common.endpoint.match_response(channel, id) else { return false };
        let is_listen = self.tasks.as_ref().is_some_and(|tasks| tasks.is_listen(common, request));
        let purpose = common.endpoint.outbound.calls.get(request).map(|sent| sent.purpose);
        if let (true, Some(CallPurpose::Task(call))) = (is_listen, purpose) {
            self.finish_task_request(common, request, call, Err(CallError::Cancelled));
        }
        is_listen
    }

    /// Handles a deadline of a call that follows a task.
    pub(super) fn handle_task_deadline(&mut self, common: &mut CommonState, call: Key) {
        let now = common.endpoint.now;
        let Some(parked) = common.endpoint.outbound.calls.get(call) else { return };
        if now >= parked.total_deadline {
            return self.finish(common, call, Err(CallError::TotalTimedOut));
        }
        let Some(tasks) = &mut self.tasks else { return };
        match tasks.handle_deadline(common, call) {
            TaskDeadline::None => {}
            TaskDeadline::InputTimedOut => self.finish(common, call, Err(CallError::InputTimedOut)),
        }
    }

    /// Records the answer to an input request of a task.
    ///
    /// # Errors
    ///
    /// As [`Engine::answer`](super::Engine::answer).
    pub(super) fn answer_task<T: Serialize + ?Sized>(
        &mut self,
        common: &mut CommonState,
        serial: u64,
        response: &T,
    ) -> Result<(), UseError> {
        let tasks = self.tasks.as_mut().ok_or(UseError::Stale)?;
        tasks.answer(common, serial, &mut |text, table| Serializer::object(text, response, table))
    }

    /// Ends the call of an input request of a task that the application refuses.
    ///
    /// # Errors
    ///
    /// [`UseError::Stale`] if the input request has ended.
    pub(super) fn refuse_task(
        &mut self,
        common: &mut CommonState,
        serial: u64,
        error: &RpcError,
    ) -> Result<(), UseError> {
        let tasks = self.tasks.as_mut().ok_or(UseError::Stale)?;
        let call = tasks.take_refused(serial).ok_or(UseError::Stale)?;
        self.finish(common, call, Err(CallError::InputRefused(error.clone())));
        Ok(())
    }
}
