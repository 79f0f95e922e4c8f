//! Configuration of a client that follows tasks.

use alloc::boxed::Box;

use super::config::Config;
use super::tasks::polling::{TaskPolling, TaskSupport};
use super::tasks::{FollowedTasks, TaskTable};
use crate::methods::Capability;
use crate::sync::Arc;

/// # Tasks
impl Config {
    /// Lets calls of tools become tasks, which the engine follows to their results unseen.
    ///
    /// Declares the extension `io.modelcontextprotocol/tasks` in the modern era (TASK-101), beside the
    /// [`capabilities`](Self::capabilities). A server of 2025-11-25 runs a tool as a task if the call asks for it
    /// ([`Engine::call_tool_as_task`](super::Engine::call_tool_as_task)).
    #[must_use]
    pub fn tasks(self) -> Self {
        self.task_polling(TaskPolling::default())
    }

    /// Lets calls of tools become tasks as [`tasks`](Self::tasks) does, and sets how they are polled.
    #[must_use]
    pub fn task_polling(mut self, polling: TaskPolling) -> Self {
        self.tasks = Some(TaskSupport {
            polling,
            new_table: || Box::new(Box::<FollowedTasks>::default() as Box<dyn TaskTable>),
        });
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
        self.tasks.map_or_else(TaskPolling::default, |tasks| tasks.polling)
    }
}
