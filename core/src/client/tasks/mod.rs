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
pub(super) mod polling;
mod questions;
mod requests;
mod table;
mod tool_tasks;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::Bytes;

use self::followed::{FollowedTask, TaskListen};
pub use self::handle::{ParseTaskHandleError, StartedTask, TaskHandle};
pub use self::polling::TaskPolling;
use self::requests::cancel_task;
pub(super) use self::table::{TaskTable, WriteAnswer, new_table};
pub use self::tool_tasks::ToolTasks;
use super::common::CommonState;
use super::event::Event;
use crate::calls::endpoint::EndpointTimer;
use crate::calls::outbound::{CallKey, CallTask};
use crate::error::CallError;
use crate::methods;
use crate::model::{Task, TaskId, TaskStatus};
use crate::raw::RawJson;
use crate::rpc::{RpcError, code};
use crate::slab::Key;
use crate::tasks::MAX_TASK_ID;
use crate::tasks::pace::is_transient;

/// Tasks that calls follow; see the [module](self).
///
/// Invariants: `by_id` has an entry for each task; `open_inputs` has one for each open question of a task. Their number
/// is bounded by that of the calls, and by [`Limits::max_inputs`](crate::Limits::max_inputs) for each.
#[derive(Debug, Default)]
pub(super) struct FollowedTasks {
    tasks: BTreeMap<Key, FollowedTask>,
    /// Calls by the ids of their tasks.
    by_id: BTreeSet<(TaskId, Key)>,
    /// Unanswered input requests, by the serial number in their [`InputId`](super::InputId).
    open_inputs: BTreeMap<u64, (Key, Box<str>)>,
}

/// The end of a call that follows a task, if it has one now.
pub(super) type TaskOutcome = Option<Result<RawJson, CallError>>;

/// The source of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StateSource {
    /// The result that created the task.
    Creation,
    /// The result of `tasks/get`.
    Poll,
    /// A notification.
    Notification,
}

/// Meaning of a deadline of a call that follows a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TaskDeadline {
    /// It was handled.
    None,
    /// The input has not come in time.
    InputTimedOut,
}

/// Reads a state.
///
/// # Errors
///
/// [`CallError::InvalidTask`].
pub(super) fn read_state(result: &RawJson) -> Result<Task<'static>, CallError> {
    match result.parse::<Task<'_>>() {
        Ok(task) => Ok(task.into_owned()),
        Err(error) => Err(CallError::InvalidTask { reason: alloc::format!("{error}") }),
    }
}

impl FollowedTasks {
    /// Returns whether there is nothing to keep.
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns whether a call follows a task.
    pub(super) fn is_followed(&self, call: Key) -> bool {
        self.tasks.contains_key(&call)
    }

    /// Returns a call that follows the task with this id.
    pub(super) fn call_of(&self, id: &TaskId) -> Option<Key> {
        self.calls_of(id).next()
    }

    fn calls_of<'s>(&'s self, id: &TaskId) -> impl Iterator<Item = Key> + use<'s> {
        let first = (id.clone(), Key { slot: 0, generation: 0 });
        let id = id.clone();
        self.by_id.range(first..).take_while(move |(other, _)| *other == id).map(|(_, call)| *call)
    }

    /// Begins to follow a task. `is_owned` tells that the call has created it.
    pub(super) fn begin(
        &mut self,
        common: &mut CommonState,
        call: Key,
        task: Task<'static>,
        source: StateSource,
    ) -> TaskOutcome {
        if task.task_id.as_str().len() > MAX_TASK_ID {
            let reason = alloc::format!("the id is longer than {MAX_TASK_ID} bytes");
            return Some(Err(CallError::InvalidTask { reason }));
        }
        let (now, polling) = (common.endpoint.now, common.config.polling());
        let is_modern = common.is_modern();
        common.endpoint.outbound.calls.supersede(call);
        let parked = common.endpoint.outbound.calls.get_mut(call)?;
        let retained = parked.retained.take().map_or(0, |kept| kept.len());
        // Progress does not delay polls, and the token stays valid in 2025-11-25 (TASK-033, TASK-127).
        parked.progress_resets_timeout = false;
        parked.task = if is_modern { CallTask::None } else { CallTask::Running };
        if !parked.has_explicit_total {
            parked.total_deadline = now + polling.max_wait;
        }
        common.retained_bytes = common.retained_bytes.saturating_sub(retained);
        let followed = FollowedTask::new(now, &task, source == StateSource::Creation);
        self.by_id.insert((followed.id.clone(), call));
        self.tasks.insert(call, followed);
        self.receive_state(common, call, task, source)
    }

    /// Handles a state of the task.
    pub(super) fn receive_state(
        &mut self,
        common: &mut CommonState,
        call: Key,
        mut task: Task<'static>,
        source: StateSource,
    ) -> TaskOutcome {
        let (now, polling) = (common.endpoint.now, common.config.polling());
        let followed = self.tasks.get_mut(&call)?;
        // Terminal states never change, so this one is older (TASK-013).
        if followed.status.is_terminal() && !task.status.is_terminal() {
            if source == StateSource::Poll {
                followed.postpone(now, &polling);
                self.rearm(common, call);
            }
            return None;
        }
        let is_new = match followed.record(now, &task, &polling) {
            Ok(is_new) => is_new,
            Err(error) => return Some(Err(error)),
        };
        if is_new || source == StateSource::Creation {
            common.events.push_back(Event::Task { call: CallKey(call), task: Box::new(task.clone()) });
        }
        let outcome = if common.is_modern() {
            self.apply_modern_state(common, call, &mut task, source)
        } else {
            self.apply_legacy_state(common, call, &task)
        };
        if outcome.is_none() {
            self.listen_if_useful(common, call);
            self.rearm(common, call);
        }
        outcome
    }

    /// Applies a state of 2026-07-28, which contains what belongs to its status (TASK-112).
    fn apply_modern_state(
        &mut self,
        common: &mut CommonState,
        call: Key,
        task: &mut Task<'static>,
        source: StateSource,
    ) -> TaskOutcome {
        let missing = |member: &str| {
            let reason = alloc::format!("a task that is {} has no `{member}`", task.status);
            Some(Err(CallError::InvalidTask { reason }))
        };
        match task.status {
            TaskStatus::Cancelled => return Some(Err(cancelled(task))),
            TaskStatus::Completed => match task.result.take() {
                Some(result) => return Some(Ok(result)),
                None if source == StateSource::Poll => return missing("result"),
                None => {}
            },
            TaskStatus::Failed => match task.error.take() {
                Some(error) => return Some(Err(rpc_error(&error))),
                None if source == StateSource::Poll => return missing("error"),
                None => {}
            },
            TaskStatus::InputRequired => match task.input_requests.take() {
                Some(requests) => return self.ask(common, call, requests).err().map(Err),
                None if source == StateSource::Poll => return missing("inputRequests"),
                None => {}
            },
            _ => {
                self.withdraw(common, call, &[]);
                return None;
            }
        }
        // The state in another message need not be complete. Such messages do not make polls more frequent.
        let (soon, followed) =
            (common.endpoint.now + common.config.polling().min_interval, self.tasks.get_mut(&call)?);
        followed.next_poll = followed.next_poll.min(soon);
        None
    }

    /// Applies a state of 2025-11-25, where result and questions are requested apart (TASK-019, TASK-021).
    fn apply_legacy_state(&mut self, common: &mut CommonState, call: Key, task: &Task<'_>) -> TaskOutcome {
        let followed = self.tasks.get_mut(&call)?;
        let early = followed.early_error.take();
        match task.status {
            TaskStatus::Cancelled => Some(Err(cancelled(task))),
            TaskStatus::Failed if early.is_some() => early.map(|error| Err(CallError::Rpc(error))),
            TaskStatus::Completed | TaskStatus::Failed | TaskStatus::InputRequired => {
                self.request_result(common, call);
                None
            }
            _ => None,
        }
    }

    /// Handles the answer to a request about a task. The call may have ended.
    pub(super) fn receive_outcome(
        &mut self,
        common: &mut CommonState,
        request: Key,
        call: Key,
        outcome: Result<RawJson, CallError>,
    ) -> TaskOutcome {
        common.endpoint.outbound.calls.remove(request);
        common.endpoint.sweep();
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

    fn receive_poll(
        &mut self,
        common: &mut CommonState,
        call: Key,
        outcome: Result<RawJson, CallError>,
    ) -> TaskOutcome {
        match outcome {
            Ok(result) => match read_state(&result) {
                Ok(task) if self.tasks.get(&call).is_some_and(|followed| followed.id != task.task_id) => {
                    let reason = "the state is that of another task".into();
                    Some(Err(CallError::InvalidTask { reason }))
                }
                Ok(task) => self.receive_state(common, call, task, StateSource::Poll),
                Err(error) => Some(Err(error)),
            },
            Err(CallError::Rpc(error)) if error.code == code::INVALID_PARAMS => {
                Some(Err(CallError::TaskLost(error)))
            }
            Err(error) => self.receive_failure(common, call, error),
        }
    }

    /// Handles a failed request about a task. Failures of the transport are not the outcome of the task.
    fn receive_failure(&mut self, common: &CommonState, call: Key, error: CallError) -> TaskOutcome {
        if !is_transient(&error) {
            return Some(Err(error));
        }
        let (now, polling) = (common.endpoint.now, common.config.polling());
        self.tasks.get_mut(&call)?.record_failure(now, error, &polling).err().map(Err)
    }

    /// Handles the answer to `tasks/result` (TASK-019).
    fn receive_result(
        &mut self,
        common: &mut CommonState,
        call: Key,
        outcome: Result<RawJson, CallError>,
    ) -> TaskOutcome {
        let max_failures = common.config.polling().max_failures;
        let followed = self.tasks.get_mut(&call)?;
        let error = match outcome {
            Ok(result) => {
                followed.status = TaskStatus::Completed;
                return Some(Ok(result));
            }
            Err(error) => error,
        };
        match (&followed.status, error) {
            (TaskStatus::Completed, CallError::Rpc(error)) if error.code == code::INVALID_PARAMS => {
                return Some(Err(CallError::TaskLost(error)));
            }
            (TaskStatus::Completed | TaskStatus::Failed, error @ CallError::Rpc(_)) => {
                return Some(Err(error));
            }
            (_, error) => {
                followed.result_failures = followed.result_failures.saturating_add(1);
                let is_final = !is_transient(&error) && !matches!(error, CallError::Rpc(_));
                if is_final || followed.result_failures >= max_failures.max(1) {
                    return Some(Err(error));
                }
                // Whether that was the outcome of the task, its state tells.
                match error {
                    CallError::Rpc(error) => followed.early_error = Some(error),
                    error => return self.receive_failure(common, call, error),
                }
            }
        }
        self.poll(common, call);
        None
    }

    /// Handles a notification about a task. Returns the calls with their outcomes, or `None` if no call follows it.
    pub(super) fn receive_notification(
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

    /// Handles a deadline of a call that is not its total timeout.
    pub(super) fn handle_deadline(&mut self, common: &mut CommonState, call: Key) -> TaskDeadline {
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

    /// Arms the deadline of a call for what its task needs next.
    fn rearm(&self, common: &mut CommonState, call: Key) {
        let Some(followed) = self.tasks.get(&call) else { return };
        let Some(parked) = common.endpoint.outbound.calls.get_mut(call) else { return };
        parked.idle_deadline = followed.wakes_at();
        common.endpoint.deadlines.arm(parked.deadline(), EndpointTimer::Outbound(call));
    }

    /// Ends what was begun for a call that has ended: requests, input requests, and the task itself if the call created
    /// it and it still runs (TASK-028, TASK-122).
    pub(super) fn end(&mut self, common: &mut CommonState, call: Key, outcome: &Result<RawJson, CallError>) {
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
        for question in followed.questions.values() {
            if let followed::Question::Open { serial, .. } = question {
                self.open_inputs.remove(serial);
                questions::withdraw_input(common, *serial);
            }
        }
        let has_ended = followed.status.is_terminal()
            || matches!(outcome, Err(CallError::TaskCancelled { .. } | CallError::TaskLost(_)));
        if followed.is_owned && !has_ended && !is_closed {
            cancel_task(common, Some(call), &followed.id);
        }
    }
}

fn cancelled(task: &Task<'_>) -> CallError {
    CallError::TaskCancelled { message: task.status_message.clone() }
}

/// Reads the error of a task that has failed.
fn rpc_error(error: &RawJson) -> CallError {
    let code = error.member("code").and_then(|code| code.parse::<i64>().ok());
    let message = error.member("message").and_then(|message| message.string());
    match (code, message) {
        (Some(code), Some(message)) => {
            let mut rpc = RpcError::new(code, message);
            rpc.data =
                error.member("data").map(|data| RawJson::trusted(Bytes::copy_from_slice(data.as_bytes())));
            CallError::Rpc(rpc)
        }
        _ => CallError::InvalidTask { reason: "`error` is no error object".into() },
    }
}
