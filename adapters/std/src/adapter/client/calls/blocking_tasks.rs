//! Tasks of a server as plain functions.

use core::time::Duration;

use mcp_proto::CallOptions;
use mcp_proto::client::{StartedTask, TaskHandle};
use mcp_proto::model::{CallToolResult, InputResponses, Task};
use serde::Serialize;

use super::blocking_calls::complete;
use super::{BlockingCalls, ClientBackend};
use crate::error::Error;

/// # Tasks
///
/// They need [`Config::tasks`](mcp_proto::client::Config::tasks).
impl<B: ClientBackend> BlockingCalls<B> {
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
    /// As [`call_tool`](Self::call_tool), and [`Error::Use`] with [`UseError::NotDeclared`](mcp_proto::UseError::NotDeclared) without
    /// [`Config::tasks`](mcp_proto::client::Config::tasks).
    pub fn start_task<T: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &T,
        ttl: Option<Duration>,
    ) -> Result<StartedTask, Error> {
        complete(self.calls.start_task(name, arguments, ttl))
    }

    /// Reads the handle of a task that [`TaskHandle::to_text`] has written, and checks that it is one of this server.
    ///
    /// Nothing is sent: [`get_task`](Self::get_task) tells whether the server still has the task.
    ///
    /// # Errors
    ///
    /// [`Error::Use`] with [`UseError::ForeignTask`](mcp_proto::UseError::ForeignTask), or [`UseError::NotDeclared`](mcp_proto::UseError::NotDeclared) without
    /// [`Config::tasks`](mcp_proto::client::Config::tasks).
    pub fn resume_task(&self, text: &str) -> Result<TaskHandle, Error> {
        self.calls.resume_task(text)
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
    pub fn wait_task(&self, task: &TaskHandle) -> Result<CallToolResult<'static>, Error> {
        complete(self.calls.wait_task(task))
    }

    /// Waits for the result of a task as [`wait_task`](Self::wait_task) does, with options: `total_timeout` bounds the
    /// wait, `timeout` each request.
    ///
    /// # Errors
    ///
    /// As [`wait_task`](Self::wait_task).
    pub fn wait_task_with(
        &self,
        task: &TaskHandle,
        options: &CallOptions,
    ) -> Result<CallToolResult<'static>, Error> {
        complete(self.calls.wait_task_with(task, options))
    }

    /// Returns the state of a task.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool). [`Error::Use`] with [`UseError::ForeignTask`](mcp_proto::UseError::ForeignTask) for a task of another server.
    pub fn get_task(&self, task: &TaskHandle) -> Result<Task<'static>, Error> {
        complete(self.calls.get_task(task))
    }

    /// Answers some or all input requests of a task (2026-07-28).
    ///
    /// Only for tasks that no call follows: [`call_tool`](Self::call_tool) and [`wait_task`](Self::wait_task) pass the
    /// questions to the handler.
    ///
    /// # Errors
    ///
    /// As [`get_task`](Self::get_task), and [`Error::Use`] in 2025-11-25, where questions are requests of the server.
    pub fn update_task(&self, task: &TaskHandle, responses: &InputResponses<'_>) -> Result<(), Error> {
        complete(self.calls.update_task(task, responses))
    }

    /// Asks the server to cancel a task.
    ///
    /// A server of 2025-11-25 refuses that for a task that has ended. One of 2026-07-28 confirms the wish only.
    ///
    /// # Errors
    ///
    /// As [`get_task`](Self::get_task).
    pub fn cancel_task(&self, task: &TaskHandle) -> Result<(), Error> {
        complete(self.calls.cancel_task(task))
    }
}
