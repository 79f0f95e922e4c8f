//! Tools whose calls may become tasks.

use alloc::boxed::Box;

use super::hooks::Hook;
use super::registration::{RegisterError, RegisterErrors};
use super::registry::Router;
use super::tool_entry::ToolEntry;
use crate::model::{TaskSupport, Tool, ToolExecution};
use crate::rpc::RpcError;
use crate::server::{Call, TaskOffer};

impl ToolEntry<'_> {
    /// Sets whether calls become tasks (`execution.taskSupport`; default forbidden).
    ///
    /// | | client that asks for a task, or allows it | other client |
    /// |---|---|---|
    /// | `forbidden` | error -32601 in 2025-11-25 (TASK-005), otherwise a plain call | a plain call |
    /// | `optional` | a task (TASK-006, TASK-103) | a plain call |
    /// | `required` | a task | error -32601 until 2025-11-25 (TASK-007), then -32021 (TASK-104) |
    ///
    /// A client of 2025-11-25 asks for a task in the call, later ones allow it by declaring the extension
    /// ([`Call::task_offer`]). The arguments are checked before a task is created. Before 2025-11-25 there are no tasks.
    ///
    /// The server needs tasks for that: by the method `tasks` of the router of an adapter, or by `Engine::set_tasks`.
    pub fn task_support(self, support: TaskSupport) -> Self {
        self.set(|tool| {
            let execution = tool.execution.get_or_insert_with(|| Box::new(ToolExecution::new()));
            execution.task_support = Some(support);
        })
    }

    /// Lets the handler decide when a call becomes a task: it first runs in the call itself, and may ask there for the
    /// input that a task should not wait for (TASK-110).
    ///
    /// In 2025-11-25 a client that asks for a task gets one at once, and the handler asks in the task.
    ///
    /// A tool that is registered again under its name keeps this.
    pub fn defer_task(mut self) -> Self {
        if let Some(entry) = &mut self.tool {
            entry.rules.defers_task = true;
        }
        self
    }
}

impl<H, M: Hook> Router<H, M> {
    /// Adds an error for each tool that requires tasks, for a server without them.
    pub fn check_tools_without_tasks(&self, errors: &mut RegisterErrors) {
        for tool in self.tools.items().filter(|tool| support_of(tool) == &TaskSupport::Required) {
            errors.push(RegisterError::NoTasks { tool: tool.name.clone() });
        }
    }
}

/// The decision about a call of a tool.
pub(super) enum TaskDecision {
    /// Its handler runs.
    Run,
    /// It becomes a task, whose handler runs later.
    Begin,
    Refuse(RpcError),
}

/// Decides whether a call becomes a task.
pub(super) fn decide(call: &Call, tool: &Tool, defers_task: bool) -> TaskDecision {
    if call.is_task_run() {
        return TaskDecision::Run;
    }
    let is_asked = call.task_offer() == TaskOffer::Requested;
    match (call.task_offer(), support_of(tool)) {
        (TaskOffer::None, TaskSupport::Required) => TaskDecision::Refuse(call.task_required_error()),
        (TaskOffer::None, _) => TaskDecision::Run,
        (_, TaskSupport::Optional | TaskSupport::Required) if is_asked || !defers_task => TaskDecision::Begin,
        (_, TaskSupport::Optional | TaskSupport::Required) => TaskDecision::Run,
        // TASK-005
        _ if is_asked => TaskDecision::Refuse(call.task_forbidden_error()),
        _ => TaskDecision::Run,
    }
}

/// Returns whether calls of a tool may become tasks.
fn support_of(tool: &Tool) -> &TaskSupport {
    let declared = tool.execution.as_ref().and_then(|execution| execution.task_support.as_ref());
    declared.unwrap_or(&TaskSupport::Forbidden)
}
