//! Requests about tasks: `tasks/get`, `tasks/result`, `tasks/list`, `tasks/update`, `tasks/cancel`.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::entry::{Held, TaskEntry, TaskOutcome};
use super::host::ServerTasks;
use super::record::TaskRecordError;
use super::store::{Detail, StoreEffect, text_room, write_members, write_with_related_task};
use super::table::TaskTable;
use super::{TaskContext, TaskRequestFrame, extension_required_error};
use crate::built::{Part, Tasking};
use crate::calls::endpoint::IdlessErrors;
use crate::calls::inbound::{CallId, NO_MEMORY_FOR_ANSWER, RequestSource};
use crate::calls::observing::observe_failure;
use crate::error::UseError;
use crate::identity::declared_extension;
use crate::json::{object_members, string};
use crate::limits::Limit;
use crate::meta;
use crate::methods::{self, Capability};
use crate::model::TaskId;
use crate::raw::RawJson;
use crate::rpc::{self, RpcError, code};
use crate::server::channel::{ServerChannel, session};
use crate::server::engine::Engine;
use crate::server::event::{Call, CancelReason};
use crate::slab::Key;
use crate::sync::Arc;
use crate::tasks::clip;
use crate::tasks::ledger::{list_position, send_list, task_id, unknown_task};
use crate::time::Instant;
use crate::version::Version;

impl ServerTasks {
    /// Answers a request about tasks.
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn handle_request(
        &mut self,
        cx: &mut TaskContext<'_>,
        request: &TaskRequestFrame<'_>,
    ) -> Result<(), RpcError> {
        let version = request.version(cx);
        if version >= Version::V2026_07_28 {
            self.check_extension(request)?;
        }
        if request.method == methods::TASKS_LIST {
            return self.list_tasks(cx, request, version);
        }
        let id = task_id(request.text())?;
        let party = Self::party(cx.endpoint, request.source.channel, version);
        // Unknown, expired and foreign tasks get one error, so that nobody can probe for ids (TASK-031).
        let task =
            self.table.find(cx.endpoint.now, id.as_bytes(), &party, version).ok_or_else(unknown_task)?;
        match request.method {
            methods::TASKS_GET => {
                self.send_task(cx, request, task);
                Ok(())
            }
            methods::TASKS_RESULT => self.collect(cx, request, task, version),
            methods::TASKS_CANCEL => self.cancel(cx, request, task, version),
            _ => self.update(cx, request, task),
        }
    }

    /// Checks that a modern request declares the extension (TASK-125).
    ///
    /// # Errors
    ///
    /// The error response to send.
    pub(super) fn check_extension(&self, request: &TaskRequestFrame<'_>) -> Result<(), RpcError> {
        let capabilities = request.params.meta.capabilities.slice(request.frame);
        let declared = capabilities.and_then(|text| {
            let capabilities = RawJson::trusted(request.frame.slice_ref(text));
            declared_extension(&capabilities, meta::TASKS_EXTENSION, Version::V2026_07_28)
        });
        declared.map(drop).ok_or_else(extension_required_error)
    }

    fn send_task(&self, cx: &mut TaskContext<'_>, request: &TaskRequestFrame<'_>, task: Key) {
        let Some(entry) = self.table.get(task) else { return };
        let suffix = &cx.config.result_suffix;
        request.answer_to().send_result(cx.endpoint, text_room(entry) + suffix.len(), |out| {
            out.push(b'{');
            write_members(out, entry, Detail::Full);
            if entry.version >= Version::V2026_07_28 {
                out.push(b',');
                out.extend_from_slice(suffix);
            }
            out.push(b'}');
        });
    }

    /// Handles `tasks/list` (TASK-026, TASK-027).
    ///
    /// # Errors
    ///
    /// The error response to send.
    fn list_tasks(
        &mut self,
        cx: &mut TaskContext<'_>,
        request: &TaskRequestFrame<'_>,
        version: Version,
    ) -> Result<(), RpcError> {
        let after = list_position(request.text(), parse_cursor)?;
        let party = Self::party(cx.endpoint, request.source.channel, version);
        if party == super::entry::Owner::Holder {
            // Nothing tells the tasks of one client from those of others (TASK-035).
            return Err(RpcError::method_not_found(request.method));
        }
        let tasks = self.table.list(cx.endpoint.now, &party, version, after);
        let (source, bare) = (request.answer_to(), |out: &mut Vec<u8>, (_, entry): (Key, &TaskEntry)| {
            write_members(out, entry, Detail::Bare);
        });
        send_list(cx.endpoint, source, tasks, bare, |(key, entry)| write_cursor(entry.number, key));
        Ok(())
    }

    /// Handles `tasks/result`: at once if the task has ended, else later (TASK-019, TASK-020).
    ///
    /// # Errors
    ///
    /// The error response to send.
    fn collect(
        &mut self,
        cx: &mut TaskContext<'_>,
        request: &TaskRequestFrame<'_>,
        task: Key,
        version: Version,
    ) -> Result<(), RpcError> {
        self.forget_left_collectors(cx, task, request.source.root);
        if self.table.get(task).is_some_and(TaskEntry::has_ended) {
            let call = Self::begin_call(cx, request, version)?;
            self.send_result(cx, call, task);
            return Ok(());
        }
        let call = self.hold(cx, request, version, Held::Result(task))?;
        if let Some(entry) = self.table.get_mut(task) {
            entry.peers_mut().collectors.push(call);
        }
        // After the request is known, because questions go out on its stream.
        self.ask(cx, task);
        Ok(())
    }

    /// Ends the requests for the result of a task whose streams their client has left: it has sent another one.
    fn forget_left_collectors(&mut self, cx: &mut TaskContext<'_>, task: Key, root: Key) {
        let collectors =
            self.table.get(task).and_then(|entry| entry.peers.as_ref()).map(|p| p.collectors.clone());
        for call in collectors.unwrap_or_default() {
            let Some(stream) = cx.endpoint.inbound.calls.get(call).map(|call| call.channel) else { continue };
            let is_left = cx.endpoint.channels.get(stream).is_some_and(|c| c.role.stream.is_left());
            if is_left && cx.endpoint.root_channel(stream) == root {
                self.abandon_stream(cx, stream);
            }
        }
    }

    /// Answers a call with the outcome of a task: what the request itself would have returned (TASK-019, TASK-024).
    pub(super) fn send_result(&self, cx: &mut TaskContext<'_>, call: Key, task: Key) {
        let Some(entry) = self.table.get(task) else { return };
        match &entry.outcome {
            Some(TaskOutcome::Result(text, _)) => {
                Self::respond(cx, call, text.len(), |out| write_with_related_task(out, text, entry));
            }
            Some(TaskOutcome::Error(text)) => {
                let observed = cx.endpoint.inbound.take_observed(call);
                let Some(record) = cx.endpoint.end_call(call) else { return };
                cx.endpoint.send_or_batch(record.channel, None, &record.id, text.len(), |out| {
                    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
                    record.id.write(out);
                    out.extend_from_slice(b",\"error\":");
                    out.extend_from_slice(text);
                    rpc::end(out);
                });
                if let Some(open) = observed {
                    observe_failure(cx.endpoint, open, &stored_error(text));
                }
                cx.ended.push(record.channel);
            }
            None => Self::refuse(cx, call, &RpcError::internal("the task was cancelled")),
        }
    }

    /// Handles `tasks/cancel` (TASK-028, TASK-029, TASK-122, TASK-123).
    ///
    /// # Errors
    ///
    /// The error response to send.
    fn cancel(
        &mut self,
        cx: &mut TaskContext<'_>,
        request: &TaskRequestFrame<'_>,
        task: Key,
        version: Version,
    ) -> Result<(), RpcError> {
        let is_modern = version >= Version::V2026_07_28;
        let Some(entry) = self.table.get(task) else { return Err(unknown_task()) };
        let is_over = entry.state.is_terminal();
        if is_over && !is_modern {
            let status = entry.status().filter(|_| entry.has_ended());
            let status = status.as_ref().map_or("over", |status| status.as_str());
            return Err(RpcError::invalid_params(alloc::format!("the task is already {status}")));
        }
        // Before anything changes: without room for the answer nothing is cancelled.
        let call = self.hold(cx, request, version, Held::Change(task))?;
        if !is_over {
            // Before the state changes, because only a task that asks has questions.
            self.withdraw_questions(cx, task, Some("the task was cancelled"));
            self.stop_run(cx, task, CancelReason::Client(None));
            if self.table.cancel(cx.endpoint.now, task) {
                self.show_end(cx, task);
            }
        }
        self.acknowledge_when_saved(cx, call, task);
        // The cancelled task has freed its place.
        self.run_next(cx);
        Ok(())
    }

    /// Handles `tasks/update` (TASK-117, TASK-118, TASK-119).
    ///
    /// # Errors
    ///
    /// The error response to send.
    fn update(
        &mut self,
        cx: &mut TaskContext<'_>,
        request: &TaskRequestFrame<'_>,
        task: Key,
    ) -> Result<(), RpcError> {
        let invalid = |what| RpcError::invalid_params(alloc::format!("`params.inputResponses` is {what}"));
        let responses =
            request.params.input_responses.slice(request.frame).ok_or_else(|| invalid("missing"))?;
        if responses.first() != Some(&b'{') {
            return Err(invalid("not an object"));
        }
        // Before anything changes: without room for the answer no response counts.
        let call = self.hold(cx, request, Version::V2026_07_28, Held::Change(task))?;
        let now = cx.endpoint.now;
        let (mut is_complete, mut is_changed, mut error) = (false, false, None);
        object_members(responses, |name, value| {
            let Some(entry) = self.table.get(task) else { return };
            let name = core::str::from_utf8(name).unwrap_or_default();
            let open = |q: &super::entry::Question| q.answer.is_none() && q.wire_key() == name;
            let Some(at) = entry.questions().iter().position(open) else { return };
            // A copy, because the answer outlives the frame.
            let value = RawJson::trusted(bytes::Bytes::copy_from_slice(value));
            match self.table.answer(now, task, at, Ok(value)) {
                Ok(complete) => (is_complete, is_changed) = (complete, true),
                Err(UseError::Full(Limit::Memory)) => error = Some(RpcError::internal(NO_MEMORY_FOR_ANSWER)),
                Err(UseError::Full(_)) => {
                    error = Some(RpcError::internal("the responses are too large to be kept"))
                }
                Err(_) => {}
            }
        });
        if is_changed {
            self.notify(cx, task);
        }
        if is_complete {
            self.run_next(cx);
        }
        match error {
            Some(error) => {
                self.held.remove(call);
                Self::refuse(cx, call, &error);
            }
            None => self.acknowledge_when_saved(cx, call, task),
        }
        Ok(())
    }
}

impl TaskRequestFrame<'_> {
    /// Returns the revision of the request, which was checked.
    fn version(&self, cx: &TaskContext<'_>) -> Version {
        let is_modern = !self.params.meta.version.is_empty() && !cx.config.modern_versions().is_empty();
        match session(cx.endpoint, self.source.root).filter(|_| !is_modern) {
            Some(session) => session.version,
            None => Version::V2026_07_28,
        }
    }

    /// Returns the place of the answer.
    const fn answer_to(&self) -> RequestSource<'_> {
        RequestSource { channel: self.source.channel, batch: self.source.batch, id: self.id }
    }

    fn text(&self) -> &[u8] {
        self.params.whole.slice(self.frame).unwrap_or(b"{}")
    }
}

/// Writes the position behind a task. Its key finds the place at once; its number finds it if that task is gone.
pub(super) fn write_cursor(number: u32, Key { slot, generation }: Key) -> String {
    alloc::format!("{number}.{slot}.{generation}")
}

/// Parses the position of a page.
pub(super) fn parse_cursor(text: &str) -> Option<(u32, Key)> {
    let mut parts = text.split('.').map(|part| part.parse::<u32>().ok());
    let (number, slot, generation) = (parts.next()??, parts.next()??, parts.next()??);
    let key = Key { slot, generation };
    // Compared as text, so that another spelling of a number is no cursor of this server.
    (write_cursor(number, key) == text).then_some((number, key))
}

/// Reads the error that a task has ended with, without its `data`.
fn stored_error(text: &[u8]) -> RpcError {
    let (mut code, mut message) = (None, None);
    object_members(text, |name, value| match name {
        b"code" => code = core::str::from_utf8(value).ok().and_then(|number| number.parse().ok()),
        b"message" => message = string(value),
        _ => {}
    });
    RpcError::new(code.unwrap_or(code::INTERNAL_ERROR), message.unwrap_or_default().into_owned())
}

// Commands of the application about tasks.

impl Engine {
    /// Offers tasks to clients (TASK-001, TASK-103).
    ///
    /// The capabilities are declared: `tasks` in 2025-11-25, the extension `io.modelcontextprotocol/tasks` since
    /// 2026-07-28. Call it before the first message arrives. A second table replaces the first, and its tasks are gone.
    ///
    /// A `tools/call` that may become a task says so ([`Call::task_offer`]); [`Tasks::begin`] makes it one.
    #[cfg(feature = "tasks")]
    pub fn set_tasks(&mut self, now: Instant, mut table: TaskTable) {
        self.endpoint.tick(now);
        table.charge.attach(&self.endpoint.memory);
        let capabilities = (*self.config.settings.capabilities).clone().without(Capability::TaskList);
        let list = table.has_list.then_some(Capability::TaskList);
        let capabilities = [Capability::TaskCancellation, Capability::ToolTasks, Capability::TasksExtension]
            .into_iter()
            .chain(list)
            .fold(capabilities, |all, capability| all.with(capability));
        Arc::make_mut(&mut self.config).settings.capabilities = Arc::new(capabilities);
        // Runs are calls on a channel of their own, which no connection reads.
        let channel = self.endpoint.open_channel(IdlessErrors::Unsent, ServerChannel::new());
        self.tasks = Part::new(Tasking, ServerTasks::new(table, channel));
    }

    /// Returns the tasks, for commands of the application.
    ///
    /// Without [`set_tasks`](Self::set_tasks), which needs the feature `tasks`, there are none, and all commands are refused.
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
    fn with<R>(&mut self, act: impl FnOnce(&mut ServerTasks, &mut TaskContext<'_>) -> R) -> Option<R> {
        self.engine.with_tasks(act)
    }

    /// Returns the number of tasks, including those that have ended and can still be read.
    #[must_use]
    pub fn len(&mut self) -> usize {
        self.with(|tasks, _| tasks.table.len()).unwrap_or_default()
    }

    /// Returns whether there are no tasks.
    #[must_use]
    pub fn is_empty(&mut self) -> bool {
        self.len() == 0
    }

    /// Returns how many tasks may run at a time ([`TaskLimits::max_running`](crate::server::TaskLimits::max_running)); 0
    /// without tasks.
    ///
    /// A task that was cancelled frees its place at once, although its handler may go on.
    #[must_use]
    pub fn max_running(&mut self) -> usize {
        self.with(|tasks, _| tasks.table.max_running()).unwrap_or_default()
    }

    /// Makes a call a task.
    ///
    /// Its client gets the new task (with a store, when that has it; TASK-109), and the key of the call is stale. The
    /// call is delivered again ([`Event::Call`](crate::server::Event::Call)) as a run of the task
    /// ([`Call::task_id`]), which is answered by the ordinary commands. A client that goes away does not end it.
    ///
    /// # Errors
    ///
    /// The call stays open. [`UseError::Stale`] if it has ended, [`UseError::MissingPeerCapability`] if it may not become
    /// a task ([`Call::task_offer`]), [`UseError::Full`] at a limit ([`TaskLimits`](crate::server::TaskLimits)),
    /// [`UseError::NotDeclared`] without tasks.
    pub fn begin(&mut self, call: &Call, options: TaskOptions) -> Result<(), UseError> {
        self.with(|tasks, cx| tasks.begin_task(cx, call, options))
            .unwrap_or(Err(UseError::NotDeclared(Capability::Tasks)))
    }

    /// Sets the message of the task that a call runs, for example what it works at.
    ///
    /// It is cut after 1 KiB. A client that listens is told at most once a second. A message within a second of the last
    /// notification is not announced later by itself: polls show it, and so does the next notification. Returns false if nothing changed, if
    /// there is no room for it, or if the call has ended or runs no task.
    pub fn working(&mut self, run: CallId, message: &str) -> bool {
        let changed = self.with(|tasks, cx| tasks.change_message(cx, run.0, clip(message)));
        changed.unwrap_or(false)
    }

    /// Returns the next thing that the store has to do; `None` without a [store](TaskTable::stored).
    pub fn poll_store(&mut self) -> Option<StoreEffect> {
        self.with(|tasks, _| tasks.table.poll_store()).flatten()
    }

    /// Returns whether the store has everything. Effects that it has failed at are tried again later.
    #[must_use]
    pub fn is_saved(&mut self) -> bool {
        self.with(|tasks, _| tasks.table.is_saved()).unwrap_or(true)
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
        self.with(|tasks, cx| tasks.table.handle_deleted(cx.endpoint.now, id, version, is_ok));
    }

    /// Restores a task from a record of the store, also beyond the [limits](crate::server::TaskLimits).
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

// Settings of a new task.

/// Settings of a new task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskOptions {
    /// Time from creation to expiry. The default is that which the client asks for, else
    /// [`TaskLimits::default_ttl`](crate::server::TaskLimits::default_ttl).
    pub ttl: Option<Duration>,
    /// Suggested time between two polls. The default is [`TaskLimits::poll_interval`](crate::server::TaskLimits::poll_interval).
    pub poll_interval: Option<Duration>,
    /// Message for the client. The default is none.
    pub message: Option<String>,
}

impl TaskOptions {
    /// Creates the default settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time from creation to expiry.
    #[must_use]
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the suggested time between two polls.
    #[must_use]
    pub const fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = Some(interval);
        self
    }

    /// Sets the message for the client.
    #[must_use]
    pub fn message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}
