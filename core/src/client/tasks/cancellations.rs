//! Tasks that this client cancels: each request is repeated until the server has answered it, within bounds.

use alloc::vec::Vec;
use core::fmt;

use super::FollowedTasks;
use super::requests::send;
use crate::calls::endpoint::EndpointTimer;
use crate::client::common::CommonState;
use crate::error::CallError;
use crate::methods;
use crate::model::TaskId;
use crate::slab::Key;
use crate::tasks::pace::is_transient;
use crate::time::Instant;

/// Owner of a cancellation in the table of calls: no call has this key.
pub(super) const NO_CALL: Key = Key { slot: u32::MAX, generation: 0 };

/// A task to cancel, whose server has not answered yet.
pub(super) struct Cancellation {
    id: TaskId,
    /// `tasks/cancel` in flight.
    request: Option<Key>,
    /// Number of requests that were made.
    attempts: u32,
    /// Time of the next request, if none is in flight.
    next: Instant,
}

impl FollowedTasks {
    /// Cancels a task that no call waits for any more (TASK-028, TASK-122).
    ///
    /// The request has the timeouts of any call. One that fails like a failed poll is repeated with the same pauses, up to
    /// [`TaskPolling::max_failures`](super::TaskPolling::max_failures) times in all. As many tasks as there may be calls are
    /// remembered for this; the request for a further one is sent once.
    pub(super) fn cancel(&mut self, common: &mut CommonState, id: &TaskId) {
        let max = common.endpoint.limits.effective_max_pending_calls();
        let now = common.endpoint.now;
        let mut cancellation = Cancellation { id: id.clone(), request: None, attempts: 0, next: now };
        cancellation.send(common);
        if self.cancellations.len() < max {
            self.cancellations.push(cancellation);
        }
    }

    /// Handles the answer to `tasks/cancel`. A refusal ends it, too: the task may have ended before.
    pub(super) fn receive_cancelled(
        &mut self,
        common: &mut CommonState,
        request: Key,
        error: Option<CallError>,
    ) {
        let Some(at) = self.cancellations.iter().position(|one| one.request == Some(request)) else { return };
        let polling = common.config.polling();
        let Some(one) = self.cancellations.get_mut(at) else { return };
        if error.is_some_and(|error| is_transient(&error)) && one.attempts < polling.max_failures {
            one.postpone(common);
        } else {
            self.cancellations.swap_remove(at);
        }
    }

    /// Sends the cancellations that are due.
    pub(super) fn send_due_cancellations(&mut self, common: &mut CommonState) {
        let (now, max) = (common.endpoint.now, common.config.polling().max_failures.max(1));
        self.cancellations.retain_mut(|one| {
            if one.request.is_some() || one.next > now {
                return true;
            }
            if one.attempts >= max {
                return false;
            }
            one.send(common);
            true
        });
    }
}

impl Cancellation {
    /// Sends the request. Without room for it the attempt counts, and is repeated later.
    fn send(&mut self, common: &mut CommonState) {
        self.attempts = self.attempts.saturating_add(1);
        self.request = send(common, NO_CALL, methods::TASKS_CANCEL, &self.id, |_| {});
        if self.request.is_none() {
            self.postpone(common);
        }
    }

    fn postpone(&mut self, common: &mut CommonState) {
        self.request = None;
        self.next = common.endpoint.now + common.config.polling().interval(None, self.attempts);
        common.endpoint.deadlines.arm(self.next, EndpointTimer::Tasks);
    }
}

/// Omits the id.
impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellation").field("attempts", &self.attempts).finish_non_exhaustive()
    }
}

/// Cancellations in the order in which they began.
pub(super) type Cancellations = Vec<Cancellation>;
