//! Calls that become tasks, and those that wait for one.

use serde::Serialize;

use super::calls::{Calls, ToolCallParams};
use super::common::CommonState;
use super::config::Config;
use super::engine::Engine;
use super::event::Event;
use super::tasks::states::TaskPolling;
use super::tasks::{FollowedTasks, TaskHandle, TaskOutcome};
use crate::calls::endpoint::EndpointTimer;
use crate::calls::outbound::{
    CallKey, CallOptions, CallPurpose, CallStage, CallTask, OutboundCall, OutboundCalls, ProgressUse,
    ResponseMatch, TaskRequest,
};
use crate::calls::outbound_requests::WriteForm;
use crate::diagnostic::Diagnostic;
use crate::error::{CallError, UseError};
use crate::json::Serializer;
use crate::methods::{self, Capability};
use crate::model::{CancelTaskParams, GetTaskParams, TaskId};
use crate::raw::RawJson;
use crate::rpc::{RequestId, RpcError};
use crate::slab::Key;
use crate::sync::Arc;
use crate::time::Instant;
use crate::version::Version;

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

    /// Starts a call that waits for a task which was created before.
    pub(super) fn wait_task(
        &mut self,
        common: &mut CommonState,
        main: Key,
        id: &TaskId,
        options: &CallOptions,
    ) -> CallKey {
        let (now, purpose) = (common.endpoint.now, CallPurpose::Application);
        let call = OutboundCall::new(now, main, purpose, options, &common.endpoint.limits);
        if options.wants_progress {
            common.endpoint.outbound.read_progress();
        }
        let call = common.endpoint.outbound.calls.insert(call);
        if let Some(tasks) = self.tasks_table(common) {
            tasks.wait(common, call, id);
        }
        CallKey(call)
    }

    /// Reports the end of a call of 2025-11-25 whose answer may still create a task. Returns false for any other call.
    ///
    /// The request stays open for one more timeout: no notification may cancel it (CANC-009), and the task is cancelled
    /// by the id in the answer.
    pub(super) fn end_before_task(
        &mut self,
        common: &mut CommonState,
        call: Key,
        outcome: &CallError,
    ) -> bool {
        let may_become_task = self.is_answered_by_task(common, call);
        let now = common.endpoint.now;
        let max = common.endpoint.limits.effective_max_pending_calls();
        // The others leave room for calls.
        let has_room = common.endpoint.outbound.calls.len() <= max / 2;
        let Some(sent) = common.endpoint.outbound.calls.get(call) else { return false };
        if !may_become_task || !matches!(sent.stage, CallStage::Sent) {
            return false;
        }
        if !has_room {
            common.expire_request(call);
            return false;
        }
        let Some(sent) = common.endpoint.outbound.calls.abandon(call) else { return false };
        // The entry only has to recognize the answer, so what a repetition would need is freed.
        let retained = core::mem::take(&mut sent.retained).len();
        sent.progress = ProgressUse::None;
        sent.task = CallTask::None;
        sent.total_deadline = now + sent.timeout;
        sent.idle_deadline = sent.total_deadline;
        common.endpoint.deadlines.arm(sent.total_deadline, EndpointTimer::Outbound(call));
        common.retained_bytes = common.retained_bytes.saturating_sub(retained);
        let outcome = Err(outcome.clone());
        common.events.push_back(Event::Done { call: CallKey(call), outcome, retried: false });
        true
    }

    /// Handles the answer to a call that has ended before: a task is cancelled.
    pub(super) fn finish_abandoned(
        &mut self,
        common: &mut CommonState,
        key: Key,
        outcome: &Result<RawJson, CallError>,
    ) {
        common.endpoint.outbound.calls.remove(key);
        common.endpoint.sweep();
        if let Ok(result) = outcome {
            self.cancel_late_task(common, result);
        }
        if matches!(outcome, Ok(_) | Err(CallError::Rpc(_))) {
            common.diagnose(Diagnostic::LateResponse(RequestId::int(OutboundCalls::wire_id(key))));
        }
    }

    /// Sends what is due about tasks that no call follows any more.
    pub(super) fn handle_task_timeout(&mut self, common: &mut CommonState) {
        if let Some(tasks) = self.tasks.as_mut() {
            tasks.send_due_cancellations(common);
        }
    }

    /// Returns the table of tasks if the configuration has them. It is made now if there is none.
    fn tasks_table(&mut self, common: &CommonState) -> Option<&mut FollowedTasks> {
        common.config.tasks?;
        self.tasks.get_or_make(FollowedTasks::default)
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
        let Some(tasks) = self.tasks.as_mut() else {
            // The connection has ended.
            common.endpoint.outbound.calls.remove(key);
            return;
        };
        let outcome = tasks.receive_outcome(common, key, call, outcome);
        self.finish_followed(common, call, outcome);
    }

    /// Handles a notification about a task; returns false if no call follows the task.
    pub(super) fn receive_task_notification(&mut self, common: &mut CommonState, params: &RawJson) -> bool {
        let Some(tasks) = self.tasks.as_mut() else { return false };
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
        let Some(tasks) = self.tasks.as_mut() else { return };
        if tasks.handle_deadline(common, call) {
            self.finish(common, call, Err(CallError::InputTimedOut));
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

// Commands about tasks: to call a tool as a task, and to wait for a task, answer or cancel it.

/// # Tasks
impl Engine {
    /// Calls a tool as a task, if the server does that (TASK-008).
    ///
    /// A server of 2025-11-25 must have declared `tasks.requests.tools.call`; whether the tool may be called as a task,
    /// [`ToolTasks`](super::ToolTasks) knows from the list of tools (TASK-004 to TASK-007). In all other cases this is
    /// [`call_tool`](Self::call_tool), and the outcome is the result of the tool.
    ///
    /// With [`TaskRequest::follow`] the call follows the task to its result: the engine polls by the interval of the
    /// server ([`TaskPolling`](super::TaskPolling)), reports input requests as [`Event::Input`](super::Event::Input) and
    /// states as [`Event::Task`](super::Event::Task). If the call ends before its task, because it was cancelled or timed
    /// out, because input was refused or did not come in time, or because polls failed, the engine cancels the task. It
    /// goes on if the connection ends. Otherwise the outcome is the result that creates the task, which
    /// [`StartedTask`](super::StartedTask) reads.
    ///
    /// [`CallOptions::timeout`] applies to each request. [`CallOptions::total_timeout`] applies to the whole call with
    /// its task. Without it [`TaskPolling::max_wait`](super::TaskPolling::max_wait) does, from the creation of the task on.
    ///
    /// # Errors
    ///
    /// [`UseError::NotDeclared`] without [`Config::tasks`](super::Config::tasks), which needs the feature `tasks`.
    /// Otherwise as [`call`](Self::call).
    pub fn call_tool_as_task<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        name: &str,
        arguments: &T,
        task: TaskRequest,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        self.check_tasks()?;
        let params = ToolCallParams::new(name, arguments);
        if options.wants_progress {
            self.common.endpoint.outbound.read_progress();
        }
        let params: &WriteForm<'_> = &|out, table| Serializer::object(out, &params, table);
        self.call_as(now, methods::TOOLS_CALL, params, options, TaskUse::Request(task))
    }

    /// Waits for the result of a task that was created before, by this process or another one.
    ///
    /// The call follows the task as [`call_tool_as_task`](Self::call_tool_as_task) does, with the same timeouts: without
    /// [`CallOptions::total_timeout`] the longest wait is [`TaskPolling::max_wait`](super::TaskPolling::max_wait). A wait
    /// that ends early cancels nothing, so the task can be waited for again. Failed polls are repeated from the first one
    /// on. [`CallOptions::meta`] and progress do not apply. If several calls wait for one task, one of them reports each
    /// question.
    ///
    /// # Errors
    ///
    /// As [`get_task`](Self::get_task).
    pub fn wait_task(
        &mut self,
        now: Instant,
        task: &TaskHandle,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        self.common.endpoint.tick(now);
        self.check_task(task)?;
        let (main, _) = self.common.ready_channel()?;
        self.common.check_permitted(methods::TASKS_GET)?;
        self.common.check_capacity(1)?;
        Ok(self.calls.wait_task(&mut self.common, main, task.id(), options))
    }

    /// Requests the state of a task, a [`Task`](crate::model::Task) (TASK-018, TASK-111).
    ///
    /// # Errors
    ///
    /// [`UseError::NotDeclared`] without [`Config::tasks`](super::Config::tasks), which needs the feature `tasks`;
    /// [`UseError::NotReady`] before the server is known, [`UseError::ForeignTask`] for a task of another server.
    /// Otherwise as [`call`](Self::call).
    pub fn get_task(
        &mut self,
        now: Instant,
        task: &TaskHandle,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        self.check_task(task)?;
        self.call(now, methods::TASKS_GET, &GetTaskParams::new(task.id().as_str()), options)
    }

    /// Answers some or all of the input requests of a task (2026-07-28; TASK-117).
    ///
    /// `responses` are [`InputResponses`](crate::model::InputResponses). A call that follows the task asks for the answers
    /// itself.
    ///
    /// # Errors
    ///
    /// [`UseError::NotInVersion`] in 2025-11-25, where the questions of a task are requests of the server. Otherwise as
    /// [`get_task`](Self::get_task).
    pub fn update_task<T: Serialize + ?Sized>(
        &mut self,
        now: Instant,
        task: &TaskHandle,
        responses: &T,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        #[derive(Serialize)]
        struct TaskUpdate<'a, T: ?Sized> {
            #[serde(rename = "taskId")]
            task_id: &'a str,
            #[serde(rename = "inputResponses")]
            input_responses: &'a T,
        }
        self.check_task(task)?;
        let params = TaskUpdate { task_id: task.id().as_str(), input_responses: responses };
        self.call(now, methods::TASKS_UPDATE, &params, options)
    }

    /// Asks the server to cancel a task (TASK-028, TASK-122).
    ///
    /// A server of 2025-11-25 answers with -32602 if the task has ended. One of 2026-07-28 confirms the wish only: the task
    /// may still end otherwise (TASK-123).
    ///
    /// # Errors
    ///
    /// As [`get_task`](Self::get_task).
    pub fn cancel_task(
        &mut self,
        now: Instant,
        task: &TaskHandle,
        options: &CallOptions,
    ) -> Result<CallKey, UseError> {
        self.check_task(task)?;
        self.call(now, methods::TASKS_CANCEL, &CancelTaskParams::new(task.id().as_str()), options)
    }

    fn check_tasks(&self) -> Result<(), UseError> {
        if self.common.config.has_tasks() {
            return Ok(());
        }
        Err(UseError::NotDeclared(Capability::TasksExtension))
    }

    fn check_task(&self, task: &TaskHandle) -> Result<(), UseError> {
        self.check_tasks()?;
        task.check(self.common.peer.as_ref().ok_or(UseError::NotReady)?)
    }
}

// Configuration of a client that follows tasks.

/// # Tasks
impl Config {
    /// Lets calls of tools become tasks, which the engine follows to their results unseen.
    ///
    /// Declares the extension `io.modelcontextprotocol/tasks` in the modern era (TASK-101), beside the
    /// [`capabilities`](Self::capabilities). A server of 2025-11-25 runs a tool as a task if the call asks for it
    /// ([`Engine::call_tool_as_task`](super::Engine::call_tool_as_task)).
    #[cfg(feature = "tasks")]
    #[must_use]
    pub fn tasks(self) -> Self {
        self.task_polling(TaskPolling::default())
    }

    /// Lets calls of tools become tasks as [`tasks`](Self::tasks) does, and sets how they are polled.
    #[cfg(feature = "tasks")]
    #[must_use]
    pub fn task_polling(mut self, polling: TaskPolling) -> Self {
        self.tasks = Some(polling);
        self.declare_tasks().rebuild_request_meta()
    }

    pub(super) fn declare_tasks(mut self) -> Self {
        let capabilities = Arc::make_mut(&mut self.settings.capabilities);
        *capabilities = core::mem::take(capabilities).with(Capability::TasksExtension);
        self
    }

    /// Returns whether calls of tools may become tasks.
    #[must_use]
    pub const fn has_tasks(&self) -> bool {
        self.tasks.is_some()
    }

    /// Returns how tasks are polled.
    pub(crate) fn polling(&self) -> TaskPolling {
        self.tasks.unwrap_or_default()
    }
}

// The relation of a call to tasks, before it is sent.

/// The relation of a call of the application to tasks.
#[derive(Clone, Copy, Debug)]
pub(super) enum TaskUse {
    /// Nothing, unless the server makes a task of it.
    Default,
    /// It asks for a task.
    Request(TaskRequest),
}

/// Returns the part that tasks have in a call, and the request for a task to send with it.
pub(super) fn task_role(
    common: &CommonState,
    method: &str,
    task: TaskUse,
) -> (CallTask, Option<TaskRequest>) {
    let request = match task {
        TaskUse::Request(request) => Some(request),
        TaskUse::Default => None,
    };
    if method != methods::TOOLS_CALL || !common.config.has_tasks() {
        return (CallTask::None, None);
    }
    let role = |request: TaskRequest| if request.follow { CallTask::Follow } else { CallTask::Report };
    if common.is_modern() {
        // The server alone decides (TASK-103, TASK-105).
        return (request.map_or(CallTask::Follow, role), None);
    }
    let runs_tasks = common.peer.as_ref().is_some_and(|peer| {
        peer.version == Version::V2025_11_25 && peer.has(Capability::ToolTasks) // TASK-003, TASK-004
    });
    match request.filter(|_| runs_tasks) {
        Some(request) => (role(request), Some(request)),
        None => (CallTask::None, None),
    }
}
