//! Tasks of a server: tools that run as tasks, and handles that another process can take up.

use alloc::format;
use alloc::string::ToString;
use alloc::sync::Arc;
use core::time::Duration;

use mcp_proto::client::{Peer, StartedTask, TaskHandle, TaskRequest};
use mcp_proto::model::{
    CallToolResult, CancelTaskParams, GetTaskParams, InputResponses, RequestParams, Task,
};
use mcp_proto::{CallOptions, Capability, EntryKind, UseError};
use serde::Serialize;

use super::commands::{Request, TaskUpdate, TaskWait, ToolCall};
use super::{AsyncCalls, ClientBackend};
use crate::error::Error;

/// # Tasks
///
/// They need [`Config::tasks`](mcp_proto::client::Config::tasks).
impl<B: ClientBackend> AsyncCalls<B> {
    /// Calls a tool and returns as soon as it runs as a task.
    ///
    /// The handle can be written down ([`TaskHandle::to_text`]) and taken up by another process
    /// ([`resume_task`](Self::resume_task)). `ttl` asks a server of 2025-11-25 to keep the task for this time.
    ///
    /// A server without tasks, or one that makes no task of this call, runs the tool as usual: the call waits for the
    /// result, which is [`StartedTask::Done`]. In 2025-11-25 the list of tools tells whether a tool may run as a task; it
    /// is requested if it is not known.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool), and [`Error::Use`] with [`UseError::NotDeclared`] without
    /// [`Config::tasks`](mcp_proto::client::Config::tasks).
    pub async fn start_task<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
        ttl: Option<Duration>,
    ) -> Result<StartedTask, Error> {
        let peer = self.task_peer()?;
        let cache = self.backend.result_cache();
        self.learn_tool_tasks().await?;
        let wanted = ttl.map_or(TaskRequest::detached(), |ttl| TaskRequest::detached().ttl(ttl));
        let task = cache.task_request(name, Some(wanted));
        let options = &CallOptions::new();
        let result = self.perform(ToolCall { name, arguments, task, options }, false, |_| {}).await?;
        match StartedTask::from_result(&peer, name, &result) {
            Ok(StartedTask::Done(_)) => {
                self.read_tool_result(name, &result).map(|result| StartedTask::Done(result.into()))
            }
            Ok(task) => Ok(task),
            Err(reason) => Err(Error::UnexpectedResult(format!(
                "the answer to the call of `{name}` cannot be read: {reason}"
            ))),
        }
    }

    /// Reads the handle of a task that [`TaskHandle::to_text`] has written, and checks that it is one of this server.
    ///
    /// Nothing is sent: [`get_task`](Self::get_task) tells whether the server still has the task.
    ///
    /// # Errors
    ///
    /// [`Error::Use`] with [`UseError::ForeignTask`], or [`UseError::NotDeclared`] without
    /// [`Config::tasks`](mcp_proto::client::Config::tasks).
    pub fn resume_task(&self, text: &str) -> Result<TaskHandle, Error> {
        let peer = self.task_peer()?;
        let task = TaskHandle::parse(text)
            .map_err(|error| Error::Use(UseError::ForeignTask { reason: error.to_string() }))?;
        task.check(&peer).map_err(Error::Use)?;
        Ok(task)
    }

    /// Waits for the result of a task; otherwise as [`call_tool`](Self::call_tool).
    ///
    /// A wait that times out or is dropped does not cancel the task: it can be waited for again, and its result can be
    /// read again while the server keeps it. The longest wait is
    /// [`TaskPolling::max_wait`](mcp_proto::client::TaskPolling::max_wait).
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool). [`Error::Call`] with [`CallError::TaskLost`](mcp_proto::CallError::TaskLost) if
    /// the server does not know the task any more, [`TaskCancelled`](mcp_proto::CallError::TaskCancelled) if it was
    /// cancelled, [`TaskExpired`](mcp_proto::CallError::TaskExpired) if its time has passed.
    pub async fn wait_task(&self, task: &TaskHandle) -> Result<CallToolResult<'static>, Error> {
        self.wait_task_with(task, &CallOptions::new()).await
    }

    /// Waits for the result of a task as [`wait_task`](Self::wait_task) does, with options: `total_timeout` bounds the
    /// wait, `timeout` each request.
    ///
    /// # Errors
    ///
    /// As [`wait_task`](Self::wait_task).
    pub async fn wait_task_with(
        &self,
        task: &TaskHandle,
        options: &CallOptions,
    ) -> Result<CallToolResult<'static>, Error> {
        let result = self.perform(TaskWait { task, options }, false, |_| {}).await?;
        self.read_tool_result(task.tool(), &result)
    }

    /// Returns the state of a task.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool). [`Error::Use`] with [`UseError::ForeignTask`] for a task of another server.
    pub async fn get_task(&self, task: &TaskHandle) -> Result<Task<'static>, Error> {
        self.check_task(task)?;
        let (params, options) = (GetTaskParams::new(task.id().as_str()), &CallOptions::new());
        let command = Request { method: GetTaskParams::METHOD, params: &params, options };
        let result = self.perform(command, false, |_| {}).await?;
        let state = GetTaskParams::read(&result)
            .map_err(|why| Error::UnexpectedResult(format!("the state of the task cannot be read: {why}")))?;
        if state.task_id != *task.id() {
            return Err(Error::UnexpectedResult("the state is that of another task".into()));
        }
        Ok(state)
    }

    /// Answers some or all input requests of a task (2026-07-28).
    ///
    /// Only for tasks that no call follows: [`call_tool`](Self::call_tool) and [`wait_task`](Self::wait_task) pass the
    /// questions to the handler.
    ///
    /// # Errors
    ///
    /// As [`get_task`](Self::get_task), and [`Error::Use`] in 2025-11-25, where questions are requests of the server.
    pub async fn update_task(&self, task: &TaskHandle, responses: &InputResponses<'_>) -> Result<(), Error> {
        self.check_task(task)?;
        self.perform(TaskUpdate { task, responses }, false, |_| {}).await.map(drop)
    }

    /// Asks the server to cancel a task.
    ///
    /// A server of 2025-11-25 refuses that for a task that has ended. One of 2026-07-28 confirms the wish only.
    ///
    /// # Errors
    ///
    /// As [`get_task`](Self::get_task).
    pub async fn cancel_task(&self, task: &TaskHandle) -> Result<(), Error> {
        self.check_task(task)?;
        let (params, options) = (CancelTaskParams::new(task.id().as_str()), &CallOptions::new());
        let command = Request { method: CancelTaskParams::METHOD, params: &params, options };
        self.perform(command, false, |_| {}).await.map(drop)
    }

    /// Requests the list of tools if it is needed to know which of them run as tasks: once more if it changes meanwhile.
    pub(super) async fn learn_tool_tasks(&self) -> Result<(), Error> {
        for _ in 0..2 {
            if self.backend.result_cache().needs_tools() {
                self.list(EntryKind::Tool).await?;
            }
        }
        Ok(())
    }

    /// Checks that a task is one of this server.
    fn check_task(&self, task: &TaskHandle) -> Result<(), Error> {
        task.check(&*self.task_peer()?).map_err(Error::Use)
    }

    fn task_peer(&self) -> Result<Arc<Peer>, Error> {
        let peer = self.backend.result_cache().task_peer();
        peer.ok_or(Error::Use(UseError::NotDeclared(Capability::TasksExtension)))
    }
}
