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

mod cancellations;
mod followed;
mod handle;
pub(super) mod polling;
mod questions;
mod requests;
mod states;
mod table;
mod tool_tasks;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use self::cancellations::{Cancellations, NO_CALL};
use self::followed::{FollowedTask, Question, TaskListen};
pub use self::handle::{ParseTaskHandleError, StartedTask, TaskHandle};
pub use self::polling::TaskPolling;
use self::states::{StateSource, read_state};
pub(super) use self::table::WriteAnswer;
pub(super) use self::table::{TaskDeadline, TaskOutcome, TaskTable, new_table};
pub use self::tool_tasks::ToolTasks;
use super::common::CommonState;
use super::input::check_input_response;
use crate::calls::endpoint::EndpointTimer;
use crate::calls::outbound::{CallPurpose, CallTask};
use crate::error::{CallError, UseError};
use crate::methods;
use crate::model::{Task, TaskId};
use crate::raw::RawJson;
use crate::slab::Key;
use crate::tasks::MAX_TASK_ID;

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

impl TaskTable for FollowedTasks {
    fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.cancellations.is_empty()
    }

    fn is_followed(&self, call: Key) -> bool {
        self.tasks.contains_key(&call)
    }

    fn call_of(&self, id: &TaskId) -> Option<Key> {
        self.calls_of(id).next()
    }

    fn is_listen(&self, common: &CommonState, request: Key) -> bool {
        let purpose = common.endpoint.outbound.calls.get(request).map(|sent| sent.purpose);
        let Some(CallPurpose::Task(call)) = purpose else { return false };
        self.tasks.get(&call).is_some_and(|followed| followed.listen == TaskListen::Open(request))
    }

    fn read(&self, role: CallTask, result: &RawJson) -> Result<Option<Box<Task<'static>>>, CallError> {
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
        Ok(Some(Box::new(task.into_owned())))
    }

    fn begin(&mut self, common: &mut CommonState, call: Key, task: Box<Task<'static>>) -> TaskOutcome {
        self.follow(common, call, task.task_id.clone(), true);
        self.receive_state(common, call, *task, StateSource::Creation)
    }

    fn wait(&mut self, common: &mut CommonState, call: Key, id: &TaskId) {
        self.follow(common, call, id.clone(), false);
        self.poll(common, call);
        self.rearm(common, call);
    }

    fn cancel_late(&mut self, common: &mut CommonState, result: &RawJson) {
        let Ok(Some(task)) = Task::from_result(result) else { return };
        if self.call_of(&task.task_id).is_none() && check_id(task.task_id.as_str()).is_ok() {
            self.cancel(common, &task.task_id);
        }
    }

    fn receive_outcome(
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

    fn receive_notification(
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

    fn count_question(&mut self, common: &CommonState, call: Key, is_alone: bool) -> Result<(), CallError> {
        let limit = common.endpoint.limits.max_input_rounds;
        let Some(followed) = self.tasks.get_mut(&call).filter(|_| is_alone) else { return Ok(()) };
        followed.rounds = followed.rounds.saturating_add(1);
        if followed.rounds > limit { Err(CallError::TooManyRounds { limit }) } else { Ok(()) }
    }

    fn handle_deadline(&mut self, common: &mut CommonState, call: Key) -> TaskDeadline {
        let now = common.endpoint.now;
        let Some(followed) = self.tasks.get(&call) else { return TaskDeadline::None };
        if followed.input_deadline.is_some_and(|at| now >= at) {
            return TaskDeadline::InputTimedOut;
        }
        if now >= followed.next_poll {
            // The result may have been lost after the end of the task was known.
            if followed.status.is_terminal() && !common.is_modern() {
                self.request_result(common, call);
            } else {
                self.poll(common, call);
            }
        }
        self.rearm(common, call);
        TaskDeadline::None
    }

    fn handle_timeout(&mut self, common: &mut CommonState) {
        self.send_due_cancellations(common);
    }

    fn end(&mut self, common: &mut CommonState, call: Key, outcome: &Result<RawJson, CallError>) {
        let Some(followed) = self.tasks.remove(&call) else { return };
        self.by_id.remove(&(followed.id.clone(), call));
        common.retained_bytes = common.retained_bytes.saturating_sub(followed.charged_bytes);
        let is_closed = matches!(outcome, Err(CallError::Closed(_)));
        let listen = match followed.listen {
            TaskListen::Open(request) => Some(request),
            TaskListen::Unneeded | TaskListen::Ended => None,
        };
        for request in [followed.poll, followed.result, followed.update, listen].into_iter().flatten() {
            if !is_closed {
                common.endpoint.send_cancellation(request, None);
            }
            common.endpoint.outbound.calls.remove(request);
        }
        let mut heir = self.call_of(&followed.id).and_then(|call| self.tasks.get_mut(&call));
        for (name, question) in followed.questions {
            match (question, &mut heir) {
                (Question::Open { serial, .. }, _) => {
                    self.open_inputs.remove(&serial);
                    questions::withdraw_input(common, serial);
                }
                (question, Some(heir)) => {
                    common.retained_bytes += name.len();
                    heir.inherit(name, question);
                }
                (_, None) => {}
            }
        }
        let has_ended = followed.status.is_terminal()
            || matches!(outcome, Err(CallError::TaskCancelled { .. } | CallError::TaskLost(_)));
        if followed.is_owned && !has_ended && !is_closed {
            self.cancel(common, &followed.id);
        }
    }

    fn answer(
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

    fn take_refused(&mut self, serial: u64) -> Option<Key> {
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
        let first = (id.clone(), Key { slot: 0, generation: 0 });
        let id = id.clone();
        self.by_id.range(first..).take_while(move |(other, _)| *other == id).map(|(_, call)| *call)
    }

    /// Begins to follow a task. `is_owned` tells that the call has created it.
    fn follow(&mut self, common: &mut CommonState, call: Key, id: TaskId, is_owned: bool) {
        let (now, polling) = (common.endpoint.now, common.config.polling());
        let is_modern = common.is_modern();
        common.endpoint.outbound.calls.supersede(call);
        let Some(parked) = common.endpoint.outbound.calls.get_mut(call) else { return };
        let retained = parked.retained.take().map_or(0, |kept| kept.len());
        // Progress does not delay polls, and the token stays valid in 2025-11-25 (TASK-033, TASK-127).
        parked.progress_resets_timeout = false;
        parked.task = if is_modern { CallTask::None } else { CallTask::Running };
        if !parked.has_explicit_total {
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
