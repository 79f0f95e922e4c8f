//! Commands about tasks: to call a tool as a task, and to wait for a task, answer or cancel it.

use serde::Serialize;

use super::engine::Engine;
use super::task_use::TaskUse;
use super::tasks::TaskHandle;
use super::tool_call::ToolCallParams;
use crate::calls::outbound::{CallKey, CallOptions};
use crate::calls::task_request::TaskRequest;
use crate::error::UseError;
use crate::methods::{self, Capability};
use crate::model::{CancelTaskParams, GetTaskParams};
use crate::time::Instant;

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
    /// [`UseError::NotDeclared`] without [`Config::tasks`](super::Config::tasks). Otherwise as [`call`](Self::call).
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
        self.call_as(now, methods::TOOLS_CALL, &params, options, TaskUse::Request(task))
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
    /// [`UseError::NotDeclared`] without [`Config::tasks`](super::Config::tasks), [`UseError::NotReady`] before the server
    /// is known, [`UseError::ForeignTask`] for a task of another server. Otherwise as [`call`](Self::call).
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
        task.check(self.common.peer.as_deref().ok_or(UseError::NotReady)?)
    }
}
