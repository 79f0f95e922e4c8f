//! States of tasks: what a poll, a notification or a result says, and what becomes of the call.

use alloc::boxed::Box;
use core::ops::ControlFlow;
use core::time::Duration;

use bytes::Bytes;

use super::{FollowedTasks, TaskOutcome};
use crate::calls::outbound::CallKey;
use crate::client::common::CommonState;
use crate::client::event::Event;
use crate::error::CallError;
use crate::meta;
use crate::model::{Task, TaskId, TaskStatus};
use crate::raw::RawJson;
use crate::rpc::RpcError;
use crate::slab::Key;
use crate::tasks::follow::{PollPace, cancelled};

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

impl FollowedTasks {
    /// Handles a state of the task.
    pub(super) fn receive_state(
        &mut self,
        common: &mut CommonState,
        call: Key,
        mut task: Task<'static>,
        source: StateSource,
    ) -> TaskOutcome {
        let (now, pace) = (common.endpoint.now, common.config.polling().pace());
        let followed = self.tasks.get_mut(&call)?;
        // Terminal states never change, so this one is older (TASK-013).
        if followed.follow.status.is_terminal() && !task.status.is_terminal() {
            if source == StateSource::Poll {
                followed.follow.postpone(now, &pace);
                self.rearm(common, call);
            }
            return None;
        }
        let poll_at = followed.follow.next_poll;
        let is_new = match followed.record(now, &task, &pace) {
            Ok(is_new) => is_new,
            Err(error) => return Some(Err(error)),
        };
        if source == StateSource::Notification {
            followed.was_notified = true;
            // However many there are, polls keep their pace.
            followed.follow.next_poll = followed.follow.next_poll.min(poll_at);
        }
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
        // Messages overtake each other, so only the answer to a poll that nothing has overtaken withdraws questions.
        let followed = self.tasks.get_mut(&call)?;
        let is_current = source == StateSource::Poll && !followed.was_notified;
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
                Some(requests) => return self.ask(common, call, requests, is_current).err().map(Err),
                None if source == StateSource::Poll => return missing("inputRequests"),
                None => {}
            },
            _ if is_current => {
                self.withdraw(common, call, &[]);
                return None;
            }
            _ if !followed.has_open_questions() => return None,
            _ => {}
        }
        // The state in another message need not be complete. Such messages do not make polls more frequent.
        let (soon, followed) =
            (common.endpoint.now + common.config.polling().min_interval, self.tasks.get_mut(&call)?);
        followed.follow.next_poll = followed.follow.next_poll.min(soon);
        None
    }

    /// Applies a state of 2025-11-25, where result and questions are requested apart (TASK-019, TASK-021).
    fn apply_legacy_state(&mut self, common: &mut CommonState, call: Key, task: &Task<'_>) -> TaskOutcome {
        let followed = self.tasks.get_mut(&call)?;
        // The state tells now what that error was; see `receive_result`.
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

    pub(super) fn receive_poll(
        &mut self,
        common: &mut CommonState,
        call: Key,
        outcome: Result<RawJson, CallError>,
    ) -> TaskOutcome {
        let (now, pace) = (common.endpoint.now, common.config.polling().pace());
        let followed = self.tasks.get_mut(&call)?;
        match followed.follow.receive_poll(now, outcome, &pace) {
            Ok(Some(task)) => self.receive_state(common, call, task, StateSource::Poll),
            Ok(None) => None,
            Err(error) => Some(Err(followed.end_error(now, error))),
        }
    }

    /// Handles the answer to `tasks/result` (TASK-019).
    pub(super) fn receive_result(
        &mut self,
        common: &mut CommonState,
        call: Key,
        outcome: Result<RawJson, CallError>,
    ) -> TaskOutcome {
        let (now, pace) = (common.endpoint.now, common.config.polling().pace());
        let followed = self.tasks.get_mut(&call)?;
        let related = outcome.as_ref().ok().and_then(related_id); // TASK-023
        if related.is_some_and(|id| id != followed.follow.id) {
            let reason = "the result is that of another task".into();
            return Some(Err(CallError::InvalidTask { reason }));
        }
        match followed.follow.receive_result(outcome, &pace) {
            ControlFlow::Break(outcome) => return Some(outcome),
            ControlFlow::Continue(CallError::Rpc(error)) => followed.early_error = Some(error),
            ControlFlow::Continue(error) => {
                let failed = followed.follow.record_failure(now, error, &pace);
                return failed.err().map(|error| Err(followed.end_error(now, error)));
            }
        }
        self.poll(common, call);
        None
    }
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

/// Returns the task that a result says it belongs to.
fn related_id(result: &RawJson) -> Option<TaskId> {
    let related = result.member("_meta")?.member(meta::RELATED_TASK)?;
    Some(related.member("taskId")?.string()?.into())
}

// How tasks are polled.

/// How tasks are polled that the client follows.
///
/// The server proposes the time between two polls (TASK-017, TASK-114). It is used within [`min_interval`] and
/// [`max_interval`].
///
/// A task that asks the user without end is ended by [`Limits::max_input_rounds`](crate::Limits::max_input_rounds).
///
/// [`min_interval`]: Self::min_interval
/// [`max_interval`]: Self::max_interval
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TaskPolling {
    /// Shortest time between two polls (default 100 ms).
    pub min_interval: Duration,
    /// Time between two polls if the server proposes none or zero (default 1 s).
    pub default_interval: Duration,
    /// Longest time between two polls, also after failures (default 60 s).
    pub max_interval: Duration,
    /// Longest total time of a call that follows a task (default 24 h).
    ///
    /// It takes the place of [`Limits::call_total_timeout`](crate::Limits::call_total_timeout) from the creation of the
    /// task on. [`CallOptions::total_timeout`](crate::CallOptions::total_timeout) takes precedence.
    pub max_wait: Duration,
    /// Number of polls in a row that may fail before the call fails (default 5). As often a task is cancelled whose server
    /// does not answer that.
    ///
    /// Failures are those of the transport, timeouts, and internal errors of the server. The time between two polls
    /// doubles with each.
    pub max_failures: u32,
    /// Time between two polls from which on the server is also asked for notifications about the task (default 5 s).
    ///
    /// Only servers of 2026-07-28 are asked, by one more request for each such task (TASK-126). Nothing depends on the
    /// notifications: polls go on. [`Duration::MAX`] turns it off.
    pub listen_from: Duration,
}

impl Default for TaskPolling {
    fn default() -> Self {
        Self {
            min_interval: Duration::from_millis(100),
            default_interval: Duration::from_secs(1),
            max_interval: Duration::from_secs(60),
            max_wait: Duration::from_secs(24 * 3_600),
            max_failures: 5,
            listen_from: Duration::from_secs(5),
        }
    }
}

impl TaskPolling {
    /// Creates the default values.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the shortest and the longest time between two polls.
    #[must_use]
    pub const fn interval_range(mut self, min: Duration, max: Duration) -> Self {
        (self.min_interval, self.max_interval) = (min, max);
        self
    }

    /// Sets the time between two polls if the server proposes none.
    #[must_use]
    pub const fn default_interval(mut self, interval: Duration) -> Self {
        self.default_interval = interval;
        self
    }

    /// Sets the longest total time of a call that follows a task.
    #[must_use]
    pub const fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = wait;
        self
    }

    /// Sets the number of polls in a row that may fail.
    #[must_use]
    pub const fn max_failures(mut self, failures: u32) -> Self {
        self.max_failures = failures;
        self
    }

    /// Sets the time between two polls from which on the server is also asked for notifications.
    #[must_use]
    pub const fn listen_from(mut self, interval: Duration) -> Self {
        self.listen_from = interval;
        self
    }

    pub(super) const fn pace(&self) -> PollPace {
        let Self { min_interval: min, default_interval: default, max_interval: max, max_failures, .. } =
            *self;
        PollPace { min, default, max, max_failures }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TASK-017, TASK-114
    #[test]
    fn interval_is_that_of_the_server_within_bounds() {
        let polling = TaskPolling::default().pace();
        let ms = Duration::from_millis;
        for (proposed, expected) in [
            (Some(ms(500)), ms(500)),
            (None, ms(1_000)),
            (Some(ms(0)), ms(1_000)),
            (Some(ms(1)), ms(100)),
            (Some(Duration::MAX), ms(60_000)),
        ] {
            assert_eq!(polling.interval(proposed, 0), expected, "{proposed:?}");
        }
        assert_eq!(polling.interval(Some(ms(500)), 3), ms(4_000));
        assert_eq!(polling.interval(None, u32::MAX), ms(60_000));
        let odd = TaskPolling::new().interval_range(ms(0), ms(0)).pace();
        assert_eq!(odd.interval(Some(ms(9)), 0), ms(1));
    }
}
