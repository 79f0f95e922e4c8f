//! What a follower knows of a task of its peer: its state, the time of the next poll, and what failures mean.

use alloc::collections::BTreeSet;
use core::ops::ControlFlow;
use core::time::Duration;

use crate::error::{CallError, HttpError};
use crate::model::{Task, TaskId, TaskStatus};
use crate::raw::RawJson;
use crate::rpc::code;
use crate::slab::Key;
use crate::time::Instant;

/// Times between two polls, and the number of failures that a follower survives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PollPace {
    pub(crate) min: Duration,
    /// Time if the peer proposes none or zero.
    pub(crate) default: Duration,
    pub(crate) max: Duration,
    /// Number of polls in a row that may fail, and of requests for the result in all; at least one.
    pub(crate) max_failures: u32,
}

impl PollPace {
    /// Returns the time until the next poll for the proposal of the peer, after this number of failures in a row.
    pub(crate) fn interval(&self, proposed: Option<Duration>, failures: u32) -> Duration {
        let wanted = proposed.filter(|time| !time.is_zero()).unwrap_or(self.default);
        // A loop without pauses would be our mistake, so one millisecond passes even if the range allows none.
        let min = self.min.max(Duration::from_millis(1));
        let interval = wanted.clamp(min, self.max.max(min));
        // The shift is bounded, since a larger one would overflow. `max` cuts the product in any case.
        interval.saturating_mul(1 << failures.min(16)).min(self.max.max(min))
    }
}

/// A task of the peer that is followed to its end.
pub(crate) struct Follow {
    pub(crate) id: TaskId,
    pub(crate) status: TaskStatus,
    /// Time between two polls that the peer proposes.
    pub(crate) proposed_interval: Option<Duration>,
    pub(crate) next_poll: Instant,
    /// Polls that have failed in a row.
    failures: u32,
    /// Requests for the result that have failed.
    pub(crate) result_failures: u32,
}

impl Follow {
    pub(crate) const fn new(now: Instant, id: TaskId) -> Self {
        let status = TaskStatus::Working;
        Self { id, status, proposed_interval: None, next_poll: now, failures: 0, result_failures: 0 }
    }

    /// Begins a new interval, because nothing can be done or found now.
    pub(crate) fn postpone(&mut self, now: Instant, pace: &PollPace) {
        self.next_poll = now + pace.interval(self.proposed_interval, 0);
    }

    /// Records that a state has come, from which the next interval begins.
    pub(crate) fn record_state(&mut self, now: Instant, task: &Task<'_>, pace: &PollPace) {
        self.proposed_interval = task.suggested_interval();
        self.failures = 0;
        self.postpone(now, pace);
    }

    /// Records a failed request about the task. Failures of the transport are not the outcome of the task.
    ///
    /// # Errors
    ///
    /// The outcome of the follower: the failure will last, or is one too many in a row.
    pub(crate) fn record_failure(
        &mut self,
        now: Instant,
        error: CallError,
        pace: &PollPace,
    ) -> Result<(), CallError> {
        self.failures = self.failures.saturating_add(1);
        if !is_transient(&error) || self.failures >= pace.max_failures.max(1) {
            return Err(error);
        }
        let wait = pace.interval(self.proposed_interval, self.failures);
        // The peer proposes this time. Without a bound it could postpone the polls for ever.
        self.next_poll = now + wait.max(retry_after(&error).unwrap_or_default().min(pace.max));
        Ok(())
    }

    /// Takes the answer to `tasks/get`. Returns the state; `None` if it is to be asked for again.
    ///
    /// # Errors
    ///
    /// The outcome of the follower.
    pub(crate) fn receive_poll(
        &mut self,
        now: Instant,
        outcome: Result<RawJson, CallError>,
        pace: &PollPace,
    ) -> Result<Option<Task<'static>>, CallError> {
        match outcome {
            Ok(result) => match read_state(&result)? {
                task if task.task_id != self.id => {
                    Err(CallError::InvalidTask { reason: "the state is that of another task".into() })
                }
                task => Ok(Some(task)),
            },
            // The peer does not know the task, or not any more (TASK-031).
            Err(CallError::Rpc(error)) if error.code == code::INVALID_PARAMS => {
                Err(CallError::TaskLost(error))
            }
            Err(error) => self.record_failure(now, error, pace).map(|()| None),
        }
    }

    /// Takes the answer to `tasks/result` (TASK-019). Returns the outcome of the follower, or a failure that may be the
    /// outcome of the task, which its state tells.
    pub(crate) fn receive_result(
        &mut self,
        outcome: Result<RawJson, CallError>,
        pace: &PollPace,
    ) -> ControlFlow<Result<RawJson, CallError>, CallError> {
        let error = match outcome {
            Ok(result) => {
                // A task that still runs is cancelled with its follower, and this one has its result.
                self.status = TaskStatus::Completed;
                return ControlFlow::Break(Ok(result));
            }
            Err(error) => error,
        };
        match (&self.status, error) {
            (TaskStatus::Completed, CallError::Rpc(error)) if error.code == code::INVALID_PARAMS => {
                ControlFlow::Break(Err(CallError::TaskLost(error)))
            }
            (TaskStatus::Completed | TaskStatus::Failed, error @ CallError::Rpc(_)) => {
                ControlFlow::Break(Err(error))
            }
            (_, error) => {
                self.result_failures = self.result_failures.saturating_add(1);
                let may_pass = is_transient(&error) || matches!(error, CallError::Rpc(_));
                if may_pass && self.result_failures < pace.max_failures.max(1) {
                    return ControlFlow::Continue(error);
                }
                ControlFlow::Break(Err(error))
            }
        }
    }

    /// Returns whether a task still runs whose follower ends with this outcome, so that it can be cancelled.
    pub(crate) fn runs_after(&self, outcome: &Result<RawJson, CallError>) -> bool {
        use CallError::{Closed, TaskCancelled, TaskLost};
        !self.status.is_terminal() && !matches!(outcome, Err(Closed(_) | TaskCancelled { .. } | TaskLost(_)))
    }
}

/// Reads a state.
///
/// # Errors
///
/// [`CallError::InvalidTask`].
pub(crate) fn read_state(result: &RawJson) -> Result<Task<'static>, CallError> {
    match result.parse::<Task<'_>>() {
        Ok(task) => Ok(task.into_owned()),
        Err(error) => Err(CallError::InvalidTask { reason: alloc::format!("{error}") }),
    }
}

/// Returns the outcome of a follower whose task was cancelled.
pub(crate) fn cancelled(task: &Task<'_>) -> CallError {
    CallError::TaskCancelled { message: task.status_message.clone() }
}

/// Returns the outcome of a follower whose task has a status that no revision knows.
pub(crate) fn unknown_status(word: &str) -> CallError {
    CallError::InvalidTask { reason: alloc::format!("`{}` is no status of a task", crate::rpc::clip(word)) }
}

/// Returns the calls or requests that follow the task with this id.
pub(crate) fn followers_of<'s>(
    by_id: &'s BTreeSet<(TaskId, Key)>,
    id: &TaskId,
) -> impl Iterator<Item = Key> + use<'s> {
    // No key is smaller, so the range begins with the first follower of the task.
    let first = (id.clone(), Key { slot: 0, generation: 0 });
    let id = id.clone();
    by_id.range(first..).take_while(move |(other, _)| *other == id).map(|(_, key)| *key)
}

/// Returns whether a request may succeed later, although it failed now.
pub(crate) fn is_transient(error: &CallError) -> bool {
    match error {
        CallError::TimedOut
        | CallError::TotalTimedOut
        | CallError::Misaddressed(_)
        | CallError::Transport { .. } => true,
        // Other codes say that the request is wrong, so it would fail again.
        CallError::Rpc(error) => error.code == code::INTERNAL_ERROR,
        CallError::Http(error) => match &**error {
            HttpError::Response(response) => {
                matches!(response.status, 408 | 425 | 429 | 500..=599)
            }
            HttpError::Unreachable { .. }
            | HttpError::Lost { .. }
            | HttpError::Unanswered { .. }
            | HttpError::SessionLost => true,
            _ => false,
        },
        _ => false,
    }
}

/// Returns the time after which the peer wants to be asked again.
fn retry_after(error: &CallError) -> Option<Duration> {
    let CallError::Http(error) = error else { return None };
    match &**error {
        HttpError::Response(response) => response.retry_after,
        _ => None,
    }
}
