//! Commands of the application about tasks.

use super::host::boxed;
use super::options::TaskOptions;
use super::record::TaskRecordError;
use super::store_queue::StoreEffect;
use super::table::TaskTable;
use super::{TaskContext, TaskHost};
use crate::built::{Part, Tasking};
use crate::calls::inbound::CallId;
use crate::error::UseError;
use crate::methods::Capability;
use crate::model::TaskId;
use crate::server::channel::ServerChannel;
use crate::server::engine::Engine;
use crate::server::event::Call;
use crate::sync::Arc;
use crate::time::Instant;

/// Longest message of a task, in bytes; a longer one is cut.
const MAX_MESSAGE: usize = 1 << 10;

impl Engine {
    /// Offers tasks to clients (TASK-001, TASK-103).
    ///
    /// The capabilities are declared: `tasks` in 2025-11-25, the extension `io.modelcontextprotocol/tasks` since
    /// 2026-07-28. Call it before the first message arrives. A second table replaces the first, and its tasks are gone.
    ///
    /// A `tools/call` that may become a task says so ([`Call::task_offer`]); [`Tasks::begin`] makes it one.
    pub fn set_tasks(&mut self, now: Instant, table: TaskTable) {
        self.endpoint.tick(now);
        let capabilities = (*self.config.settings.capabilities).clone().without(Capability::TaskList);
        let list = table.has_list.then_some(Capability::TaskList);
        let capabilities = [Capability::TaskCancellation, Capability::ToolTasks, Capability::TasksExtension]
            .into_iter()
            .chain(list)
            .fold(capabilities, |all, capability| all.with(capability));
        Arc::make_mut(&mut self.config).settings.capabilities = Arc::new(capabilities);
        let channel = self.endpoint.open_channel(false, ServerChannel::new());
        self.tasks = Tasking::get().map(|marker| Part::new(marker, boxed(table, channel)));
    }

    /// Returns the tasks, for commands of the application.
    ///
    /// Without [`set_tasks`](Self::set_tasks) there are none, and all commands are refused.
    pub fn tasks(&mut self, now: Instant) -> Tasks<'_> {
        self.endpoint.tick(now);
        Tasks { engine: self }
    }
}

/// The tasks of an engine.
///
/// ```
/// use std::sync::Arc;
/// use mcp_proto::server::{Config, Engine, Event, TaskLimits, TaskOffer, TaskOptions, TaskTable};
/// use mcp_proto::model::CallToolResult;
/// use mcp_proto::{Anchor, Capabilities, Capability, Entropy, Instant};
///
/// let config = Config::new("digger", "1.0").capabilities(Capabilities::new().with(Capability::Tools));
/// let mut engine = Engine::new(Arc::new(config));
/// let now = Instant::ZERO;
/// # let (secret, unix_secs) = ([7; 32], 1_785_578_400);
/// let table = TaskTable::new(Entropy::new(secret, 0), Anchor::new(now, unix_secs)).limits(TaskLimits::new());
/// engine.set_tasks(now, table);
///
/// while let Some(event) = engine.poll_event(now) {
///     let Event::Call(call) = event else { continue };
///     if call.task_offer() != TaskOffer::None {
///         // The client gets the task, and the call is delivered again to run it.
///         engine.tasks(now).begin(&call, TaskOptions::new()).expect("there is room");
///     } else {
///         engine.complete(now, call.id(), &CallToolResult::text("dug")).expect("the call is open");
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Tasks<'e> {
    engine: &'e mut Engine,
}

impl Tasks<'_> {
    fn with<R>(&mut self, act: impl FnOnce(&mut dyn TaskHost, &mut TaskContext<'_>) -> R) -> Option<R> {
        self.engine.with_tasks(act)
    }

    /// Returns the number of tasks, including those that have ended and can still be read.
    #[must_use]
    pub fn len(&mut self) -> usize {
        self.with(|tasks, _| tasks.len()).unwrap_or_default()
    }

    /// Returns whether there are no tasks.
    #[must_use]
    pub fn is_empty(&mut self) -> bool {
        self.len() == 0
    }

    /// Returns how many tasks may run at a time ([`TaskLimits::max_running`](super::super::TaskLimits::max_running)); 0
    /// without tasks.
    ///
    /// A task that was cancelled frees its place at once, although its handler may go on.
    #[must_use]
    pub fn max_running(&mut self) -> usize {
        self.with(|tasks, _| tasks.max_running()).unwrap_or_default()
    }

    /// Makes a call a task.
    ///
    /// Its client gets the new task (with a store, when that has it; TASK-109), and the key of the call is stale. The
    /// call is delivered again ([`Event::Call`](super::super::Event::Call)) as a run of the task
    /// ([`Call::task_id`]), which is answered by the ordinary commands. A client that goes away does not end it.
    ///
    /// # Errors
    ///
    /// The call stays open. [`UseError::Stale`] if it has ended, [`UseError::MissingPeerCapability`] if it may not become
    /// a task ([`Call::task_offer`]), [`UseError::Full`] at a limit ([`TaskLimits`](super::super::TaskLimits)),
    /// [`UseError::NotDeclared`] without tasks.
    pub fn begin(&mut self, call: &Call, options: TaskOptions) -> Result<(), UseError> {
        self.with(|tasks, cx| tasks.begin(cx, call, options))
            .unwrap_or(Err(UseError::NotDeclared(Capability::Tasks)))
    }

    /// Sets the message of the task that a call runs, for example what it works at.
    ///
    /// It is cut after 1 KiB. A client that listens is told at most once a second. A message within a second of the last
    /// notification is not announced later by itself: polls show it, and so does the next notification. Returns false if nothing changed, if
    /// there is no room for it, or if the call has ended or runs no task.
    pub fn working(&mut self, run: CallId, message: &str) -> bool {
        let cut = (0..=MAX_MESSAGE.min(message.len())).rev().find(|at| message.is_char_boundary(*at));
        let message = message.get(..cut.unwrap_or_default()).unwrap_or_default();
        let changed = self.with(|tasks, cx| tasks.set_message(cx, run.0, message));
        changed.unwrap_or(false)
    }

    /// Returns the next thing that the store has to do; `None` without a [store](TaskTable::stored).
    pub fn poll_store(&mut self) -> Option<StoreEffect> {
        self.with(|tasks, _| tasks.poll_store()).flatten()
    }

    /// Returns whether the store has everything. Effects that it has failed at are tried again later.
    #[must_use]
    pub fn is_saved(&mut self) -> bool {
        self.with(|tasks, _| tasks.is_saved()).unwrap_or(true)
    }

    /// Takes the outcome of [`StoreEffect::Save`].
    ///
    /// A task whose creation was not saved does not exist: its call gets error -32603. Any other save is tried again,
    /// after half a second at first and up to half a minute later, and nothing is lost in memory.
    pub fn handle_saved(&mut self, id: &TaskId, version: u32, is_ok: bool) {
        self.with(|tasks, cx| tasks.handle_saved(cx, id, version, is_ok));
    }

    /// Takes the outcome of [`StoreEffect::Delete`]. A deletion that failed is tried again as a save is.
    pub fn handle_deleted(&mut self, id: &TaskId, version: u32, is_ok: bool) {
        self.with(|tasks, cx| tasks.handle_deleted(cx, id, version, is_ok));
    }

    /// Restores a task from a record of the store, also beyond the [limits](super::super::TaskLimits).
    ///
    /// A task that had not run is run. One that ran when the process ended is `failed`: it may have had effects, so it
    /// does not run twice. The task of a session without a principal has no owner from then on.
    ///
    /// Returns false if the task has expired; its record is deleted then.
    ///
    /// # Errors
    ///
    /// [`TaskRecordError`]: nothing is restored, and the record stays in the store. Report it, and load the others.
    pub fn load(&mut self, id: &TaskId, record: &[u8]) -> Result<bool, TaskRecordError> {
        self.with(|tasks, cx| tasks.load(cx, id, record)).unwrap_or(Err(TaskRecordError::NoTasks))
    }
}
