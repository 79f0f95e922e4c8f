//! Tasks that calls follow, in both forms: states are polled, questions asked, results collected (TASK).
//!
//! ```text
//!   tools/call ──task──▶ followed ──interval──▶ tasks/get ──working───────────▶ followed
//!                            ▲                      ├───────input_required─────▶ followed, with input requests
//!                            │                      │                             (tasks/update, or tasks/result opened)
//!                            └──failed poll─────────┤
//!                                                   └───────terminal───────────▶ outcome (tasks/result in 2025-11-25)
//! ```
//! The call stays in the table as *superseded*, as in the rounds of a modern call. Requests about its task are entries of
//! their own, whose answers never end the call by themselves: a task goes on when the transport fails. Notifications
//! about tasks are states that come earlier than the next poll, and nothing depends on them (TASK-025).

mod followed;
mod handle;
mod requests;
pub(super) mod states;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use self::followed::{FollowedTask, Question, TaskListen};
use self::states::StateSource;
use super::common::CommonState;
use super::event::Peer;
use super::input::check_input_response;
use crate::calls::endpoint::EndpointTimer;
use crate::calls::outbound::{CallPurpose, CallTask, ProgressUse, TaskRequest};
use crate::change::Change;
use crate::error::{CallError, UseError};
use crate::json::{EncodeError, ShapeTable, TopLevelMembers};
use crate::methods::{self, Capability};
use crate::model::{self, Task, TaskId};
use crate::raw::RawJson;
use crate::slab::Key;
use crate::tasks::MAX_TASK_ID;
use crate::tasks::follow::{followers_of, read_state};
use crate::version::Version;
use requests::{Cancellations, NO_CALL};

pub use self::handle::{ParseTaskHandleError, StartedTask, TaskHandle};
pub use states::TaskPolling;

/// Checks the id of a task.
///
/// # Errors
///
/// The reason why it is not valid.
pub(in crate::client) fn check_id(id: &str) -> Result<(), String> {
    match id.len() {
        0 => Err("the id of the task is empty".into()),
        1..=MAX_TASK_ID => Ok(()),
        _ => Err(alloc::format!("the id of the task is longer than {MAX_TASK_ID} bytes")),
    }
}

/// Tasks that calls follow; see the [module](self).
///
/// Invariants: `by_id` has an entry for each task; `open_inputs` has one for each open question of a task. Their number
/// is bounded by that of the calls, and by [`Limits::max_inputs`](crate::Limits::max_inputs) for each. Of several calls that
/// follow one task, one has a question in [`FollowedTask::questions`].
#[derive(Debug, Default)]
pub(super) struct FollowedTasks {
    tasks: BTreeMap<Key, FollowedTask>,
    /// Calls by the ids of their tasks.
    by_id: BTreeSet<(TaskId, Key)>,
    /// Unanswered input requests, by the serial number in their [`InputId`](super::InputId).
    open_inputs: BTreeMap<u64, (Key, Box<str>)>,
    cancellations: Cancellations,
}

impl FollowedTasks {
    /// Returns whether there is nothing to keep.
    pub(in crate::client) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.cancellations.is_empty()
    }

    /// Returns whether a call follows a task.
    pub(in crate::client) fn is_followed(&self, call: Key) -> bool {
        self.tasks.contains_key(&call)
    }

    /// Returns a call that follows the task with this id.
    pub(in crate::client) fn call_of(&self, id: &TaskId) -> Option<Key> {
        self.calls_of(id).next()
    }

    /// Returns whether a request is one for notifications about a task.
    pub(in crate::client) fn is_listen(&self, common: &CommonState, request: Key) -> bool {
        let purpose = common.endpoint.outbound.calls.get(request).map(|sent| sent.purpose);
        let Some(CallPurpose::Task(call)) = purpose else { return false };
        self.tasks.get(&call).is_some_and(|followed| followed.listen == TaskListen::Open(request))
    }

    /// Reads the result of a call. `None` means that the call ends with it.
    pub(in crate::client) fn read(
        &self,
        role: CallTask,
        result: &RawJson,
    ) -> Result<Option<Task<'static>>, CallError> {
        if role != CallTask::Follow {
            return Ok(None);
        }
        let invalid = |reason| CallError::InvalidTask { reason };
        let task = Task::from_result(result).map_err(|error| invalid(alloc::format!("{error}")))?;
        let Some(task) = task else { return Ok(None) };
        check_id(task.task_id.as_str()).map_err(invalid)?;
        if self.call_of(&task.task_id).is_some() {
            // Its end would end the task of the other call.
            return Err(invalid("its id is that of another task".into()));
        }
        Ok(Some(task.into_owned()))
    }

    /// Begins to follow the task that a call has created.
    pub(in crate::client) fn begin(
        &mut self,
        common: &mut CommonState,
        call: Key,
        task: Task<'static>,
    ) -> TaskOutcome {
        self.follow(common, call, task.task_id.clone(), true);
        self.receive_state(common, call, task, StateSource::Creation)
    }

    /// Begins to wait for a task that was created before: its state is requested now.
    pub(in crate::client) fn wait(&mut self, common: &mut CommonState, call: Key, id: &TaskId) {
        self.follow(common, call, id.clone(), false);
        self.poll(common, call);
        self.rearm(common, call);
    }

    /// Cancels a task that was created for a call which has ended, unless another call follows it.
    pub(in crate::client) fn cancel_late(&mut self, common: &mut CommonState, result: &RawJson) {
        let Ok(Some(task)) = Task::from_result(result) else { return };
        if self.call_of(&task.task_id).is_none() && check_id(task.task_id.as_str()).is_ok() {
            self.cancel(common, &task.task_id);
        }
    }

    /// Handles the answer to a request about a task. The call may have ended.
    pub(in crate::client) fn receive_outcome(
        &mut self,
        common: &mut CommonState,
        request: Key,
        call: Key,
        outcome: Result<RawJson, CallError>,
    ) -> TaskOutcome {
        common.endpoint.outbound.calls.remove(request);
        common.endpoint.sweep();
        if call == NO_CALL {
            self.receive_cancelled(common, request, outcome.err());
            return None;
        }
        let followed = self.tasks.get_mut(&call)?;
        if followed.listen == TaskListen::Open(request) {
            // Its end says nothing about the task.
            followed.listen = TaskListen::Ended;
            return None;
        }
        let is_answer_of = |slot: &mut Option<Key>| slot.take_if(|key| *key == request).is_some();
        let outcome = if is_answer_of(&mut followed.poll) {
            self.receive_poll(common, call, outcome)
        } else if is_answer_of(&mut followed.result) {
            self.receive_result(common, call, outcome)
        } else if is_answer_of(&mut followed.update) {
            self.receive_update(common, call, outcome.map(drop))
        } else {
            None
        };
        if outcome.is_none() {
            self.rearm(common, call);
        }
        outcome
    }

    /// Handles a notification about a task. Returns the calls with their outcomes, or `None` if no call follows it.
    pub(in crate::client) fn receive_notification(
        &mut self,
        common: &mut CommonState,
        params: &RawJson,
    ) -> Option<Vec<(Key, TaskOutcome)>> {
        let id = TaskId::from(params.member("taskId")?.string()?);
        let calls: Vec<Key> = self.calls_of(&id).collect();
        if calls.is_empty() {
            return None;
        }
        let Ok(task) = read_state(params) else {
            // Nothing depends on notifications, so a faulty one ends nothing.
            common.diagnose(crate::Diagnostic::InvalidNotification(methods::TASK_STATUS.into()));
            return Some(Vec::new());
        };
        let outcomes = calls
            .into_iter()
            .map(|call| (call, self.receive_state(common, call, task.clone(), StateSource::Notification)));
        Some(outcomes.collect())
    }

    /// Counts a request of the server that belongs to the task of a call (2025-11-25). `is_alone` tells that no other one
    /// is open.
    ///
    /// # Errors
    ///
    /// The outcome of the call, after too many rounds.
    pub(in crate::client) fn count_question(
        &mut self,
        common: &CommonState,
        call: Key,
        is_alone: bool,
    ) -> Result<(), CallError> {
        let limit = common.endpoint.limits.max_input_rounds;
        let Some(followed) = self.tasks.get_mut(&call).filter(|_| is_alone) else { return Ok(()) };
        followed.rounds = followed.rounds.saturating_add(1);
        if followed.rounds > limit { Err(CallError::TooManyRounds { limit }) } else { Ok(()) }
    }

    /// Handles a deadline of a call that is not its total timeout. Returns whether the input has not come in time.
    pub(in crate::client) fn handle_deadline(&mut self, common: &mut CommonState, call: Key) -> bool {
        let now = common.endpoint.now;
        let Some(followed) = self.tasks.get(&call) else { return false };
        if followed.input_deadline.is_some_and(|at| now >= at) {
            return true;
        }
        if now >= followed.follow.next_poll {
            // The result may have been lost after the end of the task was known.
            if followed.follow.status.is_terminal() && !common.is_modern() {
                self.request_result(common, call);
            } else {
                self.poll(common, call);
            }
        }
        self.rearm(common, call);
        false
    }

    /// Ends what was begun for a call that has ended: requests, input requests, and the task itself if the call created
    /// it and it still runs (TASK-028, TASK-122).
    pub(in crate::client) fn end(
        &mut self,
        common: &mut CommonState,
        call: Key,
        outcome: &Result<RawJson, CallError>,
    ) {
        let Some(followed) = self.tasks.remove(&call) else { return };
        self.by_id.remove(&(followed.follow.id.clone(), call));
        common.retained_bytes = common.retained_bytes.saturating_sub(followed.charged_bytes);
        let is_closed = matches!(outcome, Err(CallError::Closed(_)));
        let listen = match followed.listen {
            TaskListen::Open(request) => Some(request),
            TaskListen::Unneeded | TaskListen::Ended => None,
        };
        for request in [followed.poll, followed.result, followed.update, listen].into_iter().flatten() {
            // Nothing is sent on a connection that has ended.
            if !is_closed {
                common.endpoint.send_cancellation(request, None);
            }
            common.endpoint.outbound.calls.remove(request);
        }
        // The call itself was removed above, so this is another call that follows the task.
        let mut heir = self.call_of(&followed.follow.id).and_then(|call| self.tasks.get_mut(&call));
        for (name, question) in followed.questions {
            match (question, &mut heir) {
                (Question::Open { serial, .. }, _) => {
                    self.open_inputs.remove(&serial);
                    followed::withdraw_input(common, serial);
                }
                (question, Some(heir)) => {
                    // This charge was a part of `charged_bytes`, which was given back above.
                    common.retained_bytes += name.len();
                    heir.inherit(name, question);
                }
                (_, None) => {}
            }
        }
        if followed.is_owned && followed.follow.runs_after(outcome) {
            self.cancel(common, &followed.follow.id);
        }
    }

    /// Records an answer and sends it.
    ///
    /// # Errors
    ///
    /// As [`Engine::answer`](crate::client::Engine::answer).
    pub(in crate::client) fn answer(
        &mut self,
        common: &mut CommonState,
        serial: u64,
        write: WriteAnswer<'_>,
    ) -> Result<(), UseError> {
        let (call, name) = self.open_inputs.get(&serial).ok_or(UseError::Stale)?;
        let call = *call;
        let followed = self.tasks.get_mut(&call).ok_or(UseError::Stale)?;
        let question = followed.questions.get_mut(name).ok_or(UseError::Stale)?;
        let Question::Open { method, .. } = question else { return Err(UseError::Stale) };
        let mut text = Vec::new();
        let members = write(&mut text, common.shape_table()).map_err(UseError::from)?;
        check_input_response(method, members, &text)?;
        *question = Question::Answered { text: text.into(), attempts: 0, in_flight: false };
        if !followed.has_open_questions() {
            followed.input_deadline = None;
        }
        self.open_inputs.remove(&serial);
        self.send_answers(common, call);
        self.rearm(common, call);
        Ok(())
    }

    /// Removes an input request that the application refuses. Returns its call.
    pub(in crate::client) fn take_refused(&mut self, serial: u64) -> Option<Key> {
        let (call, name) = self.open_inputs.remove(&serial)?;
        // Another call that follows the task may ask it.
        if let Some(followed) = self.tasks.get_mut(&call) {
            followed.questions.remove(&name);
        }
        Some(call)
    }
}

impl FollowedTasks {
    fn calls_of<'s>(&'s self, id: &TaskId) -> impl Iterator<Item = Key> + use<'s> {
        followers_of(&self.by_id, id)
    }

    /// Begins to follow a task. `is_owned` tells that the call has created it.
    fn follow(&mut self, common: &mut CommonState, call: Key, id: TaskId, is_owned: bool) {
        let (now, polling) = (common.endpoint.now, common.config.polling());
        let is_modern = common.is_modern();
        common.endpoint.outbound.calls.supersede(call);
        let Some(parked) = common.endpoint.outbound.calls.get_mut(call) else { return };
        // A call that has become a task is not sent again, so what a retry would need is freed.
        let retained = core::mem::take(&mut parked.retained).len();
        // Progress does not delay polls, and the token stays valid in 2025-11-25 (TASK-033, TASK-127).
        if parked.wants_progress() {
            parked.progress = ProgressUse::Report;
        }
        parked.task = if is_modern { CallTask::None } else { CallTask::Running };
        if !parked.has_explicit_total {
            // The default total timeout is that of a plain call, and a task may run for hours.
            parked.total_deadline = now + polling.max_wait;
        }
        common.retained_bytes = common.retained_bytes.saturating_sub(retained);
        self.by_id.insert((id.clone(), call));
        self.tasks.insert(call, FollowedTask::new(now, id, is_owned));
    }

    /// Arms the deadline of a call for what its task needs next.
    fn rearm(&self, common: &mut CommonState, call: Key) {
        let Some(followed) = self.tasks.get(&call) else { return };
        let Some(parked) = common.endpoint.outbound.calls.get_mut(call) else { return };
        parked.idle_deadline = followed.wakes_at();
        common.endpoint.deadlines.arm(parked.deadline(), EndpointTimer::Outbound(call));
    }
}

// The table of followed tasks as the rest of the client reaches it.

/// Writes an answer in the shape of a revision.
pub(super) type WriteAnswer<'a> =
    &'a mut dyn FnMut(&mut Vec<u8>, Option<&'static ShapeTable>) -> Result<TopLevelMembers, EncodeError>;

/// The end of a call that follows a task, if it has one now.
pub(super) type TaskOutcome = Option<Result<RawJson, CallError>>;

// Which tools of a server of 2025-11-25 may or must be called as tasks, from its list of tools.

/// The tools of a server that may or must be called as tasks (2025-11-25; TASK-004 to TASK-007).
///
/// Independent of the engine: create one per connection with [`for_peer`](Self::for_peer), pass each complete list of
/// tools to [`set_tools`](Self::set_tools), from the wire or from a cache, and take the requests for tasks from
/// [`request`](Self::request). A server of 2026-07-28 decides by itself, so no list is needed.
///
/// A list takes a while, over all of its pages, and may change meanwhile. Ask for the
/// [`generation`](Self::generation) before the first page, and pass it with the list to
/// [`set_listed`](Self::set_listed): a list that began before a change does not apply.
///
/// At most [`MAX_TOOLS`](Self::MAX_TOOLS) tools with [`MAX_BYTES`](Self::MAX_BYTES) of names are kept. Further tools
/// count as tools that run as no task.
#[derive(Clone, Debug, Default)]
pub struct ToolTasks {
    server: ServerTasks,
    /// Tools that may or must be called as tasks; `None` before the list is known.
    tools: Option<BTreeMap<String, ToolTask>>,
    generation: u64,
}

/// How a server makes tasks of tools.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum ServerTasks {
    /// Not at all.
    #[default]
    None,
    /// On request, if the list of tools says so (2025-11-25).
    OnRequest,
    /// As it decides itself (since 2026-07-28; TASK-103).
    ByItself,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ToolTask {
    Optional,
    Required,
}

impl ToolTasks {
    /// Maximum number of tools.
    pub const MAX_TOOLS: usize = 4_096;
    /// Maximum number of bytes of names.
    pub const MAX_BYTES: usize = 1 << 20;

    /// Creates an empty table for a server.
    #[must_use]
    pub fn for_peer(peer: &Peer) -> Self {
        let server = match peer.version {
            Version::V2025_11_25 if peer.has(Capability::ToolTasks) => ServerTasks::OnRequest,
            version if version > Version::V2025_11_25 => ServerTasks::ByItself,
            _ => ServerTasks::None,
        };
        Self { server, tools: None, generation: 0 }
    }

    /// Returns the number of changes of the list so far.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Replaces the table by what a complete list of tools says, unless the list has changed since `generation`. Returns
    /// whether it applies.
    pub fn set_listed(&mut self, generation: u64, tools: &[RawJson]) -> bool {
        let is_current = generation == self.generation;
        if is_current {
            self.set_tools(tools);
        }
        is_current
    }

    /// Replaces the table by what the complete list of tools says.
    pub fn set_tools(&mut self, tools: &[RawJson]) {
        if self.server != ServerTasks::OnRequest {
            return;
        }
        let (mut known, mut bytes) = (BTreeMap::new(), 0);
        for tool in tools {
            let support = tool.member("execution").and_then(|execution| execution.member("taskSupport"));
            let support =
                match support.and_then(|word| word.string()).as_deref().map(model::TaskSupport::from) {
                    Some(model::TaskSupport::Required) => ToolTask::Required,
                    Some(model::TaskSupport::Optional) => ToolTask::Optional,
                    _ => continue,
                };
            let Some(name) = tool.member("name").and_then(|name| name.string()) else { continue };
            bytes += name.len();
            if known.len() >= Self::MAX_TOOLS || bytes > Self::MAX_BYTES {
                break;
            }
            known.insert(name, support);
        }
        self.tools = Some(known);
    }

    /// Clears the table if the list of tools has changed.
    pub fn handle_change(&mut self, change: &Change) {
        if *change == Change::Tools {
            self.tools = None;
            self.generation += 1;
        }
    }

    /// Returns the request with which a call of `tool` may ask for a task, if it may.
    ///
    /// A call that needs no task (`wanted` is `None`) asks for one only if the tool requires it. To a server that decides
    /// by itself the request says only what becomes of the task.
    #[must_use]
    pub fn request(&self, tool: &str, wanted: Option<TaskRequest>) -> Option<TaskRequest> {
        if self.server == ServerTasks::ByItself {
            return wanted;
        }
        match (self.tools.as_ref()?.get(tool)?, wanted) {
            (ToolTask::Required, wanted) => Some(wanted.unwrap_or(TaskRequest::followed())),
            (ToolTask::Optional, wanted) => wanted,
        }
    }

    /// Returns whether the list of tools is needed to know whether a tool may be called as a task.
    #[must_use]
    pub const fn needs_list(&self) -> bool {
        matches!(self.server, ServerTasks::OnRequest) && self.tools.is_none()
    }
}
